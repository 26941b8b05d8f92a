"""Positive definite matrices with few diagonals, in time that is linear in their size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpttrf, dpttrs, dtbtrs

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

    def inverse_diagonals(self) -> tuple[Array, Array]:
        """Main and next diagonal of the inverse, from the last entry on: ``S_t = 1/d_t + l_t² S_{t+1}``."""
        upper = np.ones((2, len(self.diagonal)))
        upper[0, 1:] = -(self.lower**2)
        own: Array = dtbtrs(upper, 1 / self.diagonal[:, None], diag="U")[0][:, 0]
        return own, -self.lower * own[1:]


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

    def inverse_diagonals(self) -> tuple[Array, Array]:
        """Main and next diagonal of the inverse, block by block from the last one on (Takahashi, Fagan & Chen 1973)."""
        width, size = len(self.lower) - 1, self.lower.shape[1]
        diagonal, beside, after, inverse = np.empty(size), np.empty(size), size, np.empty((0, 0))
        for first in range((size - 1) // width * width, -1, -width):
            last = min(first + width, size)
            block = self._dense(first, after, first, last)
            root = np.linalg.inv(block[: last - first])
            passed = block[last - first :] @ root
            across = inverse @ passed
            inverse = root.T @ root + passed.T @ across
            diagonal[first:last], beside[first : last - 1] = np.diag(inverse), np.diag(inverse, 1)
            beside[last - 1] = -across[0, -1] if after > last else 0.0
            after = last
        return diagonal, beside[:-1]

    def _dense(self, top: int, bottom: int, left: int, right: int) -> Array:
        rows, columns = np.ogrid[top:bottom, left:right]
        below = rows - columns
        stored = (below >= 0) & (below < len(self.lower))
        return np.where(stored, self.lower[np.where(stored, below, 0), columns], 0.0)
