"""The bounds that Koga, Meehan & Chaudhuri (2022) state, for comparison.

The library accounts for its releases with the tighter maps of :mod:`~opendp_timeseries.accounting.subsampled`.
Statements that are false as printed are here in corrected form. Every probability, distance and scale is rounded up.
Proof: docs/proofs/koga2022.md.

All functions share a notation: ``participation_cap`` is ``I``, ``sampling_probability`` ``p``, ``alpha`` ``α``,
``scale`` ``σ``, the standard deviation of the noise, ``epsilon`` ``ε``, positive, ``delta`` ``δ`` in (0, 1),
``failure_probability`` ``δ′`` in (0, 1), and ``share`` ``δ_g``, the share of ``δ`` that sets the noise.
The step cap is one, and one individual is added or removed; for others see :meth:`SensitivityBound.times`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting import filtering
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.gaussian import gaussian_delta
from opendp_timeseries.accounting.laws import binomial_tail
from opendp_timeseries.accounting.loss import over_variance
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up, up_fraction, up_sqrt
from opendp_timeseries.design.kernels import Kernel

__all__ = ["Choice", "FilterConstants", "SensitivityBound", "Tail", "analytic_scale", "classical_holds"]
__all__ += ["classical_scale", "corollary1", "filter_constants", "fixed_pair", "kept_steps", "least_alpha"]
__all__ += ["least_scale_with_filter", "least_scale_without_filter", "proposition1", "theorem2", "theorem4"]
__all__ += ["theorem4_sharper", "with_filter", "without_filter"]

#: The matrix Chernoff bound of Theorem 4 as printed, in a sharper form, and Chernoff's bound for a fixed individual.
Tail = Literal["theorem 4", "sharper", "fixed pair"]

_EPS: Final = 2.0**-52


def theorem2(sampled_cap: int, participation_cap: int, sampling_probability: float) -> float:
    """Return ``δ′ = P(Bin(I, p) > I′)`` of Theorem 2, zero only where it is exactly zero.

    Otherwise at most ``sampled_cap`` (``I′``) steps of an individual are sampled, and the ℓ2 sensitivity is ``√I′``.
    """
    sampled_cap = check.integer("sampled_cap", sampled_cap, minimum=0)
    cap = check.integer("participation_cap", participation_cap, minimum=0)
    p = check.probability("sampling_probability", sampling_probability)
    return binomial_tail(sampled_cap, cap, p) if p > 0.0 else 0.0


def corollary1(failure_probability: float, participation_cap: int, sampling_probability: float) -> float:
    """Return the squared sensitivity ``I′ = min(I, Ip + √(I/2 · ln(1/δ′)))`` of Corollary 1 (Hoeffding)."""
    tail = check.real("failure_probability", failure_probability, above=0.0, below=1.0)
    cap = check.integer("participation_cap", participation_cap, minimum=0)
    p = check.probability("sampling_probability", sampling_probability)
    # At most ten roundings, all of non-negative terms, of one unit in the last place each.
    return min(up_fraction(cap), up((cap * p + math.sqrt(cap / 2.0 * -math.log(tail))) * (1.0 + 10 * _EPS)))


def kept_steps(alpha: float, participation_cap: int) -> int:
    """Return ``I′ = ⌈α²I⌉`` of Corollary 3, exactly."""
    alpha = check.real("alpha", alpha, above=0.0, maximum=1.0)
    return math.ceil(Fraction(alpha) ** 2 * check.integer("participation_cap", participation_cap, minimum=0))


@dataclass(frozen=True, kw_only=True)
class FilterConstants:
    """The constants of a filter matrix ``A`` in the paper's theorems, each rounded up."""

    row_energy: float  #: ``L``, the largest squared ℓ2 norm of a row
    stable_rank: float  #: ``‖A‖_F²/‖A‖²``
    norm: float = 1.0  #: ``‖A‖``, the largest singular value; 1 for non-negative taps of ℓ1 norm 1
    l1_norm: float = 1.0  #: ``‖h‖₁``, the ℓ1 norm of a row; the paper normalises it to 1

    def __post_init__(self) -> None:
        check.real("stable_rank", self.stable_rank, minimum=1.0)
        for name in ("row_energy", "norm", "l1_norm"):
            check.real(name, getattr(self, name), above=0.0)
        # One row is at most the whole matrix, and ‖A‖ ≤ ‖h‖₁ for a circulant one.
        if not self.row_energy <= self.norm**2 * (1 + 1e-9) or not self.norm <= self.l1_norm * (1 + 1e-9):
            constants = Quoted(f"{self.row_energy:g}, {self.norm:g}, {self.l1_norm:g}")
            raise Refusal(
                "row_energy, norm, l1_norm",
                constants,
                "must satisfy row_energy ≤ norm² ≤ l1_norm²",
                "compute all three from the same taps",
            )


def filter_constants(kernel: Kernel) -> FilterConstants:
    """Return the constants of a kernel in the paper's theorems."""
    energy, (smallest, largest) = filtering.energy(kernel), filtering.norm_bounds(kernel)
    return FilterConstants(
        row_energy=up_fraction(energy),
        # ‖A‖_F² = T·L, and ‖A‖² is at least L, the mean of all |ĥ|².
        stable_rank=up_fraction(kernel.size * energy / max(smallest**2, energy)),
        norm=up_fraction(largest),
        l1_norm=up_fraction(filtering.gain(kernel)),
    )


def theorem4(alpha: float, sampling_probability: float, filter: FilterConstants) -> float:
    """Return the upper bound of Theorem 4 (matrix Chernoff) on ``P(σ_max²(B) ≥ α²)`` for the sampled filter ``B``.

    ``δ′ = 2·srank·(e^{x−1}/x^x)^{p‖A‖²/L}`` with ``x = α²/(p‖A‖²)``, at most 1, for ``x ≥ 1`` (Tropp 2015, Theorem
    7.2.1, requires more, but :func:`theorem4_sharper` does not, and is never above this). It holds for all individuals
    simultaneously: the sensitivity is then ``α√T``, and with a participation cap ``α√I``.
    """
    _, log_tail = _chernoff(alpha, sampling_probability, filter, filter.norm**2 / filter.row_energy)
    return _probability(2.0 * filter.stable_rank, log_tail)


def theorem4_sharper(alpha: float, sampling_probability: float, filter: FilterConstants) -> float:
    """Return Theorem 4 without its loose last step: ``srank·(e^{(x−1)c} − 1)/(e^{c·x·ln x} − 1)``, ``c = p‖A‖²/L``."""
    ratio = filter.norm**2 / filter.row_energy
    x, log_tail = _chernoff(alpha, sampling_probability, filter, ratio)
    if x <= 1.0 or sampling_probability == 0.0:
        return 1.0 if x <= 1.0 else 0.0
    # With a = (x−1)c < b = c·x·ln x: (e^a − 1)/(e^b − 1) = e^{a−b}·(1 − e^{−a})/(1 − e^{−b}) ≤ e^{a−b}.
    c = sampling_probability * ratio
    correction = math.expm1(-(x - 1.0) * c) / math.expm1(-c * x * math.log(x))
    correction = min(1.0, correction * (1.0 + 64 * _EPS * x / (x - 1.0)))
    return _probability(filter.stable_rank * correction, log_tail)


def fixed_pair(alpha: float, participation_cap: int, sampling_probability: float, filter: FilterConstants) -> float:
    """Return Chernoff's bound for a fixed individual: ``δ′ = (e^{x−1}/x^x)^{p·max(‖A‖²I/‖h‖₁², ‖A‖²/L)}``.

    Privacy compares a single pair of data sets, so no maximum over individuals is needed. It never exceeds Theorem 4.
    """
    cap = check.integer("participation_cap", participation_cap, minimum=1)
    ratio = max(filter.norm**2 * cap / filter.l1_norm**2, filter.norm**2 / filter.row_energy)
    _, log_tail = _chernoff(alpha, sampling_probability, filter, ratio)
    return _probability(1.0, log_tail)


def _chernoff(alpha: float, p: float, filter: FilterConstants, ratio: float) -> tuple[float, float]:
    """Return ``x`` and an upper bound on ``p·ratio·(x − 1 − x·ln x)``; (0, 0) is the trivial bound."""
    alpha = check.real("alpha", alpha, above=0.0)
    p = check.probability("sampling_probability", p)
    if p == 0.0:
        return math.inf, -math.inf
    mean = p * filter.norm**2
    x = alpha * alpha / mean if mean > 0.0 else math.inf
    if not 1.0 <= x < math.inf:  # also the trivial bound where x overflows
        return 0.0, 0.0
    # Near x = 1 the terms cancel: their own rounding, not that of the small difference, must be added. The
    # slope of the exponent in x is −ln x, so that the rounding of x is covered by the same allowance.
    rate = p * ratio
    return x, rate * (x - 1.0 - x * math.log(x)) + 8 * _EPS * rate * (x + x * math.log(x))


def _probability(factor: float, log_tail: float) -> float:
    """Return ``min(1, factor·e^{log_tail})`` rounded up, and zero only for ``log_tail = −∞``."""
    if log_tail == -math.inf:
        return 0.0
    return min(1.0, max(LOWEST_BOUND, up(factor * math.exp(min(log_tail, 0.0)) * (1.0 + 8 * _EPS))))


def least_alpha(
    failure_probability: float,
    participation_cap: int,
    sampling_probability: float,
    filter: FilterConstants,
    tail: Tail = "theorem 4",
) -> float:
    """Return the least ``α ≤ 1``, to float precision, whose failure probability is at most the given one.

    At 1 the failure probability is 0. The filter must have ℓ1 norm 1.
    """
    target = check.real("failure_probability", failure_probability, above=0.0, below=1.0)
    setting = participation_cap, sampling_probability, filter, tail
    return _least(lambda alpha: with_filter(alpha, *setting).failure <= target, 0.0, 1.0)


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number, to float precision, above ``low`` and up to ``high`` for which a condition holds."""
    while (middle := (low + high) / 2.0) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class SensitivityBound:
    """A bound on the sensitivity that is small except on an event of small probability, which depends on the sample."""

    usual: float  #: squared ℓ2 sensitivity except on the event: ``I′``, or ``α²I``
    worst: float  #: squared ℓ2 sensitivity in any case: ``I``
    failure: float  #: ``δ′``, probability of the event

    def __post_init__(self) -> None:
        check.real("usual", self.usual, above=0.0)
        check.real("worst", self.worst, minimum=self.usual)
        check.probability("failure", self.failure)

    @property
    def alpha(self) -> float:
        """The paper's ``α = √(usual/worst)``, to float precision."""
        return math.sqrt(self.usual / self.worst)

    def times(self, factor: int) -> SensitivityBound:
        """Return the bound for differences that are ``factor`` times as large, such as of a step cap ``M``.

        For ``k`` individuals, ``times(k·M)`` of :func:`with_filter`, or of
        :func:`without_filter` with ``min(kI, T)`` in place of ``I``; for replaced individuals, with ``min(2I, T)``.
        """
        square = check.integer("factor", factor, minimum=1) ** 2
        return SensitivityBound(up(self.usual * square), up(self.worst * square), self.failure)

    def zero_concentrated(self, scale: float) -> tuple[float, float]:
        """Return ``(ρ, δ′)``: the release is ``δ′``-approximately ``ρ``-zero-concentrated private.

        Except on the event, it is a Gaussian mechanism with ``ρ = usual/(2σ²)`` (Bun & Steinke 2016, Def. 8.1).
        """
        (ratio,) = over_variance(np.array([self.usual]), check.real("scale", scale, minimum=0.0)).tolist()
        return up(ratio / 2.0), self.failure

    def delta(self, epsilon: float, share: float) -> float:
        """Return the ``δ`` of Corollaries 2 and 3 at ``ε``, with the noise ``√usual · √(2ln(1.25/δ_g))/ε``.

        ``δ = δ_g + δ′·(e^{ε/α} − e^ε)``, where ``α = √(usual/worst)``. Corollary 3 is this with ``usual = I′``; as
        printed, with the noise of ``α√I``, it is false.

        :raises ValueError: where the classical Gaussian theorem fails at ``ε`` or ``ε/α`` by the exact profile, so that
            nothing is proved.
        """
        epsilon = check.real("epsilon", epsilon, above=0.0)
        share = check.real("share", share, above=0.0, below=1.0)
        if not self._proved(epsilon, share):
            raise Refusal(
                "the classical Gaussian theorem",
                ...,
                f"fails for epsilon ({epsilon:g}) or epsilon/α ({epsilon * math.sqrt(self.worst / self.usual):g}) at"
                f" share ({share:g})",
                "choose a smaller epsilon",
            )
        return min(1.0, up(share + self._failure_cost(epsilon)))

    def least_scale(self, epsilon: float, delta: float) -> float:
        """Return the noise ``σ`` that this bound needs for ``(ε, δ)``; infinity where it proves nothing."""
        epsilon = check.real("epsilon", epsilon, above=0.0)
        delta = check.real("delta", delta, above=0.0, below=1.0)
        share = (delta - self._failure_cost(epsilon)) * (1.0 - 4 * _EPS)
        if not share > 0.0 or not self._proved(epsilon, share):
            return math.inf
        return _classical(epsilon, share, self.usual)

    def least_epsilon(self, scale: float, delta: float) -> float:
        """Return an ``ε`` at which the corollary gives (ε, δ) for the noise ``σ``; infinity if there is none."""
        scale_at, grid = partial(self.least_scale, delta=delta), [0.0, *np.geomspace(1e-6, 16.0, 300).tolist()]
        cells = ((low, high) for low, high in pairwise(grid) if scale_at(high) <= scale)
        return next((_least(lambda epsilon: scale_at(epsilon) <= scale, *cell) for cell in cells), math.inf)

    def _failure_cost(self, epsilon: float) -> float:
        """Return ``δ′·(e^{ε/α} − e^ε)`` rounded up, by ``e^ε·(e^{ε(1/α−1)} − 1)``."""
        if self.failure == 0.0:
            return 0.0
        # 1/α − 1 = √(worst/usual) − 1 without cancellation, as (w − u)/(u·(√(w/u) + 1)).
        excess = (self.worst - self.usual) / (self.usual * (math.sqrt(self.worst / self.usual) + 1.0))
        try:
            factor = math.exp(epsilon) * math.expm1(epsilon * excess)
        except OverflowError:
            return math.inf
        return up(self.failure * up(factor * (1.0 + 16 * _EPS * (1.0 + epsilon * (1.0 + excess)))))

    def _proved(self, epsilon: float, share: float) -> bool:
        """Return whether the classical theorem holds where the corollaries need it: at ε, and at ε/α unless δ′ is 0."""
        return classical_holds(epsilon, share) and (
            self.failure == 0.0 or classical_holds(up(epsilon * math.sqrt(self.worst / self.usual), 3), share)
        )


def without_filter(sampled_cap: int, participation_cap: int, sampling_probability: float) -> SensitivityBound:
    """Return Theorem 2 as a bound on the sensitivity: ``√I′`` except with probability ``P(Bin(I, p) > I′)``.

    :param sampled_cap: ``I′``, from 1 to ``I``; for an ``α`` of Algorithm 1, :func:`kept_steps`.
    """
    cap = check.integer("participation_cap", participation_cap, minimum=1)
    sampled_cap = check.integer("sampled_cap", sampled_cap, minimum=1, maximum=cap)
    return SensitivityBound(
        up_fraction(sampled_cap), up_fraction(cap), theorem2(sampled_cap, cap, sampling_probability)
    )


def with_filter(
    alpha: float,
    participation_cap: int,
    sampling_probability: float,
    filter: FilterConstants,
    tail: Tail = "theorem 4",
) -> SensitivityBound:
    """Return Theorem 4 as a bound on the sensitivity: ``α√I`` except with probability ``δ′``, which is 0 at ``α = 1``.

    :param participation_cap: ``I``; ``T`` without an assumption.
    :param tail: ``"theorem 4"``, ``"sharper"`` (:func:`theorem4_sharper`) or ``"fixed pair"`` (:func:`fixed_pair`).
    :raises ValueError: if the rows' ℓ1 norm is not 1, which makes ``√I`` the sensitivity in the worst case.
    """
    alpha = check.real("alpha", alpha, above=0.0, maximum=1.0)
    cap = check.integer("participation_cap", participation_cap, minimum=1)
    if filter.l1_norm != 1.0:
        raise Refusal("l1_norm", filter.l1_norm, "must be 1, for the paper's σ_max = 1", "divide the taps by their sum")
    tails: dict[str, Callable[..., float]] = {
        "theorem 4": theorem4,
        "sharper": theorem4_sharper,
        "fixed pair": partial(fixed_pair, participation_cap=cap),
    }
    bound = tails[check.choice("tail", tail, tails)]
    failure = bound(alpha, sampling_probability=sampling_probability, filter=filter) if alpha < 1.0 else 0.0
    return SensitivityBound(up_fraction(Fraction(alpha) ** 2 * cap), up_fraction(cap), failure)


def proposition1(
    epsilon: float,
    share: float,
    claimed: SensitivityBound,
    true_cap: int,
    sampling_probability: float | None = None,
) -> tuple[float, float]:
    """Return the guarantee of Proposition 1, for individuals in more steps than the assumed cap.

    With the noise of :meth:`SensitivityBound.delta` for the claimed bound, and a true cap of ``cI``, the release is
    private at ``√c·ε`` with the corollary's ``δ`` there. Without a filter ``δ′ = P(Bin(⌊cI⌋, p) > cI′)`` is recomputed,
    which the printed proof omits.

    :param claimed: :func:`with_filter` or :func:`without_filter` at the assumed cap.
    :param true_cap: ``cI``, at least the assumed cap.
    :param sampling_probability: ``p``, for a bound without a filter; None for one with a filter.
    :return: ``ε`` and ``δ``, rounded up.
    :raises ValueError: where the classical Gaussian theorem does not hold at the larger ``ε``.
    """
    true_cap = check.integer("true_cap", true_cap, minimum=math.ceil(claimed.worst))
    growth = Fraction(true_cap) / Fraction(claimed.worst)
    usual, failure = Fraction(claimed.usual) * growth, claimed.failure
    if sampling_probability is not None:
        failure = theorem2(math.floor(usual), true_cap, sampling_probability)
    actual = SensitivityBound(up_fraction(usual), up_fraction(true_cap), failure)
    larger = up(check.real("epsilon", epsilon, above=0.0) * up_sqrt(growth))
    return larger, actual.delta(larger, share)


def classical_holds(epsilon: float, delta: float) -> bool:
    """Return whether the classical theorem's noise ``Δ·√(2ln(1.25/δ))/ε`` is (ε, δ)-private by the exact profile.

    The theorem (Dwork & Roth 2014, Theorem A.1) is proved for ``ε < 1`` only; at ``ε = 8, δ = 1e-4`` it is false.
    """
    epsilon = check.real("epsilon", epsilon, above=0.0)
    delta = check.real("delta", delta, above=0.0, below=1.0)
    ratio = up(epsilon * epsilon / (2.0 * math.log(1.25 / delta)) * (1.0 + 8 * _EPS))
    return bool(gaussian_delta(epsilon, np.array([ratio]))[0] <= delta)


def classical_scale(epsilon: float, delta: float, squared_sensitivity: float) -> float:
    """Return the noise of the classical Gaussian theorem, ``Δ·√(2ln(1.25/δ))/ε``: the paper's baseline.

    :param squared_sensitivity: ``Δ²``, which is ``I`` for counts of one individual.
    :raises ValueError: where the theorem fails.
    """
    if not classical_holds(epsilon, delta):
        raise Refusal(
            "the classical theorem", ..., f"fails at epsilon ({epsilon:g}), delta ({delta:g})", "use analytic_scale"
        )
    return _classical(epsilon, delta, check.real("squared_sensitivity", squared_sensitivity, minimum=0.0))


def _classical(epsilon: float, delta: float, squared_sensitivity: float) -> float:
    return up(math.sqrt(squared_sensitivity * 2.0 * math.log(1.25 / delta)) / epsilon * (1.0 + 8 * _EPS))


def analytic_scale(epsilon: float, delta: float, squared_sensitivity: float) -> float:
    """Return the least noise of the Gaussian mechanism for (ε, δ), by its exact profile (Balle & Wang 2018).

    :param squared_sensitivity: ``Δ²``.
    """
    epsilon = check.real("epsilon", epsilon, minimum=0.0)
    delta = check.real("delta", delta, above=0.0, below=1.0)
    square = check.real("squared_sensitivity", squared_sensitivity, minimum=0.0)
    if square == 0.0:
        return 0.0

    def delta_at(scale: float) -> float:
        return float(gaussian_delta(epsilon, over_variance(np.array([square]), scale))[0])

    try:
        return calibrate(delta_at, delta, start=math.sqrt(square))
    except ValueError:  # δ is below what the profile resolves
        return math.inf


class Choice(NamedTuple):
    """The least noise over a family of bounds, and the bound that gives it."""

    scale: float
    bound: SensitivityBound


def least_scale_without_filter(
    epsilon: float, delta: float, participation_cap: int, sampling_probability: float
) -> Choice:
    """Return the least noise for (ε, δ) over all ``I′``, each with the best split of ``δ``.

    >>> choice = least_scale_without_filter(0.5, 1e-4, 180, 0.1)
    >>> round(choice.scale, 3), choice.bound.usual
    (52.944, 36.0)
    """
    setting = participation_cap, sampling_probability
    best = Choice(math.inf, without_filter(participation_cap, *setting))
    for steps in range(max(1, math.floor(participation_cap * sampling_probability)), participation_cap + 1):
        bound = without_filter(steps, *setting)
        # The noise grows with δ′ and with I′, so that no larger I′ needs less than this one would with δ′ = 0.
        if replace(bound, failure=0.0).least_scale(epsilon, delta) >= best.scale:
            break
        best = min(best, Choice(bound.least_scale(epsilon, delta), bound), key=attrgetter("scale"))
    return best


def least_scale_with_filter(
    epsilon: float,
    delta: float,
    participation_cap: int,
    sampling_probability: float,
    filter: FilterConstants,
    tail: Tail = "theorem 4",
) -> Choice:
    """Return the least noise for (ε, δ) over ``α``, on a refined grid, each with the best split of ``δ``.

    >>> smooth = FilterConstants(row_energy=0.028209479177387822, stable_rank=50.77706251929808)
    >>> choice = least_scale_with_filter(0.5, 1e-4, 180, 0.1, smooth)
    >>> round(choice.scale, 3), round(choice.bound.alpha, 4)
    (83.524, 0.7063)
    """

    def choice(alpha: float) -> Choice:
        bound = with_filter(alpha, participation_cap, sampling_probability, filter, tail)
        return Choice(bound.least_scale(epsilon, delta), bound)

    step = 1.0 / 128
    alpha = min((np.arange(1, 129) * step).tolist(), key=lambda alpha: choice(alpha).scale)
    refined = minimize_scalar(
        lambda alpha: min(choice(float(alpha)).scale, 1e300),  # the search subtracts values: infinities would give NaN
        bounds=(max(alpha - step, step / 2), min(alpha + step, 1.0)),
        method="bounded",
        options={"xatol": 1e-9},
    ).x
    return min(choice(alpha), choice(float(refined)), key=attrgetter("scale"))
