"""Interpolation: linear with constant ends as in the paper, with rules for none and one kept step."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.interpolate import PchipInterpolator, interp1d

import opendp_timeseries as ts
from opendp_timeseries import Release, interpolate, interpolated


def release(steps, values, size):
    return Release(steps=steps, values=values, size=size, scale=1.0, sampling_probability=0.3)


def test_linear_with_constant_ends():
    # Case 42 of the field cases: kept steps 2 and 7.
    series = interpolated(release([2, 7], [4.0, 9.0], 10))
    assert series.tolist() == [4, 4, 4, 5, 6, 7, 8, 9, 9, 9]


def test_linear_agrees_with_what_the_paper_used():
    rng = np.random.default_rng(0)
    steps = np.flatnonzero(rng.random(200) < 0.2)
    values = rng.normal(size=len(steps))
    theirs = interp1d(steps, values, kind="linear", bounds_error=False, fill_value=(values[0], values[-1]))
    assert np.allclose(interpolated(release(steps, values, 200)), theirs(np.arange(200)), rtol=0, atol=1e-12)


def test_nearest_takes_the_closer_step_and_the_earlier_in_a_tie():
    assert interpolated(release([1, 3, 6], [10.0, 30.0, 60.0], 8), "nearest").tolist() == [
        10, 10, 10, 30, 30, 60, 60, 60,
    ]  # fmt: skip


def test_pchip_passes_through_the_values_and_stays_between_neighbours():
    rng = np.random.default_rng(1)
    steps = np.flatnonzero(rng.random(100) < 0.2)
    values = rng.normal(size=len(steps))
    series = interpolated(release(steps, values, 100), "pchip")
    inside = np.arange(steps[0], steps[-1] + 1)
    assert np.array_equal(series[steps], values)
    assert np.allclose(series[inside], PchipInterpolator(steps, values)(inside), rtol=0, atol=1e-12)
    assert np.all(series[: steps[0]] == values[0])
    assert np.all(series[steps[-1] :] == values[-1])
    assert series.min() >= values.min() - 1e-12
    assert series.max() <= values.max() + 1e-12


@pytest.mark.parametrize("kind", ["linear", "nearest", "pchip"])
@pytest.mark.parametrize("n", range(6))
def test_few_kept_steps(kind, n):
    steps = [1, 2, 5, 7, 8][:n]
    values = [3.0, -1.0, 4.0, 1.0, 5.0][:n]
    series = interpolated(release(steps, values, 9), kind)
    assert series.shape == (9,)
    assert series.dtype == np.float64
    assert series[steps].tolist() == values
    if n < 2:
        assert series.tolist() == [values[0] if n else 0.0] * 9


def test_clipping_is_off_unless_asked():
    negative = release([0, 2], [-2.0, 2.0], 3)
    assert interpolated(negative).tolist() == [-2, 0, 2]
    assert interpolated(negative, clip_at_zero=True).tolist() == [0, 0, 2]


def test_as_opendp_function_in_a_chain():
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=5), dp.l2_distance(T=float)
    everything = space >> ts.then_subsampled_gaussian(0.0, sampling_probability=1.0, failure_probability=0.1)
    assert (everything >> interpolate("nearest"))([1, 2, 3, 4, 5]).tolist() == [1, 2, 3, 4, 5]


def test_unknown_kind_is_refused_at_construction():
    with pytest.raises(ValueError, match=r"kind \('cubic'\) must be one of linear, nearest, pchip"):
        interpolate("cubic")


def test_bias_of_clipping():
    # Why it is off: of noise around zero, clipping keeps the positive half, whose mean is σ/√(2π).
    noise = np.random.default_rng(2).normal(size=100_000)
    clipped = interpolated(release(np.arange(len(noise)), noise, len(noise)), clip_at_zero=True)
    assert abs(clipped.mean() - 1 / math.sqrt(2 * math.pi)) < 0.01
