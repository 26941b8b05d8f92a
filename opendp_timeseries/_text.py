"""Text in files: public files are in UTF-8 or refused; lines of a log are decoded each by itself."""

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

#: What an encoding must read as ASCII does, so that a line is a line in it: with the escapes of those that have states.
_PLAIN: Final = bytes(range(128)) + rb"\n\u0041~{+AG- xn--a.b" + b"\x1b$B!!"
_ENCODING: Final = "the name of an encoding that Python knows and in which ASCII is itself, such as cp1252"


def read_text(path: Path, what: str) -> str:
    """Return the text of a public file in UTF-8, with or without a byte-order mark.

    :param what: what the file is, for messages.
    :raises ValueError: for anything else, naming the line, the byte and the encoding that is likely.
    """
    content = path.read_bytes()
    wrong = content.find(b"\0")  # as UTF-16 has, which may be UTF-8 by chance
    try:
        text = content.decode("utf-8-sig")
        if wrong < 0:
            return text
    except UnicodeDecodeError as error:
        wrong = error.start if wrong < 0 else min(wrong, error.start)
    before = content[:wrong]
    line, place = before.count(b"\n") + 1, wrong - before.rfind(b"\n")
    where = f"line {line} holds byte 0x{content[wrong]:02X} at place {place}"
    raise ValueError(f"{what} must be text in UTF-8, but {where}{likely(content)}; save it as UTF-8")


def likely(content: bytes) -> str:
    """Say in which encoding text that is not UTF-8 is, as far as its bytes tell; nothing if they tell nothing."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        return ", as UTF-16 does"
    name = likely_encoding(content)
    return f", as {name} does" if name else ""


def likely_encoding(content: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8, where most of its letters are ASCII; else None.

    >>> texts = "Köln, Düren".encode("cp1252"), "Köln".encode("cp850"), "Москва".encode("cp1251")
    >>> [likely_encoding(text) for text in texts]
    ['cp1252', 'cp850', None]
    """
    runs = re.findall(rb"[\x80-\xff]+", content)
    if not runs or sum(map(len, runs)) > 2 * len(runs):  # letters of an alphabet of its own stand together
        return None
    for name in ("cp1252", "cp850"):
        try:
            texts = [run.decode(name) for run in runs]
        except UnicodeDecodeError:
            continue
        if 2 * sum(map(str.isalpha, texts)) > len(texts):
            return name
    return None


def encoding(name: str) -> str:
    """Return the name of an encoding as Python writes it.

    :raises ValueError: for one that Python does not know, or in which a line break may be part of a letter.

    >>> encoding("Windows-1252"), encoding("UTF8")
    ('cp1252', 'utf-8')
    """
    try:
        plain = _PLAIN.decode(name) == _PLAIN.decode("ascii")
    except (LookupError, ValueError):
        plain = False
    if not plain:
        raise ValueError(f"must be {_ENCODING}; where it is another one, such as UTF-16, save the file as UTF-8")
    return codecs.lookup(name).name.removesuffix("-sig")


class Lines:
    """The lines of a log, decoded each by itself: no byte of one changes how another is read, or raises.

    Bytes that are not of the encoding become lone surrogates, which tell texts apart as the bytes do.
    """

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._read = 0
        self.illegible = 0  #: how many lines hold such bytes. Private
        self.first = 0  #: the number of the first of them, from 1
        self.sample = b""  #: the first of them, together

    @property
    def note(self) -> str:
        """What there is to say of lines that hold such bytes. Private."""
        if not self.illegible:
            return ""
        guess = likely_encoding(self.sample)
        remedy = f"give --encoding {guess}" if guess else "give its name, such as --encoding cp1251 or gb18030"
        return (
            f"{self.illegible} rows hold bytes that are not {self._encoding}, the first in line {self.first}: if the"
            f" file is in another encoding, {remedy}, or save it as UTF-8"
        )

    def header(self, name: str) -> str:
        """Return the first line, which names columns and is nobody's.

        :param name: of the file, for messages.
        :raises ValueError: if it is not in the encoding.
        """
        line: bytes = self._file.readline()
        self._read += 1
        what = f"the first line of the file ({name})"
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in line:
            raise ValueError(f"{what} must be in UTF-8, and seems to be in UTF-16; save the file as UTF-8")
        mark = line.startswith(codecs.BOM_UTF8)
        if mark and self._encoding != "utf-8":
            remedy = f"and encoding ({self._encoding}) is another; leave out encoding"
            raise ValueError(f"{what} begins as UTF-8 does, {remedy}")
        line = line.removeprefix(codecs.BOM_UTF8)
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError as error:
            guess = likely_encoding(line)
            raise ValueError(
                f"{what} is not in {self._encoding}, from byte {error.start + 1} on: give --encoding"
                f" {guess or 'with the name of its own, such as cp1252 or gb18030'}, or save the file as UTF-8"
            ) from None

    def block(self, size: int) -> list[str]:
        """Return the next lines, of about so many bytes; none at the end."""
        lines: list[bytes] = self._file.readlines(size)
        try:
            return self._decoded(lines)
        finally:
            self._read += len(lines)

    def _decoded(self, lines: Sequence[bytes]) -> list[str]:
        encoding = self._encoding
        try:
            return [line.decode(encoding) for line in lines]
        except UnicodeDecodeError:
            pass
        texts = []
        for number, line in enumerate(lines, self._read + 1):
            try:
                texts.append(line.decode(encoding))
            except UnicodeDecodeError:
                texts.append(line.decode(encoding, "surrogateescape"))
                self.illegible += 1
                self.first = self.first or number
                self.sample += line if len(self.sample) < 2**12 else b""
        return texts
