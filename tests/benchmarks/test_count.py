"""What a count may take beside another of the same rows: with a gap, weights, a cap, names; and the memory of each. Run

python -m pytest tests/benchmarks/test_count.py -s --override-ini addopts=

Logs are those of test_speed.py, which has other libraries beside them; ``SPEED_ROWS`` sets the numbers of rows.
"""

import subprocess
import sys
import time
import tracemalloc

import numpy as np
import opendp.prelude as dp
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.plugin import subsampled_gaussian
from tests.benchmarks.test_speed import SIZE, heading, least, log  # noqa: F401
from tests.counting.tables import count_of

STEPS = ts.TimeGrid(size=SIZE)


def table_of(columns, **ids):
    return {"id": ids.get("id", columns["id"]), "step": columns["step"]}


def of_steps(table, **caps):
    count = count_of(time="step", grid=STEPS, **{"participation_cap": 20, "step_cap": 1} | caps)
    return lambda: engine_of(table).count(table, count, bytes(16))


@pytest.fixture
def parquet(log):  # noqa: F811
    columns, folder = log
    path = folder / f"{columns['id'].size}.parquet"
    pq.write_table(pa.table(table_of(columns)), path, row_group_size=2**20)
    return path


@pytest.mark.parametrize(("name", "caps", "most"), [
    ("gap of 2", {"gap": 2}, 1.5), ("gap of 10", {"gap": 10}, 1.5), ("gap of 100", {"gap": 100}, 1.5),
    ("weights", {"excess": "l2"}, 0.7), ("cap of 500", {"participation_cap": 500}, 1.5),
    ("no cap", {"participation_cap": SIZE}, 1.5),
])  # fmt: skip
def test_a_limit_takes_at_most_so_many_times_the_plain_count(log, parquet, name, caps, most):  # noqa: F811
    """In memory, and batch by batch."""
    for table in (table_of(log[0]), ds.dataset(parquet)):
        plain, limited = of_steps(table), of_steps(table, **caps)
        best = least({"count": plain, f"count, {name}": limited}, rounds=4)
        assert best[f"count, {name}"] < most * best["count"]


def test_names_take_at_most_four_times_as_long_as_integers(log, tmp_path):  # noqa: F811
    """Also as objects of Python, shared or of each row; and names that are declared and not there take no time."""
    columns, _ = log
    values = np.array([f"Person {k:07d} of somewhere" for k in range(columns["id"].max() + 1)], dtype=object)
    shared, text = values[columns["id"]], pa.array(values.tolist(), pa.string()).take(pa.array(columns["id"]))
    names = pa.array([*values, *map(str, range(10**6))])
    declared = pa.DictionaryArray.from_arrays(pa.array(columns["id"], pa.int32()), names)
    tables = {
        "integers": table_of(columns), "Arrow": pa.table(table_of(columns, id=text)),
        "declared": pa.table(table_of(columns, id=declared)), "shared objects": table_of(columns, id=shared),
        "objects": table_of(columns, id=np.array(text.to_pylist(), dtype=object)),
    }  # fmt: skip
    for name, rows in (("Parquet", 2**20), ("small row groups", 2**16)):
        pq.write_table(tables["Arrow"], tmp_path / f"{name}.parquet", row_group_size=rows)
        tables[name] = ds.dataset(tmp_path / f"{name}.parquet")
    best = least({name: of_steps(table) for name, table in tables.items()})
    assert max(best.values()) < 4 * best["integers"]
    assert max(best["objects"], best["shared objects"]) <= 2 * best["Arrow"]


def test_a_count_takes_at_most_64_bytes_a_row(log):  # noqa: F811
    columns, _ = log
    job = of_steps(table_of(columns))
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / columns["id"].size < 64


PEAK = """
import pathlib, re, sys
import pyarrow.dataset as ds
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_csv_log
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of
path, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
count = count_of("id", "step", TimeGrid(size=size), participation_cap=20, step_cap=1)
log = read_csv_log(path, count.reading, zone="UTC") if path.suffix == ".csv" else ds.dataset(path)
engine_of(log).count(log, count, bytes(16))
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024)
"""


def peak_of(path, size=SIZE):
    """The peak of a fresh process in MB, all libraries included."""
    run = subprocess.run([sys.executable, "-c", PEAK, path, str(size)], capture_output=True, text=True, check=True)
    return float(run.stdout)


def test_the_memory_of_a_file_is_that_of_its_batches_or_of_who_is_where(parquet, tmp_path):
    rows = ds.dataset(parquet).count_rows()
    assert peak_of(parquet) < 300 + 75 * rows / 2**20
    random, peaks = np.random.default_rng(2013), []
    rows = max(rows, 10**6)  # of fewer, all are held
    for number in (rows, 4 * rows):
        path = tmp_path / f"{number}.csv"
        cells = zip(random.integers(0, 1000, number), random.integers(0, 100, number), strict=True)
        path.write_text("id,step\n" + "".join(f"N{who:07d},{step}\n" for who, step in cells))
        peaks.append(peak_of(path, 100))
    print(f"\nCSV: {rows} rows take {peaks[0]:.0f} MB, four times as many {peaks[1]:.0f}")
    assert peaks[1] < 1.1 * peaks[0]


@pytest.mark.parametrize("size", [10**5, 10**6 // 4])
def test_a_release_takes_little_longer_than_its_noise(size):
    """By the wall, as all processors share what OpenDP draws in one call."""
    dp.enable_features("contrib", "honest-but-curious")
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=size)
    alone = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=30.0, k=-26)
    values = np.arange(float(size))
    jobs = {"one call": lambda: alone(values), "chunks": lambda: subsampled_gaussian._add_noise(values, 30.0, -26)}
    heading(f"{size} values")
    best = least(jobs, rounds=3, clock=time.perf_counter)
    assert best["chunks"] < (0.3 + 0.7 / subsampled_gaussian.processors()) * best["one call"] + 0.05
