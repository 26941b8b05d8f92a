"""The capped count of files that are read batch by batch: 8 bytes of memory a row.

A log is a ``pyarrow.dataset.Dataset``, such as ``pyarrow.dataset.dataset("log.parquet")``: one file or a folder of
them, read anew for every release. Every batch becomes packed rows at once
(:mod:`opendp_timeseries.counting.capped_count`), so the counts are those of the same log in memory.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import dataset

from opendp_timeseries.counting import tables
from opendp_timeseries.counting.capped_count import Places, SortedRows, fits, integer_words, label_words, pack
from opendp_timeseries.counting.identifiers import Labels
from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.counting.tables import Tally, Who, read_positions

__all__ = ["check_schema", "count", "participation", "tally"]

Ints = NDArray[np.int64]

_BATCH: Final = 2**18  # rows that are read at a time


def count(table: Any, layout: Layout, caps: Caps, key: bytes) -> Ints:
    """Count events per step, each individual within the caps: see :class:`~.engines.Engine`."""
    return _sorted_rows(table, layout).capped_count(caps, key)


def participation(table: Any, layout: Layout, gap: int = 1) -> Ints:
    """Return in how many steps, a gap apart, each individual takes part, those in none left out. Private."""
    return _sorted_rows(table, layout).participation(gap)


def tally(table: Any, layout: Layout) -> Tally:
    """Say where the rows go. Private."""
    batches = (tables.tally(batch, layout) for batch in _batches(table, layout))
    return Tally(*map(sum, zip(*batches, strict=True)))


def check_schema(table: Any, *, identifier: str, time: str) -> None:
    """Refuse a dataset by the names and types of its columns."""
    tables.check_schema(table.schema.empty_table(), identifier=identifier, time=time)


class _PackedRows:
    """Rows as integers, as they come, in one array that grows."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._packed = np.empty(0, dtype=np.int64)
        self._used = 0
        self._numbers: defaultdict[str, int] | None = None  # of names; None while identifiers are integers

    def add(self, identifiers: Who, positions: Ints) -> bool:
        """Add rows, but for those that are nowhere; False if identifiers cannot be numbered one batch at a time."""
        numbers = self._number(identifiers)
        if numbers is None:
            return False
        rows = pack(numbers, positions, self._places)
        end = self._used + rows.size
        if end > self._packed.size:
            self._packed.resize(end + end // 4, refcheck=False)  # large ones move no data
        self._packed[self._used : end] = rows
        self._used = end
        return True

    def _number(self, identifiers: Who) -> Ints | None:
        if isinstance(identifiers, Labels):
            if self._numbers is None:
                if self._used:
                    return None  # floating-point numbers, whole until now
                self._numbers = defaultdict(itertools.count().__next__)
            # A name has the same number in every batch.
            numbers = map(self._numbers.__getitem__, identifiers.names)
            return np.append(np.fromiter(numbers, np.int64, len(identifiers.names)), -1)[identifiers.codes]
        if self._numbers is not None or not fits(identifiers, self._places.bits):
            return None
        return identifiers.astype(np.int64, copy=False)

    def sorted(self) -> SortedRows:
        """Return all rows, in order."""
        rows = self._packed[: self._used]
        rows.sort()
        words = integer_words if self._numbers is None else label_words(list(self._numbers))
        return SortedRows(rows, self._places, words)


def _sorted_rows(table: Any, layout: Layout) -> SortedRows:
    """Read the log, at once where its identifiers are so wide, or so mixed, that they are numbered by who is there."""
    places = Places.of_layout(layout)
    rows = _PackedRows(places)
    if all(rows.add(*read_positions(batch, layout)) for batch in _batches(table, layout)):
        return rows.sorted()
    _, *batches = _batches(table, layout)
    return SortedRows.of(*read_positions(pyarrow.concat_tables(batches), layout), places)


def _batches(table: Any, layout: Layout) -> Iterator[Any]:
    """Read the columns of the log, a small table at a time; the first has no rows.

    What is wrong with the columns is thus said before any row is read.
    """
    yield table.schema.empty_table()
    try:
        options = _options(table)
        scanner = table.scanner(columns=layout.columns, batch_size=_BATCH, fragment_scan_options=options)
        for batch in scanner.to_batches():
            yield pyarrow.Table.from_batches([batch])
        return
    except Exception:  # the words of a reader may quote a row: they are not passed on
        pass
    raise RuntimeError("the log could not be read to its end; check that its files are whole, and that memory suffices")


def _options(table: Any) -> Any:
    """Keep PyArrow from reading ahead a whole Parquet file, which it does by default, to save round trips."""
    if isinstance(getattr(table, "format", None), dataset.ParquetFileFormat):
        return dataset.ParquetFragmentScanOptions(pre_buffer=False)
    return None
