"""Make the series of a panel and its totals add up, by least squares with the errors that are known.

Hay, Rastogi, Miklau & Suciu (2010), "Boosting the Accuracy of Differentially Private Histograms Through Consistency",
for unequal errors and trees of any shape: one pass up the tree and one down, instead of a system of all nodes.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, get_args

import numpy as np
from scipy.special import gammaincc

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.release.release import Release
from opendp_timeseries.results.frames import ErrorCovers
from opendp_timeseries.results.series import Series
from opendp_timeseries.smoothing import errors as of_steps
from opendp_timeseries.smoothing.hierarchy import branches_of, least_squares
from opendp_timeseries.smoothing.matrices import Array

_TOGETHER: Final = "release the panel and its totals behind one count, by panel >> then_composition([…])"
_ANEW: Final = f"each draws anew which events over a cap it keeps, so {_TOGETHER}"

#: Counts made elsewhere, of which nobody knows whether they are the same, are refused where it shows; by chance, once
#: in a billion.
_UNLIKELY: Final = 1e-9

#: What sums differ by at most in floating point, by the largest value.
_ROUNDING: Final = 1e-9

#: Values that are worked on at a time.
_BLOCK: Final = 2**20


def reconcile(*series: Series) -> tuple[Series, ...]:
    """Return a panel and its totals with values that add up, each at least as accurate as before.

    At each step these are the generalised least-squares estimates: of all figures that add up, those nearest to the
    given ones, each in units of its standard error. They are post-processing, and cost no privacy. Values may be
    negative, as those of a release may. A series that kept no step takes what the others leave.

    If the given errors are right and those of different series independent, these are the best linear unbiased
    estimates. Where every step was kept (``sampling_probability=1``) and interpolated, they are, and the standard
    errors that come out are exact, and smaller than before. Series that add up already, as those of
    :func:`~opendp_timeseries.smooth` of a panel and its totals together do, are returned as they are.

    A total and its parts have errors of :func:`~opendp_timeseries.smooth` in common: how the counts move where none of
    them was kept. Figures gain from each other all the same, but less than least squares would state, so that the
    standard errors stay those before. Between kept steps, interpolation knows the noise alone: figures add up, but no
    standard error is stated if one series kept some of its steps only.

    :param series: reconstructed releases, of the panel and of its totals (:func:`~opendp_timeseries.make_totals`) of
        **one** invocation of one count, so that the truths add up: by :func:`~opendp_timeseries.then_composition`.
        Where the count draws nothing, as it weighs people down and has no key cap, releases of **one log** may also be
        made one after the other. Several releases of totals, say of districts and of the city, make one tree together.
    :return: one series for each, in the same order.
    :raises TypeError: for anything but series.
    :raises ValueError: if they are not one panel and its totals, of one invocation, reconstructed alike, with standard
        errors; groups overlap; or, where only noise is between them, they are farther apart than it explains.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> panel = space >> ts.then_participation_count(
    ...     ts.TimeGrid(size=2), participation_cap=2, by="site", keys=["a", "b", "c"], key_cap=1)
    >>> noise = ts.then_subsampled_gaussian(3.0, sampling_probability=1.0)
    >>> together = panel >> ts.then_composition([noise, ts.then_totals({"all": ["a", "b", "c"]}) >> noise])
    >>> log = {"id": np.array([1, 2, 3]), "step": np.array([0, 0, 1]), "site": np.array(["a", "b", "c"])}
    >>> released = together(log)
    >>> sites, total = ts.reconcile(*map(ts.interpolate, released))
    >>> bool(np.allclose(sum(part.values for part in sites.by_key().values()), total.values))
    True
    >>> sites.standard_error.round(3).tolist(), total.standard_error.round(3).tolist()  # 3 before
    ([2.598, 2.598, 2.598, 2.598, 2.598, 2.598], [2.598, 2.598])
    """
    for member in series:
        if not isinstance(member, Series):
            raise TypeRefusal(
                "series", Quoted(type(member).__name__), "must be reconstructed releases", "interpolate or smooth them"
            )
    ordered = [series[k] for k in panel_first([member.release for member in series], "series")]
    if any(member.unfiltered != series[0].unfiltered for member in series):
        raise Refusal(
            "series", ..., "must all be of filtered counts, or all of unfiltered ones", "reconstruct them alike"
        )
    consistent = {id(before): after for before, after in zip(ordered, consistent_series(ordered), strict=True)}
    return tuple(consistent[id(member)] for member in series)


def consistent_series(ordered: Sequence[Series]) -> tuple[Series, ...]:
    """Return a panel, and then its totals, with values that add up.

    :param ordered: of counts whose truths do.
    """
    signal = _signal(ordered[0].release)
    keys = signal.count.panel or ()
    steps = signal.grid.size
    branches = branches_of(
        keys, [groups for series in ordered[1:] if (groups := _signal(series.release).groups) is not None]
    )
    values = np.concatenate([series.values.reshape(-1, steps) for series in ordered])
    variances = np.concatenate([_variances(series, steps) for series in ordered])
    new_variances = np.empty_like(variances)
    block, misfit, shift = max(1, _BLOCK // len(values)), 0.0, 0.0
    for start in range(0, steps, block):
        now = slice(start, start + block)
        given, errors = values[:, now].copy(), variances[:, now]
        values[:, now], new_variances[:, now] = least_squares(branches, given, errors)
        misfit += float(np.sum((values[:, now] - given) ** 2 / errors))
        shift = max(shift, float(np.abs(values[:, now] - given).max()))
    covers = min((series.error_covers for series in ordered), key=get_args(ErrorCovers).index)
    is_full = (len(part.release) in (0, part.release.size) for series in ordered for part in series.parts)
    if covers not in ("noise", "nothing") and shift <= _ROUNDING * float(np.abs(values).max()):
        return tuple(ordered)  # they add up already
    if covers == "noise" and not all(is_full):
        covers = "nothing"
    if covers == "noise" and np.all(np.isfinite(variances)):
        _check_apart(misfit, steps * (len(values) - len(keys)))
    # Those of the noise alone are independent.
    squared_errors = new_variances if covers == "noise" else np.where(np.isinf(variances), new_variances, variances)
    errors = np.sqrt(np.where(np.isinf(squared_errors) | (covers == "nothing"), np.nan, squared_errors))
    ends = np.cumsum([0, *(series.release.size // steps for series in ordered)])
    sources = tuple(
        {id(release): release for series in ordered for release in series.sources or (series.release,)}.values()
    )
    return tuple(
        _consistent(series, values[low:high], errors[low:high], error_covers=covers, sources=sources)
        for series, (low, high) in zip(ordered, pairwise(ends), strict=True)
    )


def _check_apart(squares: float, freedom: int) -> None:
    """Refuse figures that lie farther apart than by their noise: their truths do not add up."""
    if gammaincc(freedom / 2, squares / 2) < _UNLIKELY:  # χ²
        raise Refusal(
            "series",
            ...,
            f"are farther apart than their noise explains (χ² = {squares:.0f}, where {freedom} is usual), so what was"
            " counted does not add up, as of two logs",
            _TOGETHER,
        )


def _signal(release: Release, name: str = "series") -> Signal:
    signal = release.design.signal
    if signal.count is None or signal.count.panel is None:
        raise Refusal(
            name,
            ...,
            "must be of a panel and of totals, which know how they were made",
            "release them behind one count with `by=` and `keys=`",
        )
    return signal


def panel_first(releases: Sequence[Release], name: str) -> list[int]:
    """Return the positions of the panel, and then of its totals, after a check that they belong together.

    :param name: what they are called in errors.
    """
    panels = [k for k, release in enumerate(releases) if _signal(release, name).groups is None]
    if len(panels) != 1 or len({id(release) for release in releases}) < len(releases) or len(releases) < 2:
        tally = f"found {len(panels)} panels among {len(releases)}"
        raise Refusal(name, ..., f"must be one panel and its totals, {tally}")
    first = panels[0]
    signal = _signal(releases[first], name)
    for release in releases:
        of_release = _signal(release, name)
        if of_release.count != signal.count or of_release.kernels != signal.kernels:
            raise Refusal(
                name, ..., "must be of one count, with the same filters", "release the totals behind the panel's"
            )
        if not release.scale > 0:
            raise Refusal(name, ..., "must be of noisy releases", f"scale ({release.scale}) means no noise")
    named = {release.invocation for release in releases}
    if signal.count.source is not None and signal.count.is_drawn and (None in named or len(named) > 1):
        raise Refusal(name, ..., "must be of one invocation of a count", _ANEW)
    return [first, *(k for k in range(len(releases)) if k != first)]


def _variances(series: Series, steps: int) -> Array:
    """Squared standard errors, one row for each part; infinite for a part of which no step was kept."""
    variances = series.standard_error.reshape(-1, steps) ** 2
    for k, part in enumerate(series.parts):
        if len(part.release) == 0:
            variances[k] = np.inf
    if not np.all(variances > 0):
        raise Refusal("series", ..., f"must have standard errors, which {series.model} does not give at every step")
    return variances


def _consistent(series: Series, values: Array, errors: Array, **change: Any) -> Series:
    """Return a series with other values and errors, a row for each part, and so its parts."""
    rows = zip(series.parts, values, errors, strict=False)  # of a part, the rows are numbers, and there are no parts
    parts = [_consistent(*row, **change) for row in rows]
    error = errors.ravel()
    joint = of_steps.diagonal(error**2) if change["error_covers"] == "noise" else series.covariance_with(error)
    return replace(
        series,
        values=values.ravel(),
        standard_error=error,
        covariance=None if parts else joint,
        model=f"{series.model}, reconciled with totals",
        parts=parts,
        **change,
    )
