"""Names as Arrow keeps them: the same people as cell by cell in Python, whatever batches they come in."""

import numpy as np
import pytest

from opendp_timeseries import TimeGrid
from opendp_timeseries.counting import batches, dataset, memory
from opendp_timeseries.counting.identifiers import canonical_text, identifier_text
from opendp_timeseries.counting.texts import Numbers, Texts
from tests.counting.tables import count_of

pa = pytest.importorskip("pyarrow")
arrow_dataset = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
NAMES = ["ann", "Ann", "ann ", "17", "17.0", "17.00", "1e+16", "1" + "0" * 16, "e+", "-0.0", "0", "0.0", ".0", "bob.0"]
NAMES += ["", "1.0e+3", "äö", "😀", "a\nb", "10.0.0.1", "1.5", "nan", "True", "x" * 40]
GRID = TimeGrid(size=9)


def test_what_python_would_change_is_found():
    texts = [*NAMES, "e", "+", ""]
    made = Texts(pa.array([text.encode() for text in texts], "large_binary"))
    expected = [k for k, text in enumerate(texts) if not text or canonical_text(text) != text]
    assert made.special().tolist() == expected
    assert list(made) == texts
    assert list(made[3:5]) == texts[3:5]
    assert (made[0], made.at(np.array([1, 0, 1]))) == ("ann", ["Ann", "ann", "Ann"])
    for first in range(len(texts)):
        assert Texts(made.array[first:]).special().tolist() == [k - first for k in expected if k >= first]
    assert Texts(pa.array([], "large_binary")).special().tolist() == []


def test_bytes_that_are_no_utf8_tell_people_apart():
    names = [b"\xff", b"\xfe", "ÿ".encode(), b"\xed\xb2\x80", b"ann"]
    made = Texts(pa.array(names, "large_binary"))
    assert list(made) == [identifier_text(name) for name in names]
    numbers = Numbers()
    both = [*numbers.of(made)[:-1], *numbers.of(list(made)[::-1])[:-1]]
    assert numbers.settled()[both].tolist() == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]
    assert list(numbers.names) == list(made)


@pytest.mark.parametrize("room", [1, 40, 2**22])
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary"])
@pytest.mark.parametrize("named", [NAMES, NAMES[:3]], ids=["odd names", "plain names"])
def test_a_name_is_one_individual_in_all_batches(tmp_path, monkeypatch, kind, room, named):
    monkeypatch.setattr(batches, "_NAMES", room)
    monkeypatch.setattr(dataset, "_BATCH", 50)
    rng = np.random.default_rng(room)
    who = rng.choice([*named, *(f"person {k}" for k in range(60))], 700).astype(object)
    steps = rng.integers(0, 11, 700)
    names = pa.array(np.where(rng.random(700) < 0.1, None, who), "string")
    names = names.dictionary_encode() if kind == "dictionary" else names.cast(kind)
    table = pa.table({"who": names, "step": steps})
    pq.write_table(table, tmp_path / "log.parquet")
    file = arrow_dataset.dataset(tmp_path / "log.parquet")
    cells = {"who": np.array([identifier_text(cell) for cell in names.to_pylist()], dtype=object), "step": steps}
    for caps in ({"participation_cap": 3, "step_cap": 2, "excess": "l2"}, {"participation_cap": 2, "step_cap": 1}):
        asked = count_of("who", "step", GRID, **caps)
        expected = memory.count(cells, asked, bytes(range(16)))
        assert dataset.count(file, asked, bytes(range(16))).tolist() == expected.tolist()
        assert memory.count(table, asked, bytes(range(16))).tolist() == expected.tolist()
    every = sorted(memory.participation(cells, asked.reading).tolist())
    assert sorted(dataset.participation(file, asked.reading).tolist()) == every


def test_integers_before_names_are_these_names(tmp_path):
    """As in files of which one has wider integers than the others."""
    parts = [np.array([5, 6, 5]), np.array([2**62, 5, 7], np.int64)]
    for k, who in enumerate(parts):
        pq.write_table(pa.table({"who": who, "step": [0, 1, 2]}), tmp_path / f"{k}.parquet")
    asked = count_of("who", "step", GRID, participation_cap=9, step_cap=1)
    whole = {"who": np.concatenate(parts), "step": np.tile([0, 1, 2], 2)}
    file = arrow_dataset.dataset(tmp_path)
    assert dataset.count(file, asked, bytes(16)).tolist() == memory.count(whole, asked, bytes(16)).tolist()
    assert sorted(dataset.participation(file, asked.reading).tolist()) == [1, 1, 1, 3]
