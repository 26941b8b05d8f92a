"""Work on many series that are independent of each other, by several processes where it takes long.

Threads do not help, as most of the time goes to many small steps of Python; a fork is not safe beside the threads of
others; and processes of ``multiprocessing`` import the user's main module anew, which runs a script twice. So each of
ours is a fresh interpreter that imports this package alone, and what it is given and returns goes through pipes. It is
given work only once it has said that it is ready, and what it does not return in time is worked out here, too: so
nobody waits for one that cannot start, is no Python, hangs or ends. The results are the same.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from opendp_timeseries._process import processors

_Result = TypeVar("_Result")
#: A function, its arguments, the numbers of those that nobody has taken, and the results by number.
_Round = tuple[Callable[..., object], Sequence[object], deque[int], dict[int, Any]]

#: Seconds of work, and seconds with what is left of it, from which other processes are worth their start.
_PATIENCE: Final = 1.0
_LONG: Final = 4.0
#: Pieces of work that a process is given at a time, and most processes besides this one.
_CHUNK: Final = 8
_MOST: Final = 15
#: How often this process looks whether others have finished, in seconds.
_PAUSE: Final = 0.01
_READY: Final = b"ready to work\n"
_CODE: Final = f"import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from {__name__} import work; work()"


class Pool:
    """Rounds of work that other processes share, from when it takes long until the last round is done."""

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []
        self._spent = 0.0  # seconds, on all rounds before

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.end()

    def map(
        self,
        function: Callable[..., _Result],
        given: Sequence[tuple[object, ...]],
        done: Callable[[int], None] | None = None,
    ) -> list[_Result]:
        """Return what a function returns for each of these arguments, in order.

        :param function: a function of a module, or a ``functools.partial`` of one, if others are to help.
        :param done: is told how many there are, now and then and when all are.
        """
        results: dict[int, _Result] = {}
        queue, total, start = deque(range(len(given))), len(given), time.monotonic()
        work = function, given, queue, results
        for helper in self._helpers:
            helper.rounds.put(work)
        until: float | None = None  # when others have had the time to finish
        while len(results) < total:
            try:
                k = queue.popleft()
            except IndexError:
                taken = (time.monotonic() - start) / max(len(results), 1)
                until = until or time.monotonic() + _CHUNK * taken
                if time.monotonic() < until and any(helper.is_alive() for helper in self._helpers):
                    time.sleep(_PAUSE)
                    continue
                k = next((k for k in reversed(range(total)) if k not in results), 0)
            if k not in results:
                results[k] = function(*given[k])
            if done is not None and len(results) < total:
                done(len(results))
            taken = time.monotonic() - start
            spent, remaining = self._spent + taken, taken / len(results) * len(queue)
            if not self._helpers and spent > _PATIENCE and remaining > 0 and spent + remaining > _LONG:
                self._helpers = [_Helper() for _ in range(min(_processors() - 1, _MOST))]
                with suppress(RuntimeError):  # where no thread can be started
                    for helper in self._helpers:
                        helper.rounds.put(work)
                        helper.start()
        self._spent += time.monotonic() - start
        if done is not None:
            done(total)
        return [results[k] for k in range(total)]


class _Helper(threading.Thread):
    """Gives another process some of what is left in each round, as long as there is something."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.rounds = SimpleQueue[_Round | None]()
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False

    def run(self) -> None:
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # Whatever goes wrong, it shows in this process if it shows again.
        with (
            suppress(Exception),
            subprocess.Popen(
                [sys.executable, "-c", _CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | threads,
            ) as self._process,
        ):
            try:
                self._give(self._process.stdin, self._process.stdout)
            finally:
                self._process.kill()

    def _give(self, to: Any, back: Any) -> None:
        """Give work to the process that reads and writes there, as long as it answers."""
        pickle.dump(sys.path, to)
        to.flush()
        if self._over or back.read(len(_READY)) != _READY:
            return
        for function, given, queue, results in iter(self.rounds.get, None):
            while queue:
                taken = list[int]()
                with suppress(IndexError):  # others took the last one
                    for _ in range(min(_CHUNK, len(queue) // 4 + 1)):
                        taken.append(queue.popleft())
                pickle.dump((function, [given[k] for k in taken]), to)
                to.flush()
                results |= dict(zip(taken, pickle.load(back), strict=True))

    def end(self) -> None:
        """End the process, now or as soon as it has started."""
        self._over = True
        self.rounds.put(None)
        if self._process is not None:
            self._process.kill()


def work() -> None:
    """Answer what comes through standard input, in a process of its own."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # should anything print
    answers.write(_READY)
    answers.flush()
    while True:
        try:
            function, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([function(*arguments) for arguments in given], answers)
        answers.flush()


def _processors() -> int:
    """Return how many processors this process may use; 1 where no other can be started, as where Python is embedded.

    The embedding program would start itself once more, and open its windows.
    """
    named = "py" in PurePath(sys.executable or "").name.lower() and not getattr(sys, "frozen", False)
    return processors() if named else 1
