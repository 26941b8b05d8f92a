"""The DFT baseline: the first Fourier coefficients of a signal, and the series that they describe.

Rastogi & Nath (2010) add noise to the first ``k`` coefficients and set the others to zero. Here the coefficients are a
stable transformation, the noise is OpenDP's own, and the inverse is post-processing::

    invert = functools.partial(fourier_series, size=T)
    count >> then_fourier_coefficients(20) >> dp.m.then_gaussian(scale) >> invert

with Gaussian noise as in Koga et al. (2022), or, with ``output_metric=dp.l1_distance(T=float)`` and
``dp.m.then_laplace(scale)``, in the original form. Proof: docs/proofs/koga2022.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import up, up_fraction
from opendp_timeseries.koga2022.fourier_norms import (
    coefficients_l1,
    coefficients_l2,
    influence_l1,
    influence_l2,
)
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin._opendp import lp_kind, signal_domain, then, vector_space
from opendp_timeseries.plugin.spaces import influence_space

__all__ = [
    "fourier_series",
    "make_fourier_coefficients",
    "then_fourier_coefficients",
]

#: Signals are clamped to ±2^20, and taken apart into digits to base 2^20, so that every sum below is exact.
_DIGIT_BITS: Final = 20
_MAX_VALUE: Final = 2**_DIGIT_BITS


def make_fourier_coefficients(
    input_domain: native.Domain,
    input_metric: native.Metric,
    frequencies: int,
    *,
    output_metric: native.Metric | None = None,
) -> native.Transformation:
    """Return the ``2k − 1`` real coefficients of the first ``k`` frequencies, in an orthonormal basis.

    In the order: mean (the sum divided by ``√T``), then cosine and sine of ``1 … k−1`` cycles per signal.
    The output domain is ``vector_domain(atom_domain(T="f64", nan=False), size=2k−1)``.

    The map holds for the numbers that are computed: the basis is rounded to a dyadic grid, inputs are clamped to ±2^20,
    every sum is then exact in float64, and what the rounded basis adds is in the map. The coefficients of a filtered
    signal, whose entries have more digits, are rounded once at the end, and the map is larger by that rounding.

    From the influence metric, individuals who are in few steps are known to move the coefficients little: one step in
    ``T`` moves them by ``√((2k−1)/T)`` in ℓ2, not by 1.

    :param input_domain: counts or a filtered signal, ``T`` steps.
    :param input_metric: ``influence_distance()``, ``dp.l1_distance(T=…)`` or ``dp.l2_distance(T=…)``;
        a filtered signal needs the influence metric, which knows its grid.
    :param frequencies: ``k``, public, with ``2k − 1 ≤ T``: :data:`~.fourier_planning.ADVISED_FREQUENCIES`, or the
        best for a public series that resembles the private one, :func:`~.fourier_planning.best_frequencies`.
    :param output_metric: ``dp.l2_distance(T=float)`` (default) for ``dp.m.then_gaussian``, or
        ``dp.l1_distance(T=float)`` for ``dp.m.then_laplace``.
    :raises TypeError: for a wrong domain, metric or type of number.
    :raises ValueError: if there are fewer than ``2k − 1`` steps.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=5)
    >>> coefficients = count >> then_fourier_coefficients(20)
    >>> round(coefficients.map(1), 4)  # the count itself moves by the square root of 5, 2.2361
    0.7354
    """
    space = vector_space(input_domain)
    k = check.integer(
        "frequencies",
        frequencies,
        minimum=1,
        maximum=(space.size + 1) // 2,
        remedy="a public choice; see best_frequencies",
    )
    resolution_bits = _resolution_bits(input_domain, input_metric, space.atom)
    output = native.l2_distance(T="f64") if output_metric is None else output_metric
    if lp_kind(output) not in (("l1", "f64"), ("l2", "f64")):
        raise TypeError(f"output_metric ({output}) must be dp.l2_distance(T=float) or dp.l1_distance(T=float)")
    basis = _DyadicBasis.of(space.size, k)

    def function(values: Any) -> NDArray[np.float64]:
        signal = np.clip(np.nan_to_num(np.asarray(values).astype(np.float64)), -_MAX_VALUE, _MAX_VALUE)
        return basis.coefficients(np.rint(signal * 2.0**resolution_bits).astype(np.int64), resolution_bits)

    return native.make_user_transformation(
        input_domain,
        input_metric,
        signal_domain("f64", 2 * k - 1),
        output,
        function,
        _stability(input_metric, output, basis, resolution_bits),
    )


then_fourier_coefficients = then(make_fourier_coefficients)


def _resolution_bits(domain: native.Domain, metric: native.Metric, atom: str) -> int:
    """Binary digits behind the point in the entries of the signal."""
    space = influence_space(metric)
    resolution_bits = None if space is None else space.resolution_bits
    if space is not None and space.panel_size != 1:
        raise TypeError(f"input_metric ({metric}) must be of one series; count each key of a panel by itself")
    if resolution_bits is None and lp_kind(metric) is None:
        raise TypeError(f"input_metric ({metric}) must be influence_distance(), or dp.l1_distance or dp.l2_distance")
    if resolution_bits is None and atom.startswith("f"):
        raise TypeError(f"a signal of floats ({domain}) needs the influence metric, which knows their grid")
    if resolution_bits is not None and resolution_bits > 62 - _DIGIT_BITS:
        raise ValueError(
            f"a signal of {resolution_bits} bits behind the point leaves no room for its values; build the kernels with"
            f" fewer resolution_bits=…, {62 - _DIGIT_BITS} in all"
        )
    return resolution_bits or 0


@dataclass(frozen=True)
class _DyadicBasis:
    """The first rows of the orthonormal Fourier basis, rounded to multiples of ``2**-basis_bits``."""

    size: int
    frequencies: int
    basis_bits: int
    constant: float  #: ``2**basis_bits/√T``, a whole number
    cosine: NDArray[np.float64]  #: ``√(2/T)·cos(2πj/T)·2**basis_bits`` for ``j = 0 … T−1``, whole numbers
    sine: NDArray[np.float64]  #: the same of the sine

    @classmethod
    def of(cls, size: int, frequencies: int) -> _DyadicBasis:
        # Exactness: a row of an orthonormal matrix has Σ_t |F_t| ≤ √T, and rounding adds at most T units to it.
        # So with √T·2^basis_bits + T ≤ 2^33 and digits of at most 2^20, no partial sum exceeds 2^53.
        room = 2.0 ** (53 - _DIGIT_BITS) - size
        basis_bits = min(30, math.floor(math.log2(room / math.sqrt(size)) - 1e-9)) if room > 0 else 0
        if basis_bits < 1:
            raise ValueError(f"a signal of {size} steps is too long for exact Fourier sums")
        angles = 2 * np.pi * np.arange(size) / size
        amplitude = math.sqrt(2 / size) * 2.0**basis_bits
        return cls(
            size,
            frequencies,
            basis_bits,
            float(round(2.0**basis_bits / math.sqrt(size))),
            np.rint(amplitude * np.cos(angles)),
            np.rint(amplitude * np.sin(angles)),
        )

    @property
    def entry_error(self) -> float:
        """How far an entry is at most from the ideal basis."""
        # Half a unit by rounding; before it, sine and cosine are within 8 units in the last place of 1 and
        # the amplitude is at most 2^31: far below 2^-14 of a unit.
        return (0.5 + 2.0**-14) * 2.0**-self.basis_bits

    def coefficients(self, numerators: NDArray[np.int64], resolution_bits: int) -> NDArray[np.float64]:
        """Apply the basis to the signal ``numerators·2**-resolution_bits``: exact but for one final rounding.

        The numerators are at most ``2**(20 + resolution_bits)`` in size.
        """
        # The lower digits are in [0, 2^20); the last keeps the sign, and is within ±2^20 as its exponent has
        # reached the resolution.
        totals = [0] * (2 * self.frequencies - 1)
        rest = numerators
        for exponent in range(0, resolution_bits + _DIGIT_BITS, _DIGIT_BITS):
            digits = rest if exponent >= resolution_bits else rest & (_MAX_VALUE - 1)
            rest = rest >> _DIGIT_BITS
            for j, total in enumerate(self._exact_sums(digits.astype(np.float64))):
                totals[j] += int(total) << exponent
        # Division of Python integers rounds once, correctly; for counts the quotient is exact.
        unit = 1 << (self.basis_bits + resolution_bits)
        return np.array([total / unit for total in totals], dtype=np.float64)

    def _exact_sums(self, digits: NDArray[np.float64]) -> list[float]:
        sums = [self.constant * float(digits.sum())]
        step = np.arange(self.size)
        at = np.zeros(self.size, dtype=np.int64)
        for _ in range(1, self.frequencies):
            at = (at + step) % self.size
            sums += [float(self.cosine[at] @ digits), float(self.sine[at] @ digits)]
        return sums

    def rounding(self, resolution_bits: int) -> float:
        """How far the final rounding moves the difference of two results, in each coefficient."""
        if resolution_bits == 0:
            return 0.0
        largest = (math.sqrt(self.size) + self.size * self.entry_error) * _MAX_VALUE
        return 2.0 * largest * 2.0**-53 * (1.0 + 2.0**-20)


def _stability(
    metric: native.Metric, output: native.Metric, basis: _DyadicBasis, resolution_bits: int
) -> Callable[[Any], float]:
    size, k, error = basis.size, basis.frequencies, basis.entry_error
    n = 2 * k - 1
    to_l1 = lp_kind(output) == ("l1", "f64")
    rounding = basis.rounding(resolution_bits) * (n if to_l1 else math.sqrt(n))
    kind = lp_kind(metric)

    def distance(d_in: Any) -> float:
        if kind is None:
            return (influence_l1 if to_l1 else influence_l2)(d_in, size, k, entry_error=error)
        # Of a plain norm nothing is known but ‖v‖₂ ≤ ‖v‖₁ ≤ √T·‖v‖₂.
        given = up_fraction(d_in) if isinstance(d_in, int) else float(d_in)
        l1 = given if kind[0] == "l1" else up(math.sqrt(size) * given, 2)
        return (coefficients_l1 if to_l1 else coefficients_l2)(size, k, l0=size, l1=l1, l2=given, entry_error=error)

    def stability(d_in: Any) -> float:
        moved = distance(d_in)
        # Equal signals have equal coefficients: rounding can part only signals that differ.
        return up(moved + rounding) if moved and rounding else moved

    return stability


def fourier_series(coefficients: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the series of ``size`` steps whose first Fourier coefficients are given, the others being zero.

    Post-processing: behind a measurement, ``>> functools.partial(fourier_series, size=T)``.

    :param coefficients: ``2k − 1`` numbers, noisy or not, in the order of :func:`make_fourier_coefficients`.
    :param size: ``T``, at least ``2k − 1``.
    :return: float64 array of ``size`` values, in the signal's unit.
    :raises ValueError: if the number of coefficients is even, or exceeds ``size``.

    >>> fourier_series(np.array([6.0, 0.0, 0.0]), size=4).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    size = check.integer("size", size, minimum=1)
    values = np.asarray(coefficients, dtype=np.float64)
    if values.ndim != 1 or len(values) % 2 == 0 or len(values) > size:
        raise ValueError(f"coefficients (shape {values.shape}) must be an odd number of values, at most size ({size})")
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[0] = values[0] * math.sqrt(size)
    spectrum[1 : (len(values) + 1) // 2] = (values[1::2] - 1j * values[2::2]) * math.sqrt(size / 2)
    return np.fft.irfft(spectrum, n=size)
