"""Conversions of a measurement's loss that OpenDP 0.16 lacks (docs/proofs/conversions.md)."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import TypeRefusal
from opendp_timeseries.accounting import conversions
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import privacy_profile
from opendp_timeseries.plugin.mechanisms import PackageMap, noise_part

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


def make_zCDP_to_renyiDP(measurement: dp.Measurement) -> dp.Measurement:  # noqa: N802 (OpenDP's way to name conversions)
    """Return a measurement of the same releases that states a Rényi curve: ``ρ``-zCDP is ``α ↦ ρα``.

    So OpenDP's own Gaussian mechanism composes with a subsampled Gaussian in ``renyi_divergence()``. Source: Bun &
    Steinke (2016), arXiv:1605.02065, Definition 1.1.

    :param measurement: a measurement under ``zero_concentrated_divergence()`` that is not interactive: a release that
        is a queryable fails with a ``TypeError``, and nothing leaves.
    :raises TypeError: for another output measure.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> curve = make_zCDP_to_renyiDP(space >> dp.m.then_gaussian(2.0)).map(1)
    >>> round(curve(3.0), 12)
    0.375
    """
    _check_measure(measurement, dp.zero_concentrated_divergence())

    def privacy_map(d_in: object) -> Callable[[float], float]:
        rho = measurement.map(d_in)

        def divergence(alpha: float) -> float:
            check.real("alpha", alpha, above=1.0)
            return rho if rho in (0, math.inf) else up_fraction(Fraction(rho) * Fraction(alpha))

        return divergence

    return _with_loss(measurement, dp.renyi_divergence(), privacy_map)


def make_renyiDP_to_approxDP(measurement: dp.Measurement) -> dp.Measurement:  # noqa: N802
    """Return a measurement of the same releases that states the privacy profile which its Rényi curve implies.

    At each ``ε`` the best of many orders is taken; every order is valid. Fix δ with ``dp.c.make_fix_delta``.
    Source: Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12.

    :param measurement: a measurement under ``renyi_divergence()`` that is not interactive, such as a composition.
    :raises TypeError: for another output measure.
    """
    _check_measure(measurement, dp.renyi_divergence())

    def privacy_map(d_in: object) -> object:
        curve = measurement.map(d_in)
        return privacy_profile(lambda epsilon: conversions.delta_from_renyi(curve, epsilon))

    return _with_loss(measurement, dp.smoothed_max_divergence(), privacy_map)


def privacy_loss_distribution(
    measurement: dp.Measurement, d_in: object = 1, *, discretization: float = 1e-3, tail: float = 1e-15
) -> "PrivacyLossDistribution":
    """Return a privacy loss distribution for Google's ``dp_accounting`` that dominates a measurement.

    It composes with the distributions of other mechanisms. Its profile meets the measurement's at multiples of
    ``discretization``, and is never below the true one in between. Source: Doroshenko et al. (2022),
    arXiv:2207.04380.

    :param measurement: a measurement under ``smoothed_max_divergence()``, such as the subsampled Gaussian.
    :param d_in: distance between neighbouring inputs, such as the number of individuals.
    :param discretization: width of the grid of privacy losses, positive.
    :param tail: mass in (0, 1) that may move to an infinite loss.
    :return: a ``dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution``.
    :raises ImportError: without ``dp_accounting``, naming the extra to install.
    :raises TypeError: for another output measure.
    :raises ValueError: for a number out of range, or for losses that take more than a million points.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10, excess="drop")
    >>> release = count >> ts.then_subsampled_gaussian(scale=6.0, sampling_probability=0.1)
    >>> week = privacy_loss_distribution(release, discretization=0.01).self_compose(7)
    >>> round(week.get_epsilon_for_delta(1e-6), 2)
    2.39
    """
    _check_measure(measurement, dp.smoothed_max_divergence())
    return conversions.privacy_loss_distribution(measurement.map(d_in).delta, discretization, tail)


def _check_measure(measurement: dp.Measurement, measure: dp.Measure) -> None:
    output_measure = getattr(measurement, "output_measure", type(measurement).__name__)
    if not isinstance(measurement, dp.Measurement) or output_measure != measure:
        raise TypeRefusal("output_measure", output_measure, f"of the measurement must be {measure}")


def _with_loss(
    measurement: dp.Measurement, measure: dp.Measure, privacy_map: Callable[[object], object]
) -> dp.Measurement:
    noise, postprocessing = noise_part(measurement)

    def function(arg: object) -> object:
        release = noise.invoke(arg)
        _refuse_queryables(release)
        return release

    converted = dp.m.make_user_measurement(*measurement.input_space, measure, function, PackageMap(privacy_map))
    return converted if postprocessing is None else converted >> postprocessing


def _refuse_queryables(release: object) -> None:
    # A conversion is of the divergence between two laws of a release: answers to questions still to come have none.
    if isinstance(release, dp.Queryable):
        raise TypeRefusal(
            "an interactive measurement", ..., "cannot be converted", "convert each measurement that it is asked"
        )
    if isinstance(release, (dict, list, tuple)):
        for part in release.values() if isinstance(release, dict) else release:
            _refuse_queryables(part)
