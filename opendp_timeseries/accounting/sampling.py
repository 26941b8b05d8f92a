"""Sampling of steps: the sets that a sample may keep, and the number kept of an individual's. Nothing is drawn here.

* ``"poisson"``: each step by itself, with probability ``p`` (Koga, Meehan & Chaudhuri 2022, Algorithm 1).
* ``"stratified"``: one uniformly random step of each block of ``B = 1/p``. In a short last block, too, one of ``B``
  offsets is drawn, and nothing is kept if no step has it: every step is kept with probability ``1/B``.

Of somebody with ``n_b`` steps in block ``b``, one is kept with probability ``n_b/B``, in each block independently. For
convex functions of the number kept, steps spread evenly over the blocks are the worst; for other increasing functions,
a member of the finite list of :func:`spreads`. Proof: docs/proofs/extremal_law.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.laws import MAX_POINTS, Law, binomial_tail, multiples, trials_sum
from opendp_timeseries.accounting.rounding import up_fraction

__all__ = [
    "COIN_BITS",
    "SAMPLINGS",
    "Blocks",
    "Sampling",
    "Spread",
    "blocks_of",
    "even_spread",
    "kept_of_spread",
    "spreads",
    "trials_of",
    "worst_spreads",
]

SAMPLINGS: Final = ("poisson", "stratified")
#: Random bits of the coin of a step, which keeps it if they are below ``p·2**53``: ``p`` is a multiple of ``2**-53``.
COIN_BITS: Final = 53

#: Steps spread over blocks: pairs ``(blocks, steps)``, each for that many blocks with that many steps, all positive.
Spread = tuple[tuple[int, int], ...]

#: The list is used if its laws have at most this many weights in total: about a second of work.
_MAX_WEIGHTS: Final = 2**19


@dataclass(frozen=True)
class Blocks:
    """The steps of a signal, cut into blocks from its beginning; the series of a panel follow one another.

    :param size: ``T``, number of steps.
    :param length: ``B``, steps of a block.
    """

    size: int
    length: int

    @property
    def full(self) -> int:
        """Number of full blocks."""
        return self.size // self.length

    @property
    def short(self) -> int:
        """Number of steps in the short last block; 0 if there is none."""
        return self.size % self.length

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.size // self.length)

    @property
    def probability(self) -> float:
        """The least float that is not below ``1/B``."""
        return up_fraction(Fraction(1, self.length))

    def allow(self, steps: NDArray[np.int64]) -> bool:
        """Return whether steps from 0 to ``T − 1`` are one of each full block and at most one of the short block."""
        counts = np.bincount(steps // self.length, minlength=self.count)
        return bool(np.all(counts[: self.full] == 1) and np.all(counts[self.full :] <= 1))


def blocks_of(sampling_probability: float, size: int) -> Blocks:
    """Return the blocks of a signal of ``size`` steps, each of which is kept with ``sampling_probability``.

    :param sampling_probability: ``1/B`` as a float, rounded to the nearest or up.
    :raises ValueError: if it is not one over a whole number, or the signal has no full block.

    >>> blocks_of(1 / 12, size=100)
    Blocks(size=100, length=12)
    """
    p = check.probability("sampling_probability", sampling_probability)
    if p == 0 or 1 / p > size + 0.5:
        raise Refusal(
            "sampling_probability", p, f"leaves no block of 1/p steps in a signal of {size}", f"give at least 1/{size}"
        )
    length = round(1 / p)
    if p not in (1 / length, up_fraction(Fraction(1, length))):
        below = int(1 / p)
        raise Refusal(
            "sampling_probability",
            p,
            "must be one over a whole number of steps for `sampling='stratified'`, which keeps one step of each block",
            f"the nearest are 1/{below} and 1/{below + 1}",
        )
    return Blocks(size, length)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Random sampling of the steps of a release, independent of the data.

    :param probability: ``p``, with which each step is kept; for steps kept by themselves, rounded up to a multiple of
        ``2**-53``.
    :param stratified: True for one step of each block of ``1/p``, False for each step by itself.
    :raises TypeError, ValueError: for a number that is no probability.
    """

    probability: float = 1.0
    stratified: bool = False

    def __post_init__(self) -> None:
        p = check.probability("sampling_probability", self.probability)
        # The probability that is used, whatever a document says: accounting must match what runs.
        coins = p if self.stratified else math.ceil(p * 2**COIN_BITS) / 2**COIN_BITS
        object.__setattr__(self, "probability", coins)

    @classmethod
    def of(cls, sampling_probability: float, sampling: str = "poisson") -> Self:
        """Return the sampling of a constructor's parameters; ``sampling`` is ``"poisson"`` or ``"stratified"``."""
        stratified = check.choice("sampling", sampling, SAMPLINGS) == "stratified"
        return cls(probability=sampling_probability, stratified=stratified)

    @property
    def name(self) -> str:
        """``"poisson"`` or ``"stratified"``."""
        return SAMPLINGS[self.stratified]

    def arguments(self) -> dict[str, object]:
        """Return the sampling as arguments of a constructor."""
        return {"sampling_probability": self.probability, "sampling": self.name}

    def words(self) -> str:
        """Describe the kept steps."""
        return "every step" if self.probability == 1 else f"p = {self.probability:g}{self.in_blocks}"

    @property
    def in_blocks(self) -> str:
        """Suffix to a probability in words: " in blocks" for stratified samples, else empty."""
        return " in blocks" if self.stratified else ""

    def blocks(self, size: int) -> Blocks | None:
        """Return the blocks of a signal of ``size`` steps; None where each step is kept by itself.

        :raises ValueError: for a probability that does not fit ``size``.
        """
        return blocks_of(self.probability, size) if self.stratified else None

    def allows(self, steps: NDArray[np.int64], size: int, threshold: float) -> bool:
        """Return whether a sample of ``size`` steps can have kept these steps.

        :param least: probability below which so small, or so large, a sample counts as impossible.
        """
        if (blocks := self.blocks(size)) is not None:
            return blocks.allow(steps)
        number, p = len(steps), self.probability
        at_least = binomial_tail(number - 1, size, p) if number > 0 else 1.0
        at_most = binomial_tail(size - number - 1, size, 1 - p) if number < size else 1.0
        return not ((p == 0 and number > 0) or (p == 1 and number < size) or min(at_least, at_most) < threshold)


def even_spread(steps: int, blocks: Blocks) -> Spread:
    """Return the most even spread: the worst for every convex increasing function."""
    per_block, _ = divmod(steps, blocks.count)
    if not blocks.short or per_block <= blocks.short:
        return _even_parts(steps, blocks.count)
    return _spread_of((1, blocks.short), *_even_parts(steps - blocks.short, blocks.full))


def spreads(steps: int, blocks: Blocks) -> Iterator[Spread]:
    """Yield spreads that include the worst, for every increasing function of the number kept.

    In each, the numbers of steps in blocks that are neither empty nor full differ by at most one.
    """
    for full_blocks in range(min(steps // blocks.length, blocks.full) + 1):
        remaining, free = steps - full_blocks * blocks.length, blocks.full - full_blocks
        for in_short in {0, blocks.short}:
            for shared in range(free + 1):
                if shared <= remaining - in_short <= shared * blocks.length:
                    yield _spread_of(
                        (full_blocks, blocks.length), (1, in_short), *_even_parts(remaining - in_short, shared)
                    )
        for shared in range(1, free + 2):
            # The short block is one of them, with the smaller number.
            if shared <= remaining <= shared * blocks.length and 0 < remaining // shared < blocks.short:
                yield _spread_of((full_blocks, blocks.length), *_even_parts(remaining, shared))


def trials_of(spread: Spread, length: int) -> list[tuple[int, float]]:
    """Return pairs of a number of trials and their common probability, rounded up."""
    return [(count, up_fraction(Fraction(steps, length))) for count, steps in spread]


def kept_of_spread(spread: Spread, length: int, square: Fraction) -> Law:
    """Return the law of ``square`` times the number kept, for the class of functions of ``trials_sum``."""
    law = trials_sum(trials_of(spread, length))
    return Law(multiples(square, law.values.astype(np.int64)), law.weights)


@lru_cache(maxsize=16)
def worst_spreads(steps: int, blocks: Blocks, square: Fraction) -> Law | None:
    """Return laws of ``square`` times the number kept, one row of weights per spread; None if there are too many."""
    largest = min(steps, blocks.count)
    if largest >= MAX_POINTS:
        return None
    candidates = list(islice(spreads(steps, blocks), _MAX_WEIGHTS // (largest + 1) + 1))
    if len(candidates) * (largest + 1) > _MAX_WEIGHTS:
        return None
    weights = np.zeros((len(candidates), largest + 1))
    for row, spread in zip(weights, candidates, strict=True):
        law = trials_sum(trials_of(spread, blocks.length))
        row[law.values.astype(np.int64)] = law.weights
    return Law(multiples(square, np.arange(largest + 1)), weights)


def _even_parts(steps: int, blocks: int) -> Spread:
    per_block, larger = divmod(steps, blocks) if blocks else (0, 0)
    return _spread_of((blocks - larger, per_block), (larger, per_block + 1))


def _spread_of(*parts: tuple[int, int]) -> Spread:
    return tuple((blocks, steps) for blocks, steps in parts if blocks > 0 and steps > 0)
