"""Counting inside a backend: the same people, the same steps and the same caps as in memory."""

import itertools
import math
import time
import warnings

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import beta

import opendp_timeseries as ts
from opendp_timeseries.counting import memory, scaling
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.grid import Period, TimeGrid
from tests import make
from tests.counting.tables import DuckDB, count_of
from tests.make import context_of
from tests.refused import refuses

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

from opendp_timeseries.counting import database as engine  # noqa: E402

# Of Ibis's own calls into DuckDB, and of PySpark's into pandas, when tables are made.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))
GRID = TimeGrid(size=40, start="2013-01-01", step="1h", zone="UTC")


def count(table, grid=GRID, *, key=KEY, **options):
    return engine.count(table, count_of(grid=grid, **options), key)


def truth(grid=GRID, *, participation_cap=40, step_cap=10**9, gap=1, **columns):
    caps = {"participation_cap": participation_cap, "step_cap": step_cap, "gap": gap}
    return memory.count(pa.table(columns), count_of(grid=grid, **caps), KEY)


def crowd(rows=600, people=15, seed=5):
    random = np.random.default_rng(seed)
    who = random.integers(0, people, rows)
    seconds = random.integers(-7200, 41 * 3600, rows) + np.datetime64("2013-01-01", "s").astype(int)
    return who, seconds


WHO, SECONDS = crowd()
TIME = pa.array(SECONDS * 10**6, pa.timestamp("us"))


# --- Who


def test_a_collation_does_not_make_two_names_one():
    backend = DuckDB()
    backend.connection.raw_sql("SET default_collation = 'nocase'")
    backend.connection.raw_sql("CREATE TABLE log AS SELECT unnest(['Ann', 'ann', 'ANN']) AS id, 0 AS time")
    assert count(backend.connection.table("log"), TimeGrid(size=1), step_cap=1).tolist() == [3]


def test_text_before_a_line_break_is_no_number(backend):
    # In Java's regular expressions, `$` is before a last line break, too: "17.0\n" and "17." would be one individual.
    texts = ["17", "17.0", "17.0\n", "17.", "17.0\r\n", "17.0\u2028", "0.0\n", "0."]
    assert count(backend.table(id=texts, time=[0] * 8), TimeGrid(size=1), step_cap=1).tolist() == [7]
    times = ["3", "3\u2028", "3\n"]
    columns = {"id": [1, 2, 3], "time": times}
    found = count(backend.table(**columns), TimeGrid(size=4), step_cap=1)
    np.testing.assert_array_equal(found, truth(TimeGrid(size=4), **columns))


def test_a_number_with_zeros_before_it_is_a_name(backend):
    """Of people, and of keys."""
    texts = ["007", "7", "7.0", "007.0", "00.0", "0", "0.0"]
    zeros = {"id": [1, 2, 3, 4, 5, 6, 7], "k": texts, "time": [0] * 7}
    table, grid = backend.table(**zeros), TimeGrid(size=1)
    assert count(table, grid, identifier="k", step_cap=1).tolist() == [5]
    assert count(table, grid, by="k", keys=["007", "7", "0"]).tolist() == [1, 2, 2]


# --- When: cases B10, B13, B14, B16

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu"]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("zone", "stored"),
    [
        pytest.param(zone, stored, marks=[pytest.mark.long] * (i != j))
        for i, zone in enumerate(ZONES)
        for j, stored in enumerate(("UTC", None, "Asia/Tokyo"))
    ],
)
def test_times_do_not_depend_on_the_session(backend, zone, stored, monkeypatch):
    grid = TimeGrid(size=3000, start="2013-03-09T23:30", step="7min", zone=zone)  # clocks change in New York
    random = np.random.default_rng(3)
    ticks = grid.instants()[0].astype("M8[us]").astype(int) + random.integers(-(10**11), 10**12 * 2, 400)
    edges = (grid.instants().astype("M8[us]").astype(int)[:40, None] + [-1, 0, 1]).ravel()
    ticks = np.concatenate([ticks, edges])
    who = pa.array(np.arange(ticks.size))
    times = pa.array(ticks, pa.timestamp("us", stored))
    expected = truth(grid, id=who, time=times).tolist()
    assert sum(expected) > 100
    for session, process in itertools.product(("UTC", "America/Los_Angeles"), ("UTC", "Asia/Tokyo")):
        monkeypatch.setenv("TZ", process)
        time.tzset()
        backend.session_zone(session)
        assert count(backend.table(id=who, time=times), grid).tolist() == expected
    monkeypatch.undo()
    time.tzset()


def test_nanoseconds_are_placed_in_whole_numbers():
    # Quotients through floating point err from 2^53 ns on, which is 104 days.
    grid = TimeGrid(size=10_000, start="2000-01-01", step="1h", zone="UTC")
    edges = (grid.instants().astype("M8[ns]").astype(np.int64)[::7, None] + [-1, 0]).ravel()
    times, who = pa.array(edges, pa.timestamp("ns")), pa.array(np.arange(edges.size))
    expected = truth(grid, id=who, time=times)
    assert count(DuckDB().table(id=who, time=times), grid).tolist() == expected.tolist()


@pytest.mark.long
@pytest.mark.parametrize("zone", ZONES)
def test_the_ends_of_time_are_dropped_without_an_error(zone):
    backend, first = DuckDB(), np.datetime64("2013-01-01", "D")
    ends = {
        pa.timestamp("s"): [2**62, -(2**62), first.astype("M8[s]").astype(int)],
        pa.timestamp("ms"): [2**62, -(2**62), first.astype("M8[ms]").astype(int)],
        pa.timestamp("us"): [2**63 - 1, -(2**63) + 1, first.astype("M8[us]").astype(int)],
        pa.timestamp("us", "UTC"): [2**63 - 1, -(2**63) + 1, first.astype("M8[us]").astype(int)],
        pa.timestamp("ns"): [2**63 - 1, -(2**63) + 1, first.astype("M8[ns]").astype(int)],
        pa.date32(): [2**31 - 1, -(2**31) + 1, int(first.astype(int))],
    }
    grid = TimeGrid(size=2, start="2013-01-01", step="1d", zone=zone)
    for kind, ticks in ends.items():
        storage = pa.int32() if kind == pa.date32() else pa.int64()
        times = pa.array([*map(int, ticks), None], storage).cast(kind)
        who = pa.array([1, 2, 3, 4])
        assert count(backend.table(id=who, time=times), grid).tolist() == truth(grid, id=who, time=times).tolist()
    backend.connection.raw_sql(
        "CREATE TABLE ends AS SELECT 1 AS id, unnest(['infinity', '-infinity', '2013-01-01 00:30'])::TIMESTAMP AS time"
    )
    assert count(backend.connection.table("ends")).tolist() == [1] + [0] * 39


# --- Caps: cases A05, A06 and the guarantee

CAPS = {"participation_cap": 3, "step_cap": 2}


def uniform(backend):
    """Whether one of ten steps is kept as often as another, by many individuals. False alarms: 1e-9."""
    people, size = 50_000, 10
    who, steps = np.repeat(np.arange(people), size), np.tile(np.arange(size), people)
    active = np.concatenate([who, np.repeat(np.arange(people), 5)])  # events in step 0 are many, and count for one
    steps = np.concatenate([steps, np.zeros(5 * people, int)])
    table = backend.table(id=pa.array(active), time=pa.array(steps))
    counts = count(table, TimeGrid(size=size), participation_cap=1, step_cap=4)
    counts[0] //= 4
    alpha = 1e-9 / (2 * size)
    low, high = beta.ppf(alpha, counts, people - counts + 1), beta.ppf(1 - alpha, counts + 1, people - counts)
    return counts.sum() == people and (low < 0.1).all() and (high > 0.1).all()


@pytest.mark.long
def test_steps_are_kept_uniformly_whatever_the_events(backend):
    assert uniform(backend)


def test_an_unmixed_hash_is_caught(monkeypatch):
    # DuckDB's own hash of several values favours the same steps for everyone.
    weak = engine._DIALECTS["duckdb"]._replace(pair_hash=engine._DUCKDB_HASH_OF_FOUR)
    monkeypatch.setitem(engine._DIALECTS, "duckdb", weak)
    assert not uniform(DuckDB())


@pytest.mark.parametrize("hashed", ["all equal", "by step"])
def test_caps_hold_when_hashes_tie(backend, monkeypatch, hashed):
    order = {"all equal": lambda *_: ibis.literal(0), "by step": lambda first, second, who, step: -step}[hashed]
    name = backend.connection.name
    monkeypatch.setitem(engine._DIALECTS, name, engine._DIALECTS[name]._replace(pair_hash=order))
    table = backend.table(id=pa.array([1] * 4), time=pa.array(range(4)))
    expected = {"all equal": [1, 1, 0, 0], "by step": [0, 0, 1, 1]}[hashed]
    assert count(table, TimeGrid(size=4), participation_cap=2).tolist() == expected


# --- A gap between an individual's steps


def test_another_key_keeps_other_steps(backend):
    table = backend.table(id=pa.array(WHO), time=TIME)
    ours, again, theirs = (count(table, key=key, **CAPS).tolist() for key in (KEY, KEY, bytes(16)))
    assert ours == again
    assert ours != theirs
    halves = [count(table, key=key, **CAPS).tolist() for key in (KEY[:8] + bytes(8), bytes(8) + KEY[8:])]
    assert len(set(map(tuple, [ours, theirs, *halves]))) == 4  # the whole key counts


# --- In OpenDP


def test_a_context_on_an_ibis_table(backend, log_space):
    table = backend.table(id=pa.array(WHO), time=TIME)
    context = context_of(table, epsilon=1.0, delta=1e-6)
    delta = context.remaining_privacy_loss()[0][1]
    query = context.query().participation_count(GRID, participation_cap=3)
    exact = {"output_measure": dp.approximate(dp.max_divergence()), "delta": delta}
    assert isinstance(query.subsampled_gaussian(sampling_probability=0.5, **exact).release(), ts.Release)
    assert log_space[0].member(table)
    assert not log_space[0].member(table.drop("time"))


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"id": pa.array([[1]] * WHO.size)}, TypeError, r"column 'id' of type (array<int64>|bigint\[\])"),
    ({"id": TIME}, TypeError, "'id' of type timestamp"),
    ({"time": pa.array(SECONDS, pa.float64())}, TypeError, "column 'time' of type float64"),
    ({"time": pa.array([str(second) for second in SECONDS])}, TypeError, "'time' of type string"),
    ({"time": pa.array(SECONDS)}, TypeError, "times of type int64"),
])  # fmt: skip
def test_columns_are_refused_by_type(backend, change, error, words):
    refuses(words, lambda: count(backend.table(**{"id": pa.array(WHO), "time": TIME} | change)), error=error)


def test_tables_are_refused_by_name(backend):
    table = backend.table(id=pa.array(WHO), time=TIME, price=pa.array([[1]] * WHO.size))
    refuses("column 'time'", lambda: count(table.drop("time")))
    refuses(
        "times of type datetime64[us]",
        count,
        table,
        TimeGrid(size=3, start="2013-01-01T00:00Z", step="1h"),
        error=TypeError,
    )
    refuses("'price' of type", count, table, error=TypeError, by="price", keys=["a"])
    assert engine_of(table) is engine


def test_backends_are_refused_by_name(log_space):
    polars = pytest.importorskip("polars")
    elsewhere = ibis.polars.connect({"log": polars.DataFrame({"id": [1], "time": [1]})}).table("log")
    for table, words in (
        (elsewhere, r"backend 'polars' .*to_pyarrow"),
        (ibis.table({"id": "int64", "time": "int64"}, name="nowhere"), "the Ibis table"),
    ):
        refuses(words, count, table, TimeGrid(size=3), error=TypeError)
        assert not log_space[0].member(table)


def test_a_failure_quotes_no_row(backend):
    secrets = backend.table(id=pa.array(["secret", "7"]), time=pa.array([0, 1]))
    with pytest.raises(RuntimeError) as failure:
        count(secrets.mutate(id=secrets.id.cast("int64")), TimeGrid(size=3))
    assert "could not count" in str(failure.value)
    assert failure.value.__context__ is None
    assert failure.value.__cause__ is None


def test_a_warning_quotes_no_row(recwarn):
    class Query:
        name = "duckdb"

        def get_backend(self):
            return self

        def to_pyarrow(self):
            warnings.warn("secret", UserWarning, stacklevel=1)
            raise ValueError("secret")

    warnings.simplefilter("always")
    with pytest.raises(RuntimeError, match="could not count") as failure:
        engine._fetch(Query())
    assert len(recwarn) == 0
    assert failure.value.__context__ is None


# --- Larger than memory


def write_log(path, rows, people):
    """A Parquet file that does not compress: 16 bytes a row."""
    random = np.random.default_rng(6)
    names = random.integers(0, 2**62, people)
    ticks = random.integers(0, 10_000 * 3600 * 10**6, rows) + np.datetime64("2013-01-01", "us").astype(int)
    who = names[(people * random.random(rows) ** 2).astype(int)]
    log = pa.table({"id": who, "time": pa.array(ticks, pa.timestamp("us"))})
    pq.write_table(log, path, compression="none", use_dictionary=False, row_group_size=2**17)
    return log


@pytest.mark.long
@pytest.mark.parametrize(("rows", "limit"), [(4_000_000, 60), (20_000_000, 256)])
def test_a_file_larger_than_the_memory_given(tmp_path, rows, limit):
    path = tmp_path / "log.parquet"
    log = write_log(path, rows, rows // 40)
    assert path.stat().st_size > limit * 10**6
    settings = {"memory_limit": f"{limit}MB", "threads": 2, "preserve_insertion_order": False}
    connection = DuckDB(temp_directory=tmp_path / "spill", **settings).connection
    grid = TimeGrid(size=10_000, start="2013-01-01", step="1h", zone="UTC")
    counts = count(connection.read_parquet(path), grid, participation_cap=20, step_cap=1)
    columns = {name: log[name] for name in log.column_names}
    assert counts.sum() == truth(grid, participation_cap=20, step_cap=1, **columns).sum()


@pytest.mark.thinned(3)
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("missing", "grid"),
    [
        pytest.param(missing, grid, marks=[pytest.mark.long] * ((i + j) % 2))
        for i, missing in enumerate(("id", "t", "k"))
        for j, grid in enumerate((TimeGrid(size=3), TimeGrid(start="2024-07-01", size=3, step="1h", zone="UTC")))
    ],
)
def test_a_column_that_is_missing_in_every_row_counts_nobody(missing, grid):
    times = pa.array([0, 1]) if grid.is_integer else pa.array(grid.instants()[:2])
    rows = pa.table({"id": [1, 2], "t": times, "k": ["a", "b"]} | {missing: pa.nulls(2)})
    connection = ibis.duckdb.connect()
    connection.con.register("log", rows)
    log = connection.table("log")
    kind = log.schema()[missing]
    assert engine._is_untyped(kind) or kind.is_integer()  # as older versions of DuckDB say
    for keys in (None, ["a", "b"]):
        count = count_of("id", "t", grid, None if keys is None else "k", keys)
        counts = engine_of(log).count(log, count, bytes(16))
        expected = [1, 1, 0] if keys is None and missing == "k" else [0] * count.size
        assert counts.tolist() == expected == engine_of(rows).count(rows, count, bytes(16)).tolist()
        assert engine_of(log).tally(log, count.reading) == engine_of(rows).tally(rows, count.reading)


# --- Nobody dropped


def test_a_weight_meets_the_events_of_its_own_period(backend):
    """Of somebody in ten steps of the first day and in five of the second, with a cap of two steps a day."""
    table = backend.table(id=[1] * 15, time=[*range(10), *range(15, 20)])
    counts = count(table, TimeGrid(size=20), participation_cap=2, step_cap=1, excess="l2", period=Period(10))
    first, second = (math.isqrt(2 * 4**16 // steps) for steps in (10, 5))
    assert counts.tolist() == [first] * 10 + [0] * 5 + [second] * 5
    assert max(10 * first**2, 5 * second**2) <= 2 * 4**16


def test_each_day_is_capped_where_the_first_is_shorter(backend):
    """27 hours from nine in the evening are two days, of three hours and of 24."""
    hours = [f"2024-03-01T{hour}" for hour in (21, 22, 23)] + [f"2024-03-02T{hour:02}" for hour in range(24)]
    table = backend.table(id=[1] * 27, time=pa.array(np.array(hours, "M8[us]")))
    grid = TimeGrid(size=27, start="2024-03-01T21:00", step="1h", zone="UTC")
    counts = count(table, grid, participation_cap=1, step_cap=1, period=Period("1d", "UTC"))
    assert (counts[:3].sum(), counts[3:].sum()) == (1, 1)


@pytest.mark.parametrize(("cap", "more"), [(10**14, 4 * 10**13), (2**47, 1), (2**46, 3 * 2**45)])
def test_a_step_cap_near_the_most_rows_of_a_log(backend, cap, more):
    """By the squares of who is in two steps, of which each has fewer events than the cap and both have more."""
    most = count_of(grid=TimeGrid(size=2), participation_cap=1, step_cap=cap, excess="l2")
    events = [min(cap, 2**47 - more), min(more, cap)]
    table = backend.table(who=[1, 1], step=[0, 1], events=events)
    weights = most.weighting.weights(most.reading)
    weighed = engine._fetch(engine._weighed(table, ["who"], weights, most.reading, engine._dialect(table)))
    size = sum(number**2 for number in events)
    weight = min(2**16, math.isqrt(cap**2 * 4**16 // size))
    assert sorted(weighed["series0"].to_pylist()) == sorted(weight * number for number in events)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("tiers", [None, Tiers(ends=(3, 7))])
@pytest.mark.parametrize("excess", ["l2", "l1"])
@pytest.mark.parametrize("step_cap", [1, 2, 2**20, 2**46, 2**63, 10**30])
def test_weights_in_a_database_are_those_in_memory_whatever_the_events(backend, step_cap, excess, tiers):
    random = np.random.default_rng(9)
    lengths = random.integers(1, 12, 60)
    who = np.repeat(np.arange(60), lengths)
    events = 2 ** random.integers(0, 44, who.size) + random.integers(0, 2, who.size)
    events = np.minimum(events, min(step_cap, 2**63 - 1))
    most = count_of(grid=TimeGrid(size=11), participation_cap=3, step_cap=step_cap, excess=excess)
    if tiers is not None and excess == "l2":
        most = make.changed(most, tiers=tiers)
    weights = most.weighting.weights(most.reading)
    begins = np.cumsum(lengths) - lengths
    expected = np.repeat(scaling.weights_of(scaling.sizes_of(events, begins, weights.power), weights), lengths, axis=0)
    table = backend.table(who=who, step=np.arange(who.size), events=events)
    weighed = engine._fetch(engine._weighed(table, ["who"], weights, most.reading, engine._dialect(table)))
    found = np.column_stack([weighed[name].to_numpy() for name in weighed.column_names[1:]])
    assert found[np.argsort(weighed["step"].to_numpy())].tolist() == (expected * events[:, None]).tolist()
