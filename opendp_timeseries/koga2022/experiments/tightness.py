"""How tight the chain of this library is: its own α, and noise below which no proof could go."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.koga2022.bounds import analytic_scale
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.assume_participation import then_assume_participation
from opendp_timeseries.plugin.circulant_filter import then_circulant_filter
from opendp_timeseries.plugin.spaces import count_signal_domain
from opendp_timeseries.plugin.subsampled_gaussian import then_subsampled_gaussian

__all__ = ["alpha_of_chain", "block_scale_lower"]


def alpha_of_chain(
    kernel: Kernel, participation_cap: int, sampling_probability: float, failure_probabilities: ArrayLike
) -> NDArray[np.float64]:
    """Return, for each δ′, the ``α`` with which this library's chain bounds the sensitivity by ``α√I``.

    Off an event of probability δ′ the chain is ``ρ``-zero-concentrated private with ``ρ = α²I/(2σ²)``, from which ``α``
    is read: the same statement as the paper's Theorem 4, for one pair of adjacent logs.

    :param failure_probabilities: values of ``δ′``, in (0, 1).
    """
    space = count_signal_domain(kernel.size), native.symmetric_distance()
    smooth = space >> then_assume_participation(participation_cap=participation_cap) >> then_circulant_filter(kernel)

    def alpha(failure_probability: float) -> float:
        chain = smooth >> then_subsampled_gaussian(
            1.0, sampling_probability=sampling_probability, failure_probability=failure_probability
        )
        return math.sqrt(2.0 * chain.map(1)[0] / participation_cap)

    return np.array([alpha(float(tail)) for tail in np.asarray(failure_probabilities)])


def block_scale_lower(
    kernel: Kernel,
    participation_cap: int,
    sampling_probability: float,
    epsilon: float,
    delta: float,
    *,
    cells: int = 200_000,
) -> float:
    """Return noise below which (ε, δ) **fails**, whatever the proof: for somebody in ``I`` adjacent steps.

    That individual's own privacy profile is worked out with squares rounded down to a lattice, so the answer is a
    lower bound, by at most 0.3% in the settings of the notebooks.

    :param participation_cap: ``I``, at most the kernel's size.
    :param sampling_probability: ``p``, above 0.
    :param cells: cells of the lattice, from 0 to the sum of all squares.
    """
    block = np.zeros(kernel.size)
    block[:participation_cap] = 1.0
    squares = np.fft.irfft(np.fft.rfft(block) * np.fft.rfft(kernel.taps), n=kernel.size) ** 2
    width = float(squares.sum()) / cells
    law = np.ones(1)
    for shift in sorted(int(square // width) for square in squares if square >= width):
        dropped, kept = (1.0 - sampling_probability) * law, sampling_probability * law
        law = np.pad(dropped, (0, shift))
        law[shift:] += kept
    sums = width * np.arange(1, len(law))

    def log_excess(scale: float) -> float:
        ratio = np.sqrt(sums) / scale
        profile = ndtr(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * ndtr(-ratio / 2 - epsilon / ratio)
        return math.log(float(law[1:] @ profile) / delta)

    high = analytic_scale(epsilon, delta, float(squares.sum()))  # as if every step were kept
    low = high / 2
    while log_excess(low) < 0.0:
        low /= 2
    return float(brentq(log_excess, low, high, rtol=1e-9))
