"""How the command line writes parameters: as flags, or as words of a publication file, with their lines."""

import argparse
import ast
import re
from typing import Final

from opendp_timeseries._refusal import Refusal, Spelling, in_python, spelled
from opendp_timeseries.commandline.arguments import COMMANDS
from opendp_timeseries.commandline.words import EVERY, WORDS, flag, words_of

#: Words for parameters of Python that have another name.
_WORDS: Final = {"std": "filter_std", "seasons": "season", "season_amplitudes": "season"}


def spelling(options: argparse.Namespace | None) -> Spelling:
    """Return how to write a parameter where these options were given; None of one that no flag gives."""
    lines = _lines(options)

    def spell(parameter: str, value: str | None) -> str | None:
        name = _word(parameter)
        text: str | None
        if lines is not None and name in WORDS:
            text = f"{name} (line {lines[name]})" if name in lines else name
        else:
            text = _flag(name, options)
        return f"{text} {_typed(value)}" if text and value else text

    return spell


def sentence(text: str, options: argparse.Namespace | None) -> str:
    """Return a text in which the parameters are written as these options are."""
    spell = spelling(options)
    return spelled(text, lambda *mention: spell(*mention) or in_python(*mention))


def phrase(refusal: Refusal, options: argparse.Namespace | None) -> str:
    """Return the message of a refusal, with the place in the publication file, if there is one."""
    lines, name = _lines(options), _word(refusal.parameter)
    if lines is None:
        return refusal.phrase(spelling(options), subject=_flag(name, options) or refusal.parameter)
    line = lines.get(name) or lines.get(re.split(r"\W", name)[0])
    at = "" if line is None else f", line {line}"
    return f"{options and options.publication}{at}: {refusal.phrase(spelling(options), subject=name)}"


def _flag(name: str, options: argparse.Namespace | None) -> str | None:
    """Return how the command takes a word: as its operand, or by a flag; None if it does not."""
    command = getattr(options, "command", None)
    if command is not None and name == COMMANDS[command].operand[0]:
        return name
    return flag(name) if name in (EVERY if command is None else words_of(command)) else None


def _word(parameter: str) -> str:
    return _WORDS.get(parameter, parameter)


def _lines(options: argparse.Namespace | None) -> dict[str, int] | None:
    """Return the lines of the words of a publication file; None without one."""
    return None if getattr(options, "publication", None) is None else getattr(options, "lines", {})


def _typed(value: str) -> str:
    """Return an example of a value, in Python, as it is typed on a command line."""
    try:
        literal = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value
    if isinstance(literal, dict):
        return " ".join(f"{key:g}:{number:g}" for key, number in literal.items())
    return " ".join(map(str, literal)) if isinstance(literal, list | tuple) else str(literal)
