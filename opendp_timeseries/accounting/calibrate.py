"""Search for the least noise within a budget: for a single release, for several together, and for a ledger.

The factor returned is verified: the loss there was computed and is within the budget. So the search itself need not be
trusted, and a search that does not converge is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import scipy

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import LOWEST_BOUND
from opendp_timeseries.accounting.subsampled import MIN_SCALE

__all__ = ["calibrate"]

# ε is read off the profile to 12 digits, so the search aims at this share of it.
_AIMED_SHARE: Final = 1 - 2.0**-40
# Logarithms of factors stay within ± this: floats end at e^±709.
_MAX_LOG_FACTOR: Final = 690.0
# A law made for a factor this close to the least one is exact there to all digits.
_LAW_TOLERANCE: Final = 1e-5
# Each new law covers factors down to half of the last one's, or brings the search closer.
_MAX_LAWS: Final = 1100


def calibrate(
    loss_at: Callable[[float], Any], budget: Budget | float, *, start: float = 1.0, refusal: Refusal | None = None
) -> float:
    """Return the least factor on all scales that keeps a loss within a budget, to 12 digits, rounded up.

    :param loss_at: the loss at a factor, or a number such as its δ; it falls as the factor grows.
    :param budget: a :class:`~opendp_timeseries.accounting.budget.Budget`, or an upper bound on such a number.
    :param start: a factor above 0 at which no scale is below 1: the search goes down to 2**-1000 of it if any noise
        suffices.
    :param refusal: what is raised if no factor suffices.
    :return: the factor; 0 if nothing is lost without noise, where that is known: of a number, 2**-995 of ``start``.
    :raises ValueError: if the start or the upper bound is not above 0, or the search finds no sufficient factor.

    >>> from opendp_timeseries.accounting.influence import count_influence
    >>> from opendp_timeseries.accounting.subsampled import extremal_law
    >>> person = count_influence(1, participation_cap=10, step_cap=1, size=100, replaced=False)
    >>> round(calibrate(extremal_law(person, 0.1, 100).at, Budget(epsilon=1.0, delta=1e-6)), 6)
    6.823404
    """
    start = check.real("start", start, above=0.0)
    if not isinstance(budget, Budget):
        budget = check.real("budget", budget, above=0.0)
    at = cache(loss_at)
    factor = (
        _factor_for_loss(at, budget, start) if isinstance(budget, Budget) else _factor_for_number(at, budget, start)
    )
    if factor == math.inf:
        remedy = "raise the budget, or lower the caps or the number of individuals"
        raise refusal or Refusal("budget", Quoted(f"{budget}".strip("()")), "is reached by no scale", remedy)
    return factor


def _factor_for_number(number_at: Callable[[float], float], limit: float, start: float) -> float:
    """Return the least factor at which a number is at most ``limit``; infinity if the search fails."""

    def excess(x: float) -> float:
        return math.log(max(number_at(start * math.exp(x)), LOWEST_BOUND)) - math.log(limit)

    shift = _zero_of(excess, 1.0, -_MAX_LOG_FACTOR, _MAX_LOG_FACTOR)
    if shift == _MAX_LOG_FACTOR:
        return math.inf
    # This little above the root, the factor nearly always suffices; it leaves the last digits of a budget unspent.
    return _first_admitted(lambda factor: number_at(factor) <= limit, start * math.exp(shift + 1e-12))


def _first_admitted(admits: Callable[[float], bool], factor: float) -> float:
    """Return the first of the factor and slightly larger ones that is admitted; infinity if none is."""
    nudge = 2.0**-51
    while not admits(factor):
        if nudge > 1e-3:
            return math.inf
        factor, nudge = factor * (1 + nudge), 4 * nudge
    return factor


def _zero_of(excess: Callable[[float], float], step: float, floor: float, ceiling: float) -> float:
    """Return the zero of a falling function, searched from 0 in growing steps; an end of the range if it has none."""
    excess = cache(excess)
    point, is_positive = 0.0, excess(0.0) > 0
    while True:
        neighbour = min(point + step, ceiling) if is_positive else max(point - step, floor)
        if (excess(neighbour) > 0) != is_positive:
            low, high = sorted((point, neighbour))
            return float(scipy.optimize.toms748(excess, low, high, xtol=1e-14, rtol=1e-14, disp=False))
        if neighbour in (floor, ceiling):
            return neighbour
        point, step = neighbour, 2 * step


def _factor_for_loss(loss_at: Callable[[float], PrivacyLoss], budget: Budget, start: float) -> float:
    """Return the least factor within a budget; infinity if the search fails."""
    loss = loss_at(start)
    if loss.law.largest == 0:
        return 0.0
    if loss.scale == 0:  # there is no scale to multiply
        return math.inf
    if budget.admits(loss_at(start * MIN_SCALE)):
        return start * MIN_SCALE
    factor = start * _sufficient_factor(loss, budget)
    if factor == math.inf:
        return math.inf
    loss = loss_at(factor)
    # Some laws hold only near the scales they were made for: then make one at the estimate of the least factor.
    for step in (0.5, *[1e-3] * _MAX_LAWS):  # first from an estimate, then from where a search ended
        shift = _shift(loss, budget, step)
        factor *= math.exp(shift)
        if factor <= start * MIN_SCALE or factor == math.inf:
            return math.inf
        previous, loss = loss, loss_at(factor)
        if loss.law is previous.law or abs(shift) < _LAW_TOLERANCE or budget.rho is not None:
            break
    else:
        return math.inf
    return _first_admitted(lambda factor: budget.admits(loss_at(factor)), factor)


def _sufficient_factor(loss: PrivacyLoss, budget: Budget) -> float:
    """Return a factor on the scale of a loss that suffices for a budget, not far above the least."""
    worst = math.sqrt(loss.law.largest) / loss.scale
    if budget.epsilon is None:
        return worst / math.sqrt(2 * budget.first) if budget.first >= LOWEST_BOUND else math.inf
    # At a distance of μ the Gaussian mechanism has δ ≤ μ/√(2π), and δ is enough where μ²/2 + μ√(2 log 1/δ) ≤ ε.
    epsilon, digits = budget.epsilon * _AIMED_SHARE, -math.log(budget.delta)
    distance = 2 * epsilon / (math.sqrt(2 * digits + 2 * epsilon) + math.sqrt(2 * digits))
    factor = worst / max(budget.delta * math.sqrt(2 * math.pi), distance) * (1 + 1e-3)
    if epsilon > 0 and factor < math.inf:
        # A divergence of order 1 + x of at most ε − (log 1/δ)/x suffices, too. This x is the best for Gaussian noise.
        x = (digits + math.sqrt(digits * (digits + epsilon))) / epsilon
        rate = np.array([x * (1 + x) / 2])
        while loss.law.log_moment(rate, loss.scale * factor / 1.25)[0] <= x * epsilon - digits:
            factor /= 1.25
    return factor


def _shift(loss: PrivacyLoss, budget: Budget, step: float) -> float:
    """Return the logarithm of the least multiple of its scale at which the law of a loss holds and is within a budget.

    :param step: first step of the search, from the loss's own scale.
    """
    if budget.epsilon is None:
        rho, _ = loss.zero_concentrated(budget.delta)
        return math.log(max(rho, LOWEST_BOUND) / budget.first) / 2
    epsilon = budget.epsilon * _AIMED_SHARE

    def excess(x: float) -> float:
        return math.log(PrivacyLoss(loss.law, loss.scale * math.exp(x)).delta(epsilon) / budget.delta)

    floor = math.log(loss.law.holds_from / loss.scale) + 1e-9 if loss.law.holds_from > 0 else -_MAX_LOG_FACTOR
    ceiling = _MAX_LOG_FACTOR - math.log(loss.scale)
    shift = _zero_of(excess, step, floor, ceiling)
    return shift if shift < ceiling else math.inf
