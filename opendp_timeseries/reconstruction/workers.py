"""Work on many series that are independent of each other, by several processes where it takes long.

Threads do not help, as most of the time goes to many small steps of Python; a fork is not safe beside the threads of
others; and processes of ``multiprocessing`` import the user's main module anew, which runs a script twice. So each of
ours is a fresh interpreter that imports this package alone, and what it is given and returns goes through pipes. One
that does not start, or ends, leaves its work to the others: the results are the same.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from opendp_timeseries._process import processors

_Result = TypeVar("_Result")

#: Seconds of work, and seconds that are left, from which other processes are worth their start.
_PATIENCE: Final = 1.0
_LEFT: Final = 4.0
#: Pieces of work that a process is given at a time, and most processes besides this one.
_CHUNK: Final = 8
_MOST: Final = 15
_CODE: Final = f"import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from {__name__} import work; work()"


def each(
    function: Callable[..., _Result], given: Sequence[tuple[Any, ...]], done: Callable[[int], None] | None = None
) -> list[_Result]:
    """Return what a function returns for each of these arguments, in order.

    :param function: a function of a module, or a ``functools.partial`` of one, if others are to help.
    :param done: is told how many there are, now and then and when all are.
    """
    found: dict[int, _Result] = {}
    left, others = deque(range(len(given))), list[_Other]()
    start = time.monotonic()
    try:
        while left or others:
            try:
                k = left.popleft()
            except IndexError:  # others are at the last ones, and put back what they do not finish
                others[-1].join(0.1)
                if not others[-1].is_alive():
                    others.pop()
                continue
            found[k] = function(*given[k])
            if done is not None and len(found) < len(given):
                done(len(found))
            taken = time.monotonic() - start
            if not others and taken > _PATIENCE and taken / len(found) * len(left) > _LEFT:
                others = [_Other(function, given, left, found) for _ in range(min(_processors() - 1, _MOST))]
    finally:
        for other in others:
            other.process.kill()
    if done is not None:
        done(len(found))
    return [found[k] for k in range(len(given))]


class _Other(threading.Thread):
    """Gives another process some of what is left, as long as there is something."""

    def __init__(
        self, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], left: deque[int], found: dict[int, Any]
    ) -> None:
        super().__init__(daemon=True)
        self._work = function, given, left, found
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | threads,
        )
        self.start()

    def run(self) -> None:
        function, given, left, found = self._work
        taken: list[int] = []
        try:
            with self.process as process:
                assert process.stdin is not None
                assert process.stdout is not None
                pickle.dump(sys.path, process.stdin)
                pickle.dump(function, process.stdin)
                while left:
                    for _ in range(min(_CHUNK, len(left) // 4 + 1)):
                        taken.append(left.popleft())
                    pickle.dump([given[k] for k in taken], process.stdin)
                    process.stdin.flush()
                    found |= zip(taken, pickle.load(process.stdout), strict=True)
                    taken.clear()
        except (OSError, EOFError, ImportError, LookupError, pickle.PickleError, AttributeError, TypeError, ValueError):
            left.extend(taken)  # whatever it is, it shows here if it shows again


def work() -> None:
    """Answer what comes through standard input, in a process of its own."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # should anything print
    function = pickle.load(sys.stdin.buffer)
    while True:
        try:
            given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([function(*arguments) for arguments in given], answers)
        answers.flush()


def _processors() -> int:
    """How many processors this process may use; 1 where no other can be started."""
    return processors() if sys.executable and not getattr(sys, "frozen", False) else 1
