"""While somebody waits: words on standard error, and what SIGINT, SIGTERM and SIGHUP do.

The first of these signals ends the command where it can clean up, a second one at once.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final

from opendp_timeseries.counting.progress import progress_listener

#: Seconds until a terminal shows what is being done.
_PATIENCE: Final = 2.0
#: Seconds from one report of progress to the next.
_REPORT_PAUSE: Final = 0.5
#: Seconds until a log says what is being done where there is no terminal, and from one such line to the next.
_LOG_PAUSES: Final = (10.0, 30.0)
_SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_held_signals: list[list[int]] = []  # what has arrived, for each block that holds it back


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at a signal; a second one ends the process."""
    is_main = threading.current_thread() is threading.main_thread()  # signals arrive in no other
    numbers = [number for number in _SIGNALS if is_main and signal.getsignal(number) is not signal.SIG_IGN]  # nohup
    earlier = {number: signal.signal(number, _first) for number in numbers}
    for number in numbers:
        _handle_once(number)
    try:
        yield
    finally:
        for number, former in earlier.items():
            signal.signal(number, former)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Raise KeyboardInterrupt only after the block: OpenDP aborts the process if one is raised in a callback of it."""
    arrived: list[int] = []
    _held_signals.append(arrived)
    try:
        yield
    finally:
        _held_signals.remove(arrived)
    if arrived:
        raise KeyboardInterrupt


def _first(number: int, _: FrameType | None) -> None:
    for signum in _SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    if not _held_signals:
        raise KeyboardInterrupt
    _held_signals[-1].append(number)
    say("interrupted: ends when OpenDP returns; interrupt again to end at once")


def _handle_once(number: int) -> None:
    """Leave a second signal to the system: where memory ends, code in C may hang, and no handler of Python runs."""
    with contextlib.suppress(Exception):  # a C library that does not offer it
        library = ctypes.CDLL(None)
        library.signal.restype = ctypes.c_void_p
        library.sysv_signal(number, ctypes.c_void_p(library.signal(number, None)))


@contextlib.contextmanager
def _log_lines(doing: str) -> Iterator[None]:
    """Write what is being done, and for how long, a line from time to time."""
    ended, begin = threading.Event(), time.monotonic()

    def write() -> None:
        pause = _LOG_PAUSES[0]
        while not ended.wait(pause):
            pause = _LOG_PAUSES[1]
            say(f"{doing} … {time.monotonic() - begin:.0f} s so far")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def stage(doing: str, *, quiet: bool | None, logged: bool = False) -> Iterator[None]:
    """Say in a terminal what is being done in the block, if it takes more than two seconds, and how far it is.

    :param logged: say it without a terminal, too, at longer times: of work on plans and releases alone, as how long a
        log takes to be read and counted is private.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        is_logged = logged and not quiet and sys.stderr is not None
        with _log_lines(doing) if is_logged else contextlib.nullcontext():
            yield
        return
    last = first = time.monotonic() + _PATIENCE

    def report(share: float) -> None:
        nonlocal last
        if (now := time.monotonic()) > last + _REPORT_PAUSE:
            last = now
            say(f"  {share:.0%} ", end="\r")  # what comes next takes its place

    timer = threading.Timer(_PATIENCE, say, [f"{doing} …"])
    timer.daemon = True
    timer.start()
    try:
        with progress_listener(report):
            yield
    finally:
        timer.cancel()
        if last != first:
            say("      ", end="\r")


def say(text: str, end: str = "\n") -> None:
    """Say something on standard error, to whoever is still there: nothing ends because a terminal is gone."""
    with contextlib.suppress(OSError, ValueError):
        print(text + end, end="", file=sys.stderr, flush=True)  # at once, as a timer may say something, too
