"""What an engine counts by: the caps and the places of a count, clamped to what can bind."""

from dataclasses import replace

import numpy as np
import pytest

from opendp_timeseries.counting.layout import Caps, Layout
from opendp_timeseries.design.count import Count, Source
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.tables import caps_of

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


def test_caps_are_those_that_can_bind():
    assert Caps(2, 3) == caps_of(4, participation_cap=2, step_cap=3) == (2, 3, 1, None)
    assert caps_of(4, participation_cap=9, step_cap=3, gap=2) == (4, 3, 2, None)
    assert caps_of(4, participation_cap=9, step_cap=2**70, key_cap=9) == (4, 2**63 - 1, 1, 4)


def test_a_layout_is_that_of_the_count():
    day = replace(COUNT, unit=Unit(period=Period(2)))
    panel = replace(COUNT, source=Source(identifier="id", time="time", by="at"), panel=("a", "b"))
    pooled = replace(COUNT, grid=TimeGrid(size=1), pooled=TimeGrid(size=4))
    exact = replace(COUNT, source=Source(identifier="id", time=None, exact=True))
    for count in (COUNT, day, panel, pooled, exact):
        layout = Layout.of(count)
        assert layout.size == count.size
        assert layout.period == count.unit.period
        assert layout.longest_period == max(count.period_lengths())
        assert list(layout.keys) == list(count.panel or [""])
        assert layout.exact == (count is exact)
    assert Layout.of(panel).columns == ["id", "time", "at"]
    assert Layout.of(exact).columns == ["id"]
    assert (Layout.of(pooled).grid, Layout.of(pooled).whole) == (TimeGrid(size=4), True)
    with pytest.raises(ValueError, match="counts that were made elsewhere"):
        Layout.of(replace(COUNT, source=None))
    with pytest.raises(ValueError, match=r"keys \(\['1', '1.0'\]\) must be distinct"):
        Layout.of(replace(panel, panel=("1", "1.0")))
