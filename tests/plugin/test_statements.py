"""A release states a guarantee only where every stage from the log to the noise is known, however it was made."""

import copy
import dataclasses
import gc
import itertools
import json
import math
import pickle
import random
import re
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.core import function_eval

import opendp_timeseries as ts
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.plugin import _opendp, mechanisms
from opendp_timeseries.plugin.context import split_budget
from opendp_timeseries.plugin.conversions import make_renyiDP_to_approxDP
from opendp_timeseries.results.contents import contents_of
from tests.refused import refuses

SIZE = 6
GRID, KERNEL = ts.TimeGrid(size=SIZE), ts.gaussian_kernel(SIZE, 1.0)
LOG = {"id": np.arange(30) % 7, "time": np.arange(30) % SIZE, "site": np.arange(30) % 3, "minutes": np.arange(30) % 5}
SPACE = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()


def further(influence):
    return dataclasses.replace(influence, l2=3 * influence.l2, linf=3 * influence.linf, majorant=None)


def user_stage(space, stability, function=lambda data: data):
    return dp.t.make_user_transformation(*space, *space, function, stability)


#: What comes before the count, and between count and noise; names of what is not ours.
FRONT = {
    "": lambda space: None,
    "make_user_transformation": lambda space: user_stage(space, lambda d_in: 2 * d_in),
    "make_identity": lambda space: dp.t.make_identity(*space),
}
MIDDLE = {
    "": lambda space: None,
    "filter": lambda space: ts.make_circulant_filter(*space, KERNEL),
    "make_user_transformation": lambda space: user_stage(space, further),
    "make_identity": lambda space: dp.t.make_identity(*space),
}
PANEL, VALUE = {"by": "site", "keys": [0, 1, 2]}, {"value": "minutes", "bound": 3}
#: What is counted.
COUNTS = {
    "": {"participation_cap": 2, "excess": "drop"},
    "values": {"participation_cap": 2, **VALUE},
    "everybody": {},
    "values of everybody": {**VALUE, "total_bound": 5},
    "panel": {"participation_cap": 2, "key_cap": 1, **PANEL},
    "places": {**PANEL, "groups": {"north": [0, 1], "south": [2]}},
    "values at places": {**PANEL, **VALUE, "groups": {"all": {"north": [0, 1], "south": [2]}}},
    "in all": {"participation_cap": 2, "norm": "l1", "per": "all"},
}
#: How a measurement states its loss, and a budget for a Context that takes it.
VIEWS = {
    "pair": ({"delta": 1e-6}, {"epsilon": 1e4, "delta": 1e-4}),
    "zcdp": ({"failure_probability": 1e-6}, {"rho": 1e4, "delta": 1e-4}),
    "rho": ({"output_measure": dp.zero_concentrated_divergence()}, {"rho": 1e4}),
    "profile": ({}, None),
    "renyi": ({"output_measure": dp.renyi_divergence()}, None),
}
SAMPLES = (
    {"sampling_probability": 0.5},
    {"sampling_probability": 0.5, "sampling": "stratified"},
    {"sampling_probability": 1.0},
)


def join(*stages):
    first, *later = [stage for stage in stages if stage is not None]
    for stage in later:
        first = first >> stage
    return first


class Case:
    """A way of making a measurement, with stages, a view, a way of sampling, and what is counted."""

    def __init__(self, way, front, middle, view, sample, counted=""):
        self.way, self.front, self.middle, self.view, self.sample = way, front, middle, view, SAMPLES[sample]
        self.foreign = "|".join(name for name in (front, middle) if name.startswith("make_"))
        self.options, self.budget = VIEWS[view]
        self.before = FRONT[front](SPACE)
        self.counted = counted
        self.count = ts.make_participation_count(*SPACE, GRID, **COUNTS[counted])
        self.between = MIDDLE[middle](self.count.output_space)
        self.chain = join(self.before, self.count, self.between)

    def noise(self, **options):
        return ts.then_subsampled_gaussian(3.0, **self.sample, **(options or self.options))

    def measurement(self, **options):
        return self.chain >> self.noise(**options)

    def ours(self):
        return self.count >> self.noise()

    def release(self):
        """Everything that is released, and the measurement of all of it where there is one."""
        return WAYS[self.way](self)

    def context(self, make=ts.compositor, d_in=1):
        return make(
            LOG,
            (SPACE[1], d_in),
            dp.loss_of(**self.budget),
            split_evenly_over=2 if make is ts.compositor else 1,
            domain=SPACE[0],
        )

    def query(self, context):
        return context.query().new_with(chain=self.chain)

    def __str__(self):
        stages = self.front or "nothing", self.middle or "nothing"
        return f"{self.way}, {', '.join(stages)}, {self.view}, {self.sample}, {self.counted}"


def source(series):
    """What a series is made from: of everybody, it shows the last tier alone."""
    return (series.sources or (series.release,))[0]


def release_of(measurement):
    return [measurement(LOG)], measurement


def releases_of(measurement):
    return measurement(LOG), measurement


def by_combinators(case):
    domain, metric = case.chain.output_space
    noise = ts.make_subsampled_gaussian(domain, metric, 3.0, **case.sample, **case.options)
    chain = case.count if case.between is None else dp.c.make_chain_tt(case.between, case.count)
    chain = chain if case.before is None else dp.c.make_chain_tt(chain, case.before)
    return release_of(dp.c.make_chain_mt(noise, chain))


def restatement(case):
    measurement = case.measurement()
    if case.view == "rho":
        measurement = dp.c.make_approximate(measurement)
    elif case.view == "zcdp":
        measurement = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), 1e-6)
    elif case.view == "profile":
        measurement = dp.c.make_fix_delta(measurement, 1e-6)
    elif case.view == "renyi":
        measurement = dp.c.make_fix_delta(make_renyiDP_to_approxDP(measurement), 1e-6)
    return release_of(measurement)


def in_front_of_a_composition(case):
    inner = ts.make_composition([join(case.count, case.between) >> case.noise(), case.ours()], **case.options)
    return releases_of(join(case.before, inner))


def nested_compositions(case):
    inner = ts.make_composition([case.measurement(), case.ours()], **case.options)
    measurement = ts.make_composition([inner, case.ours()], **case.options)
    (first, second), third = measurement(LOG)
    return [first, second, third], measurement


def with_processed_members(case):
    measurement = ts.make_composition([case.measurement() >> ts.interpolate, case.ours()], **case.options)
    series, release = measurement(LOG)
    return [source(series), release], measurement


def by_a_measurement_of_the_user(case):
    inner = case.ours()
    outer = dp.m.make_user_measurement(
        *SPACE, inner.output_measure, lambda log: [inner(log)], lambda d_in: inner.map(d_in)
    )
    return outer(LOG), None


def in_a_context(make, ask):
    def way(case):
        context = case.context(make)
        return [ask(case, context)], None

    return way


def of_a_composition_in_a_context(case):
    query = case.context().query().composition([case.measurement(), case.ours()], factor=1.0, **case.options)
    return query.release(), None


def nesting(make, depth, compose=False):
    def way(case):
        context = case.query(case.context(make)).compositor(split_evenly_over=2).release()
        for _ in range(depth - 1):
            context = context.query().compositor(split_evenly_over=2).release()
        noise = case.noise()(*case.chain.output_space)
        if compose:
            return context(ts.make_composition([noise, noise], **case.options)), None
        query = context.query()
        return [query.new_with(chain=noise).release(), context(noise)], None

    return way


def in_a_context_without_shares(most):
    def way(case):
        loss = dp.loss_of(**(case.budget if most is None else dict.fromkeys(case.budget, most)))
        if most is not None and isinstance(loss[1], tuple):
            loss = loss[0], (math.inf, 1.0)
        context = ts.compositor(LOG, (SPACE[1], 1), loss, domain=SPACE[0])
        return [context(case.measurement())], None

    return way


def in_an_accountant_in_a_context(case):
    measure, loss = dp.loss_of(**case.budget)
    shares = split_budget(loss, [1] * 4)
    accountant = dp.c.make_adaptive_composition(*SPACE, measure, d_in=1, d_mids=shares[:2])
    return [case.context()(accountant)(case.measurement())], None


def by_an_odometer(case):
    odometer = dp.c.make_fully_adaptive_composition(*SPACE, case.measurement().output_measure)
    return [odometer(LOG)(case.measurement())], None


def by_a_filter(case):
    odometer = dp.c.make_fully_adaptive_composition(*SPACE, case.measurement().output_measure)
    queryable = dp.c.make_privacy_filter(odometer, d_in=1, d_out=dp.loss_of(**case.budget)[1])(LOG)
    return [queryable.invoke(case.measurement())], None


def by_a_programme(case):
    # It takes chains of this package alone, but its measurement may stand behind others.
    chain = join(case.count, case.between)
    sampling = {"sampling": "poisson"} | case.sample
    planned = ts.Programme.plan([chain, chain], epsilon=1.0, delta=1e-6, **sampling)
    return release_of(join(case.before, planned.measurement(chain)))


WAYS = {
    "chain": lambda case: release_of(case.measurement()),
    "combinators": by_combinators,
    "noise first": lambda case: release_of(
        join(case.before, join(case.count, case.between) >> case.noise())
    ),
    "restated": restatement,
    "interpolated": lambda case: ([source((case.measurement() >> ts.interpolate)(LOG))], None),
    "processed": lambda case: ([(case.measurement() >> (lambda release: [release]))(LOG)[0]], None),
    "composition": lambda case: releases_of(ts.make_composition([case.measurement(), case.ours()], **case.options)),
    "composition by factor": lambda case: releases_of(
        ts.make_composition([case.measurement(), case.ours()], factor=2.0, **case.options)
    ),
    "on a count": lambda case: releases_of(case.chain >> ts.then_composition([case.noise()] * 2, **case.options)),
    "stages in a composition": lambda case: releases_of(
        join(case.before, ts.make_composition([join(case.count, case.between) >> case.noise()] * 2, **case.options))
    ),
    "in front of a composition": in_front_of_a_composition,
    "nested compositions": nested_compositions,
    "processed members": with_processed_members,
    "OpenDP's composition": lambda case: (dp.c.make_composition([case.measurement(), case.ours()])(LOG), None),
    "user measurement": by_a_measurement_of_the_user,
    "programme": by_a_programme,
    "odometer": by_an_odometer,
    "filter": by_a_filter,
    "Context": in_a_context(ts.compositor, lambda case, context: context(case.measurement())),
    "Context as a filter": in_a_context_without_shares(None),
    "Context as an odometer": in_a_context_without_shares(math.inf),
    "accountant in a Context": in_an_accountant_in_a_context,
    "Context's query": in_a_context(
        ts.compositor,
        lambda case, context: (
            case.query(context).subsampled_gaussian(3.0, **case.sample, **case.options).release()
        ),
    ),
    "Context's composition": of_a_composition_in_a_context,
    "OpenDP's Context": in_a_context(dp.Context.compositor, lambda case, context: context(case.measurement())),
    "nested": nesting(ts.compositor, 1),
    "nested twice": nesting(ts.compositor, 2),
    "nested composition": nesting(ts.compositor, 1, compose=True),
    "OpenDP's nested": nesting(dp.Context.compositor, 1),
}  # fmt: skip
#: Where nothing is known, whatever the stages are.
SILENT = {"user measurement", "OpenDP's nested"}
OF_A_BUDGET = {name for name in WAYS if "Context" in name or "nested" in name.split()} | {"odometer", "filter"}
OF_A_BUDGET -= {"nested compositions"}


def cases():
    for way, front, middle, view, sample in itertools.product(WAYS, FRONT, MIDDLE, VIEWS, range(len(SAMPLES))):
        profiles = view == "profile" and way == "OpenDP's composition"  # it does not compose them
        if way == "programme" and (view != "pair" or middle.startswith("make_")):
            continue
        if view == "rho" and SAMPLES[sample]["sampling_probability"] < 1:  # which is refused
            continue
        if not profiles and (way not in OF_A_BUDGET or VIEWS[view][1] is not None):
            yield way, front, middle, view, sample


CASES = list(cases())
random.Random(1).shuffle(CASES)
# Filters are of plain counts, and of samples there are counts with caps alone; any other case is of the next of them.
OF_SAMPLES = itertools.cycle(
    name for name, options in COUNTS.items() if {"participation_cap", "per"} & {*options} == {"participation_cap"}
)
OF_ALL_STEPS = itertools.cycle(COUNTS)
CASES = [
    (way, front, middle, view, sample, "" if middle == "filter" else next(OF_ALL_STEPS if sample == 2 else OF_SAMPLES))
    for way, front, middle, view, sample in CASES
]
CHUNKS = 12


def points(measure, loss, stated):
    """What a map states, as a statement does."""
    if measure == "profile":
        return [(epsilon, loss.delta(epsilon)) for epsilon, _ in stated]
    if measure == "renyi":
        return [(alpha, loss(alpha)) for alpha, _ in stated]
    return [(loss, 0.0) if measure == "rho" else loss]


def demand_covered(release, case, measurement):
    view = release.stated.view
    options = {"delta": view.delta} if view.delta is not None else {}
    if view.failure_probability:
        options = {"failure_probability": view.failure_probability}
    elif view.failure_probability is not None:
        options, _ = VIEWS["rho"]
    name = {"delta": "pair", "failure_probability": "zcdp", "output_measure": "rho"}.get(
        next(iter(options), ""), case.view
    )
    path = join(case.before, case.count, case.between) >> ts.then_subsampled_gaussian(
        release.scale, **case.sample, **(options or VIEWS[name][0])
    )
    right = points(name, path.map(release.stated.distance), release.stated.loss)
    for stated, least in zip(release.stated.loss, right, strict=True):
        assert all(s >= r * (1 - 1e-9) for s, r in zip(stated, least, strict=True)), (str(case), stated, least)
    whole = release.stated.parent
    if whole is not None and whole.kind == "composition" and measurement is not None:
        (right,) = points(name, measurement.map(1), None)
        assert all(s >= r * (1 - 1e-9) for s, r in zip(whole.loss, right, strict=True)), str(case)


def demand_silence(release, case, words):
    assert release.statement is None, str(case)
    for ask in (release.guarantee, release.verify, release.to_json, lambda: ts.write_releases([release])):
        with pytest.raises(ValueError, match=r"stated|known") as refusal:
            ask()
        assert re.search(words, str(refusal.value)), (str(case), refusal.value)


def check(chosen):
    for place in chosen:
        case = Case(*place)
        releases, measurement = case.release()
        assert all(type(release) is ts.Release for release in releases), str(case)
        for k, release in enumerate(releases):
            if case.way in SILENT:
                demand_silence(release, case, "make_user_measurement" if case.way == "user measurement" else
                               case.foreign or "this release has no statement")  # fmt: skip
            elif case.foreign:
                demand_silence(release, case, case.foreign)
            else:
                if k == 0 or case.middle == "":  # others of a composition may be of the plain count
                    demand_covered(release, case, measurement)
                assert release.guarantee(), str(case)
                release.verify()


def test_what_is_stated_covers_what_is_lost_or_nothing_is_stated():
    check(CASES[::37])  # of all that is counted


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_stated_covers_what_is_lost_or_nothing_is_stated_in_every_case(chunk):
    assert len(CASES) > 2000
    check(CASES[chunk::CHUNKS])


def case(way="chain", front="", middle="", view="pair", sample=0):
    return Case(way, front, middle, view, sample)


@pytest.mark.parametrize("make", [
    lambda: ts.make_private_series(*SPACE, GRID, epsilon=1.0, delta=1e-6),
    lambda: ts.make_individual_count(*SPACE) >> case().noise(),
    lambda: ts.make_participation_count(*SPACE, GRID, participation_cap=3, norm="l1", per="all") >> case().noise(),
])  # fmt: skip
def test_other_counts_follow_the_rule(make):
    measurement = make()
    assert measurement(LOG).stated.loss == (measurement.map(1),)
    for name, stage in FRONT.items():
        if name:
            demand_silence((stage(SPACE) >> measurement)(LOG), None, name)


# --- what OpenDP does not say ---


def test_where_nobody_says_what_is_invoked_nothing_is_stated(monkeypatch, tmp_path):
    measurement, foreign = case().measurement(), case(front="make_user_transformation").measurement()
    ledger = ts.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3)
    monkeypatch.setattr(_opendp, "_INVOCATIONS", {})  # as in an OpenDP that invokes by other functions
    for release in (measurement(LOG), foreign(LOG), *ts.make_composition([measurement] * 2, delta=1e-6)(LOG)):
        demand_silence(release, None, "this release has no statement.*call the measurement itself")
        assert release.grid == GRID  # for figures
        refuses("this release", ledger.add, release)
    # A ledger has invoked the measurement itself.
    ledger.release(measurement, LOG)
    ledger.verify()


def test_where_a_queryable_does_not_say_whose_it_is_nothing_is_stated():
    context = case().context()
    context.queryable.__opendp_dict__ = None
    demand_silence(context(case().measurement()), None, "this release has no statement")
    release = case("OpenDP's nested").release()[0][0]
    assert release.grid == GRID


def test_a_function_that_is_called_by_itself_states_nothing():
    measurement = case().measurement()
    stage = dp.t.make_user_transformation(
        *SPACE, dp.user_domain("releases", lambda _: True), SPACE[1], measurement, lambda d_in: d_in
    )
    function = function_eval(measurement.function, LOG, TI="ExtrinsicObject")
    for release in (function, stage(LOG)):
        demand_silence(release, None, "this release has no statement")


def test_post_processing_that_invokes_a_measurement_states_nothing_of_another():
    foreign, seen = case(front="make_user_transformation").measurement(), []
    (case().measurement() >> (lambda release: seen.append(foreign(LOG)) or release))(LOG)
    demand_silence(seen[0], None, "make_user_transformation")


def test_each_thread_knows_its_own_invocation():
    ours, foreign = case().measurement(), case(front="make_user_transformation").measurement()
    with ThreadPoolExecutor(4) as pool:
        releases = list(pool.map(lambda k: (ours, foreign)[k % 2](LOG), range(40)))
    assert [release.statement is None for release in releases] == [False, True] * 20


def test_releases_are_plain_values_that_keep_no_data():
    log = dict(LOG, id=LOG["id"].copy())
    kept = weakref.ref(log["id"])
    measurements = [case().measurement(), case(front="make_identity").measurement()]
    releases = [measurement(log) for measurement in measurements for _ in range(2)]
    for release in releases:
        for same in (copy.deepcopy(release), pickle.loads(pickle.dumps(release))):
            assert type(same) is ts.Release
            assert (same, hash(same), same.statement) == (release, hash(release), release.statement)
    assert isinstance(releases[2].design.signal, UnknownSignal)
    assert releases[0] != releases[1]
    del log
    gc.collect()
    assert kept() is None


# --- who else refuses ---


def test_a_page_says_why_nothing_is_stated():
    release = case(front="make_user_transformation").measurement()(LOG)
    assert "a stage (make_user_transformation)" in (ts.interpolate(release).to_html())


@pytest.mark.parametrize("way", ["chain", "composition", "nested", "Context"])
def test_a_ledger_refuses_what_states_nothing(way, tmp_path):
    ledger = ts.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3)
    for release in case(way, front="make_user_transformation").release()[0]:
        refuses("make_user_transformation", ledger.add, release)
    assert ledger.releases() == ()


def test_of_several_individuals_a_composition_says_what_they_lose_together():
    members = [case().ours()] * 2
    both = ts.make_composition(members, delta=1e-5)

    def context():
        # One share, so that the composition is all there is.
        unit, loss = (SPACE[1], 2), dp.loss_of(epsilon=1e3, delta=1e-4)
        return ts.compositor(LOG, unit, loss, split_evenly_over=1, domain=SPACE[0])

    for release in context()(both):
        assert release.stated.distance == 2
        assert release.stated.parent.loss == both.map(2)
    for release in context()(dp.c.make_composition([both, *members]))[0]:
        assert release.stated.parent is None  # of something larger
    planned = ts.Programme.plan([case().chain], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    assert context()(planned.measurement(case().chain)).stated.parent is None


# --- fixed in advance ---


def nested_context():
    query = case().context().query().participation_count(GRID, participation_cap=2)
    return query.compositor(split_evenly_over=2).release()


def record_of(releases):
    first, *others = map(ts.interpolate, releases)
    return json.loads(contents_of(first, beside=others).records)


def test_queries_of_which_one_follows_the_other_are_not_fixed_in_advance():
    context, noise = nested_context(), [case().noise()] * 2
    first, second = (context.query().composition(noise, factor=60.0, delta=1e-6).release() for _ in range(2))
    assert len({release.invocation for release in (*first, *second)}) == 1  # of the count
    assert len({release.composition for release in first}) == 1
    assert first[0].composition != second[0].composition
    assert record_of(first)["adaptivity"] == "non-adaptive"
    later = record_of([*first, *second])
    assert later["adaptivity"] == "fully adaptive"
    (epsilon, _), *_ = later["joint_loss"]
    assert epsilon >= sum(release.stated.loss[0][0] for release in (*first, *second))
    assert ts.Release.from_json(first[0].to_json()) == first[0]


def test_what_one_composition_makes_on_a_log_is_fixed_in_advance():
    both = case("Context's composition").release()[0]
    assert record_of(both)["adaptivity"] == "non-adaptive"
    again = case("Context's composition").release()[0]
    assert record_of([both[0], again[1]])["adaptivity"] == "fully adaptive"
    inner, outer = ts.make_composition([ts.make_composition([case().ours()] * 2), case().ours()])(LOG)
    assert len({release.composition for release in (*inner, outer)}) == 1


# --- spending first ---


def stage_of_the_user(process):
    """Post-processing that is a transformation."""
    return user_stage((dp.user_domain("releases", lambda _: True), dp.symmetric_distance()), lambda d_in: d_in, process)


def basic_composition(measurements):
    """OpenDP's composition by the name that it had."""
    with pytest.warns(DeprecationWarning, match="renamed"):
        return dp.c.make_basic_composition(measurements)


PROCESSED = {
    "a chain": lambda noise, process, **_: noise >> process,
    "a transformation": lambda noise, process, **_: noise >> stage_of_the_user(process),
    "twice": lambda noise, process, **_: noise >> (lambda release: release) >> process,
    "stages before": lambda noise, process, **_: dp.t.make_identity(*SPACE) >> (noise >> process),
    "a composition": lambda noise, process, **options: ts.make_composition([noise >> process, noise], **options),
    "nested": lambda noise, process, **options: ts.make_composition(
        [noise, ts.make_composition([noise, noise >> process], factor=2.0, **options)], **options
    ),
    "by factor": lambda noise, process, **options: ts.make_composition([noise >> process], factor=2.0, **options),
    "OpenDP's composition": lambda noise, process, **_: dp.c.make_composition([noise, noise >> process]),
    "OpenDP's composition by its old name": lambda noise, process, **_: basic_composition([noise, noise >> process]),
    "a composition processed": lambda noise, process, **options: (
        ts.make_composition([noise >> (lambda release: release), noise], **options) >> process
    ),
}
ASKED = {
    "a Context": lambda: (context := case().context(), context),
    "a query": lambda: (context := case().context(), lambda made: context.query().new_with(chain=made).release()),
    "a nested Context": lambda: (
        context := case().context().query().compositor(split_evenly_over=2).release(),
        context,
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("make", PROCESSED.values(), ids=PROCESSED)
def test_what_is_processed_is_paid_for(make, ask):
    seen, (context, answer) = [], ask()

    def careless(release):
        seen.append(release)
        raise KeyError("a slip")

    refuses("a slip", answer, make(case().ours(), careless, delta=1e-5), error=(KeyError, dp.OpenDPException))
    assert len(seen) == 1
    assert len(context.remaining_privacy_loss()) == 1


def test_a_composition_states_the_same_by_its_old_name():
    ours, foreign = case().ours(), case(front="make_user_transformation").measurement()
    for members, silent in (([ours, ours], False), ([ours, foreign], True)):
        for compose in (dp.c.make_composition, basic_composition):
            assert [release.statement is None for release in compose(members)(LOG)] == [silent] * 2


def test_a_profile_of_one_pair_states_the_same():
    for front, silent in (("", False), ("make_user_transformation", True)):
        release = dp.c.make_fixed_approxDP_to_approxDP(case(front=front).measurement())(LOG)
        assert (release.statement is None) == silent


def test_every_combinator_of_opendp_is_known_or_ends_what_is_known():
    """A new one, or another name, must be looked at: what is processed within it is not paid for before."""
    seen_through = {*mechanisms._SAME_MECHANISM, *mechanisms._COMPOSITIONS, *mechanisms._ACCOUNTANTS, "make_chain_tt"}
    # They ask a measurement several times, and process what it says; or are of domains of tables of a known size.
    opaque = {"make_select_private_candidate", "make_population_amplification"}
    made = {name for name, make in vars(dp.c).items() if name.startswith("make_") and make.__module__ == dp.c.__name__}
    assert made == seen_through | opaque


def test_members_of_a_query_are_processed_after_the_share_is_spent():
    context, seen = case().context(), []

    def careless(release):
        seen.append(release)
        raise KeyError("a slip")

    for left in (1, 0):
        query = context.query().composition([case().count >> case().noise() >> careless, case().ours()])
        refuses("a slip", query.release, error=(KeyError, dp.OpenDPException))
        assert len(context.remaining_privacy_loss()) == left
    assert len(seen) == 2
    refuses("exhausted", context.query)


def test_processing_keeps_its_order_and_its_place():
    noise, context = case().ours(), case().context()
    inner = ts.make_composition([noise >> (lambda release: [release, 1]), noise], delta=1e-5)
    outer = ts.make_composition([noise, inner], delta=1e-5) >> (lambda answer: (answer, "end"))
    for made in (outer(LOG), context(outer)):
        (first, ((second, number), third)), end = made
        assert (number, end) == (1, "end")
        assert [type(release) for release in (first, second, third)] == [ts.Release] * 3
        assert [release.stated.parent.number for release in (first, second, third)] == (
            [1, 1, 1] if first.stated.parent.kind == "context" else [1, 2, 3]
        )
