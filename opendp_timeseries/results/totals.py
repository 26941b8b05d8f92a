"""Totals of a series over days, weeks, months and the like, and over keys of a panel; and totals that set its level."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.grid.longer_steps import longer_steps
from opendp_timeseries.release.release import Release
from opendp_timeseries.results import frames, plot
from opendp_timeseries.results.frames import AnySeries
from opendp_timeseries.smoothing import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Totals(frames.AnyTotals):
    """Totals over longer steps, as :meth:`.Series.resample` returns them.

    :param series: what was added up.
    :param values: of a panel or of groups, one row of totals after the other.
    :param standard_error: NaN where it is not known.
    :param complete: whether each step lies wholly on the grid of the series, as the first and the last may not.
    :param starts: the first step of each, in one row of them.
    :param grid: of one row of totals.
    :param keys: of the panel, or names of the groups; None for one series.
    :param is_bound: whether standard errors are the most that they can be, as the covariance is not known.
    """

    def by_key(self) -> dict[Hashable, Totals]:
        """Return the totals of each key or group.

        :raises ValueError: if they are of one series.
        """
        if self.keys is None:
            raise Refusal("these totals", ..., "are of one series, which has no keys", "read their values")
        rows = (np.split(row, len(self.keys)) for row in (self.values, self.standard_error, self.complete))
        return {
            key: replace(self, values=values, standard_error=error, complete=complete, keys=None)
            for key, values, error, complete in zip(self.keys, *rows, strict=True)
        }

    def to_frame(
        self, *, library: Literal["pandas", "polars"] = "pandas", zone: str = "local", confidence_level: float = 0.9
    ) -> Any:
        """Return a data frame with a row for each total: ``value``, ``low``, ``high`` and ``complete``.

        Where the series has steps ahead, ``forecast`` says whether any of them is in the total. The rest is as of
        :meth:`.Series.to_frame`.
        """
        low, high = self.interval(confidence_level)
        rows = {"value": self.values, "low": low, "high": high, "complete": self.complete}
        rows |= {"forecast": self.is_forecast} if self.series.ahead else {}
        return frames.to_frame(rows, self.grid, self.keys, library=library, zone=zone)

    def plot(self, **options: Any) -> Axes:
        """Draw the totals of one series, with intervals. Options are ``axes``, ``unit`` and ``confidence_level``."""
        return plot.plot_totals(self, **options)

    def __repr__(self) -> str:
        of = "" if self.keys is None else f" of {len(self.keys)} keys"
        return f"Totals({len(self)}{of}, over {self.grid.step or 'steps'}; standard error{' at most' * self.is_bound})"


def totals(
    series: AnySeries, step: str | int, *, groups: Mapping[Hashable, Iterable[Hashable]] | None, grid: TimeGrid | None
) -> Totals:
    """Add a series up; see :meth:`.Series.resample`."""
    keys, grid = series.release.keys, frames.grid_of(series, grid)
    starts, longer, complete = longer_steps(grid, step)
    parts = [series] if keys is None else list(series.by_key().values())
    ends = np.append(starts, grid.size)  # what adds up stretches, each from its start to the next one's:
    over_time = csr_array((np.ones(grid.size), np.arange(grid.size), ends), shape=(len(starts), grid.size))
    over_keys: Any = eye_array(len(parts)) if groups is None else _members(groups, keys)
    values = over_keys @ np.array([over_time @ part.values for part in parts])
    every = np.ones(grid.size)
    by_key = groups is None and all(part.covariance is not None for part in parts)  # which takes less time
    if series.covariance is not None and not by_key:
        of_keys = over_keys.toarray()[..., None] * every
        is_bound, variances = False, np.array([errors.variances_of(series.covariance, row, starts) for row in of_keys])
    else:
        # Errors of different keys are independent. What is not known may all go in one direction.
        variance, deviation = np.zeros((2, len(parts), len(starts)))
        for row, part in enumerate(parts):
            if part.covariance is None:
                deviation[row] = over_time @ part.standard_error
            else:
                variance[row] = errors.variances_of(part.covariance, every[None], starts)
        variances = over_keys @ variance + (over_keys @ deviation) ** 2
        is_bound = any(part.covariance is None for part in parts) and values.size < series.release.size
    between = np.array([over_time @ (~part.kept & (part.error_covers == "noise")) for part in parts])
    variances[over_keys @ between > 0] = np.nan
    return Totals(
        series=series,
        values=values.ravel(),
        standard_error=np.sqrt(variances).ravel(),
        complete=np.tile(complete, len(values)),
        starts=starts,
        grid=longer,
        keys=keys if groups is None else tuple(groups),
        is_bound=is_bound,
    )


def _members(groups: Mapping[Hashable, Iterable[Hashable]], keys: tuple[Hashable, ...] | None) -> csr_array:
    """Return what adds up groups of keys."""
    if keys is None:
        raise Refusal("groups", ..., "must be of the keys of a panel, and this is one series")
    rows = np.zeros((len(groups), len(keys)))
    for row, (name, chosen) in zip(rows, groups.items(), strict=True):
        for key in chosen:
            if key not in keys or row[keys.index(key)]:
                raise Refusal("groups", name, "must list keys of the panel, each once", f"{key!r}")
            row[keys.index(key)] = 1.0
        if not row.any():
            raise Refusal("groups", name, "must list keys of the panel, and lists none")
    return csr_array(rows)


def total_by_step(release: Release, total: Release, *, unfiltered: bool) -> NDArray[np.int64]:
    """Return, for each entry of a series, which number of a total it is part of.

    :param unfiltered: whether the series is of the counts before a filter.
    :raises TypeError: if the total is not of this series.
    """
    signal, of = release.design.signal, total.design.signal
    count, total_count = signal.count, of.count
    if total_count is None or total_count.per is None or of.kernels or len(total) < total.size:
        raise TypeRefusal(
            "total", ..., "must be a number, or the release of a count with `per=`, with every number kept"
        )
    part, all_of_it = None if count is None else count.reading, total_count.reading
    if (
        count is None
        or part is None
        or count.per is not None
        or part.once_over is not None
        or part.grid != all_of_it.grid
    ):
        raise TypeRefusal("total", ..., "must be of the grid of the series", f"it is of {all_of_it.grid!r}")
    if signal.kernels and not unfiltered:
        raise TypeRefusal(
            "total", ..., "must go to counts, and this series is of filtered ones", "smooth the release instead"
        )
    if (part.source, part.step_cap, part.panel) != (all_of_it.source, all_of_it.step_cap, all_of_it.panel):
        raise TypeRefusal(
            "total",
            ...,
            "must be of the columns, `step_cap` and keys of the series",
            "for one number of all keys, chain then_totals({'all': keys}) after it",
        )
    if all_of_it.gap > part.gap or (all_of_it.key_cap or math.inf) < (part.key_cap or math.inf):
        raise TypeRefusal(
            "total",
            ...,
            f"must leave out no more than the series: its gap ({all_of_it.gap}) must be at most {part.gap}, its"
            f" `key_cap` ({all_of_it.key_cap})"
            f" {'None' if part.key_cap is None else f'None or at least {part.key_cap}'}",
        )
    series, groups = np.arange(len(release.keys or (0,))), of.groups
    if groups is not None and signal.groups is None and not any(groups.depths):
        series = np.array([groups.innermost[key] for key in count.panel or ()])
    elif groups != signal.groups:
        raise TypeRefusal("total", ..., "must be of each series, or of groups of them that have no series in common")
    starts = total_count.starts
    periods = np.searchsorted(starts, np.arange(count.grid.size), side="right") - 1
    numbers: NDArray[np.int64] = (series[:, None] * len(starts) + periods).ravel()
    return numbers
