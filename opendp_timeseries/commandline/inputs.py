"""The log and the grid that the options name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import check_schema
from opendp_timeseries.counting.files import PARQUET_SUFFIXES, read_csv_log, read_parquet_log
from opendp_timeseries.datasets import load_flights

__all__ = ["Grids", "grids", "read_log"]


class Grids(NamedTuple):
    """The grid of the count, and the same on the clock of the zone that was asked for."""

    counted: ts.TimeGrid
    shown: ts.TimeGrid


def grids(options: argparse.Namespace) -> Grids:
    """Return the grid, before any data are read."""
    shown = ts.TimeGrid(start=options.start, step=options.step, size=options.size, zone=options.zone)
    if _is_parquet(options.file):
        return Grids(shown, shown)
    # The log of flights and the reader of CSV files give instants in UTC.
    return Grids(ts.TimeGrid(start=shown.start, step=shown.step, size=shown.size, zone="UTC"), shown)


def read_log(options: argparse.Namespace) -> Any:
    """Read the log, and refuse what can be refused by names and types of columns.

    :raises TypeError: for a column of a type that does not serve.
    :raises ValueError: for a column that is missing, or an option that does not serve.
    :raises OSError: if the file cannot be read.
    """
    columns = {"identifier": options.identifier, "time": options.time}
    if options.file is None:
        return load_flights()
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
