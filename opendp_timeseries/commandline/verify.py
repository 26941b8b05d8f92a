"""The command ``verify``, for readers of a release: they do not wait for what makes one."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries._text import read_text
from opendp_timeseries.commandline.words import wrapped
from opendp_timeseries.design.design import Design
from opendp_timeseries.release.documents import Document, read_document
from opendp_timeseries.release.statement import Parent

if TYPE_CHECKING:
    from opendp_timeseries.ledger.programme import Programme

T = TypeVar("T")


def verify(options: argparse.Namespace) -> str:
    """Recompute the loss of a record, as its reader: what the record guarantees."""
    if options.publication is not None:
        parts = [options]
        if options.every:
            from opendp_timeseries.commandline.programme import parts_of

            options.zone = options.zone or "UTC"  # as where the parts are released
            parts = [*(part.cut(options) for part in parts_of(options)), options]  # and the summary of them
        expected = [Path(f"{item.output}.json") for item in parts]
        records = [path for path in expected if path.exists()] or expected[:1]  # the reading of which is refused
    else:
        expected = records = [options.record]
    verified: dict[str, list[str]] = {}  # by what they give, mostly the same of all parts
    unproved_claims: dict[str, None] = {}
    for record in records:
        given, assumptions = _verified(record, options.programme)
        verified.setdefault(given, []).append(str(record))
        unproved_claims |= dict.fromkeys(assumptions)
    lines = [
        f"Verified: the parameters in {', '.join(names)}{', each' if len(names) > 1 else ','} {given}"
        for given, names in verified.items()
    ]
    if missing := _missing(expected):
        lines.append(f"Not found, and so not verified, whether released or not: {', '.join(missing)}.")
    claims = "".join(f", or {assumption}" for assumption in unproved_claims)
    lines.append(
        "No record can show that the values came from this mechanism, or that everybody was counted as it says"
        f"{claims}: for that, readers must trust its publisher."
    )
    return "\n".join(map(wrapped, lines))


def _missing(records: Sequence[Path]) -> list[str]:
    """Return the names of records that do not exist; of several in a row, the first and the last."""
    rows = [[*row] for exists, row in groupby(records, Path.exists) if not exists]
    return [f"{row[0]}" if len(row) == 1 else f"{row[0]} to {row[-1]}" for row in rows]


def _verified(record: Path, programme_file: Path | None) -> tuple[str, Sequence[str]]:
    """Return what a record holds and guarantees, in words, and the claims of its publisher that it cannot prove.

    :param programme_file: of the programme that the releases must have been planned in, if one is given.
    """
    releases, joint, unproved_claims, reworded = read_record(record)
    if reworded:
        stated, right = reworded[0]
        problem = "in its own words, and its numbers, which are right, give"
        raise Refusal(
            "record", Quoted(record), f"says {stated!r} {problem} {right!r}", "believe these, and ask its publisher"
        )
    parents = {release.stated.parent for release in releases}
    if programme_file is not None:
        programme = read_programme(programme_file)
        is_planned = {parent and parent.planned for parent in parents} == {programme.identifier}
        if not is_planned or not {release.design for release in releases} <= {*programme.designs}:
            raise Refusal(
                "record", Quoted(record), f"is of no release of the programme in {programme_file}", "ask its publisher"
            )
        for parent in parents:
            assert parent is not None
            designs = [item.design for item in releases if item.stated.parent == parent]
            _check_claims_about_programme(designs, parent, programme, record)
        if not Counter(release.design for release in releases) <= Counter(programme.designs):
            raise Refusal(
                "record",
                Quoted(record),
                f"holds more releases of one count than were planned in {programme_file}",
                "ask its publisher",
            )
    singles = [release.guarantee() for release in releases]
    if len(releases) > 1:
        distinct = list({str(parent): parent for parent in parents}.values())
        if distinct[0] is not None and len(distinct) == 1:  # is said once
            singles = [replace(item, statement=replace(item.stated, parent=None)).guarantee() for item in releases]
            joint = f"{joint}; {distinct[0]}"
    names = [item.design.count.subject for item in releases]
    given = f"of {names[0]}, give {singles[0]}"
    if len(releases) > 1:
        by_subject = dict.fromkeys(f"{name} {words}" for name, words in zip(names, singles, strict=True))
        given = (
            f"of {len(releases)} releases, give all of them together {joint}. Alone, they give: {'; '.join(by_subject)}"
        )
    by_plan = "" if programme_file is None else f" They were planned in {programme_file}."
    return f"{given}.{by_plan}", unproved_claims


def _check_claims_about_programme(designs: list[Design], parent: Parent, programme: Programme, record: Path) -> None:
    """Refuse releases that say of their programme what is not so: its budget, or which of how many designs theirs is.

    Those that a ledger paid for have no number there.
    """
    budget_fits = (parent.loss, parent.measure) == (programme.budget.pair, programme.budget.view.measure)
    number_fits = parent.parts in (None, len(programme))
    if parent.number is not None:
        number_fits = parent.parts == len(programme) and {*designs} == {programme.designs[parent.number - 1]}
    if not budget_fits or not number_fits:
        raise Refusal(
            "record",
            Quoted(record),
            f"says that it is {parent}, and that is not so by the programme itself",
            "ask its publisher",
        )


def read_record(path: Path) -> Document:
    """Return the releases in a record, verified."""
    return _read(path, read_document, "record", "give the OUTPUT.json of a release")


def read_programme(path: Path) -> Programme:
    """Return a programme from its file."""
    from opendp_timeseries.ledger.programme import Programme  # with OpenDP, which records need nothing of

    return _read(path, Programme.from_json, "programme")


def _read(path: Path, read: Callable[[str], T], what: str, remedy: str = "") -> T:
    try:
        return read(read_text(path, "it"))
    except ValueError as error:
        has_remedy = isinstance(error, Refusal) and error.remedy
        raise Refusal(what, path, f"is refused: {error}", "" if has_remedy else remedy) from None
