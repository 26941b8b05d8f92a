"""Longer steps of a grid, such as its days, weeks and months."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.grid.edges import day_of, parse_width
from opendp_timeseries.grid.instants import parse_zone, write_instant
from opendp_timeseries.grid.time_grid import TimeGrid


def longer_steps(grid: TimeGrid, step: str | int) -> tuple[NDArray[np.int64], TimeGrid, NDArray[np.bool_]]:
    """Return the first step of each longer one, the grid of those, and which lie wholly on the given one.

    :raises ValueError: if there is no such step, or it divides steps of the grid.
    """
    zone, edges = parse_zone(grid.zone), grid.edges()
    if not isinstance(step, str):
        number = check.integer("step", step, minimum=1, remedy="a number of steps, or such as '1d' or '1mo'")
        starts = np.arange(0, grid.size, number)
        complete = starts + number <= grid.size
        if grid.is_integer:
            return starts, TimeGrid(size=len(starts)), complete
        ends = edges[np.append(starts, grid.size)].astype("M8[ns]").astype(np.int64)
        return starts, TimeGrid.from_edges([write_instant(int(end), zone) for end in ends], zone=grid.zone), complete
    if grid.is_integer:
        raise Refusal("step", step, "needs a grid with times", "give grid, or a number of steps")
    width, instants = parse_width(step), edges.astype("M8[ns]").astype(np.int64)
    first, last = int(instants[0]), int(instants[-1])
    if not width.is_calendar:
        begins = np.arange(first, last + width.number, width.number)
    elif zone is None:
        raise Refusal("step", step, "is a unit of the calendar, so the grid must have a zone", "or write '24h'")
    else:
        begins = width.begins(width.bounds_of(day_of(first, zone))[0], zone, beyond=last)
    begins = begins[: int(np.searchsorted(begins, last)) + 1]
    starts = np.searchsorted(instants, begins[:-1])
    if np.any(instants[starts[1:]] != begins[1:-1]):
        raise Refusal("step", step, f"must not divide steps of the grid ({grid!r})", "take a multiple of them")
    start = write_instant(int(begins[0]), zone)
    complete = (begins[:-1] >= first) & (begins[1:] <= last)
    return starts, TimeGrid(start=start, size=len(starts), step=step, zone=grid.zone), complete
