"""Privacy loss of the subsampled Gaussian in 60-digit arithmetic and by enumeration. No package code."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def gaussian_profile(epsilon, u):
    """δ_G(ε; √u), by its definition."""
    epsilon, ratio = mp.mpf(epsilon), mp.sqrt(mp.mpf(u))
    if ratio == 0:
        return mp.mpf(0)
    with mp.workdps(mp.mp.dps + 40):
        return mp.ncdf(ratio / 2 - epsilon / ratio) - mp.exp(epsilon) * mp.ncdf(-ratio / 2 - epsilon / ratio)


def gaussian_profile_slope(epsilon, u):
    """Its derivative in ``u``, numerically."""
    with mp.workdps(250):  # where the profile is nearly 1, its change is in digits far behind
        return mp.diff(lambda x: gaussian_profile(epsilon, x), mp.mpf(u))


def binomial_law(n, p):
    """``[(k, P(Bin(n, p) = k)), …]``, exactly for the float ``p``."""
    p = mp.mpf(p)
    return [(k, mp.binomial(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]


def binomial_tail(k, n, p):
    """``P(Bin(n, p) > k)``, for small ``n`` or far tails: summed until the terms vanish."""
    p, total = mp.mpf(p), mp.mpf(0)
    term = mp.binomial(n, k + 1) * p ** (k + 1) * (1 - p) ** (n - k - 1) if k < n else mp.mpf(0)
    for j in range(k + 1, n + 1):
        total += term
        if term < total * mp.mpf(10) ** -50:
            break
        term *= mp.mpf(n - j) / (j + 1) * p / (1 - p)
    return total


def kept_law(squares, p):
    """``[(Σ of the kept squares, probability), …]`` over all subsets, equal sums together (exact rationals)."""
    p, law = mp.mpf(p), {Fraction(0): mp.mpf(1)}
    for square in map(Fraction, squares):
        longer = {}
        for value, weight in law.items():
            longer[value] = longer.get(value, 0) + weight * (1 - p)
            longer[value + square] = longer.get(value + square, 0) + weight * p
        law = longer
    return [(mp.mpf(v.numerator) / v.denominator, w) for v, w in law.items()]


def repeated_law(n, m, r, p):
    """Law of ``m·Bin(n, p) + r·Bernoulli(p)``."""
    p = mp.mpf(p)
    for k, weight in binomial_law(n, p):
        yield m * k, weight * (1 - p)
        yield m * k + r, weight * p


def mean(law, function):
    return mp.fsum(weight * function(value) for value, weight in law)


def profile(law, epsilon, scale):
    """``E g(S/σ²)``: the privacy profile of a Gaussian at the random squared distance ``S``."""
    return mean(law, lambda s: gaussian_profile(epsilon, s / mp.mpf(scale) ** 2))


def renyi(law, alpha, scale):
    alpha, scale = mp.mpf(alpha), mp.mpf(scale)
    return mp.log(mean(law, lambda s: mp.exp(alpha * (alpha - 1) * s / (2 * scale**2)))) / (alpha - 1)


def renyi_of_squares(groups, alpha, scale, p):
    """``Σ count·log(1 − p + p·e^{λs})/(α−1)`` over ``(s, count)``."""
    alpha, p = mp.mpf(alpha), mp.mpf(p)
    rate = alpha * (alpha - 1) / (2 * mp.mpf(scale) ** 2)
    return mp.fsum(n * mp.log(1 - p + p * mp.exp(rate * mp.mpf(s))) for s, n in groups) / (alpha - 1)


def general_bounds(epsilon, scale, steps, most, m, p):
    """Bounds on the profile for ``W = most``, of docs/proofs/extremal_law.md: by reach, a tangent, and Jensen."""
    most, m, variance = mp.mpf(most), mp.mpf(m), mp.mpf(scale) ** 2
    n = int(most / m)
    epsilon = mp.mpf(epsilon)

    def g(s):
        return gaussian_profile(epsilon, s / variance)

    def slope(s):
        return gaussian_profile_slope(epsilon, s / variance) / variance

    bounds = [mean(binomial_law(steps, p), lambda k: g(min(most, m * k)))]
    turn = variance * 2 * epsilon**2 / (mp.sqrt(1 + epsilon**2) + 1)
    if epsilon > 0:
        at_turn, slope_at_turn = g(turn), slope(turn)
        continued = lambda s: g(s) if s <= turn else at_turn + slope_at_turn * (s - turn)  # noqa: E731
        bounds.append(mean(repeated_law(n, m, most - n * m, p), continued))
    touch = turn
    if epsilon > 0:
        # The tangent from the origin: s·g′(s) = g(s), beyond the inflection, by bisection.
        low, high = turn, turn * 4
        while high * slope(high) > g(high):
            high *= 2
        for _ in range(60):
            touch = (low + high) / 2
            low, high = (touch, high) if touch * slope(touch) > g(touch) else (low, touch)
    average = mp.mpf(p) * most
    if average >= touch:
        bounds.append(g(average))
    elif most <= touch:
        bounds.append(mp.mpf(p) * g(most))
    else:
        bounds.append(average * g(touch) / touch)
    return bounds


def block_profile_below(magnitudes, p, points=2**18):
    """``(ε, σ) ↦`` a lower bound on ``E g(Σ δ_t a_t²/σ²)``: squares rounded down to a lattice, law by one FFT."""
    squares = np.asarray(magnitudes) ** 2
    step = squares.sum() / (points // 2)
    levels, counts = np.unique(np.floor(squares / step).astype(np.int64), return_counts=True)
    frequency = np.arange(points // 2 + 1)
    log_transform = np.zeros(points // 2 + 1, dtype=np.complex128)
    for level, count in zip(levels, counts, strict=True):
        log_transform += count * np.log1p(p * np.expm1(-2j * np.pi * (frequency * level % points) / points))
    law = np.clip(np.fft.irfft(np.exp(log_transform), points), 0, None)

    def below(epsilon, scale, profile):
        return float(law @ profile(epsilon, np.arange(points) * step / scale**2))

    return below


def sorted_block(kernel, steps, height=1.0):
    """Magnitudes of ``steps`` neighbouring steps of ``height``, through a circulant filter, by definition."""
    size = len(kernel)
    values = [height * sum(kernel[(t - j) % size] for j in range(steps)) for t in range(size)]
    return sorted(values, reverse=True)


def all_differences(size, steps, values):
    """Every vector of length ``size`` with at most ``steps`` non-zero entries, all of them in ``values``."""
    for support in itertools.combinations(range(size), steps):
        for entries in itertools.product((0, *values), repeat=steps):
            vector = [0.0] * size
            for place, entry in zip(support, entries, strict=True):
                vector[place] = entry
            yield vector
