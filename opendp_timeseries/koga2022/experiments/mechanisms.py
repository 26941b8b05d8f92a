"""The mechanisms of the comparison: real OpenDP measurements, with the noise that each accounting asks for.

All of them make the same promise, (ε, δ) for one individual added or removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.koga2022.algorithm1 import then_koga2022
from opendp_timeseries.koga2022.bounds import (
    analytic_scale,
    classical_scale,
    filter_constants,
    least_scale_with_filter,
    least_scale_without_filter,
)
from opendp_timeseries.koga2022.experiments.problems import Problem
from opendp_timeseries.koga2022.fourier import fourier_series, then_fourier_coefficients
from opendp_timeseries.koga2022.fourier_norms import influence_l2
from opendp_timeseries.koga2022.fourier_planning import best_frequencies
from opendp_timeseries.plugin.circulant_filter import then_circulant_filter
from opendp_timeseries.plugin.lp_distance import then_lp_distance
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, then_subsampled_gaussian
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.reconstruction.smooth import smooth
from opendp_timeseries.release.release import Release

__all__ = ["Mechanism", "algorithm1", "every_step", "fourier", "fourier_laplace", "gaussian", "subsampled"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism:
    """One way to release a problem's series at its (ε, δ).

    :param name: for tables and figures.
    :param accounting: what the guarantee rests on.
    :param scale: standard deviation of the noise on each released number: a count, or a coefficient.
    :param numbers: how many noisy numbers a release holds, on average.
    :param measurement: from the count signal to the whole series.
    """

    name: str
    accounting: str
    scale: float
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
        scale=scale,
        numbers=problem.size,
        measurement=problem.count() >> then_lp_distance(dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale),
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
    count = problem.count() if exact else problem.count() >> then_lp_distance(dp.l2_distance(T=float))
    moved = count.map(1)

    def noise(k: int) -> float:
        return per_unit * (influence_l2(moved, problem.size, k) if exact else moved)

    k = frequencies or _best_frequencies(problem, noise)
    coefficients = count >> then_fourier_coefficients(k)
    scale = _gaussian_scale(problem, coefficients.map(1) ** 2, exact)
    return Mechanism(
        name=_fourier_name(k, frequencies),
        accounting="exact profile" if exact else "classical theorem",
        scale=scale,
        numbers=2 * k - 1,
        measurement=coefficients >> dp.m.then_gaussian(scale) >> partial(fourier_series, size=problem.size),
    )


def fourier_laplace(problem: Problem, frequencies: int | None = None) -> Mechanism:
    """Return DFT in its original form (Rastogi & Nath 2010): Laplace noise, ε-private with δ = 0.

    :param problem: the series and its settings.
    :param frequencies: ``k``, or the best for the very series, as in :func:`fourier`.
    """

    def noise(k: int) -> float:  # ‖Fv‖₁ ≤ √(2k−1)·‖v‖₂, and √2 is the standard deviation of Laplace noise
        return math.sqrt(2.0 * (2 * k - 1) * problem.participation_cap) / problem.epsilon

    k = frequencies or _best_frequencies(problem, noise)
    count = problem.count() >> then_lp_distance(dp.l2_distance(T=float))
    coefficients = count >> then_fourier_coefficients(k, output_metric=dp.l1_distance(T=float))
    scale = dp.binary_search_param(
        lambda scale: coefficients >> dp.m.then_laplace(scale), d_in=1, d_out=problem.epsilon, T=float
    )
    return Mechanism(
        name=_fourier_name(k, frequencies) + ", Laplace",
        accounting="δ = 0",
        scale=math.sqrt(2.0) * scale,
        numbers=2 * k - 1,
        measurement=coefficients >> dp.m.then_laplace(scale) >> partial(fourier_series, size=problem.size),
    )


def algorithm1(problem: Problem, *, filtered: bool) -> Mechanism:
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
        scale=choice.scale,
        numbers=problem.size * problem.sampling_probability,
        measurement=measurement >> _interpolated,
    )


def subsampled(problem: Problem, *, filtered: bool, smoothed: bool = False) -> Mechanism:
    """Return the same algorithm as stages of this library, with the noise of the exact profile.

    :param problem: the series and its settings.
    :param filtered: with the paper's Gaussian filter, or without.
    :param smoothed: reconstruct by :func:`~opendp_timeseries.smooth` instead of linear interpolation.
    """
    p = problem.sampling_probability
    release, scale = _release(problem, p, filtered)
    return Mechanism(
        name=f"ours, {_filter_name(filtered)}" + (", smoothed" if smoothed else ""),
        accounting="exact profile",
        scale=scale,
        numbers=problem.size * p,
        measurement=release >> (_smoothed() if smoothed else _interpolated),
    )


def every_step(problem: Problem, *, smoothed: bool = False, seasons: float | None = None) -> Mechanism:
    """Return the Gaussian mechanism at every step with exact noise, and the paper's filter behind it.

    The filter is post-processing there: it costs no privacy, and averages noise away.

    :param problem: the series and its settings.
    :param smoothed: put :func:`~opendp_timeseries.smooth` behind it, instead of the filter.
    :param seasons: a pattern in steps that repeats, known in public, for the smoother.
    """
    release, scale = _release(problem, 1.0, filtered=False)
    name = "smoother" if smoothed else "filter"
    return Mechanism(
        name=f"every step, then {name}" + (f" with season {seasons:g}" if seasons else ""),
        accounting="exact profile",
        scale=scale,
        numbers=problem.size,
        measurement=release >> (_smoothed(seasons) if smoothed else _filtered(problem.kernel)),
    )


def _release(problem: Problem, p: float, filtered: bool) -> tuple[dp.Measurement, float]:
    """Return the subsampled Gaussian with the least noise at the problem's (ε, δ), and that noise."""
    signal = problem.count()
    if filtered:
        signal = signal >> then_circulant_filter(problem.kernel)
    scale = least_scale(signal, epsilon=problem.epsilon, delta=problem.delta, sampling_probability=p)
    release: dp.Measurement = signal >> then_subsampled_gaussian(scale, sampling_probability=p, delta=problem.delta)
    return release, scale


def _interpolated(release: Release) -> NDArray[np.float64]:
    return interpolate(release).values


def _smoothed(seasons: float | None = None) -> Callable[[Release], NDArray[np.float64]]:
    return lambda release: smooth(release, seasons=seasons).values


def _filtered(kernel: Kernel) -> Callable[[Release], NDArray[np.float64]]:
    """Apply a filter to a release of every step."""
    gain = np.fft.rfft(kernel.taps)
    return lambda release: np.fft.irfft(np.fft.rfft(release.values) * gain, n=kernel.size)


def _gaussian_scale(problem: Problem, squared_sensitivity: float, exact: bool) -> float:
    return (analytic_scale if exact else classical_scale)(problem.epsilon, problem.delta, squared_sensitivity)


def _best_frequencies(problem: Problem, noise: Callable[[int], float]) -> int:
    """Return the best ``k`` for the truth, of which the signal is an observation with noise of its own."""
    observation = math.sqrt(np.mean((problem.signal - problem.truth) ** 2))
    return best_frequencies(problem.truth, lambda k: math.hypot(noise(k), observation))


def _fourier_name(k: int, asked: int | None) -> str:
    return f"DFT, k = {k}" + ("" if asked else " (best)")


def _filter_name(filtered: bool) -> str:
    return "with filter" if filtered else "without filter"
