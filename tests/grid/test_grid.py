"""The time grid: exact for every instant, anchored by nothing in the data, refused by type alone."""

import dataclasses
import datetime as dt
import functools
import json
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opendp_timeseries import interpolate
from opendp_timeseries.grid import TimeGrid
from tests.oracles import counting as oracle
from tests.refused import refuses
from tests.releases import release_of

HOURLY = TimeGrid(size=4, start="1969-12-31T22:00", step="1h", zone="UTC")
INT64 = st.integers(-(2**63), 2**63 - 1)


def at(*times, unit="s"):
    return np.array(times, dtype=f"datetime64[{unit}]")


def truncated(grid, times):
    """Broken on purpose: rounds toward zero."""
    hours = times.astype("datetime64[s]").view(np.int64) / 3600 - grid.instants()[0].astype(np.int64) / 3600
    return np.trunc(hours).astype(np.int64)


def nanoseconds(grid, times):
    """Broken on purpose: converts the unit before the range is checked, so far times wrap on to the grid."""
    start = grid.instants()[0].astype("datetime64[ns]").astype(np.int64)
    return (times.astype("datetime64[s]").view(np.int64) * 10**9 - start) // 3600_000_000_000


def floating(grid, times):
    """Broken on purpose: passes through a float."""
    start = grid.instants()[0].astype("datetime64[ns]").astype(np.int64)
    ticks = times.astype("datetime64[ns]").view(np.int64).astype(np.float64)
    return np.floor((ticks - float(start)) / 3600e9).astype(np.int64)


YEAR = TimeGrid(size=8760, start="2013-01-01", step="1h", zone="UTC")
BROKEN = [
    (truncated, HOURLY, at("1969-12-31T21:30")),  # half an hour before the grid
    (nanoseconds, YEAR, at("2013-06-01") + np.timedelta64(2**64 // 10**9, "s")),  # wraps to a moment in 2013
    (floating, YEAR, at("2013-06-01T00:59:59.999999999", unit="ns")),  # the last instant of its step
]


@pytest.mark.parametrize(("broken", "grid", "times"), BROKEN, ids=lambda part: getattr(part, "__name__", ""))
def test_broken_variants_are_caught(broken, grid, times):
    def exact(times):
        width, start = oracle.Fraction(3600), oracle.Fraction(int(grid.instants()[0].astype(np.int64)))
        unit = np.datetime_data(times.dtype)[0]
        return [oracle.step_of(int(t), unit, start=start, width=width, size=grid.size) for t in times.view("i8")]

    assert grid.steps(times).tolist() == exact(times)
    wrong = broken(grid, times).tolist()
    assert wrong != exact(times)
    assert 0 <= wrong[0] < grid.size


SECONDS = {"h": 3600, "min": 60, "s": 1, "ms": oracle.Fraction(1, 10**3), "us": oracle.Fraction(1, 10**6),
           "ns": oracle.Fraction(1, 10**9)}  # fmt: skip


def seconds_of(step):
    number = step.rstrip("abcdefghijklmnopqrstuvwxyz")
    return oracle.Fraction(int(number)) * SECONDS[step[len(number) :]]


@pytest.mark.parametrize("step", ["1h", "90min", "24h", "168h", "1s", "500ms"])
def test_every_unit_gives_the_same_steps(step):
    grid = TimeGrid(size=400, start="2012-12-31T12:00", step=step, zone="UTC")
    days = np.arange("2012-12-20", "2013-02-01", dtype="datetime64[D]")
    expected = [
        oracle.step_of(
            int(day), "D", start=oracle.seconds(dt.datetime(2012, 12, 31, 12, tzinfo=dt.UTC)),
            width=seconds_of(step), size=400,
        )
        for day in days.view(np.int64)
    ]  # fmt: skip
    for unit in ("D", "h", "m", "s", "ms", "us", "ns"):
        assert grid.steps(days.astype(f"datetime64[{unit}]")).tolist() == expected, unit
    assert grid.steps(days.astype(">M8[s]")).tolist() == expected


def test_a_missing_time_is_off_the_grid():
    grid = TimeGrid(size=24, start="2013-01-01", step="1h", zone="UTC")
    assert grid.steps(at("NaT", "2013-01-01T00:10", unit="ns")).tolist() == [-1, 0]
    for zone in ("UTC", "Asia/Kathmandu"):
        everything = TimeGrid(size=1, start="1700-01-01", step="100000d", zone=zone)
        assert everything.steps(at("NaT", unit="us")).tolist() == [-1]


widths = st.one_of(
    st.sampled_from(["1h", "24h", "168h", "5min", "1s", "1ms", "1us", "1ns", "7us", "13min"]),
    st.builds("{}{}".format, st.integers(1, 10**4), st.sampled_from(["h", "min", "s", "ms", "us", "ns"])),
)


@given(
    start=st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    step=widths,
    size=st.integers(1, 2**20),
    unit=st.sampled_from(list(oracle.UNITS)),
    far=st.lists(INT64, max_size=20),
    near=st.lists(st.tuples(st.integers(0, 2**21), st.integers(-2, 2)), max_size=20),
)
@example(dt.datetime(1969, 12, 31), "1h", 4, "ns", [-(2**63), 2**63 - 1, -1, 0], [(1, 0)])
def test_steps_are_exact(start, step, size, unit, far, near):
    try:
        grid = TimeGrid(size=size, start=start, step=step, zone="UTC")
    except ValueError:
        return
    begin, width = oracle.seconds(start.replace(tzinfo=dt.UTC)), seconds_of(step)
    edges = [(begin + k * width) // oracle.UNITS[unit] + shift for k, shift in near]
    ticks = [tick for tick in far + edges if -(2**63) <= tick < 2**63]
    times = np.array(ticks, dtype=np.int64).view(f"datetime64[{unit}]")
    expected = [oracle.step_of(tick, unit, start=begin, width=width, size=size) for tick in ticks]
    assert grid.steps(times).tolist() == expected


@given(start=st.datetimes(dt.datetime(1680, 1, 1), dt.datetime(2259, 1, 1)), step=widths, size=st.integers(1, 50))
def test_every_grid_takes_its_own_instants(start, step, size):
    try:
        grid = TimeGrid(size=size, start=start, step=step, zone="UTC")
    except ValueError:
        return
    instants = grid.instants()
    assert grid.steps(instants).tolist() == list(range(size))
    tick = np.timedelta64(1, np.datetime_data(instants.dtype)[0])
    assert grid.steps(instants - tick).tolist() == list(range(-1, size - 1))
    assert TimeGrid.from_dict(json.loads(json.dumps(grid.to_dict()))) == grid


class TestClocks:
    """Naive times are on the clock of the grid's zone."""

    YEAR = TimeGrid(size=365 * 48, start="2013-01-01", step="30min", zone="America/New_York")

    def test_a_day_is_one_of_the_calendar_and_24_hours_are_not(self):
        start = {"size": 365, "start": "2013-01-01", "zone": "America/New_York"}
        times = at("2013-03-10T23:59:59", "2013-03-11T00:00", "2013-03-11T00:59:59", "2013-03-11T01:00")
        assert TimeGrid(step="1d", **start).steps(times).tolist() == [68, 69, 69, 69]
        assert TimeGrid(step="24h", **start).steps(times).tolist() == [68, 68, 68, 69]

    def test_dates_are_midnights_on_that_clock(self):
        days = np.arange("2013-01-01", "2013-01-04", dtype="datetime64[D]")
        assert self.YEAR.steps(days).tolist() == [0, 48, 96]

    @pytest.mark.thinned(3)
    @pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia",
                                      "Africa/Casablanca", "Europe/Dublin", "America/Argentina/San_Luis"])  # fmt: skip
    def test_against_a_search_for_instants(self, zone):
        grid = TimeGrid(size=14 * 365 * 24 * 12, start="2005-01-01T00:00Z", step="5min", zone=zone)
        # Around every change of the clock in these years, and elsewhere.
        tz, hour = ZoneInfo(zone), dt.timedelta(hours=1)
        clock, clocks = dt.datetime(2005, 1, 3), []
        while clock < dt.datetime(2018, 1, 1):
            clock += 24 * hour
            if clock.replace(tzinfo=tz).utcoffset() != (clock - 24 * hour).replace(tzinfo=tz).utcoffset():
                clocks += [clock - 36 * hour + k * hour / 4 for k in range(60 * 4)]
        clocks += [dt.datetime(2006, 7, 1) + k * 157 * hour for k in range(100)]
        start, width = oracle.seconds(dt.datetime(2005, 1, 1, tzinfo=dt.UTC)), oracle.Fraction(300)
        expected = [int((oracle.local_seconds(clock, zone) - start) // width) for clock in clocks]
        for unit in ("m", "s", "ns"):
            assert grid.steps(np.array(clocks, dtype=f"datetime64[{unit}]")).tolist() == expected

    def test_far_times_are_off_the_grid(self):
        for unit in ("D", "h", "m", "s", "ms", "us", "ns"):
            far = np.array([-(2**63), -(2**63) + 1, 2**63 - 1], dtype=np.int64).view(f"datetime64[{unit}]")
            assert self.YEAR.steps(far).tolist() == [-1, -1, -1]

    def test_aware_times_do_not_depend_on_the_zone(self):
        times = at("2013-07-01T12:00")
        utc = TimeGrid(size=365 * 48, start="2013-01-01T05:00", step="30min", zone="UTC")
        assert self.YEAR.steps(times, aware=True).tolist() == utc.steps(times).tolist()

    def test_without_a_zone_naive_times_are_refused(self):
        grid = TimeGrid(size=24, start="2013-01-01T00:00Z", step="1h")
        assert grid.steps(at("2013-01-01T01:00"), aware=True).tolist() == [1]
        refuses("zone='UTC'", grid.steps, at("2013-01-01T01:00"), error=TypeError)


class TestIntegerSteps:
    def test_integers_of_any_type(self):
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, ">i4"):
            grid = TimeGrid(size=100)
            assert grid.steps(np.array([0, 99, 100], dtype=dtype)).tolist() == [0, 99, -1]
            bounds = np.iinfo(dtype)
            assert grid.steps(np.array([bounds.min, bounds.max], dtype=dtype))[1] == -1
        assert TimeGrid(size=1000).steps(np.array([-1, 127], dtype=np.int8)).tolist() == [-1, 127]
        assert TimeGrid(size=2**31).steps(np.array([2**64 - 1, 2**63], dtype=np.uint64)).tolist() == [-1, -1]

    def test_instants(self):
        assert TimeGrid(size=3).instants().tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
def test_a_number_without_a_unit_is_no_time():
    refuses("times of type datetime64", HOURLY.steps, np.zeros(2, dtype="M8"), error=TypeError)
    refuses("step", TimeGrid, size=1, start="2013-01-01", step=np.timedelta64(3), zone="UTC")


def test_a_time_is_placed_alike_in_every_unit():
    # One odd row can give a column of pandas a finer unit; it must not change how the others are read.
    early = TimeGrid(size=280, start="1700-01-01", step="365d", zone="UTC")
    texts = ["1600-01-01", "1700-01-01", "1969-12-31T23:59:59", "2000-06-01", "2261-01-01", "9999-12-31", "NaT"]
    expected = early.steps(at(*texts, unit="us"))
    assert expected.tolist() == [-1, 0, 270, -1, -1, -1, -1]
    for unit in ("s", "ms", "ns"):
        inside = [text for text in texts if unit != "ns" or "1678" < text < "2262" or text == "NaT"]
        assert early.steps(at(*inside, unit=unit)).tolist() == early.steps(at(*inside, unit="us")).tolist()
    just_before = at("1969-12-31T23:59:59.999999999", unit="ns")
    days = TimeGrid(size=100_000, start="1700-01-01", step="1d", zone="UTC")
    assert days.steps(just_before)[0] == days.steps(at("1969-12-31", unit="s"))[0]


@pytest.mark.parametrize(("unit", "per_nanosecond"), [("ps", 10**3), ("fs", 10**6), ("as", 10**9)])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_what_is_finer_than_nanoseconds_is_rounded_down(unit, per_nanosecond, zone):
    grid = TimeGrid(size=6, start="1969-12-31T23:59:59.999999998Z", step="1ns", zone=zone)
    ahead = 0 if zone == "UTC" else 19800 * 10**9  # of Nepal, in 1970
    ticks = [ns * per_nanosecond + shift for ns in range(-3, 5) for shift in (-1, 0, 1, per_nanosecond - 1)]
    expected = [step if 0 <= (step := tick // per_nanosecond + 2) < 6 else -1 for tick in ticks]
    times = np.array(ticks, np.int64)
    assert grid.steps(times.view(f"M8[{unit}]"), aware=True).tolist() == expected
    assert grid.steps(np.array(["NaT"], f"M8[{unit}]")).tolist() == [-1]
    if unit == "ps":  # finer ones hold no time so far from 1970
        assert grid.steps((times + ahead * per_nanosecond).view("M8[ps]")).tolist() == expected


class TestCalendar:
    """Steps that are units of the calendar; tests/counting/test_calendars.py counts by them in every engine."""

    @pytest.mark.parametrize(
        ("zone", "start", "days"),
        [
            ("Europe/London", "2024-03-29", 5),
            ("Australia/Lord_Howe", "2024-04-05", 4),
            ("America/Sao_Paulo", "2018-11-02", 4),  # no midnight
            ("Asia/Beirut", "2024-10-25", 4),  # the hour before midnight twice
            ("America/Havana", "2024-11-01", 4),  # the hour after midnight twice
            ("America/Toronto", "1919-03-29", 4),  # from 23:30 to 00:30
            ("America/St_Johns", "2006-10-27", 4),  # back from 00:01 to 23:01 of the day before
            ("Pacific/Apia", "2011-12-28", 4),  # a day skipped
            ("Pacific/Kwajalein", "1969-09-28", 4),  # a day twice
            ("Africa/Monrovia", "1972-01-05", 4),  # by 44 minutes and 30 seconds
            ("Asia/Kathmandu", "1969-12-30", 4),
            ("America/New_York", "2259-11-01", 10),
            ("Europe/Paris", "1680-02-27", 4),
        ],
    )
    def test_a_day_begins_when_the_clock_first_shows_it_or_a_later_one(self, zone, start, days):
        grid = TimeGrid(start=start, size=days, step="1d", zone=zone)
        edges = grid.edges().astype("M8[s]").astype(np.int64).tolist()
        reached, found = None, []
        for second in range(edges[0] - 90_000, edges[-1] + 1, 30):  # clocks change at multiples of this
            shown = (oracle.EPOCH + dt.timedelta(seconds=second)).astimezone(ZoneInfo(zone)).date()
            if reached is not None and shown > reached:
                found.append(second)
            reached = shown if reached is None else max(reached, shown)
        assert edges == found[-days - 1 :]
        assert grid.start == min(grid.start, start) or grid.start.startswith(start)

    def test_lengths_in_hours(self):
        def hours(start, size, step, zone):
            edges = TimeGrid(start=start, size=size, step=step, zone=zone).edges()
            return (np.diff(edges) / np.timedelta64(1, "h")).tolist()

        assert hours("2024-03-30", 3, "1d", "Europe/London") == [24, 23, 24]
        assert hours("2024-10-26", 3, "1d", "Europe/London") == [24, 25, 24]
        assert hours("2024-10-26", 3, "24h", "Europe/London") == [24, 24, 24]
        assert hours("2024-04-06", 2, "1d", "Australia/Lord_Howe") == [24, 24.5]
        assert hours("2024-03-25", 2, "1w", "Europe/London") == [167, 168]
        assert hours("2024-02-01", 3, "1mo", "UTC") == [29 * 24, 31 * 24, 30 * 24]
        assert hours("2023-01-01", 2, "1q", "UTC") == [90 * 24, 91 * 24]
        assert hours("2024-01-01", 2, "1y", "America/New_York") == [366 * 24, 365 * 24]
        assert hours("2024-01-01", 2, "2q", "UTC") == [182 * 24, 184 * 24]

    def test_size_and_end_say_the_same(self):
        for start, end, step, size in [
            ("2024-01-01", "2025-01-01", "1mo", 12),
            ("2024-01-01", "2025-01-01", "1d", 366),
            ("2024-01-01", "2025-01-01", "1y", 1),
            ("2024-03-30", "2024-04-01", "1h", 47),
            ("2024-01-01", "2024-01-15", "2w", 1),
            ("1702-01-01", "1991-11-01", "1mo", 289 * 12 + 10),
            ("2258-01-01", "2260-01-01", "1y", 2),
            ("1680-01-01", "1970-01-01", "145y", 2),
        ]:
            grid = TimeGrid(start=start, end=end, step=step, zone="Europe/London")
            assert grid == TimeGrid(start=start, size=size, step=step, zone="Europe/London")
            assert grid.end.startswith(end)
            assert TimeGrid(start=start, end=grid.end, step=step, zone="Europe/London") == grid
        assert TimeGrid(size=3).end is None

    @pytest.mark.parametrize(
        ("zone", "start", "same"),
        [
            ("UTC", "2024-01-01", ["1d", "24h", dt.timedelta(days=1), np.timedelta64(1, "D")]),
            ("UTC", "2024-01-01", ["1w", "7d", "168h"]),
            ("UTC", "2024-01-02", ["7d", "168h"]),
            ("UTC", "2024-01-01T05:00", ["24h", dt.timedelta(1)]),
            ("Europe/London", "2024-01-01", ["24h", "1440min", dt.timedelta(1)]),
            ("Europe/London", "2024-01-01", ["1w", "7d"]),
            ("Europe/London", "2024-01-01", ["1y", "4q", "12mo"]),
            ("Europe/London", "2024-04-01", ["4q", "12mo"]),
            ("Europe/London", "2024-02-01", ["3mo"]),
        ],
    )
    def test_a_width_has_one_spelling(self, zone, start, same):
        grids = [TimeGrid(start=start, size=5, step=step, zone=zone) for step in same]
        assert len(set(grids)) == len({repr(grid) for grid in grids}) == 1
        assert grids[0].step == same[0]
        assert eval(repr(grids[0])) == grids[0] == TimeGrid.from_dict(json.loads(json.dumps(grids[0].to_dict())))
        assert grids[0] != TimeGrid(start=start, size=5, step="25h", zone=zone)

    def test_days_and_24_hours_differ_where_clocks_change(self):
        days, hours = (TimeGrid(start="2024-01-01", size=2, step=step, zone="Europe/London") for step in ("1d", "24h"))
        assert days != hours

    def test_times_of_any_unit(self):
        months = TimeGrid(start="1969-11-01", size=4, step="1mo", zone="America/New_York")
        days = np.arange("1969-10-30", "1970-03-03", dtype="datetime64[D]")
        expected = [int(f"{day}"[:4]) * 12 + int(f"{day}"[5:7]) - 1969 * 12 - 11 for day in days]
        expected = [step if 0 <= step < 4 else -1 for step in expected]
        for unit in ("D", "h", "m", "s", "ms", "us", "ns"):
            times = days.astype(f"datetime64[{unit}]")
            assert months.steps(times).tolist() == expected, unit
            assert months.steps(times + np.timedelta64(1, "D") - np.timedelta64(1, unit)).tolist() == expected
        far = np.array([-(2**63), -(2**63) + 1, 2**63 - 1], dtype=np.int64)
        for unit in ("W", "D", "h", "m", "s", "ms", "us", "ns"):
            assert months.steps(far.view(f"datetime64[{unit}]"), aware=True).tolist() == [-1, -1, -1]

    def test_local_times(self):
        grid = TimeGrid(start="2024-10-26T23:30", size=8, step="30min", zone="Europe/London")
        assert str(grid.instants(zone="local")[[1, 3, 5, 7]]) == (
            "['2024-10-27T00:00:00' '2024-10-27T01:00:00' '2024-10-27T01:00:00'\n '2024-10-27T02:00:00']"
        )
        assert grid.edges().tolist() == grid.edges("UTC").tolist()
        assert (grid.edges("Asia/Kathmandu") - grid.edges()).tolist() == [dt.timedelta(hours=5, minutes=45)] * 9
        aware = TimeGrid(start="2024-01-01T00:00:00.5Z", size=2, step="1s")
        assert aware.edges("local").tolist() == aware.edges().tolist()
        assert str(aware.edges("Africa/Monrovia")[0]) == "2024-01-01T00:00:00.500"
        assert TimeGrid(size=2).edges("local").tolist() == [0, 1, 2]
        refuses("IANA", grid.instants, zone="here")


class TestPublicEdges:
    WEEKS = ("2024-01-08", "2024-01-15", "2024-01-23T05:00:00.25")

    def test_one_spelling(self):
        grid = TimeGrid.from_edges(self.WEEKS, zone="Europe/Paris")
        same = [
            ["2024-01-07T23:00Z", "2024-01-15 00:00", "2024-01-23T05:00:00.250"],
            [dt.date(2024, 1, 8), dt.datetime(2024, 1, 15, tzinfo=ZoneInfo("Europe/Paris")), "2024-01-23T05:00:00.25"],
            np.array(self.WEEKS, "M8[ms]"),
            iter(self.WEEKS),
        ]
        assert all(grid == TimeGrid.from_edges(edges, zone="Europe/Paris") for edges in same)
        assert eval(repr(grid)) == grid == TimeGrid.from_dict(json.loads(json.dumps(grid.to_dict())))
        assert hash(eval(repr(grid))) == hash(grid)
        assert (grid.size, grid.edges().dtype, grid.step, grid.is_integer) == (2, "M8[ms]", None, False)
        assert grid.start == "2024-01-08T00:00+01:00"
        assert grid.end == "2024-01-23T05:00:00.25+01:00"
        others = [
            grid,
            TimeGrid.from_edges(self.WEEKS, zone="Europe/Berlin"),
            TimeGrid.from_edges(self.WEEKS, zone="UTC"),
        ]
        others.append(TimeGrid.from_edges(self.WEEKS[:2], zone="Europe/Paris"))
        assert len(set(others)) == len({repr(grid) for grid in others}) == 4

    @pytest.mark.parametrize("size", [1, 2, 12])
    def test_even_edges_far_apart_all_come_back(self, size):
        years = np.datetime64("2024-01-01") + np.arange(size + 1) * np.timedelta64(366, "D")
        assert TimeGrid.from_edges([f"{year}T00:00Z" for year in years]).edges().tolist() == (
            years.astype("M8[s]").tolist()
        )

    def test_a_long_list_is_shown_by_its_digest(self):
        hours = np.arange("2024-01-01", "2024-02-01", dtype="M8[h]")
        long, other = (TimeGrid.from_edges(hours[np.arange(len(hours)) != k], zone="UTC") for k in (5, 6))
        assert len(repr(long)) < 200
        assert repr(long) != repr(other)
        assert TimeGrid.from_dict(long.to_dict()) == long != other

    def test_midnights_are_where_days_begin(self):
        grid = TimeGrid.from_edges(["2018-11-03", "2018-11-04", "2018-11-05"], zone="America/Sao_Paulo")
        assert grid.to_dict()["edges"][1] == "2018-11-04T01:00-02:00"
        hours = TimeGrid(start=dt.date(2018, 11, 4), end="2018-11-05", step="1h", zone="America/Sao_Paulo")
        assert (hours.start, hours.size) == ("2018-11-04T01:00-02:00", 23)
        assert TimeGrid(start="2024-11-03", size=1, step="1h", zone="America/Havana").start == "2024-11-03T00:00-04:00"

    @given(gaps=st.lists(st.integers(1, 10**9), min_size=1, max_size=12), data=st.data())
    def test_steps_and_the_table_for_other_engines(self, gaps, data):
        start = data.draw(st.integers(-(10**9), 10**9))
        edges = np.cumsum([start, *gaps])
        grid = TimeGrid.from_edges(edges.astype("M8[us]"), zone="UTC")
        near = [int(edge) + shift for edge in edges for shift in (-1, 0, 1)]
        ticks = near + data.draw(st.lists(st.integers(int(edges[0]) - 9, int(edges[-1]) + 9), max_size=9))
        expected = [sum(int(edge) <= tick for edge in edges) - 1 for tick in ticks]
        expected = [step if step < len(gaps) else -1 for step in expected]
        assert grid.steps(np.array(ticks, "M8[us]")).tolist() == expected
        assert grid.steps(np.array(ticks, "M8[us]") + np.timedelta64(999, "ns")).tolist() == expected
        rule = grid.step_rule()
        assert (len(rule.changes), rule.offsets.tolist()) == (0, [0])
        assert (rule.table is None) == (len(set(gaps)) == 1)
        for tick, step in zip(ticks, expected, strict=True):
            for at in (tick * 1000, tick * 1000 + 999):
                assert (step >= 0) == (rule.start <= at < rule.stop)
                cell = (at - rule.start) // rule.width
                if rule.table is None:
                    assert step in (cell, -1)
                    continue
                assert len(rule.table) <= 2 * grid.size
                cells, low, high, steps = rule.table.T
                fits = (cells == cell) & (low <= at) & (at < high)
                assert steps[fits].tolist() == ([step] if step >= 0 else [])


SAME = [
    {"start": "2013-01-01T00:00", "step": "1h", "zone": "UTC"},
    {"start": "2013-01-01", "step": "60min", "zone": "UTC"},
    {"start": "2013-01-01 00:00:00.000", "step": dt.timedelta(hours=1), "zone": "UTC"},
    {"start": dt.datetime(2013, 1, 1), "step": np.timedelta64(1, "h"), "zone": "UTC"},
    {"start": dt.date(2013, 1, 1), "step": "1h", "zone": "UTC"},
    {"start": np.datetime64("2013-01-01T00", "h"), "step": np.timedelta64(3600 * 10**9, "ns"), "zone": "UTC"},
    {"start": "2013-01-01T05:30+05:30", "step": "3600s", "zone": "UTC"},
    {"start": dt.datetime(2012, 12, 31, 19, tzinfo=ZoneInfo("America/New_York")), "step": "1h", "zone": "UTC"},
]


@pytest.mark.parametrize("fields", SAME)
def test_a_grid_has_one_spelling(fields):
    grid = TimeGrid(size=np.int32(24), **fields)
    assert grid == TimeGrid(size=24, **SAME[0])
    assert hash(grid) == hash(TimeGrid(size=24, **SAME[0]))
    assert repr(grid) == "TimeGrid(size=24, start='2013-01-01T00:00Z', step='1h', zone='UTC')"
    assert eval(repr(grid)) == grid
    assert TimeGrid.from_dict(grid.to_dict()) == grid


def test_every_field_is_in_the_representation_and_in_equality():
    base = {"size": 24, "start": "2013-01-01T00:00Z", "step": "1h", "zone": "UTC"}
    other = {"size": 25, "start": "2013-01-01T00:00:00.000000001Z", "step": "2h", "zone": "Europe/Paris"}
    grids = [TimeGrid(**base)] + [TimeGrid(**base | {name: value}) for name, value in other.items()]
    assert len(set(grids)) == len({repr(grid) for grid in grids}) == 5
    assert all(eval(repr(grid)) == grid for grid in grids)


def test_a_grid_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        HOURLY.size = 5


def test_pandas_scalars():
    pd = pytest.importorskip("pandas")
    grid = TimeGrid(size=2, start=pd.Timestamp("2013-01-01T00:00:00.000000001"), step=pd.Timedelta(5, "ns"), zone="UTC")
    assert grid.start == "2013-01-01T00:00:00.000000001Z"
    assert grid.step == "5ns"


def test_a_clock_that_is_none_is_named_as_it_was_given():
    days = TimeGrid(start="2024-03-30", size=3, step="1d", zone="Europe/Berlin")
    release = release_of(steps=[0], values=[1.0], signal=3, scale=1.0, sampling_probability=0.5)
    frame = interpolate(release).to_frame
    for zone, error in (("Berlin", ValueError), (5, TypeError), (["local"], TypeError)):
        for ask in (days.edges, days.instants, functools.partial(frame, grid=days)):
            refuses("zone", ask, error=error, zone=zone)


def test_a_start_at_the_second_of_two_times_that_a_clock_shows():
    again, berlin = dt.datetime(2024, 10, 27, 2, 30, fold=1), {"step": "1h", "size": 2, "zone": "Europe/Berlin"}
    assert TimeGrid(start=again, **berlin) == TimeGrid(start="2024-10-27T02:30+01:00", **berlin)
    refuses("start", TimeGrid, start=again.replace(fold=0), **berlin)
    assert TimeGrid(start=dt.datetime(2024, 7, 1, fold=1), **berlin) == TimeGrid(start="2024-07-01", **berlin)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_skipped_time_has_no_second_one_either(fold):
    hours = {"step": "1h", "size": 2}
    refuses("start", TimeGrid, start=dt.datetime(2024, 3, 31, 2, 30, fold=fold), zone="Europe/Paris", **hours)
    refuses("start", TimeGrid, start=dt.datetime(2011, 12, 30, fold=fold), zone="Pacific/Apia", **hours)
    day = dt.datetime(2024, 4, 26, fold=fold)  # in Cairo it began at one o'clock
    assert TimeGrid(start=day, zone="Africa/Cairo", **hours).start == "2024-04-26T01:00+03:00"
