"""What an engine counts by: the gap and the places of a count."""

from dataclasses import replace

import numpy as np
import pytest

from opendp_timeseries.counting.identifiers import key_numbers
from opendp_timeseries.design.count import Count, Source
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid

COUNT = Count(source=Source(identifier="id", time="time"), grid=TimeGrid(size=4), participation_cap=2)


def test_a_gap_is_a_whole_number_of_steps_of_the_grid():
    assert [replace(COUNT, gap=gap).gap for gap in (1, 4, np.int8(3), np.uint64(2))] == [1, 4, 3, 2]
    assert replace(COUNT, grid=TimeGrid(size=1), gap=1).gap == 1
    assert type(replace(COUNT, gap=np.int64(2)).gap) is int


@pytest.mark.parametrize(
    ("gap", "size", "error", "says"),
    [
        (0, 4, ValueError, r"^gap \(0\) must be at least 1; .* from 1, which is no gap, to the 4 of the grid$"),
        (-3, 4, ValueError, r"^gap \(-3\) must be at least 1; "),
        (5, 4, ValueError, r"^gap \(5\) must be at most 4; .* from 1, which is no gap, to the 4 of the grid$"),
        (2, 1, ValueError, r"^gap \(2\) must be at most 1; "),
        (True, 4, TypeError, r"^gap \(True\) must be an integer, not a bool; "),
        (np.True_, 4, TypeError, r" must be an integer, not a bool; "),
        (2.0, 4, TypeError, r"^gap \(2.0\) must be an integer, not float; "),
        ("2", 4, TypeError, r"^gap \('2'\) must be an integer, not str; "),
        (None, 4, TypeError, r"^gap \(None\) must be an integer, not NoneType; "),
    ],
)
def test_any_other_gap_is_refused(gap, size, error, says):
    with pytest.raises(error, match=says):
        replace(COUNT, grid=TimeGrid(size=size), gap=gap)


def test_a_count_says_where_rows_are():
    day = replace(COUNT, unit=Unit(period=Period(3)))
    panel = replace(COUNT, source=Source(identifier="id", time="time", by="at"), panel=("a", "b"))
    pooled = replace(COUNT, grid=TimeGrid(size=1), pooled=TimeGrid(size=4))
    assert [count.positions for count in (COUNT, day, panel, pooled)] == [4, 4, 8, 1]
    assert [count.period_length for count in (COUNT, day, panel, pooled)] == [4, 3, 4, 1]
    assert [count.row_grid for count in (COUNT, day, panel, pooled)] == [TimeGrid(size=4)] * 4
    assert COUNT.period_starts is None
    assert day.period_starts.tolist() == [0, 3]
    assert panel.log.columns == ["id", "time", "at"]
    assert Source(identifier="id").columns == ["id"]
    with pytest.raises(ValueError, match="counts that were made elsewhere"):
        _ = replace(COUNT, source=None).log


def test_keys_are_numbered_by_their_texts():
    assert key_numbers(["b", "1.0", "a"]) == {"b": 0, "1": 1, "a": 2}
    with pytest.raises(ValueError, match=r"keys \(\['1', '1.0'\]\) must be distinct"):
        key_numbers(["1", "1.0"])
