"""How much: cells of a column of values as whole numbers from 0 to a public bound, each cell by itself.

A number is rounded to the nearest whole one, halves up, and is then at most the bound. Whatever is no number, is not
finite or is less than a half is 0, and its row is of no value. No cell raises, or changes how others are read
(docs/proofs/values.md).
"""

import contextlib
import math
import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.identifiers import DECIMAL, number_of

Ints = NDArray[np.int64]

#: A text that is a number, as every engine reads it. Engines write the end of a text as ``\z``, Python as ``\Z``.
NUMBER: Final = rf"^[ \t\r\n]*({DECIMAL})[ \t\r\n]*\z"
_NUMBER: Final = re.compile(NUMBER.replace(r"\z", r"\Z"))


def amounts_of(values: NDArray[Any], bound: int) -> Ints:
    """Return the amounts of numbers in a column of any numeric type.

    >>> import numpy as np
    >>> amounts_of(np.array([2.4, 2.5, 7.0, -3.0, np.nan, np.inf]), bound=5)
    array([2, 3, 5, 0, 0, 0])
    """
    if values.dtype.kind == "u":
        return np.minimum(values.astype(np.uint64), np.uint64(bound)).astype(np.int64)
    if values.dtype.kind in "bi":
        return np.clip(values.astype(np.int64), 0, bound)
    if values.dtype.kind == "c":
        values = np.where(values.imag == 0, values.real, 0)
    finite = np.where(np.isfinite(values), values, 0)
    clipped = np.clip(finite, 0, bound)
    below = np.floor(clipped)
    amounts: Ints = np.where(clipped - below >= 0.5, below + 1, below).astype(np.int64)
    return amounts


def amount_of(cell: object, bound: int) -> int:
    """Return the amount of a cell of any type: a number, or text that is one."""
    with contextlib.suppress(Exception):  # of types that are not known, whose methods may raise anything
        number = _number_in(cell)
        if number is not None:
            number = number if isinstance(number, int) else _nearest(float(number))
            return max(0, min(int(number), bound))
    return 0


def _nearest(number: float) -> int:
    """Return the nearest whole number, halves up; 0 if the number is not finite."""
    if not math.isfinite(number):
        return 0
    below = math.floor(number)
    return below + 1 if number - below >= 0.5 else below


def _number_in(cell: object) -> Any:
    """Return the number that a cell is, or that its text is; None if there is none."""
    if isinstance(cell, bytes):
        cell = bytes(cell).decode()
    if isinstance(cell, str):
        match = _NUMBER.match(str.__str__(cell))
        return None if match is None else float(match[1])
    return int(cell) if isinstance(cell, (bool, np.bool_)) else number_of(cell)
