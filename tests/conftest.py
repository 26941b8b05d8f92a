"""Shared set-up: OpenDP's features, and the spaces that most tests start from."""

import opendp.prelude as dp
import pytest

import opendp_timeseries as ts

dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture
def log_space():
    """Event logs with columns ``id`` and ``time``, individuals added or removed."""
    return ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
