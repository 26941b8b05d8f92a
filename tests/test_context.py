"""The Context API: OpenDP solves for the scale, splits budgets, and shares a count among queries."""

import importlib

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.context import constructors

import opendp_timeseries as ts

SIZE = 200
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(300), 4), "time": np.arange(1200) * 7 % SIZE}
APPROX_DP = dp.approximate(dp.max_divergence())


def context(log_space, loss, **split):
    return dp.Context.compositor(
        data=LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=loss, **split
    )


def loss_of_zcdp(rho, delta):
    return dp.approximate(dp.zero_concentrated_divergence()), (rho, delta)


def test_rho_delta_budget_over_several_queries(log_space):
    ctx = context(log_space, loss_of_zcdp(0.3, 3e-6), split_evenly_over=3)
    for cap in (5, 10, 20):
        query = ctx.query().participation_count(GRID, participation_cap=cap)
        query = query.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-6 * (1 - 1e-9))
        release = query.release()
        direct = (
            log_space
            >> ts.then_participation_count(GRID, participation_cap=cap)
            >> ts.then_subsampled_gaussian(
                release.scale, sampling_probability=0.1, failure_probability=1e-6 * (1 - 1e-9)
            )
        )
        assert direct.map(1)[0] == pytest.approx(0.1, rel=1e-6)
        assert direct.map(1)[0] <= 0.1
    with pytest.raises(dp.OpenDPException):
        query.release()


def test_epsilon_delta_budget_by_zcdp_and_exactly(log_space):
    scales = []
    for exact in (False, True):
        ctx = context(log_space, dp.loss_of(epsilon=0.5, delta=1e-6), split_evenly_over=2)
        epsilon, delta = ctx.remaining_privacy_loss()[0]
        count = ctx.query().participation_count(GRID, participation_cap=20)
        accounting = (
            {"delta": delta, "output_measure": APPROX_DP} if exact else {"failure_probability": delta / 5}
        )
        query = count.subsampled_gaussian(sampling_probability=0.1, **accounting)
        scales.append(query.release().scale)
        if exact:
            assert query.param() == scales[-1]
            assert query.resolve().map(1)[0] <= epsilon
    assert scales[1] < 0.75 * scales[0]  # "about two thirds of that noise"


def test_every_stage_by_name(log_space):
    ctx = context(log_space, loss_of_zcdp(0.1, 1e-6), split_evenly_over=1)
    release = (
        ctx.query()
        .participation_count(GRID, participation_cap=20)
        .circulant_filter(ts.gaussian_kernel(SIZE, 2.0))
        .subsampled_gaussian(sampling_probability=0.1, failure_probability=5e-7)
        .release()
    )
    assert isinstance(release, ts.Release)


def test_a_count_shared_by_a_nested_compositor(log_space):
    ctx = context(log_space, loss_of_zcdp(0.2, 2e-6), split_evenly_over=1)
    nested = (
        ctx.query().participation_count(GRID, participation_cap=20).compositor(split_evenly_over=2).release()
    )
    for _ in range(2):
        release = (
            nested.query().subsampled_gaussian(sampling_probability=0.1, failure_probability=5e-7).release()
        )
        assert release.scale > 0


def test_ours_and_opendps_in_one_context(log_space):
    ctx = context(log_space, loss_of_zcdp(0.2, 2e-6), split_evenly_over=2)
    ctx.query().participation_count(GRID, participation_cap=20).subsampled_gaussian(
        sampling_probability=0.1, failure_probability=5e-7
    ).release()
    values = (
        ctx.query()
        .participation_count(GRID, participation_cap=20, output_metric=dp.l2_distance(T=float))
        .gaussian()
        .release()
    )
    assert len(values) == SIZE


def test_what_is_left_out_is_refused_by_name(log_space):
    ctx = context(log_space, loss_of_zcdp(0.2, 2e-6), split_evenly_over=1)
    with pytest.raises(TypeError, match="participation_cap must be given"):
        ctx.query().participation_count(GRID)
    with pytest.raises(TypeError, match="grid must be given"):
        ctx.query().participation_count(participation_cap=3)
    count = ctx.query().participation_count(GRID, participation_cap=3)
    with pytest.raises(TypeError, match="kernel must be given"):
        count.circulant_filter()
    with pytest.raises(TypeError, match="sampling_probability must be given"):
        count.subsampled_gaussian(failure_probability=1e-7).release()


def test_import_and_reload_register_once():
    importlib.reload(ts)
    importlib.reload(importlib.import_module("opendp_timeseries.transformations.circulant_filter"))
    importlib.reload(ts)
    names = ["participation_count", "assume_participation", "circulant_filter", "subsampled_gaussian"]
    assert all(name in constructors for name in names)
    ts._register(ts.make_participation_count)


def test_a_name_taken_by_another_package_is_an_error():
    def make_taken_elsewhere(input_domain, input_metric): ...

    dp.register(make_taken_elsewhere)
    try:
        with pytest.raises(ValueError, match="already registered"):
            ts._register(make_taken_elsewhere)
    finally:
        del constructors["taken_elsewhere"]


@pytest.mark.parametrize("n", [2, 7, 20, 50])
def test_split_budgets_answer_n_queries_and_refuse_the_next(log_space, n):
    # Field case 34: OpenDP 0.16 cannot build some splits of (ε, δ) or (ρ, δ); see ts.split_budget.
    loss = (0.1, 1e-6)
    weights = ts.split_budget(loss, n)
    accountant = dp.c.make_adaptive_composition(
        *log_space, dp.approximate(dp.zero_concentrated_divergence()), d_in=1, d_mids=weights
    )
    assert accountant.map(1)[0] <= loss[0]
    assert accountant.map(1)[1] <= loss[1]
