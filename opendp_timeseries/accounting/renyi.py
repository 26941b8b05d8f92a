"""From a Rényi divergence to a privacy profile and back: Canonne, Kamath & Steinke (2020), Proposition 12.

Proof: docs/proofs/renyi_to_approxdp.md. Every order gives a valid bound, so the search for the best one cannot be
unsound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up

__all__ = ["delta_from_renyi", "epsilon_from_renyi", "renyi_to_delta", "renyi_to_epsilon"]


def renyi_to_delta(alpha: float, renyi_epsilon: float, epsilon: float) -> float:
    """``δ`` at ``epsilon`` of a mechanism whose divergence of order ``alpha`` is at most ``renyi_epsilon``.

    Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12; rounded up, at most 1.

    :param alpha: order, above 1.
    :param renyi_epsilon: Rényi divergence of that order, at most.
    :param epsilon: privacy parameter.
    :raises ValueError: for an order of 1 or below.

    >>> renyi_to_delta(2.0, 0.5, 4.0)
    0.00754...
    """
    if not alpha > 1:
        raise ValueError(f"alpha ({alpha}) must be greater than 1")
    if renyi_epsilon == 0:
        return 0.0
    exponent = (alpha - 1) * (renyi_epsilon - epsilon) + _order_cost(alpha)
    # Where the answer is neither 1 nor the least, no term exceeds 1500, and 1e-11 is more than rounding costs.
    return min(1.0, max(math.exp(exponent) * (1 + 1e-11), LOWEST_BOUND)) if exponent < 0 else 1.0


def renyi_to_epsilon(alpha: float, renyi_epsilon: float, delta: float) -> float:
    """``ε`` at ``delta`` of a mechanism whose divergence of order ``alpha`` is at most ``renyi_epsilon``.

    The same proposition, solved for ``ε``; rounded up, at least 0.

    :param alpha: order, above 1.
    :param renyi_epsilon: Rényi divergence of that order, at most.
    :param delta: in (0, 1).
    :raises ValueError: for an order of 1 or below.
    """
    if not alpha > 1:
        raise ValueError(f"alpha ({alpha}) must be greater than 1")
    cost, tail = _order_cost(alpha), -math.log(delta)
    # Where the terms cancel, what they lost is added before it is divided.
    excess = (cost + tail + 2.0**-49 * (1 - cost + tail)) / (alpha - 1)
    bound = up(renyi_epsilon + excess + 2.0**-50 * abs(excess), 2)
    return math.inf if math.isnan(bound) else max(0.0, bound)


def delta_from_renyi(curve: Callable[[float], float], epsilon: float) -> float:
    """``δ`` at ``epsilon`` from a curve of Rényi divergences, at the best order that is found.

    :param curve: order (above 1) to Rényi divergence, such as the view ``loss.renyi``.
    :param epsilon: privacy parameter.
    """
    return _best_over_orders(lambda alpha: renyi_to_delta(alpha, curve(alpha), epsilon))


def epsilon_from_renyi(curve: Callable[[float], float], delta: float) -> float:
    """``ε`` at ``delta`` from a curve of Rényi divergences, at the best order that is found; not negative.

    :param curve: order (above 1) to Rényi divergence.
    :param delta: in (0, 1).
    """
    return _best_over_orders(lambda alpha: renyi_to_epsilon(alpha, curve(alpha), delta))


def _order_cost(alpha: float) -> float:
    """``log((1−1/α)^α/(α−1)) = (α−1)·log(1−1/α) − log α``: two terms of one sign, the first at least −1."""
    return (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)


def _best_over_orders(bound: Callable[[float], float]) -> float:
    """Least of ``bound(α)`` over the orders tried: a coarse grid of α − 1, then a search around its best."""
    grid = np.linspace(math.log(1e-3), math.log(1e6), 64)
    coarse = [bound(1 + math.exp(x)) for x in grid]
    best = int(np.argmin(coarse))
    around = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    fine = minimize_scalar(lambda x: bound(1 + math.exp(x)), bounds=around, method="bounded", options={"xatol": 1e-8})
    return min(coarse[best], float(fine.fun))
