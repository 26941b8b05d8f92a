"""Totals of pairs of an individual and a step: what they add up, how far one moves them, the level that they set."""

import functools
import itertools
import math
import re
import warnings

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin.mechanisms import signal_of
from opendp_timeseries.release.documents import joint_guarantee
from tests import make
from tests.plugin import test_excess as whole
from tests.refused import refuses

GRID = ts.TimeGrid(size=12)
LOG = {"id": np.repeat(np.arange(20), 6), "time": np.arange(120) * 7 % 12 // 3 * 3, "site": np.arange(120) // 2 % 2}
HOURS = ts.TimeGrid(start="2024-01-15", step="1h", size=720, zone="Europe/Paris")
KEYS = {"by": "site", "keys": [0, 1]}
DAILY = ts.TimeGrid(start="2024-01-15", step="1d", size=30, zone="Europe/Paris")
LOSS = {"epsilon": 1.0, "delta": 1e-6}


def pairs(log, *columns):
    return len(set(zip(*(log[name].tolist() for name in columns), strict=True)))


def test_one_number_is_of_all_distinct_pairs(log_space):
    total = log_space >> make.then_total(GRID, participation_cap=12)
    assert total(LOG) == [pairs(LOG, "id", "time")]
    events = log_space >> make.then_total(GRID, participation_cap=12, step_cap=9)
    assert events(LOG) == [120]
    panel = log_space >> make.then_total(GRID, participation_cap=24, **KEYS)
    assert sum(panel(LOG)) == pairs(LOG, "id", "time", "site") > sum(total(LOG))
    assert (panel >> ts.then_totals({"all": [0, 1]}))(LOG) == [sum(panel(LOG))]


def test_nobody_adds_more_than_the_cap(log_space):
    total = log_space >> make.then_total(GRID, participation_cap=4)
    for steps in range(13):
        (found,) = total({"id": np.zeros(steps, int), "time": np.arange(steps)})
        assert min(steps, 4) - steps / 2**16 <= found <= min(steps, 4)
    by_four = log_space >> make.then_total(GRID, participation_cap=6, per=4)
    assert by_four({"id": np.zeros(12, int), "time": np.arange(12)}) == [2.0] * 3


@pytest.mark.parametrize(("given", "influence"), [
    ({"participation_cap": 5}, (1, 5, 5, 5)),
    ({"participation_cap": 100, "step_cap": 2}, (1, 24, 24, 24)),  # there are no more steps
    ({"participation_cap": 5, "gap": 4}, (1, 3, 3, 3)),
    ({"participation_cap": 5, "per": 4}, (3, math.sqrt(17), 4, 5)),  # all of one, and a step of another
    ({"participation_cap": 5, "per": 4, "gap": 2}, (3, 3, 2, 5)),
    ({"participation_cap": 20, **KEYS}, (2, math.sqrt(12**2 + 8**2), 12, 20)),
    ({"participation_cap": 20, "key_cap": 1, **KEYS}, (2, 12, 12, 12)),
])  # fmt: skip
def test_one_individual_moves_all_numbers_by_the_cap_at_most(log_space, given, influence):
    chain = log_space >> make.then_total(GRID, **given)
    found = chain.map(1)
    assert (found.l0, found.linf) == (influence[0], influence[2])
    assert found.l2 == pytest.approx(influence[1], rel=1e-15)
    l1 = (chain >> ts.then_lp_distance(dp.l1_distance(T=float))).map(1)
    assert l1 == influence[3]
    replaced = (log_space[0], dp.change_one_distance()) >> make.then_total(GRID, **given)
    assert replaced.map(1).linf == found.linf
    if found.l0 == 1:
        assert replaced.map(1).l2 == found.l2  # both are positive
    if "by" in given:  # the sum over keys is no more sensitive than a number is in ℓ1
        assert (chain >> ts.then_totals({"all": [0, 1]})).map(1).l2 == l1


@functools.cache
def totals_of_everybody(within, caps, per):
    """Real totals of everybody whom four steps can hold, in one of two periods if the unit is within one."""
    chain = (whole.LOG, whole.metric(within)) >> make.then_total(
        whole.GRID, participation_cap=3, per=per, **whole.CAPS[caps]
    )
    logs = whole.everybody(1 if "panel" in caps else 2, 2 if "panel" in caps else 1)
    return np.unique([chain(log) for log in logs if "within" not in within or len({*log["step"] // 2}) <= 1], axis=0)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
@pytest.mark.parametrize("unit", whole.UNITS)
@pytest.mark.parametrize(("caps", "per"), [("twice in a step", 2), ("gap", "all"), ("panel, gap, key cap", 2)])
def test_nobody_moves_real_totals_further_than_the_map_says(unit, caps, per):
    per = 2 if per == "all" and "within" in unit else per
    chain = (whole.LOG, whole.metric(unit)) >> make.then_total(
        whole.GRID, participation_cap=3, per=per, **whole.CAPS[caps]
    )
    moved = totals_of_everybody(unit.removesuffix(", replaced").replace("replaced", "added"), caps, per)
    if "replaced" in unit:
        moved = (moved[:, None] - moved).reshape(-1, moved.shape[1])
    moved, influence = np.abs(moved), chain.map(1)
    assert np.count_nonzero(moved, axis=1).max() == influence.l0
    assert moved.max() == influence.linf
    longest = math.sqrt((moved**2).sum(axis=1).max())
    assert influence.l2 * (0.99 if "added" in unit else 0.7) <= longest <= influence.l2 * (1 + 1e-12)
    assert moved.sum(axis=1).max() <= (chain >> ts.then_lp_distance(whole.L1)).map(1)


def of_hours(log_space, unit=None, **given):
    space = log_space if unit is None else (log_space[0], unit)
    return space >> make.then_total(HOURS, participation_cap=50, **given)


@pytest.mark.parametrize(("per", "begins"), [
    ("all", ["2024-01-15"]),
    ("1mo", ["2024-01-15", "2024-02-01"]),  # of what there is of a month
    ("1w", ["2024-01-15", "2024-01-22", "2024-01-29", "2024-02-05", "2024-02-12"]),
    (DAILY, np.arange("2024-01-15", "2024-02-14", dtype="M8[D]").astype(str).tolist()),
])  # fmt: skip
def test_a_number_for_each_period(log_space, per, begins):
    random = np.random.default_rng(3)
    hours = random.integers(720, size=900)
    who, at = random.integers(40, size=900), np.datetime64("2024-01-15T00:00") + hours * np.timedelta64(1, "h")
    chain = of_hours(log_space, per=per)
    first = (np.array(begins, dtype="M8[D]") - np.datetime64("2024-01-15")).astype(int) * 24  # no clock changes
    distinct = np.array(sorted(set(zip(who.tolist(), hours.tolist(), strict=True))))[:, 1]
    expected = np.histogram(distinct, bins=[*first, 720])[0]
    assert chain({"id": who, "time": at}) == expected.tolist()
    made = signal_of(chain).count
    assert (made.reading.grid, made.grid.size) == (HOURS, len(begins))
    release = (chain >> ts.then_subsampled_gaussian(50.0, sampling_probability=1, delta=1e-6))({"id": who, "time": at})
    assert ts.Release.from_json(release.to_json()) == release
    assert release.verify() == release.stated.loss


def test_within_a_period_everybody_has_the_cap_anew(log_space):
    with pytest.warns(ts.PeriodUnitWarning):
        day, steps = ts.period_distance("1d", zone="Europe/Paris"), ts.period_distance(4)
    chain = of_hours(log_space, unit=day, step_cap=3, per="1d")
    assert signal_of(chain).count.grid.edges().tolist() == DAILY.edges().tolist()
    assert (chain.map(1).l0, chain.map(1).l2) == (1, 72)
    nine_days, third = (chain >> ts.then_subsampled_gaussian(scale, sampling_probability=1) for scale in (72.0, 24.0))
    in_all = ts.loss_over_periods(nine_days, periods=9).epsilon(1e-6)
    assert in_all == pytest.approx(ts.loss_over_periods(third, periods=1).epsilon(1e-6), rel=1e-9)
    of_two = (log_space[0], steps) >> make.then_total(GRID, participation_cap=3, per=2)
    assert of_two({"id": np.zeros(8, int), "time": np.arange(8)})[-2:] == [0.0, 0.0]
    assert (of_two.map(1).l0, of_two.map(1).l2) == (2, pytest.approx(math.sqrt(5)))
    with pytest.raises(ValueError, match=r"^per.*4"):
        (log_space[0], steps) >> make.then_total(GRID, participation_cap=3, per=6)
    refuses("per", of_hours, log_space, unit=day, per="1w")


def test_in_contexts(log_space):
    context = ts.compositor(
        LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=dp.loss_of(**LOSS),
        split_by_weights=[1, 1, 1, 7],
    )  # fmt: skip
    for query in ("laplace", "gaussian"):
        asked = getattr(context.query().participation_count(GRID, participation_cap=12, norm="l1", per="all"), query)()
        assert isinstance(np.ravel(asked.release())[0].item(), float)
    release = context.query().participation_count(GRID, participation_cap=12, norm="l1", per="all").subsampled_gaussian(
        sampling_probability=1).release()  # fmt: skip
    chain = log_space >> make.then_total(GRID, participation_cap=12)
    assert release.design.signal == signal_of(chain)
    own = dp.Context.compositor(
        data=LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )  # fmt: skip
    query = (
        own.query()
        .participation_count(GRID, participation_cap=12, norm="l1", per="all")
        .lp_distance(dp.absolute_distance(T=float))
    )
    assert isinstance(query.laplace().release(), float)
    frames = ts.compositor(
        pl.LazyFrame({name: LOG[name] for name in ("id", "time")}),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("id")),
        privacy_loss=dp.loss_of(**LOSS),
        split_evenly_over=1,
    )
    query = frames.log_query().participation_count(GRID, participation_cap=12, time="time", norm="l1", per="all")
    assert query.subsampled_gaussian(sampling_probability=1).release().design.count.source.exact


@pytest.mark.parametrize(("grid", "given", "message"), [
    (GRID, {"per": 5}, "per"),
    (GRID, {"per": ts.TimeGrid(size=5)}, "per"),
    (GRID, {"per": ts.TimeGrid(size=24)}, "per"), (GRID, {"per": "1mo"}, "zone"),
    (GRID, {"per": DAILY}, "per"), (HOURS, {"per": 5}, "period"),
    (HOURS, {"per": "1fortnight"}, r"period.*'1fortnight'"),
    (HOURS, {"per": ts.TimeGrid(start="2024-01-16", step="1d", size=29, zone="Europe/Paris")}, "per"),
    (HOURS, {"per": ts.TimeGrid(start="2024-01-15", step="1d", size=30, zone="UTC")}, "per"),
    (HOURS, {"per": ts.TimeGrid(start="2024-01-15", step="90min", size=480, zone="Europe/Paris")}, "whole"),
    (GRID, {"gap": 13}, r"gap \(13\) must be at most 12|gap"),
    (GRID, {"key_cap": 1}, "key_cap"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(log_space, grid, given, message):
    refuses(message, lambda: log_space >> make.then_total(grid, participation_cap=5, **given))
    refuses(r"norm.*'l1'", lambda: log_space >> make.then_total(grid))
    with pytest.raises(ValueError, match=r"^per.*'l1'"):
        log_space >> ts.then_participation_count(GRID, participation_cap=5, per=4)


# --- The level ---


def released(chain, scale=1.0, **sample):
    sample = {"sampling_probability": 1, **sample}
    return (chain >> ts.then_subsampled_gaussian(scale, delta=1e-6, **sample))(LOG)


@pytest.mark.parametrize(("of", "tree", "per"), [
    *itertools.product(["one", "tiers"], [None], ["all", 4]),
    *itertools.product(["panel", "totals"], [None, {"all": [0, 1]}], ["all", 4]),
])  # fmt: skip
def test_a_total_sets_the_level_of_its_part(log_space, of, tree, per):
    panel = {} if of in ("one", "tiers") else KEYS
    count = log_space >> ts.then_participation_count(GRID, participation_cap=3, **panel)
    if of == "tiers":
        count = log_space >> ts.then_participation_count(GRID)
    if of == "totals":
        count = count >> ts.then_totals({"all": [0, 1]})
    total = log_space >> make.then_total(GRID, participation_cap=12, per=per, **panel)
    total = total >> ts.then_totals(tree) if tree is not None else total
    series, number = ts.interpolate(released(count)), released(total, 0.25)
    if of == "totals" and tree is None:
        refuses("total", series.with_total, number, error=TypeError)
        return
    found = series.with_total(number)
    sizes = (1 if tree else len(panel and [0, 1]) or 1, 1 if per == "all" else 3)
    levels = np.reshape(found.values, (sizes[0], -1, sizes[1], 12 // sizes[1])).sum(axis=(1, 3))
    assert np.allclose(levels.ravel(), number.values)
    old = np.reshape(series.values, (sizes[0], -1, sizes[1], 12 // sizes[1])).sum(axis=(1, 3)).ravel()
    of_each = np.repeat(np.arange(sizes[1]), 12 // sizes[1])
    of_each = np.concatenate([of_each + k * sizes[1] for k in range(sizes[0])])
    of_each = np.resize(of_each, len(series)) if sizes[0] == 1 else of_each
    ratio, error = (number.values / old)[of_each], (0.25 / number.values)[of_each]
    assert np.allclose(found.values, series.values * ratio)
    assert np.allclose(found.standard_error, np.hypot(series.standard_error * ratio, found.values * error))
    assert found.sources[-1] == number
    assert found.with_total(number).sources == found.sources
    shared = np.equal.outer(of_each, of_each) * np.outer(found.values * error, found.values * error)
    joint = found.covariance @ np.eye(len(found))  # the errors of interpolation are independent, at every step
    assert np.allclose(joint, np.diag((series.standard_error * ratio) ** 2) + shared)
    if found.parts:
        assert np.allclose(np.concatenate([part.values for part in found.parts]), found.values)
        assert np.allclose(np.concatenate([part.standard_error for part in found.parts]), found.standard_error)


def test_a_series_at_the_level_of_a_total_states_the_guarantee_of_both(log_space):
    count = released(log_space >> ts.then_participation_count(GRID, participation_cap=3))
    totals = [released(log_space >> make.then_total(GRID, participation_cap=12), 1.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        a_day = log_space[0], ts.period_distance(4)
    totals.append(released(a_day >> make.then_total(GRID, participation_cap=4, per=4), 1.0))
    same, mixed = (ts.interpolate(count).with_total(total).to_html() for total in totals)
    both = joint_guarantee([count, totals[0]])
    assert f"The guarantee of all 2 releases behind it: {both}." in same
    assert float(re.search("ε = ([0-9.]+)", both)[1]) >= count.stated.loss[0][0]
    each = f"{count.guarantee()}; and {totals[1].guarantee()}"
    assert "within" in totals[1].guarantee()
    assert f"The guarantee of each of the 2 releases behind it, as none is stated of all: {each}." in mixed
    assert "No guarantee of all of it is recorded" in mixed


def test_what_is_no_total_of_the_series_sets_no_level(log_space):
    count = log_space >> ts.then_participation_count(GRID, participation_cap=3)
    series = ts.interpolate(released(count))

    def total(space=log_space, grid=GRID, **given):
        return space >> make.then_total(grid, participation_cap=12, **given)

    other = (ts.event_log_domain(identifier="site", time="time"), log_space[1])
    nested = total(**KEYS) >> ts.then_totals({"all": {"x": [0], "y": [1]}})
    panel = ts.interpolate(released(log_space >> ts.then_participation_count(GRID, participation_cap=3, **KEYS)))
    few = ts.interpolate(
        released(log_space >> ts.then_participation_count(GRID, participation_cap=3, key_cap=2, **KEYS))
    )
    for one, number in (
        (series, released(count)),
        (series, released(total(per=1), sampling_probability=0.5)),
        (series, released(total(grid=ts.TimeGrid(size=6)))),
        (series, released(total(step_cap=2))),
        (series, released(total(**KEYS))),
        (panel, released(total())),
        (panel, released(nested)),
        (series, released(total(space=other))),
        (ts.interpolate(released(total(per=1))), released(total())),
        (series, released(total(gap=2))),
        (ts.interpolate(released(log_space >> ts.then_participation_count(GRID))), released(total(gap=2))),
        (panel, released(total(key_cap=1, **KEYS))),
        (few, released(total(key_cap=1, **KEYS))),
    ):
        refuses("total", one.with_total, number, error=TypeError)
    apart = ts.interpolate(released(log_space >> ts.then_participation_count(GRID, participation_cap=3, gap=2)))
    assert np.sum(apart.with_total(whole_total := released(total()))) == pytest.approx(whole_total.values[0])
    smooth = log_space >> ts.then_participation_count(GRID, participation_cap=3, excess="drop")
    smooth = smooth >> ts.then_circulant_filter(ts.gaussian_kernel(12, 1.0))
    refuses("total", lambda: ts.interpolate(released(smooth)).with_total(released(total())), error=TypeError)
    refuses("standard_error", series.with_total, released(total()), 1.0)
    below = released(log_space >> make.then_total(ts.TimeGrid(size=12), participation_cap=12), 1e5)
    below = type(below)(steps=below.steps, values=-np.abs(below.values), design=below.design, statement=below.statement)
    refuses("a series with the sum", series.with_total, below)
