"""The private look at a log: the same numbers from every engine, and from a slow count of our own."""

from collections import defaultdict

import numpy as np
import pytest

import opendp_timeseries as ts
from tests.oracles import counting as oracle

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

GRID = ts.TimeGrid(size=20)
CAPS = {"participation_cap": 4, "step_cap": 2}


def rows(seed, count=600):
    random = np.random.default_rng(seed)
    who = [None if k == 0 else int(k) for k in random.integers(0, 25, count)]
    when = [None if step == 23 else int(step) for step in random.integers(-2, 24, count)]
    venue = [None if k == 0 else "abc"[k - 1] for k in random.integers(0, 4, count)]
    return who, when, venue


def slowly(who, when, venue=None, keys=None):
    """Every row in the first class that holds, and everybody's events step by step."""
    lost = {"without_identifier": 0, "without_time": 0, "off_grid": 0, "unknown_key": None if keys is None else 0}
    events = defaultdict(lambda: defaultdict(int))
    for person, step, place in zip(who, when, venue or [None] * len(who), strict=True):
        if person is None:
            lost["without_identifier"] += 1
        elif step is None:
            lost["without_time"] += 1
        elif not 0 <= step < GRID.size:
            lost["off_grid"] += 1
        elif keys is not None and place not in keys:
            lost["unknown_key"] += 1
        else:
            events[person][place if keys else None, step] += 1
    return lost | {
        "rows": len(who),
        "individuals": len(events),
        "individuals_over_cap": sum(len(steps) > CAPS["participation_cap"] for steps in events.values()),
    }, events


def tables(who, when, venue):
    columns = {"id": pa.array(who), "t": pa.array(when), "venue": pa.array(venue)}
    yield pd.DataFrame({"id": who, "t": when, "venue": venue})  # floating-point
    yield pa.table(columns)
    yield ds.dataset(pa.table(columns))
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("duckdb")
    connection = ibis.duckdb.connect()
    connection.con.register("log", pa.table(columns))
    yield connection.table("log")


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("keys", [None, ["b", "c", "nowhere"]])
@pytest.mark.parametrize("seed", range(3))
def test_every_engine_agrees_with_a_slow_count(seed, keys):
    columns = rows(seed)
    expected, events = slowly(*columns, keys)
    assert min(value for name, value in expected.items() if name != "unknown_key") > 0
    if keys is None:  # with the same events in every step, what is lost does not depend on the steps that are kept
        total = sum(sum(steps.values()) for steps in events.values())
        best = sum(sum(sorted((min(n, 2) for n in steps.values()), reverse=True)[:4]) for steps in events.values())
        least = sum(sum(sorted(min(n, 2) for n in steps.values())[:4]) for steps in events.values())
        bounds = 1 - best / total, 1 - least / total
    panel = {} if keys is None else {"by": "venue", "keys": keys}
    for table in tables(*columns):
        found = ts.check_log(table, identifier="id", time="t", grid=GRID, **CAPS, **panel)
        assert {name: getattr(found, name) for name in expected} == expected
        assert keys is not None or bounds[0] <= found.events_lost_share <= bounds[1]


def test_what_the_caps_lose():
    log = {"id": np.repeat([1, 2], [10, 3]), "t": np.array([*range(10), 5, 5, 5])}
    arguments = {"identifier": "id", "time": "t", "grid": GRID}
    assert ts.check_log(log, **arguments, participation_cap=4, step_cap=1).events_lost_share == 1 - 5 / 13
    assert ts.check_log(log, **arguments, participation_cap=10**30, step_cap=10**30).events_lost_share == 0.0
    nobody = {name: column[:0] for name, column in log.items()}
    found = ts.check_log(nobody, **arguments, participation_cap=1)
    assert found == ts.LogCheck(
        rows=0, without_identifier=0, without_time=0, off_grid=0, unknown_key=None,
        individuals=0, individuals_over_cap=0, events_lost_share=0.0,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("keys", [None, ["b", "c", "nowhere"]])
def test_what_a_gap_loses(keys):
    columns, gap = rows(9), 3
    _, events = slowly(*columns, keys)
    remaining, lost_steps, kept_events = {}, 0, 0
    for person, steps in events.items():
        kept = {
            (place, step)
            for place in {place for place, _ in steps}
            for step in oracle.rested([step for own, step in steps if own == place], gap, GRID.size)
        }
        remaining[person] = len(kept)
        lost_steps += len(steps) - len(kept)
        kept_events += sum(steps[pair] for pair in kept)
    total = sum(sum(steps.values()) for steps in events.values())
    panel = {} if keys is None else {"by": "venue", "keys": keys}
    for table in tables(*columns):
        found = ts.check_log(table, identifier="id", time="t", grid=GRID, **CAPS, **panel, gap=gap)
        assert (found.gap, found.steps_within_gap) == (gap, lost_steps)
        assert found.events_within_gap_share == 1 - kept_events / total
        assert found.events_lost_share > found.events_within_gap_share
        assert found.individuals == len(events)
        assert found.individuals_over_cap == sum(steps > CAPS["participation_cap"] for steps in remaining.values())
        said = f"{lost_steps} steps of individuals are less than 3 from one that is counted, with "
        assert said in str(found)
        assert "left out by the gap and the caps" in str(found)


def test_it_says_that_it_is_private_first():
    found = ts.check_log(
        {"id": np.arange(3), "t": np.arange(3)}, identifier="id", time="t", grid=GRID, participation_cap=1
    )
    assert str(found).splitlines()[0] == "PRIVATE: do not publish"
    assert "3 rows" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participation_cap": 0}, "participation_cap"), ({"step_cap": 0}, "step_cap"), ({"time": "when"}, "'when'"),
        ({"gap": 0}, "gap"), ({"gap": 21}, "at most 20"), ({"by": "at"}, "together"), ({"grid": 5}, "TimeGrid"),
        ({"by": "id", "keys": ["a"]}, "another column"),
    ],
)  # fmt: skip
def test_parameters_are_checked(change, message):
    arguments = {"identifier": "id", "time": "t", "grid": GRID, "participation_cap": 1} | change
    with pytest.raises((TypeError, ValueError), match=message):
        ts.check_log({"id": np.arange(3), "t": np.arange(3)}, **arguments)
