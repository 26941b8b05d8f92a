"""Counts without a cap to choose, as series at several scales of activity (docs/proofs/scaling.md)."""

from dataclasses import replace
from typing import Any

import opendp.prelude as dp

from opendp_timeseries import _validate as check
from opendp_timeseries.design.count import Count, Keys
from opendp_timeseries.design.scales import Scales, default_scales
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.participation_count import counted
from opendp_timeseries.plugin.spaces import log_of
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, then_subsampled_gaussian


def make_activity_count(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    scales: Scales | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count events per time step at several scales of activity: nobody is dropped, and there is no cap to choose.

    Everybody counts in all of their steps, in a few series of the whole grid. The last holds everybody with the same
    weight: right on average, and noisy. In those before it, who comes often weighs less, so that they are less noisy.
    All of an individual's weights together are as sensitive as one scaled series, so one scale of noise does for all
    (:class:`~opendp_timeseries.Scales`). :func:`~opendp_timeseries.smooth` makes of them the series of the true counts.

    The output is a panel with the influence metric: one series for each scale, the last of which is that of everybody.
    It goes before noise, and into programmes and ledgers, as any count does, but with no totals or filter in between.

    All parameters but ``scales`` are those of :func:`~opendp_timeseries.make_participation_count`. With a ``step_cap``,
    weights are by the sum of squares of an individual's counts; with ``keys``, by their pairs of key and step; and by
    :func:`~opendp_timeseries.period_distance` they are those of each period.

    :param scales: public, and never from the data; if left out, by a rule from the number of steps alone.
    :raises TypeError, ValueError: as there, and for ``scales`` of another type.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_activity_count(ts.TimeGrid(size=4), scales=ts.Scales(ends=(1,), share=0.75))
    >>> by_scale = np.reshape(count({"id": np.array([7, 7, 8]), "step": np.array([0, 3, 3])}), (2, 4))
    >>> by_scale.round(3)  # who is there once, and who twice
    array([[0.559, 0.   , 0.   , 1.46 ],
           [0.433, 0.   , 0.   , 0.866]])
    >>> count.map(1)
    Influence(l0=8, l2=1, linf=0.901...)
    """
    if scales is not None and not isinstance(scales, Scales):
        raise TypeError(f"scales ({check.shown(scales)}) must be given as Scales(ends=(10, 50))")
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, periods=True)
    caps: dict[str, Any] = {"participation_cap": 1, "step_cap": step_cap, "gap": gap, "key_cap": key_cap}
    count = Count(**log, **caps, grid=grid, excess="scale")
    most = count.most_steps
    scales = default_scales(most) if scales is None else scales
    return counted(input_domain, input_metric, replace(count, participation_cap=scales.first(most), scales=scales))


then_activity_count = then(make_activity_count)


def make_private_series(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    epsilon: float = check.REQUIRED,
    delta: float = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    scales: Scales | None = None,
    time: str | None = None,
) -> dp.Measurement:
    """Release a series of counts per time step: nobody is dropped, and there is no cap and no scale to choose.

    It is an :func:`~opendp_timeseries.make_activity_count`, whose parameters it takes, with the least Gaussian noise
    that costs one individual at most (ε, δ). :func:`~opendp_timeseries.smooth` turns the release into one series near
    the true counts. In a :func:`~opendp_timeseries.compositor`, leave out the budget: the query takes its own share.

    :param epsilon: ε at a distance of 1.
    :param delta: δ at a distance of 1, in (0, 1).
    :raises TypeError, ValueError: as these two, and :func:`~opendp_timeseries.least_scale`.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    >>> grid = ts.TimeGrid(start="2024-01-01", step="1h", size=720, zone="UTC")
    >>> (space >> ts.then_private_series(grid, epsilon=1.0, delta=1e-6)).map(1)
    (0.99999..., 1e-06)
    """
    more: dict[str, Any] = {"step_cap": step_cap, "gap": gap, "by": by, "keys": keys, "key_cap": key_cap, "time": time}
    count = make_activity_count(input_domain, input_metric, grid, scales=scales, **more)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        check.required(name, value, "of the release, such as epsilon=1.0 and delta=1e-6")
    scale = least_scale(count, epsilon=epsilon, delta=delta, sampling_probability=1.0)
    measurement: dp.Measurement = count >> then_subsampled_gaussian(scale, delta=delta, sampling_probability=1.0)
    return measurement


then_private_series = then(make_private_series)
