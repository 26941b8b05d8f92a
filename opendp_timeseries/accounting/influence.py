"""How far individuals can move a signal: the distance that amplification by subsampling needs.

One ℓ2 number does not say whether a person sits in one step or is spread over many, and subsampling
protects the second far better. :class:`Influence` carries what is known of one individual (number of
steps, ℓ2, ℓ∞ and, where they are known, the magnitude majorant and the gap between steps) and the number of
individuals. Proof: docs/proofs/foundations.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import printed_up, up, up_fraction, up_sqrt

__all__ = ["Influence", "Majorant", "count_influence", "count_l1", "count_l2", "repeated_influence"]


@dataclass(frozen=True, eq=False, repr=False)
class Majorant:
    """A magnitude majorant: non-negative numbers in descending order.

    ``a`` majorises a difference ``v`` when, for every ``k``, the sum of the ``k`` largest ``|v_t|`` is at
    most ``a[0] + … + a[k-1]`` (weak majorisation; docs/proofs/filters.md).

    :param values: float64 array, positive and descending; zeros beyond its end are understood.
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
        return check.is_a(other, Majorant) and np.array_equal(self.values, other.values)

    def __le__(self, other: Majorant) -> bool:
        """Entry by entry, which implies weak majorisation and needs no rounding."""
        n = len(self.values)
        return n <= len(other.values) and bool(np.all(self.values <= other.values[:n]))

    def __repr__(self) -> str:
        return f"Majorant(<{len(self.values)} values>)"


def _as_floats(values: ArrayLike) -> NDArray[np.float64]:
    """Return float64, from above where a number is none."""
    given = np.asarray(values)
    if given.dtype.kind in "iuO":
        return np.array([up_fraction(number) for number in given.ravel().tolist()]).reshape(given.shape)
    rounded = given.astype(np.float64)
    return np.where(rounded < given, np.nextafter(rounded, np.inf), rounded) if given.dtype.kind == "f" else rounded


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Influence:
    """The influence of individuals on a signal of ``T`` steps: a distance between two signals.

    Two signals are within this distance when their difference is a sum of ``individuals`` vectors, each
    with at most ``l0`` non-zero entries, Euclidean norm at most ``l2``, largest magnitude at most
    ``linf``, and, when ``majorant`` is given, weakly majorised by it.

    With a ``gap``, the non-zero entries of one vector also lie at least that many steps apart, around the cycle of
    each series of a panel. An individual who is ``replaced`` leaves steps that lie apart and enters others that do,
    but the two may lie close together: the vector is then a difference of two non-negative ones, each with the gap
    and at most half of ``l0`` non-zero entries. A filter makes use of the gap; sampling does not.

    With a ``key_cap``, one vector has at each step non-zero entries in at most that many series of a panel; or, of an
    individual who is replaced, each of the two has. Sums over series make use of it.

    Comparison is a partial order over all fields, and incomparable distances compare as False both ways,
    so a compositor that was built for one never lets the other pass.

    :param l0: steps that one individual can change.
    :param l2: Euclidean norm of one individual's change, in the signal's unit.
    :param linf: largest change of one step by one individual, in the signal's unit.
    :param individuals: number of individuals that differ.
    :param majorant: magnitude majorant of one individual's change, if one is known.
    :param gap: least distance, in steps, of two steps of one individual; 1 says nothing.
    :param replaced: whether gap and key cap hold in two halves only, see above; without either it says nothing, and is
        False.
    :param key_cap: series of a panel that one individual can change at one step; None says nothing.
    """

    l0: int
    l2: float
    linf: float
    individuals: int = 1
    majorant: Majorant | None = None
    gap: int = 1
    replaced: bool = False
    key_cap: int | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("l0", 0), ("individuals", 0), ("gap", 1)):
            object.__setattr__(self, name, check.integer(name, getattr(self, name), minimum=minimum))
        if self.key_cap is not None:
            object.__setattr__(self, "key_cap", check.integer("key_cap", self.key_cap, minimum=1))
        object.__setattr__(self, "replaced", bool(self.replaced) and self._has_halves)
        for name in ("l2", "linf"):
            value = getattr(self, name)
            if value != math.inf:  # a bound that says nothing
                number = check.real(name, value, minimum=0.0)
                # A fraction or a large integer becomes a float from above.
                object.__setattr__(self, name, up(number) if number < value else number)
        if self.majorant is not None and not check.is_a(self.majorant, Majorant):
            raise TypeError(f"majorant ({type(self.majorant).__name__}) must be a Majorant, or None")

    @property
    def _has_halves(self) -> bool:
        """Whether anything is said that holds for the halves of an individual who is replaced."""
        return self.gap > 1 or self.key_cap is not None

    @property
    def l0_apart(self) -> int:
        """Most steps of one vector that has the gap and the key cap as a whole: ``l0``, or half of it if replaced."""
        return self.l0 // 2 if self.replaced else self.l0

    # The four comparisons are written out: a dataclass's own `order=True` compares like tuples, under which
    # (5, 100, 100) passes for less than (10, 3, 1).
    def __le__(self, other: Any) -> bool:
        if not check.is_a(other, Influence):
            return NotImplemented
        return (
            self.individuals <= other.individuals
            and self.l0 <= other.l0
            and self.l2 <= other.l2
            and self.linf <= other.linf
            and (other.majorant is None or (self.majorant is not None and self.majorant <= other.majorant))
            and (not other._has_halves or self._lies_apart_as(other))
        )

    def _lies_apart_as(self, other: Influence) -> bool:
        """Whether every vector with this gap and key cap has the other's: a whole vector may stand for a half."""
        halves = self.replaced <= other.replaced and self.l0_apart <= other.l0_apart
        few = other.key_cap is None or (self.key_cap is not None and self.key_cap <= other.key_cap)
        return self.gap >= other.gap and few and halves

    def __ge__(self, other: Any) -> bool:
        return NotImplemented if not check.is_a(other, Influence) else other <= self

    def __lt__(self, other: Any) -> bool:
        return NotImplemented if not check.is_a(other, Influence) else self <= other and self != other

    def __gt__(self, other: Any) -> bool:
        return NotImplemented if not check.is_a(other, Influence) else other < self

    def _key(self) -> tuple[Any, ...]:
        numbers = (self.l0, self.l2, self.linf, self.individuals)
        return (*numbers, self.majorant, self.gap, self.replaced, self.key_cap)

    def __eq__(self, other: object) -> bool:
        return check.is_a(other, Influence) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        many = "" if self.individuals == 1 else f", individuals={self.individuals}"
        apart = "" if self.gap == 1 else f", gap={self.gap}"
        apart += "" if self.key_cap is None else f", key_cap={self.key_cap}"
        apart += ", replaced=True" if self.replaced else ""
        return f"Influence(l0={self.l0}, l2={printed_up(self.l2)}, linf={printed_up(self.linf)}{many}{apart})"


class _LargestChange(NamedTuple):
    """The largest change that one individual can make to a count (docs/proofs/counts.md)."""

    steps: int
    per_step: int
    halves_fit: bool  # whether half of the steps are as many as a replaced individual can have left


def _largest_change(
    participation_cap: int,
    step_cap: int,
    size: int,
    *,
    replaced: bool,
    gap: int,
    series: int,
    key_cap: int | None = None,
    periods: Sequence[int] | None = None,
) -> _LargestChange:
    # A replaced individual leaves up to I steps and enters up to I others, each entry of the difference
    # staying within ±M as both are within [0, M]. On a cycle of T steps at most ⌊T/gap⌋ lie gap apart; on L steps of it
    # that follow each other, at most ⌈L/gap⌉.
    length = size // series
    around = length // check.integer("gap", gap, minimum=1, maximum=length)
    within = [length] if periods is None else periods
    few = series if key_cap is None else key_cap
    cap = sum(min(participation_cap, series * min(-(-steps // gap), around), few * steps) for steps in within)
    return _LargestChange(min(2 * cap, size) if replaced else cap, step_cap, not replaced or 2 * cap <= size)


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
) -> Influence:
    """Influence of ``individuals`` on a count with caps (docs/proofs/counts.md).

    :param individuals: individuals added or removed, or replaced.
    :param participation_cap: ``I``, steps per individual.
    :param step_cap: ``M``, events per individual and step.
    :param size: entries of the count: ``T`` steps of the grid, in each of the series.
    :param replaced: True for the change-one distance, False for the symmetric distance.
    :param gap: least distance of two steps of an individual in one series, around the cycle; at most ``T``.
    :param series: number of series, each of equally many steps.
    :param key_cap: series per individual and step; None for all.
    :param periods: where an individual counts in each period by itself, how many steps those periods have, at most, in
        which one individual differs: one for a unit of privacy within a period, several for all that somebody did.
        Steps of two periods may lie close together.
    """
    steps, per_step, halves_fit = _largest_change(
        participation_cap,
        step_cap,
        size,
        replaced=replaced,
        gap=gap,
        series=series,
        key_cap=key_cap,
        periods=periods,
    )
    linf = up_fraction(per_step)
    return Influence(
        l0=steps,
        l2=up_sqrt(per_step**2 * steps),
        linf=linf,
        individuals=individuals,
        majorant=Majorant(np.full(steps, linf)) if math.isfinite(linf) else None,
        gap=gap if periods is None or len(periods) <= 1 else 1,
        replaced=replaced,
        key_cap=key_cap if key_cap is not None and key_cap < series and halves_fit else None,
    )


def count_l1(count: Influence) -> float:
    """ℓ1 distance of two counts within an influence on a count, rounded up."""
    return up_fraction(count.individuals * count.l0 * Fraction(count.linf)) if count.linf < math.inf else math.inf


def count_l2(count: Influence) -> float:
    """ℓ2 distance of two counts within an influence on a count, rounded up once."""
    return up_sqrt((count.individuals * Fraction(count.linf)) ** 2 * count.l0) if count.linf < math.inf else math.inf


def repeated_influence(influence: Influence, times: int) -> Influence:
    """Influence on ``times`` copies of a signal.

    The copies of a difference have ``times`` as many entries, the same largest one, and are majorised by every
    entry of the majorant ``times`` times: the largest ``k`` of the copies are copies of the largest ``⌈k/times⌉``.
    Each is a series of its own, and keeps the gap; at one step there are as many series more.
    """
    majorant, key_cap = influence.majorant, influence.key_cap
    return replace(
        influence,
        l0=influence.l0 * times,
        l2=up(influence.l2 * up_sqrt(times)),
        majorant=None if majorant is None else Majorant(np.repeat(majorant.values, times)),
        key_cap=None if key_cap is None else key_cap * times,
    )
