"""Bounds on how far individuals move a signal: the distance that amplification by subsampling needs.

An ℓ2 norm does not distinguish somebody in a single step from somebody spread over many, whom subsampling protects far
better. Proof: docs/proofs/foundations.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
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

#: The norms in which individuals can be downweighted.
NORMS: Final = ("l2", "l1")


@dataclass(frozen=True, eq=False, repr=False)
class Majorant:
    """A magnitude majorant: non-negative numbers in descending order.

    ``a`` majorises ``v`` if, for every ``k``, the sum of the ``k`` largest ``|v_t|`` is at most ``a[0] + … + a[k-1]``
    (weak majorisation; docs/proofs/filters.md).

    :param values: non-negative and descending; zeros at the end are dropped.
    """

    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = _as_floats(self.values)
        if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise Refusal("a majorant", ..., "must be one row of finite, non-negative numbers")
        if np.any(np.diff(values) > 0):
            raise Refusal("a majorant", ..., "must be in descending order", "sort it first")
        # The law of an influence is cached, so its numbers must not change: an array over bytes is never writeable.
        values = np.frombuffer(values[values > 0].tobytes(), dtype=np.float64)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_hash", hash(values.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        return Majorant, (self.values,)

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Majorant) and np.array_equal(self.values, other.values)

    def __le__(self, other: Majorant) -> bool:
        """Compare entry by entry, which implies weak majorisation and needs no rounding."""
        n = len(self.values)
        return n <= len(other.values) and bool(np.all(self.values <= other.values[:n]))

    def __repr__(self) -> str:
        return f"Majorant(<{len(self.values)} values>)"


def _exact_sum(values: NDArray[np.float64], power: int) -> Fraction:
    """Return the exact sum of powers of numbers, many of which are equal."""
    numbers, counts = np.unique(values, return_counts=True)
    powers = [n * Fraction(number) ** power for number, n in zip(numbers.tolist(), counts.tolist(), strict=True)]
    return sum(powers, Fraction())


def _as_floats(values: ArrayLike) -> NDArray[np.float64]:
    """Return float64, rounded up."""
    array = np.asarray(values)
    if array.dtype.kind in "iuO":
        return np.array([up_fraction(number) for number in array.ravel().tolist()]).reshape(array.shape)
    floats = array.astype(np.float64)
    return np.where(floats < array, np.nextafter(floats, np.inf), floats) if array.dtype.kind == "f" else floats


@dataclass(frozen=True, kw_only=True, repr=False)
class Influence:
    """Bound on the difference between two signals of ``T`` steps: a partially ordered distance.

    The signals differ by a sum of vectors, one change per individual, in the signal's unit. A replaced individual
    leaves some steps and enters others: their change is a difference of two non-negative halves, each with gap, key cap
    and at most half of ``l0`` non-zero entries.

    A gap or a key cap *separates* the entries of a change, or of each half.

    Incomparable influences compare as False both ways, so a compositor built for one never accepts the other.

    :param l0: largest number of non-zero entries of one individual's change.
    :param l2: its largest Euclidean norm.
    :param linf: its largest magnitude.
    :param individuals: number of individuals that differ.
    :param majorant: its magnitude majorant, if known.
    :param gap: least distance of two of its non-zero entries, around the cycle of each series; 1 means none.
    :param replaced: True if gap and key cap hold for the two halves only. Where there is neither, it says nothing and
        becomes False, so that equal bounds are equal.
    :param key_cap: largest number of series in which it is not zero at one step; None means all.
    :param l1: its largest sum of magnitudes, if smaller than what the other numbers imply: see ``l1_norm()``.
    :param exact_square: square of the Euclidean norm, where ``l2`` had to be rounded up; None if it is that of ``l2``.
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
    exact_square: Fraction | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("l0", 0), ("individuals", 0), ("gap", 1)):
            object.__setattr__(self, name, check.integer(name, getattr(self, name), minimum=minimum))
        if self.key_cap is not None:
            object.__setattr__(self, "key_cap", check.integer("key_cap", self.key_cap, minimum=1))
        object.__setattr__(self, "replaced", bool(self.replaced) and self._is_separated)
        for name in ("l1", "l2", "linf"):
            value = getattr(self, name)
            if value != math.inf:  # infinity is no bound
                number = check.real(name, value, minimum=0.0)
                # A fraction or a large integer becomes a float from above.
                object.__setattr__(self, name, up(number) if number < value else number)
        if self.majorant is not None and not isinstance(self.majorant, Majorant):
            raise TypeRefusal("majorant", Quoted(type(self.majorant).__name__), "must be a Majorant, or None")
        if self.exact_square is not None:
            check.real("exact_square", self.exact_square, minimum=0.0)
            square = Fraction(self.exact_square)
            is_sharper = self.l2 == math.inf or square < Fraction(self.l2) ** 2
            object.__setattr__(self, "exact_square", square if is_sharper else None)

    @property
    def _is_separated(self) -> bool:
        """True if there is a gap or a key cap."""
        return self.gap > 1 or self.key_cap is not None

    @property
    def l0_separated(self) -> int:
        """Largest number of non-zero entries to which gap and key cap apply: ``l0``, or half of it if replaced."""
        return self.l0 // 2 if self.replaced else self.l0

    @property
    def l2_squared(self) -> Fraction | float:
        """Square of the Euclidean norm, exactly."""
        if self.exact_square is not None:
            return self.exact_square
        return math.inf if self.l2 == math.inf else Fraction(self.l2) ** 2

    def l1_norm(self) -> Fraction | float:
        """Return the least bound on the sum of magnitudes of one individual's change; infinity if there is none."""
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

    # Not `order=True`, which compares tuples: (5, 100, 100) would be less than (10, 3, 1).
    # For >= and > Python calls the other operand's <= and <.
    def __le__(self, other: object) -> bool:
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
            and (not other._is_separated or self._is_separated_like(other))
        )

    def _is_separated_like(self, other: Influence) -> bool:
        """Return whether this gap and key cap imply the other's; a vector may count as a half of a replacement."""
        halves = self.replaced <= other.replaced and self.l0_separated <= other.l0_separated
        keys = other.key_cap is None or (self.key_cap is not None and self.key_cap <= other.key_cap)
        return self.gap >= other.gap and keys and halves

    def __lt__(self, other: object) -> bool:
        return self <= other and self != other if isinstance(other, Influence) else NotImplemented

    def __repr__(self) -> str:
        individuals = "" if self.individuals == 1 else f", individuals={self.individuals}"
        details = "" if self.gap == 1 else f", gap={self.gap}"
        details += "" if self.key_cap is None else f", key_cap={self.key_cap}"
        details += ", replaced=True" if self.replaced else ""
        return f"Influence(l0={self.l0}, l2={printed_up(self.l2)}, linf={printed_up(self.linf)}{individuals}{details})"


class Reach(NamedTuple):
    """Limits on the events of individuals before weighting: all that a sensitivity depends on.

    :param individuals: number of individuals added or removed, or replaced.
    :param step_cap: most events of one individual in one step.
    :param size: number of entries: ``T`` steps of the grid, in each series.
    :param replaced: True if individuals are replaced.
    :param gap: least distance of two steps of one individual, around the cycle of each series; 1 is none.
    :param series: number of series, each with the same number of steps.
    :param key_cap: most series in which one individual is at one step; None means all.
    :param periods: if each period is read by itself: upper bounds on the steps of the periods in which one individual
        differs. Steps of two periods may lie close together.
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
        """Return the largest number of steps of one individual in each period, over all series."""
        # On a cycle of T steps at most ⌊T/gap⌋ lie a gap apart; on L consecutive steps of it at most ⌈L/gap⌉.
        length = self.size // self.series
        per_cycle = length // check.integer("gap", self.gap, minimum=1, maximum=length)
        keys = self.series if self.key_cap is None else self.key_cap
        lengths = (length,) if self.periods is None else self.periods
        return [min(self.series * min(-(-steps // self.gap), per_cycle), keys * steps) for steps in lengths]


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
    :param norm: ``"l2"`` or ``"l1"``, in which all steps of an individual are downweighted to the cap; None if steps
        beyond it are dropped.
    """
    if norm is not None:
        check.choice("norm", norm, NORMS)
    # A replaced individual leaves up to I steps and enters up to I others; entries of the difference stay within ±M.
    steps_by_period = Reach(individuals, step_cap, size, replaced, gap, series, key_cap, periods).steps()
    # A downweighted individual keeps all steps, with the norm of I of them.
    steps_in_full = sum(min(participation_cap, steps) for steps in steps_by_period)
    steps = steps_in_full if norm is None else sum(steps_by_period)
    halves = 2 if replaced else 1
    l0, l0_in_full = min(halves * steps, size), min(halves * steps_in_full, size)
    # A key cap is of halves of l0 // 2 entries, and where l0 is the size, one half may have more.
    key_cap_holds = not replaced or 2 * steps <= size
    linf = up_fraction(step_cap)
    # For individuals downweighted in ℓ2, a majorant adds nothing to the norm and the largest entry.
    has_majorant = math.isfinite(linf) and (norm != "l2" or l0 == l0_in_full)
    square = Fraction(step_cap**2 * l0_in_full)
    return Influence(
        l0=l0,
        l2=up_sqrt(square),
        exact_square=None if l0 == l0_in_full else square,
        linf=linf,
        individuals=individuals,
        majorant=Majorant(np.full(l0_in_full, linf)) if has_majorant else None,
        gap=gap if periods is None or len(periods) <= 1 else 1,
        replaced=replaced,
        key_cap=key_cap if key_cap is not None and key_cap < series and key_cap_holds else None,
    )


def pooled_influence(
    reach: Reach, *, participation_cap: int, longest: int, totals: Sequence[int], entries: int
) -> Influence:
    """Return the influence on totals over time of a count that is downweighted in ℓ1 (docs/proofs/scaling.md).

    :param reach: limits on events in the count of each step.
    :param participation_cap: steps in which one individual counts in full, in each period.
    :param longest: steps of the longest total.
    :param totals: upper bounds on the totals per series in the periods in which one individual differs.
    :param entries: of the result: totals in each series.
    """
    steps_by_period, step_cap, halves = reach.steps(), reach.step_cap, 2 if reach.replaced else 1
    # The worst individuals fill as few totals as hold their limit.
    per_total = -(-longest // reach.gap)
    limits = [min(participation_cap, steps) for steps in steps_by_period]
    full_totals = [np.full(limit // per_total, per_total) for limit in limits]
    steps = np.concatenate([*full_totals, [limit % per_total for limit in limits]])  # in each total of one individual
    largest = np.sort(np.repeat(steps, halves))[::-1][:entries]
    numbers, counts = np.unique(largest[largest > 0], return_counts=True)
    values = [step_cap * number for number in numbers.tolist()]
    square = Fraction(sum(value**2 * n for value, n in zip(values, counts.tolist(), strict=True)))
    linf = up_fraction(values[-1])
    descending = np.repeat([up_fraction(value) for value in values], counts)[::-1]
    l0 = sum(min(steps, reach.series * count) for steps, count in zip(steps_by_period, totals, strict=True))
    return Influence(
        l0=min(halves * l0, entries),
        l2=up_sqrt(square),
        exact_square=square,
        linf=linf,
        individuals=reach.individuals,
        majorant=Majorant(descending) if math.isfinite(linf) else None,
    )


def tiers_influence(reach: Reach, *, square: int, largest: float, series: int) -> Influence:
    """Return the influence on tiers of activity (docs/proofs/scaling.md).

    An individual's vector ``x`` becomes ``w_k·x`` in tier ``k``.

    :param reach: limits on events, or values, in the count of each step.
    :param square: bound on everybody's squared norm over all tiers, in each period.
    :param largest: the largest weight in any tier, at most 1.
    :param series: number of tiers.
    """
    steps, halves, square_of_step = reach.steps(), 2 if reach.replaced else 1, reach.step_cap**2
    entries = min(halves * sum(steps), reach.size)
    squared = Fraction(
        min(halves * sum(min(square, number * square_of_step) for number in steps), entries * square_of_step)
    )
    linf = up_fraction(reach.step_cap)
    return Influence(
        l0=series * entries,
        l2=up_sqrt(squared),
        exact_square=squared,
        linf=min(up_sqrt(square), linf, up(linf * largest)),
        individuals=reach.individuals,
    )


def grouped_influence(reach: Reach, *, square: int, entries: int) -> Influence:
    """Return the influence on tiers of a panel and its groups, under a common norm (docs/proofs/groups.md).

    :param reach: limits on events, or values, in the count of each key and step.
    :param square: bound on everybody's squared norm, in each period.
    :param entries: of the result: steps of all keys and groups, in each tier.
    """
    # Somebody at several keys at once can reach the norm in a single step, so that a short period bounds nothing.
    periods = 1 if reach.periods is None else len(reach.periods)
    squared = Fraction(square * periods * (2 if reach.replaced else 1))
    return Influence(
        l0=entries, l2=up_sqrt(squared), exact_square=squared, linf=up_sqrt(square), individuals=reach.individuals
    )


class Level(NamedTuple):
    """Disjoint groups of series: how many there are, and the number of series in the largest."""

    number: int
    largest: int


def totals_influence(influence: Influence, levels: Sequence[Level], steps: int) -> Influence:
    """Return the influence on the totals of all groups, level by level, given that on a panel.

    The gap is lost: at neighbouring steps somebody may be in different series of a group. Proof: docs/proofs/totals.md.

    :param levels: at least one level; a series is in at most one group of each.
    :param steps: of each series.
    """
    parts = [_level_influence(influence, level, steps) for level in levels]
    squares = [part.l2_squared for part in parts]
    values = [part.majorant.values for part in parts if part.majorant is not None]
    return Influence(
        l0=sum(part.l0 for part in parts),
        l2=math.inf if math.inf in squares else up_sqrt(sum((Fraction(square) for square in squares), Fraction())),
        linf=max(part.linf for part in parts),
        individuals=influence.individuals,
        majorant=Majorant(np.sort(np.concatenate(values))[::-1]) if len(values) == len(parts) else None,
    )


def _level_influence(influence: Influence, level: Level, steps: int) -> Influence:
    l0 = min(influence.l0, level.number * steps)
    if influence.l2 == math.inf:
        return Influence(l0=l0, l2=math.inf, linf=math.inf)
    # Most entries of one individual that meet in one total.
    overlap = level.largest if influence.key_cap is None else min(level.largest, influence.key_cap)
    overlap = max(min(overlap, influence.l0_separated), 1)
    square = overlap * Fraction(influence.l2_squared)
    # Neither an entry nor a total is above the norm (Cauchy-Schwarz).
    linf = min(up_fraction(overlap * Fraction(min(influence.linf, influence.l2))), up_sqrt(square))
    majorant = None
    if influence.majorant is not None:
        # Steps left and steps entered have opposite signs, and do not add up within a total.
        halves = 2 if influence.replaced else 1
        sums = np.repeat(_sums(influence.majorant.values[: influence.l0_separated], overlap), halves)
        if np.all(np.isfinite(sums)):
            majorant = Majorant(sums)
            square = min(square, _exact_sum(sums, 2))
            linf = min(linf, float(sums.max(initial=0.0)))
    l2 = up_sqrt(square)
    return Influence(l0=l0, l2=l2, exact_square=None if l2 == math.inf else square, linf=linf, majorant=majorant)


def _sums(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Return the sums of ``length`` consecutive entries of a descending row, each rounded up."""
    blocks = np.append(values, np.zeros(-len(values) % length)).reshape(-1, length)
    rows, places = np.unique(blocks, axis=0, return_inverse=True)  # in a count, nearly all are equal
    sums = np.array([up_fraction(sum(map(Fraction, row), Fraction())) for row in rows.tolist()], dtype=np.float64)
    return sums[places.ravel()]
