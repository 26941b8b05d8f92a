"""Releases whose caps, sampling and noise may be chosen by what earlier ones showed.

Rényi divergences of one order add up whatever is chosen, as long as the order and a bound on the sum are fixed: a
privacy filter (Feldman & Zrnic 2021, arXiv:2008.11193). It costs some 7 to 15 percent more noise than parameters that
are fixed in advance. Proof: docs/proofs/several_releases.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from scipy.optimize import minimize_scalar

from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.renyi import order_cost, renyi_to_delta
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up

__all__ = ["RenyiFilter"]


_renyi: Final = lru_cache(maxsize=2**14)(PrivacyLoss.renyi)


class RenyiFilter(NamedTuple):
    """A bound on everything that is released under a budget of (ε, δ), whatever is chosen next.

    :param order: of the Rényi divergences that are added up, above 1.

    >>> within = RenyiFilter.within(1.0, 1e-6)
    >>> round(within.order, 1), round(within.most, 4)
    (22.0, 0.5355)
    """

    epsilon: float
    delta: float
    order: float

    @classmethod
    def within(cls, epsilon: float, delta: float) -> RenyiFilter:
        """Return the filter of a budget, of the order that leaves most room for Gaussian noise."""

        # For Gaussian noise, the divergence of order α is α times a number: its room is `most` over α.
        def room(log_excess: float) -> float:
            order = 1 + math.exp(log_excess)
            return cls(epsilon, delta, order).most / order

        best = minimize_scalar(lambda x: -room(x), bounds=(-7.0, 40.0), method="bounded", options={"xatol": 1e-9})
        return cls(epsilon, delta, 1 + math.exp(float(best.x)))

    @property
    def most(self) -> float:
        """About the largest sum of divergences within the budget; :meth:`admits` decides."""
        return self.epsilon - self.overhead

    @property
    def overhead(self) -> float:
        """About how much ε exceeds the divergence."""
        return (order_cost(self.order) - math.log(self.delta)) / (self.order - 1)

    def divergence(self, losses: Iterable[tuple[PrivacyLoss, int]]) -> float:
        """Return an upper bound on the sum of divergences of losses, each given with how often it occurs."""
        total = 0.0
        for loss, count in losses:
            total = up(total + up(count * _renyi(loss, self.order)))
        return total

    def admits(self, divergence: float) -> bool:
        """Return whether releases with this sum of divergences are within the budget."""
        return renyi_to_delta(self.order, divergence, self.epsilon) <= self.delta

    def epsilon_of(self, divergence: float) -> float:
        """Return an upper bound on ε, at the δ of the budget, of releases with this sum of divergences."""
        if divergence == 0 or divergence == math.inf:
            return divergence
        if not self.delta >= LOWEST_BOUND:
            return math.inf
        found, step = max(0.0, divergence + self.overhead), 1e-13
        while renyi_to_delta(self.order, divergence, found) > self.delta:
            found, step = found + step * max(1.0, divergence), 2 * step
        return found
