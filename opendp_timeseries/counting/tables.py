"""Reading event logs in memory: the only file that knows what kinds of table there are.

Whatever the table and the types that its library inferred, each cell is read by itself: its identifier by
:mod:`~opendp_timeseries.counting.identifiers`, its time by the grid. What is wrong with a table is refused by the names
and types of its columns, where those cannot be the work of one row, never by a value. pandas, Polars and PyArrow are
looked at only when their tables arrive.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import numbers
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.identifiers import Labels, canonical_text, identifier_text, instant_text, key_numbers
from opendp_timeseries.counting.times import steps_of_floats, steps_of_objects
from opendp_timeseries.design.count import Count
from opendp_timeseries.grid import TimeGrid

__all__ = ["Tally", "UtcLog", "Who", "check_schema", "read_positions", "tally"]

_IDENTIFIER: Final = "column {name!r} of type {dtype} cannot identify individuals; convert it to integers or text"
_TIME: Final = (
    "column {name!r} of type {dtype} does not hold times; convert it to datetime64 (in pandas: pd.to_datetime) or,"
    " for a grid of integer steps, to integers"
)
_COLUMN: Final = (
    "column {name!r} of type {dtype} is neither an identifier nor a time; convert it to integers, text or datetimes"
)
_POLARS_TYPES: Final = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Int128", "UInt128", "Float32", "Float64", "Decimal", "Boolean", "Null"}
    | {"String", "Categorical", "Enum", "Binary", "Date", "Datetime", "Duration"}
)

_PIECE: Final = 2**14  # cells of objects that are read at a time: they fit in a processor's cache
_MISSING, _UNREADABLE, _UNKNOWN = range(3)
_SAMPLE: Final = 2**20  # cells from which it is told whether many hold the same object

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Who = NDArray[Any] | Labels  # integers of any width, or text


class UtcLog(dict[str, NDArray[Any]]):
    """A mapping of arrays whose ``datetime64`` are instants in UTC, on whatever clock a grid is."""

    #: Which rows had a text that is no time, where times were text; all others without a time had none.
    not_times: Mask | None = None


class Tally(NamedTuple):
    """Where the rows of a log went: every row is in one of these, the first that holds. Private."""

    rows: int
    missing_identifier: int
    unknown_identifier: int  # of a type that is not known
    missing_time: int
    unreadable_time: int  # a text that is no time, or a number that is no step
    unknown_time: int  # of a type that is not known
    off_grid: int
    unknown_key: int

    @property
    def counted(self) -> int:
        """Rows of somebody, on the grid, and of a listed key."""
        return self.rows - sum(self[1:])


def read_positions(table: Any, count: Count) -> tuple[Who, Ints]:
    """Read who and where in the (panel of) series, for every row; -1 for rows that are nowhere.

    Tables are mappings of equally long one-dimensional NumPy arrays, pandas data frames, Polars data and
    lazy frames, PyArrow tables, and what else exports an Arrow stream (``__arrow_c_stream__``) repeatedly.

    Identifiers and keys are told apart by their text, in columns of numbers, text, bytes, truth values, dates,
    datetimes and objects, also nullable, masked or as categories. Times are ``datetime64`` and its like, dates (at
    midnight) or, on a grid of integer steps, numbers; in columns of objects, each cell is read by its own type.

    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.

    >>> from opendp_timeseries.design.count import Source
    >>> log = {"who": np.array(["ann", "bob", "ann"]), "when": np.array([0, 1, 9])}
    >>> count = Count(source=Source(identifier="who", time="when"), grid=TimeGrid(size=3), participation_cap=1)
    >>> who, positions = read_positions(log, count)
    >>> who.codes, who.names, positions
    (array([0, 1, 0]), ['ann', 'bob'], array([ 0,  1, -1]))
    """
    rows = _read(_columns_of(table, count), count)
    positions = rows.steps
    if rows.series is not None:
        positions = np.where((positions >= 0) & (rows.series >= 0), rows.series * count.grid.size + positions, -1)
    if rows.nobody is not None and rows.nobody.any():
        positions = np.where(rows.nobody, -1, positions)
    return rows.who, positions


def tally(table: Any, count: Count) -> Tally:
    """Say where the rows of a table go. Private.

    :raises TypeError: as :func:`read_positions`, and the other errors.
    """
    columns = _columns_of(table, count)
    rows = _read(columns, count)
    missing, _, unknown = _causes(columns[count.log.identifier], rows.nobody)
    masks = [missing, unknown, None, None, None]
    if count.log.time is not None:
        masks[2:] = _causes(columns[count.log.time], rows.timeless, getattr(table, "not_times", None))
    masks += [rows.steps < 0, None if rows.series is None else rows.series < 0]
    left, lost = np.ones(rows.steps.shape, dtype=np.bool_), []
    for mask in masks:
        lost.append(0 if mask is None else int(np.count_nonzero(left & mask)))
        left = left if mask is None else left & ~mask
    return Tally(rows.steps.size, *lost)


def check_schema(table: Any, *, identifier: str, time: str) -> None:
    """Refuse a table that :func:`read_positions` refuses on every grid, without reading its rows.

    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.
    """
    who, when = _columns(table, [identifier, time], schema_only=True)
    _identifiers(who, identifier)
    _check_time(when, time)


class _Column(NamedTuple):
    """A column in NumPy's terms: a value or a label for every row, and which rows are missing."""

    dtype: Any  # as its owner calls it, for messages
    values: NDArray[Any] | Labels | None  # None for a type that nothing here reads
    missing: Mask | None = None
    aware: bool = False  # whether times are instants in UTC, rather than on a clock that the table does not name

    @property
    def kind(self) -> str:
        return self.values.dtype.kind if isinstance(self.values, np.ndarray) else ""


class _Rows(NamedTuple):
    """The columns of a log, as long as each other."""

    who: Who
    nobody: Mask | None  # rows without an identifier
    steps: Ints  # -1 off the grid or without a time
    timeless: Mask | None
    series: Ints | None  # the number of the key, -1 for one that is not listed


def _columns_of(table: Any, count: Count) -> dict[str, _Column]:
    return dict(zip(count.log.columns, _columns(table, count.log.columns), strict=True))


def _read(columns: Mapping[str, _Column], count: Count) -> _Rows:
    log, series = count.log, None
    identifiers, nobody = _identifiers(columns[log.identifier], log.identifier, exact=log.exact)
    if log.time is None:
        rows = identifiers.codes.size if isinstance(identifiers, Labels) else identifiers.size
        steps, timeless = np.zeros(rows, dtype=np.int64), None
    else:
        _check_time(columns[log.time], log.time)
        steps, timeless = _steps(columns[log.time], count.row_grid)
    if count.pooled is not None:
        steps = np.minimum(steps, 0)
    if log.by is not None:
        series = _series(*_identifiers(columns[log.by], log.by), key_numbers(count.panel or ()))
    return _Rows(identifiers, nobody, steps, timeless, series)


def _causes(column: _Column, without: Mask | None, unread: Mask | None = None) -> list[Mask | None]:
    """Tell of rows without a value why: it is missing, cannot be read, or is of a type that is not known. Private.

    :param unread: rows whose text could not be read, if they were read before.
    """
    if without is None or not without.any():
        return [None, None, None]
    values, found = column.values, np.zeros(without.shape, dtype=np.int64)
    if unread is not None:
        found = np.where(unread, _UNREADABLE, _MISSING)
    elif column.kind == "f":
        found = np.where(np.isnan(values), _MISSING, _UNREADABLE)  # type: ignore[arg-type]
    elif column.kind and column.kind in "Oc":
        found[without] = list(map(_cause, values[without].tolist()))  # type: ignore[index]
    elif isinstance(values, Labels) or (column.kind and column.kind in "UST"):
        labels = values if isinstance(values, Labels) else _labels(column)
        found = np.array([*map(_cause, labels.names), _MISSING])[labels.codes]
    if column.missing is not None:
        found = np.where(column.missing, _MISSING, found)
    return [without & (found == cause) for cause in (_MISSING, _UNREADABLE, _UNKNOWN)]


def _cause(value: Any) -> int:
    """Why a cell has no time, or is nobody. No method of a type that is not known is called."""
    kind = type(value)
    if value is None or (kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in ("NAType", "NaTType")):
        return _MISSING
    with contextlib.suppress(Exception):
        if isinstance(value, str):
            return _UNREADABLE if str.__str__(value).strip() else _MISSING
        if isinstance(value, (np.datetime64, np.timedelta64)):
            return _MISSING if np.isnat(value) else _UNKNOWN
        if isinstance(value, numbers.Number) and not isinstance(value, (bool, np.bool_)):
            return _MISSING if value != value else _UNREADABLE
    return _UNKNOWN


def _identifiers(column: _Column, name: str, *, exact: bool = False) -> tuple[Who, Mask | None]:
    """Tell individuals (or series) apart; and say which rows have none.

    :param exact: whether text is itself, and never how a number is written.
    """
    if column.kind and column.kind in "iu":
        return cast(NDArray[Any], column.values), column.missing
    if column.kind == "f":
        return _of_floats(column)
    if isinstance(column.values, Labels):
        labels = column.values if exact else _canonical(column.values)
    elif column.kind and column.kind in "bcmMOUST":
        labels = _labels(column)
    else:
        raise TypeError(_IDENTIFIER.format(name=name, dtype=column.dtype))
    return labels, labels.codes < 0


def _of_floats(column: _Column) -> tuple[Who, Mask]:
    """Read whole numbers as integers, so that a missing identifier does not change how others are read."""
    values: Any = column.values
    missing = np.isnan(values) if column.missing is None else np.isnan(values) | column.missing
    with np.errstate(invalid="ignore"):
        whole = (np.trunc(values) == values) & (np.abs(values) < 2**63)
    if (whole | missing).all():
        return np.where(missing, 0, values).astype(np.int64), missing
    return _labels(column), missing


def _labels(column: _Column) -> Labels:
    """Label the cells of a column by their texts."""
    values: Any = column.values
    names = _Names()
    if column.kind == "O":
        objects, shared = _distinct_objects(values)
        codes = names.number(objects.tolist())
        codes = codes if shared is None else codes[shared]
    elif column.kind in "UT":
        codes = names.number(values.tolist() if column.kind != "U" else _known_text(values))
    else:
        known, inverse = np.unique(values, return_inverse=True)
        if column.kind == "M":
            texts = [instant_text(value, aware=column.aware) for value in known]
        else:  # of durations, the list would hold integers
            texts = list(map(identifier_text, known if column.kind == "m" else known.tolist()))
        codes = names.number(texts)[inverse]
    if column.missing is not None:
        codes = np.where(column.missing, -1, codes)
    return _canonical(names.labels(codes))


def _distinct_objects(objects: NDArray[Any]) -> tuple[NDArray[Any], Ints | None]:
    """Return each object once, and which one each cell holds, if many cells share theirs; else the cells, and None.

    It asks for addresses alone, as CPython's arrays of objects hold them: objects lie scattered in memory.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or objects.size <= _SAMPLE:
        return objects, None
    cells = np.ascontiguousarray(objects)
    addresses = np.ctypeslib.as_array((ctypes.c_ssize_t * cells.size).from_address(cells.ctypes.data))
    if np.unique(addresses[:_SAMPLE]).size > _SAMPLE / 2:
        return objects, None
    encoded = pyarrow.array(addresses).dictionary_encode()
    shared = encoded.indices.to_numpy()
    one_of_each = np.empty(len(encoded.dictionary), dtype=np.int64)
    one_of_each[shared] = np.arange(shared.size)
    return cells[one_of_each], shared


def _canonical(labels: Labels) -> Labels:
    """Make names one that say the same, such as ``17`` and ``17.0``."""
    texts = list(map(canonical_text, labels.names))
    if texts == labels.names:
        return labels
    merged: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    numbers = np.array([*map(merged.__getitem__, texts), -1], dtype=np.int64)
    return Labels(codes=numbers[labels.codes], names=list(merged))


def _known_text(array: NDArray[Any]) -> list[Any]:
    """Text of fixed width as strings; None for code points beyond Unicode, which would raise (they take a view)."""
    if array.dtype.itemsize:
        points = np.ascontiguousarray(array).view(np.uint32).reshape(array.size, array.dtype.itemsize // 4)
        beyond = points.max(axis=1, initial=0) > sys.maxunicode
        if beyond.any():
            array = np.where(beyond, "", array).astype(object)
            array[beyond] = None
    return list(array.tolist())


def _series(who: Who, nobody: Mask | None, places: Mapping[str, int]) -> Ints:
    """The number of every row's key, -1 for those that are not listed."""
    if isinstance(who, Labels):
        numbers = np.array([*(places.get(name, -1) for name in who.names), -1], dtype=np.int64)
        return numbers[who.codes]
    limits, known = np.iinfo(who.dtype), {}
    for text, place in places.items():
        with contextlib.suppress(ValueError):
            key = int(text)
            if str(key) == text and limits.min <= key <= limits.max:
                known[key] = place
    if not known:
        return np.full(who.shape, -1, dtype=np.int64)
    keys = np.array(sorted(known), dtype=who.dtype)
    numbers = np.array([known[key] for key in sorted(known)], dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, who), keys.size - 1)
    series = np.where(keys[at] == who, numbers[at], -1)
    return series if nobody is None else np.where(nobody, -1, series)


def _check_time(column: _Column, name: str) -> None:
    text = isinstance(column.values, Labels) and not str(column.dtype).startswith(("period", "interval"))
    if not text and (not column.kind or column.kind not in "iufcMOUST"):
        raise TypeError(_TIME.format(name=name, dtype=column.dtype))


def _steps(column: _Column, grid: TimeGrid) -> tuple[Ints, Mask | None]:
    """Place the times of a column on the grid; and say which rows have none."""
    values: Any = column.values
    timeless: Mask | None
    if isinstance(values, Labels) or column.kind in "UST":
        labels = values if isinstance(values, Labels) else _labels(column)
        by_name, without = steps_of_objects([*labels.names, None], grid)
        steps, timeless = by_name[labels.codes], without[labels.codes]
    elif column.kind == "O" or (column.kind == "c" and grid.is_integer):
        steps, timeless = steps_of_objects(values.tolist(), grid)
    elif column.kind == "f" and grid.is_integer:
        steps, timeless = steps_of_floats(values, grid)
    else:
        steps = grid.steps(values, aware=column.aware)
        timeless = np.isnat(values) if column.kind == "M" else None
    if column.missing is None:
        return steps, timeless
    return np.where(column.missing, -1, steps), column.missing if timeless is None else column.missing | timeless


class _Names:
    """Numbers names in order of appearance."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)

    def number(self, values: Sequence[Any]) -> Ints:
        """Number cells by their texts, -1 for those without. Text is looked up as it is: see :meth:`labels`."""
        if set(map(type, values)) <= {str}:
            return self._number_text(values)
        numbers, codes = self._numbers, np.full(len(values), -1, dtype=np.int64)
        text = np.fromiter((type(value) is str for value in values), np.bool_, len(values))
        codes[text] = self._number_text(list(itertools.compress(values, text)))
        others = map(identifier_text, itertools.compress(values, ~text))
        codes[~text] = np.fromiter((-1 if other is None else numbers[other] for other in others), np.int64)
        return codes

    def _number_text(self, values: Sequence[str]) -> Ints:
        pyarrow = sys.modules.get("pyarrow")
        if pyarrow is not None:  # it finds the distinct texts of many rows three times as fast
            with contextlib.suppress(UnicodeError):  # lone surrogates
                pieces = (values[start : start + _PIECE] for start in range(0, len(values), _PIECE))
                kind = pyarrow.large_string()
                column = pyarrow.chunked_array([pyarrow.array(piece, kind) for piece in pieces], kind)
                encoded = column.dictionary_encode().combine_chunks()
                distinct = encoded.dictionary.to_pylist()
                numbers = np.fromiter(map(self._numbers.__getitem__, distinct), np.int64, len(distinct))
                return cast(Ints, numbers[encoded.indices.to_numpy()])
        return np.fromiter(map(self._numbers.__getitem__, values), np.int64, len(values))

    def labels(self, codes: Ints) -> Labels:
        """Return the labels of rows, each text by itself: see :func:`_canonical`."""
        return Labels(codes=codes, names=list(self._numbers))


def _columns(table: Any, names: Sequence[str], *, schema_only: bool = False) -> list[_Column]:
    """Find the columns; of no rows, when only the schema is wanted."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    rows = slice(0, 0) if schema_only else slice(None)
    if isinstance(table, Mapping):
        aware = isinstance(table, UtcLog)
        return [_from_numpy(array[rows])._replace(aware=aware) for array in _arrays(table, names)]
    if pandas is not None and isinstance(table, pandas.DataFrame):
        _find(names, list(table.columns), index=table.index.names)
        return [_from_pandas(pandas, table[name].iloc[rows]) for name in names]
    if polars is not None and isinstance(table, (polars.DataFrame, polars.LazyFrame)):
        table = _polars_to_arrow(table, names, schema_only)
    elif hasattr(table, "__arrow_c_stream__"):
        table = _stream_to_arrow(table, names, schema_only)
    else:
        raise _not_known(table)
    return [_from_arrow(table.column(name)) for name in names]


def _not_known(table: Any) -> TypeError:
    return TypeError(
        f"a table of type {type(table).__name__} is not known; give a mapping of NumPy arrays, a data frame of"
        " pandas, Polars or PyArrow, a pyarrow.dataset.Dataset, or an Ibis table"
    )


def _find(names: Sequence[str], columns: Sequence[Any], index: Sequence[Any] = ()) -> None:
    for name in names:
        found = sum(isinstance(column, str) and column == name for column in columns)
        if found != 1:
            problem = "is missing" if found == 0 else f"is there {found} times"
            remedy = ", and the index of this name becomes a column by reset_index()" if name in index else ""
            raise ValueError(f"column {name!r} {problem}; the table has {list(columns)}{remedy}")


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


def _polars_to_arrow(frame: Any, names: Sequence[str], schema_only: bool) -> Any:
    _import_pyarrow()
    schema = frame.collect_schema()
    _find(names, list(schema))
    for name in names:  # before the export, as Polars aborts the process on some types
        if schema[name].base_type().__name__ not in _POLARS_TYPES:
            raise TypeError(_COLUMN.format(name=name, dtype=schema[name]))
    if schema_only:
        frame = frame.clear()
    polars = sys.modules["polars"]
    wide = [name for name in names if schema[name].base_type().__name__ in ("Int128", "UInt128")]
    return _quietly(
        lambda: frame.lazy().select(list(names)).with_columns(polars.col(wide).cast(polars.String)).collect().to_arrow()
    )


def _stream_to_arrow(table: Any, names: Sequence[str], schema_only: bool) -> Any:
    pyarrow = _import_pyarrow()
    if isinstance(table, pyarrow.RecordBatchReader):
        raise TypeError("a RecordBatchReader can be read only once; give a table, for instance by its read_all()")
    try:
        reader = pyarrow.RecordBatchReader.from_stream(table)
    except pyarrow.ArrowInvalid:  # it is one column
        raise _not_known(table) from None
    _find(names, reader.schema.names)
    if schema_only:
        return reader.schema.empty_table()
    schema = pyarrow.schema([reader.schema.field(name) for name in names])
    return _quietly(lambda: pyarrow.Table.from_batches((batch.select(list(names)) for batch in reader), schema))


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
    dtype = array.dtype
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        return _Column(dtype, None)  # of numbers that no other type holds; never the work of one row
    if dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    elif dtype.kind in "iucMU":
        array = array.astype(dtype.newbyteorder("="), copy=False)
    return _Column(dtype, array, missing)


def _from_pandas(pandas: Any, series: Any) -> _Column:
    dtype, array = series.dtype, series.array
    if isinstance(dtype, np.dtype):
        return _from_numpy(series.to_numpy())
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return _Column(dtype, series.dt.tz_convert(None).to_numpy(), aware=True)
    if isinstance(dtype, pandas.CategoricalDtype):
        return _from_categories(dtype, array)
    if isinstance(array, (pandas.arrays.IntegerArray, pandas.arrays.FloatingArray, pandas.arrays.BooleanArray)):
        return _Column(dtype, series.to_numpy(dtype=dtype.numpy_dtype, na_value=0), np.asarray(array.isna()))
    if isinstance(dtype, pandas.ArrowDtype) or "pyarrow" in getattr(dtype, "storage", ""):
        column = _from_arrow(_import_pyarrow().chunked_array(array.__arrow_array__()))
        return column._replace(dtype=dtype)
    if isinstance(dtype, pandas.StringDtype):
        return _Column(dtype, _labels_of(series.to_numpy(dtype=object).tolist()))
    if isinstance(dtype, (pandas.PeriodDtype, pandas.IntervalDtype)):
        return _Column(dtype, _labels_of(list(array)))
    return _Column(dtype, None)


def _labels_of(values: list[Any]) -> Labels:
    names = _Names()
    return names.labels(names.number(values))


def _from_categories(dtype: Any, array: Any) -> _Column:
    """Read a pandas column of categories; its code -1 is missing."""
    codes, categories = array.codes.astype(np.int64), array.categories
    if isinstance(categories.dtype, np.dtype) and categories.dtype.kind in "iu":
        padded = np.concatenate([categories.to_numpy(), np.zeros(1, categories.dtype)])
        return _Column(dtype, padded[codes], codes < 0)
    names = _Names()
    codes = _renumber(codes, len(categories), lambda used: names.number(categories.take(used).tolist()))
    return _Column(dtype, names.labels(codes))


def _from_arrow(column: Any) -> _Column:
    pyarrow = _import_pyarrow()
    dtype, types = column.type, pyarrow.types
    is_dictionary = types.is_dictionary(dtype)
    if _is_arrow_text(pyarrow, dtype.value_type if is_dictionary else dtype):
        return _Column(dtype, _arrow_labels(column if is_dictionary else column.dictionary_encode()))
    if is_dictionary and types.is_primitive(dtype.value_type):
        return _from_arrow(column.cast(dtype.value_type))._replace(dtype=dtype)
    if types.is_integer(dtype):
        return _Column(dtype, column.fill_null(0).to_numpy(), column.is_null().to_numpy())
    if types.is_floating(dtype):
        return _Column(dtype, column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy())
    if types.is_boolean(dtype):
        return _Column(dtype, column.fill_null(False).to_numpy(), column.is_null().to_numpy())
    if types.is_timestamp(dtype) or types.is_date(dtype):
        unit = dtype.unit if types.is_timestamp(dtype) else "D" if dtype == pyarrow.date32() else "ms"
        ticks = column.cast(pyarrow.int32()) if dtype == pyarrow.date32() else column
        ticks = ticks.cast(pyarrow.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        return _Column(dtype, ticks.view(f"datetime64[{unit}]"), aware=getattr(dtype, "tz", None) is not None)
    if types.is_duration(dtype):
        ticks = column.cast(pyarrow.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
        return _Column(dtype, ticks.view(f"timedelta64[{dtype.unit}]"))
    if types.is_decimal(dtype) or types.is_null(dtype) or getattr(dtype, "extension_name", "") == "arrow.uuid":
        objects = np.empty(len(column), dtype=object)
        objects[:] = column.to_pylist()
        return _Column(dtype, objects)
    return _Column(dtype, None)


def _is_arrow_text(pyarrow: Any, dtype: Any) -> bool:
    """Whether this is text or bytes, of a type that this version of PyArrow converts (old ones leave out views)."""
    if str(dtype) not in ("string", "large_string", "string_view", "binary", "large_binary"):
        return False
    try:
        pyarrow.nulls(0, dtype).cast("large_binary")
    except NotImplementedError:
        return False
    return True


def _arrow_labels(column: Any) -> Labels:
    """Label a dictionary column, whose chunks may have dictionaries of their own, with repeats and nulls."""
    names = _Names()
    pieces = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        indices = chunk.indices.cast("int64").fill_null(-1).to_numpy()
        pieces.append(_renumber(indices, len(chunk.dictionary), partial(_number_arrow, chunk.dictionary, names)))
    return names.labels(np.concatenate(pieces))


def _number_arrow(dictionary: Any, names: _Names, used: Ints) -> Ints:
    """Number entries of an Arrow dictionary, also where they are not UTF-8, which Arrow does not check."""
    values = dictionary.cast("large_binary").take(used).to_pylist()
    return names.number([None if value is None else value.decode("utf-8", "surrogateescape") for value in values])


def _renumber(codes: Ints, size: int, number: Callable[[Ints], Ints]) -> Ints:
    """Replace codes by the numbers of their categories, -1 for -1. Only categories in use are asked for."""
    seen = np.zeros(size + 1, dtype=np.bool_)
    seen[codes] = True
    used = np.flatnonzero(seen[:size])
    numbers = np.zeros(size + 1, dtype=np.int64)  # the last entry is that of code -1
    numbers[used] = number(used) + 1
    return numbers[codes] - 1
