"""Files counted batch by batch give what the same log gives in memory, whatever the batches."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin import participation_count as constructor

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


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_what_is_kept_is_what_is_kept_in_memory(tmp_path, log_space, kind):
    columns = {"id": IDENTIFIERS[kind], "time": TIME}
    log = file_of(tmp_path, **columns)
    assert engine_of(log) is engine
    assert log_space[0].member(log)
    for cap in (1, 5, 40):
        assert chain(log_space, cap)(log) == chain(log_space, cap)(pa.table(columns))
    histogram = log_space >> ts.then_participation_histogram(GRID, caps=[2, 5, 20])
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


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"id": pa.array([[1]] * ROWS)}, TypeError, "'id' of type list.* cannot identify"),
        ({"time": pa.array([[1]] * ROWS)}, TypeError, "'time' of type list.* does not hold times"),
        ({"time": pa.array(WHO * 1.0)}, TypeError, "float64 are not instants"),
        ({"time": pa.array(WHO)}, TypeError, "int64 are not instants"),
        ({"id": None}, ValueError, "'id' is missing"),
    ],
)
def test_columns_are_refused_by_type_before_any_row_is_read(tmp_path, monkeypatch, change, error, words):
    columns = {"id": pa.array(WHO), "time": TIME} | change
    log = file_of(tmp_path, **{name: column for name, column in columns.items() if column is not None})
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(error, match=words):
        engine.count(log, Layout("id", "time", GRID), Caps(1, 1), KEY)


def test_a_failure_quotes_no_row(tmp_path):
    (tmp_path / "log.csv").write_text("id,time\n7,2013-01-01T00:00:00\nsecret,2013-01-01T00:00:00\n")
    schema = pa.schema({"id": pa.int64(), "time": pa.timestamp("s")})
    log = ds.dataset(tmp_path / "log.csv", format="csv", schema=schema)
    for act in (
        engine.participation,
        lambda *args: engine.count(*args, Caps(1, 1), KEY),
    ):
        with pytest.raises(RuntimeError, match="could not be read to its end") as failure:
            act(log, Layout("id", "time", GRID))
        assert failure.value.__context__ is None


def test_a_context_on_a_file(tmp_path, log_space):
    context = ts.compositor(
        file_of(tmp_path, id=pa.array(WHO), time=TIME), domain=log_space[0], privacy_unit=(log_space[1], 1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=2,
    )  # fmt: skip
    for _ in range(2):  # the file is read anew
        delta = context.remaining_privacy_loss()[0][1]
        exact = {"output_measure": dp.approximate(dp.max_divergence()), "delta": delta}
        query = context.query().participation_count(GRID, participation_cap=3)
        release = query.subsampled_gaussian(sampling_probability=0.5, **exact).release()
        assert isinstance(release, ts.Release)


@pytest.mark.long
def test_memory_is_that_of_packed_rows(tmp_path, monkeypatch):
    import tracemalloc

    monkeypatch.setattr(engine, "_BATCH", 2**16)
    rows = 3_000_000
    log = file_of(tmp_path, id=pa.array(np.arange(rows) % 50_000), time=pa.array(np.arange(rows) // 50_000))
    layout = Layout("id", "time", TimeGrid(size=100))
    tracemalloc.start()
    counts = engine.count(log, layout, Caps(20, 1), KEY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.sum() == 50_000 * 20
    # 8 to 10 bytes a row, twice for a moment where tracemalloc counts a reallocation as a copy (Python 3.12). Arrow's
    # own memory, which it does not see, is that of a few batches: tests/benchmarks/test_engines.py.
    assert peak < 18 * rows + 16 * 2**20
