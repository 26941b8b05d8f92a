"""A design is all that decides a release: it comes back from its document and its call, and its loss is its own."""

import json
import warnings
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.kernels import identity_kernel
from opendp_timeseries.design.reading import Reading, Source
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weighting import limit_steps
from opendp_timeseries.grid import Period, TimeGrid
from opendp_timeseries.plugin.mechanisms import stated_designs
from tests import make
from tests.refused import refuses

HOURS = TimeGrid(start="2024-03-30", step="1h", size=48, zone="Europe/Berlin")
WHOLE = TimeGrid.from_edges([HOURS.start, HOURS.end], zone="Europe/Berlin")
DAYS = TimeGrid.from_edges(["2024-03-30", "2024-03-31", "2024-04-01", HOURS.end], zone="Europe/Berlin")
TERMS = TimeGrid.from_edges(["2012-09-03", "2013-01-07", "2013-04-15"], zone="Europe/London")
SOURCE = Source(identifier='card\'s "id"', time="when")
BY = replace(SOURCE, by="site")
ONE = make.count(source=SOURCE, grid=HOURS, participation_cap=4)
PANEL = make.changed(ONE, source=BY, panel=("a", "b'", "c"), key_cap=2)
TREE = Groups.of({"all": {"x": ["a", "b'"], "y": ["c"]}}, PANEL.panel)
KERNELS = [
    ts.gaussian_kernel(48, 1.5, resolution_bits=12), ts.boxcar_kernel(48, 3, resolution_bits=20),
    ts.exponential_kernel(48, 0.3), identity_kernel(48), ts.Kernel.from_taps([0.5, -0.25] + [0.0] * 46),
    ts.gaussian_kernel(48, 1.5).convolve(ts.boxcar_kernel(48, 5)),
]  # fmt: skip


def design(signal, p=0.25, scale=3.5, sampling="poisson"):
    signal = Signal(signal) if isinstance(signal, Count) else signal
    return Design(signal=signal, sampling=Sampling.of(p, sampling), scale=scale)


DESIGNS = {
    "one series": design(ONE),
    "every cap": design(make.changed(ONE, step_cap=3, gap=5)),
    "blocks": design(ONE, sampling="stratified"),
    "integer steps": design(make.changed(ONE, grid=TimeGrid(size=9))),
    "terms": design(make.changed(ONE, grid=TERMS, participation_cap=1), p=1.0),
    "replaced": design(make.changed(ONE, unit=Unit(replaced=True))),
    "within a day": design(make.changed(ONE, unit=Unit(period=Period("1d", "Europe/Berlin")))),
    "within steps, replaced": design(
        make.changed(ONE, grid=TimeGrid(size=9), unit=Unit(replaced=True, period=Period(3)))
    ),
    "panel": design(PANEL),
    "panel of numbers": design(make.changed(PANEL, panel=(3, 1), key_cap=None)),
    "totals": design(Signal(PANEL, (TREE,))),
    "filtered totals": design(Signal(PANEL, (TREE, KERNELS[0]))),
    "people": design(make.count(source=Source(identifier="id"), grid=TimeGrid(size=1), participation_cap=1), p=1.0),
    "people in the column time": design(
        make.count(source=Source(identifier="time"), grid=TimeGrid(size=1), participation_cap=1), p=1.0
    ),
    "people on a grid": design(make.count(source=SOURCE, grid=WHOLE, once_over=HOURS), p=1.0),
    "people by key": design(
        make.count(
            source=Source(identifier="id", by="site"), grid=TimeGrid(size=1), participation_cap=2, panel=("a", "b")
        ),
        p=1.0,
    ),
    "everybody by key": design(
        make.count(
            source=Source(identifier="id", by="site"), grid=TimeGrid(size=1), panel=(*"abcde",), tiers=Tiers(ends=(2,))
        ),
        p=1.0,
    ),
    "everybody by key on a grid": design(
        make.count(source=BY, grid=WHOLE, once_over=HOURS, panel=(*"abcde",), tiers=Tiers(ends=(1, 3), share=0.7)),
        p=1.0,
    ),
    "scaled": design(make.changed(ONE, excess="l2")),
    "scaled in ℓ1": design(make.changed(ONE, excess="l1", step_cap=2)),
    "total": design(make.changed(ONE, per=WHOLE, excess="l1"), p=1.0),
    "totals over time": design(make.changed(ONE, per=DAYS, excess="l1", gap=30), p=1.0),
    "totals of integer steps": design(
        make.changed(ONE, per=TimeGrid(size=3), grid=TimeGrid(size=9), excess="l1", unit=Unit(period=Period(3)))
    ),
    "totals in a day, of groups": design(
        Signal(make.changed(PANEL, per=DAYS, excess="l1", unit=Unit(period=Period("1d", "Europe/Berlin"))), (TREE,))
    ),
    "scaled, apart, filtered": design(Signal(make.changed(ONE, excess="l2", gap=6), (KERNELS[0],))),
    "scaled totals": design(Signal(make.changed(PANEL, excess="l2"), (TREE,))),
    "in tiers": design(make.changed(ONE, tiers=Tiers(ends=(4, 9)), step_cap=2), p=1.0),
    "in one tier": design(make.changed(ONE, tiers=Tiers(ends=())), p=1.0),
    "stations and a city": design(
        make.changed(PANEL, tiers=Tiers(ends=(4,)), key_cap=None, grouping=Grouping(groups=TREE, shares=(7, 5, 4))),
        p=1.0,
    ),
    "panel in tiers": design(make.changed(PANEL, tiers=Tiers(ends=(4,), share=0.5)), p=1.0),
} | {f"filter {k}": design(Signal(ONE, (kernel,))) for k, kernel in enumerate(KERNELS)}


def columns(count):
    """A log in which two people are, whatever its columns are called."""
    time = np.arange(2) if count.reading.row_grid.is_integer else count.grid.instants()[:1].repeat(2)
    log = {count.source.time or "time": time, count.source.identifier: np.arange(2)}
    return log | ({count.source.by: np.array([count.panel[0]] * 2)} if count.source.by else {})


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_comes_back_from_its_document_and_from_its_call(name):
    made = DESIGNS[name]
    again = Design.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    assert hash(again) == hash(made)
    assert again.signal.identifier == made.signal.identifier
    names = {"log": columns(made.count)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        exec(made.python(delta=1e-6), names)
    ((known, view),) = stated_designs(names["measurement"])
    assert (known, view.delta) == (made, 1e-6)
    assert names["release"].design == made
    assert names["measurement"].map(2) == made.loss(2).epsilon_delta(1e-6)


def test_designs_are_equal_exactly_if_they_are_the_same_query():
    found = list(DESIGNS.values())
    assert len(set(found)) == len(found)
    changes = {
        "source": (None, replace(SOURCE, time="left"), replace(SOURCE, identifier="name")),
        "grid": (TimeGrid(start="2024-03-30", step="1h", size=48, zone="UTC"),),
        "participation_cap": (5,),
        "step_cap": (2,),
        "gap": (2,),
        "excess": ("l2", "l1"),
        "unit": (Unit(replaced=True), Unit(individuals=2), Unit(period=Period("1d", "Europe/Berlin"))),
    }
    for name, values in changes.items():
        for value in values:
            other = make.changed(ONE, **{name: value})
            assert design(other) != design(ONE), name
            assert Signal(other).identifier != Signal(ONE).identifier, name
    assert design(make.changed(PANEL, source=replace(BY, by="place"))) != design(PANEL)
    by_scale = [make.changed(ONE, tiers=Tiers(ends=(4, 9), share=part)) for part in (0.3, 0.5)]
    whole = {design(count, p=1.0) for count in (*by_scale, ONE, make.changed(ONE, excess="l2"))}
    assert len(whole) == 4
    flat = {field.name for kind in (Count, Reading) for field in fields(kind)} - {"reading", "weighting"}
    others = {"panel", "key_cap", "once_over", "per", "grouping"}  # of DESIGNS
    assert set(changes) | others == flat | {"participation_cap", "excess"}
    assert {design(ONE, p=0.5), design(ONE, scale=3.0), design(ONE, sampling="stratified")}.isdisjoint({design(ONE)})


def test_the_loss_is_of_the_caps_and_the_stages_alone():
    for individuals, replaced in ((1, False), (2, False), (1, True)):
        unit = Unit(individuals=individuals, replaced=replaced)
        made = design(Signal(make.changed(ONE, step_cap=2, gap=3, unit=unit), (KERNELS[0],)))
        influence = count_influence(3 * individuals, participation_cap=4, step_cap=2, size=48, replaced=replaced, gap=3)
        law = extremal_law(filtered_influence(influence, KERNELS[0]), 0.25, 48)
        assert made.loss(3).epsilon(1e-6) == law.at(3.5).epsilon(1e-6)
    # Another month, or another column, is accounted for once.
    later = TimeGrid(start="2025-03-01", step="1h", size=48, zone="UTC")
    assert design(ONE).law() is design(make.changed(ONE, source=replace(SOURCE, time="left"), grid=later)).law()
    assert design(ONE).law() is not design(make.changed(ONE, gap=2)).law()


def test_a_cap_is_said_as_it_is():
    said = {name: DESIGNS[name].count.words() for name in ("one series", "terms", "scaled", "scaled in ℓ1", "in tiers")}
    assert said == {
        "one series": "at most 4 steps",
        "terms": "at most 1 step",
        "scaled": "every step (in more than 4, for less in each: in 16, for half)",
        "scaled in ℓ1": (
            "every step (with 2 in each: in more than 4, for less; in 8, for half; with fewer in each, in more steps)"
        ),
        "in tiers": "every step",
    }
    # Of several events in a step, the cap is on their norm: 40 steps of one are below 10 of five.
    several = make.changed(ONE, step_cap=5, participation_cap=10, excess="l2")
    assert several.weighting.weights(several.reading).ends == (10 * 5**2,)
    with_five = (
        "every step (with 5 in each: in more than 10, for less; in 40, for half; with fewer in each, in more steps)"
    )
    assert several.words() == with_five
    minutes = make.changed(several, source=replace(SOURCE, value="minutes"), excess="l1")
    with_less = (
        "every step (with 5 in each: in more than 10, for less; in 20, for half; with less in each, in more steps)"
    )
    assert minutes.words() == with_less
    assert DESIGNS["people by key"].count.words() == "at most 2 keys"
    assert DESIGNS["everybody by key"].count.words() == "every key"
    assert DESIGNS["everybody by key"].count.keys[0] == "a (up to 2 keys)"


def test_series_at_scales_are_those_of_each_key_at_each_scale():
    count = DESIGNS["panel in tiers"].count
    assert count.keys == (
        *("a (up to 4 steps)", "b' (up to 4 steps)", "c (up to 4 steps)"),
        *("a (any number of steps)", "b' (any number of steps)", "c (any number of steps)"),
    )
    assert (count.series, count.size) == (6, 6 * 48)
    assert DESIGNS["in tiers"].count.keys == ("up to 4 steps", "up to 9 steps", "any number of steps")


def test_periods_are_as_long_as_they_are():
    # 30 and 31 March, of which the second has 23 hours.
    within = make.changed(ONE, participation_cap=40, unit=Unit(period=Period("1d", "Europe/Berlin")))
    assert within.period_lengths().tolist() == [24, 23, 1]
    assert [Signal(within).influence(periods=k).l0 for k in (1, 2, 3, 9)] == [24, 47, 48, 48]
    assert within.reading.period_span is not None
    assert make.changed(within, source=None).reading.period_span is None
    refuses("periods", design(ONE).loss, periods=2)


def test_nothing_of_it_can_be_changed():
    for value in (ONE, SOURCE, Unit(), Signal(ONE), design(ONE)):
        with pytest.raises(FrozenInstanceError):
            value.participation_cap = 40


def test_what_is_not_known_is_not_stated():
    unknown = design(UnknownSignal(48))
    assert (unknown.signal.size, unknown.signal.kernels) == (48, ())
    for ask in (unknown.loss, unknown.to_dict, unknown.python, lambda: unknown.count, lambda: unknown.unit):
        refuses("this signal", ask)
    for source in (None, replace(SOURCE, exact=True)):
        refuses(r"event_log_domain\(…\) only", design(make.changed(ONE, source=source)).python)
    # Of a unit that no distance between event logs has, the call would be that of another unit.
    refuses(r"the call.*2", design(make.changed(ONE, unit=Unit(individuals=2))).python)


@pytest.mark.parametrize(("act", "message"), [
    (lambda: make.changed(ONE, key_cap=1), "key_cap"),
    (lambda: make.changed(PANEL, key_cap=0), "key_cap"),
    (lambda: make.changed(ONE, unit=Unit(individuals=3)), "individuals of the unit"),
    (lambda: Source(identifier="id", time="t", by="id"), "by"),
    (lambda: make.changed(ONE, source=BY), r"by.*'site'"),
    (lambda: make.changed(PANEL, source=SOURCE), "by"),
    (lambda: make.changed(ONE, source=Source(identifier="id")), r"time.*48"),
    (lambda: make.changed(ONE, panel=(), source=BY), "panel"),
    (lambda: make.changed(ONE, panel=("a", 1), source=BY), "keys of the panel"),
    (lambda: make.changed(ONE, panel=("a", "a"), source=BY), "keys of the panel"),
    (lambda: make.changed(ONE, unit=Unit(period=Period("1d", "Asia/Tokyo"))), "zone|period"),
    (
        lambda: make.changed(DESIGNS["people"].count, unit=Unit(period=Period(1))),
        "period",
    ),
    (lambda: limit_steps(4, excess="scale"), r"excess.*'scale'.*'downweight'.*'drop'"),
    (lambda: limit_steps(4, excess="drop", norm="l1"), r"norm.*'l1'.*'downweight'"),
    (lambda: limit_steps(4, excess="downweight", norm="linf"), r"norm.*'linf'.*'l2'.*'l1'"),
    (lambda: limit_steps(0, excess="drop"), "participation_cap"),
    (lambda: make.changed(ONE, tiers=Tiers(ends=(4, 48))), "ends of tiers"),
    (lambda: make.changed(PANEL, tiers=Tiers(ends=(4, 96))), "ends of tiers"),
    (lambda: make.changed(ONE, tiers=Tiers(ends=(4, 8)), gap=6), "ends of tiers"),
    (lambda: make.changed(DESIGNS["people on a grid"].count, excess="l2"), "^step_cap, key_cap, groups and per"),
    (lambda: make.changed(DESIGNS["people on a grid"].count, step_cap=2), "step_cap, key_cap, groups and per must"),
    (lambda: make.changed(DESIGNS["people by key"].count, key_cap=1), "step_cap, key_cap, groups and per must"),
    (
        lambda: make.changed(DESIGNS["everybody by key"].count, tiers=Tiers(ends=(5,))),
        "ends of tiers",
    ),
    (lambda: make.changed(ONE, once_over=TERMS), "grid"),
    (lambda: make.changed(ONE, per=TERMS, excess="l1"), "per"),
    (lambda: make.changed(ONE, grid=DAYS, per=HOURS, excess="l1"), "per"),
    (lambda: make.changed(ONE, per=WHOLE, excess="l1", gap=49), "gap"),
    (lambda: make.changed(ONE, per=WHOLE, excess="l2"), r"per.*'l1'"),
    (lambda: make.changed(ONE, per=WHOLE, tiers=Tiers(ends=(4,))), r"per.*'l1'"),
    (lambda: Signal(DESIGNS["panel in tiers"].count, (TREE,)), "tiers"),
    (lambda: Signal(ONE, (TREE,)), "totals"),
    (lambda: Signal(PANEL, (KERNELS[0], TREE)), "totals"),
    (lambda: Signal(ONE, (identity_kernel(9),)), "size of the filter"),
    (lambda: design(ONE, p=1.5), "sampling_probability"),
    (lambda: design(ONE, scale=-1.0), "scale"),
    (lambda: design(ONE, scale=float("nan")), "scale"),
    (lambda: design(ONE, sampling="systematic"), "sampling"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(act, message):
    refuses(message, act)


def test_individuals_who_are_read_once_have_no_other_limits():
    everybody = make.changed(DESIGNS["everybody by key"].count, panel=PANEL.panel, tiers=Tiers(ends=()))
    grouping = Grouping(groups=TREE, shares=(7, 5, 4))
    for limit in ({"step_cap": 2}, {"key_cap": 1}, {"grouping": grouping}, {"tiers": None, "excess": "l2"}):
        refuses("step_cap, key_cap, groups and per", make.changed, everybody, **limit)


@pytest.mark.parametrize("name", ["identifier", "time", "by"])
def test_a_column_in_place_of_its_name_is_not_quoted(name):
    for wrong in (["a secret"] * 20, np.array(["a secret"]), 7):
        with pytest.raises(TypeError, match=rf"^{name} \(") as refused:
            replace(BY, **{name: wrong})
        assert "a secret" not in str(refused.value)
