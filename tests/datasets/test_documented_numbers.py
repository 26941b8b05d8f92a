"""The numbers of docs/participation-and-frequency.md and docs/datasets.md, by routes of their own."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from opendp_timeseries import TimeGrid
from opendp_timeseries.datasets import load_flights
from opendp_timeseries.koga2022.datasets import synth

DOCS = Path(__file__).parents[2] / "docs"


def table(page: str, heading: str) -> list[list[float]]:
    """Rows of the table whose heading begins so, with the numbers that each cell begins with."""
    lines = (DOCS / page).read_text(encoding="utf-8").split(f"| {heading}", 1)[1].splitlines()[2:]
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    assert rows
    return [[_number(cell.replace(",", "").strip(" *")) for cell in row.strip("|").split("|")] for row in rows]


def _number(cell: str) -> float:
    match = re.match(r"[\d.]+(/[\d]+)?", cell)
    assert match is not None
    top, _, bottom = match.group().partition("/")
    return float(top) / float(bottom or 1)


def scale(steps: int, p: float, per_step: int = 1, epsilon: float = 0.5, delta: float = 1e-4) -> float:
    """Noise whose exact profile is (epsilon, delta): a mixture of Gaussian mechanisms (SciPy alone)."""
    kept = np.arange(1, steps + 1)
    chance = binom.pmf(kept, steps, p)

    def excess(sigma: float) -> float:
        ratio = per_step * np.sqrt(kept) / sigma
        profile = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
        return float(chance @ profile) - delta

    return float(brentq(excess, 0.5, 1e4))


def test_participation_of_aircraft() -> None:
    log = load_flights()
    aircraft = np.unique(log["tailnum"], return_inverse=True)[1]
    widths = ["1d", "6h", "1h", "5min"]
    rows = table("participation-and-frequency.md", "step | T |")
    for width, (_, size, largest, most, product) in zip(widths, rows, strict=True):
        grid = TimeGrid(size=int(size), start="2013-01-01T05:00", step=width, zone="UTC")
        steps = grid.steps(log["time"])
        pairs = np.sort(aircraft[steps >= 0] * grid.size + steps[steps >= 0])
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        assert np.bincount(pairs[first] // grid.size).max() == largest
        assert np.diff(first, append=len(pairs)).max() == most
        assert largest * most == product


def test_noise_of_the_synthetic_series() -> None:
    for f, size, p, kept, gap, fixed, scaled in table("participation-and-frequency.md", "f | T | p |"):
        series = synth(f)
        assert (series.size, series.sampling_probability) == (size, pytest.approx(p))
        assert (round(size * p), round(1 / (f * p))) == (kept, gap)
        assert scale(series.participation_cap, p) == pytest.approx(fixed, abs=0.006)
        assert scale(max(1, int(100 * f)), p) == pytest.approx(scaled, abs=0.006)


def test_noise_of_flows_and_of_stacked_events() -> None:
    for minutes, (_, _, per_step, per_hour) in zip(
        [60, 30, 15, 5], table("participation-and-frequency.md", "step | p |"), strict=True
    ):
        assert scale(40, 0.1 * minutes / 60) == pytest.approx(per_step, abs=0.006)
        assert scale(40, 0.1 * minutes / 60) * 60 / minutes == pytest.approx(per_hour, abs=0.06)
    for per_step, steps, l1, l2, full, sampled in table("participation-and-frequency.md", "M | I |"):
        assert per_step * steps == l1
        assert per_step * math.sqrt(steps) == pytest.approx(l2, abs=0.06)
        assert scale(int(steps), 1.0, int(per_step)) == pytest.approx(full, abs=0.006)
        assert scale(int(steps), 0.1, int(per_step)) == pytest.approx(sampled, abs=0.006)


def test_interpolation_error_of_each_angular_frequency() -> None:
    """From 60 draws: within 10% and 0.1 of the table, some five standard errors; the seed is fixed."""
    rng = np.random.default_rng(7)
    for omega, periods, *errors in table("datasets.md", "ω | periods"):
        assert omega * 10_000 / (2 * math.pi) == pytest.approx(periods, abs=0.51)
        for f, error in zip([1, 1 / 4, 1 / 16, 1 / 64], errors, strict=True):
            series = synth(f, angular_frequency=omega)
            steps = np.arange(series.size)
            drawn = []
            for _ in range(60):
                kept = np.flatnonzero(rng.random(series.size) < series.sampling_probability)
                line = np.interp(steps, kept, series.noiseless[kept])
                drawn.append(np.abs(line - series.noiseless).mean())
            assert np.mean(drawn) == pytest.approx(error, rel=0.1, abs=0.1)
