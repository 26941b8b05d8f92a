"""Series to smooth, real and simulated, releases of them with NumPy's noise, and how near a smoothed series is."""

import csv
from pathlib import Path

import numpy as np
import opendp.prelude as dp

from opendp_timeseries import TimeGrid, event_log_domain, least_scale, smooth, then_participation_count
from opendp_timeseries.datasets import load_flights
from tests.releases import release_of, signal_of

#: A year of hours in New York, whose clocks change twice.
LOCAL = TimeGrid(start="2013-01-01", size=8760, step="1h", zone="America/New_York")
PEMS = Path(__file__).parents[1] / "data" / "pems_flow_5min_2016_janfeb.csv"


def sampled(counts, rng, *, scale=26.0, probability=0.1, kernel=None, grid=None):
    """A model of a release, for public counts: NumPy's noise, so that tests are reproducible."""
    made = len(counts)
    if grid is not None:
        made = signal_of(size=len(counts), grid=grid)
    if kernel is not None:
        made = signal_of(size=len(counts), stages=(kernel,))
    if kernel is not None:
        counts = np.fft.irfft(np.fft.rfft(counts) * np.fft.rfft(kernel.taps), n=len(counts))
    kept = np.flatnonzero(rng.random(len(counts)) < probability)
    noisy = counts[kept] + rng.normal(0, scale, len(kept))
    return release_of(steps=kept, values=noisy, signal=made, scale=scale, sampling_probability=probability)


def daily(size, period=288):
    angle = 2 * np.pi * np.arange(size) / period
    morning, evening = np.exp(1.5 * (np.cos(angle - 2) - 1)), np.exp(6 * (np.cos(angle - 4) - 1))
    return 80 + 50 * morning + 30 * evening - 40 * np.exp(0.8 * (np.cos(angle) - 1))


def flow(first=0):
    """1,800 counts of the PeMS file, from one of its rows on."""
    with PEMS.open() as file:
        return np.array([float(row["flow"]) for row in csv.DictReader(file)][first : first + 1800])


def error_and_cover(series, counts):
    low, high = series.interval(0.9)
    counts = np.ravel(counts)
    return np.abs(series.values - counts).mean(), np.mean((low <= counts) & (counts <= high))


def flights(step, size, participation_cap):
    """Capped counts of the embedded log, and the scale for (1, 1e-6) by the sampling probability."""
    grid = TimeGrid(start="2013-01-01", step=step, size=size, zone="UTC")
    dp.enable_features("contrib", "honest-but-curious")
    space = event_log_domain(identifier="tailnum", time="time"), dp.symmetric_distance()
    count = space >> then_participation_count(grid, participation_cap=participation_cap)
    counts = np.array(count(load_flights()), dtype=np.float64)
    return counts, lambda p: least_scale(count, epsilon=1.0, delta=1e-6, sampling_probability=p)


def of_the_models_kind(rng):
    """A day of 288 steps with a smooth pattern, and a departure that lasts for 20 steps."""
    t, h = np.arange(1800), np.arange(1, 25)
    deviation = np.sqrt(0.2 * (1 + (h / 3) ** 2) ** -2 / ((1 + (h / 3) ** 2) ** -2).sum())
    waves = np.concatenate([function(2 * np.pi * np.outer(t, h) / 288) for function in (np.cos, np.sin)], axis=1)
    f = 1 + waves @ (np.tile(deviation, 2) * rng.normal(size=48)) + departures(1800, rng, sd=0.17, duration=20)
    return rng.poisson(60 * np.maximum(f, 0) ** 2).astype(float)


def departures(size, rng, *, sd, duration):
    x, keep = np.zeros(size), np.exp(-1 / duration)
    shocks = rng.normal(size=size)
    x[0] = sd * shocks[0]
    for t in range(1, size):
        x[t] = keep * x[t - 1] + sd * np.sqrt(1 - keep**2) * shocks[t]
    return x


def shop(rng):
    """Hours of eight weeks: closed at night, busy at noon and evening and at weekends, growing, four days of a sale."""
    t = np.arange(24 * 56)
    day, hour = t // 24, t % 24
    peaks = 0.8 * np.exp(-0.5 * ((hour - 12.5) / 1.5) ** 2) + 1.1 * np.exp(-0.5 * ((hour - 17.5) / 1.5) ** 2)
    week, sale = np.where(day % 7 >= 5, 1.6, 1.0), 1 + 0.5 * ((day >= 20) & (day < 24))
    opened = (hour >= 9) & (hour < 20)
    return rng.poisson(40 * opened * (1 + peaks) * week * sale * (1 + 0.4 * t / len(t))).astype(float)


def simulated(counts, runs, *, season, scale, probability, kernel=None):
    """Mean over releases of the error, and of the share of counts in their bands."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        drawn = counts(rng) if callable(counts) else counts
        release = sampled(drawn, rng, scale=scale, probability=probability, kernel=kernel)
        series = smooth(release, seasons=season)
        assert series.converged
        found.append(error_and_cover(series, drawn))
    return np.mean(found, axis=0)


def week(size):
    """The rate of hours: a day with two peaks, and quiet weekends."""
    t = np.arange(size)
    hour, weekend = t % 24, t // 24 % 7 >= 5
    peaks = 0.9 * np.exp(-0.5 * ((hour - 8.5) / 1.5) ** 2) + 1.2 * np.exp(-0.5 * ((hour - 17.5) / 2) ** 2)
    return 100 * (0.15 + 0.5 * np.exp(-0.5 * ((hour - 14) / 4) ** 2) + peaks * np.where(weekend, 0.3, 1.0))


def bikes(rng, weeks=8):
    """Weeks in which all hours of a day grow alike, by its weather."""
    return rng.poisson(week(168 * weeks) * rng.lognormal(-0.06, 0.35, 7 * weeks).repeat(24)).astype(float)


def commuters(rng, weeks=4):
    """Weeks of hours in which weekdays and weekends differ most at eight."""
    t = np.arange(168 * weeks)
    hour, weekend = t % 24, t // 24 % 7 >= 5
    morning, evening, noon = (
        np.exp(-0.5 * ((hour - at) / width) ** 2) for at, width in ((8, 1.2), (17, 1.8), (14, 4.0))
    )
    return rng.poisson(np.where(weekend, 60 + 180 * noon, 40 + 460 * morning + 500 * evening)).astype(float)


def local_rate(grid):
    """A day and a week by the clock."""
    local = grid.instants("local")
    hour = (local - local.astype("M8[D]")) // np.timedelta64(1, "h")
    monday = (local.astype("M8[D]").astype(int) + 3) % 7  # 1970 began on a Thursday
    return week(168)[24 * monday + hour]


def local_flights():
    """Departures from New York in each hour of the year."""
    hours = (load_flights()["time"] - LOCAL.instants()[0]) // np.timedelta64(1, "h")
    return np.bincount(hours.astype(int)[(hours >= 0) & (hours < 8760)], minlength=8760).astype(float)


def after_changes():
    """Which hours are in the week after a change of the clocks, on 10 March and 3 November 2013."""
    days = (LOCAL.instants("local").astype("M8[D]") - np.datetime64("2013-01-01")).astype(int)
    return ((days >= 68) & (days < 75)) | ((days >= 306) & (days < 313))
