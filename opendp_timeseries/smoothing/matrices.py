"""What the smoother does with matrices: few diagonals in linear time, and products by small pieces.

The pieces are so small that BLAS does not share them among threads. Waking threads takes longer than the work, by far
where other processes run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
Starts = NDArray[np.int64]

#: Rows of a matrix that LAPACK factors at once; larger ones are halved.
_SMALL: Final = 64
#: Columns of the pieces that are multiplied.
_WIDTH: Final = 32
#: Multiplications in a product that BLAS does not share among threads.
_UNSHARED: Final = 64**3
#: Pieces that NumPy multiplies in one call.
_STACK: Final = 8


class FitError(np.linalg.LinAlgError):
    """A fit that did not work, in words."""


class Tridiagonal(NamedTuple):
    """A positive definite matrix with three diagonals as LDL'."""

    diagonal: Array
    lower: Array
    log_determinant: float

    @classmethod
    def of(cls, main: Array, off: Array) -> Tridiagonal:
        """Factor a matrix; raise FitError if it is not positive definite in floating point.

        LAPACK factors what is not finite, too: then its log-determinant is not finite either.
        """
        if not off.size:
            raise FitError("a series of one step has no course to smooth")
        diagonal, lower, failed = scipy.linalg.lapack.dpttrf(main, off)
        if failed:
            raise FitError("the smoother lost its precision")
        return cls(diagonal, lower, float(np.log(diagonal).sum()))

    def solve(self, sides: Array) -> Array:
        """Return the solutions, one for each column; the columns may be overwritten."""
        solved: Array = scipy.linalg.lapack.dpttrs(self.diagonal, self.lower, sides, overwrite_b=1)[0]
        return solved

    def inverse_diagonals(self) -> tuple[Array, Array]:
        """Main and next diagonal of the inverse, from the last entry on: ``S_t = 1/d_t + l_t² S_{t+1}``."""
        upper = np.ones((2, len(self.diagonal)))
        upper[0, 1:] = -(self.lower**2)
        diagonal: Array = scipy.linalg.lapack.dtbtrs(upper, 1 / self.diagonal[:, None], diag="U")[0][:, 0]
        return diagonal, -self.lower * diagonal[1:]

    def variances(self, weights: Array, starts: Starts) -> Array:
        """Return the variances of weighted sums of stretches, where the inverse is the covariance.

        What a stretch has in common with what comes after goes through its last entry.
        """
        lower, last = self.lower.copy(), starts[1:] - 1
        lower[last] = 0.0
        solved = _solve_lower(np.vstack([np.ones_like(self.diagonal), np.append(lower, 0.0)]), weights, unit=True)
        variances: Array = np.add.reduceat(solved**2 / self.diagonal, starts)
        variances[:-1] += (self.lower[last] * solved[last]) ** 2 * self.inverse_diagonals()[0][starts[1:]]
        return variances


class Banded(NamedTuple):
    """A positive definite matrix with few diagonals as LL'; ``lower`` holds the diagonals of L."""

    lower: Array
    log_determinant: float

    @classmethod
    def of(cls, band: Array) -> Banded:
        """Factor a matrix like :meth:`Tridiagonal.of`, given its diagonals from the main one, padded at their ends."""
        if len(band) == 1:  # the inverse is worked out in blocks as wide as the diagonals beside the main one
            band = np.vstack([band, np.zeros_like(band)])
        lower, failed = scipy.linalg.lapack.dpbtrf(band, lower=1)
        if failed:
            raise FitError("the smoother lost its precision")
        return cls(lower, 2 * float(np.log(lower[0]).sum()))

    def solve(self, sides: Array) -> Array:
        """Return the solutions, one for each column; the columns may be overwritten."""
        solved: Array = scipy.linalg.lapack.dpbtrs(self.lower, sides, lower=1, overwrite_b=1)[0]
        return solved

    def inverse_diagonals(self) -> tuple[Array, Array]:
        """Main and next diagonal of the inverse."""
        size = self.lower.shape[1]
        diagonal, beside = np.empty(size), np.zeros(size)
        for first, last, inverse in self._inverse(np.arange(0, size, self._width)):
            diagonal[first:last] = np.diag(inverse)[: last - first]
            beside[first : min(last, size - 1)] = np.diag(inverse, 1)[: last - first]
        return diagonal, beside[:-1]

    def variances(self, weights: Array, starts: Starts) -> Array:
        """Return the variances of weighted sums of stretches, where the inverse is the covariance.

        What a stretch has in common with what comes after goes through its last entries.
        """
        width, size = self._width, self.lower.shape[1]
        ends = np.append(starts[1:], size)
        block_lower = self.lower.copy()  # without what joins stretches
        distance = np.repeat(ends - starts, ends - starts) - (np.arange(size) - np.repeat(starts, ends - starts))
        block_lower[np.arange(width + 1)[:, None] >= distance] = 0.0
        solved = _solve_lower(block_lower, weights)
        variances: Array = np.add.reduceat(solved**2, starts)
        stretch_by_end = dict(zip(ends.tolist(), range(len(ends)), strict=True))
        for first, _, inverse in self._inverse(np.union1d(starts, np.arange(0, size, width))):
            if (k := stretch_by_end.get(first)) is not None:
                inside = max(int(starts[k]), first - width)
                carried = self._dense(first, first + len(inverse), inside, first) @ solved[inside:first]
                variances[k] += carried @ inverse @ carried
        return variances

    @property
    def _width(self) -> int:
        return len(self.lower) - 1

    def _inverse(self, starts: Starts) -> Iterator[tuple[int, int, Array]]:
        """Go through blocks along the diagonal of the inverse, from the last (Takahashi, Fagan & Chen 1973).

        :param starts: where blocks begin, none of which is wider than the band.
        :return: where each begins and ends, and the inverse from there on, as many rows and columns as the band needs.
        """
        width, last, inverse = self._width, self.lower.shape[1], np.empty((0, 0))
        for first in reversed(starts.tolist()):
            inverse = inverse[:width, :width]
            block = self._dense(first, last + len(inverse), first, last)
            root = np.linalg.inv(block[: last - first])
            coupling = block[last - first :] @ root
            across = inverse @ coupling
            size, corner = last - first, inverse
            inverse = np.empty((size + len(corner), size + len(corner)))
            inverse[:size, :size] = root.T @ root + coupling.T @ across
            inverse[size:, :size], inverse[:size, size:], inverse[size:, size:] = -across, -across.T, corner
            yield first, last, inverse
            last = first

    def _dense(self, top: int, bottom: int, left: int, right: int) -> Array:
        rows, columns = np.ogrid[top:bottom, left:right]
        below = rows - columns
        stored = (below >= 0) & (below < len(self.lower))
        return np.where(stored, self.lower[np.where(stored, below, 0), columns], 0.0)


def _solve_lower(lower: Array, side: Array, *, unit: bool = False) -> Array:
    """Solve a lower triangular system, given its diagonals."""
    solved: Array = scipy.linalg.lapack.dtbtrs(lower, side[:, None], uplo="L", diag="U" if unit else "N")[0][:, 0]
    return solved


def inverse_root(matrix: Array) -> Array:
    """Return the inverse of the Cholesky factor, by halves."""
    size = len(matrix)
    if size <= _SMALL:
        lower, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        if failed:
            raise FitError("the smoother lost its precision")
        inverse: Array = scipy.linalg.lapack.dtrtri(lower, lower=1)[0]
        return inverse
    first, second = slice(size // 2), slice(size // 2, size)
    inverse = np.zeros_like(matrix)
    inverse[first, first] = inverse_root(matrix[first, first])
    across = crossprod(matrix[first, second], inverse[first, first].T)
    inverse[second, second] = inverse_root(matrix[second, second] - crossprod(across.T, across.T))
    inverse[second, first] = -matmul(inverse[second, second], matmul(across, inverse[first, first]))
    return inverse


def crossprod(left: Array, right: Array, *, symmetric: bool = False) -> Array:
    """Return ``left.T @ right``; of a symmetric product only the lower triangle is worked out."""
    if right.ndim == 1:
        return crossprod(left, right[:, None])[:, 0]
    total = np.zeros((left.shape[1], right.shape[1]))
    if len(left) * total.size <= _UNSHARED:
        product: Array = left.T @ right
        return product
    for piece, rows in _pieces(len(left), _UNSHARED // _WIDTH**2):
        sides, turned = _stack(left, piece, rows), _stack(right, piece, rows).swapaxes(1, 2)
        for top in range(0, len(total), _WIDTH):
            for first in range(0, top + 1 if symmetric else total.shape[1], _WIDTH):
                products = sides[:, top : top + _WIDTH] @ turned[:, :, first : first + _WIDTH]
                total[top : top + _WIDTH, first : first + _WIDTH] += products.sum(axis=0)
    return np.tril(total) + np.tril(total, -1).T if symmetric else total


def matmul(left: Array, right: Array) -> Array:
    """Return ``left @ right``, column by column."""
    if right.ndim == 1:
        return matmul(left, right[:, None])[:, 0]
    if left.size * right.shape[1] <= _UNSHARED:
        product: Array = left @ right
        return product
    result, turned = np.empty((right.shape[1], len(left))), np.ascontiguousarray(right.T)
    width = min(_WIDTH, max(len(turned), 1))
    for piece, rows in _pieces(len(left), max(_UNSHARED // (width * max(len(right), 1)), 1)):
        stack = _stack(left, piece, rows)
        for first in range(0, len(turned), width):
            products = turned[first : first + width] @ stack
            result[first : first + width, piece] = products.swapaxes(0, 1).reshape(products.shape[1], -1)
    return result.T


def _pieces(size: int, rows: int) -> Iterator[tuple[slice, int]]:
    """Yield stacks of pieces of so many rows, and what is left as one piece; each with the rows of its pieces."""
    end = size // rows * rows
    for first in range(0, end, rows * _STACK):
        yield slice(first, min(first + rows * _STACK, end)), rows
    if end < size:
        yield slice(end, size), size - end


def _stack(matrix: Array, piece: slice, rows: int) -> Array:
    """Return pieces of a matrix, transposed; without a copy if it is stored column by column."""
    pieces = (piece.stop - piece.start) // rows  # given, as there may be no columns
    return matrix.T[:, piece].reshape(matrix.shape[1], pieces, rows).swapaxes(0, 1)
