"""Plain lines of CSV by their bytes mean what they mean to the ``csv`` module, whatever is in them and around them."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from opendp_timeseries.counting import fields, files, memory
from opendp_timeseries.counting.files import csv_batches, read_csv_log
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TimeGrid, read_byte_times, read_text_times
from tests.counting.tables import count_of

pytest.importorskip("pyarrow")

SOURCE = Source(identifier="who", time="when", by="key", value="much")
GRID = TimeGrid(start="2024-03-30", step="1h", size=47, zone="Europe/Paris")  # a clock goes forward
WHO = [
    "ann", "bob", " ann", "ann ", "", "17", "017", "+7", "17.0", "1e+16", "NaN", "null", "\xe9", "\u2028",
    "x" * 5000,
]  # fmt: skip
WHEN = [
    "2024-03-30", "2024-03-31T05:00Z", "2024-03-31T02:30", "20240330", " 2024-03-30T07 ", "", " ", "x",
    "2024-02-30",
]  # fmt: skip
WHEN += ["2024-03-30 07:00:00,5 +01", "2024-03-30t07:00:00.123456789", "\u0662024-03-30", "1711792800", "0000-00-00"]
REST = {"key": ["a", "7", "7.0", "", " a", "\xe4"], "much": ["1", "2.5", "", "-1", " 3", "1e2", "1_0", "inf", "\u0663"]}
DIRT = [
    b'"', b'"ann"', b'ann"', b"\0", b"\xff", b"\xc3", b"\r", b"\xef\xbb\xbfann", b"\x0b", b"\x1c", b"\x85",
    b"\\", b"'",
]  # fmt: skip
HOW = [{}, {"time_format": "%Y-%m-%d"}, {"time_format": "%d.%m.%Y %H:%M"}, {"time_unit": "s"}, {"encoding": "cp1252"}]


def csv_file(folder, seed, rows=40):
    """A file that has this or that wrong with it."""
    draw, path = np.random.default_rng(seed), folder / "log.csv"
    delimiter = str(draw.choice([",", ";", "\t", "|", " ", "'"]))
    dirt, ragged, dotted = draw.choice([0, 0, 0.01, 0.2]), draw.choice([0, 0, 0.1]), draw.random() < 0.3
    ends = (
        [b"\n"] if draw.random() < 0.4 else [[b"\r\n"], [b"\n", b"\r\n"], [b"\n", b"\r\r\n", b"\r"]][draw.integers(3)]
    )
    names = draw.permutation(["who", "when", "key", "much", "other"]).tolist()
    choices = {"who": WHO, "when": WHEN, **REST, "other": ["", "words"]}
    if dotted:
        choices["when"] = ["30.03.2024 07:00", "30.3.2024 7:00", "x", ""]
    text = delimiter.join(names).encode() + (b"\r\n" if ends[0] == b"\r\n" else b"\n")
    for _ in range(rows):
        cells = [str(draw.choice(choices[name])).encode() for name in names]
        if draw.random() < dirt:
            place = draw.integers(len(cells))
            cells[place] = draw.choice(np.array([cells[place], b""], object)) + DIRT[draw.integers(len(DIRT))]
        if draw.random() < ragged:
            cells = [*cells[: draw.integers(len(cells) + 1)], *[b"more"] * draw.integers(3)]
        text += delimiter.encode().join(cells) + ends[draw.integers(len(ends))]
    path.write_bytes(text if draw.random() < 0.5 else text.rstrip(b"\r\n"))
    return path, delimiter


def rows_of(path, **how):
    """Every row: who, when, whether that is a text that is no time, the key and the value; and what is said of all."""
    numbers, notes = defaultdict(itertools.count(1).__next__, {"": 0}), []
    rows = []
    for batch in csv_batches(path, SOURCE, numbers, zone="Europe/Paris", notes=notes, **how):
        who, when, *others = batch.values()
        names = list(numbers)
        people = texts_of(who) if who.values is None else [names[number] or None for number in who.values]
        cells = people, when.values.view(np.int64).tolist(), when.unread.tolist(), *map(texts_of, others)
        rows += zip(*cells, strict=True)
    return rows, notes


def texts_of(column):
    cells = column.cells if column.codes is None else [column.cells[code] for code in column.codes]
    return [cell or None for cell in cells]


def counted(path, **how):
    """Counts of many kinds, as the same key keeps the same steps."""
    caps = {"participation_cap": 2, "step_cap": 2}
    columns = {"identifier": "who", "time": "when", "grid": GRID}
    counts = [count_of(**columns, by="key", keys=["a", "7"], **caps), count_of(**columns, **caps, gap=2)]
    logs = [(read_csv_log(path, count.reading, zone="Europe/Paris", **how), count) for count in counts]
    return [(memory.count(log, count, bytes(16)).tolist(), log.tally, log.notes) for log, count in logs]


def reader(monkeypatch):
    """Return a function that reads a file with or without PyArrow, and says how many blocks of it were plain."""
    monkeypatch.setattr(files, "_LARGE", 0)
    found = []

    def fields_of(*given):
        found.append(fields.plain_fields(*given))
        return found[-1]

    monkeypatch.setattr(files, "plain_fields", fields_of)

    def read(function, path, size, *, arrow, **how):
        monkeypatch.setattr(files, "_BLOCK", size)
        monkeypatch.setattr(files, "_has_arrow", lambda: arrow)
        found.clear()
        return function(path, **how), sum(block is not None for block in found)

    return read


@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.long)], ids="{0.start} to {0.stop}".format
)
def test_rows_are_those_of_the_csv_module(tmp_path, monkeypatch, seeds):
    read = reader(monkeypatch)
    in_bytes = 0
    for seed in seeds:
        path, delimiter = csv_file(tmp_path, seed)
        how = {"delimiter": delimiter} | HOW[seed % len(HOW)]
        for function in (rows_of, counted):
            expected, _ = read(function, path, 2**22, arrow=False, **how)
            for size in (2**22, 200) if seed < 6 else (2**22, 200, 1):
                result, blocks = read(function, path, size, arrow=True, **how)
                assert result == expected
                in_bytes += blocks
    assert in_bytes > 6 * len(seeds)


@pytest.mark.parametrize("line", [
    b'"ann', b"ann\0", b"ann\r,", b"\xef\xbb\xbfann", b"\xff", b"", b",", b"ann,2024-03-30,a,1,more",
    b"ann,2024-03-30",
])  # fmt: skip
def test_one_line_is_one_row_whatever_is_in_it(tmp_path, monkeypatch, line):
    read = reader(monkeypatch)
    path = tmp_path / "log.csv"
    path.write_bytes(b"who,when,key,much\nbob,2024-03-30,a,1\n" + line + b"\nann,2024-03-30,7,2\r\n")
    (expected, _), _ = read(rows_of, path, 2**22, arrow=False)
    assert len(expected) == 3
    for size in (1, 25, 2**22):
        (rows, _), _ = read(rows_of, path, size, arrow=True)
        assert rows == expected


def test_all_lines_of_a_plain_file_are_read_by_their_bytes(tmp_path, monkeypatch):
    read = reader(monkeypatch)
    path = tmp_path / "log.csv"
    rows = [("\xe4nn", "2024-03-30T07:00", "a", "1"), ("", "", "", ""), ("bob", " 2024-03-30 ", "7", "x")]
    path.write_text("who,when,key,much\r\n" + "".join(",".join(row) + "\r\n" for row in rows), "utf-8", newline="")
    (seen, notes), blocks = read(rows_of, path, 2**22, arrow=True)
    assert (len(seen), notes, blocks) == (3, [], 1)
    assert [row[0] for row in seen] == ["\xe4nn", None, "bob"]
    assert [row[2] for row in seen] == [False] * 3
    assert [row[4] for row in seen] == ["1", None, "x"]


def test_times_by_their_bytes_are_those_of_texts():
    for texts in (WHEN, WHEN[:1] * 3, ["2024-03-30"], [""], []):
        encoded = [text.encode() for text in texts]
        data, ends = np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=int)
        times, aware = read_byte_times(data, ends)
        expected = read_text_times(texts)
        there = ~np.isnat(times)
        assert [text for text, missing in zip(texts, ~there, strict=True) if missing] == [
            text for text, time in zip(texts, expected.times, strict=True) if np.isnat(time) or text != text.strip()
        ]  # spaces around a time are for texts
        assert times[there].tolist() == expected.times[there].tolist()
        assert aware[there].tolist() == expected.aware[there].tolist()
