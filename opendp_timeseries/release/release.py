"""What the subsampled Gaussian returns: kept steps, noisy values, and what is public about how they were made."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.sampling import sampling_name
from opendp_timeseries.design.provenance import Provenance, fields_of
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.record import Accounting, ReleaseRecord, check_kept, frozen_row

__all__ = ["Release", "check_release"]

_FIELDS: Final[dict[str, Any]] = {
    "steps": list,
    "values": list,
    "size": int,
    "scale": float,
    "sampling_probability": float,
    "sampling": str,
    "provenance": (dict, type(None)),
    "accounting": (dict, type(None)),
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release:
    """A private release: everything in it may be published.

    :param steps: kept steps, ascending, int64; may be empty. Of a panel, one series after the other.
    :param values: noisy values at the kept steps, float64, in the signal's unit; may be negative.
    :param size: ``T``, the number of steps of the series, or of all series of a panel.
    :param scale: standard deviation σ of the noise in ``values``.
    :param sampling_probability: probability with which each step was kept.
    :param sampling: ``"poisson"``, each step by itself, or ``"stratified"``, one step of each block.
    :param provenance: how the signal was made; None if the measurement's input metric did not carry it.
    :param accounting: which view of the loss the measurement states; None if it is not known.
    :raises ValueError: if the parts do not fit together (when a release is read back).
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    size: int
    scale: float
    sampling_probability: float
    sampling: str = "poisson"
    provenance: Provenance | None = None
    accounting: Accounting | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "steps", frozen_row("steps", self.steps, np.int64))
        set_field(self, "values", frozen_row("values", self.values, np.float64))
        set_field(self, "size", check.integer("size", self.size, minimum=1))
        set_field(self, "scale", check.real("scale", self.scale, minimum=0.0))
        set_field(self, "sampling_probability", check.probability("sampling_probability", self.sampling_probability))
        set_field(self, "sampling", sampling_name(self.sampling))
        check_kept(self.steps, self.values, self.size)
        if self.provenance is not None and self.provenance.size != self.size:
            raise ValueError(f"size ({self.size}) must be that of the provenance ({self.provenance.size})")

    @property
    def keys(self) -> tuple[Hashable, ...] | None:
        """The keys of a panel, in the order of its series; None for one series, or if they are not known."""
        return None if self.provenance is None else self.provenance.keys

    @property
    def grid(self) -> TimeGrid | None:
        """The grid of the count; None if it is not known."""
        return None if self.provenance is None else self.provenance.grid

    def __len__(self) -> int:
        """Return the number of kept steps."""
        return len(self.steps)

    def _key(self) -> tuple[Any, ...]:
        made = (self.size, self.scale, self.sampling_probability, self.sampling, self.provenance, self.accounting)
        return (*made, self.steps.tobytes(), self.values.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        blocks = " in blocks" if self.sampling == "stratified" else ""
        return (
            f"Release({len(self)} of {self.size} steps kept{blocks} with probability {self.sampling_probability:.6g},"
            f" noise scale {self.scale:.6g})"
        )

    def record(self, *, individuals: int = 1) -> ReleaseRecord:
        """Return the document that says how this release was made and what it guarantees; it may be published.

        It is made from what ran, by stages of this library: caps, filters, grid, adjacency, sampling and measure came
        with the measurement.

        :param individuals: how many individuals the guarantee is for.
        :raises ValueError: if how it was made is not known, or it has no noise.

        >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
        >>> dp.enable_features("contrib", "honest-but-curious")
        >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
        >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2)
        >>> measurement = count >> ts.then_subsampled_gaussian(4.0, sampling_probability=1.0, delta=1e-6)
        >>> release = measurement({"id": np.array([7, 7, 8]), "step": np.array([0, 0, 2])})
        >>> record = release.record()
        >>> record.guarantee()
        '(ε = 1.54..., δ = 1e-06)-differential privacy for one individual added or removed'
        >>> ts.ReleaseRecord.from_json(record.to_json()).verify() == record.loss == (measurement.map(1),)
        True
        """
        if self.provenance is None or self.accounting is None:
            raise ValueError(
                "this release does not know how it was made, so it has no record: chain the measurement behind a count"
                " with the influence metric, which is the default"
            )
        return ReleaseRecord(
            steps=self.steps,
            values=self.values,
            scale=self.scale,
            sampling_probability=self.sampling_probability,
            sampling=self.sampling,
            provenance=self.provenance,
            accounting=self.accounting,
            individuals=individuals,
        ).with_loss()

    @classmethod
    def from_record(cls, record: ReleaseRecord) -> Release:
        """Return the release that a record is about."""
        return cls(
            steps=record.steps,
            values=record.values,
            size=record.size,
            scale=record.scale,
            sampling_probability=record.sampling_probability,
            sampling=record.sampling,
            provenance=record.provenance,
            accounting=record.accounting,
        )

    def parts(self) -> list[Release]:
        """Return one release for each series of a panel, in order; this release alone if it is of one series."""
        return [self] if self.keys is None else self._cut(len(self.keys))

    def by_key(self, keys: Sequence[Hashable] | None = None) -> dict[Hashable, Release]:
        """Return one release for each series of a panel, by the keys that were given to the count.

        :param keys: leave it out: a release knows its keys. Given, they must be those keys, in their order. Only a
            release behind ``output_metric=dp.l2_distance(…)``, which carries no keys, takes them as they are given.
        :raises ValueError: if the keys are not those of the release, or not known.
        """
        known = self.keys
        given = known if keys is None else tuple(keys)
        if given is None:
            raise ValueError("this release is of one series, or does not know its keys: give the keys of the count")
        if known is not None and given != known:
            raise ValueError(f"keys ({list(given)}) must be those of the count, in their order: {list(known)}")
        if len(set(given)) < len(given):
            raise ValueError(f"keys ({list(given)}) must be distinct")
        if len(given) == 0 or self.size % len(given):
            raise ValueError(f"{self.size} steps do not divide into {len(given)} series; give the keys of the count")
        return dict(zip(given, self._cut(len(given)), strict=True))

    def _cut(self, panel_size: int) -> list[Release]:
        size = self.size // panel_size
        bounds = np.searchsorted(self.steps, np.arange(panel_size + 1) * size)
        # A part has no record of its own: what one individual loses is a matter of the whole panel.
        one = None if self.provenance is None else self.provenance.of_one_series()
        return [
            replace(
                self,
                steps=self.steps[low:high] - k * size,
                values=self.values[low:high],
                size=size,
                provenance=one,
                accounting=None,
            )
            for k, (low, high) in enumerate(pairwise(bounds))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, ready for ``json.dumps``; :meth:`from_dict` reads them back exactly."""
        return {
            "steps": self.steps.tolist(),
            "values": self.values.tolist(),
            "size": self.size,
            "scale": self.scale,
            "sampling_probability": self.sampling_probability,
            "sampling": self.sampling,
            "provenance": None if self.provenance is None else self.provenance.to_dict(),
            "accounting": None if self.accounting is None else self.accounting._asdict(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Release:
        """Read back what :meth:`to_dict` wrote.

        :raises ValueError: if a part is missing, unknown, or does not fit.
        """
        fields = fields_of(document, "release", _FIELDS)
        provenance, accounting = fields.pop("provenance"), fields.pop("accounting")
        return cls(
            **fields,
            provenance=None if provenance is None else Provenance.from_dict(provenance),
            accounting=None if accounting is None else Accounting.from_dict(accounting),
        )

    def __reduce__(self) -> Any:
        return Release.from_dict, (self.to_dict(),)


def check_release(release: Any) -> Release:
    """Refuse what is no release.

    :raises TypeError: naming what it is.
    """
    if not check.is_a(release, Release):
        raise TypeError(f"release ({check.shown(release)}) must be a Release, which a measurement returns")
    checked: Release = release
    return checked
