"""What a figure of a series shows, whoever draws it: Matplotlib, or a page as SVG.

A long series is drawn on a page by the means of longer steps, with intervals of their own.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.grid.longer_steps import longer_steps
from opendp_timeseries.results.captions import BANDED, draws_noisy
from opendp_timeseries.results.digits import is_uncertain
from opendp_timeseries.results.frames import AnySeries, AnyTotals, known_interval, runs_of
from opendp_timeseries.results.profiles import Profile

Array = NDArray[np.float64]

#: Most steps that are drawn, of one figure and of all on a page; and the most that every figure has room for.
_MOST, _MOST_OF_ALL, _LEAST_ROOM = 750, 5000, 60
#: Longer steps by which a long series is drawn, and how many there must be: days, or weeks and longer, which all hold
#: a weekend, so that it beats with none of them; of a shorter one, parts of a day.
_LONGER: Final = {
    "1d": ("days", 28),
    "24h": ("24 hours", 28),
    "1w": ("weeks", 4),
    "168h": ("7 days", 4),
    "1mo": ("months", 4),
    "1y": ("years", 4),
    **{f"{number}min": (f"{number} minutes", 4) for number in (5, 10, 15, 30)},
    "1h": ("hours", 4),
    **{f"{number}h": (f"{number} hours", 4) for number in (3, 6, 12)},
}
#: Intervals wider than this, by the usual width, may stretch an axis by so much of what the line takes of it, and noisy
#: values by so much of both.
_WIDE: Final = 2.0
_ROOM: Final = 0.5
#: Series whose heights differ by this factor have axes of their own.
_APART: Final = 10.0


@dataclass(frozen=True, eq=False)
class Drawing:
    """Drawing of a series: its steps, or the means of longer ones."""

    grid: TimeGrid
    values: Array
    low: Array  # ends of the band, or of bars where the error covers the noise alone; NaN where none is known
    high: Array
    least: Array
    greatest: Array
    ahead: int  # the first that is a forecast, at least in part
    events: Sequence[int] = ()
    longer: str = ""  # what means are of; nothing if steps are drawn as they are
    partial: Sequence[int] = ()  # which of these the series covers in part, as it may the first and the last
    names: list[str] | None = None  # of the steps, where these are no times of a calendar
    is_banded: bool = True
    noisy_steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    noisy: Array = field(default_factory=lambda: np.empty(0))

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest of what is drawn; NaN if it is nothing."""
        return float(np.fmin.reduce(self.least)), float(np.fmax.reduce(self.greatest))

    @property
    def marks(self) -> list[int]:
        """The first step and the last of each event: one that is long would be a slab of lines."""
        return [step for ends in runs_of(self.events) for step in dict.fromkeys(ends)]

    @cached_property
    def is_faint(self) -> bool:
        """True if the line is usually too uncertain to read, and grey."""
        values = self.values[np.isfinite(self.values)]
        width = self._usual_width
        return width > 0 and bool(is_uncertain(values.mean() if len(values) else np.nan, width / 2))

    @property
    def _usual_width(self) -> float:
        width = (self.high - self.low)[np.isfinite(self.high)]
        return float(np.median(width)) if len(width) else 0.0

    def window(self, start: int, end: int) -> "Drawing":
        """Return the values of some of the steps, by which an axis is chosen that shows no others."""
        values, low, high = (row[start:end] for row in (self.values, self.low, self.high))
        some = (self.noisy_steps >= start) & (self.noisy_steps < end)
        noisy_steps, noisy = self.noisy_steps[some] - start, self.noisy[some]
        return replace(self, values=values, low=low, high=high, noisy_steps=noisy_steps, noisy=noisy)

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Ends that the axis must reach, from zero or below: of all intervals but those far wider than usual.

        These stretch it by half of the line at most.
        """
        usual = self.high - self.low <= _WIDE * self._usual_width
        bottom, top = _ends([self.values, self.low[usual], self.high[usual]])
        line, highest = _ends([self.values])[1], _ends([self.high])[1]
        return bottom, max(top, min(highest, line + _ROOM * (line - bottom)))

    @property
    def is_cut(self) -> bool:
        """True if an interval goes on beyond what the axis must reach."""
        lowest, highest = _ends([self.low, self.high])
        return lowest < self.reach[0] or highest > self.reach[1]

    @cached_property
    def clipped_noisy(self) -> Array:
        """Noisy values, at an edge where they lie far beyond all else: they would press it into a line."""
        low, high = self.reach
        room = _ROOM * (high - low) if high > low else math.inf
        return np.clip(self.noisy, low - room, high + room)

    def title(self, name: str) -> str:
        """Return what stands above the figure."""
        return f"{name} (grey: too uncertain to read)" if self.is_faint else name


def _ends(rows: Sequence[Array]) -> tuple[float, float]:
    """Return the least and the greatest of what is known, or zero if that is less, or greater."""
    numbers = np.nan_to_num(np.concatenate([*rows, [0.0]]))
    return float(numbers.min()), float(numbers.max())


def drawing_of_profile(profile: Profile) -> Drawing:
    """Return what is drawn of a profile."""
    size, values = len(profile.names), profile.values
    return Drawing(TimeGrid(size=size), values, profile.low, profile.high, values, values, size, names=profile.names)


def drawing_of_totals(totals: AnyTotals, level: float) -> Drawing:
    """Return what is drawn of totals."""
    ahead = len(totals) - int(np.count_nonzero(totals.is_forecast))
    return Drawing(totals.grid, totals.values, *totals.interval(level), totals.values, totals.values, ahead)


def drawing_of_steps(series: AnySeries, grid: TimeGrid, level: float) -> Drawing:
    """Return what is drawn of every step of a series, and of the noisy values behind it."""
    values, release, is_drawn = series.values, series.release, draws_noisy(series)
    return Drawing(
        grid,
        values,
        *known_interval(series, level),
        values,
        values,
        grid.size - series.ahead,
        series.events,
        is_banded=series.error_covers in BANDED,
        noisy_steps=release.steps if is_drawn else release.steps[:0],
        noisy=release.values if is_drawn else release.values[:0],
    )


def drawing_of(series: AnySeries, grid: TimeGrid, level: float, figures: int = 1) -> Drawing:
    """Return what is drawn of a series, on a page of so many figures: its steps, or means of longer ones."""
    room = min(_MOST, max(_MOST_OF_ALL // figures, _LEAST_ROOM))
    if grid.size <= room:
        return drawing_of_steps(series, grid, level)
    sums, longer = _longer(series, grid, room)
    drawn, starts = drawing_of_totals(sums, level), sums.starts
    sizes = np.ones(len(starts)) if series.is_mean else np.diff(starts, append=grid.size)
    least, greatest = (by.reduceat(series.values, starts) for by in (np.minimum, np.maximum))
    return replace(
        drawn,
        values=drawn.values / sizes,
        low=drawn.low / sizes,
        high=drawn.high / sizes,
        least=least,
        greatest=greatest,
        events=tuple(sorted(set((np.searchsorted(starts, series.events, side="right") - 1).tolist()))),
        longer=longer,
        partial=tuple(np.flatnonzero(~sums.complete).tolist()),
    )


def _longer(series: AnySeries, grid: TimeGrid, room: int) -> tuple[AnyTotals, str]:
    """Return the totals of the shortest suitable steps for which there is room, and what these are called."""
    for step, (words, fewest) in _LONGER.items():
        with contextlib.suppress(ValueError):  # that step divides those of the grid, or it has no calendar
            if fewest <= len(longer_steps(grid, step)[0]) <= room:
                return series.resample(step, grid=grid), words
    number = -(-grid.size // (room // 2))
    return series.resample(number, grid=grid), f"{number} steps"


def common_axis(drawings: Iterable[Drawing]) -> tuple[float, float] | None:
    """Return what an axis of several drawings must reach; None if their heights differ tenfold, so each has its own."""
    ends = [drawn.reach for drawn in drawings]
    tops = [top for _, top in ends]
    if tops and max(tops) > _APART * min(tops):
        return None
    return min((low for low, _ in ends), default=0.0), max(tops, default=0.0)
