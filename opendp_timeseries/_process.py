"""One process at a time, by a lock of the operating system; and how many processors and threads a process may use.

The lock is on a file of its own, since the file that it protects is replaced. It ends with the process that holds it,
however that ends, so it is never stale. The lock's file stays, and is empty.
"""

import contextlib
import ctypes
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import scipy

LOCK: Final = ".lock"
_PAUSE: Final = 0.05


@contextlib.contextmanager
def locked(place: Path, wait: float) -> Iterator[Callable[[], None]]:
    """Run the block while no other process runs one for the same place.

    :param wait: seconds to wait for another process.
    :return: a function to call before each write: it raises OSError if the lock's file has been deleted.
    :raises BlockingIOError: if another process holds the lock for longer.
    :raises OSError: if the folder is missing, read-only, or cannot lock files.
    """
    beside, until = place.with_name(f".{place.name}{LOCK}"), time.monotonic() + wait
    while (number := _try(beside, place)) is None:
        if time.monotonic() >= until:
            raise BlockingIOError(f"{place} is in use by another process; wait for it, and try again")
        time.sleep(_PAUSE)

    def check(held: int = number) -> None:
        if not _is_at(beside, held):
            raise OSError(f"{beside} was deleted while it was in use; leave it there, and try again")

    try:
        yield check
    finally:
        os.close(number)  # which ends the lock


def _try(beside: Path, place: Path) -> int | None:
    """Return the number of the open lock; None while another process holds it."""
    try:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        problem = f"as {beside} cannot be opened ({error.strerror})"
        raise type(error)(f"{place} cannot be locked, {problem}; put it into a folder where you may write") from None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(number)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return None
        problem = f"is on a file system that cannot lock files ({error.strerror}), as some network folders are"
        raise OSError(f"{place} {problem}; move it to a disk of this machine") from None
    if _is_at(beside, number):
        return number
    os.close(number)  # of a file that was deleted just before
    return None


def _is_at(beside: Path, number: int) -> bool:
    return beside.exists() and os.path.samestat(os.fstat(number), beside.stat())


def processors() -> int:
    """Return how many processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not everywhere
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Let SciPy's linear algebra do without threads in the block, where its library is the one of its own wheels.

    The threads of OpenBLAS wait for each other at each small step, and spin: beside other work on the same processors,
    that takes many times as long as the work itself.
    """
    library = _linear_algebra()
    before = getattr(library, "scipy_openblas_get_num_threads", None)
    change = getattr(library, "scipy_openblas_set_num_threads", None)
    if before is None or change is None:
        yield
        return
    threads = before()
    change(1)
    try:
        yield
    finally:
        change(threads)


@cache
def _linear_algebra() -> ctypes.CDLL | None:
    """Return the library that comes with SciPy's wheels; None where it is another."""
    folder = Path(scipy.__file__).parent
    places = [*folder.glob("../scipy.libs/libscipy_openblas*"), *folder.glob(".dylibs/libscipy_openblas*")]
    with contextlib.suppress(OSError):
        return ctypes.CDLL(str(*places)) if len(places) == 1 else None
    return None
