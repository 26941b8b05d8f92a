"""Other ways to the same guarantee, on traffic: the paper's, FAST, Fourier coefficients, trees. Run with

python -m pytest tests/benchmarks/test_related.py -s --override-ini addopts=

All are (0.5, 1e-4)-private for one car in at most 180 of 1,800 steps, with noise by exact accounting unless the row is
the paper's own. Where a method leaves something to choose, the truth chooses it. Takes two minutes on one core;
``RELATED_SEEDS=2`` does less.
"""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

import opendp_timeseries as ts
from opendp_timeseries.koga2022 import bounds, fourier
from opendp_timeseries.koga2022 import experiments as ex
from tests.reconstruction import simulated as sim
from tests.releases import release_of

SEEDS = range(int(os.environ.get("RELATED_SEEDS", "10")))
SIZE, CAP, P, DAY = 1800, 180, 0.1, 288
EPSILON, DELTA = 0.5, 1e-4
TRUTH = sim.flow().astype(float)


def scale_of(squared_norm):
    """Noise of the Gaussian mechanism, exactly."""
    return bounds.analytic_scale(EPSILON, DELTA, squared_norm)


def error_of(series):
    return np.abs(np.asarray(series) - TRUTH).mean()


def said(name, scale, rows):
    """Print means and their standard errors; return the means."""
    rows = np.array(rows)
    spread = rows.std(axis=0, ddof=min(1, len(rows) - 1)) / len(rows) ** 0.5
    errors = "  ".join(f"{mean:5.1f} ± {sd:.1f}" for mean, sd in zip(rows.mean(axis=0), spread, strict=True))
    print(f"{name:44s} σ {scale:6.1f}  {errors}")
    return rows.mean(axis=0)


def test_the_papers_way_with_the_same_smoother():
    """Lines between the kept steps, and the smoother that knows the length of a day."""
    problem = ex.pems(sim.PEMS)
    narrow = ts.gaussian_kernel(SIZE, 3)
    ways = {
        "paper, filter": (ex.algorithm1(problem, filtered=True).scale, P, problem.kernel),
        "paper": (ex.algorithm1(problem, filtered=False).scale, P, None),
        "exact accounting": (ex.subsampled(problem, filtered=False).scale, P, None),
        "exact accounting, a fifth": (36.079, 0.2, None),
        "every step": (scale_of(CAP), 1.0, None),
        "every step, a gap of ten, filter of three": (25.711, 1.0, narrow),
    }
    found = {}
    print("\nσ, mean absolute errors of lines and of the smoother, and % of the counts in its 90% bands")
    for name, (scale, probability, kernel) in ways.items():
        rows = []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            release = sim.sampled(TRUTH, rng, scale=scale, probability=probability, kernel=kernel)
            series = ts.smooth(release, seasons=DAY)
            low, high = series.interval(0.9)
            covered = 100 * np.mean((low <= TRUTH) & (high >= TRUTH))
            rows.append([error_of(ts.interpolate(release)), error_of(series), covered])
        found[name] = said(name, scale, rows)
    assert found["every step, a gap of ten, filter of three"][1] < found["every step"][1]
    assert found["every step"][1] < found["paper"][1] < found["paper"][0]


@pytest.mark.parametrize("numbers", [25, 75, 225])
def test_fourier_coefficients_with_the_same_smoother(numbers):
    """Smooth the evenly spaced values that so many noisy coefficients are: their noise is independent, too."""
    scale, every, rows = scale_of(CAP), SIZE // numbers, []
    frequencies = (numbers + 1) // 2
    basis = np.array([fourier.fourier_series(unit, size=SIZE) for unit in np.eye(numbers)])
    points = basis[:, ::every] * every**0.5
    assert_allclose(points @ points.T, np.eye(numbers), atol=1e-9)
    for seed in SEEDS:
        noisy = basis @ TRUTH + np.random.default_rng(seed).normal(0, scale, numbers)
        values = (noisy @ points) / every**0.5
        release = release_of(
            steps=np.arange(numbers), values=values, signal=numbers, scale=scale / every**0.5, sampling_probability=1.0
        )
        smooth = np.asarray(ts.smooth(release, seasons=DAY // every))
        rows.append([error_of(noisy @ basis), error_of((smooth * every**0.5) @ points.T @ basis)])
    plain, smoothed = said(f"Fourier, k = {frequencies}", scale, rows)
    assert smoothed < plain or numbers == 25


def fast(rng, samples, process, *, setpoint=0.1, proportional=0.9, integral=0.1, window=5, step=10.0):
    """FAST (Fan & Xiong 2014): a Kalman filter of noisy samples, whose distance a PID controller sets."""
    scale = scale_of(min(samples, CAP))
    estimate, variance, out = 0.0, 1e6, np.empty(SIZE)
    apart, following, taken, feedback = 1.0, 0, 0, []
    for t in range(SIZE):
        variance += process
        if t >= following and taken < samples:
            taken += 1
            gain = variance / (variance + scale**2)
            prior, estimate = estimate, estimate + gain * (TRUTH[t] + rng.normal(0, scale) - estimate)
            variance *= 1 - gain
            feedback = [*feedback[1 - window :], abs(estimate - prior) / max(estimate, 1.0)]
            signal = proportional * feedback[-1] + integral * np.mean(feedback)
            apart = max(1.0, apart + step * (1 - np.exp(min((signal - setpoint) / setpoint, 50.0))))
            following = t + round(apart)
        out[t] = estimate
    return out


def test_fast():
    """In real time, and without a look at what is to come; the samples and the variance of the walk are the best."""
    choices = [
        (samples, process) for samples in (60, 120, 180, 450, SIZE) for process in (1.0, 10.0, 30.0, 100.0, 300.0)
    ]
    errors = {each: [error_of(fast(np.random.default_rng(seed), *each)) for seed in SEEDS] for each in choices}
    best = min(errors, key=lambda each: np.mean(errors[each]))
    (error,) = said(f"FAST, {best[0]} samples, walk {best[1]:g}", scale_of(min(best[0], CAP)), np.c_[errors[best]])
    assert error < scale_of(CAP) * (2 / np.pi) ** 0.5


def strategies():
    """Return what is released, as rows over steps: each step; a tree of ranges; square roots of prefix sums."""
    size = 2048
    levels = [np.kron(np.eye(size >> h), np.ones(1 << h)) for h in range(12)]
    root = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, size))])
    ways = {"each step": np.eye(size), "tree": np.concatenate(levels)}
    ways |= {
        f"square root, {bands} bands": toeplitz(np.where(np.arange(size) < bands, root, 0), np.zeros(size))
        for bands in (12, 288, size)
    }
    return size, ways


def test_sums_over_time_by_trees_and_matrices():
    """Errors of sums over an hour, a day and all steps; no data are needed, and least squares make all agree."""
    size, ways = strategies()
    found = {}
    print("\nstandard errors of a step, an hour, a day, and of all")
    for name, matrix in ways.items():
        # No entry is negative, and somebody in consecutive steps moves most.
        changes = np.cumsum(np.pad(matrix, ((0, 0), (1, 0))), axis=1)
        norm = np.linalg.norm(changes[:, CAP:] - changes[:, :-CAP], axis=0).max()
        covariance = np.linalg.inv(matrix.T @ matrix) * scale_of(norm**2) ** 2
        middle = size // 2 + 5
        rows = [(np.arange(size) >= middle) & (np.arange(size) < middle + width) for width in (1, 12, DAY)]
        rows.append(np.arange(size) < SIZE)
        found[name] = np.sqrt([row @ covariance @ row for row in np.array(rows, dtype=float)])
        print(f"{name:28s} σ {scale_of(norm**2):8.1f}  " + "  ".join(f"{error:8.0f}" for error in found[name]))
    assert np.argmin([errors[2] for errors in found.values()]) == 0
