"""Say in private how a log is read. Nothing of it may reach a release."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import Final

import opendp_timeseries as ts
from opendp_timeseries.commandline.inputs import grid_of, read_log

__all__ = ["check"]

_ADVICE: Final = (
    "These numbers are exact, and nothing protects them. Use them to find a wrong column, time format, zone or year."
    " A start, size or cap that is chosen by them says something of the log by itself, and the guarantee of a"
    " release does not cover that."
)


def check(options: argparse.Namespace) -> str:
    """Print on standard error how the rows are read, and what the caps would leave out. There is nothing to publish.

    :raises Exception: as for the options and the log.
    """
    if sys.stderr is None:  # print would choose standard output, which may be published
        raise OSError("standard error is closed, and what check says is private; open it")
    grid = grid_of(options)
    found = ts.check_log(
        read_log(options),
        identifier=options.identifier,
        time=options.time,
        grid=grid,
        participation_cap=options.participation_cap,
        step_cap=options.step_cap,
        gap=options.gap,
        period=options.period,
    )
    print(found, textwrap.fill(_ADVICE, 100, break_on_hyphens=False), sep="\n\n", file=sys.stderr)
    return ""
