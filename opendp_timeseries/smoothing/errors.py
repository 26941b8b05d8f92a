"""How far values are from the truth, how their errors depend on each other, and what follows for their sums.

A covariance is whatever multiplies a matrix with a row for each step: an array, or an operator that is worked out when
it is asked for, as nobody can hold the array of a year of hours for each place. Those of this package also know the
variances of all totals of a series at once, in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import LinearOperator
from scipy.special import ndtri

from opendp_timeseries import _validate as check

Array = NDArray[np.float64]
#: First steps of stretches, the first of which is that of the series.
Starts = NDArray[np.int64]

#: Numbers that are worked on at a time.
_BLOCK: Final = 2**22


#: Whatever multiplies a matrix with a row for each step.
AnyCovariance = Array | LinearOperator


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

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return the values, read-only unless they are copied."""
        return np.asarray(self.values, dtype) if copy is None else np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)


class Covariance(LinearOperator):
    """A covariance that is worked out when it is asked for.

    Sums are of stretches of neighbouring steps, each from its start to the next one's. Where series stand one after
    the other, a sum is of the same stretch of all of them, and weights have a row for each.
    """

    def __init__(self, size: int) -> None:
        super().__init__(np.float64, (size, size))  # type: ignore[call-arg]

    def variances(self, weights: Array, starts: Starts) -> Array:
        """Return the variances of weighted sums."""
        return _by_products(self, weights, starts)

    def _adjoint(self) -> Covariance:
        return self

    def _transpose(self) -> Covariance:
        return self

    def __add__(self, other: Any) -> Any:
        return _Sum(self, other) if getattr(other, "shape", None) == self.shape else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return _Sum(other, self) if getattr(other, "shape", None) == self.shape else NotImplemented


class _ByFunctions(Covariance):
    """The covariance whose products a function works out, and another one its variances of sums."""

    def __init__(
        self, product: Callable[[Array], Array], size: int, sums: Callable[[Array, Starts], Array] | None
    ) -> None:
        super().__init__(size)
        self._product, self._sums = product, sums

    def _matmat(self, columns: Array) -> Array:
        return self._product(columns)

    def variances(self, weights: Array, starts: Starts) -> Array:
        return super().variances(weights, starts) if self._sums is None else self._sums(weights, starts)


class _Sum(Covariance):
    """The covariance of the sum of independent errors."""

    def __init__(self, *parts: AnyCovariance) -> None:
        inner = [part._parts if isinstance(part, _Sum) else [part] for part in parts]
        self._parts: list[AnyCovariance] = [term for terms in inner for term in terms]
        super().__init__(parts[0].shape[0])

    def _matmat(self, columns: Array) -> Array:
        return np.asarray(sum(part @ columns for part in self._parts))

    def variances(self, weights: Array, starts: Starts) -> Array:
        return np.asarray(sum(_variances(part, weights, starts) for part in self._parts))


class _Root(Covariance):
    """The covariance of weighted sums of independent errors: ``R diag(v) R'``, where R is sparse."""

    def __init__(self, root: csr_array, variances: Array) -> None:
        self._root, self._root_variances = root, variances
        super().__init__(root.shape[0])

    def _matmat(self, columns: Array) -> Array:
        product: Array = self._root @ (self._root_variances[:, None] * (self._root.T @ columns))
        return product

    def variances(self, weights: Array, starts: Starts) -> Array:
        variances: Array = (_matrix(weights, starts) @ self._root).power(2) @ self._root_variances
        return variances


class _Scaled(Covariance):
    """The covariance of errors that are multiplied, each by its factor."""

    def __init__(self, covariance: AnyCovariance, factors: Array) -> None:
        self._inner, self._factors = covariance, factors
        super().__init__(len(factors))

    def _matmat(self, columns: Array) -> Array:
        product: Array = self._factors[:, None] * (self._inner @ (self._factors[:, None] * columns))
        return product

    def variances(self, weights: Array, starts: Starts) -> Array:
        return _variances(self._inner, weights * self._factors.reshape(weights.shape), starts)


class _Part(Covariance):
    """The covariance of some of several series, which stand one after the other."""

    def __init__(self, covariance: AnyCovariance, first: int, size: int) -> None:
        self._inner, self._rows = covariance, slice(first, first + size)
        super().__init__(size)

    def _matmat(self, columns: Array) -> Array:
        product: Array = (self._inner @ self._among(columns))[self._rows]
        return product

    def variances(self, weights: Array, starts: Starts) -> Array:
        return _variances(self._inner, self._among(weights.reshape(-1, 1)).reshape(-1, weights.shape[1]), starts)

    def _among(self, columns: Array) -> Array:
        embedding = np.zeros((self._inner.shape[0], columns.shape[1]))
        embedding[self._rows] = columns
        return embedding


class _Independent(Covariance):
    """The covariance of series one after the other, whose errors are independent."""

    def __init__(self, parts: Sequence[AnyCovariance]) -> None:
        self._parts = parts
        self._ends = np.cumsum([0, *(part.shape[0] for part in parts)]).tolist()
        super().__init__(self._ends[-1])

    def _matmat(self, columns: Array) -> Array:
        product = np.zeros(columns.shape)
        for part, (first, last) in zip(self._parts, pairwise(self._ends), strict=True):
            row = columns[first:last]
            nonzero = np.any(row, axis=0)  # the product may take long
            product[first:last, nonzero] = part @ row[:, nonzero]
        return product

    def variances(self, weights: Array, starts: Starts) -> Array:
        variances, flat = np.zeros(len(starts)), weights.reshape(-1)
        for part, (first, last) in zip(self._parts, pairwise(self._ends), strict=True):
            if np.any(row := flat[first:last]):
                variances += _variances(part, row.reshape(-1, weights.shape[1]), starts)
        return variances


def diagonal(variances: Array) -> Covariance:
    """Return the covariance of independent errors."""
    return _Root(csr_array(eye_array(len(variances))), np.asarray(variances, dtype=np.float64))


def common_error(sizes: Array, variance: float = 1.0, *, error_of_step: NDArray[np.int64] | None = None) -> Covariance:
    """Return the covariance of one error that all steps have in common, in these sizes.

    :param error_of_step: which of several independent errors each step has; without it, all have the same one.
    """
    rows = np.arange(len(sizes))
    return from_root(
        csr_array((sizes, (rows, np.zeros_like(rows) if error_of_step is None else error_of_step))), variance
    )


def at_level(
    covariance: Covariance, variances: Array, share: Array, by_level: Array, variance: float
) -> tuple[Covariance, Array]:
    """Return the covariance and the variances of errors whose mean is put in place by an estimate of the level.

    The error of their own mean goes, and that of the level comes: they do not add up.

    :param share: of each step in the mean.
    :param by_level: by how much each step goes along with the level.
    :param variance: of the level.
    """
    along = covariance @ share
    of_mean = max(float(share @ along), 1e-300)
    moved = along - of_mean * by_level
    parts = (along, -1 / of_mean), (moved, 1 / of_mean), (by_level, variance)
    for row, factor in parts:
        covariance += common_error(row, factor)
    return covariance, variances + sum(factor * row**2 for row, factor in parts)


def from_root(root: csr_array, variance: float = 1.0) -> Covariance:
    """Return the covariance of errors that are sums of independent ones, whose weights are in the rows of the root."""
    return _Root(root, np.full(root.shape[1], variance))


def rescale(covariance: AnyCovariance, factors: Array) -> Covariance:
    """Return the covariance of errors that are multiplied, each by its factor."""
    return _Scaled(covariance, factors)


def part_of(covariance: AnyCovariance, first: int, size: int) -> Covariance:
    """Return the covariance of some of several series, which stand one after the other."""
    return _Part(covariance, first, size)


def covariance_by(
    product: Callable[[Array], Array], size: int, sums: Callable[[Array, Starts], Array] | None = None
) -> Covariance:
    """Return the covariance that a function multiplies with columns.

    :param sums: gives the variances of sums, of weights and starts; by default they are made of products.
    """
    return _ByFunctions(product, size, sums)


def independent(parts: Sequence[AnyCovariance]) -> Covariance:
    """Return the covariance of series one after the other, whose errors are independent."""
    return _Independent(parts)


def variances_of(covariance: AnyCovariance, weights: Array, starts: Starts) -> Array:
    """Return the variances of weighted sums, see :class:`Covariance`."""
    return np.maximum(_variances(covariance, weights, starts), 0.0)  # by rounding, a little below


def _variances(covariance: AnyCovariance, weights: Array, starts: Starts) -> Array:
    if isinstance(covariance, Covariance):
        return covariance.variances(weights, starts)
    return _by_products(covariance, weights, starts)


def _by_products(covariance: AnyCovariance, weights: Array, starts: Starts) -> Array:
    """Return the variances of sums by whatever multiplies a matrix."""
    sums = _matrix(weights, starts)
    if isinstance(covariance, np.ndarray):
        variances: Array = sums.multiply(sums @ covariance).sum(axis=1)
        return variances
    variances, height = np.zeros(len(starts)), max(1, _BLOCK // sums.shape[1])
    for first in range(0, len(variances), height):
        rows = sums[first : first + height].toarray()
        variances[first : first + height] = np.einsum("ij,ji->i", rows, covariance @ rows.T)
    return variances


def _matrix(weights: Array, starts: Starts) -> csr_array:
    """Return a row of weights for each sum."""
    series, steps = weights.shape
    is_start = np.zeros(steps, dtype=np.int64)
    is_start[starts[1:]] = 1
    rows = np.tile(np.cumsum(is_start), series)
    return csr_array((weights.ravel(), (rows, np.arange(series * steps))), shape=(len(starts), series * steps))
