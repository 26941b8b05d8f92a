"""Logs as they come: CSV files beside other readers, and identifiers that are text beside those that are integers. Run

    python -m pytest tests/benchmarks/test_reading.py -s --override-ini addopts=

``READ_ROWS=10000000`` sets the number of rows. One individual for every 50 rows, 10⁴ hourly steps. Routes take turns,
and their processor times are compared: the least of each.
"""

import csv
import os
import secrets
import subprocess
import sys
import time

import numpy as np
import pytest

from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_csv_log
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

ROWS = int(os.environ.get("READ_ROWS", 10**6))
SIZE = 10**4
BATCH = 2**18  # of tables in several pieces, as readers make them


def least(routes, rounds=5):
    """The least processor time of each route, the first round left out."""
    taken = {name: [] for name in routes}
    for _ in range(rounds + 1):
        for name, route in routes.items():
            start = time.process_time()
            route()
            taken[name].append(time.process_time() - start)
    best = {name: min(times[1:]) for name, times in taken.items()}
    print(f"\n{ROWS:.0e} rows: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in best.items()))
    return best


# --- CSV files ---


def csv_file(folder, rows, people=None, size=SIZE):
    path = folder / f"{rows} rows in {size} hours.csv"
    if not path.exists():
        random = np.random.default_rng(2013)
        times = np.datetime_as_string(np.datetime64("2013-01-01", "s") + random.integers(0, size * 3600, rows))
        who = random.integers(0, people or max(rows // 50, 1), rows)
        with path.open("w") as file:
            file.write("id,time,place\n")
            file.writelines(f"N{person:07d},{when},somewhere\n" for person, when in zip(who, times, strict=True))
    return path


def read(path, zone="UTC", size=SIZE):
    """Who is where, and the count of it."""
    grid = TimeGrid(start="2013-01-01", step="1h", size=size, zone="UTC")
    asked = count_of(grid=grid, participation_cap=20, step_cap=1)
    log = read_csv_log(path, asked.reading, zone=zone)
    return log, engine_of(log).count(log, asked, bytes(16))


def csv_alone(path):
    with path.open(newline="") as file:
        for _ in csv.reader(file):
            pass


def test_csv_takes_little_longer_than_the_csv_module(tmp_path_factory):
    path = csv_file(tmp_path_factory.mktemp("csv"), ROWS)
    best = least({
        "csv module": lambda: csv_alone(path),
        "pandas": lambda: pd.read_csv(path, usecols=["id", "time"], parse_dates=["time"]),
        "polars": lambda: pl.read_csv(path, columns=["id", "time"], try_parse_dates=True),
        "UTC": lambda: read(path),
        "New York": lambda: read(path, "America/New_York"),
    })  # fmt: skip
    assert max(best["UTC"], best["New York"]) < 5 * best["csv module"]


PEAK = """
import pathlib, re, sys
from tests.benchmarks.test_reading import read
path, tiny = map(pathlib.Path, sys.argv[1:3])
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
read(tiny)
before = peak()
read(path, size=int(sys.argv[3]))
print(peak() - before)
"""


def test_csv_takes_the_memory_of_who_is_where(tmp_path):
    def peak(rows, people, size):
        path = csv_file(tmp_path, rows, people, size)
        command = [sys.executable, "-c", PEAK, path, csv_file(tmp_path, 10, 1, 1), str(size)]
        megabytes = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"\nCSV: {rows:.0e} rows of {people} people in {size} hours take {megabytes:.0f} MB", end="")
        return megabytes

    same = [peak(rows, 1000, 100) for rows in (ROWS, 10 * ROWS)]
    assert same[1] < 1.1 * same[0]
    assert peak(10 * ROWS, ROWS // 5, SIZE) < 70 * 10 * ROWS / 2**20 + 20  # bytes for each pair, all distinct


# --- Identifiers ---


def tables(folder):
    """The same log with integers, and with names in every kind of table."""
    random, people = np.random.default_rng(2013), max(ROWS // 50, 1)
    activity = random.lognormal(0, 1.5, people)
    codes, steps = random.choice(people, ROWS, p=activity / activity.sum()), random.integers(0, SIZE, ROWS)
    names = random.permutation([f"Person {k:07d} of somewhere" for k in range(people)])
    text = pa.array(names.tolist()).take(pa.array(codes))
    pieces = pa.chunked_array([text[start : start + BATCH] for start in range(0, ROWS, BATCH)])
    arrow = pa.table({"id": pieces, "time": steps})
    yield "integers", {"id": codes, "time": steps}
    yield "arrow", arrow
    yield "pandas", pd.DataFrame({"id": pd.array(pieces, dtype="str"), "time": steps})
    yield "objects", pd.DataFrame({"id": pd.Series(text.to_numpy(zero_copy_only=False), dtype=object), "time": steps})
    yield "polars", pl.from_arrow(arrow)
    for name, rows in (("parquet", 2**20), ("small row groups", 2**16)):
        pq.write_table(arrow, folder / f"{name}.parquet", row_group_size=rows)
        yield name, ds.dataset(folder / f"{name}.parquet")


def test_names_take_at_most_four_times_as_long_as_integers(tmp_path):
    asked = count_of(grid=TimeGrid(size=SIZE), participation_cap=20, step_cap=1)

    def counted(table):
        return engine_of(table).count(table, asked, secrets.token_bytes(16))

    routes = {name: (lambda table=table: counted(table)) for name, table in tables(tmp_path)}
    assert len({int(route().sum()) for route in routes.values()}) == 1
    best = least(routes)
    assert max(best.values()) < 4 * best["integers"]
