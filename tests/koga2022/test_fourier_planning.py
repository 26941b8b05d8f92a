"""The Fourier baseline as a design: its scale against the exact map, its error against its own releases' errors."""

import functools

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.koga2022 import fourier_design, fourier_series, then_fourier_coefficients

SIZE, CAP = 600, 20


def found(**change):
    setting = {"participation_cap": CAP, "epsilon": 0.5, "delta": 1e-4, "time_scale": 40, "deviation": 50}
    return ts.plan(ts.TimeGrid(size=SIZE), **setting | change, sampling_probability=(1.0,), std=(0.0,))


@pytest.mark.long
def test_expected_errors_are_met_by_releases():
    # Mean squared errors of 100 releases vary by about 10% each, so their mean by 1%: 8% is beyond 7 of these.
    plan, rng = found(), np.random.default_rng(3)
    design = fourier_design(plan)
    frequencies = int(design.name.removeprefix("Fourier, k = "))
    count = (ts.count_signal_domain(SIZE), dp.symmetric_distance()) >> ts.then_assume_participation(
        participation_cap=CAP
    )
    coefficients = count >> then_fourier_coefficients(frequencies) >> dp.m.then_gaussian(design.scale)
    chain = coefficients >> functools.partial(fourier_series, size=SIZE)
    squares = []
    for _ in range(100):
        values = np.fft.irfft(np.fft.rfft(rng.normal(size=SIZE)) * np.sqrt(plan.signal.spectrum()), n=SIZE)
        counts = np.rint(1000 + values).astype(np.int64)
        squares.append(np.mean((chain(counts) - counts) ** 2))
    assert np.mean(squares) == pytest.approx(design.interpolated**2, rel=0.08)
    # The scale is the Gaussian mechanism's at the sensitivity of the coefficients, which is no more than of the count.
    every = plan.candidates[0]
    sensitivity = (count >> then_fourier_coefficients(frequencies)).map(1)
    assert design.scale == pytest.approx(every.scale * sensitivity / CAP**0.5, rel=1e-6)


def test_the_number_of_frequencies_follows_the_signal_and_the_noise():
    def frequencies(**change):
        return int(fourier_design(found(**change)).name.removeprefix("Fourier, k = "))

    assert frequencies(time_scale=10) > frequencies() > frequencies(epsilon=0.05)
