"""The methods of the comparison: real OpenDP measurements, with the noise that each accounting asks for.

All of them make the same promise, (ε, δ) for one individual added or removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
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
from opendp_timeseries.koga2022.fourier import fourier_series, influence_l2, then_fourier_coefficients
from opendp_timeseries.koga2022.fourier_planning import best_frequencies
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.circulant_filter import then_circulant_filter
from opendp_timeseries.plugin.lp_distance import then_lp_distance
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, then_subsampled_gaussian
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.reconstruction.smooth import smooth
from opendp_timeseries.release.release import Release

__all__ = [
    "Method",
    "algorithm1",
    "every_step",
    "fourier",
    "fourier_laplace",
    "gaussian",
    "mean_absolute_errors",
    "releases",
    "subsampled",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """One way to release a problem's series at its (ε, δ)."""

    name: str  #: for tables and figures
    accounting: str  #: what the guarantee rests on
    scale: float  #: standard deviation of the noise on each released number: a count, or a coefficient
    numbers: float  #: how many noisy numbers a release holds, on average
    measurement: native.Measurement  #: from the count signal to the whole series


def releases(method: Method, problem: Problem, runs: int) -> NDArray[np.float64]:
    """Release the series ``runs`` times, with fresh noise and fresh samples: an array of shape ``(runs, T)``."""
    runs = check.integer("runs", runs, minimum=1)
    released: list[Any] = [method.measurement(problem.signal) for _ in range(runs)]
    return np.array(released, dtype=np.float64)


def mean_absolute_errors(released: ArrayLike, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean absolute error over the steps of each release, in counts."""
    errors: NDArray[np.float64] = np.abs(np.asarray(released) - truth).mean(axis=1)
    return errors


def gaussian(problem: Problem, *, exact: bool = False) -> Method:
    """Return the Gaussian mechanism at every step, by the classical theorem as in the paper, or exactly."""
    scale = _gaussian_scale(problem, float(problem.participation_cap), exact)
    return Method(
        name="Gaussian",
        accounting=_accounting(exact),
        scale=scale,
        numbers=problem.size,
        measurement=_l2_count(problem) >> native.then_gaussian(scale),
    )


def fourier(problem: Problem, frequencies: int | None = None, *, exact: bool = False) -> Method:
    """Return DFT with Gaussian noise on the first coefficients: as in the paper, or with what is known today.

    :param frequencies: ``k``; by default the best for the very series that is released, which no private release could
        know. It favours this baseline.
    :param exact: take the exact privacy profile, and count only what one individual's few steps can move in low
        frequencies; else the classical theorem and the norm of the whole change, as in the paper.
    """
    per_unit = _gaussian_scale(problem, 1.0, exact)
    count = problem.count() if exact else _l2_count(problem)
    moved = count.map(1)

    def noise(k: int) -> float:
        return per_unit * (influence_l2(moved, problem.size, k) if exact else moved)

    k = frequencies or _best_frequencies(problem, noise)
    coefficients = count >> then_fourier_coefficients(k)
    scale = _gaussian_scale(problem, coefficients.map(1) ** 2, exact)
    return Method(
        name=_fourier_name(k, frequencies),
        accounting=_accounting(exact),
        scale=scale,
        numbers=2 * k - 1,
        measurement=coefficients >> native.then_gaussian(scale) >> partial(fourier_series, size=problem.size),
    )


def fourier_laplace(problem: Problem, frequencies: int | None = None) -> Method:
    """Return DFT in its original form (Rastogi & Nath 2010): Laplace noise, ε-private with δ = 0."""

    def noise(k: int) -> float:  # ‖Fv‖₁ ≤ √(2k−1)·‖v‖₂, and √2 is the standard deviation of Laplace noise
        return math.sqrt(2.0 * (2 * k - 1) * problem.participation_cap) / problem.epsilon

    k = frequencies or _best_frequencies(problem, noise)
    coefficients = _l2_count(problem) >> then_fourier_coefficients(k, output_metric=native.l1_distance(T=float))
    scale = native.binary_search_param(
        lambda scale: coefficients >> native.then_laplace(scale), d_in=1, d_out=problem.epsilon, T=float
    )
    return Method(
        name=_fourier_name(k, frequencies) + ", Laplace",
        accounting="δ = 0",
        scale=math.sqrt(2.0) * scale,
        numbers=2 * k - 1,
        measurement=coefficients >> native.then_laplace(scale) >> partial(fourier_series, size=problem.size),
    )


def algorithm1(problem: Problem, *, filtered: bool) -> Method:
    """Return Algorithm 1 with the noise of the paper's own bounds, at the best α and split of δ.

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
        output_measure=native.approximate(native.max_divergence()),
        delta=problem.delta,
    )
    return Method(
        name=f"paper, {_filter_name(filtered)}",
        accounting=f"Corollary {2 if filtered else 3}",
        scale=choice.scale,
        numbers=problem.size * problem.sampling_probability,
        measurement=measurement >> _interpolated,
    )


def subsampled(problem: Problem, *, filtered: bool, smoothed: bool = False) -> Method:
    """Return the same algorithm as stages of this library, with the noise of the exact profile.

    :param filtered: with the paper's Gaussian filter, or without.
    :param smoothed: reconstruct by :func:`~opendp_timeseries.smooth` instead of linear interpolation.
    """
    p = problem.sampling_probability
    release, scale = _release(problem, p, filtered)
    return Method(
        name=f"ours, {_filter_name(filtered)}" + (", smoothed" if smoothed else ""),
        accounting=_accounting(True),
        scale=scale,
        numbers=problem.size * p,
        measurement=release >> (_smoothed() if smoothed else _interpolated),
    )


def every_step(problem: Problem, *, smoothed: bool = False, seasons: float | None = None) -> Method:
    """Return the Gaussian mechanism at every step with exact noise, and the paper's filter as post-processing.

    :param smoothed: put :func:`~opendp_timeseries.smooth` behind it, instead of the filter.
    :param seasons: a pattern in steps that repeats, known in public, for the smoother.
    """
    release, scale = _release(problem, 1.0, filtered=False)
    name = "smoother" if smoothed else "filter"
    return Method(
        name=f"every step, then {name}" + (f" with season {seasons:g}" if seasons else ""),
        accounting=_accounting(True),
        scale=scale,
        numbers=problem.size,
        measurement=release >> (_smoothed(seasons) if smoothed else _filtered(problem.kernel)),
    )


def _l2_count(problem: Problem) -> native.Transformation:
    return problem.count() >> then_lp_distance(native.l2_distance(T=float))


def _release(problem: Problem, p: float, filtered: bool) -> tuple[native.Measurement, float]:
    """Return the subsampled Gaussian with the least noise at the problem's (ε, δ), and that noise."""
    signal = problem.count()
    if filtered:
        signal = signal >> then_circulant_filter(problem.kernel)
    scale = least_scale(signal, epsilon=problem.epsilon, delta=problem.delta, sampling_probability=p)
    return signal >> then_subsampled_gaussian(scale, sampling_probability=p, delta=problem.delta), scale


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
    """Return the best ``k`` for the truth, which the signal observes with its own noise."""
    observation = math.sqrt(np.mean((problem.signal - problem.truth) ** 2))
    return best_frequencies(problem.truth, lambda k: math.hypot(noise(k), observation))


def _accounting(exact: bool) -> str:
    return "exact profile" if exact else "classical theorem"


def _fourier_name(k: int, asked: int | None) -> str:
    return f"DFT, k = {k}" + ("" if asked else " (best)")


def _filter_name(filtered: bool) -> str:
    return "with filter" if filtered else "without filter"
