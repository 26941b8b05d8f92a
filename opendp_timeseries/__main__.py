"""The command line: one private release from an event log, ``python -m opendp_timeseries``."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import printed_up, up
from opendp_timeseries.counting.files import read_csv_log, read_parquet_log
from opendp_timeseries.datasets import load_flights

__all__ = ["main"]

#: The embedded log: aircraft departing from New York in 2013, per six hours, smoothed over about a day.
_FLIGHTS: dict[str, Any] = {
    "identifier": "tailnum",
    "time": "time",
    "start": "2013-01-01T00:00",
    "step": "6h",
    "size": 1460,
    "zone": "America/New_York",
    "participation_cap": 100,
    "epsilon": 1.0,
    "delta": 1e-6,
    "sampling_probability": 0.2,
    "filter_std": 4.0,
}
#: What may be left out with a file; everything else is public and must be said.
_DEFAULTS: dict[str, Any] = {"zone": "UTC", "sampling_probability": 0.1, "filter_std": None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one release as the command line says, and write it beside a summary of what it guarantees."""
    options = _parse(arguments)
    dp.enable_features("contrib", "honest-but-curious")
    try:
        measurement, grid, scale = _plan(options)
        log = _log(options)
        _beside(options.output, ".csv").open("w").close()  # what cannot be written fails before the budget is spent
        release = measurement(log)
    except (TypeError, ValueError, ImportError, OSError, csv.Error, dp.OpenDPException) as error:
        print(f"error: {_first_cause(error)}", file=sys.stderr)
        return 2
    series = ts.interpolate(release)
    written = [_write_csv(options.output, grid, series), _write_plot(options, grid, series)]
    said = [_summary(options, grid, release, scale)]
    said.append("Written: " + ", ".join(str(path) for path in written if path is not None))
    if None in written:
        said.append("No figure: install opendp_timeseries[plot] for one.")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no Greek
    try:
        print(*said, sep="\n", flush=True)
    except BrokenPipeError:  # whoever reads has seen enough; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m opendp_timeseries",
        description="Release a differentially private series of counts per time step, protecting each individual's"
        " whole history. Without a file: departures of aircraft from New York in 2013.",
    )
    parser.add_argument("file", nargs="?", type=Path, help="event log: a .csv or .parquet file, one row per event")
    parser.add_argument("--identifier", help="column that tells individuals apart")
    parser.add_argument("--time", help="column of event times")
    parser.add_argument("--start", help="start of the first step, such as 2024-01-01T00:00")
    parser.add_argument("--step", help="width of a step, such as 5min, 1h, 1d")
    parser.add_argument("--size", type=int, help="number of steps")
    parser.add_argument("--zone", help="time zone of start and of times without a zone (default UTC)")
    parser.add_argument("--participation-cap", type=int, help="most steps in which one individual is counted")
    parser.add_argument("--step-cap", type=int, default=1, help="most events of one individual in one step (1)")
    parser.add_argument("--epsilon", type=float, help="privacy loss parameter ε")
    parser.add_argument("--delta", type=float, help="privacy loss parameter δ")
    parser.add_argument("--sampling-probability", type=float, help="share of steps to keep (0.1)")
    parser.add_argument("--filter-std", type=float, help="smooth by a Gaussian filter of this width, in steps")
    parser.add_argument("--output", type=Path, default=Path("release"), help="where to write: OUTPUT.csv, OUTPUT.png")
    options = parser.parse_args(arguments)
    defaults = _FLIGHTS if options.file is None else _DEFAULTS
    if options.file is not None:
        left_out = [name for name in _FLIGHTS if name not in _DEFAULTS and getattr(options, name) is None]
        if left_out:
            flags = ", ".join("--" + name.replace("_", "-") for name in left_out)
            parser.error(f"with a file, these must be given, as they are public: {flags}")
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _log(options: argparse.Namespace) -> Any:
    columns = {"identifier": options.identifier, "time": options.time}
    if options.file is None:
        return load_flights()
    if _is_parquet(options.file):
        return read_parquet_log(options.file, **columns)
    return read_csv_log(options.file, zone=options.zone, **columns)


def _is_parquet(file: Path | None) -> bool:
    return file is not None and file.suffix.lower() in (".parquet", ".pq")


def _grid(options: argparse.Namespace) -> ts.TimeGrid:
    grid = ts.TimeGrid(start=options.start, step=options.step, size=options.size, zone=options.zone)
    # The embedded log and the CSV reader give UTC; the start was read in the zone asked for, and says its offset.
    return (
        grid if _is_parquet(options.file) else ts.TimeGrid(start=grid.start, step=grid.step, size=grid.size, zone="UTC")
    )


def _plan(options: argparse.Namespace) -> tuple[dp.Measurement, ts.TimeGrid, float]:
    """Build the measurement whose noise just meets the budget. No data so far."""
    grid = _grid(options)
    space = ts.event_log_domain(identifier=options.identifier, time=options.time), dp.symmetric_distance()
    signal = space >> ts.then_participation_count(
        grid, participation_cap=options.participation_cap, step_cap=options.step_cap
    )
    if options.filter_std is not None:
        signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(grid.size, options.filter_std))

    def with_noise(scale: float) -> dp.Measurement:
        measurement: dp.Measurement = signal >> ts.then_subsampled_gaussian(
            scale,
            sampling_probability=options.sampling_probability,
            output_measure=dp.approximate(dp.max_divergence()),
            delta=options.delta,
        )
        return measurement

    if options.sampling_probability == 0:
        raise ValueError("sampling_probability (0) keeps no step; choose a share of steps such as 0.1")
    budget = (check.real("epsilon", options.epsilon, above=0.0), options.delta)
    enough = 1.0
    while not with_noise(enough).check(1, budget):
        enough *= 2.0
        if enough > 1e30:
            raise ValueError(f"no noise meets epsilon ({budget[0]:g}) at delta ({budget[1]:g}); raise one of them")
    scale = dp.binary_search(lambda scale: with_noise(scale).check(1, budget), bounds=(0.0, enough))
    return with_noise(scale), grid, scale


def _beside(output: Path, suffix: str) -> Path:
    if output.name in ("", ".."):
        raise ValueError(f"output ({output}) must name a file, without its suffix")
    return output.with_name(output.name + suffix)


def _write_csv(output: Path, grid: ts.TimeGrid, series: ts.Series) -> Path:
    path = _beside(output, ".csv")
    start = grid.instants().astype(str)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step_start_utc", "private_count", "sampled"])
        writer.writerows(zip(start, series.values.tolist(), series.kept.astype(int).tolist(), strict=True))
    return path


def _write_plot(options: argparse.Namespace, grid: ts.TimeGrid, series: ts.Series) -> Path | None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    unit = f"count per {grid.step}, noise sd {series.release.scale:.3g}"
    ts.plot(series, grid=grid, axes=figure.subplots(), unit=unit)
    path = _beside(options.output, ".png")
    figure.savefig(path, dpi=150)
    return path


def _summary(options: argparse.Namespace, grid: ts.TimeGrid, release: ts.Release, scale: float) -> str:
    individual = f"one individual (one value of {options.identifier!r})"
    smoothing = f", smoothed by a Gaussian filter of {options.filter_std:g} steps" if options.filter_std else ""
    events = "one event" if options.step_cap == 1 else f"{options.step_cap} events"
    factor = f" = {printed_up(up(math.exp(options.epsilon)))}" if options.epsilon < 700 else ""
    paragraphs = (
        f"A private series of counts: {grid.size} steps of {grid.step} from {grid.start}{smoothing}. {len(release)} of"
        f" {grid.size} steps were kept at random (each with probability {release.sampling_probability:.4g}) and carry"
        f" Gaussian noise of standard deviation {scale:.4g}; the other steps are interpolated between them.",
        f"Guarantee: (ε = {printed_up(options.epsilon)}, δ = {printed_up(options.delta)})-differential privacy for"
        f" {individual}. Whether or not all the events of any {individual} are in the log, no set of possible releases"
        f" is more than e^ε{factor} times as likely, up to an additional probability of δ.",
        "It holds for everyone, whatever their events: of each individual at most"
        f" {options.participation_cap} steps are counted, with at most {events} in each. It rests on this: each"
        " individual has one identifier; the grid, the caps and all other parameters were chosen without looking at"
        " this log; whoever runs this is trusted with the log, and publishes nothing from it but this release and"
        " what is computed from the release alone.",
    )
    return "\n\n".join(textwrap.fill(paragraph, 100, break_on_hyphens=False) for paragraph in paragraphs) + "\n"


def _first_cause(error: BaseException) -> str:
    """The message that says what to do: of an error raised inside OpenDP's search, its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if isinstance(error, dp.OpenDPException) and lines else str(error)


if __name__ == "__main__":
    sys.exit(main())
