"""Views of the loss at I = 10⁴, once the law is cached, and making a law; the least scale of the paper's example.

Marks: a map under 5 ms, the one that solves for ε under 20 ms, making a law under 1 s (medians).

The least scale behind the paper's filter (T = 1800, I = 180): under 50 ms with its law, under 200 ms without (minima),
and a tenth of OpenDP's own search.
"""

import math
import time

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting import subsampled
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Majorant
from tests.make import influence_of

STEPS, SIZE, P = 10**4, 10**5, 0.1


def block(values):
    a = np.sort(np.asarray(values, dtype=float))[::-1]
    l2 = math.sqrt(math.fsum(a * a)) * (1 + 1e-12)
    return Influence(l0=min(len(a), SIZE), l2=l2, linf=float(a[0]), majorant=Majorant(a))


RAMP = np.exp(-(np.linspace(0, 5, 400) ** 2))
INFLUENCES = {
    "count": influence_of(STEPS, SIZE),
    "three people": influence_of(STEPS, SIZE, individuals=3),
    "block through a filter": block(np.concatenate([np.ones(STEPS - 400), RAMP, RAMP])),
    "all values distinct": block(np.linspace(1e-6, 1, STEPS)),
}
SCALE = {name: 6 * influence.l2 * math.sqrt(P) * influence.individuals for name, influence in INFLUENCES.items()}
MAPS = {
    "delta": (lambda law, scale: law.at(scale).delta(0.5), 5e-3),
    "epsilon": (lambda law, scale: law.at(scale).epsilon(1e-6), 20e-3),
    "renyi": (lambda law, scale: law.at(scale).renyi(8.0), 5e-3),
    "zero_concentrated": (lambda law, scale: law.at(scale).zero_concentrated(1e-6), 5e-3),
}


@pytest.mark.parametrize("name", INFLUENCES)
@pytest.mark.parametrize("loss", MAPS)
def test_map(benchmark, loss, name):
    benchmark.group = loss
    function, mark = MAPS[loss]
    law = subsampled.extremal_law(INFLUENCES[name], P, SIZE)
    benchmark.pedantic(function, (law, SCALE[name]), rounds=20, warmup_rounds=2)
    assert benchmark.stats.stats.median < mark


@pytest.mark.parametrize("scale", [5.0, 20.0, SCALE["count"]])  # ε from 43 to .4
@pytest.mark.parametrize("size", [SIZE, SIZE // 2 + 3])  # with more blocks than steps of one individual, and with fewer
@pytest.mark.parametrize("loss", MAPS)
def test_map_of_one_step_of_each_block(benchmark, loss, size, scale):
    benchmark.group = loss
    function, mark = MAPS[loss]
    law = subsampled.extremal_law(INFLUENCES["count"], P, size, "stratified")
    benchmark.pedantic(function, (law, scale), rounds=20, warmup_rounds=2)
    assert benchmark.stats.stats.median < mark


@pytest.mark.parametrize("name", INFLUENCES)
def test_making_a_law(benchmark, name):
    benchmark.group = "making a law"

    def forget():
        subsampled.extremal_law.cache_clear()
        subsampled._worst_case.cache_clear()
        return (INFLUENCES[name], P, SIZE), {}

    benchmark.pedantic(subsampled.extremal_law, setup=forget, rounds=5)
    assert benchmark.stats.stats.median < 1


FILTERED = filtered_influence(influence_of(180, 1800), ts.gaussian_kernel(1800, std=10))


def test_least_scale_of_a_law(benchmark):
    law = subsampled.extremal_law(FILTERED, P, 1800)
    benchmark.pedantic(calibrate, (law.at, Budget(epsilon=0.5, delta=1e-4)), rounds=10, warmup_rounds=1)
    assert benchmark.stats.stats.min < 50e-3


@pytest.fixture
def chain():
    events = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    count = events >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=180, excess="drop")
    return count >> ts.then_circulant_filter(ts.gaussian_kernel(1800, std=10))


def solve(chain):
    return ts.least_scale(chain, epsilon=0.5, delta=1e-4, sampling_probability=P)


def test_least_scale_of_a_chain_with_its_law(benchmark, chain):
    def forget():
        subsampled.extremal_law.cache_clear()
        subsampled._worst_case.cache_clear()
        return (chain,), {}

    benchmark.pedantic(solve, setup=forget, rounds=5)
    assert benchmark.stats.stats.min < 200e-3


def test_least_scale_against_opendps_search(benchmark, chain):
    def release(scale):
        return chain >> ts.then_subsampled_gaussian(scale, sampling_probability=P, delta=1e-4)

    ours = benchmark.pedantic(solve, (chain,), rounds=5, warmup_rounds=1)
    start = time.perf_counter()
    theirs = dp.binary_search_param(release, d_in=1, d_out=(0.5, 1e-4), T=float)
    benchmark.extra_info["times OpenDP's search"] = ratio = (time.perf_counter() - start) / benchmark.stats.stats.median
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert ratio > 10
