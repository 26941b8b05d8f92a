"""Make one release as the options say. Whatever can fail without the log, fails before it is read."""

from __future__ import annotations

import argparse
import math
import textwrap
import warnings
from typing import Final

import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._files import files_together
from opendp_timeseries.accounting.rounding import printed_up, up
from opendp_timeseries.commandline.inputs import check_of, grid_of, read_log
from opendp_timeseries.commandline.interrupts import uninterrupted
from opendp_timeseries.commandline.outputs import Drawn, document, places
from opendp_timeseries.commandline.spending import Spending
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import UnknownSignal
from opendp_timeseries.plugin.known import parts_of

__all__ = ["release"]

#: Without a season, a figure summarises a long series by so many means.
_MEANS: Final = 200
_NAMES: Final = {"1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}
#: Counts are whole numbers, and nobody would call this noise.
_MIN_SCALE: Final = 1e-6


def release(options: argparse.Namespace) -> str:
    """Make a release, write its files, and return what there is to say about it.

    :raises Exception: as for the options; no file has changed then. A note says what is spent, if anything is.
    """
    wanted = places(options.output, options.file, f".{options.figure}", force=options.force)
    ledger = None if options.ledger is None else ts.Ledger(options.ledger)
    grid = grid_of(options)
    _check_season(options)
    measurement, not_covered = uninterrupted(lambda: _planned(options, grid, ledger))
    spending = Spending(measurement, ledger, resume=options.resume)
    cycle = int(min(options.season or [max(1, grid.size // _MEANS)]))
    what = "aircraft" if options.file is None else "individuals" if options.step_cap == 1 else "events"
    with spending.noted(), files_together(wanted.values(), replace=options.force) as files:
        series = _reconstruct(spending.made or spending.release(read_log(options)), options)
        for suffix, place in wanted.items():
            files[place].write(document(suffix, series, Drawn(grid, what, cycle)))
    summary = [
        textwrap.fill(text, 100, break_on_hyphens=False) for text in (*_summary(options, series, grid), *not_covered)
    ]
    said = ["\n\n".join(summary), "", "Written: " + ", ".join(map(str, wanted.values()))]
    if options.file is None:  # of any other log, this is private
        share = f"{check_of(options, grid).events_lost_share:.0%} of its departures"
        said.append(f"This log is public, so it can be said: the gap and the caps leave out {share}.")
    else:  # whatever the log holds: the release itself cannot say
        said.append("A wrong column or format of times gives noise alone: compare the private words of 'check'.")
    if len(wanted) < 3 and options.figure != "none":
        said.append("No figure: install opendp_timeseries[plot] for one.")
    if ledger is not None:
        said.append(f"In {options.ledger}, all releases so far: {ledger.guarantee()}.")
    return "\n".join(said)


def _planned(
    options: argparse.Namespace, grid: ts.TimeGrid, ledger: ts.Ledger | None
) -> tuple[dp.Measurement, list[str]]:
    """Return the measurement, and what its guarantee does not cover."""
    unit = dp.symmetric_distance()
    if options.period is not None:
        with warnings.catch_warnings():  # the summary says it
            warnings.simplefilter("ignore", ts.PeriodUnitWarning)
            unit = ts.period_distance(options.period, zone=options.zone)
    caps = {"participation_cap": options.participation_cap, "step_cap": options.step_cap, "gap": options.gap}
    space = ts.event_log_domain(identifier=options.identifier, time=options.time), unit
    signal = space >> ts.then_participation_count(grid, **caps)
    if options.filter_std is not None:
        signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(grid.size, options.filter_std))
    if options.epsilon is None and options.delta is None:
        assert ledger is not None  # else the options are not complete
        measurement = _of_programme(options, ledger, signal)
    else:
        measurement = _within_budget(options, signal)
    return measurement, [] if options.period is None else [_not_covered(measurement, options)]


def _within_budget(options: argparse.Namespace, signal: dp.Transformation) -> dp.Measurement:
    """Return the measurement with the least noise within ε and δ."""
    check.real("epsilon", options.epsilon, above=0.0, remedy="1 is a common choice")
    sample = {"sampling_probability": options.sampling_probability, "sampling": options.sampling}
    scale = ts.least_scale(signal, epsilon=options.epsilon, delta=options.delta, **sample)
    design = f"at sampling_probability ({options.sampling_probability:g})"
    if options.sampling_probability * options.size < 1:
        raise ValueError(f"fewer than one of {options.size} steps is kept on average {design}; choose a greater one")
    if scale < _MIN_SCALE:  # as where δ exceeds the probability that anything of one individual is kept
        budget = f"epsilon ({options.epsilon:g}) and delta ({options.delta:g}) {design}"
        raise ValueError(f"{budget} allow a release with next to no noise, which protects nobody; choose smaller ones")
    return signal >> ts.then_subsampled_gaussian(scale, **sample, delta=options.delta)


def _of_programme(options: argparse.Namespace, ledger: ts.Ledger, signal: dp.Transformation) -> dp.Measurement:
    """Return the measurement that the programme has for this signal, and complete the options by it."""
    if ledger.programme is None:
        raise ValueError(f"ledger ({options.ledger}) has no programme: give --epsilon and --delta of this release")
    measurement: dp.Measurement = ledger.programme.measurement(signal)
    design = parts_of(measurement)[0].design
    for name in ("sampling_probability", "sampling"):
        given, planned = getattr(options, name), getattr(design, name)
        if given not in (None, planned):
            raise ValueError(f"{name} ({given}) must be left out, as the programme says {planned}")
    options.epsilon, options.delta = measurement.map(1)
    return measurement


def _check_season(options: argparse.Namespace) -> None:
    design = Design(signal=UnknownSignal(1), sampling_probability=1.0, scale=1.0)
    nothing = ts.Release(steps=np.array([], np.int64), values=np.array([]), design=design)
    ts.smooth(nothing, seasons=options.season)  # a release of no steps takes no time to smooth
    longest, remedy = max(options.season or [0]), "a season is a number of steps, such as 24 with hours, 7 with days"
    if longest > options.size:
        raise ValueError(f"season ({longest:g}) must be at most the {options.size} steps of the grid; {remedy}")


def _reconstruct(made: ts.Release, options: argparse.Namespace) -> ts.Series:
    try:
        return ts.smooth(made, seasons=options.season)
    except Exception:  # whatever it is, the release must not be lost for it
        return ts.interpolate(made)


def _summary(options: argparse.Namespace, series: ts.Series, grid: ts.TimeGrid) -> list[str]:
    made, once = series.release, options.step_cap == 1
    within = "" if options.period is None else f" within one {_NAMES[options.period]}"
    individual = f"one individual (one value of {options.identifier!r})"
    covered = individual
    if (period := made.design.unit.period) is not None:
        covered = f"what {individual} did within {period}, and NOT for all that they did"
    everything = f"the events{within} of any" if within else "all the events of any"
    smoothing = f", smoothed by a Gaussian filter of {options.filter_std:g} steps" if options.filter_std else ""
    chosen = f"each with probability {made.sampling_probability:.4g}"
    if made.sampling == "stratified":
        chosen = f"one of each block of {round(1 / made.sampling_probability)}"
    kept = f"{len(made)} of {grid.size} steps were kept at random ({chosen}) and carry"
    kept = "Every step carries" if made.sampling_probability == 1 else kept
    factor = f" = {printed_up(up(math.exp(options.epsilon)))}" if options.epsilon < 700 else ""
    each = "once in each" if once else f"at most {options.step_cap} times in each"
    apart = "" if options.gap == 1 else f", at least {options.gap} steps from one to the next"
    return [
        f"A private series of counts: {grid.size} steps of {grid.step} from {grid.start}. The count of a step is the"
        f" number of {'individuals who have an event' if once else 'events'} in it{smoothing}. {kept} Gaussian noise of"
        f" standard deviation {made.scale:.4g}. The series is made from these noisy values by: {series.model}.",
        f"Guarantee: (ε = {printed_up(options.epsilon)}, δ = {printed_up(options.delta)})-differential privacy for"
        f" {covered}. Whether or not {everything} {individual} are in the log, no set of possible releases"
        f" is more than e^ε{factor} times as likely, up to an additional probability of δ.",
        "It holds for everyone, whatever their events: each individual is counted in at most"
        f" {options.participation_cap} steps{within}, {each}{apart}; what exceeds that is left out, so totals are too"
        " low. It assumes that each individual has one identifier; that the grid, the caps and all other parameters"
        " were chosen without looking at this log; and that whoever runs this, who is trusted with the log, publishes"
        " nothing from it but this release and what is computed from the release alone.",
    ]


def _not_covered(measurement: dp.Measurement, options: argparse.Namespace) -> str:
    """Say what somebody loses in all, where the unit of privacy is within a period."""
    periods = len(parts_of(measurement)[0].design.count.period_lengths())
    several = [*(k for k in (2, 7, 30) if k < periods), periods]
    losses = [ts.loss_over_periods(measurement, periods=k).epsilon(options.delta) for k in several]
    said = [f"{printed_up(epsilon)} in {k}" for k, epsilon in zip(several, losses, strict=True)]
    return (
        f"It does not hold for all that somebody did. The more of the {periods} {_NAMES[options.period]}s they take"
        " part in, the less they are protected as a whole: with the same δ, ε is"
        f" {', '.join(said[:-1])}{' and ' if len(said) > 1 else ''}{said[-1]} of them."
    )
