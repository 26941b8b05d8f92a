"""One step of each block, from the definition: every set that can be kept, and every place of an individual's steps.

Values are close, not bounds: to some 1e-12.
"""

import itertools

import numpy as np
from scipy.special import log_ndtr, logsumexp


def kept_sets(size, length):
    """One row of truth values for each outcome of the offsets, all of them equally probable."""
    blocks = -(-size // length)
    offsets = np.array(list(itertools.product(range(length), repeat=blocks)))
    kept = np.zeros((len(offsets), blocks * length), dtype=bool)
    for block in range(blocks):
        kept[np.arange(len(offsets)), block * length + offsets[:, block]] = True
    return kept[:, :size]


def supports(size, steps):
    """All places of so many steps, as rows of zeros and ones."""
    places = list(itertools.combinations(range(size), steps))
    rows = np.zeros((len(places), size))
    for row, place in zip(rows, places, strict=True):
        row[list(place)] = 1.0
    return rows


def gaussian_profile(epsilon, distance):
    """Profile of the Gaussian mechanism at distances in units of its noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.exp(log_ndtr(distance / 2 - epsilon / distance))
        second = np.exp(epsilon + log_ndtr(-distance / 2 - epsilon / distance))
    return np.where(distance > 0, first - second, 0.0)


def profile(changes, length, scale, epsilon):
    """The largest profile over the rows of ``changes``."""
    left = changes**2 @ kept_sets(changes.shape[1], length).T
    return float(np.max(np.mean(gaussian_profile(epsilon, np.sqrt(left) / scale), axis=1)))


def renyi(changes, length, scale, alpha):
    """The largest Rényi divergence."""
    left = changes**2 @ kept_sets(changes.shape[1], length).T
    moments = logsumexp(alpha * (alpha - 1) / 2 * left / scale**2, axis=1) - np.log(left.shape[1])
    return float(np.max(moments) / (alpha - 1))


def tail(changes, length, squared):
    """The largest probability that more than a squared distance is left."""
    left = changes**2 @ kept_sets(changes.shape[1], length).T
    return float(np.max(np.mean(left > squared * (1 + 1e-12), axis=1)))
