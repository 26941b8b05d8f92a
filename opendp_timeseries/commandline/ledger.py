"""Make a ledger, or say what is in one."""

from __future__ import annotations

import argparse
import json
import textwrap

import opendp_timeseries as ts
from opendp_timeseries.commandline.verify import read

__all__ = ["ledger"]


def ledger(options: argparse.Namespace) -> str:
    """Make a ledger, enter records, or verify it, and return what is in it.

    :raises ValueError: if it is no ledger, or a record claims less loss than follows from its own parameters.
    :raises OSError: if it cannot be read, or made where it is to be.
    """
    if options.new:
        programme = None
        if options.programme is not None:
            try:
                programme = ts.Programme.from_json(options.programme.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"programme ({options.programme}) is refused: {error}") from None
        ts.Ledger.create(
            options.ledger,
            epsilon=options.epsilon,
            delta=options.delta,
            programme=programme,
            parameters_fixed=options.parameters_fixed,
            period=options.period,
            zone=None if options.period is None else options.zone or "UTC",
        )
    found = ts.Ledger(options.ledger)
    for release in [release for path in options.add for release in read(path).releases]:
        found.add(release)
    found.verify()
    if options.json:
        return json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False)
    trust = (
        "No file can show that nothing was released without it, or that it is not an older copy of itself. Publish the"
        f" digest of each time, and readers can see that nothing was taken back: {found.digest[:16]}"
    )
    return f"{found!r}\n\n{textwrap.fill(trust, 100, break_on_hyphens=False)}"
