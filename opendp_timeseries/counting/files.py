"""Read event logs from files, for the command line: CSV with the standard library, Parquet with PyArrow.

What is wrong with a file is refused by its name, its header or its schema, never by a row: a row that cannot be read
has no identifier or no time, and is dropped by the count.
"""

import contextlib
import csv
import datetime as dt
import decimal
import io
import itertools
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from operator import add, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Required, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._text import Lines, canonical_encoding
from opendp_timeseries.counting.batches import sorted_rows
from opendp_timeseries.counting.fields import plain_fields
from opendp_timeseries.counting.progress import report
from opendp_timeseries.counting.tables import Column, Log, Rows, Tally, read
from opendp_timeseries.counting.texts import Numbers, Texts
from opendp_timeseries.design.reading import Reading, Source
from opendp_timeseries.grid import TextTimes, parse_zone, read_byte_times, read_text_times

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import dataset

Ints = NDArray[np.int64]
#: A field of several lines: text, or bytes of Arrow.
Field: TypeAlias = "list[str] | pyarrow.BinaryArray"

CSV_SUFFIXES: Final = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES: Final = (".parquet", ".pq")
#: Units of times that are numbers, by how many of them make a second.
TIME_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

#: Bytes that are read at a time, so that few names are met anew; and of a file that is worth the start of PyArrow.
_BLOCK: Final = 2**23
_LARGE: Final = 2**23
#: Rows of text that are read together, so that they take little memory; and bytes that stay in a processor's cache.
_PIECE: Final = 2**14
_PART: Final = 2**16
_DOWN: Final = decimal.Context(prec=40, rounding=decimal.ROUND_FLOOR)
#: The last nanosecond that 64 bits hold. Times that are further from 1970 are off every grid.
_LAST: Final = 2**63 - 1
#: Parts of a format that say that the clock is that of UTC, and what else says that it is not the one of a zone.
_UTC: Final = re.compile(r"(?<![A-Za-z%])(?:Z|UTC|GMT|Zulu)(?![A-Za-z])|[+-]00(?::?00)?(?!\d)", re.IGNORECASE)
#: Parts of a format that are numbers, as forms of their digits; and all that a form may tell apart.
_FIELDS: Final = {
    "Y": "(?P<year>0000)", "m": "(?P<month>00?)", "d": "(?P<day>00?)", "H": "(?P<hour>00?)", "I": "(?P<hour>00?)",
    "M": "(?P<minute>00?)", "S": "(?P<second>00?)", "f": "(?P<fraction>0{1,6})", "p": "(?P<half>[AP]M)",
    "z": "(?:(?P<named>Z)|(?P<sign>[+-])(?P<hours>00):?(?P<minutes>00))",
}  # fmt: skip
_GROUPS: Final = ("hour", "minute", "second", "fraction", "named", "sign", "hours", "minutes")
#: In place of each byte, that which it is where a comma is the decimal mark, and a point is none.
_COMMAS_AS_POINTS: Final = bytes.maketrans(b",.", b".,")
_OFFSET: Final = re.compile(r"[+\N{MINUS SIGN}-] ?\d")


class CsvForm(TypedDict, total=False):
    """Form of a CSV file: parameters of :func:`csv_batches`."""

    zone: Required[str]
    encoding: str
    delimiter: str
    time_format: str | None
    time_unit: str | None
    value_decimal: str


def read_csv_log(path: Path, reading: Reading, **form: Unpack[CsvForm]) -> Log:
    """Read a CSV file: who is where, with as many rows of each individual and position as may count.

    The count of this log is that of the file. This also holds for other readings of the same columns: on the same grid,
    or on it as one step; with or without the keys, or the value; with a step cap that is no larger. The tally is that
    of all rows.

    :param form: parameters of :func:`csv_batches`, which also names the errors.
    """
    numbers: defaultdict[str, int] = defaultdict(itertools.count(1).__next__, {"": 0})
    notes: list[str] = []
    tally = [0] * len(Tally._fields)

    # Without periods; and all keys that are not listed, whose number is -1, are one more series.
    keys = reading.panel and (*map(str, range(reading.series + 1)),)
    layout = Reading(source=None, grid=reading.grid, panel=keys, step_cap=reading.step_cap)

    def tallied() -> Iterator[Rows]:
        for batch in csv_batches(path, reading.log, numbers, notes=notes, **form):
            rows = read(batch, reading)
            tally[:] = map(add, tally, rows.tally)
            yield rows._replace(reading=layout, series=None if rows.series is None else rows.series % layout.series)

    texts = Numbers()
    packed, places, _, amounts = sorted_rows(tallied(), layout, cap=reading.step_cap, worthless=True, numbers=texts)
    series, steps = np.divmod(packed & (2**places.bits - 1), reading.grid.size)
    names = texts.names if texts else [name or None for name in numbers]
    people = packed >> places.bits
    columns = [
        Column("text", cells=names, codes=people),
        Column("times", reading.grid.instants()[steps], aware=True),
    ]
    if reading.panel is not None:
        columns.append(Column("text", cells=[*reading.panel, None], codes=series))
    if reading.log.value is not None:
        columns.append(Column("numbers", np.empty(0, np.int64) if amounts is None else amounts))
    log = Log(zip(reading.log.columns, columns, strict=True))
    log.tally, log.notes = Tally(*tally), notes
    return log


def csv_batches(
    path: Path,
    source: Source,
    numbers: dict[str, int],
    *,
    zone: str,
    encoding: str = "utf-8",
    delimiter: str = ",",
    time_format: str | None = None,
    time_unit: str | None = None,
    value_decimal: str = ".",
    notes: list[str] | None = None,
) -> Iterator[Log]:
    """Read columns of a CSV file with a header, some rows at a time: individuals by numbers, times in UTC, and keys.

    Times are text as :func:`~opendp_timeseries.grid.read_text_times` reads it, unless a format or a unit is given.
    Those without an offset are local times of ``zone`` (the first occurrence where clocks go back). What is not a time
    in that form is missing, as is an empty identifier: such rows are dropped by the count, so a file in another form
    gives a count of zeros.

    One line is one row, whatever quotes are in it: were rows to extend over lines, an open quote in the row of
    one person would take in the rows of others. Fields in quotes may hold the delimiter, and no line breaks.

    Each line is decoded by itself. One with bytes that are not of the encoding is read all the same: these bytes tell
    individuals apart, and are in no listed key and no time.

    :param path: the file.
    :param source: which columns are read.
    :param numbers: from identifiers to numbers; it must give a new identifier its own, and "" (nobody) the number 0. It
        is not used where PyArrow reads the file: then identifiers are texts.
    :param zone: IANA name of the zone of times without an offset.
    :param encoding: in which its text is; a byte-order mark says UTF-8.
    :param delimiter: the character between fields.
    :param time_format: how times are written, in the terms of ``datetime.strptime``. They are in UTC if it holds ``Z``,
        ``UTC``, ``GMT`` or an offset of zero as it stands; any other offset is ``%z``.
    :param time_unit: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``, if times are numbers of these since 1970-01-01 in UTC.
    :param value_decimal: the decimal mark of values, a point or a comma. Neither stands between thousands.
    :param notes: takes what there is to say of all rows at the end. Private.
    :raises ValueError: if a column is not in the header, or is there more than once; if a parameter does not serve.
    """
    read_times, clock = _times_reader(time_format, time_unit), parse_zone(zone) or dt.UTC
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n\0':
        raise Refusal("delimiter", delimiter, "must be one character that separates fields, such as ',' or ';'")
    has_commas = check.choice("value_decimal", value_decimal, (".", ",")) == "," and source.value is not None
    try:
        legible = canonical_encoding(encoding)
    except ValueError as error:
        raise Refusal("encoding", encoding, f"{error}") from None
    if source.identifier == source.time:
        raise Refusal(f"column {source.time!r}", ..., "must not be identifier and time at once", "give another `time`")
    csv.field_size_limit(2**31 - 1)  # one long field must not stop the reading of all others
    with path.open("rb") as file:
        size, lines = os.fstat(file.fileno()).st_size, Lines(file, legible)  # 0 of a pipe
        header = _fields(lines.header(path.name), delimiter)
        place = f"the first line of {path.name}, read with the delimiter {delimiter!r}"
        where = [_position(header, column, word, place) for word, column in _named(source)]

        def log(who: Field, when: Field, *extras: Field) -> Log:
            times = read_times(when).in_utc(clock)
            unread = np.isnat(times)
            unread[unread] = [text.strip() != "" for text in _some(when, np.flatnonzero(unread))]
            if has_commas:
                extras = (*extras[:-1], _with_points(extras[-1]))
            columns = [people(who), Column("text", times, aware=True, unread=unread), *map(_texts, extras)]
            return Log(zip(source.columns, columns, strict=True))

        def numbered(who: Field) -> Column:
            individuals = np.fromiter(map(numbers.__getitem__, who), np.int64, len(who))
            return Column("text", individuals, missing=individuals == 0)

        plain = size >= _LARGE and legible == "utf-8" and delimiter.isascii() and _has_arrow()
        people = _texts if plain else numbered
        while block := lines.block(_BLOCK):
            text = io.BytesIO(block)
            if plain and (fields := plain_fields(block, where, delimiter)) is not None:
                lines.count_legible(len(fields[0]))
                text.seek(0, io.SEEK_END)
                yield log(*fields)
            while cells := _cells(text, lines, where, delimiter):
                yield log(*(cells[k :: len(where)] for k in range(len(where))))
                if size:
                    report(file.tell() - len(block) + text.tell(), size)
            if size:
                report(file.tell(), size)
        if notes is not None and lines.note:
            notes.append(lines.note)


def read_parquet_log(path: Path, source: Source, *, zone: str | None = None) -> "dataset.Dataset":
    """Open a Parquet file as a PyArrow dataset, which is counted batch by batch.

    :param source: which columns are read, the time among them.
    :param zone: of times without one, ``"UTC"``; if left out, they are on the clock of the grid.
    :raises ImportError: without PyArrow, naming the extra to install.
    :raises TypeError: for times that are text.
    :raises ValueError: if it is no Parquet file, or a column is not in its schema, or is there more than once.
    """
    pyarrow = check.installed("pyarrow", "Parquet files need PyArrow", "tables")
    from pyarrow import dataset

    parquet = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")  # in nanoseconds, years from 2262 on wrap
    try:
        log = dataset.dataset(path, format=parquet)
    except ValueError:  # pyarrow.ArrowInvalid, in many words
        raise Refusal("file", Quoted(path), "must be a Parquet file", "convert it, or correct its suffix") from None
    for word, name in _named(source):
        _position(log.schema.names, name, word, f"the schema of {path.name}")
    time = source.time
    # Of every file, if it is a folder of them.
    schemas = [log.schema, *(file.physical_schema for file in log.get_fragments())]
    kinds = {schema.field(time).type for schema in schemas if time in schema.names}
    for kind in map(str, kinds):
        if "string" in kind:  # declared by the file, and so not the work of one row
            raise TypeRefusal(
                f"column {time!r} of type {kind}", ..., "does not hold times", "convert it to datetime64 in the file"
            )
    if zone is None or all(getattr(kind, "tz", None) is not None for kind in kinds):
        return log
    naive, *extras = kinds
    if zone != "UTC" or extras or not pyarrow.types.is_timestamp(naive):
        raise Refusal(
            "times_zone",
            zone,
            f"must be UTC, or the grid's, for Parquet, and UTC for timestamps of one type alone, which column {time!r}"
            f" ({', '.join(sorted(map(str, kinds)))}) must hold then",
            "give the times a zone there",
        )
    # PyArrow casts times without a zone to those of a schema in UTC as they are.
    in_utc = log.schema.field(time).with_type(pyarrow.timestamp(naive.unit, "UTC"))
    return dataset.dataset(path, format=parquet, schema=log.schema.set(log.schema.get_field_index(time), in_utc))


def _has_arrow() -> bool:
    with contextlib.suppress(ImportError):
        import pyarrow  # noqa: F401

        return True
    return False


def _texts(texts: Field) -> Column:
    if isinstance(texts, list):
        return Column("text", cells=[text or None for text in texts])
    encoded = texts.dictionary_encode()
    return Column("text", cells=Texts(encoded.dictionary.cast("large_binary")), codes=encoded.indices.to_numpy())


def _with_points(texts: Field) -> Field:
    """Return texts in which commas and points have changed places."""
    if isinstance(texts, list):
        return [text.translate(_COMMAS_AS_POINTS) for text in texts]
    *buffers, data = texts.buffers()
    text = (data or b"") and data.to_pybytes().translate(_COMMAS_AS_POINTS)
    return texts.from_buffers(texts.type, len(texts), [*buffers, sys.modules["pyarrow"].py_buffer(text)])


def _some(texts: Field, rows: Ints) -> list[str]:
    """The texts of some rows."""
    if isinstance(texts, list):
        return [texts[k] for k in rows.tolist()]
    some: list[str] = texts.take(sys.modules["pyarrow"].array(rows)).cast("string").to_pylist()
    return some


def _cells(block: BinaryIO, file: Lines, where: list[int], delimiter: str) -> list[str]:
    """Some fields of each of the next lines, one after the other; empty where a line has fewer, or is no CSV."""
    cells: list[str] = []
    while len(cells) < len(where) * _PIECE and (lines := file.decode(block.readlines(_PART))):
        lines[-1] = lines[-1].rstrip("\r\n")  # where a quote is left open, it is no part of the field
        read: list[str] = []
        with contextlib.suppress(csv.Error, IndexError):
            read += itertools.chain.from_iterable(map(itemgetter(*where), csv.reader(lines, delimiter=delimiter)))
        if len(read) != len(where) * len(lines):  # or where a row with an open quote extends over lines
            rows = [_fields(line, delimiter) for line in lines]
            read = [row[k] if k < len(row) else "" for row in rows for k in where]
        cells += read
    return cells


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of one line; none of a line that is no CSV."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:
        return []


def _named(source: Source) -> list[tuple[str, str]]:
    """Return the columns that are read, each with the word that names it, in their order."""
    words = {word: getattr(source, word) for word in ("identifier", "time", "by", "value")}
    return [(word, column) for word, column in words.items() if column is not None]


def _position(header: list[str], name: str, word: str, place: str) -> int:
    # What the place holds instead is not said: a file without a header would show its first row.
    if header.count(name) != 1:
        problem = "is not in" if name not in header else "is more than once in"
        raise Refusal(f"column {name!r}", ..., f"{problem} {place}", f"give `{word}` as it stands there")
    return header.index(name)


def _times_reader(time_format: str | None, time_unit: str | None) -> Callable[[Field], TextTimes]:
    """Return how a list of texts, or an array of bytes of Arrow, is read as times."""
    if time_format is not None and time_unit is not None:
        raise Refusal(
            "time_format",
            time_format,
            f"and `time_unit` ({time_unit!r}) must not both be given",
            "leave out the format if times are numbers, and the unit if they are not",
        )
    read: Callable[[str], int | None]
    form = None
    if time_unit is not None:
        unit = check.choice("time_unit", time_unit, TIME_UNITS)
        read, aware = partial(_from_number, factor=10**9 // TIME_UNITS[unit]), True
    elif time_format is not None:
        _check_format(time_format)
        read, form = partial(_from_format, time_format=time_format), _form(time_format)
        aware = "%z" in time_format.replace("%%", "") or _UTC.search(_literal(time_format)) is not None
    else:
        return _in_form

    def read_times(texts: Field) -> TextTimes:
        times = np.full(len(texts), "NaT", dtype="datetime64[ns]")
        if form is not None:  # most of them; Python reads the others, one by one
            times = _in_form(texts, form).times
        gaps = np.flatnonzero(np.isnat(times))
        instants = map(read, _some(texts, gaps))
        ticks = [-_LAST - 1 if time is None else max(-_LAST, min(time, _LAST)) for time in instants]
        times[gaps] = np.array(ticks, dtype=np.int64).view("datetime64[ns]")
        return TextTimes(times, np.full(len(texts), aware))

    return read_times


def _in_form(texts: Field, *form: re.Pattern[bytes]) -> TextTimes:
    if isinstance(texts, list):
        return read_text_times(texts, *form)
    _, ends, data = texts.buffers()
    times, aware = read_byte_times(
        np.frombuffer(data or b"", np.uint8), np.frombuffer(ends, np.int32)[1 : len(texts) + 1].astype(np.int64), *form
    )
    gaps = np.flatnonzero(np.isnat(times))
    if gaps.size:
        times[gaps], aware[gaps] = read_text_times(_some(texts, gaps), *form)
    return TextTimes(times, aware)


def _form(time_format: str) -> re.Pattern[bytes] | None:
    """The form of times in a format of ``strptime`` whose parts are numbers, as :func:`read_text_times` takes it.

    Each time of this form is to ``strptime``, too, what is read here, or none. None where that is not so sure.
    """
    pieces = re.findall("%(.)|([^%])", time_format, re.DOTALL)
    parts = {part for part, _ in pieces if part not in ("", "%")}
    halves, written = {"p", "I"} & parts, [dt.time(hour).strftime("%p") for hour in (1, 13)]
    if (
        not parts <= _FIELDS.keys()
        or not time_format.isascii()
        or re.search(r"[\d?\0]|%z.", time_format)
        or (halves and (len(halves) < 2 or "H" in parts or written != ["AM", "PM"]))
    ):
        return None
    form = "".join(_FIELDS[part] if part in parts else re.escape(literal or "%") for part, literal in pieces)
    if re.search("%[YmdHIMSf]%[YmdHIMSf]", time_format):  # nothing says where one number ends
        form = form.replace("00?", "00").replace("0{1,6}", "0{6}")
    form += "".join(f"(?P<{name}>(?!))?" for name in _GROUPS if f"<{name}>" not in form)
    return re.compile(form.encode())


def _from_number(text: str, factor: int) -> int | None:
    try:
        number = _DOWN.multiply(decimal.Decimal(text.strip()), factor)
        return int(number.to_integral_value(decimal.ROUND_FLOOR)) if abs(number) < _LAST else None
    except decimal.DecimalException:
        return None


def _from_format(text: str, time_format: str) -> int | None:
    try:
        when = dt.datetime.strptime(text.strip(), time_format)
    except (ValueError, OverflowError):
        return None
    elapsed = when.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - (when.utcoffset() or dt.timedelta())
    return elapsed // dt.timedelta(microseconds=1) * 1000


def _literal(time_format: str) -> str:
    return re.sub("%(.)", lambda match: "%" if match[1] == "%" else "\0", time_format)


def _check_format(time_format: str) -> None:
    """Refuse a format that ``strptime`` does not know, or that does not tell an instant: the day, and its hours."""
    remedy = "such as '%d.%m.%Y %H:%M' or '%m/%d/%Y %I:%M %p'; see Python's datetime.strptime"
    if "%Z" in time_format.replace("%%", ""):
        raise Refusal(
            "time_format",
            time_format,
            "must not have %Z, as the names of zones are ambiguous: write %z for offsets such as Z or +0200, or UTC"
            " itself",
            "times with the name of another zone are on the clock of `zone`",
        )
    if _OFFSET.search(_UTC.sub("", _literal(time_format))):
        raise Refusal("time_format", time_format, "must not hold an offset as it stands", "write %z in its place")
    parts = 2003, 11, 27, 17, 46, 53, 123456
    exact = [dt.datetime(*parts[:k]) for k in range(3, 8)]  # type: ignore[arg-type]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = dt.datetime.strptime(exact[-1].replace(tzinfo=dt.UTC).strftime(time_format), time_format)
    except (ValueError, re.error, KeyError, IndexError):
        raise Refusal("time_format", time_format, f"must be a format that Python can read, {remedy}") from None
    if read.replace(tzinfo=None) not in exact:
        raise Refusal("time_format", time_format, f"must say year, month and day, and with %I also %p, {remedy}")
