"""Slow truths about calendars: what the clock shows at one instant after the other, asked of zoneinfo.

Shares no code with the package: it knows no edges, only which day each instant is of.
"""

import datetime as dt
from collections import Counter
from zoneinfo import ZoneInfo

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PERIODS = {
    "d": lambda day: day, "w": lambda day: day.isocalendar()[:2], "mo": lambda day: (day.year, day.month),
    "q": lambda day: (day.year, (day.month + 2) // 3), "y": lambda day: day.year,
}  # fmt: skip


def clock_at(microseconds, zone):
    """What the clock shows, so many microseconds after 1970 in UTC."""
    return (EPOCH + dt.timedelta(microseconds=int(microseconds))).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def days(start, stop, zone):
    """The days that the clock shows between two instants in seconds, looked at every hour."""
    return list(dict.fromkeys(clock_at(second * 10**6, zone).date() for second in range(start, stop, 3600)))


def periods(days, unit):
    """The weeks, months, … that days are of, in order, each once."""
    return list(dict.fromkeys(map(PERIODS[unit], days)))


def counts(clocks, listed, unit, each=1):
    """How many clocks show a time in the first ``each`` of the listed periods, in the next, …; others are left out."""
    found = Counter(PERIODS[unit](clock.date()) for clock in clocks)
    return [sum(found[period] for period in listed[k : k + each]) for k in range(0, len(listed), each)]
