"""The edges of steps, and the exact placing of instants between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid.instants import UNITS

__all__ = ["Edges", "EvenEdges", "StepRule", "StepTable", "UnevenEdges", "edges_between"]

Ints = NDArray[np.int64]

#: Edges lie on ticks of these units.
_FINE: Final = list(UNITS)[list(UNITS).index("s") :]


class StepRule(NamedTuple):
    """How an instant becomes a step, in whole numbers: ``((tick - first) * factor + ahead) // divisor``.

    It holds for ticks from ``first`` to ``stop - 1``, counted from 1970, UTC; all others are off the grid.
    """

    first: int
    stop: int
    factor: int
    ahead: int
    divisor: int


class StepTable(NamedTuple):
    """How an instant becomes a step of uneven length, by looking it up.

    Ticks from ``first`` to ``stop - 1`` are on the grid. A tick lies in the cell ``(tick - first) // width``, and is of
    the step ``steps[k]`` of the only row ``k`` that has this cell, and ``low[k] <= tick < high[k]``. There are at most
    twice as many rows as steps.
    """

    first: int
    stop: int
    width: int
    cells: Ints
    low: Ints
    high: Ints
    steps: Ints


class EvenEdges(NamedTuple):
    """Edges that are equally far apart, in attoseconds from 1970, UTC."""

    start: int
    width: int
    size: int

    @property
    def stop(self) -> int:
        """The last edge, in attoseconds."""
        return self.start + self.size * self.width

    @property
    def unit(self) -> str:
        """The coarsest unit, seconds or finer, that counts the edges in whole ticks."""
        return next(unit for unit in _FINE if self.start % UNITS[unit] == 0 == self.width % UNITS[unit])

    def ticks(self) -> Ints:
        """The edges, in the unit."""
        tick = UNITS[self.unit]
        return self.start // tick + np.arange(self.size + 1, dtype=np.int64) * (self.width // tick)

    def fits(self, tick: int) -> bool:
        """Whether 64-bit arithmetic on ticks of so many attoseconds places every instant of the grid exactly."""
        return self.size * self.width // math.gcd(tick, self.width) < 2**63

    def rule(self, tick: int) -> StepRule:
        """The rule for ticks of so many attoseconds, worked out in Python integers."""
        first, stop = -(-self.start // tick), -(-self.stop // tick)
        common = math.gcd(tick, self.width)
        return StepRule(first, stop, tick // common, (first * tick - self.start) // common, self.width // common)

    def place(self, ticks: Ints, tick: int) -> Ints:
        """The steps of instants, -1 for those off the grid."""
        rule = self.rule(tick)
        # Times are compared before they are subtracted or multiplied: what wraps is off the grid, and `fits` made sure
        # the rest cannot.
        on_grid = (ticks >= rule.first) & (ticks < rule.stop)
        ahead = (ticks - np.int64(rule.first)).view(np.uint64)
        ahead = ahead * np.uint64(rule.factor) + np.uint64(rule.ahead)
        ahead //= np.uint64(rule.divisor)
        return np.where(on_grid, ahead.view(np.int64), -1)


@dataclass(frozen=True, eq=False)
class UnevenEdges:
    """Ascending edges of any kind, in ticks of a unit from 1970, UTC."""

    counts: Ints
    unit: str

    @property
    def start(self) -> int:
        """The first edge, in attoseconds."""
        return int(self.counts[0]) * UNITS[self.unit]

    @property
    def stop(self) -> int:
        """The last edge, in attoseconds."""
        return int(self.counts[-1]) * UNITS[self.unit]

    @property
    def size(self) -> int:
        """Number of steps."""
        return len(self.counts) - 1

    def ticks(self) -> Ints:
        """The edges, in the unit."""
        return self.counts.copy()

    def fits(self, tick: int) -> bool:
        """Whether 64 bits hold the edges in ticks of so many attoseconds."""
        return max(abs(self.start), abs(self.stop)) // tick < 2**63 - 1

    def rule(self, tick: int) -> StepTable:
        """The table for ticks of so many attoseconds."""
        edges = self._in(tick)
        low, high = edges[:-1], edges[1:]
        first, stop = int(edges[0]), int(edges[-1])
        width = max(-((first - stop) // self.size), 1)  # so that there are no more cells than steps
        # A step reaches into the cells from that of its first tick to that of its last.
        begin, end = (low - first) // width, (high - 1 - first) // width
        within = np.where(high > low, end - begin + 1, 0)
        steps = np.repeat(np.arange(self.size, dtype=np.int64), within)
        cells = begin[steps] + np.arange(len(steps)) - (np.cumsum(within) - within)[steps]
        return StepTable(first, stop, width, cells, low[steps], high[steps], steps)

    def place(self, ticks: Ints, tick: int) -> Ints:
        """The steps of instants, -1 for those off the grid."""
        edges = self._in(tick)
        steps = np.searchsorted(edges, ticks, side="right") - 1
        return np.where(steps < self.size, steps, -1)

    def _in(self, tick: int) -> Ints:
        """The edges in ticks of so many attoseconds, rounded up: no whole tick crosses one by that."""
        own = UNITS[self.unit]
        return self.counts * (own // tick) if tick <= own else -(-self.counts // (tick // own))


Edges = EvenEdges | UnevenEdges


def edges_between(instants: Ints, unit: str) -> Edges:
    """Return edges that are given in ticks of a unit, in the plainest form."""
    gaps = np.diff(instants)
    if np.all(gaps == gaps[0]):
        return EvenEdges(int(instants[0]) * UNITS[unit], int(gaps[0]) * UNITS[unit], len(gaps))
    instants.flags.writeable = False
    return UnevenEdges(instants, unit)
