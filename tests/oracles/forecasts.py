"""What is known of steps that were seen behind noise of other sizes, and of steps after them, by dense conditioning."""

import numpy as np


def posterior(size, kept, values, noise, *, level, fading, mean):
    """Mean, variance and covariance of a level, and a departure that fades, at all steps.

    :param noise: its variance at each kept step.
    :param level: variance of the level.
    :param fading: variance of the departure, and the steps after which a third of it is left.
    """
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    prior = level + fading[0] * np.exp(-apart / fading[1])
    gain = prior[:, kept] @ np.linalg.inv(prior[np.ix_(kept, kept)] + np.diag(noise))
    covariance = prior - gain @ prior[kept]
    return mean + gain @ (values - mean), np.diag(covariance), covariance


def counts(rate, variance, kept, values, noise, *, own):
    """Mean and variance of counts that scatter by ``own`` around a rate, which is known up to a variance.

    The rate is known from all values: that of a step says once more what its count is beside the rate.
    """
    mean, found = rate.copy(), variance + own
    for step, value, error in zip(kept, values, noise, strict=True):
        share = own[step] / (own[step] + error)
        mean[step] += share * (value - rate[step])
        found[step] = (1 - share) ** 2 * variance[step] + share * error
    return mean, found
