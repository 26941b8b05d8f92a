"""The experiments of Koga, Meehan & Chaudhuri (2022), for the notebooks: comparison code, not part of the pipeline.

A :class:`Problem` is a count series with the settings at which it is released. Each mechanism of the paper's
comparison is a real OpenDP measurement on it, with the noise that its accounting asks for, so that all of them
make the same promise, (ε, δ) for one individual. The series are public or generated, and errors are measured
against them: nothing here protects anybody.

What was found is in ``docs/reproduction.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from opendp_timeseries import _validate as check
from opendp_timeseries.datasets import daily_profile, power_law, simulate_event_log
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.kernels import Kernel, gaussian_kernel
from opendp_timeseries.koga2022.algorithm1 import then_koga2022
from opendp_timeseries.koga2022.bounds import (
    analytic_scale,
    classical_scale,
    filter_constants,
    least_scale_with_filter,
    least_scale_without_filter,
)
from opendp_timeseries.koga2022.datasets import Synth, load_flow
from opendp_timeseries.koga2022.fourier import best_frequencies, invert_fourier, then_fourier_coefficients
from opendp_timeseries.koga2022.fourier_norms import influence_l2
from opendp_timeseries.measurements.subsampled_gaussian import then_subsampled_gaussian
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.spaces import count_signal_domain
from opendp_timeseries.transformations.assume_participation import then_assume_participation
from opendp_timeseries.transformations.circulant_filter import then_circulant_filter

__all__ = [
    "Mechanism",
    "Problem",
    "alpha_of_chain",
    "block_scale_lower",
    "fourier",
    "fourier_laplace",
    "foursquare_like",
    "from_synth",
    "gaussian",
    "gowalla_like",
    "koga2022",
    "mean_absolute_errors",
    "pems",
    "releases",
    "subsampled",
    "traffic_like",
]

_STEPS_PER_DAY = 288  # of five minutes


# --- What is released ---


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A count series, and the settings at which every mechanism releases it.

    :param name: for tables and figures.
    :param signal: int64 counts, what a mechanism is given.
    :param truth: float64 values against which errors are measured; the signal itself, or what it observes.
    :param participation_cap: ``I``, assumed of the series (the paper's Assumption 1).
    :param sampling_probability: ``p``.
    :param kernel_std: ``σ_g`` of the paper's Gaussian filter, in steps.
    :param epsilon: ``ε``, of one individual added or removed.
    :param delta: ``δ``.
    """

    name: str
    signal: NDArray[np.int64]
    truth: NDArray[np.float64]
    participation_cap: int
    sampling_probability: float = 0.1
    kernel_std: float = 10.0
    epsilon: float = 0.5
    delta: float = 1e-4

    @property
    def size(self) -> int:
        """Number of time steps, ``T``."""
        return len(self.signal)

    @property
    def kernel(self) -> Kernel:
        """The paper's filter for this series."""
        return gaussian_kernel(self.size, self.kernel_std)

    def count(self, metric: dp.Metric | None = None) -> dp.Transformation:
        """Return the count under Assumption 1, with the influence metric or another one."""
        counted: dp.Transformation = (
            count_signal_domain(self.size),
            dp.symmetric_distance(),
        ) >> then_assume_participation(participation_cap=self.participation_cap, output_metric=metric)
        return counted

    def scaled(self, factor: float) -> Problem:
        """Return the problem of a series ``factor`` times as heavy, in whole counts, at the same settings."""
        signal = np.rint(self.signal * factor).astype(np.int64)
        return replace(self, name=f"{factor:g} × {self.name}", signal=signal, truth=signal.astype(np.float64))


def pems(path: str | PathLike[str]) -> Problem:
    """Return the first 1,800 rows of a flow file, or :func:`traffic_like` where there is no such file.

    Each row is a step, as in the traffic literature: the file that it shares leaves out weekends and holidays.

    :param path: CSV file for :func:`~opendp_timeseries.datasets.load_flow`.
    """
    return _tenth("PeMS", load_flow(path)[:1800]) if Path(path).exists() else traffic_like()


def traffic_like() -> Problem:
    """Return a generated series of the paper's PeMS settings: 1,800 steps of 5 minutes, about 61 a step."""
    return _generated("traffic-like", size=1800, individuals=10_300, period=_STEPS_PER_DAY, depth=0.9)


def gowalla_like() -> Problem:
    """Return a generated series of the paper's Gowalla settings: 725 days, about 7 a day."""
    return _generated("Gowalla-like", size=725, individuals=740, period=7, depth=0.3)


def foursquare_like() -> Problem:
    """Return a generated series of the paper's Foursquare settings: 2,126 steps of 6 hours, about 14 a step."""
    return _generated("Foursquare-like", size=2126, individuals=2620, period=4, depth=0.6)


def from_synth(series: Synth) -> Problem:
    """Return the paper's synthetic series as a problem: errors are measured against the noiseless values."""
    return Problem(
        name=f"Synth, f = {series.frequency:g}",
        signal=series.signal,
        truth=series.noiseless,
        participation_cap=series.participation_cap,
        sampling_probability=series.sampling_probability,
        kernel_std=series.kernel_std,
    )


def _tenth(name: str, signal: NDArray[np.int64]) -> Problem:
    """Return the problem with the paper's ``I = ⌈T/10⌉`` for real series."""
    cap = math.ceil(len(signal) / 10)
    return Problem(name=name, signal=signal, truth=signal.astype(np.float64), participation_cap=cap)


def _generated(name: str, *, size: int, individuals: int, period: int, depth: float) -> Problem:
    """Draw a public log in which nobody exceeds ``I = ⌈T/10⌉``, the same at every call, and count it."""
    log = simulate_event_log(
        TimeGrid(size=size),
        individuals,
        power_law(participation_cap=math.ceil(size / 10), exponent=1.5),
        rng=np.random.default_rng(2022),
        profile=daily_profile(size, period, depth=depth),
    )
    return _tenth(name, np.bincount(log["time"], minlength=size))


# --- The mechanisms ---


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism:
    """One way to release a problem's series at its (ε, δ).

    :param name: for tables and figures.
    :param accounting: what the guarantee rests on.
    :param noise_sd: standard deviation of the noise on each released number: a count, or a coefficient.
    :param numbers: how many noisy numbers a release holds, on average.
    :param measurement: from the count signal to the whole series.
    """

    name: str
    accounting: str
    noise_sd: float
    numbers: float
    measurement: dp.Measurement


def gaussian(problem: Problem, *, exact: bool = False) -> Mechanism:
    """Return the Gaussian mechanism: noise at every step, by the classical theorem as in the paper, or exactly.

    :param problem: the series and its settings.
    :param exact: take the least noise of the exact privacy profile (Balle & Wang 2018).
    """
    scale = _gaussian_scale(problem, float(problem.participation_cap), exact)
    return Mechanism(
        name="Gaussian",
        accounting="exact profile" if exact else "classical theorem",
        noise_sd=scale,
        numbers=problem.size,
        measurement=problem.count(dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale),
    )


def fourier(problem: Problem, frequencies: int | None = None, *, exact: bool = False) -> Mechanism:
    """Return DFT with Gaussian noise on the first coefficients: as in the paper, or with what is known today.

    :param problem: the series and its settings.
    :param frequencies: ``k``; if left out, the best for the very series that is released, which no private
        release could know. It favours this baseline.
    :param exact: take the exact privacy profile, and count only what one individual's few steps can move in low
        frequencies; else the classical theorem and the norm of the whole change, as in the paper.
    """
    per_unit = _gaussian_scale(problem, 1.0, exact)
    count = problem.count(None if exact else dp.l2_distance(T=float))
    moved = count.map(1)

    def noise_sd(k: int) -> float:
        return per_unit * (influence_l2(moved, problem.size, k) if exact else moved)

    k = frequencies or _best_frequencies(problem, noise_sd)
    coefficients = count >> then_fourier_coefficients(k)
    scale = _gaussian_scale(problem, coefficients.map(1) ** 2, exact)
    return Mechanism(
        name=_fourier_name(k, frequencies),
        accounting="exact profile" if exact else "classical theorem",
        noise_sd=scale,
        numbers=2 * k - 1,
        measurement=coefficients >> dp.m.then_gaussian(scale) >> invert_fourier(problem.size),
    )


def fourier_laplace(problem: Problem, frequencies: int | None = None) -> Mechanism:
    """Return DFT in its original form (Rastogi & Nath 2010): Laplace noise, ε-private with δ = 0.

    :param problem: the series and its settings.
    :param frequencies: ``k``, or the best for the very series, as in :func:`fourier`.
    """

    def noise_sd(k: int) -> float:  # ‖Fv‖₁ ≤ √(2k−1)·‖v‖₂, and √2 is the standard deviation of Laplace noise
        return math.sqrt(2.0 * (2 * k - 1) * problem.participation_cap) / problem.epsilon

    k = frequencies or _best_frequencies(problem, noise_sd)
    count = problem.count(dp.l2_distance(T=float))
    coefficients = count >> then_fourier_coefficients(k, output_metric=dp.l1_distance(T=float))
    scale = dp.binary_search_param(
        lambda scale: coefficients >> dp.m.then_laplace(scale), d_in=1, d_out=problem.epsilon, T=float
    )
    return Mechanism(
        name=_fourier_name(k, frequencies) + ", Laplace",
        accounting="δ = 0",
        noise_sd=math.sqrt(2.0) * scale,
        numbers=2 * k - 1,
        measurement=coefficients >> dp.m.then_laplace(scale) >> invert_fourier(problem.size),
    )


def koga2022(problem: Problem, *, filtered: bool) -> Mechanism:
    """Return Algorithm 1 with the noise of the paper's own bounds, at the best α and split of δ.

    :param problem: the series and its settings.
    :param filtered: with the paper's Gaussian filter (Theorem 4, Corollary 2), or without (Theorem 2, Corollary 3).
    """
    target = (problem.epsilon, problem.delta, problem.participation_cap, problem.sampling_probability)
    if filtered:
        choice = least_scale_with_filter(*target, filter_constants(problem.kernel))
        alpha = choice.bound.alpha
    else:
        choice = least_scale_without_filter(*target)
        alpha = math.sqrt((choice.bound.usual - 0.5) / choice.bound.worst)  # an α with ⌈α²I⌉ = I′
    measurement = problem.count() >> then_koga2022(
        choice.scale,
        alpha=alpha,
        sampling_probability=problem.sampling_probability,
        kernel=problem.kernel if filtered else None,
        output_measure=dp.approximate(dp.max_divergence()),
        delta=problem.delta,
    )
    return Mechanism(
        name=f"paper, {_filter_name(filtered)}",
        accounting=f"Corollary {2 if filtered else 3}",
        noise_sd=choice.scale,
        numbers=problem.size * problem.sampling_probability,
        measurement=measurement >> interpolate,
    )


def subsampled(problem: Problem, *, filtered: bool) -> Mechanism:
    """Return the same algorithm as stages of this library, with the noise of the exact profile.

    OpenDP solves for the noise through the privacy map of the chain.

    :param problem: the series and its settings.
    :param filtered: with the paper's Gaussian filter, or without.
    """
    signal = problem.count()
    if filtered:
        signal = signal >> then_circulant_filter(problem.kernel)

    def chain(scale: float) -> dp.Measurement:
        measurement: dp.Measurement = signal >> then_subsampled_gaussian(
            scale,
            sampling_probability=problem.sampling_probability,
            output_measure=dp.approximate(dp.max_divergence()),
            delta=problem.delta,
        )
        return measurement

    scale = dp.binary_search_param(chain, d_in=1, d_out=(problem.epsilon, problem.delta), T=float)
    return Mechanism(
        name=f"ours, {_filter_name(filtered)}",
        accounting="exact profile",
        noise_sd=scale,
        numbers=problem.size * problem.sampling_probability,
        measurement=chain(scale) >> interpolate,
    )


def _gaussian_scale(problem: Problem, squared_sensitivity: float, exact: bool) -> float:
    return (analytic_scale if exact else classical_scale)(problem.epsilon, problem.delta, squared_sensitivity)


def _best_frequencies(problem: Problem, noise_sd: Callable[[int], float]) -> int:
    """Return the best ``k`` for the truth, of which the signal is an observation with noise of its own."""
    observation = math.sqrt(np.mean((problem.signal - problem.truth) ** 2))
    return best_frequencies(problem.truth, lambda k: math.hypot(noise_sd(k), observation))


def _fourier_name(k: int, asked: int | None) -> str:
    return f"DFT, k = {k}" + ("" if asked else " (best)")


def _filter_name(filtered: bool) -> str:
    return "with filter" if filtered else "without filter"


# --- Their errors ---


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


# --- Bounds on the sensitivity and on the noise ---


def alpha_of_chain(
    kernel: Kernel, participation_cap: int, sampling_probability: float, failure_probabilities: ArrayLike
) -> NDArray[np.float64]:
    """Return, for each δ′, the ``α`` with which this library's chain bounds the sensitivity by ``α√I``.

    Off an event of probability δ′ the chain is ``ρ``-zero-concentrated private with ``ρ = α²I/(2σ²)``, from which
    ``α`` is read: the same statement as the paper's Theorem 4, for one pair of neighbours.

    :param kernel: the filter.
    :param participation_cap: ``I``.
    :param sampling_probability: ``p``.
    :param failure_probabilities: values of ``δ′``, in (0, 1).
    """
    counted = (count_signal_domain(kernel.size), dp.symmetric_distance()) >> then_assume_participation(
        participation_cap=participation_cap
    )
    smooth = counted >> then_circulant_filter(kernel)

    def alpha(failure_probability: float) -> float:
        chain = smooth >> then_subsampled_gaussian(
            1.0, sampling_probability=sampling_probability, failure_probability=failure_probability
        )
        return math.sqrt(2.0 * chain.map(1)[0] / participation_cap)

    return np.array([alpha(float(tail)) for tail in np.asarray(failure_probabilities)])


def block_scale_lower(
    kernel: Kernel,
    participation_cap: int,
    sampling_probability: float,
    epsilon: float,
    delta: float,
    *,
    cells: int = 200_000,
) -> float:
    """Return noise below which (ε, δ) **fails**, whatever the proof: for somebody in ``I`` adjacent steps.

    That individual's own privacy profile is worked out with squares rounded down to a lattice, so the answer is a
    lower bound, by at most 0.3% in the settings of the notebooks.

    :param kernel: the filter.
    :param participation_cap: ``I``, at most the kernel's size.
    :param sampling_probability: ``p``, above 0.
    :param epsilon: ``ε``, positive.
    :param delta: ``δ``, in (0, 1).
    :param cells: cells of the lattice, from 0 to the sum of all squares.
    """
    block = np.zeros(kernel.size)
    block[:participation_cap] = 1.0
    squares = np.fft.irfft(np.fft.rfft(block) * np.fft.rfft(kernel.taps), n=kernel.size) ** 2
    width = float(squares.sum()) / cells
    law = np.ones(1)
    for shift in sorted(int(square // width) for square in squares if square >= width):
        dropped, kept = (1.0 - sampling_probability) * law, sampling_probability * law
        law = np.pad(dropped, (0, shift))
        law[shift:] += kept
    sums = width * np.arange(1, len(law))

    def log_excess(scale: float) -> float:
        ratio = np.sqrt(sums) / scale
        profile = ndtr(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * ndtr(-ratio / 2 - epsilon / ratio)
        return math.log(float(law[1:] @ profile) / delta)

    high = analytic_scale(epsilon, delta, float(squares.sum()))  # as if every step were kept
    low = high / 2
    while log_excess(low) < 0.0:
        low /= 2
    return float(brentq(log_excess, low, high, rtol=1e-9))
