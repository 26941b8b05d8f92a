"""How far individuals can move a signal: the distance that amplification by subsampling needs.

An ℓ2 norm does not tell whether somebody sits in one step or is spread over many, and subsampling protects the second
far better. Proof: docs/proofs/foundations.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import printed_up, up, up_fraction, up_sqrt

__all__ = [
    "NORMS",
    "Influence",
    "Level",
    "Majorant",
    "count_influence",
    "Reach",
    "grouped_influence",
    "pooled_influence",
    "tiers_influence",
    "totals_influence",
]

#: In which norm individuals can be weighed down.
NORMS: Final = ("l2", "l1")


@dataclass(frozen=True, eq=False, repr=False)
class Majorant:
    """A magnitude majorant: non-negative numbers in descending order.

    ``a`` majorises ``v`` if, for every ``k``, the sum of the ``k`` largest ``|v_t|`` is at most ``a[0] + … + a[k-1]``
    (weak majorisation; docs/proofs/filters.md).

    :param values: positive and descending; zeros beyond the end are understood.
    """

    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = _as_floats(self.values)
        if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise ValueError("a majorant must be one row of finite, non-negative numbers")
        if np.any(np.diff(values) > 0):
            raise ValueError("a majorant must be in descending order; sort it first")
        # An array over bytes can never be made writeable again: the law of an influence is cached.
        values = np.frombuffer(values[values > 0].tobytes(), dtype=np.float64)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_hash", hash(values.tobytes()))

    def __reduce__(self) -> Any:
        return Majorant, (self.values,)

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Majorant) and np.array_equal(self.values, other.values)

    def __le__(self, other: Majorant) -> bool:
        """Entry by entry, which implies weak majorisation and needs no rounding."""
        n = len(self.values)
        return n <= len(other.values) and bool(np.all(self.values <= other.values[:n]))

    def __repr__(self) -> str:
        return f"Majorant(<{len(self.values)} values>)"


def _exact_sum(values: NDArray[np.float64], power: int) -> Fraction:
    """Return the exact sum of powers of numbers of which many are equal."""
    found, counts = np.unique(values, return_counts=True)
    powers = [n * Fraction(one) ** power for one, n in zip(found.tolist(), counts.tolist(), strict=True)]
    return sum(powers, Fraction())


def _as_floats(values: ArrayLike) -> NDArray[np.float64]:
    """Return float64, rounded up."""
    given = np.asarray(values)
    if given.dtype.kind in "iuO":
        return np.array([up_fraction(number) for number in given.ravel().tolist()]).reshape(given.shape)
    rounded = given.astype(np.float64)
    return np.where(rounded < given, np.nextafter(rounded, np.inf), rounded) if given.dtype.kind == "f" else rounded


@dataclass(frozen=True, kw_only=True, repr=False)
class Influence:
    """How far two signals of ``T`` steps are apart: a distance, partially ordered.

    They differ by a sum of vectors, one for each individual, in the signal's unit. That of somebody replaced, who
    leaves some steps and enters others, is a difference of two non-negative ones, each with gap, key cap and at most
    half of ``l0`` non-zero entries.

    Influences that cannot be compared compare as False both ways, so a compositor that was built for one never lets the
    other pass.

    :param l0: most non-zero entries of one individual's change.
    :param l2: its largest Euclidean norm.
    :param linf: its largest magnitude.
    :param individuals: number of individuals that differ.
    :param majorant: its magnitude majorant, if one is known.
    :param gap: least distance of two of its non-zero entries, around the cycle of each series; 1 means none.
    :param replaced: whether gap and key cap hold for the two halves only; without either it is False.
    :param key_cap: most series in which it is not zero at one step; None means all.
    :param l1: its largest sum of magnitudes, where the other numbers do not say it: see ``l1_norm()``.
    :param squared: square of the Euclidean norm, where ``l2`` had to be rounded up; None if it is that of ``l2``.
    """

    l0: int
    l2: float
    linf: float
    individuals: int = 1
    majorant: Majorant | None = None
    gap: int = 1
    replaced: bool = False
    key_cap: int | None = None
    l1: float = math.inf
    squared: Fraction | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("l0", 0), ("individuals", 0), ("gap", 1)):
            object.__setattr__(self, name, check.integer(name, getattr(self, name), minimum=minimum))
        if self.key_cap is not None:
            object.__setattr__(self, "key_cap", check.integer("key_cap", self.key_cap, minimum=1))
        object.__setattr__(self, "replaced", bool(self.replaced) and self._has_halves)
        for name in ("l1", "l2", "linf"):
            value = getattr(self, name)
            if value != math.inf:  # a bound that says nothing
                number = check.real(name, value, minimum=0.0)
                # A fraction or a large integer becomes a float from above.
                object.__setattr__(self, name, up(number) if number < value else number)
        if self.majorant is not None and not isinstance(self.majorant, Majorant):
            raise TypeError(f"majorant ({type(self.majorant).__name__}) must be a Majorant, or None")
        if self.squared is not None:
            check.real("squared", self.squared, minimum=0.0)
            squared = Fraction(self.squared)
            says_more = self.l2 == math.inf or squared < Fraction(self.l2) ** 2
            object.__setattr__(self, "squared", squared if says_more else None)

    @property
    def _has_halves(self) -> bool:
        """Whether anything is known that holds for the halves of an individual who is replaced."""
        return self.gap > 1 or self.key_cap is not None

    @property
    def l0_apart(self) -> int:
        """Most non-zero entries of a vector to which gap and key cap apply: ``l0``, or half of it if replaced."""
        return self.l0 // 2 if self.replaced else self.l0

    @property
    def l2_squared(self) -> Fraction | float:
        """Square of the Euclidean norm, exactly."""
        if self.squared is not None:
            return self.squared
        return math.inf if self.l2 == math.inf else Fraction(self.l2) ** 2

    def l1_norm(self) -> Fraction | float:
        """Return the least bound on the sum of the magnitudes of one individual's change; infinity if there is none."""
        if self.l0 == 0:
            return Fraction(0)
        bounds = [Fraction(self.l1)] if self.l1 < math.inf else []
        if self.linf < math.inf:
            bounds.append(self.l0 * Fraction(self.linf))
        if self.majorant is not None:
            bounds.append(_exact_sum(self.majorant.values, 1))
        if self.l2 < math.inf and (root := up_sqrt(self.l0 * Fraction(self.l2) ** 2)) < math.inf:
            bounds.append(Fraction(root))
        return min(bounds, default=math.inf)

    # Not a dataclass's own `order=True`: tuples compare otherwise, and (5, 100, 100) is less than (10, 3, 1).
    # For >= and > Python asks the other side.
    def __le__(self, other: Any) -> bool:
        if not isinstance(other, Influence):
            return NotImplemented
        return (
            self.individuals <= other.individuals
            and self.l0 <= other.l0
            and self.l2 <= other.l2
            and self.l2_squared <= other.l2_squared
            and self.linf <= other.linf
            and self.l1 <= other.l1
            and (other.majorant is None or (self.majorant is not None and self.majorant <= other.majorant))
            and (not other._has_halves or self._lies_apart_as(other))
        )

    def _lies_apart_as(self, other: Influence) -> bool:
        """Whether every vector with this gap and key cap has the other's; a whole vector may stand for a half."""
        halves = self.replaced <= other.replaced and self.l0_apart <= other.l0_apart
        few = other.key_cap is None or (self.key_cap is not None and self.key_cap <= other.key_cap)
        return self.gap >= other.gap and few and halves

    def __lt__(self, other: Any) -> bool:
        return self <= other and self != other if isinstance(other, Influence) else NotImplemented

    def __repr__(self) -> str:
        many = "" if self.individuals == 1 else f", individuals={self.individuals}"
        apart = "" if self.gap == 1 else f", gap={self.gap}"
        apart += "" if self.key_cap is None else f", key_cap={self.key_cap}"
        apart += ", replaced=True" if self.replaced else ""
        return f"Influence(l0={self.l0}, l2={printed_up(self.l2)}, linf={printed_up(self.linf)}{many}{apart})"


class Reach(NamedTuple):
    """How far individuals can get in what is read of them, before they are weighted: all that a sensitivity needs.

    :param individuals: how many are added or removed, or replaced.
    :param step_cap: most events of one of them in one step.
    :param size: entries: ``T`` steps of the grid, in each series.
    :param replaced: True if individuals are replaced.
    :param gap: least distance of two steps of one of them, around the cycle of each series; 1 is none.
    :param series: number of series, each with the same number of steps.
    :param key_cap: most series in which one of them is at one step; None means all.
    :param periods: if individuals are read in each period by itself: how many steps the periods have, at most, in which
        one individual differs. Steps of two periods may lie close together.
    """

    individuals: int
    step_cap: int
    size: int
    replaced: bool
    gap: int = 1
    series: int = 1
    key_cap: int | None = None
    periods: Sequence[int] | None = None

    def steps(self) -> list[int]:
        """Return in how many steps one individual can be in each of the periods, over all series."""
        # On a cycle of T steps at most ⌊T/gap⌋ lie a gap apart; on L consecutive steps of it at most ⌈L/gap⌉.
        length = self.size // self.series
        around = length // check.integer("gap", self.gap, minimum=1, maximum=length)
        few = self.series if self.key_cap is None else self.key_cap
        lengths = (length,) if self.periods is None else self.periods
        return [min(self.series * min(-(-steps // self.gap), around), few * steps) for steps in lengths]


def count_influence(
    individuals: int,
    *,
    participation_cap: int,
    step_cap: int,
    size: int,
    replaced: bool,
    gap: int = 1,
    series: int = 1,
    key_cap: int | None = None,
    periods: Sequence[int] | None = None,
    norm: str | None = None,
) -> Influence:
    """Return the influence of individuals on a count with a cap (docs/proofs/counts.md and scaling.md).

    The other parameters are those of a ``Reach``.

    :param participation_cap: steps in which one individual counts in full, in each period.
    :param norm: ``"l2"`` or ``"l1"``, in which all steps of an individual are weighed down to the cap; None if those
        beyond it are dropped.
    """
    if norm is not None:
        check.choice("norm", norm, NORMS)
    # Somebody replaced leaves up to I steps and enters up to I others, and entries of the difference stay within ±M.
    most = Reach(individuals, step_cap, size, replaced, gap, series, key_cap, periods).steps()
    # An individual who is weighed down keeps all steps, and weighs no more than I of them.
    full = sum(min(participation_cap, steps) for steps in most)
    cap = full if norm is None else sum(most)
    halves = 2 if replaced else 1
    l0, full = min(halves * cap, size), min(halves * full, size)
    halves_fit = not replaced or 2 * cap <= size  # or else half of l0 is less than somebody replaced can have left
    linf = up_fraction(step_cap)
    # For individuals weighed down in ℓ2, the norm and the largest entry say all that a majorant could.
    known = math.isfinite(linf) and (norm != "l2" or l0 == full)
    squared = Fraction(step_cap**2 * full)
    return Influence(
        l0=l0,
        l2=up_sqrt(squared),
        squared=None if l0 == full else squared,
        linf=linf,
        individuals=individuals,
        majorant=Majorant(np.full(full, linf)) if known else None,
        gap=gap if periods is None or len(periods) <= 1 else 1,
        replaced=replaced,
        key_cap=key_cap if key_cap is not None and key_cap < series and halves_fit else None,
    )


def pooled_influence(
    reach: Reach, *, participation_cap: int, longest: int, totals: Sequence[int], entries: int
) -> Influence:
    """Return the influence on totals over time of a count that weighs people down in ℓ1 (docs/proofs/scaling.md).

    :param reach: in the count of each step.
    :param participation_cap: steps in which one individual counts in full, in each period.
    :param longest: steps of the longest total.
    :param totals: how many totals of a series the periods have, at most, in which one individual differs.
    :param entries: of the result: totals in each series.
    """
    most, step_cap, halves = reach.steps(), reach.step_cap, 2 if reach.replaced else 1
    # The worst are there all the time in as few totals as hold what they may add.
    each = -(-longest // reach.gap)
    sums = [min(participation_cap, steps) for steps in most]
    parts = np.concatenate([*(np.full(own // each, each) for own in sums), [own % each for own in sums]])
    parts = np.sort(np.repeat(parts, halves))[: -entries - 1 : -1]
    numbers, counts = np.unique(parts[parts > 0], return_counts=True)
    values = [step_cap * number for number in numbers.tolist()]
    squared = Fraction(sum(value**2 * n for value, n in zip(values, counts.tolist(), strict=True)))
    linf = up_fraction(values[-1])
    descending = np.repeat([up_fraction(value) for value in values], counts)[::-1]
    l0 = sum(min(steps, reach.series * own) for steps, own in zip(most, totals, strict=True))
    return Influence(
        l0=min(halves * l0, entries),
        l2=up_sqrt(squared),
        squared=squared,
        linf=linf,
        individuals=reach.individuals,
        majorant=Majorant(descending) if math.isfinite(linf) else None,
    )


def tiers_influence(influence: Influence, largest: float, series: int) -> Influence:
    """Return the influence on tiers, given that on one series of people weighed down (docs/proofs/scaling.md).

    An individual's vector ``x`` of the one series becomes ``w_k·x`` in tier ``k``, and all of these together are
    no longer than ``x`` weighed down.

    :param largest: weight that anybody has in any tier, at most 1.
    :param series: number of tiers.
    """
    linf, squared = influence.linf, influence.l2_squared
    if linf < math.inf:
        squared = min(squared, influence.l0 * Fraction(linf) ** 2)
    return Influence(
        l0=series * influence.l0,
        l2=influence.l2,
        squared=None if squared == math.inf else Fraction(squared),
        linf=min(linf, up(linf * largest)),
        individuals=influence.individuals,
    )


def grouped_influence(reach: Reach, *, first: int, entries: int) -> Influence:
    """Return the influence on tiers of a panel and groups of it, in one norm (docs/proofs/groups.md).

    :param reach: in the count of each key and step.
    :param first: the first tier, down to which the norm of everybody is brought.
    :param entries: of the result: steps of all keys and groups, in each tier.
    """
    square = first * reach.step_cap**2
    # Somebody at several keys at once can have all of it in a single step, so that a short period bounds nothing.
    periods = 1 if reach.periods is None else len(reach.periods)
    squared = Fraction(square * periods * (2 if reach.replaced else 1))
    return Influence(
        l0=entries, l2=up_sqrt(squared), squared=squared, linf=up_sqrt(square), individuals=reach.individuals
    )


class Level(NamedTuple):
    """Groups of series that have no series in common: how many, and the number of series in the largest of them."""

    groups: int
    largest: int


def totals_influence(influence: Influence, levels: Sequence[Level], steps: int) -> Influence:
    """Return the influence on the totals of all groups, one level after the other, given that on a panel.

    The gap is lost: at neighbouring steps somebody may be in different series of a group. Proof: docs/proofs/totals.md.

    :param levels: at least one; a series is in at most one group of each.
    :param steps: of each series.
    """
    each = [_of_level(influence, level, steps) for level in levels]
    squares = [one.l2_squared for one in each]
    values = [one.majorant.values for one in each if one.majorant is not None]
    return Influence(
        l0=sum(one.l0 for one in each),
        l2=math.inf if math.inf in squares else up_sqrt(sum((Fraction(one) for one in squares), Fraction())),
        linf=max(one.linf for one in each),
        individuals=influence.individuals,
        majorant=Majorant(np.sort(np.concatenate(values))[::-1]) if len(values) == len(each) else None,
    )


def _of_level(influence: Influence, level: Level, steps: int) -> Influence:
    l0 = min(influence.l0, level.groups * steps)
    if influence.l2 == math.inf:
        return Influence(l0=l0, l2=math.inf, linf=math.inf)
    # So many entries of one individual can meet in one total.
    together = level.largest if influence.key_cap is None else min(level.largest, influence.key_cap)
    together = max(min(together, influence.l0_apart), 1)
    squared = together * Fraction(influence.l2_squared)
    # No entry is above the norm, nor a total (Cauchy-Schwarz).
    linf = min(up_fraction(together * Fraction(min(influence.linf, influence.l2))), up_sqrt(squared))
    majorant = None
    if influence.majorant is not None:
        # What they left and what they entered has opposite signs, and does not add up within a total.
        halves = 2 if influence.replaced else 1
        sums = np.repeat(_sums(influence.majorant.values[: influence.l0_apart], together), halves)
        if np.all(np.isfinite(sums)):
            majorant = Majorant(sums)
            squared = min(squared, _exact_sum(sums, 2))
            linf = min(linf, float(sums.max(initial=0.0)))
    l2 = up_sqrt(squared)
    return Influence(l0=l0, l2=l2, squared=None if l2 == math.inf else squared, linf=linf, majorant=majorant)


def _sums(values: NDArray[np.float64], together: int) -> NDArray[np.float64]:
    """Return the sums of ``together`` consecutive entries of a descending row, each rounded up."""
    blocks = np.append(values, np.zeros(-len(values) % together)).reshape(-1, together)
    rows, places = np.unique(blocks, axis=0, return_inverse=True)  # in a count, nearly all are equal
    sums = np.array([up_fraction(sum(map(Fraction, row), Fraction())) for row in rows.tolist()], dtype=np.float64)
    return sums[places.ravel()]
