"""Means over the weeks, or the days, of a series: how many come at a usual time; and differences of its totals."""

from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.grid import ONE_DAY, TimeGrid
from opendp_timeseries.results.frames import AnySeries

Array = NDArray[np.float64]

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Profile(NamedTuple):
    """A mean of each time of a day, or of a week, over all days or weeks, with the ends of its interval."""

    names: list[str]
    values: Array
    low: Array
    high: Array


def weekdays(local: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the days of the week of times on a clock, from 0 for Monday."""
    return (local.astype("M8[D]").astype(np.int64) + 3) % 7


def profiles_of(series: AnySeries, grid: TimeGrid, level: float) -> dict[str, Profile]:
    """Return profiles by their titles; none of steps that do not divide a day, or of less than two weeks."""
    if grid.is_integer or (grid.edges()[len(series) - series.ahead] - grid.edges()[0]) < 14 * ONE_DAY:
        return {}
    local = grid.edges("local")[:-1]
    days = local.astype("M8[D]")
    within = (local - days).astype("m8[m]").astype(np.int64)
    times = np.unique(within)
    if len(times) > 1 and (24 * 60 % len(times) or np.any(np.diff(times) != 24 * 60 // len(times))):
        return {}
    clock = np.searchsorted(times, within)
    at = [f"{minute // 60:02}:{minute % 60:02}" for minute in times.tolist()]
    several = len(at) > 1
    layouts = {
        "A usual week": (
            [f"{day} {time}" if several else day for day in _DAYS for time in at],
            weekdays(local) * len(at) + clock,
        )
    }
    if several:
        layouts["A usual day"] = (at, clock)
    return {title: _profile(series, names, cells, level) for title, (names, cells) in layouts.items()}


def _profile(series: AnySeries, names: list[str], cells: NDArray[np.int64], level: float) -> Profile:
    past = ~series.is_forecast
    weights = np.zeros((len(names), len(cells)))
    weights[cells[past], np.flatnonzero(past)] = 1.0
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    values, half = combined(series, weights, level)
    return Profile(names, values, values - half, values + half)


def combined(series: AnySeries, weights: NDArray[np.floating], level: float) -> tuple[Array, Array]:
    """Return weighed sums of the steps, one for each row of weights, and half the widths of their intervals.

    Where the covariance of the errors is not known, the widths are the most that they can be.
    """
    if series.covariance is None:
        errors = np.abs(weights) @ series.standard_error
    else:
        variances = np.einsum("kt,tk->k", weights, np.asarray(series.covariance @ weights.T))
        errors = np.sqrt(np.maximum(variances, 0.0))
    return weights @ series.values, float(scipy.special.ndtri((1 + level) / 2)) * errors


def differences(
    series: AnySeries, starts: NDArray[np.int64], pairs: list[tuple[int, int]], level: float
) -> tuple[Array, Array]:
    """Return how much more the first total of each pair is than the second, and half the widths of the intervals.

    :param starts: the first step of each total.
    """
    ends = np.append(starts[1:], len(series))
    weights = np.zeros((len(pairs), len(series)))
    for row, (later, earlier) in zip(weights, pairs, strict=True):
        row[starts[later] : ends[later]] += 1.0
        row[starts[earlier] : ends[earlier]] -= 1.0
    return combined(series, weights, level)
