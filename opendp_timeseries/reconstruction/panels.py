"""From the releases of a panel, and perhaps of its totals, to series that are smoothed together."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from opendp_timeseries.reconstruction import errors
from opendp_timeseries.reconstruction.counts import counts_of
from opendp_timeseries.reconstruction.hierarchy import Hierarchy
from opendp_timeseries.reconstruction.joint import Crowds, Joint, Levels, Top, smooth_jointly
from opendp_timeseries.reconstruction.local_events import NAMED
from opendp_timeseries.reconstruction.matrices import Array, FitError
from opendp_timeseries.reconstruction.observations import Observations
from opendp_timeseries.reconstruction.seasons import Season
from opendp_timeseries.reconstruction.series import ErrorCovers, Series
from opendp_timeseries.reconstruction.structural import fit
from opendp_timeseries.release.release import Release

#: The least level of a part for the size of its departures, by its error and by the mean of all.
_BY_ERROR: Final = 0.1
_BY_MEAN: Final = 0.02
#: The least noise by the deviation of all values, for arithmetic.
_LEAST: Final = 1e-4


def is_joint(releases: Sequence[Release]) -> bool:
    """Return whether releases can be smoothed jointly: a panel of several series, and totals, with every step kept."""
    signals = [release.design.signal for release in releases]
    panels = [signal for signal in signals if signal.groups is None]
    return (
        len(panels) == 1
        and panels[0].count is not None
        and len(panels[0].count.panel or ()) > 1
        and all(not signal.kernels for signal in signals)
        and all(len(release) == release.size for release in releases)
        and all(np.all(np.isfinite(release.values)) for release in releases)
    )


def smooth_panel(
    releases: Sequence[Release],
    patterns: tuple[Season, ...],
    *,
    trend: bool,
    counts: bool,
    model: str,
    done: Callable[[int], None] | None,
) -> tuple[Series, ...]:
    """Smooth a panel and its totals jointly, all of which are of one count with a cap.

    :param releases: the panel, and then its totals.
    :param model: in words.
    :raises FitError: if the total of all cannot be fitted.
    """
    signal = releases[0].design.signal
    count = signal.count
    assert count is not None
    steps, keys = count.grid.size, count.panel or ()
    hierarchy = Hierarchy.of(keys, [groups for one in releases[1:] if (groups := one.design.signal.groups) is not None])
    values, noise = np.zeros((1, hierarchy.size, steps)), np.full(hierarchy.size, math.inf)
    first = 0
    for release in releases:
        last = first + release.size // steps
        values[0, first:last] = release.values.reshape(-1, steps)
        noise[first:last] = max(release.scale, _LEAST * float(np.std(release.values)))
        first = last
    found = smooth_jointly(
        values,
        noise,
        hierarchy,
        top=_TopOfCounts(count.step_cap, patterns, trend, counts),
        levels=_levels_of_counts,
        crowds=Crowds(np.zeros((0, 1)), np.ones(1)),
        weight=1.0,
        patterns=patterns,
        trend=trend,
        counts=counts,
        done=done,
    )
    if not np.all(np.isfinite(found.mean)) or not np.all(np.isfinite(found.errors.variance())):
        raise FitError("the fit ran away")
    return series_of(found, releases, counts=counts, model=model)


class _TopOfCounts:
    """Smooths the total of all as one series of counts is."""

    def __init__(self, step_cap: int, patterns: tuple[Season, ...], trend: bool, counts: bool) -> None:
        self._dispersion, self._doubt = step_cap**0.5, 0.5 + math.log(step_cap) / 4
        self._patterns, self._trend, self._counts = patterns, trend, counts

    def __call__(self, values: Array, noise: float) -> Top:
        steps = np.arange(values.shape[1])
        seen = Observations(len(steps), steps, values[0], noise**2, dispersion=self._dispersion, doubt=self._doubt)
        found = fit(seen, self._patterns, trend=self._trend)
        mean, variance, joint = found.mean, found.variance, found.joint
        if self._counts:
            mean, variance, passed = counts_of(seen, found)
            joint = errors.scaled(joint, passed) + errors.diagonal(variance - passed**2 * found.variance)
        level = np.maximum(found.mean.mean(keepdims=True), 0.0)
        own = self._dispersion * level[:, None]
        return Top(mean, variance, joint, found.events.steps(steps), found.mean[None], level, own)


def _levels_of_counts(means: Array, noise: Array, top: Top) -> Levels:
    """Return the levels of parts with one tier: their means, which are right on average."""
    total = means[:, 0]
    least = np.maximum(_BY_ERROR * noise, _BY_MEAN * top.level[0] / len(total))
    return Levels(np.maximum(total, least)[:, None], total, noise**2)


def series_of(found: Joint, releases: Sequence[Release], *, counts: bool, model: str) -> tuple[Series, ...]:
    """Return the series of each release, in the order of the rows."""
    variances, by_row, rows = found.errors.variance(), found.errors.of_row(), []
    first, steps = 0, found.mean.shape[1]
    covers: ErrorCovers = "counts" if counts else "rate"
    sources = tuple(releases) if len(releases) > 1 else ()
    for release in releases:
        last = first + release.size // steps
        parts = [
            Series(
                found.mean[row],
                release=part,
                standard_error=np.sqrt(variances[row]),
                covariance=by_row[row],
                error_covers=covers,
                events=_events(found, row),
                sources=sources,
                model=model,
            )
            for row, part in zip(range(first, last), release.parts(), strict=True)
        ]
        rows.append(
            Series(
                found.mean[first:last].ravel(),
                release=release,
                standard_error=np.sqrt(variances[first:last]).ravel(),
                covariance=found.errors.of_rows(first, last),
                error_covers=covers,
                events=[k * steps + step for k, part in enumerate(parts) for step in part.events],
                parts=parts,
                sources=sources,
                model=model,
            )
        )
        first = last
    return tuple(rows)


def _events(found: Joint, row: int) -> list[int]:
    """Return the steps of events of one row: local ones of a key, single ones of the total of all."""
    if row < len(found.chance):
        return np.flatnonzero(found.chance[row] > NAMED).tolist()
    return found.events.tolist() if row == found.errors.hierarchy.root else []
