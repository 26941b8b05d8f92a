"""What is known of an OpenDP transformation or measurement from how it was made.

OpenDP's maps state one view of a loss; here the whole loss, and the designs of the releases, are found again. The maps
of this package are objects of the two classes below, and OpenDP notes for each of its objects with which arguments it
was made (:func:`~._opendp.how_made`). A stage that is not of this package ends what is known, and is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import opendp.prelude as dp

from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.subsampled import MIN_SCALE
from opendp_timeseries.accounting.view import View
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.plugin._opendp import how_made
from opendp_timeseries.plugin.spaces import influence_space

__all__ = [
    "Known",
    "PrivacyMap",
    "StatedDesign",
    "foreign_stage",
    "known_loss",
    "signal_of",
    "stated_designs",
    "transformation",
]


class StatedDesign(NamedTuple):
    """A release that a measurement returns: what runs, and the view of its loss that it states."""

    design: Design
    view: View


@dataclass(frozen=True)
class StabilityMap:
    """The stability map of a transformation of this package."""

    call: Callable[[Any], Any]

    def __call__(self, d_in: Any) -> Any:
        """Return the distance between outputs."""
        return self.call(d_in)


def transformation(
    domain: dp.Domain,
    metric: dp.Metric,
    output_domain: dp.Domain,
    output_metric: dp.Metric,
    function: Callable[[Any], Any],
    stability_map: Callable[[Any], Any],
) -> dp.Transformation:
    """Return a transformation that is known to be of this package."""
    known = StabilityMap(stability_map)
    return dp.t.make_user_transformation(domain, metric, output_domain, output_metric, function, known)


@dataclass(frozen=True)
class Known:
    """What is known of a measurement.

    :param loss: from a distance of the measurement's input metric to the loss.
    :param times: from a factor to the measurement with all scales of its noise multiplied by it.
    :param parts: its releases, in order; None if it returns anything else.
    :param foreign: the stage before the noise that is not of this package, if there is one.
    """

    loss: Callable[[Any], PrivacyLoss]
    times: Callable[[float], dp.Measurement]
    parts: tuple[StatedDesign, ...] | None
    foreign: str | None = None


@dataclass(frozen=True)
class PrivacyMap:
    """The privacy map of a measurement of this package, and what else is known of it."""

    call: Callable[[Any], Any]
    known: Known

    def __call__(self, d_in: Any) -> Any:
        """Return the loss at a distance."""
        return self.call(d_in)


#: OpenDP's combinators that keep the mechanism of one argument, and which that is: something goes before it or is done
#: with its releases, or its loss is stated in another way.
_SAME_MECHANISM: Final = {
    "make_chain_mt": "measurement1",
    "make_chain_pm": "measurement0",
    "make_fix_delta": "measurement",
    "make_zCDP_to_approxDP": "measurement",
}


def foreign_stage(chain: Any) -> str | None:
    """Return the name of a stage of a chain of transformations that is not of this package; None without one."""
    made = how_made(chain)
    if made is None:
        return "a stage of unknown making"
    if made.constructor == "make_chain_tt":
        return foreign_stage(made.arguments["transformation0"]) or foreign_stage(made.arguments["transformation1"])
    return None if isinstance(made.arguments.get("stability_map"), StabilityMap) else made.constructor


def known_loss(measurement: dp.Measurement) -> Known | None:
    """Return what is known of a measurement; None where its loss is not known from how it was made."""
    made = how_made(measurement)
    if made is None:
        return None
    privacy_map = made.arguments.get("privacy_map")
    if isinstance(privacy_map, PrivacyMap):
        return privacy_map.known
    if made.constructor not in _SAME_MECHANISM:
        return None
    part = _SAME_MECHANISM[made.constructor]
    inner = known_loss(made.arguments[part])
    if inner is None:
        return None
    before = made.arguments.get("transformation0")

    def loss(d_in: Any) -> PrivacyLoss:
        return inner.loss(d_in if before is None else before.map(d_in))

    def times(factor: float) -> dp.Measurement:
        again: dp.Measurement = getattr(dp.c, made.constructor)(**{**made.arguments, part: inner.times(factor)})
        return again

    foreign = inner.foreign or (None if before is None else foreign_stage(before))
    return Known(loss, times, None if made.constructor == "make_chain_pm" else inner.parts, foreign)


def stated_designs(measurement: Any) -> tuple[StatedDesign, ...]:
    """Return the releases that a measurement returns, in order.

    :raises TypeError: unless it is a measurement.
    :raises ValueError: if it returns anything else, or it is not known how a signal is made.
    """
    if not isinstance(measurement, dp.Measurement):
        raise TypeError(f"measurement ({type(measurement).__name__}) must be a Measurement, such as a count >> noise")
    known = known_loss(measurement)
    if known is not None and known.foreign is not None:
        raise ValueError(_foreign("measurement", known.foreign))
    parts = None if known is None else known.parts
    if parts is None or any(isinstance(part.design.signal, UnknownSignal) for part in parts):
        raise ValueError(
            "measurement must return a release that knows how it was made: a subsampled Gaussian with noise behind a"
            " count of this package, or a make_composition(…) of such; process what it releases afterwards"
        )
    for part in parts:
        if part.design.scale < MIN_SCALE:
            raise ValueError(f"measurement adds no noise (scale {part.design.scale:g}), so it states no finite loss")
    return parts


def signal_of(chain: Any) -> Signal:
    """Return how a chain makes its signal.

    :raises TypeError: unless it is a transformation that knows.
    :raises ValueError: if a stage of it is not of this package.
    """
    space = influence_space(chain.output_metric) if isinstance(chain, dp.Transformation) else None
    if space is None or space.signal is None:
        found = chain.output_metric if isinstance(chain, dp.Transformation) else type(chain).__name__
        raise TypeError(f"chain ({found}) must be a count of this package, with or without filters")
    if (foreign := foreign_stage(chain)) is not None:
        raise ValueError(_foreign("chain", foreign))
    return space.signal


def _foreign(name: str, stage: str) -> str:
    return (
        f"{name} holds a stage that is not of this package ({stage}): nobody can tell what it does to the log or the"
        " counts, so there is no design to record, plan or add up; apply it to the data beforehand, or state the loss"
        " by the privacy map alone"
    )
