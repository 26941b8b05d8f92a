"""Algorithm 1 with the paper's map, beside the chained stages: the same release, half the noise or less."""

import math

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.koga2022.algorithm1 import make_koga2022, then_koga2022
from opendp_timeseries.plugin.spaces import influence_distance
from opendp_timeseries.release.statement import Statement
from tests.make import influence_of
from tests.oracles.blocks import block_scale, block_squares, gaussian_taps
from tests.refused import refuses

APPROX_DP = dp.approximate(dp.max_divergence())
BUDGET = {"output_measure": APPROX_DP, "delta": 1e-4}


def space(size):
    return dp.vector_domain(dp.atom_domain(T="i64"), size=size), influence_distance()


def one(size, cap, step_cap=1, individuals=1, replaced=False):
    return influence_of(cap, size, individuals=individuals, step_cap=step_cap, replaced=replaced)


@pytest.mark.parametrize(
    ("size", "cap", "kept", "paper"), [(1800, 180, 36, 52.944), (725, 73, 19, 38.377), (2126, 213, 41, 56.374)]
)
def test_noise_that_the_paper_needs_without_filter(size, cap, kept, paper):
    # α with ⌈α²I⌉ = I′.
    alpha = math.sqrt((kept - 0.5) / cap)
    measurement = space(size) >> then_koga2022(paper * 1.0001, alpha=alpha, sampling_probability=0.1, **BUDGET)
    assert measurement.map(one(size, cap))[0] == pytest.approx(0.5, rel=1e-3)
    rho, delta = (space(size) >> then_koga2022(paper, alpha=alpha, sampling_probability=0.1)).map(one(size, cap))
    assert rho == pytest.approx(kept / (2 * paper**2), rel=1e-12)
    assert 0 < delta < 1e-4


def test_noise_that_the_paper_needs_with_filter():
    measurement = space(1800) >> then_koga2022(
        83.524 * 1.0001, alpha=0.70631, sampling_probability=0.1, kernel=ts.gaussian_kernel(1800, 10), **BUDGET
    )
    assert measurement.map(one(1800, 180))[0] == pytest.approx(0.5, rel=1e-3)


def test_its_release_is_that_of_the_chained_stages():
    # With no noise and p = 1 the release is the filtered signal itself.
    kernel = ts.gaussian_kernel(40, 2)
    signal = np.arange(40) ** 2
    whole = space(40) >> then_koga2022(0.0, alpha=1.0, sampling_probability=1.0, kernel=kernel)
    chained = (
        space(40)
        >> ts.then_circulant_filter(kernel)
        >> ts.then_subsampled_gaussian(0.0, sampling_probability=1.0, output_measure=dp.renyi_divergence())
    )
    assert whole(signal) == chained(signal)
    assert isinstance(whole(signal).statement, Statement)  # of what ran, by its exact loss
    sampled = space(40) >> then_koga2022(2.0, alpha=0.5, sampling_probability=0.3)
    assert isinstance(sampled(signal), ts.Release)
    assert sampled(signal).sampling_probability == pytest.approx(0.3)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kernel", [None, ts.gaussian_kernel(60, 3)])
@pytest.mark.parametrize("individuals", [1, 2])
@pytest.mark.parametrize("step_cap", [1, 3])
def test_never_below_the_exact_map(kernel, individuals, step_cap):
    influence = one(60, 12, step_cap, individuals)
    for scale in (2.0, 50.0):
        for alpha in (0.5, 0.8, 1.0):
            theirs = space(60) >> then_koga2022(
                scale, alpha=alpha, sampling_probability=0.2, kernel=kernel, output_measure=APPROX_DP, delta=1e-3
            )
            stage = space(60) if kernel is None else space(60) >> ts.then_circulant_filter(kernel)
            ours = stage >> ts.then_subsampled_gaussian(
                scale, sampling_probability=0.2, output_measure=APPROX_DP, delta=1e-3
            )
            assert ours.map(influence)[0] <= theirs.map(influence)[0]


@pytest.mark.parametrize("p", [1e-20, 1e-10, 0.3, 1e-300])
def test_accounts_for_the_probability_that_is_used(p):
    # Steps are kept with a probability that is a multiple of 2^-53.
    used = math.ceil(p * 2**53) / 2**53
    _, failure = (space(4) >> then_koga2022(1.0, alpha=0.7, sampling_probability=p)).map(one(4, 2))
    assert failure >= used**2  # both steps kept
    assert failure <= used**2 * (1 + 1e-9)


def test_edges():
    free = space(30) >> then_koga2022(1.0, alpha=0.5, sampling_probability=0.1)
    assert free.map(one(30, 5, individuals=0)) == (0.0, 0.0)
    noiseless = space(30) >> then_koga2022(0.0, alpha=0.5, sampling_probability=0.1)
    assert noiseless.map(one(30, 5))[0] == math.inf


@pytest.mark.parametrize(("change", "message"), [
    ({"alpha": 0.0}, "alpha"), ({"alpha": 1.5}, "alpha"),
    ({"sampling_probability": 2.0}, "sampling_probability"), ({"delta": 0.1}, "output_measure"),
    ({"output_measure": APPROX_DP}, "output_measure"),
    ({"kernel": ts.Kernel.from_taps([1.0, 1.0, 0.0, 0.0])}, "l1_norm"),
    ({"kernel": ts.gaussian_kernel(5, 1)}, "kernel size"),
])  # fmt: skip
def test_bad_parameters_are_refused(change, message):
    good = {"alpha": 0.5, "sampling_probability": 0.1}
    refuses(message, make_koga2022, *space(4), 1.0, **good | change)
    refuses("influence_distance", make_koga2022, space(4)[0], dp.l2_distance(T=float), 1.0, error=TypeError, **good)
    refuses("alpha", make_koga2022, *space(4), 1.0, error=TypeError, sampling_probability=0.1)


@pytest.mark.long
@pytest.mark.parametrize(("std", "p"), [(2, 0.1), (2, 0.5), (10, 0.1), (10, 0.5), (30, 0.1), (30, 0.5)])
@pytest.mark.parametrize("cap", [1, 5, 20, 180])
def test_our_noise_is_within_half_a_percent_of_the_lower_bound(std, p, cap):
    kernel = ts.gaussian_kernel(1800, std)

    def chain(scale):
        return (
            space(1800)
            >> ts.then_circulant_filter(kernel)
            >> ts.then_subsampled_gaussian(scale, sampling_probability=p, **BUDGET)
        )

    ours = dp.binary_search_param(chain, d_in=one(1800, cap), d_out=(0.5, 1e-4), T=float)
    least = block_scale(block_squares(gaussian_taps(1800, std), cap), p, 0.5, 1e-4)
    assert 1 - 2e-4 <= ours / least <= 1.005


def test_a_difference_that_is_no_whole_number_counts_as_the_next():
    influence = Influence(l0=12, l2=1.9 * math.sqrt(12), linf=1.9)
    rho, delta = (space(60) >> then_koga2022(2.0, alpha=0.7, sampling_probability=0.2)).map(influence)
    kept = math.ceil(0.7**2 * 12)
    assert rho >= 1.9**2 * kept / (2 * 2.0**2)
    assert (rho, delta) == (space(60) >> then_koga2022(2.0, alpha=0.7, sampling_probability=0.2)).map(one(60, 12, 2))


def test_individuals_are_joined_without_a_filter():
    # Two people with 12 steps each reach 24; the steps that both are in change by 2.
    paper = space(60) >> then_koga2022(2.0, alpha=0.7, sampling_probability=0.2)
    rho, delta = paper.map(one(60, 12, individuals=2))
    joined, failure = paper.map(one(60, 24))
    assert rho == pytest.approx(4 * joined, rel=1e-12)
    assert delta == failure
