"""The capped count beside a bare sort of the same rows, Polars' best form and a textbook count.

Run with ``pytest tests/benchmarks/test_count.py``; ``COUNT_ROWS=10000000`` sets the number of rows. T = 10⁴,
I = 20, activity log-normal over one individual for every 50 rows. ``packed_sort`` is the least that any count by
sorting can take.
"""

import functools
import os
import secrets
import time

import numpy as np
import pytest

from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.grid import TimeGrid
from tests import make
from tests.counting.tables import count_of

ROWS = int(os.environ.get("COUNT_ROWS", 10**6))
SIZE, CAP = 10**4, 20
COUNT = count_of(grid=TimeGrid(size=SIZE), participation_cap=CAP, step_cap=1)


@pytest.fixture(scope="module")
def log():
    random = np.random.default_rng(2013)
    activity = random.lognormal(0, 1.5, max(ROWS // 50, 1))
    people = random.choice(activity.size, ROWS, p=activity / activity.sum())
    return people, random.integers(0, SIZE, ROWS)


def count(people, steps):
    return capped_count(people, steps, COUNT, secrets.token_bytes(16))


def with_a_gap(people, steps):
    return capped_count(people, steps, make.changed(COUNT, gap=10), secrets.token_bytes(16))


def everybody(people, steps):
    return capped_count(people, steps, make.changed(COUNT, excess="l2"), secrets.token_bytes(16))


def packed_sort(people, steps):
    return np.sort(people << 14 | steps)


def wide_identifiers(people, steps):
    return count(people.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15), steps)


@functools.cache
def text_of(size):
    return np.array([f"N{person:06d}" for person in range(size)], dtype=object)


def names(people, steps):
    table = {"id": text_of(max(ROWS // 50, 1))[people], "time": steps}
    return count(*read_positions(table, COUNT.reading))


@functools.cache
def arrow_text(rows):
    pa = pytest.importorskip("pyarrow")
    random = np.random.default_rng(2013)
    names = random.permutation([f"Person {k:07d} of somewhere" for k in range(max(rows // 50, 1))])
    return pa.array(names[random.integers(0, names.size, rows)].tolist(), pa.string())


def real_names_of_arrow(people, steps):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"id": arrow_text(people.size), "time": steps})
    return count(*read_positions(table, COUNT.reading))


@functools.cache
def fresh_objects(rows):
    return np.array(arrow_text(rows).to_pylist(), dtype=object)  # each row a string of its own, as a reader makes them


@functools.cache
def shared_objects(rows):
    values, codes = np.unique(fresh_objects(rows), return_inverse=True)
    return values[codes]


def real_names_as_objects(people, steps):
    table = {"id": fresh_objects(people.size), "time": steps}
    return count(*read_positions(table, COUNT.reading))


def real_names_as_shared_objects(people, steps):
    table = {"id": shared_objects(people.size), "time": steps}
    return count(*read_positions(table, COUNT.reading))


def instants(people, steps):
    grid = TimeGrid(size=SIZE, start="2013-01-01", step="1h", zone="America/New_York")
    times = np.datetime64("2013-01-01", "ns") + steps.astype("timedelta64[h]")
    return count(people, grid.steps(times))


def polars(people, steps):
    pl = pytest.importorskip("polars")
    kept = pl.col("step").unique().shuffle().head(CAP)
    frame = pl.LazyFrame({"person": people, "step": steps}).group_by("person").agg(kept)
    return frame.explode("step").group_by("step").len().collect(engine="streaming")


def textbook(people, steps):
    """``lexsort``, then random keys and a second ``lexsort``."""
    order = np.lexsort((steps, people))
    people, steps = people[order], steps[order]
    first = np.ones(people.size, bool)
    first[1:] = (people[1:] != people[:-1]) | (steps[1:] != steps[:-1])
    people, steps = people[first], steps[first]
    order = np.lexsort((np.random.default_rng().random(people.size), people))
    people, steps = people[order], steps[order]
    begins = np.flatnonzero(np.append(True, people[1:] != people[:-1]))
    rank = np.arange(people.size) - np.repeat(begins, np.diff(begins, append=people.size))
    return np.bincount(steps[rank < CAP], minlength=SIZE)


ROUTES = [
    packed_sort, count, everybody, with_a_gap, wide_identifiers, instants, names, real_names_of_arrow,
    real_names_as_objects, real_names_as_shared_objects, polars, textbook,
]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_count(benchmark, log, route):
    benchmark.pedantic(route, args=log, rounds=1 if route is textbook else 5, warmup_rounds=1)


@pytest.mark.parametrize("size", [SIZE, SIZE // 10], ids=["one step in 200", "one in 20"])
@pytest.mark.parametrize("gap", [2, 10, 100])
def test_a_gap_takes_at_most_half_as_long_again(log, size, gap):
    """Side by side, by the wall and by the processor."""
    people, steps = log[0], log[1] % size
    taken = {1: [], gap: []}
    for _ in range(4):  # the first warms up
        for apart, times in taken.items():
            start = time.perf_counter(), time.process_time()
            capped_count(
                people, steps, make.changed(COUNT, grid=TimeGrid(size=size), gap=apart), secrets.token_bytes(16)
            )
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = (np.median(taken[gap][1:], axis=0) / np.median(taken[1][1:], axis=0)).tolist()
    print(f"\ngap {gap}: {wall:.2f} times as long, {processor:.2f} of the processor")
    assert max(wall, processor) < 1.5


@pytest.mark.parametrize("of", ["integers", "text"])
def test_scaling_takes_at_most_seven_tenths_of_dropping(log, of):
    """Side by side, by the processor."""
    people, steps = log
    if of == "text":  # reading it takes as long for both
        people, steps = read_positions({"id": text_of(max(ROWS // 50, 1))[people], "time": steps}, COUNT.reading)
    taken = {"drop": [], "l2": []}
    for _ in range(4):  # the first warms up
        for excess, times in taken.items():
            start = time.process_time()
            capped_count(people, steps, make.changed(COUNT, excess=excess), secrets.token_bytes(16))
            times.append(time.process_time() - start)
    share = min(taken["l2"][1:]) / min(taken["drop"][1:])
    print(f"\nscaling takes {share:.2f} of dropping")
    assert share < 0.7


def test_memory(log):
    """The count takes at most 64 bytes a row, beside its input."""
    import tracemalloc

    tracemalloc.start()
    count(*log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / ROWS < 64


@pytest.mark.parametrize(
    "route", [real_names_as_objects, real_names_as_shared_objects], ids=lambda route: route.__name__
)
def test_text_objects_take_at_most_twice_as_long_as_arrow_text(log, route):
    people, steps = log
    seconds = {one: [] for one in (real_names_of_arrow, route)}
    for one in (real_names_of_arrow, route):
        one(people, steps)  # the names are made once
    for _ in range(3):
        for one, taken in seconds.items():
            begin = time.process_time()
            one(people, steps)
            taken.append(time.process_time() - begin)
    assert min(seconds[route]) <= 2 * min(seconds[real_names_of_arrow])
