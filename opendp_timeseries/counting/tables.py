"""Reading event logs: the only file that knows what kinds of table there are.

Whatever the table, the same two columns come out: identifiers as integers or :class:`Labels`, and times as
``datetime64`` or integers. What is wrong with a table is refused by the names and types of its columns,
which are public, never by a value. pandas, Polars and PyArrow are looked at only when their tables arrive.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["EventColumns", "Labels", "check_schema", "read_columns"]

_IDENTIFIER: Final = (
    "column {name!r} of type {dtype} cannot identify individuals; convert it to integers or text "
    "(floating-point numbers merge large identifiers)"
)
_TIME: Final = (
    "column {name!r} of type {dtype} does not hold times; convert it to datetime64 (in pandas: pd.to_datetime) or,"
    " for a grid of integer steps, to integers"
)
_COLUMN: Final = (
    "column {name!r} of type {dtype} is neither an identifier nor a time; convert it to integers, text or datetimes"
)
_TEXT_KINDS: Final = "OUST"  # objects; text of fixed width, as bytes, of variable width
_POLARS_TYPES: Final = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"String", "Categorical", "Enum", "Date", "Datetime"}
)


Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """Identifiers that are text: every row holds the number of its individual's name.

    :param codes: ``int64``, one for each row, positions in ``names``.
    :param names: every name once.
    """

    codes: Ints
    names: Sequence[str]

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, rows: Any) -> Labels:
        """Choose rows, as of an array."""
        return Labels(codes=self.codes[rows], names=self.names)


class EventColumns(NamedTuple):
    """The columns of an event log, as long as each other, without the rows that lack one of them.

    Missing ``datetime64`` times are kept, as ``NaT``.
    """

    identifiers: NDArray[Any] | Labels
    times: NDArray[Any]
    aware: bool
    """Whether times are instants in UTC, rather than on a clock that the table does not name."""
    by: NDArray[Any] | Labels | None = None
    """What tells the series of a panel apart, if a column of it was asked for."""


def read_columns(table: Any, *, identifier: str, time: str, by: str | None = None) -> EventColumns:
    """Read the identifiers and times of an event log.

    Tables are mappings of equally long one-dimensional NumPy arrays, pandas data frames, Polars data and
    lazy frames, PyArrow tables, and what else exports an Arrow stream (``__arrow_c_stream__``) repeatedly.

    Identifiers are integers of any width, also nullable, masked or as categories, or text of any kind. The
    same identifier is the same individual in every kind of table. In a NumPy or pandas column of type
    ``object``, what is not a ``str`` is missing, numbers too. Rows with a missing identifier are dropped.

    Times are ``datetime64`` and its like, dates (at midnight), or integers.

    :param table: the event log.
    :param identifier: name of the column that tells individuals apart.
    :param time: name of the column of event times.
    :param by: name of a column that tells series apart, integers or text as identifiers are; rows that lack it
        are dropped.
    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.

    >>> log = {"who": np.array(["ann", "bob", "ann"]), "when": np.array([0, 1, 2])}
    >>> columns = read_columns(log, identifier="who", time="when")
    >>> columns.identifiers.codes, columns.identifiers.names, columns.times
    (array([0, 1, 0]), ['ann', 'bob'], array([0, 1, 2]))
    """
    names = (identifier, time) if by is None else (identifier, time, by)
    return _read(_columns(table, names), identifier, time, by)


def check_schema(table: Any, *, identifier: str, time: str) -> None:
    """Refuse a table that :func:`read_columns` refuses, without reading its rows.

    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.
    """
    _read(_columns(table, (identifier, time), schema_only=True), identifier, time)


class _Column(NamedTuple):
    """A column in NumPy's terms: a value or a label for every row, and which rows are missing."""

    dtype: Any  # as its owner calls it, for messages
    values: NDArray[Any] | Labels | None  # None for a type that nothing here reads
    missing: NDArray[np.bool_] | None = None
    aware: bool = False


def _read(columns: Iterable[_Column], identifier: str, time: str, by: str | None = None) -> EventColumns:
    who, when, *which = columns
    for column, name in zip((who, *which), (identifier, by), strict=False):
        if column.values is None or (not isinstance(column.values, Labels) and column.values.dtype.kind not in "iu"):
            raise TypeError(_IDENTIFIER.format(name=name, dtype=column.dtype))
    if when.values is None or isinstance(when.values, Labels) or when.values.dtype.kind not in "iuM":
        raise TypeError(_TIME.format(name=time, dtype=when.dtype))
    missing = [column.missing for column in (who, when, *which) if column.missing is not None]
    values: list[Any] = [who.values, when.values, *(column.values for column in which)]
    if any(mask.any() for mask in missing):
        present = ~np.logical_or.reduce(missing)
        values = [column[present] for column in values]
    return EventColumns(values[0], values[1], when.aware, *values[2:])


def _columns(table: Any, names: tuple[str, ...], *, schema_only: bool = False) -> list[_Column]:
    """Find the columns; of no rows, when only the schema is wanted."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    rows = slice(0, 0) if schema_only else slice(None)
    if isinstance(table, Mapping):
        return [_from_numpy(array[rows]) for array in _arrays(table, names)]
    if pandas is not None and isinstance(table, pandas.DataFrame):
        _find(names, list(table.columns))
        return [_from_pandas(pandas, table[name].iloc[rows]) for name in names]
    if polars is not None and isinstance(table, (polars.DataFrame, polars.LazyFrame)):
        table = _polars_to_arrow(table, names, schema_only)
    elif hasattr(table, "__arrow_c_stream__"):
        table = _stream_to_arrow(table, names, schema_only)
    else:
        raise TypeError(
            f"a table of type {type(table).__name__} is not known; give a mapping of NumPy arrays, or a data "
            "frame of pandas, Polars or PyArrow"
        )
    return [_from_arrow(table.column(name)) for name in names]


def _find(names: Sequence[str], columns: Sequence[Any]) -> None:
    for name in names:
        found = sum(isinstance(column, str) and column == name for column in columns)
        if found != 1:
            problem = "is missing" if found == 0 else f"is there {found} times"
            raise ValueError(f"column {name!r} {problem}; the table has {list(columns)}")


def _arrays(table: Mapping[Any, Any], names: Sequence[str]) -> list[NDArray[Any]]:
    """The columns of a mapping."""
    _find(names, list(table))
    for name in names:
        column = table[name]
        if not isinstance(column, np.ndarray) or column.ndim != 1:
            raise TypeError(
                f"column {name!r} of type {type(column).__name__} must be a one-dimensional NumPy array; "
                "convert it with numpy.asarray, or give a data frame"
            )
    arrays = [table[name] for name in names]
    if any(array.size != arrays[0].size for array in arrays):
        raise ValueError(f"columns {', '.join(map(repr, names))} must be equally long")
    return arrays


def _polars_to_arrow(frame: Any, names: tuple[str, ...], schema_only: bool) -> Any:
    _import_pyarrow()
    schema = frame.collect_schema()
    _find(names, list(schema))
    for name in names:  # before the export, as Polars aborts the process on some types
        if schema[name].base_type().__name__ not in _POLARS_TYPES:
            raise TypeError(_COLUMN.format(name=name, dtype=schema[name]))
    if schema_only:
        frame = frame.clear()
    return _quietly(lambda: frame.lazy().select(names).collect().to_arrow())


def _stream_to_arrow(table: Any, names: tuple[str, ...], schema_only: bool) -> Any:
    pyarrow = _import_pyarrow()
    if isinstance(table, pyarrow.RecordBatchReader):
        raise TypeError("a RecordBatchReader can be read only once; give a table, for instance by its read_all()")
    reader = pyarrow.RecordBatchReader.from_stream(table)
    _find(names, reader.schema.names)
    if schema_only:
        return reader.schema.empty_table()
    schema = pyarrow.schema([reader.schema.field(name) for name in names])
    return _quietly(lambda: pyarrow.Table.from_batches((batch.select(names) for batch in reader), schema))


def _quietly(read: Callable[[], Any]) -> Any:
    """Read rows that their owner computes only now, and whose failure may quote them.

    :raises TypeError: with one fixed message, whatever failed.
    """
    with contextlib.suppress(Exception):
        return read()
    # Outside of any handler, so that nothing of what failed is attached.
    raise TypeError("the table could not be read: its own query or stream failed; collect it first")


def _import_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise TypeError("reading this kind of table takes PyArrow: pip install 'opendp_timeseries[tables]'") from None
    return pyarrow


def _from_numpy(array: NDArray[Any]) -> _Column:
    missing = None
    if isinstance(array, np.ma.MaskedArray):
        array, missing = array.data, np.ma.getmaskarray(array)
    if array.dtype.kind not in _TEXT_KINDS:
        return _Column(array.dtype, array.astype(array.dtype.newbyteorder("="), copy=False), missing)
    labels = _array_labels(array)
    absent = labels.codes < 0
    return _Column(array.dtype, labels, absent if missing is None else absent | missing)


def _from_pandas(pandas: Any, series: Any) -> _Column:
    dtype, array = series.dtype, series.array
    if isinstance(dtype, np.dtype):
        return _from_numpy(series.to_numpy())
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return _Column(dtype, series.dt.tz_convert(None).to_numpy(), aware=True)
    if isinstance(dtype, pandas.CategoricalDtype):
        return _from_categories(pandas, dtype, array)
    if isinstance(array, pandas.arrays.IntegerArray):
        return _Column(dtype, series.to_numpy(dtype=dtype.numpy_dtype, na_value=0), np.asarray(array.isna()))
    if isinstance(dtype, pandas.ArrowDtype) or "pyarrow" in getattr(dtype, "storage", ""):
        column = _from_arrow(_import_pyarrow().chunked_array(array.__arrow_array__()))
        return column._replace(dtype=dtype)
    if isinstance(dtype, pandas.StringDtype):
        return _from_numpy(series.to_numpy(dtype=object))
    return _Column(dtype, None)


def _from_categories(pandas: Any, dtype: Any, array: Any) -> _Column:
    """Read a pandas column of categories; its code -1 is missing."""
    codes, categories = array.codes.astype(np.int64), array.categories
    kind = categories.dtype.kind
    if isinstance(categories.dtype, np.dtype) and kind in "iu":
        padded = np.concatenate([categories.to_numpy(), np.zeros(1, categories.dtype)])
        return _Column(dtype, padded[codes], codes < 0)
    if categories.dtype == np.dtype(object) or isinstance(categories.dtype, pandas.StringDtype) or kind == "U":
        numbers = _numbers()
        codes = _renumber(codes, len(categories), partial(_number_pandas, categories, numbers))
        return _Column(dtype, Labels(codes=codes, names=list(numbers)), codes < 0)
    return _Column(dtype, None)


def _from_arrow(column: Any) -> _Column:
    pyarrow = _import_pyarrow()
    dtype, types = column.type, pyarrow.types
    if types.is_dictionary(dtype) and types.is_integer(dtype.value_type):
        return _from_arrow(column.cast(dtype.value_type))
    if types.is_integer(dtype):
        return _Column(dtype, column.fill_null(0).to_numpy(), column.is_null().to_numpy())
    if types.is_timestamp(dtype) or types.is_date(dtype):
        unit = dtype.unit if types.is_timestamp(dtype) else "D" if dtype == pyarrow.date32() else "ms"
        ticks = column.cast(pyarrow.int32()) if dtype == pyarrow.date32() else column
        ticks = ticks.cast(pyarrow.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        return _Column(dtype, ticks.view(f"datetime64[{unit}]"), aware=getattr(dtype, "tz", None) is not None)
    if _is_arrow_text(pyarrow, dtype.value_type if types.is_dictionary(dtype) else dtype):
        labels = _arrow_labels(column if types.is_dictionary(dtype) else column.dictionary_encode())
        return _Column(dtype, labels, labels.codes < 0)
    return _Column(dtype, None)


def _is_arrow_text(pyarrow: Any, dtype: Any) -> bool:
    """Whether this is text, of a type that this version of PyArrow converts (old ones leave out views)."""
    if str(dtype) not in ("string", "large_string", "string_view"):
        return False
    try:
        pyarrow.nulls(0, dtype).cast("large_binary")
    except NotImplementedError:
        return False
    return True


def _array_labels(array: NDArray[Any]) -> Labels:
    """Label a NumPy array of text, or of objects of which those that are text count."""
    numbers = _numbers()
    if array.dtype.kind == "S":
        # Bytes are text in UTF-8. `surrogateescape` keeps what is not, so two names never become one.
        codes = np.fromiter(map(numbers.__getitem__, array.tolist()), np.int64, array.size)
        names = map(operator.methodcaller("decode", "utf-8", "surrogateescape"), numbers)
        return Labels(codes=codes, names=list(names))
    if array.dtype.kind == "U" and array.dtype.itemsize:
        # What is beyond Unicode (it takes a view of other memory) would raise when it becomes a str.
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
        points = array.view(np.uint32).reshape(array.size, array.dtype.itemsize // 4)
        beyond = points.max(axis=1, initial=0) > sys.maxunicode
        if beyond.any():
            array = np.where(beyond, "", array).astype(object)
            array[beyond] = None
    codes = _number(array.tolist(), numbers)
    return Labels(codes=codes, names=list(numbers))


def _arrow_labels(column: Any) -> Labels:
    """Label a dictionary column, whose chunks may have dictionaries of their own, with repeats and nulls."""
    numbers = _numbers()
    pieces = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        indices = chunk.indices.cast("int64").fill_null(-1).to_numpy()
        number = partial(_number_arrow, chunk.dictionary, numbers)
        pieces.append(_renumber(indices, len(chunk.dictionary), number))
    return Labels(codes=np.concatenate(pieces), names=list(numbers))


def _number_arrow(dictionary: Any, numbers: Mapping[Any, int], used: Ints) -> Ints:
    """Number entries of an Arrow dictionary, also where they are not UTF-8, which Arrow does not check."""
    values = dictionary.cast("large_binary").take(used).to_pylist()
    text = [None if value is None else value.decode("utf-8", "surrogateescape") for value in values]
    return _number(text, numbers)


def _number_pandas(categories: Any, numbers: Mapping[Any, int], used: Ints) -> Ints:
    """Number categories of a pandas column."""
    return _number(categories.take(used).tolist(), numbers)


def _numbers() -> defaultdict[Any, int]:
    """A table that numbers what it is asked for, in order of appearance."""
    return defaultdict(itertools.count().__next__)


def _number(values: list[Any], numbers: Mapping[Any, int]) -> Ints:
    """Number the values that are text, and -1 for all others."""
    types = list(map(type, values))
    text = np.fromiter(map(operator.is_, types, itertools.repeat(str)), np.bool_, len(values))
    if not text.all():
        text |= np.fromiter(map(operator.is_, types, itertools.repeat(np.str_)), np.bool_, len(values))
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[text] = np.fromiter(map(numbers.__getitem__, itertools.compress(values, text)), np.int64)
    return codes


def _renumber(codes: Ints, size: int, number: Callable[[Ints], Ints]) -> Ints:
    """Replace codes by the numbers of their categories, -1 for -1. Only categories in use are asked for."""
    seen = np.zeros(size + 1, dtype=np.bool_)
    seen[codes] = True
    used = np.flatnonzero(seen[:size])
    numbers = np.zeros(size + 1, dtype=np.int64)  # the last entry is that of code -1
    numbers[used] = number(used) + 1
    return numbers[codes] - 1
