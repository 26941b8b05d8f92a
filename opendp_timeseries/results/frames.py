"""A series as a data frame of pandas (extra ``tables``) or Polars (extra ``polars``), on the clock of a zone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid, check_grid, extend, parse_zone
from opendp_timeseries.release.release import Release
from opendp_timeseries.smoothing import errors

Array = NDArray[np.float64]
Columns = dict[str, Any]


#: From the least to the most.
ErrorCovers = Literal["nothing", "noise", "rate", "counts"]
#: The default of what is then worked out.
_UNKNOWN: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class AnySeries(errors.Estimates):
    """Fields of a :class:`~opendp_timeseries.Series`, which explains them; its module imports those that show it."""

    values: Array
    _: KW_ONLY
    release: Release
    standard_error: Array = _UNKNOWN
    error_covers: ErrorCovers = _UNKNOWN
    model: str = "a model of the authors' own"
    unfiltered: bool = False
    levelled: bool = False
    converged: bool = True
    parts: Sequence[Self] = ()
    sources: tuple[Release, ...] = ()
    events: Sequence[int] = ()
    ahead: int = 0
    covariance: Any = None

    #: Whether it is of means, which are not added up; see :func:`~opendp_timeseries.means`.
    is_mean: ClassVar[bool] = False
    #: Returns the totals over longer steps.
    resample: ClassVar[Callable[..., AnyTotals]]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Return a mask of the kept steps; the others are reconstructed."""
        mask = np.zeros(self.release.size, dtype=np.bool_)
        mask[self.release.steps] = True
        return mask

    @property
    def is_forecast(self) -> NDArray[np.bool_]:
        """Return a mask of the steps ahead of all that was released."""
        size = self.release.size // len(self.release.keys or (0,))
        return np.tile(np.arange(size) >= size - self.ahead, self.release.size // size)

    def by_key(self) -> dict[Hashable, Self]:
        """Return the series of each key of a panel.

        :raises ValueError: if the release has no keys.
        """
        return dict(zip(self.release.by_key(), self.parts, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnyTotals(errors.Estimates):
    """Fields of :class:`.Totals`, which explains them."""

    series: AnySeries
    values: Array
    standard_error: Array
    complete: NDArray[np.bool_]
    starts: NDArray[np.int64]
    grid: TimeGrid
    keys: tuple[Hashable, ...] | None = None
    is_bound: bool = False

    @property
    def is_forecast(self) -> NDArray[np.bool_]:
        """Return a mask of the totals of steps ahead of all that was released, wholly or in part."""
        size = self.series.release.size // len(self.series.release.keys or (0,))
        ends = np.append(self.starts[1:], size)
        return np.tile(ends > size - self.series.ahead, len(self.complete) // len(ends))


def known_interval(series: AnySeries, confidence_level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the interval at each step, NaN where the errors leave out how the counts move."""
    low, high = series.interval(confidence_level)
    mask = series.kept if getattr(series, "error_covers", None) == "noise" else True
    return np.where(mask, low, np.nan), np.where(mask, high, np.nan)


def grid_of(series: AnySeries, given: TimeGrid | None) -> TimeGrid:
    """Return the grid of one series: the one that is given, or of its release, or that of its step numbers."""
    release, ahead = series.release, series.ahead
    size = release.size // len(release.keys or (0,))
    grid = release.grid if given is None else check_grid(given)
    if given is not None and ahead and given.size == size - ahead:
        grid = extend(given, ahead)
    if grid is not None and grid.size != size:
        raise Refusal("grid", Quoted(f"{grid.size} steps"), f"must have the size of the series ({size})")
    return TimeGrid(size=size) if grid is None else grid


def to_frame(rows: Columns, grid: TimeGrid, keys: Sequence[object] | None, *, library: str, zone: str) -> Any:
    """Write rows for every step of every key as a data frame; see :meth:`opendp_timeseries.Series.to_frame`."""
    check.choice("library", library, ("pandas", "polars"))
    copies, size = len(keys or (0,)), grid.size
    if grid.is_integer:
        columns: Columns = {"step": np.tile(np.arange(size), copies)}
    else:
        if isinstance(zone, str) and zone == "local":
            zone = grid.zone or "UTC"
        if parse_zone(zone) is None:
            raise TypeRefusal("zone", zone, "must be 'local', 'UTC' or the IANA name of a time zone")
        columns = {"step_start": np.tile(grid.instants(), copies)}
    if keys is not None:
        columns["key"] = [key for key in keys for _ in range(size)]
    return (_pandas if library == "pandas" else _polars)(columns | rows, zone)


def runs_of(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of steps in a row."""
    at = np.unique(np.asarray(steps, dtype=int))
    is_first, is_last = np.diff(at, prepend=-2) > 1, np.diff(at, append=at[-1:] + 2) > 1
    return list(zip(at[is_first].tolist(), at[is_last].tolist(), strict=True))


def _pandas(columns: Columns, zone: str) -> Any:
    pandas = check.installed("pandas", "this data frame needs pandas", "tables")
    name = next(iter(columns))
    index = pandas.Index(columns.pop(name), name=name)
    if name == "step_start":
        # Not by its name, as pandas 2 would take a zone of pytz, which knows no change of clocks from 2038 on.
        index = index.tz_localize("UTC").tz_convert(parse_zone(zone))
    return pandas.DataFrame(columns, index=index)


def _polars(columns: Columns, zone: str) -> Any:
    polars = check.installed("polars", "this data frame needs Polars", "polars")
    if "step_start" in columns:
        unit = np.datetime_data(columns["step_start"].dtype)[0]
        columns["step_start"] = columns["step_start"].astype("M8[us]" if unit in ("s", "ms") else f"M8[{unit}]")
    frame = polars.DataFrame(columns, nan_to_null=True)
    if "step_start" not in columns:
        return frame
    return frame.with_columns(polars.col("step_start").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
