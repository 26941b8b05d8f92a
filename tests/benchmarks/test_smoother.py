"""Errors of the smoother and coverage of its 90% bands, on series of many kinds. Run with

python -m pytest tests/benchmarks/test_smoother.py -s --override-ini addopts=

``SMOOTHER_RUNS=3`` draws fewer releases of each, and ``-k bikes`` takes cases by name.
"""

import os

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.koga2022.experiments import gowalla_like
from tests.reconstruction import simulated as sim

RUNS = int(os.environ.get("SMOOTHER_RUNS", "12"))
WEEKS = np.arange(8 * 168)


def peers(rng):
    """Weather and a weekend on a day: of the many, at the same hours."""
    rate = (1 + 0.8 * np.sin(2 * np.pi * (WEEKS - 8) / 24)) * np.where(WEEKS // 24 % 7 >= 5, 0.6, 1.0)
    weather = np.exp(np.convolve(rng.normal(0, 0.05, len(WEEKS)), 0.95 ** np.arange(200))[: len(WEEKS)])
    return rng.poisson(1400 * rate * weather)


def nights(rng):
    """Nearly flat, as heavy users fill the nights."""
    rate = 1 + 0.4 * np.sin(2 * np.pi * (WEEKS - 9) / 24) + 0.3 * np.sin(4 * np.pi * WEEKS / 24)
    return rng.poisson(1280 * np.maximum(rate * (1 + 0.25 * np.sin(2 * np.pi * WEEKS / 168)), 0.05))


def festival(rng):
    """Two months, and in them one evening of four hours that is three times as busy."""
    counts = rng.poisson(sim.week(len(WEEKS)))
    counts[800:804] += rng.poisson([150, 330, 380, 180])
    return counts


def local_year(rng):
    """A year whose day and week follow the clock of New York, which changes twice."""
    return rng.poisson(sim.local_rate(sim.LOCAL))


def flights(step, size, cap, probability):
    counts, scale = sim.flights(step, size, cap)
    return counts, scale(probability), probability


FILTER = ts.gaussian_kernel(1800, 3)
#: Counts or how to draw them, scale, sampling probability, seasons; and more of the release.
CASES = {
    "PeMS, p = .1": (sim.flow(), 26.085969, 0.1, 288), "PeMS, every step": (sim.flow(), 79.0735, 1.0, 288),
    "PeMS, another week": (sim.flow(3000), 79.0735, 1.0, 288),
    "PeMS, gap 10, filter 3": (sim.flow(), 25.711, 1.0, 288, {"kernel": FILTER}),
    "flights 1 h, p = .2": (*flights("1h", 1440, 30, 0.2), (24, 168)),
    "flights 1 h": (*flights("1h", 1440, 30, 1.0), (24, 168)),
    "flights 3 h": (*flights("3h", 2920, 50, 1.0), (8, 56)),
    "flights 6 h, p = .2": (*flights("6h", 1460, 100, 0.2), (4, 28)),
    "flights 6 h": (*flights("6h", 1460, 100, 1.0), (4, 28)), "peers": (peers, 60.0, 1.0, (24, 168)),
    "nights": (nights, 60.0, 1.0, (24, 168)),
    "own kind, p = .1": (sim.of_the_models_kind, 26.085969, 0.1, 288),
    "own kind": (sim.of_the_models_kind, 79.0735, 1.0, 288),
    "check-ins": (gowalla_like().signal.astype(float), 50.3565, 1.0, 7),
    "shop": (sim.shop, 30.0, 1.0, (24, 168)), "bikes": (sim.bikes, 40.0, 1.0, (24, 168)),
    "bikes, p = .3": (sim.bikes, 25.0, 0.3, (24, 168)),
    "bikes, half a year": (lambda rng: sim.bikes(rng, weeks=26), 20.0, 1.0, (24, 168)),
    "festival": (festival, 30.0, 1.0, (24, 168)),
    "clocks, p = .2": (local_year, 20.0, 0.2, ("1d", "1w"), {"grid": sim.LOCAL}),
    "clocks, flights": (sim.local_flights(), 25.0, 0.5, ("1d", "1w"), {"grid": sim.LOCAL}),
}  # fmt: skip
#: Those of whom some steps matter more.
PARTS = {"festival": slice(800, 804), "clocks, p = .2": sim.after_changes(), "clocks, flights": sim.after_changes()}
#: No more than these, give or take what so many releases leave open: of one, a standard deviation of .9.
MARKS = {"PeMS, p = .1": 10.3, "PeMS, every step": 9.7, "PeMS, gap 10, filter 3": 7.1}


@pytest.mark.parametrize("name", CASES)
def test_the_smoother(name):
    counts, scale, probability, seasons, *options = CASES[name]
    found = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        drawn = counts(rng) if callable(counts) else counts
        release = sim.sampled(drawn, rng, scale=scale, probability=probability, **dict(*options))
        series = ts.smooth(release, seasons=seasons)
        low, high = series.interval(0.9)
        found.append([np.abs(series.values - drawn), (low <= drawn) & (drawn <= high)])
    error, cover = np.mean(found, axis=0)
    part = PARTS.get(name, slice(None))
    of_part = f"{error[part].mean():.3f} {cover[part].mean():.3f}"
    print(f"\n{name:24} {error.mean():7.3f} {cover.mean():.3f}; of a part {of_part}")
    assert error.mean() <= MARKS.get(name, np.inf) + 0.9 / RUNS**0.5
    assert 0.85 <= cover.mean() <= 0.97
