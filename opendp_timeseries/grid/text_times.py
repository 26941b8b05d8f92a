"""The one grammar of times that are text, whatever table they come in and whatever Python reads them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid.clock import DAY, SECOND, Ints, clock_around

__all__ = ["TextTimes", "read_text_times"]

Mask = NDArray[np.bool_]

_LONGEST: Final = len("2024-07-01T05:30:00.123456789 +00:00")
_PIECE: Final = 2**14  # texts that are read at a time, so that they fit in a processor's cache
_NAT: Final = np.iinfo(np.int64).min
#: Nanoseconds from 1970 that 64 bits hold, also after an offset. No grid reaches so far.
_FAR: Final = 2**63 - 2 * DAY


class TextTimes(NamedTuple):
    """Times as they were read: ``datetime64[ns]``, of those that are no times NaT; and which are instants in UTC."""

    times: NDArray[np.datetime64]
    aware: Mask  # all others are on a clock that the text does not name

    def in_utc(self, zone: dt.tzinfo) -> NDArray[np.datetime64]:
        """The instants of all times, where a zone has the clock that texts do not name."""
        times, local = self.times.astype(np.int64), ~self.aware & ~np.isnat(self.times)
        if local.any() and zone is not dt.UTC:
            near = np.clip(times[local], -_FAR, _FAR)
            times[local] = clock_around(zone, int(near.min()), int(near.max())).to_utc(near)
        return times.view("datetime64[ns]")


def read_text_times(texts: Sequence[str]) -> TextTimes:
    """Read times in the calendar forms of ISO 8601, each text by itself. Nothing raises.

    ================  ==================================================================================
    a text is         a date; a date, ``T`` or a space, and a time; after either there may be a zone
    a date            ``YYYY-MM-DD`` or ``YYYYMMDD``, from the year 0001 to 9999
    a time            ``hh``, ``hh:mm``, ``hh:mm:ss``, ``hhmm`` or ``hhmmss``; after seconds there may be a
                      point or comma and one to nine decimals
    a zone            ``Z``, ``UTC``, ``GMT``, ``±hh``, ``±hhmm`` or ``±hh:mm``, also after a space
    ================  ==================================================================================

    ``T`` and ``Z`` may be lower-case; spaces around the text are ignored. All else is not a time, such as week dates
    (``2024-W27-1``), days of the year (``2024-183``), the hour 24 and the second 60. A date alone is its midnight.
    A time in a year that 64 bits do not hold in nanoseconds is the first or the last that they hold, which is off every
    grid.

    >>> read_text_times(["2024-07-01", "20240701T0530Z", "2024-07-01 05:30:00,5 +02", "2024-W27-1"])
    TextTimes(times=array(['2024-07-01T00:00:00.000000000', '2024-07-01T05:30:00.000000000',
           '2024-07-01T03:30:00.500000000',                           'NaT'],
          dtype='datetime64[ns]'), aware=array([False,  True,  True, False]))
    """
    times, aware = np.empty(len(texts), dtype=np.int64), np.empty(len(texts), dtype=np.bool_)
    for start in range(0, len(texts), _PIECE):
        piece = slice(start, start + _PIECE)
        times[piece], aware[piece] = _read(list(map(str.strip, texts[piece])))
    return TextTimes(times.view("datetime64[ns]"), aware)


def _read(texts: list[str]) -> tuple[Ints, Mask]:
    text = _Places(texts)
    year = text.number(4)
    dashed = text.skip("-")
    month = text.number(2)
    text.good &= text.skip("-", dashed) == dashed
    day = text.number(2)

    timed = text.skip("Tt ", text.digit_follows(1))  # there may be a space before a zone, too
    hour = text.number(2, timed)
    colon = text.skip(":", timed)
    minute = text.number(2, minutes := colon | (timed & text.digit_follows()))
    second = text.number(2, seconds := text.skip(":", colon) | (minutes & ~colon & text.digit_follows()))
    fraction = text.skip(".,", seconds)
    nanosecond = text.number(1, fraction)
    for _ in range(8 if fraction.any() else 0):
        nanosecond = 10 * nanosecond + text.number(1, fraction & text.digit_follows())

    text.skip(" ")
    named = text.skip("Zz")
    for name in ("UTC", "GMT"):
        begun = text.skip(name[0], ~named)
        text.good &= ~begun | (text.skip(name[1], begun) & text.skip(name[2], begun))
        named |= begun
    behind = text.skip("-", ~named)
    offset = behind | text.skip("+", ~named & ~behind)
    hours = text.number(2, offset)
    minutes_of_offset = text.number(2, text.skip(":", offset) | (offset & text.digit_follows()))

    for number, most in ((hour, 23), (minute, 59), (second, 59), (hours, 23), (minutes_of_offset, 59)):
        text.good &= number <= most
    good = text.good & text.at_end() & (year > 0) & (month > 0) & (month <= 12)
    months = np.where(good, 12 * (year - 1970) + month - 1, 0)
    first, after = ((months + k).view("datetime64[M]").astype("datetime64[D]").astype(np.int64) for k in (0, 1))
    good &= (day > 0) & (day <= after - first)
    shift = (3600 * hours + 60 * minutes_of_offset) * np.where(behind, -1, 1)
    whole = 86400 * (first + day - 1) + 3600 * hour + 60 * minute + second - shift
    times = np.clip(whole, -_FAR // SECOND, _FAR // SECOND) * SECOND + nanosecond
    return np.where(good, times, _NAT), good & (named | offset)


class _Places:
    """A place in each of many texts, which moves on over what is read there."""

    def __init__(self, texts: list[str]) -> None:
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        characters = np.array(texts, dtype=f"U{_LONGEST + 1}").view(np.uint32).reshape(len(texts), _LONGEST + 1)
        characters[:, -1] = 0  # nothing is read over the end of a text
        self._characters = np.minimum(characters, 255).astype(np.uint8).ravel()
        self._at = np.arange(len(texts)) * (_LONGEST + 1)
        self._ends = self._at + lengths
        self.good = lengths <= _LONGEST

    def at_end(self) -> Mask:
        """Whether all of a text was read."""
        ended: Mask = self._at == self._ends
        return ended

    def digit_follows(self, further: int = 0) -> Mask:
        """Whether a digit stands at the place, or so much further."""
        digit: Mask = self._characters[self._at + further] - np.uint8(48) < 10
        return digit

    def skip(self, characters: str, where: Any = True) -> Mask:
        """Move over one of some characters, and say where one stood."""
        here = self._characters[self._at]
        found: Mask = np.zeros(here.shape, dtype=np.bool_)
        for character in characters:
            found |= where & (here == ord(character))
        self._at += found
        return found

    def number(self, digits: int, where: Any = True) -> Ints:
        """Move over a number of so many digits, which must be there, and return it; elsewhere 0."""
        number = np.zeros(self._at.size, dtype=np.int64)
        for _ in range(digits):
            digit = self._characters[self._at] - np.uint8(48)
            found = where & (digit < 10)
            self.good &= found | ~np.asarray(where)
            number = 10 * number + np.where(found, digit, 0)
            self._at += found
        return number
