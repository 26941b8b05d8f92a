"""The joint loss of several releases about the same people.

Given their kept steps, which are independent, releases are Gaussian mechanisms at the squared distances ``S_i`` in
noise of variances ``σ_i²``. Together they are one Gaussian mechanism, at ``U = Σ S_i/σ_i²`` in noise of variance 1:
their joint loss is a law of ``U``, and has the views of any loss. Proof: docs/proofs/several_releases.md.

This requires parameters that are fixed in advance. Where earlier releases may choose caps, sampling and noise, Rényi
divergences of one order add up, as long as the order and a bound on the sum are fixed: a privacy filter (Feldman &
Zrnic 2021, arXiv:2008.11193). It needs more noise: at (1, 10⁻⁶), 7 percent for a single release of all steps, 19 for
one of a fifth of them, if individuals are in ten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.conversions import order_cost, renyi_to_delta
from opendp_timeseries.accounting.laws import Lattice, Law, multiples, trim
from opendp_timeseries.accounting.loss import DISCRETE_NOISE, PrivacyLoss, SquaredDistance, over_variance
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up, up_array, up_fraction
from opendp_timeseries.accounting.subsampled import ExtremalLaw, KeptCount, law_of_reach

__all__ = ["FilteredLoss", "JointLaw", "filter_order", "joint_loss"]

# Sums with at most this many values are enumerated; others are formed on a lattice of this many points.
_MAX_ATOMS: Final = 2**14
_POINTS: Final = 2**15
# Tails of sums are cut below this mass.
_CUT: Final = 1e-60
# A convolution of 2**16 products per entry errs by less.
_MARGIN: Final = 1 + 1e-11
_TINY_MARGIN: Final = 1 + 1e-15
# Rates of exponential moments, a tenth apart, in units of one over the largest value: the same at every scale.
_RATES: Final = np.geomspace(1e-2, 1e6, 185)
_HOLDS_FROM: Final = 0.5


def joint_loss(
    losses: Iterable[PrivacyLoss], *, adaptivity: str = Adaptivity.QUERIES, factor: float = 1.0
) -> PrivacyLoss:
    """Return the joint loss of several releases about the same people.

    Each release draws its own steps and noise. The loss is exact for counts without filter that keep every step, or
    that drop steps beyond the cap and sample each step by itself: somebody at the cap in all releases attains it.

    :param losses: of the single releases, each at its own scale; they may be joint losses themselves.
    :param adaptivity: ``"adaptive"`` if *what* is released, within the influence of each loss, may depend on the output
        of earlier releases; sampling, scales and influences may not. ``"non-adaptive"`` if all is fixed before the
        first release, and data do not react. Where steps are sampled, this makes the joint loss of downweighted counts,
        filtered counts and stratified samples smaller.
    :param factor: multiplies all scales, as :func:`~.calibrate.calibrate` searches for it.
    :return: a loss at scale 1, whose law is in units of the noise.
    :raises ValueError: if there are no losses, or for another adaptivity, for which this is no bound.

    >>> from opendp_timeseries.accounting.influence import count_influence
    >>> from opendp_timeseries.accounting.subsampled import extremal_law
    >>> person = count_influence(1, participation_cap=30, step_cap=1, size=744, replaced=False)
    >>> month = extremal_law(person, 0.2, 744).at(36.7)
    >>> round(month.epsilon(1e-6), 4), round(joint_loss([month] * 12).epsilon(1e-6), 4)
    (0.3012, 0.998)
    """
    adaptive = Adaptivity.of(adaptivity, Adaptivity.NONE, Adaptivity.QUERIES) is not Adaptivity.NONE
    members = list(losses)
    if not members:
        raise Refusal("losses", ..., "must not be empty: there is no release to account for")
    parts = tuple(part for loss in members for part in _parts(loss, adaptive, factor) if part.loss.law.largest > 0)
    if len(parts) <= 1:
        return parts[0].loss if parts else members[0]
    without_noise = (loss for loss, _ in parts if loss.scale == 0)
    return next(without_noise, None) or PrivacyLoss(_joint_law(parts), 1.0)


class _Part(NamedTuple):
    """A single release, and whether the choice of its signal may depend on the other releases."""

    loss: PrivacyLoss
    adaptive: bool


def _parts(loss: PrivacyLoss, adaptive: bool, factor: float) -> tuple[_Part, ...]:
    """Return the single releases of a loss, which may be a joint loss, with their scales multiplied."""
    scale = loss.scale * factor
    if not isinstance(loss.law, JointLaw):
        return (_Part(PrivacyLoss(loss.law, scale), adaptive),)
    return tuple(_Part(PrivacyLoss(part.law, part.scale * scale), adaptive or inner) for part, inner in loss.law.parts)


@dataclass(frozen=True, eq=False, repr=False)
class JointLaw:
    """The law of ``U = Σ S_i/σ_i²``, from above, as :func:`joint_loss` makes it.

    :param parts: at least two releases, each with noise and some loss.
    """

    parts: tuple[_Part, ...]
    holds_from: ClassVar[float] = _HOLDS_FROM  # their own scale is 1

    @cached_property
    def largest(self) -> float:
        """The largest value that ``U`` can take."""
        squares, scales = np.array([(loss.law.largest, loss.scale) for loss, _ in self.parts]).T
        return _fsum(over_variance(squares, scales).tolist()) * _TINY_MARGIN

    @cached_property
    def increasing(self) -> Law:
        """A law that bounds ``E g(ε; U)`` for every ``ε``, whether queries are adaptive or not."""
        return self._sum(_split_for_profiles)

    @cached_property
    def convex(self) -> tuple[Law, ...]:
        """Laws that bound ``E φ(U)`` for every convex increasing ``φ``; none unless some query is fixed in advance."""
        if self.largest == math.inf:
            return ()
        return tuple(self._sum(_split_for_convex, k) for k in range(max(len(_convex(part)) for part in self.parts)))

    def refined(self, bound: float, function: object) -> float:
        """Return ``bound``, as no better one is known."""
        return bound

    @cached_property
    def log_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Rates and logarithmic moments, if adaptive queries have laws for convex functions, which do not hold jointly.

        Moments do.
        """
        if self.largest == math.inf or not any(part.adaptive and _convex_alone(part.loss.law) for part in self.parts):
            return None
        rates = _RATES / self.largest
        return rates, self.log_moment(rates, 1.0) * (1 + 1e-12)

    def log_moment(self, rates: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """Return ``log E exp(rate·U/scale²)``: the sum over the releases, adaptive queries included."""
        copies = Counter(loss for loss, _ in self.parts)
        logs = [(n * loss.law.log_moment(rates, loss.scale * scale)).tolist() for loss, n in copies.items()]
        return np.array([_fsum(row) for row in zip(*logs, strict=True)])

    def quantile(self, failure_probability: float) -> tuple[float, float]:
        """Return ``u``, and the probability, at most ``failure_probability``, that ``U > u``."""
        values, weights = self._upper_law
        tails = np.append(np.cumsum(weights[:0:-1])[::-1] * _MARGIN, 0.0)
        first = int(np.argmax(tails <= failure_probability))
        return float(values[first]), float(tails[first])

    @cached_property
    def _upper_law(self) -> Law:
        """A law that bounds ``P(U > u)`` for every ``u``."""
        return self._sum(_split_up)

    def _sum(self, split: _Split, choice: int | None = None) -> Law:
        """Return the law of the sum of the releases' laws for increasing functions, or of those for convex functions.

        :param choice: index of the laws for convex functions; None for those for increasing functions.
        """
        if self.largest == math.inf:
            masses = (loss.law.increasing.weights[loss.law.increasing.values > 0].sum() for loss, _ in self.parts)
            return Law(np.array([0.0, math.inf]), np.array([1.0, min(1.0, math.fsum(masses) * _MARGIN)]))
        counts: Counter[tuple[Fraction, float]] = Counter()
        terms: _Terms = []
        for part, n in Counter(self.parts).items():
            convex = () if choice is None else _convex(part)
            if convex:  # a release with fewer laws than others contributes its last
                terms.append((_scale_law(convex[min(choice or 0, len(convex) - 1)], part.loss.scale), n))
            elif (equal := _as_binomial(part.loss.law)) is not None:
                unit, steps, p = equal
                counts[unit / Fraction(part.loss.scale) ** 2, p] += n * steps
            else:
                terms.append((_increasing(part.loss), n))
        terms += [(_trim_law(_law_of_count(unit, steps, p)), 1) for (unit, p), steps in counts.items()]
        return _law_of_sum(terms, split)


def _fsum(values: Iterable[float]) -> float:
    """Return the sum of non-negative numbers, rounded once; infinity where it overflows."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _convex(part: _Part) -> tuple[Law, ...]:
    """Return the laws for convex functions that hold jointly with other releases."""
    return () if part.adaptive else _convex_alone(part.loss.law)


def _convex_alone(law: SquaredDistance) -> tuple[Law, ...]:
    """Return the laws for convex functions; none where the law for increasing ones is a constant, which is the best."""
    return () if np.count_nonzero(law.increasing.weights) == 1 else law.convex


def _as_binomial(law: SquaredDistance) -> tuple[Fraction, int, float] | None:
    """Return ``(unit, steps, probability)`` if a law is that of ``unit·Bin(steps, probability)``; None otherwise."""
    if not isinstance(law, ExtremalLaw) or law.convex or len(law.reach) != law.kept_count.trials + 1:
        return None
    equal = Fraction(float(law.reach[1])), law.kept_count.trials, law.kept_count.probability
    return equal if all(map(np.array_equal, _law_of_count(*equal), law.increasing)) else None


def _law_of_count(unit: Fraction, steps: int, p: float) -> Law:
    return law_of_reach(multiples(unit, np.arange(steps + 1)), KeptCount(steps, p))


def _scale_law(law: Law, scale: float) -> Law:
    return _trim_law(Law(over_variance(law.values, scale), law.weights))


# A search, its plan and the ledger need the same law.
_joint_law: Final = lru_cache(maxsize=16)(JointLaw)


# A search for the scale of a further release needs those of all earlier ones at each step.
@lru_cache(maxsize=2**11)
def _increasing(loss: PrivacyLoss) -> Law:
    return _scale_law(loss.law.increasing, loss.scale)


#: Independent variables, each with its number of copies.
_Terms = list[tuple[Law, int]]


def _trim_law(law: Law) -> Law:
    """Drop values without weight, and move a negligible lower tail up to the first remaining value."""
    values, weights = law.values[law.weights > 0], law.weights[law.weights > 0]
    low = int(np.searchsorted(np.cumsum(weights), _CUT, side="right"))
    upper = weights[low:].copy()
    upper[0] += np.sum(weights[:low])
    return Law(values[low:], upper)


def _law_of_sum(terms: _Terms, split: _Split) -> Law:
    """Return the law of a sum of independent variables, from above for the class of functions of ``split``."""
    if math.prod(len(law.values) ** copies for law, copies in terms) <= _MAX_ATOMS:
        law_of_sum = Law(np.zeros(1), np.ones(1))
        for law in (law for law, copies in terms for _ in range(copies)):
            law_of_sum = _enumerate_sums(law_of_sum, law)
        return law_of_sum
    lowest = up_fraction(sum(Fraction(float(law.values[0])) * copies for law, copies in terms))
    largest = math.fsum(float(law.values[-1]) * copies for law, copies in terms) * _TINY_MARGIN
    step = _reach_above_lowest(terms) / _POINTS * _TINY_MARGIN
    sums = [_power(_to_lattice(law, lowest, step, split), copies) for law, copies in terms]
    while len(sums) > 1:
        odd = sums[len(sums) & ~1 :]
        sums = [_convolve(x, y) for x, y in zip(sums[::2], sums[1::2], strict=False)] + odd
    _, first, mass, cut = sums[0]
    values = (lowest + np.arange(first, first + len(mass), dtype=np.float64) * step) * _TINY_MARGIN
    if cut > 0:
        values, mass = np.append(values, max(largest, values[-1])), np.append(mass, cut)
    return Law(values[mass > 0], mass[mass > 0])


def _enumerate_sums(x: Law, y: Law) -> Law:
    if len(x.values) == len(y.values) == 1:  # as below, without sorting
        sums = x.values + y.values
        return Law(up_array(sums) if sums[0] > 0 else np.zeros(1), x.weights * y.weights * _TINY_MARGIN)
    values: NDArray[np.float64] = np.add.outer(x.values, y.values).ravel()
    weights: NDArray[np.float64] = np.multiply.outer(x.weights, y.weights).ravel()
    order = np.argsort(values, kind="stable")
    return Law(np.where(values > 0, up_array(values), 0.0)[order], weights[order] * _TINY_MARGIN)


def _reach_above_lowest(terms: _Terms) -> float:
    """Return a bound on the sum above its least value that holds but for a mass of 1e-60, by Chernoff."""
    farthest = math.fsum(float(law.values[-1] - law.values[0]) * copies for law, copies in terms)
    rates = np.geomspace(1.0, 1e6, 61) / farthest
    logs = np.full(len(rates), -math.log(_CUT))
    for law, copies in terms:
        exponentials = np.exp(np.multiply.outer(rates, law.values - law.values[-1]))
        mean = np.array([law.weights @ row for row in exponentials])
        logs += copies * (np.log(mean) + rates * (law.values[-1] - law.values[0]))
    return float(min(farthest, np.min(logs / rates)))


def _to_lattice(law: Law, lowest: float, step: float, split: _Split) -> Lattice:
    """Move the mass of a variable to ``step·0, step·1, …`` above its least value."""
    distances: NDArray[np.float64] = law.values - law.values[0]
    points = np.where(distances > 0, (distances + 2.0**-52 * law.values) / step * _TINY_MARGIN, 0.0)
    inside = points <= _POINTS
    lower = np.floor(points[inside])
    share = split(lowest + lower * step, points[inside] - lower, step)
    weights, cells = law.weights[inside], lower.astype(np.int64)
    mass = np.zeros(int(cells[-1]) + 2)
    np.add.at(mass, cells, weights * (1 - share))
    np.add.at(mass, cells + 1, weights * share)
    return trim(Lattice(1, 0, mass * _TINY_MARGIN, float(np.sum(law.weights[~inside])) * _MARGIN))


def _power(x: Lattice, copies: int) -> Lattice:
    if copies == 1:
        return x
    square = _power(_convolve(x, x), copies // 2)
    return _convolve(square, x) if copies % 2 else square


def _convolve(x: Lattice, y: Lattice) -> Lattice:
    """Return the sum of two independent variables; mass cut from either is cut from the sum."""
    sparse, dense = sorted((x.mass, y.mass), key=np.count_nonzero)
    places = np.flatnonzero(sparse)
    if len(places) * 8 < len(sparse):
        mass = np.zeros(len(x.mass) + len(y.mass) - 1)
        for place in places:
            mass[place : place + len(dense)] += sparse[place] * dense
    else:
        mass = np.convolve(x.mass, y.mass)
    return trim(Lattice(1, x.first + y.first, mass * _MARGIN, (x.cut + y.cut) * _MARGIN))


# The share of a mass between two points of a lattice that goes to the upper point, given the lower point, the position
# between them as a share of the step, and the step.
_Split = Callable[[NDArray[np.float64], NDArray[np.float64], float], NDArray[np.float64]]


def _split_for_convex(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Split so that the mean does not change: for convex increasing functions."""
    return np.minimum(place * _TINY_MARGIN, 1.0)


def _split_for_profiles(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Split so that the profile at ε = 0 never falls: for all profiles ``g(ε; ·)`` at scales of at least 1/2.

    They are convex increasing functions of ``g(0; ·)``, which bends down most at the lower end of a cell.
    """
    with np.errstate(divide="ignore"):
        bend = (1 / (8 * (_HOLDS_FROM * DISCRETE_NOISE) ** 2) + 1 / (2 * below)) * step * _MARGIN
    with np.errstate(invalid="ignore"):
        share = np.expm1(-bend * place) / np.expm1(-bend) * _MARGIN
    return np.where(place > 0, np.fmin(share, 1.0), 0.0)


def _split_up(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Move everything up: for all increasing functions."""
    return np.ceil(place)


_renyi: Final = lru_cache(maxsize=2**14)(PrivacyLoss.renyi)


def filter_order(epsilon: float, delta: float) -> float:
    """Return the order of Rényi divergences that leaves the largest divergence for Gaussian noise within (ε, δ).

    >>> round(filter_order(1.0, 1e-6), 1)
    22.0
    """

    # For Gaussian noise, the divergence of order α is α times a number.
    def room(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return (epsilon - _overhead(order, delta)) / order

    best = scipy.optimize.minimize_scalar(
        lambda x: -room(x), bounds=(-7.0, 40.0), method="bounded", options={"xatol": 1e-9}
    )
    return 1 + math.exp(float(best.x))


def _overhead(order: float, delta: float) -> float:
    """Return, approximately, the excess of ε over the divergence."""
    return (order_cost(order) - math.log(delta)) / (order - 1)


class FilteredLoss(NamedTuple):
    """The loss of several releases, however they were chosen: the sum of their Rényi divergences of one order.

    :param order: of the divergences, above 1, fixed before the first release.
    """

    order: float
    divergence: float

    @classmethod
    def of(cls, losses: Iterable[PrivacyLoss], order: float) -> FilteredLoss:
        """Return the loss of several releases."""
        # Rounded once, so that the sum does not depend on the order of the losses.
        sum_of_divergences = _fsum(up(count * _renyi(loss, order)) for loss, count in Counter(losses).items())
        return cls(order, up(sum_of_divergences) if sum_of_divergences > 0 else 0.0)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ at ε."""
        return renyi_to_delta(self.order, self.divergence, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on ε at δ; infinity where δ is below what double precision resolves."""
        if self.divergence == 0 or self.divergence == math.inf:
            return self.divergence
        if not delta >= LOWEST_BOUND:
            return math.inf
        epsilon, step = max(0.0, self.divergence + _overhead(self.order, delta)), 1e-13
        while self.delta(epsilon) > delta:
            epsilon, step = epsilon + step * max(1.0, self.divergence), 2 * step
        return epsilon
