"""Read event logs from files, for the command line: CSV with the standard library, Parquet with PyArrow."""

from __future__ import annotations

import csv
import datetime as dt
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_csv_log", "read_parquet_log"]

_UTC = dt.timezone.utc


def read_csv_log(path: Path, *, identifier: str, time: str, zone: str) -> dict[str, NDArray[Any]]:
    """Read two columns of a CSV file with a header: identifiers as strings, times as UTC ``datetime64[us]``.

    Times are ISO 8601; those without an offset are local times of ``zone`` (the first occurrence where clocks go
    back). What is not a time is missing, as is an empty identifier: such rows are dropped by the count.

    One line is one row, whatever quotes are in it: were rows to extend over lines, an open quote in the row of
    one person would take in the rows of others. Fields in quotes may hold commas, and no line breaks.

    :param path: the file, in UTF-8.
    :param identifier: name of the column that tells individuals apart.
    :param time: name of the column of event times.
    :param zone: IANA name of the zone of times without an offset.
    :raises ValueError: if a column is not in the header, or is there more than once.
    """
    local = zoneinfo.ZoneInfo(zone) if zone != "UTC" else _UTC
    csv.field_size_limit(2**31 - 1)  # one long field must not stop the reading of all others
    with path.open(newline="\n", encoding="utf-8-sig", errors="surrogateescape") as lines:
        header = _fields(next(lines, ""))
        where = [_position(header, name, f"the first line of {path.name}") for name in (identifier, time)]
        columns: tuple[list[str | None], list[dt.datetime | None]] = ([], [])
        for line in lines:
            row = _fields(line)
            who, when = (row[k] if k < len(row) else "" for k in where)
            columns[0].append(who or None)
            columns[1].append(_instant(when.strip(), local))
    return {
        identifier: np.array(columns[0], dtype=object),
        time: np.array(columns[1], dtype="datetime64[us]"),
    }


def _fields(line: str) -> list[str]:
    """The fields of one line; none of a line that is no CSV."""
    try:
        return next(csv.reader([line.rstrip("\r\n")]), [])
    except csv.Error:
        return []


def read_parquet_log(path: Path, *, identifier: str, time: str) -> Any:
    """Read two columns of a Parquet file as a PyArrow table.

    :raises ImportError: without PyArrow, naming the extra to install.
    :raises ValueError: if a column is not in the file's schema.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need PyArrow; install opendp_timeseries[tables]") from None
    header = list(parquet.read_schema(path).names)
    for name in (identifier, time):
        _position(header, name, f"the schema of {path.name}")
    return parquet.read_table(path, columns=[identifier, time])


def _position(header: list[str], name: str, place: str) -> int:
    # What the place holds instead is not said: a file without a header would show its first row.
    if header.count(name) != 1:
        problem = "is not in" if name not in header else "is more than once in"
        raise ValueError(f"column {name!r} {problem} {place}; give --identifier and --time as they stand there")
    return header.index(name)


def _instant(text: str, local: dt.tzinfo) -> dt.datetime | None:
    """The UTC instant that ``text`` says, without a zone for NumPy; None for what is not an instant."""
    if text.endswith(("Z", "z")):  # Python 3.10 does not read it
        text = text[:-1] + "+00:00"
    try:
        when = dt.datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=local)).astimezone(_UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
