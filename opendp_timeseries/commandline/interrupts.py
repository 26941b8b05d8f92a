"""What SIGINT, SIGTERM and SIGHUP do: they end the command where it can clean up."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import FrameType
from typing import Final, TypeVar

__all__ = ["interruptible", "uninterrupted"]

T = TypeVar("T")
_SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def interruptible(handler: Callable[[int, FrameType | None], object] = signal.default_int_handler) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at a signal, or do something else."""
    heard = threading.current_thread() is threading.main_thread()  # signals arrive in no other
    numbers = [number for number in _SIGNALS if heard and signal.getsignal(number) is not signal.SIG_IGN]  # nohup
    earlier = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in earlier.items():
            signal.signal(number, former)


def uninterrupted(work: Callable[[], T]) -> T:
    """Return ``work()``; after a signal raise KeyboardInterrupt once it is done, and at a second one end at once.

    OpenDP aborts the process if a callback raises KeyboardInterrupt, and can hang where memory ends. So the work has a
    thread of its own, and this one, where signals arrive, stays free to end the process.
    """
    arrived: list[int] = []

    def first(number: int, _: FrameType | None) -> None:
        arrived.append(number)
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        print("interrupted: ends when OpenDP returns; interrupt again to end at once", file=sys.stderr, flush=True)

    with interruptible(first), ThreadPoolExecutor(1) as thread:
        made = thread.submit(work)
        while not made.done():
            wait([made], timeout=0.1)  # without a timeout, Windows hears no signal
    if arrived:
        raise KeyboardInterrupt
    return made.result()
