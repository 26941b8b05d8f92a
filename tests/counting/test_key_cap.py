"""At each step an individual counts in few series of a panel, in every engine; and other people make no difference."""

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting import capped_count as module
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of_series
from tests.refused import refuses

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

GRID, KEYS = TimeGrid(size=6), ["a", "b", "c", "d"]


def test_series_are_chosen_alike_and_many_series_do_not_keep_a_step():
    # One individual in all four series at step 0 and in one at each other; a cap of 3 steps of 6. A step must not be
    # kept more often because the best of four hashes stands for it. 1,500 keys: 5 standard errors fail once in 10^5.
    rows = [(0, 0), (0, 6), (0, 12), (0, 18), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    who, steps = (np.array(column) for column in zip(*rows, strict=True))
    count, kept = count_of_series(24, 4, participation_cap=3, step_cap=1, key_cap=1), np.zeros(24)
    for k in range(1500):
        kept += module.capped_count(who, steps, count, k.to_bytes(16, "little"))
    by_moment = kept.reshape(4, 6).sum(axis=0)
    assert np.all(np.abs(by_moment / 1500 - 0.5) < 5 * 0.5 / 1500**0.5)
    assert np.all(np.abs(kept[::6] / by_moment[0] - 0.25) < 5 * 0.433 / by_moment[0] ** 0.5)


def test_a_key_cap_is_public_and_of_a_panel(log_space):
    panel = {"by": "v", "keys": ["a"]}
    for given, error, words in (
        ({"key_cap": 1}, ValueError, "key_cap"),
        (panel | {"key_cap": 0}, ValueError, "key_cap"),
        (panel | {"key_cap": 1.5}, TypeError, "key_cap"),
    ):
        refuses(words, ts.make_participation_count, *log_space, GRID, error=error, participation_cap=1, **given)


def test_the_check_says_what_it_leaves_out():
    log = {"id": np.zeros(4, int), "t": np.zeros(4, int), "venue": np.array(["a", "b", "c", "d"])}
    named = {"identifier": "id", "time": "t", "grid": GRID, "participation_cap": 9, "by": "venue", "keys": KEYS}
    assert ts.check_log(log, **named).events_lost_share == 0
    assert (found := ts.check_log(log, **named, key_cap=1)).events_lost_share == 0.75
    assert str(found).endswith("by the caps on steps, on keys at a time and on events in a step")
