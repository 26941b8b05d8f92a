"""Smooth a signal with a public circulant filter, in exact arithmetic.

A stability proof is about real numbers. It covers the numbers that a computer produces only if they are the same, so
inputs are clamped to where float64 makes no error at all, which never increases a distance. Proof:
docs/proofs/filters.md.
"""

import warnings
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.circulant import EXACT, circulant_product
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import signal_domain, then, vector_space
from opendp_timeseries.plugin.mechanisms import transformation
from opendp_timeseries.plugin.spaces import as_influence, influence_distance, influence_space, signal_metric

#: Counts up to this size must pass through every filter unclamped: kernels so fine that they would not are refused.
_MIN_CLAMP: Final = 2**20
#: Kernels are rounded to this many binary places behind a signal that leaves no room for more, such as a scaled count.
_COARSE_BITS: Final = 16


class FilterWithoutGapWarning(UserWarning):
    """A filter cannot lower the noise: one individual may count in all steps, side by side."""


def make_circulant_filter(input_domain: dp.Domain, input_metric: dp.Metric, kernel: Kernel) -> dp.Transformation:
    """Smooth a signal: ``y_t = Σ_k x_k h_{(t−k) mod T}`` for the public kernel ``h``.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=T)``. Its values are exact: taps are
    multiples of ``2**-kernel.resolution_bits``, and inputs are clamped to where every sum is exact in float64: more
    than 100 million for a smoothing kernel of default resolution. Behind a count that scales, whose own binary places
    leave less room, the kernel is rounded to 16 of them first, and the release says so; inputs up to 2 million pass.

    Of a panel, every series is filtered by itself. A filter that is wide compared with an individual's participation
    *lowers* the influence: behind a count with ``excess="drop"``, or with a ``gap``. Behind one that weighs people
    down without a gap it does not, and this warns (:class:`~opendp_timeseries.FilterWithoutGapWarning`).

    :param input_domain: counts, or the output of another filter.
    :param input_metric: the influence metric of these.
    :param kernel: :func:`~opendp_timeseries.gaussian_kernel` and others, of the signal's size.
    :raises TypeError: for a wrong domain, metric or kernel.
    :raises ValueError: if the kernel's size is not the signal's, or its resolution leaves no room for counts.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=20, excess="drop")
    >>> smooth = count >> ts.then_circulant_filter(ts.gaussian_kernel(1800, std=10))
    >>> count.map(1), smooth.map(1)
    (Influence(l0=20, l2=4.47214, linf=1), Influence(l0=..., l2=3.1..., linf=0.68...))
    """
    space = vector_space(input_domain)
    if not isinstance(kernel, Kernel):
        raise TypeRefusal("kernel", kernel, "must be given as a Kernel", "see gaussian_kernel")
    influence = influence_space(input_metric)
    if influence is None:
        raise TypeRefusal(
            "input_metric",
            input_metric,
            "must be an influence metric, as of a count",
            "choose another distance behind the filter, by then_lp_distance(…)",
        )
    series = influence.panel_size
    if kernel.size * series != space.size:
        size = f"{space.size}" if series == 1 else f"{space.size} / {series} series"
        raise Refusal("kernel size", kernel.size, f"must equal the signal's ({size})", "see gaussian_kernel(size=…)")
    signal = influence.signal  # None if it is not known what was counted
    # Only people who are dropped have no norm: weights have binary places of their own, for which there must be room.
    downweighted = signal is not None and not signal.kernels and signal.count.weighting.norm is not None
    if downweighted and largest_input(kernel, influence.resolution_bits) < _MIN_CLAMP:
        kernel = kernel.rounded(_COARSE_BITS)
    if (clamp := largest_input(kernel, influence.resolution_bits)) < _MIN_CLAMP:
        raise Refusal(
            "kernel resolution",
            Quoted(f"{kernel.resolution_bits} bits"),
            f"behind a signal of {influence.resolution_bits} bits leaves room for values up to {clamp} only",
            "build both kernels with `resolution_bits=16` or fewer, or join them: first.convolve(second)",
        )
    if signal is not None:
        metric = signal_metric(signal.after(kernel))
    else:
        metric = influence_distance(influence.resolution_bits + kernel.resolution_bits, panel_size=series)
    if downweighted and signal is not None and signal.count.reading.gap == 1:
        warnings.warn(
            "this filter does not lower the noise: behind a count that weighs people down, one individual may be in"
            " every step; give the count excess='drop', or a gap=… if individuals come no more often than that",
            FilterWithoutGapWarning,
            stacklevel=2,
        )

    def function(values: object) -> NDArray[np.float64]:
        parts = np.split(np.asarray(values), series)
        bits = influence.resolution_bits
        return np.concatenate([circular_convolve(part, kernel, resolution_bits=bits) for part in parts])

    def stability_map(d_in: object) -> Influence:
        return filtered_influence(as_influence(d_in), kernel, series)

    domain = signal_domain("f64", space.size)
    return transformation((input_domain, input_metric), (domain, metric), function, stability_map)


then_circulant_filter = then(make_circulant_filter)


def largest_input(kernel: Kernel, resolution_bits: int = 0) -> int:
    """Return the largest magnitude that the filter passes exactly, of inputs that are multiples of 2**-resolution_bits.

    The result is 0 if there is no room even for an input of 1, as after a filter that used up the resolution.
    """
    # sum|q| * 2**resolution_bits * clamp < 2**53 is the condition of `circulant_product`.
    return (EXACT - 1) // (int(kernel.l1 * 2**kernel.resolution_bits) << resolution_bits)


def circular_convolve(values: ArrayLike, kernel: Kernel, *, resolution_bits: int = 0) -> NDArray[np.float64]:
    """Return ``y_t = sum_k x_k h_((t - k) mod T)``, equal to rational arithmetic.

    ``x`` is ``values`` saturated at ``largest_input(kernel, resolution_bits)``; the result is float64 of shape
    ``(T,)``, and each entry is a multiple of ``2**-(kernel.resolution_bits + resolution_bits)``. Nothing about the
    values raises or warns.

    :param values: ``T`` multiples of ``2**-resolution_bits``; others are rounded to such, and NaN is read as 0.
    :raises ValueError: if the number of values, which is public, is not ``T``.
    """
    clamp = largest_input(kernel, resolution_bits)
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0)
    if numbers.shape != (kernel.size,):
        raise Refusal("values", Quoted(f"shape {numbers.shape}"), f"must have the shape ({kernel.size},) of the kernel")
    integers = np.rint(np.ldexp(np.clip(numbers, -clamp, clamp), resolution_bits))
    # Adding 0.0 turns -0.0 into 0.0, so that equal results have equal bytes.
    return np.ldexp(circulant_product(integers, kernel.numerators), -(kernel.resolution_bits + resolution_bits)) + 0.0
