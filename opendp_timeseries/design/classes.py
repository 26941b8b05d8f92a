"""Classes by activity: in which of a few series an individual counts, and with which weight, by how often they come.

Every individual is in one class only, by their own rows alone, so all classes together cost what one costs. Nobody is
dropped, and the series add up to the truth (docs/proofs/classes.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from opendp_timeseries import _validate as check

__all__ = ["RESOLUTION_BITS", "Classes", "default_classes"]

#: Weights are multiples of 2**-16: less than 2**-16 of a weight is lost by rounding it down.
RESOLUTION_BITS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Classes of individuals by the number of their steps; with a step cap ``M``, by ``Σ x² / M²``.

    The first class holds those in at most ``ends[0]`` steps, the next those in more, up to ``ends[1]``, and so on; the
    last those in more than ``ends[-1]``.

    :param ends: ascending, the most steps of all classes but the last.
    :param common: share of the squared norm with which everybody counts in a common series, beside that of their
        class; 0 for no common series, below 1.
    :raises TypeError, ValueError: naming the number.
    """

    ends: tuple[int, ...]
    common: float = 0.0

    def __post_init__(self) -> None:
        ends = tuple(check.integer("end of a class", end, minimum=1) for end in self.ends)
        if not ends or list(ends) != sorted(set(ends)):
            raise ValueError(f"ends of classes ({list(ends)}) must be at least one number, and ascend")
        common = check.real("common", self.common, minimum=0.0)
        if common >= 1:
            raise ValueError(f"common ({common}) must be below 1: something must be left for the classes")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "common", common)

    @property
    def has_common(self) -> bool:
        """Whether there is a common series, which comes first."""
        return self.common > 0

    @property
    def series(self) -> int:
        """Number of series: the common one, if there is one, and that of each class."""
        return self.has_common + len(self.ends) + 1

    def numerators(self, most: int) -> tuple[list[int], list[int]]:
        """Return the weights of each class in the common series and in its own, in units of ``2**-RESOLUTION_BITS``.

        :param most: in how many steps an individual can be at all: the end of the last class.
        """
        common = Fraction(self.common)
        ends = [*self.ends, max(most, self.ends[-1])]

        def weights(share: Fraction) -> list[int]:
            squares = [share * self.ends[0] * 4**RESOLUTION_BITS / end for end in ends]
            return [math.isqrt(math.floor(square)) for square in squares]

        return weights(common), weights(1 - common)

    def names(self, most: int) -> tuple[str, ...]:
        """Return the name of each series."""
        firsts, lasts = [1, *(end + 1 for end in self.ends)], [*self.ends, max(most, self.ends[-1])]
        own = [f"{first}–{last} steps" for first, last in zip(firsts, lasts, strict=True)]
        return ("all", *own) if self.has_common else tuple(own)


def default_classes(most: int) -> Classes:
    """Return the classes for individuals of whom nothing is known but in how many steps they can be.

    :param most: the end of the last class.
    """
    first = min(20, -(-most // 2))
    second = math.isqrt(first * most)  # halfway, in proportion
    return Classes(ends=(first, second) if 4 * first < most else (first,), common=0.8)
