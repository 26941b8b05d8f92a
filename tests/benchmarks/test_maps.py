"""Views of the loss at I = 10⁴, once the law is cached, and making a law; the least scale of the paper's example.

Marks: a map under 5 ms, the one that solves for ε under 20 ms, making a law under 1 s (medians).

The least scale behind the paper's filter (T = 1800, I = 180): under 50 ms with its law, under 200 ms without (minima),
and a tenth of OpenDP's own search.
"""

import time

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting import subsampled
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.influence import Influence, Majorant
from tests.make import influence_of

STEPS, SIZE, P = 10**4, 10**5, 0.1
RAMP = np.exp(-(np.linspace(0, 5, 400) ** 2))


def block(values):
    a = np.sort(np.asarray(values, dtype=float))[::-1]
    return Influence(l0=min(len(a), SIZE), l2=np.linalg.norm(a) * (1 + 1e-12), linf=float(a[0]), majorant=Majorant(a))


INFLUENCES = {
    "count": influence_of(STEPS, SIZE), "three people": influence_of(STEPS, SIZE, individuals=3),
    "block through a filter": block(np.concatenate([np.ones(STEPS - 400), RAMP, RAMP])),
    "all values distinct": block(np.linspace(1e-6, 1, STEPS)),
}  # fmt: skip
SCALE = {name: 6 * influence.l2 * P**0.5 * influence.individuals for name, influence in INFLUENCES.items()}
MAPS = {
    "delta": (lambda law, scale: law.at(scale).delta(0.5), 5e-3),
    "epsilon": (lambda law, scale: law.at(scale).epsilon(1e-6), 20e-3),
    "renyi": (lambda law, scale: law.at(scale).renyi(8.0), 5e-3),
    "zero_concentrated": (lambda law, scale: law.at(scale).zero_concentrated(1e-6), 5e-3),
}
#: Influence, scale, steps, and how they are sampled: of blocks, there are more than steps of one individual, or fewer.
LAWS = [(name, SCALE[name], SIZE, "poisson") for name in INFLUENCES]
LAWS += [
    ("count", scale, size, "stratified") for scale in (5.0, 20.0, SCALE["count"]) for size in (SIZE, SIZE // 2 + 3)
]


def forget():
    subsampled.extremal_law.cache_clear()
    subsampled._worst_case.cache_clear()


@pytest.mark.parametrize(("name", "scale", "size", "sampling"), LAWS)
@pytest.mark.parametrize("loss", MAPS)
def test_map(benchmark, loss, name, scale, size, sampling):
    benchmark.group, (function, mark) = loss, MAPS[loss]
    law = subsampled.extremal_law(INFLUENCES[name], P, size, sampling)
    benchmark.pedantic(function, (law, scale), rounds=20, warmup_rounds=2)
    assert benchmark.stats.stats.median < mark


@pytest.mark.parametrize("name", INFLUENCES)
def test_making_a_law(benchmark, name):
    benchmark.pedantic(subsampled.extremal_law, (INFLUENCES[name], P, SIZE), setup=forget, rounds=5)
    assert benchmark.stats.stats.median < 1


def test_least_scale_with_and_without_its_law_and_against_opendps_search():
    events = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    count = events >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=180, excess="drop")
    chain = count >> ts.then_circulant_filter(ts.gaussian_kernel(1800, std=10))
    law = subsampled.extremal_law(chain.map(1), P, 1800)

    def release(scale):
        return chain >> ts.then_subsampled_gaussian(scale, sampling_probability=P, delta=1e-4)

    def taken(job, rounds=5, before=lambda: None):
        times = []
        for _ in range(rounds):
            before()
            start = time.perf_counter()
            found = job()
            times.append(time.perf_counter() - start)
        return min(times), found

    def solve():
        return ts.least_scale(chain, epsilon=0.5, delta=1e-4, sampling_probability=P)

    assert taken(lambda: calibrate(law.at, Budget(epsilon=0.5, delta=1e-4)))[0] < 50e-3
    assert taken(solve, before=forget)[0] < 200e-3
    ours, scale = taken(solve)
    theirs, searched = taken(lambda: dp.binary_search_param(release, d_in=1, d_out=(0.5, 1e-4), T=float), rounds=1)
    assert scale == pytest.approx(searched, rel=1e-9)
    assert theirs > 10 * ours
