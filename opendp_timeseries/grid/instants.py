"""Instants as whole nanoseconds: parsed from text, dates and datetimes, and written in one spelling for each clock."""

import datetime as dt
import zoneinfo
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.grid.clock import DAY, SECOND, clock_around
from opendp_timeseries.grid.text_times import read_text_times

Instant = str | dt.date | np.datetime64  # a datetime is a date

ONE_DAY: Final = np.timedelta64(1, "D")
#: Every unit of datetime64 with a fixed length, in attoseconds, the finest unit.
UNITS: Final[dict[str, int]] = {"W": 7 * DAY * 10**9, "D": DAY * 10**9, "h": 3600 * 10**18, "m": 60 * 10**18} | {
    unit: 10**digits for unit, digits in [("s", 18), ("ms", 15), ("us", 12), ("ns", 9), ("ps", 6), ("fs", 3), ("as", 0)]
}
#: The first and the last instant whose nanoseconds fit in 64 bits, with room for calendars, offsets and periods.
FIRST: Final = int(np.datetime64("1680-01-01", "ns").astype(np.int64))
LAST: Final = int(np.datetime64("2260-01-01", "ns").astype(np.int64))
#: The longest span: differences, too, fit in 64 bits, of at most 292 years.
_LONGEST_SPAN: Final = 290 * 366 * DAY
#: Names that mean a different clock on each machine, or none.
_NO_ZONES: Final = ("localtime", "posixrules", "factory")


def parse_zone(zone: object) -> dt.tzinfo | None:
    """Return the time zone with this name; None for None.

    :raises TypeError, ValueError: for anything else.
    """
    if not isinstance(zone, str | None):
        raise TypeRefusal("zone", zone, "must be the IANA name of a time zone, for instance 'UTC'")
    if zone is None or zone == "UTC":
        return None if zone is None else dt.UTC
    first, name = zone.partition("/")[0].lower(), zone.lower()
    if name in _NO_ZONES or first in ("posix", "right"):
        raise Refusal(
            "zone",
            zone,
            "must be the IANA name of a time zone, such as 'Europe/Paris', which is the same clock on every machine",
        )
    try:
        return zoneinfo.ZoneInfo(zone)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise Refusal(
            "zone",
            zone,
            "must be the IANA name of a time zone, such as 'UTC' or 'Europe/Paris'",
            "where the system has no zones, install the package tzdata",
        ) from None


def parse_instants(values: Mapping[str, object], zone: dt.tzinfo | None) -> list[int]:
    """Return instants in nanoseconds from 1970, UTC.

    :param values: by name, for messages: text (:func:`read_text_times`), a ``datetime``, a ``date`` (its midnight) or a
        ``datetime64``. Without an offset it is a local time of ``zone``; midnight is the beginning of its day. A time
        that occurs twice needs an offset, or is a ``datetime`` with ``fold=1``: the second of both.
    :raises TypeError, ValueError: for anything else, and for times that do not fit.
    """
    times, aware = read_text_times([_as_text(name, value, zone) for name, value in values.items()])
    instants = []
    for (name, value), time, is_aware in zip(values.items(), times, aware, strict=True):
        text = str(value)
        if np.isnat(time):
            raise Refusal(
                name,
                text,
                "must be an instant in ISO 8601, such as '2013-01-01T00:00' or '2013-01-01T00:00-05:00', with at most"
                " nine decimals",
            )
        local = int(time.astype(np.int64))
        check_years(name, text, local, local)
        if not is_aware and zone is None:
            raise Refusal(
                name, text, "must say which clock it shows", "give zone, such as `zone='UTC'`, or write an offset"
            )
        instants.append(local if is_aware or zone is None else _on_clock(name, text, local, zone))
    return instants


def parse_days(values: Mapping[str, object], zone: dt.tzinfo) -> NDArray[np.datetime64]:
    """Return days: of dates, themselves; of times, the day that the clock of a zone shows.

    :param values: as for :func:`parse_instants`.
    :raises TypeError, ValueError: for anything else.
    """
    times, aware = read_text_times([_as_text(name, value, zone) for name, value in values.items()])
    local = []
    for (name, value), time, is_aware in zip(values.items(), times.astype(np.int64).tolist(), aware, strict=True):
        text = str(value)
        if np.isnat(np.datetime64(time, "ns")):
            raise Refusal(name, text, "must be a date in ISO 8601, such as '2024-12-25'")
        check_years(name, text, time, time)
        local.append(int(clock_around(zone, time, time).local_times(time)) if is_aware else time)
    return np.array(local, dtype="M8[ns]").astype("M8[D]")


def offset_of_fold(value: object, zone: dt.tzinfo | None) -> dt.timedelta | None:
    """Return the offset of a naive ``datetime`` with ``fold=1``, in the sense of PEP 495; None for any other value.

    A time that occurs twice is then the second of both, and one that is skipped is shifted back by the gap.
    """
    if zone is None or not isinstance(value, dt.datetime) or value.tzinfo is not None or not value.fold:
        return None
    # A datetime of Python, as that of pandas may drop the fold.
    clock = dt.datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, fold=1)
    return clock.replace(tzinfo=zone).utcoffset()


def _as_text(name: str, value: object, zone: dt.tzinfo | None) -> str:
    if not isinstance(value, (str, dt.date, np.datetime64)):
        raise TypeRefusal(name, value, "must be an ISO 8601 string, a datetime or a datetime64")
    if isinstance(value, dt.datetime) and (offset := offset_of_fold(value, zone)) is not None:
        instant = (value - offset).replace(fold=0, tzinfo=dt.UTC)
        if instant.astimezone(zone).replace(fold=0, tzinfo=None) == value.replace(fold=0):  # it is not skipped
            value = instant
    if isinstance(value, dt.datetime) and not _has_whole_minutes(value):
        value = value.astimezone(dt.UTC)  # the text form has no seconds in an offset
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _has_whole_minutes(moment: dt.datetime) -> bool:
    """Return whether the offset of a moment, if it has one, is in whole minutes."""
    return not (moment.utcoffset() or dt.timedelta()).seconds % 60


def _on_clock(name: str, text: str, local: int, zone: dt.tzinfo) -> int:
    """Return the instant of a local time: the beginning of its day for a midnight; else it must occur exactly once."""
    clock = clock_around(zone, local, local)
    instant = int(clock.first_instants(local))
    if local % DAY == 0:
        if clock.local_times(instant) >= local + DAY:
            raise Refusal(
                name, text, f"is a day that {zone} skipped", f"the next is from {write_instant(instant, zone)!r}"
            )
    elif np.count_nonzero(clock.local_times(local - np.unique(clock.offsets)) == local) != 1:
        raise Refusal(name, text, f"occurs twice or not at all in {zone}", "write the offset")
    return instant


def check_years(name: str, text: object, first: int, last: int) -> None:
    """Refuse times whose nanoseconds, or the differences between them, do not fit in 64 bits."""
    if first < FIRST or last > LAST or last - first > _LONGEST_SPAN:
        raise Refusal(name, text, "must stay within the years 1680 to 2259, and within 290 years of each other")


def write_instant(nanoseconds: int, zone: dt.tzinfo | None) -> str:
    """Return the text of an instant on the clock of ``zone`` with its offset, which is ``Z`` for ``UTC`` only.

    It is in UTC without a zone, or if the offset of a historical clock is not in whole minutes.
    """
    seconds, fraction = divmod(nanoseconds, SECOND)
    local = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    if zone is not None and _has_whole_minutes(moment := local.astimezone(zone)):
        local = moment
    clock, offset = local.isoformat()[:19], local.isoformat()[19:]
    if fraction:
        clock += f".{fraction:09d}".rstrip("0")
    elif local.second == 0:
        clock = clock[:-3]
    return clock + ("Z" if local.tzinfo is dt.UTC else offset)


def whole_ticks(time: np.datetime64 | np.timedelta64, unit: str) -> int | None:
    """Return an instant from 1970 or a duration in whole units, rounded down.

    :param unit: a key of ``UNITS``.
    :return: None for a time in months or years, without a unit, or that is NaT.

    >>> whole_ticks(np.datetime64("1969-12-31T23:59:59.9"), "s")
    -1
    """
    source_unit, multiple = np.datetime_data(time.dtype)
    if source_unit not in UNITS or np.isnat(time):
        return None
    return int(time.astype(np.int64)) * multiple * UNITS[source_unit] // UNITS[unit]
