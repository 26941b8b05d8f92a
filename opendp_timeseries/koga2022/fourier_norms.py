"""How far a signal's first Fourier coefficients move when the signal does.

The first ``k`` frequencies of a real signal of ``T`` steps have ``n = 2k − 1`` real coefficients in an orthonormal
basis ``F``. ``P = FᵀF`` is the circulant projection with Dirichlet's kernel ``P_d = sin(πnd/T)/(T·sin(πd/T))``. A
change ``v`` with ``s`` non-zero entries moves them by

* ``‖Fv‖₂² = vᵀPv ≤ ‖v‖₂² · min(1, top_s(|P|))``, ``top_s`` being the sum of the ``s`` largest; less where steps lie
  apart;
* ``‖Fv‖₂ ≤ √(n/T)·‖v‖₁``, as every column of ``F`` has norm ``√(n/T)``;
* ``‖Fv‖₁ ≤ √n·‖Fv‖₂``.

Someone who is in few steps moves the low frequencies little, where Rastogi & Nath (2010) and Koga et al. (2022) charge
the whole norm of the change. Proof: docs/proofs/koga2022.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up, up_fraction
from opendp_timeseries.accounting.separated import envelope, most_apart

__all__ = ["coefficients_l1", "coefficients_l2", "influence_l1", "influence_l2"]

_EPS: Final = 2.0**-52


def influence_l2(influence: Influence, size: int, frequencies: int, *, entry_error: float = 0.0) -> float:
    """ℓ2 distance of the coefficients of two signals within ``influence``, rounded up.

    One individual's bound, times the individuals: norms obey the triangle inequality.

    :param influence: distance of the signals.
    :param size: ``T``, steps of the signal.
    :param frequencies: ``k``.
    :param entry_error: how far any entry of the matrix that is applied may be from the ideal basis.
    """
    l1 = up(min(influence.l0 * influence.linf, math.sqrt(influence.l0) * influence.l2), 2)
    row_sum = _row_sum_apart(influence, size, 2 * frequencies - 1)
    one = coefficients_l2(
        size, frequencies, l0=influence.l0, l1=l1, l2=influence.l2, row_sum=row_sum, entry_error=entry_error
    )
    if influence.individuals == 0 or math.isinf(one):
        return one if influence.individuals else 0.0
    return up_fraction(influence.individuals * Fraction(one))


def influence_l1(influence: Influence, size: int, frequencies: int, *, entry_error: float = 0.0) -> float:
    """ℓ1 distance of the coefficients, for the parameters of :func:`influence_l2`."""
    return _l1_from_l2(influence_l2(influence, size, frequencies, entry_error=entry_error), frequencies)


def coefficients_l2(
    size: int,
    frequencies: int,
    *,
    l0: int,
    l1: float,
    l2: float,
    row_sum: float = 1.0,
    entry_error: float = 0.0,
) -> float:
    """ℓ2 distance of the coefficients of two signals, rounded up.

    :param l0: steps in which the signals differ.
    :param l1: ℓ1 distance of the signals.
    :param l2: ℓ2 distance of the signals.
    :param row_sum: the most that the magnitudes in a row of ``P`` sum to over the steps in which they differ.
    :param entry_error: moves each of ``n`` coefficients by at most ``entry_error·‖v‖₁``.
    """
    steps = min(l0, size)
    if steps == 0 or l1 == 0.0 or l2 == 0.0:
        return 0.0
    n = 2 * frequencies - 1
    spread = math.sqrt(min(_row_sums(size, n)[steps - 1], row_sum)) * l2
    ideal = min(spread, math.sqrt(n / size) * l1)
    return up((ideal + math.sqrt(n) * entry_error * l1) * (1.0 + 8 * _EPS))


def coefficients_l1(size: int, frequencies: int, *, l0: int, l1: float, l2: float, entry_error: float = 0.0) -> float:
    """ℓ1 distance of the coefficients, for the parameters of :func:`coefficients_l2`."""
    return _l1_from_l2(coefficients_l2(size, frequencies, l0=l0, l1=l1, l2=l2, entry_error=entry_error), frequencies)


def _l1_from_l2(l2: float, frequencies: int) -> float:
    return up(math.sqrt(2 * frequencies - 1) * l2, 2) if l2 else 0.0


def _row_sum_apart(influence: Influence, size: int, n: int) -> float:
    """Upper bound on a row sum of ``|P|`` over steps that lie apart, twice for two halves; 1 without a gap."""
    if influence.gap == 1:
        return 1.0
    steps = min(influence.l0_apart, most_apart(size, influence.gap))
    entries, k = _magnitudes(size, n), np.arange(1, steps)
    neighbours = envelope(entries)[influence.gap * np.minimum(k, steps - k)]
    halves = 2 if influence.replaced else 1
    return halves * float(entries[0] + neighbours.sum()) * (1.0 + (size + 32) * _EPS)


@lru_cache(maxsize=8)
def _row_sums(size: int, n: int) -> NDArray[np.float64]:
    """Upper bounds on ``min(1, top_s(|P|))`` for ``s = 1 … size``."""
    sums = np.cumsum(np.sort(_magnitudes(size, n))[::-1]) * (1.0 + (size + 32) * _EPS)
    sums = np.minimum(sums, 1.0)
    sums.flags.writeable = False
    return sums


def _magnitudes(size: int, n: int) -> NDArray[np.float64]:
    """``|P|`` by shift, within a few units in the last place."""
    shift = np.arange(size)
    shift = np.minimum(shift, size - shift)
    # The numerator's argument is reduced modulo π by exact integers, to at most π/2 in size: then sine and
    # quotient have a relative error of a few units in the last place, and cumulative sums one a term.
    numerator = (n * shift) % size
    numerator = np.minimum(numerator, size - numerator)
    entries = np.full(size, n / size)
    entries[1:] = np.sin(np.pi * numerator[1:] / size) / np.sin(np.pi * shift[1:] / size) / size
    return entries
