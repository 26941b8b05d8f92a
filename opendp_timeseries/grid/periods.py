"""The periods of a unit of privacy: calendar units of a zone, such as days or months, or numbers of integer steps.

They divide all of time, whatever the grid, so that several counts of one log use the same periods. Every step of a grid
must lie within one period.
"""

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.grid.clock import SECOND, Ints
from opendp_timeseries.grid.edges import day_of, parse_width
from opendp_timeseries.grid.instants import parse_zone, write_instant
from opendp_timeseries.grid.time_grid import TimeGrid

#: Calendar units, with their names in sentences.
PERIODS: Final = {"1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}


@dataclass(frozen=True)
class Period:
    """A division of time into periods of one kind.

    :param length: a unit of the calendar, ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"`` or ``"1y"``; or, where times are
        integers, a number of steps: then period ``k`` is the times from ``k * length`` to before ``(k + 1) * length``.
    :param zone: IANA name of the zone of the calendar; None with a number of steps.
    :raises TypeError, ValueError: for anything else, naming the remedy.

    >>> print(Period("1d", "Europe/Paris"))
    one day (Europe/Paris)
    >>> Period(24).starts(TimeGrid(size=60))
    array([ 0, 24, 48])
    """

    length: str | int
    zone: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.length, str):
            if self.length not in PERIODS:
                raise Refusal(
                    "period",
                    self.length,
                    f"must be one unit of the calendar: {', '.join(map(repr, PERIODS))}",
                    "or a whole number, for a grid of integer steps",
                )
            if parse_zone(self.zone) is None:
                raise Refusal("period", self.length, "needs the zone of its calendar, such as `zone='UTC'`")
            return
        remedy = "a number of integer steps, or a unit of the calendar such as '1d'"
        object.__setattr__(self, "length", check.integer("period", self.length, minimum=1, remedy=remedy))
        if self.zone is not None:
            raise Refusal("zone", self.zone, f"must be left out with a period of integer steps ({self.length})")

    def __str__(self) -> str:
        if isinstance(self.length, str):
            begins = " from Monday" if self.length == "1w" else ""
            return f"one {PERIODS[self.length]}{begins} ({self.zone})"
        return "one step" if self.length == 1 else f"one period of {self.length} steps"

    def starts(self, grid: TimeGrid) -> Ints:
        """Return the first step of every period that the grid overlaps, ascending from 0.

        :raises ValueError: if a step of the grid lies in two periods, or times are not read on the clock of the zone.
        """
        return _on_grid(self, grid)[0]

    def span(self, grid: TimeGrid) -> tuple[int, int]:
        """Return the first and the last period that the grid overlaps, by their beginnings in seconds from 1970.

        For integer steps, by their numbers. Two grids have a period in common if these ranges overlap.

        :raises ValueError: as :meth:`starts` does.
        """
        return _on_grid(self, grid)[1]

    def lengths(self, grid: TimeGrid) -> Ints:
        """Return the number of steps of a grid in each period, in descending order."""
        return _on_grid(self, grid)[2]


@functools.lru_cache(maxsize=2**11)
def _on_grid(period: Period, grid: TimeGrid) -> tuple[Ints, tuple[int, int], Ints]:
    """Return starts, span and lengths of the periods of a grid."""
    if isinstance(period.length, str):
        starts, span = _by_calendar(period, period.length, grid)
    elif grid.is_integer:
        starts = np.arange(0, grid.size, period.length, dtype=np.int64)
        span = 0, len(starts) - 1
    else:
        raise Refusal(
            "period",
            Quoted(f"{period.length} steps"),
            f"is for a grid of integer steps, not for {grid!r}",
            "write a unit of the calendar and its zone, such as '1d'",
        )
    lengths = np.sort(np.diff(starts, append=grid.size))[::-1]
    for array in (starts, lengths):
        array.flags.writeable = False
    return starts, span, lengths


def _by_calendar(period: Period, length: str, grid: TimeGrid) -> tuple[Ints, tuple[int, int]]:
    zone = parse_zone(period.zone)
    if zone is None or grid.zone != period.zone or grid.is_integer:
        raise Refusal(
            "period",
            Quoted(f"{length!r} in zone {period.zone!r}"),
            f"must have the zone of the grid ({grid!r}), on whose clock times are read",
            "give both the same zone",
        )
    width, edges = parse_width(length), grid.edges().astype("M8[ns]").astype(np.int64)
    start, stop = int(edges[0]), int(edges[-1])
    begins = width.begins(width.bounds_of(day_of(start, zone))[0], zone, beyond=stop)
    begins = begins[np.searchsorted(begins, start, side="right") - 1 : np.searchsorted(begins, stop)]
    within = begins[begins > start]
    starts = np.searchsorted(edges, within)
    across = edges[starts] != within
    if across.any():
        at, step = int(within[across][0]), int(starts[across][0]) - 1
        raise Refusal(
            f"step {step} of {grid!r}",
            ...,
            f"lies in more than one {PERIODS[length]} ({period.zone}): one begins within it, at"
            f" {write_instant(at, zone)!r}",
            "choose steps that divide the period, or a longer period",
        )
    return np.append(0, starts), (int(begins[0]) // SECOND, int(begins[-1]) // SECOND)
