"""Composition: what OpenDP 0.16 lacks for Rényi curves, and the exact joint profile of equal releases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._opendp import privacy_profile, signal_domain, then, vector_space
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.rounding import up, up_sqrt
from opendp_timeseries.accounting.subsampled import delta_from_renyi
from opendp_timeseries.spaces import as_influence, influence_distance, influence_resolution, series_of

__all__ = ["make_renyiDP_to_approxDP", "make_repeat", "make_zCDP_to_renyiDP", "then_repeat"]


def make_zCDP_to_renyiDP(measurement: dp.Measurement) -> dp.Measurement:  # noqa: N802 (OpenDP's way to name conversions)
    """Return the same measurement with its loss as a Rényi curve: ``ρ``-zCDP is ``α ↦ ρα``.

    So OpenDP's own Gaussian mechanism composes with a subsampled Gaussian whose ``output_measure`` is
    ``renyi_divergence()``. Source: Bun & Steinke (2016), arXiv:1605.02065, Definition 1.1.

    :param measurement: a measurement under ``zero_concentrated_divergence()`` whose release is data, no queryable.
    :raises TypeError: for another output measure.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    >>> curve = make_zCDP_to_renyiDP(space >> dp.m.then_gaussian(2.0)).map(1)
    >>> round(curve(3.0), 12)
    0.375
    """
    _needs(measurement, "ZeroConcentratedDivergence", dp.zero_concentrated_divergence())

    def privacy_map(d_in: Any) -> Any:
        # proof: zcdp-curve
        rho = measurement.map(d_in)
        return lambda alpha: up(rho * check.real("alpha", alpha, above=1.0)) if rho else 0.0
        # end proof: zcdp-curve

    return _with_loss(measurement, dp.renyi_divergence(), privacy_map)


def make_renyiDP_to_approxDP(measurement: dp.Measurement) -> dp.Measurement:  # noqa: N802
    """Return the same measurement with the privacy profile that follows from its Rényi curve.

    At each ``ε`` the best of many orders is taken; every order is valid. Fix the other parameter with
    ``dp.c.make_fix_delta``. Source: Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12; proof:
    docs/proofs/renyi_to_approxdp.md.

    :param measurement: a measurement under ``renyi_divergence()``, such as a composition of several, whose release
        is data, no queryable.
    :raises TypeError: for another output measure.
    """
    _needs(measurement, "RenyiDivergence", dp.renyi_divergence())

    def privacy_map(d_in: Any) -> Any:
        # proof: curve-profile
        curve = measurement.map(d_in)
        return privacy_profile(lambda epsilon: delta_from_renyi(curve, epsilon))
        # end proof: curve-profile

    return _with_loss(measurement, dp.smoothed_max_divergence(), privacy_map)


def _needs(measurement: dp.Measurement, name: str, measure: dp.Measure) -> None:
    if not isinstance(measurement, dp.Measurement) or str(measurement.output_measure.type) != name:
        found = getattr(measurement, "output_measure", type(measurement).__name__)
        raise TypeError(f"output_measure ({found}) of the measurement must be {measure}")


def _with_loss(measurement: dp.Measurement, measure: dp.Measure, privacy_map: Any) -> dp.Measurement:
    return dp.m.make_user_measurement(
        measurement.input_domain, measurement.input_metric, measure, measurement.invoke, privacy_map
    )


def make_repeat(input_domain: dp.Domain, input_metric: dp.Metric, times: int) -> dp.Transformation:
    """Repeat a signal ``times`` times, one after the other: a release of it is that many releases of the signal.

    The subsampled Gaussian after it samples each copy by itself, and its map is the exact joint loss: of ``n``
    releases of a count without filter, ``Bin(nI, p)`` in place of ``Bin(I, p)``. Adding up the ``ε`` of ``n``
    releases costs more. Take them apart by :meth:`Release.by_key(range(times)) <opendp_timeseries.Release.by_key>`.

    :param input_domain: integers or floats of a fixed size.
    :param input_metric: ``influence_distance()``.
    :param times: number of copies, ``n``.
    :raises TypeError: for a wrong domain or metric.
    :raises ValueError: for less than one copy.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> count.map(1), (count >> ts.then_repeat(4)).map(1)
    (Influence(l0=10, l2=3.16228, linf=1), Influence(l0=40, l2=6.32456, linf=1))
    """
    space = vector_space(input_domain)
    bits = influence_resolution(input_metric)
    if bits is None:
        raise TypeError(f"input_metric ({input_metric}) must be influence_distance(), which knows how to repeat")
    copies = check.integer("times", times, minimum=1)
    atom = "f64" if space.atom.startswith("f") else "i64"

    def function(values: Any) -> NDArray[Any]:
        # proof: repeated-signal
        return np.tile(np.asarray(values), copies)
        # end proof: repeated-signal

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        signal_domain(atom, space.size * copies),
        influence_distance(bits, series=series_of(input_metric) * copies),
        function,
        lambda d_in: repeated(as_influence(d_in), copies),
    )


def repeated(influence: Influence, times: int) -> Influence:
    """Influence on ``times`` copies of a signal.

    The copies of a difference have ``times`` as many entries, the same largest one, and are majorised by every
    entry of the majorant ``times`` times: the largest ``k`` of the copies are copies of the largest ``⌈k/times⌉``.
    """
    # proof: repeated-influence
    majorant = influence.majorant
    return replace(
        influence,
        l0=influence.l0 * times,
        l2=up(influence.l2 * up_sqrt(times)),
        majorant=None if majorant is None else Majorant(np.repeat(majorant.values, times)),
    )
    # end proof: repeated-influence


then_repeat = then(make_repeat)
