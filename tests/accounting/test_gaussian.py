"""The Gaussian profile: 60-digit values, random arguments in every range, and the formulas that are too low."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from opendp_timeseries.accounting.gaussian import gaussian_delta, gaussian_delta_slope, inflection
from tests.oracles import accounting as oracle

GOLDEN = Path(__file__).parents[1] / "data" / "golden.json"
CLOSE = 3e-11  # for ε up to 1e4

# (ε, u) in every branch: both signs of μ/2 − ε/μ, far tails, ratios so small that digits cancel, large ε.
ARGUMENTS = [
    *[(0.5, 1.0), (0.5, 0.01), (0.5, 100.0), (1e-3, 1e-4), (1e-6, 1e-10), (10.0, 4.0), (50.0, 9.0), (0.0, 0.25)],
    *[(2.0, 0.01), (1.0, 0.001), (700.0, 1200.0), (1e-9, 1e-20), (0.0, 1e-30), (1e-5, 2.0**-12), (800.0, 1600.0)],
    *[(1e-3, 2.0**-12 * 1.001), (1e-4, 2.4e-4), (2.0**-13, 2.0**-12), (0.74, 4.3e-4), (1e3, 1e3), (1e4, 2e4)],
]


def upper(epsilon, u):
    return float(gaussian_delta(epsilon, np.array([u]))[0])


def just_above(got, truth, close=CLOSE):
    assert truth <= got <= truth * (1 + mp.mpf(close)), (got, mp.nstr(truth, 20))


@pytest.mark.parametrize(("epsilon", "u"), ARGUMENTS)
def test_profile_is_just_above_the_truth(epsilon, u):
    just_above(upper(epsilon, u), oracle.gaussian_profile(epsilon, u))


@settings(derandomize=True)
@given(st.floats(-12, 5), st.floats(-37, 37), st.floats(0.9, 1.1))
def test_profile_is_just_above_the_truth_at_random(log_epsilon, a, stretch):
    # By way of a = μ/2 − ε/μ, so that most arguments have a profile that is neither 0 nor 1.
    epsilon = 10.0**log_epsilon
    u = (a + math.hypot(a, math.sqrt(2 * epsilon))) ** 2 * stretch
    truth = oracle.gaussian_profile(epsilon, u)
    if truth > 1e-299:
        just_above(upper(epsilon, u), truth, CLOSE if epsilon <= 1e4 else 8e-11)
    else:
        assert upper(epsilon, u) >= truth


def test_profile_at_large_epsilon_is_as_close_as_it_says():
    # Where the margin is largest, in the far tail.
    for epsilon in (9e3, 5e4, 99434.0, 1e5):
        for a in (-37.0, -30.0, -5.0, 5.0):
            u = (a + math.hypot(a, math.sqrt(2 * epsilon))) ** 2
            truth = oracle.gaussian_profile(epsilon, u)
            just_above(upper(epsilon, u), truth, CLOSE if epsilon <= 1e4 else 8e-11)


def test_golden_values():
    for case in json.loads(GOLDEN.read_text())["g"]:
        just_above(upper(case["eps"], case["u"]), mp.mpf(case["value"]), 2e-9)


def test_profile_at_the_edges():
    u = np.array([0.0, 5e-324, 1e-200, 1.0, 1e300, np.inf])
    for epsilon in (0.0, 5e-324, 1.0, 1e3, 1e300, math.inf):
        delta = gaussian_delta(epsilon, u)
        assert delta[0] == 0
        assert delta[-1] == 1
        assert np.all((delta[1:] > 0) & (delta[1:] <= 1)), "never 0 for a loss that is not exactly 0"
        assert np.all(np.diff(delta) >= 0)


def test_naive_difference_is_too_low():
    """The formula that everyone writes first; it is why this module exists."""

    def naive(epsilon, u):
        ratio = np.sqrt(u)
        b = -ratio / 2 - epsilon / ratio
        return ndtr(ratio / 2 - epsilon / ratio) - np.exp(epsilon + log_ndtr(b))

    low = [(e, u) for e, u in ARGUMENTS if e < 700 and naive(e, u) < oracle.gaussian_profile(e, u) * (1 - CLOSE)]
    assert len(low) >= 2


@pytest.mark.thinned(2)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.5, 3.0, 50.0, 1e3])
def test_slope_and_inflection(epsilon):
    turn = inflection(epsilon)
    for u in (turn / 2, turn, turn * 3):
        just_above(gaussian_delta_slope(epsilon, u), oracle.gaussian_profile_slope(epsilon, u), 2e-11)
    slopes = [oracle.gaussian_profile_slope(epsilon, turn * f) for f in (0.99, 0.999, 1.0, 1.001, 1.01)]
    assert slopes[0] < slopes[1] < slopes[2] > slopes[3] > slopes[4]
