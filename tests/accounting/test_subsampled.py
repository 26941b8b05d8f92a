"""The four maps of the subsampled Gaussian: exact where they say so, never below the truth anywhere."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from opendp_timeseries.accounting import laws, loss
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.conversions import delta_from_renyi
from opendp_timeseries.accounting.gaussian import gaussian_delta, inflection
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.rounding import up_sqrt
from opendp_timeseries.accounting.subsampled import extremal_law
from tests.limits import within
from tests.make import influence_of
from tests.oracles import accounting as oracle
from tests.refused import refuses

GOLDEN = Path(__file__).parents[1] / "data" / "golden.json"
CLOSE = 3e-11
HALF = math.sqrt(0.5)  # at this scale ρ is the squared distance


def golden(kind):
    return [(case["args"], case) for case in json.loads(GOLDEN.read_text())[kind]]


def just_above(got, truth, close=CLOSE):
    truth = mp.mpf(truth)
    assert truth <= got <= truth * (1 + mp.mpf(close)) + mp.mpf(1e-300), (got, mp.nstr(truth, 20))


def count_law(steps, p, *, individuals=1, step_cap=1, size=None):
    size = size or steps
    person = influence_of(steps, size, individuals=individuals, step_cap=step_cap)
    return extremal_law(person, p, size)


def norms_law(steps, most, m, p, **more):
    """The law of three norms: ``W = most``, ``ℓ∞² = m``, both squares of floats from above."""
    influence = Influence(l0=steps, l2=math.sqrt(most) * (1 + 1e-15), linf=math.sqrt(m), **more)
    return extremal_law(influence, p, steps)


def equal_law(steps, m, p):
    """``ℓ0`` steps of squared change ``m``: nothing but ``ℓ0`` and ``ℓ∞`` binds."""
    return extremal_law(Influence(l0=steps, l2=math.inf, linf=math.sqrt(m)), p, steps)


def base(p=0.1, steps=10):
    return count_law(steps, p)


# --- golden values, and the same by the 60-digit oracle ---

COUNTS = [
    *[(0.5, 26.0, 180, 1, 0.1), (1.0, 3.0, 20, 1, 0.3), (0.1, 10.0, 50, 1, 0.5), (0.0, 5.0, 10, 1, 0.2)],
    *[(2.0, 1.0, 5, 1, 0.01), (3.0, 2.0, 30, 2, 0.9), (0.5, 2.0, 7, 1, 1.0), (8.0, 1.5, 12, 3, 0.05)],
    *[(0.01, 300.0, 1000, 1, 0.02), (4.0, 26.0, 180, 1, 0.1), (1e-4, 1e3, 3, 1, 0.5), (800.0, 1.0, 16, 10, 1.0)],
]


@pytest.mark.parametrize(("epsilon", "scale", "steps", "step_cap", "p"), COUNTS)
def test_profile_of_a_count_is_exact(epsilon, scale, steps, step_cap, p):
    got = count_law(steps, p, step_cap=step_cap).at(scale).delta(epsilon)
    terms = [(k * step_cap**2, w) for k, w in oracle.binomial_law(steps, p) if w > mp.mpf(10) ** -320]
    just_above(got, oracle.profile(terms, epsilon, scale * loss.DISCRETE_NOISE))


def test_golden_profiles_of_counts():
    for (epsilon, scale, steps, m, p), case in golden("mono"):
        just_above(equal_law(steps, m, p).at(scale).delta(epsilon), case["value"], 2e-9)


@pytest.mark.long
def test_golden_profiles_by_norms():
    for (epsilon, scale, steps, most, m, p), case in golden("general"):
        bounds = oracle.general_bounds(epsilon, scale, steps, most, m, p) if steps < 100 else []
        best = min([mp.mpf(case["best_min"]), *bounds])
        assert norms_law(steps, most, m, p).at(scale).delta(epsilon) <= best * (1 + mp.mpf(2e-9))


def test_golden_renyi():
    for (alpha, scale, most, m, p), case in golden("renyi"):
        just_above(norms_law(10**4, most, m, p).at(scale).renyi(alpha), case["value"], 2e-9)


def test_golden_approximate_zcdp():
    for (steps, m, p, tail), case in golden("azcdp_mono"):
        rho, attained = equal_law(steps, m, p).at(HALF).zero_concentrated(tail)
        if (steps, p) == (10, 0.5):  # the tie: the tail equals δ′ in real arithmetic, so 9 and 10 are both right
            assert rho == pytest.approx(9, rel=1e-9) or rho == pytest.approx(10, rel=1e-9)
            continue
        assert rho == pytest.approx(float(case["s"]), rel=2e-9)
        just_above(attained, case["tail"], 2e-9)
    for (most, m, p, tail), case in golden("azcdp_gen"):
        rho, attained = norms_law(10**5, most, m, p).at(HALF).zero_concentrated(tail)
        just_above(rho * (1 + 3e-16), case["s"], 2e-9)
        assert attained in (tail, 0.0)


GENERAL = [
    *[(1.0, 1.0, 10, 3.5, 1.0, 0.2), (0.01, 1.0, 10, 3.5, 1.0, 0.2), (1e-6, 1.0, 10, 3.5, 1.0, 0.2)],
    *[(0.5, 1.0, 6, 2.75, 0.5, 1.0), (5.0, 0.25, 3, 2.5, 1.0, 1e-4), (2.0, 1.0, 40, 20.0, 4.0, 0.95)],
    *[(10.0, 0.5, 8, 7.0, 2.0, 0.9), (1.0, 2.0, 4, 0.5, 1.0, 0.3), (20.0, 1 / 128, 3, 2.75, 1.0, 1e-4)],
    *[(0.0, 1.0, 10, 3.5, 1.0, 0.2), (0.5, 2.0, 60, 10.4, 0.47, 0.1)],
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "arguments", [pytest.param(given, marks=[pytest.mark.long] * (k % 3 > 0)) for k, given in enumerate(GENERAL)]
)
def test_profile_by_norms_is_at_most_the_bounds_of_the_literature(arguments):
    epsilon, scale, steps, most, m, p = arguments
    bounds = oracle.general_bounds(*arguments)
    got = norms_law(steps, most, m, p).at(scale).delta(epsilon)
    assert got <= min(bounds) * (1 + mp.mpf(1e-9))
    # The vertex is itself allowed, so nothing valid is below it.
    n = int(most / m)
    assert got >= oracle.profile(oracle.repeated_law(n, m, most - n * m, p), epsilon, scale)


# --- never below the truth: every difference within an influence, every subset ---


def influence_on(vector, **more):
    squares = [mp.mpf(v) ** 2 for v in vector]
    return Influence(
        l0=sum(v != 0 for v in vector),
        l2=float(mp.sqrt(mp.fsum(squares))) * (1 + 1e-15),
        linf=max(abs(v) for v in vector),
        **more,
    )


vectors = st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.0, 1.5, 3.0]), min_size=1, max_size=6)
unusual = st.sampled_from([1e-4, 0.03, 0.1, 0.5, 0.9, 1.0])


@settings(derandomize=True)
@given(vectors, unusual, st.sampled_from([0.0, 1e-3, 0.1, 1.0, 4.0]), st.sampled_from([0.05, 0.7, 2.0, 9.0]))
def test_no_difference_within_the_influence_loses_more(vector, p, epsilon, scale):
    truth = oracle.kept_law([v * v for v in vector], p)
    plain = extremal_law(influence_on(vector), p, 10)
    shaped = extremal_law(influence_on(vector, majorant=Majorant(np.sort(vector)[::-1])), p, 10)
    exact = oracle.profile(truth, epsilon, scale)
    for law in (plain, shaped):
        assert law.at(scale).delta(epsilon) >= exact
        assert law.at(scale).delta(-epsilon) >= 1 - mp.exp(-epsilon) * (1 - exact)
        for alpha in (1.0001, 2.0, 30.0):
            assert law.at(scale).renyi(alpha) >= oracle.renyi(truth, alpha, scale)
        for tail in (1e-9, 0.01, 0.4):
            rho, attained = law.at(HALF).zero_concentrated(tail)
            assert attained <= tail
            beyond = mp.fsum(w for s, w in truth if s > rho * (1 + 1e-14))
            assert beyond <= attained * (1 + mp.mpf(1e-30))
    assert shaped.at(scale).delta(epsilon) <= plain.at(scale).delta(epsilon) * (1 + 1e-2), "the lattice costs little"
    for alpha in (1.0001, 2.0, 30.0):
        just_above(shaped.at(scale).renyi(alpha), oracle.renyi(truth, alpha, scale), 1e-11)


@settings(derandomize=True)
@given(
    st.integers(1, 3), st.integers(2, 3), unusual, st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.4, 2.0, 8.0])
)
def test_several_individuals(steps, individuals, p, epsilon, scale):
    """Every sum of ``k`` counts on four steps: together, apart, overlapping."""
    size = 4
    law = count_law(steps, p, individuals=individuals, size=size)
    counts = {tuple(v) for v in oracle.all_differences(size, min(steps, size), [1])}
    sums = {
        tuple(sorted(map(sum, zip(*people, strict=True))))
        for people in itertools.combinations_with_replacement(sorted(counts), individuals)
    }
    for total in sums:
        truth = oracle.kept_law([v * v for v in total], p)
        assert law.at(scale).delta(epsilon) >= oracle.profile(truth, epsilon, scale) * (1 - mp.mpf(1e-50))
        assert law.at(scale).renyi(3.0) >= oracle.renyi(truth, 3.0, scale)
        rho, attained = law.at(HALF).zero_concentrated(0.05)
        assert mp.fsum(w for s, w in truth if s > rho * (1 + 1e-14)) <= attained


def filtered(kernel, steps):
    """Influence of one individual, one event in each of ``steps`` steps, through a filter; by definition."""
    block = oracle.sorted_block(kernel, steps)
    return Influence(
        l0=sum(b > 0 for b in block),
        l2=math.sqrt(sum(b * b for b in block)) * (1 + 1e-15),
        linf=block[0],
        majorant=Majorant(np.array(block)),
    )


KERNELS = [
    [0.5, 0.25, 0, 0, 0, 0, 0.25],
    [0.5, 0.125, 0.125, 0, 0.125, 0.125],
    [0.375, 0.25, 0.0625, 0, 0, 0, 0.0625, 0.25],
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("steps", "p"), [(1, 0.1), (2, 0.3), (3, 0.05)])
def test_block_law_covers_every_person_and_is_attained(kernel, steps, p):
    size = len(kernel)
    law = extremal_law(filtered(kernel, steps), p, size)
    worst = mp.mpf(0)
    people = itertools.combinations(range(1, size), steps - 1)  # who starts elsewhere is a rotation of these
    outputs = {tuple(sorted(sum(kernel[(t - j) % size] for j in (0, *q)) for t in range(size))) for q in people}
    for output in outputs:
        truth = oracle.kept_law([v * v for v in output], p)
        for epsilon, scale in ((0.5, 1.0), (2.0, 0.25)):
            assert law.at(scale).delta(epsilon) >= oracle.profile(truth, epsilon, scale)
        assert law.at(0.5).renyi(8.0) >= oracle.renyi(truth, 8.0, 0.5)
        worst = max(worst, oracle.renyi(truth, 8.0, 0.5))
    just_above(law.at(0.5).renyi(8.0), worst, 1e-11)


# --- figures ---


def least_scale(delta, target=1e-4, low=1e-3, high=1e3):
    while high > low * (1 + 1e-8):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta(middle) <= target else (middle, high)
    return high


def gaussian_block(steps, width, size=1800):
    distance = np.minimum(np.arange(size), size - np.arange(size))
    kernel = np.rint(np.exp(-(distance**2) / (2 * width**2)) * 2.0**30)
    kernel = np.rint(kernel / kernel.sum() * 2.0**40) / 2.0**40
    block = np.convolve(np.concatenate([kernel, kernel]), np.ones(steps))[size : 2 * size]
    block = np.sort(block)[::-1]
    return block[block > 0]


def block_influence(block):
    return Influence(
        l0=1800, l2=math.sqrt(math.fsum(block**2)) * (1 + 1e-12), linf=float(block[0]), majorant=Majorant(block)
    )


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("width", "steps", "p"), [
    *[(2, 1, 0.1), (2, 20, 0.5), (10, 180, 0.1)],
    *(pytest.param(*other, marks=pytest.mark.long) for other in [(10, 5, 0.5), (30, 1, 0.5), (30, 180, 0.1)]),
])  # fmt: skip
def test_scales_through_filters_are_near_the_lower_bound(width, steps, p):
    block = gaussian_block(steps, width)
    law = extremal_law(block_influence(block), p, 1800)
    scale = least_scale(lambda s: law.at(s).delta(0.5))
    below = oracle.block_profile_below(block, p)
    # Rounding the oracle's squares down costs up to 0.1% of the scale; less noise than this is not private.
    assert below(0.5, scale / 1.001, gaussian_delta) > 1e-4


# --- the cases of users of similar libraries (design/cases.md, D and E) ---


def test_degenerate_parameters():
    full = base(p=1.0)
    assert full.at(2.0).zero_concentrated(1e-9) == (1.25, 0.0)
    just_above(full.at(2.0).delta(1.0), oracle.gaussian_profile(1, mp.mpf(10) / 4))
    assert full.at(2.0).delta(1.0) == pytest.approx(0.352518058894887, rel=1e-10)
    for free in (base(p=0.0), count_law(10, 0.1, individuals=0), extremal_law(Influence(l0=3, l2=0, linf=0), 0.1, 9)):
        for scale in (0.0, 2.0):
            assert free.at(scale).delta(0.0) == free.at(scale).epsilon(0.0) == free.at(scale).renyi(2.0) == 0
            assert free.at(scale).zero_concentrated(1e-6) == (0, 0)
    law = base()
    assert law.at(0.0).delta(5.0) == 1
    assert law.at(0.0).epsilon(1e-6) == law.at(0.0).renyi(2.0) == law.at(0.0).zero_concentrated(1e-6)[0] == math.inf
    assert count_law(1000, 0.1, size=10).at(2.0).delta(1.0) == law.at(2.0).delta(1.0)
    assert extremal_law(Influence(l0=1000, l2=99, linf=1), 0.1, 10).at(2.0).delta(1.0) == law.at(2.0).delta(1.0)
    for scale in (-1.0, math.nan, math.inf):
        refuses("scale", law.at, scale)
    refuses("epsilon", law.at(1.0).delta, math.nan)


@pytest.mark.parametrize("alpha", [1 + 2.0**-52, 1 + 1e-12, 1 + 1e-8, 1.001, 2.0, 1e3])
def test_renyi_at_orders_near_one(alpha):
    just_above(base().at(1.0).renyi(alpha), oracle.renyi_of_squares([(1, 10)], alpha, 1, 0.1), 3e-12)


def test_renyi_values_and_refusal():
    assert base().at(1.0).renyi(1 + 1e-8) == pytest.approx(0.500000006125, rel=1e-11)
    assert base().at(1.0).renyi(1.001) == pytest.approx(0.500612740158627, rel=1e-11)
    for alpha in (1.0, 0.5, -3.0, math.nan):
        refuses("alpha", base().at(1.0).renyi, alpha)
    assert base().at(1.0).renyi(math.inf) == math.inf


def test_ends_of_the_curve():
    law = base()
    assert law.at(2.0).epsilon(0.0) == math.inf
    assert law.at(2.0).epsilon(0.2) == 0
    assert law.at(2.0).delta(0.0) == pytest.approx(0.154208256192747, rel=1e-10)
    for delta, scale in itertools.product([0.0, 5e-324, 1e-300, 1e-40, 1e-6, 0.3, 1.0], [1e-9, 1e-3, 2.0, 1e9]):
        with within(1):
            epsilon = law.at(scale).epsilon(delta)
        assert epsilon >= 0
        assert epsilon == math.inf or law.at(scale).delta(epsilon) <= delta


@pytest.mark.parametrize(("steps", "p", "scale"), [(10, 0.1, 2.0), (180, 0.1, 26.0), (3, 0.9, 0.2), (40, 1.0, 5.0)])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_epsilon_is_the_least(steps, p, scale, delta):
    law = count_law(steps, p)
    epsilon = law.at(scale).epsilon(delta)
    assert law.at(scale).delta(epsilon) <= delta
    assert epsilon == 0 or law.at(scale).delta(epsilon * (1 - 1e-9)) > delta


@pytest.mark.parametrize(("epsilon", "t"), [(0.0, 1.0), (0.5, 0.3), (0.5, 4.0), (3.0, 6.0), (20.0, 45.0), (1e3, 2e3)])
def test_the_computed_tangent_is_above_the_tangent(epsilon, t):
    at = np.array([0.0, 1e-3, 0.5, 0.999, 1.0, 1.001, 3.0]) * t
    lines = loss._tangent(epsilon, t, at)
    level, slope = oracle.gaussian_profile(epsilon, t), oracle.gaussian_profile_slope(epsilon, t)
    for u, line in zip(at.tolist(), lines.tolist(), strict=True):
        exact = level + slope * (mp.mpf(u) - mp.mpf(t))
        assert exact <= line <= exact + mp.mpf(1e-10) * (level + slope * (u + t))


def test_the_best_tangent_is_the_best_of_many():
    laws_of_many = [
        extremal_law(block_influence(gaussian_block(180, 10)), 0.1, 1800),
        extremal_law(block_influence(gaussian_block(5, 2)), 0.5, 1800),
        norms_law(10, 3.5, 1.0, 0.2),
    ]
    for law, scale, epsilon in itertools.product(laws_of_many, (0.3, 3.0, 25.0), (0.1, 0.5, 2.0)):
        u, weights = law.at(scale)._over_variance(law.convex[0].values), law.convex[0].weights
        best = loss._mean_of_convex_majorant(epsilon, u, weights)
        turn = inflection(epsilon)
        if u[-1] > turn:
            g = gaussian_delta(epsilon, u)
            points = np.geomspace(max(turn, u[-1] * 1e-6), u[-1], 300)
            tried = [float(np.sum(weights * np.maximum(loss._tangent(epsilon, t, u), g))) for t in points]
            assert best <= min(min(tried), 1.0) * (1 + 2e-11)


def test_far_tails_are_at_most_what_the_renyi_view_says():
    # The law of a sum is cut at 1e-60, and what is cut lies at the largest value.
    view = extremal_law(block_influence(gaussian_block(180, 10)), 0.1, 1800).at(25.0)
    deltas = [view.delta(epsilon) for epsilon in (3.0, 5.0, 6.0, 7.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[1] < 1e-50
    for epsilon, delta in zip((5.0, 6.0, 7.0), deltas[1:], strict=True):
        assert delta <= delta_from_renyi(view.renyi, epsilon)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("target", [(0.5, 1e-4), (0.5, 1e-9), (0.0, 1e-3), (1e-3, 1e-6), (5.0, 1e-5), (200.0, 1e-12)])
def test_least_scale_is_the_least_and_is_enough(target):
    epsilon, delta = target
    for law in (
        count_law(180, 0.1, size=1800),
        count_law(7, 0.9, individuals=3),
        norms_law(10, 3.5, 1.0, 0.2),
        extremal_law(block_influence(gaussian_block(20, 10)), 0.1, 1800),
        equal_law(5, 1e-18, 1.0),
    ):
        scale = calibrate(law.at, Budget(epsilon=epsilon, delta=delta))
        assert law.at(scale).delta(epsilon) <= delta < law.at(scale * (1 - 1e-11)).delta(epsilon)
        assert law.at(scale).epsilon(delta) <= epsilon
        assert law.at(scale).epsilon_delta(delta) <= (epsilon, delta)


def test_least_scale_at_the_edges():
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert calibrate(base(p=0.0).at, budget) == 0
    assert calibrate(count_law(10, 0.1, individuals=0).at, budget) == 0
    rare = count_law(3, 1e-9)  # that anything is kept is less probable than δ
    assert 0 < calibrate(rare.at, Budget(epsilon=1.0, delta=1e-4)) < 1e-300
    assert rare.at(calibrate(rare.at, Budget(epsilon=1.0, delta=1e-4))).delta(1.0) <= 1e-4
    unbounded = extremal_law(Influence(l0=10, l2=math.inf, linf=math.inf), 0.1, 10)
    for law, delta in ((unbounded, 1e-6), (base(), 1e-310)):
        refuses("budget", calibrate, law.at, Budget(epsilon=1.0, delta=delta))


def test_the_hinge_is_rounded_up():
    # Also where all that lies beyond the quantile is within a few floats of it.
    rng = np.random.default_rng(0)
    for width in (1e-15, 1e-12, 0.3):
        for _ in range(50):
            values, weights = np.sort(1 + width * rng.random(5)), rng.dirichlet(np.ones(5))
            got = loss.hinge(laws.Law(values, weights), 0.3)
            points = [(Fraction(v), Fraction(w)) for v, w in zip(values, weights, strict=True)]
            q = next(v for v, _ in points if sum(w for x, w in points if x > v) <= Fraction(0.3))
            exact = q + sum(w * max(v - q, 0) for v, w in points) / Fraction(0.3)
            assert exact <= Fraction(got) <= exact * (1 + Fraction(1, 10**10))


def test_least_scale_for_approximate_zcdp():
    for law in (base(), norms_law(10, 3.5, 1.0, 0.2), count_law(20, 0.3, individuals=2)):
        for rho, failure in ((0.1, 1e-6), (3.0, 1e-3), (1e-12, 0.0)):
            scale = calibrate(law.at, Budget(rho=rho, delta=failure))
            assert law.at(scale).zero_concentrated(failure)[0] <= rho
            assert law.at(scale * (1 - 1e-14)).zero_concentrated(failure)[0] > rho
    assert calibrate(base(p=0.0).at, Budget(rho=0.1, delta=1e-6)) == 0
    refuses("budget", calibrate, base().at, Budget(rho=0.0, delta=1e-6))


def test_profiles_pay_for_discrete_noise():
    for scale, square in ((2.0, 10.0), (0.3, 7.0), (1e9, 1e3)):
        (u,) = base().at(scale)._over_variance(np.array([square]))
        exact = Fraction(square) / (Fraction(scale) * (1 - Fraction(1, 2**42))) ** 2
        assert exact <= Fraction(u) <= exact * (1 + Fraction(1, 10**14))


# --- monotone, total, cached ---

influences = st.builds(
    lambda steps, linf, spread, shape: Influence(
        l0=steps,
        l2=up_sqrt(steps) * linf * spread,
        linf=linf,
        majorant=Majorant(linf * np.linspace(1, 0.2, shape)) if shape else None,
    ),
    st.integers(1, 30),
    st.sampled_from([1e-3, 1.0, 40.0]),
    st.sampled_from([0.3, 1.0, 1.1]),
    st.integers(0, 20),
)


@settings(derandomize=True)
@given(influences, unusual, st.sampled_from([0.1, 1.0, 30.0]), st.sampled_from([0.0, 0.3, 2.0]))
@pytest.mark.long
def test_losses_grow_with_individuals_probability_and_precision(person, p, scale, epsilon):
    def losses(k, p, scale):
        many = Influence(l0=person.l0, l2=person.l2, linf=person.linf, individuals=k, majorant=person.majorant)
        law = extremal_law(many, p, 50)
        rho, _ = law.at(scale).zero_concentrated(0.01)
        return np.array([law.at(scale).delta(epsilon), law.at(scale).epsilon(1e-5), law.at(scale).renyi(3.0), rho])

    here = losses(1, p, scale) * (1 - 1e-9)
    assert np.all(here <= losses(2, p, scale))
    assert np.all(here <= losses(1, min(1.0, p * 1.3), scale))
    assert np.all(here <= losses(1, p, scale / 1.3))


@settings(derandomize=True)
@given(influences, unusual, st.sampled_from([0.1, 1.0, 30.0]))
@pytest.mark.long
def test_losses_fall_with_delta_and_epsilon(person, p, scale):
    law = extremal_law(person, p, 50)
    epsilons = [law.at(scale).epsilon(d) for d in (1e-12, 1e-6, 1e-3, 0.1, 0.9)]
    assert epsilons == sorted(epsilons, reverse=True)
    deltas = [law.at(scale).delta(e) for e in (-math.inf, -2.0, 0.0, 1e-6, 0.1, 3.0, 1e3, math.inf)]
    assert all(x >= y * (1 - 1e-10) for x, y in itertools.pairwise(deltas))
    rhos = [law.at(scale).zero_concentrated(d)[0] for d in (0.0, 1e-12, 1e-3, 0.3)]
    assert all(x >= y * (1 - 1e-10) for x, y in itertools.pairwise(rhos))


@pytest.mark.thinned(9)
@pytest.mark.parametrize("influence", [
    Influence(l0=10, l2=3.17, linf=1.0, individuals=10**9), Influence(l0=10, l2=1e-200, linf=1e-200),
    Influence(l0=10, l2=1e200, linf=1e200), Influence(l0=10, l2=math.inf, linf=math.inf),
    Influence(l0=10, l2=1e300, linf=1e-300),
    Influence(l0=50, l2=3.0, linf=1.0, majorant=Majorant(np.array([1e200, 1e-200]))),
    Influence(l0=50, l2=3.0, linf=1.0, majorant=Majorant(np.array([1e-170, 1e-171]))),
    Influence(l0=50, l2=3.0, linf=1.0, majorant=Majorant(np.array([]))),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("p", [5e-324, 1e-17, 0.1, 1 - 2.0**-53])
def test_extreme_parameters_give_numbers(influence, p):
    law = extremal_law(influence, p, 10**3)
    for scale in (5e-324, 1e-10, 1.0, 1e10, 1e308):
        for epsilon in (0.0, 1e-300, 1.0, 1e3, 1e300):
            assert 0 <= law.at(scale).delta(epsilon) <= 1
        for alpha in (1 + 2.0**-52, 2.0, 1e10, 1e308):
            assert law.at(scale).renyi(alpha) >= 0
        for delta in (0.0, 1e-310, 1e-10, 0.5):
            rho, attained = law.at(scale).zero_concentrated(delta)
            assert rho >= 0
            assert 0 <= attained <= delta
            assert law.at(scale).epsilon(delta) >= 0


def test_a_positive_loss_is_never_reported_as_zero():
    law = count_law(10**3, 1e-3)
    assert law.at(1.0).delta(1e4) > 0
    assert law.at(1e300).renyi(2.0) > 0
    assert law.at(1.0).zero_concentrated(1e-290)[1] > 0
    assert law.at(1e300).zero_concentrated(1e-6)[0] > 0


# --- broken variants: each is below the truth somewhere that the tests above look ---


SPREAD, P = [math.sqrt(0.2)] * 10, 0.05  # ten steps with the energy of two full ones
FULL = laws.vertex_sum(2, Fraction(1), Fraction(0), P)  # the law at the vertex of the same norms


def spread_law():
    return norms_law(10, 2.0, 1.0, P)


def spread_truth(epsilon, scale):
    return oracle.profile(oracle.kept_law([v * v for v in SPREAD], P), epsilon, scale)


def test_profile_without_a_convex_majorant_is_caught():
    naive = float(np.sum(FULL.weights * gaussian_delta(1.0, FULL.values / 0.1**2)))
    assert naive < 0.5 * spread_truth(1.0, 0.1) < spread_law().at(0.1).delta(1.0)


def test_reach_with_too_few_steps_is_caught():
    kept = np.arange(3)  # Bin(W/m, p) where Bin(ℓ0, p) is due
    naive = float(np.sum(binom.pmf(kept, 2, P) * gaussian_delta(1.0, np.minimum(2.0, kept) / 0.1**2)))
    assert naive < 0.5 * spread_truth(1.0, 0.1)


def test_quantile_of_the_vertex_law_in_place_of_the_hinge_is_caught():
    tail = 0.1
    quantile = next(v for v in FULL.values if np.sum(FULL.weights[FULL.values > v]) <= tail)
    truth = oracle.kept_law([v * v for v in SPREAD], P)
    assert mp.fsum(w for s, w in truth if s > quantile) > 3 * tail
    rho, attained = spread_law().at(HALF).zero_concentrated(tail)
    assert mp.fsum(w for s, w in truth if s > rho) <= attained
