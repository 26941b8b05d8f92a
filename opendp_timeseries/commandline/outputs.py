"""The files of a release: a table, the record that a reader can verify, and a figure."""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import opendp_timeseries as ts
from opendp_timeseries._files import check_place
from opendp_timeseries.reconstruction.frames import known_interval
from opendp_timeseries.reconstruction.plot import BLUE, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES", "Drawn", "documents", "places"]

_COLUMNS: Final = ("step_start", "private_count", "low", "high", "kept")
#: By which beginning a file is known as part of an earlier release. The figure holds the name in its metadata.
_MARKS: Final = {
    ".csv": ",".join(_COLUMNS).encode(),
    ".json": b'{"format": "opendp_timeseries release"',
    ".png": b"opendp_timeseries",
    ".svg": b"opendp_timeseries",
}
#: The suffixes that a figure may have.
FIGURES: Final = (".png", ".svg")
#: Steps that have a name.
_WORDS: Final = {
    "1min": "minute",
    "1h": "hour",
    "1d": "day",
    "1w": "week",
    "1mo": "month",
    "1q": "quarter",
    "1y": "year",
}
#: What intervals in table and figure are to cover, at each step on its own.
_CONFIDENCE: Final = 0.9


def places(output: Path, log: Path | None, *, force: bool) -> dict[str, Path]:
    """Return where the files go, by suffix, before anything is read.

    :param output: their common name.
    :param log: the file that is read, which must be none of them.
    :param force: whether an earlier release may be replaced.
    :raises ValueError: if the name does not serve, or a file that is there already would be lost.
    :raises OSError: if it cannot be found out.
    """
    if output.name in ("", "..") or output.suffix.lower() in _MARKS:
        raise ValueError(f"output ({output}) must name files without their suffix, such as {Path('folder', 'release')}")
    if not output.parent.is_dir():
        raise ValueError(f"output ({output}) is in a folder that is not there; make it, or choose another --output")
    found = {suffix: output.with_name(output.name + suffix) for suffix in _MARKS}
    for suffix, place in found.items():
        if not os.path.lexists(place):
            continue
        if log is not None and place.exists() and os.path.samefile(place, log):
            raise ValueError(f"output ({place}) is the log ({log}) itself; choose another --output")
        check_place(place, replace=True)
        if not force:
            raise ValueError(f"output ({place}) is there already; choose another --output, or replace it by --force")
        if _MARKS[suffix] not in _beginning(place):
            raise ValueError(f"output ({place}) is no earlier release, so --force does not replace it; choose another")
    return found


def _beginning(place: Path) -> bytes:
    with place.open("rb") as file:
        return file.read(1000)


class Drawn(NamedTuple):
    """How the figure is to be drawn.

    :param suffix: its format.
    :param grid: of the count, on whose clock times are written.
    :param what: what is counted, in a word.
    :param cycle: steps of the shortest season, or of about a two-hundredth of the series.
    """

    suffix: str
    grid: ts.TimeGrid
    what: str
    cycle: int


def documents(series: ts.Series, drawn: Drawn) -> dict[str, bytes]:
    """Return the contents of the files, by suffix; without a figure if Matplotlib is not there to draw it."""
    figure = _figure(series, drawn)
    return {
        ".csv": _table(series, drawn.grid),
        ".json": (series.release.to_json() + "\n").encode(),
        **({} if figure is None else {drawn.suffix: figure}),
    }


def _table(series: ts.Series, grid: ts.TimeGrid) -> bytes:
    columns = [_cells(column) for column in (series.values, *known_interval(series, _CONFIDENCE))]
    kept = np.where(series.kept, "yes", "no").tolist()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows(zip(_local(grid), *columns, kept, strict=True))
    return text.getvalue().encode()


def _local(grid: ts.TimeGrid) -> list[str]:
    """The start of every step in local time, with its offset from UTC."""
    starts = grid.instants(zone="local")
    ahead = (starts - grid.instants()).astype("m8[s]").astype(np.int64).tolist()
    offsets = {seconds: _offset(seconds) for seconds in set(ahead)}
    return [f"{start}{offsets[seconds]}" for start, seconds in zip(starts.astype(str), ahead, strict=True)]


def _offset(seconds: int) -> str:
    return dt.time(tzinfo=dt.timezone(dt.timedelta(seconds=seconds))).isoformat()[8:]


def _cells(values: NDArray[np.float64]) -> list[float | str]:
    """Numbers, and nothing where there is none."""
    return ["" if np.isnan(value) else value for value in values.tolist()]


def _figure(series: ts.Series, drawn: Drawn) -> bytes | None:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    size, grid, enlarged = series.release.size, drawn.grid, 14 * drawn.cycle
    is_long = size >= 2 * enlarged
    figure = Figure(figsize=(9.0, 6.8 if is_long else 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    if is_long:
        above, axes = figure.subplots(2, height_ratios=(2, 3))
        _draw_cycles(above, series, drawn)
    else:
        axes = figure.subplots()
    unit = f"{drawn.what} per {_WORDS.get(str(grid.step), grid.step)}"
    ts.plot(series, grid=grid, axes=axes, unit=unit, confidence=_CONFIDENCE)
    if is_long:
        first = (size - enlarged) // 2 // drawn.cycle * drawn.cycle
        axes.set_xlim(*grid.instants()[[first, first + enlarged]])
        axes.set_title(f"{enlarged} steps of it, enlarged", loc="left", fontsize="medium")
    figure.suptitle(f"Private series of {unit}", x=0.01, ha="left")
    image = io.BytesIO()
    name = "opendp_timeseries"
    metadata = {"Software": name} if drawn.suffix == ".png" else {"Creator": name, "Date": None}
    with matplotlib.rc_context({"agg.path.chunksize": 10_000}):  # long lines overflow Agg's memory
        figure.savefig(image, format=drawn.suffix[1:], dpi=150, metadata=metadata)
    return image.getvalue()


def _draw_cycles(axes: Axes, series: ts.Series, drawn: Drawn) -> None:
    """Draw the mean of every cycle, and the range within it: a line of thousands of steps would be a slab."""
    cycles = series.values[: series.release.size // drawn.cycle * drawn.cycle].reshape(-1, drawn.cycle)
    at = drawn.grid.instants()[: cycles.size : drawn.cycle]
    axes.fill_between(at, cycles.min(axis=1), cycles.max(axis=1), color="0.84", linewidth=0)
    axes.plot(at, cycles.mean(axis=1), color=BLUE, linewidth=1.2)
    axes.set_title(f"All of it: means of {drawn.cycle} steps, and the range within them", loc="left", fontsize="medium")
    style_axes(axes, drawn.grid)
