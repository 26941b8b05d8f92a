"""The form of a log in CSV: delimiter, encoding and columns, by its first line; and in private, that of its times."""

import codecs
import contextlib
import csv
import datetime as dt
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from opendp_timeseries._refusal import Refusal
from opendp_timeseries._text import Lines, guess_encoding
from opendp_timeseries.counting.files import CSV_SUFFIXES
from opendp_timeseries.grid.text_times import read_text_times

#: What may separate fields, and bytes of a first line at most.
_DELIMITERS: Final = (";", "\t", ",", "|")
_LONGEST: Final = 2**16
#: A name of a column begins with a letter and holds one number at most; a time begins otherwise, or holds several.
_NAME: Final = re.compile(r"[^\W\d]\D*(\d+(\.\d+)?\D*)?")
#: What stands in quotation marks.
_QUOTED: Final = re.compile('"(?:[^"]|"")*"')
#: Rows whose times are looked at, and the share of them that a form must read.
_ROWS: Final = 500
_SHARE: Final = 0.5
_DAYS: Final = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%m/%d/%y")
_CLOCKS: Final = (" %H:%M", " %H:%M:%S", "", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S")
#: Units of numbers since 1970, by how many digits those of our time have.
_UNITS: Final = {10: "s", 13: "ms", 16: "us", 19: "ns"}


class FirstLine(NamedTuple):
    """The first line of a log in CSV, as it seems to be written."""

    columns: list[str]
    delimiter: str | None  # None for the usual one of such a file
    encoding: str | None  # None for UTF-8

    @property
    def is_legible(self) -> bool:
        """Return whether the line is in UTF-8, or in an encoding that is given or guessed."""
        return not any("\ufffd" in name for name in self.columns)

    @property
    def is_header(self) -> bool:
        """Return whether all fields may be names of columns: a line with any other may be the row of somebody."""
        names = self.columns
        return len({*names}) == len(names) and all(name.isprintable() and _NAME.fullmatch(name) for name in names)


def usual_delimiter(path: Path) -> str:
    """Return what separates the fields of a file, by its suffix."""
    return "\t" if path.suffix.lower() == ".tsv" else ","


def first_line(path: Path, encoding: str | None = None) -> FirstLine | None:
    """Return the first line of a log; None of a file that is no CSV, or not there.

    :param encoding: that is known already.
    """
    if path.suffix.lower() not in CSV_SUFFIXES or not path.is_file():
        return None
    with path.open("rb") as file:
        line = file.readline(_LONGEST)
    mark = line.startswith(codecs.BOM_UTF8)
    line = line.removeprefix(codecs.BOM_UTF8)
    guess = None
    try:
        line.decode()
    except UnicodeDecodeError:
        guess = None if b"\0" in line else guess_encoding(line)  # as in UTF-16
    text = line.decode("utf-8" if mark else encoding or guess or "utf-8", "replace").strip()
    usual = usual_delimiter(path)
    bare = _QUOTED.sub("", text)  # a quoted name may hold what separates others
    sign = max((usual, *_DELIMITERS), key=bare.count)
    columns = [name.strip() for name in next(csv.reader([text or '""'], delimiter=sign, skipinitialspace=True))]
    return FirstLine(columns, sign if sign != usual and sign in bare else None, None if mark else guess)


def check_delimiter(path: Path, delimiter: str, columns: Sequence[str], encoding: str | None) -> None:
    """Refuse a delimiter that is not between columns which the first line names, if another one is."""
    line = first_line(path, encoding)
    if line is None or not {*columns} <= {*line.columns}:
        return
    sign = line.delimiter or usual_delimiter(path)
    if sign != delimiter and len(delimiter) == 1:
        words = {"\t": r"\t"}.get(sign, sign)
        raise Refusal(
            "delimiter",
            delimiter,
            f"does not separate the columns in the first line of {path.name}, which {words!r} does",
            f"give `delimiter` '{words}'",
        )


def likely_decimal(path: Path, column: str, delimiter: str, encoding: str | None, decimal: str) -> str:
    """Say by which flag more values of a log are read; nothing if none has a decimal mark but this. Private."""
    texts = list(itertools.islice(_texts(path, column, delimiter, encoding), _ROWS))
    mark = "," if decimal == "." else "."
    number = sum(re.fullmatch(rf"[+-]?\d*[{mark}]\d+", text) is not None for text in texts)
    advice = f"{number} of the first {len(texts)} values have another decimal mark: give `value_decimal` '{mark}'"
    return advice if number else ""


def likely_times(path: Path, column: str, delimiter: str, encoding: str | None) -> str:
    """Say by flags in which form most times of a log are written; nothing if none is likely. Private."""
    texts = list(itertools.islice(_texts(path, column, delimiter, encoding), _ROWS))
    if texts and np.count_nonzero(~np.isnat(read_text_times(texts).times)) > _SHARE * len(texts):
        return "leave out `time_format` and `time_unit`, as most are in ISO 8601"
    digits = [len(text.partition(".")[0]) for text in texts if text.replace(".", "", 1).isdecimal()]
    for length, unit in _UNITS.items():
        if sum(number in (length - 1, length) for number in digits) > _SHARE * len(texts):
            return f"give `time_unit={unit}`, in which most seem to be"
    forms = [day + clock for day in _DAYS for clock in _CLOCKS]
    read = {form: sum(_reads(form, text) for text in texts) for form in forms}
    best = max(forms, key=read.__getitem__)
    return f"give `time_format` '{best}', in which most seem to be" if read[best] > _SHARE * len(texts) else ""


def _texts(path: Path, column: str, delimiter: str, encoding: str | None) -> Iterator[str]:
    """Yield what stands in a column of a log."""
    with path.open("rb") as file:
        lines = Lines(file, encoding or "utf-8")
        place = next(csv.reader([lines.header(path.name)], delimiter=delimiter)).index(column)
        with contextlib.suppress(csv.Error):
            for row in csv.reader(lines.decode(lines.block(_LONGEST).splitlines(keepends=True)), delimiter=delimiter):
                if len(row) > place and (text := row[place].strip()):
                    yield text


def _reads(form: str, text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(dt.datetime.strptime(text, form))
    return False
