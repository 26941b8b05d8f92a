"""Choosing the participation cap privately: how many individuals take part in how many steps.

A cap drops what individuals do beyond it. Where nothing public says how large it must be, part of the budget can
buy this histogram first.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.accounting.influence import Influence, count_influence
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.reading import Keys, Reading
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.planning.participation import checked_edges
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import signal_domain, then
from opendp_timeseries.plugin.mechanisms import transformation
from opendp_timeseries.plugin.spaces import check_readable, influence_distance, log_of


def make_participation_histogram(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    edges: Sequence[int] | None = None,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count individuals by the number of steps that they take part in: a private basis for choosing the cap.

    The result has one entry more than ``edges``: individuals in 1 … ``edges[0]`` steps, in ``edges[0] + 1``
    … ``edges[1]``, and so on, and in more than ``edges[-1]``. One individual is in one entry, so it costs little: chain
    it with :func:`~opendp_timeseries.then_lp_distance` and ``dp.m.then_laplace(…)`` or ``dp.m.then_gaussian(…)``. What
    is released is read by :class:`~opendp_timeseries.Participation`, which :func:`~opendp_timeseries.plan` takes.

    All other parameters are those of the count that is planned, :func:`~opendp_timeseries.make_participation_count`.
    Of a panel, pairs of key and step are counted; by :func:`~opendp_timeseries.period_distance`, somebody is in an
    entry for each period in which they take part.

    :param edges: where the entries are cut, ascending; if left out, 1, 2, 3, 4, 6, 8, 12, …, two to an octave, below
        the most steps that there are. Where few individuals hold much of all counts, only entries far out show it.
    :param gap: steps that it leaves out are not counted. Beside a histogram without, it tells what the gap loses.
    :raises TypeError: for a wrong domain, metric or grid.
    :raises ValueError: if the edges do not ascend from 1 or more, up to the most steps that there are.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> histogram = space >> ts.then_participation_histogram(ts.TimeGrid(size=9), edges=[1, 3])
    >>> histogram({"id": np.array([1, 1, 1, 1, 2, 2, 3]), "step": np.array([0, 1, 2, 3, 5, 5, 99])})
    [1, 0, 1]
    >>> histogram.map(1)
    Influence(l0=1, l2=1, linf=1)
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, periods=True)
    reading = Reading(**log, grid=grid, gap=gap)
    check_readable(reading, input_domain)
    places = np.array(checked_edges(edges, reading.size), dtype=np.int64)
    size, unit = len(places) + 1, reading.unit

    def function(table: object) -> NDArray[np.int64]:
        steps = engine_of(table).participation(table, reading)
        return np.bincount(np.searchsorted(places, steps), minlength=size).astype(np.int64)

    def influence(d_in: int) -> Influence:
        # One individual is one in one entry, and if replaced may move to another.
        people = d_in * unit.individuals
        return count_influence(people, participation_cap=1, step_cap=1, size=size, replaced=unit.replaced)

    output_space = signal_domain("i64", size), influence_distance()
    return transformation((input_domain, input_metric), output_space, function, influence)


then_participation_histogram = then(make_participation_histogram)
