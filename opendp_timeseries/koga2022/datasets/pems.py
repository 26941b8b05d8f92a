"""Traffic flow of the California Performance Measurement System (PeMS), as it is published.

PeMS publishes counts without identifiers, so these are count signals, for
:func:`~opendp_timeseries.make_assume_participation`. The data are public; nothing here protects anybody.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from datetime import datetime
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import integer
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.koga2022.datasets._files import open_text

__all__ = ["PEMS_GRID", "load_flow", "load_pems_station"]

PEMS_GRID = TimeGrid(size=1800, start="2017-01-01T00:00", step="5min", zone="America/Los_Angeles")
"""The paper's grid for PeMS: 1,800 steps of 5 minutes from January 2017; the day is our choice."""

Name = str | PathLike[str]
_Reading = tuple[datetime, int]  # local time, vehicles; -1 vehicles: none published
_NO_FLOW = -1


def load_pems_station(
    paths: Iterable[Name], station: int, grid: TimeGrid, *, fill: int | None = None
) -> NDArray[np.int64]:
    """Read the flow at one station from PeMS files such as ``d04_text_station_5min_2017_01_01.txt``.

    Comma-separated, without a header: local time as ``01/31/2017 23:55:00``, station, district, freeway, direction,
    lane type, length, samples, percentage observed, total flow, and more that is not used. PeMS imputes what a detector
    misses, and leaves the flow empty where it cannot.

    :param paths: the files, one a day, in any order; names that end in ``.gz`` are read through gzip.
    :param station: number of the station.
    :param grid: the steps, in the zone ``America/Los_Angeles``; rows off the grid are left out.
    :param fill: flow at steps without one; by default, such steps are refused.
    :return: int64 vehicles in each step, as many as the grid has steps.
    :raises ValueError: at a row that is not in this format, with its number; at a step with more than one row, or, by
        default, without a flow.
    """
    number = str(integer("station", station, minimum=1))

    def parse(row: list[str]) -> _Reading | None:
        if row[1] != number:
            return None
        return datetime.strptime(row[0], "%m/%d/%Y %H:%M:%S"), _vehicles(row[9])

    return _on_grid([reading for path in paths for reading in _read(path, parse, columns=10)], grid, fill)


def load_flow(path: Name, grid: TimeGrid | None = None, *, fill: int | None = None) -> NDArray[np.int64]:
    """Read a flow from a CSV file with a header and the columns local time (ISO 8601, no offset) and flow.

    Redistributed files often leave out whole days, such as weekends. On a grid those steps have no flow. Without a grid
    each row is a step, in the order of the file, whatever its time, as in the traffic literature: the steps are those
    of ``TimeGrid(size=len(flow))``.

    :param path: the file; a name that ends in ``.gz`` is read through gzip.
    :param grid: the steps, in the zone of the file's clock; rows off the grid are left out.
    :param fill: flow at steps without one; by default, such steps are refused.
    :return: int64 vehicles in each step, as many as the grid has steps, or else as the file has rows.
    :raises ValueError: as :func:`load_pems_station`.
    """

    def parse(row: list[str]) -> _Reading:
        instant = datetime.fromisoformat(row[0])
        if instant.tzinfo is not None:
            raise ValueError(f"{row[0]!r} has an offset, so it is not local time")
        return instant, _vehicles(row[1])

    readings = _read(path, parse, columns=2, header=True)
    if grid is not None:
        return _on_grid(readings, grid, fill)
    return _filled(np.array([vehicles for _, vehicles in readings], dtype=np.int64), fill)


def _vehicles(text: str) -> int:
    if not text:
        return _NO_FLOW
    flow = float(text)
    if not flow.is_integer() or not 0 <= flow < 2**53:
        raise ValueError(f"{text!r} is not a number of vehicles")
    return int(flow)


def _read(
    path: Name, parse: Callable[[list[str]], _Reading | None], *, columns: int, header: bool = False
) -> list[_Reading]:
    """Read the rows that ``parse`` wants, of at least ``columns`` columns."""
    readings = []
    with open_text(path) as lines:
        rows = csv.reader(lines)
        for row in rows:
            if header and rows.line_num == 1:
                continue
            try:
                if len(row) < columns:
                    raise ValueError(f"it has {len(row)} of {columns} columns")
                reading = parse(row)
            except ValueError as error:
                raise ValueError(
                    f"{Path(path).name}, line {rows.line_num} is not a row of this format: {error}; correct or remove"
                    " the line"
                ) from None
            if reading is not None:
                readings.append(reading)
    return readings


def _on_grid(readings: list[_Reading], grid: TimeGrid, fill: int | None) -> NDArray[np.int64]:
    """Lay readings on the grid, each step from one row."""
    steps = grid.steps(np.array([instant for instant, _ in readings], dtype="datetime64[s]"))
    flow = np.array([vehicles for _, vehicles in readings], dtype=np.int64)
    flow, steps = flow[steps >= 0], steps[steps >= 0]
    repeated = np.bincount(steps, minlength=grid.size) > 1
    if repeated.any():
        raise ValueError(f"{_steps(repeated)} have more than one row; remove the others")
    signal = np.full(grid.size, _NO_FLOW, dtype=np.int64)
    signal[steps] = flow
    return _filled(signal, fill)


def _filled(signal: NDArray[np.int64], fill: int | None) -> NDArray[np.int64]:
    empty = signal == _NO_FLOW
    if fill is not None:
        signal[empty] = integer("fill", fill, minimum=0)
    elif empty.any():
        raise ValueError(f"{_steps(empty)} have no flow; choose another station or other days, or give fill")
    return signal


def _steps(wrong: NDArray[np.bool_]) -> str:
    return f"{np.count_nonzero(wrong)} of {len(wrong)} steps, the first of them step {np.argmax(wrong)},"
