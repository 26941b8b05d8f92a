"""Which mechanisms a measurement consists of, found by its map alone: no data, and nothing typed again.

OpenDP's measurements do not say what they are made of, and chaining hides it. But the privacy map of a chain asks the
map of each of its parts: while :func:`mechanisms_of` asks a map, every subsampled Gaussian in it says what it is.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import opendp.prelude as dp

from opendp_timeseries.mechanism import Mechanism
from opendp_timeseries.provenance import Provenance
from opendp_timeseries.record import Accounting
from opendp_timeseries.spaces import influence_space

__all__ = ["Stated", "mechanisms_of", "provenance_of", "tell"]


class Stated(NamedTuple):
    """A mechanism, and the view of its loss that its measurement states."""

    mechanism: Mechanism
    accounting: Accounting


_found: Final[ContextVar[list[Stated | None] | None]] = ContextVar("found", default=None)


def tell(stated: Stated | None) -> None:
    """Say, from inside a privacy map, which mechanism is asked; None if it does not know how its signal is made."""
    found = _found.get()
    if found is not None:
        found.append(stated)


def mechanisms_of(measurement: dp.Measurement, d_in: Any = 1) -> tuple[Stated, ...]:
    """Return the subsampled Gaussians that a measurement consists of, in order.

    What it may hold besides, such as OpenDP's own mechanisms, is not found: whoever relies on this must see that every
    part of the release is a :class:`~opendp_timeseries.Release` of one of these.

    :param d_in: a distance that the map takes.
    :raises TypeError: if it is no measurement.
    :raises ValueError: if none is found, or one does not know how its signal is made, or has no noise.
    """
    if not isinstance(measurement, dp.Measurement):
        raise TypeError(f"measurement ({type(measurement).__name__}) must be a Measurement, such as a count >> noise")
    found: list[Stated | None] = []
    token = _found.set(found)
    try:
        measurement.map(d_in)
    finally:
        _found.reset(token)
    if not found or None in found:
        raise ValueError(
            "measurement must be a subsampled Gaussian with noise behind a count with the influence metric, which is"
            " the default: it alone knows how its signal is made"
        )
    return tuple(stated for stated in found if stated is not None)


def provenance_of(chain: dp.Transformation) -> Provenance:
    """Return how a chain makes its signal.

    :raises TypeError: if it is no transformation, or does not know.
    """
    space = influence_space(chain.output_metric) if isinstance(chain, dp.Transformation) else None
    if space is None or space.provenance is None:
        found = chain.output_metric if isinstance(chain, dp.Transformation) else type(chain).__name__
        raise TypeError(f"chain ({found}) must be a count with the influence metric, with or without filters")
    return space.provenance
