"""Words on standard error while something takes long."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

__all__ = ["stage"]

#: Seconds after which somebody who waits wants to know for what.
_PATIENCE = 2.0


@contextlib.contextmanager
def stage(doing: str, *, quiet: bool | None) -> Iterator[None]:
    """Say in a terminal what is being done in the block, if it takes more than two seconds."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE, print, [f"{doing} …"], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
