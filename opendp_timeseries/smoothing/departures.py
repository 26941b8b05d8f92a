"""Departures of stations from what the total of all predicts, with local events left out of the fit.

Everything of a station is in units of its noise. Its tiers are rotated as those of one series are: until the first
channel shows the common course of all tiers, and each of the others only departures of fewer and fewer tiers. A
channel's departure from the prediction is smoothed by itself, in units of the root of the rate of all.

Steps at which a local event may be are left open: they tell the fit nothing. Each is then held against all others, and
the fit is repeated until no more steps are suspected.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.smoothing import errors, local_events
from opendp_timeseries.smoothing.local_events import Chances, Evidence
from opendp_timeseries.smoothing.matrices import Array, FitError
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import Season
from opendp_timeseries.smoothing.structural import fit
from opendp_timeseries.smoothing.workers import Pool

#: How large departures are thought to be by the level, on the first channel and on others.
_COMMON_PRIOR: Final = 0.3
_DEPARTURE_PRIOR: Final = 0.1
#: The most that a step is taken to tell of its own departure.
_LEVERAGE: Final = 0.95
#: By how much less is known of a step that is left open.
_OPENNESS: Final = 1e-9
#: Most fits of a station, until its open steps stay the same.
_ROUNDS: Final = 4
#: Numbers that are worked on at a time.
_BLOCK: Final = 2**21


class Model(NamedTuple):
    """Settings that all departures have in common."""

    patterns: tuple[Season, ...]
    trend: bool
    counts: bool  # whether to estimate the counts; else their rate
    common: Array  # rate of all by its mean, at every step
    weight: float  # of one individual in the last tier
    window: slice  # the steps of which there are values, from the first on
    busy: NDArray[np.intp] = np.zeros(0, dtype=np.intp)  # steps of single events of all


class Channel(NamedTuple):
    """A channel's departure by the root of the rate of all: its mean and variance, and their covariance over steps.

    Less what it knows of its level, which the level's own estimate tells.
    """

    mean: Array
    variance: Array
    joint: Any
    level: float  # variance of the level


@dataclass(frozen=True)
class Stations:
    """Series and what is expected of them, in units of the noise of each."""

    values: Array  # series by tiers by steps
    levels: Array  # of each tier, above zero; series by tiers
    total: Array  # of the last tier, perhaps below zero
    shape: Array  # what is predicted, by its level; series by tiers by steps
    count_covariance: Array  # covariance of the counts of a step over the tiers, at the mean rate
    crowds: Array  # weights of one individual by series, kind and tier; no kinds if there are no events
    prior: Array  # how likely each kind is

    def __len__(self) -> int:
        return len(self.values)

    def subset(self, rows: NDArray[np.intp]) -> "Stations":
        """Return some of the series."""
        fields = ("values", "levels", "total", "shape", "count_covariance", "crowds")
        return replace(self, **{name: getattr(self, name)[rows] for name in fields})

    @cached_property
    def prediction(self) -> Array:
        """Prediction of each tier."""
        return self.levels[:, :, None] * self.shape

    @cached_property
    def back(self) -> Array:
        """Matrices from channels to tiers, by series."""
        return self._rotation[0]

    @cached_property
    def units(self) -> Array:
        """Size that departures may have on each channel, by series."""
        prior = np.full(self.levels.shape[1], _DEPARTURE_PRIOR)
        prior[0] = _COMMON_PRIOR
        units: Array = prior * np.maximum(self._rotation[1], 1e-3)
        return units

    @cached_property
    def _rotation(self) -> tuple[Array, Array]:
        tiers = self.levels.shape[1]
        root = np.linalg.cholesky(np.eye(tiers) + self.count_covariance)
        shapes = np.tril(np.ones((tiers, tiers))) * self.levels[:, :, None]
        turn, sizes = np.linalg.qr(np.linalg.solve(root, shapes))
        diagonal = np.einsum("njj->nj", sizes)
        return np.asarray(root @ (turn * np.sign(diagonal)[:, None, :]), dtype=np.float64), np.abs(diagonal)

    @cached_property
    def ahead(self) -> Array:
        """Matrices from tiers to channels, by series."""
        return np.asarray(np.linalg.inv(self.back), dtype=np.float64)

    def variances(self, common: Array) -> Array:
        """Return the variance of a value of each channel (series, channels, steps), which is 1 at the mean rate."""
        noise: Array = np.sum(self.ahead**2, axis=2)[..., None]
        variance: Array = np.maximum(noise + (1 - noise) * common, 0.0)
        return variance


class Events(NamedTuple):
    """Local events of each series: the steps that are left open, chances, and what events add to the tiers."""

    open: NDArray[np.bool_]  # series by steps
    chance: Array
    effect: Array  # on the tiers; series by tiers by steps; below zero where it is closed
    people: Array  # series by steps; of those who are missing, as many as have that effect in the last tier

    @classmethod
    def empty(cls, series: int, tiers: int, steps: int) -> "Events":
        """Return those of series without any."""
        zeros = np.zeros((series, steps))
        return cls(zeros.astype(np.bool_), zeros, np.zeros((series, tiers, steps)), zeros.copy())

    def subset(self, rows: NDArray[np.intp]) -> "Events":
        """Return those of some of the series, as a copy."""
        return Events(self.open[rows], self.chance[rows], self.effect[rows], self.people[rows])

    def copy(self) -> "Events":
        """Return a copy."""
        return self.subset(np.arange(len(self.open)))

    def put(self, rows: NDArray[np.intp], update: "Events") -> None:
        """Replace those of some of the series."""
        for row, new in zip(self, update, strict=True):
            row[rows] = new


@dataclass(frozen=True)
class Departures:
    """Series with their departures, in units of the noise of each."""

    mean: Array  # of counts, series by steps, in people
    base: Array  # without local events
    rates: Array  # by tier, without them
    variance: Array  # of counts, without that of the level
    step_variance: Array  # what of the variance is each step's own
    passed: Array  # how much of each channel's error is in it (series, channels, steps)
    channels: list[list[Channel]]
    events: Events

    def put(self, rows: NDArray[np.intp], update: "Departures") -> None:
        """Replace some of the series."""
        for name in ("mean", "base", "rates", "variance", "step_variance", "passed"):
            getattr(self, name)[rows] = getattr(update, name)
        for row, channels in zip(rows.tolist(), update.channels, strict=True):
            self.channels[row] = channels
        self.events.put(rows, update.events)

    def covariance(self, row: int) -> Any:
        """Return the covariance of one series' errors over the steps, without that of the level."""
        joint: Any = errors.diagonal(np.maximum(self.step_variance[row], 0.0))
        for passed, channel in zip(self.passed[row], self.channels[row], strict=True):
            less = errors.common_error(np.ones(len(passed)), -channel.level)
            joint += errors.rescale(channel.joint + less, passed)
        return joint


def depart(
    stations: Stations, model: Model, start: Events, pool: Pool, done: Callable[[int], None] | None = None
) -> Departures:
    """Return series with their departures from what is predicted, and local events.

    :param start: steps that are open from the beginning, and what events add there.
    :param done: is told how many series are fitted first.
    """
    events = start.copy()
    channels: list[list[Channel]] = [[] for _ in range(len(stations))]
    queue = np.arange(len(stations))
    for turn in range(_ROUNDS):
        some, now = stations.subset(queue), events.subset(queue)
        fits = _fit(some, model, now, pool, done if turn == 0 else None)
        for row, fitted in zip(queue.tolist(), fits, strict=True):
            channels[row] = fitted
        again = []
        for rows in _blocks(stations, queue):
            comparison = _Comparison.of(
                stations.subset(rows), model, [channels[row] for row in rows], events.subset(rows)
            )
            changed = comparison.suspect() if turn < _ROUNDS - 1 else np.zeros(len(rows), np.bool_)
            events.put(rows, comparison.events)
            again.append(rows[changed])
        queue = np.concatenate(again) if again else queue[:0]
        if not len(queue):
            break
    pieces = []
    for rows in _blocks(stations, np.arange(len(stations))):
        comparison = _Comparison.of(stations.subset(rows), model, [channels[row] for row in rows], events.subset(rows))
        pieces.append(comparison.departures())
    names = ("mean", "base", "rates", "variance", "step_variance", "passed")
    joined = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    return Departures(**joined, channels=channels, events=events)


def _blocks(stations: Stations, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    _, tiers, steps = stations.values.shape
    length = max(1, _BLOCK // (steps * tiers * max(tiers, 4 * stations.crowds.shape[1])))
    return [rows[first : first + length] for first in range(0, len(rows), length)]


def _fit(
    stations: Stations, model: Model, events: Events, pool: Pool, done: Callable[[int], None] | None
) -> list[list[Channel]]:
    """Fit all channels of all series, by several processes where that takes long."""
    slope = np.sqrt(model.common)
    ahead, wide = stations.ahead, stations.variances(model.common)
    deviations = ahead @ (stations.values - stations.prediction)
    deviations -= (deviations - ahead @ events.effect)[..., model.window].mean(axis=2, keepdims=True)
    unsure = wide / model.common / np.where(events.open, _OPENNESS, 1.0)[:, None, :]
    given = list(zip((deviations / slope)[..., model.window], unsure[..., model.window], stations.units, strict=True))
    fitted = partial(_fit_channels, size=len(slope), patterns=model.patterns, trend=model.trend)
    return pool.map(fitted, given, done)


def _fit_channels(
    rows: Array, variances: Array, units: Array, *, size: int, patterns: tuple[Season, ...], trend: bool
) -> list[Channel]:
    """Fit the departure of each channel of one series, at so many steps."""
    channels, steps = [], np.arange(rows.shape[1])
    for row, variance, unit in zip(rows, variances, units.tolist(), strict=True):
        level = 1 / (np.sum(1 / variance) + unit**-2)
        try:
            data = Observations(size, steps, row, variance, dispersion=1e-6, doubt=0.01, ahead=size - len(steps))
            fitted = fit(data, patterns, trend=trend, unit=unit, by_phase=True)
            channels.append(Channel(fitted.mean, fitted.variance, fitted.joint, level))
        except FitError:  # it is not known where the departure is, but for how large it may be
            channels.append(Channel(np.zeros(size), np.full(size, unit**2), _flat(size, unit), 0.0))
    return channels


def _flat(size: int, unit: float) -> Any:
    return errors.diagonal(np.full(size, unit**2))


@dataclass(frozen=True)
class _Comparison:
    """Series beside their fits: rates, and each step against what all others say of it."""

    stations: Stations
    model: Model
    fits: list[list[Channel]]
    events: Events
    rates: Array  # series by tiers by steps
    channel_variance: Array  # variances of channels, by the rate's root
    scatter: Array  # covariance of counts around their rate (series, steps, tiers, tiers)
    cavity: Array  # that of the rate, as all other steps tell it
    residual: Array  # what a step is beside all others (series, steps, tiers)

    @classmethod
    def of(cls, stations: Stations, model: Model, fits: list[list[Channel]], events: Events) -> "_Comparison":
        slope, back, ahead = np.sqrt(model.common), stations.back, stations.ahead
        mean = slope * np.array([[channel.mean for channel in row] for row in fits])
        variance = model.common * np.array([[channel.variance for channel in row] for row in fits])
        level = np.array([[channel.level for channel in row] for row in fits])
        rates = stations.prediction + back @ mean
        by_level = model.common / model.common[model.window].mean()
        rates[:, -1] += (stations.levels[:, -1] - rates[:, -1, model.window].mean(axis=1))[:, None] * by_level
        deviations = ahead @ (stations.values - stations.prediction)
        deviations -= (deviations - ahead @ events.effect)[..., model.window].mean(axis=2, keepdims=True)
        leverage = variance / stations.variances(model.common) * ~events.open[:, None, :]
        leverage = np.minimum(leverage, _LEVERAGE)
        residual, cavity = (deviations - mean) / (1 - leverage), variance / (1 - leverage)
        relative = np.maximum(rates / stations.levels[:, :, None], 0.0)
        deviation = np.sqrt(relative).swapaxes(1, 2)
        return cls(
            stations,
            model,
            fits,
            events,
            rates,
            np.maximum(variance - model.common * level[..., None], 0.0),
            deviation[..., None] * stations.count_covariance[:, None] * deviation[..., None, :],
            np.einsum("nji,nit,nki->ntjk", back, cavity, back, optimize=True),
            (back @ residual).swapaxes(1, 2),
        )

    @cached_property
    def evidence(self) -> Evidence:
        """Evidence of local events in the residuals, at steps of values."""
        window = self.model.window
        values = self.stations.values.swapaxes(1, 2)[:, window]
        evidence = Evidence.of(values, self.residual[:, window], self._total_variance[:, window], self.stations.crowds)
        # Perhaps of a crowd at one station, for which so much is predicted of the others that they seem to be closed.
        evidence.closure[:, self.model.busy] = 0.0
        return evidence

    @cached_property
    def _total_variance(self) -> Array:
        return self.scatter + self.cavity + np.eye(self.scatter.shape[-1])

    def suspect(self) -> NDArray[np.bool_]:
        """Open further steps, and return which series have any: those are to be fitted again.

        In the first fit an event hides behind itself. So every step is left open that might be one.
        """
        crowds, events = self.stations.crowds, self.events
        if not crowds.shape[1]:
            return np.zeros(len(crowds), np.bool_)
        chances = self.evidence.chances(self.stations.prior, local_events.SUSPICION)
        suspected = events.open.copy()
        suspected[:, self.model.window] |= chances.none < 1 - local_events.OPENING
        changed: NDArray[np.bool_] = np.any(suspected & ~events.open, axis=1)
        events.open[:] = suspected
        some = np.flatnonzero(suspected.any(axis=1))
        if len(some):
            events.put(some, self._expectation(some)[1])
        return changed

    def _expectation(self, some: NDArray[np.intp]) -> tuple[Chances, Events]:
        """Return chances of kinds and sizes of some series, and their events."""
        evidence, crowds, window = self.evidence.of_series(some), self.stations.crowds[some], self.model.window
        chances, open_steps = evidence.chances(self.stations.prior, local_events.FREQUENCY), self.events.open[some]
        chance, closed = np.zeros(open_steps.shape), np.zeros(open_steps.shape)
        some_chance = (chances.none < 1 - local_events.LEAST) & open_steps[:, window]
        chance[:, window] = some_chance * (1 - chances.none)
        closed[:, window] = some_chance * chances.closed
        sizes = np.zeros((*chance.shape, crowds.shape[1]))
        sizes[:, window] = (chances.crowd * evidence.sizes()).sum(axis=3) * some_chance[..., None]
        missing = closed[:, None] * np.maximum(self.rates[some], 0.0)
        effect = np.einsum("ntk,nkj->njt", sizes, crowds) - missing
        return chances, Events(open_steps, chance, effect, sizes.sum(axis=2) - missing[:, -1] / crowds[:, 0, -1:])

    def departures(self) -> Departures:
        """Return counts, their variances and what is of local events."""
        model, stations, weight = self.model, self.stations, self.model.weight
        tiers = self.scatter.shape[-1]
        scatter, rates = self.scatter * model.counts, self.rates[:, -1]
        gain = np.linalg.solve(scatter + np.eye(tiers), scatter[..., -1:])[..., 0]
        gain[:, model.window.stop :] = 0.0  # where there is no value, there is nothing to explain
        step_variance = scatter[..., -1, -1] - (gain * scatter[..., -1]).sum(axis=2)
        passed = ((np.eye(tiers)[-1] - gain) @ stations.back).swapaxes(1, 2)
        variance = (passed**2 * self.channel_variance).sum(axis=1) + step_variance
        beyond = (stations.values - self.rates).swapaxes(1, 2)
        mean = rates + (beyond * gain).sum(axis=2)
        hot, events = self.events.open, self.events.copy()
        some = np.flatnonzero(hot.any(axis=1))
        if len(some) and model.counts:
            chances, update = self._expectation(some)
            self.events.put(some, update)
            events = self.events.copy()
            squares = self.evidence.squares
            for row, crowd, closed in zip(some.tolist(), chances.crowd, chances.closed, strict=True):
                at = np.flatnonzero(hot[row])
                every, closed = crowd[at].reshape(len(at), -1), closed[at]
                count = local_events.counts(
                    beyond[row, at],
                    self.cavity[row, at] + self.scatter[row, at],
                    self._total_variance[row, at],
                    stations.crowds[row],
                    squares[row],
                    np.column_stack([np.maximum(1 - every.sum(axis=1) - closed, 1e-12), every]),
                )
                # Nobody is there where it is closed.
                expected = rates[row, at] + count.mean
                mean[row, at] = (1 - closed) * expected
                variance[row, at] = step_variance[row, at] = (1 - closed) * (count.variance + closed * expected**2)
                passed[row, :, at] = 0.0
        base = mean - (events.people * stations.crowds[:, 0, -1:] if stations.crowds.shape[1] else 0.0)
        shift = (stations.total - base[:, model.window].mean(axis=1))[:, None]
        shift = shift * (model.common / model.common[model.window].mean())
        mean, base = mean + shift, base + shift
        passed *= np.sqrt(model.common)
        return Departures(
            mean / weight,
            base / weight,
            self.rates,
            variance / weight**2,
            step_variance / weight**2,
            passed / weight,
            self.fits,
            events,
        )
