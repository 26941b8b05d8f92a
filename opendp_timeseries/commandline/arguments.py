"""What the command line says, by flags or by a publication file. What is public must be given, not guessed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from opendp_timeseries.commandline.publication import located, read_publication
from opendp_timeseries.commandline.words import TABLES, WORDS, Word, flag
from opendp_timeseries.counting.files import CSV_SUFFIXES, PARQUET_SUFFIXES

__all__ = ["COMMANDS", "PROGRAM", "flags_of", "parse"]

PROGRAM: Final = "python -m opendp_timeseries"

#: For the log that comes with the package, of aircraft departing from New York in 2013; a day and a week of 3 hours.
_FLIGHTS: Final = (
    "--identifier tailnum --time time --zone America/New_York --start 2013-01-01T00:00 --step 3h --size 2920"
    " --epsilon 1 --delta 1e-6 --season 8 56"
)
_DEFAULTS: Final = {"sampling_probability": 1.0, "sampling": "poisson"}
#: What must be given with a file, by command.
_COUNT: Final = ("identifier", "time", "start", "step", "size")
_REQUIRED: Final = {"check": _COUNT, **dict.fromkeys(("release", "programme"), (*_COUNT, "epsilon", "delta"))}
#: What the programme of a ledger determines.
_PLANNED: Final = ("epsilon", "delta", "sampling_probability", "sampling")
#: What describes a text file, and any file.
_OF_CSV: Final = ("time_format", "time_unit", "delimiter")
_OF_FILES: Final = ("identifier", "time", "times_zone", *_OF_CSV)
#: What is for a count with a cap, a panel, and a panel with totals.
_CAPPED: Final = ("filter_std", "excess", "total", "groups")
_OF_PANELS: Final = ("key_cap", "total", "groups", "people_cap")
#: What is fixed when a ledger is made.
_BUDGET: Final = ("epsilon", "delta", "programme")
_OF_LEDGERS: Final = (*_BUDGET, "period", "zone", "parameters_fixed")
#: What is compared by ``plan``, so that several may be given.
_COMPARED: Final = ("participation_cap", "gap", "sampling_probability", "filter_std")
_EPILOG: Final = (
    f"Instead of flags, give a file with the same words: '{PROGRAM} init publication.toml' writes one. Before the first"
    f" release from a log, run '{PROGRAM} check' with the same options: it says in private how many rows were"
    f" understood. '{PROGRAM} plan' predicts the error, without data; 'ledger' keeps one budget for many releases, and"
    " 'programme' plans them. Readers of a release run 'verify RECORD'. Each has --help. The command ends with 0; with"
    " 2 after one line that says what to change; or with 130 if it was interrupted."
)


class Command(NamedTuple):
    """A command: what it does, its words by title, and flags that are no words of the file."""

    description: str
    words: Mapping[str, Iterable[str]]
    own: dict[str, dict[str, Any]]
    place: tuple[str, str] = ("file", "the log, or a publication file, .toml")


class _Parser(argparse.ArgumentParser):
    """Raises errors, so that all errors of the command line take one way out."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {PROGRAM} --help")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options: every word by its name, ``command``, and ``publication``, the file if there is one.

    :raises ValueError: if they cannot be understood, or one that must be given is left out.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    named = bool(arguments) and arguments[0] in COMMANDS
    name = arguments[0] if named else "release"
    parser = _parser(name, f"{PROGRAM} {name}" if named else PROGRAM)
    own = dict.fromkeys((*COMMANDS[name].own, COMMANDS[name].place[0], "quiet"))
    found = argparse.Namespace(**dict.fromkeys(WORDS) | {option.lstrip("-").replace("-", "_"): None for option in own})
    parser.parse_args(arguments[named:], found)
    found.command, found.publication, found.lines = name, None, {}
    _read(found, parser)
    try:
        _FINISH[name](found, parser)
    except ValueError as error:
        raise ValueError(located(str(error), found)) from None
    return found


def _parser(name: str, program: str) -> _Parser:
    description, words, own, place = COMMANDS[name]
    parser = _Parser(prog=program, description=description, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument(
        "--quiet", action="store_true", default=None, help="say nothing but errors, and what a ledger pays for"
    )
    several = _COMPARED if name == "plan" else ()
    parser.add_argument(place[0], type=Path, help=place[1], nargs=None if name in ("verify", "ledger", "init") else "?")
    for title, names in words.items():
        group = parser.add_argument_group(title)
        for each in names:
            if each == "file" and place[0] == "file":
                continue
            word = WORDS[each]
            how: dict[str, Any] = {"help": word.help.replace("%", "%%"), "default": None}
            if word.kind is bool:
                how["action"] = "store_true"
            else:
                how |= {"type": _typed(word), "choices": word.choices or None}
                how |= {"metavar": each.upper()} if not word.choices else {}
                how |= {"nargs": "+"} if word.many or each in several else {}
            group.add_argument(flag(each), **how)
    for option, how in own.items():
        parser.add_argument(option, **{"default": None} | how)
    return parser


def flags_of(name: str) -> list[str]:
    """Return the flags of a command."""
    return sorted(each for each in _parser(name, PROGRAM)._option_string_actions if each.startswith("--"))


def _version() -> str:
    from opendp_timeseries import __version__

    return f"opendp_timeseries {__version__}"


def _typed(word: Word) -> Callable[[str], Any]:
    if word.kind in (int, float, str, Path):
        return word.kind

    def read(text: str) -> Any:
        try:
            return word.kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"({text}) {error}") from None

    return read


def _read(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Take in the publication file, if one is given."""
    place = COMMANDS[options.command].place[0]
    path = getattr(options, place)
    if options.command == "init" or path is None or path.suffix.lower() != ".toml":
        return
    options.publication, values, options.lines = path, *read_publication(path)
    setattr(options, place, None)
    for name, value in values.items():
        if getattr(options, name) is None:
            setattr(options, name, [value] if options.command == "plan" and name in _COMPARED else value)
        elif options.command != "plan":  # which compares
            raise ValueError(
                f"{path}, line {options.lines[name]}: {name} is said here and by {flag(name)}; change it here, or leave"
                " the flag out"
            )
    for name in ("file", "ledger", "output"):
        if getattr(options, name) is not None:
            setattr(options, name, path.parent / getattr(options, name))
    if options.file is None and place == "file" and options.command in _REQUIRED:
        parser.error(f"{path} must say, in [log], which file is the log: file")


def _complete(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what may be left out, and refuse what does not go together."""
    file, given = options.file, {name for name in WORDS if getattr(options, name) is not None}
    flights = {} if file is not None else vars(_parser("release", PROGRAM).parse_args(_FLIGHTS.split()))
    defaults = {name: value for name, value in flights.items() if value is not None} | _DEFAULTS
    # The programme of a ledger determines these, if none of them is given.
    determined = set(_PLANNED if "ledger" in given and not given & {"epsilon", "delta", "every"} else ())
    determined |= {"size"} if "end" in given else set()
    _refuse_alone(options, given, parser)
    if file is None:
        for name in given.intersection(_OF_FILES):
            parser.error(f"{flag(name)} ({getattr(options, name)}) is for a file: give one, or leave it out")
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
    capless = [name for name in _CAPPED if name in given and "participation_cap" not in given]
    if capless:
        parser.error(f"{_flags(capless)} is for a count with a cap: give --participation-cap, or leave it out")
    for name in defaults.keys() - given - determined:
        setattr(options, name, defaults[name])
    if options.participation_cap is None and (options.sampling_probability or 1) < 1:
        sampled = f"--sampling-probability ({options.sampling_probability:g})"
        parser.error(f"{sampled} is for a count with a cap: give --participation-cap, or leave it out")
    _fill(options)


def _refuse_alone(options: argparse.Namespace, given: set[str], parser: argparse.ArgumentParser) -> None:
    """Refuse what goes with another word only, and two that exclude each other."""
    if {"size", "end"} <= given:
        parser.error(f"--size ({options.size}) and --end ({options.end}) must not both be given: leave one out")
    if getattr(options, "resume", None) and options.ledger is None:
        parser.error("--resume is for a release with --ledger")
    if ("by" in given) != ("keys" in given):
        parser.error("--by and --keys go together: a column, and its keys, which are public and not read from the log")
    panels = [name for name in _OF_PANELS if name in given and "by" not in given]
    if panels:
        parser.error(f"{_flags(panels)} is for several keys: give --by and --keys, or leave it out")
    if "filter_std" in given and {"total", "groups"} & given:
        parser.error("--filter-std is for counts without totals: leave it out, or --total and --groups")
    if {"people", "people_cap"} & given and "period" in given:
        parser.error("--people and --people-cap count all that somebody did: leave them out, or --period")
    if "every" in given:
        if "end" not in given:
            parser.error(f"--every ({options.every}) makes a programme from --start to --end: give both")
        if "ledger" not in given:
            parser.error(f"--every ({options.every}) makes a programme, which is kept in a ledger: give --ledger")
    elif options.command == "programme":
        parser.error("a programme releases one part after another: give --every, such as 1mo for one each month")
    elif getattr(options, "number", None) is not None:
        parser.error(
            f"--number ({options.number}) is the number of a part of a programme: give --every, or leave it out"
        )


def _fill(options: argparse.Namespace) -> None:
    for name, word in WORDS.items():
        if getattr(options, name) is None and word.usual is not None:
            setattr(options, name, word.usual)
    if options.publication is not None and "output" not in options.lines:
        options.output = options.publication.parent / options.output
    options.season = [steps for steps, _ in options.season] if options.season else None
    options.zone = options.zone or "UTC"


def _ledger(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.publication is not None:
        if options.ledger is None:
            parser.error(f"{options.publication} must say, in [budget], which file is the ledger: ledger")
        for name in (*_OF_LEDGERS, *WORDS):  # they are of its releases
            if name in options.lines and name != "ledger":
                setattr(options, name, None)
    given = [name for name in _OF_LEDGERS if getattr(options, name) not in (None, False)]
    if given and not options.new:
        parser.error(f"{_flags(given)} is fixed when a ledger is made: give --new, or leave it out")
    if options.new and [name for name in given if name in _BUDGET] not in (["epsilon", "delta"], ["programme"]):
        parser.error("--new takes the budget of all releases together: --epsilon and --delta, or --programme")
    if options.zone is not None and options.period is None:
        parser.error(f"--zone ({options.zone}) is the zone of --period: give both, or leave it out")
    options.zone = options.zone or (options.period and "UTC")


def _plan(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.file is not None and "file" not in options.lines:
        parser.error(f"unrecognized arguments: {options.file}")
    missing = [name for name in ("participation_cap", "epsilon", "delta") if getattr(options, name) is None]
    if missing:
        parser.error(f"the following arguments are required: {_flags(missing)}")
    if "period" in options.lines or "by" in options.lines:
        raise ValueError("plan is for one series and all that somebody does: leave out --period, --by and --keys")
    for steps, amplitude in options.season or ():
        if amplitude is None:
            parser.error(f"argument --season: ({steps:g}) must be steps and an amplitude in counts, such as 24:90")
    options.season_amplitudes = dict(options.season or ()) or None
    options.std = options.filter_std or [0.0, 3.0, 10.0]
    options.gap, options.step_cap = options.gap or [1], options.step_cap or 1
    options.sampling = options.sampling or "poisson"
    options.zone = options.zone or (options.start and "UTC")


def _verify(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.publication is not None:
        _fill(options)


def _flags(names: Iterable[str]) -> str:
    return ", ".join("--size or --end" if name == "size" else flag(name) for name in names)


def _nothing(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Take the options as they are."""


_FINISH: Final = {
    **dict.fromkeys(("release", "check", "programme"), _complete),
    "plan": _plan,
    "ledger": _ledger,
    "verify": _verify,
    "init": _nothing,
    "completion": _nothing,
}
_YES: Final[dict[str, Any]] = {"action": "store_true"}
_ALL: Final = {title: ["individuals"] if table == "plan" else words for table, (title, words) in TABLES.items()}
_JSON: Final = {"--json": _YES | {"help": "print JSON"}}
_OF_RELEASES: Final = {
    "--resume": _YES | {"help": "write the files of a release that the ledger has paid for already"},
    "--force": _YES | {"help": "replace an earlier release at OUTPUT"},
    "--number": {"type": int, "help": "which part of a programme; the next one, if left out"},
}
_NEW: Final = _YES | {"help": "make the file, which must not exist yet"}
_PROMISE: Final = "promise that no caps, sampling or noise are chosen by earlier releases, for less noise"
COMMANDS: Final[dict[str, Command]] = {
    "release": Command(
        "Release a differentially private series of counts per time step. It protects each individual's whole history,"
        " unless --period is given. Without a file, it counts the aircraft that departed from New York in 2013.",
        _ALL,
        _OF_RELEASES,
    ),
    "check": Command(
        "Say on standard error how the rows of a log are read, and what the caps would leave out. What it says is"
        " private: do not publish it, and choose no parameter of a release by it. Nothing is written.",
        _ALL,
        _OF_RELEASES,
    ),
    "init": Command(
        "Write a publication file, which says all that is public about a release, with a comment for each word. What"
        " flags say is filled in; in a terminal, it asks for the rest that must be given.",
        dict(TABLES.values()),
        {},
        ("path", "the file to write, such as publication.toml"),
    ),
    "plan": Command(
        "Say which caps, filter and sampling to choose, and what error to expect, from public facts and from your"
        " assumptions about the series. It reads no data. Several caps, gaps, shares and filters are compared; flags"
        " go before what a publication file says.",
        {
            "the steps of time": [name for name in TABLES["grid"][1] if name != "every"],
            "the count": ("participation_cap", "gap", "step_cap", "filter_std"),
            "the guarantee": ("epsilon", "delta", "sampling_probability", "sampling"),
            TABLES["plan"][0]: ("participation", "level", "deviation", "time_scale", "season"),
        },
        _JSON,
        ("file", "a publication file, .toml"),
    ),
    "verify": Command(
        "Recompute the guarantee of a release from the caps, filter, sampling and noise in its record, and reject the"
        " record if it claims more privacy than they give. It needs no data.",
        {},
        {},
        ("record", "the OUTPUT.json of a release, or the publication file of releases"),
    ),
    "ledger": Command(
        "Say what was released about one population, what it guarantees together, and what is left of its budget; every"
        " record is verified. With --new, make a ledger, for the --ledger of releases.",
        {"a new ledger": ("epsilon", "delta", "period", "zone")},
        {
            "--new": _NEW,
            "--programme": {"type": Path, "help": "releases planned in advance, as written by Programme.to_json"},
            "--parameters-fixed": _YES | {"help": _PROMISE},
            "--add": {
                "type": Path,
                "nargs": "+",
                "default": [],
                "help": "enter releases made without it, by their records",
            },
            **_JSON,
        },
        ("ledger", "the file, or a publication file that names it"),
    ),
    "programme": Command(
        "Say what a programme releases, such as one part each month: what was released, what is next, and what is left;"
        " before any data are read. With --new, make its ledger, in which the noise of all parts is fixed.",
        _ALL,
        {"--new": _NEW, **_JSON},
    ),
    "completion": Command(
        "Print a script that completes commands and flags of opendp-timeseries in a shell. For bash, put into"
        ' ~/.bashrc: eval "$(opendp-timeseries completion)". For zsh, put before it: autoload -U bashcompinit &&'
        " bashcompinit.",
        {},
        {},
        ("shell", "bash or zsh, which take the same script"),
    ),
}
