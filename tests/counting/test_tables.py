"""Reading tables: one log gives one answer, whatever holds it, and only types and names are refused."""

import datetime as dt
import subprocess
import sys
import traceback
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.counting.identifiers import identifier_text
from opendp_timeseries.counting.tables import check_schema, read_positions
from opendp_timeseries.grid import TimeGrid
from tests.counting.tables import count_of
from tests.refused import refuses

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

KEY = b"0123456789abcdef"
COLUMNS = {"identifier": "id", "time": "time"}
GRID = TimeGrid(size=40, start="2013-01-01", step="1h", zone="UTC")
CAPS = {"participation_cap": 3, "step_cap": 2}


def count(table, grid=GRID, **caps):
    check_schema(table, **COLUMNS)
    count = count_of(grid=grid, **CAPS | caps)
    return capped_count(*read_positions(table, count.reading), count, KEY).tolist()


def read(table, *, identifier="id", time="time", grid=GRID):
    return read_positions(table, count_of(identifier, time, grid).reading)


def names_of(table, grid=GRID):
    """The text of everybody's identifier, in the order of the rows; None for nobody."""
    who, _ = read(table, grid=grid)
    return [None if code < 0 else who.names[code] for code in who.codes]


def crowd(rows=400, seed=5):
    random = np.random.default_rng(seed)
    people = random.integers(0, 15, rows)
    times = np.datetime64("2013-01-01", "s") + random.integers(-7200, 41 * 3600, rows).astype("timedelta64[s]")
    return people, times


PEOPLE, TIMES = crowd()
NAMES = np.array([f"é{person:02d}" if person % 2 else f"N{person}" * person for person in PEOPLE])
GAP = np.arange(len(PEOPLE)) % 7 == 3  # rows without an identifier
PRESENT = count({"id": PEOPLE[~GAP], "time": TIMES[~GAP]})
NAMED = count({"id": NAMES[~GAP], "time": TIMES[~GAP]})
LIST = [None if gap else name for gap, name in zip(GAP, NAMES.tolist(), strict=True)]


def numpy_table(who, times=TIMES):
    return {"id": who, "time": times}


def pandas_table(who, times=TIMES):
    return pd.DataFrame({"id": who, "time": times})


def polars_table(who, times=TIMES):
    def known(column):  # Polars takes no seconds from NumPy
        seconds = isinstance(column, np.ndarray) and column.dtype.str == "<M8[s]"
        return column.astype("M8[ms]") if seconds else column

    return pl.DataFrame({"id": known(who), "time": known(times)})


def arrow_table(who, times=TIMES):
    return pa.table({"id": who, "time": pa.array(times)})


def exporting(table):
    """Something that knows nothing but the Arrow stream, as DuckDB's relations do."""

    class Exporter:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    return Exporter()


INTEGERS = {
    "numpy masked": lambda: numpy_table(np.ma.MaskedArray(PEOPLE, GAP)),
    "numpy masked uint8": lambda: numpy_table(np.ma.MaskedArray(PEOPLE.astype(np.uint8), GAP)),
    "pandas Int64": lambda: pandas_table(pd.array(np.where(GAP, None, PEOPLE), dtype="Int64")),
    "pandas UInt8": lambda: pandas_table(pd.array(np.where(GAP, None, PEOPLE), dtype="UInt8")),
    "pandas arrow": lambda: pandas_table(pd.array(np.where(GAP, None, PEOPLE), dtype="int32[pyarrow]")),
    "pandas categories": lambda: pandas_table(pd.Categorical(np.where(GAP, None, PEOPLE), categories=range(99))),
    "polars": lambda: polars_table(np.where(GAP, None, PEOPLE).tolist()),
    "polars lazy": lambda: polars_table(np.where(GAP, None, PEOPLE).tolist()).lazy(),
    "polars UInt64": lambda: polars_table(pl.Series(np.where(GAP, None, PEOPLE).tolist(), dtype=pl.UInt64)),
    "arrow": lambda: arrow_table(pa.array(PEOPLE, mask=GAP)),
    "arrow int8": lambda: arrow_table(pa.array(PEOPLE, pa.int8(), mask=GAP)),
    "arrow dictionary": lambda: arrow_table(pa.array(PEOPLE, mask=GAP).dictionary_encode()),
    "arrow stream": lambda: exporting(arrow_table(pa.array(PEOPLE, mask=GAP))),
    "arrow chunks": lambda: pa.concat_tables(
        arrow_table(pa.array(PEOPLE, mask=GAP))[k : k + 7] for k in range(0, 400, 7)
    ),
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_the_same_people_in_every_table(kind):
    assert count(INTEGERS[kind]()) == PRESENT


def repeated_dictionary():
    """Arrow allows a dictionary to say one name twice, and to hold nulls: still one person, and nobody."""
    names = sorted(set(NAMES.tolist()))
    positions = {name: k for k, name in enumerate(names)}
    codes = [None if name is None else positions[name] + (k % 2) * len(names) for k, name in enumerate(LIST)]
    codes = [2 * len(names) if code is None and k % 2 else code for k, code in enumerate(codes)]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array([*names, *names, None]))


def split_dictionaries():
    """Chunks with dictionaries of their own, in which one name has different codes."""
    pieces = [pa.array(LIST[k : k + 60]).dictionary_encode() for k in range(0, 400, 60)]
    return pa.chunked_array(pieces)


TEXT = {
    "numpy objects": lambda: numpy_table(np.array(LIST, dtype=object)),
    "numpy str_ objects": lambda: numpy_table(np.array([name and np.str_(name) for name in LIST], dtype=object)),
    "numpy masked U": lambda: numpy_table(np.ma.MaskedArray(NAMES, GAP)),
    "numpy wide U": lambda: numpy_table(np.ma.MaskedArray(NAMES.astype("U500"), GAP)),
    "numpy swapped U": lambda: numpy_table(np.ma.MaskedArray(NAMES.astype(">U50"), GAP)),
    "numpy S": lambda: numpy_table(np.ma.MaskedArray(np.char.encode(NAMES, "utf-8"), GAP)),
    "pandas default": lambda: pandas_table(LIST),
    "pandas object": lambda: pandas_table(pd.Series(LIST, dtype=object)),
    "pandas string python": lambda: pandas_table(pd.array(LIST, dtype=pd.StringDtype("python"))),
    "pandas string arrow": lambda: pandas_table(pd.array(LIST, dtype=pd.StringDtype("pyarrow"))),
    "pandas arrow": lambda: pandas_table(pd.array(LIST, dtype=pd.ArrowDtype(pa.string()))),
    "pandas arrow dictionary": lambda: pandas_table(
        pd.array(LIST, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    ),
    "pandas categories": lambda: pandas_table(pd.Categorical(LIST)),
    "pandas object categories": lambda: pandas_table(
        pd.Categorical(LIST, categories=pd.Index([*sorted(set(NAMES.tolist())), 5, "unused"], dtype=object))
    ),
    "polars": lambda: polars_table(LIST),
    "polars categories": lambda: polars_table(pl.Series(LIST, dtype=pl.Categorical)),
    "polars enum": lambda: polars_table(pl.Series(LIST, dtype=pl.Enum(["?", *sorted(set(NAMES.tolist()))]))),
    "polars stream": lambda: exporting(polars_table(LIST)),
    "arrow": lambda: arrow_table(pa.array(LIST)),
    "arrow large": lambda: arrow_table(pa.array(LIST, pa.large_string())),
    "arrow view": lambda: arrow_table(pa.array(LIST, pa.string_view())),
    "arrow repeated dictionary": lambda: arrow_table(repeated_dictionary()),
    "arrow split dictionaries": lambda: arrow_table(split_dictionaries()),
}
if hasattr(np.dtypes, "StringDType"):
    TEXT["numpy strings"] = lambda: numpy_table(np.array(LIST, dtype=np.dtypes.StringDType(na_object=None)))


def converts_views():
    try:
        pa.nulls(0, pa.string_view()).cast(pa.large_binary())
    except pa.ArrowNotImplementedError:
        return False
    return True


IDENTIFIERS_REFUSED = {}
if not converts_views():  # refused by type, with older versions of PyArrow
    IDENTIFIERS_REFUSED = {kind: TEXT.pop(kind)() for kind in ("arrow view", "polars stream")}


@pytest.mark.parametrize("kind", TEXT)
def test_names_are_the_same_people_in_every_table(kind):
    assert count(TEXT[kind]()) == NAMED


def test_large_identifiers_stay_apart_when_one_is_missing():
    people = [2**53, 2**53 + 1, None]
    times = np.repeat(TIMES[:1], 3)
    for table in (
        pandas_table(pd.array(people, dtype="Int64"), times),
        pandas_table(pd.Categorical(people, categories=pd.Index(people[:2])), times),
        polars_table(people, times),
        arrow_table(pa.array(people), times),
        numpy_table(np.ma.MaskedArray([2**53, 2**53 + 1, 0], [False, False, True]), times),
    ):
        assert sum(count(table, participation_cap=1, step_cap=1)) == 2


def test_unused_categories_cost_nothing():
    names = list(map("person {}".format, range(10**5)))
    times, used = np.repeat(TIMES[:1], 4), ["person 7", "person 99999", "person 0", None]
    for table in (
        pandas_table(pd.Categorical(used, categories=names), times),
        polars_table(pl.Series(used, dtype=pl.Enum(names)), times),
        arrow_table(pa.DictionaryArray.from_arrays(pa.array([7, 99_999, 0, None]), pa.array(names)), times),
    ):
        who, positions = read(table)
        assert sorted(who.names) == ["person 0", "person 7", "person 99999"]
        assert len(who.codes) == len(positions) == 4


def test_each_cell_of_a_column_of_objects_is_read_by_itself():
    class Hostile:
        __hash__ = None

        def __eq__(self, other):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

        __str__ = __repr__

    cells = ["a", None, 5, 5.0, float("nan"), [1], Hostile(), b"a", True, pd.NA, pd.NaT, "\ud800", "5", "05", 5.5]
    texts = ["a", None, "5", "5", None, None, None, "a", "True", None, None, "\ud800", "5", "05", "5.5"]
    objects = np.empty(len(cells), dtype=object)
    objects[:] = cells
    for table in (numpy_table, pandas_table):
        assert names_of(table(objects, TIMES[: len(cells)])) == texts
        count(table(objects, TIMES[: len(cells)]))


def test_text_that_is_not_unicode_is_no_error():
    # Bytes that are not UTF-8 are still names; code points beyond Unicode are not text.
    data = np.array([b"\xff\xfe", b"\xff", b"a"])
    assert count(numpy_table(data, np.repeat(TIMES[:1], 3))) == count(
        numpy_table(np.arange(3), np.repeat(TIMES[:1], 3))
    )
    beyond = np.array([[97, 0], [0x7FFFFFFF, 97], [0x110000, 0]], dtype=np.uint32).view("U2").ravel()
    assert names_of(numpy_table(beyond, TIMES[:3])) == ["a", None, None]
    buffers = [None, pa.py_buffer(np.array([0, 2, 3, 4], np.int32)), pa.py_buffer(b"\xff\xfe\xffa")]
    raw = pa.Array.from_buffers(pa.string(), 3, buffers)
    assert len(set(names_of(arrow_table(raw, TIMES[:3])))) == 3
    assert names_of(numpy_table(np.zeros(3, "U0"), TIMES[:3])) == [None] * 3


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=4), st.integers(), st.floats(), st.binary(max_size=3)), max_size=30)
)
def test_no_objects_raise_or_warn(values):
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for table in (numpy_table, pandas_table):
            names = names_of(table(objects, TIMES[: len(values)]))
            assert names == [identifier_text(value) for value in values]


SIGNALLING = {"f2": 0x7D01, "f4": 0x7FA00000, "f8": 0x7FF4000000000000}  # the pattern of bits of such a NaN


@pytest.mark.parametrize("column", ["id", "time", "by"])
@pytest.mark.parametrize("kind", SIGNALLING)
def test_no_pattern_of_bits_warns(kind, column):
    # A warning would be the work of the one row that holds it.
    odd = np.array([SIGNALLING[kind]], kind.replace("f", "u")).view(kind)
    columns = {"id": np.arange(1, 5), "time": np.arange(4), "by": np.array([1, 2, 1, 2])}
    table = columns | {column: np.concatenate([odd, columns[column][1:].astype(kind)])}
    asked = count_of("id", "time", TimeGrid(size=4), by="by", keys=["1", "2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for log in (table, pd.DataFrame(table), pa.table({name: pa.array(array) for name, array in table.items()})):
            _, positions = read_positions(log, asked.reading)
            assert positions.tolist() == [-1, 5, 2, 7]


FOLDS = [dt.datetime(2024, 10, 27, 2, 30, fold=fold) for fold in (0, 1)]
FOLDS += [dt.datetime(2024, 3, 31, 2, 30, fold=1), dt.datetime(2024, 7, 1, 0, 0, fold=1)]


def test_the_second_of_two_times_that_a_clock_shows():
    grid = TimeGrid(start="2024-01-01", step="1h", size=366 * 24, zone="Europe/Berlin")
    utc = ["2024-10-27T00:30", "2024-10-27T01:30", "2024-03-31T00:30", "2024-06-30T22:00"]  # as of PEP 495
    expected = grid.steps(np.array(utc, "M8[ns]"), aware=True).tolist()
    stamps = [pd.Timestamp(time).replace(fold=time.fold) for time in FOLDS]
    for times in (FOLDS, stamps):
        objects = np.array([*times, "x"], dtype=object)
        for table in ({"id": objects, "time": objects}, pd.DataFrame({"id": objects, "time": objects})):
            assert read(table, grid=grid)[1].tolist() == [*expected, -1]


# Types of columns that are never the work of one row.
IDENTIFIERS_REFUSED |= {
    "numpy void": numpy_table(PEOPLE.view("V8")),
    "numpy long double": numpy_table(PEOPLE.astype(np.longdouble)),
    "pandas sparse": pandas_table(pd.arrays.SparseArray(PEOPLE)),
    "polars object": polars_table(pl.Series([object()] * 400, dtype=pl.Object)),
    "polars lazy list": polars_table(pl.Series([[1]] * 400)).lazy(),
    "arrow list": arrow_table(pa.array([[1]] * 400)),
    "arrow struct": arrow_table(pa.array([{"a": 1}] * 400)),
    "arrow time": arrow_table(pa.array([1] * 400, pa.time64("us"))),
    "arrow list dictionary": arrow_table(pa.DictionaryArray.from_arrays(pa.array([0] * 400), pa.array([[1]]))),
}


@pytest.mark.parametrize("kind", IDENTIFIERS_REFUSED)
def test_identifiers_are_refused_by_type(kind):
    table = IDENTIFIERS_REFUSED[kind]
    for function in (check_schema, read):
        with pytest.raises(TypeError, match=r"^column 'id' of type") as caught:
            function(table, **COLUMNS)
        assert "convert it to integers" in str(caught.value)


TIMES_REFUSED = {
    "numpy duration": numpy_table(PEOPLE, TIMES - TIMES[0]),
    "numpy bool": numpy_table(PEOPLE, PEOPLE > 3),
    "pandas period": pandas_table(PEOPLE, pd.Series(TIMES).dt.to_period("D")),
    "pandas duration": pandas_table(PEOPLE, TIMES - TIMES[0]),
    "polars duration": polars_table(PEOPLE, (TIMES - TIMES[0]).astype("m8[ms]")),
    "polars time": polars_table(PEOPLE, [dt.time(1)] * 400),
    "arrow time": arrow_table(PEOPLE, pa.array([1] * 400, pa.time64("us"))),
}


@pytest.mark.parametrize("kind", TIMES_REFUSED)
def test_times_are_refused_by_type(kind):
    for function in (check_schema, read):
        with pytest.raises(TypeError, match=r"^column 'time' of type"):
            function(TIMES_REFUSED[kind], **COLUMNS)


@pytest.mark.parametrize("table", [numpy_table, pandas_table, polars_table, arrow_table])
def test_columns_are_found_by_name(table):
    for function in (check_schema, read):
        with pytest.raises(ValueError, match=r"^column 'nobody'.*'id'.*'time'"):
            function(table(PEOPLE), identifier="nobody", time="time")
    check_schema(table(PEOPLE), **COLUMNS)


def test_ambiguous_columns_are_refused():
    twice = pd.concat([pandas_table(PEOPLE), pandas_table(PEOPLE)], axis=1)
    both = pa.Table.from_arrays([pa.array(PEOPLE)] * 2 + [pa.array(TIMES)], ["id", "id", "time"])
    for table in (twice, both):
        refuses(r"column 'id'.*2", check_schema, table, **COLUMNS)


@pytest.mark.parametrize(("table", "error", "message"), [
    ({"id": PEOPLE, "time": TIMES[1:]}, ValueError, "columns 'id', 'time'"),
    ({"id": PEOPLE.tolist(), "time": TIMES}, TypeError, "one-dimensional NumPy array"),
    ({"id": PEOPLE[:, None], "time": TIMES}, TypeError, "one-dimensional NumPy array"),
    ([1, 2, 3], TypeError, "a table of type list"), (None, TypeError, "a table of type NoneType"),
    (np.zeros((2, 2)), TypeError, "a table of type ndarray"),
    (pa.table({"id": [1], "time": [1]}).to_reader(), TypeError, "a RecordBatchReader"),
])  # fmt: skip
def test_what_is_no_table_is_refused(table, error, message):
    for function in (check_schema, read):
        refuses(message, function, table, error=error, **COLUMNS)


def test_other_columns_are_ignored():
    extra = {"n": [object()] * 2}
    frame = pd.DataFrame({"id": [1, 2], "time": TIMES[:2]} | extra)
    polars = polars_table([1, 2], TIMES[:2]).with_columns(pl.Series("n", extra["n"], dtype=pl.Object))
    assert sum(count(frame)) == sum(count(polars)) == sum(count({"id": np.arange(2), "time": TIMES[:2]} | extra))


def test_checking_reads_no_rows():
    def bomb(batch):
        raise AssertionError("read")

    frame = polars_table([1], TIMES[:1]).lazy().map_batches(bomb)
    check_schema(frame, **COLUMNS)
    objects = pandas_table(pd.Series([object()] * 400))
    check_schema(objects, **COLUMNS)


def test_zero_rows_of_every_kind():
    for make in (*INTEGERS.values(), *TEXT.values()):
        table = make()
        if hasattr(table, "iloc"):
            table = table.iloc[:0]
        elif isinstance(table, dict):
            table = {name: column[:0] for name, column in table.items()}
        elif hasattr(table, "slice"):
            table = table.slice(0, 0)
        else:
            continue
        assert count(table) == [0] * 40


@pytest.mark.long
def test_optional_libraries_are_not_imported():
    code = (
        "import sys, numpy as np\n"
        "for name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "from opendp_timeseries.design.reading import Reading, Source\n"
        "from opendp_timeseries.counting.tables import read_positions, check_schema\n"
        "from opendp_timeseries.grid import TimeGrid\n"
        "table = {'id': np.array(['a']), 'time': np.array([0])}\n"
        "check_schema(table, identifier='id', time='time')\n"
        "source = Source(identifier='id', time='time')\n"
        "read_positions(table, Reading(source=source, grid=TimeGrid(size=3)))\n"
        "class Stream:\n"
        "    def __arrow_c_stream__(self, requested_schema=None): raise AssertionError\n"
        "try: check_schema(Stream(), identifier='id', time='time')\n"
        "except TypeError as error: assert 'install opendp_timeseries[tables]' in str(error), error\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("kind", ["lazy frame", "stream"])
def test_a_table_that_fails_as_it_is_read_quotes_nothing(kind):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = pl.LazyFrame({"id": ["SECRET", "2"], "time": [1, 2]})
    table = frame.with_columns(pl.col("id").cast(pl.Int64))
    if kind == "stream":
        schema = pa.schema({"id": pa.int64(), "time": pa.int64()})

        class Failing:
            def __arrow_c_stream__(self, requested_schema=None):
                def batches():
                    yield pa.record_batch({"id": pa.array([1]), "time": pa.array([1])})
                    raise ValueError("SECRET")

                return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()

        table = Failing()
    check_schema(table, identifier="id", time="time")
    with pytest.raises(TypeError, match=r"^the table") as refused:
        read(table, grid=TimeGrid(size=3))
    error = refused.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "SECRET" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("odd", [[], [None, 17.0, "17"], ["\ud800"]], ids=["text", "mixed", "lone surrogate"])
def test_cells_that_share_an_object_are_read_as_those_that_do_not(odd):
    people, times = crowd()
    shared = np.array([f"José Müller {k:02}" for k in range(15)] + ["".join(["José Müller ", "03"])], dtype=object)
    ids = [*shared[np.where(people == 3, 3 + 12 * (np.arange(400) % 2), people)], *odd]  # one name by two objects
    fresh = ["".join([*text]) if isinstance(text, str) else text for text in ids]
    times = np.append(times, times[: len(odd)])
    taken = [{"id": np.array(column, dtype=object), "time": times} for column in (ids, fresh)]
    assert names_of(taken[0]) == names_of(taken[1])
    assert count(taken[0]) == count(taken[1])
