"""The capped count of files that are read batch by batch, and held as 8 bytes a row.

A log is a ``pyarrow.dataset.Dataset``, such as ``pyarrow.dataset.dataset("log.parquet")``: one file or a folder of
them, read anew for every release. Every batch becomes packed rows at once
(:mod:`opendp_timeseries.counting.capped_count`), so the counts are those of the same log in memory.

Files of one log may differ in their types, which are public: times are read by the type of their own file, and
identifiers and keys by one type that holds all, or refused by the name of the file.
"""

from collections.abc import Iterator
from typing import Final, TypedDict

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import dataset

from opendp_timeseries.counting import tables
from opendp_timeseries.counting.batches import sorted_rows
from opendp_timeseries.counting.capped_count import SortedRows
from opendp_timeseries.counting.progress import report
from opendp_timeseries.counting.tables import Tally, read
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading

Ints = NDArray[np.int64]

_MICROSECONDS: Final = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
_BATCH: Final = 2**21  # rows that are read at a time, so that few names are met anew
_NO_THREAD: Final = "Failed to launch worker thread"  # as Arrow says it


def count(table: dataset.Dataset, count: Count, key: bytes) -> Ints:
    """Count as :class:`~.engines.Engine` says."""
    return _sorted_rows(table, count.reading).capped_count(count, key)


def participation(table: dataset.Dataset, reading: Reading) -> Ints:
    """Return in how many steps each individual takes part. Private."""
    return _sorted_rows(table, reading).participation()


def tally(table: dataset.Dataset, reading: Reading) -> Tally:
    """Say where the rows go. Private."""
    batches = (read(batch, reading).tally for batch in _batches(table, reading))
    return Tally(*map(sum, zip(*batches, strict=True)))


def check_schema(table: dataset.Dataset, *, identifier: str, time: str) -> None:
    """Refuse a dataset by the names and types of its columns."""
    tables.check_schema(table.schema.empty_table(), identifier=identifier, time=time)


def check_reading(table: dataset.Dataset, reading: Reading) -> None:
    """Refuse a dataset that cannot be read so, by the names and types of its columns."""
    tables.check_reading(table.schema.empty_table(), reading)


def _sorted_rows(table: dataset.Dataset, reading: Reading) -> SortedRows:
    return sorted_rows((read(batch, reading) for batch in _batches(table, reading)), reading)


def _batches(table: dataset.Dataset, reading: Reading) -> Iterator[pyarrow.Table]:
    """Read the columns of the log, a small table at a time; the first without rows, so that they are refused first."""
    yield table.schema.empty_table()
    # Arrow waits for ever for a thread that could not start, as where memory ends; and decoding takes the least time.
    options: dict[str, object] = {"columns": reading.log.columns, "batch_size": _BATCH, "use_threads": False}
    if isinstance(getattr(table, "format", None), dataset.ParquetFileFormat):
        # By default PyArrow reads ahead a whole file, to save round trips.
        options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(pre_buffer=False)
    try:
        files = _files(table, reading)
        for _, declared in files:
            yield declared.get("schema", table.schema).empty_table()
        done, rows = 0, sum(log.metadata.num_rows for log, _ in files if hasattr(log, "metadata"))
        for log, declared in files:
            scanned = log.scanner(**options, **declared).to_batches()
            while batches := _some(scanned):
                yield (some := pyarrow.Table.from_batches(batches))
                done += some.num_rows
                report(done, rows)
        return
    except _RefusedError:
        raise
    except Exception as error:  # the words of a reader may quote a row: they are not passed on
        problem: Exception = RuntimeError(
            "the log could not be read to its end; check that its files are whole, and that memory suffices"
        )
        if isinstance(error, MemoryError) or _NO_THREAD in str(error):
            problem = MemoryError("memory was exhausted while the log was read")
    raise problem


def _some(scanned: Iterator[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
    """Take batches until there are many rows, as some files hold many small ones."""
    batches, rows = [], 0
    for batch in scanned:
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH:
            break
    return batches


class _Declared(TypedDict, total=False):
    """Options of a scan that is not by the schema of the file itself."""

    schema: pyarrow.Schema


class _RefusedError(TypeError):
    """A log that is refused by the schemas of its files alone, which are public."""


def _files(table: dataset.Dataset, reading: Reading) -> list[tuple[dataset.Dataset | dataset.Fragment, _Declared]]:
    """Return what is scanned, and by which schema: each file of a type that has one, or all at once.

    :raises _RefusedError: for a file whose identifiers or keys no one type holds, naming it.
    """
    if not isinstance(getattr(table, "format", None), (dataset.ParquetFileFormat, dataset.IpcFileFormat)):
        return [(table, {})]  # of a text file a schema is a matter of its rows
    try:
        fragments = list(table.get_fragments())
    except ValueError:  # it is filtered, and can only be scanned at once
        _check_alike(table, reading)
        return [(table, {})]
    schema = table.schema
    for fragment in fragments:
        file_schema = fragment.physical_schema
        for name in filter(None, (reading.log.identifier, reading.log.by)):
            if name in file_schema.names:
                place = schema.get_field_index(name)
                kind = _wider(schema.field(place).type, file_schema.field(name).type)
                if kind is None:
                    raise _RefusedError(
                        f"column {name!r} is of type {file_schema.field(name).type} in {fragment.path} and of type"
                        f" {schema.field(place).type} in other files of the log; write all of them with one type"
                    )
                schema = schema.set(place, schema.field(place).with_type(kind))
    own_types = [] if reading.log.value is None else [reading.log.value]  # of which each is read cell by cell
    if reading.log.time is not None and not _declared(table, fragments, reading.log.time):
        fragments = [_in_range(fragment, reading.log.time) for fragment in fragments]
        own_types.append(reading.log.time)
    return [
        (fragment, {"schema": _with_own_types(schema, fragment.physical_schema, own_types)}) for fragment in fragments
    ]


def _with_own_types(schema: pyarrow.Schema, file_schema: pyarrow.Schema, names: list[str]) -> pyarrow.Schema:
    """Return a schema in which some columns are of the type that a file has for them."""
    for name in set(names) & set(file_schema.names):
        schema = schema.set(schema.get_field_index(name), file_schema.field(name))
    return schema


def _check_alike(table: dataset.FileSystemDataset, reading: Reading) -> None:
    """Refuse files that differ in the type of a column that is read, naming one.

    :raises _RefusedError: for these.
    """
    files = dataset.dataset(table.files, filesystem=table.filesystem, format=table.format).get_fragments()
    kinds: dict[str, object] = {}
    for file in files:
        if _wraps(file, reading.log.time):
            raise _RefusedError(
                f"column {reading.log.time!r} holds INT96 in {file.path}, which PyArrow reads in nanoseconds, up to the"
                " year 2262; give format=ParquetFileFormat(coerce_int96_timestamp_unit='us') of pyarrow.dataset"
            )
        for name in set(reading.log.columns) & set(file.physical_schema.names):
            kind = file.physical_schema.field(name).type
            if kinds.setdefault(name, kind) != kind:
                raise _RefusedError(
                    f"column {name!r} is of type {kind} in {file.path} and of type {kinds[name]} in other files of the"
                    " log, which is filtered; write all of them with one type, or filter what is written"
                )


def _wraps(fragment: dataset.Fragment, name: str | None) -> bool:
    """Return whether times of a file are INT96, as of old Spark and Impala, read in nanoseconds, where many wrap."""
    if name is None or not isinstance(fragment, dataset.ParquetFileFragment):
        return False
    schema = fragment.metadata.schema
    kinds = {schema.column(k).path: schema.column(k).physical_type for k in range(len(schema))}
    return kinds.get(name) == "INT96" and fragment.format.read_options.coerce_int96_timestamp_unit == "ns"


def _in_range(fragment: dataset.Fragment, name: str) -> dataset.Fragment:
    """Return a file whose times do not wrap, read in microseconds if need be."""
    if not _wraps(fragment, name):
        return fragment
    return _MICROSECONDS.make_fragment(
        fragment.path,
        filesystem=fragment.filesystem,
        partition_expression=fragment.partition_expression,
        row_groups=[group.id for group in fragment.row_groups],
    )


def _declared(table: dataset.Dataset, fragments: list[dataset.Fragment], name: str) -> bool:
    """Return whether a column's type is not that of any file: it was declared, or is not in every file."""
    kinds = [file.physical_schema.field(name).type for file in fragments if name in file.physical_schema.names]
    return len(kinds) < len(fragments) or table.schema.field(name).type not in kinds


def _wider(first: pyarrow.DataType, second: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return a type that holds the values of both, whatever they are; None if there is none."""
    if first == second or pyarrow.types.is_null(second):
        return first
    schemas = [pyarrow.schema([("", kind)]) for kind in (first, second)]
    try:
        both = pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowTypeError:
        return None
    kinds = [first, second, both]
    is_integer = all(map(pyarrow.types.is_integer, kinds)) and pyarrow.uint64() not in kinds
    text = all(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) for kind in kinds)
    return both if is_integer or text or pyarrow.types.is_null(first) else None
