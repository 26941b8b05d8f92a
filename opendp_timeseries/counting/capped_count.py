"""Count events per step with caps on every individual: the numeric engine, without OpenDP.

Every row becomes one integer, the individual in the high bits and the step in the low ones, and one sort
brings the rows of each individual together, in the order of their steps. What is kept of an individual
depends on nothing but that individual's own identifier, their own steps and a key drawn without looking at
the data (docs/proofs/participation_count.md).
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import integer
from opendp_timeseries.counting.tables import Labels

__all__ = ["add_sorted_rows", "capped_count", "participation"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

# Rows that are worked on at a time: their arrays fit in a processor's cache. Individuals over the cap have at
# least two rows each, so a chunk and the individual that straddles its end hold at most 2^16 of them.
_CHUNK: Final = 2**17
_GROUP_BITS: Final = 16
_HASH_BITS: Final = 64 - _GROUP_BITS
_PACKED_BITS: Final = 63  # of an individual's number and a step
# Odd words without a pattern: the golden ratio's, and those of the finaliser.
_MULTIPLIERS: Final = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
_WIDE_MULTIPLIERS: Final = _MULTIPLIERS


def capped_count(
    identifiers: NDArray[Any] | Labels,
    steps: NDArray[np.int64],
    *,
    size: int,
    participation_cap: int,
    step_cap: int,
    key: bytes,
) -> NDArray[np.int64]:
    """Count events per step; one individual reaches at most ``participation_cap`` steps, ``step_cap`` in each.

    Of an individual in more steps than that, those with the smallest keyed hashes of (identifier, step) are
    kept, so that each of their steps is equally likely, whatever the number of events in it. Removing an
    individual leaves what is kept of everyone else exactly as it was; so does any order of the rows. The
    hash is quick rather than cryptographic: a poor hash or a key used twice could favour some steps, which
    costs accuracy, but could break neither the caps nor the independence of other people.

    Nothing about the rows raises, warns or is printed.

    :param identifiers: who, for every row: integers of any type, or :class:`~opendp_timeseries.counting.tables.Labels`.
    :param steps: the step of every row; rows whose step is not in ``0 … size - 1`` are dropped.
    :param size: ``T``, number of steps.
    :param participation_cap: ``I``; more than ``size`` means ``size``.
    :param step_cap: ``M``; any positive integer.
    :param key: at least 16 secret random bytes, fresh for every release.
    :return: ``size`` counts.
    :raises TypeError: for identifiers or steps that are not integers, or a key that is not bytes.
    :raises ValueError: for a parameter out of its range.

    >>> import numpy as np
    >>> who, step = np.array([7, 7, 8]), np.array([0, 0, 2])
    >>> capped_count(who, step, size=4, participation_cap=2, step_cap=1, key=bytes(16))
    array([1, 0, 1, 0])
    """
    size = integer("size", size, minimum=1, maximum=2**31)
    caps = _Caps(
        steps=min(integer("participation_cap", participation_cap, minimum=1), size),
        events=min(integer("step_cap", step_cap, minimum=1), np.iinfo(np.int64).max),
    )
    if not isinstance(key, bytes) or len(key) < 16:
        raise TypeError("key must be at least 16 secret random bytes, for instance secrets.token_bytes(16)")
    if steps.dtype.kind not in "iu":
        raise TypeError(f"steps of type {steps.dtype} must be integers; see TimeGrid.steps")
    packed, bits, words = _sorted_rows(identifiers, steps, size, key)
    counts = np.zeros(size, dtype=np.int64)
    return add_sorted_rows(counts, packed, bits, words, participation_cap=caps.steps, step_cap=caps.events, key=key)


def add_sorted_rows(
    counts: Ints,
    packed: Ints,
    bits: int,
    words: Callable[[Ints], Words],
    *,
    participation_cap: int,
    step_cap: int,
    key: bytes,
) -> Ints:
    """Add rows to the counts of the steps, which are returned, with caps as of :func:`capped_count`.

    :param packed: all rows of some individuals, sorted, as from ``_sorted_rows``.
    :param bits: the lowest bits of a row, which are its step.
    :param words: words of individuals, by which their steps are ordered.
    """
    caps = _Caps(min(participation_cap, counts.size), min(step_cap, np.iinfo(np.int64).max))
    for rows in _chunks(packed, bits):
        _add_rows(counts, rows, bits, caps, partial(_order, words=words, key=key))
    return counts


def participation(identifiers: NDArray[Any] | Labels, steps: NDArray[np.int64], *, size: int) -> Ints:
    """Return in how many steps each individual takes part, those in none left out. Private: one number a person.

    :param identifiers: as of :func:`capped_count`.
    :param steps: as of :func:`capped_count`.
    :param size: ``T``, number of steps.
    """
    packed, bits, _ = _sorted_rows(identifiers, steps, size, bytes(16))
    people = packed[_firsts(packed)] >> np.int64(bits)
    return _lengths(_firsts(people), people.size)


def _sorted_rows(
    identifiers: NDArray[Any] | Labels, steps: NDArray[np.int64], size: int, key: bytes
) -> tuple[Ints, int, Callable[[Ints], Words]]:
    """One integer for every row on the grid, sorted: the individual above the lowest ``bits``, the step in them."""
    bits = (size - 1).bit_length()
    codes, words = _people(identifiers, bits, key)
    if codes.shape != steps.shape or steps.ndim != 1:
        raise ValueError("identifiers and steps must be one-dimensional and equally long")
    packed = (codes << np.int64(bits)) | steps.astype(np.int64, copy=False)
    packed = packed[(steps >= 0) & (steps < size)]
    packed.sort()
    return packed, bits, words


class _Caps(NamedTuple):
    steps: int
    events: int


def _people(identifiers: NDArray[Any] | Labels, bits: int, key: bytes) -> tuple[Ints, Callable[[Ints], Words]]:
    """Number the individuals so that a number and a step fit in 63 bits, and say each one's word.

    A word is made from the identifier alone, and decides the order of steps. A number must only tell
    individuals apart: those of wide identifiers shift with who else is there.
    """
    if isinstance(identifiers, Labels):
        names = identifiers.names
        return identifiers.codes, lambda codes: _name_words(map(names.__getitem__, codes.tolist()), key)
    if identifiers.dtype.kind not in "iu":
        raise TypeError(f"identifiers of type {identifiers.dtype} must be integers or Labels; see read_columns")
    limit = 2 ** (_PACKED_BITS - bits)
    if identifiers.size == 0 or (-limit <= int(identifiers.min()) and int(identifiers.max()) < limit):
        return identifiers.astype(np.int64, copy=False), lambda codes: codes.view(np.uint64)
    return _narrow(identifiers.astype(np.uint64, copy=False), bits + 1)


def _narrow(identifiers: Words, lost_bits: int) -> tuple[Ints, Callable[[Ints], Words]]:
    """Number individuals whose identifiers are too wide to be packed.

    The high bits of a product do so in one pass, where they differ for all the identifiers that are there
    (checked, as merging two individuals would break the cap). Else, which is rare, the rank does.
    """
    known = np.sort(identifiers)
    known = known[_firsts(known)]
    for multiplier in _WIDE_MULTIPLIERS:
        numbers = (known * multiplier) >> np.uint64(lost_bits)
        order = np.argsort(numbers)
        if _firsts(numbers[order]).size == known.size:
            codes = ((identifiers * multiplier) >> np.uint64(lost_bits)).view(np.int64)
            ranked, names = numbers[order].view(np.int64), known[order]
            return codes, partial(_look_up, ranked, names)
    return np.searchsorted(known, identifiers), lambda codes: known[codes]


def _look_up(numbers: Ints, words: Words, codes: Ints) -> Words:
    return words[np.searchsorted(numbers, codes)]


def _name_words(names: Iterator[str], key: bytes) -> Words:
    """Hash names, each by itself, so that a name has one word in every table."""
    encoded = map(operator.methodcaller("encode", "utf-8", "surrogatepass"), names)
    hashes = map(partial(hashlib.blake2b, digest_size=8, key=key[:64]), encoded)
    return np.frombuffer(b"".join(map(operator.methodcaller("digest"), hashes)), dtype="<u8").astype(np.uint64)


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


def _add_rows(counts: Ints, rows: Ints, bits: int, caps: _Caps, order: Callable[[Ints, Ints, Ints], Words]) -> None:
    """Add the capped rows of some individuals to the counts."""
    firsts = _firsts(rows)  # of every (individual, step)
    pairs = rows[firsts]
    events = np.minimum(_lengths(firsts, rows.size), caps.events)
    people, steps = pairs >> np.int64(bits), pairs & np.int64(2**bits - 1)
    begins = _firsts(people)
    lengths = _lengths(begins, people.size)
    over = lengths > caps.steps
    if over.any():
        kept = np.ones(pairs.size, dtype=np.bool_)
        capped = np.repeat(over, lengths)
        hashes = order(people[begins[over]], lengths[over], steps[capped])
        kept[capped] = _smallest(hashes, lengths[over], caps.steps)
        steps, events = steps[kept], events[kept]
    np.add.at(counts, steps, events)


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
    kept: NDArray[np.bool_] = keyed <= limit
    if tied.any():
        equal = keyed == limit
        rank = np.cumsum(equal) - np.repeat(np.cumsum(equal)[begins] - equal[begins], lengths)
        room = cap - np.add.reduceat(keyed < limit, begins, dtype=np.int64)
        kept &= ~equal | (rank <= np.repeat(room, lengths))
    return kept


def _order(people: Ints, lengths: Ints, steps: Ints, *, words: Callable[[Ints], Words], key: bytes) -> Words:
    """Hash (identifier, step) to 48 bits, for individuals and their steps.

    Each individual has a SplitMix64 sequence (Steele, Lea & Flood 2014) that starts from their keyed word,
    and a step is given the term of that number.
    """
    first, second = np.frombuffer(hashlib.blake2b(key, digest_size=16).digest(), dtype="<u8").astype(np.uint64)
    starts = _mix(words(people) ^ first) + second
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


def _firsts(values: NDArray[Any]) -> Ints:
    """Positions where a new value starts in values that are grouped."""
    changes = np.ones(values.size, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return cast(Ints, np.flatnonzero(changes))


def _lengths(firsts: Ints, size: int) -> Ints:
    """Lengths of the groups that start at ``firsts``."""
    return np.diff(firsts, append=size)
