"""The subsampled Gaussian: its loss in the worst case, in four measures, from one random variable.

Each step is kept with probability ``p``, independently; the set ``J`` of kept steps is released, with
Gaussian noise of variance ``σ²`` on the kept values. ``J`` does not depend on the data, so for two signals
with difference ``v`` everything follows from the law of ``S = Σ_{t∈J} v_t²``: given ``J``, the release is a
Gaussian mechanism at squared distance ``S``. With ``g`` the profile of :mod:`.gaussian`,

* the privacy profile is ``E g(S/σ²)``,
* the Rényi divergence of order ``α`` is ``log E exp(α(α−1)S/(2σ²)) / (α−1)``,

and where ``S ≤ s`` but for an event of probability ``δ′``, the release is ``δ′``-approximately
``s/(2σ²)``-zCDP (Bun & Steinke 2016, arXiv:1605.02065, Def. 8.1).

What is known of ``v`` is an :class:`~.influence.Influence`: ``ℓ0, ℓ2, ℓ∞`` and perhaps a majorant. With
``m = ℓ∞²`` and ``W = min(ℓ2², ℓ0·m)``, three facts bound the law of ``S`` (docs/proofs/extremal_law.md):

* *vertex*: ``E φ(S) ≤ E φ(m·Bin(n, p) + r·Bernoulli(p))`` for convex increasing ``φ``, with ``W = n·m + r``
  and ``r < m``: the left side is convex in the squares, so it is largest at a vertex of what is allowed;
* *majorant*: ``E φ(S) ≤ E φ(Σ_t δ_t a_t²)`` for the same ``φ``, when ``a`` majorises ``v``;
* *reach*: ``S`` is at most the sum of the ``|J ∩ supp v|`` largest squares, which is at most
  ``min(W, m·K, a_0² + … + a_{K−1}²)`` with ``K ~ Bin(ℓ0, p)``, so this holds for all increasing ``φ``. With
  ``W = ℓ0·m`` and no majorant it is attained.

A sum of ``k`` such vectors is within ``k·ℓ2`` and ``k·ℓ∞``, is majorised by ``k·a``, and has at most
``min(k·ℓ0, T)`` non-zero entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, toms748

from opendp_timeseries.accounting.gaussian import (
    MOST_EPSILON_OF_SLOPE,
    gaussian_delta,
    gaussian_delta_slope,
    inflection,
)
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.accounting.laws import Law, binomial, binomial_tail, kept_sum, multiples, vertex_sum
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up_fraction

__all__ = ["ExtremalLaw", "delta_from_renyi", "epsilon_from_renyi", "extremal_law", "renyi_to_delta"]

# Sums and products of a few thousand rounded terms err by far less.
_MARGIN: Final = 1 + 1e-11
_TINY_MARGIN: Final = 1 + 1e-15
# OpenDP's conversion of zCDP overflows beyond.
_MOST_RHO: Final = 1e290
# Changes beyond this are unbounded for all we say: their squares, and sums of these, would overflow.
_LARGEST: Final = 1e140


class _Squares(NamedTuple):
    """Squares of one worst difference, and how often each occurs: for the Rényi map, where both are exact."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]


class _Individual(NamedTuple):
    """What one individual can do, in the worst case, from above."""

    reach: NDArray[np.float64]  # reach[K]: the most that S can be with K steps kept, up to where it stops to grow
    tight: bool  # the reach is attained, so that no other law can be better
    laws: tuple[Law, ...]  # for convex increasing functions
    squares: tuple[_Squares, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtremalLaw:
    """Worst-case law of the squared distance that subsampling leaves, for one influence and ``p``.

    It does not depend on the noise, nor on the order or ``ε`` that is asked for: made once by
    :func:`extremal_law`, it answers every map in milliseconds. All answers are upper bounds, rounding
    included. A loss of zero is 0 in every measure; at ``scale=0`` any other is infinite. A scale that is
    negative or not finite is refused with ``ValueError``.

    >>> from opendp_timeseries.accounting.influence import count_influence
    >>> person = count_influence(1, participation_cap=10, step_cap=1, size=100, replaced=False)
    >>> law = extremal_law(person, 0.1, 100)
    >>> round(law.delta(1.0, scale=2.0), 6)
    0.016762
    >>> round(law.renyi(2.0, scale=2.0), 6)
    0.280067
    >>> law.approximate_zcdp(1e-6, scale=2.0)
    (0.875, 3.73...e-07)
    """

    _steps: int
    _probability: float
    _factor: float  # k², by which the squares of one individual grow
    _one: _Individual
    _reach: Law
    _laws: tuple[Law, ...]

    @property
    def _most(self) -> float:
        return float(self._one.reach[-1]) * self._factor

    def at(self, scale: float) -> PrivacyLoss:
        """Return the loss at a noise scale."""
        return PrivacyLoss(self, scale)

    def least_scale(self, epsilon: float, delta: float) -> float:
        """Return the least noise scale at which the profile at ``epsilon`` is at most ``delta``, from above."""
        if self._most == 0:
            return 0.0

        def excess(log_scale: float) -> float:
            return math.log(self.at(math.exp(log_scale)).delta(epsilon) / delta)

        low, high = -40.0, 40.0
        if excess(high) > 0:
            return math.inf
        return math.exp(toms748(excess, low, high, xtol=1e-14, rtol=1e-14)) * (1 + 1e-12)

    def delta(self, epsilon: float, scale: float) -> float:
        """Upper bound on the privacy profile δ(ε).

        Exact, up to rounding, for one individual and a count without filter (where ``W = ℓ0·m``).

        :param epsilon: privacy parameter; below 0 by ``δ(ε) = 1 − e^ε(1 − δ(−ε))``, as the pair is symmetric.
        :param scale: standard deviation of the noise.
        """
        if math.isnan(epsilon):
            raise ValueError("epsilon (nan) must be a number")
        if epsilon < 0:
            return min(1.0, (math.exp(epsilon) * self.delta(-epsilon, scale) - math.expm1(epsilon)) * _MARGIN)
        if self._most == 0:
            return 0.0
        if _is_noiseless(scale):
            return 1.0
        epsilon = min(epsilon, 1e300)  # the profile falls, so this is an upper bound at infinity too
        u = _over_variance(self._reach.values, self._factor, scale)
        bound = _mean(self._reach.weights, gaussian_delta(epsilon, u))
        for law in self._laws:
            u = _over_variance(law.values, self._factor, scale)
            bound = min(bound, _mean_of_convex_majorant(epsilon, u, law.weights))
        return min(1.0, max(bound, LOWEST_BOUND))

    def epsilon(self, delta: float, scale: float) -> float:
        """Least ``ε`` (to 12 digits, rounded up) at which :meth:`delta` is at most ``delta``, as verified.

        It is 0 where that holds at 0, and infinite where ``delta`` is below what double precision resolves.

        :param delta: in [0, 1].
        :param scale: standard deviation of the noise.
        """
        if self.delta(0.0, scale) <= delta:
            return 0.0
        if not delta >= LOWEST_BOUND or _is_noiseless(scale):
            return math.inf
        # At squared distance W the profile is at most Φ(−√(2 log 1/δ)) ≤ δ here.
        u = float(_over_variance(self._one.reach[-1:], self._factor, scale)[0])
        most = (u / 2 + math.sqrt(2 * u) * math.sqrt(math.log(1 / delta))) * _MARGIN
        if most == math.inf or not self.delta(most, scale) <= delta:
            return math.inf

        def excess(x: float) -> float:
            return math.log(self.delta(math.expm1(x), scale) / delta)

        # On the scale of log(1 + ε), as the bracket may span hundreds of orders of magnitude.
        found = math.expm1(toms748(excess, 0.0, math.log1p(most), xtol=LOWEST_BOUND, rtol=1e-13, disp=False))
        step = 1e-13
        while (found := max(found, LOWEST_BOUND) * (1 + step)) < most:
            if self.delta(found, scale) <= delta:
                return found
            step *= 2
        return most

    def renyi(self, alpha: float, scale: float) -> float:
        """Upper bound on the Rényi divergence of order ``alpha``.

        Exact, up to rounding, where the majorant is attained, as of a count with or without a decreasing
        filter.

        :param alpha: order, above 1.
        :param scale: standard deviation of the noise.
        :raises ValueError: for an order of 1 or below.
        """
        if not alpha > 1:
            raise ValueError(f"alpha ({alpha}) must be greater than 1")
        if self._most == 0:
            return 0.0
        if _is_noiseless(scale):
            return math.inf
        rate = self._factor * alpha / 2 * (alpha - 1)
        exponents = [_log_means(self._probability, squares, rate, scale) for squares in self._one.squares]
        bound = min(exponents) / (alpha - 1) * (1 + 1e-12)
        return max(bound, LOWEST_BOUND) if bound < math.inf else math.inf

    def approximate_zcdp(self, failure_probability: float, scale: float) -> tuple[float, float]:
        """Approximate zCDP: ``ρ``, and the ``δ′`` that is attained, at most the one that is asked for.

        The better of two rules: the number of kept steps is at most its quantile (Koga, Meehan & Chaudhuri
        2022, Theorem 2; the tail that it attains is reported), or ``S`` is below the point where the hinge
        bound ``P(S ≥ s) ≤ E(S−c)₊/(s−c)`` meets ``δ′``.

        :param failure_probability: δ′ in [0, 1]: the most that the exceptional event may weigh.
        :param scale: standard deviation of the noise.
        """
        if self._most == 0:
            return 0.0, 0.0
        squared, attained = self._quantile_of_reach(failure_probability)
        for law in self._laws if failure_probability > 0 else ():
            hinge = _hinge(law, failure_probability)
            if hinge < squared:
                squared, attained = hinge, failure_probability
        if _is_noiseless(scale) or self._most == math.inf:
            return math.inf, attained
        rho = up_fraction(Fraction(squared) * Fraction(self._factor) / (2 * Fraction(scale) ** 2))
        if rho > _MOST_RHO:
            return math.inf, attained
        return (max(rho, LOWEST_BOUND) if rho > 0 else 0.0), attained

    def _quantile_of_reach(self, failure_probability: float) -> tuple[float, float]:
        """Return the reach, of one individual, at the least ``k`` with ``P(K > k) ≤ δ′``, and that tail."""
        # By bisection on the tail: SciPy's inverse tail errs far out (scipy/scipy#22622).
        low, high = 0, self._steps
        while low < high:
            k = (low + high) // 2
            if binomial_tail(k, self._steps, self._probability) <= failure_probability:
                high = k
            else:
                low = k + 1
        squared = float(self._one.reach[min(high, len(self._one.reach) - 1)])
        # Where the reach has met its most, nothing is beyond it.
        beyond = squared < self._one.reach[-1]
        return squared, binomial_tail(high, self._steps, self._probability) if beyond else 0.0


def _is_noiseless(scale: float) -> bool:
    if not 0 <= scale < math.inf:
        raise ValueError(f"scale ({scale}) must be finite and not negative")
    return scale == 0


def _over_variance(squares: NDArray[np.float64], factor: float, scale: float) -> NDArray[np.float64]:
    """``factor·squares/σ²``, rounded up; positive where the squares are."""
    with np.errstate(all="ignore"):
        u = squares * factor / scale / scale * _TINY_MARGIN
    return np.where(squares > 0, np.maximum(u, LOWEST_BOUND), 0.0)


def _mean(weights: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    return float(np.sum(weights * values)) * _MARGIN


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
    if high == math.inf or epsilon > MOST_EPSILON_OF_SLOPE:
        return 1.0
    low = t = min(max(low, float(np.sum(weights * u)), LOWEST_BOUND), high)
    while True:
        slope = gaussian_delta_slope(epsilon, t)
        # Raised by 2e-11 of slope·t, so that the line is above the true tangent left of t as well.
        tangent = gaussian_delta(epsilon, np.array([t])) + slope * (u - t * (1 - 2e-11))
        above = tangent > g
        if high <= low * (1 + 1e-5):
            return _mean(weights, np.where(above, tangent, g))
        if np.sum(weights * (t - u), where=above) < 0:
            low = t
        else:
            high = t
        t = math.sqrt(low) * math.sqrt(high)


def _log_means(p: float, squares: _Squares, rate: float, scale: float) -> float:
    """``Σ_t log E exp(rate·δ_t·s_t/σ²)`` over the squares ``s_t``, to within 1e-13."""
    with np.errstate(all="ignore"):
        x = squares.values / scale * (rate / scale)
        little = np.log1p(np.maximum(p * np.expm1(x), LOWEST_BOUND))
        much = np.logaddexp(np.log1p(-p), np.log(p) + x)
        return float(np.sum(squares.counts * np.where(x < 30, little, much)))


def _hinge(law: Law, failure_probability: float) -> float:
    """``s`` with ``P(S ≥ s) ≤ E(S−q)₊/(s−q) ≤ δ′``, at the quantile ``q``, which is the best choice."""
    beyond = np.append(np.cumsum(law.weights[:0:-1])[::-1], 0.0)
    q = law.values[int(np.argmax(beyond <= failure_probability))]
    return float(q + _mean(law.weights, np.maximum(law.values - q, 0.0)) / failure_probability)


@lru_cache(maxsize=256)
def extremal_law(influence: Influence, probability: float, size: int) -> ExtremalLaw:
    """Return the worst-case law of the squared distance; cached, as searches ask for it again and again.

    :param influence: what is known of the individuals that differ.
    :param probability: ``p`` in [0, 1], with which each step is kept.
    :param size: ``T``, steps of the signal.
    """
    one = _individual(replace(influence, individuals=min(influence.individuals, 1)), probability, size)
    k = influence.individuals
    steps = min(k * influence.l0, size)
    kept = binomial(steps, probability)
    # From K = len(reach) − 1 on, the reach is at its most: one atom.
    inside = max(0, min(len(one.reach) - 1 - kept.first, len(kept.weights)))
    most = float(np.sum(kept.weights[inside:])) + kept.beyond
    reach = Law(
        np.append(one.reach[kept.first : kept.first + inside], one.reach[-1]),
        np.append(kept.weights[:inside], most),
    )
    return ExtremalLaw(
        _steps=steps,
        _probability=probability,
        _factor=up_fraction(k * k),
        _one=one,
        _reach=reach,
        _laws=() if one.tight and k == 1 else one.laws,
    )


@lru_cache(maxsize=64)
def _individual(influence: Influence, p: float, size: int) -> _Individual:
    steps = min(influence.l0, size) if influence.individuals else 0
    linf = min(influence.linf, influence.l2)
    if steps == 0 or linf == 0 or p == 0 or (influence.majorant and len(influence.majorant.values) == 0):
        return _Individual(np.zeros(1), True, (), ())
    if linf > _LARGEST:
        unbounded = np.array([0.0, math.inf])
        return _Individual(unbounded, True, (), (_Squares(unbounded[1:], np.ones(1, int)),))

    # Exact rationals: n and r of W = n·m + r must not suffer from rounding.
    m = Fraction(linf) ** 2
    most = steps * m if influence.l2 == math.inf else min(Fraction(influence.l2) ** 2, steps * m)
    n, rest = divmod(most, m)
    largest = up_fraction(m)
    reach = np.minimum(multiples(m, np.arange(steps + 1)), up_fraction(most))
    counts = np.array([n, int(rest > 0)])
    vertex = _Squares(np.array([largest, up_fraction(rest)])[counts > 0], counts[counts > 0])
    if influence.majorant is None or not _is_of_use(influence.majorant, steps, linf):
        return _Individual(_growing(reach), most == steps * m, (vertex_sum(n, m, rest, p),), (vertex,))

    majorant = np.maximum(influence.majorant.values**2 * _TINY_MARGIN, LOWEST_BOUND)
    sums = np.concatenate([[0.0], np.cumsum(majorant) * (1 + 2.0**-52 * len(majorant))])
    reach = np.minimum(reach, sums[np.minimum(np.arange(steps + 1), len(majorant))])
    laws: tuple[Law, ...] = (kept_sum(majorant, p),)
    if majorant[0] > largest * _MARGIN or sums[-1] > up_fraction(most) * _MARGIN:
        laws += (vertex_sum(n, m, rest, p),)
    starts = np.flatnonzero(np.diff(majorant, prepend=math.inf))
    equal = _Squares(majorant[starts], np.diff(starts, append=len(majorant)))
    return _Individual(_growing(reach), False, laws, (equal, vertex))


def _growing(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    return reach[: int(np.searchsorted(reach, reach[-1])) + 1]


def _is_of_use(majorant: Majorant, steps: int, linf: float) -> bool:
    # Not one that overflows when squared, nor one that says no more than ℓ0 and ℓ∞ do.
    a = majorant.values
    return bool(a[0] <= _LARGEST and (len(a) < steps or a[steps - 1] < linf))


def renyi_to_delta(alpha: float, renyi_epsilon: float, epsilon: float) -> float:
    """``δ`` at ``epsilon`` of a mechanism whose divergence of order ``alpha`` is at most ``renyi_epsilon``.

    Canonne, Kamath & Steinke (2020), arXiv:2004.00010v4, Proposition 12; rounded up, at most 1.

    :param alpha: order, above 1.
    :param renyi_epsilon: Rényi divergence of that order, at most.
    :param epsilon: privacy parameter, not negative.
    """
    if renyi_epsilon == 0:
        return 0.0
    exponent = (alpha - 1) * (renyi_epsilon - epsilon) + _order_cost(alpha)
    return max(math.exp(exponent) * _MARGIN, LOWEST_BOUND) if exponent < 0 else 1.0


def delta_from_renyi(curve: Callable[[float], float], epsilon: float) -> float:
    """``δ`` at ``epsilon`` from a curve of Rényi divergences, at the best order that is found.

    Every order gives a valid bound, so the search cannot be unsound.

    :param curve: order (above 1) to Rényi divergence, such as ``lambda alpha: law.renyi(alpha, scale)``.
    :param epsilon: privacy parameter, not negative.
    """
    return _best_over_orders(lambda alpha: renyi_to_delta(alpha, curve(alpha), epsilon))


def epsilon_from_renyi(curve: Callable[[float], float], delta: float) -> float:
    """``ε`` at ``delta`` from a curve of Rényi divergences, at the best order that is found; not negative.

    :param curve: order (above 1) to Rényi divergence.
    :param delta: in (0, 1).
    """

    def at(alpha: float) -> float:
        # The proposition solved for ε, rounded up.
        cost = (_order_cost(alpha) - math.log(delta)) / (alpha - 1)
        bound = (curve(alpha) + cost) * _MARGIN + 1e-13 * abs(cost)
        return math.inf if math.isnan(bound) else max(0.0, bound)

    return _best_over_orders(at)


def _order_cost(alpha: float) -> float:
    """``log((1−1/α)^α/(α−1)) = (α−1)·log(α−1) − α·log α``, written so that no digits cancel near 1."""
    return (alpha - 1) * math.log((alpha - 1) / alpha) - math.log(alpha)


def _best_over_orders(bound: Callable[[float], float]) -> float:
    """Least of ``bound(α)`` over the orders tried: a coarse grid of α − 1, then a search around its best."""
    grid = np.linspace(math.log(1e-3), math.log(1e6), 64)
    coarse = [bound(1 + math.exp(x)) for x in grid]
    best = int(np.argmin(coarse))
    around = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    fine = minimize_scalar(lambda x: bound(1 + math.exp(x)), bounds=around, method="bounded", options={"xatol": 1e-8})
    return min(coarse[best], float(fine.fun))
