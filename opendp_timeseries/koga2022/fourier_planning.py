"""How many Fourier coefficients to release, chosen without private data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.koga2022.bounds import analytic_scale
from opendp_timeseries.koga2022.fourier import influence_l2
from opendp_timeseries.planning import Candidate, Plan
from opendp_timeseries.planning.signal import copies

__all__ = ["ADVISED_FREQUENCIES", "best_frequencies", "fourier_design"]

#: A usual ``k`` in comparisons with the method of Rastogi & Nath. Koga et al. (2022) take the best that was
#: reported for it and do not print the number; :func:`best_frequencies` finds one for a kind of series.
ADVISED_FREQUENCIES: Final = 20


def best_frequencies(proxy: NDArray[np.float64], noise: Callable[[int], float]) -> int:
    """Return the number of frequencies with the least expected squared error for a **public** series.

    The error of ``k`` frequencies is the energy of those left out, plus the variance of the noise on ``2k − 1``.
    Chosen on the private series itself, ``k`` would reveal something of it, uncharged.

    :param proxy: a public series that resembles the private one: an earlier year, a simulation.
    :param noise: from ``k`` to the standard deviation of the noise on each coefficient; of Laplace noise, ``√2`` times
        its scale.
    :return: ``k``; the smallest on a tie.
    :raises ValueError: if the series is not one row of finite numbers.

    >>> t = np.arange(100)
    >>> best_frequencies(50 + 9 * np.sin(2 * np.pi * 3 * t / 100), lambda k: 2.0)
    4
    """
    values = np.asarray(proxy, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.all(np.isfinite(values)):
        raise ValueError("proxy must be one row of finite numbers, a public series")
    energy = np.abs(np.fft.rfft(values)) ** 2 / len(values)
    energy[1:] *= 2.0
    most = (len(values) + 1) // 2
    left_out = float(np.sum(values**2)) - np.cumsum(energy[:most])
    errors = [left_out[k - 1] + (2 * k - 1) * noise(k) ** 2 for k in range(1, most + 1)]
    return int(np.argmin(errors)) + 1


def fourier_design(plan: Plan) -> Candidate:
    """Return the first ``k`` Fourier coefficients as a candidate for the setting of a plan, at the best ``k`` for it.

    Its noise is the least by the exact Gaussian profile, for what few steps can move in low frequencies. Both
    favour this baseline.

    :param plan: made by :func:`opendp_timeseries.plan`.
    :return: a candidate whose ``noise`` and ``bias`` are of the inverse transform; to print, ``plan.beside(...)``.

    >>> import opendp_timeseries as ts
    >>> found = ts.plan(ts.TimeGrid(size=500), participation_cap=50, epsilon=1.0, delta=1e-6,
    ...     time_scale=40, deviation=30, sampling_probability=1.0, std=0.0)
    >>> print(found.beside(fourier_design(found)))
    500 steps, at most 50 of an individual, (ε = 1, δ = 1e-06), departures of 30 within 40 steps
    design           scale  noise  bias   interpolated  smoothed
    every step       29.87  29.87  0      29.87         9.949
    Fourier, k = 18  29.87  7.904  8.036  11.27         10.66
    Best: participation cap 50, every step, then a smoother: expected error 9.949.
    A flat line would err by 30.
    What the cap loses is not included; participation= tells.
    Fourier, k = 18: expected error 11.27.
    """
    signal, influence = plan.signal, plan.design.known.influence(plan.individuals)
    size, power = signal.size, signal.spectrum_with_level()
    unit = analytic_scale(plan.epsilon, plan.delta, 1.0)
    energy = power * copies(size)
    left_out = np.append(np.cumsum(energy[::-1])[-2::-1], 0.0)

    def design(k: int) -> Candidate:
        scale = unit * influence_l2(influence, size, k)
        shrunk = np.sum(energy[:k] * scale**2 / (power[:k] + scale**2)) + left_out[k - 1]
        return Candidate(
            name=f"Fourier, k = {k}",
            sampling_probability=1.0,
            std=0.0,
            scale=scale,
            noise=scale * math.sqrt((2 * k - 1) / size),
            bias=math.sqrt(left_out[k - 1] / size),
            smoothed=math.sqrt(float(shrunk) / size),
        )

    candidates = np.unique(np.geomspace(1, (size + 1) // 2, 48).astype(int)).tolist()
    return min(map(design, candidates), key=lambda candidate: candidate.interpolated)
