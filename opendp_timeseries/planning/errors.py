"""The error to expect of a reconstruction: mean squares from covariances, with no data and no simulation.

What a linear reconstruction adds to the noise depends on the second moments of the signal alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries._process import single_thread
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.planning.participation import Participation
from opendp_timeseries.planning.signal import SignalModel, copies
from opendp_timeseries.reconstruction.levels import level as level_of

#: Kept sets are drawn with this public seed, so that a plan is reproducible.
_SEED: Final = 20220323
_DRAWS: Final = 8
#: The error of optimal smoothing is worked out on a stretch with about so many kept steps, at so many of its steps.
_KEPT_IN_STRETCH: Final = 1000
_STEPS_IN_STRETCH: Final = 512


class ExpectedError(NamedTuple):
    """Root mean squares per step, in the signal's unit."""

    noise: float  #: what the noise contributes to the error of the interpolated series
    bias: float  #: what the filter removes and what the signal does between kept steps contribute to it
    smoothed: float  #: error of the best linear smoother that knows the covariance of the signal


class Covariances(NamedTuple):
    """Covariances of the signal and of the filtered signal, of which the kept steps are samples."""

    signal: float  # variance of the signal
    cross: NDArray[np.float64]  # of signal and filtered signal, at the lags 0 … T−1
    filtered: NDArray[np.float64]  # of the filtered signal
    level: float  # mean square of the level

    @classmethod
    def of(cls, signal: SignalModel, kernel: Kernel) -> Covariances:
        """Return the covariances behind a filter."""
        gain = np.fft.rfft(kernel.taps).real
        return cls(
            signal=float(signal.covariance[0]),
            cross=np.fft.irfft(signal.spectrum() * gain, n=signal.size),
            filtered=np.fft.irfft(signal.spectrum() * gain**2, n=signal.size),
            level=signal.level,
        )


def expected_error(signal: SignalModel, kernel: Kernel, sampling: Sampling, scale: float) -> ExpectedError:
    """Return the error to expect of a filtered and subsampled release.

    :param kernel: the filter; :func:`~opendp_timeseries.identity_kernel` for none.
    :param sampling: how steps are sampled, with a probability above 0.
    :param scale: standard deviation σ of the noise.
    """
    probability, behind, rng = sampling.probability, Covariances.of(signal, kernel), np.random.default_rng(_SEED)
    if probability == 1:
        draws = [np.arange(signal.size)]
        smoothed = smoothing_square_of_every_step(signal, kernel, scale)
    else:
        draws = [_drawn(rng, signal.size, sampling) for _ in range(_DRAWS)]
        fewer = max(2, round(1500 / (probability * signal.size)))  # large samples vary little, and cost much
        errors = [smoothing_square(signal, kernel, kept, probability, scale) for kept in draws[:fewer]]
        smoothed = float(np.mean(errors))
    bias, noise = np.mean([interpolation_squares(behind, kept) for kept in draws], axis=0).tolist()
    return ExpectedError(
        noise=scale * math.sqrt(noise),
        bias=math.sqrt(bias if bias > 1e-12 * behind.signal else 0.0),  # what is left then is rounding
        smoothed=math.sqrt(max(smoothed, 0.0)),
    )


def error_at_tiers(signal: SignalModel, count: Count, scale: float, participation: Participation) -> ExpectedError:
    """Return the error to expect of a release in several tiers of activity, of which all but the last are smoothed.

    With groups, it is that of a key which is smoothed by itself, of its share of the norm.

    That of the best linear smoother of all tiers, if people come at the same hours however often they come, and of
    the level as :func:`~opendp_timeseries.smooth` finds it.

    :param count: in tiers of activity; of a panel, each series is taken to be of its own people.
    :param participation: how often people come; of its counts, only their shares matter.
    """
    if count.tiers is None:
        raise ValueError("count must have tiers of activity")
    ends, whole = count.tiers.table(count.reading.most_steps)
    if count.reading.grouping is not None:
        scale *= math.sqrt(SHARES / count.reading.grouping.shares[0])
    weights: NDArray[np.float64] = whole / (scale * 2**RESOLUTION_BITS)
    level = max(math.sqrt(signal.level), 1e-9 * scale)
    counts = participation.by_often(ends)
    counts *= level / counts.sum()
    by_level = level_of(counts @ weights, ends, weights, signal.size**-0.5).variance
    # Counts are a rate, and what they vary around it by themselves, each with the weights of those who come.
    own = max(signal.mean or 0.0, 0.0)
    rate, each = np.maximum(signal.spectrum() - own, 0.0), own / level * counts
    shape, both = counts @ weights / level, each @ weights
    known = rate[:, None, None] * np.outer(shape, shape) + (weights.T * each) @ weights + np.eye(len(shape))
    with_signal = rate[:, None] * shape + both
    left = rate + own - np.sum(with_signal * np.linalg.solve(known, with_signal[:, :, None])[:, :, 0], axis=1)
    left[0] = 0.0  # which is the level
    smoothed = max(float(left @ copies(signal.size)) / signal.size, 0.0) + by_level
    return ExpectedError(noise=1 / float(weights[0, -1]), bias=0.0, smoothed=math.sqrt(smoothed))


def _drawn(rng: np.random.Generator, size: int, sampling: Sampling) -> NDArray[np.int64]:
    """Draw kept steps, never none (which has probability 0.0003 where 8 are kept on average)."""
    if (blocks := sampling.blocks(size)) is not None:
        steps = np.arange(blocks.count) * blocks.length + rng.integers(blocks.length, size=blocks.count)
        return steps[steps < size]
    kept = np.flatnonzero(rng.random(size) < sampling.probability)
    return kept if len(kept) else np.array([size // 2])


def interpolation_squares(behind: Covariances, kept: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean squares of linear interpolation: of what it misses, and of noise of variance 1.

    The filter has gain 1, and the weights of interpolation sum to 1: so the level does not matter.
    """
    every = np.arange(len(behind.cross))
    after = kept[np.minimum(np.searchsorted(kept, every), len(kept) - 1)]
    before = kept[np.maximum(np.searchsorted(kept, every, side="right") - 1, 0)]
    gap = after - before
    far = np.where(gap > 0, (every - before) / np.maximum(gap, 1), 0.0)
    near = 1 - far
    missed = (
        behind.signal
        - 2 * near * behind.cross[every - before]
        - 2 * far * behind.cross[after - every]
        + (near**2 + far**2) * behind.filtered[0]
        + 2 * near * far * behind.filtered[gap]
    )
    return float(np.mean(missed)), float(np.mean(near**2 + far**2))


def smoothing_square_of_every_step(signal: SignalModel, kernel: Kernel, scale: float) -> float:
    """Return the mean squared error of the Wiener filter, on the cycle."""
    power, gain = signal.spectrum_with_level(), np.fft.rfft(kernel.taps).real
    with np.errstate(invalid="ignore"):
        left = np.where(power > 0, power * scale**2 / (power * gain**2 + scale**2), 0.0)
    return float(np.sum(left * copies(signal.size))) / signal.size


@single_thread()
def smoothing_square(
    signal: SignalModel, kernel: Kernel, kept: NDArray[np.int64], probability: float, scale: float
) -> float:
    """Return the mean squared error of the best linear smoother of kept steps, in the middle of a stretch.

    What steps outside the stretch tell of the level and of patterns is taken into account as a smaller variance.
    """
    size = signal.size
    length = min(size, math.ceil(_KEPT_IN_STRETCH / probability))
    behind = Covariances.of(_as_known_elsewhere(signal, kernel, 1 - length / size, scale**2 / probability), kernel)
    kept = kept[kept < length] if kept[0] < length else kept[:1]
    ends = (0, length - 1) if length == size else (length // 4, 3 * length // 4)  # a whole cycle has no ends
    asked = np.unique(np.linspace(*ends, _STEPS_IN_STRETCH).astype(np.int64))
    known = behind.level + behind.filtered[kept[:, None] - kept]
    np.fill_diagonal(known, known.diagonal() + scale**2)
    with_signal = behind.level + behind.cross[kept - asked[:, None]]
    # Both in the order of LAPACK; half of a solution is enough, as only its square is asked for.
    factor = scipy.linalg.cholesky(known.T, lower=True, overwrite_a=True)
    half = scipy.linalg.solve_triangular(factor, with_signal.T, lower=True, overwrite_b=True, check_finite=False)
    return behind.level + behind.signal - float(np.sum(half**2)) / len(asked)


def _as_known_elsewhere(signal: SignalModel, kernel: Kernel, share: float, noise: float) -> SignalModel:
    """Return the signal with what a share of the cycle tells of its level and lines, under noise of such a variance."""
    if share <= 0:
        return signal
    continuous = np.maximum(signal.spectrum() - signal.lines, 0.0)
    gain = np.fft.rfft(kernel.taps).real
    with np.errstate(divide="ignore"):
        information = share / (continuous + noise / gain**2)
        lines = np.where(signal.lines > 0, 1 / (1 / signal.lines + information), 0.0)
    level = 1 / (1 / signal.level + signal.size * information[0]) if signal.level > 0 else 0.0
    changed = np.fft.irfft(lines - signal.lines, n=signal.size)
    return replace(signal, covariance=signal.covariance + changed, lines=lines, level=level)
