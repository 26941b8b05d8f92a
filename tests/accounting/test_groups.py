"""Groups of keys in one norm: nobody moves the sums of keys and groups further than one series, whatever they do."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers, default_tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from tests import make
from tests.oracles import counting as oracle
from tests.refused import refuses

KEYS = ("a", "b", "c")
CITY = {"city": ["a", "b", "c"]}
NESTED = {"all": {"x": ["c", "a"], "y": ["b"]}}
#: The levels of these trees as the slow count takes them: in which series each key is.
LEVELS = {id(CITY): [(0, 1, 2), (3, 3, 3)], id(NESTED): [(0, 1, 2), (4, 5, 4), (3, 3, 3)]}


def count_of(tree, shares=None, *, steps=3, keys=KEYS, replaced=False, period=None, tiers=None, **caps):
    grouping = None if tree is None else Grouping.of(tree, keys, shares)
    panel = {"panel": keys, "source": Source(identifier="id", time="time", by="key")}
    panel = panel if keys else {"source": Source(identifier="id", time="time")}
    unit = Unit(replaced=replaced, period=period and Period(period))
    return make.count(
        **panel, grid=TimeGrid(size=steps), grouping=grouping, unit=unit, tiers=tiers or Tiers(ends=(2,)), **caps
    )


def everybody(count):
    """Everything that one person can do, by key and step, before and after step cap and gap."""
    reading = count.reading
    for events in itertools.product(range(reading.step_cap + 1), repeat=reading.size):
        yield np.array(events).reshape(reading.series, -1)


def added(count, tree, shares, person):
    """What a person adds in each period, by the slow count."""
    reading, entries = count.reading, count.size // count.weighting.series
    tiers = {"ends": count.tiers.ends, "share": count.tiers.share, "most": reading.max_steps, "size": entries}
    levels = [(part, series) for part, series in zip(shares, LEVELS[id(tree)], strict=True)]
    length = reading.unit.period.length if reading.unit.period else reading.grid.size
    vectors = []
    for begin in range(0, reading.grid.size, length):
        rows = [
            int(key * reading.grid.size + step)
            for key, step in zip(*np.nonzero(person), strict=True)
            if begin <= step < begin + length
            for _ in range(person[key, step])
        ]
        caps = {"step_cap": reading.step_cap, "gap": reading.gap, "cycle": reading.grid.size}
        own = oracle.kept("p", rows, participation_cap=1, key=b"", excess="l2", tiers=tiers, levels=levels, **caps)
        vector = np.zeros(count.size, dtype=np.int64)
        vector[list(own)] = list(own.values())
        vectors.append(vector)
    return vectors


CASES = {
    "a city": (CITY, (13, 3), {}),
    "mostly of the city": (CITY, (2, 14), {"tiers": Tiers(ends=(1, 2), share=0.8)}),
    "districts": (NESTED, (10, 2, 4), {"tiers": Tiers(ends=(1, 2), share=0.3)}),
    "one tier": (NESTED, (1, 1, 14), {"tiers": Tiers(ends=())}),
    "several events": (CITY, (9, 7), {"steps": 2, "step_cap": 2, "tiers": Tiers(ends=(1,))}),
    "gap": (CITY, (13, 3), {"gap": 2}),
    "periods": (CITY, (8, 8), {"period": 2, "tiers": Tiers(ends=())}),
    "periods in several tiers": (NESTED, (10, 3, 3), {"period": 2, "tiers": Tiers(ends=(1,))}),
}


@pytest.mark.parametrize("name", CASES)
def test_nobody_moves_keys_and_groups_further_than_stated(name):
    tree, shares, options = CASES[name]
    fractions = [part / 16 for part in shares]
    count, replaced = (count_of(tree, fractions, **options, replaced=of) for of in (False, True))
    assert count.reading.grouping.shares == shares
    rows, sums = {}, set()
    for number, person in enumerate(everybody(count)):
        vectors = added(count, tree, shares, person)
        sums.add(tuple(map(tuple, vectors)))
        if number % 7 == 0:  # the count itself, whose weights are what is bounded here
            key, step = (np.repeat(index, person[person > 0]) for index in np.nonzero(person))
            places = key * count.grid.size + step
            counted = capped_count(np.zeros(places.size, int), places, count, bytes(16))
            assert counted.tolist() == sum(vectors).tolist()
        for period, vector in enumerate(vectors):
            rows.setdefault(period, {})[vector.tobytes()] = vector
    unit = Fraction(1, 2**32)
    for made, largest in (
        (count, [max(int(row @ row) for row in own.values()) for own in rows.values()]),
        (replaced, [largest_difference(np.array([*own.values()])) for own in rows.values()]),
    ):
        for periods in range(1, len(largest) + 1):
            influence = made.influence(periods=periods)
            reached = sum(sorted(largest)[-periods:]) * unit
            assert influence.l2_squared * Fraction(7 if made is replaced else 9, 10) < reached <= influence.l2_squared
            bound = count.reading.step_cap**2 * count.tiers.first(count.reading.max_steps) * periods
            assert influence.l2_squared == bound * (2 if made is replaced else 1)
            assert influence.l2**2 >= influence.l2_squared
            assert influence.l0 == count.size
        entries = [np.abs(row).max() for own in rows.values() for row in own.values()]
        assert Fraction(int(max(entries)), 2**16) <= made.influence().linf
    assert min(min(row.min() for row in own.values()) for own in rows.values()) >= 0


def largest_difference(rows):
    """The largest squared distance of two of these rows, of whole numbers."""
    squares = (rows * rows).sum(axis=1)
    return int((squares[:, None] + squares - 2 * rows @ rows.T).max())


def test_groups_cost_what_one_series_costs():
    """The same scale of noise, whether people are added and removed, or replaced, and whatever the shares."""
    for size, options in ((31 * 24, {}), (400, {"step_cap": 3}), (96, {"period": 24}), (96, {"replaced": True})):
        tiers = default_tiers(size if "period" not in options else 24)
        one = count_of(None, keys=None, steps=size, tiers=tiers, **options)
        for tree, shares in ((CITY, None), (CITY, (0.25, 0.75)), (NESTED, None)):
            several = count_of(tree, shares, steps=size, tiers=tiers, **options)
            assert several.reading.max_steps == one.reading.max_steps
            for periods in range(1, 1 + len(one.reading.period_lengths())):
                first, second = (count.influence(2, periods=periods) for count in (one, several))
                assert (first.l2, first.l2_squared, first.individuals) == (
                    second.l2,
                    second.l2_squared,
                    second.individuals,
                )
                losses = [
                    Design(signal=Signal(count), sampling=Sampling(), scale=20.0).loss(2, periods=periods)
                    for count in (one, several)
                ]
                assert losses[0].epsilon(1e-6) == pytest.approx(losses[1].epsilon(1e-6), rel=1e-12)


def test_what_groups_cannot_be_is_refused_by_name():
    for tree, message in (
        ({"x": ["a", "b"]}, r"every key of the panel.*'c'"),
        ({"x": ["a", "b", "c"], "y": ["c"]}, "every key"),
        ({"all": {"x": ["a", "b"]}, "y": ["c"]}, r"every key.*'c'"),
        ({"a": ["a", "b", "c"]}, r"groups.*'a'"),
        ({"x": ["a", "b", "c", "d"]}, r"groups.*'d'.*'x'"),
        ({"x": ["a", "b", "c", "c"]}, r"group 'x'.*'c'"),
    ):
        refuses(message, count_of, tree)
    for shares, message in (
        ((0.5,), r"shares.*1"),
        ((0.5, 0.4), r"shares.*1"),
        ((0.99, 0.01), "shares"),
        ((1.5, -0.5), "share of a level"),
        ("ab", "shares"),
    ):
        refuses(message, count_of, CITY, shares)
    refuses("shares", Grouping, groups=Grouping.of(CITY, KEYS).groups, shares=(13, 4), rule="add up to 16")
    deep = {"1": {"2": {"3": {"4": {"5": {"6": KEYS}}}}}}
    refuses(r"shares.*6", Grouping.of, deep, KEYS)
    assert Grouping.of(deep, KEYS, [4 / 16] + [2 / 16] * 6).shares == (4, 2, 2, 2, 2, 2, 2)
    assert Grouping.of(CITY, KEYS).shares == (13, 3)
    nested = Grouping.of(NESTED, KEYS)
    assert nested.shares == (10, 3, 3)
    for level in (0, 3):  # they have keys and two levels of groups
        refuses("level", nested.groups_at, level)
    assert Grouping.of(CITY, KEYS, np.array([0.96, 0.04])).shares == (15, 1)
    groups = Grouping.of(CITY, KEYS)
    for changes, message in (
        ({"key_cap": 1}, "key_cap"),
        ({"panel": None, "source": Source(identifier="id", time="time")}, "groups"),
        ({"panel": ("a", "b")}, r"groups.*'c'"),
        ({"panel": (*KEYS, "d")}, r"every key of the panel.*'d'"),
        ({"tiers": None, "participation_cap": 2}, "participation_cap"),
        ({"tiers": None, "participation_cap": 2, "excess": "l1"}, "participation_cap"),
        ({"per": TimeGrid(size=1)}, "per"),
    ):
        given = {"panel": KEYS, "source": Source(identifier="id", time="time", by="key"), "tiers": Tiers(ends=(2,))}
        refuses(message, make.count, **given | {"grid": TimeGrid(size=3), "grouping": groups} | changes)
