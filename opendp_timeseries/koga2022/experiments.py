"""The experiments of Koga, Meehan & Chaudhuri (2022), for the notebooks: comparison, not part of the pipeline.

A :class:`Method` releases the series of a :class:`Problem` by an OpenDP measurement, with the noise that its accounting
requires. All have the same guarantee, (ε, δ) for one individual added or removed. The series are public or generated:
no person is protected here. The results are in ``docs/reproduction.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.gaussian import gaussian_delta
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.datasets import daily_profile, power_law, simulate_event_log
from opendp_timeseries.koga2022 import bounds
from opendp_timeseries.koga2022 import fourier as dft
from opendp_timeseries.koga2022.algorithm1 import then_koga2022
from opendp_timeseries.koga2022.datasets import Problem, assumed_count, load_flow
from opendp_timeseries.plugin import native


def pems(path: str | PathLike[str]) -> Problem:
    """Return the first 1,800 rows of a flow file, each a step, with the paper's PeMS settings.

    :param path: CSV file for :func:`~opendp_timeseries.koga2022.datasets.load_flow`, such as
        ``tests/data/pems_flow_5min_2016_janfeb.csv`` of the repository, which leaves out weekends and holidays.
    :raises OSError: if there is no such file.
    """
    return _problem_of("PeMS", load_flow(path)[:1800])


def gowalla_like() -> Problem:
    """Return a generated series of the paper's Gowalla settings: 725 days, about 7 a day."""
    return _simulated_problem("Gowalla-like", size=725, individuals=740, period=7, depth=0.3)


def foursquare_like() -> Problem:
    """Return a generated series of the paper's Foursquare settings: 2,126 steps of 6 hours, about 14 a step."""
    return _simulated_problem("Foursquare-like", size=2126, individuals=2620, period=4, depth=0.6)


def _problem_of(name: str, signal: NDArray[np.int64]) -> Problem:
    """Return the problem with the paper's ``I = ⌈T/10⌉`` for real series."""
    cap = math.ceil(len(signal) / 10)
    return Problem(name=name, signal=signal, truth=signal.astype(np.float64), participation_cap=cap)


def _simulated_problem(name: str, *, size: int, individuals: int, period: int, depth: float) -> Problem:
    """Generate a public log in which nobody exceeds ``I = ⌈T/10⌉``, the same at every call, and count it."""
    law = power_law(participation_cap=math.ceil(size / 10), exponent=1.5)
    profile = daily_profile(size, period, depth=depth)
    log = simulate_event_log(ts.TimeGrid(size=size), individuals, law, rng=np.random.default_rng(2022), profile=profile)
    return _problem_of(name, np.bincount(log["time"], minlength=size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """A method of releasing a problem's series at its (ε, δ)."""

    name: str  #: for tables and figures
    scale: float  #: standard deviation of the noise on each released number: a count, or a coefficient
    numbers: float  #: average number of noisy numbers in a release
    measurement: native.Measurement  #: from the count signal to the whole series


def releases(method: Method, problem: Problem, runs: int) -> NDArray[np.float64]:
    """Release the series ``runs`` times, with fresh noise and fresh samples: an array of shape ``(runs, T)``."""
    runs = check.integer("runs", runs, minimum=1)
    outputs = [method.measurement(problem.signal) for _ in range(runs)]
    return np.array(outputs, dtype=np.float64)


def mean_absolute_errors(outputs: ArrayLike, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean absolute error over the steps of each release, in counts."""
    errors: NDArray[np.float64] = np.abs(np.asarray(outputs) - truth).mean(axis=1)
    return errors


def gaussian(problem: Problem, *, exact: bool = False) -> Method:
    """Return the Gaussian mechanism at every step, by the classical theorem as in the paper, or exactly."""
    scale = _gaussian_scale(problem, float(problem.participation_cap), exact)
    measurement = _l2_count(problem) >> native.then_gaussian(scale)
    return Method(name="Gaussian", scale=scale, numbers=problem.size, measurement=measurement)


def fourier(problem: Problem, frequencies: int | None = None, *, exact: bool = False) -> Method:
    """Return DFT with Gaussian noise on the first coefficients: as in the paper, or with tighter accounting.

    :param frequencies: ``k``; by default the best for the released series itself, which favours this baseline.
    :param exact: True for the exact privacy profile, and the bound on how far an individual's few steps move low
        frequencies; False for the classical theorem and the norm of the full change, as in the paper.
    """
    per_unit = _gaussian_scale(problem, 1.0, exact)
    count = problem.count() if exact else _l2_count(problem)
    sensitivity = count.map(1)

    def noise(k: int) -> float:
        return per_unit * (dft.influence_l2(sensitivity, problem.size, k) if exact else sensitivity)

    k, name = _frequencies(problem, frequencies, noise)
    coefficients = count >> dft.then_fourier_coefficients(k)
    scale = _gaussian_scale(problem, coefficients.map(1) ** 2, exact)
    series = coefficients >> native.then_gaussian(scale) >> partial(dft.fourier_series, size=problem.size)
    return Method(name=name, scale=scale, numbers=2 * k - 1, measurement=series)


def fourier_laplace(problem: Problem, frequencies: int | None = None) -> Method:
    """Return DFT in its original form (Rastogi & Nath 2010): Laplace noise, ε-private with δ = 0."""

    def noise(k: int) -> float:  # ‖Fv‖₁ ≤ √(2k−1)·‖v‖₂, and √2 is the standard deviation of Laplace noise
        return math.sqrt(2.0 * (2 * k - 1) * problem.participation_cap) / problem.epsilon

    k, name = _frequencies(problem, frequencies, noise)
    coefficients = _l2_count(problem) >> dft.then_fourier_coefficients(k, output_metric=native.l1_distance(T=float))
    scale = coefficients.map(1) / problem.epsilon
    series = coefficients >> native.then_laplace(scale) >> partial(dft.fourier_series, size=problem.size)
    return Method(name=f"{name}, Laplace", scale=math.sqrt(2.0) * scale, numbers=2 * k - 1, measurement=series)


def algorithm1(problem: Problem, *, filtered: bool) -> Method:
    """Return Algorithm 1 with the noise of the paper's own bounds, at the best α and split of δ.

    :param filtered: True for the paper's Gaussian filter (Theorem 4, Corollary 2), False for none (Theorem 2,
        Corollary 3).
    """
    target = (problem.epsilon, problem.delta, problem.participation_cap, problem.sampling_probability)
    if filtered:
        choice = bounds.least_scale_with_filter(*target, bounds.filter_constants(problem.kernel))
        alpha = choice.bound.alpha
    else:
        choice = bounds.least_scale_without_filter(*target)
        alpha = math.sqrt((choice.bound.usual - 0.5) / choice.bound.worst)  # an α with ⌈α²I⌉ = I′
    release = problem.count() >> then_koga2022(
        choice.scale,
        alpha=alpha,
        sampling_probability=problem.sampling_probability,
        kernel=problem.kernel if filtered else None,
        output_measure=native.approximate(native.max_divergence()),
        delta=problem.delta,
    )
    name, numbers = f"paper, {'with' if filtered else 'without'} filter", problem.size * problem.sampling_probability
    return Method(name=name, scale=choice.scale, numbers=numbers, measurement=release >> ts.interpolate)


def subsampled(
    problem: Problem,
    *,
    filtered: bool,
    smoothed: bool = False,
    reconstruct: Callable[[ts.Release], object] | None = None,
) -> Method:
    """Return the same algorithm as stages of this library, with the noise of the exact profile.

    :param filtered: True for the paper's Gaussian filter, False for none.
    :param smoothed: True to reconstruct by :func:`~opendp_timeseries.smooth` instead of linear interpolation.
    :param reconstruct: your own reconstruction instead of both: a function of a release that returns a value for each
        step; its name is used for the method.
    """
    suffix = f", {_name_of(reconstruct)}" if reconstruct else ", smoothed" if smoothed else ""
    reconstruction = reconstruct or (ts.smooth if smoothed else ts.interpolate)
    name = f"ours, {'with' if filtered else 'without'} filter{suffix}"
    return _method_of(name, problem, problem.sampling_probability, reconstruction, filtered=filtered)


def every_step(
    problem: Problem,
    *,
    smoothed: bool = False,
    seasons: float | None = None,
    reconstruct: Callable[[ts.Release], object] | None = None,
) -> Method:
    """Return the Gaussian mechanism at every step with exact noise, and the paper's filter as post-processing.

    :param smoothed: True to reconstruct by :func:`~opendp_timeseries.smooth` instead of the filter.
    :param seasons: publicly known period of a pattern in steps, for the smoother.
    :param reconstruct: see :func:`subsampled`.
    """
    method = ("smoother" if smoothed else "filter") + (f" with season {seasons:g}" if seasons else "")
    method = _name_of(reconstruct) if reconstruct else method
    reconstruction = reconstruct or (partial(ts.smooth, seasons=seasons) if smoothed else _filtered(problem.kernel))
    return _method_of(f"every step, then {method}", problem, 1.0, reconstruction, filtered=False)


def _name_of(reconstruct: Callable[[ts.Release], object]) -> str:
    return str(getattr(reconstruct, "__name__", type(reconstruct).__name__)).replace("_", " ")


def _method_of(
    name: str, problem: Problem, p: float, reconstruct: Callable[[ts.Release], object], *, filtered: bool
) -> Method:
    """Return the subsampled Gaussian with the least noise at the problem's (ε, δ)."""
    signal = problem.count()
    if filtered:
        signal = signal >> ts.then_circulant_filter(problem.kernel)
    scale = ts.least_scale(signal, epsilon=problem.epsilon, delta=problem.delta, sampling_probability=p)
    release = signal >> ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=problem.delta)
    return Method(name=name, scale=scale, numbers=problem.size * p, measurement=release >> reconstruct)


def _l2_count(problem: Problem) -> native.Transformation:
    return problem.count() >> ts.then_lp_distance(native.l2_distance(T=float))


def _filtered(kernel: ts.Kernel) -> Callable[[ts.Release], NDArray[np.float64]]:
    """Apply a filter to a release of every step."""
    gain = np.fft.rfft(kernel.taps)
    return lambda release: np.fft.irfft(np.fft.rfft(release.values) * gain, n=kernel.size)


def _gaussian_scale(problem: Problem, squared_sensitivity: float, exact: bool) -> float:
    scale = bounds.analytic_scale if exact else bounds.classical_scale
    return scale(problem.epsilon, problem.delta, squared_sensitivity)


def _frequencies(problem: Problem, frequencies: int | None, noise: Callable[[int], float]) -> tuple[int, str]:
    """Return ``k`` and a name; ``k`` is the best for the truth by default, given the signal's observation noise."""
    if frequencies:
        return frequencies, f"DFT, k = {frequencies}"
    observation = math.sqrt(np.mean((problem.signal - problem.truth) ** 2))
    best = dft.best_frequencies(problem.truth, lambda k: math.hypot(noise(k), observation))
    return best, f"DFT, k = {best} (best)"


def alpha_of_chain(
    kernel: ts.Kernel, participation_cap: int, sampling_probability: float, failure_probabilities: ArrayLike
) -> NDArray[np.float64]:
    """Return, for each δ′ in (0, 1), the ``α`` with which this library's chain bounds the sensitivity by ``α√I``.

    It follows from ``ρ = α²I/(2σ²)``: the statement of the paper's Theorem 4, for a single pair of adjacent logs.
    """
    count = assumed_count(kernel.size, participation_cap) >> ts.then_circulant_filter(kernel)
    loss = extremal_law(count.map(1), sampling_probability, kernel.size).at(1.0)
    rho = [loss.zero_concentrated(float(tail))[0] for tail in np.asarray(failure_probabilities)]
    return np.sqrt(2.0 * np.array(rho) / participation_cap)


def block_scale_lower(
    kernel: ts.Kernel,
    participation_cap: int,
    sampling_probability: float,
    epsilon: float,
    delta: float,
    *,
    cells: int = 200_000,
) -> float:
    """Return a noise scale below which (ε, δ) **fails**, whatever the proof: for an individual in ``I`` adjacent steps.

    The privacy profile for that individual is computed with squares rounded down to a lattice: a lower bound, too low
    by at most 0.3% in the settings of the notebooks.

    :param participation_cap: ``I``, at most the kernel's size.
    :param sampling_probability: ``p``, above 0.
    :param cells: cells of the lattice, from 0 to the sum of all squares.
    """
    block = np.zeros(kernel.size)
    block[:participation_cap] = 1.0
    squares = np.fft.irfft(np.fft.rfft(block) * np.fft.rfft(kernel.taps), n=kernel.size) ** 2
    width = float(squares.sum()) / cells
    law = np.ones(1)
    for shift in sorted(int(square // width) for square in squares if square >= width):
        dropped, remaining = (1.0 - sampling_probability) * law, sampling_probability * law
        law = np.pad(dropped, (0, shift))
        law[shift:] += remaining
    sums = width * np.arange(len(law), dtype=np.float64)

    start = bounds.analytic_scale(epsilon, delta, float(squares.sum()))  # the scale if every step is kept
    return calibrate(lambda scale: float(law @ gaussian_delta(epsilon, sums / scale**2)), delta, start=start)
