"""Rows that are read a batch at a time, and held as 8 bytes each, or for each distinct pair that their count needs."""

from collections.abc import Iterable
from typing import Final

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
from opendp_timeseries.counting.texts import Numbers
from opendp_timeseries.design.reading import Reading

Ints = NDArray[np.int64]

#: From this many rows on they are folded, and again whenever they are twice as many as were left.
_MANY: Final = 2**20
_PART: Final = 2**17
#: So many names of batches are held, at first, before those are found that are the same.
_NAMES: Final = 2**22


def sorted_rows(
    batches: Iterable[Rows],
    reading: Reading,
    *,
    cap: int | None = None,
    worthless: bool = False,
    numbers: Numbers | None = None,
) -> SortedRows:
    """Pack rows, a batch at a time: integers are their own numbers, until one is too wide, or a text.

    :param cap: how many rows of one individual at one position are needed, or how much of their amounts; the others
        are dropped on the way.
    :param worthless: whether rows of no value stay, for readings in which they count.
    :param numbers: takes the names, if individuals have any.
    """
    places, packed, limit = Places(reading), np.empty(0, np.int64), _MANY
    amounts: list[Ints] = []
    bits = np.int64(places.bits)
    numbers = Numbers() if numbers is None else numbers
    room = min(_NAMES if cap is None else _MANY, 2 ** (63 - places.bits))
    for batch in batches:
        who = batch.who
        if not isinstance(who, Labels) and (numbers or not fits(who, places.bits)):
            who = _by_text(who)
        if not isinstance(who, Labels):
            people = who.astype(np.int64, copy=False)
        else:
            if not numbers:
                integers = _by_text(packed >> bits)
                packed = (numbers.of(integers.names)[integers.codes] << bits) | (packed & ((1 << bits) - 1))
            if len(numbers) + len(who.names) > room:
                _renumber(packed, numbers.settled(), bits)
                room = max(room, 2 * len(numbers))
            people = numbers.of(who.names)[who.codes]
        positions = batch.places if worthless else batch.positions
        rows = pack(people, positions, places)
        packed.resize(packed.size + rows.size, refcheck=False)  # large ones move no data
        packed[packed.size - rows.size :] = rows
        if batch.amounts is not None:
            amounts.append(on_grid(batch.amounts, positions, reading))
        if cap is not None and packed.size > limit:
            if numbers:
                _renumber(packed, numbers.settled(), bits)
            if amounts:
                packed, *amounts = _sums(packed, np.concatenate(amounts), cap)
            else:
                packed = _first_rows(packed, cap)
            limit = max(_MANY, 2 * packed.size)
    much = np.concatenate(amounts) if amounts else None
    if numbers:
        _renumber(packed, numbers.settled(), bits)
    sort_rows(packed, much, reading)
    return SortedRows(packed, places, label_words(numbers.names) if numbers else integer_words, much)


def _renumber(rows: Ints, numbers: Ints, bits: np.int64) -> None:
    """Give individuals other numbers, in place."""
    for k in range(0, rows.size, _PART):
        some = rows[k : k + _PART]
        some[:] = (numbers[some >> bits] << bits) | (some & ((1 << bits) - 1))


def _by_text(integers: NDArray[np.integer]) -> Labels:
    names, codes = np.unique(integers, return_inverse=True)
    return Labels(codes=codes, names=list(map(str, names.tolist())))


def _first_rows(rows: Ints, cap: int) -> Ints:
    """Return rows in order, at most ``cap`` of those that are equal."""
    sort(rows)
    mask = np.ones(rows.size, np.bool_)
    mask[cap:] = rows[cap:] != rows[:-cap]
    return rows[mask]


def _sums(rows: Ints, amounts: Ints, cap: int) -> tuple[Ints, Ints]:
    """Return distinct rows in order, and what they add up to, at most ``cap`` of each."""
    sort_along(rows, amounts, cap.bit_length())
    firsts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    return rows[firsts], np.minimum(np.add.reduceat(amounts, firsts), cap)
