"""From an event log to a count signal, with a cap on how far one individual can reach.

Proof: docs/proofs/counts.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.count import Count, Keys, panel_of
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import signal_domain, then
from opendp_timeseries.plugin.event_logs import check_readable, log_of
from opendp_timeseries.plugin.known import StabilityMap
from opendp_timeseries.plugin.spaces import InfluenceSpace, influence_metric

__all__ = ["count_transformation", "counted", "fresh_key", "make_participation_count", "then_participation_count"]


def make_participation_count(
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
    time: str | None = None,
) -> dp.Transformation:
    """Count events per time step, with every individual in at most ``participation_cap`` steps.

    An individual's events in one step count at most ``step_cap`` times. Of an individual in more than
    ``participation_cap`` steps, that many are kept, each equally likely, whatever the number of events in
    them. Which ones is decided by a keyed hash of identifier and step with a fresh key for every release, so
    it depends on nothing but that individual's own records: removing one individual changes nothing of what is
    kept of the others. Rows without an identifier or time, or off the grid, are dropped.

    With a ``gap``, the steps of an individual are taken in order: the first counts, those less than ``gap`` steps after
    a counted one do not, and so on; the last is left out again if it is less than ``gap`` steps before the first around
    the cycle of the grid, as filters wrap around. Only then is the cap applied. Behind a filter a gap saves most of the
    noise, as nobody can pile up within the filter's width; without one it changes nothing but the counts.

    With ``by`` and ``keys`` the result is a panel, one series per key, one after the other in the order of the
    keys. The participation cap then holds over the whole panel, for an individual's pairs of key and step; the gap
    holds within each series. Keys are public and never come from the data; rows of other keys are dropped, and a key
    without rows has a series of zeros. With a ``key_cap``, an individual counts at each step in at most that many
    series, of several each equally likely, before gap and participation cap are applied. With ``key_cap=1`` totals over
    series are as little sensitive as a single one: see :func:`~opendp_timeseries.make_totals`.

    The output is the domain ``vector_domain(atom_domain(T="i64"), size=grid.size)``, or ``len(keys)`` times that, with
    the influence metric, which is what amplification by subsampling needs. For noise of OpenDP's own, chain
    :func:`~opendp_timeseries.then_lp_distance` after it.

    :param input_domain: :func:`~opendp_timeseries.event_log_domain`, or the domain of a Polars LazyFrame in
        OpenDP's own Contexts.
    :param input_metric: ``dp.symmetric_distance()`` (individuals added or removed) or
        ``dp.change_one_distance()`` (individuals replaced); :func:`~opendp_timeseries.period_distance` (individuals
        within a period), with which caps and gap hold in each period by itself; of a LazyFrame,
        ``dp.symmetric_id_distance(…)``, which names the identifier column, or ``dp.change_one_id_distance(…)``, which
        is half of it and costs as much as two individuals.
    :param grid: the public grid of time steps.
    :param participation_cap: ``I``, steps per individual; more than ``grid.size`` means ``grid.size``.
    :param step_cap: ``M``, events per individual and step.
    :param gap: least distance, in steps, of two steps in which one individual counts; 1 (default) is none. From what is
        plausible, as the cap.
    :param by: the column that tells the series of a panel apart.
    :param keys: the series of the panel: distinct strings, or distinct integers. They are compared with the column as
        text, so that ``[1, 2]`` and ``["1", "2"]`` mean the same.
    :param key_cap: most series of a panel in which one individual counts at one step; by default, all of them.
    :param time: the column of event times, of a LazyFrame only: an event-log domain names its own.
    :raises TypeError: for a wrong domain, metric or grid, or a public parameter that was left out.
    :raises ValueError: for a cap below 1, a gap below 1 or above the number of steps, or a step of the grid that lies
        in two periods of the metric.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2)
    >>> count.map(1)
    Influence(l0=2, l2=1.41422, linf=1)
    >>> import numpy as np
    >>> count({"id": np.array([7, 7, 8]), "step": np.array([0, 0, 2])})
    [1, 0, 1, 0]
    """
    source, unit = log_of(input_domain, input_metric, by=by, time=time, periods=True)
    count = Count(
        source=source,
        grid=check_grid(grid),
        participation_cap=participation_cap,
        step_cap=step_cap,
        gap=gap,
        key_cap=key_cap,
        panel=panel_of(by, keys),
        unit=unit,
    )
    return counted(input_domain, input_metric, count)


def counted(input_domain: dp.Domain, input_metric: dp.Metric, count: Count) -> dp.Transformation:
    """Return the transformation from a log to a count of it."""
    check_readable(count, input_domain)

    def function(table: Any) -> NDArray[np.int64]:
        return engine_of(table).count(table, count, fresh_key())

    return count_transformation(input_domain, input_metric, function, count)


def fresh_key() -> bytes:
    """Return a new secret key: one for every release. Tests replace this function to inject theirs."""
    return secrets.token_bytes(16)


def count_transformation(
    input_domain: dp.Domain, input_metric: dp.Metric, function: Callable[[Any], NDArray[np.int64]], count: Count
) -> dp.Transformation:
    """Wrap a function that returns counts, with the stability map of its caps (docs/proofs/counts.md).

    The function must let one individual change at most ``participation_cap`` steps, each by ``step_cap``, and in one
    series of a panel steps that are ``gap`` apart.
    """
    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        signal_domain("i64", count.size),
        influence_metric(InfluenceSpace.of(Signal(count))),
        function,
        StabilityMap(count.influence),
    )


then_participation_count = then(make_participation_count)
