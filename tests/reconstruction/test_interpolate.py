"""Interpolation: linear with constant ends as in the paper, with rules for none and one kept step."""

import functools
import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.interpolate import PchipInterpolator, interp1d

import opendp_timeseries as ts
from opendp_timeseries import Series, interpolate
from tests import make
from tests.releases import panel, release_of


def release(steps, values, size):
    return release_of(steps=steps, values=values, signal=size, scale=1.0, sampling_probability=0.3)


def test_linear_with_constant_ends():
    series = interpolate(release([2, 7], [4.0, 9.0], 10))
    assert series.values.tolist() == [4, 4, 4, 5, 6, 7, 8, 9, 9, 9]


def test_linear_agrees_with_what_the_paper_used():
    rng = np.random.default_rng(0)
    steps = np.flatnonzero(rng.random(200) < 0.2)
    values = rng.normal(size=len(steps))
    theirs = interp1d(steps, values, kind="linear", bounds_error=False, fill_value=(values[0], values[-1]))
    assert np.allclose(interpolate(release(steps, values, 200)), theirs(np.arange(200)), rtol=0, atol=1e-12)


def test_nearest_takes_the_closer_step_and_the_earlier_in_a_tie():
    assert interpolate(release([1, 3, 6], [10.0, 30.0, 60.0], 8), "nearest").values.tolist() == [
        10, 10, 10, 30, 30, 60, 60, 60,
    ]  # fmt: skip


def test_pchip_passes_through_the_values_and_stays_between_neighbours():
    rng = np.random.default_rng(1)
    steps = np.flatnonzero(rng.random(100) < 0.2)
    values = rng.normal(size=len(steps))
    series = interpolate(release(steps, values, 100), "pchip").values
    inside = np.arange(steps[0], steps[-1] + 1)
    assert np.array_equal(series[steps], values)
    assert np.allclose(series[inside], PchipInterpolator(steps, values)(inside), rtol=0, atol=1e-12)
    assert np.all(series[: steps[0]] == values[0])
    assert np.all(series[steps[-1] :] == values[-1])
    assert series.min() >= values.min() - 1e-12
    assert series.max() <= values.max() + 1e-12


@pytest.mark.parametrize("method", ["linear", "nearest", "pchip"])
@pytest.mark.parametrize("n", range(6))
def test_few_kept_steps(method, n):
    steps = [1, 2, 5, 7, 8][:n]
    values = [3.0, -1.0, 4.0, 1.0, 5.0][:n]
    series = interpolate(release(steps, values, 9), method).values
    assert series.shape == (9,)
    assert series.dtype == np.float64
    assert series[steps].tolist() == values
    if n < 2:
        assert series.tolist() == [values[0] if n else 0.0] * 9


def test_clipping_is_off_unless_asked():
    negative = release([0, 2], [-2.0, 2.0], 3)
    assert interpolate(negative).values.tolist() == [-2, 0, 2]
    assert interpolate(negative, clip_at_zero=True).values.tolist() == [0, 0, 2]
    assert interpolate(negative, clip_at_zero=True).model == "linear interpolation, clipped at zero"


def test_it_stands_behind_a_measurement_as_it_is():
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=5), dp.l2_distance(T=float)
    everything = space >> ts.then_subsampled_gaussian(0.0, sampling_probability=1.0, failure_probability=1e-3)
    for function in (interpolate, functools.partial(interpolate, method="nearest")):
        series = (everything >> function)([1, 2, 3, 4, 5])
        assert isinstance(series, Series)
        assert series.values.tolist() == [1, 2, 3, 4, 5]
    assert series.model == "nearest interpolation"


def test_it_stands_behind_the_query_of_a_context():
    context = make.context({"id": np.arange(6), "step": np.arange(6)}, shares=2, time="step")

    def query():
        count = context.query().participation_count(ts.TimeGrid(size=6), participation_cap=2)
        return count.subsampled_gaussian(sampling_probability=1.0)

    inside = context(query().resolve() >> functools.partial(interpolate, method="nearest"))
    outside = interpolate(query().release())
    assert [inside.model, outside.model] == ["nearest interpolation", "linear interpolation"]
    assert len(inside) == len(outside) == 6


@pytest.mark.parametrize("method", ["linear", "nearest", "pchip"])
def test_nothing_runs_across_the_seams_of_a_panel(method):
    # The first series has its kept steps early, the second none, the third late: a line from one to the next would
    # rise through the second.
    whole = panel("abc", steps=[0, 2, 3, 16, 18], values=[1.0, 5.0, 2.0, 70.0, 90.0], size=21)
    series = interpolate(whole, method)
    for key, one in whole.by_key().items():
        alone = interpolate(one, method)
        assert np.array_equal(series.by_key()[key].values, alone.values)
        assert np.array_equal(series.by_key()[key].standard_error, alone.standard_error)
    assert series[3:14].tolist() == [2.0] * 4 + [0.0] * 7
    assert np.all(series[14:17] == 70.0)
    assert np.all(series.standard_error[7:14] == 0)
    assert series.by_key()["b"].kept.sum() == 0


def test_bias_of_clipping():
    # Why it is off: of noise around zero, clipping keeps the positive half, whose mean is σ/√(2π).
    noise = np.random.default_rng(2).normal(size=100_000)
    clipped = interpolate(release(np.arange(len(noise)), noise, len(noise)), clip_at_zero=True)
    assert abs(np.mean(clipped) - 1 / math.sqrt(2 * math.pi)) < 0.01
