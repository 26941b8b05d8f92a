"""Make one release as the options say. Whatever can fail, fails before the log is read."""

from __future__ import annotations

import argparse
import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._files import files_together
from opendp_timeseries.accounting.rounding import printed_up, up
from opendp_timeseries.commandline.inputs import grid_of, read_log
from opendp_timeseries.commandline.interrupts import held_back
from opendp_timeseries.commandline.outputs import FIGURES, Drawn, documents, places
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.plugin.known import parts_of

__all__ = ["release"]

#: Without a season, a figure summarises a long series by so many means.
_MEANS: Final = 200
_NAMES: Final = {"1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}
#: Counts are whole numbers, and nobody would call this noise.
_MIN_SCALE: Final = 1e-6


class _Plan(NamedTuple):
    """All that is public about the release."""

    measurement: dp.Measurement
    drawn: Drawn
    ledger: ts.Ledger | None = None
    not_covered: str | None = None

    def rehearse(self, nobody: Any) -> ts.Release:
        with held_back():
            made: ts.Release = self.measurement(nobody)
        return made

    def measure(self, log: Any, resume: bool) -> ts.Release:
        with held_back():
            if self.ledger is None:
                made: ts.Release = self.measurement(log)
            else:
                made = self.ledger.release(self.measurement, log, resume=resume)
        return made

    def documents(self, series: ts.Series) -> dict[str, bytes]:
        return documents(series, self.drawn)


def release(options: argparse.Namespace) -> str:
    """Make a release, write it, and return what is to be said about it.

    :raises Exception: as for the options; nothing is written then, and no earlier file is changed.
    """
    found = places(options.output, options.file, force=options.force)
    with held_back():
        plan = _plan(options)
    room = {suffix: 2 * len(document) for suffix, document in _rehearsal(options, plan).items()}
    for suffix in FIGURES:
        if suffix not in room and found[suffix].exists():
            raise ValueError(
                f"output ({found[suffix]}) is of an earlier release, and no new figure would replace it; choose"
                f" another --output, or draw one by --figure {suffix[1:]} with opendp_timeseries[plot]"
            )
    with files_together({found[suffix]: size for suffix, size in room.items()}, replace=options.force) as files:
        series = _reconstruct(plan.measure(read_log(options), options.resume), options)
        for suffix, document in plan.documents(series).items():
            files[found[suffix]].write(document)
    said = [_summary(options, plan, series), *_written(options, [found[suffix] for suffix in room])]
    if plan.ledger is not None:
        said.append(f"In {plan.ledger.path}, all releases so far: {plan.ledger.guarantee()}.")
    return "\n".join(said)


def _plan(options: argparse.Namespace) -> _Plan:
    """Build the measurement whose noise just meets the budget. No data so far."""
    grid = grid_of(options)
    _try_season(options.season, grid.size)
    space = ts.event_log_domain(identifier=options.identifier, time=options.time), _unit(options)
    caps = {"participation_cap": options.participation_cap, "step_cap": options.step_cap, "gap": options.gap}
    signal = space >> ts.then_participation_count(grid, **caps)
    if options.filter_std is not None:
        signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(grid.size, options.filter_std))
    ledger = None if options.ledger is None else ts.Ledger(options.ledger)
    if options.epsilon is None and options.delta is None:
        assert ledger is not None  # else the options are not complete
        measurement = _planned(options, ledger, signal)
    else:
        measurement = _within_budget(options, signal)
    if ledger is not None:
        ledger.check(measurement, resume=options.resume)
    what = "aircraft" if options.file is None else "individuals" if options.step_cap == 1 else "events"
    cycle = grid.size // _MEANS if options.season is None else int(min(options.season))
    return _Plan(
        measurement, Drawn("." + options.figure, grid, what, max(1, cycle)), ledger, _not_covered(measurement, options)
    )


def _unit(options: argparse.Namespace) -> dp.Metric:
    if options.period is None:
        return dp.symmetric_distance()
    with warnings.catch_warnings():  # the summary says it
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        return ts.period_distance(options.period, zone=options.zone)


def _within_budget(options: argparse.Namespace, signal: dp.Transformation) -> dp.Measurement:
    probability = check.real("sampling_probability", options.sampling_probability, maximum=1.0)
    if probability * options.size < 1:
        raise ValueError(
            f"sampling_probability ({probability:g}) must keep at least one of {options.size} steps on average; choose"
            f" at least {1 / options.size:.2g}"
        )
    epsilon = check.real("epsilon", options.epsilon, above=0.0, remedy="1 is a common choice")
    delta = check.real("delta", options.delta, above=0.0, below=1.0, remedy="choose far less than 1 / individuals")
    sample = {"sampling_probability": probability, "sampling": options.sampling}
    scale = ts.least_scale(signal, epsilon=epsilon, delta=delta, **sample)
    if scale < _MIN_SCALE:  # as where δ is above the probability that anything of one individual is kept
        raise ValueError(
            f"epsilon ({epsilon:g}) and delta ({delta:g}) at sampling_probability ({probability:g}) allow a release"
            " with next to no noise, which protects nobody; choose smaller ones"
        )
    return signal >> ts.then_subsampled_gaussian(scale, **sample, delta=delta)


def _planned(options: argparse.Namespace, ledger: ts.Ledger, signal: dp.Transformation) -> dp.Measurement:
    """Return the measurement that the programme of the ledger has for this signal, and complete the options by it."""
    if ledger.programme is None:
        raise ValueError(f"ledger ({ledger.path}) has no programme: give --epsilon and --delta of this release")
    measurement = ledger.programme.measurement(signal)
    design = parts_of(measurement)[0].design
    for name in ("sampling_probability", "sampling"):
        given, planned = getattr(options, name), getattr(design, name)
        if given not in (None, planned):
            raise ValueError(f"{name} ({given}) must be left out, as the programme says {planned}")
        setattr(options, name, planned)
    options.epsilon, options.delta = measurement.map(1)
    return measurement  # type: ignore[no-any-return]


def _try_season(season: Sequence[float] | None, most: int) -> None:
    """Refuse a season that is none; a release of no steps takes no time to smooth."""
    steps, values = np.array([], dtype=np.int64), np.array([], dtype=np.float64)
    design = Design(signal=UnknownSignal(1), sampling_probability=1.0, scale=1.0)
    nothing = ts.Release(steps=steps, values=values, design=design)
    ts.smooth(nothing, seasons=season)
    for period in season or ():
        if period > most:
            raise ValueError(
                f"season ({period:g}) must be at most the {most} steps of the grid; a season is a number of steps, such"
                " as 24 with hours, 7 with days"
            )


def _rehearsal(options: argparse.Namespace, plan: _Plan) -> dict[str, bytes]:
    """Do all of it without data: what cannot be made fails here, and the files have about the size that they will."""
    nobody = {options.identifier: np.array([], dtype=np.int64), options.time: np.array([], dtype="datetime64[us]")}
    return plan.documents(ts.interpolate(plan.rehearse(nobody)))


def _reconstruct(made: ts.Release, options: argparse.Namespace) -> ts.Series:
    try:
        return ts.smooth(made, seasons=options.season)
    except Exception:  # whatever it is, the release must not be lost for it
        return ts.interpolate(made)


def _summary(options: argparse.Namespace, plan: _Plan, series: ts.Series) -> str:
    made, grid = series.release, plan.drawn.grid
    individual = f"one individual (one value of {options.identifier!r})"
    period = made.design.unit.period
    within = "" if period is None else f" within one {_NAMES[options.period]}"
    covered = individual if period is None else f"what {individual} did within {period}, and NOT for all that they did"
    everything = "all the events of any" if period is None else f"the events{within} of any"
    smoothing = f", smoothed by a Gaussian filter of {options.filter_std:g} steps" if options.filter_std else ""
    factor = f" = {printed_up(up(math.exp(options.epsilon)))}" if options.epsilon < 700 else ""
    once = options.step_cap == 1
    counted = "individuals who have an event in it" if once else "events in it"
    each = "once in each" if once else f"at most {options.step_cap} times in each"
    apart = "" if options.gap == 1 else f", at least {options.gap} steps from one to the next"
    noise = f"Gaussian noise of standard deviation {made.scale:.4g}"
    if made.sampling_probability == 1:
        kept = f"Every step carries {noise}."
    else:
        each_with = f"each with probability {made.sampling_probability:.4g}"
        if made.sampling == "stratified":
            each_with = f"one of each block of {round(1 / made.sampling_probability)}"
        kept = f"{len(made)} of {grid.size} steps were kept at random ({each_with}) and carry {noise}."
    rest = f" The series is made from these noisy values by: {series.model}."
    paragraphs = (
        f"A private series of counts: {grid.size} steps of {grid.step} from {grid.start}. The count of a step is the"
        f" number of {counted}{smoothing}. {kept}{rest}",
        f"Guarantee: (ε = {printed_up(options.epsilon)}, δ = {printed_up(options.delta)})-differential privacy for"
        f" {covered}. Whether or not {everything} {individual} are in the log, no set of possible releases"
        f" is more than e^ε{factor} times as likely, up to an additional probability of δ.",
        "It holds for everyone, whatever their events: each individual is counted in at most"
        f" {options.participation_cap} steps{within}, {each}{apart}; what exceeds that is left out, so totals are too"
        " low. It rests on this: each individual has one identifier; the grid, the caps and all other parameters were"
        " chosen without looking at this log; whoever runs this is trusted with the log, and publishes nothing from it"
        " but this release and what is computed from the release alone.",
        *([] if plan.not_covered is None else [plan.not_covered]),
    )
    return "\n\n".join(textwrap.fill(paragraph, 100, break_on_hyphens=False) for paragraph in paragraphs) + "\n"


def _not_covered(measurement: dp.Measurement, options: argparse.Namespace) -> str | None:
    """Say what somebody loses in all, where the unit of privacy is within a period."""
    if options.period is None:
        return None
    periods = len(parts_of(measurement)[0].design.count.period_lengths())
    several = [*(k for k in (2, 7, 30) if k < periods), periods]
    losses = [ts.loss_over_periods(measurement, periods=k).epsilon(options.delta) for k in several]
    said = [f"{printed_up(epsilon)} in {k}" for k, epsilon in zip(several, losses, strict=True)]
    return (
        f"It does not hold for all that somebody did. The more of the {periods} {_NAMES[options.period]}s they take"
        " part in, the less they are protected as a whole: with the same δ, ε is"
        f" {', '.join(said[:-1])}{' and ' if len(said) > 1 else ''}{said[-1]} of them."
    )


def _left_out(options: argparse.Namespace) -> str:
    """Of flights alone: what the caps leave out of any other log is private."""
    columns = {"identifier": options.identifier, "time": options.time}
    caps = {"participation_cap": options.participation_cap, "step_cap": options.step_cap, "gap": options.gap}
    found = ts.check_log(read_log(options), **columns, **caps, grid=grid_of(options), period=options.period)
    by = "caps" if options.gap == 1 else "gap and caps"
    return f"This log is public, so it can be said: the {by} leave out {found.events_lost_share:.0%} of its departures."


def _written(options: argparse.Namespace, files: list[object]) -> list[str]:
    said = ["Written: " + ", ".join(map(str, files))]
    if options.file is not None:  # whatever the log holds: the release itself cannot say
        said.append("A wrong column or format of times gives noise alone: compare the private words of 'check'.")
    if len(files) < 3:
        said.append("No figure: install opendp_timeseries[plot] for one.")
    if options.file is None:
        said.append(_left_out(options))
    return said
