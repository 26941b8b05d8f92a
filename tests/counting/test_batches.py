"""Rows that are folded while a file is read give what all rows give, and memory is that of who is where."""

import tracemalloc

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting import batches, files, memory
from opendp_timeseries.counting.files import read_csv_log
from opendp_timeseries.counting.progress import progress_listener
from opendp_timeseries.counting.tables import log_in_utc
from opendp_timeseries.grid import Period
from tests.counting.tables import count_of, rows_of_csv
from tests.refused import refuses

GRID = ts.TimeGrid(start="2024-03-30", step="1h", size=47, zone="Europe/Paris")  # a clock goes forward
ONE_STEP = ts.TimeGrid.from_edges([GRID.start, GRID.end], zone=GRID.zone)
KEYS = ["a", "7", "nowhere"]
CAPS = [
    {"participation_cap": 2, "step_cap": 1},
    {"participation_cap": 3, "step_cap": 2, "excess": "l2"},
    {"participation_cap": 3, "step_cap": 10**30, "gap": 2},
    {"participation_cap": 2, "step_cap": 3, "key_cap": 1, "gap": 3},
    {"participation_cap": 1, "step_cap": 2, "period": Period("1d", "Europe/Paris")},
]


def log_file(folder, seed, rows=2000):
    """People who come often, some in two spellings, with all that can be wrong with a row."""
    draw, path = np.random.default_rng(seed), folder / "log.csv"
    who = draw.choice(["ann", "bob", "17", "17.0", "1e+16", "1" + "0" * 16, "", " ann"], rows)
    minutes = np.datetime64("2024-03-29T20:00") + draw.integers(0, 3 * 24 * 60, rows)
    wrong = draw.choice(["", "x", " ", "1970-01-01", "2024-03-30T24"], rows)
    when = np.where(draw.random(rows) < 0.1, wrong, np.datetime_as_string(minutes))
    key = draw.choice(["a", "7", "7.0", "b", ""], rows)
    lines = [",".join(row) for row in zip(who, when, key, strict=True)]
    path.write_text("who,when,key\n" + "\n".join([*lines, "short", '"', ""]))
    return path


@pytest.fixture(params=[1, 50, 2**20], ids="folded from {}".format)
def many(request, monkeypatch):
    monkeypatch.setattr(batches, "_MANY", request.param)
    return request.param


@pytest.mark.parametrize(
    ("caps", "panel"), [(caps, p) for caps in CAPS for p in (False, True) if p or "key_cap" not in caps]
)
def test_counts_are_those_of_all_rows(tmp_path, many, caps, panel):
    keys = {"by": "key", "keys": KEYS} if panel else {}
    path, names = log_file(tmp_path, 3), {"identifier": "who", "time": "when"}
    rows = log_in_utc(rows_of_csv(path, **names, zone="UTC", **{"by": "key"} if panel else {}))
    asked = count_of(**names, grid=GRID, **keys, **caps)
    log = read_csv_log(path, asked.reading, zone="UTC")
    others = [
        count_of(**names, grid=GRID, **keys, participation_cap=2, step_cap=1),
        count_of(**names, grid=GRID, step_cap=caps["step_cap"]),  # without keys, those that are not listed count
        count_of(**names, grid=ONE_STEP, once_over=GRID, participation_cap=1, step_cap=1),
    ]
    for count in (asked, *others):
        expected = memory.count(rows, count, bytes(16))
        assert expected.sum() > 0
        assert memory.count(log, count, bytes(16)).tolist() == expected.tolist()
        steps = [sorted(memory.participation(table, count.reading).tolist()) for table in (log, rows)]
        assert steps[0] == steps[1]


@pytest.mark.parametrize("panel", [False, True])
def test_the_tally_is_that_of_all_rows(tmp_path, many, panel):
    keys = {"by": "key", "keys": KEYS} if panel else {}
    asked = count_of("who", "when", GRID, **keys, step_cap=1)
    tally = memory.tally(read_csv_log(log_file(tmp_path, 5), asked.reading, zone="UTC"), asked.reading)
    assert tally.rows == 2002
    assert min(tally.missing_identifier, tally.missing_time, tally.unreadable_time, tally.off_grid) > 0
    assert (tally.unknown_key > 0) == panel
    assert (tally.unknown_identifier, tally.unknown_time) == (0, 0)


def test_as_many_rows_of_one_individual_as_the_step_cap_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_MANY", 1)
    path, asked = tmp_path / "log.csv", count_of("who", "when", GRID, step_cap=3)
    rows = "ann,2024-03-30T00:30\n" * 7 + "bob,2024-03-30T00:30\nbob,2020-01-01\nann,\n"
    path.write_text(f"who,when\n{rows}")
    log = read_csv_log(path, asked.reading, zone="Europe/Paris")
    assert [log["who"].cells[code] for code in log["who"].codes] == ["ann"] * 3 + ["bob"]
    assert memory.count(log, asked, bytes(16)).tolist() == [4] + [0] * (GRID.size - 1)


def test_the_share_that_is_read_grows_to_the_whole(tmp_path):
    path, shares = log_file(tmp_path, 9, 40_000), []
    with progress_listener(shares.append):
        read_csv_log(path, count_of("who", "when", GRID).reading, zone="UTC")
    read_csv_log(path, count_of("who", "when", GRID).reading, zone="UTC")  # nobody hears
    assert len(shares) > 1
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares[0] < 1.0


def test_one_column_is_not_who_and_when(tmp_path):
    with pytest.raises(ValueError, match=r"^column 'when'"):
        read_csv_log(log_file(tmp_path, 1), count_of("when", "when", GRID).reading, zone="UTC")


@pytest.mark.long
@pytest.mark.parametrize("large", [0, 2**40], ids=["by bytes, with PyArrow", "by the csv module"])
def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch, large):
    monkeypatch.setattr(batches, "_MANY", 2**14)
    monkeypatch.setattr(files, "_LARGE", large)
    monkeypatch.setattr(files, "_BLOCK", 2**18)
    peaks = []
    for rows in (5 * 10**4, 4 * 10**5):
        path, asked = log_file(tmp_path, 1, rows), count_of("who", "when", GRID, step_cap=1)
        tracemalloc.start()
        memory.count(read_csv_log(path, asked.reading, zone="UTC"), asked, bytes(16))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_a_log_that_was_read_says_which_column_it_lacks(tmp_path):
    asked = count_of("who", "when", GRID, step_cap=1)
    log = read_csv_log(log_file(tmp_path, 1), asked.reading, zone="UTC")
    for table in (log, log_in_utc({"who": np.arange(2), "when": np.zeros(2, "M8[s]")})):
        with pytest.raises(ValueError, match=r"^column 'what'.*'who'.*'when'"):
            memory.count(table, count_of("what", "when", GRID), bytes(16))
        refuses("column 'what'", memory.check_schema, table, identifier="who", time="what")
