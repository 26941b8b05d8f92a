"""The privacy loss distribution for dp_accounting agrees with our profile and with theirs."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_timeseries.accounting import loss
from opendp_timeseries.accounting.conversions import _lower_convex_hull
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.kernels import gaussian_kernel
from tests.make import influence_of
from tests.refused import refuses

theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")


LAWS = {
    "count": (extremal_law(influence_of(180, 1800), 0.1, 1800), 26.0),
    "filtered": (extremal_law(filtered_influence(influence_of(20, 1800), gaussian_kernel(1800, 10)), 0.1, 1800), 7.0),
    "pair": (extremal_law(influence_of(12, 60, individuals=2), 0.3, 60), 8.0),
    "small": (extremal_law(influence_of(3, 6), 0.5, 6), 0.7),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", LAWS)
def test_equal_to_the_profile_at_grid_points_and_never_below(name):
    law, scale = LAWS[name]
    pld = law.at(scale).distribution(discretization=1e-2)
    for epsilon in (0.0, 0.25, 0.5, 1.0, 2.0):
        exact = law.at(scale).delta(epsilon)
        assert exact * (1 - 1e-9) - 1e-14 <= pld.get_delta_for_epsilon(epsilon) <= exact * (1 + 1e-6) + 1e-14
    between = 0.505
    assert pld.get_delta_for_epsilon(between) >= law.at(scale).delta(between) * (1 - 1e-9) - 1e-14


def test_composes_like_the_joint_law():
    law, scale = LAWS["count"]
    pld = law.at(scale).distribution(discretization=1e-3)
    joint = extremal_law(influence_of(360, 3600), 0.1, 3600)
    for epsilon in (0.25, 0.5, 1.0):
        exact = joint.at(scale).delta(epsilon)
        assert exact * (1 - 1e-9) <= pld.compose(pld).get_delta_for_epsilon(epsilon) <= exact * (1 + 1e-3)


def test_composes_with_their_laplace_mechanism():
    law, scale = LAWS["count"]
    both = law.at(scale).distribution().compose(theirs.from_laplace_mechanism(10.0, value_discretization_interval=1e-3))
    assert both.get_delta_for_epsilon(0.5) >= law.at(scale).delta(0.5)
    assert both.get_delta_for_epsilon(0.6) <= law.at(scale).delta(0.5) * (1 + 1e-6)  # basic composition: ε + 0.1


def test_is_made_from_the_view_that_pays_for_discrete_noise(monkeypatch):
    made = []
    monkeypatch.setattr(loss, "privacy_loss_distribution", lambda profile, *_: made.append(profile))
    law, scale = LAWS["count"]
    law.at(scale).distribution()
    for epsilon in (0.0, 0.5, 2.0):
        assert made[0](epsilon) == law.at(scale).delta(epsilon)


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.long)])
def test_the_hull_is_never_below_the_exact_hull(times):
    rng = np.random.default_rng(0)
    for _ in range(times):
        x = np.exp(np.linspace(-2, 0, 30))
        y = (1 - x) ** 2 + 0.05 * rng.random(30)
        points = [(Fraction(a), Fraction(b)) for a, b in zip(x, y, strict=True)]
        hull = _lower_convex_hull(x, y)
        for (at, height), got in zip(points, hull, strict=True):
            # The least over all chords that span the point, and the point itself.
            chords = [b + (at - a) / (c - a) * (d - b) for a, b in points for c, d in points if a < at < c]
            assert min([height, *chords]) <= Fraction(got)


def test_refusals():
    law, _ = LAWS["small"]
    refuses("scale", law.at(0.0).distribution)
    refuses("discretization", law.at(0.7).distribution, discretization=1e-9)
    refuses("the profile", law.at(0.01).distribution)
    assert not math.isinf(law.at(5.0).distribution().get_epsilon_for_delta(1e-6))
