"""Adjacent grids: the grid over several consecutive grids, and further steps after the last."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.grid.edges import parse_width
from opendp_timeseries.grid.instants import parse_zone, write_instant
from opendp_timeseries.grid.time_grid import TimeGrid


def grid_over(grids: Sequence[TimeGrid]) -> TimeGrid:
    """Return the grid of all steps of consecutive grids, each of which begins where the previous one ends.

    :raises ValueError: for grids that are not consecutive, or differ in step or zone.
    """
    first, last = grids[0], grids[-1]
    for before, after in pairwise(grids):
        if before.step != after.step or before.zone != after.zone:
            raise Refusal(
                "grids", ..., "must have one step and zone, to be one together", f"found {before!r}, {after!r}"
            )
        if before.edges()[-1] != after.edges()[0]:
            raise Refusal(
                "grids",
                ...,
                f"must follow each other; {after!r} does not begin where {before!r} ends",
                "give the release between them, or smooth each by itself",
            )
    if len(grids) == 1:
        return first
    if first.step is None:
        instants = np.unique(np.concatenate([grid.edges().astype("M8[ns]").astype(np.int64) for grid in grids]))
        zone = parse_zone(first.zone)
        return TimeGrid.from_edges([write_instant(int(instant), zone) for instant in instants], zone=first.zone)
    return TimeGrid(start=first.start, end=last.end, step=first.step, zone=first.zone)


def extended(grid: TimeGrid, ahead: int) -> TimeGrid:
    """Return a grid with ``ahead`` further steps.

    :raises ValueError: for a grid from edges, which does not define further steps.
    """
    if not ahead:
        return grid
    if grid.is_integer:
        return TimeGrid(size=grid.size + ahead)
    if grid.step is None:
        raise Refusal("ahead", ..., "must be left out of a grid from edges, which has no further ones", f"{grid!r}")
    return TimeGrid(start=grid.start, size=grid.size + ahead, step=grid.step, zone=grid.zone)


def steps_ahead(ahead: object, grid: TimeGrid) -> int:
    """Return a number of steps after a grid, given as such or as a time by its clock.

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
    further = extended(grid, grid.size)
    clock = "local" if width.is_calendar else "UTC"
    edges = further.edges(clock).astype("M8[ns]")
    end = edges[grid.size]
    if width.of == "M":
        month = end.astype("M8[M]")
        there = month + np.timedelta64(width.number, "M")
        first, day = there.astype("M8[D]"), end.astype("M8[D]") - month.astype("M8[D]")
        last = (there + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D")
        target = np.minimum(first + day, last) + (end - end.astype("M8[D]"))
    else:
        target = end + (np.timedelta64(width.number, "D") if width.is_calendar else np.timedelta64(width.number, "ns"))
    matches = np.flatnonzero(edges[grid.size + 1 :] == target)
    if not len(matches):
        raise Refusal("ahead", ahead, f"must be whole steps of {grid!r}, and no more time than was released", remedy)
    return int(matches[0]) + 1
