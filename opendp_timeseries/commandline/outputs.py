"""The files of a release: a table, the record that a reader can verify, and a figure."""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import io
import json
import os
import sys
from pathlib import Path
from typing import Final

import numpy as np

import opendp_timeseries as ts
from opendp_timeseries._files import check_place
from opendp_timeseries.reconstruction.frames import known_interval
from opendp_timeseries.reconstruction.plot import BLUE, style_axes

__all__ = ["document", "places"]

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
_WORD: Final = {
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


def places(options: argparse.Namespace) -> dict[str, Path]:
    """Return where the files go, by suffix; no figure without Matplotlib. Refuse to lose a file."""
    output, log, figure = options.output, options.file, f".{options.figure}"
    if output.name in ("", "..") or output.suffix.lower() in _MARKS:
        raise ValueError(f"output ({output}) must name files without their suffix, such as {Path('folder', 'release')}")
    found = {suffix: output.with_name(output.name + suffix) for suffix in _MARKS}
    written = [".csv", ".json", *([figure] if figure in found and _can_draw() else [])]
    for suffix, place in found.items():
        if log is not None and place.exists() and os.path.samefile(place, log):
            raise ValueError(f"output ({place}) is the log ({log}) itself; choose another --output")
        if check_place(place, replace=True) is None:
            continue
        if not options.force:
            raise ValueError(f"output ({place}) exists; choose another --output, or replace it by --force")
        if not _is_ours(place):
            raise ValueError(f"output ({place}) is not an earlier release, which --force would replace; choose another")
        if suffix not in written:
            remedy = f"choose another --output, or --figure {suffix[1:]} with opendp_timeseries[plot]"
            raise ValueError(f"output ({place}) is of an earlier release, and no new figure replaces it; {remedy}")
    return {suffix: found[suffix] for suffix in written}


def _is_ours(place: Path) -> bool:
    begins, holds = _MARKS[place.suffix]
    with place.open("rb") as file, contextlib.suppress(ValueError, RecursionError):
        found = file.read(2000)
        if found.startswith(begins) and place.suffix in (".json", ".pdf"):  # no other file is read whole
            found += file.read()
        return found.startswith(begins) and holds in found and (place.suffix != ".json" or bool(json.loads(found)))
    return False


def _can_draw() -> bool:
    if "matplotlib" not in sys.modules:
        os.environ["MPLBACKEND"] = "agg"  # a notebook's draws on its page
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def document(suffix: str, made: ts.Release, series: ts.Series, what: str, cycle: int) -> bytes:
    """Return the content of a file; a figure says what is counted, and draws a long series by the means of cycles."""
    grid = series.release.design.count.grid
    if suffix == ".csv":
        return _table(series, grid)
    if suffix == ".json":
        return (made.to_json() + "\n").encode()
    return _figure(suffix[1:], series, grid, f"{what} per {_WORD.get(str(grid.step), grid.step)}", cycle)


def _table(series: ts.Series, grid: ts.TimeGrid) -> bytes:
    starts = grid.instants(zone="local")
    ahead = (starts - grid.instants()).astype("m8[s]").astype(np.int64).tolist()  # of UTC
    zones = {each: dt.time(tzinfo=dt.timezone(dt.timedelta(seconds=each))).isoformat()[8:] for each in set(ahead)}
    local = (f"{start}{zones[each]}" for start, each in zip(starts.astype(str), ahead, strict=True))
    columns = (series.values, *known_interval(series, _CONFIDENCE))
    cells = (["" if np.isnan(value) else value for value in column.tolist()] for column in columns)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows(zip(local, *cells, np.where(series.kept, "yes", "no").tolist(), strict=True))
    return text.getvalue().encode()


def _figure(kind: str, series: ts.Series, grid: ts.TimeGrid, unit: str, cycle: int) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    enlarged = 14 * cycle
    is_long = series.release.size >= 2 * enlarged
    figure = Figure(figsize=(9.0, 6.8 if is_long else 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    *above, axes = figure.subplots(1 + is_long, squeeze=False, height_ratios=(2, 3)[-1 - is_long :])[:, 0]
    ts.plot(series, grid=grid, axes=axes, unit=unit, confidence_level=_CONFIDENCE)
    for whole in above:  # the means of cycles, and the ranges within: a line of thousands of steps would be a slab
        cycles = series.values[: series.release.size // cycle * cycle].reshape(-1, cycle)
        at = grid.instants()[: cycles.size : cycle]
        whole.fill_between(at, cycles.min(axis=1), cycles.max(axis=1), color="0.84", linewidth=0)
        whole.plot(at, cycles.mean(axis=1), color=BLUE, linewidth=1.2)
        whole.set_title(f"All of it: means of {cycle} steps, and the range within them", loc="left", fontsize="medium")
        style_axes(whole, grid)
        first = (series.release.size - enlarged) // 2 // cycle * cycle
        axes.set_xlim(*grid.instants()[[first, first + enlarged]])
        axes.set_title(f"{enlarged} steps of it, enlarged", loc="left", fontsize="medium")
    figure.suptitle(f"Private series of {unit}", x=0.01, ha="left")
    image, metadata = io.BytesIO(), {"Software" if kind == "png" else "Creator": "opendp_timeseries", **_UNDATED[kind]}
    with matplotlib.rc_context({"agg.path.chunksize": 10_000}):  # long lines overflow Agg's memory
        figure.savefig(image, format=kind, dpi=150, metadata=metadata)
    return image.getvalue()
