"""Make one release as the options say. Whatever can fail without the log, fails before it is read."""

import argparse
import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import opendp_timeseries as ts
import opendp_timeseries.reconstruction.smooth  # before anything is spent, as memory may end here
from opendp_timeseries._files import files_together
from opendp_timeseries._process import take_buffers
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import large_delta
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.rounding import printed_up, up
from opendp_timeseries.commandline.inputs import check_of, check_smoothing, chosen, grid_of, read_log
from opendp_timeseries.commandline.outputs import Results, captions, document, places, reconstructed, undrawn
from opendp_timeseries.commandline.programme import plan_in, planned_measurement, take_part
from opendp_timeseries.commandline.request import Request
from opendp_timeseries.commandline.waiting import held_back, say, stage
from opendp_timeseries.commandline.words import wrapped
from opendp_timeseries.plugin.mechanisms import stated_designs
from opendp_timeseries.results.contents import contents_of, people_in_words
from opendp_timeseries.smoothing.everybody import last_tier

#: Of many keys, a note in a terminal names the first.
_LONGEST: Final = 1000


def release(options: argparse.Namespace) -> str:
    """Make a release, write its files, and return what there is to say about it.

    :raises Exception: as for the options; no file has changed then. A note says what is spent, if anything is.
    """
    ledger = None if options.ledger is None else ts.Ledger(options.ledger)
    plan = plan_in(ledger, options) if options.every and ledger is not None else None
    part = None if plan is None else take_part(options, plan)
    if plan is not None and part is not None and not options.resume and plan.states([part]) == ["released"]:
        raise Refusal(
            "number", part.number, "is released already", "`resume` writes those of its files that are missing, free"
        )
    wanted = places(options)
    grid = grid_of(options)
    check_smoothing(options, grid)
    with held_back(), stage("Finding the noise", quiet=options.quiet, logged=True):
        request = Request.of(options, grid)
        if plan is not None and part is not None:
            measurement = planned_measurement(request, part, options, plan)
        elif ledger is not None and (options.epsilon, options.delta) == (None, None):
            measurement = _of_programme(options, ledger, request)
        else:
            measurement = request.within(options.epsilon, options.delta)
    take_buffers()  # before anything is spent
    earlier = [] if options.force else [suffix for suffix, place in wanted.items() if place.exists()]
    if earlier and ledger is not None and ((paid := ledger.entry_for(measurement)) is None or paid.released is None):
        raise _another(wanted[earlier[0]])
    missing = {suffix: place for suffix, place in wanted.items() if suffix not in earlier}
    writing = files_together(missing.values(), replace=options.force)
    with _paying(measurement, ledger, options) as make, writing as files:
        releases = _flat(make(lambda: _log(options, grid)))
        with stage("Making the series", quiet=options.quiet, logged=True):
            results = reconstructed(*request.parted(releases), options)
        with stage("Writing the files", quiet=options.quiet):
            first = next((suffix for suffix in (".json", ".csv") if suffix in earlier), None)
            if earlier and (first is None or wanted[first].read_bytes() != document(first, results, options)):
                raise _another(wanted[earlier[0]])
            for suffix, place in missing.items():
                files[place].write(document(suffix, results, options))
    lines = ["\n\n".join(_summary(results, options)), "", f"Written: {', '.join(map(str, files)) or 'nothing'}"]
    if earlier:
        lines.append(f"There already: {', '.join(str(wanted[suffix]) for suffix in earlier)}")
    if options.file is not None:  # whatever the log holds: the release itself cannot say
        lines.append("A wrong column or time format gives noise alone: run 'check', in private, to rule that out.")
    elif (share := check_of(options, grid)[0].events_lost_share) > 0.0005:  # of any other log, this is private
        by = "caps" if options.gap == 1 else "gap and the caps"
        lines.append(f"This log is public, so it can be said: the {by} take away {share:.1%} of its departures.")
    if f".{options.figure}" in wanted and (boxes := undrawn(results, options)):
        lines.append(boxes)
    if f".{options.figure}" not in wanted and options.figure != "none":
        lines.append("No figure: install opendp_timeseries[plot] for one.")
    if ledger is not None:
        lines.append(f"In {options.ledger}, all releases so far: {ledger.guarantee()}.")
    if part is not None:
        lines.append(f"This is part {part.number} of {part.of} of a programme: run 'programme' to see what is left.")
    return "\n".join(lines)


def _another(place: Path) -> Refusal:
    remedy = "choose another `output`, or replace it by `force`"
    return Refusal("output", place, "exists, and is of another release", remedy)


def _log(options: argparse.Namespace, grid: ts.TimeGrid) -> Any:
    with stage(f"Reading {options.file}", quiet=options.quiet):
        return read_log(options, grid, step_cap=options.step_cap if options.bound is None else options.bound)


def _flat(answer: Any) -> list[ts.Release]:
    return [item for part in answer for item in _flat(part)] if isinstance(answer, list) else [answer]


@contextlib.contextmanager
def _paying(
    measurement: Any, ledger: ts.Ledger | None, options: argparse.Namespace
) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Yield a function that makes the release, and add to whatever ends the block which entry is spent."""
    resume, counting = bool(options.resume), stage("Counting, and adding noise", quiet=options.quiet)

    def make_unpaid(read: Callable[[], object]) -> object:
        log = read()
        with counting, held_back():
            return measurement(log)

    if ledger is None:
        yield make_unpaid
        return
    paid = ledger.entry_for(measurement)
    number = paid.number if paid is not None and paid.released is None else None
    if number is not None and not resume:
        raise Refusal(
            "ledger",
            ledger.path,
            f"has paid for this release in entry {number}, which is unfinished",
            "give `resume`, which costs nothing",
        )
    ledger.check(measurement, resume=resume)

    def make(read: Callable[[], object]) -> Any:
        log = None if resume and number is None else read()  # of what is released, the ledger knows all

        def announce(entry: int) -> None:
            nonlocal number
            number = entry
            remedy = "If its files do not appear, run the same command with --resume, which costs nothing."
            # Whoever is killed can say nothing.
            say(f"Entry {number} of {ledger.path} pays for this release. {remedy}")

        with counting, held_back():
            return ledger.release(measurement, log, resume=resume, announce=announce)

    try:
        yield make
    except BaseException as error:
        with contextlib.suppress(Exception):  # an error, or a signal, as it was written
            open_entry = ledger.entry_for(measurement)
            number = open_entry.number if open_entry is not None and open_entry.released is None else number
        if number is not None:
            remedy = "run the same command with --resume for its files"
            error.add_note(f"entry {number} of {ledger.path} is spent: {remedy}")
        raise


def _of_programme(options: argparse.Namespace, ledger: ts.Ledger, request: Request) -> Any:
    if ledger.programme is None:
        raise Refusal(
            "ledger", Quoted(options.ledger), "has no programme", "give `epsilon` and `delta` of this release"
        )
    if len(request.chains) > 1:
        raise Refusal(
            "every",
            ...,
            "must be given with totals, means and numbers of people, which are planned",
            "give it, or leave them out",
        )
    measurement = ledger.programme.measurement(request.count)
    design = stated_designs(measurement)[0].design
    for name, given in chosen(options, "sampling_probability", "sampling").items():
        if given not in (None, planned := design.sampling.arguments()[name]):
            raise Refusal(name, Quoted(given), f"must be left out, as the programme says {planned}")
    return measurement


def _summary(results: Results, options: argparse.Namespace) -> list[str]:
    first, content = (
        results.releases[0],
        contents_of(results.series, totals="", records="", **captions(results, options)),
    )
    count, p = first.design.count, first.sampling_probability
    within = f" within {count.unit.period}" if count.unit.period else ""
    panel = "" if count.panel is None else f", for each of {len(count.panel)} keys of {options.by!r}"
    counted = f"number of {'individuals who have an event' if count.reading.step_cap == 1 else 'events'}"
    if options.value is not None:
        counted = f"sum of {options.value!r}"
    smoothing = f", smoothed by a Gaussian filter of {options.filter_std:g} steps" if options.filter_std else ""
    chance = f"one of each block of {round(1 / p)}" if first.sampling.stratified else f"each with probability {p:.4g}"
    sample = "" if p == 1 else f" {len(first)} of {first.size} steps were kept at random ({chance})."
    paragraphs = [
        f"A private series of {'counts' if options.value is None else 'sums'}: {count.grid.size} steps of"
        f" {count.grid.step} from {count.grid.start}{panel}. The {'count' if options.value is None else 'number'} of a"
        f" step is the {counted} in it{smoothing}; Gaussian noise of standard deviation"
        f" {first.scale:.4g} is added to it.{sample}",
        " ".join(content.near),
        *(note if len(note) <= _LONGEST else f"{note[:_LONGEST]} …" for note in people_in_words(content)),
        _guarantee(results, within),
        "It holds for everyone, whatever their events. An individual is one value of"
        f" {options.identifier!r}. {content.protected[1]} It"
        " assumes three things. Each individual has one identifier. The grid and all other parameters were chosen"
        " without looking at this log. Whoever runs this is trusted with the log, and publishes nothing from it but"
        " this release and what is computed from the release.",
    ]
    if within:
        delta, periods = first.stated.loss[0][1], len(count.period_lengths())
        several = [*(k for k in (2, 7, 30) if k < periods), periods]
        losses = []
        for k in several:
            parts = [ts.loss_over_periods(item, periods=k) for item in results.releases]
            losses.append(f"{printed_up(joint_loss(parts, adaptivity=Adaptivity.NONE).epsilon(delta))} in {k}")
        paragraphs.append(
            f"It does not hold for everything that somebody did: the more of the {periods} periods they take part in,"
            f" the less they are protected as a whole. With the same δ, ε is {', '.join(losses)} of them."
        )
    return [wrapped(text) for text in (*paragraphs, *_warnings(results, options))]


def _guarantee(results: Results, within: str) -> str:
    joint_release = results.joint_release
    words, (epsilon, delta) = joint_release.guarantee(), joint_release.stated.loss[0]
    factor = f" = {printed_up(up(math.exp(epsilon)))}" if epsilon < 700 else ""
    return (
        f"Guarantee: {words}. Whether or not the events of any one individual{within} are in the log, no set"
        f" of possible releases is more than e^ε{factor} times as likely, up to an additional probability of δ."
        f" {large_delta(delta)}".rstrip()
    )


def _warnings(results: Results, options: argparse.Namespace) -> Iterator[str]:
    """Say what is unusual, by what is public."""
    delta, level = results.releases[0].stated.loss[0][1], float(np.mean(results.series.values))
    if options.individuals is not None and delta * options.individuals > 1:
        yield (
            f"Warning: δ = {delta:g} is more than one over the number of individuals ({options.individuals}): so much"
            " may expose some of them outright. Choose far less."
        )
    # Of a private series, no one of its tiers says how far it is from the truth.
    count = results.releases[0].design.signal.count
    in_tiers = count is not None and count.tiers is not None and results.series.converged
    what, size = "error", float(np.median(results.series.standard_error))
    if not in_tiers:
        what, size = "noise", last_tier(results.releases[0]).scale
    if size > level:
        yield (
            f"Warning: the {what} (standard deviation {size:.4g} in each step) is above the level of the series"
            f" ({max(level, 0):.3g}). Longer steps, fewer keys or a larger budget give more to see: run"
            f" '{'programme' if options.every else 'plan'}' before the first release."
        )
