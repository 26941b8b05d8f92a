"""Positive definite matrices with few diagonals: solutions, determinants and the diagonals of inverses.

All of it takes time that is linear in the size of the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpttrf, dpttrs

__all__ = ["Banded", "Tridiagonal"]

Array = NDArray[np.float64]


class Tridiagonal(NamedTuple):
    """A positive definite matrix with three diagonals as LDL'."""

    diagonal: Array
    lower: Array

    @classmethod
    def of(cls, main: Array, off: Array) -> Tridiagonal:
        """Factor a matrix.

        :raises LinAlgError: if it is not positive definite in floating point.
        """
        diagonal, lower, failed = dpttrf(main, off)
        if failed:
            raise np.linalg.LinAlgError("not positive definite")
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
        """Factor a matrix.

        :param band: its diagonals, the main one first, each padded at its end.
        :raises LinAlgError: if it is not positive definite in floating point.
        """
        lower, failed = dpbtrf(band, lower=1)
        if failed:
            raise np.linalg.LinAlgError("not positive definite")
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
        diagonal = np.empty(size)
        after, inverse = None, np.empty((0, 0))
        for first in range((size - 1) // width * width, -1, -width):
            last = min(first + width, size)
            below = last if after is None else min(last + width, size)
            block = self._dense(first, below, first, last)
            root = np.linalg.inv(block[: last - first])
            own = root.T @ root
            if after is not None:
                passed = block[last - first :] @ root
                own = own + passed.T @ inverse @ passed
            diagonal[first:last] = np.diag(own)
            after, inverse = first, own
        return diagonal

    def _dense(self, top: int, bottom: int, left: int, right: int) -> Array:
        rows, columns = np.ogrid[top:bottom, left:right]
        apart = rows - columns
        stored = (apart >= 0) & (apart < len(self.lower))
        return np.where(stored, self.lower[np.where(stored, apart, 0), columns], 0.0)
