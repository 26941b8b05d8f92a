"""From a count at several tiers of activity to the counts of everybody, with errors that cover the truth.

The last tier counts everybody in full: it knows the level, behind much noise. The others know the shape, behind less
noise, of people who come less and less often. What a tier and those after it have over the shape of those before is a
departure. As all noises are independent, the tiers may be rotated: until the first channel shows the common shape, as
well as all tiers together can, and each of the others only departures from it, of fewer and fewer tiers. Every
channel is then smoothed by itself, and a departure of which it shows nothing comes out as nothing.

Those who come as often as can be may have hours of their own, when few others come: a pattern of the shortest season
that only coarse tiers show, of some size, by the evidence. Where noise hides it, it widens the bands and adds nothing.

The level is that of all tiers together (``levels``), signed, so that noise does not push it up. How it is shared by
how often people come is sought apart from it, and not negative: each tier has a sum of weights over the counts of
those who come so often, and these counts are thought to be a smooth function of how often. It may also be that nobody
comes more often than a tier ends. Of values, whose last tier may be far beyond anybody, it is shared as the level says.
"""

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from opendp_timeseries.design.count import Count
from opendp_timeseries.design.grouping import SHARES
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.weighting import Drop
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.release.release import Release
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.basis import Basis
from opendp_timeseries.smoothing.levels import OF_COUNTS, Prior, fit_level
from opendp_timeseries.smoothing.matrices import Array, FitError
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import Season
from opendp_timeseries.smoothing.structural import Posterior, fit

#: The prior of the size of departures, by the common rate.
_DEPARTURE: Final = 0.1
#: The same of what several tiers depart by together, at least: if none does by more, they are left as they are.
_TOGETHER: Final = 0.06
#: They are less where the rate is low, down to this share of its mean; of values as if half of it were even, unless the
#: logarithm of the evidence is less by more than this: who has much may have it when few come.
_LOWEST: Final = 0.1
_CLEARLY: Final = 2.0
#: Standard deviations, by the level, that hours of those who come as often as can be may have, and how likely each is.
_RHYTHM: Final = ((0.0, 0.3), (0.025, 0.1), (0.05, 0.1), (0.1, 0.1), (0.2, 0.2), (0.4, 0.2))
#: Standard deviation of the logarithm of the dispersion of counts; of values, of which it is known less, more.
_DOUBT: Final = 0.3
#: Who has more in all has more at once, too: values vary as this power of the number of typical steps.
_LARGER: Final = 0.1
#: The levels of those who come so often are given where this grows by such a factor.
_RATIO: Final = 1.2
#: How much the slope of their logarithms, by that of how often, may change as this grows e-fold: one of these, by the
#: evidence; how much it falls on average; and at the end, mean and standard deviation of the slope.
_BENDS: Final = (4.0, 16.0, 64.0)
_FALL: Final = 1.0
_END: Final = (-2.0, 8.0)
#: Standard deviation of the mean of these logarithms.
_ANY: Final = 3.0
#: When to stop a search, and how far it moves at once.
_MOST_MOVES, _LEAST_GAIN, _FARTHEST = 200, 1e-3, 3.0


def last_tier(release: Release, level: int = 0) -> Release:
    """Return the last tier of a private series, in counts; any other release as it is.

    :param level: of groups of keys; 0 is of the keys.
    """
    count = release.design.signal.count
    if count is None or count.tiers is None:
        return release
    reading, grouping = count.reading, count.reading.grouping
    weights = count.tiers.weights(reading).rows
    of_all = float(weights[0, level - len(reading.levels)] / 2**RESOLUTION_BITS)
    panel = replace(reading, grouping=None)
    signal = Signal(replace(count, reading=panel, weighting=Drop(panel.max_steps)))
    if grouping is not None and level:
        signal = signal.after(grouping.groups_at(level))
    tiers, series, steps = count.shape
    rows = np.repeat((tiers - 1) * series + np.unique(reading.levels[level]), steps) * steps
    positions = rows + np.tile(np.arange(steps), signal.series)
    mask = np.isin(positions, release.steps)
    return Release(
        steps=np.flatnonzero(mask),
        values=release.values[np.searchsorted(release.steps, positions[mask])] / of_all,
        design=replace(release.design, signal=signal, scale=release.scale / of_all),
    )


def values_at(release: Release, count: Count, level: int = 0) -> tuple[Array, float]:
    """Return the values of a private series by tier, series and step, and their noise, as if its level were alone.

    :param release: of every step.
    :param level: of groups of keys; 0 is of the keys.
    """
    assert count.tiers is not None
    reading = count.reading
    if reading.grouping is None:
        return release.values.reshape(count.shape), release.scale
    row = count.tiers.table(count.tiers.last(reading)).weights[0]
    shared = reading.grouping.weights(row[None]).reshape(len(row), -1)[:, level] / row
    values = release.values.reshape(count.shape)[:, np.unique(reading.levels[level])]
    return values / shared[:, None, None], release.scale / math.sqrt(reading.grouping.shares[level] / SHARES)


def noise_of_few(count: Count, scale: float) -> float:
    """Return the standard error of how many come in a step, at a key, of people who come seldom, by all tiers.

    :param scale: of the noise.
    """
    if count.tiers is None:
        return scale
    reading = count.reading
    weights = count.tiers.weights(reading).rows[0].reshape(count.tiers.series, -1)[:, 0] / 2**RESOLUTION_BITS
    return scale / float(np.linalg.norm(weights))


class ByOften(NamedTuple):
    """Share of the level by how often people come, by rows of a table; its shape, not its size."""

    weights: Array
    levels: Array


def levels_by_often(values: Array, ends: NDArray[np.int64], weights: Array, noise: float) -> ByOften:
    """Return levels by how often people come, given the level of each tier.

    They are those of the largest posterior density, on average over priors by their evidence: a few bends, and for each
    that anybody may come in all steps, or nobody in more than a tier has.

    :param noise: standard deviation of each of the values.
    :raises FitError: if a fit does not work.
    """
    geometric = ends[0] * _RATIO ** np.arange(math.log(ends[-1] / ends[0], _RATIO))
    rows = np.unique([*np.searchsorted(ends, geometric), len(ends) - 1])
    weights, often, size = weights[rows], np.log(ends[rows]), len(rows)
    gaps = np.diff(often)[:, None]
    slopes = np.diff(np.eye(size), axis=0) / gaps
    root = np.sqrt((gaps[1:] + gaps[:-1]) / 2)
    bends, last, mean = np.diff(slopes, axis=0) / root, slopes[-1:], np.full((1, size), 1 / size)
    centre = math.log(max(values[-1], noise / 2) / weights[0, -1] / size)
    prior = np.array([[np.concatenate([bends / bend, last / _END[1], mean / _ANY])] for bend in _BENDS])
    tail = [*np.full(len(last), _END[0] / _END[1]), centre / _ANY]
    expected = np.array([[[*(-_FALL * root.ravel() / bend), *tail]] for bend in _BENDS])
    row_counts = np.sum(weights == weights[0], axis=0)  # rows within each tier: all of them within the last
    somebody, spread, identity = np.arange(size) < row_counts[:, None], np.linalg.inv(prior), np.eye(len(values))

    def at(deviations: Array) -> list[Array]:
        """Levels, half the sum of squares that is to be the least, its slope, and what the values add to it."""
        levels = np.exp((spread @ (deviations + expected)[..., None])[..., 0]) * somebody
        off = (levels @ weights - values) / noise
        moves = spread.swapaxes(-1, -2) @ (levels[..., None] * weights / noise)
        cost = (np.sum(off**2, axis=-1) + np.sum(deviations**2, axis=-1)) / 2
        return [levels, cost, (moves @ off[..., None])[..., 0] + deviations, moves]

    # All at once, by Levenberg's and Marquardt's method, as deviations from the prior in units of it.
    deviations = np.tile(prior @ np.full(size, centre) - expected, (1, len(row_counts), 1))
    damping = np.full((len(prior), len(row_counts), 1), 1e-3)
    try:
        with np.errstate(over="raise", invalid="raise"):
            now = at(deviations)
            for _ in range(_MOST_MOVES):
                _, cost, slope, moves = now
                turned = moves.swapaxes(-1, -2)
                inner = turned @ moves
                inner += (1 + damping + 1e-13 * np.trace(inner, axis1=-2, axis2=-1)[..., None])[..., None] * identity
                step = (slope - (moves @ np.linalg.solve(inner, turned @ slope[..., None]))[..., 0]) / (1 + damping)
                if np.max(np.sum(slope * step, axis=-1)) < _LEAST_GAIN:
                    break
                farthest = np.abs(spread @ step[..., None]).max(axis=-2)
                proposal = deviations - step / np.maximum(1.0, farthest / _FARTHEST)
                outcome = at(proposal)
                better = (outcome[1] < cost)[..., None]
                damping = np.where(better, damping / 2, damping * 4)
                deviations = np.where(better, proposal, deviations)
                now = [
                    np.where(better.reshape(better.shape[:2] + (1,) * (a.ndim - 2)), a, b)
                    for a, b in zip(outcome, now, strict=True)
                ]
    except (FloatingPointError, np.linalg.LinAlgError) as error:  # of values that are beyond all measure
        raise FitError("the level was not found") from error
    levels, cost, _, moves = now
    sizes = np.linalg.svd(moves, compute_uv=False)
    evidence = -np.sum(np.log1p(sizes**2), axis=-1) / 2 - cost
    evidence[:, :-1] -= math.log(max(len(row_counts) - 1, 1))  # all together as likely as the last
    likely = np.exp(evidence - evidence.max())
    return ByOften(weights, np.sum(likely[..., None] * levels, axis=(0, 1)) / likely.sum())


class Everybody(NamedTuple):
    """Mean, variance and covariance of the counts at every step, or of their rate.

    :param by_level: by how much each step goes along with the level.
    :param events: steps of single events.
    :param rates: of each tier at every step, in units of the values.
    :param levels: of each tier, above zero.
    :param count_covariance: covariance over the tiers of how counts vary, at the mean rate.
    """

    mean: Array
    variance: Array
    joint: LinearOperator
    by_level: Array
    events: list[int]
    rates: Array
    levels: Array
    count_covariance: Array


class Rhythm(errors.Covariance):
    """A pattern at every step, and the covariance of its error, worked out anew each time: it would fill the memory.

    :param mean: the pattern.
    :param steps: how many of the first steps the pattern is zero over, on average.
    :param mixture: makes of its columns weights of independent errors of variance 1.
    """

    def __init__(self, mean: Array, season: Season, steps: int, mixture: Array) -> None:
        super().__init__(len(mean))
        self.mean, self._season, self._steps, self._mixture = mean, season, steps, mixture

    @classmethod
    def of(cls, values: Array, precision: Array, season: Season, size: int, level: float) -> "Rhythm":
        """Return it as values show it beside their mean, averaged over how large it may be by the evidence.

        :param precision: of the values, the first of so many steps.
        """
        columns = _columns(season, size, len(values))
        centred = columns[: len(values)]
        centred = centred - np.average(centred, axis=0, weights=precision)
        information, axes = np.linalg.eigh((centred.T * precision) @ centred)
        pull = axes.T @ (centred.T @ (precision * values))
        shares, prior = np.array(_RHYTHM).T
        squares = ((shares * level) ** 2)[:, None]
        ratios = 1 + squares * np.maximum(information, 0.0)  # of variances before the values and after
        variances = squares / ratios
        density = np.log(prior) + np.sum(variances * pull**2 - np.log(ratios), axis=1) / 2
        likely = np.exp(density - density.max())
        likely /= likely.sum()
        mean = likely @ (variances * pull)
        between = np.sqrt(likely)[:, None] * (variances * pull - mean)
        mixture = axes @ np.column_stack([np.diag(np.sqrt(likely @ variances)), between.T])
        return cls(columns @ (axes @ mean), season, len(values), mixture)

    @property
    def root(self) -> Array:
        """A row for each step, of the weights of independent errors of variance 1."""
        root: Array = _columns(self._season, len(self.mean), self._steps) @ self._mixture
        return root

    def _matmat(self, columns: Array) -> Array:
        root = self.root
        product: Array = root @ (root.T @ columns)
        return product

    def variances(self, weights: Array, starts: NDArray[np.int64]) -> Array:
        """Return the variances of weighted sums."""
        return errors.from_root(csr_array(self.root)).variances(weights, starts)


def _columns(season: Season, size: int, steps: int) -> Array:
    """Return the waves of a season at so many steps, in their usual sizes; each is zero on average over the first."""
    basis = Basis(size, (season,), trend=False, limit=0)
    columns: Array = basis.at(np.arange(size))[:, 1:] * np.exp(basis.variances(basis.start())[0][1:] / 2)
    columns -= columns[:steps].mean(axis=0)
    columns /= np.sqrt(np.mean(np.sum(columns**2, axis=1)))
    return columns


def shares_of_mean(noise: Array | None, size: int) -> tuple[Array, float]:
    """Return the share of each step in the mean that tells the level, and the noise of that mean.

    :param noise: of values by tier and step; None if it is 1 everywhere.
    """
    precision = np.ones(size) if noise is None else 1 / np.mean(np.square(noise), axis=0)
    total = float(precision.sum())
    return precision / total, total**-0.5


def of_everybody(
    values: Array,
    ends: NDArray[np.int64],
    weights: Array,
    dispersion: float,
    seasons: tuple[Season, ...],
    *,
    trend: bool,
    counts: bool,
    level_estimate: tuple[float, float] | None = None,
    among: int = 1,
    noise: Array | None = None,
    ahead: int = 0,
    prior: Prior = OF_COUNTS,
    by_phase: bool = False,
) -> Everybody:
    """Return the counts of everybody at every step, or their rate.

    :param values: a row for each tier, in units of their noise.
    :param ends: how often people come who have a row of weights.
    :param weights: a column for each tier, in the same units. In the last they are equal.
    :param dispersion: prior variance of a count by its rate, 1 for Poisson's; of values, between 1 and its square.
    :param counts: whether to return those of the counts; else of the rate.
    :param level_estimate: the level and its variance, where more than these values tell it.
    :param among: how many series are looked at together.
    :param noise: of each value in these units, where it is not the same at all steps; the mean of its squares over the
        steps of a tier is 1.
    :param ahead: how many steps to add of which there are no values.
    :param prior: of counts by how often people come.
    :param by_phase: as of :func:`~.structural.fit`.
    :raises FitError: if a fit does not work.
    """
    tiers, last = values.shape
    size, steps, ones = last + ahead, np.arange(last), np.eye(tiers)
    of_noise = np.ones_like(values) if noise is None else np.square(noise)
    share, noise_of_means = shares_of_mean(noise, last)
    means_of_tiers = values @ share
    estimate, everybody = fit_level(means_of_tiers, ends, weights, noise_of_means, prior=prior), weights[0, -1]
    weights_of_always = weights[-1]
    total, of_total = level_estimate or (estimate.value, estimate.variance)
    if prior == OF_COUNTS:
        weights, by_often = levels_by_often(means_of_tiers, ends, weights, noise_of_means)
        squares = by_often
    else:  # far beyond those who come, tiers of values show noise alone
        by_often = max(total, of_total**0.5) * estimate.by_frequency
        squares = by_often * (ends / ends[0]) ** _LARGER
        squares *= by_often.sum() / squares.sum()
    levels = by_often @ weights

    # How much a value is, by which sums of them vary, shows in the values: it is sought first, and then held.
    for doubt in dict.fromkeys((_DOUBT + math.log(dispersion) / 2, _DOUBT)):
        covariance = dispersion * (weights.T * squares) @ weights
        root = np.linalg.cholesky(ones + covariance)
        shapes = np.tril(np.ones((tiers, tiers))) * levels[:, None]  # of all tiers, of those from the second on, …
        turn, sizes = np.linalg.qr(np.linalg.solve(root, shapes))
        turn, sizes = turn * np.sign(np.diag(sizes)), np.abs(np.diag(sizes))
        back = root @ turn
        channels = np.linalg.solve(back, values)
        first = np.linalg.inv(back)[0]  # of the first channel, whose variance is 1 with the counts' own
        spread = float(first @ covariance @ first) / sizes[0]  # in doubles, 1 less that of noise may be nothing
        of_common = Observations(size, steps, channels[0], first**2 @ of_noise, dispersion=spread, doubt=doubt)
        common = fit(replace(of_common, among=among, ahead=ahead), seasons, trend=trend, by_phase=by_phase)
        by_dispersion = common.dispersion / spread
        dispersion *= by_dispersion
    rate = np.maximum(common.mean / sizes[0], 0.0)
    slopes = [np.sqrt(np.maximum(rate, _LOWEST))]  # as it is the root of a rate that departs
    if prior != OF_COUNTS:
        slopes.append(np.sqrt((rate + 1) / 2))
    # What is seen in a single event tells nothing of how the rate departs at other steps.
    chance = common.events.chance

    def wide() -> Array:
        """Variance of a value of each channel at the mean rate, on average 1."""
        of_channels: Array = 1 + np.linalg.inv(back) ** 2 @ (of_noise - 1)
        return of_channels

    def departures(units: Array, slope: Array) -> list[Posterior]:
        scale = slope[:last]
        rows = [
            Observations(size, steps, row / scale, variance / scale**2 / np.maximum(1 - chance, 1e-9), ahead=ahead)
            for row, variance in zip(channels[1:], wide()[1:], strict=True)
        ]
        rows = [replace(row, dispersion=1e-6, doubt=0.01) for row in rows]
        return [
            fit(row, seasons, trend=trend, unit=unit, by_phase=by_phase) for row, unit in zip(rows, units, strict=True)
        ]

    units = _DEPARTURE * sizes[1:]
    trials = [departures(units, slope) for slope in slopes]
    densities = [
        sum(departure.evidence for departure in fits) - (tiers - 1) * np.log(slope[:last]).sum()
        for fits, slope in zip(trials, slopes, strict=True)
    ]
    chosen = len(slopes) - 1 if densities[-1] > densities[0] - _CLEARLY else 0
    fits, slope = trials[chosen], slopes[chosen]
    # Departures of several tiers are mostly one. So rotate them once more, until they have nothing in common, and take
    # each to be as large as it then shows; unless all are so small that this would be a pattern of the noise.
    courses = np.array([departure.mean[:last] for departure in fits]).reshape(-1, last)
    squares, axes = np.linalg.eigh(courses @ courses.T / last)
    least = _TOGETHER**2 * (axes.T**2 @ sizes[1:] ** 2)
    if tiers > 2 and np.any(squares > least):
        back[:, 1:], channels[1:] = back[:, 1:] @ axes, axes.T @ channels[1:]
        units = np.sqrt(np.maximum(squares, least))
        fits = departures(units, slope)
    means, variances = [common.mean, *(slope * departure.mean for departure in fits)], [common.variance]
    joints: list[LinearOperator] = [common.joint]
    for departure, unit, variance in zip(fits, units, wide()[1:], strict=True):
        # Less what it knows of its level, which all tiers tell together.
        term = 1 / (np.sum(slope[:last] ** 2 / variance) + unit**-2)
        variances.append(slope**2 * np.maximum(departure.variance - term, 0.0))
        joints.append(errors.rescale(departure.joint + errors.common_error(np.ones(size), -term), slope))
    rates = back @ np.array(means)
    rhythm = None
    if seasons and prior == OF_COUNTS:
        direction = np.linalg.solve(back, weights_of_always)[1:]
        information = max(float(direction @ direction), 1e-300)
        residuals = channels[1:] - np.array(means[1:]).reshape(-1, size)[:, :last]
        precision, height = information * (1 - chance), max(total, of_total**0.5)
        rhythm = Rhythm.of(direction @ residuals / information, precision, seasons[0], size, height)
        by_tier = back[:, 1:] @ direction
        rates += by_tier[:, None] * rhythm.mean
    by_level = slope**2 / (share @ slope[:last] ** 2)
    rates[-1] += (total * everybody - share @ rates[-1, :last]) * by_level
    beyond = np.zeros((size, tiers))
    beyond[:last] = (values - rates[:, :last]).T
    # What the rates do not explain is noise, and how counts vary, which shows on all tiers at once, and most in a
    # single event. It says nothing of the rates. Of steps ahead there is nothing to explain.
    chance = np.append(chance, np.full(ahead, common.events.share))
    deviation = counts * np.sqrt(np.maximum(rates / levels[:, None], 0.0) * by_dispersion).T
    usual = deviation[:, :, None] * covariance * deviation[:, None, :]
    inflation = 1 + common.events.variance / np.maximum(common.dispersion * common.mean, 1e-9)
    noises = of_noise.T[:, :, None] * ones
    moves, passed, variance = [], np.zeros((size, tiers)), np.zeros(size)
    for likely, scatter in ((1 - chance, usual), (chance, inflation[:, None, None] * usual)):
        gain = np.zeros((size, tiers))
        gain[:last] = np.linalg.solve(scatter[:last] + noises, scatter[:last, :, -1:])[:, :, 0]
        remainder = ones[-1] - gain
        term = ((remainder @ back).T ** 2 * np.array(variances)).sum(axis=0)
        term += scatter[:, -1, -1] - (gain * scatter[:, :, -1]).sum(axis=1)
        moves.append((beyond * gain).sum(axis=1))
        passed += likely[:, None] * remainder
        variance += likely * term
    variance += chance * (1 - chance) * (moves[1] - moves[0]) ** 2
    mean = rates[-1] + moves[0] + chance * (moves[1] - moves[0])
    mean += (total * everybody - share @ mean[:last]) * by_level  # as the level is that of the counts
    # What all steps have in common is of the rates; the rest is each step's own; and the level is put in place.
    rows = (passed @ back).T
    own_part = variance - (rows**2 * np.array(variances)).sum(axis=0)
    joint = errors.diagonal(own_part)
    if rhythm is not None:
        of_rhythm = passed[:, -1] * by_tier[-1]
        variance += of_rhythm**2 * (rhythm.root**2).sum(axis=1)
        joint += errors.rescale(rhythm, of_rhythm)
    for row, of_channel in zip(rows, joints, strict=True):
        joint += errors.rescale(of_channel, row)
    joint, variance = errors.at_level(joint, variance, np.pad(share, (0, ahead)), by_level, of_total * everybody**2)
    joint = errors.rescale(joint, np.full(size, 1 / everybody))
    events = common.events.steps(steps, mean)
    return Everybody(mean / everybody, variance / everybody**2, joint, by_level, events, rates, levels, covariance)
