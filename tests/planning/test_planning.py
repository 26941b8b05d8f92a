"""Plans: expected errors against dense matrices and against real releases' errors; scales against the maps."""

import dataclasses

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.planning import errors, noise_by_cap, plan
from opendp_timeseries.planning.signal import described_signal
from tests.oracles import planning as oracle

GRID = ts.TimeGrid(size=60)
SETTING = {"participation_cap": 10, "epsilon": 1.0, "delta": 1e-6}


def designs(found):
    return {str(design): design for design in found.designs}


@pytest.mark.parametrize("std", [0.0, 2.0])
def test_errors_are_those_of_dense_matrices(std):
    signal, _ = described_signal(60, 7.0, 3.0, None)
    kernel = ts.gaussian_kernel(60, std) if std else ts.identity_kernel(60)
    moments = errors.Moments.of(signal, kernel)
    whole = signal.covariance + signal.level
    kept = np.flatnonzero(np.random.default_rng(2).random(60) < 0.3)

    def linear(steps, values, size):
        return np.interp(np.arange(size), steps, values)

    bias, noise = errors.interpolation_squares(moments, kept)
    expected_bias, expected_noise = oracle.error_of_linear(linear, whole, kernel.taps, kept, 1.0)
    assert bias == pytest.approx(expected_bias, rel=1e-8)
    assert noise == pytest.approx(expected_noise, rel=1e-12)
    best = errors.smoothing_square(moments, kept, 0.3, 2.0)
    assert best == pytest.approx(oracle.error_of_best(whole, kernel.taps, kept, 2.0), rel=1e-8)
    every = errors.smoothing_square_of_every_step(signal, kernel, 2.0)
    assert every == pytest.approx(oracle.error_of_best(whole, kernel.taps, np.arange(60), 2.0), rel=1e-8)
    # The broken variants: noise forgotten, and a filter that is applied and not accounted for.
    assert errors.smoothing_square(moments, kept, 0.3, 0.1) < 0.9 * best
    if std:
        assert bias != pytest.approx(oracle.error_of_linear(linear, whole, np.eye(60)[0], kept, 1.0)[0], rel=0.01)


def test_expected_errors_are_met_by_releases():
    # 60 real releases of a simulated signal of 1,200 steps. The mean squared error of each varies by about
    # 13%, so their mean by 1.7%: 12% is beyond 7 of these, false alarm below 1e-10.
    size, rng = 1200, np.random.default_rng(4)
    signal, _ = described_signal(size, 40.0, 50.0, None)
    found = plan(
        ts.TimeGrid(size=size),
        participation_cap=20,
        epsilon=0.5,
        delta=1e-4,
        time_scale=40,
        deviation=50,
        sampling_probabilities=(0.1,),
        stds=(0.0, 5.0),
    )
    space = ts.count_signal_domain(size), dp.symmetric_distance()
    count = space >> ts.then_assume_participation(participation_cap=20)
    for design in found.designs:
        chain = count
        if design.std:
            chain = count >> ts.then_circulant_filter(ts.gaussian_kernel(size, design.std))
        chain = chain >> ts.then_subsampled_gaussian(
            design.scale, sampling_probability=0.1, output_measure=dp.approximate(dp.max_divergence()), delta=1e-4
        )
        # The scale is the least within the budget.
        assert 0.5 * (1 - 1e-6) <= chain.map(1)[0] <= 0.5
        squares = []
        for _ in range(60):
            white = rng.normal(size=size)
            values = np.fft.irfft(np.fft.rfft(white) * np.sqrt(signal.spectrum()), n=size)
            counts = np.rint(1000 + values).astype(np.int64)
            squares.append(np.mean((ts.interpolate(chain(counts)).values - counts) ** 2))
        assert np.mean(squares) == pytest.approx(design.interpolated**2, rel=0.12)


def test_keeping_every_step_errs_by_the_noise_and_its_spectrum():
    found = plan(GRID, **SETTING, time_scale=5, deviation=4, sampling_probabilities=(1.0,), stds=(0.0,))
    every = designs(found)["every step"]
    assert every.bias == 0
    assert every.noise == every.interpolated == every.scale
    assert every.smoothed < min(every.scale, found.deviation)


def test_a_smoother_is_never_worse_than_a_line():
    found = plan(ts.TimeGrid(size=800), **SETTING, time_scale=15, deviation=20)
    for design in found.designs:
        assert design.smoothed <= design.interpolated * (1 + 1e-9)


def test_it_says_when_sampling_does_not_help():
    found = plan(ts.TimeGrid(size=800), **SETTING, time_scale=40, deviation=50)
    advice = found.advice().splitlines()
    assert advice[0].startswith("Interpolated: p = ")
    assert "Sampling helps" in advice[0]
    assert advice[1].startswith("Smoothed: every step")
    assert "Sampling does not help" in advice[1]
    assert len(advice) == 2


def test_it_says_when_the_noise_drowns_the_signal():
    loud = plan(GRID, **SETTING, time_scale=3, deviation=0.5)
    assert loud.advice().splitlines()[-1].startswith("The noise drowns the signal")


def test_a_public_series_instead_of_a_time_scale():
    rng = np.random.default_rng(0)
    proxy = 100 + np.cumsum(rng.normal(size=400))
    found = plan(ts.TimeGrid(size=400), **SETTING, proxy=proxy, sampling_probabilities=(0.2, 1.0))
    assert found.deviation == pytest.approx(np.std(proxy))
    assert "as a public series" in repr(found)
    # Only second moments matter: neither the series' direction nor its start.
    other = plan(ts.TimeGrid(size=400), **SETTING, proxy=np.roll(proxy[::-1], 7), sampling_probabilities=(0.2, 1.0))
    for a, b in zip(found.designs, other.designs, strict=True):
        assert a.interpolated == pytest.approx(b.interpolated, rel=1e-6)
        assert a.smoothed == pytest.approx(b.smoothed, rel=1e-6)


def test_no_randomness():
    arguments = {"time_scale": 5, "deviation": 4, "sampling_probabilities": (0.3, 1.0)}
    assert plan(GRID, **SETTING, **arguments).designs == plan(GRID, **SETTING, **arguments).designs


def test_groups_and_replacement_need_more_noise():
    def scale(**change):
        arguments = {"time_scale": 5, "deviation": 4, "sampling_probabilities": (0.3,), "stds": (0.0,)}
        return plan(GRID, **SETTING | change, **arguments).designs[0].scale

    assert scale(individuals=2) > scale()
    assert scale(replaced=True) > scale()
    assert scale(step_cap=3) == pytest.approx(3 * scale(), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"proxy": np.zeros(60)}, ValueError, "either by time_scale and deviation, or by a public proxy"),
        ({"time_scale": None, "deviation": None}, ValueError, "either by"),
        ({"deviation": None}, ValueError, "either by"),
        ({"time_scale": 61}, ValueError, r"time_scale \(61.0\) must be at most 60"),
        ({"time_scale": None, "deviation": None, "proxy": np.zeros(9)}, ValueError, "60 finite numbers"),
        ({"sampling_probabilities": (0.1,)}, ValueError, "fewer than 8 of 60 steps"),
        ({"sampling_probabilities": (1.5,)}, ValueError, "sampling_probabilities"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"delta": 1}, ValueError, "delta"),
        ({"participation_cap": 0}, ValueError, "participation_cap"),
        ({"stds": (-1.0,)}, ValueError, "stds"),
        ({"sampling_probabilities": ()}, ValueError, "at least one design"),
        ({"stds": ()}, ValueError, "at least one design"),
        ({"grid": 60}, TypeError, "TimeGrid"),
    ],
)
def test_bad_parameters_are_refused(change, error, message):
    arguments = {"grid": GRID, "time_scale": 5, "deviation": 4, **SETTING} | change
    with pytest.raises(error, match=message):
        plan(**arguments)


def test_other_mechanisms_stand_beside_a_plan():
    found = plan(GRID, **SETTING, time_scale=5, deviation=4, sampling_probabilities=(1.0,), stds=(0.0,))
    other = dataclasses.replace(found.designs[0], name="another", noise=0.25, bias=0.0, smoothed=0.25)
    beside = found.beside(other)
    assert found.others == ()
    assert (beside.designs, beside.others) == (found.designs, (other,))
    assert "another" in repr(beside).splitlines()[3]
    assert beside.advice() == found.advice() + "\nanother: expected error 0.25."
    # What is best of the plan's own designs stays so.
    assert beside.best_interpolated == beside.best_smoothed == found.designs[0]


def test_noise_by_cap():
    table = noise_by_cap(ts.TimeGrid(size=1800), [5, 180], epsilon=0.5, delta=1e-4, sampling_probability=0.1, std=10.0)
    assert table.rows[1].scale == pytest.approx(25.281, rel=1e-3)
    assert table.rows[0].scale == pytest.approx(1.8954, rel=1e-3)
    plain = noise_by_cap(ts.TimeGrid(size=1800), [180], epsilon=0.5, delta=1e-4, sampling_probability=0.1)
    assert plain.rows[0].scale == pytest.approx(26.085969, rel=1e-6)
    assert plain.rows[0].every_step == pytest.approx(79.0735, rel=1e-6)
    header = repr(plain).splitlines()[1]
    assert header.split() == ["participation", "cap", "scale", "scale", "if", "every", "step", "is", "kept"]


def test_figures():
    figure = pytest.importorskip("matplotlib.figure")
    found = plan(GRID, **SETTING, time_scale=5, deviation=4, sampling_probabilities=(0.3, 1.0))
    axes = found.plot(axes=figure.Figure().subplots())
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(design) for design in found.designs]
    table = noise_by_cap(GRID, [1, 5], epsilon=1.0, delta=1e-6, sampling_probability=0.3)
    assert "participation cap" in table.plot(axes=figure.Figure().subplots()).get_xlabel()


def test_a_plan_cannot_be_changed():
    found = plan(GRID, **SETTING, time_scale=5, deviation=4, sampling_probabilities=(1.0,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.designs[0].scale = 0.0
