"""What the subsampled Gaussian returns: kept steps, noisy values, and what is public about the noise."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.grid import TimeGrid

__all__ = ["Release"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release:
    """A private release: everything in it may be published.

    :param steps: kept steps, ascending, int64; may be empty.
    :param values: noisy values at the kept steps, float64, in the signal's unit; may be negative.
    :param size: ``T``, the number of steps of the series.
    :param scale: standard deviation σ of the noise in ``values``.
    :param sampling_probability: probability with which each step was kept.
    :raises ValueError: if the parts do not fit together (when a release is read back).
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    size: int
    scale: float
    sampling_probability: float
    provenance: Any = None

    @property
    def keys(self) -> tuple[Hashable, ...] | None:
        """The keys of a panel, in the order of its series; None for one series, or if they are not known."""
        keys: tuple[Hashable, ...] | None = None if self.provenance is None else self.provenance.keys
        return keys

    @property
    def grid(self) -> TimeGrid | None:
        """The grid of the count; None if it is not known."""
        grid: TimeGrid | None = None if self.provenance is None else self.provenance.grid
        return grid

    def __post_init__(self) -> None:
        steps, values = _frozen(self.steps, np.int64), _frozen(self.values, np.float64)
        size = check.integer("size", self.size, minimum=1)
        if steps.ndim != 1 or steps.shape != values.shape:
            raise ValueError(f"steps {steps.shape} and values {values.shape} must be rows of the same length")
        if len(steps) and (steps[0] < 0 or steps[-1] >= size or np.any(np.diff(steps) <= 0)):
            raise ValueError(f"steps must ascend within 0 … {size - 1}")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "scale", check.real("scale", self.scale, minimum=0.0))
        object.__setattr__(
            self, "sampling_probability", check.probability("sampling_probability", self.sampling_probability)
        )

    def __reduce__(self) -> Any:
        return _rebuild, (self.to_dict(),)

    def __len__(self) -> int:
        """Return the number of kept steps."""
        return len(self.steps)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Release)
            and (self.size, self.scale, self.sampling_probability)
            == (other.size, other.scale, other.sampling_probability)
            and np.array_equal(self.steps, other.steps)
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.size, self.scale, self.steps.tobytes(), self.values.tobytes()))

    def __repr__(self) -> str:
        return (
            f"Release({len(self)} of {self.size} steps kept with probability {self.sampling_probability:.6g},"
            f" noise scale {self.scale:.6g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, ready for ``json.dumps``; :meth:`from_dict` reads them back exactly."""
        return {
            "steps": self.steps.tolist(),
            "values": self.values.tolist(),
            "size": self.size,
            "scale": self.scale,
            "sampling_probability": self.sampling_probability,
        }

    def parts(self) -> list[Release]:
        """Return one release for each series of a panel, in order; this release alone if it is of one series."""
        return [self] if self.keys is None else self._cut(len(self.keys))

    def by_key(self, keys: Sequence[Hashable] | None = None) -> dict[Hashable, Release]:
        """Return one release for each series of a panel, by the keys that were given to the count.

        :param keys: leave it out if the release knows its keys; given, they must be those keys, in their order.
        :raises ValueError: if the keys are not those of the release, or not known.
        """
        known = self.keys
        if known is None and keys is None:
            raise ValueError("this release is of one series, or does not know its keys: give the keys of the count")
        given = known if keys is None else tuple(keys)
        assert given is not None
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
        one = None if self.provenance is None else self.provenance.of_one_series()
        return [
            replace(
                self, steps=self.steps[low:high] - k * size, values=self.values[low:high], size=size, provenance=one
            )
            for k, (low, high) in enumerate(pairwise(bounds))
        ]

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Release:
        """Read back what :meth:`to_dict` wrote.

        :raises KeyError: if a part is missing.
        :raises ValueError: if the parts do not fit together.
        """
        names = ("steps", "values", "size", "scale", "sampling_probability")
        return cls(**{name: record[name] for name in names})


def _rebuild(record: Mapping[str, Any]) -> Release:
    return Release.from_dict(record)


def _frozen(values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    given = np.asarray(values)
    array = given.astype(dtype) if given.dtype.kind in "iuf" else None
    if array is None or not np.array_equal(given, array, equal_nan=given.dtype.kind == "f"):
        raise ValueError(f"values of type {given.dtype} must be {np.dtype(dtype)} numbers, without loss")
    return np.frombuffer(array.tobytes(), dtype=dtype).reshape(array.shape)  # never writeable again
