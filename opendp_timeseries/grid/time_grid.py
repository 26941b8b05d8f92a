"""The grid itself: public parameters, read once, and the questions that engines and figures ask of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import integer, is_a, shown
from opendp_timeseries.grid.clock import Clock, clock_of
from opendp_timeseries.grid.edges import Edges, EvenEdges, StepRule, StepTable, edges_between
from opendp_timeseries.grid.instants import (
    EPOCH,
    SECOND,
    UNITS,
    Instant,
    Zone,
    parse_instant,
    parse_zone,
    write_instant,
)
from opendp_timeseries.grid.widths import CalendarWidth, FixedWidth, parse_width

__all__ = ["TimeGrid", "check_grid", "day_of", "unit_begins"]

_INT64: Final = np.iinfo(np.int64)
_DAY: Final = 86400
_MARGIN: Final = 2 * _DAY  # seconds; no clock is further than a day from UTC
_YEAR_1: Final = (dt.datetime(1, 1, 1) - EPOCH) // dt.timedelta(seconds=1) + 10 * _DAY
_LAST_DATE: Final = np.datetime64("9999-12-21", "D")
_YEAR_10000: Final = (dt.datetime(9999, 12, 31) - EPOCH) // dt.timedelta(seconds=1) - 10 * _DAY
_MAX_SIZE: Final = 2**31
#: Listed edges that a representation shows in full.
_SHOWN: Final = 12


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class TimeGrid:
    """A public grid of ``size`` steps, each half-open: its own start belongs to it, and the next one's does not.

    Without ``start`` the time column holds step numbers, integers from 0 to ``size - 1``. With ``start`` and ``step``
    it holds instants (``datetime64``), and ``step`` says how long each step is:

    * A **fixed time** in the units ``h``, ``min``, ``s``, ``ms``, ``us``, ``ns``, ``ps``, ``fs``, ``as``:
      ``"24h"`` is 24 hours, whatever clocks do.
    * **Units of the calendar** of ``zone``: days ``"1d"``, weeks ``"1w"`` (from Monday), months ``"1mo"``, quarters
      ``"1q"``, years ``"1y"``, and multiples, counted from ``start``. A day has 23, 24 or 25 hours where clocks change.
      A unit begins at the first instant at which the clock shows its first day or a later one: at midnight, or when
      clocks skip midnight. A day that clocks skip as a whole is no step.

    These are the units of Polars but for the minute, which is ``min`` here.

    *Aware* instants (with a zone or an offset) are converted to UTC. *Naive* ones are local times of ``zone``, and are
    refused when the grid has none. A local time that occurs twice, as clocks go back, is its first occurrence; one that
    is skipped, as clocks go forward, is shifted forward by the gap (as ``fold=0`` in PEP 495).

    Fields are kept in one spelling, so that equal grids are equal however they were written, and the representation
    says all of them: it enters the identifiers by which OpenDP compares spaces. In UTC, ``"24h"`` from a midnight is
    ``"1d"``, and seven days from a Monday are ``"1w"``.

    :param size: number of steps ``T``, from 1 to 2^31. This or ``end`` must be given; neither is read from the data.
    :param start: start of step 0: an ISO 8601 string, a ``datetime``, a ``date`` (its midnight) or a ``datetime64``. A
        naive start is a local time of ``zone``. It must be the start of a unit of the calendar, if ``step`` is one.
    :param end: where the last step ends, in place of ``size``; it is not on the grid, and must be the end of a step.
    :param step: width of a step: a string such as ``"5min"``, ``"1h"``, ``"1d"``, ``"1mo"``, or a ``timedelta`` or a
        ``timedelta64``, which are fixed times.
    :param zone: IANA name of the zone whose clock naive times show and whose calendar is meant, such as ``"UTC"`` or
        ``"America/New_York"``.
    :raises TypeError: for a field that is left out or of the wrong type.
    :raises ValueError: for a field of the wrong value; where ``start`` or ``end`` is no edge, it names the nearest.

    >>> grid = TimeGrid(start="2013-01-01", end="2013-01-01T03:00", step="1h", zone="America/New_York")
    >>> grid
    TimeGrid(size=3, start='2013-01-01T00:00-05:00', step='1h', zone='America/New_York')
    >>> grid.steps(np.array(["2013-01-01T00:59:59", "2013-01-01T01:00:00", "NaT"], dtype="datetime64[s]"))
    array([ 0,  1, -1])
    >>> print(grid.instants())
    ['2013-01-01T05:00:00' '2013-01-01T06:00:00' '2013-01-01T07:00:00']

    Clocks change on 10 March, so this day has 23 hours:

    >>> days = TimeGrid(start="2013-03-09", size=3, step="1d", zone="America/New_York")
    >>> print(np.diff(days.edges()))
    [86400 82800 86400]
    """

    size: int
    start: str | None
    step: str | None
    zone: str | None
    _listed: tuple[str, ...] | None
    _edges: Edges = dataclasses.field(compare=False)

    def __init__(
        self,
        *,
        size: int | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
        step: str | dt.timedelta | np.timedelta64 | None = None,
        zone: str | None = None,
    ) -> None:
        clock = parse_zone(zone)
        if (start is None) != (step is None):
            raise TypeError("start and step must be given together, for instance start='2013-01-01', step='1h'")
        if start is None and zone is not None:
            raise TypeError("a grid of integer steps must not have a zone; give start and step too, or leave it out")
        if start is None and end is not None:
            raise TypeError(
                f"end ({shown(end)}) needs a start and a step; give them too, or size alone for integer steps"
            )
        if size is not None and end is not None:
            raise TypeError(f"size ({shown(size)}) and end ({shown(end)}) must not both be given; leave one out")
        if size is None and end is None:
            raise TypeError(
                "size or end must be given: it is public and is never read from the data; for instance size=24"
            )
        steps = None if size is None else integer("size", size, minimum=1, maximum=_MAX_SIZE)
        if start is None:
            assert steps is not None
            self._set(EvenEdges(0, 1, steps), zone=None, start=None, step=None, listed=None)
            return
        width = parse_width(step)
        if isinstance(width, CalendarWidth) and clock is None:
            raise ValueError(
                f"step ({shown(step)}) is a unit of the calendar, so the grid must have a zone: give zone, for instance"
                " zone='UTC'; or write a fixed time, such as step='24h'"
            )
        calendar = isinstance(width, CalendarWidth)
        first = parse_instant("start", start, clock, calendar=calendar)
        _check_years(first, first, f"start ({start!s})")
        last = None if end is None else parse_instant("end", end, clock, calendar=calendar)
        if last is not None:
            _check_years(last, last, f"end ({end!s})")
            if last <= first:
                raise ValueError(f"end ({end!s}) must be after start ({write_instant(first, clock)!r})")
        if isinstance(width, FixedWidth):
            edges = _even_edges(width.attoseconds, width, first, steps, last, clock)
        else:
            assert clock is not None
            edges = _calendar_edges(width, first, steps, last, clock)
        written = str(_spelled(width, first, clock))
        self._set(edges, zone=zone, start=write_instant(first, clock), step=written, listed=None)

    @classmethod
    def from_edges(cls, edges: Iterable[Instant], *, zone: str | None = None) -> TimeGrid:
        """Return a grid of public edges of any kind, such as school terms or reporting weeks.

        Step ``k`` is from ``edges[k]`` to ``edges[k + 1]``, which is not in it. There is nothing between steps: where
        some times belong to none, let them be steps of their own.

        :param edges: at least two instants, ascending: ISO 8601 strings, ``datetime``, ``date`` or ``datetime64``.
            Naive ones are local times of ``zone``, and midnights are where their days begin. They are public, and must
            not be read from the data.
        :param zone: IANA name of the zone whose clock naive times show; see :class:`TimeGrid`.
        :raises TypeError: for edges of a wrong type.
        :raises ValueError: for edges that do not ascend, naming the first that does not.

        >>> terms = TimeGrid.from_edges(["2024-09-02", "2024-12-21", "2025-01-06"], zone="Europe/London")
        >>> terms.steps(np.array(["2024-12-20T12:00", "2024-12-21T12:00"], dtype="datetime64[s]"))
        array([0, 1])
        """
        if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
            raise TypeError(f"edges ({shown(edges)}) must be a list of instants, such as ['2024-01-08', '2024-04-15']")
        given = list(edges)
        if not 2 <= len(given) <= _MAX_SIZE:
            raise ValueError(f"edges ({len(given)}) must be at least two: the start of the first step, and its end")
        clock = parse_zone(zone)
        instants = [parse_instant(f"edges[{k}]", edge, clock, calendar=True) for k, edge in enumerate(given)]
        for k, (before, after) in enumerate(itertools.pairwise(instants)):
            if after <= before:
                raise ValueError(
                    f"edges must ascend, but edges[{k + 1}] ({given[k + 1]!s}) is not after edges[{k}] ({given[k]!s});"
                    " sort them, and give each once"
                )
        unit = next(unit for unit, tick in UNITS.items() if tick <= SECOND and all(t % tick == 0 for t in instants))
        grid = cls.__new__(cls)
        low, high = instants[0], instants[-1]
        _check_years(low, high, f"edges ({given[0]!s} to {given[-1]!s})")
        if max(abs(low), abs(high)) // UNITS[unit] >= 2**63:
            raise _too_fine(f"edges ({given[0]!s} to {given[-1]!s})", unit)
        ticks = np.array([instant // UNITS[unit] for instant in instants], dtype=np.int64)
        written = tuple(write_instant(instant, clock) for instant in instants)
        grid._set(edges_between(ticks, unit), zone=zone, start=written[0], step=None, listed=written)
        return grid

    def _set(
        self, edges: Edges, *, zone: str | None, start: str | None, step: str | None, listed: tuple[str, ...] | None
    ) -> None:
        fields = {"size": edges.size, "start": start, "step": step, "zone": zone, "_listed": listed, "_edges": edges}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if start is not None and not self._holds(self.unit, 1):
            raise _too_fine(f"step ({step})" if listed is None else f"edges ({listed[0]} to {listed[-1]})", self.unit)

    def __repr__(self) -> str:
        if self._listed is None:
            fields = f"size={self.size}, start={self.start!r}, step={self.step!r}, zone={self.zone!r}"
            return f"TimeGrid({fields})"
        edges = f"{list(self._listed)}"
        if len(self._listed) > _SHOWN:
            digest = hashlib.sha256("\n".join(self._listed).encode()).hexdigest()[:32]
            edges = f"<{len(self._listed)} edges, {self._listed[0]} to {self._listed[-1]}, SHA-256 {digest}>"
        return f"TimeGrid.from_edges({edges}, zone={self.zone!r})"

    @property
    def is_integer(self) -> bool:
        """Whether the time column holds step numbers rather than instants."""
        return self.start is None

    @property
    def end(self) -> str | None:
        """Where the last step ends, in the spelling of ``start``; None for a grid of integer steps."""
        return None if self.is_integer else write_instant(self._edges.stop, parse_zone(self.zone))

    @property
    def unit(self) -> str:
        """The coarsest unit of ``datetime64``, seconds or finer, that counts the edges of steps in whole ticks."""
        return self._edges.unit

    def bounds(self) -> tuple[int, int]:
        """Return where the grid begins and ends, in attoseconds from 1970; of integer steps, 0 and their number."""
        return self._edges.start, self._edges.stop

    def check_times(self, dtype: np.dtype[Any], *, aware: bool = False) -> None:
        """Refuse times that this grid cannot place exactly, by their type alone, which is public.

        :param dtype: type of the time column.
        :param aware: whether the column holds UTC instants rather than local times.
        :raises TypeError: naming the type and the remedy.
        """
        if self.is_integer:
            if dtype.kind not in "iu":
                raise TypeError(
                    f"times of type {dtype} are not step numbers; give integers from 0 to size - 1, "
                    "or a grid with a start, a step and a zone"
                )
            return
        if dtype.kind != "M":
            raise TypeError(
                f"times of type {dtype} are not instants; convert them to datetime64 "
                "(floating-point times would fall on the wrong side of edges)"
            )
        if not aware and self.zone is None:
            raise TypeError(
                f"times of type {dtype} carry no zone and the grid has none; say which clock they show, "
                "for instance zone='UTC'"
            )
        unit, multiple = np.datetime_data(dtype)
        finer = unit in UNITS and multiple == 1 and UNITS[unit] < UNITS[self.unit]
        if not self._holds(unit, multiple) and not finer:
            raise TypeError(
                f"times of type {dtype} cannot be placed exactly on {self!r}; "
                f"convert them to datetime64[{self.unit}], with astype"
            )

    def steps(self, times: NDArray[Any], *, aware: bool = False) -> NDArray[np.int64]:
        """Return the step of every time, and -1 for one that is missing (``NaT``) or off the grid.

        Exact for every time: before 1970 it rounds down, not toward zero, and no value overflows.

        :param times: ``datetime64`` of any unit of fixed length, or integers for a grid of integer steps.
        :param aware: whether ``times`` are UTC instants; otherwise they are local times of ``zone``.
        :return: ``int64``, of the same shape.
        :raises TypeError: by the type of ``times`` (see :meth:`check_times`), never by a value.
        """
        times = np.asarray(times)
        self.check_times(times.dtype, aware=aware)
        times = times.astype(times.dtype.newbyteorder("="), copy=False)
        if self.is_integer:
            return np.where((times >= 0) & (times < self.size), times.astype(np.int64), -1)
        ticks, tick = times.view(np.int64), UNITS[np.datetime_data(times.dtype)[0]]
        if tick < (unit := UNITS[self.unit]) and not self._holds(*np.datetime_data(times.dtype)):
            # Finer than the edges of steps: rounded down to their unit, no time crosses one.
            ticks, tick = np.where(np.isnat(times), ticks, ticks // (unit // tick)), unit
        if not aware and self.zone != "UTC":
            ticks, tick = self._to_utc(ticks, tick)
        return self._edges.place(ticks, tick)

    def step_rule(self, unit: str) -> StepRule | StepTable:
        """Return how instants are placed, for engines that do it themselves: by arithmetic, or by a table.

        No intermediate value leaves 64 bits, for ticks on the grid of a unit that :meth:`check_times` admits.

        :param unit: the unit of ticks, such as ``"us"``.
        :return: a rule of arithmetic for steps of one length, a table to look steps up in for others.
        :raises TypeError: for a unit so fine that an intermediate value could leave 64 bits.
        """
        if not self._holds(unit, 1):
            raise TypeError(f"times in {unit} cannot be placed on {self!r} in 64 bits; cast them to {self.unit}")
        return self._edges.rule(UNITS[unit])

    def clock_range(self) -> tuple[int, int]:
        """Return the seconds from 1970 before and after which no time is on the grid, whatever clock it shows."""
        return self._edges.start // SECOND - _MARGIN, -(-self._edges.stop // SECOND) + _MARGIN

    def clock_changes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the local seconds at which the offsets of naive times from UTC change, and the offsets, in seconds.

        ``offsets[k]`` holds from ``changes[k - 1]`` to ``changes[k]``, for all times that can be on the grid.
        """
        clock = self._clock()
        return clock.local_changes(), clock.offsets

    def instants(self, tz: str = "UTC") -> NDArray[Any]:
        """Return the start of every step: ``datetime64``, or ``int64`` for a grid of integer steps.

        :param tz: see :meth:`edges`.
        """
        return self.edges(tz)[:-1]

    def edges(self, tz: str = "UTC") -> NDArray[Any]:
        """Return the start of every step and the end of the last: ``size + 1`` values of ``datetime64``.

        For a grid of integer steps they are ``int64``.

        :param tz: on which clock: ``"UTC"``, ``"local"`` for that of the grid's own zone (UTC if it has none), or the
            IANA name of another. ``datetime64`` holds no offset, so a local time that occurs twice stands there twice.
        :raises ValueError: for the name of no zone.

        >>> days = TimeGrid(start="2024-03-30", size=2, step="1d", zone="Europe/London")
        >>> print(days.edges())
        ['2024-03-30T00:00:00' '2024-03-31T00:00:00' '2024-03-31T23:00:00']
        >>> print(days.edges(tz="local"))
        ['2024-03-30T00:00:00' '2024-03-31T00:00:00' '2024-04-01T00:00:00']
        """
        ticks = self._edges.ticks()
        zone = parse_zone((self.zone or "UTC") if isinstance(tz, str) and tz == "local" else tz, "tz")
        if self.is_integer:
            return ticks
        if zone is not None and zone is not dt.timezone.utc:
            per_second = SECOND // UNITS[self.unit]
            seconds = ticks // per_second
            ticks += (clock_of(zone, *self.clock_range()).shown(seconds) - seconds) * per_second
        return ticks.view(f"datetime64[{self.unit}]")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that JSON can hold; of a grid from edges, the edges and the zone."""
        if self._listed is not None:
            return {"edges": list(self._listed), "zone": self.zone}
        return {"size": self.size, "start": self.start, "step": self.step, "zone": self.zone}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TimeGrid:
        """Build the grid again from :meth:`to_dict`."""
        return cls.from_edges(**fields) if "edges" in fields else cls(**fields)

    def _holds(self, unit: str, multiple: int) -> bool:
        """Whether 64-bit arithmetic on ticks of ``unit`` places every instant of the grid exactly."""
        if unit not in UNITS or multiple != 1:
            return False  # months and years have no fixed length
        low, high = self.clock_range()
        return max(-low, high) * SECOND // UNITS[unit] < 2**63 - 1 and self._edges.fits(UNITS[unit])

    def _clock(self) -> Clock:
        zone = parse_zone(self.zone)
        assert zone is not None
        return clock_of(zone, *self.clock_range())

    def _to_utc(self, ticks: NDArray[np.int64], tick: int) -> tuple[NDArray[np.int64], int]:
        """Take times on the clock of ``zone`` to UTC; those that cannot be on the grid become NaT."""
        low, high = self.clock_range()
        per_second = max(SECOND // tick, 1)
        seconds = max(tick // SECOND, 1)  # offsets are in seconds, so coarser ticks become seconds
        first, last = low * per_second // seconds, high * per_second // seconds
        near = (ticks >= first) & (ticks <= last)
        local = np.where(near, ticks, first) * np.int64(seconds)
        changes, offsets = self.clock_changes()
        offset = offsets[np.searchsorted(changes * per_second, local, side="right")]
        return np.where(near, local - offset * per_second, _INT64.min), min(tick, SECOND)


def check_grid(grid: Any) -> TimeGrid:
    """Refuse what is no grid.

    :raises TypeError: naming the value and the remedy.
    """
    if not is_a(grid, TimeGrid):
        raise TypeError(f"grid ({shown(grid)}) must be given as a TimeGrid; use TimeGrid(…)")
    checked: TimeGrid = grid
    return checked


def _check_years(first: int, last: int, what: str) -> None:
    """Refuse what reaches beyond the years that Python's calendar has, with a margin for offsets."""
    if first // SECOND - _MARGIN < _YEAR_1 or -(-last // SECOND) + _MARGIN > _YEAR_10000:
        raise ValueError(f"{what} must stay within the years 1 to 9999")


def _too_fine(what: str, unit: str) -> ValueError:
    return ValueError(f"{what} must not be so fine: datetime64[{unit}] cannot hold the grid; take coarser ones")


def _in_words(width: FixedWidth | CalendarWidth, first: int, zone: Zone, size: int) -> str:
    return f"size ({size}) steps of {width} from start ({write_instant(first, zone)!r})"


def _even_edges(
    length: int, width: FixedWidth | CalendarWidth, first: int, size: int | None, last: int | None, zone: Zone
) -> Edges:
    """Edges a fixed time apart, from ``first``: so many, or as far as ``last``."""
    if size is None:
        assert last is not None
        size, rest = divmod(last - first, length)
        if rest:
            raise _no_edge(last, first + max(size + (2 * rest >= length), 1) * length, width, first, zone)
        if size > _MAX_SIZE:
            end = write_instant(last, zone)
            raise ValueError(f"end ({end!r}) must be at most {_MAX_SIZE} steps of {width} away; take longer steps")
    edges = EvenEdges(first, length, size)
    _check_years(first, edges.stop, _in_words(width, first, zone, size))
    return edges


def _calendar_edges(width: CalendarWidth, first: int, size: int | None, last: int | None, zone: dt.tzinfo) -> Edges:
    """Edges where units of the calendar begin, from ``first``: so many, or as far as ``last``."""
    begin = _check_begin(width, first, zone)
    if width.of == "D" and zone is dt.timezone.utc:
        return _even_edges(width.number * _DAY * SECOND, width, first, size, last, zone)
    if size is None:
        assert last is not None
        edges = unit_begins(width, begin, width.steps_beyond(begin, day_of(last, zone)), zone)
        at = int(np.searchsorted(edges, last // SECOND))
        if last % SECOND or at == len(edges) or edges[at] != last // SECOND:
            nearest = min((int(edge) * SECOND for edge in edges[1:]), key=lambda edge: abs(edge - last), default=None)
            raise _no_edge(last, nearest, width, first, zone)
        return edges_between(edges[: at + 1], "s")
    what = _in_words(width, first, zone, size)
    _check_years(first, first + size * width.shortest * SECOND, what)  # before that many are worked out
    skipped = 3 if (width.number, width.of) == (1, "D") else 0  # at most; other days take their places
    edges = unit_begins(width, begin, size + skipped, zone)[: size + 1]
    if len(edges) <= size:
        raise ValueError(f"{what} must stay within the years 1 to 9999")
    return edges_between(edges, "s")


def unit_begins(width: CalendarWidth, begin: np.datetime64, steps: int, zone: dt.tzinfo) -> NDArray[np.int64]:
    """The seconds at which so many steps begin and the last ends, as far as Python's calendar goes."""
    dates = width.dates(begin, np.arange(steps + 1))
    dates = dates[dates <= _LAST_DATE]
    return np.unique(width.begins(_clock_around(zone, dates[0], dates[-1]), dates))


def _no_edge(last: int, nearest: int | None, width: FixedWidth | CalendarWidth, first: int, zone: Zone) -> ValueError:
    end, start = write_instant(last, zone), write_instant(first, zone)
    if nearest is None or nearest > _YEAR_10000 * SECOND:
        instead = "there is none within the years that a calendar has"
    else:
        instead = f"the nearest is {write_instant(nearest, zone)!r}"
    return ValueError(f"end ({end!r}) must be the end of a step of {width} from start ({start!r}); {instead}")


def _check_begin(width: CalendarWidth, first: int, zone: dt.tzinfo) -> np.datetime64:
    """Return the day at whose beginning the grid starts, which must be the first of a unit."""
    start = write_instant(first, zone)
    units = width.around(day_of(first, zone))
    begins = width.begins(_clock_around(zone, units[0], units[1]), units).tolist()
    if begins[0] * SECOND != first:
        known = [begin * SECOND for begin in begins if _YEAR_1 <= begin <= _YEAR_10000]
        nearest = write_instant(min(known, key=lambda begin: abs(begin - first)), zone)
        raise ValueError(
            f"start ({start!r}) must be the start of a {width.name} for steps of {width}; the nearest is {nearest!r}"
        )
    return cast(np.datetime64, units[0])


def _spelled(width: FixedWidth | CalendarWidth, first: int, zone: Zone) -> FixedWidth | CalendarWidth:
    """The same width in the coarsest unit that says it, of which one begins at ``first``."""
    day = _DAY * SECOND
    if isinstance(width, FixedWidth) and zone is dt.timezone.utc and width.attoseconds % day == 0 == first % day:
        width = CalendarWidth(width.attoseconds // day, "D", "d")
    return width.coarsest(day_of(first, zone)) if isinstance(width, CalendarWidth) else width


def day_of(instant: int, zone: Zone) -> np.datetime64:
    """The day that the clock of a zone shows at an instant."""
    assert zone is not None
    seconds = instant // SECOND
    shown = int(clock_of(zone, seconds - _DAY, seconds + _DAY).shown(np.array(seconds)))
    return np.datetime64(shown // _DAY, "D")


def _clock_around(zone: dt.tzinfo, first: np.datetime64, last: np.datetime64) -> Clock:
    """The clock of a zone from one day to another, as far as Python's calendar goes."""
    low, high = (int(day.astype("M8[s]").astype(np.int64)) for day in (first, last))
    return clock_of(zone, max(low - _MARGIN, _YEAR_1 - 9 * _DAY), min(high + _MARGIN, _YEAR_10000 + 9 * _DAY))
