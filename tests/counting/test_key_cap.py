"""At each step an individual counts in few series of a panel, in every engine; and other people make no difference."""

from collections import Counter

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting import capped_count as module
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import caps_of, in_duckdb, in_files
from tests.oracles import counting as oracle

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))
GRID, KEYS = TimeGrid(size=6), ["a", "b", "c", "d"]
PANEL = Layout("id", "t", GRID, "venue", KEYS)


def log_of(seed, rows=400, people=12):
    random = np.random.default_rng(seed)
    venues = random.choice([*KEYS, "elsewhere"], rows)
    return {"id": random.integers(0, people, rows), "t": random.integers(0, 7, rows), "venue": venues}


def rows_of(log):
    columns = (log["id"].tolist(), log["t"].tolist(), log["venue"].tolist())
    return [(who, KEYS.index(v) * GRID.size + t) for who, t, v in zip(*columns, strict=True) if v in KEYS and t < 6]


def count(log, **caps):
    caps = caps_of(PANEL.size, **{"participation_cap": 99, "step_cap": 1} | caps)
    return engine_of(log).count(log, PANEL, caps, KEY)


@pytest.mark.parametrize("chunk", [1, 2**17])
@pytest.mark.parametrize("kind", [dict, in_files], ids=["memory", "files"])
@pytest.mark.parametrize(
    "caps",
    [
        {"key_cap": 1},
        {"key_cap": 2, "step_cap": 2},
        {"key_cap": 1, "participation_cap": 3},
        {"key_cap": 2, "participation_cap": 5, "gap": 2},
        {"key_cap": 9, "participation_cap": 4},
    ],
    ids=str,
)
def test_against_one_individual_at_a_time(caps, kind, chunk, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    log = log_of(len(str(caps)))
    expected = oracle.capped_counts(
        rows_of(log), size=PANEL.size, cycle=GRID.size, key=KEY, **{"participation_cap": 99, "step_cap": 1} | caps
    )
    assert count(kind(log), **caps).tolist() == expected


@pytest.mark.parametrize("key_cap", [1, 2])
def test_a_database_keeps_as_many(key_cap):
    log = log_of(3)
    places = {(who, position % 6): set() for who, position in rows_of(log)}
    for who, position in rows_of(log):
        places[who, position % 6].add(position)
    at_once = Counter()
    for (_, moment), here in places.items():
        at_once[moment] += min(len(here), key_cap)
    table = in_duckdb(log)
    counts = count(table, key_cap=key_cap).reshape(len(KEYS), 6)
    assert counts.sum(axis=0).tolist() == [at_once[moment] for moment in range(6)]
    assert (counts <= count(table).reshape(len(KEYS), 6)).all()
    # With one individual it is seen in every moment, and the gap and the participation cap come afterwards.
    alone = in_duckdb({name: column[log["id"] == 5] for name, column in log.items()})
    one = count(alone, key_cap=key_cap, gap=2, participation_cap=5).reshape(len(KEYS), 6)
    assert one.sum(axis=0).max() <= key_cap
    assert 0 < one.sum() <= 5
    assert (one * np.roll(one, 1, axis=1) == 0).all()


@pytest.mark.parametrize("kind", [dict, in_duckdb], ids=["memory", "database"])
def test_removing_anyone_leaves_everyone_else_as_they_were(kind):
    people = 12 if kind is dict else 3
    log = log_of(8, rows=30 * people, people=people)
    caps = {"key_cap": 1, "participation_cap": 3}
    whole = count(kind(log), **caps)
    parts = [
        count(kind({name: column[log["id"] == who] for name, column in log.items()}), **caps) for who in range(people)
    ]
    assert np.array_equal(whole, np.sum(parts, axis=0))
    assert max(part.reshape(4, 6).sum(axis=0).max() for part in parts) == 1


def test_series_are_chosen_alike_and_many_series_do_not_keep_a_step():
    # One individual in all four series at step 0 and in one at each other; a cap of 3 steps of 6. A step must not be
    # kept more often because the best of four hashes stands for it. 1,500 keys: 5 standard errors fail once in 10^5.
    rows = [(0, 0), (0, 6), (0, 12), (0, 18), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    who, steps = (np.array(column) for column in zip(*rows, strict=True))
    caps, kept = Caps(3, 1, key_cap=1), np.zeros(24)
    for k in range(1500):
        kept += module.capped_count(who, steps, size=24, caps=caps, key=k.to_bytes(16, "little"), cycle=6)
    by_moment = kept.reshape(4, 6).sum(axis=0)
    assert np.all(np.abs(by_moment / 1500 - 0.5) < 5 * 0.5 / 1500**0.5)
    assert np.all(np.abs(kept[::6] / by_moment[0] - 0.25) < 5 * 0.433 / by_moment[0] ** 0.5)


def test_a_key_cap_is_public_and_of_a_panel(log_space):
    with pytest.raises(ValueError, match=r"key_cap \(1\) requires by= and keys="):
        log_space >> ts.then_participation_count(GRID, participation_cap=1, key_cap=1)
    with pytest.raises(ValueError, match=r"key_cap \(0\) must be at least 1"):
        log_space >> ts.then_participation_count(GRID, participation_cap=1, by="v", keys=["a"], key_cap=0)
    with pytest.raises(TypeError, match="key_cap"):
        log_space >> ts.then_participation_count(GRID, participation_cap=1, by="v", keys=["a"], key_cap=1.5)


def test_the_check_says_what_it_leaves_out():
    log = {"id": np.zeros(4, int), "t": np.zeros(4, int), "venue": np.array(["a", "b", "c", "d"])}
    named = {"identifier": "id", "time": "t", "grid": GRID, "participation_cap": 9, "by": "venue", "keys": KEYS}
    assert ts.check_log(log, **named).events_lost_share == 0
    assert ts.check_log(log, **named, key_cap=1).events_lost_share == 0.75
