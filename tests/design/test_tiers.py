"""Weights in tiers of activity: within the bound for everybody, in integers, and as the formula says."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from opendp_timeseries.design.tiers import Tiers, default_tiers
from opendp_timeseries.design.weights import FULL
from tests.refused import refuses

MADE = [
    (Tiers(ends=()), 1), (Tiers(ends=()), 300), (Tiers(ends=(1,)), 2), (Tiers(ends=(10, 50, 260)), 1344),
    (Tiers(ends=(3, 4, 5), share=0.01), 60), (Tiers(ends=(7, 1000), share=0.999), 10**6),
    *((default_tiers(most), most) for most in (1, 2, 11, 24, 168, 8760, 10**7)),
]  # fmt: skip


@pytest.mark.parametrize(("tiers", "most"), MADE, ids=str)
def test_nobody_weighs_more_than_somebody_in_the_first_tier(tiers, most):
    ends, weights = tiers.table(most)
    assert weights.shape == (len(ends), tiers.series)
    assert (int(ends[0]), int(ends[-1])) == (tiers.first(most), most)
    assert np.all(np.diff(ends) > 0)
    for end, row in zip(ends.tolist(), weights.tolist(), strict=True):
        assert min(row) >= 0
        assert end * sum(q * q for q in row) <= ends[0] * FULL**2
        # And no less but for rounding down: everything is spent.
        assert sum((q + 1) ** 2 for q in row) * end > ends[0] * FULL**2
    assert not weights.flags.writeable


@pytest.mark.parametrize(("tiers", "most"), MADE, ids=str)
def test_the_last_series_holds_everybody_alike_and_others_less_who_come_often(tiers, most):
    ends, weights = tiers.table(most)
    assert len(set(weights[:, -1].tolist())) == 1
    assert np.all(np.diff(weights, axis=0) <= 0)
    if len(tiers.ends):
        share, first = Fraction(tiers.share), tiers.first(most)
        assert weights[0, -1] == math.isqrt(math.floor(FULL**2 * share * first / most))
        # Up to the tier of a series, those who come seldom weigh the same in it.
        for k, tier in enumerate(tiers.ends):
            assert len(set(weights[ends <= tier, k].tolist())) == 1


def test_rows_are_dense_where_steps_are_few():
    ends = Tiers(ends=(10,)).table(8760).ends.tolist()
    assert ends[:39] == list(range(10, 49))
    assert all(there <= here * 25 / 24 + 1e-9 or there == here + 1 for here, there in pairwise(ends))


def test_the_default_is_of_the_number_of_steps_alone():
    assert [default_tiers(most).ends for most in (1, 10, 22, 23, 60)] == [(), (), (), (10,), (10,)]
    assert default_tiers(168).ends == (10, 41, 112)
    assert default_tiers(1344).ends == (10, 51, 262, 896)
    assert default_tiers(8760).ends == (10, 54, 296, 1610, 5840)
    assert [default_tiers(keys, first=2).ends for keys in (1, 4, 5, 25, 100)] == [(), (), (2,), (2, 7, 16), (2, 14, 66)]


@pytest.mark.parametrize(("wrong", "message"), [
    ({"ends": (3, 3)}, "ends of tiers"), ({"ends": (0, 3)}, "end of a tier"),
    ({"ends": (1.5,)}, "end of a tier"), ({"ends": 5}, "ends of tiers"),
    ({"ends": "12"}, "ends of tiers"), ({"ends": (3,), "share": 0.0}, "share"),
    ({"ends": (3,), "share": 1.0}, "share"),
])  # fmt: skip
def test_what_is_no_tier_is_refused(wrong, message):
    refuses(message, Tiers, error=(TypeError, ValueError), **wrong)
