"""Shared set-up: OpenDP's features, and the spaces that most tests start from."""

import gc
import os
import sys
from collections import Counter

# Before NumPy is loaded, here or in the workers: each of them has one processor, and BLAS's threads would fight for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Messages of argparse are compared, which Python 3.14 colours where services for tests ask for it.
os.environ["PYTHON_COLORS"] = "0"

import pytest
from hypothesis import HealthCheck, settings

from tests.snapshots import Snapshots

# Python would look for garbage in all that is imported and collected, again and again, for a sixth of that time.
gc.set_threshold(100_000, 20, 20)

# However busy the machine is. `--hypothesis-profile=long` draws 25 times as many examples.
for profile, examples in (("short", 12), ("long", 300)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("short")


def pytest_collection():
    """Enable OpenDP's features, but not in the process that only deals tests out: workers would wait for the import."""
    # OpenDP imports scikit-learn where it is installed, which takes a second in each worker and serves nothing here.
    unknown = sys.modules.setdefault("sklearn", None) is None
    import opendp.prelude as dp

    if unknown:
        del sys.modules["sklearn"]
    dp.enable_features("contrib", "honest-but-curious")


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write snapshots anew, instead of comparing with them")


@pytest.fixture
def snapshot(request):
    """What is said, in files beside the tests."""
    return Snapshots(request.path.parent / "snapshots", update=request.config.getoption("update"))


@pytest.fixture
def log_space():
    """Event logs with columns ``id`` and ``time``, individuals added or removed."""
    import opendp.prelude as dp

    import opendp_timeseries as ts

    return ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is left out of the ordinary suite as long: of a test that is thinned, all but every so many cases."""
    ordinal = Counter()
    for item in items:
        thinned = item.get_closest_marker("thinned")
        if thinned and not item.get_closest_marker("long"):
            test = item.path, item.originalname
            if ordinal[test] % thinned.args[0] and item.callspec.id not in thinned.kwargs.get("keep", ()):
                item.add_marker(pytest.mark.long)
            ordinal[test] += 1
