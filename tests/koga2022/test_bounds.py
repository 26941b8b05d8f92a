"""The paper's own bounds: golden values, 60-digit values, enumeration, and the statements that are false."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_timeseries.koga2022 import bounds as paper
from opendp_timeseries.koga2022.bounds import FilterConstants, SensitivityBound
from tests.oracles import paper as oracle
from tests.refused import refuses

GOLDEN = Path(__file__).parents[1] / "data" / "golden.json"
#: The paper's Gaussian filter on the PeMS grid: T = 1800, σ_g = 10.
SMOOTH = FilterConstants(row_energy=0.028209479177387822, stable_rank=50.77706251929808)
CLOSE = 1e-9


def golden(kind):
    return [(case["args"], case) for case in json.loads(GOLDEN.read_text())["paper"][kind]]


def just_above(got, truth, close=CLOSE):
    truth = mp.mpf(truth)
    assert truth <= got <= truth * (1 + close) + mp.mpf(1e-300), (got, truth)


# --- Theorem 2, Corollary 1, Theorem 4 ---


@given(st.integers(1, 60), st.integers(0, 70), st.floats(0, 1))
@settings(derandomize=True)
def test_theorem2_is_the_binomial_tail(cap, kept, p):
    just_above(paper.theorem2(kept, cap, p), oracle.tail(kept, cap, p))


def test_far_tails_never_vanish():
    # SciPy's inverse returns n here, and one minus its distribution function returns 0.
    assert paper.theorem2(20, 100, 0.01) >= 9.57665559322e-22
    assert 0 < paper.theorem2(999, 1000, 1e-9) <= 1e-300
    assert paper.theorem2(1000, 1000, 0.5) == 0.0
    assert paper.theorem2(0, 5, 0.0) == 0.0


def test_corollary1_golden_and_never_below_the_truth():
    for (cap, p, failure), case in golden("cor1"):
        just_above(paper.corollary1(failure, cap, p), case["value"])
    for cap, p, failure in itertools.product((1, 10, 180), (0.0, 0.1, 1.0), (1e-9, 0.1)):
        got = paper.corollary1(failure, cap, p)
        just_above(got, oracle.hoeffding(failure, cap, p))
        assert paper.theorem2(math.floor(got), cap, p) <= failure  # what the corollary says


@given(st.floats(0.05, 1), st.floats(0.01, 1), st.floats(1e-4, 1), st.floats(1, 1e4), st.integers(1, 500))
@settings(derandomize=True)
def test_chernoff_bounds_are_rounded_up_and_ordered(alpha, p, energy, rank, cap):
    constants = FilterConstants(row_energy=energy, stable_rank=rank)
    whole = paper.theorem4(alpha, p, constants)
    sharper = paper.theorem4_sharper(alpha, p, constants)
    pair = paper.fixed_pair(alpha, cap, p, constants)
    if alpha * alpha <= p:
        assert whole == sharper == pair == 1.0
        return
    just_above(whole, min(1, oracle.theorem4(alpha, p, energy, rank, 1)))
    # At x just above 1 the sharper form is a quotient of two small numbers, and its margin is wider.
    x = alpha * alpha / p
    near = CLOSE + 1e-13 * x / (x - 1)
    just_above(sharper, min(1, oracle.theorem4_sharper(alpha, p, energy, rank, 1)), near)
    just_above(pair, min(1, oracle.fixed_pair(alpha, cap, p, energy, 1, 1)))
    assert pair <= whole
    assert sharper <= whole


def test_below_its_domain_the_printed_formula_would_be_false():
    # The mean of 8 steps has L = 1/8, stable rank 1, and σ_max²(B) = |J|/8. At p = .9, α² = .27 (x = .3) the
    # formula says .17, where more than two of eight steps are kept almost surely.
    alpha = math.sqrt(0.27)
    truth = oracle.probability_of([1 / 8] * 8, 0.9, lambda b: np.linalg.norm(b, 2) ** 2 >= alpha**2)
    assert oracle.theorem4(alpha, 0.9, 1 / 8, 1, 1) < 0.18 < 0.999 < truth
    assert paper.theorem4(alpha, 0.9, FilterConstants(row_energy=1 / 8, stable_rank=1)) == 1.0


KERNELS = {
    "identity": [1.0, 0, 0, 0, 0, 0, 0],
    "narrow": [0.5, 0.25, 0, 0, 0, 0, 0.25],
    "mean": [1 / 8] * 8,
    "signed": [0.5, -0.25, 0, 0, 0, -0.25],
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_tails_bound_what_is_counted_over_all_samples(name, p):
    taps = np.array(KERNELS[name])
    norm = float(np.abs(np.fft.fft(taps)).max())
    energy = float(np.sum(taps**2))
    constants = FilterConstants(
        row_energy=energy, stable_rank=len(taps) * energy / norm**2, norm=norm, l1_norm=float(np.abs(taps).sum())
    )
    for alpha in (0.4, 0.6, 0.8, 0.95):
        singular = oracle.probability_of(taps, p, lambda b, a=alpha: np.linalg.norm(b, 2) ** 2 >= a**2 * (1 + 1e-12))
        assert singular <= paper.theorem4_sharper(alpha, p, constants) <= paper.theorem4(alpha, p, constants)
        for support in ([0], [0, 1], [0, 2], [0, 1, 2]):
            individual = np.zeros(len(taps))
            individual[support] = 1.0
            energetic = oracle.probability_of(
                taps, p, lambda b, a=alpha, d=individual: np.sum((b @ d) ** 2) > a**2 * np.sum(d) * (1 + 1e-12)
            )
            assert energetic <= paper.fixed_pair(alpha, len(support), p, constants)


def test_least_alpha_is_the_papers():
    for tail in ("theorem 4", "sharper", "fixed pair"):
        alpha = paper.least_alpha(6.3629e-5, 180, 0.1, SMOOTH, tail)
        assert paper.with_filter(alpha, 180, 0.1, SMOOTH, tail).failure <= 6.3629e-5
        assert paper.with_filter(alpha * (1 - 1e-9), 180, 0.1, SMOOTH, tail).failure > 6.3629e-5
    assert paper.least_alpha(6.362902492907669e-5, 180, 0.1, SMOOTH) == pytest.approx(0.7063140575499002, rel=1e-9)
    assert paper.least_alpha(1e-9, 180, 0.9, SMOOTH) == 1.0  # nothing below 1 is proved


# --- Corollaries 2 and 3, Proposition 1 ---


def test_corollary2_golden():
    for (epsilon, share, failure, alpha, cap), case in golden("cor2"):
        bound = SensitivityBound(alpha**2 * cap * (1 - 1e-15), cap, failure)
        just_above(paper._classical(epsilon, share, bound.usual), case["sigma"])
        if case["check_passes"]:
            just_above(bound.delta(epsilon, share), case["delta_total"])
        else:
            refuses("classical Gaussian theorem fails", bound.delta, epsilon, share)


def test_proposition1_golden():
    for (epsilon, share, cap, kept, p, true_cap), case in golden("prop1"):
        got = paper.proposition1(epsilon, share, paper.without_filter(kept, cap, p), true_cap, p)
        just_above(got[0], case["eps_out"])
        just_above(got[1], case["delta_total"])


def test_proposition1_with_a_filter_keeps_the_failure_probability():
    claimed = paper.with_filter(0.7, 180, 0.1, SMOOTH)
    epsilon, delta = paper.proposition1(0.3, 5e-5, claimed, 180)
    assert epsilon == pytest.approx(0.3, rel=1e-14)
    assert delta == pytest.approx(claimed.delta(0.3, 5e-5), rel=1e-12)
    epsilon, delta = paper.proposition1(0.3, 5e-5, claimed, 270)
    just_above(epsilon, mp.mpf(0.3) * mp.sqrt(1.5))
    just_above(delta, oracle.corollary(epsilon, 5e-5, claimed.failure, claimed.usual, claimed.worst))


@given(st.floats(0.05, 1), st.floats(1e-9, 1e-2), st.floats(0, 1e-2), st.integers(1, 300), st.floats(0.05, 1))
@settings(derandomize=True)
def test_corollaries_are_rounded_up(epsilon, share, failure, worst, fraction):
    bound = SensitivityBound(worst * fraction, worst, failure)
    if bound._proved(epsilon, share):
        truth = oracle.corollary(epsilon, share, failure, bound.usual, worst)
        just_above(bound.delta(epsilon, share), min(1, truth))
    just_above(paper._classical(epsilon, share, bound.usual), oracle.classical_scale(epsilon, share, bound.usual))


@pytest.mark.parametrize(("cap", "kept", "p"), [(1, 1, 1.0), (10, 3, 0.25), (20, 10, 0.2), (40, 12, 0.1)])
def test_no_claim_is_below_the_exact_profile(cap, kept, p):
    bound = paper.without_filter(kept, cap, p)
    for epsilon, share in itertools.product((0.1, 0.5, 0.9), (1e-2, 1e-5)):
        scale = paper._classical(epsilon, share, bound.usual)
        if bound._proved(epsilon, share):
            assert oracle.exact_profile(epsilon, scale, cap, p) <= bound.delta(epsilon, share) * (1 + 1e-12)


def test_corollary3_as_printed_is_false():
    # I = 1, α = .1, p = 1: I′ = ⌈α²I⌉ = 1, so δ′ = P(Bin(1, 1) > 1) = 0 and the printed claim is (.9, 1e-9).
    # But the printed noise, for a sensitivity α√I = .1, has to hide a sensitivity of 1.
    epsilon, share, alpha = 0.9, 1e-9, 0.1
    kept = paper.kept_steps(alpha, 1)
    assert (kept, paper.theorem2(kept, 1, 1.0)) == (1, 0.0)
    printed_noise = oracle.classical_scale(epsilon, share, alpha**2)
    truth = oracle.exact_profile(epsilon, printed_noise, 1, 1.0)
    assert mp.almosteq(truth, mp.mpf("0.298"), abs_eps=5e-4)
    # With the noise of √I′ the claim is true, and our function never asks for less.
    bound = paper.without_filter(kept, 1, 1.0)
    needed = bound.least_scale(epsilon, share)
    assert needed >= 9.99 * printed_noise
    assert oracle.exact_profile(epsilon, needed, 1, 1.0) <= share


def test_proposition1_with_the_old_tail_is_false():
    # I = 2, I′ = 1, p = .1 with a true cap cI = 3: the event is |J ∩ j_i| > cI′ = 1.5 among three steps, more
    # likely than the P(Bin(2, .1) > 1) that the printed proof keeps.
    kept_tail = paper.theorem2(1, 2, 0.1)
    recomputed = paper.theorem2(1, 3, 0.1)
    assert kept_tail < 0.0101 < 0.027 < recomputed
    claimed = paper.without_filter(1, 2, 0.1)
    epsilon, delta = paper.proposition1(0.5, 1e-3, claimed, 3, 0.1)
    just_above(delta, oracle.corollary(epsilon, 1e-3, oracle.tail(1, 3, 0.1), 1.5, 3))


def test_classical_theorem_is_checked_not_trusted():
    assert paper.classical_holds(0.5, 1e-4)
    assert not paper.classical_holds(8.0, 1e-4)
    truth = oracle.gaussian_profile(8, 1 / oracle.classical_scale(8, 1e-4, 1))
    assert truth > 1e-4
    refuses("the classical theorem", paper.classical_scale, 8.0, 1e-4, 1.0)


# --- The figures of Table 2's setting: (0.5, 1e-4), p = 0.1 ---


@pytest.mark.parametrize(
    ("cap", "classical", "analytic", "without", "kept"),
    [(180, 116.5513, 79.0735, 52.944, 36), (73, 74.2237, 50.3565, 38.377, 19), (213, 126.7859, 86.0170, 56.374, 41)],
)
def test_noise_of_each_method(cap, classical, analytic, without, kept):
    assert paper.classical_scale(0.5, 1e-4, cap) == pytest.approx(classical, abs=5e-5)
    scale = paper.analytic_scale(0.5, 1e-4, cap)
    assert scale == pytest.approx(analytic, abs=5e-5)
    assert oracle.gaussian_profile(0.5, mp.sqrt(cap) / mp.mpf(scale)) <= 1e-4
    assert oracle.gaussian_profile(0.5, mp.sqrt(cap) / mp.mpf(scale * (1 - 1e-9))) > 1e-4
    choice = paper.least_scale_without_filter(0.5, 1e-4, cap, 0.1)
    assert choice.scale == pytest.approx(without, abs=5e-4)
    assert choice.bound.usual == kept
    # Stopping the search early loses nothing.
    every = [paper.without_filter(k, cap, 0.1).least_scale(0.5, 1e-4) for k in range(1, cap + 1)]
    assert choice.scale == min(every)


def test_noise_with_the_papers_filter():
    choice = paper.least_scale_with_filter(0.5, 1e-4, 180, 0.1, SMOOTH)
    assert choice.scale == pytest.approx(83.524, abs=5e-4)
    assert choice.bound.alpha == pytest.approx(0.70631, abs=2e-5)
    # Theorem 4 needs no participation assumption: with T for I the same α, and √10 times the noise.
    everywhere = paper.least_scale_with_filter(0.5, 1e-4, 1800, 0.1, SMOOTH)
    assert everywhere.scale == pytest.approx(choice.scale * math.sqrt(10), rel=1e-6)


def test_each_step_away_from_the_printed_form_needs_less_noise():
    def needed(tail):
        return paper.least_scale_with_filter(0.5, 1e-4, 180, 0.1, SMOOTH, tail).scale

    assert needed("theorem 4") > needed("sharper") > needed("fixed pair")
    choice = paper.least_scale_without_filter(0.5, 1e-4, 40, 0.1)
    assert oracle.exact_profile(0.5, choice.scale, 40, 0.1) <= 1e-4


def test_zero_concentrated_form_of_algorithm_1():
    bound = paper.without_filter(36, 180, 0.1)
    rho, failure = bound.zero_concentrated(52.944)
    just_above(rho, mp.mpf(36) / (2 * mp.mpf(52.944) ** 2), 1e-14)
    assert failure == bound.failure
    assert bound.zero_concentrated(0.0)[0] == math.inf
    assert bound.times(3).zero_concentrated(3 * 52.944)[0] == pytest.approx(rho, rel=1e-14)


# --- Ends and refusals ---


def test_nothing_proved_needs_infinite_noise():
    assert paper.without_filter(1, 100, 0.5).least_scale(0.5, 1e-4) == math.inf
    assert paper.with_filter(0.2, 180, 0.1, SMOOTH).least_scale(0.5, 1e-4) == math.inf
    # Where every step is kept, the paper's method is the Gaussian mechanism.
    sure = paper.least_scale_without_filter(0.5, 1e-4, 7, 1.0)
    assert sure.scale == pytest.approx(paper.classical_scale(0.5, 1e-4, 7), rel=1e-14)
    assert paper.with_filter(1.0, 7, 0.5, SMOOTH).failure == 0.0


def test_searches_end():
    assert paper.analytic_scale(0.5, 1e-305, 1.0) == math.inf
    assert paper.analytic_scale(0.5, 1e-4, 0.0) == 0.0
    assert 0 < paper.analytic_scale(700.0, 0.5, 1.0) < 0.1


def test_sampling_nothing_costs_nothing():
    assert paper.theorem4(0.5, 0.0, SMOOTH) == 0.0
    assert paper.theorem4_sharper(0.5, 0.0, SMOOTH) == 0.0
    assert paper.fixed_pair(0.5, 3, 0.0, SMOOTH) == 0.0
    # A probability too small for the quotient is no excuse for a tail of zero.
    assert paper.theorem4(0.5, 1e-320, SMOOTH) == 1.0


@pytest.mark.parametrize(("call", "message"), [
    (lambda: paper.theorem2(3, 10, 1.5), "sampling_probability"),
    (lambda: paper.theorem2(True, 10, 0.5), "sampled_cap"),
    (lambda: paper.corollary1(1.0, 10, 0.5), "failure_probability"),
    (lambda: paper.theorem4(0.0, 0.5, SMOOTH), "alpha"),
    (lambda: paper.theorem4(math.nan, 0.5, SMOOTH), "alpha"),
    (lambda: paper.with_filter(1.5, 10, 0.5, SMOOTH), "alpha"),
    (lambda: paper.with_filter(0.5, 10, 0.5, SMOOTH, "other"), "tail"),
    (lambda: paper.without_filter(11, 10, 0.5), "sampled_cap"),
    (lambda: paper.without_filter(0, 10, 0.5), "sampled_cap"),
    (lambda: FilterConstants(row_energy=2.0, stable_rank=3), "row_energy"),
    (lambda: FilterConstants(row_energy=0.1, stable_rank=3, norm=2.0), "norm"),
    (lambda: paper.proposition1(0.5, 1e-4, paper.without_filter(3, 10, 0.5), 9, 0.5), "true_cap"),
])  # fmt: skip
def test_bad_parameters_are_refused_by_name(call, message):
    refuses(message, call, error=(TypeError, ValueError))


def test_rows_of_another_l1_norm_are_refused():
    doubled = FilterConstants(row_energy=0.5, stable_rank=10, norm=2.0, l1_norm=2.0)
    refuses("l1_norm", paper.with_filter, 0.5, 10, 0.1, doubled)
