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


def error_of_best_at_scales(rate, mean, shares, weights, scale, over=1):
    """Mean squared error of the conditional mean of the counts, but for their level, given noisy counts at scales.

    :param rate: covariance of the rate at each lag.
    :param shares: of the counts that are of people of a row of ``weights``, who vary like Poisson's.
    :param over: how many counts in a row are added up.
    """
    size, scales = len(rate), weights.shape[1]
    shape = shares @ weights
    own = mean * (weights.T * shares) @ weights
    known = np.kron(np.outer(shape, shape), circulant(rate)) + np.kron(own + scale**2 * np.eye(scales), np.eye(size))
    whole = circulant(rate) + mean * np.eye(size)
    common = np.kron(shape, circulant(rate)) + np.kron(mean * shape, np.eye(size))
    left = whole - common @ np.linalg.solve(known, common.T)
    sums = sum(np.roll(np.eye(size), k, axis=1) for k in range(over))
    return np.trace(sums @ (left - left.mean(axis=0)) @ sums.T) / size


def error_of_best(covariance, taps, kept, scale):
    """Mean squared error of the conditional mean, given noisy kept values of the filtered signal."""
    whole, observe = circulant(covariance), circulant(taps).T[kept]
    known = observe @ whole @ observe.T + scale**2 * np.eye(len(kept))
    gain = whole @ observe.T @ np.linalg.inv(known)
    return np.trace(whole - gain @ observe @ whole) / len(covariance)
