"""Expected errors by dense matrices over all steps: no lags, no transforms."""

import numpy as np


def circulant(row):
    return np.array([np.roll(row, t) for t in range(len(row))])


def error_of_linear(reconstruct, covariance, taps, kept, scale):
    """Mean squares of signal − R(kept of filtered signal), and of R's noise, for a linear reconstruction R."""
    size = len(covariance)
    matrix = np.array([reconstruct(kept, unit, size) for unit in np.eye(len(kept))]).T
    miss = np.eye(size) - matrix @ circulant(taps).T[kept]
    bias = np.trace(miss @ circulant(covariance) @ miss.T) / size
    return bias, np.sum(matrix**2) / size * scale**2


def error_of_best(covariance, own, taps, kept, scale):
    """Mean squared error of the conditional mean of the rate, given noisy kept values of the filtered counts.

    The counts have independent variation of variance ``own`` around the rate; the error is against the counts.
    """
    size = len(covariance)
    rate, observe = circulant(covariance), circulant(taps).T[kept]
    counts = rate + own * np.eye(size)
    known = observe @ counts @ observe.T + scale**2 * np.eye(len(kept))
    estimate = rate @ observe.T @ np.linalg.inv(known)
    return np.trace(counts - 2 * estimate @ observe @ counts + estimate @ known @ estimate.T) / size
