"""How far values are from the truth, how their errors depend on each other, and what follows for their sums.

A covariance is whatever multiplies a matrix with a row for each step: an array, or an operator that is worked out when
it is asked for, as nobody can hold the array of a year of hours for each place.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.special import ndtri

from opendp_timeseries import _validate as check

Array = NDArray[np.float64]

#: Numbers that are worked on at a time.
_BLOCK: Final = 2**22


class Estimates:
    """Values with standard errors. NumPy takes them as the array of the values."""

    values: Array
    standard_error: Array

    def interval(self, confidence_level: float = 0.9) -> tuple[Array, Array]:
        """Return the lower and the upper end of a normal interval around each value.

        Coverage is pointwise, not simultaneous: the whole course of the signal lies within all intervals far less
        often. ``error_covers`` of a series says what they leave out: with ``"noise"`` they are honest at kept steps
        only, and narrowest between them, where least is known; with ``"nothing"`` they are NaN.

        :param confidence_level: the probability with which each interval covers, in (0, 1).
        :return: two float64 arrays of ``len(self)`` values, in the unit of the values.
        :raises ValueError: if the level is not between 0 and 1.
        """
        level = check.real("confidence_level", confidence_level, above=0.0, below=1.0)
        half = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.values - half, self.values + half

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values, read-only unless they are copied."""
        return np.asarray(self.values, dtype) if copy is None else np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)


def diagonal(variances: Array) -> LinearOperator:
    """Return the covariance of independent errors."""
    return aslinearoperator(diags_array(variances))


def common(sizes: Array, variance: float = 1.0, *, of_each: NDArray[np.int64] | None = None) -> LinearOperator:
    """Return the covariance of one error that all steps have in common, in these sizes.

    :param of_each: which of several independent errors each step has; without it, all have the one.
    """
    rows = np.arange(len(sizes))
    columns = aslinearoperator(csr_array((sizes, (rows, np.zeros_like(rows) if of_each is None else of_each))))
    return variance * (columns @ columns.T)


def scaled(covariance: Any, factors: Array) -> LinearOperator:
    """Return the covariance of errors that are multiplied, each by its factor."""
    return diagonal(factors) @ aslinearoperator(covariance) @ diagonal(factors)


def part_of(covariance: Any, first: int, size: int) -> LinearOperator:
    """Return the covariance of some neighbouring steps."""
    chosen = aslinearoperator(eye_array(size, covariance.shape[0], k=first))
    return chosen @ aslinearoperator(covariance) @ chosen.T


def independent(parts: Sequence[Any]) -> LinearOperator:
    """Return the covariance of series one after the other, whose errors are independent."""
    ends = np.cumsum([part.shape[0] for part in parts])
    return covariance_by(partial(_of_each, parts, ends[:-1]), int(ends[-1]))


def _of_each(parts: Sequence[Any], begins: NDArray[np.int64], columns: Array) -> Array:
    found = np.zeros_like(columns)
    for part, row, to in zip(parts, np.split(columns, begins), np.split(found, begins), strict=True):
        some = np.any(row, axis=0)  # the product may take long
        to[..., some] = part @ row[..., some]
    return found


def covariance_by(product: Callable[[Array], Array], size: int) -> LinearOperator:
    """Return the covariance that a function multiplies with columns."""
    products = dict.fromkeys(("matvec", "rmatvec", "matmat", "rmatmat"), product)
    return LinearOperator((size, size), dtype=np.float64, **products)


def variances_of(covariance: Any, sums: csr_array) -> Array:
    """Return the variances of weighted sums of steps, a row of weights for each."""
    found, many = np.zeros(sums.shape[0]), max(1, _BLOCK // sums.shape[1])
    for first in range(0, len(found), many):
        rows = sums[first : first + many].toarray()
        found[first : first + many] = np.einsum("ij,ji->i", rows, covariance @ rows.T)
    return np.maximum(found, 0.0)  # by rounding, a little below
