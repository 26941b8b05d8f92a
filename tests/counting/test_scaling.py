"""The weights of individuals in more steps than the cap: the largest within it, in exact integers of any size."""

import math

import numpy as np
import pytest

from opendp_timeseries.counting import capped_count as module
from opendp_timeseries.counting import scaling
from opendp_timeseries.counting.scaling import WHOLE
from opendp_timeseries.design.scales import Scales
from tests.counting.tables import count_of_series
from tests.oracles import counting as oracle

KEY = bytes(range(16))


def scaled(cap, most=1, excess="scale", **more):
    return count_of_series(2**20, participation_cap=cap, step_cap=most, excess=excess, **more)


def misleading(roots):
    """Caps and sizes for which a root is below a whole number by less than a double tells."""
    for root in roots:  # odd, so that there is a size of which its square times that is 1 above a multiple of 2^32
        size = pow(root * root, -1, 2**32)
        cap = (root * root * size - 1) // 2**32
        if size < 2**30 and root * root * size > 2**54:
            yield cap, size, root


@pytest.mark.parametrize("exact", [False, True], ids=["in 64 bits", "in Python's integers"])
@pytest.mark.parametrize("most", [1, 3, 1000, 2**31, 2**63 - 1, 10**30])
def test_a_weight_is_the_largest_within_the_cap(most, exact):
    for cap in (1, 2, 7, 20, 255, 2999, 2**31, 10**20):
        full = cap * most**2
        near = [full + k for k in (-1, 0, 1)] + [full * k for k in (2, 4, 9, 65536, 2**32 - 1, 2**32, 2**32 + 1)]
        sizes = [size for size in [*range(1, 3001), *near] if exact or 0 < size < 2**30]
        found = scaling.weights(np.array(sizes, object if exact else np.int64), scaled(cap, most))
        assert found.dtype == np.int64
        for size, weight in zip(sizes, found.tolist(), strict=True):
            assert weight**2 * size <= full * WHOLE**2
            assert weight == WHOLE or (weight + 1) ** 2 * size > full * WHOLE**2


def test_a_root_that_rounding_makes_whole_is_corrected():
    cases = list(misleading(range(2**15 + 1, 2**16, 2)))
    assert len(cases) > 100
    for cap, size, root in cases:
        assert int(math.sqrt(cap * WHOLE**2 / size)) == root
        assert scaling.weights(np.array([size]), scaled(cap)).tolist() == [root - 1]


def test_a_weight_in_the_sum_of_magnitudes():
    for cap, most in ((1, 1), (3, 2), (20, 5), (7, 2**40), (2**31, 10**30)):
        sizes = [*range(1, 3001), 2**46]
        found = scaling.weights(np.array(sizes), scaled(cap, most, "scale_l1")).tolist()
        assert found == [min(WHOLE, cap * most * WHOLE // size) for size in sizes]


@pytest.mark.parametrize("times", [1, 2**13, 2**31, 2**46])
def test_sizes_are_exact_whatever_the_events(times):
    events, begins = np.array([1, 2, 1, 0, 3, 2]) * times, np.array([0, 3, 5])
    assert scaling.sizes(events, begins, scaled(1)).tolist() == [6 * times**2, 9 * times**2, 4 * times**2]
    assert scaling.sizes(events, begins, scaled(1, excess="scale_l1")).tolist() == [4 * times, 3 * times, 2 * times]


def test_weights_by_scale_are_those_of_the_first_row_whose_end_is_not_below_the_size():
    scales = Scales(ends=(2, 5))
    table = scales.table(2**20)
    sizes = np.array([1, 18, 19, 27, 28, 9 * 2**20])
    rows = [0, 0, 1, 1, 2, len(table.ends) - 1]
    assert np.array_equal(scaling.by_scale(sizes, scales, scaled(2, 3, scales=scales)), table.weights[rows])
    huge = np.array([1, 2 * 10**60, 2 * 10**60 + 1, 2**20 * 10**60], dtype=object)
    rows = [0, 0, 1, len(table.ends) - 1]
    assert np.array_equal(scaling.by_scale(huge, scales, scaled(2, 10**30, scales=scales)), table.weights[rows])


@pytest.mark.parametrize("excess", ["scale", "scale_l1"])
def test_nobody_is_dropped_and_the_size_is_of_all_steps(monkeypatch, excess):
    """Whatever the chunks, whose ends individuals straddle."""
    who = np.repeat(np.arange(6), [1, 2, 3, 4, 9, 16])
    steps = np.concatenate([np.arange(own) for own in (1, 2, 3, 4, 9, 16)])
    count = count_of_series(16, participation_cap=2, step_cap=2, excess=excess)
    expected = oracle.capped_counts(
        zip(who.tolist(), steps.tolist(), strict=True), size=16, participation_cap=2, step_cap=2, key=KEY, excess=excess
    )
    assert expected[15] == (WHOLE * 4 // 16 if excess == "scale_l1" else math.isqrt(WHOLE**2 * 8 // 16))
    for rows in (1, 2, 3, 5, 8, 100):
        monkeypatch.setattr(module, "_CHUNK", rows)
        assert module.capped_count(who, steps, count, KEY).tolist() == expected
        assert module.capped_count(who, steps, count, bytes(16)).tolist() == expected  # there is nothing to choose
