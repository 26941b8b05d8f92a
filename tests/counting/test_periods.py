"""Periods: where they begin on a grid, and counts in which an individual within each of them counts by itself.

No test is random but by seeds and keys that are fixed.
"""

import datetime as dt
import functools
import os

import numpy as np
import pytest

from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.counting import capped_count as packing
from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.tables import caps_of
from tests.counting.test_calendars import ZONES
from tests.counting.test_database import DuckDB, Spark
from tests.oracles import calendars
from tests.oracles import counting as oracle

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

from pyarrow import dataset  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))
UNITS = ["1d", "1w", "1mo", "1q", "1y"]


# --- Where periods begin


def seen_starts(grid, unit):
    """The first steps of periods, by what the clock shows when each step begins and a microsecond before it ends."""
    edges = grid.edges().astype("M8[us]").astype(np.int64).tolist()

    def seen(tick):
        return calendars.PERIODS[unit[1:]](calendars.clock_at(tick, grid.zone).date())

    periods = [seen(low) for low in edges[:-1]]
    assert periods == [seen(high - 1) for high in edges[1:]], "a step in two periods"
    return [step for step, period in enumerate(periods) if step == 0 or period != periods[step - 1]]


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Africa/Cairo", *(pytest.param(z, marks=pytest.mark.long) for z in ZONES)]
)
def test_periods_begin_where_the_clock_says(zone):
    for start, end, step in [
        ("2024-10-20T05:00", "2024-11-12T01:00", "30min"),
        ("2024-02-27", "2026-02-03", "1d"),
        ("2024-04-22T12:00", "2024-04-29T12:00", "15min"),
    ]:
        grid = TimeGrid(start=start, end=end, step=step, zone=zone)
        for unit in UNITS:
            period, starts = Period(unit, zone), seen_starts(grid, unit)
            assert period.starts(grid).tolist() == starts, (start, unit)
            # Periods begin at or before their first step, and the next one after their last.
            first, last = period.span(grid)
            low, high = (grid.edges().astype("M8[us]").astype(np.int64)[[0, -1]] - [0, 1]).tolist()
            kind = calendars.PERIODS[unit[1:]]
            for begin, within in ((first, low), (last, high)):
                assert begin * 10**6 <= within
                assert kind(calendars.clock_at(begin * 10**6, zone).date()) == kind(
                    calendars.clock_at(within, zone).date()
                )
                assert kind(calendars.clock_at(begin * 10**6 - 1, zone).date()) != kind(
                    calendars.clock_at(begin * 10**6, zone).date()
                )


def test_a_day_that_clocks_skip_is_no_period():
    zone = "Pacific/Apia"
    grid = TimeGrid(start="2011-12-28", end="2012-01-02", step="1h", zone=zone)
    assert Period("1d", zone).starts(grid).tolist() == seen_starts(grid, "1d") == [0, 24, 48, 72]


@pytest.mark.parametrize(
    ("period", "grid"),
    [
        (Period("1d", "UTC"), TimeGrid(start="2024-01-01", size=40, step="7h", zone="UTC")),
        (Period("1d", "UTC"), TimeGrid(start="2024-01-01", size=4, step="1mo", zone="UTC")),
        (Period("1mo", "UTC"), TimeGrid(start="2024-01-01", size=8, step="1w", zone="UTC")),
        # Clocks change by half an hour, and days do not begin on the hour from then on.
        (
            Period("1d", "Australia/Lord_Howe"),
            TimeGrid(start="2024-04-06", size=90, step="1h", zone="Australia/Lord_Howe"),
        ),
        (
            Period("1d", "UTC"),
            TimeGrid.from_edges(["2024-01-01", "2024-01-01T23:59:59.5", "2024-01-02T00:00:01"], zone="UTC"),
        ),
    ],
)  # fmt: skip
def test_steps_that_lie_in_two_periods_are_refused(period, grid):
    with pytest.raises(ValueError, match=r"step \d+ of TimeGrid.* lies in more than one .*Choose steps"):
        period.starts(grid)


def test_a_step_of_seven_hours_is_in_two_days():
    with pytest.raises(ValueError, match="2024-01-02T00:00Z"):
        Period("1d", "UTC").starts(TimeGrid(start="2024-01-01", size=40, step="7h", zone="UTC"))


def test_periods_are_read_on_the_clock_of_the_grid():
    hours = TimeGrid(start="2024-01-01", size=48, step="1h", zone="UTC")
    for period, grid in [
        (Period("1d", "Europe/Paris"), hours),
        (Period("1d", "UTC"), TimeGrid(size=48)),
        (Period("1d", "UTC"), TimeGrid(start="2024-01-01T00:00Z", size=48, step="1h")),
        (Period(24), hours),
    ]:
        with pytest.raises(ValueError, match="zone"):
            period.starts(grid)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("12h", "UTC"), ValueError, "must be one unit of the calendar"),
        (("2w", "UTC"), ValueError, "must be one unit of the calendar"),
        (("1d",), ValueError, "needs the zone"),
        (("1d", "Nowhere"), ValueError, "IANA name"),
        ((0,), ValueError, "at least 1"),
        ((1.5,), TypeError, "must be an integer"),
        ((True,), TypeError, "must be an integer"),
        ((24, "UTC"), ValueError, "must be left out"),
    ],
)
def test_what_is_no_period_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        Period(*arguments)


# --- Counts


def rows_of(seed, *, people, size, rows):
    random = np.random.default_rng(seed)
    return random.integers(0, people, rows), random.integers(-1, size + 1, rows)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("series", "cycle", "starts"), [
    (1, 24, [0, 6, 12, 18]),
    (1, 24, [0, 1, 9, 10, 22]),
    (3, 12, [0, 5, 7]),
    (2, 12, [0]),
    (1, 8, range(8)),
])  # fmt: skip
def test_counts_are_those_of_the_oracle(monkeypatch, series, cycle, starts, wide):
    monkeypatch.setattr(packing, "_CHUNK", 50)
    starts = np.array(starts)
    who, where = rows_of(1, people=6, size=series * cycle, rows=400)
    who = who.astype(np.uint64) * np.uint64(2**61 + 12345) if wide else who
    for cap, step_cap, gap, few in [
        (1, 1, 1, None), (2, 3, 1, 1), (2, 1, 2, None), (4, 2, 5, 2), (100, 9, cycle, 1), (100, 9, 1, None),
    ]:  # fmt: skip
        caps = caps_of(series * cycle, participation_cap=cap, step_cap=step_cap, gap=gap, key_cap=few)
        got = capped_count(who, where, size=series * cycle, caps=caps, key=KEY, cycle=cycle, periods=starts)
        assert got.tolist() == oracle.capped_counts(
            zip(who.tolist(), where.tolist(), strict=True),
            size=series * cycle, participation_cap=cap, step_cap=step_cap, key=KEY, gap=gap, cycle=cycle, key_cap=few,
            period_of=lambda step: int(np.searchsorted(starts, step, side="right")),
        )  # fmt: skip


ZONE = "Africa/Cairo"
#: Days of 23 to 25 hours, the first and the last in part.
GRID = TimeGrid(start="2024-04-24T10:00", end="2024-04-29T07:00", step="1h", zone=ZONE)
DAY = Period("1d", ZONE)
PANEL = ["a", "b"]


def crowd(people=7, rows=900, seed=3):
    """Who, the instant and the key of rows: most people are over a cap of 3 in most days."""
    random = np.random.default_rng(seed)
    edges = GRID.edges().astype("M8[s]").astype(np.int64)
    return (
        random.integers(0, people, rows),
        random.integers(edges[0] - 7200, edges[-1] + 7200, rows),
        random.choice(["a", "b", "c"], rows),
    )


def tables(backend=None):
    """Tables of the same rows, by engine."""

    def columns(who, seconds, key):
        return {"id": pa.array(who), "time": pa.array(seconds * 10**6, pa.timestamp("us", "UTC")), "at": pa.array(key)}

    return {
        "memory": lambda *rows: pa.table(columns(*rows)),
        "pandas": lambda *rows: pa.table(columns(*rows)).to_pandas(),
        "lazy": lambda *rows: pl.from_arrow(pa.table(columns(*rows))).lazy(),
        "batches": lambda *rows: dataset.dataset(pa.table(columns(*rows))),
        "database": lambda *rows: (backend or DuckDB()).table(**columns(*rows)),
    }  # fmt: skip


def layout(*, panel):
    return Layout("id", "time", GRID, *(("at", PANEL) if panel else ()), period=DAY)


def counted(table, cap, step_cap, gap, *, panel):
    """With a panel, each individual in one series at a time."""
    places = layout(panel=panel)
    few = 1 if panel else None
    caps = caps_of(places.size, participation_cap=cap, step_cap=step_cap, gap=gap, key_cap=few)
    return engine_of(table).count(table, places, caps, KEY)


def day_of(second):
    return calendars.clock_at(second * 10**6, ZONE).date()


def in_steps(who, seconds, key, *, panel):
    """Rows as the oracle takes them, steps and days by what the clock shows."""
    low = int(GRID.edges()[0].astype("M8[s]").astype(np.int64))
    days = {}
    rows = []
    for person, second, place in zip(who.tolist(), seconds.tolist(), key.tolist(), strict=True):
        step = (second - low) // 3600
        if 0 <= step < GRID.size and (not panel or place in PANEL):
            days[step] = day_of(second)
            rows.append((person, step + (PANEL.index(place) * GRID.size if panel else 0)))
    return rows, days


CASES = [(3, 1, 1), (2, 5, 4), (100, 1, 7), (1, 2, 1)]  # cap, step cap, gap


def check_engine(name, make, panel):
    log = crowd()
    rows, days = in_steps(*log, panel=panel)
    size = GRID.size * (2 if panel else 1)
    for cap, step_cap, gap in CASES:
        got = counted(make(*log), cap, step_cap, gap, panel=panel)
        expected = oracle.capped_counts(
            rows, size=size, participation_cap=cap, step_cap=step_cap, key=KEY, gap=gap, cycle=GRID.size,
            key_cap=1 if panel else None, period_of=days.__getitem__,
        )  # fmt: skip
        if name != "database":
            assert got.tolist() == expected, (name, cap, step_cap, gap)
        elif step_cap == 1 and not (panel and gap > 1):  # it keeps other steps, and as many but of few series
            assert in_days(got, days) == in_days(expected, days), (cap, gap)


def in_days(counts, days):
    found = {}
    for position, number in enumerate(np.asarray(counts).tolist()):
        day = days.get(position % GRID.size)
        found[day] = found.get(day, 0) + number
    return found


def check_nobody_depends_on_more(make, panel):
    """Leaving out what one individual did within one day changes at most that, within the caps; and all else stays."""
    who, seconds, key = crowd(people=4, rows=400)
    days = np.array([day_of(second).toordinal() for second in seconds.tolist()])
    step_days = np.array(
        [day_of(second).toordinal() for second in GRID.edges()[:-1].astype("M8[s]").astype(np.int64).tolist()]
    )
    step_days = np.tile(step_days, 2 if panel else 1)
    for cap, step_cap, gap, some in [(3, 2, 1, [(0, 0), (1, 2)]), (100, 1, 5, [(2, 1)])]:
        whole = counted(make(who, seconds, key), cap, step_cap, gap, panel=panel)
        for person, number in some:
            day = np.unique(step_days)[number]
            left = ~((who == person) & (days == day))
            assert not left.all()
            change = whole - counted(make(who[left], seconds[left], key[left]), cap, step_cap, gap, panel=panel)
            assert change.min() >= 0
            assert 1 <= np.count_nonzero(change) <= cap
            assert change.max() <= step_cap
            assert set(step_days[change > 0].tolist()) == {day}


@pytest.mark.parametrize("panel", [False, True])
def test_every_engine_counts_within_days(panel):
    for name, make in tables().items():
        check_engine(name, make, panel)


@pytest.mark.parametrize("engine", ["memory", "batches", "database"])
def test_leaving_out_one_day_of_one_individual_changes_only_that(engine):
    check_nobody_depends_on_more(tables()[engine], panel=engine != "batches")


@pytest.mark.parametrize("engine", ["memory", "batches", "database"])
def test_a_gap_does_not_reach_into_the_next_period(engine):
    make = {
        "memory": pa.table,
        "batches": lambda log: dataset.dataset(pa.table(log)),
        "database": lambda log: DuckDB().table(**log),
    }
    places, caps = Layout("id", "time", TimeGrid(size=24), period=Period(6)), Caps(24, 1, gap=3)

    def count(*steps):
        log = {"id": pa.array([7] * len(steps)), "time": pa.array(steps)}
        table = make[engine](log)
        return np.flatnonzero(engine_of(table).count(table, places, caps, KEY)).tolist()

    assert count(5, 6, 9, 11) == [5, 6, 9]
    assert count(6, 9, 11) == [6, 9]
    assert count(0, 1, 22, 23) == [0, 22]  # of two periods, they may be near to each other around the cycle too


@pytest.mark.parametrize(
    ("size", "series", "length", "gap", "steps"),
    [
        (
            25,
            2,
            13,
            5,
            [19, 21, 24, 25, 27, 29],
        ),  # series 1 at 0, 2 and 4
        (480, 6, 24, 12, range(6 * 480)),
    ],
)
def test_a_database_thins_each_series_by_itself(size, series, length, gap, steps):
    steps, layout = (
        np.array(steps),
        Layout("id", "time", TimeGrid(size=size), "at", range(series), period=Period(length)),
    )
    table = DuckDB().table(id=pa.array(steps * 0), time=pa.array(steps % size), at=pa.array(steps // size))
    caps = caps_of(layout.size, participation_cap=10**6, step_cap=1, gap=gap)
    counts = engine_of(table).count(table, layout, caps, KEY)
    assert counts.tolist() == oracle.capped_counts(
        [(0, step) for step in steps.tolist()],
        size=layout.size, cycle=size, period_of=lambda step: step // length, key=KEY, **caps._asdict(),
    )  # fmt: skip
    stated = count_influence(
        1, participation_cap=10**6, step_cap=1, size=layout.size, series=series, gap=gap, replaced=False,
        periods=[length],
    )  # fmt: skip
    by_step = np.count_nonzero(counts.reshape(series, size), axis=0)
    assert np.add.reduceat(by_step, range(0, size, length)).max() <= stated.l0


@pytest.mark.long
def test_spark_counts_within_days(tmp_path):
    pytest.importorskip("pyspark")
    if not any(os.access(os.path.join(folder, "java"), os.X_OK) for folder in os.get_exec_path()):
        pytest.skip("Spark needs Java")
    make = tables(Spark(tmp_path))["database"]
    check_engine("database", make, panel=True)
    check_nobody_depends_on_more(make, panel=False)


def test_a_last_period_that_is_longer_is_one_period():
    # February and March: nobody counts a third time for the last days of March.
    grid = TimeGrid(start="2023-02-01", end="2023-04-01", step="1d", zone="UTC")
    places = Layout("id", "time", grid, period=Period("1mo", "UTC"))
    log = {"id": pa.array([7] * 59), "time": pa.array(grid.edges()[:-1].astype("M8[s]"))}
    for table in (pa.table(log), DuckDB().table(**log)):
        counts = engine_of(table).count(table, places, Caps(1, 1), KEY)
        assert (counts[:28].sum(), counts[28:].sum()) == (1, 1)


@pytest.mark.parametrize("even", [False, True])
def test_participation_is_of_each_day(even):
    grid, period = (TimeGrid(size=48), Period(24)) if even else (GRID, DAY)
    who = np.array([1, 1, 1, 1, 2, 2])
    step = np.array([0, 1, 30, 31, 5, 5])
    start = np.datetime64("2024-04-24T08:00", "h")
    columns = {"id": who, "time": step if even else (start + step).astype("M8[us]")}
    aware = pa.array(step) if even else pa.array(columns["time"].astype(np.int64), pa.timestamp("us", "UTC"))
    log = {"id": pa.array(who), "time": aware}
    for table in (pa.table(log), dataset.dataset(pa.table(log)), DuckDB().table(**log)):
        places = Layout("id", "time", grid, period=period)
        assert sorted(engine_of(table).participation(table, places).tolist()) == [1, 2, 2]
        assert sorted(engine_of(table).participation(table, places, 2).tolist()) == [1, 1, 1]


def test_more_places_than_a_row_has_bits_for_are_refused():
    midnight = dt.datetime(2000, 1, 1)
    edges = [midnight + dt.timedelta(days=k) for k in range(1100)]
    edges += [edges[-1] + dt.timedelta(seconds=k) for k in range(1, 2**12)]
    grid = TimeGrid.from_edges(edges, zone="UTC")
    keys = [str(k) for k in range(2**12)]
    count = functools.partial(Count, source=None, grid=grid, participation_cap=1, unit=Unit(period=Period("1d", "UTC")))
    with pytest.raises(ValueError, match="about as many steps in each period"):
        count(panel=tuple(keys))
    count(panel=tuple(keys[: 2**9]))
