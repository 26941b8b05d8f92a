"""The DFT baseline: the first Fourier coefficients of a signal, and the series that they describe.

Rastogi & Nath (2010) add noise to the first ``k`` coefficients and set the others to zero. Here the coefficients are a
stable transformation, the noise is OpenDP's own, and the inverse is post-processing::

    invert = functools.partial(fourier_series, size=T)
    count >> then_fourier_coefficients(20) >> dp.m.then_gaussian(scale) >> invert

That is as in Koga et al. (2022); the original form has Laplace noise.

Someone in few steps moves the low frequencies little, while both papers charge the full norm of the change: with ``P``
the circulant projection on ``n = 2k − 1`` coefficients, a change ``v`` of ``s`` steps moves them by at most
``‖v‖₂·√top_s(|P|)``, with the sum of the ``s`` largest, and ``‖v‖₁·√(n/T)``. Proof: docs/proofs/koga2022.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.filtering import max_separated_steps, row_sum
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up, up_fraction
from opendp_timeseries.design.weighting import Drop
from opendp_timeseries.koga2022.bounds import analytic_scale
from opendp_timeseries.planning import Candidate, Plan
from opendp_timeseries.planning.signal import copies
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin._opendp import lp_kind, signal_domain, then, vector_space
from opendp_timeseries.plugin.spaces import as_influence, influence_space, norm_influence

__all__ = ["best_frequencies", "fourier_design", "fourier_series", "influence_l2", "l1_from_l2"]
__all__ += ["make_fourier_coefficients", "then_fourier_coefficients"]

_EPS: Final = 2.0**-52
#: Signals are clamped to ±2^20, so that every sum over counts is exact in float64.
_VALUE_BITS: Final = 20
_MAX_VALUE: Final = 2**_VALUE_BITS


def make_fourier_coefficients(
    input_domain: native.Domain,
    input_metric: native.Metric,
    frequencies: int,
    *,
    output_metric: native.Metric | None = None,
) -> native.Transformation:
    """Return the ``2k − 1`` real coefficients of the first ``k`` frequencies, in an orthonormal basis.

    In the order: mean (the sum divided by ``√T``), then cosine and sine of ``1 … k−1`` cycles per signal.
    The output domain is ``vector_domain(atom_domain(T="f64", nan=False), size=2k−1)``. Inputs are clamped to ±2^20.

    The map holds for the computed numbers, including the rounding of the basis and of the result. Behind the influence
    metric it uses that a step in ``T`` moves the coefficients by ``√((2k−1)/T)`` in ℓ2, not by 1.

    :param input_domain: counts or a filtered signal, ``T`` steps.
    :param input_metric: ``influence_distance()``, ``dp.l1_distance(T=…)`` or ``dp.l2_distance(T=…)``;
        a filtered signal needs the influence metric, which knows its grid.
    :param frequencies: ``k``, public, with ``2k − 1 ≤ T``: 20 is usual in comparisons; or the best for a public series
        that resembles the private series, by :func:`best_frequencies`.
    :param output_metric: ``dp.l2_distance(T=float)`` (default) for ``dp.m.then_gaussian``, or
        ``dp.l1_distance(T=float)`` for ``dp.m.then_laplace``.
    :raises TypeError: for a wrong domain, metric or type of number.
    :raises ValueError: if there are fewer than ``2k − 1`` steps.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=5, excess="drop")
    >>> coefficients = count >> then_fourier_coefficients(20)
    >>> round(coefficients.map(1), 4)  # the count itself moves by the square root of 5, 2.2361
    0.7354
    """
    space = vector_space(input_domain)
    size, largest = space.size, (space.size + 1) // 2
    k = check.integer("frequencies", frequencies, minimum=1, maximum=largest, remedy="public; see best_frequencies")
    bits = _resolution_bits(input_domain, input_metric, space.atom)
    output = native.l2_distance(T="f64") if output_metric is None else output_metric
    if lp_kind(output) not in (("l1", "f64"), ("l2", "f64")):
        raise TypeRefusal("output_metric", Quoted(output), "must be dp.l2_distance(T=float) or dp.l1_distance(T=float)")
    to_l1, norm = lp_kind(output) == ("l1", "f64"), lp_kind(input_metric)
    basis = _DyadicBasis(size, k)
    rounding = basis.rounding(bits) * (2 * k - 1 if to_l1 else math.sqrt(2 * k - 1))

    def function(values: ArrayLike) -> NDArray[np.float64]:
        signal = np.clip(np.nan_to_num(np.asarray(values).astype(np.float64)), -_MAX_VALUE, _MAX_VALUE)
        return basis.coefficients(np.rint(signal * 2.0**bits).astype(np.int64), bits)

    def stability_map(d_in: object) -> float:
        # An ℓ1 distance leads to the largest ℓ2 norm if it is all in one step.
        influence = as_influence(d_in) if norm is None else norm_influence(d_in, size if norm[0] == "l2" else 1)
        distance = influence_l2(influence, size, k, entry_error=basis.entry_error)
        distance = l1_from_l2(distance, k) if to_l1 else distance
        # Equal signals have equal coefficients: rounding adds distance only to signals that differ.
        return up(distance + rounding) if distance and rounding else distance

    domain = signal_domain("f64", 2 * k - 1)
    return native.make_user_transformation(input_domain, input_metric, domain, output, function, stability_map)


then_fourier_coefficients = then(make_fourier_coefficients)


def _resolution_bits(domain: native.Domain, metric: native.Metric, atom: str) -> int:
    """Return the number of binary places in the entries of the signal."""
    space = influence_space(metric)
    if space is None:
        if lp_kind(metric) is None:
            raise TypeRefusal(
                "input_metric", metric, "must be influence_distance(), or dp.l1_distance or dp.l2_distance"
            )
        if atom.startswith("f"):
            raise TypeRefusal("a signal of floats", domain, "needs the influence metric, which knows their grid")
        return 0
    if space.panel_size != 1:
        raise TypeRefusal("input_metric", metric, "must be of one series", "count each key of a panel by itself")
    if space.resolution_bits > 62 - _VALUE_BITS:
        raise Refusal(
            f"a signal of {space.resolution_bits} bits behind the point",
            ...,
            "leaves no room for its values",
            f"build the kernels with fewer `resolution_bits=…`, {62 - _VALUE_BITS} in all",
        )
    return space.resolution_bits


class _DyadicBasis:
    """The first rows of the orthonormal Fourier basis, rounded to multiples of ``2**-basis_bits``: whole numbers."""

    def __init__(self, size: int, frequencies: int) -> None:
        # Exactness: a row of an orthonormal matrix has Σ_t |F_t| ≤ √T, and rounding adds at most T units to it.
        # So with √T·2^basis_bits + T ≤ 2^33 and counts of at most 2^20, no partial sum exceeds 2^53.
        room = 2.0 ** (53 - _VALUE_BITS) - size
        self.basis_bits = min(30, math.floor(math.log2(room / math.sqrt(size)) - 1e-9)) if room > 0 else 0
        if self.basis_bits < 1:
            raise Refusal(f"a signal of {size} steps", ..., "is too long for exact Fourier sums", "take longer steps")
        self.size, self.frequencies = size, frequencies
        angles = 2 * np.pi * np.arange(size) / size
        amplitude = math.sqrt(2 / size) * 2.0**self.basis_bits
        self.constant = float(round(2.0**self.basis_bits / math.sqrt(size)))
        self.cosine, self.sine = np.rint(amplitude * np.cos(angles)), np.rint(amplitude * np.sin(angles))

    @property
    def entry_error(self) -> float:
        """Bound on the distance of an entry from the ideal basis."""
        # Half a unit by rounding; before it, sine and cosine are within 8 units in the last place of 1 and
        # the amplitude is at most 2^31: far below 2^-14 of a unit.
        return (0.5 + 2.0**-14) * 2.0**-self.basis_bits

    def coefficients(self, numerators: NDArray[np.int64], resolution_bits: int) -> NDArray[np.float64]:
        """Apply the basis to the signal ``numerators·2**-resolution_bits``: exact except for a final rounding."""
        # For counts, all sums are of whole numbers within 2^53; for other signals, of Python's integers.
        exact = np.float64 if resolution_bits == 0 else object
        signal, cosine, sine = (row.astype(np.int64).astype(exact) for row in (numerators, self.cosine, self.sine))
        totals = [int(self.constant) * int(signal.sum())]
        for frequency in range(1, self.frequencies):
            at = frequency * np.arange(self.size) % self.size
            totals += [int(cosine[at] @ signal), int(sine[at] @ signal)]
        # Division of Python integers rounds once, correctly; for counts the quotient is exact.
        unit = 1 << (self.basis_bits + resolution_bits)
        return np.array([total / unit for total in totals], dtype=np.float64)

    def rounding(self, resolution_bits: int) -> float:
        """Return a bound on the effect of the final rounding on the difference of two results, in each coefficient."""
        if resolution_bits == 0:
            return 0.0
        largest = (math.sqrt(self.size) + self.size * self.entry_error) * _MAX_VALUE
        return 2.0 * largest * 2.0**-53 * (1.0 + 2.0**-20)


def influence_l2(influence: Influence, size: int, frequencies: int, *, entry_error: float = 0.0) -> float:
    """Return the ℓ2 distance of the first ``k`` coefficients of two signals within ``influence``, rounded up.

    :param size: ``T``, steps of the signals.
    :param entry_error: bound on the distance of an entry of the applied matrix from the ideal basis.
    """
    if 0 in (influence.individuals, influence.l0, influence.l2, influence.linf):
        return 0.0
    n = 2 * frequencies - 1
    l1 = up(min(influence.l0 * influence.linf, math.sqrt(influence.l0) * influence.l2), 2)
    if math.isinf(l1):
        return math.inf
    sums = min(_row_sums(size, n)[min(influence.l0, size) - 1], _separated_row_sum(influence, size, n))
    ideal = min(math.sqrt(sums) * influence.l2, math.sqrt(n / size) * l1)
    single = up((ideal + math.sqrt(n) * entry_error * l1) * (1.0 + 8 * _EPS))
    return up_fraction(influence.individuals * Fraction(single))


def l1_from_l2(distance: float, frequencies: int) -> float:
    """Return a bound on the ℓ1 distance of the coefficients of ``k`` frequencies within an ℓ2 distance, rounded up."""
    return up(math.sqrt(2 * frequencies - 1) * distance, 2) if distance else 0.0


def _separated_row_sum(influence: Influence, size: int, n: int) -> float:
    """Return an upper bound on a row sum of ``|P|`` over separated steps, doubled for two halves; 1 without a gap."""
    if influence.gap == 1:
        return 1.0
    steps, halves = (
        min(influence.l0_separated, max_separated_steps(size, influence.gap)),
        2 if influence.replaced else 1,
    )
    return float(halves * row_sum(_magnitudes(size, n), influence.gap, steps) * (1.0 + (size + 32) * _EPS))


@lru_cache(maxsize=8)
def _row_sums(size: int, n: int) -> NDArray[np.float64]:
    """Return upper bounds on ``min(1, top_s(|P|))`` for ``s = 1 … size``."""
    sums = np.cumsum(np.sort(_magnitudes(size, n))[::-1]) * (1.0 + (size + 32) * _EPS)
    sums = np.minimum(sums, 1.0)
    sums.flags.writeable = False
    return sums


def _magnitudes(size: int, n: int) -> NDArray[np.float64]:
    """Return ``|P|`` by shift, within a few units in the last place."""
    shift = np.arange(size)
    shift = np.minimum(shift, size - shift)
    # The numerator's argument is reduced modulo π by exact integers, to at most π/2 in magnitude: then sine and
    # quotient have a relative error of a few units in the last place, and cumulative sums of one unit per term.
    numerator = (n * shift) % size
    numerator = np.minimum(numerator, size - numerator)
    entries = np.full(size, n / size)
    entries[1:] = np.sin(np.pi * numerator[1:] / size) / np.sin(np.pi * shift[1:] / size) / size
    return entries


def fourier_series(coefficients: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the series of ``size`` steps with the given first Fourier coefficients; the further ones are zero.

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
        raise Refusal(
            "coefficients", Quoted(f"shape {values.shape}"), f"must be an odd number of values, at most size ({size})"
        )
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[0] = values[0] * math.sqrt(size)
    spectrum[1 : (len(values) + 1) // 2] = (values[1::2] - 1j * values[2::2]) * math.sqrt(size / 2)
    return np.fft.irfft(spectrum, n=size)


def best_frequencies(proxy: NDArray[np.float64], noise: Callable[[int], float]) -> int:
    """Return the number of frequencies with the least expected squared error for a **public** series.

    The error of ``k`` frequencies is the energy of the omitted ones, plus the variance of the noise on ``2k − 1``.

    :param proxy: a public series that resembles the private one: an earlier year, a simulation. The private series
        itself would leak.
    :param noise: function from ``k`` to the standard deviation of the noise on each coefficient, which is ``√2`` times
        the scale of Laplace noise.
    :return: ``k``; the smallest on a tie.
    :raises ValueError: if the series is not one row of finite numbers.

    >>> t = np.arange(100)
    >>> best_frequencies(50 + 9 * np.sin(2 * np.pi * 3 * t / 100), lambda k: 2.0)
    4
    """
    values = np.asarray(proxy, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.all(np.isfinite(values)):
        raise Refusal("proxy", ..., "must be one row of finite numbers, a public series")
    energy = np.abs(np.fft.rfft(values)) ** 2 / len(values)
    energy[1:] *= 2.0
    largest = (len(values) + 1) // 2
    residual = float(np.sum(values**2)) - np.cumsum(energy[:largest])
    errors = [residual[k - 1] + (2 * k - 1) * noise(k) ** 2 for k in range(1, largest + 1)]
    return int(np.argmin(errors)) + 1


def fourier_design(plan: Plan) -> Candidate:
    """Return the first ``k`` Fourier coefficients as a candidate for the setting of a plan, with the best ``k``.

    Its noise is the least by the exact Gaussian profile, for the bound on how far few steps move low frequencies. Both
    favour this baseline.

    :param plan: with a participation cap; steps beyond it are assumed to be dropped, and the error excludes that loss.
    :return: a candidate whose ``noise`` and ``bias`` are of the inverse transform; to print, ``plan.beside(...)``.

    >>> import opendp_timeseries as ts
    >>> plan = ts.plan(ts.TimeGrid(size=500), participation_cap=50, epsilon=1.0, delta=1e-6,
    ...     time_scale=40, deviation=30, sampling_probability=1.0, std=0.0)
    >>> print(plan.beside(fourier_design(plan)))
    500 steps, cap 50, (ε = 1, δ = 1e-06), departures of 30 within 40 steps
    design           scale  noise  bias   interpolated  smoothed
    every step       29.87  29.87  0      29.87         9.949
    private series   13.36  99.58  0      99.58         9.208
    Fourier, k = 18  29.87  7.904  8.036  11.27         10.66
    Best: private series, then a smoother: expected error 9.208.
    ...
    Fourier, k = 18: expected error 11.27.
    """
    capped = [candidate for candidate in plan.candidates if candidate.participation_cap]
    if not capped:
        raise Refusal("plan", ..., "must have a `participation_cap`: a few Fourier coefficients are of counts with one")
    best = min(capped, key=lambda candidate: candidate.smoothed)
    count = replace(plan.of(best).count, weighting=Drop(best.participation_cap or 1))
    signal, influence = plan.signal, count.influence(plan.individuals)
    size, power = signal.size, signal.spectrum_with_level()
    unit = analytic_scale(plan.epsilon, plan.delta, 1.0)
    energy = power * copies(size)
    residual = np.append(np.cumsum(energy[::-1])[-2::-1], 0.0)

    def design(k: int) -> Candidate:
        scale = unit * influence_l2(influence, size, k)
        shrunk = np.sum(energy[:k] * scale**2 / (power[:k] + scale**2)) + residual[k - 1]
        return Candidate(
            name=f"Fourier, k = {k}",
            sampling_probability=1.0,
            std=0.0,
            scale=scale,
            noise=scale * math.sqrt((2 * k - 1) / size),
            bias=math.sqrt(residual[k - 1] / size),
            smoothed=math.sqrt(float(shrunk) / size),
        )

    candidates = np.unique(np.geomspace(1, (size + 1) // 2, 48).astype(int)).tolist()
    return min(map(design, candidates), key=lambda candidate: candidate.interpolated)
