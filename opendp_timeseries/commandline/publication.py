"""The publication file: all that is public about a release, in TOML, by the words of the flags."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from opendp_timeseries._files import files_together
from opendp_timeseries.commandline.words import TABLES, WORDS, Word, season, share, shown

__all__ = ["init", "located", "read_publication"]

_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY: Final = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*[=.]""")
_HEAD: Final = "All that is public about a release. No word of it may be chosen by looking at the log."
#: Without these there is no release, and `init` asks for them.
_ASKED: Final = ("file", "identifier", "time", "zone", "start", "end", "step", "step_cap", "epsilon", "delta", "season")
_WANTED: Final = ("file", "identifier", "time", "start", "end", "step", "epsilon", "delta")


def read_publication(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the values that stand in a file, by their words, and the lines where they stand.

    :raises ValueError: for anything that is no word in its table, or of another type, with the line and the remedy.
    """
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = "texts stand in quotes, true and false are small, and no key stands twice"
        raise ValueError(f"{path} is no TOML: {error}; {remedy}") from None
    lines, values = _lines(text), {}

    def refuse(name: str, table: str, problem: str) -> ValueError:
        line = lines.get((table, name), lines.get(("", table), 1))
        return ValueError(f"{path}, line {line}: {problem}")

    for table, content in tables.items():
        if table not in TABLES or not isinstance(content, dict):
            raise refuse(table, "", _unknown(table, "", isinstance(content, dict)))
        for name, value in content.items():
            word = TABLES[table][1].get(name)
            if word is None:
                raise refuse(name, table, _unknown(name, table, isinstance(value, dict)))
            try:
                values[name] = word.read(value)
            except ValueError as error:
                raise refuse(name, table, f"{name} ({shown(value)}) {error}") from None
    known = {name: table for table, (_, words) in TABLES.items() for name in words}
    return values, {name: lines.get((known[name], name), 1) for name in values}


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Return where tables and keys stand, for messages."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.fullmatch(line):
            table = head[1].strip("\"'")
            found.setdefault(("", table), number)
        elif key := _KEY.match(line):
            found.setdefault((table, key[1] or key[2] or key[3]), number)
    return found


def _unknown(name: str, table: str, is_table: bool) -> str:
    """Say what is wrong with a name, and what may be meant."""
    where = f"in [{table}]" if table else "at the top"
    owner = next((other for other, (_, words) in TABLES.items() if name in words), None)
    if owner is not None and not is_table:
        return f"{name} must stand in [{owner}], not {where}; move it there"
    if is_table and not table:
        return f"[{name}] is no table of a publication; the tables are {', '.join(f'[{each}]' for each in TABLES)}"
    if name in TABLES:
        return f"{name} must be a table: write [{name}] on a line by itself"
    known = list(TABLES[table][1]) if table else list(WORDS)
    meant = difflib.get_close_matches(name.replace("-", "_"), WORDS, 1)
    remedy = f"did you mean {meant[0]}?" if meant else f"it may hold {', '.join(known)}"
    return f"{name!r} {where} is not known; {remedy}"


def located(text: str, options: argparse.Namespace | None) -> str:
    """Return a message with the lines of the words that it names, if these stand in a publication file."""
    if options is None or options.publication is None:
        return text
    lines = options.lines

    def key(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        if name not in WORDS:
            return match[0]
        return name + (f" (line {lines[name]})" if name in lines else "")

    first = re.match(r"\w+", text)
    at = lines.get({"std": "filter_std"}.get(first[0], first[0])) if first else None
    where = f"{options.publication}, line {at}" if at else f"{options.publication}"
    return text if text.startswith(str(options.publication)) else f"{where}: {re.sub(r'--([a-z][a-z-]*)', key, text)}"


def init(options: argparse.Namespace, ask: Callable[[str], str] = input) -> str:
    """Write a publication file, whole, with what the options say; ask for the rest in a terminal."""
    path: Path = options.path
    if path.suffix.lower() != ".toml":
        raise ValueError(f"file ({path}) must end in .toml, such as publication.toml; rename it")
    with files_together([path]) as files:  # or it cannot be written, before anybody answers
        given = {name: value for name in WORDS if (value := getattr(options, name)) is not None}
        if "size" in given and "end" in given:
            raise ValueError("--size and --end must not both be given: leave one out")
        if sys.stdin is not None and sys.stdin.isatty():
            for name in _ASKED:
                if name not in given and not (name == "end" and "size" in given):
                    _answer(name, given, ask)
        files[path].write(_written(given).encode())
    return (
        f"Written: {path}. Fill in what it lacks, and run with it, in this order: plan; check, in private; release (or,"
        " with every, first programme --new)."
    )


def _answer(name: str, given: dict[str, Any], ask: Callable[[str], str]) -> None:
    """Ask for one word until the answer can be read; nothing is an answer where the word may be left out."""
    word, needed = WORDS[name], name in _WANTED
    while True:
        none = "" if needed else "; Enter for none"
        text = ask(f"{name}: {word.help}\n  such as {shown(word.example)}{none}: ").strip()
        if not text and not needed:
            return
        try:
            values = [word.kind(each) for each in text.split()] if word.many else word.kind(text)
        except ValueError:
            values = None
        if text and values is not None:
            given[name] = values
            return
        print(f"  That cannot be read as {name}.", file=sys.stderr)


def _written(given: dict[str, Any]) -> str:
    lines = textwrap.wrap(_HEAD, 100, initial_indent="# ", subsequent_indent="# ")
    for table, (title, words) in TABLES.items():
        lines += ["", f"[{table}]  # {title}"]
        for name, word in words.items():
            lines += textwrap.wrap(_comment(name, word), 100, initial_indent="# ", subsequent_indent="# ")
            if name in given:
                lines.append(f"{name} = {_literal(word, given[name])}")
            else:
                lines.append(f"#{name} = {shown(word.example)}")
    return "\n".join(lines) + "\n"


def _comment(name: str, word: Word) -> str:
    choices = f" ({', '.join(word.choices)})" if word.choices else ""
    must = " (must be given, or the size)" if name == "end" else " (must be given)" if name in _WANTED else ""
    return f"{word.help[0].upper()}{word.help[1:]}{choices}{must}."


def _literal(word: Word, value: Any) -> str:
    if word.kind is season:
        value = [f"{steps:g}:{size:g}" if size is not None else steps for steps, size in value]
    elif word.kind is share:
        value = [f"{part:g}:{steps}" for part, steps in value]
    return shown(value)
