"""The time grid: public parameters, parsed once, and the edges and steps that follow from them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._json import fields_of
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._validate import integer
from opendp_timeseries.grid.clock import DAY, Clock, Ints, clock_around
from opendp_timeseries.grid.edges import Edges, edges_of, parse_width, simplify_edges
from opendp_timeseries.grid.instants import UNITS, Instant, check_years, parse_instants, parse_zone, write_instant

_MAX_SIZE: Final = 2**31
_MAX_READ: Final = 2**22  # in a document: seven weeks of seconds, eight years of minutes
_EDGE_UNITS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # units in which edges are written, in nanoseconds
_MAX_LISTED: Final = 12  # edges in a representation


class StepRule(NamedTuple):
    """The rule from a time to its step, for engines that apply it themselves. All times are in nanoseconds from 1970.

    A local time from ``changes[k - 1]`` to before ``changes[k]`` is ``offsets[k]`` ahead of UTC. An instant in UTC is
    on the grid from ``start`` to ``stop - 1``, and lies in the cell ``(instant - start) // width``. If all steps are
    equally long, this is the step. Otherwise the step is in the only row of the table with this cell and
    ``low <= instant < high``. There are at most twice as many rows as steps.
    """

    changes: Ints
    offsets: Ints
    start: int
    stop: int
    width: int
    table: Ints | None  # columns: cell, low, high, step


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class TimeGrid:
    """A public grid of ``size`` half-open steps: the start of a step belongs to it, its end to the next.

    Without ``start`` the time column holds step numbers, integers from 0 to ``size - 1``. With ``start`` and ``step``
    it holds instants (``datetime64``), and ``step`` says how long each step is:

    * A **fixed time** in the units ``h``, ``min``, ``s``, ``ms``, ``us``, ``ns``: ``"24h"`` is 24 hours, whatever
      clocks do.
    * **Units of the calendar** of ``zone``: days ``"1d"``, weeks ``"1w"`` (from Monday), months ``"1mo"``, quarters
      ``"1q"``, years ``"1y"``, and multiples, counted from ``start``. A unit begins at the first instant at which the
      clock shows its first day or a later one: at midnight, or when clocks skip midnight. So a day has 23, 24 or 25
      hours where clocks change, and a day that clocks skip entirely is not a step.

    *Aware* instants (with a zone or an offset) are converted to UTC. *Naive* ones are local times of ``zone``, and are
    refused when the grid has none. A local time that occurs twice, as clocks go back, is its first occurrence; one that
    is skipped, as clocks go forward, is shifted forward by the gap (as ``fold=0`` in PEP 495). A ``datetime`` with
    ``fold=1``, of Python or in a column of objects, is the other one.

    A grid is exact to the nanosecond. It lies within the years 1680 to 2259, and spans at most 290 of them. Its fields
    have one spelling, so that equal grids are equal and represented alike however they were written: in UTC, ``"24h"``
    from a midnight is ``"1d"``. OpenDP compares spaces by the representation.

    :param size: number of steps ``T``, from 1 to 2^31. This or ``end`` must be given; neither is read from the data.
    :param start: start of step 0: text in ISO 8601, a ``datetime``, a ``date`` or a ``datetime64``. A naive start is a
        local time of ``zone``; midnight is where its day begins. With a step of the calendar, one starts there.
    :param end: where the last step ends, in place of ``size``; it is not on the grid, and must be the end of a step.
    :param step: width of a step: a string, or a ``timedelta`` or ``timedelta64``, which are fixed times.
    :param zone: IANA name of the zone whose clock naive times show and whose calendar is meant, such as ``"UTC"``.
    :raises TypeError, ValueError: by the name of a field that is left out or wrong. If ``start`` or ``end`` is not an
        edge, the message says which is the nearest.

    >>> grid = TimeGrid(start="2013-01-01", end="2013-01-01T03:00", step="1h", zone="America/New_York")
    >>> grid
    TimeGrid(size=3, start='2013-01-01T00:00-05:00', step='1h', zone='America/New_York')
    >>> grid.steps(np.array(["2013-01-01T00:59:59", "2013-01-01T01:00:00", "NaT"], dtype="datetime64[s]"))
    array([ 0,  1, -1])
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
            if step is None:
                raise TypeRefusal("start", start, "must be given with `step`, for instance `step='1h'`")
            raise TypeRefusal("step", step, "must be given with `start`, for instance `start='2013-01-01'`")
        if start is None and (end is not None or zone is not None):
            name, value = ("zone", zone) if end is None else ("end", end)
            remedy = "give them too, or `size` alone for integer steps"
            raise TypeRefusal(name, value, "needs `start` and `step`", remedy)
        if (size is None) == (end is None):
            rule = "or `end` must be given, and not both: it is public and is never read from the data"
            raise TypeRefusal("size", ..., rule)
        steps = None if size is None else integer("size", size, minimum=1, maximum=_MAX_SIZE)
        if start is None:
            assert steps is not None
            self._set(range(steps + 1))
            return
        width = parse_width(step)
        if width.is_calendar and clock is None:
            raise Refusal(
                "step",
                step,
                "is a unit of the calendar, so the grid must have a zone: give zone, for instance `zone='UTC'`",
                "or write a fixed time, such as `step='24h'`",
            )
        given = {"start": start} | ({} if end is None else {"end": end})
        first, *ends = parse_instants(given, clock)
        last = ends[0] if ends else None
        if last is not None and last <= first:
            raise Refusal("end", Quoted(f"{end!s}"), f"must be after start ({write_instant(first, clock)!r})")
        edges = edges_of(width, first, size=steps, last=last, zone=clock)
        if len(edges) > _MAX_SIZE + 1:
            raise Refusal(
                "end", Quoted(f"{end!s}"), f"must be at most {_MAX_SIZE} steps of {width} away", "take longer steps"
            )
        self._set(edges, start=write_instant(first, clock), step=str(width.coarsest(first, clock)), zone=zone)

    @classmethod
    def from_edges(cls, edges: Iterable[Instant], *, zone: str | None = None) -> TimeGrid:
        """Return a grid of public edges of any kind, such as school terms or reporting weeks.

        Step ``k`` is from ``edges[k]`` to ``edges[k + 1]``, which is not in it. There is nothing between steps: where
        some times belong to none, let them be steps of their own.

        :param edges: at least two instants, ascending, each as ``start`` is given. They are public, and must not be
            read from the data.
        :param zone: IANA name of the zone whose clock naive times show.
        :raises TypeError, ValueError: for edges of a wrong type, or that do not ascend, naming the first.

        >>> terms = TimeGrid.from_edges(["2024-09-02", "2024-12-21", "2025-01-06"], zone="Europe/London")
        >>> terms.steps(np.array(["2024-12-20T12:00", "2024-12-21T12:00"], dtype="datetime64[s]"))
        array([0, 1])
        """
        if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
            raise TypeRefusal("edges", edges, "must be a list of instants, such as ['2024-01-08', '2024-04-15']")
        entries = list(edges)
        if len(entries) < 2:
            raise Refusal("edges", len(entries), "must be at least two: the start of the first step, and its end")
        clock = parse_zone(zone)
        instants = parse_instants({f"edges[{k}]": edge for k, edge in enumerate(entries)}, clock)
        for k, (before, after) in enumerate(itertools.pairwise(instants)):
            if after <= before:
                raise Refusal(
                    "edges",
                    ...,
                    f"must ascend, but edges[{k + 1}] ({entries[k + 1]!s}) is not after edges[{k}] ({entries[k]!s})",
                    "sort them, and give each once",
                )
        check_years("edges", Quoted(f"{entries[0]!s} to {entries[-1]!s}"), instants[0], instants[-1])
        texts = tuple(write_instant(instant, clock) for instant in instants)
        grid = cls.__new__(cls)
        grid._set(simplify_edges(np.array(instants, dtype=np.int64)), start=texts[0], zone=zone, edge_texts=texts)
        return grid

    def _set(self, edges: Edges, edge_texts: tuple[str, ...] | None = None, **fields: str | None) -> None:
        values = {"start": None, "step": None, "zone": None} | fields
        self.__dict__.update(size=len(edges) - 1, _listed=edge_texts, _edges=edges, **values)  # it is frozen

    def __repr__(self) -> str:
        if self._listed is None:
            fields = f"size={self.size}, start={self.start!r}, step={self.step!r}, zone={self.zone!r}"
            return f"TimeGrid({fields})"
        edges = f"{list(self._listed)}"
        if len(self._listed) > _MAX_LISTED:
            digest = hashlib.sha256("\n".join(self._listed).encode()).hexdigest()[:32]
            edges = f"<{len(self._listed)} edges, {self._listed[0]} to {self._listed[-1]}, SHA-256 {digest}>"
        return f"TimeGrid.from_edges({edges}, zone={self.zone!r})"

    @property
    def is_integer(self) -> bool:
        """True if the time column holds step numbers rather than instants."""
        return self.start is None

    @property
    def end(self) -> str | None:
        """End of the last step, in the spelling of ``start``; None for a grid of integer steps."""
        return None if self.is_integer else write_instant(int(self._edges[-1]), parse_zone(self.zone))

    def check_times(self, dtype: np.dtype[Any], *, aware: bool = False) -> None:
        """Raise TypeError if this grid cannot place times of a type (which is public); see :meth:`steps`."""
        if self.is_integer:
            if dtype.kind not in "iu":
                raise TypeRefusal(
                    f"times of type {dtype}", ..., "are not step numbers", "give integers, or a grid with a start"
                )
        elif dtype.kind != "M" or dtype.str[4:-1] not in UNITS:  # months have no fixed length
            raise TypeRefusal(f"times of type {dtype}", ..., "are not instants", "convert them to datetime64[ns]")
        elif not aware and self.zone is None:
            raise TypeRefusal(
                f"times of type {dtype}",
                ...,
                "carry no zone and the grid has none",
                "say which clock they show, such as `zone='UTC'`",
            )

    def steps(self, times: NDArray[Any], *, aware: bool = False) -> Ints:
        """Return the step of every time, and -1 for a time that is missing (``NaT``) or off the grid.

        No value overflows, and fractions of a nanosecond are rounded down.

        :param times: ``datetime64`` of any unit of fixed length, or integers for a grid of integer steps.
        :param aware: True if ``times`` are UTC instants; otherwise they are local times of ``zone``.
        :return: ``int64``, of the same shape.
        :raises TypeError: by the type of ``times``, never by a value.
        """
        times = np.asarray(times)
        self.check_times(times.dtype, aware=aware)
        times = times.astype(times.dtype.newbyteorder("="), copy=False)
        if self.is_integer:
            return np.where((times >= 0) & (times < self.size), times.astype(np.int64), -1)
        edges = self._edges
        low, high = edges[0] - 2 * DAY, edges[-1] + 2 * DAY  # no clock is further than a day from UTC
        attoseconds = UNITS[np.datetime_data(times.dtype)[0]]
        if attoseconds < UNITS["ns"]:
            instants = np.where(np.isnat(times), low, times.view(np.int64) // (UNITS["ns"] // attoseconds))
        else:  # NaT is the smallest integer, and stays off the grid, as do all distant times
            nanoseconds = attoseconds // UNITS["ns"]
            instants = np.clip(times.view(np.int64), low // nanoseconds, high // nanoseconds + 1) * nanoseconds
        if not aware and self.zone != "UTC":
            instants = self._clock(self.zone).to_utc(instants)
        if isinstance(edges, range):
            on_grid = (instants >= edges[0]) & (instants < edges[-1])
            return np.where(on_grid, (instants - edges[0]) // edges.step, -1)
        steps = np.searchsorted(edges, instants, side="right") - 1
        return np.where(steps < self.size, steps, -1)

    def step_rule(self) -> StepRule:
        """Return the rule from times to steps as plain numbers, for engines that apply it themselves."""
        edges, clock, table = self._edges, self._clock(self.zone), None
        start, stop = int(edges[0]), int(edges[-1])
        width = -((start - stop) // self.size)  # at most as many cells as steps
        if not isinstance(edges, range):
            low = np.union1d(edges[:-1], np.arange(start, stop, width))
            steps = np.searchsorted(edges, low, side="right") - 1
            table = np.stack([(low - start) // width, low, np.append(low[1:], stop), steps], axis=1)
        return StepRule(clock.local_changes(), clock.offsets, start, stop, width, table)

    def instants(self, zone: str = "UTC") -> NDArray[Any]:
        """Return the start of every step: ``datetime64``, or ``int64`` for a grid of integer steps.

        :param zone: see :meth:`edges`.
        """
        return self.edges(zone)[:-1]

    def edges(self, zone: str = "UTC") -> NDArray[Any]:
        """Return the start of every step and the end of the last: ``size + 1`` values.

        They are ``datetime64`` in seconds or, if necessary, in a finer unit; ``int64`` for a grid of integer steps.

        :param zone: the clock: ``"UTC"``, ``"local"`` for that of the grid's own zone (UTC if it has none), or the IANA
            name of another zone. ``datetime64`` holds no offset, so a local time may appear twice.

        >>> days = TimeGrid(start="2024-03-30", size=2, step="1d", zone="Europe/London")
        >>> print(days.edges())
        ['2024-03-30T00:00:00' '2024-03-31T00:00:00' '2024-03-31T23:00:00']
        >>> print(days.edges(zone="local"))
        ['2024-03-30T00:00:00' '2024-03-31T00:00:00' '2024-04-01T00:00:00']
        """
        clock = self._clock((self.zone or "UTC") if isinstance(zone, str) and zone == "local" else zone)
        edges = self._edges
        edges = np.arange(edges.start, edges.stop, edges.step) if isinstance(edges, range) else edges.copy()
        if self.is_integer:
            return edges
        unit, length = next((unit, length) for unit, length in _EDGE_UNITS.items() if not np.any(edges % length))
        return (clock.local_times(edges) // length).view(f"datetime64[{unit}]")

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain values for JSON; for a grid from edges, the edges and the zone."""
        if self._listed is not None:
            return {"edges": list(self._listed), "zone": self.zone}
        return {"size": self.size, "start": self.start, "step": self.step, "zone": self.zone}

    @classmethod
    def from_dict(cls, document: object) -> TimeGrid:
        """Read the output of :meth:`to_dict`.

        :raises TypeError, ValueError: for a field that is missing, unknown, or of another type or value.
        """
        if isinstance(document, dict) and "edges" in document:
            return cls.from_edges(**fields_of(document, "grid", {"edges": tuple[str, ...], "zone": str | None}))
        text = str | None
        fields = fields_of(document, "grid", {"size": int, "start": text, "step": text, "zone": text})
        # Limit the memory and time that a document can demand.
        return cls(**fields | {"size": integer("size of the grid", fields["size"], minimum=1, maximum=_MAX_READ)})

    def _clock(self, name: str | None) -> Clock:
        """Return the clock of a zone over the times of the grid; UTC without a zone."""
        return clock_around(parse_zone(name) or dt.UTC, int(self._edges[0]), int(self._edges[-1]))


def check_grid(grid: object) -> TimeGrid:
    """Return a grid; raise TypeError for any other object."""
    if not isinstance(grid, TimeGrid):
        raise TypeRefusal("grid", grid, "must be given as a TimeGrid", "use TimeGrid(…)")
    return grid
