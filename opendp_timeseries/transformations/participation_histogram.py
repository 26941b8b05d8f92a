"""Choosing the participation cap privately: how many individuals take part in how many steps.

A cap drops what individuals do beyond it. Where nothing public says how large it must be, part of the budget can
buy this histogram first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._opendp import signal_domain, then
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.layout import Keys
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.transformations.event_logs import event_log
from opendp_timeseries.transformations.participation_count import lp_stability

__all__ = ["make_participation_histogram", "fraction_above", "then_participation_histogram"]


def make_participation_histogram(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    caps: Sequence[int] = check.REQUIRED,
    by: str | None = None,
    keys: Keys | None = None,
    time: str | None = None,
    output_metric: dp.Metric | None = None,
) -> dp.Transformation:
    """Count individuals by the number of steps that they take part in: a private basis for choosing the cap.

    The result has one entry more than ``caps``: individuals in 1 … ``caps[0]`` steps, in ``caps[0] + 1`` …
    ``caps[1]``, and so on, and in more than ``caps[-1]``. One individual is in one entry, so it costs little: chain
    it with ``dp.m.then_laplace(…)`` or, with an ℓ2 metric, ``dp.m.then_gaussian(…)``, and read it by
    :func:`fraction_above`.

    :param input_domain: as in :func:`~opendp_timeseries.make_participation_count`.
    :param input_metric: as there.
    :param grid: the grid of the count that is planned.
    :param caps: candidate caps, ascending.
    :param by: as there; with a panel, pairs of key and step are counted.
    :param keys: as there.
    :param time: as there.
    :param output_metric: ``dp.l1_distance(T=int)`` (default), or another ℓ1 or ℓ2 distance.
    :raises TypeError: for a wrong domain, metric or grid.
    :raises ValueError: if the caps do not ascend from 1 or more.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> histogram = space >> ts.then_participation_histogram(ts.TimeGrid(size=9), caps=[1, 3])
    >>> histogram({"id": np.array([1, 1, 1, 1, 2, 2, 3]), "step": np.array([0, 1, 2, 3, 5, 5, 99])})
    [1, 0, 1]
    >>> histogram.map(1)
    1
    """
    layout, adjacency = event_log(input_domain, input_metric, grid, by=by, keys=keys, time=time)
    edges = _edges(caps)

    def function(table: Any) -> NDArray[np.int64]:
        steps = engine_of(table).participation(table, layout)
        return np.bincount(np.searchsorted(edges, steps), minlength=len(edges) + 1).astype(np.int64)

    metric = dp.l1_distance(T=int) if output_metric is None else output_metric
    output = signal_domain("i64", len(edges) + 1)
    # One individual is one in one entry; one who is replaced may move to another. That is a count with caps 1 and 1.
    stability = lp_stability(metric, adjacency, size=len(edges) + 1, participation_cap=1, step_cap=1)
    return dp.t.make_user_transformation(input_domain, input_metric, output, metric, function, stability)


def _edges(caps: Any) -> NDArray[np.int64]:
    remedy = "candidate caps in ascending order, such as [10, 30, 100]"
    if not isinstance(check.required("caps", caps, remedy), (Sequence, np.ndarray)):
        raise TypeError(f"caps ({caps!r}) must be {remedy}")
    listed = [check.integer("caps", cap, minimum=1, maximum=2**62, remedy=remedy) for cap in caps]
    if not listed or any(low >= high for low, high in itertools.pairwise(listed)):
        raise ValueError(f"caps ({listed}) must be {remedy}")
    return np.array(listed, dtype=np.int64)


def fraction_above(histogram: ArrayLike) -> NDArray[np.float64]:
    """Return the fraction of individuals above each candidate cap, from a noisy :func:`make_participation_histogram`.

    Post-processing: entries below zero are read as zero. With nothing left, every fraction is 0.

    :param histogram: the released entries.
    :return: one fraction for each candidate cap, descending.

    >>> fraction_above([60, 30, 10]).tolist()
    [0.4, 0.1]
    """
    entries = np.maximum(np.nan_to_num(np.asarray(histogram, dtype=np.float64)), 0.0)
    above = np.cumsum(entries[:0:-1])[::-1]
    total = entries.sum()
    return above / total if total > 0 else np.zeros(len(above))


then_participation_histogram = then(make_participation_histogram)
