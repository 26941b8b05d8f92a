"""Scales of activity: several series of the same steps, in which individuals weigh more or less by how often they come.

The last series holds everybody with one weight, so that it is right on average and noisy. The others are less noisy,
as those who come often weigh less in them. All weights of an individual together are as sensitive as one series is in
which everybody is scaled down to the first scale (docs/proofs/scaling.md).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check

#: Weights are multiples of 2**-16: less than 2**-16 of a weight is lost by rounding it down.
RESOLUTION_BITS: Final = 16
#: Five times the one before it, 14 scales reach beyond 2**31 steps; the weights of many take very long.
_MOST: Final = 16


class Table(NamedTuple):
    """The weights of individuals; counts ``x`` with a step cap of ``M`` are in the first row with ``Σ x² ≤ M² · end``.

    :param ends: ascending; the last is the most steps that there can be.
    :param weights: a row for each end, a column for each series, in units of ``2**-RESOLUTION_BITS``. The squares of a
        row, times its end, sum to at most ``4**RESOLUTION_BITS`` times the first end.
    """

    ends: NDArray[np.int64]
    weights: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Scales of activity ``e₁ < … < e_K``, each of which has a series.

    With ``e_K`` the most steps in which an individual can be, those in ``n`` steps weigh ``w_k`` in series ``k``:
    ``w_K² = share/e_K``, and so on down with what is left of ``1/n``, ``w_k² = share·left_k(max(n, e_k))``, of which
    the first series takes all; in units of ``w² = 1/e₁``.

    :param ends: the scales but the last, ascending.
    :param share: of what is left, the part that each series but the first takes; in (0, 1).
    :raises TypeError, ValueError: naming the number.

    >>> Scales(ends=(10,), share=0.75).table(40).weights[[0, -1]] / 2**RESOLUTION_BITS
    array([[0.90138245, 0.43299866],
           [0.25      , 0.43299866]])
    """

    ends: tuple[int, ...]
    share: float = 0.9

    def __post_init__(self) -> None:
        if np.ndim(self.ends) != 1:
            raise TypeError(f"ends of scales ({check.shown(self.ends)}) must be a list, such as (10, 50)")
        ends = tuple(check.integer("end of a scale", end, minimum=1) for end in self.ends)
        if len(ends) > _MOST:
            raise ValueError(f"ends of scales ({len(ends)} of them) must be at most {_MOST}: more tell no more apart")
        if any(here >= there for here, there in pairwise(ends)):
            raise ValueError(f"ends of scales ({list(ends)}) must ascend")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "share", check.real("share", self.share, above=0.0, below=1.0))

    def first(self, most: int) -> int:
        """Return the first scale, given the last: individuals in up to that many steps weigh the same."""
        return self.ends[0] if self.ends else most

    @property
    def series(self) -> int:
        """Number of series."""
        return len(self.ends) + 1

    def table(self, most: int) -> Table:
        """Return the weights of individuals who can be in at most this many steps."""
        return _table(self, most)

    def names(self) -> tuple[str, ...]:
        """Return the name of each series."""
        return *(f"up to {end} steps" for end in self.ends), "any number of steps"


@lru_cache(maxsize=32)
def _table(scales: Scales, most: int) -> Table:
    steps, share = [*scales.ends, most], Fraction(scales.share)
    ends = [steps[0]]
    while ends[-1] < most:
        end = ends[-1]
        ends.append(min(end + max(1, end // 24), most))  # every number of steps up to 48, then within 4%
    unit = steps[0] * 4**RESOLUTION_BITS

    @cache
    def left(k: int, n: int) -> Fraction:
        """What series k and those before it have of an individual in ``n`` steps."""
        rest = Fraction(1, n)
        for later in range(len(steps) - 1, k, -1):
            rest -= share * left(later, max(n, steps[later]))
        return rest

    def weight(k: int, n: int) -> int:
        square = (share if k else 1) * left(k, max(n, steps[k]))
        return math.isqrt(math.floor(unit * square))

    weights = np.array([[weight(k, end) for k in range(len(steps))] for end in ends], dtype=np.int64)
    for array in (made := Table(np.array(ends, dtype=np.int64), weights)):
        array.flags.writeable = False
    return made


def default_scales(most: int) -> Scales:
    """Return the scales for individuals of whom nothing is known but in how many steps they can be: the last scale.

    Some 10 steps are the first, and each is about five times the one before it. If there are several, one of two thirds
    of the last tells the level better, as few come in more.
    """
    ratio = most / 10
    between = round(math.log(ratio, 5)) if ratio > 1 else 0
    near = [2 * most // 3] if between > 1 else []
    return Scales(ends=(*(round(10 * ratio ** (k / between)) for k in range(between)), *near))
