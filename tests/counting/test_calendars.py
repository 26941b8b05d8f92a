"""Steps of the calendar, counted in memory and in a database as one would by looking at each event's clock."""

import datetime as dt
import itertools

import numpy as np
import pytest

from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import DuckDB, count_of
from tests.oracles import calendars as oracle

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

ZONES = [
    "Europe/London",
    "America/New_York",
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",  # a quarter of an hour off
    "America/St_Johns",
    "Pacific/Chatham",
    "Africa/Casablanca",  # back for Ramadan
    "Africa/Cairo",  # no midnight when clocks go forward
    "America/Santiago",  # an hour before midnight twice
    "America/Havana",  # midnight twice
    "Atlantic/Azores",  # the hour after midnight twice
    "Pacific/Apia",
]


def counted(table, grid):
    return engine_of(table).count(table, count_of(grid=grid), bytes(16)).tolist()


@pytest.mark.long
@pytest.mark.parametrize("zone", ZONES)
def test_units_of_the_calendar_in_every_zone(zone):
    """By events around every edge of a day and anywhere; of other engines, drawn cases have some zones."""
    start, stop, random = dt.date(2024, 1, 1), dt.date(2027, 1, 1), np.random.default_rng(12)  # the first is a Monday
    edges = TimeGrid(start=start, end=stop, step="1d", zone=zone).edges().astype("M8[us]").astype(np.int64)
    anywhere = random.integers(edges[0] - 10**11, edges[-1] + 10**11, 1000)
    ticks = np.concatenate([(edges[:, None] + [-1, 0, 1]).ravel(), anywhere])
    clocks, who = [oracle.clock_at(tick, zone) for tick in ticks], pa.array(range(len(ticks)))
    low, high = (int(edges[k]) // 10**6 for k in (0, -1))
    days = [day for day in oracle.days(low - 7200, high + 7200, zone) if start <= day < stop]
    aware = {"id": who, "time": pa.array(ticks, pa.timestamp("us", "UTC"))}
    naive = {"id": who, "time": pa.array(clocks, pa.timestamp("us"))}
    tables = [make(**log) for make in (lambda **log: pa.table(log), DuckDB().table) for log in (aware, naive)]
    for unit, each in itertools.product(["d", "w", "mo", "q", "y"], (1, 2)):
        listed = oracle.periods(days[: len(days) // 7 * 7] if unit == "w" else days, unit)  # whole weeks
        listed = listed[: len(listed) // each * each]
        grid = TimeGrid(start=start, size=len(listed) // each, step=f"{each}{unit}", zone=zone)
        for table in tables:
            assert counted(table, grid) == oracle.counts(clocks, listed, unit, each), (unit, each)


@pytest.mark.long
@pytest.mark.parametrize("start", ["2259-10-01", "1969-12-01", "1883-11-01"])
def test_far_times_in_a_database(start):  # in 1883 clocks got a standard time
    grid = TimeGrid(start=start, size=60, step="1d", zone="America/New_York")
    edges = grid.edges().astype("M8[us]").astype(np.int64)
    ticks = np.concatenate([(edges[:, None] + [-1, 0, 1]).ravel(), np.arange(edges[0] - 10**12, edges[-1], 10**11)])
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()):
        times = pa.array(ticks // (86400 * 10**6) if kind == pa.date32() else ticks)
        times = (times.cast(pa.int32()) if kind == pa.date32() else times).cast(kind)
        log = {"id": pa.array(range(len(ticks))), "time": times}
        expected = counted(pa.table(log), grid)
        assert sum(expected) > 50
        assert counted(DuckDB().table(**log), grid) == expected
