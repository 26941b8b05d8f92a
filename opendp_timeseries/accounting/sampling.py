"""Which sets of steps a sample may keep, and how many of an individual's. All is public; nothing is drawn here.

* ``"poisson"``: each step by itself, with probability ``p`` (Koga, Meehan & Chaudhuri 2022, Algorithm 1).
* ``"stratified"``: one uniformly random step of each block of ``B = 1/p``. In a short last block, too, one of ``B``
  offsets is drawn, and nothing is kept if no step has it: every step is kept with probability ``1/B``.

Somebody with ``n_b`` steps in block ``b`` is caught there with probability ``n_b/B``, in each block independently. For
convex functions of the number kept, steps spread evenly over the blocks are the worst; for other increasing ones, a
member of the finite list of :func:`spreads`. Proof: docs/proofs/extremal_law.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
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
#: A step is kept by itself if so many random bits fall below ``p·2**53``, so that ``p`` is a multiple of ``2**-53``.
COIN_BITS: Final = 53

#: Steps spread over blocks: pairs ``(blocks, steps)`` of that many blocks with that many steps in each, all positive.
Spread = tuple[tuple[int, int], ...]

#: The list is made where its laws have at most so many weights in all: about a second of work.
_MAX_WEIGHTS: Final = 2**19


@dataclass(frozen=True)
class Blocks:
    """The steps of a signal, cut into blocks from its beginning; of a panel, one series after the other.

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
        """Number of steps in a last block that is short, or 0."""
        return self.size % self.length

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.size // self.length)

    @property
    def probability(self) -> float:
        """The least float that is not below ``1/B``."""
        return up_fraction(Fraction(1, self.length))

    def allow(self, kept: NDArray[np.int64]) -> bool:
        """Return whether steps from 0 to ``T − 1`` are one of each full block, and at most one of the short one."""
        found = np.bincount(kept // self.length, minlength=self.count)
        return bool(np.all(found[: self.full] == 1) and np.all(found[self.full :] <= 1))


def blocks_of(sampling_probability: float, size: int) -> Blocks:
    """Return the blocks of a signal of ``size`` steps, each of which is kept with ``sampling_probability``.

    :param sampling_probability: ``1/B`` as a float, rounded to the nearest or up.
    :raises ValueError: if it is not one over a whole number, or the signal has no full block.

    >>> blocks_of(1 / 12, size=100)
    Blocks(size=100, length=12)
    """
    p = check.probability("sampling_probability", sampling_probability)
    if p == 0 or 1 / p > size + 0.5:
        raise ValueError(
            f"sampling_probability ({p}) leaves no block of 1/p steps in a signal of {size}; give at least 1/{size}"
        )
    length = round(1 / p)
    if p not in (1 / length, up_fraction(Fraction(1, length))):
        below = int(1 / p)
        raise ValueError(
            f"sampling_probability ({p}) must be one over a whole number of steps for sampling='stratified', which"
            f" keeps one step of each block; the nearest are 1/{below} and 1/{below + 1}"
        )
    return Blocks(size, length)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the steps of a release are sampled, by chance and without looking at the data.

    :param probability: ``p``, with which each step is kept; of steps kept by themselves, rounded up to a multiple of
        ``2**-53``.
    :param stratified: True for one step of each block of ``1/p``, False for each step by itself.
    :raises TypeError, ValueError: for a number that is no probability.
    """

    probability: float = 1.0
    stratified: bool = False

    def __post_init__(self) -> None:
        p = check.probability("sampling_probability", self.probability)
        # As steps are kept, also where a document says otherwise: what is accounted for is what runs.
        coins = p if self.stratified else math.ceil(p * 2**COIN_BITS) / 2**COIN_BITS
        object.__setattr__(self, "probability", coins)

    @classmethod
    def of(cls, sampling_probability: Any, sampling: Any = "poisson") -> Self:
        """Return what constructors are asked for, ``"poisson"`` or ``"stratified"``."""
        stratified = check.choice("sampling", sampling, SAMPLINGS) == "stratified"
        return cls(probability=sampling_probability, stratified=stratified)

    @property
    def name(self) -> str:
        """``"poisson"`` or ``"stratified"``."""
        return SAMPLINGS[self.stratified]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of constructors that ask for it."""
        return {"sampling_probability": self.probability, "sampling": self.name}

    def words(self) -> str:
        """Say which steps are kept."""
        return "every step" if self.probability == 1 else f"p = {self.probability:g}{self.in_blocks}"

    @property
    def in_blocks(self) -> str:
        """What stands behind a probability: that it is of one step of each block, if it is."""
        return " in blocks" if self.stratified else ""

    def blocks(self, size: int) -> Blocks | None:
        """Return the blocks of a signal of so many steps; None where each step is kept by itself.

        :raises ValueError: for a probability that does not fit so many steps.
        """
        return blocks_of(self.probability, size) if self.stratified else None

    def allows(self, steps: NDArray[np.int64], size: int, least: float) -> bool:
        """Return whether these steps can have been kept of so many.

        :param least: probability below which as few, or as many, are held to be impossible.
        """
        if (blocks := self.blocks(size)) is not None:
            return blocks.allow(steps)
        kept, p = len(steps), self.probability
        at_least = binomial_tail(kept - 1, size, p) if kept > 0 else 1.0
        at_most = binomial_tail(size - kept - 1, size, 1 - p) if kept < size else 1.0
        return not ((p == 0 and kept > 0) or (p == 1 and kept < size) or min(at_least, at_most) < least)


def even_spread(steps: int, blocks: Blocks) -> Spread:
    """Return the most even spread: the worst for every convex increasing function."""
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


@lru_cache(maxsize=16)
def worst_spreads(steps: int, blocks: Blocks, square: Fraction) -> Law | None:
    """Return the laws of ``square`` times the number of steps kept, rows of weights; None if the list is too long."""
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
    return Law(multiples(square, np.arange(most + 1)), weights)


def _evenly(steps: int, blocks: int) -> Spread:
    each, more = divmod(steps, blocks) if blocks else (0, 0)
    return _joined((blocks - more, each), (more, each + 1))


def _joined(*parts: tuple[int, int]) -> Spread:
    return tuple((blocks, steps) for blocks, steps in parts if blocks > 0 and steps > 0)
