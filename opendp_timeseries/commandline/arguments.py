"""What the command line takes. Everything public must be said, and nothing is guessed from a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from opendp_timeseries.accounting.sampling import SAMPLINGS
from opendp_timeseries.counting.files import CSV_SUFFIXES, PARQUET_SUFFIXES, TIME_UNITS
from opendp_timeseries.grid import PERIODS

__all__ = ["HELP", "parse"]

_PROGRAM: Final = "python -m opendp_timeseries"
HELP: Final = f"see {_PROGRAM} --help"

#: The log that comes with the package: aircraft departing from New York in 2013, per three hours.
_FLIGHTS: Final[dict[str, Any]] = {
    "identifier": "tailnum",
    "time": "time",
    "start": "2013-01-01T00:00",
    "step": "3h",
    "size": 2920,
    "zone": "America/New_York",
    "participation_cap": 100,
    "epsilon": 1.0,
    "delta": 1e-6,
    "sampling_probability": 1.0,
    "sampling": "poisson",
    "season": [8.0, 56.0],  # a day and a week
}
#: What may be left out with a file.
_DEFAULTS: Final[dict[str, Any]] = {"zone": "UTC", "sampling_probability": 1.0, "sampling": "poisson"}
#: What must be said with a file, by command.
_COUNT: Final = ("identifier", "time", "start", "step", "size", "participation_cap")
_REQUIRED: Final = {"release": (*_COUNT, "epsilon", "delta"), "check": _COUNT}
#: What the programme of a ledger says.
_PLANNED: Final = ("epsilon", "delta", "sampling_probability", "sampling")


#: What has no meaning without a file, and without one of text.
_OF_CSV: Final = ("time_format", "time_unit", "delimiter")
_OF_FILES: Final = ("identifier", "time", *_OF_CSV)


class _Parser(argparse.ArgumentParser):
    """Raises errors, so that every refusal of the command line takes one way out."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; {HELP}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for, as options; ``command`` is release, check, plan, verify or ledger.

    :raises ValueError: if it is not understood, or something that must be said is left out.
    :raises SystemExit: after ``--help``.
    """
    command = arguments[0] if arguments and arguments[0] in _PARSERS else "release"
    parser = _PARSERS[command]()
    options = parser.parse_args(arguments if command == "release" else arguments[1:])
    options.command = command
    if command in _REQUIRED:
        _complete(options, parser)
    elif command == "ledger":
        _check_ledger(options, parser)
    return options


def _complete(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what may be left out, and refuse what may not."""
    defaults = _FLIGHTS if options.file is None else _DEFAULTS
    # The programme of a ledger says these, if none of them is given.
    planned = options.ledger is not None and (options.epsilon, options.delta) == (None, None)
    said_otherwise = [*(_PLANNED if planned else ()), *(["size"] if options.end is not None else ())]
    if options.resume and options.ledger is None:
        parser.error("--resume is for a release with --ledger")
    if options.size is not None and options.end is not None:
        parser.error(f"--size ({options.size}) and --end ({options.end}) must not both be given: leave one out")
    if options.file is None:
        for name in _OF_FILES:
            if getattr(options, name) is not None:
                parser.error(f"{_flag(name)} ({getattr(options, name)}) is for a file: give one, or leave it out")
    else:
        required = [name for name in _REQUIRED[options.command] if name not in said_otherwise]
        left_out = [name for name in required if getattr(options, name) is None]
        if left_out:
            flags = ", ".join(map(_flag, left_out))
            parser.error(f"with a file, these must be given, as they are public: {flags}")
        suffix = options.file.suffix.lower()
        if suffix not in CSV_SUFFIXES + PARQUET_SUFFIXES:
            parser.error(
                f"file ({options.file}) must end in one of {', '.join(CSV_SUFFIXES + PARQUET_SUFFIXES)}: convert or"
                " rename it"
            )
        given = [name for name in _OF_CSV if getattr(options, name) is not None]
        if suffix in PARQUET_SUFFIXES and given:
            flags = ", ".join(map(_flag, given))
            parser.error(f"file ({options.file}) has typed columns: leave out {flags}, which are for CSV files")
    for name, value in defaults.items():
        if getattr(options, name) is None and name not in said_otherwise:
            setattr(options, name, value)


def _check_ledger(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    budget = [name for name in ("epsilon", "delta", "programme") if getattr(options, name) is not None]
    unit = [name for name in ("period", "zone") if getattr(options, name) is not None]
    if not options.new and (budget or unit or options.parameters_fixed):
        flags = ", ".join(map(_flag, [*budget, *unit, *(["parameters_fixed"] if options.parameters_fixed else [])]))
        parser.error(f"{flags} is fixed when a ledger is made: give --new, or leave it out")
    if options.new and budget not in (["epsilon", "delta"], ["programme"]):
        parser.error("--new takes the budget of all releases together: --epsilon and --delta, or --programme")
    if options.new and options.programme is not None and options.parameters_fixed:
        parser.error("--parameters-fixed is for a ledger without --programme, which fixes them")
    if options.programme is not None and unit:
        parser.error(
            f"{', '.join(map(_flag, unit))} is for a ledger without --programme, which says the unit of privacy"
        )
    if options.zone is not None and options.period is None:
        parser.error(f"--zone ({options.zone}) is of --period: give both, or leave it out")


def _flag(name: str) -> str:
    return {"size": "--size or --end"}.get(name, "--" + name.replace("_", "-"))


def _release_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=_PROGRAM,
        description="Release a differentially private series of counts per time step. It protects each individual's"
        " whole history, unless --period is given. Without a file, it counts the aircraft that departed from New York"
        " in 2013.",
        epilog=f"Before the first release from a file, run '{_PROGRAM} check' with the same options: it says in private"
        f" how many rows were understood. '{_PROGRAM} plan' says what error to expect, without data."
        f" '{_PROGRAM} ledger' keeps one budget for many releases. A reader of a release runs '{_PROGRAM} verify"
        " RECORD'. Each has --help.",
        allow_abbrev=False,
    )
    _add_log(parser)
    _add_budget(parser, "")
    return parser


def _check_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"{_PROGRAM} check",
        description="Say on standard error how the rows of a log are read, and what the caps would leave out. What it"
        " says is private: do not publish it, and choose no parameter of a release by it. Nothing is written.",
        allow_abbrev=False,
    )
    _add_log(parser)
    _add_budget(parser, " (not used by check)")
    return parser


def _verify_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"{_PROGRAM} verify",
        description="Compute again the guarantee of a release from what its record says of caps, filter, sampling and"
        " noise, and refuse the record if it claims more privacy than they give. It needs no data.",
        allow_abbrev=False,
    )
    parser.add_argument("record", type=Path, help="the OUTPUT.json that was written beside a release")
    return parser


def _ledger_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"{_PROGRAM} ledger",
        description="Say what was released about one population, what it guarantees together, and what is left of its"
        " budget; every record is verified. With --new, make a ledger, for the --ledger of releases.",
        allow_abbrev=False,
    )
    parser.add_argument("ledger", type=Path, help="the file")
    parser.add_argument("--json", action="store_true", help="say it as JSON, without the released values")
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="RECORD", help="enter releases that were made without it"
    )
    new = parser.add_argument_group("a new ledger")
    new.add_argument("--new", action="store_true", help="make the file, which must not be there yet")
    new.add_argument("--epsilon", type=_number, help="privacy loss parameter ε of all releases together")
    new.add_argument("--delta", type=_number, help="privacy loss parameter δ of all releases together")
    _add_period(new, "releases must say the same")
    new.add_argument("--zone", help="time zone of --period (UTC)")
    new.add_argument("--programme", type=Path, help="releases that are planned in advance, as Programme.to_json wrote")
    new.add_argument(
        "--parameters-fixed",
        action="store_true",
        help="promise that no caps, sampling or noise are chosen by what earlier releases showed, for less noise",
    )
    return parser


def _plan_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"{_PROGRAM} plan",
        description="Say which caps, filter and sampling to choose, and what error to expect, from public facts and"
        " from what is thought of the series. It reads no data.",
        allow_abbrev=False,
    )
    count = parser.add_argument_group("the count")
    _add_grid(count)
    count.add_argument(
        "--participation-cap",
        type=_whole,
        nargs="+",
        required=True,
        help="caps to compare, in steps of an individual",
    )
    count.add_argument("--gap", type=_whole, nargs="+", default=[1], help="gaps to compare, in steps (1)")
    count.add_argument("--step-cap", type=_whole, default=1, help="how often one individual counts in a step (1)")
    signal = parser.add_argument_group("the series, as far as you can tell")
    signal.add_argument("--level", type=_number, help="mean count of a step")
    signal.add_argument(
        "--season",
        type=_pattern,
        nargs="+",
        metavar="STEPS:AMPLITUDE",
        help="patterns, such as 24:90 for a day of hours",
    )
    signal.add_argument("--deviation", type=_number, help="standard deviation of departures from these, in counts")
    signal.add_argument("--time-scale", type=_number, help="steps within which departures change")
    release = parser.add_argument_group("the release")
    release.add_argument("--epsilon", type=_number, required=True, help="privacy loss parameter ε")
    release.add_argument("--delta", type=_number, required=True, help="privacy loss parameter δ")
    release.add_argument("--sampling-probability", type=_number, nargs="+", help="shares of the steps to compare")
    release.add_argument(
        "--sampling", choices=SAMPLINGS, default="poisson", help="how steps are kept, as for a release (poisson)"
    )
    release.add_argument(
        "--filter-std",
        type=_number,
        nargs="+",
        default=[0.0, 3.0, 10.0],
        help="filters to compare, 0 for none (0 3 10)",
    )
    parser.add_argument("--json", action="store_true", help="say it as JSON")
    return parser


def _add_log(parser: argparse.ArgumentParser) -> None:
    log = parser.add_argument_group("the log")
    log.add_argument("file", nargs="?", type=Path, help="event log, .csv or .parquet, with one row for each event")
    log.add_argument("--identifier", help="the column that tells individuals apart")
    log.add_argument("--time", help="the column of event times")
    log.add_argument("--time-format", help="how a CSV file writes times, such as '%%d.%%m.%%Y %%H:%%M' (ISO 8601)")
    log.add_argument("--time-unit", help=f"unit of times that are numbers since 1970: {', '.join(TIME_UNITS)}")
    log.add_argument("--delimiter", help="the character between the fields of a CSV file (a comma; in .tsv a tab)")
    count = parser.add_argument_group("the count, in public terms")
    _add_grid(count)
    count.add_argument("--participation-cap", type=_whole, help="in how many steps one individual counts at most")
    count.add_argument("--step-cap", type=_whole, default=1, help="how often one individual counts in a step (1)")
    count.add_argument(
        "--gap", type=_whole, default=1, help="steps from a counted one of an individual to the next (1)"
    )
    _add_period(count, "caps hold in each by itself")


def _add_period(group: argparse._ArgumentGroup, more: str) -> None:
    group.add_argument(
        "--period",
        choices=PERIODS,
        help="protect what one individual does within one day, week, month, quarter or year of --zone, and NOT all that"
        f" they do, which is protected without it; {more}",
    )


def _add_grid(count: argparse._ArgumentGroup) -> None:
    count.add_argument("--start", help="start of the first step, such as 2024-01-01T00:00")
    count.add_argument("--step", help="a fixed time such as 5min or 1h, or 1d, 1w, 1mo, 1q or 1y of the calendar")
    count.add_argument("--size", type=_whole, help="number of steps")
    count.add_argument("--end", help="where the last step ends, such as 2025-01-01, in place of --size")
    count.add_argument("--zone", help="time zone of the calendar, of --start and --end, of times without a zone (UTC)")


def _add_budget(parser: argparse.ArgumentParser, note: str) -> None:
    release = parser.add_argument_group(f"the release{note}")
    release.add_argument("--epsilon", type=_number, help="privacy loss parameter ε")
    release.add_argument("--delta", type=_number, help="privacy loss parameter δ")
    release.add_argument(
        "--sampling-probability",
        type=_number,
        help="share of the steps that are kept, with less noise the fewer they are (1: every step)",
    )
    release.add_argument(
        "--sampling",
        choices=SAMPLINGS,
        help="keep each step by itself, or one of each block of 1/probability, without long holes (poisson)",
    )
    release.add_argument("--filter-std", type=_number, help="width in steps of a Gaussian filter before the noise")
    release.add_argument(
        "--season",
        type=_season,
        nargs="+",
        metavar="STEPS",
        help="the series repeats after so many steps, such as 24 168 with hours: smooth the release by such a model",
    )
    release.add_argument(
        "--output",
        type=Path,
        default=Path("release"),
        help="where to write: OUTPUT.csv, OUTPUT.json and a figure, OUTPUT.png (release)",
    )
    release.add_argument("--figure", choices=("png", "svg"), default="png", help="format of the figure (png)")
    release.add_argument("--ledger", type=Path, help="enter the release there, if its budget allows it")
    release.add_argument(
        "--resume", action="store_true", help="complete an entry of the ledger that was spent, and nothing released"
    )
    release.add_argument("--force", action="store_true", help="replace an earlier release at OUTPUT")


_PARSERS: Final = {
    "release": _release_parser,
    "check": _check_parser,
    "plan": _plan_parser,
    "verify": _verify_parser,
    "ledger": _ledger_parser,
}


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be a whole number, such as 168") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"({text}) must be at least 1")
    return number


def _season(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be a number of steps, such as 24 for a day of hours") from None


def _pattern(text: str) -> tuple[float, float]:
    period, _, amplitude = text.partition(":")
    try:
        return float(period), float(amplitude)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"({text}) must be a number of steps and an amplitude in counts, such as 24:90"
        ) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be a number, such as 0.5") from None
