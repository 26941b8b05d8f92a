"""What a filter does to steps that lie a gap apart on the cycle: exact sums of integers.

Seen from any step, such steps lie at distances of at least ``d, d + gap, d + 2·gap, …`` on one side and
``gap − d, 2·gap − d, …`` on the other, so weights that decrease with the distance add up to sums over two combs. Other
weights are replaced by their least decreasing majorant, their envelope. Proof: docs/proofs/separated_steps.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["comb_sums", "envelope", "most_apart", "row_sum"]


def most_apart(size: int, gap: int) -> int:
    """Return how many steps of a cycle can lie a gap apart."""
    return max(size // gap, 1)


def envelope(magnitudes: NDArray[Any]) -> NDArray[Any]:
    """Return the largest of ``T`` magnitudes by shift at each circular distance ``0 … ⌊T/2⌋`` or a larger one."""
    mirrored = np.roll(magnitudes[::-1], 1)
    inwards = np.maximum(magnitudes, mirrored)[: len(magnitudes) // 2 + 1][::-1]
    largest: NDArray[Any] = np.maximum.accumulate(inwards)
    return largest[::-1]


def row_sum(magnitudes: NDArray[Any], gap: int, steps: int) -> Any:
    """Return the most that magnitudes sum to over the differences of one step to all steps: exactly, if of integers.

    :param magnitudes: of ``T`` numbers by shift, such as an autocorrelation.
    :param gap: least distance of two steps.
    :param steps: how many there are, at most as many as can lie apart.
    """
    # The k-th step clockwise lies at least k gaps away, and at least n - k gaps the other way round.
    k = np.arange(1, steps)
    neighbours = envelope(magnitudes)[gap * np.minimum(k, steps - k)]
    return sum(neighbours.tolist(), *magnitudes[:1].tolist())


def comb_sums(magnitudes: NDArray[np.int64], gap: int, steps: int) -> NDArray[Any]:
    """Return the most that taps sum to over steps that lie apart, by the distance ``0 … ⌊T/2⌋`` of the nearest one.

    :param magnitudes: of the ``T`` taps by shift.
    :param gap: least distance of two steps.
    :param steps: how many there are, at most as many as can lie apart.
    """
    weights = envelope(magnitudes)
    nearest = np.arange(len(weights))
    # On the other side, the nearest is no nearer, and the two are a gap apart.
    opposite = np.minimum(np.maximum(nearest, gap - nearest), len(weights) - 1)
    sums: NDArray[Any] = _combs(weights, gap, steps - steps // 2) + _combs(weights, gap, steps // 2)[opposite]
    return sums


def _combs(weights: NDArray[Any], gap: int, teeth: int) -> NDArray[Any]:
    """Return ``Σ_{k < teeth} weights[d + k·gap]`` for every ``d``; beyond the end, there are no steps."""
    rows = -(-len(weights) // gap)
    kind = np.int64 if int(weights[0]) * rows < 2**62 else object
    table = np.zeros((rows, gap), dtype=kind)
    table.flat[: len(weights)] = weights
    sums = np.cumsum(table[::-1], axis=0)[::-1]
    beyond = np.zeros_like(sums)
    beyond[: max(rows - teeth, 0)] = sums[teeth:]
    within: NDArray[Any] = sums - beyond
    return within.ravel()[: len(weights)]
