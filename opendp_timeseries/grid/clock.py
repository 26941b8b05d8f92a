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
_LONG_AGO: Final = -(2**62)


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
    """Return the clock of a zone between two instants, in seconds from 1970.

    Offsets are looked up once a day and changes are then found by bisection; no zone changes its offset twice within a
    day.
    """

    def offset(instant: int) -> int:
        shift = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(zone).utcoffset()
        assert shift is not None
        return shift // dt.timedelta(seconds=1)

    changes, offsets = [], [offset(low)]
    if zone is dt.timezone.utc:
        high = low  # it never changes
    for day in range(low, high, _DAY):
        before, after = day, min(day + _DAY, high)
        if offset(after) == offsets[-1]:
            continue
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if offset(middle) == offsets[-1] else (before, middle)
        changes.append(after)
        offsets.append(offset(after))
    clock = Clock(np.array(changes, dtype=np.int64), np.array(offsets, dtype=np.int64))
    for array in clock:
        array.flags.writeable = False
    return clock
