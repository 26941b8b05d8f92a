"""The joint loss of several releases about the same people.

Given their kept steps, which are independent, releases are Gaussian mechanisms at the squared distances ``S_i`` in
noise of variances ``σ_i²``. So all of them together are one, at ``U = Σ S_i/σ_i²`` in noise of variance 1: their joint
loss is a law of ``U``, and has the views of any loss. Proof: docs/proofs/several_releases.md.

That is for parameters that are fixed in advance. Where earlier releases may choose caps, sampling and noise, Rényi
divergences of one order add up, as long as the order and a bound on the sum are fixed: a privacy filter (Feldman &
Zrnic 2021, arXiv:2008.11193). It costs some 7 to 15 percent more noise.
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

from opendp_timeseries.accounting.conversions import order_cost, renyi_to_delta
from opendp_timeseries.accounting.laws import Lattice, Law, multiples, trim
from opendp_timeseries.accounting.loss import DISCRETE_NOISE, PrivacyLoss, SquaredDistance, over_variance
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up, up_array, up_fraction
from opendp_timeseries.accounting.subsampled import ExtremalLaw, Kept, law_of_reach

__all__ = ["FilteredLoss", "JointLaw", "filter_order", "joint_loss"]

# Sums of at most this many values are formed one by one; others on a lattice of this many points.
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


def joint_loss(losses: Iterable[PrivacyLoss], *, adaptive: bool = True, factor: float = 1.0) -> PrivacyLoss:
    """Return the loss of several releases about the same people, all of them together.

    Each draws its own steps and noise. It is exact for counts without filter of which every step is kept, or that drop
    what exceeds their cap and of which each step is sampled by itself: attained by somebody who is at the cap in all.

    :param losses: of the single releases, each at its own scale; they may be joint losses themselves.
    :param adaptive: True if *what* is released, within the influence of each loss, may depend on what earlier releases
        showed; sampling, scales and influences may not. False if all is fixed before the first release, which makes the
        joint loss smaller where steps are sampled: of counts that scale, behind filters and of stratified samples.
    :param factor: by which all scales are multiplied, as :func:`~.calibrate.calibrate` searches for it.
    :return: a loss at scale 1, whose law is in units of the noise.
    :raises ValueError: if there are none.

    >>> from opendp_timeseries.accounting.influence import count_influence
    >>> from opendp_timeseries.accounting.subsampled import extremal_law
    >>> person = count_influence(1, participation_cap=30, step_cap=1, size=744, replaced=False)
    >>> month = extremal_law(person, 0.2, 744).at(36.7)
    >>> round(month.epsilon(1e-6), 4), round(joint_loss([month] * 12).epsilon(1e-6), 4)
    (0.3012, 0.998)
    """
    given = list(losses)
    if not given:
        raise ValueError("losses must not be empty: there is no release to account for")
    parts = tuple(part for loss in given for part in _parts(loss, adaptive, factor) if part.loss.law.most > 0)
    if len(parts) <= 1:
        return parts[0].loss if parts else given[0]
    without_noise = (loss for loss, _ in parts if loss.scale == 0)
    return next(without_noise, None) or PrivacyLoss(_joint_law(parts), 1.0)


class _Part(NamedTuple):
    """One release, and whether what is released may depend on the others."""

    loss: PrivacyLoss
    adaptive: bool


def _parts(loss: PrivacyLoss, adaptive: bool, factor: float) -> tuple[_Part, ...]:
    """Return the single releases of a loss, which may be a joint one, with their scales multiplied."""
    scale = loss.scale * factor
    if not isinstance(loss.law, JointLaw):
        return (_Part(PrivacyLoss(loss.law, scale), adaptive),)
    return tuple(_Part(PrivacyLoss(part.law, part.scale * scale), adaptive or inner) for part, inner in loss.law.parts)


@dataclass(frozen=True, eq=False, repr=False)
class JointLaw:
    """The law from above of ``U = Σ S_i/σ_i²``; made by :func:`joint_loss`.

    :param parts: at least two releases, each with noise and some loss.
    """

    parts: tuple[_Part, ...]
    holds_from: ClassVar[float] = _HOLDS_FROM  # their own scale is 1

    @cached_property
    def most(self) -> float:
        """The largest value that ``U`` can take."""
        squares, scales = np.array([(loss.law.most, loss.scale) for loss, _ in self.parts]).T
        return _fsum(over_variance(squares, scales).tolist()) * _TINY_MARGIN

    @cached_property
    def increasing(self) -> Law:
        """A law that bounds ``E g(ε; U)`` for every ``ε``, whether queries are adaptive or not."""
        return self._sum(_for_profiles)

    @cached_property
    def convex(self) -> tuple[Law, ...]:
        """Laws that bound ``E φ(U)`` for every convex increasing ``φ``; none if no query fixed in advance has any."""
        if self.most == math.inf:
            return ()
        return tuple(self._sum(_for_convex, k) for k in range(max(len(_convex(part)) for part in self.parts)))

    def refined(self, bound: float, function: object) -> float:
        """Return ``bound``: nothing better is known."""
        return bound

    @cached_property
    def log_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """For Rényi divergences: laws of adaptive queries for convex functions do not hold jointly, but moments do."""
        if self.most == math.inf or not any(part.adaptive and _convex_alone(part.loss.law) for part in self.parts):
            return None
        rates = _RATES / self.most
        return rates, self.log_moment(rates, 1.0) * (1 + 1e-12)

    def log_moment(self, rates: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """Return ``log E exp(rate·U/scale²)``: the sum of those of the releases, also of adaptive queries."""
        counted = Counter(loss for loss, _ in self.parts)
        logs = [(n * loss.law.log_moment(rates, loss.scale * scale)).tolist() for loss, n in counted.items()]
        return np.array([_fsum(each) for each in zip(*logs, strict=True)])

    def quantile(self, failure_probability: float) -> tuple[float, float]:
        """Return ``u``, and the probability, at most ``failure_probability``, that ``U > u``."""
        values, weights = self._above
        beyond = np.append(np.cumsum(weights[:0:-1])[::-1] * _MARGIN, 0.0)
        first = int(np.argmax(beyond <= failure_probability))
        return float(values[first]), float(beyond[first])

    @cached_property
    def _above(self) -> Law:
        """A law that bounds ``P(U > u)`` for every ``u``."""
        return self._sum(_upwards)

    def _sum(self, split: _Split, choice: int | None = None) -> Law:
        """Return the law of the sum, by the laws for increasing functions, or a choice of those for convex ones."""
        if self.most == math.inf:
            moved = (loss.law.increasing.weights[loss.law.increasing.values > 0].sum() for loss, _ in self.parts)
            return Law(np.array([0.0, math.inf]), np.array([1.0, min(1.0, math.fsum(moved) * _MARGIN)]))
        counts: Counter[tuple[Fraction, float]] = Counter()
        terms: _Terms = []
        for part, n in Counter(self.parts).items():
            convex = () if choice is None else _convex(part)
            if convex:  # a release with fewer laws than others takes part with its last
                terms.append((_scaled(convex[min(choice or 0, len(convex) - 1)], part.loss.scale), n))
            elif (equal := _as_binomial(part.loss.law)) is not None:
                unit, steps, p = equal
                counts[unit / Fraction(part.loss.scale) ** 2, p] += n * steps
            else:
                terms.append((_increasing(part.loss), n))
        terms += [(_trimmed(_law_of_count(unit, steps, p)), 1) for (unit, p), steps in counts.items()]
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
    """Return the laws for convex functions; none where the law for increasing ones is a constant, and the best."""
    return () if np.count_nonzero(law.increasing.weights) == 1 else law.convex


def _as_binomial(law: SquaredDistance) -> tuple[Fraction, int, float] | None:
    """Return ``(unit, steps, probability)`` of a law of ``unit·Bin(steps, probability)``, which is attained."""
    if not isinstance(law, ExtremalLaw) or law.convex or len(law.reach) != law.kept.trials + 1:
        return None
    equal = Fraction(float(law.reach[1])), law.kept.trials, law.kept.probability
    return equal if all(map(np.array_equal, _law_of_count(*equal), law.increasing)) else None


def _law_of_count(unit: Fraction, steps: int, p: float) -> Law:
    return law_of_reach(multiples(unit, np.arange(steps + 1)), Kept(steps, p))


def _scaled(law: Law, scale: float) -> Law:
    return _trimmed(Law(over_variance(law.values, scale), law.weights))


# A search, the plan that it is for and the ledger of that ask for the same one.
_joint_law: Final = lru_cache(maxsize=16)(JointLaw)


# A search for the scale of one more release asks for those of all others at each step.
@lru_cache(maxsize=2**11)
def _increasing(loss: PrivacyLoss) -> Law:
    return _scaled(loss.law.increasing, loss.scale)


#: Independent variables, each with how many copies of it there are.
_Terms = list[tuple[Law, int]]


def _trimmed(law: Law) -> Law:
    """Drop values of no weight, and move a negligible lower tail up to the first value that stays."""
    values, weights = law.values[law.weights > 0], law.weights[law.weights > 0]
    low = int(np.searchsorted(np.cumsum(weights), _CUT, side="right"))
    kept = weights[low:].copy()
    kept[0] += np.sum(weights[:low])
    return Law(values[low:], kept)


def _law_of_sum(terms: _Terms, split: _Split) -> Law:
    """Return the law of a sum of independent variables, from above for the functions that ``split`` is for."""
    if math.prod(len(law.values) ** copies for law, copies in terms) <= _MAX_ATOMS:
        total = Law(np.zeros(1), np.ones(1))
        for law in (law for law, copies in terms for _ in range(copies)):
            total = _every_sum(total, law)
        return total
    lowest = up_fraction(sum(Fraction(float(law.values[0])) * copies for law, copies in terms))
    most = math.fsum(float(law.values[-1]) * copies for law, copies in terms) * _TINY_MARGIN
    step = _reach_above_lowest(terms) / _POINTS * _TINY_MARGIN
    sums = [_power(_on_lattice(law, lowest, step, split), copies) for law, copies in terms]
    while len(sums) > 1:
        odd = sums[len(sums) & ~1 :]
        sums = [_convolved(x, y) for x, y in zip(sums[::2], sums[1::2], strict=False)] + odd
    _, first, mass, cut = sums[0]
    values = (lowest + np.arange(first, first + len(mass), dtype=np.float64) * step) * _TINY_MARGIN
    if cut > 0:
        values, mass = np.append(values, max(most, values[-1])), np.append(mass, cut)
    return Law(values[mass > 0], mass[mass > 0])


def _every_sum(x: Law, y: Law) -> Law:
    if len(x.values) == len(y.values) == 1:  # as below, without the order of many
        total = x.values + y.values
        return Law(up_array(total) if total[0] > 0 else np.zeros(1), x.weights * y.weights * _TINY_MARGIN)
    values: NDArray[np.float64] = np.add.outer(x.values, y.values).ravel()
    weights: NDArray[np.float64] = np.multiply.outer(x.weights, y.weights).ravel()
    order = np.argsort(values, kind="stable")
    return Law(np.where(values > 0, up_array(values), 0.0)[order], weights[order] * _TINY_MARGIN)


def _reach_above_lowest(terms: _Terms) -> float:
    """Return how far above its least value the sum can be, but for a mass of 1e-60, by Chernoff's bound."""
    farthest = math.fsum(float(law.values[-1] - law.values[0]) * copies for law, copies in terms)
    rates = np.geomspace(1.0, 1e6, 61) / farthest
    logs = np.full(len(rates), -math.log(_CUT))
    for law, copies in terms:
        above = np.exp(np.multiply.outer(rates, law.values - law.values[-1]))
        mean = np.array([law.weights @ row for row in above])
        logs += copies * (np.log(mean) + rates * (law.values[-1] - law.values[0]))
    return float(min(farthest, np.min(logs / rates)))


def _on_lattice(law: Law, lowest: float, step: float, split: _Split) -> Lattice:
    """Move the mass of one variable to ``step·0, step·1, …`` above its least value."""
    above: NDArray[np.float64] = law.values - law.values[0]
    points = np.where(above > 0, (above + 2.0**-52 * law.values) / step * _TINY_MARGIN, 0.0)
    inside = points <= _POINTS
    lower = np.floor(points[inside])
    share = split(lowest + lower * step, points[inside] - lower, step)
    weights, below = law.weights[inside], lower.astype(np.int64)
    mass = np.zeros(int(below[-1]) + 2)
    np.add.at(mass, below, weights * (1 - share))
    np.add.at(mass, below + 1, weights * share)
    return trim(Lattice(1, 0, mass * _TINY_MARGIN, float(np.sum(law.weights[~inside])) * _MARGIN))


def _power(x: Lattice, copies: int) -> Lattice:
    if copies == 1:
        return x
    twice = _power(_convolved(x, x), copies // 2)
    return _convolved(twice, x) if copies % 2 else twice


def _convolved(x: Lattice, y: Lattice) -> Lattice:
    """Return the sum of two independent variables. Mass that was cut from either is cut from it."""
    sparse, dense = sorted((x.mass, y.mass), key=np.count_nonzero)
    places = np.flatnonzero(sparse)
    if len(places) * 8 < len(sparse):
        mass = np.zeros(len(x.mass) + len(y.mass) - 1)
        for place in places:
            mass[place : place + len(dense)] += sparse[place] * dense
    else:
        mass = np.convolve(x.mass, y.mass)
    return trim(Lattice(1, x.first + y.first, mass * _MARGIN, (x.cut + y.cut) * _MARGIN))


# Which share of a mass between two points of a lattice goes to the upper one, given the lower point, the place between
# them as a share of the step, and the step.
_Split = Callable[[NDArray[np.float64], NDArray[np.float64], float], NDArray[np.float64]]


def _for_convex(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """For convex increasing functions: as much as keeps the mean."""
    return np.minimum(place * _TINY_MARGIN, 1.0)


def _for_profiles(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """For the profiles ``g(ε; ·)``, ``ε ≥ 0``, at scales of at least 1/2: as much as never lowers the one at 0.

    They are convex increasing functions of that one, which bends down most at the lower end of a cell.
    """
    with np.errstate(divide="ignore"):
        bend = (1 / (8 * (_HOLDS_FROM * DISCRETE_NOISE) ** 2) + 1 / (2 * below)) * step * _MARGIN
    with np.errstate(invalid="ignore"):
        share = np.expm1(-bend * place) / np.expm1(-bend) * _MARGIN
    return np.where(place > 0, np.fmin(share, 1.0), 0.0)


def _upwards(below: NDArray[np.float64], place: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """For all increasing functions: everything."""
    return np.ceil(place)


_renyi: Final = lru_cache(maxsize=2**14)(PrivacyLoss.renyi)


def filter_order(epsilon: float, delta: float) -> float:
    """Return the order of Rényi divergences that leaves most room for Gaussian noise within (ε, δ).

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
    """Return about how much ε exceeds the divergence."""
    return (order_cost(order) - math.log(delta)) / (order - 1)


class FilteredLoss(NamedTuple):
    """The loss of several releases, however each was chosen: the sum of their Rényi divergences of one order.

    :param order: of the divergences, above 1, fixed before the first release.
    """

    order: float
    divergence: float

    @classmethod
    def of(cls, losses: Iterable[PrivacyLoss], order: float) -> FilteredLoss:
        """Return the loss of several releases."""
        # A sum that is rounded once: to the last digit the same in whatever order they are given.
        total = _fsum(up(count * _renyi(loss, order)) for loss, count in Counter(losses).items())
        return cls(order, up(total) if total > 0 else 0.0)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ at ε."""
        return renyi_to_delta(self.order, self.divergence, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on ε at δ; infinity where δ is below what double precision resolves."""
        if self.divergence == 0 or self.divergence == math.inf:
            return self.divergence
        if not delta >= LOWEST_BOUND:
            return math.inf
        found, step = max(0.0, self.divergence + _overhead(self.order, delta)), 1e-13
        while self.delta(found) > delta:
            found, step = found + step * max(1.0, self.divergence), 2 * step
        return found
