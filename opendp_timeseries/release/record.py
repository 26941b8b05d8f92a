"""One document for a release: its values, how it was made, and its guarantee, which a reader can recompute.

A record is made from what ran (``release.record()``), never typed. It needs no data and no OpenDP to be verified:
the caps, filters, sampling and noise that it states give the loss again.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.laws import binomial_tail
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import printed_up as up
from opendp_timeseries.accounting.sampling import blocks_of, sampling_name
from opendp_timeseries.design.mechanism import Mechanism
from opendp_timeseries.design.provenance import Provenance, fields_of

__all__ = [
    "MEASURES",
    "Accounting",
    "ReleaseRecord",
    "check_kept",
    "frozen_row",
    "joint_guarantee",
    "parse_json",
    "read_document",
    "read_records",
    "write_records",
]

_FORMAT: Final = "opendp_timeseries release record, version 4"
_FORMAT_OF_MANY: Final = "opendp_timeseries release records, version 4"
#: A recomputed loss may differ in the last digits between machines.
_TOLERANCE: Final = 1e-9
#: A number of kept steps that is less probable than this was not drawn as the record says.
_IMPROBABLE: Final = 1e-12
#: A profile is put in words at the first point with at most this δ.
_SMALL_DELTA: Final = 1e-5
#: Where curves are written down.
_ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_EPSILONS: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

#: OpenDP's names of the measures of loss, and their names here.
MEASURES: Final = {
    "Approximate<ZeroConcentratedDivergence>": "approximate zero-concentrated divergence",
    "Approximate<MaxDivergence>": "approximate max divergence",
    "RenyiDivergence": "Rényi divergence",
    "SmoothedMaxDivergence": "smoothed max divergence",
}

Loss = tuple[tuple[float, float], ...]


class Accounting(NamedTuple):
    """Which view of its loss a measurement states.

    :param measure: one of the names in :data:`~opendp_timeseries.release.record.MEASURES`.
    :param failure_probability: δ′, of approximate zCDP alone.
    :param delta: δ, of the approximate max divergence alone.
    """

    measure: str
    failure_probability: float | None = None
    delta: float | None = None

    @classmethod
    def from_dict(cls, document: Any) -> Accounting:
        """Read back what ``_asdict`` wrote, and nothing else.

        :raises ValueError: for an unknown measure, or one without its own parameter or with another's.
        """
        accounting = cls(**fields_of(document, "accounting", _ACCOUNTING))
        needs = {
            MEASURES["Approximate<ZeroConcentratedDivergence>"]: {"failure_probability"},
            MEASURES["Approximate<MaxDivergence>"]: {"delta"},
        }.get(accounting.measure, set())
        given = {name: value for name, value in accounting._asdict().items() if name != "measure" and value is not None}
        if accounting.measure not in MEASURES.values() or given.keys() != needs:
            raise ValueError(f"measure ({accounting.measure}) must be a known one, with the parameters of its own")
        for name, value in given.items():
            check.real(name, value, above=0.0, below=1.0)
        return accounting

    def points(self, loss: PrivacyLoss) -> Loss:
        """Return the loss as points: one ``(ρ, δ′)`` or ``(ε, δ)``, or several ``(α, ε)`` or ``(ε, δ)`` of a curve."""
        if self.failure_probability is not None:
            return (loss.zero_concentrated(self.failure_probability),)
        if self.delta is not None:
            return (loss.epsilon_delta(self.delta),)
        if self.measure == MEASURES["RenyiDivergence"]:
            return tuple((order, loss.renyi(order)) for order in _ORDERS)
        return tuple((epsilon, loss.delta(epsilon)) for epsilon in _EPSILONS)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseRecord:
    """A release with everything public about how it was made. All of it may be published.

    Made by :meth:`Release.record <opendp_timeseries.Release.record>`, written by :meth:`to_json`, read back by
    :meth:`from_json`, and checked by :meth:`verify`.

    :param steps: kept steps, ascending, int64.
    :param values: noisy values at the kept steps, float64.
    :param scale: standard deviation σ of the noise.
    :param sampling_probability: probability with which each step was kept.
    :param sampling: ``"poisson"``, each step by itself, or ``"stratified"``, one step of each block.
    :param provenance: how the signal was made.
    :param accounting: which view of the loss is stated.
    :param individuals: how many individuals the guarantee is for.
    :param loss: the stated loss, see :meth:`~opendp_timeseries.release.record.Accounting.points`.
    :param versions: of the software that computed it.
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    scale: float
    sampling_probability: float
    provenance: Provenance
    accounting: Accounting
    sampling: str = "poisson"
    individuals: int = 1
    loss: Loss = ()
    versions: Mapping[str, str] = field(default_factory=lambda: _versions())

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "steps", frozen_row("steps", self.steps, np.int64))
        set_field(self, "values", frozen_row("values", self.values, np.float64))
        set_field(self, "scale", check.real("scale", self.scale, minimum=0.0))
        set_field(self, "sampling_probability", check.probability("sampling_probability", self.sampling_probability))
        set_field(self, "sampling", sampling_name(self.sampling))
        set_field(self, "individuals", check.integer("individuals", self.individuals, minimum=1))
        check_kept(self.steps, self.values, self.provenance.size)
        Accounting.from_dict(self.accounting._asdict())

    def with_loss(self) -> ReleaseRecord:
        """Return this record with the loss that follows from what it says."""
        return replace(self, loss=self._recomputed())

    @property
    def size(self) -> int:
        """Number of entries of the signal: steps of the grid, times the series of a panel."""
        return self.provenance.size

    @property
    def mechanism(self) -> Mechanism:
        """What ran."""
        return Mechanism(
            provenance=self.provenance,
            sampling_probability=self.sampling_probability,
            sampling=self.sampling,
            scale=self.scale,
        )

    def verify(self) -> Loss:
        """Recompute the loss from what the record says of caps, filters, sampling and noise, and return it.

        What no record can show is that the values came from this mechanism, or that the caps were enforced.

        :raises ValueError: if the loss that is stated is less than the loss recomputed (by more than a part in 10⁹,
            which is rounding), or the kept steps cannot have been drawn so (or have a probability below 1e-12).
        """
        recomputed = self._recomputed()
        _check_covered("loss", self.loss, recomputed, "the record's own parameters give")
        return recomputed

    def _recomputed(self) -> Loss:
        if self.scale == 0:
            raise ValueError("scale (0.0) is no noise: there is no guarantee to record")
        self._check_sample()
        loss = _points(self.accounting, self.mechanism.loss(self.individuals))
        if not all(math.isfinite(number) for point in loss for number in point):
            raise ValueError(f"scale ({self.scale}) gives no finite loss: there is no guarantee to record")
        return loss

    def _check_sample(self) -> None:
        """Refuse kept steps that cannot have been drawn by the design."""
        kept, size, p = len(self.steps), self.size, self.sampling_probability
        if self.sampling == "stratified":
            blocks = blocks_of(p, size)
            if not blocks.allow(self.steps):
                raise ValueError(
                    f"steps must hold one of each block of {blocks.length}, which sampling ('stratified') keeps at"
                    f" sampling_probability ({p:g})"
                )
            return
        at_least = binomial_tail(kept - 1, size, p) if kept > 0 else 1.0
        at_most = binomial_tail(size - kept - 1, size, 1 - p) if kept < size else 1.0
        if (p == 0 and kept > 0) or (p == 1 and kept < size) or min(at_least, at_most) < _IMPROBABLE:
            raise ValueError(
                f"{kept} of {size} steps cannot have been kept at sampling_probability ({p:g}): so few, or so many, are"
                f" expected less than once in {1 / _IMPROBABLE:g} releases"
            )

    def guarantee(self) -> str:
        """Say the guarantee in words."""
        measure, (first, second) = self.accounting.measure, self.loss[0]
        if measure == MEASURES["SmoothedMaxDivergence"]:
            first, second = next((point for point in self.loss if point[1] <= _SMALL_DELTA), self.loss[-1])
        text = {
            "approximate zero-concentrated divergence": f"{up(second, 4)}-approximate {up(first)}-zCDP",
            "approximate max divergence": f"(ε = {up(first)}, δ = {up(second, 4)})-differential privacy",
            "Rényi divergence": f"Rényi divergence of order {first:g} at most {up(second)}",
            "smoothed max divergence": f"(ε = {up(first)}, δ = {up(second, 4)})-differential privacy",
        }[measure]
        facts = self.provenance
        apart = "" if facts.gap == 1 else f", at least {facts.gap} apart"
        assumed = "" if facts.caps_enforced else f", assuming at most {facts.participation_cap} steps of each{apart}"
        more = "" if len(self.loss) == 1 else "; more points of the curve are in the record"
        return f"{text} for {facts.adjacency.of(self.individuals)}{assumed}{more}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseRecord) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"ReleaseRecord({len(self.steps)} of {self.size} steps kept; {self.guarantee()})"

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain Python objects, ready for ``json.dumps``."""
        return {
            "format": _FORMAT,
            "guarantee": self.guarantee(),
            "loss": [list(point) for point in self.loss],
            "individuals": self.individuals,
            "accounting": self.accounting._asdict(),
            "provenance": self.provenance.to_dict(),
            "release": {
                "steps": self.steps.tolist(),
                "values": self.values.tolist(),
                "scale": self.scale,
                "sampling_probability": self.sampling_probability,
                "sampling": self.sampling,
            },
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """Return the whole record as one JSON document; floats are written so that they read back exactly."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, document: Any) -> ReleaseRecord:
        """Read back what :meth:`to_dict` wrote, and nothing else: every field is typed, and none is unknown.

        :raises ValueError: if it is no such document, naming the part that is wrong.
        """
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise ValueError(f"the document is not in the format {_FORMAT!r}")
        fields = fields_of(document, "the record", _FIELDS)
        release = fields_of(fields["release"], "release", _RELEASE)
        for name, kinds in (("steps", (int,)), ("values", (int, float))):
            if not all(type(number) in kinds for number in release[name]):
                raise ValueError(f"{name} of release must list numbers")
        versions = fields_of(fields["versions"], "versions", dict.fromkeys(_SOFTWARE, str))
        try:
            record = cls(
                **release,
                provenance=Provenance.from_dict(fields["provenance"]),
                accounting=Accounting.from_dict(fields["accounting"]),
                individuals=fields["individuals"],
                loss=_read_loss(fields["loss"]),
                versions=versions,
            )
        except TypeError as error:
            raise ValueError(f"the record: {error}") from None
        if fields["guarantee"] != record.guarantee():
            raise ValueError("the guarantee that the document states in words is not that of its loss")
        return record

    @classmethod
    def from_json(cls, text: str) -> ReleaseRecord:
        """Read back what :meth:`to_json` wrote. The loss is read as it stands: :meth:`verify` checks it.

        :raises ValueError: if it is no such document, naming the part that is wrong.
        """
        return cls.from_dict(parse_json(text))


def write_records(records: Sequence[ReleaseRecord], *, in_advance: bool = False) -> str:
    """Return several records, of releases of one log, as one JSON document with their joint guarantee.

    :param records: of the same measure, adjacency and number of individuals.
    :param in_advance: True if all of it, queries, sampling and noise, was fixed before the first release, as in a
        :func:`~opendp_timeseries.make_composition`. The joint guarantee is then that of the joint loss; else it is by
        basic composition: (ε, δ), or (ρ, δ′), add up. The document says which.
    :raises ValueError: if there are none, one states less than it loses, or they do not add up.
    """
    for record in records:
        record.verify()
    document = {
        "format": _FORMAT_OF_MANY,
        "in advance": in_advance,
        "joint loss": [list(point) for point in _joint(records, in_advance)],
        "records": [record.to_dict() for record in records],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def read_records(text: str) -> tuple[ReleaseRecord, ...]:
    """Read back and verify one record, or what :func:`write_records` wrote: every record, and their joint guarantee.

    :raises ValueError: if it is no such document, or a loss is stated too low.
    """
    return read_document(text).records


class Document(NamedTuple):
    """Records that were written and verified together.

    :param records: of single releases.
    :param guarantee: of all of them, in words.
    """

    records: tuple[ReleaseRecord, ...]
    guarantee: str


def read_document(text: str) -> Document:
    """Return what :func:`read_records` reads, with the joint guarantee in words.

    :raises ValueError: as there.
    """
    document = parse_json(text)
    if not isinstance(document, dict) or document.get("format") != _FORMAT_OF_MANY:
        record = ReleaseRecord.from_dict(document)
        record.verify()
        return Document((record,), record.guarantee())
    fields = fields_of(document, "the document", _FIELDS_OF_MANY)
    records = tuple(ReleaseRecord.from_dict(record) for record in fields["records"])
    for record in records:
        record.verify()
    stated, right = _read_loss(fields["joint loss"]), _joint(records, fields["in advance"])
    _check_covered("joint loss", stated, right, "the records together give")
    return Document(records, _together(records, stated))


def joint_guarantee(records: Sequence[ReleaseRecord]) -> str:
    """Return in words what all of these guarantee together, if all of it was fixed before the first release.

    :raises ValueError: if they do not add up, as in :func:`write_records`.
    """
    return _together(records, _joint(records, in_advance=True))


def _together(records: Sequence[ReleaseRecord], loss: Loss) -> str:
    # Of several, one whose caps were assumed says so.
    spoken = min(records, key=lambda record: record.provenance.caps_enforced)
    return replace(spoken, loss=loss, accounting=_total(records)).guarantee()


def _check_covered(name: str, stated: Loss, right: Loss, source: str) -> None:
    """Refuse points of a loss of which one is below what it should be, by more than rounding."""
    if len(stated) != len(right):
        raise ValueError(f"{name} ({len(stated)} points) must have {len(right)} points")
    for point, exact in zip(stated, right, strict=True):
        # Phrased so that NaN fails. Of a curve, the first number says where and is no claim.
        covered = all(s >= r * (1 - _TOLERANCE) for s, r in zip(point, exact, strict=True))
        if not covered or (len(right) > 1 and point[0] != exact[0]):
            raise ValueError(f"{name} ({point}) is stated, but {source} {exact}")


def _total(records: Sequence[ReleaseRecord]) -> Accounting:
    """The view that states the joint loss: of the same measure, at the sum of all δ or δ′.

    :raises ValueError: if the records are not of one kind.
    """
    if len({(record.accounting.measure, record.individuals, record.provenance.adjacency) for record in records}) != 1:
        units = {record.provenance.adjacency.of(record.individuals) for record in records}
        raise ValueError(
            "records must be at least one, of one measure, adjacency and number of individuals; found"
            f" {'; '.join(sorted(units)) or 'none'}"
        )
    kinds = [record.accounting for record in records]
    total = {
        "measure": kinds[0].measure,
        "failure_probability": _sum_up([kind.failure_probability for kind in kinds]),
        "delta": _sum_up([kind.delta for kind in kinds]),
    }
    return Accounting.from_dict(total)


def _joint(records: Sequence[ReleaseRecord], in_advance: bool) -> Loss:
    accounting = _total(records)
    pairs = all(len(record.loss) == 1 for record in records)
    if not (pairs or in_advance):
        raise ValueError(
            "records that were not fixed in advance must each state one pair (ε, δ) or (ρ, δ′), to add up: give delta="
            " or failure_probability= to the measurements"
        )
    first, second = (_sum_up([record.loss[0][k] for record in records]) for k in (0, 1))
    if not in_advance:
        return ((first, second),)
    losses = [record.mechanism.loss(record.individuals) for record in records]
    points = accounting.points(joint_loss(losses, adaptive=False))
    # By basic composition, no more than the sum of pairs is ever lost.
    return ((first, second),) if pairs and first <= points[0][0] else points


def _sum_up(numbers: Sequence[float | None]) -> Any:
    """Return the sum, rounded up; None if there is nothing to add."""
    given = [number for number in numbers if number is not None]
    # fsum rounds the exact sum to nearest; the next float up is not below it.
    return math.nextafter(math.fsum(given), math.inf) if given else None


@lru_cache(maxsize=1024)
def _points(accounting: Accounting, loss: PrivacyLoss) -> Loss:
    return accounting.points(loss)


def frozen_row(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """Return numbers as an array that can never be made writeable again.

    :raises ValueError: if they are no row of numbers that the type holds without loss.
    """
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # what does not fit comes out unequal
        array = given.astype(dtype) if given.dtype.kind in "iuf" else None
    if array is None or not np.array_equal(given, array, equal_nan=given.dtype.kind == "f"):
        raise ValueError(f"{name} of type {given.dtype} must be {np.dtype(dtype)} numbers, without loss")
    if array.dtype.kind == "f":
        array = array + 0.0  # -0.0 equals 0.0, and must have its hash
    return np.frombuffer(array.tobytes(), dtype=dtype).reshape(array.shape)


def check_kept(steps: NDArray[np.int64], values: NDArray[np.float64], size: int) -> None:
    """Refuse kept steps and values that do not fit together, or the size.

    :raises ValueError: naming what does not fit.
    """
    if steps.ndim != 1 or steps.shape != values.shape:
        raise ValueError(f"steps {steps.shape} and values {values.shape} must be rows of the same length")
    if len(steps) and (steps[0] < 0 or steps[-1] >= size or np.any(np.diff(steps) <= 0)):
        raise ValueError(f"steps must ascend within 0 … {size - 1}")


_SOFTWARE: Final = ("python", "opendp_timeseries", "opendp", "numpy", "scipy")
_NUMBER_OR_NONE: Final = (float, type(None))
_FIELDS: Final[dict[str, Any]] = {
    "format": str,
    "guarantee": str,
    "loss": list,
    "individuals": int,
    "accounting": dict,
    "provenance": dict,
    "release": dict,
    "versions": dict,
}
_FIELDS_OF_MANY: Final[dict[str, Any]] = {"format": str, "in advance": bool, "joint loss": list, "records": list}
_RELEASE: Final[dict[str, Any]] = {
    "steps": list,
    "values": list,
    "scale": float,
    "sampling_probability": float,
    "sampling": str,
}
_ACCOUNTING: Final[dict[str, Any]] = {"measure": str, "failure_probability": _NUMBER_OR_NONE, "delta": _NUMBER_OR_NONE}


def _read_loss(points: list[Any]) -> Loss:
    if not points or not all(
        isinstance(point, list) and len(point) == 2 and all(type(number) in (int, float) for number in point)
        for point in points
    ):
        raise ValueError("loss must list pairs of numbers")
    return tuple((float(first), float(second)) for first, second in points)


def parse_json(text: str) -> Any:
    """Read JSON of numbers that are finite and objects in which no key is there twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"the document has a key twice among {', '.join(sorted(found))}")
        return found

    def finite(word: str) -> float:
        number = float(word)
        if not math.isfinite(number):
            raise ValueError(f"the document has a number ({word}) that is not finite")
        return number

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"the text is no JSON document: {error}") from None
    except RecursionError:
        raise ValueError("the document is nested too deeply to be a record") from None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _SOFTWARE[1:]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
