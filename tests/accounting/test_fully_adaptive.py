"""A privacy filter holds whatever is chosen next; the joint law does not."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.conversions import order_cost, renyi_to_delta
from opendp_timeseries.accounting.joint import FilteredLoss, filter_order, joint_loss
from opendp_timeseries.accounting.subsampled import extremal_law
from tests.make import influence_of
from tests.oracles.adaptive import renyi, worst_delta

EPSILON, DELTA = 1.0, 1e-3
ORDER = filter_order(EPSILON, DELTA)
ONE_STEP = influence_of(1, 1)


def loss(p, u):
    """The loss of one step, kept with probability p, at the squared distance u in units of the noise."""
    return extremal_law(ONE_STEP, p, 1).at(1 / math.sqrt(u))


def by_the_filter(chosen):
    return FilteredLoss.of((loss(p, u) for p, u in chosen), ORDER)


def allowed_by_the_filter(chosen):
    return by_the_filter(chosen).delta(EPSILON) <= DELTA


def allowed_by_the_joint_law(chosen):
    return joint_loss([loss(p, u) for p, u in chosen]).delta(EPSILON) <= DELTA


#: Behind a kept step, noise that is as small as the joint law allows; else, one that rarely tells all.
TRAP = [(0.5, 0.09), (1.0, 0.0863), (9.7e-4, 1e4)]


def test_noise_that_is_chosen_by_what_was_kept_beats_the_joint_law_and_not_the_filter():
    for second in TRAP[1:]:
        assert allowed_by_the_joint_law((TRAP[0], second))
    assert worst_delta(TRAP, allowed_by_the_joint_law, EPSILON, 2) > 1.4 * DELTA
    assert worst_delta(TRAP, allowed_by_the_filter, EPSILON, 3) <= DELTA


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.long) for k in range(3, 60))])
def test_no_strategy_exceeds_the_budget(seed):
    rng = np.random.default_rng(seed)
    menu = [
        (float(p), float(u))
        for p, u in zip(rng.choice([1e-4, 0.01, 0.3, 1.0], 4), 10 ** rng.uniform(-3, 1, 4), strict=True)
    ]
    found = worst_delta(menu, allowed_by_the_filter, EPSILON, 4)
    assert found <= DELTA
    assert found > 0 or not any(allowed_by_the_filter((one,)) for one in menu)


def stated_by_the_filter(chosen):
    return by_the_filter(chosen).epsilon(DELTA)


def stated_by_the_joint_law(chosen):
    return joint_loss([loss(p, u) for p, u in chosen]).epsilon(DELTA) if chosen else 0.0


def anything(chosen):
    return True


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 40))])
def test_what_is_stated_when_somebody_chose_to_end_holds(seed):
    rng = np.random.default_rng(seed)
    menu = TRAP[:2] + [(float(10 ** rng.uniform(-4, 0)), float(10 ** rng.uniform(-3, 1))) for _ in range(2)]
    found = worst_delta(menu, anything, stated_by_the_filter, 3)
    assert 0 < found <= DELTA


def test_what_the_joint_law_states_when_somebody_chose_to_end_does_not_hold():
    assert worst_delta(TRAP, allowed_by_the_joint_law, stated_by_the_joint_law, 2) > 1.4 * DELTA


def test_divergences_add_up_from_above():
    parts = [((0.5, 0.02), 3), ((1.0, 0.001), 10**5), ((1e-6, 7.0), 1)]
    exact = mp.fsum(count * mp.mpf(renyi(ORDER, p, u)) for (p, u), count in parts)
    got = FilteredLoss.of((one for part, count in parts for one in [loss(*part)] * count), ORDER)
    assert exact * (1 - 1e-12) <= got.divergence <= exact * (1 + 1e-9)


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=6), st.randoms())
def test_the_order_of_releases_changes_no_digit(distances, random):
    chosen = [(0.5, u) for u in distances]
    divergence = by_the_filter(chosen).divergence
    random.shuffle(chosen)
    assert by_the_filter(chosen).divergence == divergence


@given(st.floats(1e-3, 20.0), st.floats(1e-12, 0.3), st.floats(0.0, 3.0))
def test_epsilon_is_the_least_that_the_order_gives(epsilon, delta, share):
    order = filter_order(epsilon, delta)
    assert order > 1
    room = epsilon - (order_cost(order) - math.log(delta)) / (order - 1)
    spent = FilteredLoss(order, share * room if room > 0 else share)
    if spent.divergence > 0:
        found = spent.epsilon(delta)
        assert renyi_to_delta(order, spent.divergence, found) <= delta
        assert found == 0 or renyi_to_delta(order, spent.divergence, found - 1e-9 * max(1.0, found)) > delta
        assert spent.delta(epsilon) > delta or found <= epsilon * (1 + 1e-9)
    assert FilteredLoss(order, 0.0).epsilon(delta) == FilteredLoss(order, 0.0).delta(epsilon) == 0.0
    assert FilteredLoss(order, math.inf).delta(epsilon) == 1.0


@pytest.mark.parametrize("delta", [5e-324, 1e-310])
def test_a_delta_below_what_floats_resolve_admits_nothing(delta):
    spent = FilteredLoss(filter_order(1.0, delta), 1e-9)
    assert spent.epsilon(delta) == math.inf
    assert spent.delta(1.0) > delta


@pytest.mark.parametrize(("steps", "p", "more"), [(30, 0.2, 0.09), (40, 1.0, 0.08), (1000, 0.01, 0.10)])
def test_the_filter_costs_so_much_more_noise(steps, p, more):
    """Twelve months of 30 steps or so within (1, 1e-6), against the joint law."""
    person = influence_of(steps, 1000)
    law, order = extremal_law(person, p, 1000), filter_order(1.0, 1e-6)
    year = influence_of(12 * steps, 12_000)
    least = calibrate(extremal_law(year, p, 12_000).at, Budget(epsilon=1.0, delta=1e-6))
    assert FilteredLoss.of([law.at(least)] * 12, order).delta(1.0) > 1e-6
    assert FilteredLoss.of([law.at(least * (1 + more))] * 12, order).delta(1.0) <= 1e-6
