"""A design is all that decides a release: it comes back from its document and its call, and its loss is its own."""

import json
import warnings
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.count import Count, Source
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.scales import Scales
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from opendp_timeseries.plugin.known import stated_designs

HOURS = TimeGrid(start="2024-03-30", step="1h", size=48, zone="Europe/Berlin")
WHOLE = TimeGrid.from_edges([HOURS.start, HOURS.end], zone="Europe/Berlin")
DAYS = TimeGrid.from_edges(["2024-03-30", "2024-03-31", "2024-04-01", HOURS.end], zone="Europe/Berlin")
TERMS = TimeGrid.from_edges(["2012-09-03", "2013-01-07", "2013-04-15"], zone="Europe/London")
SOURCE = Source(identifier='card\'s "id"', time="when")
BY = replace(SOURCE, by="site")
ONE = Count(source=SOURCE, grid=HOURS, participation_cap=4)
PANEL = replace(ONE, source=BY, panel=("a", "b'", "c"), key_cap=2)
TREE = Groups.of({"all": {"x": ["a", "b'"], "y": ["c"]}}, PANEL.panel)
KERNELS = [
    ts.gaussian_kernel(48, 1.5, resolution_bits=12),
    ts.boxcar_kernel(48, 3, resolution_bits=20),
    ts.exponential_kernel(48, 0.3),
    ts.identity_kernel(48),
    ts.kernel_from_taps([0.5, -0.25] + [0.0] * 46),
    ts.gaussian_kernel(48, 1.5).convolve(ts.boxcar_kernel(48, 5)),
]


def design(signal, p=0.25, scale=3.5, sampling="poisson"):
    signal = Signal(signal) if isinstance(signal, Count) else signal
    return Design(signal=signal, sampling_probability=p, sampling=sampling, scale=scale)


DESIGNS = {
    "one series": design(ONE),
    "every cap": design(replace(ONE, step_cap=3, gap=5)),
    "blocks": design(ONE, sampling="stratified"),
    "integer steps": design(replace(ONE, grid=TimeGrid(size=9))),
    "terms": design(replace(ONE, grid=TERMS, participation_cap=1), p=1.0),
    "replaced": design(replace(ONE, unit=Unit(replaced=True))),
    "within a day": design(replace(ONE, unit=Unit(period=Period("1d", "Europe/Berlin")))),
    "within steps, replaced": design(replace(ONE, grid=TimeGrid(size=9), unit=Unit(replaced=True, period=Period(3)))),
    "panel": design(PANEL),
    "panel of numbers": design(replace(PANEL, panel=(3, 1), key_cap=None)),
    "totals": design(Signal(PANEL, (TREE,))),
    "filtered totals": design(Signal(PANEL, (TREE, KERNELS[0]))),
    "people": design(Count(source=Source(identifier="id"), grid=TimeGrid(size=1), participation_cap=1), p=1.0),
    "people in the column time": design(
        Count(source=Source(identifier="time"), grid=TimeGrid(size=1), participation_cap=1), p=1.0
    ),
    "people on a grid": design(
        Count(
            source=SOURCE,
            grid=WHOLE,
            participation_cap=1,
            pooled=HOURS,
        ),
        p=1.0,
    ),
    "people by key": design(
        Count(source=Source(identifier="id", by="site"), grid=TimeGrid(size=1), participation_cap=2, panel=("a", "b")),
        p=1.0,
    ),
    "scaled": design(replace(ONE, excess="scale")),
    "scaled in ℓ1": design(replace(ONE, excess="scale_l1", step_cap=2)),
    "total": design(replace(ONE, grid=WHOLE, pooled=HOURS, excess="scale_l1"), p=1.0),
    "totals over time": design(replace(ONE, grid=DAYS, pooled=HOURS, excess="scale_l1", gap=30), p=1.0),
    "totals of integer steps": design(
        replace(ONE, grid=TimeGrid(size=3), pooled=TimeGrid(size=9), excess="scale_l1", unit=Unit(period=Period(3)))
    ),
    "totals in a day, of groups": design(
        Signal(
            replace(PANEL, grid=DAYS, pooled=HOURS, excess="scale_l1", unit=Unit(period=Period("1d", "Europe/Berlin"))),
            (TREE,),
        )
    ),
    "scaled, apart, filtered": design(Signal(replace(ONE, excess="scale", gap=6), (KERNELS[0],))),
    "scaled totals": design(Signal(replace(PANEL, excess="scale"), (TREE,))),
    "at scales": design(replace(ONE, excess="scale", scales=Scales(ends=(4, 9)), step_cap=2), p=1.0),
    "at one scale": design(replace(ONE, excess="scale", participation_cap=48, scales=Scales(ends=())), p=1.0),
    "panel at scales": design(replace(PANEL, excess="scale", scales=Scales(ends=(4,), share=0.5)), p=1.0),
} | {f"filter {k}": design(Signal(ONE, (kernel,))) for k, kernel in enumerate(KERNELS)}


def columns(count):
    """A log in which two people are, whatever its columns are called."""
    time = np.arange(2) if count.grid.is_integer and count.pooled is None else count.grid.instants()[:1].repeat(2)
    log = {count.source.time or "time": time, count.source.identifier: np.arange(2)}
    return log | ({count.source.by: np.array([count.panel[0]] * 2)} if count.source.by else {})


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
        "pooled": (TERMS,),
        "excess": ("scale", "scale_l1"),
        "unit": (Unit(replaced=True), Unit(individuals=2), Unit(period=Period("1d", "Europe/Berlin"))),
    }
    for name, values in changes.items():
        for value in values:
            other = replace(ONE, **{name: value})
            assert design(other) != design(ONE), name
            assert Signal(other).identifier != Signal(ONE).identifier, name
    assert design(replace(PANEL, source=replace(BY, by="place"))) != design(PANEL)
    by_scale = [replace(ONE, excess="scale", scales=Scales(ends=(4, 9), share=part)) for part in (0.3, 0.5)]
    whole = {design(count, p=1.0) for count in (*by_scale, ONE, replace(ONE, excess="scale"))}
    assert len(whole) == 4
    assert set(changes) | {"panel", "key_cap", "scales"} == {field.name for field in fields(Count)}
    assert {design(ONE, p=0.5), design(ONE, scale=3.0), design(ONE, sampling="stratified")}.isdisjoint({design(ONE)})


def test_the_loss_is_of_the_caps_and_the_stages_alone():
    for individuals, replaced in ((1, False), (2, False), (1, True)):
        unit = Unit(individuals=individuals, replaced=replaced)
        made = design(Signal(replace(ONE, step_cap=2, gap=3, unit=unit), (KERNELS[0],)))
        influence = count_influence(3 * individuals, participation_cap=4, step_cap=2, size=48, replaced=replaced, gap=3)
        law = extremal_law(filtered_influence(influence, KERNELS[0]), 0.25, 48)
        assert made.loss(3).epsilon(1e-6) == law.at(3.5).epsilon(1e-6)
    # Another month, or another column, is accounted for once.
    later = TimeGrid(start="2025-03-01", step="1h", size=48, zone="UTC")
    assert design(ONE).law() is design(replace(ONE, source=replace(SOURCE, time="left"), grid=later)).law()
    assert design(ONE).law() is not design(replace(ONE, gap=2)).law()


def test_a_cap_is_said_as_it_is():
    said = {
        name: DESIGNS[name].count.words() for name in ("one series", "terms", "scaled", "scaled in ℓ1", "at scales")
    }
    assert said == {
        "one series": "at most 4 steps",
        "terms": "at most 1 step",
        "scaled": "every step, by √(4/n) if in n > 4",
        "scaled in ℓ1": "every step, by 4/n if in n > 4",
        "at scales": "every step",
    }


def test_series_at_scales_are_those_of_each_key_at_each_scale():
    count = DESIGNS["panel at scales"].count
    assert count.keys == (
        *("a (up to 4 steps)", "b' (up to 4 steps)", "c (up to 4 steps)"),
        *("a (any number of steps)", "b' (any number of steps)", "c (any number of steps)"),
    )
    assert (count.series, count.size) == (6, 6 * 48)
    assert DESIGNS["at scales"].count.keys == ("up to 4 steps", "up to 9 steps", "any number of steps")


def test_periods_are_as_long_as_they_are():
    # 30 and 31 March, of which the second has 23 hours.
    within = replace(ONE, participation_cap=40, unit=Unit(period=Period("1d", "Europe/Berlin")))
    assert within.period_lengths().tolist() == [24, 23, 1]
    assert [Signal(within).influence(periods=k).l0 for k in (1, 2, 3, 9)] == [24, 47, 48, 48]
    assert within.period_span is not None
    assert replace(within, source=None).period_span is None
    with pytest.raises(ValueError, match=r"periods \(2\) must be 1, as this is for one individual"):
        design(ONE).loss(periods=2)


def test_nothing_of_it_can_be_changed():
    for value in (ONE, SOURCE, Unit(), Signal(ONE), design(ONE)):
        with pytest.raises(FrozenInstanceError):
            value.participation_cap = 40


def test_what_is_not_known_is_not_stated():
    unknown = design(UnknownSignal(48))
    assert (unknown.signal.size, unknown.signal.kernels) == (48, ())
    for ask in (unknown.loss, unknown.to_dict, unknown.python, lambda: unknown.count, lambda: unknown.unit):
        with pytest.raises(ValueError, match="not known how this signal was made"):
            ask()
    for source in (None, replace(SOURCE, exact=True)):
        with pytest.raises(ValueError, match=r"event_log_domain\(…\) only"):
            design(replace(ONE, source=source)).python()
    # Of a unit that no distance between event logs has, the call would be that of another unit.
    with pytest.raises(ValueError, match="a unit of 2 individuals"):
        design(replace(ONE, unit=Unit(individuals=2))).python()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(ONE, key_cap=1), r"key_cap \(1\) requires by= and keys="),
        (lambda: replace(PANEL, key_cap=0), r"key_cap \(0\) must be at least 1"),
        (lambda: replace(ONE, unit=Unit(individuals=3)), r"individuals of the unit \(3\) must be 1 or 2"),
        (lambda: Source(identifier="id", time="t", by="id"), "a different column"),
        (lambda: replace(ONE, source=BY), r"by \('site'\) and the keys of a panel must be given together"),
        (lambda: replace(PANEL, source=SOURCE), r"by \(None\) and the keys of a panel must be given together"),
        (
            lambda: replace(ONE, source=Source(identifier="id")),
            r"time \(None\) must name the column .* 48 steps",
        ),
        (lambda: replace(ONE, panel=(), source=BY), "panel"),
        (lambda: replace(ONE, panel=("a", 1), source=BY), "all strings or all integers"),
        (lambda: replace(ONE, panel=("a", "a"), source=BY), "must be distinct"),
        (lambda: replace(ONE, unit=Unit(period=Period("1d", "Asia/Tokyo"))), "zone|period"),
        (
            lambda: replace(DESIGNS["people"].count, unit=Unit(period=Period(1))),
            r"period \(one step\) must be left out where individuals are counted once",
        ),
        (lambda: replace(ONE, excess="scaled"), r"excess \('scaled'\) must be one of 'scale', 'scale_l1', 'drop'"),
        (lambda: replace(ONE, scales=Scales(ends=(4,))), r"require excess='scale' and the first of them"),
        (lambda: replace(ONE, excess="scale", scales=Scales(ends=(5,))), r"as participation_cap \(4\)"),
        (lambda: replace(ONE, excess="scale", scales=Scales(ends=(4, 48))), r"must be below the most steps .* \(48\)"),
        (lambda: replace(DESIGNS["people on a grid"].count, excess="scale"), "must be 'drop' where individuals are"),
        (lambda: replace(ONE, grid=TERMS, pooled=HOURS, excess="scale_l1"), "totals .* on the same clock"),
        (lambda: replace(ONE, grid=HOURS, pooled=DAYS, excess="scale_l1"), "must each be of whole steps of the grid"),
        (lambda: replace(ONE, grid=WHOLE, pooled=HOURS, excess="scale_l1", gap=49), r"gap \(49\) .* at most 48"),
        (lambda: replace(ONE, grid=WHOLE, pooled=HOURS, excess="scale"), "and 'scale_l1' for totals over its steps"),
        (lambda: Signal(DESIGNS["panel at scales"].count, (TREE,)), "nothing comes between scales of activity and"),
        (lambda: Signal(ONE, (TREE,)), "totals are of a panel"),
        (lambda: Signal(PANEL, (KERNELS[0], TREE)), "right after the count"),
        (lambda: Signal(ONE, (ts.identity_kernel(9),)), r"size of the filter \(9\) must be the grid's \(48\)"),
        (lambda: design(ONE, p=1.5), "sampling_probability"),
        (lambda: design(ONE, scale=-1.0), "scale"),
        (lambda: design(ONE, scale=float("nan")), "scale"),
        (lambda: design(ONE, sampling="systematic"), "sampling"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["identifier", "time", "by"])
def test_a_column_in_place_of_its_name_is_not_quoted(name):
    for wrong in (["a secret"] * 20, np.array(["a secret"]), 7):
        with pytest.raises(TypeError, match=rf"^{name} \(.*\) must be a string, the name of a column$") as refused:
            replace(BY, **{name: wrong})
        assert "a secret" not in str(refused.value)


def test_a_measurement_behind_another_count_does_not_chain():
    log = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    counts = [log >> ts.then_participation_count(TimeGrid(size=9), participation_cap=cap) for cap in (3, 40)]
    noise = ts.make_subsampled_gaussian(*counts[0].output_space, 3.0, sampling_probability=0.5)
    assert (counts[0] >> noise)({"id": np.arange(3), "time": np.arange(3)}).design.count.participation_cap == 3
    with pytest.raises(dp.OpenDPException, match="signal="):
        counts[1] >> noise
