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


def error_of_best(covariance, taps, kept, scale):
    """Mean squared error of the conditional mean, given noisy kept values of the filtered signal."""
    whole, observe = circulant(covariance), circulant(taps).T[kept]
    known = observe @ whole @ observe.T + scale**2 * np.eye(len(kept))
    gain = whole @ observe.T @ np.linalg.inv(known)
    return np.trace(whole - gain @ observe @ whole) / len(covariance)
