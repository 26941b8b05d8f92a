"""Noisy entries of a histogram, fitted by a smooth curve: the noise is known, so what the entries leave open is too."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

__all__ = ["denoised"]

#: Standard deviations of the change of the curve's slope over an octave.
_BENDS: Final = tuple(0.05 * 4.0**k for k in range(4))
#: Prior standard deviation of the curve's level and slope.
_VAGUE: Final = 10.0

Array = NDArray[np.float64]


def denoised(counts: Array, noise: float, widths: Array, places: Array) -> tuple[Array, Array]:
    """Return the expected entries of a histogram, never negative, and their covariance.

    How smooth the curve is, nobody knows: fits of several degrees are averaged by their evidence.

    :param counts: three entries or more, with noise.
    :param noise: its standard deviation, above 0.
    :param widths: of the entries; on a level curve, entries are in proportion to them.
    :param places: of the entries, ascending, in octaves.
    """
    fits = [_fit(counts, noise, widths, places, bend) for bend in _BENDS]
    evidence = np.array([fit.evidence for fit in fits])
    chance = np.exp(evidence - evidence.max())
    chance /= chance.sum()
    mean = np.tensordot(chance, [fit.found for fit in fits], axes=1)
    around = [fit.covariance + np.outer(fit.found - mean, fit.found - mean) for fit in fits]
    return mean, np.tensordot(chance, around, axes=1)


class _Fit(NamedTuple):
    """Expected individuals in each entry, their covariance, and the log probability of what was seen."""

    found: Array
    covariance: Array
    evidence: float


def _fit(counts: Array, noise: float, widths: Array, places: Array, bend: float) -> _Fit:
    """Fit ``counts ~ N(m, noise² + m)``, ``m = widths·exp(θ)``, by Fisher scoring and Laplace's approximation.

    The slope of the curve θ changes by ``bend`` an octave.
    """
    start = math.log(max(float(np.sum(counts)), noise) / float(np.sum(widths)))
    precision = np.linalg.inv(_prior_covariance(places, bend))

    def parts(theta: Array) -> tuple[float, Array, Array]:
        m = widths * np.exp(theta)
        variance = noise**2 + m
        off = theta - start
        loss = np.sum((counts - m) ** 2 / variance + np.log(variance)) / 2 + off @ precision @ off / 2
        slope = precision @ off - m * ((counts - m) / variance + ((counts - m) ** 2 / variance - 1) / (2 * variance))
        curvature = precision + np.diag(m**2 / variance + m**2 / (2 * variance**2))
        return float(loss), slope, np.asarray(curvature, dtype=np.float64)

    found = minimize(  # type: ignore[call-overload]
        lambda theta: parts(theta)[:2],
        np.full(len(counts), start),
        jac=True,
        hess=lambda theta: parts(theta)[2],
        method="trust-exact",
        options={"max_trust_radius": 2.0, "gtol": 1e-6},  # far away, exp(θ) leaves the range of floats
    )
    theta, (loss, _, curvature) = found.x, parts(found.x)
    evidence = -loss + (np.linalg.slogdet(precision)[1] - np.linalg.slogdet(curvature)[1]) / 2
    # Individuals vary around the curve; the share of that which shows through the noise is kept.
    curve = widths * np.exp(theta)
    share = curve / (curve + noise**2)
    moved = (1 - share) * curve
    covariance = moved[:, None] * np.linalg.inv(curvature) * moved + np.diag(share * noise**2)
    return _Fit(np.maximum(curve + share * (counts - curve), 0.0), covariance, float(evidence))


def _prior_covariance(places: Array, bend: float) -> Array:
    """Covariance of an integrated random walk from a vague start."""
    at = places - places[0]
    near, far = np.minimum(at[:, None], at), np.maximum(at[:, None], at)
    walk = near**2 * (far - near / 3) / 2
    return np.asarray(bend**2 * walk + _VAGUE**2 * (1 + np.outer(at, at)) + 1e-9 * np.eye(len(at)))
