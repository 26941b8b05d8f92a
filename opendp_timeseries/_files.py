"""Atomic writing of files: under a temporary name in the same folder, then renamed.

Temporary names begin with a dot and end in ``.unfinished``. A killed process may leave some behind: nothing reads them,
and they may be deleted.
"""

import contextlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

UNFINISHED: Final = ".unfinished"


@contextlib.contextmanager
def files_together(
    places: Iterable[Path], *, replace: bool = False, before_publishing: Callable[[], None] | None = None
) -> Iterator[dict[Path, io.BytesIO]]:
    """Yield files in memory, and write them when the block ends, or none if it raises.

    Temporary files are created before the block runs, so that places without write access are refused at once. New
    files appear all or none. Existing files are replaced one by one, last: if that fails, each holds its old or its new
    content. A file takes over the mode and the owner of the one that it replaces.

    :param replace: True to replace existing files; otherwise they are refused.
    :param before_publishing: called just before the first file appears; if it raises, nothing is changed.
    :raises FileExistsError: if a file exists and ``replace`` is False.
    :raises OSError: if a place is given twice, is not an ordinary file, or cannot be written, naming it.
    """
    token, place = secrets.token_hex(4), None
    drafts: dict[Path, Path] = {}
    replaced: list[Path] = []
    published: list[Path] = []
    try:
        for place in places:
            if place in drafts:
                raise OSError(f"file ({place}) is given twice; give each place once")
            earlier = status_if_replaceable(place, replace=replace)
            drafts[place] = place.with_name(f".{place.name}.{token}{UNFINISHED}")
            _create_draft(drafts[place], place, earlier)
            if earlier is not None:
                replaced.append(place)
        place, files = None, {final: io.BytesIO() for final in drafts}
        yield files
        for place, file in files.items():
            with drafts[place].open("r+b") as draft:
                draft.write(file.getbuffer())
                draft.flush()
                os.fsync(draft.fileno())
        place = None
        if before_publishing is not None:
            before_publishing()
        for place in [final for final in drafts if final not in replaced]:
            _publish(drafts[place], place)
            published.append(place)
        for place in replaced:
            os.replace(drafts[place], place)
        published.clear()
        for folder in {final.parent for final in files}:
            _synchronise(folder)
    except BaseException as error:
        for new in published:
            new.unlink()
        if place is None or not isinstance(error, OSError) or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(place)) from None  # with the name of the final file
    finally:
        for unfinished in drafts.values():
            with contextlib.suppress(OSError):  # the files are in place, or another error says that they are not
                unfinished.unlink(missing_ok=True)


def write_file(path: str | os.PathLike[str] | None, content: bytes) -> None:
    """Write a file, replacing an existing one; do nothing without a path."""
    if path is not None:
        with files_together([place := Path(path)], replace=True) as files:
            files[place].write(content)


def status_if_replaceable(place: Path, *, replace: bool) -> os.stat_result | None:
    """Return the status of the file at a place; None if there is none.

    :raises FileExistsError: if there is a file and ``replace`` is False.
    :raises OSError: if there is a folder, a link or a device.
    """
    try:
        status = place.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(f"file ({place}) must not be a symbolic link; give the name of the file that it leads to")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"file ({place}) must not be a folder or a device; choose another name")
    if not replace:
        raise FileExistsError(f"file ({place}) exists already; choose another name, or ask for it to be replaced")
    return status


def _create_draft(draft: Path, place: Path, earlier: os.stat_result | None) -> None:
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if earlier is None else 0o600))
    if earlier is None:
        return
    if not earlier.st_mode & 0o222 or not os.access(place, os.W_OK):
        raise PermissionError(f"file ({place}) is read-only; make it writable, or choose another name")
    status = draft.stat()
    if (status.st_uid, status.st_gid) != (earlier.st_uid, earlier.st_gid):
        shutil.chown(draft, earlier.st_uid, earlier.st_gid)
    shutil.copymode(place, draft)


def _publish(draft: Path, place: Path) -> None:
    """Give a file its final name, unless that is taken: a rename would replace a file that appeared meanwhile."""
    try:
        os.link(draft, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        status_if_replaceable(place, replace=False)
        os.rename(draft, place)


def _synchronise(folder: Path) -> None:
    """Flush renames to disk, so that they survive a power failure, if the system can."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
