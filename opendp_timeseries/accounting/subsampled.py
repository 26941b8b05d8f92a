"""The law of the squared distance that sampling leaves, in the worst case.

The set ``J`` of kept steps does not depend on the data. So for two signals with difference ``v`` the loss follows from
the law of ``S = Σ_{t∈J} v_t²``: given ``J``, the release is a Gaussian mechanism at squared distance ``S``.

An :class:`~.influence.Influence` bounds ``v``. With ``m = ℓ∞²`` and ``W = min(ℓ2², ℓ0·m) = n·m + r``, ``r < m``:

* *vertex*: ``E φ(S) ≤ E φ(m·Bin(n, p) + r·Bernoulli(p))`` for convex increasing ``φ``;
* *majorant*: ``E φ(S) ≤ E φ(Σ_t δ_t a_t²)`` for the same ``φ``, where ``a`` majorises ``v``, ``δ_t ~ Bernoulli(p)``;
* *reach*: ``S ≤ min(W, m·K, a_0² + … + a_{K−1}²)`` with ``K ~ Bin(ℓ0, p)``, which bounds ``E φ(S)`` for all
  increasing ``φ``, and is attained if ``W = ℓ0·m`` and no majorant is known.

In a stratified sample the first two hold unchanged, and :mod:`.sampling` bounds ``K``. ``k`` individuals multiply ``v``
by ``k``. Proof: docs/proofs/extremal_law.md.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.laws import Law, binomial, binomial_tail, kept_sum, multiples, scaled, vertex_sum
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import LOWEST_BOUND, up_fraction
from opendp_timeseries.accounting.sampling import (
    SAMPLINGS,
    Blocks,
    blocks_of,
    even_spread,
    kept_of_spread,
    trials_of,
    worst_spreads,
)

__all__ = ["MIN_SCALE", "ExtremalLaw", "KeptCount", "extremal_law", "law_of_reach"]

_MARGIN: Final = 1 + 1e-11
_TINY_MARGIN: Final = 1 + 1e-15
# Larger changes count as unbounded: their squares, and sums of these, would overflow.
_MAX_CHANGE: Final = 1e140
# Numbers processed at a time.
_CELLS: Final = 2**15
#: The least scale that a search returns, where any noise suffices. Below it the noise grid would need steps finer
#: than the least float, and the loss is taken as infinite.
MIN_SCALE: Final = 2.0**-1000


class _Squares(NamedTuple):
    """Squares of a worst-case difference, with their multiplicities and probabilities of being kept."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    probabilities: NDArray[np.float64] | float


class KeptCount(NamedTuple):
    """The number of kept steps, from above: a binomial number, or ``least`` if that is larger."""

    trials: int
    probability: float
    least: int = 0

    def tail(self, k: int) -> float:
        """Return an upper bound on the probability of more than ``k``."""
        return 1.0 if k < self.least else binomial_tail(k, self.trials, self.probability)


#: The changes that one individual can attain in a stratified sample: steps anywhere, in blocks, with equal squares.
_Attained = tuple[int, Blocks, Fraction]


class _WorstCase(NamedTuple):
    """Bounds on the change by one individual, with fields as of :class:`ExtremalLaw`."""

    reach: NDArray[np.float64]
    tight: bool  # True if the reach is attained, so that no other law can be better
    convex: tuple[Law, ...]
    squares: tuple[_Squares, ...]
    attained: _Attained | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtremalLaw:
    """The worst-case law of the squared distance ``S``, at every scale of the noise; see :func:`extremal_law`.

    :param kept_count: number kept of the steps that can differ.
    :param reach: ``reach[K]`` is the largest ``S`` with ``K`` steps kept; beyond its end, its last value.
    :param increasing: law for increasing functions.
    :param convex: laws for convex increasing functions.
    :param squares: of worst-case differences, for exponential moments.
    :param attained: the changes that an individual can attain in a stratified sample, where known exactly.
    """

    kept_count: KeptCount
    reach: NDArray[np.float64]
    increasing: Law
    convex: tuple[Law, ...]
    squares: tuple[_Squares, ...]
    attained: _Attained | None = None

    # The laws hold at all scales, and moments add nothing.
    holds_from: ClassVar[float] = 0.0
    log_moments: ClassVar[None] = None

    @property
    def largest(self) -> float:
        """The largest value that ``S`` can take."""
        return float(self.reach[-1])

    def at(self, scale: float) -> PrivacyLoss:
        """Return the loss at a noise scale."""
        return PrivacyLoss(self, scale)

    def refined(self, bound: float, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        """Return a bound on the mean of an increasing function: ``bound``, or the maximum over finitely many laws."""
        if self.attained is None:
            return bound
        # The even spread is on the list, so nothing is better than its mean.
        ((values, weights),) = self.convex
        if bound <= float(np.sum(weights * function(values))) * (1 + 1e-10):
            return bound
        worst = worst_spreads(*self.attained)
        return bound if worst is None else min(bound, float(np.max(worst.weights @ function(worst.values))) * _MARGIN)

    def log_moment(self, rates: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """Return ``log E exp(rate·S/scale²)`` at each rate, to within 1e-13."""
        minima: NDArray[np.float64] = np.min([_log_means(squares, rates, scale) for squares in self.squares], axis=0)
        return minima

    def quantile(self, failure_probability: float) -> tuple[float, float]:
        """Return the reach at the least ``k`` with ``P(K > k) ≤ δ′``, and that tail (Koga et al. 2022, Theorem 2)."""
        # By bisection on the tail: SciPy's inverse tail errs far out (scipy/scipy#22622).
        limit = max(self.kept_count.trials, self.kept_count.least)
        k = bisect_left(range(limit), True, key=lambda k: self.kept_count.tail(k) <= failure_probability)
        square = float(self.reach[min(k, len(self.reach) - 1)])
        # Nothing is beyond the largest reach.
        return square, self.kept_count.tail(k) if square < self.reach[-1] else 0.0


def _log_means(squares: _Squares, rates: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    # The sum of log E exp(rate·δ_t·s_t/σ²) over the squares s_t: for few rates at a time where squares are many.
    rows = max(1, _CELLS // len(squares.values))
    if len(rates) > rows:
        parts = np.split(rates, range(rows, len(rates), rows))
        return np.concatenate([_log_means(squares, part, scale) for part in parts])
    p = squares.probabilities
    with np.errstate(all="ignore"):
        x = squares.values / scale * (rates[:, np.newaxis] / scale)
        little = np.log1p(np.maximum(p * np.expm1(x), LOWEST_BOUND))
        much = np.logaddexp(np.log1p(-p), np.log(p) + x)
        logs: NDArray[np.float64] = np.sum(squares.counts * np.where(x < 30, little, much), axis=1)
        return logs


@lru_cache(maxsize=256)
def extremal_law(influence: Influence, probability: float, size: int, sampling: str = "poisson") -> ExtremalLaw:
    """Return the worst-case law of the squared distance between signals that an influence bounds.

    :param probability: ``p`` in [0, 1], with which each step is kept.
    :param size: ``T``, steps of the signal.
    :param sampling: ``"poisson"`` or ``"stratified"``, see :mod:`.sampling`.
    """
    k = influence.individuals
    blocks = blocks_of(probability, size) if check.choice("sampling", sampling, SAMPLINGS) == "stratified" else None
    if blocks is not None:
        probability = blocks.probability
    single = _worst_case(replace(influence, individuals=min(k, 1)), probability, size, blocks)
    steps = min(k * influence.l0, size)
    squared = up_fraction(k * k)  # factor on the squares of one individual
    reach = scaled(single.reach, squared)
    kept_count = KeptCount(steps, probability) if blocks is None else _kept_count_of_blocks(steps, blocks)
    return ExtremalLaw(
        kept_count=kept_count,
        reach=reach,
        increasing=law_of_reach(reach, kept_count),
        convex=() if single.tight and k == 1 else tuple(Law(scaled(v, squared), w) for v, w in single.convex),
        squares=tuple(squares._replace(values=scaled(squares.values, squared)) for squares in single.squares),
        attained=single.attained if k == 1 else None,
    )


def _kept_count_of_blocks(steps: int, blocks: Blocks) -> KeptCount:
    """Return the number kept of ``steps``, wherever they are, from above: that of equal trials (Hoeffding 1956)."""
    trials = min(steps, blocks.count)
    probability = min(up_fraction(Fraction(steps, blocks.length * trials)), 1.0) if trials else 0.0
    return KeptCount(trials, probability, least=-(-steps // blocks.length))


def law_of_reach(reach: NDArray[np.float64], kept_count: KeptCount) -> Law:
    """Return the law of ``reach[K]``: one atom from ``K = len(reach) − 1`` on."""
    count = binomial(kept_count.trials, kept_count.probability)
    numbers = np.maximum(np.arange(count.first, count.first + len(count.mass)), kept_count.least)
    inside = int(np.searchsorted(numbers, len(reach) - 1))
    top_mass = float(np.sum(count.mass[inside:])) + count.cut
    return Law(np.append(reach[numbers[:inside]], reach[-1]), np.append(count.mass[:inside], top_mass))


@lru_cache(maxsize=64)
def _worst_case(influence: Influence, p: float, size: int, blocks: Blocks | None = None) -> _WorstCase:
    steps = min(influence.l0, size) if influence.individuals else 0
    linf = min(influence.linf, influence.l2)
    if steps == 0 or linf == 0 or p == 0 or (influence.majorant and len(influence.majorant.values) == 0):
        return _WorstCase(np.zeros(1), True, (), ())
    if linf > _MAX_CHANGE:
        unbounded = np.array([0.0, math.inf])
        return _WorstCase(unbounded, True, (), (_Squares(unbounded[1:], np.ones(1, int), p),))

    # Exact rationals: n and r of W = n·m + r must not suffer from rounding.
    m = Fraction(linf) ** 2
    squared = Fraction(min(influence.l2_squared, steps * m))
    n, remainder = divmod(squared, m)
    largest = up_fraction(m)
    # Beyond n + 1 steps, the reach grows only with a majorant.
    growing = steps if influence.majorant is not None else min(steps, int(n) + 1)
    reach = np.minimum(multiples(m, np.arange(growing + 1)), up_fraction(squared))
    tight = squared == steps * m
    counts = np.array([n, int(remainder > 0)])
    vertex = _Squares(np.array([largest, up_fraction(remainder)])[counts > 0], counts[counts > 0], p)
    # Ignore a majorant whose squares overflow or that adds nothing to ℓ0 and ℓ∞.
    a = np.zeros(0) if influence.majorant is None else influence.majorant.values
    if len(a) == 0 or a[0] > _MAX_CHANGE or (len(a) >= steps and a[steps - 1] >= linf):
        if tight and blocks is not None:
            return _worst_case_in_blocks(_without_repeated_end(reach), (steps, blocks, m), p)
        return _WorstCase(_without_repeated_end(reach), tight, (vertex_sum(n, m, remainder, p),), (vertex,))

    majorant = np.maximum(a**2 * _TINY_MARGIN, LOWEST_BOUND)
    sums = np.concatenate([[0.0], np.cumsum(majorant) * (1 + 2.0**-52 * len(majorant))])
    reach = np.minimum(reach, sums[np.minimum(np.arange(steps + 1), len(majorant))])
    convex: tuple[Law, ...] = (kept_sum(majorant, p),)
    if majorant[0] > largest * _MARGIN or sums[-1] > up_fraction(squared) * _MARGIN:
        convex += (vertex_sum(n, m, remainder, p),)
    starts = np.flatnonzero(np.diff(majorant, prepend=math.inf))
    equal = _Squares(majorant[starts], np.diff(starts, append=len(majorant)), p)
    return _WorstCase(_without_repeated_end(reach), False, convex, (equal, vertex))


def _worst_case_in_blocks(reach: NDArray[np.float64], attained: _Attained, p: float) -> _WorstCase:
    """Return the worst case in a stratified sample without filter: the even spread."""
    steps, blocks, square = attained
    spread = even_spread(steps, blocks)
    counts, probabilities = (np.array(numbers) for numbers in zip(*trials_of(spread, blocks.length), strict=True))
    caught = _Squares(np.full(len(spread), up_fraction(square)), counts, probabilities)
    # With at most one step in each block, the law is that of a Poisson sample, which is computed to all digits.
    thin = spread == ((steps, 1),)
    law = vertex_sum(steps, square, Fraction(0), p) if thin else kept_of_spread(spread, blocks.length, square)
    return _WorstCase(reach, False, (law,), (caught,), attained)


def _without_repeated_end(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    return reach[: int(np.searchsorted(reach, reach[-1])) + 1]
