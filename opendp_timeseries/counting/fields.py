"""Fields of lines that are plain, found among their bytes: the same that the ``csv`` module finds in their text."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

_RETURN, _BREAK = b"\r\n"
_PIECE: Final = 2**16  # bytes that stay in a processor's cache
_MAX_BYTES: Final = 2**30  # which offsets of 32 bits reach


def plain_fields(block: bytes, where: Sequence[int], delimiter: str) -> "list[pyarrow.BinaryArray] | None":
    """Return some fields of each line, as arrays of bytes of Arrow; empty where a line has fewer fields.

    :param block: lines, each to its end.
    :param where: positions of the fields.
    :param delimiter: a character of ASCII.
    :return: None if the text may mean anything else to the ``csv`` module, or is not UTF-8: with a quote, a null, or a
        carriage return within a line.
    """
    if b'"' in block or b"\0" in block or len(block) >= _MAX_BYTES:
        return None
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            return None
    if not block.endswith(b"\n"):
        block += b"\n"
    text, mark = np.frombuffer(block, np.uint8), ord(delimiter)
    marks = [np.array([-1])]
    for start in range(0, text.size, _PIECE):
        piece = text[start : start + _PIECE]
        marks.append(np.flatnonzero((piece == mark) | (piece == _BREAK)) + start)
    borders = np.concatenate(marks)  # field k of the block lies between borders k and k + 1
    last_fields = np.flatnonzero(text[borders[1:]] == _BREAK)  # of each line
    first_fields = np.append(0, last_fields[:-1] + 1)
    carriage_returns = block.count(b"\r") if b"\r" in block else 0
    if carriage_returns and np.count_nonzero(text[borders[last_fields + 1] - 1] == _RETURN) < carriage_returns:
        return None
    columns = []
    for position in where:
        fields = first_fields + position
        has_field = fields <= last_fields
        ends = borders[np.where(has_field, fields, last_fields) + 1]
        starts = np.where(has_field, borders[np.minimum(fields, last_fields)] + 1, ends)
        if carriage_returns:
            ends = ends - ((text[ends - 1] == _RETURN) & (starts < ends))
        columns.append(_slices(starts, ends, block))
    return columns


def _slices(starts: NDArray[np.int64], ends: NDArray[np.int64], block: bytes) -> "pyarrow.BinaryArray":
    """Return parts of a block in their order, as an array."""
    pyarrow = sys.modules["pyarrow"]
    offsets = np.column_stack([starts, ends]).astype(np.int32).ravel()
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(block)]
    fields_and_gaps = pyarrow.Array.from_buffers(pyarrow.binary(), offsets.size - 1, buffers)
    return fields_and_gaps.take(pyarrow.array(np.arange(0, offsets.size, 2)))
