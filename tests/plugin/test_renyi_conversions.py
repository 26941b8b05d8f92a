"""Conversions to and from Rényi curves: rounded up, and of releases that are data alone."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.conversions import delta_from_renyi
from opendp_timeseries.plugin.conversions import make_renyiDP_to_approxDP, make_zCDP_to_renyiDP
from tests.refused import refuses

dp.enable_features("contrib", "honest-but-curious")
SPACE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def gaussian(scale):
    return SPACE >> dp.m.then_gaussian(scale)


def adaptive(measure):
    return dp.c.make_adaptive_composition(*SPACE, measure, d_in=1, d_mids=[1.0])


def test_a_curve_is_never_below_the_zcdp_that_it_comes_from():
    rng = np.random.default_rng(0)
    for scale in rng.uniform(0.5, 9, 50).tolist():
        rho = gaussian(scale).map(1)
        curve = make_zCDP_to_renyiDP(gaussian(scale)).map(1)
        for alpha in (1 + 10 ** rng.uniform(-3, 3, 20)).tolist():
            exact = Fraction(rho) * Fraction(alpha)
            assert exact <= Fraction(curve(alpha)) <= exact * (1 + Fraction(1, 2**51))


def test_a_queryable_is_not_handed_out_under_a_converted_loss():
    interactive = adaptive(dp.zero_concentrated_divergence())
    assert isinstance(interactive(1), dp.Queryable)
    with pytest.raises(dp.OpenDPException, match="Refusal: an interactive measurement"):
        make_zCDP_to_renyiDP(interactive)(1)
    both = dp.c.make_composition([gaussian(2.0), interactive])
    with pytest.raises(dp.OpenDPException, match="Refusal: an interactive measurement"):
        make_zCDP_to_renyiDP(both)(1)


def test_a_queryable_under_a_renyi_curve_is_refused_too():
    # OpenDP does not compose Rényi curves adaptively, so the queryable comes from a user's own measurement.
    interactive = dp.m.make_user_measurement(
        *SPACE,
        dp.renyi_divergence(),
        adaptive(dp.zero_concentrated_divergence()).invoke,
        lambda d_in: lambda alpha: alpha * d_in,
    )
    with pytest.raises(dp.OpenDPException, match="Refusal: an interactive measurement"):
        make_renyiDP_to_approxDP(interactive)(1)


def test_data_pass_unchanged():
    assert isinstance(make_zCDP_to_renyiDP(gaussian(2.0))(1), int)
    pair = make_zCDP_to_renyiDP(dp.c.make_composition([gaussian(2.0), gaussian(3.0)]))(1)
    assert [type(number) for number in pair] == [int, int]


# --- subsampled Gaussians ---

CURVE = {"output_measure": dp.renyi_divergence()}


@pytest.fixture
def count(log_space):
    return log_space >> ts.then_participation_count(ts.TimeGrid(size=60), participation_cap=10)


@pytest.fixture
def native(count):
    return count >> ts.then_lp_distance(dp.l2_distance(T=float)) >> dp.m.then_gaussian(20.0)


def noise(**kwargs):
    return ts.then_subsampled_gaussian(4.0, sampling_probability=0.1, **kwargs)


def test_a_curve_of_nothing_is_zero_and_begins_beyond_order_one(native):
    curve = make_zCDP_to_renyiDP(native)
    assert curve.map(0)(2.0) == 0
    refuses("alpha", curve.map(1), 1.0, error=dp.OpenDPException)


@pytest.mark.long
def test_ours_and_native_in_one_renyi_composition_to_epsilon_delta(count, native):
    ours = count >> noise(**CURVE)
    both = dp.c.make_composition([ours, make_zCDP_to_renyiDP(native)])
    assert both.map(1)(3.0) == pytest.approx(ours.map(1)(3.0) + 3 * native.map(1), rel=1e-12)
    fixed = dp.c.make_fix_delta(make_renyiDP_to_approxDP(both), delta=1e-6)
    epsilon, delta = fixed.map(1)
    assert delta == 1e-6
    assert delta_from_renyi(both.map(1), epsilon * (1 + 1e-6)) <= 1e-6
    assert delta_from_renyi(both.map(1), epsilon * (1 - 1e-3)) > 1e-6
    release, values = fixed({"id": np.repeat(np.arange(50), 4), "time": np.arange(200) % 60})
    assert isinstance(release, ts.Release)
    assert len(values) == 60


def test_conversion_is_above_the_exact_profile(count):
    curve, exact = make_renyiDP_to_approxDP(count >> noise(**CURVE)).map(1), (count >> noise()).map(1)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        assert exact.delta(epsilon) <= curve.delta(epsilon) <= 1


def test_conversions_agree_with_dp_accounting(count):
    accounting = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.linspace(1.1, 30, 1000).tolist()
    measurement = count >> noise(**CURVE)
    theirs, _ = accounting.compute_delta(orders, [measurement.map(1)(float(a)) for a in orders], 1.0)
    ours = make_renyiDP_to_approxDP(measurement).map(1).delta(1.0)
    # Their conversion is the same formula over these orders; ours searches for the best one.
    assert theirs * 0.9 <= ours <= theirs * (1 + 1e-9)


def test_other_measures_are_refused(count, native):
    refuses("output_measure", make_renyiDP_to_approxDP, native, error=TypeError)
    refuses("output_measure", make_zCDP_to_renyiDP, count >> noise(failure_probability=1e-6), error=TypeError)
    refuses("Transformation", make_zCDP_to_renyiDP, count, error=TypeError)
