"""A release beside OpenDP's own noise on the kept values, side by side: run with

python -m pytest tests/benchmarks/test_release.py -s --override-ini addopts=
"""

import statistics
import time

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts

dp.enable_features("contrib", "honest-but-curious")
SIZE, PROBABILITY, SCALE = 10**6, 0.1, 30.0


def seconds(function, argument):
    start = time.perf_counter()
    result = function(argument)
    return time.perf_counter() - start, result


@pytest.mark.parametrize("filtered", [False, True])
def test_release_against_noise_alone(benchmark, filtered):
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=SIZE), ts.influence_distance()
    if filtered:
        space = space >> ts.then_circulant_filter(ts.gaussian_kernel(SIZE, 30))
    release = space >> ts.then_subsampled_gaussian(SCALE, sampling_probability=PROBABILITY, failure_probability=1e-6)
    counts = np.arange(SIZE)
    ratios = []

    def side_by_side():
        ours, released = seconds(release, counts)
        noise = dp.m.make_gaussian(
            dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=len(released)),
            dp.l2_distance(T="f64"),
            scale=SCALE,
            k=-26,
        )
        alone, _ = seconds(noise, released.values.copy())
        ratios.append(ours / alone)

    benchmark.pedantic(side_by_side, rounds=5)
    benchmark.extra_info["ratio to OpenDP's noise alone"] = ratio = statistics.median(ratios)
    print(f"\nT = {SIZE}, p = {PROBABILITY}, filter: {filtered}: {ratio:.3f} × OpenDP's noise alone (target 1.2)")
    assert ratio < (1.5 if filtered else 1.2)
