"""Which engine counts a log: this process in memory or batch by batch, or the database that holds it.

An engine is a module with the functions of :class:`Engine`. It is imported when the first log of its kind
arrives, so that nothing here needs Ibis or PyArrow.
"""

import sys
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting import memory
from opendp_timeseries.counting.tables import Tally
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading


class Engine(Protocol):
    """Functions that the modules ``memory``, ``dataset`` and ``database`` offer.

    Each function raises TypeError by the names and types of columns, before any row is read, ValueError for a column
    that is missing, and RuntimeError, in fixed words, where rows cannot be read to their end.
    """

    def check_schema(self, table: object, *, identifier: str, time: str) -> None:
        """Refuse a log that cannot be counted on any grid, by names and types, without reading rows.

        :raises TypeError: for a log of an unknown kind, or a column of a type that does not serve.
        :raises ValueError: for columns that are missing, ambiguous or of unequal length.
        """

    def check_reading(self, table: object, reading: Reading) -> None:
        """Refuse a log that cannot be read so, by names and types of all columns of a reading, without reading rows.

        :raises TypeError, ValueError: as of :meth:`check_schema`; and for times that do not fit the grid.
        """

    def count(self, table: object, count: Count, key: bytes) -> NDArray[np.int64]:
        """Count with the guarantees of :func:`~opendp_timeseries.counting.capped_count.capped_count`.

        Where steps are dropped, which ones may differ between engines.

        :param key: at least 16 secret random bytes, fresh for every release.
        :return: counts by the steps that are read, in units of ``2**-count.resolution_bits``.
        """

    def participation(self, table: object, reading: Reading) -> NDArray[np.int64]:
        """Return in how many steps, a gap apart, each individual takes part, those in none left out. Private."""

    def tally(self, table: object, reading: Reading) -> Tally:
        """Say where the rows go. Private."""


def engine_of(table: object) -> Engine:
    """Return the engine that counts a log. What no other knows is read in memory, or refused there."""
    # A log of a library cannot be here before that library is.
    ibis, dataset = sys.modules.get("ibis"), sys.modules.get("pyarrow.dataset")
    if ibis is not None and isinstance(table, ibis.Table):
        from opendp_timeseries.counting import database

        return database
    if dataset is not None and isinstance(table, dataset.Dataset):
        from opendp_timeseries.counting import dataset as batches

        return batches
    return memory
