"""What the command line says, by flags or by a publication file. What is public must be given, not guessed."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from opendp_timeseries import __version__
from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.commandline.publication import read_publication
from opendp_timeseries.commandline.words import (
    EVERY,
    RUN,
    TABLES,
    WORDS,
    Word,
    check_drawable,
    flag,
    relocate,
    steps_of,
    words_of,
)
from opendp_timeseries.counting.files import CSV_SUFFIXES, PARQUET_SUFFIXES

PROGRAM: Final = "python -m opendp_timeseries"

_EPILOG: Final = (
    f"Instead of flags, give a file with the same words: '{PROGRAM} init publication.toml' writes one. Before the first"
    f" release from a log, run '{PROGRAM} check' with the same options: it says in private how many rows were"
    f" understood. '{PROGRAM} plan' predicts the error, without data; 'ledger' keeps one budget for many releases, and"
    " 'programme' plans them. Readers of a release run 'verify RECORD'. Each has --help. The command ends with 0; with"
    " 2 after one line that says what to change; or with 130 if it was interrupted."
)
_OF_CSV: Final = ("time_format", "time_unit", "value_decimal", "delimiter", "encoding")


class Command(NamedTuple):
    """A command: what it does, its operand with what that is, and what completes its options."""

    description: str
    operand: tuple[str, str]
    complete: Callable[[argparse.Namespace], None]


class _Parser(argparse.ArgumentParser):
    """Raises errors, so that all errors of the command line take one way out."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


class _Once(argparse.Action):
    """Takes what an option says, and refuses to be said again: the last would count, without a word."""

    def __call__(self, parser: object, namespace: object, values: object, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            remedy = "give all its values after one" if self.nargs == "+" else "leave one out"
            raise _UsageRefusal(self.dest, ..., "is given twice", remedy)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


class _UsageError(ValueError):
    """Error of the parser, that the help of the command explains further."""


class _UsageRefusal(Refusal):
    """Refusal that the help of the command explains further."""


def parse(arguments: Sequence[str], options: argparse.Namespace | None = None) -> argparse.Namespace:
    """Return the options: every word by its name, ``command``, and ``publication``, the file if there is one.

    :param options: takes them, so that the caller has them if one is refused.
    :raises ValueError: if they cannot be understood, or one that must be given is left out.
    :raises SystemExit: after ``--help`` and ``--version``.
    """
    named = bool(arguments) and arguments[0] in COMMANDS
    name = arguments[0] if named else "release"
    options = options or argparse.Namespace()
    vars(options).update(dict.fromkeys((*EVERY, COMMANDS[name].operand[0], "publication")), command=name, lines={})
    program = f"{PROGRAM} {name}" if named else PROGRAM
    try:
        if not named and arguments and not (arguments[0].startswith("-") or Path(arguments[0]).suffix):
            raise _unknown(arguments[0])
        _parser(name, program).parse_args(arguments[named:], options)
        if name != "init":
            _read(options, COMMANDS[name].operand[0])
        for key in WORDS:
            value = getattr(options, key)
            texts = value if isinstance(value, list) else [value]
            check_drawable(key, (text for text in texts if isinstance(text, str)))
        COMMANDS[name].complete(options)
    except (_UsageError, _UsageRefusal) as error:
        error.add_note(f"see {program} --help")
        raise
    return options


def _unknown(command: str) -> _UsageRefusal:
    similar = difflib.get_close_matches(command, COMMANDS, 1)
    remedy = f"did you mean {similar[0]}?" if similar else f"the commands are {', '.join(COMMANDS)}"
    return _UsageRefusal("command", command, "is not known, nor a file that ends in .toml, .csv or .parquet", remedy)


def _parser(name: str, program: str) -> _Parser:
    description, (operand, operand_help), _ = COMMANDS[name]
    parser = _Parser(prog=program, description=description, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"opendp_timeseries {__version__}")
    parser.add_argument(operand, type=Path, help=operand_help, nargs="?" if operand == "file" else None)
    taken = words_of(name)
    for title, words in (*TABLES.values(), ("this run", RUN)):
        group = parser.add_argument_group(title)
        for key, word in words.items():
            how: dict[str, Any] = {"default": None, "help": word.explained.replace("%", "%%"), "action": _Once}
            if word.kind is bool:
                how["nargs"] = 0
            elif word.choices:
                how["choices"] = word.choices
            else:
                how |= {"type": _typed(word), "metavar": key.upper()}
            if word.is_list or (word.compared and name == "plan"):
                how["nargs"] = "+"
            if key in taken and key != operand:
                group.add_argument(flag(key), **how)
    return parser


def _typed(word: Word) -> Callable[[str], Any]:
    if word.kind in (int, float, str, Path):
        return word.kind

    def read(text: str) -> Any:
        try:
            return word.kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"({text}) {error}") from None

    return read


def _read(options: argparse.Namespace, operand: str) -> None:
    """Take in the publication file, if one is given. The command ``ledger`` takes nothing but its ledger."""
    path: Path | None = getattr(options, operand)
    if path is None or path.suffix.lower() != ".toml":
        return
    options.publication, folder = path, path.parent
    values = read_publication(path, options.lines)
    setattr(options, operand, None)
    for name, value in values.items():
        if options.command == "ledger" and name != "ledger":
            continue
        value = relocate(name, value, folder.__truediv__)
        if getattr(options, name) is None:
            setattr(options, name, None if value is False else value)
        elif options.command != "plan":  # which compares
            raise Refusal(name, ..., f"is said here and by {flag(name)}", "change it here, or leave the flag out")
    options.output = options.output or folder / "release"


def _complete(options: argparse.Namespace) -> None:
    """Fill in what may be left out, and refuse what does not go together."""
    _check_pairs(options)
    file, is_flights = options.file, options.file is None and options.publication is None
    given = {name for name in WORDS if getattr(options, name) is not None}
    by_programme = "ledger" in given and not given & {"epsilon", "delta", "every"}
    planned = {name for name, word in WORDS.items() if word.planned and by_programme}
    for name, word in WORDS.items() if is_flights else ():
        if name not in given | planned and not (name == "size" and "end" in given):
            setattr(options, name, word.flights)

    def is_needed(name: str) -> bool:
        if name == "every":
            return options.command in ("programme", "summary")
        if name in TABLES["budget"][1] and options.command == "check":
            return False
        has_other = options.size is not None if name == "end" else is_flights if name == "file" else name in planned
        return WORDS[name].ask == "must" and not has_other

    _check_given(options, *filter(is_needed, WORDS))
    if file is not None:
        suffix, suffixes = file.suffix.lower(), CSV_SUFFIXES + PARQUET_SUFFIXES
        if suffix not in suffixes:
            raise _UsageRefusal("file", file, f"must end in one of {', '.join(suffixes)}", "convert or rename it")
        text = ", ".join(f"`{name}`" for name in _OF_CSV if name in given)
        if suffix in PARQUET_SUFFIXES and text:
            raise _UsageRefusal("file", file, "has typed columns", f"leave out {text}, which are for CSV files")
    if options.individuals is not None:
        check.integer("individuals", options.individuals, minimum=1)
    _fill(options, *planned)
    options.amplitudes = [steps_of(season) for season in options.season or ()]
    options.season = [steps for steps, _ in options.amplitudes] or None
    options.zone = options.zone or "UTC"


def _check_given(options: argparse.Namespace, *names: str) -> None:
    """Refuse options without some that must be given."""
    missing = [name for name in names if getattr(options, name) is None]
    if missing:
        further = ", ".join("`end` or `size`" if name == "end" else f"`{name}`" for name in missing[1:])
        rule = f"{'or `size` ' if missing[0] == 'end' else ''}must be given, as it is public"
        raise _UsageRefusal(missing[0], ..., f"{rule}{f', and so must {further}' if further else ''}")


def _check_pairs(options: argparse.Namespace) -> None:
    """Refuse what says nothing without another word, and what must not be given with one."""

    def quotable(name: str) -> Any:
        value = getattr(options, name)
        return ... if isinstance(value, (bool, list)) else Quoted(value)

    for name, word in EVERY.items():
        if getattr(options, name) in (None, word.usual):
            continue
        value = quotable(name)
        for need in word.needs:
            if getattr(options, need) is None:
                remedy = "give its name" if need == "file" else f"give `{need}`"
                raise _UsageRefusal(name, value, f"is for {EVERY[need].gives}", f"{remedy}, or leave it out")
        for rival, why in word.bars:
            if getattr(options, rival) is not None:
                rival_value = "" if quotable(rival) is ... else f" ({quotable(rival)})"
                rule = f"and `{rival}`{rival_value} must not both be given{why}"
                raise _UsageRefusal(name, value, rule, "leave one out")


def _fill(options: argparse.Namespace, *but: str) -> None:
    for name, word in WORDS.items():
        if getattr(options, name) is None and name not in but:
            setattr(options, name, word.usual)


def _ledger(options: argparse.Namespace) -> None:
    if options.ledger is None:
        raise _UsageRefusal("ledger", ..., "must be given, in [budget], as the file of the ledger")
    given = [name for name, word in EVERY.items() if word.fixed and getattr(options, name) is not None]
    if given and not options.new:
        raise _UsageRefusal(given[0], ..., "is fixed when a ledger is made", "give `new`, or leave it out")
    budget = [name for name in ("epsilon", "delta", "programme") if name in given]
    if options.new and budget not in (["epsilon", "delta"], ["programme"]):
        remedy = "give `epsilon` and `delta`, or `programme`"
        raise _UsageRefusal("new", ..., "takes the budget of all releases together", remedy)
    if options.zone is not None and options.period is None:
        raise _UsageRefusal("zone", options.zone, "is the zone of `period`", "give both, or leave it out")
    options.zone = options.zone or (options.period and "UTC")
    of_page = [name for name in ("season", "holidays", "title") if getattr(options, name) is not None]
    if of_page and not options.join:
        raise _UsageRefusal(of_page[0], ..., "is for the page of `join`", "give both, or leave it out")
    options.season = [steps for steps, _ in map(steps_of, options.season or ())] or None


def _plan(options: argparse.Namespace) -> None:
    if options.file is not None and options.publication is None:
        raise _UsageRefusal("file", options.file, "must be a publication file, which ends in .toml")
    _check_given(options, "epsilon", "delta")
    if given := [name for name in ("period", "every") if getattr(options, name)]:
        rule = "must be left out of 'plan', which is for one release, and for all that somebody does"
        remedy = "of a programme, the command 'programme' says the noise before any of it is fixed"
        raise _UsageRefusal(given[0], ..., rule, remedy)
    options.amplitudes = [steps_of(season) for season in options.season or ()]
    for steps, amplitude in options.amplitudes:
        if amplitude is None:
            text = steps if isinstance(steps, str) else f"{steps:g}"
            raise _UsageRefusal("season", Quoted(text), "must be steps and an amplitude in counts, such as 24:90")
    options.zone = options.zone or (options.start and "UTC")


_LOG: Final = ("file", "the log, or a publication file, .toml")
COMMANDS: Final = {
    "release": Command(
        "Release a differentially private series of counts per time step. It protects each individual's whole history,"
        " unless --period is given. Without a file, it counts the aircraft that departed from New York in 2013.",
        _LOG,
        _complete,
    ),
    "check": Command(
        "Say on standard error how the rows of a log are read, and what the caps would leave out. What it says is"
        " private: do not publish it, and choose no parameter of a release by it. Nothing is written.",
        _LOG,
        _complete,
    ),
    "init": Command(
        "Write a publication file, which says all that is public about a release, with a comment for each word. What"
        " flags say is filled in; in a terminal, it asks for the rest that must be given.",
        ("path", "the file to write, such as publication.toml"),
        lambda options: None,
    ),
    "plan": Command(
        "Say which caps, filter and sampling to choose, and what error to expect, from public facts and from your"
        " assumptions about the series. It reads no data. Several caps, gaps, shares and filters are compared; flags"
        " go before what a publication file says.",
        ("file", "a publication file, .toml"),
        _plan,
    ),
    "verify": Command(
        "Recompute the guarantee of a release from the caps, filter, sampling and noise in its record, and reject the"
        " record if it claims more privacy than they give. It needs no data.",
        ("record", "the OUTPUT.json of a release, or the publication file of releases"),
        _fill,
    ),
    "ledger": Command(
        "Say what was released about one population, what it guarantees together, and what is left of its budget; every"
        " record is verified. With --new, make a ledger, for the --ledger of releases.",
        ("ledger", "the file, or a publication file that names it"),
        _ledger,
    ),
    "summary": Command(
        "Write one page of all parts of a programme that were released, joined: OUTPUT.html, with OUTPUT.csv,"
        " OUTPUT.json, and with --spreadsheet OUTPUT.xlsx. It has totals of each part, a usual week and day, what may"
        " be compared and what was revised. It reads no log, and costs nothing; run it after each part.",
        _LOG,
        _complete,
    ),
    "programme": Command(
        "Say what a programme releases, such as one part each month: what was released, what is next, and what is left;"
        " before any data are read. With --new, make its ledger, in which the noise of all parts is fixed.",
        _LOG,
        _complete,
    ),
}
