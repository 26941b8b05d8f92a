"""Positive definite matrices with few diagonals, in time that is linear in their size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpttrf, dpttrs

__all__ = ["Banded", "FitError", "Tridiagonal"]

Array = NDArray[np.float64]


class FitError(np.linalg.LinAlgError):
    """A fit that did not work, in words."""


class Tridiagonal(NamedTuple):
    """A positive definite matrix with three diagonals as LDL'."""

    diagonal: Array
    lower: Array

    @classmethod
    def of(cls, main: Array, off: Array) -> Tridiagonal:
        """Factor a matrix.

        :raises FitError: if it is not positive definite in floating point.
        """
        diagonal, lower, failed = dpttrf(main, off)
        if failed:
            raise FitError("the smoother lost its precision")
        return cls(diagonal, lower)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self.diagonal).sum())

    def solve(self, sides: Array) -> Array:
        """Return the solutions, one for each column; the columns may be overwritten."""
        solved: Array = dpttrs(self.diagonal, self.lower, sides, overwrite_b=1)[0]
        return solved

    def inverse_diagonal(self) -> Array:
        """Diagonal of the inverse, from the last entry on: ``S_t = 1/d_t + l_t² S_{t+1}``."""
        own, passed = (1 / self.diagonal).tolist(), (self.lower**2).tolist()
        for t in range(len(own) - 2, -1, -1):
            own[t] += passed[t] * own[t + 1]
        return np.array(own)


class Banded(NamedTuple):
    """A positive definite matrix with few diagonals as LL'; ``lower`` holds the diagonals of L."""

    lower: Array

    @classmethod
    def of(cls, band: Array) -> Banded:
        """Factor a matrix, given its diagonals, the main one first, each padded at its end.

        :raises FitError: if it is not positive definite in floating point.
        """
        lower, failed = dpbtrf(band, lower=1)
        if failed:
            raise FitError("the smoother lost its precision")
        return cls(lower)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return 2 * float(np.log(self.lower[0]).sum())

    def solve(self, sides: Array) -> Array:
        """Return the solutions, one for each column; the columns may be overwritten."""
        solved: Array = dpbtrs(self.lower, sides, lower=1, overwrite_b=1)[0]
        return solved

    def inverse_diagonal(self) -> Array:
        """Diagonal of the inverse, block by block from the last one on (Takahashi, Fagan & Chen 1973)."""
        width, size = len(self.lower) - 1, self.lower.shape[1]
        diagonal, after, inverse = np.empty(size), size, np.empty((0, 0))
        for first in range((size - 1) // width * width, -1, -width):
            last = min(first + width, size)
            block = self._dense(first, after, first, last)
            root = np.linalg.inv(block[: last - first])
            passed = block[last - first :] @ root
            inverse = root.T @ root + passed.T @ inverse @ passed
            diagonal[first:last] = np.diag(inverse)
            after = last
        return diagonal

    def _dense(self, top: int, bottom: int, left: int, right: int) -> Array:
        rows, columns = np.ogrid[top:bottom, left:right]
        below = rows - columns
        stored = (below >= 0) & (below < len(self.lower))
        return np.where(stored, self.lower[np.where(stored, below, 0), columns], 0.0)
