"""Broken variants of the package's own code: the source of a function is edited, and its code swapped in place.

Every reference to the function, under whatever name it was imported, then runs the broken code, and what is cached
of the sound one is forgotten.
"""

from __future__ import annotations
import __future__

import contextlib
import functools
import gc
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType

PACKAGE = "opendp_timeseries"


def find(target: str) -> FunctionType:
    """``"accounting.influence:Influence.__le__"`` to the plain function, without a cache around it."""
    module, _, path = target.partition(":")
    found = importlib.import_module(f"{PACKAGE}.{module}")
    for name in path.split("."):
        found = getattr(found, name)
    return inspect.unwrap(found)


def broken_code(function: FunctionType, edits: tuple[tuple[str, str], ...]):
    """Compile the function's source with every edit, each of which must apply exactly once."""
    lines, _ = inspect.getsourcelines(function)
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith("def "))
    source = textwrap.dedent("".join(lines[first:]))
    for old, new in edits:
        if source.count(old) != 1:
            raise LookupError(f"{function.__qualname__} holds {old!r} {source.count(old)} times; renew the mutant")
        source = source.replace(old, new)
    scope = dict(function.__globals__)
    exec(compile(source, f"<mutant of {function.__qualname__}>", "exec", __future__.annotations.compiler_flag), scope)
    return scope[function.__name__].__code__


def forget() -> None:
    """Empty every cache of the package."""
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper) and cache.__module__.startswith(PACKAGE):
            cache.cache_clear()


@contextlib.contextmanager
def mutated(target: str, *edits: tuple[str, str]) -> Iterator[None]:
    """Run with a broken variant of one function."""
    function = find(target)
    sound = function.__code__
    function.__code__ = broken_code(function, edits)
    forget()
    try:
        yield
    finally:
        function.__code__ = sound
        forget()
