"""A log with no more rows than its count tells apart, made while a file is read.

What is held is the distinct pairs of an individual and a position, not the rows: of the rows of a pair, a count takes
notice of ``step_cap`` at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.sorting import sort
from opendp_timeseries.counting.tables import Column, Log, Tally, read
from opendp_timeseries.design.count import Count

__all__ = ["folded"]

Ints = NDArray[np.int64]

#: Rows from which they are folded, each time that they are twice as many as were left.
_MANY: Final = 2**20


def folded(batches: Iterable[Log], names: Iterable[str], count: Count) -> Log:
    """Return a log of which a count is the same: of the rows of one individual at one position, the first few.

    It is the same, too, for any other caps on that log and grid, with the step cap at most, and for the grid as one
    step. Its tally is that of all rows.

    :param batches: of the log, with individuals by their numbers.
    :param names: of the individuals, by these numbers, once all batches are read.
    """
    tally, pieces, size, limit = Tally(*[0] * len(Tally._fields)), [np.empty(0, np.int64)], 0, _MANY
    for batch in batches:
        rows, people = read(batch, count), batch[count.log.identifier].values
        assert people is not None
        tally = Tally(*map(add, tally, rows.tally))
        on_grid = rows.positions >= 0
        pieces.append(people[on_grid] * count.positions + rows.positions[on_grid])
        size += pieces[-1].size
        if size > limit:
            pieces = [_few(pieces, count.step_cap)]
            size = pieces[0].size
            limit = max(_MANY, 2 * size)
    people, positions = np.divmod(np.concatenate(pieces), count.positions)
    series, steps = np.divmod(positions, count.grid.size)
    log = Log({count.log.identifier: Column("text", cells=[name or None for name in names], codes=people)})
    if count.log.time is not None:
        log[count.log.time] = Column("times", count.grid.instants()[steps], aware=True)
    if count.log.by is not None:
        log[count.log.by] = Column("text", cells=list(count.panel or ()), codes=series)
    log.tally = tally
    return log


def _few(pieces: list[Ints], most: int) -> Ints:
    """Rows in order, at most so many that are the same."""
    rows = np.concatenate(pieces)
    pieces.clear()
    sort(rows)
    kept = np.ones(rows.size, np.bool_)
    kept[most:] = rows[most:] != rows[:-most]
    return rows[kept]
