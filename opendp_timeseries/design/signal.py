"""A signal: a count and the public stages after it. It travels with OpenDP's metrics, from the count to the release.

It is in the identifier of a metric, which OpenDP compares when stages are chained: a measurement that was built behind
one count cannot be chained behind another. So what a release says of itself is what ran.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, Self

from opendp_timeseries import _validate as check
from opendp_timeseries._json import encode, fields_of, written
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import Influence, Level, totals_influence
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.groups import Groups, Key
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.grid import TimeGrid

Stage = Kernel | Groups

#: What the signals of a document may be about, all together.
_MAX_EXTENT: Final = 2**23


@dataclass(frozen=True)
class UnknownSignal:
    """A signal of which only the size is known: no series of counts, or made by a stage that is not of this package.

    :param size: number of entries.
    :param stage: the name of what made that stage, if it is known.
    """

    size: int
    stage: str | None = None

    count: Literal[None] = None
    grid: Literal[None] = None
    keys: Literal[None] = None
    groups: Literal[None] = None
    kernels: tuple[Kernel, ...] = ()


@dataclass(frozen=True)
class Signal:
    """A count and the stages after it.

    :param count: what is counted.
    :param stages: totals and filters, in order. Totals come first.
    :raises ValueError: if the stages do not fit.
    """

    count: Count
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        if any(isinstance(stage, Groups) for stage in self.stages[1:]):
            raise Refusal("totals", ..., "must come right after the count: filter them afterwards")
        if self.stages and self.count.tiers is not None:
            raise Refusal(
                "tiers",
                ...,
                "must come right before the noise",
                "smooth the release instead, or give the count a `participation_cap`",
            )
        if self.groups is not None:
            if self.count.panel is None:
                raise Refusal("totals", ..., "are of a panel, and this is one series", "leave them out")
            self.groups.check_panel(self.count.panel)
        for kernel in self.kernels:
            if kernel.size != self.grid.size:
                raise Refusal("size of the filter", kernel.size, f"must be the grid's ({self.grid.size})")

    @property
    def grid(self) -> TimeGrid:
        """The grid of the count."""
        return self.count.grid

    @property
    def groups(self) -> Groups | None:
        """The groups whose series were added up; None if none were."""
        first = self.stages[0] if self.stages else None
        return first if isinstance(first, Groups) else None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The filters, in order."""
        return tuple(stage for stage in self.stages if isinstance(stage, Kernel))

    @property
    def keys(self) -> tuple[Key, ...] | None:
        """One key for each series, in order: of the panel, or the names of its totals; None for one series."""
        return self.count.keys if self.groups is None else self.groups.names

    @property
    def series(self) -> int:
        """Number of series."""
        return 1 if self.keys is None else len(self.keys)

    @property
    def size(self) -> int:
        """Number of entries: steps of the grid times series."""
        return self.grid.size * self.series

    @property
    def extent(self) -> int:
        """Approximate number of numbers of which its influence and law are made."""
        steps, tiers = self.count.reading.max_steps, self.count.tiers
        cap = self.count.cap if tiers is None else tiers.first(tiers.last(self.count.reading))
        return min(cap or steps, steps) + len(self.kernels) * self.size

    @property
    def resolution_bits(self) -> int:
        """Binary places of the entries: they are multiples of ``2**-resolution_bits``."""
        return self.count.resolution_bits + sum(kernel.resolution_bits for kernel in self.kernels)

    @property
    def single_series(self) -> Self | UnknownSignal:
        """The signal of a single series. The caps stay: they hold over the whole panel."""
        reading = self.count.reading
        if self.count.tiers is not None and (reading.is_once or reading.grouping is not None):
            return UnknownSignal(self.grid.size)  # no count of one series weighs people by how many keys they have
        return replace(self, count=self.count.single_series, stages=self.kernels)

    @cached_property
    def identifier(self) -> str:
        """A digest of everything here, for the identifier of a metric."""
        stages = [stage.identifier if isinstance(stage, Kernel) else stage.to_dict() for stage in self.stages]
        text = written([encode(self.count), stages])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def after(self, stage: Stage) -> Self:
        """Return the signal that a further stage makes."""
        return replace(self, stages=(*self.stages, stage))

    def influence(self, distance: int = 1, *, periods: int = 1) -> Influence:
        """Return how far logs at this distance move the signal. For the parameters, see :meth:`.Count.influence`."""
        influence, series = self.count.influence(distance, periods=periods), self.count.series
        for stage in self.stages:
            if isinstance(stage, Groups):
                influence, series = tree_influence(influence, stage, self.grid.size), len(stage.names)
            else:
                influence = filtered_influence(influence, stage, series)
        return influence

    def to_dict(self) -> dict[str, object]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        stages = [{"totals" if isinstance(stage, Groups) else "filter": stage.to_dict()} for stage in self.stages]
        return {"count": encode(self.count), "stages": stages}

    @classmethod
    def from_dict(cls, document: object) -> Self:
        """Read back what :meth:`to_dict` wrote; TypeError or ValueError for anything else."""
        count, stages = fields_of(document, "signal", {"count": Count, "stages": list}).values()
        check.integer("number of stages", len(stages), maximum=16, remedy="convolve filters that follow each other")
        return cls(count, tuple(_read_stage(stage, count.grid.size) for stage in stages))


def check_extent(signals: Iterable[Signal]) -> None:
    """Refuse signals of a document whose mathematics would take more than some seconds."""
    extent = sum(signal.extent for signal in signals)
    remedy = "use longer steps, fewer keys or filters, or a lower cap; or several documents"
    check.integer("entries that caps and filters of a document are about", extent, maximum=_MAX_EXTENT, remedy=remedy)


def _read_stage(document: object, size: int) -> Stage:
    if isinstance(document, dict) and "totals" in document:
        return Groups.from_dict(fields_of(document, "stage", {"totals": list})["totals"])
    return Kernel.from_dict(fields_of(document, "stage", {"filter": dict})["filter"], size)


def tree_influence(influence: Influence, groups: Groups, steps: int) -> Influence:
    """Return the influence on the totals of groups, given that on a panel whose series have ``steps`` steps."""
    sizes: dict[int, list[int]] = {}
    for depth, (_, keys) in zip(groups.depths, groups.members, strict=True):
        sizes.setdefault(depth, []).append(len(keys))
    return totals_influence(influence, [Level(len(numbers), max(numbers)) for numbers in sizes.values()], steps)
