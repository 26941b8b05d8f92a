"""Checks of public parameters: they return the plain Python number, or raise with name, value, rule and remedy.

They run at construction, on public values only. Data never passes through this module.
"""

import importlib
import math
import operator
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries._refusal import quote as quote

T = TypeVar("T")


class _Required:
    """The default of a public parameter without a default: if left out, it is refused by name, never guessed."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final[Any] = _Required()


def required(name: str, value: T, remedy: str) -> T:
    """Refuse a public parameter that was left out (it must never be read from the data)."""
    if value is REQUIRED:
        raise TypeRefusal(name, ..., "must be given: it is public and is never read from the data", remedy)
    return value


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def integer(
    name: str, value: object, *, minimum: int | None = None, maximum: int | None = None, remedy: str = ""
) -> int:
    """Return ``value`` as a Python ``int`` (NumPy integers are accepted, bools and floats are not)."""
    if _is_bool(value):
        raise TypeRefusal(name, value, "must be an integer, not a bool", remedy)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeRefusal(name, value, f"must be an integer, not {type(value).__name__}", remedy) from None
    if minimum is not None and number < minimum:
        raise Refusal(name, number, f"must be at least {minimum}", remedy)
    if maximum is not None and number > maximum:
        raise Refusal(name, number, f"must be at most {maximum}", remedy)
    return number


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    minimum: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
    remedy: str = "",
) -> float:
    """Return ``value`` as a finite Python ``float`` inside the stated bounds (NumPy scalars are accepted)."""
    if _is_bool(value) or isinstance(value, (str, bytes, complex)):
        raise TypeRefusal(name, value, f"must be a real number, not {type(value).__name__}", remedy)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeRefusal(name, value, f"must be a real number, not {type(value).__name__}", remedy) from None
    except OverflowError:
        raise Refusal(name, value, "must be finite", remedy) from None
    if not math.isfinite(number):
        raise Refusal(name, number, "must be finite", remedy)
    if above is not None and not number > above:
        raise Refusal(name, number, f"must be greater than {above:g}", remedy)
    if minimum is not None and not number >= minimum:
        raise Refusal(name, number, f"must be at least {minimum:g}", remedy)
    if below is not None and not number < below:
        raise Refusal(name, number, f"must be less than {below:g}", remedy)
    if maximum is not None and not number <= maximum:
        raise Refusal(name, number, f"must be at most {maximum:g}", remedy)
    return number


def reals(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return ``values`` as a new array of floats."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeRefusal(name, values, "must be real numbers") from None


def choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value``; refuse all but the given names."""
    if not isinstance(value, str) or value not in choices:
        raise Refusal(name, value, f"must be one of {', '.join(map(repr, choices))}")
    return value


def installed(module: str, what: str, extra: str) -> Any:
    """Return a module of an optional library; if it is missing, raise with what needs it and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{what}; install opendp_timeseries[{extra}]") from None


def probability(name: str, value: object) -> float:
    """Return ``value`` as a ``float`` in the closed interval [0, 1]."""
    return real(name, value, minimum=0.0, maximum=1.0)
