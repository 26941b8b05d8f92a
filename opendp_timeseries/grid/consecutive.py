"""Consecutive grids: the grid over several, and further steps after the last."""

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.grid.clock import DAY, clock_around
from opendp_timeseries.grid.edges import Width, parse_width
from opendp_timeseries.grid.instants import parse_zone, write_instant
from opendp_timeseries.grid.time_grid import TimeGrid


def grid_over(grids: Sequence[TimeGrid]) -> TimeGrid:
    """Return the grid of all steps of consecutive grids, each of which begins where the previous one ends.

    :param grids: at least one.
    :raises ValueError: for grids that are not consecutive, or differ in step or zone.
    """
    first, last = grids[0], grids[-1]
    for before, after in pairwise(grids):
        if before.is_integer and after.is_integer:
            rule = "of step numbers cannot be consecutive, as each begins at 0"
            raise Refusal("grids", ..., rule, "count on grids of times, or smooth each by itself")
        if before.step != after.step or before.zone != after.zone:
            raise Refusal(
                "grids", ..., "must have one step and zone, to be one together", f"found {before!r}, {after!r}"
            )
        if before.edges()[-1] != after.edges()[0]:
            raise Refusal(
                "grids",
                ...,
                f"must be consecutive; {after!r} does not begin where {before!r} ends",
                "give the release between them, or smooth each by itself",
            )
    if len(grids) == 1:
        return first
    if first.step is None:
        instants = np.unique(np.concatenate([grid.edges().astype("M8[ns]").astype(np.int64) for grid in grids]))
        zone = parse_zone(first.zone)
        return TimeGrid.from_edges([write_instant(int(instant), zone) for instant in instants], zone=first.zone)
    return TimeGrid(start=first.start, end=last.end, step=first.step, zone=first.zone)


def extend(grid: TimeGrid, ahead: int) -> TimeGrid:
    """Return a grid with ``ahead`` further steps; none with 0.

    :raises ValueError: for a negative number, or a grid from edges, which does not define further steps.
    """
    if not check.integer("ahead", ahead, minimum=0):
        return grid
    if grid.is_integer:
        return TimeGrid(size=grid.size + ahead)
    if grid.step is None:
        raise Refusal("ahead", ..., "must be left out of a grid from edges, which has no further ones", f"{grid!r}")
    return TimeGrid(start=grid.start, size=grid.size + ahead, step=grid.step, zone=grid.zone)


def steps_ahead(ahead: object, grid: TimeGrid) -> int:
    """Return how many steps after a grid ``ahead`` is: a number, or a duration such as ``"1w"``.

    A duration in units of the calendar ends when the clock of the grid shows the same time of day; where it shows it
    twice, at the first that is an edge; where it skips it, as much later as it skips. A month later is the last day of
    a month that has no such day.

    :raises TypeError, ValueError: for anything else, naming the remedy.
    """
    remedy = "how far to look ahead, such as '1w', or a number of steps, up to as many as were released"
    if not isinstance(ahead, str):
        return check.integer("ahead", ahead, minimum=1, maximum=grid.size, remedy=remedy)
    if grid.is_integer:
        raise Refusal("ahead", ahead, "needs a grid with times", "give `grid=TimeGrid(…)`, or a number of steps")
    try:
        width = parse_width(ahead)
    except Refusal as refusal:
        raise Refusal("ahead", ahead, refusal.rule, refusal.remedy) from None
    edges = extend(grid, grid.size).edges("local" if width.is_calendar else "UTC").astype("M8[ns]").astype(np.int64)
    last = int(edges[grid.size :].max())
    end = _end_on_clock(grid, width, last) if width.is_calendar else int(edges[grid.size]) + width.number
    if end > last:
        raise Refusal("ahead", ahead, f"must be no more time than was released, {grid.size} steps", remedy)
    matches = np.flatnonzero(edges[grid.size + 1 :] == end)
    if not len(matches):
        raise Refusal("ahead", ahead, f"must be whole steps after {grid!r}", remedy)
    return int(matches[0]) + 1


def _end_on_clock(grid: TimeGrid, width: Width, last: int) -> int:
    """Return the local time at which a width of the calendar after a grid ends, as it is if it is after ``last``."""
    begin = int(grid.edges()[-1].astype("M8[ns]").astype(np.int64))
    clock = clock_around(parse_zone(grid.zone) or dt.UTC, begin, last)
    day, time = divmod(int(clock.local_times(begin)), DAY)
    if clock.first_instants(day * DAY) == begin:
        time = 0  # also where midnight is skipped
    number = min(width.number, 10**6)  # far beyond all grids
    if width.of == "M":
        date = np.datetime64(day, "D")
        month = date.astype("M8[M]")
        end_month = month + np.timedelta64(number, "M")
        day_of_month = date - month.astype("M8[D]")
        last_day = (end_month + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
        day = int(np.minimum(end_month.astype("M8[D]") + day_of_month, last_day).astype(np.int64))
    else:
        day += number
    end = day * DAY + time
    if end > last:
        return end
    instant = clock.to_utc(np.array(end)) if time else clock.first_instants(end)
    return int(clock.local_times(instant))
