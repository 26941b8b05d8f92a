"""The capped count of files that are read batch by batch: 8 bytes of memory a row.

A log is a ``pyarrow.dataset.Dataset``, such as ``pyarrow.dataset.dataset("log.parquet")``: one file or a folder of
them, read anew for every release. Every batch becomes the sorted engine's integers at once
(:mod:`opendp_timeseries.counting.capped_count`), so the counts are those of the same log in memory.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import dataset

from opendp_timeseries.counting import capped_count as engine
from opendp_timeseries.counting.engines import Layout
from opendp_timeseries.counting.tables import Labels
from opendp_timeseries.counting.tables import check_schema as check_table
from opendp_timeseries.spaces import EventLog
from opendp_timeseries.transformations.participation_count import read_positions

__all__ = ["capped_count", "check_schema", "participation"]

Ints = NDArray[np.int64]
Who = NDArray[Any] | Labels

_BATCH: Final = 2**18  # rows that are read at a time


def capped_count(
    table: Any, layout: Layout, *, participation_cap: int, step_cap: int, key: bytes, progress: bool = False
) -> NDArray[np.int64]:
    """Count events per step; one individual reaches at most ``participation_cap`` steps, ``step_cap`` in each.

    :param table: a ``pyarrow.dataset.Dataset``.
    :param layout: the columns, the grid and the keys.
    :param participation_cap: ``I``.
    :param step_cap: ``M``.
    :param key: at least 16 secret random bytes, fresh for every release.
    :param progress: show the rows that have been read with tqdm, on standard error.
    :return: ``layout.size`` counts.
    :raises TypeError: by the names and types of the columns, before any row is read.
    :raises ValueError: for a column that is missing.
    :raises ImportError: for ``progress`` without tqdm.
    :raises RuntimeError: if the files cannot be read, in fixed words: other ones could quote rows.
    """
    rows = _packed(table, layout, progress)
    caps = {"participation_cap": participation_cap, "step_cap": step_cap}
    if rows is None:
        identifiers, positions = _whole(table, layout)
        return engine.capped_count(identifiers, positions, size=layout.size, **caps, key=key)
    counts = np.zeros(layout.size, dtype=np.int64)
    return engine.add_sorted_rows(counts, rows.sorted(), rows.bits, rows.words(key), **caps, key=key)


def participation(table: Any, layout: Layout) -> NDArray[np.int64]:
    """Return in how many steps each individual takes part, those in none left out. Private.

    :raises TypeError: as :func:`capped_count`, and the other errors.
    """
    rows = _packed(table, layout, progress=False)
    if rows is None:
        return engine.participation(*_whole(table, layout), size=layout.size)
    ordered = rows.sorted()
    people = ordered[engine._firsts(ordered)] >> np.int64(rows.bits)
    return engine._lengths(engine._firsts(people), people.size)


def check_schema(table: Any, *, identifier: str, time: str) -> None:
    """Refuse a dataset by the names and types of its columns.

    :raises TypeError: for a column of a type that does not serve.
    :raises ValueError: for a column that is missing or ambiguous.
    """
    check_table(table.schema.empty_table(), identifier=identifier, time=time)


class _Rows:
    """Rows as integers, as they come: the individual's number above the lowest ``bits``, the step in them."""

    def __init__(self, size: int) -> None:
        self.bits = (size - 1).bit_length()
        self._limit = 2 ** (engine._PACKED_BITS - self.bits)
        self._packed = np.empty(0, dtype=np.int64)
        self._used = 0
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)

    def add(self, identifiers: Who, positions: Ints) -> bool:
        """Add rows, but for those that are nowhere; False if an identifier is too wide."""
        if isinstance(identifiers, Labels):
            # A name has the same number in every batch.
            numbers = map(self._numbers.__getitem__, identifiers.names)
            codes = np.fromiter(numbers, np.int64, len(identifiers.names))[identifiers.codes]
        elif identifiers.size and not (-self._limit <= int(identifiers.min()) and int(identifiers.max()) < self._limit):
            return False
        else:
            codes = identifiers.astype(np.int64, copy=False)
        rows = ((codes << np.int64(self.bits)) | positions)[positions >= 0]
        end = self._used + rows.size
        if end > self._packed.size:
            self._packed.resize(end + end // 4, refcheck=False)  # large ones move no data
        self._packed[self._used : end] = rows
        self._used = end
        return True

    def sorted(self) -> Ints:
        """Return all rows, in order."""
        rows = self._packed[: self._used]
        rows.sort()
        return rows

    def words(self, key: bytes) -> Callable[[Ints], NDArray[np.uint64]]:
        """Return what says the words of individuals, as in memory."""
        nobody = np.empty(0, dtype=np.int64)
        known = Labels(codes=nobody, names=list(self._numbers)) if self._numbers else nobody
        return engine._people(known, self.bits, key)[1]


def _packed(table: Any, layout: Layout, progress: bool) -> _Rows | None:
    """Read the log into packed rows; None if its identifiers are too wide for that."""
    rows = _Rows(layout.size)
    batches = _batches(table, layout, progress)
    return rows if all(rows.add(*_place(batch, layout)) for batch in batches) else None


def _whole(table: Any, layout: Layout) -> tuple[Who, Ints]:
    """Read the log at once, for identifiers that are too wide: they are numbered by who is there."""
    _, *batches = _batches(table, layout, progress=False)
    return _place(pyarrow.concat_tables(batches), layout)


def _place(table: Any, layout: Layout) -> tuple[Who, Ints]:
    log = EventLog(identifier=layout.identifier, time=layout.time)
    return read_positions(table, log, layout.grid, layout.by, layout.keys)


def _batches(table: Any, layout: Layout, progress: bool) -> Iterator[Any]:
    """Read the columns of the log, a small table at a time; the first has no rows.

    What is wrong with the columns is thus said before any row is read.
    """
    columns = [layout.identifier, layout.time, *([] if layout.by is None else [layout.by])]
    yield table.schema.empty_table()
    try:
        with _bar(table) if progress else contextlib.nullcontext() as bar:
            scanner = table.scanner(columns=columns, batch_size=_BATCH, fragment_scan_options=_options(table))
            for batch in scanner.to_batches():
                yield pyarrow.Table.from_batches([batch])
                if bar is not None:
                    bar.update(batch.num_rows)
        return
    except Exception:  # the words of a reader may quote a row: they are not passed on
        pass
    raise RuntimeError("the log could not be read to its end; read it by table.to_table() to see why")


def _options(table: Any) -> Any:
    """Keep PyArrow from reading ahead a whole Parquet file, which it does by default, to save round trips."""
    if isinstance(getattr(table, "format", None), dataset.ParquetFileFormat):
        return dataset.ParquetFragmentScanOptions(pre_buffer=False)
    return None


def _bar(table: Any) -> Any:
    from tqdm import tqdm

    return tqdm(total=table.count_rows(), unit=" rows", unit_scale=True)
