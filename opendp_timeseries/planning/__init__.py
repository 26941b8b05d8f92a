"""Choosing a design without data: what error to expect of a sampling probability, a filter, a cap.

Noise scales come from the exact accounting, which reads no data. What the reconstruction adds depends on how the
signal moves, and of that only second moments matter, as long as the reconstruction is linear: its covariance
at each lag. These come from two public numbers (a time scale and a size), or from a public series that
resembles the private one. Nothing here may be given the private series: a design chosen by it would reveal
something of it, uncharged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, count_influence
from opendp_timeseries.accounting.renyi import delta_from_renyi
from opendp_timeseries.accounting.subsampled import ExtremalLaw, extremal_law
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.kernels import gaussian_kernel, identity_kernel
from opendp_timeseries.koga2022.bounds import analytic_scale
from opendp_timeseries.koga2022.fourier_norms import influence_l2

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CapTable", "Design", "NoiseByCap", "Plan", "noise_by_cap", "plan"]

Accounting = Literal["exact", "renyi", "zcdp"]

#: Kept sets are drawn with this public seed, so that a plan is reproducible.
_SEED: Final = 20220323
_DRAWS: Final = 8
_PROBABILITIES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
#: With fewer kept on average, what is expected says little of what happens.
_LEAST_KEPT: Final = 8
#: Optimal smoothing is worked out on a stretch with about so many kept steps, at so many steps of its middle.
_KEPT_IN_WINDOW: Final = 1000
_STEPS_IN_WINDOW: Final = 512
#: The level of the signal is taken as unknown: this many times its deviation.
_UNKNOWN_LEVEL: Final = 10.0
#: A design must be so much better than keeping every step before sampling is said to help.
_CLEARLY: Final = 0.97
#: Errors beyond this share of the signal's own deviation: the noise drowns the signal.
_DROWNED: Final = 0.9
_SAFETY: Final = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Design:
    """A way to release the series within the budget, and the error to expect; all errors are root mean squares.

    :param name: the mechanism.
    :param sampling_probability: ``p``; 1 keeps every step.
    :param filter_std: width of the Gaussian filter in steps, 0 for none.
    :param frequencies: number of Fourier frequencies released, if any, instead of steps.
    :param accounting: how the loss of the subsampled Gaussian is accounted for, see :func:`plan`.
    :param scale: standard deviation σ of the noise.
    :param noise: what the noise contributes to the error of the interpolated series.
    :param bias: what moves of the signal between kept steps, the filter, and frequencies left out contribute.
    :param smoothed: error of the best linear smoother that knows the covariance of the signal, and nothing else.
    """

    name: str
    sampling_probability: float
    filter_std: float
    frequencies: int | None
    accounting: Accounting
    scale: float
    noise: float
    bias: float
    smoothed: float

    @property
    def interpolated(self) -> float:
        """Error of linear interpolation between kept steps (of the inverse transform, for Fourier)."""
        return math.hypot(self.noise, self.bias)

    def __str__(self) -> str:
        smoothing = f", filter std {self.filter_std:g}" if self.filter_std else ""
        return f"{self.name}{smoothing}" + ("" if self.accounting == "exact" else f", by {self.accounting}")


@dataclass(frozen=True, repr=False)
class Plan:
    """Designs for one budget, with the errors to expect: see :func:`plan`. Printed, it is a table.

    :param designs: all that were compared.
    :param deviation: of the signal around its level: the error of a flat line at the true level.
    :param title: the setting in words.
    """

    designs: tuple[Design, ...]
    deviation: float
    title: str

    @property
    def best_interpolated(self) -> Design:
        """The design with the least error without a model: interpolated, or transformed back."""
        return min(self.designs, key=lambda design: design.interpolated)

    @property
    def best_smoothed(self) -> Design:
        """The design with the least error of the smoothed series."""
        return min(self.designs, key=lambda design: design.smoothed)

    def advice(self) -> str:
        """Say what is best, whether sampling helps, and whether the noise drowns the signal."""
        sampling = [design for design in self.designs if design.frequencies is None]
        other = [
            f"{design}: expected error {design.interpolated:.4g}, of its own reconstruction."
            for design in self.designs
            if design.frequencies is not None
        ]
        return "\n".join(
            (
                _compare("Interpolated", {design: design.interpolated for design in sampling}),
                _compare("Smoothed", {design: design.smoothed for design in sampling}),
                *other,
                *self._warning(),
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
        rows = [(str(d), *(f"{getattr(d, name):.4g}" for name in header[1:])) for d in self.designs]
        return f"{self.title}\n{_table(header, rows)}\n{self.advice()}"

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the expected errors of all designs.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        axes = new_axes(height=1.2 + 0.28 * len(self.designs)) if axes is None else axes
        at = np.arange(len(self.designs))
        axes.barh(at, [d.interpolated for d in self.designs], height=0.62, color="0.82", label="interpolated")
        axes.barh(at, [d.noise for d in self.designs], height=0.3, color="0.55", label="of which noise")
        axes.plot([d.smoothed for d in self.designs], at, "k|", ms=11, mew=2, label="smoothed")
        axes.axvline(self.deviation, color="black", linewidth=0.8, linestyle=":", label="a flat line")
        axes.set_yticks(at, [str(d) for d in self.designs], fontsize="small")
        axes.invert_yaxis()
        axes.set_xlabel("expected root mean squared error, in the signal's unit\n" + self.title, fontsize="small")
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
    filter_stds: Sequence[float] = (0.0, 3.0, 10.0),
    accountings: Sequence[Accounting] = ("exact",),
    replaced: bool = False,
) -> Plan:
    """Compare designs by the error to expect of them within a budget, without any private data.

    Each design gets the least noise that the exact profile allows at (ε, δ). The signal is a Gaussian process
    around an unknown level, with the covariance of Matérn's family of smoothness 3/2, which has a slope
    everywhere and a curvature nowhere; or anything with the covariance of a public series. The error of
    linear interpolation is then exact, on average over kept sets drawn with a fixed public seed. So is that of the best
    linear smoother, but for the ends of long series; a smoother that must learn the covariance from the
    release, as :func:`~opendp_timeseries.smooth` does, does worse; one that knows more than the covariance,
    such as a pattern that repeats, can do better.

    Beside the subsampled Gaussian stand keeping every step (the Gaussian mechanism) and the first Fourier
    coefficients with the best number of them and, in its favour, noise by the same exact accounting.

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
    :param filter_stds: widths of Gaussian filters to compare, in steps, 0 for none.
    :param accountings: measures of loss to compare, each converted to (ε, δ): ``"exact"`` is the profile,
        ``"renyi"`` a Rényi curve, ``"zcdp"`` approximate zCDP, of which half of δ is the failure probability.
    :param replaced: True if neighbours replace individuals, rather than add or remove them.
    :return: a :class:`Plan`; print it.
    :raises ValueError: for a parameter out of range, a probability that keeps fewer than 8 steps on average, or
        not exactly one description of the signal.

    >>> found = plan(TimeGrid(size=500), participation_cap=50, epsilon=1.0, delta=1e-6,
    ...     time_scale=40, deviation=30, sampling_probabilities=(0.2, 1.0), filter_stds=(0.0,))
    >>> print(found)
    500 steps, at most 50 of an individual, (ε = 1, δ = 1e-06), 30 around its level, time scale 40
    design           scale  noise  bias   interpolated  smoothed
    p = 0.2          14.98  12.55  1.857  12.68         7.111
    every step       29.87  29.87  0      29.87         6.333
    Fourier, k = 11  29.87  6.122  3.448  7.027         6.561
    Interpolated: p = 0.2 is best, expected error 12.68. Sampling helps: 12.68 with it, 29.87 without.
    Smoothed: every step is best, expected error 6.333. Sampling does not help: 7.111 with it, 6.333 without.
    Fourier, k = 11: expected error 7.027, of its own reconstruction.
    """
    if not check.is_a(grid, TimeGrid):
        raise TypeError(f"grid ({grid!r}) must be given as a TimeGrid")
    epsilon, delta = _budget(epsilon, delta)
    signal, described = _signal(grid.size, time_scale, deviation, proxy)
    if sampling_probabilities is None:
        sampling_probabilities = [p for p in _PROBABILITIES if p == 1 or p * grid.size >= _LEAST_KEPT]
    probabilities = [_sampling(p, grid.size) for p in sampling_probabilities]
    stds = [check.real("filter_stds", std, minimum=0.0) for std in filter_stds]
    counted = _counted(grid, participation_cap, step_cap, individuals, replaced)
    unknown = set(accountings) - set(get_args(Accounting))
    if unknown or not accountings:
        raise ValueError(f"accountings ({accountings}) must be among {', '.join(get_args(Accounting))}")
    designs = [
        _subsampled(signal, counted, p, std, accounting, epsilon, delta)
        for accounting in accountings
        for std in stds
        for p in probabilities
    ]
    designs.append(_fourier(signal, counted, epsilon, delta))
    return Plan(
        designs=tuple(designs),
        deviation=signal.deviation,
        title=f"{grid.size} steps, at most {participation_cap} of an individual, (ε = {epsilon:g}, δ = {delta:g}),"
        f" {described}",
    )


def _counted(grid: TimeGrid, participation_cap: int, step_cap: int, individuals: int, replaced: bool) -> Influence:
    return count_influence(
        check.integer("individuals", individuals, minimum=1),
        participation_cap=check.integer("participation_cap", participation_cap, minimum=1),
        step_cap=check.integer("step_cap", step_cap, minimum=1),
        size=grid.size,
        replaced=bool(replaced),
    )


def _budget(epsilon: float, delta: float) -> tuple[float, float]:
    return check.real("epsilon", epsilon, above=0.0), check.real("delta", delta, above=0.0, below=1.0)


def _sampling(probability: float, size: int) -> float:
    p = check.probability("sampling_probabilities", probability)
    if p < 1 and p * size < _LEAST_KEPT:
        raise ValueError(
            f"sampling_probabilities ({p:g}) keeps fewer than {_LEAST_KEPT} of {size} steps on average; raise it"
        )
    return p


class _Signal(NamedTuple):
    """Covariance around the level at the lags 0 … T−1 of the cycle; mean square of the level; deviation."""

    covariance: NDArray[np.float64]
    level: float
    deviation: float

    @property
    def size(self) -> int:
        return len(self.covariance)

    def spectrum(self) -> NDArray[np.float64]:
        """Variance of each coefficient in an orthonormal Fourier basis, at the frequencies 0 … ⌊T/2⌋."""
        return np.maximum(np.fft.rfft(self.covariance).real, 0.0)

    def whole_spectrum(self) -> NDArray[np.float64]:
        """The same with the level, which is all at frequency 0."""
        power = self.spectrum()
        power[0] += self.level * self.size
        return power


def _signal(
    size: int, time_scale: float | None, deviation: float | None, proxy: ArrayLike | None
) -> tuple[_Signal, str]:
    if (proxy is None) == (time_scale is None) or (time_scale is None) != (deviation is None):
        raise ValueError("describe the signal either by time_scale and deviation, or by a public proxy")
    if proxy is not None:
        values = np.asarray(proxy, dtype=np.float64)
        if values.shape != (size,) or not np.all(np.isfinite(values)):
            raise ValueError(f"proxy (shape {values.shape}) must be a row of {size} finite numbers, one for each step")
        level, sd = float(np.mean(values)), float(np.std(values))
        covariance = np.fft.irfft(np.abs(np.fft.rfft(values - level)) ** 2, n=size) / size
        return _Signal(covariance, level**2, sd), "as a public series"
    length = check.real("time_scale", time_scale, above=0.0, maximum=size, remedy="in steps, at most the grid's size")
    sd = check.real("deviation", deviation, above=0.0)
    # The covariance on a line, wrapped around the cycle. Twelve lengths away it has fallen below 1e-7.
    turns = np.arange(-math.ceil(12 * length / size), math.ceil(12 * length / size) + 1)
    lag = np.sqrt(3) * np.abs(np.arange(size)[:, None] + turns * size) / length
    shape = np.sum((1 + lag) * np.exp(-lag), axis=1)
    signal = _Signal(sd**2 * shape / shape[0], (_UNKNOWN_LEVEL * sd) ** 2, sd)
    return signal, f"{sd:g} around its level, time scale {length:g}"


def _subsampled(
    signal: _Signal, counted: Influence, p: float, std: float, accounting: Accounting, epsilon: float, delta: float
) -> Design:
    size = signal.size
    kernel = gaussian_kernel(size, std) if std > 0 else identity_kernel(size)
    influence = filtered_influence(counted, kernel) if std > 0 else counted
    scale = _least_scale(extremal_law(influence, p, size), accounting, epsilon, delta)
    # How the filtered signal goes with the signal, and with itself.
    gain = np.fft.rfft(kernel.taps).real
    cross = np.fft.irfft(signal.spectrum() * gain, n=size)
    filtered = np.fft.irfft(signal.spectrum() * gain**2, n=size)
    moments = _Moments(signal.covariance[0], cross, filtered, signal.level)
    if p == 1:
        bias = moments.spent(np.arange(size), np.arange(size), np.zeros(size))
        noise = 1.0
        smoothed = _smoothed_whole(signal, gain, scale)
    else:
        rng = np.random.default_rng(_SEED)
        draws = [_kept(rng, size, p) for _ in range(_DRAWS)]
        interpolations = [_interpolation(moments, kept) for kept in draws]
        bias, noise = (float(np.mean(part)) for part in zip(*interpolations, strict=True))
        fewer = max(2, round(1500 / (p * size)))  # large samples vary little, and cost much
        smoothed = float(np.mean([_smoothed_sample(moments, kept, p, scale) for kept in draws[:fewer]]))
    return Design(
        name="every step" if p == 1 else f"p = {p:g}",
        sampling_probability=p,
        filter_std=std,
        frequencies=None,
        accounting=accounting,
        scale=scale,
        noise=scale * math.sqrt(noise),
        bias=math.sqrt(bias if bias > 1e-12 * moments.signal else 0.0),  # what is left then is rounding
        smoothed=math.sqrt(max(smoothed, 0.0)),
    )


def _least_scale(law: ExtremalLaw, accounting: Accounting, epsilon: float, delta: float) -> float:
    """The least σ that gives (ε, δ), to about a part in 10⁹, on the safe side."""

    def reached(scale: float) -> float:
        if accounting == "exact":
            return law.at(scale).delta(epsilon)
        if accounting == "renyi":
            return delta_from_renyi(law.at(scale).renyi, epsilon)
        rho, tail = law.at(scale).zero_concentrated(delta / 2)
        return tail + delta_from_renyi(lambda order: order * rho, epsilon)

    def excess(log_scale: float) -> float:
        return math.log(reached(math.exp(log_scale)) / delta)

    if law.most == 0:
        return 0.0
    low = high = 0.0
    while excess(high) > 0:
        high += 1.0
    while excess(low) <= 0:
        low -= 1.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-11))) * _SAFETY


def _kept(rng: np.random.Generator, size: int, p: float) -> NDArray[np.int64]:
    """Kept steps, never none (which at 8 kept on average has probability 0.0003)."""
    kept = np.flatnonzero(rng.random(size) < p)
    return kept if len(kept) else np.array([size // 2])


class _Moments(NamedTuple):
    """Covariances at lags of the cycle: the signal's at 0, signal with filtered signal, and filtered signal.

    The filter has gain 1, and weights of interpolation sum to 1: the level, by its mean square, matters only to
    smoothing.
    """

    signal: float
    cross: NDArray[np.float64]
    filtered: NDArray[np.float64]
    level: float

    def spent(self, before: NDArray[np.int64], after: NDArray[np.int64], weight: NDArray[np.float64]) -> float:
        """Mean square of signal − ((1−w)·filtered[before] + w·filtered[after]), over all steps."""
        every = np.arange(len(before))
        near, far = 1 - weight, weight
        square = (
            self.signal
            - 2 * near * self.cross[every - before]
            - 2 * far * self.cross[after - every]
            + (near**2 + far**2) * self.filtered[0]
            + 2 * near * far * self.filtered[after - before]
        )
        return float(np.mean(square))


def _interpolation(moments: _Moments, kept: NDArray[np.int64]) -> tuple[float, float]:
    """Mean squares of linear interpolation: of the signal's moves, and of noise of variance 1."""
    every = np.arange(len(moments.cross))
    after = kept[np.minimum(np.searchsorted(kept, every), len(kept) - 1)]
    before = kept[np.maximum(np.searchsorted(kept, every, side="right") - 1, 0)]
    apart = after - before
    weight = np.where(apart > 0, (every - before) / np.maximum(apart, 1), 0.0)
    noise = np.where(apart > 0, (1 - weight) ** 2 + weight**2, 1.0)
    return moments.spent(before, after, weight), float(np.mean(noise))


def _smoothed_whole(signal: _Signal, gain: NDArray[np.float64], scale: float) -> float:
    """Mean squared error of the Wiener filter, on the cycle."""
    power, size = signal.whole_spectrum(), signal.size
    with np.errstate(invalid="ignore"):
        left = np.where(power > 0, power * scale**2 / (power * gain**2 + scale**2), 0.0)
    return float(np.sum(left * _copies(size))) / size


def _copies(size: int) -> NDArray[np.float64]:
    """How many real coefficients each frequency 0 … ⌊T/2⌋ has."""
    copies = np.full(size // 2 + 1, 2.0)
    copies[0] = 1.0
    if size % 2 == 0:
        copies[-1] = 1.0
    return copies


def _smoothed_sample(moments: _Moments, kept: NDArray[np.int64], p: float, scale: float) -> float:
    """Mean squared error of the best linear smoother given what is kept, in the middle of a stretch."""
    size = len(moments.cross)
    length = min(size, math.ceil(_KEPT_IN_WINDOW / p))
    kept = kept[kept < length] if kept[0] < length else kept[:1]
    ends = (0, length - 1) if length == size else (length // 4, 3 * length // 4)  # a whole cycle has no ends
    asked = np.unique(np.linspace(*ends, _STEPS_IN_WINDOW).astype(np.int64))
    known = moments.level + moments.filtered[kept[:, None] - kept] + scale**2 * np.eye(len(kept))
    with_signal = moments.level + moments.cross[kept[:, None] - asked]
    explained = np.sum(with_signal * cho_solve(cho_factor(known), with_signal), axis=0)
    return moments.level + moments.signal - float(np.mean(explained))


def _fourier(signal: _Signal, counted: Influence, epsilon: float, delta: float) -> Design:
    """The first k Fourier coefficients, for the k of the least error."""
    size, power = signal.size, signal.whole_spectrum()
    unit = analytic_scale(epsilon, delta, 1.0)
    energy = power * _copies(size)
    left_out = np.append(np.cumsum(energy[::-1])[-2::-1], 0.0)
    most = (size + 1) // 2
    best: Design | None = None
    for k in np.unique(np.geomspace(1, most, 48).astype(int)).tolist():
        scale = unit * influence_l2(counted, size, k)
        shrunk = np.sum(energy[:k] * scale**2 / (power[:k] + scale**2)) + left_out[k - 1]
        design = Design(
            name=f"Fourier, k = {k}",
            sampling_probability=1.0,
            filter_std=0.0,
            frequencies=k,
            accounting="exact",
            scale=scale,
            noise=scale * math.sqrt((2 * k - 1) / size),
            bias=math.sqrt(left_out[k - 1] / size),
            smoothed=math.sqrt(float(shrunk) / size),
        )
        if best is None or design.interpolated < best.interpolated:
            best = design
    assert best is not None
    return best


def _compare(how: str, errors: dict[Design, float]) -> str:
    """Name the best design, and say whether leaving steps out is what makes it so."""
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


class NoiseByCap(NamedTuple):
    """A row of :func:`noise_by_cap`."""

    participation_cap: int
    scale: float
    every_step: float


@dataclass(frozen=True, repr=False)
class CapTable:
    """Noise for each participation cap: see :func:`noise_by_cap`. Printed, it is a table.

    :param rows: one for each cap.
    :param title: the setting in words.
    """

    rows: tuple[NoiseByCap, ...]
    title: str

    def __repr__(self) -> str:
        header = ("participation cap", "scale", "scale if every step is kept")
        return f"{self.title}\n" + _table(
            header, [(str(r.participation_cap), f"{r.scale:.4g}", f"{r.every_step:.4g}") for r in self.rows]
        )

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the noise against the cap.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        axes = new_axes() if axes is None else axes
        caps = [row.participation_cap for row in self.rows]
        axes.plot(caps, [row.scale for row in self.rows], "o-", color="black", ms=4, label="sampled")
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
    filter_std: float = 0.0,
    step_cap: int = 1,
    individuals: int = 1,
    replaced: bool = False,
) -> CapTable:
    """Return the noise that each participation cap needs within a budget, by the exact profile. No data.

    It is the public half of the choice. The other half, how many events a cap leaves out, is private.

    :param grid: the grid of the count.
    :param participation_caps: to compare.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param sampling_probability: ``p``.
    :param filter_std: width of the Gaussian filter in steps, 0 for none.
    :param step_cap: ``M``, events per individual and step.
    :param individuals: how many the guarantee is for.
    :param replaced: True if neighbours replace individuals, rather than add or remove them.

    >>> noise_by_cap(TimeGrid(size=1000), [10, 50], epsilon=1.0, delta=1e-6, sampling_probability=0.1)
    1000 steps, p = 0.1, (ε = 1, δ = 1e-06)
    participation cap  scale  scale if every step is kept
    10                 6.823  13.36
    50                 11.57  29.87
    """
    epsilon, delta = _budget(epsilon, delta)
    p = check.probability("sampling_probability", sampling_probability)
    std = check.real("filter_std", filter_std, minimum=0.0)

    def row(cap: int) -> NoiseByCap:
        influence = _counted(grid, cap, step_cap, individuals, replaced)
        if std > 0:
            influence = filtered_influence(influence, gaussian_kernel(grid.size, std))
        scales = [_least_scale(extremal_law(influence, q, grid.size), "exact", epsilon, delta) for q in (p, 1.0)]
        return NoiseByCap(int(cap), *scales)

    smoothing = f", filter std {std:g}" if std else ""
    return CapTable(
        rows=tuple(row(cap) for cap in participation_caps),
        title=f"{grid.size} steps, p = {p:g}{smoothing}, (ε = {epsilon:g}, δ = {delta:g})",
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    widths = [max(len(str(cell)) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
    return "\n".join(lines)
