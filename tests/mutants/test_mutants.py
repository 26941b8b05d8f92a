"""Every mutant is caught by what tests assert.

The tests are called as they are, first on the sound package, then on the broken one. docs/mutants.csv is the table,
which ``python -m tests.mutants.test_mutants`` writes.
"""

import contextlib
import csv
import functools
import importlib
import inspect
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting import rounding
from tests.counting.tables import DuckDB
from tests.mutants.mutate import edited, find, given, mutated
from tests.mutants.variants import MUTANTS, Mutant, mutant

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "docs" / "mutants.csv"

pytestmark = [
    pytest.mark.long,
    # Of Ibis's own calls into DuckDB, when tables are made.
    pytest.mark.filterwarnings(
        "ignore:fetch_arrow_table:DeprecationWarning",
        "ignore:The .future.infer_string. option",  # of its calls into pandas
        "ignore::opendp_timeseries.PeriodUnitWarning",
        "ignore::opendp_timeseries.LargeDeltaWarning",
    ),
]


@functools.cache
def texts() -> dict[str, str]:
    """Each file of tests, without ``.py``, and what it says."""
    paths = {path.relative_to(TESTS).with_suffix("").as_posix(): path for path in sorted(TESTS.rglob("test_*.py"))}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def place(name: str) -> tuple[str, str]:
    """Find the only test of this name: its file, without ``.py``, and itself."""
    file, _, test = name.rpartition("::")
    files = [path for path in texts() if f"/{path}".endswith(f"/{file}") or not file]
    files = [path for path in files if f"\ndef {test}(" in texts()[path]]
    if len(files) != 1:
        raise LookupError(f"{name} is in {files}; rename the test of the mutant")
    return files[0], test


FIXTURES = {"monkeypatch", "tmp_path", "backend", "log_space"}


def call(name: str, *parameters: object) -> None:
    """Run a test."""
    file, test = place(name)
    function = getattr(importlib.import_module("tests." + file.replace("/", ".")), test)
    names = list(inspect.signature(function).parameters)
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as files:
        fixtures: dict = {"monkeypatch": patch} if "monkeypatch" in names else {}
        if "tmp_path" in names:
            fixtures["tmp_path"] = Path(files.enter_context(tempfile.TemporaryDirectory()))
        if "backend" in names:
            fixtures["backend"] = DuckDB()
        if "log_space" in names:
            fixtures["log_space"] = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
        rest = [name for name in names if name not in fixtures]
        function(**fixtures, **dict(zip(rest, parameters, strict=True)))


ASSERTIONS = (AssertionError, pytest.fail.Exception)


def demand_caught(case: Mutant, check: Callable[[], None]) -> None:
    """Demand that a check fails on a mutant, by what it asserts: a mutant that does not run shows nothing.

    Whatever else the check raises is raised here. What it raised on the way to its assertion counts too: ``match=`` of
    :func:`pytest.raises` asserts, whatever the error that it does not match.
    """
    with mutated(case.target, case.broken):
        try:
            check()
        except ASSERTIONS as failure:
            error: BaseException | None = failure
        else:
            raise LookupError(f"{check} does not catch: {case.name}")
    while error is not None:
        if not isinstance(error, ASSERTIONS):
            raise error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: case.name)
def test_mutants_are_caught(case):
    for test in case.caught_by:
        call(*test)
    for test in case.caught_by:
        demand_caught(case, functools.partial(call, *test))


def is_alike(value: object, other: object) -> bool:
    """Whether a parameter is that of a case; functions are drawn up anew."""
    if value is other or (callable(value) and callable(other)):
        return True
    return type(value) is type(other) and bool(np.all(value == other))


def test_every_mutant_is_caught_by_the_ordinary_suite():
    found: dict[tuple[str, str], list[dict]] = {}

    class Collected:
        def pytest_collection_finish(self, session):
            for item in session.items:
                cases = found.setdefault((item.module.__name__, getattr(item, "originalname", item.name)), [])
                cases.append(getattr(getattr(item, "callspec", None), "params", {}))

    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "-n", "0", str(TESTS)], plugins=[Collected()])

    def is_ordinary(name: str, *parameters: object) -> bool:
        file, test = place(name)
        module = "tests." + file.replace("/", ".")
        function = getattr(importlib.import_module(module), test)
        names = [name for name in inspect.signature(function).parameters if name not in FIXTURES]
        given = dict(zip(names, parameters, strict=True))
        return any(
            all(is_alike(case[name], value) for name, value in given.items() if name in case)
            for case in found.get((module, test), [])
        )

    long = [case.name for case in MUTANTS if not any(is_ordinary(*test) for test in case.caught_by)]
    assert not long, "caught by long tests alone, or by other parameters than those of the ordinary suite"


#: A test that goes through OpenDP's callbacks.
CAPS = functools.partial(call, "test_the_caps_are_enforced_whatever_one_person_does")


@pytest.mark.parametrize("error", [NameError, ZeroDivisionError, IndexError])
def test_a_mutant_that_does_not_run_is_not_caught(error):
    def broken(sound, *arguments):
        raise error

    with pytest.raises(dp.OpenDPException):  # OpenDP wraps what a callback raises
        demand_caught(Mutant("broken", "_add_pairs", broken, ()), CAPS)


def test_a_mutant_that_no_check_notices_is_not_caught():
    with pytest.raises(LookupError, match="does not catch"):
        demand_caught(mutant("sound", "_add_pairs", lambda sound, *arguments: sound(*arguments)), CAPS)


def test_an_error_behind_an_assertion_is_not_caught():
    def check():
        with pytest.raises(ZeroDivisionError, match="other words"):
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        demand_caught(MUTANTS[0], check)


def test_the_sound_code_is_back_after_a_mutant():
    function = find("count_influence")
    sound = function.__code__, dict(function.__globals__)
    with mutated("count_influence", given(replaced=False)):
        assert function.__code__ is not sound[0]
    assert (function.__code__, dict(function.__globals__)) == sound
    for target in ("nowhere", "_read", "influence:_read"):
        with pytest.raises(LookupError, match="rename the target"):
            find(target)
    with (
        mutated("rounding:up", edited(("not in the source", ""))),
        pytest.raises(LookupError, match="renew the mutant"),
    ):
        rounding.up(1.0)


def table() -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["Broken variant", "Function", "Caught by"])
    for case in MUTANTS:
        tests = "<br>".join("`{}.py::{}`".format(*place(name)) for name, *_ in case.caught_by)
        rows.writerow([case.name, f"`{find(case.target).__qualname__}`", tests])
    return text.getvalue()


def test_the_table_of_the_documentation_is_this_one():
    assert TABLE.read_text(encoding="utf-8") == table(), "run: python -m tests.mutants.test_mutants"
    assert len({case.name for case in MUTANTS}) == len(MUTANTS)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
