"""Counts made elsewhere: state the paper's Assumption 1, which nothing here can enforce."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.participation_count import count_transformation
from opendp_timeseries.plugin.spaces import described, unit_of

__all__ = ["make_assume_participation", "then_assume_participation"]


def make_assume_participation(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    participation_cap: int = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    grid: TimeGrid | None = None,
) -> dp.Transformation:
    """Assume that no individual is in more than ``participation_cap`` steps of a count made elsewhere, ``gap`` apart.

    An identity on the numbers. **Nothing enforces the assumption**: the guarantee of all that follows holds
    only as far as it is true (Koga, Meehan & Chaudhuri 2022, Assumption 1; how the guarantee degrades when
    it is not, is their Proposition 1). Where the event log is at hand, use
    :func:`~opendp_timeseries.make_participation_count`, which enforces its caps.

    :param input_domain: :func:`~opendp_timeseries.count_signal_domain`.
    :param input_metric: ``dp.symmetric_distance()`` or ``dp.change_one_distance()``, in individuals; with
        :func:`~opendp_timeseries.period_distance` the assumption is about each individual in each period by itself.
    :param participation_cap: ``I``, steps in which one individual may be counted.
    :param step_cap: ``M``, how often one individual may be counted in one step.
    :param gap: least distance of two steps in which one individual is counted, around the cycle of the grid too; 1 is
        none.
    :param grid: the public grid of the count, for records and figures; integer steps if left out.
    :raises TypeError: for a wrong domain or metric, or a cap that was left out.
    :raises ValueError: for a cap below 1, or a gap below 1 or above the number of steps.
    """
    space = described(input_domain, UnknownSignal)
    if space is None:
        raise TypeError(f"input_domain ({input_domain}) is not of counts made elsewhere; use count_signal_domain(size)")
    grid = TimeGrid(size=space.size) if grid is None else check_grid(grid)
    if grid.size != space.size:
        raise ValueError(f"grid ({grid.size} steps) must have the size of the signal ({space.size})")
    count = Count(
        source=None,
        grid=grid,
        participation_cap=participation_cap,
        step_cap=step_cap,
        gap=gap,
        unit=unit_of(input_metric),
    )

    def function(signal: Any) -> NDArray[np.int64]:
        return _whole(np.asarray(signal), space.size)

    return count_transformation(input_domain, input_metric, function, count)


def _whole(signal: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Members of the domain as int64. The dtype and the shape are public; the numbers are not."""
    if signal.shape != (size,) or not np.issubdtype(signal.dtype, np.integer):
        raise TypeError(f"a count signal must be {size} integers, found {signal.dtype} of shape {signal.shape}")
    if signal.dtype == np.uint64:
        signal = np.minimum(signal, np.uint64(np.iinfo(np.int64).max))
    return signal.astype(np.int64)


then_assume_participation = then(make_assume_participation)
