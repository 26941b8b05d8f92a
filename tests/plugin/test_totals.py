"""Totals of a panel: exact sums of its very counts, released with it, and read back."""

import json
from collections import Counter

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.plugin.mechanisms import signal_of
from opendp_timeseries.plugin.spaces import influence_distance
from tests.make import context_of
from tests.refused import refuses

GRID, KEYS = ts.TimeGrid(size=6), ["a", "b", "c", "d"]
TREE = {"city": {"north": ["b", "a"], "south": ["c", "d"]}}


def log_of(seed=0, rows=500):
    random = np.random.default_rng(seed)
    return {"id": random.integers(0, 60, rows), "step": random.integers(0, 6, rows), "site": random.choice(KEYS, rows)}


def counted(**options):
    options = {"participation_cap": 3, "key_cap": 1, "excess": "drop"} | options
    return space() >> ts.then_participation_count(GRID, by="site", keys=KEYS, **options)


def space():
    return ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()


def noise(scale=1.0, p=1.0):
    return ts.then_subsampled_gaussian(scale, sampling_probability=p)


def test_totals_are_sums_of_the_very_counts(monkeypatch):
    monkeypatch.setattr("opendp_timeseries.plugin.participation_count.fresh_key", lambda: bytes(16))
    panel = counted()
    counts = np.array(panel(log_of())).reshape(4, 6)
    sums = np.array((panel >> ts.then_totals(TREE))(log_of())).reshape(3, 6)
    assert np.array_equal(sums, [counts.sum(axis=0), counts[:2].sum(axis=0), counts[2:].sum(axis=0)])
    assert counts.sum() > 0


def test_one_invocation_of_the_count_serves_all_members(monkeypatch):
    # Two counts would draw two keys, keep other steps, and not add up.
    drawn = Counter()

    def key():
        drawn["keys"] += 1
        return bytes([drawn["keys"]]) * 16

    monkeypatch.setattr("opendp_timeseries.plugin.participation_count.fresh_key", key)
    together = counted() >> ts.then_composition([noise(1e-6), ts.then_totals(TREE) >> noise(1e-6)])
    for _ in range(5):
        leaves, totals = (release.values.reshape(-1, 6) for release in together(log_of()))
        assert np.allclose(totals[0], leaves.sum(axis=0), atol=1e-3)
    assert drawn["keys"] == 5


def test_sums_never_overflow():
    metric = counted().output_metric
    total = ts.make_totals(dp.vector_domain(dp.atom_domain(T="i64"), size=24), metric, {"all": KEYS})
    assert total(np.full(24, 2**63 - 1)) == [2**53] * 6
    assert total(np.full(24, -(2**63))) == [-(2**53)] * 6


def test_releases_have_the_names_of_groups_and_are_read_back():
    together = counted() >> ts.then_composition([noise(9.0), ts.then_totals(TREE) >> noise(9.0)], delta=1e-6)
    leaves, totals = together(log_of())
    assert leaves.keys == tuple(KEYS)
    assert totals.keys == ("city", "north", "south")
    assert totals.by_key()["south"].size == 6
    members = (noise(9.0), ts.then_totals(TREE) >> noise(9.0))
    alone = [counted() >> ts.then_composition([member], delta=1e-6) for member in members]
    for release, measurement in zip((leaves, totals), alone, strict=True):
        assert ts.Release.from_json(release.to_json()) == release
        assert release.stated.loss == (measurement.map(1),)
        assert release.stated.parent.loss == together.map(1)
    document = ts.write_releases([leaves, totals], adaptivity="adaptive")
    assert ts.read_releases(document) == (leaves, totals)
    ((epsilon, delta),) = json.loads(document)["joint_loss"]
    joint = (counted() >> ts.then_composition(members)).map(1)
    assert joint.delta(epsilon) == pytest.approx(delta, rel=1e-9)


def test_a_record_that_claims_other_groups_is_refused():
    document = (counted() >> ts.then_totals(TREE) >> noise(9.0))(log_of()).to_dict()

    def edited(edit):
        copy = json.loads(json.dumps(document))
        edit(copy["design"])
        return copy

    def smaller(design):  # one group in place of three: less loss, and fewer steps than there are
        design["stages"][0]["totals"] = design["stages"][0]["totals"][:1]

    refuses("values", ts.Release.from_dict, edited(smaller))
    for edit, message in (
        (lambda made: made["stages"][0]["totals"][0][1].pop(), r"groups.*'city'"),
        (lambda made: made["stages"][0]["totals"][1][1].append("e"), r"groups.*'city'"),
        (
            lambda made: made["count"]["reading"]["panel"].append("e"),
            r"every key of the panel.*'e'",
        ),
        (lambda made: made["stages"].append(made["stages"][0]), "totals"),
        (
            lambda made: made["count"]["reading"].update(panel=None, key_cap=None),
            r"by.*'site'",
        ),
        (
            lambda made: (
                made["count"]["reading"].update(panel=None, key_cap=None),
                made["count"]["reading"]["source"].update(by=None),
            ),
            "totals",
        ),
        (lambda made: made["count"]["reading"].update(panel=None), "key_cap"),
        (lambda made: made["stages"][0].update(totals=[["city", "a"]]), "totals[0][1]"),
        (lambda made: made["stages"][0].update(totals=[]), "groups"),
    ):
        refuses(message, ts.Release.from_dict, edited(edit))
    # Without the cap on keys the same noise protects less: the loss that is stated is too small.
    lying = ts.Release.from_dict(edited(lambda made: made["count"]["reading"].update(key_cap=None)))
    refuses("loss", lying.verify)


def test_groups_are_part_of_the_space():
    panel = counted()
    one, other = panel >> ts.then_totals({"x": KEYS}), panel >> ts.then_totals({"y": KEYS})
    assert one.output_metric != other.output_metric
    assert counted(key_cap=None).output_metric != panel.output_metric
    made = signal_of(panel).after(Groups.of(TREE, KEYS))
    assert Signal.from_dict(json.loads(json.dumps(made.to_dict()))) == made == signal_of(panel >> ts.then_totals(TREE))
    assert made.size == 18


def test_in_a_context_with_one_budget():
    context = context_of(
        log_of(),
        space=(ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()),
        epsilon=1.0,
        delta=1e-6,
    )
    query = context.query().participation_count(GRID, participation_cap=3, by="site", keys=KEYS, key_cap=1)
    leaves, totals = query.composition([noise(), ts.then_totals(TREE) >> noise()]).release()
    assert leaves.scale == totals.scale  # relative scales were equal
    # Leaf, district and city are three levels of one sensitivity: as one release of three times the cap.
    alone = ts.least_scale(counted(), epsilon=1.0, delta=1e-6, sampling_probability=1.0)
    assert leaves.scale == pytest.approx(alone * 3**0.5, rel=1e-6)


@pytest.mark.parametrize(("groups", "error", "message"), [
    (["a", "b"], TypeError, "groups"),
    ({"x": "abcd"}, TypeError, "a group"), ({"x": 3}, TypeError, "a group"),
    ({1: KEYS}, TypeError, "groups"), ({"x": ["a", 1.5]}, TypeError, "key of group 'x'"),
    ({}, ValueError, "groups"), ({"x": []}, ValueError, "group 'x'"),
    ({"x": ["a", "b", "c"]}, ValueError, r"every key of the panel.*'d'"),
    ({"x": ["a"]}, ValueError, r"every key of the panel.*'b'.*2"),
    ({"x": [*KEYS, "e"]}, ValueError, r"groups.*'e'.*'x'"),
    ({"x": ["a", "a", "b", "c", "d"]}, ValueError, r"group 'x'.*'a'"),
    ({"x": ["a", "b"], "y": ["b", "c", "d"]}, ValueError, r"groups.*'y'.*'x'"),
    ({"x": {"y": ["a", "b"], "x": ["c", "d"]}}, ValueError, r"groups.*'x'"),
    ({"a": KEYS}, ValueError, r"groups.*'a'"),
], ids=str)  # fmt: skip
def test_groups_that_are_no_tree_of_the_panel(groups, error, message):
    refuses(message, lambda: counted() >> ts.then_totals(groups), error=error)


def test_keys_that_are_numbers_are_named_as_text_or_number():
    panel = space() >> ts.then_participation_count(GRID, participation_cap=3, by="site", keys=[1, 2])
    one, other = (panel >> ts.then_totals({"both": keys}) for keys in ([1, 2], ["1", np.int64(2)]))
    assert one.output_metric == other.output_metric


def test_totals_need_a_panel_of_counts_with_its_keys():
    refuses(
        "input_metric",
        lambda: ts.make_totals(
            dp.vector_domain(dp.atom_domain(T="i64"), size=24), influence_distance(panel_size=4), TREE
        ),
        error=TypeError,
    )
    refuses(
        "input_metric",
        lambda: ts.make_totals(dp.vector_domain(dp.atom_domain(T="i64"), size=24), dp.l2_distance(T=float), TREE),
        error=TypeError,
    )
