"""The count as an OpenDP transformation: same counts from every table, maps of every metric, refusals."""

import itertools

import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.plugin import participation_count
from tests.refused import refuses

HOURS = ts.TimeGrid(size=4, start="1969-12-31T22:00", step="1h", zone="America/New_York")
IDS = ["ann", "bob", "ann", None, "cy"]
LOCAL = ["1969-12-31T22:30", "1969-12-31T23:59:59", "1970-01-01T01:00", "1969-12-31T22:00", "NaT"]


def tables():
    ids, times = np.array(IDS, dtype=object), np.array(LOCAL, dtype="datetime64[ms]")
    yield "numpy", {"id": ids, "time": times}
    frame = pd.DataFrame({"id": IDS, "time": pd.to_datetime(LOCAL, format="mixed")})
    yield "pandas", frame
    yield "pandas category", frame.astype({"id": "category"})
    yield "pandas aware", frame.assign(time=frame["time"].dt.tz_localize("America/New_York").dt.tz_convert("UTC"))
    yield "pyarrow", pa.table({"id": IDS, "time": times})
    yield "polars", pl.DataFrame({"id": IDS, "time": times})
    yield (
        "polars lazy aware",
        pl.LazyFrame({"id": IDS, "time": times}).with_columns(pl.col("time").dt.replace_time_zone("America/New_York")),
    )


@pytest.mark.parametrize(("name", "table"), list(tables()))
def test_every_table_gives_the_same_counts(log_space, name, table):
    count = log_space >> ts.then_participation_count(HOURS, participation_cap=4)
    assert list(count(table)) == [1, 1, 0, 1]
    assert log_space[0].member(table)


def test_aware_times_are_converted_and_naive_ones_need_a_zone(log_space):
    aware = pa.table({"id": [1], "time": pa.array([0], pa.timestamp("s", tz="Asia/Tokyo"))})
    naive = {"id": np.array([1]), "time": np.array([0], dtype="datetime64[s]")}
    without = ts.TimeGrid(size=2, start="1970-01-01T00:00Z", step="1h")
    count = log_space >> ts.then_participation_count(without, participation_cap=1)
    assert list(count(aware)) == [1, 0]
    refuses("carry no zone and the grid has none", count, naive, error=dp.OpenDPException)


def test_the_map_states_the_stability_of_the_caps(log_space):
    def count(space=log_space):
        caps = {"participation_cap": 4, "step_cap": 3, "excess": "drop"}
        return space >> ts.then_participation_count(ts.TimeGrid(size=9), **caps)

    assert count().map(2) == Influence(l0=4, l2=6.0, linf=3.0, individuals=2, majorant=Majorant(np.full(4, 3.0)))
    assert count((log_space[0], dp.change_one_distance())).map(1).l0 == 8
    assert count().map(0).individuals == 0


def test_a_gap_is_in_the_influence_and_bounds_the_steps(log_space):
    def count(gap, space=log_space, **more):
        caps = {"participation_cap": 4, "gap": gap, "excess": "drop"}
        return space >> ts.then_participation_count(ts.TimeGrid(size=9), **caps, **more)

    replaced = log_space[0], dp.change_one_distance()
    assert count(2).map(1) == Influence(l0=4, l2=2.0, linf=1.0, gap=2, majorant=Majorant(np.ones(4)))
    assert count(np.int64(4)).map(1).l0 == 2  # of nine steps around the clock, two at most lie four apart
    assert count(4).map(3).individuals == 3
    assert count(4, by="key", keys=["a", "b"]).map(1).l0 == 4
    assert (count(4, replaced).map(1).l0, count(4, replaced).map(1).replaced) == (4, True)
    assert count(1).map(1).gap == 1


def test_a_gap_is_enforced_around_the_cycle(log_space):
    log = {"id": np.repeat(["ann", "bob"], [5, 2]), "time": np.array([0, 2, 3, 5, 8, 1, 7])}
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=9), participation_cap=9, gap=3)
    assert list(count(log)) == [1, 1, 0, 1, 0, 0, 0, 1, 0]
    once = log_space >> ts.then_participation_count(ts.TimeGrid(size=1), participation_cap=1, gap=1)
    assert list(once(log)) == [1]


@pytest.mark.parametrize("cap", [np.int32(65536), np.int64(2), np.uint8(3), 2**80])
def test_numpy_integers_are_integers(log_space, cap):
    caps = {"participation_cap": cap, "step_cap": cap}
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=5), **caps, excess="drop")
    assert count.map(1).linf == float(cap)
    assert count.map(1).l0 == min(int(cap), 5)


def test_the_key_is_fresh_for_every_release(log_space):
    log = {"id": np.zeros(1000, dtype=np.int64), "time": np.arange(1000)}
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=1000), participation_cap=1, excess="drop")
    kept = [int(np.flatnonzero(count(log))[0]) for _ in range(20)]
    assert len(set(kept)) > 10  # equal with probability below 1e-20


def test_leaving_one_person_out_changes_only_their_steps(log_space, monkeypatch):
    monkeypatch.setattr(participation_count, "fresh_key", lambda: b"0123456789abcdef")
    rng = np.random.default_rng(3)
    log = {"id": rng.integers(0, 200, 3000), "time": rng.integers(0, 40, 3000)}
    caps = {"participation_cap": 3, "step_cap": 2, "excess": "drop"}
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=40), **caps)
    whole = np.array(count(log))
    for person in range(200):
        others = log["id"] != person
        change = whole - np.array(count({name: column[others] for name, column in log.items()}))
        assert np.count_nonzero(change) <= 3
        assert change.min() >= 0
        assert change.max() <= 2


def test_what_one_person_keeps_depends_on_nobody_else(log_space, monkeypatch):
    monkeypatch.setattr(participation_count, "fresh_key", lambda: b"fedcba9876543210")
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=30), participation_cap=2)
    rng = np.random.default_rng(4)
    people = {person: rng.integers(0, 30, 10) for person in range(30)}

    def counts(some):
        ids = np.concatenate([np.full(10, person) for person in some])
        return np.array(count({"id": ids, "time": np.concatenate([people[person] for person in some])}))

    alone = {person: counts([person]) for person in people}
    assert np.array_equal(counts(list(people)), sum(alone.values()))
    assert np.array_equal(counts(list(people)[::-1]), sum(alone.values()))


def test_anchors_never_come_from_the_data(log_space):
    # Two-day steps; B's counts are the same whether or not A is there.
    grid = ts.TimeGrid(size=5, start="2024-01-01", step="2d", zone="UTC")
    count = log_space >> ts.then_participation_count(grid, participation_cap=5)
    days = [f"2024-01-0{day}" for day in (1, 5, 6, 9)]
    log = {"id": np.array(["A", "B", "B", "B"]), "time": np.array(days, dtype="datetime64[D]")}
    assert list(count(log)) == [1, 0, 1, 0, 1]
    two = log_space >> ts.then_participation_count(grid, participation_cap=5, step_cap=2)
    assert list(two(log)) == [1, 0, 2, 0, 1]
    assert list(two({name: column[1:] for name, column in log.items()})) == [0, 0, 2, 0, 1]


def test_row_order_and_repeats(log_space):
    rows = [("A", 1), ("A", 1), ("A", 1), ("B", 1)]
    for step_cap, expected in ((2, [0, 3, 0]), (3, [0, 4, 0])):
        count = log_space >> ts.then_participation_count(ts.TimeGrid(size=3), participation_cap=3, step_cap=step_cap)
        for order in itertools.permutations(rows):
            log = {"id": np.array([who for who, _ in order]), "time": np.array([when for _, when in order])}
            assert list(count(log)) == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"id": np.zeros(1, "V8"), "time": np.array([0])}, "column 'id' of type .V8"),
        ({"id": np.array([1]), "time": np.zeros(1, "m8[s]")}, "column 'time' of type timedelta64"),
        ({"id": np.array([1])}, "column 'time' is missing"),
        ({"id": np.array([1, 2]), "time": np.array([0])}, "equally long"),
        ([1, 2], "a table of type list"),
    ],
)
def test_a_bad_schema_is_refused_by_name_and_type(log_space, table, message):
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=5), participation_cap=2)
    assert not log_space[0].member(table)
    refuses(message, count, table, error=dp.OpenDPException)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"participation_cap": 0}, ValueError, r"participation_cap \(0\) must be at least 1"),
        ({"participation_cap": True}, TypeError, "participation_cap"),
        ({"participation_cap": 2.0}, TypeError, "participation_cap"),
        ({"step_cap": -1}, ValueError, r"step_cap \(-1\)"),
        ({"step_cap": np.bool_(True)}, TypeError, "step_cap"),
        ({"gap": 0}, ValueError, r"gap \(0\) must be at least 1; the fewest steps"),
        ({"gap": 6}, ValueError, r"gap \(6\) must be at most 5; the fewest steps .* to the 5 of the grid"),
        ({"gap": 2.0}, TypeError, r"gap \(2.0\) must be an integer"),
        ({"gap": True}, TypeError, r"gap \(True\) must be an integer, not a bool"),
        ({"gap": None}, TypeError, r"gap \(None\)"),
    ],
)
def test_bad_parameters_are_refused_at_construction(log_space, changes, error, message):
    with pytest.raises(error, match=message):
        ts.make_participation_count(*log_space, ts.TimeGrid(size=5), **({"participation_cap": 2} | changes))


def test_wrong_spaces_and_grids_are_refused(log_space):
    grid = ts.TimeGrid(size=5)
    vectors = dp.vector_domain(dp.atom_domain(T="i64"), size=5)
    with pytest.raises(TypeError, match="use event_log_domain"):
        ts.make_participation_count(vectors, dp.symmetric_distance(), grid, participation_cap=2)
    with pytest.raises(TypeError, match="must count individuals"):
        ts.make_participation_count(log_space[0], dp.hamming_distance(), grid, participation_cap=2)
    with pytest.raises(TypeError, match=r"grid .* must be given as a TimeGrid"):
        ts.make_participation_count(*log_space, 5, participation_cap=2)
    for given in ({"excess": "drop"}, {"excess": "downweight"}, {"norm": "l1"}, {"per": "all"}):
        with pytest.raises(ValueError, match=rf"{next(iter(given))} \(.*\) requires a participation_cap"):
            ts.make_participation_count(*log_space, grid, **given)
    with pytest.raises(ValueError, match=r"tiers \(.*\) must be left out with a participation_cap"):
        ts.make_participation_count(*log_space, grid, participation_cap=2, tiers=ts.Tiers(ends=(2,)))
    with pytest.raises(TypeError, match="participation_cap must be given"):
        ts.make_assume_participation(ts.count_signal_domain(5), dp.symmetric_distance())
    assert ts.event_log_domain(identifier="id", time="time") == log_space[0]
    assert ts.event_log_domain(identifier="id", time="when") != log_space[0]
    for bad in ({"identifier": "a", "time": "a"}, {"identifier": 3, "time": "a"}):
        refuses("identifier", ts.event_log_domain, error=(TypeError, ValueError), **bad)


def test_no_rows_give_zeros(log_space):
    count = log_space >> ts.then_participation_count(HOURS, participation_cap=2)
    empty = {"id": np.array([], dtype=str), "time": np.array([], dtype="datetime64[s]")}
    assert list(count(empty)) == [0, 0, 0, 0]
    release = count >> ts.then_subsampled_gaussian(1.0, sampling_probability=1.0, failure_probability=1e-6)
    assert len(release(empty)) == 4
