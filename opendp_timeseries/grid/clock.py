"""The clocks of a time zone, as arrays of nanoseconds from 1970."""

import datetime as dt
import functools
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SECOND: Final = 10**9
DAY: Final = 86400 * SECOND
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BLOCK: Final = 512 * 86400


class Clock(NamedTuple):
    """The offsets of a clock from UTC: ``offsets[k]`` holds from ``changes[k - 1]`` to ``changes[k]``.

    Instants are counted from 1970, UTC, and local times from 1970 on the clock.
    """

    changes: Ints
    offsets: Ints

    def local_times(self, instants: Ints | int) -> Ints:
        """Return the local times that the clock shows at instants."""
        return cast(Ints, instants + self.offsets[np.searchsorted(self.changes, instants, side="right")])

    def first_instants(self, local: Ints | int) -> Ints:
        """Return the first instants at which the clock shows local times, or later times where it skips them."""
        # The latest local time that the clock has shown by the end of each period with a constant offset.
        latest_local = np.maximum.accumulate(self.changes + self.offsets[:-1])
        period = np.searchsorted(latest_local, local, side="right")
        begin = np.concatenate([[np.iinfo(np.int64).min], self.changes])[period]
        return cast(Ints, np.maximum(begin, local - self.offsets[period]))

    def local_changes(self) -> Ints:
        """Return the local times from which the next offset applies.

        A time that occurs twice has the offset of its first occurrence; a skipped time has the offset before the
        change (``fold=0`` in PEP 495).
        """
        return self.changes + np.maximum(self.offsets[:-1], self.offsets[1:])

    def to_utc(self, local: Ints) -> Ints:
        """Return the instants of local times."""
        return cast(Ints, local - self.offsets[np.searchsorted(self.local_changes(), local, side="right")])


@functools.lru_cache(maxsize=64)
def clock_around(zone: dt.tzinfo, low: int, high: int) -> Clock:
    """Return the clock of a zone from two days before ``low`` to two days after ``high``, which may be local times."""
    first, last = (low // DAY - 2) * 86400, (high // DAY + 3) * 86400
    changes: list[tuple[int, int]] = []
    if zone is not dt.UTC:  # UTC never changes
        for block in range(first // _BLOCK, last // _BLOCK + 1):
            changes += (change for change in _changes(zone, block) if first < change[0] <= last)
    clock = Clock(
        np.array([instant for instant, _ in changes], dtype=np.int64) * SECOND,
        np.array([_offset(zone, first), *(offset for _, offset in changes)], dtype=np.int64) * SECOND,
    )
    for array in clock:
        array.flags.writeable = False
    return clock


@functools.lru_cache(maxsize=4096)
def _changes(zone: dt.tzinfo, block: int) -> list[tuple[int, int]]:
    """Return the seconds in a block of time at which offsets change, with the new offsets.

    Offsets are looked up once a day, within which no zone changes twice; changes are then located by bisection.
    """
    changes = []
    old = _offset(zone, block * _BLOCK)
    for before in range(block * _BLOCK, (block + 1) * _BLOCK, 86400):
        after = before + 86400
        new = _offset(zone, after)
        if new == old:
            continue
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
        changes.append((after, new))
        old = new
    return changes


def _offset(zone: dt.tzinfo, seconds: int) -> int:
    local = (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(zone)
    return (local.utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)
