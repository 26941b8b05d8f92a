"""A series as a data frame of pandas (extra ``tables``) or Polars (extra ``polars``), on the clock of a zone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.grid import TimeGrid, check_grid, extended, parse_zone

Columns = dict[str, Any]
#: :class:`~opendp_timeseries.Series`, or its totals, whose modules import this one.
AnySeries = Any


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
        raise ValueError(f"grid ({grid.size} steps) must have the size of the series ({size})")
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
            raise TypeError(f"zone ({check.quote(zone)}) must be 'local', 'UTC' or the IANA name of a time zone")
        columns = {"step_start": np.tile(grid.instants(), copies)}
    if keys is not None:
        columns["key"] = [key for key in keys for _ in range(size)]
    return (_pandas if library == "pandas" else _polars)(columns | rows, zone)


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
