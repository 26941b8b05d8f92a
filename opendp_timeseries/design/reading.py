"""What is read of a log: which rows, of whom, at which places, and how often at most. All of it is public.

Engines read by it, and :class:`~opendp_timeseries.accounting.influence.Reach` says how far one individual can get in
what is read. How much of that counts is the weighting's (:mod:`~opendp_timeseries.design.weighting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._json import OPTIONAL
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.influence import Reach
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.groups import Key
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid, check_grid

Keys = Sequence[str] | Sequence[int]

#: Bounds of values are at most this, so that weighed sums of many individuals are below 2**61.
MAX_BOUND: Final = 2**20


@dataclass(frozen=True, kw_only=True)
class Source:
    """The columns of a log that are read.

    :param identifier: tells individuals apart.
    :param time: the times of events; None where no time is read.
    :param by: tells the series of a panel apart; None for one series.
    :param value: numbers that are added up; None where rows are counted, each as 1.
    :param exact: whether only texts that are spelled alike are one individual, as in OpenDP's own frames; else ``17``,
        ``17.0`` and ``"17"`` are one, too.
    """

    identifier: str
    time: str | None = None
    by: str | None = None
    exact: bool = False
    value: str | None = field(default=None, metadata=OPTIONAL)

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return [column for column in (self.identifier, self.time, self.by, self.value) if column is not None]

    def __post_init__(self) -> None:
        for name in ("identifier", "time", "by", "value"):
            column = getattr(self, name)
            if not (isinstance(column, str) or (column is None and name != "identifier")):
                raise TypeRefusal(name, column, "must be a string, the name of a column")
        if self.by is not None and self.by in (self.identifier, self.time):
            raise Refusal("by", self.by, "must be a different column from the identifier and the time")
        if self.value is not None and self.value in (self.identifier, self.time, self.by):
            raise Refusal("value", self.value, "must be a column of its own, of the numbers that are added up")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Events of each individual by step and series, within limits that do not depend on how often they come.

    With a unit of privacy within a period, an individual is read anew in each period, and the limits hold in each.

    :param source: the columns that are read; None for counts made elsewhere, whose limits are assumed.
    :param grid: the grid on which rows are placed.
    :param unit: what a distance of 1 between two logs is.
    :param panel: the keys of a panel, in the order of its series; None for one series.
    :param step_cap: ``M``, most of one individual in one step: events or, of a value, its units.
    :param gap: least distance of two steps of one individual, around the cycle of the grid, in each series of a panel;
        1 is none.
    :param key_cap: most series of a panel in which one individual is read at one step; None for no such cap.
    :param once_over: a grid, over all of which individuals are read once, as one step; else None.
    :param grouping: groups of keys whose sums are read, too; None for none.
    :raises TypeError, ValueError: naming the parameter, its value and the remedy.
    """

    source: Source | None
    grid: TimeGrid
    unit: Unit = field(default_factory=Unit)
    panel: tuple[Key, ...] | None = None
    step_cap: int = 1
    gap: int = 1
    key_cap: int | None = None
    once_over: TimeGrid | None = None
    grouping: Grouping | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        check_grid(self.grid)
        if self.panel is not None:
            _check_panel(self.panel)
        if self.key_cap is not None and self.panel is None:
            raise Refusal("key_cap", self.key_cap, "requires `by=` and `keys=`", "leave it out")
        gap = "the fewest steps from one counted step of an individual to their next, from 1, which is no gap, to the"
        for name, remedy, maximum in (
            ("step_cap", "the most of one individual in one step", MAX_BOUND if self.is_sum else 10**100),  # a float
            ("gap", f"{gap} {self.grid.size} of the grid", self.grid.size),
            ("key_cap", "the most keys at which one individual counts in a step", None),
        ):
            if name != "key_cap" or self.key_cap is not None:
                label = "bound" if name == "step_cap" and self.is_sum else name
                value = check.integer(label, getattr(self, name), minimum=1, maximum=maximum, remedy=remedy)
                object.__setattr__(self, name, value)
        if self.once_over is not None and self.grid.size > 1:
            raise Refusal("grid", self.grid, "must be one step where individuals are read once over another grid")
        if self.source is not None:
            if (self.source.by is None) != (self.panel is None):
                raise Refusal("by", self.source.by, "and the keys of a panel must be given together")
            if self.source.time is None and self.grid.size > 1:
                raise Refusal("time", Quoted("None"), f"must name the column that tells {self.grid.size} steps apart")
            if self.is_sum and (self.source.time is None or self.once_over is not None):
                raise Refusal(
                    "value",
                    self.source.value,
                    "must be left out where individuals are counted once over a whole grid, or log",
                )
        self._check_grouping()
        entries = self.grid.size * len(self.keys or ("",))
        check.integer("size of the panel", entries, maximum=2**31, remedy="use fewer steps, keys or groups")
        if self.unit.period is not None:
            timeless = self.source is not None and self.source.time is None
            if timeless or self.once_over is not None:
                raise Refusal(
                    "period",
                    Quoted(self.unit.period),
                    "must be left out where individuals are counted once over a whole grid, or log",
                )
            periods = len(self.period_lengths())  # or it does not fit the grid, and is refused
            # As whole bits, which engines keep free beside those of an individual's number.
            bits = (periods - 1).bit_length() + (self.places - 1).bit_length()
            remedy = "use fewer steps or keys, or about as many steps in each period"
            check.integer("bits of a period and a step within it", bits, maximum=33, remedy=remedy)

    def _check_grouping(self) -> None:
        if self.grouping is None:
            return
        if self.panel is None:
            raise Refusal("groups", ..., "require `by=` and `keys=`, or leave them out")
        self.grouping.groups.check_panel(self.panel)
        if self.key_cap is not None:
            raise Refusal(
                "key_cap",
                self.key_cap,
                "must be left out with groups, beside which nobody has to be left out of any key",
            )
        if self.is_sum:  # so that no sum of what one individual adds to a group overflows
            remedy = f"must be at most this with groups of {self.series} keys; choose a coarser unit"
            check.integer("bound", self.step_cap, maximum=256 * MAX_BOUND // self.series, remedy=remedy)

    @property
    def is_sum(self) -> bool:
        """True if values are added up, False if rows are counted."""
        return self.source is not None and self.source.value is not None

    @property
    def log(self) -> Source:
        """The columns of the log; ValueError for counts made elsewhere."""
        if self.source is None:
            raise Refusal(
                "log", ..., "must not be given for counts that were made elsewhere: they are not counted again"
            )
        return self.source

    @property
    def row_grid(self) -> TimeGrid:
        """The grid on which a row must be: that of the steps, or the one over which individuals are read once."""
        return self.grid if self.once_over is None else self.once_over

    @property
    def is_once(self) -> bool:
        """True if individuals are read once, at each key, over a whole grid or log."""
        return self.once_over is not None or (self.source is not None and self.source.time is None)

    @property
    def is_assumed(self) -> bool:
        """True if limits and caps are assumed of counts made elsewhere, False if the count enforces them."""
        return self.source is None

    @property
    def is_drawn(self) -> bool:
        """True if each count draws anew in which series an individual is read."""
        return self.key_cap is not None and self.key_cap < self.series

    @property
    def series(self) -> int:
        """Number of series of the panel."""
        return 1 if self.panel is None else len(self.panel)

    @property
    def size(self) -> int:
        """Number of positions of rows: steps of the grid times series."""
        return self.grid.size * self.series

    @property
    def places(self) -> int:
        """Number of places of one individual's rows, in the longest period: engines lay out their bits by it.

        Whatever gap and key cap leave, rows may be at all of them.
        """
        return self.period_length * self.series

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """One key for each series of sums: of the panel, and then of groups of it; None for one series."""
        if self.panel is None or self.grouping is None:
            return self.panel
        return *self.panel, *self.grouping.groups.names

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """A row for each level of groups: in which series of sums each key is."""
        if self.panel is None or self.grouping is None:
            return np.arange(self.series)[None]
        return self.grouping.levels(self.panel)

    @property
    def max_steps(self) -> int:
        """Number of steps in which one individual can be, over all series, by gap and key cap, in the longest period.

        With groups it is of those who are at one key at a time; others can be larger.
        """
        reach = self.reach()
        return max((reach if self.grouping is None else reach._replace(key_cap=1)).steps())

    @cached_property
    def period_span(self) -> tuple[int, int] | None:
        """The first and the last period that a count looks at that enforces one, as in ``Period.span``; else None."""
        period = self.unit.period
        return None if period is None or self.is_assumed else period.span(self.row_grid)

    @property
    def period_starts(self) -> NDArray[np.int64] | None:
        """The first step of each period in which an individual is read anew; None if there are no periods."""
        period = self.unit.period
        return None if period is None else period.starts(self.grid)

    @property
    def period_length(self) -> int:
        """Number of steps of one series in which an individual can be, in the longest period if there are periods."""
        return int(self.period_lengths()[0])

    def period_lengths(self) -> NDArray[np.int64]:
        """Return in how many steps each period is in which an individual is read anew, the longest first.

        :raises ValueError: if a step lies in two of them.
        """
        period = self.unit.period
        return np.array([self.grid.size]) if period is None else period.lengths(self.grid)

    def reach(self, distance: int = 1, *, periods: int = 1) -> Reach:
        """Return how far the individuals can get in whom logs at this distance differ.

        :param distance: in units of privacy.
        :param periods: with a unit within a period, in at most how many periods each individual differs; else 1.
        """
        periods = check.integer("periods", periods, minimum=1)
        if periods > 1 and self.unit.period is None:
            raise Refusal("periods", Quoted(periods), f"must be 1, as this is for {self.unit}, whatever they did")
        return Reach(
            individuals=distance * self.unit.individuals,
            step_cap=self.step_cap,
            size=self.size,
            replaced=self.unit.replaced,
            gap=self.gap,
            series=self.series,
            key_cap=self.key_cap,
            periods=tuple(self.period_lengths()[:periods].tolist()),
        )


def panel_of(by: str | None, keys: Keys | None) -> tuple[Key, ...] | None:
    """Return the keys of a panel, as plain Python ones; None without a panel. :class:`Reading` checks the rest."""
    if by is None and keys is None:
        return None
    if by is None or keys is None:
        pair = f"by ({check.quote(by)}) and keys ({check.quote(keys)})"
        raise TypeRefusal(pair, ..., "must be given together: keys are public, and never read from the data")
    is_row = hasattr(keys, "__array__") and getattr(keys, "ndim", 0) == 1  # an array, or an index or series of pandas
    if isinstance(keys, (str, bytes)) or not (is_row or isinstance(keys, Sequence)):
        raise TypeRefusal("keys", keys, "must be a list of keys: their order is that of the series")
    return tuple(map(_plain, keys))


def bound_in_a_step(value: str | None, bound: int | None, step_cap: int) -> int:
    """Return the most of one individual in one step: the bound of a value, or the cap on events."""
    if value is None:
        if bound is not None:
            raise Refusal("bound", bound, "requires `value=`, the column that is added up", "or leave it out")
        return step_cap
    if step_cap != 1:
        raise Refusal(
            "step_cap",
            step_cap,
            f"must be left out with value ({check.quote(value)}), of which `bound=` is the most in a step",
        )
    remedy = "the most of one individual in one step, in whole units, from what is plausible and never from the log"
    limit: int = check.required("bound", check.REQUIRED if bound is None else bound, remedy)
    return limit


def _plain(key: Key) -> Key:
    if isinstance(key, str):
        return str.__str__(key)  # NumPy's are shown as np.str_, and members of an Enum by their names
    return int(key) if isinstance(key, (int, np.integer)) and not isinstance(key, bool) else key


def _check_panel(panel: tuple[Key, ...]) -> None:
    if not panel:
        raise Refusal("keys of the panel", ..., "must name at least one series")
    if len({type(key) for key in panel}) > 1 or type(panel[0]) not in (str, int):
        raise Refusal("keys of the panel", list(panel), "must be all strings or all integers")
    if "" in panel:
        raise Refusal("keys of the panel", list(panel), "must not be empty: '' is a missing key")
    if len(set(panel)) < len(panel):
        raise Refusal("keys of the panel", list(panel), "must be distinct", "name each series once, from a public list")
