"""Stations, districts and a city: series in a tree that add up, and the errors of any sum of them.

A group's estimate goes down to its parts: what it is above their sum is shared among them by their variances. So the
error of a part is its own, less its share of that of all parts, plus its share of the group's. What a local event adds
to a station stays there, and goes up: its error is also that of every group around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from opendp_timeseries.design.groups import Groups
from opendp_timeseries.release.release import Release
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.matrices import Array

Rows = NDArray[np.intp]

#: Up to this number of steps, the covariance of a group is an array, as all of its parts have their share of it.
_DENSE: Final = 2048


class Branch(NamedTuple):
    """A group and its parts, by their rows."""

    row: int
    parts: Rows


class Hierarchy(NamedTuple):
    """Rows of keys, then of groups, and the branches between them: the innermost first, the root last."""

    keys: int
    branches: tuple[Branch, ...]

    @classmethod
    def of(cls, keys: Sequence[str | int], released: Sequence[Groups]) -> "Hierarchy":
        """Return the hierarchy of a panel and the groups of its totals; several trees get a root, which is unknown."""
        branches = branches_of(keys, released)
        size = len(keys) + sum(len(groups.members) for groups in released)
        inner = {int(part) for branch in branches for part in branch.parts}
        tops = [row for row in range(size) if row not in inner]
        if len(tops) > 1:
            branches.append(Branch(size, np.array(tops)))
        return cls(len(keys), tuple(branches))

    @property
    def root(self) -> int:
        """The row of the root."""
        return self.branches[-1].row

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.keys + len(self.branches)

    def sums(self, values: Array) -> Array:
        """Return the sum over the keys in every row, given values by row of which those of groups are left out."""
        sums = values.copy()
        for row, parts in self.branches:
            sums[row] = sums[parts].sum(axis=0)
        return sums

    def upward(self, noise: Array) -> Array:
        """Return the standard error of each row as it and those below it tell, given those of measurements."""
        variances = np.square(noise)
        for row, parts in self.branches:
            below = variances[parts].sum()
            variances[row] = below if np.isinf(noise[row]) else below * variances[row] / (below + variances[row])
        return np.sqrt(variances)


def is_joint(releases: Sequence[Release]) -> bool:
    """Return whether releases can be smoothed jointly: a panel of several series, and totals, with every step kept."""
    signals = [release.design.signal for release in releases]
    panels = [signal for signal in signals if signal.groups is None]
    return (
        len(panels) == 1
        and panels[0].count is not None
        and len(panels[0].count.panel or ()) > 1
        and all(not signal.kernels for signal in signals)
        and all(len(release) == release.size for release in releases)
        and all(np.all(np.isfinite(release.values)) for release in releases)
    )


def branches_of(keys: Sequence[str | int], released: Sequence[Groups]) -> list[Branch]:
    """Return each group and its parts, the innermost first; keys have the first rows, then groups, as they come."""
    members = [member for groups in released for member in groups.members]
    order = sorted(range(len(members)), key=lambda k: -len(members[k][1]))  # the larger first
    if not members:
        return []
    tree, rows = Groups(tuple(members[k] for k in order)), [len(keys) + k for k in order]
    parts: list[list[int]] = [[] for _ in order]
    for row, up in zip(rows, tree.parents, strict=True):
        if up is not None:
            parts[up].append(row)
    for row, key in enumerate(keys):
        parts[tree.innermost[key]].append(row)
    return [Branch(row, np.array(of_group)) for row, of_group in zip(rows, parts, strict=True)][::-1]


def least_squares(branches: Sequence[Branch], values: Array, variances: Array) -> tuple[Array, Array]:
    """Return generalised least-squares estimates and their variances, for figures with independent errors.

    Going up, each group's figure and the sum of its parts are averaged by their precision: the best estimate from the
    group and all below. Going down, what a group is above the sum of its parts is shared among them by their variances.
    Parts of unknown, infinite variance take all of it.
    """
    values, variances = values.copy(), variances.copy()
    sums = []
    for group, parts in branches:
        free = np.isinf(variances[parts])
        estimate, variance = values[parts].sum(axis=0), np.where(free, 0.0, variances[parts]).sum(axis=0)
        unknown, error = free.sum(axis=0), variances[group]
        sums.append((estimate, variance, unknown))
        below = np.where(unknown > 0, np.inf, variance)
        with np.errstate(invalid="ignore"):
            weight, joint = below / (below + error), below * error / (below + error)
        weight = np.where(np.isinf(error), 0.0, np.where(np.isinf(below), 1.0, weight))
        values[group] = estimate + weight * (values[group] - estimate)
        variances[group] = np.where(np.isfinite(joint), joint, np.minimum(below, error))
    for (group, parts), (estimate, variance, unknown) in zip(reversed(branches), reversed(sums), strict=True):
        part_variances, error = variances[parts], variances[group]
        free = np.isinf(part_variances)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(unknown > 0, free / unknown, part_variances / variance)
            taught = part_variances * (1 - share) + share**2 * error
        remainder = np.where(free, np.where(unknown == 1, variance + error, np.inf), part_variances)
        values[parts] += share * (values[group] - estimate)
        variances[parts] = np.where(unknown > 0, remainder, taught)
    return values, variances


def nonnegative(values: Array, variances: Array, total: Array) -> Array:
    """Return the nearest values that are not below zero, in units of their variances, with the same sums.

    Each loses ``κ`` times its variance, or as much as it has. Where the total is not above zero, they stay.

    :param values: a column for each step, which adds up to the total.
    """
    estimates = values.copy()
    some = np.flatnonzero((values < 0).any(axis=0) & (total > 0))
    value, variance, target = values[:, some], variances[:, some], total[some]
    ratio = value / variance
    order = np.argsort(-ratio, axis=0)
    ratio, value, variance = (np.take_along_axis(rows, order, axis=0) for rows in (ratio, value, variance))
    loss = (np.cumsum(value, axis=0) - target) / np.cumsum(variance, axis=0)  # if so many, the largest, stay above zero
    last = np.count_nonzero(ratio > loss, axis=0) - 1
    remainder = np.maximum(values[:, some] - np.take_along_axis(loss, last[None], axis=0) * variances[:, some], 0.0)
    estimates[:, some] = remainder * (target / remainder.sum(axis=0))
    return estimates


@dataclass(frozen=True)
class HierarchyErrors:
    """The errors of all rows of a hierarchy, by what each has of its own and in common with others.

    :param covariances: covariance of each row's own error over the steps; of the root, of what is not of local events.
    :param variances: their diagonals, a row for each.
    :param parts: the share of what its group is above the sum of its parts, by row and step.
    :param shares: the share of its group's error, by row and step.
    :param local: whether a key has an event of its own at a step, which it passes up and does not share.
    """

    hierarchy: Hierarchy
    covariances: Sequence[Any]
    variances: Array
    parts: Array
    shares: Array
    local: NDArray[np.bool_]

    @cached_property
    def _by_row(self) -> tuple[Array, Array]:
        """Variances of all rows without the events below them; and of what is each row's own after its share."""
        residual = np.zeros_like(self.variances)
        variances = np.zeros_like(residual)
        root = self.hierarchy.root
        residual[root] = variances[root] = self.variances[root]
        for row, parts in reversed(self.hierarchy.branches):
            part, free, variance = self.parts[parts], ~self.local[parts], self.variances[parts]
            of_all = (free * variance).sum(axis=0)
            residual[parts] = np.maximum(variance * (1 - 2 * free * part) + part**2 * of_all, 0.0)
            variances[parts] = residual[parts] + self.shares[parts] ** 2 * variances[row]
        return variances, residual

    @cached_property
    def _events(self) -> Array:
        """Variances of events below each group, and nothing for keys."""
        events = self.hierarchy.sums(self.local * self.variances)
        events[: self.hierarchy.keys] = 0.0
        return events

    def variance(self) -> Array:
        """Return the variances of all rows at every step."""
        return self._by_row[0] + self._events

    def of_row(self) -> list[LinearOperator]:
        """Return the covariance of each row over the steps.

        What parts have of each other is taken to have the course of their own: exact at each step, and over several
        where the errors of all fade alike.
        """
        gain = np.sqrt(self._by_row[1] / np.maximum(self.variances, 1e-300))
        common: dict[int, errors.AnyCovariance] = {}
        root = self.hierarchy.root
        common[root] = self._array(self.covariances[root])
        for row, parts in reversed(self.hierarchy.branches):
            for part in parts.tolist():
                from_above = errors.rescale(common[row], self.shares[part])
                mine = errors.rescale(self.covariances[part], gain[part]) + from_above
                common[part] = mine if part < self.hierarchy.keys else self._array(mine)
        events = self._events
        return [
            errors.rescale(common[row], np.ones(events.shape[1]))
            if row < self.hierarchy.keys
            else errors.rescale(common[row], np.ones(events.shape[1])) + errors.diagonal(events[row])
            for row in range(self.hierarchy.size)
        ]

    def _array(self, covariance: errors.AnyCovariance) -> errors.AnyCovariance:
        size = self.variances.shape[1]
        return covariance @ np.eye(size) if size <= _DENSE else covariance

    def of_rows(self, first: int, last: int) -> LinearOperator:
        """Return the joint covariance of some rows, one after the other."""
        steps = self.variances.shape[1]

        def product(columns: Array) -> Array:
            given = np.zeros((self.hierarchy.size, steps, columns.size // ((last - first) * steps)))
            given[first:last] = columns.reshape(last - first, steps, -1)
            result: Array = self._product(given)[first:last].reshape(columns.shape)
            return result

        def sums(weights: Array, starts: NDArray[np.int64]) -> Array:
            given = np.zeros((self.hierarchy.size, steps, 1))
            given[first:last, :, 0] = weights
            variances = np.zeros(len(starts))
            for covariance, side in zip(self.covariances, self._sides(given), strict=True):
                if np.any(side):
                    variances += errors.variances_of(covariance, side.T, starts)
            return variances

        return errors.covariance_by(product, (last - first) * steps, sums)

    def _sides(self, given: Array) -> Array:
        """Return what each row's own error meets: by itself, by its share in its group's, and by what siblings share.

        :param given: columns by row and step.
        """
        hierarchy, part, share = self.hierarchy, self.parts[..., None], self.shares[..., None]
        free, local = ~self.local[..., None], self.local[..., None]
        direct, around = given.copy(), given.copy()
        for row, parts in hierarchy.branches:
            direct[row] += (share[parts] * direct[parts]).sum(axis=0)
        sides = direct.copy()
        for row, parts in reversed(hierarchy.branches):
            sides[parts] -= free[parts] * (part[parts] * direct[parts]).sum(axis=0)
            around[parts] += around[row]
            leaves = parts[parts < hierarchy.keys]
            sides[leaves] += local[leaves] * around[row]
        return sides

    def _product(self, given: Array) -> Array:
        hierarchy, part, share = self.hierarchy, self.parts[..., None], self.shares[..., None]
        free, local, sides = ~self.local[..., None], self.local[..., None], self._sides(given)
        product = np.zeros_like(given)
        for row, covariance in enumerate(self.covariances):
            if np.any(sides[row]):
                product[row] = covariance @ sides[row]
        events = hierarchy.sums(local * product)
        for row, parts in reversed(hierarchy.branches):
            of_all = (free[parts] * product[parts]).sum(axis=0)
            product[parts] += share[parts] * product[row] - part[parts] * of_all
        product[hierarchy.keys :] += events[hierarchy.keys :]
        return product
