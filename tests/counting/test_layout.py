"""What an engine counts by: the gap and the places of a count."""

import numpy as np
import pytest

from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.counting.identifiers import key_numbers
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weights import FULL
from opendp_timeseries.grid import Period, TimeGrid
from tests import make
from tests.refused import refuses

COUNT = make.count(source=Source(identifier="id", time="time"), grid=TimeGrid(size=4))


def test_a_gap_is_a_whole_number_of_steps_of_the_grid():
    assert [make.changed(COUNT, gap=gap).reading.gap for gap in (1, 4, np.int8(3), np.uint64(2))] == [1, 4, 3, 2]
    assert make.changed(COUNT, grid=TimeGrid(size=1), gap=1).reading.gap == 1
    assert type(make.changed(COUNT, gap=np.int64(2)).reading.gap) is int


@pytest.mark.parametrize(("gap", "size", "error", "says"), [
    (0, 4, ValueError, "gap"),
    (-3, 4, ValueError, "gap"),
    (5, 4, ValueError, "gap"),
    (2, 1, ValueError, "gap"),
    (True, 4, TypeError, "gap"),
    (np.True_, 4, TypeError, "gap"),
    (2.0, 4, TypeError, "gap"),
    ("2", 4, TypeError, r"gap.*'2'"),
    (None, 4, TypeError, "gap"),
])  # fmt: skip
def test_any_other_gap_is_refused(gap, size, error, says):
    refuses(says, make.changed, COUNT, error=error, grid=TimeGrid(size=size), gap=gap)


def test_a_count_says_where_rows_are():
    day = make.changed(COUNT, unit=Unit(period=Period(3)))
    panel = make.changed(COUNT, source=Source(identifier="id", time="time", by="at"), panel=("a", "b"))
    once = make.changed(COUNT, grid=TimeGrid(size=1), once_over=TimeGrid(size=4))
    readings = [count.reading for count in (COUNT, day, panel, once)]
    assert [reading.size for reading in readings] == [4, 4, 8, 1]
    assert [reading.places for reading in readings] == [4, 3, 8, 1]
    assert [reading.period_length for reading in readings] == [4, 3, 4, 1]
    assert [reading.row_grid for reading in readings] == [TimeGrid(size=4)] * 4
    assert COUNT.reading.period_starts is None
    assert day.reading.period_starts.tolist() == [0, 3]
    assert panel.reading.log.columns == ["id", "time", "at"]
    assert Source(identifier="id").columns == ["id"]
    refuses("log", lambda: make.changed(COUNT, source=None).reading.log)


def test_nobody_is_in_several_places_of_the_packed_rows():
    keys, tiers = tuple(map(str, range(25))), Tiers(ends=(2, 9))
    source = Source(identifier="id", time="time", by="at")
    count = make.count(source=source, grid=TimeGrid(size=24), panel=keys, key_cap=1, tiers=tiers)
    assert (count.reading.max_steps, count.reading.places) == (24, 600)
    places = np.arange(24) * 7 % 25 * 24 + np.arange(24)  # one key at each step
    counts = capped_count(np.zeros(24, dtype=int), places, count, bytes(16)).reshape(3, -1)
    assert [np.flatnonzero(tier).tolist() for tier in counts] == [np.sort(places).tolist()] * 3
    assert int((counts**2).sum()) <= tiers.first(24) * FULL**2  # as much as somebody in two steps


def test_keys_are_numbered_by_their_texts():
    assert key_numbers(["b", "1.0", "a"]) == {"b": 0, "1": 1, "a": 2}
    refuses(r"keys.*'1'.*'1.0'", key_numbers, ["1", "1.0"])
