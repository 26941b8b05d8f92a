"""The synthetic series is the paper's, at every frequency of its figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opendp_timeseries.koga2022.datasets import synth
from tests.refused import refuses

FREQUENCIES = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64]


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_every_step_is_the_printed_formula(frequency: float) -> None:
    series = synth(frequency)
    stride = round(1 / frequency)
    times = range(0, 10_000, stride)
    expected = [200 * math.sin(0.01 * t) + 500 + 0.1 * t for t in times]
    assert series.size == len(expected)
    assert series.truth == pytest.approx(expected, abs=1e-9)
    assert series.signal.dtype == np.int64
    assert np.abs(series.signal - series.truth).max() <= 0.5
    assert series.participation_cap == 100


# 1 - log(f)/4 by hand: one quarter a halving for base 2, ln 2 / 4 for base e, log10 2 / 4 for base 10.
@pytest.mark.parametrize(("base", "quarter"), [(2, 0.25), (math.e, 0.17328679514), (10, 0.07525749892)])
def test_settings_of_each_frequency(base: float, quarter: float) -> None:
    for halvings, frequency in enumerate(FREQUENCIES):
        series = synth(frequency, logarithm_base=base)
        assert series.sampling_probability == pytest.approx(0.1 * (1 + halvings * quarter), rel=1e-9)
        assert series.std == pytest.approx(10 / (1 + halvings * quarter), rel=1e-9)


def test_observation_noise() -> None:
    """False alarms: the mean and the standard deviation of 10,000 normal draws, 6 standard errors each."""
    series = synth(1, True, rng=np.random.default_rng(20220104))
    noise = (series.signal - series.truth) / 100
    assert abs(noise.mean()) < 6 / math.sqrt(10_000)
    assert abs(noise.std() - 1) < 6 / math.sqrt(20_000)
    assert np.array_equal(series.truth, synth(1).truth)
    again = synth(1, True, rng=np.random.default_rng(20220104))
    assert np.array_equal(series.signal, again.signal)


def test_refusals() -> None:
    refuses("rng", synth, 1, True, error=TypeError)
    refuses("frequency", synth, 16)
    refuses(r"frequency.*1", synth, 2.0**-37)
    refuses("frequency", synth, 0)
    refuses("logarithm_base", synth, 1, logarithm_base=1)
    assert synth(2.0**-36).sampling_probability == 1.0
