"""The public time grid: which instants belong to which step.

A grid is chosen without looking at the data: one anchored at the first event would reveal that event.
All arithmetic is on integer ticks. Times never pass through a float, so no event sits on the wrong side
of an edge.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
import re
import zoneinfo
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import REQUIRED, integer, is_a, required

__all__ = ["StepRule", "TimeGrid", "check_grid", "whole_ticks"]

# Every unit of datetime64 that has a fixed length, in attoseconds (the finest of them), coarsest first.
_SECOND: Final = 10**18
_UNITS: Final[dict[str, int]] = {
    "W": 7 * 86400 * _SECOND,
    "D": 86400 * _SECOND,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}
# How steps are written: the same units, with "d" and "min", as "D" and "m" are mistaken for other things.
_STEP_UNITS: Final[dict[str, int]] = {
    {"D": "d", "m": "min"}.get(unit, unit): length for unit, length in _UNITS.items() if unit != "W"
}
_INT64: Final = np.iinfo(np.int64)
_EPOCH: Final = dt.datetime(1970, 1, 1)
_DAY: Final = 86400
_MARGIN: Final = 2 * _DAY  # seconds; no clock is further than a day from UTC
_YEAR_1: Final = (dt.datetime(1, 1, 1) - _EPOCH) // dt.timedelta(seconds=1) + 10 * _DAY
_YEAR_10000: Final = (dt.datetime(9999, 12, 31) - _EPOCH) // dt.timedelta(seconds=1) - 10 * _DAY
_INSTANT: Final = re.compile(
    r"(?P<whole>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::\d{2}){0,2})?)(?:(?<=:\d{2}:\d{2})\.(?P<fraction>\d{1,18}))?"
    r"(?P<offset>Z|[+-]\d{2}:\d{2}(?::\d{2})?)?"
)
_MONTHS: Final = "months and years vary in length; steps have one fixed width"


class StepRule(NamedTuple):
    """How an instant becomes a step, in whole numbers: ``((tick - first) * factor + ahead) // divisor``.

    It holds for ticks from ``first`` to ``stop - 1``, counted from 1970, UTC; all others are off the grid.
    """

    first: int
    stop: int
    factor: int
    ahead: int
    divisor: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeGrid:
    """A public grid of ``size`` steps, half-open: step ``k`` is ``[start + k·step, start + (k+1)·step)``.

    Without ``start`` the time column holds step numbers, integers from 0 to ``size - 1``. With ``start``
    and ``step`` it holds instants (``datetime64``), and the grid lives on UTC: steps have one fixed width, so
    ``"1d"`` is 24 hours, also on a day on which clocks change (local midnights then drift by the change).

    *Aware* instants (with a zone or an offset) are converted to UTC. *Naive* ones are local times of
    ``zone``, and are refused when the grid has none. A local time that occurs twice, as clocks go back, is
    its first occurrence; one that is skipped, as clocks go forward, is shifted forward by the gap (as
    ``fold=0`` in PEP 495).

    Fields are kept in one spelling, so that equal grids are equal however they were written, and the
    representation says all of them: it enters the identifiers by which OpenDP compares spaces.

    :param size: number of steps ``T``, from 1 to 2^31. It must be given; it is never read from the data.
    :param start: start of step 0: an ISO 8601 string, a ``datetime`` or a ``datetime64``. A naive start is a
        local time of ``zone``.
    :param step: width of a step: a string such as ``"5min"``, ``"1h"``, ``"1d"``, ``"7d"`` (units ``d``,
        ``h``, ``min``, ``s``, ``ms``, ``us``, ``ns``, ``ps``, ``fs``, ``as``), a ``timedelta`` or a
        ``timedelta64``.
    :param zone: IANA name of the zone whose clock naive times show, such as ``"UTC"`` or
        ``"America/New_York"``.
    :raises TypeError: for a field that is left out or of the wrong type.
    :raises ValueError: for a field of the wrong value, for instance a width in months, which vary in length.

    >>> grid = TimeGrid(size=3, start="2013-01-01T00:00", step="1h", zone="America/New_York")
    >>> grid
    TimeGrid(size=3, start='2013-01-01T00:00-05:00', step='1h', zone='America/New_York')
    >>> grid.steps(np.array(["2013-01-01T00:59:59", "2013-01-01T01:00:00", "NaT"], dtype="datetime64[s]"))
    array([ 0,  1, -1])
    >>> print(grid.instants())
    ['2013-01-01T05:00:00' '2013-01-01T06:00:00' '2013-01-01T07:00:00']
    """

    size: int = REQUIRED
    start: str | None = None
    step: str | None = None
    zone: str | None = None
    _origin: int = dataclasses.field(init=False, repr=False, compare=False, default=0)
    _width: int = dataclasses.field(init=False, repr=False, compare=False, default=1)

    def __post_init__(self) -> None:
        required("size", self.size, "for instance TimeGrid(size=24)")
        fields: dict[str, Any] = {"size": integer("size", self.size, minimum=1, maximum=2**31)}
        if (self.start is None) != (self.step is None):
            raise TypeError("start and step must be given together, for instance start='2013-01-01', step='1h'")
        zone = _parse_zone(self.zone)
        if self.start is not None:
            origin, width = _parse_start(self.start, zone), _parse_step(self.step)
            fields |= {"_origin": origin, "_width": width, "step": _write_step(width)}
        elif self.zone is not None:
            raise TypeError("a grid of integer steps must not have a zone; give start and step too, or leave it out")
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if self.start is not None:
            self._check_range()
            object.__setattr__(self, "start", _write_start(self._origin, zone))

    @property
    def is_integer(self) -> bool:
        """Whether the time column holds step numbers rather than instants."""
        return self.start is None

    @property
    def unit(self) -> str:
        """The coarsest unit of ``datetime64``, seconds or finer, that counts the edges of steps in whole ticks."""
        return _common_unit(self._origin, self._width)

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
        finer = unit in _UNITS and multiple == 1 and _UNITS[unit] < _UNITS[self.unit]
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
        ticks, tick = times.view(np.int64), _UNITS[np.datetime_data(times.dtype)[0]]
        if tick < (unit := _UNITS[self.unit]) and not self._holds(*np.datetime_data(times.dtype)):
            # Finer than the edges of steps: rounded down to their unit, no time crosses one.
            ticks, tick = np.where(np.isnat(times), ticks, ticks // (unit // tick)), unit
        if not aware and self.zone != "UTC":
            ticks, tick = self._to_utc(ticks, tick)
        return self._place(ticks, tick)

    def step_rule(self, unit: str) -> StepRule:
        """Return the arithmetic that places instants, for engines that do it themselves.

        No intermediate value leaves 64 bits, for ticks on the grid of a unit that :meth:`check_times` admits.

        :param unit: the unit of ticks, such as ``"us"``.
        :raises TypeError: for a unit so fine that an intermediate value could leave 64 bits.
        """
        if not self._holds(unit, 1):
            raise TypeError(f"times in {unit} cannot be placed on {self!r} in 64 bits; cast them to {self.unit}")
        return self._rule(_UNITS[unit])

    def clock_range(self) -> tuple[int, int]:
        """Return the seconds from 1970 before and after which no time is on the grid, whatever clock it shows."""
        end = self._origin + self.size * self._width
        return self._origin // _SECOND - _MARGIN, -(-end // _SECOND) + _MARGIN

    def clock_changes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offsets of naive times from UTC, in seconds, and the local seconds at which they change.

        ``offsets[k]`` holds from ``changes[k - 1]`` to ``changes[k]``, for all times that can be on the grid.
        """
        return _local_offsets(str(self.zone), *self.clock_range())

    def instants(self) -> NDArray[Any]:
        """Return the start of every step: UTC ``datetime64``, or ``int64`` for a grid of integer steps."""
        steps = np.arange(self.size, dtype=np.int64)
        if self.is_integer:
            return steps
        length = _UNITS[self.unit]
        return (self._origin // length + steps * (self._width // length)).view(f"datetime64[{self.unit}]")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that JSON can hold."""
        return {"size": self.size, "start": self.start, "step": self.step, "zone": self.zone}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TimeGrid:
        """Build the grid again from :meth:`to_dict`."""
        return cls(**fields)

    def _check_range(self) -> None:
        if not (self.clock_range()[0] >= _YEAR_1 and self.clock_range()[1] <= _YEAR_10000):
            raise ValueError(
                f"size ({self.size}) steps of {self.step} from start ({self.start!r}) must stay within the "
                "years 1 to 9999"
            )
        if not self._holds(self.unit, 1):
            raise ValueError(
                f"step ({self.step!r}) is too fine: datetime64[{self.unit}] cannot hold the grid; "
                "take a coarser step or start"
            )

    def _holds(self, unit: str, multiple: int) -> bool:
        """Whether 64-bit arithmetic on ticks of ``unit`` places every instant of the grid exactly."""
        if unit not in _UNITS or multiple != 1:
            return False  # months and years have no fixed length
        tick = _UNITS[unit]
        low, high = self.clock_range()
        parts = self.size * self._width // math.gcd(tick, self._width)
        return max(-low, high) * _SECOND // tick < 2**63 - 1 and parts < 2**63

    def _rule(self, tick: int) -> StepRule:
        """The rule for ticks of ``tick`` attoseconds, worked out in Python integers."""
        first = -(-self._origin // tick)
        stop = -(-(self._origin + self.size * self._width) // tick)
        common = math.gcd(tick, self._width)
        ahead = (first * tick - self._origin) // common
        return StepRule(first, stop, tick // common, ahead, self._width // common)

    def _place(self, ticks: NDArray[np.int64], tick: int) -> NDArray[np.int64]:
        """Steps of instants given in ticks of ``tick`` attoseconds from 1970."""
        rule = self._rule(tick)
        # Times are compared before they are subtracted or multiplied: what wraps is off the grid, and `_holds`
        # made sure the rest cannot.
        on_grid = (ticks >= rule.first) & (ticks < rule.stop)
        ahead = (ticks - np.int64(rule.first)).view(np.uint64)
        ahead = ahead * np.uint64(rule.factor) + np.uint64(rule.ahead)
        ahead //= np.uint64(rule.divisor)
        return np.where(on_grid, ahead.view(np.int64), -1)

    def _to_utc(self, ticks: NDArray[np.int64], tick: int) -> tuple[NDArray[np.int64], int]:
        """Take times on the clock of ``zone`` to UTC; those that cannot be on the grid become NaT."""
        low, high = self.clock_range()
        per_second = max(_SECOND // tick, 1)
        seconds = max(tick // _SECOND, 1)  # offsets are in seconds, so coarser ticks become seconds
        first, last = low * per_second // seconds, high * per_second // seconds
        near = (ticks >= first) & (ticks <= last)
        local = np.where(near, ticks, first) * np.int64(seconds)
        changes, offsets = self.clock_changes()
        offset = offsets[np.searchsorted(changes * per_second, local, side="right")]
        return np.where(near, local - offset * per_second, _INT64.min), min(tick, _SECOND)


def check_grid(grid: Any) -> TimeGrid:
    """Refuse what is no grid.

    :raises TypeError: naming the value and the remedy.
    """
    if not is_a(grid, TimeGrid):
        raise TypeError(f"grid ({grid!r}) must be given as a TimeGrid, not {type(grid).__name__}; use TimeGrid(…)")
    checked: TimeGrid = grid
    return checked


def whole_ticks(instant: np.datetime64 | np.timedelta64, unit: str) -> int | None:
    """Return an instant in units from 1970 (or a duration in units), rounded down; None for months, years and NaT.

    >>> whole_ticks(np.datetime64("1969-12-31T23:59:59.9"), "s")
    -1
    """
    own, multiple = np.datetime_data(instant.dtype)
    if own not in _UNITS or np.isnat(instant):
        return None
    return int(instant.astype(np.int64)) * multiple * _UNITS[own] // _UNITS[unit]


def _common_unit(origin: int, width: int) -> str:
    """Coarsest unit, seconds or finer, that counts ``origin`` and ``width`` in whole ticks."""
    fine = list(_UNITS)[list(_UNITS).index("s") :]
    return next(unit for unit in fine if origin % _UNITS[unit] == 0 == width % _UNITS[unit])


def _parse_zone(zone: Any) -> dt.tzinfo | None:
    if zone is None:
        return None
    if not isinstance(zone, str):
        raise TypeError(f"zone ({zone!r}) must be the IANA name of a time zone, for instance 'UTC'")
    if zone == "UTC":
        return dt.timezone.utc
    try:
        return zoneinfo.ZoneInfo(zone)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ValueError(
            f"zone ({zone!r}) must be the IANA name of a time zone, such as 'UTC' or 'Europe/Paris'; "
            "where the system has no zones, install the package tzdata"
        ) from None


def _parse_start(start: Any, zone: dt.tzinfo | None) -> int:
    """Attoseconds of ``start`` from 1970, UTC."""
    if isinstance(start, dt.datetime):
        start = start.isoformat()
    elif isinstance(start, np.datetime64):
        start = str(start)
    if not isinstance(start, str):
        raise TypeError(f"start ({start!r}) must be an ISO 8601 string, a datetime or a datetime64")
    match = _INSTANT.fullmatch(start)
    try:
        if match is None:
            raise ValueError
        whole = dt.datetime.fromisoformat(match["whole"])
        offset = dt.datetime.fromisoformat("2000-01-01T00:00" + (match["offset"] or "").replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(
            f"start ({start!r}) must be an instant in ISO 8601, for instance '2013-01-01T00:00' or "
            "'2013-01-01T00:00-05:00'"
        ) from None
    seconds = (whole - _EPOCH) // dt.timedelta(seconds=1)
    if offset.tzinfo is not None:
        shift = offset.utcoffset()
    elif zone is None:
        raise ValueError(
            f"start ({start!r}) must say which clock it shows: give zone, for instance zone='UTC', or write an offset"
        )
    else:
        shift = whole.replace(tzinfo=zone).utcoffset()
        if shift != whole.replace(tzinfo=zone, fold=1).utcoffset():
            raise ValueError(f"start ({start!r}) occurs twice or not at all in {zone}; write the offset")
    assert shift is not None
    fraction = int((match["fraction"] or "").ljust(18, "0"))
    return (seconds - shift // dt.timedelta(seconds=1)) * _SECOND + fraction


def _write_start(origin: int, zone: dt.tzinfo | None) -> str:
    """Write ``origin`` on the clock of ``zone`` with its offset, in one spelling."""
    seconds, fraction = divmod(origin, _SECOND)
    instant = (_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=dt.timezone.utc)
    local = instant.astimezone(zone or dt.timezone.utc)
    clock = local.replace(tzinfo=None).isoformat(timespec="seconds")
    if fraction:
        clock += f".{fraction:018d}".rstrip("0")
    elif local.second == 0:
        clock = clock[:-3]
    offset = local.isoformat()[19:]
    return clock + ("Z" if zone in (None, dt.timezone.utc) else offset)


def _parse_step(step: Any) -> int:
    """Attoseconds of ``step``."""
    if isinstance(step, dt.timedelta):
        width = step // dt.timedelta(microseconds=1) * _UNITS["us"]
        width += getattr(step, "nanoseconds", 0) * _UNITS["ns"]  # of a pandas Timedelta
    elif isinstance(step, np.timedelta64):
        unit, multiple = np.datetime_data(step.dtype)
        if unit not in _UNITS or np.isnat(step):
            raise ValueError(f"step ({step!r}) must have a unit of fixed length; {_MONTHS}")
        width = int(step.astype(np.int64)) * multiple * _UNITS[unit]
    elif isinstance(step, str):
        match = re.fullmatch(r"([0-9]+)\s*([a-z]+)", step)
        if match is None or match[2] not in _STEP_UNITS:
            raise ValueError(
                f"step ({step!r}) must be a whole number and a unit ({', '.join(_STEP_UNITS)}), "
                f"for instance '5min'; {_MONTHS}"
            )
        width = int(match[1]) * _STEP_UNITS[match[2]]
    else:
        raise TypeError(f"step ({step!r}) must be a string such as '1h', a timedelta or a timedelta64")
    if width <= 0:
        raise ValueError(f"step ({step!r}) must be longer than nothing")
    return width


def _write_step(width: int) -> str:
    """Write ``width`` in the coarsest unit that divides it."""
    unit = next(unit for unit, length in _STEP_UNITS.items() if width % length == 0)
    return f"{width // _STEP_UNITS[unit]}{unit}"


@functools.lru_cache(maxsize=32)
def _local_offsets(zone: str, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of the clock of ``zone`` from UTC, in seconds, between the local seconds ``low`` and ``high``.

    ``offsets[k]`` holds from ``changes[k - 1]`` to ``changes[k]``. Offsets are looked up once a day and
    changes are then found by bisection; no zone changes its offset twice within a day.
    """
    rule = _parse_zone(zone)

    def offset(local: int) -> int:
        shift = (_EPOCH + dt.timedelta(seconds=local)).replace(tzinfo=rule).utcoffset()
        assert shift is not None
        return shift // dt.timedelta(seconds=1)

    changes, offsets = [], [offset(low)]
    for day in range(low, high, _DAY):
        before, after = day, min(day + _DAY, high)
        if offset(after) == offsets[-1]:
            continue
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if offset(middle) == offsets[-1] else (before, middle)
        changes.append(after)
        offsets.append(offset(after))
    return np.array(changes, dtype=np.int64), np.array(offsets, dtype=np.int64)
