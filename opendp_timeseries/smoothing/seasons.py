"""Where in a pattern that repeats each step is: by its number, or by the clock and the calendar of the grid."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.grid import ONE_DAY, PERIODS, TimeGrid, check_grid, parse_days, parse_zone

Array = NDArray[np.float64]
Seasons = float | str | Sequence[float | str] | NDArray[Any] | None

_MONTH: Final = np.timedelta64(1, "M")
_DAYS: Final = {"1d": 1, "1w": 7}
_MONTHS: Final = {"1mo": 1, "1q": 3, "1y": 12}
_MONDAY: Final = np.datetime64("1970-01-05", "D")
_SUNDAY: Final = 6
#: What weekends have of their own, beside working days: nothing in the mean of a week, with a mean square of 1.
_OF_WEEKDAYS: Final = np.array([-2.0, -2.0, -2.0, -2.0, -2.0, 5.0, 5.0]) / 10**0.5
#: Over so many weeks, the time of the year shows.
_MONTHS_OF_WEEKS: Final = 12
_REMEDY: Final = (
    f"a season is a number of steps, such as `seasons=24` for a day of hours, or one of {', '.join(PERIODS)}"
)


@dataclass(frozen=True, eq=False)
class Season:
    """A pattern that repeats."""

    length: float  # in steps; of most steps, if they are not all alike
    phase: Array | None = None  # the share of it that is over as each step begins; None if the step's number tells
    name: str = ""  # as it was given
    size: Array | None = None  # of the pattern at each step; None if it is the same at all

    def __str__(self) -> str:
        return self.name or f"{self.length:g}"

    def at(self, steps: NDArray[np.int64]) -> Array:
        """Return the share of it that is over as steps begin, in [0, 1)."""
        share: Array = np.mod(steps / self.length, 1.0) if self.phase is None else self.phase[steps]
        return share


def read_seasons(given: Seasons, grid: TimeGrid | None, size: int, holidays: object = ()) -> tuple[Season, ...]:
    """Return seasons, the shortest first, of a series of so many steps; see :func:`~opendp_timeseries.smooth`.

    :raises TypeError, ValueError: for anything but numbers of steps and names of periods, naming the remedy.
    """
    several: list[object] = [] if given is None else [given] if np.ndim(given) == 0 else list(given)  # type: ignore[arg-type]
    if grid is not None and check_grid(grid).size != size:
        raise Refusal("grid", Quoted(f"of {grid.size} steps"), f"must have a step for each of the series ({size})")
    free = _dates(holidays, grid)
    seasons = {}
    for period in several:
        if isinstance(period, str):
            season = _by_calendar(str(period), grid, free)
        elif isinstance(period, np.timedelta64):  # which Python would convert to a number, in whatever unit it has
            raise TypeRefusal("seasons", period, "must be a real number, not a time", _REMEDY)
        else:
            season = Season(check.real("seasons", period, minimum=2.0, remedy=_REMEDY))
        seasons[season.name, season.length] = season
    if len(free) and not any(season.name == "1w" for season in seasons.values()):
        raise Refusal("holidays", ..., "are like Sundays", "give also `seasons='1w'`, or ('1d', '1w') and the like")
    return tuple(sorted(seasons.values(), key=lambda season: season.length))


def lasts_months(seasons: tuple[Season, ...], size: int) -> bool:
    """Return whether a series of so many steps is so long that the time of the year shows, if its weeks are known."""
    return any(season.name == "1w" and size >= _MONTHS_OF_WEEKS * season.length for season in seasons)


def with_weekends(seasons: tuple[Season, ...]) -> tuple[Season, ...]:
    """Return seasons, and after them what the day has of its own at weekends, if they are of the day and the week."""
    by_name = {season.name: season for season in seasons}
    week = by_name.get("1w")
    if "1d" not in by_name or week is None or week.phase is None:
        return seasons
    weekday = np.floor(7 * week.phase + 1e-9).astype(np.int64)
    return (*seasons, replace(by_name["1d"], name="", size=_OF_WEEKDAYS[weekday]))


def _by_calendar(name: str, grid: TimeGrid | None, holidays: NDArray[np.datetime64]) -> Season:
    """Return a season of the clock and the calendar of a grid's zone.

    A day of 23 or 25 hours leaves out an hour of the pattern, or has one twice. A month is a twelfth of a year, however
    many days it has.
    """
    if name not in PERIODS:
        raise Refusal("seasons", name, "must be known", _REMEDY)
    if grid is None or grid.is_integer:
        raise Refusal(
            "seasons",
            name,
            "needs a grid with a calendar",
            "give `grid=TimeGrid(…)` if the count was made elsewhere, or a number of steps",
        )
    edges = grid.edges("local").astype("M8[ns]")
    days = edges.astype("M8[D]")
    over = (edges - days) / ONE_DAY  # the share of the day
    if name in _DAYS:
        length = _DAYS[name] * float(ONE_DAY / np.median(np.diff(edges)))
        weekday = (days - _MONDAY).astype(np.int64) % 7
        if name == "1w":
            weekday[np.isin(days, holidays)] = _SUNDAY
        phase = over if name == "1d" else (weekday + over) / 7
    else:
        months = days.astype("M8[M]")
        first = months.astype("M8[D]")
        position = months.astype(np.int64) + ((days - first) / ONE_DAY + over) / (
            ((months + _MONTH).astype("M8[D]") - first) / ONE_DAY
        )
        length = round(_MONTHS[name] / float(np.median(np.diff(position))), 6)
        phase = np.mod(position / _MONTHS[name], 1.0)
    if length < 2:
        raise Refusal("seasons", name, f"must be at least two steps of {grid!r}", _REMEDY)
    phase.flags.writeable = False
    return Season(length, phase[:-1], name)


def _dates(holidays: object, grid: TimeGrid | None) -> NDArray[np.datetime64]:
    remedy = "`holidays=['2024-12-25', '2024-12-26']`"
    if isinstance(holidays, str) or not isinstance(holidays, Iterable):
        raise TypeRefusal("holidays", holidays, f"must be dates, such as {remedy}")
    zone = (None if grid is None else parse_zone(grid.zone)) or dt.UTC
    try:
        return parse_days({f"holidays[{k}]": day for k, day in enumerate(holidays)}, zone)
    except Refusal as refusal:
        raise type(refusal)(
            refusal.parameter, Quoted(refusal.value), refusal.rule, f"give dates, such as {remedy}"
        ) from None
