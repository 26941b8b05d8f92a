"""The level of a private series, and the levels of a panel of them with their joint error, from the means of tiers.

The last tier counts everybody in full, so its mean is right, and noisy. The finer ones say how much of the level is of
people who come seldom. Counts by how often people come are taken as three things: those of the *head*, who come no more
often than the first tier ends, of any size; a signed Gaussian process over the logarithm of how often, of some size;
and perhaps people who come as often as can be. Given the sizes, the best estimate that is right for the head whatever
its size is linear in the means. The sizes are weighed by their evidence, which is even in all that the means show
beside the head.

Nothing here keeps a level above zero, as that would push it up: where nobody comes more often than the first tier
ends, noise of either sign does the same, and the estimate is right on average. No estimator but the mean of the last
tier is so whatever people do; of those who come very often, this one may miss a part.
"""

import itertools
import math
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.smoothing.matrices import Array, FitError

#: Its size by the error of the last tier alone: 2, 4, … up to this power of 2, or further where the means are larger.
_LARGEST: Final = 10
_ROOM: Final = 2
#: The logarithm of how likely any size of those who come as often as can be is beside none.
_RARE: Final = -3.0
#: How far a key of a panel may be from the shape of all, by its level; no less than this share of the mean of all; how
#: often the shares of these are worked out, and of how many keys they are known beforehand.
_APART: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
_LEAST: Final = 0.3
_ROUNDS: Final = 30
_BEFOREHAND: Final = 4.0
#: Where a normal variable that is above zero is exponential, by its deviation below.
_FAR: Final = -30.0
#: So many keys are worked on at a time.
_KEYS: Final = 64


class Prior(NamedTuple):
    """Prior distribution of counts by how often people come.

    :param falls: how fast they may fall, by powers of how often.
    :param lengths: over which differences of its logarithm they may be alike.
    :param always: sizes of those who come as often as can be, by the error of the last tier alone.
    :param starts: how far beyond the first tier they may begin to fall, by the logarithm of how often.
    """

    falls: tuple[float, ...] = (-1.0, 0.0, 1.0)
    lengths: tuple[float, ...] = (0.5, 1.0)
    always: tuple[float, ...] = (0.0, 2.0, 8.0, 32.0, 128.0)
    starts: tuple[float, ...] = (0.0,)

    @classmethod
    def of(cls, step_cap: int) -> "Prior":
        """Return it for people with so much in a step.

        In squares, they are spread widely, and nobody is at the end. Most may have far more than where tiers begin.
        """
        if step_cap == 1:
            return cls()
        return cls(falls=(0.5, 1.0), lengths=(1.0, 2.0), always=(0.0,), starts=(0.0, 2.0, 4.0, 6.0))


OF_COUNTS: Final = Prior()


class Process(NamedTuple):
    """The process, each of another fall and length, with a total of variance 1.

    :param roots: of the second moments of the means of the tiers and the total, in this order: ``L`` of ``L' L``.
    :param by_row: second moments of the counts by how often with these.
    """

    roots: Array
    by_row: Array

    @classmethod
    def of(
        cls,
        ends: NDArray[np.int64],
        weights: Array,
        prior: Prior = OF_COUNTS,
    ) -> "Process":
        """Return it for rows of people who come so often, with these weights in each tier."""
        often, rows = np.log(ends), np.column_stack([weights, np.ones(len(ends))])
        width = np.diff(often, prepend=often[0] - 1.0)
        near = math.sqrt(3) * np.abs(often[:, None] - often)
        roots, by_row = [], []
        for length in prior.lengths:
            factor = np.linalg.cholesky((1 + near / length) * np.exp(-near / length))
            for fall, start in itertools.product(prior.falls, prior.starts):
                beyond = np.maximum(often - often[0] - start, 0.0)
                sized = (width * np.exp(-fall * beyond))[:, None] * factor
                sized /= np.linalg.norm(sized.sum(axis=0))
                moments = sized.T @ rows
                roots.append(np.linalg.qr(moments, mode="r") if len(moments) > rows.shape[1] else moments)
                by_row.append(sized @ moments)
        return cls(np.array(roots), np.array(by_row))


class Estimates(NamedTuple):
    """For each of many priors, the best linear estimate of a total that is right for the head whatever its size."""

    means: Array
    variances: Array
    evidence: Array  # logarithm, but for what priors have in common
    beside: Array  # the precision times what the values show beside the head
    head: Array  # its total

    @classmethod
    def of(cls, values: Array, roots: Array, noise: float, shape: Array) -> "Estimates":
        """Return those for priors with these roots of the second moments of values and total, beside the head.

        By orthogonal transforms, as sizes of priors are far apart.

        :param values: of several series, with an axis of length 1 for the priors of each.
        :param shape: the values of a head whose total is 1.
        """
        right, free = shape / (shape @ shape), np.linalg.qr(shape[:, None], mode="complete")[0][:, 1:]
        by_values, of_total = roots[..., :-1], roots[..., -1]
        extent = (*roots.shape[:-2], *free.shape)
        moves = np.concatenate([np.broadcast_to(noise * free, extent), by_values @ free], axis=-2)
        error = np.concatenate([np.broadcast_to(noise * right, extent[:-1]), by_values @ right - of_total], axis=-1)
        turn, triangle = np.linalg.qr(moves)
        less = (turn.swapaxes(-1, -2) @ error[..., None])[..., 0]
        by_value = right - _solved(triangle, less) @ free.T
        variances = np.sum((error - (turn @ less[..., None])[..., 0]) ** 2, axis=-1)
        scores = _solved(triangle.swapaxes(-1, -2), np.broadcast_to(values @ free, less.shape))
        evidence = (
            -np.sum(np.log(np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))), axis=-1) - np.sum(scores**2, -1) / 2
        )
        beside = _solved(triangle, scores) @ free.T
        projection = (by_values @ beside[..., None])[..., 0]
        head = values @ right - noise**2 * (beside @ right) - np.sum((by_values @ right) * projection, axis=-1)
        return cls(np.sum(by_value * values, axis=-1), variances, evidence, beside, head)


def _solved(matrices: Array, sides: Array) -> Array:
    return np.asarray(np.linalg.solve(matrices, sides[..., None])[..., 0], dtype=np.float64)


class Level(NamedTuple):
    """A total of all levels and its variance, and its shape.

    :param by_often: its shares by how often people come, as far as they are not negative.
    :param shape: the means of the tiers by these.
    """

    total: float
    variance: float
    by_often: Array
    shape: Array


def level(
    values: Array,
    ends: NDArray[np.int64],
    weights: Array,
    noise: float,
    *,
    prior: Prior = OF_COUNTS,
    process: Process | None = None,
) -> Level:
    """Return the level, given the mean of each tier; it may be negative.

    :param ends: how often people come who have a row of weights.
    :param weights: a column for each tier. In the last they are equal.
    :param noise: standard deviation of each of the means.
    :param process: of these ends and weights, if it is at hand.
    :raises FitError: if numbers are beyond all measure.
    """
    process, always = process or Process.of(ends, weights, prior), prior.always
    unit = noise / weights[0, -1]
    with np.errstate(all="ignore"):
        reach = float(np.log2(1 + np.max(np.abs(values) / weights.max(axis=0)) / unit)) + _ROOM
        if not reach < 200:
            raise FitError("the level was not found")
        sizes = 2.0 ** np.arange(1, max(_LARGEST, math.floor(reach)) + 1)
        scaled = (unit * sizes)[:, None, None, None] * process.roots
        at_end = np.array(always)[:, None, None] * (unit * np.append(weights[-1], 1.0))
        shape = (len(sizes), len(process.roots), len(always))
        roots = np.concatenate(
            [
                np.broadcast_to(scaled[:, :, None], (*shape, *scaled.shape[2:])),
                np.broadcast_to(at_end, (*shape, *at_end.shape[1:])),
            ],
            axis=-2,
        )
        estimates = Estimates.of(values, roots, noise, weights[0])
        likely = np.log(sizes)[:, None, None] + _RARE * (np.array(always) > 0)
        chance = _chances(estimates.evidence + likely, axis=None)
        total = float(np.sum(chance * estimates.means))
        variance = float(np.sum(chance * (estimates.variances + (estimates.means - total) ** 2)))
        # By row, the mean over the priors.
        pull = chance[..., None] * estimates.beside
        by_row = np.einsum("a,bri,abci->r", (unit * sizes) ** 2, process.by_row[..., :-1], pull, optimize=True)
        by_row[-1] += np.einsum("c,abci,i->", (unit * np.array(always)) ** 2, pull, weights[-1])
        by_row[0] += np.sum(chance * estimates.head)
        positive = np.maximum(by_row, 0.0)
        positive[0] += not positive.any()
        positive /= positive.sum()
    if not (math.isfinite(total) and math.isfinite(variance)):
        raise FitError("the level was not found")
    return Level(total, variance, positive, positive @ weights)


class Panel(NamedTuple):
    """Levels of keys, which add up to the level of all, and their joint error.

    :param variances: those that they would have if they did not add up.
    :param variance: of the level of all.
    """

    levels: Array
    variances: Array
    variance: float

    @property
    def shared(self) -> float:
        """By how much two errors go together, by the product of their own variances: less than 0 if apart."""
        total = float(self.variances.sum())
        return (self.variance - total) / total**2

    @property
    def covariance(self) -> Array:
        """That of the errors of all levels."""
        matrix: Array = np.diag(self.variances) + self.shared * np.outer(self.variances, self.variances)
        return matrix


def panel(
    values: Array,
    ends: NDArray[np.int64],
    weights: Array,
    noise: float,
    of_all: tuple[Array, float] | None = None,
    *,
    prior: Prior = OF_COUNTS,
) -> Panel:
    """Return the levels of all keys, given the means of the tiers of each, in a row.

    How many people there are who come so often is seen best in all keys together. Each key may depart from this shape,
    as far as its own values say and those of others. What the level of all is beside the sum of the keys is shared by
    their variances.

    :param of_all: what the means of all keys add up to, and its noise, if that is known better than from the keys.
    :raises FitError: if numbers are beyond all measure.
    """
    keys, process = len(values), Process.of(ends, weights, prior)
    sums, noise_of_sums = (values.sum(axis=0), noise * keys**0.5) if of_all is None else of_all
    total, variance, _, shape = level(sums, ends, weights, noise_of_sums, prior=prior, process=process)
    with np.errstate(all="ignore"):
        rough = values @ shape / (shape @ shape)
        size = np.maximum(rough, _LEAST * max(total, variance**0.5) / keys)
        departures = np.concatenate([distance * process.roots for distance in _APART])
        some = [
            Estimates.of(values[k : k + _KEYS, None], size[k : k + _KEYS, None, None, None] * departures, noise, shape)[
                :3
            ]
            for k in range(0, keys, _KEYS)
        ]
        means, variances, evidence = map(np.concatenate, zip(*some, strict=True))
        often = np.full(len(departures), 1 / len(departures))
        for _ in range(_ROUNDS):
            chance = _chances(evidence + np.log(often), axis=1)
            often = (chance.sum(axis=0) + _BEFOREHAND / len(often)) / (keys + _BEFOREHAND)
        levels = np.sum(chance * means, axis=1)
        key_variances = np.sum(chance * (variances + (means - levels[:, None]) ** 2), axis=1)
        levels = levels + key_variances / key_variances.sum() * (total - levels.sum())
    if not (np.all(np.isfinite(levels)) and np.all(key_variances > 0)):
        raise FitError("the levels were not found")
    return Panel(levels, key_variances, variance)


def above_zero(levels: Array, variances: Array, total: float) -> tuple[Array, Array]:
    """Return levels above zero that add up to a total, and their variances without what that tells of them.

    Given estimates with normal errors, they are the means of the posterior in which any division of the total is as
    likely as any other, but that only the mean of the sum is held. Levels that are known well lose or gain by their
    variances; one that is not told from nothing keeps what it may be. Where the total is not above zero itself, all
    stays as it is.
    """
    if not total > 0:
        return levels, variances
    error = np.sqrt(variances)

    def at(tilt: float) -> tuple[Array, Array]:
        """Means and variances of normal variables above zero, the less likely the larger they are by so much."""
        by_error = levels / error - tilt * error
        near = np.maximum(by_error, _FAR)
        ratio = np.exp(-(near**2) / 2 - scipy.special.log_ndtr(near)) / math.sqrt(2 * math.pi)
        beyond, square = near + ratio, 1 - ratio * (near + ratio)
        far = by_error < _FAR  # where they are nearly exponential
        beyond = np.where(far, 1 / np.maximum(-by_error, -_FAR), beyond)
        return error * beyond, variances * np.where(far, beyond**2, square)

    start = float((levels.sum() - total) / variances.sum())
    width = 1 / math.sqrt(float(variances.sum()))
    low = high = start
    while at(low)[0].sum() < total:
        low, width = low - width, 2 * width
    while at(high)[0].sum() > total:
        high, width = high + width, 2 * width
    tilt = low if low == high else scipy.optimize.brentq(lambda tilt: float(at(tilt)[0].sum()) - total, low, high)
    means, remainder = at(tilt)
    return means * (total / means.sum()), remainder


def _chances(evidence: Array, axis: int | None) -> Array:
    """Return probabilities with these logarithms, up to a constant."""
    likely = np.exp(evidence - evidence.max(axis=axis, keepdims=True))
    chances: Array = likely / likely.sum(axis=axis, keepdims=True)
    return chances
