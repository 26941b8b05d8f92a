"""A series as a data frame of pandas (extra ``tables``) or Polars (extra ``polars``), on the clock of a zone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid, check_grid, extended, parse_zone
from opendp_timeseries.release.release import Release

Array = NDArray[np.float64]
Columns = dict[str, Any]


class AnySeries(Protocol):
    """Attributes of a :class:`~opendp_timeseries.Series` that are shown; its module imports those that show them."""

    @property
    def values(self) -> Array:
        """See :class:`~opendp_timeseries.Series`, as for all that follow."""

    @property
    def standard_error(self) -> Array:
        """The standard error of each value."""

    @property
    def release(self) -> Release:
        """The release that it was made from."""

    @property
    def sources(self) -> tuple[Release, ...]:
        """All releases that it was made from, if they are several."""

    @property
    def parts(self) -> Sequence[AnySeries]:
        """The series of each key of a panel."""

    @property
    def model(self) -> str:
        """Its model, in words."""

    @property
    def error_covers(self) -> str:
        """The extent of the standard error, such as ``"counts"``."""

    @property
    def covariance(self) -> Any:
        """The covariance of the errors of all steps, if it is known."""

    @property
    def unfiltered(self) -> bool:
        """True if the values are of the counts before the filter of the release."""

    @property
    def levelled(self) -> bool:
        """True if the level is that of a total."""

    @property
    def converged(self) -> bool:
        """False if a fit did not converge."""

    @property
    def is_mean(self) -> bool:
        """True if it is of means."""

    @property
    def events(self) -> Sequence[int]:
        """Steps of single events."""

    @property
    def ahead(self) -> int:
        """The number of last steps that are forecasts."""

    @property
    def kept(self) -> NDArray[np.bool_]:
        """A mask of the steps that the release keeps."""

    @property
    def is_forecast(self) -> NDArray[np.bool_]:
        """A mask of the steps that are forecasts."""

    def __len__(self) -> int: ...

    def by_key(self) -> Mapping[Hashable, AnySeries]:
        """Return the series of each key of a panel."""

    def interval(self, confidence_level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of an interval around each value."""

    def resample(
        self,
        step: str | int,
        *,
        groups: Mapping[Hashable, Iterable[Hashable]] | None = None,
        grid: TimeGrid | None = None,
    ) -> AnyTotals:
        """Return the totals over longer steps."""


class AnyTotals(Protocol):
    """Attributes of totals over longer steps that are shown."""

    @property
    def series(self) -> AnySeries:
        """See :class:`.Totals`, as for all that follow."""

    @property
    def values(self) -> Array:
        """The totals."""

    @property
    def complete(self) -> NDArray[np.bool_]:
        """A mask of those that lie wholly on the grid of the series."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first step of each."""

    @property
    def grid(self) -> TimeGrid:
        """The grid of one row of totals."""

    @property
    def keys(self) -> tuple[Hashable, ...] | None:
        """Keys of a panel, or names of groups; None for one series."""

    @property
    def is_bound(self) -> bool:
        """True if standard errors are the most that they can be."""

    @property
    def is_forecast(self) -> NDArray[np.bool_]:
        """A mask of those that have steps ahead."""

    def __len__(self) -> int: ...

    def interval(self, confidence_level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of an interval around each total."""


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
        grid = extended(given, ahead)
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
