"""The smoother of this checkout beside that of another one: errors, coverage of 90% bands, and time. Run with

SMOOTHER_OLD=v1.0 python -m pytest tests/benchmarks/test_smoother.py -s --override-ini addopts=

where the variable names a commit; without it, there is no other. Both read the same releases. No error may be larger
than the old one by more than 2%. ``SMOOTHER_RUNS=3`` draws fewer, and ``SMOOTHER_ONLY=bikes`` takes cases by name.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":  # by itself, for the package at this path
    sys.path[0] = sys.argv[1]
    __import__("opendp_timeseries")
    sys.path[0] = str(ROOT)

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import opendp_timeseries as ts  # noqa: E402
from opendp_timeseries.koga2022.experiments import gowalla_like  # noqa: E402
from tests.reconstruction import simulated as sim  # noqa: E402
from tests.releases import panel, release_of  # noqa: E402

if __name__ == "__main__":
    sys.path[0] = sys.argv[1]  # for the processes that share a panel

RUNS = int(os.environ.get("SMOOTHER_RUNS", "12"))
ONLY = os.environ.get("SMOOTHER_ONLY", "")
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
TIMES = [(size, seasons) for size in (1000, 10_000, 100_000) for seasons in ((24,), (24, 168), (24, 168, 672))]
PANELS = {"panel of 168": (168, 24), "panel of 672": (672, (24, 168))}


def smoothed(release, seasons):
    try:
        return ts.smooth(release, seasons=seasons)
    except TypeError:  # a smoother that knows no calendar is told steps
        return ts.smooth(release, seasons=tuple({"1d": 24, "1w": 168}[season] for season in seasons))


def of_case(counts, scale, probability, seasons, options=None):
    found = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        drawn = counts(rng) if callable(counts) else counts
        series = smoothed(sim.sampled(drawn, rng, scale=scale, probability=probability, **(options or {})), seasons)
        low, high = series.interval(0.9)
        found.append([np.abs(series.values - drawn), (low <= drawn) & (drawn <= high)])
    return np.mean(found, axis=0)


def measured():
    """Errors and coverage by case, and seconds, of the package that is imported."""
    print("package", Path(ts.__file__).parents[1], flush=True)
    for name, case in CASES.items():
        if ONLY in name:
            error, cover = of_case(*case)
            part = PARTS.get(name, slice(None))
            row = [error.mean(), cover.mean(), error[part].mean(), cover[part].mean()]
            print(json.dumps([name, [float(number) for number in row]]), flush=True)
    for name, (size, seasons) in PANELS.items():
        if ONLY in name:
            rng, rate = np.random.default_rng(0), sim.week(size)
            values = rng.poisson(np.tile(rate, 100)) + rng.normal(0, 20, 100 * size)
            keys = [f"{key:03d}" for key in range(100)]
            steps = np.arange(100 * size)
            many = panel(keys, steps=steps, values=values, size=100 * size, scale=20.0, probability=1.0)
            start = time.perf_counter()
            ts.smooth(many, seasons=seasons)
            print(json.dumps([f"{name}, 100 series, seconds", [time.perf_counter() - start]]), flush=True)
    for size, seasons in TIMES:
        name = f"{size} steps, seasons {seasons}, seconds of CPU"
        if ONLY in name:
            rng = np.random.default_rng(0)
            values = rng.poisson(sim.week(size)) + rng.normal(0, 30, size)
            release = release_of(
                steps=np.arange(size), values=values, signal=size, scale=30.0, sampling_probability=1.0
            )
            start = time.process_time()
            assert ts.smooth(release, seasons=seasons).converged
            print(json.dumps([name, [time.process_time() - start]]), flush=True)


def run(package):
    """What another process measures of a package."""
    lines = subprocess.run(
        [sys.executable, __file__, str(package)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""},
    ).stdout.splitlines()
    assert lines[0] == f"package {package}"
    return dict(json.loads(line) for line in lines[1:])


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    commit = os.environ.get("SMOOTHER_OLD")
    if commit is None:
        return {}
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
    return run(folder)


def test_the_smoother(old):
    new = run(ROOT)
    print(f"\n{'':44} {'new: error, coverage; of a part':34} old")
    for name, row in new.items():
        print(f"{name:44} {shown(row):34} {shown(old[name]) if name in old else ''}")
    for name in new.keys() & CASES.keys():
        assert new[name][0] <= 1.02 * old.get(name, [np.inf])[0], name
        assert new[name][0] <= MARKS.get(name, np.inf) + 0.9 / RUNS**0.5, name
        assert 0.85 <= new[name][1] <= 0.97, name


def shown(row):
    if len(row) == 1:
        return f"{row[0]:.2f}"
    return f"{row[0]:7.3f} {row[1]:.3f}" + (f"  {row[2]:8.3f} {row[3]:.3f}" if row[2] != row[0] else "")


if __name__ == "__main__":
    measured()
