"""When: cells of a column of objects as steps, each cell by itself.

One cell that is no time makes a column of times in pandas ``object``, as does a date beyond what nanoseconds hold or a
second time zone. All other cells are read as they were (docs/proofs/counts.md).
"""

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.identifiers import utc_of, whole_number
from opendp_timeseries.grid import TimeGrid, parse_zone, read_text_times, whole_ticks

_FAR: Final = np.iinfo(np.int64).max
Steps = tuple[NDArray[np.int64], NDArray[np.bool_]]  # -1 off the grid; and which rows have no time at all


def steps_of_objects(values: Sequence[object], grid: TimeGrid) -> Steps:
    """Return the steps of cells of any type, each read alike whatever the other cells are.

    On a grid of integer steps, whole numbers are steps. On a grid of instants, dates and datetimes of Python, NumPy
    and pandas are read, and text by :func:`~opendp_timeseries.grid.read_text_times`. Anything else has no time. Nothing
    raises.
    """
    if grid.is_integer:
        numbers = list(map(whole_number, values))
        on_grid = (number if number is not None and 0 <= number < grid.size else -1 for number in numbers)
        return np.fromiter(on_grid, np.int64, len(values)), np.array([number is None for number in numbers], np.bool_)
    times, zone = np.empty(len(values), dtype="datetime64[ns]"), parse_zone(grid.zone)
    aware = np.zeros(len(values), dtype=np.bool_)
    text = np.fromiter((isinstance(value, str) for value in values), np.bool_, len(values))
    times[text], aware[text] = read_text_times([value for value in values if isinstance(value, str)])
    for k in np.flatnonzero(~text).tolist():
        times[k], aware[k] = _instant(values[k], zone)
    local = np.full(times.shape, -1) if grid.zone is None else grid.steps(times)
    return np.where(aware, grid.steps(times, aware=True), local), np.isnat(times)


def _instant(value: object, zone: dt.tzinfo | None) -> tuple[np.datetime64, bool]:
    """The instant that a cell holds, and whether it is in UTC rather than on the clock of the grid's zone."""
    time: np.datetime64
    with contextlib.suppress(Exception):
        if isinstance(value, (np.datetime64, dt.date)):
            time, aware = (value, False) if isinstance(value, np.datetime64) else utc_of(value, zone)
            ticks = whole_ticks(time, "ns")
            if ticks is not None:
                return np.datetime64(max(-_FAR, min(ticks, _FAR)), "ns"), aware
    return np.datetime64("NaT", "ns"), False
