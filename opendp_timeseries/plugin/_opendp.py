"""What this package takes from OpenDP beyond its public interface: partial constructors, registration, profiles.

The queries in :mod:`~opendp_timeseries.plugin.context` also read the private fields of OpenDP's queries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec

import numpy as np
import opendp.prelude as dp
from opendp.context import constructors
from opendp.domains import _lazyframe_from_domain
from opendp.extras._utilities import to_then
from opendp.metrics import symmetric_distance
from opendp.mod import AtomDomain, OpenDPException, VectorDomain, _PartialConstructor, enable_features

__all__ = [
    "OpenDPException",
    "Partial",
    "VectorSpace",
    "array_of",
    "empty_frame",
    "enable_features",
    "how_made",
    "is_opendps",
    "is_registered",
    "lp_kind",
    "partial_of",
    "privacy_profile",
    "register",
    "signal_domain",
    "symmetric_distance",
    "then",
    "vector_space",
]

P = ParamSpec("P")

#: OpenDP's partial constructors, which ``then_`` functions return.
Partial = _PartialConstructor


def partial_of(constructor: Callable[[dp.Domain, dp.Metric], Any]) -> _PartialConstructor:
    """Return a partial constructor of a function of a space."""
    return _PartialConstructor(constructor)


def then(make: Callable[Concatenate[dp.Domain, dp.Metric, P], Any]) -> Callable[P, _PartialConstructor]:
    """Return the ``then_`` form of a ``make_`` constructor: the space comes from the left of ``>>``."""
    partial: Callable[P, _PartialConstructor] = to_then(make)
    partial.__module__ = make.__module__
    partial.__qualname__ = partial.__name__
    return partial


def register(*makes: Callable[..., Any]) -> None:
    """Make constructors available to ``Context.query()``; again after a reload, so that new code is used.

    :raises ValueError: if a name is taken by something that is not of this package.
    """
    for make in makes:
        name = make.__name__.removeprefix("make_")
        known = constructors.get(name)
        if known is not None and getattr(known[0], "_opendp_timeseries", False):
            del constructors[name]
        dp.register(make)
        constructors[name][0]._opendp_timeseries = True


def is_opendps(name: str) -> bool:
    """Whether the constructor that a query calls by this name is of OpenDP itself, and of no plugin."""
    called = constructors[name][0]
    made = inspect.getclosurevars(called).nonlocals.get("constructor", called)  # what a partial constructor calls
    return bool(made.__module__.startswith("opendp."))


def is_registered(name: str) -> bool:
    """Whether a query knows a constructor by this name."""
    return name in constructors


def signal_domain(T: str, size: int) -> dp.Domain:
    """Return the native domain of signals with ``size`` steps: ``T`` is ``"i64"`` or ``"f64"`` (never NaN)."""
    atom = dp.atom_domain(T="i64") if T == "i64" else dp.atom_domain(T="f64", nan=False)
    return dp.vector_domain(atom, size=size)


class VectorSpace(NamedTuple):
    """What a native vector domain says: its element type and its size. It holds no NaN."""

    atom: str
    size: int


def vector_space(domain: dp.Domain) -> VectorSpace:
    """Read a native domain of fixed-size numeric vectors.

    :raises TypeError: if the domain is not a vector of numbers, naming it and the remedy.
    :raises ValueError: if its size is not fixed, or it may hold NaN.
    """
    hint = "use a count, a filter, or dp.vector_domain(dp.atom_domain(T=…), size=T)"
    if isinstance(domain, AtomDomain):
        raise TypeError(f"input_domain ({domain}) must be a vector domain, as of a count of this package; {hint}")
    if not isinstance(domain, VectorDomain):
        raise TypeError(f"input_domain ({domain}) must be a vector domain; {hint}")
    carrier: Any = domain.carrier_type  # Vec<T>
    atom = str(carrier.args[0])
    if atom not in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "f32", "f64"):
        raise TypeError(f"input_domain ({domain}) must hold numbers that fit i64 or f64; {hint}")
    if domain.size is None:
        raise ValueError(f"input_domain ({domain}) must have a fixed size, the number of steps; {hint}")
    if domain.size < 1:
        raise ValueError(f"input_domain ({domain}) must have at least one step; {hint}")
    if atom.startswith("f") and domain.element_domain.nan:
        raise ValueError(f"input_domain ({domain}) may hold NaN; use dp.atom_domain(T=float, nan=False)")
    return VectorSpace(atom, int(domain.size))


def array_of(domain: dp.Domain) -> Callable[[Any], Any]:
    """Return what makes an array of a signal, which OpenDP hands out as a list and takes much faster as an array.

    The numbers are the same. Anything but a signal of 64-bit numbers stays as it is.
    """
    try:
        atom = vector_space(domain).atom
    except (TypeError, ValueError):
        return lambda data: data
    kinds = {"i64": np.int64, "f64": np.float64}
    return (lambda data: np.asarray(data, dtype=kinds[atom])) if atom in kinds else lambda data: data


class Call(NamedTuple):
    """A call of a constructor of OpenDP."""

    constructor: str
    arguments: dict[str, Any]


def how_made(made: Any) -> Call | None:
    """Return which of OpenDP's constructors made a transformation or measurement; None if that is not noted.

    OpenDP keeps this for its own documents, and offers no public way to it.
    """
    note = getattr(made, "__opendp_dict__", None)
    if not isinstance(note, dict) or not {"__function__", "__kwargs__"} <= note.keys():
        return None
    return Call(note["__function__"], note["__kwargs__"])


def empty_frame(domain: dp.Domain) -> Any:
    """Return a Polars LazyFrame of no rows with the columns of a ``LazyFrameDomain``."""
    return _lazyframe_from_domain(domain)


def lp_kind(metric: Any) -> tuple[str, str] | None:
    """Return the kind and the distance type of OpenDP's own Lp and absolute distances, None for any other metric.

    The kind is ``"l1"``, ``"l2"`` or ``"absolute"``.
    """
    kind = metric.type if isinstance(metric, dp.Metric) else None
    origin = getattr(kind, "origin", None)
    names = {"L1Distance": "l1", "L2Distance": "l2", "AbsoluteDistance": "absolute"}
    return (names[origin], str(metric.distance_type)) if origin in names else None


def privacy_profile(delta: Callable[[float], float]) -> Any:
    """Return a curve δ(ε) in the form that a privacy map for ``smoothed_max_divergence()`` must return.

    Built afresh in every call: OpenDP takes ownership of it, and returning one twice frees it twice.
    """
    return dp.new_privacy_profile(delta).curve
