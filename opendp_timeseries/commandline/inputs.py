"""The log and the grid that the options name."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any, Final

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries.counting.engines import check_schema
from opendp_timeseries.counting.files import PARQUET_SUFFIXES, read_csv_log, read_parquet_log
from opendp_timeseries.counting.tables import UtcLog
from opendp_timeseries.datasets import load_flights

__all__ = ["check_of", "chosen", "grid_of", "read_log", "wrapped"]

#: Nobody looks at a figure or a table of more steps than this.
_MAX_STEPS: Final = 1_000_000


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return some of the options, by name."""
    return {name: getattr(options, name) for name in names}


def wrapped(text: str) -> str:
    """Return a paragraph of lines."""
    return textwrap.fill(text, 100, break_on_hyphens=False)


def grid_of(options: argparse.Namespace) -> ts.TimeGrid:
    """Return the grid, before any data are read; from then on, the options have its size."""
    most: dict[str, Any] = {"maximum": _MAX_STEPS, "remedy": "choose longer steps, or use Python"}
    size = None if options.size is None else check.integer("size", options.size, **most)
    grid = ts.TimeGrid(**chosen(options, "start", "end", "step", "zone"), size=size)
    options.size = check.integer("size", grid.size, **most)
    return grid


def read_log(options: argparse.Namespace) -> Any:
    """Read the log, and refuse what the names and types of its columns show to be wrong."""
    if options.file is None:
        return UtcLog(load_flights())
    columns = chosen(options, "identifier", "time")
    suffix, zone = options.file.suffix.lower(), options.times_zone or options.zone
    if suffix in PARQUET_SUFFIXES:
        log = read_parquet_log(options.file, **columns, zone=None if zone == options.zone else zone)
    else:
        delimiter = ("\t" if suffix == ".tsv" else ",") if options.delimiter is None else options.delimiter
        how = {"delimiter": delimiter.replace("\\t", "\t"), **chosen(options, "time_format", "time_unit")}
        log = read_csv_log(options.file, **columns, zone=zone, **how)
    check_schema(log, **columns)  # out of the measurement, OpenDP would wrap the message
    return log


def check_of(options: argparse.Namespace, grid: ts.TimeGrid) -> ts.LogCheck:
    """Look at the log. Private."""
    names = ("identifier", "time", "participation_cap", "step_cap", "gap", "period")
    return ts.check_log(read_log(options), grid=grid, **chosen(options, *names))
