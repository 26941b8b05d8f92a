"""What pays for a release: nothing, a new entry of a ledger, or one that is spent already."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries.commandline.interrupts import uninterrupted
from opendp_timeseries.plugin.known import parts_of

__all__ = ["Spending"]


class Spending:
    """One release, which can be resumed wherever it ends after the ledger has paid for it.

    :param resume: finish the release of an entry that is spent, or get it again.
    :raises ValueError: if the ledger refuses the release, or there is nothing to resume, or something that must be.
    """

    def __init__(self, measurement: dp.Measurement, ledger: ts.Ledger | None, *, resume: bool) -> None:
        self._measurement, self._ledger, self._resume = measurement, ledger, resume
        self._number: int | None = None  # of the entry, once it is spent or about to be
        self.made: ts.Release | None = None  # what a finished entry has paid for
        if ledger is None:
            return
        designs = tuple(part.design for part in parts_of(measurement))
        paid = [entry for entry in ledger.entries if entry.designs == designs]
        unfinished = [entry for entry in paid if entry.released is None]
        if not resume and not unfinished:
            ledger.check(measurement)
        elif not resume:
            problem = f"entry {unfinished[-1].number} of {ledger.path} has paid for this release, which is unfinished"
            raise ValueError(f"{problem}: give --resume, which costs nothing")
        elif not paid:
            raise ValueError(f"resume: {ledger.path} has no entry for this release; leave it out to make a new one")
        else:
            self._number = (unfinished or paid)[-1].number
            if not unfinished:
                self.made = [release for release in ledger.releases() if release.design == designs[0]][-1]

    def release(self, log: Any) -> Any:
        """Make the release. Interrupts wait until it is made."""
        if (ledger := self._ledger) is None:
            return uninterrupted(lambda: self._measurement(log))

        def announced() -> Any:
            self._number = self._number or len(ledger.entries) + 1
            spent = f"Entry {self._number} of {ledger.path} pays for this release"  # whoever is killed can say nothing
            remedy = "If its files do not appear, run the same command with --resume, which costs nothing."
            print(f"{spent}. {remedy}", file=sys.stderr, flush=True)
            return log

        return uninterrupted(lambda: ledger.release(self._measurement, announced, resume=self._resume))

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Add to whatever ends the block which entry is spent, and how to get its files."""
        try:
            yield
        except BaseException as error:
            if (ledger := self._ledger) is not None and self._number is not None:
                spent = True
                with contextlib.suppress(Exception):  # what cannot be found out may be spent
                    spent = self._number <= len(ledger.entries)
                if spent:
                    remedy = "run the same command with --resume for its files"
                    error.add_note(f"entry {self._number} of {ledger.path} is spent: {remedy}")
            raise
