"""The orthonormal real Fourier basis in 40-digit arithmetic, entry by entry. No package code."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import mpmath as mp


@lru_cache(maxsize=32)
def basis(size, frequencies):
    """Rows: constant, then cosine and sine of the frequencies 1 … k−1; as mpmath numbers."""
    with mp.workdps(40):
        rows = [[1 / mp.sqrt(size)] * size]
        for m in range(1, frequencies):
            angles = [2 * mp.pi * m * t / size for t in range(size)]
            rows.append([mp.sqrt(mp.mpf(2) / size) * mp.cos(a) for a in angles])
            rows.append([mp.sqrt(mp.mpf(2) / size) * mp.sin(a) for a in angles])
    return rows


def coefficients(signal, frequencies):
    """The ideal coefficients of a signal, to 40 digits."""
    with mp.workdps(40):
        return [mp.fsum(f * x for f, x in zip(row, signal, strict=True)) for row in basis(len(signal), frequencies)]


def l1_and_l2(values):
    """Norms of exact numbers (floats, fractions or mpmath numbers)."""
    with mp.workdps(40):
        exact = [mp.mpf(v.numerator) / v.denominator if isinstance(v, Fraction) else mp.mpf(v) for v in values]
        return mp.fsum(abs(v) for v in exact), mp.sqrt(mp.fsum(v * v for v in exact))


def difference(first, second):
    """The exact difference of two rows of floats."""
    return [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(first, second, strict=True)]
