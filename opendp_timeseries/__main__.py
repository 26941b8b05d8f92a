"""The command line, ``python -m opendp_timeseries``. See docs/howto/command-line.md.

The module of a command is imported when it runs, and OpenDP with it, so that help and errors in options appear at once.
"""

import argparse
import errno
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.commandline.arguments import COMMANDS, parse
from opendp_timeseries.commandline.spelling import phrase
from opendp_timeseries.commandline.waiting import interruptible

#: The module of each command.
_MODULES: Final = {
    "release": "release",
    "check": "commands",
    "plan": "commands",
    "verify": "verify",
    "ledger": "commands",
    "programme": "programme",
    "summary": "summary",
    "init": "publication",
}
_WITHOUT_OPENDP: Final = ("verify", "init")
_ERRORS: Final = (TypeError, ValueError, ImportError, OSError, MemoryError, RuntimeError)
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_MEMORY: Final = ("MemoryError", "Unable to allocate", "can't start new thread")
_MAPPING_FAILED: Final = "failed to map segment"  # as the linker says where a library finds no memory
_ERROR: Final = re.compile(r"[\w.]*(Error|Refusal)\b")
_MAX_LENGTH: Final = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    :return: 0; 2 after an error, explained by a line on standard error; 130 after an interrupt.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # its encoding may know no Greek
    options = argparse.Namespace()
    try:
        with interruptible(), warnings.catch_warnings():
            parse(sys.argv[1:] if arguments is None else arguments, options)
            output = _command(options.command)(options)
    except (KeyboardInterrupt, *_ERRORS, *_errors_of_opendp()) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        line = "interrupted: no file is left half-written" if interrupted else f"error: {_one_line(error, options)}"
        print("; ".join([line, *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 130 if interrupted else 2
    if options.quiet:
        return 0
    try:
        print(output, end="\n" if output else "", flush=True)
    except OSError:  # the reader of a pipe has closed it; all files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _command(name: str) -> Callable[[argparse.Namespace], str]:
    """Return what runs a command, in a process whose warnings its output repeats."""
    command: Callable[[argparse.Namespace], str] = getattr(
        import_module(f"opendp_timeseries.commandline.{_MODULES[name]}"), name
    )
    if name not in _WITHOUT_OPENDP:
        from opendp_timeseries.accounting.budget import LargeDeltaWarning
        from opendp_timeseries.plugin.native import enable_features
        from opendp_timeseries.plugin.spaces import PeriodUnitWarning

        enable_features("contrib", "honest-but-curious")
        for category in (LargeDeltaWarning, PeriodUnitWarning):
            warnings.simplefilter("ignore", category)
    return command


def _errors_of_opendp() -> tuple[Any, ...]:
    """Return OpenDP's errors, if it has been imported."""
    native = sys.modules.get("opendp_timeseries.plugin.native")
    return () if native is None else (native.OpenDPException,)


def _one_line(error: BaseException, options: argparse.Namespace) -> str:
    """Return a one-line error message."""
    text = " ".join(_explained(error, options).split())
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH // 2]} … {text[-_MAX_LENGTH // 2 :]}"


def _explained(error: BaseException, options: argparse.Namespace) -> str:
    text, publication = str(error), getattr(options, "publication", None)
    if isinstance(error, _errors_of_opendp()):  # it quotes the original error in the last line of its traceback
        lines = (error.message or text).strip().splitlines()
        text = next(filter(_ERROR.match, reversed(lines)), lines[-1])
        text = text if text.startswith(_NO_MEMORY) else re.sub(r"^[\w.]*(Error|Refusal): ", "", text)
    if text.startswith(_NO_MEMORY) or _MAPPING_FAILED in text or any(map(_is_memory_error, _error_chain(error))):
        remedy = "use a machine with more, or fewer steps (`size`)"
        error = Refusal("file", Quoted(getattr(options, "file", None)), "takes more memory than there is", remedy)
    elif isinstance(error, OSError) and error.strerror:
        parameter = _parameter_of(str(error.filename), options)
        more_space = f"free some space there{', or choose another `output`' if parameter != 'ledger' else ''}"
        is_full = error.errno in _DISK_FULL
        remedy = more_space if is_full else "check that it exists, and that you may read or write it"
        error = Refusal(parameter, Quoted(error.filename), f"cannot be used: {error.strerror}", remedy)
    if isinstance(error, Refusal):
        return phrase(error, options)
    return text if publication is None else f"{publication}: {text}"


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and what it was raised for: libraries wrap what ended them."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_memory_error(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM


def _parameter_of(path: str, options: argparse.Namespace) -> str:
    """Return the publication key (or "ledger") that names this path, so that the message can cite its line."""
    ledger = getattr(options, "ledger", None)
    if ledger is not None and Path(path) == ledger.absolute():
        return "ledger"
    if getattr(options, "publication", None) is None:
        operand = COMMANDS[options.command].operand[0]
        return operand if path == str(getattr(options, operand)) else "file"
    if path in (options.keys or ()):
        return "keys"
    return "output" if path != str(options.file) and path.startswith(str(options.output)) else "file"


if __name__ == "__main__":
    sys.exit(main())
