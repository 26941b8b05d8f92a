"""A record is made from what ran, and read back strictly: a loss that is stated too low is found out."""

import contextlib
import copy
import dataclasses
import json
import math
import random

import numpy as np
import opendp.prelude as dp
import pytest
from opendp_timeseries.release.record import Accounting, read_document

import opendp_timeseries as ts
from opendp_timeseries import ReleaseRecord
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.accounting.subsampled import extremal_law

GRID = ts.TimeGrid(start="2013-01-01", step="1h", size=48, zone="UTC")
COARSE = ts.gaussian_kernel(48, 2, resolution_bits=12), ts.boxcar_kernel(48, 3, resolution_bits=10)
LOG = {
    "id": np.array([1, 2, 2]),
    "time": np.array(["2013-01-01T00:30", "2013-01-02T10:00", "2013-01-02T12:00"], dtype="datetime64[m]"),
    "place": np.array(["a", "b", "a"]),
}
ACCOUNTINGS = [
    {"failure_probability": 1e-6},
    {"delta": 1e-6},
    {"output_measure": dp.renyi_divergence()},
    {},
]


def count(metric=None, grid=GRID, **more):
    space = ts.event_log_domain(identifier="id", time="time"), metric or dp.symmetric_distance()
    return space >> ts.then_participation_count(grid, **{"participation_cap": 5, "step_cap": 2} | more)


def behind(signal, scale=3.0, p=0.3, **accounting):
    return signal >> ts.then_subsampled_gaussian(scale, sampling_probability=p, **accounting or {"delta": 1e-6})


def record_of(**more):
    return behind(count() >> ts.then_circulant_filter(ts.gaussian_kernel(48, std=2)), **more)(LOG).record()


def stated(measurement, distance, record):
    """What the privacy map says, at the points where a record says it."""
    loss = measurement.map(distance)
    if isinstance(loss, tuple):
        return (loss,)
    at = loss if callable(loss) else loss.delta
    return tuple((where, at(where)) for where, _ in record.loss)


# --- What ran is what is recorded ---


CHAINS = {
    "count": count,
    "filter": lambda: count() >> ts.then_circulant_filter(ts.gaussian_kernel(48, std=2)),
    "two filters": lambda: count() >> ts.then_circulant_filter(COARSE[0]) >> ts.then_circulant_filter(COARSE[1]),
    "replaced": lambda: count(dp.change_one_distance()),
    "panel": lambda: count(by="place", keys=["a", "b", "c"]),
    "filtered panel": lambda: count(by="place", keys=["a", "b"]) >> ts.then_circulant_filter(COARSE[0]),
    "gap": lambda: count(gap=6) >> ts.then_circulant_filter(ts.gaussian_kernel(48, std=2)),
    "gap, replaced": lambda: count(dp.change_one_distance(), gap=6) >> ts.then_circulant_filter(COARSE[0]),
    "gap in a panel": lambda: count(by="place", keys=["a", "b"], gap=6) >> ts.then_circulant_filter(COARSE[0]),
    "repeated": lambda: count() >> ts.then_repeat(3),
    "repeated, then filtered": lambda: count() >> ts.then_repeat(2) >> ts.then_circulant_filter(COARSE[0]),
    "repeated panel": lambda: count(by="place", keys=["a", "b"]) >> ts.then_repeat(2),
    "every step of one individual": lambda: count(participation_cap=10**9, step_cap=2**40),
}


@pytest.mark.parametrize("accounting", ACCOUNTINGS, ids=["zCDP", "(ε, δ)", "Rényi", "profile"])
@pytest.mark.parametrize("name", CHAINS)
def test_the_loss_is_that_of_the_measurement_that_ran(name, accounting):
    measurement = behind(CHAINS[name](), **accounting)
    for individuals in (1, 3):
        record = measurement(LOG).record(individuals=individuals)
        assert record.loss == stated(measurement, individuals, record)
        again = ReleaseRecord.from_json(record.to_json())
        assert again == record
        assert again.verify() == record.loss


def test_counts_made_elsewhere_say_that_the_caps_are_assumed():
    for metric in (dp.symmetric_distance(), dp.change_one_distance()):
        signal = (ts.count_signal_domain(48), metric) >> ts.then_assume_participation(participation_cap=5, grid=GRID)
        measurement = behind(signal)
        record = measurement(np.arange(48)).record()
        assert record.loss == (measurement.map(1),)
        assert record.provenance.grid == GRID
        assert record.guarantee().endswith("assuming at most 5 steps of each")
        assumed = ts.then_assume_participation(participation_cap=5, gap=3, grid=GRID)
        apart = behind((ts.count_signal_domain(48), metric) >> assumed)(np.arange(48)).record()
        assert apart.guarantee().endswith("assuming at most 5 steps of each, at least 3 apart")
        assert apart.provenance.gap == 3


def test_a_gap_that_was_not_kept_cannot_be_recorded():
    # With a gap stated that the count did not have, the loss recomputed is smaller, but the chain is another.
    smooth = ts.then_circulant_filter(ts.gaussian_kernel(48, std=2))
    space = (count() >> smooth).output_space
    made = ts.make_subsampled_gaussian(*space, 3.0, sampling_probability=0.3, delta=1e-6)
    with pytest.raises(dp.OpenDPException, match="provenance="):
        count(gap=6) >> smooth >> made
    # A record is refused if its gap is raised without its loss, which a reader recomputes.
    stated = behind(count(gap=6) >> smooth)(LOG).record()
    document = stated.to_dict()
    document["provenance"]["gap"] = 1
    with pytest.raises(ValueError, match="the record's own parameters give"):
        ReleaseRecord.from_dict(document).verify()
    for wrong in (0, 49, 1.5, True, None):
        document["provenance"]["gap"] = wrong
        with pytest.raises(ValueError, match="gap"):
            ReleaseRecord.from_dict(document)
    del document["provenance"]["gap"]
    with pytest.raises(ValueError, match="'gap' that is missing"):
        ReleaseRecord.from_dict(document)


def test_a_wrong_cap_cannot_be_recorded():
    # Behind another count, whatever differs, a measurement does not chain.
    measurement = behind(count())
    made = count(), ts.make_subsampled_gaussian(*count().output_space, 3.0, sampling_probability=0.3, delta=1e-6)
    assert (made[0] >> made[1])(LOG).record().provenance.participation_cap == 5
    for other in ({"participation_cap": 40}, {"step_cap": 1}, {"metric": dp.change_one_distance()}):
        with pytest.raises(dp.OpenDPException, match="provenance="):
            count(**other) >> made[1]
    # Nor can what a release says be edited: neither its facts, nor the record's.
    release = measurement(LOG)
    for frozen in (release, release.provenance, release.record()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.participation_cap = 40
    with pytest.raises(TypeError, match="unexpected keyword"):
        release.record(participation_cap=40)


def test_a_release_that_does_not_know_how_it_was_made_has_no_record():
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    l2 = space >> ts.then_participation_count(GRID, participation_cap=5, output_metric=dp.l2_distance(T=float))
    with pytest.raises(ValueError, match="no record: chain the measurement behind a count"):
        behind(l2)(LOG).record()
    with pytest.raises(ValueError, match="no record"):
        ts.Release(steps=[2], values=[1.0], size=48, scale=3.0, sampling_probability=0.1).record()
    with pytest.raises(ValueError, match=r"scale \(0.0\) is no noise"):
        behind(count(), scale=0.0)(LOG).record()
    with pytest.raises(ValueError, match="no finite loss"):
        behind(count(), scale=1e-200)(LOG).record()


def test_a_part_of_a_panel_has_no_record_of_its_own():
    release = behind(count(by="place", keys=["a", "b"]))(LOG)
    part = release.by_key()["a"]
    assert part.provenance.participation_cap == 5
    with pytest.raises(ValueError, match="no record"):
        part.record()


def test_queries_of_a_context_have_records():
    context = ts.compositor(
        LOG,
        domain=ts.event_log_domain(identifier="id", time="time"),
        privacy_unit=(dp.symmetric_distance(), 1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=2,
    )
    query = context.query().participation_count(GRID, participation_cap=7)
    record = query.subsampled_gaussian(sampling_probability=0.2).release().record()
    ((epsilon, delta),) = record.loss
    assert 0.5 * (1 - 1e-8) < epsilon <= 0.5
    assert 5e-7 * (1 - 1e-8) < delta <= 5e-7
    assert record.provenance.participation_cap == 7


def test_the_document_says_everything():
    document = json.loads(record_of().to_json())
    assert document["guarantee"].endswith("for one individual added or removed")
    assert document["versions"].keys() == {"python", "opendp_timeseries", "opendp", "numpy", "scipy"}
    assert document["provenance"]["grid"]["start"] == "2013-01-01T00:00Z"
    assert document["provenance"]["participation_cap"] == 5


def test_a_release_comes_back_from_its_record():
    release = behind(count(by="place", keys=["a", "b"]))(LOG)
    again = ts.Release.from_record(ReleaseRecord.from_json(release.record().to_json()))
    assert again == release
    assert again.keys == ("a", "b")


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
    again = ts.Release.from_record(ReleaseRecord.from_json(release.record().to_json()))
    assert again.grid == release.grid == GRIDS[name]
    assert again.grid.edges().tolist() == GRIDS[name].edges().tolist()
    assert again == release


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda grid: grid.__setitem__("step", "1d"), "step"),
        (lambda grid: grid["edges"].reverse(), "ascend"),
        (lambda grid: grid["edges"].__setitem__(1, 7), r"edges\[1\]"),
        (lambda grid: grid.__setitem__("edges", 7), "edges"),
    ],
)
def test_other_edges_are_refused_by_name(change, message):
    document = json.loads(behind(count(grid=GRIDS["terms"]), p=1.0)(LOG).record().to_json())
    change(document["provenance"]["grid"])
    with pytest.raises(ValueError, match=message):
        ReleaseRecord.from_json(json.dumps(document))


def test_what_is_printed_is_not_below_what_is_claimed():
    record = record_of()
    printed = record.guarantee().split("ε = ")[1].split(",")[0]
    assert float(printed) >= record.loss[0][0]
    assert record.guarantee() in repr(record)


# --- What is stated too low is found out ---


def doc(**more):
    return json.loads(record_of(**more).to_json())


UNDERSTATEMENTS = {
    "a loss": lambda d: d["loss"][0].__setitem__(0, 0.01),
    "a loss by a thousandth": lambda d: d["loss"][0].__setitem__(0, d["loss"][0][0] * 0.999),
    "a loss by a millionth": lambda d: d["loss"][0].__setitem__(0, d["loss"][0][0] * (1 - 1e-6)),
    "the delta": lambda d: d["loss"][0].__setitem__(1, 1e-7),
    "a larger cap": lambda d: d["provenance"].__setitem__("participation_cap", 6),
    "a larger step cap": lambda d: d["provenance"].__setitem__("step_cap", 3),
    "replaced": lambda d: d["provenance"]["adjacency"].__setitem__("replaced", True),
    "two for one": lambda d: d["provenance"]["adjacency"].__setitem__("individuals", 2),
    "two individuals": lambda d: d.__setitem__("individuals", 2),
    "no filter": lambda d: d["provenance"].__setitem__("stages", []),
    "less noise": lambda d: d["release"].__setitem__("scale", 2.9),
    "more sampling": lambda d: d["release"].__setitem__("sampling_probability", 0.4),
    "another delta": lambda d: d["accounting"].__setitem__("delta", 1e-7),
}


@pytest.mark.parametrize("name", UNDERSTATEMENTS)
def test_each_understatement_is_found_out(name):
    document = doc()
    UNDERSTATEMENTS[name](document)
    assert document != doc()
    record, sentence = None, ReleaseRecord.from_dict(doc()).guarantee()
    with contextlib.suppress(ValueError):
        record = ReleaseRecord.from_dict(document)
    if record is None:  # the sentence alone gives it away; put it right
        with pytest.raises(ValueError, match="in words"):
            ReleaseRecord.from_dict(document)
        ((epsilon, delta),) = document["loss"]
        document["guarantee"] = dataclasses.replace(
            ReleaseRecord.from_dict(doc()),
            loss=((float(epsilon), float(delta)),),
            individuals=document["individuals"],
            provenance=type(record_of().provenance).from_dict(document["provenance"]),
        ).guarantee()
        record = ReleaseRecord.from_dict(document)
        assert record.guarantee() != sentence
    with pytest.raises(ValueError, match="loss"):
        record.verify()


@pytest.mark.parametrize(
    "loss", [((math.nan, 1e-6),), ((10.0, math.nan),), ((10.0, 1e-6), (10.0, 1e-6)), ((-1.0, 1e-6),)]
)
def test_losses_that_are_no_losses_are_found_out(loss):
    with pytest.raises(ValueError, match="loss"):
        dataclasses.replace(record_of(), loss=loss).verify()


def test_understating_by_a_millionth_is_found_out():
    record = record_of()
    ((epsilon, delta),) = record.loss
    for loss in ((epsilon * (1 - 1e-6), delta), (epsilon, delta * (1 - 1e-6))):
        with pytest.raises(ValueError, match="loss"):
            dataclasses.replace(record, loss=(loss,)).verify()
    # The last digits may differ between machines.
    assert dataclasses.replace(record, loss=((epsilon * (1 - 1e-12), delta),)).verify() == record.loss


def test_points_of_a_curve_cannot_be_shifted():
    record = record_of(output_measure=dp.renyi_divergence())
    shifted = tuple((order * 2, divergence) for order, divergence in record.loss)
    with pytest.raises(ValueError, match="loss"):
        dataclasses.replace(record, loss=shifted).verify()


def test_overstating_is_allowed():
    record = record_of()
    ((epsilon, delta),) = record.loss
    assert dataclasses.replace(record, loss=((epsilon * 2, delta),)).verify() == record.loss


@pytest.mark.parametrize(
    ("kept", "p"),
    [(3, 0.0), (48, 2.0**-53), (47, 1.0), (0, 0.9), (48, 0.3), (20, 0.001)],
)
def test_releases_that_cannot_have_been_drawn_are_refused(kept, p):
    document = doc()
    document["release"] |= {
        "steps": list(range(kept)),
        "values": [0.5] * kept,
        "sampling_probability": p,
    }
    with pytest.raises(ValueError, match=rf"{kept} of 48 steps cannot have been kept"):
        ReleaseRecord.from_dict(document).verify()


def stratified_record():
    measurement = count() >> ts.then_subsampled_gaussian(
        3.0, sampling_probability=0.2, sampling="stratified", delta=1e-6
    )
    return measurement(LOG).record()


def test_a_record_of_a_stratified_sample_is_that_of_what_ran():
    # 48 steps in blocks of five: nine full ones, and one of three.
    record = stratified_record()
    assert len(record.steps) in (9, 10)
    assert ReleaseRecord.from_json(record.to_json()) == record
    assert record.verify() == record.loss
    assert ts.Release.from_record(record).sampling == record.sampling == "stratified"


def test_steps_that_a_design_cannot_keep_are_found_out():
    record, full = stratified_record(), list(range(2, 45, 5))
    for steps, possible in [(full, True), ([*full, 46], True), (full[1:], False), ([*full, 45, 47], False),
                            ([1, *full], False), ([0, 1, *full[2:]], False)]:  # fmt: skip
        drawn = dataclasses.replace(record, steps=np.array(steps), values=np.zeros(len(steps)))
        if possible:
            assert drawn.verify() == record.loss
        else:
            with pytest.raises(ValueError, match="steps must hold one of each block of 5"):
                drawn.verify()
    with pytest.raises(ValueError, match="must be one over a whole number"):
        dataclasses.replace(record, sampling_probability=0.21).verify()
    with pytest.raises(ValueError, match="must be 'poisson' or 'stratified'"):
        dataclasses.replace(record, sampling="systematic")


def test_improbable_counts_are_refused_by_their_tail_alone():
    # Of 48 steps at p = 1/2, at most 1 is kept with probability 49/2**48 = 1.7e-13, at most 2 with 4.2e-12.
    record = record_of(p=0.5)
    for kept, refused in ((1, True), (2, False), (46, False), (47, True)):
        drawn = dataclasses.replace(record, steps=np.arange(kept), values=np.zeros(kept))
        if refused:
            with pytest.raises(ValueError, match="cannot have been kept"):
                drawn.verify()
        else:
            assert drawn.verify() == record.loss


# --- What is no record is refused ---


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "another"}', "3", "null"])
def test_other_documents_are_refused(text):
    with pytest.raises(ValueError, match="format"):
        ReleaseRecord.from_json(text)


BREAKS = {
    "fractional tap": (lambda d: tap(d).__setitem__(slice(None), [[0, 1.999]]), "taps"),
    "tap twice": (lambda d: tap(d).__setitem__(slice(None), [[0, 5], [0, 1]]), "tap"),
    "taps in disorder": (lambda d: tap(d).reverse(), "tap"),
    "text for a tap": (lambda d: tap(d).__setitem__(0, [0, "1"]), "taps"),
    "true for a tap": (lambda d: tap(d).__setitem__(0, [0, True]), "taps"),
    "zero for a tap": (lambda d: tap(d).__setitem__(0, [0, 0]), "tap"),
    "tap off the cycle": (lambda d: tap(d).append([48, 1]), "tap"),
    "text for a bool": (lambda d: d["provenance"].__setitem__("caps_enforced", "no"), "caps_enforced"),
    "number for a bool": (lambda d: d["provenance"].__setitem__("caps_enforced", 1), "caps_enforced"),
    "float for a cap": (lambda d: d["provenance"].__setitem__("participation_cap", 5.0), "participation_cap"),
    "no cap": (lambda d: d["provenance"].__setitem__("participation_cap", 0), "participation_cap"),
    "unknown field": (lambda d: d.__setitem__("note", "trust me"), "note"),
    "unknown nested field": (lambda d: d["release"].__setitem__("note", "trust me"), "note"),
    "unknown field of the grid": (lambda d: d["provenance"]["grid"].__setitem__("note", 1), "note"),
    "unknown field of the filter": (lambda d: d["provenance"]["stages"][0]["filter"].__setitem__("x", 1), "x"),
    "unknown software": (lambda d: d["versions"].__setitem__("other", "1"), "other"),
    "another measure": (lambda d: d["accounting"].__setitem__("measure", "trust"), "measure"),
    "a parameter of another measure": (lambda d: d["accounting"].__setitem__("failure_probability", 0.1), "measure"),
    "no parameter of the measure": (lambda d: d["accounting"].__setitem__("delta", None), "measure"),
    "three neighbours": (lambda d: d["provenance"]["adjacency"].__setitem__("individuals", 3), "adjacency"),
    "no individuals": (lambda d: d.__setitem__("individuals", 0), "individuals"),
    "another grid": (lambda d: d["provenance"]["grid"].__setitem__("size", 9), "size"),
    "mixed panel": (lambda d: d["provenance"].__setitem__("panel", ["a", 1]), "panel"),
    "panel with a key twice": (lambda d: d["provenance"].__setitem__("panel", ["a", "a"]), "panel"),
    "text for values": (lambda d: d["release"].__setitem__("values", ["1"] * len(d["release"]["values"])), "numbers"),
    "steps in disorder": (lambda d: d["release"].__setitem__("steps", [9, 3]), "steps"),
    "another sentence": (lambda d: d.__setitem__("guarantee", "(ε = 0.01, δ = 0)-differential privacy"), "in words"),
    "half a loss": (lambda d: d.__setitem__("loss", [[1.0]]), "loss"),
    "no loss": (lambda d: d.__setitem__("loss", []), "loss"),
}


def tap(document):
    return document["provenance"]["stages"][0]["filter"]["taps"]


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_of_the_wrong_form_is_refused_by_name(name):
    document, (break_it, message) = doc(), BREAKS[name]
    break_it(document)
    with pytest.raises(ValueError, match=message):
        ReleaseRecord.from_json(json.dumps(document))


@pytest.mark.parametrize("part", sorted(set(doc()) - {"format"}))
def test_a_missing_part_is_named(part):
    document = doc()
    del document[part]
    with pytest.raises(ValueError, match=f"'{part}' that is missing"):
        ReleaseRecord.from_json(json.dumps(document))


def test_keys_that_are_there_twice_and_numbers_that_are_not_finite_are_refused():
    text = record_of().to_json()
    with pytest.raises(ValueError, match="key twice"):
        ReleaseRecord.from_json(
            text.replace('"individuals": 1, "accounting"', '"individuals": 9, "individuals": 1, "accounting"')
        )
    for word in ("NaN", "Infinity", "1e999"):
        with pytest.raises(ValueError, match="not finite"):
            ReleaseRecord.from_json(text.replace('"scale": 3.0', f'"scale": {word}'))
    with pytest.raises(ValueError, match=r"nested too deeply|is no JSON document"):
        ReleaseRecord.from_json("[" * 100_000)
    for wrong in ("", "step_start,count", text[:-1]):
        with pytest.raises(ValueError, match="the text is no JSON document"):
            ReleaseRecord.from_json(wrong)


def places(node, path=()):
    """Every place in a document, deepest first."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))
        yield (*path, key)


STRANGE = (None, True, False, 0, 1, -1, 2, 0.5, 1.5, 1e-300, 1e300, 2**63, 2**70, "", "1", "no", [], {}, [[]], [1, 2])


def edited(document, rng):
    document = copy.deepcopy(document)
    path = rng.choice(list(places(document)))
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
    """The record of a document, or None where it is refused; nothing but ValueError may refuse."""
    try:
        record = ReleaseRecord.from_json(json.dumps(document))
        record.verify()
    except ValueError:
        return None
    return record


@pytest.mark.parametrize("runs", [800, pytest.param(10_000, marks=pytest.mark.long)])
def test_random_edits_are_refused_or_state_no_less_than_the_truth(runs):
    rng = random.Random(9)
    panel = behind(count(by="place", keys=["a", "b"]) >> ts.then_circulant_filter(COARSE[1]), failure_probability=1e-6)
    documents = [doc(), json.loads(panel(LOG).record().to_json())]
    refused = 0
    for _ in range(runs):
        document = edited(rng.choice(documents), rng)
        record = survives(document)
        if record is None:
            refused += 1
            continue
        facts = record.provenance
        law = extremal_law(facts.influence(record.individuals), record.sampling_probability, record.size)
        truth = record.accounting.points(law.at(record.scale))
        for point, right in zip(record.loss, truth, strict=True):
            assert all(s >= r * (1 - 1e-8) for s, r in zip(point, right, strict=True)), document
    assert refused > runs / 2


# --- Several releases ---


def test_several_records_are_written_with_their_joint_guarantee():
    first, second = record_of(), behind(count(participation_cap=3), scale=9.0)(LOG).record()
    text = ts.write_records([first, second])
    assert ts.read_records(text) == (first, second)
    assert ts.read_records(first.to_json()) == (first,)
    ((total, delta),), parts = json.loads(text)["joint loss"], [first.loss[0], second.loss[0]]
    assert sum(part[0] for part in parts) <= total <= sum(part[0] for part in parts) * (1 + 1e-12)
    assert 2e-6 <= delta <= 2e-6 * (1 + 1e-12)
    document = json.loads(text)
    for low in ([[total * 0.999, delta]], [[total, delta / 2]], [[total]], [[total, delta]] * 2, []):
        with pytest.raises(ValueError, match="loss"):
            ts.read_records(json.dumps(document | {"joint loss": low}))
    with pytest.raises(ValueError, match="loss"):
        ts.read_records(json.dumps(document | {"records": [document["records"][0] | {"loss": [[0.1, 1e-6]]}]}))


def test_records_of_a_composition_state_their_joint_loss():
    parts = [behind(count()), behind(count(participation_cap=3), scale=9.0)]
    records = [release.record() for release in ts.make_composition(parts)(LOG)]
    text = ts.write_records(records, in_advance=True)
    document = json.loads(text)
    ((epsilon, delta),) = document["joint loss"]
    assert (epsilon, delta) == pytest.approx(ts.make_composition(parts, delta=2e-6).map(1), rel=1e-9)
    assert epsilon < 0.9 * sum(record.loss[0][0] for record in records)
    read, words = read_document(text)
    assert read == tuple(records)
    pair = f"(ε = {printed_up(epsilon)}, δ = {printed_up(delta, 4)})"
    assert words == f"{pair}-differential privacy for one individual added or removed"
    # Whoever did not fix them in advance may not claim it.
    with pytest.raises(ValueError, match="the records together give"):
        ts.read_records(json.dumps(document | {"in advance": False}))
    with pytest.raises(ValueError, match="the records together give"):
        ts.read_records(json.dumps(document | {"joint loss": [[epsilon * 0.999, delta]]}))
    with pytest.raises(ValueError, match="in advance"):
        ts.read_records(json.dumps(document | {"in advance": 1}))


@pytest.mark.parametrize(
    "options", [{"failure_probability": 1e-6}, {"output_measure": dp.renyi_divergence()}, {"delta": None}]
)
def test_records_in_every_measure_state_their_joint_loss(options):
    options = {} if "delta" in options else options
    parts = [count() >> ts.then_subsampled_gaussian(s, sampling_probability=0.5, **options) for s in (4.0, 9.0)]
    records = [part(LOG).record() for part in parts]
    text = ts.write_records(records, in_advance=True)
    assert ts.read_records(text) == tuple(records)
    stated = json.loads(text)["joint loss"]
    joint = ts.make_composition(parts, **({"failure_probability": 2e-6} if len(stated) == 1 else options)).map(1)
    if len(stated) == 1:
        assert stated[0] == pytest.approx(list(joint), rel=1e-9)
    else:
        curve = joint if callable(joint) else joint.delta
        assert [point[1] for point in stated] == [pytest.approx(curve(point[0]), rel=1e-12) for point in stated]


def test_records_that_do_not_add_up_are_refused():
    one = record_of()
    others = [
        behind(count(), failure_probability=1e-6)(LOG).record(),
        behind(count(dp.change_one_distance()))(LOG).record(),
        behind(count())(LOG).record(individuals=2),
    ]
    for in_advance in (False, True):
        for records in ([], *([one, o] for o in others)):
            with pytest.raises(ValueError, match="of one measure, adjacency"):
                ts.write_records(records, in_advance=in_advance)
    with pytest.raises(ValueError, match="must each state one pair"):
        ts.write_records([behind(count(), output_measure=dp.renyi_divergence())(LOG).record()])


def test_accounting_of_a_profile_states_points_of_it():
    loss = extremal_law(ts.Influence(l0=3, l2=3**0.5, linf=1.0), 0.5, 9).at(2.0)
    points = Accounting("smoothed max divergence").points(loss)
    assert points[0][0] == 0.0
    assert all(delta == loss.delta(epsilon) for epsilon, delta in points)
