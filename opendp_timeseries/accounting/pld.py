"""The profile as a privacy loss distribution for Google's ``dp_accounting`` (extra ``pld``)."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.gaussian import DISCRETE_NOISE
from opendp_timeseries.accounting.subsampled import ExtremalLaw

__all__ = ["privacy_loss_distribution"]

#: Beyond these, distributions take too much time and memory, or their exponentials underflow.
_MOST_LOSS: Final = 300.0
_MOST_POINTS: Final = 10**6


def privacy_loss_distribution(
    law: ExtremalLaw, scale: float, *, discretization: float = 1e-3, tail: float = 1e-15
) -> Any:
    """Return a ``dp_accounting`` privacy loss distribution that dominates a subsampled Gaussian.

    It composes with the distributions of other mechanisms. It is made from the profile of ``law`` by connecting
    the dots (Doroshenko et al. 2022, arXiv:2207.04380): never below the profile, and equal to it at multiples of
    ``discretization`` within the range that matters; adding and removing an individual are the same.

    :param law: the extremal law of an influence, :func:`~.subsampled.extremal_law`.
    :param scale: standard deviation of the noise, positive; the distribution covers discrete noise on a fine grid.
    :param discretization: width of the grid of privacy losses.
    :param tail: mass that may be moved to an infinite loss.
    :raises ImportError: without ``dp_accounting``, naming the extra to install.
    :raises ValueError: for a number out of range, or losses that take more than a million points.
    """
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise ImportError("privacy loss distributions need dp_accounting; install opendp_timeseries[pld]") from None
    scale = check.real("scale", scale, above=0.0) * DISCRETE_NOISE
    width = check.real("discretization", discretization, above=0.0)
    tail = check.real("tail", tail, above=0.0, below=1.0)
    most = law.epsilon(tail, scale)
    if most > _MOST_LOSS or most / width > _MOST_POINTS:
        raise ValueError(
            f"losses up to {most:g} at discretization ({width:g}) are too many; raise the scale or the discretization"
        )
    points = math.ceil(most / width) + 1
    epsilons = np.arange(-points, points + 1)
    deltas = np.array([law.delta(epsilon * width, scale) for epsilon in epsilons.tolist()])
    hull = _lower_convex_hull(np.exp((epsilons - points) * width), deltas)
    return PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(width, epsilons, hull))


def _lower_convex_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values at ``x`` of the largest convex function that is nowhere above ``y``.

    A profile is convex in ``e^ε``, and the least of several upper bounds on it need not be; what is convex and
    below all of them is below this function, too. A distribution has no negative masses only if it is convex.
    """
    corners = [0]
    for k in range(1, len(x)):
        while len(corners) > 1:
            i, j = corners[-2:]
            if (y[j] - y[i]) * (x[k] - x[i]) <= (y[k] - y[i]) * (x[j] - x[i]):
                break
            corners.pop()
        corners.append(k)
    hull = np.interp(x, x[corners], y[corners])
    # Rounded up, by what interpolation from the corner on the left may lose; corners are as they were.
    left = np.repeat(y[corners], np.diff(corners, append=len(x)))
    hull += 2.0**-50 * left
    hull[corners] = y[corners]
    return hull
