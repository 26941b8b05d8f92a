"""What Ctrl-C and SIGTERM do: they end the command where it can clean up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

__all__ = ["held_back", "interruptible"]

_Handler = Callable[[int, FrameType | None], object]
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at either signal."""
    with _handled_by(signal.default_int_handler):
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Raise KeyboardInterrupt only after the block: OpenDP aborts the process if one is raised in a callback of it."""
    arrived: list[int] = []
    with _handled_by(lambda number, frame: arrived.append(number)):
        yield
    if arrived:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled_by(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals can be handled in no other
        yield
        return
    earlier = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in earlier.items():
            signal.signal(number, former)
