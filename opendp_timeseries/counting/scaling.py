"""The weights of individuals whose steps are all counted: exact integers, in units of ``2**-RESOLUTION_BITS``.

They are functions of an individual's own events, and of public caps. Proof: docs/proofs/scaling.md.
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.design.count import Count
from opendp_timeseries.design.scales import RESOLUTION_BITS, Scales

__all__ = ["MOST_EVENTS", "WHOLE", "by_scale", "sizes", "weights"]

Ints = NDArray[np.int64]

#: The weight of an individual within the caps.
WHOLE: Final = 2**RESOLUTION_BITS
#: No log holds so many rows, so that sums of weights are below 2**63.
MOST_EVENTS: Final = 2**47
#: Below this, weights are worked out in 64 bits.
_NARROW: Final = 2**30


def sizes(events: Ints, begins: Ints, count: Count) -> NDArray[Any]:
    """Return by what each individual is scaled: the sum of their events in all steps, or of the squares of these.

    :param events: of each step of an individual, one individual after the other.
    :param begins: where the events of each individual begin.
    :return: Python's integers where 64 bits might not do.
    """
    if count.excess == "scale_l1":
        return np.add.reduceat(events, begins)
    if int(events.max()) * int(events.sum()) >= _NARROW:  # at least the largest sum of squares
        events = events.astype(object)
    return np.add.reduceat(events * events, begins)


def weights(sizes: NDArray[Any], count: Count) -> Ints:
    """Return the largest weights, of at most ``WHOLE``, that bring each individual within the caps."""
    cap, most = count.participation_cap, count.step_cap
    if count.excess == "scale_l1":
        return cast(Ints, np.minimum(min(cap * most, MOST_EVENTS - 1) * WHOLE // sizes, WHOLE))
    found, over = np.full(sizes.size, WHOLE), sizes > cap * most**2
    if over.any():
        found[over] = _roots(cap * most**2 * WHOLE**2, sizes[over])
    return found


def _roots(limit: int, sizes: NDArray[Any]) -> Ints:
    """Return the largest ``q`` for each size with ``q² · size <= limit``; all of them are below ``WHOLE``."""
    if sizes.dtype == object:
        return np.array([math.isqrt(limit // size) for size in sizes], dtype=np.int64)
    # Limit and sizes are doubles, and rounding keeps order: a root that is whole is never taken for less.
    roots: Ints = np.sqrt(limit / sizes).astype(np.int64)
    roots -= roots * roots * sizes > limit
    return roots


def by_scale(sizes: NDArray[Any], scales: Scales, count: Count) -> Ints:
    """Return the weights of each individual in the series of each scale of activity."""
    table = scales.table(count.most_steps)
    limits = table.ends.astype(object) * count.step_cap**2
    if sizes.dtype != object:
        limits = np.minimum(limits, 2**63 - 1).astype(np.int64)
    return table.weights[np.searchsorted(limits, sizes)]
