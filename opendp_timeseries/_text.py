"""Text in files: public files must be in UTF-8; the lines of a log are decoded one by one."""

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from opendp_timeseries._refusal import Refusal

#: Bytes that an encoding must decode as ASCII does, so that line breaks mean the same in it; with stateful escapes.
_PLAIN: Final = bytes(range(128)) + rb"\n\u0041~{+AG- xn--a.b" + b"\x1b$B!!"
_ENCODING: Final = "the name of an encoding that Python knows and in which ASCII is itself, such as cp1252"


def read_text(path: Path, what: str) -> str:
    """Return the text of a public file in UTF-8, with or without a byte-order mark.

    :param what: description of the file, for messages.
    :raises ValueError: for any other encoding, naming the line, the byte and a guess at the encoding.
    """
    content = path.read_bytes()
    wrong = content.find(b"\0")  # as in UTF-16, which may be valid UTF-8 by chance
    try:
        text = content.decode("utf-8-sig")
        if wrong < 0:
            return text
    except UnicodeDecodeError as error:
        wrong = error.start if wrong < 0 else min(wrong, error.start)
    before = content[:wrong]
    line, place = before.count(b"\n") + 1, wrong - before.rfind(b"\n")
    where = f"line {line} holds byte 0x{content[wrong]:02X} at place {place}"
    raise Refusal(what, ..., f"must be text in UTF-8, but {where}{encoding_clause(content)}", "save it as UTF-8")


def encoding_clause(content: bytes) -> str:
    """Return a clause naming a guess at the encoding of text that is not UTF-8; empty if its bytes suggest none."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        return ", which suggests UTF-16"
    name = guess_encoding(content)
    return f", which suggests {name}" if name else ""


def guess_encoding(content: bytes) -> str | None:
    """Return a guess at the encoding of text that is not UTF-8 but mostly ASCII; None for other text.

    It is right of most text of western Europe, and often wrong of other text: the user must see whether it is.

    >>> texts = "Köln, Düren".encode("cp1252"), "Köln".encode("cp850"), "Москва".encode("cp1251")
    >>> [guess_encoding(text) for text in texts]
    ['cp1252', 'cp850', None]
    """
    runs = re.findall(rb"[\x80-\xff]+", content)
    if not runs or sum(map(len, runs)) > 2 * len(runs):  # letters of a non-Latin alphabet come in long runs
        return None
    for name in ("cp1252", "cp850"):
        try:
            texts = [run.decode(name) for run in runs]
        except UnicodeDecodeError:
            continue
        if 2 * sum(map(str.isalpha, texts)) > len(texts):
            return name
    return None


def canonical_encoding(name: str) -> str:
    """Return the name of an encoding as Python writes it.

    :raises ValueError: for one that Python does not know, or in which a line break may be part of a letter.

    >>> canonical_encoding("Windows-1252"), canonical_encoding("UTF8")
    ('cp1252', 'utf-8')
    """
    try:
        plain = _PLAIN.decode(name, "surrogateescape") == _PLAIN.decode("ascii")  # as lines of a log are decoded
    except (LookupError, ValueError):
        plain = False
    if not plain:
        raise ValueError(f"must be {_ENCODING}; where it is another one, such as UTF-16, save the file as UTF-8")
    return codecs.lookup(name).name.removesuffix("-sig")


class Lines:
    """The lines of a log, decoded one by one: after the first, no byte raises, or changes how another line is read.

    Bytes outside of the encoding become lone surrogates, so that different bytes stay different texts.
    """

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._read = 0
        self.illegible = 0  #: number of lines with such bytes; depends on the log, as do the next two
        self.first = 0  #: number of the first such line, from 1
        self.sample = b""  #: the first such lines, concatenated

    @property
    def note(self) -> str:
        """Message about lines with such bytes; empty if there are none. It depends on the log."""
        if not self.illegible:
            return ""
        guess = guess_encoding(self.sample)
        name = f"perhaps `encoding={guess}`" if guess else "such as `encoding=cp1251` or gb18030"
        return (
            f"{self.illegible} rows hold bytes that are not {self._encoding}, the first in line {self.first}: if the"
            f" file is in another encoding, give its name, {name}, or save it as UTF-8"
        )

    def header(self, name: str) -> str:
        """Return the first line, which names the columns and is public.

        :param name: of the file, for messages.
        :raises ValueError: if it is not in the encoding.
        """
        line: bytes = self._file.readline()
        self._read += 1
        what = f"the first line of the file ({name})"
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in line:
            rule = f"must be in {self._encoding}, and seems to be in UTF-16"
            raise Refusal(what, ..., rule, "save the file as UTF-8")
        if line.startswith(codecs.BOM_UTF8):  # which says more of this file than what is said of all
            self._encoding, line = "utf-8", line.removeprefix(codecs.BOM_UTF8)
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError as error:
            guess = guess_encoding(line)
            raise Refusal(
                what,
                ...,
                f"is not in {self._encoding}, from byte {error.start + 1} on",
                f"give its encoding, perhaps `encoding={guess}`, or save the file as UTF-8"
                if guess
                else "give `encoding` with the name of its own, such as cp1252 or gb18030, or save the file as UTF-8",
            ) from None

    def block(self, size: int) -> bytes:
        """Return the next lines, of about ``size`` bytes in total; none at the end."""
        block = self._file.read(size)
        return block + self._file.readline() if block[-1:] != b"\n" else block

    def count_legible(self, number: int) -> None:
        """Count lines that are read without this, and are legible."""
        self._read += number

    def decode(self, lines: Sequence[bytes]) -> list[str]:
        """Return the next lines as text."""
        try:
            return self._decode(lines)
        finally:
            self._read += len(lines)

    def _decode(self, lines: Sequence[bytes]) -> list[str]:
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
