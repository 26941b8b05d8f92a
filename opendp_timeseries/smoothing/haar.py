"""Translation-invariant Haar thresholding, for series with spikes and jumps (Coifman & Donoho 1995)."""

import math

import numpy as np
from numpy.typing import NDArray


def threshold(values: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Return the series without the differences of neighbouring averages that noise explains.

    Over every length ``2**j`` and every step, half the difference of the averages of two neighbouring stretches is set
    to zero unless it exceeds ``sqrt(2 log T)`` standard deviations, the universal threshold of Donoho & Johnstone
    (1994). Each step then is the average of what the stretches around it say. The noise is the privacy noise and the
    counts' own, whose variance is that of Poisson counts with the average there. The series continues in its mirror
    image, so that its ends do not jump.

    :param values: noisy values at every step.
    :param variance: of the privacy noise.

    >>> threshold(np.array([5.0, 6.0, 4.0, 5.0, 90.0, 5.0, 5.0, 5.0]), variance=1.0).round(1).tolist()
    [5.1, 5.1, 4.9, 4.9, 90.0, 5.0, 5.0, 5.0]
    """
    size = len(values)
    average = np.concatenate([values, values[::-1]])
    quantile = math.sqrt(2 * math.log(size)) if size > 1 else 0.0
    differences = []
    for octave in range(math.floor(math.log2(size))):
        after = np.roll(average, -(2**octave))
        difference, average = (average - after) / 2, (average + after) / 2
        deviation = np.sqrt((variance + np.maximum(average, 0.0)) / 2 ** (octave + 1))
        differences.append(np.where(np.abs(difference) > quantile * deviation, difference, 0.0))
    for octave in reversed(range(len(differences))):
        difference = differences[octave]
        average = (average + difference + np.roll(average - difference, 2**octave)) / 2
    return average[:size]
