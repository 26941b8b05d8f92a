"""Documents: JSON in which every field is typed, none is unknown, and the format has a permanent version number."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from opendp_timeseries._refusal import Quoted, Refusal

T = TypeVar("T")

#: Metadata of a field that documents omit where it has its default.
OPTIONAL: Final = MappingProxyType({"optional": True})


def written(document: object) -> str:
    """Return a document as a line of JSON; floats are written so that they read back exactly."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """Read JSON with finite numbers and no key twice in an object; a byte order mark is skipped.

    :raises ValueError: for anything else.
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise Refusal("the document", ..., f"names a key twice, among {', '.join(sorted(fields))}", "leave one out")
        return fields

    def finite(word: str) -> float:
        number = float(word)
        if not math.isfinite(number):
            raise Refusal("the document", ..., f"holds a number ({word}) that is not finite", "correct it")
        return number

    try:
        text = text.removeprefix("\ufeff")
        return json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    except json.JSONDecodeError as error:
        raise Refusal("the text", ..., f"must be a JSON document: {error}") from None
    except RecursionError:
        raise Refusal("the document", ..., "must not be nested too deeply") from None


def encode(value: object) -> Any:
    """Return plain Python objects for a document: for a dataclass, its fields, unless it has its own ``to_dict``.

    The fields of a class with a ``tag``, which identifies it within a union, are nested under the tag.
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        values = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        fields = {f.name: encode(part) for f, part in values.items() if f.metadata != OPTIONAL or part != f.default}
        return {value.tag: fields} if hasattr(value, "tag") else fields
    return [encode(part) for part in value] if isinstance(value, tuple) else value


def decode(expected: object, document: Any, name: str) -> Any:
    """Return a value of the expected type from the output of :func:`encode`; refuse unknown and mistyped fields.

    :param expected: a dataclass, a class with ``from_dict``, a plain type (a bool is not a number, ``float`` takes
        integers too), a union of these, or a tuple of them.
    :param name: of the value, for messages.
    :raises TypeError, ValueError: for any other document, naming the field.
    """
    choices = get_args(expected) if get_origin(expected) in (Union, UnionType) else (expected,)
    if len(choices) > 1:
        for choice in choices:
            if _fits(choice, document):
                return decode(choice, document, name)
    elif _fits(expected, document):
        if get_origin(expected) is tuple:
            inner, *further = get_args(expected)
            parts = [inner] * len(document) if further == [...] else [inner, *further]
            if len(parts) != len(document):
                raise Refusal(name, ..., f"must list {len(parts)} values, found {len(document)}")
            return tuple(
                decode(kind, part, f"{name}[{k}]") for k, (kind, part) in enumerate(zip(parts, document, strict=True))
            )
        if hasattr(expected, "from_dict"):
            return expected.from_dict(document)
        if dataclasses.is_dataclass(expected):
            factory, types = cast(Callable[..., Any], expected), _types(cast(type, expected))
            inner = document[expected.tag] if hasattr(expected, "tag") else document
            absent = {f.name for f in dataclasses.fields(expected) if f.metadata == OPTIONAL}
            absent -= set(inner) if isinstance(inner, dict) else set()
            expected_fields = {field.name: types[field.name] for field in dataclasses.fields(expected)}
            return factory(
                **fields_of(inner, name, {field: of for field, of in expected_fields.items() if field not in absent})
            )
        try:
            return float(document) if expected is float else document
        except OverflowError:
            raise Refusal(name, ..., f"must be {_NAMES[float]}, found an integer that is too large") from None
    wanted = " or ".join(_tagged(choice) or _NAMES.get(_form(choice), "object") for choice in choices)
    raise Refusal(name, ..., f"must be {wanted}, found {_NAMES.get(type(document), type(document).__name__)}")


_types: Final = lru_cache(get_type_hints)


def fields_of(document: object, name: str, types: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a JSON object that must have exactly these, each of its type, as in :func:`decode`.

    :raises TypeError, ValueError: for anything else, naming the field.
    """
    if not isinstance(document, dict):
        raise Refusal(name, ..., f"must be an object, found {type(document).__name__}")
    for field in sorted(types.keys() ^ document.keys(), key=str):  # in the same order in every process
        problem = "is not known" if field in document else "is missing"
        raise Refusal(name, ..., f"has a field {field!r} that {problem}", "its schema says which it has")
    return {field: decode(expected, document[field], f"{field} of {name}") for field, expected in types.items()}


def _form(expected: object) -> type:
    """Return the JSON type that represents a type."""
    if get_origin(expected) is tuple:
        return list
    if expected in (bool, int, float, str, list, dict, type(None)):
        return expected
    return dict


def _tagged(expected: object) -> str:
    return f"{{{expected.tag!r}: …}}" if hasattr(expected, "tag") else ""


def _fits(expected: object, document: object) -> bool:
    form = _form(expected)
    if hasattr(expected, "tag"):
        return type(document) is dict and list(document) == [expected.tag]
    return expected is object or type(document) is form or (form is float and type(document) is int)


_NAMES: Final = {type(None): "null", list: "a list", dict: "an object"} | {
    t: t.__name__ for t in (bool, int, float, str)
}


def read_versioned(document: object, name: str, readers: Mapping[int, Callable[[dict[str, object]], T]]) -> T:
    """Read a document by the reader of its version, which gets all fields except ``format`` and ``version``.

    :param name: of the format.
    :param readers: a reader for each version so far.
    :raises ValueError: for another format, or a version newer than these readers.
    """
    if not isinstance(document, dict) or document.get("format") != name:
        raise Refusal("the document", ..., f"must be in the format {name!r}")
    fields = dict(document)
    version = fields.pop("version", None)
    del fields["format"]
    if type(version) is int and version > max(readers):
        raise Refusal(
            "the document",
            Quoted(name),
            f"was written in version {version} of its format, and this package reads versions up to {max(readers)}",
            "read it with a newer opendp_timeseries",
        )
    if type(version) is not int or version not in readers:
        raise Refusal("version of the document", Quoted(name), f"must be one of {', '.join(map(str, readers))}")
    try:
        return readers[version](fields)
    except TypeError as error:
        raise Refusal("the document", Quoted(name), f"is refused: {error}") from None
