"""Which number of a participation total is the level of which entry of a series."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.release.release import Release

__all__ = ["total_of_each"]


def total_of_each(release: Release, total: Release, *, unfiltered: bool) -> NDArray[np.int64]:
    """Return for each entry of a series, in which number of a total it is.

    :param release: that of the series.
    :param total: of a :func:`~opendp_timeseries.make_participation_total`.
    :param unfiltered: whether the series is of the counts before a filter.
    :raises TypeError: for a total of anything else.
    """
    signal, of = release.design.signal, total.design.signal
    count, whole = signal.count, of.count
    if whole is None or not whole.is_total or of.kernels or len(total) < total.size:
        raise TypeError("total must be a number, or the release of a participation total, with every number kept")
    if count is None or count.pooled is not None or count.grid != whole.pooled:
        raise TypeError(f"total must be of the grid of the series; it is of {whole.pooled!r}")
    if signal.kernels and not unfiltered:
        raise TypeError("total must go to counts, and this series is of filtered ones; smooth the release instead")
    if (count.source, count.step_cap, count.panel) != (whole.source, whole.step_cap, whole.panel):
        raise TypeError(
            "total must be of the columns, step_cap and keys of the series; for one number of all keys, chain"
            " then_totals({'all': keys}) after it"
        )
    if whole.gap > count.gap or (whole.key_cap or math.inf) < (count.key_cap or math.inf):
        raise TypeError(
            f"total must leave out no more than the series: its gap ({whole.gap}) must be at most {count.gap}, its"
            f" key_cap ({whole.key_cap}) {'None' if count.key_cap is None else f'None or at least {count.key_cap}'}"
        )
    series, groups = np.arange(len(release.keys or (0,))), of.groups
    if groups is not None and signal.groups is None and not any(groups.depths):
        series = np.array([groups.innermost[key] for key in count.panel or ()])
    elif groups != signal.groups:
        raise TypeError("total must be of each series, or of groups of them that are not in each other")
    starts = whole.total_starts
    periods = np.searchsorted(starts, np.arange(count.grid.size), side="right") - 1
    numbers: NDArray[np.int64] = (series[:, None] * len(starts) + periods).ravel()
    return numbers
