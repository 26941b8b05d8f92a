"""Documents: JSON in which every field is typed, none is unknown, and the format has a number that lasts."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

#: What is said of a field that documents leave out where it is None.
OPTIONAL: Final = MappingProxyType({"optional": True})


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


def encode(value: Any) -> Any:
    """Return plain Python objects for a document: for a dataclass, its fields, unless it has its own ``to_dict``.

    Where it has a ``tag``, which tells it from others of a union, they are an object of this name.
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        found = {field.name: (encode(getattr(value, field.name)), field) for field in dataclasses.fields(value)}
        fields = {name: one for name, (one, field) in found.items() if one is not None or field.metadata != OPTIONAL}
        return {value.tag: fields} if hasattr(value, "tag") else fields
    return [encode(part) for part in value] if isinstance(value, tuple) else value


def decode(expected: Any, document: Any, name: str) -> Any:
    """Read back what :func:`encode` wrote of a type, and nothing else: every field is typed, and none is unknown.

    :param expected: a dataclass, a class with ``from_dict``, a plain type (a bool is not a number, ``float`` takes
        integers too), a union of such, or a tuple of them.
    :raises TypeError, ValueError: for anything else, naming the field.
    """
    choices = get_args(expected) if get_origin(expected) in (Union, UnionType) else (expected,)
    if len(choices) > 1:
        for choice in choices:
            if _fits(choice, document):
                return decode(choice, document, name)
    elif _fits(expected, document):
        if get_origin(expected) is tuple:
            inner, *more = get_args(expected)
            parts = [inner] * len(document) if more == [...] else [inner, *more]
            if len(parts) != len(document):
                raise ValueError(f"{name} must list {len(parts)} values, found {len(document)}")
            return tuple(
                decode(one, part, f"{name}[{k}]") for k, (one, part) in enumerate(zip(parts, document, strict=True))
            )
        if hasattr(expected, "from_dict"):
            return expected.from_dict(document)
        if dataclasses.is_dataclass(expected):
            made, types = cast(Callable[..., Any], expected), _types(cast(type, expected))
            inner = document[expected.tag] if hasattr(expected, "tag") else document
            absent = {f.name for f in dataclasses.fields(expected) if f.metadata == OPTIONAL}
            absent -= set(inner) if isinstance(inner, dict) else set()
            known = {field.name: types[field.name] for field in dataclasses.fields(expected)}
            return made(**fields_of(inner, name, {field: of for field, of in known.items() if field not in absent}))
        try:
            return float(document) if expected is float else document
        except OverflowError:
            raise ValueError(f"{name} must be {_NAMES[float]}, found an integer beyond it") from None
    wanted = " or ".join(_tagged(choice) or _NAMES.get(_form(choice), "object") for choice in choices)
    raise ValueError(f"{name} must be {wanted}, found {_NAMES.get(type(document), type(document).__name__)}")


_types: Final = lru_cache(get_type_hints)


def fields_of(document: Any, name: str, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON object that must have exactly these, each of its type, as in :func:`decode`.

    :raises TypeError, ValueError: for anything else, naming the field.
    """
    if not isinstance(document, dict):
        raise ValueError(f"{name} must be an object, found {type(document).__name__}")
    for field in sorted(types.keys() ^ document.keys(), key=str):  # the same one in every process
        problem = "is not known" if field in document else "is missing"
        raise ValueError(f"{name} has a field {field!r} that {problem}")
    return {field: decode(expected, document[field], f"{field} of {name}") for field, expected in types.items()}


def _form(expected: Any) -> type:
    """Return the type of what JSON holds for a type."""
    if get_origin(expected) is tuple:
        return list
    if expected in (bool, int, float, str, list, dict, type(None)):
        return expected  # type: ignore[no-any-return]
    return dict


def _tagged(expected: Any) -> str:
    return f"{{{expected.tag!r}: …}}" if hasattr(expected, "tag") else ""


def _fits(expected: Any, document: Any) -> bool:
    form = _form(expected)
    if hasattr(expected, "tag"):
        return type(document) is dict and list(document) == [expected.tag]
    return expected is Any or type(document) is form or (form is float and type(document) is int)


_NAMES: Final = {type(None): "null", list: "a list", dict: "an object"} | {
    t: t.__name__ for t in (bool, int, float, str)
}


def read_versioned(document: Any, name: str, readers: Mapping[int, Callable[[dict[str, Any]], T]]) -> T:
    """Read a document by the reader of its version, which gets all fields but its ``format`` and ``version``.

    :param name: of the format.
    :param readers: one for each version there has ever been.
    :raises ValueError: for another format, or a version that is newer than these readers.
    """
    if not isinstance(document, dict) or document.get("format") != name:
        raise ValueError(f"the document is not in the format {name!r}")
    fields = dict(document)
    version = fields.pop("version", None)
    del fields["format"]
    if type(version) is int and version > max(readers):
        raise ValueError(
            f"the document ({name}) was written in version {version} of its format, and this package reads versions up"
            f" to {max(readers)}; read it with a newer opendp_timeseries"
        )
    if type(version) is not int or version not in readers:
        raise ValueError(f"version of the document ({name}) must be one of {', '.join(map(str, readers))}")
    try:
        return readers[version](fields)
    except TypeError as error:
        raise ValueError(f"the document ({name}): {error}") from None
