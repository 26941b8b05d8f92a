"""What Koga, Meehan & Chaudhuri (2022) print, in 60-digit arithmetic and by enumeration. No package code."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def gaussian_profile(epsilon, ratio):
    """δ_G(ε; μ) at ``μ = ratio``, by its definition."""
    e, m = mp.mpf(epsilon), mp.mpf(ratio)
    if m == 0:
        return mp.mpf(0)
    with mp.workdps(120):
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def binomial_pmf(n, p):
    p = Fraction(p)
    weight, coefficient = [], 1
    for k in range(n + 1):
        weight.append(coefficient * p**k * (1 - p) ** (n - k))
        coefficient = coefficient * (n - k) // (k + 1)
    return weight


def tail(kept, cap, p):
    """P(Bin(I, p) > I′), exactly."""
    total = sum(binomial_pmf(cap, p)[kept + 1 :], Fraction(0))
    return mp.mpf(total.numerator) / total.denominator


def hoeffding(failure, cap, p):
    return min(mp.mpf(cap), cap * mp.mpf(p) + mp.sqrt(mp.mpf(cap) / 2 * mp.log(1 / mp.mpf(failure))))


def chernoff(alpha, p, exponent_ratio, norm, factor):
    """factor · (e^{x−1}/x^x)^{p·ratio}, uncapped."""
    x = mp.mpf(alpha) ** 2 / (mp.mpf(p) * mp.mpf(norm) ** 2)
    return factor * mp.exp((x - 1 - x * mp.log(x)) * mp.mpf(p) * exponent_ratio)


def theorem4(alpha, p, energy, rank, norm):
    return chernoff(alpha, p, mp.mpf(norm) ** 2 / mp.mpf(energy), norm, 2 * mp.mpf(rank))


def theorem4_sharper(alpha, p, energy, rank, norm):
    x = mp.mpf(alpha) ** 2 / (mp.mpf(p) * mp.mpf(norm) ** 2)
    c = mp.mpf(p) * mp.mpf(norm) ** 2 / mp.mpf(energy)
    return mp.mpf(rank) * mp.expm1((x - 1) * c) / mp.expm1(x * mp.log(x) * c)


def fixed_pair(alpha, cap, p, energy, norm, l1_norm):
    square = mp.mpf(norm) ** 2
    return chernoff(alpha, p, max(square * cap / mp.mpf(l1_norm) ** 2, square / mp.mpf(energy)), norm, 1)


def classical_scale(epsilon, delta, square):
    return mp.sqrt(mp.mpf(square) * 2 * mp.log(mp.mpf("1.25") / mp.mpf(delta))) / mp.mpf(epsilon)


def corollary(epsilon, share, failure, usual, worst):
    """δ_g + δ′(e^{ε√(worst/usual)} − e^ε), uncapped."""
    e = mp.mpf(epsilon)
    factor = mp.exp(e * mp.sqrt(mp.mpf(worst) / mp.mpf(usual))) - mp.exp(e)
    return mp.mpf(share) + mp.mpf(failure) * factor


def exact_profile(epsilon, scale, cap, p):
    """The privacy profile of the sampled Gaussian mechanism without filter: E δ_G(ε; √K/σ), K ~ Bin(I, p)."""
    return mp.fsum(
        mp.mpf(w.numerator) / w.denominator * gaussian_profile(epsilon, mp.sqrt(k) / mp.mpf(scale))
        for k, w in enumerate(binomial_pmf(cap, p))
    )


def sampled_filter(taps, p):
    """Yield (probability, sampled filter matrix B) for every set of kept steps."""
    size = len(taps)
    matrix = np.array([[taps[(i - j) % size] for j in range(size)] for i in range(size)])
    for kept in itertools.product((0.0, 1.0), repeat=size):
        n = sum(kept)
        yield p**n * (1 - p) ** (size - n), np.array(kept)[:, None] * matrix


def probability_of(taps, p, event: Callable[[np.ndarray], bool]) -> float:
    """Probability, over the kept steps, of an event of the sampled filter; by enumeration."""
    return sum(weight for weight, sampled in sampled_filter(taps, p) if event(sampled))
