"""Outward rounding: a bound computed in floating point stays a bound."""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LOWEST_BOUND",
    "down_fraction",
    "printed_up",
    "up",
    "up_array",
    "up_fraction",
    "up_sqrt",
    "whole_distance",
]

#: Bounds that are not exactly zero are at least this. Sums of products that underflow lose far less, and zero would
#: claim more: OpenDP reads a finite epsilon at delta = 0 as pure differential privacy.
LOWEST_BOUND: Final = 1e-300


def up(value: float, ulps: int = 1) -> float:
    """Return ``value`` raised by ``ulps`` representable numbers (infinity stays infinity)."""
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def up_array(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values``, each raised to the next representable number."""
    return np.nextafter(values, np.inf)


def up_fraction(value: Fraction | int) -> float:
    """Return the least float that is not below an exact rational; infinity beyond the largest float."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if math.isfinite(number) and Fraction(number) < value:
        return math.nextafter(number, math.inf)
    return number


def printed_up(value: float, digits: int = 6) -> str:
    """Return ``value`` in at most ``digits`` significant digits, rounded up.

    >>> printed_up(1.00001, 4), printed_up(0.5), printed_up(1e-6), printed_up(math.inf)
    ('1.001', '0.5', '1e-06', 'inf')
    """
    if not math.isfinite(value):
        return f"{value}"
    exact, text = Decimal(value), f"{value:.{digits}g}"
    # A decimal that parses to the same float needs no rounding.
    if float(text) == value or Decimal(text) >= exact:
        return text
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(exact):.{digits}g}"


def down_fraction(value: Fraction | int) -> float:
    """Return the greatest float that is not above an exact rational."""
    return -up_fraction(-value)


def up_sqrt(value: Fraction | int) -> float:
    """Return a float at most two ulps above the root of an exact rational, never below it."""
    root = math.sqrt(up_fraction(value))
    while math.isfinite(root) and Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def whole_distance(distance: float, integer_type: str) -> int:
    """Return a distance rounded up to a whole number, for metrics whose distances are integers.

    :param integer_type: OpenDP's name of the type, such as ``"i32"``.
    :raises OverflowError: if it exceeds the type, so that no map returns less than the truth.
    """
    integer = math.ceil(distance)
    largest = 2 ** (int(integer_type[1:]) - integer_type.startswith("i")) - 1
    if integer > largest:
        raise OverflowError(f"the distance {integer} does not fit {integer_type}; use T=float in the output metric")
    return integer
