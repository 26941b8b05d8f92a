"""Reading event logs in memory: the only file that knows what kinds of table there are.

Columns arrive as NumPy arrays or, from libraries that have it, as Arrow. Whatever types a library inferred, each cell
is read by itself: its identifier by :mod:`~opendp_timeseries.counting.identifiers`, its time by the grid. A table is
refused by the names and types of its columns, where those cannot be the work of one row, never by a value. pandas,
Polars and PyArrow are looked at only when their tables arrive.
"""

import contextlib
import itertools
import numbers
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.counting.amounts import amount_of, amounts_of
from opendp_timeseries.counting.identifiers import (
    Labels,
    canonical_text,
    check_spelling,
    identifier_text,
    instant_text,
    key_numbers,
    whole_number,
)
from opendp_timeseries.counting.texts import Texts
from opendp_timeseries.counting.times import Steps, steps_of_objects
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.grid import TimeGrid

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: What a column of another type is not, and what to do.
_IDENTIFIER: Final = "cannot identify individuals", "convert it to integers or text"
_TIME: Final = (
    "does not hold times",
    "convert it to datetime64 (in pandas: pd.to_datetime) or, for a grid of integer steps, to integers",
)
_VALUE: Final = "does not hold numbers", "convert it to whole units, such as minutes"
_COLUMN: Final = "is neither an identifier nor a time", "convert it to integers, text or datetimes"
_TABLE: Final = (
    "is not known",
    "give a mapping of NumPy arrays, a data frame of pandas, Polars or PyArrow, a pyarrow.dataset.Dataset, or an Ibis"
    " table",
)
_POLARS_TYPES: Final = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128)}
    | {"Float32", "Float64", "Decimal", "Boolean", "Null", "String", "Categorical", "Enum", "Binary"}
    | {"Date", "Datetime", "Duration"}
)
_ARROW_TEXT: Final = frozenset({"string", "large_string", "string_view", "binary", "large_binary"})
_MISSING, _UNREADABLE, _UNKNOWN = 1, 2, 3

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Who = NDArray[np.integer] | Labels  # integers of any width, or text


class Tally(NamedTuple):
    """Numbers of a log's rows by what became of them: every row is in one, the first that holds. Private."""

    rows: int
    missing_identifier: int
    unknown_identifier: int  # of a type that is not known
    missing_time: int
    unreadable_time: int  # a text that is no time, or a number that is no step
    unknown_time: int  # of a type that is not known
    off_grid: int
    unknown_key: int
    no_value: int = 0  # or one that is rounded to 0, or to less

    @property
    def counted(self) -> int:
        """Rows of somebody, on the grid, and of a listed key."""
        return self.rows - sum(self[1:])


class Column(NamedTuple):
    """A column in NumPy's terms: an array of numbers or times, or cells of which each is read by itself."""

    dtype: object  # as its owner calls it, for messages
    values: NDArray[Any] | None = None
    cells: Sequence[object] | None = None
    codes: Ints | None = None  # of the cells that rows have, -1 for none; None where each has its own
    missing: Mask | None = None
    aware: bool = False  # whether times are instants in UTC, rather than on a clock that the table does not name
    unread: Mask | None = None  # which rows had a text that is no time, where times were read from text

    @property
    def kind(self) -> str:
        """NumPy's letter for the type; ``?`` for one that nothing here reads."""
        return "O" if self.cells is not None else "?" if self.values is None else self.values.dtype.kind

    @property
    def holds(self) -> str:
        """The kind, and of cells what their type says, if it says more."""
        text = str(self.dtype)
        return "f" if text.startswith("decimal") else "uuid" if "arrow.uuid" in text else self.kind

    @property
    def is_of_spans(self) -> bool:
        """Return whether cells are spans of time or numbers, as of pandas."""
        return str(self.dtype).startswith(("period", "interval"))

    def without(self, rows: int) -> Mask:
        """Return which cells of a column of so many rows are missing."""
        return np.zeros(rows, np.bool_) if self.missing is None else self.missing

    def without_rows(self) -> "Column":
        """Return a column of the same type that has no rows."""
        values = None if self.values is None else self.values[:0]
        return Column(self.dtype, values, None if self.cells is None else [], aware=self.aware)


class Log(dict[str, Column]):
    """A log whose columns have been read already, and are not checked again."""

    #: The tally of all rows, if this log holds only some of them.
    tally: Tally | None = None
    #: What its reader has to say of all rows. Private.
    notes: Sequence[str] = ()


def log_in_utc(table: Mapping[str, NDArray[np.generic]]) -> Log:
    """Return a log of arrays whose ``datetime64`` are instants in UTC, on whatever clock a grid is."""
    return Log({name: _from_numpy(array)._replace(aware=True) for name, array in table.items()})


class Rows(NamedTuple):
    """Individual and position of every row of a log."""

    columns: list[Column]
    reading: Reading
    who: Who
    nobody: Mask  # rows without an identifier
    steps: Ints  # -1 off the grid or without a time
    timeless: Mask
    series: Ints | None  # the number of the key, -1 for one that is not listed
    amounts: Ints | None = None  # how much, up to the bound, where values are added up

    @property
    def positions(self) -> Ints:
        """Return where in the (panel of) series each row counts; -1 for rows that are nowhere, or of no value."""
        return self.places if self.amounts is None else np.where(self.amounts > 0, self.places, -1)

    @property
    def places(self) -> Ints:
        """Return where in the (panel of) series each row is, whatever its value; -1 for rows that are nowhere."""
        positions = self.steps
        if self.series is not None:
            on_grid = (positions >= 0) & (self.series >= 0)
            positions = np.where(on_grid, self.series * self.reading.grid.size + positions, -1)
        return np.where(self.nobody, -1, positions) if self.nobody.any() else positions

    @property
    def tally(self) -> Tally:
        """Return how many rows count, and why others do not."""
        nowhere = np.zeros(self.steps.shape, np.bool_)
        missing, _, unknown = _causes(self.columns[0], self.nobody)
        times = [nowhere] * 3 if self.reading.log.time is None else _causes(self.columns[1], self.timeless)
        lost = []
        unlisted = nowhere if self.series is None else self.series < 0
        worthless = nowhere if self.amounts is None else self.amounts <= 0
        for mask in (missing, unknown, *times, self.steps < 0, unlisted, worthless):
            lost.append(int(np.count_nonzero(mask & ~nowhere)))
            nowhere = nowhere | mask
        return Tally(nowhere.size, *lost)


def read_positions(table: object, reading: Reading) -> tuple[Who, Ints]:
    """Read who and where in the (panel of) series, for every row; -1 for rows that are nowhere.

    Tables are mappings of equally long one-dimensional NumPy arrays, pandas data frames, Polars data and
    lazy frames, PyArrow tables, and what else exports an Arrow stream (``__arrow_c_stream__``) repeatedly.

    Identifiers and keys are told apart by their text, in columns of numbers, text, bytes, truth values, dates,
    datetimes and objects, also nullable, masked or as categories. Times are ``datetime64`` and its like, dates (at
    midnight) or, on a grid of integer steps, numbers; in columns of objects, each cell is read by its own type.

    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.

    >>> from opendp_timeseries.design.reading import Source
    >>> log = {"who": np.array(["ann", "bob", "ann"]), "when": np.array([0, 1, 9])}
    >>> reading = Reading(source=Source(identifier="who", time="when"), grid=TimeGrid(size=3))
    >>> who, positions = read_positions(log, reading)
    >>> who.codes, list(who.names), positions
    (array([0, 1, 0]), ['ann', 'bob'], array([ 0,  1, -1]))
    """
    rows = read(table, reading)
    return rows.who, rows.positions


def read(table: object, reading: Reading) -> Rows:
    """Read a table as :func:`read_positions` does."""
    return _rows(_columns(table, reading.log.columns), reading)


def _rows(columns: list[Column], reading: Reading) -> Rows:
    """Read the columns of a log."""
    log, series = reading.log, None
    values = None if log.value is None else columns[-1]
    keys = columns[-1] if values is None else columns[-2]
    if log.by is not None:
        check_spelling(reading.panel or (), keys.holds, log.by, keys.dtype)
    who, nobody = _identifiers(columns[0], log.identifier, exact=log.exact)
    steps, timeless = np.zeros(nobody.size, np.int64), np.zeros(nobody.size, np.bool_)
    if log.time is not None:
        steps, timeless = _steps(columns[1], log.time, reading.row_grid)
    if reading.once_over is not None:
        steps = np.minimum(steps, 0)
    if log.by is not None:
        series = _series(*_identifiers(keys, log.by), key_numbers(reading.panel or ()))
    amounts = None if values is None else _amounts(values, str(log.value), reading.step_cap)
    return Rows(columns, reading, who, nobody, steps, timeless, series, amounts)


def tally(table: object, reading: Reading) -> Tally:
    """Say where the rows of a table go. Private; errors as of :func:`read_positions`."""
    of_log = table.tally if isinstance(table, Log) else None
    return read(table, reading).tally if of_log is None else of_log


def check_schema(table: object, *, identifier: str, time: str) -> None:
    """Refuse a table that :func:`read_positions` refuses on every grid, without reading its rows."""
    who, when = _columns(table, [identifier, time], schema_only=True)
    if not isinstance(table, Log):  # which was read into columns that serve
        _identifiers(who, identifier)
        _check_time(when, time)


def check_reading(table: object, reading: Reading) -> None:
    """Refuse a table that :func:`read` refuses, by its columns alone, without reading its rows."""
    _rows(_columns(table, reading.log.columns, schema_only=True), reading)


def _causes(column: Column, without: Mask) -> list[Mask]:
    """Tell of rows without a value why: it is missing, cannot be read, or is of a type that is not known. Private."""
    rows, kinds = np.flatnonzero(without), np.zeros(without.size, dtype=np.int8)
    if column.unread is not None:
        kinds[rows] = np.where(column.unread[rows], _UNREADABLE, _MISSING)
    elif column.cells is None:
        kinds[rows] = list(map(_cause, column.values[rows].tolist()))  # type: ignore[index]
    else:
        cells, which = np.unique(rows if column.codes is None else column.codes[rows], return_inverse=True)
        causes = [_MISSING if cell < 0 else _cause(column.cells[cell]) for cell in cells.tolist()]
        kinds[rows] = np.array(causes, dtype=np.int8)[which]
    if column.missing is not None:
        kinds[column.missing] = _MISSING
    return [kinds == cause for cause in (_MISSING, _UNREADABLE, _UNKNOWN)]


def _cause(value: object) -> int:
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


def _identifiers(column: Column, name: str, *, exact: bool = False) -> tuple[Who, Mask]:
    """Tell individuals (or series) apart; and say which rows have none.

    :param exact: whether text is itself, and never how a number is written.
    """
    values: Any = column.values
    if column.kind in "iu":
        return values, column.without(values.size)
    if column.kind == "f":  # whole numbers are integers, so that a missing one does not change how others are read
        missing = np.isnan(values) | column.without(values.size)
        if (missing | (_is_integral(values) & (np.abs(values) < 2**63))).all():
            return np.where(missing, 0, values).astype(np.int64), missing
    if column.kind not in "bcfmMO":
        raise TypeRefusal(f"column {name!r} of type {column.dtype}", ..., *_IDENTIFIER)
    cells, codes = column.cells, column.codes
    if cells is None:
        distinct, codes = np.unique(values, return_inverse=True)
        cells = (
            [instant_text(value, aware=column.aware) for value in distinct] if column.kind == "M" else list(distinct)
        )
    labels = _labels(cells, codes, exact=exact)
    missing = column.without(labels.codes.size) | (labels.codes < 0)
    return labels._replace(codes=np.where(missing, -1, labels.codes)), missing


def _is_integral(values: NDArray[Any]) -> Mask:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.trunc(values) == values)


def _labels(cells: Sequence[object], codes: Ints | None, *, exact: bool) -> Labels:
    """Label rows by the texts of their cells; what is done with a text is done once for each that is there."""
    texts = cast(Sequence[str | None], cells)
    if not isinstance(cells, Texts) and not set(map(type, cells)) <= {str, type(None)}:
        texts = [cell if type(cell) is str else identifier_text(cell) for cell in cells]
    if codes is None:
        texts, codes = _distinct_texts(texts)
    if isinstance(texts, Texts) and not texts.special().size:
        return Labels(codes=codes, names=texts)
    if not exact:
        texts = _canonical(texts)
    names = dict.fromkeys(filter(None, texts))
    if len(names) < len(texts):  # some are missing, or say the same, such as ``17`` and ``17.0``
        numbers = {text: number for number, text in enumerate(names)} | {None: -1, "": -1}
        codes = np.fromiter(map(numbers.__getitem__, (*texts, None)), np.int64, len(texts) + 1)[codes]
    return Labels(codes=codes, names=list(names))


def _distinct_texts(texts: Sequence[str | None]) -> tuple[Sequence[str | None], Ints]:
    """The distinct texts of rows, and the codes of these; None, too, is a text or has the code -1."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:  # twice as fast
        with contextlib.suppress(UnicodeError):  # lone surrogates
            return _by_dictionary(pyarrow.chunked_array([pyarrow.array(texts, pyarrow.large_string())]))
    numbers: defaultdict[str | None, int] = defaultdict(itertools.count().__next__)
    codes = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
    return list(numbers), codes


def _canonical(texts: Sequence[str | None]) -> Sequence[str | None]:
    lines = "\n".join(filter(None, texts)) + "\n"
    if ".0\n" not in lines and "e+" not in lines:  # none is how Python writes a whole floating-point number
        return texts
    return [text and canonical_text(text) for text in texts]


def _series(who: Who, nobody: Mask, places: Mapping[str, int]) -> Ints:
    """The number of every row's key, -1 for those that are not listed."""
    if isinstance(who, Labels):
        return np.array([*(places.get(name, -1) for name in who.names), -1], dtype=np.int64)[who.codes]
    limits = np.iinfo(who.dtype)
    pairs = sorted(
        (key, place)
        for text, place in places.items()
        if (key := whole_number(text)) is not None and str(key) == text and limits.min <= key <= limits.max
    )
    if not pairs:
        return np.full(who.shape, -1, dtype=np.int64)
    keys, numbers = np.array([key for key, _ in pairs], who.dtype), np.array([place for _, place in pairs])
    at = np.minimum(np.searchsorted(keys, who), keys.size - 1)
    return np.where((keys[at] == who) & ~nobody, numbers[at], -1)


def _check_time(column: Column, name: str) -> None:
    if column.kind not in "iufcMO" or column.is_of_spans:
        raise TypeRefusal(f"column {name!r} of type {column.dtype}", ..., *_TIME)


def _steps(column: Column, name: str, grid: TimeGrid) -> Steps:
    """Place the times of a column on the grid; and say which rows have none."""
    _check_time(column, name)
    values: Any = column.values
    if column.cells is not None or (column.kind == "c" and grid.is_integer):
        steps, timeless = steps_of_objects([*(values.tolist() if column.cells is None else column.cells), None], grid)
        rows = slice(-1) if column.codes is None else column.codes
        steps, timeless = steps[rows], timeless[rows]
    elif column.kind == "f" and grid.is_integer:  # one missing step makes it so of integers in pandas
        timeless = ~_is_integral(values)
        steps = np.where(timeless | (values < 0) | (values >= grid.size), -1.0, values).astype(np.int64)
    else:
        steps = grid.steps(values, aware=column.aware)
        timeless = np.isnat(values) if column.kind == "M" else np.zeros(values.shape, np.bool_)
    if column.missing is None:
        return steps, timeless
    return np.where(column.missing, -1, steps), column.missing | timeless


def _amounts(column: Column, name: str, bound: int) -> Ints:
    """Return how much each row adds, from 0 to the bound."""
    if column.kind not in "biufcO" or column.is_of_spans:
        raise TypeRefusal(f"column {name!r} of type {column.dtype}", ..., *_VALUE)
    if column.cells is None:
        amounts = amounts_of(cast(NDArray[Any], column.values), bound)
    else:
        by_cell = np.fromiter(
            (amount_of(cell, bound) for cell in (*column.cells, None)), np.int64, len(column.cells) + 1
        )
        amounts = by_cell[:-1] if column.codes is None else by_cell[column.codes]
    return amounts if column.missing is None else np.where(column.missing, 0, amounts)


def _in_use(codes: Ints, size: int) -> tuple[Ints, Ints]:
    """The categories that are in use, and the codes of rows among these; -1 stays."""
    used = np.zeros(size + 1, dtype=np.bool_)
    used[codes] = True
    used[size] = False
    return np.flatnonzero(used), np.where(used, np.cumsum(used) - 1, -1)[codes]


def _by_dictionary(column: "pyarrow.ChunkedArray") -> tuple[Texts, Ints]:
    """The texts of an Arrow column of text or bytes, or of a dictionary of them, and the codes of its rows."""
    pyarrow = sys.modules["pyarrow"]
    given = pyarrow.types.is_dictionary(column.type)
    try:
        if not given:
            if pyarrow.types.is_string_view(column.type):  # whose rows may share bytes, so that its size is not theirs
                column = column.cast("large_binary")
            column = column.cast("binary" if column.nbytes < 2**31 else "large_binary").dictionary_encode()
        array = column.combine_chunks()
    except pyarrow.ArrowInvalid:  # chunks have dictionaries that cannot be made one
        return _by_dictionary(column.cast(column.type.value_type))
    texts = array.dictionary
    if given and (texts.null_count or len(texts.unique()) < len(texts)):
        return _by_dictionary(column.cast(column.type.value_type))
    used, codes = _in_use(array.indices.cast("int64").fill_null(-1).to_numpy(), len(texts))
    return Texts(texts.cast("large_binary").take(used)), codes


def _columns(table: object, names: Sequence[str], *, schema_only: bool = False) -> list[Column]:
    """Find the columns; of no rows, when only the schema is wanted."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    rows = slice(0, 0) if schema_only else slice(None)
    if isinstance(table, Log):
        _find(names, list(table))
        return [table[name].without_rows() if schema_only else table[name] for name in names]
    if isinstance(table, Mapping):
        return [_from_numpy(array[rows]) for array in _arrays(table, names)]
    if pandas is not None and isinstance(table, pandas.DataFrame):
        _find(names, list(table.columns), index=table.index.names)
        return [_from_pandas(pandas, table[name].iloc[rows]) for name in names]
    if polars is not None and isinstance(table, (polars.DataFrame, polars.LazyFrame)):
        arrow = _polars_to_arrow(table, names, schema_only)
    elif hasattr(table, "__arrow_c_stream__"):
        arrow = _stream_to_arrow(table, names, schema_only)
    else:
        raise TypeRefusal(f"a table of type {type(table).__name__}", ..., *_TABLE)
    return [_from_arrow(arrow.column(name)) for name in names]


def _find(names: Sequence[str], columns: Sequence[object], index: Sequence[object] = ()) -> None:
    for name in names:
        number = sum(isinstance(column, str) and column == name for column in columns)
        if number != 1:
            rule = "is missing" if number == 0 else f"is there {number} times"
            remedy = ", and the index of this name becomes a column by reset_index()" if name in index else ""
            raise Refusal(f"column {name!r}", ..., rule, f"the table has {list(columns)}{remedy}")


def _arrays(table: Mapping[object, object], names: Sequence[str]) -> list[NDArray[np.generic]]:
    """The columns of a mapping."""
    _find(names, list(table))
    arrays: list[NDArray[np.generic]] = []
    for name in names:
        array = table[name]
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            raise TypeRefusal(
                f"column {name!r} of type {type(array).__name__}",
                ...,
                "must be a one-dimensional NumPy array",
                "convert it with numpy.asarray, or give a data frame",
            )
        arrays.append(array)
    if len({array.size for array in arrays}) > 1:
        raise Refusal(f"columns {', '.join(map(repr, names))}", ..., "must be equally long")
    return arrays


def _polars_to_arrow(
    frame: "polars.DataFrame | polars.LazyFrame", names: Sequence[str], schema_only: bool
) -> "pyarrow.Table":
    _import_pyarrow()
    schema, polars = frame.collect_schema(), sys.modules["polars"]
    _find(names, list(schema))
    kinds = {name: schema[name].base_type().__name__ for name in names}
    for name, kind in kinds.items():  # before the export, as Polars aborts the process on some types
        if kind not in _POLARS_TYPES:
            raise TypeRefusal(f"column {name!r} of type {schema[name]}", ..., *_COLUMN)
    wide = [name for name, kind in kinds.items() if kind.endswith("128")]
    columns = (frame.clear() if schema_only else frame).lazy().select(list(names))
    return _quietly(lambda: columns.with_columns(polars.col(wide).cast(polars.String)).collect().to_arrow())


def _stream_to_arrow(table: object, names: Sequence[str], schema_only: bool) -> "pyarrow.Table":
    pyarrow = _import_pyarrow()
    if isinstance(table, pyarrow.RecordBatchReader):
        raise TypeRefusal("a RecordBatchReader", ..., "can be read only once", "give a table, as by its read_all()")
    try:
        reader = pyarrow.RecordBatchReader.from_stream(table)
    except pyarrow.ArrowInvalid:  # it is one column
        raise TypeRefusal(f"a table of type {type(table).__name__}", ..., *_TABLE) from None
    _find(names, reader.schema.names)
    if schema_only:
        return reader.schema.empty_table()
    schema = pyarrow.schema([reader.schema.field(name) for name in names])
    return _quietly(lambda: pyarrow.Table.from_batches((batch.select(list(names)) for batch in reader), schema))


def _quietly(read: Callable[[], "pyarrow.Table"]) -> "pyarrow.Table":
    """Read rows that their owner computes only now, and whose failure may quote them.

    :raises TypeError: with one fixed message, whatever failed.
    """
    with contextlib.suppress(Exception):
        return read()
    # Outside of any handler, so that nothing of what failed is attached.
    raise TypeRefusal("the table", ..., "could not be read: its own query or stream failed", "collect it first")


def _import_pyarrow() -> ModuleType:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise TypeRefusal(
            "reading this kind of table", ..., "takes PyArrow", "install opendp_timeseries[tables]"
        ) from None
    return sys.modules["pyarrow"]


def _from_numpy(array: NDArray[np.generic]) -> Column:
    missing = None
    if isinstance(array, np.ma.MaskedArray):
        array, missing = array.data, np.ma.getmaskarray(array)
    dtype, kind = array.dtype, array.dtype.kind
    if kind in "fc" and dtype.itemsize > (8 if kind == "f" else 16):
        return Column(dtype)  # of numbers that no other type holds; never the work of one row
    if kind in "OUST":
        cells: list[object] = [*_text_cells(array)] if kind == "U" else array.tolist()
        if kind == "S":
            cells = [cell.decode("utf-8", "surrogateescape") for cell in cast(list[bytes], cells)]
        return Column(dtype, cells=cells, missing=missing)
    if kind == "f":
        with np.errstate(invalid="ignore"):  # one NaN may be signalling
            array = array.astype(np.float64, copy=False)
    elif kind in "iucM":
        array = array.astype(dtype.newbyteorder("="), copy=False)
    return Column(dtype, array, missing=missing)


def _text_cells(array: NDArray[np.generic]) -> list[str | None]:
    """Text of fixed width as strings; None for code points beyond Unicode, which would raise (they take a view)."""
    width = max(array.dtype.itemsize // 4, 1)
    text: NDArray[Any] = np.ascontiguousarray(array, dtype=f"U{width}")
    beyond = (text.view(np.uint32).reshape(text.size, width) > sys.maxunicode).any(axis=1)
    if beyond.any():
        text = np.where(beyond, "", text).astype(object)
        text[beyond] = None
    return list(text.tolist())


def _from_pandas(pandas: ModuleType, series: "pandas.Series") -> Column:
    dtype, array, arrays = series.dtype, series.array, pandas.arrays
    if isinstance(dtype, np.dtype):
        return _from_numpy(series.to_numpy())
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return Column(dtype, series.dt.tz_convert(None).to_numpy(), aware=True)
    if isinstance(dtype, pandas.CategoricalDtype):
        used, codes = _in_use(array.codes.astype(np.int64), len(array.categories))
        return Column(dtype, cells=array.categories.take(used).tolist(), codes=codes)
    if isinstance(array, (arrays.IntegerArray, arrays.FloatingArray, arrays.BooleanArray)):
        return Column(dtype, series.to_numpy(dtype=dtype.numpy_dtype, na_value=0), missing=np.asarray(array.isna()))
    if isinstance(dtype, pandas.ArrowDtype) or "pyarrow" in getattr(dtype, "storage", ""):
        return _from_arrow(_import_pyarrow().chunked_array(array.__arrow_array__()))._replace(dtype=dtype)
    if isinstance(dtype, (pandas.StringDtype, pandas.PeriodDtype, pandas.IntervalDtype)):
        return Column(dtype, cells=array.astype(object).tolist())
    return Column(dtype)


def _from_arrow(column: "pyarrow.ChunkedArray") -> Column:
    pyarrow = _import_pyarrow()
    dtype, types = column.type, pyarrow.types
    value_type = dtype.value_type if types.is_dictionary(dtype) else dtype
    if str(value_type) in _ARROW_TEXT:
        with contextlib.suppress(NotImplementedError):  # older versions of PyArrow do not convert views
            cells, codes = _by_dictionary(column)
            return Column(dtype, cells=cells, codes=codes)
    if value_type is not dtype and types.is_primitive(value_type):
        return _from_arrow(column.cast(value_type))._replace(dtype=dtype)
    if types.is_integer(dtype) or types.is_boolean(dtype):
        missing = column.is_null().to_numpy() if column.null_count else None
        return Column(dtype, column.fill_null(pyarrow.scalar(0).cast(dtype)).to_numpy(), missing=missing)
    if types.is_floating(dtype):
        return Column(dtype, column.cast(pyarrow.float64()).to_numpy())
    if types.is_timestamp(dtype) or types.is_date(dtype) or types.is_duration(dtype):
        return Column(dtype, column.to_numpy(), aware=getattr(dtype, "tz", None) is not None)
    if types.is_decimal(dtype) or types.is_null(dtype) or getattr(dtype, "extension_name", "") == "arrow.uuid":
        return Column(dtype, cells=column.to_pylist())
    return Column(dtype)
