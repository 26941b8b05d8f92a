"""The private look at a log: the same numbers from every engine, and from a slow count of our own."""

import math
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.check import LogCheck
from opendp_timeseries.counting.files import read_csv_log
from tests.counting.tables import ENGINES, count_of
from tests.oracles import counting as oracle
from tests.refused import refuses

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

GRID = ts.TimeGrid(size=20)
CAPS = {"participation_cap": 4, "step_cap": 2, "excess": "drop"}


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
    table = pa.table({"id": pa.array(who), "t": pa.array(when), "venue": pa.array(venue)})
    return [ENGINES[name](table) for name in ("pandas", "arrow", "batches", "duckdb")]


@pytest.mark.thinned(4)
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


OF_STEPS = [None, "", " ", "x", "0.5", "1e1", "0x3", "3f", "1_0", "3", "+4.0", " 5 ", "99", "-1"]
OF_TIMES = [None, "", "  ", "2024-W27-1", "yesterday", "2024-07-01T05:30", "20240701T0530Z", "1970-01-01"]


def causes(found):
    """Identifiers that are missing or unknown, times that are missing, unreadable or unknown, and rows off the grid."""
    return (
        found.missing_identifier, found.unknown_identifier,
        found.missing_time, found.unreadable_time, found.unknown_time, found.off_grid,
    )  # fmt: skip


def looked_at(table, grid=GRID):
    return ts.check_log(table, identifier="id", time="t", grid=grid, participation_cap=1)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_each_cause_by_which_a_step_has_no_time_in_every_engine():
    who = list(range(len(OF_STEPS)))
    for table in tables(who, OF_STEPS, who):
        found = looked_at(table)
        assert causes(found) == (0, 0, 3, 6, 0, 2), type(table)
        assert found.individuals == 3
        assert (
            "9 have no time that could be read (64.3% of all rows): 3 missing, 6 in a form that is not read\n"
            in str(found)
        )
    numbers = [float("nan"), 0.5, 3.0, 99.0, -1.0, float("inf")]
    for table in tables(list(range(6)), numbers, numbers):
        assert causes(looked_at(table)) == (0, 0, 1, 1, 0, 3), type(table)


def test_each_cause_by_which_a_text_is_no_instant():
    grid, who = ts.TimeGrid(start="2024-07-01", step="1h", size=24, zone="UTC"), list(range(len(OF_TIMES)))
    columns = {"id": pa.array(who), "t": pa.array(OF_TIMES)}
    pandas = pd.DataFrame({"id": who, "t": OF_TIMES})
    in_memory = [
        pandas,
        pandas.astype({"t": object}),
        pandas.astype({"t": "category"}),
        {"id": np.array(who), "t": np.array(OF_TIMES, object)},
    ]
    for table in [*in_memory, pa.table(columns), ds.dataset(pa.table(columns))]:
        found = looked_at(table, grid)
        assert causes(found) == (0, 0, 3, 2, 0, 1), type(table)
        assert found.individuals == 2


def test_each_cause_in_a_csv_file(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("id,t\n" + "".join(f"{k},{text or ''}\n" for k, text in enumerate(OF_TIMES)) + ',2024-07-01\n5\n"')
    grid = ts.TimeGrid(start="2024-07-01", step="1h", size=24, zone="UTC")
    for how, lost in ({}, (2, 0, 4, 2, 0, 1)), ({"time_format": "%d.%m.%Y %H:%M"}, (2, 0, 4, 5, 0, 0)):
        count = count_of(time="t", grid=grid, step_cap=1)
        found = looked_at(read_csv_log(log, count.reading, zone="UTC", **how), grid)
        assert causes(found) == lost


class Unknown:
    """A type that nobody knows, and whose methods nobody calls."""

    def __eq__(self, other):
        pytest.fail("an object was asked whether it equals another")

    __ne__ = __bool__ = __float__ = __str__ = __hash__ = __eq__


def test_each_cause_in_a_column_of_objects():
    cells = [
        None,
        float("nan"),
        np.nan,
        pd.NaT,
        pd.NA,
        np.datetime64("NaT", "s"),
        Decimal("nan"),
        Unknown(),
        [1],
        3,
        "4",
    ]
    who = np.array([0] * len(cells), object)
    objects = np.empty(len(cells), object)
    objects[:] = cells
    assert causes(looked_at({"id": who, "t": objects})) == (0, 0, 7, 0, 2, 0)
    assert causes(looked_at({"id": objects, "t": np.zeros(len(cells), int)})) == (7, 2, 0, 0, 0, 0)
    instants = ts.TimeGrid(start="2024-07-01", step="1h", size=24, zone="UTC")
    assert causes(looked_at({"id": who, "t": objects}, instants)) == (0, 0, 7, 2, 2, 0)
    found = looked_at(pd.DataFrame({"id": objects, "t": objects}))
    assert causes(found) == (7, 2, 0, 0, 0, 0)
    assert "9 of them have no identifier (81.8% of all rows): 7 missing, 2 of a type that is not known\n" in str(found)


def test_each_cause_where_values_are_masked():
    masked = np.ma.masked_array([0.5, 0.5, np.nan, 3.0], [True, False, False, False])
    assert causes(looked_at({"id": np.arange(4), "t": masked})) == (0, 0, 2, 1, 0, 0)


def test_what_the_caps_lose():
    log = {"id": np.repeat([1, 2], [10, 3]), "t": np.array([*range(10), 5, 5, 5])}
    arguments = {"identifier": "id", "time": "t", "grid": GRID}
    assert (
        ts.check_log(log, **arguments, participation_cap=4, step_cap=1, excess="drop").events_lost_share == 1 - 5 / 13
    )
    # The ten steps of one of them weigh √(4/10) each, which is rounded down to a multiple of 2^-16.
    scaled = ts.check_log(log, **arguments, participation_cap=4, step_cap=1)
    assert scaled.events_lost_share == 1 - (10 * math.isqrt(4 * 4**16 // 10) / 2**16 + 1) / 13
    assert "left out, or weighed down, by the caps" in str(scaled)
    assert ts.check_log(log, **arguments, participation_cap=None, step_cap=3).events_lost_share == 0.0
    assert ts.check_log(log, **arguments, participation_cap=10**30, step_cap=10**30).events_lost_share == 0.0
    nobody = {name: column[:0] for name, column in log.items()}
    found = ts.check_log(nobody, **arguments, participation_cap=1)
    assert found == LogCheck(
        rows=0, missing_identifier=0, unknown_identifier=0, missing_time=0, unreadable_time=0, unknown_time=0,
        off_grid=0, unknown_key=None, no_value=None,
        individuals=0, individuals_over_cap=0, events_lost_share=0.0, excess="downweight",
        participation_cap=1,
    )  # fmt: skip


@pytest.mark.thinned(2)
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
        ({"gap": 0}, "gap"), ({"gap": 21}, r"gap.*20"), ({"by": "at"}, "together"), ({"grid": 5}, "TimeGrid"),
        ({"by": "id", "keys": ["a"]}, "by"),
    ],
)  # fmt: skip
def test_parameters_are_checked(change, message):
    arguments = {"identifier": "id", "time": "t", "grid": GRID, "participation_cap": 1} | change
    refuses(message, ts.check_log, {"id": np.arange(3), "t": np.arange(3)}, error=(TypeError, ValueError), **arguments)
