"""Entries of a file, each bound to all before it by a digest, so that a torn or edited file is noticed.

The file is in JSON Lines. Every line but the last holds one entry, and the SHA-256 digest of the digest before it and
the entry's bytes. The last line says how many entries there are. Whoever can compute digests can also forge them: what
is noticed are accidents and edits by hand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

__all__ = ["chained", "unchained"]

_LINE: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entry": (.*)\}')
_LAST: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entries": (\d{1,12})\}')


def chained(entries: Sequence[str]) -> bytes:
    r"""Return a file of entries.

    :param entries: JSON documents without line breaks.

    >>> print(chained(['{"a": 1}']).decode())
    {"digest": "f9d86028c6e0d64e225186f96acb6933...", "entry": {"a": 1}}
    {"digest": "f9d86028c6e0d64e225186f96acb6933...", "entries": 1}
    <BLANKLINE>
    """
    lines, digest = [], ""
    for entry in entries:
        written = entry.encode()
        digest = _digest(digest, written)
        lines.append(b'{"digest": "%s", "entry": %s}\n' % (digest.encode(), written))
    return b"".join(lines) + b'{"digest": "%s", "entries": %d}\n' % (digest.encode(), len(lines))


def unchained(file: bytes) -> tuple[list[str], str]:
    """Return the entries of a file, and the digest of all of them.

    :raises ValueError: if it is no such file, or not as it was written, saying from which line on.
    """
    lines = file.split(b"\n")
    if _LINE.fullmatch(lines[0]) is None:
        raise ValueError("it is in another format")
    last = _LAST.fullmatch(lines[-2]) if len(lines) > 2 and lines[-1] == b"" else None
    if last is None:
        raise ValueError(f"it breaks off after {len(lines) - 1} lines")
    entries, digest = [], ""
    for number, line in enumerate(lines[:-2], 1):
        found = _LINE.fullmatch(line)
        digest = _digest(digest, found[2]) if found else ""
        if found is None or digest != found[1].decode():
            raise ValueError(f"line {number} was changed after it was written, or one before it")
        entries.append(found[2].decode())
    if (digest, len(entries)) != (last[1].decode(), int(last[2])):
        raise ValueError(f"it holds {len(entries)} entries, and its last line speaks of {int(last[2])} or of others")
    return entries, digest


def _digest(before: str, entry: bytes) -> str:
    return hashlib.sha256(before.encode() + entry).hexdigest()
