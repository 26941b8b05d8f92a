"""Which sets of steps a sample may keep, and with which probability. All of it is public, and nothing is drawn here.

* ``"poisson"``: each step by itself, with probability ``p`` (Koga, Meehan & Chaudhuri 2022, Algorithm 1).
* ``"stratified"``: one uniformly random step of each block of ``B = 1/p``. In a short last block, too, one of ``B``
  offsets is drawn, and nothing is kept if no step has it: every step is kept with probability ``1/B``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import up_fraction

__all__ = ["SAMPLINGS", "Blocks", "blocks_of"]

SAMPLINGS: Final = ("poisson", "stratified")


@dataclass(frozen=True)
class Blocks:
    """The steps of a signal, cut into blocks from its beginning; of a panel, one series after the other.

    :param size: ``T``, number of steps.
    :param length: ``B``, steps of a block.

    >>> blocks = Blocks(size=25, length=10)
    >>> blocks.full, blocks.short, blocks.count
    (2, 5, 3)
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
        return self.full + (self.short > 0)

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
    >>> blocks_of(0.15, size=100)
    Traceback (most recent call last):
    ValueError: sampling_probability (0.15) must be one over a whole number of steps for sampling='stratified', ...
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
