"""How many of an individual's steps a stratified sample keeps, in the worst case.

One step of each block of ``B`` is kept. Somebody with ``n_b`` steps in block ``b`` is caught there with probability
``n_b/B``, in each block independently, so the number of their kept steps is a sum of independent trials. What is worst
depends on the function: for a convex one, steps spread evenly over the blocks; for any other increasing one, a
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

#: A spread of steps over blocks: ``(blocks, steps)``, so many blocks with so many steps in each; none of 0.
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
                if in_short <= rest and _fits(rest - in_short, others, blocks.length):
                    yield _joined((whole, blocks.length), (1, in_short), *_evenly(rest - in_short, others))
        for others in range(1, free + 2):
            # One of them is the short block, with the lesser number.
            if _fits(rest, others, blocks.length) and 0 < rest // others < blocks.short:
                yield _joined((whole, blocks.length), *_evenly(rest, others))


def trials_of(spread: Spread, length: int) -> list[tuple[int, float]]:
    """Return numbers of alike trials, and the probability of each, rounded up."""
    return [(count, up_fraction(Fraction(steps, length))) for count, steps in spread]


def kept_of_spread(spread: Spread, length: int, square: Fraction) -> Law:
    """Law of ``square`` times the number that is kept, for convex ``φ``; up to 2,047 trials, for increasing ``φ``."""
    law = trials_sum(trials_of(spread, length))
    return Law(multiples(square, law.values.astype(np.int64)), law.weights)


class WorstSpreads(NamedTuple):
    """Laws of which one is the worst for every increasing function: one row of weights for each, at the same values."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    def mean(self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        """Return the largest mean of a function."""
        return float(np.max(self.weights @ function(self.values)))


@lru_cache(maxsize=16)
def worst_spreads(steps: int, blocks: Blocks, square: Fraction) -> WorstSpreads | None:
    """Return the laws of ``square`` times the number that is kept; None if the list is too long.

    :param steps: number of the individual's steps.
    :param blocks: of the signal.
    :param square: squared change of each step.
    """
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


def _fits(steps: int, blocks: int, length: int) -> bool:
    """Whether steps can be spread evenly over so many blocks, at least one in each."""
    return blocks <= steps <= blocks * length


def _evenly(steps: int, blocks: int) -> Spread:
    if blocks == 0:
        return ()
    each, more = divmod(steps, blocks)
    return _joined((blocks - more, each), (more, each + 1))


def _joined(*parts: tuple[int, int]) -> Spread:
    return tuple((blocks, steps) for blocks, steps in parts if blocks > 0 and steps > 0)
