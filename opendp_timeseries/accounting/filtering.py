"""Filter stability: how far individuals move a signal after a circulant filter.

Three restricted norms bound what a filter does to a vector with few non-zero entries, and for kernels that
are symmetric and decreasing the magnitude majorant goes through the filter exactly. A filter that is wide
compared with a person's participation lowers sensitivity: the norm of the whole filter alone, as used by
Koga et al. (2022), does not show it. Proofs:
docs/proofs/circulant_filter.md and docs/proofs/magnitude_majorant.md.

All sums over taps are sums of integers, in the unit ``2**-resolution_bits``, and every result is rounded up.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.circulant import EXACT, circulant_product, fft_error
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.rounding import up_fraction, up_sqrt
from opendp_timeseries.kernels import Kernel

__all__ = [
    "filtered_influence",
    "filtered_l1",
    "filtered_l2",
    "row_energy",
    "spectral_norm",
    "stable_rank",
]


def filtered_influence(influence: Influence, kernel: Kernel, panel_size: int = 1) -> Influence:
    """Return the influence on ``y = A x``, given the influence on ``x``.

    A signal of several series, filtered each by itself, is a filter too: its Gram matrix is block diagonal, so the
    restricted norms stand; and the worst individual has all steps in one series, as long as they fit there
    (docs/proofs/circulant_filter.md and magnitude_majorant.md, panels).

    One individual is carried through the filter, and the number of individuals stays: a sum of ``k`` vectors
    within a bound is within ``k`` times that bound, and filtering ``k`` individuals at once
    would never give less.

    The majorant survives if the kernel is symmetric and decreasing, for any other kernel it would be false.

    :param influence: what individuals can do to the signal.
    :param kernel: the filter.
    :param panel_size: number of series in the signal, each as long as the kernel.
    """
    one = _of_one(replace(influence, individuals=1), kernel, panel_size)
    return replace(one, individuals=influence.individuals)


def filtered_l2(d_in: float, kernel: Kernel) -> float:
    """ℓ2 distance after the filter, at most ``d_in`` times its spectral norm, rounded up."""
    _, norm = _norm_bounds(kernel)
    return _times(d_in, norm)


def filtered_l1(d_in: float, kernel: Kernel) -> float:
    """ℓ1 distance after the filter, at most ``d_in`` times the sum of the taps' magnitudes, rounded up."""
    return _times(d_in, kernel.l1)


def spectral_norm(kernel: Kernel) -> float:
    """Return an upper bound on ``‖A‖ = max|ĥ|``; for ``h >= 0`` the sum of the taps, exactly."""
    _, norm = _norm_bounds(kernel)
    return up_fraction(norm)


def row_energy(kernel: Kernel) -> float:
    """Return ``L``, the largest squared norm of a row of the filter, ``sum h**2``, rounded up.

    Symbol of the matrix Chernoff bound (Koga et al. 2022, Theorem 4), which increases in it.
    """
    return up_fraction(_energy(kernel))


def stable_rank(kernel: Kernel) -> float:
    """Return the stable rank ``‖A‖_F² / ‖A‖²`` of the filter, rounded up.

    Symbol of the matrix Chernoff bound (Koga et al. 2022, Theorem 4), which increases in it.
    """
    energy = _energy(kernel)
    # ‖A‖_F² = T·L, and ‖A‖² is at least L, the mean of all |ĥ|².
    least, _ = _norm_bounds(kernel)
    return up_fraction(kernel.size * energy / max(least**2, energy))


def _times(value: float, factor: Fraction) -> float:
    return math.inf if math.isinf(value) else up_fraction(Fraction(value) * factor)


def _times_root(value: float, square: Fraction) -> float:
    return math.inf if math.isinf(value) else up_sqrt(Fraction(value) ** 2 * square)


@lru_cache(maxsize=32)
def _of_one(influence: Influence, kernel: Kernel, panel_size: int) -> Influence:
    """Influence of one individual after the filter (a search asks for the same one again and again)."""
    size, unit = kernel.size, Fraction(1, 2**kernel.resolution_bits)
    steps = min(influence.l0, size)
    largest = _magnitudes(kernel)[:steps].tolist()
    _, norm = _norm_bounds(kernel)
    # ‖Av‖₂² = v_S' G v_S with G a principal submatrix of A'A, whose rows hold the autocorrelation at `steps`
    # different shifts: its top eigenvalue is at most its largest absolute row sum (Gershgorin).
    energy_gain = min(norm**2, _top(_autocorrelation(kernel), steps) * unit**2)
    l2 = _times_root(influence.l2, energy_gain)
    # Every |(Av)_t| takes at most `steps` taps: all of them times linf, or Cauchy-Schwarz.
    linf = min(
        _times(influence.linf, sum(largest) * unit),
        _times_root(influence.l2, sum(q * q for q in largest) * unit**2),
    )
    majorant = None
    fits = influence.majorant is not None and (panel_size == 1 or len(influence.majorant.values) <= size)
    if influence.majorant is not None and fits and kernel.is_symmetric_decreasing:
        values, values_l2 = _rearranged(influence.majorant, kernel)
        largest_value = float(values.max(initial=0.0))
        l2, linf = min(l2, values_l2), min(linf, largest_value)
        majorant = Majorant(values) if math.isfinite(largest_value) else None
    l0 = min(panel_size * size, influence.l0 * kernel.support)
    return Influence(l0=l0, l2=l2, linf=linf, majorant=majorant)


def _rearranged(majorant: Majorant, kernel: Kernel) -> tuple[NDArray[np.float64], float]:
    """Majorant after a symmetric decreasing filter, and its Euclidean norm, rounded up.

    The worst vector has its magnitudes ``a`` on the cycle in the order 0, 1, -1, 2, -2, …, the largest in
    the middle (rearrangement on the cycle; docs/proofs/magnitude_majorant.md).
    """
    size, values = kernel.size, majorant.values[: kernel.size]
    if not len(values):
        return values, 0.0
    # Round `a` up to a grid on which the convolution is exact: integers up to 2**(room's bits - 1) <= room.
    # Counts lie on it already, and so does what came out of one filter, at the usual resolution.
    room = (EXACT - 1) // _total(kernel)
    places = min(room.bit_length() - 1 - math.frexp(values[0])[1], 900)
    units = np.maximum(np.ceil(np.ldexp(values, places)), 1.0)  # at least 1, should the scaling underflow
    order = np.arange(1, len(values) + 1)
    signal = np.zeros(size)
    signal[np.where(order % 2 == 0, order // 2, -(order // 2))] = units
    product = np.sort(circulant_product(signal, kernel.numerators))[::-1]
    scale = places + kernel.resolution_bits
    energy = sum(y * y for y in product[product > 0].astype(np.int64).tolist())
    with np.errstate(over="ignore"):  # beyond the largest float is infinity, which is an upper bound
        return np.ldexp(product, -scale), up_sqrt(energy / Fraction(4) ** scale)


def _top(descending: NDArray[Any], count: int) -> int:
    return int(descending[:count].sum())


@lru_cache(maxsize=16)
def _magnitudes(kernel: Kernel) -> NDArray[np.int64]:
    """Magnitudes of the non-zero taps in units, descending."""
    magnitudes: NDArray[np.int64] = np.abs(kernel.numerators)
    return np.sort(magnitudes[magnitudes > 0])[::-1]


def _total(kernel: Kernel) -> int:
    return int(_magnitudes(kernel).sum())  # below 2**53, a rule of kernels


def _energy(kernel: Kernel) -> Fraction:
    """``sum h**2``."""
    return Fraction(sum(q * q for q in _magnitudes(kernel).tolist()), 4**kernel.resolution_bits)


@lru_cache(maxsize=16)
def _autocorrelation(kernel: Kernel) -> NDArray[Any]:
    """Magnitudes of ``R_m = sum_t q_t q_(t+m)`` in squared units, exactly, non-zero and descending."""
    total, taps = _total(kernel), kernel.numerators
    width = 53 - total.bit_length()  # digits below 2**width keep the product exact
    if width < 1:
        return np.array([total**2], dtype=object)  # all that is used: the sum of all |R_m| is at most this
    mirrored = np.roll(taps[::-1], 1)
    kind = np.int64 if total**2 < 2**62 else object
    shifts = np.zeros(len(taps), dtype=kind)
    rest, place = np.abs(taps), 0
    while rest.any():
        digits = np.sign(taps) * (rest & (2**width - 1))
        part = circulant_product(digits.astype(np.float64), mirrored).astype(np.int64)
        shifts += part.astype(kind) * 2**place
        rest, place = rest >> width, place + width
    magnitudes = np.abs(shifts[shifts != 0])
    return np.sort(magnitudes)[::-1]


@lru_cache(maxsize=16)
def _norm_bounds(kernel: Kernel) -> tuple[Fraction, Fraction]:
    """Lower and upper bound on ``max|ĥ|``: equal unless the taps have both signs."""
    gain, taps = kernel.l1, kernel.numerators
    if taps.min() >= 0 or taps.max() <= 0:
        return gain, gain  # attained at frequency 0
    size = len(taps)
    # The transform of a length with a large prime factor is itself a convolution, of the taps with a chirp
    # of at most 4T points and 2T magnitudes of 1.
    error = fft_error(4 * size) * math.sqrt(2.0 * size) * math.sqrt(up_fraction(_energy(kernel)))
    largest = float(np.abs(np.fft.rfft(np.ldexp(taps.astype(np.float64), -kernel.resolution_bits))).max())
    return Fraction(max(largest - error, 0.0)), min(gain, Fraction(largest + error))
