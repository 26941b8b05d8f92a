"""The publication file: all that is public about a release, in TOML, by the words of the flags."""

import argparse
import difflib
import os
import re
import sys
import textwrap
import tomllib
import zoneinfo
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from opendp_timeseries._files import files_together
from opendp_timeseries._refusal import ExistingFileRefusal, Quoted, Refusal
from opendp_timeseries._text import read_text
from opendp_timeseries.commandline.forms import first_line
from opendp_timeseries.commandline.words import TABLES, WORDS, relocate, steps_of, toml_text, wrapped

_HEAD: Final = "All that is public about a release. No word of it may be chosen by looking at the log."
_TABLE_OF: Final = {name: table for table, (_, words) in TABLES.items() for name in words}


def read_publication(path: Path, lines: dict[str, int]) -> dict[str, Any]:
    """Return the values that stand in a file, by their words.

    :param lines: takes the lines where words and tables stand.
    :raises ValueError: for anything that is no word in its table, or of another type, with the remedy.
    """
    text = read_text(path, "the file")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refusal(
            "the file",
            ...,
            f"is no TOML: {error}",
            "texts stand in quotes, true and false are small, and no key stands twice",
        ) from None
    values = {}
    for table, content in tables.items():
        words = TABLES.get(table, ("", {}))[1]
        if not isinstance(content, dict):
            lines[table] = _line(text, table)
            raise _unknown(table, "")
        if not words:
            lines[f"[{table}]"] = _line(text, table)
            raise Refusal(
                f"[{table}]",
                ...,
                "is no table of a publication",
                f"the tables are {', '.join(f'[{title}]' for title in TABLES)}",
            )
        for name, value in content.items():
            lines[name] = _line(text, table, name)
            if name not in words:
                raise _unknown(name, table)
            try:
                values[name] = words[name].read(value)
            except ValueError as error:
                raise Refusal(name, Quoted(toml_text(value)), f"{error}") from None
    return values


def _line(text: str, table: str, name: str = "") -> int:
    """Return where a key stands in a table, or the table, or a key before all tables; for messages."""
    lines, head = text.splitlines(), re.compile(rf"""\s*\[\s*["']?{re.escape(table)}\b""")
    first = next((k for k, line in enumerate(lines) if head.match(line)), 0)
    key = re.compile(rf"""\s*["']?{re.escape(name or table)}["']?\s*[=.]""")
    return next((k for k, line in enumerate(lines[first:], first) if key.match(line)), first) + 1


def _unknown(name: str, table: str) -> Refusal:
    """Return what is wrong with a name, and what may be meant."""
    where = f"in [{table}]" if table else "at the top"
    if name in _TABLE_OF:
        return Refusal(name, ..., f"must stand in [{_TABLE_OF[name]}], not {where}", "move it there")
    if name in TABLES:
        return Refusal(name, ..., "must be a table", f"write [{name}] on a line by itself")
    meant = difflib.get_close_matches(name.replace("-", "_"), WORDS, 1)
    remedy = f"did you mean {meant[0]}?" if meant else f"it may hold {', '.join(TABLES[table][1] if table else TABLES)}"
    return Refusal(name, ..., f"is not known {where}", remedy)


def init(options: argparse.Namespace, ask: Callable[[str], str] = input) -> str:
    """Write a publication file, whole, with what the options say; ask for the rest in a terminal."""
    path: Path = options.path
    if path.suffix.lower() != ".toml":
        raise Refusal("path", path, "must end in .toml, such as publication.toml", "rename it")
    if path.exists():
        raise ExistingFileRefusal("path", path, "exists already", "choose another name, or edit it")
    with files_together([path]) as files:  # or it cannot be written, before anybody answers
        given = {name: value for name in WORDS if (value := getattr(options, name)) is not None}
        _look(given, quiet=bool(options.quiet))
        if "level" in given and _lacks_shape(given):
            remedy = (f"give `season={_example_seasons(given)}`, in counts", "`deviation` and `time_scale`")
            raise Refusal("level", given["level"], "must go with how the series moves around it", remedy)
        if sys.stdin is not None and sys.stdin.isatty():
            for name, word in WORDS.items():
                if word.ask and name not in given and not (name == "end" and "size" in given):
                    _answer(name, given, ask)
                    if name == "file":
                        _look(given)
        # Names in the file are relative to its folder.
        here = {name: relocate(name, value, partial(_from, path.parent)) for name, value in given.items()}
        files[path].write(_written(here).encode())
    lacking = [name for name, word in WORDS.items() if word.ask == "must" and name not in given]
    lacking = [name for name in lacking if not (name == "end" and "size" in given)]
    order = ["programme", "programme --new"] if "every" in given else ["plan"]
    sentences = [
        f"Written: {path}.",
        f"Fill in what must be given: {', '.join(lacking)}." if lacking else "",
        f"To know the errors to expect, say how far seasons move, in counts: --season {_example_seasons(given)}."
        if "every" in given and "season" in given and _lacks_shape(given)
        else "",
        "" if "zone" in given else "It names no zone, so days begin at midnight UTC: name yours if that is another.",
        f"Run with it, in this order: {', '.join(order)}; check, in private; release.",
    ]
    return wrapped(" ".join(filter(None, sentences)))


def _from(folder: Path, file: str | Path) -> str:
    return str(file) if Path(file).is_absolute() else os.path.relpath(file, folder)


def _lacks_shape(given: dict[str, Any]) -> bool:
    """Return whether a series is not described, so that no error is predicted."""
    seasons = map(steps_of, given.get("season", ()))
    return all(amplitude is None for _, amplitude in seasons) and not {"deviation", "time_scale"} <= given.keys()


def _example_seasons(given: dict[str, Any]) -> str:
    """Return the seasons as they are typed, with an amplitude for an example."""
    seasons = [steps for steps, _ in map(steps_of, given.get("season", ["1d"]))]
    return " ".join(f"{steps if isinstance(steps, str) else f'{steps:g}'}:60" for steps in seasons)


def _look(given: dict[str, Any], *, quiet: bool = False) -> None:
    """Fill in how a log in CSV is written, as far as its first line shows, which names the columns and is public.

    A line with a field that is no name, such as a time, is not shown: without a header, it is the row of somebody.
    """
    path = Path(given.get("file") or "")
    there = path if path.exists() else next(iter(sorted(path.parent.glob(path.name.replace("{part}", "*")))), path)
    source = first_line(there, given.get("encoding"))
    if source is None:
        return
    guess = {} if "encoding" in given else {"encoding": "perhaps "}
    for name in ("delimiter", "encoding"):
        if (value := getattr(source, name)) is not None:
            given.setdefault(name, value)
    named = f"names the columns {', '.join(source.columns)}"
    if not source.is_header:
        named = "must name the columns, and is not shown, as not all in it are names: see that it is not a row"
    if not source.is_legible:
        named = "is not in UTF-8: give --encoding, such as cp1251 or gb18030, or save the file as UTF-8"
    ways = [name for name in ("delimiter", "encoding") if name in given]
    how = "".join(f"; {name} is {guess.get(name, '')}{toml_text(given[name])}" for name in ways)
    if "value" in given and given.get("delimiter") == ";" and "value_decimal" not in given:  # rows are private
        how += "; as often with semicolons, values may have decimal commas: give --value-decimal ',' if so"
    if not quiet:
        print(f"The first line of {there} {named}{how}.", file=sys.stderr)


def _answer(name: str, given: dict[str, object], ask: Callable[[str], str]) -> None:
    """Ask for one word until the answer can be read; nothing is an answer where the word may be left out."""
    word = WORDS[name]
    none = "" if word.ask == "must" else "; Enter for none"
    while True:
        example = " ".join(map(str, word.example if word.is_list else [word.example]))  # as it is typed here
        text = ask(f"{name}: {word.explained}\n  such as {example}{none}: ").strip()
        if none and not text:
            return
        try:
            if not text:
                raise ValueError("it must be given")
            given[name] = [word.kind(item) for item in text.split()] if word.is_list else word.kind(text)
            return
        except ValueError as error:
            near = _zones_like(text) if "zone" in name else ""
            print(f"  That cannot be read as {name}: {error}{near}", file=sys.stderr)


def _zones_like(text: str) -> str:
    """Return zones that may be meant, by the name of a city or of a country's; nothing if none is like it."""
    zones = {zone.rpartition("/")[2].lower(): zone for zone in sorted(zoneinfo.available_timezones())}
    meant = difflib.get_close_matches(text.rpartition("/")[2].lower().replace(" ", "_"), zones, 3)
    return f"; did you mean {' or '.join(zones[name] for name in meant)}?" if meant else ""


def _written(given: dict[str, object]) -> str:
    lines = [f"# {_HEAD}"]
    for table, (title, words) in TABLES.items():
        lines += ["", f"[{table}]  # {title}"]
        for name, word in words.items():
            comment = f"{word.explained[0].upper()}{word.explained[1:]}."
            comment += f" One of {', '.join(word.choices)}." if word.choices else ""
            comment += " Must be given, or the size." if name == "end" else " Must be given." * (word.ask == "must")
            lines += textwrap.wrap(comment, 100, initial_indent="# ", subsequent_indent="# ")
            lines.append(
                f"{name} = {toml_text(given[name])}" if name in given else f"#{name} = {toml_text(word.example)}"
            )
    return "\n".join(lines) + "\n"
