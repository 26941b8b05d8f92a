"""What this package takes from OpenDP beyond its public interface: partial constructors, registration, queries, notes.

Nothing private of OpenDP is read anywhere else. The page *For OpenDP users* lists it.
"""

import contextlib
import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from opendp_timeseries._refusal import Refusal, TypeRefusal

try:
    from opendp.context import Chain, _translate_measure_distance, constructors
    from opendp.core import function_eval
    from opendp.domains import _lazyframe_from_domain
    from opendp.extras.polars import LazyFrameQuery
    from opendp.mod import ApproximateDivergence, Function, OdometerQueryable, VectorDomain, _PartialConstructor
    from opendp.typing import RuntimeType

    from opendp_timeseries.plugin import native as dp
except ImportError as error:
    raise ImportError(
        f"opendp_timeseries does not fit the OpenDP that is installed ({version('opendp')}): {error}; install"
        " opendp>=0.16,<0.17, or a newer opendp_timeseries"
    ) from error

_PACKAGE: Final = "opendp_timeseries."
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
Partial = _PartialConstructor
#: A privacy loss: ε or ρ, or either of them and a δ.
Loss = float | tuple[float, float]
#: Losses of several queries.
Losses = list[float] | list[tuple[float, float]]
empty_frame = _lazyframe_from_domain
as_measured = _translate_measure_distance


def maker_of(name: str) -> str | None:
    """Return the module whose constructor a query calls by this name; None if it knows none."""
    if name not in constructors:
        return None
    called = constructor = constructors[name][0]
    if inspect.isfunction(called):  # and not an object that can be called, or a function of C
        constructor = inspect.getclosurevars(called).nonlocals.get(
            "constructor", called
        )  # what a partial constructor calls
    return str(constructor.__module__)


#: Under which names queries of OpenDP find what another plugin has taken the name of.
_PREFIX: Final = "timeseries_"


def registered_name(name: str) -> str:
    """Return the name by which queries find a constructor of this package; the name itself if it has none."""
    return name if str(maker_of(name)).startswith(_PACKAGE) or maker_of(_PREFIX + name) is None else _PREFIX + name


def then(
    make: Callable[Concatenate[dp.Domain, dp.Metric, P], dp.Transformation | dp.Measurement],
) -> Callable[P, Partial]:
    """Return the ``then_`` form of a ``make_`` constructor, which ``Context.query()`` calls from now on.

    After a reload it calls the new code, which takes no objects that were made before. Where somebody else has taken
    the name, it is found by another one, that begins with ``timeseries_``.
    """
    name = make.__name__.removeprefix("make_")
    if maker_of(name) is not None and not str(maker_of(name)).startswith(_PACKAGE):
        name = _PREFIX + name
    constructors.pop(name, None)
    dp.register(make, name)
    partial: Callable[P, Partial] = constructors[name][0]
    partial.__module__ = make.__module__
    partial.__qualname__ = partial.__name__
    return partial


def callback(function: Callable[[A], R]) -> Callable[[A], R]:
    """Return a function for OpenDP to call, which gives its memory back before it says that there is none.

    OpenDP keeps the frames of an error, with all that they hold, while Rust makes an error of its own. Where Rust has
    no memory left for that, it ends the process, or never returns.
    """

    def call(data: A) -> R:
        with contextlib.suppress(MemoryError):
            return function(data)
        raise MemoryError("memory was exhausted; use a machine with more, or fewer steps or keys")

    return call


def signal_domain(T: str, size: int) -> dp.Domain:
    """Return the native domain of signals with ``size`` steps: ``T`` is ``"i64"`` or ``"f64"`` (never NaN)."""
    atom = dp.atom_domain(T="i64") if T == "i64" else dp.atom_domain(T="f64", nan=False)
    return dp.vector_domain(atom, size=size)


class VectorSpace(NamedTuple):
    """Element type and size of a native vector domain, which holds no NaN."""

    atom: str
    size: int


def vector_space(domain: dp.Domain) -> VectorSpace:
    """Read a native domain of fixed-size numeric vectors.

    :raises TypeError, ValueError: if it is not a vector of numbers, its size is not fixed, or it may hold NaN.
    """
    hint = "use a count, a filter, or dp.vector_domain(dp.atom_domain(T=…), size=T)"
    if not isinstance(domain, VectorDomain):
        raise TypeRefusal("input_domain", domain, "must be a vector domain", hint)
    (atom,) = map(str, cast(RuntimeType, domain.carrier_type).args)  # Vec<T>
    if atom not in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "f32", "f64"):
        raise TypeRefusal("input_domain", domain, "must hold numbers that fit i64 or f64", hint)
    if not domain.size:
        raise Refusal("input_domain", domain, "must have a fixed size of at least one step", hint)
    if atom.startswith("f") and domain.element_domain.nan:
        raise Refusal("input_domain", domain, "may hold NaN", "use dp.atom_domain(T=float, nan=False)")
    return VectorSpace(atom, int(domain.size))


def as_array(data: object, domain: dp.Domain) -> object:
    """Return a signal as an array, which OpenDP takes much faster than the list that it hands out.

    Anything but a signal of 64-bit numbers stays as it is.
    """
    dtype = {"Vec<i64>": np.int64, "Vec<f64>": np.float64}.get(str(domain.carrier_type))
    return data if dtype is None else np.asarray(data, dtype=dtype)


class Call(NamedTuple):
    """A call of a constructor of OpenDP.

    :param constructor: its name.
    :param module: where it is, such as ``"combinators"``.
    :param arguments: by name.
    """

    constructor: str
    module: str
    arguments: dict[str, Any]


def call_of(thing: object) -> Call | None:
    """Return which of OpenDP's constructors made a transformation or measurement; None if that is not noted.

    OpenDP keeps this for its own documents, and offers no public way to it.
    """
    note = getattr(thing, "__opendp_dict__", None)
    if not isinstance(note, dict) or not {"__function__", "__kwargs__"} <= note.keys():
        return None
    return Call(note["__function__"], str(note.get("__module__")), note["__kwargs__"])


def post_processing(function: Function) -> Callable[[object], object]:
    """Return what a function of OpenDP does, as one of Python's."""
    call = call_of(function)
    arguments = {} if call is None else call.arguments
    if callable(written := arguments.get("function")):
        return written  # type: ignore[no-any-return]
    carrier = getattr(arguments.get("this"), "input_carrier_type", None)  # of the transformation whose function it is
    return lambda answer: function_eval(function, answer, TI=carrier)


#: OpenDP's functions that apply something to data, and the argument that is applied if it is a measurement.
_INVOCATIONS: Final = {
    "measurement_invoke": "this",
    "queryable_eval": "query",
    "odometer_queryable_invoke": "query",
    "function_eval": None,
    "transformation_invoke": None,
}


def invocations() -> list[object]:
    """Return the measurements within whose invocations this is called, innermost first; None for any other call.

    A function in a measurement cannot see of which chain it became a part, but it runs within OpenDP's call, whose
    arguments name it.
    """
    measurements: list[object] = []
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_name
        if name in _INVOCATIONS and frame.f_globals.get("__name__") == "opendp.core":
            argument, caller = _INVOCATIONS[name], frame.f_back
            measurements.append(None if argument is None else frame.f_locals.get(argument))
            if argument == "query":
                measurements += _invocations_of(None if caller is None else caller.f_locals.get("self"))
        frame = frame.f_back
    return measurements


def _invocations_of(queryable: object) -> list[object]:
    """Return the measurements by whose invocations a queryable came about; None where that is not known."""
    if not isinstance(queryable, dp.Queryable | OdometerQueryable) or (call := call_of(queryable)) is None:
        return [None]
    if "query" not in call.arguments:  # it is the answer of a measurement
        return [call.arguments.get("this")]
    return [call.arguments["query"], *_invocations_of(getattr(queryable, "parent", None))]


class OpenQuery(dp.Query):
    """An OpenDP query whose parts can be read, and its chain changed."""

    @property
    def chain(self) -> Chain:
        """The stages so far: a space, a transformation, a measurement, or one that lacks a parameter."""
        return self._chain

    @chain.setter
    def chain(self, chain: Chain) -> None:
        self._chain = chain

    @property
    def output_measure(self) -> dp.Measure:
        """The measure of the budget."""
        return self._output_measure

    @property
    def d_in(self) -> Any:
        """The distance between neighbouring data."""
        return self._d_in

    @property
    def d_out(self) -> Loss | None:
        """The share of this query; None if it has none."""
        return self._d_out

    @property
    def context(self) -> dp.Context | None:
        """The Context that answers it, if any."""
        return self._context

    @property
    def wrap_release(self) -> Callable[[dp.Queryable], object] | None:
        """A function of the answer, if it is not the answer that is returned."""
        return self._wrap_release


def parts_of(query: dp.Query | LazyFrameQuery) -> tuple[Any, ...]:
    """Return what an OpenDP query was made of, in the order in which another one is made; of frames, what is within."""
    query = query if isinstance(query, dp.Query) else query._query
    return (
        *(query._chain, query._output_measure, query._d_in),
        *(query._d_out, query._context, query._wrap_release),
    )


class LossForm(NamedTuple):
    """Form of a loss in a measure of OpenDP: the name of its first number, and whether a δ follows it.

    :param first: ``"epsilon"`` or ``"rho"``; empty for a curve, and for any other measure.
    """

    first: str
    has_delta: bool


def loss_form(measure: dp.Measure) -> LossForm:
    """Return how a measure states a loss."""
    has_delta = isinstance(measure, ApproximateDivergence)
    inner: object = measure.inner_measure if isinstance(measure, ApproximateDivergence) else measure
    numbers = {"epsilon": dp.max_divergence(), "rho": dp.zero_concentrated_divergence()}
    return LossForm(next((name for name, candidate in numbers.items() if inner == candidate), ""), has_delta)


def lp_kind(metric: object) -> tuple[str, str] | None:
    """Return ``"l1"``, ``"l2"``, ``"linf"`` or ``"absolute"``, and the number type of such a distance; else None."""
    if not isinstance(metric, dp.Metric):
        return None
    origin = str(getattr(metric.type, "origin", None)).rpartition("::")[2]  # OpenDP names that of ℓ∞ by its path
    names = {"L1Distance": "l1", "L2Distance": "l2", "LInfDistance": "linf", "AbsoluteDistance": "absolute"}
    return (names[origin], str(metric.distance_type)) if origin in names else None


def privacy_profile(delta: Callable[[float], float]) -> object:
    """Return a curve δ(ε) in the form that a privacy map for ``smoothed_max_divergence()`` must return.

    Built afresh in every call: OpenDP takes ownership of it, and returning one twice frees it twice.
    """
    return dp.new_privacy_profile(delta).curve
