"""Rows that are read a batch at a time, and held as 8 bytes each, or for each distinct pair that their count needs."""

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.capped_count import (
    Places,
    SortedRows,
    fits,
    integer_words,
    label_words,
    on_grid,
    pack,
    sort_rows,
)
from opendp_timeseries.counting.identifiers import Labels
from opendp_timeseries.counting.sorting import sort, sort_along
from opendp_timeseries.counting.tables import Rows
from opendp_timeseries.design.reading import Reading

Ints = NDArray[np.int64]

#: From this many rows on they are folded, and again whenever they are twice as many as were left.
_MANY: Final = 2**20


def sorted_rows(batches: Iterable[Rows], reading: Reading, *, most: int | None = None) -> SortedRows:
    """Pack rows, a batch at a time: integers are their own numbers, until one is too wide, or a text.

    :param most: how many rows of one individual at one position are needed, or how much of their amounts; the others
        are dropped on the way.
    """
    places, packed, limit = Places(reading), np.empty(0, np.int64), _MANY
    amounts: list[Ints] = []
    bits = np.int64(places.bits)
    numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # a name has one number in every batch

    def numbered(who: Labels) -> Ints:
        return np.array([*map(numbers.__getitem__, who.names), -1], np.int64)[who.codes]

    for batch in batches:
        who = batch.who
        if not isinstance(who, Labels) and (numbers or not fits(who, places.bits)):
            who = _by_text(who)
        if not isinstance(who, Labels):
            people = who.astype(np.int64, copy=False)
        else:
            if not numbers:
                packed = (numbered(_by_text(packed >> bits)) << bits) | (packed & ((1 << bits) - 1))
            people = numbered(who)
        rows = pack(people, batch.positions, places)
        packed.resize(packed.size + rows.size, refcheck=False)  # large ones move no data
        packed[packed.size - rows.size :] = rows
        if batch.amounts is not None:
            amounts.append(on_grid(batch.amounts, batch.positions, reading))
        if most is not None and packed.size > limit:
            if amounts:
                packed, *amounts = _sums(packed, np.concatenate(amounts), most)
            else:
                packed = _few(packed, most)
            limit = max(_MANY, 2 * packed.size)
    much = np.concatenate(amounts) if amounts else None
    sort_rows(packed, much, reading)
    return SortedRows(packed, places, label_words(list(numbers)) if numbers else integer_words, much)


def _by_text(integers: NDArray[Any]) -> Labels:
    known, codes = np.unique(integers, return_inverse=True)
    return Labels(codes=codes, names=list(map(str, known.tolist())))


def _few(rows: Ints, most: int) -> Ints:
    """Return rows in order, at most ``most`` of those that are equal."""
    sort(rows)
    kept = np.ones(rows.size, np.bool_)
    kept[most:] = rows[most:] != rows[:-most]
    return rows[kept]


def _sums(rows: Ints, amounts: Ints, most: int) -> tuple[Ints, Ints]:
    """Return distinct rows in order, and what they add up to, at most ``most`` of each."""
    sort_along(rows, amounts, most.bit_length())
    firsts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    return rows[firsts], np.minimum(np.add.reduceat(amounts, firsts), most)
