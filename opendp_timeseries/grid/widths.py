"""How long a step is: a fixed time, or units of the calendar on the clock of a zone."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import shown
from opendp_timeseries.grid.clock import Clock
from opendp_timeseries.grid.instants import UNITS

__all__ = ["CalendarWidth", "FixedWidth", "parse_width"]

Dates = NDArray[np.datetime64]

#: Units of fixed length, in attoseconds; "min", as "m" is mistaken for months.
_FIXED: Final[dict[str, int]] = {"h": UNITS["h"], "min": UNITS["m"]} | {
    unit: UNITS[unit] for unit in ("s", "ms", "us", "ns", "ps", "fs", "as")
}
#: Units of the calendar, shortest first: how many of the smaller, and of which.
_CALENDAR: Final[dict[str, tuple[int, str]]] = {
    "d": (1, "D"),
    "w": (7, "D"),
    "mo": (1, "M"),
    "q": (3, "M"),
    "y": (12, "M"),
}
_MONDAY: Final = np.datetime64("1970-01-05", "D")
#: More days or months than there are from year 1 to 9999.
_MOST: Final = 4_000_000


class FixedWidth(NamedTuple):
    """So many attoseconds, whatever clocks do."""

    attoseconds: int

    def __str__(self) -> str:
        """In the coarsest unit that divides it."""
        unit = next(unit for unit, length in _FIXED.items() if self.attoseconds % length == 0)
        return f"{self.attoseconds // _FIXED[unit]}{unit}"


class CalendarWidth(NamedTuple):
    """So many days (``"D"``) or months (``"M"``) of the calendar.

    A unit begins at the first instant at which the clock shows its first day, or a later one: at midnight, or when
    clocks skip that, as they go forward. A day that clocks skip as a whole has no length, and is none.
    """

    number: int
    of: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number // _CALENDAR[self.unit][0]}{self.unit}"

    @property
    def name(self) -> str:
        """What a step begins with, in words."""
        return {"d": "day", "w": "week (a Monday)", "mo": "month", "q": "quarter", "y": "year"}[self.unit]

    @property
    def shortest(self) -> int:
        """No step but one with a day that clocks skip is shorter, in seconds."""
        return self.number * (28 * 86400 if self.of == "M" else 86400 // 2)

    def around(self, date: np.datetime64) -> Dates:
        """The first day of the unit that holds a day, and that of the next; weeks begin on Monday."""
        length, of = _CALENDAR[self.unit]
        zero = _MONDAY if of == "D" else np.datetime64("1970-01", "M")
        unit = (date.astype(f"M8[{of}]") - zero).astype(np.int64) // length
        return cast(Dates, (zero + (length * np.array([unit, unit + 1])).astype(f"m8[{of}]")).astype("M8[D]"))

    def dates(self, first: np.datetime64, steps: NDArray[np.int64]) -> Dates:
        """The first days of steps, counted from one that begins at ``first``."""
        ahead = (self.number * steps).astype(f"m8[{self.of}]")
        return cast(Dates, (first.astype(f"M8[{self.of}]") + ahead).astype("M8[D]"))

    def steps_beyond(self, first: np.datetime64, date: np.datetime64) -> int:
        """So many steps reach from ``first`` to beyond a day."""
        ahead = date.astype(f"M8[{self.of}]") - first.astype(f"M8[{self.of}]")
        return max(int(ahead.astype(np.int64)) // self.number, 0) + 2

    def begins(self, clock: Clock, dates: Dates) -> NDArray[np.int64]:
        """The seconds from 1970, UTC, at which days begin on a clock."""
        return clock.first_showing(dates.astype("M8[s]").astype(np.int64))

    def coarsest(self, first: np.datetime64) -> CalendarWidth:
        """The same in the coarsest unit that divides it, and of which one begins at ``first``."""
        units = (unit for unit, (length, of) in _CALENDAR.items() if of == self.of and self.number % length == 0)
        return [width for width in map(self._in, units) if width.around(first)[0] == first][-1]

    def _in(self, unit: str) -> CalendarWidth:
        return self._replace(unit=unit)


def parse_width(step: Any) -> FixedWidth | CalendarWidth:
    """Read the width of a step.

    :raises TypeError: for a value of another type.
    :raises ValueError: for a text or a unit that says no width, or none that is longer than nothing.
    """
    width: FixedWidth | CalendarWidth
    if isinstance(step, dt.timedelta):
        attoseconds = step // dt.timedelta(microseconds=1) * UNITS["us"]
        width = FixedWidth(attoseconds + getattr(step, "nanoseconds", 0) * UNITS["ns"])  # of a pandas Timedelta
    elif isinstance(step, np.timedelta64):
        unit, multiple = np.datetime_data(step.dtype)
        if unit not in UNITS or np.isnat(step):
            raise ValueError(
                f"step ({shown(step)}) must have a unit of fixed length; write months as '1mo', years as '1y'"
            )
        width = FixedWidth(int(step.astype(np.int64)) * multiple * UNITS[unit])
    elif isinstance(step, str):
        match = re.fullmatch(r"([0-9]+)\s*([a-z]+)", step)
        if match is None or match[2] not in _FIXED.keys() | _CALENDAR.keys():
            raise ValueError(
                f"step ({shown(step)}) must be a whole number and a unit, of fixed length ({', '.join(_FIXED)}) or of"
                " the calendar (d for days, w for weeks, mo for months, q for quarters, y for years), for instance"
                " '5min' or '1mo'"
            )
        count = int(match[1])
        if match[2] in _FIXED:
            width = FixedWidth(count * _FIXED[match[2]])
        else:
            length, of = _CALENDAR[match[2]]
            width = CalendarWidth(count * length, of, match[2])
            if width.number > _MOST:
                raise ValueError(f"step ({shown(step)}) must stay within the years 1 to 9999; take a shorter step")
    else:
        raise TypeError(f"step ({shown(step)}) must be a string such as '1h' or '1d', a timedelta or a timedelta64")
    if width[0] <= 0:
        raise ValueError(f"step ({shown(step)}) must be longer than nothing")
    return width
