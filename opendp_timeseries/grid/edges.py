"""Where steps begin: a fixed time apart, or where units of the calendar begin on the clock of a zone."""

from __future__ import annotations

import bisect
import datetime as dt
import re
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import shown
from opendp_timeseries.grid.clock import DAY, SECOND, Ints, clock_around
from opendp_timeseries.grid.instants import LAST, check_years, whole_ticks, write_instant

__all__ = ["Edges", "Width", "begins_of_days", "day_of", "edges_of", "parse_width", "plainest"]

#: The edges of steps, in nanoseconds from 1970, UTC: a range if they are equally far apart.
Edges = range | Ints
Dates = NDArray[np.datetime64]

#: Units from the shortest, and how many of which they are. Nanoseconds ("ns") have a fixed length; days ("D") and
#: months ("M") are of the calendar. The minute is "min", as "m" is mistaken for the month.
_UNITS: Final[dict[str, tuple[int, str]]] = {
    "ns": (1, "ns"),
    "us": (10**3, "ns"),
    "ms": (10**6, "ns"),
    "s": (SECOND, "ns"),
    "min": (60 * SECOND, "ns"),
    "h": (3600 * SECOND, "ns"),
    "d": (1, "D"),
    "w": (7, "D"),
    "mo": (1, "M"),
    "q": (3, "M"),
    "y": (12, "M"),
}
_BEGINNINGS: Final = {"d": "day", "w": "week (a Monday)", "mo": "month", "q": "quarter", "y": "year"}
_MONDAY: Final = np.datetime64("1970-01-05", "D")
#: More days than there are in the years of a grid, and more than any clock has skipped in them.
_MANY_DAYS: Final = 220_000
_SKIPPED: Final = 3
#: A day that nanoseconds can hold, to which calendars are worked out.
_LAST_DATE: Final = np.datetime64("2262-01-01", "D")


class Width(NamedTuple):
    """So many nanoseconds (``"ns"``), whatever clocks do, or so many days (``"D"``) or months (``"M"``) of a calendar.

    A unit of the calendar begins at the first instant at which the clock shows its first day, or a later one: at
    midnight, or when clocks skip that, as they go forward. A day that clocks skip entirely has no length, and does not
    count.
    """

    number: int
    of: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number // _UNITS[self.unit][0]}{self.unit}"

    @property
    def is_calendar(self) -> bool:
        """Whether steps begin by a clock."""
        return self.of != "ns"

    def around(self, date: np.datetime64) -> Dates:
        """The first day of the unit of the calendar that holds a day, and that of the next; weeks begin on Monday."""
        length, of = _UNITS[self.unit]
        zero = _MONDAY if of == "D" else np.datetime64("1970-01", "M")
        unit = (date.astype(f"M8[{of}]") - zero).astype(np.int64) // length
        return cast(Dates, (zero + (length * np.array([unit, unit + 1])).astype(f"m8[{of}]")).astype("M8[D]"))

    def begins(self, first: np.datetime64, zone: dt.tzinfo, *, steps: int = 0, beyond: int | None = None) -> Ints:
        """Where units of the calendar begin, from a day that begins one: so many, or to the first beyond an instant."""
        start = first.astype(f"M8[{self.of}]")
        if beyond is not None:
            ahead = int((day_of(beyond, zone).astype(start.dtype) - start).astype(np.int64))
            steps = max(ahead, 0) // self.number + 2
        number = min(self.number, _MANY_DAYS)  # no more are worked out than a calendar has
        ahead_of_start = number * np.arange(min(steps, _MANY_DAYS // number + 1) + 1)
        return begins_of_days((start + ahead_of_start.astype(f"m8[{self.of}]")).astype("M8[D]"), zone)

    def coarsest(self, first: int, zone: dt.tzinfo | None) -> Width:
        """The same in the coarsest unit that divides it and, in the calendar, of which one begins at ``first``."""
        if self.of == "ns" and zone is dt.UTC and self.number % DAY == 0 == first % DAY:
            return Width(self.number // DAY, "D", "d").coarsest(first, zone)
        widths = (self._replace(unit=unit) for unit in reversed(_UNITS) if _UNITS[unit][1] == self.of)
        widths = (width for width in widths if self.number % _UNITS[width.unit][0] == 0)
        day = None if zone is None or not self.is_calendar else day_of(first, zone)
        return next(width for width in widths if day is None or width.around(day)[0] == day)


def parse_width(step: Any) -> Width:
    """Read the width of a step.

    :raises TypeError: for a value of another type.
    :raises ValueError: for text or a unit that says no width, or for a width that is not positive.
    """
    if isinstance(step, dt.timedelta):
        nanoseconds = step // dt.timedelta(microseconds=1) * 1000 + getattr(step, "nanoseconds", 0)  # of pandas
        width = Width(nanoseconds, "ns", "ns")
    elif isinstance(step, np.timedelta64):
        ticks, exact = whole_ticks(step, "ns"), whole_ticks(step, "as")
        if ticks is None or ticks * 10**9 != exact:
            raise ValueError(
                f"step ({shown(step)}) must be a whole number of nanoseconds; write months as '1mo', years as '1y'"
            )
        width = Width(ticks, "ns", "ns")
    elif isinstance(step, str):
        match = re.fullmatch(r"([0-9]+)\s*([a-z]+)", step)
        if match is None or match[2] not in _UNITS:
            raise ValueError(
                f"step ({shown(step)}) must be a whole number and a unit, of fixed length (ns, us, ms, s, min, h) or of"
                " the calendar (d for days, w for weeks, mo for months, q for quarters, y for years), for instance"
                " '5min' or '1mo'"
            )
        length, of = _UNITS[match[2]]
        width = Width(int(match[1]) * length, of, match[2])
    else:
        raise TypeError(f"step ({shown(step)}) must be a string such as '1h' or '1d', a timedelta or a timedelta64")
    if width.number <= 0:
        raise ValueError(f"step ({shown(step)}) must be longer than nothing")
    return width


def edges_of(width: Width, first: int, *, size: int | None, last: int | None, zone: dt.tzinfo | None) -> Edges:
    """Return the edges of steps from ``first``: so many, or as far as ``last``."""
    edges: Edges
    if width.is_calendar:
        assert zone is not None
        # Other days take the places of skipped ones.
        edges = width.begins(_first_day(width, first, zone), zone, steps=(size or 0) + _SKIPPED, beyond=last)
    else:
        stop = first + (size or 0) * width.number if last is None else last + width.number
        edges = range(first, stop + 1, width.number)
    start = write_instant(first, zone)
    if last is not None:
        size = bisect.bisect_left(edges, last)
        if last not in edges[size : size + 1]:
            near = [int(edge) for edge in edges[max(size - 1, 1) : size + 1] if edge <= LAST]
            nearest = [write_instant(edge, zone) for edge in sorted(near, key=lambda edge: (abs(edge - last), -edge))]
            raise ValueError(
                f"end ({write_instant(last, zone)!r}) must be the end of a step of {width} from start ({start!r}); "
                + (f"the nearest is {nearest[0]!r}" if nearest else "there is none before 2260")
            )
    assert size is not None
    stop = int(edges[size]) if size < len(edges) else LAST + 1
    check_years(f"size ({size}) steps of {width} from start ({start!r})", first, stop)
    return plainest(edges[: size + 1])


def plainest(edges: Edges) -> Edges:
    """Return the same edges, as a range where they are equally far apart."""
    if isinstance(edges, range):
        return edges
    gaps = np.diff(edges)
    if np.all(gaps == gaps[0]):
        return range(int(edges[0]), int(edges[-1]) + 1, int(gaps[0]))
    edges.flags.writeable = False
    return edges


def begins_of_days(days: Dates, zone: dt.tzinfo) -> Ints:
    """When days begin on a clock; those that are skipped are left out."""
    midnights = days[days <= _LAST_DATE].astype("M8[ns]").astype(np.int64)
    return np.unique(clock_around(zone, int(midnights[0]), int(midnights[-1])).first_showing(midnights))


def day_of(instant: int, zone: dt.tzinfo) -> np.datetime64:
    """The day that the clock of a zone shows at an instant."""
    return np.datetime64(int(clock_around(zone, instant, instant).shown(instant)) // DAY, "D")


def _first_day(width: Width, first: int, zone: dt.tzinfo) -> np.datetime64:
    """Return the day at whose beginning the grid starts, which must be the first of a unit."""
    days = width.around(day_of(first, zone))
    begins = begins_of_days(days, zone).tolist()
    if begins[0] != first:
        start, nearest = (write_instant(at, zone) for at in (first, min(begins, key=lambda at: abs(at - first))))
        raise ValueError(
            f"start ({start!r}) must be the start of a {_BEGINNINGS[width.unit]} for steps of {width}; the nearest is"
            f" {nearest!r}"
        )
    return cast(np.datetime64, days[0])
