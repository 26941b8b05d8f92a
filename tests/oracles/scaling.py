"""Slow truths about individuals who are scaled: every vector that one can add to a small panel, in whole numbers.

Nothing here imports the package. Weights, and with them all counts, are whole numbers of ``2**-16``; a weight is found
by trying, from the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from tests.oracles.separated import apart

UNIT = 2**16


def largest(admits: Callable[[int], bool]) -> int:
    """The largest whole number up to 2**16 that is admitted, by halving; smaller ones are, too."""
    low, high = 0, UNIT
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if admits(middle) else (low, middle - 1)
    return low


def weight(energy: int, cap: int, step_cap: int) -> int:
    """The largest weight with which the squares sum to no more than those of ``cap`` full steps."""
    return largest(lambda q: Fraction(q, UNIT) ** 2 * energy <= cap * step_cap**2)


def weight_of_sum(total: int, cap: int, step_cap: int) -> int:
    """The same of the sum."""
    return largest(lambda q: Fraction(q, UNIT) * total <= cap * step_cap)


@cache
def scale_weights(number: int, most: int, ends: tuple[int, ...], share: Fraction) -> tuple[int, ...]:
    """Weights on the scales, from fine to coarse, of somebody in so many steps.

    Everybody in up to ``n`` steps has ``1/n`` to spend, the coarsest scale takes a share of what the heaviest has, the
    next one a share of what is then left to whoever has the least of those that it counts in full, and so on.
    """
    scales = [*ends, most]
    left = {n: Fraction(1, n) for n in range(1, most + 1)}
    squares = []
    for end in scales[:0:-1]:
        taken = {n: share * left[max(n, end)] for n in left}
        left = {n: left[n] - taken[n] for n in left}
        squares.append(taken[number])
    squares.append(left[max(number, scales[0])])
    return tuple(
        largest(lambda q, square=square: Fraction(q, UNIT) ** 2 <= square * scales[0]) for square in reversed(squares)
    )


def row_of(number: int, most: int, ends: tuple[int, ...]) -> int:
    """The end of the row of somebody in so many steps: all numbers up to 48, and then within 4%."""
    row = (*ends, most)[0]
    while row < number:
        row = min(row + max(1, row // 24), most)
    return row


class Setting(NamedTuple):
    """A count of one panel; in several tiers if ``share`` is not 0."""

    series: int
    steps: int
    cap: int
    step_cap: int
    excess: str
    gap: int = 1
    key_cap: int | None = None
    period: int | None = None
    ends: tuple[int, ...] = ()
    share: float = 0.0
    each: int = 1  # steps of each total; with 1, steps are counted
    typical: int = 0  # events of a step that counts as one, in tiers; else the step cap

    @property
    def key(self) -> int:
        return self.series if self.key_cap is None else self.key_cap

    @property
    def most(self) -> int:
        """In how many places somebody can be at once, in one period."""
        length = self.period or self.steps
        apart = min(-(-length // self.gap), self.steps // self.gap)
        return min(self.series * apart, self.key * length)

    def published(self, row: np.ndarray) -> np.ndarray:
        """What somebody with these events in one period adds, after step cap, key cap and gap."""
        energy = int((row**2).sum())
        if not self.share:
            if self.excess == "drop":
                return row * UNIT
            if self.excess == "l2":
                return row * weight(energy, self.cap, self.step_cap)
            scaled = row * weight_of_sum(int(row.sum()), self.cap, self.step_cap)
            return np.array([sum(scaled[k : k + self.each].tolist()) for k in range(0, len(row), self.each)])
        unit = (self.typical or self.step_cap) ** 2
        number = max(-(-energy // unit), 1)
        most = -(-self.most * self.step_cap**2 // unit)
        weights = scale_weights(row_of(number, most, self.ends), most, self.ends, Fraction(self.share))
        return np.concatenate([row * weight for weight in weights])

    def allowed(self, row: Sequence[int]) -> bool:
        """Whether key cap and gap leave such a row as it is; where steps are dropped, the cap too."""
        there = np.array(row).reshape(self.series, self.steps) > 0
        if there.sum(axis=0).max() > self.key:
            return False
        if self.excess == "drop" and there.sum() > self.cap:
            return False
        return all(apart(np.flatnonzero(line).tolist(), self.steps, self.gap) for line in there)

    def in_period(self, number: int) -> list[np.ndarray]:
        """Every row of one individual in one period, the empty one too."""
        length = self.period or self.steps
        steps = range(number * length, min((number + 1) * length, self.steps))
        places = [j * self.steps + t for j in range(self.series) for t in steps]
        rows = []
        for events in product(range(self.step_cap + 1), repeat=len(places)):
            row = np.zeros(self.series * self.steps, dtype=np.int64)
            row[places] = events
            if self.allowed(row.tolist()):
                rows.append(row)
        return rows

    @property
    def number(self) -> int:
        """How many periods there are."""
        return -(-self.steps // (self.period or self.steps))

    def contributions(self, periods: int = 1) -> np.ndarray:
        """Everything that one individual can add who is in at most so many periods, in units of ``2**-16``."""
        empty = self.published(np.zeros(self.series * self.steps, dtype=np.int64))
        found = {empty.tobytes(): (empty, 0)}
        for number in range(self.number):
            more = [self.published(row) for row in self.in_period(number) if row.any()]
            for so_far, used in list(found.values()):
                if used < periods:
                    for row in more:
                        found[(so_far + row).tobytes()] = (so_far + row, used + 1)
        return np.array([row for row, _ in found.values()])


def moves(rows: np.ndarray, *, replaced: bool, most: int, random: np.random.Generator) -> np.ndarray:
    """What one individual changes: all, or, of more than so many who are replaced, those who move most and some."""
    if not replaced:
        return np.concatenate([rows, -rows])
    if len(rows) ** 2 <= most:
        pairs = np.array(list(product(range(len(rows)), repeat=2)))
    else:
        heavy = np.argsort(-(rows**2).sum(axis=1))[: max(int(most**0.5) // 2, 2)]
        wide = np.argsort(-np.count_nonzero(rows, axis=1), kind="stable")[: len(heavy)]
        tall = np.argsort(-rows.max(axis=1), kind="stable")[: len(heavy)]
        ends = np.unique(np.concatenate([heavy, wide, tall]))
        pairs = np.concatenate([np.array(list(product(ends, ends))), random.integers(len(rows), size=(most, 2))])
    first, second = pairs.T
    return np.unique(rows[first] - rows[second], axis=0)


def totals(rows: np.ndarray, series: int, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Sums over the series of each group, one group after the other."""
    panels = rows.reshape(len(rows), series, -1)
    return np.concatenate([panels[:, list(group)].sum(axis=1) for group in groups], axis=1)


def family(cap: int, size: int, probability: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and weights of ``(cap / n)·Bin(n, probability)``, of somebody in ``n`` steps with one event in each."""
    from scipy.stats import binom

    laws = []
    for n in range(cap, size + 1):
        kept = np.arange(n + 1)
        laws.append((kept * cap / n, binom.pmf(kept, n, probability)))
    return laws


def kept_law(difference: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and weights of the squared distance that sampling leaves of a difference, over all kept sets."""
    squares = difference[difference != 0].astype(float) ** 2
    values, weights = np.zeros(1), np.ones(1)
    for square in squares:
        values = np.concatenate([values, values + square])
        weights = np.concatenate([weights * (1 - probability), weights * probability])
    return values, weights
