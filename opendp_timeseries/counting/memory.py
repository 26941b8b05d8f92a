"""The capped count of a table in memory: data frames, Arrow tables and NumPy arrays."""

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.capped_count import SortedRows, capped_count
from opendp_timeseries.counting.tables import check_reading, check_schema, read, tally
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading

__all__ = ["check_reading", "check_schema", "count", "participation", "tally"]


def count(table: object, count: Count, key: bytes) -> NDArray[np.int64]:
    """Count as :class:`~.engines.Engine` says."""
    rows = read(table, count.reading)
    return capped_count(rows.who, rows.positions, count, key, rows.amounts)


def participation(table: object, reading: Reading) -> NDArray[np.int64]:
    """Return in how many steps each individual takes part. Private."""
    rows = read(table, reading)
    return SortedRows.of(rows.who, rows.positions, reading, rows.amounts).participation()
