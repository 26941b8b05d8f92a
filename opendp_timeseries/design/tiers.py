"""Tiers of activity: several series of the same steps, in which individuals weigh less or more by how often they come.

The last series holds everybody with one weight, so that it is right on average and noisy. The others are less noisy,
as those who come often weigh less in them. All weights of an individual together are as sensitive as one series is in
which everybody is weighed down to the first tier (docs/proofs/scaling.md).
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._json import OPTIONAL
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.influence import (
    Influence,
    Reach,
    grouped_influence,
    tiers_influence,
)
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weights import RESOLUTION_BITS, Weights
from opendp_timeseries.grid import TimeGrid

#: Five times the one before it, 14 tiers reach beyond 2**31 steps; the weights of many take very long.
_MOST: Final = 16
#: A typical value is such that the last tier is at most 2**27 steps of it: weights there are well above 2**-16.
_FAR: Final = 27
#: Steps of this length or more are days, also where the clock changes.
_SHORTEST_DAY: Final = np.timedelta64(20, "h")


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

    Somebody with several events in a step, or with values, is in as many steps as their squares are of the squared
    ``typical`` one: in ``n = Σx²/typical²``, which is at most as many as would hold the bound in every step.

    :param ends: the tiers but the last, ascending.
    :param share: of what is left, the part that each tier but the first takes; in (0, 1).
    :param typical: events, or units of the value, of a step that counts as one.
    :param total_bound: the most of one individual in all steps together, for the last tier; those with more weigh
        less in it. None where the bound of each step says it.
    :raises TypeError, ValueError: naming the number.

    >>> Tiers(ends=(10,), share=0.75).table(40).weights[[0, -1]] / 2**RESOLUTION_BITS
    array([[0.90138245, 0.43299866],
           [0.25      , 0.43299866]])
    """

    ends: tuple[int, ...]
    share: float = 0.9
    typical: int = field(default=1, metadata=OPTIONAL)
    total_bound: int | None = field(default=None, metadata=OPTIONAL)

    tag: ClassVar[str] = "tiers"
    norm: ClassVar[str] = "l2"
    resolution_bits: ClassVar[int] = RESOLUTION_BITS

    def __post_init__(self) -> None:
        if np.ndim(self.ends) != 1:
            raise TypeRefusal("ends of tiers", self.ends, "must be a list, such as (10, 50)")
        ends = tuple(check.integer("end of a tier", end, minimum=1) for end in self.ends)
        if len(ends) > _MOST:
            raise Refusal(
                "ends of tiers", Quoted(f"{len(ends)} of them"), f"must be at most {_MOST}: more tell no more apart"
            )
        if any(here >= there for here, there in pairwise(ends)):
            raise Refusal("ends of tiers", list(ends), "must ascend")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "share", check.real("share", self.share, above=0.0, below=1.0))
        for name in ("typical", "total_bound"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check.integer(name, value, minimum=1))

    @property
    def series(self) -> int:
        """Number of tiers."""
        return len(self.ends) + 1

    def names(self, place: str, step_cap: int = 1) -> tuple[str, ...]:
        """Name the tiers.

        :param place: what individuals are in, such as ``"step"``.
        :param step_cap: the most of one individual in one of them.
        """
        unit = f"{place}s" if step_cap == self.typical else f"{place}s of {self.typical}"
        return *(f"up to {end} {unit}" for end in self.ends), f"any number of {unit}"

    def check_reading(self, reading: Reading) -> None:
        """Refuse a reading in which nobody can be in so many steps as a tier says, or in too many for their weights."""
        for name, minimum in (("typical", 1), ("total_bound", reading.step_cap)):
            value, bound = getattr(self, name), reading.step_cap
            if value is not None and (value > bound if name == "typical" else value < minimum):
                relation = "at most" if name == "typical" else "at least"
                raise Refusal(
                    name, Quoted(value), f"must be {relation} the most of one individual in one step ({bound})"
                )
        last = self.last(reading)
        if self.ends and self.ends[-1] >= last:
            limit = f"the most steps in which one individual can be ({last}), which is the last tier"
            raise Refusal("ends of tiers", list(self.ends), f"must be below {limit}")
        if not self._weighs(last):
            raise Refusal(
                "the last tier",
                Quoted(f"{last} steps"),
                "is so far from the first that nobody weighs in it",
                f"raise typical ({self.typical}), or lower the bound in a step ({reading.step_cap})",
            )

    def _weighs(self, last: int) -> bool:
        """Return whether anybody weighs in the last tier, as weights are rounded down."""
        return last < 2**62 and Fraction(self.share) * self.first(last) * 4**RESOLUTION_BITS >= last

    def last(self, reading: Reading) -> int:
        """Return the last tier: in how many steps of the typical size one individual can be.

        With groups it is of those who are at one key in a step, or at two where steps are days. Others can be larger,
        as those beyond the total bound.
        """
        steps, bound = reading.max_steps, reading.step_cap
        squares = steps * bound**2
        if reading.grouping is not None and is_of_days(reading.grid):
            squares = math.ceil(squares * reading.grouping.size_at(2))
        if self.total_bound is not None:
            squares = min(squares, self.total_bound * bound)
        return -(-squares // self.typical**2)

    def first(self, last: int) -> int:
        """Return the first tier, given the last: individuals in up to that many steps weigh the same."""
        return self.ends[0] if self.ends else last

    def table(self, last: int) -> Table:
        """Return the weights of individuals who can be in at most this many steps."""
        return _table(self.ends, self.share, last)

    def weights(self, reading: Reading) -> Weights:
        """Return the weights of all sizes, which are squares of units."""
        ends, rows = self.table(self.last(reading))
        squares = tuple(end * self.typical**2 for end in ends.tolist())
        if reading.grouping is not None:
            # A level's share of the norm is in its weights, so that one scale of noise does for all levels.
            return Weights(2, tuple(SHARES * square for square in squares), reading.grouping.weights(rows))
        return Weights(2, squares, rows)

    def is_drawn(self, reading: Reading) -> bool:
        """Return False: nothing is drawn."""
        return False

    def is_full(self, reading: Reading) -> bool:
        """Return True: all steps of everybody can be read off."""
        return True

    def influence(self, reading: Reading, reach: Reach) -> Influence:
        """Return how far individuals with this reach move the counts."""
        last = self.last(reading)
        square = self.first(last) * self.typical**2
        if reading.grouping is not None:
            entries = self.series * len(reading.keys or ()) * reading.grid.size
            return grouped_influence(reach, square=square, entries=entries)
        largest = math.ldexp(int(self.table(last).weights.max()), -RESOLUTION_BITS)
        return tiers_influence(reach, square=square, largest=largest, series=self.series)

    def words(self, place: str, reading: Reading) -> str:
        """Say in which steps, or whatever they are in, an individual counts."""
        return f"every {place}"


@lru_cache(maxsize=32)
def is_of_days(grid: TimeGrid) -> bool:
    """Return whether each step of a grid is a day or longer, in which people can be at several places in turn."""
    return not grid.is_integer and bool(np.diff(grid.edges()).min() >= _SHORTEST_DAY)


@lru_cache(maxsize=32)
def _table(ends_below: tuple[int, ...], share_of_remainder: float, last: int) -> Table:
    steps, share = [*ends_below, last], Fraction(share_of_remainder)
    ends = [steps[0]]
    while ends[-1] < last:
        end = ends[-1]
        ends.append(min(end + max(1, end // 24), last))  # every number of steps up to 48, then within 4%
    unit = steps[0] * 4**RESOLUTION_BITS

    @cache
    def remainder(k: int, n: int) -> Fraction:
        """Return what series k and those before it have of an individual in ``n`` steps."""
        amount = Fraction(1, n)
        for later in range(len(steps) - 1, k, -1):
            amount -= share * remainder(later, max(n, steps[later]))
        return amount

    def weight(k: int, n: int) -> int:
        square = (share if k else 1) * remainder(k, max(n, steps[k]))
        return math.isqrt(math.floor(unit * square))

    weights = np.array([[weight(k, end) for k in range(len(steps))] for end in ends], dtype=np.int64)
    for array in (table := Table(np.array(ends, dtype=np.int64), weights)):
        array.flags.writeable = False
    return table


def tiers_for(reading: Reading, *, typical: int | None = None, total_bound: int | None = None) -> Tiers:
    """Return the tiers of what is read, unless others are asked for: by its size alone, which is public.

    :param typical: a typical value; if left out, 1 and the binary logarithm of the bound, or its cube root if that is
        more, or one event, unless the last tier is then far. A bound may be generous: from too high a tier on, all is
        noisy, and too many tiers tell less apart.
    """
    tiers = Tiers(ends=(), total_bound=total_bound)
    if typical is None:
        bound = reading.step_cap if reading.is_sum else 1
        size = round(max(1 + math.log2(bound), bound ** (1 / 3)))
        typical = max(size, math.isqrt(tiers.last(reading) >> _FAR))
    tiers = replace(tiers, typical=typical)
    # Of keys at which people are read once, most are at few.
    return replace(tiers, ends=default_tiers(tiers.last(reading), first=2 if reading.is_once else 10).ends)


def default_tiers(last: int, *, first: int = 10) -> Tiers:
    """Return the tiers for individuals of whom nothing is known but in how many steps they can be: the last tier.

    Each is about five times the one before it. If there are several, one of two thirds of the last tells the level
    better, as few come in more.

    :param first: about the first tier.
    """
    ratio = last / first
    between = min(round(math.log(ratio, 5)), _MOST - 1) if ratio > 1 else 0
    penultimate = [2 * last // 3] if between > 1 else []
    return Tiers(ends=(*(round(first * ratio ** (k / between)) for k in range(between)), *penultimate))
