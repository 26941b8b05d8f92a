"""OpenDP's own tests of Contexts, user-made stages and metrics, run with ``ts.compositor`` in the place of OpenDP's.

    python tests/test_opendp.py PATH  # of a checkout of OpenDP, or of its folder python

They are read and run where they are. Each test that passes with ``dp.Context.compositor`` must pass with
``ts.compositor``, but for those in :data:`DIFFERENCES`, which the page *For OpenDP users* lists with their reasons.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "howto" / "for-opendp-users.md"
FILES = ("context", "test_usability.py", "test_user_transform.py", "test_metrics.py", "test_comb.py")
WITH_POLARS = (*FILES, "test_polars.py", "polars", "mbi/test_table.py", "extras/test_canonical_noise.py")
#: Tests that fail with ``ts.compositor`` alone, each with the reason.
DIFFERENCES = {
    "context/test_context.py::test_filter_pure_dp": "expects that a query above what is left ends the filter, with"
    " OpenDP's message; `ts.compositor` refuses the query with the numbers, and the filter goes on",
    "test_usability.py::test_iterable_data": "expects an `UnknownTypeException` for a `range`, which OpenDP means to"
    " take some day; `ts.compositor` raises a `TypeError` that says which `domain=` is missing",
}
OUTCOMES, OURS = "OUTCOMES_OF_OPENDPS_TESTS", "OPENDPS_TESTS_WITH_OURS"
outcomes: dict[str, str] = {}


# --- within the process that runs OpenDP's tests, which loads this file as a plugin ---


def pytest_configure():
    if OURS in os.environ:
        import opendp.prelude as dp

        import opendp_timeseries as ts

        dp.Context.compositor = ts.compositor


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        name = re.sub("^(?:.*/)?test/", "", report.nodeid)
        outcomes[name] = report.outcome if not hasattr(report, "wasxfail") else "passed"


def pytest_sessionfinish():
    if place := os.environ.get(OUTCOMES):
        Path(place).write_text(json.dumps(outcomes), encoding="utf-8")


# --- around it ---


def run(folder, files, *, ours):
    """Return the outcome of each of OpenDP's tests."""
    with tempfile.TemporaryDirectory() as place:
        found = Path(place, "outcomes.json")
        environment = os.environ | {OUTCOMES: str(found), "PYTHONPATH": str(ROOT)} | ({OURS: "1"} if ours else {})
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.test_opendp"]
        command += ["-c", ".pytest.ini", "--tb=no", *(f"test/{name}" for name in files)]
        subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)
        return json.loads(found.read_text("utf-8"))


def differences(folder, files=FILES):
    """Return how many of OpenDP's tests pass, and those that do not with ``ts.compositor``."""
    folder = Path(folder)
    folder = folder if (folder / "test" / "context").exists() else folder / "python"
    theirs, ours = (run(folder, files, ours=which) for which in (False, True))
    passed = {name for name, outcome in theirs.items() if outcome == "passed"}
    return len(passed), {name for name in passed if ours.get(name) != "passed"}


@pytest.mark.long
@pytest.mark.skipif("OPENDP_CHECKOUT" not in os.environ, reason="OPENDP_CHECKOUT does not say where OpenDP's tests are")
def test_opendps_own_tests_pass_with_our_compositor():
    passed, failed = differences(os.environ["OPENDP_CHECKOUT"])
    assert passed > 50
    assert failed == set(DIFFERENCES)


def test_the_page_lists_what_differs():
    rows = re.findall(r"^\| `(\S+::\S+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == DIFFERENCES


if __name__ == "__main__":
    passed, failed = differences(sys.argv[1], WITH_POLARS if "--polars" in sys.argv else FILES)
    print(f"{passed} pass with OpenDP's own compositor, {passed - len(failed)} with ts.compositor; others:")
    print(*sorted(failed), sep="\n")
    sys.exit(failed != set(DIFFERENCES))
