"""The capped count: exact caps, uniform choice, and nobody's kept steps depend on anyone else."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.counting import capped_count as module
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin.lp_distance import l1_of, l2_of
from tests.counting.tables import count_of, count_of_series
from tests.oracles import counting as oracle

KEY = bytes(range(16))


def capped_count(who, steps, *, size, participation_cap, step_cap, key):
    count = count_of_series(size, participation_cap=participation_cap, step_cap=step_cap)
    return module.capped_count(who, steps, count, key)


def count(rows, size, *, participation_cap, step_cap=1, key=KEY, dtype=np.int64):
    """Counts of ``(identifier, step)`` rows, identifiers being integers or text."""
    people, steps = [row[0] for row in rows], np.array([row[1] for row in rows], dtype=np.int64)
    text = bool(people) and isinstance(people[0], str)
    who = np.array(people, dtype=object if text else dtype)
    who, steps = read_positions({"id": who, "step": steps}, count_of("id", "step", TimeGrid(size=size)).reading)
    caps = {"participation_cap": participation_cap, "step_cap": step_cap}
    return capped_count(who, steps, size=size, key=key, **caps).tolist()


# Each interval misses with probability below 1e-9 when the choice is uniform.
def test_steps_are_kept_uniformly_whatever_the_events():
    rows = [(7, 0)] * 200 + [(7, step) for step in range(1, 10)]
    draws, kept = 2_000, np.zeros(10, dtype=int)
    who, steps = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    random = np.random.default_rng(20130101)
    for _ in range(draws):
        caps = {"participation_cap": 1, "step_cap": 5}
        counts = capped_count(who, steps, size=10, key=random.bytes(16), **caps)
        assert counts.sum() == (5 if counts[0] else 1)
        kept += counts > 0
    alpha = 1e-9 / 20  # ten steps, two sides
    low, high = beta.ppf(alpha, kept, draws - kept + 1), beta.ppf(1 - alpha, kept + 1, draws - kept)
    assert (low < 0.1).all()
    assert (high > 0.1).all()
    assert (np.abs(kept / draws - 0.1) < 0.045).all()


def test_steps_are_kept_uniformly_over_people_and_pairs():
    # One key, many individuals: their choices are as good as independent. False alarms: 1e-9.
    people, size = 50_000, 6
    who, steps = np.repeat(np.arange(people), size), np.tile(np.arange(size), people)
    counts = capped_count(who, steps, size=size, participation_cap=2, step_cap=1, key=KEY)
    share, alpha = counts / people, 1e-9 / 12
    assert counts.sum() == 2 * people
    assert (beta.ppf(alpha, counts, people - counts + 1) < 1 / 3).all()
    assert (beta.ppf(1 - alpha, counts + 1, people - counts) > 1 / 3).all()
    assert np.abs(share - 1 / 3).max() < 0.02


@given(
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i8", ">u4"]),
    st.sampled_from(["i8", "i4", "u8", "i1"]),
    st.binary(max_size=200),
    st.binary(max_size=200),
    st.sampled_from([1, 2, 7, 2**15, 2**20]),
    st.integers(1, 5),
)
def test_any_rows_at_all(who_type, step_type, who, steps, size, cap):
    who = np.frombuffer(who[: len(who) // 8 * 8], dtype=who_type)
    steps = np.frombuffer(steps[: len(steps) // 8 * 8], dtype=step_type)
    rows = min(len(who), len(steps))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        caps = {"participation_cap": cap, "step_cap": 3}
        counts = capped_count(who[:rows], steps[:rows], size=size, key=KEY, **caps)
    pairs = list(zip(who[:rows].tolist(), steps[:rows].tolist(), strict=True))
    expected = oracle.capped_counts(pairs, size=size, key=KEY, **caps)
    assert counts.dtype == np.int64
    assert counts.tolist() == expected


def crowd(people=200, size=30, seed=3):
    """A log in which most individuals are over the caps."""
    random = np.random.default_rng(seed)
    who = random.integers(0, people, people * 20)
    steps = np.minimum(random.geometric(0.1, who.size) - 1, size - 1)
    return who * 2**40 + 5, steps  # wide enough that some routes must renumber


def engine(who, steps, size, caps):
    return capped_count(who, steps, size=size, key=KEY, **caps)


def of_rows(keeps):
    """Count rows one after the other, those that are kept."""

    def counter(who, steps, size, caps):
        counts, seen = np.zeros(size, np.int64), {}
        for person, step in zip(who.tolist(), steps.tolist(), strict=True):
            counts[step] += keeps(seen.setdefault(person, {}), step, caps)
        return counts

    return counter


def first_come(own, step, caps):
    if step not in own and len(own) == caps["participation_cap"]:
        return False
    own[step] = own.get(step, 0) + 1
    return own[step] <= caps["step_cap"]


def first_events(own, step, caps):
    own[0] = own.get(0, 0) + 1
    return own[0] <= caps["participation_cap"] * caps["step_cap"]


def by_position(who, steps, size, caps):
    random, counts = np.random.default_rng(1), np.zeros(size, np.int64)
    for person in np.unique(who):
        own, events = np.unique(steps[who == person], return_counts=True)
        chosen = random.permutation(own.size)[: caps["participation_cap"]]
        counts[own[chosen]] += np.minimum(events[chosen], caps["step_cap"])
    return counts


def in_32_bits(who, steps, size, caps):
    packed = (who.astype(np.int32) << np.int32(5)) | steps.astype(np.int32)
    return engine(packed >> 5, packed & 31, size, caps)


CAPS = {"participation_cap": 3, "step_cap": 2}
BROKEN = {
    "whoever's rows come first are kept": of_rows(first_come),
    "caps of events, not of steps and events in a step": of_rows(first_events),
    "the order of a hash of ranks, which others shift": lambda who, *rest: engine(
        np.unique(who, return_inverse=True)[1], *rest),
    "one stream of random numbers, dealt out in turn": by_position, "individuals who meet in 32 bits": in_32_bits,
}  # fmt: skip


def sound(counter, size=30):
    """Whether removing any one individual changes what their own rows give, within the caps, and no more."""
    who, steps = crowd(size=size)
    whole = counter(who, steps, size, CAPS)
    shuffled = np.random.default_rng(8).permutation(who.size)
    if (counter(who[shuffled], steps[shuffled], size, CAPS) != whole).any():
        return False
    for person in np.unique(who):
        mine = who == person
        change = whole - counter(who[~mine], steps[~mine], size, CAPS)
        alone = counter(who[mine], steps[mine], size, CAPS)
        if (change != alone).any() or np.count_nonzero(change) > 3 or change.max() > 2:
            return False
    return True


def test_removing_anyone_leaves_everyone_else_as_they_were():
    assert sound(engine)
    who, steps = crowd()
    rows = list(zip(who.tolist(), steps.tolist(), strict=True))
    assert engine(who, steps, 30, CAPS).tolist() == oracle.capped_counts(rows, size=30, key=KEY, **CAPS)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_variants_are_caught(broken):
    assert not sound(broken)


@pytest.mark.parametrize("hashed", ["all equal", "by step", "two values"])
def test_caps_hold_when_hashes_tie(monkeypatch, hashed):
    def order(people, lengths, steps, **_):
        values = {"all equal": np.zeros(steps.size), "by step": -steps, "two values": steps % 2}[hashed]
        return (values - values.min(initial=0)).astype(np.uint64)

    monkeypatch.setattr(module, "_order", order)
    assert sound(engine)
    # Ties go to the earlier step.
    expected = {"all equal": [1, 1, 0, 0], "by step": [0, 0, 1, 1], "two values": [1, 0, 1, 0]}[hashed]
    assert count([(1, step) for step in range(4)], 4, participation_cap=2) == expected


def test_a_full_chunk_has_room_for_its_individuals():
    # As many individuals over the cap as a chunk can hold, and one with many rows across its end.
    people = 2**16
    who = np.concatenate([np.repeat(np.arange(people), 2), np.full(1000, people - 1)])
    steps = np.concatenate([np.tile([0, 1], people), np.full(1000, 2)])
    counts = capped_count(who, steps, size=3, participation_cap=1, step_cap=1, key=KEY)
    assert counts.sum() == people


def test_wide_identifiers_that_products_cannot_tell_apart(monkeypatch):
    who, steps = crowd()
    whole = engine(who, steps, 30, CAPS)
    monkeypatch.setattr(module, "_PACKED_BITS", 40)
    numbered = engine(who, steps, 30, CAPS)  # by a product
    monkeypatch.setattr(module, "_PACKED_BITS", 12)  # 2^7 products for 200 people
    ranked = engine(who, steps, 30, CAPS)  # by rank
    assert (whole == numbered).all()
    assert (whole == ranked).all()


def test_another_key_keeps_other_steps():
    who, steps = crowd()
    others = [capped_count(who, steps, size=30, key=bytes([k]) * 16, **CAPS) for k in range(3)]
    assert (others[0] != others[1]).any()
    assert (others[1] != others[2]).any()
    assert others[0].sum() != 0


# A missing time never becomes an index.
def test_rows_off_the_grid_are_dropped():
    rows = [(1, -1), (2, 0), (3, 24), (4, 2**63 - 1), (5, -(2**63))]
    assert count(rows, 24, participation_cap=1) == [1] + [0] * 23


# The stability map is attained, for the caps that the engine enforces.
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    ("size", "cap", "step_cap", "individuals"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (3, 2, 2, 1), (4, 2, 1, 1), (3, 5, 1, 1), (3, 1, 2, 2), (4, 1, 1, 2), (3, 2, 1, 2)],
)
def test_the_stability_map_is_tight(size, cap, step_cap, individuals, replaced):
    l0, l1, squares, linf = oracle.largest_differences(size, cap, step_cap, individuals, replaced=replaced)
    caps = {"participation_cap": cap, "step_cap": step_cap, "size": size, "replaced": replaced}
    influence = count_influence(individuals, **caps)
    assert min(size, individuals * influence.l0) == l0
    assert l1 <= l1_of(influence) <= l1 * (1 + 1e-9)
    assert squares <= l2_of(influence) ** 2 <= squares * (1 + 1e-9)
    assert linf <= individuals * influence.linf <= linf * (1 + 1e-9)


def test_one_individual_reaches_what_theory_allows_and_nothing_else():
    size, caps = 3, {"participation_cap": 2, "step_cap": 2}
    reached = set()
    for events in itertools.product(range(4), repeat=size):
        steps = np.repeat(np.arange(size), events)
        for key in (KEY, bytes(16), b"another key, 16b"):
            reached.add(tuple(capped_count(steps * 0, steps, size=size, key=key, **caps).tolist()))
    assert reached == set(oracle.contributions(size, 2, 2))
