"""How many of an individual's steps a stratified sample keeps, in the worst case.

Somebody with ``n_b`` steps in block ``b`` is caught there with probability ``n_b/B``, in each block independently. For
convex functions of the number kept, steps spread evenly over the blocks are the worst; for other increasing ones, a
member of the finite list of :func:`spreads`. Proof: docs/proofs/extremal_law.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.laws import MAX_POINTS, Law, multiples, trials_sum
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.accounting.sampling import Blocks

__all__ = ["Spread", "WorstSpreads", "even_spread", "kept_of_spread", "spreads", "trials_of", "worst_spreads"]

#: Steps spread over blocks: pairs ``(blocks, steps)`` of that many blocks with that many steps in each, all positive.
Spread = tuple[tuple[int, int], ...]

#: The list is made where its laws have at most so many weights in all: about a second of work.
_MAX_WEIGHTS: Final = 2**19


def even_spread(steps: int, blocks: Blocks) -> Spread:
    """Return the most even spread: the worst for every convex increasing function.

    >>> even_spread(7, Blocks(size=25, length=10)), even_spread(20, Blocks(size=25, length=10))
    (((2, 2), (1, 3)), ((1, 5), (1, 7), (1, 8)))
    """
    each, _ = divmod(steps, blocks.count)
    if not blocks.short or each <= blocks.short:
        return _evenly(steps, blocks.count)
    return _joined((1, blocks.short), *_evenly(steps - blocks.short, blocks.full))


def spreads(steps: int, blocks: Blocks) -> Iterator[Spread]:
    """Yield spreads of which one is the worst, for every increasing function of the number kept.

    Blocks that are neither empty nor all the individual's have numbers of steps that differ by at most one.
    """
    for whole in range(min(steps // blocks.length, blocks.full) + 1):
        rest, free = steps - whole * blocks.length, blocks.full - whole
        for in_short in {0, blocks.short}:
            for others in range(free + 1):
                if others <= rest - in_short <= others * blocks.length:
                    yield _joined((whole, blocks.length), (1, in_short), *_evenly(rest - in_short, others))
        for others in range(1, free + 2):
            # One of them is the short block, with the lesser number.
            if others <= rest <= others * blocks.length and 0 < rest // others < blocks.short:
                yield _joined((whole, blocks.length), *_evenly(rest, others))


def trials_of(spread: Spread, length: int) -> list[tuple[int, float]]:
    """Return how many trials share a probability, and that probability, rounded up."""
    return [(count, up_fraction(Fraction(steps, length))) for count, steps in spread]


def kept_of_spread(spread: Spread, length: int, square: Fraction) -> Law:
    """Return the law of ``square`` times the number kept, of the functions that ``trials_sum`` is for."""
    law = trials_sum(trials_of(spread, length))
    return Law(multiples(square, law.values.astype(np.int64)), law.weights)


class WorstSpreads(NamedTuple):
    """Laws of which one is the worst for every increasing function: rows of weights, at the same values."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    def mean(self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        """Return the largest mean of a function."""
        return float(np.max(self.weights @ function(self.values)))


@lru_cache(maxsize=16)
def worst_spreads(steps: int, blocks: Blocks, square: Fraction) -> WorstSpreads | None:
    """Return the laws of ``square`` times the number of steps kept; None if the list is too long."""
    most = min(steps, blocks.count)
    if most >= MAX_POINTS:
        return None
    found = list(islice(spreads(steps, blocks), _MAX_WEIGHTS // (most + 1) + 1))
    if len(found) * (most + 1) > _MAX_WEIGHTS:
        return None
    weights = np.zeros((len(found), most + 1))
    for row, spread in zip(weights, found, strict=True):
        law = trials_sum(trials_of(spread, blocks.length))
        row[law.values.astype(np.int64)] = law.weights
    return WorstSpreads(multiples(square, np.arange(most + 1)), weights)


def _evenly(steps: int, blocks: int) -> Spread:
    each, more = divmod(steps, blocks) if blocks else (0, 0)
    return _joined((blocks - more, each), (more, each + 1))


def _joined(*parts: tuple[int, int]) -> Spread:
    return tuple((blocks, steps) for blocks, steps in parts if blocks > 0 and steps > 0)
