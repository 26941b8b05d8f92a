"""The files of a release: a table, the record that a reader can verify, and a figure."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import opendp_timeseries as ts
from opendp_timeseries._files import check_place
from opendp_timeseries.commandline.inputs import Grids

__all__ = ["documents", "places"]

_COLUMNS: Final = ("step_start_utc", "private_count", "low", "high", "noisy_count")
#: By which beginning a file is known as part of an earlier release. The figure holds the name in its metadata.
_MARKS: Final = {
    ".csv": ",".join(_COLUMNS).encode(),
    ".json": b'{"format": "opendp_timeseries release record',
    ".png": b"opendp_timeseries",
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
        return file.read(300)


def documents(series: ts.Series, grids: Grids, what: str, enlarged: int) -> dict[str, bytes]:
    """Return the contents of the files, by suffix; without a figure if Matplotlib is not there to draw it.

    :param what: what is counted, in a word.
    :param enlarged: how many steps the figure shows enlarged, if the series is much longer.
    """
    drawn = _figure(series, grids, what, enlarged)
    return {
        ".csv": _table(series, grids.counted),
        ".json": (series.release.record().to_json() + "\n").encode(),
        **({} if drawn is None else {".png": drawn}),
    }


def _table(series: ts.Series, grid: ts.TimeGrid) -> bytes:
    release, kept = series.release, series.kept
    noisy = np.full(release.size, np.nan)
    noisy[release.steps] = release.values
    # Between kept steps, the error of interpolation leaves out how the signal moves.
    known = np.ones_like(kept) if series.error_covers == "signal" else kept
    ends = (np.where(known, end, np.nan) for end in series.interval(_CONFIDENCE))
    columns = [_cells(column) for column in (series.values, *ends, noisy)]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows(zip(grid.instants().astype(str), *columns, strict=True))
    return text.getvalue().encode()


def _cells(values: NDArray[np.float64]) -> list[float | str]:
    """Numbers, and nothing where there is none."""
    return ["" if np.isnan(value) else value for value in values.tolist()]


def _figure(series: ts.Series, grids: Grids, what: str, enlarged: int) -> bytes | None:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    size = series.release.size
    parts = 2 if size >= 2 * enlarged else 1
    figure = Figure(figsize=(9.0, 1.6 + 2.6 * parts), layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(parts, squeeze=False)[:, 0]
    for axes in every:
        ts.plot(series, grid=grids.shown, axes=axes, unit=f"{what} per {grids.shown.step}", confidence=_CONFIDENCE)
    if parts == 2:
        every[0].set_xlabel("")
        first = (size - enlarged) // 2
        every[1].set_xlim(*grids.shown.instants()[[first, first + enlarged]])
        every[1].set_title(f"{enlarged} steps of the same, enlarged", loc="left", fontsize="medium")
    every[0].set_title(f"Private series of {what} per {grids.shown.step}", loc="left")
    image = io.BytesIO()
    with matplotlib.rc_context({"agg.path.chunksize": 10_000}):  # long lines overflow Agg's memory
        figure.savefig(image, format="png", dpi=150, metadata={"Software": "opendp_timeseries"})
    return image.getvalue()
