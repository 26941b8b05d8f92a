"""Exact circular convolution of integers: the arithmetic that the filter and its stability map share.

Integers travel as float64, under one condition: ``max|x| * sum|q| < 2**53``. Then every product, and every partial sum
in whatever order, is an integer that float64 holds exactly, on any machine. (That *results* are below 2**53 would not
do: cancellation hides partial sums that are not.)
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Integers of smaller magnitude, and sums and differences that stay below it, are exact in float64.
EXACT: Final = 2**53

#: The longest arc of taps for which the direct sum is about as fast as a Fourier transform, or faster.
_MAX_DIRECT: Final = 1024


def circulant_product(integers: NDArray[np.float64], taps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``y_t = sum_k x_k q_((t - k) mod T)`` exactly, for ``max|x| * sum|q| < 2**53``.

    :param integers: ``x``, float64 of shape ``(T,)``, integer-valued.
    :param taps: ``q``, int64 of shape ``(T,)``, not all zero.
    """
    size = len(taps)
    start, arc = _arc(taps)
    span = len(arc)
    # The cycle, unrolled: y_t = sum_i arc[i] * unrolled[t + span - 1 - i].
    rotation = np.roll(integers, start + span - 1)
    extension = np.concatenate([rotation, rotation[: span - 1]])
    digit_bits = _certified_digit_bits(len(extension), arc)
    if span <= _MAX_DIRECT or digit_bits < 1:
        return np.convolve(extension, arc, mode="valid")
    largest = (EXACT - 1) // int(np.abs(taps).sum())
    return _convolve_by_fourier(extension, arc, size, largest, digit_bits)


def _arc(taps: NDArray[np.int64]) -> tuple[int, NDArray[np.float64]]:
    """Return start and taps of the shortest arc of the cycle that holds every non-zero tap."""
    size = len(taps)
    nonzero = np.flatnonzero(taps)
    gaps = np.diff(nonzero, append=nonzero[0] + size)
    widest = int(np.argmax(gaps))
    start = int(nonzero[(widest + 1) % len(nonzero)])
    span = size - int(gaps[widest]) + 1
    return start, np.roll(taps, -start)[:span].astype(np.float64)


def fft_error(length: int) -> float:
    """Return a bound on the largest error of an FFT convolution of ``length`` points, relative to ``|x|_2 |y|_2``.

    Brent, Percival & Zimmermann (2007), "Error bounds on complex floating-point multiplication", Math. Comp. 76, prove
    ``(1+u)**(3n) (1+u*sqrt(5))**(3n+1) (1+b)**(3n) - 1`` for radix 2 and ``2**n`` points, with ``u = 2**-53`` and ``b``
    the error of the roots of unity. Larger radices do fewer operations; eight times this covers NumPy's transform.
    """
    levels = math.ceil(math.log2(max(length, 2)))
    return 8.0 * (13 * levels + 3) * 2.0**-53


def _certified_digit_bits(length: int, arc: NDArray[np.float64]) -> int:
    """Return the width of digits whose FFT convolution with the taps errs by less than a quarter of a unit."""
    # |digits|_2 <= 2**width * sqrt(length), as each digit is at most 2**width.
    per_unit = fft_error(length) * math.sqrt(length) * math.sqrt(float(arc @ arc) * (1 + 1e-9))
    return math.floor(-2 - math.log2(per_unit))


def _convolve_by_fourier(
    extension: NDArray[np.float64], arc: NDArray[np.float64], size: int, largest: int, digit_bits: int
) -> NDArray[np.float64]:
    """Return the valid convolution, computed digit by digit, each part rounded to the integers that it must be.

    The number of digits follows from ``largest``, which is public, not from the data.
    """
    span = len(arc)
    points = 1 << (len(extension) - 1).bit_length()  # wraps round only below index span - 1, which is dropped
    spectrum = np.fft.rfft(arc, points)
    count = -(-(largest.bit_length() + 1) // digit_bits)
    product = np.zeros(size, dtype=np.int64)  # terms below 2**56: digits beyond the largest input are few
    remainder = extension
    for place in range(count):
        higher = np.rint(np.ldexp(remainder, -digit_bits)) if place < count - 1 else np.zeros_like(remainder)
        digits = remainder - np.ldexp(higher, digit_bits)
        part = np.fft.irfft(np.fft.rfft(digits, points) * spectrum, points)[span - 1 : span - 1 + size]
        product += np.rint(part).astype(np.int64) << place * digit_bits
        remainder = higher
    return product.astype(np.float64)
