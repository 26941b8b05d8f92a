"""The log, the grid and the keys that the options name."""

import argparse
import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries._text import read_text
from opendp_timeseries.commandline.forms import check_delimiter, usual_delimiter
from opendp_timeseries.commandline.words import check_drawable, is_file_of_keys
from opendp_timeseries.counting.check import LogCheck
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import PARQUET_SUFFIXES, read_csv_log, read_parquet_log
from opendp_timeseries.counting.tables import log_in_utc
from opendp_timeseries.datasets import load_flights
from opendp_timeseries.design.reading import MAX_BOUND, Reading, Source, panel_of
from opendp_timeseries.grid import steps_ahead
from opendp_timeseries.smoothing.seasons import read_seasons

#: Nobody looks at a figure or a table of more steps than this.
_MAX_STEPS: Final = 1_000_000
#: With totals and intervals, a sheet holds no more.
_MOST_COLUMNS: Final = 2500
#: A step cap above the number of events that anybody can have.
_ALL: Final = 2**62


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return some of the options, by name."""
    return {name: getattr(options, name) for name in names}


def amplitudes_of(options: argparse.Namespace, grid: ts.TimeGrid) -> dict[float, float] | None:
    """Return the amplitudes of the seasons that say theirs, by their lengths in steps."""
    amplitudes = {steps: amplitude for steps, amplitude in options.amplitudes if amplitude is not None}
    return {
        read_seasons(steps, grid, grid.size)[0].length: amplitude for steps, amplitude in amplitudes.items()
    } or None


def grid_of(options: argparse.Namespace) -> ts.TimeGrid:
    """Return the grid, before any data are read; from then on, the options have its size."""
    limit: dict[str, Any] = {"maximum": _MAX_STEPS, "remedy": "choose longer steps, or use Python"}
    size = None if options.size is None else check.integer("size", options.size, **limit)
    grid = ts.TimeGrid(**chosen(options, "start", "end", "step", "zone"), size=size)
    options.size = check.integer("size", grid.size, **limit)
    return grid


def check_smoothing(options: argparse.Namespace, grid: ts.TimeGrid) -> None:
    """Refuse seasons that are none, and forecasts further than can be made."""
    if options.ahead is not None:
        steps_ahead(options.ahead, grid)
    remedy = "a season is a number of steps, such as 24 with hours, 7 with days"
    for season in read_seasons(options.season, grid, grid.size, options.holidays or ()):
        check.real("season", season.length, maximum=grid.size, remedy=remedy)


def keys_and_groups(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the column, the keys and the key cap of a panel, and the groups of its totals; nothing of one series."""
    if options.by is None:
        return {}, None
    keys: list[str] = list(options.keys)
    rows: list[dict[str, str]] = []
    if is_file_of_keys(keys):
        keys, rows = _file_of_keys(options)
    elif options.groups:
        raise Refusal("groups", Quoted(", ".join(options.groups)), "must be columns of a file of `keys`", "give one")
    if options.spreadsheet and len(keys) > _MOST_COLUMNS:
        raise Refusal(
            "spreadsheet", ..., f"is for {_MOST_COLUMNS} keys at most, and there are {len(keys)}", "leave it out"
        )
    groups: dict[str, object] = _tree(rows, list(options.groups or ()), options.by) if options.groups else {}
    if options.total is not None:
        groups = {options.total: groups or keys}
    return {"by": options.by, "keys": keys, "key_cap": options.key_cap}, groups or None


def _file_of_keys(options: argparse.Namespace) -> tuple[list[str], list[dict[str, str]]]:
    (path,) = options.keys
    if options.file is not None and options.file.exists() and os.path.samefile(path, options.file):
        raise Refusal(
            "keys", Quoted(path), "must be public, and not read from the log", "give a list of them, or its file"
        )
    first, *lines = io.StringIO(read_text(Path(path), f"keys ({path})"), newline="").readlines() or [""]
    delimiter = max("\t;,", key=first.count)
    try:
        header, *rows_of_cells = [row for row in csv.reader([first, *lines], delimiter=delimiter) if any(row)] or [[]]
    except csv.Error as error:
        raise Refusal("keys", Quoted(path), "must be CSV", f"{error}") from None
    rows = [dict(zip(header, row, strict=False)) for row in rows_of_cells]
    for name in (options.by, *(options.groups or ())):
        if header.count(name) != 1:
            names = ", ".join(header)
            raise Refusal("keys", Quoted(path), f"must have one column {name!r}", f"its first line names {names}")
        if not all(row.get(name) for row in rows):
            raise Refusal("keys", Quoted(path), f"must say {name!r} on each line", "fill it in")
        check_drawable(f"{name} of keys ({path}),", (row[name] for row in rows))
    return [row[options.by] for row in rows], rows


def _tree(rows: list[dict[str, str]], columns: list[str], by: str) -> Any:
    """Return the keys of rows by the groups of columns, the largest first."""
    if not columns:
        return [row[by] for row in rows]
    names = dict.fromkeys(row[columns[0]] for row in rows)
    return {name: _tree([row for row in rows if row[columns[0]] == name], columns[1:], by) for name in names}


def read_log(options: argparse.Namespace, grid: ts.TimeGrid, *, step_cap: int) -> Any:
    """Read the log, and refuse what the names and types of its columns show to be wrong.

    :param step_cap: of a CSV file, how many rows of one individual in one step are needed, or how much of a value.
    """
    if options.file is None:
        return log_in_utc(load_flights())
    columns = chosen(options, "identifier", "time", "by", "value")
    reading = Reading(
        source=Source(**columns),
        grid=grid,
        step_cap=step_cap,
        panel=panel_of(options.by, keys_and_groups(options)[0].get("keys")),
    )
    suffix, zone = options.file.suffix.lower(), options.times_zone or options.zone
    if suffix in PARQUET_SUFFIXES:
        log = read_parquet_log(options.file, reading.log, zone=None if zone == options.zone else zone)
        # Out of the measurement, OpenDP would wrap the message.
        engine_of(log).check_reading(log, reading)
        return log
    delimiter, named = delimiter_of(options), [name for name in columns.values() if name is not None]
    check_delimiter(options.file, delimiter, named, options.encoding)
    how = {"delimiter": delimiter, **chosen(options, "time_format", "time_unit", "value_decimal")}
    how |= chosen(options, "encoding") if options.encoding else {}
    return read_csv_log(options.file, reading, zone=zone, **how)


def delimiter_of(options: argparse.Namespace) -> str:
    """Return what separates the fields of a log in CSV."""
    delimiter: str = usual_delimiter(options.file) if options.delimiter is None else options.delimiter
    return delimiter.replace("\\t", "\t")


def check_of(options: argparse.Namespace, grid: ts.TimeGrid) -> tuple[LogCheck, Sequence[str]]:
    """Look at the log: what is found, and what its reader has to say. Private."""
    names = ("identifier", "time", "participation_cap", "step_cap", "gap", "period", "value", "bound")
    how = {**chosen(options, *names), "excess": excess_of(options), **keys_and_groups(options)[0]}
    # With a gap, shares are of all events.
    cap = options.step_cap if options.gap == 1 else _ALL
    log = read_log(options, grid, step_cap=cap if options.value is None else MAX_BOUND)
    return ts.check_log(log, grid=grid, **how), getattr(log, "notes", ())


def excess_of(options: argparse.Namespace) -> str:
    """Return what becomes of who exceeds the cap: a filter lowers the noise only if steps lie apart, or are few."""
    return options.excess or ("drop" if options.filter_std is not None and options.gap == 1 else "downweight")
