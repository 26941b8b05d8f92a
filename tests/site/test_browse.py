"""The browser that opens the site notices what is broken, and nothing else."""

import subprocess
import sys

import pytest

from tests.site import browse
from tests.site.browse import browser_here, faults

pytest.importorskip("playwright")
executable = browser_here()
pytestmark = [pytest.mark.long, pytest.mark.skipif(executable is None, reason="there is no browser")]

PIXEL = '<img src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7" loading="lazy">'
LINKS = '<a href="other.html#place">x</a> <a href="#here" id="here">x</a> <a href="https://example.org">x</a>'
RIGHT = {
    "other": '<h1 id="place">Other</h1>',
    "right": f"{PIXEL}{LINKS}<script>console.log(1)</script>",
    "scrolled": f'<div style="overflow-x: auto"><pre>{"code " * 200}</pre></div>',
}


def table(cells, box=""):
    return f'<div {box}><table style="white-space: nowrap"><tr>{"<td>cell" * cells}</table></div>'


BROKEN = [
    ('<img src="none.png">', "does not show …/none.png"),
    ('<p style="height: 9000px"><img src="none.png" loading="lazy">', "does not show …/none.png"),
    ('<link rel="stylesheet" href="none.css">', "does not get …/none.css"),
    ("<script>nobody.knows()</script>", "script: nobody is not defined"),
    ("<script>console.error('broken')</script>", "console: broken"),
    ('<a href="none.html">x</a>', "leads nowhere: …/none.html"),
    ('<a href="other.html#nowhere">x</a>', "leads nowhere: …/other.html#nowhere"),
    ('<a href="../">x</a>', "leads nowhere: "),
    ('<script src="https://example.org/library.js"></script>', "leaves for https://example.org/library.js"),
    (table(20), "px wider than 390 px: <td> cell"),
    (table(60), "px wider than 1280 px: <td> cell"),
    (table(60, 'class="table-wrapper" style="overflow-x: auto"'), "hides a part of the table cellcell"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The faults of a site of all these pages, in one text for each page."""
    site = tmp_path_factory.mktemp("site")
    pages = RIGHT | {f"broken{case}": body for case, (body, _) in enumerate(BROKEN)}
    for name, body in pages.items():
        (site / f"{name}.html").write_text(f'<!doctype html><meta charset="utf-8"><title>x</title>{body}', "utf-8")
    lines = [fault.replace(site.resolve().as_uri(), "…") for fault in faults(site, executable)]
    return {name: "\n".join(line for line in lines if line.startswith(f"{name}.html ")) for name in pages}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_page_has_no_faults(found, name):
    assert found[name] == ""


@pytest.mark.parametrize("case", range(len(BROKEN)))
def test_a_broken_page_is_noticed(found, case):
    assert BROKEN[case][1] in found[f"broken{case}"]


def test_a_search_that_finds_nothing_is_noticed(tmp_path):
    (tmp_path / "search.html").write_text('<!doctype html><title>x</title><ul id="search-results"></ul>', "utf-8")
    assert list(faults(tmp_path, executable, searched="word")) == ["search.html does not find word"]


def test_a_page_that_does_not_fit_on_one_sheet_is_noticed(tmp_path):
    for name, lines in (("short", 9), ("long", 99)):
        (tmp_path / f"{name}.html").write_text(f"<!doctype html><title>x</title>{'<p>line' * lines}", "utf-8")
    assert list(faults(tmp_path, executable, one_sheet="short.html")) == []
    assert "long.html takes " in "".join(faults(tmp_path, executable, one_sheet="long.html"))


def test_a_page_that_never_rests_ends_the_command_and_loses_no_fault(tmp_path):
    busy = "<script>onload = () => setTimeout(() => { while (true); }, 0)</script>"
    for name, body in (("a", '<img src="none.png">'), ("b", busy)):
        (tmp_path / f"{name}.html").write_text(f"<!doctype html><title>x</title>{body}", "utf-8")
    command = [sys.executable, browse.__file__, str(tmp_path), "--limit", "10"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "a.html does not show " in ended.stdout
    assert "Timeout" in ended.stderr


def test_a_site_without_pages_is_no_right_one(tmp_path):
    ended = subprocess.run([sys.executable, browse.__file__, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "there is no page" in ended.stderr
