"""Budgets in ρ alone: for all that is released without sampling, with no δ anywhere."""

import json
import math

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin.conversions import make_zCDP_to_renyiDP
from tests.refused import refuses

SIZE = 40
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(50), 4), "time": np.arange(200) * 7 % SIZE, "site": np.arange(200) % 3}
ZCDP = {"output_measure": dp.zero_concentrated_divergence()}
EVERY = {"sampling_probability": 1.0}
PANEL = {"by": "site", "keys": [0, 1, 2]}


def context(log_space, rho=0.3, shares=3, d_in=1, **more):
    loss = dp.loss_of(rho=rho, **more)
    return ts.compositor(LOG, (log_space[1], d_in), loss, split_evenly_over=shares, domain=log_space[0])


CHAINS = {
    "dropped": lambda: ts.then_participation_count(GRID, participation_cap=5, step_cap=2, excess="drop"),
    "weighed down": lambda: ts.then_participation_count(GRID, participation_cap=5),
    "panel": lambda: ts.then_participation_count(GRID, participation_cap=7, key_cap=2, **PANEL),
    "people": lambda: ts.then_individual_count(),
    "totals over time": lambda: ts.then_participation_count(GRID, participation_cap=5, norm="l1", per=10),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("d_in", [1, 3])
def test_rho_is_that_of_opendps_own_gaussian(log_space, name, d_in):
    count = log_space >> CHAINS[name]()
    ours = (count >> ts.then_subsampled_gaussian(3.0, **EVERY, **ZCDP)).map(d_in)
    theirs = (count >> ts.then_lp_distance(dp.l2_distance(T=float)) >> dp.m.then_gaussian(3.0)).map(d_in)
    assert ours == pytest.approx(theirs, rel=1e-12)
    assert ours == pytest.approx((count.map(d_in).individuals * float(count.map(d_in).l2)) ** 2 / 18, rel=1e-9)


def test_nothing_is_below_what_approximate_zcdp_says_without_a_sample(log_space):
    count = log_space >> CHAINS["dropped"]() >> ts.then_circulant_filter(ts.boxcar_kernel(SIZE, 3))
    rho, delta = (count >> ts.then_subsampled_gaussian(3.0, **EVERY, failure_probability=1e-6)).map(1)
    assert (rho, delta) == ((count >> ts.then_subsampled_gaussian(3.0, **EVERY, **ZCDP)).map(1), 0.0)


def test_a_sample_needs_some_delta(log_space):
    count = log_space >> CHAINS["dropped"]()
    sampled = count >> ts.then_subsampled_gaussian(3.0, sampling_probability=0.5, failure_probability=1e-6)
    query = context(log_space).query().participation_count(GRID, participation_cap=5)
    for make in (
        lambda: count >> ts.then_subsampled_gaussian(3.0, sampling_probability=0.5, **ZCDP),
        lambda: count >> ts.then_subsampled_gaussian(3.0, sampling_probability=0.5, sampling="stratified", **ZCDP),
        lambda: ts.make_composition([sampled, sampled], **ZCDP),
        lambda: ts.least_scale(count, rho=0.1, sampling_probability=0.5),
        lambda: query.subsampled_gaussian(sampling_probability=0.5),
        lambda: query.subsampled_gaussian(2.0, sampling_probability=0.5),
        lambda: query.composition([ts.then_subsampled_gaussian(1.0, sampling_probability=0.5)] * 2),
    ):
        refuses("sampling_probability", make)
    assert ts.least_scale(count, rho=0.1, delta=1e-4, sampling_probability=0.1) < 0.9 * math.sqrt(20 / 0.2)


@pytest.mark.parametrize("given", [{"delta": 1e-6}, {"failure_probability": 1e-6}])
def test_rho_alone_takes_no_delta(log_space, given):
    count = log_space >> CHAINS["dropped"]()
    with pytest.raises(ValueError, match=rf"^output_measure .*{next(iter(given))} \(1e-06\)"):
        count >> ts.then_subsampled_gaussian(3.0, **EVERY, **ZCDP, **given)
    refuses("failure_probability", lambda: count >> ts.then_subsampled_gaussian(3.0, **EVERY, failure_probability=0))
    refuses("delta", ts.make_private_series, *log_space, GRID, rho=0.1, delta=1e-6)
    refuses("delta", ts.make_private_series, *log_space, GRID, error=TypeError, epsilon=1.0)


def test_every_query_spends_its_share_of_rho(log_space):
    ctx = context(log_space, shares=4, rho=0.4)
    asked = [
        ctx.query().private_series(GRID),
        ctx.query().participation_count(GRID, participation_cap=5).subsampled_gaussian(**EVERY),
        ctx.query().participation_count(GRID, participation_cap=5).subsampled_gaussian(50.0, **EVERY),
        ctx.query().composition([CHAINS["people"]() >> ts.then_subsampled_gaussian(1.0, **EVERY)] * 3),
    ]
    for number, query in enumerate(asked, 1):
        rho = query.resolve().map(1)
        assert rho <= ctx.remaining_privacy_loss()[0] <= 0.1
        released = query.release()
        for release in released if isinstance(released, list) else [released]:
            assert release.guarantee().endswith(f"; release {number} of 4 in a Context with 0.4-zCDP in all")
            assert "approximate" not in release.guarantee()
            assert ts.Release.from_json(release.to_json()) == release
            assert release.verify()[0][1] == 0.0
        assert rho > 0.1 * (1 - 1e-8) or number == 3
    assert asked[1].param() == pytest.approx(5.0, rel=1e-8)  # √(5/(2·0.1))


@pytest.mark.parametrize("budget", [{"rho": 0.1}, {"rho": 0.1, "delta": 0.0}])
def test_nested_contexts_take_rho_too(log_space, budget):
    ctx = context(log_space, shares=1, **budget)
    nested = ctx.query().participation_count(GRID, participation_cap=5).compositor(split_evenly_over=2).release()
    release = nested.query().subsampled_gaussian(**EVERY).release()
    assert release.stated.loss[0] == pytest.approx((0.05, 0.0), rel=1e-8)
    assert release.guarantee().startswith("0.05-zCDP for one individual")
    both = nested.query().composition([ts.then_subsampled_gaussian(1.0, **EVERY)] * 2).release()
    assert both[0].stated.parent.loss == (0.1, 0.0)
    assert "; in a Context with 0.1-zCDP in all" in both[0].guarantee()


def test_a_budget_in_epsilon_may_be_spent_in_zcdp(log_space):
    ctx = ts.compositor(
        LOG, (log_space[1], 1), dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=1, domain=log_space[0]
    )
    nested = ctx.query().compositor(split_evenly_over=2, output_measure=dp.zero_concentrated_divergence()).release()
    release = nested.query().private_series(GRID).release()
    assert release.stated.loss[0] == (nested.current_privacy_loss()[0], 0.0)
    assert 0.01 < release.stated.loss[0][0] < 0.02  # of some 0.025 for (1, 1e-6)


def test_releases_in_rho_add_up_in_documents(log_space):
    rows = [log_space >> ts.then_private_series(GRID, rho=rho) for rho in (0.1, 0.2)]
    releases = [measurement(LOG) for measurement in rows]
    document = json.loads(ts.write_releases(releases))
    assert document["joint_loss"] == [[pytest.approx(0.3), 0.0]]
    assert document["guarantee"] == "0.300001-zCDP for one individual added or removed"
    in_advance = json.loads(ts.write_releases(releases, adaptivity="adaptive"))
    assert in_advance["joint_loss"] == [[pytest.approx(0.3, rel=1e-12), 0.0]]
    assert ts.read_releases(json.dumps(document)) == tuple(releases)
    sampled = log_space >> CHAINS["dropped"]() >> ts.then_subsampled_gaussian(
        9.0, sampling_probability=0.1, failure_probability=1e-4
    )  # fmt: skip
    with_sample = json.loads(ts.write_releases([releases[0], sampled(LOG)]))
    assert 0 < with_sample["joint_loss"][0][1] <= 1e-4


def test_what_is_in_rho_goes_into_opendps_conversions(log_space):
    series = log_space >> ts.then_private_series(GRID, rho=0.1)
    epsilon, delta = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(series), 1e-6).map(1)
    # Above ρ + 2√(ρ·log(1/δ)) less what OpenDP's conversion is better.
    assert 2.0 < epsilon < 0.1 + 2 * math.sqrt(0.1 * math.log(1e6))
    assert delta == 1e-6
    assert dp.c.make_approximate(series).map(1) == (series.map(1), 0.0)
    assert make_zCDP_to_renyiDP(series).map(1)(2.0) == pytest.approx(0.2)
    assert dp.c.make_composition([series, series]).map(1) == pytest.approx(0.2)
    assert ts.make_composition([series, series], **ZCDP).map(1) == pytest.approx(0.2)
    assert ts.least_factor([series, series], rho=0.1) == pytest.approx(math.sqrt(2), rel=1e-9)


def test_rho_with_a_sample_keeps_its_delta(log_space):
    count = log_space >> CHAINS["dropped"]()
    sampled = count >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.1, failure_probability=1e-4)
    rho, delta = sampled.map(1)
    assert 0 < delta <= 1e-4
    assert sampled(LOG).guarantee().startswith("0.00001001-approximate 0.098")
    assert rho < (count >> ts.then_subsampled_gaussian(9.0, **EVERY, **ZCDP)).map(1)
