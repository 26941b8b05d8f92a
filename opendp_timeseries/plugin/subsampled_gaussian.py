"""Keep a random subset of steps, add Gaussian noise there, and state the privacy loss.

Koga, Meehan & Chaudhuri (2022), "Privacy Amplification by Subsampling in Time Domain", Algorithm 1; and the same with
one step kept in each block. Proofs: docs/proofs/subsampled_gaussian.md and docs/proofs/extremal_law.md.
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._process import processors
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.budget import Budget, warn_of_large_delta
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED, PROFILE, RENYI, PrivacyLoss, View
from opendp_timeseries.accounting.rounding import up
from opendp_timeseries.accounting.sampling import COIN_BITS, Blocks, Sampling
from opendp_timeseries.accounting.subsampled import MIN_SCALE, extremal_law
from opendp_timeseries.design.design import Design, noise_exponent
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import callback, lp_kind, privacy_profile, signal_domain, then, vector_space
from opendp_timeseries.plugin.mechanisms import Mechanism, PackageMap, StatedDesign, statement_of
from opendp_timeseries.plugin.spaces import as_influence, influence_space, norm_influence
from opendp_timeseries.release.release import Release
from opendp_timeseries.release.statement import Parent

#: Noise is drawn for this many values at a time, some 60 ms of work.
_CHUNK: Final = 4096


class _Space(NamedTuple):
    """Public facts about signals: their size, how their entries lie on a dyadic grid, and how they were made."""

    size: int
    resolution_bits: int | None  # None: the entries are arbitrary floats, rounded to the noise grid
    influence: Callable[[object], Influence]  # the metric's distance as an influence
    origin: Signal | UnknownSignal


def _read_space(domain: dp.Domain, metric: dp.Metric) -> _Space:
    signal = vector_space(domain)
    unknown, is_integer = UnknownSignal(signal.size), not signal.atom.startswith("f")
    space = influence_space(metric)
    if space is not None:
        if is_integer and space.resolution_bits != 0:
            raise Refusal("input_metric", metric, "does not fit whole numbers", "use influence_distance()")
        return _Space(signal.size, space.resolution_bits, as_influence, space.signal or unknown)
    if (lp_kind(metric) or "")[:1] != ("l2",):
        needed = "influence_distance(), as of a count and the stages after it, or dp.l2_distance(T=float)"
        raise TypeRefusal("input_metric", metric, f"must be {needed}")
    return _Space(signal.size, 0 if is_integer else None, lambda d_in: norm_influence(d_in, signal.size), unknown)


def _after_rounding(influence: Influence, size: int, step: float) -> Influence:
    # Two floats rounded to multiples of γ are at most γ further apart than they were, in every step
    # (docs/proofs/subsampled_gaussian.md, signals off the grid).
    if influence.individuals == 0:
        return influence
    l2 = up(influence.l2 + up(step * up(math.sqrt(size))))
    return Influence(l0=size, l2=l2, linf=l2)


def sampling_threshold(sampling_probability: float) -> tuple[int, float]:
    """Return the number below which 53 random bits keep a step, and the probability that they do, exactly."""
    given = check.required("sampling_probability", sampling_probability, "the share of steps to keep, such as 0.1")
    probability = Sampling(probability=given).probability
    return int(probability * 2**COIN_BITS), probability


def _keep_steps(size: int, threshold: int) -> NDArray[np.int64]:
    """Keep each step with probability threshold/2**53, from the operating system's randomness."""
    coins = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(64 - COIN_BITS)
    return np.flatnonzero(coins < np.uint64(threshold))


def _keep_one_of_each(blocks: Blocks) -> NDArray[np.int64]:
    """Keep a uniformly random step of each block, or none of a short last block if the offset is beyond its end."""
    length, offsets = blocks.length, np.empty(0, dtype=np.uint64)
    while (missing := blocks.count - len(offsets)) > 0:
        words = np.frombuffer(os.urandom(8 * missing), dtype=np.uint64)
        # 2**64 is not a multiple of most lengths: what is beyond the last whole multiple is drawn again.
        offsets = np.append(offsets, words[words <= np.uint64(2**64 - 1 - 2**64 % length)] % np.uint64(length))
    steps = np.arange(blocks.count, dtype=np.int64) * length + offsets.astype(np.int64)
    return steps[steps < blocks.size]


class Sample(NamedTuple):
    """A sampling, with the probability that is accounted for, and the function that draws its steps."""

    sampling: Sampling
    draw: Callable[[], NDArray[np.int64]]


def sample_of(sampling_probability: float, sampling: str, size: int) -> Sample:
    """Return how ``size`` steps are sampled."""
    threshold, _ = sampling_threshold(sampling_probability)
    drawn_by = Sampling.of(sampling_probability, sampling)
    if (blocks := drawn_by.blocks(size)) is None:
        return Sample(drawn_by, lambda: _keep_steps(size, threshold))
    return Sample(replace(drawn_by, probability=blocks.probability), lambda: _keep_one_of_each(blocks))


def _add_noise(values: NDArray[np.float64], scale: float, exponent: int) -> NDArray[np.float64]:
    """Add OpenDP's discrete Gaussian on the grid 2**exponent; the values already lie on it, or are rounded to it."""

    def noised(chunk: NDArray[np.float64]) -> NDArray[np.float64]:
        space = signal_domain("f64", len(chunk)), dp.l2_distance(T="f64")
        return np.array(dp.m.make_gaussian(*space, scale=scale, k=exponent)(chunk), dtype=np.float64)

    if len(values) == 0:
        return values
    if len(values) <= _CHUNK or (workers := processors()) == 1:
        return noised(values)
    # Coordinates are independent in one call as in several, and OpenDP lets go of Python's lock.
    chunks = np.split(values, range(_CHUNK, len(values), _CHUNK))
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(noised, chunks)))


def _on_grid(values: NDArray[np.int64 | np.float64], resolution_bits: int | None) -> NDArray[np.float64]:
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
    sampling: str = "poisson",
    output_measure: dp.Measure | None = None,
    failure_probability: float | None = None,
    delta: float | None = None,
) -> dp.Measurement:
    """Keep each step with ``sampling_probability``, and release Gaussian-noised values at the kept steps.

    The result is a :class:`~opendp_timeseries.Release`. It may hold no step at all: the selection is never redrawn.

    Each step is kept independently, as in the paper, or, with ``sampling="stratified"``, one uniformly random step of
    each block of ``B = 1/p``. Then kept steps are at most ``2B − 1`` apart, so that no long holes are interpolated, and
    the noise is the same where δ is far below ε.

    The privacy map states one view of one loss. Without further parameters that is the whole privacy profile, which
    is exact for one individual and a count that drops, without a filter; ``delta`` reads (ε, δ) off it,
    ``failure_probability`` chooses approximate zCDP, as in the paper, and ``output_measure`` names a view:

    ================================================== ====================== ==============================
    output measure                                     needs                  the map returns
    ================================================== ====================== ==============================
    ``smoothed_max_divergence()``                       –                      the privacy profile δ(ε); the default
    ``approximate(max_divergence())``                   delta                  (ε, δ), read off the profile
    ``approximate(zero_concentrated_divergence())``     failure_probability    (ρ, attained δ′)
    ``zero_concentrated_divergence()``                  every step kept        ρ
    ``renyi_divergence()``                              –                      the curve α ↦ Rényi divergence
    ================================================== ====================== ==============================

    In a :func:`~opendp_timeseries.compositor`, leave all of these out, and the scale: the query takes its own share.

    :param input_domain: vectors of integers or of floats (never NaN) of a fixed size ``T``.
    :param input_metric: ``influence_distance()``, or ``dp.l2_distance(T=float)``, which knows less.
    :param scale: standard deviation σ of the noise, in the signal's unit; 0 adds none and maps to infinity.
        :func:`~opendp_timeseries.least_scale` finds it.
    :param sampling_probability: ``p`` in [0, 1], rounded up to a multiple of 2**-53; 1 is the Gaussian mechanism.
        With ``sampling="stratified"``, one over a whole number of steps ``B``, at most ``T``.
    :param sampling: ``"poisson"`` or ``"stratified"``. Blocks run on from one series of a panel to the next.
    :param output_measure: see the table.
    :param failure_probability: δ′ in (0, 1): how often the sample may catch more of one individual than is
        accounted for by ρ.
    :param delta: δ in (0, 1). Above 1e-3, as for δ′, it warns: :class:`~opendp_timeseries.LargeDeltaWarning`.
    :raises TypeError: for a wrong domain, metric or type of number.
    :raises ValueError: for a number out of range, or a parameter that the output measure does not use.

    A distance of zero costs nothing in every measure; ``scale=0``, and what does not converge, costs infinity.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> (count >> ts.then_subsampled_gaussian(scale=2.0, sampling_probability=0.1)).map(1).delta(1.0)
    0.0167...
    >>> (count >> ts.then_subsampled_gaussian(scale=2.0, sampling_probability=0.1, delta=1e-6)).map(1)
    (4.07..., 1e-06)
    """
    view = view_of(output_measure, failure_probability, delta)
    signal = _read_space(input_domain, input_metric)
    sample = sample_of(sampling_probability, sampling, signal.size)
    design = Design(signal=signal.origin, sampling=sample.sampling, scale=scale)
    check_room(view, [design])
    return make_part(input_domain, input_metric, design, view)


def make_part(
    input_domain: dp.Domain, input_metric: dp.Metric, design: Design, view: View, parent: Parent | None = None
) -> dp.Measurement:
    """Return the subsampled Gaussian of a design behind its signal, whose release says what its parent is."""
    signal, scale = _read_space(input_domain, input_metric), design.scale
    sample = sample_of(design.sampling.probability, design.sampling.name, signal.size)
    exponent = noise_exponent(scale, signal.resolution_bits)

    def function(values: object) -> Release:
        steps = sample.draw()
        noisy = _add_noise(_on_grid(np.asarray(values)[steps], signal.resolution_bits), scale, exponent)
        run, statement = statement_of(design, view, parent)
        return Release(steps=steps, values=noisy, design=run, statement=statement)

    def loss(d_in: object) -> PrivacyLoss:
        return _loss(signal, d_in, sample.sampling, scale)

    def times(factor: float) -> dp.Measurement:
        return make_part(input_domain, input_metric, replace(design, scale=scale * factor), view)

    mechanism = Mechanism(loss, times, (StatedDesign(design, view),))
    return measurement_of(input_domain, input_metric, view, function, mechanism)


def measurement_of(
    domain: dp.Domain, metric: dp.Metric, view: View, function: Callable[[object], object], mechanism: Mechanism
) -> dp.Measurement:
    """Return a measurement of which it is known how it was made, whose map states a view of its loss."""

    def privacy_map(d_in: object) -> object:
        loss = mechanism.loss(d_in)
        if view.measure == RENYI:
            return loss.renyi
        if view.measure == PROFILE:
            return privacy_profile(loss.delta)
        ((first, second),) = view.points(loss)
        return first if view.is_zero_concentrated else (first, second)

    measure = dp.zero_concentrated_divergence() if view.is_zero_concentrated else _MEASURES[view.measure]()
    return dp.m.make_user_measurement(domain, metric, measure, callback(function), PackageMap(privacy_map, mechanism))


def check_room(view: View, designs: Sequence[Design]) -> None:
    """Refuse to state ρ alone of sampled steps: it would be what is lost where the sample catches everything."""
    for design in designs:
        if view.is_zero_concentrated and (p := design.sampling.probability) < 1:
            raise Refusal(
                "sampling_probability",
                Quoted(f"{p:g}"),
                "must be 1 in zero_concentrated_divergence(), as with a sample some δ is lost",
                "release every step, or choose a measure or a budget with δ",
            )


def _loss(signal: _Space, d_in: object, sampling: Sampling, scale: float) -> PrivacyLoss:
    influence = signal.influence(d_in)
    if signal.resolution_bits is None:
        influence = _after_rounding(influence, signal.size, 2.0 ** noise_exponent(scale, None))
    law = extremal_law(influence, sampling.probability, signal.size, sampling.name)
    return law.at(scale if scale >= MIN_SCALE else 0.0)


#: OpenDP's measure of each view; of approximate zCDP, that with a δ′.
_MEASURES: Final[dict[str, Callable[[], dp.Measure]]] = {
    PROFILE: dp.smoothed_max_divergence,
    APPROXIMATE: lambda: dp.approximate(dp.max_divergence()),
    CONCENTRATED: lambda: dp.approximate(dp.zero_concentrated_divergence()),
    RENYI: dp.renyi_divergence,
}


def view_of(measure: dp.Measure | None, failure_probability: float | None, delta: float | None) -> View:
    """Return the view of the loss that is stated: by its measure, or by the one parameter that is given."""
    if measure == dp.zero_concentrated_divergence():
        if (given := failure_probability if delta is None else delta) is not None:
            name = "failure_probability" if delta is None else "delta"
            raise Refusal("output_measure", measure, f"does not use {name} ({check.quote(given)})", "leave it out")
        return View(CONCENTRATED, failure_probability=0.0)
    if failure_probability is not None:
        remedy = "use `output_measure=dp.zero_concentrated_divergence()` where every step is kept"
        check.real("failure_probability", failure_probability, above=0.0, below=1.0, remedy=remedy)
    if measure is None:
        name = CONCENTRATED if failure_probability is not None else PROFILE if delta is None else APPROXIMATE
    else:
        name = next((name for name, make in _MEASURES.items() if make() == measure), "")
    if not name:
        raise TypeRefusal(
            "output_measure",
            measure,
            "must be one of smoothed_max_divergence(), approximate(max_divergence()),"
            " approximate(zero_concentrated_divergence()), zero_concentrated_divergence(), renyi_divergence()",
        )
    view = View(name, failure_probability=failure_probability, delta=delta)
    warn_of_large_delta(failure_probability if delta is None else delta, stacklevel=3)
    return view


then_subsampled_gaussian = then(make_subsampled_gaussian)


def least_scale(
    chain: dp.Transformation,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    sampling_probability: float = check.REQUIRED,
    sampling: str = "poisson",
    d_in: object = 1,
) -> float:
    """Return the least noise scale σ with which the subsampled Gaussian behind a chain is (ε, δ)-private, rounded up.

    :param chain: a count, with or without filters.
    :param epsilon: ε, not negative.
    :param delta: δ, in (0, 1); beside ρ the failure probability.
    :param rho: ρ in place of ε, for approximate zCDP; or for zCDP, with no δ, if every step is kept.
    :param sampling_probability: ``p``, with ``sampling`` as in :func:`~opendp_timeseries.make_subsampled_gaussian`.
    :param d_in: distance between neighbouring inputs of the chain, such as the number of individuals.
    :return: σ in the signal's unit; 0 if nothing is lost without noise.
    :raises TypeError, ValueError: for a chain or a number that the measurement does not take, or if no scale reaches
        the budget.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=1800), participation_cap=180)
    >>> round(ts.least_scale(count, epsilon=0.5, delta=1e-4, sampling_probability=0.1), 6)
    26.085969
    >>> round(ts.least_scale(count, epsilon=0.5, delta=1e-4, sampling_probability=0.1, sampling="stratified"), 6)
    26.085969
    >>> round(ts.least_scale(count, rho=0.1, sampling_probability=1), 6)  # √(180/0.2)
    30.0
    """
    if not isinstance(chain, dp.Transformation):
        raise TypeRefusal(
            "chain", Quoted(type(chain).__name__), "must be a Transformation: a count, with or without filters"
        )
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho)
    return least_scale_at(*chain.output_space, chain.map(d_in), budget, sampling_probability, sampling)


def least_scale_at(
    domain: dp.Domain,
    metric: dp.Metric,
    d_in: object,
    budget: Budget,
    sampling_probability: float,
    sampling: str = "poisson",
) -> float:
    """Return the least noise scale σ within a budget, for a space and a distance in it."""
    signal = _read_space(domain, metric)
    sample = sample_of(sampling_probability, sampling, signal.size).sampling
    if budget.delta == 0:
        check_room(
            View(CONCENTRATED, failure_probability=0.0), [Design(signal=signal.origin, sampling=sample, scale=1)]
        )
    return calibrate(lambda scale: _loss(signal, d_in, sample, scale), budget)
