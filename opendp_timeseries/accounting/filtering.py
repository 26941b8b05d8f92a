"""Bounds on how far individuals move a signal after a circulant filter.

A filter that is wide compared with somebody's participation lowers sensitivity, and more so where their steps lie a gap
apart: the norm of the filter matrix, as used by Koga et al. (2022), does not show it. All sums over taps are sums of
integers, in the unit ``2**-resolution_bits``, and every result is rounded up. Proofs: docs/proofs/filters.md, and
docs/proofs/separated_steps.md.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.circulant import EXACT, circulant_product, fft_error
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.rounding import up_fraction, up_sqrt

__all__ = [
    "Taps",
    "comb_sums",
    "energy",
    "envelope",
    "filtered_influence",
    "gain",
    "is_symmetric_decreasing",
    "max_separated_steps",
    "norm_bounds",
    "row_sum",
]


#: Integers, as int64 or, where that may overflow, as Python's.
Integers = NDArray[Any]


class Taps(Protocol):
    """The taps of a circulant filter, ``h_t = numerators[t] * 2**-resolution_bits``; equal ones have equal numbers.

    The magnitudes of the numerators sum to less than 2**53.
    """

    @property
    def numerators(self) -> NDArray[np.int64]:
        """``T`` integers, not all zero, that never change."""

    @property
    def resolution_bits(self) -> int:
        """Binary places of the taps."""

    def __hash__(self) -> int:
        """Hash the taps: results that depend on them alone are cached."""


def is_symmetric_decreasing(numerators: NDArray[np.int64]) -> bool:
    """Return whether ``h >= 0``, ``h_t = h_(-t)`` and ``h`` falls in circular distance, as the majorant needs."""
    half = numerators[: len(numerators) // 2 + 1]
    return bool(
        numerators.min() >= 0 and np.array_equal(numerators[1:], numerators[:0:-1]) and np.all(np.diff(half) <= 0)
    )


def filtered_influence(influence: Influence, kernel: Taps, panel_size: int = 1) -> Influence:
    """Return the influence on a filtered signal of individuals with a given influence on the signal.

    A majorant survives a symmetric decreasing kernel; with a gap, every kernel yields one. The gap itself is lost.

    :param panel_size: number of series in the signal, each as long as the kernel and filtered by itself.
    """
    single = _single_influence(replace(influence, individuals=1), kernel, panel_size)
    return replace(single, individuals=influence.individuals)


def _times(value: Fraction | float, factor: Fraction) -> float:
    return math.inf if value == math.inf else up_fraction(Fraction(value) * factor)


def _times_root(value: float, square: Fraction) -> float:
    return math.inf if value == math.inf else up_sqrt(Fraction(value) ** 2 * square)


@lru_cache(maxsize=32)
def _single_influence(influence: Influence, kernel: Taps, panel_size: int) -> Influence:
    size, unit = len(kernel.numerators), Fraction(1, 2**kernel.resolution_bits)
    separated = min(influence.l0_separated, max_separated_steps(size, influence.gap))
    steps = min(influence.l0, 2 * separated if influence.replaced else separated)
    largest = _magnitudes(kernel)[:steps].tolist()
    _, norm = norm_bounds(kernel)
    # ‖Av‖₂² = v_S' G v_S with G a principal submatrix of A'A, whose rows hold the autocorrelation at `steps`
    # different shifts: its top eigenvalue is at most its largest absolute row sum (Gershgorin).
    shifts = _autocorrelation(kernel)
    top = int(np.sort(shifts)[::-1][:steps].sum())
    if influence.gap > 1 and separated > 0:
        top = min(top, _halves(influence, kernel) * row_sum(shifts, influence.gap, separated))
    l2 = _times_root(influence.l2, min(norm**2, top * unit**2))
    # Every |(Av)_t| takes at most `steps` taps: all of them times linf, or Cauchy-Schwarz.
    linf = min(
        _times(influence.linf, sum(largest) * unit),
        _times_root(influence.l2, sum(q * q for q in largest) * unit**2),
    )
    l1 = _times(influence.l1_norm(), gain(kernel))
    carried = _filtered_majorant(influence, kernel, panel_size)
    l0 = min(panel_size * size, influence.l0 * len(_magnitudes(kernel)))
    if carried is None:
        return Influence(l0=l0, l2=l2, linf=linf, l1=l1)
    values, values_l2 = carried
    largest_value = float(values.max(initial=0.0))
    majorant = Majorant(values) if math.isfinite(largest_value) else None
    return Influence(l0=l0, l2=min(l2, values_l2), linf=min(linf, largest_value), majorant=majorant, l1=l1)


def _halves(influence: Influence, kernel: Taps) -> int:
    """Return how many halves of an individual's change the bound for separated steps must add up: 1 or 2.

    Both halves of a replacement are non-negative, so behind taps of one sign they cancel rather than add up.
    """
    return 2 if influence.replaced and kernel.numerators.min() < 0 < kernel.numerators.max() else 1


def _filtered_majorant(influence: Influence, kernel: Taps, panel_size: int) -> tuple[NDArray[np.float64], float] | None:
    """Return the majorant after the filter, and its Euclidean norm, rounded up; None if there is no majorant."""
    majorant = influence.majorant
    fits = majorant is not None and (panel_size == 1 or len(majorant.values) <= len(kernel.numerators))
    block = majorant is not None and fits and is_symmetric_decreasing(kernel.numerators)
    has_gap = influence.gap > 1 and 0 < influence.linf < math.inf
    if not (block or has_gap):
        return None
    if majorant is not None and not len(majorant.values):
        return majorant.values, 0.0
    # Round `a` up to a grid on which the convolution is exact: integers up to 2**(room's bits - 1) <= room.
    # Counts, and the output of one filter at the usual resolution, lie on this grid already.
    room = (EXACT - 1) // (_tap_sum(kernel) * _halves(influence, kernel))
    largest = influence.linf if majorant is None else majorant.values[0]
    places = min(room.bit_length() - 1 - math.frexp(largest)[1], 900)
    bounds = []
    if majorant is not None and block:
        bounds.append(_filter_rearranged(_in_units(majorant.values[: len(kernel.numerators)], places), kernel))
    if has_gap:
        step = int(_in_units(min(influence.linf, largest), places))
        sum_of_magnitudes = math.ceil(influence.l1_norm() * Fraction(2) ** places)
        bounds.append([step * tap for tap in _separated_bound(influence, kernel, panel_size, sum_of_magnitudes / step)])
        bounds.append([sum_of_magnitudes * _tap_sum(kernel)])
    integers = _least_prefix_sums(bounds)
    bits = places + kernel.resolution_bits
    with np.errstate(over="ignore"):  # beyond the largest float is infinity, which is an upper bound
        values = np.ldexp(np.array(integers, dtype=np.float64), -bits)
        return values, up_sqrt(sum(y * y for y in integers) / Fraction(4) ** bits)


def _in_units(values: NDArray[np.float64] | float, places: int) -> NDArray[np.float64]:
    return np.maximum(np.ceil(np.ldexp(values, places)), 1.0)  # at least 1, should the scaling underflow


def _filter_rearranged(units: NDArray[np.float64], kernel: Taps) -> list[int]:
    """Return the magnitudes that ``units`` lead to after a symmetric decreasing filter, as descending integers.

    The worst vector has its magnitudes on the cycle in the order 0, 1, -1, 2, -2, …, the largest in the middle.

    :param units: at most as many magnitudes as there are taps, descending.
    """
    order = np.arange(1, len(units) + 1)
    worst = np.zeros(len(kernel.numerators))
    worst[np.where(order % 2 == 0, order // 2, -(order // 2))] = units
    product = np.sort(circulant_product(worst, kernel.numerators))[::-1]
    return list(map(int, product[product > 0].tolist()))


def _separated_bound(influence: Influence, kernel: Taps, panel_size: int, total: float) -> list[int]:
    """Return bounds on the magnitudes that separated steps lead to after the filter, descending.

    They are in units of a tap times the largest change: two entries for each step and distance to it, one for the step
    itself.

    :param every: sum of the magnitudes before the filter, in units of the largest; times the sum of all taps it bounds
        the sum of the list, which ends there.
    """
    size, halves = len(kernel.numerators), _halves(influence, kernel)
    per_cycle = max_separated_steps(size, influence.gap)
    steps = min(influence.l0_separated, panel_size * per_cycle)
    sums = comb_sums(np.abs(kernel.numerators), influence.gap, min(steps, per_cycle))
    sums = halves * np.minimum(sums, int(_magnitudes(kernel)[:steps].sum()))
    sides = (2 if influence.replaced and halves == 1 else 1) * steps * np.minimum(np.arange(1, len(sums) + 1), 2)
    order = np.argsort(-sums, kind="stable")
    ends = np.minimum(np.cumsum(sides[order]), panel_size * size)
    copies = np.diff(ends, prepend=0)
    # Beyond the bound on its sum the list adds nothing, and may be long.
    sum_so_far = np.cumsum(sums[order].astype(np.float64) * copies)
    enough = 1 + int(np.searchsorted(sum_so_far, 1.001 * total * _tap_sum(kernel)))
    values = np.repeat(sums[order][:enough], copies[:enough])
    return list(values[values > 0].tolist())


def _least_prefix_sums(bounds: list[list[int]]) -> list[int]:
    """Return descending integers whose prefix sums are the least of those of the bounds."""
    if len(bounds) == 1:
        return bounds[0]
    length = max(map(len, bounds))
    sums = zip(*(accumulate(chain(bound, repeat(0, length - len(bound)))) for bound in bounds), strict=True)
    minima = list(map(min, sums))
    return [now - before for before, now in pairwise([0, *minima]) if now > before]


@lru_cache(maxsize=16)
def _magnitudes(kernel: Taps) -> NDArray[np.int64]:
    """Return the magnitudes of the non-zero taps in units, descending."""
    return np.sort(np.abs(kernel.numerators[kernel.numerators != 0]))[::-1]


def _tap_sum(kernel: Taps) -> int:
    return int(_magnitudes(kernel).sum())  # below 2**53, a rule of kernels


def gain(kernel: Taps) -> Fraction:
    """Return ``sum |h|``, exactly."""
    return Fraction(_tap_sum(kernel), 2**kernel.resolution_bits)


def energy(kernel: Taps) -> Fraction:
    """Return ``sum h**2``, exactly."""
    return Fraction(sum(q * q for q in _magnitudes(kernel).tolist()), 4**kernel.resolution_bits)


@lru_cache(maxsize=16)
def _autocorrelation(kernel: Taps) -> Integers:
    """Return ``|R_m|`` for ``R_m = sum_t q_t q_(t+m)`` in squared units, exactly, indexed by the shift ``m``."""
    total, taps = _tap_sum(kernel), kernel.numerators
    width = 53 - total.bit_length()  # digits below 2**width keep the product exact
    if width < 1:
        # Callers use only sums that include R_0, and the sum of all |R_m| is at most this.
        return np.array([total**2] + [0] * (len(taps) - 1), dtype=object)
    reflection = np.roll(taps[::-1], 1)
    shifts = np.zeros(len(taps), dtype=np.int64 if total**2 < 2**62 else object)
    remainder, place = np.abs(taps), 0
    while remainder.any():
        digits = np.sign(taps) * (remainder & (2**width - 1))
        part = circulant_product(digits.astype(np.float64), reflection).astype(np.int64)
        shifts += part.astype(shifts.dtype) * 2**place
        remainder, place = remainder >> width, place + width
    return np.abs(shifts)


@lru_cache(maxsize=16)
def norm_bounds(kernel: Taps) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound on ``max|ĥ|``: equal unless the taps have both signs."""
    upper, taps = gain(kernel), kernel.numerators
    if taps.min() >= 0 or taps.max() <= 0:
        return upper, upper  # attained at frequency 0
    size = len(taps)
    # The transform of a length with a large prime factor is itself a convolution, of the taps with a chirp
    # of at most 4T points and 2T magnitudes of 1.
    error = fft_error(4 * size) * math.sqrt(2.0 * size) * math.sqrt(up_fraction(energy(kernel)))
    largest = float(np.abs(np.fft.rfft(np.ldexp(taps.astype(np.float64), -kernel.resolution_bits))).max())
    return Fraction(max(largest - error, 0.0)), min(upper, Fraction(largest + error))


def max_separated_steps(size: int, gap: int) -> int:
    """Return the largest number of steps on a cycle that lie a gap apart."""
    return max(size // gap, 1)


def envelope(magnitudes: NDArray[Any]) -> NDArray[Any]:
    """Return, for each circular distance ``0 … ⌊T/2⌋``, the largest magnitude at that distance or beyond.

    :param magnitudes: ``T`` magnitudes, by shift.
    """
    reflection = np.roll(magnitudes[::-1], 1)
    inwards = np.maximum(magnitudes, reflection)[: len(magnitudes) // 2 + 1][::-1]
    largest: NDArray[Any] = np.maximum.accumulate(inwards)
    return largest[::-1]


def row_sum(magnitudes: NDArray[Any], gap: int, steps: int) -> Any:
    """Return the largest sum of magnitudes over the shifts from one of ``steps`` separated steps to all of them.

    Magnitudes that do not decrease with the distance are replaced by their envelope. The sum of integers is exact.

    :param magnitudes: ``T`` magnitudes, by shift.
    """
    # The k-th step clockwise lies at least k gaps away, and at least steps - k gaps the other way round.
    k = np.arange(1, steps)
    neighbours = envelope(magnitudes)[gap * np.minimum(k, steps - k)]
    return sum(neighbours.tolist(), *magnitudes[:1].tolist())


def comb_sums(magnitudes: NDArray[np.int64], gap: int, steps: int) -> Integers:
    """Return the largest sum of ``T`` taps over ``steps`` separated steps, by the distance ``d`` of the nearest.

    Seen from any place they lie at least ``d, d + gap, d + 2·gap, …`` away on one side, and ``gap − d, 2·gap − d, …``
    on the other: two combs. ``d`` runs over ``0 … ⌊T/2⌋``.
    """
    weights = envelope(magnitudes)
    nearest = np.arange(len(weights))
    # The nearest step on the other side is no nearer, and a gap away from the first.
    opposite = np.minimum(np.maximum(nearest, gap - nearest), len(weights) - 1)
    sums: Integers = _combs(weights, gap, steps - steps // 2) + _combs(weights, gap, steps // 2)[opposite]
    return sums


def _combs(weights: Integers, gap: int, teeth: int) -> Integers:
    """Return ``Σ_{k < teeth} weights[d + k·gap]`` for every ``d``; weights beyond the end are 0."""
    rows = -(-len(weights) // gap)
    table = np.zeros((rows, gap), dtype=np.int64 if int(weights[0]) * rows < 2**62 else object)
    table.flat[: len(weights)] = weights
    sums = np.cumsum(table[::-1], axis=0)[::-1]
    overhang = np.zeros_like(sums)
    overhang[: max(rows - teeth, 0)] = sums[teeth:]
    within: Integers = sums - overhang
    return within.ravel()[: len(weights)]
