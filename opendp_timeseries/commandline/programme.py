"""A programme on the command line: one part each day, week, month, quarter or year, all within one budget."""

import argparse
import datetime as dt
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._tables import text_table
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.commandline.inputs import amplitudes_of, by_flags, chosen, grid_of
from opendp_timeseries.commandline.request import Request
from opendp_timeseries.commandline.waiting import stage
from opendp_timeseries.commandline.words import wrapped
from opendp_timeseries.design.design import Design
from opendp_timeseries.plugin.known import signal_of
from opendp_timeseries.plugin.subsampled_gaussian import sample_of

#: How much of an instant names a part; of others, the day.
_NAMED: Final = {"1y": 4, "1q": 7, "1mo": 7}
_LIKE: Final = "--level, and --deviation with --time-scale, or amplitudes, as in --season 1d:90"
#: From this share of the level on, an error leaves little to see.
_MUCH: Final = 0.3
_CHANGED: Final = "say again what it was made with, or make another one under another name"


class Part(NamedTuple):
    """A part of a programme: its number from 1, of how many, its name, and its ends on the clock of the zone."""

    number: int
    of: int
    name: str
    start: str
    end: str

    def designs(self, programme: ts.Programme) -> tuple[Design, ...]:
        """Return what it consists of."""
        size, rest = divmod(len(programme), self.of)
        if rest:
            raise ValueError(f"every: the ledger is for a programme of other parts than these {self.of}; {_CHANGED}")
        return programme.designs[(self.number - 1) * size : self.number * size]

    def cut(self, options: argparse.Namespace) -> argparse.Namespace:
        """Return the options of this part: its steps, its log, and the place of its files."""
        grid = {"start": self.start, "end": self.end, "size": None}
        file = options.file and Path(str(options.file).replace("{part}", self.name))
        output = options.output.parent / (options.output.name and f"{options.output.name}-{self.name}")
        return argparse.Namespace(**vars(options) | grid | {"file": file, "output": output})

    def state(self, ledger: ts.Ledger) -> str:
        """Return how far it is."""
        entries = {entry.designs: entry for entry in ledger.entries}
        entry = entries.get(self.designs(_programme_of(ledger)))
        return "planned" if entry is None else "released" if entry.released else "unfinished"


def _programme_of(ledger: ts.Ledger) -> ts.Programme:
    if ledger.programme is None:
        problem = "has no programme: give one that 'programme --new' has made, or another name to make one"
        raise ValueError(f"ledger ({ledger.path}) {problem}")
    return ledger.programme


def parts_of(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options cut the grid into."""
    edges = ts.TimeGrid(start=options.start, end=options.end, step=options.every, zone=options.zone).edges("local")
    ends = list(pairwise(np.datetime_as_string(edges, unit="m").tolist()))
    named = _NAMED.get(options.every, 10)
    return [Part(number, len(ends), start[:named], start, end) for number, (start, end) in enumerate(ends, 1)]


def take_part(options: argparse.Namespace, ledger: ts.Ledger | None) -> Part:
    """Let the options be those of one part: the one that they number, or the first that is not released.

    :raises ValueError: if there is none, or it is not over.
    """
    parts = parts_of(options)
    if options.number is not None:
        most: dict[str, Any] = {"maximum": len(parts), "remedy": "the parts are numbered from 1"}
        part = parts[check.integer("number", options.number, minimum=1, **most) - 1]
    else:
        left = [part for part in parts if ledger is None or part.state(ledger) != "released"]
        if not left:
            raise ValueError(f"all {len(parts)} parts of the programme are released; start another, with its ledger")
        part = left[0]
        end = ts.TimeGrid(start=part.start, end=part.end, step=options.every, zone=options.zone).edges()[-1]
        if ledger is not None and end > np.datetime64(dt.datetime.now(dt.UTC).replace(tzinfo=None), "s"):
            still = f"part {part.number} of the programme ends at {part.end}, which is still to come"
            raise ValueError(f"{still}: wait, or ask for it by --number {part.number}")
    vars(options).update(vars(part.cut(options)))
    return part


def planned_measurement(request: Request, part: Part, options: argparse.Namespace, ledger: ts.Ledger) -> Any:
    """Return the measurement of a part, with the noise that was planned.

    :raises ValueError: if the options are not those that it was planned with.
    """
    designs = part.designs(_programme_of(ledger))
    if [design.signal for design in designs] != [signal_of(chain) for chain in request.chains]:
        raise ValueError(f"ledger ({ledger.path}) is for a programme with another grid, other caps or keys; {_CHANGED}")
    asked = []
    for design, sample in zip(designs, request.samples, strict=True):
        drawn = sample_of(sample["sampling_probability"], options.sampling, design.signal.size)
        asked.append(replace(design, sampling=drawn.sampling))
    if (options.epsilon, options.delta, *asked) != (ledger.epsilon, ledger.delta, *designs):
        raise ValueError(f"ledger ({ledger.path}) is for a programme with another budget or sampling; {_CHANGED}")
    samples = [design.sampling.arguments() for design in designs]
    return request.measurement([design.scale for design in designs], samples, options.delta)


def programme(options: argparse.Namespace) -> str:
    """Plan a programme, or say how far it is."""
    parts = parts_of(options)
    ledger = None if options.new or not options.ledger.exists() else ts.Ledger(options.ledger)
    with stage("Planning the programme", quiet=options.quiet):
        found = _planned(options, parts) if ledger is None else _programme_of(ledger)
        errors = _errors(options, parts, found)
    if options.new:
        ledger = ts.Ledger.create(options.ledger, programme=found)
    if options.json:
        return found.to_json()
    states = ["planned" if ledger is None else part.state(ledger) for part in parts]
    in_all = options.participation_cap is not None and (options.total or options.groups)  # else within the count
    asked = {"totals": in_all, "people": options.people, "people by key": options.people_by_key or options.people_cap}
    noise = ["noise of series", *(f"noise of {name}" for name, is_asked in asked.items() if is_asked)]
    rows = []
    for part, state in zip(parts, states, strict=True):
        designs = part.designs(found)
        alone = found.lost(joint_loss([design.loss() for design in designs], adaptive=False))
        if len(designs) != len(noise):
            raise ValueError(f"ledger ({options.ledger}) is for a programme of other counts; {_CHANGED}")
        scales = (f"{design.scale:.4g}" for design in designs)
        expected = [f"{error:.4g}" for of_part in errors[part.number - 1 : part.number] for error in of_part.values()]
        rows.append(
            (
                str(part.number),
                part.name,
                state,
                *scales,
                *expected,
                f"{'ρ' if found.rho else 'ε'} = {printed_up(alone)}",
            )
        )
    end = ["Errors are of each step, as they are to be expected, without what caps leave out."]
    noise += [f"error of {name}" for name in errors[0]] if errors else []
    if errors and options.level and (share := max(one["series"] for one in errors) / options.level) > _MUCH:
        end[0] += f" They are up to {share:.0%} of the level: longer steps, fewer keys or a larger budget show more."
    if not errors:
        end = [f"For the error to expect of each part, say roughly what the series is like: {_LIKE}."]
    end += [f"It is programme {found.identifier[:16]}: every part names it. Publish it, as --json prints it."]
    if ledger is None:
        end += [f"Nothing is fixed yet: --new makes {options.ledger}, and then it is."]
    else:
        left = [part for part, state in zip(parts, states, strict=True) if state != "released"]
        following = f"; next is part {left[0].number}, {left[0].name}" if left else ""
        end += [f"So far: {ledger.guarantee()}.", f"Left: {len(left)} of {len(parts)}{following}."]
    title = f"{len(parts)} parts within (ε = {found.epsilon:g}, δ = {found.delta:g}) for {found.unit}"
    return "\n".join([title, text_table(("part", "from", "state", *noise, "alone"), rows), "", *map(wrapped, end)])


def _errors(options: argparse.Namespace, parts: list[Part], programme: ts.Programme) -> list[dict[str, float]]:
    """Return the errors to expect of each part, of its series and its total; nothing if the series is not described."""
    known = chosen(options, "level", "deviation", "time_scale")
    known["season_amplitudes"] = amplitudes_of(options, grid_of(parts[0].cut(options)))
    if all(value is None for value in known.values()):
        return []
    try:
        found = programme.expected_errors(**known)[:: len(programme) // len(parts)]
    except (TypeError, ValueError) as error:
        raise ValueError(by_flags(str(error), refused=True)) from None
    return [{"series": error.smoothed, **dict(error.totals[:1])} for error in found]


def _planned(options: argparse.Namespace, parts: list[Part]) -> ts.Programme:
    """Find the noise of all parts."""
    requests = [Request.of(cut, grid_of(cut)) for part in parts for cut in [part.cut(options)]]
    return ts.Programme.plan(
        [chain for request in requests for chain in request.chains],
        epsilon=options.epsilon,
        delta=options.delta,
        sampling_probability=[sample["sampling_probability"] for request in requests for sample in request.samples],
        sampling=options.sampling,
        relative_scales=[scale for request in requests for scale in request.relative_scales],
    )
