"""Check-ins of Gowalla and Foursquare, read from the files as they are published.

These are public benchmark data. Reading them, ranking places and counting participation look at rows and protect
nobody: never use them in front of a private release of other data.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import integer
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.koga2022.datasets._files import open_text

__all__ = [
    "FOURSQUARE_GRID",
    "GOWALLA_GRID",
    "CheckIns",
    "largest_participation",
    "load_foursquare",
    "load_gowalla",
]

GOWALLA_GRID = TimeGrid(size=725, start="2009-02-01T00:00", step="24h", zone="UTC")
"""The paper's grid for Gowalla: 725 steps of 24 hours from February 2009; the day is our choice."""

FOURSQUARE_GRID = TimeGrid(size=2126, start="2012-04-03T18:00", step="6h", zone="UTC")
"""The paper's grid for Foursquare: 2,126 steps of 6 hours from April 2012; the hour, that of the file's first
check-in, is our choice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckIns:
    """Check-ins of individuals at places, the places ranked by number of check-ins."""

    identifier: NDArray[np.int64]  #: int64, the published number of the user
    time: NDArray[np.datetime64]  #: ``datetime64[s]``, in UTC
    place: NDArray[np.int32]  #: int32, rank of the place: 0 is the most visited, of several the first in the file
    places: tuple[str, ...]  #: published identifiers of the places, in order of rank

    def at(self, rank: int = 0) -> dict[str, NDArray[Any]]:
        """Return ``identifier`` and ``time`` of the check-ins at a place, in the order of the file.

        :param rank: 0 for the most visited place, as in the paper.
        """
        rank = integer("rank", rank, minimum=0, maximum=len(self.places) - 1)
        here = self.place == rank
        return {"identifier": self.identifier[here], "time": self.time[here]}


def load_gowalla(path: str | PathLike[str]) -> CheckIns:
    """Read ``loc-gowalla_totalCheckins.txt``, plain or ``.gz``, of Cho, Myers & Leskovec (2011), from SNAP.

    Five fields a line, separated by tabs: user, time as ``2010-10-19T23:55:27Z``, latitude, longitude, place.

    :raises ValueError: at the first line that is not in this format, with its number.
    """
    return _read(path, _gowalla)


def load_foursquare(path: str | PathLike[str]) -> CheckIns:
    """Read ``dataset_TIST2015_Checkins.txt``, plain or ``.gz``, of Yang, Zhang & Qu (2016).

    Four fields a line, separated by tabs: user, venue, time as ``Tue Apr 03 18:00:06 +0000 2012`` in UTC, and
    the offset of local time in minutes, which is not used.

    :raises ValueError: at the first line that is not in this format, with its number.
    """
    return _read(path, _foursquare)


def largest_participation(checkins: CheckIns, grid: TimeGrid, *, places: int = 15) -> NDArray[np.int64]:
    """Return, for each of the most visited places, in how many steps its most frequent visitor is.

    **This reads the rows and is not private.** It computes the paper's Table 1, for public benchmark data alone. Choose
    the participation cap of a private release beforehand, or from public or simulated data. The paper counts check-ins;
    with at most one a step, as it assumes, the two are the same.

    :param checkins: as read by :func:`load_gowalla` or :func:`load_foursquare`.
    :param grid: the steps; check-ins off the grid do not count.
    :param places: how many places, from the most visited on.
    :return: int64 array of length ``places``.
    """
    places = integer("places", places, minimum=1, maximum=len(checkins.places))
    steps = grid.steps(checkins.time, aware=True)
    on_grid = steps >= 0
    largest = np.zeros(places, dtype=np.int64)
    for rank in range(places):
        here = on_grid & (checkins.place == rank)
        visits = np.unique(np.stack([checkins.identifier[here], steps[here]]), axis=1)
        largest[rank] = np.unique(visits[0], return_counts=True)[1].max(initial=0)
    return largest


_Row = tuple[int, int, str]  # user, seconds since 1970 in UTC, place

_GOWALLA = re.compile(r"(\d+)\t(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\t[^\t]*\t[^\t]*\t([^\t]+)", re.ASCII)
_FOURSQUARE = re.compile(r"(\d+)\t([^\t]+)\t\w{3} (\w{3}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{4})\t-?\d+", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _gowalla(line: str) -> _Row:
    user, instant, place = _fields(_GOWALLA, line)
    return int(user), _seconds(instant), place


def _foursquare(line: str) -> _Row:
    user, place, month, day, clock, year = _fields(_FOURSQUARE, line)
    if month not in _MONTHS:
        raise ValueError(f"{month!r} is not a month")
    return int(user), _seconds(f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}Z"), place


def _fields(pattern: re.Pattern[str], line: str) -> tuple[str, ...]:
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError("its fields are not those of the published format")
    return match.groups()


def _seconds(instant: str) -> int:
    return int(datetime.fromisoformat(instant).timestamp())


def _read(path: str | PathLike[str], parse: Callable[[str], _Row]) -> CheckIns:
    """Read line by line, keeping 20 bytes a row and each place's name once."""
    identifier, instant, place = array("q"), array("q"), array("i")
    code: dict[str, int] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                user, second, name = parse(line.removesuffix("\n"))
                identifier.append(user)
            except (ValueError, OverflowError) as error:
                raise ValueError(
                    f"{Path(path).name}, line {number} ({line!r}) is not a check-in of this format: {error}; "
                    "correct or remove the line"
                ) from None
            instant.append(second)
            place.append(code.setdefault(name, len(code)))
    codes = np.array(place, dtype=np.int32)
    by_visits = np.argsort(-np.bincount(codes, minlength=len(code)), kind="stable")
    rank = np.empty(len(code), dtype=np.int32)
    rank[by_visits] = np.arange(len(code), dtype=np.int32)
    names = list(code)
    return CheckIns(
        identifier=np.array(identifier, dtype=np.int64),
        time=np.array(instant, dtype=np.int64).view("datetime64[s]"),
        place=rank[codes],
        places=tuple(names[index] for index in by_visits),
    )
