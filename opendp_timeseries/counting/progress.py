"""How much of a log is read, for whoever waits: a share of the bytes or rows of files, which their operator knows."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

_listener: Final[ContextVar[Callable[[float], None] | None]] = ContextVar("hearer", default=None)


@contextlib.contextmanager
def progress_listener(listener: Callable[[float], None]) -> Iterator[None]:
    """Report to a listener, in the block, the share that is read."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(done: int, number: int) -> None:
    """Report progress to the current listener, if any, where the number is known."""
    listener = _listener.get()
    if listener is not None and number > 0:
        listener(done / number)
