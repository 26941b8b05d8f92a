"""A gap, from the log to the series: what it gains on real traffic, where it loses nothing and where it does."""

import collections
import csv
from pathlib import Path

import numpy as np
import pytest

import opendp_timeseries as ts
from tests import make

PEMS = Path(__file__).parent / "data" / "pems_flow_5min_2016_janfeb.csv"
SIZE, CAP, GAP = 1800, 180, 10


def flow():
    with PEMS.open() as file:
        return np.array([int(float(row["flow"])) for row in csv.DictReader(file)][:SIZE])


def log_of_cars(flow):
    """Cars that make up a flow: each passes at most ``CAP`` times, ``GAP`` steps apart, also around the end."""
    waiting, resting = collections.deque(), collections.deque()
    passes, who = [], []
    for step, cars in enumerate(flow.tolist()):
        while resting and resting[0][0] <= step:
            waiting.append(resting.popleft()[1])
        for _ in range(cars):
            if waiting and step <= SIZE - GAP:
                car = waiting.popleft()
            else:  # a new car; also at the end, where others passed at the beginning
                car = len(passes)
                passes.append(0)
            passes[car] += 1
            who.append(car)
            if passes[car] < CAP:
                resting.append((step + GAP, car))
    return {"id": np.array(who), "step": np.repeat(np.arange(SIZE), flow)}


def with_returns(log, rng):
    """One pass in ten is followed by another of the same car within the gap."""
    again = rng.random(len(log["id"])) < 0.1
    later = (log["step"][again] + rng.integers(1, GAP, again.sum())) % SIZE
    return {"id": np.concatenate([log["id"], log["id"][again]]), "step": np.concatenate([log["step"], later])}


def cars(log):
    """How many different cars are in each step."""
    return np.bincount(np.unique(log["id"] * SIZE + log["step"]) % SIZE, minlength=SIZE)


def pipeline(gap, std):
    space = make.space(time="step")
    signal = space >> ts.then_participation_count(ts.TimeGrid(size=SIZE), participation_cap=CAP, gap=gap)
    if std:
        signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(SIZE, std))
    scale = ts.least_scale(signal, epsilon=0.5, delta=1e-4, sampling_probability=0.1)
    return signal >> ts.then_subsampled_gaussian(scale, sampling_probability=0.1, delta=1e-4)


def errors(gap, std, log, runs):
    """Mean absolute errors of linear interpolation against the true numbers of cars, in releases of one log."""
    release, truth = pipeline(gap, std), cars(log)
    return np.array([np.abs(ts.interpolate(release(log)).values - truth).mean() for _ in range(runs)])


@pytest.fixture(scope="module")
def apart():
    return log_of_cars(flow())


@pytest.fixture(scope="module")
def returning(apart):
    return with_returns(apart, np.random.default_rng(0))


def test_where_everybody_keeps_the_gap_nothing_is_lost(apart):
    count = make.space(time="step") >> ts.then_participation_count(
        ts.TimeGrid(size=SIZE), participation_cap=CAP, gap=GAP
    )
    assert np.array_equal(count(apart), flow())


def test_what_the_gap_loses_is_what_comes_back_too_soon(returning):
    count = make.space(time="step") >> ts.then_participation_count(
        ts.TimeGrid(size=SIZE), participation_cap=CAP, gap=GAP
    )
    counts = np.array(count(returning))
    assert np.all(counts <= cars(returning))
    assert 0.08 < 1 - counts.sum() / cars(returning).sum() < 0.1


@pytest.mark.long
def test_the_error_behind_a_gap_is_half_of_that_without(apart, returning):
    """Means of 100 releases, with standard errors of 0.07 and 0.13: each bound is four of them away, or more."""
    page = (Path(__file__).parents[1] / "docs/concepts/filters.md").read_text(encoding="utf-8")
    for words, log in (("nobody passes twice", apart), ("one pass in ten is followed", returning)):
        row = next(line for line in page.splitlines() if line.startswith(f"| {words}"))
        without, behind = (float(cell) for cell in row.split("|")[2:4])
        assert errors(1, 0, log, 100).mean() == pytest.approx(without, abs=0.6)
        assert errors(GAP, 3, log, 100).mean() == pytest.approx(behind, abs=0.35)
    assert errors(GAP, 3, apart, 100).mean() <= 10.6
