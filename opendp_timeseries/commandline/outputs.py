"""The files of a release: a table, the record that a reader can verify, and a figure."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import opendp_timeseries as ts
from opendp_timeseries._files import check_place
from opendp_timeseries.reconstruction.frames import known_interval
from opendp_timeseries.reconstruction.plot import BLUE, style_axes

__all__ = ["Drawn", "document", "places"]

_COLUMNS: Final = ("step_start", "private_count", "low", "high", "kept")
#: By suffix, how a file of a release begins, and what else it holds: never what somebody else's file or a ledger does.
_MARKS: Final = {
    ".csv": (",".join(_COLUMNS).encode() + b"\r\n", b""),
    ".json": (b'{"format": "opendp_timeseries release", ', b""),
    ".png": (b"\x89PNG\r\n\x1a\n", b"tEXtSoftware\0opendp_timeseries"),
    ".svg": (b"<?xml", b"<dc:title>opendp_timeseries</dc:title>"),
    ".pdf": (b"%PDF-", b"/Creator (opendp_timeseries)"),
}
_UNDATED: Final = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
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
#: What the intervals in table and figure cover, at each step on its own.
_CONFIDENCE: Final = 0.9


def places(output: Path, log: Path | None, figure: str, *, force: bool) -> dict[str, Path]:
    """Return where the files go, by suffix, before anything is read; no figure without Matplotlib.

    :raises ValueError: if the name does not serve, or a file that exists would be lost, unless ``force`` lets a release
        replace an earlier one.
    :raises OSError: if it cannot be found out.
    """
    if output.name in ("", "..") or output.suffix.lower() in _MARKS:
        raise ValueError(f"output ({output}) must name files without their suffix, such as {Path('folder', 'release')}")
    if not output.parent.is_dir():
        raise ValueError(f"output ({output}) is in a folder that does not exist; create it, or choose another --output")
    found = {suffix: output.with_name(output.name + suffix) for suffix in _MARKS}
    written = [".csv", ".json", *([figure] if figure in found and _can_draw() else [])]
    for suffix, place in found.items():
        if log is not None and place.exists() and os.path.samefile(place, log):
            raise ValueError(f"output ({place}) is the log ({log}) itself; choose another --output")
        if check_place(place, replace=True) is None:
            continue
        if not force:
            raise ValueError(f"output ({place}) exists; choose another --output, or replace it by --force")
        if not _is_ours(place):
            raise ValueError(f"output ({place}) is not an earlier release, which --force would replace; choose another")
        if suffix not in written:
            problem = f"output ({place}) is of an earlier release, and no new figure would replace it"
            raise ValueError(
                f"{problem}; choose another --output, or --figure {suffix[1:]} with opendp_timeseries[plot]"
            )
    return {suffix: found[suffix] for suffix in written}


def _is_ours(place: Path) -> bool:
    begins, holds = _MARKS[place.suffix]
    with place.open("rb") as file:
        whole = file.read(2000)
        if whole.startswith(begins) and place.suffix in (".json", ".pdf"):  # no other file is read whole
            whole += file.read()
    try:
        return whole.startswith(begins) and holds in whole and (place.suffix != ".json" or bool(json.loads(whole)))
    except (ValueError, RecursionError):
        return False


def _can_draw() -> bool:
    if "matplotlib" not in sys.modules:
        os.environ["MPLBACKEND"] = "agg"  # a notebook's draws on its page
    try:
        import matplotlib.backends.backend_agg  # noqa: F401
    except ImportError:
        return False
    return True


class Drawn(NamedTuple):
    """What is said besides the series: the grid, what is counted, and the steps of a cycle of a long figure."""

    grid: ts.TimeGrid
    what: str
    cycle: int


def document(suffix: str, series: ts.Series, drawn: Drawn) -> bytes:
    """Return the content of a file."""
    if suffix == ".csv":
        return _table(series, drawn.grid)
    if suffix == ".json":
        return (series.release.to_json() + "\n").encode()
    return _figure(suffix[1:], series, drawn)


def _table(series: ts.Series, grid: ts.TimeGrid) -> bytes:
    starts = grid.instants(zone="local")
    ahead = (starts - grid.instants()).astype("m8[s]").astype(np.int64).tolist()  # of UTC
    zones = {seconds: dt.timezone(dt.timedelta(seconds=seconds)) for seconds in set(ahead)}
    offsets = {seconds: dt.time(tzinfo=zone).isoformat()[8:] for seconds, zone in zones.items()}
    local = (f"{start}{offsets[seconds]}" for start, seconds in zip(starts.astype(str), ahead, strict=True))
    columns = (series.values, *known_interval(series, _CONFIDENCE))
    cells = (["" if np.isnan(value) else value for value in column.tolist()] for column in columns)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows(zip(local, *cells, np.where(series.kept, "yes", "no").tolist(), strict=True))
    return text.getvalue().encode()


def _figure(kind: str, series: ts.Series, drawn: Drawn) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size, grid, enlarged = series.release.size, drawn.grid, 14 * drawn.cycle
    is_long = size >= 2 * enlarged
    figure = Figure(figsize=(9.0, 6.8 if is_long else 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    *above, axes = figure.subplots(1 + is_long, squeeze=False, height_ratios=(2, 3)[-1 - is_long :])[:, 0]
    unit = f"{drawn.what} per {_WORDS.get(str(grid.step), grid.step)}"
    ts.plot(series, grid=grid, axes=axes, unit=unit, confidence_level=_CONFIDENCE)
    if is_long:
        _draw_cycles(above[0], series, drawn)
        first = (size - enlarged) // 2 // drawn.cycle * drawn.cycle
        axes.set_xlim(*grid.instants()[[first, first + enlarged]])
        axes.set_title(f"{enlarged} steps of it, enlarged", loc="left", fontsize="medium")
    figure.suptitle(f"Private series of {unit}", x=0.01, ha="left")
    image = io.BytesIO()
    name = {"Software" if kind == "png" else "Creator": "opendp_timeseries"}
    with matplotlib.rc_context({"agg.path.chunksize": 10_000}):  # long lines overflow Agg's memory
        figure.savefig(image, format=kind, dpi=150, metadata=name | _UNDATED[kind])
    return image.getvalue()


def _draw_cycles(axes: Any, series: ts.Series, drawn: Drawn) -> None:
    """Draw the mean of every cycle, and the range within it: a line of thousands of steps would be a slab."""
    cycles = series.values[: series.release.size // drawn.cycle * drawn.cycle].reshape(-1, drawn.cycle)
    at = drawn.grid.instants()[: cycles.size : drawn.cycle]
    axes.fill_between(at, cycles.min(axis=1), cycles.max(axis=1), color="0.84", linewidth=0)
    axes.plot(at, cycles.mean(axis=1), color=BLUE, linewidth=1.2)
    axes.set_title(f"All of it: means of {drawn.cycle} steps, and the range within them", loc="left", fontsize="medium")
    style_axes(axes, drawn.grid)
