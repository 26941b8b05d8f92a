"""Participation: how many individuals take part in how many steps, and so what a cap would lose.

It is public: a histogram of a similar population or a private release (see
:func:`~opendp_timeseries.make_participation_histogram`), or a few shares of people. This module post-processes it.

A cap is judged by the counts that it loses. Few individuals may hold most counts, so noise in a high entry is
multiplied by its many steps: it can look like twenty people in a thousand steps each. Noisy entries are therefore
smoothed first (:mod:`.denoise`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.design.weighting import Downweight, Drop, limit_steps
from opendp_timeseries.planning.denoise import denoise

Array = NDArray[np.float64]

#: The largest number of values by which an entry that covers a range of steps is represented.
_SAMPLE_SIZE: Final = 4096


def spaced_edges(limit: int) -> list[int]:
    """Return 1, 2, 3, 4, 6, 8, 12, 16, …: two to each octave, below ``limit``.

    :param limit: the most steps in which anybody can take part.
    """
    octaves = [2**k * base // 2 for k in range(63) for base in (2, 3)]
    return [edge for edge in dict.fromkeys(octaves) if edge < limit] or [1]


def checked_edges(edges: object, limit: int) -> list[int]:
    """Return ascending edges up to ``limit``, or :func:`spaced_edges` for ``None``; refuse others."""
    if edges is None:
        return spaced_edges(limit)
    remedy = "numbers of steps in ascending order, such as [10, 30, 100]"
    if not isinstance(edges, (Sequence, np.ndarray)):
        raise TypeRefusal("edges", edges, f"must be {remedy}")
    listed = [check.integer("edges", edge, minimum=1, maximum=2**62, remedy=remedy) for edge in edges]
    if not listed or any(low >= high for low, high in itertools.pairwise(listed)):
        raise Refusal("edges", listed, f"must be {remedy}")
    if listed[-1] > limit:
        raise Refusal("edges", listed, f"must be at most the steps in which anybody can take part ({limit})")
    return listed


class LevelCorrection(NamedTuple):
    """The factor by which to multiply a capped series so that its level is that of all counts."""

    ratio: float  #: all counts over those that the cap leaves, at least 1
    standard_error: float  #: of the ratio, from the noise and the resolution of the histogram


def remaining_fraction(
    without_gap: Participation, with_gap: Participation, weighting: Drop | Downweight
) -> tuple[float, float]:
    """Return the fraction of all counts that a cap and a gap leave, and its standard error.

    :param without_gap: participation if steps may lie close together.
    :param with_gap: participation under the gap.
    """
    if with_gap is without_gap:
        ratio, error = without_gap._correction(weighting)
        return 1 / ratio, error / ratio**2
    remaining, remaining_error = with_gap._sum(*with_gap._steps(weighting))
    complete, complete_error = without_gap._sum(*without_gap._steps(None))
    if not complete > 0:
        return 1.0, math.inf
    if remaining >= complete:
        return 1.0, complete_error / complete
    return remaining / complete, math.hypot(remaining_error, complete_error * remaining / complete) / complete


def participation_of(shares: Mapping[float, int], size: int, *, of_longer: bool = False) -> Participation:
    """Return the participation of a population, in shares of its individuals, from a few cumulative shares.

    Between two of them, the share of individuals in more than ``n`` steps falls as a power of ``n``. Above the second
    largest, the counts are spread evenly over octaves up to the maximum, as they are if nothing is known.

    :param shares: of individuals, in (0, 1], each with the most steps that this share takes part in; a share of 1 may
        take part in all steps if left out.
    :param of_longer: whether the shares may be of a longer series. In this one, nobody takes part in more steps than it
        has.

    >>> round(participation_of({0.9: 20, 1.0: 500}, 672).fraction_above(20), 3)
    0.1
    """
    remedy = (
        "shares of people with the most steps in which each takes part, such as `participation={0.9: 20, 1.0: 500}`"
    )
    if not isinstance(shares, Mapping):
        raise TypeRefusal("participation", shares, "must be a mapping", remedy)
    ends_by_share = {
        check.real("participation", share, above=0.0, maximum=1.0, remedy=remedy): check.integer(
            "participation",
            end,
            minimum=1,
            maximum=None if of_longer else size,
            remedy=f"at most the grid's size, times the keys of a panel; {remedy}",
        )
        for share, end in shares.items()
    }
    if of_longer:
        ends_by_share = {share if end < size else 1.0: min(end, size) for share, end in ends_by_share.items()}
    if 1.0 not in ends_by_share:
        if size in ends_by_share.values():
            rule = f"must give less than all {size} steps to a share below 1, as the others take part in more"
            raise Refusal("participation", dict(shares), rule, remedy)
        ends_by_share[1.0] = size
    below, ends = zip(*sorted(ends_by_share.items()), strict=True)
    if any(low >= high for low, high in itertools.pairwise(ends)):
        raise Refusal("participation", dict(shares), "must ascend", remedy)
    shares_below, starts = np.array([0.0, *below[:-1]]), [0, *ends[:-1]]
    steps = np.arange(1.0, size + 2)
    people = np.exp(np.interp(np.log(steps), np.log1p(starts), np.log1p(-shares_below)))  # in so many steps, or more
    people[:-1] -= people[1:]
    tail = steps > starts[-1]
    people[tail] = np.where(steps <= ends[-1], steps**-2, 0.0)[tail]
    people[tail] *= (1 - shares_below[-1]) / people[tail].sum()
    edges = [1]
    while edges[-1] < size:
        edges.append(min(edges[-1] + 1 + edges[-1] // 24, size))  # every number up to 24, then within 4%
    edges = sorted({*edges, *starts[1:]})
    return Participation(np.add.reduceat(people, [0, *edges]), size=size, standard_error=0.0, edges=edges)


@dataclass(frozen=True, eq=False)
class Participation:
    """A public histogram of individuals by the number of steps in which they take part.

    :param counts: entries of a released :func:`~opendp_timeseries.make_participation_histogram`, one more than
        ``edges``.
    :param size: the most steps in which anybody can take part: the grid's size, times the keys of a panel.
    :param standard_error: standard deviation of the noise on each entry: the scale of Gaussian noise; ``√2`` times that
        of Laplace noise, whose outliers may be taken for an end of the tail; 0 for public numbers.
    :param edges: boundaries of the entries; by default those of the histogram.
    :raises TypeError: for edges that are not integers.
    :raises ValueError: for edges that do not ascend or exceed ``size``, or entries that do not fit them.

    >>> public = Participation([60, 30, 10], size=100, standard_error=0.0, edges=[1, 10])
    >>> public.fraction_above(10)
    0.1
    >>> round(public.fraction_lost(10), 2), round(public.fraction_lost(10, excess="drop"), 2)
    (0.35, 0.5)
    >>> round(public.level_correction(10).ratio, 2)
    1.53
    """

    counts: ArrayLike
    size: int
    standard_error: float
    edges: Sequence[int] | None = None

    def __post_init__(self) -> None:
        size = check.integer("size", self.size, minimum=1)
        edges = tuple(checked_edges(self.edges, size))
        counts = check.reals("counts", self.counts)
        if counts.shape != (len(edges) + 1,) or not np.all(np.isfinite(counts)):
            raise Refusal(
                "counts",
                Quoted(f"shape {counts.shape}"),
                f"must be {len(edges) + 1} finite numbers, one more than the edges {list(edges)}",
                "give the `edges=` of the histogram",
            )
        counts.setflags(write=False)
        error = check.real("standard_error", self.standard_error, minimum=0.0)
        for name, value in (("size", size), ("edges", edges), ("counts", counts), ("standard_error", error)):
            object.__setattr__(self, name, value)

    @cached_property
    def individuals(self) -> Array:
        """Individuals in each entry, denoised by a smooth curve."""
        return self._denoised[0]

    @property
    def total(self) -> float:
        """Sum of all counts: individuals times the steps in which they take part."""
        return float(self.individuals @ self._steps(None)[0])

    def fraction_above(self, cap: int) -> float:
        """Return the fraction of individuals who take part in more than ``cap`` steps."""
        cap, individuals = check.integer("cap", cap, minimum=0), float(self.individuals.sum())
        above = self.individuals @ np.array([np.sum(w[n > cap]) for n, w in self._bins])
        return float(above) / individuals if individuals > 0 else 0.0

    def fraction_lost(self, cap: int, *, excess: str = "downweight", norm: str | None = None) -> float:
        """Return the fraction of counts that a participation cap loses.

        :param excess: what becomes of somebody in ``n`` steps, more than the cap: ``"downweight"``, they count as
            ``√(n·cap)`` steps; ``"drop"``, as ``cap``.
        :param norm: ``"l1"`` for people weighed down in ℓ1, who count as ``cap`` steps.
        """
        total, steps = self.total, self._steps(limit_steps(cap, excess=excess, norm=norm))[0]
        return 1 - float(self.individuals @ steps) / total if total > 0 else 0.0

    def level_correction(self, cap: int, *, excess: str = "downweight", norm: str | None = None) -> LevelCorrection:
        """Return the ratio of all counts to those that a cap leaves, and its standard error.

        A series under this participation cap, times the ratio, has the level of the log. Its shape stays that of the
        capped series: where people above the cap come at other times than the rest, no factor restores their steps. So
        choose the cap as if there were no correction, and correct afterwards.

        :param excess: as of :meth:`fraction_lost`, and so ``norm``.
        """
        return self._correction(limit_steps(cap, excess=excess, norm=norm))

    def _correction(self, weighting: Drop | Downweight) -> LevelCorrection:
        (steps, spread), (remaining_steps, remaining_spread) = self._steps(None), self._steps(weighting)
        remaining = float(self.individuals @ remaining_steps)
        if not remaining > 0:
            return LevelCorrection(1.0, math.inf)
        ratio = self.total / remaining
        contribution = (steps - ratio * remaining_steps) / remaining
        return LevelCorrection(ratio, self._sum(contribution, (spread - ratio * remaining_spread) / remaining)[1])

    def _sum(self, contribution: Array, spread: Array) -> tuple[float, float]:
        """Return a sum over individuals, and its standard error.

        :param contribution: mean contribution of an individual, by entry.
        :param spread: its standard deviation; the distribution of individuals within an entry is unknown, so their
            mean may be off by one deviation.
        """
        noise = float(contribution @ self._denoised[1] @ contribution)
        spread_within_entries = self.individuals * spread
        variance = max(noise, 0.0) + float(spread_within_entries @ spread_within_entries)
        return float(self.individuals @ contribution), math.sqrt(variance)

    @cached_property
    def _bins(self) -> list[tuple[Array, Array]]:
        """The numbers of steps that each entry covers, with weights in proportion to 1/n: even in log n."""
        inner: Any = self.edges
        edges = [0, *inner, max(self.size, inner[-1] + 1)]
        numbers = [_weighted_integers(low + 1, high) for low, high in itertools.pairwise(edges)]
        return [(n, w / w.sum()) for n, w in numbers]

    def counts_by_activity(self, ends: Array) -> Array:
        """Return the counts by how often their individuals come: the k-th is of those in up to ``ends[k]`` steps."""
        counts = np.zeros(len(ends))
        for people, (n, w) in zip(self.individuals, self._bins, strict=True):
            np.add.at(counts, np.minimum(np.searchsorted(ends, n), len(ends) - 1), people * w * n)
        return counts

    def _steps(self, weighting: Drop | Downweight | None) -> tuple[Array, Array]:
        """Return mean and standard deviation of an individual's weighted steps, by entry; None for no weighting."""
        cap = math.inf if weighting is None else weighting.cap
        power = 0.5 if weighting is not None and weighting.norm == "l2" else 1.0
        weighted_steps = [(n * np.minimum(cap / n, 1.0) ** power, w) for n, w in self._bins]
        means = np.array([np.sum(w * n) for n, w in weighted_steps])
        spread = [math.sqrt(w @ (n - mean) ** 2) for (n, w), mean in zip(weighted_steps, means, strict=True)]
        return means, np.array(spread)

    @cached_property
    def _denoised(self) -> tuple[Array, Array]:
        """Individuals in each entry, and the covariance of their errors."""
        counts = np.asarray(self.counts)
        if self.standard_error == 0 or len(counts) < 3:
            return np.maximum(counts, 0.0), self.standard_error**2 * np.eye(len(counts))
        places = np.array([float(w @ np.log2(n)) for n, w in self._bins])
        widths = np.array(
            [float(np.sum(1 / n)) if len(n) < _SAMPLE_SIZE else math.log(n[-1] / n[0]) for n, _ in self._bins]
        )
        return denoise(counts, self.standard_error, widths, places)


def _weighted_integers(low: int, high: int) -> tuple[Array, Array]:
    """Return the integers from ``low`` to ``high`` with weights 1/n; a sample even in log n if they are many."""
    if high - low < _SAMPLE_SIZE:
        numbers = np.arange(low, high + 1, dtype=np.float64)
        return numbers, 1 / numbers
    return np.geomspace(low, high, _SAMPLE_SIZE), np.ones(_SAMPLE_SIZE)
