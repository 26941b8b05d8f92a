"""What the clocks of a zone show, as arrays of nanoseconds from 1970."""

import datetime as dt
import functools
from typing import Any, Final, NamedTuple, cast

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

    def shown(self, instants: Any) -> Ints:
        """What the clock shows at instants."""
        return cast(Ints, instants + self.offsets[np.searchsorted(self.changes, instants, side="right")])

    def first_showing(self, local: Any) -> Ints:
        """The first instants at which the clock shows a local time, or a later one where it skips that time."""
        # Until the end of a period with one offset, the clock shows nothing beyond the latest of these.
        shown_before = np.maximum.accumulate(self.changes + self.offsets[:-1])
        period = np.searchsorted(shown_before, local, side="right")
        begin = np.concatenate([[np.iinfo(np.int64).min], self.changes])[period]
        return cast(Ints, np.maximum(begin, local - self.offsets[period]))

    def local_changes(self) -> Ints:
        """Local times from which the next offset holds: a time that occurs twice has the offset of its first
        occurrence, and one that is skipped has the offset before (``fold=0`` in PEP 495).
        """
        return self.changes + np.maximum(self.offsets[:-1], self.offsets[1:])

    def to_utc(self, local: Ints) -> Ints:
        """The instants of local times."""
        return cast(Ints, local - self.offsets[np.searchsorted(self.local_changes(), local, side="right")])


@functools.lru_cache(maxsize=64)
def clock_around(zone: dt.tzinfo, low: int, high: int) -> Clock:
    """Return the clock of a zone between two times, local or not, and two days around them."""
    first, last = (low // DAY - 2) * 86400, (high // DAY + 3) * 86400
    changes: list[tuple[int, int]] = []
    if zone is not dt.UTC:  # which never changes
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
    """The seconds in a block of time at which offsets change, and to what.

    Offsets are looked up once a day, within which no zone changes twice, and changes are then found by bisection.
    """
    found = []
    old = _offset(zone, block * _BLOCK)
    for before in range(block * _BLOCK, (block + 1) * _BLOCK, 86400):
        after = before + 86400
        new = _offset(zone, after)
        if new == old:
            continue
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
        found.append((after, new))
        old = new
    return found


def _offset(zone: dt.tzinfo, seconds: int) -> int:
    local = (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(zone)
    return (local.utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)
