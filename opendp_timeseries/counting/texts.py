"""The distinct texts of an Arrow column, as Arrow keeps them: a string of Python is made where one is asked for.

Bytes that are no UTF-8 are texts, too, in which each such byte is one lone surrogate. So two texts are the same exactly
if their bytes are.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.counting.identifiers import canonical_text

if TYPE_CHECKING:
    import pyarrow

Ints = NDArray[np.int64]
_POINT, _ZERO, _E, _PLUS = b".0e+"


class Texts(Sequence[str]):
    """Texts of an array of bytes without nulls, each there once."""

    def __init__(self, array: "pyarrow.LargeBinaryArray") -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return Texts(self.array.take(np.arange(len(self))[at]))
        return _decoded(self.array[at].as_py())

    def __iter__(self) -> Iterator[str]:
        return map(_decoded, self.array.to_pylist())

    def at(self, numbers: Ints) -> list[str]:
        """Return some of them."""
        return list(Texts(self.array.take(numbers)))

    def special(self) -> Ints:
        """Return the positions of an empty text, and of those that are how Python writes a whole number as a float."""
        if not len(self):
            return np.empty(0, np.int64)
        _, offsets, data = self.array.buffers()
        ends = np.frombuffer(offsets, np.int64)[self.array.offset : self.array.offset + len(self) + 1]
        text = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
        lengths = np.diff(ends)
        marks = lengths == 0
        long = np.flatnonzero(lengths > 1)
        last = ends[1:][long]
        marks[long] = (text[last - 1] == _ZERO) & (text[last - 2] == _POINT)
        signs = np.flatnonzero(text[1:] == _PLUS)  # of an exponent, if an e is before it in the same text
        signs = signs[(text[signs] == _E) & (signs >= ends[0])]
        marks[np.searchsorted(ends, signs, side="right") - 1] = True
        candidates = np.flatnonzero(marks)
        mask = [not text or canonical_text(text) != text for text in self.at(candidates)]
        return candidates[mask]


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


class Numbers:
    """Numbers of names that come a batch at a time: a name has another one in each, until equal ones are found.

    So Arrow looks for a name once in each batch, and no dictionary of Python holds all of them.
    """

    def __init__(self) -> None:
        self._batches: list[object] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def of(self, names: Sequence[str]) -> Ints:
        """Return the numbers of further names, each of which is there once; and -1 for nobody, behind them."""
        if not isinstance(names, Texts):
            cells = [name.encode("utf-8", "surrogateescape") for name in names]
            names = Texts(sys.modules["pyarrow"].array(cells, "large_binary"))
        self._batches.append(names.array)
        first, self._size = self._size, self._size + len(names)
        return np.append(np.arange(first, self._size), -1)

    def settled(self) -> Ints:
        """Return for each number so far the one that its name has from now on."""
        encoded = sys.modules["pyarrow"].chunked_array(self._batches).combine_chunks().dictionary_encode()
        self._batches, self._size = [encoded.dictionary], len(encoded.dictionary)
        numbers: Ints = encoded.indices.cast("int64").to_numpy()
        return numbers

    @property
    def names(self) -> Texts:
        """The names, by the numbers that they have since these are settled."""
        (names,) = self._batches
        return Texts(names)
