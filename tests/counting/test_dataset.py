"""Files counted batch by batch give what the same log gives in memory, whatever the batches."""

import datetime as dt
import itertools

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_parquet_log
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin import participation_count as constructor
from tests import make
from tests.counting.tables import count_of
from tests.refused import refuses

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

from opendp_timeseries.counting import dataset as engine  # noqa: E402

KEY = bytes(range(16))
GRID = TimeGrid(size=40, start="2013-01-01", step="1h", zone="Europe/Paris")
ROWS = 3000
RANDOM = np.random.default_rng(7)
WHO = RANDOM.integers(0, 60, ROWS)
TIME = pa.array(
    (np.datetime64("2013-01-01", "s").astype(int) + RANDOM.integers(-7200, 41 * 3600, ROWS)) * 1000, pa.timestamp("ms")
)
GAP = np.arange(ROWS) % 7 == 3
NAMES = np.array([f"é{person}" if person % 2 else f"N{person}" for person in WHO])


@pytest.fixture(autouse=True)
def _known_key_and_small_batches(monkeypatch):
    monkeypatch.setattr(constructor, "fresh_key", lambda: KEY)
    monkeypatch.setattr(engine, "_BATCH", 97)


def file_of(folder, **columns):
    path = folder / "log.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return ds.dataset(path)


def chain(space, cap=5, **kwargs):
    return space >> ts.then_participation_count(GRID, participation_cap=cap, step_cap=2, **kwargs)


IDENTIFIERS = {
    "integers": pa.array(WHO, mask=GAP),
    "small": pa.array(WHO, pa.uint8(), mask=GAP),
    "wide": pa.array(WHO * 2**57 - 2**62, mask=GAP),
    "wide and unsigned": pa.array(WHO.astype(np.uint64) * np.uint64(2**58), mask=GAP),
    "wide in the last batch": pa.array(np.where(np.arange(ROWS) < ROWS - 3, WHO, 2**62), mask=GAP),
    "whole floats": pa.array(WHO * 1.0, mask=GAP),
    "floats": pa.array(WHO / 2, mask=GAP),
    "floats that are whole but in the last batch": pa.array(np.where(np.arange(ROWS) < ROWS - 3, WHO, 0.5)),
    "decimals": pa.array(WHO.tolist(), pa.decimal128(20, 3), mask=GAP),
    "bytes": pa.array([name.encode() for name in NAMES.tolist()], mask=GAP),
    "text": pa.array(NAMES.tolist(), mask=GAP),
    "categories": pa.array(NAMES.tolist(), mask=GAP).dictionary_encode(),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_what_is_kept_is_what_is_kept_in_memory(tmp_path, log_space, kind):
    columns = {"id": IDENTIFIERS[kind], "time": TIME}
    log = file_of(tmp_path, **columns)
    assert engine_of(log) is engine
    assert log_space[0].member(log)
    for cap in (1, 5, 40):
        assert chain(log_space, cap)(log) == chain(log_space, cap)(pa.table(columns))
    histogram = log_space >> ts.then_participation_histogram(GRID, edges=[2, 5, 20])
    assert histogram(log) == histogram(pa.table(columns))


def test_a_folder_of_files_and_other_formats(tmp_path, log_space):
    columns = {"id": pa.array(NAMES.tolist()), "time": TIME}
    whole = pa.table(columns)
    expected = chain(log_space)(whole)
    for k in range(3):
        pq.write_table(whole[k * 1000 : (k + 1) * 1000], tmp_path / f"part{k}.parquet")
    assert chain(log_space)(ds.dataset(tmp_path)) == expected
    ds.write_dataset(whole, tmp_path / "arrow", format="ipc")
    assert chain(log_space)(ds.dataset(tmp_path / "arrow", format="ipc")) == expected
    assert chain(log_space)(ds.dataset(whole)) == expected
    some = ds.field("id") != "N2"
    assert chain(log_space)(ds.dataset(tmp_path / "part1.parquet").filter(some)) == chain(log_space)(
        whole[1000:2000].filter(some)
    )


def test_no_rows_and_no_files(tmp_path, log_space):
    empty = pa.table({"id": pa.array([], pa.string()), "time": pa.array([], pa.timestamp("us"))})
    (tmp_path / "none").mkdir()
    for log in (ds.dataset(empty), ds.dataset(tmp_path / "none", schema=empty.schema, format="parquet")):
        assert chain(log_space)(log) == [0] * 40


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"id": pa.array([[1]] * ROWS)}, TypeError, "column 'id' of type list<element: int64>"),
    ({"time": pa.array([[1]] * ROWS)}, TypeError, "column 'time' of type list<element: int64>"),
    ({"time": pa.array(WHO * 1.0)}, TypeError, "times of type float64"),
    ({"time": pa.array(WHO)}, TypeError, "times of type int64"),
    ({"id": None}, ValueError, "column 'id'"),
])  # fmt: skip
def test_columns_are_refused_by_type_before_any_row_is_read(tmp_path, monkeypatch, change, error, words):
    columns = {"id": pa.array(WHO), "time": TIME} | change
    log = file_of(tmp_path, **{name: column for name, column in columns.items() if column is not None})
    (tmp_path / "log.parquet").unlink()
    refuses(words, engine.count, log, count_of(grid=GRID), KEY, error=error)


def test_a_failure_quotes_no_row(tmp_path):
    (tmp_path / "log.csv").write_text("id,time\n7,2013-01-01T00:00:00\nsecret,2013-01-01T00:00:00\n")
    schema = pa.schema({"id": pa.int64(), "time": pa.timestamp("s")})
    log = ds.dataset(tmp_path / "log.csv", format="csv", schema=schema)
    for act in (lambda log, count: engine.participation(log, count.reading), lambda *args: engine.count(*args, KEY)):
        with pytest.raises(RuntimeError, match="could not be read to its end") as failure:
            act(log, count_of(grid=GRID))
        assert failure.value.__context__ is None


@pytest.mark.long
def test_memory_is_that_of_packed_rows(tmp_path, monkeypatch):
    import tracemalloc

    monkeypatch.setattr(engine, "_BATCH", 2**16)
    rows = 3_000_000
    log = file_of(tmp_path, id=pa.array(np.arange(rows) % 50_000), time=pa.array(np.arange(rows) // 50_000))
    tracemalloc.start()
    counts = engine.count(log, count_of(grid=TimeGrid(size=100), participation_cap=20, step_cap=1), KEY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.sum() == 50_000 * 20
    # 8 to 10 bytes a row, twice for a moment where tracemalloc counts a reallocation as a copy (Python 3.12). Arrow's
    # own memory, which it does not see, is that of a few batches: tests/benchmarks/test_count.py.
    assert peak < 18 * rows + 16 * 2**20


# --- Files of one log that differ in their types (B: each by its own, or refused by name) ---

HOURS = TimeGrid(start="2024-07-01", step="1h", size=24, zone="America/New_York")
LOCAL, UTC = dt.datetime(2024, 7, 1, 5, 30), dt.datetime(2024, 7, 1, 9, 30)
NUMBERS = pa.array([7, 7, 9])


def times(moment, kind):
    return pa.array([moment, moment, moment], kind)


#: Files that all say half past five in New York, but for dates, which are at midnight.
OF_ONE_LOG = {
    "naive": pa.table({"id": NUMBERS, "t": times(LOCAL, pa.timestamp("us"))}),
    "UTC": pa.table({"id": NUMBERS, "t": times(UTC, pa.timestamp("us", tz="UTC"))}),
    "milliseconds": pa.table({"id": NUMBERS, "t": times(LOCAL, pa.timestamp("ms"))}),
    "nanoseconds": pa.table({"id": NUMBERS, "t": times(LOCAL, pa.timestamp("ns"))}),
    "narrow": pa.table({"id": NUMBERS.cast(pa.int16()), "t": times(LOCAL, pa.timestamp("us"))}),
    "nobody": pa.table({"id": pa.nulls(3), "t": times(LOCAL, pa.timestamp("us"))}),
    "never": pa.table({"id": NUMBERS, "t": pa.nulls(3)}),
    "dates": pa.table({"id": NUMBERS, "t": times(LOCAL.date(), pa.date32())}),
}


def folder_of(path, *files):
    for k, table in enumerate(files):
        pq.write_table(table, path / f"{k}.parquet")
    return ds.dataset(path, format="parquet")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("pair", list(itertools.permutations(OF_ONE_LOG, 2)), ids=" then ".join)
def test_every_file_is_read_by_its_own_types(tmp_path, pair):
    count = count_of("id", "t", HOURS)
    log = folder_of(tmp_path, *(OF_ONE_LOG[name] for name in pair))
    expected = np.zeros(24, dtype=int)
    for name in pair:
        expected[0 if name == "dates" else 5] += 0 if name in ("nobody", "never") else 3
    assert engine_of(log).count(log, count, bytes(16)).tolist() == expected.tolist()
    tally = engine_of(log).tally(log, count.reading)
    assert (tally.rows, tally.counted) == (6, expected.sum())


def test_files_whose_identifiers_are_numbered_together_may_differ_in_their_times(tmp_path):
    wide = [2**40 + 2**50, 5, 2**40 + 2**50]  # too wide to be packed as they are
    files = [
        pa.table({"id": pa.array(wide), "t": OF_ONE_LOG[name]["t"], "k": ["a", "b", "a"]}) for name in ("UTC", "dates")
    ]
    log = folder_of(tmp_path, *files)
    count = space_of("t") >> ts.then_participation_count(
        HOURS, participation_cap=24, step_cap=9, by="k", keys=["b", "a"]
    )
    found = np.reshape(count(log), (2, 24))
    assert (found[0, [0, 5]].tolist(), found[1, [0, 5]].tolist(), found.sum()) == ([1, 1], [2, 2], 6)


def space_of(time):
    return ts.event_log_domain(identifier="id", time=time), dp.symmetric_distance()


@pytest.mark.parametrize(
    "identifiers", [pa.array(["x"]), pa.array([1.0]), pa.array(["x"]).dictionary_encode(), pa.array([1], pa.uint64())],
    ids=str,
)  # fmt: skip
def test_identifiers_that_no_one_type_holds_are_refused_by_file_and_column(tmp_path, identifiers):
    other = pa.table({"id": identifiers, "t": OF_ONE_LOG["naive"]["t"][:1]})
    log = folder_of(tmp_path, OF_ONE_LOG["naive"], other)
    with pytest.raises(TypeError, match=r"column 'id' is of type .* in .*1\.parquet .*write all of them with one type"):
        engine_of(log).count(log, count_of("id", "t", HOURS), bytes(16))


def test_keys_of_folders_that_were_read_as_numbers_are_refused_by_name(tmp_path):
    rows = pa.table({"id": [1, 2, 3], "t": [0, 0, 1], "station": ["007", "007", "8"]})
    pq.write_to_dataset(rows, tmp_path, partition_cols=["station"])
    count = count_of("id", "t", TimeGrid(size=2), "station", ["007", "8"])
    declared = ds.partitioning(pa.schema([("station", pa.string())]), flavor="hive")
    log = ds.dataset(tmp_path, format="parquet", partitioning=declared)
    assert engine_of(log).count(log, count, bytes(16)).tolist() == [2, 0, 0, 1]
    log = ds.dataset(tmp_path, format="parquet", partitioning="hive")
    with pytest.raises(TypeError, match=r"^key '007'.*'7'.*'station'.*int32"):
        engine_of(log).count(log, count, bytes(16))
    numbers = make.changed(count, panel=(7, 8))
    assert engine_of(log).count(log, numbers, bytes(16)).tolist() == [2, 0, 0, 1]


FAR = [dt.datetime(2608, 7, 21, 23, 34, 33, 709552), dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31)]


def test_old_times_of_spark_do_not_wrap(tmp_path):
    # INT96 in nanoseconds: the first of these wraps around to 2024-01-01.
    table = pa.table({"id": [1, 2, 3], "t": pa.array(FAR, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "log.parquet", use_deprecated_int96_timestamps=True)
    count = count_of("id", "t", TimeGrid(start="2024-01-01", step="1d", size=1, zone="UTC"))
    logs = [
        ds.dataset(tmp_path / "log.parquet"),
        read_parquet_log(tmp_path / "log.parquet", Source(identifier="id", time="t")),
    ]
    logs.append(read_parquet_log(tmp_path / "log.parquet", Source(identifier="id", time="t"), zone="UTC"))
    for log in logs:
        assert engine_of(log).count(log, count, bytes(16)).tolist() == [1]
    log = logs[0].filter(ds.field("id") > 0)
    with pytest.raises(TypeError, match=r"column 't' holds INT96 in .*log\.parquet, which PyArrow reads in nano"):
        engine_of(log).count(log, count, bytes(16))
    log = ds.dataset(tmp_path / "log.parquet", format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"))
    log = log.filter(ds.field("id") > 0)
    assert engine_of(log).count(log, count, bytes(16)).tolist() == [1]


def test_files_of_a_filtered_log_must_be_alike(tmp_path):
    log = folder_of(tmp_path, OF_ONE_LOG["naive"], OF_ONE_LOG["UTC"]).filter(ds.field("id") == 7)
    count = count_of("id", "t", HOURS)
    with pytest.raises(TypeError, match=r"column 't' is of type .* in .*1\.parquet .*which is filtered"):
        engine_of(log).count(log, count, bytes(16))
    log = ds.dataset(tmp_path / "1.parquet").filter(ds.field("id") == 7)
    assert engine_of(log).count(log, count, bytes(16)).sum() == 2
