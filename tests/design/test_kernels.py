"""Kernels: exact norm, shape, closeness to the ideal taps, refusals."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.design import kernels
from opendp_timeseries.design.kernels import (
    Kernel,
    boxcar_kernel,
    exponential_kernel,
    gaussian_kernel,
    identity_kernel,
)
from tests.oracles import filtering as oracle
from tests.refused import refuses

#: Each kernel that has a name and a parameter: a new one is tested, and asks the oracle for its ideal taps.
MAKERS = {name: make for name, make in kernels._NAMED.items() if make is not identity_kernel}


@st.composite
def named_kernels(draw):
    size = draw(st.integers(1, 40))
    weight = draw(st.sampled_from(sorted(MAKERS)))
    odd = st.integers(0, (size - 1) // 2).map(lambda half: 2 * half + 1)
    parameter = draw(odd if weight == "boxcar" else st.floats(1e-3, 1e3))
    return weight, size, parameter, draw(st.integers(0, 40))


@given(named_kernels())
def test_named_kernels_have_norm_one_exactly_and_keep_their_shape(case):
    weight, size, parameter, bits = case
    kernel = MAKERS[weight](size, parameter, resolution_bits=bits)
    q = kernel.numerators.tolist()
    assert kernel.size == size == len(q)
    assert sum(map(abs, q)) == 2**bits
    assert kernel.l1 == 1
    assert all(q[t] == q[-t % size] for t in range(size))
    by_distance = [q[d] for d in range(size // 2 + 1)]
    assert by_distance == sorted(by_distance, reverse=True)
    assert min(q) >= 0
    assert kernel.is_symmetric_decreasing


@given(named_kernels())
def test_no_tap_moves_by_more_than_two_units(case):
    weight, size, parameter, bits = case
    kernel = MAKERS[weight](size, parameter, resolution_bits=bits)
    ideal = oracle.ideal_taps(size, weight, parameter)
    assert all(abs(q - 2**bits * h) <= 2.01 for q, h in zip(kernel.numerators.tolist(), ideal, strict=True))


def test_rounding_each_tap_to_nearest_would_miss_the_norm():
    nearest = [round(2**26 * h) for h in oracle.ideal_taps(1800, "gaussian", 10.0)]
    assert sum(nearest) != 2**26
    assert gaussian_kernel(1800, 10).l1 == 1


@pytest.mark.parametrize("std", [1e-300, 5e-324, 1e300, 1.0])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_extreme_widths(size, std):
    for kernel in (gaussian_kernel(size, std), exponential_kernel(size, std)):
        assert kernel.l1 == 1
        assert kernel.is_symmetric_decreasing
    if std < 1e-9:
        assert gaussian_kernel(size, std).taps.tolist() == identity_kernel(size).taps.tolist()


@given(named_kernels(), st.integers(0, 40))
def test_a_rounded_kernel_is_the_one_that_is_made_so(case, bits):
    weight, size, parameter, fine = case
    rounded = MAKERS[weight](size, parameter, resolution_bits=fine).rounded(bits)
    assert rounded == MAKERS[weight](size, parameter, resolution_bits=min(bits, fine))
    assert rounded.l1 == 1


def test_other_kernels_are_rounded_and_keep_their_norm_or_are_what_is_stored():
    twice = gaussian_kernel(20, 2.0).convolve(boxcar_kernel(20, 5))
    coarse = twice.rounded(12)
    assert (coarse.l1, coarse.is_symmetric_decreasing, coarse.resolution_bits) == (1, True, 12)
    np.testing.assert_allclose(coarse.taps, twice.taps, atol=2 * 2.0**-12)
    signed = Kernel.from_taps([1.0, -0.3, 0.0, 0.1])
    assert signed.rounded(8).numerators.tolist() == [256, -77, 0, 26]
    assert signed.rounded(30) is signed
    assert identity_kernel(4).rounded(16) == identity_kernel(4)
    refuses("all taps", Kernel.from_taps([0.01, -0.01, 0.0]).rounded, 4)


def test_boxcar_is_a_moving_average():
    assert boxcar_kernel(8, 1).taps.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(boxcar_kernel(5, 5).taps, 0.2, atol=2**-25)
    np.testing.assert_allclose(boxcar_kernel(6, 3).taps, np.array([1, 1, 0, 0, 0, 1]) / 3, atol=2**-25)


def test_taps_on_the_grid_are_stored_unchanged():
    given_taps = [0.5, -0.25, 2.0**-26, 3.0, 0.0]
    kernel = Kernel.from_taps(given_taps)
    assert kernel.taps.tolist() == given_taps
    assert kernel.l1 == sum(map(abs, map(Fraction, given_taps)))
    assert kernel.support == 4
    assert not kernel.is_symmetric_decreasing
    assert Kernel.from_taps([1, 2, 3], resolution_bits=0).numerators.tolist() == [1, 2, 3]
    assert Kernel.from_taps(np.float32([0.1, 0.2]), resolution_bits=20).numerators.tolist() == [104858, 209715]


@pytest.mark.parametrize(
    ("taps", "expected"),
    [
        ([1], True),
        ([2, 1], True),
        ([1, 2], False),
        ([2, 1, 1], True),
        ([2, 1, 0], False),
        ([2, 1, 0, 1], True),
        ([2, 0, 1, 0], False),
        ([2, 1, 1, 1], True),
        ([2, 1, 2, 1], False),
        ([2, -1, -1], False),
        ([-2, -1, -1], False),
        ([3, 1, 2, 2, 1], False),
        ([3, 2, 1, 1, 2], True),
    ],
)
def test_shape_is_recognised(taps, expected):
    assert Kernel.from_taps(taps, resolution_bits=0).is_symmetric_decreasing is expected


def test_taps_around_a_centre_weigh_steps_before_and_after():
    taps = [1, 2, 4, 8]  # of the steps two after, one after, the same, one before
    kernel = Kernel.from_taps(taps, centre=2, size=7, resolution_bits=0)
    signal = np.arange(7.0) ** 2
    expected = [
        sum(tap * signal[(t - lag) % 7] for tap, lag in zip(taps, (-2, -1, 0, 1), strict=True)) for t in range(7)
    ]
    assert np.allclose(np.fft.irfft(np.fft.rfft(signal) * np.fft.rfft(kernel.taps), n=7), expected)
    symmetric = Kernel.from_taps([1, 2, 1], centre=1, size=9, resolution_bits=2)
    assert symmetric.is_symmetric_decreasing
    assert Kernel.from_taps(kernel.taps) == Kernel.from_taps(taps, centre=2, size=7)


def test_numpy_scalars_are_numbers():
    plain = gaussian_kernel(9, 2.0, resolution_bits=20)
    assert gaussian_kernel(np.int32(9), np.float32(2.0), resolution_bits=np.uint8(20)) == plain
    assert boxcar_kernel(np.int64(9), np.int8(3)) == boxcar_kernel(9, 3)


def test_taps_cannot_be_changed_after_they_were_accounted_for():
    source = np.array([2, 1, 1])
    kernel = Kernel(source, 2)
    source[0] = 100
    assert kernel.numerators.tolist() == [2, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        kernel.numerators[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        kernel.numerators.flags.writeable = True


def test_kernels_are_values():
    kernel = gaussian_kernel(9, 2.0)
    assert kernel == gaussian_kernel(9, 2.0) == Kernel.from_taps(kernel.taps)
    assert hash(kernel) == hash(gaussian_kernel(9, 2.0)) == hash(Kernel.from_taps(kernel.taps))
    assert kernel == pickle.loads(pickle.dumps(kernel)) == copy.deepcopy(kernel)
    different = [
        gaussian_kernel(9, 2.1),
        gaussian_kernel(10, 2.0),
        gaussian_kernel(9, 2.0, resolution_bits=25),
        identity_kernel(9),
    ]
    assert all(kernel != other for other in different)
    assert len({k.identifier for k in [kernel, *different]}) == 5
    # The same digits on another grid are another filter.
    assert Kernel(np.array([1, 0]), 0) != Kernel(np.array([1, 0]), 1)
    assert kernel != "kernel"
    assert repr(kernel) == f"Kernel({kernel.identifier})"
    assert kernel.identifier.startswith("gaussian std=2, size=9, resolution_bits=26, sha256=")


@given(named_kernels(), st.sampled_from(sorted(MAKERS)), st.integers(0, 40))
def test_one_kernel_for_two_filters_keeps_norm_and_shape(case, second, bits):
    weight, size, parameter, _ = case
    first = MAKERS[weight](size, parameter)
    other = MAKERS[second](size, 1)
    both = first.convolve(other, resolution_bits=bits)
    assert both.l1 == 1
    assert both.is_symmetric_decreasing
    exact = oracle.convolve([Fraction(h) for h in first.taps.tolist()], [Fraction(h) for h in other.taps.tolist()])
    assert all(abs(q - 2**bits * h) <= 2.01 for q, h in zip(both.numerators.tolist(), exact, strict=True))


def test_convolution_of_other_kernels():
    signed = Kernel.from_taps([1.0, -0.5, 0.0, 0.25])
    twice = signed.convolve(signed)
    assert twice.taps.tolist() == [float(y) for y in oracle.convolve(signed.taps.tolist(), signed.taps.tolist())]
    double = Kernel.from_taps([1.0, 0.5, 0.5])
    assert double.is_symmetric_decreasing
    assert double.convolve(double).l1 == 4
    refuses("kernel sizes", signed.convolve, double)
    faint = Kernel.from_taps([2.0**-20, 0, 0])
    refuses("resolution_bits", faint.convolve, faint)


def test_a_copy_is_as_fixed_as_the_kernel():
    kernel = gaussian_kernel(5, 1.0)
    hash(kernel)
    for other in (copy.deepcopy(kernel), copy.copy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert other == kernel
        with pytest.raises(ValueError, match=r"WRITEABLE|read-only|writeable"):
            other.numerators.flags.writeable = True
