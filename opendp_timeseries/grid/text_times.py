"""The grammar of times in text form, the same for every kind of table and every version of Python."""

import datetime as dt
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid.clock import DAY, SECOND, Ints, clock_around

Mask = NDArray[np.bool_]

#: The forms of times, zeros for digits.
_FORM: Final = re.compile(
    rb"(?P<year>0000)(?P<dash>-?)(?P<month>00)(?P=dash)(?P<day>00)"
    rb"(?:[Tt ](?P<hour>00)(?:(?P<colon>:?)(?P<minute>00)(?:(?P=colon)(?P<second>00)(?:[.,](?P<fraction>0{1,9}))?)?)?)?"
    rb"(?: ?(?:(?P<named>[Zz]|UTC|GMT)|(?P<sign>[+-])(?P<hours>00)(?::?(?P<minutes>00))?))?"
)
_PARTS: Final = ("year", "month", "day", "hour", "minute", "second", "hours", "minutes")
_LONGEST: Final = len("2024-07-01T05:30:00.123456789 +00:00")
_PIECE: Final = 2**14  # texts processed at a time, so that they fit in a processor's cache
_NAT: Final = np.iinfo(np.int64).min
#: Nanoseconds from 1970 that 64 bits hold, also after an offset. No grid extends so far.
_FAR: Final = 2**63 - 2 * DAY


class TextTimes(NamedTuple):
    """Parsed times: ``datetime64[ns]``, NaT where a text is not a time; and a mask of those that are UTC instants."""

    times: NDArray[np.datetime64]
    aware: Mask  # the others are local times of a clock that the text does not name

    def in_utc(self, zone: dt.tzinfo) -> NDArray[np.datetime64]:
        """Return the instants of all times, taking those without a zone as local times of ``zone``."""
        times, local = self.times.astype(np.int64), ~self.aware & ~np.isnat(self.times)
        if local.any() and zone is not dt.UTC:
            clipped = np.clip(times[local], -_FAR, _FAR)
            times[local] = clock_around(zone, int(clipped.min()), int(clipped.max())).to_utc(clipped)
        return times.view("datetime64[ns]")


def read_text_times(texts: Sequence[str], form: re.Pattern[bytes] = _FORM) -> TextTimes:
    """Read times in the calendar forms of ISO 8601, independently of each other. Nothing raises.

    ================  ==================================================================================
    a text is         a date; a date, ``T`` or a space, and a time; after either there may be a zone
    a date            ``YYYY-MM-DD`` or ``YYYYMMDD``, from the year 0001 to 9999
    a time            ``hh``, ``hh:mm``, ``hh:mm:ss``, ``hhmm`` or ``hhmmss``; after seconds there may be a
                      point or comma and one to nine decimals
    a zone            ``Z``, ``UTC``, ``GMT``, ``±hh``, ``±hhmm`` or ``±hh:mm``, also after a space
    ================  ==================================================================================

    ``T`` and ``Z`` may be lower-case; spaces around the text are ignored. All else is not a time, such as week dates
    (``2024-W27-1``), days of the year (``2024-183``), the hour 24 and the second 60. A date alone is its midnight.
    A time beyond the nanoseconds that 64 bits hold becomes the first or the last that they hold, which is off every
    grid.

    :param form: pattern of the times to read, zeros for digits, with the groups of the default; a group ``half`` is AM
        or PM.

    >>> read_text_times(["2024-07-01", "20240701T0530Z", "2024-07-01 05:30:00,5 +02", "2024-W27-1"])
    TextTimes(times=array(['2024-07-01T00:00:00.000000000', '2024-07-01T05:30:00.000000000',
           '2024-07-01T03:30:00.500000000',                           'NaT'],
          dtype='datetime64[ns]'), aware=array([False,  True,  True, False]))
    """
    times, aware = np.full(len(texts), _NAT), np.zeros(len(texts), dtype=np.bool_)
    for start in range(0, len(texts), _PIECE):
        piece = slice(start, start + _PIECE)
        _read(list(map(str.strip, texts[piece])), form, times[piece], aware[piece])
    return TextTimes(times.view("datetime64[ns]"), aware)


def read_byte_times(data: NDArray[np.uint8], ends: Ints, form: re.Pattern[bytes] = _FORM) -> TextTimes:
    """Read times that are in a form as they stand, as :func:`read_text_times` does; NaT where a text is not.

    :param data: bytes of texts, one after the other, without nulls.
    :param ends: where each ends.
    """
    times, aware = np.full(ends.size, _NAT), np.zeros(ends.size, dtype=np.bool_)
    for start in range(0, ends.size, _PIECE):
        piece = slice(start, start + _PIECE)
        lengths = np.diff(ends[piece], prepend=ends[start - 1] if start else 0)
        for length in np.flatnonzero(np.bincount(np.minimum(lengths, _LONGEST + 1))[1 : _LONGEST + 1]) + 1:
            rows = np.flatnonzero(lengths == length)
            if rows.size == lengths.size:
                characters = data[ends[start] - length : ends[piece][-1]].reshape(rows.size, length)
            else:
                characters = data[ends[piece][rows, None] + np.arange(-length, 0)]
            some = np.full(rows.size, _NAT), np.zeros(rows.size, dtype=np.bool_)
            _read_characters(characters.T, np.ones(rows.size, dtype=np.bool_), form, *some)
            times[piece][rows], aware[piece][rows] = some
    return TextTimes(times.view("datetime64[ns]"), aware)


def _read(texts: list[str], wanted: re.Pattern[bytes], times: Ints, aware: Mask) -> None:
    """Read times into arrays."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    width = int(min(lengths.max(), _LONGEST))
    if (lengths != width).any():
        texts = [(text if len(text) <= width else "").ljust(width, "\0") for text in texts]
    characters = np.frombuffer("".join(texts).encode("latin-1", "replace"), np.uint8).reshape(len(texts), width).T
    complete = np.count_nonzero(characters, axis=0) == lengths  # neither too long nor containing a NUL
    _read_characters(characters, complete, wanted, times, aware)


def _read_characters(
    characters: NDArray[np.uint8], complete: Mask, wanted: re.Pattern[bytes], times: Ints, aware: Mask
) -> None:
    """Read times into arrays, grouped by form: the text with zeros for its digits.

    :param characters: a text in each column, filled up with nulls.
    """
    width = len(characters)
    digits = characters - np.uint8(48)
    forms = np.where(digits < 10, np.uint8(48), characters)
    rows_of: dict[bytes, slice | NDArray[np.int64]] = {forms[:, 0].tobytes(): slice(None)}
    if (forms != forms[:, :1]).any():
        form_by_text = np.ascontiguousarray(forms.T).view(f"S{width}").ravel().tolist()
        numbers = {form: number for number, form in enumerate(dict.fromkeys(form_by_text))}
        codes = np.fromiter(map(numbers.__getitem__, form_by_text), np.int64, len(form_by_text))
        rows_of = {form: np.flatnonzero(codes == number) for form, number in numbers.items()}
    for form, rows in rows_of.items():
        if (match := wanted.fullmatch(form)) is not None:
            times[rows], aware[rows] = _read_form(match, digits[:, rows], complete[rows])


def _read_form(match: re.Match[bytes], digits: NDArray[np.uint8], good: Mask) -> tuple[Ints, Mask]:
    """Read times of a common form, whose digits are in the same rows of an array."""

    def number(part: str) -> NDArray[np.int32]:
        value = np.zeros(good.size, dtype=np.int32)
        for row in digits[slice(*match.span(part))]:
            value = 10 * value + row
        return value

    year, month, day, hour, minute, second, hours, minutes = map(number, _PARTS)
    good = good & (year > 0) & (month > 0) & (month <= 12)
    if (half := match.groupdict().get("half")) is not None:
        good &= (hour > 0) & (hour <= 12)
        hour = hour % 12 + (12 if half == b"PM" else 0)
    for value, largest in ((hour, 23), (minute, 59), (second, 59), (hours, 23), (minutes, 59)):
        good &= value <= largest
    months = np.where(good, 12 * (year.astype(np.int64) - 1970) + month - 1, 0)
    least = int(months.min())
    starts = np.arange(least, int(months.max()) + 2).view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    first, after = starts[months - least], starts[months - least + 1]
    good &= (day > 0) & (day <= after - first)
    shift = (3600 * hours + 60 * minutes) * (-1 if match["sign"] == b"-" else 1)
    seconds = 86400 * (first + day - 1) + (3600 * hour + 60 * minute + second - shift)
    fraction = number("fraction").astype(np.int64) * 10 ** (9 - len(match["fraction"] or b""))
    times = np.clip(seconds, -_FAR // SECOND, _FAR // SECOND) * SECOND + fraction
    return np.where(good, times, _NAT), good & (match["named"] is not None or match["sign"] is not None)
