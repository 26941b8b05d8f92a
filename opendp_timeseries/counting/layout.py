"""What an engine is asked for: where the rows of a log belong, and how far one individual may reach."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.identifiers import identifier_text
from opendp_timeseries.grid import Period, TimeGrid, check_grid

__all__ = ["Caps", "Keys", "Layout", "check_caps", "check_gap", "check_key_cap", "key_of_choice", "panel_keys"]

Keys = Sequence[str] | Sequence[int]

_INT64_MAX: Final = int(np.iinfo(np.int64).max)


class Layout(NamedTuple):
    """Where the rows of a log belong: the columns that are read, and the public grid and keys of the counts."""

    identifier: str
    time: str | None  # None where no time is read: all rows are in the one step of the grid
    grid: TimeGrid
    by: str | None = None
    keys: Keys = ("",)
    exact: bool = False  # whether equal texts are one individual only if they are written alike, as in OpenDP's frames
    whole: bool = False  # whether all of the grid is one place, rather than every step one
    period: Period | None = None  # in each of which an individual is an individual of their own, with caps of their own

    @classmethod
    def checked(
        cls,
        *,
        identifier: str,
        time: str | None,
        grid: TimeGrid,
        by: str | None,
        keys: Keys | None,
        whole: bool = False,
        period: Period | None = None,
    ) -> Layout:
        """Check what is public.

        :raises TypeError: for a grid that is none, or keys that do not fit ``by``.
        :raises ValueError: for keys that are not distinct, ``by`` that is another of the columns, or a step of the grid
            that lies in two periods.
        """
        layout = cls(identifier, time, check_grid(grid), by, panel_keys(by, keys), whole=whole, period=period)
        if by is not None and by in (identifier, time):
            raise ValueError(f"by ({by!r}) must be another column than the identifier and the time")
        check.integer("size of the panel", layout.size, maximum=2**31, remedy="use fewer steps or keys")
        if period is not None:
            together = period.lengths(grid)
            # As whole bits, which engines keep free beside those of an individual's number.
            bits = (len(together) - 1).bit_length() + (int(together[0]) * len(layout.keys) - 1).bit_length()
            remedy = "use fewer steps or keys, or about as many steps in each period"
            check.integer("bits of a period and a step within it", bits, maximum=33, remedy=remedy)
        return layout

    @property
    def cycle(self) -> int:
        """Number of counts of one series."""
        return 1 if self.whole else self.grid.size

    @property
    def size(self) -> int:
        """Number of counts: steps of one series after those of the other."""
        return self.cycle * len(self.keys)

    @property
    def period_starts(self) -> NDArray[np.int64] | None:
        """The first step of each period in which an individual counts by itself; None if there are no periods."""
        return None if self.period is None else self.period.starts(self.grid)

    @property
    def longest_period(self) -> int:
        """Number of counts of one series that may be of one individual: of the longest period, if there are periods."""
        return self.cycle if self.period is None else int(self.period.lengths(self.grid)[0])

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return [column for column in (self.identifier, self.time, self.by) if column is not None]

    @property
    def places(self) -> dict[str, int]:
        """The position of each key of a panel, by its text: keys are compared as identifiers are."""
        return {str(identifier_text(key)): k for k, key in enumerate(self.keys)}


class Caps(NamedTuple):
    """What one individual may add to the counts: at most ``step_cap`` to each of at most ``participation_cap``.

    Within a series these are at least ``gap`` steps apart, around the cycle of the grid too. At one step of the grid
    they are in at most ``key_cap`` series of a panel; None is no such cap.
    """

    participation_cap: int
    step_cap: int
    gap: int = 1
    key_cap: int | None = None

    @classmethod
    def within(
        cls, size: int, *, participation_cap: int, step_cap: int, gap: int = 1, key_cap: int | None = None
    ) -> Caps:
        """Clamp caps, checked before, to what can bind: the number of counts, and that of rows."""
        return cls(min(participation_cap, size), min(step_cap, _INT64_MAX), gap, key_cap and min(key_cap, size))


def check_caps(participation_cap: Any, step_cap: Any) -> tuple[int, int]:
    """Check the caps of a count, which are public.

    :raises TypeError: for a participation cap that was left out, or a cap that is no integer.
    :raises ValueError: for a cap below 1.
    """
    remedy = "choose it from what is plausible for one individual, never from the log"
    cap = check.required("participation_cap", participation_cap, remedy)
    return (
        check.integer("participation_cap", cap, minimum=1, remedy="the most steps that one individual may enter"),
        check.integer("step_cap", step_cap, minimum=1, remedy="the most events of one individual in one step"),
    )


def check_gap(gap: Any, grid_size: int) -> int:
    """Check the gap between two counted steps of one individual, which is public; 1 is none.

    :raises TypeError: for a gap that is no integer.
    :raises ValueError: for a gap below 1, or above the number of steps of the grid.
    """
    return check.integer(
        "gap",
        gap,
        minimum=1,
        maximum=grid_size,
        remedy="give the fewest steps from one counted step of an individual to their next, from 1, which is no gap,"
        f" to the {grid_size} of the grid",
    )


def check_key_cap(key_cap: Any, by: str | None) -> int | None:
    """Check the cap on the series of a panel at one step, which is public; None is none.

    :raises TypeError: for a cap that is no integer.
    :raises ValueError: for a cap below 1, or without a panel.
    """
    if key_cap is None:
        return None
    if by is None:
        raise ValueError(f"key_cap ({check.shown(key_cap)}) is of a panel; give by= and keys=, or leave it out")
    return check.integer("key_cap", key_cap, minimum=1, remedy="the most keys at which one individual counts in a step")


def key_of_choice(key: bytes) -> bytes:
    """Return the secret key by which series are chosen at one step, made of the one by which steps are chosen.

    By the same hash, the best of several series would be kept, and steps with several then be kept more often.
    """
    return hashlib.blake2b(key[:64], digest_size=16, person=b"key_cap").digest()


def panel_keys(by: str | None, keys: Keys | None) -> Keys:
    """Check the column and the keys of a panel; without them, there is one series and its key is empty.

    :raises TypeError: if one of the two is left out, or keys are neither all strings nor all integers.
    :raises ValueError: if there are none, or one of them twice.
    """
    if by is None and keys is None:
        return ("",)
    if by is None or keys is None:
        raise TypeError(
            f"by ({check.shown(by)}) and keys ({check.shown(keys)}) must be given together: keys are public, and never"
            " read from the data"
        )
    if not isinstance(by, str):
        raise TypeError(f"by ({check.shown(by)}) must be a string, the name of a column")
    if not _is_list(keys):
        raise TypeError(f"keys ({check.shown(keys)}) must be a list of keys: their order is that of the series")
    listed: list[Any] = [str(key) if isinstance(key, str) else key for key in keys]  # NumPy's are shown as np.str_
    if not all(isinstance(key, str) for key in listed):
        if any(isinstance(key, (bool, np.bool_)) or not hasattr(key, "__index__") for key in listed):
            raise TypeError(f"keys ({check.shown(listed)}) must be all strings or all integers")
        listed = [operator.index(key) for key in listed]
    if not listed:
        raise ValueError("keys must name at least one series")
    if len(set(map(identifier_text, listed))) < len(listed):
        raise ValueError(
            f"keys ({check.shown(listed)}) must be distinct: name each series once, from a public list and not"
            " from the log"
        )
    return listed


def _is_list(keys: Any) -> bool:
    """Whether these have an order: a sequence but text, an array, or an index or series of pandas."""
    if isinstance(keys, Sequence):
        return not isinstance(keys, (str, bytes))
    return hasattr(keys, "__array__") and getattr(keys, "ndim", 0) == 1
