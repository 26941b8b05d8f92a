"""From Rényi divergences to a profile: just above 60-digit values at every order that a float can be."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_timeseries.accounting.conversions import delta_from_renyi, renyi_to_delta
from tests.refused import refuses


def exact_delta(alpha, divergence, epsilon):
    with mp.workdps(60):
        a = mp.mpf(alpha)
        log = (a - 1) * (mp.mpf(divergence) - mp.mpf(epsilon)) + a * mp.log1p(-1 / a) - mp.log(a - 1)
        return mp.exp(log) if log < 0 else mp.mpf(1)


def check_delta(alpha, divergence, epsilon):
    truth = exact_delta(alpha, divergence, epsilon)
    got = renyi_to_delta(alpha, divergence, epsilon)
    assert truth <= got <= max(truth * (1 + mp.mpf(3e-11)), 1e-300), (alpha, divergence, epsilon, got)


orders = st.one_of(
    st.floats(-52, 1023).map(lambda x: 1 + 2.0**x),
    st.sampled_from([1 + 2.0**-52, 2.0, 2.0**53 + 2, 1.1996392353604086e16, 1.7e308]),
)


@settings(derandomize=True)
@given(orders, st.floats(-12, 4), st.floats(-720, 40))
def test_delta_is_just_above_the_proposition_at_every_order(alpha, log_divergence, exponent):
    # The exponent (α − 1)(R − ε) is drawn, as everything but 0 and 1 lies within a few hundred of it.
    divergence = 10.0**log_divergence
    check_delta(alpha, divergence, divergence - exponent / (alpha - 1))


def test_delta_where_the_quotient_lost_its_digits():
    # (α − 1)·log((α − 1)/α) magnified the rounding of the quotient by α: 1.0e-19 was stated, a fifth of the truth.
    check_delta(1.1996392353604086e16, 9.228294621142482e-06, 9.22829462147987e-06)
    for alpha in (1.0 + 1e-9, 1.5, 3.0, 64.0, 1e6, 1e12, 1e15, 1e17, 1e300):
        check_delta(alpha, 0.1, 0.1)
        check_delta(alpha, 0.1, 0.1 + 5 / (alpha - 1))


def test_delta_at_the_edges():
    assert renyi_to_delta(2.0, 100.0, 1.0) == renyi_to_delta(2.0, math.inf, 1.0) == 1
    assert renyi_to_delta(2.0, math.nan, 1.0) == 1
    assert renyi_to_delta(2.0, 0.0, 0.0) == 0
    assert 0 < renyi_to_delta(1e300, 1.0, 2.0) <= 1e-300
    for alpha in (1.0, 0.0, -1.0, math.nan):
        refuses("alpha", renyi_to_delta, alpha, 1.0, 1.0)


def test_the_best_order_is_found_and_doubt_is_no_bound():
    # At the best order of a Gaussian curve, and of one that ends at order 3.
    for curve in (lambda alpha: 0.1 * alpha, lambda alpha: 0.1 * alpha if alpha <= 3 else math.inf):
        for epsilon in (0.5, 2.0, 5.0):
            least = min(renyi_to_delta(a, curve(a), epsilon) for a in 1 + np.geomspace(1e-2, 1e3, 20_000))
            assert 0.99 * least < delta_from_renyi(curve, epsilon) <= least * (1 + 1e-6)
    for doubt in (math.inf, math.nan):
        assert delta_from_renyi(lambda _, doubt=doubt: doubt, 1.0) == 1
