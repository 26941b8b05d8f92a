"""Releases of a problem by a mechanism, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.koga2022.experiments.mechanisms import Mechanism
from opendp_timeseries.koga2022.experiments.problems import Problem

__all__ = ["mean_absolute_errors", "releases"]


def releases(mechanism: Mechanism, problem: Problem, runs: int) -> NDArray[np.float64]:
    """Release the series ``runs`` times, with fresh noise and fresh samples from OpenDP and the operating system.

    :return: float64 array of shape ``(runs, T)``.
    """
    runs = check.integer("runs", runs, minimum=1)
    released: list[Any] = [mechanism.measurement(problem.signal) for _ in range(runs)]
    return np.array(released, dtype=np.float64)


def mean_absolute_errors(released: ArrayLike, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean absolute error over the steps of each release, in counts.

    :param released: array of shape ``(runs, T)``.
    :param truth: array of shape ``(T,)``.
    :return: array of shape ``(runs,)``.
    """
    errors: NDArray[np.float64] = np.abs(np.asarray(released) - truth).mean(axis=1)
    return errors
