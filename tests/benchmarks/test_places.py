"""How near stations and their total are, smoothed jointly, beside each smoothed by itself and then reconciled. Run with

python -m pytest tests/benchmarks/test_places.py -s --override-ini addopts=

Counts of public rates, of people who are at one place at a time, behind NumPy's noise: of a cap (one value a step), and
of a private panel by the sum of its keys. Takes some minutes on one core; ``PLACES_SEEDS=2`` does less.
"""

import os
import time

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.reconstruction.matrices import FitError
from tests.reconstruction.test_joint import city, hours, rainy_days, released

SEEDS = range(int(os.environ.get("PLACES_SEEDS", "10")))


def apart(release, seasons):
    """Each series smoothed by itself, and then reconciled."""

    def refuse(*_, **__):
        raise FitError("each by itself")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opendp_timeseries.reconstruction.smooth.smooth_panel", refuse)
        alone = [ts.smooth(one, seasons=seasons) for one in release]
    return alone, ts.reconcile(*alone)


def near(series, truth):
    low, high = series.interval(0.9)
    truth = np.ravel(truth)
    return np.abs(series.values - truth).mean(), np.mean((low <= truth) & (truth <= high))


def said(name, rows):
    errors = np.mean(rows, axis=0)
    print(f"{name:46s}" + "  ".join(f"{error:7.2f} / {cover:.2f}" for error, cover in errors))


@pytest.mark.parametrize("kind", ["days", "hours"])
def test_a_city_with_a_cap(kind):
    """Stations, the city; totals by day of both where steps are hours: mean absolute error and share in 90% bands."""
    found = {"raw": [], "each by itself": [], "and reconciled": [], "jointly": []}
    for seed in SEEDS:
        counts = rainy_days(seed, keys=25, days=91) if kind == "days" else hours(seed, keys=25, weeks=4)
        release = released(counts, np.random.default_rng(seed), scale=15.0, groups=city(25), of_totals=75.0)
        seasons, step = (7, 7) if kind == "days" else ((24, 168), 24)
        alone, reconciled = apart(release, seasons)
        raw = list(map(ts.interpolate, release))
        made = {"raw": raw, "each by itself": alone, "and reconciled": reconciled}
        made["jointly"] = ts.smooth(release, seasons=seasons)
        for name, (stations, total) in made.items():
            long = counts.reshape(25, -1, step).sum(axis=2)
            found[name].append(
                [
                    near(stations, counts),
                    near(total, counts.sum(axis=0)),
                    near(stations.resample(step), long),
                    near(total.resample(step), long.sum(axis=0)),
                ]
            )
    print()
    for name, rows in found.items():
        said(f"{kind}, {name}", rows)
    errors = {name: np.mean(rows, axis=0)[:, 0] for name, rows in found.items()}
    assert np.all(errors["jointly"][:2] < errors["and reconciled"][:2])
    assert np.all(errors["jointly"][:2] < errors["each by itself"][:2])


@pytest.mark.parametrize("size", [50, 100, 150])
def test_people_for_three_hours_at_a_small_station(size):
    """How much of them is seen, how often they are within the band, and in how many other series an event is."""
    shares, covered, named, others = [], [], [], 0
    for seed in SEEDS:
        counts, rng = hours(seed, keys=25, weeks=2), np.random.default_rng(seed)
        for station in np.argsort(counts.mean(axis=1))[3:16:4]:
            start = int(rng.integers(20, 300))
            counts[station, start : start + 3] += size
            panel, _ = ts.smooth(released(counts, rng, groups=city(25), of_totals=30.0), seasons=(24, 168))
            part, here = panel.parts[station], slice(start, start + 3)
            low, high = part.interval(0.9)
            shares.append(1 + (part.values - counts[station])[here].mean() / size)
            covered.append(np.mean((low <= counts[station])[here] & (counts[station] <= high)[here]))
            named.append(np.isin(np.arange(start, start + 3), part.events).mean())
            others += sum(len(one.events) > 0 for k, one in enumerate(panel.parts) if k != station)
            counts[station, start : start + 3] -= size
    print(
        f"\n+{size}: share {np.mean(shares):.2f}, cover {np.mean(covered):.2f}, named {np.mean(named):.2f},"
        f" false {others} of {24 * len(shares)}"
    )
    assert size == 50 or (np.mean(shares) > 0.8 and np.mean(covered) > 0.8)
    assert others <= 0.01 * 24 * len(shares)


def test_three_hundred_stations_in_four_weeks_of_hours():
    counts = hours(0, keys=300, weeks=4, mean=4.0)
    release = released(counts, np.random.default_rng(0), groups=city(300), of_totals=30.0)
    start = time.perf_counter()
    panel, total = ts.smooth(release, seasons=(24, 168))
    taken = time.perf_counter() - start
    print(f"\n300 stations: {taken:.0f} s; stations {near(panel, counts)}, city {near(total, counts.sum(axis=0))}")
    assert np.allclose(panel.values.reshape(300, -1).sum(axis=0), total.values, rtol=1e-9)
