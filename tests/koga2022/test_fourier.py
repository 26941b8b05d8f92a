"""The DFT baseline as OpenDP building blocks: exactness, the map for computed numbers, the inverse, chains."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import opendp.prelude as dp
import pytest

from opendp_timeseries import count_signal_domain, gaussian_kernel, make_circulant_filter, then_assume_participation
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.koga2022 import fourier
from opendp_timeseries.koga2022.fourier import (
    best_frequencies,
    fourier_series,
    influence_l2,
    make_fourier_coefficients,
    then_fourier_coefficients,
)
from opendp_timeseries.plugin._opendp import signal_domain
from opendp_timeseries.plugin.spaces import influence_distance
from tests.make import influence_of
from tests.oracles import fourier as oracle
from tests.refused import refuses

dp.enable_features("contrib", "honest-but-curious")

LARGEST = 2**20
L1, L2 = dp.l1_distance(T="f64"), dp.l2_distance(T="f64")


def counts(size):
    return signal_domain("i64", size), influence_distance()


def transformation(size, frequencies, **options):
    return make_fourier_coefficients(*counts(size), frequencies, **options)


def signals(size, seed=0):
    rng = np.random.default_rng(seed)
    yield np.zeros(size, dtype=np.int64)
    yield np.full(size, LARGEST)
    yield LARGEST * (-1) ** np.arange(size)
    yield rng.integers(-LARGEST, LARGEST, size, endpoint=True)
    yield rng.poisson(100, size)


@pytest.mark.parametrize(("size", "frequencies"), [(1, 1), (2, 1), (5, 3), (6, 3), (64, 7), (101, 51)])
def test_coefficients_are_those_of_the_ideal_basis(size, frequencies):
    apply = transformation(size, frequencies)
    error = fourier._DyadicBasis(size, frequencies).entry_error
    for signal in signals(size):
        got = apply(signal)
        assert len(got) == 2 * frequencies - 1
        allowed = error * int(np.abs(signal).sum())
        for value, ideal in zip(got, oracle.coefficients(signal.tolist(), frequencies), strict=True):
            assert abs(mp.mpf(value) - ideal) <= allowed


@pytest.mark.parametrize("resolution", [0, 7, 19, 20, 21, 26, 40, 42])
def test_sums_are_exact_at_the_limits(resolution):
    # Against rational arithmetic; the extreme rows make every partial sum as large as it can be.
    size, frequencies = 24, 5
    basis = fourier._DyadicBasis(size, frequencies)
    rows = [np.full(size, basis.constant)]
    for m in range(1, frequencies):
        at = m * np.arange(size) % size
        rows += [basis.cosine[at], basis.sine[at]]
    worst = [np.where(row < 0, -1, 1) * (LARGEST << resolution) for row in rows]
    rng = np.random.default_rng(3)
    for numerators in (*worst, rng.integers(-(LARGEST << resolution), LARGEST << resolution, size)):
        got = basis.coefficients(numerators.astype(np.int64), resolution)
        for row, value in zip(rows, got, strict=True):
            exact = Fraction(
                sum(int(f) * int(x) for f, x in zip(row, numerators, strict=True)), 1 << (basis.basis_bits + resolution)
            )
            # The nearest float, and for counts the number itself.
            assert value == float(exact)
            assert resolution > 0 or Fraction(value) == exact


@pytest.mark.parametrize("size", [1, 2, 3, 1800, 10**6])
def test_no_partial_sum_can_leave_the_exact_range(size):
    basis = fourier._DyadicBasis(size, 1)
    every = (float(np.abs(basis.cosine).sum()), float(np.abs(basis.sine).sum()), size * basis.constant)
    assert max(every) * LARGEST <= 2**53
    assert basis.basis_bits >= 22


def test_neighbours_stay_within_the_map_in_the_numbers_that_are_computed():
    size, frequencies = 48, 6
    for options, norm in (({}, 1), ({"output_metric": L1}, 0)):
        apply = transformation(size, frequencies, **options)
        for signal in signals(size, seed=1):
            signal = np.minimum(signal, LARGEST - 1)
            for steps in (1, 2, 5, size):
                for at in (0, 7):
                    other = signal.copy()
                    other[np.arange(at, at + steps) % size] += 1
                    moved = oracle.l1_and_l2(oracle.difference(apply(signal), apply(other)))[norm]
                    distance = influence_of(steps, size)
                    assert moved <= apply.map(distance)


def test_a_plain_fft_breaks_the_ideal_map_and_this_one_does_not():
    # Broken variant: the same coefficients from a float FFT, accounted as if arithmetic were ideal.
    size, frequencies = 48, 6
    one = Influence(l0=1, l2=1.0, linf=1.0)
    ideal = math.sqrt((2 * frequencies - 1) / size)
    apply = transformation(size, frequencies)

    def fft(signal):
        spectrum = np.fft.rfft(signal, norm="ortho")[:frequencies]
        pairs = math.sqrt(2) * np.stack([spectrum[1:].real, -spectrum[1:].imag], axis=1)
        return np.concatenate([[spectrum[0].real], pairs.ravel()])

    by_fft, by_us = [], []
    for signal in signals(size, seed=2):
        signal = np.minimum(signal, LARGEST - 1)
        for at in range(size):
            other = signal.copy()
            other[at] += 1
            by_fft.append(oracle.l1_and_l2(oracle.difference(fft(signal), fft(other)))[1])
            by_us.append(oracle.l1_and_l2(oracle.difference(apply(signal), apply(other)))[1])
    assert max(by_fft) > ideal * (1 + 1e-12)
    assert ideal * (1 - 1e-6) < max(by_us) <= apply.map(one) < ideal * (1 + 1e-6)


def test_distances():
    size = 100
    to_l2, to_l1 = transformation(size, 4), transformation(size, 4, output_metric=L1)
    distance = Influence(l0=5, l2=math.sqrt(5), linf=1.0)
    assert to_l1.map(distance) == pytest.approx(math.sqrt(7) * to_l2.map(distance), rel=1e-12)
    for metric, share in ((L1, math.sqrt(7 / size)), (L2, 1.0), (dp.l2_distance(T="i64"), 1.0)):
        stable = make_fourier_coefficients(signal_domain("i64", size), metric, 4)
        assert share * 3 <= stable.map(3) <= share * 3 * (1 + 1e-6)
        assert stable.map(0) == 0.0
    nobody = Influence(l0=5, l2=1.0, linf=1.0, individuals=0)
    assert to_l2.map(nobody) == to_l1.map(nobody) == 0.0


def test_a_filtered_signal_keeps_its_digits():
    size, frequencies = 60, 4
    kernel = gaussian_kernel(size, std=2)
    smooth = make_circulant_filter(*counts(size), kernel)
    chain = smooth >> then_fourier_coefficients(frequencies)
    signal = np.random.default_rng(5).poisson(1000, size)
    exact = [Fraction(float(v)) for v in smooth(signal)]
    basis = fourier._DyadicBasis(size, frequencies)
    got = chain(signal)
    assert Fraction(float(got[0])) == Fraction(float(sum(exact) * int(basis.constant) / 2**basis.basis_bits))
    # The final rounding is charged, and is tiny.
    distance = influence_of(3, size)
    other = signal.copy()
    other[[3, 4, 5]] += 1
    moved = oracle.l1_and_l2(oracle.difference(got, chain(other)))[1]
    assert moved <= chain.map(distance) <= 1.3 * float(moved)
    still = make_fourier_coefficients(smooth.output_domain, smooth.output_metric, frequencies)
    assert still.map(Influence(l0=3, l2=0.0, linf=0.0)) == 0.0


@pytest.mark.parametrize(("size", "frequencies"), [(60, 4), (20, 1)])
def test_the_last_rounding_is_charged_and_must_be(size, frequencies):
    # Two signals 2^-42 apart whose coefficients fall on either side of a rounding: found by bisection. Where the only
    # coefficient lies above a power of two, the rounding is nearly all that is charged.
    bits = 42
    apply = make_fourier_coefficients(signal_domain("f64", size), influence_distance(bits), frequencies)

    def at(j):
        return apply(np.array([j * 2.0**-bits] + [float(LARGEST)] * (size - 1)))

    low, high = 0, 2**20
    assert at(low)[0] != at(high)[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle)[0] != at(low)[0] else (middle, high)
    moved = oracle.l1_and_l2(oracle.difference(at(low), at(high)))[1]
    step = Influence(l0=1, l2=2.0**-bits, linf=2.0**-bits)
    uncharged = influence_l2(step, size, frequencies, entry_error=1.0)
    assert 100 * uncharged < moved <= apply.map(step)


def test_inverse_is_the_projection_on_low_frequencies():
    for size, frequencies in ((1, 1), (2, 1), (8, 3), (9, 5), (100, 20)):
        apply = transformation(size, frequencies)
        slow = sum((m + 1) * 100 * np.cos(2 * np.pi * m * np.arange(size) / size + m) for m in range(frequencies))
        signal = np.rint(slow).astype(np.int64)
        spectrum = np.fft.rfft(signal)
        spectrum[frequencies:] = 0
        low = np.fft.irfft(spectrum, n=size)
        assert np.allclose(fourier_series(apply(signal), size), low, atol=1e-4)


def assumed(size, cap):
    return (count_signal_domain(size), dp.symmetric_distance()) >> then_assume_participation(participation_cap=cap)


def test_the_baseline_of_the_paper_and_the_original_chain():
    size = 200
    signal = np.full(size, 1000)
    count = assumed(size, 20)
    gaussian = count >> then_fourier_coefficients(5) >> dp.m.then_gaussian(3.0)
    sensitivity = (count >> then_fourier_coefficients(5)).map(1)
    assert gaussian.map(1) == pytest.approx((sensitivity / 3.0) ** 2 / 2, rel=1e-6)
    laplace = count >> then_fourier_coefficients(5, output_metric=L1) >> dp.m.then_laplace(3.0)
    assert laplace.map(1) == pytest.approx(3 * sensitivity / 3.0, rel=1e-6)  # √9 coefficients
    for measurement in (gaussian, laplace):
        assert measurement.map(0) == 0.0
        series = (measurement >> functools.partial(fourier_series, size=size))(signal)
        assert len(series) == size
        # Each coefficient's noise reaches a step with 1/√T or √(2/T): about 0.6 in all, 50 is never reached.
        assert np.all(np.abs(np.asarray(series) - 1000) < 50)
    scale = dp.binary_search(
        lambda s: (count >> then_fourier_coefficients(5) >> dp.m.then_gaussian(s)).map(1) <= 0.1, bounds=(0.01, 1e4)
    )
    assert scale == pytest.approx(sensitivity / math.sqrt(0.2), rel=1e-6)


def test_a_context_solves_for_the_noise():
    context = dp.Context.compositor(
        data=np.arange(200),
        privacy_unit=(dp.symmetric_distance(), 1),
        privacy_loss=dp.loss_of(rho=0.2),
        split_evenly_over=2,
        domain=count_signal_domain(200),
    )
    query = context.query().assume_participation(participation_cap=20).fourier_coefficients(5).gaussian()
    sensitivity = (assumed(200, 20) >> then_fourier_coefficients(5)).map(1)
    assert query.param() == pytest.approx(sensitivity / math.sqrt(0.2), rel=1e-6)
    assert len(query.release()) == 9
    # Left out, the number of frequencies is refused by name, not searched for.
    with pytest.raises((TypeError, ValueError), match="frequencies"):
        context.query().assume_participation(participation_cap=20).fourier_coefficients().gaussian(3.0).param()


def test_best_frequencies_weighs_what_is_left_out_against_noise():
    t = np.arange(101)
    proxy = 50 + 30 * np.cos(2 * np.pi * 2 * t / 101) + 1 * np.cos(2 * np.pi * 7 * t / 101)
    assert best_frequencies(proxy, lambda k: 0.0) >= 8
    assert best_frequencies(proxy, lambda k: 5.0) == 3
    assert best_frequencies(proxy, lambda k: 1e6) == 1
    # The expected error that it weighs is the mean squared error of the baseline itself.
    rng = np.random.default_rng(11)
    apply = transformation(101, 3)
    exact = np.array(apply(np.rint(proxy).astype(np.int64)))
    runs = [np.sum((fourier_series(exact + 5.0 * rng.standard_normal(5), 101) - proxy) ** 2) for _ in range(400)]
    left_out = 101 / 2 * 1.0**2
    # 400 runs of a χ² with 5 degrees of freedom: six standard errors are 6·25·√10/20 = 24.
    assert abs(np.mean(runs) - (left_out + 5 * 5.0**2)) < 24 + 101 / 12 * 2


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: transformation(10, 6), ValueError, r"frequencies.*5"),
    (lambda: transformation(10, 0), ValueError, r"frequencies.*1"),
    (lambda: transformation(10, 2.0), TypeError, "frequencies"),
    (lambda: transformation(10, True), TypeError, "bool"),
    (lambda: transformation(10, 2, output_metric=influence_distance()), TypeError, "output_metric"),
    (lambda: transformation(10, 2, output_metric=dp.l2_distance(T="i32")), TypeError, "output_metric"),
    (lambda: make_fourier_coefficients(signal_domain("f64", 10), L2, 2), TypeError, "a signal of floats"),
    (
        lambda: make_fourier_coefficients(signal_domain("i64", 10), dp.symmetric_distance(), 2),
        TypeError,
        "input_metric",
    ),
    (
        lambda: make_fourier_coefficients(signal_domain("f64", 10), influence_distance(43), 2),
        ValueError,
        "a signal of 43 bits behind the point",
    ),
    (lambda: make_fourier_coefficients(dp.atom_domain(T=int), L2, 2), TypeError, "input_domain"),
    (lambda: fourier_series(np.zeros(4), 10), ValueError, "coefficients"),
    (lambda: fourier_series(np.zeros(5), 4), ValueError, "coefficients"),
    (lambda: fourier_series(np.zeros(1), 0), ValueError, "size"),
    (lambda: best_frequencies(np.array([1.0, np.nan]), lambda k: 1.0), ValueError, "proxy"),
])  # fmt: skip
def test_bad_parameters_are_refused_by_name(call, error, message):
    refuses(message, call, error=error)


def test_no_row_raises_and_large_values_saturate():
    apply = transformation(6, 2)
    biggest = np.iinfo(np.int64).max
    top = apply(np.full(6, LARGEST))
    assert list(apply(np.full(6, biggest))) == list(top)
    assert list(apply(np.full(6, -biggest))) == [-v for v in top]


def test_a_panel_is_refused():
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=12)
    refuses("input_metric", make_fourier_coefficients, domain, influence_distance(panel_size=3), 3, error=TypeError)
