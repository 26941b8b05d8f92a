"""Filter stability: never below brute force over all supports and signs, and attained where claimed."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.design.kernels import Kernel, boxcar_kernel, exponential_kernel, gaussian_kernel, identity_kernel
from opendp_timeseries.koga2022.bounds import filter_constants
from tests.make import influence_of
from tests.oracles import filtering as oracle

DECREASING = [
    identity_kernel(5), gaussian_kernel(6, 1.0), gaussian_kernel(7, 1.3, resolution_bits=12),
    exponential_kernel(7, 2.0, resolution_bits=6), exponential_kernel(6, 1.5, resolution_bits=40),
    boxcar_kernel(6, 3), boxcar_kernel(7, 5, resolution_bits=8),
    Kernel.from_taps([4, 2, 1, 2], resolution_bits=0), Kernel.from_taps([3], resolution_bits=0),
    Kernel.from_taps([3, 1], resolution_bits=0), Kernel.from_taps([2, 2, 2], resolution_bits=0),
]  # fmt: skip
OTHER = [
    Kernel.from_taps([1, 0.5, 0, 0, 0, 0]),  # one-sided
    Kernel.from_taps([0.5, -0.25, 0, 0, 0, -0.25]),  # signed
    Kernel.from_taps([1, 0, 0.5, 0, 0.5, 0]),  # not monotone
    Kernel.from_taps([1, -1, 1, -1, 1, -1], resolution_bits=0),
    Kernel.from_taps([0.3, 0.1, -0.7, 0.2, 0.9, -0.4, 0.05]),
    Kernel.from_taps([1 - 2.0**-40, 0.1, -0.2, 1 / 3, 0.7], resolution_bits=40),
    Kernel.from_taps([-1, -2, -1], resolution_bits=0),
]


def numbers_only(influence):
    return Influence(l0=influence.l0, l2=influence.l2, linf=influence.linf)


def rational(kernel):
    return [Fraction(q, 2**kernel.resolution_bits) for q in kernel.numerators.tolist()]


def holds(influence, output):
    """Whether a difference after the filter is within the influence of one individual."""
    sums = oracle.top_sums(output)
    ok = sum(y != 0 for y in output) <= influence.l0
    ok &= sum(y * y for y in output) <= Fraction(influence.l2) ** 2
    ok &= sums[0] <= Fraction(influence.linf)
    if influence.majorant is not None:
        bound = oracle.top_sums(influence.majorant.values.tolist() + [0.0] * len(output))
        ok &= all(got <= most for got, most in zip(sums, bound, strict=False))
    return bool(ok)


def everything_within(influence, taps, steps):
    return all(holds(influence, oracle.convolve(v, taps)) for v in oracle.sign_vectors(len(taps), steps))


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(kernel, marks=[pytest.mark.long] * (k % 4 > 0)) for k, kernel in enumerate(DECREASING + OTHER)],
    ids=repr,
)
def test_no_support_and_no_signs_exceed_the_influence(kernel):
    taps = rational(kernel)
    for steps in range(1, kernel.size + 1):
        claimed = filtered_influence(influence_of(steps, kernel.size), kernel)
        assert everything_within(claimed, taps, steps)
        bare = filtered_influence(numbers_only(influence_of(steps, kernel.size)), kernel)
        assert everything_within(bare, taps, steps)


@pytest.mark.parametrize("kernel", DECREASING, ids=repr)
def test_contiguous_block_attains_the_majorant_exactly(kernel):
    taps, size = rational(kernel), kernel.size
    for steps in range(1, size + 1):
        block = [3 * int(t < steps) for t in range(size)]
        expected = sorted((y for y in oracle.convolve(block, taps) if y), reverse=True)
        claimed = filtered_influence(influence_of(steps, size, step_cap=3), kernel)
        assert [Fraction(a) for a in claimed.majorant.values.tolist()] == expected
        assert Fraction(claimed.linf) == expected[0]
        energy = sum(a * a for a in expected)
        assert energy <= Fraction(claimed.l2) ** 2 <= energy * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("kernel", DECREASING + OTHER, ids=repr)
def test_the_three_norms_are_those_of_the_theory_rounded_up_by_an_ulp(kernel):
    taps, size = rational(kernel), kernel.size
    one_signed = min(taps) >= 0 or max(taps) <= 0
    for steps in range(1, size + 1):
        got = filtered_influence(Influence(l0=steps, l2=math.sqrt(steps), linf=1.0), kernel)
        l2 = Fraction(math.sqrt(steps))
        top, squares = oracle.top_sums(taps), oracle.top_sums([h * h for h in taps])
        gain = oracle.gram_row_sum(taps, steps)
        if one_signed:
            gain = min(gain, top[-1] ** 2)
        linf2 = min(top[steps - 1] ** 2, l2**2 * squares[steps - 1])
        if one_signed or gain < Fraction(filter_constants(kernel).norm) ** 2:
            assert l2**2 * gain <= Fraction(got.l2) ** 2 <= l2**2 * gain * (1 + Fraction(1, 10**15))
        assert linf2 <= Fraction(got.linf) ** 2 <= linf2 * (1 + Fraction(1, 10**15))
        assert got.l0 == min(size, steps * sum(h != 0 for h in taps))
        assert got.majorant is None


@pytest.mark.parametrize("kernel", DECREASING[:5] + OTHER, ids=repr)
def test_euclidean_gain_against_every_principal_submatrix(kernel):
    size, taps = kernel.size, kernel.taps
    matrix = np.array([[taps[(i - j) % size] for j in range(size)] for i in range(size)])
    gram = matrix.T @ matrix
    for steps in range(1, size + 1):
        claimed = filtered_influence(Influence(l0=steps, l2=1.0, linf=1.0), kernel).l2
        worst = max(np.linalg.eigvalsh(gram[np.ix_(s, s)])[-1] for s in map(list, combinations(range(size), steps)))
        assert math.sqrt(worst) <= claimed * (1 + 1e-12)  # the eigenvalues' own error
    assert claimed <= filter_constants(kernel).norm * (1 + 1e-15)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "values", [[5, 1], [4, 2, 1], [3, 3, 0.5, 0.25], [0.1, 0.07, 0.03], [1, 0.9, 0.8, 0.7, 0.6, 0.5]]
)
@pytest.mark.parametrize(
    "kernel",
    [DECREASING[1], exponential_kernel(5, 2.0, resolution_bits=6), boxcar_kernel(6, 5, resolution_bits=40)],
    ids=repr,
)
def test_unequal_majorants_are_rearranged(kernel, values):
    taps, values = rational(kernel), values[: kernel.size]
    given_majorant = Majorant(np.array(values, dtype=float))
    influence = Influence(
        l0=len(values), l2=float(np.linalg.norm(values)) * 1.01, linf=float(values[0]), majorant=given_majorant
    )
    claimed = filtered_influence(influence, kernel)
    exact_values = [Fraction(v) for v in given_majorant.values.tolist()]
    # All signed placements are the vertices of what is majorised; signs only lower (h >= 0).
    assert all(holds(claimed, oracle.convolve(v, taps)) for v in oracle.placements(exact_values, kernel.size))
    expected = oracle.rearranged(exact_values, taps)
    coarse = Fraction(1, 2**26) if kernel.resolution_bits <= 26 else Fraction(1, 2**8)
    for got, exact in zip(claimed.majorant.values.tolist(), expected, strict=False):
        assert exact <= Fraction(got) <= exact + coarse * len(values)


@pytest.mark.parametrize(("taps", "steps"), [
    ([2, 0, 1, 0, 0, 0], 2),  # one-sided: steps 0 and 2 add up, neighbours do not
    ([1, 0, 1, 0, 1, 0], 2),  # not monotone
    ([2, -1, 0, 0, 0, -1], 2),  # signed: signs of the person can align the taps
])  # fmt: skip
def test_the_block_law_is_false_for_other_kernels(taps, steps):
    block = oracle.top_sums(oracle.convolve([int(t < steps) for t in range(6)], taps))
    beaten = [
        v
        for v in oracle.sign_vectors(6, steps)
        if any(a > b for a, b in zip(oracle.top_sums(oracle.convolve(v, taps)), block, strict=True))
    ]
    assert beaten
    assert filtered_influence(influence_of(steps, 6), Kernel.from_taps(taps, resolution_bits=0)).majorant is None


def test_two_filters_at_fine_grids_stay_valid():
    first = exponential_kernel(6, 1.0, resolution_bits=40)
    both = oracle.convolve(rational(first), rational(first))
    claimed = filtered_influence(filtered_influence(influence_of(2, 6), first), first)
    assert everything_within(claimed, both, 2)


def test_individuals_are_carried_through():
    kernel = gaussian_kernel(6, 1.0)
    one = filtered_influence(influence_of(2, 6), kernel)
    for individuals in (0, 1, 3, 10**9):
        many = filtered_influence(influence_of(2, 6, individuals=individuals), kernel)
        assert many.individuals == individuals
        assert (many.l0, many.l2, many.linf, many.majorant) == (one.l0, one.l2, one.linf, one.majorant)
    # Sums of two individuals are within twice the bound of one, and filtering both at once gains nothing.
    taps = rational(kernel)
    outputs = [oracle.convolve(v, taps) for v in oracle.block_vectors(6, 2)]
    for a, b in combinations(outputs, 2):
        assert holds(one, [(x + y) / 2 for x, y in zip(a, b, strict=True)])
    at_once = filtered_influence(influence_of(4, 6, step_cap=2), kernel)
    assert 2 * one.l2 <= at_once.l2
    assert 2 * one.linf <= at_once.linf


def test_figures_of_the_papers_filter():
    kernel = gaussian_kernel(1800, 10)
    assert filter_constants(kernel).row_energy == pytest.approx(0.0282095, abs=5e-8)
    assert filter_constants(kernel).stable_rank == pytest.approx(50.777, abs=5e-4)
    assert filter_constants(gaussian_kernel(10_000, 10)).stable_rank == pytest.approx(282.095, abs=5e-4)
    assert filter_constants(kernel).norm == 1.0
    exact = sum(h * h for h in rational(kernel))
    assert exact <= Fraction(filter_constants(kernel).row_energy) <= exact * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("size", [2, 3, 8, 31, 37, 60])
def test_spectral_norm_of_signed_taps(size):
    rng = np.random.default_rng(size)
    for bits in (3, 26, 40):
        kernel = Kernel.from_taps(rng.standard_normal(size), resolution_bits=bits)
        true = max(oracle.spectrum(rational(kernel)))
        found = filter_constants(kernel)
        assert true <= Fraction(found.norm) <= true * (1 + Fraction(1, 10**11))
        rank = size * sum(h * h for h in rational(kernel)) / true**2
        assert rank * (1 - Fraction(1, 10**15)) <= Fraction(found.stable_rank) <= rank * (1 + Fraction(1, 10**10))


@pytest.mark.parametrize("kernel", DECREASING + OTHER, ids=repr)
def test_plain_norms(kernel):
    l1, l2 = filter_constants(kernel).l1_norm, filter_constants(kernel).norm
    exact = sum(map(abs, rational(kernel)))
    assert exact <= Fraction(l1) <= exact * (1 + Fraction(1, 2**52))
    true = max(oracle.spectrum(rational(kernel)))
    assert true * (1 - Fraction(1, 10**45)) <= Fraction(l2) <= true * (1 + Fraction(1, 10**11))
    assert l2 <= l1 or l2 == pytest.approx(l1, rel=1e-15)


def test_zero_distance_stays_zero():
    nothing = Influence(l0=0, l2=0.0, linf=0.0, majorant=Majorant(np.zeros(0)))
    for kernel in (gaussian_kernel(6, 1.0), OTHER[4]):
        got = filtered_influence(nothing, kernel)
        assert (got.l0, got.l2, got.linf) == (0, 0.0, 0.0)


def test_unbounded_and_extreme_distances_stay_bounds():
    kernel = Kernel.from_taps([2, 1, 1], resolution_bits=0)
    unbounded = filtered_influence(Influence(l0=2, l2=math.inf, linf=math.inf), kernel)
    assert (unbounded.l2, unbounded.linf) == (math.inf, math.inf)
    half_known = filtered_influence(Influence(l0=2, l2=math.inf, linf=1.0), kernel)
    assert (half_known.l2, half_known.linf) == (math.inf, 3.0)
    # More steps than the cycle has, and a majorant longer than it: only T steps exist.
    long = filtered_influence(Influence(l0=9, l2=3.0, linf=1.0, majorant=Majorant(np.ones(9))), kernel)
    assert (long.l0, long.linf, long.majorant.values.tolist()) == (3, 4.0, [4.0, 4.0, 4.0])
    for scale in (5e-324, 1e-310, 1e-200, 1e200, 1.7e308):
        values = np.array([scale, scale / 3])
        given_influence = Influence(l0=2, l2=scale * 1.5, linf=scale, majorant=Majorant(values))
        got = filtered_influence(given_influence, kernel)
        exact = oracle.rearranged([Fraction(v) for v in values], [2, 1, 1])
        if got.majorant is not None:
            assert all(Fraction(g) >= e for g, e in zip(got.majorant.values.tolist(), exact, strict=True))
        assert math.isinf(got.linf) or Fraction(got.linf) >= exact[0]
        assert math.isinf(got.l2) or Fraction(got.l2) ** 2 >= sum(e * e for e in exact)


@given(
    q=st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=7).filter(any),
    bits=st.integers(0, 40),
    steps=st.integers(1, 7),
)
def test_large_taps_stay_within_bounds(q, bits, steps):
    kernel = Kernel(np.array(q), bits)
    steps = min(steps, kernel.size)
    claimed = filtered_influence(numbers_only(influence_of(steps, kernel.size)), kernel)
    assert everything_within(claimed, rational(kernel), steps)
    assert Fraction(claimed.l2) ** 2 <= Fraction(math.sqrt(steps)) ** 2 * Fraction(kernel.l1) ** 2 * (
        1 + Fraction(1, 10**14)
    )


@pytest.mark.long
def test_a_million_steps():
    kernel = gaussian_kernel(10**6, 1000)
    got = filtered_influence(influence_of(500, 10**6), kernel)
    assert got.l2**2 == pytest.approx(500**2 / (2 * math.sqrt(math.pi) * 1000), rel=0.02)
    assert filtered_influence(influence_of(500, 10**6, individuals=2), kernel).majorant is got.majorant  # cached


# Broken variants of the map: each is a mistake that can be made, and each is caught by `everything_within`.


def spread_steps(influence, kernel):
    steps, size = influence.l0, kernel.size
    spread = [int(t % (size // steps) == 0 and t // (size // steps) < steps) for t in range(size)]
    return sorted((float(y) for y in oracle.convolve(spread, rational(kernel))), reverse=True)


#: What each says in place of the map's.
BROKEN = {
    "energy of one step alone, as if steps did not overlap": lambda given, kernel: {
        "l2": given.l2 * float(np.sum(kernel.taps**2)) ** 0.5},
    "largest tap alone": lambda given, kernel: {"linf": given.linf * float(np.abs(kernel.taps).max())},
    "steps do not spread": lambda given, kernel: {"l0": given.l0},
    "majorant of one step": lambda given, kernel: {"majorant": Majorant(-np.sort(-np.abs(kernel.taps)))},
    "the filter does not change the majorant": lambda given, kernel: {"majorant": given.majorant},
    "spread steps are the worst": lambda given, kernel: {"majorant": Majorant(np.array(spread_steps(given, kernel)))},
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_caught(name):
    kernel, influence = Kernel.from_taps([4, 2, 1, 0, 1, 2], resolution_bits=0), influence_of(3, 6)
    right = filtered_influence(influence, kernel)
    assert everything_within(right, rational(kernel), 3)
    assert not everything_within(replace(right, l1=math.inf, **BROKEN[name](influence, kernel)), rational(kernel), 3)


def test_a_majorant_laid_out_in_descending_order_is_caught():
    # a = (3, 2, 1) must go 1, 3, 2 round the middle; laid out 3, 2, 1 the largest has a poor neighbour.
    taps = [4, 2, 1, 0, 1, 2]
    worst, wrong = oracle.rearranged([3, 2, 1], taps), oracle.convolve([3, 2, 1, 0, 0, 0], taps)
    assert oracle.top_sums(worst)[0] > oracle.top_sums(wrong)[0]
