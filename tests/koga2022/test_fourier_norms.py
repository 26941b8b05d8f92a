"""Stability of Fourier coefficients: against every support and sign pattern of small signals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.koga2022 import fourier
from tests.make import influence_of
from tests.oracles import fourier as oracle
from tests.oracles import separated

SIZES = [(1, 1), (2, 1), (5, 1), (5, 2), (5, 3), (6, 2), (8, 4), (9, 2)]


def influence_l1(influence, size, frequencies, **options):
    return fourier.l1_from_l2(fourier.influence_l2(influence, size, frequencies, **options), frequencies)


def matrix(size, frequencies):
    return np.array(oracle.basis(size, frequencies), dtype=np.float64)


def worst(size, frequencies, steps):
    """Largest ℓ2 and ℓ1 movement by a person in `steps` steps: 0/1 entries with signs, and unit vectors."""
    f = matrix(size, frequencies)
    flat_l2 = flat_l1 = unit_l2 = 0.0
    for support in itertools.combinations(range(size), steps):
        columns = f[:, support]
        for signs in itertools.product((1.0, -1.0), repeat=steps - 1):
            moved = columns @ np.array((1.0, *signs))
            flat_l2, flat_l1 = max(flat_l2, np.linalg.norm(moved)), max(flat_l1, np.abs(moved).sum())
        unit_l2 = max(unit_l2, np.linalg.norm(columns, 2))
    return flat_l2, flat_l1, unit_l2


@pytest.mark.parametrize(("size", "frequencies"), SIZES)
def test_bounds_hold_for_every_support_and_sign(size, frequencies):
    for steps in range(1, size + 1):
        flat_l2, flat_l1, unit_l2 = worst(size, frequencies, steps)
        counts = Influence(l0=steps, l2=math.sqrt(steps), linf=1.0)
        assert flat_l2 <= fourier.influence_l2(counts, size, frequencies) * (1 + 1e-12)
        assert flat_l1 <= influence_l1(counts, size, frequencies) * (1 + 1e-12)
        norm = fourier.influence_l2(Influence(l0=steps, l2=1.0, linf=1.0), size, frequencies)
        assert unit_l2 <= norm * (1 + 1e-12)


@pytest.mark.parametrize(("size", "frequencies"), [(6, 1), (8, 2), (9, 2), (9, 4), (10, 3)])
def test_bounds_hold_for_all_steps_that_lie_apart(size, frequencies):
    f = matrix(size, frequencies)
    for gap, replaced in itertools.product((2, 3, 4), (False, True)):
        for cap in range(1, size // gap + 1):
            rows = separated.indicators(size, gap, cap)
            rows = separated.differences(rows) if replaced else separated.signed(size, gap, cap)
            moved = rows @ f.T
            counts = influence_of(cap, size, replaced=replaced, gap=gap)
            assert np.linalg.norm(moved, axis=1).max() <= fourier.influence_l2(counts, size, frequencies) * (1 + 1e-12)
            assert np.abs(moved).sum(axis=1).max() <= influence_l1(counts, size, frequencies) * (1 + 1e-12)


def test_a_gap_lowers_what_a_few_frequencies_cost():
    close, apart = (fourier.influence_l2(influence_of(180, 1800, gap=gap), 1800, 10) for gap in (1, 10))
    # A full comb moves the constant alone, by √(180²/1800): what the bound must not be below.
    assert math.sqrt(18) <= apart < 0.6 * close


@pytest.mark.parametrize(("size", "frequencies"), SIZES)
def test_bounds_are_attained_at_both_ends(size, frequencies):
    n = 2 * frequencies - 1
    one = Influence(l0=1, l2=1.0, linf=1.0)
    truth = math.sqrt(n / size)
    assert truth <= fourier.influence_l2(one, size, frequencies) <= truth * (1 + 1e-13)
    everywhere = Influence(l0=size, l2=math.sqrt(size), linf=1.0)
    assert math.sqrt(size) <= fourier.influence_l2(everywhere, size, frequencies) * (1 + 1e-15)
    assert fourier.influence_l2(everywhere, size, frequencies) <= math.sqrt(size) * (1 + 1e-13)


def test_a_contiguous_person_is_bounded_closely():
    # PeMS, 20 frequencies, 5 steps in a row: within 2% of the bound, and a third of the whole norm √5.
    size, frequencies = 1800, 20
    block = np.zeros(size)
    block[:5] = 1.0
    spectrum = np.fft.rfft(block, norm="ortho")[:frequencies]
    moved = math.sqrt(abs(spectrum[0]) ** 2 + 2 * np.sum(np.abs(spectrum[1:]) ** 2))
    bound = fourier.influence_l2(Influence(l0=5, l2=math.sqrt(5), linf=1.0), size, frequencies)
    assert moved <= bound <= 1.02 * moved
    assert bound < 0.34 * math.sqrt(5)


def test_row_sums_are_at_least_the_exact_ones():
    for size, n in ((7, 3), (8, 5), (1800, 39), (1801, 39)):
        f = matrix(size, (n + 1) // 2) if size < 10 else None
        if f is None:
            d = np.arange(1, size)
            exact = np.abs(np.sin(np.pi * n * d / size) / np.sin(np.pi * d / size)) / size
            row = np.concatenate([[n / size], exact])
        else:
            row = np.abs(f.T @ f)[0]
        exact = np.minimum(1.0, np.cumsum(np.sort(row)[::-1]))
        got = fourier._row_sums(size, n)
        assert np.all(exact <= got * (1 + 1e-11))
        assert np.all(got <= exact * (1 + 1e-9))


BROKEN = {
    "the first in a row": lambda row, s: row[:s].sum(),
    "one less": lambda row, s: np.sort(np.abs(row))[::-1][: s - 1].sum(),
    "the share of time": lambda row, s: s * row[0] / 2,
}


@pytest.mark.parametrize("variant", BROKEN.values(), ids=BROKEN)
def test_broken_row_sums_are_below_some_person(variant):
    caught = False
    for size, frequencies in SIZES:
        f = matrix(size, frequencies)
        for steps in range(1, size + 1):
            caught |= worst(size, frequencies, steps)[2] ** 2 > variant((f.T @ f)[0], steps) * (1 + 1e-9)
    assert caught


def test_individuals_add_up_and_zero_costs_nothing():
    one = Influence(l0=5, l2=math.sqrt(5), linf=1.0)
    three = Influence(l0=5, l2=math.sqrt(5), linf=1.0, individuals=3)
    single = fourier.influence_l2(one, 100, 4)
    assert fourier.influence_l2(three, 100, 4) == pytest.approx(3 * single, rel=1e-15)
    for nobody in (Influence(l0=5, l2=1.0, linf=1.0, individuals=0), Influence(l0=0, l2=0.0, linf=0.0)):
        assert fourier.influence_l2(nobody, 100, 4, entry_error=0.1) == 0.0
        assert influence_l1(nobody, 100, 4, entry_error=0.1) == 0.0


def test_entry_error_is_charged_for_the_whole_l1_norm():
    five = Influence(l0=5, l2=math.sqrt(5), linf=1.0)
    ideal = fourier.influence_l2(five, 100, 4)
    charged = fourier.influence_l2(five, 100, 4, entry_error=1e-3)
    assert charged == pytest.approx(ideal + math.sqrt(7) * 5e-3, rel=1e-14)
    assert influence_l1(five, 100, 4, entry_error=1e-3) == pytest.approx(math.sqrt(7) * charged, rel=1e-14)
