"""Figures of a release, drawn with Matplotlib (extra ``plot``). Only what is public is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.reconstruction.interpolate import interpolated_series
from opendp_timeseries.reconstruction.series import Series
from opendp_timeseries.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["new_axes", "plot_release"]


def plot_release(
    release: Release,
    series: Series | NDArray[np.float64] | None = None,
    *,
    grid: TimeGrid | None = None,
    axes: Axes | None = None,
    unit: str = "count per step",
    confidence: float = 0.9,
    guarantee: tuple[float, float] | str | None = None,
) -> Axes:
    """Draw the noisy values at the kept steps, a series made from them, and its bands.

    :param release: a release of the subsampled Gaussian.
    :param series: a :class:`~opendp_timeseries.Series`, or an array of ``release.size`` values made from the
        release alone, which has no bands (the noise of the kept values is drawn instead); linear interpolation
        if left out.
    :param grid: the grid of the count, for dates on the axis; step numbers without it.
    :param axes: where to draw; a new figure if left out.
    :param unit: label of the vertical axis.
    :param confidence: what the bands are to cover, at each step on its own.
    :param guarantee: (ε, δ) for one individual, or the guarantee in words, for the caption.
    :return: the axes.
    :raises ImportError: without Matplotlib, naming the extra to install.
    :raises ValueError: if series or grid do not have the release's size.
    """
    series = interpolated_series(release) if series is None else series
    instants = np.arange(release.size) if grid is None else grid.instants()
    if not len(instants) == len(series) == release.size:
        raise ValueError(
            f"grid ({len(instants)}) and series ({len(series)}) must have the release's size ({release.size})"
        )
    axes = new_axes() if axes is None else axes
    if isinstance(series, Series):
        low, high = series.interval(confidence)
        covers = "noise only" if series.error_covers == "noise" else "signal"
        label = f"{confidence:.0%} band ({covers})"
        axes.fill_between(instants, low, high, color="0.82", linewidth=0, label=label)
    else:
        ends = (release.values - 2 * release.scale, release.values + 2 * release.scale)
        label = "two standard deviations of the noise"
        axes.vlines(instants[release.steps], *ends, color="0.75", linewidth=0.8, label=label)
    axes.scatter(
        instants[release.steps], release.values, s=6, color="0.45", linewidth=0, label="noisy values", zorder=4
    )
    axes.plot(instants, np.asarray(series), color="black", linewidth=0.9, label="reconstruction", zorder=3)
    axes.set_ylabel(unit)
    _label_time(axes, grid, _caption(release, guarantee))
    axes.margins(x=0.01)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize="small")
    return axes


def new_axes(height: float = 3.6) -> Axes:
    """Return the axes of a new figure.

    :raises ImportError: without Matplotlib, naming the extra to install.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("figures need Matplotlib; install opendp_timeseries[plot]") from None
    return pyplot.subplots(figsize=(9.0, height), layout="constrained")[1]


def _label_time(axes: Axes, grid: TimeGrid | None, caption: str) -> None:
    axes.set_xlabel(("step" if grid is None or grid.is_integer else "time (UTC)") + f"\n{caption}", fontsize="small")
    if grid is not None and not grid.is_integer:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _caption(release: Release, guarantee: tuple[float, float] | str | None) -> str:
    noise = f"{len(release)} of {release.size} steps kept, noise of standard deviation {release.scale:.4g}"
    if isinstance(guarantee, tuple):
        epsilon, delta = guarantee
        guarantee = (
            f"differentially private for one individual with ε = {printed_up(epsilon, 4)}, δ = {printed_up(delta, 4)}"
        )
    return noise if guarantee is None else f"{guarantee}\n{noise}"
