"""How far individuals move sums over the series of a panel.

Somebody who is in several series of a group at one step moves the group's total by all of them, unless a key cap limits
how many that are. Proof: docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.rounding import up_fraction, up_sqrt

__all__ = ["Level", "totals_influence"]


class Level(NamedTuple):
    """Groups of series that have no series in common: how many, and the number of series in the largest of them."""

    groups: int
    largest: int


def totals_influence(influence: Influence, levels: Sequence[Level], steps: int) -> Influence:
    """Return the influence on the totals of all groups, one level after the other, given that on a panel.

    The number of individuals stays. The gap is lost: at neighbouring steps they may be in different series of a group.

    :param levels: at least one; a series is in at most one group of each.
    :param steps: of each series.
    """
    each = [_of_level(influence, level, steps) for level in levels]
    l0 = sum(one.l0 for one in each)
    l2 = math.inf if influence.l2 == math.inf else up_sqrt(sum((one.squared for one in each), Fraction(0)))
    linf = max(one.linf for one in each)
    values = [one.majorant for one in each if one.majorant is not None]
    known = len(values) == len(each) and all(np.all(np.isfinite(value)) for value in values)
    majorant = Majorant(np.sort(np.concatenate(values))[::-1]) if known else None
    return Influence(l0=l0, l2=l2, linf=linf, individuals=influence.individuals, majorant=majorant)


class _OfLevel(NamedTuple):
    l0: int
    squared: Fraction
    linf: float
    majorant: NDArray[np.float64] | None


def _of_level(influence: Influence, level: Level, steps: int) -> _OfLevel:
    l0 = min(influence.l0, level.groups * steps)
    # So many entries of one individual can meet in one total.
    together = level.largest if influence.key_cap is None else min(level.largest, influence.key_cap)
    together = max(min(together, influence.l0_apart), 1)
    if influence.l2 == math.inf:
        return _OfLevel(l0, Fraction(0), math.inf, None)
    linf = Fraction(min(influence.linf, influence.l2))  # no entry is above the norm
    squared = together * Fraction(influence.l2_squared)
    largest = min(up_fraction(together * linf), up_sqrt(squared))  # Cauchy-Schwarz
    if influence.majorant is None:
        return _OfLevel(l0, squared, largest, None)
    # What they left and what they entered has opposite signs, and does not add up within a total.
    halves = 2 if influence.replaced else 1
    sums = np.repeat(_sums(influence.majorant.values[: influence.l0_apart], together), halves)
    if not np.all(np.isfinite(sums)):
        return _OfLevel(l0, squared, largest, None)
    values, counts = np.unique(sums, return_counts=True)
    equal = zip(map(Fraction, values.tolist()), counts.tolist(), strict=True)
    norm = sum((n * value**2 for value, n in equal), Fraction())
    top = float(values.max(initial=0.0))
    return _OfLevel(l0, min(squared, norm), min(largest, top), sums)


def _sums(values: NDArray[np.float64], together: int) -> NDArray[np.float64]:
    """Return the sums of ``together`` consecutive entries of a descending row, each rounded up."""
    blocks = np.append(values, np.zeros(-len(values) % together)).reshape(-1, together)
    rows, places = np.unique(blocks, axis=0, return_inverse=True)  # in a count, nearly all are equal
    sums = np.array([up_fraction(sum(map(Fraction, row), Fraction())) for row in rows.tolist()], dtype=np.float64)
    return sums[places.ravel()]
