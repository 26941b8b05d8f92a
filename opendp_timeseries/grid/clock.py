"""What the clocks of a zone show, as arrays of whole seconds."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clock", "clock_of"]

Ints = NDArray[np.int64]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_DAY: Final = 86400
_ONE: Final = dt.timedelta(seconds=1)
_BLOCK: Final = 512 * _DAY
_LONG_AGO: Final = -(2**62)
#: No date that Python has is beyond these, on any clock.
_FIRST: Final = (dt.datetime(1, 1, 3, tzinfo=dt.timezone.utc) - _EPOCH) // _ONE
_LAST: Final = (dt.datetime(9999, 12, 29, tzinfo=dt.timezone.utc) - _EPOCH) // _ONE


class Clock(NamedTuple):
    """The offsets of a clock from UTC: ``offsets[k]`` holds from ``changes[k - 1]`` to ``changes[k]``.

    All are seconds; instants are counted from 1970, UTC, and what a clock shows from 1970 on that clock.
    """

    changes: Ints
    offsets: Ints

    def shown(self, instants: NDArray[Any]) -> Ints:
        """What the clock shows at instants."""
        shown: Ints = instants + self.offsets[np.searchsorted(self.changes, instants, side="right")]
        return shown

    def first_showing(self, local: NDArray[Any]) -> Ints:
        """The first instants at which the clock shows a local time, or a later one where it skips that time."""
        # Until the end of a period with one offset, the clock shows nothing beyond the latest of these.
        shown_before = np.maximum.accumulate(self.changes + self.offsets[:-1])
        period = np.searchsorted(shown_before, local, side="right")
        begin = np.concatenate([[_LONG_AGO], self.changes])[period]
        instants: Ints = np.maximum(begin, local - self.offsets[period])
        return instants

    def local_changes(self) -> Ints:
        """Local times from which the next offset holds: a time that occurs twice has the offset of its first
        occurrence, and one that is skipped has the offset before (``fold=0`` in PEP 495).
        """
        return self.changes + np.maximum(self.offsets[:-1], self.offsets[1:])


@functools.lru_cache(maxsize=64)
def clock_of(zone: dt.tzinfo, low: int, high: int) -> Clock:
    """Return the clock of a zone between two instants, in seconds from 1970."""
    changes: list[tuple[int, int]] = []
    if zone is not dt.timezone.utc:  # which never changes
        for block in range(low // _BLOCK, high // _BLOCK + 1):
            changes += (change for change in _changes(zone, block) if low < change[0] <= high)
    clock = Clock(
        np.array([instant for instant, _ in changes], dtype=np.int64),
        np.array([_offset(zone, low), *(offset for _, offset in changes)], dtype=np.int64),
    )
    for array in clock:
        array.flags.writeable = False
    return clock


@functools.lru_cache(maxsize=4096)
def _changes(zone: dt.tzinfo, block: int) -> tuple[tuple[int, int], ...]:
    """The instants in a block of time at which offsets change, and to what.

    Offsets are looked up once a day and changes are then found by bisection; no zone changes its offset twice within a
    day.
    """
    found = []
    low, high = max(block * _BLOCK, _FIRST), min((block + 1) * _BLOCK, _LAST)
    old = _offset(zone, low)
    for day in range(low, high, _DAY):
        before, after = day, min(day + _DAY, high)
        new = _offset(zone, after)
        if new == old:
            continue
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
        found.append((after, new))
        old = new
    return tuple(found)


def _offset(zone: dt.tzinfo, instant: int) -> int:
    shift = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(zone).utcoffset()
    assert shift is not None
    return shift // _ONE
