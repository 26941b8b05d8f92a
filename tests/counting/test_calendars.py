"""Steps of the calendar, counted by every engine as one would by looking at each event's clock."""

import datetime as dt
import functools
import itertools

import numpy as np
import pytest

from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of
from tests.oracles import calendars as oracle

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
ibis = pytest.importorskip("ibis")
pytest.importorskip("duckdb")

from pyarrow import dataset  # noqa: E402

from tests.counting.test_database import DuckDB  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

START, STOP = dt.date(2024, 1, 1), dt.date(2027, 1, 1)  # the first is a Monday
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
UNITS = ["d", "w", "mo", "q", "y"]


@functools.cache
def events(zone, start, stop):
    """Microseconds from 1970, UTC, around every edge of a day and anywhere; their clocks; and the days there are."""
    random = np.random.default_rng(12)
    edges = TimeGrid(start=start, end=stop, step="1d", zone=zone).edges().astype("M8[us]").astype(np.int64)
    anywhere = random.integers(edges[0] - 10**11, edges[-1] + 10**11, 1000)
    ticks = np.concatenate([(edges[:, None] + [-1, 0, 1]).ravel(), anywhere])
    clocks = [oracle.clock_at(tick, zone) for tick in ticks]
    low, high = (int(edges[k]) // 10**6 for k in (0, -1))
    days = [day for day in oracle.days(low - 7200, high + 7200, zone) if start <= day < stop]
    return ticks, clocks, days


def aware(ticks):
    return pa.array(ticks, pa.timestamp("us", "UTC"))


def local(clocks):
    return pa.array(clocks, pa.timestamp("us"))


MEMORY = {
    "NumPy": lambda ticks, clocks: {"id": np.arange(len(ticks)), "time": np.array(clocks, "M8[us]")},
    "pandas": lambda ticks, clocks: pa.table({"id": range(len(ticks)), "time": aware(ticks)}).to_pandas(),
    "objects": lambda ticks, clocks: pd.DataFrame({"id": range(len(ticks)), "time": pd.Series(clocks, dtype=object)}),
    "Polars": lambda ticks, clocks: pl.DataFrame({"id": range(len(ticks)), "time": clocks}),
    "lazy": lambda ticks, clocks: pl.from_arrow(pa.table({"id": range(len(ticks)), "time": aware(ticks)})).lazy(),
    "batches": lambda ticks, clocks: dataset.dataset(pa.table({"id": range(len(ticks)), "time": aware(ticks)})),
}


def counted(table, grid):
    return engine_of(table).count(table, count_of(grid=grid), bytes(16)).tolist()


def check(tables, zone, units=UNITS, start=START, stop=STOP):
    _, clocks, days = events(zone, start, stop)
    for unit, (each, table) in itertools.product(units, tables):
        listed = oracle.periods(days[: len(days) // 7 * 7] if unit == "w" else days, unit)  # whole weeks
        listed = listed[: len(listed) // each * each]
        grid = TimeGrid(start=start, size=len(listed) // each, step=f"{each}{unit}", zone=zone)
        assert counted(table, grid) == oracle.counts(clocks, listed, unit, each), (zone, unit, each)


def in_memory(zone, names=tuple(MEMORY), each=1):
    return [(each, MEMORY[name](*events(zone, START, STOP)[:2])) for name in names]


def in_database(zone, backend, each=1):
    ticks, clocks, _ = events(zone, START, STOP)
    who = pa.array(range(len(ticks)))
    return [(each, backend.table(id=who, time=aware(ticks))), (each, backend.table(id=who, time=local(clocks)))]


@pytest.mark.long
@pytest.mark.parametrize("zone", ZONES)
def test_units_of_the_calendar_in_every_zone_and_engine(zone):
    check(in_memory(zone), zone)
    check(in_database(zone, DuckDB()), zone)


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
