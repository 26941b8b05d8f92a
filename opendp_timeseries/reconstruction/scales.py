"""From a count at several scales of activity to the counts of everybody, with errors that cover the truth.

The last scale counts everybody in full: it knows the level, behind much noise. The others know the shape, behind less
noise, of people who come less and less often. What a scale and those after it have over the shape of those before is a
departure. As all noises are independent, the scales may be rotated: until the first channel shows the common shape, as
well as all scales together can, and each of the others only departures from it, of fewer and fewer scales. Every
channel is then smoothed by itself, and a departure of which it shows nothing comes out as nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from opendp_timeseries.reconstruction.structural import Observations, fit

__all__ = ["of_everybody"]

Array = NDArray[np.float64]

#: How large departures are thought to be, by the common rate, before they are seen.
_DEPARTURE: Final = 0.15
#: They are less where the rate is low, down to this share of its mean.
_LOWEST: Final = 0.1


def of_everybody(
    values: Array, table: Array, dispersion: float, periods: tuple[float, ...], *, trend: bool, counts: bool
) -> tuple[Array, Array]:
    """Return mean and variance of the counts of everybody at every step, or of their rate.

    :param values: a row for each scale, in units of their noise.
    :param table: a column for each scale: the weights of individuals, by how often they come, in the same units. In the
        last column they are equal.
    :param dispersion: prior variance of a count by its rate, 1 for Poisson's.
    :param counts: whether to return those of the counts; else of the rate.
    :raises FitError: if a fit does not work.
    """
    scales, size = values.shape
    steps, unit = np.arange(size), np.eye(scales)
    # How much of which weights would give the levels of all scales: that tells how the counts' own variance shows.
    share = nnls(table.T, values.mean(axis=1))[0] + 1e-3 / len(table)
    level, own = share @ table, dispersion * (table.T * share) @ table

    root = np.linalg.cholesky(unit + own)
    shapes = np.tril(np.ones((scales, scales))) * level[:, None]  # of all scales, of those from the second on, …
    turn, sizes = np.linalg.qr(np.linalg.solve(root, shapes))
    turn, sizes = turn * np.sign(np.diag(sizes)), np.abs(np.diag(sizes))
    back = root @ turn
    seen = np.linalg.solve(back, values)
    noise = float(np.sum(np.linalg.inv(back)[0] ** 2))  # of the first channel, whose variance is 1 with the counts' own
    spread = (1 - noise) / sizes[0]
    common = fit(Observations(size, steps, seen[0], noise, dispersion=spread, doubt=0.3), periods, trend=trend)
    means, variances = [common.mean], [common.variance]
    slope = np.sqrt(np.maximum(common.mean / sizes[0], _LOWEST))  # as it is the root of a rate that departs
    for row, largest in zip(seen[1:], sizes[1:], strict=True):
        departure = Observations(size, steps, row / slope, slope**-2, dispersion=1e-6, doubt=0.01)
        found = fit(departure, periods, trend=trend, unit=_DEPARTURE * largest)
        means.append(slope * found.mean)
        variances.append(slope**2 * found.variance)
    rates = back @ np.array(means)
    rates[-1] += (level[-1] - rates[-1].mean()) * slope**2 / np.mean(slope**2)
    gain = np.zeros((size, scales))
    if counts:
        # What is seen beyond the rates is of the noise and of the counts, and these show on all scales at once.
        deviation = np.sqrt(np.maximum(rates / level[:, None], 0.0) * common.dispersion / spread).T
        own = deviation[:, :, None] * own * deviation[:, None, :]
        gain = np.linalg.solve(own + unit, own[:, :, -1:])[:, :, 0]
    passed = (unit[-1] - gain) @ back
    mean = rates[-1] + ((values - rates).T * gain).sum(axis=1)
    variance = (passed.T**2 * np.array(variances)).sum(axis=0)
    if counts:
        variance += own[:, -1, -1] - (gain * own[:, :, -1]).sum(axis=1)
    everybody = table[0, -1]
    return mean / everybody, variance / everybody**2
