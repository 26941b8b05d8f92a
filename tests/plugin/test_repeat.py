"""Rényi curves convert and compose with native measurements; equal releases compose exactly."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Majorant, repeated_influence
from opendp_timeseries.accounting.renyi import delta_from_renyi
from opendp_timeseries.plugin.spaces import influence_space

SIZE = 60
LOG = {"id": np.repeat(np.arange(50), 4), "time": np.arange(200) % SIZE}
APPROX_DP = {"output_measure": dp.approximate(dp.max_divergence()), "delta": 1e-6}


def test_the_norm_of_copies_is_never_rounded_down():
    for l2 in np.random.default_rng(0).uniform(0.5, 9, 50).tolist():
        for times in (2, 3, 7, 10):
            copies = repeated_influence(ts.Influence(l0=3, l2=l2, linf=l2), times)
            exact = Fraction(l2) ** 2 * times
            assert exact <= Fraction(copies.l2) ** 2 <= exact * (1 + Fraction(1, 2**49))


@pytest.fixture
def count(log_space):
    return log_space >> ts.then_participation_count(ts.TimeGrid(size=SIZE), participation_cap=10)


@pytest.fixture
def native(log_space):
    count = log_space >> ts.then_participation_count(
        ts.TimeGrid(size=SIZE), participation_cap=10, output_metric=dp.l2_distance(T=float)
    )
    return count >> dp.m.then_gaussian(20.0)


def noise(scale=4.0, **kwargs):
    return ts.then_subsampled_gaussian(scale, sampling_probability=0.1, **kwargs)


def test_native_zcdp_as_a_curve(native):
    curve = ts.make_zCDP_to_renyiDP(native)
    rho = native.map(1)
    for alpha in (1.5, 2.0, 10.0):
        assert rho * alpha <= curve.map(1)(alpha) <= rho * alpha * (1 + 1e-15)
    assert curve.map(0)(2.0) == 0
    assert len(curve(LOG)) == SIZE
    with pytest.raises(dp.OpenDPException, match="alpha"):
        curve.map(1)(1.0)


def test_ours_and_native_in_one_renyi_composition_to_epsilon_delta(count, native):
    ours = count >> noise(output_measure=dp.renyi_divergence())
    both = dp.c.make_composition([ours, ts.make_zCDP_to_renyiDP(native)])
    assert both.map(1)(3.0) == pytest.approx(ours.map(1)(3.0) + 3 * native.map(1), rel=1e-12)
    fixed = dp.c.make_fix_delta(ts.make_renyiDP_to_approxDP(both), delta=1e-6)
    epsilon, delta = fixed.map(1)
    assert delta == 1e-6
    assert delta_from_renyi(both.map(1), epsilon * (1 + 1e-6)) <= 1e-6
    assert delta_from_renyi(both.map(1), epsilon * (1 - 1e-3)) > 1e-6
    release, values = fixed(LOG)
    assert isinstance(release, ts.Release)
    assert len(values) == SIZE


def test_conversion_is_above_the_exact_profile(count):
    curve = ts.make_renyiDP_to_approxDP(count >> noise(output_measure=dp.renyi_divergence())).map(1)
    exact = (count >> noise(output_measure=dp.smoothed_max_divergence())).map(1)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        assert exact.delta(epsilon) <= curve.delta(epsilon) <= 1


def test_conversions_agree_with_dp_accounting(count):
    accounting = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.linspace(1.1, 30, 1000).tolist()
    curve = (count >> noise(output_measure=dp.renyi_divergence())).map(1)
    theirs, _ = accounting.compute_delta(orders, [curve(float(a)) for a in orders], 1.0)
    ours = ts.make_renyiDP_to_approxDP(count >> noise(output_measure=dp.renyi_divergence())).map(1).delta(1.0)
    # Their conversion is the same formula over these orders; ours searches for the best one.
    assert ours <= theirs * (1 + 1e-9)
    assert ours >= theirs * 0.9


def test_other_measures_are_refused(count, native):
    with pytest.raises(TypeError, match="output_measure"):
        ts.make_renyiDP_to_approxDP(native)
    with pytest.raises(TypeError, match="output_measure"):
        ts.make_zCDP_to_renyiDP(count >> noise(failure_probability=1e-6))
    with pytest.raises(TypeError, match="Transformation"):
        ts.make_zCDP_to_renyiDP(count)


def test_equal_releases_compose_exactly(count):
    # n releases at once are one release of n copies, with Bin(nI, p) in place of Bin(I, p).
    n, scale, epsilon = 4, 4.0, 1.0
    joint = count >> ts.then_repeat(n) >> noise(scale, output_measure=dp.smoothed_max_divergence())
    kept = np.arange(n * 10 + 1)
    weights = np.array([math.comb(n * 10, k) * 0.1**k * 0.9 ** (n * 10 - k) for k in kept])
    root = np.sqrt(kept[1:]) / scale
    phi = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2)
    exact = weights[1:] @ (phi(root / 2 - epsilon / root) - math.exp(epsilon) * phi(-root / 2 - epsilon / root))
    assert exact * (1 - 1e-12) <= joint.map(1).delta(epsilon) <= exact * (1 + 1e-9)
    one = (count >> noise(scale, **APPROX_DP)).map(1)[0]
    assert (count >> ts.then_repeat(n) >> noise(scale, **APPROX_DP)).map(1)[0] < n * one


def test_copies_are_sampled_each_by_itself(count):
    measurement = count >> ts.then_repeat(3) >> noise(0.0, failure_probability=1e-6)
    releases = list(measurement(LOG).by_key(range(3)).values())
    assert [release.size for release in releases] == [SIZE] * 3
    assert len({release.steps.tobytes() for release in releases}) == 3  # equal with probability below 1e-8
    truth = np.array(count(LOG))
    for release in releases:
        assert np.array_equal(release.values, truth[release.steps])


def test_copies_go_through_a_filter_each_by_itself(count):
    kernel = ts.gaussian_kernel(SIZE, 2.0)
    first = count >> ts.then_circulant_filter(kernel) >> ts.then_repeat(2)
    then = count >> ts.then_repeat(2) >> ts.then_circulant_filter(kernel)
    assert np.array_equal(first(LOG), then(LOG))
    for chain in (first, then):
        space = influence_space(chain.output_metric)
        assert (space.resolution_bits, space.panel_size) == (kernel.resolution_bits, 2)
    assert first.map(1).l2 <= then.map(1).l2 * (1 + 1e-12)


def test_repeated_influence_bounds_every_copy():
    rng = np.random.default_rng(0)
    for _ in range(200):
        v = np.where(rng.random(9) < 0.5, rng.normal(size=9), 0.0)
        magnitudes = -np.sort(-np.abs(v))
        one = ts.Influence(
            l0=np.count_nonzero(v),
            l2=float(np.linalg.norm(v)),
            linf=float(magnitudes[0]),
            majorant=Majorant(magnitudes),
        )
        many = repeated_influence(one, 3)
        copies = -np.sort(-np.abs(np.tile(v, 3)))
        assert np.count_nonzero(copies) == many.l0
        assert np.linalg.norm(copies) <= many.l2 * (1 + 1e-12)
        assert copies[0] == many.linf
        assert np.allclose(copies[: len(many.majorant.values)], many.majorant.values)


def test_repeat_refuses_what_it_does_not_know(count, log_space):
    with pytest.raises(ValueError, match="times"):
        count >> ts.then_repeat(0)
    l2 = log_space >> ts.then_participation_count(
        ts.TimeGrid(size=5), participation_cap=2, output_metric=dp.l2_distance(T=float)
    )
    with pytest.raises(TypeError, match="influence_distance"):
        l2 >> ts.then_repeat(2)
