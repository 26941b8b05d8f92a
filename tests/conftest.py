"""Shared set-up: OpenDP's features, and the spaces that most tests start from."""

import os

# Before NumPy is loaded, here or in the workers: each of them has one processor, and BLAS's threads would fight for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import opendp.prelude as dp
import pytest
from hypothesis import HealthCheck, settings

import opendp_timeseries as ts

dp.enable_features("contrib", "honest-but-curious")

# However busy the machine is. `--hypothesis-profile=long` draws fifteen times as many examples.
for profile, examples in (("short", 20), ("long", 300)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("short")


@pytest.fixture
def log_space():
    """Event logs with columns ``id`` and ``time``, individuals added or removed."""
    return ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
