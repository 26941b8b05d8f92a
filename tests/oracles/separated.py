"""Slow, independent truths about steps that lie a gap apart on a cycle: every set of them, from the definition.

Nothing here imports the package. Signals and taps are rows of whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np


def apart(steps: Sequence[int], size: int, gap: int) -> bool:
    """Whether every two of the steps are at least ``gap`` from each other, whichever way round."""
    return all((s - t) % size >= gap and (t - s) % size >= gap for s, t in combinations(steps, 2))


def supports(size: int, gap: int, most: int) -> list[tuple[int, ...]]:
    """All sets of at most ``most`` steps that lie apart, the empty one too."""
    sets = (steps for count in range(min(most, size) + 1) for steps in combinations(range(size), count))
    return [steps for steps in sets if apart(steps, size, gap)]


def indicators(size: int, gap: int, most: int) -> np.ndarray:
    """One row of zeros and ones for each of the supports."""
    found = supports(size, gap, most)
    rows = np.zeros((len(found), size), dtype=np.int64)
    for row, steps in zip(rows, found, strict=True):
        row[list(steps)] = 1
    return rows


def signed(size: int, gap: int, most: int) -> np.ndarray:
    """All rows of -1, 0 and 1 whose steps lie apart: the corners of all changes by one individual."""
    rows = [
        [dict(zip(steps, signs, strict=True)).get(t, 0) for t in range(size)]
        for steps in supports(size, gap, most)
        for signs in product((1, -1), repeat=len(steps))
    ]
    return np.array(rows, dtype=np.int64)


def differences(people: np.ndarray) -> np.ndarray:
    """All differences of two of the rows: one individual who is replaced by another."""
    return np.unique((people[:, None, :] - people[None, :, :]).reshape(-1, people.shape[1]), axis=0)


def in_series(rows: np.ndarray, series: int, most: int) -> np.ndarray:
    """All ways for one individual to take such rows in several series, with at most ``most`` steps in all."""
    together = np.array([np.concatenate(parts) for parts in product(rows, repeat=series)])
    return together[np.count_nonzero(together, axis=1) <= most]


def filtered(rows: np.ndarray, taps: Sequence[int]) -> np.ndarray:
    """``y_t = sum_k x_k h_((t - k) mod T)`` of every row, and of every series in it."""
    size = len(taps)
    matrix = np.array([[taps[(t - k) % size] for t in range(size)] for k in range(size)])
    return (rows.reshape(len(rows), -1, size) @ matrix).reshape(rows.shape)


def drawn(random: np.random.Generator, size: int, gap: int, most: int) -> list[int]:
    """A random set that lies apart: steps taken one by one, or a comb, or a comb with a shift inside."""
    way = random.integers(3)
    if way == 0:
        kept: list[int] = []
        for step in random.permutation(size).tolist():
            if len(kept) < most and apart([step, *kept], size, gap):
                kept.append(step)
        return kept
    spacing = gap + int(random.integers(3)) * int(random.integers(2))
    comb = [k * spacing for k in range(min(most, max(size // spacing, 1)))]
    room = size - spacing * len(comb)
    if way == 2 and len(comb) > 1 and room > 0:
        cut, shift = int(random.integers(len(comb))), int(random.integers(room + 1))
        comb = comb[:cut] + [step + shift for step in comb[cut:]]
    return comb
