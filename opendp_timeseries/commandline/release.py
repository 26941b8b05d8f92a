"""Make one release as the options say. Whatever can fail without the log, fails before it is read."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._files import files_together
from opendp_timeseries.accounting.calibrate import large_delta
from opendp_timeseries.accounting.rounding import printed_up, up
from opendp_timeseries.commandline.inputs import check_of, chosen, grid_of, read_log, wrapped
from opendp_timeseries.commandline.interrupts import held_back
from opendp_timeseries.commandline.outputs import document, places
from opendp_timeseries.design.count import Count
from opendp_timeseries.plugin._opendp import symmetric_distance
from opendp_timeseries.plugin.known import parts_of

__all__ = ["release"]

#: Without a season, a figure summarises a long series by so many means.
_MEANS: Final = 200
#: Counts are whole numbers, and nobody would call this noise.
_MIN_SCALE: Final = 1e-6
#: How near the counts are to the truth, but for noise.
_TRUTH: Final = {
    "drop": "What exceeds the cap is left out, so totals are too low, and the intervals are of what is left.",
    "scale": "What exceeds the cap weighs less, so totals are too low, and the intervals are of what is left.",
    "scales": "Nobody is left out: the series is of the true counts, and so are its intervals.",
}


def release(options: argparse.Namespace) -> str:
    """Make a release, write its files, and return what there is to say about it.

    :raises Exception: as for the options; no file has changed then. A note says what is spent, if anything is.
    """
    wanted = places(options)
    ledger = None if options.ledger is None else ts.Ledger(options.ledger)
    grid = grid_of(options)
    for season in options.season or ():
        remedy = "a season is a number of steps, such as 24 with hours, 7 with days"
        check.real("season", season, minimum=2.0, maximum=float(grid.size), remedy=remedy)
    with held_back():
        measurement = _measurement(options, grid, ledger)
    cycle = int(min(options.season or [max(1, grid.size // _MEANS)]))
    what = "aircraft" if options.file is None else "individuals" if options.step_cap == 1 else "events"
    with (
        _paying(measurement, ledger, options.resume) as make,
        files_together(wanted.values(), replace=options.force) as files,
    ):
        made: ts.Release = make(lambda: read_log(options))
        try:
            series = ts.smooth(made, seasons=options.season)
        except Exception:  # whatever it is, the release must not be lost for it
            series = ts.interpolate(made)
        for suffix, place in wanted.items():
            files[place].write(document(suffix, made, series, what, cycle))
    said = ["\n\n".join(_summary(made, series, options)), "", f"Written: {', '.join(map(str, wanted.values()))}"]
    if options.file is None:  # of any other log, this is private
        share = f"{check_of(options, grid).events_lost_share:.0%} of its departures"
        by = "caps" if options.gap == 1 else "gap and the caps"
        said.append(f"This log is public, so it can be said: the {by} take away {share}.")
    else:  # whatever the log holds: the release itself cannot say
        said.append("A wrong column or time format gives noise alone: run 'check', in private, to rule that out.")
    if len(wanted) < 3 and options.figure != "none":
        said.append("No figure: install opendp_timeseries[plot] for one.")
    if ledger is not None:
        said.append(f"In {options.ledger}, all releases so far: {ledger.guarantee()}.")
    return "\n".join(said)


def _held(work: Callable[[], Any]) -> Any:
    with held_back():
        return work()


@contextlib.contextmanager
def _paying(measurement: Any, ledger: ts.Ledger | None, resume: bool) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Yield a function that makes the release, and add to whatever ends the block which entry is spent."""
    if ledger is None:
        yield lambda read: _held(partial(measurement, read()))
        return
    paid = ledger.paid(measurement)
    if paid is not None and paid.released is None and not resume:
        problem = f"entry {paid.number} of {ledger.path} has paid for this release, which is unfinished"
        raise ValueError(f"{problem}: give --resume, which costs nothing")
    ledger.check(measurement, resume=resume)
    number = paid.number if resume and paid is not None else None

    def make(read: Callable[[], Any]) -> Any:
        log = None if resume and paid is not None and paid.released is not None else read()

        def announced() -> Any:
            nonlocal number
            number = number or len(ledger.entries) + 1
            remedy = "If its files do not appear, run the same command with --resume, which costs nothing."
            # Whoever is killed can say nothing.
            print(f"Entry {number} of {ledger.path} pays for this release. {remedy}", file=sys.stderr, flush=True)
            return log

        return _held(partial(ledger.release, measurement, announced, resume=resume))

    try:
        yield make
    except BaseException as error:
        spent = number is not None
        with contextlib.suppress(Exception):  # what cannot be found out may be spent
            spent = number is not None and number <= len(ledger.entries)
        if spent:
            remedy = "run the same command with --resume for its files"
            error.add_note(f"entry {number} of {ledger.path} is spent: {remedy}")
        raise


def _measurement(options: argparse.Namespace, grid: ts.TimeGrid, ledger: ts.Ledger | None) -> Any:
    """Return the measurement within the budget, or of the programme."""
    unit = symmetric_distance()
    if options.period is not None:
        with warnings.catch_warnings():  # the summary says it
            warnings.simplefilter("ignore", ts.PeriodUnitWarning)
            unit = ts.period_distance(options.period, zone=options.zone)
    space = ts.event_log_domain(**chosen(options, "identifier", "time")), unit
    caps = chosen(options, "step_cap", "gap")
    if options.participation_cap is None:
        signal = space >> ts.then_activity_count(grid, **caps)
    else:
        # A filter lowers the noise only if steps lie apart, or are few.
        excess = options.excess or ("drop" if options.filter_std is not None and options.gap == 1 else "scale")
        caps |= {"participation_cap": options.participation_cap, "excess": excess}
        signal = space >> ts.then_participation_count(grid, **caps)
    if options.filter_std is not None:
        signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(grid.size, options.filter_std))
    if ledger is not None and (options.epsilon, options.delta) == (None, None):
        return _of_programme(options, ledger, signal)
    return _within_budget(options, signal)


def _within_budget(options: argparse.Namespace, signal: Any) -> Any:
    check.real("epsilon", options.epsilon, above=0.0, remedy="1 is a common choice")
    sample = chosen(options, "sampling_probability", "sampling")
    scale = ts.least_scale(signal, **chosen(options, "epsilon", "delta"), **sample)
    design = f"at sampling_probability ({options.sampling_probability:g})"
    if options.sampling_probability * options.size < 1:
        raise ValueError(f"fewer than one of {options.size} steps is kept on average {design}; choose a greater one")
    if scale < _MIN_SCALE:  # as where δ exceeds the probability that anything of one individual is kept
        budget = f"epsilon ({options.epsilon:g}) and delta ({options.delta:g}) {design}"
        raise ValueError(f"{budget} allow a release with next to no noise, which protects nobody; choose smaller ones")
    with warnings.catch_warnings():  # the summary says it
        warnings.simplefilter("ignore", ts.LargeDeltaWarning)
        return signal >> ts.then_subsampled_gaussian(scale, **sample, delta=options.delta)


def _of_programme(options: argparse.Namespace, ledger: ts.Ledger, signal: Any) -> Any:
    if ledger.programme is None:
        raise ValueError(f"ledger ({options.ledger}) has no programme: give --epsilon and --delta of this release")
    measurement = ledger.programme.measurement(signal)
    design = parts_of(measurement)[0].design
    for name, given in chosen(options, "sampling_probability", "sampling").items():
        if given not in (None, planned := getattr(design, name)):
            raise ValueError(f"{name} ({given}) must be left out, as the programme says {planned}")
    return measurement


def _kind(count: Count) -> str:
    return count.excess if count.scales is None else "scales"


def _of_scales(count: Count) -> str:
    """Say of which series the noise is."""
    if count.scales is None:
        return ""
    return (
        f", in each of {count.scales.series} series of the whole grid: everybody counts in the last with one weight,"
        " and in those before it the less, the more often they come"
    )


def _summary(made: ts.Release, series: ts.Series, options: argparse.Namespace) -> list[str]:
    count = made.design.count
    (epsilon, delta), once = made.stated.loss[0], count.step_cap == 1
    within = f" within {count.unit.period}" if count.unit.period else ""
    smoothing = f", smoothed by a Gaussian filter of {options.filter_std:g} steps" if options.filter_std else ""
    some = f"each with probability {made.sampling_probability:.4g}"
    if made.sampling == "stratified":
        some = f"one of each block of {round(1 / made.sampling_probability)}"
    some = f"{len(made)} of {made.size} steps were kept at random ({some}) and carry"
    kept = "Every step carries" if made.sampling_probability == 1 else some
    factor = f" = {printed_up(up(math.exp(epsilon)))}" if epsilon < 700 else ""
    counted = "individuals who have an event" if once else "events"
    each = "once in each" if once else f"at most {count.step_cap} times in each"
    each += "" if count.gap == 1 else f", at least {count.gap} steps from one to the next"
    said = [
        f"A private series of counts: {count.grid.size} steps of {count.grid.step} from {count.grid.start}. The count"
        f" of a step is the number of {counted} in it{smoothing}. {kept} Gaussian noise of standard deviation"
        f" {made.scale:.4g}{_of_scales(count)}. The series is made from these noisy values by: {series.model}.",
        f"Guarantee: {made.guarantee()}. Whether or not the events of any one individual{within} are in the log, no set"
        f" of possible releases is more than e^ε{factor} times as likely, up to an additional probability of δ."
        f" {large_delta(delta)}".rstrip(),
        "It holds for everyone, whatever their events: each individual (one value of"
        f" {options.identifier!r}) is counted in {count.words()}{within}, {each}."
        f" {_TRUTH[_kind(count)]} It assumes that each individual has one identifier; that the grid,"
        " the caps and all other parameters were chosen without looking at this log; and that whoever runs this, who"
        " is trusted with the log, publishes nothing from it but this release and what is computed from the release.",
    ]
    if within:
        periods = len(count.period_lengths())
        several = [*(k for k in (2, 7, 30) if k < periods), periods]
        losses = [f"{printed_up(ts.loss_over_periods(made, periods=k).epsilon(delta))} in {k}" for k in several]
        said.append(
            f"It does not hold for everything that somebody did: the more of the {periods} periods they take part in,"
            f" the less they are protected as a whole. With the same δ, ε is {', '.join(losses)} of them."
        )
    return [wrapped(text) for text in said]
