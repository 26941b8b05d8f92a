"""Circular convolution equals rational arithmetic: on every path, at the clamp, for every size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.accounting import circulant
from opendp_timeseries.design.kernels import Kernel, boxcar_kernel, exponential_kernel, gaussian_kernel, identity_kernel
from opendp_timeseries.plugin.circulant_filter import circular_convolve, largest_input
from tests.oracles import filtering as oracle

PATHS = {"direct": 10**9, "fourier": 0}


def choose(path, monkeypatch):
    """Make every product take one path, whatever the width."""
    monkeypatch.setattr(circulant, "_MAX_DIRECT", PATHS[path])


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    choose(request.param, monkeypatch)
    return request.param


def exact(values, kernel):
    scale = 2**kernel.resolution_bits
    return oracle.convolve(values, [Fraction(q, scale) for q in kernel.numerators.tolist()])


def some_kernels(size):
    rng = np.random.default_rng(size)
    sparse = rng.integers(-3, 4, size)
    sparse[rng.integers(size)] = 5
    return [
        identity_kernel(size),
        gaussian_kernel(size, 1.5),
        gaussian_kernel(size, 0.7, resolution_bits=40),
        exponential_kernel(size, 2.0, resolution_bits=10),
        boxcar_kernel(size, size - 1 + size % 2),
        Kernel.from_taps(rng.standard_normal(size)),
        Kernel.from_taps(sparse, resolution_bits=0),
        Kernel(np.roll(np.eye(1, size, dtype=np.int64)[0] * (2**53 - 1), size // 2), 0),
    ]


def some_signals(size, clamp):
    rng = np.random.default_rng(size + 1)
    alternating = np.where(np.arange(size) % 2 == 0, clamp, -clamp)
    signals = [np.full(size, clamp), np.full(size, -clamp), alternating, np.zeros(size, dtype=np.int64)]
    signals += [rng.integers(-clamp, clamp, size, endpoint=True) for _ in range(3)]
    signals += [np.where(rng.random(size) < 0.5, clamp, -clamp), rng.integers(0, 5, size)]
    return signals


def is_right(convolve, kernel, signal):
    got = convolve(signal, kernel)
    clamp = largest_input(kernel)
    values = [max(-clamp, min(clamp, int(v))) for v in signal.tolist()]
    return len(got) == kernel.size and [Fraction(float(y)) for y in got] == exact(values, kernel)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("size", range(1, 13))
def test_equals_rational_arithmetic(size, path):
    for kernel in some_kernels(size):
        for signal in some_signals(size, largest_input(kernel)):
            assert is_right(circular_convolve, kernel, signal), (kernel, signal)


@given(data=st.data(), size=st.integers(1, 30), path=st.sampled_from(list(PATHS)))
def test_equals_rational_arithmetic_on_random_taps_and_signals(data, size, path):
    q = data.draw(st.lists(st.integers(-(2**30), 2**30), min_size=size, max_size=size))
    q[data.draw(st.integers(0, size - 1))] = 1
    kernel = Kernel(np.array(q), data.draw(st.integers(0, 40)))
    clamp = largest_input(kernel)
    signal = np.array(data.draw(st.lists(st.integers(-clamp, clamp), min_size=size, max_size=size)))
    with pytest.MonkeyPatch.context() as patch:
        choose(path, patch)
        assert is_right(circular_convolve, kernel, signal)


@pytest.mark.parametrize(
    "kernel",
    [boxcar_kernel(5003, 1501), gaussian_kernel(4096, 700), exponential_kernel(3001, 5e3, resolution_bits=30)],
    ids=repr,
)
def test_wide_kernels_and_long_signals(kernel):
    clamp = largest_input(kernel)
    for signal in some_signals(kernel.size, clamp)[2:6]:
        # int64 wraps modulo 2**64, and no result reaches 2**53: exact, however it is summed.
        full = np.convolve(signal.astype(np.int64), np.concatenate([kernel.numerators, kernel.numerators]))
        expected = np.ldexp(full[kernel.size : 2 * kernel.size].astype(np.float64), -kernel.resolution_bits)
        np.testing.assert_array_equal(circular_convolve(signal, kernel), expected)


def test_the_paths_agree_to_the_byte(monkeypatch):
    kernel, signal = gaussian_kernel(1500, 200), np.random.default_rng(0).integers(-9, 9, 1500)
    results = []
    for path in PATHS:
        with monkeypatch.context() as patch:
            choose(path, patch)
            results.append(circular_convolve(signal, kernel).tobytes())
    assert len(set(results)) == 1


def test_largest_input_is_the_largest():
    for kernel in some_kernels(9):
        total = int(kernel.l1 * 2**kernel.resolution_bits)
        for resolution_bits in (0, 5):
            if total << resolution_bits < 2**53:
                clamp = largest_input(kernel, resolution_bits)
                assert clamp * total * 2**resolution_bits < 2**53 <= (clamp + 1) * total * 2**resolution_bits
    assert largest_input(gaussian_kernel(1800, 10)) == 2**27 - 1


def test_no_room_is_said():
    assert largest_input(gaussian_kernel(9, 2.0), 27) == 0


def test_values_saturate_and_nothing_raises(path):
    kernel = gaussian_kernel(4, 1.0)
    clamp = largest_input(kernel)
    wild = np.array([np.inf, -np.inf, np.nan, 1e308])
    assert circular_convolve(wild, kernel).tolist() == circular_convolve([clamp, -clamp, 0, clamp], kernel).tolist()
    edges = np.array([2**63 - 1, -(2**63), 0, 2**62])
    assert circular_convolve(edges, kernel).tolist() == circular_convolve(wild, kernel).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint64, np.float32, np.int64])
def test_dtypes_do_not_matter(dtype):
    kernel, counts = gaussian_kernel(5, 1.0), [3, 1, 4, 1, 5]
    assert circular_convolve(np.array(counts, dtype), kernel).tolist() == circular_convolve(counts, kernel).tolist()


@pytest.mark.parametrize("resolution_bits", [1, 7, 13])
def test_dyadic_inputs_are_exact(resolution_bits, path):
    for size in (1, 6, 11):
        for kernel in (gaussian_kernel(size, 1.5), Kernel.from_taps(np.arange(size) - 2.5)):
            clamp = largest_input(kernel, resolution_bits)
            for units in some_signals(size, clamp << resolution_bits):
                values = [Fraction(int(u), 2**resolution_bits) for u in units]
                got = circular_convolve([float(v) for v in values], kernel, resolution_bits=resolution_bits)
                assert [Fraction(y) for y in got.tolist()] == exact(values, kernel)


def test_values_between_the_grid_are_rounded_to_it():
    kernel = identity_kernel(3)
    assert circular_convolve([0.24, 0.26, -0.3], kernel, resolution_bits=1).tolist() == [0, 0.5, -0.5]


def test_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"^values.*3.*4"):
        circular_convolve([1, 2, 3], gaussian_kernel(4, 1.0))


def test_the_certified_error_covers_the_error_of_the_transform():
    # Random and adversarial signs; the certificate must hold with room to spare (8 is its own margin).
    rng = np.random.default_rng(1)
    for size, span in [(1000, 200), (4000, 1500), (30_000, 9000)]:
        x = rng.choice([-1, 1], size) * 2**13
        q = rng.choice([-1, 1], span) * rng.integers(2**12, 2**13, span)
        points = 1 << (size + span - 1).bit_length()
        got = np.fft.irfft(np.fft.rfft(x.astype(float), points) * np.fft.rfft(q.astype(float), points), points)
        error = np.abs(got[: size + span - 1] - np.convolve(x, q)).max()
        bound = circulant.fft_error(points) * np.sqrt(float(x @ x)) * np.sqrt(float(q @ q))
        assert error <= bound / 8


def test_a_transform_that_cannot_be_certified_is_not_used():
    # Digits of one bit, of a million steps, still leave a quarter of a unit at norms up to 2**30 or so.
    assert circulant._certified_digit_bits(2**20, np.array([2.0**26])) >= 1
    assert circulant._certified_digit_bits(2**20, np.array([2.0**40])) < 1


def test_the_certificate_leaves_three_quarters_of_a_unit_to_rounding():
    rng = np.random.default_rng(2)
    for length in (2**11, 2**15, 2**20):
        for largest in (2.0**5, 2.0**13, 2.0**21):
            arc = np.rint(rng.random(length // 4) * largest)
            width = circulant._certified_digit_bits(length, arc)
            digits = 2.0**width * np.sqrt(length)
            assert circulant.fft_error(length) * digits * np.sqrt(float(arc @ arc)) <= 0.25


# Broken variants: each is what a plausible implementation would do, and each is caught by the check above.


def transformed(signal, taps, size=None):
    return np.fft.irfft(np.fft.rfft(signal) * np.fft.rfft(taps), size)


def rounded(values, bits):
    return np.ldexp(np.rint(np.ldexp(values, bits)), -bits)


def in_single_precision(signal, kernel):
    doubled = np.concatenate([signal, signal]).astype(np.float32)
    return np.convolve(doubled, kernel.taps.astype(np.float32))[kernel.size : 2 * kernel.size]


BROKEN = {
    "without rounding": lambda x, k: transformed(x, k.taps, k.size),
    "without the length": lambda x, k: rounded(transformed(x, k.taps), k.resolution_bits),
    "in single precision": in_single_precision,
    "with zero padding": lambda x, k: np.convolve(x, np.roll(k.taps, k.size // 2), mode="same"),
    "with one large transform": lambda x, k: rounded(transformed(x, k.taps, k.size), k.resolution_bits),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_variants_are_caught(broken):
    kernels = [gaussian_kernel(7, 1.5), Kernel.from_taps([0.5, 0.25, 0, 0, 0, 0, 0, 0.25])]
    assert not all(is_right(broken, k, signal) for k in kernels for signal in some_signals(k.size, largest_input(k)))


def test_results_below_the_limit_do_not_make_sums_exact():
    # The limit must hold for partial sums: here the result is small, and a plain sum is wrong.
    kernel = Kernel.from_taps([1 + 2.0**-26, -1.0])
    signal = np.full(2, 2**28 + 1)
    true = exact(signal.tolist(), kernel)
    assert all(abs(y) * 2**26 < 2**53 for y in true)
    plain = np.array([signal @ kernel.taps, signal @ kernel.taps[::-1]])
    assert [Fraction(y) for y in plain.tolist()] != true
    assert largest_input(kernel) < 2**28
    assert is_right(circular_convolve, kernel, signal)
