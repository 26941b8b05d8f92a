"""Verify the record of a release, as its reader."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from opendp_timeseries.release.documents import Document, read_document

__all__ = ["read", "verify"]


def read(record: Path) -> Document:
    """Read and verify what was written beside a release.

    :raises ValueError: if it is no record, or claims less loss than follows from its own parameters.
    :raises OSError: if it cannot be read.
    """
    try:
        return read_document(record.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"record ({record}) is refused: {error}; give the OUTPUT.json of a release") from None


def verify(options: argparse.Namespace) -> str:
    """Compute the loss of a record again, and return what the record guarantees.

    :raises ValueError: if it is no record, or claims less loss than follows from its own parameters.
    :raises OSError: if it cannot be read.
    """
    releases, together = read(options.record)
    guarantees = "; and ".join(release.guarantee() for release in releases)
    of_all = "" if len(releases) == 1 else f". All of them together: {together}"
    return textwrap.fill(
        f"Verified: the parameters in {options.record} give {guarantees}{of_all}. No record can show that the values"
        " came from this mechanism, or that the caps were enforced: that is a matter of trust in its publisher.",
        100,
        break_on_hyphens=False,
    )
