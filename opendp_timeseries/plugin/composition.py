"""Several releases of one log as one measurement, with their joint loss (docs/proofs/several_releases.md)."""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting import joint
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.loss import PrivacyLoss, View
from opendp_timeseries.accounting.subsampled import MIN_SCALE
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import Partial, as_array
from opendp_timeseries.plugin.mechanisms import Mechanism, mechanism_of, noise_parts
from opendp_timeseries.plugin.spaces import influence_space
from opendp_timeseries.plugin.subsampled_gaussian import check_room, measurement_of, view_of
from opendp_timeseries.release.release import Release
from opendp_timeseries.release.statement import Parent, Statement

#: What a composition may be of.
_MEMBER: Final = (
    "a subsampled_gaussian behind stages of one log (with sampling_probability=1 it is OpenDP's Gaussian mechanism), or"
    " a composition of such; compose others with dp.c.make_composition"
)

T = TypeVar("T")


def make_composition(
    measurements: Sequence[dp.Measurement],
    *,
    factor: float = 1.0,
    output_measure: dp.Measure | None = None,
    failure_probability: float | None = None,
    delta: float | None = None,
) -> dp.Measurement:
    """Make several releases of one log at once, and return them in a list, in order.

    The map states their joint loss: the law of the sum of their squared distances, each in units of its own noise
    (:mod:`~opendp_timeseries.accounting.joint`). That is exact for one individual and counts that drop, without filter,
    and a fraction of what ``dp.c.make_composition`` adds up. All queries are fixed beforehand, so filters keep their
    full benefit.

    :param measurements: chains with a subsampled Gaussian (with ``sampling_probability=1``, the Gaussian mechanism),
        whatever comes before and after it, or compositions of such chains; all on one domain and metric.
    :param factor: all scales are multiplied by it; :func:`~opendp_timeseries.least_factor` finds the least.
    :param output_measure: as in :func:`~opendp_timeseries.make_subsampled_gaussian`, with the next two: the whole
        privacy profile by default. What measures the members state does not matter.
    :param failure_probability: δ′ in (0, 1), for approximate zCDP.
    :param delta: δ in (0, 1), for (ε, δ).
    :raises TypeError: unless they are a list of measurements, or if the loss of one is not known from how it was made.
    :raises ValueError: if there are none, or they do not have one domain and metric.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> often = count >> ts.then_subsampled_gaussian(6.0, sampling_probability=0.1, delta=1e-6)
    >>> seldom = count >> ts.then_subsampled_gaussian(2.0, sampling_probability=0.01, delta=1e-6)
    >>> ts.make_composition([often, seldom], delta=2e-6).map(1)
    (2.36455..., 2e-06)
    >>> dp.c.make_composition([often, seldom]).map(1)
    (3.57586..., 2e-06)
    >>> noise = ts.then_subsampled_gaussian(6.0, sampling_probability=0.1)
    >>> (count >> ts.then_composition([noise, noise], delta=1e-6)).map(1)
    (1.45878..., 1e-06)
    """
    factor = check.real("factor", factor, above=0.0)
    return _composition(measurements, factor, view_of(output_measure, failure_probability, delta))


def _composition(measurements: Sequence[dp.Measurement], factor: float, view: View) -> dp.Measurement:
    """Return a composition, with a factor on all scales, that states its joint loss in a view."""
    if factor != 1:
        measurements = [mechanism.times(factor) for mechanism in _mechanisms(measurements)]
    members, postprocessing = noise_parts(_as_list(measurements))
    mechanisms = _mechanisms(members)
    foreign = next((mechanism.foreign for mechanism in mechanisms if mechanism.foreign is not None), None)

    def loss(d_in: object) -> PrivacyLoss:
        return joint.joint_loss([mechanism.loss(d_in) for mechanism in mechanisms], adaptivity=Adaptivity.NONE)

    domain, metric = members[0].input_space
    known_designs = tuple(stated for mechanism in mechanisms for stated in mechanism.designs or ())
    check_room(view, [stated.design for stated in known_designs])
    designs = known_designs if all(mechanism.designs is not None for mechanism in mechanisms) else None
    parents: list[Parent] = []
    if designs is not None and foreign is None and view.is_pair:
        # Its releases state their loss at the δ of the composition.
        parents = _parents([stated.design for stated in designs], view)
        designs = tuple(stated._replace(view=view) for stated in designs)
    behind_count = influence_space(metric) is not None

    def function(data: object) -> object:
        given = as_array(data, domain)
        in_order, name = iter(parents), secrets.token_hex(16)  # members are asked in the order of the designs

        def label(release: object) -> object:
            if not isinstance(release, Release):
                return release
            if parents and (parent := next(in_order)) and release.statement is not None:
                release = replace(release, statement=Statement(view=view, parent=parent))
            # Behind a count, all of it is of one invocation; on a log, each member has counted for itself.
            return replace(release, composition=name, invocation=name if behind_count else release.invocation)

        return _map_nested([member(given) for member in members], label)

    mechanism = Mechanism(loss, lambda factor: _composition(members, factor, view), designs, foreign, in_list=True)
    composition = measurement_of(domain, metric, view, function, mechanism)
    return composition if postprocessing is None else composition >> postprocessing


def _parents(designs: Sequence[Design], view: View) -> list[Parent]:
    """Return what each release says of the composition: nothing where its loss is not known or not finite."""
    if any(isinstance(design.signal, UnknownSignal) or design.scale < MIN_SCALE for design in designs):
        return []
    (loss,) = view.points(joint.joint_loss([design.loss() for design in designs], adaptivity=Adaptivity.NONE))
    if not all(map(math.isfinite, loss)):
        return []
    first = Parent(kind="composition", loss=loss, measure=view.measure, parts=len(designs))
    return [replace(first, number=number) for number in range(1, len(designs) + 1)]


def _map_nested(answers: object, change: Callable[[object], object]) -> object:
    """Return releases, in lists of any depth, with a change to each."""
    return [_map_nested(answer, change) for answer in answers] if isinstance(answers, list) else change(answers)


def then_composition(measurements: Sequence[dp.Measurement | Partial], **options: Any) -> Partial:
    """Partial constructor of :func:`~opendp_timeseries.make_composition`: the space comes from the left of ``>>``.

    :param measurements: as there, or in their ``then_`` form, such as ``then_participation_count(…) >> …``.
    :param options: as there.
    """
    return Partial(lambda domain, metric: make_composition(measurements_on(measurements, domain, metric), **options))


def measurements_on(measurements: Sequence[Any], domain: dp.Domain, metric: dp.Metric) -> list[dp.Measurement]:
    """Return measurements on a space, of which some may be partial constructors."""
    return [member(domain, metric) if isinstance(member, Partial) else member for member in _as_list(measurements)]


def least_factor(
    measurements: Sequence[dp.Measurement],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    d_in: object = 1,
) -> float:
    """Return the least factor on all scales with which a composition is (ε, δ)-private, rounded up.

    :param measurements: as in :func:`~opendp_timeseries.make_composition`; their scales are relative.
    :param epsilon: ε, not negative.
    :param delta: δ, in (0, 1); beside ρ the failure probability.
    :param rho: ρ in place of ε, as in :func:`~opendp_timeseries.least_scale`.
    :param d_in: distance between neighbouring inputs, such as the number of individuals.
    :return: 0 if nothing is lost without noise.
    :raises TypeError, ValueError: as :func:`~opendp_timeseries.make_composition`, and if no factor reaches the budget.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    >>> month = ts.TimeGrid(start="2024-01-01", step="1h", size=744, zone="UTC")
    >>> count = space >> ts.then_participation_count(month, participation_cap=30)
    >>> relative = count >> ts.then_subsampled_gaussian(1.0, sampling_probability=0.2)
    >>> round(ts.least_factor([relative] * 12, epsilon=1.0, delta=1e-6), 3)
    36.633
    """
    return least_factor_at(measurements, Budget.of(epsilon=epsilon, delta=delta, rho=rho), d_in)


def least_factor_at(measurements: Sequence[dp.Measurement], budget: Budget, d_in: object = 1) -> float:
    """Return the least factor on all scales with which a composition is within a budget."""
    losses = [mechanism.loss(d_in) for mechanism in _mechanisms(measurements)]
    if any(loss.scale == 0 for loss in losses):
        raise Refusal(
            "a measurement without noise", Quoted("scale 0"), "has no scale to multiply", "give each a relative scale"
        )
    start = 1 / min(loss.scale for loss in losses)

    def loss_at(factor: float) -> PrivacyLoss:
        (mechanism,) = _mechanisms([_composition(measurements, factor, view_of(None, None, None))])
        return mechanism.loss(d_in)

    factor = calibrate(
        lambda factor: joint.joint_loss(losses, adaptivity=Adaptivity.NONE, factor=factor), budget, start=start
    )
    # Floats off any grid are rounded to one that follows the scale: what is made may lose a little more.
    return factor if factor == 0 or budget.admits(loss_at(factor)) else calibrate(loss_at, budget, start=start)


def _as_list(measurements: Sequence[T]) -> list[T]:
    if not isinstance(measurements, (list, tuple)):
        raise TypeRefusal(
            "measurements", Quoted(type(measurements).__name__), "must be a list of measurements", f"each {_MEMBER}"
        )
    if not measurements:
        raise Refusal("measurements", ..., "must not be empty", f"list at least one, each {_MEMBER}")
    return list(measurements)


def _mechanisms(measurements: Sequence[dp.Measurement]) -> list[Mechanism]:
    """Return what is known of each measurement of one space."""
    mechanisms, listed = [], _as_list(measurements)
    for k, member in enumerate(listed):
        if not isinstance(member, dp.Measurement):
            raise TypeRefusal(
                f"measurements[{k}]", Quoted(type(member).__name__), "must be a measurement", f"such as {_MEMBER}"
            )
        for name in ("input_domain", "input_metric"):
            here, first = getattr(member, name), getattr(listed[0], name)
            if here != first:
                raise Refusal(f"{name} of measurements[{k}]", Quoted(here), f"must be that of the first ({first})")
        if (mechanism := mechanism_of(member)) is None:
            raise TypeRefusal(
                f"measurements[{k}]", member.output_measure, f"must be {_MEMBER}: its loss is not known here"
            )
        mechanisms.append(mechanism)
    return mechanisms
