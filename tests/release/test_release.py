"""A release is its own record: made from what ran, read back strictly, and a loss stated too low is found out."""

import copy
import dataclasses
import functools
import json
import math
import pickle
import random
import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries import Release
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.signal import UnknownSignal
from tests import make
from tests.refused import refuses
from tests.release.made import GRID, LOG, SMOOTH, behind, count, released
from tests.releases import panel, release_of

COARSE = ts.gaussian_kernel(48, 2, resolution_bits=12), ts.boxcar_kernel(48, 3, resolution_bits=10)
BY_PLACE = {"by": "place", "keys": ["a", "b", "c"]}
VIEWS = {
    "zCDP": {"failure_probability": 1e-6},
    "(ε, δ)": {"delta": 1e-6},
    "Rényi": {"output_measure": dp.renyi_divergence()},
    "profile": {"output_measure": dp.smoothed_max_divergence()},
}


def day(*, replaced=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        return ts.period_distance("1d", zone="UTC", replaced=replaced)


def people(**more):
    space = make.space()
    return space >> ts.then_individual_count(**more)


CHAINS = {
    "count": count,
    "filter": lambda: count() >> ts.then_circulant_filter(SMOOTH),
    "two filters": lambda: count() >> ts.then_circulant_filter(COARSE[0]) >> ts.then_circulant_filter(COARSE[1]),
    "replaced": lambda: count(dp.change_one_distance()),
    "within a day": lambda: count(day()),
    "within a day, replaced, gap": lambda: count(day(replaced=True), gap=3) >> ts.then_circulant_filter(SMOOTH),
    "panel": lambda: count(**BY_PLACE),
    "filtered panel": lambda: count(**BY_PLACE) >> ts.then_circulant_filter(COARSE[0]),
    "totals": lambda: count(**BY_PLACE, key_cap=1) >> ts.then_totals({"all": {"x": ["a", "b"], "y": ["c"]}}),
    "filtered totals": lambda: (
        count(**BY_PLACE, key_cap=2) >> ts.then_totals({"all": ["a", "b", "c"]}) >> ts.then_circulant_filter(SMOOTH)
    ),
    "gap": lambda: count(gap=6) >> ts.then_circulant_filter(SMOOTH),
    "gap, replaced": lambda: count(dp.change_one_distance(), gap=6) >> ts.then_circulant_filter(COARSE[0]),
    "gap in a panel": lambda: count(**BY_PLACE, gap=6) >> ts.then_circulant_filter(COARSE[0]),
    "every step of one individual": lambda: count(participation_cap=10**9, step_cap=2**40),
    "people": people,
    "people by place, on a grid": lambda: people(**BY_PLACE, key_cap=2, grid=GRID),
}


def points_of(measurement, distance, release):
    """What the privacy map says, at the points where a release says it."""
    loss = measurement.map(distance)
    if isinstance(loss, tuple):
        return (loss,)
    at = loss if callable(loss) else loss.delta
    return tuple((where, at(where)) for where, _ in release.stated.loss)


# --- What ran is what is stated ---


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("name", "view"),
    [  # each chain in one view, and all of them in the long form
        pytest.param(name, view, marks=[] if (k - j) % len(VIEWS) == 0 else pytest.mark.long)
        for k, name in enumerate(CHAINS)
        for j, view in enumerate(VIEWS)
    ],
)
def test_the_loss_is_that_of_the_measurement_that_ran(name, view):
    p = 1.0 if "people" in name else 0.3  # one number is kept, or not
    measurement = behind(CHAINS[name](), p=p, **VIEWS[view])
    release = measurement(LOG)
    for distance in (1, 3):
        stated = release.at_distance(distance) if distance > 1 else release
        assert stated.stated.loss == points_of(measurement, distance, release)
        again = Release.from_json(stated.to_json())
        assert again == stated
        assert hash(again) == hash(stated)
        assert again.design == release.design
        assert again.verify() == stated.stated.loss
        assert again.to_json() == stated.to_json()


def test_counts_made_elsewhere_say_that_the_caps_are_assumed():
    for metric in (dp.symmetric_distance(), dp.change_one_distance()):
        space = ts.count_signal_domain(48), metric
        measurement = behind(space >> ts.then_assume_participation(participation_cap=5, grid=GRID))
        release = measurement(np.arange(48))
        assert release.stated.loss == (measurement.map(1),)
        assert release.grid == GRID
        assert release.design.count.reading.is_assumed
        assert release.guarantee().endswith("assuming at most 5 steps of each")
        assumed = space >> ts.then_assume_participation(participation_cap=5, gap=3, grid=GRID)
        apart = Release.from_json(behind(assumed)(np.arange(48)).to_json())
        assert apart.guarantee().endswith("assuming at most 5 steps of each, at least 3 apart")


def test_a_release_at_another_distance_is_of_no_whole():
    part, _ = ts.make_composition([behind(count())] * 2, delta=1e-6)(LOG)
    assert part.stated.parent is not None
    several = part.at_distance(3)
    assert several.stated.parent is None
    assert "3 individuals added or removed" in several.guarantee()
    assert several != part
    for wrong in (0, -1, 1.5, True):
        refuses("distance", part.at_distance, wrong, error=(TypeError, ValueError))


def test_nothing_is_stated_where_nothing_is_known():
    unknown = behind(count() >> ts.then_lp_distance(dp.l2_distance(T=float)))(LOG)
    part = behind(count(**BY_PLACE))(LOG).by_key()["a"]
    for release, message in (
        (unknown, "this signal"),
        (release_of(steps=[2], values=[1.0], signal=48), "this signal"),
        (part, "this release"),
        (behind(count(), scale=0.0)(LOG), "scale"),
        (behind(count(), scale=1e-200)(LOG), "scale"),
    ):
        for ask in (release.guarantee, release.verify, release.to_json, lambda release=release: release.at_distance(2)):
            refuses(message, ask)
    assert part.design.count.cap == 5  # the caps of the whole panel


def test_the_document_says_everything():
    document = json.loads(released().to_json())
    assert document["guarantee"].endswith("for one individual added or removed")
    assert document["software"].keys() == {"python", "opendp_timeseries", "opendp", "numpy", "scipy"}
    made = document["design"]["count"]
    assert made["reading"]["source"] == {"identifier": "id", "time": "time", "by": None, "exact": False}
    assert (made["reading"]["grid"]["start"], made["reading"]["step_cap"]) == ("2013-01-01T00:00Z", 2)
    assert made["weighting"] == {"drop": {"cap": 5}}


WEEKS = np.arange("2012-12-31", "2014-01-01", 7, dtype="M8[D]")
GRIDS = {
    "days": ts.TimeGrid(start="2013-01-01", end="2014-01-01", step="1d", zone="America/New_York"),
    "months": ts.TimeGrid(start="2013-01-01", size=12, step="1mo", zone="Europe/London"),
    "terms": ts.TimeGrid.from_edges(["2012-09-03", "2013-01-07", "2013-04-15"], zone="Europe/London"),
    "all but one week": ts.TimeGrid.from_edges(np.delete(WEEKS, 8), zone="Asia/Kathmandu"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids_of_the_calendar_come_back_exactly(name):
    release = behind(count(grid=GRIDS[name]), p=1.0)(LOG)
    again = Release.from_json(release.to_json())
    assert again.grid == release.grid == GRIDS[name]
    assert again.grid.edges().tolist() == GRIDS[name].edges().tolist()
    assert again == release


def test_what_is_printed_is_not_below_what_is_claimed():
    release = released()
    printed = release.guarantee().split("ε = ")[1].split(",")[0]
    assert float(printed) >= release.stated.loss[0][0]


# --- It is a value ---

RELEASE = release_of(steps=[2, 7], values=[9.0, -4.25], signal=10, scale=1.5)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": [2, 8]},
        {"values": [9.0, 4.25]},
        {"design": dataclasses.replace(RELEASE.design, signal=UnknownSignal(11))},
        {"design": dataclasses.replace(RELEASE.design, scale=1.0)},
        {"design": dataclasses.replace(RELEASE.design, sampling=Sampling(probability=0.2))},
        {"statement": released().statement},
    ],
)
def test_equality_is_over_every_field(change):
    assert dataclasses.replace(RELEASE, **change) != RELEASE
    assert hash(dataclasses.replace(RELEASE)) == hash(RELEASE)
    assert dataclasses.replace(RELEASE) == RELEASE


def test_a_release_is_not_equal_to_one_that_states_another_loss():
    release = released()
    ((epsilon, delta),) = release.stated.loss
    for loss in (((epsilon / 2, delta),), ((epsilon * 2, delta),)):
        other = dataclasses.replace(release, statement=dataclasses.replace(release.statement, loss=loss))
        assert other != release
        assert hash(other) == hash(release)


def test_it_cannot_be_changed():
    for frozen in (RELEASE, RELEASE.design, released().stated):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.scale = 0.0
    with pytest.raises(ValueError, match="read-only"):
        RELEASE.values[0] = 0.0
    source = np.array([1.0, 2.0])
    release = dataclasses.replace(RELEASE, values=source)
    source[0] = 99.0
    assert release.values[0] == 1.0


def test_a_copy_cannot_be_changed_either():
    for release in (RELEASE, released(), behind(count(**BY_PLACE))(LOG)):
        for other in (copy.deepcopy(release), pickle.loads(pickle.dumps(release))):
            assert other == release
            assert hash(other) == hash(release)
            with pytest.raises(ValueError, match=r"WRITEABLE|read-only|writeable"):
                other.values.flags.writeable = True


def test_minus_zero_is_zero():
    plus, minus = (dataclasses.replace(RELEASE, values=[0.0, zero]) for zero in (0.0, -0.0))
    assert plus == minus
    assert hash(plus) == hash(minus)


def test_no_kept_step_is_an_ordinary_release():
    empty = dataclasses.replace(released(p=0.01), steps=[], values=[])
    assert len(empty) == 0
    assert Release.from_json(empty.to_json()) == empty


# --- Panels ---


def test_a_panel_comes_apart_by_key():
    whole = panel(["b", "a", "c"], steps=[0, 3, 4, 11], values=[1.0, 2.0, 3.0, 4.0], size=12)
    parts = whole.by_key()
    assert list(parts) == ["b", "a", "c"] == list(whole.keys)
    assert list(parts.values()) == whole.parts()
    assert [part.steps.tolist() for part in whole.parts()] == [[0, 3], [0], [3]]
    assert [part.values.tolist() for part in whole.parts()] == [[1.0, 2.0], [3.0], [4.0]]
    for part in whole.parts():
        assert (part.size, part.grid, part.keys, part.scale) == (4, ts.TimeGrid(size=4), None, whole.scale)
        assert part.parts() == [part]


def test_the_keys_are_those_of_the_count():
    release = behind(count(by="place", keys=["b", "a"]), scale=1e-6, p=1.0)(LOG)
    parts = release.by_key()
    assert np.flatnonzero(np.rint(parts["b"].values)).tolist() == [34]
    assert np.flatnonzero(np.rint(parts["a"].values)).tolist() == [0, 36]
    assert Release.from_json(release.to_json()).keys == ("b", "a")


# --- What is stated too low is found out ---


@functools.cache
def text():
    return released().to_json()


def doc():
    return json.loads(text())


def at(*path):
    """Return what sets a place in a document to a value."""

    def put(document, value):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return put


LOSS, READ = ("statement", "loss", 0), ("design", "count", "reading")
CAP = ("design", "count", "weighting", "drop", "cap")
UNDERSTATEMENTS = {
    "a loss": ((*LOSS, 0), lambda loss: 0.01),
    "a loss by a thousandth": ((*LOSS, 0), lambda loss: loss * 0.999),
    "a loss by a millionth": ((*LOSS, 0), lambda loss: loss * (1 - 1e-6)),
    "the delta": ((*LOSS, 1), lambda delta: 1e-7),
    "the delta by a millionth": ((*LOSS, 1), lambda delta: delta * (1 - 1e-6)),
    "no loss": ((*LOSS, 0), lambda loss: -1.0),
    "a larger cap": (CAP, lambda cap: cap + 1),
    "a larger step cap": ((*READ, "step_cap"), lambda cap: cap + 1),
    "replaced": ((*READ, "unit", "replaced"), lambda replaced: True),
    "two for one": ((*READ, "unit", "individuals"), lambda individuals: 2),
    "two individuals": (("statement", "distance"), lambda distance: 2),
    "no filter": (("design", "stages"), lambda stages: []),
    "less noise": (("design", "scale"), lambda scale: scale * 0.97),
    "more sampling": (("design", "sampling", "probability"), lambda p: p + 0.1),
    "another delta": (("statement", "view", "delta"), lambda delta: 1e-7),
    "two points": (("statement", "loss"), lambda loss: loss * 2),
}


@pytest.mark.parametrize("name", UNDERSTATEMENTS)
def test_each_understatement_is_found_out(name):
    document = doc()
    path, change = UNDERSTATEMENTS[name]
    value = document
    for key in path:
        value = value[key]
    at(*path)(document, change(value))
    assert document != doc()
    refuses("values" if name == "no filter" else "loss", lambda: Release.from_dict(document).verify())


def test_a_gap_a_key_cap_and_a_period_that_were_not_kept_are_found_out():
    for chain, path, wrong in (
        (count(gap=6) >> ts.then_circulant_filter(SMOOTH), (*READ, "gap"), 1),
        (count(**BY_PLACE, key_cap=1) >> ts.then_totals({"all": ["a", "b", "c"]}), (*READ, "key_cap"), None),
        (count(day(), participation_cap=30), (*READ, "unit", "period"), None),
    ):
        document = behind(chain)(LOG).to_dict()
        at(*path)(document, wrong)
        refuses("loss", Release.from_dict(document).verify)


def restated(release, loss):
    return dataclasses.replace(release, statement=dataclasses.replace(release.statement, loss=loss))


def test_losses_that_are_no_losses_are_found_out():
    for loss in (((math.nan, 1e-6),), ((10.0, math.nan),)):
        refuses("loss", restated(released(), loss).verify)


def test_rounding_and_overstating_are_allowed():
    release = released()
    ((epsilon, delta),) = release.stated.loss
    for stated in (epsilon * (1 - 1e-12), epsilon * 2):  # the last digits may differ between machines
        assert restated(release, ((stated, delta),)).verify() == release.stated.loss


def test_points_of_a_curve_cannot_be_shifted():
    release = released(**VIEWS["Rényi"])
    shifted = tuple((order * 2, divergence) for order, divergence in release.stated.loss)
    refuses("loss", restated(release, shifted).verify)


# --- What cannot have been drawn is refused ---


@pytest.mark.parametrize(("kept", "p"), [(3, 0.0), (48, 2.0**-53), (47, 1.0), (0, 0.9), (48, 0.3), (20, 0.001)])
def test_steps_that_cannot_have_been_kept_are_refused(kept, p):
    document = doc() | {"steps": list(range(kept)), "values": [0.5] * kept}
    document["design"]["sampling"]["probability"] = p
    refuses(f"{kept} of 48 steps", Release.from_dict(document).verify)


def test_improbable_counts_are_refused_by_their_tail_alone():
    # Of 48 steps at p = 1/2, at most 1 is kept with probability 49/2**48 = 1.7e-13, at most 2 with 4.2e-12.
    release = released(p=0.5)
    for kept, refused in ((1, True), (2, False), (46, False), (47, True)):
        drawn = dataclasses.replace(release, steps=np.arange(kept), values=np.resize(release.values, kept))
        if refused:
            refuses(r"1 of 48 steps|47 of 48 steps", drawn.verify)
        else:
            assert drawn.verify() == release.stated.loss


def test_steps_that_blocks_cannot_keep_are_found_out():
    # 48 steps in blocks of five: nine full ones, and one of three.
    release, full = behind(count(), p=0.2, sampling="stratified")(LOG), list(range(2, 45, 5))
    assert len(release.steps) in (9, 10)
    assert release.verify() == release.stated.loss
    assert Release.from_json(release.to_json()).sampling.stratified
    for steps, possible in [(full, True), ([*full, 46], True), (full[1:], False), ([*full, 45, 47], False),
                            ([1, *full], False), ([0, 1, *full[2:]], False)]:  # fmt: skip
        drawn = dataclasses.replace(release, steps=np.array(steps), values=np.resize(release.values, len(steps)))
        if possible:
            assert drawn.verify() == release.stated.loss
        else:
            refuses(r"steps.*5", drawn.verify)
    design = dataclasses.replace(release.design, sampling=Sampling(probability=0.21, stratified=True))
    refuses("sampling_probability", dataclasses.replace(release, design=design).verify)


@pytest.mark.parametrize(
    ("chain", "value", "message"),
    [
        ("count", 0.1, r"values.*2\*\*-23.*3"),
        ("count", 2.0**-24, "values"),
        ("count", math.nan, "values"),
        ("count", 1e300, "values"),
        ("count", 1.7e308, "values"),
        ("count", math.inf, "values"),
        ("count", -121.0, r"values.*0"),
        ("filter", 2.0**-27, r"values.*2\*\*-26"),
        ("filter", -121.0, r"values.*0"),
        ("signed", -1e17, r"values.*-9.0"),
    ],
)
def test_values_that_noise_cannot_have_given_are_refused(chain, value, message):
    signed = ts.Kernel.from_taps([1.0, -0.5] + [0.0] * 46)
    signal = count() >> ts.then_circulant_filter(signed) if chain == "signed" else CHAINS[chain]()
    release = behind(signal, p=1.0)(LOG)
    assert release.verify()
    refuses(message, dataclasses.replace(release, values=[value, *release.values[1:]]).verify)


@pytest.mark.parametrize(("scale", "values"), [
    (3.0, np.zeros(48)), (3.0, np.arange(48.0)), (3.0, 2.0 * np.arange(48)),  # of which one is of counts
    (3.0, np.arange(48) / 10 // 2.0**-20 * 2.0**-20), (1e9, 1024 * np.arange(48.0)),
])  # fmt: skip
def test_values_without_noise_are_refused(scale, values):
    # Noise lies on every point of its grid, but for its probability, whatever was counted.
    release = behind(count(), scale=scale, p=1.0)(LOG)
    assert release.verify()
    refuses("values", dataclasses.replace(release, values=values).verify)


def test_values_on_a_coarser_grid_are_refused_by_their_probability_alone():
    # Half of the points are even: 39 times with probability 1.8e-12, 40 times with 9e-13. One value may well be zero.
    release = behind(count(), p=0.8)(LOG)
    for kept, refused in ((39, False), (40, True)):
        even = dataclasses.replace(release, steps=np.arange(kept), values=2.0**-22 * (2 * np.arange(kept) + 1))
        if refused:
            refuses(r"values.*3", even.verify)
        else:
            assert even.verify() == release.stated.loss
    alone = behind(count(), p=0.02)(LOG)
    for steps, refused in (([7], False), ([7, 9], True)):
        zero = dataclasses.replace(alone, steps=steps, values=np.zeros(len(steps)))
        if refused:
            refuses("values", zero.verify)
        else:
            assert zero.verify() == alone.stated.loss
    # Beside large numbers, floats hold no fine noise.
    large = behind(count(), scale=1e-3, p=1.0)(LOG)
    assert dataclasses.replace(large, values=2.0**45 + np.arange(48.0)).verify() == large.stated.loss


def test_values_that_noise_may_have_given_are_not_refused():
    for scale in (1e-6, 0.7, 3.0, 1e9, 1e17):
        for chain in ("count", "filter", "two filters"):
            assert behind(CHAINS[chain](), scale=scale, p=1.0)(LOG).verify()
    release = behind(count(), p=1.0)(LOG)
    for value in (-119.0, 2.0**53, 12.5, -0.0):  # 2**53 is where counts end
        assert dataclasses.replace(release, values=[value, *release.values[1:]]).verify()


# --- What is no release is refused ---


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (lambda edges: edges[::-1], "ascend"),
        (lambda edges: [edges[0], 7, *edges[2:]], r"edges.*\[1\]"),
        (lambda edges: 7, "edges"),
    ],
)
def test_other_edges_are_refused_by_name(edges, message):
    document = behind(count(grid=GRIDS["terms"]), p=1.0)(LOG).to_dict()
    grid = document["design"]["count"]["reading"]["grid"]
    grid["edges"] = edges(grid["edges"])
    refuses(message, Release.from_json, json.dumps(document))


def paths(node, path=()):
    """Every place in a document, deepest first."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))
        yield (*path, key)


@pytest.mark.parametrize("path", sorted({path for path in paths(doc()) if isinstance(path[-1], str)} - {("format",)}))
def test_a_missing_part_is_named(path):
    document = doc()
    node = document
    for key in path[:-1]:
        node = node[key]
    if path[0] == "software" and len(path) > 1:
        del node[path[-1]]
        assert Release.from_json(json.dumps(document)) == Release.from_dict(document)  # it is free
        return
    del node[path[-1]]
    refuses(rf"'{path[-1]}' that is missing|{path[-1]}", Release.from_json, json.dumps(document))


def test_keys_that_are_there_twice_and_numbers_that_are_not_finite_are_refused():
    text = released().to_json()
    refuses("the document", Release.from_json, text.replace('"distance": 1,', '"distance": 9, "distance": 1,'))
    for word in ("NaN", "Infinity", "1e999"):
        refuses("the document", Release.from_json, text.replace('"scale": 3.0', f'"scale": {word}'))
    refuses("the (document|text)", Release.from_json, "[" * 100_000)
    refuses("the text", Release.from_json, text[:-1])
    assert Release.from_json("\ufeff" + text) == Release.from_json(text)  # as some editors write it


STRANGE = (
    None, True, False, 0, 1, -1, 2, 0.5, 1.5, 1e-300, 1e300, 1.7e308, 2**63, 2**70, 10**400, "", "1", "no", "all",
    [], {}, [[]], [1, 2],
)  # fmt: skip


def edited(document, rng):
    document = copy.deepcopy(document)
    path = rng.choice(list(paths(document)))
    node = document
    for key in path[:-1]:
        node = node[key]
    value = node[path[-1]]
    how = rng.randrange(4)
    if how == 0:
        if isinstance(node, list):
            del node[path[-1]]
        else:
            node.pop(path[-1])
    elif how == 1 and type(value) in (int, float):
        node[path[-1]] = value * rng.choice((0, 0.5, 0.999, 1.001, 2, -1)) + rng.choice((0, 1, 1e-9))
    elif how == 2 and type(value) is int:
        node[path[-1]] = value + rng.choice((-1, 1, 2, 10))
    else:
        node[path[-1]] = rng.choice(STRANGE)
    return document


def survives(document):
    """The release of a document, or None where it is refused; nothing but ValueError may refuse."""
    try:
        release = Release.from_json(json.dumps(document))
        release.verify()
    except ValueError:
        return None
    return release


@pytest.mark.parametrize("runs", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_random_edits_are_refused_or_state_no_less_than_the_truth(runs):
    rng = random.Random(9)
    whole = ts.make_composition([behind(count(day(), **BY_PLACE, key_cap=1))] * 2, failure_probability=1e-6)
    documents = [
        doc(),
        behind(count(**BY_PLACE) >> ts.then_circulant_filter(COARSE[1]), failure_probability=1e-6)(LOG).to_dict(),
        whole(LOG)[0].to_dict(),
        behind(count(gap=2, grid=GRIDS["days"]), p=0.2, sampling="stratified")(LOG).to_dict(),
    ]
    refused = 0
    for _ in range(runs):
        document = edited(rng.choice(documents), rng)
        release = survives(document)
        if release is None:
            refused += 1
            continue
        signal, stated = release.design.signal, release.stated
        law = extremal_law(
            signal.influence(stated.distance), release.sampling_probability, signal.size, release.sampling.name
        )
        truth = stated.view.points(law.at(release.scale))
        for point, right in zip(stated.loss, truth, strict=True):
            assert all(s >= r * (1 - 1e-8) for s, r in zip(point, right, strict=True)), document
        assert release.guarantee()
    assert refused > runs / 2
