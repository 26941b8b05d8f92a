"""How many pairs of an individual and a step there are: a number, or a few, that set the level of a series.

Proof: docs/proofs/scaling.md.
"""

from __future__ import annotations

import opendp.prelude as dp

from opendp_timeseries import _validate as check
from opendp_timeseries.design.count import Count, Keys
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.event_logs import log_of
from opendp_timeseries.plugin.participation_count import counted

__all__ = ["make_participation_total", "then_participation_total"]


def make_participation_total(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    participation_cap: int = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    periods: TimeGrid | str | int | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count pairs of an individual and a step: one number, or one for each of a few periods.

    The sum of a :func:`~opendp_timeseries.make_participation_count`, with a cap of its own. One number needs no more
    noise than one individual has steps, so its cap can be so large that next to nobody exceeds it.
    :meth:`.Series.with_total` brings a series to the level that it says.

    Somebody in ``n`` steps, more than the cap of ``L``, counts in each by ``L/n``, and so as ``L`` in all. It is
    decided by their own records, with no random choice. Weights are rounded down to multiples of 2**-16.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=1)``, or of a number for each key and
    period, in this order, with the influence metric. One individual moves all numbers together by at most ``L·M`` in
    ℓ1, and no number by more than its steps. For one number over all keys, chain :func:`~opendp_timeseries.then_totals`
    after it, with one group.

    :param input_domain: as in :func:`~opendp_timeseries.make_participation_count`.
    :param input_metric: as there; with :func:`~opendp_timeseries.period_distance`, caps hold in each period.
    :param grid: as there.
    :param participation_cap: ``L``, steps in which one individual counts in full. It is public, from what is plausible
        for the heaviest: noise grows with it, and a cap that many exceed makes the total too low.
    :param step_cap: as there; events are then counted, rather than pairs.
    :param gap: as there.
    :param by: as there, with ``keys``; there is a number for each key.
    :param keys: as there.
    :param key_cap: as there.
    :param periods: a number for each: a grid whose steps are each of several of this grid's, or a unit of the calendar
        such as ``"1mo"``, or, of integer steps, for each so many. By default there is one number; where the unit of
        privacy is within a period, one for each.
    :param time: as there.
    :raises TypeError, ValueError: as there, and for periods that do not divide the grid, or lie in two of the metric's.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> log = {"id": np.array([1, 1, 1, 1, 2, 2]), "step": np.array([0, 1, 2, 2, 3, 3])}
    >>> total = space >> ts.then_participation_total(ts.TimeGrid(size=4), participation_cap=10)
    >>> total(log), total.map(1)
    ([4.0], Influence(l0=1, l2=4, linf=4))
    >>> by_halves = space >> ts.then_participation_total(ts.TimeGrid(size=4), participation_cap=2, periods=2)
    >>> np.round(by_halves(log), 3), by_halves.map(1)  # 2/3 for each of three steps
    (array([1.333, 1.667]), Influence(l0=2, l2=2, linf=2))
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, periods=True)
    count = Count(
        **log,
        grid=_periods(check_grid(grid), periods, log["unit"]),
        participation_cap=participation_cap,
        step_cap=step_cap,
        gap=gap,
        key_cap=key_cap,
        pooled=grid,
        excess="scale_l1",
    )
    return counted(input_domain, input_metric, count)


def _periods(grid: TimeGrid, periods: TimeGrid | str | int | None, unit: Unit) -> TimeGrid:
    """Return the grid of the totals."""
    if isinstance(periods, TimeGrid):
        return periods
    period = unit.period if periods is None else Period(periods, grid.zone if isinstance(periods, str) else None)
    starts = [0] if period is None else period.starts(grid).tolist()
    if grid.is_integer:
        if starts[1:] and grid.size % starts[1]:
            raise ValueError(f"periods ({starts[1]}) must divide the {grid.size} steps of the grid")
        return TimeGrid(size=len(starts))
    # A number stands for what its period has of the grid.
    return TimeGrid.from_edges([f"{edge}Z" for edge in grid.edges()[[*starts, grid.size]]], zone=grid.zone)


then_participation_total = then(make_participation_total)
