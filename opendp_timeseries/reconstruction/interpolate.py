"""Step 4: from a release to a full series, by interpolation between the kept steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray
from opendp.core import new_function
from scipy.interpolate import PchipInterpolator

from opendp_timeseries.reconstruction.series import Series
from opendp_timeseries.release import Release

__all__ = ["Kind", "interpolate", "interpolated", "interpolated_series"]

Kind = Literal["linear", "nearest", "pchip"]


def interpolated(release: Release, kind: Kind = "linear", *, clip_at_zero: bool = False) -> NDArray[np.float64]:
    """Return the series of ``release.size`` steps that interpolates a release.

    At kept steps the series equals the noisy values. Before the first and after the last kept step it is
    constant, as in Koga, Meehan & Chaudhuri (2022), appendix 2. With one kept step the series is that value
    everywhere; with none it is zero everywhere: no rule looks at anything but the release.

    :param release: a release of the subsampled Gaussian.
    :param kind: ``"linear"`` (the paper's), ``"nearest"`` (the earlier step wins a tie), or ``"pchip"``
        (monotone cubic between kept steps; linear if fewer than three were kept).
    :param clip_at_zero: replace negative values by zero. Off by default: it biases low counts upwards.
    :return: float64 array of ``release.size`` values, in the signal's unit.
    :raises ValueError: if ``kind`` is unknown.

    >>> from opendp_timeseries import Release
    >>> interpolated(Release(steps=[2, 4], values=[6, 9], size=6, scale=1, sampling_probability=.3)).tolist()
    [6.0, 6.0, 6.0, 7.5, 9.0, 9.0]
    """
    _check_kind(kind)
    steps, values = release.steps, release.values
    every = np.arange(release.size)
    if len(steps) == 0:
        series = np.zeros(release.size)
    elif kind == "nearest":
        series = values[np.searchsorted((steps[1:] + steps[:-1]) / 2, every, side="left")]
    elif kind == "pchip" and len(steps) > 2:
        series = PchipInterpolator(steps, values)(np.clip(every, steps[0], steps[-1]))
        series[steps[-1] :] = values[-1]  # exactly: a cubic meets its right end but for rounding
    else:
        series = np.interp(every, steps, values)
    return np.maximum(series, 0.0) if clip_at_zero else series


def interpolated_series(release: Release, kind: Kind = "linear", *, clip_at_zero: bool = False) -> Series:
    """Return :func:`interpolated` together with the standard error that the privacy noise gives it.

    The noise of kept steps is independent, with the release's scale σ. So the standard error is σ at kept steps
    and before the first and after the last; of linear interpolation it falls to ``σ/√2`` at a midpoint; for
    ``"pchip"``, which is not linear in the values, it is that of the first order in the noise. With no kept
    step it is 0, as the zeros returned then carry no noise, and tell nothing.

    It does **not** cover how the signal, smoothed if it went through a filter, moves between kept steps: of that
    the release tells only what a model makes of it, see :func:`~opendp_timeseries.smoothed`.

    :param release: a release of the subsampled Gaussian.
    :param kind: see :func:`interpolated`.
    :param clip_at_zero: see :func:`interpolated`; the standard error stays that of the values before clipping.
    :return: values and standard errors, with ``error_covers="noise"``.
    :raises ValueError: if ``kind`` is unknown.

    >>> from opendp_timeseries import Release
    >>> release = Release(steps=[2, 4], values=[6, 9], size=6, scale=1, sampling_probability=.3)
    >>> interpolated_series(release).standard_error.round(3).tolist()
    [1.0, 1.0, 1.0, 0.707, 1.0, 1.0]
    """
    values = interpolated(release, kind, clip_at_zero=clip_at_zero)
    return Series(
        release=release,
        values=values,
        standard_error=release.scale * np.sqrt(_squared_weights(release, kind)),
        error_covers="noise",
        model=f"{kind} interpolation",
    )


def _squared_weights(release: Release, kind: Kind) -> NDArray[np.float64]:
    """Sum at each step, over the kept values, of the squared derivative of the series by the value."""
    # An interpolant between two kept steps depends on those two and their neighbours only (that is how PCHIP
    # sets its slopes). So four series, each with every fourth value moved, show every derivative on its own.
    # The other kinds are linear: their derivatives are the series through ones and zeros.
    base = release.values if kind == "pchip" else np.zeros(len(release))
    largest = float(np.max(np.abs(base), initial=0.0))
    step = max(release.scale * 2.0**-10, largest * 2.0**-26, 1e-300) if kind == "pchip" else 1.0
    total = np.zeros(release.size)
    for start in range(min(4, len(release))):
        moved = base.copy()
        moved[start::4] += step
        ahead, before = (interpolated(replace(release, values=v), kind) for v in (moved, base))
        total += ((ahead - before) / step) ** 2
    return total


def interpolate(kind: Kind = "linear", *, clip_at_zero: bool = False) -> dp.Function:
    """Return an OpenDP function that interpolates a release: chain it behind a measurement with ``>>``.

    Post-processing: it sees the release alone, and costs no privacy. (OpenDP calls a function on plain numbers
    only: on a release that is already at hand, use :func:`interpolated`.)

    :param kind: see :func:`interpolated`.
    :param clip_at_zero: see :func:`interpolated`.
    :raises ValueError: if ``kind`` is unknown.
    """
    _check_kind(kind)
    function: Callable[[Release], NDArray[np.float64]] = lambda release: interpolated(  # noqa: E731
        release, kind, clip_at_zero=clip_at_zero
    )
    return new_function(function, TO="ExtrinsicObject")


def _check_kind(kind: str) -> None:
    if kind not in get_args(Kind):
        raise ValueError(f"kind ({kind!r}) must be one of {', '.join(get_args(Kind))}")
