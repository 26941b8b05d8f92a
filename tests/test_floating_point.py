"""Floating point: which values can be released does not depend on the data, and sums are exact on any machine.

Mironov (2012), "On significance of the least significant bits for differential privacy": noise added in floating
point leaves gaps that tell the signal. Here every release is a multiple of a public step, and every multiple near
the signal can occur, whatever the signal.
"""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2

import opendp_timeseries as ts
from opendp_timeseries.accounting import circulant
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.design.design import noise_exponent
from opendp_timeseries.plugin.circulant_filter import circular_convolve, largest_input
from opendp_timeseries.plugin.spaces import influence_distance

SIZE = 4000
INTEGERS = dp.vector_domain(dp.atom_domain(T="i64"), size=SIZE), influence_distance()
DYADIC = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=SIZE), influence_distance(26)
ARBITRARY = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=SIZE), dp.l2_distance(T="f64")


def released(space, signal, scale=1.0, size=SIZE):
    measurement = ts.make_subsampled_gaussian(*space, scale, sampling_probability=1.0, failure_probability=1e-9)
    return measurement(np.full(size, signal)).values


def last_bits(values, exponent, bits=4):
    """The lowest bits of values in units of ``2**exponent``; None if one of them is no whole number of units."""
    units = np.ldexp(values, -exponent)  # exact
    if np.any(units % 1):
        return None
    return np.bincount((units % 2**bits).astype(int), minlength=2**bits)


def is_uniform(counts, alpha=1e-10):
    """Pearson's test. Discrete Gaussians of 2**24 units are uniform modulo 16 to within 1e-500."""
    expected = counts.sum() / len(counts)
    return ((counts - expected) ** 2 / expected).sum() < chi2.isf(alpha, len(counts) - 1)


def hides_its_signal(values, exponent):
    bits = last_bits(values, exponent)
    return bits is not None and is_uniform(bits)


# Each of these raises a false alarm in 1e-10 runs.
@pytest.mark.parametrize("signal", [0, 1, -1, 3, 2**20 + 1, 10**8])
def test_possible_outputs_do_not_tell_a_count(signal):
    assert hides_its_signal(released(INTEGERS, signal), noise_exponent(1.0, 0))


@pytest.mark.parametrize("signal", [0.0, 2.0**-26, 1 / 3, 0.1, 1000.1, 2.0**-40])
def test_possible_outputs_do_not_tell_a_smoothed_value(signal):
    assert hides_its_signal(released(DYADIC, signal), noise_exponent(1.0, 26))


@pytest.mark.parametrize("signal", [0.0, 0.1, -math.pi, 2.0**-60, 5e-324])
def test_possible_outputs_do_not_tell_an_arbitrary_float(signal):
    # At a step of 2**-50 σ, a float that is no finer can only hold the values of magnitude below 8; those that
    # are above lose their last bits in the rounding that ends a release, whatever the signal.
    values = released(ARBITRARY, signal)
    exponent = noise_exponent(1.0, None)
    assert last_bits(values, exponent) is not None
    assert is_uniform(last_bits(values[np.abs(values) < 2], exponent))


@pytest.mark.parametrize("signal", [0.0, 0.1, 1000.1])
def test_noise_in_floating_point_is_caught(signal):
    # The broken variant that the tests above are for.
    noise = np.random.default_rng(5).normal(signal, 1.0, SIZE)
    assert not hides_its_signal(noise, noise_exponent(1.0, 26))
    rounded_noise = signal + np.rint(np.random.default_rng(5).normal(0, 1.0, SIZE) * 2.0**26) * 2.0**-26
    assert bool(hides_its_signal(rounded_noise, noise_exponent(1.0, 26))) == (signal == 0.0)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("bits", [0, 10, 26, 40])
@pytest.mark.parametrize("scale", [1e-5, 7.0, *(pytest.param(s, marks=pytest.mark.long) for s in (0.3, 1e6))])
def test_the_step_depends_on_nothing_but_scale_and_resolution(bits, scale):
    atoms = dp.atom_domain(T="i64") if bits == 0 else dp.atom_domain(T="f64", nan=False)
    space = dp.vector_domain(atoms, size=50), influence_distance(bits)
    step = Fraction(2) ** noise_exponent(scale, bits)
    for signal in (0, 1, 2**30):
        values = released(space, signal if bits == 0 else float(signal), scale, size=50)
        assert all((Fraction(value) / step).denominator == 1 for value in values.tolist())


# ------------------------------------------------------------------------------------------------- exact sums


def smooth(kernel):
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=kernel.size), influence_distance()
    return space >> ts.then_circulant_filter(kernel)


def without_noise(kernel):
    """The whole chain, but for the noise: what the noise is added to."""
    return smooth(kernel) >> ts.then_subsampled_gaussian(0.0, sampling_probability=1.0, failure_probability=1e-3)


KERNELS = [
    ts.gaussian_kernel(30, 2.0),
    ts.exponential_kernel(31, 3.0),
    ts.boxcar_kernel(32, 7),
    ts.Kernel.from_taps(np.random.default_rng(2).normal(size=30)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_what_is_noised_is_the_exact_sum_at_the_limits(kernel):
    limit = largest_input(kernel)
    taps = [Fraction(q, 2**kernel.resolution_bits) for q in kernel.numerators.tolist()]
    rng = np.random.default_rng(3)
    alternating = np.where(np.arange(kernel.size) % 2, limit, -limit)
    for signal in (np.full(kernel.size, limit), alternating, rng.integers(-limit, limit, kernel.size)):
        values = without_noise(kernel)(signal).values.tolist()
        for t in range(kernel.size):
            exact = sum(h * int(signal[(t - k) % kernel.size]) for k, h in enumerate(taps))
            assert Fraction(values[t]) == exact
    beyond = without_noise(kernel)(np.full(kernel.size, 2**62)).values
    np.testing.assert_array_equal(beyond, without_noise(kernel)(np.full(kernel.size, limit)).values)


def another_convolve(a, v, mode):
    """A direct sum in another order, as another BLAS might take it."""
    assert mode == "valid"
    rows = np.lib.stride_tricks.sliding_window_view(a, len(v)) * v[::-1]
    order = np.random.default_rng(len(v)).permutation(len(v))
    return np.add.accumulate(rows[:, order], axis=1)[:, -1]


def worse_irfft(irfft):
    """A Fourier transform that errs by almost what is certified, far more than any that is installed."""

    def transform(*args):
        result = irfft(*args)
        return result + 0.2 * np.where(np.arange(len(result)) % 2, 1.0, -1.0)

    return transform


@pytest.mark.parametrize("direct", [True, False])
def test_no_other_blas_or_transform_changes_a_bit(monkeypatch, direct):
    kernel = ts.gaussian_kernel(2000, 150.0)
    signal = np.random.default_rng(1).integers(0, 10**6, 2000)
    results = {circular_convolve(signal, kernel).tobytes()}
    monkeypatch.setattr(circulant, "_MAX_DIRECT", 10**9 if direct else 0)
    results.add(circular_convolve(signal, kernel).tobytes())
    if direct:
        monkeypatch.setattr(np, "convolve", another_convolve)
    else:
        monkeypatch.setattr(np.fft, "irfft", worse_irfft(np.fft.irfft))
    results.add(circular_convolve(signal, kernel).tobytes())
    assert len(results) == 1


def test_a_distance_is_that_of_the_numbers_computed():
    # Two logs that differ in one person: the difference of what is noised, in exact arithmetic, is within the map.
    kernel = ts.Kernel.from_taps(np.random.default_rng(4).normal(size=30))
    influence = smooth(kernel).map(Influence(l0=2, l2=math.sqrt(2), linf=1.0))
    rng = np.random.default_rng(6)
    limit = largest_input(kernel)
    for _ in range(50):
        signal = rng.integers(-limit, limit, 30, endpoint=True)
        person = np.zeros(30, dtype=np.int64)
        person[rng.choice(30, 2, replace=False)] = 1
        pair = [without_noise(kernel)(x).values.tolist() for x in (signal, signal + person)]
        moves = [abs(Fraction(a) - Fraction(b)) for a, b in zip(*pair, strict=True)]
        assert sum(m * m for m in moves) <= Fraction(influence.l2) ** 2
        assert max(moves) <= Fraction(influence.linf)
        assert sum(m > 0 for m in moves) <= influence.l0
