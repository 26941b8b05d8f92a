"""How much of a log is read, for whoever waits: a share of the bytes or rows of files, which their operator knows."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

_hearer: Final[ContextVar[Callable[[float], None] | None]] = ContextVar("hearer", default=None)


@contextlib.contextmanager
def heard(hearer: Callable[[float], None]) -> Iterator[None]:
    """Tell somebody, in the block, which share is read."""
    token = _hearer.set(hearer)
    try:
        yield
    finally:
        _hearer.reset(token)


def tell(done: int, whole: int) -> None:
    """Tell whoever hears it that so much of a whole is read; nothing where that has no length."""
    hearer = _hearer.get()
    if hearer is not None and whole > 0:
        hearer(done / whole)
