"""Laws from above: against exact binomials and enumeration, and the variants that are not from above."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_timeseries.accounting import laws
from tests.oracles import accounting as oracle

probabilities = st.sampled_from([1e-6, 0.1, 0.5, 0.9, 1 - 2.0**-53, 1.0])


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.3), (7, 1.0), (60, 0.1), (180, 1e-9), (1000, 0.02), (10**4, 0.5), (10**6, 0.1), (10**7, 1e-5)]
)
def test_binomial_is_just_above_the_truth(n, p):
    law = laws.binomial(n, p)
    deviation = np.sqrt(n * p * (1 - p))
    asked = {law.first, int(n * p), min(n, int(n * p + 5 * deviation)), min(n, int(n * p + 20 * deviation))}
    for k in sorted(asked):
        truth = mp.binomial(n, k) * mp.mpf(p) ** k * (1 - mp.mpf(p)) ** (n - k)
        got = law.mass[k - law.first]
        # What lies below the first atom is moved to it, so there only the lower side is checked.
        assert truth <= got + 1e-320, (k, got)
        assert k == law.first > 0 or got <= truth * (1 + mp.mpf(2e-11 if n <= 10**6 else 2e-9)) + 1e-320
    assert np.sum(law.mass) + law.cut == pytest.approx(1, abs=1e-10 if n <= 10**6 else 2e-9)


# The cases of SciPy's inverse tail that went wrong (scipy/scipy#22622 and others), and a tie.
@pytest.mark.parametrize(
    ("k", "n", "p"), [(20, 100, 0.01), (17, 100, 0.01), (19, 50, 0.02), (15, 10**4, 4e-5), (9, 10, 0.5), (0, 50, 1e-3)]
)
def test_tail_is_just_above_the_truth(k, n, p):
    truth = oracle.binomial_tail(k, n, p)
    assert truth <= laws.binomial_tail(k, n, p) <= truth * (1 + mp.mpf(2e-11))


@pytest.mark.parametrize(("k", "n", "p"), [
    (2324, 2363, 0.7400479065272407),  # SciPy says 0, the truth is 1e-243
    (5541, 5578, 0.8628164142430621),
    (426, 449, 0.1805),
    (885_235_497 - 1, 1_771_462_432, 0.5),
    (300, 301, 1e-3),
])  # fmt: skip
def test_far_tails_and_masses_are_above_the_truth(k, n, p):
    with mp.workdps(60):
        x = mp.mpf(p)
        mass = mp.binomial(n, k + 1) * x ** (k + 1) * (1 - x) ** (n - k - 1)
        ratio = mp.mpf(n - k - 1) / (k + 2) * x / (1 - x)  # later terms fall at least as fast
        least = mass * (1 + ratio / 2) if n - k > 2 else mass
    if k > n * p:
        assert laws.binomial_tail(k, n, p) >= min(mass, least)
        assert mass == 0 or laws.binomial_tail(k, n, p) <= max(mass / (1 - ratio) * 1e6, 1e-299)
    law = laws.binomial(n, p) if n < 10**5 else None
    if law is not None and 0 <= k + 1 - law.first < len(law.mass):
        assert law.mass[k + 1 - law.first] >= (mass if mass > 1e-305 else 0)


@pytest.mark.parametrize(
    ("k", "n", "p"),
    [(4_769_474, 10**7, 0.48162348645760766), (1_548_752, 5_220_177, 0.3), (4_942_333, 9_723_935, 0.5040276800458997)],
)
def test_masses_far_out_at_large_n_are_above_the_truth(k, n, p):
    # SciPy is low by 1e-11 to 2e-11 here.
    with mp.workdps(60):
        x = mp.mpf(p)
        truth = mp.exp(
            mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(x) + (n - k) * mp.log(1 - x)
        )
    law = laws.binomial(n, p)
    assert truth <= law.mass[k - law.first] <= truth * (1 + mp.mpf(2e-9))


def test_tail_is_zero_only_where_it_is_impossible():
    assert laws.binomial_tail(10, 10, 0.5) == 0
    assert laws.binomial_tail(999, 1000, 1e-3) > 0, "the truth is 1e-3000"


# --- the sum of what is kept of given squares ---


def hinge_excess(law, squares, p):
    """Largest of ``E(S−c)₊ / truth`` and least, over all ``c`` where it can change, and at ``c = 0``."""
    truth = [(float(s), w) for s, w in oracle.kept_law(squares, p)]
    at = sorted({0.0, *(s for s, _ in truth)})[:-1]
    ratios = []
    for c in at:
        exact = mp.fsum(w * (mp.mpf(s) - c) for s, w in truth if s > c)
        got = mp.fsum(mp.mpf(w) * (mp.mpf(v) - c) for v, w in zip(*law, strict=True) if v > c)
        ratios.append(got / exact)
    return min(ratios), max(ratios)


def dominates(make, squares, p):
    """Whether a law is from above: hinges generate the convex increasing functions."""
    low, _ = hinge_excess(make(np.array(squares), p), squares, p)
    return low >= 1 - 1e-12  # the truth here is summed from floats


SQUARES = [
    [1.0], [1.0, 1.0, 1.0, 1.0], [4.0, 1.0, 0.3, 0.3, 0.3, 1e-9], [1.0, 0.999, 0.5, 0.2501, 0.0333],
    [3e-11, 2.9e-11, 2.0e-11, 1.7e-11, 1e-11, 7e-12, 3e-12, 1e-12], [0.7**j for j in range(6)],
]  # fmt: skip


@pytest.mark.thinned(4)
@pytest.mark.parametrize("squares", SQUARES)
@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 1.0])
def test_kept_sum_is_from_above_and_close(squares, p):
    law = laws.kept_sum(np.array(squares), p)
    assert dominates(laws.kept_sum, squares, p)
    assert np.all(np.diff(law.values) > 0)
    assert np.sum(law.weights * law.values) <= sum(squares) * p + squares[0] * 2.0**-14 * p * (1 + 1e-6)


@pytest.mark.long
@settings(derandomize=True)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=7), probabilities, st.sampled_from([8, 4096]))
def test_kept_sum_is_from_above_at_random(squares, p, points):
    # Few points, so that splitting onto neighbours is exercised.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laws, "MAX_POINTS", points)
        assert dominates(laws.kept_sum, sorted(squares, reverse=True), p)


def merge_down(x):
    mass = np.pad(x.mass, (x.first % 2, 0))
    mass = np.pad(mass, (0, len(mass) % 2))
    return laws.Lattice(2 * x.step, x.first // 2, mass[::2] + mass[1::2], x.cut)


def merge_upper_half_down(x):
    """Splits, but onto the wrong neighbours in unequal parts: the mean falls."""
    split, merged = COARSEN(laws.Lattice(x.step, x.first, x.mass, x.cut)), merge_down(x)
    mass = split.mass.copy()
    mass[: len(merged.mass)] = (mass[: len(merged.mass)] + merged.mass) / 2
    return split._replace(mass=mass)


def levels(values, squares, bits):
    return np.floor(values / squares[0] * 2.0**bits).astype(np.int64)


COARSEN = laws._coarsen
BROKEN = {
    "each rounded down": ("_lattice_levels", lambda s, bits: levels(s, s, bits)),
    "sums rounded down": ("_lattice_levels", lambda s, bits: np.diff(levels(np.cumsum(s), s, bits), prepend=0)),
    "merged down": ("_coarsen", merge_down), "half merged down": ("_coarsen", merge_upper_half_down),
}  # fmt: skip


@pytest.mark.parametrize(("name", "broken"), BROKEN.values(), ids=BROKEN)
def test_broken_variants_are_not_from_above(monkeypatch, name, broken):
    monkeypatch.setattr(laws, "MAX_POINTS", 16)
    squares = SQUARES[3]
    assert dominates(laws.kept_sum, squares, 0.3)
    monkeypatch.setattr(laws, name, broken)
    assert not dominates(laws.kept_sum, squares, 0.3)


def test_cut_mass_is_kept_at_the_top(monkeypatch):
    monkeypatch.setattr(laws, "_CUT", 1e-3)
    squares = [1.0] * 8
    assert dominates(laws.kept_sum, squares, 0.2)
    monkeypatch.setattr(laws, "_LATTICE_MARGIN", 1.0)
    law = laws.kept_sum(np.array(squares), 0.2)
    assert not dominates(lambda *_: laws.Law(law.values[:-1], law.weights[:-1]), squares, 0.2)


@pytest.mark.parametrize(("squares", "p"), [([1.0] * 40, 0.5), ([1.0] * 20 + [0.3] * 20, 0.5), ([1.0, 0.4, 0.3], 0.3)])
def test_no_mass_is_lost_where_tails_are_cut(monkeypatch, squares, p):
    # At the usual cut of 1e-60 a tail that is forgotten would be covered by the margin of the weights.
    monkeypatch.setattr(laws, "_CUT", 1e-2)
    law = laws.kept_sum(np.array(squares), p)
    assert np.sum(law.weights) >= 1
    assert dominates(laws.kept_sum, squares[:10], p)


def test_the_largest_value_of_a_kept_sum_is_not_below_the_sum():
    # With p = 1 the law is one point, and it must not be lower by as much as an ulp.
    for square in np.random.default_rng(0).uniform(0.5, 1, 50):
        for count in (1, 3, 7):
            law = laws.kept_sum(np.full(count, square), 1.0)
            assert law.values[-1] >= Fraction(square) * count


def test_what_lies_beyond_the_window_is_at_the_largest_value():
    n, step, rest = 10**4, Fraction(1), Fraction(1, 2)
    law = laws.vertex_sum(n, step, rest, 0.01)
    assert laws.binomial(n, 0.01).cut > 0
    assert law.values[-1] == n * step + rest


def test_vertex_sum():
    n, m, r, p = 5, Fraction(1, 3), Fraction(1, 7), 0.3
    law = laws.vertex_sum(n, m, r, p)
    assert dominates(lambda *_: law, [1 / 3] * 5 + [1 / 7], p)
    _, high = hinge_excess(law, [1 / 3] * 5 + [1 / 7], p)
    assert high <= 1 + 1e-9
    assert np.all(np.diff(law.values) >= 0)


def test_multiples_are_exact_where_they_can_be():
    counts = np.arange(1001)
    np.testing.assert_array_equal(laws.multiples(Fraction(9, 4), counts), 2.25 * counts)
    for denominator in (3, 7, 10, 49):
        step = Fraction(1, denominator)
        got = laws.multiples(step, counts)
        assert all(Fraction(v) >= step * int(k) for v, k in zip(got, counts, strict=True))
        assert np.all(got <= counts / denominator * (1 + 1e-15))
    # A product of floats may be rounded below.
    for step in map(Fraction, np.random.default_rng(0).uniform(0.5, 1, 20)):
        got = laws.multiples(step, counts)
        assert all(Fraction(v) >= step * int(k) for v, k in zip(got, counts, strict=True))


def test_scaled_is_never_below_and_exact_where_it_can_be():
    values = np.array([0.0, 1.0, 3.0, 10.0])
    np.testing.assert_array_equal(laws.scaled(values, 9.0), 9 * values)
    thirds = np.arange(100) / 3
    for factor in (1.0, 49.0, 1e12, 1e300):
        got = laws.scaled(thirds, factor)
        assert all(Fraction(g) >= Fraction(v) * Fraction(factor) for g, v in zip(got, thirds, strict=True))
    assert laws.scaled(np.array([0.0, 1e300]), 1e100).tolist() == [0.0, np.inf]
