"""Designs for one budget, side by side, with the error to expect of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.planning.errors import expected_error
from opendp_timeseries.planning.scales import budget, counted, least_scale, smoothing_kernel
from opendp_timeseries.planning.signal import Signal, described_signal
from opendp_timeseries.planning.tables import text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Design", "Plan", "Setting", "plan"]

_PROBABILITIES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
#: Below this many kept steps on average, an expected error says little of any one release.
_MIN_KEPT: Final = 8
#: Sampling is said to help only where it beats keeping every step by this factor.
_CLEARLY: Final = 0.97
#: Where the error exceeds this share of the signal's own deviation, the noise drowns the signal.
_DROWNED: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Design:
    """A way to release the series within the budget, and the error to expect; all errors are root mean squares.

    :param name: the mechanism.
    :param sampling_probability: ``p``; 1 keeps every step.
    :param std: width of the Gaussian filter in steps, 0 for none.
    :param scale: standard deviation σ of the noise.
    :param noise: what the noise contributes to the error of the interpolated series.
    :param bias: what the filter removes, and what the signal does between kept steps, contribute to it.
    :param smoothed: error of the best linear smoother that knows the covariance of the signal, and nothing else.
    """

    name: str
    sampling_probability: float
    std: float
    scale: float
    noise: float
    bias: float
    smoothed: float

    @property
    def interpolated(self) -> float:
        """Error of linear interpolation between kept steps."""
        return math.hypot(self.noise, self.bias)

    def __str__(self) -> str:
        return self.name + (f", filter std {self.std:g}" if self.std else "")


@dataclass(frozen=True, eq=False)
class Setting:
    """What all designs of a plan have in common.

    :param signal: what is assumed of the signal.
    :param influence: how far the count moves between adjacent logs.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param title: the setting in words.
    """

    signal: Signal
    influence: Influence
    epsilon: float
    delta: float
    title: str


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Designs for one budget, with the errors to expect: see :func:`~opendp_timeseries.plan`.

    It prints as a table with advice.

    :param setting: what they have in common.
    :param designs: filters, sampling probabilities and the noise that each needs.
    :param others: further mechanisms, for comparison, which reconstruct the series in their own way.
    """

    setting: Setting
    designs: tuple[Design, ...]
    others: tuple[Design, ...] = ()

    def beside(self, *others: Design) -> Plan:
        """Return the plan with further mechanisms beside it, to print and draw; advice is not drawn from them.

        :param others: for the same setting, such as that of
            :func:`~opendp_timeseries.koga2022.fourier_planning.fourier_design`.
        """
        return replace(self, others=self.others + others)

    @property
    def deviation(self) -> float:
        """Standard deviation of the signal around its level: the error of a flat line at the true level."""
        return self.setting.signal.deviation

    @property
    def best_interpolated(self) -> Design:
        """The design with the least error of the interpolated series."""
        return min(self.designs, key=lambda design: design.interpolated)

    @property
    def best_smoothed(self) -> Design:
        """The design with the least error of the smoothed series."""
        return min(self.designs, key=lambda design: design.smoothed)

    def advice(self) -> str:
        """Say what is best, whether sampling helps, and whether the noise drowns the signal."""
        return "\n".join(
            (
                _compare("Interpolated", {design: design.interpolated for design in self.designs}),
                _compare("Smoothed", {design: design.smoothed for design in self.designs}),
                *self._warning(),
                *(f"{other}: expected error {other.interpolated:.4g}." for other in self.others),
            )
        )

    def _warning(self) -> Iterator[str]:
        best = min(self.best_smoothed.smoothed, self.best_interpolated.interpolated)
        if best > _DROWNED * self.deviation:
            yield (
                f"The noise drowns the signal: a flat line would err by {self.deviation:.4g}. Take coarser steps, a"
                " smaller cap, or a larger budget."
            )

    def __repr__(self) -> str:
        header = ("design", "scale", "noise", "bias", "interpolated", "smoothed")
        rows = [
            (str(design), *(f"{getattr(design, name):.4g}" for name in header[1:]))
            for design in (*self.designs, *self.others)
        ]
        return f"{self.setting.title}\n{text_table(header, rows)}\n{self.advice()}"

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the expected errors of all designs.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        drawn = (*self.designs, *self.others)
        axes = new_axes(height=1.2 + 0.28 * len(drawn)) if axes is None else axes
        at = np.arange(len(drawn))
        axes.barh(at, [d.interpolated for d in drawn], height=0.62, color="0.82", label="interpolated")
        axes.barh(at, [d.noise for d in drawn], height=0.3, color="0.55", label="of which noise")
        axes.plot([d.smoothed for d in drawn], at, "k|", ms=11, mew=2, label="smoothed")
        axes.axvline(self.deviation, color="black", linewidth=0.8, linestyle=":", label="a flat line")
        axes.set_yticks(at, [str(d) for d in drawn], fontsize="small")
        axes.invert_yaxis()
        axes.set_xlabel(
            "expected root mean squared error, in the signal's unit\n" + self.setting.title, fontsize="small"
        )
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small")
        return axes


def plan(
    grid: TimeGrid,
    *,
    participation_cap: int,
    epsilon: float,
    delta: float,
    step_cap: int = 1,
    individuals: int = 1,
    time_scale: float | None = None,
    deviation: float | None = None,
    proxy: ArrayLike | None = None,
    sampling_probabilities: Sequence[float] | None = None,
    stds: Sequence[float] = (0.0, 3.0, 10.0),
    replaced: bool = False,
) -> Plan:
    """Compare designs by the error to expect of them within a budget, without any private data.

    Each design gets the least noise that the exact privacy profile allows at (ε, δ). The signal is a Gaussian
    process around an unknown level, with Matérn's covariance of smoothness 3/2, which has a slope everywhere and a
    curvature nowhere; or any signal with the covariance of a public series. The error of linear interpolation is
    then exact, on average over kept sets that are drawn with a fixed public seed. So is that of the best linear
    smoother, but for the ends of long series. A smoother that must learn the covariance from the release, as
    :func:`~opendp_timeseries.smooth` does, errs more; one that knows more than the covariance, such as a pattern
    that repeats, can err less.

    :param grid: the grid of the count.
    :param participation_cap: ``I``, steps per individual.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param step_cap: ``M``, events per individual and step.
    :param individuals: how many the guarantee is for.
    :param time_scale: steps within which the signal changes noticeably: the length in its covariance. At this
        lag the correlation is 0.48.
    :param deviation: standard deviation of the signal around its level, in counts per step.
    :param proxy: instead of these two, a **public** series of the grid's size that resembles the private one.
    :param sampling_probabilities: to compare; if left out, those of 0.05, 0.1, 0.2, 0.5 and 1 that keep enough.
    :param stds: widths of Gaussian filters to compare, in steps, 0 for none.
    :param replaced: True if adjacent logs replace individuals, rather than add or remove them.
    :return: a :class:`~opendp_timeseries.planning.Plan`; print it.
    :raises TypeError: if the grid is not a :class:`~opendp_timeseries.TimeGrid`.
    :raises ValueError: for a parameter out of range, a probability that keeps fewer than 8 steps on average, or
        not exactly one description of the signal.

    >>> found = plan(TimeGrid(size=500), participation_cap=50, epsilon=1.0, delta=1e-6,
    ...     time_scale=40, deviation=30, sampling_probabilities=(0.2, 1.0), stds=(0.0,))
    >>> print(found)
    500 steps, at most 50 of an individual, (ε = 1, δ = 1e-06), 30 around its level, time scale 40
    design      scale  noise  bias   interpolated  smoothed
    p = 0.2     14.98  12.55  1.857  12.68         7.111
    every step  29.87  29.87  0      29.87         6.333
    Interpolated: p = 0.2 is best, expected error 12.68. Sampling helps: 12.68 with it, 29.87 without.
    Smoothed: every step is best, expected error 6.333. Sampling does not help: 7.111 with it, 6.333 without.
    """
    check_grid(grid)
    epsilon, delta = budget(epsilon, delta)
    signal, described = described_signal(grid.size, time_scale, deviation, proxy)
    if sampling_probabilities is None:
        sampling_probabilities = [p for p in _PROBABILITIES if p == 1 or p * grid.size >= _MIN_KEPT]
    probabilities = [_sampling(p, grid.size) for p in sampling_probabilities]
    widths = [check.real("stds", std, minimum=0.0) for std in stds]
    if not probabilities or not widths:
        raise ValueError(
            f"sampling_probabilities ({sampling_probabilities}) and stds ({stds}) must name at least one design"
        )
    setting = Setting(
        signal=signal,
        influence=counted(grid, participation_cap, step_cap, individuals, replaced),
        epsilon=epsilon,
        delta=delta,
        title=f"{grid.size} steps, at most {participation_cap} of an individual, (ε = {epsilon:g}, δ = {delta:g}),"
        f" {described}",
    )
    return Plan(setting, tuple(_design(setting, p, std) for std in widths for p in probabilities))


def _sampling(probability: float, size: int) -> float:
    p = check.probability("sampling_probabilities", probability)
    if p < 1 and p * size < _MIN_KEPT:
        raise ValueError(
            f"sampling_probabilities ({p:g}) keeps fewer than {_MIN_KEPT} of {size} steps on average; raise it"
        )
    return p


def _design(setting: Setting, p: float, std: float) -> Design:
    kernel = smoothing_kernel(setting.signal.size, std)
    scale = least_scale(setting.influence, kernel, p, setting.epsilon, setting.delta)
    error = expected_error(setting.signal, kernel, p, scale)
    return Design(
        name="every step" if p == 1 else f"p = {p:g}",
        sampling_probability=p,
        std=std,
        scale=scale,
        noise=error.noise,
        bias=error.bias,
        smoothed=error.smoothed,
    )


def _compare(how: str, errors: dict[Design, float]) -> str:
    """Name the best design, and say whether it is best because it leaves steps out."""
    best = min(errors, key=lambda design: errors[design])
    sampled = {design: error for design, error in errors.items() if design.sampling_probability < 1}
    whole = {design: error for design, error in errors.items() if design.sampling_probability == 1}
    verdict = ""
    if sampled and whole:
        helps = min(sampled.values()) < _CLEARLY * min(whole.values())
        if not helps:
            best = min(whole, key=lambda design: whole[design])
        verdict = f" Sampling {'helps' if helps else 'does not help'}: {min(sampled.values()):.4g} with it,"
        verdict += f" {min(whole.values()):.4g} without."
    return f"{how}: {best} is best, expected error {errors[best]:.4g}.{verdict}"
