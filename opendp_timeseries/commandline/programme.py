"""A programme on the command line: one part each day, week, month, quarter or year, all within one budget."""

import argparse
import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import ndtri

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._json import encode, written
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries._tables import text_table
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.commandline.arguments import parse
from opendp_timeseries.commandline.inputs import amplitudes_of, chosen, grid_of, keys_and_groups
from opendp_timeseries.commandline.outputs import CONFIDENCE, STEPS, captions, reconstructed, write_preview
from opendp_timeseries.commandline.request import Request
from opendp_timeseries.commandline.waiting import stage
from opendp_timeseries.commandline.words import share, wrapped
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.grid import ONE_DAY, PERIODS
from opendp_timeseries.ledger.book import Entry
from opendp_timeseries.planning.errors import ALIKE, ExpectedError
from opendp_timeseries.planning.preview import made_up_rates, made_up_releases
from opendp_timeseries.plugin.mechanisms import signal_of
from opendp_timeseries.plugin.subsampled_gaussian import sample_of
from opendp_timeseries.results.contents import contents_of
from opendp_timeseries.results.digits import rounded
from opendp_timeseries.results.page import page_of

#: How much of an instant names a part; of others, the day.
_NAMED: Final = {"1y": 4, "1q": 7, "1mo": 7}
_LIKE: Final = "--level, and --deviation with --time-scale, or amplitudes, as in --season 1d:90"
#: From this share of the level on, an error leaves little to see.
_MUCH: Final = 0.5
#: Noise that differs by less is as good as equal.
_EQUAL: Final = 1 + 1e-6
_CHANGED: Final = "say again what it was made with, or make another one under another name"


class Part(NamedTuple):
    """A part of a programme: its number from 1, of how many, its name, and its ends on the clock of the zone."""

    number: int
    of: int
    name: str
    start: str
    end: str

    def cut(self, options: argparse.Namespace) -> argparse.Namespace:
        """Return the options of this part: its steps, its log, and the place of its files."""
        grid = {"start": self.start, "end": self.end, "size": None}
        file = options.file and Path(str(options.file).replace("{part}", self.name))
        output = options.output.parent / (options.output.name and f"{options.output.name}-{self.name}")
        return argparse.Namespace(**vars(options) | grid | {"file": file, "output": output})


def _programme_of(ledger: ts.Ledger) -> ts.Programme:
    if ledger.programme is None:
        raise Refusal(
            "ledger",
            ledger.path,
            "has no programme",
            "give one that 'programme `new`' has made, or another name to make one",
        )
    return ledger.programme


def parts_of(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options cut the grid into."""
    edges = ts.TimeGrid(start=options.start, end=options.end, step=options.every, zone=options.zone).edges("local")
    ends = list(pairwise(np.datetime_as_string(edges, unit="m").tolist()))
    named = _NAMED.get(options.every, 10)
    return [Part(number, len(ends), start[:named], start, end) for number, (start, end) in enumerate(ends, 1)]


class Plan(NamedTuple):
    """Designs of one publication in a programme: so many for each part, from a first one on."""

    programme: ts.Programme
    first: int
    size: int
    ledger: ts.Ledger | None = None

    @classmethod
    def of(cls, options: argparse.Namespace, programme: ts.Programme, ledger: ts.Ledger | None = None) -> "Plan":
        """Find the parts of a publication in a programme.

        :raises ValueError: if it was planned with another budget, or does not hold such parts.
        """
        budget = programme.budget
        if (options.epsilon, options.delta) != (budget.epsilon, budget.delta):
            rule = f"and delta ({options.delta:g}) must be those of its programme, {budget:g}, which hold for all"
            raise Refusal("epsilon", options.epsilon, f"{rule} publications in it together", _CHANGED)
        parts, planned = parts_of(options), [(design.signal, design.sampling) for design in programme.designs]
        cuts = [part.cut(options) for part in (parts[0], parts[-1])]
        first, last = (_sampled_signals(Request.of(cut, grid_of(cut)), options) for cut in cuts)
        size, end = len(first), (len(parts) - 1) * len(first)
        starts = range(len(planned) - end - size + 1)
        places = [k for k in starts if planned[k : k + size] == first and planned[k + end : k + end + size] == last]
        if len(places) != 1:
            if places:
                raise Refusal("ledger", options.ledger, "holds these counts twice", "plan each publication once")
            raise Refusal("ledger", options.ledger, f"is for a programme {_difference(first[0], planned)}", _CHANGED)
        if len(planned) == len(parts) * size and options.weight != 1:
            rule = "is relative to other publications in the budget, and there are none"
            raise Refusal("weight", options.weight, rule, "plan it with another, by `beside`, or leave it out")
        return cls(programme, places[0], size, ledger)

    def designs(self, part: Part) -> tuple[Design, ...]:
        """Return what a part consists of."""
        start = self.first + (part.number - 1) * self.size
        return self.programme.designs[start : start + self.size]

    def states(self, parts: Sequence[Part]) -> list[str]:
        """Return how far each part is."""
        entries = {entry.designs: entry for entry in (self.ledger.entries if self.ledger else ())}

        def state(entry: Entry | None) -> str:
            return "planned" if entry is None else "released" if entry.released else "unfinished"

        return [state(entries.get(self.designs(part))) for part in parts]


def plan_in(ledger: ts.Ledger, options: argparse.Namespace) -> Plan:
    """Return what a ledger has planned of a publication."""
    return Plan.of(options, _programme_of(ledger), ledger)


def _sampled_signals(request: Request, options: argparse.Namespace) -> list[tuple[Signal, Sampling]]:
    """Return the signals of a request, and how each is sampled."""
    signals = [signal_of(chain) for chain in request.chains]
    ways = [sample["sampling_probability"] for sample in request.samples]
    return [
        (signal, sample_of(way, options.sampling, signal.size).sampling)
        for signal, way in zip(signals, ways, strict=True)
    ]


def _difference(pair: tuple[Signal, Sampling], planned: Sequence[tuple[Any, Sampling]]) -> str:
    """Say in what a count differs from those that were planned."""
    signal, reading = pair[0], pair[0].count.reading
    alike = [candidate for candidate in planned if candidate[0].count.reading.grid == reading.grid]
    if not alike:
        return "on another grid"
    for name, words in {"source": "of other columns", "panel": "of other keys"}.items():
        if all(getattr(candidate.count.reading, name) != getattr(reading, name) for candidate, _ in alike):
            return words
    if any(candidate == signal for candidate, _ in alike) and pair not in alike:
        return "with another sampling"
    return "with other caps or filters, or other totals or numbers of people"


def _numbered(parts: Sequence[Part], number: int) -> Part:
    remedy = "the parts are numbered from 1"
    return parts[check.integer("number", number, minimum=1, maximum=len(parts), remedy=remedy) - 1]


def take_part(options: argparse.Namespace, plan: Plan | None) -> Part:
    """Let the options be those of one part: the one that they number, or the first that is not released.

    :raises ValueError: if there is none, or it is not over.
    """
    parts = parts_of(options)
    if options.number is not None:
        part = _numbered(parts, options.number)
    else:
        states = ["planned"] * len(parts) if plan is None else plan.states(parts)
        open_parts = [part for part, state in zip(parts, states, strict=True) if state != "released"]
        if not open_parts:
            raise Refusal(
                "ledger",
                options.ledger,
                f"has released all {len(parts)} parts of the programme",
                "start another, with its ledger",
            )
        part = open_parts[0]
        end = ts.TimeGrid(start=part.start, end=part.end, step=options.every, zone=options.zone).edges()[-1]
        if plan is not None and end > np.datetime64(dt.datetime.now(dt.UTC).replace(tzinfo=None), "s"):
            raise Refusal(
                f"part {part.number} of the programme",
                ...,
                f"ends at {part.end}, which is still to come",
                f"wait, or ask for it by `number={part.number}`",
            )
    vars(options).update(vars(part.cut(options)))
    return part


def planned_measurement(request: Request, part: Part, options: argparse.Namespace, plan: Plan) -> Any:
    """Return the measurement of a part, with the noise that was planned.

    :raises ValueError: if the options are not those that it was planned with.
    """
    _check_planned(request, part, options, plan)
    designs = plan.designs(part)
    samples = [design.sampling.arguments() for design in designs]
    return request.measurement([design.scale for design in designs], samples, options.delta)


def _check_planned(request: Request, part: Part, options: argparse.Namespace, plan: Plan) -> None:
    """Refuse a part that is not what was planned."""
    planned = [(design.signal, design.sampling) for design in plan.designs(part)]
    signals = _sampled_signals(request, options)
    if planned != signals:
        raise Refusal(
            "ledger", Quoted(options.ledger), f"is for a programme {_difference(signals[0], planned)}", _CHANGED
        )


def programme(options: argparse.Namespace) -> str:
    """Plan a programme, of one publication or several, or say how far it is."""
    every = [options, *(_beside(path, options) for path in options.beside or ())]
    _check_outputs(every)
    ledger = None if options.new or not options.ledger.exists() else ts.Ledger(options.ledger)
    with stage("Planning the programme", quiet=options.quiet, logged=True):
        scheme = _planned(every) if ledger is None else _programme_of(ledger)
        plans = [Plan.of(publication, scheme, ledger) for publication in every]
        _check_weights(every, plans)
        for publication, plan in zip(every, plans, strict=True):
            for part in parts_of(publication) if ledger is not None else ():
                cut = part.cut(publication)
                _check_planned(Request.of(cut, grid_of(cut)), part, publication, plan)
        errors = [_errors(publication, plan) for publication, plan in zip(every, plans, strict=True)]
    if options.preview:
        _preview(options, plans[0])
    if options.new:
        ledger = ts.Ledger.create(options.ledger, programme=scheme)
        plans = [plan._replace(ledger=ledger) for plan in plans]
    if options.json:
        return scheme.to_json()
    lines = [f"Within {scheme.budget:g} for {scheme.unit}, all of it together:"]
    for publication, plan, expected in zip(every, plans, errors, strict=True):
        lines += ["", *_table(publication, plan, expected)]
    end = [f"It is programme {scheme.identifier[:16]}: every part names it. Publish it, as --json prints it."]
    if ledger is None:
        end += [f"Nothing is fixed yet: --new makes {options.ledger}, and then it is."]
    else:
        end += [f"So far: {ledger.guarantee()}."]
    if len(scheme) > sum(
        plan.size * len(parts_of(publication)) for publication, plan in zip(every, plans, strict=True)
    ):
        end += ["The programme holds other publications, too: their files say more."]
    return "\n".join([*lines, *map(wrapped, end)])


def _preview(options: argparse.Namespace, plan: Plan) -> None:
    """Write the page of a part as it would look."""
    part = _numbered(parts_of(options), 1 if options.number is None else options.number)
    cut = part.cut(options)
    grid = grid_of(cut)
    rates = made_up_rates(
        grid, **chosen(options, "level", "deviation", "time_scale"), season_amplitudes=amplitudes_of(options, grid)
    )
    with stage("Drawing the page", quiet=options.quiet, logged=True):
        of_parent = plan.programme.budget.view, plan.programme.parent, options.individuals
        releases = made_up_releases(plan.designs(part), rates, *of_parent)
        results = reconstructed(*Request.of(cut, grid).parted(releases), options)
        content = contents_of(results.series, made_up=True, **captions(results, options))
        write_preview(options.preview, page_of(content))


def _beside(path: Path, options: argparse.Namespace) -> argparse.Namespace:
    """Return the options of another publication, which has the same ledger and budget."""
    neighbour = parse(["programme", str(path)])
    for name in ("ledger", "epsilon", "delta", "sampling"):
        value, its = (getattr(source, name) for source in (options, neighbour))
        if name == "ledger":
            value, its = value.resolve(), its.resolve()
        if value != its:
            raise Refusal(
                name,
                Quoted(its),
                f"in {path} must be that of {options.publication}, {value}: publications within one budget share it",
            )
    return neighbour


def _check_outputs(every: Sequence[argparse.Namespace]) -> None:
    """Refuse publications whose files would have the same names."""
    taken: dict[Path, Path] = {}
    for options in every:
        if options.publication is not None:
            owner = taken.setdefault(options.output.resolve(), options.publication)
            if owner != options.publication:
                raise Refusal(
                    "output",
                    options.output,
                    f"in {options.publication} must not be that of {owner}",
                    "give each publication its own",
                )


def _table(options: argparse.Namespace, plan: Plan, errors: dict[str, dict[str, float]]) -> list[str]:
    """Return the parts of a publication, those that are alike in one line, and what there is to say about them."""
    parts, scheme = parts_of(options), plan.programme
    states = plan.states(parts)
    in_all = options.participation_cap is not None and (options.total or options.groups)  # else within the count
    columns = {"totals": in_all, "numbers": options.mean, "people": options.people}
    columns["people by key"] = options.people_by_key or options.people_cap
    header = ["noise of series", *(f"noise of {name}" for name, is_asked in columns.items() if is_asked)]
    cells = []
    for part, state in zip(parts, states, strict=True):
        designs = plan.designs(part)
        epsilon = scheme.budget.spent(joint_loss([design.loss() for design in designs], adaptivity=Adaptivity.NONE))
        cells.append((state, *(f"{design.scale:.4g}" for design in designs), f"ε = {printed_up(epsilon)}"))
    rows = []
    for row, pairs in groupby(zip(cells, parts, strict=True), key=itemgetter(0)):
        alike = [part for _, part in pairs]
        ends = dict.fromkeys((alike[0], alike[-1]))
        rows.append((" to ".join(str(part.number) for part in ends), " to ".join(part.name for part in ends), *row))
    name = f" of {options.publication.name}" if options.publication is not None else ""
    lines = [
        f"{len(parts)} parts{name}. The last column is of each part alone.",
        text_table(("part", "from", "state", *header, "alone"), rows),
        "",
        *_accuracy(options, errors),
    ]
    if plan.ledger is not None:
        open_parts = [part for part, state in zip(parts, states, strict=True) if state != "released"]
        following = f"; next is part {open_parts[0].number}, {open_parts[0].name}" if open_parts else ""
        lines.append(wrapped(f"Left: {len(open_parts)} of {len(parts)}{following}."))
    return lines


def _accuracy(options: argparse.Namespace, errors: dict[str, dict[str, float]]) -> list[str]:
    """Say how well numbers will be known."""
    if not errors:
        return [wrapped(f"For the error to expect of each part, say roughly what the series is like: {_LIKE}.")]
    of_series = errors["series"]
    rows = [
        (name, *("" if math.isnan(half) else f"±{rounded(half)}" for half in row.values()))
        for name, row in errors.items()
    ]
    left_out = "" if options.participation_cap is None else ", without what caps leave out"
    note = f"So near to the truth are numbers of any part, with a probability of {CONFIDENCE:.0%}{left_out}."
    if options.groups:
        note += " Of groups, the largest stands here."
    if options.by:
        note += f" {ALIKE}"
    if not options.participation and options.participation_cap is None:
        note += (
            " Where most people come often, ± may be half as large again, of totals most: say it by --participation."
        )
    if options.value and options.participation_cap is None:
        note += (
            f" Everybody is taken to have the typical value{f' ({options.typical})' if options.typical else ''} in a"
            " step: where most have several times as much, ± is larger, of totals up to three times."
        )
    if options.level and (much := next(iter(of_series.values())) / options.level) > _MUCH:
        note += (
            f" Those of series are up to {much:.0%} of the level: longer steps, fewer keys or more budget show more."
        )
    return [text_table(("known to", *of_series), rows), "", wrapped(note)]


def _sums(options: argparse.Namespace) -> dict[str, int]:
    """Return how many steps are in one, in a day if they fill it, and in the longest part, by their names."""
    grids = [grid_of(part.cut(options)) for part in parts_of(options)]
    length = np.median(np.diff(grids[0].edges()))
    days = {"day": int(ONE_DAY // length)} if length < ONE_DAY and ONE_DAY % length == np.timedelta64(0, "s") else {}
    step = str(options.step)
    return {STEPS.get(step, step): 1} | days | {PERIODS[options.every]: max(grid.size for grid in grids)}


def _errors(options: argparse.Namespace, plan: Plan) -> dict[str, dict[str, float]]:
    """Return half of the width of each interval to expect, NaN where there is none; nothing of a series unknown.

    By what is known, and by the steps that are added up.
    """
    parts = parts_of(options)
    shape = chosen(options, "level", "deviation", "time_scale")
    shape["season_amplitudes"] = amplitudes_of(options, grid_of(parts[0].cut(options)))
    if all(value is None for value in shape.values()):
        return {}
    shape["participation"] = dict(map(share, options.participation or ()))
    half = float(ndtri((1 + CONFIDENCE) / 2))

    def expected(number: int, over: int) -> dict[str, float]:
        designs = tuple(plan.designs(part)[number] for part in parts)
        errors = replace(plan.programme, designs=designs).expected_errors(over=over, **shape)
        rows = [{"series": error.smoothed, **_totals(options, error)} for error in errors]
        return {name: half * max(row[name] for row in rows) for name in rows[0]}

    columns = {words: expected(0, over) for words, over in _sums(options).items()}
    longest = [*columns][-1]
    table = {name: {words: column[name] for words, column in columns.items()} for name in columns[longest]}
    people = {"individuals": options.people, "individuals by key": options.people_by_key or options.people_cap}
    names = [name for name, is_asked in people.items() if is_asked]
    for number, name in enumerate(names, plan.size - len(names)):
        table[name] = dict.fromkeys(columns, math.nan) | {longest: expected(number, 1)["series"]}
    return table


def _totals(options: argparse.Namespace, error: ExpectedError) -> dict[str, float]:
    """Return the errors of totals: that of all keys, and the largest of each column of groups."""
    errors, names = dict(error.totals), [*filter(None, [options.total]), *(options.groups or ())]
    totals, level = {}, keys_and_groups(options)[1]
    for name in names:
        assert isinstance(level, dict)
        totals[name] = max((errors[group] for group in level if group in errors), default=None)
        below = [members for members in level.values() if isinstance(members, dict)]
        level = {group: members for mapping in below for group, members in mapping.items()}
    return {name: error for name, error in totals.items() if error is not None}


def _planned(every: list[argparse.Namespace]) -> ts.Programme:
    """Find the noise of all parts, of one publication after the other, in whichever order they were given."""
    publications = []
    for options in every:
        cuts = [part.cut(options) for part in parts_of(options)]
        requests = [Request.of(cut, grid_of(cut)) for cut in cuts]
        scales = [_relative_scales(request, cut) for request, cut in zip(requests, cuts, strict=True)]
        publications.append((requests, [scale for of_part in scales for scale in of_part]))
    publications.sort(key=lambda item: written(encode(tuple(map(signal_of, item[0][0].chains)))))
    requests = [request for of_publication, _ in publications for request in of_publication]
    return ts.Programme.plan(
        [chain for request in requests for chain in request.chains],
        epsilon=every[0].epsilon,
        delta=every[0].delta,
        sampling_probability=[sample["sampling_probability"] for request in requests for sample in request.samples],
        sampling=every[0].sampling,
        relative_scales=[scale for _, scales in publications for scale in scales],
    )


def _relative_scales(request: Request, options: argparse.Namespace) -> list[float]:
    return [scale / math.sqrt(options.weight) for scale in request.relative_scales]


def _check_weights(every: Sequence[argparse.Namespace], plans: Sequence[Plan]) -> None:
    """Refuse weights that are not those with which publications were planned together."""
    factors = []
    for options, plan in zip(every, plans, strict=True):
        part = parts_of(options)[0]
        cut = part.cut(options)
        factors.append(plan.designs(part)[0].scale / _relative_scales(Request.of(cut, grid_of(cut)), cut)[0])
    if max(factors) > min(factors) * _EQUAL:
        weights = ", ".join(f"{options.weight:g}" for options in every)
        raise Refusal("weight", Quoted(weights), "must be those of the programme, whose noise is another", _CHANGED)
