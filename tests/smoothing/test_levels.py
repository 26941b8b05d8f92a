"""Levels of private series and of panels of them: right on average, with errors that are stated jointly."""

import numpy as np
import pytest

from opendp_timeseries.design.tiers import Tiers, default_tiers
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.smoothing.everybody import levels_by_often
from opendp_timeseries.smoothing.levels import Prior, fit_level, fit_panel_levels, positive_levels
from opendp_timeseries.smoothing.matrices import FitError
from tests.oracles import levels as oracle
from tests.refused import refuses
from tests.test_documented_numbers import table

#: Noise by sensitivity, of (ε, 1e-6)-differential privacy.
NOISE = {1.0: 4.2247, 0.25: 15.37}


def table_of(most, size, *, epsilon=1.0, tiers=None):
    """Ends, weights in units of the noise, and the standard deviation of means over so many steps."""
    ends, weights = (tiers or default_tiers(most)).table(most)
    return ends, weights / 2**RESOLUTION_BITS / (NOISE[epsilon] * np.sqrt(ends[0])), size**-0.5


def means_of(often, size, ends, weights):
    """What the scales show on average of people who come so often each."""
    return weights[np.searchsorted(ends, often)].T @ often / size


@pytest.mark.parametrize("most", [9, 31, 775, 8760])
@pytest.mark.parametrize("mean", [0.0, 30.0, -3.0])
def test_noise_of_either_sign_does_the_same_where_nobody_comes_often(most, mean):
    """So the level is right on average, exactly: not to the precision of a simulation."""
    ends, weights, noise = table_of(most, most)
    rng = np.random.default_rng(most)
    for times in (0.1, 1.0, 10.0):
        drawn = times * noise * rng.normal(size=weights.shape[1])
        up, down = (fit_level(mean * weights[0] + sign * drawn, ends, weights, noise) for sign in (1, -1))
        assert up.value + down.value == pytest.approx(2 * mean, rel=1e-9, abs=1e-9)
        assert up.variance == pytest.approx(down.variance, rel=1e-9)
    # The broken variant: levels that are kept positive.
    pairs = [levels_by_often(mean * weights[0] + sign * drawn, ends, weights, noise).levels.sum() for sign in (1, -1)]
    assert abs(sum(pairs) - 2 * mean) > 1e-3


@pytest.mark.parametrize(("most", "tiers"), [(31, None), (200, None), (60, Tiers(ends=())), (1344, None)])
def test_one_level_is_that_of_the_oracle(most, tiers):
    ends, weights, noise = table_of(most, most, tiers=tiers)
    ends, weights = ends[-12:], weights[-12:]  # enough, as the oracle takes one prior at a time
    rng = np.random.default_rng(most)
    for often in (np.full(50, ends[0]), rng.integers(1, most, 30), np.full(4, most), np.full(10**4, ends[0])):
        values = means_of(often, most, ends, weights) + rng.normal(0, noise, weights.shape[1])
        total, variance, _, shape = fit_level(values, ends, weights, noise)
        expected = oracle.level(values, ends, weights, noise)
        assert total == pytest.approx(expected[0], rel=1e-6)
        assert variance == pytest.approx(expected[1], rel=1e-5)
        assert shape == pytest.approx(expected[2], rel=1e-5)


@pytest.mark.parametrize("most", [31, 300])
def test_levels_of_a_panel_are_those_of_the_oracle(most):
    ends, weights, noise = table_of(most, most)
    ends, weights = ends[-12:], weights[-12:]
    rng = np.random.default_rng(most)
    each = [rng.integers(1, most, people) for people in (0, 2, 20, 90, 200)]
    values = np.array([means_of(often, most, ends, weights) for often in each])
    values += rng.normal(0, noise, values.shape)
    found, (expected, covariance) = (
        fit_panel_levels(values, ends, weights, noise),
        oracle.panel(values, ends, weights, noise),
    )
    assert found.values == pytest.approx(expected, rel=1e-6)
    assert found.covariance == pytest.approx(covariance, rel=1e-6, abs=1e-9 * covariance.max())
    assert found.values.sum() == pytest.approx(fit_level(values.sum(axis=0), ends, weights, noise * 5**0.5).value)
    assert found.covariance.sum() == pytest.approx(found.variance_of_sum)


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "before"), [(1.0, 1.05), (0.25, 1.3)])
def test_a_panel_adds_up_to_the_truth(epsilon, before):
    """25 stations of 31 days and 30 people a day, nobody of whom comes on more than 10, in 200 releases."""
    stations, days, people = 25, 31, 30.0
    ends, weights, noise = table_of(stations * days, days, epsilon=epsilon)
    rng = np.random.default_rng(2)
    sizes = rng.gamma(4.0, people / 4, stations)
    truth = sizes[:, None] * weights[0]
    covered, of_keys, ratios = [], [], []
    for _ in range(200):
        values = truth + rng.normal(0, noise, truth.shape)
        found = fit_panel_levels(values, ends, weights, noise)
        ratios.append(found.values.sum() / sizes.sum())
        covered.append(abs(found.values.sum() - sizes.sum()) < 1.645 * found.variance_of_sum**0.5)
        of_keys.append(np.abs(found.values - sizes) < 1.645 * np.sqrt(np.diag(found.covariance)))
    assert abs(np.mean(ratios) - 1) < 3 * np.std(ratios) / 200**0.5
    # Above 90%: no release shows that nobody comes often.
    assert np.mean(covered) > 0.88
    assert np.mean(of_keys) > 0.88
    # The broken variant: each key by itself, and kept positive.
    alone = [levels_by_often(row, ends, weights, noise).levels.sum() for row in values]
    assert sum(alone) > before * sizes.sum()


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("drawn", "size", "of_alone"),
    [
        (lambda rng: np.minimum(rng.geometric(1 / 100, 4000), 550), 8760, 0.6),  # aircraft in a year of hours
        (lambda rng: np.minimum(8 * (rng.pareto(2.0, 3000) + 1), 400).astype(int), 1344, 0.9),
        (lambda rng: np.full(300, 300), 1344, 1.1),  # all alike, which is not smooth
        (lambda rng: np.append(np.full(20, 1344), rng.integers(1, 60, 3600)), 1344, 1.8),  # a few are always there
        (lambda rng: np.full(60, 1344), 1344, 1.5),
        (lambda rng: np.full(40_000, 5), 1344, 0.6),  # nobody comes often
    ],
    ids=["aircraft", "heavy tail", "alike", "two kinds", "always there", "five times"],
)
def test_the_level_is_known_as_well_as_stated_and_mostly_better_than_by_the_last_scale(drawn, size, of_alone):
    often = drawn(np.random.default_rng(0))
    truth, (ends, weights, noise) = sum(often) / size, table_of(size, size)
    shown, alone, errors, stated = means_of(often, size, ends, weights), noise / weights[0, -1], [], []
    for seed in range(40):
        values = shown + np.random.default_rng(seed).normal(0, noise, len(shown))
        found = fit_level(values, ends, weights, noise)
        errors.append(found.value - truth)
        stated.append(found.variance**0.5)
    assert np.mean(np.square(errors)) ** 0.5 < of_alone * alone
    assert np.mean(np.abs(errors) < 1.645 * np.array(stated)) > 0.65
    assert max(stated) < 1.3 * alone


def test_a_level_of_any_size_is_found_or_refused():
    ends, weights, noise = table_of(1344, 1344)
    means = means_of(np.full(30, 4), 1344, ends, weights)
    for times in (1e3, 1e5, 1e7):
        assert fit_level(times * means, ends, weights, noise).value == pytest.approx(times * 120 / 1344, rel=1e-3)
    for absurd in (1e200, np.inf, np.nan):
        refuses("the level was not found", fit_level, absurd * means, ends, weights, noise, error=FitError)
        refuses("not found", fit_panel_levels, absurd * np.array([means, means]), ends, weights, noise, error=FitError)


def test_a_level_without_noise_is_found():
    often = np.random.default_rng(1).geometric(1 / 30, 3000)
    ends, weights, _ = table_of(1344, 1344)
    found = fit_level(means_of(often, 1344, ends, weights), ends, weights, 1e-5)
    assert found.value == pytest.approx(often.sum() / 1344, rel=1e-3)
    assert found.variance**0.5 < 0.02 * found.value


def test_sums_of_a_value_are_found_by_settings_of_their_own():
    """Squared sums reach far beyond what anybody has: with priors of slower falls, and nobody at the end."""
    ends, weights, noise = table_of(8760, 31)
    means = 30.0 * weights[0]
    rng, found = np.random.default_rng(0), {"values": [], "counts": []}
    for _ in range(40):
        values = means + rng.normal(0, noise, len(means))
        found["values"].append(fit_level(values, ends, weights, noise, prior=Prior.of(600)).value)
        found["counts"].append(fit_level(values, ends, weights, noise).value)
    assert np.mean(found["values"]) == pytest.approx(30.0, abs=3 * np.std(found["values"]) / 40**0.5)
    assert np.std(found["values"]) < 0.8 * np.std(found["counts"])


def test_what_is_known_of_all_keys_together_sets_their_sum():
    ends, weights, noise = table_of(310, 31)
    rng = np.random.default_rng(2)
    values = np.outer(rng.gamma(2.0, 10.0, 10), weights[0]) + rng.normal(0, noise, (10, weights.shape[1]))
    of_all = 200.0 * weights[0], noise / 3
    found = fit_panel_levels(values, ends, weights, noise, of_all)
    assert found.values.sum() == pytest.approx(200.0, rel=1e-9)
    assert found.variance_of_sum < fit_panel_levels(values, ends, weights, noise).variance_of_sum / 20


#: How often people come, and in how many steps they may, as in docs/concepts/near-the-truth.md.
PEOPLE = (
    (lambda rng: np.full(93, 10), 31),
    (lambda rng: np.full(4032, 10), 1344),
    (lambda rng: np.minimum(rng.geometric(1 / 20, 2016), 1344), 1344),
    (lambda rng: np.minimum(8 * (rng.pareto(1.1, 1000) + 0.5), 1344).astype(int), 1344),
    (lambda rng: np.append(np.full(8, 1344), rng.geometric(1 / 20, 2150)), 1344),
)


@pytest.mark.long
def test_the_page_says_how_well_a_level_can_be_known():
    rows = table("concepts/near-the-truth.md", "who comes | mean")
    for (drawn, size), (*_, mean, last, error, low, cover) in zip(PEOPLE, rows, strict=True):
        often, (ends, weights, noise) = drawn(np.random.default_rng(0)), table_of(size, size)
        shown, truth = means_of(often, size, ends, weights), often.sum() / size
        assert (truth, noise / weights[0, -1]) == (pytest.approx(mean, abs=0.05), pytest.approx(last, abs=0.05))
        draws = [shown + np.random.default_rng(seed).normal(0, noise, len(shown)) for seed in range(120)]
        found = [fit_level(values, ends, weights, noise) for values in draws]
        errors = np.array([one.value for one in found]) - truth
        stated = np.sqrt([one.variance for one in found])
        # Within four standard errors of 120 draws.
        assert np.mean(errors**2) ** 0.5 == pytest.approx(error, rel=4 / 240**0.5)
        assert -np.mean(errors) == pytest.approx(low, abs=4 * np.std(errors) / 120**0.5)
        assert 100 * np.mean(np.abs(errors) < 1.645 * stated) == pytest.approx(cover, abs=12)


def test_levels_above_zero_are_those_of_any_division():
    """By importance sampling of the posterior; what is known well moves by its variance, as it does without a limit."""
    levels, variances, total = np.array([1.0, 5.0, -3.0, 40.0]), np.array([4.0, 4.0, 4.0, 9.0]), 45.0
    found, left = positive_levels(levels, variances, total)
    drawn = np.random.default_rng(0).normal(levels, np.sqrt(variances), (10**5, 4))
    drawn = drawn[(drawn > 0).all(axis=1)]
    expected = np.average(drawn, axis=0, weights=np.exp(-(((drawn.sum(axis=1) - total) / 0.5) ** 2) / 2))
    assert found.sum() == pytest.approx(total, rel=1e-12)
    assert found == pytest.approx(expected, abs=0.15)
    assert np.all((left > 0) & (left <= variances))
    plain = positive_levels(np.array([100.0, 200.0, 300.0]), np.array([1.0, 2.0, 3.0]), 606.0)
    assert np.allclose(plain, ([101.0, 202.0, 303.0], [1.0, 2.0, 3.0]))
    # Far below nothing, and far above what there is.
    for far in (np.array([-100.0, -200.0, 3.0]), np.full(3, 1e6)):
        found, left = positive_levels(far, np.ones(3), 0.03)
        assert found.sum() == pytest.approx(0.03)
        assert np.all((found > 0) & (left > 0))
    for nothing in (0.0, -1.0, np.nan):
        assert positive_levels(levels, variances, nothing) == (levels, variances)
