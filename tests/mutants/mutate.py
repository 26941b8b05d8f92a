"""Broken variants of the package's own code, written in terms of the sound one.

A variant is a function that is called in the place of another, with the sound one first: ``broken(sound, *arguments)``.
It is put in place by the code of the function, so that every reference to it, under whatever name it was imported,
runs the variant; and what is cached of the sound one is forgotten. Functions are found by their qualified name, in
whichever module they live.
"""

from __future__ import annotations
import __future__

import contextlib
import functools
import gc
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import opendp_timeseries

PACKAGE = opendp_timeseries.__name__
Broken = Callable[..., Any]


@functools.cache
def functions() -> dict[str, list[FunctionType]]:
    """Every function and method of the package, by its qualified name."""
    found: dict[str, list[FunctionType]] = {}
    for module in pkgutil.walk_packages(opendp_timeseries.__path__, f"{PACKAGE}."):
        if module.name.endswith("__main__"):
            continue
        things = vars(importlib.import_module(module.name)).values()
        mine = [thing for thing in things if getattr(thing, "__module__", None) == module.name]
        members = [part for thing in mine if inspect.isclass(thing) for part in vars(thing).values()]
        for thing in [*mine, *members]:
            # Out of properties, class methods and caches.
            plain = next((getattr(thing, at) for at in ("fget", "func", "__func__") if hasattr(thing, at)), thing)
            plain = inspect.unwrap(plain) if callable(plain) else None
            if isinstance(plain, FunctionType) and plain.__module__ == module.name:
                found.setdefault(plain.__qualname__, []).append(plain)
    return found


def find(target: str) -> FunctionType:
    """``"Influence.__le__"`` to the function; ``"tables:_read"`` where several modules have one of this name."""
    module, _, name = target.rpartition(":")
    found = [one for one in functions().get(name, []) if f".{one.__module__}".endswith(f".{module}") or not module]
    if len(found) != 1:
        raise LookupError(f"{target} is in {[one.__module__ for one in found]}; rename the target")
    return found[0]


def stand_in(*arguments, **options):
    return __broken__(*arguments, **options)  # type: ignore[name-defined]  # noqa: F821


def copy(function: FunctionType, **names: Any) -> FunctionType:
    """Return a function of the same code, for which some global names mean something else."""
    made = FunctionType(
        function.__code__,
        {**function.__globals__, **names} if names else function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def forget() -> None:
    """Empty every cache of the package."""
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper) and cache.__module__.startswith(PACKAGE):
            cache.cache_clear()


@contextlib.contextmanager
def mutated(target: str, broken: Broken) -> Iterator[None]:
    """Run with a broken variant of one function."""
    function = find(target)
    sound, scope = copy(function), function.__globals__
    scope["__broken__"] = functools.partial(broken, sound)
    function.__code__ = stand_in.__code__
    forget()
    try:
        yield
    finally:
        function.__code__ = sound.__code__
        del scope["__broken__"]
        forget()


# --- Ways to break a function ---


def given(**changes: Any) -> Broken:
    """Give it other arguments: a value, or a function of the right one."""

    def broken(sound: FunctionType, *arguments: Any, **options: Any) -> Any:
        bound = inspect.signature(sound).bind(*arguments, **options)
        bound.apply_defaults()
        for name, change in changes.items():
            bound.arguments[name] = change(bound.arguments[name]) if callable(change) else change
        return sound(*bound.args, **bound.kwargs)

    return broken


def after(change: Callable[[Any], Any]) -> Broken:
    """Change what it returns."""
    return lambda sound, *arguments, **options: change(sound(*arguments, **options))


def always(value: Any) -> Broken:
    """Return this, whatever it is given."""
    return lambda sound, *arguments, **options: value


def seeing(**names: Any) -> Broken:
    """Let it, and nothing else, see something else behind global names: a function that it calls, a constant."""
    return lambda sound, *arguments, **options: copy(sound, **names)(*arguments, **options)


def but(module: ModuleType, **changes: Any) -> ModuleType:
    """Copy a module with some names changed, for :func:`seeing`; what it loads when that is asked for, too."""
    copied = ModuleType(module.__name__)
    vars(copied).update(vars(module) | changes)
    return copied


def edited(*edits: tuple[str, str]) -> Broken:
    """Edit its source, where nothing else says it: every edit must apply exactly once."""

    def broken(sound: FunctionType, *arguments: Any, **options: Any) -> Any:
        return edited_copy(sound, edits)(*arguments, **options)

    return broken


def edited_copy(sound: FunctionType, edits: tuple[tuple[str, str], ...]) -> FunctionType:
    lines, _ = inspect.getsourcelines(sound)
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith("def "))
    source = textwrap.dedent("".join(lines[first:]))
    for old, new in edits:
        if source.count(old) != 1:
            raise LookupError(f"{sound.__name__} holds {old!r} {source.count(old)} times; renew the mutant")
        source = source.replace(old, new)
    scope = dict(sound.__globals__)
    exec(compile(source, f"<mutant of {sound.__name__}>", "exec", __future__.annotations.compiler_flag), scope)
    made: FunctionType = scope[sound.__name__]
    return made
