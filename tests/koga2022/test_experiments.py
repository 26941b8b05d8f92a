"""The experiment code behind the notebooks: noise levels and guarantees of its mechanisms, its series, its bounds."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import opendp_timeseries as ts
from opendp_timeseries.koga2022 import experiments as ex
from opendp_timeseries.koga2022.datasets import synth
from tests.oracles.blocks import block_scale, block_squares, gaussian_taps
from tests.refused import refuses

PEMS_FILE = Path(__file__).parents[1] / "data" / "pems_flow_5min_2016_janfeb.csv"
EPSILON, DELTA = 0.5, 1e-4


def problem(size, cap, level=50, **settings):
    signal = np.full(size, level)
    return ex.Problem(name="flat", signal=signal, truth=signal.astype(float), participation_cap=cap, **settings)


def gaussian_profile(epsilon, squared, scale):
    ratio = np.sqrt(squared) / scale
    return norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)


def exact_scale(chance, squared):
    """Noise at which a mixture of Gaussian mechanisms has the profile (EPSILON, DELTA): SciPy alone."""
    return brentq(lambda scale: chance @ gaussian_profile(EPSILON, squared, scale) - DELTA, 0.01, 1e3, xtol=1e-10)


SETTINGS = [(1800, 180, 52.944, 83.524), (725, 73, 38.377, None), (2126, 213, 56.374, None)]


@pytest.mark.parametrize(("size", "cap", "paper", "paper_filtered"), SETTINGS)
def test_noise_levels(size, cap, paper, paper_filtered):
    flat = problem(size, cap)
    classical = math.sqrt(cap * 2 * math.log(1.25 / DELTA)) / EPSILON
    assert ex.gaussian(flat).scale == pytest.approx(classical, rel=1e-12)
    assert ex.gaussian(flat, exact=True).scale == pytest.approx(exact_scale(np.ones(1), np.array([cap])), rel=1e-9)
    assert ex.algorithm1(flat, filtered=False).scale == pytest.approx(paper, rel=2e-5)
    kept = np.arange(1, cap + 1)
    exact = exact_scale(binom.pmf(kept, cap, 0.1), kept)
    assert exact <= ex.subsampled(flat, filtered=False).scale * (1 + 1e-10) <= exact * (1 + 1e-7)
    if paper_filtered:
        assert ex.algorithm1(flat, filtered=True).scale == pytest.approx(paper_filtered, rel=2e-5)
        assert ex.subsampled(flat, filtered=True).scale == pytest.approx(25.26, abs=0.03)


def test_every_mechanism_makes_the_same_promise():
    flat = problem(300, 30)
    for filtered in (False, True):
        epsilon, delta = ex.algorithm1(flat, filtered=filtered).measurement.map(1)
        assert epsilon == pytest.approx(EPSILON, rel=1e-5)
        assert delta == DELTA
        epsilon, delta = ex.subsampled(flat, filtered=filtered).measurement.map(1)
        assert 0.999999 * EPSILON <= epsilon <= EPSILON
        assert delta == DELTA
    # Gaussian noise: (EPSILON, DELTA) by the exact profile at the ρ that OpenDP's map says.
    for make in (ex.gaussian, ex.fourier):
        for exact in (False, True):
            rho = make(flat, exact=exact).measurement.map(1)
            truth = gaussian_profile(EPSILON, 2 * rho, 1.0)
            assert truth <= DELTA * (1 + 1e-6)
            if exact:
                assert truth >= 0.99 * DELTA
    assert 0.999999 * EPSILON <= ex.fourier_laplace(flat).measurement.map(1) <= EPSILON


def test_exact_fourier_counts_what_few_steps_can_move():
    # One step in 100 moves the mean's coefficient by 1/10.
    mean_alone = ex.fourier(problem(100, 1), 1, exact=True).scale
    assert mean_alone == pytest.approx(exact_scale(np.ones(1), np.array([0.01])), rel=1e-6)
    assert ex.fourier(problem(100, 1), 1).scale == pytest.approx(10 * 0.1 * 8.6873, rel=1e-3)


def test_best_k_knows_the_observation_noise():
    # Energies 8e7, 1.8e6 and 5e4. A coefficient's noise costs 755, and 250,755 where the steps are noisy themselves.
    waves = sum(a * np.sin(2 * np.pi * m * np.arange(1000) / 1000) for m, a in ((1, 400), (3, 60), (9, 10)))
    clean = ex.Problem(name="", signal=np.rint(waves).astype(int), truth=waves, participation_cap=10)
    noisy = ex.Problem(name="", signal=clean.signal + (-1) ** np.arange(1000) * 500, truth=waves, participation_cap=10)
    for given, k in ((problem(1000, 10), 1), (clean, 10), (noisy, 4)):
        assert ex.fourier(given).name == f"DFT, k = {k} (best)"


def test_releases_and_their_errors():
    flat = problem(400, 20)
    mechanisms = [
        ex.gaussian(flat), ex.fourier(flat, 5), ex.fourier(flat, 5, exact=True), ex.fourier_laplace(flat, 5),
        *(make(flat, filtered=f) for make in (ex.algorithm1, ex.subsampled) for f in (False, True)),
    ]  # fmt: skip
    for mechanism in mechanisms:
        released = ex.releases(mechanism, flat, 2)
        assert released.shape == (2, 400)
        assert np.isfinite(released).all()
        assert not np.array_equal(*released)
    # Of 4,000 draws: within 5 standard errors of σ√(2/π), a false alarm in two million.
    errors = ex.mean_absolute_errors(ex.releases(mechanisms[0], flat, 10), flat.truth)
    expected = mechanisms[0].scale * math.sqrt(2 / math.pi)
    assert abs(errors.mean() - expected) < 5 * mechanisms[0].scale * math.sqrt((1 - 2 / math.pi) / 4000)
    assert ex.mean_absolute_errors([[1, 2], [4, 0]], np.array([1.0, 4.0])).tolist() == [1.0, 3.5]
    refuses("runs", ex.releases, mechanisms[0], flat, 0)


def test_a_reconstruction_of_ones_own_stands_in_the_table():
    flat = problem(400, 20)

    def its_mean(release):
        return ts.Series(np.full(release.size, release.values.mean()), release=release, model="its mean")

    for method, name, noise in (
        (ex.subsampled(flat, filtered=False, reconstruct=its_mean), "ours, without filter, its mean", 40),
        (ex.every_step(flat, reconstruct=its_mean), "every step, then its mean", 400),
    ):
        assert method.name == name
        released = ex.releases(method, flat, 2)
        assert np.all(released == released[:, :1])
        # Within 6 standard deviations of a mean of about so many noisy values, of at least half of them.
        assert np.all(ex.mean_absolute_errors(released, flat.truth) < 6 * method.scale / math.sqrt(noise / 2))


def test_generated_series_have_the_papers_settings():
    for make, size, cap, mean in (
        (ex.gowalla_like, 725, 73, 7), (ex.foursquare_like, 2126, 213, 14)
    ):  # fmt: skip
        series = make()
        assert (series.size, series.participation_cap, series.signal.min() >= 0) == (size, cap, True)
        assert series.truth.mean() == pytest.approx(mean, rel=0.06)
        assert np.array_equal(series.signal, make().signal)
    with pytest.raises(FileNotFoundError):
        ex.pems("no such file.csv")
    heavier = ex.gowalla_like().scaled(2.4)
    assert heavier.signal.dtype == np.int64
    assert np.abs(heavier.truth - 2.4 * ex.gowalla_like().truth).max() <= 0.5


def test_synthetic_series_keep_their_settings():
    series = synth(1 / 16, noisy=True, rng=np.random.default_rng(0))
    assert (series.size, series.participation_cap, series.std) == (625, 100, 5.0)
    assert series.sampling_probability == pytest.approx(0.2)
    assert np.abs(series.signal - series.truth).mean() == pytest.approx(100 * math.sqrt(2 / math.pi), rel=0.2)


@pytest.mark.long
def test_what_the_paper_and_we_err_by_on_the_pems_file():
    """Means of 20 runs within 7 of their standard errors: a false alarm in 10¹¹."""
    series = ex.pems(PEMS_FILE)
    assert (series.size, series.signal.sum()) == (1800, 110_050)
    for mechanism, mean, sd in (
        (ex.gaussian(series), 93.0, 1.7),
        (ex.algorithm1(series, filtered=False), 36.4, 2.5),
        (ex.algorithm1(series, filtered=True), 55.7, 3.9),
        (ex.subsampled(series, filtered=False), 20.2, 1.3),
        (ex.subsampled(series, filtered=True), 19.8, 1.2),
        (ex.fourier(series, 20), 18.7, 1.2),
    ):
        errors = ex.mean_absolute_errors(ex.releases(mechanism, series, 20), series.truth)
        assert abs(errors.mean() - mean) < 7 * sd / math.sqrt(20)


#: A filter, and what it leaves of somebody in three steps.
FILTER = ts.gaussian_kernel(12, 1.0)
FILTERED = np.array([FILTER.taps[(t - np.arange(3)) % 12].sum() for t in range(12)])


def sampled_energies(squares, p):
    """Every value of the kept energy, with its probability."""
    kept = np.array(list(itertools.product([0, 1], repeat=len(squares))))
    return kept @ squares, np.prod(np.where(kept, p, 1 - p), axis=1)


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_lower_bound_against_every_sample(p):
    sums, chance = sampled_energies(FILTERED**2, p)
    true = exact_scale(chance[sums > 0], sums[sums > 0])
    lower = ex.block_scale_lower(FILTER, 3, p, EPSILON, DELTA)
    assert true * 0.9999 <= lower <= true * (1 + 1e-8)
    # Rounded up instead, it would be no lower bound.
    cells = 200
    width = (FILTERED**2).sum() / cells
    rounded, _ = sampled_energies(np.ceil(FILTERED**2 / width) * width, p)
    assert exact_scale(chance[rounded > 0], rounded[rounded > 0]) > true * (1 + 1e-6)
    assert ex.block_scale_lower(FILTER, 3, p, EPSILON, DELTA, cells=cells) < true


@pytest.mark.parametrize(("std", "cap", "p"), [(2, 20, 0.1), (30, 180, 0.5)])
def test_lower_bound_is_close_below_the_block_and_our_noise(std, cap, p):
    lower = ex.block_scale_lower(ts.gaussian_kernel(1800, std), cap, p, EPSILON, DELTA)
    assert 1.0 <= block_scale(block_squares(gaussian_taps(1800, std), cap), p, EPSILON, DELTA) / lower <= 1.001
    ours = ex.subsampled(problem(1800, cap, std=std, sampling_probability=p), filtered=True).scale
    assert 1.0 <= ours / lower <= 1.005


@pytest.mark.filterwarnings("ignore::opendp_timeseries.LargeDeltaWarning")
@pytest.mark.parametrize("p", [0.1, 0.4])
def test_alpha_of_the_chain_holds_for_every_sample(p):
    sums, chance = sampled_energies(FILTERED**2, p)
    tails = [0.3, 0.1, 0.01, 1e-4]
    alphas = ex.alpha_of_chain(FILTER, 3, p, tails)
    assert np.all(np.diff(alphas) > 0)
    assert alphas[-1] <= math.sqrt((FILTERED**2).sum() / 3) * (1 + 1e-9)
    for alpha, tail in zip(alphas, tails, strict=True):
        assert chance[sums > alpha**2 * 3 * (1 + 1e-9)].sum() <= tail
    # The mean energy alone, α = √p, is exceeded far more often than that.
    assert chance[sums > p * (FILTERED**2).sum()].sum() > 0.1


@pytest.mark.long
def test_every_step_is_filtered_and_smoothed_after_the_noise():
    """Without noise the filter is the paper's; with it, means of 10 runs on the PeMS file."""
    flat = problem(300, 30)
    for smoothed in (False, True):
        mechanism = ex.every_step(flat, smoothed=smoothed)
        epsilon, delta = mechanism.measurement.map(1)
        assert 0.999999 * EPSILON <= epsilon <= EPSILON
        assert delta == DELTA
        assert mechanism.scale == pytest.approx(ex.gaussian(flat, exact=True).scale, rel=1e-8)
        assert mechanism.numbers == 300
    series = ex.pems(PEMS_FILE)
    for mechanism, mean, sd in (
        (ex.every_step(series), 14.0, 0.9),
        (ex.every_step(series, smoothed=True), 13.6, 0.9),
        (ex.subsampled(series, filtered=False, smoothed=True), 17.0, 1.2),
    ):
        errors = ex.mean_absolute_errors(ex.releases(mechanism, series, 10), series.truth)
        assert abs(errors.mean() - mean) < 7 * sd / math.sqrt(10)
