"""How a signal was made, in public facts: they travel with the spaces, from the count to the release.

The count puts a :class:`Provenance` into its output metric, and every stage after it adds itself. It is part of the
metric's identifier, which OpenDP compares when stages are chained: a measurement that was built behind one count
cannot be chained behind another. So what a release says of itself is what ran, and nobody types it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, count_influence, repeated_influence
from opendp_timeseries.accounting.totals import Level, totals_influence
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.grid import Period, TimeGrid

__all__ = ["Adjacency", "Provenance", "Repeat", "fields_of", "tree_influence"]

Key = str | int | tuple[int, str | int]


class Adjacency(NamedTuple):
    """What a distance of 1 between two logs is.

    :param individuals: how many individuals may differ: 1, or 2 for OpenDP's ``change_one_id_distance``.
    :param replaced: True if individuals are replaced, False if they are added or removed.
    :param period: if an individual within each period is an individual of its own, what a period is; None if an
        individual is all that they did.
    """

    individuals: int = 1
    replaced: bool = False
    period: Period | None = None

    def __str__(self) -> str:
        return self.of(1)

    def of(self, distance: int) -> str:
        """Say what a distance is."""
        who = "one individual" if distance == 1 else f"{distance} individuals"
        if self.period is not None:
            who += f"{'' if distance == 1 else ', each'} within {self.period}, not all that they did,"
        return f"{who} {'replaced' if self.replaced else 'added or removed'}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        period = None if self.period is None else {"length": self.period.length, "zone": self.period.zone}
        return {"individuals": self.individuals, "replaced": self.replaced, "period": period}

    @classmethod
    def from_dict(cls, document: Any) -> Adjacency:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises TypeError, ValueError: for anything else.
        """
        fields = fields_of(document, "adjacency", _ADJACENCY)
        if fields["individuals"] not in (1, 2):
            raise ValueError(f"individuals of the adjacency ({fields['individuals']}) must be 1 or 2")
        if fields["period"] is not None:
            fields["period"] = Period(**fields_of(fields["period"], "period", _PERIOD))
        return cls(**fields)


@dataclass(frozen=True)
class Repeat:
    """The stage that repeats a signal, see :func:`~opendp_timeseries.make_repeat`."""

    times: int


Stage = Kernel | Groups | Repeat


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a signal was made: what the count enforced or assumed, and the stages after it. All of it is public.

    :param grid: the grid of the count.
    :param participation_cap: ``I``, most steps in which one individual is counted, over all series of a panel; within
        each period by itself, if the adjacency has one. So are the other two.
    :param step_cap: ``M``, most events of one individual in one step.
    :param gap: least distance of two steps in which one individual is counted, around the cycle of the grid, in each
        series of a panel; 1 is none.
    :param caps_enforced: whether the count enforced caps and gap; False if they were assumed of a count made elsewhere.
    :param adjacency: what a distance of 1 is.
    :param panel: the keys of a panel, in the order of its series; None for one series.
    :param key_cap: most series of a panel in which one individual is counted at one step; None for all of them.
    :param stages: the totals, filters and repetitions after the count, in order. Totals are first.
    """

    grid: TimeGrid
    participation_cap: int
    step_cap: int = 1
    gap: int = 1
    caps_enforced: bool = True
    adjacency: Adjacency = field(default_factory=Adjacency)
    panel: tuple[str | int, ...] | None = None
    key_cap: int | None = None
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        for name in ("participation_cap", "step_cap"):
            object.__setattr__(self, name, check.integer(name, getattr(self, name), minimum=1))
        object.__setattr__(self, "gap", check.integer("gap", self.gap, minimum=1, maximum=self.grid.size))
        if self.key_cap is not None:
            object.__setattr__(self, "key_cap", check.integer("key_cap", self.key_cap, minimum=1))
        if self.key_cap is not None and self.panel is None:
            raise ValueError(f"key_cap ({self.key_cap}) is of a panel, and this is one series")
        if any(check.is_a(stage, Groups) for stage in self.stages[1:]):
            raise ValueError("totals must come right after the count: filter or repeat them afterwards")
        if self.groups is not None:
            if self.panel is None:
                raise ValueError("totals are of a panel, and this is one series")
            self.groups.check_panel(self.panel)
        if self.adjacency.period is not None:
            self.adjacency.period.starts(self.grid)  # or it does not fit, and is refused

    @cached_property
    def identifier(self) -> str:
        """A digest of everything here, for the identifier of a metric."""
        stages = [_write_stage(stage) if not check.is_a(stage, Kernel) else f"{stage}" for stage in self.stages]
        written = json.dumps(self._counted() | {"stages": stages}, sort_keys=True)  # in ASCII, whatever the keys
        return hashlib.sha256(written.encode()).hexdigest()[:32]

    @property
    def panel_size(self) -> int:
        """Number of series of the count."""
        return 1 if self.panel is None else len(self.panel)

    @property
    def counted_size(self) -> int:
        """Number of entries of the count: steps of the grid times series of the panel."""
        return self.grid.size * self.panel_size

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """One key for each series of the signal, in order; None for one series.

        The keys of a panel, or the names of its totals; the numbers of the copies of a repeated series; both, of a
        repeated panel.
        """
        keys: tuple[Any, ...] | None = self.panel if self.groups is None else self.groups.names
        for stage in self.stages:
            if check.is_a(stage, Repeat):
                copies = range(stage.times)
                keys = tuple(copies) if keys is None else tuple((copy, key) for copy in copies for key in keys)
        return keys

    @property
    def size(self) -> int:
        """Number of entries of the signal."""
        return self.grid.size * (1 if self.keys is None else len(self.keys))

    @property
    def groups(self) -> Groups | None:
        """Which series of the panel were added up, if any were."""
        first = self.stages[0] if self.stages else None
        return first if check.is_a(first, Groups) else None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The filters, in order."""
        return tuple(stage for stage in self.stages if check.is_a(stage, Kernel))

    def after(self, stage: Stage) -> Provenance:
        """Return the provenance of the signal that a further stage makes."""
        return replace(self, stages=(*self.stages, stage))

    def of_one_series(self) -> Provenance:
        """Return what is said of each series by itself. The caps stay: they hold over the whole panel."""
        return replace(self, panel=None, key_cap=None, stages=self.kernels)

    @cached_property
    def period_span(self) -> tuple[int, int] | None:
        """The first and the last period that the count looks at, as of ``Period.span``; None if that is not known.

        That is known where the count enforced it, and an individual within each period counts by itself.
        """
        period = self.adjacency.period
        return None if period is None or not self.caps_enforced else period.span(self.grid)

    def period_lengths(self) -> NDArray[np.int64]:
        """Return in how many steps each period is in which an individual counts by itself, the longest first."""
        period = self.adjacency.period
        return np.array([self.grid.size]) if period is None else period.lengths(self.grid)

    def influence(self, distance: int = 1, *, periods: int = 1) -> Influence:
        """Return what logs at this distance change of the signal: the map of the stages, from the caps alone.

        :param distance: in individuals, as the log's metric counts them.
        :param periods: in at most how many periods each of these differs. One is what a unit within a period is; with
            more of them, a distance of 1 is all that somebody did who takes part in so many. Without period, 1.
        :raises ValueError: if there are more periods than one, and no unit within a period.
        """
        panel_size = self.panel_size
        periods = check.integer("periods", periods, minimum=1)
        if periods > 1 and self.adjacency.period is None:
            raise ValueError(f"periods ({periods}) must be 1, as this is for {self.adjacency}, whatever they did")
        influence = count_influence(
            distance * self.adjacency.individuals,
            participation_cap=self.participation_cap,
            step_cap=self.step_cap,
            size=self.counted_size,
            replaced=self.adjacency.replaced,
            gap=self.gap,
            series=panel_size,
            key_cap=self.key_cap,
            periods=self.period_lengths()[:periods].tolist(),
        )
        for stage in self.stages:
            if check.is_a(stage, Groups):
                influence = tree_influence(influence, stage, self.grid.size)
                panel_size = len(stage.names)
            elif check.is_a(stage, Repeat):
                influence = repeated_influence(influence, stage.times)
                panel_size *= stage.times
            elif check.is_a(stage, Kernel):
                influence = filtered_influence(influence, stage, panel_size)
        return influence

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, ready for ``json.dumps``; :meth:`from_dict` reads them back exactly."""
        return self._counted() | {"stages": [_write_stage(stage) for stage in self.stages]}

    def _counted(self) -> dict[str, Any]:
        return {
            "grid": self.grid.to_dict(),
            "panel": None if self.panel is None else list(self.panel),
            "participation_cap": self.participation_cap,
            "step_cap": self.step_cap,
            "gap": self.gap,
            "key_cap": self.key_cap,
            "caps_enforced": self.caps_enforced,
            "adjacency": self.adjacency.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Any) -> Provenance:
        """Read back what :meth:`to_dict` wrote, and nothing else: every field is typed, and none is unknown.

        :raises ValueError: for a field that is missing, unknown, or of another type or value.
        """
        fields = fields_of(document, "provenance", _FIELDS)
        written = fields_of(fields["grid"], "grid", _EDGES if "edges" in fields["grid"] else _GRID)
        try:
            grid = TimeGrid.from_dict(written)
            return cls(
                grid=grid,
                participation_cap=fields["participation_cap"],
                step_cap=fields["step_cap"],
                gap=fields["gap"],
                key_cap=fields["key_cap"],
                caps_enforced=fields["caps_enforced"],
                adjacency=Adjacency.from_dict(fields["adjacency"]),
                panel=_read_panel(fields["panel"]),
                stages=tuple(_read_stage(stage, grid.size) for stage in fields["stages"]),
            )
        except TypeError as error:
            raise ValueError(f"provenance: {error}") from None


_TEXT: Final = (str, type(None))
_GRID: Final[dict[str, Any]] = {"size": int, "start": _TEXT, "step": _TEXT, "zone": _TEXT}
_EDGES: Final[dict[str, Any]] = {"edges": list, "zone": _TEXT}
_ADJACENCY: Final[dict[str, Any]] = {"individuals": int, "replaced": bool, "period": (dict, type(None))}
_PERIOD: Final[dict[str, Any]] = {"length": (str, int), "zone": _TEXT}
_FIELDS: Final[dict[str, Any]] = {
    "grid": dict,
    "panel": (list, type(None)),
    "participation_cap": int,
    "step_cap": int,
    "gap": int,
    "key_cap": (int, type(None)),
    "caps_enforced": bool,
    "adjacency": dict,
    "stages": list,
}


def fields_of(document: Any, name: str, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON object that must have just these fields, each of its type (a bool is no number).

    :param document: what was read.
    :param name: of the object, for messages.
    :param types: the type, or the types, of each field; ``float`` takes integers too.
    :raises ValueError: for anything else, naming the field.
    """
    if not isinstance(document, dict):
        raise ValueError(f"{name} must be an object, found {type(document).__name__}")
    for field_name in types.keys() ^ document.keys():
        problem = "is not known" if field_name in document else "is missing"
        raise ValueError(f"{name} has a field {field_name!r} that {problem}")
    for field_name, expected in types.items():
        value = document[field_name]
        kinds = expected if isinstance(expected, tuple) else (expected,)
        if not (type(value) in kinds or (type(value) is int and float in kinds)):
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise ValueError(f"{field_name} of {name} must be {wanted}, found {type(value).__name__}")
    return dict(document)


def _read_panel(keys: list[Any] | None) -> tuple[Any, ...] | None:
    if keys is None:
        return None
    if not keys or len({type(key) for key in keys}) > 1 or type(keys[0]) not in (str, int):
        raise ValueError("panel must list keys, all of them text or all whole numbers")
    if len(set(keys)) < len(keys):
        raise ValueError("panel must list distinct keys")
    return tuple(keys)


def tree_influence(influence: Influence, groups: Groups, steps: int) -> Influence:
    """Return the influence on the totals of groups, given that on a panel whose series have so many steps."""
    sizes: dict[int, list[int]] = {}
    for depth, (_, keys) in zip(groups.depths, groups.members, strict=True):
        sizes.setdefault(depth, []).append(len(keys))
    return totals_influence(influence, [Level(len(each), max(each)) for each in sizes.values()], steps)


def _write_stage(stage: Stage) -> dict[str, Any]:
    if check.is_a(stage, Repeat):
        return {"repeat": stage.times}
    if check.is_a(stage, Groups):
        return {"totals": [[name, list(keys)] for name, keys in stage.members]}
    assert check.is_a(stage, Kernel)
    at = np.flatnonzero(stage.numerators)
    taps = [[int(step), int(stage.numerators[step])] for step in at]  # those that are not zero
    return {"filter": {"name": stage.name, "size": stage.size, "resolution_bits": stage.resolution_bits, "taps": taps}}


def _read_totals(groups: list[Any]) -> Groups:
    if not all(
        isinstance(group, list) and [type(part) for part in group] == [str, list] and _are_keys(group[1])
        for group in groups
    ):
        raise ValueError("totals must list pairs of a name and keys")
    return Groups(tuple((name, tuple(keys)) for name, keys in groups))


def _are_keys(keys: list[Any]) -> bool:
    return all(type(key) in (str, int) for key in keys)


def _read_stage(document: Any, size: int) -> Stage:
    if isinstance(document, dict) and "totals" in document:
        return _read_totals(fields_of(document, "stage", {"totals": list})["totals"])
    if isinstance(document, dict) and "repeat" in document:
        return Repeat(check.integer("repeat", fields_of(document, "stage", {"repeat": int})["repeat"], minimum=1))
    types = {"name": str, "size": int, "resolution_bits": int, "taps": list}
    kernel = fields_of(fields_of(document, "stage", {"filter": dict})["filter"], "filter", types)
    if kernel["size"] != size:
        raise ValueError(f"size of the filter ({kernel['size']}) must be the grid's ({size})")
    check.integer("size of the filter", size, minimum=1, maximum=2**31)
    numerators = np.zeros(size, dtype=np.int64)
    before = -1
    for tap in kernel["taps"]:
        if not (isinstance(tap, list) and [type(number) for number in tap] == [int, int]):
            raise ValueError("taps must list pairs of whole numbers: the step, and the numerator there")
        step, numerator = tap
        if not before < step < size or not 0 < abs(numerator) < 2**63:
            raise ValueError(f"tap {tap} must have a step above the one before it, and a numerator other than 0")
        numerators[step], before = numerator, step
    return Kernel(numerators, kernel["resolution_bits"], kernel["name"])
