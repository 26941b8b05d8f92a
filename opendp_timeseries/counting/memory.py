"""The engine that counts a table in memory: data frames, Arrow tables and NumPy arrays.

Checks and the tally are those of :mod:`~opendp_timeseries.counting.tables`.
"""

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.capped_count import SortedRows, capped_count
from opendp_timeseries.counting.tables import check_reading, check_schema, read, tally
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading

__all__ = ["check_reading", "check_schema", "count", "participation", "tally"]


def count(table: object, count: Count, key: bytes) -> NDArray[np.int64]:
    """Return capped counts by the steps that are read, in units of ``2**-count.resolution_bits``.

    :param key: at least 16 secret random bytes, fresh for every release.
    :raises TypeError, ValueError: as :class:`~.engines.Engine` says, before any row is read.
    """
    rows = read(table, count.reading)
    return capped_count(rows.who, rows.positions, count, key, rows.amounts)


def participation(table: object, reading: Reading) -> NDArray[np.int64]:
    """Return in how many steps, a gap apart, each individual takes part, those in none left out, in no stated order.

    It depends on the log, and is private.
    """
    rows = read(table, reading)
    return SortedRows.of(rows.who, rows.positions, reading, rows.amounts).participation()
