"""Measurements whose whole loss is known from how they were made, not only the view of it that their map states.

A constructor of this package tells the loss of what it makes. Behind transformations, or before post-processing, that
measurement is still the mechanism, so its loss is still known; what else OpenDP makes of it has no loss that is known
here. Nothing is guessed from a map: two mechanisms with one ``ρ`` may have different losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import opendp.prelude as dp

from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.design.mechanism import Mechanism
from opendp_timeseries.plugin._opendp import how_made
from opendp_timeseries.release.record import Accounting

__all__ = ["KnownLoss", "Stated", "known_loss", "mechanisms_of", "tell_loss"]


class Stated(NamedTuple):
    """A mechanism, and the view of its loss that its release states."""

    mechanism: Mechanism
    accounting: Accounting


class KnownLoss(NamedTuple):
    """The loss of a measurement, and the same measurement with more or less noise.

    :param at: from a distance of the measurement's input metric to the loss.
    :param times: from a factor to the measurement with all scales of its noise multiplied by it.
    :param mechanisms: from a distance to the mechanisms of its releases, in order, each of which loses at least as much
        for one individual as the release does at that distance; None if it returns anything but releases that know how
        they were made.
    """

    at: Callable[[Any], PrivacyLoss]
    times: Callable[[float], dp.Measurement]
    mechanisms: Callable[[Any], tuple[Stated, ...]] | None = None


_TOLD: Final = "_opendp_timeseries_loss"
#: OpenDP's combinators that keep the mechanism of one argument, and which that is: something goes before it or is done
#: with its releases, or its loss is stated in another way.
_SAME_MECHANISM: Final = {
    "make_chain_mt": "measurement1",
    "make_chain_pm": "measurement0",
    "make_fix_delta": "measurement",
    "make_zCDP_to_approxDP": "measurement",
}


def tell_loss(measurement: dp.Measurement, known: KnownLoss) -> dp.Measurement:
    """Return a measurement that was just made, with its loss."""
    setattr(measurement, _TOLD, known)
    return measurement


def known_loss(measurement: dp.Measurement) -> KnownLoss | None:
    """Return the loss of a measurement; None where it is not known from how it was made."""
    told = getattr(measurement, _TOLD, None)
    if isinstance(told, KnownLoss):
        return told
    made = how_made(measurement)
    if made is None or made.constructor not in _SAME_MECHANISM:
        return None
    part = _SAME_MECHANISM[made.constructor]
    inner = known_loss(made.arguments[part])
    if inner is None:
        return None
    before = made.arguments.get("transformation0")

    def through(d_in: Any) -> Any:
        return d_in if before is None else before.map(d_in)

    def at(d_in: Any) -> PrivacyLoss:
        return inner.at(through(d_in))

    def times(factor: float) -> dp.Measurement:
        again: dp.Measurement = getattr(dp.c, made.constructor)(**{**made.arguments, part: inner.times(factor)})
        return again

    mechanisms = inner.mechanisms
    if mechanisms is None or made.constructor == "make_chain_pm":
        return KnownLoss(at, times)
    return KnownLoss(at, times, lambda d_in: mechanisms(through(d_in)))


def mechanisms_of(measurement: dp.Measurement) -> tuple[Stated, ...]:
    """Return the mechanisms of the releases that a measurement returns, in order, with the views that they state.

    :raises TypeError: if it is no measurement, or its input metric does not count individuals.
    :raises ValueError: if it returns anything else, or it is not known how a signal is made, or one individual reaches
        further than by the stages that a release knows of.
    """
    if not isinstance(measurement, dp.Measurement):
        raise TypeError(f"measurement ({type(measurement).__name__}) must be a Measurement, such as a count >> noise")
    known = known_loss(measurement)
    if known is None or known.mechanisms is None:
        raise ValueError(
            "measurement must return a release that knows how it was made: a subsampled Gaussian with noise behind a"
            " count with the influence metric, or a make_composition(…) of such; do what follows with the release"
        )
    return known.mechanisms(1)
