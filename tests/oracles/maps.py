"""What a chain can reveal at the worst pair of neighbours that is found, in 60 digits. No package code.

Pairs are searched in floats, over every difference that individuals can make where the signal is short and over
designed ones where it is long. What is returned of the one chosen is exact: rational squares, the law of what
sampling keeps of them over every kept set, and its divergences to 60 digits. Whatever the search misses makes
the truth here too low, never too high.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from math import ceil, isqrt, prod
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from tests.oracles import separated
from tests.oracles.accounting import gaussian_profile, renyi_of_squares

ENUMERATED = 1500  # differences, at most
SUBSETS = 8  # squares of which every subset is listed in floats
ATOMS = 1500  # of an exact law
CELLS = 16  # per square, of a law that would have more atoms: squares rounded down


def coin(p):
    """The probability of 53 bits below ``⌈p·2⁵³⌉``."""
    return Fraction(ceil(Fraction(p) * 2**53), 2**53)


def real(value):
    return mp.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mp.mpf(value)


# --- pairs: integer differences of counts ---


def every_difference(rng, size, cap, step_cap, individuals, *, replaced):
    """Differences that individuals make in a short signal: all, or as many as :data:`ENUMERATED`."""
    heights = sorted({0, step_cap // 2, step_cap} if size <= 3 else {0, step_cap})
    own = np.array([v for v in itertools.product(heights, repeat=size) if np.count_nonzero(v) <= cap])
    return of_several(rng, own, individuals, replaced=replaced)


def every_difference_apart(rng, size, cap, step_cap, individuals, *, replaced, gap, series):
    """As :func:`every_difference`, where the steps of an individual are a gap apart in each series."""
    own = step_cap * separated.in_series(separated.indicators(size // series, gap, cap), series, cap)
    return of_several(rng, own, individuals, replaced=replaced)


def of_several(rng, own, individuals, *, replaced):
    """Sums of what individuals, each with one of these rows, change together: all, or some of them."""
    size = own.shape[1]
    if len(own) ** 2 > 20 * ENUMERATED:
        own = own[rng.integers(len(own), size=isqrt(20 * ENUMERATED))]
    one = (own[:, None] - own[None]).reshape(-1, size) if replaced else np.concatenate([own, -own])
    one = np.unique(one, axis=0)
    reached = one
    for _ in range(individuals - 1):
        pairs = np.array([len(reached), len(one)])
        if pairs.prod() <= ENUMERATED:
            reached = (reached[:, None] + one[None]).reshape(-1, size)
        else:
            first, second = rng.integers(pairs, size=(ENUMERATED, 2)).T
            reached = reached[first] + one[second]
        reached = np.unique(reached, axis=0)
    return np.concatenate([reached, individuals * one])


def designed_differences(rng, size, cap, step_cap, individuals, *, replaced):
    """Differences in a long signal: blocks, spread or random steps; individuals together, apart or opposed."""
    cap = min(cap, size)
    steps = np.arange(size)
    block, spread = steps[:cap], steps * cap // size
    spread = np.flatnonzero(np.diff(spread, prepend=-1))
    some = rng.permutation(size)
    ones = []
    for first in (block, spread, some[:cap]):
        one = np.zeros(size, dtype=np.int64)
        one[first] = 1
        ones.append(one)
        if replaced:
            for second in ((first + 1) % size, (first + cap) % size, some[-cap:]):
                other = np.zeros(size, dtype=np.int64)
                other[second] = 1
                ones.append(one - other)
            both = (np.arange(size) < min(2 * cap, size)).astype(np.int64)
            ones.append(both * np.where(np.arange(size) < cap, 1, -1))
            ones.append(both * np.where(np.arange(size) % 2 == 0, 1, -1))
    together = individuals * np.array(ones)
    if individuals == 1:
        return step_cap * together
    apart = sum(np.roll(ones[0], j * cap) for j in range(min(individuals, ceil(size / cap))))
    opposed = np.roll(ones[0], 1) - (individuals - 1) * ones[0]
    return step_cap * np.concatenate([together, [np.minimum(apart, individuals), opposed]])


def designed_differences_apart(rng, size, cap, step_cap, individuals, *, replaced, gap, series):
    """Differences in a long signal, where the steps of an individual are a gap apart in each series."""
    length = size // series

    def someone():
        rows = [np.zeros(length, dtype=np.int64) for _ in range(series)]
        left = cap
        for row in rows:
            row[separated.drawn(rng, length, gap, left)] = 1
            left -= row.sum()
        return np.concatenate([rows[j] for j in rng.permutation(series)])

    people = [someone() for _ in range(12)]
    if not replaced:
        ones = people
    else:
        shifts = (1, gap // 2, gap)
        moved = [np.roll(a.reshape(series, length), shift, axis=1).ravel() for a in people[:4] for shift in shifts]
        ones = [a - b for a, b in zip(np.repeat(people[:4], len(shifts), axis=0), moved, strict=True)]
        ones += [a - b for a, b in itertools.pairwise(people)] + people
    alike = [individuals * one for one in ones]
    mixed = [sum(ones[i] for i in rng.integers(len(ones), size=individuals)) for _ in range(4)]
    return step_cap * np.array(alike + mixed)


def decreasing(numerators):
    """Whether taps are non-negative, symmetric, and do not increase in circular distance."""
    taps, size = list(numerators), len(numerators)
    by_distance = sorted(range(size), key=lambda t: min(t, size - t))
    ordered = all(taps[s] >= taps[t] for s, t in itertools.pairwise(by_distance))
    return ordered and min(taps) >= 0 and all(taps[t] == taps[-t % size] for t in range(size))


def convolved(vector, filters, series):
    """An integer difference through filters ``(numerators, bits)``, each series by itself, exactly."""
    parts = [np.array(part.tolist(), dtype=object) for part in np.split(np.asarray(vector), series)]
    for numerators, _ in filters:
        taps = np.array(list(map(int, numerators)), dtype=object)
        parts = [sum((x * np.roll(taps, t) for t, x in enumerate(part) if x), 0 * taps) for part in parts]
    unit = 2 ** sum(bits for _, bits in filters)
    return [Fraction(int(y), unit) for part in parts for y in part]


def convolved_floats(vectors, filters, series):
    size = vectors.shape[1] // series
    whole = vectors.reshape(len(vectors), series, size).astype(float)
    for numerators, bits in filters:
        taps = np.array(numerators, dtype=float) / 2.0**bits
        matrix = np.array([np.roll(taps, t) for t in range(size)])
        whole = whole @ matrix
    return whole.reshape(len(vectors), -1)


# --- laws of what is kept ---


def exact_law(squares, p):
    """``{sum of the kept squares: probability}`` over every kept set, or None where there are too many sums."""
    groups = Counter(s for s in squares if s)
    if p == 1:
        return {sum(squares, Fraction(0)): mp.mpf(1)}
    if prod(count + 1 for count in groups.values()) > ATOMS:
        return None
    law = {Fraction(0): mp.mpf(1)}
    for square, count in groups.items():
        kept = binomial(count, p)
        longer = {}
        for (value, weight), (k, more) in itertools.product(law.items(), kept):
            longer[value + k * square] = longer.get(value + k * square, 0) + weight * more
        law = longer
    return law


def binomial(n, p):
    """``[(k, P(Bin(n, p) = k)), …]``."""
    success, failure = real(p), 1 - real(p)
    return [(k, mp.binomial(n, k) * success**k * failure ** (n - k)) for k in range(n + 1)]


def law_below(squares, p):
    """Values and weights in floats of a law below the true one: every square rounded down to a lattice."""
    squares = np.array([float(s) for s in squares if s])
    cells = CELLS * len(squares)
    unit = float(squares.sum()) / max(cells, 1)
    weights = np.zeros(cells + 1)
    weights[0] = 1.0
    for level in np.floor(squares / unit * (1 - 1e-12)).astype(int):
        moved = np.zeros_like(weights)
        moved[level:] = weights[: len(weights) - level]
        weights = (1 - p) * weights + p * moved  # sums of non-negative terms: relative errors far below 1e-12
    return np.arange(cells + 1) * unit * (1 - 1e-12), weights * (1 - 1e-12)


def law_in_floats(squares, p):
    """Values and log-weights of a law: for choosing, not for claims."""
    groups = Counter(s for s in squares.tolist() if s)
    if p == 1:
        return squares.sum(keepdims=True), np.zeros(1)
    if prod(count + 1 for count in groups.values()) > 20 * ATOMS:
        values, weights = law_below(squares, p)
        with np.errstate(divide="ignore"):
            return values, np.log(weights)
    values, weights = np.zeros(1), np.zeros(1)
    for square, count in groups.items():
        kept = np.arange(count + 1)
        values = np.add.outer(values, kept * square).ravel()
        weights = np.add.outer(weights, binom.logpmf(kept, count, p)).ravel()
    return values, weights


def log_profile(epsilon, u):
    """Logarithm of the Gaussian profile, in floats: for choosing, not for claims."""
    with np.errstate(all="ignore"):
        ratio = np.sqrt(u)
        first = log_ndtr(ratio / 2 - epsilon / ratio)
        second = epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)
        value = first + np.log1p(-np.exp(second - first))
        value = np.where(np.isfinite(value), value, first)
    return np.where(u > 0, value, -np.inf)


class Kept(NamedTuple):
    """Squares of a pair's difference; the law of the sum of those kept, ascending; whether the law is whole."""

    squares: list[Fraction]
    law: list[tuple[Fraction, mp.mpf]]
    is_whole: bool


class Pairs:
    """Candidate pairs of neighbours, each given by the squares of its difference.

    :param approximate: the squares in floats, a row for each pair.
    :param exact: index of a pair to its squares, as rationals.
    :param p: probability with which a step is kept, a rational.
    """

    def __init__(self, approximate, exact, p):
        self.p = p
        _, distinct = np.unique(np.sort(np.round(approximate, 9), axis=1), axis=0, return_index=True)
        self.rows = np.sort(distinct)
        self.squares = approximate[self.rows]
        self._exact = exact
        self._kept = {}
        self._laws = None

    @classmethod
    def of_differences(cls, vectors, filters, *, series, copies, p):
        """Differences of counts, filtered and repeated."""
        squares = np.tile(convolved_floats(vectors, filters, series) ** 2, copies)
        return cls(squares, lambda i: [y * y for y in convolved(vectors[i], filters, series)] * copies, p)

    def exact(self, index):
        """Return what is exact of a pair."""
        if index not in self._kept:
            squares = self._exact(self.rows[index])
            law, whole = exact_law(squares, self.p), True
            if law is None:
                values, weights = law_below(squares, float(self.p))
                law = dict(zip(map(Fraction, values.tolist()), map(mp.mpf, weights.tolist()), strict=True))
                whole = False
            self._kept[index] = Kept(squares, sorted(law.items()), whole)
        return self._kept[index]

    def _in_floats(self):
        """Values and log-weights of every pair's law: close, to choose by."""
        if self._laws is None:
            p, width = float(self.p), self.squares.shape[1]
            with np.errstate(divide="ignore"):
                if width <= SUBSETS:
                    masks = np.array(list(itertools.product((0, 1), repeat=width)))
                    weights = np.where(masks, p, 1 - p).prod(axis=1)
                    self._laws = self.squares @ masks.T, np.log(weights)[None]
                else:
                    laws = [law_in_floats(row, p) for row in self.squares]
                    longest = max(len(values) for values, _ in laws)
                    fill = [(0, longest - len(values)) for values, _ in laws]
                    self._laws = (
                        np.array([np.pad(v, n) for (v, _), n in zip(laws, fill, strict=True)]),
                        np.array([np.pad(w, n, constant_values=-np.inf) for (_, w), n in zip(laws, fill, strict=True)]),
                    )
        return self._laws

    def worst_for_profile(self, epsilon, scale):
        values, weights = self._in_floats()
        scores = logsumexp(weights + log_profile(epsilon, values / scale / scale), axis=1)
        return self._best(scores)

    def worst_for_renyi(self, alpha, scale):
        x = self.squares / scale / scale * (alpha * (alpha - 1) / 2)
        p = float(self.p)
        with np.errstate(all="ignore"):
            terms = np.where(
                x < 30, np.log1p(p * np.expm1(np.minimum(x, 30))), np.logaddexp(np.log1p(-p), np.log(p) + x)
            )
        return self._best(terms.sum(axis=1))

    def worst_for_tail(self, beyond):
        values, weights = self._in_floats()
        with np.errstate(all="ignore"):
            scores = logsumexp(np.where(values > beyond * (1 + 1e-9), weights, -np.inf), axis=1)
        return self._best(scores)

    def _best(self, scores):
        scores = np.where(np.isnan(scores), -np.inf, scores)
        tied = np.flatnonzero(scores >= scores.max() - 1e-13 * abs(scores.max())) if scores.max() > -np.inf else None
        among = np.arange(len(scores)) if tied is None else tied
        return int(among[np.argmax(self.squares[among].sum(axis=1))])


# --- divergences of a pair ---


def profile(law, epsilon, scale, *, shift=0):
    """``E δ_G(ε; √(S/σ² + shift))``: negligible terms left out, which is from below."""
    values = np.array([float(v) for v, _ in law]) / float(scale) ** 2 + float(shift)
    with np.errstate(divide="ignore"):
        scores = np.array([float(mp.log(w)) if w else -np.inf for _, w in law]) + log_profile(float(epsilon), values)
    matter = np.flatnonzero(scores >= scores.max() - 45) if scores.max() > -np.inf else range(len(law))
    variance = mp.mpf(scale) ** 2
    return mp.fsum(law[i][1] * gaussian_profile(epsilon, real(law[i][0]) / variance + shift) for i in matter)


def renyi(squares, alpha, scale, p):
    """Rényi divergence of order ``alpha``."""
    groups = [(real(s), count) for s, count in Counter(squares).items() if s]
    with mp.workdps(90):  # 1 − p + p·e^x is 1 but for x, which may be as small as 1e-30
        return renyi_of_squares(groups, alpha, scale, real(p))


def tail(law, beyond):
    """``P(S > beyond)``, for a rational ``beyond``."""
    return mp.fsum(weight for value, weight in law if value > beyond)


def quantile(law, failure):
    """The least value that ``S`` exceeds with probability at most ``failure``."""
    beyond = mp.mpf(0)
    for (value, weight), (lower, _) in zip(reversed(law), [*reversed(law[:-1]), (None, None)], strict=True):
        beyond += weight
        if lower is None or beyond > failure:
            return value
    raise AssertionError("a law has at least one value")


def delta_of_order(alpha, divergence, epsilon):
    """Canonne, Kamath & Steinke (2020), Proposition 12."""
    alpha = mp.mpf(alpha)
    return min(mp.mpf(1), mp.exp((alpha - 1) * (divergence - epsilon) + alpha * mp.log(1 - 1 / alpha)) / (alpha - 1))


def best_delta(divergence, epsilon, orders=40):
    """The proposition at the best order: a coarse search over ``log(α − 1)``, then golden section."""

    def at(x):
        alpha = 1 + mp.exp(x)
        return delta_of_order(alpha, divergence(alpha), epsilon)

    with mp.workdps(25):
        points = [mp.mpf(-7) + 20 * mp.mpf(j) / orders for j in range(orders + 1)]
        values = [at(x) for x in points]
        best = values.index(min(values))
        low, high = points[max(best - 1, 0)], points[min(best + 1, orders)]
        for _ in range(30):
            left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
            low, high = (low, right) if at(left) < at(right) else (left, high)
    return min(values[best], at((low + high) / 2))


# --- distances ---


def largest_norms(images):
    """Largest ℓ1 and ℓ2 norm among rows of exact numbers."""
    with mp.workdps(40):
        rows = [[real(y) for y in image] for image in images]
        return max(mp.fsum(map(abs, row)) for row in rows), max(mp.sqrt(mp.fsum(y * y for y in row)) for row in rows)


def within_ball(distance, size, *, whole):
    """Squares of vectors of ℓ2 norm at most ``distance``: one step, and ``s`` steps equally; integers if ``whole``."""
    for steps in sorted({1, min(2, size), max(1, size // 2), size}):
        square = Fraction(distance) ** 2 / steps
        yield [Fraction(isqrt(int(square)) ** 2) if whole else square] * steps + [Fraction(0)] * (size - steps)
