"""Slow, independent truths about circulant filters: rational arithmetic, all supports, all signs.

Nothing here imports the package. Vectors and taps are lists of ``Fraction`` or ``int``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product

import mpmath


def convolve(values: Sequence[Fraction | int], taps: Sequence[Fraction | int]) -> list[Fraction]:
    """``y_t = sum_k x_k h_((t - k) mod T)`` from the definition."""
    size = len(taps)
    return [
        sum((Fraction(values[k]) * Fraction(taps[(t - k) % size]) for k in range(size)), Fraction(0))
        for t in range(size)
    ]


def block_vectors(size: int, steps: int) -> Iterator[list[int]]:
    """All supports of exactly ``steps`` steps, filled with ones."""
    for support in combinations(range(size), steps):
        yield [int(t in support) for t in range(size)]


def sign_vectors(size: int, steps: int) -> Iterator[list[int]]:
    """All supports of exactly ``steps`` steps with all signs, the first one positive: the vertices."""
    for support in combinations(range(size), steps):
        for signs in product((1, -1), repeat=steps - 1):
            filled = dict(zip(support, (1, *signs), strict=True))
            yield [filled.get(t, 0) for t in range(size)]


def placements(values: Sequence[Fraction | int], size: int) -> Iterator[list[Fraction | int]]:
    """All ways to put the values on different steps of the cycle."""
    for where in permutations(range(size), len(values)):
        placed: list[Fraction | int] = [0] * size
        for step, value in zip(where, values, strict=True):
            placed[step] = value
        yield placed


def top_sums(vector: Sequence[Fraction | int]) -> list[Fraction]:
    """Sums of the 1, 2, …, T largest magnitudes."""
    sums, total = [], Fraction(0)
    for value in sorted((abs(Fraction(v)) for v in vector), reverse=True):
        total += value
        sums.append(total)
    return sums


def rearranged(majorant: Sequence[Fraction | int], taps: Sequence[Fraction | int]) -> list[Fraction]:
    """Majorant after a symmetric decreasing filter: largest values nearest to a point just right of 0."""
    size, centre = len(taps), Fraction(1, 4)
    nearest = sorted(range(size), key=lambda t: min((t - centre) % size, (centre - t) % size))
    placed: list[Fraction | int] = [0] * size
    for step, value in zip(nearest, majorant, strict=False):
        placed[step] = value
    return sorted(convolve(placed, taps), reverse=True)


def gram_row_sum(taps: Sequence[Fraction | int], steps: int) -> Fraction:
    """Largest absolute row sum of any principal submatrix of ``A^T A`` with ``steps`` rows."""
    size = len(taps)
    shifts = [sum(Fraction(taps[t]) * taps[(t + m) % size] for t in range(size)) for m in range(size)]
    return top_sums(shifts)[steps - 1]


def spectrum(taps: Sequence[Fraction | int]) -> list[Fraction]:
    """``|ĥ|`` at all frequencies, to 50 digits."""
    size = len(taps)
    with mpmath.workdps(60):
        exact = [mpmath.mpf(Fraction(h).numerator) / Fraction(h).denominator for h in taps]
        roots = [mpmath.expjpi(mpmath.mpf(-2 * k) / size) for k in range(size)]
        transform = [mpmath.fsum(h * roots[t * k % size] for t, h in enumerate(exact)) for k in range(size)]
        return [Fraction(mpmath.nstr(abs(value), 50)) for value in transform]


def ideal_taps(size: int, weight: str, parameter: float) -> list[mpmath.mpf]:
    """Normalised weights of circular distance, to 60 digits."""
    with mpmath.workdps(60):
        width = mpmath.mpf(parameter)
        rule = {
            "gaussian": lambda d: mpmath.exp(-((d / width) ** 2) / 2),
            "exponential": lambda d: mpmath.exp(-d / width),
            "boxcar": lambda d: mpmath.mpf(d <= (parameter - 1) / 2),
        }[weight]
        weights = [rule(mpmath.mpf(min(t, size - t))) for t in range(size)]
        total = mpmath.fsum(weights)
        return [w / total for w in weights]
