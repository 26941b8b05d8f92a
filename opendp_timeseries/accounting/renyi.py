"""From a Rényi divergence to a privacy profile: Canonne, Kamath & Steinke (2020), Proposition 12.

Every order gives a valid bound, so the search for the best one cannot be unsound. Proof: docs/proofs/conversions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from opendp_timeseries.accounting.rounding import LOWEST_BOUND

__all__ = ["delta_from_renyi", "order_cost", "renyi_to_delta"]


def renyi_to_delta(alpha: float, renyi_epsilon: float, epsilon: float) -> float:
    """Return ``δ`` at ``epsilon`` of a mechanism whose divergence of order ``alpha`` is at most ``renyi_epsilon``.

    Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12; rounded up, at most 1.

    :raises ValueError: for an order of 1 or below.
    """
    if not alpha > 1:
        raise ValueError(f"alpha ({alpha}) must be greater than 1")
    if renyi_epsilon == 0:
        return 0.0
    exponent = (alpha - 1) * (renyi_epsilon - epsilon) + order_cost(alpha)
    # Where the answer is neither 1 nor the least, no term exceeds 1500, and 1e-11 is more than rounding costs.
    return min(1.0, max(math.exp(exponent) * (1 + 1e-11), LOWEST_BOUND)) if exponent < 0 else 1.0


def delta_from_renyi(curve: Callable[[float], float], epsilon: float) -> float:
    """Return ``δ`` at ``epsilon`` from a curve of Rényi divergences, such as ``loss.renyi``, at the best order."""

    def bound(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return renyi_to_delta(alpha, curve(alpha), epsilon)

    # A coarse grid of log(α − 1), then a search around its best.
    grid = np.linspace(math.log(1e-3), math.log(1e6), 64)
    coarse = [bound(x) for x in grid]
    best = int(np.argmin(coarse))
    around = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    fine = minimize_scalar(bound, bounds=around, method="bounded", options={"xatol": 1e-8})
    return min(coarse[best], float(fine.fun))


def order_cost(alpha: float) -> float:
    """Return ``c = log((1−1/α)^α/(α−1))``: a divergence ``D`` of order α has ``δ = exp((α−1)(D−ε) + c)``."""
    # As two terms of one sign.
    return (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
