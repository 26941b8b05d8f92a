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

    It is the same, too, for any other caps on that log and grid, with the step cap at most, for the grid as one step,
    and without the keys: a row of a key that is not listed is kept as one without a key. Its tally is that of all rows.

    :param batches: of the log, with individuals by their numbers.
    :param names: of the individuals, by these numbers, once all batches are read.
    """
    tally, pieces, size, limit = Tally(*[0] * len(Tally._fields)), [np.empty(0, np.int64)], 0, _MANY
    steps, keys = count.grid.size, count.panel_size + 1  # the last is of all that are not listed, whose number is -1
    for batch in batches:
        rows, people = read(batch, count), batch[count.log.identifier].values
        assert people is not None
        tally = Tally(*map(add, tally, rows.tally))
        on_grid = (rows.steps >= 0) & ~rows.nobody
        places = people[on_grid] * keys
        if rows.series is not None:
            places += rows.series[on_grid] % keys
        pieces.append(places * steps + rows.steps[on_grid])
        size += pieces[-1].size
        if size > limit:
            pieces = [_few(pieces, count.step_cap)]
            size = pieces[0].size
            limit = max(_MANY, 2 * size)
    places, at = np.divmod(np.concatenate(pieces), steps)
    people, series = np.divmod(places, keys)
    log = Log({count.log.identifier: Column("text", cells=[name or None for name in names], codes=people)})
    if count.log.time is not None:
        log[count.log.time] = Column("times", count.grid.instants()[at], aware=True)
    if count.log.by is not None:
        log[count.log.by] = Column("text", cells=[*(count.panel or ()), None], codes=series)
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
