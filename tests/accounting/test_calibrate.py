"""The one search for scales: what it returns is within the budget, hardly less is not, and doubt is refused."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import mpmath as mp
import pytest

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.subsampled import MIN_SCALE, extremal_law
from opendp_timeseries.design.kernels import gaussian_kernel
from tests.make import influence_of
from tests.oracles import accounting as oracle
from tests.refused import refuses


def law(cap, p, *, std=0, size=1800):
    influence = influence_of(cap, size)
    if std:
        influence = filtered_influence(influence, gaussian_kernel(size, std))
    return extremal_law(influence, p, size)


def jointly(losses, *, adaptivity="non-adaptive"):
    return lambda factor: joint_loss(losses, adaptivity=adaptivity, factor=factor)


# --- budgets ---


@pytest.mark.parametrize(("given", "message"), [
    ({"delta": 1e-6}, "a budget"),
    ({"epsilon": 1.0, "rho": 1.0, "delta": 1e-6}, "a budget"),
    ({"epsilon": 1.0}, "delta"),
    ({"epsilon": -1.0, "delta": 1e-6}, "epsilon"),
    ({"epsilon": math.nan, "delta": 1e-6}, "epsilon"),
    ({"epsilon": 1.0, "delta": 0.0}, "delta"),
    ({"epsilon": 1.0, "delta": 1.0}, "delta"),
    ({"rho": -0.1, "delta": 1e-6}, "rho"),
    ({"rho": 0.1, "delta": 1.0}, "failure_probability"),
])  # fmt: skip
def test_budgets_are_checked_when_they_are_made(given, message):
    refuses(message, Budget, **given)


def test_a_budget_in_words_reads_back_exactly():
    assert str(Budget(epsilon=1, delta=1e-6)) == "(ε = 1, δ = 1e-06)"
    assert str(Budget(rho=0.1, delta=1e-6)) == "(ρ = 0.1, δ′ = 1e-06)"
    assert str(Budget(rho=0.1)) == "(ρ = 0.1)"
    assert str(Budget(epsilon=1.0000000001, delta=1e-320)) == "(ε = 1.0000000001, δ = 1e-320)"


def test_a_budget_admits_what_is_within_it_in_each_view():
    loss = law(180, 0.1).at(26.0)
    epsilon = loss.epsilon(1e-4)
    assert Budget(epsilon=epsilon, delta=1e-4).admits(loss)
    assert not Budget(epsilon=epsilon * (1 - 1e-9), delta=1e-4).admits(loss)
    assert not Budget(epsilon=epsilon, delta=1e-4 * (1 - 1e-9)).admits(loss)
    rho, _ = loss.zero_concentrated(1e-4)
    assert Budget(rho=rho, delta=1e-4).admits(loss)
    assert not Budget(rho=rho * (1 - 1e-15), delta=1e-4).admits(loss)


# --- the search ---

LOSSES = {
    "a count": law(180, 0.1).at,
    "a filtered count": law(180, 0.1, std=10).at,
    "a stratified sample": extremal_law(influence_of(180, 1800), 0.1, 1800, "stratified").at,
    "equal releases": jointly([law(30, 0.2, size=744).at(1.0)] * 12),
    "unequal releases": jointly([law(30, 0.2, std=5, size=300).at(3.0), law(9, 0.5, size=99).at(0.25)]),
    "adaptive releases": jointly(
        [law(30, 0.2, std=5, size=300).at(3.0), law(9, 0.5, size=99).at(0.25)], adaptivity="adaptive"
    ),
    "nearly never": law(3, 1e-4).at,
}
BUDGETS = [
    *(
        Budget(epsilon=epsilon, delta=delta)
        for epsilon, delta in ((0.5, 1e-4), (0.0, 1e-3), (1e-3, 1e-6), (20.0, 1e-9))
    ),
    *(Budget(rho=rho, delta=delta) for rho, delta in ((0.1, 1e-6), (1e-9, 1e-3))),
]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", LOSSES)
def test_the_least_factor_is_enough_and_hardly_less_is_not(name):
    for budget in BUDGETS:
        loss_at = LOSSES[name]
        factor = calibrate(loss_at, budget)
        assert budget.admits(loss_at(factor))
        if factor > MIN_SCALE:
            assert not budget.admits(loss_at(factor * (1 - 1e-9)))


@pytest.mark.parametrize("name", ["a count", "equal releases"])
def test_it_does_not_matter_where_the_search_starts(name):
    for budget in BUDGETS:
        found = [calibrate(LOSSES[name], budget, start=start) for start in (1.0, 2.0**-40, 1e9)]
        assert found == [pytest.approx(found[0], rel=1e-11)] * 3


def test_the_noise_of_a_gaussian_mechanism():
    # One step, always kept: the closed profile.
    factor = calibrate(law(1, 1.0).at, Budget(epsilon=0.5, delta=1e-6))
    for way, scale in ((1, factor), (-1, factor * (1 - 1e-11))):
        assert way * (oracle.gaussian_profile(0.5, 1 / mp.mpf(scale) ** 2) - mp.mpf(1e-6)) <= 0


def test_a_number_is_met_from_above_to_twelve_digits():
    falling = lambda x: 1 / x, lambda x: 1e-3 * math.exp(-x)
    for falls, edge, start in itertools.product(falling, (1e-200, 0.3, 77.0, 1e200), (1.0, 1e-3)):
        asked = []
        found = calibrate(lambda factor: asked.append(factor) or falls(factor / edge), falls(1.0), start=start)  # noqa: B023
        assert edge <= found <= edge * (1 + (2e-11 if abs(math.log(edge)) > 10 else 2e-12))
        assert found in asked  # it was seen to hold
        assert len(asked) < 80
    assert calibrate(lambda _: 0.0, 1e-6) < 1e-290
    refuses("budget", calibrate, lambda _: 1.0, 1e-6)
    refuses("epsilon", calibrate, lambda _: 1.0, 1e-6, refusal=Refusal("epsilon", 0.0, "is used up"))


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_bound_and_a_start_are_above_0(bound):
    refuses("budget", calibrate, lambda factor: 1 / factor, bound)
    for budget in (1e-6, Budget(rho=1.0, delta=0.0)):
        refuses("start", calibrate, law(1, 1.0).at, budget, start=bound)


def test_few_losses_are_asked_for():
    # A joint law may take a second.
    for name, budget in itertools.product(("equal releases", "unequal releases", "adaptive releases"), BUDGETS[:1]):
        asked = []
        calibrate(lambda factor: asked.append(factor) or LOSSES[name](factor), budget)  # noqa: B023
        assert len(asked) <= 6


def test_what_is_never_enough_is_refused():
    unbounded = extremal_law(Influence(l0=3, l2=math.inf, linf=math.inf), 0.5, 3)
    for loss_at in (unbounded.at, jointly([unbounded.at(1.0), law(3, 0.5).at(1.0)])):
        for budget in (Budget(epsilon=1.0, delta=1e-6), Budget(rho=1.0, delta=1e-6)):
            refuses("budget", calibrate, loss_at, budget)


def test_a_loss_that_jumps_is_refused_or_met():
    # A broken loss, which never says the same twice: no guess leaves the search.
    worse = itertools.count(2)
    refuses(
        "budget",
        lambda: calibrate(lambda factor: law(180, 0.1).at(factor / next(worse) ** 3), Budget(epsilon=0.5, delta=1e-4)),
    )


def test_where_any_noise_does_hardly_any_is_asked_for():
    rare = law(3, 1e-9)
    unbounded = extremal_law(Influence(l0=1, l2=math.inf, linf=math.inf), 1e-9, 10)
    for budget in (Budget(epsilon=1.0, delta=1e-6), Budget(rho=1.0, delta=1e-6)):
        for loss_at in (rare.at, unbounded.at, jointly([rare.at(1.0)] * 3), jointly([rare.at(1.0), unbounded.at(2.0)])):
            assert calibrate(loss_at, budget) == MIN_SCALE
            assert budget.admits(loss_at(MIN_SCALE))


def test_a_budget_is_kept_in_both_forms_in_which_a_loss_is_stated():
    budget = Budget(epsilon=1.0, delta=1e-6)
    for delta, epsilon, within in ((1e-6, 1.0, True), (1.1e-6, 1.0, False), (1e-6, 1.1, False)):
        loss = SimpleNamespace(delta=lambda _, delta=delta: delta, epsilon=lambda _, epsilon=epsilon: epsilon)
        assert budget.admits(loss) is within
