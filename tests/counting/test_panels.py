"""Panels: one capped count over all series, filtered by series, released by key."""

import datetime as dt
import decimal
import enum

import numpy as np
import opendp.prelude as dp
import pyarrow as pa
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.plugin.spaces import influence_space
from tests.counting.tables import ENGINES, count_of
from tests.refused import refuses

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
GRID = ts.TimeGrid(size=3)
ROWS = {
    "id": np.array([1, 1, 2, 2, 3, 3, 4]),
    "time": np.array([0, 1, 0, 0, 2, 9, 1]),
    "venue": np.array(["a", "b", "a", "a", "c", "a", "elsewhere"]),
}


def panel(space, cap=6, keys=("a", "b", "c", "nobody"), **kwargs):
    return space >> ts.then_participation_count(
        GRID, participation_cap=cap, by="venue", keys=keys, **kwargs, excess="drop"
    )


def test_integer_keys(log_space):
    table = ROWS | {"venue": np.array([5, 6, 5, 5, 7, 5, 300], dtype=np.int16)}
    keys = [5, np.int64(6), 7, 10**9]
    assert list(panel(log_space, keys=keys)(table)) == [2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert list(panel(log_space, keys=["5", "N5"])(table)) == [2, 0, 0, 0, 0, 0]  # compared as text
    named = enum.IntEnum("Venue", {"first": 5, "second": 6})
    assert panel(log_space, keys=list(named)).output_metric == panel(log_space, keys=[5, 6]).output_metric
    as_text = enum.Enum("Venue", {"first": "5", "second": "6"}, type=str)
    assert panel(log_space, keys=list(as_text)).output_metric == panel(log_space, keys=["5", "6"]).output_metric
    texts = table | {"venue": table["venue"].astype(str)}
    assert list(panel(log_space, keys=keys)(texts)) == list(panel(log_space, keys=keys)(table))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_integer_keys_are_found_whatever_their_order(log_space, kind):
    limits = np.iinfo(kind)
    listed = [int(limits.max), int(limits.min), 7, 3, int(limits.min) - 1, int(limits.max) + 1]
    venues = np.array([7, 3, 5, limits.min, limits.max, 7, limits.max], dtype=kind)
    counts = np.array(panel(log_space, keys=listed, step_cap=9)(ROWS | {"venue": venues})).reshape(6, 3)
    expected = np.zeros((6, 3), dtype=int)
    for when, venue in zip(ROWS["time"].tolist(), venues.tolist(), strict=True):
        if when < 3 and venue in listed:
            expected[listed.index(venue), when] += 1
    assert counts.tolist() == expected.tolist()


DAYS = [dt.date(2024, 3, 1), dt.date(2024, 3, 2)]
SPELLINGS = {
    "int64": ([7, 8], pa.int64(), ["7", "8"], ["007", "+7", " 7", "7.00", "7e0"]),
    "uint8": ([7, 8], pa.uint8(), ["7", "8"], ["07"]),
    "double": ([7.5, 8], pa.float64(), ["7.5", "8"], ["7.50", "08", "+8"]),
    "decimal": ([decimal.Decimal(7), decimal.Decimal(8)], pa.decimal128(5, 0), ["7", "8"], ["07"]),
    "bool": ([True, False], pa.bool_(), ["True", "False"], ["true", "0", "t", "No"]),
    "date": (DAYS, pa.date32(), ["2024-03-01", "2024-03-02"], ["20240301", "2024-03-01T00:00"]),
    "string": (["007", " 7"], pa.string(), ["007", " 7"], []),
}


OBJECTS = [("numpy", "decimal"), ("pandas", "decimal"), ("pandas", "date")]  # one row may change their type


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_its_column_spells_otherwise_is_refused_by_type(engine, kind):
    values, own, good, bad = SPELLINGS[kind]
    log = ENGINES[engine](pa.table({"id": [1, 2], "t": [0, 1], "by": pa.array(values, own)}))

    def count(*keys):
        return engine_of(log).count(log, count_of("id", "t", ts.TimeGrid(size=2), "by", keys), bytes(16)).tolist()

    assert count(*good, "N7") == [1, 0, 0, 1, 0, 0]  # nobody is at N7, which is true
    for key in bad:
        if (engine, kind) in OBJECTS:
            assert count(key, "N7") == [0, 0, 0, 0]
        else:
            refuses(f"key {key!r}", count, key, "N7", error=TypeError)


def test_maps_know_the_panel(log_space):
    count = panel(log_space, cap=7)
    assert influence_space(count.output_metric).panel_size == 4
    assert count.map(1).l0 == 7
    assert panel(log_space, cap=100).map(1).l0 == 12
    assert (panel(log_space) >> ts.then_lp_distance(dp.l1_distance(T=int))).map(1) == 6


@pytest.mark.parametrize(("change", "message"), [
    ({"keys": None}, r"^by"), ({"by": None}, r"^by"),
    ({"keys": "abc"}, r"^keys"), ({"keys": {"a", "b"}}, r"^keys"),
    ({"keys": 5}, r"^keys"), ({"by": 3}, r"^by"), ({"by": "time"}, r"^by"),
    ({"keys": []}, r"^keys of the panel"), ({"keys": ["a", "a"]}, r"^keys of the panel"),
    ({"keys": ["1", "1.0"]}, r"^keys"),
    ({"keys": ["a", 1]}, r"^keys of the panel"),
    ({"keys": ["a", ""]}, r"^keys of the panel.*''"),
    ({"keys": [True]}, r"^keys of the panel"), ({"keys": [1.5]}, r"^keys of the panel"),
])  # fmt: skip
def test_keys_are_checked_at_construction(log_space, change, message):
    good = {"by": "venue", "keys": ["a", "b"], "participation_cap": 2}
    with pytest.raises((TypeError, ValueError), match=message):
        ts.make_participation_count(*log_space, GRID, **(good | change), excess="drop")


def test_a_column_that_cannot_tell_series_apart_is_refused_by_type(log_space):
    with pytest.raises(dp.OpenDPException, match="column 'venue' of type"):
        panel(log_space)(ROWS | {"venue": np.zeros(7, "V8")})
    with pytest.raises(dp.OpenDPException, match="column 'venue'"):
        panel(log_space)({"id": ROWS["id"], "time": ROWS["time"]})


def test_a_panel_that_is_too_large_is_refused_at_construction(log_space):
    huge = ts.TimeGrid(size=2**30)
    with pytest.raises(ValueError, match="size of the panel"):
        ts.make_participation_count(
            *log_space, huge, participation_cap=1, by="venue", keys=["a", "b", "c"], excess="drop"
        )
