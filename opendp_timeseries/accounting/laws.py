"""Laws of sums of independently kept numbers, from above.

A :class:`Law` bounds a random variable ``S``: ``E φ(S) ≤ Σ weights·φ(values)`` for every function ``φ`` of the class
that the constructing function names. Weights are rounded up, so they may sum to slightly more than 1; a tail that is
cut moves up, to an upper bound on all values.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up, up_array, up_fraction

#: Sums have at most this many points; longer ones double the step of their lattice.
MAX_POINTS: Final = 2048
# Tails of sums below this mass are cut.
_CUT: Final = 1e-60
_LATTICE_MARGIN: Final = 1 + 1e-10


class Law(NamedTuple):
    """A finite law from above: values in ascending order, and their weights."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]


class Lattice(NamedTuple):
    """Masses at ``step·first, step·(first + 1), …``, ``step`` a power of two; ``cut`` may lie at the top."""

    step: int
    first: int
    mass: NDArray[np.float64]
    cut: float


def _margin(n: int) -> float:
    # Above 1e-200, SciPy's binomial law is closer to the truth (60 digits; tests/accounting/test_laws.py): its error
    # grows with n: 2e-11 was observed at 1e7, 2e-10 at 2e9.
    return 1 + (1e-11 if n <= 10**6 else 1e-9)


# From about 1e-240 on, SciPy's binomial law loses digits, and then underflows.
_SCIPY_RESOLVES: Final = 1e-200


def _chernoff(k: NDArray[np.int64], n: int, p: float) -> NDArray[np.float64]:
    """Return Chernoff's bound on ``P(K = k)``, and on the tail of ``Bin(n, p)`` from ``k`` away from its mean."""
    with np.errstate(all="ignore"):  # 0·log 0 is 0, and log 0 beyond the ends is minus infinity
        low = np.where(k > 0, k * np.log(n * p / k), 0.0)
        high = np.where(k < n, (n - k) * np.log(n * (1 - p) / (n - k)), 0.0)
        exponent = low + high + 2.0**-49 * (np.abs(low) + np.abs(high) + n)
        # At p of 0 or 1 the margin must not turn minus infinity into nan.
        return np.where(low + high == -np.inf, 0.0, np.exp(np.minimum(exponent, 0.0)))


def binomial(n: int, p: float) -> Lattice:
    """Return ``Bin(n, p)`` from above, with step 1: the lower tail moves up to the first point, the upper tail is cut.

    For ``n`` up to about 10⁷ nothing is cut that double precision can represent.
    """
    deviation = math.sqrt(n * p * (1 - p))
    # By Bernstein's inequality the mass beyond the first number is below 1e-300. The second limits the work.
    half = min(40 * deviation + 800, max(2**16, 10 * deviation))
    first = max(0, math.floor(n * p - half))
    last = min(n, math.ceil(n * p + half))
    numbers = np.arange(first, last + 1)
    weights = scipy.stats.binom.pmf(numbers, n, p) * _margin(n)
    weights = np.where(weights < _SCIPY_RESOLVES, _chernoff(numbers, n, p), weights)
    if first > 0:
        lower_tail = float(scipy.stats.binom.cdf(first - 1, n, p)) * _margin(n)
        weights[0] += lower_tail if lower_tail > _SCIPY_RESOLVES else float(_chernoff(numbers[:1] - 1, n, p)[0])
    return Lattice(1, first, weights, binomial_tail(last, n, p))


def binomial_tail(k: int, n: int, p: float) -> float:
    """Return an upper bound on ``P(Bin(n, p) > k)``; 0 only where that is impossible."""
    if k >= n:
        return 0.0
    tail = float(scipy.stats.binom.sf(k, n, p)) * _margin(n)
    if tail < _SCIPY_RESOLVES:
        tail = float(_chernoff(np.array([k + 1]), n, p)[0])
    return min(1.0, max(tail, LOWEST_BOUND))


def vertex_sum(n: int, step: Fraction, remainder: Fraction, p: float) -> Law:
    """Return the law of ``step·Bin(n, p) + rest·Bernoulli(p)``, for increasing ``φ``."""
    _, first, weights, cut = binomial(n, p)
    values = multiples(step, np.arange(first, first + len(weights)))
    if remainder > 0:
        values = np.concatenate([values, up_array(values + up_fraction(remainder))])
        weights = up_array(np.concatenate([weights * up(1 - p), weights * p]))
    if cut > 0:
        values = np.append(values, up_fraction(n * step + remainder))
        weights = np.append(weights, cut)
    order = np.argsort(values, kind="stable")
    return Law(values[order], weights[order])


def multiples(step: Fraction, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``step·counts``, rounded up unless every product is a float."""
    products = up_fraction(step) * counts.astype(np.float64)
    exact = up_fraction(step) == step and step.numerator * int(counts[-1]) < 2**53
    return products if exact else np.where(counts > 0, up_array(products), 0.0)


def scaled(values: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Return ``values·factor``, rounded up unless every product is a whole number below 2**53."""
    if factor == 1:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.where(values > 0, values * factor, 0.0)
    exact = np.all(products < 2**53) and factor == math.floor(factor) and np.all(values == np.rint(values))
    return products if exact else np.where(values > 0, up_array(products), 0.0)


def trials_sum(trials: Sequence[tuple[int, float]]) -> Law:
    """Return the law of ``Bin(n₁, p₁) + Bin(n₂, p₂) + …``, for convex ``φ``; up to 2,047 trials, for increasing ``φ``.

    :param trials: pairs ``(n, p)``, ``n`` at least 1, ``p`` in (0, 1].
    """
    certain = sum(n for n, p in trials if p == 1)
    lattice = Lattice(1, certain, np.ones(1), 0.0)
    for n, p in trials:
        if p < 1:
            lattice = _sum(lattice, _kept_copies(1, n, p))
    values = np.arange(lattice.first, lattice.first + len(lattice.mass), dtype=np.float64) * lattice.step
    mass, largest = lattice.mass, float(sum(n for n, _ in trials))
    if lattice.cut > 0:
        if values[-1] < largest:
            values, mass = np.append(values, largest), np.append(mass, 0.0)
        mass[-1] += lattice.cut
    return Law(values, mass * _LATTICE_MARGIN)


def kept_sum(squares: NDArray[np.float64], p: float) -> Law:
    """Return the law of the sum of ``squares``, each kept with probability ``p``, for convex ``φ``.

    The numbers are replaced by multiples of a lattice step that majorise them weakly: prefix sums are rounded up, not
    numbers, so the total rises by less than one step. The sum on the lattice is exact; where it has too many points,
    every second point is split in halves onto its neighbours, which keeps the mean and so never lowers ``E φ``.

    :param squares: positive, finite and descending.
    :param p: in (0, 1].
    """
    # About 2²⁰ points in total, before sums are formed.
    bits = min(max(20 - len(squares).bit_length(), 8), 14)
    counts = np.bincount(_lattice_levels(squares, bits))
    levels = np.flatnonzero(counts[1:]) + 1
    parts = [_kept_copies(int(level), int(counts[level]), p) for level in levels]
    while len(parts) > 1:
        odd = parts[len(parts) & ~1 :]
        parts = [_sum(x, y) for x, y in zip(parts[::2], parts[1::2], strict=False)] + odd
    step, first, mass, cut = parts[0]
    unit = squares[0] * (1 + 2.0**-50) / 2**bits
    values = np.arange(first, first + len(mass)) * float(step) * unit
    if cut > 0:
        values = np.append(values, max(float(levels @ counts[levels]) * unit, values[-1]))
        mass = np.append(mass, cut)
    return Law(values[mass > 0], mass[mass > 0] * _LATTICE_MARGIN)


def _lattice_levels(squares: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Return whole numbers with prefix sums just above those of ``2**bits · squares/squares[0]``."""
    # In fixed point, so that prefix sums are exact; the largest number is 2**fine exactly.
    fine = min(40, 62 - len(squares).bit_length())
    units = np.ceil(squares / squares[0] * (1 + 2.0**-51) * 2.0**fine)
    prefix = np.cumsum(np.minimum(units, 2.0**fine).astype(np.int64))
    return np.diff(-(-prefix >> (fine - bits)), prepend=0)


def _kept_copies(level: int, count: int, p: float) -> Lattice:
    """Return ``level·Bin(count, p)``."""
    thin = trim(binomial(count, p))
    mass = np.zeros((len(thin.mass) - 1) * level + 1)
    mass[::level] = thin.mass
    return _shorten(Lattice(1, thin.first * level, mass, thin.cut))


def _sum(x: Lattice, y: Lattice) -> Lattice:
    """Return the sum of two independent variables; mass cut from either is cut from the sum."""
    while x.step < y.step:
        x = _coarsen(x)
    while y.step < x.step:
        y = _coarsen(y)
    mass = np.convolve(x.mass, y.mass)
    return _shorten(trim(Lattice(x.step, x.first + y.first, mass, (x.cut + y.cut) * _LATTICE_MARGIN)))


def trim(x: Lattice) -> Lattice:
    """Move a negligible lower tail up to the first remaining point, and cut a negligible upper tail."""
    low = int(np.searchsorted(np.cumsum(x.mass), _CUT, side="right"))
    high = len(x.mass) - int(np.searchsorted(np.cumsum(x.mass[::-1]), _CUT, side="right"))
    mass = x.mass[low:high].copy()
    mass[0] += np.sum(x.mass[:low])
    return Lattice(x.step, x.first + low, mass, x.cut + float(np.sum(x.mass[high:])))


def _shorten(x: Lattice) -> Lattice:
    while len(x.mass) > MAX_POINTS:
        x = _coarsen(x)
    return x


def _coarsen(x: Lattice) -> Lattice:
    """Double the step: points in between are split in halves onto their neighbours, which keeps the mean."""
    front = x.first % 2
    mass = np.pad(x.mass, (front, 1 - (len(x.mass) + front) % 2))
    coarse = mass[::2].copy()
    coarse[:-1] += mass[1::2] / 2
    coarse[1:] += mass[1::2] / 2
    return Lattice(2 * x.step, x.first // 2, coarse, x.cut)
