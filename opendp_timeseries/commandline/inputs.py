"""The log and the grid that the options name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import check_schema
from opendp_timeseries.counting.files import PARQUET_SUFFIXES, read_csv_log, read_parquet_log
from opendp_timeseries.counting.tables import UtcLog
from opendp_timeseries.datasets import load_flights

__all__ = ["grid_of", "read_log"]

#: A figure and a table of more steps than this are of no use to anybody.
_MAX_STEPS: Final = 1_000_000


def grid_of(options: argparse.Namespace) -> ts.TimeGrid:
    """Return the grid, before any data are read; the options know its size from then on.

    :raises ValueError: if it is none, or has too many steps.
    """
    _check_size(options.size)
    grid = ts.TimeGrid(start=options.start, end=options.end, step=options.step, size=options.size, zone=options.zone)
    _check_size(grid.size)
    options.size, options.end = grid.size, None
    return grid


def _check_size(size: int | None) -> None:
    if size is not None and size > _MAX_STEPS:
        raise ValueError(f"size ({size}) must be at most {_MAX_STEPS}: choose longer steps, or use Python")


def read_log(options: argparse.Namespace) -> Any:
    """Read the log, and refuse what can be refused by names and types of columns.

    :raises TypeError: for a column of a type that does not serve.
    :raises ValueError: for a column that is missing, or an option that does not serve.
    :raises OSError: if the file cannot be read.
    """
    columns = {"identifier": options.identifier, "time": options.time}
    if options.file is None:
        return UtcLog(load_flights())
    if _is_parquet(options.file):
        log = read_parquet_log(options.file, **columns)
    else:
        log = read_csv_log(
            options.file,
            zone=options.zone,
            delimiter=_delimiter(options),
            time_format=options.time_format,
            time_unit=options.time_unit,
            **columns,
        )
    # Here the message of a refusal arrives as it is; out of the measurement, OpenDP wraps it.
    check_schema(log, **columns)
    return log


def _is_parquet(file: Path | None) -> bool:
    return file is not None and file.suffix.lower() in PARQUET_SUFFIXES


def _delimiter(options: argparse.Namespace) -> str:
    if options.delimiter is None:
        return "\t" if options.file.suffix.lower() == ".tsv" else ","
    return "\t" if options.delimiter == "\\t" else str(options.delimiter)
