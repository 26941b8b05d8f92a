"""What is public about a count: the gap that keeps an individual's counted steps apart."""

import numpy as np
import pytest

from opendp_timeseries.counting.layout import Caps, check_gap


def test_a_gap_is_a_whole_number_of_steps_of_the_grid():
    assert [check_gap(gap, 4) for gap in (1, 4, np.int8(3), np.uint64(2))] == [1, 4, 3, 2]
    assert check_gap(1, 1) == 1
    assert type(check_gap(np.int64(2), 4)) is int


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
        check_gap(gap, size)


def test_caps_have_no_gap_unless_one_is_given():
    assert Caps(2, 3) == Caps.within(4, participation_cap=2, step_cap=3) == (2, 3, 1, None)
    assert Caps.within(4, participation_cap=9, step_cap=3, gap=2) == (4, 3, 2, None)
    assert Caps.within(4, participation_cap=9, step_cap=3, key_cap=9) == (4, 3, 1, 4)
