"""The unit of privacy of one individual within a period: its maps, its words, and what it must not be taken for."""

import itertools
import json
import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.accounting.joint import FilteredLoss, filter_order
from opendp_timeseries.plugin.mechanisms import signal_of, stated_designs
from opendp_timeseries.plugin.spaces import log_of
from tests import make
from tests.oracles import counting as oracle
from tests.refused import refuses

pytestmark = pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")

LOG = ts.event_log_domain(identifier="id", time="time")
ONE = dp.symmetric_distance()
HOURS = ts.TimeGrid(start="2024-03-01", end="2024-05-01", step="1h", zone="America/New_York")
#: Words that no reader can take for a guarantee for all that somebody did.
WORDS = "one individual within one day (America/New_York), not all that they did, added or removed"


def day(**options):
    return ts.period_distance("1d", zone="America/New_York", **options)


def steps(number, **options):
    return ts.period_distance(number, **options)


def count(metric, grid=HOURS, **options):
    return (LOG, metric) >> ts.then_participation_count(grid, **({"participation_cap": 3} | options), excess="drop")


def measurement(metric=None, *, scale=6.0, p=1.0, delta=1e-6, **options):
    noise = ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=delta)
    return count(metric or day(), **options) >> noise


def nobody():
    return {"id": np.array([], dtype=np.int64), "time": np.array([], dtype="M8[s]")}


# --- Maps


@pytest.mark.thinned(2)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("size", "length"), [(4, 2), (5, 2), (4, 3), (3, 1), (3, 7)])
def test_maps_are_what_the_worst_individuals_do(size, length, replaced):
    for cap, step_cap, gap, distance, periods in itertools.product((1, 2), (1, 2), (1, 2, 3), (1, 2), (1, 2)):
        if gap > size or (distance, periods) == (2, 2) or (replaced and (distance > 1 or step_cap > 1)):
            continue
        chain = count(
            steps(length, replaced=replaced),
            ts.TimeGrid(size=size), participation_cap=cap, step_cap=step_cap, gap=gap,
        )  # fmt: skip
        got = signal_of(chain).influence(distance, periods=periods)
        truth = oracle.largest_differences(
            size, cap, step_cap, distance, replaced=replaced,
            gap=gap, period_of=lambda step: step // length, periods=periods,
        )  # fmt: skip
        l0, l1, squared, linf = truth
        assert got.individuals == distance
        assert min(got.l0 * distance, size) >= l0
        # Two individuals may have to share the longest period, as the two halves of one who is replaced.
        if (distance == 1 and not replaced) or size % length == 0:
            assert min(got.l0 * distance, size) == l0
        assert got.linf * distance == linf
        assert squared**0.5 <= got.l2 * distance <= distance * step_cap * got.l0**0.5 * (1 + 1e-12)
        if periods == 1:
            assert chain.map(distance) == got
            metrics = (dp.l1_distance(T=int), dp.l2_distance(T=float))
            by_norm = [(chain >> ts.then_lp_distance(metric)).map(distance) for metric in metrics]
            assert by_norm[0] >= l1
            assert by_norm[1] >= squared**0.5
            if distance == 1 and not replaced:
                assert by_norm[0] == l1
                assert by_norm[1] == pytest.approx(squared**0.5)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("key_cap", [None, 1])
def test_maps_of_panels_are_what_the_worst_individuals_do(key_cap, replaced):
    size, length, keys = 4, 2, ["a", "b"]
    own = []  # of one individual in one period: pairs of series and step
    for period in range(2):
        places = [(series, step) for series in (0, 1) for step in range(length * period, length * (period + 1))]
        for number in range(len(places) + 1):
            for chosen in itertools.combinations(places, number):
                at = [step for _, step in chosen]
                if key_cap is None or len(set(at)) == len(at):
                    own.append(set(chosen))
    for cap in (1, 2, 3, 9):
        within = [places for places in own if len(places) <= cap]
        most = max(len(x ^ y) for x in within for y in within) if replaced else max(map(len, within))
        panel = {"by": "at", "keys": keys, "key_cap": key_cap, "participation_cap": cap}
        chain = count(steps(length, replaced=replaced), ts.TimeGrid(size=size), **panel)
        assert chain.map(1).l0 == most
        whole = signal_of(chain).influence(1, periods=2)
        both = [
            x | y for x, y in itertools.product(within, repeat=2) if not {s // 2 for _, s in x} & {s // 2 for _, s in y}
        ]
        assert whole.l0 == (max(len(x ^ y) for x in both for y in both) if replaced else max(map(len, both)))


def test_the_cap_is_clamped_to_the_longest_period():
    # Days of 23 hours and 24 in March, 24 in April; in a year there is one of 25.
    assert count(day(), participation_cap=100).map(1).l0 == 24
    autumn = ts.TimeGrid(start="2024-11-01", end="2024-12-01", step="1h", zone="America/New_York")
    assert count(day(), autumn, participation_cap=100).map(1).l0 == 25
    month = ts.period_distance("1mo", zone="America/New_York")
    assert count(month, participation_cap=10**6).map(1).l0 == 31 * 24 - 1  # of March
    assert count(month, participation_cap=10).map(1) == count(ONE, participation_cap=10).map(1)


def test_a_period_that_holds_the_grid_is_no_period():
    year = ts.period_distance("1y", zone="America/New_York")
    for options in ({"participation_cap": 7}, {"participation_cap": 10**4, "gap": 5}):
        assert count(year, **options).map(1) == count(ONE, **options).map(1)


def test_filters_and_sampling_take_the_reach_of_one_period():
    smooth = ts.then_circulant_filter(ts.gaussian_kernel(HOURS.size, std=3))
    capped = count(ONE, participation_cap=24)
    assert (count(day(), participation_cap=500) >> smooth).map(1) == (capped >> smooth).map(1)
    loss = measurement(participation_cap=500, p=0.2).map(1)
    assert loss == (capped >> ts.then_subsampled_gaussian(6.0, sampling_probability=0.2, delta=1e-6)).map(1)


# --- All that somebody did


def test_the_loss_over_periods_is_that_of_somebody_in_all_of_their_steps():
    for k in (1, 2, 61, 10**6):
        person = count_influence(1, participation_cap=3 * min(k, 61), step_cap=1, size=HOURS.size, replaced=False)
        expected = ts.accounting.subsampled.extremal_law(person, 0.2, HOURS.size).at(6.0)
        found = ts.loss_over_periods(measurement(p=0.2), periods=k)
        assert found.epsilon(1e-6) == pytest.approx(expected.epsilon(1e-6), rel=1e-9)


def test_the_loss_over_periods_counts_the_hours_of_each_day():
    short = ts.TimeGrid(start="2024-03-09T20:00", end="2024-03-11", step="1h", zone="America/New_York")
    chain = signal_of(count(day(), short, participation_cap=10))
    assert [chain.influence(1, periods=k).l0 for k in (1, 2, 3)] == [10, 14, 14]  # four hours of the 9th
    chain = signal_of(count(day(), short, participation_cap=100))
    assert [chain.influence(1, periods=k).l0 for k in (1, 2)] == [23, 27]


def test_a_gap_does_not_hold_between_periods():
    chain = signal_of(count(day(), gap=4))
    assert (chain.influence(1).gap, chain.influence(1, periods=2).gap) == (4, 1)


def test_the_loss_over_periods_is_less_than_that_of_as_many_individuals():
    one = measurement(delta=1e-6)
    for k in (2, 7):
        assert one.map(1)[0] < ts.loss_over_periods(one, periods=k).epsilon(1e-6) < one.map(k)[0]


def test_several_releases_are_joined():
    months = [
        ts.TimeGrid(start=f"2024-0{m}-01", end=f"2024-0{m + 1}-01", step="1h", zone="America/New_York") for m in (4, 6)
    ]
    made = [measurement(grid=grid) for grid in months]  # of 30 days each
    both = measurement(grid=ts.TimeGrid(start="2024-04-01", end="2024-07-01", step="1h", zone="America/New_York"))
    assert ts.loss_over_periods(made, periods=[3, 5]).epsilon(1e-6) == pytest.approx(
        ts.loss_over_periods(both, periods=8).epsilon(1e-6), rel=1e-9
    )
    records = [one(nobody()) for one in made]
    two = ts.loss_over_periods(made, periods=2).epsilon(1e-6)
    for number in (2, np.int64(2), [2] * len(records), np.full(len(records), 2)):
        assert ts.loss_over_periods(records, periods=number).epsilon(1e-6) == two
    together = ts.make_composition(made, delta=1e-6)
    assert ts.loss_over_periods(together, periods=1).epsilon(1e-6) == together.map(1)[0]


def test_what_has_no_periods_has_no_loss_over_them():
    refuses("releases", ts.loss_over_periods, measurement(ONE), periods=2)
    refuses("releases", ts.loss_over_periods, [measurement(), measurement(ONE)], periods=2)
    refuses("releases", ts.loss_over_periods, [], periods=2)
    refuses(r"periods.*1", ts.loss_over_periods, measurement(), periods=[1, 2])
    refuses(r"periods.*1", ts.loss_over_periods, measurement(), periods=0)
    for number in (1.5, None, "3"):
        refuses("periods", ts.loss_over_periods, measurement(), error=TypeError, periods=number)
    refuses("releases", ts.loss_over_periods, [count(day())], error=TypeError, periods=2)
    refuses("periods", signal_of(count(ONE)).influence, 1, periods=2)


# --- Words


@pytest.mark.filterwarnings("default::opendp_timeseries.PeriodUnitWarning")
def test_whoever_asks_is_warned():
    with pytest.warns(ts.PeriodUnitWarning, match=r"not all that they did.*loss_over_periods") as found:
        day()
    assert found[0].filename == __file__


def test_the_unit_is_said_wherever_the_guarantee_is():
    release = measurement()(nobody())
    assert release.guarantee().endswith(f"differential privacy for {WORDS}")
    assert WORDS in release.to_json() + str(day())
    assert WORDS in str(measurement().input_metric)
    caption = ts.plot(ts.interpolate(release)).get_xlabel().replace("\n", " ")
    assert WORDS in caption
    assert "Each individual within one day (America/New_York) counts in at most 3 steps" in caption
    assert WORDS in ts.plot(ts.interpolate(release), guarantee=(1.0, 1e-6)).get_xlabel().replace("\n", " ")
    assert "individual within one day" in ts.interpolate(release).release.guarantee()
    assert (
        release.at_distance(3)
        .guarantee()
        .endswith("3 individuals, each within one day (America/New_York), not all that they did, added or removed")
    )
    assert "replaced" in measurement(day(replaced=True))(nobody()).guarantee()
    context = context_of_days(1)
    assert WORDS in str(context)


# --- Records


def test_records_read_back():
    for metric, grid in [(day(), HOURS), (steps(5, replaced=True), ts.TimeGrid(size=12))]:
        made = measurement(metric, grid=grid)
        log = nobody() if grid is HOURS else {"id": np.array([1]), "time": np.array([3])}
        release = made(log)
        again = ts.Release.from_json(release.to_json())
        assert again == release
        assert again.verify() == release.stated.loss == (made.map(1),)
        assert again.design.unit.period == release.design.unit.period


FORGED = {
    "without the period": lambda unit: unit.update(period=None),
    "of a longer period": lambda unit: unit["period"].update(length="1mo"),
    "of another zone": lambda unit: unit["period"].update(zone="UTC"),
    "of steps": lambda unit: unit.update(period={"length": 24, "zone": None}),
    "of no period": lambda unit: unit["period"].update(length="12h"),
    "of a period that is no number": lambda unit: unit["period"].update(length=True),
    "without the field": lambda unit: unit.pop("period"),
    "with another field": lambda unit: unit["period"].update(start=0),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_edited_records_are_refused(forge):
    document = json.loads(measurement(participation_cap=30)(nobody()).to_json())
    forge(document["design"]["count"]["reading"]["unit"])
    refuses(r".", ts.read_releases, json.dumps(document))


def test_words_that_are_those_of_a_person_are_not_read():
    document = json.loads(measurement()(nobody()).to_json())
    document["guarantee"] = document["guarantee"].replace(
        " within one day (America/New_York), not all that they did,", ""
    )
    assert WORDS in ts.Release.from_dict(document).guarantee()


def test_records_of_two_units_do_not_add_up():
    releases = [measurement(metric)(nobody()) for metric in (day(), ONE)]
    refuses("releases", ts.write_releases, releases)


# --- What must not mix


def context_of_days(shares):
    return make.context(nobody(), shares=shares, metric=day())


def test_measurements_of_two_units_do_not_compose():
    month = ts.period_distance("1mo", zone="America/New_York")
    for other in (ONE, month, day(replaced=True)):
        refuses("input_metric", ts.make_composition, [measurement(), measurement(other)], delta=1e-6)
    context = context_of_days(2)
    refuses("MetricMismatch", context.queryable, measurement(ONE), error=Exception)
    assert context.queryable(measurement(scale=50.0, delta=1e-7)).size == HOURS.size


def test_a_context_spends_its_share_on_the_unit():
    context = context_of_days(2)
    query = (
        context.query()
        .participation_count(HOURS, participation_cap=3, excess="drop")
        .subsampled_gaussian(sampling_probability=0.5)
    )
    release = query.release()
    assert release.scale == ts.least_scale(
        count(day()), epsilon=0.5, delta=5e-7, sampling_probability=0.5,
    )  # fmt: skip
    histogram = context.query().participation_histogram(HOURS, edges=[2])
    assert histogram.gaussian(5.0) is not None


def test_counts_that_do_not_know_of_periods_refuse_them():
    # What is built on log_of has to say that it counts within periods.
    refuses("input_metric", log_of, LOG, day(), error=TypeError, by=None, keys=None, time=None)
    refuses("input_metric", ts.make_individual_count, LOG, day(), error=TypeError, grid=HOURS)
    context = context_of_days(1)
    refuses("input_metric", context.query().individual_count, error=TypeError)


def test_a_histogram_counts_each_period():
    grid = ts.TimeGrid(size=12)
    histogram = (LOG, steps(4)) >> ts.then_participation_histogram(grid, edges=[1, 2])
    log = {"id": np.array([1, 1, 1, 1, 1, 1, 2]), "time": np.array([0, 1, 2, 4, 8, 9, 3])}
    assert list(histogram(log)) == [2, 1, 1]
    assert histogram.map(1).l0 == 1
    assert ((LOG, steps(4, replaced=True)) >> ts.then_participation_histogram(grid, edges=[1, 2])).map(1).l0 == 2


def test_a_lazy_frame_has_no_periods():
    polars = pytest.importorskip("polars")
    frame = dp.domain_of(polars.LazyFrame({"id": [1], "time": [1]}), infer=True)
    refuses(
        "input_metric",
        lambda: ts.make_participation_count(
            frame, steps(4), ts.TimeGrid(size=8), participation_cap=1, time="time", excess="drop"
        ),
        error=TypeError,
    )


def test_counts_made_elsewhere_are_assumed_within_each_period():
    space = ts.count_signal_domain(10), steps(4)
    chain = space >> ts.then_assume_participation(participation_cap=9)
    assert chain.map(1).l0 == 4
    release = (chain >> ts.then_subsampled_gaussian(3.0, sampling_probability=1.0, delta=1e-6))(np.zeros(10, int))
    words = "one period of 4 steps, not all that they did, added or removed, assuming at most 9 steps"
    assert words in release.guarantee()


def test_check_says_how_many_are_over_the_cap_within_a_period():
    log = {"id": np.array([1] * 6), "time": np.array([0, 1, 2, 4, 5, 8])}
    options = {
        "identifier": "id",
        "time": "time",
        "grid": ts.TimeGrid(size=12),
        "participation_cap": 2,
        "excess": "drop",
    }
    found = ts.check_log(log, **options, period=4)
    assert (found.individuals, found.individuals_over_cap, found.events_lost_share) == (3, 1, pytest.approx(1 / 6))
    assert "3 individuals, each within one period of 4 steps, are on the grid" in str(found)


# --- Ledgers and programmes


def test_whoever_names_a_budget_names_its_unit(tmp_path):
    unit = "one individual within one day (America/New_York), not all that they did, added or removed"
    ledger = ts.Ledger.create(tmp_path / "days.ledger", epsilon=2.0, delta=1e-6, period="1d", zone="America/New_York")
    plan = ts.Programme.plan([count(day())], epsilon=2.0, delta=1e-6, sampling_probability=0.5)
    for words in (repr(ledger), repr(plan)):
        assert f"(ε = 2, δ = 1e-06) for {unit}" in words.split("\n")[0]


def test_a_ledger_is_of_one_unit(tmp_path):
    persons = ts.Ledger.create(tmp_path / "persons.ledger", epsilon=2.0, delta=1e-6)
    days = ts.Ledger.create(tmp_path / "days.ledger", epsilon=2.0, delta=1e-6, period="1d", zone="America/New_York")
    assert WORDS in days.guarantee()
    for ledger, metric in [(persons, day()), (days, ONE), (days, ts.period_distance("1mo", zone="America/New_York"))]:
        before = ledger.path.read_bytes()
        refuses(
            "the unit of privacy of the ledger",
            ledger.release,
            measurement(metric),
            lambda: pytest.fail("the log was read"),
        )
        assert ledger.path.read_bytes() == before
    refuses("the unit of privacy of the ledger", persons.add, measurement()(nobody()))
    days.release(measurement(scale=20.0), nobody())
    days.release(measurement(scale=20.0), nobody())
    assert ts.Ledger(days.path).guarantee().endswith(f"for {WORDS}")
    assert days.to_dict()["unit"] == WORDS
    assert days.verify().epsilon == pytest.approx(days.standing().epsilon)
    assert days.standing().epsilon > 1.4 * measurement(scale=20.0).map(1)[0]  # of the same days
    with pytest.raises(TypeError, match="period"):
        ts.Ledger.create(tmp_path / "another.ledger", epsilon=1.0, delta=1e-6, zone="UTC")


def from_to(start, end):
    return ts.TimeGrid(start=start, end=end, step="1h", zone="America/New_York")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
def test_each_day_pays_for_the_releases_that_it_is_in(tmp_path, fixed, replaced):
    budget = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "adaptivity": "adaptive" if fixed else "fully adaptive",
        "replaced": replaced,
    }
    ledger = ts.Ledger.create(tmp_path / "days.ledger", **budget, period="1d", zone="America/New_York")

    def spend(start, end):
        made = measurement(day(replaced=replaced), scale=24.0, grid=from_to(start, end))
        ledger.release(made, nobody())
        return ledger.standing().epsilon

    one = spend("2024-01-01", "2024-02-01")
    if replaced:  # of two days, one may be in each
        assert spend("2024-02-01", "2024-03-01") > 1.05 * one
        return
    assert spend("2024-02-01", "2024-03-01") == spend("2024-03-01", "2024-04-01") == one
    two = spend("2024-03-31T23:00", "2024-05-01")  # an hour of a day that was in a release
    assert 1.05 * one < two
    three = spend("2024-02-15", "2024-06-01")
    assert three > 1.05 * two
    assert spend("2024-05-01", "2024-05-02") == three  # its days are in two by now
    alone = ts.Ledger.create(tmp_path / "same.ledger", **budget, period="1d", zone="America/New_York")
    for grid in (("2024-03-01", "2024-04-01"), ("2024-03-31T23:00", "2024-05-01"), ("2024-02-15", "2024-06-01")):
        alone.release(measurement(day(), scale=24.0, grid=from_to(*grid)), nobody())
    assert alone.standing().epsilon == three


def test_a_ledger_finds_the_noise_of_days_that_are_not_spent(tmp_path):
    ledger = ts.Ledger.create(tmp_path / "d.ledger", epsilon=1.0, delta=1e-6, period="1d", zone="America/New_York")
    first, second = (count(day(), from_to(f"2024-0{m}-01", f"2024-0{m + 1}-01")) for m in (1, 2))
    fresh = ledger.least_scale(second, sampling_probability=1.0)
    ledger.release(first >> ts.then_subsampled_gaussian(fresh, sampling_probability=1.0, delta=1e-6), nobody())
    assert ledger.least_scale(second, sampling_probability=1.0) == fresh
    assert ledger.least_scale(first, sampling_probability=1.0) > 1000 * fresh
    refuses("unit of privacy", ledger.least_scale, count(ONE), sampling_probability=1.0)


def test_a_count_made_elsewhere_is_in_every_period(tmp_path):
    terms = {"epsilon": 1.0, "delta": 1e-6, "period": "1d", "zone": "America/New_York"}
    ledger = ts.Ledger.create(tmp_path / "days.ledger", **terms)
    months = [from_to("2024-01-01", "2024-02-01"), from_to("2024-06-01", "2024-07-01")]
    made = measurement(day(), scale=24.0, grid=months[0])
    ledger.release(made, nobody())
    assumed = (ts.count_signal_domain(months[1].size), day()) >> ts.then_assume_participation(
        participation_cap=3, grid=months[1]
    )
    other = assumed >> ts.then_subsampled_gaussian(24.0, sampling_probability=1.0, delta=1e-6)
    ledger.release(other, np.zeros(months[1].size, dtype=int))
    losses = [part.design.loss() for one in (made, other) for part in stated_designs(one)]
    both = FilteredLoss.of(losses, filter_order(1.0, 1e-6)).epsilon(1e-6)
    assert ledger.standing().epsilon == pytest.approx(both, rel=1e-8)


def test_integer_steps_may_be_of_any_time_and_assumed_counts_of_any_grid(tmp_path):
    ledger = ts.Ledger.create(tmp_path / "steps.ledger", epsilon=1.0, delta=1e-6, period=4)
    for made in (
        (LOG, steps(4)) >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=3, excess="drop"),
        (ts.count_signal_domain(8), steps(4)) >> ts.then_assume_participation(participation_cap=3),
    ):
        noise = ts.then_subsampled_gaussian(24.0, sampling_probability=1.0, delta=1e-6)
        log = {"id": np.array([1]), "time": np.array([0])} if made.input_domain == LOG else np.zeros(8, int)
        ledger.release(made >> noise, log)
    one = measurement(ONE, scale=24.0).map(1)[0]
    assert ledger.standing().epsilon > 1.05 * one


def test_a_programme_is_of_one_unit(tmp_path):
    grids = [
        ts.TimeGrid(start=f"2024-0{m}-01", end=f"2024-0{m + 1}-01", step="1h", zone="America/New_York") for m in (1, 2)
    ]
    budget = {"epsilon": 1.0, "delta": 1e-6, "sampling_probability": 0.5}
    refuses("releases", ts.Programme.plan, [count(day(), grids[0]), count(ONE, grids[1])], **budget)
    planned = ts.Programme.plan([count(day(), grid) for grid in grids], **budget)
    again = ts.Programme.from_json(planned.to_json())
    assert again == planned
    ledger = ts.Ledger.create(tmp_path / "days.ledger", programme=again)
    ledger.release(again.measurement(count(day(), grids[0])), nobody())
    assert WORDS in ledger.guarantee()
    refuses("chain", again.measurement, count(ONE, grids[0]))


def test_no_warning_reaches_whoever_reads():
    record = measurement()(nobody()).to_json()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.read_releases(record)
