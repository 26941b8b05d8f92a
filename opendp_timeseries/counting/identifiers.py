"""Who is who: an identifier is told apart by its value written as text, whatever the type of its column.

The type of a column can be the work of one row: one text among a million integers makes a pandas column
``object``, one missing value makes it ``float64``. Were anybody read differently for that, one individual's row would
change what is counted of all others. So the text of a cell is a function of that cell alone, and the same in every
type that libraries infer: ``17``, ``17.0``, ``"17"`` and ``"17.0"`` are one individual
(docs/proofs/counts.md).
"""

import contextlib
import datetime as dt
import decimal
import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.grid import offset_of_fold, read_text_times, whole_ticks

_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]{1,300})(?:\.0*)?\s*", re.ASCII)
#: Numbers in text: decimal digits, with a point and an exponent if there are any. No text is read twice.
DECIMAL: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_NUMBER: Final = re.compile(rf"\s*{DECIMAL}\s*", re.ASCII)
_EXACT: Final = decimal.Context(decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
#: How files and databases write truth values, the false one of each pair first.
_TRUTHS: Final = ("false", "true", "0", "1", "f", "t", "no", "yes", "n", "y", "off", "on")
_MAX_BITS: Final = 2048  # of integers that are written in decimal, which Python limits; wider ones are in hexadecimal


class Labels(NamedTuple):
    """Identifiers as text: every row holds the number of its individual's name, -1 where it is missing.

    :param codes: ``int64``, one for each row, positions in ``names``.
    :param names: every name once, as from :func:`identifier_text`.
    """

    codes: NDArray[np.int64]
    names: Sequence[str]


def identifier_text(value: Any) -> str | None:
    """Return the text by which an identifier is told apart; None for what is missing or of an unknown type.

    Nothing raises, and no method of a type that is not known here is called.

    >>> [identifier_text(value) for value in (17, 17.0, "17", "17.0", "017", 0.5, b"ann", None, float("nan"))]
    ['17', '17', '17', '17', '017', '0.5', 'ann', None, None]
    """
    kind = type(value)
    with contextlib.suppress(Exception):
        text: Callable[[Any], str | None] | None = _first_of(_TEXTS, kind)
        if text is not None:
            return text(value)
        owner = kind.__module__.partition(".")[0]
        if (owner, kind.__name__) == ("pandas", "Period"):
            return str(value)
        if (owner, kind.__name__) == ("pandas", "Interval"):
            return f"{value.closed} {identifier_text(value.left)} {identifier_text(value.right)}"
    return None


def key_numbers(keys: Sequence[str | int]) -> dict[str, int]:
    """Number the keys of a panel by their texts: keys are compared as identifiers are.

    :raises ValueError: for keys that are not distinct as text.

    >>> key_numbers(["a", "7"])
    {'a': 0, '7': 1}
    """
    numbers = {str(identifier_text(key)): k for k, key in enumerate(keys)}
    if len(numbers) < len(keys):
        raise Refusal(
            "keys", list(keys), "must be distinct", "name each series once, from a public list and not from the log"
        )
    return numbers


def check_spelling(keys: Sequence[str | int], kind: str, column: str, dtype: object) -> None:
    """Refuse a key that says a value of a column's type in another spelling: it would match no row.

    Types and keys are public. Text, and a column of objects, whose type is a matter of its rows, take any key.

    :param kind: what the column holds, by NumPy's letter, or ``"uuid"``.
    :param column: its name, for the message.
    :raises TypeError: naming the key, and how it is spelt.

    >>> check_spelling(["7", "N7"], "i", "line", "int64")
    >>> check_spelling(["07", "N7"], "i", "line", "int64")
    Traceback (most recent call last):
    opendp_timeseries._refusal.TypeRefusal: key '07' matches nothing, as it is '7' in column ...; ...
    """
    spell = _SPELLINGS.get(kind)
    for key in keys if spell is not None else ():
        text, spelt = identifier_text(key), None
        with contextlib.suppress(ValueError, decimal.DecimalException):
            spelt = None if text is None else spell(text)  # type: ignore[misc]
        if spelt is not None and text not in spelt:
            raise TypeRefusal(
                f"key {key!r}",
                ...,
                f"matches nothing, as it is {spelt[0]!r} in column {column!r} of type {dtype}",
                "list it so, or read the column as text (`dtype=` of pandas, partitioning= of pyarrow.dataset)",
            )


def _spelt_number(text: str) -> tuple[str | None, ...]:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError
    return identifier_text(decimal.Decimal(text.strip())), identifier_text(float(text))


def _spelt_truth(text: str) -> tuple[str | None, ...]:
    return (str(_TRUTHS.index(text.strip().lower()) % 2 == 1),)


def _spelt_time(text: str) -> tuple[str | None, ...]:
    times, aware = read_text_times([text])
    if np.isnat(times[0]):
        raise ValueError
    return (instant_text(times[0], aware=bool(aware[0])),)


def whole_number(value: object) -> int | None:
    """Return a whole number that a cell holds or says in text, also in floating point; None for anything else.

    >>> [whole_number(value) for value in (3, 3.0, "3", "3.0", "03", "3.5", "x", True)]
    [3, 3, 3, 3, 3, None, None, None]
    """
    with contextlib.suppress(Exception):
        if isinstance(value, str):
            match = _WHOLE.fullmatch(str.__str__(value))
            return None if match is None else int(match[1])
        number = number_of(value)
        return number if isinstance(number, int) else None
    return None


def instant_text(value: np.datetime64, aware: bool = False) -> str | None:
    """Write an instant in the coarsest unit that holds it, so that its text does not depend on its own unit."""
    if np.isnat(value):
        return None
    return str(np.datetime_as_string(value, unit="auto")) + ("Z" if aware else "")


def text_words(texts: Iterable[str], key: bytes) -> NDArray[np.uint64]:
    """Return a keyed hash of each text by itself; of the text of a 64-bit integer, that integer instead.

    An identifier thus has one word in every table, also where its column holds integers, which need no text.
    """
    return np.fromiter((_word(text, key) for text in texts), dtype=np.uint64)


def _word(text: str, key: bytes) -> int:
    if len(text) <= 20 and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        if -(2**63) <= number < 2**64 and str(number) == text:
            return number % 2**64
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8, key=key[:64]).digest(), "little")


def canonical_text(value: str) -> str:
    """Text is itself, unless it is how Python writes a whole floating-point number."""
    text = str.__str__(value)
    if text[-2:] == ".0" or "e+" in text:
        with contextlib.suppress(ValueError):
            number = float(text)
            if number.is_integer() and repr(number) == text:
                return _integer_text(int(number))
    return text


def _present(text: str) -> str | None:
    """Text but for an empty one, which says nothing, as a file of CSV cannot tell it from what is missing."""
    return canonical_text(text) or None


def _integer_text(number: int) -> str:
    return str(number) if number.bit_length() <= _MAX_BITS else hex(number)


def _number_text(value: object) -> str | None:
    number = number_of(value)
    return _integer_text(number) if isinstance(number, int) else None if number != number else str(number)


def _first_of(readers: dict[type, Any], kind: type) -> Any:
    """The reader of a type, or of the first type that it is made of. An instance could say that it is of another."""
    return readers.get(kind) or next((readers[base] for base in kind.__mro__ if base in readers), None)


def number_of(value: object) -> Any:
    """The number that a cell holds, an integer if it is whole."""
    read = _first_of(_NUMBERS, type(value))
    number = None if read is None else read(value)
    if isinstance(number, complex) and number.imag == 0:
        number = number.real
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _decimal(value: decimal.Decimal) -> Any:
    """Without trailing zeros, which say nothing about the value."""
    number = _EXACT.normalize(decimal.Decimal(value))
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return float(number)
    return int(number) if 0 <= exponent < _MAX_BITS // 4 - len(digits) else number


def utc_of(value: Any, zone: dt.tzinfo | None = None) -> tuple[np.datetime64, bool]:
    """Return a date or datetime, also of pandas, as ``datetime64``, and whether it is an instant in UTC.

    :param zone: whose clock shows a datetime that says, by ``fold=1``, that it is the second time.
    """
    if not isinstance(value, dt.datetime):
        return np.datetime64(value, "D"), False
    in_utc, offset = getattr(type(value), "to_datetime64", None), offset_of_fold(value, zone)
    if in_utc is not None:  # a Timestamp of pandas, with its nanoseconds
        clock, aware = in_utc(value), value.tzinfo is not None
        return (clock, aware) if offset is None else (clock - np.timedelta64(offset), True)
    offset = value.utcoffset() if offset is None else offset
    clock = np.datetime64(value.replace(tzinfo=None), "us")
    return (clock, False) if offset is None else (clock - np.timedelta64(offset), True)


def _duration_text(value: Any) -> str | None:
    in_ticks = getattr(type(value), "to_timedelta64", None)
    value = value if in_ticks is None else in_ticks(value)  # of pandas, with its nanoseconds
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(microseconds=1) * 10**12} as"
    ticks = whole_ticks(value, "as")
    return None if ticks is None else f"{ticks} as"


_NUMBERS: Final[dict[type, Callable[[Any], object]]] = {
    bool: lambda value: None,
    np.bool_: lambda value: None,
    int: int.__index__,
    np.integer: int,
    float: float,
    np.floating: float,
    complex: complex,
    np.complexfloating: complex,
    decimal.Decimal: _decimal,
}
_TEXTS: Final[dict[type, Callable[[Any], str | None]]] = {
    **dict.fromkeys(_NUMBERS, _number_text),
    **dict.fromkeys((bool, np.bool_), lambda value: str(bool(value))),
    str: _present,
    bytes: lambda value: _present(bytes(value).decode("utf-8", "surrogateescape")),
    uuid.UUID: uuid.UUID.__str__,
    **dict.fromkeys((dt.datetime, dt.date), lambda value: instant_text(*utc_of(value))),
    np.datetime64: instant_text,
    **dict.fromkeys((dt.timedelta, np.timedelta64), _duration_text),
}
#: How a text is spelt that says a value of a type; ValueError if it says none.
_SPELLINGS: Final[dict[str, Callable[[str], tuple[str | None, ...]]]] = {
    **dict.fromkeys("iufc", _spelt_number),
    "b": _spelt_truth,
    "M": _spelt_time,
    "uuid": lambda text: (str(uuid.UUID(text)),),
}
