"""Periods: where they begin on a grid, and counts in which an individual within each of them counts by itself.

No test is random but by seeds and keys that are fixed.
"""

import datetime as dt
import functools

import numpy as np
import pytest

from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.test_calendars import ZONES
from tests.oracles import calendars
from tests.refused import refuses

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

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
    refuses("step", period.starts, grid)


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
        refuses("zone", period.starts, grid)


@pytest.mark.parametrize(("arguments", "error", "match"), [
    (("12h", "UTC"), ValueError, "period"),
    (("2w", "UTC"), ValueError, "period"), (("1d",), ValueError, "period"),
    (("1d", "Nowhere"), ValueError, "IANA name"), ((0,), ValueError, r"period.*1"),
    ((1.5,), TypeError, "period"), ((True,), TypeError, "period"),
    ((24, "UTC"), ValueError, "zone"),
])  # fmt: skip
def test_what_is_no_period_is_refused(arguments, error, match):
    refuses(match, Period, *arguments, error=error)


# --- Counts


def test_more_places_than_a_row_has_bits_for_are_refused():
    midnight = dt.datetime(2000, 1, 1)
    edges = [midnight + dt.timedelta(days=k) for k in range(1100)]
    edges += [edges[-1] + dt.timedelta(seconds=k) for k in range(1, 2**12)]
    grid = TimeGrid.from_edges(edges, zone="UTC")
    keys = [str(k) for k in range(2**12)]
    reading = functools.partial(Reading, source=None, grid=grid, unit=Unit(period=Period("1d", "UTC")))
    refuses("bits of a period and a step within it", reading, panel=tuple(keys))
    reading(panel=tuple(keys[: 2**9]))
