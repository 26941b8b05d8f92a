"""Checks of public parameters: they return the plain Python number, or raise with name, value, rule and remedy.

They run at construction, on public values only. Data never passes through this module.
"""

import datetime as dt
import importlib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")

#: A message shows texts up to this many characters, and lists up to this many entries.
_LONG: Final = 120
_FEW: Final = 12


class _Required:
    """The default of a public parameter without a default: if left out, it is refused by name, never guessed."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final[Any] = _Required()


def required(name: str, value: T, remedy: str) -> T:
    """Refuse a public parameter that was left out (it must never be read from the data)."""
    if value is REQUIRED:
        raise TypeError(f"{name} must be given: it is public and is never read from the data; {remedy}")
    return value


def quote(value: object) -> str:
    """Return a value as messages quote it: plain values and short lists in full, anything else by its type only.

    Somebody may pass the log, or a column of it, as a public parameter by mistake, and messages may be published.
    """
    kind = type(value)
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= _LONG else f"of {len(value)} characters"
    if isinstance(value, int) and value.bit_length() > 3 * _LONG:  # Python refuses to convert very long integers
        return f"of {value.bit_length()} bits"
    if value is None or isinstance(value, (numbers.Number, np.bool_, dt.date, dt.timedelta, range, type)):
        return repr(value)
    if isinstance(value, (np.datetime64, np.timedelta64)) or kind.__module__.startswith("opendp"):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) <= _FEW:
        inside = ", ".join(map(quote, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping) and len(value) <= _FEW:
        return f"{{{', '.join(f'{quote(key)}: {quote(entry)}' for key, entry in value.items())}}}"
    return f"of type {kind.__name__}"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def integer(
    name: str, value: object, *, minimum: int | None = None, maximum: int | None = None, remedy: str = ""
) -> int:
    """Return ``value`` as a Python ``int`` (NumPy integers are accepted, bools and floats are not)."""
    hint = f"; {remedy}" if remedy else ""
    if _is_bool(value):
        raise TypeError(f"{name} ({quote(value)}) must be an integer, not a bool{hint}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} ({quote(value)}) must be an integer, not {type(value).__name__}{hint}") from None
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} ({quote(number)}) must be at least {minimum}{hint}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{name} ({quote(number)}) must be at most {maximum}{hint}")
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
    hint = f"; {remedy}" if remedy else ""
    if _is_bool(value) or isinstance(value, (str, bytes, complex)):
        raise TypeError(f"{name} ({quote(value)}) must be a real number, not {type(value).__name__}{hint}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name} ({quote(value)}) must be a real number, not {type(value).__name__}{hint}") from None
    except OverflowError:
        raise ValueError(f"{name} ({quote(value)}) must be finite{hint}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} ({number}) must be finite{hint}")
    if above is not None and not number > above:
        raise ValueError(f"{name} ({number}) must be greater than {above:g}{hint}")
    if minimum is not None and not number >= minimum:
        raise ValueError(f"{name} ({number}) must be at least {minimum:g}{hint}")
    if below is not None and not number < below:
        raise ValueError(f"{name} ({number}) must be less than {below:g}{hint}")
    if maximum is not None and not number <= maximum:
        raise ValueError(f"{name} ({number}) must be at most {maximum:g}{hint}")
    return number


def reals(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return ``values`` as a new array of floats."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} ({quote(values)}) must be real numbers") from None


def choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value``; refuse all but the given names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} ({quote(value)}) must be one of {', '.join(map(repr, choices))}")
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
