"""Releases: the first public output. A reader can recompute their loss without the data and without OpenDP."""

from __future__ import annotations

import math
import platform
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._json import encode, fields_of, parse_json, read_versioned, written
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._tables import html_table
from opendp_timeseries.accounting.loss import CONCENTRATED, RENYI, Points, PrivacyLoss
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.accounting.subsampled import MIN_SCALE
from opendp_timeseries.design.design import LARGEST_ENTRY, Design, noise_exponent
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.statement import Parent, Statement

FORMAT: Final = "opendp_timeseries release"
#: A recomputed loss may differ in the last digits between machines.
_TOLERANCE: Final = 1e-9
#: Kept steps or values that are less probable than this are refused: the stated design cannot have drawn them.
_IMPROBABLE: Final = 1e-12
#: Optional fields.
_LABELS: Final = ("invocation", "composition")
_SOFTWARE: Final = ("opendp_timeseries", "opendp", "numpy", "scipy")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release:
    """A private release: everything in it may be published.

    :param steps: kept steps, ascending, int64; may be empty. For a panel, one series after the other.
    :param values: noisy values at the kept steps, float64, in the signal's unit; may be negative.
    :param design: the design that ran.
    :param statement: about its loss; None if there is none, as for a single series of a panel.
    :param invocation: random name, independent of the data, of the count's invocation by the composition or nested
        Context that made this release; shared by all releases of that invocation. None for any other release.
    :param composition: random name of the invocation of the composition that made this release, with all of its
        releases fixed in advance; shared by them. None for any other release.
    :raises ValueError: if the fields do not fit each other (when a release is read back).

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2)
    >>> measurement = count >> ts.then_subsampled_gaussian(4.0, sampling_probability=1.0, delta=1e-6)
    >>> release = measurement({"id": np.array([7, 7, 8]), "step": np.array([0, 0, 2])})
    >>> release.guarantee()
    '(ε = 1.54..., δ = 1e-06)-differential privacy for one individual added or removed'
    >>> ts.Release.from_json(release.to_json()).verify() == (measurement.map(1),)
    True
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    design: Design
    statement: Statement | None = None
    invocation: str | None = None
    composition: str | None = None

    def __post_init__(self) -> None:
        steps, values = _freeze_row("steps", self.steps, np.int64), _freeze_row("values", self.values, np.float64)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "values", values)
        if steps.ndim != 1 or steps.shape != values.shape:
            raise Refusal(f"steps {steps.shape} and values {values.shape}", ..., "must be rows of the same length")
        if len(steps) and (steps[0] < 0 or steps[-1] >= self.size or np.any(np.diff(steps) <= 0)):
            raise Refusal("steps", ..., f"must ascend within 0 … {self.size - 1}")

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Release, **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    @property
    def size(self) -> int:
        """``T``, the number of steps of the series, or of all series of a panel."""
        return self.design.signal.size

    @property
    def grid(self) -> TimeGrid | None:
        """The grid of the count; None if unknown."""
        return self.design.signal.grid

    @property
    def keys(self) -> tuple[Hashable, ...] | None:
        """The keys of a panel, in the order of its series; None for a single series, or if unknown."""
        return self.design.signal.keys

    @property
    def scale(self) -> float:
        """Standard deviation σ of the noise in ``values``."""
        return self.design.scale

    @property
    def sampling_probability(self) -> float:
        """Probability with which each step was kept."""
        return self.design.sampling.probability

    @property
    def sampling(self) -> Sampling:
        """The sampling of the steps."""
        return self.design.sampling

    def __len__(self) -> int:
        """Return the number of kept steps."""
        return len(self.values)

    def _key(self) -> tuple[object, ...]:
        """Return what equal releases share, without the loss, which may not have been computed yet."""
        statement = self.statement and replace(self.statement, loss=())
        return self.design, statement, self.invocation, self.composition, self.steps.tobytes(), self.values.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._key() == other._key() and self._loss() == other._loss()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        blocks = self.sampling.in_blocks
        return (
            f"Release({len(self)} of {self.size} steps kept{blocks} with probability {self.sampling_probability:.6g},"
            f" noise scale {self.scale:.6g})"
        )

    def _repr_html_(self) -> str:
        count = self.design.signal.count
        description = "not recorded" if count is None else f"of each individual: {count.words()}"
        try:
            guarantee = self.guarantee()
        except ValueError:
            guarantee = "none is stated"
        row = (f"{len(self):,} of {self.size:,} steps", f"{self.scale:.6g}", description, guarantee)
        return html_table(("kept", "noise, σ", "counted", "guarantee"), [row])

    @cached_property
    def stated(self) -> Statement:
        """The statement about the loss, with its points.

        :raises ValueError: if there is none, or the design is not known, or the loss is not finite.
        """
        if self.statement is None:
            _ = self.design.known_signal  # raises an error of its own for an unknown design
            raise Refusal(
                "this release",
                ...,
                "has no statement: it is one series of a panel, whose release has it, or it is not known what was done"
                " to the log before",
                "call the measurement itself, or give it to make_composition(…) or to a compositor(…), and process"
                " what that returns",
            )
        if self.statement.loss:
            return self.statement
        return replace(self.statement, loss=self._recomputed(self.statement))

    def _loss(self) -> Points:
        """Return the stated loss; empty if there is none."""
        try:
            return self.stated.loss
        except ValueError:
            return ()

    def at_distance(self, distance: int) -> Release:
        """Return this release with its loss stated at another distance, such as for several individuals.

        :param distance: in units of privacy, from 1.
        :raises ValueError: if it has no statement.
        """
        return replace(self, statement=replace(self.stated, distance=distance, parent=None, loss=()))

    def guarantee(self) -> str:
        """Return the guarantee in words, with that of the whole of which this is a part.

        :raises ValueError: if there is none, see :attr:`stated`.
        """
        stated, count = self.stated, self.design.count
        gap = "" if count.reading.gap == 1 else f", at least {count.reading.gap} apart"
        assumption = f", assuming at most {count.cap} steps of each{gap}" if count.reading.is_assumed else ""
        curve = "" if len(stated.loss) == 1 else "; more points of the curve are in the record"
        membership = "" if stated.parent is None else f"; {stated.parent}"
        return f"{stated.view.words(stated.loss)} for {count.unit.of(stated.distance)}{assumption}{curve}{membership}"

    def verify(self) -> Points:
        """Recompute the loss from caps, filters, sampling and noise, and return it.

        No document can show that the values came from this design, or that the caps were enforced.

        :raises ValueError: if the stated loss, or that of the whole of which this is a part, is less than the
            recomputed loss (by more than rounding, a part in 10⁹), kept steps or values have a probability below 1e-12,
            or there is no statement.
        """
        stated = self.stated
        points = self._recomputed(stated)
        check_covered("loss", stated.loss, points, "the release's own design gives")
        if (parent := stated.parent) is not None:
            check_parent(parent, self.design.loss(stated.distance), "this part of it alone gives")
        return points

    def _recomputed(self, statement: Statement) -> Points:
        loss = self.design.loss(statement.distance)
        if self.scale == 0:
            raise Refusal(
                "scale", Quoted("0.0"), "is no noise: there is no guarantee to state", "give the measurement a scale"
            )
        self._check_sample()
        self._check_values()
        points = statement.view.points(loss)
        if not all(math.isfinite(number) for point in points for number in point):
            raise Refusal(
                "scale",
                self.scale,
                "gives no finite loss: there is no guarantee to state",
                "give the measurement a greater one",
            )
        return points

    def _check_sample(self) -> None:
        """Refuse kept steps that the design cannot have drawn."""
        number, size, p = len(self), self.size, self.sampling_probability
        if self.sampling.allows(self.steps, size, _IMPROBABLE):
            return
        if (blocks := self.sampling.blocks(size)) is not None:
            kept_at = f"which sampling ('stratified') keeps at sampling_probability ({p:g})"
            raise Refusal("steps", ..., f"must hold one of each block of {blocks.length}, {kept_at}")
        raise Refusal(
            f"{number} of {size} steps",
            ...,
            f"cannot have been kept at `sampling_probability` ({p:g}): so few, or so many, are expected less than once"
            f" in {1 / _IMPROBABLE:g} releases",
            "ask its publisher",
        )

    def _check_values(self) -> None:
        """Refuse values that noise on its grid cannot have produced."""
        signal = self.design.known_signal
        exponent = noise_exponent(self.scale, signal.resolution_bits)
        with np.errstate(over="ignore"):  # numbers that overflow are on any grid
            units = np.ldexp(self.values, -exponent)
        if not np.array_equal(units, np.rint(units)):
            grid = f"2**{exponent}, the grid of the noise at scale {self.scale:g}"
            raise Refusal("values", ..., f"must be multiples of {grid}")
        farthest = 40 * self.scale  # a probability below 1e-300
        lowest = 0.0 if all(kernel.numerators.min() >= 0 for kernel in signal.kernels) else -LARGEST_ENTRY
        if np.any(self.values < lowest - farthest) or np.any(self.values > LARGEST_ENTRY + farthest):
            margin = f"40 times the scale ({self.scale:g}) of the noise"
            raise Refusal("values", ..., f"must lie between {lowest:g} and {LARGEST_ENTRY:g}, up to {margin}")
        # Noise takes every point of its grid, whatever the counts: values that are all on a coarser grid, such as zero
        # or whole numbers, have no noise. Beyond 53 bits floats are on a coarser grid anyway.
        exact = np.abs(units[np.abs(units) < 2.0**52]).astype(np.int64)
        common = int(np.bitwise_or.reduce(exact, initial=0))
        coarse = (common & -common).bit_length() - 1 if common else 52
        # An upper bound on the probability that noise lies on the coarser grid.
        share = 2.0**-coarse + math.ldexp(1, exponent) / (self.scale * math.sqrt(2 * math.pi))
        if self.scale >= MIN_SCALE and len(exact) * math.log(share) < math.log(_IMPROBABLE):
            multiples = f"multiples of {math.ldexp(1, coarse + exponent):g}" if common else "zero"
            noise = f"noise of scale {self.scale:g}, which lies on multiples of 2**{exponent}"
            raise Refusal("values", ..., f"must hold {noise}", f"all of them are {multiples}")

    def parts(self) -> list[Release]:
        """Return a release for each series of a panel, in order; only this release if it is of a single series."""
        if self.keys is None:
            return [self]
        size = self.size // len(self.keys)
        bounds = np.searchsorted(self.steps, np.arange(len(self.keys) + 1) * size)
        # The loss of an individual depends on the whole panel, so the parts have no statement.
        design = replace(self.design, signal=self.design.known_signal.single_series)
        part = partial(replace, self, design=design, statement=None)
        return [
            part(steps=self.steps[low:high] - k * size, values=self.values[low:high])
            for k, (low, high) in enumerate(pairwise(bounds))
        ]

    def by_key(self) -> dict[Hashable, Release]:
        """Return a release for each series of a panel, by its key.

        :raises ValueError: if this is a single series, or its keys are not known.
        """
        if self.keys is None:
            raise Refusal("this release", ..., "is of a single series, or its keys are not known", "read its values")
        return dict(zip(self.keys, self.parts(), strict=True))

    def to_dict(self) -> dict[str, object]:
        """Return the release as plain Python objects, ready for ``json.dumps``.

        :raises ValueError: if its design is not known, or it has no statement.
        """
        return {
            "format": FORMAT,
            "version": 1,
            "guarantee": self.guarantee(),
            "statement": encode(self.stated),
            "design": self.design.to_dict(),
            "steps": "all" if len(self) == self.size else self.steps.tolist(),
            "values": self.values.tolist(),
            "software": software(),
        } | {name: label for name in _LABELS if (label := getattr(self, name)) is not None}

    def to_json(self) -> str:
        """Return the release as a JSON document, its record; floats are written so that they read back exactly."""
        return written(self.to_dict())

    @classmethod
    def from_dict(cls, document: object) -> Release:
        """Read the output of :meth:`to_dict`, of any version so far. The loss is read, but not verified.

        :raises ValueError: for any other document, naming the field that is wrong.
        """
        return read_versioned(document, FORMAT, {1: _read_1})

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Read the output of :meth:`to_json`, as :meth:`from_dict` does; :meth:`verify` checks the loss."""
        return cls.from_dict(parse_json(text))


def _read_1(document: Mapping[str, object]) -> Release:
    record = fields_of({**dict.fromkeys(_LABELS), **document}, "the release", _FIELDS)
    del record["guarantee"], record["software"]
    statement, steps, size = record["statement"], record["steps"], record["design"].signal.size
    if not statement.loss:
        raise Refusal("loss of the statement", ..., "must list at least one point")
    largest = math.inf if statement.view.measure == RENYI else 1 + _TOLERANCE  # δ, with rounding
    if not all(first >= 0 and 0 <= second <= largest for first, second in statement.loss):
        raise Refusal("loss of the statement", ..., "must list points of at least 0, of which no δ is above 1")
    record["values"] = values = _row("values", record["values"], (int, float), np.float64)
    if steps == "all" and len(values) != size:
        raise Refusal("values", len(values), f"must be as many as the steps of the design ({size})")
    record["steps"] = np.arange(size) if steps == "all" else _row("steps", steps, (int,), np.int64)
    return Release(**record)


def _row(name: str, numbers: object, types: tuple[type, ...], dtype: type[np.generic]) -> NDArray[np.generic]:
    if not (isinstance(numbers, list) and all(type(number) in types for number in numbers)):
        raise Refusal(f"{name} of the release", ..., "must list numbers")
    try:
        return np.array(numbers, dtype=dtype)
    except OverflowError:
        raise Refusal(f"{name} of the release", ..., f"must list numbers that fit {dtype.__name__}") from None


_FIELDS: Final[dict[str, object]] = {
    "guarantee": str,  # for people: ignored here, as it follows from the other fields
    "statement": Statement,
    "design": Design,
    "steps": str | list,
    "values": list,
    **dict.fromkeys(_LABELS, str | None),
    "software": dict,  # any
}


def check_covered(name: str, stated: Points, exact_points: Points, source: str) -> None:
    """Refuse a stated loss if a point is below the right one by more than rounding, naming both."""
    if len(stated) != len(exact_points):
        raise Refusal(name, Quoted(f"{len(stated)} points"), f"must have {len(exact_points)} points")
    for point, exact in zip(stated, exact_points, strict=True):
        # Phrased so that NaN fails. Along a curve, the first number is the argument, which must be equal.
        is_covered = all(s >= r * (1 - _TOLERANCE) for s, r in zip(point, exact, strict=True))
        if not is_covered or (len(exact_points) > 1 and point[0] != exact[0]):
            raise Refusal(name, Quoted(point), f"is stated, but {source} {exact}", "ask its publisher")


def check_parent(parent: Parent, bound: PrivacyLoss, source: str) -> None:
    """Refuse a parent that states less than the loss of something in it."""
    delta = parent.loss[1]
    first = (bound.zero_concentrated(delta) if parent.measure == CONCENTRATED else bound.epsilon_delta(delta))[0]
    check_covered("loss of the parent", (parent.loss,), ((first, delta),), source)


def check_release(release: object) -> Release:
    """Return a release; raise TypeError for any other object, naming it."""
    if not isinstance(release, Release):
        raise TypeRefusal("release", release, "must be a Release, which a measurement returns")
    return release


def _freeze_row(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[np.generic]:
    """Return numbers as an array that can never be made writeable; refuse numbers that the type cannot hold exactly."""
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # numbers that do not fit compare unequal below
        array = given.astype(dtype) if given.dtype.kind in "iuf" else None
    if array is None or not np.array_equal(given, array, equal_nan=given.dtype.kind == "f"):
        raise Refusal(f"{name} of type {given.dtype}", ..., f"must be numbers that {np.dtype(dtype)} holds exactly")
    if array.dtype.kind == "f":
        array = array + 0.0  # turns -0.0 into 0.0, for equal hashes
    return np.frombuffer(array.tobytes(), dtype=dtype).reshape(array.shape)


def software() -> dict[str, str]:
    """Return the versions of software that a release records."""
    versions = {"python": platform.python_version()}
    for package in _SOFTWARE:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
