"""Contexts without a split, as filters and odometers; nested ones; and accountants that are given to a Context."""

import math

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence
from tests import make
from tests.refused import refuses

SIZE = 40
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(50), 4), "time": np.arange(200) * 7 % SIZE}
SPACE = make.space()
SAMPLE = {"sampling_probability": 0.5}


def context(loss, d_in=1, **split):
    return ts.compositor(LOG, (SPACE[1], d_in), loss, domain=SPACE[0], **split)


def count(query):
    return query.participation_count(GRID, participation_cap=5)


def test_a_filter_spends_what_each_query_says():
    ctx = context(dp.loss_of(epsilon=1.0, delta=1e-6))
    assert ctx.current_privacy_loss() == (0.0, 0.0)
    release = count(ctx.query(epsilon=0.5, delta=4e-7)).subsampled_gaussian(**SAMPLE).release()
    assert release.stated.loss[0] == pytest.approx((0.5, 4e-7), rel=1e-8)
    assert release.guarantee().endswith("; release 1 in a Context with (ε = 1, δ = 1e-06) in all")
    release.verify()
    assert ctx.current_privacy_loss() == pytest.approx((0.5, 4e-7), rel=1e-8)
    assert ctx.remaining_privacy_loss() == pytest.approx((0.5, 6e-7), rel=1e-8)
    people = ctx.query(epsilon=0.25, delta=0.0).individual_count().laplace()
    assert people.param() == pytest.approx(4.0)
    assert abs(people.release() - 50) < 120  # beyond 30 scales once in 10^13
    # A measurement that is given whole spends what its map says.
    given = count(ctx.query()).subsampled_gaussian(500.0, **SAMPLE, delta=1e-7)
    assert given.release().guarantee().startswith("(ε = 0.0")
    series = ctx.query(epsilon=0.1, delta=1e-7).private_series(GRID).release()
    assert "release 4 in a Context" in series.guarantee()
    both = [ts.then_subsampled_gaussian(1.0, **SAMPLE)] * 2
    assert len(count(ctx.query(epsilon=0.1, delta=1e-7)).composition(both).release()) == 2
    refuses(
        "loss of the query", lambda: count(ctx.query(epsilon=0.5, delta=1e-7)).subsampled_gaussian(**SAMPLE).release()
    )


@pytest.mark.parametrize("loss", [dp.loss_of(rho=0.1), (dp.approximate(dp.zero_concentrated_divergence()), (0.1, 0.0))])
def test_a_filter_in_rho(loss):
    ctx = context(loss)
    share = {"rho": 0.04} if loss[1] == 0.1 else {"rho": 0.04, "delta": 0.0}
    release = ctx.query(**share).private_series(GRID).release()
    assert release.guarantee() == "0.04-zCDP for one individual added or removed; release 1 in a Context with " + (
        "0.1-zCDP in all"
    )
    if "delta" in share:
        refuses("the budget", lambda: count(ctx.query(**share)).compositor(split_evenly_over=4))
        return
    nested = count(ctx.query(**share)).compositor(split_evenly_over=4).release()
    first = nested.query().subsampled_gaussian(sampling_probability=1.0).release()
    assert first.guarantee() == "0.01-zCDP for one individual added or removed; in a Context with 0.1-zCDP in all"


@pytest.mark.parametrize("name", ["rho", "epsilon"])
def test_a_query_above_what_is_left_does_not_end_a_filter(name):
    ctx = context(dp.loss_of(**{name: 0.3}))
    noise = {"rho": "gaussian", "epsilon": "laplace"}[name]  # as Laplace noise in ρ takes OpenDP long

    def release(share):
        return getattr(ctx.query(**{name: share}).individual_count(), noise)().release()

    release(0.1)
    refuses("loss of the query", release, 0.25)
    assert ctx.remaining_privacy_loss() == pytest.approx(0.2)
    release(0.1)
    assert ctx.current_privacy_loss() == pytest.approx(0.2)


def test_a_delta_above_the_share_of_a_filter_says_to_lower_it():
    counted = count(context(dp.loss_of(epsilon=1.0, delta=1e-6)).query(epsilon=0.5, delta=1e-7))
    query = counted.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-3)
    refuses(r"share \(1e-07\); lower .* to at most that$", query.param)


@pytest.mark.parametrize("split", [{}, {"split_evenly_over": 2}])
def test_a_loss_that_is_no_number_is_refused_by_its_name(split):
    approximate = dp.approximate(dp.max_divergence())
    for measure, loss, name in (
        (dp.max_divergence(), math.nan, "epsilon"),
        (dp.zero_concentrated_divergence(), math.nan, "rho"),
        (approximate, (math.nan, 1e-6), "epsilon"),
        (approximate, (-1.0, 1e-6), "epsilon"),
        (approximate, (1.0, math.nan), "delta"),
        *([(approximate, (math.inf, 1.0), "epsilon")] if split else []),
    ):
        refuses(rf"^{name} \(", context, (measure, loss), **split)


def test_shares_are_within_the_whole_or_refused(monkeypatch):
    monkeypatch.setattr("opendp_timeseries.plugin.context._is_within", lambda *_: False)
    refuses("privacy_loss", context, dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=3)


def test_a_share_of_nothing_says_what_must_be_above_0():
    zero = (dp.approximate(dp.zero_concentrated_divergence()), (0.0, 1e-6))
    refuses(
        "must have a ρ above 0, and a δ of at least 0", context(zero, split_evenly_over=2).query().private_series, GRID
    )


def test_a_query_without_a_share_says_what_it_needs():
    ctx = context(dp.loss_of(epsilon=1.0, delta=1e-6))
    counted = count(ctx.query())
    for ask in (
        lambda: counted.subsampled_gaussian(**SAMPLE),
        lambda: counted.subsampled_gaussian(3.0, **SAMPLE),
        lambda: ctx.query().private_series(GRID),
        lambda: counted.gaussian().release(),
        lambda: ctx.query().individual_count().laplace().param(),
        lambda: counted.compositor(split_evenly_over=2),
    ):
        refuses("this query", ask)
    certain = count(ctx.query(epsilon=0.5, delta=2.0))
    refuses("share of the budget", certain.subsampled_gaussian, **SAMPLE)
    rho = count(context(dp.loss_of(rho=1.0)).query()).subsampled_gaussian(3.0, sampling_probability=1.0)
    assert rho.release().guarantee().startswith("0.277778-zCDP")


@pytest.mark.parametrize("loss", [{"epsilon": math.inf, "delta": 1.0}, {"rho": math.inf}])
def test_an_odometer_has_no_end_and_its_releases_no_whole(loss):
    ctx = context(dp.loss_of(**loss))
    share = {"rho": 0.5} if "rho" in loss else {"epsilon": 0.5, "delta": 1e-7}
    for number in (1, 2, 3):
        release = ctx.query(**share).private_series(GRID).release()
        assert release.stated.parent is None
        spent = ctx.current_privacy_loss()
        assert spent == pytest.approx(number * 0.5 if "rho" in loss else (number * 0.5, number * 1e-7), rel=1e-8)
    refuses("unbounded", ctx.remaining_privacy_loss)
    nested = count(ctx.query(**share)).compositor(split_evenly_over=2).release()
    release = nested.query().subsampled_gaussian(sampling_probability=1.0).release()
    assert "release 1 of 2 in a Context with" in release.guarantee()  # the nested one, which has an end
    assert release.stated.parent.loss[0] == 0.5


def test_nested_releases_name_the_whole_of_all():
    loss = dp.loss_of(epsilon=1.0, delta=1e-6)
    for shares, d_in in ((1, 1), (2, 1), (2, 3)):
        ctx = context(loss, d_in=d_in, split_evenly_over=shares)
        nested = count(ctx.query()).compositor(split_by_weights=[3, 1]).release()
        inner = nested.query().compositor(split_evenly_over=2).release()
        release = inner.query().subsampled_gaussian(**SAMPLE).release()
        assert release.stated.loss[0] == pytest.approx((0.375 / shares, 3.75e-7 / shares), rel=1e-8)
        assert release.stated.distance == d_in
        assert release.guarantee().endswith("; in a Context with (ε = 1, δ = 1e-06) in all")
        release.verify()
        assert ts.Release.from_json(release.to_json()) == release
        assert release.invocation is not None
    assert f"for {d_in} individuals" in release.guarantee()


@pytest.mark.parametrize("loss", [dp.loss_of(epsilon=0.1, delta=1e-6), dp.loss_of(rho=0.1, delta=1e-6)])
def test_nested_shares_add_up_whatever_their_number(loss):
    # OpenDP's own nested compositor cannot split these budgets.
    ctx = context(loss, split_evenly_over=2)
    nested = count(ctx.query()).compositor(split_evenly_over=20).release()
    assert len(nested.remaining_privacy_loss()) == 20
    measured = ctx.query().compositor(split_evenly_over=7, d_out=(0.05, 1e-7))
    assert measured.resolve().map(1) <= (0.05, 1e-7)


def test_an_accountant_that_is_given_to_a_context_spends_first():
    loss = dp.approximate(dp.max_divergence()), (1.0, 1e-6)
    noise = SPACE >> ts.then_participation_count(GRID, participation_cap=5) >> ts.then_subsampled_gaussian(
        900.0, **SAMPLE, delta=1e-8)  # fmt: skip
    shares = [noise.map(1)] * 2
    odometer = dp.c.make_fully_adaptive_composition(*SPACE, loss[0])
    for accountant in (
        dp.c.make_adaptive_composition(*SPACE, loss[0], d_in=1, d_mids=shares),
        dp.c.make_privacy_filter(odometer, d_in=1, d_out=(2 * shares[0][0], 2e-8)),
    ):
        queryable = context(loss, split_evenly_over=1)(accountant)
        seen = []

        def careless(release):
            seen.append(release)  # noqa: B023
            raise KeyError("a slip")

        for number in (1, 2):
            refuses("a slip", queryable, noise >> careless, error=(KeyError, dp.OpenDPException))
            assert len(seen) == number
        with pytest.raises(dp.OpenDPException):
            queryable(noise >> careless)
        assert len(seen) == 2
        assert seen[0].stated.loss[0] == shares[0]


def test_what_a_filter_answers_is_processed_after_it_is_spent():
    for loss in (dp.loss_of(rho=1.0), dp.loss_of(rho=math.inf)):
        ctx, seen = context(loss), []

        def careless(release):
            seen.append(release)  # noqa: B023
            raise KeyError("a slip")

        query = count(ctx.query(rho=0.25)).subsampled_gaussian(sampling_probability=1.0)
        refuses("a slip", query.new_with(chain=query._chain >> careless).release, error=KeyError)
        assert len(seen) == 1
        assert ctx.current_privacy_loss() == pytest.approx(0.25)


def test_margins_may_be_a_dictionary():
    frame = pl.LazyFrame({"id": [1, 2], "site": ["a", "b"]})
    margin = dp.polars.Margin(max_length=5)
    arguments = frame, dp.unit_of(contributions=1, identifier="id"), dp.loss_of(epsilon=1.0)
    with pytest.warns(DeprecationWarning, match='Margin dicts should be replaced with lists.* "by" kwarg'):
        by_dictionary = ts.compositor(*arguments, split_evenly_over=1, margins={("site",): margin})
    by_list = ts.compositor(*arguments, split_evenly_over=1, margins=[dp.polars.Margin(by=["site"], max_length=5)])
    assert by_dictionary.accountant.input_domain == by_list.accountant.input_domain


def test_one_number_for_many_says_what_to_wrap():
    with pytest.raises(TypeError, match=r"To fix, wrap domain kwarg with dp\.vector_domain\(\)"):
        ts.compositor([1, 2], dp.unit_of(contributions=1), dp.loss_of(epsilon=1.0), domain=dp.domain_of(int))


def test_a_context_prints_its_budget():
    printed = repr(context(dp.loss_of(epsilon=1.0, delta=1e-6)))
    assert "d_mids     = None" in printed
    assert "d_out      = (1.0, 1e-06)" in printed
    assert "d_mids     = [0.5, 0.5]" in repr(context(dp.loss_of(epsilon=1.0), split_evenly_over=2))


def test_influences_that_do_not_compare_pass_nowhere():
    chain = SPACE >> ts.then_participation_count(GRID, participation_cap=4, excess="drop")
    few_and_large, one = Influence(l0=1, l2=5.0, linf=5.0), chain.map(1)
    assert chain.check(1, one)
    assert not few_and_large <= one
    assert not one <= few_and_large
    # OpenDP raises: an answer to its comparison would pass one of these two.
    refuses("not comparable", chain.check, 1, few_and_large, error=dp.OpenDPException)
    measure = dp.zero_concentrated_divergence()
    space = chain.output_space
    for d_in, other in ((few_and_large, one), (one, few_and_large)):
        shared = dp.c.make_adaptive_composition(*space, measure, d_in=d_in, d_mids=[1.0])(chain(LOG))
        inner = dp.c.make_adaptive_composition(*space, measure, d_in=other, d_mids=[0.5])
        refuses("not comparable", shared, inner, error=dp.OpenDPException)
