"""Smoothing by dense Gaussian conditioning, and wavelets by going through every shift: no recursion over time."""

import numpy as np


def covariance(steps, *, size, departure, duration, waves=(), trend=None):
    """Prior covariance of f at ``steps``: level, departure, drifting waves, trend.

    :param waves: of each, its variance, its frequency, and the variances of its drift's half-waves by its own.
    :param trend: variances of its half-waves, beside a straight line.
    """

    def slow(half_waves):
        at = np.cos(np.pi * half_waves * (steps + 0.5) / size)
        return np.outer(at, at)

    apart = steps[:, None] - steps[None, :]
    total = 1.0 + departure * np.exp(-np.abs(apart) / duration)
    for variance, frequency, drifts in waves:
        moving = sum((drift * slow(j) for j, drift in enumerate(drifts, 1)), np.ones(apart.shape))
        total = total + variance * np.cos(2 * np.pi * frequency * apart) * moving
    if trend is not None:
        line = 2 * (steps + 0.5) / size - 1
        total = total + np.outer(line, line) + sum(variance * slow(j) for j, variance in enumerate(trend, 1))
    return total


def condition(prior, design, values, variance):
    """Mean and variance everywhere, given noisy values of the rows of ``design``, and the log likelihood."""
    seen = design @ prior @ design.T + variance * np.eye(len(values))
    gain = np.linalg.solve(seen, design @ prior).T
    likelihood = -0.5 * (
        values @ np.linalg.solve(seen, values) + np.linalg.slogdet(seen)[1] + len(values) * np.log(2 * np.pi)
    )
    return gain @ values, np.diag(prior) - np.sum(gain * (prior @ design.T), axis=1), likelihood


def haar(values, variance, depth, quantile):
    """Average over every shift of the circle of the thresholded Haar transform, each by recursion over pairs."""

    def denoise(row, scale):
        if scale > depth:
            return row
        average, difference = (row[::2] + row[1::2]) / 2, (row[::2] - row[1::2]) / 2
        deviation = np.sqrt((variance + np.maximum(average, 0)) / 2**scale)
        kept = np.where(np.abs(difference) > quantile * deviation, difference, 0)
        below = denoise(average, scale + 1)
        return np.stack([below + kept, below - kept], axis=1).ravel()

    shifts = range(len(values))
    return np.mean([np.roll(denoise(np.roll(values, -shift), 1), shift) for shift in shifts], axis=0)


def posterior_covariance(prior, design, variance):
    """Covariance everywhere, given noisy values of the rows of ``design``."""
    seen = design @ prior @ design.T + variance * np.eye(len(design))
    return prior - prior @ design.T @ np.linalg.inv(seen) @ design @ prior
