"""Entries of a file, each bound to all before it by a digest, so that a torn or edited file is noticed.

The file is in JSON Lines. Every line but the last holds one entry, and the SHA-256 digest of the digest before it and
the entry's bytes; the last says how many they are. Digests can be forged: what is noticed are accidents and edits.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

__all__ = ["Chain", "unchained"]

_LINE: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entry": (.*)\}')
_LAST: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entries": (\d{1,12})\}')


class Chain(NamedTuple):
    """Entries as they stand in a file: JSON documents without line breaks.

    >>> print(Chain().then('{"a": 1}').file().decode())
    {"digest": "f9d86028c6e0d64e225186f96acb6933...", "entry": {"a": 1}}
    {"digest": "f9d86028c6e0d64e225186f96acb6933...", "entries": 1}
    <BLANKLINE>
    """

    lines: bytes = b""  #: of the file, but the last
    length: int = 0  #: how many they are
    digest: str = ""  #: of all of them

    def then(self, entry: str) -> Chain:
        """Return the chain with one more entry."""
        written = entry.encode()
        digest = _digest(self.digest, written)
        line = b'{"digest": "%s", "entry": %s}\n' % (digest.encode(), written)
        return Chain(self.lines + line, self.length + 1, digest)

    def file(self) -> bytes:
        """Return the file."""
        return self.lines + b'{"digest": "%s", "entries": %d}\n' % (self.digest.encode(), self.length)

    def entries(self) -> list[str]:
        """Return the entries."""
        return [found[2].decode() for found in _LINE.finditer(self.lines)]


_NONE: Final = Chain()


def unchained(file: bytes, known: Chain = _NONE) -> tuple[list[str], Chain]:
    """Return the entries of a file, or those after a chain that it begins with, and all of it as a chain.

    :param known: what was verified before: the file must begin with its very bytes.
    :raises ValueError: if it is another kind of file, or not as it was written, saying from which line on.
    """
    lines, length, digest = known
    if not file.startswith(lines):
        raise ValueError("it does not begin with what it held before: it was changed, or an entry was taken back")
    more = file[len(lines) :].split(b"\n")
    if not lines and _LINE.fullmatch(more[0]) is None:
        raise ValueError("it is in another format")
    last = _LAST.fullmatch(more[-2]) if len(more) > 1 and more[-1] == b"" else None
    if last is None:
        raise ValueError(f"it breaks off after {length + len(more) - 1} lines")
    entries = []
    for number, line in enumerate(more[:-2], length + 1):
        found = _LINE.fullmatch(line)
        digest = _digest(digest, found[2]) if found else ""
        if found is None or digest != found[1].decode():
            raise ValueError(f"line {number} was changed after it was written, or one before it")
        entries.append(found[2].decode())
    length += len(entries)
    if (digest, length) != (last[1].decode(), int(last[2])):
        raise ValueError(f"it holds {length} entries, and its last line speaks of {int(last[2])} or of others")
    return entries, Chain(file[: len(file) - len(more[-2]) - 1], length, digest)


def _digest(before: str, entry: bytes) -> str:
    return hashlib.sha256(before.encode() + entry).hexdigest()
