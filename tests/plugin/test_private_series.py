"""A private series without a cap: one measurement that composes like any other, in chains, Contexts and books."""

import math
import re
import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.design.tiers import default_tiers
from opendp_timeseries.plugin.mechanisms import signal_of, stated_designs
from opendp_timeseries.results import captions
from tests.make import context_of
from tests.refused import refuses

SIZE = 60
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(50), 6), "time": np.arange(300) * 7 % SIZE, "site": np.arange(300) % 3}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def series(log_space):
    return log_space >> ts.then_private_series(GRID, **BUDGET)


def test_it_is_the_count_in_tiers_with_the_least_noise(log_space, series):
    chain = log_space >> ts.then_participation_count(GRID)
    ((design, view),) = stated_designs(series)
    assert design.signal == signal_of(chain)
    assert design.count.tiers == default_tiers(SIZE)
    assert design.scale == ts.least_scale(chain, sampling_probability=1, **BUDGET)
    assert (design.sampling.probability, view.delta) == (1.0, 1e-6)
    epsilon, delta = series.map(1)
    assert 1 - 1e-9 < epsilon <= 1.0
    assert delta == 1e-6
    # As much as for a count with a cap: nothing is paid for not knowing it.
    capped = log_space >> ts.then_participation_count(GRID, participation_cap=design.count.tiers.first(SIZE))
    assert design.scale == pytest.approx(ts.least_scale(capped, sampling_probability=1, **BUDGET), rel=1e-12)


def test_noise_does_not_depend_on_the_first_tier_but_for_its_unit(log_space):
    by_first = []
    for first in (1, 5, 20):
        chain = log_space >> ts.then_participation_count(GRID, tiers=ts.Tiers(ends=(first, 30)))
        weight = chain(LOG)[-SIZE:][0] / sum(LOG["time"] == 0)  # of everybody, in the last series
        by_first.append(ts.least_scale(chain, sampling_probability=1, **BUDGET) / weight)
    assert by_first == pytest.approx([by_first[0]] * 3, rel=1e-3)


@pytest.mark.parametrize(
    ("limits", "steps", "noise"), [({}, 18_600, 607.6), ({"key_cap": 1}, 744, 121.5), ({"gap": 24}, 775, 124.0)]
)
def test_the_last_tier_is_of_the_steps_that_gap_and_key_cap_leave(log_space, limits, steps, noise):
    month, stations = ts.TimeGrid(size=744), list(range(25))
    chain = log_space >> ts.then_participation_count(month, by="site", keys=stations, **limits)
    count = signal_of(chain).count
    assert count.reading.max_steps == steps
    of_all = count.tiers.table(steps).weights[0, -1] / 2**16
    assert ts.least_scale(chain, sampling_probability=1, **BUDGET) / of_all == pytest.approx(noise, abs=0.05)


def test_the_last_series_is_the_whole_count(log_space):
    chain = log_space >> ts.then_participation_count(GRID, step_cap=2)
    whole = log_space >> ts.then_participation_count(GRID, participation_cap=SIZE, step_cap=2, excess="drop")
    last, counts = np.array(chain(LOG))[-SIZE:], np.array(whole(LOG))
    tiers = signal_of(chain).count.tiers
    squares = 4 * SIZE  # of somebody who has two events in every step
    assert tiers.ends == default_tiers(squares).ends
    weight = tiers.table(squares).weights[0, -1] / 2**16
    assert np.array_equal(last, weight * counts)
    assert weight == pytest.approx(math.sqrt(tiers.share * 10 / squares), rel=1e-3)


def test_a_release_of_it_knows_all_of_it(series):
    release = series(LOG)
    names = tuple(release.by_key())
    assert names == release.keys == ("up to 10 steps", "any number of steps")
    assert all(part.size == SIZE for part in release.parts())
    assert release.verify() == release.stated.loss == (series.map(1),)
    assert ts.Release.from_json(release.to_json()) == release
    assert release.guarantee().startswith("(ε = 1, δ = 1e-06)-differential privacy for one individual")
    names = {"log": LOG}
    exec(release.design.python(delta=1e-6), names)
    assert names["release"].design == release.design


def test_it_composes_with_releases_of_every_kind(log_space, series, tmp_path):
    chain = log_space >> ts.then_participation_count(GRID)
    panel = log_space >> ts.then_participation_count(GRID, by="site", keys=[0, 1, 2], key_cap=2)
    capped = log_space >> ts.then_participation_count(GRID, participation_cap=5, gap=2)
    people = log_space >> ts.then_individual_count(grid=GRID)
    chains = [chain, panel, capped, people]
    programme = ts.Programme.plan(chains, **BUDGET, sampling_probability=1.0)
    assert "none" in programme.table()
    together = ts.make_composition([programme.measurement(one) for one in chains], delta=1e-6)
    assert 1 - 1e-6 < together.map(1)[0] <= 1.0
    assert [len(release) for release in together(LOG)] == [2 * SIZE, 4 * 3 * SIZE, SIZE, 1]
    ledger = ts.Ledger.create(tmp_path / "book", programme=programme)
    for one in chains:
        assert ledger.release(programme.measurement(one), LOG).stated.parent.kind == "ledger"
    free = ts.Ledger.create(tmp_path / "free", epsilon=2.0, delta=1e-5)
    assert free.release(series, LOG).design == stated_designs(series)[0].design
    scale = free.least_scale(chain, sampling_probability=1.0)
    free.release(chain >> ts.then_subsampled_gaussian(scale, sampling_probability=1, delta=1e-6), LOG)
    native = dp.c.make_composition([series, log_space >> ts.then_private_series(GRID, epsilon=0.5, delta=1e-7)])
    assert native.map(1) == pytest.approx((1.5, 1.1e-6), rel=1e-8)


def test_an_individual_within_a_day_is_weighed_in_each(log_space):
    hours = ts.TimeGrid(start="2024-01-01", step="1h", size=96, zone="UTC")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        space = log_space[0], ts.period_distance("1d", zone="UTC")
    chain = space >> ts.then_participation_count(hours, tiers=ts.Tiers(ends=(4,)))
    at = np.array(["2024-01-01T00", "2024-01-01T05", "2024-01-03T07"], dtype="datetime64[h]")
    counts = np.reshape(chain({"id": np.ones(3, int), "time": at}), (2, 96))
    assert counts[0, [0, 5, 55]].tolist() == [counts[0, 0]] * 3  # up to 4 steps in each
    assert chain.map(1).l2 == 2.0
    measurement = space >> ts.then_private_series(hours, **BUDGET)
    whole, day = (ts.loss_over_periods(measurement, periods=k).epsilon(1e-6) for k in (4, 1))
    assert day == pytest.approx(1.0, rel=1e-9)
    assert 1.9 < whole < 2.2


def test_in_opendps_own_context_it_says_its_share(log_space):
    loss = dp.loss_of(**BUDGET)
    own = dp.Context.compositor(
        data=LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=loss, split_evenly_over=1
    )
    release = own.query().private_series(GRID, **BUDGET).release()
    assert release.stated.loss[0] == pytest.approx((1.0, 1e-6), rel=1e-9)


@pytest.mark.parametrize(("given", "error", "message"), [
    ({}, TypeError, "epsilon"), ({"epsilon": 1.0}, TypeError, "delta"),
    ({"epsilon": -1.0, "delta": 1e-6}, ValueError, "epsilon"),
    ({**BUDGET, "tiers": (10, 50)}, TypeError, "tiers"),
    ({**BUDGET, "tiers": ts.Tiers(ends=(60,))}, ValueError, "ends of tiers"),
    ({**BUDGET, "keys": [1]}, TypeError, "by (None) and keys ([1])"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(log_space, given, error, message):
    refuses(message, ts.make_private_series, *log_space, GRID, error=error, **given)


def test_sampled_tiers_are_refused_as_no_noise_is_saved(log_space):
    chain = log_space >> ts.then_participation_count(GRID)
    # Half of the steps, with as much noise as this, tell less of the mean than all of them do.
    whole, half = (ts.least_scale(chain, **BUDGET, sampling_probability=p) for p in (1.0, 0.5))
    assert half > 1.08 * whole * 0.5**0.5
    refuses("sampling_probability", lambda: chain >> ts.then_subsampled_gaussian(half, sampling_probability=0.5))


PANEL = {"by": "site", "keys": [0, 1, 2]}


def test_groups_of_keys_cost_what_one_series_costs(log_space, series):
    groups = {"city": {"north": [0], "south": [2, 1]}}
    grouped = log_space >> ts.then_private_series(GRID, **PANEL, groups=groups, shares=(0.5, 0.25, 0.25), **BUDGET)
    (alone, _), (together, _) = (stated_designs(one)[0] for one in (series, grouped))
    assert together.scale == pytest.approx(alone.scale, rel=1e-12)
    release = grouped(LOG)
    names = [0, 1, 2, "city", "north", "south"]
    tiers = together.count.weighting.names("step")
    assert list(release.by_key()) == [f"{name} ({tier})" for tier in tiers for name in names]
    assert together.count.shape == (len(tiers), 6, SIZE)
    assert together.count.reading.keys == (*names,)
    assert release.verify()
    again = ts.Release.from_json(release.to_json())
    assert (again, again.design) == (release, release.design)
    assert [len(one.release.keys) for one in ts.smooth([release])] == [3, 2, 1]
    # In a Context, from the same query, the budget decides.
    in_context = context_of(LOG, space=(log_space[0], dp.symmetric_distance()), **BUDGET)
    query = in_context.query().private_series(GRID, **PANEL, groups=groups, shares=(0.5, 0.25, 0.25))
    assert query.release().design == together


@pytest.mark.parametrize(("steps", "share"), [(10, 1.0), (11, (30 / 30.25) ** 0.5), (30, (30 / 82.5) ** 0.5)])
def test_whoever_is_often_at_several_keys_at_once_counts_for_less_and_captions_say_so(log_space, steps, share):
    days = ts.TimeGrid(size=30)
    often = {
        "id": np.zeros(2 * steps, dtype=int),
        "time": np.repeat(np.arange(steps), 2),
        "site": np.tile([0, 1], steps),
    }
    once = {name: np.zeros(1, dtype=int) for name in often}
    groups = {"city": {"north": [0, 1], "south": [2]}}
    chain = log_space >> ts.then_participation_count(days, **PANEL, groups=groups)
    first = (signal_of(chain).count.tiers.series - 1) * 6 * 30  # of the last tier, in which all weigh the same
    assert chain(often)[first] / chain(once)[first] == pytest.approx(share, rel=1e-4)
    for option, is_said in (({"groups": groups}, True), ({}, False)):
        release = (log_space >> ts.then_private_series(days, **PANEL, **option, **BUDGET))(often)
        series = ts.smooth(release)
        said = captions.caps_in_words(series, series.release.design.count, " over all series")
        words = "; whoever is often at several at once (at two in more than 10 steps) counts for less, and numbers are"
        assert (words in said) == is_said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"step_cap": 2},
            "at most 2 times in each; whoever is often at several at once (such as 2 times at each of two in",
        ),
        (
            {"value": "much", "bound": 9},
            "at most 9 of 'much' in each; whoever is often at several at once (such as 9 of",
        ),
        (
            {"step_cap": 2, "total_bound": 9},
            "2 times in each; whoever has more than 9 in all or is often at several at",
        ),
    ],
)
def test_captions_of_events_and_of_sums_say_who_counts_for_less(log_space, options, words):
    log = {"id": np.arange(9), "time": np.arange(9), "site": np.arange(9) % 3, "much": np.arange(9)}
    groups = {"city": {"north": [0, 1], "south": [2]}}
    release = (log_space >> ts.then_private_series(ts.TimeGrid(size=30), **PANEL, groups=groups, **BUDGET, **options))(
        log
    )
    series = ts.smooth(release)
    for count in (series.release.design.count, series.sources[0].design.count):
        said = captions.caps_in_words(series, count, " over all series")
        assert said.startswith("Each individual counts in every step of every series, at most ")
        assert words in said
        assert said.endswith(" for less; totals are too low by the rest")
    # So it is: as often as they say everybody weighs the same, and once more makes somebody lighter.
    steps, much = int(re.search(r"at each of two in more than (\d+) steps", said)[1]), options.get("bound", 1)
    times = options.get("step_cap", 1)
    chain = log_space >> ts.then_participation_count(ts.TimeGrid(size=30), **PANEL, groups=groups, **options)
    first = (signal_of(chain).count.tiers.series - 1) * 6 * 30

    def in_first(size):
        rows = np.repeat(np.arange(size), 2 * times)
        sites = np.tile(np.repeat([0, 1], times), size)
        return chain({"id": 0 * rows, "time": rows, "site": sites, "much": np.full(len(rows), much)})[first]

    assert in_first(1) == pytest.approx(in_first(steps), rel=1e-4)
    assert in_first(steps + 1) < 0.999 * in_first(steps)


@pytest.mark.parametrize(("sites", "share"), [([0, 1], 1.0), ([0, 1, 2], (83 / 135) ** 0.5)])
def test_of_days_whoever_is_at_two_keys_of_a_group_on_all_of_them_counts_in_full(log_space, sites, share):
    days = ts.TimeGrid(start="2024-03-15", step="1d", size=30, zone="Europe/Berlin")  # over a change of the clock
    often = {
        "id": np.zeros(30 * len(sites), dtype=int),
        "time": np.repeat(days.edges("local")[:-1] + np.timedelta64(8, "h"), len(sites)),
        "site": np.tile(sites, 30),
    }
    once = {name: column[:1] for name, column in often.items()}
    groups = {"city": {"north": [0, 1], "south": [2]}}
    chain = log_space >> ts.then_participation_count(days, **PANEL, groups=groups)
    first = (signal_of(chain).count.tiers.series - 1) * 6 * 30
    assert chain(often)[first] / chain(once)[first] == pytest.approx(share, rel=1e-4)
    release = (log_space >> ts.then_private_series(days, **PANEL, groups=groups, **BUDGET))(often)
    said = captions.caps_in_words(ts.smooth(release), release.design.count, "")
    assert "(at three in more than 15 steps) counts for less" in said


@pytest.mark.parametrize("size", [2, 5, 30, 60])
def test_of_days_with_groups_the_statement_is_that_of_the_map_which_the_busiest_do_not_exceed(log_space, size):
    """With few days there is one tier, whose end is the norm of all."""
    days = ts.TimeGrid(start="2024-03-15", step="1d", size=size, zone="Europe/Berlin")
    often = {
        "id": np.zeros(2 * size, dtype=int),
        "time": np.repeat(days.edges("local")[:-1] + np.timedelta64(8, "h"), 2),
        "site": np.tile([0, 1], size),
    }
    groups = {"city": {"north": [0, 1], "south": [2]}}
    chain = log_space >> ts.then_participation_count(days, **PANEL, groups=groups)
    norm = float(np.linalg.norm(np.asarray(chain(often), dtype=float)))
    assert 0.85 * chain.map(1).l2 < norm <= chain.map(1).l2
    measurement = chain >> ts.then_subsampled_gaussian(
        20.0, sampling_probability=1.0, output_measure=dp.smoothed_max_divergence()
    )
    design = measurement(often).design
    assert design.loss().delta(0.5) == pytest.approx(measurement.map(1).delta(0.5), rel=1e-9)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
def test_a_series_of_a_panel_with_groups_states_no_loss_of_its_own():
    """A group adds up its keys, so that one of its series alone may hold more than a count of one series could."""
    week = ts.TimeGrid(start="2024-03-11", step="1d", size=7, zone="UTC")
    space = ts.event_log_domain(identifier="id", time="time"), ts.period_distance("1w", zone="UTC")
    chain = space >> ts.then_participation_count(
        week, by="site", keys=[0, 1], groups={"all": [0, 1]}, shares=(1 / 16, 15 / 16)
    )
    log = {"id": np.zeros(14, int), "time": np.repeat(week.edges()[:-1], 2), "site": np.tile([0, 1], 7)}
    release = (chain >> ts.then_subsampled_gaussian(10.0, sampling_probability=1.0, delta=1e-6))(log)
    assert ts.loss_over_periods(release, periods=1).epsilon(1e-6) > 0
    assert (np.array(chain(log)).reshape(-1, 7)[-1] ** 2).sum() > 7  # of one series alone, steps that are fully counted
    for part in release.parts():
        refuses("this signal", ts.loss_over_periods, part, periods=1)


def test_groups_that_cannot_be_are_refused_before_anything_is_spent(log_space):
    for options, message in (
        ({"groups": {"city": [0, 1, 2]}}, "groups"),
        (PANEL | {"shares": (0.5, 0.5)}, "shares"),
        (PANEL | {"groups": {"city": [0, 1]}}, r"every key of the panel.*2"),
        (PANEL | {"groups": {"city": [0, 1, 2, 3]}}, r"groups.*3.*'city'"),
        (PANEL | {"groups": {"city": [0, 1, 2]}, "key_cap": 1}, "key_cap"),
        (PANEL | {"groups": {"city": [0, 1, 2]}, "shares": (0.9, 0.2)}, r"shares.*1"),
    ):
        refuses(message, ts.make_private_series, *log_space, GRID, **options, **BUDGET)
    panel = PANEL | {"groups": {"city": [0, 1, 2]}}
    for caps in ({"participation_cap": 3}, {"participation_cap": 3, "norm": "l1", "per": "all"}):
        refuses("participation_cap", lambda: log_space >> ts.then_participation_count(GRID, **panel, **caps))  # noqa: B023
    count = log_space >> ts.then_participation_count(GRID, **panel)
    for stage in (ts.then_totals({"city": [0, 1, 2]}), ts.then_circulant_filter(ts.boxcar_kernel(SIZE, width=3))):
        refuses(r"tiers|panel", lambda: count >> stage, error=(ValueError, TypeError, dp.OpenDPException))  # noqa: B023
    refuses(
        "groups", lambda: log_space >> ts.then_private_series(GRID, **PANEL, groups=["city"], **BUDGET), error=TypeError
    )
