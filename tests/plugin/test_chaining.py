"""Our building blocks and OpenDP's chain both ways, and compose in every compositor that OpenDP has for them."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence, Majorant
from tests.refused import refuses

SIZE = 50
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(100), 3), "time": np.arange(300) % SIZE}


def count(space, metric=None, cap=5):
    made = space >> ts.then_participation_count(GRID, participation_cap=cap, excess="drop")
    return made if metric is None else made >> ts.then_lp_distance(metric)


def noise(**kwargs):
    return ts.then_subsampled_gaussian(3.0, sampling_probability=0.2, **kwargs)


def test_zcdp_converts_and_delta_is_fixed(log_space):
    ours = count(log_space) >> noise(failure_probability=1e-7)
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(ours), delta=1e-6)
    epsilon, delta = fixed.map(1)
    assert delta == 1e-6
    assert 0 < epsilon < np.inf
    exact = count(log_space) >> noise(output_measure=dp.approximate(dp.max_divergence()), delta=1e-6)
    assert exact.map(1)[0] < epsilon
    profile = count(log_space) >> noise(output_measure=dp.smoothed_max_divergence())
    through_opendp = dp.c.make_fix_delta(profile, delta=1e-6).map(1)
    assert through_opendp[0] == pytest.approx(exact.map(1)[0], rel=1e-6)
    assert profile.map(1).delta(exact.map(1)[0]) <= 1e-6


def test_exact_profile_and_pure_dp_in_one_composition(log_space):
    ours = count(log_space) >> noise(output_measure=dp.approximate(dp.max_divergence()), delta=1e-6)
    theirs = dp.c.make_approximate(count(log_space, dp.l1_distance(T=int)) >> dp.m.then_laplace(20.0))
    epsilon, delta = dp.c.make_composition([ours, theirs]).map(1)
    assert epsilon == pytest.approx(ours.map(1)[0] + 0.25, rel=1e-9)
    assert delta == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.parametrize("measure", [dp.renyi_divergence(), dp.approximate(dp.zero_concentrated_divergence())])
def test_one_odometer(log_space, measure):
    odometer = dp.c.make_fully_adaptive_composition(*log_space, measure)
    queryable = odometer(LOG)
    renyi = measure == dp.renyi_divergence()
    ours = count(log_space) >> noise(**({"output_measure": measure} if renyi else {"failure_probability": 1e-6}))
    queryable(ours)
    queryable(ours)
    loss = queryable.privacy_loss(1)
    if renyi:
        assert loss(2.0) == pytest.approx(2 * ours.map(1)(2.0), rel=1e-12)
    else:
        assert loss == pytest.approx(tuple(2 * v for v in ours.map(1)), rel=1e-12)


def test_counts_made_elsewhere():
    space = ts.count_signal_domain(SIZE), dp.symmetric_distance()
    assumed = space >> ts.then_assume_participation(participation_cap=5, step_cap=2)
    assert assumed.map(1) == Influence(l0=5, l2=assumed.map(1).l2, linf=2.0, majorant=Majorant(np.full(5, 2.0)))
    for signal in (np.arange(SIZE), np.arange(SIZE, dtype=np.uint8), np.arange(SIZE, dtype=np.int32)):
        assert list(assumed(signal)) == list(range(SIZE))
    huge = np.full(SIZE, 2**64 - 1, dtype=np.uint64)
    assert list(assumed(huge)) == [2**63 - 1] * SIZE  # saturates
    refuses("Refusal: a count signal .*float64", assumed, np.arange(SIZE, dtype=float), error=dp.OpenDPException)
    release = (assumed >> noise(failure_probability=1e-6))(huge)
    assert np.all(np.isfinite(release.values))
