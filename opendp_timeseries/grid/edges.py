"""The edges of steps: a fixed time apart, or the beginnings of calendar units on the clock of a zone."""

from __future__ import annotations

import bisect
import datetime as dt
import re
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.grid.clock import DAY, SECOND, Ints, clock_around
from opendp_timeseries.grid.instants import LAST, check_years, whole_ticks, write_instant

#: The edges of steps, in nanoseconds from 1970, UTC: a range if they are equally far apart, as a grid may have 2^31
#: steps; else an array. Of both, ``len``, items and slices are the same.
Edges = range | Ints
Dates = NDArray[np.datetime64]

#: Units of a fixed length, in nanoseconds. The minute is not "m", which could be read as a month.
_FIXED: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "min": 60 * SECOND, "h": 3600 * SECOND}
#: Units from the shortest, with their lengths in nanoseconds ("ns"), days ("D") or months ("M"). Named as in Polars.
_UNITS: Final = {unit: (length, "ns") for unit, length in _FIXED.items()} | {
    unit: (length, of)
    for unit, length, of in [("d", 1, "D"), ("w", 7, "D"), ("mo", 1, "M"), ("q", 3, "M"), ("y", 12, "M")]
}
_BEGINNINGS: Final = {"d": "day", "w": "week (a Monday)", "mo": "month", "q": "quarter", "y": "year"}
_MONDAY: Final = np.datetime64("1970-01-05", "D")
_MAX_DAYS: Final = 220_000  # more days than the years of a grid have
_MAX_SKIPPED: Final = 3  # more days than any clock has skipped in these years
_LAST_DATE: Final = np.datetime64("2262-01-01", "D")  # the last that nanoseconds can hold; calendars end here


class Width(NamedTuple):
    """A number of nanoseconds (``"ns"``), whatever clocks do, or of days (``"D"``) or months (``"M"``) of a calendar.

    A calendar unit begins at the first instant at which the clock shows its first day, or a later day: at midnight, or
    when clocks skip midnight as they go forward. A day that clocks skip entirely has no length, and is not counted.
    """

    number: int
    of: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number // _UNITS[self.unit][0]}{self.unit}"

    @property
    def is_calendar(self) -> bool:
        """True if the width is in calendar units, so that steps begin by a clock."""
        return self.of != "ns"

    def bounds_of(self, date: np.datetime64) -> Dates:
        """Return the first days of the calendar unit of a date and of the next unit; weeks begin on Monday."""
        length, of = _UNITS[self.unit]
        zero = _MONDAY if of == "D" else np.datetime64("1970-01", "M")
        unit = (date.astype(f"M8[{of}]") - zero).astype(np.int64) // length
        return cast(Dates, (zero + (length * np.array([unit, unit + 1])).astype(f"m8[{of}]")).astype("M8[D]"))

    def begins(self, first: np.datetime64, zone: dt.tzinfo, *, steps: int = 0, beyond: int | None = None) -> Ints:
        """Return the beginnings of calendar units from the first day of one: ``steps`` units, or beyond an instant."""
        start = first.astype(f"M8[{self.of}]")
        if beyond is not None:
            ahead = int((day_of(beyond, zone).astype(start.dtype) - start).astype(np.int64))
            steps = max(ahead, 0) // self.number + 2
        number = min(self.number, _MAX_DAYS)
        ahead_of_start = number * np.arange(min(steps, _MAX_DAYS // number + 1) + 1)
        return begins_of_days((start + ahead_of_start.astype(f"m8[{self.of}]")).astype("M8[D]"), zone)

    def coarsest(self, first: int, zone: dt.tzinfo | None) -> Width:
        """Return the width in the coarsest unit that divides it and, for the calendar, that begins at ``first``."""
        if self.of == "ns" and zone is dt.UTC and self.number % DAY == 0 == first % DAY:
            return Width(self.number // DAY, "D", "d").coarsest(first, zone)
        units = [unit for unit, (length, of) in _UNITS.items() if of == self.of and self.number % length == 0]
        day = day_of(first, zone) if self.is_calendar and zone is not None else None
        widths = [self._replace(unit=unit) for unit in units]
        return [width for width in widths if day is None or width.bounds_of(day)[0] == day][-1]


def parse_width(step: object) -> Width:
    """Return the width of a step from the parameter of a grid.

    :raises TypeError: for a value of another type.
    :raises ValueError: for an unknown text or unit, or a width that is not positive.
    """
    if isinstance(step, dt.timedelta):  # pandas' timedelta has nanoseconds
        number = step // dt.timedelta(microseconds=1) * 1000 + getattr(step, "nanoseconds", 0)
        width = Width(number, "ns", "ns")
    elif isinstance(step, np.timedelta64):
        exact = whole_ticks(step, "as")
        if exact is None or exact % 10**9:
            raise Refusal("step", step, "must be whole nanoseconds", "write months as '1mo', years as '1y'")
        width = Width(exact // 10**9, "ns", "ns")
    elif isinstance(step, str):
        match = re.fullmatch(r"([0-9]+)\s*([a-z]+)", step)
        if match is None or match[2] not in _UNITS:
            raise Refusal(
                "step",
                step,
                "must be a whole number and a unit, such as '5min' or '1mo': ns, us, ms, s, min, h have a fixed"
                " length, and d (days), w (weeks), mo (months), q (quarters), y (years) a calendar",
            )
        width = Width(int(match[1]) * _UNITS[match[2]][0], _UNITS[match[2]][1], match[2])
    else:
        raise TypeRefusal("step", step, "must be a string such as '1h' or '1d', a timedelta or a timedelta64")
    if width.number <= 0:
        raise Refusal("step", step, "must be positive")
    return width


def edges_of(width: Width, first: int, *, size: int | None, last: int | None, zone: dt.tzinfo | None) -> Edges:
    """Return the edges of steps from ``first``: of ``size`` steps, or up to ``last``."""
    edges: Edges
    start = write_instant(first, zone)
    if width.is_calendar:
        assert zone is not None
        days = width.bounds_of(day_of(first, zone))
        # Further days make up for skipped ones.
        edges = width.begins(days[0], zone, steps=(size or 0) + _MAX_SKIPPED, beyond=last)
        if edges[0] != first:
            nearest = min(begins_of_days(days, zone).tolist(), key=lambda edge: abs(edge - first))
            raise Refusal(
                "start",
                start,
                f"must be the start of a {_BEGINNINGS[width.unit]} for steps of {width}",
                f"the nearest is {write_instant(nearest, zone)!r}",
            )
    else:
        stop = first + (size or 0) * width.number if last is None else last + width.number
        edges = range(first, stop + 1, width.number)
    if last is not None:
        size = bisect.bisect_left(edges, last)
        if last not in edges[size : size + 1]:
            candidates = [int(edge) for edge in edges[max(size - 1, 1) : size + 1] if edge <= LAST]
            nearest = min(candidates[::-1], key=lambda edge: abs(edge - last), default=0)
            raise Refusal(
                "end",
                write_instant(last, zone),
                f"must be the end of a step of {width} from start ({start!r})",
                f"the nearest is {write_instant(nearest, zone)!r}" if candidates else "there is none before 2260",
            )
    assert size is not None
    stop = int(edges[size]) if size < len(edges) else LAST + 1
    check_years("size", Quoted(f"{size} steps of {width} from {start!r}"), first, stop)
    return simplify_edges(edges[: size + 1])


def simplify_edges(edges: Edges) -> Edges:
    """Return edges as a range if they are equally spaced, else as a read-only array."""
    if isinstance(edges, range):
        return edges
    gaps = np.diff(edges)
    if np.all(gaps == gaps[0]):
        gap = int(gaps[0])
        return range(int(edges[0]), int(edges[-1]) + gap, gap)
    edges.flags.writeable = False
    return edges


def begins_of_days(days: Dates, zone: dt.tzinfo) -> Ints:
    """Return the instants at which days begin on the clock of a zone, without skipped days."""
    midnights = days[days <= _LAST_DATE].astype("M8[ns]").astype(np.int64)
    return np.unique(clock_around(zone, int(midnights[0]), int(midnights[-1])).first_instants(midnights))


def day_of(instant: int, zone: dt.tzinfo) -> np.datetime64:
    """Return the day that the clock of a zone shows at an instant."""
    return np.datetime64(int(clock_around(zone, instant, instant).local_times(instant)) // DAY, "D")
