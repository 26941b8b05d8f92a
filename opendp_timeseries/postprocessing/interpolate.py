"""Step 4: from a release to a full series, by interpolation between the kept steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import opendp.prelude as dp
from opendp.core import new_function
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from opendp_timeseries.postprocessing.release import Release

__all__ = ["Kind", "interpolate", "interpolated"]

Kind = Literal["linear", "nearest", "pchip"]


def interpolated(
    release: Release, kind: Kind = "linear", *, clip_at_zero: bool = False
) -> NDArray[np.float64]:
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


def interpolate(kind: Kind = "linear", *, clip_at_zero: bool = False) -> dp.Function:
    """Return :func:`interpolated` as an OpenDP function: chain it with ``measurement >> interpolate()``.

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
