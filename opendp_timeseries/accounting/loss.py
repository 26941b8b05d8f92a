"""The loss of a release, and its views.

Given its kept steps, a release is a Gaussian mechanism at some squared distance ``S``, so all of its loss is the law of
``U = S/σ²``, and every measure of loss is a view of that law. With ``g`` the profile of :mod:`.gaussian`,

* the privacy profile is ``E g(ε; U)``,
* the Rényi divergence of order ``α`` is ``log E exp(α(α−1)U/2) / (α−1)``,
* where ``U ≤ 2ρ`` but for an event of probability ``δ′``, the release is ``δ′``-approximately ``ρ``-zCDP (Bun &
  Steinke 2016, arXiv:1605.02065, Def. 8.1).

Proof: docs/proofs/subsampled_gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import toms748

from opendp_timeseries.accounting.gaussian import (
    MAX_EPSILON_OF_SLOPE,
    gaussian_delta,
    gaussian_delta_slope,
    inflection,
)
from opendp_timeseries.accounting.laws import Law
from opendp_timeseries.accounting.pld import privacy_loss_distribution
from opendp_timeseries.accounting.renyi import delta_from_renyi
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up_fraction

__all__ = ["DISCRETE_NOISE", "Moments", "PrivacyLoss", "SquaredDistance"]

#: Discrete noise on a grid of step γ ≤ σ/2**24 has at most the profile of continuous noise of σ times this, to
#: within 1e-500 (docs/proofs/subsampled_gaussian.md, lemma on discrete noise).
DISCRETE_NOISE: Final = 1 - 2.0**-42

# Sums and products of a few thousand rounded terms err by far less.
_MARGIN: Final = 1 + 1e-11
_TINY_MARGIN: Final = 1 + 1e-15
# OpenDP's conversion of zCDP overflows beyond.
_MAX_RHO: Final = 1e290
# Laws of sums lose their tails at 1e-60, so that below this the Rényi divergence may say more.
_CUT_SHOWS: Final = 1e-50


class Moments(NamedTuple):
    """``log E exp(rate·S)`` at some rates, from above."""

    rates: NDArray[np.float64]
    logs: NDArray[np.float64]


class SquaredDistance(Protocol):
    """What the loss needs of a random squared distance ``S``, all of it from above."""

    @property
    def holds_from(self) -> float:
        """The least scale of the noise at which the laws hold; 0 if they hold at all."""

    @property
    def most(self) -> float:
        """The largest value that ``S`` can take."""

    @property
    def increasing(self) -> Law:
        """A law that bounds ``E φ(S)`` for every increasing ``φ``."""

    @property
    def convex(self) -> tuple[Law, ...]:
        """Laws that bound ``E φ(S)`` for every convex increasing ``φ``; none where they would say nothing new."""

    def refined(self, bound: float, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        """A bound on ``E function(S)`` for an increasing function, at most ``bound``, which is one."""

    @property
    def moments(self) -> Moments | None:
        """Moments by which profiles may be less than by the laws; None where the laws say it all."""

    def log_moment(self, rate: float, scale: float) -> float:
        """``log E exp(rate·S/scale²)``, for a positive rate."""

    def quantile(self, failure_probability: float) -> tuple[float, float]:
        """``s`` and a bound, at most ``failure_probability``, on the probability that ``S > s``."""


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The loss of a release: the law of its squared distance, at a scale of the noise.

    Every method is a view of the same law, and an upper bound, rounding included. A distance of zero costs 0 in
    every view; any other is infinite at ``scale=0``.

    :param law: of the squared distance, as :func:`~.subsampled.extremal_law` makes it.
    :param scale: standard deviation σ of the noise, discrete on a grid of at most σ/2**24, or continuous.
    :raises ValueError: for a scale that is negative or not finite.

    >>> from opendp_timeseries.accounting.influence import count_influence
    >>> from opendp_timeseries.accounting.subsampled import extremal_law
    >>> person = count_influence(1, participation_cap=10, step_cap=1, size=100, replaced=False)
    >>> loss = extremal_law(person, 0.1, 100).at(2.0)
    >>> round(loss.delta(1.0), 6)
    0.016762
    >>> round(loss.renyi(2.0), 6)
    0.280067
    >>> loss.zero_concentrated(1e-6)
    (0.875, 3.73...e-07)
    """

    law: SquaredDistance
    scale: float

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise ValueError(f"scale ({self.scale}) must be finite and not negative")
        if 0 < self.scale < self.law.holds_from:
            raise ValueError(f"scale ({self.scale}) must be at least {self.law.holds_from}, from where this law holds")

    def __repr__(self) -> str:
        """Say which views there are, as the law itself has no short form."""
        return f"PrivacyLoss(scale={self.scale:g}; see its delta(epsilon), epsilon(delta), renyi(alpha), …)"

    def delta(self, epsilon: float) -> float:
        """Privacy profile δ(ε).

        Exact, up to rounding, for one individual and a count without a filter.

        :param epsilon: privacy parameter; below 0 by ``δ(ε) = 1 − e^ε(1 − δ(−ε))``, as the pair is symmetric.
        """
        if math.isnan(epsilon):
            raise ValueError("epsilon (nan) must be a number")
        if epsilon < 0:
            return min(1.0, (math.exp(epsilon) * self.delta(-epsilon) - math.expm1(epsilon)) * _MARGIN)
        if self.law.most == 0:
            return 0.0
        if self.scale == 0:
            return 1.0
        epsilon = min(epsilon, 1e300)  # the profile falls, so this is an upper bound at infinity too
        bound = self._delta_by_law(epsilon)
        if bound < _CUT_SHOWS and self.law.convex:
            bound = min(bound, delta_from_renyi(self.renyi, epsilon))
        return bound

    def _delta_by_law(self, epsilon: float) -> float:
        def profile(squares: NDArray[np.float64]) -> NDArray[np.float64]:
            return gaussian_delta(epsilon, self._over_variance(squares))

        values, weights = self.law.increasing
        bound = _mean(weights, profile(values))
        for values, weights in self.law.convex:
            bound = min(bound, _mean_of_convex_majorant(epsilon, self._over_variance(values), weights))
        bound = min(self.law.refined(bound, profile), self._delta_by_moments(epsilon))
        return min(1.0, max(bound, LOWEST_BOUND))

    def _delta_by_moments(self, epsilon: float) -> float:
        """``δ`` by Rényi divergences, at the best of the orders that the law's moments are for; 1 if there are none."""
        if self.law.moments is None:
            return 1.0
        rates, logs = self.law.moments
        # The order α = 1 + x has α(α−1)/2 = rate·σ², or a little less, and a divergence of logs/x.
        ready = 8 * rates * self.scale**2
        x = ready / (2 * (np.sqrt(1 + ready) + 1)) * (1 - 1e-14)
        gain, cost = x * epsilon, x * np.log1p(-1 / (1 + x)) - np.log1p(x)
        # See `renyi_to_delta`. Where no term is larger, 1e-11 is more than rounding costs.
        usable = np.maximum(logs, gain) < 1e4
        return math.exp(float(np.min((logs - gain + cost)[usable], initial=0.0))) * _MARGIN

    def epsilon(self, delta: float) -> float:
        """Least ``ε`` (to 12 digits where the profile falls, rounded up) at which :meth:`delta` is at most ``delta``.

        It is 0 where that holds at 0, and infinite where ``delta`` is below what double precision resolves.

        :param delta: in [0, 1].
        """
        if self.delta(0.0) <= delta:
            return 0.0
        if not delta >= LOWEST_BOUND or self.scale == 0:
            return math.inf
        # At squared distance u the profile is at most Φ(−√(2 log 1/δ)) ≤ δ here.
        u = float(self._over_variance(np.array([self.law.most]))[0])
        most = (u / 2 + math.sqrt(2 * u) * math.sqrt(math.log(1 / delta))) * _MARGIN
        profile = self.delta if delta < _CUT_SHOWS else self._delta_by_law
        if most == math.inf or not profile(most) <= delta:
            return math.inf

        def excess(x: float) -> float:
            return math.log(profile(math.expm1(x)) / delta)

        # On the scale of log(1 + ε), as the bracket may span hundreds of orders of magnitude.
        found = math.expm1(toms748(excess, 0.0, math.log1p(most), xtol=LOWEST_BOUND, rtol=1e-13, disp=False))
        step = 1e-13
        while (found := max(found, LOWEST_BOUND) * (1 + step)) < most:
            if profile(found) <= delta:
                return found
            step *= 2
        return most

    def epsilon_delta(self, delta: float) -> tuple[float, float]:
        """(ε, δ), read off the profile: :meth:`epsilon` and ``delta``, or ``(0, 0)`` if nothing is lost.

        :param delta: in [0, 1].
        """
        return (self.epsilon(delta), delta) if self.law.most > 0 else (0.0, 0.0)

    def renyi(self, alpha: float) -> float:
        """Rényi divergence of order ``alpha``. It holds for the discrete noise as it stands.

        Exact, up to rounding, for one individual and a count, with or without a decreasing filter.

        :param alpha: order, above 1.
        :raises ValueError: for an order of 1 or below.
        """
        if not alpha > 1:
            raise ValueError(f"alpha ({alpha}) must be greater than 1")
        if self.law.most == 0:
            return 0.0
        if self.scale == 0:
            return math.inf
        bound = self.law.log_moment(alpha / 2 * (alpha - 1), self.scale) / (alpha - 1) * (1 + 1e-12)
        return max(bound, LOWEST_BOUND) if bound < math.inf else math.inf

    def zero_concentrated(self, failure_probability: float) -> tuple[float, float]:
        """Approximate zCDP: ``ρ``, and the ``δ′`` that is attained. It holds for the discrete noise as it stands.

        :param failure_probability: δ′ in [0, 1]: the most that the exceptional event may weigh.
        """
        if self.law.most == 0:
            return 0.0, 0.0
        squared, attained = self.law.quantile(failure_probability)
        if self.scale == 0 or squared == math.inf:
            return math.inf, attained
        rho = up_fraction(Fraction(squared) / (2 * Fraction(self.scale) ** 2))
        if rho > _MAX_RHO:
            return math.inf, attained
        return (max(rho, LOWEST_BOUND) if rho > 0 else 0.0), attained

    def distribution(self, discretization: float = 1e-3, tail: float = 1e-15) -> Any:
        """Return the privacy loss distribution for ``dp_accounting``: :func:`~.pld.privacy_loss_distribution`."""
        return privacy_loss_distribution(self.delta, discretization, tail)

    def _over_variance(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """``squares/σ²`` for the profile: rounded up, paying for discrete noise, positive where the squares are."""
        scale = self.scale * DISCRETE_NOISE
        with np.errstate(all="ignore"):
            u = squares / scale / scale * _TINY_MARGIN
        return np.where(squares > 0, np.maximum(u, LOWEST_BOUND), 0.0)


def _mean(weights: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    return float(np.sum(weights * values)) * _MARGIN


def _tangent(epsilon: float, t: float, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tangent at ``t`` of the Gaussian profile, from above at every ``u ≥ 0``."""
    # Raised by 2e-11 of slope·t: the slope is from above, which would lower the line left of t.
    return gaussian_delta(epsilon, np.array([t])) + gaussian_delta_slope(epsilon, t) * (u - t * (1 - 2e-11))


def _mean_of_convex_majorant(epsilon: float, u: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Least ``E φ(U)`` over a family of convex increasing ``φ ≥ g``, where ``g`` is the Gaussian profile.

    ``g`` is convex up to its inflection ``u*`` and concave beyond. The larger of ``g`` and its tangent at any
    ``t ≥ u*`` is such a ``φ``: the tangent is above ``g`` from some ``c ≤ u*`` on, and below it before. At
    ``t = u*`` this is ``g`` continued by its tangent; where the tangent is positive at 0, it is Jensen's
    bound, best at the mean. As a function of ``t`` the bound falls while ``t < E[U | U > c]``, then rises.
    """
    g = gaussian_delta(epsilon, u)
    low, high = inflection(epsilon), float(u[-1])
    if high <= low:
        return _mean(weights, g)
    if high == math.inf or epsilon > MAX_EPSILON_OF_SLOPE:
        return 1.0
    mass = np.cumsum(weights[::-1])[::-1]
    centres = np.cumsum((weights * u)[::-1])[::-1] / np.maximum(mass, LOWEST_BOUND)  # E[U | U ≥ u_j]
    low = t = min(max(low, float(centres[0]), LOWEST_BOUND), high)
    least = _mean(weights, g) * (1 + 1e-13)  # no majorant of g has less
    best, bisect = 1.0, False
    while True:
        tangent = _tangent(epsilon, t, u)
        best = min(best, _mean(weights, np.maximum(tangent, g)))
        if best <= least:
            return best
        centre = float(centres[np.argmax(tangent > g)])
        if t < centre:
            low = t
        else:
            high = t
        if abs(centre - t) <= 1e-12 * t or high <= low * (1 + 1e-12):
            return best
        # The centre is the best t if the same points are above its tangent; halving makes sure that the loop ends.
        t = math.sqrt(low) * math.sqrt(high) if bisect or not low < centre <= high else centre
        bisect = not bisect
