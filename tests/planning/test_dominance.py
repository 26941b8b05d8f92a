"""The order of designs after the best linear smoother: docs/proofs/dominance.md, by enumeration of kept sets."""

import itertools

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.planning import plan
from opendp_timeseries.planning.designs import variance_ratio

SIZE = 6
SETS = np.array(list(itertools.product([0, 1], repeat=SIZE)))


def variances(covariance, taps, kept, scale):
    """Of the error at every step, given a kept set: from the joint covariance, not from a sum of precisions."""
    filtered = np.array([np.roll(taps, t) for t in range(SIZE)]).T[kept.astype(bool)]
    seen = filtered @ covariance @ filtered.T + scale**2 * np.eye(len(filtered))
    shared = covariance @ filtered.T
    return np.diag(covariance - shared @ np.linalg.solve(seen, shared.T)) if len(filtered) else np.diag(covariance)


def coins(p):
    return np.prod(np.where(SETS, p, 1 - p), axis=1)


def one_of_each_pair(_):
    """A design with dependence: one step of each of three blocks, so that p is a half."""
    return np.all(SETS.reshape(-1, 3, 2).sum(axis=2) == 1, axis=1) / 8


def both_or_none(p):
    """Steps that are kept together."""
    return np.where(SETS.sum(axis=1) == SIZE, p, 0) + np.where(SETS.sum(axis=1) == 0, 1 - p, 0)


def averages(rng, design, p, ratio):
    """Mean over kept sets of variances and of deviations under sampling, beside those of every step."""
    root = rng.normal(size=(SIZE, SIZE)) * 10.0 ** rng.uniform(-2, 1, size=SIZE)
    covariance, taps = root @ root.T, rng.normal(size=SIZE) * (rng.random(SIZE) < 0.5) + np.eye(SIZE)[0]
    every_scale = 10.0 ** rng.uniform(-1, 1)
    scale = every_scale * np.sqrt(ratio * p)
    chance = design(p)
    sampled = np.array([variances(covariance, taps, kept, scale) for kept in SETS]).clip(0)
    every = variances(covariance, taps, np.ones(SIZE), every_scale).clip(0)
    return (chance @ sampled, every), (chance @ np.sqrt(sampled), np.sqrt(every))


@pytest.mark.parametrize("design", [coins, one_of_each_pair, both_or_none])
def test_every_step_is_at_least_as_accurate_where_the_ratio_is_at_least_one(design):
    rng, violated = np.random.default_rng(5), 0
    for trial in range(20):
        p = 0.5 if design is one_of_each_pair else rng.uniform(0.05, 0.95)
        for sampled, every in averages(rng, design, p, 1 + (trial % 2) * rng.exponential()):
            assert np.all(sampled >= every * (1 - 1e-7) - 1e-9)
        # The broken variant: with a smaller ratio it would be claimed too.
        violated += any(np.any(sampled < every * (1 - 1e-3)) for sampled, every in averages(rng, design, p, 0.1))
    assert violated > 5


@pytest.mark.long
def test_the_ratio_is_at_least_one_for_any_delta_that_means_something():
    def ratios(*caps, epsilon, delta, p):
        sampled, every = (
            plan(
                ts.TimeGrid(size=400), participation_cap=caps, epsilon=epsilon, delta=delta, time_scale=8, deviation=9,
                sampling_probability=probability, std=0.0,
            ).candidates[:-1]
            for probability in (p, 1.0)
        )  # fmt: skip
        assert [each.participation_cap for each in sampled] == list(caps)
        return [variance_ratio(*pair) for pair in zip(sampled, every, strict=True)]

    for epsilon, delta, p in itertools.product((0.1, 1.0, 4.0), (1e-9, 1e-3), (0.05, 0.1, 0.5, 0.9)):
        assert min(ratios(1, 20, 180, epsilon=epsilon, delta=delta, p=p)) >= 1
    # But not for any δ at all.
    assert max(ratios(1, epsilon=2.0, delta=0.0499, p=0.05)) < 0.7


def test_plans_order_designs_so():
    found = plan(
        ts.TimeGrid(size=400), participation_cap=5, epsilon=0.5, delta=1e-4, level=50, season_amplitudes={24: 20},
        deviation=10, time_scale=8, sampling_probability=(0.1, 0.5, 1.0), std=(0.0, 2.0),
    )  # fmt: skip
    *capped, private = found.candidates
    assert private.participation_cap is None
    every = {design.std: design for design in capped if design.sampling_probability == 1}
    for design in capped:
        assert variance_ratio(design, every[design.std]) >= 1
        assert design.smoothed >= every[design.std].smoothed * (1 - 1e-9)
    assert variance_ratio(found.candidates[0], every[0.0]) == pytest.approx(2.556, abs=0.001)
