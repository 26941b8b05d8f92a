"""The memory of a count, by its rows. Run

python -m pytest tests/benchmarks/test_count.py -s --override-ini addopts=

Logs are those of test_speed.py, which says how long they take; ``SPEED_ROWS`` sets the numbers of rows.
"""

import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting import memory
from tests.benchmarks.test_speed import SIZE, log  # noqa: F401
from tests.counting.tables import count_of


def table_of(columns):
    return {"id": columns["id"], "step": columns["step"]}


@pytest.fixture
def parquet(log):  # noqa: F811
    columns, folder = log
    path = folder / f"{columns['id'].size}.parquet"
    pq.write_table(pa.table(table_of(columns)), path, row_group_size=2**20)
    return path


def test_a_count_takes_at_most_64_bytes_a_row(log):  # noqa: F811
    columns, _ = log
    count = count_of(time="step", grid=ts.TimeGrid(size=SIZE), participation_cap=20, step_cap=1)
    tracemalloc.start()
    memory.count(table_of(columns), count, bytes(16))
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
is_csv = path.suffix == ".csv"  # whose times are instants
grid = TimeGrid(start="2024-01-01", step="1h", size=size, zone="UTC") if is_csv else TimeGrid(size=size)
count = count_of("id", "step", grid, participation_cap=20, step_cap=1)
log = read_csv_log(path, count.reading, zone="UTC") if is_csv else ds.dataset(path)
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
        times = np.datetime64("2024-01-01T00") + random.integers(0, 100, number)
        cells = zip(random.integers(0, 1000, number), times.astype(str), strict=True)
        path.write_text("id,step\n" + "".join(f"N{who:07d},{time}\n" for who, time in cells))
        peaks.append(peak_of(path, 100))
    print(f"\nCSV: {rows} rows take {peaks[0]:.0f} MB, four times as many {peaks[1]:.0f}")
    assert peaks[1] < 1.1 * peaks[0]
