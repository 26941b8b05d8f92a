"""Smooth a panel with its totals: the total of all as one series is, parts as departures from what it predicts.

Stations share the weather. What one of them cannot tell from noise, such as a rainy day, all of them together can: it
is in the prediction. So a panel that is smoothed together is nearer to the truth than each series by itself, and its
totals are no worse than by themselves; parts add up to totals; and the errors of any sum follow from those of all.

Values may be in several tiers, in which individuals weigh differently. What the total of all is, and how high the
level of each part, is asked of functions: both depend on what the tiers are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from opendp_timeseries.smoothing import errors, local_events
from opendp_timeseries.smoothing.departures import Departures, Events, Model, Stations, depart
from opendp_timeseries.smoothing.hierarchy import Hierarchy, HierarchyErrors, least_squares, nonnegative
from opendp_timeseries.smoothing.matrices import Array
from opendp_timeseries.smoothing.seasons import Season
from opendp_timeseries.smoothing.workers import Pool

#: The least rate of all by its mean, in units of whose root departures are.
_LOWEST: Final = 0.1
#: An event of the total multiplies what is predicted by no more, and divides it by no more than the other.
_SWELL: Final = 20.0
_SHRINK: Final = 5.0
#: A key is fitted again whose prediction moves by more, in units of its noise.
_SHIFT: Final = 0.5
#: Most turns after the first one, until events with names stay the same.
_TURNS: Final = 4


class Top(NamedTuple):
    """The total of all as one series: its counts in people, and what predicts its parts."""

    mean: Array
    variance: Array
    joint: LinearOperator
    events: NDArray[np.intp]  # steps
    rates: Array  # tiers by steps
    level: Array  # of each tier
    count_covariance: Array  # covariance of the counts of a step over the tiers, at the mean rate


class Levels(NamedTuple):
    """Levels of parts: of each tier, above zero, for shapes and sizes; and of counts, whose errors share a sum."""

    tiers: Array  # parts by tiers
    total: Array  # of counts, in people; above zero if that of their group is, to which they add up
    variance: Array  # of each total, without what all have in common


class Crowds(NamedTuple):
    """People who may come to a local event: weights of one individual by kind and tier, and how likely each kind is.

    One more kind is of people like those of the station, and is the first.
    """

    weights: Array  # kinds by tiers
    prior: Array  # of people like the station's, and of each kind


@dataclass(frozen=True)
class JointEstimate:
    """Estimates by the rows of the hierarchy: counts at every step, their errors, and local events."""

    mean: Array
    errors: HierarchyErrors
    chance: Array  # of a local event, at keys
    events: NDArray[np.intp]  # steps of single events of the total


def smooth_jointly(
    values: Array,
    noise: Array,
    hierarchy: Hierarchy,
    *,
    ahead: int,
    top: Callable[[Array, float], Top],
    levels: Callable[[Array, Array, float, Top, float], Levels],
    crowds: Crowds,
    weight: float,
    patterns: tuple[Season, ...],
    trend: bool,
    counts: bool,
    done: Callable[[int], None] | None = None,
) -> JointEstimate:
    """Smooth series of a hierarchy together.

    :param values: tiers by rows by steps.
    :param noise: standard deviation of each row's noise, in every tier; infinite where nothing was released.
    :param ahead: how many steps to add of which there are no values.
    :param top: returns the total of all with the steps ahead, given its values by tier and their noise.
    :param levels: returns those of the parts of a group, given the means of their values by tier, the errors of these,
        that of their sum, the total of all, and the level of the group.
    :param weight: of one individual in the last tier.
    :param counts: whether means and errors are of counts; else of rates.
    :param done: is told how many series are fitted.
    :raises FitError: if the total cannot be fitted.
    """
    rows, steps = values.shape[1:]
    flat, _ = least_squares(hierarchy.branches, values.swapaxes(0, 1).reshape(rows, -1), np.square(noise)[:, None])
    with Pool() as pool:
        fit = _Fit(
            np.pad(flat.reshape(rows, -1, steps), ((0, 0), (0, 0), (0, ahead))),
            hierarchy.upward(noise),
            hierarchy,
            crowds,
            Model(patterns, trend, counts, np.ones(steps + ahead), weight, slice(steps)),
            pool,
        )
        fit.turn(top, levels, done)
        for _ in range(_TURNS):
            if fit.is_stable():
                break
            fit.turn(top, levels, None)
    return fit.downward()


class _Fit:
    """Total, levels and departures: at first without what is known of local events, and then perhaps with it."""

    top: Top
    keys: Departures  # of all keys
    inner: dict[int, Departures]  # of the groups in each group
    levels: Levels  # of all rows; of the root its total
    shapes: Array  # what is predicted of the parts of each row, by its level; rows by tiers by steps

    def __init__(
        self, values: Array, noise: Array, hierarchy: Hierarchy, crowds: Crowds, model: Model, pool: Pool
    ) -> None:
        rows, tiers, steps = values.shape
        self._values, self._noise, self._hierarchy, self._crowds, self._model = values, noise, hierarchy, crowds, model
        self._pool = pool
        self._parents = np.zeros(rows, dtype=np.intp)
        for row, parts in hierarchy.branches:
            self._parents[parts] = row
        self._turns, self._events = 0, Events.empty(hierarchy.keys, tiers, steps)
        # Where there is an event with a name, of which groups are smoothed without it.
        self._local = np.zeros((rows, steps), dtype=np.bool_)

    def is_stable(self) -> bool:
        """Return whether the total was fitted without just those local events that have a name."""
        events, keys = self.keys.events, self._hierarchy.keys
        taken = self._turns > 1 or not events.chance.any()
        return taken and np.array_equal(events.chance > local_events.EVENT, self._local[:keys])

    def turn(
        self,
        top: Callable[[Array, float], Top],
        levels: Callable[[Array, Array, float, Top, float], Levels],
        done: Callable[[int], None] | None,
    ) -> None:
        """Fit everything, less what is known of local events."""
        hierarchy, keys = self._hierarchy, self._hierarchy.keys
        _, tiers, steps = self._values.shape
        self._turns += 1
        self._local[:keys] = self._events.chance > local_events.EVENT
        effect = np.zeros_like(self._values)
        effect[:keys] = self._events.effect * self._noise[:keys, None, None]
        # All of it is taken from a key itself; of groups only what has a name, lest a doubt is passed on to others.
        remainder = self._values - hierarchy.sums(effect * self._local[:, None])
        without_events = np.concatenate([self._values[:keys] - effect[:keys], remainder[keys:]])
        window = self._model.window
        self._make_top(top(remainder[hierarchy.root][:, window], float(self._noise[hierarchy.root])))
        self.levels = Levels(np.ones((hierarchy.size, tiers)), np.zeros(hierarchy.size), np.zeros(hierarchy.size))
        self.levels.total[hierarchy.root] = self.top.mean[window].mean()
        before, self.inner = getattr(self, "shapes", None), {}
        self.shapes = np.ones((hierarchy.size, tiers, steps))
        self.shapes[hierarchy.root] = self._prediction
        for row, parts in reversed(hierarchy.branches):
            noise = self._noise / np.sqrt(window.stop)
            means, of_group = without_events[parts][..., window].mean(axis=2), float(self.levels.total[row])
            estimates = levels(means, noise[parts], float(noise[row]), self.top, of_group)
            for target, new in zip(self.levels, estimates, strict=True):
                target[parts] = new
            groups = parts[parts >= keys]
            if len(groups):
                none = Events.empty(len(groups), tiers, steps)
                self.inner[row] = depart(self._stations(groups, remainder, crowds=False), self._model, none, self._pool)
                for group, rates in zip(groups.tolist(), self.inner[row].rates, strict=True):
                    self.shapes[group] = _shape(np.maximum(rates, 0.0), window)
        self._depart_keys(before, done)

    def _make_top(self, top: Top) -> None:
        """Take a total, and what it predicts."""
        self.top, rates = top, np.maximum(top.rates, 0.0)
        shape = _shape(rates, self._model.window)
        self._model = self._model._replace(common=np.maximum(shape[-1], _LOWEST), busy=top.events)
        if len(top.events):  # an event of all is in everybody's prediction
            height = top.mean[top.events] * self._model.weight
            usual = rates[-1, self._model.window].mean()
            swell = height / np.maximum(rates[-1, top.events], 1e-3 * usual + 1e-300)
            shape[:, top.events] *= np.clip(swell, 1 / _SHRINK, _SWELL)
        self._prediction = shape

    def _stations(self, rows: NDArray[np.intp], values: Array, *, crowds: bool) -> Stations:
        """Return some rows in units of their noise."""
        noise, top, weight = self._noise[rows], self.top, self._model.weight
        levels, total = self.levels.tiers[rows] / noise[:, None], self.levels.total[rows] * weight / noise
        size = self.levels.tiers[rows, -1] / max(float(top.level[-1]), 1e-300)
        like = levels / levels[:, -1:] * (weight / noise)[:, None]
        kinds = np.concatenate([like[:, None], self._crowds.weights / noise[:, None, None]], axis=1)
        return Stations(
            values=values[rows] / noise[:, None, None],
            levels=levels,
            total=total,
            shape=self.shapes[self._parents[rows]],
            count_covariance=top.count_covariance * (size / noise**2)[:, None, None],
            crowds=kinds if crowds else kinds[:, :0],
            prior=self._crowds.prior,
        )

    def _depart_keys(self, before: Array | None, done: Callable[[int], None] | None) -> None:
        """Fit keys; after the first turn those with local events, or whose prediction is another, and move the rest."""
        keys = np.arange(self._hierarchy.keys)
        stations = self._stations(keys, self._values, crowds=True)
        if before is None:
            self.keys = depart(stations, self._model, self._events, self._pool, done)
        else:
            shift = stations.levels[:, -1:] * (stations.shape[:, -1] - before[self._parents[keys], -1])
            self.keys.mean[:] += shift / self._model.weight
            self.keys.base[:] += shift / self._model.weight
            some = np.flatnonzero(self._events.chance.any(axis=1) | (np.abs(shift).max(axis=1) > _SHIFT))
            update = depart(stations.subset(some), self._model, self._events.subset(some), self._pool)
            self.keys.put(some, update)
        self._events = self.keys.events

    def downward(self) -> JointEstimate:
        """Return counts that add up, from the total down."""
        hierarchy, top, size = self._hierarchy, self.top, self._hierarchy.size
        mean, base, variance = (np.zeros((size, self._values.shape[2])) for _ in range(3))
        covariances: list[object] = [None] * size
        mean[hierarchy.root], variance[hierarchy.root], covariances[hierarchy.root] = top.mean, top.variance, top.joint
        parts_of = {row: parts[parts >= hierarchy.keys] for row, parts in hierarchy.branches}
        fits = [
            (np.arange(hierarchy.keys), self.keys),
            *((parts_of[row], group_fit) for row, group_fit in self.inner.items()),
        ]
        window = self._model.window
        even = np.pad(np.full(window.stop, 1 / window.stop), (0, mean.shape[1] - window.stop))
        for rows, departed in fits:
            noise = self._noise[rows, None]
            mean[rows], base[rows] = departed.mean * noise, departed.base * noise
            by_level = self._by_level(rows, base[rows])
            for k, row in enumerate(rows.tolist()):
                joint = errors.rescale(departed.covariance(k), np.full(mean.shape[1], noise[k, 0]))
                covariances[row], variance[row] = errors.at_level(
                    joint, departed.variance[k] * noise[k] ** 2, even, by_level[k], float(self.levels.variance[row])
                )
        local, chance = self._local, self._events.chance
        mean[hierarchy.keys :] += hierarchy.sums(np.where(local, mean - base, 0.0))[hierarchy.keys :]
        # An event stays where it is: what it leaves open is not for others to fill.
        open_to = variance.copy()
        calm = np.median(variance[: hierarchy.keys, self._model.window], axis=1)[:, None]
        open_to[: hierarchy.keys] = np.where(chance > 0, calm, variance[: hierarchy.keys])
        part, share = np.zeros_like(mean), np.zeros_like(mean)
        for row, parts in reversed(hierarchy.branches):
            part[parts] = open_to[parts] / open_to[parts].sum(axis=0)
            above = np.maximum(base[parts], 0.0)
            total = above.sum(axis=0)
            share[parts] = np.where(total > 0, above / np.where(total > 0, total, 1.0), part[parts])
            down = mean[parts] + part[parts] * (mean[row] - mean[parts].sum(axis=0))
            mean[parts] = nonnegative(down, open_to[parts], mean[row])
        joint_errors = HierarchyErrors(hierarchy, covariances, variance, part, share, local)
        return JointEstimate(mean, joint_errors, chance, top.events)

    def _by_level(self, rows: NDArray[np.intp], base: Array) -> Array:
        """Return how the error of a level is spread over the steps: as the counts are, where the level is known."""
        window, common = self._model.window, self._model.common
        level = base[:, window].mean(axis=1)
        is_positive = level > np.sqrt(self.levels.variance[rows])
        relative = np.maximum(base, 0.0) / np.where(is_positive, level, 1.0)[:, None]
        return np.where(is_positive[:, None], relative, common / common[window].mean())


def _shape(rates: Array, window: slice) -> Array:
    """Return rates by their mean over the steps of values, or ones where that is nothing."""
    mean = rates[..., window].mean(axis=-1, keepdims=True)
    shape: Array = np.where(mean > 0, rates / np.where(mean > 0, mean, 1.0), 1.0)
    return shape
