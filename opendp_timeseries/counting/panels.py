"""Panels: many series at once, told apart by a public list of keys."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.tables import Labels

__all__ = ["Keys", "panel_keys", "place_in_panel"]

Keys = Sequence[str] | Sequence[int]


def panel_keys(by: str | None, keys: Keys | None) -> Keys:
    """Check the column and the keys of a panel; without them, there is one series and its key is empty.

    :raises TypeError: if one of the two is left out, or keys are neither all strings nor all integers.
    :raises ValueError: if there are none, or one of them twice.
    """
    if by is None and keys is None:
        return ("",)
    if by is None or keys is None:
        raise TypeError(
            f"by ({by!r}) and keys ({keys!r}) must be given together: keys are public, and never read from the data"
        )
    if not isinstance(by, str):
        raise TypeError(f"by ({by!r}) must be a string, the name of a column")
    if isinstance(keys, (str, bytes)) or not isinstance(keys, (Sequence, np.ndarray)):
        raise TypeError(f"keys ({keys!r}) must be a list of keys: their order is that of the series")
    listed: list[Any] = list(keys)
    if not all(isinstance(key, str) for key in listed):
        if any(isinstance(key, (bool, np.bool_)) or not hasattr(key, "__index__") for key in listed):
            raise TypeError(f"keys ({listed}) must be all strings or all integers")
        listed = [operator.index(key) for key in listed]
    if not listed:
        raise ValueError("keys must name at least one series")
    if len(set(listed)) < len(listed):
        raise ValueError(f"keys ({listed}) must be distinct")
    return listed


def place_in_panel(steps: NDArray[np.int64], by: NDArray[Any] | Labels, keys: Keys, size: int) -> NDArray[np.int64]:
    """Return positions ``k·size + step`` in a panel, and -1 for rows off the grid or of a key that is not listed.

    Nothing about the rows raises: where the column holds text and the keys are integers, or the other way
    round, no row is of any key.

    :param steps: step of every row, -1 off the grid.
    :param by: the key of every row.
    :param keys: the keys of the panel, in order.
    :param size: steps of one series.
    """
    if isinstance(by, Labels):
        number = {key: k for k, key in enumerate(keys)}
        numbers = np.array([number.get(name, -1) for name in by.names] + [-1], dtype=np.int64)
        which = numbers[by.codes]
    else:
        which = np.full(by.shape, -1, dtype=np.int64)
        limits = np.iinfo(by.dtype)
        for k, key in enumerate(keys):
            if isinstance(key, int) and limits.min <= key <= limits.max:
                which[by == by.dtype.type(key)] = k
    return np.where((steps >= 0) & (which >= 0), which * size + steps, -1)
