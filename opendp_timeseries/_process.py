"""Locks between processes, by the operating system; and the number of processors and threads of a process.

The lock is on a separate file, since the protected file is replaced. It ends with its process, however that ends, so it
is never stale. The lock's file stays, and is empty.
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

import numpy as np
import scipy

LOCK: Final = ".lock"
_PAUSE: Final = 0.05
#: Bytes that are more than a buffer of OpenBLAS.
_BUFFER: Final = 40 << 20


@contextlib.contextmanager
def locked(place: Path, wait: float) -> Iterator[Callable[[], None]]:
    """Hold the lock for a place while the block runs.

    :param wait: seconds to wait for another process.
    :return: a function to call before each write: it raises OSError if the lock's file has been deleted.
    :raises BlockingIOError: if another process holds the lock for longer.
    :raises OSError: if the folder is missing, read-only, or cannot lock files.
    """
    lock_file, until = place.with_name(f".{place.name}{LOCK}"), time.monotonic() + wait
    while (descriptor := _try_lock(lock_file, place)) is None:
        if time.monotonic() >= until:
            raise BlockingIOError(f"{place} is in use by another process; wait for it, and try again")
        time.sleep(_PAUSE)

    def check(descriptor: int = descriptor) -> None:
        if not _is_open_at(lock_file, descriptor):
            raise OSError(f"{lock_file} was deleted while it was in use; leave it there, and try again")

    try:
        yield check
    finally:
        os.close(descriptor)  # releases the lock


def _try_lock(lock_file: Path, place: Path) -> int | None:
    """Return the descriptor of the locked file; None while another process holds the lock."""
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        problem = f"cannot be locked, as {lock_file} cannot be opened ({error.strerror})"
        raise type(error)(f"file ({place}) {problem}; put it into a folder where you may write") from None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return None
        problem = f"is on a file system that cannot lock files ({error.strerror}), as some network folders are"
        raise OSError(f"file ({place}) {problem}; move it to a disk of this machine") from None
    if _is_open_at(lock_file, descriptor):
        return descriptor
    os.close(descriptor)  # of a file that was deleted just before
    return None


def _is_open_at(lock_file: Path, descriptor: int) -> bool:
    return lock_file.exists() and os.path.samestat(os.fstat(descriptor), lock_file.stat())


def processors() -> int:
    """Return the number of processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # missing on some systems
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Run SciPy's linear algebra on one thread within the block, if its library is that of SciPy's wheels.

    The threads of OpenBLAS wait for each other at each small step, and spin: with other work on the same processors,
    that takes many times as long as the computation itself.
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


def take_buffers() -> None:
    """Have OpenBLAS take the buffers that it keeps for all that follows.

    Where memory ends, it would look for them again and again, for ever.

    :raises MemoryError: where there is no room for them.
    """
    from scipy.linalg import lapack

    matrix = np.eye(3)
    with single_thread():
        for factor in (np.linalg.cholesky, lapack.dpotrf):  # each with a library of its own
            np.empty(_BUFFER, np.uint8)
            factor(matrix)


@cache
def _linear_algebra() -> ctypes.CDLL | None:
    """Return the library that comes with SciPy's wheels; None if SciPy uses another."""
    folder = Path(scipy.__file__).parent
    places = [*folder.glob("../scipy.libs/libscipy_openblas*"), *folder.glob(".dylibs/libscipy_openblas*")]
    with contextlib.suppress(OSError):
        return ctypes.CDLL(str(*places)) if len(places) == 1 else None
    return None
