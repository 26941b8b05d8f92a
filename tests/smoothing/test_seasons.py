"""Patterns that follow the clock and the calendar: each step is looked up by itself, and a year with two changes."""

import calendar
import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from opendp_timeseries import TimeGrid, smooth
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import read_seasons, with_weekends
from opendp_timeseries.smoothing.structural import fit
from tests.reconstruction.simulated import LOCAL, after_changes, error_and_cover, local_rate, sampled
from tests.refused import refuses
from tests.releases import panel, release_of

HOLIDAYS = [dt.date(2024, 3, 29), "2024-04-01", np.datetime64("2024-12-25")]


def slow_phase(name, moment, holidays=()):
    """How much of a period is over, by Python's calendar."""
    day = (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
    weekday = 6 if moment.date() in holidays else moment.weekday()
    month = (moment.day - 1 + day) / calendar.monthrange(moment.year, moment.month)[1]
    return {
        "1d": day,
        "1w": (weekday + day) / 7,
        "1mo": month,
        "1q": ((moment.month - 1) % 3 + month) / 3,
        "1y": (moment.month - 1 + month) / 12,
    }[name]


@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize(
    ("step", "size", "names", "lengths"),
    [
        ("1h", 2500, ("1d", "1w", "1mo", "1q"), (24, 168)),
        ("30min", 2500, ("1d", "1w"), (48, 336)),
        ("1d", 800, ("1w", "1mo", "1q", "1y"), (7,)),
        ("1mo", 40, ("1q", "1y"), (3, 12)),
    ],
)
def test_each_step_is_where_its_clock_says(zone, step, size, names, lengths):
    grid = TimeGrid(start="2024-03-01", step=step, size=size, zone=zone)
    holidays = HOLIDAYS if "1w" in names else ()
    free = [dt.date(2024, 3, 29), dt.date(2024, 4, 1), dt.date(2024, 12, 25)]
    found = read_seasons(names, grid, size, holidays)
    assert [season.name for season in found] == list(names)
    assert [season.length for season in found][: len(lengths)] == list(lengths)
    moments = [
        dt.datetime.fromtimestamp(second, dt.UTC).astimezone(ZoneInfo(zone))
        for second in grid.instants().astype("M8[s]").astype(int).tolist()
    ]
    for season in found:
        expected = [slow_phase(season.name, moment, free if holidays else ()) for moment in moments]
        assert np.allclose(season.at(np.arange(size)), expected, rtol=0, atol=1e-9)


@pytest.mark.long
def test_a_year_with_two_changes_of_the_clocks():
    """Patterns by steps err more after a change, and their bands are too narrow there; by the clock, as ever."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(local_rate(LOCAL)).astype(float)
    release = sampled(counts, rng, scale=20.0, probability=0.2, grid=LOCAL)
    after = after_changes()
    low, high = (series := smooth(release, seasons=("1d", "1w"))).interval(0.9)
    assert series.model == "structural model (level, departure, season 1d, 1w)"
    errors, covered = np.abs(series.values - counts), (low <= counts) & (counts <= high)
    assert errors[after].mean() < 1.1 * errors[~after].mean() < 8
    assert 0.86 < covered[after].mean() < 0.94
    by_steps = np.abs(smooth(release, seasons=(24, 168)).values - counts)
    assert errors[after].mean() < 0.85 * by_steps[after].mean()
    assert errors.mean() < by_steps.mean()


def test_holidays_are_like_sundays():
    grid = TimeGrid(start="2024-01-01", step="1d", size=371, zone="UTC")  # from a Monday
    free = np.arange(2, 371, 20)
    holidays = [str(np.datetime64("2024-01-01") + np.timedelta64(int(day), "D")) for day in free]
    rate = np.where((np.arange(371) % 7 == 6) | np.isin(np.arange(371), free), 20.0, 100.0)
    rng = np.random.default_rng(1)
    counts = rng.poisson(rate).astype(float)
    release = sampled(counts, rng, scale=20.0, probability=1.0, grid=grid)
    informed = smooth(release, seasons="1w", holidays=holidays)
    uninformed = smooth(release, seasons="1w")
    assert np.abs(informed.values - counts)[free].mean() < 0.4 * np.abs(uninformed.values - counts)[free].mean()
    assert error_and_cover(informed, counts)[1] > 0.85


def test_by_the_clock_of_utc_is_by_steps():
    grid = TimeGrid(start="2024-01-01", step="1h", size=480, zone="UTC")
    rng = np.random.default_rng(2)
    release = sampled(rng.poisson(60 + 40 * np.sin(np.arange(480) * np.pi / 12)), rng, probability=0.5, grid=grid)
    assert np.allclose(smooth(release, seasons="1d").values, smooth(release, seasons=24).values, rtol=1e-6)


def test_a_count_made_elsewhere_is_told_its_grid():
    grid = TimeGrid(start="2024-01-01", step="1h", size=96, zone="UTC")
    made = {"steps": np.arange(192), "values": np.sin(np.arange(192) * np.pi / 12) * 50 + 90}
    many = panel("ab", **made, size=192, scale=5.0, probability=1.0)  # on a grid of integer steps
    for release in (many, release_of(steps=range(96), values=made["values"][:96], signal=96)):
        assert "season 1d" in smooth(release, seasons="1d", grid=grid).model
        refuses(r"seasons.*'1d'", smooth, release, seasons="1d")
        refuses(
            "grid",
            lambda: smooth(release, seasons="1d", grid=TimeGrid(start="2024-01-01", step="1h", size=95, zone="UTC")),  # noqa: B023
        )


@pytest.mark.parametrize(
    "day",
    [
        "2024-04-03",
        "20240403",
        "2024-04-03T00:00",
        "2024-04-03T00:00+02:00",
        "2024-04-02T22:30Z",
        dt.date(2024, 4, 3),
        dt.datetime(2024, 4, 3),
        dt.datetime(2024, 4, 3, tzinfo=ZoneInfo("Europe/Berlin")),
        dt.datetime(2024, 4, 2, 23, tzinfo=dt.UTC),
        np.datetime64("2024-04-03"),
        np.datetime64("2024-04-03T00:00", "ns"),
    ],
)
def test_a_holiday_is_the_day_that_the_clock_of_the_zone_shows(day):
    grid = TimeGrid(start="2024-04-01", step="1d", size=28, zone="Europe/Berlin")  # from a Monday
    (season,) = read_seasons("1w", grid, 28, [day])
    assert np.flatnonzero(season.phase >= 6 / 7).tolist() == [2, 6, 13, 20, 27]


def test_holidays_of_pandas_are_the_days_that_they_show():
    pd = pytest.importorskip("pandas")
    grid = TimeGrid(start="2024-04-01", step="1d", size=28, zone="Europe/Berlin")
    for zone in (None, "Europe/Berlin"):
        (season,) = read_seasons("1w", grid, 28, pd.DatetimeIndex(["2024-04-03", "2024-04-05"], tz=zone))
        assert np.flatnonzero(season.phase >= 6 / 7).tolist() == [2, 4, 6, 13, 20, 27]


def test_weekends_have_a_day_of_their_own():
    grid = TimeGrid(start="2024-03-01", step="1h", size=1500, zone="Europe/Berlin")
    day, week, weekend = with_weekends(read_seasons(("1d", "1w"), grid, 1500, [dt.date(2024, 4, 1)]))
    days = [time.date() for time in grid.edges("local")[:-1].astype("M8[s]").tolist()]
    free = [day.weekday() > 4 or day == dt.date(2024, 4, 1) for day in days]
    assert np.array_equal(weekend.size > 0, free)
    assert np.allclose(weekend.at(np.arange(1500)), day.at(np.arange(1500)))
    of_week = weekend.size[np.unique(np.floor(7 * week.phase + 1e-9), return_index=True)[1]]
    assert np.allclose([of_week.mean(), np.mean(of_week**2)], [0, 1])
    for names in ("1d", "1w", (24, 168)):
        seasons = read_seasons(names, grid, 1500)
        assert with_weekends(seasons) is seasons


def a_fit(rates, seed, *, start, step, noise, by_phase=True):
    """A count at such rates behind noise, and the posterior of a total of a panel, or of one series."""
    rng, size = np.random.default_rng(seed), len(rates)
    seasons = read_seasons(("1d", "1w"), TimeGrid(start=start, step=step, size=size, zone="UTC"), size)
    values = rng.poisson(rates) + rng.normal(0, noise, size)
    return fit(Observations(size, np.arange(size), values, noise**2), seasons, trend=False, by_phase=by_phase)


def weekend_rates(weeks):
    """Peaks in the morning and the evening of working days, and one in the afternoon of free ones."""
    hours = np.arange(168 * weeks)
    of_day, is_free = hours % 24, hours // 24 % 7 > 4
    work = 0.08 + np.exp(-0.5 * ((of_day - 8) / 1.2) ** 2) + np.exp(-0.5 * ((of_day - 17) / 1.8) ** 2)
    return np.where(is_free, 0.3 * (0.2 + 2 * np.exp(-0.5 * ((of_day - 15) / 3.5) ** 2)), work) * 500, is_free


@pytest.mark.long
def test_weekends_are_covered_at_every_hour():
    rates, is_free = weekend_rates(4)
    fits = [a_fit(rates, seed, start="2024-01-01", step="1h", noise=200) for seed in range(10)]
    within = np.mean([np.abs(one.mean - rates) < 1.645 * one.variance**0.5 for one in fits], axis=0)
    covered = np.array([within[some].reshape(-1, 24).mean(axis=0) for some in (is_free, ~is_free)])
    assert 0.84 < covered.mean() < 0.98
    assert covered.min() > 0.6


@pytest.mark.long
@pytest.mark.parametrize("by_phase", [False, True], ids=["series", "total"])
def test_months_differ_as_far_as_is_said(by_phase):
    steps = np.arange(4 * 30 * 9)
    rates = 200 * (1 + 0.25 * np.cos(2 * np.pi * steps / (4 * 365))) * np.array([0.3, 1, 1.5, 1.2])[steps % 4]
    sums, within = np.kron(np.eye(9), np.ones(4 * 30)), []
    for seed in range(20):
        one = a_fit(rates, seed, start="2024-01-01", step="6h", noise=200, by_phase=by_phase)
        for apart in (1, 3, 6):
            between = sums[apart:] - sums[:-apart]
            variance = np.sum(between.T * (one.joint @ between.T), axis=0)
            within.append(np.mean(np.abs(between @ (one.mean - rates)) < 1.645 * variance**0.5))
    assert np.all(np.reshape(within, (-1, 3)).mean(axis=0) > 0.84)
