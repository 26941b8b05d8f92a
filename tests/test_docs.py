"""The documentation: its code runs, and its links lead somewhere.

The blocks of a page run in order, in one namespace, in an empty folder: ``python`` blocks are executed, ``pycon``
blocks are doctests, and ``python -m opendp_timeseries`` commands in ``bash`` blocks go to the command line. A block
right after the comment ``<!-- not run: reason -->`` is left out.
"""

import doctest
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if not {"_build", "notebooks"} & set(page.parts)),
]
FENCE = re.compile(
    r"(?P<not_run><!-- not run: .+ -->\s*\n)?^(?P<fence>```+)(?P<language>\w+)\n(?P<code>.*?)^(?P=fence)$", re.M | re.S
)
LINK = re.compile(r"(?<!`)\]\((?P<target>[^)\s]+)\)")
COMMAND = "python -m opendp_timeseries"


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(text):
    return [
        Block(match["language"], match["code"], text.count("\n", 0, match.start("code")))
        for match in FENCE.finditer(text)
        if not match["not_run"]
    ]


def run(page, text):
    namespace = {"__name__": "__main__"}
    for block in blocks(text):
        if block.language == "python":
            # Blank lines first, so that a traceback names the line of the page.
            exec(compile("\n" * block.line + block.code, page, "exec"), namespace)
        elif block.language == "pycon":
            session = doctest.DocTestParser().get_doctest(block.code, namespace, page, page, block.line)
            runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            # Unlike a plain runner's, a debug runner's first failure is an exception.
            runner.run(session, clear_globs=False)
            namespace.update(session.globs)
        elif block.language == "bash" and block.code.startswith(COMMAND):
            assert main(shlex.split(block.code.removeprefix(COMMAND).replace("\\\n", " "))) == 0


def name(page):
    return page.relative_to(ROOT).as_posix()


def has_code(page):
    return any(block.language in ("python", "pycon") for block in blocks(page.read_text("utf-8")))


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # of Ibis's own calls into DuckDB
@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run(str(page), page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    targets = [match["target"].partition("#")[0] for match in LINK.finditer(text)]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_public_name_is_on_the_api_page():
    described = (DOCS / "api.md").read_text("utf-8")
    names = [name.replace("then_", "make_", 1) for name in ts.__all__]
    modules = [getattr(ts, name).__module__ for name in ts.__all__]
    # Described by itself, or with all of its module.
    missing = [n for n, module in zip(names, modules, strict=True) if n not in described and module not in described]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("```pycon\n>>> 1 + 1\n3\n```\n", doctest.DocTestFailure),
        ("```pycon\n>>> 1 / 0\n```\n", doctest.UnexpectedException),
        ("```python\nx = 1\n```\n```pycon\n>>> x\n1\n>>> y\n```\n", doctest.UnexpectedException),
    ],
)
def test_broken_pages_are_caught(text, error):
    with pytest.raises(error):
        run("page.md", text)


def test_blocks_said_not_to_run_do_not():
    run("page.md", "<!-- not run: needs a file -->\n```python\n1 / 0\n```\n```sh\nfalse\n```\n")
