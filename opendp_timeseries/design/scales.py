"""Nested scales: one individual counts in several series at once, with weights by how often they come.

The coarsest series counts everybody in full: it is unbiased, and has the most noise. Each finer one takes what an
individual has left of the norm, which is much for those who come seldom: so they pay nothing for the coarse ones. All
series together cost what one costs (docs/proofs/scaling.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from opendp_timeseries import _validate as check

__all__ = ["RESOLUTION_BITS", "Scales", "WeightTable"]

#: Weights are multiples of 2**-16.
RESOLUTION_BITS: Final = 16
#: Up to so many steps every number has weights of its own; beyond, all numbers within an eighth of a doubling share.
_SINGLE: Final = 64


class WeightTable(NamedTuple):
    """Public weights by the number of steps ``n``; with a step cap ``M``, by ``n = Σ x² / M²``.

    :param ends: ascending, the greatest ``n`` of each row.
    :param numerators: for each row the weight in each series, in units of ``2**-RESOLUTION_BITS``. Their squares sum to
        at most ``4**RESOLUTION_BITS·I / end``, so that the norm of what one individual adds is at most ``M√I``.
    """

    ends: tuple[int, ...]
    numerators: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Scales:
    """The nested scales of a count, from fine to coarse; the last is that of all steps, and is not listed.

    :param ends: ascending, the most steps in which somebody counts in full on each scale but the last.
    :param share: of what is left of somebody's squared norm, what each scale takes from the coarsest on; what is left
        at the end is the finest one's. Between 0 and 1.
    :raises TypeError, ValueError: naming the number.
    """

    ends: tuple[int, ...]
    share: float = 0.8

    def __post_init__(self) -> None:
        ends = tuple(check.integer("end of a scale", end, minimum=1) for end in self.ends)
        if not ends or list(ends) != sorted(set(ends)):
            raise ValueError(f"ends of scales ({list(ends)}) must be at least one number, and ascend")
        share = check.real("share", self.share, above=0.0)
        if share >= 1:
            raise ValueError(f"share ({share}) must be below 1: something must be left for the finer scales")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "share", share)

    @classmethod
    def of(cls, most: int) -> Scales:
        """Return the scales for individuals in up to so many steps: some 10, and then about five times as many each."""
        number = max(round(math.log(most / 10, 5)), 1) if most > 10 else 1
        ratio = max(most / 10, 1.0) ** (1 / number)
        return cls(ends=tuple(sorted({min(round(10 * ratio**k), most) for k in range(number)})))

    @property
    def series(self) -> int:
        """Number of series: one for each scale."""
        return len(self.ends) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each series."""
        return (*(f"scaled to {end} steps" for end in self.ends), "all steps")

    def table(self, most: int) -> WeightTable:
        """Return the weights of individuals.

        :param most: in how many steps an individual can be at all.
        """
        return _table(self, most)


@lru_cache(maxsize=64)
def _table(scales: Scales, most: int) -> WeightTable:
    least, share = scales.ends[0], Fraction(scales.share)
    most = max(most, scales.ends[-1])
    rows = list(range(1, min(most, _SINGLE) + 1))
    while rows[-1] < most:
        rows.append(min(max(math.ceil(rows[-1] * 2 ** (1 / 8)), rows[-1] + 1), most))
    ends = (*scales.ends, most)

    def left(n: int, k: int) -> Fraction:
        """What somebody in ``n`` steps has left of their squared norm after the scales beyond number ``k``."""
        if k == len(ends) - 1:
            return Fraction(1, n)
        return left(n, k + 1) - share * left(max(n, ends[k + 1]), k + 1)

    def weights(n: int) -> tuple[int, ...]:
        squares = [left(max(n, least), 0)] + [share * left(max(n, ends[k]), k) for k in range(1, len(ends))]
        return tuple(math.isqrt(math.floor(square * least * 4**RESOLUTION_BITS)) for square in squares)

    return WeightTable(tuple(rows), tuple(map(weights, rows)))
