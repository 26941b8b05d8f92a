"""The weights of individuals in more steps than the cap: the largest within it, in exact integers of any size."""

import math

import numpy as np
import pytest

from opendp_timeseries.counting import capped_count as module
from opendp_timeseries.counting import scaling
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.weights import FULL
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.tables import count_of, count_of_series
from tests.oracles import counting as oracle

KEY = bytes(range(16))


def scaled(cap, most=1, excess="l2", **more):
    return count_of_series(2**20, participation_cap=cap, step_cap=most, excess=excess, **more)


def weights(sizes, count, dtype=np.int64):
    found = scaling.weights_of(np.array(sizes, dtype), count.weighting.weights(count.reading))
    assert found.dtype == np.int64
    return found.T.tolist() if count.tiers is not None else found[:, 0].tolist()


@pytest.mark.parametrize("exact", [False, True], ids=["in 64 bits", "in Python's integers"])
@pytest.mark.parametrize("most", [1, 3, 1000, 2**31, 2**63 - 1, 10**30])
def test_a_weight_is_the_largest_within_the_cap(most, exact):
    for cap in (1, 2, 7, 20, 255, 2999, 2**31, 10**20):
        full = cap * most**2
        near = [full + k for k in (-1, 0, 1)] + [full * k for k in (2, 4, 9, 65536, 2**32 - 1, 2**32, 2**32 + 1)]
        sizes = [size for size in [*range(1, 3001), *near] if exact or 0 < size < 2**30]
        for size, weight in zip(sizes, weights(sizes, scaled(cap, most), object if exact else np.int64), strict=True):
            assert weight**2 * size <= full * FULL**2
            assert weight == FULL or (weight + 1) ** 2 * size > full * FULL**2


def test_roots_around_all_squares():
    roots, full = range(1, FULL + 1), 10**30
    for quotients, expected in ([k * k for k in roots], [*roots]), ([k * k - 1 for k in roots[1:]], [*roots[:-1]]):
        sizes = [full * FULL**2 // quotient for quotient in quotients]
        assert [full * FULL**2 // size for size in sizes] == quotients
        assert weights(sizes, scaled(1, 10**15), object) == expected


def test_a_weight_in_the_sum_of_magnitudes():
    for cap, most in ((1, 1), (3, 2), (20, 5), (7, 2**40), (2**31, 10**30)):
        sizes = [*range(1, 3001), 2**46]
        expected = [min(FULL, cap * most * FULL // size) for size in sizes]
        assert weights(sizes, scaled(cap, most, "l1"), object) == expected
        assert weights(sizes[:3000], scaled(cap, most, "l1")) == expected[:3000]


@pytest.mark.parametrize("times", [1, 2**13, 2**31, 2**46])
def test_sizes_are_exact_whatever_the_events(times):
    events, begins = np.array([1, 2, 1, 0, 3, 2]) * times, np.array([0, 3, 5])
    assert scaling.sizes_of(events, begins, 2).tolist() == [6 * times**2, 9 * times**2, 4 * times**2]
    assert scaling.sizes_of(events, begins, 1).tolist() == [4 * times, 3 * times, 2 * times]


def test_weights_by_tier_are_those_of_the_first_row_whose_end_is_not_below_the_size():
    tiers = Tiers(ends=(2, 5))
    table = tiers.table(2**20)
    for most, sizes, rows, dtype in (
        (3, [1, 18, 19, 27, 28, 9 * 2**20], [0, 0, 1, 1, 2, -1], np.int64),
        (10**30, [1, 2 * 10**60, 2 * 10**60 + 1, 2**20 * 10**60], [0, 0, 1, -1], object),
        (10**30, [1, 2**30 - 1], [0, 0], np.int64),
    ):
        assert weights(sizes, scaled(2, most, tiers=tiers), dtype) == table.weights[rows].T.tolist()


@pytest.mark.parametrize("excess", ["l2", "l1"])
def test_nobody_is_dropped_and_the_size_is_of_all_steps(monkeypatch, excess):
    """Whatever the chunks, whose ends individuals straddle."""
    who = np.repeat(np.arange(6), [1, 2, 3, 4, 9, 16])
    steps = np.concatenate([np.arange(own) for own in (1, 2, 3, 4, 9, 16)])
    count = count_of_series(16, participation_cap=2, step_cap=2, excess=excess)
    expected = oracle.capped_counts(
        zip(who.tolist(), steps.tolist(), strict=True), size=16, participation_cap=2, step_cap=2, key=KEY, excess=excess
    )
    assert expected[15] == (FULL * 4 // 16 if excess == "l1" else math.isqrt(FULL**2 * 8 // 16))
    for rows in (1, 2, 3, 5, 8, 100):
        monkeypatch.setattr(module, "_CHUNK", rows)
        assert module.capped_count(who, steps, count, KEY).tolist() == expected
        assert module.capped_count(who, steps, count, bytes(16)).tolist() == expected  # there is nothing to choose


def test_a_size_is_of_all_series_and_of_each_period_by_itself():
    options = {"by": "by", "keys": ["a", "b"], "period": Period(6), "excess": "l2"}
    count = count_of(grid=TimeGrid(size=12), participation_cap=1, step_cap=1, **options)
    steps = np.array([0, 1, 12 + 2, 12 + 3, 12 + 11])  # four in the first period, in both series, and one in the second
    counts = module.capped_count(np.zeros(5, int), steps, count, KEY)
    assert counts[steps].tolist() == [FULL // 2] * 4 + [FULL]
    assert counts.sum() == 3 * FULL
