"""The level of a private series, and the levels of a panel of them with their joint error, from the means of tiers.

The *level* is the mean count of a step. The last tier counts everybody in full, so its mean is right, and noisy. The
finer ones say how much of the level is of people who come seldom. With ``W`` the weights of people by how often they
come (a row for each *frequency*, a column for each tier), the means of the tiers are

    ``y = W' c + noise``,  ``level = Σ c``,

where ``c``, the counts of a step by frequency, is the sum of three things:

* the *head*: those who come no more often than the first tier ends, of any size (a flat prior);
* a signed Gaussian process over the logarithm of the frequency (Matérn, 3/2), of some size;
* perhaps *regulars*, who come as often as can be.

Given the sizes, the estimate is the best linear unbiased one of kriging with an unknown mean (Rasmussen & Williams,
Gaussian Processes for Machine Learning, 2006, section 2.7): right for the head whatever its size. The sizes are
weighed by their restricted likelihood (Patterson & Thompson, Biometrika 58, 1971), that of the contrasts of ``y`` in
which the head cancels. It is even in these, so where nobody comes more often than the first tier ends, noise of either
sign does the same, and the estimate is right on average.

No estimator but the mean of the last tier is so whatever people do (docs/concepts/near-the-truth.md, "What limits
it"); of those who come very often, this one may miss a part. :func:`fit_level` and :func:`fit_panel_levels` may be
negative, as a level that is kept above zero is pushed up. Where a sum is known, :func:`positive_levels` divides it by
levels that are all above zero: there nothing is pushed up, as the sum stays.

The constants are priors, by orders of magnitude. tests/smoothing/test_levels.py measures the errors and the coverage
that they give, and tests/oracles/levels.py repeats the estimator from covariances, one prior at a time.
"""

import itertools
import math
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.smoothing.matrices import Array, FitError

#: Sizes of the process, by the error of the last tier alone, are 2, 4, … up to this power of 2: from what hardly shows
#: to a thousand times the noise.
_LEAST_POWERS: Final = 10
#: Where the means of the tiers are larger, sizes are this many powers of 2 beyond them, so that none is cut off.
_POWERS_BEYOND: Final = 2
#: The logarithm of the prior odds of any one size of regulars against none, 1 in 20: most logs have no such people.
_LOG_ODDS_OF_REGULARS: Final = -3.0
#: How far a key of a panel may depart from the shape of all, by its size: from hardly (0.1) to beyond likeness (1.6).
_DEPARTURES: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
#: The size of a key is at least this share of the mean of all keys, so that one that the noise hides may depart, too.
_LEAST_SHARE: Final = 0.3
#: Rounds of expectation and maximization for the shares of departures: 300 rounds move a level by a thousandth of its
#: error at 25 keys, by a tenth at 300.
_EM_ROUNDS: Final = 30
#: Before any is seen, departures are as common as if this many keys had been shared out equally: a few keys do not
#: rule a departure out.
_PRIOR_KEYS: Final = 4.0
#: Where a normal variable that is above zero is nearly exponential, by its deviation below.
_FAR_BELOW: Final = -30.0
#: So many keys are worked on at a time, to bound memory.
_KEYS_AT_A_TIME: Final = 64


class Prior(NamedTuple):
    """Prior distribution of counts by frequency.

    :param decays: powers of the frequency by which they may fall.
    :param length_scales: of the process, in the logarithm of the frequency.
    :param regular_sizes: how many regulars there may be, by the error of the last tier alone.
    :param tail_starts: how far beyond the first tier they may begin to fall, in the logarithm of the frequency.
    """

    decays: tuple[float, ...] = (-1.0, 0.0, 1.0)
    length_scales: tuple[float, ...] = (0.5, 1.0)
    regular_sizes: tuple[float, ...] = (0.0, 2.0, 8.0, 32.0, 128.0)
    tail_starts: tuple[float, ...] = (0.0,)

    @classmethod
    def of(cls, step_cap: int) -> "Prior":
        """Return the prior for this step cap.

        Above 1, a frequency is a sum of squares of what somebody has in each step. These are spread more widely, may
        lie far beyond the first tier for most people, and nobody has the step cap in every step.
        """
        if step_cap == 1:
            return cls()
        return cls(decays=(0.5, 1.0), length_scales=(1.0, 2.0), regular_sizes=(0.0,), tail_starts=(0.0, 2.0, 4.0, 6.0))


OF_COUNTS: Final = Prior()


class Process(NamedTuple):
    """The process for each decay, tail start and length scale, with a level of variance 1.

    :param roots: of the second moments of the means of the tiers and the level, in this order: ``L`` of ``L' L``.
    :param row_moments: second moments of the counts by frequency with these.
    """

    roots: Array
    row_moments: Array

    @classmethod
    def of(
        cls,
        ends: NDArray[np.int64],
        weights: Array,
        prior: Prior = OF_COUNTS,
    ) -> "Process":
        """Return it for rows of people with these frequencies, and their weights in each tier."""
        log_frequency, rows = np.log(ends), np.column_stack([weights, np.ones(len(ends))])
        width = np.diff(log_frequency, prepend=log_frequency[0] - 1.0)
        distance = math.sqrt(3) * np.abs(log_frequency[:, None] - log_frequency)
        roots, row_moments = [], []
        for length in prior.length_scales:
            factor = np.linalg.cholesky((1 + distance / length) * np.exp(-distance / length))
            for decay, start in itertools.product(prior.decays, prior.tail_starts):
                beyond = np.maximum(log_frequency - log_frequency[0] - start, 0.0)
                scaled = (width * np.exp(-decay * beyond))[:, None] * factor
                scaled /= np.linalg.norm(scaled.sum(axis=0))
                moments = scaled.T @ rows
                roots.append(np.linalg.qr(moments, mode="r") if len(moments) > rows.shape[1] else moments)
                row_moments.append(scaled @ moments)
        return cls(np.array(roots), np.array(row_moments))


class Estimates(NamedTuple):
    """For each of many priors, the best linear estimate of a level that is right for the head whatever its size.

    :param means: the estimates.
    :param variances: of their errors.
    :param evidence: logarithm of the restricted likelihood, up to what priors have in common.
    :param scaled_residuals: ``Σ⁻¹ (y - head · shape)``, where ``Σ`` is the covariance of ``y`` beside the head.
    :param head: its level, by generalized least squares.
    """

    means: Array
    variances: Array
    evidence: Array
    scaled_residuals: Array
    head: Array

    @classmethod
    def of(cls, values: Array, roots: Array, noise: float, shape: Array) -> "Estimates":
        """Return those for priors with these roots of the second moments of values and level, beside the head.

        Let ``y`` be the values, ``s`` the shape, ``σ`` the noise, and ``L = [A b]`` a root, ``A`` of ``y`` and ``b`` of
        the level. An estimate ``w' y`` is right for the head if ``w' s = 1``, that is ``w = w₀ + N z`` with
        ``w₀ = s / s' s`` and ``N`` an orthonormal basis of what is orthogonal to ``s``. The variance of its error is

            ``|e + M z|²``  with  ``e = [σ w₀; A w₀ - b]``  and  ``M = [σ N; A N] = Q R``,

        which is least at ``z = -R⁻¹ Q' e``. The contrasts ``N' y`` have the covariance ``R' R``, so the evidence is
        ``-log |det R| - |R⁻ᵀ N' y|² / 2``, and the scaled residuals are ``N R⁻¹ R⁻ᵀ N' y``. The head is ``w₀' (y - Σ ·
        scaled residuals)`` with ``Σ = σ² I + A' A``. All is by orthogonal transforms, as sizes of priors are far apart.

        :param values: of several series, with an axis of length 1 for the priors of each.
        :param shape: the values of a head whose level is 1.
        """
        unbiased_weights = shape / (shape @ shape)
        null_basis = np.linalg.qr(shape[:, None], mode="complete")[0][:, 1:]
        by_values, of_level = roots[..., :-1], roots[..., -1]
        extent = (*roots.shape[:-2], *null_basis.shape)
        design_matrix = np.concatenate([np.broadcast_to(noise * null_basis, extent), by_values @ null_basis], axis=-2)
        error = np.concatenate(
            [np.broadcast_to(noise * unbiased_weights, extent[:-1]), by_values @ unbiased_weights - of_level], axis=-1
        )
        q, r = np.linalg.qr(design_matrix)
        projection = (q.swapaxes(-1, -2) @ error[..., None])[..., 0]
        best_weights = unbiased_weights - _solution(r, projection) @ null_basis.T
        variances = np.sum((error - (q @ projection[..., None])[..., 0]) ** 2, axis=-1)
        scores = _solution(r.swapaxes(-1, -2), np.broadcast_to(values @ null_basis, projection.shape))
        evidence = -np.sum(np.log(np.abs(np.diagonal(r, axis1=-2, axis2=-1))), axis=-1) - np.sum(scores**2, -1) / 2
        scaled_residuals = _solution(r, scores) @ null_basis.T
        fitted = (by_values @ scaled_residuals[..., None])[..., 0]
        head = (
            values @ unbiased_weights
            - noise**2 * (scaled_residuals @ unbiased_weights)
            - np.sum((by_values @ unbiased_weights) * fitted, axis=-1)
        )
        return cls(np.sum(best_weights * values, axis=-1), variances, evidence, scaled_residuals, head)


def _solution(matrices: Array, sides: Array) -> Array:
    return np.asarray(np.linalg.solve(matrices, sides[..., None])[..., 0], dtype=np.float64)


class Level(NamedTuple):
    """A level, the variance of its error, and its shape.

    :param by_frequency: its shares by frequency, as far as they are not negative.
    :param shape: the means of the tiers, if the level were 1 and had these shares.
    """

    value: float
    variance: float
    by_frequency: Array
    shape: Array


def fit_level(
    values: Array,
    ends: NDArray[np.int64],
    weights: Array,
    noise: float,
    *,
    prior: Prior = OF_COUNTS,
    process: Process | None = None,
) -> Level:
    """Return the level, given the mean of each tier; it may be negative.

    :param ends: the frequencies of people who have a row of weights.
    :param weights: a column for each tier. In the last they are equal.
    :param noise: standard deviation of each of the means.
    :param process: of these ends and weights, if it is at hand.
    :raises FitError: if the result is not finite.
    """
    process, regular_sizes = process or Process.of(ends, weights, prior), np.array(prior.regular_sizes)
    unit = noise / weights[0, -1]  # error of the last tier alone
    with np.errstate(all="ignore"):
        reach = float(np.log2(1 + np.max(np.abs(values) / weights.max(axis=0)) / unit)) + _POWERS_BEYOND
        if not reach < 200:
            raise FitError("the level was not found")
        sizes = 2.0 ** np.arange(1, max(_LEAST_POWERS, math.floor(reach)) + 1)
        scaled = (unit * sizes)[:, None, None, None] * process.roots
        of_regulars = regular_sizes[:, None, None] * (unit * np.append(weights[-1], 1.0))
        extent = (len(sizes), len(process.roots), len(regular_sizes))
        roots = np.concatenate(
            [
                np.broadcast_to(scaled[:, :, None], (*extent, *scaled.shape[2:])),
                np.broadcast_to(of_regulars, (*extent, *of_regulars.shape[1:])),
            ],
            axis=-2,
        )
        estimates = Estimates.of(values, roots, noise, weights[0])
        log_prior = np.log(sizes)[:, None, None] + _LOG_ODDS_OF_REGULARS * (regular_sizes > 0)
        probability = _probabilities(estimates.evidence + log_prior, axis=None)
        value = float(np.sum(probability * estimates.means))
        variance = float(np.sum(probability * (estimates.variances + (estimates.means - value) ** 2)))
        # By row, the mean over the priors.
        residuals = probability[..., None] * estimates.scaled_residuals
        by_row = np.einsum(
            "a,bri,abci->r", (unit * sizes) ** 2, process.row_moments[..., :-1], residuals, optimize=True
        )
        by_row[-1] += np.einsum("c,abci,i->", (unit * regular_sizes) ** 2, residuals, weights[-1])
        by_row[0] += np.sum(probability * estimates.head)
        positive = np.maximum(by_row, 0.0)
        positive[0] += not positive.any()
        positive /= positive.sum()
    if not (math.isfinite(value) and math.isfinite(variance)):
        raise FitError("the level was not found")
    return Level(value, variance, positive, positive @ weights)


class PanelLevels(NamedTuple):
    """Levels of keys, which add up to the level of all, and their joint error.

    :param variances: those that they would have if they did not add up.
    :param variance_of_sum: that of the level of all.
    """

    values: Array
    variances: Array
    variance_of_sum: float

    @property
    def coupling(self) -> float:
        """Covariance of two errors by the product of their own variances: below 0 if they tend apart."""
        total = float(self.variances.sum())
        return (self.variance_of_sum - total) / total**2

    @property
    def covariance(self) -> Array:
        """That of the errors of all levels."""
        matrix: Array = np.diag(self.variances) + self.coupling * np.outer(self.variances, self.variances)
        return matrix


def fit_panel_levels(
    values: Array,
    ends: NDArray[np.int64],
    weights: Array,
    noise: float,
    of_all: tuple[Array, float] | None = None,
    *,
    prior: Prior = OF_COUNTS,
) -> PanelLevels:
    """Return the levels of all keys, given the means of the tiers of each, in a row; each may be negative.

    The shape by frequency is seen best in all keys together, and takes the place of the head. Each key may depart from
    it, as far as its own values say and those of others (empirical Bayes: the shares of the departures are fitted).
    What the level of all is beside the sum of the keys is divided by their variances.

    :param of_all: what the means of all keys add up to, and its noise, if that is known better than from the keys.
    :raises FitError: if the result is not finite.
    """
    keys, process = len(values), Process.of(ends, weights, prior)
    sums, noise_of_sums = (values.sum(axis=0), noise * keys**0.5) if of_all is None else of_all
    total, variance_of_sum, _, shape = fit_level(sums, ends, weights, noise_of_sums, prior=prior, process=process)
    with np.errstate(all="ignore"):
        rough = values @ shape / (shape @ shape)
        size = np.maximum(rough, _LEAST_SHARE * max(total, variance_of_sum**0.5) / keys)
        departures = np.concatenate([departure * process.roots for departure in _DEPARTURES])
        blocks = [slice(k, k + _KEYS_AT_A_TIME) for k in range(0, keys, _KEYS_AT_A_TIME)]
        estimates = [
            Estimates.of(values[block, None], size[block, None, None, None] * departures, noise, shape)[:3]
            for block in blocks
        ]
        means, variances, evidence = map(np.concatenate, zip(*estimates, strict=True))
        shares = np.full(len(departures), 1 / len(departures))
        for _ in range(_EM_ROUNDS):
            probability = _probabilities(evidence + np.log(shares), axis=1)
            shares = (probability.sum(axis=0) + _PRIOR_KEYS / len(shares)) / (keys + _PRIOR_KEYS)
        levels = np.sum(probability * means, axis=1)
        key_variances = np.sum(probability * (variances + (means - levels[:, None]) ** 2), axis=1)
        levels = levels + key_variances / key_variances.sum() * (total - levels.sum())
    if not (np.all(np.isfinite(levels)) and np.all(key_variances > 0)):
        raise FitError("the levels were not found")
    return PanelLevels(levels, key_variances, variance_of_sum)


def positive_levels(levels: Array, variances: Array, total: float) -> tuple[Array, Array]:
    """Return positive levels with this sum, and their variances conditional on positivity, not on the sum.

    Given estimates with normal errors, they are the means of the posterior in which any division of the total is as
    likely as any other, but that only the mean of the sum is held: of normal variables above zero, tilted by one factor
    ``exp(-tilt · Σ levels)`` such that their means add up to the total. Levels that are known well lose or gain by
    their variances; one that is not told from nothing keeps what it may be. Where the total is not above zero itself,
    all stays as it is.
    """
    if not total > 0:
        return levels, variances
    error = np.sqrt(variances)

    def moments(tilt: float) -> tuple[Array, Array]:
        """Means and variances of the tilted variables above zero."""
        by_error = levels / error - tilt * error
        near = np.maximum(by_error, _FAR_BELOW)
        ratio = np.exp(-(near**2) / 2 - scipy.special.log_ndtr(near)) / math.sqrt(2 * math.pi)
        beyond, square = near + ratio, 1 - ratio * (near + ratio)
        far = by_error < _FAR_BELOW  # where they are nearly exponential
        beyond = np.where(far, 1 / np.maximum(-by_error, -_FAR_BELOW), beyond)
        return error * beyond, variances * np.where(far, beyond**2, square)

    start = float((levels.sum() - total) / variances.sum())
    width = 1 / math.sqrt(float(variances.sum()))
    low = high = start
    while moments(low)[0].sum() < total:
        low, width = low - width, 2 * width
    while moments(high)[0].sum() > total:
        high, width = high + width, 2 * width
    tilt = low if low == high else scipy.optimize.brentq(lambda tilt: float(moments(tilt)[0].sum()) - total, low, high)
    means, remainders = moments(tilt)
    return means * (total / means.sum()), remainders


def _probabilities(log_weights: Array, axis: int | None) -> Array:
    """Return probabilities with these logarithms, up to a constant."""
    weights = np.exp(log_weights - log_weights.max(axis=axis, keepdims=True))
    probabilities: Array = weights / weights.sum(axis=axis, keepdims=True)
    return probabilities
