"""Denoising of a histogram by a smooth curve, which may end before the last entry.

The noise is known. The smoothness of the curve and its end are not: all combinations are fitted, and averaged by their
evidence (Bayesian model averaging), so that the covariance includes what the entries leave open.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Standard deviations of the change of the curve's slope over an octave, as candidates.
_BENDS: Final = tuple(0.05 * 4.0**k for k in range(4))
#: Prior standard deviation of the curve's level and slope.
_VAGUE: Final = 10.0
#: Prior odds that the curve reaches the last entry, against its end at a given earlier entry.
_OPEN: Final = 4
_MAX_ITERATIONS: Final = 200


def denoise(
    counts: NDArray[np.float64], noise: float, widths: NDArray[np.float64], places: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected entries of a histogram, which are not negative, and their covariance.

    :param counts: at least three noisy entries.
    :param noise: its standard deviation, above 0.
    :param widths: of the entries; a flat curve has entries in proportion to them.
    :param places: of the entries, ascending, in octaves.
    """
    ends = range(2, len(counts) + 1)
    fits = [_fit(counts, noise, widths[:end], places[:end], bend) for end in ends for bend in _BENDS]
    individuals, covariance, evidence = (np.array(part) for part in zip(*fits, strict=True))
    evidence[-len(_BENDS) :] += math.log(_OPEN)
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    mean = chance @ individuals
    off = individuals - mean
    return mean, np.tensordot(chance, covariance + off[:, :, None] * off[:, None, :], axes=1)


def _fit(
    counts: NDArray[np.float64], noise: float, widths: NDArray[np.float64], places: NDArray[np.float64], bend: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Fit ``counts ~ N(m, noise² + m)``, ``m = widths·exp(θ)``, to a curve θ whose slope changes by ``bend`` an octave.

    Entries without a place are taken to be empty. The mode is found by Fisher scoring, the evidence by Laplace's
    approximation.

    :return: expected individuals in each entry, given the noisy entries; their covariance; and the logarithm of the
        probability of the noisy entries, up to a constant.
    """
    counts, beyond = counts[: len(places)], counts[len(places) :]
    n = len(counts)
    start = math.log(max(float(np.sum(counts)), noise) / float(np.sum(widths)))
    precision = np.linalg.inv(_prior_covariance(places, bend))

    def parts(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        m = widths * np.exp(theta)
        variance = noise**2 + m
        off = theta - start
        loss = np.sum((counts - m) ** 2 / variance + np.log(variance)) / 2 + off @ precision @ off / 2
        slope = precision @ off - m * ((counts - m) / variance + ((counts - m) ** 2 / variance - 1) / (2 * variance))
        curvature = precision + np.diag(m**2 / variance + m**2 / (2 * variance**2))
        return float(loss), slope, np.asarray(curvature, dtype=np.float64)

    theta = np.full(n, start)
    loss, slope, curvature = parts(theta)
    for _ in range(_MAX_ITERATIONS):
        move = np.linalg.solve(curvature, slope)
        move /= max(1.0, float(np.max(np.abs(move))) / 2)
        for _ in range(30):
            trial = parts(theta - move)
            if trial[0] < loss:
                break
            move /= 2
        else:
            break
        theta = theta - move
        (loss, slope, curvature), gain = trial, loss - trial[0]
        if gain < 1e-9:
            break
    evidence = -loss + (np.linalg.slogdet(precision)[1] - np.linalg.slogdet(curvature)[1]) / 2
    evidence -= np.sum(beyond**2 / noise**2 + math.log(noise**2)) / 2
    # Individuals vary around the curve by chance; the noisy entries determine a share of that variation.
    curve = widths * np.exp(theta)
    share = curve / (curve + noise**2)
    response = (1 - share) * curve
    expected, covariance = np.zeros(n + len(beyond)), np.zeros((n + len(beyond),) * 2)
    expected[:n] = np.maximum(curve + share * (counts - curve), 0.0)
    covariance[:n, :n] = response[:, None] * np.linalg.inv(curvature) * response + np.diag(share * noise**2)
    return expected, covariance, float(evidence)


def _prior_covariance(places: NDArray[np.float64], bend: float) -> NDArray[np.float64]:
    """Return the covariance of an integrated random walk whose slope changes by ``bend`` an octave."""
    at = places - places[0]
    near, far = np.minimum(at[:, None], at), np.maximum(at[:, None], at)
    walk = near**2 * (far - near / 3) / 2
    return np.asarray(bend**2 * walk + _VAGUE**2 * (1 + np.outer(at, at)) + 1e-9 * np.eye(len(at)))
