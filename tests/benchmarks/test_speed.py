"""Where people wait, beside what else does the same, as the table of the page on logs. Run with

python -m pytest tests/benchmarks/test_speed.py -s --override-ini addopts=

``SPEED_ROWS=1000000,10000000,50000000`` sets the numbers of rows. Jobs take turns, three times; what is compared is
the least processor time, of all threads together. One individual for every 50 rows, activity log-normal, 10⁴ hours.
"""

import csv
import os
import time
import warnings

import ibis
import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_csv_log
from tests.counting.tables import count_of

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
ROWS = [int(rows) for rows in os.environ.get("SPEED_ROWS", "1000000,10000000").split(",")]
SIZE, KEYS = 10**4, 1000
GRID = ts.TimeGrid(size=SIZE, start="2013-01-01", step="1h", zone="UTC")
START, HOUR = np.datetime64("2013-01-01", "us"), 3600 * 10**6
PAIRS = f"SELECT DISTINCT id, (epoch_us(time) - {START.astype(int)}) // {HOUR} AS step FROM log"


def least(jobs, rounds=3):
    """Return the least processor time of each job, and print a row of the table: the first is what others are to."""
    taken = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            taken[name].append(time.process_time() - start)
    best = {name: min(times) for name, times in taken.items()}
    peer, *ours = best.items()
    for name, seconds in ours:
        print(f"| {name} | {seconds:.2f} s | {peer[0]} | {peer[1]:.2f} s | {seconds / peer[1]:.1f} |", flush=True)
    return best


@pytest.fixture(scope="module", params=ROWS, ids="{:.0e}".format)
def log(request, tmp_path_factory):
    rows, random = request.param, np.random.default_rng(2013)
    people = max(rows // 50, 1)
    activity = random.lognormal(0, 1.5, people)
    codes, steps = random.choice(people, rows, p=activity / activity.sum()), random.integers(0, SIZE, rows)
    times = START + steps * np.timedelta64(1, "h") + random.integers(0, HOUR, rows)
    columns = {"id": codes, "time": times, "step": steps, "key": random.integers(0, KEYS, rows)}
    print(f"\n\n{rows:.0e} rows\n\n| | here | beside it | | times |\n|---|---|---|---|---|")
    return columns, tmp_path_factory.mktemp("logs")


def text_of(codes, words):
    names = pa.array(np.random.default_rng(1).permutation([f"{words} {k:07d}" for k in range(codes.max() + 1)]))
    return pa.chunked_array([names.take(pa.array(codes[k : k + 2**20])) for k in range(0, codes.size, 2**20)])


def counted(table, time="time", grid=GRID, **more):
    asked = count_of(time=time, grid=grid, participation_cap=20, step_cap=1, excess="scale", **more)
    return lambda: engine_of(table).count(table, asked, bytes(16))


def test_identifiers(log):
    columns, folder = log
    packed = columns["id"] << 14 | columns["step"]
    text = pa.table({"id": text_of(columns["id"], "Person"), "step": columns["step"]})
    pq.write_table(text, folder / "text.parquet")
    tables = {"integers, NumPy": columns, "text, pandas": text.to_pandas(), "text, Polars": pl.from_arrow(text)}
    tables["text, Parquet"] = ds.dataset(folder / "text.parquet")
    jobs = {name: counted(table, "step", ts.TimeGrid(size=SIZE)) for name, table in tables.items()}
    best = least(
        {"NumPy, sort of the pairs": lambda: np.sort(packed)} | {f"count, {name}": jobs[name] for name in jobs}
    )
    assert best["count, integers, NumPy"] < 4 * best["NumPy, sort of the pairs"]
    pairs = tables["text, Polars"]
    least({"Polars, distinct pairs": lambda: pairs.unique().height, "count, text, Polars": jobs["text, Polars"]})


def test_panel(log):
    columns, _ = log
    text = {"key": text_of(columns["key"], "Station").to_numpy()}
    names = text_of(np.arange(KEYS), "Station").to_pylist()
    frames = {
        "integers": (pd.DataFrame({name: columns[name] for name in ("id", "time", "key")}), list(range(KEYS))),
        "text": (pd.DataFrame({"id": columns["id"], "time": columns["time"], **text}), sorted(names)),
    }
    jobs = {
        f"panel of 1,000 keys, {name}": counted(frame, by="key", keys=keys) for name, (frame, keys) in frames.items()
    }
    best = least(jobs)
    assert best["panel of 1,000 keys, text"] < 2 * best["panel of 1,000 keys, integers"]


def test_duckdb(log):
    columns, folder = log
    pq.write_table(pa.table({"id": columns["id"], "time": columns["time"]}), folder / "log.parquet")
    connection = ibis.duckdb.connect(memory_limit="8GB", threads=2, temp_directory=str(folder / "spilt"))
    table = connection.create_table("log", connection.read_parquet(folder / "log.parquet"))

    def plain():
        connection.raw_sql(f"SELECT step, count(*) FROM ({PAIRS}) GROUP BY step").fetchall()

    jobs = {"DuckDB, distinct pairs": plain, "count, DuckDB": counted(table)}
    best = least(jobs | {"count, DuckDB, gap of 10": counted(table, gap=10)}, rounds=2)
    spilt = sum(file.stat().st_size for file in (folder / "spilt").glob("*")) if (folder / "spilt").exists() else 0
    assert spilt == 0
    assert best["count, DuckDB"] < 2.5 * best["DuckDB, distinct pairs"]


def test_csv(tmp_path):
    rows, random = 10**6, np.random.default_rng(2013)
    times = np.datetime_as_string(np.datetime64("2013-01-01", "s") + random.integers(0, SIZE * 3600, rows))
    path = tmp_path / "log.csv"
    with path.open("w") as file:
        file.write("id,time,place\n")
        file.writelines(
            f"N{person:07d},{when},somewhere\n"
            for person, when in zip(random.integers(0, rows // 50, rows), times, strict=True)
        )

    def read(**more):
        asked = count_of(grid=GRID, participation_cap=20, step_cap=1, excess="scale")

        def counted():
            log = read_csv_log(path, asked, **{"zone": "UTC"} | more)
            engine_of(log).count(log, asked, bytes(16))

        return counted

    def alone():
        with path.open(newline="") as file:
            for _ in csv.reader(file):
                pass

    print("\n\n1e+06 rows of CSV\n\n| | here | beside it | | times |\n|---|---|---|---|---|")
    ours = {
        "count, CSV": read(),
        "count, CSV, times of New York": read(zone="America/New_York"),
        "count, CSV, `--time-format`": read(time_format="%Y-%m-%dT%H:%M:%S"),
    }
    best = least({"the `csv` module": alone} | ours)
    uncounted = "pandas, without a count"
    peer = {uncounted: lambda: pd.read_csv(path, usecols=["id", "time"], parse_dates=["time"])}
    pandas = least(peer | {"count, CSV": read()})
    assert max(list(best.values())[1:]) < 5 * best["the `csv` module"]
    assert pandas["count, CSV"] < 2 * pandas[uncounted]


def test_ledger(tmp_path):
    warnings.simplefilter("ignore")
    dp.enable_features("contrib", "honest-but-curious")
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    book, random, taken = (
        ts.Ledger.create(tmp_path / "of.ledger", epsilon=1.0, delta=1e-6),
        np.random.default_rng(1),
        [],
    )
    releases = int(os.environ.get("SPEED_RELEASES", 1000))

    def chain(k):
        grid = ts.TimeGrid(size=24, start=str(np.datetime64("2024-01-01") + k), step="1h", zone="UTC")
        return space >> ts.then_participation_count(grid, participation_cap=5)

    for k in range(releases):
        when = np.datetime64("2024-01-01", "s") + 86400 * k + random.integers(0, 86400, 1000)
        scale = 200 * releases**0.5 * (1 + k / releases)
        release = chain(k) >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, delta=1e-9)
        start = time.process_time()
        book.release(release, {"id": random.integers(0, 200, 1000), "time": when})
        taken.append(time.process_time() - start)
    start = time.process_time()
    book.least_scale(chain(releases), sampling_probability=1.0)
    search = time.process_time() - start
    first, last = np.median(taken[:20]), np.median(taken[-20:])
    print(
        f"\n\nA ledger of {releases} releases: the first take {first:.3f} s each, the last {last:.3f},"
        f" and a search for the scale of one more {search:.2f}"
    )
    assert last < first + 0.06
