"""What a plan assumes of the signal: its covariance at each lag of the cycle, from public facts alone."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check

__all__ = ["Signal", "copies", "described_signal"]

#: The level of the signal is taken as unknown: this many times its deviation.
_UNKNOWN_LEVEL: Final = 10.0


class Signal(NamedTuple):
    """Second moments of a signal of ``T`` steps on a cycle.

    :param covariance: float64 array of ``T`` covariances around the level, at the lags 0 … T−1.
    :param level: mean square of the level.
    :param deviation: standard deviation around the level.
    """

    covariance: NDArray[np.float64]
    level: float
    deviation: float

    @property
    def size(self) -> int:
        """Number of steps, ``T``."""
        return len(self.covariance)

    def spectrum(self) -> NDArray[np.float64]:
        """Return the variance of each coefficient in an orthonormal Fourier basis, at the frequencies 0 … ⌊T/2⌋."""
        return np.maximum(np.fft.rfft(self.covariance).real, 0.0)

    def spectrum_with_level(self) -> NDArray[np.float64]:
        """Return the spectrum with the energy of the level, all of which is at frequency 0."""
        power = self.spectrum()
        power[0] += self.level * self.size
        return power


def copies(size: int) -> NDArray[np.float64]:
    """Return how many real coefficients each frequency 0 … ⌊T/2⌋ has."""
    counts = np.full(size // 2 + 1, 2.0)
    counts[0] = 1.0
    if size % 2 == 0:
        counts[-1] = 1.0
    return counts


def described_signal(
    size: int, time_scale: float | None, deviation: float | None, proxy: ArrayLike | None
) -> tuple[Signal, str]:
    """Return the signal that was described, by two numbers or by a public series, and the description in words."""
    if (proxy is None) == (time_scale is None) or (time_scale is None) != (deviation is None):
        raise ValueError("describe the signal either by time_scale and deviation, or by a public proxy")
    if proxy is not None:
        return _like(proxy, size), "as a public series"
    length = check.real("time_scale", time_scale, above=0.0, maximum=size, remedy="in steps, at most the grid's size")
    sd = check.real("deviation", deviation, above=0.0)
    return _matern(size, length, sd), f"{sd:g} around its level, time scale {length:g}"


def _like(proxy: ArrayLike, size: int) -> Signal:
    values = np.asarray(proxy, dtype=np.float64)
    if values.shape != (size,) or not np.all(np.isfinite(values)):
        raise ValueError(f"proxy (shape {values.shape}) must be a row of {size} finite numbers, one for each step")
    level = float(np.mean(values))
    covariance = np.fft.irfft(np.abs(np.fft.rfft(values - level)) ** 2, n=size) / size
    return Signal(covariance, level**2, float(np.std(values)))


def _matern(size: int, length: float, deviation: float) -> Signal:
    # The covariance on a line, wrapped around the cycle. Twelve lengths away it has fallen below 1e-7.
    turns = np.arange(-math.ceil(12 * length / size), math.ceil(12 * length / size) + 1)
    lag = np.sqrt(3) * np.abs(np.arange(size)[:, None] + turns * size) / length
    shape = np.sum((1 + lag) * np.exp(-lag), axis=1)
    return Signal(deviation**2 * shape / shape[0], (_UNKNOWN_LEVEL * deviation) ** 2, deviation)
