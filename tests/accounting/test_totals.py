"""How far individuals move totals of a panel: every vector of a small panel, and what is attained."""

import itertools
import math

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence, Level, Majorant, totals_influence
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.signal import tree_influence
from tests.make import influence_of
from tests.oracles import totals as oracle
from tests.refused import refuses

SERIES, STEPS = 4, 2
TREES = {
    "one total": {"all": "abcd"},
    "two groups": {"x": "abc", "y": "d"},
    "a tree": {"all": {"x": "ab", "y": {"z": "c", "w": "d"}}},
}


def panel_influence(cap, step_cap, key_cap, *, replaced, individuals=1, series=SERIES, steps=STEPS):
    caps = {"step_cap": step_cap, "key_cap": key_cap, "series": series}
    return influence_of(cap, series * steps, individuals=individuals, replaced=replaced, **caps)


def groups_of(tree):
    def spelled(part):
        return {n: spelled(p) for n, p in part.items()} if isinstance(part, dict) else list(part)

    return Groups.of(spelled(tree), "abcd")


def exceeded(influence, moved):
    """Which bounds the changes exceed, and the largest of them."""
    sums = np.abs(np.array(moved, dtype=float))
    descending = np.sort(sums, axis=1)[:, ::-1]
    tops = np.cumsum(descending, axis=1).max(axis=0)
    found = {
        "l0": np.count_nonzero(sums, axis=1).max() / influence.l0,
        "l2": math.sqrt((sums**2).sum(axis=1).max()) / influence.l2,
        "linf": sums.max() / influence.linf,
    }
    if influence.majorant is not None:
        values = np.append(influence.majorant.values, np.zeros(sums.shape[1]))[: sums.shape[1]]
        found["majorant"] = (tops / np.cumsum(values)).max()
    return found


@pytest.mark.thinned(3, keep=["False-a tree", "False-two groups"])
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("replaced", [False, True])
def test_no_individual_exceeds_the_influence_on_totals(tree, replaced):
    groups = groups_of(TREES[tree])
    members = [["abcd".index(key) for key in keys] for _, keys in groups.members]
    for cap, step_cap, key_cap in itertools.product((1, 2, 3), (1, 2), (None, 1, 2)):
        if replaced and cap == 3 and step_cap == 2:
            continue  # a million pairs
        allowed = SERIES if key_cap is None else key_cap
        own = oracle.contributions(SERIES, STEPS, participation_cap=cap, step_cap=step_cap, key_cap=allowed)
        differences = oracle.differences(own, replaced=replaced)
        moved = {tuple(oracle.totals(v, members, STEPS)) for v in differences}
        influence = tree_influence(panel_influence(cap, step_cap, key_cap, replaced=replaced), groups, STEPS)
        found = exceeded(influence, list(moved))
        assert max(found.values()) <= 1 + 1e-12, (cap, step_cap, key_cap, found)
        # Attained, where nothing is said of halves that would be needed, and there are steps enough.
        if tree == "one total" and not replaced:
            # In a group of four, as many steps as the cap are there for one series at a time, or two together.
            enough = STEPS * min(allowed, cap) >= cap
            assert found["linf"] == pytest.approx(1)
            assert not enough or found["l2"] == pytest.approx(1, abs=1e-12)


def test_one_series_at_a_time_makes_totals_as_little_sensitive_as_series():
    panel = panel_influence(30, 2, 1, replaced=False, series=10, steps=100)
    total = totals_influence(panel, [Level(1, 10)], 100)
    assert (total.l0, total.l2, total.linf) == (panel.l0, panel.l2, panel.linf)
    assert total.majorant == panel.majorant
    unlimited = totals_influence(
        panel_influence(30, 2, None, replaced=False, series=10, steps=100), [Level(1, 10)], 100
    )
    assert unlimited.linf == 20
    assert unlimited.l2 == pytest.approx(math.sqrt(3) * 20)
    replaced = totals_influence(panel_influence(30, 2, 1, replaced=True, series=10, steps=100), [Level(1, 10)], 100)
    assert (replaced.l0, replaced.linf) == (60, 2)
    assert replaced.l2 == pytest.approx(2 * math.sqrt(60))


def test_levels_add_up_and_individuals_stay():
    panel = panel_influence(3, 1, 1, replaced=False, individuals=5)
    tree = totals_influence(panel, [Level(1, 4), Level(2, 3)], STEPS)
    assert (tree.individuals, tree.l0, tree.linf) == (5, 2 * panel.l0, 1)
    assert tree.l2 == pytest.approx(math.sqrt(2) * panel.l2)
    assert tree.key_cap is None
    assert tree.gap == 1
    assert not tree.replaced


def test_bounds_that_say_nothing_stay_such():
    nothing = totals_influence(Influence(l0=3, l2=math.inf, linf=2), [Level(1, 3)], 5)
    assert (nothing.l2, nothing.linf) == (math.inf, math.inf)
    for largest in (2, math.inf):  # the norm bounds the largest entry
        total = totals_influence(Influence(l0=3, l2=2, linf=largest), [Level(1, 3)], 5)
        assert total.l2 == pytest.approx(2 * math.sqrt(3))
        assert total.linf == pytest.approx(2 * math.sqrt(3))
    huge = totals_influence(Influence(l0=3, l2=1.7e308, linf=1.7e308), [Level(1, 3)], 5)
    assert (huge.l2, huge.linf) == (math.inf, math.inf)
    bare = totals_influence(Influence(l0=3, l2=2, linf=2), [Level(1, 3)], 5)
    assert bare.majorant is None
    assert bare.l2 == pytest.approx(2 * math.sqrt(3))
    assert bare.linf == pytest.approx(2 * math.sqrt(3))  # Cauchy-Schwarz, less than 3 times 2
    uneven = Influence(l0=3, l2=3, linf=2, majorant=Majorant([2.0, 2.0, 1.0]))
    assert totals_influence(uneven, [Level(1, 2)], 5).majorant == Majorant([4.0, 1.0])


def test_where_half_of_the_steps_is_not_enough_nothing_is_said_of_halves():
    # 3 series and 2 at a time, 2 steps: those replaced leave up to 4 entries and enter up to 4, of 6 there are.
    cut = panel_influence(4, 1, 2, replaced=True, series=3)
    assert cut.l0 == 6
    assert cut.key_cap is None
    assert not cut.replaced
    fits = panel_influence(3, 1, 2, replaced=True, series=3)
    assert fits.l0 == 6
    assert fits.key_cap == 2
    assert fits.replaced
    assert fits.l0_separated == 3


def test_a_smaller_key_cap_is_a_smaller_influence():
    one, two, free = (panel_influence(3, 1, cap, replaced=False) for cap in (1, 2, None))
    assert one.l0 == 2  # at two steps, in one series each
    one, two, free = (panel_influence(3, 1, cap, replaced=False, steps=9) for cap in (1, 2, None))
    assert one < two < free
    assert not free <= two
    assert not two <= one
    gap = influence_of(3, 36, series=4, gap=2)
    assert not gap <= one
    assert not one <= gap
    replaced = panel_influence(3, 1, 1, replaced=True, steps=9)
    assert not replaced <= panel_influence(6, 1, 1, replaced=False, steps=9)
    assert one <= replaced
    assert repr(replaced).endswith("key_cap=1, replaced=True)")


def test_a_filter_behind_totals_knows_all_of_it(log_space):
    panel = log_space >> ts.then_participation_count(
        ts.TimeGrid(size=12), participation_cap=4, excess="drop", by="site", keys=["a", "b", "c", "d"], key_cap=1
    )
    totals = panel >> ts.then_totals({"x": ["a", "b"], "y": ["c", "d"]})
    smooth = totals >> ts.then_circulant_filter(ts.gaussian_kernel(12, std=1.0))
    assert smooth.map(1).l2 < totals.map(1).l2
    refuses("input_metric", lambda: smooth >> ts.then_totals({"z": ["x", "y"]}), error=TypeError)
    with pytest.raises(TypeError, match=r"^input_metric|input_metric"):
        (
            log_space
            >> ts.then_participation_count(ts.TimeGrid(size=2), participation_cap=1)
            >> ts.then_totals({"z": ["x"]})
        )
