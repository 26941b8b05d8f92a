"""Distinct individuals, in all and by key: every engine against a slow count, maps against everything people can do."""

import dataclasses
import datetime as dt
import importlib
import itertools
import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.results.contents import contents_of
from tests.make import context_of
from tests.oracles import counting as oracle
from tests.refused import refuses

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

module = importlib.import_module("opendp_timeseries.plugin.participation_count")


KEY = bytes(range(16))
SITES = ["a", "b", "c", "nowhere", "d"]
EPOCH = dt.datetime(2024, 3, 31)
GRID = ts.TimeGrid(size=9, start="2024-03-31T03:00", step="1h", zone="UTC")
PERIOD = range(3, 12)  # hours of GRID


def crowd(seed=0, rows=400, people=70):
    """Rows of who, hour and site, of which each may be missing; hours off the grid, and sites that are not listed."""
    rng = np.random.default_rng(seed)
    drawn = zip(
        rng.integers(0, people, rows).tolist(),
        rng.integers(0, 20, rows).tolist(),
        rng.choice([*"abcd", "elsewhere"], rows).tolist(),
        (rng.random((rows, 3)) < 0.1).tolist(),
        strict=True,
    )
    return [
        tuple(None if gone else cell for cell, gone in zip((f"p{who}", hour, site), missing, strict=True))
        for who, hour, site, missing in drawn
    ]


def columns(rows):
    who, hours, sites = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    times = [None if hour is None else EPOCH + dt.timedelta(hours=hour) for hour in hours]
    return {"id": who, "time": times, "site": sites}


def arrow(rows):
    kinds = [("id", pa.string()), ("time", pa.timestamp("us")), ("site", pa.string())]
    return pa.table(columns(rows), schema=pa.schema(kinds))


def arrays(rows):
    table = columns(rows)
    times = np.array(table["time"], dtype="datetime64[us]")
    return {"id": np.array(table["id"], object), "time": times, "site": np.array(table["site"], object)}


def places(space, cap=2, keys=SITES, **options):
    return space >> ts.then_individual_count(by="site", keys=keys, key_cap=cap, **options)


EVERYWHERE = ts.Tiers(ends=(1, 3), share=0.8)


def everywhere(space, **options):
    return space >> ts.then_individual_count(by="site", keys=SITES, tiers=EVERYWHERE, **options)


def test_nobody_moves_numbers_of_everybody_further_than_stated(log_space):
    vectors = []
    for number in range(2 ** len(SITES)):
        own = [site for k, site in enumerate(SITES) if number >> k & 1]
        rows = [("p", hour % 7, site) for site in own for hour in range(1 + number % 3)]  # more than once
        rows += [("p", 4, "elsewhere")] * (number % 2)
        vectors.append(np.array(everywhere(log_space)(arrays(rows))) * 2**16)
    vectors = np.array(vectors, dtype=np.int64)
    apart = ((vectors[:, None] - vectors) ** 2).sum(axis=2).max()
    for metric, largest in ((log_space[1], (vectors**2).sum(axis=1).max()), (dp.change_one_distance(), apart)):
        influence = everywhere((log_space[0], metric)).map(1)
        assert 0.99 * influence.l2_squared < Fraction(int(largest), 2**32) <= influence.l2_squared
        assert influence.l2_squared == (1 if metric == log_space[1] else 2)
        assert (influence.l0, influence.individuals) == (3 * len(SITES), 1)
        assert Fraction(int(vectors.max()), 2**16) <= influence.linf
        assert everywhere((log_space[0], metric)).map(3).individuals == 3


def test_numbers_of_everybody_are_right_with_intervals_that_hold(log_space):
    rng, keys = np.random.default_rng(2), list(range(25))
    sizes = rng.pareto(1.2, 25) + 0.2
    many = np.minimum(rng.geometric(0.3, 1500), 25)
    order = np.argsort(-np.log(sizes) - rng.gumbel(size=(1500, 25)), axis=1)
    who, where = np.repeat(np.arange(1500), many), np.concatenate([row[:n] for row, n in zip(order, many, strict=True)])
    log, truth = {"id": np.repeat(who, 2), "site": np.repeat(where, 2)}, np.bincount(where, minlength=25)
    count, capped = (log_space >> ts.then_individual_count(by="site", keys=keys, **cap) for cap in ({}, {"key_cap": 3}))
    noise = {"epsilon": 1.0, "delta": 1e-6, "sampling_probability": 1.0}
    measurement, other = (
        one >> ts.then_subsampled_gaussian(ts.least_scale(one, **noise), sampling_probability=1.0, delta=1e-6)
        for one in (count, capped)
    )
    assert count.map(1).l2 == capped.map(1).l2 * (2 / 3) ** 0.5
    few = other(log)  # as they are, since a series of one step has no course
    assert np.array_equal(ts.smooth(few).values, few.values)
    assert np.array_equal(ts.smooth([few])[0].values, few.values)
    errors, held, sums = [], [], []
    for _ in range(12):
        release = measurement(log)
        series = ts.smooth(release)
        low, high = series.interval(0.9)
        errors.append(np.abs(series.values - truth).mean())
        held.append(np.mean((low <= truth) & (truth <= high)))
        total = series.resample(1, groups={"all": keys})
        sums.append((total.values[0] - truth.sum()) / total.standard_error[0])
    release = ts.Release.from_json(release.to_json())
    assert release.verify()
    again = ts.smooth(release)
    assert again.values.tolist() == series.values.tolist()
    assert (again.converged, again.release.keys, again.sources) == (True, (*keys,), (release,))
    assert list(again.by_key()) == keys
    assert again.standard_error == pytest.approx(np.sqrt(np.diag(again.covariance @ np.eye(25))))
    one = release.by_key()["3 (up to 2 keys)"]  # which is weighed by how many keys people have
    assert (one.size, one.design.signal.count) == (1, None)
    near = " ".join(contents_of(again).near)
    assert "An interval holds the counts of everybody with a probability of 90%" in near
    assert "event" not in near
    counted = contents_of(series, people=[again]).of_people
    assert counted == ["Each individual counts once at every key."]
    with_cap = np.abs(other(log).values - truth).mean()
    assert np.mean(errors) < 0.6 * with_cap
    assert 0.83 < np.mean(held) < 0.99
    assert np.mean(np.abs(sums) < 1.645) > 0.5
    assert abs(np.mean(sums)) < 1


def test_one_step_has_no_trend_and_a_few_keys_have_no_tiers(log_space):
    noise = ts.then_subsampled_gaussian(3.0, sampling_probability=1.0, delta=1e-6)
    release = (places(log_space, None, SITES[:2]) >> noise)(arrays(crowd()))
    assert release.design.count.weighting == ts.Tiers(ends=())
    series = ts.smooth(release)
    assert (series.values.tolist(), set(series.standard_error)) == (release.values.tolist(), {3.0})
    for wrong in ({"trend": True}, {"band": "rate"}):
        refuses("a grid of one step", ts.smooth, release, **wrong)
    refuses("method='haar'", ts.smooth, release, "haar")
    beyond = ts.smooth(dataclasses.replace(release, values=release.values * 1e200))
    assert not beyond.converged
    for metric, remedy in ((dp.l1_distance(T=float), "output_metric"), (dp.l2_distance(T=int), "a key_cap")):
        cast = ts.then_lp_distance(metric)
        refuses(remedy, lambda: places(log_space, None) >> cast, error=(TypeError, ValueError))  # noqa: B023
    gaussian = places(log_space, None) >> ts.then_lp_distance(dp.l2_distance(T=float)) >> dp.m.then_gaussian(9.0)
    assert len(gaussian(arrays(crowd()))) == 10


def test_in_a_context_everybody_counts_at_all_keys(log_space):
    context = context_of(arrays(crowd()), space=(log_space[0], dp.symmetric_distance()), epsilon=1.0, delta=1e-6)
    query = context.query().individual_count(by="site", keys=SITES).subsampled_gaussian(sampling_probability=1)
    release = query.release()
    assert release.stated.loss[0] == pytest.approx((1.0, 1e-6))
    assert ts.smooth(release).release.keys == (*SITES,)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cap", [1, 2, 4])
def test_neighbours_are_as_near_as_the_maps_say(log_space, cap, monkeypatch):
    monkeypatch.setattr(module, "fresh_key", lambda: KEY)
    rows, people, replaced = crowd(6, rows=60, people=12), log_space, (log_space[0], dp.change_one_distance())

    def l1(chain):
        return (chain >> ts.then_lp_distance(dp.l1_distance(T=int))).map(1)

    def both(some):
        return (people >> ts.then_individual_count())(arrays(some))[0], np.array(places(people, cap)(arrays(some)))

    total, by_site = both(rows)
    for person in {row[0] for row in rows if row[0] is not None}:
        others = [row for row in rows if row[0] != person]
        fewer, left = both(others)
        assert 0 <= total - fewer <= l1(people >> ts.then_individual_count())
        assert (by_site - left).min() >= 0
        assert (by_site - left).sum() <= l1(places(people, cap))
        # In their place somebody else, in other sites and at other times, or without a row of their own.
        for mine in ([("new", 0, site) for site in SITES], [("new", 5, "elsewhere")]):
            other, moved = both(others + mine)
            assert abs(total - other) <= l1(replaced >> ts.then_individual_count())
            assert np.abs(by_site - moved).sum() <= l1(places(replaced, cap))


@pytest.mark.parametrize("replaced", [False, True])
def test_maps_are_the_worst_that_people_can_do(log_space, replaced):
    space, lp = (log_space[0], dp.change_one_distance() if replaced else log_space[1]), ts.then_lp_distance
    for individuals, size, cap in itertools.product((1, 2), (1, 2, 3, 4), (1, 2, 3, 9)):
        _, l1, l2_squared, _ = oracle.largest_differences(size, cap, 1, individuals, replaced=replaced)
        count = places(space, cap, list(range(size)))
        assert [(count >> lp(dp.l1_distance(T=kind))).map(individuals) for kind in (int, float)] == [l1] * 2
        l2 = (count >> lp(dp.l2_distance(T=float))).map(individuals)
        assert l2_squared <= l2**2 * (1 + 1e-15)
        assert l2 <= math.sqrt(l2_squared) * (1 + 1e-15)
        influence = count.map(1)
        assert (influence.l0, influence.linf) == oracle.largest_differences(size, cap, 1, 1, replaced=replaced)[::3]
    for individuals in (0, 1, 3, 10**6):
        for kind in (int, float, "i64"):
            metric = dp.absolute_distance(T=kind)
            # One who is replaced by somebody leaves the number as it is; by nobody, it falls by one.
            assert (space >> ts.then_individual_count() >> lp(metric)).map(individuals) == individuals


def test_a_distance_between_frames(log_space):
    rows = crowd(7)
    frame = pl.from_arrow(arrow(rows)).lazy()
    for metric, individuals in ((dp.symmetric_id_distance(pl.col("id")), 1), (dp.change_one_id_distance("id"), 2)):
        space = dp.domain_of(frame, infer=True), metric
        people, everywhere = space >> ts.then_individual_count(), places(space, cap=5)
        assert people(frame) == [oracle.individuals(rows)]
        assert everywhere(frame) == oracle.individuals(rows, SITES, cap=5)
        # OpenDP's change-one distance of identifiers may be two individuals added.
        assert people.map(3).individuals == 3 * individuals
        assert (everywhere.map(1).individuals, everywhere.map(1).l0) == (individuals, 5)
        within = space >> ts.then_individual_count(grid=GRID, time="time")
        assert within(frame) == [oracle.individuals(rows, period=PERIOD)]
        refuses("time", ts.make_individual_count, *space, error=TypeError, grid=GRID)
        refuses("time", ts.make_individual_count, *space, error=TypeError, time="time")
    assert (dp.domain_of(frame.drop("time"), infer=True), metric) >> ts.then_individual_count()


def test_without_a_grid_no_times_are_read(log_space):
    log = {"id": np.array([1, 2, 2]), "time": np.zeros(3, "V8")}  # of no use as times
    assert (log_space >> ts.then_individual_count())(log) == [2]
    assert (log_space >> ts.then_individual_count())({"id": np.array([1, 2, 2])}) == [2]
    refuses("column 'time' of type", log_space >> ts.then_individual_count(grid=GRID), log, error=dp.OpenDPException)


def test_a_unit_within_a_period_is_refused(log_space):
    with pytest.warns(ts.PeriodUnitWarning):
        within_a_day = ts.period_distance("1d", zone="UTC")
    for grid in (None, GRID):
        refuses("input_metric", ts.make_individual_count, log_space[0], within_a_day, error=TypeError, grid=grid)


def test_integer_steps_and_identifiers_of_every_width(log_space):
    log = {
        "id": np.array([0, 2**64 - 1, 2**64 - 1, 5, 2**63], dtype=np.uint64),
        "time": np.array([0, 3, 4, 4, 99]),
        "site": np.array([7, 7, 8, 8, 8]),
    }
    steps = ts.TimeGrid(size=5)
    assert (log_space >> ts.then_individual_count())(log) == [4]
    assert (log_space >> ts.then_individual_count(grid=steps))(log) == [3]
    assert places(log_space, cap=2, keys=[7, 8, 9], grid=steps)(log) == [2, 2, 0]
    assert places(log_space, cap=2, keys=["7", "8", "9"])(log) == [2, 3, 0]


def test_releases_know_how_they_were_made(log_space):
    noise = ts.then_subsampled_gaussian(3.0, sampling_probability=1.0, delta=1e-6)
    rows = arrays(crowd())
    total = (log_space >> ts.then_individual_count(grid=GRID) >> noise)(rows)
    by_site = (places(log_space, grid=GRID) >> noise)(rows)
    assert list(by_site.by_key()) == SITES
    for release in (total, by_site):
        again = ts.Release.from_json(release.to_json())
        made = again.design.count
        assert (made.grid.size, made.grid.start, made.grid.end) == (1, GRID.start, GRID.end)
        assert made.reading.once_over == GRID
        assert again.verify() == release.stated.loss
    anytime = (log_space >> ts.then_individual_count() >> noise)(rows)
    assert (anytime.grid, anytime.design.count.source.time) == (ts.TimeGrid(size=1), None)


def test_beside_a_series_in_one_budget(log_space):
    series = log_space >> ts.then_participation_count(GRID, participation_cap=4, excess="drop")
    people = log_space >> ts.then_individual_count(grid=GRID)
    programme = ts.Programme.plan([series, people], epsilon=1.0, delta=1e-6, sampling_probability=[0.5, 1.0])
    both = ts.make_composition([programme.measurement(series), programme.measurement(people)], delta=1e-6)
    assert 0.99 < both.map(1)[0] <= 1.0 + 1e-9
    alone = [ts.least_scale(chain, epsilon=0.5, delta=5e-7, sampling_probability=1.0) for chain in (series, people)]
    assert both(arrays(crowd()))[1].scale < max(alone)
    # The l2 distance says as much of a count that is kept as a whole.
    plain = people >> ts.then_lp_distance(dp.l2_distance(T=float))
    again = plain >> ts.then_subsampled_gaussian(programme.designs[1].scale, sampling_probability=1.0)
    same = ts.make_composition([programme.measurement(series), again], delta=1e-6)
    assert same.map(1) == both.map(1)


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"key_cap": 3}, ValueError, "key_cap"),
    ({"tiers": ts.Tiers(ends=())}, ValueError, "tiers"),
    ({"by": "site", "keys": ["a"], "tiers": (10,)}, TypeError, r"tiers.*10"),
    ({"by": "site", "keys": ["a", "b"], "tiers": ts.Tiers(ends=(2,))}, ValueError, "ends of tiers"),
    (
        {"by": "site", "keys": ["a", "b"], "tiers": ts.Tiers(ends=(1,)), "key_cap": 1},
        ValueError,
        "tiers",
    ),
    ({"by": "site", "keys": ["a"], "key_cap": 0}, ValueError, "key_cap"),
    ({"by": "site", "keys": ["a"], "key_cap": 1.5}, TypeError, "key_cap"),
    ({"by": "site", "key_cap": 1}, TypeError, r"by \('site'\) and keys \(None\)|by \(None\) and keys \(\['a'\]\)"),
    ({"keys": ["a"], "key_cap": 1}, TypeError, r"by \('site'\) and keys \(None\)|by \(None\) and keys \(\['a'\]\)"),
    ({"by": "id", "keys": ["a"], "key_cap": 1}, ValueError, "by"),
    ({"by": "site", "keys": ["a", "a"], "key_cap": 1}, ValueError, "distinct"),
    ({"grid": 5}, TypeError, "TimeGrid"),
    ({"time": "time"}, TypeError, "time"),
])  # fmt: skip
def test_refusals_at_construction(log_space, options, error, words):
    refuses(words, ts.make_individual_count, *log_space, error=error, **options)
