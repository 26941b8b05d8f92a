"""Individuals who are scaled, not dropped: no one exceeds the influence, whatever the shape, and it is attained."""

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from opendp_timeseries import TimeGrid
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Reach, count_influence, tiers_influence
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.kernels import Kernel, gaussian_kernel
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period
from opendp_timeseries.plugin.lp_distance import l1_of, l2_of
from tests import make
from tests.make import influence_of
from tests.oracles import scaling as oracle
from tests.oracles import separated
from tests.oracles.scaling import UNIT, Setting
from tests.oracles.stratified import gaussian_profile
from tests.refused import refuses

KEYS = "abcdef"


def count_of(setting, *, replaced=False):
    panel = setting.series > 1
    return make.count(
        source=Source(identifier="id", time="time", by="site" if panel else None),
        grid=TimeGrid(size=setting.steps),
        per=TimeGrid(size=setting.steps // setting.each) if setting.each > 1 else None,
        participation_cap=setting.cap,
        step_cap=setting.step_cap,
        gap=setting.gap,
        key_cap=setting.key_cap,
        panel=tuple(KEYS[: setting.series]) if panel else None,
        unit=Unit(replaced=replaced, period=setting.period and Period(setting.period)),
        excess=setting.excess,
        tiers=Tiers(ends=setting.ends, share=setting.share) if setting.share else None,
        typical=setting.typical or setting.step_cap,
    )


def exceeded(influence, moved, individuals=1, bits=16):
    """Which bounds some rows, in units of ``2**-bits``, exceed: the names of them."""
    unit = Fraction(1, 2**bits)
    magnitudes = -np.sort(-np.abs(moved), axis=1)
    found = {
        "l0": np.count_nonzero(magnitudes, axis=1).max() > influence.l0 * individuals,
        "l1": int(magnitudes.sum(axis=1).max()) * unit > individuals * influence.l1_norm(),
        "l2": (int((magnitudes.astype(object) ** 2).sum(axis=1).max()) * unit**2)
        > (individuals * Fraction(influence.l2)) ** 2,
        "linf": int(magnitudes.max()) * unit > individuals * Fraction(influence.linf),
    }
    if influence.majorant is not None:
        tops = magnitudes.cumsum(axis=1).max(axis=0).tolist()
        values = [Fraction(value) for value in influence.majorant.values.tolist()]
        values += [Fraction(0)] * (len(tops) - len(values))
        found["majorant"] = any(
            top * unit > individuals * most for top, most in zip(tops, accumulate(values), strict=False)
        )
    return [name for name, broken in found.items() if broken]


def demand_within(influence, moved, **more):
    assert exceeded(influence, moved, **more) == []


def moves_of(setting, *, replaced, periods=1, most=10**6, random=None):
    rows = setting.contributions(periods)
    return oracle.moves(rows, replaced=replaced, most=most, random=random or np.random.default_rng(0))


# --- Weights ---


@pytest.mark.parametrize("share", [1e-12, 0.3, 0.8, 1 - 2.0**-53])
@pytest.mark.parametrize(("ends", "most"), [((1,), 9), ((4, 9), 10), ((4, 9), 90), ((20, 100, 101), 5000), ((), 7)])
def test_weights_on_all_scales_keep_the_norm_together(share, ends, most):
    scales = Tiers(ends=ends, share=share)
    table, first = scales.table(most), scales.first(most)
    rows = list(zip(table.ends.tolist(), table.weights.tolist(), strict=True))
    assert (rows[0][0], rows[-1][0]) == (first, most)
    assert np.all(np.diff(table.ends) > 0)
    for end, weights in rows:
        assert sum(q * q for q in weights) * end <= first * UNIT**2 < sum((q + 1) ** 2 for q in weights) * end
        assert min(weights) >= 0
        if most < 100:
            assert tuple(weights) == oracle.scale_weights(end, most, ends, Fraction(share))
            assert oracle.row_of(end, most, ends) == end
    # Who comes more often weighs no more, on any scale: those replaced by others need it.
    assert np.all(np.diff(table.weights, axis=0) <= 0)
    # On the last scale all weigh the same.
    assert np.ptp(table.weights[:, -1]) == 0


# --- Counts, by every vector ---

SETTINGS = {
    "one series": Setting(1, 6, 2, 1, "l2"), "several events": Setting(1, 5, 2, 2, "l2"),
    "one step in full": Setting(1, 5, 1, 2, "l2"), "gap": Setting(1, 6, 2, 2, "l2", gap=2),
    "panel": Setting(2, 3, 2, 1, "l2"), "panel with gap": Setting(2, 3, 1, 2, "l2", gap=2),
    "key cap": Setting(3, 2, 1, 1, "l2", key_cap=1), "two keys": Setting(3, 2, 2, 1, "l2", key_cap=2),
    "periods": Setting(1, 6, 1, 1, "l2", period=2), "uneven periods": Setting(1, 5, 2, 2, "l2", period=3),
    "periods of a panel": Setting(2, 3, 1, 1, "l2", period=2), "sums": Setting(1, 6, 2, 1, "l1"),
    "sums of events": Setting(1, 5, 2, 2, "l1"), "sums of a panel": Setting(2, 3, 2, 1, "l1", key_cap=1),
    "sums in periods": Setting(1, 5, 2, 1, "l1", period=3), "total": Setting(1, 6, 4, 1, "l1", each=6),
    "total of less than the cap": Setting(1, 3, 5, 2, "l1", each=3),
    "total with gap": Setting(1, 7, 2, 2, "l1", gap=2, each=7), "totals": Setting(1, 6, 4, 1, "l1", each=3),
    "totals of events": Setting(1, 4, 3, 2, "l1", each=2),
    "totals with gap": Setting(1, 8, 3, 1, "l1", gap=3, each=4),
    "totals of a panel": Setting(2, 4, 3, 1, "l1", key_cap=1, each=2),
    "total of each series": Setting(2, 3, 4, 1, "l1", each=3),
    "totals in periods": Setting(1, 6, 2, 1, "l1", period=3, each=3),
    "totals within periods": Setting(1, 6, 3, 1, "l1", period=4, each=2),
    "total within a longer period": Setting(1, 4, 3, 1, "l1", period=5, each=4),
    "scales": Setting(1, 4, 1, 1, "l2", ends=(1, 2), share=0.8),
    "two scales": Setting(1, 4, 3, 1, "l2", ends=(3,), share=0.25),
    "mostly fine": Setting(1, 5, 2, 1, "l2", ends=(2, 3), share=0.1),
    "scales of events": Setting(1, 3, 1, 2, "l2", ends=(1, 2), share=0.5),
    "scales of a panel": Setting(2, 3, 2, 1, "l2", key_cap=1, ends=(2,), share=0.8),
    "scales in periods": Setting(1, 4, 1, 1, "l2", period=2, ends=(1,), share=0.5),
    "scales with gap": Setting(1, 6, 1, 1, "l2", gap=2, ends=(1, 2), share=0.7),
    "one scale": Setting(1, 3, 3, 1, "l2", share=0.7), "dropped": Setting(1, 5, 2, 2, "drop"),
}  # fmt: skip


@pytest.mark.thinned(3, keep=["totals with gap-False"])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_nobody_exceeds_the_influence(name, replaced):
    setting = SETTINGS[name]
    count = count_of(setting, replaced=replaced)
    for periods in range(1, setting.number + 1):
        influence = count.influence(1, periods=periods)
        moved = moves_of(setting, replaced=replaced, periods=periods)
        demand_within(influence, moved)
        largest = (moved.astype(float) ** 2).sum(axis=1).max() / UNIT**2
        attained = largest / influence.l2**2
        # Weights are rounded down, and somebody replaced may find too few steps to go to.
        assert attained > (1 - 2.0**-13 if not replaced else 0.4)
        if name in ("one series", "several events", "panel", "key cap"):
            assert attained == pytest.approx(1)


def test_all_steps_count_and_weigh_as_those_of_the_cap():
    for size, cap in ((1800, 5), (1000, 180)):
        dropped, scaled = (influence_of(cap, size, step_cap=3, norm=norm) for norm in (None, "l2"))
        assert (scaled.l0, dropped.l0) == (size, cap)
        assert (scaled.l2, scaled.linf) == (dropped.l2, dropped.linf)
        assert l2_of(scaled) == l2_of(dropped)
        for probability in (0.1, 1.0):  # not the square of a root that was rounded up
            assert extremal_law(scaled, probability, size).largest == extremal_law(dropped, probability, size).largest
        assert l1_of(scaled) == pytest.approx(3 * math.sqrt(cap * size), rel=1e-14)
        assert l1_of(scaled) >= 3 * math.sqrt(cap * size) * (1 - 1e-15)
    plain = {"participation_cap": 9, "step_cap": 2, "size": 5}
    for replaced in (False, True):  # where nobody can be in more steps than the cap, nothing changes
        assert count_influence(1, **plain, replaced=replaced, norm="l2") == count_influence(
            1, **plain, replaced=replaced
        )


def test_scaled_sums_are_as_far_as_dropped_ones_in_both_norms():
    for replaced in (False, True):
        plain = {"participation_cap": 4, "step_cap": 3, "size": 50, "replaced": replaced}
        dropped, scaled = (count_influence(2, **plain, norm=norm) for norm in (None, "l1"))
        assert (l1_of(scaled), l2_of(scaled)) == (l1_of(dropped), l2_of(dropped))
        assert scaled.l0 == 50


def test_all_scales_together_cost_what_one_series_costs():
    for replaced in (False, True):
        for size in (5000, 30):
            reach = Reach(3, step_cap=2, size=size, replaced=replaced)
            one = count_influence(**reach._asdict(), participation_cap=20, norm="l2")
            several = tiers_influence(reach, square=80, largest=0.75, series=3)
            squared = 4 * min(40 if replaced else 20, size)  # exactly, whether or not its root is a float
            assert (several.l2, several.l2_squared, several.individuals) == (one.l2, squared, 3)
            assert several.l0 == 3 * one.l0
            assert 1.5 <= several.linf <= 1.5 * (1 + 1e-15)
    whole = Reach(1, step_cap=1, size=5, replaced=False)
    assert tiers_influence(whole, square=5, largest=0.5, series=2).l2_squared == 5
    # Where the bound is far above what is typical, one value may have all of the norm.
    bound = tiers_influence(Reach(1, step_cap=600, size=5, replaced=True), square=90, largest=0.75, series=2)
    assert (bound.l0, bound.l2_squared) == (10, 180)
    assert 90 <= Fraction(bound.linf) ** 2 < 90 + 1e-12


# --- Whole maps: filters and totals behind it ---


def kernel_for(random, size):
    taps = random.integers(-4, 5, size) * (random.random(size) < 0.7)
    kind = random.integers(4)
    if kind == 0:
        half = -np.sort(-random.integers(0, 5, size // 2 + 1))
        taps = np.array([half[min(t, size - t)] for t in range(size)])
    if kind == 1:
        taps = np.abs(taps)
    taps[0] += not taps.any()
    return Kernel(taps, int(random.integers(3)))


def drawn_setting(random):
    series = int(random.choice([1, 1, 2, 3]))
    steps = int(random.integers(1, {1: 7, 2: 4, 3: 3}[series]))
    gap = int(random.integers(1, steps + 1)) if random.random() < 0.4 else 1
    step_cap = int(random.choice([1, 1, 2])) if series * steps <= 5 else 1
    cap = int(random.integers(1, series * steps + 2))
    period = int(random.integers(1, steps + 1)) if random.random() < 0.25 else None
    key_cap = int(random.integers(1, series + 1)) if series > 1 and random.random() < 0.5 else None
    most = Setting(series, steps, cap, step_cap, "l2", gap=gap, key_cap=key_cap, period=period).most
    ends, share = (), 0.0
    if random.random() < 0.3:
        share = float(random.choice([0.2, 0.5, 0.8]))
        ends = tuple(sorted({int(end) for end in random.integers(1, most, random.integers(3))} if most > 1 else ()))
        cap = ends[0] if ends else most
    excess = "l2" if share else str(random.choice(["l2", "l2", "l1", "drop"]))
    each = 1
    if excess == "l1" and random.random() < 0.7:
        whole = [k for k in range(2, steps + 1) if steps % k == 0]
        each = int(random.choice([k for k in whole if period is None or period % k == 0 or period >= steps] or [1]))
    return Setting(
        series=series,
        steps=steps,
        cap=cap,
        step_cap=step_cap,
        excess=excess,
        gap=gap,
        key_cap=key_cap,
        period=period,
        ends=ends,
        share=share,
        each=each,
    )


def drawn_stages(random, setting):
    """Stages, and what each does to rows of whole numbers and their binary places."""
    stages, does, series = [], [], setting.series
    if setting.share:
        return stages, does
    if series > 1 and random.random() < 0.4:
        tree = {"all": {"x": list("ab"), "y": list(KEYS[2:series])} if series > 2 else list("ab")}
        groups = Groups.of(tree, KEYS[:series])
        members = [[KEYS.index(key) for key in keys] for _, keys in groups.members]
        stages.append(groups)
        does.append(lambda rows, bits, series=series, members=members: (oracle.totals(rows, series, members), bits))
    for _ in range(int(random.choice([0, 1, 1, 2]))):
        kernel = kernel_for(random, setting.steps // setting.each)
        stages.append(kernel)
        taps = kernel.numerators.tolist()
        does.append(
            lambda rows, bits, taps=taps, more=kernel.resolution_bits: (separated.filtered(rows, taps), bits + more)
        )
    return stages, does


def assert_no_loss_below_the_truth(random, influence, moved, bits, size):
    """At one scale and sampling probability: the profile, means of hinges, and the tail of the reach."""
    probability = float(random.choice([0.1, 0.3, 0.5, 0.9, 1.0]))
    law = extremal_law(influence, probability, size)
    moved = moved[np.argsort(-(moved.astype(float) ** 2).sum(axis=1))]
    for row in moved[np.unique([0, min(1, len(moved) - 1), int(random.integers(len(moved)))])]:
        if np.count_nonzero(row) > 12:
            continue
        values, weights = oracle.kept_law(row / 2.0**bits, probability)
        for bound in law.convex or (law.increasing,):
            for corner in (0.0, *np.quantile(values, [0.3, 0.7, 0.95]).tolist()):
                truth = float(np.sum(weights * np.maximum(values - corner, 0.0)))
                claimed = float(np.sum(bound.weights * np.maximum(bound.values - corner, 0.0)))
                assert truth <= claimed * (1 + 1e-9)
        for corner in np.unique(values):
            truth = float(weights[values >= corner * (1 + 1e-9)].sum())
            claimed = float(law.increasing.weights[law.increasing.values >= corner].sum())
            assert truth <= claimed * (1 + 1e-9) + 1e-15
        scale, epsilon = float(random.uniform(0.3, 4.0)) * max(influence.linf, 0.1), float(random.uniform(0.0, 2.0))
        profile = gaussian_profile(epsilon, np.sqrt(values) / scale)
        assert float(np.sum(weights * profile)) <= law.at(scale).delta(epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(("settings", "seed"), [
    (150, 1), *(pytest.param(1000, seed, marks=pytest.mark.long) for seed in range(2, 12)),
])  # fmt: skip
def test_no_map_is_below_the_truth_in_random_settings(settings, seed):
    random = np.random.default_rng(seed)
    seen = 0
    while seen < settings:
        setting = drawn_setting(random)
        replaced, most = bool(random.random() < 0.5), 1500
        if setting.share and setting.step_cap > 1 and setting.steps * setting.series > 4:
            continue
        count = count_of(setting, replaced=replaced)
        stages, does = drawn_stages(random, setting)
        signal = Signal(count, tuple(stages))
        periods = int(random.integers(1, setting.number + 1))
        moved, bits = moves_of(setting, replaced=replaced, periods=periods, most=most, random=random), 16
        for stage in does:
            moved, bits = stage(moved, bits)
        influence = signal.influence(1, periods=periods)
        assert exceeded(influence, moved, bits=bits) == [], (setting, replaced, periods, stages)
        if seen % 5 == 0 and setting.steps * setting.series <= 6:
            assert_no_loss_below_the_truth(random, influence, moved, bits, signal.size)
        seen += 1


# --- Behind a gap a filter earns what it did ---


@pytest.mark.parametrize("cap", [1, 5, 20])
def test_behind_a_gap_a_filter_earns_as_much_as_where_steps_are_dropped(cap):
    size, gap = 1800, 60
    kernel = gaussian_kernel(size, 10)
    dropped, scaled = (filtered_influence(influence_of(cap, size, gap=gap, norm=norm), kernel) for norm in (None, "l2"))
    # Twice as much as the width of the kernel meets of neighbours: none.
    assert dropped.l2 <= scaled.l2 <= dropped.l2 * 1.001
    near = filtered_influence(influence_of(cap, size, norm="l2"), kernel)
    assert near.l2 == pytest.approx(math.sqrt(cap))  # without one, whoever comes all the time is not smoothed away


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_whoever_obeys_the_gap_and_is_scaled_stays_below_the_bound_of_the_whole_cycle(cap):
    # (cap / n) times the energy of n steps that lie apart, at its largest over n: of a full comb.
    kernel, size, gap = Kernel(np.array([4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2]), 0), 12, 3
    worst = 0.0
    for row in separated.indicators(size, gap, size):
        n = int(row.sum())
        if n:
            energy = float((separated.filtered(row[None], kernel.numerators.tolist()) ** 2).sum())
            worst = max(worst, min(1, cap / n) * energy)
    given = influence_of(cap, size, gap=gap, norm="l2")
    claimed = filtered_influence(given, kernel).l2 ** 2
    assert worst == pytest.approx(claimed, rel=1e-12)


# --- Sampling loses nothing ---


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cap", [1, 5, 20, 180])
@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
def test_the_law_of_the_family_is_below_the_law_that_is_used(cap, probability):
    # Somebody in n steps with one event in each leaves (cap / n)·Bin(n, p): in the convex order, least where n is
    # largest, and for increasing functions below the reach.
    size = 400
    influence = influence_of(cap, size, norm="l2")
    law = extremal_law(influence, probability, size)
    (vertex,) = law.convex
    for values, weights in oracle.family(cap, size, probability)[::7]:
        for corner in np.linspace(0, cap, 9):
            truth = float(np.sum(weights * np.maximum(values - corner, 0)))
            assert truth <= float(np.sum(vertex.weights * np.maximum(vertex.values - corner, 0))) * (1 + 1e-9)
            tail = float(weights[values > corner * (1 + 1e-9)].sum())
            assert tail <= float(law.increasing.weights[law.increasing.values > corner].sum()) * (1 + 1e-9) + 1e-15
        for rate in (0.1, 1.0):
            truth = math.log(float(np.sum(weights * np.exp(rate * (values - cap))))) + rate * cap
            assert truth <= law.log_moment(np.array([rate]), 1.0)[0] + 1e-9


@pytest.mark.parametrize("cap", [1, 5, 20, 180])
@pytest.mark.parametrize("delta", [1e-8, 1e-6, 1e-4, 1e-2])
def test_sampling_is_worth_as_much_as_where_steps_are_dropped(cap, delta):
    size = 1800
    for probability, within in ((1.0, 0.0), (0.1, 0.001)):
        dropped, scaled = (
            calibrate(
                extremal_law(influence_of(cap, size, norm=norm), probability, size).at, Budget(epsilon=1.0, delta=delta)
            )
            for norm in (None, "l2")
        )
        assert dropped <= scaled * (1 + 1e-12)
        assert scaled <= dropped * (1 + within)


# --- The sum of magnitudes, behind filters ---


def test_behind_any_filter_the_sum_of_magnitudes_is_known():
    # Without a gap no majorant goes through signed taps, but this does.
    size = 200
    taps = np.zeros(size, dtype=np.int64)
    taps[[0, 1, 2]] = [2, -1, 3]
    kernel = Kernel(taps, 1)
    for norm in (None, "l1"):
        given = influence_of(5, size, step_cap=2, norm=norm)
        assert filtered_influence(given, kernel).majorant is None
        twice = filtered_influence(filtered_influence(given, kernel), kernel)
        assert l1_of(filtered_influence(given, kernel)) == 10 * 3
        assert l1_of(twice) == 10 * 3**2
    one = separated.filtered(np.eye(1, size, dtype=np.int64), taps.tolist())
    assert np.abs(one).sum() / 2 * 10 == 30  # attained, by somebody whose steps lie apart


def test_a_smaller_sum_of_magnitudes_is_a_smaller_influence():
    free, less, least = (Influence(l0=4, l2=2.0, linf=1.0, l1=l1) for l1 in (math.inf, 3.0, 2.5))
    assert least < less < free
    assert not free <= less
    assert l1_of(least) == 2.5
    assert l1_of(free) == 4
    for bad in (-1.0, math.nan, "1"):
        refuses("l1", Influence, error=(TypeError, ValueError), l0=1, l2=1.0, linf=1.0, l1=bad)
    assert l1_of(Influence(l0=3, l2=math.inf, linf=math.inf)) == math.inf
    assert l1_of(Influence(l0=0, l2=math.inf, linf=math.inf)) == 0


def test_a_square_is_known_where_its_root_is_rounded():
    root, exact = math.nextafter(math.sqrt(5), 9), Influence(l0=9, l2=math.sqrt(5), linf=1.0, exact_square=5)
    assert exact.l2_squared == 5
    assert Influence(l0=9, l2=math.sqrt(5), linf=1.0) != exact
    wider = Influence(l0=9, l2=root, linf=1.0)
    assert exact < wider
    assert not wider <= exact
    same = Influence(l0=9, l2=2.0, linf=1.0, exact_square=Fraction(5))
    assert same == Influence(l0=9, l2=2.0, linf=1.0)  # says no more than the root
    assert Influence(l0=9, l2=math.inf, linf=1.0).l2_squared == math.inf
    assert Influence(l0=9, l2=math.inf, linf=1.0, exact_square=3).l2_squared == 3
    for bad in (-1, math.nan, "1"):
        refuses("exact_square", Influence, error=(TypeError, ValueError), l0=1, l2=1.0, linf=1.0, exact_square=bad)
    assert l1_of(Influence(l0=3, l2=1.7e308, linf=math.inf)) == math.inf
