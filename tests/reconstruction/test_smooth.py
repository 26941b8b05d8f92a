"""The smoother: a Kalman smoother with known noise. Its state space is checked against dense conditioning."""

import csv
import functools
import sys
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_timeseries import Release, Series, interpolate, smooth
from opendp_timeseries import then_subsampled_gaussian as then_release
from opendp_timeseries.reconstruction.smooth import _Model
from tests.oracles import smoothing as oracle
from tests.reconstruction.panels import panel

statespace = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")
PEMS = Path(__file__).parents[1] / "data" / "pems_flow_5min_2016_janfeb.csv"


def release_of(signal, rng, *, scale=26.0, probability=0.1):
    """A model of a release, for public signals: NumPy's noise, so that tests are reproducible."""
    kept = np.flatnonzero(rng.random(len(signal)) < probability)
    noisy = signal[kept] + rng.normal(0, scale, len(kept))
    return Release(steps=kept, values=noisy, size=len(signal), scale=scale, sampling_probability=probability)


def daily(size, period=288):
    angle = 2 * np.pi * np.arange(size) / period
    morning, evening = np.exp(1.5 * (np.cos(angle - 2) - 1)), np.exp(6 * (np.cos(angle - 4) - 1))
    return 80 + 50 * morning + 30 * evening - 40 * np.exp(0.8 * (np.cos(angle) - 1))


def departures(size, rng, *, sd, duration):
    x, keep = np.zeros(size), np.exp(-1 / duration)
    shocks = rng.normal(size=size)
    x[0] = sd * shocks[0]
    for t in range(1, size):
        x[t] = keep * x[t - 1] + sd * np.sqrt(1 - keep**2) * shocks[t]
    return x


@pytest.mark.parametrize("periods", [(), (24.0,), (24.0, 33.5)])
@pytest.mark.parametrize("drifts", [False, True])
def test_state_space_is_the_model_that_it_says(periods, drifts):
    rng = np.random.default_rng(3)
    size, variance, departure, duration, trend = 120, 0.7, 0.4, 6.0, 2.0
    kept = np.flatnonzero(rng.random(size) < 0.25)
    values = rng.normal(size=len(kept))
    seasons = [0.6, 0.3][: len(periods)]
    model = _Model(size, periods, 3, drifts, variance, statespace)
    parameters = np.log([departure, duration, *seasons, *([trend] if drifts else [])])
    waves = [(seasons[i] / h**2, h / period) for i, period in enumerate(periods) for h in (1, 2, 3)]

    def prior(steps):
        return oracle.covariance(
            steps,
            departure=departure,
            duration=duration,
            waves=waves,
            trend=trend if drifts else None,
            origin=steps[0],
            size=size,
        )

    release = Release(steps=kept, values=values, size=size, scale=1.0, sampling_probability=0.25)
    mean, spread = model.moments(release, values, parameters)
    expected = oracle.condition(prior(np.arange(size)), kept, values, variance)
    assert np.allclose(mean, expected[0], rtol=0, atol=1e-8)
    assert np.allclose(spread, expected[1], rtol=0, atol=1e-8)
    # The likelihood is of the kept steps alone, over gaps: no missing values are stepped through.
    assert model.at(kept, values, parameters).loglike() == pytest.approx(
        oracle.log_likelihood(prior(kept), values, variance), abs=1e-8
    )


def test_frequencies_are_neither_repeated_nor_too_fast():
    waves = _Model(100, (24.0, 168.0), 16, False, 1.0, statespace).waves
    frequencies = [frequency for _, _, frequency in waves]
    assert len(set(frequencies)) == len(frequencies)
    assert max(frequencies) <= 0.5
    assert (1, 7, 7 / 168) not in waves  # the week's seventh harmonic is the day's first


def test_pems():
    with PEMS.open() as file:
        flow = np.array([float(row["flow"]) for row in csv.DictReader(file)][:1800])
    errors = []
    for seed in range(3):
        release = release_of(flow, np.random.default_rng(seed), scale=26.085969)
        series = smooth(release, season=288)
        assert series.converged
        errors.append([np.abs(series.values - flow).mean(), np.abs(interpolate(release).values - flow).mean()])
    smooth_error, linear_error = np.mean(errors, axis=0)
    assert smooth_error <= 12  # about 10.5
    assert linear_error > 18  # about 20, and 36 with the paper's noise


def test_bands_cover_a_simulated_signal():
    # Simulated weeks with fixed seeds: nothing random is asserted, and no false alarm is possible.
    covered = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        signal = daily(1800) + departures(1800, rng, sd=15, duration=50)
        series = smooth(release_of(signal, rng), season=288)
        low, high = series.interval(0.9)
        covered.append(np.mean((low <= signal) & (signal <= high)))
    assert 0.85 <= np.mean(covered) <= 0.95
    # Interpolation's error covers the noise alone, and says so.
    assert series.error_covers == "signal"
    assert interpolate(series.release).error_covers == "noise"


def test_bands_cover_a_signal_without_season():
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        signal = 100 + departures(1800, rng, sd=40, duration=100)
        series = smooth(release_of(signal, rng))
        low, high = series.interval(0.9)
        covered.append(np.mean((low <= signal) & (signal <= high)))
    assert 0.85 <= np.mean(covered) <= 0.95


def test_taking_estimated_noise_for_known_would_be_caught():
    # The broken variant of test_state_space…: noise of another variance than the release's.
    release = Release(steps=[0, 3], values=[1.0, -1.0], size=5, scale=1.0, sampling_probability=0.5)
    parameters = np.log([0.4, 6.0])
    right = _Model(5, (), 0, False, 1.0, statespace).moments(release, release.values, parameters)
    wrong = _Model(5, (), 0, False, 0.5, statespace).moments(release, release.values, parameters)
    prior = oracle.covariance(np.arange(5), departure=0.4, duration=6.0, waves=[])
    expected = oracle.condition(prior, release.steps, release.values, 1.0)
    assert np.allclose(right, expected, atol=1e-8)
    assert not np.allclose(wrong, expected, atol=1e-2)


def test_a_trend_is_followed():
    signal = 500 + 200 * np.sin(2 * np.pi * np.arange(900) / 300) + 0.5 * np.arange(900)
    release = release_of(signal, np.random.default_rng(1), scale=5.0)
    series = smooth(release, season=300, trend=True)
    assert series.converged
    assert "trend" in series.model
    assert np.abs(series.values - signal).mean() < 2.0


def test_same_release_same_result_whatever_the_unit():
    release = release_of(daily(600), np.random.default_rng(5))
    series = smooth(release, season=288)
    again = smooth(release, season=288)
    assert np.array_equal(series.values, again.values)
    thousands = Release(
        steps=release.steps,
        values=release.values / 1000 + 7,
        size=600,
        scale=release.scale / 1000,
        sampling_probability=0.1,
    )
    scaled = smooth(thousands, season=288)
    assert np.allclose(scaled.values, series.values / 1000 + 7, rtol=1e-6)
    assert np.allclose(scaled.standard_error, series.standard_error / 1000, rtol=1e-5)


@pytest.mark.parametrize("values", [[], [3.0], [1.0, 2.0, 3.0], [5.0] * 20])
def test_what_cannot_be_fitted_falls_back_and_says_so(values):
    steps = 3 * np.arange(len(values))
    release = Release(steps=steps, values=values, size=100, scale=2.0, sampling_probability=0.1)
    series = smooth(release, season=24)
    assert not series.converged
    assert series.model.startswith("linear interpolation (")
    assert series.error_covers == "noise"
    assert np.array_equal(series.values, interpolate(release).values)


def test_a_fit_that_does_not_converge_falls_back(monkeypatch):
    monkeypatch.setattr("opendp_timeseries.reconstruction.smooth.MAX_EVALUATIONS", 5)
    release = release_of(daily(600), np.random.default_rng(5))
    series = smooth(release, season=288)
    assert not series.converged
    assert series.model == "linear interpolation (the fit did not converge)"


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (np.full(30, 1e300), 1.0),
        (np.where(np.arange(30) % 2, 1e300, -1e300), 1.0),
        (np.where(np.arange(30) % 2, 1e-300, 0.0), 1e-310),
        (np.arange(30.0), 0.0),
        (np.arange(30.0), 1e150),
        (np.where(np.arange(30) == 7, 1e12, 0.0), 1.0),
    ],
)
def test_no_release_raises_or_warns(values, scale):
    release = Release(steps=np.arange(30) * 2, values=values, size=60, scale=scale, sampling_probability=0.5)
    series = smooth(release, season=12)
    assert np.all(np.isfinite(series.values)) or not series.converged


def test_it_stands_behind_a_measurement_as_it_is():
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=60), dp.l2_distance(T=float)
    measurement = space >> then_release(1.0, sampling_probability=0.9, failure_probability=0.1)
    signal = (100 * np.sin(2 * np.pi * np.arange(60) / 12)).astype(int)
    for function in (smooth, functools.partial(smooth, season=12)):
        series = (measurement >> function)(signal)
        assert isinstance(series, Series)
        assert len(series) == 60
    assert "season 12 with" in series.model


def test_each_series_of_a_panel_is_fitted_by_itself():
    rng = np.random.default_rng(4)
    parts = [release_of(signal, rng, scale=5.0, probability=0.4) for signal in (daily(96, 24), 9 * daily(96, 24))]
    few = Release(steps=[3], values=[50.0], size=96, scale=5.0, sampling_probability=0.4)
    steps = np.concatenate([part.steps + 96 * k for k, part in enumerate([*parts, few])])
    values = np.concatenate([part.values for part in [*parts, few]])
    whole = panel(("low", "high", "none"), steps=steps, values=values, size=3 * 96, scale=5.0, probability=0.4)
    series = smooth(whole, season=24)
    for key, part in zip(("low", "high", "none"), [*parts, few], strict=True):
        alone = smooth(part, season=24)
        found = series.by_key()[key]
        assert np.array_equal(found.values, alone.values)
        assert np.array_equal(found.standard_error, alone.standard_error)
        assert (found.model, found.error_covers, found.converged) == (
            alone.model, alone.error_covers, alone.converged,
        )  # fmt: skip
    # The whole says no more than is so of every part.
    assert not series.converged
    assert series.error_covers == "noise"
    assert "none: linear interpolation (fewer than 8 steps were kept)" in series.model


@pytest.mark.parametrize("seasons", [np.array([24, 33]), [24, 33.0], (np.int64(33), np.float32(24))])
def test_seasons_in_any_row(seasons):
    release = release_of(daily(96, 24), np.random.default_rng(4), scale=5.0, probability=0.4)
    assert "season 24, 33 with" in smooth(release, season=seasons).model
    assert smooth(release, season=np.array(24)).model == smooth(release, season=24).model


@pytest.mark.parametrize("season", ["1d", ["1d"], np.timedelta64(1, "D"), np.array([24, 168], "m8[ns]"), True, {24}])
def test_a_season_is_a_number_of_steps(season):
    release = Release(steps=[0], values=[1.0], size=2, scale=1.0, sampling_probability=0.5)
    with pytest.raises(
        TypeError, match=r"season \(.+\) must be a real number.*; a season is a number of steps"
    ) as error:
        smooth(release, season=season)
    assert "such as season=24" in str(error.value)


def test_bad_parameters_are_refused():
    release = Release(steps=[0], values=[1.0], size=2, scale=1.0, sampling_probability=0.5)
    with pytest.raises(ValueError, match=r"season \(1.0\) must be at least 2; a season is a number of steps"):
        smooth(release, season=1)
    with pytest.raises(ValueError, match=r"season \(nan\)"):
        smooth(release, season=(24, float("nan")))


def test_without_statsmodels_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.kalman_smoother", None)
    release = Release(steps=[0], values=[1.0], size=2, scale=1.0, sampling_probability=0.5)
    with pytest.raises(ImportError, match=r"opendp_timeseries\[smooth\]"):
        smooth(release)
