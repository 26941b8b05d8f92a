"""The least noise of a design within a budget, by the exact privacy profile. No data."""

from __future__ import annotations

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.calibrate import Budget, calibrate
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.kernels import Kernel, gaussian_kernel, identity_kernel
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid

__all__ = ["counted", "least_scale", "smoothing_kernel"]


def counted(
    grid: TimeGrid, participation_cap: int, step_cap: int, individuals: int, replaced: bool, gap: int
) -> Influence:
    """Return how far the count moves between neighbouring logs."""
    count = Count(
        source=None,
        grid=grid,
        participation_cap=participation_cap,
        step_cap=step_cap,
        gap=gap,
        unit=Unit(replaced=bool(replaced)),
    )
    return count.influence(check.integer("individuals", individuals, minimum=1))


def smoothing_kernel(size: int, std: float) -> Kernel:
    """Return the Gaussian filter of this width in steps; the identity for 0."""
    return gaussian_kernel(size, std) if std > 0 else identity_kernel(size)


def least_scale(
    influence: Influence, kernel: Kernel, probability: float, epsilon: float, delta: float, sampling: str = "poisson"
) -> float:
    """Return the least σ that gives (ε, δ) behind a filter, by the exact privacy profile."""
    if kernel != identity_kernel(kernel.size):
        influence = filtered_influence(influence, kernel)
    law = extremal_law(influence, probability, kernel.size, sampling)
    return calibrate(law.at, Budget(epsilon=epsilon, delta=delta))
