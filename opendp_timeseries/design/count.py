"""A count: which rows of which log, in which steps, with which caps. All of it is public.

This is the only list of caps: engines count by it, maps take the sensitivity from it, and equal counts are one query.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._json import LATER
from opendp_timeseries.accounting.influence import Influence, count_influence, pooled_influence, scales_influence
from opendp_timeseries.design.groups import Key
from opendp_timeseries.design.scales import RESOLUTION_BITS, Scales
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid, check_grid

#: What becomes of somebody in more steps than the cap: see :class:`Count`.
EXCESS: Final = ("scale", "scale_l1", "drop")

Keys = Sequence[str] | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The columns of a log that a count reads.

    :param identifier: tells individuals apart.
    :param time: the times of events; None where no time is read.
    :param by: tells the series of a panel apart; None for one series.
    :param exact: whether only texts that are spelled alike are one individual, as in OpenDP's own frames; else ``17``,
        ``17.0`` and ``"17"`` are one, too.
    """

    identifier: str
    time: str | None = None
    by: str | None = None
    exact: bool = False

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return [column for column in (self.identifier, self.time, self.by) if column is not None]

    def __post_init__(self) -> None:
        for name in ("identifier", "time", "by"):
            column = getattr(self, name)
            if not (isinstance(column, str) or (column is None and name != "identifier")):
                raise TypeError(f"{name} ({check.shown(column)}) must be a string, the name of a column")
        if self.by is not None and self.by in (self.identifier, self.time):
            raise ValueError(f"by ({self.by!r}) must be a different column from the identifier and the time")


@dataclass(frozen=True, kw_only=True)
class Count:
    """Counts of events in each step, with caps on what one individual adds to them.

    With a unit of privacy within a period, an individual counts anew in each period, and the caps hold in each.

    :param source: the columns that are read; None for counts made elsewhere, whose caps are assumed.
    :param grid: the grid of the counts.
    :param participation_cap: ``I``, most steps in which one individual is counted in full, over all series of a panel.
    :param step_cap: ``M``, most events of one individual in one step.
    :param gap: least distance of two steps in which one individual is counted, around the cycle of the grid, in each
        series of a panel; 1 is none.
    :param key_cap: most series of a panel in which one individual is counted at one step; None for no such cap.
    :param panel: the keys of a panel, in the order of its series; None for one series.
    :param pooled: where each step of ``grid`` takes several of a finer grid together, that grid; else None. With
        ``"scale_l1"`` these are totals over its steps, and caps and gap are of these; with ``"drop"`` individuals are
        counted once over all of it.
    :param unit: what a distance of 1 between two logs is.
    :param excess: what becomes of an individual in more steps than ``I``. ``"drop"``: ``I`` of their steps count.
        ``"scale"``: all of them count, with a weight that brings the ℓ2 norm of their counts down to ``M√I``;
        ``"scale_l1"``: the ℓ1 norm down to ``MI``, for the Laplace mechanism. Weights are rounded down to multiples of
        ``2**-16``, and so are the counts.
    :param scales: scales of activity, each with a series of its own, which make ``"scale"`` unbiased; the first is
        ``I``. None for one series.
    :raises TypeError, ValueError: naming the parameter, its value and the remedy.
    """

    source: Source | None
    grid: TimeGrid
    participation_cap: int
    step_cap: int = 1
    gap: int = 1
    key_cap: int | None = None
    panel: tuple[Key, ...] | None = None
    pooled: TimeGrid | None = None
    unit: Unit = field(default_factory=Unit)
    excess: str = field(default="drop", metadata=LATER)
    scales: Scales | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_grid(self.grid)
        if self.panel is not None:
            _check_panel(self.panel)
        plausible = "choose it from what is plausible for one individual, never from the log"
        check.required("participation_cap", self.participation_cap, plausible)
        if self.key_cap is not None and self.panel is None:
            raise ValueError(f"key_cap ({check.shown(self.key_cap)}) requires by= and keys=, or leave it out")
        steps = self.row_grid.size if self.is_total else self.grid.size
        gap = "the fewest steps from one counted step of an individual to their next, from 1, which is no gap, to the"
        for name, remedy, most in (
            ("participation_cap", "the most steps that one individual may enter", None),
            ("step_cap", "the most events of one individual in one step", 10**100),  # its square is a float
            ("gap", f"{gap} {steps} of the grid", steps),
            ("key_cap", "the most keys at which one individual counts in a step", None),
        ):
            if name != "key_cap" or self.key_cap is not None:
                value = check.integer(name, getattr(self, name), minimum=1, maximum=most, remedy=remedy)
                object.__setattr__(self, name, value)
        check.choice("excess", self.excess, EXCESS)
        if self.excess == "scale" and self.pooled is not None:
            once = "'drop' where individuals are counted once over a whole grid"
            raise ValueError(f"excess ({self.excess!r}) must be {once}, and 'scale_l1' for totals over its steps")
        if self.scales is not None:
            self._check_scales(self.scales)
        if self.source is not None:
            if (self.source.by is None) != (self.panel is None):
                raise ValueError(f"by ({check.shown(self.source.by)}) and the keys of a panel must be given together")
            if self.source.time is None and (self.grid.size > 1 or self.is_total):
                raise ValueError(f"time (None) must name the column that tells {self.row_grid.size} steps apart")
        if self.is_total:
            _ = self.total_starts  # or they do not fit the grid, and are refused
        check.integer("size of the panel", self.size, maximum=2**31, remedy="use fewer steps or keys")
        if self.unit.period is not None:
            timeless = self.source is not None and self.source.time is None
            if timeless or (self.pooled is not None and not self.is_total):
                problem = "must be left out where individuals are counted once over a whole grid, or log"
                raise ValueError(f"period ({self.unit.period}) {problem}")
            lengths = self.period_lengths()  # or it does not fit the grid, and is refused
            # As whole bits, which engines keep free beside those of an individual's number.
            bits = (len(lengths) - 1).bit_length() + (int(lengths[0]) * self.panel_size - 1).bit_length()
            remedy = "use fewer steps or keys, or about as many steps in each period"
            check.integer("bits of a period and a step within it", bits, maximum=33, remedy=remedy)

    def _check_scales(self, scales: Scales) -> None:
        most = self.most_steps
        if self.excess != "scale" or self.participation_cap != scales.first(most):
            cap = f"participation_cap ({self.participation_cap})"
            raise ValueError(f"scales ({scales}) require excess='scale' and the first of them as {cap}")
        if scales.ends and scales.ends[-1] >= most:
            last = f"the most steps in which one individual can be ({most}), which is the last scale"
            raise ValueError(f"ends of scales ({list(scales.ends)}) must be below {last}")

    @property
    def log(self) -> Source:
        """The columns of the log; ValueError for counts made elsewhere."""
        if self.source is None:
            raise ValueError("counts that were made elsewhere are not counted again")
        return self.source

    @property
    def row_grid(self) -> TimeGrid:
        """The grid on which rows are placed: that of the counts, or the one of which they are the whole."""
        return self.grid if self.pooled is None else self.pooled

    @property
    def is_total(self) -> bool:
        """Whether these are totals over steps of a finer grid."""
        return self.pooled is not None and self.excess == "scale_l1"

    @property
    def by_step(self) -> Self:
        """The count that totals add up: of each step of the finer grid. Any other count is its own."""
        return replace(self, grid=self.row_grid, pooled=None) if self.is_total else self

    @cached_property
    def total_starts(self) -> NDArray[np.int64]:
        """The first step of each total, on the finer grid; ValueError unless totals divide that."""
        fine, coarse = self.row_grid, self.grid
        if fine.is_integer != coarse.is_integer or fine.zone != coarse.zone:
            raise ValueError(f"totals ({coarse!r}) must be of steps of the grid ({fine!r}), on the same clock")
        if fine.is_integer:
            ends = np.arange(coarse.size + 1) * (fine.size // coarse.size)
        else:
            ends = np.searchsorted(fine.edges(), coarse.edges())
            ends = np.where(np.isin(coarse.edges(), fine.edges()), ends, -1)
        if ends[0] != 0 or ends[-1] != fine.size or ends.min() < 0:
            raise ValueError(f"totals ({coarse!r}) must each be of whole steps of the grid ({fine!r}) and of all of it")
        return ends[:-1].astype(np.int64)

    def totals(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what counts of each step add up to; counts of no totals as they are."""
        starts = self.total_starts if self.is_total else None
        return counts if starts is None else np.add.reduceat(counts.reshape(self.series, -1), starts, axis=1).ravel()

    @property
    def is_assumed(self) -> bool:
        """Whether caps and gap are assumed of counts made elsewhere; else the count enforces them."""
        return self.source is None

    @property
    def is_drawn(self) -> bool:
        """Whether each count draws anew which of somebody's steps, or series, are kept."""
        few = self.key_cap is not None and self.key_cap < self.panel_size
        return few or (self.excess == "drop" and self.participation_cap < self.most_steps)

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """One key for each series, in order, for each scale those of the panel together; None for one series."""
        if self.scales is None:
            return self.panel
        names = self.scales.names()
        return names if self.panel is None else tuple(f"{key} ({name})" for name in names for key in self.panel)

    @property
    def series(self) -> int:
        """Number of series: of the panel, or of its scales of activity."""
        return self.panel_size * (1 if self.scales is None else self.scales.series)

    @property
    def panel_size(self) -> int:
        """Number of series of the panel, whatever the scales."""
        return 1 if self.panel is None else len(self.panel)

    @property
    def size(self) -> int:
        """Number of entries: steps of the grid times series."""
        return self.grid.size * self.series

    @property
    def positions(self) -> int:
        """Number of places where rows may be: steps of the grid times series of the panel, whatever the scales."""
        return self.grid.size * self.panel_size

    @property
    def resolution_bits(self) -> int:
        """Counts are multiples of ``2**-resolution_bits``."""
        return 0 if self.excess == "drop" else RESOLUTION_BITS

    @property
    def most_steps(self) -> int:
        """In how many steps one individual can be, over all series of a panel, before the participation cap."""
        return self.by_step.period_length * self.panel_size

    @cached_property
    def period_span(self) -> tuple[int, int] | None:
        """The first and the last period that a count looks at that enforces one, as in ``Period.span``; else None."""
        period = self.unit.period
        return None if period is None or self.is_assumed else period.span(self.row_grid)

    @property
    def period_starts(self) -> NDArray[np.int64] | None:
        """The first step of each period in which an individual counts anew; None if there are no periods."""
        period = self.unit.period
        return None if period is None else period.starts(self.grid)

    @property
    def period_length(self) -> int:
        """In how many steps of one series an individual can be, in the longest period if there are periods."""
        return int(self.period_lengths()[0])

    def period_lengths(self) -> NDArray[np.int64]:
        """Return in how many steps each period is in which an individual counts anew, the longest first.

        :raises ValueError: if a step lies in two of them.
        """
        period = self.unit.period
        if period is None:
            return np.array([self.grid.size])
        if not self.is_total:
            return period.lengths(self.grid)
        firsts, begins = self.total_starts, period.starts(self.row_grid)
        if not np.isin(begins, firsts).all():
            raise ValueError(f"totals ({self.grid!r}) must each be within {period}, which is the unit of privacy")
        return np.sort(np.diff(np.searchsorted(firsts, begins), append=firsts.size))[::-1]

    def influence(self, distance: int = 1, *, periods: int = 1) -> Influence:
        """Return how far logs at this distance move the counts (docs/proofs/counts.md).

        :param distance: in units of privacy.
        :param periods: with a unit within a period, in at most how many periods each individual differs; else 1.
        """
        periods = check.integer("periods", periods, minimum=1)
        if periods > 1 and self.unit.period is None:
            raise ValueError(f"periods ({periods}) must be 1, as this is for {self.unit}, whatever they did")
        steps, people = self.by_step, distance * self.unit.individuals
        caps: dict[str, Any] = {
            "participation_cap": self.participation_cap,
            "step_cap": self.step_cap,
            "size": steps.positions,
            "replaced": self.unit.replaced,
            "gap": self.gap,
            "series": self.panel_size,
            "key_cap": self.key_cap,
            "periods": steps.period_lengths()[:periods].tolist(),
        }
        if self.is_total:
            longest = int(np.diff(self.total_starts, append=steps.grid.size).max())
            totals = self.period_lengths()[:periods].tolist()
            return pooled_influence(people, **caps, longest=longest, totals=totals, entries=self.positions)
        influence = count_influence(people, **caps, excess=self.excess)
        if self.scales is None:
            return influence
        largest = math.ldexp(int(self.scales.table(self.most_steps).weights.max()), -RESOLUTION_BITS)
        return scales_influence(influence, largest, self.scales.series)

    def words(self) -> str:
        """Say in which steps an individual counts, and how much."""
        cap = self.participation_cap
        if self.excess == "drop":
            return f"at most {cap} step{'' if cap == 1 else 's'}"
        weight = f"√({cap}/n)" if self.excess == "scale" else f"{cap}/n"
        return "every step" if self.scales is not None else f"every step, by {weight} if in n > {cap}"


def panel_of(by: str | None, keys: Keys | None) -> tuple[Key, ...] | None:
    """Return the keys of a panel, as plain Python ones; None without a panel. :class:`Count` checks the rest."""
    if by is None and keys is None:
        return None
    if by is None or keys is None:
        both = f"by ({check.shown(by)}) and keys ({check.shown(keys)})"
        raise TypeError(f"{both} must be given together: keys are public, and never read from the data")
    ordered = hasattr(keys, "__array__") and getattr(keys, "ndim", 0) == 1  # an array, or an index or series of pandas
    if isinstance(keys, (str, bytes)) or not (ordered or isinstance(keys, Sequence)):
        raise TypeError(f"keys ({check.shown(keys)}) must be a list of keys: their order is that of the series")
    return tuple(map(_plain, keys))


def _plain(key: Any) -> Any:
    if isinstance(key, str):
        return str.__str__(key)  # NumPy's are shown as np.str_, and members of an Enum by their names
    return int(key) if isinstance(key, (int, np.integer)) and not isinstance(key, bool) else key


def _check_panel(panel: tuple[Key, ...]) -> None:
    if not panel:
        raise ValueError("keys of the panel must name at least one series")
    if len({type(key) for key in panel}) > 1 or type(panel[0]) not in (str, int):
        raise ValueError(f"keys of the panel ({check.shown(list(panel))}) must be all strings or all integers")
    if "" in panel:
        raise ValueError(f"keys of the panel ({check.shown(list(panel))}) must not be empty: '' is a missing key")
    if len(set(panel)) < len(panel):
        remedy = "name each series once, from a public list"
        raise ValueError(f"keys of the panel ({check.shown(list(panel))}) must be distinct: {remedy}")
