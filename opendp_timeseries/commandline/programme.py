"""A programme on the command line: one part each day, week, month, quarter or year, all within one budget."""

from __future__ import annotations

import argparse
import datetime as dt
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._tables import text_table
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.commandline.inputs import grid_of, wrapped
from opendp_timeseries.commandline.query import Query
from opendp_timeseries.design.design import Design
from opendp_timeseries.plugin.known import signal_of

__all__ = ["Part", "parts_of", "planned_measurement", "programme", "take_part"]

#: How much of an instant names a part.
_NAMED: Final = {"1y": 4, "1q": 7, "1mo": 7}


class Part(NamedTuple):
    """A part of a programme: its number from 1, its name, and from when to when it is, on the clock of the zone."""

    number: int
    name: str
    start: str
    end: str


def parts_of(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options cut the grid into."""
    edges = ts.TimeGrid(start=options.start, end=options.end, step=options.every, zone=options.zone).edges("local")
    texts = np.datetime_as_string(edges, unit="m").tolist()
    return [
        Part(number, start[: _NAMED.get(options.every, 10)], start, end)
        for number, (start, end) in enumerate(pairwise(texts), 1)
    ]


def take_part(options: argparse.Namespace, ledger: ts.Ledger | None) -> Part:
    """Let the options be those of one part: the one that they number, or the first that is not released.

    :raises ValueError: if there is none, or it is not over.
    """
    parts = parts_of(options)
    number: int | None = options.number
    if number is not None:
        check.integer("number", number, minimum=1, maximum=len(parts), remedy="the parts are numbered from 1")
    elif ledger is None:
        number = 1
    else:
        left = [part.number for part, state in zip(parts, _states(ledger, parts), strict=True) if state != "released"]
        if not left:
            raise ValueError(
                f"all {len(parts)} parts of the programme are released; start another one, with its ledger"
            )
        number = left[0]
    part = parts[number - 1]
    if options.number is None and ledger is not None and _is_coming(part, options.zone):
        raise ValueError(
            f"part {part.number} of the programme ends at {part.end}, which is still to come: wait, or ask for it by"
            f" --number {part.number}"
        )
    options.start, options.end, options.size = part.start, part.end, None
    options.output = options.output.with_name(f"{options.output.name}-{part.name}")
    options.file = Path(str(options.file).replace("{part}", part.name))
    return part


def _is_coming(part: Part, zone: str) -> bool:
    end = ts.TimeGrid(start=part.start, end=part.end, step="1d", zone=zone).edges()[-1]
    return bool(end > np.datetime64(dt.datetime.now(dt.UTC).replace(tzinfo=None), "s"))


def _designs(programme: ts.Programme, parts: list[Part], part: Part) -> tuple[Design, ...]:
    """Return what a part consists of."""
    size, rest = divmod(len(programme), len(parts))
    if rest:
        raise ValueError(f"every: the ledger is for a programme of other parts than these {len(parts)}; {_CHANGED}")
    return programme.designs[(part.number - 1) * size : part.number * size]


def _states(ledger: ts.Ledger, parts: list[Part]) -> list[str]:
    if ledger.programme is None:
        raise ValueError(f"ledger ({ledger.path}) has no programme; give the ledger that 'programme --new' has made")
    entries = {entry.designs: entry for entry in ledger.entries}
    found = [entries.get(_designs(ledger.programme, parts, part)) for part in parts]
    return ["planned" if entry is None else "released" if entry.released else "unfinished" for entry in found]


_CHANGED: Final = "say again what it was made with, or make another one under another name"


def planned_measurement(query: Query, part: Part, parts: list[Part], ledger: ts.Ledger) -> Any:
    """Return the measurement of a part, with the noise that was planned.

    :raises ValueError: if the query is not the one that was planned.
    """
    assert ledger.programme is not None
    designs = _designs(ledger.programme, parts, part)
    if [design.signal for design in designs] != [signal_of(chain) for chain in query.chains]:
        raise ValueError(f"ledger ({ledger.path}) is for a programme with another grid, other caps or keys; {_CHANGED}")
    samples = [{"sampling_probability": d.sampling_probability, "sampling": d.sampling} for d in designs]
    return query.measurement([design.scale for design in designs], samples, ledger.delta)


def programme(options: argparse.Namespace) -> str:
    """Plan a programme, or say how far it is."""
    parts = parts_of(options)
    if options.new:
        with warnings.catch_warnings():  # what is printed says it
            warnings.simplefilter("ignore", ts.LargeDeltaWarning)
            ts.Ledger.create(options.ledger, programme=_plan(options, parts))
    exists = options.ledger.exists()
    ledger = ts.Ledger(options.ledger) if exists else None
    found = _plan(options, parts) if ledger is None else ledger.programme
    if found is None:
        raise ValueError(f"ledger ({options.ledger}) has no programme; choose another name, and make it by --new")
    if options.json:
        return found.to_json()
    states = ["planned"] * len(parts) if ledger is None else _states(ledger, parts)
    rows = []
    for part, state in zip(parts, states, strict=True):
        designs = _designs(found, parts, part)
        alone = joint_loss([design.loss() for design in designs], adaptive=False).epsilon(found.delta)
        scales = ", ".join(f"{design.scale:.4g}" for design in designs)
        rows.append((str(part.number), part.name, state, scales, f"ε = {printed_up(alone)}"))
    table = text_table(("part", "from", "state", "noise", "alone"), rows)
    title = f"{len(parts)} parts within (ε = {found.epsilon:g}, δ = {found.delta:g}) for {found.unit}"
    said = [title, table, ""]
    if ledger is None:
        said.append(wrapped(f"Nothing is fixed yet: --new makes {options.ledger}, and then it is."))
    else:
        left = [part for part, state in zip(parts, states, strict=True) if state != "released"]
        said.append(wrapped(f"So far: {ledger.guarantee()}."))
        if left:
            said.append(f"Left: {len(left)} of {len(parts)}; next is part {left[0].number}, {left[0].name}.")
        else:
            said.append("All parts are released: nothing is left.")
    return "\n".join(said)


def _plan(options: argparse.Namespace, parts: list[Part]) -> ts.Programme:
    """Find the noise of all parts."""
    queries = []
    for part in parts:
        cut = argparse.Namespace(**vars(options) | {"start": part.start, "end": part.end, "size": None})
        queries.append(Query.of(cut, grid_of(cut)))
    sample = queries[0].sample
    with warnings.catch_warnings():  # what is printed says it
        warnings.simplefilter("ignore", ts.LargeDeltaWarning)
        return ts.Programme.plan(
            [chain for query in queries for chain in query.chains],
            epsilon=options.epsilon,
            delta=options.delta,
            sampling_probability=[each["sampling_probability"] for query in queries for each in query.samples],
            sampling=sample["sampling"],
            relative_scales=[scale for query in queries for scale in query.relative_scales],
        )
