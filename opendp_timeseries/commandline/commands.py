"""The commands that write no release: check, plan and ledger. Each returns what there is to say."""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import Final

import opendp_timeseries as ts
from opendp_timeseries._validate import real
from opendp_timeseries.commandline.forms import likely_decimal, likely_times
from opendp_timeseries.commandline.inputs import (
    amplitudes_of,
    check_of,
    check_smoothing,
    chosen,
    delimiter_of,
    grid_of,
    keys_and_groups,
)
from opendp_timeseries.commandline.outputs import write_preview
from opendp_timeseries.commandline.programme import plan_in, take_part
from opendp_timeseries.commandline.request import Request
from opendp_timeseries.commandline.spelling import sentence, spelling
from opendp_timeseries.commandline.summary import join
from opendp_timeseries.commandline.verify import read_programme, read_record
from opendp_timeseries.commandline.waiting import held_back, stage
from opendp_timeseries.commandline.words import EVERY, TABLES, share, words_of, wrapped
from opendp_timeseries.counting.check import LogCheck
from opendp_timeseries.counting.files import CSV_SUFFIXES

#: From this share of the rows on, a likely cause is named.
_LIKELY_SHARE: Final = 0.5
_ADVICE: Final = (
    "These numbers are exact, and nothing protects them. Use them to find and correct a wrong column, time format, zone"
    " or year. A start, size or cap chosen by them says something about the log, which the guarantee of a release does"
    " not cover."
)
_ADVICE_ON_CAPS: Final = (
    " If the caps leave out too much, you can choose others by public facts, such as opening hours, a survey or an"
    " earlier release; give no cap on steps, as a private series needs none; spend a part of the budget on a private"
    " histogram of how often individuals take part (make_participation_histogram, in Python); or publish totals that"
    " are too low, and say so."
)


def check(options: argparse.Namespace) -> str:
    """Print on standard error how a log is read, and what the caps would leave out. None of it may be published."""
    if sys.stderr is None:  # print would choose standard output, which may be published
        raise OSError("standard error is closed, and what check says is private; open it")
    heading = ""
    if options.every:
        plan = plan_in(ts.Ledger(options.ledger), options) if options.ledger.exists() else None
        part = take_part(options, plan)
        heading = f"Part {part.number} of {part.of}, {part.name}, in {options.file}\n"
    grid = grid_of(options)
    _check_public(options, grid)
    with stage(f"Reading {options.file}", quiet=options.quiet):
        result, notes = check_of(options, grid)
    advice = _ADVICE + ("" if options.participation_cap is None and options.key_cap is None else _ADVICE_ON_CAPS)
    texts = (sentence(text, options) for text in (*notes, *_causes(result, options), advice))
    print(f"{heading}{result}", *map(wrapped, texts), sep="\n\n", file=sys.stderr)
    return ""


def _causes(result: LogCheck, options: argparse.Namespace) -> Iterator[str]:
    """Say what is the likely cause where many rows do not count, and how to mend it. Private."""
    column = "give another column than {} ({}), if that is wrong"
    form = "ISO 8601, such as 2024-03-01T08:30" if options.time_format is None else repr(options.time_format)
    remedy = "give `time_format` as they are, such as '%d.%m.%Y %H:%M', or `time_unit` for numbers since 1970"
    is_text, written = options.file.suffix.lower() in CSV_SUFFIXES, (delimiter_of(options), options.encoding)
    if is_text and result.unreadable_time > _LIKELY_SHARE * result.rows:
        remedy = likely_times(options.file, options.time, *written) or remedy
    mark, advice = options.value_decimal, ""
    if is_text and result.no_value and (advice := likely_decimal(options.file, options.value, *written, mark)):
        yield f"{result.no_value} of {result.rows} rows have no value. {advice}."
    likely = {
        "identifier": (result.without_identifier, "people are told apart by another column: "),
        "time": (
            result.without_time,
            f"times are not written as {form}: {remedy}; or ",
        ),
        "start": (
            result.off_grid,
            "the log is of another time than the grid, or its days and months are read in the other order: correct"
            " `start` and `end`, `file`, or `time_format`",
        ),
        "value": (0 if advice else result.no_value or 0, f"values are not written as numbers, such as 12{mark}5: "),
        "by": (
            result.unknown_key or 0,
            "keys are spelled otherwise than in `keys`, by spaces, capital letters, zeros in front or an `encoding`:"
            " spell them as the log does, from what is public; or ",
        ),
    }
    for name, (number, cause) in likely.items():
        if number > _LIKELY_SHARE * result.rows:
            end = "" if name == "start" else column.format(f"`{name}`", getattr(options, name))
            yield f"{number} of {result.rows} rows do not count. The likely cause: {cause}{end}."


def _check_public(options: argparse.Namespace, grid: ts.TimeGrid) -> None:
    """Refuse what a release refuses before the log is read, as far as it is said: a check needs no budget."""
    check_smoothing(options, grid)
    request = Request.of(options, grid)
    if options.every or None in (options.epsilon, options.delta):
        for name, below in {"epsilon": math.inf, "delta": 1.0}.items():
            if (value := getattr(options, name)) is not None:
                real(name, value, above=0.0, below=below)
    else:
        with held_back():
            request.within(options.epsilon, options.delta)


def plan(options: argparse.Namespace) -> str:
    """Compare designs by their expected errors: the table, the advice and the command of the best."""
    grid, public = grid_of(options), {**TABLES["count"][1], **TABLES["budget"][1], **TABLES["plan"][1]}
    assumed = chosen(options, *(name for name in words_of("plan") if name in public))
    assumed["std"] = assumed.pop("filter_std")
    assumed["participation"] = dict(map(share, options.participation)) if options.participation else None
    assumed["season_amplitudes"] = amplitudes_of(options, grid)
    panel, assumed["groups"] = keys_and_groups(options)
    assumed["keys"] = panel.get("keys")
    for name in ("by", "total"):
        del assumed[name]
    with stage("Comparing designs", quiet=options.quiet, logged=True):
        proposal = ts.plan(grid, **{name: value for name, value in assumed.items() if value is not None})
    if options.preview:
        with stage("Drawing the page", quiet=options.quiet, logged=True):
            write_preview(options.preview, proposal.preview(title=options.title))
    if options.json:
        return json.dumps(proposal.to_dict(), ensure_ascii=False)
    report = proposal.report(spelling(None))
    return f"{report}\n\nRun, with your file and its columns:\n{proposal.command() or proposal.python()}"


def ledger(options: argparse.Namespace) -> str:
    """Make a ledger, or enter records, and verify it: what is in it."""
    options.programme = options.programme and read_programme(options.programme)
    if options.new:
        terms = chosen(options, *(name for name, word in EVERY.items() if word.fixed))
        ts.Ledger.create(options.ledger, **{name: value for name, value in terms.items() if value is not None})
    book = ts.Ledger(options.ledger)
    for release in [release for path in options.add or () for release in read_record(path).releases]:
        book.add(release)
    book.verify()
    pages = join(book, options) if options.join else []
    if options.json:
        return json.dumps(book.to_dict(), ensure_ascii=False, allow_nan=False)
    joined = f"\n\nWritten: {', '.join(map(str, pages))}" if pages else ""
    return f"{book.table(planned=bool(options.planned))}{joined}\n\n" + wrapped(
        "No file can show that nothing was released without it, or that it is not an older copy of itself. Publish the"
        f" digest after each release, so that readers can see that nothing was taken back: {book.digest[:16]}"
    )
