"""Releases of consecutive grids as one, such as of months; and steps after the last, of which nothing was released.

What is fitted is one series over all of their grids, so its release is made up here: of all values, with a grid that
reaches as far. It states nothing. Who was counted how often is said by the releases themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.design.tiers import Table, tiers_for
from opendp_timeseries.design.weighting import Weighting
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.grid import TimeGrid, extend, grid_over, steps_ahead
from opendp_timeseries.release.release import Release
from opendp_timeseries.smoothing.everybody import last_tier, values_at
from opendp_timeseries.smoothing.levels import Prior, fit_level
from opendp_timeseries.smoothing.matrices import Array, FitError

#: Noise that differs by less than this is as good as equal.
_EQUAL: Final = 0.02
#: Noise is taken to be no less than this share of the largest mean, as arithmetic needs some.
_LEAST: Final = 1e-6
_ONE_BY_ONE: Final = "smooth each by itself"


@dataclass(frozen=True, eq=False)
class Run:
    """Releases of one kind whose grids follow each other, and a number of steps after them.

    :param releases: in order of their grids.
    :param grid: of the steps of one series, in place of the release's own, if that was made elsewhere.
    :raises ValueError: if they are not of one kind, or do not follow each other; naming the remedy.
    """

    releases: tuple[Release, ...]
    ahead: int = 0
    given: TimeGrid | None = None

    def __post_init__(self) -> None:
        if len(self.releases) > 1:
            first = _kind(self.releases[0])
            for release in self.releases[1:]:
                if _kind(release) != first:
                    raise Refusal(
                        "releases",
                        ...,
                        "must be of one count, in columns, caps, keys and groups, to be smoothed together over several"
                        " grids",
                        _ONE_BY_ONE,
                    )
            _ = self.grid  # or they do not follow each other
        if len(self.releases) > 1 or self.ahead:
            signal = self.releases[0].design.signal
            if signal.kernels or (signal.count is not None and signal.count.per is not None):
                what = "behind a filter" if signal.kernels else "of totals by `per=`"
                name, rule = ("ahead", "left out") if self.ahead else ("releases", "of one grid")
                raise Refusal(name, ..., f"must be {rule} {what}, whose values are not of single steps", _ONE_BY_ONE)

    @property
    def is_one(self) -> bool:
        """Return whether it is one release, and no more steps."""
        return len(self.releases) == 1 and not self.ahead

    @property
    def count(self) -> Count | None:
        """The count of the first, if it is known."""
        return self.releases[0].design.signal.count

    @cached_property
    def lengths(self) -> list[int]:
        """Steps of one series of each release."""
        return [_steps(release) for release in self.releases]

    @property
    def steps(self) -> int:
        """Steps of one series that were released."""
        return sum(self.lengths)

    @cached_property
    def grid(self) -> TimeGrid | None:
        """The grid of one series, with the steps after it; None if it is not known."""
        grids = [self.given or release.grid for release in self.releases]
        series_grids = [grid for grid in grids if grid is not None]
        return extend(grid_over(series_grids), self.ahead) if series_grids else None

    @cached_property
    def noise(self) -> Array:
        """Standard deviation of the noise at each step that was released."""
        return np.repeat([release.scale for release in self.releases], self.lengths)

    @property
    def is_even(self) -> bool:
        """Return whether the noise is the same everywhere."""
        return float(np.ptp(self.noise)) <= _EQUAL * float(self.noise.max())

    @cached_property
    def single_release(self) -> Release:
        """All values as one release, whose noise is that of the mean square."""
        if self.is_one:
            return self.releases[0]
        first = self.releases[0]
        size, starts = self.steps + self.ahead, np.cumsum([0, *self.lengths[:-1]])
        positions = [
            _placed(release, start, size) for release, start in zip(self.releases, starts.tolist(), strict=True)
        ]
        order = np.argsort(np.concatenate(positions))
        is_kept = all(release.sampling_probability == 1 for release in self.releases)
        sampling = Sampling(probability=1.0) if is_kept else first.sampling
        scale = first.scale if self.is_even else math.sqrt(float(np.mean(self.noise**2)))
        named = [release.invocation for release in self.releases]
        return Release(
            steps=np.concatenate(positions)[order],
            values=np.concatenate([release.values for release in self.releases])[order],
            design=replace(first.design, signal=self._signal(first.design.signal), sampling=sampling, scale=scale),
            invocation=None if None in named else "".join(map(str, named)),
        )

    def _signal(self, signal: Any) -> Any:
        """Return the signal over the grid of the whole."""
        grid = self.grid
        if isinstance(signal, UnknownSignal) or grid is None:
            return UnknownSignal(self.steps + self.ahead)
        return replace(signal, count=replace(signal.count, reading=replace(signal.count.reading, grid=grid)))

    def last_tiers(self, level: int = 0) -> "Run":
        """Return that of the last tiers of private series, in counts; see :func:`.last_tier`."""
        last = [last_tier(item, level) for item in self.releases]
        longest = max(last, key=lambda item: item.design.count.grid.size).design.count.weighting  # all of them are full
        return replace(self, releases=tuple(_weighted(item, longest) for item in last))

    def tiers(self, level: int = 0) -> "Tiered":
        """Return the values of private series in all tiers.

        In grids of other lengths people come in more or fewer steps, and tiers end a little elsewhere. All are brought
        to those of the longest, by what a tier has of people who come in as large a share of the steps; the last one
        exactly.

        :param level: of groups of keys; 0 is of the keys.
        """
        counts = [item.design.count for item in self.releases]
        tables = [_table(count) for count in counts]
        ends, weights = max(tables, key=lambda item: int(item.ends[-1]))
        given = [values_at(release, count, level) for count, release in zip(counts, self.releases, strict=True)]
        most = max(self.lengths)
        longest = [item for item, length in zip(given, self.lengths, strict=True) if length == most]
        is_alike = len(longest) == len(given)
        often = np.ones(len(ends)) if is_alike else _shares_by_often(longest, ends, weights, counts[0])
        values, noise = [], []
        for (of_level, scale), table, length in zip(given, tables, self.lengths, strict=True):
            steps = np.round(ends * (length / most))
            rows = np.searchsorted(table.ends, np.minimum(steps, table.ends[-1]))
            factor = often @ weights / (often @ table.weights[rows])
            factor[-1] = weights[0, -1] / table.weights[0, -1]
            values.append(factor[:, None, None] * of_level)
            noise.append(np.repeat(factor[:, None] * scale, length, axis=1))
        stacked, errors = np.concatenate(values, axis=2), np.concatenate(noise, axis=1)
        by_tier = np.sqrt(np.mean(errors**2, axis=1))
        scale = float(by_tier[-1])
        even = np.where(by_tier > 0, by_tier / (scale or 1.0), 1.0)  # by which all tiers have the same noise
        relative = errors / np.where(by_tier > 0, by_tier, 1.0)[:, None]
        return Tiered(
            stacked / even[:, None, None],
            ends,
            weights / 2**RESOLUTION_BITS / even,
            scale,
            None if len(tables) == 1 else relative,
        )


class Tiered(NamedTuple):
    """Values in tiers of activity, and what their weights are.

    :param values: by tier, series and step.
    :param ends: how often people come who have a row of weights.
    :param weights: a column for each tier.
    :param scale: standard deviation of the noise, in the mean square over the steps of any tier.
    :param noise: that of each tier and step by this; None if it is the same.
    """

    values: Array
    ends: NDArray[np.int64]
    weights: Array
    scale: float
    noise: Array | None


def _shares_by_often(
    given: Sequence[tuple[Array, float]], ends: NDArray[np.int64], weights: NDArray[np.int64], count: Count
) -> Array:
    """Return shares of the level by how often people come, given the values of some releases and their noise.

    :param ends: how often people come who have a row of weights.
    """
    means = np.mean([values.sum(axis=1).mean(axis=1) for values, _ in given], axis=0)
    variance = np.mean([scale**2 * values.shape[1] / values.shape[2] for values, scale in given]) / len(given)
    noise = max(float(variance) ** 0.5, _LEAST * float(np.abs(means).max()))
    prior = Prior.of(count.reading.step_cap)
    try:
        return fit_level(means, ends, weights / 2**RESOLUTION_BITS, noise, prior=prior).by_frequency
    except FitError:  # as many in each octave
        return np.diff(np.log(ends), prepend=math.log(ends[0]) - 1.0)


def _table(count: Count) -> Table:
    assert count.tiers is not None
    return count.tiers.table(count.tiers.last(count.reading))


def _weighted(release: Release, weighting: Weighting) -> Release:
    """Return a release of a count that is weighted so."""
    signal = release.design.known_signal
    counted = replace(signal, count=replace(signal.count, weighting=weighting))
    return replace(release, design=replace(release.design, signal=counted))


def _steps(release: Release) -> int:
    """Steps of one series."""
    count = release.design.signal.count
    return release.size if count is None else count.grid.size


def _placed(release: Release, start: int, size: int) -> NDArray[np.int64]:
    """Return where kept values of a release are, whose steps begin there in series of this size."""
    row, step = np.divmod(release.steps, _steps(release))
    placed: NDArray[np.int64] = row * size + start + step
    return placed


class _Kind(NamedTuple):
    """Properties in common of releases that differ by their grids alone, and by the noise."""

    reading: tuple[Any, ...]
    weighting: Any
    stages: tuple[Any, ...]

    def differs_by_weighting(self, kind: "_Kind") -> bool:
        """Return whether all else is the same."""
        return self != kind and (self.reading, self.stages) == (kind.reading, kind.stages)


def _kind(release: Release) -> _Kind:
    """Return the kind of a release."""
    signal = release.design.signal
    if signal.count is None:
        raise Refusal("releases", ..., "must know their grids and counts, to be smoothed together", _ONE_BY_ONE)
    count = signal.count
    weighting = count.weighting if count.tiers is None else _tiers(count)
    reading = tuple(getattr(count.reading, field.name) for field in fields(count.reading) if field.name != "grid")
    return _Kind(reading, weighting, signal.stages)


def _tiers(count: Count) -> Any:
    """Return what tiers have in common that differ by their grids alone: their ends, unless they follow from these."""
    tiers = count.tiers
    assert tiers is not None
    usual = tiers_for(count.reading, typical=tiers.typical, total_bound=tiers.total_bound)
    return tiers.series, tiers.share, tiers.typical, tiers.total_bound, None if tiers.ends == usual.ends else tiers.ends


def runs_of(releases: Sequence[Release], ahead: object, given: TimeGrid | None) -> list[Run]:
    """Return a run for each release of the first grid: of it and of those of its kind on the grids after it.

    :raises ValueError: if grids do not follow each other, or one has other releases than the first.
    """
    by_grid: dict[Any, list[Release]] = {}
    for release in releases:
        by_grid.setdefault(release.grid, []).append(release)
    for grid, row in by_grid.items():
        signals = [release.design.signal for release in row]
        if any(signal.count and signal.count.panel is None and signals.count(signal) > 1 for signal in signals):
            raise Refusal(
                "releases",
                ...,
                f"must be of one series once on each grid; of {grid!r}, several are of the same",
                f"{_ONE_BY_ONE}, or leave all but one out",
            )
    if len(by_grid) == 1:
        return [run_of((release,), ahead, given) for release in releases]
    if given is not None:
        raise Refusal(
            "grid", ..., "must be left out where releases of several grids are smoothed together: they know it"
        )
    if None in by_grid or any(grid.is_integer for grid in by_grid):
        raise Refusal("releases", ..., "must have grids with times, to be smoothed together over several", _ONE_BY_ONE)
    (first, *later) = sorted(by_grid.values(), key=lambda row: _begin(row[0]))
    chains = []
    for release in first:
        kind = _kind(release)
        alike = [[candidate for candidate in row if _kind(candidate) == kind] for row in later]
        count = release.design.signal.count
        if count is not None and count.tiers is not None and not all(alike):
            candidates = [candidate for row in later for candidate in row]
            if any(kind.differs_by_weighting(_kind(candidate)) for candidate in candidates):
                what = "ends, share, typical and total_bound"
                purpose = "to be smoothed together over several grids"
                raise Refusal("releases", ..., f"must have the same tiers, by {what}, {purpose}", _ONE_BY_ONE)
        if any(len(row) != 1 for row in alike) or any(len(row) != len(first) for row in later):
            raise Refusal(
                "releases",
                ...,
                f"must be the same kinds of series on every grid; of {release.grid!r}, one is not on all",
                f"{_ONE_BY_ONE}, or leave it out",
            )
        chains.append(run_of((release, *(row[0] for row in alike)), ahead, None))
    return chains


def series_by_kind(releases: Sequence[Release]) -> list[list[Release]]:
    """Return the releases of series that are smoothed together: of one reading each, on grids of one step and zone.

    Numbers of individuals, and totals over time, are not among them.
    """
    by_kind: dict[Any, list[Release]] = {}
    for release in releases:
        count = release.design.signal.count
        if count is not None and count.per is None and not count.reading.is_once and count.grid.size > 1:
            kind = _kind(release)[0], count.grid.step, count.grid.zone, count.grid.is_integer and count.grid
            by_kind.setdefault(kind, []).append(release)
    return list(by_kind.values())


def _begin(release: Release) -> Any:
    assert release.grid is not None
    return release.grid.edges()[0]


def run_of(releases: tuple[Release, ...], ahead: object, given: TimeGrid | None) -> Run:
    """Return a run with as many steps after it as :func:`.smooth` is asked for."""
    run = Run(releases, given=given)
    if ahead is None:
        return run
    return replace(run, ahead=steps_ahead(ahead, run.grid or TimeGrid(size=run.steps)))
