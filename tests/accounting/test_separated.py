"""Steps that lie a gap apart, behind a filter: never below every set of them, and attained by a full comb."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.filtering import filtered_influence, max_separated_steps
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.kernels import Kernel, boxcar_kernel, exponential_kernel, gaussian_kernel
from tests.accounting.test_scaling import demand_within
from tests.make import influence_of
from tests.oracles import separated as oracle
from tests.refused import refuses


def count(size, gap, steps, *, replaced=False, series=1, step_cap=1):
    return influence_of(steps, size * series, step_cap=step_cap, replaced=replaced, gap=gap, series=series)


def norms_only(influence):
    return Influence(
        l0=influence.l0, l2=influence.l2, linf=influence.linf, gap=influence.gap, replaced=influence.replaced
    )


def kernels(size, *, seed=0, each=1):
    """Kernels of every kind: symmetric and decreasing or not, one-sided, of one sign and of both."""
    random = np.random.default_rng([seed, size])
    found = [gaussian_kernel(size, width, resolution_bits=8) for width in (0.8, 2.0)]
    found += [exponential_kernel(size, 1.5, resolution_bits=8), boxcar_kernel(size, min(3, size - (size + 1) % 2))]
    for _ in range(each):
        taps = random.integers(-9, 10, size)
        taps[0] += taps[0] == 0
        found += [Kernel(taps, 0), Kernel(np.abs(taps), 1), Kernel(-np.sort(-np.abs(taps)), 2)]
    return found


def every_move(size, gap, steps, *, replaced, series=1):
    rows = oracle.indicators(size, gap, steps) if replaced else oracle.signed(size, gap, steps)
    rows = oracle.in_series(rows, series, steps) if series > 1 else rows
    return oracle.differences(rows) if replaced else rows


def assert_no_set_exceeds_the_influence(size, gap, steps, kernel, *, replaced, series=1):
    moved = oracle.filtered(every_move(size, gap, steps, replaced=replaced, series=series), kernel.numerators.tolist())
    influence = count(size, gap, steps, replaced=replaced, series=series)
    for given in (influence, norms_only(influence)):
        demand_within(filtered_influence(given, kernel, series), moved, bits=kernel.resolution_bits)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    ("size", "gap"), [(1, 1), (2, 2), (5, 2), (6, 2), (6, 3), (7, 3), (8, 2), (8, 3), (9, 4), (9, 9)]
)
def test_no_set_of_steps_exceeds_the_influence(size, gap, replaced):
    for kernel in kernels(size):
        for steps in range(1, size // gap + 2):
            assert_no_set_exceeds_the_influence(size, gap, steps, kernel, replaced=replaced)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("size", "gap", "series"), [(2, 2, 2), (4, 2, 2), (5, 3, 2), (3, 2, 3)])
def test_no_individual_in_a_panel_exceeds_the_influence(size, gap, series, replaced):
    for kernel in kernels(size):
        for steps in range(1, series * (size // gap) + 1):
            assert_no_set_exceeds_the_influence(size, gap, steps, kernel, replaced=replaced, series=series)


# --- attained ---


@pytest.mark.parametrize(("size", "gap"), [(12, 3), (12, 4), (14, 7), (15, 5), (9, 9)])
def test_a_full_comb_attains_all_of_it(size, gap):
    comb = np.array([3 * int(t % gap == 0) for t in range(size)])
    for kernel in kernels(size)[:4]:
        moved = oracle.filtered(comb[None], kernel.numerators.tolist())[0]
        unit = Fraction(1, 2**kernel.resolution_bits)
        got = filtered_influence(count(size, gap, size // gap, step_cap=3), kernel)
        expected = [unit * int(y) for y in sorted(moved.tolist(), reverse=True) if y]
        assert [Fraction(value) for value in got.majorant.values.tolist()] == expected
        assert Fraction(got.linf) == expected[0]
        energy = sum(y * y for y in expected)
        assert energy <= Fraction(got.l2) ** 2 <= energy * (1 + Fraction(1, 10**15))


def test_individuals_who_avoid_each_other_attain_the_squares_of_both():
    # Replaced, far apart: nothing cancels, and the squares add up.
    kernel = gaussian_kernel(60, 1.0, resolution_bits=12)
    here, there = (np.isin(np.arange(60), steps).astype(int) for steps in ([0, 10, 20], [30, 40, 50]))
    energy = int((oracle.filtered((here - there)[None], kernel.numerators.tolist()) ** 2).sum())
    got = filtered_influence(count(60, 10, 3, replaced=True), kernel)
    assert got.l2**2 * 4.0**12 == pytest.approx(energy, rel=1e-12)


def test_a_signed_filter_makes_those_replaced_work_together():
    # Taps of both signs: the bound for halves side by side would be too low.
    kernel = Kernel(np.array([4, -4, 0, 0, 0, 0]), 0)
    moved = oracle.filtered(np.array([[1, -1, 0, 0, 0, 0]]), kernel.numerators.tolist())
    alone, replaced = (filtered_influence(count(6, 6, 1, replaced=by), kernel) for by in (False, True))
    assert np.abs(moved).max() == 8 > alone.linf == 4
    assert (moved**2).sum() > 2 * alone.l2**2
    demand_within(replaced, moved, bits=0)


def test_steps_need_not_be_as_close_as_they_may():
    # The second tap meets steps that lie four apart, not three: what is nearer is not all that matters.
    kernel = Kernel(np.array([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), 0)
    moved = oracle.filtered(np.isin(np.arange(13), [0, 4, 8]).astype(int)[None], kernel.numerators.tolist())
    assert (moved**2).sum() == 10
    demand_within(filtered_influence(count(13, 3, 3), kernel), moved, bits=0)


# --- long cycles ---


def assert_no_drawn_set_exceeds(size, gap, steps, kernel, sets, *, seed):
    """Search among combs and random sets, with one sign: floats, and a millionth of a millionth for them."""
    random = np.random.default_rng(seed)
    influence = filtered_influence(count(size, gap, steps), kernel)
    people = np.zeros((sets, size))
    for row in people:
        row[oracle.drawn(random, size, gap, steps)] = 1.0
    moved = np.fft.irfft(np.fft.rfft(people) * np.fft.rfft(kernel.taps), n=size)
    tops = np.cumsum(-np.sort(-np.abs(moved), axis=1), axis=1).max(axis=0)
    claimed = np.cumsum(np.pad(influence.majorant.values, (0, size))[:size])
    assert (moved**2).sum(axis=1).max() <= influence.l2**2 * (1 + 1e-12)
    assert np.all(tops <= claimed * (1 + 1e-12) + 1e-12)
    assert tops[0] <= influence.linf * (1 + 1e-12)
    return (moved**2).sum(axis=1).max() / influence.l2**2


def long_case(random):
    size = int(random.integers(50, 2_000))
    gap = int(random.integers(2, max(3, size // 3)))
    steps = int(random.integers(1, size // gap + 2))
    taps = random.normal(size=size) * (random.random(size) < 0.2)
    taps[0] = 1.0
    kind = random.integers(3)
    if kind == 0:
        return size, gap, steps, gaussian_kernel(size, float(random.uniform(0.5, size / 8)))
    if kind == 1:
        return size, gap, steps, exponential_kernel(size, float(random.uniform(0.5, size / 8)))
    return size, gap, steps, Kernel(np.rint(taps * 2**12).astype(np.int64), 12)


def test_no_comb_and_no_random_set_exceeds_the_influence_on_long_cycles():
    random = np.random.default_rng(1)
    for index in range(12):
        assert_no_drawn_set_exceeds(*long_case(random), sets=20, seed=index)


@pytest.mark.long
def test_no_set_exceeds_the_influence_in_many_long_cycles():
    random = np.random.default_rng(2)
    for index in range(60):
        assert_no_drawn_set_exceeds(*long_case(random), sets=100, seed=index)


def random_setting(random):
    """Draw a cycle or a panel, a gap, a cap, a kernel of any kind, and who differs."""
    series = int(random.choice([1, 1, 1, 2, 3]))
    size = int(random.integers(2, {1: 10, 2: 6, 3: 4}[series]))
    gap = int(random.integers(2, size + 1))
    steps = int(random.integers(1, series * (size // gap) + 2))
    some = kernels(size, seed=int(random.integers(2**31)))
    return size, gap, steps, some[random.integers(len(some))], {"replaced": random.random() < 0.4, "series": series}


@pytest.mark.parametrize("settings", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_set_exceeds_the_influence_in_random_settings(settings):
    random = np.random.default_rng(3)
    for _ in range(settings):
        *setting, who = random_setting(random)
        assert_no_set_exceeds_the_influence(*setting, **who)


# --- around it ---


def test_without_a_filter_a_gap_saves_nothing():
    laws = (extremal_law(count(1800, gap, 180), 0.1, 1800) for gap in (1, 10))
    plain, apart = (calibrate(law.at, Budget(epsilon=0.5, delta=1e-4)) for law in laws)
    assert plain == apart


def test_more_steps_than_can_lie_apart_cost_no_more():
    assert count(1800, 10, 999) == count(1800, 10, 180)
    assert count(12, 5, 9, series=3) == count(12, 5, 6, series=3)
    assert count(12, 5, 9, series=3, replaced=True).l0 == 12
    assert [max_separated_steps(7, gap) for gap in (1, 2, 3, 4, 7)] == [7, 3, 2, 1, 1]


def test_the_gap_is_used_up_by_the_filter():
    kernel = gaussian_kernel(60, 3.0)
    once = filtered_influence(count(60, 10, 4), kernel)
    assert once.gap == 1
    twice, joined = filtered_influence(once, kernel), filtered_influence(count(60, 10, 4), kernel.convolve(kernel))
    assert joined.l2 < twice.l2


# --- a partial order ---

CLOSE = Influence(l0=4, l2=2.0, linf=1.0)
APART = Influence(l0=4, l2=2.0, linf=1.0, gap=3)
FURTHER = Influence(l0=4, l2=2.0, linf=1.0, gap=5)
HALVES = Influence(l0=4, l2=2.0, linf=1.0, gap=3, replaced=True)
FEWER = Influence(l0=2, l2=2.0, linf=1.0, gap=3)


def test_a_larger_gap_is_a_smaller_influence():
    assert FURTHER < APART < CLOSE
    assert HALVES < CLOSE
    assert FEWER < HALVES, "two steps apart may stand for a half of four"
    assert not APART <= HALVES, "four steps apart are no half of four"
    assert not HALVES <= APART
    everything = [CLOSE, APART, FURTHER, HALVES, FEWER]
    for a in everything:
        for b in everything:
            assert not (a <= b and b <= a) or (a == b and hash(a) == hash(b))
            for c in everything:
                assert not (a <= b and b <= c) or a <= c


def test_the_order_is_that_of_the_sets_of_changes():
    # Every influence over few steps, against the sets of differences that it allows.
    size = 6
    allowed = {}
    for gap in (1, 2, 3):
        for l0 in (1, 2, 3, 4):
            rows = oracle.signed(size, gap, l0)
            allowed[Influence(l0=l0, l2=9.0, linf=1.0, gap=gap)] = set(map(tuple, rows.tolist()))
            if gap > 1:
                rows = oracle.differences(oracle.indicators(size, gap, l0 // 2))
                halves = Influence(l0=l0, l2=9.0, linf=1.0, gap=gap, replaced=True)
                allowed[halves] = set(map(tuple, rows.tolist()))
    for a, changes in allowed.items():
        for b, more in allowed.items():
            assert not a <= b or changes <= more, (a, b)


def test_what_a_gap_is_printed_as():
    assert repr(APART) == "Influence(l0=4, l2=2, linf=1, gap=3)"
    assert repr(HALVES) == "Influence(l0=4, l2=2, linf=1, gap=3, replaced=True)"
    assert Influence(l0=4, l2=2.0, linf=1.0, replaced=True) == CLOSE  # without a gap there is nothing to say of it


@pytest.mark.parametrize(("gap", "error"), [(0, ValueError), (-3, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_gap_is_a_positive_whole_number(gap, error):
    refuses(r"gap \(", Influence, error=error, l0=1, l2=1.0, linf=1.0, gap=gap)
    refuses(r"gap \(", count, 10, gap, 2, error=error)


def test_a_gap_fits_on_the_cycle_and_may_be_of_numpy():
    refuses("gap", count, 10, 11, 2)
    assert type(count(10, np.int64(3), 2).gap) is int
    assert count(1, 1, 1) == influence_of(1, 1)


def test_a_majorant_that_is_known_goes_on_to_be_used():
    # A hand-made influence whose majorant says more than its largest entry.
    values = np.array([4.0, 1.0, 1.0])
    kernel = Kernel(np.array([2, 1, 0, 0, 0, 0, 0, 1]), 2)
    given = Influence(l0=3, l2=4.25, linf=4.0, majorant=Majorant(values), gap=2)
    got = filtered_influence(given, kernel)
    assert math.fsum(got.majorant.values) <= 6.0
    moved = [
        oracle.filtered(np.array([row]), [2, 1, 0, 0, 0, 0, 0, 1])
        for row in ([4, 0, 1, 0, 1, 0, 0, 0], [1, 0, 4, 0, 0, 1, 0, 0])
    ]
    demand_within(got, np.concatenate(moved), bits=2)
