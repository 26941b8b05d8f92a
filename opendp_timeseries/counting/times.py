"""When: cells of a column of objects as steps, each cell by itself.

One cell that is no time makes a column of times in pandas ``object``, as does a date beyond what nanoseconds hold or a
second time zone. All other cells are read as they were (docs/proofs/counts.md).
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.identifiers import utc_of, whole_number
from opendp_timeseries.grid import TimeGrid, whole_ticks

__all__ = ["Steps", "steps_of_floats", "steps_of_objects"]

Steps = tuple[NDArray[np.int64], NDArray[np.bool_]]  # -1 off the grid; and which rows have no time at all


def steps_of_floats(values: NDArray[Any], grid: TimeGrid) -> Steps:
    """Return the steps of a floating-point column on a grid of integer steps: whole numbers are steps.

    One missing step makes a column of integers floating-point in pandas.
    """
    with np.errstate(invalid="ignore"):
        whole = np.trunc(values) == values
    steps = np.where(whole & (values >= 0) & (values < grid.size), values, -1.0)
    return steps.astype(np.int64), ~whole


def steps_of_objects(values: list[Any], grid: TimeGrid) -> Steps:
    """Return the steps of cells of any type, each read alike whatever the other cells are.

    On a grid of integer steps, whole numbers are steps. On a grid of instants, dates and datetimes of Python, NumPy
    and pandas are read, and text in ISO 8601. What is none of these has no time. Nothing raises.
    """
    if grid.is_integer:
        numbers = list(map(whole_number, values))
        on_grid = (number if number is not None and 0 <= number < grid.size else -1 for number in numbers)
        return np.fromiter(on_grid, np.int64, len(values)), np.array([number is None for number in numbers], np.bool_)
    cells = [_instant(value) for value in values]
    aware = np.array([is_aware for _, is_aware in cells], dtype=np.bool_)
    limits = np.iinfo(np.int64)
    ticks = [None if instant is None else whole_ticks(instant, "ns") for instant, _ in cells]
    missing = np.array([tick is None for tick in ticks], dtype=np.bool_)
    clipped = (limits.min if tick is None else max(limits.min + 1, min(tick, limits.max)) for tick in ticks)
    times = np.fromiter(clipped, np.int64, len(values)).view("datetime64[ns]")
    local = np.full(times.shape, -1) if grid.zone is None else grid.steps(times)
    return np.where(aware, grid.steps(times, aware=True), local), missing


def _instant(value: Any) -> tuple[np.datetime64 | None, bool]:
    """The instant that a cell holds, and whether it is in UTC rather than on the clock of the grid's zone."""
    with contextlib.suppress(Exception):
        if isinstance(value, np.datetime64):
            return value, False
        if isinstance(value, str):
            text = str.__str__(value).strip()
            value = dt.datetime.fromisoformat(text[:-1] + "+00:00" if text[-1] in "Zz" else text)
        if isinstance(value, dt.date):
            return utc_of(value)
    return None, False
