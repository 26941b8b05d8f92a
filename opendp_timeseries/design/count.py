"""A count: what is read of individuals, and how they are weighted. All of it is public.

Engines count by it, maps take the sensitivity from it, and equal counts are one query.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.influence import Influence, pooled_influence
from opendp_timeseries.design.groups import Key
from opendp_timeseries.design.reading import Reading, Source
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weighting import Downweight, Weighting
from opendp_timeseries.grid import TimeGrid


@dataclass(frozen=True)
class Count:
    """A reading of individuals, the way they are weighted, and what of it is added up over time.

    With a unit of privacy within a period, an individual counts anew in each period, and the cap holds in each.

    :param reading: the events of each individual, by step and series.
    :param weighting: how much they count, by how often they come.
    :param per: a grid, each of whose steps adds up whole steps of that which is read; None to count by the latter.
    :raises TypeError, ValueError: naming the parameter, its value and the remedy.
    """

    reading: Reading
    weighting: Weighting
    per: TimeGrid | None = None

    def __post_init__(self) -> None:
        self.weighting.check_reading(self.reading)
        if self.reading.is_once:
            self._check_once()
        if self.per is not None:
            if not (isinstance(self.weighting, Downweight) and self.weighting.norm == "l1"):
                raise Refusal("per", self.per, "requires a `participation_cap`, `excess='downweight'` and `norm='l1'`")
            _ = self.period_lengths()  # or they do not fit the grid, and are refused

    def _check_once(self) -> None:
        """Refuse all but one event of each individual at each key, as no constructor makes such a count."""
        limited = (self.reading.step_cap, self.reading.key_cap, self.reading.grouping, self.per)
        if limited != (1, None, None, None) or isinstance(self.weighting, Downweight):
            raise Refusal(
                "step_cap, key_cap, groups and per",
                ...,
                "must be left out where individuals are counted once over a whole grid, and nobody is weighed down",
            )

    @property
    def grid(self) -> TimeGrid:
        """The grid of the counts."""
        return self.reading.grid if self.per is None else self.per

    @property
    def source(self) -> Source | None:
        """The columns that are read; None for counts made elsewhere."""
        return self.reading.source

    @property
    def panel(self) -> tuple[Key, ...] | None:
        """The keys of a panel, in the order of its series; None for one series."""
        return self.reading.panel

    @property
    def unit(self) -> Unit:
        """The unit of privacy: a distance of 1 between two logs."""
        return self.reading.unit

    @property
    def tiers(self) -> Tiers | None:
        """The tiers of activity; None for a count with a cap."""
        return self.weighting if isinstance(self.weighting, Tiers) else None

    @property
    def cap(self) -> int | None:
        """The steps in which one individual counts in full; None for a count without a cap."""
        return None if isinstance(self.weighting, Tiers) else self.weighting.cap

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """One key for each series, in order, for each tier those of keys and groups together; None for one series."""
        keys = self.reading.keys
        if self.tiers is None:
            return keys
        names = self.tiers.names(self._place, self.reading.step_cap)
        return names if keys is None else tuple(f"{key} ({name})" for name in names for key in keys)

    @property
    def series(self) -> int:
        """Number of series: of keys and groups, for each tier."""
        tiers, keys, _ = self.shape
        return tiers * keys

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tiers, keys and groups, and steps of the grid, in which entries lie in this order."""
        return self.weighting.series, len(self.reading.keys or ("",)), self.grid.size

    @property
    def size(self) -> int:
        """Number of entries: steps of the grid times series."""
        return self.grid.size * self.series

    @property
    def resolution_bits(self) -> int:
        """Binary places of the counts: they are multiples of ``2**-resolution_bits``."""
        return self.weighting.resolution_bits

    @property
    def is_drawn(self) -> bool:
        """True if each count draws anew which of somebody's steps, or series, count."""
        return self.reading.is_drawn or self.weighting.is_drawn(self.reading)

    @property
    def is_full(self) -> bool:
        """True if the counts of everybody, in all of their steps, can be read off."""
        limits = self.reading.step_cap, self.reading.gap, self.reading.key_cap, self.reading.is_assumed
        return limits == (1, 1, None, False) and self.weighting.is_full(self.reading)

    @property
    def single_series(self) -> Self:
        """The count of a single series. The caps stay: they hold over the whole panel."""
        source = self.source and replace(self.source, by=None)
        reading = replace(self.reading, panel=None, key_cap=None, source=source, grouping=None)
        weighting = self.weighting
        if isinstance(weighting, Tiers):
            square = weighting.first(weighting.last(self.reading)) * weighting.typical**2
            weighting = Downweight(-(-square // self.reading.step_cap**2))
        return replace(self, reading=reading, weighting=weighting)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first step that is read of each step of the grid; ValueError unless these are of whole ones."""
        fine, coarse = self.reading.grid, self.grid
        if fine.is_integer != coarse.is_integer or fine.zone != coarse.zone:
            raise Refusal("per", coarse, f"must be of steps of the grid ({fine!r}), on the same clock")
        if fine.is_integer:
            ends = np.arange(coarse.size + 1) * (fine.size // coarse.size)
        else:
            ends = np.searchsorted(fine.edges(), coarse.edges())
            ends = np.where(np.isin(coarse.edges(), fine.edges()), ends, -1)
        if ends[0] != 0 or ends[-1] != fine.size or ends.min() < 0:
            raise Refusal("per", coarse, f"must each be of whole steps of the grid ({fine!r}) and of all of it")
        return ends[:-1].astype(np.int64)

    def add_up(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what counts by the steps that are read add up to, by those of the grid."""
        if self.per is None:
            return counts
        # In two halves of which no sum overflows, up to 2**61, at which totals stay.
        high, low = np.divmod(counts.reshape(self.series, -1), 2**30)
        high, low = (np.add.reduceat(half, self.starts, axis=1) for half in (high, low))
        high += low >> 30
        totals: NDArray[np.int64] = np.where(high < 2**31, (high << 30) + low % 2**30, 2**61)
        return totals.ravel()

    def period_lengths(self) -> NDArray[np.int64]:
        """Return of how many steps of the grid each period is in which an individual counts anew, the longest first.

        :raises ValueError: if a step lies in two of them.
        """
        begins = self.reading.period_starts
        if self.per is None:
            return self.reading.period_lengths()
        if begins is None:
            return np.array([self.starts.size])
        if not np.isin(begins, self.starts).all():
            raise Refusal("per", self.per, f"must each be within {self.unit.period}, which is the unit of privacy")
        return np.sort(np.diff(np.searchsorted(self.starts, begins), append=self.starts.size))[::-1]

    def influence(self, distance: int = 1, *, periods: int = 1) -> Influence:
        """Return how far logs at this distance move the counts (docs/proofs/counts.md and docs/proofs/scaling.md).

        :param distance: in units of privacy.
        :param periods: with a unit within a period, in at most how many periods each individual differs; else 1.
        """
        reach, weighting = self.reading.reach(distance, periods=periods), self.weighting
        if self.per is None or isinstance(weighting, Tiers):
            return weighting.influence(self.reading, reach)
        return pooled_influence(
            reach,
            participation_cap=weighting.cap,
            longest=int(np.diff(self.starts, append=self.reading.grid.size).max()),
            totals=self.period_lengths()[:periods].tolist(),
            entries=self.size,
        )

    @property
    def quantity(self) -> str:
        """The word for what is counted, or added up."""
        value = self.reading.source and self.reading.source.value
        return value or ("individuals" if self.reading.step_cap == 1 else "events")

    @property
    def subject(self) -> str:
        """The words for what is counted, or added up, and at how many keys."""
        reading, of = self.reading, "" if self.per is None else ", in total"
        # Quoted, as a document that others wrote may name a column like words of a guarantee.
        counted = repr(self.quantity) if reading.is_sum else self.quantity
        at = "" if reading.panel is None else f" at {len(reading.panel)} keys"
        by = f" of {reading.source.by!r}" if at and reading.source is not None else ""
        return f"{counted}{at}{by}{', once each' if reading.is_once else ''}{of}"

    def words(self) -> str:
        """Say in which steps, or at which keys, an individual counts, and how much."""
        return self.weighting.words(self._place, self.reading)

    @property
    def _place(self) -> str:
        return "key" if self.reading.is_once else "step"
