"""The options of the command line. Everything public must be given, and nothing is guessed from a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from opendp_timeseries.accounting.sampling import SAMPLINGS
from opendp_timeseries.counting.files import CSV_SUFFIXES, PARQUET_SUFFIXES, TIME_UNITS
from opendp_timeseries.grid import PERIODS

__all__ = ["parse"]

_PROGRAM: Final = "python -m opendp_timeseries"

#: For the log that comes with the package, of aircraft departing from New York in 2013; a day and a week of 3 hours.
_FLIGHTS: Final = (
    "--identifier tailnum --time time --zone America/New_York --start 2013-01-01T00:00 --step 3h --size 2920"
    " --epsilon 1 --delta 1e-6 --season 8 56"
)
_DEFAULTS: Final = {"sampling_probability": 1.0, "sampling": "poisson"}
#: What must be given with a file, by command.
_COUNT: Final = ("identifier", "time", "start", "step", "size")
_REQUIRED: Final = {"release": (*_COUNT, "epsilon", "delta"), "check": _COUNT}
#: What the programme of a ledger determines.
_PLANNED: Final = ("epsilon", "delta", "sampling_probability", "sampling")
#: What describes a text file, and any file.
_OF_CSV: Final = ("time_format", "time_unit", "delimiter")
_OF_FILES: Final = ("identifier", "time", "times_zone", *_OF_CSV)
#: What is fixed when a ledger is made.
_BUDGET: Final = ("epsilon", "delta", "programme")
_OF_LEDGERS: Final = (*_BUDGET, "period", "zone", "parameters_fixed")


class _Parser(argparse.ArgumentParser):
    """Raises errors, so that all errors of the command line take one way out."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {_PROGRAM} --help")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; ``command`` is release, check, plan, verify or ledger.

    :raises ValueError: if they cannot be understood, or one that must be given is left out.
    :raises SystemExit: after ``--help``.
    """
    named = bool(arguments) and arguments[0] in _COMMANDS
    command = arguments[0] if named else "release"
    description, groups = _COMMANDS[command]
    program = f"{_PROGRAM} {command}" if named else _PROGRAM
    parser = _Parser(prog=program, description=description, epilog=_EPILOG, allow_abbrev=False)
    for title, options in groups.items():
        group = parser.add_argument_group(title)
        for flag, how in options.items():
            group.add_argument(flag, **how)
    found = parser.parse_args(arguments[named:])
    found.command = command
    if command in _REQUIRED:
        _complete(found, parser)
    elif command == "ledger":
        given = [name for name in _OF_LEDGERS if getattr(found, name) not in (None, False)]
        if given and not found.new:
            parser.error(f"{_flags(given)} is fixed when a ledger is made: give --new, or leave it out")
        if found.new and [name for name in given if name in _BUDGET] not in (["epsilon", "delta"], ["programme"]):
            parser.error("--new takes the budget of all releases together: --epsilon and --delta, or --programme")
        if found.zone is not None and found.period is None:
            parser.error(f"--zone ({found.zone}) is the zone of --period: give both, or leave it out")
        found.zone = found.zone or (found.period and "UTC")
    elif command == "plan":
        found.zone = found.zone or (found.start and "UTC")
    return found


def _complete(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what may be left out, and refuse what does not go together."""
    file, given = options.file, {name for name, value in vars(options).items() if value is not None}
    defaults = _DEFAULTS if file is not None else vars(parser.parse_args(_FLIGHTS.split())) | _DEFAULTS
    # The programme of a ledger determines these, if none of them is given.
    determined = set(_PLANNED if "ledger" in given and not given & {"epsilon", "delta"} else ())
    determined |= {"size"} if "end" in given else set()
    if options.resume and options.ledger is None:
        parser.error("--resume is for a release with --ledger")
    if {"size", "end"} <= given:
        parser.error(f"--size ({options.size}) and --end ({options.end}) must not both be given: leave one out")
    if file is None:
        for name in given.intersection(_OF_FILES):
            parser.error(f"{_flags([name])} ({getattr(options, name)}) is for a file: give one, or leave it out")
    else:
        missing = [name for name in _REQUIRED[options.command] if name not in given | determined]
        if missing:
            parser.error(f"with a file, these must be given, as they are public: {_flags(missing)}")
        suffix, known = file.suffix.lower(), CSV_SUFFIXES + PARQUET_SUFFIXES
        if suffix not in known:
            parser.error(f"file ({file}) must end in one of {', '.join(known)}: convert or rename it")
        text = [name for name in _OF_CSV if name in given]
        if suffix in PARQUET_SUFFIXES and text:
            parser.error(f"file ({file}) has typed columns: leave out {_flags(text)}, which are for CSV files")
        if {"times_zone", "time_unit"} <= given:
            parser.error(f"--times-zone ({options.times_zone}) is for no numbers, which are in UTC: leave it out")
    capless = [name for name in ("filter_std", "excess") if name in given and "participation_cap" not in given]
    if capless:
        parser.error(f"{_flags(capless)} is for a count with a cap: give --participation-cap, or leave it out")
    for name in defaults.keys() - given - determined:
        setattr(options, name, defaults[name])
    if options.participation_cap is None and (options.sampling_probability or 1) < 1:
        sampled = f"--sampling-probability ({options.sampling_probability:g})"
        parser.error(f"{sampled} is for a count with a cap: give --participation-cap, or leave it out")
    options.zone = options.zone or "UTC"


def _flags(names: Iterable[str]) -> str:
    return ", ".join("--size or --end" if name == "size" else "--" + name.replace("_", "-") for name in names)


def _of(kind: Any, text: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "help": text, **more}


def _pattern(text: str) -> tuple[float, float]:
    try:
        period, amplitude = map(float, text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be steps and an amplitude in counts, such as 24:90") from None
    return period, amplitude


_STEP_CAP: Final = {"--step-cap": _of(int, "most events of one individual that count in a step (1)", default=1)}
_PERIOD: Final = {
    "choices": PERIODS,
    "help": "protect what one individual does within one day, week, month, quarter or year of --zone, and NOT all that"
    " they do, which is protected without it; caps hold within each period, and a ledger is for one kind of period",
}
_PROMISE: Final = "promise that no caps, sampling or noise are chosen by earlier releases, for less noise"
_GRID: Final = {
    "--start": _of(str, "start of the first step, such as 2024-01-01T00:00"),
    "--step": _of(str, "a fixed time such as 5min or 1h, or 1d, 1w, 1mo, 1q or 1y of the calendar"),
    "--size": _of(int, "number of steps"),
    "--end": _of(str, "where the last step ends, such as 2025-01-01, in place of --size"),
    "--zone": _of(str, "time zone of the calendar, of --start and of --end (UTC)"),
}
_LOG: Final = {
    "file": _of(Path, "event log, .csv or .parquet, with one row for each event", nargs="?"),
    "--identifier": _of(str, "the column that identifies individuals"),
    "--time": _of(str, "the column of event times"),
    "--times-zone": _of(str, "time zone of event times that do not say theirs (that of --zone)"),
    "--time-format": _of(str, "how a CSV file writes times, such as '%%d.%%m.%%Y %%H:%%M' (ISO 8601)"),
    "--time-unit": _of(str, f"unit of times that are numbers since 1970: {', '.join(TIME_UNITS)}"),
    "--delimiter": _of(str, "the character between the fields of a CSV file (a comma; in .tsv a tab)"),
}
_CAPS: Final = {
    **_GRID,
    "--participation-cap": _of(
        int,
        "steps up to which an individual counts in full, if you know a cap that next to nobody exceeds; without it,"
        " everybody counts in full",
    ),
    "--excess": _of(str, "with a cap: scale down who exceeds it, or drop what does (scale)", choices=("scale", "drop")),
    **_STEP_CAP,
    "--gap": _of(int, "least distance, in steps, of two in which one individual counts (1)", default=1),
    "--period": _PERIOD,
}
_RELEASE: Final = {
    "--epsilon": _of(float, "epsilon of the guarantee"),
    "--delta": _of(float, "delta of the guarantee"),
    "--sampling-probability": _of(float, "share of the steps to keep; fewer have less noise (1: every step)"),
    "--sampling": _of(str, "keep each step by itself, or one of each block of 1/probability", choices=SAMPLINGS),
    "--filter-std": _of(float, "width in steps of a Gaussian filter before the noise"),
    "--season": _of(float, "smooth by a model that repeats after so many steps, such as 24 168 with hours", nargs="+"),
    "--output": _of(Path, "write OUTPUT.csv, OUTPUT.json and a figure, OUTPUT.png (release)", default=Path("release")),
    "--figure": _of(str, "format of the figure (png)", choices=("png", "svg", "pdf", "none"), default="png"),
    "--ledger": _of(Path, "enter the release there, if its budget allows it"),
    "--resume": {"action": "store_true", "help": "write the files of a release that the ledger has paid for already"},
    "--force": {"action": "store_true", "help": "replace an earlier release at OUTPUT"},
}
_EPILOG: Final = (
    f"Before the first release from a file, run '{_PROGRAM} check' with the same options: it says in private how many"
    f" rows were understood. '{_PROGRAM} plan' predicts the error, without data. '{_PROGRAM} ledger' keeps one budget"
    f" for many releases. Readers of a release run '{_PROGRAM} verify RECORD'. Each has --help."
)
_JSON: Final = {"--json": {"action": "store_true", "help": "print JSON"}}
_PLAN: Final = {
    **_GRID,
    "--participation-cap": _of(int, "caps to compare, in steps", nargs="+", required=True),
    "--gap": _of(int, "gaps to compare, in steps (1)", nargs="+", default=[1]),
    **_STEP_CAP,
}
_SERIES: Final = {
    "--level": _of(float, "mean count of a step"),
    "--season": _of(_pattern, "STEPS:AMPLITUDE, such as 24:90 for a day of hours", nargs="+", dest="season_amplitudes"),
    "--deviation": _of(float, "standard deviation of departures from these, in counts"),
    "--time-scale": _of(float, "steps within which departures change"),
}
_DESIGNS: Final = {
    "--epsilon": _of(float, "epsilon of the guarantee", required=True),
    "--delta": _of(float, "delta of the guarantee", required=True),
    "--sampling-probability": _of(float, "shares of steps to compare", nargs="+"),
    "--sampling": _of(str, "how steps are kept (poisson)", choices=SAMPLINGS, default="poisson"),
    "--filter-std": _of(float, "filters to compare (0 3 10)", nargs="+", default=[0.0, 3.0, 10.0], dest="std"),
    **_JSON,
}
_LEDGER: Final = {
    "ledger": _of(Path, "the file"),
    "--add": _of(Path, "enter releases made without it, by their records", nargs="+", default=[]),
    **_JSON,
}
_NEW: Final = {
    "--new": {"action": "store_true", "help": "make the file, which must not exist yet"},
    "--epsilon": _of(float, "epsilon of all releases together"),
    "--delta": _of(float, "delta of all releases together"),
    "--period": _PERIOD,
    "--zone": _of(str, "time zone of --period (UTC)"),
    "--programme": _of(Path, "releases planned in advance, as written by Programme.to_json"),
    "--parameters-fixed": {"action": "store_true", "help": _PROMISE},
}
#: What each command does, and its options by group.
_COMMANDS: Final[dict[str, tuple[str, dict[str, dict[str, dict[str, Any]]]]]] = {
    "release": (
        "Release a differentially private series of counts per time step. It protects each individual's whole history,"
        " unless --period is given. Without a file, it counts the aircraft that departed from New York in 2013.",
        {"the log": _LOG, "the count, in public terms": _CAPS, "the release": _RELEASE},
    ),
    "check": (
        "Say on standard error how the rows of a log are read, and what the caps would leave out. What it says is"
        " private: do not publish it, and choose no parameter of a release by it. Nothing is written.",
        {"the log": _LOG, "the count, in public terms": _CAPS, "the release (not used by check)": _RELEASE},
    ),
    "plan": (
        "Say which caps, filter and sampling to choose, and what error to expect, from public facts and from your"
        " assumptions about the series. It reads no data.",
        {"the count": _PLAN, "the series, as far as you can tell": _SERIES, "the release": _DESIGNS},
    ),
    "verify": (
        "Recompute the guarantee of a release from the caps, filter, sampling and noise in its record, and reject the"
        " record if it claims more privacy than they give. It needs no data.",
        {"the record": {"record": _of(Path, "the OUTPUT.json of a release")}},
    ),
    "ledger": (
        "Say what was released about one population, what it guarantees together, and what is left of its budget; every"
        " record is verified. With --new, make a ledger, for the --ledger of releases.",
        {"the ledger": _LEDGER, "a new ledger": _NEW},
    ),
}
