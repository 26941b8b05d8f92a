"""Sorting digit by digit beside NumPy's own sort."""

import tracemalloc

import numpy as np
import pytest

from opendp_timeseries.counting.sorting import sort

RANDOM = np.random.default_rng(24)
FEW, MANY = 5000, 300_000  # of one part and of several
CASES = {
    "packed": lambda size: RANDOM.integers(-50, 50, size) << 14 | RANDOM.integers(0, 10**4, size),
    "all of 64 bits": lambda size: RANDOM.integers(-(2**63), 2**63, size),
    "unsigned": lambda size: RANDOM.integers(0, 2**64, size, dtype=np.uint64),
    "the ends": lambda size: RANDOM.choice([-(2**63), -1, 0, 2**63 - 1], size),
    "equal": lambda size: np.full(size, -7),
    "one far away": lambda size: np.append(RANDOM.integers(0, 1000, size - 1), 2**62),
    "in order": np.arange,
    "in reverse": lambda size: -np.arange(size),
}


@pytest.mark.parametrize("size", [0, 1, 2, FEW, MANY])
@pytest.mark.parametrize("case", CASES)
def test_any_integers_are_in_order(case, size):
    integers = CASES[case](max(size, 1))[:size]
    expected = np.sort(integers)
    sort(integers)
    np.testing.assert_array_equal(integers, expected)


@pytest.mark.long
def test_blocks_and_parts_join_in_little_memory_whatever_the_integers(monkeypatch):
    monkeypatch.setattr("opendp_timeseries.counting.sorting._PART", 2**9)
    monkeypatch.setattr("opendp_timeseries.counting.sorting._BLOCK", 1000)
    for name, case in CASES.items():
        integers = case(20_001)
        expected = np.sort(integers)
        tracemalloc.start()
        try:
            sort(integers)
            assert tracemalloc.get_traced_memory()[1] < 3 * integers.nbytes, name
        finally:
            tracemalloc.stop()
        np.testing.assert_array_equal(integers, expected)
