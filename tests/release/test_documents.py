"""Several releases in one document: with the guarantee of all of them, which nobody can state too low."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.release.documents import joint_guarantee, population_of, read_document
from opendp_timeseries.release.statement import Parent
from tests.refused import refuses
from tests.release.made import LOG, SMOOTH, behind, count, released


def two():
    """Two releases, one behind a filter."""
    return [released(), behind(count(participation_cap=3), scale=9.0)(LOG)]


def test_releases_are_written_with_their_joint_guarantee():
    first, second = two()
    text = ts.write_releases([first, second])
    assert ts.read_releases(text) == (first, second)
    assert ts.read_releases(first.to_json()) == (first,)
    assert read_document(first.to_json()).guarantee == first.guarantee()
    document, stated = json.loads(text), [Fraction(release.stated.loss[0][0]) for release in (first, second)]
    ((total, delta),) = document["joint_loss"]
    assert sum(stated) <= Fraction(total) <= sum(stated) * (1 + Fraction(1, 10**12))
    assert 2e-6 <= delta <= 2e-6 * (1 + 1e-12)
    assert document["adaptivity"] == "fully adaptive"
    for low in ([[total * 0.999, delta]], [[total, delta / 2]], [[total]], [[total, delta]] * 2, []):
        refuses("loss", ts.read_releases, json.dumps(document | {"joint_loss": low}))
    lying = json.loads(text)
    lying["releases"][0]["statement"]["loss"] = [[0.1, 1e-6]]
    refuses("loss", ts.read_releases, json.dumps(lying))
    refuses("loss", ts.write_releases, [ts.Release.from_dict(lying["releases"][0])])


def test_releases_of_a_composition_state_their_joint_loss():
    parts = [behind(count()), behind(count(participation_cap=3), scale=9.0)]
    releases = [part(LOG) for part in parts]
    text = ts.write_releases(releases, adaptivity="adaptive")
    document = json.loads(text)
    ((epsilon, delta),) = document["joint_loss"]
    assert (epsilon, delta) == pytest.approx(ts.make_composition(parts, delta=2e-6).map(1), rel=1e-9)
    assert epsilon < 0.9 * sum(release.stated.loss[0][0] for release in releases)
    read, words, *_ = read_document(text)
    assert read == tuple(releases)
    pair = f"(ε = {printed_up(epsilon)}, δ = {printed_up(delta, 4)})"
    assert words == f"{pair}-differential privacy for one individual added or removed"
    assert words == joint_guarantee([replace(release, composition="ab") for release in releases])
    # Of others, each may follow what the last one showed: pairs add up, as in a document without the promises.
    for names in ((None, None), ("ab", "cd"), ("ab", None)):
        others = [replace(one, composition=name, invocation="ef") for one, name in zip(releases, names, strict=True)]
        assert joint_guarantee(others) == read_document(ts.write_releases(releases)).guarantee != words
    # The same loss at another δ: as that of a whole of which they are a part.
    again = json.loads(ts.write_releases(releases, adaptivity="adaptive", delta=1e-6))
    ((more, at),) = again["joint_loss"]
    assert (more, at) == pytest.approx(ts.make_composition(parts, delta=1e-6).map(1), rel=1e-9)
    assert more > epsilon
    assert f"(ε = {printed_up(more)}, δ = 1e-06)" in again["guarantee"]
    assert ts.read_releases(json.dumps(again)) == tuple(releases)
    for change in ([[more * 0.999, at]], [[more, at * 0.9]], [[epsilon, at]], [[more, 0.0]], [[0.0, 0.0]]):
        refuses("joint_loss", lambda: ts.read_releases(json.dumps(again | {"joint_loss": change})))  # noqa: B023
    refuses("delta", ts.write_releases, releases, delta=1e-6)
    # What was not fixed in advance may not claim it.
    for change in ({"adaptivity": "fully adaptive"}, {"joint_loss": [[epsilon * 0.999, delta]]}):
        refuses("joint_loss", ts.read_releases, json.dumps(document | change))
    for value in (1, None, True, "", "Adaptive", ["adaptive"], {"adaptive": True}):
        refuses("adaptivity", ts.read_releases, json.dumps(document | {"adaptivity": value}))
    # Two flags could contradict each other: that data are fixed, and the queries are not.
    for name in ("in_advance", "data_fixed"):
        refuses(f"the document.*'{name}'", ts.read_releases, json.dumps(document | {name: True}))


def test_behind_filters_the_joint_loss_holds_only_where_data_do_not_react():
    measurement = behind(count() >> ts.then_circulant_filter(SMOOTH))
    releases = [measurement(LOG) for _ in range(3)]
    alone = releases[0].design.loss()
    fixed, free = (json.loads(ts.write_releases(releases, adaptivity=kind)) for kind in ("non-adaptive", "adaptive"))
    ((least, delta),), ((most, _),) = fixed["joint_loss"], free["joint_loss"]
    assert least == pytest.approx(joint_loss([alone] * 3, adaptivity="non-adaptive").epsilon(delta), rel=1e-9)
    adaptive = joint_loss([alone] * 3, adaptivity="adaptive").epsilon(delta)
    assert most == pytest.approx(min(adaptive, 3 * releases[0].stated.loss[0][0]), rel=1e-9)
    assert least < most
    refuses("joint_loss", ts.read_releases, json.dumps(fixed | {"adaptivity": "adaptive"}))
    # Of counts that drop, without filter, both are one.
    plain = [behind(count())(LOG) for _ in range(3)]
    fixed, free = (json.loads(ts.write_releases(plain, adaptivity=kind)) for kind in ("non-adaptive", "adaptive"))
    assert fixed["joint_loss"][0] == pytest.approx(free["joint_loss"][0], rel=1e-9)


@pytest.mark.parametrize(
    "view", [{"failure_probability": 1e-6}, {"output_measure": dp.renyi_divergence()}, {"output_measure": None}]
)
def test_releases_in_every_measure_state_their_joint_loss(view):
    parts = [behind(count(), scale, p=0.5, **view) for scale in (4.0, 9.0)]
    releases = [part(LOG) for part in parts]
    text = ts.write_releases(releases, adaptivity="adaptive")
    assert ts.read_releases(text) == tuple(releases)
    stated = json.loads(text)["joint_loss"]
    joint = ts.make_composition(parts, **({"failure_probability": 2e-6} if len(stated) == 1 else view)).map(1)
    if len(stated) == 1:
        assert stated[0] == pytest.approx(list(joint), rel=1e-9)
    else:
        curve = joint if callable(joint) else joint.delta
        assert [point[1] for point in stated] == [pytest.approx(curve(point[0]), rel=1e-12) for point in stated]


@pytest.mark.parametrize(
    ("kinds", "identifiers", "said"),
    [
        ("ledger ledger", "ab ab", "; all part of a ledger with (ε = 9, δ = 0.001) in all"),
        ("programme programme", "ab ab", "; all part of programme ab with (ε = 9, δ = 0.001) in all"),
        ("context context", None, "; each part of a Context with (ε = 9, δ = 0.001) in all"),
        ("ledger ledger", "ab cd", ""),
        ("ledger context", None, ""),
    ],
)
def test_a_joint_guarantee_names_the_whole_of_which_all_releases_are_parts(kinds, identifiers, said):
    names = [None, None] if identifiers is None else identifiers.split()
    wholes = [
        Parent(kind=kind, loss=(9.0, 1e-3), number=number, digest=f"{number:02}", identifier=name)
        for number, (kind, name) in enumerate(zip(kinds.split(), names, strict=True), 1)
    ]
    parts = [replace(one, statement=replace(one.stated, parent=own)) for one, own in zip(two(), wholes, strict=True)]
    assert joint_guarantee(parts) == f"{joint_guarantee(two())}{said}"
    assert joint_guarantee([parts[0], two()[1]]) == joint_guarantee(two())


def test_one_whose_caps_were_assumed_speaks_for_all():
    assumed = (ts.count_signal_domain(48), dp.symmetric_distance()) >> ts.then_assume_participation(participation_cap=5)
    releases = [behind(assumed, scale=scale)([0] * 48) for scale in (3.0, 9.0)]
    assert "assuming at most 5 steps of each" in joint_guarantee(releases)


# --- What does not add up ---


def event_log(identifier="id", time="time", metric=None):
    space = ts.event_log_domain(identifier=identifier, time=time), metric or dp.symmetric_distance()
    grid = ts.TimeGrid(size=48)
    log = {identifier: np.array([1, 2, 2]), time: np.array([0, 1, 5])}
    return behind(space >> ts.then_participation_count(grid, participation_cap=5))(log)


def test_releases_that_do_not_add_up_are_refused():
    one = event_log()
    others = {
        "another measure": behind(count(), failure_probability=1e-6)(LOG),
        "another unit": event_log(metric=dp.change_one_distance()),
        "another distance": event_log().at_distance(2),
        "another column of identifiers": event_log("card"),
    }
    for adaptivity in ("fully adaptive", "adaptive"):
        for releases in ([], *([one, other] for other in others.values())):
            refuses("releases", ts.write_releases, releases, adaptivity=adaptivity)
    # The same people by another column of times: all that they did is lost by both.
    assert len(ts.read_releases(ts.write_releases([one, event_log(time="left")]))) == 2
    refuses("releases", ts.write_releases, [released(output_measure=dp.renyi_divergence())])


def test_a_unit_within_a_period_is_of_one_column_of_times():
    with pytest.warns(ts.PeriodUnitWarning):
        day = ts.period_distance(24)
    entered, left = event_log(metric=day), event_log(time="left", metric=day)
    assert population_of(entered.design) != population_of(left.design)
    refuses("releases", ts.write_releases, [entered, left])
    assert population_of(event_log().design) == population_of(event_log(time="left").design)


def test_the_sentence_of_a_document_has_its_numbers(tmp_path):
    alone, several = released().to_json(), ts.write_releases(two(), adaptivity="adaptive")
    for text in (alone, several):
        document = json.loads(text)
        right = document["guarantee"]
        # In other words: `verify` says so.
        read = read_document(json.dumps(document | {"guarantee": right.replace("individual", "person")}))
        assert (read.guarantee, [own for _, own in read.reworded]) == (right, [right])
        assert read_document(text).reworded == ()
        for own in ("reworded", right.replace("ε = ", "ε = 0.0"), right.replace("one", "1"), f"{right}; ε = 0.1"):
            refuses("guarantee", ts.read_releases, json.dumps(document | {"guarantee": own}))
    document = json.loads(several)
    document["releases"][1]["guarantee"] = "nothing is lost"
    refuses("guarantee \\('nothing is lost'\\)", ts.read_releases, json.dumps(document))


def lying(release, claim=None, **whole):
    """The record of a release, which says something else of its whole."""
    document = release.to_dict()
    document["statement"]["parent"] |= whole | (claim or {})
    return document | {"guarantee": ts.Release.from_dict(document).guarantee()}


@pytest.mark.parametrize("view", [{"delta": 1e-6}, {"failure_probability": 1e-6}])
def test_a_whole_is_not_below_its_part(view):
    parts = [behind(count(), scale, **view) for scale in (3.0, 9.0)]
    releases = ts.make_composition(parts, **view)(LOG)
    (first, second) = loss = releases[0].stated.parent.loss
    alone = releases[0].stated.loss[0][0]
    assert len(ts.read_releases(json.dumps(lying(releases[0])))) == 1
    for less in ([1e-9, 0.0], [first, 0.0], [alone * 0.999, second], [first, second * 1e-9]):
        if less[1] == 0.0 and "failure_probability" in view:
            continue  # a mixture has ρ of its own with certainty
        refuses("loss of the parent", lambda: ts.read_releases(json.dumps(lying(releases[0], loss=less))))  # noqa: B023
    # All parts are here: the whole is not below all of them together, either.
    assert ts.write_releases(releases, adaptivity="adaptive")
    less = [loss[0] * 0.999, second]
    documents = [lying(release, loss=less) for release in releases]
    false = [ts.Release.from_dict(document) for document in documents]
    assert all(release.verify() for release in false)
    refuses(
        "loss of the parent",
        ts.write_releases,
        false,
        adaptivity="adaptive",
    )
    # The same part again loses nothing more, and of parts of two equal compositions nothing is known.
    other = ts.Release.from_dict(lying(ts.make_composition(parts, **view)(LOG)[1], loss=less))
    assert all(ts.write_releases([false[0], one]) for one in (false[0], other))
    # However many parts a whole is said to have, this takes no memory.
    assert ts.write_releases([ts.Release.from_dict(lying(release, parts=10**100)) for release in releases])


LEDGER, PROGRAMME = ({"kind": kind, "identifier": "ab"} for kind in ("ledger", "programme"))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, {}), ({}, {"number": None}), ({}, {"number": 1}), ({}, {"parts": 9}), ({}, {"loss": 1.001}),
        (LEDGER, {"parts": 9}), (LEDGER, {"loss": 1.001}), (PROGRAMME, {"number": 1}), (PROGRAMME, {"loss": 1.001}),
    ],
)  # fmt: skip
def test_parts_that_say_otherwise_of_their_whole_are_of_it(named, said):
    releases = ts.make_composition([behind(count(), scale, delta=1e-6) for scale in (3.0, 9.0)], delta=1e-6)(LOG)
    first, second = releases[0].stated.parent.loss
    for share, error in ((1.0, None), (0.999, "loss of the parent")):
        losses = [[first * share * more, second] for more in (1.0, said.get("loss", 1.0))]
        claims = [named | {"loss": losses[0]}, named | said | {"loss": losses[1]}]
        claimed = [ts.Release.from_dict(lying(*each)) for each in zip(releases, claims, strict=True)]
        if error is None:
            assert ts.write_releases(claimed, adaptivity="adaptive")
        else:
            refuses(error, ts.write_releases, claimed, adaptivity="adaptive")


def test_shares_of_a_context_are_of_it_whatever_they_are_spent_on():
    domain, metric = behind(count()).input_space
    context, equal = (
        ts.compositor(LOG, (metric, 1), dp.loss_of(epsilon=4.0, delta=1e-5), split_evenly_over=2, domain=domain)
        for _ in range(2)
    )
    releases = [
        *context.query().composition([behind(count())] * 2).release(),
        context.query().composition([behind(count())]).release()[0],
    ]
    assert [release.stated.parent.number for release in releases] == [1, 1, 2]
    assert ts.write_releases(releases)
    losses = [release.design.loss() for release in releases]
    least, _ = joint_loss(losses, adaptivity="non-adaptive").epsilon_delta(1e-5)
    # Of two equal Contexts are those whose numbers are not complete, or are there twice.
    others = equal.query().composition([behind(count())] * 2).release()
    for share, chosen in ((1.001, releases), (0.999, releases), (0.999, releases[:2]), (0.999, [*releases, *others])):
        claimed = [ts.Release.from_dict(lying(release, loss=[least * share, 1e-5])) for release in chosen]
        assert is_refused(claimed) == (share < 1 and len(chosen) == 3)


def is_refused(releases):
    """Whether a whole is below what the releases lose together."""
    try:
        ts.write_releases(releases)
    except ValueError as error:
        return "loss of the parent" in str(error)
    return False


def test_a_document_names_what_it_cannot_show():
    releases = ts.make_composition([behind(count())] * 2, delta=1e-6)(LOG)
    assert read_document(released().to_json()).trusted == ()
    assert read_document(releases[0].to_json()).trusted == ("what else is in the composition",)
    promises = ("that all of it was fixed before the first release", "that no data reacted to an earlier release")
    for k, said in enumerate([{}, {"adaptivity": "adaptive"}, {"adaptivity": "non-adaptive"}]):
        read = read_document(ts.write_releases(releases, **said))
        assert read.trusted == ("what else is in the composition", *promises[:k])
