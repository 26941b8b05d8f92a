"""A privacy profile as a privacy loss distribution for Google's ``dp_accounting`` (extra ``pld``)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import up

__all__ = ["privacy_loss_distribution"]

#: Beyond these, distributions take too much time and memory, or their exponentials underflow.
MAX_LOSS: Final = 300.0
MAX_POINTS: Final = 10**6


def privacy_loss_distribution(profile: Callable[[float], float], discretization: float, tail: float) -> Any:
    """Return the ``dp_accounting`` privacy loss distribution of a privacy profile that holds both ways.

    It connects the dots (Doroshenko et al. 2022, arXiv:2207.04380): its profile is never below the true one, and meets
    it at multiples of ``discretization``, up to where it falls to ``tail``. Proof: docs/proofs/conversions.md.

    :param profile: upper bound δ(ε) for ``ε ≥ 0``.
    :param discretization: width of the grid of privacy losses, positive.
    :param tail: mass in (0, 1) that may move to an infinite loss.
    :raises ImportError: without ``dp_accounting``, naming the extra to install.
    :raises ValueError: for a number out of range, or losses that take more than a million points.
    """
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise ImportError("privacy loss distributions need dp_accounting; install opendp_timeseries[pld]") from None
    width = check.real("discretization", discretization, above=0.0)
    tail = check.real("tail", tail, above=0.0, below=1.0)
    most = int(min(MAX_POINTS, MAX_LOSS / width))
    points = bisect_left(range(most), True, key=lambda k: profile(k * width) <= tail)
    if points == most:
        raise ValueError(
            f"the profile is above tail ({tail:g}) up to a loss of {most * width:g}; raise the scale of the noise,"
            f" the discretization ({width:g}) or the tail"
        )
    points += 1
    right = np.array([profile(k * width) for k in range(points + 1)])
    left = [_mirrored(delta, k * width) for k, delta in enumerate(right.tolist())]
    epsilons = np.arange(-points, points + 1)
    deltas = np.concatenate([left[:0:-1], right])
    hull = _lower_convex_hull(np.exp((epsilons - points) * width), deltas)
    return PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(width, epsilons, hull))


def _mirrored(delta: float, epsilon: float) -> float:
    """Return ``δ(−ε) = 1 − e^−ε(1 − δ(ε))`` of a profile that holds both ways, rounded up."""
    return min(1.0, up(math.exp(-epsilon) * delta - math.expm1(-epsilon), 8))


def _lower_convex_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at ``x`` of the largest convex function that is nowhere above ``y``.

    A profile is convex in ``e^ε``, as the least of several bounds need not be: if it is below ``y`` it is below this.
    """
    corners = [0]
    for k in range(1, len(x)):
        while len(corners) > 1:
            i, j = corners[-2:]
            if (y[j] - y[i]) * (x[k] - x[i]) <= (y[k] - y[i]) * (x[j] - x[i]):
                break
            corners.pop()
        corners.append(k)
    hull = np.interp(x, x[corners], y[corners])
    # Rounded up, by what interpolation from the corner on the left may lose.
    left = np.repeat(y[corners], np.diff(corners, append=len(x)))
    hull += 2.0**-50 * left
    hull[corners] = y[corners]
    return hull
