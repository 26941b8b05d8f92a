"""Write several files whole and together, or not at all.

New files are written beside their places, under names of their own, and renamed once all of them are on the disk. So
whatever fails, a full disk, a folder that may not be written to, an interrupt, leaves earlier files as they were. A
process that is killed may leave files behind whose names begin with a dot and end in ``.unfinished`` (new, not
complete) or ``.earlier`` (what was being replaced): nothing reads them, and they may be deleted. Killed between two
renames, it leaves files that are each whole, of which some are new.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

__all__ = ["EARLIER", "UNFINISHED", "check_place", "files_together"]

UNFINISHED = ".unfinished"
EARLIER = ".earlier"


@contextlib.contextmanager
def files_together(room: Mapping[Path, int], *, replace: bool = False) -> Iterator[dict[Path, BinaryIO]]:
    """Open new files that appear at their places together when the block ends, or never if it raises.

    :param room: the places, and how many bytes to reserve for each, so that a full disk is noticed before the block
        runs. A file may grow beyond that.
    :param replace: whether files that are there already are replaced; else they are refused.
    :return: open binary files by place. Reading a place in the block gives the earlier file.
    :raises FileExistsError: if a file is there already and is not to be replaced.
    :raises OSError: if a place is no ordinary file, or a file cannot be written.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder, "greeting.txt")
    ...     with files_together({place: 5}) as files:
    ...         _ = files[place].write(b"hello")
    ...     place.read_text()
    'hello'
    """
    token = secrets.token_hex(4)
    drafts = {place: place.with_name(f".{place.name}.{token}{UNFINISHED}") for place in room}
    for place in room:
        check_place(place, replace=replace)
    try:
        with contextlib.ExitStack() as stack:
            files: dict[Path, BinaryIO] = {
                place: stack.enter_context(draft.open("x+b")) for place, draft in drafts.items()
            }
            for place, size in room.items():
                _reserve(files[place], size)
            yield files
            for file in files.values():
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        backups = {place: place.with_name(f".{place.name}.{token}{EARLIER}") for place in room if place.exists()}
        _put_in_place(drafts, backups, replace)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def check_place(place: Path, *, replace: bool) -> None:
    """Refuse a place where no file can be put.

    :raises FileExistsError: if a file is there already and is not to be replaced.
    :raises OSError: if a folder, a link or a device is there, whatever ``replace`` says.
    """
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(f"output ({place}) must not be a folder, a link or a device; choose another name")
    if not replace:
        raise FileExistsError(f"output ({place}) is there already; choose another name, or ask for it to be replaced")


def _reserve(file: BinaryIO, size: int) -> None:
    """Fill a file with zeros, so that its room on the disk is its own, and go back to its start."""
    file.write(bytes(size))
    file.flush()
    os.fsync(file.fileno())
    file.seek(0)


def _put_in_place(drafts: Mapping[Path, Path], backups: Mapping[Path, Path], replace: bool) -> None:
    ours = {place: _identity(draft) for place, draft in drafts.items()}
    try:
        for place, backup in backups.items():
            _copy(place, backup)
        for place, draft in drafts.items():
            if replace:
                os.replace(draft, place)
            else:
                _rename_to_nothing(draft, place)
    except BaseException:
        for place in drafts:
            _take_back(place, ours[place], backups.get(place))
        raise
    for backup in backups.values():
        backup.unlink(missing_ok=True)
    for folder in {place.parent for place in drafts}:
        _sync_folder(folder)


def _take_back(place: Path, ours: tuple[int, int], backup: Path | None) -> None:
    with contextlib.suppress(OSError):  # an earlier file that cannot be put back stays in its backup
        taken = os.path.lexists(place) and _identity(place) == ours
        if taken and backup is not None:
            os.replace(backup, place)
        elif taken:
            place.unlink()
        elif backup is not None:
            backup.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _copy(place: Path, backup: Path) -> None:
    """Give a file a second name, or copy it where the file system has no second names."""
    try:
        os.link(place, backup)
    except OSError:
        shutil.copy2(place, backup)


def _rename_to_nothing(draft: Path, place: Path) -> None:
    """Rename a file to a name that is free. ``os.rename`` would replace what has appeared there meanwhile."""
    try:
        os.link(draft, place)
    except FileExistsError:
        raise
    except OSError:  # no second names here
        check_place(place, replace=False)
        os.rename(draft, place)
    else:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Make renames last through a power cut, where the system lets a folder be synchronised."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
