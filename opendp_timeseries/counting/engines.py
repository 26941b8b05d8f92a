"""Engines for logs that are not read into memory whole: databases and clusters, and files.

An engine is a module with the functions of :class:`Engine`. It is imported when the first log of its kind
arrives, so that nothing here needs Ibis or PyArrow.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.panels import Keys
from opendp_timeseries.counting.tables import check_schema
from opendp_timeseries.grid import TimeGrid

__all__ = ["Engine", "Layout", "check_log", "engine_of"]


class Layout(NamedTuple):
    """Where the rows of a log belong: the columns that are read, and the public grid and keys of the counts."""

    identifier: str
    time: str
    grid: TimeGrid
    by: str | None
    keys: Keys

    @property
    def size(self) -> int:
        """Number of counts: steps of one series after those of the other."""
        return self.grid.size * len(self.keys)


class Engine(Protocol):
    """What a module of this package offers."""

    def check_schema(self, table: Any, *, identifier: str, time: str) -> None:
        """Refuse a log by names and types, without reading rows, as :func:`~.tables.check_schema` does."""

    def capped_count(
        self, table: Any, layout: Layout, *, participation_cap: int, step_cap: int, key: bytes, progress: bool
    ) -> NDArray[np.int64]:
        """Count with the guarantees of :func:`~opendp_timeseries.counting.capped_count.capped_count`.

        Which steps are kept of an individual in more than ``participation_cap`` may differ between engines.
        """

    def participation(self, table: Any, layout: Layout) -> NDArray[np.int64]:
        """Return in how many steps each individual takes part, those in none left out. Private."""


# Who owns a type of log, and the engine for it.
_ENGINES: Final = {("ibis", "Table"): "database", ("pyarrow.dataset", "Dataset"): "dataset"}


def engine_of(table: Any) -> Engine | None:
    """Return the engine for a log, None for a table in memory (or one of an unknown kind)."""
    for (owner, kind), name in _ENGINES.items():
        module = sys.modules.get(owner)  # a log of this kind cannot be here before its owner is
        if module is not None and isinstance(table, getattr(module, kind)):
            return cast(Engine, importlib.import_module(f"opendp_timeseries.counting.{name}"))
    return None


def check_log(table: Any, *, identifier: str, time: str) -> None:
    """Refuse a log that cannot be counted, by names and types, without reading rows.

    :raises TypeError: for a log of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for columns that are missing, ambiguous or of unequal length.
    """
    engine = engine_of(table)
    check = check_schema if engine is None else engine.check_schema
    check(table, identifier=identifier, time=time)
