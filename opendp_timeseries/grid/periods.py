"""The periods of a unit of privacy: days, weeks, months and the like of a zone's calendar, or so many integer steps.

They divide all of time, whatever the grid, so that several counts of one log mean the same by a period. On a grid,
every step must lie within one of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.grid.instants import SECOND, UNITS, parse_zone, write_instant
from opendp_timeseries.grid.time_grid import TimeGrid, day_of, unit_begins
from opendp_timeseries.grid.widths import CalendarWidth, parse_width

__all__ = ["PERIODS", "Period"]

Ints = NDArray[np.int64]

#: Units of which everybody knows where one begins.
_UNITS: Final = {"1d": "day", "1w": "week from Monday", "1mo": "month", "1q": "quarter", "1y": "year"}
PERIODS: Final = tuple(_UNITS)


@dataclass(frozen=True)
class Period:
    """A division of time into periods of one kind.

    :param length: a unit of the calendar, ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"`` or ``"1y"``; or, where times are
        integers, a number of steps: then period ``k`` is the times from ``k * length`` to before ``(k + 1) * length``.
    :param zone: IANA name of the zone whose calendar is meant; none with a number of steps.
    :raises TypeError, ValueError: for anything else, naming the remedy.

    >>> print(Period("1d", "Europe/Paris"))
    one day (Europe/Paris)
    >>> Period(24).starts(TimeGrid(size=60))
    array([ 0, 24, 48])
    """

    length: str | int
    zone: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.length, str):
            remedy = "a number of integer steps, or a unit of the calendar such as '1d'"
            object.__setattr__(self, "length", check.integer("period", self.length, minimum=1, remedy=remedy))
            if self.zone is not None:
                raise ValueError(
                    f"zone ({self.zone!r}) must be left out with a period of integer steps ({self.length}); for a"
                    " calendar, write a unit such as '1d'"
                )
            return
        if self.length not in _UNITS:
            raise ValueError(
                f"period ({self.length!r}) must be one unit of the calendar, of which everybody knows where it begins:"
                f" {', '.join(map(repr, _UNITS))}; or a whole number, for a grid of integer steps"
            )
        if parse_zone(self.zone) is None:
            raise ValueError(
                f"period ({self.length!r}) needs the zone whose calendar is meant, for instance zone='UTC'"
            )

    def __str__(self) -> str:
        if isinstance(self.length, str):
            return f"one {_UNITS[self.length]} ({self.zone})"
        return "one step" if self.length == 1 else f"one period of {self.length} steps"

    def starts(self, grid: TimeGrid) -> Ints:
        """Return the first step of every period that a grid has a part of, ascending from 0.

        :raises ValueError: if a step of the grid lies in two periods, or times are not read on the clock of the zone.
        """
        return _starts(self, grid)

    def span(self, grid: TimeGrid) -> tuple[int, int]:
        """Return the first and the last period that a grid has a part of: when they begin, in seconds from 1970.

        Of integer steps, their numbers. Two grids have a period in common if these ranges overlap.

        :raises ValueError: as :meth:`starts` does.
        """
        return _span(self, grid)

    def lengths(self, grid: TimeGrid) -> Ints:
        """Return in how many steps of a grid each period is, the longest first."""
        return _lengths(self, grid)


@functools.lru_cache(maxsize=256)
def _starts(period: Period, grid: TimeGrid) -> Ints:
    if isinstance(period.length, int):
        if not grid.is_integer:
            raise ValueError(
                f"period ({period.length} steps) is for a grid of integer steps, and this one is {grid!r}; write a unit"
                " of the calendar and its zone, for instance '1d'"
            )
        starts = np.arange(0, grid.size, period.length, dtype=np.int64)
    else:
        starts = _calendar_starts(period, grid)
    starts.flags.writeable = False
    return starts


@functools.lru_cache(maxsize=256)
def _lengths(period: Period, grid: TimeGrid) -> Ints:
    lengths = np.sort(np.diff(_starts(period, grid), append=grid.size))[::-1].copy()
    lengths.flags.writeable = False
    return cast(Ints, lengths)


@functools.lru_cache(maxsize=4096)
def _span(period: Period, grid: TimeGrid) -> tuple[int, int]:
    if isinstance(period.length, int):
        return 0, int(_starts(period, grid)[-1]) // period.length
    begins = _begins_around(period, grid)
    start, stop = grid.bounds()
    before = begins[begins <= start // SECOND]
    return int(before[-1]), int(begins[begins < -(-stop // SECOND)][-1])


def _begins_around(period: Period, grid: TimeGrid) -> Ints:
    """The seconds from 1970 at which periods begin, from the one with the start of the grid to one after its end."""
    if grid.zone != period.zone or grid.is_integer:
        raise ValueError(
            f"period ({period.length!r} in zone {period.zone!r}) must be in the zone of the grid ({grid!r}), on whose"
            " clock times are read: give both the same"
        )
    zone, width = parse_zone(period.zone), cast(CalendarWidth, parse_width(period.length))
    assert zone is not None
    start, stop = grid.bounds()
    first = width.around(day_of(start, zone))[0]
    return unit_begins(width, first, width.steps_beyond(first, day_of(stop, zone)), zone)


def _calendar_starts(period: Period, grid: TimeGrid) -> Ints:
    begins = _begins_around(period, grid)
    start, stop = grid.bounds()
    begins = begins[(begins > start // SECOND) & (begins < -(-stop // SECOND))]  # within the grid
    steps = grid.steps(begins.view("M8[s]"), aware=True)
    # A tick before the beginning of a step is in the step before it.
    ticks = begins * (SECOND // UNITS[grid.unit])
    across = steps == grid.steps((ticks - 1).view(f"M8[{grid.unit}]"), aware=True)
    if across.any():
        raise _across(int(steps[across][0]), int(begins[across][0]), period, grid)
    return np.append(0, steps)


def _across(step: int, begin: int, period: Period, grid: TimeGrid) -> ValueError:
    unit, at = _UNITS[str(period.length)].split()[0], write_instant(begin * SECOND, parse_zone(period.zone))
    return ValueError(
        f"step {step} of {grid!r} lies in more than one {unit} ({period.zone}): one begins within it, at {at!r}. Choose"
        " steps of which whole ones make up the period, such as '1h' for days of whole hours, or a longer period"
    )
