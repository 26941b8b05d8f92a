"""Figures of a release, drawn with Matplotlib (extra ``plot``). Only what is public is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.postprocessing.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_release"]


def plot_release(
    release: Release,
    series: NDArray[np.float64],
    *,
    grid: TimeGrid | None = None,
    axes: Axes | None = None,
    unit: str = "count per step",
) -> Axes:
    """Draw the noisy values at the kept steps, with two standard deviations of noise, and a series through them.

    :param release: a release of the subsampled Gaussian.
    :param series: float64 array of ``release.size`` values made from the release alone.
    :param grid: the grid of the count, for dates on the axis; step numbers without it.
    :param axes: where to draw; a new figure if left out.
    :param unit: label of the vertical axis.
    :return: the axes.
    :raises ImportError: without Matplotlib, naming the extra to install.
    :raises ValueError: if series or grid do not have the release's size.
    """
    instants = np.arange(release.size) if grid is None else grid.instants()
    if not len(instants) == len(series) == release.size:
        raise ValueError(
            f"grid ({len(instants)}) and series ({len(series)}) must have the release's size ({release.size})"
        )
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("figures need Matplotlib; install opendp_timeseries[plot]") from None
        _, axes = pyplot.subplots(figsize=(9.0, 3.6), layout="constrained")
    axes.plot(
        instants, series, color="black", linewidth=0.9, label="reconstructed from the release", zorder=3
    )
    axes.vlines(
        instants[release.steps],
        release.values - 2 * release.scale,
        release.values + 2 * release.scale,
        color="0.75",
        linewidth=0.8,
        label="two standard deviations of the noise",
    )
    axes.scatter(
        instants[release.steps],
        release.values,
        s=5,
        color="0.35",
        label="noisy values at kept steps",
        zorder=2,
    )
    axes.set_ylabel(unit)
    axes.set_xlabel("step" if grid is None or grid.is_integer else "time (UTC)")
    axes.margins(x=0.01)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False, fontsize="small")
    return axes
