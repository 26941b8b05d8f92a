"""What a participation cap costs: the noise that each needs within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.sampling import sampling_name
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.planning.scales import budget, counted, least_scale, smoothing_kernel
from opendp_timeseries.planning.tables import text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CapTable", "NoiseByCap", "noise_by_cap"]


class NoiseByCap(NamedTuple):
    """A row of :func:`~opendp_timeseries.noise_by_cap`.

    :param participation_cap: ``I``.
    :param scale: standard deviation σ of the noise.
    :param every_step: σ if every step is kept.
    """

    participation_cap: int
    scale: float
    every_step: float


@dataclass(frozen=True, repr=False)
class CapTable:
    """The noise that each participation cap needs: see :func:`~opendp_timeseries.noise_by_cap`. It prints as a table.

    :param rows: one for each cap.
    :param title: the setting in words.
    """

    rows: tuple[NoiseByCap, ...]
    title: str

    def __repr__(self) -> str:
        header = ("participation cap", "scale", "scale if every step is kept")
        rows = [(str(r.participation_cap), f"{r.scale:.4g}", f"{r.every_step:.4g}") for r in self.rows]
        return f"{self.title}\n{text_table(header, rows)}"

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the noise against the cap.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        axes = new_axes() if axes is None else axes
        caps = [row.participation_cap for row in self.rows]
        axes.plot(caps, [row.scale for row in self.rows], "o-", color="black", ms=4, label="a share kept")
        axes.plot(caps, [row.every_step for row in self.rows], "s--", color="0.5", ms=4, label="every step kept")
        axes.set(xscale="log", yscale="log", ylabel="noise scale, in counts per step")
        axes.set_xlabel("participation cap, in steps\n" + self.title, fontsize="small")
        axes.legend(frameon=False, fontsize="small")
        return axes


def noise_by_cap(
    grid: TimeGrid,
    participation_caps: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    sampling_probability: float,
    std: float = 0.0,
    step_cap: int = 1,
    gap: int = 1,
    individuals: int = 1,
    replaced: bool = False,
    sampling: str = "poisson",
) -> CapTable:
    """Return the noise that each participation cap needs within a budget, by the exact privacy profile. No data.

    It is the public half of the choice. The other half, how many events a cap leaves out, is private.

    :param grid: the grid of the count.
    :param participation_caps: to compare.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param sampling_probability: ``p``.
    :param std: width of the Gaussian filter in steps, 0 for none.
    :param step_cap: ``M``, events per individual and step.
    :param gap: least distance of two counted steps of an individual, which matters with a filter; 1 is none.
    :param individuals: how many the guarantee is for.
    :param replaced: True if adjacent logs replace individuals, rather than add or remove them.
    :param sampling: ``"poisson"``, or ``"stratified"`` for one step of each block.
    :return: a :class:`~opendp_timeseries.planning.CapTable`; print it.
    :raises ValueError: for a parameter out of range, or a sample that cannot be drawn.

    >>> noise_by_cap(TimeGrid(size=1000), [10, 50], epsilon=1.0, delta=1e-6, sampling_probability=0.1)
    1000 steps, p = 0.1, (ε = 1, δ = 1e-06)
    participation cap  scale  scale if every step is kept
    10                 6.823  13.36
    50                 11.57  29.87
    """
    epsilon, delta = budget(epsilon, delta)
    p = check.probability("sampling_probability", sampling_probability)
    design = sampling_name(sampling)
    std = check.real("std", std, minimum=0.0)
    kernel = smoothing_kernel(check_grid(grid).size, std)

    def row(cap: int) -> NoiseByCap:
        influence = counted(grid, cap, step_cap, individuals, replaced, gap)
        scale, every_step = (least_scale(influence, kernel, q, epsilon, delta, design) for q in (p, 1.0))
        return NoiseByCap(int(cap), scale, every_step)

    apart = f", gap {gap}" if gap > 1 else ""
    smoothing = f", filter std {std:g}" if std else ""
    sample = f"p = {p:g}" + (" in blocks" if design == "stratified" else "")
    return CapTable(
        rows=tuple(row(cap) for cap in participation_caps),
        title=f"{grid.size} steps, {sample}{apart}{smoothing}, (ε = {epsilon:g}, δ = {delta:g})",
    )
