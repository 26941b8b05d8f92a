"""Tiers of activity: several series of the same steps, in which individuals weigh less or more by how often they come.

The last series holds everybody with one weight, so that it is right on average and noisy. The others are less noisy,
as those who come often weigh less in them. All weights of an individual together are as sensitive as one series is in
which everybody is weighed down to the first tier (docs/proofs/scaling.md).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import (
    Influence,
    Reach,
    count_influence,
    grouped_influence,
    tiers_influence,
)
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weights import RESOLUTION_BITS, Weights

#: Five times the one before it, 14 tiers reach beyond 2**31 steps; the weights of many take very long.
_MOST: Final = 16


class Table(NamedTuple):
    """The weights of individuals by the number of their steps.

    :param ends: ascending numbers of steps; the last is the most that there can be.
    :param weights: a row for each end, a column for each tier, in units of ``2**-RESOLUTION_BITS``. The squares of a
        row, times its end, sum to at most ``4**RESOLUTION_BITS`` times the first end.
    """

    ends: NDArray[np.int64]
    weights: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """Tiers of activity ``e₁ < … < e_K``, each of which has a series; there is no cap, and no bias.

    With ``e_K`` the most steps in which an individual can be, those in ``n`` steps weigh ``w_k`` in tier ``k``:
    ``w_K² = share/e_K``, and so on down with what is left of ``1/n``, ``w_k² = share·left_k(max(n, e_k))``, of which
    the first tier takes all; in units of ``w² = 1/e₁``.

    :param ends: the tiers but the last, ascending.
    :param share: of what is left, the part that each tier but the first takes; in (0, 1).
    :raises TypeError, ValueError: naming the number.

    >>> Tiers(ends=(10,), share=0.75).table(40).weights[[0, -1]] / 2**RESOLUTION_BITS
    array([[0.90138245, 0.43299866],
           [0.25      , 0.43299866]])
    """

    ends: tuple[int, ...]
    share: float = 0.9

    tag: ClassVar[str] = "tiers"
    norm: ClassVar[str] = "l2"
    resolution_bits: ClassVar[int] = RESOLUTION_BITS

    def __post_init__(self) -> None:
        if np.ndim(self.ends) != 1:
            raise TypeError(f"ends of tiers ({check.shown(self.ends)}) must be a list, such as (10, 50)")
        ends = tuple(check.integer("end of a tier", end, minimum=1) for end in self.ends)
        if len(ends) > _MOST:
            raise ValueError(f"ends of tiers ({len(ends)} of them) must be at most {_MOST}: more tell no more apart")
        if any(here >= there for here, there in pairwise(ends)):
            raise ValueError(f"ends of tiers ({list(ends)}) must ascend")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "share", check.real("share", self.share, above=0.0, below=1.0))

    @property
    def series(self) -> int:
        """Number of tiers."""
        return len(self.ends) + 1

    def names(self, place: str) -> tuple[str, ...]:
        """Name the tiers.

        :param place: what individuals are in, such as ``"step"``.
        """
        return *(f"up to {end} {place}s" for end in self.ends), f"any number of {place}s"

    def check(self, reading: Reading) -> None:
        """Refuse a reading in which nobody can be in so many steps as a tier says."""
        most = reading.most_steps
        if self.ends and self.ends[-1] >= most:
            last = f"the most steps in which one individual can be ({most}), which is the last tier"
            raise ValueError(f"ends of tiers ({list(self.ends)}) must be below {last}")

    def first(self, most: int) -> int:
        """Return the first tier, given the last: individuals in up to that many steps weigh the same."""
        return self.ends[0] if self.ends else most

    def table(self, most: int) -> Table:
        """Return the weights of individuals who can be in at most this many steps."""
        return _table(self, most)

    def weights(self, reading: Reading) -> Weights:
        """Return the weights of all sizes. Somebody in ``n`` steps, at a key at a time, is no larger than ``M²·n``."""
        ends, rows = self.table(reading.most_steps)
        if reading.grouping is not None:
            # A level's share of the norm is in its weights, so that one scale of noise does for all levels.
            squares = tuple(end * reading.step_cap**2 * SHARES for end in ends.tolist())
            return Weights(2, squares, reading.grouping.weights(rows))
        return Weights(2, tuple(end * reading.step_cap**2 for end in ends.tolist()), rows)

    def is_drawn(self, reading: Reading) -> bool:
        """Say that nothing is drawn."""
        return False

    def is_full(self, reading: Reading) -> bool:
        """Say that all steps of everybody can be read off."""
        return True

    def influence(self, reading: Reading, reach: Reach) -> Influence:
        """Return how far individuals with this reach move the counts."""
        most = reading.most_steps
        if reading.grouping is not None:
            entries = self.series * len(reading.keys or ()) * reading.grid.size
            return grouped_influence(reach, first=self.first(most), entries=entries)
        largest = math.ldexp(int(self.table(most).weights.max()), -RESOLUTION_BITS)
        influence = count_influence(**reach._asdict(), participation_cap=self.first(most), norm="l2")
        return tiers_influence(influence, largest, self.series)

    def words(self, place: str) -> str:
        """Say in which steps, or whatever they are in, an individual counts."""
        return f"every {place}"


@lru_cache(maxsize=32)
def _table(tiers: Tiers, most: int) -> Table:
    steps, share = [*tiers.ends, most], Fraction(tiers.share)
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


def tiers_for(reading: Reading) -> Tiers:
    """Return the tiers of what is read, unless others are asked for: by its size alone, which is public."""
    # Of keys at which people are read once, most are at few.
    return default_tiers(reading.most_steps, first=2 if reading.is_once else 10)


def default_tiers(most: int, *, first: int = 10) -> Tiers:
    """Return the tiers for individuals of whom nothing is known but in how many steps they can be: the last tier.

    Each is about five times the one before it. If there are several, one of two thirds of the last tells the level
    better, as few come in more.

    :param first: about the first tier.
    """
    ratio = most / first
    between = round(math.log(ratio, 5)) if ratio > 1 else 0
    near = [2 * most // 3] if between > 1 else []
    return Tiers(ends=(*(round(first * ratio ** (k / between)) for k in range(between)), *near))
