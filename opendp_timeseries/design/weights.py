"""Weights of individuals by their size, as data: a step function, and a root beyond its end.

Every engine applies this one form, exactly. Proof: docs/proofs/scaling.md.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Weights are multiples of 2**-16: less than 2**-16 of a weight is lost by rounding it down.
RESOLUTION_BITS: Final = 16
#: The weight of an individual who counts in full.
FULL: Final = 2**RESOLUTION_BITS


class Weights(NamedTuple):
    """Weights by size, the sum of an individual's events to a power, in units of ``2**-RESOLUTION_BITS``.

    The size ``n`` has the weights of the first row with ``n ≤ end``. Beyond the last end ``e``, it has those of the
    last row times ``(e/n)**(1/power)``, rounded down.

    :param power: 1, or 2 for the sum of squares.
    :param ends: ascending, of any length.
    :param rows: a row for each end, a column for each series.
    """

    power: int
    ends: tuple[int, ...]
    rows: NDArray[np.int64]
