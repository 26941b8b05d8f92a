"""Noisy series within a budget, with no cap and no scale to choose (docs/proofs/scaling.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.design.reading import Keys
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.participation_count import make_participation_count
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, then_subsampled_gaussian


def make_private_series(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    value: str | None = None,
    bound: int | None = None,
    typical: int | None = None,
    total_bound: int | None = None,
    tiers: Tiers | None = None,
    groups: Mapping[str, object] | None = None,
    shares: Sequence[float] | None = None,
    time: str | None = None,
) -> dp.Measurement:
    """Release a series of counts per time step: nobody is dropped, and there is no cap and no scale to choose.

    It is a :func:`~opendp_timeseries.make_participation_count` without a cap, whose parameters it takes, with the least
    Gaussian noise that costs one individual at most (ε, δ), or ρ. :func:`~opendp_timeseries.smooth` turns the release
    into one series near the true counts. In a :func:`~opendp_timeseries.compositor`, leave out the budget: the query
    takes its own share.

    :param epsilon: ε at a distance of 1.
    :param delta: δ at a distance of 1, in (0, 1).
    :param rho: ρ at a distance of 1, in place of both: the release then states zCDP.
    :raises TypeError, ValueError: as these two, and :func:`~opendp_timeseries.least_scale`.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    >>> grid = ts.TimeGrid(start="2024-01-01", step="1h", size=720, zone="UTC")
    >>> (space >> ts.then_private_series(grid, epsilon=1.0, delta=1e-6)).map(1)
    (0.99999..., 1e-06)
    >>> (space >> ts.then_private_series(grid, rho=0.1)).map(1)
    0.1

    Stations and their city cost no more than one of them, though nobody is left out anywhere:

    >>> panel = {"by": "station", "keys": ["a", "b", "c"]}
    >>> city = space >> ts.then_private_series(grid, **panel, groups={"city": panel["keys"]}, epsilon=1.0, delta=1e-6)
    >>> city.map(1)
    (0.99999..., 1e-06)
    """
    options: dict[str, Any] = {"step_cap": step_cap, "gap": gap, "by": by, "keys": keys, "key_cap": key_cap}
    options |= {"groups": groups, "shares": shares}
    options |= {"value": value, "bound": bound, "typical": typical, "total_bound": total_bound}
    count = make_participation_count(input_domain, input_metric, grid, **options, tiers=tiers, time=time)
    if rho is not None and delta is not None:
        raise Refusal("delta", delta, "must be left out beside rho, as no step is sampled")
    scale = least_scale(count, epsilon=epsilon, delta=delta, rho=rho, sampling_probability=1.0)
    view = {"delta": delta} if rho is None else {"output_measure": dp.zero_concentrated_divergence()}
    measurement: dp.Measurement = count >> then_subsampled_gaussian(scale, sampling_probability=1.0, **view)
    return measurement


then_private_series = then(make_private_series)
