"""From the rate to the counts, which vary around it."""

import numpy as np

from opendp_timeseries.smoothing.matrices import Array
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.structural import Posterior


def counts_of(data: Observations, posterior: Posterior) -> tuple[Array, Array, Array]:
    """Return mean and variance of the counts, and how much of the error of their rate is in them.

    A kept value is of the count itself, and so says something of how far it is from its rate.
    """
    count_variance = posterior.dispersion * np.maximum(posterior.mean, 0.0)
    mean, variance, passed = posterior.mean.copy(), posterior.variance + count_variance, np.ones(data.size)
    if data.taps is None:
        steps = data.steps
        chance, everywhere, spread = posterior.events
        variance += everywhere * spread
        # As it is if there is no event, and as it is if there is one, which adds to how counts vary.
        chances, either = (
            np.stack([1 - chance, chance]).reshape(2, -1),
            np.stack([count_variance[steps], count_variance[steps] + spread]),
        )
        shares = either / (either + data.variance)
        moves = shares * (data.values - mean[steps])
        shift = (chances * moves).sum(axis=0)
        scatter = (1 - shares) ** 2 * posterior.variance[steps] + shares * data.variance + (moves - shift) ** 2
        variance[steps] = (chances * scatter).sum(axis=0)
        mean[steps] += shift
        passed[steps] = 1 - (chances * shares).sum(axis=0)
    return mean, variance, passed
