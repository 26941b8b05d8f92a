"""What an engine is asked for: where the rows of a log belong, and how far one individual may reach."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.identifiers import identifier_text
from opendp_timeseries.design.count import Count, Keys
from opendp_timeseries.grid import Period, TimeGrid

__all__ = ["Caps", "Layout", "key_of_choice"]

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
    def of(cls, count: Count) -> Layout:
        """Return the layout of a count.

        :raises ValueError: for keys that are not distinct as text, or a count made elsewhere.
        """
        source, panel = count.source, count.panel
        if source is None:
            raise ValueError("counts that were made elsewhere are not counted again")
        if panel is not None and len(set(map(identifier_text, panel))) < len(panel):
            raise ValueError(
                f"keys ({check.shown(list(panel))}) must be distinct: name each series once, from a public list and not"
                " from the log"
            )
        return cls(
            source.identifier,
            source.time,
            count.grid if count.pooled is None else count.pooled,
            source.by,
            ("",) if panel is None else list(panel),  # type: ignore[arg-type]
            exact=source.exact,
            whole=count.pooled is not None,
            period=count.unit.period,
        )

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
    def of(cls, count: Count) -> Caps:
        """Return the caps of a count, clamped to what can bind: the number of counts, and that of rows."""
        size, key_cap = count.size, count.key_cap
        return cls(
            min(count.participation_cap, size),
            min(count.step_cap, _INT64_MAX),
            count.gap,
            key_cap and min(key_cap, size),
        )


def key_of_choice(key: bytes) -> bytes:
    """Return the secret key by which series are chosen at one step, made of the one by which steps are chosen.

    By the same hash, the best of several series would be kept, and steps with several then be kept more often.
    """
    return hashlib.blake2b(key[:64], digest_size=16, person=b"key_cap").digest()
