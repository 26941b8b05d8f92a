"""Privacy loss distributions of measurements agree with their profiles, and with dp_accounting's own."""

import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin.conversions import privacy_loss_distribution
from tests.refused import refuses

theirs = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
dp.enable_features("contrib", "honest-but-curious")
EVENTS = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
COUNT = EVENTS >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=9)
FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def test_a_measurement_without_sampling_is_their_gaussian_mechanism():
    release = COUNT >> ts.then_subsampled_gaussian(scale=4.0, sampling_probability=1.0)
    ours = privacy_loss_distribution(release, 2, discretization=1e-2)
    gaussian = theirs.from_gaussian_mechanism(4.0, sensitivity=6.0, value_discretization_interval=1e-2)
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(gaussian.get_delta_for_epsilon(epsilon), rel=1e-3)


def test_a_profile_of_opendp_becomes_a_distribution_that_is_never_below():
    profile = dp.c.make_zCDP_to_approxDP(FLOAT >> dp.m.then_gaussian(2.0))
    ours = privacy_loss_distribution(profile, 1.0, discretization=1e-2, tail=1e-9)
    for epsilon in (0.0, 0.5, 1.0):
        claimed = profile.map(1.0).delta(epsilon)
        # Between grid points, and where the claimed profile is not convex, it lies below what was claimed.
        assert ours.get_delta_for_epsilon(epsilon) <= claimed * (1 + 1e-6)
        truth = theirs.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
        assert ours.get_delta_for_epsilon(epsilon) >= truth.get_delta_for_epsilon(epsilon) * (1 - 1e-3)


def test_only_a_profile_becomes_a_distribution():
    refuses("output_measure", lambda: privacy_loss_distribution(FLOAT >> dp.m.then_gaussian(2.0), 1.0), error=TypeError)
    release = COUNT >> ts.then_subsampled_gaussian(scale=4.0, sampling_probability=0.1)
    refuses("tail", privacy_loss_distribution, release, tail=0.0)
