"""The weights of individuals whose steps are all counted: exact integers, in units of ``2**-RESOLUTION_BITS``.

They are functions of an individual's own events, and of public caps. Proof: docs/proofs/scaling.md.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.design.count import Count
from opendp_timeseries.design.scales import RESOLUTION_BITS

Ints = NDArray[np.int64]

#: The weight of an individual within the caps.
WHOLE: Final = 2**RESOLUTION_BITS
#: No log holds so many rows, so that sums of weighed events are below 2**63.
MOST_EVENTS: Final = 2**47
#: Below this, weights are worked out in 64 bits.
_NARROW: Final = 2**30


def sizes_of(events: Ints, begins: Ints, count: Count) -> NDArray[Any]:
    """Return by what each individual is scaled: the sum of their events in all steps, or of the squares of these.

    :param events: of each step of an individual, one individual after the other.
    :param begins: where the events of each individual begin.
    :return: Python's integers where 64 bits might not do.
    """
    if int(events.max()) * int(events.sum()) >= _NARROW:  # at least the largest sum of squares
        events = events.astype(object)
    return np.add.reduceat(events if count.excess == "scale_l1" else events * events, begins)


def full_size(count: Count) -> tuple[int, int]:
    """Return up to which size an individual weighs ``WHOLE``; and of which power the events are summed."""
    power = 1 if count.excess == "scale_l1" else 2
    return count.participation_cap * count.step_cap**power, power


def weights(sizes: NDArray[Any], count: Count) -> Ints:
    """Return the weight of each individual in each series; in one, the largest within the caps of at most ``WHOLE``."""
    if count.scales is not None:
        table = count.scales.table(count.most_steps)
        ends = table.ends.astype(object) * count.step_cap**2
        ends = ends if sizes.dtype == object else np.minimum(ends, _NARROW).astype(np.int64)  # nobody is larger
        return table.weights[np.searchsorted(ends, sizes)]
    full, power = full_size(count)
    if sizes.dtype != object:
        full = min(full, _NARROW)
    found = (full * WHOLE**power // np.maximum(sizes, full)).astype(np.int64)
    if power == 2:
        # Half a unit keeps roots so far from whole numbers that no rounding takes them there.
        found = np.sqrt(found + 0.5).astype(np.int64)
    column: Ints = found[:, None]
    return column
