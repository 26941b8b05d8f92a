"""No import runs up a floor or in a circle: not at the top of a file, nor in a function, nor for types alone.

The floors are the table of ``docs/architecture.md``, from the ground up.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.refused import refuses

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
FIGURE = ROOT / "docs" / "figures" / "architecture.svg"
PACKAGE = "opendp_timeseries"
ROW = re.compile(r"^\| (?P<floor>\d+) \| (?P<rooms>[^|]+) \| (?P<opendp>yes|no) \|", re.M)


class Import(NamedTuple):
    module: str
    line: int


class Floor(NamedTuple):
    number: int
    rooms: tuple[str, ...]
    opendp: bool


def floors() -> list[Floor]:
    rows = ROW.finditer(PAGE.read_text("utf-8"))
    return [
        Floor(int(row["floor"]), tuple(re.findall(r"`(.+?)`", row["rooms"])), row["opendp"] == "yes") for row in rows
    ]


@functools.cache
def package_sources() -> dict[str, str]:
    """Source by module, named as on the page: ``grid``, ``counting.engines``; a package itself is ``….__init__``."""
    folder = ROOT / PACKAGE
    return {
        ".".join(file.relative_to(folder).with_suffix("").parts): file.read_text("utf-8")
        for file in folder.rglob("*.py")
    }


def full_name(module: str) -> str:
    return f"{PACKAGE}.{module}".removesuffix(".__init__")


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    """Import statements and calls of a module."""
    kinds = ast.Import, ast.ImportFrom, ast.Call
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def imports(module: str, source: str, modules: frozenset[str]) -> Iterator[Import]:
    """Full names of everything that a module imports anywhere, of submodules where ``from`` names one."""
    package = full_name(module) if module.endswith("__init__") else full_name(module).rpartition(".")[0]
    known = {full_name(name) for name in modules}
    for node in nodes(source):
        match node:
            case ast.Import():
                yield from (Import(alias.name, node.lineno) for alias in node.names)
            case ast.ImportFrom():
                above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    name = f"{base}.{alias.name}"
                    yield Import(name if name in known else base, node.lineno)
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(target)), *_]
            ):
                if name in ("import_module", "__import__"):
                    yield Import(target, node.lineno)


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def home(module: str, plan: list[Floor]) -> tuple[Floor, str]:
    """A module's floor and room: the longest name that fits, so that ``a.b`` may lie below the rest of ``a``."""
    fits = [(floor, room) for floor in plan for room in floor.rooms if inside(module, room)]
    assert fits, f"{module} stands on no floor of {PAGE.name}"
    return max(fits, key=lambda fit: len(fit[1]))


def wrong_imports(sources: Mapping[str, str], plan: list[Floor]) -> list[str]:
    """What runs up or across, or takes OpenDP where it has no place, one sentence each."""
    modules = frozenset(sources)
    by_full_name = {full_name(module): module for module in modules}
    found = []
    for module, source in sorted(sources.items()):
        floor, room = home(module, plan)
        for target, line in dict.fromkeys(imports(module, source, modules)):
            if inside(target, "opendp") and not floor.opendp:
                found.append(f"{module}:{line} imports OpenDP")
            if not inside(target, PACKAGE):
                continue
            if target not in by_full_name:
                found.append(f"{module}:{line} imports {target}, which is no module")
                continue
            other_floor, other_room = home(by_full_name[target], plan)
            if other_room != room and other_floor.number >= floor.number:
                other = f"{by_full_name[target]} (floor {other_floor.number})"
                found.append(f"{module}:{line} (floor {floor.number}) imports {other}")
    return found


def circles(sources: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Sets of files that import each other, by way of others or not."""
    modules = frozenset(sources)
    by_full_name = {full_name(module): module for module in modules}
    reached = {
        module: {by_full_name[target] for target, _ in imports(module, source, modules) if target in by_full_name}
        for module, source in sources.items()
    }
    for through in modules:
        for targets in reached.values():
            if through in targets:
                targets |= reached[through]
    rings = {tuple(sorted(other for other in reached[m] if m in reached[other])) for m in modules if m in reached[m]}
    return sorted(rings)


def test_no_import_runs_up_or_takes_opendp_where_it_has_no_place() -> None:
    found = wrong_imports(package_sources(), floors())
    assert not found, "\n".join(found)


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(package_sources()) == []


def test_the_paper_is_imported_by_nothing_outside_its_room() -> None:
    sources = package_sources()
    found = [
        f"{module}:{line}"
        for module, source in sources.items()
        if not inside(module, "koga2022")
        for target, line in dict.fromkeys(imports(module, source, frozenset(sources)))
        if inside(target, f"{PACKAGE}.koga2022")
    ]
    assert not found, "\n".join(found)


def test_page_and_figure_name_every_room_once_and_no_other() -> None:
    plan = floors()
    rooms = [room for floor in plan for room in floor.rooms]
    modules = package_sources()
    assert [floor.number for floor in plan] == list(range(1, len(plan) + 1))
    assert len(set(rooms)) == len(rooms)
    assert [room for room in rooms if not any(inside(module, room) for module in modules)] == []
    drawn = re.findall(r">(\d+)</text>((?:\s*<rect [^>]*/><text [^>]*>[\w.]+</text>)+)", FIGURE.read_text("utf-8"))
    shown = {int(number): tuple(re.findall(r">([\w.]+)</text>", row)) for number, row in drawn}
    assert shown == {floor.number: floor.rooms for floor in plan}
    for module in modules:
        home(module, plan)


def test_mathematics_counting_and_planning_know_no_opendp() -> None:
    plan = floors()
    for module in (
        "accounting.laws",
        "counting.engines",
        "grid",
        "design.kernels",
        "planning.__init__",
        "ledger.ledger",
    ):
        assert not home(module, plan)[0].opendp


PLAN = [Floor(1, ("low", "high.base"), False), Floor(2, ("left", "right"), False), Floor(3, ("high",), True)]
MODULES = {"low": "", "left": "", "right.__init__": "", "right.inner": "", "high.__init__": "", "high.base": ""}


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("low", f"import {PACKAGE}.left", "low:1 (floor 1) imports left (floor 2)"),
        ("low", f"from {PACKAGE} import left as check", "low:1 (floor 1) imports left (floor 2)"),
        ("low", f"from {PACKAGE}.right.inner import name", "low:1 (floor 1) imports right.inner (floor 2)"),
        ("low", f"from {PACKAGE}.right import name", "low:1 (floor 1) imports right.__init__ (floor 2)"),
        ("low", "from . import left", "low:1 (floor 1) imports left (floor 2)"),
        ("high.base", "from ..left import name", "high.base:1 (floor 1) imports left (floor 2)"),
        ("low", f"def f():\n    from {PACKAGE} import left", "low:2 (floor 1) imports left (floor 2)"),
        ("low", f"if TYPE_CHECKING:\n    import {PACKAGE}.left", "low:2 (floor 1) imports left (floor 2)"),
        ("low", f"import_module('{PACKAGE}.left')", "low:1 (floor 1) imports left (floor 2)"),
        ("left", f"import {PACKAGE}.right", "left:1 (floor 2) imports right.__init__ (floor 2)"),
        ("high.base", f"import {PACKAGE}.high", "high.base:1 (floor 1) imports high.__init__ (floor 3)"),
        ("left", f"import {PACKAGE}.attic", f"left:1 imports {PACKAGE}.attic, which is no module"),
        ("left", "import opendp.prelude as dp", "left:1 imports OpenDP"),
        ("left", "def f():\n    from opendp.mod import x", "left:2 imports OpenDP"),
    ],
)
def test_wrong_imports_are_found(module: str, source: str, complaint: str) -> None:
    assert wrong_imports(MODULES | {module: source}, PLAN) == [complaint]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("left", f"from {PACKAGE}.low import name\nfrom . import low"),
        ("right.__init__", "from . import inner\nfrom .inner import name\nfrom ..low import name"),
        ("high.__init__", f"import opendp.prelude\nfrom {PACKAGE}.high.base import name"),
        ("low", "import opendp_like, numpy"),
    ],
)
def test_right_imports_are_not(module: str, source: str) -> None:
    assert wrong_imports(MODULES | {module: source}, PLAN) == []


def test_circles_are_found() -> None:
    assert circles(MODULES) == []
    assert circles(MODULES | {"left": f"import {PACKAGE}.left"}) == [("left",)]
    ring = {
        "left": f"import {PACKAGE}.low",
        "low": "def f():\n    from .right import inner",
        "right.inner": "from .. import left",
    }
    assert circles(MODULES | ring) == [("left", "low", "right.inner")]


def test_a_module_on_no_floor_is_found() -> None:
    refuses("attic stands on no floor", wrong_imports, {"attic": ""}, PLAN, error=AssertionError)


def test_the_start_loads_parts_of_scipy_only_where_they_are_used():
    """They would take half of the time of ``--help``, or of the first release and of each process that helps to smooth.

    scikit-learn loads some, where OpenDP finds it.
    """
    code = (
        "import sys; sys.modules['sklearn'] = None; import opendp_timeseries.ledger; print(*sys.modules);"
        " import opendp_timeseries.reconstruction.smooth, opendp_timeseries.commandline.release; print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, by_smoothing = map(str.split, run.stdout.splitlines())
    parts = {
        "scipy.fft",
        "scipy.linalg",
        "scipy.optimize",
        "scipy.signal",
        "scipy.sparse",
        "scipy.special",
        "scipy.stats",
    }
    assert "scipy" in loaded
    assert not parts & set(loaded)
    slow = {"scipy.interpolate", "scipy.optimize", "scipy.signal", "scipy.stats"}
    assert not slow & set(by_smoothing)
