"""Numbers as people read them: as many digits as errors allow, in groups of three that mean the same everywhere."""

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Between thousands. A comma there, or a point, would be a decimal mark elsewhere.
THIN: Final = "\u202f"
#: What stands in place of a number of which nothing is known, as of a mean where there may be nobody.
_NOTHING: Final = "too uncertain"
#: What is said of numbers that are too uncertain to read.
GREY: Final = "Grey are numbers whose ± is larger than they are"


def digits_for(*errors: NDArray[np.float64]) -> int:
    """Return how many decimals are worth writing of numbers with intervals of these widths: none from a width of 2 on.

    Below, the usual one is written to two digits.

    >>> [digits_for(np.array([width])) for width in (0.03, 1.5, 2.0, 400.0, np.nan)]
    [3, 1, 0, 0, 2]
    """
    width = np.concatenate(errors)
    width = width[np.isfinite(width) & (width > 0)]
    if not len(width):
        return 2
    usual = float(np.median(width))
    return 0 if usual >= 2 else min(1 - math.floor(math.log10(usual)), 6)


def digits_of(rows: Iterable[tuple[float, float]]) -> int:
    """Return how many decimals are worth writing of numbers, each with half of the width of its interval."""
    return digits_for(2 * np.array([half for _, half in rows], dtype=float))


def is_uncertain(values: Any, halves: object) -> Any:
    """Return whether numbers are too uncertain to read: half of the width of their interval is more than they are.

    So are those of which nothing is known.
    """
    return (np.asarray(halves) > np.abs(values)) | np.isnan(values)


def plain(number: float, places: int) -> str:
    """Write a number for programs, with a point; nothing of what is not known.

    >>> plain(-0.2, 0), plain(1234.56, 1), plain(np.nan, 0)
    ('0', '1234.6', '')
    """
    return "" if number != number else f"{round(number, places) + 0.0:.{places}f}"  # no zero has a sign


def grouped(number: float, places: int = 0) -> str:
    r"""Write a number for people.

    >>> grouped(-1234567.8), grouped(999.94, 1), grouped(np.nan)
    ('-1\u202f234\u202f568', '999.9', 'too uncertain')
    """
    if number != number:
        return _NOTHING
    return f"{round(number, places) + 0.0:,.{places}f}".replace(",", THIN)


def rounded(number: float) -> str:
    r"""Write a number for people, to three digits.

    >>> rounded(0.01234), rounded(12345.6)
    ('0.0123', '12\u202f300')
    """
    if number != number:
        return _NOTHING
    short = f"{number:.3g}"
    return grouped(float(short)) if "e+" in short else short
