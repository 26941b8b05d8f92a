"""The loss of a release, and its views: as numbers and in words.

Given its kept steps, a release is a Gaussian mechanism at some squared distance ``S``. So its loss is the law of
``U = S/σ²``, and with ``g`` the profile of :mod:`.gaussian`,

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
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting.conversions import delta_from_renyi, privacy_loss_distribution
from opendp_timeseries.accounting.gaussian import (
    MAX_EPSILON_OF_SLOPE,
    gaussian_delta,
    gaussian_delta_slope,
    inflection,
)
from opendp_timeseries.accounting.laws import Law
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, printed_up, up, up_fraction

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "APPROXIMATE",
    "CONCENTRATED",
    "DISCRETE_NOISE",
    "PROFILE",
    "RENYI",
    "Points",
    "PrivacyLoss",
    "SquaredDistance",
    "View",
    "hinge",
    "in_words",
    "over_variance",
]

Floats = NDArray[np.float64]

#: Discrete noise on a grid of step γ ≤ σ/2**24 has at most the profile of continuous noise of σ times this, to
#: within 1e-500 (lemma on discrete noise).
DISCRETE_NOISE: Final = 1 - 2.0**-42

# Sums and products of a few thousand rounded terms err by far less.
_MARGIN: Final = 1 + 1e-11
_TINY_MARGIN: Final = 1 + 1e-15
# OpenDP's conversion of zCDP overflows beyond.
_MAX_RHO: Final = 1e290
# Laws of sums are cut at 1e-60: below this δ, Rényi divergences may give better bounds.
_CUT_SHOWS: Final = 1e-50


class SquaredDistance(Protocol):
    """A random squared distance ``S``, bounded from above, as far as a loss depends on it."""

    @property
    def holds_from(self) -> float:
        """The least scale of the noise at which the laws hold; 0 if they hold at all scales."""

    @property
    def largest(self) -> float:
        """The largest value that ``S`` can take."""

    @property
    def increasing(self) -> Law:
        """A law that bounds ``E φ(S)`` for every increasing ``φ``."""

    @property
    def convex(self) -> tuple[Law, ...]:
        """Laws that bound ``E φ(S)`` for every convex increasing ``φ``; none where they add nothing."""

    def refined(self, bound: float, function: Callable[[Floats], Floats]) -> float:
        """Return a bound on ``E function(S)`` for an increasing function, no larger than the given one."""

    @property
    def log_moments(self) -> tuple[Floats, Floats] | None:
        """Rates, and ``log E exp(rate·S)`` at each; None where these cannot bound profiles better than the laws."""

    def log_moment(self, rates: Floats, scale: float) -> Floats:
        """Return ``log E exp(rate·S/scale²)``, for positive rates."""

    def quantile(self, failure_probability: float) -> tuple[float, float]:
        """Return ``s``, and a bound on the probability that ``S > s``, at most ``failure_probability``."""


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The loss of a release: the law of its squared distance, at a scale of the noise.

    Every method returns an upper bound, rounding included. A distance of zero costs 0 in every view; any other distance
    costs infinity at ``scale=0``.

    :param law: of the squared distance, as of :func:`~.subsampled.extremal_law`.
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
            raise Refusal("scale", self.scale, "must be finite and not negative")
        if 0 < self.scale < self.law.holds_from:
            raise Refusal("scale", self.scale, f"must be at least {self.law.holds_from}, where this law holds")

    def __repr__(self) -> str:
        return f"PrivacyLoss(scale={self.scale:g}; see its delta(epsilon), epsilon(delta), renyi(alpha), …)"

    def delta(self, epsilon: float) -> float:
        """Return the privacy profile δ(ε), from above.

        It is exact up to rounding for one individual and a count without filter that drops steps beyond its cap, or
        of which every step is kept.
        """
        if math.isnan(epsilon):
            raise Refusal("epsilon", Quoted("nan"), "must be a number")
        if epsilon < 0:  # the pair is symmetric: δ(ε) = 1 − e^ε(1 − δ(−ε))
            return min(1.0, (math.exp(epsilon) * self.delta(-epsilon) - math.expm1(epsilon)) * _MARGIN)
        if self.law.largest == 0 or self.scale == 0:
            return 0.0 if self.law.largest == 0 else 1.0
        epsilon = min(epsilon, 1e300)  # the profile falls, so this is an upper bound at infinity too
        bound = self._delta_by_law(epsilon)
        if bound < _CUT_SHOWS and self.law.convex:
            bound = min(bound, delta_from_renyi(self.renyi, epsilon))
        return bound

    def _delta_by_law(self, epsilon: float) -> float:
        def profile(squares: Floats) -> Floats:
            return gaussian_delta(epsilon, self._over_variance(squares))

        values, weights = self.law.increasing
        bound = _mean(weights, profile(values))
        for values, weights in self.law.convex:
            bound = min(bound, _mean_of_convex_majorant(epsilon, self._over_variance(values), weights))
        bound = min(self.law.refined(bound, profile), self._delta_by_moments(epsilon))
        return min(1.0, max(bound, LOWEST_BOUND))

    def _delta_by_moments(self, epsilon: float) -> float:
        """Return the least ``δ`` that the law's moments give, by Rényi divergences; 1 if it has none."""
        if self.law.log_moments is None:
            return 1.0
        rates, logs = self.law.log_moments
        # The order α = 1 + x has α(α−1)/2 = rate·σ², or a little less, and a divergence of logs/x.
        ready = 8 * rates * self.scale**2
        x = ready / (2 * (np.sqrt(1 + ready) + 1)) * (1 - 1e-14)
        gain, cost = x * epsilon, x * np.log1p(-1 / (1 + x)) - np.log1p(x)
        # See `renyi_to_delta`. While no term exceeds this, 1e-11 is more than rounding costs.
        usable = np.maximum(logs, gain) < 1e4
        return math.exp(float(np.min((logs - gain + cost)[usable], initial=0.0))) * _MARGIN

    def epsilon(self, delta: float) -> float:
        """Return the least ``ε``, to 12 digits and rounded up, at which :meth:`delta` is at most ``delta``.

        It is infinite where ``delta`` is below what double precision resolves.
        """
        if self.delta(0.0) <= delta:
            return 0.0
        if not delta >= LOWEST_BOUND or self.scale == 0:
            return math.inf
        # At squared distance u the profile is at most Φ(−√(2 log 1/δ)) ≤ δ here.
        u = float(self._over_variance(np.array([self.law.largest]))[0])
        upper = (u / 2 + math.sqrt(2 * u) * math.sqrt(math.log(1 / delta))) * _MARGIN
        profile = self.delta if delta < _CUT_SHOWS else self._delta_by_law
        if upper == math.inf or not profile(upper) <= delta:
            return math.inf

        def excess(x: float) -> float:
            return math.log(profile(math.expm1(x)) / delta)

        # Search in log(1 + ε): the bracket may span hundreds of orders of magnitude.
        epsilon = math.expm1(
            scipy.optimize.toms748(excess, 0.0, math.log1p(upper), xtol=LOWEST_BOUND, rtol=1e-13, disp=False)
        )
        step = 1e-13
        while (epsilon := max(epsilon, LOWEST_BOUND) * (1 + step)) < upper:
            if profile(epsilon) <= delta:
                return epsilon
            step *= 2
        return upper

    def epsilon_delta(self, delta: float) -> tuple[float, float]:
        """Return :meth:`epsilon` and ``delta``, or ``(0, 0)`` if nothing is lost."""
        return (self.epsilon(delta), delta) if self.law.largest > 0 else (0.0, 0.0)

    def renyi(self, alpha: float) -> float:
        """Return the Rényi divergence of order ``alpha``, which holds for discrete noise unchanged.

        It is exact up to rounding for one individual and a count; also behind a decreasing filter, if steps beyond the
        cap are dropped.

        :raises ValueError: for an order of 1 or below.
        """
        if not alpha > 1:
            raise Refusal("alpha", alpha, "must be greater than 1")
        if self.law.largest == 0 or self.scale == 0:
            return 0.0 if self.law.largest == 0 else math.inf
        (moment,) = self.law.log_moment(np.array([alpha / 2 * (alpha - 1)]), self.scale).tolist()
        bound = moment / (alpha - 1) * (1 + 1e-12)
        return max(bound, LOWEST_BOUND) if bound < math.inf else math.inf

    def zero_concentrated(self, failure_probability: float) -> tuple[float, float]:
        """Return ``ρ``, and the ``δ′`` that it attains, at most ``failure_probability``.

        Approximate zCDP holds for discrete noise unchanged.
        """
        if self.law.largest == 0:
            return 0.0, 0.0
        square, tail = self.law.quantile(failure_probability)
        for law in self.law.convex if failure_probability > 0 else ():
            if (bound := hinge(law, failure_probability)) < square:
                square, tail = bound, failure_probability
        if self.scale == 0 or square == math.inf:
            return math.inf, tail
        rho = up_fraction(Fraction(square) / (2 * Fraction(self.scale) ** 2))
        rho = max(rho, LOWEST_BOUND) if rho > 0 else 0.0
        return (rho if rho <= _MAX_RHO else math.inf), tail

    def distribution(self, discretization: float = 1e-3, tail: float = 1e-15) -> PrivacyLossDistribution:
        """Return the loss for ``dp_accounting``, by :func:`~.accounting.conversions.privacy_loss_distribution`."""
        return privacy_loss_distribution(self.delta, discretization, tail)

    def _over_variance(self, squares: Floats) -> Floats:
        """Return ``squares/σ²`` for the profile, paying for discrete noise."""
        return over_variance(squares, self.scale * DISCRETE_NOISE)


def over_variance(squares: Floats, scale: float | Floats) -> Floats:
    """Return ``squares/scale²``, rounded up, positive where squares are."""
    with np.errstate(all="ignore"):
        u = squares / scale / scale * _TINY_MARGIN
    return np.where(squares > 0, np.maximum(u, LOWEST_BOUND), 0.0)


def _mean(weights: Floats, values: Floats) -> float:
    return float(np.sum(weights * values)) * _MARGIN


def hinge(law: Law, failure_probability: float) -> float:
    """Return ``s`` with ``P(S ≥ s) ≤ E(S−q)₊/(s−q) ≤ δ′``, where ``q`` is the quantile, the best choice."""
    tails = np.append(np.cumsum(law.weights[:0:-1])[::-1], 0.0)
    q = law.values[int(np.argmax(tails <= failure_probability))]
    excess = float(np.sum(law.weights * np.maximum(law.values - q, 0.0))) * _MARGIN / failure_probability
    return up(float(q) + excess)


def _tangent(epsilon: float, t: float, u: Floats) -> Floats:
    """Return the tangent at ``t`` of the Gaussian profile, from above at every ``u ≥ 0``."""
    # The slope is an upper bound, which would lower the line left of t: so the line is raised by 2e-11 of slope·t.
    return gaussian_delta(epsilon, np.array([t])) + gaussian_delta_slope(epsilon, t) * (u - t * (1 - 2e-11))


def _mean_of_convex_majorant(epsilon: float, u: Floats, weights: Floats) -> float:
    """Return the least ``E φ(U)`` over a family of convex increasing ``φ ≥ g``, where ``g`` is the Gaussian profile.

    The maximum of ``g`` and its tangent at any ``t`` at or beyond the inflection is such a ``φ``: the tangent is above
    ``g`` beyond some ``c``. As a function of ``t`` the bound falls while ``t < E[U | U > c]``, then rises.
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
    floor = _mean(weights, g) * (1 + 1e-13)  # no majorant of g has less
    best, bisect = 1.0, False
    while True:
        tangent = _tangent(epsilon, t, u)
        best = min(best, _mean(weights, np.maximum(tangent, g)))
        if best <= floor:
            return best
        centre = float(centres[np.argmax(tangent > g)])
        if t < centre:
            low = t
        else:
            high = t
        if abs(centre - t) <= 1e-12 * t or high <= low * (1 + 1e-12):
            return best
        # The centre is the best t if its tangent is above the same points; bisection makes sure that the loop ends.
        t = math.sqrt(low) * math.sqrt(high) if bisect or not low < centre <= high else centre
        bisect = not bisect


#: One point (ε, δ), one point (ρ, δ′), and the curves δ(ε) and α ↦ Rényi divergence.
APPROXIMATE: Final = "approximate max divergence"
CONCENTRATED: Final = "approximate zero-concentrated divergence"
PROFILE: Final = "smoothed max divergence"
RENYI: Final = "Rényi divergence"

#: The parameter of each measure.
_PARAMETERS: Final = {APPROXIMATE: "delta", CONCENTRATED: "failure_probability", PROFILE: None, RENYI: None}
#: A profile is described by its first point with at most this δ.
_SMALL_DELTA: Final = 1e-5
#: The orders and ε at which curves are tabulated.
_ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_EPSILONS: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class View:
    """A view of a loss, as a measurement states it.

    :param measure: the measure of privacy.
    :param failure_probability: δ′, of approximate zCDP alone; 0 is zCDP, of what is released without sampling.
    :param delta: δ, of (ε, δ) alone.
    :raises ValueError: for an unknown measure, a missing parameter, or a parameter of another measure.
    """

    measure: str
    failure_probability: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check.choice("measure", self.measure, _PARAMETERS)
        for name in ("failure_probability", "delta"):
            value = getattr(self, name)
            if (value is None) == (_PARAMETERS[self.measure] == name):
                raise Refusal("measure", self.measure, f"{'needs' if value is None else 'does not use'} {name}")
            if value is not None:
                above = None if name == "failure_probability" else 0.0
                object.__setattr__(self, name, check.real(name, value, above=above, minimum=0.0, below=1.0))

    @classmethod
    def of(cls, parameter: float, *, concentrated: bool) -> View:
        """Return the view as (ε, δ), or as (ρ, δ′), at a δ."""
        return cls(CONCENTRATED, failure_probability=parameter) if concentrated else cls(APPROXIMATE, delta=parameter)

    @property
    def is_pair(self) -> bool:
        """True if the loss is stated as a pair, (ε, δ) or (ρ, δ′), rather than as a curve."""
        return _PARAMETERS[self.measure] is not None

    @property
    def is_zero_concentrated(self) -> bool:
        """True if the loss is stated as ρ alone, without δ′."""
        return self.failure_probability == 0

    @lru_cache(maxsize=1024)  # noqa: B019
    def points(self, loss: PrivacyLoss) -> Points:
        """Return the loss as points: a single ``(ρ, δ′)`` or ``(ε, δ)``, or ``(α, ε)`` or ``(ε, δ)`` along a curve."""
        if self.failure_probability is not None:
            return (loss.zero_concentrated(self.failure_probability),)
        if self.delta is not None:
            return (loss.epsilon_delta(self.delta),)
        if self.measure == RENYI:
            return tuple((order, loss.renyi(order)) for order in _ORDERS)
        return tuple((epsilon, loss.delta(epsilon)) for epsilon in _EPSILONS)

    def words(self, points: Points) -> str:
        """Put points into words, rounded up."""
        first, second = points[0]
        if self.measure == PROFILE:
            first, second = next((point for point in points if point[1] <= _SMALL_DELTA), points[-1])
        if self.measure == RENYI:
            return f"Rényi divergence of order {first:g} at most {printed_up(second)}"
        return in_words(self.measure, first, second) + ("" if self.measure == CONCENTRATED else "-differential privacy")


def in_words(measure: str, first: float, second: float) -> str:
    """Put (ρ, δ′) or (ε, δ) into words, rounded up; a δ′ of 0 is not mentioned."""
    if measure == CONCENTRATED:
        return f"{printed_up(second, 4)}-approximate " * (second > 0) + f"{printed_up(first)}-zCDP"
    return f"(ε = {printed_up(first)}, δ = {printed_up(second, 4)})"
