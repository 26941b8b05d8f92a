"""The words of the command line: each is a key of the publication file, in its table, and a flag.

Whatever reads or explains them is made from this table: the file's reader, the parsers, ``init`` and the documentation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from opendp_timeseries.accounting.sampling import SAMPLINGS
from opendp_timeseries.counting.files import CSV_SUFFIXES, TIME_UNITS
from opendp_timeseries.grid import PERIODS

__all__ = ["TABLES", "WORDS", "Word", "flag"]


class Word(NamedTuple):
    """A word that may be given.

    :param kind: makes its value of a text; raises ValueError of anything else.
    :param help: what it says, in a phrase.
    :param example: as it stands in a file.
    :param usual: what it is if left out.
    :param many: whether it takes several values.
    :param choices: what it may be; anything if empty.
    """

    kind: Callable[[Any], Any]
    help: str
    example: Any = None
    usual: Any = None
    many: bool = False
    choices: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """Return the value that stands in a file, or raise ValueError, saying what it should be."""
        if not self.many:
            return self._one(value)
        if not isinstance(value, list):
            value = [value]
        if not value:
            raise ValueError(f"must list at least one, such as {self.example}")
        return [self._one(each) for each in value]

    def _one(self, value: Any) -> Any:
        taken = _TAKEN.get(self.kind, (str, int, float))
        if not isinstance(value, taken) or (isinstance(value, bool) and self.kind is not bool):
            raise ValueError(f"must be {_NAMES.get(self.kind, 'a text')}, such as {shown(self.example)}")
        read = self.kind(value.isoformat() if isinstance(value, dt.date) else value)
        if self.choices and read not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return read


def instant(text: str) -> str:
    """Keep an instant as it is written; TOML has a form for it, too."""
    return text


def key(value: Any) -> str:
    """Return a key as text: 1 and "1" are one key."""
    return str(value)


def season(value: Any) -> tuple[float, float | None]:
    """Return the steps of a season, and its amplitude, if that is said."""
    steps, _, amplitude = str(value).partition(":")
    try:
        return float(steps), float(amplitude) if amplitude else None
    except ValueError:
        raise ValueError("must be a number of steps, such as 24, or with an amplitude in counts, 24:90") from None


def share(value: Any) -> tuple[float, int]:
    """Return a share of individuals, and in how many steps they come at most."""
    part, _, steps = str(value).partition(":")
    try:
        whole = 100.0 if part.endswith("%") else 1.0
        return float(part.removesuffix("%")) / whole, int(steps)
    except ValueError:
        raise ValueError("must be a share and a number of steps, such as 90%:20") from None


_TAKEN: Final[dict[Any, Any]] = {
    bool: bool,
    int: int,
    float: (int, float),
    str: str,
    Path: str,
    instant: (str, dt.date),
    key: (str, int),
}
_NAMES: Final[dict[Any, str]] = {bool: "true or false", int: "a whole number", float: "a number"}


def shown(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text) + '"'


_PERIOD: Final = (
    "protect what one individual does within one day, week, month, quarter or year of the zone, and NOT all that they"
    " do, which is protected without it; caps hold within each period, and a ledger is for one kind of period"
)
#: By table of the file: what the table is about, and its words.
TABLES: Final[dict[str, tuple[str, dict[str, Word]]]] = {
    "log": (
        "the log",
        {
            "file": Word(
                Path,
                "event log, .csv or .parquet, with one row for each event; {part} stands for the part of a programme,"
                " such as 2024-02",
                "rides.csv",
            ),
            "identifier": Word(str, "the column that identifies individuals", "card"),
            "time": Word(str, "the column of event times", "time"),
            "times_zone": Word(str, "time zone of event times that do not say theirs (that of the grid)", "UTC"),
            "time_format": Word(str, "how a CSV file writes times (ISO 8601)", "%d.%m.%Y %H:%M"),
            "time_unit": Word(str, f"unit of times that are numbers since 1970: {', '.join(TIME_UNITS)}", "s"),
            "delimiter": Word(str, "the character between the fields of a CSV file (a comma; in .tsv a tab)", ";"),
        },
    ),
    "grid": (
        "the steps of time",
        {
            "start": Word(instant, "start of the first step", "2024-01-01T00:00"),
            "step": Word(str, "a fixed time such as 5min or 1h, or 1d, 1w, 1mo, 1q or 1y of the calendar", "1h"),
            "size": Word(int, "number of steps", 8784),
            "end": Word(instant, "where the last step ends, in place of the size", "2025-01-01"),
            "zone": Word(str, "time zone of the calendar, of start and end (UTC)", "Europe/London"),
            "every": Word(
                str,
                "make a programme: from start to end, one release for each day, week, month, quarter or year, all of"
                " them within one budget, in a ledger",
                "1mo",
                choices=PERIODS,
            ),
        },
    ),
    "count": (
        "the count, in public terms",
        {
            "participation_cap": Word(
                int,
                "steps up to which an individual counts in full, if you know a cap that next to nobody exceeds; without"
                " it, everybody counts in full",
                60,
            ),
            "excess": Word(
                str,
                "with a cap: scale down who exceeds it, or drop what does (scale)",
                "drop",
                choices=("scale", "drop"),
            ),
            "step_cap": Word(
                int,
                "people or events? 1 counts the people of each step; a greater number counts events, up to so many of"
                " one individual in a step (1)",
                3,
                usual=1,
            ),
            "gap": Word(int, "least distance, in steps, of two in which one individual counts (1)", 6, usual=1),
            "period": Word(str, _PERIOD, "1d", choices=PERIODS),
            "by": Word(str, "the column of keys, such as stations: one series for each key", "station"),
            "keys": Word(
                key,
                f"the keys, which are public; or a file of them ({', '.join(CSV_SUFFIXES)}) with the column of keys",
                "stations.csv",
                many=True,
            ),
            "key_cap": Word(int, "most keys at which one individual counts in one step", 1),
            "total": Word(str, "release the total of all keys, too, under this name", "all stations"),
            "groups": Word(
                str, "release totals by these columns of the file of keys, the largest first", ["district"], many=True
            ),
            "people": Word(bool, "say also how many individuals there are in all", True),
            "people_cap": Word(
                int, "say also how many individuals there are at each key, each at no more than so many keys", 3
            ),
            "filter_std": Word(float, "with a cap: width in steps of a Gaussian filter before the noise", 3.0),
        },
    ),
    "budget": (
        "the guarantee",
        {
            "epsilon": Word(float, "epsilon of the guarantee", 1.0),
            "delta": Word(float, "delta of the guarantee: far less than one over the number of individuals", 1e-6),
            "sampling_probability": Word(float, "share of the steps to keep (1: every step)", 0.5),
            "sampling": Word(
                str, "keep each step by itself, or one of each block of 1/probability", "poisson", choices=SAMPLINGS
            ),
            "ledger": Word(Path, "enter the release there, if its budget allows it", "rides.ledger"),
        },
    ),
    "plan": (
        "what is known of the series, roughly",
        {
            "participation": Word(
                share,
                "in how many steps individuals come, as far as that is public knowledge: 90%:20 100%:500 says that 90%"
                " come in at most 20, and the heaviest in 500",
                ["90%:20", "100%:500"],
                many=True,
            ),
            "individuals": Word(
                int,
                "about how many individuals there are, as far as that is public; delta should be far below one over it",
                20_000,
            ),
            "level": Word(float, "mean count of a step", 200.0),
            "deviation": Word(float, "standard deviation of departures from level and seasons, in counts", 20.0),
            "time_scale": Word(float, "steps within which departures change", 12.0),
        },
    ),
    "outputs": (
        "the files",
        {
            "season": Word(
                season,
                "smooth by a model that repeats after so many steps, such as 24 168 with hours; to plan, with an"
                " amplitude in counts, such as 24:90",
                [24, 168],
                many=True,
            ),
            "output": Word(Path, "write OUTPUT.csv, OUTPUT.json and a figure (release)", "release", Path("release")),
            "figure": Word(
                str, "format of the figure (png)", "svg", usual="png", choices=("png", "svg", "pdf", "none")
            ),
        },
    ),
}
WORDS: Final = {name: word for _, words in TABLES.values() for name, word in words.items()}


def flag(name: str) -> str:
    """Return a word as a flag."""
    return "--" + name.replace("_", "-")
