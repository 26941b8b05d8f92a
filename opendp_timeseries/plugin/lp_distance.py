"""From the influence metric to OpenDP's own distances, and so to its own noise (docs/proofs/foundations.md)."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up_fraction, up_sqrt, whole_distance
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import lp_kind, signal_domain, then, vector_space
from opendp_timeseries.plugin.mechanisms import transformation
from opendp_timeseries.plugin.spaces import InfluenceSpace, as_influence, influence_space


def make_lp_distance(input_domain: dp.Domain, input_metric: dp.Metric, output_metric: dp.Metric) -> dp.Transformation:
    """Measure how far individuals move a signal in one of OpenDP's own distances: an identity on the numbers.

    Counts, totals and filters have the influence metric, which amplification by subsampling needs. OpenDP's
    ``then_laplace`` needs an ℓ1 distance, or, of one number, an absolute distance; its ``then_gaussian`` an ℓ2
    distance; its ``then_noisy_max``, which says where the largest number is, an ℓ∞ distance. In a
    :func:`~opendp_timeseries.compositor` ``.laplace()``, ``.gaussian()`` and ``.noisy_max()`` do this by themselves.

    :param input_domain: the output of a count, a total, a filter or a histogram.
    :param input_metric: its influence metric.
    :param output_metric: ``dp.l1_distance(T=…)``, ``dp.l2_distance(T=…)`` or, of a signal of size 1, which becomes a
        plain number, ``dp.absolute_distance(T=…)``; with ``T`` float or, for whole numbers, int. Or
        ``dp.linf_distance(T=…)`` with the type of the numbers, ``"i64"`` or float; right behind a count of individuals
        added or removed also with ``monotonic=True``, as one of them moves all counts the same way: half of the noise.
    :raises TypeError: for any other metric, naming it and the remedy.
    :raises ValueError: for an ℓ1 distance behind a count of people weighed down in ℓ2, or a monotonic distance where
        numbers may move both ways, naming the remedy.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2, excess="drop")
    >>> (count >> ts.then_lp_distance(dp.l1_distance(T=int)) >> dp.m.then_laplace(4.0)).map(1)
    0.5
    >>> people = space >> ts.then_individual_count() >> ts.then_lp_distance(dp.absolute_distance(T=int))
    >>> (people >> dp.m.then_laplace(2.0)).map(1)
    0.5
    >>> busiest = count >> ts.then_lp_distance(dp.linf_distance(T="i64", monotonic=True))
    >>> (busiest >> dp.m.then_noisy_max(dp.max_divergence(), scale=2.0)).map(1)  # whatever the cap
    0.5
    """
    space = vector_space(input_domain)
    signal = influence_space(input_metric)
    if signal is None:
        raise TypeRefusal("input_metric", input_metric, "must be an influence metric, as of a count")
    kind = lp_kind(output_metric)
    if kind is None or kind[1] not in ("f64", "i32", "i64", "u32", "u64"):
        supported = "dp.l1_distance(T=…), dp.l2_distance(T=…), dp.linf_distance(T=…) or dp.absolute_distance(T=…)"
        raise TypeRefusal("output_metric", output_metric, f"must be {supported}, with T float or int")
    name, number = kind
    atom = "f64" if space.atom.startswith("f") else "i64"
    one_way = name == "linf" and output_metric == dp.linf_distance(T=number, monotonic=True)
    if name == "linf" and number != atom:
        raise TypeRefusal("output_metric", output_metric, f"must have T={atom!r}, the type of the numbers")
    if one_way and not moves_one_way(signal):
        raise Refusal(
            "output_metric",
            output_metric,
            "does not fit numbers that may move both ways",
            "leave out monotonic=True, or measure right behind a count of individuals added or removed",
        )
    of_people = signal.signal is not None and signal.signal.count.reading.is_once
    if number != "f64" and space.atom.startswith("f"):
        caps = "a key_cap" if of_people else "a participation_cap and excess='drop'"
        raise TypeRefusal(
            "output_metric",
            output_metric,
            "must have T=float, as the signal holds floats",
            f"a count with {caps} holds whole numbers",
        )
    if name == "absolute" and space.size != 1:
        raise TypeRefusal(
            "output_metric",
            output_metric,
            f"is for one number, and this signal has {space.size}",
            "use dp.l1_distance(T=…) or dp.l2_distance(T=…)",
        )
    if name == "l1" and signal.signal is not None and signal.signal.count.weighting.norm == "l2":
        where = "at many keys" if of_people else "in many steps"
        problem = f"does not fit a count in which people {where} are weighed down in ℓ2 (norm='l2')"
        remedy = "a `key_cap`" if of_people else "a `participation_cap`, with `norm='l1'` or `excess='drop'`"
        remedy = f"give the count {remedy}; or, with a δ or in ρ, Gaussian noise and"
        raise Refusal("output_metric", output_metric, problem, f"{remedy} dp.l2_distance(T=float)")

    def stability_map(d_in: object) -> float:
        influence = as_influence(d_in)
        distance = _OF_INFLUENCE[name](influence)
        if one_way and influence.individuals > 1:  # one may be added, and another one removed
            distance = math.inf
        return distance if number == "f64" else whole_distance(distance, number)

    def function(values: Sequence[float]) -> Sequence[float] | float:
        return values[0] if name == "absolute" else values

    floats = space.atom.startswith("f")
    domain = signal_domain("f64" if floats else "i64", space.size)
    if name == "absolute":
        domain = dp.atom_domain(T="f64", nan=False) if floats else dp.atom_domain(T=space.atom)
    return transformation((input_domain, input_metric), (domain, output_metric), function, stability_map)


def l1_of(influence: Influence) -> float:
    """Return the ℓ1 distance of two signals within an influence, rounded up."""
    if influence.individuals == 0:
        return 0.0
    norm = influence.l1_norm()
    return math.inf if norm == math.inf else up_fraction(influence.individuals * Fraction(norm))


def l2_of(influence: Influence) -> float:
    """Return the ℓ2 distance of two signals within an influence, rounded up."""
    if influence.individuals == 0 or influence.l0 == 0:
        return 0.0
    bounds = []
    if influence.linf < math.inf:
        bounds.append(up_sqrt((influence.individuals * Fraction(influence.linf)) ** 2 * influence.l0))
    if influence.l2 < math.inf:
        bounds.append(up_fraction(influence.individuals * Fraction(influence.l2)))
    return min(bounds, default=math.inf)


def linf_of(influence: Influence) -> float:
    """Return the ℓ∞ distance of two signals within an influence, rounded up."""
    if influence.individuals == 0 or influence.l0 == 0:
        return 0.0
    largest = min(influence.linf, influence.l2)
    return math.inf if largest == math.inf else up_fraction(influence.individuals * Fraction(largest))


def moves_one_way(space: InfluenceSpace) -> bool:
    """Return whether one individual moves all numbers up, or all down: right behind a count that reads a log."""
    origin = space.signal
    if origin is None or origin.stages or origin.count.source is None:
        return False
    return not origin.count.unit.replaced and origin.count.unit.individuals == 1


_OF_INFLUENCE: Final = {"l1": l1_of, "l2": l2_of, "linf": linf_of, "absolute": l1_of}

then_lp_distance = then(make_lp_distance)
