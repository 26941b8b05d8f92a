"""Every refusal of the package says what is wrong and what to do, and each front end has its words for it."""

import argparse
import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from opendp_timeseries._refusal import ExistingFileRefusal, MissingFileRefusal, Quoted, Refusal, TypeRefusal
from opendp_timeseries.commandline.arguments import COMMANDS
from opendp_timeseries.commandline.spelling import phrase, spelling
from opendp_timeseries.commandline.words import EVERY

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "opendp_timeseries"
#: Modules in which a caller completes a sentence: what is wrong with a line, or with the text of a word.
FRAGMENTS = {
    "_text": 1,
    "commandline.publication": 1,
    "commandline.words": 7,
    "koga2022.datasets": 4,
    "ledger.book": 8,
    "ledger.ledger": 1,
}
#: How a rule begins that says what to give.
SAYS = re.compile(r"^(…|requires? |needs |is refused: )|\bmust\b")
MENTION = re.compile(r"`(\w+)(?:=([^`]*))?`")


def calls():
    """Every call in the package of what is raised, with its module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield module, node


REFUSALS = [(module, node) for module, node in calls() if node.func.id.endswith("Refusal") and module != "_refusal"]


def literal(node):
    """The text of an argument, with … for what is only known when it is raised."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.Tuple):
        return ", or ".join(map(literal, node.elts))
    return "…"


def test_all_is_refused_as_data():
    plain = {}
    for module, node in calls():
        if node.func.id in ("ValueError", "TypeError") and node.args:
            plain[module] = plain.get(module, 0) + 1
    assert plain == FRAGMENTS
    assert len(REFUSALS) > 480


def test_every_refusal_has_parameter_value_rule_and_remedy():
    """A rule that says what must be is a remedy, too; any other says only what is wrong."""
    lacking = []
    for module, node in REFUSALS:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            continue  # a rule with its remedy
        parameter, _, rule, *remedy = map(literal, node.args)
        if not (parameter and rule and (SAYS.search(rule) or any(remedy))):
            lacking.append(f"{module}:{node.lineno} {ast.unparse(node)}")
        assert not rule.endswith((".", ";", ":")), rule
    assert not lacking, "\n".join(lacking)


def test_every_parameter_that_a_refusal_names_is_one():
    names = {
        argument.arg
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.arguments)
        for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)
    } | EVERY.keys()
    for _, node in REFUSALS:
        for text in map(literal, node.args[2:]):
            assert text.count("`") % 2 == 0, text
            assert {match[1] for match in MENTION.finditer(text)} <= names | {"dtype"}, text


@pytest.mark.parametrize(
    ("kind", "builtin"),
    {TypeRefusal: TypeError, MissingFileRefusal: FileNotFoundError, ExistingFileRefusal: FileExistsError}.items(),
)
def test_a_refusal_is_its_fields(kind, builtin):
    refusal = kind("gap", 2.5, "must be whole, as `step_cap` is", "give `gap=2`, or leave it out")
    assert isinstance(refusal, ValueError)
    assert isinstance(refusal, builtin)
    assert not isinstance(Refusal("gap", 2, "must be 1"), TypeError)
    assert str(refusal) == "gap (2.5) must be whole, as step_cap is; give gap=2, or leave it out"
    assert str(pickle.loads(pickle.dumps(refusal))) == str(refusal)
    assert pickle.loads(pickle.dumps(kind("gap", ..., "must be given"))).value == ""
    assert str(kind("grid", Quoted("3 steps"), "must be longer")) == "grid (3 steps) must be longer"
    for value, text in ((np.float64(0.5), "0.5"), (np.array([7, 8]), "of type ndarray"), (Path("a b"), "a b")):
        assert kind("gap", value, "must be 1").value == text


def given(command="release", publication=None, **lines):
    return argparse.Namespace(command=command, publication=publication, lines=lines)


def test_a_front_end_names_no_parameter_that_it_lacks():
    refusal = Refusal("std", -1.0, "must go with `gap`", ("give `season_amplitudes={24: 60.0}`", "a public `proxy`"))
    assert str(refusal) == "std (-1.0) must go with gap; give season_amplitudes={24: 60.0}, or a public proxy"
    assert phrase(refusal, given("plan")) == "--filter-std (-1.0) must go with --gap; give --season 24:60"
    assert phrase(refusal, given("verify")) == "std (-1.0) must go with gap"
    file = given(publication="a.toml", filter_std=7, gap=9)
    assert phrase(refusal, file) == ("a.toml, line 7: filter_std (-1.0) must go with gap (line 9); give season 24:60")
    assert Refusal("std", 1, "must be `proxy`").phrase(spelling(given())) == "std (1) must be proxy"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_that_is_said_exists(command, capsys):
    spell = spelling(given(command))
    said = {name: spell(name, None) for name in (*EVERY, "proxy", "output_measure")}
    from opendp_timeseries.__main__ import main

    with pytest.raises(SystemExit):
        main([*([] if command == "release" else [command]), "--help"])
    usage = capsys.readouterr().out
    for name, text in said.items():
        assert text is None or re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", usage), name


def test_a_word_that_another_needs_says_what_there_is_only_with_it():
    needed = {need for word in EVERY.values() for need in word.needs}
    assert [name for name in sorted(needed) if not EVERY[name].gives] == []
