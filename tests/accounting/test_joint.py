"""The joint loss of several releases: exact where it says so, never below the truth anywhere."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest

from opendp_timeseries.accounting import joint
from opendp_timeseries.accounting import loss as loss_module
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.conversions import delta_from_renyi
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.joint import FilteredLoss, joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.kernels import gaussian_kernel
from tests.make import influence_of
from tests.oracles import accounting as oracle
from tests.oracles import joint as joint_oracle
from tests.refused import refuses

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def least_factor(losses, epsilon, delta, adaptivity="adaptive"):
    start = 1 / min(loss.scale for loss in losses)
    budget = Budget(epsilon=epsilon, delta=delta)
    return calibrate(lambda factor: joint_loss(losses, adaptivity=adaptivity, factor=factor), budget, start=start)


def count(cap, p, scale, *, step_cap=1, size=None):
    size = size or cap
    person = influence_of(cap, size, step_cap=step_cap)
    return extremal_law(person, p, size).at(scale)


def filtered(cap, p, scale, *, size=744, std=10.0):
    person = influence_of(cap, size)
    return extremal_law(filtered_influence(person, gaussian_kernel(size, std)), p, size).at(scale)


def lattice(monkeypatch):
    """Make every sum on the lattice."""
    monkeypatch.setattr(joint, "_MAX_ATOMS", 1)


def just_above(got, truth, close=1e-6):
    assert truth <= got * (1 + mp.mpf(10) ** -40), (got, truth)
    assert got <= truth * (1 + mp.mpf(close)) + mp.mpf(10) ** -290, (got, truth)


# --- figures that were computed by other code, in other arithmetic ---

MONTHS = {1: 12.186717, 4: 21.921271, 12: 36.632567, 52: 75.018873}


@pytest.mark.parametrize("n", [1, 4, *(pytest.param(n, marks=pytest.mark.long) for n in (12, 52))])
def test_the_least_scale_of_equal_releases_is_the_least_and_enough(n):
    factor = least_factor([count(30, 0.2, 1.0)] * n, 1.0, 1e-6)
    assert factor == pytest.approx(MONTHS[n], rel=1e-7)
    # Kept steps of all are one binomial number.
    law = [(k, w) for k, w in oracle.binomial_law(30 * n, 0.2) if w > mp.mpf(10) ** -40]
    assert oracle.profile(law, 1, factor) <= 1e-6 < oracle.profile(law, 1, factor * (1 - 1e-6))
    assert joint_loss([count(30, 0.2, factor)] * n).epsilon(1e-6) <= 1.0


UNEQUAL = [count(180, 0.1, 40.0), count(20, 0.5, 15.0)]


@pytest.mark.parametrize("where", ["one by one", "on the lattice"])
def test_two_unequal_releases(monkeypatch, where):
    if where == "on the lattice":
        lattice(monkeypatch)
    loss = joint_loss(UNEQUAL)
    for epsilon, truth in [(0.25, 0.019823148816), (0.5, 0.0020350942744), (1.0, 2.6125198805e-06)]:
        assert 1 - 1e-10 <= loss.delta(epsilon) / truth <= 1 + 1e-6
    assert loss.epsilon(1e-6) == pytest.approx(1.0593119, rel=1e-6)
    assert [one.epsilon(1e-6) for one in UNEQUAL] == pytest.approx([0.4574197, 0.9576138], rel=1e-6)


# --- never below the truth, over every kept set ---


def random_influence(rng):
    size = int(rng.integers(2, 6))
    if rng.random() < 0.4:
        kernel = gaussian_kernel(size, float(rng.uniform(0.3, 2)))
        cap = int(rng.integers(1, size + 1))
        person = influence_of(cap, size)
        worst = oracle.sorted_block(kernel.taps.tolist(), cap)
        return filtered_influence(person, kernel), [w for w in worst if w > 0], size
    v = np.sort(rng.integers(1, 5, int(rng.integers(1, size + 1))))[::-1]
    l2 = math.sqrt(float(np.sum(v**2))) * (1 + 1e-15)
    majorant = Majorant(v.astype(float)) if rng.random() < 0.5 else None
    return Influence(l0=len(v), l2=l2, linf=float(v[0]), majorant=majorant), v.tolist(), size


@pytest.mark.parametrize("trials", [5, pytest.param(30, marks=pytest.mark.long)])
def test_never_below_any_kept_sets(monkeypatch, trials):
    rng = np.random.default_rng(20 + trials)
    for trial in range(trials):
        releases, losses = [], []
        for _ in range(int(rng.integers(2, 4))):
            influence, magnitudes, size = random_influence(rng)
            p, scale = float(rng.choice([0.1, 0.5, 0.9, 1.0])), float(rng.uniform(0.5, 8))
            losses.append(extremal_law(influence, p, size).at(scale))
            releases.append(([float(m) ** 2 for m in magnitudes], p, scale))
        if trial % 2:
            lattice(monkeypatch)
        law = joint_oracle.kept_sets_law(releases)
        for adaptivity in ("adaptive", "non-adaptive"):
            loss = joint_loss(losses, adaptivity=adaptivity)
            for epsilon in (0.0, 0.3, 2.0):
                truth = oracle.profile(law, epsilon, 1)
                assert loss.delta(epsilon) >= truth * (1 - mp.mpf(10) ** -12)  # squares above are floats
            for alpha in (1.5, 8.0):
                assert loss.renyi(alpha) >= oracle.renyi(law, alpha, 1) * (1 - mp.mpf(10) ** -12)
            for failure in (0.0, 1e-3, 0.2):
                rho, attained = loss.zero_concentrated(failure)
                assert attained <= failure
                beyond = mp.fsum(w for u, w in law if u > 2 * rho * (1 + 1e-12))
                assert beyond <= attained * (1 + mp.mpf(10) ** -12)


@pytest.mark.parametrize("step", [1e-4, 0.01, 0.3])
def test_a_split_mass_never_has_a_lower_profile(step):
    below = np.arange(40) * step
    for place in (0.1, 0.5, 0.97):
        share = joint._split_for_profiles(below, np.full(40, place), step)
        for scale in (0.5, 1.0, 4.0):
            for epsilon in (0.0, 0.01, 0.5, 4.0):
                for u, s in zip(below[::7], share[::7], strict=True):
                    low, mid, high = (mp.mpf(float(u)) + mp.mpf(step) * mp.mpf(x) for x in (0, place, 1))
                    g = [oracle.gaussian_profile(epsilon, x / mp.mpf(scale) ** 2) for x in (low, mid, high)]
                    assert g[1] <= (1 - mp.mpf(float(s))) * g[0] + mp.mpf(float(s)) * g[2]
        # It is hardly more than what keeps the mean of u, where the step is small beside u.
        assert np.all(share[1:] >= place)
        assert np.all(share[-5:] <= place + step * (0.5 + 1 / (2 * below[-5:])) / 8 * 1.1)


def test_no_mass_is_lost_on_the_lattice(monkeypatch):
    lattice(monkeypatch)
    monkeypatch.setattr(joint, "_CUT", 0.9)
    law = joint_loss([count(30, 0.2, 9.0), count(20, 0.3, 7.0)]).law
    for values, weights in (law.increasing, law._upper_law):
        assert math.fsum(weights) >= 1
        assert values[-1] >= 30 / 81 + 20 / 49
        assert weights[-1] > 1e-5


def test_quantiles_on_the_lattice_are_not_below(monkeypatch):
    lattice(monkeypatch)
    monkeypatch.setattr(joint, "_POINTS", 64)
    releases = [count(7, 0.2, 3.0), count(5, 0.4, 2.0)]
    laws = [(oracle.binomial_law(7, 0.2), 3), (oracle.binomial_law(5, 0.4), 2)]
    truth = joint_oracle.joint_law(laws)
    for failure in (0.3, 0.1, 1e-2, 1e-3, 1e-5, 1e-8):
        rho, attained = joint_loss(releases).zero_concentrated(failure)
        assert (
            mp.fsum(w for u, w in truth if u > 2 * rho * (1 + 1e-15)) <= attained * (1 + mp.mpf(10) ** -30) <= failure
        )


# --- it is what it says: adding up, equal releases, adaptive queries ---


def test_equal_releases_are_one_with_as_many_times_the_cap():
    single = count(10, 0.1, 4.0, size=60)
    many = count(40, 0.1, 4.0, size=240)
    loss = joint_loss([single] * 4)
    for epsilon in EPSILONS:
        assert loss.delta(epsilon) == pytest.approx(many.delta(epsilon), rel=1e-10)
    assert loss.epsilon(1e-6) == pytest.approx(many.epsilon(1e-6), rel=1e-10)
    assert loss.renyi(8.0) == pytest.approx(many.renyi(8.0), rel=1e-12)
    rho, attained = many.zero_concentrated(1e-6)
    assert loss.zero_concentrated(1e-6) == (pytest.approx(rho), pytest.approx(attained))


@pytest.mark.parametrize("n", [2, 7])
def test_equal_filtered_releases_are_a_repeated_one(n):
    person = influence_of(20, 300)
    influence = filtered_influence(person, gaussian_kernel(300, 5.0))
    single = extremal_law(influence, 0.2, 300).at(6.0)
    copies = dataclasses.replace(
        influence,
        l0=n * influence.l0,
        l2=math.sqrt(n) * influence.l2,
        majorant=Majorant(np.repeat(influence.majorant.values, n)),
    )
    many = extremal_law(copies, 0.2, 300 * n).at(6.0)
    loss = joint_loss([single] * n, adaptivity="non-adaptive")
    for delta in (1e-3, 1e-6, 1e-12):
        assert loss.epsilon(delta) == pytest.approx(many.epsilon(delta), rel=1e-5)


def test_precisions_add_up():
    gaussians = [count(4, 1.0, scale) for scale in (3.0, 5.0, 8.0)]
    one = extremal_law(Influence(l0=1, l2=1.0, linf=1.0), 1.0, 1).at((4 / 9 + 4 / 25 + 4 / 64) ** -0.5)
    for epsilon in EPSILONS:
        assert joint_loss(gaussians).delta(epsilon) == pytest.approx(one.delta(epsilon), rel=1e-10)


def test_no_release_is_left_out():
    releases = [count(8, 0.3, 4.0), count(5, 0.5, 3.0), filtered(3, 0.5, 1.0, size=20, std=2.0)]
    for adaptivity in ("adaptive", "non-adaptive"):
        whole = joint_loss(releases, adaptivity=adaptivity)
        for k in range(3):
            rest = joint_loss(releases[:k] + releases[k + 1 :], adaptivity=adaptivity)
            assert whole.delta(0.5) > rest.delta(0.5) * 1.01
            assert whole.renyi(4.0) == pytest.approx(rest.renyi(4.0) + releases[k].renyi(4.0), rel=1e-12)
            assert whole.zero_concentrated(1e-3)[0] > rest.zero_concentrated(1e-3)[0]


def test_a_sum_that_overflows_is_infinite():
    large = [count(1, 1.0, scale) for scale in (8e-155, 9e-155)]  # of which each is just below the largest float
    assert all(math.isfinite(loss.renyi(2.0)) for loss in large)
    whole = joint_loss(large)
    assert (whole.delta(1.0), whole.epsilon(1e-6), whole.renyi(2.0)) == (1.0, math.inf, math.inf)
    assert FilteredLoss.of(large, 2.0).divergence == math.inf


def test_discrete_noise_is_paid_for_once(monkeypatch):
    monkeypatch.setattr(loss_module, "DISCRETE_NOISE", 0.9)  # the true one is invisible beside rounding
    releases = [count(4, 1.0, 3.0), count(4, 1.0, 5.0)]
    truth = oracle.gaussian_profile(0.5, (mp.mpf(4) / 9 + mp.mpf(4) / 25) / mp.mpf(0.9) ** 2)
    just_above(joint_loss(releases).delta(0.5), truth, 1e-10)


def test_a_query_that_follows_the_noise_of_an_earlier_one_is_covered_by_the_adaptive_loss_alone():
    # After a Gaussian at distance 1, one of two queries of ℓ2 norm 1: all in one step, or over 6 steps. What is
    # left of a budget decides which is worse, so choosing by the first release beats both of them fixed.
    p, spread, one = 0.5, [1 / 6] * 6, [1.0]
    first = count(1, 1.0, 1.0)
    second = extremal_law(Influence(l0=6, l2=1.0, linf=1.0), p, 6).at(1.0)
    truth = joint_oracle.adaptive_profile(1.0, [spread, one], p, 1.0)
    fixed = max(joint_oracle.adaptive_profile(1.0, [squares], p, 1.0) for squares in (spread, one))
    in_advance = joint_loss([first, second], adaptivity="non-adaptive").delta(1.0)
    assert fixed <= in_advance < truth * (1 - 1e-3)
    assert truth <= joint_loss([first, second]).delta(1.0)
    # A joint loss keeps what it was granted for when it is joined to others.
    nested = joint_loss([joint_loss([first, second]), count(1, 1.0, 1e3)], adaptivity="non-adaptive")
    assert nested.delta(1.0) >= truth


def test_fixed_queries_lose_no_more_than_adaptive_ones():
    releases = [filtered(20, 0.2, 6.0), filtered(30, 0.1, 5.0), count(10, 0.2, 9.0)]
    fixed, adaptive = joint_loss(releases, adaptivity="non-adaptive"), joint_loss(releases)
    for epsilon in (0.1, 1.0, 3.0):
        assert fixed.delta(epsilon) < adaptive.delta(epsilon)
    assert fixed.renyi(4.0) == adaptive.renyi(4.0) == pytest.approx(sum(one.renyi(4.0) for one in releases))
    assert fixed.zero_concentrated(1e-6)[0] < adaptive.zero_concentrated(1e-6)[0]


def test_adaptive_queries_behind_filters_are_bounded_by_rényi_divergences_too():
    releases = [filtered(20, 0.2, 6.0)] * 3 + [filtered(30, 0.1, 5.0)]
    loss = joint_loss(releases)
    for epsilon in (0.5, 1.0, 3.0):
        by_renyi = delta_from_renyi(loss.renyi, epsilon)
        assert loss.delta(epsilon) == pytest.approx(by_renyi, rel=0.02)
        assert loss.delta(epsilon) >= by_renyi * (1 - 1e-9)
    # Not much worse than what was fixed in advance, where the laws for increasing functions alone are.
    assert loss.epsilon(1e-6) < 1.15 * joint_loss(releases, adaptivity="non-adaptive").epsilon(1e-6)
    alone = dataclasses.replace(releases[0].law, convex=())
    assert joint_loss([alone.at(6.0)] * 4).epsilon(1e-6) > 1.8 * loss.epsilon(1e-6)
    assert joint_loss([count(9, 0.2, 6.0)] * 4).law.log_moments is None


def test_many_rates_are_as_one_by_one_and_take_no_more_memory():
    law = filtered(300, 0.1, 6.0, size=100_000, std=5000.0).law
    assert len(law.squares[0].values) > 10_000
    rates = np.geomspace(1e-3, 1e3, 185)
    one_by_one = [law.log_moment(rates[[k]], 6.0)[0] for k in range(len(rates))]
    tracemalloc.start()
    at_once = law.log_moment(rates, 6.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(at_once, one_by_one)
    assert peak < 5e6  # all rates together: above 100 MB


def test_joint_losses_of_joint_losses():
    a, b, c = count(18, 0.2, 4.0), count(9, 0.5, 5.0), count(5, 1.0, 9.0)
    flat = joint_loss([a, b, c])
    nested = joint_loss([joint_loss([a, b]), c])
    assert nested.delta(0.5) == flat.delta(0.5)
    rescaled = joint_loss([PrivacyLoss(joint_loss([a, b]).law, 2.0), c])
    scaled = joint_loss([PrivacyLoss(a.law, 8.0), PrivacyLoss(b.law, 10.0), c])
    assert rescaled.delta(0.5) == scaled.delta(0.5)


# --- the edges ---


def test_at_the_edges():
    nothing = extremal_law(Influence(l0=3, l2=0.0, linf=0.0), 0.5, 3).at(1.0)
    one = count(8, 0.3, 4.0)
    assert joint_loss([one]) == one
    assert joint_loss([nothing, one, nothing]) == one
    assert joint_loss([nothing, nothing]).delta(0.0) == 0
    assert joint_loss([one, count(3, 0.5, 0.0)]).epsilon_delta(1e-6) == (math.inf, 1e-6)
    unbounded = extremal_law(Influence(l0=3, l2=math.inf, linf=math.inf), 0.5, 3).at(1.0)
    for adaptivity in ("adaptive", "non-adaptive"):
        loss = joint_loss([one, unbounded, filtered(3, 0.5, 1.0, size=20, std=2.0)], adaptivity=adaptivity)
        assert loss.delta(1.0) == 1
        assert loss.epsilon(1e-6) == loss.renyi(2.0) == loss.zero_concentrated(1e-3)[0] == math.inf
    refuses("losses", joint_loss, [])
    refuses("scale", PrivacyLoss, joint_loss([one, one]).law, 0.25)
    refuses(
        "budget",
        lambda: calibrate(
            lambda factor: joint_loss([one, count(3, 0.5, 0.0)], factor=factor), Budget(epsilon=1.0, delta=1e-6)
        ),
    )
    assert least_factor([nothing], 1.0, 1e-6) == 0
    refuses("budget", least_factor, [one, unbounded], 1.0, 1e-6)
    assert least_factor([count(1, 1e-9, 1.0)] * 2, 1.0, 1e-6) < 1e-200


def test_far_tails_are_not_lost():
    loss = joint_loss([count(30, 0.2, 9.0), count(20, 0.3, 7.0)])
    truth = joint_oracle.profile_of_counts([(30, 1, 0.2, 9.0), (20, 1, 0.3, 7.0)], 4.0, digits=80)
    assert mp.mpf(10) ** -45 < truth < mp.mpf(10) ** -12
    just_above(loss.delta(4.0), truth)


@pytest.mark.parametrize("adaptivity", ["fully adaptive", "none", True])
def test_no_joint_loss_is_stated_where_it_is_no_bound(adaptivity):
    refuses(r"adaptivity.*'non-adaptive'.*'adaptive'", joint_loss, [count(1, 1.0, 1.0)] * 2,
            adaptivity=adaptivity)  # fmt: skip


# --- dp_accounting ---


def theirs(releases, width, pessimistic):
    """Compositions by ``dp_accounting`` of ``(I, M, p, σ)``: privacy losses of all kept numbers, rounded up or down."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    pmf = pytest.importorskip("dp_accounting.pld.pld_pmf")
    from scipy.stats import binom, norm

    total = None
    for cap, step_cap, p, scale in releases:
        places, masses = [np.zeros(1, int)], [np.array([(1 - p) ** cap])]
        for k in range(1, cap + 1):
            u = k * (step_cap / scale) ** 2
            low, high = ((u / 2 + side * 9 * math.sqrt(u)) / width for side in (-1, 1))
            edges = np.arange(math.floor(low), math.ceil(high))
            cells = np.diff(norm.cdf((np.append(edges, edges[-1] + 1) * width - u / 2) / math.sqrt(u)))
            places.append(edges + pessimistic)
            masses.append(binom.pmf(k, cap, p) * cells)
        places, masses = np.concatenate(places), np.concatenate(masses)
        values, index = np.unique(places, return_inverse=True)
        sums = np.bincount(index, masses)
        beyond = max(0.0, 1 - float(np.sum(sums))) if pessimistic else 0.0
        one = pmf.create_pmf(dict(zip(values.tolist(), sums.tolist(), strict=True)), width, beyond, pessimistic)
        one = pld.PrivacyLossDistribution(one)
        total = one if total is None else total.compose(one)
    return total


@pytest.mark.parametrize(("trials", "seed"), [(2, 0), pytest.param(197, 1, marks=pytest.mark.long)])
def test_within_the_discretisation_of_dp_accounting(trials, seed):
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        releases = [
            (int(rng.integers(1, 60)), int(rng.integers(1, 4)), float(rng.uniform(0.05, 1)), float(rng.uniform(8, 60)))
            for _ in range(int(rng.integers(2, 6)))
        ]
        loss = joint_loss([count(cap, p, scale, step_cap=m) for cap, m, p, scale in releases])
        below, above = (theirs(releases, 1e-3, pessimistic) for pessimistic in (False, True))
        for epsilon in (0.1, 0.5, 1.0):
            # Their convolutions are by Fourier transforms, which err by some 1e-12 of 1.
            low, high = (their.get_delta_for_epsilon(epsilon) for their in (below, above))
            assert low * (1 - 1e-9) - 1e-10 <= loss.delta(epsilon) <= high * (1 + 1e-6) + 1e-10
            # n releases are rounded to a thousandth each: at most so far apart in ε.
            width = len(releases) * 1e-3
            assert below.get_delta_for_epsilon(epsilon - width) >= loss.delta(epsilon) * (1 - 1e-6) - 1e-10
