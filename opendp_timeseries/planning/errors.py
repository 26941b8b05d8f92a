"""The expected error of a reconstruction: mean squares from covariances, with no data and no simulation.

Beyond the noise, the error of a linear reconstruction depends on the second moments of the signal alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries._process import single_thread
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.planning.participation import Participation
from opendp_timeseries.planning.signal import SignalModel, copies
from opendp_timeseries.smoothing.levels import Prior, fit_level, fit_panel_levels, positive_levels
from opendp_timeseries.smoothing.seasons import Season

#: The share of the variance of a key's departures that is assumed common to all keys, like the weather's effect.
_COMMON_SHARE: Final = 0.5
#: What is assumed of the keys of a panel.
ALIKE: Final = "Keys are taken to be alike: large ones, and totals that hold them, are known a little less well."
#: Levels of parts are estimated behind noise that is drawn with it for about so many parts.
_KEYS_DRAWN: Final = 16
#: Patterns and sizes are learnt from the values of a sum: a few steps tell its shape as if so many were of no use.
_LEARNT: Final = 10.0
#: Kept sets are drawn with this public seed, so that a plan is reproducible.
_SEED: Final = 20220323
_DRAWS: Final = 8
#: The error of optimal smoothing is computed on a stretch with about this many kept steps, at this many of its steps.
_KEPT_IN_STRETCH: Final = 1000
_STEPS_IN_STRETCH: Final = 512


class ExpectedError(NamedTuple):
    """Root mean squares per step, or of the sum of several steps in a row, in the signal's unit."""

    noise: float  #: contribution of the noise to the error of the interpolated series
    bias: float  #: contribution to it of the filter and the signal's changes between kept steps
    smoothed: float  #: error of the best linear smoother that knows the covariance of the signal
    totals: tuple[tuple[str, float], ...] = ()  #: smoothed errors of the totals of groups of a panel, by name


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


def gain_of_sums(size: int, over: int) -> NDArray[np.float64]:
    """Return by what the sum of so many steps in a row multiplies the power at each frequency of a cycle."""
    return np.asarray(np.abs(np.fft.rfft(np.ones(over), n=size)) ** 2)


def expected_error(
    signal: SignalModel, kernel: Kernel, sampling: Sampling, scale: float, over: int = 1
) -> ExpectedError:
    """Return the expected error of a filtered and subsampled release.

    :param kernel: the filter; :func:`~opendp_timeseries.design.kernels.identity_kernel` for none.
    :param sampling: the sampling of steps, with a probability above 0.
    :param scale: standard deviation σ of the noise.
    :param over: how many steps in a row are added up; of several, NaN but for the smoothed error at every step.
    """
    if over > 1:
        is_known = sampling.probability == 1
        square = smoothing_square_of_every_step(signal, kernel, scale, over) if is_known else math.nan
        return ExpectedError(noise=math.nan, bias=math.nan, smoothed=math.sqrt(square))
    probability, covariances, rng = sampling.probability, Covariances.of(signal, kernel), np.random.default_rng(_SEED)
    if probability == 1:
        draws = [np.arange(signal.size)]
        smoothed = smoothing_square_of_every_step(signal, kernel, scale)
    else:
        draws = [draw_steps(rng, signal.size, sampling) for _ in range(_DRAWS)]
        fewer = max(2, round(1500 / (probability * signal.size)))  # large samples vary little and are slow
        errors = [smoothing_square(signal, kernel, steps, probability, scale) for steps in draws[:fewer]]
        smoothed = float(np.mean(errors))
    bias, noise = np.mean([interpolation_squares(covariances, steps) for steps in draws], axis=0).tolist()
    return ExpectedError(
        noise=scale * math.sqrt(noise),
        bias=math.sqrt(bias if bias > 1e-12 * covariances.signal else 0.0),  # smaller values are rounding errors
        smoothed=math.sqrt(max(smoothed, 0.0)),
    )


def error_at_tiers(
    signal: SignalModel, count: Count, scale: float, participation: Participation, over: int = 1
) -> ExpectedError:
    """Return the expected error of a release in several tiers of activity, all but the last of which are smoothed.

    It is the error of the best linear smoother of all tiers, if people come at the same hours however often they come,
    and of the level as :func:`~opendp_timeseries.smooth` estimates it. For a panel it is the error of a key, with the
    errors of the totals of all groups.

    :param signal: of a key.
    :param count: in tiers of activity.
    :param participation: in how many steps people come, with the signal's ``usual`` in each; only the shares of its
        counts matter.
    :param over: how many steps in a row are added up.
    """
    if count.tiers is None:
        raise Refusal("count", ..., "must have tiers of activity")
    ends, integer_weights = count.tiers.table(count.tiers.last(count.reading))
    # Whoever comes in so many usual steps is in fewer, or more, of the typical ones that ends are in.
    often = participation.counts_by_activity(np.float64((count.tiers.typical / signal.usual) ** 2) * ends)
    activity = _Activity(ends, integer_weights / 2**RESOLUTION_BITS, often, Prior.of(count.reading.step_cap))
    keys = count.panel or ()
    if len(keys) < 2:
        scale *= _noise_factor(count.reading, 0)
        square = activity.square_of_all(signal, signal.rate(), 1.0, scale, over)
        noise = math.sqrt(over) * activity.last_tier_error(scale)
        return ExpectedError(noise=noise, bias=0.0, smoothed=math.sqrt(square))
    return _error_at_places(signal, count.reading, scale, activity, over)


def _noise_factor(reading: Reading, level: int) -> float:
    """Return the factor by which the share of the norm increases the noise of a level of groups, in counts."""
    return 1.0 if reading.grouping is None else math.sqrt(SHARES / reading.grouping.shares[level])


class _Activity(NamedTuple):
    """The distribution of people over how often they come, and their weights in each tier."""

    ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    counts: NDArray[np.float64]  # by how often people come; only the shares matter
    prior: Prior

    @property
    def _shares(self) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = self.counts / self.counts.sum()
        return shares

    def last_tier_error(self, scale: float) -> float:
        """Return the standard error of a step in the last tier."""
        return scale / float(self.weights[0, -1])

    def means(self, level: float) -> NDArray[np.float64]:
        """Return the mean of each tier."""
        means: NDArray[np.float64] = level * self._shares @ self.weights
        return means

    def level_square(self, level: float, scale: float, size: int) -> float:
        """Return the mean square of the error of the level of a series."""
        level, weights = max(level, 1e-9 * scale), self.weights / scale
        return fit_level(self.means(level) / scale, self.ends, weights, size**-0.5, prior=self.prior).variance

    def square(self, rate: NDArray[np.float64], poisson: float, scale: float, size: int, over: int) -> float:
        """Return the mean square of the error of a smoother that knows the level.

        :param rate: spectrum of the rate.
        :param poisson: variance of counts around it.
        :param size: number of steps.
        :param over: how many in a row are added up.
        """
        weights, shares = self.weights / scale, self._shares
        # Counts are a rate plus Poisson variation around it, which carries the weights of the people who come.
        shape, poisson_part = shares @ weights, poisson * shares @ weights
        covariance = (
            rate[:, None, None] * np.outer(shape, shape) + (weights.T * poisson * shares) @ weights + np.eye(len(shape))
        )
        with_signal = rate[:, None] * shape + poisson_part
        unresolved = (
            rate + poisson - np.sum(with_signal * np.linalg.solve(covariance, with_signal[:, :, None])[:, :, 0], axis=1)
        )
        unresolved[0] = 0.0  # the level, which the smoother knows
        return max(float(unresolved @ (copies(size) * gain_of_sums(size, over))) / size, 0.0)

    def square_of_all(
        self, signal: SignalModel, rate: NDArray[np.float64], keys: float, scale: float, over: int
    ) -> float:
        """Return the mean square of the error of a sum of keys that is smoothed as one series.

        :param rate: spectrum of its rate.
        :param keys: how many there are, of the signal each.
        """
        size = signal.size
        level = over**2 * self.level_square(keys * math.sqrt(signal.level), scale, size)
        shape = self.square(rate, keys * signal.poisson, scale, size, over)
        return level + shape * (1 + _LEARNT / (size + _LEARNT)) + self._rhythm_square(signal, keys, scale, over)

    def _rhythm_square(self, signal: SignalModel, keys: float, scale: float, over: int) -> float:
        """Return the mean square of what hours may be whose counts are of those who come as often as can be.

        It is that of :class:`~opendp_timeseries.smoothing.everybody.Rhythm` where values show nothing of them.
        """
        from opendp_timeseries.smoothing.everybody import Rhythm  # with much of SciPy, which few plans need

        if not signal.periods or self.prior != Prior() or self.weights.shape[1] == 1:
            return 0.0
        weights, size, always = self.weights / scale, signal.size, self.weights[-1] / scale
        shape = self._shares @ weights
        by_noise = np.linalg.inv(keys * signal.poisson * (weights.T * self._shares) @ weights + np.eye(len(shape)))
        beside = always - shape * (shape @ by_noise @ always) / (shape @ by_noise @ shape)
        precision, level = np.full(size, beside @ by_noise @ always), keys * math.sqrt(signal.level)
        root = Rhythm.of(np.zeros(size), precision, Season(min(signal.periods)), size, level).root
        sums = np.cumsum(np.pad(root, ((1, 0), (0, 0))), axis=0)
        square = np.mean(np.sum((sums[over:] - sums[:-over]) ** 2, axis=1))
        return float(square * (by_noise[-1, -1] * beside[-1] / weights[0, -1]) ** 2)


def _error_at_places(
    signal: SignalModel, reading: Reading, scale: float, activity: _Activity, over: int
) -> ExpectedError:
    """Return the errors of a key and of totals, in a panel that is smoothed jointly.

    The total of all keys is smoothed like a single series; each part is its share of that total plus a departure.
    """
    from opendp_timeseries.smoothing.hierarchy import Hierarchy  # with much of SciPy, which few plans need

    keys, size, root_of_size = reading.panel or (), signal.size, math.sqrt(signal.size)
    grouping = reading.grouping
    released = [] if grouping is None else [grouping.groups_at(1 + k) for k in range(grouping.level_count)]
    hierarchy = Hierarchy.of(keys, released)
    members = [len(keys), *(len(groups.members) for groups in released)]
    noise = np.full(hierarchy.size, math.inf)
    noise[: sum(members)] = np.repeat([scale * _noise_factor(reading, k) for k in range(len(members))], members)
    noise = hierarchy.upward(noise)
    key_counts = hierarchy.sums(np.append(np.ones(len(keys)), np.zeros(hierarchy.size - len(keys))))
    departures, mean, poisson = signal.departures(), math.sqrt(signal.level), signal.poisson
    own_share = 1 - _COMMON_SHARE

    def departure_square(key_count: float, of_all: float, error: float) -> float:
        """Return the mean squared error of the departure of ``key_count`` keys from their share of ``of_all`` keys."""
        return activity.square(
            own_share * key_count * (1 - key_count / of_all) * departures, key_count * poisson, error, size, over
        )

    squares, root, rng = np.zeros(hierarchy.size), hierarchy.root, np.random.default_rng(_SEED)
    key_count, error = float(key_counts[root]), float(noise[root])
    rate = key_count**2 * (signal.lines + _COMMON_SHARE * departures) + key_count * own_share * departures
    squares[root] = activity.square_of_all(signal, rate, key_count, error, over)
    for row, parts in reversed(hierarchy.branches):
        # Parts of equal size and noise have equal errors.
        distinct, index_of_part = np.unique(
            np.column_stack([key_counts[parts], noise[parts]]), axis=0, return_inverse=True
        )
        part_squares = np.array(
            [departure_square(key_count, float(key_counts[row]), error) for key_count, error in distinct.tolist()]
        )[index_of_part.ravel()]
        means, mean_noise = key_counts[parts, None] * activity.means(mean), float(np.sqrt(np.mean(noise[parts] ** 2)))
        total = means.sum(axis=0), float(noise[row]) / root_of_size
        # Which shapes keys have is seen behind noise, and so their levels are known less well.
        own = mean_noise / root_of_size
        variances = np.zeros(len(parts))
        for _ in range(draws := max(1, round(_KEYS_DRAWN / len(parts)))):
            behind = means + own * rng.normal(size=means.shape)
            levels = fit_panel_levels(behind, activity.ends, activity.weights, own, total, prior=activity.prior)
            variances += positive_levels(levels.values, levels.variances, float(key_counts[row]) * mean)[1] / draws
        alike = np.bincount(index_of_part.ravel(), variances) / np.bincount(index_of_part.ravel())
        part_squares += over**2 * alike[index_of_part.ravel()]
        squares[parts] = (
            part_squares * (1 - part_squares / part_squares.sum())
            + (key_counts[parts] / key_counts[row]) ** 2 * squares[row]
        )
    names = [name for groups in released for name in groups.names] or ["all keys"]
    errors = dict(zip(names, np.sqrt(squares[len(keys) :]).tolist(), strict=False))
    return ExpectedError(
        noise=math.sqrt(over) * activity.last_tier_error(scale * _noise_factor(reading, 0)),
        bias=0.0,
        smoothed=math.sqrt(float(squares[: len(keys)].mean())),
        totals=tuple((name, errors[name]) for name in (names if grouping is None else grouping.groups.names)),
    )


def draw_steps(rng: np.random.Generator, size: int, sampling: Sampling) -> NDArray[np.int64]:
    """Draw kept steps, at least one (none would have probability 0.0003 where 8 are kept on average)."""
    if (blocks := sampling.blocks(size)) is not None:
        steps = np.arange(blocks.count) * blocks.length + rng.integers(blocks.length, size=blocks.count)
        return steps[steps < size]
    steps = np.flatnonzero(rng.random(size) < sampling.probability)
    return steps if len(steps) else np.array([size // 2])


def interpolation_squares(covariances: Covariances, kept_steps: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean squares of linear interpolation: of its bias, and of noise of variance 1.

    The filter has gain 1, and the weights of interpolation sum to 1, so the level does not matter.
    """
    every = np.arange(len(covariances.cross))
    after = kept_steps[np.minimum(np.searchsorted(kept_steps, every), len(kept_steps) - 1)]
    before = kept_steps[np.maximum(np.searchsorted(kept_steps, every, side="right") - 1, 0)]
    gap = after - before
    far = np.where(gap > 0, (every - before) / np.maximum(gap, 1), 0.0)
    near = 1 - far
    squares = (
        covariances.signal
        - 2 * near * covariances.cross[every - before]
        - 2 * far * covariances.cross[after - every]
        + (near**2 + far**2) * covariances.filtered[0]
        + 2 * near * far * covariances.filtered[gap]
    )
    return float(np.mean(squares)), float(np.mean(near**2 + far**2))


def smoothing_square_of_every_step(signal: SignalModel, kernel: Kernel, scale: float, over: int = 1) -> float:
    """Return the mean squared error of the Wiener filter, on the cycle, of sums of so many steps in a row."""
    power, gain = signal.spectrum_with_level(), np.fft.rfft(kernel.taps).real
    with np.errstate(invalid="ignore"):
        unresolved = np.where(power > 0, power * scale**2 / (power * gain**2 + scale**2), 0.0)
    return float(unresolved @ (copies(signal.size) * gain_of_sums(signal.size, over))) / signal.size


@single_thread()
def smoothing_square(
    signal: SignalModel, kernel: Kernel, kept_steps: NDArray[np.int64], probability: float, scale: float
) -> float:
    """Return the mean squared error of the best linear smoother of kept steps, in the middle of a stretch.

    The information in steps outside the stretch on the level and on patterns counts as a smaller prior variance.
    """
    size = signal.size
    length = min(size, math.ceil(_KEPT_IN_STRETCH / probability))
    covariances = Covariances.of(
        _informed_by_outside(signal, kernel, 1 - length / size, scale**2 / probability), kernel
    )
    kept_steps = kept_steps[kept_steps < length] if kept_steps[0] < length else kept_steps[:1]
    ends = (0, length - 1) if length == size else (length // 4, 3 * length // 4)  # a whole cycle has no ends
    targets = np.unique(np.linspace(*ends, _STEPS_IN_STRETCH).astype(np.int64))
    kept_covariance = covariances.level + covariances.filtered[kept_steps[:, None] - kept_steps]
    np.fill_diagonal(kept_covariance, kept_covariance.diagonal() + scale**2)
    with_signal = covariances.level + covariances.cross[kept_steps - targets[:, None]]
    # Both in LAPACK's memory order. One triangular solve suffices, as only the squared norm is needed.
    factor = scipy.linalg.cholesky(kept_covariance.T, lower=True, overwrite_a=True)
    half = scipy.linalg.solve_triangular(factor, with_signal.T, lower=True, overwrite_b=True, check_finite=False)
    return covariances.level + covariances.signal - float(np.sum(half**2)) / len(targets)


def _informed_by_outside(signal: SignalModel, kernel: Kernel, share: float, noise: float) -> SignalModel:
    """Return the signal given what a share of the cycle, under noise of such a variance, tells of level and lines."""
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
