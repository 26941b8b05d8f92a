"""From a release to a full series, by interpolation between the kept steps."""

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opendp_timeseries import _validate as check
from opendp_timeseries.release.release import Release, check_release
from opendp_timeseries.results.series import Series, reconstruct_parts
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.everybody import last_tier

InterpolationMethod = Literal["linear", "nearest", "pchip"]


def interpolate(release: Release, method: InterpolationMethod = "linear", *, clip_at_zero: bool = False) -> Series:
    """Interpolate between the kept steps of a release; each series of a panel by itself.

    Post-processing: it reads the release alone, and costs no privacy. In a chain, write
    ``measurement >> interpolate``, or ``measurement >> functools.partial(interpolate, method="nearest")``.

    At kept steps the series equals the noisy values. Before the first and after the last kept step it is
    constant, as in Koga, Meehan & Chaudhuri (2022), appendix 2. With no kept step it is zero everywhere.

    The standard error is what the privacy noise, independent at each kept step, does to the values: the release's
    scale σ at kept steps and outside them, and ``σ/√2`` halfway between two of them, where linear interpolation
    averages their noise. For ``"pchip"``, which is not linear in the values, it is correct to first order in the
    noise. It does **not** cover how the signal moves between kept steps, which only a model can tell: see
    :func:`~opendp_timeseries.smooth`. Of a private series, it takes the last tier alone, that of everybody, in counts;
    ``smooth`` makes far more of it. With no kept step it is 0: the zeros carry no noise, and no information.

    :param release: a release of the subsampled Gaussian, of one series or of a panel.
    :param method: ``"linear"`` (the paper's), ``"nearest"`` (the earlier step wins a tie), or ``"pchip"``
        (monotone cubic between kept steps; linear if fewer than three were kept).
    :param clip_at_zero: replace negative values by zero. Off by default: it biases low counts upwards. The standard
        error stays that of the values before clipping.
    :return: a :class:`~opendp_timeseries.Series` of ``release.size`` values in the signal's unit, with
        ``error_covers="noise"``.
    :raises ValueError: if ``method`` is unknown.

    >>> from opendp_timeseries import Release, interpolate
    >>> from opendp_timeseries.accounting.sampling import Sampling
    >>> from opendp_timeseries.design.design import Design
    >>> from opendp_timeseries.design.signal import UnknownSignal
    >>> design = Design(signal=UnknownSignal(6), sampling=Sampling(probability=0.3), scale=1.0)
    >>> series = interpolate(Release(steps=[2, 4], values=[6, 9], design=design))
    >>> series.values.tolist()
    [6.0, 6.0, 6.0, 7.5, 9.0, 9.0]
    >>> series.standard_error.round(3).tolist()
    [1.0, 1.0, 1.0, 0.707, 1.0, 1.0]
    """
    check.choice("method", method, get_args(InterpolationMethod))

    def one_series(part: Release) -> Series:
        values, slopes = _through(part, part.values, method), part.scale * _slopes(part, method)
        return Series(
            release=part,
            values=np.maximum(values, 0.0) if clip_at_zero else values,
            standard_error=np.sqrt(slopes.multiply(slopes).sum(axis=1)),
            covariance=errors.from_root(slopes),
            error_covers="noise",
            model=f"{method} interpolation" + (", clipped at zero" if clip_at_zero else ""),
        )

    scaled = last_tier(check_release(release))
    series = reconstruct_parts(scaled, one_series)
    return series if scaled is release else replace(series, sources=(release,))


def _through(release: Release, values: NDArray[np.float64], method: InterpolationMethod) -> NDArray[np.float64]:
    """The series that takes these values at the kept steps."""
    steps, every = release.steps, np.arange(release.size)
    if len(steps) == 0:
        return np.zeros(release.size)
    if method == "nearest":
        return values[np.searchsorted((steps[1:] + steps[:-1]) / 2, every, side="left")]
    if method == "linear" or len(steps) < 3:
        return np.interp(every, steps, values)
    curve = scipy.interpolate.PchipInterpolator(steps, values)
    series: NDArray[np.float64] = curve(np.clip(every, steps[0], steps[-1]))
    series[steps[-1] :] = values[-1]  # exactly: a cubic meets its right end but for rounding
    return series


def _slopes(release: Release, method: InterpolationMethod) -> Any:
    """Return the derivatives of the series by the kept values, as a sparse array with a row for each step."""
    # Between two kept steps the series depends on those two and their neighbours only, as PCHIP sets its slopes so.
    # Four series, each with every fourth value moved, therefore show every derivative on its own. The other kinds are
    # linear: their derivatives are the series through ones and zeros.
    base = release.values if method == "pchip" else np.zeros(len(release))
    largest = float(np.max(np.abs(base), initial=0.0))
    step = max(release.scale * 2.0**-10, largest * 2.0**-26, 1e-300) if method == "pchip" else 1.0
    every = np.arange(release.size)
    after = np.searchsorted(release.steps, every)  # the kept step that comes next
    slopes: Any = csr_array((release.size, max(len(release), 1)))
    for start in range(min(4, len(release))):
        values = base.copy()
        values[start::4] += step
        slope = (_through(release, values, method) - _through(release, base, method)) / step
        # Of those that were moved, the one that is among the two before and the two after.
        by = np.clip(after + (start - after + 2) % 4 - 2, 0, len(release) - 1)
        slopes += csr_array((slope, (every, by)), shape=slopes.shape)
    return slopes
