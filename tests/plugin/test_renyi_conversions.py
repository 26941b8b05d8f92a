"""Conversions to and from Rényi curves: rounded up, and of releases that are data alone."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts

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
        curve = ts.make_zCDP_to_renyiDP(gaussian(scale)).map(1)
        for alpha in (1 + 10 ** rng.uniform(-3, 3, 20)).tolist():
            exact = Fraction(rho) * Fraction(alpha)
            assert exact <= Fraction(curve(alpha)) <= exact * (1 + Fraction(1, 2**51))


def test_a_queryable_is_not_handed_out_under_a_converted_loss():
    interactive = adaptive(dp.zero_concentrated_divergence())
    assert isinstance(interactive(1), dp.Queryable)
    with pytest.raises(dp.OpenDPException, match="an interactive measurement cannot be converted"):
        ts.make_zCDP_to_renyiDP(interactive)(1)
    both = dp.c.make_composition([gaussian(2.0), interactive])
    with pytest.raises(dp.OpenDPException, match="an interactive measurement cannot be converted"):
        ts.make_zCDP_to_renyiDP(both)(1)


def test_a_queryable_under_a_renyi_curve_is_refused_too():
    # OpenDP does not compose Rényi curves adaptively, so the queryable comes from a user's own measurement.
    interactive = dp.m.make_user_measurement(
        *SPACE,
        dp.renyi_divergence(),
        adaptive(dp.zero_concentrated_divergence()).invoke,
        lambda d_in: lambda alpha: alpha * d_in,
    )
    with pytest.raises(dp.OpenDPException, match="an interactive measurement cannot be converted"):
        ts.make_renyiDP_to_approxDP(interactive)(1)


def test_data_pass_unchanged():
    assert isinstance(ts.make_zCDP_to_renyiDP(gaussian(2.0))(1), int)
    pair = ts.make_zCDP_to_renyiDP(dp.c.make_composition([gaussian(2.0), gaussian(3.0)]))(1)
    assert [type(number) for number in pair] == [int, int]
