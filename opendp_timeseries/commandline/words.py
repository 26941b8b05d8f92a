"""The words of the command line: each is a flag, and most are keys of the publication file, each in its table.

Whatever reads, checks or explains them is made from this table: the parsers, the file's reader, ``init`` and the help.
"""

import datetime as dt
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries._text import canonical_encoding
from opendp_timeseries.accounting.sampling import SAMPLINGS
from opendp_timeseries.counting.files import CSV_SUFFIXES, TIME_UNITS
from opendp_timeseries.design.weighting import EXCESS_CHOICES
from opendp_timeseries.grid import PERIODS, parse_zone
from opendp_timeseries.grid.edges import parse_width
from opendp_timeseries.grid.instants import parse_days, parse_instants

#: The commands that take what a release does, what a plan does beside them, and what is expected of a series.
RELEASES: Final = ("release", "check", "programme", "summary")
_PLANS, _EXPECTED = (*RELEASES, "plan"), ("plan", "programme")


class Word(NamedTuple):
    """A word that may be given."""

    kind: Callable[[Any], Any]  # makes its value of a text; raises ValueError of anything else
    help: str  # what it says, in a phrase
    example: Any = None  # as it stands in a file
    usual: Any = None  # what it is if left out
    is_list: bool = False  # whether it takes several values
    choices: tuple[str, ...] = ()  # what it may be; anything if empty
    ask: str = ""  # whether it "must" be given for a file, or only "may", and ``init`` asks for it nevertheless
    gives: str = ""  # what there is only with it
    needs: tuple[str, ...] = ()  # words without which it says nothing
    bars: tuple[tuple[str, str], ...] = ()  # words with which it must not be given, each with the reason
    of: tuple[str, ...] = RELEASES  # the commands that take it; if ``fixed``, so does ``ledger``; of the file, ``init``
    compared: bool = False  # whether ``plan`` takes several, to compare them
    planned: bool = False  # whether the programme of a ledger determines it
    fixed: bool = False  # whether it is fixed when a ledger is made
    flights: Any = None  # what it is for the log that comes with the package, of flights from New York in 2013

    @property
    def explained(self) -> str:
        """Return the explanation, with the value if it is left out."""
        return self.help if self.usual is None else f"{self.help} ({self.usual})"

    def read(self, value: object) -> Any:
        """Return the value that stands in a file, or raise ValueError, saying what it should be."""
        if not self.is_list:
            return self._read_item(value)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError(f"must list at least one, such as {toml_text(self.example)}")
        return [self._read_item(item) for item in values]

    def _read_item(self, value: object) -> Any:
        types, name = _TYPES.get(self.kind, ((str,), "a text"))
        if not isinstance(value, types) or (isinstance(value, bool) and self.kind is not bool):
            raise ValueError(f"must be {name}, such as {toml_text(self.example)}")
        read = self.kind(value.isoformat() if isinstance(value, dt.date) else value)
        if self.choices and read not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return read


def verbatim(read: Callable[[str], object], must: str) -> Callable[[str], str]:
    """Return a reader that leaves a text as it is written, if it can be read."""

    def keep(text: str) -> str:
        try:
            read(text)
        except ValueError:
            raise ValueError(f"must be {must}") from None
        return text

    return keep


def key(value: object) -> str:
    """Return a key as text: 1 and "1" are one key."""
    return str(value)


def season(value: Any) -> float | str:
    """Return the steps of a season, or the text of one of the calendar, or that says an amplitude, too."""
    try:
        steps, amplitude = steps_of(value)
    except ValueError:
        forms = f"a number of steps, such as 24, or one of {', '.join(PERIODS)}"
        raise ValueError(f"must be {forms}; to plan, with an amplitude in counts, such as 24:90") from None
    return steps if amplitude is None else str(value)


def steps_of(season: float | str) -> tuple[float | str, float | None]:
    """Return the steps of a season, or its name, and its amplitude, if it is said."""
    steps, _, amplitude = str(season).partition(":")
    return steps if steps in PERIODS else float(steps), float(amplitude) if amplitude else None


def time_ahead(value: object) -> int | str:
    """Return a number of steps, or the text of a time."""
    text = str(value)
    if text.isdecimal():
        return int(text)
    try:
        return step(text)
    except ValueError:
        raise ValueError("must be a time, such as 1w, or a number of steps") from None


def weight(value: Any) -> float:
    """Return a share, relative to others."""
    if not 0 < (number := float(value)) < math.inf:
        raise ValueError("must be a number above 0, such as 2")
    return number


def share(text: str) -> tuple[float, int]:
    """Return a share of individuals, and in how many steps they come at most."""
    of_all, _, steps = text.partition(":")
    return float(of_all.removesuffix("%")) / (100.0 if of_all.endswith("%") else 1.0), int(steps)


def toml_text(value: object) -> str:
    """Write a value as TOML does."""
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def check_drawable(name: str, texts: Iterable[str]) -> None:
    """Refuse what a record, a figure, a page or a workbook cannot hold, before it fails where a budget is spent."""
    for text in texts:
        if (match := _UNDRAWABLE.search(text)) is not None:
            raise Refusal(
                name,
                Quoted(f"{text!r:.200}"),
                "must hold characters that files can hold: no control or byte-order mark, no half of a pair, and none"
                " that turns the text after it round",
                f"leave out {match[0]!r}",
            )


def flag(name: str) -> str:
    """Return a word as a flag."""
    return "--" + name.replace("_", "-")


zone: Final = verbatim(
    parse_zone,
    "the IANA name of a time zone, such as UTC, which is the same clock everywhere; where the system has none, install"
    " tzdata",
)
instant: Final = verbatim(
    lambda text: parse_instants({"time": text}, dt.UTC),
    "a time in ISO 8601, such as 2024-01-01 or 2024-01-01T08:00, of the years 1680 to 2259",
)
day: Final = verbatim(lambda text: parse_days({"day": text}, dt.UTC), "a date, such as 2024-12-25")
step: Final = verbatim(
    parse_width, "a whole number and a unit: 5min and 24h are fixed times, 1d, 1w and 1mo a calendar's"
)
part: Final = verbatim(share, "a share and a number of steps, such as 90%:20")
#: What XML 1.0 has no characters for, and controls that it has. Lone surrogates are what Python reads from bytes that
#: are no text. Matplotlib fails at a byte-order mark in a PDF. After an override, numbers stand from right to left.
_UNDRAWABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufeff\ufffe\uffff]")
#: How values stand in a file, and what to call them; all others are text.
_TYPES: Final[dict[Any, tuple[tuple[type, ...], str]]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    instant: ((str, dt.date), "a time"),
    day: ((str, dt.date), "a date"),
    key: ((str, int), "a text"),
    season: ((str, int, float), "a number of steps"),
    weight: ((int, float), "a number"),
    time_ahead: ((str, int), "a time, or a number of steps"),
}
_CAP: Final = ("participation_cap",)
_NO_CAP: Final = (("participation_cap", ", as it is of tiers"),)
_NO_FILTER: Final = (("filter_std", ", as totals are of counts that are not filtered"),)
_NO_FORECAST: Final = (("filter_std", ", as a forecast is of counts that are not filtered"),)
_NO_PERIOD: Final = (("period", ", as everybody is counted once for all that they did"),)
# fmt: off
#: By table of the file: what the table is about, and its words.
TABLES: Final[dict[str, tuple[str, dict[str, Word]]]] = {
    "log": ("the log", {
        "file": Word(Path, "event log, .csv or .parquet, with one row for each event; {part} stands for the part of a"
            " programme, such as 2024-02", "rides.csv", ask="must", gives="a file"),
        "identifier": Word(str, "the column that identifies individuals", "card", ask="must", needs=("file",),
            flights="tailnum"),
        "time": Word(str, "the column of event times", "time", ask="must", needs=("file",), flights="time"),
        "times_zone": Word(zone, "time zone of event times that do not say theirs (that of the grid)", "UTC",
            needs=("file",)),
        "time_format": Word(str, "how a CSV file writes times (ISO 8601)", "%d.%m.%Y %H:%M", needs=("file",)),
        "time_unit": Word(str, f"unit of times that are numbers since 1970: {', '.join(TIME_UNITS)}", "s",
            needs=("file",), bars=(("times_zone", ", as numbers are in UTC"),)),
        "value_decimal": Word(str, "decimal mark of the values in a CSV file", ",", usual=".", choices=(".", ","),
            needs=("value",)),
        "delimiter": Word(str, "the character between the fields of a CSV file (a comma; in .tsv a tab)", ";",
            needs=("file",)),
        "encoding": Word(canonical_encoding,
            "encoding of a CSV file, such as cp1252 of Windows in western Europe (UTF-8)", "cp1252", needs=("file",)),
    }),
    "grid": ("the steps of time", {
        "zone": Word(zone, "time zone of the calendar, of start and end (UTC)", "Europe/London", ask="may",
            of=_PLANS, fixed=True, flights="America/New_York"),
        "start": Word(instant, "start of the first step", "2024-01-01T00:00", ask="must", of=_PLANS,
            flights="2013-01-01T00:00"),
        "end": Word(instant, "where the last step ends", "2025-01-01", ask="must", of=_PLANS,
            gives="a grid with an end"),
        "size": Word(int, "number of steps, in place of the end", 8784, bars=(("end", ""),), of=_PLANS, flights=2920),
        "step": Word(step, "a fixed time such as 5min or 1h, or 1d, 1w, 1mo, 1q or 1y of the calendar", "1h",
            ask="must", of=_PLANS, flights="3h"),
        "every": Word(str, "make a programme: from start to end, one release for each day, week, month, quarter or"
            " year, all of them within one budget, in a ledger", "1mo", choices=tuple(PERIODS), gives="a programme",
            needs=("end", "ledger")),
    }),
    "count": ("the count, in public terms", {
        "participation_cap": Word(int, "steps up to which an individual counts in full, if you know a cap that next to"
            " nobody exceeds; without it, everybody counts in full", 60, gives="a count with a cap", of=_PLANS,
            compared=True),
        "excess": Word(str, "with a cap: weigh down who exceeds it, or drop what does (downweight)", "drop",
            choices=EXCESS_CHOICES, needs=_CAP),
        "step_cap": Word(int, "people or events? 1 counts the people of each step; a greater number counts events, up"
            " to so many of one individual in a step", 3, usual=1, ask="may", of=_PLANS),
        "value": Word(str, "the column of numbers to add up, such as minutes, which are rounded to whole units; without"
            " it, rows are counted", "minutes", gives="sums of a value", needs=("file", "bound"),
            bars=(("step_cap", ", as the bound is the most in a step"),), of=_PLANS),
        "bound": Word(int, "the most of one individual in one step, in units of the value, from what is plausible", 600,
            gives="sums to which one individual adds no more than is public", needs=("value",), of=_PLANS),
        "typical": Word(int, "without a cap: a typical value, in its units, for the finest tier (of the bound,"
            " 1 and its binary logarithm, or its cube root if more)", 20, needs=("value",), bars=_NO_CAP, of=_PLANS),
        "total_bound": Word(int, "without a cap: the most of one individual in all steps together, for less noise;"
            " those with more lose some", 10_000, needs=("value",), bars=_NO_CAP, of=_PLANS),
        "mean": Word(bool, "say also how much an individual with a value has of it in a step, on average: in"
            " OUTPUT-means.csv, with a page and a workbook where these are asked for", True, needs=("value",)),
        "gap": Word(int, "least distance, in steps, of two in which one individual counts", 6, usual=1, of=_PLANS,
            compared=True),
        "period": Word(str, "protect what one individual does within one day, week, month, quarter or year of the zone,"
            " and NOT all that they do, which is protected without it; caps hold within each period, and a ledger is"
            " for one kind of period", "1d", choices=tuple(PERIODS), fixed=True),
        "by": Word(str, "the column of keys, such as stations: one series for each key", "station",
            gives="several keys", needs=("keys",), of=_PLANS),
        "keys": Word(key, f"the keys, which are public; or a file of them ({', '.join(CSV_SUFFIXES)}) with the column"
            " of keys", "stations.csv", is_list=True, gives="public keys, which are not read from the log",
            needs=("by",), of=_PLANS),
        "key_cap": Word(int, "most keys at which one individual counts in one step; people_cap is of all steps", 1,
            needs=("by",)),
        "total": Word(str, "release the total of all keys, too, under this name", "all stations", needs=("by",),
            bars=_NO_FILTER, of=_PLANS),
        "groups": Word(str, "release totals by these columns of the file of keys, the largest first", ["district"],
            is_list=True, needs=("by",), bars=_NO_FILTER, of=_PLANS),
        "people": Word(bool, "say also how many individuals there are in all", True, bars=_NO_PERIOD),
        "people_by_key": Word(bool, "say also how many individuals there are at each key", True, needs=("by",),
            bars=_NO_PERIOD),
        "people_cap": Word(int, "say it with a cap, in place of people_by_key: somebody at more keys than that, in all"
            " steps together, counts at so many of them", 3, needs=("by",), bars=(*_NO_PERIOD, ("people_by_key", ""))),
        "filter_std": Word(float, "with a cap: width in steps of a Gaussian filter before the noise", 3.0, needs=_CAP,
            of=_PLANS, compared=True),
    }),
    "budget": ("the guarantee", {
        "epsilon": Word(float, "epsilon of the guarantee", 1.0, ask="must", of=_PLANS, planned=True, fixed=True,
            flights=1.0),
        "delta": Word(float, "delta of the guarantee: far less than one over the number of individuals", 1e-6,
            ask="must", of=_PLANS, planned=True, fixed=True, flights=1e-6),
        "individuals": Word(int, "about how many individuals there are, if that is public: it is compared with delta",
            20_000),
        "sampling_probability": Word(float, "share of the steps to keep", 0.5, usual=1.0, needs=_CAP, of=_PLANS,
            compared=True, planned=True),
        "sampling": Word(str, "keep each step by itself, or one of each block of 1/probability", "stratified",
            usual="poisson", choices=SAMPLINGS, of=_PLANS, planned=True),
        "weight": Word(weight, "with several publications in one budget: how much of it the series of this one get,"
            " relative to 1 of another", 2.0, usual=1.0, needs=("every",)),
        "ledger": Word(Path, "enter the release there, if its budget allows it", "rides.ledger",
            gives="a release with `ledger`"),
    }),
    "plan": ("what is known of the series, roughly: of each key, for the error to expect", {
        "participation": Word(part, "in how many steps individuals come, as far as that is public knowledge: 90%:20"
            " 100%:500 says that 90% come in at most 20, and the heaviest in 500", ["90%:20", "100%:500"], is_list=True,
            of=_EXPECTED),
        "level": Word(float, "mean count of a step", 200.0, of=_EXPECTED),
        "deviation": Word(float, "standard deviation of departures from level and seasons, in counts", 20.0,
            of=_EXPECTED),
        "time_scale": Word(float, "steps within which departures change", 12.0, of=_EXPECTED),
    }),
    "outputs": ("the files", {
        "season": Word(season, "smooth by patterns that repeat each day, week, month, quarter or year of the zone, such"
            " as 1d 1w, or after so many steps; to plan, with an amplitude in counts, such as 1d:90 or 24:90",
            ["1d:90", "1w:30"], is_list=True, ask="may", gives="a series with a season", of=(*_PLANS, "ledger"),
            flights=["1d", "1w"]),
        "holidays": Word(day, "days that are like Sundays", ["2024-12-25"], is_list=True, needs=("season",),
            of=(*RELEASES, "ledger")),
        "ahead": Word(time_ahead, "forecast as much time after the last step, such as 1w, or so many steps, from the"
            " release alone, which costs no privacy", "1w", bars=_NO_FORECAST),
        "output": Word(Path, "write OUTPUT.csv, OUTPUT.json and a figure", "release", usual=Path("release")),
        "figure": Word(str, "format of the figure", "svg", usual="png", choices=("png", "svg", "pdf", "none")),
        "title": Word(str, "what is counted, in words, for the figure, the page and the workbook", "Riders in London",
            of=(*_PLANS, "ledger")),
        "unit": Word(str, "what the numbers are, for axes and tables (what is counted, such as individuals per hour)",
            "trips per hour"),
        "notes": Word(str, "sentences to add to those on what is protected, on the page and in the workbook",
            ["Two stations were closed in May."], is_list=True),
        "cite": Word(str, "how to cite the page (title, times, guarantee, software, method)", "City of London, 2024"),
        "decimal": Word(str, "decimal mark of the CSV files: with a comma, a semicolon separates fields, as in"
            " spreadsheets of much of Europe", ",", usual=".", choices=(".", ",")),
        "page": Word(bool, "write OUTPUT.html, too: a page to publish, which needs no other file", True),
        "datapackage": Word(bool, "write OUTPUT-datapackage.json, too, which describes the files to data portals"
            " (Frictionless)", True),
        "spreadsheet": Word(bool, "write OUTPUT.xlsx, too, for Excel or LibreOffice (extra excel)", True),
    }),
}
#: What is said of one run, and does not stand in a file.
RUN: Final = {
    "quiet": Word(bool, "say nothing but errors, and what a ledger pays for",
        of=(*_PLANS, "ledger", "verify", "init")),
    "json": Word(bool, "print JSON", of=("plan", "ledger", "programme")),
    "resume": Word(bool, "write those files of a release that are missing, if the ledger has paid for it already",
        needs=("ledger",)),
    "force": Word(bool, "replace an earlier release at OUTPUT"),
    "number": Word(int, "which part of a programme; the next one, if left out", needs=("every",)),
    "beside": Word(Path, "files of other publications that name the same ledger: all are planned together, within one"
        " budget", is_list=True, needs=("every",), of=("programme",)),
    "preview": Word(Path, "write there, as .html, the page as it would look, of made-up numbers that level, season and"
        " departures describe", of=("plan", "programme")),
    "new": Word(bool, "make the ledger, which must not exist yet", of=("ledger", "programme")),
    "programme": Word(Path, "releases planned in advance, as 'programme --json' prints them: a ledger is made for them,"
        " and a record is verified to be of one of them", of=("verify",), fixed=True),
    "adaptivity": Word(str, "what may depend on earlier releases: 'adaptive' is a promise that no caps, sampling or"
        " noise do, for less noise", usual="fully adaptive", choices=("adaptive", "fully adaptive"), of=(), fixed=True),
    "add": Word(Path, "enter releases made without it, by their records", is_list=True, of=("ledger",)),
    "join": Word(Path, "write there, as .html, its series on grids that follow each other, smoothed together, and what"
        " is revised, against the same page without the last of them; of several kinds of series, a page each",
        of=("ledger",)),
    "planned": Word(bool, "list all that is planned, and not only how much of it", of=("ledger",)),
}
# fmt: on
#: The words of the file, and all of them.
WORDS: Final = {name: word for _, words in TABLES.values() for name, word in words.items()}
EVERY: Final = WORDS | RUN


def words_of(command: str) -> dict[str, Word]:
    """Return the words that a command takes."""

    def takes(name: str, word: Word) -> bool:
        return command in word.of or (command == "ledger" and word.fixed) or (command == "init" and name in WORDS)

    return {name: word for name, word in EVERY.items() if takes(name, word)}


def is_file_of_keys(keys: list[str]) -> bool:
    """Return whether this names a file that holds the keys."""
    return len(keys) == 1 and keys[0].lower().endswith(CSV_SUFFIXES)


def relocate(name: str, value: Any, place: Callable[[str | Path], object]) -> Any:
    """Return the value of a word, with the files that it names somewhere else."""
    if WORDS[name].kind is Path:
        return Path(str(place(value)))
    return [str(place(value[0]))] if name == "keys" and is_file_of_keys(value) else value


def wrapped(text: str) -> str:
    """Return a paragraph of lines."""
    return textwrap.fill(text, 100, break_on_hyphens=False)
