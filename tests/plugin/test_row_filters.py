"""Rows of a LazyFrame that are left out before a count, by OpenDP's own stage, and with its map."""

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin._opendp import empty_frame
from tests.refused import refuses

SIZE = 12
GRID = ts.TimeGrid(size=SIZE)
FRAME = pl.DataFrame({"id": np.arange(90) % 30, "time": np.arange(90) * 7 % SIZE, "site": np.arange(90) % 3})
DOMAIN = dp.domain_of(FRAME.lazy(), infer=True)
AT_ONE = pl.col("site") == 1
ADDED, CHANGED = dp.symmetric_id_distance("id"), dp.change_one_id_distance("id")
BOUNDS = dp.frame_distance(ADDED)
Bound = dp.polars.Bound
COUNTS = {
    "series": ts.then_participation_count(GRID, participation_cap=2, excess="drop", time="time"),
    "private series": ts.then_participation_count(GRID, time="time"),
    "people": ts.then_individual_count(),
    "histogram": ts.then_participation_histogram(GRID, edges=[2, 3], time="time"),
}


def rows(metric, plan=None):
    frame = empty_frame(DOMAIN)
    return dp.t.make_stable_lazyframe(DOMAIN, metric, frame.filter(AT_ONE) if plan is None else plan(frame))


@pytest.mark.parametrize("name", COUNTS)
def test_the_map_is_that_of_opendp_and_then_of_the_count(name):
    for metric, distance, individuals in ((ADDED, 3, 3), (CHANGED, 3, 6), (BOUNDS, [Bound(by=[], per_group=3)], 3)):
        (bound,) = rows(metric).map(distance)
        assert (list(bound.by), bound.per_group) == ([], individuals)
        count = rows(metric) >> COUNTS[name]
        assert count.map(distance) == ((DOMAIN, ADDED) >> COUNTS[name]).map(individuals)
        left_out = FRAME.filter(AT_ONE).lazy()
        if name != "series":  # whose caps are random
            assert np.array_equal(count(FRAME.lazy()), ((DOMAIN, ADDED) >> COUNTS[name])(left_out))


def test_nobody_moves_a_count_further_than_the_map_says():
    count = rows(ADDED) >> COUNTS["private series"]
    influence, whole = count.map(1), np.array(count(FRAME.lazy()))
    for person in range(30):
        moved = whole - np.array(count(FRAME.filter(pl.col("id") != person).lazy()))
        assert np.linalg.norm(moved) <= influence.l2 * (1 + 1e-12)
        assert np.count_nonzero(moved) <= influence.l0


def test_the_bound_on_the_whole_log_counts():
    count = (DOMAIN, BOUNDS) >> COUNTS["series"]
    bounds = [Bound(by=["site"], per_group=1), Bound(by=[], per_group=4), Bound(by=[], per_group=5)]
    assert count.map(bounds).individuals == 4
    with pytest.raises(dp.OpenDPException, match="Refusal: d_in"):
        count.map([Bound(by=["site"], per_group=1, num_groups=2)])


@pytest.mark.parametrize("metric", [ADDED, CHANGED, BOUNDS], ids=["added", "changed", "bounds"])
def test_what_is_stated_behind_a_filter_of_rows_covers_the_map(metric):
    one = [Bound(by=[], per_group=1)] if metric is BOUNDS else 1
    for before in (rows(metric), rows(metric) >> rows(BOUNDS)):
        measurement = before >> COUNTS["series"] >> ts.then_subsampled_gaussian(
            3.0, sampling_probability=0.5, delta=1e-6
        )  # fmt: skip
        release = measurement(FRAME.lazy())
        if release.statement is None:
            assert metric is CHANGED  # of which one may be two added
            refuses("make_stable_lazyframe", release.guarantee)
            continue
        assert release.stated.loss == (measurement.map(one),)
        assert "for one individual added or removed" in release.guarantee()
        assert release.verify() == release.stated.loss


def test_nothing_is_stated_where_one_replaced_may_be_two():
    measurement = rows(CHANGED) >> COUNTS["series"] >> ts.then_subsampled_gaussian(3.0, sampling_probability=1.0)
    assert measurement(FRAME.lazy()).statement is None


def test_a_ledger_and_a_programme_take_no_filter_of_rows(tmp_path):
    # Their designs do not say which rows were left out, and would take two filters for one query made twice.
    chain = rows(ADDED) >> COUNTS["series"]
    ledger = ts.Ledger.create(tmp_path / "people.ledger", epsilon=1.0, delta=1e-6)
    for ask in (
        lambda: ledger.release(chain >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.5, delta=1e-6), None),
        lambda: ts.Programme.plan([chain], epsilon=1.0, delta=1e-6, sampling_probability=0.5),
    ):
        refuses("make_stable_lazyframe", ask)


def context(unit=None, **split):
    unit = dp.unit_of(contributions=1, identifier="id") if unit is None else unit
    return ts.compositor(FRAME.lazy(), unit, dp.loss_of(epsilon=1.0, delta=1e-6), **split)


def test_queries_of_a_context_read_some_rows():
    ctx = context(split_evenly_over=4)
    series = ctx.log_query(rows=AT_ONE).private_series(GRID, time="time").release()
    assert series.stated.loss[0] == pytest.approx((0.25, 2.5e-7), rel=1e-8)
    assert "release 1 of 4 in a Context with (ε = 1, δ = 1e-06) in all" in series.guarantee()
    people = ctx.log_query(rows=(pl.col("site") < 2) & (pl.col("time") > 3)).individual_count().laplace()
    assert people.param() == pytest.approx(4.0)
    assert isinstance(people.release(), int)
    nested = ctx.log_query(rows=AT_ONE).compositor(split_evenly_over=2).release()
    release = nested.log_query(rows=pl.col("time") > 3).private_series(GRID, time="time").release()
    assert release.guarantee().endswith("; in a Context with (ε = 1, δ = 1e-06) in all")
    assert release.stated.loss[0] == pytest.approx((0.125, 1.25e-7), rel=1e-8)
    with pytest.raises(TypeError, match=r"^count\(\)"):
        ctx.log_query(rows=AT_ONE).count()
    noise = ts.then_subsampled_gaussian(1.0, sampling_probability=1.0)
    both = [
        ts.then_participation_count(GRID, participation_cap=2, time="time") >> noise,
        ts.then_individual_count() >> noise,
    ]
    first, _ = ctx.log_query(rows=AT_ONE).composition(both).release()
    assert first.stated.parent.loss == (1.0, 1e-6)


def test_rows_are_refused_where_nothing_would_be_stated():
    ctx = context((CHANGED, 1))
    refuses("rows", ctx.log_query, rows=AT_ONE, epsilon=0.1, delta=1e-7)
    assert ctx.current_privacy_loss() == (0.0, 0.0)


def test_a_privacy_unit_of_bounds_states_for_as_many():
    unit = dp.unit_of(contributions=[Bound(by=[], per_group=3)], identifier="id")
    release = context(unit, split_evenly_over=1).log_query(rows=AT_ONE).private_series(GRID, time="time").release()
    assert release.guarantee().startswith("(ε = 1, δ = 1e-06)-differential privacy for 3 individuals added or removed")


@pytest.mark.parametrize(
    "wrong", [pl.col("site").sum() > 3, pl.col("id").is_first_distinct(), pl.col("site").shift() == 1]
)
def test_what_looks_at_several_rows_is_no_filter(wrong):
    with pytest.raises(dp.OpenDPException):
        context(split_evenly_over=1).log_query(rows=wrong)


def test_a_privacy_unit_of_groups_alone_is_for_opendps_queries():
    unit = dp.unit_of(contributions=[Bound(by=["site"], per_group=1, num_groups=2)])
    ctx = ts.compositor(
        FRAME.lazy(), unit, dp.loss_of(epsilon=1.0), split_evenly_over=1,
        margins=[dp.polars.Margin(by=["site"], max_length=90, max_groups=3, invariant="keys")],
    )  # fmt: skip
    counts = ctx.query().group_by("site").agg(dp.len(signed=True)).release().collect()
    assert sorted(counts["site"]) == [0, 1, 2]


def test_rows_are_of_a_frame():
    log_space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    ctx = ts.compositor(FRAME, (log_space[1], 1), dp.loss_of(rho=0.1), split_evenly_over=1, domain=log_space[0])
    refuses("rows", ctx.log_query, error=TypeError, rows=AT_ONE)
