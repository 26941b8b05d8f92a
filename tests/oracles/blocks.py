"""The worst individual of a filtered count, by brute arithmetic: a contiguous block of steps.

Its true profile is a lower bound for every map. Nothing here rounds outward: values are close, not bounds.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr


def gaussian_taps(size, std):
    distance = np.minimum(np.arange(size), size - np.arange(size))
    taps = np.exp(-(distance**2) / (2 * std**2))
    return taps / taps.sum()


def block_squares(taps, steps):
    """Squares of what a person in ``steps`` adjacent steps adds to the filtered signal."""
    block = np.zeros(len(taps))
    block[:steps] = 1.0
    return np.fft.irfft(np.fft.rfft(block) * np.fft.rfft(taps), n=len(taps)) ** 2


def law_of_sum(squares, p, cells=10_000):
    """Law of the sum of a Poisson sample, with squares split between the two nearest cells."""
    squares = squares[squares > 1e-12 * squares.max()]
    width = squares.sum() / cells
    law = np.zeros(cells + len(squares) + 2)
    law[0] = 1.0
    for square in squares:
        whole, part = divmod(square / width, 1.0)
        low = int(whole)
        moved = np.zeros_like(law)
        moved[low:] += (1 - part) * law[: len(law) - low]
        moved[low + 1 :] += part * law[: len(law) - low - 1]
        law = (1 - p) * law + p * moved
    return np.arange(len(law)) * width, law


def gaussian_profile(epsilon, u):
    root = np.sqrt(np.maximum(u, 1e-300))
    return ndtr(root / 2 - epsilon / root) - np.exp(epsilon) * ndtr(-root / 2 - epsilon / root)


def block_scale(squares, p, epsilon, delta):
    """Noise at which the block's own profile meets (ε, δ)."""
    sums, law = law_of_sum(squares, p)
    top = np.sqrt(squares.sum())
    return brentq(
        lambda scale: np.log(law @ gaussian_profile(epsilon, sums / scale**2) / delta), top / 40, top * 40, rtol=1e-9
    )
