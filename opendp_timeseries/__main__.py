"""The command line, ``python -m opendp_timeseries``. See docs/howto/command-line.md."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import opendp.prelude as dp

from opendp_timeseries.commandline.arguments import HELP, parse
from opendp_timeseries.commandline.check import check
from opendp_timeseries.commandline.interrupts import interruptible
from opendp_timeseries.commandline.ledger import ledger
from opendp_timeseries.commandline.plan import plan
from opendp_timeseries.commandline.release import release
from opendp_timeseries.commandline.verify import verify

__all__ = ["main"]

_COMMANDS = {"release": release, "check": check, "plan": plan, "verify": verify, "ledger": ledger}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says.

    :return: 0, or 2 after a refusal, which one line on standard error explains; 130 after an interrupt.
    """
    try:
        with interruptible():
            options = parse(sys.argv[1:] if arguments is None else arguments)
            dp.enable_features("contrib", "honest-but-curious")
            said = _COMMANDS[options.command](options)
    except KeyboardInterrupt:
        print("interrupted: all earlier files are whole", file=sys.stderr)
        return 130
    except (TypeError, ValueError, ImportError, OSError, MemoryError, RuntimeError, dp.OpenDPException) as error:
        print(f"error: {_in_a_line(error)}", file=sys.stderr)
        return 2
    if said:
        _say(said)
    return 0


def _say(text: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no Greek
    try:
        print(text, flush=True)
    except OSError:  # whoever reads has seen enough; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_a_line(error: BaseException) -> str:
    """Say what to change. Where OpenDP wraps a refusal, that is the last line of the traceback that it quotes."""
    if isinstance(error, dp.OpenDPException):
        lines = (error.message or str(error)).strip().splitlines()
        return lines[-1].partition("Error: ")[2] or lines[-1]
    if isinstance(error, MemoryError):
        return f"there is not enough memory; choose fewer steps or a machine with more, {HELP}"
    if isinstance(error, OSError) and error.strerror:
        named = f"file ({error.filename}): " if error.filename else ""
        return f"{named}{error.strerror}; check that it is there, and that it may be read or written"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
