"""The documentation: its code runs, prints what it says it prints, and its links lead somewhere.

The blocks of a page run in order, in one namespace, in an empty folder: ``python`` blocks are executed, ``pycon``
blocks are doctests, and ``python -m opendp_timeseries`` commands in ``bash`` blocks go to the command line. A comment
behind a ``print(…)`` is what it prints, with ``…`` for what is left out. A block right after a line
``<!-- not run: reason -->`` is left out, and one after ``<!-- needs: package -->`` where the package is not installed.
"""

import ast
import collections
import contextlib
import doctest
import importlib.util
import inspect
import io
import re
import runpy
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

import opendp_timeseries as ts
import opendp_timeseries.datasets
import opendp_timeseries.koga2022
from opendp_timeseries.__main__ import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / ".github").rglob("*.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if not {"_build", "notebooks"} & set(page.parts)),
]
FENCE = re.compile(r"(?P<fence>`{3,})(?P<language>[^`]*)")
MARK = re.compile(r"<!-- (?:not run: \S[^>]*|needs: (?P<package>\w+)) -->")
LINK = re.compile(r"(?<!`)\]\((?P<target>[^)\s]+)\)")
COMMAND = "python -m opendp_timeseries"
AS_PRINTED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    language: str
    code: str
    line: int
    runs: bool
    needs: str | None = None


def blocks(text):
    """Fenced blocks of a page, each with the number of lines before its code. Fences must begin their lines."""
    found, lines, mark = [], iter(enumerate(text.splitlines(), 1)), None
    for number, line in lines:
        opening = FENCE.fullmatch(line)
        assert opening or not line.lstrip().startswith("```"), f"line {number}: this fence is not understood"
        assert opening or not mark, f"line {number}: {mark[0]} must stand right before a block"
        if opening:
            code = []
            for _, inner in lines:
                if inner == opening["fence"]:
                    break
                code.append(inner)
            else:
                raise AssertionError(f"line {number}: the block is not closed")
            needs = mark and mark["package"]
            runs = not mark or needs is not None
            found.append(Block(opening["language"], "".join(f"{inner}\n" for inner in code), number, runs, needs))
        mark = MARK.fullmatch(line)
        assert mark or opening or not re.search("<!--.*(not run|needs)", line), (
            f"line {number}: <!-- not run: reason --> or <!-- needs: package --> is meant"
        )
    assert not mark, f"{mark[0]} must stand right before a block"
    return found


def prose(text):
    """The page without its blocks."""
    lines = text.splitlines()
    for block in blocks(text):
        lines[block.line : block.line + block.code.count("\n")] = [""] * block.code.count("\n")
    return "\n".join(lines)


def execute(page, block, namespace):
    """Run a block, and compare what each ``print(…)  # comment`` prints with its comment."""
    # Blank lines first, so that a traceback names the line of the page.
    code = "\n" * block.line + block.code
    lines = code.splitlines()
    for statement in ast.parse(code, page).body:
        run = compile(ast.Module([statement], []), page, "exec")
        match statement:
            case ast.Expr(ast.Call(ast.Name("print"))):
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(run, namespace)
                rest = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
                said, got = rest.strip().removeprefix("#").strip(), printed.getvalue()
                if said:
                    same = doctest.OutputChecker().check_output(f"{said.replace('…', '...')}\n", got, AS_PRINTED)
                    assert same, f"{page}:{statement.end_lineno} prints {got!r}, not {said!r}"
            case _:
                exec(run, namespace)


def run(page, text):
    """Run the blocks of a page; return which packages are not there for some of them."""
    namespace, missing = {"__name__": "__main__"}, set()
    for block in blocks(text):
        if not block.runs:
            continue
        if block.needs is not None and importlib.util.find_spec(block.needs) is None:
            missing.add(block.needs)
            continue
        if block.language == "python":
            execute(page, block, namespace)
        elif block.language == "pycon":
            session = doctest.DocTestParser().get_doctest(block.code, namespace, page, page, block.line)
            # Unlike a plain runner's, a debug runner's first failure is an exception.
            doctest.DebugRunner(optionflags=AS_PRINTED).run(session, clear_globs=False)
            namespace.update(session.globs)
        elif block.language == "bash" and block.code.startswith(COMMAND):
            assert main(shlex.split(block.code.removeprefix(COMMAND).replace("\\\n", " "))) == 0
    return missing


def name(page):
    return page.relative_to(ROOT).as_posix()


def has_code(page):
    return any(block.language in ("python", "pycon") and block.runs for block in blocks(page.read_text("utf-8")))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # of Ibis's own calls into DuckDB
@pytest.mark.filterwarnings("ignore:The default of config:FutureWarning")  # of every forecaster of sktime 1.2
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # of Prophet 1.5 about pandas 3.1
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if has_code(p)],
    ids=name,
)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    missing = run(str(page), page.read_text("utf-8"))
    if missing:  # the rest ran
        pytest.skip(f"blocks that need {', '.join(sorted(missing))}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    targets = [match["target"].partition("#")[0] for match in LINK.finditer(prose(page.read_text("utf-8")))]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


ENTRY = re.compile(
    r"^\.\. auto(?P<kind>module|class|function|data):: (?P<name>[\w.]+).*(\n +:members:(?P<members>.*))?", re.MULTILINE
)


def described(text):
    """What a page of the reference describes; of whole modules, their members."""
    for entry in ENTRY.finditer(text):
        module, _, short = f"opendp_timeseries.{entry['name'].removeprefix('opendp_timeseries.')}".rpartition(".")
        if entry["kind"] != "module":
            yield getattr(importlib.import_module(module), short)
            continue
        module = importlib.import_module(f"{module}.{short}")
        for member in entry["members"].replace(",", " ").split() or module.__all__:
            yield getattr(module, member)


def test_every_public_name_is_described_once():
    pages = sorted((DOCS / "reference").glob("*.md"))
    things = [thing for page in pages for thing in described(page.read_text("utf-8"))]
    names = [
        f"{thing.__module__}.{thing.__name__}"
        for thing in things
        if inspect.isfunction(thing) or inspect.isclass(thing)
    ]
    assert [name for name, times in collections.Counter(names).items() if times > 1] == []
    public = {name: getattr(room, name) for room in (ts, ts.koga2022, ts.datasets) for name in room.__all__}
    # The form then_x stands with make_x, where the page is built.
    forms = {name for name in public if name.startswith("then_") and name.replace("then_", "make_", 1) in public}
    assert [name for name in public.keys() - forms if public[name] not in things] == []


def test_every_page_is_on_the_map_once():
    trees = [
        (page.parent, block.code)
        for page in (DOCS / "index.md", DOCS / "proofs" / "index.md")
        for block in blocks(page.read_text("utf-8"))
        if block.language == "{toctree}"
    ]
    listed = [
        folder / f"{entry}.md"
        for folder, code in trees
        for entry in code.splitlines()
        if entry and not entry.startswith((":", "notebooks/", "*"))
    ]
    proofs = set((DOCS / "proofs").glob("*.md")) - {DOCS / "proofs" / "index.md"}  # the tree there takes all
    pages = {page for page in PAGES if page.is_relative_to(DOCS)} - proofs - {DOCS / "index.md"}
    assert sorted(listed) == sorted(pages)
    notebooks = [entry for _, code in trees for entry in code.splitlines() if entry.startswith("notebooks/")]
    assert sorted(notebooks) == sorted(f"notebooks/{file.stem}" for file in (ROOT / "notebooks").glob("*.ipynb"))


def test_what_is_cited_is_this_version():
    for page, line in ((ROOT / ".github" / "CITATION.cff", "version: {}"), (ROOT / "README.md", "version = {{{}}},")):
        assert line.format(ts.__version__) in (text.strip() for text in page.read_text("utf-8").splitlines())


LEFT_OUT = "<!-- not run: a reason -->\n"
NEEDS = "<!-- needs: pytest -->\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("```pycon\n>>> 1 + 1\n3\n```\n", doctest.DocTestFailure),
        ("```pycon\n>>> 1 / 0\n```\n", doctest.UnexpectedException),
        ("```python\nx = 1\n```\n```pycon\n>>> x\n1\n>>> y\n```\n", doctest.UnexpectedException),
        # One comment leaves out one block, and only where it stands right before it.
        (f"{LEFT_OUT}```python\nx\n```\n```python\n1 / 0\n```\n", ZeroDivisionError),
        (f"{LEFT_OUT}```sh\nx\n```\ntext\n```python\n1 / 0\n```\n\n{LEFT_OUT}```sh\nx\n```\n", ZeroDivisionError),
        (f"```sh\n{LEFT_OUT}```\n```python\n1 / 0\n```\n", ZeroDivisionError),
        (f"{LEFT_OUT}\n```python\nx = 1\n```\n", AssertionError),
        (f"{LEFT_OUT}", AssertionError),
        ("<!-- not run -->\n```python\nx = 1\n```\n", AssertionError),
        ("<!-- not run: --> <!-- x -->\n```python\nx = 1\n```\n", AssertionError),
        (f"{NEEDS}```python\n1 / 0\n```\n", ZeroDivisionError),
        (f"{NEEDS}\n```python\nx = 1\n```\n", AssertionError),
        ("<!-- needs: -->\n```python\nx = 1\n```\n", AssertionError),
        ("```python\nx = 1\n", AssertionError),
        ("* a list\n  ```python\n  1 / 0\n  ```\n", AssertionError),
        # What is printed is what the comment says.
        ("```python\nprint(2)  # 3\n```\n", AssertionError),
        ("```python\nprint(2.5)  # 2…6\n```\n", AssertionError),
        ("```python\nprint(\n    2\n)  # 3\n```\n", AssertionError),
        ("```python\nprint('σ', 2)  # σ 3\n```\n", AssertionError),
    ],
)
def test_broken_pages_are_caught(text, error):
    with pytest.raises(error):
        run("page.md", text)


def test_blocks_said_not_to_run_do_not():
    run("page.md", f"{LEFT_OUT}```python\n1 / 0\n```\n```sh\nfalse\n```\n")


def test_blocks_that_need_what_is_not_here_do_not_run():
    assert run("page.md", "<!-- needs: nobody_has_this -->\n```python\n1 / 0\n```\n") == {"nobody_has_this"}


def test_right_pages_pass():
    run("page.md", "````text\n```python\n1 / 0\n```\n````\n```python\nprint('σ', 2.53)  # σ 2.5…\nprint(2)\n```\n")


@pytest.mark.long
def test_figures_are_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    runpy.run_path(str(DOCS / "figures" / "draw.py"))["draw"](tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in (DOCS / "figures").glob("gallery-*.png")}
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert not [name for name in names if f"figures/{name})" not in text]
