"""Refusals: what is wrong with a parameter, and what to do, as data that each front end phrases.

A rule or a remedy names parameters in backticks, as Python writes them: "give `by=` and `keys=`", or with an example of
a value, "such as `season_amplitudes={24: 60.0}`". Python's message shows them as they are; the command line, the flags.
"""

from __future__ import annotations

import datetime as dt
import numbers
import os
import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

#: A message shows texts up to this many characters, and lists up to this many entries.
_LONG: Final = 120
_FEW: Final = 12
#: Modules whose objects hold rows of a log, or exact facts about it.
_PRIVATE: Final = "opendp_timeseries.counting"
#: Makes what is written of a parameter, and of an example of its value or None; None where there is no such parameter.
Spelling = Callable[[str, str | None], str | None]
_MENTION: Final = re.compile(r"`(\w+)(?:=([^`]*))?`")


class Quoted(str):
    """Text that stands for a value in a message, as it is: ``Quoted(f"{size} steps")``."""

    __slots__ = ()


def quote(value: object) -> Quoted:
    """Return a value as messages quote it: plain values and short lists in full, anything else by its type only.

    Somebody may pass the log, or a column of it, as a public parameter by mistake, and messages may be published.
    """
    return value if isinstance(value, Quoted) else Quoted(_text(value))


def _text(value: object) -> str:
    kind = type(value)
    if kind.__module__.startswith(_PRIVATE):
        return f"of type {kind.__name__}"
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= _LONG else f"of {len(value)} characters"
    if isinstance(value, int) and value.bit_length() > 3 * _LONG:  # Python refuses to convert very long integers
        return f"of {value.bit_length()} bits"
    if isinstance(value, (np.datetime64, np.timedelta64)) or kind.__module__.startswith("opendp"):
        return repr(value)
    if isinstance(value, (np.number, np.bool_)):
        return repr(value.item())
    if value is None or isinstance(value, (numbers.Number, dt.date, dt.timedelta, range, type)):
        return repr(value)
    if isinstance(value, os.PathLike):
        return str(value)
    if isinstance(value, (list, tuple)) and len(value) <= _FEW:
        inside = ", ".join(map(quote, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping) and len(value) <= _FEW:
        return f"{{{', '.join(f'{quote(key)}: {quote(entry)}' for key, entry in value.items())}}}"
    return f"of type {kind.__name__}"


class Refusal(ValueError):  # noqa: N818 - no error of the program
    """Refusal of a parameter.

    :param parameter: its name.
    :param value: what was given, to be quoted; ``...`` where there is nothing to quote.
    :param rule: what holds of every value that is accepted, or why this one is not.
    :param remedy: what to do where the rule does not say it; or alternatives, of which a front end leaves out those
        that name a parameter which it does not have.
    """

    def __init__(self, parameter: str, value: object, rule: str, remedy: str | tuple[str, ...] = "") -> None:
        self.parameter, self.rule, self.remedy = parameter, rule, remedy
        self.value = Quoted() if value is ... else quote(value)
        super().__init__(parameter, self.value or ..., rule, remedy)  # by which it is pickled

    def __str__(self) -> str:
        return self.phrase(in_python)

    def phrase(self, spell: Spelling, *, subject: str = "") -> str:
        """Return the message of a front end.

        :param spell: how it writes parameters.
        :param subject: the parameter, if it is written in another way where a message begins.
        """
        value = f" ({self.value})" if self.value else ""
        rule = spelled(self.rule, lambda *mention: spell(*mention) or in_python(*mention))
        alternatives = (self.remedy,) if isinstance(self.remedy, str) else self.remedy
        remedy = ", or ".join(filter(None, (spelled(text, spell) for text in alternatives)))
        return f"{subject or self.parameter}{value} {rule}{'; ' if remedy else ''}{remedy}"


class TypeRefusal(Refusal, TypeError):  # noqa: N818
    """Refusal of a parameter of the wrong type, or of one that was left out."""


class MissingFileRefusal(Refusal, FileNotFoundError):  # noqa: N818
    """Refusal of the name of a file that is not there."""


class ExistingFileRefusal(Refusal, FileExistsError):  # noqa: N818
    """Refusal of the name of a new file where there is one."""


def spelled(text: str, spell: Spelling) -> str:
    """Return a text with the parameters that it names in backticks as a front end writes them; nothing without one."""
    mentions = {match[0]: spell(match[1], match[2]) for match in _MENTION.finditer(text)}
    return "" if None in mentions.values() else _MENTION.sub(lambda match: mentions[match[0]] or "", text)


def in_python(name: str, value: str | None) -> str:
    """Return a parameter as Python's messages write it."""
    return name if value is None else f"{name}={value}"
