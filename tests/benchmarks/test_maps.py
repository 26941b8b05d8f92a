"""Views of the loss at I = 10⁴, once the law is cached, and making a law; the least scale of the paper's example.

Run with ``pytest tests/benchmarks/test_maps.py``. Marks: a view under 5 ms, the one that solves for ε under 20 ms,
making a law under 1 s; the least scale for T = 1800 and I = 180 behind the paper's filter under 50 ms, and 200 ms
with its law (medians).
"""

import math

import numpy as np
import pytest

from opendp_timeseries.accounting import subsampled
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Majorant, count_influence
from opendp_timeseries.kernels import gaussian_kernel

STEPS, SIZE, P = 10**4, 10**5, 0.1


def block(values):
    a = np.sort(np.asarray(values, dtype=float))[::-1]
    l2 = math.sqrt(math.fsum(a * a)) * (1 + 1e-12)
    return Influence(l0=min(len(a), SIZE), l2=l2, linf=float(a[0]), majorant=Majorant(a))


RAMP = np.exp(-(np.linspace(0, 5, 400) ** 2))
INFLUENCES = {
    "count": count_influence(1, participation_cap=STEPS, step_cap=1, size=SIZE, replaced=False),
    "three people": count_influence(3, participation_cap=STEPS, step_cap=1, size=SIZE, replaced=False),
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


@pytest.mark.parametrize("name", INFLUENCES)
def test_making_a_law(benchmark, name):
    benchmark.group = "making a law"

    def forget():
        subsampled.extremal_law.cache_clear()
        subsampled._worst_of_one.cache_clear()
        return (INFLUENCES[name], P, SIZE), {}

    benchmark.pedantic(subsampled.extremal_law, setup=forget, rounds=5)
    assert benchmark.stats.stats.median < 1


PERSON = count_influence(1, participation_cap=180, step_cap=1, size=1800, replaced=False)


@pytest.mark.parametrize(("what", "mark"), [("search", 50e-3), ("law and search", 200e-3)])
def test_least_scale_behind_the_papers_filter(benchmark, what, mark):
    benchmark.group = "least scale"
    influence = filtered_influence(PERSON, gaussian_kernel(1800, std=10))

    def setup():
        if what != "search":
            subsampled.extremal_law.cache_clear()
            subsampled._worst_of_one.cache_clear()

    def search():
        return subsampled.extremal_law(influence, P, 1800).least_scale(0.5, 1e-4)

    assert search() == pytest.approx(25.263867, rel=1e-7)
    benchmark.pedantic(search, setup=setup, rounds=10)
    assert benchmark.stats.stats.median < mark
