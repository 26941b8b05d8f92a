"""What is known of an OpenDP transformation or measurement from how it was made: its whole loss, and its designs.

The maps of this package are :class:`PackageMap` objects, and OpenDP notes for each of its objects with which arguments
it was made (:func:`~._opendp.call_of`). A stage that is not of this package ends what is known, and is named:
behind it, releases state nothing (:func:`statement_of`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from opendp.mod import FrameDistance, OdometerQueryable

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.loss import PrivacyLoss, View
from opendp_timeseries.accounting.subsampled import MIN_SCALE
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import call_of, callback, invocations, post_processing
from opendp_timeseries.plugin.spaces import individuals_of, influence_space, keeps_individuals
from opendp_timeseries.release.statement import Parent, Statement

#: A domain and a metric.
Space = tuple[dp.Domain, dp.Metric]
#: Post-processing of an answer.
Process = Callable[[object], object]


class StatedDesign(NamedTuple):
    """A release that a measurement returns: what runs, and the view of its loss that it states."""

    design: Design
    view: View


@dataclass(frozen=True)
class Mechanism:
    """Known loss and designs of a measurement.

    :param loss: from a distance of the measurement's input metric to the loss.
    :param times: from a factor to the measurement with all scales of its noise multiplied by it.
    :param designs: of its releases, in order; None if it returns anything else.
    :param foreign: the stage before the noise that is not of this package, if there is one.
    :param in_list: whether it returns a list, as a composition does, even of a single release.
    """

    loss: Callable[[Any], PrivacyLoss]
    times: Callable[[float], dp.Measurement]
    designs: tuple[StatedDesign, ...] | None
    foreign: str | None = None
    in_list: bool = False


@dataclass(frozen=True)
class PackageMap:
    """The map of a transformation or measurement of this package; of a measurement, with what else is known of it."""

    call: Callable[[Any], Any]
    mechanism: Mechanism | None = None

    def __call__(self, d_in: object) -> Any:
        """Return the distance between outputs, or the loss."""
        return self.call(d_in)


def transformation(
    space: Space, output_space: Space, function: Callable[[Any], object], stability_map: Callable[[Any], object]
) -> dp.Transformation:
    """Return a transformation that is known to be of this package.

    :param stability_map: of individuals, where the input metric counts them, also within whole-log bounds of frames.
    """
    if isinstance(space[1], FrameDistance):
        of_individuals = stability_map
        stability_map = lambda d_in: of_individuals(individuals_of(d_in))  # noqa: E731
    return dp.t.make_user_transformation(*space, *output_space, callback(function), PackageMap(stability_map))


#: OpenDP's combinators that keep the mechanism of one argument, and which argument that is.
_SAME_MECHANISM: Final = {
    "make_chain_mt": "measurement1",
    "make_chain_pm": "measurement0",
    "make_fix_delta": "measurement",
    "make_fixed_approxDP_to_approxDP": "measurement",
    "make_zCDP_to_approxDP": "measurement",
    "make_pureDP_to_zCDP": "measurement",
    "make_approximate": "measurement",
}
#: OpenDP's combinators that invoke several measurements on the same data: by two names, of which the second is old.
_COMPOSITIONS: Final = frozenset({"make_composition", "make_basic_composition"})
#: OpenDP's combinators that answer queries of the data which they are given.
_ACCOUNTANTS: Final = frozenset(
    {
        "make_adaptive_composition",
        "make_sequential_composition",
        "make_fully_adaptive_composition",
        "make_privacy_filter",
    }
)
_UNKNOWN: Final = "of unknown making"


def foreign_stage(chain: Any, *, rows: bool = False) -> str | None:
    """Return the name of a stage of a chain that is not of this package; None without one.

    :param rows: whether OpenDP's filters of rows, behind which individuals are who they were, count as known.
    """
    call = call_of(chain)
    if call is None:
        return _UNKNOWN
    if call.constructor == "make_chain_tt":
        stages = call.arguments["transformation0"], call.arguments["transformation1"]
        return foreign_stage(stages[0], rows=rows) or foreign_stage(stages[1], rows=rows)
    if rows and (call.module, call.constructor) == ("transformations", "make_stable_lazyframe"):
        return None if keeps_individuals(chain) else call.constructor
    return None if isinstance(call.arguments.get("stability_map"), PackageMap) else call.constructor


def foreign_part(measurement: object) -> str | None:
    """Return the name of a part of a measurement that may stand between data and noise, and is not of this package."""
    call = call_of(measurement)
    if call is None:
        return _UNKNOWN
    if isinstance(privacy_map := call.arguments.get("privacy_map"), PackageMap):
        return None if privacy_map.mechanism is None else privacy_map.mechanism.foreign
    if call.constructor in _COMPOSITIONS:
        return next(
            (name for member in call.arguments["measurements"] if (name := foreign_part(member)) is not None), None
        )
    if (name := _SAME_MECHANISM.get(call.constructor)) is not None:
        before = call.arguments.get("transformation0")
        return foreign_part(call.arguments[name]) or (None if before is None else foreign_stage(before, rows=True))
    noise = call.module == "measurements" and call.constructor != "make_user_measurement"  # of OpenDP's own
    return None if noise or call.constructor in _ACCOUNTANTS else call.constructor


def statement_of(design: Design, view: View, parent: Parent | None) -> tuple[Design, Statement | None]:
    """Return what a release that is being made says of its design, and states of its loss.

    That is all that was designed if every stage from the log to the noise is of this package, in whatever is invoked;
    nothing is stated if this is not known. Behind a stage of somebody else, the signal is unknown, too.
    """
    parts = [None if item is None else foreign_part(item) or "" for item in invocations()] or [None]
    if foreign := next(filter(None, parts), None):
        return replace(design, signal=UnknownSignal(design.signal.size, foreign)), None
    return design, None if None in parts else Statement(view=view, parent=parent)


def noise_part(measurement: dp.Measurement) -> tuple[dp.Measurement, Process | None]:
    """Return what adds noise, and what is done with its answer afterwards, if anything is.

    Whoever keeps an account spends between the two: what sees the noisy values may raise, once it has seen them.
    """
    call = call_of(measurement)
    if call is None:
        return measurement, None
    if call.constructor in _COMPOSITIONS:
        noises, then = noise_parts(call.arguments["measurements"])
        return (measurement, None) if then is None else (dp.c.make_composition(noises), then)
    if (name := _SAME_MECHANISM.get(call.constructor)) is None:
        return measurement, None
    noise, before = noise_part(call.arguments[name])
    if call.constructor == "make_chain_pm":
        process = post_processing(call.arguments["postprocess1"])
        return noise, process if before is None else lambda answer: process(before(answer))
    if before is None:
        return measurement, None
    return getattr(dp.c, call.constructor)(**{**call.arguments, name: noise}), before


def noise_parts(measurements: Sequence[dp.Measurement]) -> tuple[list[dp.Measurement], Process | None]:
    """Return what adds noise in each of several measurements, and what is done with the list of their answers."""
    noises, after = zip(*map(noise_part, measurements), strict=True)
    if all(step is None for step in after):
        return list(measurements), None

    def process(answers: Any) -> list[object]:
        return [answer if step is None else step(answer) for answer, step in zip(answers, after, strict=True)]

    return list(noises), process


class _Queryable(dp.Queryable):
    """A queryable that spends before what processes an answer has seen it."""

    def __call__(self, query: object) -> object:
        return _spend_first(self, super().__call__, query)


class _OdometerQueryable(OdometerQueryable):
    """A queryable of an odometer or a filter that spends before what processes an answer has seen it."""

    def __call__(self, query: object) -> object:
        return _spend_first(self, super().__call__, query)

    def invoke(self, query: object) -> object:
        """Answer a query."""
        return self(query)


def _spend_first(queryable: object, ask: Callable[[object], object], query: object) -> object:
    if not isinstance(query, dp.Measurement):
        return spending_first(ask(query), queryable)
    noise, process = noise_part(query)
    answer = spending_first(ask(noise), queryable)
    return answer if process is None else process(answer)


def spending_first(answer: object, parent: object) -> object:
    """Return an answer; of a queryable, one that spends before what processes its answers has seen them.

    It notes which one has answered with it: OpenDP notes a pointer, which leads nowhere.
    """
    queryable: object
    if type(answer) is dp.Queryable:
        queryable = _Queryable(answer.value, answer.query_type)
    elif type(answer) is OdometerQueryable:
        queryable = _OdometerQueryable(answer.value)
    else:
        return answer
    vars(queryable).update(vars(answer), parent=parent)
    return queryable


def mechanism_of(measurement: dp.Measurement) -> Mechanism | None:
    """Return what is known of a measurement; None where its loss is not known from how it was made."""
    call = call_of(measurement)
    if call is None:
        return None
    privacy_map, name = call.arguments.get("privacy_map"), _SAME_MECHANISM.get(call.constructor)
    if isinstance(privacy_map, PackageMap):
        return privacy_map.mechanism
    if name is None or (inner := mechanism_of(call.arguments[name])) is None:
        return None
    before = call.arguments.get("transformation0")

    def loss(d_in: object) -> PrivacyLoss:
        return inner.loss(d_in if before is None else before.map(d_in))

    def times(factor: float) -> dp.Measurement:
        measurement: dp.Measurement = getattr(dp.c, call.constructor)(**{**call.arguments, name: inner.times(factor)})
        return measurement

    foreign = inner.foreign or (None if before is None else foreign_stage(before))
    return Mechanism(
        loss, times, None if call.constructor == "make_chain_pm" else inner.designs, foreign, inner.in_list
    )


def stated_designs(measurement: object) -> tuple[StatedDesign, ...]:
    """Return the designs of the releases that a measurement returns, in order.

    :raises TypeError, ValueError: unless it is a measurement that returns releases alone, and it is known how.
    """
    if not isinstance(measurement, dp.Measurement):
        raise TypeRefusal(
            "measurement", Quoted(type(measurement).__name__), "must be a Measurement, such as a count >> noise"
        )
    mechanism = mechanism_of(measurement)
    if mechanism is not None and mechanism.foreign is not None:
        raise _foreign("measurement", mechanism.foreign)
    designs = None if mechanism is None else mechanism.designs
    if designs is None or any(isinstance(stated.design.signal, UnknownSignal) for stated in designs):
        raise Refusal(
            "measurement",
            ...,
            "must return a release that knows how it was made: a subsampled Gaussian with noise behind a count of this"
            " package, or a make_composition(…) of such",
            "process what it releases afterwards",
        )
    for design, _ in designs:
        if design.scale < MIN_SCALE:
            raise Refusal(
                "measurement",
                ...,
                f"adds no noise (scale {design.scale:g}), so it states no finite loss",
                "give it a scale",
            )
    return designs


def signal_of(chain: object) -> Signal:
    """Return how a chain makes its signal.

    :raises TypeError, ValueError: unless it is a transformation that knows, all of whose stages are of this package.
    """
    metric = chain.output_metric if isinstance(chain, dp.Transformation) else type(chain).__name__
    space = influence_space(metric)
    if space is None or space.signal is None:
        raise TypeRefusal("chain", metric, "must be a count of this package, with or without filters")
    if (foreign := foreign_stage(chain)) is not None:
        raise _foreign("chain", foreign)
    return space.signal


def _foreign(name: str, stage: str) -> Refusal:
    return Refusal(
        name,
        ...,
        f"holds a stage that is not of this package ({stage}): nobody can tell what it does to the log or the counts,"
        " so there is no design to record, plan or add up",
        "apply it to the data beforehand, or state the loss by the privacy map alone",
    )
