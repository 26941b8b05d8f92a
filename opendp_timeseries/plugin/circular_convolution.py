"""The filter's arithmetic: circular convolution that equals rational arithmetic, for every input.

A stability proof is about real numbers. It covers the numbers that a computer produces only if they are
the same, so inputs are clamped to where float64 makes no error at all (which never increases a distance).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._validate import integer
from opendp_timeseries.accounting.circulant import EXACT, circulant_product
from opendp_timeseries.design.kernels import Kernel

__all__ = ["circular_convolve", "largest_input"]


def largest_input(kernel: Kernel, resolution_bits: int = 0) -> int:
    """Return the largest magnitude that the filter passes exactly; inputs beyond it saturate there.

    :param kernel: the filter's taps.
    :param resolution_bits: inputs are multiples of ``2**-resolution_bits``; 0 for counts.
    :raises ValueError: if there is no room for an input of 1, as after a filter that used up the resolution.

    >>> from opendp_timeseries.design.kernels import gaussian_kernel
    >>> largest_input(gaussian_kernel(1800, std=10)) == 2**27 - 1
    True
    """
    resolution_bits = integer("resolution_bits", resolution_bits, minimum=0, maximum=52)
    # sum|q| * 2**resolution_bits * clamp < 2**53 is the condition of `circulant_product`.
    clamp = (EXACT - 1) // (int(kernel.l1 * 2**kernel.resolution_bits) << resolution_bits)
    if clamp < 1:
        raise ValueError(
            f"{kernel!r} on inputs of {resolution_bits} binary places leaves no room for an input of 1; "
            "use a lower resolution_bits, or one kernel for both filters: first.convolve(second)"
        )
    return clamp


def circular_convolve(values: ArrayLike, kernel: Kernel, *, resolution_bits: int = 0) -> NDArray[np.float64]:
    """Return ``y_t = sum_k x_k h_((t - k) mod T)``, equal to rational arithmetic.

    ``x`` is ``values`` saturated at ``largest_input(kernel, resolution_bits)``; the result is float64 of shape
    ``(T,)``, and each entry is a multiple of ``2**-(kernel.resolution_bits + resolution_bits)``. Nothing about the
    values raises or warns.

    :param values: ``T`` integers, or multiples of ``2**-resolution_bits``; others are rounded to such multiples,
        and NaN is read as 0.
    :param kernel: the filter's taps.
    :param resolution_bits: binary places of the values; 0 for counts.
    :raises ValueError: if the number of values, which is public, is not ``T``.

    >>> from opendp_timeseries.design.kernels import kernel_from_taps
    >>> circular_convolve([4, 0, 0, 0, 0], kernel_from_taps([0.5, 0.25, 0, 0, 0.25])).tolist()
    [2.0, 1.0, 0.0, 0.0, 1.0]
    """
    clamp = largest_input(kernel, resolution_bits)
    signal = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0)
    if signal.shape != (kernel.size,):
        raise ValueError(f"values (shape {signal.shape}) must have the shape ({kernel.size},) of the kernel")
    integers = np.rint(np.ldexp(np.clip(signal, -clamp, clamp), resolution_bits))
    # Adding 0.0 turns -0.0 into 0.0, so that equal results have equal bytes.
    return np.ldexp(circulant_product(integers, kernel.numerators), -(kernel.resolution_bits + resolution_bits)) + 0.0
