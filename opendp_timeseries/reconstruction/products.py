"""Products and factors by pieces so small that BLAS does not share them among threads.

Waking threads takes longer than the work, by far where other processes run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri

from opendp_timeseries.reconstruction.banded import FitError

__all__ = ["crossed", "inverse_root", "times"]

Array = NDArray[np.float64]

#: Matrices of this size are factored at once, and products of so many multiplications made.
_SMALL: Final = 64
_WIDTH: Final = 32
_UNSHARED: Final = 64**3
_STACK: Final = 8


def inverse_root(matrix: Array) -> Array:
    """Return the inverse of the Cholesky factor, by halves."""
    size = len(matrix)
    if size <= _SMALL:
        lower, failed = dpotrf(matrix, lower=1, clean=1)
        if failed:
            raise FitError("the smoother lost its precision")
        inverse: Array = dtrtri(lower, lower=1)[0]
        return inverse
    first, rest = slice(size // 2), slice(size // 2, size)
    inverse = np.zeros_like(matrix)
    inverse[first, first] = inverse_root(matrix[first, first])
    across = crossed(matrix[first, rest], inverse[first, first].T)
    inverse[rest, rest] = inverse_root(matrix[rest, rest] - crossed(across.T, across.T))
    inverse[rest, first] = -times(inverse[rest, rest], times(across, inverse[first, first]))
    return inverse


def crossed(left: Array, right: Array, weight: Array | None = None) -> Array:
    """Return ``left.T @ right``, or ``left.T @ (weight * right)``, of which only the lower triangle is worked out."""
    total = np.zeros((left.shape[1], right.shape[1]))
    if len(left) * total.size <= _UNSHARED:
        found: Array = left.T @ (right if weight is None else weight[:, None] * right)
        return found
    for piece, rows in _pieces(len(left), _UNSHARED // _WIDTH**2):
        sides, turned = _stack(left, piece, rows), _stack(right, piece, rows)
        if weight is not None:
            turned = turned * weight[piece].reshape(-1, 1, rows)
        turned = turned.swapaxes(1, 2)
        for top in range(0, len(total), _WIDTH):
            for first in range(0, total.shape[1] if weight is None else top + 1, _WIDTH):
                products = sides[:, top : top + _WIDTH] @ turned[:, :, first : first + _WIDTH]
                total[top : top + _WIDTH, first : first + _WIDTH] += products.sum(axis=0)
    return total if weight is None else np.tril(total) + np.tril(total, -1).T


def times(left: Array, right: Array) -> Array:
    """Return ``left @ right``, column by column."""
    if right.ndim == 1:
        return times(left, right[:, None])[:, 0]
    if left.size * right.shape[1] <= _UNSHARED:
        product: Array = left @ right
        return product
    found, turned = np.empty((right.shape[1], len(left))), np.ascontiguousarray(right.T)
    width = min(_WIDTH, max(len(turned), 1))
    for piece, rows in _pieces(len(left), max(_UNSHARED // (width * max(len(right), 1)), 1)):
        stack = _stack(left, piece, rows)
        for first in range(0, len(turned), width):
            products = turned[first : first + width] @ stack
            found[first : first + width, piece] = products.swapaxes(0, 1).reshape(products.shape[1], -1)
    return found.T


def _pieces(size: int, rows: int) -> Iterator[tuple[slice, int]]:
    """Go through rows in stacks of pieces of so many rows, and what is left."""
    whole = size // rows * rows
    for first in range(0, whole, rows * _STACK):
        yield slice(first, min(first + rows * _STACK, whole)), rows
    if whole < size:
        yield slice(whole, size), size - whole


def _stack(matrix: Array, piece: slice, rows: int) -> Array:
    """Pieces of a matrix, turned: of one that is stored column by column they are no copy."""
    pieces = (piece.stop - piece.start) // rows  # given, as there may be no columns
    return matrix.T[:, piece].reshape(matrix.shape[1], pieces, rows).swapaxes(0, 1)
