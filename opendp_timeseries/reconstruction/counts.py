"""From the rate to the counts, which vary around it."""

import numpy as np

from opendp_timeseries.reconstruction.matrices import Array
from opendp_timeseries.reconstruction.observations import Observations
from opendp_timeseries.reconstruction.structural import Posterior


def counts_of(seen: Observations, found: Posterior) -> tuple[Array, Array, Array]:
    """Return mean and variance of the counts, and how much of the error of their rate is in them.

    A kept value is of the count itself, and so says something of how far it is from its rate.
    """
    own = found.dispersion * np.maximum(found.mean, 0.0)
    mean, variance, passed = found.mean.copy(), found.variance + own, np.ones(seen.size)
    if seen.taps is None:
        kept = seen.steps
        chance, everywhere, spread = found.events
        variance += everywhere * spread
        # As it is if there is no event, and as it is if there is one, which adds to how counts vary.
        chances, either = np.stack([1 - chance, chance]).reshape(2, -1), np.stack([own[kept], own[kept] + spread])
        shares = either / (either + seen.variance)
        moves = shares * (seen.values - mean[kept])
        moved = (chances * moves).sum(axis=0)
        each = (1 - shares) ** 2 * found.variance[kept] + shares * seen.variance + (moves - moved) ** 2
        variance[kept] = (chances * each).sum(axis=0)
        mean[kept] += moved
        passed[kept] = 1 - (chances * shares).sum(axis=0)
    return mean, variance, passed
