"""Step 3: keep a random subset of steps, add Gaussian noise there, and state the privacy loss.

Koga, Meehan & Chaudhuri (2022), "Privacy Amplification by Subsampling in Time Domain", Algorithm 1, with the
accounting of :mod:`opendp_timeseries.accounting.subsampled`. Proof: docs/proofs/subsampled_gaussian.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._opendp import lp_kind, privacy_profile, then, vector_space
from opendp_timeseries.accounting.gaussian import DISCRETE_NOISE
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up
from opendp_timeseries.accounting.subsampled import ExtremalLaw, extremal_law
from opendp_timeseries.release import Release
from opendp_timeseries.spaces import as_influence, influence_resolution

__all__ = ["make_subsampled_gaussian", "sampling_threshold", "then_subsampled_gaussian"]

#: σ/γ is at least 2**24, as :data:`~.gaussian.DISCRETE_NOISE` needs.
_GRID_BITS: Final = 24
#: Signals off any known grid are rounded to one so fine that the step is invisible beside σ.
_ROUNDING_BITS: Final = 50
#: Below this scale the noise grid would need steps finer than the least float: the loss is called infinite.
_LEAST_SCALE: Final = 2.0**-1000
#: Kept steps are those whose 53 random bits fall below p·2**53, so p is a multiple of 2**-53.
_COIN_BITS: Final = 53


class _Signal(NamedTuple):
    """What is public about the signal: its size, and how its entries lie on a dyadic grid."""

    size: int
    resolution_bits: int | None  # None: the entries are arbitrary floats, rounded to the noise grid
    influence: Callable[[Any], Influence]  # the metric's distance as an influence


def _read_space(domain: dp.Domain, metric: dp.Metric) -> _Signal:
    space = vector_space(domain)
    bits = influence_resolution(metric)
    whole = not space.atom.startswith("f")
    if bits is not None:
        if whole and bits != 0:
            raise ValueError(f"input_metric ({metric}) does not fit whole numbers; use influence_distance()")
        return _Signal(space.size, bits, as_influence)
    kind = lp_kind(metric)
    if kind is None or kind[0] != "l2":
        raise TypeError(
            f"input_metric ({metric}) must be influence_distance() or dp.l2_distance(T=float); choose it as"
            " output_metric of the count"
        )
    return _Signal(space.size, 0 if whole else None, lambda d_in: _spread(d_in, space.size))


def _spread(d_in: Any, size: int) -> Influence:
    # An ℓ2 distance alone allows both extremes: all of it in one step, or spread over every step.
    distance = check.real("d_in", d_in, minimum=0.0)
    return Influence(l0=size, l2=distance, linf=distance, individuals=int(distance > 0))


def _noise_exponent(scale: float, resolution_bits: int | None) -> int:
    """Exponent k of the noise grid 2**k: from σ and the signal's grid alone, before any data."""
    if scale < _LEAST_SCALE:
        return -(resolution_bits or 0)
    fine = math.frexp(scale)[1] - 1
    if resolution_bits is None:
        return min(fine - _ROUNDING_BITS, 0)
    return min(fine - _GRID_BITS, -resolution_bits)


def _after_rounding(influence: Influence, size: int, step: float) -> Influence:
    # Two floats rounded to multiples of γ are at most γ further apart than they were, in every step
    # (docs/proofs/subsampled_gaussian.md, signals off the grid).
    if influence.individuals == 0:
        return influence
    l2 = up(influence.l2 + up(step * up(math.sqrt(size))))
    return Influence(l0=size, l2=l2, linf=l2)


def sampling_threshold(probability: float) -> tuple[int, float]:
    """Return the number below which 53 random bits keep a step, and the probability that they do, exactly."""
    threshold = math.ceil(probability * 2**_COIN_BITS)
    return threshold, threshold / 2**_COIN_BITS


def _keep_steps(size: int, threshold: int) -> NDArray[np.int64]:
    """Poisson sampling from the operating system's randomness: each step with probability threshold/2**53."""
    coins = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(64 - _COIN_BITS)
    return np.flatnonzero(coins < np.uint64(threshold))


def _add_noise(values: NDArray[np.float64], scale: float, exponent: int) -> NDArray[np.float64]:
    """OpenDP's discrete Gaussian on the grid 2**exponent; the values already lie on it, or are rounded to it."""
    if len(values) == 0:
        return values
    noise = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=len(values)),
        dp.l2_distance(T="f64"),
        scale=scale,
        k=exponent,
    )
    return np.array(noise(values), dtype=np.float64)


def _on_grid(values: NDArray[Any], resolution_bits: int | None) -> NDArray[np.float64]:
    """Values as float64, exact multiples of the grid. Clamping and rounding change no member of the domain."""
    signal = np.nan_to_num(np.asarray(values).astype(np.float64))
    if resolution_bits is None:
        return signal
    unit = 2.0**resolution_bits
    limit = 2.0**53 / unit
    return np.asarray(np.rint(np.clip(signal, -limit, limit) * unit) / unit, dtype=np.float64)


def make_subsampled_gaussian(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    scale: float,
    *,
    sampling_probability: float = check.REQUIRED,
    output_measure: dp.Measure | None = None,
    failure_probability: float | None = None,
    delta: float | None = None,
) -> dp.Measurement:
    """Keep each step with ``sampling_probability``, and release Gaussian-noised values at the kept steps.

    The result is a :class:`~opendp_timeseries.Release`: the kept steps, the noisy values there, and what is
    public about the noise. An empty selection is an ordinary outcome, and is never drawn again.

    Which loss the privacy map states is chosen by ``output_measure``:

    ================================================== ====================== ==============================
    output measure                                     needs                  the map returns
    ================================================== ====================== ==============================
    ``approximate(zero_concentrated_divergence())``     failure_probability    (ρ, attained δ′); the default
    ``renyi_divergence()``                              –                      the curve α ↦ Rényi divergence
    ``smoothed_max_divergence()``                       –                      the privacy profile δ(ε)
    ``approximate(max_divergence())``                   delta                  (ε, δ), read off the profile
    ================================================== ====================== ==============================

    The profile is exact for one individual without a filter. Between half and three quarters of the noise
    suffices where it, rather than approximate zCDP, is the basis of the guarantee.

    :param input_domain: vectors of integers or of floats (never NaN) of a fixed size ``T``.
    :param input_metric: ``influence_distance()``, or ``dp.l2_distance(T=float)``, which knows less.
    :param scale: standard deviation σ of the noise, in the signal's unit; 0 adds none and maps to infinity.
    :param sampling_probability: ``p`` in [0, 1], rounded up to a multiple of 2**-53; 1 is the Gaussian mechanism.
    :param output_measure: see the table.
    :param failure_probability: δ′ in (0, 1): how often the sample may catch more of one individual than is
        accounted for by ρ. Only for approximate zCDP.
    :param delta: δ in (0, 1). Only for ``approximate(max_divergence())``.
    :raises TypeError: for a wrong domain, metric or type of number.
    :raises ValueError: for a number out of range, or a parameter that the output measure does not use.

    At the edges: a distance of zero costs nothing, in every measure; ``scale=0`` costs infinity; infinity is
    also what does not converge. Source: Koga, Meehan & Chaudhuri (2022), Algorithm 1.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> release = count >> ts.then_subsampled_gaussian(
    ...     scale=2.0, sampling_probability=0.1, failure_probability=1e-6)
    >>> release.map(1)
    (0.875, 3.736...e-07)
    """
    # Flag: make_user_measurement asserts the features. Check:
    signal = _read_space(input_domain, input_metric)
    scale = check.real("scale", scale, minimum=0.0)
    probability = check.probability(
        "sampling_probability",
        check.required("sampling_probability", sampling_probability, "the share of steps to keep, such as 0.1"),
    )
    measure = output_measure or dp.approximate(dp.zero_concentrated_divergence())
    loss = _loss(measure, failure_probability=failure_probability, delta=delta)

    # Derive:
    threshold, probability = sampling_threshold(probability)
    exponent = _noise_exponent(scale, signal.resolution_bits)
    law_scale = scale if scale >= _LEAST_SCALE else 0.0
    step = 2.0**exponent

    # Close over:
    def function(values: Any) -> Release:
        kept = _keep_steps(signal.size, threshold)
        exact = _on_grid(np.asarray(values)[kept], signal.resolution_bits)
        return Release(
            steps=kept,
            values=_add_noise(exact, scale, exponent),
            size=signal.size,
            scale=scale,
            sampling_probability=probability,
        )

    def privacy_map(d_in: Any) -> Any:
        influence = signal.influence(d_in)
        if signal.resolution_bits is None:
            influence = _after_rounding(influence, signal.size, step)
        return loss(extremal_law(influence, probability, signal.size), law_scale)

    # Return:
    return dp.m.make_user_measurement(input_domain, input_metric, measure, function, privacy_map)


def _loss(
    measure: dp.Measure, *, failure_probability: float | None, delta: float | None
) -> Callable[[ExtremalLaw, float], Any]:
    """Choose the map: how the extremal law of an influence, and σ, become a loss in ``measure``."""
    name = str(measure.type) if isinstance(measure, dp.Measure) else ""
    needs = {
        "Approximate<ZeroConcentratedDivergence>": "failure_probability",
        "Approximate<MaxDivergence>": "delta",
        "RenyiDivergence": None,
        "SmoothedMaxDivergence": None,
    }
    if name not in needs:
        raise TypeError(
            f"output_measure ({measure}) is not one of approximate(zero_concentrated_divergence()),"
            " renyi_divergence(), smoothed_max_divergence(), approximate(max_divergence())"
        )
    for parameter, value in (("failure_probability", failure_probability), ("delta", delta)):
        if (value is not None) != (parameter == needs[name]):
            use = "needs" if value is None else "does not use"
            raise ValueError(f"output_measure ({measure}) {use} {parameter} ({value}); see the docstring's table")

    if name == "Approximate<ZeroConcentratedDivergence>":
        tail = check.real("failure_probability", failure_probability, above=0.0, below=1.0)
        return lambda law, scale: law.approximate_zcdp(tail, scale)
    if name == "Approximate<MaxDivergence>":
        target = check.real("delta", delta, above=0.0, below=1.0)
        return lambda law, scale: _epsilon_delta(law, target, scale)
    if name == "RenyiDivergence":
        # Holds for the discrete Gaussian as it stands (docs/proofs/subsampled_gaussian.md).
        return lambda law, scale: lambda alpha: law.renyi(alpha, scale)
    return lambda law, scale: privacy_profile(lambda epsilon: law.delta(epsilon, scale * DISCRETE_NOISE))


def _epsilon_delta(law: ExtremalLaw, delta: float, scale: float) -> tuple[float, float]:
    epsilon = law.epsilon(delta, scale * DISCRETE_NOISE)
    return (epsilon, delta) if law.delta(0.0, scale * DISCRETE_NOISE) > 0 else (0.0, 0.0)


then_subsampled_gaussian = then(make_subsampled_gaussian)
