"""Instants as whole numbers: read from what people write, and written in one spelling."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import Any, Final

import numpy as np

from opendp_timeseries._validate import shown
from opendp_timeseries.grid.clock import clock_of

__all__ = ["EPOCH", "SECOND", "UNITS", "Instant", "Zone", "parse_instant", "parse_zone", "whole_ticks", "write_instant"]

Instant = str | dt.date | np.datetime64  # a datetime is a date
Zone = dt.tzinfo | None

#: Every unit of datetime64 that has a fixed length, in attoseconds (the finest of them), coarsest first.
SECOND: Final = 10**18
UNITS: Final[dict[str, int]] = {
    "W": 7 * 86400 * SECOND,
    "D": 86400 * SECOND,
    "h": 3600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}
EPOCH: Final = dt.datetime(1970, 1, 1)
_ONE: Final = dt.timedelta(seconds=1)
_ISO: Final = re.compile(
    r"(?P<whole>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::\d{2}){0,2})?)(?:(?<=:\d{2}:\d{2})\.(?P<fraction>\d{1,18}))?"
    r"(?P<offset>Z|[+-]\d{2}:\d{2}(?::\d{2})?)?"
)


def parse_zone(zone: Any, name: str = "zone") -> Zone:
    """Return the time zone of a name.

    :param name: of the parameter, for messages.
    :raises TypeError: for what is no name.
    :raises ValueError: for the name of no zone.
    """
    if zone is None:
        return None
    if not isinstance(zone, str):
        raise TypeError(f"{name} ({shown(zone)}) must be the IANA name of a time zone, for instance 'UTC'")
    if zone == "UTC":
        return dt.timezone.utc
    try:
        return zoneinfo.ZoneInfo(zone)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ValueError(
            f"{name} ({shown(zone)}) must be the IANA name of a time zone, such as 'UTC' or 'Europe/Paris'; "
            "where the system has no zones, install the package tzdata"
        ) from None


def parse_instant(name: str, value: Any, zone: Zone, *, calendar: bool = False) -> int:
    """Return the attoseconds of an instant from 1970, UTC.

    :param name: what it is, for messages.
    :param value: an ISO 8601 string, a ``datetime``, a ``date`` (its midnight) or a ``datetime64``. Without an offset
        it is a local time of ``zone``.
    :param calendar: whether a midnight without an offset is where its day begins, also if clocks skip or repeat it.
    :raises TypeError: for a value of another type.
    :raises ValueError: for text that says no instant.
    """
    written = value.isoformat() if isinstance(value, dt.date) else str(value)
    if not isinstance(value, (str, dt.date, np.datetime64)):
        raise TypeError(f"{name} ({shown(value)}) must be an ISO 8601 string, a datetime or a datetime64")
    match = _ISO.fullmatch(written)
    try:
        if match is None:
            raise ValueError
        whole = dt.datetime.fromisoformat(match["whole"])
        offset = dt.datetime.fromisoformat("2000-01-01T00:00" + (match["offset"] or "").replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(
            f"{name} ({shown(written)}) must be an instant in ISO 8601, for instance '2013-01-01T00:00' or "
            "'2013-01-01T00:00-05:00'"
        ) from None
    local = (whole - EPOCH) // _ONE
    fraction = int((match["fraction"] or "").ljust(18, "0"))
    if offset.tzinfo is not None:
        shift = offset.utcoffset()
        assert shift is not None
        return (local - shift // _ONE) * SECOND + fraction
    if zone is None:
        raise ValueError(
            f"{name} ({shown(written)}) must say which clock it shows: give zone, for instance zone='UTC', or write an"
            " offset"
        )
    shift = whole.replace(tzinfo=zone).utcoffset()
    assert shift is not None
    if shift != whole.replace(tzinfo=zone, fold=1).utcoffset():
        if calendar and whole.time() == dt.time() and not fraction:
            return _day_begins(name, written, local, zone) * SECOND
        raise ValueError(f"{name} ({shown(written)}) occurs twice or not at all in {zone}; write the offset")
    return (local - shift // _ONE) * SECOND + fraction


def _day_begins(name: str, written: str, midnight: int, zone: dt.tzinfo) -> int:
    clock = clock_of(zone, midnight - 2 * 86400, midnight + 2 * 86400)
    begins = int(clock.first_showing(np.array(midnight)))
    if clock.shown(np.array(begins)) >= midnight + 86400:
        raise ValueError(
            f"{name} ({shown(written)}) is a day that {zone} skipped; the next begins at"
            f" {write_instant(begins * SECOND, zone)!r}"
        )
    return begins


def write_instant(attoseconds: int, zone: Zone) -> str:
    """Write an instant on the clock of ``zone`` (of UTC, without one) with its offset, in one spelling."""
    seconds, fraction = divmod(attoseconds, SECOND)
    instant = (EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=dt.timezone.utc)
    local = instant.astimezone(zone or dt.timezone.utc)
    clock = local.replace(tzinfo=None).isoformat(timespec="seconds")
    if fraction:
        clock += f".{fraction:018d}".rstrip("0")
    elif local.second == 0:
        clock = clock[:-3]
    offset = local.isoformat()[19:]
    return clock + ("Z" if zone in (None, dt.timezone.utc) else offset)


def whole_ticks(instant: np.datetime64 | np.timedelta64, unit: str) -> int | None:
    """Return an instant in units from 1970 (or a duration in units), rounded down; None for months, years and NaT.

    >>> whole_ticks(np.datetime64("1969-12-31T23:59:59.9"), "s")
    -1
    """
    own, multiple = np.datetime_data(instant.dtype)
    if own not in UNITS or np.isnat(instant):
        return None
    return int(instant.astype(np.int64)) * multiple * UNITS[own] // UNITS[unit]
