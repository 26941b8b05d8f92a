"""From a release to a full series with standard errors, by a model of the counts.

The noise level of a release is public, and so is the filter behind which it was made: only the counts remain to be
modelled. What is fitted is the release; it never sees the counts.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args, overload

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.design.count import Count
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.reconstruction.panels import are_joint, smooth_panel, smooth_private_panel
from opendp_timeseries.reconstruction.reconcile import consistent_series, panel_first, reconcile
from opendp_timeseries.reconstruction.runs import Run, Tiered, run_of, runs_of
from opendp_timeseries.release.release import Release, check_release
from opendp_timeseries.results.series import Series, of_each_part, panel_of, progress_line, reconstruct_parts
from opendp_timeseries.smoothing import errors, haar
from opendp_timeseries.smoothing.counts import counts_of
from opendp_timeseries.smoothing.everybody import of_everybody, shares_of_mean
from opendp_timeseries.smoothing.levels import OF_COUNTS, PanelLevels, Prior, fit_panel_levels
from opendp_timeseries.smoothing.matrices import Array, FitError
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import Season, Seasons, read_seasons
from opendp_timeseries.smoothing.structural import fit

#: With fewer kept steps there is nothing to learn variances from.
MIN_KEPT: Final = 8
#: No noise, and no value, is so large.
_BEYOND: Final = 1e100
#: Most multiplications for a filter to be undone, and so about a minute.
_WORK: Final = 4e9
#: The least variance of noise by that of the values, for arithmetic.
_LEAST: Final = 1e-8

SmoothMethod = Literal["structural", "haar"]
Band = Literal["counts", "rate"]


@overload
def smooth(
    release: Release,
    method: SmoothMethod = ...,
    *,
    seasons: Seasons = ...,
    trend: bool = ...,
    band: Band = ...,
    filtered: bool = ...,
    holidays: object = ...,
    grid: TimeGrid | None = ...,
    ahead: str | int | None = ...,
    progress: bool | None = ...,
) -> Series: ...
@overload
def smooth(
    release: Sequence[Release],
    method: SmoothMethod = ...,
    *,
    seasons: Seasons = ...,
    trend: bool = ...,
    band: Band = ...,
    filtered: bool = ...,
    holidays: object = ...,
    grid: TimeGrid | None = ...,
    ahead: str | int | None = ...,
    progress: bool | None = ...,
) -> tuple[Series, ...]: ...
def smooth(
    release: Release | Sequence[Release],
    method: SmoothMethod = "structural",
    *,
    seasons: Seasons = None,
    trend: bool = False,
    band: Band = "counts",
    filtered: bool = False,
    holidays: object = (),
    grid: TimeGrid | None = None,
    ahead: str | int | None = None,
    progress: bool | None = None,
) -> Series | tuple[Series, ...]:
    """Return the counts at every step with their standard errors, given the release, under a model.

    Post-processing: it reads the release alone, and costs no privacy. It may stand in a chain, as
    ``measurement >> functools.partial(smooth, seasons=24)``. But there a wrong season is an error only after the
    release is made, and loses it.

    ``method="structural"`` fits a structural model (Harvey 1989). Counts vary around a rate. The root of the rate is an
    unknown level, plus for each season a smooth pattern that repeats and may drift slowly, plus a departure from both
    that dies away exponentially, in proportion to the patterns if the release clearly shows that; where the mean of the
    release is below four standard errors, the rate itself is. In the total of a panel, what a longer season adds is as
    smooth within the shortest as this one, and larger at some of its phases if the release shows that; with
    ``seasons=("1d", "1w")``, weekends have a day of their own there. With ``"1w"``, over twelve weeks or more, the
    level drifts, as a random walk, as does what parts have of their own. The variance of the privacy noise is known;
    that of the counts is estimated near their rate, as Poisson's. The sizes of patterns, drifts and departures, the
    smoothness of patterns and the duration of departures are those of the largest marginal likelihood. Values that
    noise and counts around a rate cannot explain are single events, and keep their counts.

    The series of a panel of which every step was kept are fitted jointly: their sum as one series is, and each as a
    departure from what the sum predicts, since places share the weather and the day. So they are nearer to the truth,
    and standard errors of any sum of keys and steps are those of the joint fit. Counts at some steps of one key, which
    neither the others nor the noise explain, are local events. With ``smooth([panel, totals])``, the releases of a
    panel and of its totals (:func:`~opendp_timeseries.make_totals`) give a series each, which add up; the largest total
    is in place of the sum. Where some steps only were kept, behind a filter, or where the sum cannot be fitted, each
    series is fitted by itself, and :func:`~opendp_timeseries.reconcile` makes a panel and its totals add up.

    Of individuals at each key, counted without a cap (:func:`~opendp_timeseries.make_individual_count`), it is how many
    there were at each, in one step. How often people are at several keys is seen best in all keys together.

    ``method="haar"`` is for series with spikes and jumps, which upset every smooth model. It takes a release of every
    step, and keeps the differences of neighbouring averages that exceed the noise (translation-invariant Haar wavelets,
    Coifman & Donoho 1995). It has no standard errors: nobody knows the spikes that noise hides.

    Of a private series, which counts in several tiers of activity, all tiers give one series: that of everybody,
    with no cap. Its shape is mostly that of the finer tiers, and it departs from them as far as the others show that
    heavy users come at other times. Its level, of all tiers together, is right on average where few come very often,
    and may be negative. Levels of a panel are estimated together, so that they add up to that of all keys, and none is
    below zero: what the noise does not tell from nothing is as large as the sum lets expect. Its
    ``release`` is the last tier, in counts, and its ``sources`` are the whole. Of a private panel with groups, whose
    sums are in the fit, it is the series of the keys, which add up to those of the groups; and a list of the release
    alone, ``smooth([release])``, gives all: that of the keys, and one for each level of groups, from the innermost.

    If counts were filtered before noise was added, the series is nevertheless of the counts before the filter, which
    the release knows. What the filter hides shows in the errors. With ``filtered=True`` the series is of the filtered
    counts; so it is where a filter cannot be undone, because its weights sum to zero or less, or it is too long.
    ``unfiltered`` and ``model`` of the series say which. ``method="haar"`` undoes no filter.

    Releases of consecutive grids, such as those of months, are smoothed together: ``smooth([january, february])`` gives
    one series over all of their grids, and ``(year,) = smooth(months)`` takes it out of the tuple; of panels with
    totals or groups, it gives one for each of these. Each release may have its own noise and its own sample. All of
    them tell the level and the patterns, so each is nearer to the truth than by itself; and with every further
    release those before it change a little, too.

    With ``ahead="1w"`` the series goes on for a week after its grid: by its level and its patterns, and by departures
    as they fade. These steps are forecasts, of which nothing was released. ``series.ahead`` says how many they are,
    ``series.is_forecast`` which, and tables, figures and pages mark them. Their bands cover what the past lets expect,
    but no holiday, closure or growth that is new. What they are of need not have happened yet, so they cost no privacy.

    The result depends only on the release and the parameters; no random numbers are drawn. Choose the parameters from
    public knowledge, such as that the day has 288 steps.

    Intervals are as good as the model, and take the estimated variances for true. Their coverage is pointwise, not
    simultaneous, and what caps left out is not in them. Values must be counts, not thousands of them, as the variance
    of counts depends on their unit.

    :param release: a release of the subsampled Gaussian, of one series or of a panel; or those of a panel and of its
        totals, of one invocation of one count.
    :param method: ``"structural"``, or ``"haar"`` for series with spikes.
    :param seasons: what repeats, by the clock and the calendar of the grid's zone, ``"1d"``, ``"1w"``, ``"1mo"``,
        ``"1q"`` or ``"1y"``; or after so many steps, such as 288 for a day of 5 minutes; several, such as
        ``("1d", "1w")``; or None.
    :param trend: let the level drift smoothly, as an integrated random walk, rather than stay.
    :param band: what values and errors are of: ``"counts"``, those that the log would show, or ``"rate"``, their
        expectation, whose errors are smaller.
    :param filtered: estimate the filtered counts rather than those before the filter.
    :param holidays: dates whose days are like Sundays in ``"1w"``, such as ``["2024-12-25"]``; of a time, the day that
        the clock of the grid's zone shows.
    :param grid: the grid of the count (of one series, in a panel), if that was made elsewhere.
    :param ahead: how far to look ahead, by the clock of the grid, such as ``"1d"``, ``"1w"`` or ``"1mo"``; or a number
        of steps; up to as far as the releases reach back.
    :param progress: show on standard error how many series of a panel are done. By default, only in a terminal.
    :return: a :class:`~opendp_timeseries.Series` of ``release.size`` values in the signal's unit, and those ahead.
        Where the fit fails, or fewer than 8 steps were kept, linear interpolation with ``converged=False``, and
        ``model`` says why. Of a list of releases, a tuple of them, in the same order; of releases of several
        grids, in that of the first.
    :raises TypeError: if a season is neither a number nor text.
    :raises ValueError: if a season is shorter than two steps or needs a calendar that the grid has not, ``method`` or
        ``band`` is unknown, or ``method="haar"`` is given a release of some steps only, a season, a trend or a band;
        ``ahead`` is no number of whole steps, or asked for behind a filter; or if several releases are not one panel
        and its totals, or the same counts on consecutive grids.

    >>> import numpy as np
    >>> from opendp_timeseries import Release, smooth
    >>> from opendp_timeseries.accounting.sampling import Sampling
    >>> from opendp_timeseries.design.design import Design
    >>> from opendp_timeseries.design.signal import UnknownSignal
    >>> steps = np.arange(0, 120, 3)
    >>> values = 50 + 20 * np.sin(2 * np.pi * steps / 24)
    >>> design = Design(signal=UnknownSignal(120), sampling=Sampling(probability=0.3), scale=2.0)
    >>> release = Release(steps=steps, values=values, design=design)
    >>> smooth(release, seasons=24)
    Series(120 steps by structural model (level, departure, season 24); standard error of the counts)
    """
    check.choice("method", method, get_args(SmoothMethod))
    check.choice("band", band, get_args(Band))
    options = _Options(seasons, holidays, bool(trend), band, bool(filtered), progress)
    if isinstance(release, (list, tuple)) and release and all(isinstance(item, Release) for item in release):
        runs = runs_of(release, ahead, grid)
        return _of_run(runs[0], method, options) if len(runs) == 1 else _with_totals(runs, method, options)
    return _of_run(run_of((check_release(release),), ahead, grid), method, options)[0]


class _Specification(NamedTuple):
    """Components of the model, and the quantity that values and errors are of."""

    patterns: tuple[Season, ...]
    trend: bool
    band: Band
    among: int = 1  # series

    def model(self, of: str = "") -> str:
        parts = ["level", *(["trend"] if self.trend else []), "departure"]
        if self.patterns:
            parts.append(f"season {', '.join(map(str, self.patterns))}")
        return f"structural model{of} ({', '.join(parts)})"


class _Options(NamedTuple):
    """Options of :func:`smooth`, as they were given."""

    seasons: Seasons
    holidays: object
    trend: bool
    band: Band
    filtered: bool
    progress: bool | None

    def specification(self, run: Run) -> _Specification:
        """Return the specification of a run's model."""
        size, count = run.steps + run.ahead, run.count
        series = run.releases[0].size // run.lengths[0]
        tiers = None if count is None else count.tiers
        among = series // (1 if tiers is None else tiers.series)
        return _Specification(read_seasons(self.seasons, run.grid, size, self.holidays), self.trend, self.band, among)

    @property
    def shows_progress(self) -> bool:
        """Return whether progress shows."""
        return sys.stderr.isatty() if self.progress is None else self.progress


def _of_run(run: Run, method: SmoothMethod, options: _Options) -> tuple[Series, ...]:
    """Return the series of a run; of private panels with groups, of each level."""
    spec, count = options.specification(run), run.count
    tiers = None if count is None else count.tiers
    if method == "structural":
        series: tuple[Series, ...]
        if count is not None and tiers is not None:
            is_one_step = run.is_one and run.steps == 1 and count.reading.grouping is None
            series = (_in_one_step(run, spec),) if is_one_step else _private_series(run, spec, options.shows_progress)
        else:
            series = _jointly([run], spec, options.shows_progress) or (_counted_series(run, spec, options),)
        return tuple(_over(run, part) for part in series)
    if spec != _Specification((), False, "counts", spec.among):
        raise Refusal(
            "method='haar'", ..., "has neither seasons, trend nor band", "leave them out, or take `method='structural'`"
        )
    if not run.is_one:
        raise Refusal("method='haar'", ..., "has no steps ahead and smooths one release", "take `method='structural'`")
    release = run.single_release
    if tiers is not None:
        raise Refusal(
            "method='haar'", ..., "reads one series, and this release has several tiers of it", "leave it out"
        )
    if release.sampling_probability < 1:
        raise Refusal(
            "method='haar'",
            ...,
            f"needs every step, and this release kept each with probability {release.sampling_probability:g}",
            "take `method='structural'`",
        )
    return (reconstruct_parts(release, partial(_fit_or_line, make=_haar)),)


def _over(run: Run, series: Series) -> Series:
    """Return a series that says what it is made from, and which of its steps are ahead."""
    if run.is_one:
        return series
    sources = series.sources or run.releases
    parts = [replace(part, sources=sources) for part in series.parts]
    return replace(series, ahead=run.ahead, sources=sources, parts=parts)


def _counted_series(run: Run, spec: _Specification, options: _Options) -> Series:
    """Return the series of counts with a cap, or of counts made elsewhere, each by itself."""
    noise = None if len(run.releases) == 1 else run.noise
    estimator = partial(
        _fit_or_line, make=_structural, spec=spec, filtered=options.filtered, noise=noise, ahead=run.ahead
    )
    return reconstruct_parts(run.single_release, estimator, progress=options.shows_progress)


def _with_totals(runs: Sequence[Run], method: SmoothMethod, options: _Options) -> tuple[Series, ...]:
    """Return the series of a panel and its totals, which add up."""
    (order,) = {
        tuple(panel_first(releases, "releases")) for releases in zip(*(run.releases for run in runs), strict=True)
    }
    if method != "structural":
        raise Refusal(
            f"method={method!r}",
            ...,
            "has no standard errors, by which a panel and its totals would add up",
            "give it one release at a time, or take `method='structural'`",
        )
    ordered = [runs[k] for k in order]
    joint = _jointly(ordered, options.specification(ordered[0])._replace(among=1), options.shows_progress)
    if joint is None:
        return reconcile(*(_of_run(run, method, options)[0] for run in runs))
    return tuple(_over(run, joint[order.index(k)]) for k, run in enumerate(runs))


def _jointly(runs: Sequence[Run], spec: _Specification, progress: bool) -> tuple[Series, ...] | None:
    """Return the series of a panel, and of its totals if there are any, from one fit; None where there is none."""
    if not are_joint(runs):
        return None
    count = runs[0].count
    private = count is not None and count.tiers is not None
    model = spec.model(f" of all series{' and tiers of activity' if private else ''} jointly")
    try:
        with np.errstate(all="ignore"):
            for release in (part for run in runs for part in run.releases):
                _check_kept(release, float(np.std(release.values)))
            return (smooth_private_panel if private else smooth_panel)(
                runs,
                spec.patterns,
                trend=spec.trend,
                counts=spec.band == "counts",
                model=model,
                done=progress_line(len(count.panel or ()) if count else 0) if progress else None,
            )
    except np.linalg.LinAlgError:
        return None


def _fit_or_line(release: Release, make: Callable[..., Series], **options: object) -> Series:
    """Make a series; where that does not work, a line that says why."""
    try:
        with np.errstate(all="ignore"):  # absurd values overflow, and are found
            return make(release, **options)
    except FitError as error:
        return _line(release, error)


def _line(release: Release, error: FitError) -> Series:
    line = interpolate(release)
    return replace(line, model=f"{line.model} ({error})", converged=False)


def _haar(release: Release) -> Series:
    values = haar.threshold(release.values, release.scale * release.scale)
    if not np.all(np.isfinite(values)):
        raise FitError("the values are beyond all measure")
    return Series(values, release=release, model="translation-invariant Haar thresholding")


def _check_kept(release: Release, measure: float) -> None:
    """Refuse too few steps, and values whose measure is nothing, or beyond all others."""
    if len(release) < MIN_KEPT:
        raise FitError(f"fewer than {MIN_KEPT} steps were kept")
    if not (1 / _BEYOND < measure < _BEYOND and release.scale < _BEYOND):
        raise FitError("the kept values do not vary, or beyond all measure")


def _structural(release: Release, *, spec: _Specification, filtered: bool, noise: Array | None, ahead: int) -> Series:
    """Return the series of a release.

    :param noise: at each step, where it is not the same at all.
    """
    _check_kept(release, float(np.std(release.values)) if len(release) else 0.0)
    data = replace(_observations(release, filtered), among=spec.among, ahead=ahead)
    if noise is not None:
        data = replace(data, variance=np.maximum(noise[release.steps] ** 2, _LEAST * np.var(release.values)))
    posterior = fit(data, spec.patterns, trend=spec.trend)
    of_rate = posterior.mean, posterior.variance, np.ones(data.size)
    values, variance, passed = of_rate if spec.band == "rate" else counts_of(data, posterior)
    unfiltered = data.taps is not None
    kept_filter = " of the filtered counts" if release.design.signal.kernels else ""
    return Series(
        values,
        release=release,
        standard_error=np.sqrt(variance),
        covariance=errors.rescale(posterior.joint, passed) + errors.diagonal(variance - passed**2 * posterior.variance),
        error_covers=spec.band,
        unfiltered=unfiltered,
        events=posterior.events.steps(data.steps, values),
        model=spec.model(" of the counts before the filter" if unfiltered else kept_filter),
    )


def _in_one_step(run: Run, spec: _Specification) -> Series:
    """Return the numbers of everybody at each key, in a grid of one step, which has a level and no shape."""
    if spec.trend or spec.band == "rate":
        raise Refusal("a grid of one step", ..., "has neither a trend nor a rate", "leave out trend and band")
    return _fit_or_line(run.last_tiers().single_release, make=_levels_of_keys, run=run)


def _levels_of_keys(last: Release, *, run: Run) -> Series:
    (behind,) = run.releases
    values, variances, coupling = last.values, np.full(last.size, last.scale**2), 0.0
    if len(behind) < behind.size or not np.max(np.abs(behind.values)) < _BEYOND > behind.scale:
        raise FitError("values are missing, or beyond all measure")
    tiered = run.tiers()
    if len(tiered.values) > 1:
        estimate = _levels(tiered.values[..., 0].T, tiered, 1.0)
        if estimate is None:
            raise FitError("the levels were not found")
        values, variances, coupling = estimate.values, estimate.variances, estimate.coupling
    return Series(
        values,
        release=last,
        standard_error=np.sqrt(variances + coupling * variances**2),
        covariance=errors.diagonal(variances) + errors.common_error(variances, coupling),
        error_covers="counts",
        sources=(behind,),
        model="a level for each key, of all keys and tiers of activity jointly",
    )


def _private_series(run: Run, spec: _Specification, progress: bool) -> tuple[Series, ...]:
    """Return the series of everybody, from counts in several tiers of activity; with groups, of each level of them."""
    if joint := _jointly([run], spec, progress):
        return joint
    count = run.releases[0].design.count
    levels = tuple(_separate_series(run, count, spec, progress, level) for level in range(len(count.reading.levels)))
    is_known = all(np.all(series.standard_error > 0) for series in levels)
    return consistent_series(levels) if len(levels) > 1 and is_known else levels


def _separate_series(run: Run, count: Count, spec: _Specification, progress: bool, level: int) -> Series:
    """Return the series of everybody, those of a panel each by itself, but for their levels."""
    tiered, last = run.tiers(level), run.last_tiers(level).single_release
    by_key, step_cap = np.moveaxis(tiered.values, 1, 0), count.reading.step_cap
    share, noise = shares_of_mean(tiered.noise, run.steps)
    levels = None if last.keys is None else _levels(by_key @ share, tiered, noise, Prior.of(step_cap))
    priors = [None] * len(by_key) if levels is None else zip(levels.values, levels.covariance.diagonal(), strict=True)
    of_all = tiered._replace(values=tiered.values[:, :0])
    estimator = partial(_everybody, spec=spec, tiered=of_all, step_cap=step_cap, ahead=run.ahead)
    fits = of_each_part(last, estimator, list(by_key), list(priors), progress=progress)
    parts = [replace(part, sources=run.releases) if part.converged else part for part, _ in fits]
    if last.keys is None:
        return replace(parts[0], sources=run.releases)
    joint = None
    if levels is not None:
        # As levels add up to that of all, their errors go together.
        loadings = [size * by_level for size, (_, by_level) in zip(levels.variances, fits, strict=True)]
        covariances = [
            part.covariance + errors.common_error(row, -levels.coupling)
            for part, row in zip(parts, loadings, strict=True)
        ]
        joint = errors.independent(covariances) + errors.common_error(np.concatenate(loadings), levels.coupling)
    return panel_of(last, parts, sources=run.releases, covariance=joint)


def _levels(means: Array, tiered: Tiered, of_mean: float, prior: Prior = OF_COUNTS) -> PanelLevels | None:
    """Return the levels of a panel, from the means of the tiers of each key; None where they are not found."""
    noise = max(tiered.scale, 1e-4 * float(np.max(np.abs(means))))
    try:
        with np.errstate(all="ignore"):
            return fit_panel_levels(means / noise, tiered.ends, tiered.weights / noise, of_mean, prior=prior)
    except FitError:
        return None


def _everybody(
    release: Release,
    values: Array,
    level_estimate: tuple[float, float] | None,
    *,
    spec: _Specification,
    tiered: Tiered,
    step_cap: int,
    ahead: int,
) -> tuple[Series, Array]:
    """Return the series of everybody, from its values in all tiers, and how far each step goes along with its level.

    :param release: the last tier, in counts.
    :param level_estimate: the level and its variance, where more than these values tell it.
    :param tiered: weights and noise.
    """
    noise = max(tiered.scale, 1e-4 * float(np.std(values)))
    try:
        with np.errstate(all="ignore"):
            _check_kept(release, noise)
            estimate = of_everybody(
                values / noise,
                tiered.ends,
                tiered.weights / noise,
                step_cap**0.5,
                spec.patterns,
                trend=spec.trend,
                counts=spec.band == "counts",
                level_estimate=level_estimate,
                among=spec.among,
                noise=tiered.noise,
                ahead=ahead,
                prior=Prior.of(step_cap),
            )
    except FitError as error:
        return _line(release, error), np.zeros(release.size)
    series = Series(
        estimate.mean,
        release=release,
        standard_error=np.sqrt(estimate.variance),
        covariance=estimate.joint,
        error_covers=spec.band,
        events=estimate.events,
        model=f"{spec.model()} of all tiers of activity",
    )
    return series, estimate.by_level


def _observations(release: Release, filtered: bool) -> Observations:
    """Return a release's data for the model: its values and noise, and the filter."""
    signal = release.design.signal
    taps = None
    if signal.kernels:
        spectra = [np.fft.rfft(kernel.taps) for kernel in signal.kernels]
        taps = np.fft.irfft(np.prod(spectra, axis=0), n=release.size)
    # A release without noise still needs a variance that arithmetic can see.
    least = _LEAST * float(np.var(release.values))
    cap = 1 if signal.count is None else signal.count.reading.step_cap
    data = Observations(
        size=release.size,
        steps=release.steps,
        values=release.values,
        variance=max(release.scale * release.scale, least),
        taps=taps,
        dispersion=cap**0.5,  # between one event and the most that one individual may have in a step
        doubt=0.5 + float(np.log(cap)) / 4,
    )
    width = 2 * data.radius + 1
    undone = not filtered and data.gain > 0 and release.size * width * (width + 50) <= _WORK
    if taps is None or undone:
        return data
    # The filtered counts as counts, whose own variance is less.
    return replace(data, taps=None, dispersion=max(data.energy / max(data.gain, 1e-9), 1e-9) * data.dispersion)


def series_of(releases: Sequence[Release], **how: Any) -> list[Series]:
    """Smooth releases of one log, and give the first one's series; and then its totals, as far as there are any."""
    first, *totals = releases
    is_single = not totals and (first.design.signal.count is None or first.design.count.reading.grouping is None)
    return [smooth(first, **how)] if is_single else list(smooth(releases, **how))
