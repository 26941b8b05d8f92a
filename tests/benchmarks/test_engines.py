"""Engines side by side on one Parquet file: T = 10⁴ hourly steps, I = 20, skewed activity. Run with

    python -m pytest tests/benchmarks/test_engines.py -s --override-ini addopts=

for 10⁶ and 10⁷ rows, and with ``-m long`` for 10⁸. Routes take turns; ratios are of medians.
"""

import secrets
import statistics
import subprocess
import sys
import time

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_timeseries.counting import dataset as batch_count
from opendp_timeseries.counting import memory
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
ibis = pytest.importorskip("ibis")

from opendp_timeseries.counting import database as ibis_count  # noqa: E402

# Of Ibis's own calls into DuckDB.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
SIZE, CAP = 10**4, 20
GRID = TimeGrid(size=SIZE, start="2020-01-01", step="1h", zone="UTC")
START, HOUR = np.datetime64("2020-01-01", "us").astype(int), 3600 * 10**6


@pytest.fixture(scope="module")
def log_of(tmp_path_factory):
    """A Parquet file of so many rows: one individual for every 30, more active the lower their number."""
    folder = tmp_path_factory.mktemp("logs")

    def write(rows):
        path = folder / f"{rows}.parquet"
        random, people = np.random.default_rng(2013), rows // 30
        schema = pa.schema({"id": pa.int64(), "time": pa.timestamp("us")})
        if path.exists():
            return path
        with pq.ParquetWriter(path, schema) as writer:
            for done in range(0, rows, 10**6):
                some = min(10**6, rows - done)
                who = (people * random.random(some) ** 2).astype(np.int64) * 7919
                when = START + random.integers(0, SIZE * HOUR, some)
                writer.write_table(pa.table([pa.array(who), pa.array(when, pa.timestamp("us"))], schema=schema))
        return path

    return write


def asked(cap=CAP, gap=1, grid=GRID):
    return count_of(grid=grid, participation_cap=cap, step_cap=1, gap=gap), secrets.token_bytes(16)


def in_memory(path, cap=CAP):
    return memory.count(pq.read_table(path), *asked(cap))


def batches(path, cap=CAP):
    return batch_count.count(ds.dataset(path), *asked(cap))


def ibis_on_duckdb(path, cap=CAP, gap=1):
    return ibis_count.count(ibis.duckdb.connect().read_parquet(path), *asked(cap, gap))


def duckdb_by_hand(path):
    step = f"(epoch_us(time) - {START}) // {HOUR}"
    query = f"""
        SELECT step, sum(events) FROM (
            SELECT step, events,
                row_number() OVER (
                    PARTITION BY id ORDER BY hash(hash(?::BIGINT, ?::BIGINT, id::VARCHAR, step)), step) AS rank
            FROM (
                SELECT id, {step} AS step, least(count(*), 1) AS events FROM read_parquet('{path}')
                WHERE epoch_us(time) BETWEEN {START} AND {START + SIZE * HOUR - 1} GROUP BY ALL))
        WHERE rank <= {CAP} GROUP BY step"""
    key = [secrets.randbits(63), secrets.randbits(63)]
    return np.array([events for _, events in duckdb.connect().execute(query, key).fetchall()])


def polars(path):
    step = (pl.col("time").cast(pl.Int64) - START) // HOUR
    pairs = pl.scan_parquet(path).select("id", step=step).filter(pl.col("step").is_between(0, SIZE - 1))
    kept = pairs.group_by("id").agg(pl.col("step").unique().shuffle().head(CAP)).explode("step")
    return kept.group_by("step").len().collect(engine="streaming")["len"].to_numpy()


def opendp_truncation(path):
    """OpenDP's own route, with its noise: the form of truncation that bounds the steps of an individual."""
    dp.enable_features("contrib")
    step = (pl.col("time").cast(pl.Int64) - START) // HOUR
    context = dp.Context.compositor(
        data=pl.scan_parquet(path).select("id", step=step),
        privacy_unit=dp.unit_of(contributions=1, identifier="id"),
        privacy_loss=dp.loss_of(rho=0.1),
        split_evenly_over=1,
    )
    query = context.query().truncate_per_group(1, by=["step"]).truncate_per_group(CAP).group_by("step")
    keys = pl.LazyFrame({"step": np.arange(SIZE)})
    return query.agg(dp.len(signed=True)).with_keys(keys).release().collect()["len"].to_numpy()


ROUTES = [in_memory, batches, polars, duckdb_by_hand, ibis_on_duckdb]


@pytest.mark.parametrize(("rows", "rounds"), [(10**6, 5), (10**7, 5), pytest.param(10**8, 1, marks=pytest.mark.long)])
def test_engines_side_by_side(log_of, rows, rounds):
    path, routes = log_of(rows), ROUTES + [opendp_truncation] * (rows <= 10**6)
    if rows > 10**7:
        routes = routes[1:]  # the whole table does not fit beside its copies
    taken = {route.__name__: [] for route in routes}
    totals = {}
    for k in range(rounds + (rows <= 10**7)):  # the first round warms up
        for route in routes:
            start = time.perf_counter()
            totals[route.__name__] = int(route(path).sum())
            taken[route.__name__] += [time.perf_counter() - start] * (k > 0 or rows > 10**7)
    median = {name: statistics.median(times) for name, times in taken.items()}
    best = min(median.values())
    print(f"\n{rows:.0e} rows: " + ", ".join(f"{name} {t:.2f} s ({t / best:.1f}×)" for name, t in median.items()))
    exact = {name: total for name, total in totals.items() if name != "opendp_truncation"}
    assert len(set(exact.values())) == 1
    if rows == 10**7:
        assert median["ibis_on_duckdb"] < 1.2 * median["duckdb_by_hand"]
        assert median["batches"] < 1.5 * median["in_memory"]
        assert median["in_memory"] < median["polars"]
        assert median["in_memory"] < median["duckdb_by_hand"] / 2


@pytest.mark.parametrize("route", [in_memory, batches, ibis_on_duckdb], ids=lambda route: route.__name__)
def test_cost_does_not_grow_with_the_cap(log_of, route):
    path, taken = log_of(10**6), {20: [], 500: [], SIZE: []}
    for _ in range(6):
        for cap, times in taken.items():
            start = time.perf_counter()
            route(path, cap)
            times.append(time.perf_counter() - start)
    median = {cap: statistics.median(times[1:]) for cap, times in taken.items()}
    print(f"\n{route.__name__}: " + ", ".join(f"I = {cap} {t:.3f} s" for cap, t in median.items()))
    assert max(median.values()) < 1.5 * median[20]  # lower, if anything: fewer individuals are over the cap


@pytest.mark.parametrize("gap", [10, 100])
def test_a_gap_in_duckdb_takes_at_most_twice_as_long(log_of, gap):
    """Side by side, by the wall and by the processor."""
    path, taken = log_of(10**7), {1: [], gap: []}
    for _ in range(4):  # the first warms up
        for apart, times in taken.items():
            start = time.perf_counter(), time.process_time()
            ibis_on_duckdb(path, gap=apart)
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = (np.median(taken[gap][1:], axis=0) / np.median(taken[1][1:], axis=0)).tolist()
    print(f"\ngap {gap} in DuckDB: {wall:.2f} times as long, {processor:.2f} of the processor")
    assert max(wall, processor) < 2


def test_cost_does_not_grow_with_declared_categories():
    few, many = ([f"N{k:07d}" for k in range(declared)] for declared in (10**3, 10**6))
    codes, steps = np.random.default_rng(1).integers(0, 10**3, 10**6), pa.array(np.arange(10**6) % SIZE)
    taken = {}
    for names in (few, many):
        who = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))
        table, times = pa.table({"id": who, "time": steps}), []
        for _ in range(5):
            start = time.perf_counter()
            memory.count(table, *asked(grid=TimeGrid(size=SIZE)))
            times.append(time.perf_counter() - start)
        taken[len(names)] = min(times)
    print(f"\ndeclared categories: {taken}")
    assert taken[10**6] < 1.5 * taken[10**3] + 0.05


MEASURE = """
import pathlib, re, sys, time
import pyarrow.dataset as ds
from opendp_timeseries.counting import dataset as batch_count
from tests.benchmarks.test_engines import asked
start = time.perf_counter()
batch_count.count(ds.dataset(sys.argv[1]), *asked())
seconds = time.perf_counter() - start
kilobytes = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]
print(seconds, int(kilobytes) / 1024)
"""


@pytest.mark.parametrize(("rows", "limit"), [(10**7, 1000), pytest.param(10**8, 2500, marks=pytest.mark.long)])
def test_memory_of_batches(log_of, rows, limit):
    """The peak of a fresh process, in MB, all libraries included."""
    run = subprocess.run([sys.executable, "-c", MEASURE, log_of(rows)], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, run.stdout.split())
    print(f"\n{rows:.0e} rows: {seconds:.1f} s, {megabytes:.0f} MB at most")
    assert megabytes < limit
