"""The command ``verify``, for readers of a release: they do not wait for what makes one."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
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
        records = [Path(f"{item.output}.json") for item in parts]
        records = [path for path in records if path.exists()] or records[:1]
    else:
        records = [options.record]
    verified: dict[str, list[str]] = {}  # by what they give, mostly the same of all parts
    trusted: dict[str, None] = {}
    for record in records:
        given, assumptions = _verified(record, options.programme)
        verified.setdefault(given, []).append(str(record))
        trusted |= dict.fromkeys(assumptions)
    lines = [
        f"Verified: the parameters in {', '.join(names)}{', each' if len(names) > 1 else ','} {given}"
        for given, names in verified.items()
    ]
    unproved = "".join(f", or {assumption}" for assumption in trusted)
    lines.append(
        "No record can show that the values came from this mechanism, or that everybody was counted as it says"
        f"{unproved}: for that, readers must trust its publisher."
    )
    return "\n".join(map(wrapped, lines))


def _verified(record: Path, published: Path | None) -> tuple[str, Sequence[str]]:
    """Return of what releases a record is, and what it guarantees; and what readers must trust its publisher for."""
    releases, joint, trusted, reworded = read_record(record)
    if reworded:
        stated, right = reworded[0]
        problem = "in its own words, and its numbers, which are right, give"
        raise Refusal(
            "record", Quoted(record), f"says {stated!r} {problem} {right!r}", "believe these, and ask its publisher"
        )
    parents = {release.stated.parent for release in releases}
    if published is not None:
        programme = read_programme(published)
        planned = {parent and parent.planned for parent in parents} == {programme.identifier}
        if not planned or not {release.design for release in releases} <= {*programme.designs}:
            raise Refusal(
                "record", Quoted(record), f"is of no release of the programme in {published}", "ask its publisher"
            )
        for parent in parents:
            assert parent is not None
            _check_place([item.design for item in releases if item.stated.parent == parent], parent, programme, record)
        if not Counter(release.design for release in releases) <= Counter(programme.designs):
            raise Refusal(
                "record",
                Quoted(record),
                f"holds more releases of one count than were planned in {published}",
                "ask its publisher",
            )
    singles = [release.guarantee() for release in releases]
    if len(releases) > 1:
        (parent, *others) = {str(parent): parent for parent in parents}.values()
        if parent is not None and not others:  # is said once
            singles = [replace(item, statement=replace(item.stated, parent=None)).guarantee() for item in releases]
            joint = f"{joint}; {parent}"
    names = [item.design.count.subject for item in releases]
    given = f"of {names[0]}, give {singles[0]}"
    if len(releases) > 1:
        by_subject = dict.fromkeys(f"{name} {words}" for name, words in zip(names, singles, strict=True))
        given = (
            f"of {len(releases)} releases, give all of them together {joint}. Alone, they give: {'; '.join(by_subject)}"
        )
    by_plan = "" if published is None else f" They were planned in {published}."
    return f"{given}.{by_plan}", trusted


def _check_place(designs: list[Design], parent: Parent, programme: Programme, record: Path) -> None:
    """Refuse releases that say of their programme what is not so: its budget, or which of how many designs theirs is.

    Those that a ledger paid for have no number there.
    """
    budget = (parent.loss, parent.measure) == (programme.budget.pair, programme.budget.view.measure)
    there = parent.parts in (None, len(programme))
    if parent.number is not None:
        there = parent.parts == len(programme) and {*designs} == {programme.designs[parent.number - 1]}
    if not budget or not there:
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
