"""From an event log to series by how often individuals come: nobody is dropped, and there is no cap to choose.

Proof: docs/proofs/classes.md.
"""

from __future__ import annotations

from dataclasses import replace

import opendp.prelude as dp

from opendp_timeseries import _validate as check
from opendp_timeseries.design.classes import Classes, default_classes
from opendp_timeseries.design.count import Count, Keys, panel_of
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.event_logs import log_of
from opendp_timeseries.plugin.participation_count import counted
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, make_subsampled_gaussian

__all__ = ["make_activity_count", "make_private_series", "then_activity_count", "then_private_series"]


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
    classes: Classes | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count events per time step, in a series of its own for each class of individuals who come about as often.

    An individual in ``n`` steps is in one class, by their own records alone, and counts in all of their steps. Series
    of those who come often carry a weight, so that one scale of noise fits all: with ``e`` the most steps of a class,
    ``√(e₁/e)``, of which a share is in a common series of everybody. What is released adds up, over the classes, to the
    count of everybody: :func:`~opendp_timeseries.smooth` does that, and returns the series of the true counts.

    The output is a panel, the common series first and then that of each class, with the influence metric. It goes
    before noise, and into programmes and ledgers, as :func:`~opendp_timeseries.make_participation_count` does. No
    totals and no filter come in between.

    :param input_domain: as in :func:`~opendp_timeseries.make_participation_count`, with the next five.
    :param input_metric: as there; with :func:`~opendp_timeseries.period_distance` the class is that of each period.
    :param grid: as there.
    :param step_cap: as there; an individual's class is then by the sum of squares of their counts.
    :param gap: as there.
    :param by: as there.
    :param keys: as there; the class of an individual is by their pairs of key and step, and that of all keys.
    :param key_cap: as there.
    :param classes: public, and never from the data; if left out, by a rule from the number of steps alone.
    :param time: as there.
    :raises TypeError, ValueError: as there, and for classes that are no :class:`~opendp_timeseries.Classes`.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_activity_count(ts.TimeGrid(size=4), classes=ts.Classes(ends=(1,)))
    >>> count({"id": np.array([7, 7, 8]), "step": np.array([0, 3, 3])})  # those in one step, and those in up to four
    [0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.5]
    >>> count.map(1)
    Influence(l0=4, l2=1, linf=1)
    """
    source, unit = log_of(input_domain, input_metric, by=by, time=time, periods=True)
    if classes is not None and not check.is_a(classes, Classes):
        raise TypeError(f"classes ({check.shown(classes)}) must be given as Classes(ends=(20, 200), common=0.8)")
    count = Count(
        source=source,
        grid=check_grid(grid),
        participation_cap=1,
        step_cap=step_cap,
        gap=gap,
        key_cap=key_cap,
        panel=panel_of(by, keys),
        unit=unit,
        excess="scale",
    )
    classes = default_classes(count.most_steps) if classes is None else classes
    return counted(input_domain, input_metric, replace(count, participation_cap=classes.ends[0], classes=classes))


then_activity_count = then(make_activity_count)


def make_private_series(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    epsilon: float = check.REQUIRED,
    delta: float = check.REQUIRED,
    step_cap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    classes: Classes | None = None,
    sampling_probability: float = 1.0,
    sampling: str = "poisson",
    time: str | None = None,
) -> dp.Measurement:
    """Release a series of counts per time step: nobody is dropped, and there is no cap and no scale to choose.

    An :func:`~opendp_timeseries.make_activity_count` and the least Gaussian noise behind it with which one individual
    loses at most (ε, δ). :func:`~opendp_timeseries.smooth` makes the series of the true counts of what is released.

    In a :func:`~opendp_timeseries.compositor`, leave out the budget: the query takes its own share.

    :param input_domain: as in :func:`~opendp_timeseries.make_activity_count`, with all that is not named here.
    :param input_metric: as there.
    :param grid: as there.
    :param epsilon: ε at a distance of 1.
    :param delta: δ at a distance of 1, in (0, 1).
    :param step_cap: as there.
    :param by: as there.
    :param keys: as there.
    :param key_cap: as there.
    :param classes: as there.
    :param sampling_probability: as in :func:`~opendp_timeseries.make_subsampled_gaussian`; 1 keeps every step.
    :param sampling: as there.
    :param time: as in :func:`~opendp_timeseries.make_activity_count`.
    :raises TypeError, ValueError: as these two.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    >>> grid = ts.TimeGrid(start="2024-01-01", step="1h", size=720, zone="UTC")
    >>> (space >> ts.then_private_series(grid, epsilon=1.0, delta=1e-6)).map(1)
    (0.99999..., 1e-06)
    """
    panel = {"step_cap": step_cap, "by": by, "keys": keys, "key_cap": key_cap, "time": time}
    count = make_activity_count(input_domain, input_metric, grid, classes=classes, **panel)
    sample = {"sampling_probability": sampling_probability, "sampling": sampling}
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        check.required(name, value, "of the release, such as epsilon=1.0 and delta=1e-6")
    scale = least_scale(count, epsilon=epsilon, delta=delta, **sample)
    return count >> make_subsampled_gaussian(*count.output_space, scale, delta=delta, **sample)


then_private_series = then(make_private_series)
