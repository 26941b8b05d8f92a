"""Count events, or add up values, per step with caps on every individual: the numeric engine, without OpenDP.

Every row becomes one integer, the individual in the high bits and the step in the low ones, and one sort
brings the rows of each individual together, in the order of their steps. What is kept of an individual
depends on nothing but that individual's own identifier, their own steps and a key drawn without looking at
the data (docs/proofs/counts.md). Where an individual within a period is one of their own, the integer has
the period above the steps within it, so that the rows of each such pair are together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.gap import mark_apart
from opendp_timeseries.counting.identifiers import Labels, text_words
from opendp_timeseries.counting.scaling import MOST_SUM, Sizes, sizes_of, weights_of
from opendp_timeseries.counting.sorting import sort, sort_along
from opendp_timeseries.counting.texts import Texts
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weighting import Drop
from opendp_timeseries.design.weights import Weights

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
WordsOf = Callable[[Ints, bytes], Words]  # of individuals, by their numbers, with a key
Order = Callable[[Ints, Ints, Ints], Words]  # hashes of individuals, how many of each, and steps

# Rows that are worked on at a time: their arrays fit in a processor's cache. Individuals over the cap have at
# least two rows each, so a chunk and the individual that straddles its end hold at most 2^16 of them.
_CHUNK: Final = 2**17
_GROUP_BITS: Final = 16
_HASH_BITS: Final = 64 - _GROUP_BITS
_INT64_MAX: Final = 2**63 - 1
_PACKED_BITS: Final = 63  # of an individual's number and a step
# Odd words without a pattern: the golden ratio's, and those of the finaliser.
_MULTIPLIERS: Final = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


def capped_count(
    identifiers: NDArray[np.integer] | Labels, positions: Ints, count: Count, key: bytes, amounts: Ints | None = None
) -> Ints:
    """Count events per step that is read: at most so many steps of one individual, ``step_cap`` in each.

    With amounts, these are added up, and ``step_cap`` is the most of one individual in one step.

    Of an individual in more than ``key_cap`` series at one step of the grid, those with the smallest keyed hashes
    are kept. Within a series, their steps are then thinned until they are ``gap`` apart
    (:mod:`~opendp_timeseries.counting.gap`). Of an individual in more steps than the cap, those with the smallest
    keyed hashes of (identifier, step) are kept, so that each of their steps is equally likely, whatever the number
    of events in it. Removing an individual, or reordering the rows, changes nothing of what is kept of anybody
    else. The hash is quick rather than cryptographic: a poor hash or a key used twice could favour some steps, which
    costs accuracy, but could break neither the caps nor the independence of other people.

    Where nothing is dropped, all steps of an individual count instead, with the weights of
    :mod:`~opendp_timeseries.counting.scaling`, and the result is in units of ``2**-count.resolution_bits``.

    Nothing about the rows raises, warns or is printed.

    :param identifiers: who, for every row: integers of any type, or :class:`~.identifiers.Labels`.
    :param positions: where, for every row; rows that are not in ``0 … count.reading.size - 1`` are dropped.
    :param key: at least 16 secret random bytes, fresh for every release.
    :param amounts: how much, for every row, from 0 to ``step_cap``.
    :return: ``count.reading.grid.size`` counts, for each series of the count.

    >>> import numpy as np
    >>> from opendp_timeseries.grid import TimeGrid
    >>> who, step = np.array([7, 7, 8]), np.array([0, 0, 2])
    >>> capped_count(who, step, Count(Reading(source=None, grid=TimeGrid(size=4)), Drop(2)), key=bytes(16))
    array([1, 0, 1, 0])
    """
    return SortedRows.of(identifiers, positions, count.reading, amounts).capped_count(count, key)


@dataclass(frozen=True, eq=False)
class Places:
    """The positions that rows may have, and how they are laid out in the low bits of an integer.

    Without periods a place is a position. With them, it is the number of the period above the position among those of
    this period, which are again one series after the other, each of as many steps as the longest period has.
    """

    reading: Reading

    @cached_property
    def own_bits(self) -> int:
        """Bits of a place within a period."""
        return (self.reading.places - 1).bit_length()

    @cached_property
    def period_bits(self) -> int:
        """Bits of the number of a period."""
        return (self._starts.size - 1).bit_length()

    @property
    def bits(self) -> int:
        """Bits of a place."""
        return self.own_bits + self.period_bits

    def of(self, positions: Ints) -> Ints:
        """Return the places of positions."""
        if self.period_bits == 0:
            return positions.astype(np.int64, copy=False)
        series, steps = np.divmod(positions, self.reading.grid.size)
        places: Ints = self._places[steps] + series * self.reading.period_length
        return places

    def pairs(self, rows: Ints, amounts: Ints | None = None) -> _Pairs:
        """Unpack sorted rows: everybody's distinct positions, and the events in each, or the sum of amounts."""
        firsts, events = _groups(rows)
        if amounts is not None:
            events = np.add.reduceat(amounts, firsts)
        packed = rows[firsts]
        people, positions = packed >> np.int64(self.own_bits), packed & np.int64(2**self.own_bits - 1)
        if self.period_bits > 0:
            starts = self._starts[people & np.int64(2**self.period_bits - 1)]
            series, steps = np.divmod(positions, self.reading.period_length)
            positions = series * self.reading.grid.size + starts + steps
        return _Pairs(people, positions, events)

    @cached_property
    def _starts(self) -> Ints:
        starts = self.reading.period_starts
        return np.zeros(1, dtype=np.int64) if starts is None else starts

    @cached_property
    def _places(self) -> Ints:
        """The places of the steps of the first series."""
        starts, size = self._starts, self.reading.grid.size
        number = np.repeat(np.arange(starts.size, dtype=np.int64), np.diff(starts, append=size))
        places: Ints = (number << np.int64(self.own_bits)) | (np.arange(size) - starts[number])
        return places


class SortedRows(NamedTuple):
    """All rows of some individuals on the grid, as sorted integers from :func:`pack`.

    With periods, an individual is here a pair of an identifier and a period.
    """

    packed: Ints
    places: Places
    words: WordsOf
    amounts: Ints | None = None

    @classmethod
    def of(
        cls, identifiers: NDArray[np.integer] | Labels, positions: Ints, reading: Reading, amounts: Ints | None = None
    ) -> SortedRows:
        """Pack and sort rows; those that are not in ``0 … reading.size - 1`` are dropped."""
        places = Places(reading)
        numbers, words = _people(identifiers, places.bits)
        packed = pack(numbers, positions, places)
        amounts = None if amounts is None else on_grid(amounts, positions, reading)
        sort_rows(packed, amounts, reading)
        return cls(packed, places, words, amounts)

    def capped_count(self, count: Count, key: bytes) -> Ints:
        """Count as :func:`capped_count` does; the rows are those of the count's reading."""
        reading, weighting = count.reading, count.weighting
        counts = np.zeros(reading.grid.size * count.series, dtype=np.int64)
        weights = None if isinstance(weighting, Drop) else weighting.weights(reading)
        for pairs in self._pairs(partial(_order, words=self._words, key=key_of_choice(key))):
            pairs = pairs._replace(events=np.minimum(pairs.events, min(reading.step_cap, _INT64_MAX)))
            if isinstance(weighting, Drop):
                _add_pairs(counts, pairs, weighting.cap, partial(_order, words=self._words, key=key))
            elif weights is not None:
                _add_weighed(counts, pairs, weights, reading)
            if self.amounts is not None:  # a batch of individuals adds less than 2**62 to any number
                counts[:] = np.minimum(counts, MOST_SUM)
        return counts

    def participation(self) -> Ints:
        """Return in how many steps, a gap apart, each individual takes part, those in none left out. Private."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(_groups(pairs.people)[1] for pairs in self._pairs())])

    def _pairs(self, order: Order | None = None) -> Iterator[_Pairs]:
        """Everybody's distinct steps, in few series at a time, a gap apart within each, some individuals at a time."""
        gap, key_cap, cycle = self.places.reading.gap, self.places.reading.key_cap, self.places.reading.grid.size
        start = 0
        for rows in _chunks(self.packed, self.places.own_bits):
            stop = start + rows.size
            pairs = self.places.pairs(rows, None if self.amounts is None else self.amounts[start:stop])
            start = stop
            if order is not None and key_cap is not None:
                pairs = _in_few_series(pairs, key_cap, cycle, order)
            yield pairs if gap == 1 else _with_gap(pairs, gap, cycle)

    def _words(self, people: Ints, key: bytes) -> Words:
        """The words of individuals, which are those of their identifiers."""
        return self.words(people >> np.int64(self.places.period_bits), key)


class _Pairs(NamedTuple):
    """The distinct (individual, step) pairs of some individuals, in order, and the events of each."""

    people: Ints
    steps: Ints
    events: Ints

    def where(self, mask: NDArray[np.bool_]) -> _Pairs:
        return _Pairs(*(column[mask] for column in self))


def pack(numbers: Ints, steps: Ints, places: Places) -> Ints:
    """Make one integer of every row on the grid: the individual's number above the lowest bits, the place in them."""
    packed, used = np.empty(steps.size, dtype=np.int64), 0
    for start in range(0, steps.size, _CHUNK):
        some = steps[start : start + _CHUNK]
        on_grid = (some >= 0) & (some < places.reading.size)
        rows = (numbers[start : start + _CHUNK][on_grid] << np.int64(places.bits)) | places.of(some[on_grid])
        packed[used : used + rows.size] = rows
        used += rows.size
    return packed[:used]


def on_grid(amounts: Ints, positions: Ints, reading: Reading) -> Ints:
    """Return the amounts of the rows that :func:`pack` keeps."""
    return amounts[(positions >= 0) & (positions < reading.size)]


def sort_rows(packed: Ints, amounts: Ints | None, reading: Reading) -> None:
    """Sort rows in place, and their amounts along with them."""
    if amounts is None:
        sort(packed)
    else:
        sort_along(packed, amounts, reading.step_cap.bit_length())


def fits(identifiers: NDArray[np.integer], bits: int) -> bool:
    """Return whether integer identifiers, their own numbers, and a place of so many bits fit in one packed integer."""
    limit = 2 ** (_PACKED_BITS - bits)
    return identifiers.size == 0 or (-limit <= int(identifiers.min()) and int(identifiers.max()) < limit)


def integer_words(numbers: Ints, key: bytes) -> Words:
    """Return the words of individuals whose numbers are their identifiers."""
    return numbers.view(np.uint64)


def label_words(names: Sequence[str]) -> WordsOf:
    """Return the words of individuals who are numbered by their names."""
    if isinstance(names, Texts):
        return lambda numbers, key: text_words(names.at(numbers), key)
    return lambda numbers, key: text_words(map(names.__getitem__, numbers.tolist()), key)


def _people(identifiers: NDArray[np.integer] | Labels, bits: int) -> tuple[Ints, WordsOf]:
    """Number the individuals so that a number and a place of so many bits fit in 63; and what gives their words.

    A word is made from the identifier alone, and decides the order of steps. A number must only tell
    individuals apart: those of wide identifiers shift with who else is there.
    """
    if isinstance(identifiers, Labels):
        return identifiers.codes, label_words(identifiers.names)
    if fits(identifiers, bits):
        return identifiers.astype(np.int64, copy=False), integer_words
    return _narrow(identifiers.astype(np.uint64, copy=False), bits + 1)


def _narrow(identifiers: Words, lost_bits: int) -> tuple[Ints, WordsOf]:
    """Number individuals whose identifiers are too wide to be packed.

    The high bits of a product do so in one pass, where they differ for all the identifiers that are there
    (checked, as merging two individuals would break the cap). Else, which is rare, the rank does.
    """
    distinct = np.unique(identifiers)
    for multiplier in _MULTIPLIERS:
        numbers, places = np.unique((distinct * multiplier) >> np.uint64(lost_bits), return_index=True)
        if numbers.size == distinct.size:
            break
    else:
        return np.searchsorted(distinct, identifiers), lambda codes, key: distinct[codes]
    codes = ((identifiers * multiplier) >> np.uint64(lost_bits)).view(np.int64)
    ranked, names = numbers.view(np.int64), distinct[places]
    return codes, lambda codes, key: names[np.searchsorted(ranked, codes)]


def _chunks(packed: Ints, bits: int) -> Iterator[Ints]:
    """Cut sorted rows into pieces that hold all the rows of their individuals."""
    start = 0
    while start < packed.size:
        stop = start + _CHUNK
        if stop < packed.size:
            last = packed[stop - 1] | np.int64(2**bits - 1)  # no row of that individual is beyond this
            stop += int(np.searchsorted(packed[stop:], last, side="right"))
        yield packed[start:stop]
        start = stop


def _with_gap(pairs: _Pairs, gap: int, cycle: int) -> _Pairs:
    """Keep the pairs that are a gap apart, within each series of ``cycle`` steps."""
    series, steps = np.divmod(pairs.steps, cycle)
    begins, _ = _groups(pairs.people, series)
    return pairs.where(mark_apart(steps, begins, gap=gap, cycle=cycle))


def _in_few_series(pairs: _Pairs, key_cap: int, cycle: int, order: Order) -> _Pairs:
    """Keep of everybody's pairs at one step of the grid, in whatever series, those with the smallest hashes."""
    begins, lengths = _groups(pairs.people)
    numbers = np.repeat(np.arange(begins.size), lengths)
    moments = numbers * cycle + pairs.steps % cycle
    by_moment = np.argsort(moments, kind="stable")
    _, lengths = _groups(moments[by_moment])
    # Those of one individual are together, as their numbers are in front.
    chosen = by_moment[np.repeat(lengths > key_cap, lengths)]
    people, moments = pairs.people[chosen], moments[chosen]
    begins, lengths = _groups(people)
    hashes = order(people[begins], lengths, pairs.steps[chosen])
    ranked = np.lexsort((hashes, moments))  # ties go to the first
    ranks = np.arange(ranked.size) - np.repeat(*_groups(moments[ranked]))
    mask = np.ones(by_moment.size, dtype=np.bool_)
    mask[chosen[ranked]] = ranks < key_cap
    return pairs.where(mask)


def _add_pairs(counts: Ints, pairs: _Pairs, cap: int, order: Order) -> None:
    """Add the events of some individuals to the counts, of at most so many steps."""
    people, steps, events = pairs
    begins, lengths = _groups(people)
    over = lengths > cap
    if over.any():
        mask = np.ones(steps.size, dtype=np.bool_)
        capped = np.repeat(over, lengths)
        hashes = order(people[begins[over]], lengths[over], steps[capped])
        mask[capped] = _smallest(hashes, lengths[over], cap)
        steps, events = steps[mask], events[mask]
    np.add.at(counts, steps, events)


def _add_weighed(counts: Ints, pairs: _Pairs, weights: Weights, reading: Reading) -> None:
    """Add the events of some individuals to the counts of each tier and level, of all steps, by their weights."""
    people, steps, events = pairs
    begins, lengths = _groups(people)
    if reading.grouping is None:
        levels, sizes = [steps], sizes_of(events, begins, weights.power)
    else:
        levels = _by_level(steps, reading)
        numbers = np.repeat(np.arange(begins.size), lengths)
        sizes = _sizes_by_level(numbers, levels, events, reading.grouping.shares)
    factors = weights_of(sizes, weights).T
    tiers = counts.reshape(len(factors) // len(levels), -1)
    for column, weight in enumerate(factors):
        tier, level = divmod(column, len(levels))
        np.add.at(tiers[tier], levels[level], events * np.repeat(weight, lengths))


def _by_level(positions: Ints, reading: Reading) -> list[Ints]:
    """Return positions in the sums of each level: of the keys, and of the groups of each."""
    series, steps = np.divmod(positions, reading.grid.size)
    return [level[series] * reading.grid.size + steps for level in reading.levels]


def _sizes_by_level(people: Ints, levels: Sequence[Ints], events: Ints, shares: Sequence[int]) -> Sizes:
    """Return by what individuals, who have all numbers from 0, are weighed: squares of sums, by the levels' shares."""
    sizes: Any = 0
    for positions, share in zip(levels, shares, strict=True):
        order = np.lexsort((positions, people))
        firsts, _ = _groups(people[order], positions[order])
        sums = np.add.reduceat(events[order], firsts)
        begins, _ = _groups(people[order][firsts])
        sizes = sizes + share * sizes_of(sums, begins, 2, SHARES)
    return cast(Sizes, sizes)


def key_of_choice(key: bytes) -> bytes:
    """Return the secret key by which series are chosen at one step, made of the one by which steps are chosen.

    By the same hash, the best of several series would be kept, and steps with several then be kept more often.
    """
    return hashlib.blake2b(key[:64], digest_size=16, person=b"key_cap").digest()


def _smallest(hashes: Words, lengths: Ints, cap: int) -> NDArray[np.bool_]:
    """Mark the ``cap`` smallest hashes of every individual, each of whom has more; ties go to the first.

    :param hashes: below 2^48, individual after individual.
    :param lengths: number of hashes of each individual.
    """
    groups = np.arange(lengths.size, dtype=np.uint64) << np.uint64(_HASH_BITS)
    keyed = hashes | np.repeat(groups, lengths)
    begins = np.cumsum(lengths) - lengths
    ordered = np.sort(keyed)
    threshold = ordered[begins + (cap - 1)]
    tied = ordered[begins + cap] == threshold
    limit = np.repeat(threshold, lengths)
    mask: NDArray[np.bool_] = keyed <= limit
    if tied.any():
        ranked = np.argsort(keyed, kind="stable")  # one individual after the other, as before
        mask[ranked] = np.arange(keyed.size) - np.repeat(begins, lengths) < cap
    return mask


def _order(people: Ints, lengths: Ints, steps: Ints, *, words: WordsOf, key: bytes) -> Words:
    """Hash (identifier, step) to 48 bits, for individuals and their steps.

    Each individual has a SplitMix64 sequence (Steele, Lea & Flood 2014) that starts from their keyed word,
    and a step is given the term of that number.
    """
    first, second = np.frombuffer(hashlib.blake2b(key, digest_size=16).digest(), dtype="<u8").astype(np.uint64)
    starts = _mix(words(people, key) ^ first) + second
    sequence = np.repeat(starts, lengths) + steps.view(np.uint64) * _MULTIPLIERS[0]
    return _mix(sequence) >> np.uint64(64 - _HASH_BITS)


def _mix(words: Words) -> Words:
    """Finaliser of SplitMix64, a bijection of 64-bit words."""
    words = words ^ (words >> np.uint64(30))
    words *= _MULTIPLIERS[1]
    words ^= words >> np.uint64(27)
    words *= _MULTIPLIERS[2]
    words ^= words >> np.uint64(31)
    return words


def _groups(values: NDArray[np.integer], *columns: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return where a new value starts in grouped values, or in any of several columns; and the lengths of groups."""
    changes = np.ones(values.size, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    firsts = cast(Ints, np.flatnonzero(changes))
    return firsts, np.diff(firsts, append=values.size)
