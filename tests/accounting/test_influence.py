"""Count stability is tight by brute force, and influence is a partial order."""

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_timeseries.accounting.influence import Influence, Majorant, count_influence
from opendp_timeseries.plugin.lp_distance import l1_of, l2_of
from opendp_timeseries.plugin.spaces import influence_distance
from tests.refused import refuses


def individuals(size, cap, per_step):
    """Every vector that one individual can contribute."""
    for vector in itertools.product(range(per_step + 1), repeat=size):
        if np.count_nonzero(vector) <= cap:
            yield np.array(vector)


@pytest.mark.parametrize(
    ("size", "cap", "per_step"), [(1, 1, 2), (3, 1, 2), (3, 2, 2), (4, 2, 1), (4, 3, 1), (3, 5, 1)]
)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_norms_are_attained_and_never_exceeded(size, cap, per_step, replaced, k):
    people = list(individuals(size, cap, per_step))
    moves = [a - b for a in people for b in people] if replaced else people + [-a for a in people]
    moves = np.unique(moves, axis=0)
    totals = moves
    for _ in range(k - 1):
        totals = np.unique((totals[:, None, :] + moves[None]).reshape(-1, size), axis=0)
    caps = {"participation_cap": cap, "step_cap": per_step, "size": size, "replaced": replaced}
    got = count_influence(k, **caps)
    assert np.abs(totals).sum(axis=1).max() == l1_of(got)
    l2 = math.sqrt((totals**2).sum(axis=1).max())
    assert l2 <= l2_of(got) <= l2 * (1 + 1e-15)
    assert l2 <= k * got.l2 <= l2 * (1 + 1e-15)
    assert np.abs(totals).max() == k * got.linf
    assert np.count_nonzero(totals, axis=1).max() <= min(k * got.l0, size)
    # The majorant: every top-j sum, and it is attained.
    tops = np.cumsum(-np.sort(-np.abs(totals), axis=1), axis=1).max(axis=0)
    claimed = np.cumsum(np.pad(got.majorant.values * k, (0, size - len(got.majorant.values))))
    assert np.all(tops <= claimed)
    assert tops[-1] == claimed[-1]


def test_what_is_printed_is_not_below():
    for value in (math.sqrt(10), 2 / 3, 1e-7 / 3, 1e300 / 7):
        text = repr(Influence(l0=3, l2=value, linf=value))
        printed = [float(part.split("=")[1]) for part in text.rstrip(")").split(", ")[1:]]
        assert all(value <= number <= value * (1 + 1e-5) for number in printed)
    assert repr(Influence(l0=4, l2=2.0, linf=1.0)) == "Influence(l0=4, l2=2, linf=1)"


LESS = Influence(l0=2, l2=2.0, linf=1.0)
SOME = [
    LESS, Influence(l0=3, l2=2.0, linf=1.0), Influence(l0=2, l2=3.0, linf=1.0),
    Influence(l0=2, l2=2.0, linf=2.0), Influence(l0=2, l2=2.0, linf=1.0, individuals=2),
    Influence(l0=2, l2=2.0, linf=1.0, majorant=Majorant(np.array([1.0, 1.0]))),
    Influence(l0=2, l2=2.0, linf=1.0, majorant=Majorant(np.array([1.0, 0.5]))),
    Influence(l0=5, l2=100.0, linf=100.0),
]  # fmt: skip


def test_partial_order():
    for a, b, c in itertools.product(SOME, repeat=3):
        assert (a <= b) == (b >= a)
        assert (a < b) == (b > a) == (a <= b and a != b)
        if a <= b and b <= a:
            assert a == b
            assert hash(a) == hash(b)
        if a <= b and b <= c:
            assert a <= c


def test_every_field_counts():
    for more in SOME[1:5]:
        assert more > LESS
        assert not more <= LESS
    with_majorant, smaller = SOME[5], SOME[6]
    assert smaller <= with_majorant <= LESS  # knowing a majorant says more
    assert not with_majorant >= LESS


def test_incomparable_is_false_both_ways():
    a, b = Influence(l0=10, l2=3.0, linf=1.0), Influence(l0=5, l2=100.0, linf=100.0)
    assert not (a <= b)
    assert not (b <= a)
    assert not (a < b)
    assert not (b < a)
    assert not (a >= b)
    assert not (b >= a)
    assert not (a > b)
    assert not (b > a)


def test_majorants_are_one_way():
    refuses("descending", Majorant, np.array([1.0, 2.0]))
    for bad in ([[1.0]], [np.nan], [-1.0], [np.inf]):
        refuses("majorant", Majorant, np.array(bad))
    assert Majorant(np.array([2.0, 1.0, 0.0])) == Majorant(np.array([2.0, 1.0]))
    majorant = Majorant(np.array([2.0, 1.0]))
    for same in (majorant, copy.deepcopy(majorant), pickle.loads(pickle.dumps(majorant))):
        assert same == majorant
        with pytest.raises(ValueError, match=r"WRITEABLE|read-only|writeable"):
            same.values.flags.writeable = True


@pytest.mark.parametrize(
    "bad",
    [
        {"l2": math.nan}, {"l2": -1.0}, {"linf": math.nan}, {"l0": -1}, {"l0": 1.5}, {"l0": True}, {"l0": math.inf},
        {"individuals": 0.5}, {"individuals": -1}, {"individuals": math.nan}, {"majorant": [1.0]}, {"l2": "1"},
    ],
)  # fmt: skip
def test_an_influence_is_checked_at_construction(bad):
    refuses(next(iter(bad)), Influence, error=(TypeError, ValueError), **{"l0": 1, "l2": 1.0, "linf": 1.0} | bad)


def test_numpy_scalars_make_an_influence_of_plain_numbers():
    influence = Influence(l0=np.int64(2), l2=np.float32(2), linf=np.int8(1), individuals=np.uint8(3))
    assert influence == Influence(l0=2, l2=2.0, linf=1.0, individuals=3)
    assert pickle.loads(pickle.dumps(influence)) == influence


@pytest.mark.parametrize(("low", "high"), [(Influence(l0=10, l2=3.0, linf=1.0), Influence(l0=5, l2=100.0, linf=100.0))])
def test_an_adaptive_compositor_refuses_an_incomparable_distance(low, high):
    import opendp_timeseries as ts

    size = 10
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=size), influence_distance()
    query = space >> ts.then_subsampled_gaussian(50.0, sampling_probability=0.5, failure_probability=1e-6)
    losses = [tuple(2 * v for v in query.map(high))] * 2
    outer = dp.c.make_adaptive_composition(*space, query.output_measure, d_in=low, d_mids=losses)

    def nested(d_in):
        return dp.c.make_adaptive_composition(*space, query.output_measure, d_in=d_in, d_mids=losses[:1])

    queryable = outer([0] * size)
    queryable(nested(low))  # the declared distance itself is answered
    with pytest.raises(dp.OpenDPException):
        queryable(nested(high))


def test_what_is_printed_or_stored_is_not_below_what_was_given():
    shown = repr(Influence(l0=3, l2=1.7320508, linf=1.0000001, individuals=2))
    assert shown == "Influence(l0=3, l2=1.73206, linf=1.00001, individuals=2)"
    odd = 2**53 + 1
    for given in ([odd, 1], np.array([odd, 1]), [Fraction(odd), 1]):
        assert Majorant(given).values.tolist() == [2.0**53 + 2, 1.0]
    if np.finfo(np.longdouble).nmant > 52:
        assert Majorant(np.array([1], np.longdouble) + np.longdouble(2) ** -60).values[0] > 1
    assert Influence(l0=1, l2=odd, linf=odd).l2 == 2.0**53 + 2
