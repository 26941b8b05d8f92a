"""From the releases of a panel, and perhaps of its totals, to series that are smoothed together.

Rows are the keys of the panel, and then its totals (:class:`~.smoothing.hierarchy.Hierarchy`). The *top* is the total
of all keys, smoothed as one series is. The *level* of a row is its mean count of a step, in each tier of activity:
counts with a cap have one tier, private series several. The *crowd* of a local event are those who come to it, of whom
nobody knows how often else they come. :mod:`~.smoothing.joint` makes one estimate of all.

A panel with a cap (:func:`smooth_panel`) and a private one (:func:`smooth_private_panel`) differ in how they find the
top, the levels and the crowds, and in nothing else. The constants are priors that public logs suggest, by orders of
magnitude: what is released outweighs them wherever it says something.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.reconstruction.runs import Run
from opendp_timeseries.release.release import Release
from opendp_timeseries.results.frames import ErrorCovers
from opendp_timeseries.results.series import Series
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.counts import counts_of
from opendp_timeseries.smoothing.everybody import of_everybody
from opendp_timeseries.smoothing.hierarchy import Hierarchy, is_joint
from opendp_timeseries.smoothing.joint import Crowds, JointEstimate, Levels, Top, smooth_jointly
from opendp_timeseries.smoothing.levels import OF_COUNTS, Prior, fit_panel_levels, positive_levels
from opendp_timeseries.smoothing.local_events import EVENT
from opendp_timeseries.smoothing.matrices import Array, FitError
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import Season
from opendp_timeseries.smoothing.structural import fit

#: The size of a row's departures goes by its level, but by no less than these shares of the level's error and of the
#: mean level of all rows: an empty row may still have an event.
_SHARE_OF_ERROR: Final = 0.1
_SHARE_OF_MEAN: Final = 0.02
#: Prior standard deviation of a tier's level at one key, by what the level of all its people says: people at one key
#: may come a third more or less often than elsewhere.
_TIER_SPREAD: Final = 0.3
#: Crowds of local events: how often these people come elsewhere, by the end of the first tier. Their prior
#: probabilities follow, the first of which is that of a crowd like the people of the key.
_CROWD_ACTIVITIES: Final = (1.0, 2.5, 6.0, 15.0)
_CROWD_PROBABILITIES: Final = (0.25, 0.4, 0.2, 0.1, 0.05)
#: Noise is taken to be no less than this share of the deviation of all values, as arithmetic needs some.
_LEAST_NOISE: Final = 1e-4


def are_joint(runs: Sequence[Run]) -> bool:
    """Return whether runs of releases can be smoothed jointly: each grid's can, and the noise is the same on all."""
    grids = zip(*(run.releases for run in runs), strict=True)
    return all(run.is_even for run in runs) and all(is_joint(releases) for releases in grids)


def smooth_panel(
    runs: Sequence[Run],
    patterns: tuple[Season, ...],
    *,
    trend: bool,
    counts: bool,
    model: str,
    done: Callable[[int], None] | None,
) -> tuple[Series, ...]:
    """Smooth a panel and its totals jointly, all of which are of one count with a cap.

    :param runs: the panel, and then its totals.
    :param model: in words.
    :raises FitError: if the total of all cannot be fitted.
    """
    releases = [run.single_release for run in runs]
    count, ahead, steps = runs[0].releases[0].design.count, runs[0].ahead, runs[0].steps
    keys = count.panel or ()
    hierarchy = Hierarchy.of(
        keys, [groups for item in releases[1:] if (groups := item.design.signal.groups) is not None]
    )
    values, noise = _rows(hierarchy, [(release.values.reshape(1, -1, steps), release.scale) for release in releases])
    estimate = smooth_jointly(
        values,
        noise,
        hierarchy,
        ahead=ahead,
        top=_TopOfCounts(count.reading.step_cap, patterns, trend, counts, ahead),
        levels=_levels_of_counts,
        crowds=Crowds(np.zeros((0, 1)), np.ones(1)),
        weight=1.0,
        patterns=patterns,
        trend=trend,
        counts=counts,
        done=done,
    )
    _check_finite(estimate)
    sources = [item for run in runs for item in run.releases] if len(runs) > 1 else ()
    return series_of_estimate(estimate, releases, counts=counts, model=model, sources=sources)


def _rows(hierarchy: Hierarchy, parts: Sequence[tuple[Array, float]]) -> tuple[Array, Array]:
    """Return values and noise of all rows: of those that no release has, nothing is known.

    :param parts: the values of each release, by tier, row and step, and the scale of their noise.
    """
    tiers, _, steps = parts[0][0].shape
    values, noise = np.zeros((tiers, hierarchy.size, steps)), np.full(hierarchy.size, math.inf)
    first = 0
    for part, scale in parts:
        rows = slice(first, first := first + part.shape[1])
        values[:, rows] = part
        noise[rows] = max(scale, _LEAST_NOISE * float(np.std(part)))
    return values, noise


def _check_finite(estimate: JointEstimate) -> None:
    if not np.all(np.isfinite(estimate.mean)) or not np.all(np.isfinite(estimate.errors.variance())):
        raise FitError("the fit ran away")


class _TopOfCounts:
    """Smooths the total of all as one series of counts is."""

    def __init__(self, step_cap: int, patterns: tuple[Season, ...], trend: bool, counts: bool, ahead: int) -> None:
        # Somebody has from one to all events of the cap in a step, so that counts vary the more, by how much is unsure.
        self._ahead, self._dispersion, self._doubt = ahead, step_cap**0.5, 0.5 + math.log(step_cap) / 4
        self._patterns, self._trend, self._counts = patterns, trend, counts

    def __call__(self, values: Array, noise: float) -> Top:
        steps = np.arange(values.shape[1])
        size, ahead = len(steps) + self._ahead, self._ahead
        data = Observations(size, steps, values[0], noise**2, None, self._dispersion, self._doubt, ahead=ahead)
        posterior = fit(data, self._patterns, trend=self._trend, by_phase=True)
        mean, variance, joint = posterior.mean, posterior.variance, posterior.joint
        if self._counts:
            mean, variance, passed = counts_of(data, posterior)
            joint = errors.rescale(joint, passed) + errors.diagonal(variance - passed**2 * posterior.variance)
        level = np.maximum(posterior.mean[: len(steps)].mean(keepdims=True), 0.0)
        covariance = self._dispersion * level[:, None]
        events = np.array(posterior.events.steps(steps, mean), dtype=np.intp)
        return Top(mean, variance, joint, events, posterior.mean[None], level, covariance)


def _levels_of_counts(means: Array, noise: Array, noise_of_all: float, top: Top, of_group: float) -> Levels:
    """Return the levels of parts with one tier: their means, as far as they are above zero and add up."""
    totals, variances = positive_levels(means[:, 0], noise**2, of_group)
    return Levels(_positive(totals[:, None], noise, top), totals, variances)


def _positive(levels: Array, noise: Array, top: Top) -> Array:
    """Return levels that are no less than a share of their error, and of the mean of all."""
    return np.maximum(levels, np.maximum(_SHARE_OF_ERROR * noise[:, None], _SHARE_OF_MEAN * top.level / len(levels)))


def smooth_private_panel(
    runs: Sequence[Run],
    patterns: tuple[Season, ...],
    *,
    trend: bool,
    counts: bool,
    model: str,
    done: Callable[[int], None] | None,
) -> tuple[Series, ...]:
    """Smooth a private panel jointly, and its groups if it has any, by the sum of its keys in each tier of activity.

    :param runs: one of all keys in all tiers.
    :return: the series of the keys, and of the groups of each level, from the innermost.
    :raises FitError: if the sum of all cannot be fitted.
    """
    (run,) = runs
    count = run.releases[0].design.count
    levels = range(len(count.reading.levels))
    last = [run.last_tiers(level).single_release for level in levels]
    hierarchy = Hierarchy.of(
        count.panel or (), [groups for release in last if (groups := release.design.signal.groups)]
    )
    tiered = [run.tiers(level) for level in levels]
    ends, weights = tiered[0].ends, tiered[0].weights
    values, noise = _rows(hierarchy, [(of_level.values, of_level.scale) for of_level in tiered])
    step_cap = count.reading.step_cap
    population = _Population(ends, weights, step_cap**0.5, patterns, trend, counts, run.ahead, Prior.of(step_cap))
    estimate = smooth_jointly(
        values,
        noise,
        hierarchy,
        ahead=run.ahead,
        top=population.top,
        levels=population.levels,
        crowds=population.crowds(),
        weight=float(population.weights[0, -1]),
        patterns=patterns,
        trend=trend,
        counts=counts,
        done=done,
    )
    _check_finite(estimate)
    return series_of_estimate(estimate, last, counts=counts, model=model, sources=run.releases)


class _Population(NamedTuple):
    """People by how often they come, and their weights in each tier of activity."""

    ends: NDArray[np.int64]
    weights: Array
    dispersion: float
    patterns: tuple[Season, ...]
    trend: bool
    counts: bool
    ahead: int = 0
    prior: Prior = OF_COUNTS

    def top(self, values: Array, noise: float) -> Top:
        """Return the total of all as one private series."""
        estimate = of_everybody(
            values / noise,
            self.ends,
            self.weights / noise,
            self.dispersion,
            self.patterns,
            trend=self.trend,
            counts=self.counts,
            ahead=self.ahead,
            prior=self.prior,
            by_phase=True,
        )
        events = np.array(estimate.events, dtype=np.intp)
        rates, levels, covariance = (
            estimate.rates * noise,
            estimate.levels * noise,
            estimate.count_covariance * noise**2,
        )
        return Top(estimate.mean, estimate.variance, estimate.joint, events, rates, levels, covariance)

    def levels(self, means: Array, noise: Array, noise_of_all: float, top: Top, of_group: float) -> Levels:
        """Return the levels of parts: those of people together, those of tiers as far as their own means tell."""
        alike = float(np.sqrt(np.mean(noise**2)))
        estimate = fit_panel_levels(
            means, self.ends, self.weights, alike, (means.sum(axis=0), noise_of_all), prior=self.prior
        )
        totals, variances = positive_levels(estimate.values, estimate.variances, of_group)
        usual = np.maximum(totals, 0.0)[:, None] * top.level / max(float(top.level[-1] / self.weights[0, -1]), 1e-300)
        prior_variance = (_TIER_SPREAD * usual) ** 2
        tiers = usual + prior_variance / (prior_variance + noise[:, None] ** 2) * (means - usual)
        return Levels(_positive(tiers, noise, top), totals, variances)

    def crowds(self) -> Crowds:
        """Return those who may come to a local event: people like those of the station, and such as come so often."""
        rows = np.minimum(np.searchsorted(self.ends, self.ends[0] * np.array(_CROWD_ACTIVITIES)), len(self.ends) - 1)
        return Crowds(self.weights[rows], np.array(_CROWD_PROBABILITIES))


def series_of_estimate(
    estimate: JointEstimate, releases: Sequence[Release], *, counts: bool, model: str, sources: Sequence[Release]
) -> tuple[Series, ...]:
    """Return the series of each release, in the order of the rows."""
    variances, by_row, rows = estimate.errors.variance(), estimate.errors.of_row(), []
    first, steps = 0, estimate.mean.shape[1]
    covers: ErrorCovers = "counts" if counts else "rate"
    for release in releases:
        last = first + release.size // steps
        parts = [
            Series(
                estimate.mean[row],
                release=part,
                standard_error=np.sqrt(variances[row]),
                covariance=by_row[row],
                error_covers=covers,
                events=_events(estimate, row),
                sources=tuple(sources),
                model=model,
            )
            for row, part in zip(range(first, last), release.parts(), strict=True)
        ]
        rows.append(
            Series(
                estimate.mean[first:last].ravel(),
                release=release,
                standard_error=np.sqrt(variances[first:last]).ravel(),
                covariance=estimate.errors.of_rows(first, last),
                error_covers=covers,
                events=[k * steps + step for k, part in enumerate(parts) for step in part.events],
                parts=parts,
                sources=tuple(sources),
                model=model,
            )
        )
        first = last
    return tuple(rows)


def _events(estimate: JointEstimate, row: int) -> list[int]:
    """Return the steps of events of one row: local ones of a key, single ones of the total of all."""
    if row < len(estimate.chance):
        return np.flatnonzero(estimate.chance[row] > EVENT).tolist()
    return estimate.events.tolist() if row == estimate.errors.hierarchy.root else []
