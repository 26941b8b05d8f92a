"""Where people wait, beside what else does the same, as docs/speed.csv. Run with

python -m pytest tests/benchmarks/test_speed.py -s --override-ini addopts=

``SPEED_ROWS=1000000,10000000,50000000`` sets the numbers of rows. Jobs take turns, three times; what is compared is
the least processor time, of all threads together. One individual for every 50 rows, activity log-normal, 10⁴ hours.
Rows end with the ratio that the page states, of before.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

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
from tests.counting.tables import Postgres, PostgresServer, Spark, count_of
from tests.reconstruction.simulated import week
from tests.releases import panel, release_of

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
ROWS = [int(rows) for rows in os.environ.get("SPEED_ROWS", "1000000,10000000").split(",")]
SIZE, KEYS = 10**4, 1000
GRID = ts.TimeGrid(size=SIZE, start="2013-01-01", step="1h", zone="UTC")
START, HOUR = np.datetime64("2013-01-01", "us"), 3600 * 10**6
PAIRS = f"SELECT DISTINCT id, (epoch_us(time) - {START.astype(int)}) // {HOUR} AS step FROM log"


def stated():
    """Return the ratios of docs/speed.csv, by the heading, the job and what it is beside."""
    at, ratios = "", {}
    for here, _, beside, _, ratio in csv.reader((ROOT / "docs" / "speed.csv").read_text(encoding="utf-8").splitlines()):
        at = here if here.startswith("**") else at
        ratios[at, here, beside] = ratio
    return ratios


ROOT = Path(__file__).parents[2]
BEFORE, printed = stated(), []


def power(number):
    digits = len(str(number)) - 1
    factor = number // 10**digits
    return f"{'' if factor == 1 else f'{factor}·'}10{str(digits).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def heading(what):
    printed.append(f"**{what}**")
    print(f"\n{printed[-1]},,,,,")


def least(jobs, rounds=3, clock=time.process_time):
    """Return the least time of each job, and print its row of docs/speed.csv, the first beside the others."""
    taken = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start = clock()
            job()
            taken[name].append(clock() - start)
    best = {name: min(times) for name, times in taken.items()}
    peer, *ours = best.items()
    for name, seconds in ours:
        cells = name, f"{seconds:.2f} s", peer[0], f"{peer[1]:.2f} s", f"{seconds / peer[1]:.1f}"
        cells += (f"before: {BEFORE.get((printed[-1], name, peer[0]), 'not there')}",)
        csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
        sys.stdout.flush()
    return best


@pytest.fixture(scope="module", params=ROWS, ids="{:.0e}".format)
def log(request, tmp_path_factory):
    rows, random = request.param, np.random.default_rng(2013)
    people = max(rows // 50, 1)
    activity = random.lognormal(0, 1.5, people)
    codes, steps = random.choice(people, rows, p=activity / activity.sum()), random.integers(0, SIZE, rows)
    times = START + steps * np.timedelta64(1, "h") + random.integers(0, HOUR, rows)
    columns = {"id": codes, "time": times, "step": steps, "key": random.integers(0, KEYS, rows)}
    heading(f"{power(rows)} rows")
    return columns, tmp_path_factory.mktemp("logs")


def text_of(codes, words):
    names = pa.array(np.random.default_rng(1).permutation([f"{words} {k:07d}" for k in range(codes.max() + 1)]))
    return pa.chunked_array([names.take(pa.array(codes[k : k + 2**20])) for k in range(0, codes.size, 2**20)])


def counted(table, time="time", grid=GRID, **more):
    asked = count_of(time=time, grid=grid, participation_cap=20, step_cap=1, excess="l2", **more)
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
    polars = {"Polars, distinct pairs": lambda: pairs.unique().height, "count, text, Polars": jobs["text, Polars"]}
    best = least(polars)
    assert best["count, text, Polars"] < 1.1 * best["Polars, distinct pairs"]


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


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_duckdb(log, kind):
    columns, folder = log
    who = columns["id"] if kind == "integers" else text_of(columns["id"], "Person")
    pq.write_table(pa.table({"id": who, "time": columns["time"]}), folder / "log.parquet")
    connection = ibis.duckdb.connect(memory_limit="8GB", threads=2, temp_directory=str(folder / "spilt"))
    table = connection.create_table("log", connection.read_parquet(folder / "log.parquet"))

    def plain():
        connection.raw_sql(f"SELECT step, count(*) FROM ({PAIRS}) GROUP BY step").fetchall()

    jobs = {"DuckDB, distinct pairs": plain, f"count, DuckDB, {kind}": counted(table)}
    best = least(jobs | {f"count, DuckDB, {kind}, gap of 10": counted(table, gap=10)}, rounds=2)
    spilt = sum(file.stat().st_size for file in (folder / "spilt").glob("*")) if (folder / "spilt").exists() else 0
    assert spilt == 0
    assert best[f"count, DuckDB, {kind}"] < 2.5 * best["DuckDB, distinct pairs"]


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_postgres(log, kind):
    """The processor time of the server's only process for us, and of Python."""
    columns, _ = log
    if columns["id"].size > 10**6:
        pytest.skip("a server takes minutes to take so many rows")
    who = columns["id"] if kind == "integers" else text_of(columns["id"], "Person").to_numpy()
    times = np.datetime_as_string(columns["time"], timezone="UTC")
    with tempfile.TemporaryDirectory(prefix="postgres", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        postgres = Postgres(server)
        postgres.run(f"CREATE TABLE log (id {'bigint' if kind == 'integers' else 'text'}, time timestamptz)")
        with postgres.connection.con.cursor() as cursor, cursor.copy("COPY log FROM STDIN") as copy:
            for row in zip(who.tolist(), times.tolist(), strict=True):
                copy.write_row(row)
        postgres.run("VACUUM ANALYZE log")
        for setting in ("max_parallel_workers_per_gather = 0", "work_mem = '512MB'", "jit = off"):
            postgres.run(f"SET {setting}")
        ((process,),) = postgres.run("SELECT pg_backend_pid()")

        def clock():
            own = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            return time.process_time() + (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")

        pairs = "SELECT DISTINCT id, floor(extract(epoch FROM time) / 3600) AS step FROM log"
        plain = partial(postgres.run, f"SELECT step, count(*) FROM ({pairs}) AS pairs GROUP BY step")
        table = postgres.connection.table("log")
        jobs = {"PostgreSQL, distinct pairs": plain, f"count, PostgreSQL, {kind}": counted(table)}
        best = least(jobs | {f"count, PostgreSQL, {kind}, gap of 10": counted(table, gap=10)}, rounds=2, clock=clock)
        assert best[f"count, PostgreSQL, {kind}"] < 3 * best["PostgreSQL, distinct pairs"]
        postgres.connection.disconnect()
        server.end()


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
        asked = count_of(grid=GRID, participation_cap=20, step_cap=1, excess="l2")

        def counted():
            log = read_csv_log(path, asked.reading, **{"zone": "UTC"} | more)
            engine_of(log).count(log, asked, bytes(16))

        return counted

    def alone():
        with path.open(newline="") as file:
            for _ in csv.reader(file):
                pass

    heading(f"{power(rows)} rows")
    ours = {
        "count, CSV": read(),
        "count, CSV, times of New York": read(zone="America/New_York"),
        "count, CSV, `--time-format`": read(time_format="%Y-%m-%dT%H:%M:%S"),
    }
    best = least({"the `csv` module": alone} | ours)
    scan = pl.scan_csv(path, try_parse_dates=True).select("id", pl.col("time").dt.truncate("1h")).unique()
    polars = least({"Polars, distinct pairs": scan.group_by("time").len().collect, "count, CSV": read()})
    uncounted = "pandas, without a count"
    peer = {uncounted: lambda: pd.read_csv(path, usecols=["id", "time"], parse_dates=["time"])}
    least(peer | {"count, CSV": read()})
    assert max(list(best.values())[1:]) < 2 * best["the `csv` module"]
    assert polars["count, CSV"] < 1.5 * polars["Polars, distinct pairs"]


def test_spark(log, monkeypatch):
    """The time of Java, where Spark runs, and of Python."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 8g pyspark-shell")
    columns, folder = log
    spark = Spark(folder)
    table = spark.table(id=columns["id"], time=pa.array(columns["time"], pa.timestamp("us", "UTC")))
    spark.session.read.parquet(str(folder / "log0.parquet")).createOrReplaceTempView("log")
    java = spark.session.sparkContext._jvm.java.lang.ProcessHandle.current()

    def clock():
        return time.process_time() + java.info().totalCpuDuration().get().toMillis() / 1000

    def plain():
        pairs = PAIRS.replace("epoch_us", "unix_micros").replace("//", "DIV")
        spark.session.sql(f"SELECT step, count(*) FROM ({pairs}) GROUP BY step").collect()

    jobs = {"Spark, distinct pairs": plain, "count, Spark": counted(table)}
    least(jobs | {"count, Spark, gap of 10": counted(table, gap=10)}, rounds=2, clock=clock)


def test_release():
    """By the wall, as all processors draw the noise. Weighted counts are multiples of 2⁻¹⁶."""
    dp.enable_features("contrib", "honest-but-curious")
    steps, scale = np.arange(10**6), 100.0
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=steps.size)
    alone = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    jobs = {"OpenDP's integer noise": lambda: alone(steps)}
    for name, excess in (("whole", "drop"), ("weighted", "downweight")):
        count = space >> ts.then_participation_count(ts.TimeGrid(size=steps.size), participation_cap=4, excess=excess)
        release = count >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, delta=1e-9)
        jobs[f"10⁶ steps released, {name} counts"] = partial(release, {"id": steps // 5, "time": steps})
    heading("by the clock")
    least(jobs, rounds=1, clock=time.perf_counter)


def test_totals():
    """Totals of a long series, beside its fit: in one pass over the posterior."""
    size, random = 100_000, np.random.default_rng(0)
    values = np.resize(week(168), size) + random.normal(0, 20, size)
    release = release_of(steps=range(size), values=values, signal=size, scale=20.0, sampling_probability=1.0)
    grid = ts.TimeGrid(size=size, start="2013-01-01", step="1h", zone="Europe/Berlin")
    series = ts.smooth(release, seasons=24)
    heading("10⁵ hours")
    jobs = {"smooth": lambda: ts.smooth(release, seasons=24)}
    jobs |= {f"totals by {step}": partial(series.resample, step, grid=grid) for step in ("1d", "1mo")}
    best = least(jobs | {"page": partial(series.to_html, grid=grid)}, rounds=2)
    assert best["totals by 1d"] < best["smooth"]


def test_start():
    """The processor time of a whole process, beside one that imports NumPy."""

    def run(*command):
        subprocess.run([sys.executable, *command], capture_output=True, check=False)

    def of_children():
        spent = os.times()
        return spent.children_user + spent.children_system

    jobs = {"import NumPy": partial(run, "-c", "import numpy")}
    for what in (["--version"], ["plan", "--help"], ["log.csv", "--epsilon", "much"], ["verify", "no.json"]):
        jobs[" ".join(what)] = partial(run, "-m", "opendp_timeseries", *what)
    heading("From the start of a process")
    best = least(jobs | {"import opendp_timeseries": partial(run, "-c", "import opendp_timeseries")}, clock=of_children)
    assert max(best[what] for what in ("--version", "plan --help", "log.csv --epsilon much")) < 4 * best["import NumPy"]


def test_plan():
    def plan(size):
        grid = ts.TimeGrid(size=size)
        ts.plan(grid, participation_cap=[5, 20, 80], epsilon=1, delta=1e-6, time_scale=24, deviation=10)

    heading("Plans")
    best = least({f"plan of {size:,} steps": partial(plan, size) for size in (1000, 10_000)}, rounds=1)
    assert best["plan of 10,000 steps"] < 20 * best["plan of 1,000 steps"]


def test_smoothing():
    """By the wall, as several processes share a panel; beside them, one."""
    size, random = 168_000, np.random.default_rng(0)
    values = random.poisson(np.tile(week(168), 1000)) + random.normal(0, 20, size)
    keys = [f"{key:03d}" for key in range(1000)]
    many = panel(keys, steps=np.arange(size), values=values, size=size, scale=20.0, probability=1.0)
    processors = os.sched_getaffinity(0)

    def alone():
        os.sched_setaffinity(0, {min(processors)})
        try:
            ts.smooth(many, seasons=24)
        finally:
            os.sched_setaffinity(0, processors)

    heading("by the clock")
    jobs = {
        "one processor": alone,
        f"1,000 series of 168 steps smoothed, {len(processors)} processors": lambda: ts.smooth(many, seasons=24),
    }
    least(jobs, rounds=1, clock=time.perf_counter)


@pytest.fixture
def days():
    """Chains that count single days from 2024 on by a metric, and logs of them."""
    warnings.simplefilter("ignore")
    dp.enable_features("contrib", "honest-but-curious")
    random = np.random.default_rng(1)

    def chain(k, metric=None):
        grid = ts.TimeGrid(size=24, start=str(np.datetime64("2024-01-01") + k), step="1h", zone="UTC")
        space = ts.event_log_domain(identifier="id", time="time"), metric or dp.symmetric_distance()
        return space >> ts.then_participation_count(grid, participation_cap=5)

    def log(k):
        when = np.datetime64("2024-01-01", "s") + 86400 * k + random.integers(0, 86400, 1000)
        return {"id": random.integers(0, 200, 1000), "time": when}

    return chain, log


def seconds(job, *arguments, **options):
    start = time.process_time()
    job(*arguments, **options)
    return time.process_time() - start


@pytest.mark.parametrize("kind", ["as it is", "where parameters are fixed", "with periods of days"])
def test_ledger(tmp_path, days, kind):
    (chain, log), releases = days, int(os.environ.get("SPEED_RELEASES", 1000))
    fixed, by_day = kind == "where parameters are fixed", kind == "with periods of days"
    terms = {"period": "1d", "zone": "UTC"} if by_day else {"adaptivity": "adaptive" if fixed else "fully adaptive"}
    metric = ts.period_distance("1d", zone="UTC") if by_day else None
    book, taken = ts.Ledger.create(tmp_path / "of.ledger", epsilon=1.0, delta=1e-6, **terms), []
    for k in range(releases):
        scale = 200 * releases**0.5 * (1 + k / releases)
        release = chain(k, metric) >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, delta=1e-9)
        taken.append(seconds(book.release, release, log(k)))
    once, again = (seconds(book.least_scale, chain(releases, metric), sampling_probability=1.0) for _ in range(2))
    first, last = np.median(taken[:20]), np.median(taken[-20:])
    print(
        f"\n\nA ledger of {releases} releases, {kind}: the first take {first:.3f} s each, the last {last:.3f},"
        f" and a search for the scale of one more {once:.2f}, {again:.2f} again"
    )
    assert last < first + 0.06
    assert once < 0.3


@pytest.mark.parametrize("releases", [12, 100, 365])
def test_programme(tmp_path, days, releases):
    chain, log = days
    chains = [chain(k) for k in range(releases)]
    relative = [1 + k / releases for k in range(releases)]
    terms = {"delta": 1e-6, "sampling_probability": 0.2, "relative_scales": relative}
    planned = []
    plan = seconds(lambda: planned.append(ts.Programme.plan(chains, epsilon=1.0, **terms)))
    programme = replace(planned[0], budget=replace(planned[0].budget, epsilon=1.3))  # which leaves room beside it
    create = seconds(ts.Ledger.create, tmp_path / "of.ledger", programme=programme)
    book, taken = ts.Ledger(tmp_path / "of.ledger"), []
    for k in range(releases):
        measurement = programme.measurement(chains[k], number=k + 1)
        taken.append(seconds(book.release, measurement, log(k)))
    search = seconds(book.least_scale, chain(releases), sampling_probability=0.2)
    first, last = np.median(taken[:6]), np.median(taken[-6:])
    print(
        f"\n\nA ledger of a programme of {releases} releases: planning takes {plan:.2f} s, creating {create:.2f}, the"
        f" first releases {first:.3f} each, the last {last:.3f}, and a search for the scale of another {search:.2f}"
    )
    assert max(first, last) < 0.06
