"""Conversions of a privacy loss: Rényi divergences to a privacy profile, and a profile to a loss distribution.

Canonne, Kamath & Steinke (2020), Proposition 12: every order gives a valid bound, so the search for the best order
cannot be unsound. Distributions are for Google's ``dp_accounting`` (extra ``pld``). Proof: docs/proofs/conversions.md.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["delta_from_renyi", "order_cost", "privacy_loss_distribution", "renyi_to_delta"]

#: Larger distributions take too much time and memory, or their exponentials underflow.
MAX_LOSS: Final = 300.0
MAX_POINTS: Final = 10**6


def renyi_to_delta(alpha: float, renyi_epsilon: float, epsilon: float) -> float:
    """Return ``δ`` at ``epsilon`` of a mechanism whose divergence of order ``alpha`` is at most ``renyi_epsilon``.

    Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12; rounded up, at most 1.

    :raises ValueError: for an order of 1 or below.
    """
    if not alpha > 1:
        raise Refusal("alpha", alpha, "must be greater than 1")
    if renyi_epsilon == 0:
        return 0.0
    exponent = (alpha - 1) * (renyi_epsilon - epsilon) + order_cost(alpha)
    # Unless the answer is 1 or the lowest bound, no term exceeds 1500, and 1e-11 is more than rounding costs.
    return min(1.0, max(math.exp(exponent) * (1 + 1e-11), LOWEST_BOUND)) if exponent < 0 else 1.0


def delta_from_renyi(curve: Callable[[float], float], epsilon: float) -> float:
    """Return the least ``δ`` at ``epsilon`` that any order of a Rényi curve, such as ``loss.renyi``, gives."""

    def bound(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return renyi_to_delta(alpha, curve(alpha), epsilon)

    # Try a coarse grid of log(α − 1), then search around its best point.
    grid = np.linspace(math.log(1e-3), math.log(1e6), 64)
    coarse = [bound(x) for x in grid]
    best = int(np.argmin(coarse))
    bracket = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    fine = scipy.optimize.minimize_scalar(bound, bounds=bracket, method="bounded", options={"xatol": 1e-8})
    return min(coarse[best], float(fine.fun))


def order_cost(alpha: float) -> float:
    """Return ``c = log((1−1/α)^α/(α−1))``: a divergence ``D`` of order α has ``δ = exp((α−1)(D−ε) + c)``."""
    # Two terms of the same sign, so that nothing cancels.
    return (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)


def privacy_loss_distribution(
    profile: Callable[[float], float], discretization: float, tail: float
) -> "PrivacyLossDistribution":
    """Return the ``dp_accounting`` privacy loss distribution of a privacy profile that holds both ways.

    It "connects the dots" (Doroshenko et al. 2022, arXiv:2207.04380): its profile is never below the true one, and
    equals it at multiples of ``discretization``, up to where it falls to ``tail``. Proof: docs/proofs/conversions.md.

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
    limit = int(min(MAX_POINTS, MAX_LOSS / width))
    points = bisect_left(range(limit), True, key=lambda k: profile(k * width) <= tail)
    if points == limit:
        raise Refusal(
            "the profile",
            ...,
            f"is above tail ({tail:g}) up to a loss of {limit * width:g}",
            f"raise the scale of the noise, the discretization ({width:g}) or the tail",
        )
    points += 1
    positive = np.array([profile(k * width) for k in range(points + 1)])
    negative = [_mirrored(delta, k * width) for k, delta in enumerate(positive.tolist())]
    epsilons = np.arange(-points, points + 1)
    deltas = np.concatenate([negative[:0:-1], positive])
    hull = _lower_convex_hull(np.exp((epsilons - points) * width), deltas)
    return PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(width, epsilons, hull))


def _mirrored(delta: float, epsilon: float) -> float:
    """Return ``δ(−ε) = 1 − e^−ε(1 − δ(ε))`` of a profile that holds both ways, rounded up."""
    return min(1.0, up(math.exp(-epsilon) * delta - math.expm1(-epsilon), 8))


def _lower_convex_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at ``x`` of the largest convex function that is nowhere above ``y``.

    The minimum of several bounds need not be convex in ``e^ε``. A profile is: if it is below ``y``, it is below this.
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
    # Round up by what interpolation from the corner on the left may lose.
    left_corner = np.repeat(y[corners], np.diff(corners, append=len(x)))
    hull += 2.0**-50 * left_corner
    hull[corners] = y[corners]
    return hull
