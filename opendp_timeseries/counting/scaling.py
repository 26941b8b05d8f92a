"""The weights of individuals whose steps are all counted: exact integers, in units of ``2**-RESOLUTION_BITS``.

They are functions of an individual's own events, and of public :class:`~opendp_timeseries.design.weights.Weights`.
Proof: docs/proofs/scaling.md.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.design.weights import Weights

Ints = NDArray[np.int64]
#: Integers, Python's own where 64 bits might not do.
Sizes = NDArray[np.int64 | np.object_]

#: No log holds so many rows, so that sums of weighed events are below 2**63.
MOST_EVENTS: Final = 2**47
#: Sums of values stay at this, whoever comes: below it, and with a few thousand more individuals, nothing overflows.
MOST_SUM: Final = 2**61
#: Sizes below this are worked on in 64 bits, and quotients where the last end is 2**32 times less.
_NARROW: Final = 2**62


def sizes_of(events: Ints, begins: Ints, power: int, factor: int = 1) -> Sizes:
    """Return by what each individual is weighed: the sum of their events in all steps, or of the squares of these.

    :param events: of each step of an individual, one individual after the other.
    :param begins: where the events of each individual begin.
    :param power: 1, or 2 for squares.
    :param factor: by what sizes are multiplied afterwards, at most.
    """
    if factor * int(events.max()) * int(events.sum()) >= _NARROW:  # at least the largest sum of squares
        events = events.astype(object)
    return np.add.reduceat(events if power == 1 else events * events, begins)


def weights_of(sizes: Sizes, weights: Weights) -> Ints:
    """Return the weights of sizes: a row for each of them, a column for each series."""
    wide = sizes.dtype == object
    ends = np.array([end if wide else min(end, _NARROW) for end in weights.ends], dtype=object if wide else np.int64)
    rows: Ints = weights.rows[np.minimum(np.searchsorted(ends, sizes), len(ends) - 1)]
    beyond = np.flatnonzero(sizes > ends[-1])
    if beyond.size:
        exact = object if wide or weights.ends[-1] >= _NARROW >> 32 else np.int64
        last = weights.rows[-1].astype(exact) ** weights.power * weights.ends[-1]
        falling = (last // sizes[beyond, None].astype(exact)).astype(np.int64)
        # Half a unit keeps roots so far from whole numbers that no rounding takes them there.
        rows[beyond] = falling if weights.power == 1 else np.sqrt(falling + 0.5).astype(np.int64)
    return rows
