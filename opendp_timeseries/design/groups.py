"""Which series of a panel add up to which totals: a public tree, such as stations in districts in a city."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from opendp_timeseries import _validate as check
from opendp_timeseries._json import decode
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal

Key = str | int

_REMEDY: Final = "give groups as {'north': ['a', 'b'], 'south': ['c']}, or nested, as {'city': {'north': […], …}}"


@dataclass(frozen=True)
class Groups:
    """Groups of keys, those that contain others before them. Two groups are nested or have no key in common.

    :param members: name and keys of each group, with every key in at least one.
    :raises ValueError: if they are not like that, naming the group and the key.

    From these follow the ``names``; ``parents``, the position of the smallest group around each, or None; ``depths``,
    how many groups are around each; and ``innermost``, the position of the smallest group of each key.

    >>> groups = Groups.of({"city": {"north": ["a", "b"], "south": ["c"]}}, keys=["a", "b", "c"])
    >>> groups.names, groups.parents
    (('city', 'north', 'south'), (None, 0, 0))
    """

    members: tuple[tuple[str, tuple[Key, ...]], ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    parents: tuple[int | None, ...] = field(init=False, repr=False, compare=False)
    depths: tuple[int, ...] = field(init=False, repr=False, compare=False)
    innermost: Mapping[Key, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.members:
            raise Refusal("groups", ..., "must name at least one", _REMEDY)
        names = tuple(name for name, _ in self.members)
        if (duplicate := _repeated(names)) is not None:
            raise Refusal("groups", ..., "must have distinct names", f"{duplicate!r} is there twice")
        for name, keys in self.members:
            if not keys:
                raise Refusal(f"group {name!r}", ..., "must hold at least one key")
            if (duplicate := _repeated(keys)) is not None:
                raise Refusal(f"group {name!r}", ..., "must hold distinct keys", f"{duplicate!r} is there twice")
        for attribute, value in {"names": names, **self._place()}.items():
            object.__setattr__(self, attribute, value)

    def _place(self) -> dict[str, object]:
        """Place groups in each other, or refuse two that overlap."""
        innermost: dict[Key, int] = {}
        parents: list[int | None] = []
        depths: list[int] = []
        for k, (name, keys) in enumerate(self.members):
            enclosing = {innermost.get(key) for key in keys}
            if len(enclosing) > 1:
                names = (repr(self.members[k][0]) for k in sorted(k for k in enclosing if k is not None))
                raise Refusal(
                    "groups",
                    ...,
                    "must be nested, the larger first, or have no key in common",
                    f"{name!r} overlaps {' and '.join(names)}",
                )
            parents.append(parent := enclosing.pop())
            depths.append(0 if parent is None else depths[parent] + 1)
            innermost |= dict.fromkeys(keys, k)
        return {"parents": tuple(parents), "depths": tuple(depths), "innermost": innermost}

    @classmethod
    def of(cls, tree: object, keys: Sequence[Key]) -> Self:
        """Read a mapping from names to keys, or to such mappings.

        :param keys: of the panel, compared as text.
        :raises TypeError: unless it is a mapping.
        :raises ValueError: if a key is not of the panel, or is in no group, or in two that are not nested.
        """
        panel = {str(key): key for key in keys}
        members = tuple((name, tuple(_of_panel(name, leaf, panel) for leaf in leaves)) for name, leaves in _walk(tree))
        groups = cls(members)
        groups.check_panel(tuple(keys))
        return groups

    def check_panel(self, keys: tuple[Key, ...]) -> None:
        """Refuse groups that are not of all keys of a panel and of no other, or that have the name of one."""
        if missing := [key for key in keys if key not in self.innermost]:
            further = "" if len(missing) == 1 else f", and {len(missing) - 1} more"
            raise Refusal("every key of the panel", ..., "must be in a group", f"{missing[0]!r} is in none{further}")
        panel, texts = set(keys), set(map(str, keys))
        if foreign := [key for key in self.innermost if key not in panel]:
            raise Refusal("groups", ..., "must hold keys of the panel", f"{foreign[0]!r} is not one")
        if clashes := [name for name in self.names if name in texts]:
            raise Refusal("groups", ..., "must not have the name of a key", f"{clashes[0]!r} is one")

    @property
    def tree(self) -> dict[str, list[Key]]:
        """The keys of each group by its name, as :meth:`of` reads them."""
        return {name: list(keys) for name, keys in self.members}

    def to_dict(self) -> list[list[object]]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        return [[name, list(keys)] for name, keys in self.members]

    @classmethod
    def from_dict(cls, groups: list[object]) -> Self:
        """Read back what :meth:`to_dict` wrote; ValueError for anything else."""
        return cls(decode(tuple[tuple[str, tuple[Key, ...]], ...], groups, "totals"))


def _walk(tree: object) -> Iterator[tuple[str, list[object]]]:
    """Yield every group before those in it, with all of its leaves."""
    if not isinstance(tree, Mapping):
        raise TypeRefusal("groups", Quoted(type(tree).__name__), "must be a mapping from names to keys", _REMEDY)
    for name, inner in tree.items():
        if not isinstance(name, str):
            raise TypeRefusal("groups", ..., f"must be named by text, found {check.quote(name)}", _REMEDY)
        yield name, list(_leaves(inner))
        if isinstance(inner, Mapping):
            yield from _walk(inner)


def _leaves(inner: object) -> Iterator[object]:
    if isinstance(inner, Mapping):
        for part in inner.values():
            yield from _leaves(part)
    elif isinstance(inner, (str, bytes)) or not hasattr(inner, "__iter__"):
        raise TypeRefusal("a group", inner, "must list its keys", _REMEDY)
    else:
        yield from inner


def _of_panel(name: str, leaf: object, panel: Mapping[str, Key]) -> Key:
    if not isinstance(leaf, str):
        leaf = check.integer(f"key of group {name!r}", leaf)
    if str(leaf) not in panel:
        raise Refusal("groups", ..., "must hold keys of the panel", f"{check.quote(leaf)} of {name!r} is not one")
    return panel[str(leaf)]


def _repeated(values: Sequence[Key]) -> Key | None:
    """Return a value that is there twice; None if there is none."""
    return next((value for value, times in Counter(values).items() if times > 1), None)
