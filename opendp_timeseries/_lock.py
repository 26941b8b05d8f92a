"""One process at a time, by a lock of the operating system.

The lock is on a file of its own, as the file that it protects is replaced by new ones. It ends with the process that
holds it, however that ends, so it is never stale. The lock's file stays, is empty, and says nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["LOCK", "locked"]

LOCK: Final = ".lock"
_PAUSE: Final = 0.05
#: What a system says if another process holds the lock.
_HELD: Final = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextlib.contextmanager
def locked(place: Path, wait: float) -> Iterator[None]:
    """Run the block while no other process runs one for the same place.

    :param place: of the file that is protected; the lock is beside it.
    :param wait: seconds to wait for another process.
    :raises BlockingIOError: if another process holds the lock for longer.
    :raises OSError: if the folder is not there or may not be written to, or cannot lock files.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(pathlib.Path(folder, "ledger"), wait=0.0):
    ...     print("alone")
    alone
    """
    beside = place.with_name(f".{place.name}{LOCK}")
    try:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except FileNotFoundError:
        raise FileNotFoundError(f"{place} is in a folder that is not there; make it, or choose another") from None
    except OSError as error:
        raise OSError(
            f"{place} cannot be locked, as {beside} cannot be opened ({error.strerror}); put it into a folder that this"
            " process may write to"
        ) from None
    try:
        until = time.monotonic() + wait
        while not _try(number, place):
            if time.monotonic() >= until:
                raise BlockingIOError(f"{place} is in use by another process; wait for it, and try again")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(number)  # which ends the lock


def _try(number: int, place: Path) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise OSError(
            f"{place} is on a file system that cannot lock files ({error.strerror}), as some network folders are; move"
            " it to a disk of this machine"
        ) from None
    return True
