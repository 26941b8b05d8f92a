"""The capped count of a table in memory: data frames, Arrow tables and NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.capped_count import Places, SortedRows, capped_count
from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.counting.tables import check_schema, read_positions, tally

__all__ = ["check_schema", "count", "participation", "tally"]


def count(table: Any, layout: Layout, caps: Caps, key: bytes) -> NDArray[np.int64]:
    """Count events per step, each individual within the caps: see :class:`~.engines.Engine`."""
    identifiers, positions = read_positions(table, layout)
    size, cycle, periods = layout.size, layout.cycle, layout.period_starts
    return capped_count(identifiers, positions, size=size, caps=caps, key=key, cycle=cycle, periods=periods)


def participation(table: Any, layout: Layout, gap: int = 1) -> NDArray[np.int64]:
    """Return in how many steps, a gap apart, each individual takes part, those in none left out. Private."""
    return SortedRows.of(*read_positions(table, layout), Places.of_layout(layout)).participation(gap)
