"""Documents of every kind and version that there has ever been are read, and described by their schemas.

``tests/data/formats`` keeps examples. They are never written again: a new version of a format gets new ones.
"""

import json
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import referencing

import opendp_timeseries as ts
from opendp_timeseries.design.weighting import Weighting
from opendp_timeseries.ledger.book import Chain, read_chain
from opendp_timeseries.release.documents import read_document
from tests.limits import within
from tests.refused import refuses

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "tests" / "data" / "formats").iterdir())
SCHEMAS = {path.name: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "schemas").glob("*.json")}
RESOURCES = [(name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
READERS = {
    "release": lambda text: ts.Release.from_json(text).to_dict(),
    "releases": lambda text: json.loads(ts.write_releases(read_document(text).releases, adaptivity="non-adaptive")),
    "programme": lambda text: ts.Programme.from_json(text).to_dict(),
}


def kind_of(path):
    return path.stem.split("-")[0]


def check(document, name):
    """Refuse a document that is not as its schema says."""
    registry = referencing.Registry().with_resources(RESOURCES)
    jsonschema.Draft202012Validator(SCHEMAS[name], registry=registry).validate(document)


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def without_software(document):
    """What is written now must be what was: but for the versions of the software, and the prose."""
    if isinstance(document, dict):
        return {k: without_software(v) for k, v in document.items() if k not in ("software", "guarantee")}
    return [without_software(part) for part in document] if isinstance(document, list) else document


def test_every_kind_and_version_has_a_schema_and_an_example():
    assert {f"{kind_of(path)}-{path.stem[-1]}.json" for path in EXAMPLES} == set(SCHEMAS)


def test_every_weighting_is_in_the_schema():
    forms = SCHEMAS["release-1.json"]["$defs"]["weighting"]["oneOf"]
    in_schema = {tag: set(form["properties"]) for form in forms for tag, form in form["properties"].items()}
    assert in_schema == {kind.tag: {field.name for field in fields(kind)} for kind in get_args(Weighting)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_read_verified_and_as_their_schema_says(path):
    schema = f"{kind_of(path)}-{path.stem[-1]}.json"
    if path.suffix == ".ledger":
        for line in lines(path):
            check(line, schema)
        book = ts.Ledger(path)
        assert book.verify().within
        assert [entry.released is not None for entry in book.entries] == [True, True]
        assert len(book.releases()) == 2
        return
    text = path.read_text("utf-8")
    check(json.loads(text), schema)
    if kind_of(path) != "programme":
        assert all(release.verify() for release in read_document(text).releases)
    assert without_software(READERS[kind_of(path)](text)) == without_software(json.loads(text))
    READERS[kind_of(path)]("\ufeff" + text)  # as some editors write it


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix == ".json"], ids=lambda path: path.name)
@pytest.mark.parametrize("version", [2, 10**9, 0, "1", None, True, 1.0])
def test_other_versions_are_refused_by_name(path, version):
    document = json.loads(path.read_text("utf-8")) | {"version": version}
    message = r"the document.*1" if version in (2, 10**9) else "version of the document"
    refuses(message, READERS[kind_of(path)], json.dumps(document))


def test_prose_and_versions_of_software_are_free():
    path = ROOT / "tests" / "data" / "formats" / "release-1.json"
    document = json.loads(path.read_text("utf-8"))
    known = ts.Release.from_dict(document)
    again = ts.Release.from_dict(document | {"guarantee": "reworded", "software": {"another": 7}})
    assert again == known
    assert again.guarantee() == known.guarantee() == document["guarantee"]


def test_at_every_step_kept_no_steps_are_listed():
    document = json.loads((ROOT / "tests" / "data" / "formats" / "release-every-step-1.json").read_text("utf-8"))
    assert document["steps"] == "all"
    refuses("values", ts.Release.from_dict, document | {"values": document["values"][:1]})


def test_a_ledger_of_a_newer_version_is_refused_by_name(tmp_path):
    entries, _ = read_chain((ROOT / "tests" / "data" / "formats" / "ledger-1.ledger").read_bytes())
    newer = [entries[0].replace('"version": 1', '"version": 2', 1), *entries[1:]]
    (tmp_path / "people.ledger").write_bytes(reduce(Chain.then, newer, Chain()).file())
    refuses(r"ledger.*2.*1", ts.Ledger, tmp_path / "people.ledger")


def asking(name, *, stages=None, weighting=None, **changes):
    """An example that asks for something else in its count, or of its stages."""
    document = json.loads((ROOT / "tests" / "data" / "formats" / name).read_text("utf-8"))
    design = document["design"]
    design["stages"] = design["stages"] if stages is None else stages
    design["count"]["reading"] |= {"gap": 1, "key_cap": None} | changes
    design["count"]["weighting"] = weighting or design["count"]["weighting"]
    design["sampling"]["probability"] = 1.0 if "tiers" in design["count"]["weighting"] else 1e-12
    return document | {"steps": [], "values": []}


STEPS = 2**22
LONG = {"size": STEPS, "start": None, "step": None, "zone": None}
TIERS = {"ends": [*range(3, 20)], "share": 0.9}
FILTER = {"filter": {"name": "taps", "size": STEPS, "resolution_bits": 4, "taps": [[0, 8], [1, 8]]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (lambda: asking("release-in-tiers-1.json", weighting={"tiers": TIERS}), "ends of tiers"),
        (lambda: asking("release-1.json", grid=LONG | {"size": STEPS + 1}, stages=[]), "size of the grid"),
        (lambda: asking("release-1.json", grid=LONG, stages=[FILTER]), "entries that caps and filters"),
        (
            lambda: asking("release-1.json", grid=LONG, stages=[], weighting={"drop": {"cap": 3 * STEPS}}),
            "entries that caps",
        ),
        (lambda: asking("release-1.json", grid=LONG, stages=[FILTER] * 17), "number of stages"),
    ],
)
def test_a_small_document_cannot_ask_for_much_time(document, message):
    text = json.dumps(document())
    assert len(text) < 10_000
    with within(1), pytest.raises(ValueError, match=message):
        read_document(text)


def test_releases_and_programmes_are_bounded_all_together():
    caps = [{"weighting": {"drop": {"cap": STEPS - k}}} for k in range(3)]
    one = asking("release-1.json", grid=LONG, stages=[], panel=["a"], **caps[1])
    designs = [one["design"] | {"count": one["design"]["count"] | cap} for cap in caps]
    programme = json.loads((ROOT / "tests" / "data" / "formats" / "programme-1.json").read_text("utf-8"))
    several = json.loads((ROOT / "tests" / "data" / "formats" / "releases-1.json").read_text("utf-8"))
    refuses("caps and filters of a document are about", ts.Programme.from_dict, programme | {"releases": designs})
    releases = [one | {"design": design} for design in designs]
    refuses("caps and filters of a document are about", read_document, json.dumps(several | {"releases": releases}))
