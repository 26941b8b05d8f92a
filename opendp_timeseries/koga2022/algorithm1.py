"""Algorithm 1 of Koga, Meehan & Chaudhuri (2022) as a single measurement, with the guarantee that the paper states.

For comparison: a chain of filter and subsampled Gaussian makes the same release, with a tighter map.
Proof: docs/proofs/koga2022.md.
"""

import math

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.loss import DISCRETE_NOISE
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.koga2022 import bounds
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin._opendp import then, vector_space
from opendp_timeseries.plugin.circulant_filter import then_circulant_filter
from opendp_timeseries.plugin.mechanisms import PackageMap
from opendp_timeseries.plugin.spaces import as_influence, influence_space
from opendp_timeseries.plugin.subsampled_gaussian import sampling_threshold, then_subsampled_gaussian


def make_koga2022(
    input_domain: native.Domain,
    input_metric: native.Metric,
    scale: float,
    *,
    alpha: float = check.REQUIRED,
    sampling_probability: float = check.REQUIRED,
    kernel: Kernel | None = None,
    tail: bounds.Tail = "theorem 4",
    output_measure: native.Measure | None = None,
    delta: float | None = None,
) -> native.Measurement:
    """Make Algorithm 1 of the paper: filter, sample and add noise, with the paper's own privacy map.

    It makes the same release as ``then_circulant_filter(kernel) >> then_subsampled_gaussian(scale, …)``. By the map,
    except on an event of probability δ′, an individual moves the sampled signal by at most ``α√I`` (Theorem 4, with a
    filter) or ``√⌈α²I⌉`` (Theorem 2, without).

    :param input_domain: counts, ``vector_domain(atom_domain(T="i64"), size=T)``.
    :param input_metric: ``influence_distance()``, as of counts.
    :param scale: standard deviation σ of the noise.
    :param alpha: α in (0, 1].
    :param sampling_probability: ``p``.
    :param kernel: the filter, with ‖h‖₁ = 1; None for sampling only.
    :param tail: bound on the failure probability with a filter: as printed, ``"sharper"``, or for a ``"fixed pair"``.
    :param output_measure: ``approximate(zero_concentrated_divergence())`` (default; the map returns (ρ, δ′)), or
        ``approximate(max_divergence())``: (ε, δ) by Corollary 2 or 3, infinite where they prove nothing.
    :param delta: δ, for ``approximate(max_divergence())`` only.
    :raises TypeError: for a wrong domain, metric or measure.
    :raises ValueError: for a number out of range, or a kernel whose ‖h‖₁ is not 1.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> from opendp_timeseries.koga2022.algorithm1 import then_koga2022
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> grid = ts.TimeGrid(size=1800)
    >>> count = space >> ts.then_participation_count(grid, participation_cap=180, excess="drop")
    >>> theirs = count >> then_koga2022(
    ...     52.944, alpha=(36 / 180) ** 0.5, sampling_probability=0.1,
    ...     output_measure=dp.approximate(dp.max_divergence()), delta=1e-4)
    >>> ours = count >> ts.then_subsampled_gaussian(
    ...     26.086, sampling_probability=0.1,
    ...     output_measure=dp.approximate(dp.max_divergence()), delta=1e-4)
    >>> theirs.map(1), ours.map(1)
    ((0.500..., 0.0001), (0.499..., 0.0001))
    """
    alpha = check.real("alpha", check.required("alpha", alpha, "the paper's α in (0, 1]"), above=0.0, maximum=1.0)
    space = influence_space(input_metric)
    if space is None or (space.resolution_bits, space.panel_size) != (0, 1):
        raise TypeRefusal("input_metric", input_metric, "must be influence_distance(), as counts of one series have it")
    size = vector_space(input_domain).size
    concentrated = native.approximate(native.zero_concentrated_divergence())
    measure = concentrated if output_measure is None else output_measure
    if measure != (concentrated if delta is None else native.approximate(native.max_divergence())):
        raise Refusal(
            "output_measure",
            measure,
            f"with delta ({delta}) must be approximate(zero_concentrated_divergence()) without delta, or"
            " approximate(max_divergence()) with it",
        )
    if delta is not None:
        delta = check.real("delta", delta, above=0.0, below=1.0)
    _, probability = sampling_threshold(sampling_probability)
    constants = None if kernel is None else bounds.filter_constants(kernel)

    def bound(steps: int) -> bounds.SensitivityBound:
        if constants is None:
            return bounds.without_filter(bounds.kept_steps(alpha, steps), steps, probability)
        return bounds.with_filter(alpha, steps, probability, constants, tail)

    bound(1)  # refuses parameters that the paper does not cover
    signal = input_domain, input_metric
    noise = then_subsampled_gaussian(
        scale, sampling_probability=sampling_probability, output_measure=native.renyi_divergence()
    )
    mechanism = signal >> noise if kernel is None else signal >> then_circulant_filter(kernel) >> noise

    def privacy_map(d_in: object) -> tuple[float, float]:
        influence = as_influence(d_in)
        if influence.individuals == 0:
            return 0.0, 0.0
        steps, factor = _steps_and_factor(influence, size, joined=kernel is None)
        claim = bound(steps).times(factor)
        if delta is None:
            return claim.zero_concentrated(float(scale))
        return claim.least_epsilon(scale * DISCRETE_NOISE, delta), delta

    return native.make_user_measurement(*signal, measure, mechanism.invoke, PackageMap(privacy_map))


then_koga2022 = then(make_koga2022)


def _steps_and_factor(influence: Influence, size: int, *, joined: bool) -> tuple[int, int]:
    """Return steps in place of the paper's ``I``, and the difference in each, for several individuals.

    Theorem 2 counts the steps that *any* of them is in; Theorem 4 bounds the norm of a sum of vectors of ``I`` steps.
    """
    steps = min(influence.l0 * (influence.individuals if joined else 1), size)
    return steps, math.ceil(influence.linf) * influence.individuals
