"""Smooth a signal with a public circulant filter, in exact arithmetic.

Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.filtering import filtered_influence, filtered_l1, filtered_l2
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.plugin._opendp import lp_kind, signal_domain, then, vector_space
from opendp_timeseries.plugin.circular_convolution import circular_convolve, largest_input
from opendp_timeseries.plugin.spaces import (
    InfluenceSpace,
    as_influence,
    influence_metric,
    influence_space,
    panel_size_of,
)

__all__ = ["make_circulant_filter", "then_circulant_filter"]

#: Counts up to this size must pass through every filter unclamped: kernels so fine that they would not are refused.
_MIN_CLAMP = 2**20


def make_circulant_filter(input_domain: dp.Domain, input_metric: dp.Metric, kernel: Kernel) -> dp.Transformation:
    """Smooth a signal: ``y_t = Σ_k x_k h_{(t−k) mod T}`` for the public kernel ``h``.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=T)``. Its values are exact:
    taps are multiples of ``2**-kernel.resolution_bits``, and inputs are clamped to ±``largest_input(kernel)``
    (more than 100 million for a smoothing kernel of default resolution), within which every sum is exact in float64.
    The kind of metric is kept: influence to influence, ℓ1 to ℓ1, ℓ2 to ℓ2.

    Of a panel, every series is filtered by itself. A filter that is wide compared with an individual's
    participation *lowers* the influence.

    :param input_domain: counts, or the output of another filter (which then needs the influence metric).
    :param input_metric: ``influence_distance()``, ``dp.l1_distance(T=…)`` or ``dp.l2_distance(T=…)``.
    :param kernel: :func:`~opendp_timeseries.gaussian_kernel` and others, of the signal's size.
    :raises TypeError: for a wrong domain, metric or kernel.
    :raises ValueError: if the kernel's size is not the signal's, or its resolution leaves no room for counts.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=20)
    >>> smooth = count >> ts.then_circulant_filter(ts.gaussian_kernel(1800, std=10))
    >>> count.map(1), smooth.map(1)
    (Influence(l0=20, l2=4.47214, linf=1), Influence(l0=..., l2=3.1..., linf=0.68...))
    """
    space = vector_space(input_domain)
    if not check.is_a(kernel, Kernel):
        raise TypeError(f"kernel ({check.shown(kernel)}) must be given as a Kernel; see gaussian_kernel")
    panel_size = panel_size_of(input_metric)
    if kernel.size * panel_size != space.size:
        each = f"{space.size}" if panel_size == 1 else f"{space.size} / {panel_size} series"
        raise ValueError(f"kernel size ({kernel.size}) must equal the signal's ({each}); see gaussian_kernel(size=…)")
    resolution_bits = _resolution_bits(input_domain, input_metric, space.atom)
    clamp = _clamp(kernel, resolution_bits)
    if clamp < _MIN_CLAMP:
        raise ValueError(
            f"kernel resolution ({kernel.resolution_bits} bits) behind a signal of {resolution_bits} bits leaves room"
            f" for values up to {clamp} only; build both kernels with resolution_bits=16 or fewer, or join them:"
            " first.convolve(second)"
        )

    def function(values: Any) -> NDArray[np.float64]:
        parts = np.split(np.asarray(values), panel_size)
        return np.concatenate([circular_convolve(part, kernel, resolution_bits=resolution_bits) for part in parts])

    output_metric, stability = _stability(input_metric, kernel)
    return dp.t.make_user_transformation(
        input_domain, input_metric, signal_domain("f64", space.size), output_metric, function, stability
    )


def _clamp(kernel: Kernel, resolution_bits: int) -> int:
    try:
        return largest_input(kernel, resolution_bits)
    except ValueError:  # no room even for an input of 1
        return 0


def _resolution_bits(domain: dp.Domain, metric: dp.Metric, atom: str) -> int:
    """Binary digits behind the point in the entries of the signal."""
    space = influence_space(metric)
    if space is not None:
        return space.resolution_bits
    if lp_kind(metric) is None:
        raise TypeError(
            f"input_metric ({metric}) must be influence_distance(), dp.l1_distance(T=…) or dp.l2_distance(T=…)"
        )
    if atom.startswith("f"):
        raise TypeError(
            f"a filter of floats ({domain}) needs the influence metric, which knows their grid; use"
            " influence_distance() throughout, or join two kernels: first.convolve(second)"
        )
    return 0


def _stability(metric: dp.Metric, kernel: Kernel) -> tuple[dp.Metric, Any]:
    space = influence_space(metric)
    if space is not None:
        output = InfluenceSpace(
            resolution_bits=space.resolution_bits + kernel.resolution_bits,
            panel_size=space.panel_size,
            provenance=space.provenance and space.provenance.after(kernel),
        )
        return influence_metric(output), lambda d_in: filtered_influence(as_influence(d_in), kernel, space.panel_size)
    kind = lp_kind(metric)
    if kind is not None and kind[0] == "l1":
        return dp.l1_distance(T="f64"), lambda d_in: filtered_l1(d_in, kernel)
    return dp.l2_distance(T="f64"), lambda d_in: filtered_l2(d_in, kernel)


then_circulant_filter = then(make_circulant_filter)
