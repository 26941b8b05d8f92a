"""Documents: JSON in which every field is typed, none is unknown, and the format has a number that lasts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["fields_of", "parse_json", "read_versioned", "written"]

T = TypeVar("T")


def written(document: Any) -> str:
    """Return a document as one line of JSON; floats are written so that they read back exactly."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """Read JSON whose numbers are finite and whose objects name no key twice; a byte order mark is skipped.

    :raises ValueError: for anything else.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"the document names a key twice, among {', '.join(sorted(found))}")
        return found

    def finite(word: str) -> float:
        number = float(word)
        if not math.isfinite(number):
            raise ValueError(f"the document holds a number ({word}) that is not finite")
        return number

    try:
        text = text.removeprefix("\ufeff")
        return json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"the text is not a JSON document: {error}") from None
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None


def fields_of(
    document: Any, name: str, types: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields of a JSON object that must have exactly these fields, each of its type (a bool is no number).

    :param document: what was read.
    :param name: of the object, for messages.
    :param types: the type, or the types, of each field; ``float`` takes integers too.
    :param optional: fields that may be missing, and their values then.
    :raises ValueError: for anything else, naming the field.
    """
    if not isinstance(document, dict):
        raise ValueError(f"{name} must be an object, found {type(document).__name__}")
    found = {**(optional or {}), **document}
    for field_name in types.keys() ^ found.keys():
        problem = "is not known" if field_name in found else "is missing"
        raise ValueError(f"{name} has a field {field_name!r} that {problem}")
    for field_name, expected in types.items():
        value = found[field_name]
        kinds = expected if isinstance(expected, tuple) else (expected,)
        if not (type(value) in kinds or (type(value) is int and float in kinds)):
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise ValueError(f"{field_name} of {name} must be {wanted}, found {type(value).__name__}")
    return found


def read_versioned(document: Any, kind: str, readers: Mapping[int, Callable[[dict[str, Any]], T]]) -> T:
    """Read a document by the reader of its version.

    :param document: an object with the fields ``format`` and ``version``; the reader gets the others.
    :param kind: what ``format`` must say.
    :param readers: one for each version there has ever been.
    :raises ValueError: for another kind of document, or a version that is newer than these readers.
    """
    if not isinstance(document, dict) or document.get("format") != kind:
        raise ValueError(f"the document is not in the format {kind!r}")
    fields = dict(document)
    version = fields.pop("version", None)
    del fields["format"]
    if type(version) is int and version > max(readers):
        raise ValueError(
            f"the document ({kind}) was written in version {version} of its format, and this package reads versions up"
            f" to {max(readers)}; read it with a newer opendp_timeseries"
        )
    if type(version) is not int or version not in readers:
        raise ValueError(f"version of the document ({kind}) must be one of {', '.join(map(str, readers))}")
    try:
        return readers[version](fields)
    except TypeError as error:
        raise ValueError(f"the document ({kind}): {error}") from None
