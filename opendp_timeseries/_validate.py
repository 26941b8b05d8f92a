"""Checks of public parameters: each returns the plain Python number, or says name, value, rule and remedy.

Everything here runs at construction, on public values only. Data never passes through this module.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final, TypeGuard, TypeVar

__all__ = ["REQUIRED", "integer", "is_a", "probability", "real", "required"]


T = TypeVar("T")


class _Required:
    """The default of a public parameter that has none: left out, it is refused by name, never guessed."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final[Any] = _Required()


def required(name: str, value: Any, remedy: str) -> Any:
    """Refuse a public parameter that was left out (it must never be read from the data)."""
    if value is REQUIRED:
        raise TypeError(f"{name} must be given: it is public and is never read from the data; {remedy}")
    return value


def is_a(value: Any, kind: type[T]) -> TypeGuard[T]:
    """Return whether a value is of a class, or was made by that class before its module was loaded again.

    A notebook that reloads the package must not refuse the grids and kernels that it made before.
    """
    made = type(value)
    return isinstance(value, kind) or (made.__module__, made.__qualname__) == (kind.__module__, kind.__qualname__)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None, remedy: str = "") -> int:
    """Return ``value`` as a Python ``int`` (NumPy integers are accepted, bools and floats are not)."""
    hint = f"; {remedy}" if remedy else ""
    if _is_bool(value):
        raise TypeError(f"{name} ({value!r}) must be an integer, not a bool{hint}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} ({value!r}) must be an integer, not {type(value).__name__}{hint}") from None
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} ({number}) must be at least {minimum}{hint}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{name} ({number}) must be at most {maximum}{hint}")
    return number


def real(
    name: str,
    value: Any,
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
        raise TypeError(f"{name} ({value!r}) must be a real number, not {type(value).__name__}{hint}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} ({value!r}) must be a real number, not {type(value).__name__}{hint}") from None
    except OverflowError:
        raise ValueError(f"{name} ({value!r}) must be finite{hint}") from None
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


def probability(name: str, value: Any, *, remedy: str = "") -> float:
    """Return ``value`` as a ``float`` in the closed interval [0, 1]."""
    return real(name, value, minimum=0.0, maximum=1.0, remedy=remedy)
