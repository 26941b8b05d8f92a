"""One step of each block; the finite list, the even spread and the bounds behind filters, against all that can be."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_timeseries.accounting import sampling, subsampled
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.laws import trials_sum
from opendp_timeseries.accounting.sampling import Blocks, blocks_of
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.plugin.subsampled_gaussian import sample_of
from tests.make import influence_of
from tests.oracles import stratified as oracle
from tests.refused import refuses


def law(steps, length, size, **more):
    return extremal_law(influence_of(steps, size, **more), 1 / length, size, "stratified")


SMALL = [
    (size, length, steps) for size in (3, 5, 6, 8) for length in (2, 3, 4) if length <= size for steps in (1, 2, 4, 5)
]


@pytest.mark.thinned(3, keep=["8-4-5"])
@pytest.mark.parametrize(("size", "length", "steps"), SMALL)
def test_the_profile_is_that_of_the_worst_places(size, length, steps):
    # Tiers from where the profile is concave on all that can be kept to where it is convex.
    steps = min(steps, size)
    found, places = law(steps, length, size), oracle.supports(size, steps)
    for scale, epsilon in itertools.product((0.3, 0.7, 1.5, 4.0), (0.0, 0.4, 2.0)):
        truth = oracle.profile(places, length, scale, epsilon)
        stated = found.at(scale).delta(epsilon)
        assert truth * (1 - 1e-11) <= stated <= truth * (1 + 1e-9) + 1e-250
    for scale, alpha in itertools.product((0.7, 2.0), (1.5, 4.0)):
        truth = oracle.renyi(places, length, scale, alpha)
        assert truth * (1 - 1e-11) <= found.at(scale).renyi(alpha) <= truth * (1 + 1e-9)


def one_setting(rng):
    """Draw a setting, and check every view of its loss against all that can be. Returns the largest δ seen over δ."""
    size = int(rng.integers(3, 11))
    length = int(rng.integers(2, size + 1))
    cap, replaced = int(rng.integers(1, min(size, 4) + 1)), bool(rng.random() < 0.2)
    people, step_cap = (2, 1) if rng.random() < 0.15 else (1, int(rng.integers(1, 3)))
    influence = influence_of(cap, size, replaced=replaced, individuals=people, step_cap=step_cap)
    places = oracle.supports(size, cap) * step_cap
    if replaced or people == 2:
        # Every sum, or difference, of two people; a few of them, where there are many.
        sign = -1.0 if replaced else 1.0
        pairs = rng.integers(len(places), size=(60, 2))
        changes = np.concatenate([places[pairs[:, 0]] + sign * places[pairs[:, 1]], places * (1 if replaced else 2)])
    else:
        changes = places
    if rng.random() < 0.5:
        taps = np.sort(rng.integers(0, 2**10, size=size))[::-1]
        if rng.random() < 0.7:  # symmetric and decreasing, else any
            taps = taps[np.minimum(np.arange(size), size - np.arange(size))]
        kernel = Kernel(taps.astype(np.int64), 10)
        influence = filtered_influence(influence, kernel)
        matrix = np.array([[taps[(t - s) % size] for s in range(size)] for t in range(size)]) / 2**10
        changes = changes @ matrix.T
    found = extremal_law(influence, 1 / length, size, "stratified")
    scale = float(np.abs(changes).max() * 10 ** rng.uniform(-0.7, 0.8)) or 1.0
    epsilon, alpha = float(10 ** rng.uniform(-2, 0.6)), float(1 + 10 ** rng.uniform(-1, 0.8))
    loss, failure = found.at(scale), float(10 ** rng.uniform(-3, -0.1))
    stated, truth = loss.delta(epsilon), oracle.profile(changes, length, scale, epsilon)
    assert stated >= truth * (1 - 1e-10) - 1e-14
    assert loss.renyi(alpha) >= oracle.renyi(changes, length, scale, alpha) * (1 - 1e-10)
    squared, attained = found.quantile(failure)
    assert attained <= failure
    assert oracle.tail(changes, length, squared) <= attained * (1 + 1e-9)
    for bound in (found.increasing, *found.convex):
        assert float(bound.weights @ bound.values) >= (changes**2).sum(axis=1).max() / length * (1 - 1e-10)
    left = changes**2 @ oracle.kept_sets(size, length).T
    for value in np.unique(left)[:: max(1, left.size // 40)]:
        above = found.increasing.weights[found.increasing.values >= value * (1 - 1e-10)].sum()
        assert above >= np.max(np.mean(left >= value * (1 + 1e-10), axis=1)) * (1 - 1e-9)
    return truth / stated if stated > 1e-12 else 0.0


def settings(count, seed):
    rng = np.random.default_rng(seed)
    closest = max(one_setting(rng) for _ in range(count))
    assert 0.999 < closest < 1 + 1e-9


def test_no_view_is_below_the_truth_at_random():
    settings(150, seed=1)


@pytest.mark.long
def test_no_view_is_below_the_truth_in_ten_thousand_settings():
    settings(10_000, seed=2)


def test_a_poisson_samples_exact_profile_is_no_bound():
    # Ten steps in one block are caught for certain, where a Poisson sample misses them with probability .9**10.
    size, steps, length, scale, epsilon = 20, 10, 10, 0.2, 0.1
    truth = oracle.profile(np.array([[1.0] * steps + [0.0] * steps]), length, scale, epsilon)
    poisson = extremal_law(influence_of(steps, size), 1 / length, size).at(scale).delta(epsilon)
    assert poisson < truth / 1.49
    assert law(steps, length, size).at(scale).delta(epsilon) >= truth
    # Nor for increasing functions of any kind: the number kept itself.
    increasing = law(steps, length, size).increasing
    assert increasing.weights[increasing.values >= 1.0].sum() >= 1.0


@pytest.mark.parametrize(("size", "length", "steps"), [(12, 4, 7), (14, 4, 9), (13, 5, 13), (11, 3, 4)])
def test_the_list_and_the_even_spread_are_of_spreads_that_are_possible(size, length, steps):
    blocks = Blocks(size, length)
    most_even = None
    for spread in [*sampling.spreads(steps, blocks), sampling.even_spread(steps, blocks)]:
        each = sorted((k for count, k in spread for _ in range(count)), reverse=True)
        assert sum(each) == steps
        assert len(each) <= blocks.count
        assert max(each) <= length
        if len(each) == blocks.count and blocks.short:
            assert min(each) <= blocks.short
        most_even = sum(k * k for k in each)
    assert most_even <= min(
        sum(k * k for count, k in spread for _ in range(count)) for spread in sampling.spreads(steps, blocks)
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("steps", "size", "sigma"), [(73, 725, 17.430530850), (180, 1800, 26.085968543)])
def test_scales_of_the_papers_series_are_those_of_poisson_samples(steps, size, sigma):
    budget = Budget(epsilon=0.5, delta=1e-4)
    found = calibrate(law(steps, 10, size).at, budget)
    assert found == pytest.approx(sigma, rel=1e-9)
    assert found == pytest.approx(calibrate(extremal_law(influence_of(steps, size), 0.1, size).at, budget), rel=1e-12)


def test_more_steps_than_blocks_lose_less_than_in_a_poisson_sample():
    # At the extreme somebody is there in every step: just one of them is kept of each block.
    everywhere = law(60, 10, 60)
    assert everywhere.at(8.0).renyi(2.0) == pytest.approx(2 * 6 / 2 / 64, rel=1e-12)
    assert everywhere.at(8.0).renyi(2.0) < extremal_law(influence_of(60, 60), 0.1, 60).at(8.0).renyi(2.0)
    assert everywhere.at(8.0).zero_concentrated(1e-9) == (6 / 128, 0.0)


def test_a_long_list_is_bounded_by_a_convex_majorant_closely(monkeypatch):
    found = {}
    for most in (2**19, 1):
        monkeypatch.setattr(sampling, "_MAX_WEIGHTS", most)
        sampling.worst_spreads.cache_clear()
        found[most] = law(60, 10, 600).at(4.74).delta(0.5)
    assert found[2**19] < found[1] < found[2**19] * 1.01
    sampling.worst_spreads.cache_clear()


@pytest.mark.parametrize("trials", [[(3, 0.2)], [(5, 0.5), (4, 0.1)], [(2, 1.0), (6, 0.3), (1, 0.9)], [(2, 1.0)]])
def test_sums_of_trials_are_from_above_and_close(trials):
    exact = [Fraction(1)]
    for p in [Fraction(p) for n, p in trials for _ in range(n)]:
        padded = [Fraction(0), *exact, Fraction(0)]
        exact = [padded[k + 1] * (1 - p) + padded[k] * p for k in range(len(exact) + 1)]
    values, weights = trials_sum(trials)
    for k in range(len(exact)):
        tail, stated = float(sum(exact[k:])), float(weights[values >= k].sum())
        assert tail * (1 - 1e-15) <= stated <= tail * (1 + 1e-9)


def test_tails_of_increasing_functions_hold_for_every_spread():
    # All spreads of n steps over blocks of 4, with a short one of 3, and the tail of each.
    blocks = Blocks(15, 4)
    for steps in range(1, 16):
        kept = subsampled._kept_count_of_blocks(steps, blocks)
        for spread in itertools.product(range(5), range(5), range(5), range(4)):
            if sum(spread) == steps:
                values, weights = trials_sum([(1, n / 4) for n in spread if n > 0])
                for k in range(5):
                    assert float(weights[values > k].sum()) <= kept.tail(k) * (1 + 1e-9) + 1e-290


def test_the_joint_loss_of_several_releases_is_not_below_the_truth():
    # Of two releases of six steps in blocks of three: all places in both, and all pairs of kept sets.
    kept = oracle.kept_sets(6, 3).T
    left = [oracle.supports(6, steps) @ kept for steps in (2, 3)]
    for first, second, epsilon in itertools.product((0.4, 2.0), (0.6, 3.0), (0.1, 1.0)):
        squares = left[0][:, None, :, None] / first**2 + left[1][None, :, None, :] / second**2
        truth = np.max(np.mean(oracle.gaussian_profile(epsilon, np.sqrt(squares)), axis=(2, 3)))
        losses = [law(2, 3, 6).at(first), law(3, 3, 6).at(second)]
        in_advance = joint_loss(losses, adaptivity="non-adaptive").delta(epsilon)
        assert truth * (1 - 1e-10) <= in_advance <= joint_loss(losses).delta(epsilon) * (1 + 1e-9)
        assert in_advance < 1.3 * truth  # a bound, which is close where steps are many


def test_norms_alone_allow_one_step_and_all_of_them():
    influence = Influence(l0=9, l2=1.5, linf=1.0)
    found = extremal_law(influence, 1 / 3, 9, "stratified")
    changes = np.array([[1.0, 1.0, 0.5, *[0.0] * 6], [1.0, 0, 0, 1.0, 0, 0, 0.5, 0, 0]])
    for scale, epsilon in itertools.product((0.3, 1.0, 3.0), (0.1, 1.0)):
        assert found.at(scale).delta(epsilon) >= oracle.profile(changes, 3, scale, epsilon) * (1 - 1e-11)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 12, 49, 288, 10_007])
def test_a_float_names_its_blocks(length):
    for p in (1 / length, math.nextafter(1 / length, 2)):
        if Fraction(p) >= Fraction(1, length) or p == 1 / length:
            blocks = blocks_of(p, 10_007) if p == 1 / length or p == Blocks(1, length).probability else None
            assert blocks in (None, Blocks(10_007, length))
    stated = Blocks(10_007, length).probability
    assert Fraction(stated) >= Fraction(1, length)
    assert blocks_of(stated, 10_007).probability == stated


@pytest.mark.parametrize(("p", "size", "message"), [
    (0.15, 100, "sampling_probability"),
    (0.7, 100, r"sampling_probability.*1.*1.*1.*2"),
    (0.0, 100, r"sampling_probability.*1.*100.*1.*100"),
    (0.1, 9, "sampling_probability"), (5e-324, 9, "sampling_probability"), (1.5, 9, r"sampling_probability.*1"),
])  # fmt: skip
def test_a_probability_that_leaves_no_blocks_is_refused(p, size, message):
    refuses(message, blocks_of, p, size)


@pytest.mark.parametrize("name", ["Poisson", "blocks", None, 1, ["poisson"]])
def test_a_design_that_is_not_known_is_refused(name):
    refuses(r"sampling.*'poisson'.*'stratified'", sample_of, 0.5, name, 10)


def test_samples_are_told_from_others():
    blocks = Blocks(10, 4)
    for kept, allowed in [([0, 4], True), ([3, 7, 9], True), ([0], False), ([0, 1, 4], False), ([0, 4, 8, 9], False)]:
        assert blocks.allow(np.array(kept)) == allowed
    assert not blocks.allow(np.array([], dtype=np.int64))
