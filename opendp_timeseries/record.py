"""One document for a release: its values, how it was made, and its guarantee, which a reader can recompute."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import opendp.prelude as dp

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import printed_up as up
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.kernels import Kernel
from opendp_timeseries.measurements.subsampled_gaussian import then_subsampled_gaussian
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.reconstruction.plot import plot
from opendp_timeseries.reconstruction.series import Series
from opendp_timeseries.release import Release
from opendp_timeseries.spaces import count_signal_domain, individuals_replaced
from opendp_timeseries.transformations.assume_participation import then_assume_participation
from opendp_timeseries.transformations.circulant_filter import then_circulant_filter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReleaseRecord"]

_FORMAT: Final = "opendp_timeseries release record, version 1"
#: A recomputed loss may differ in the last digits between machines.
_TOLERANCE: Final = 1e-9
#: Where curves are written down.
_ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_EPSILONS: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

#: The measures of the subsampled Gaussian: their name in a record, and how each is made.
_MEASURES: Final[dict[str, Callable[[], dp.Measure]]] = {
    "approximate zero-concentrated divergence": lambda: dp.approximate(dp.zero_concentrated_divergence()),
    "approximate max divergence": lambda: dp.approximate(dp.max_divergence()),
    "Rényi divergence": dp.renyi_divergence,
    "smoothed max divergence": dp.smoothed_max_divergence,
}
_METRICS: Final[dict[str, Callable[[], dp.Metric]]] = {
    "individuals added or removed": dp.symmetric_distance,
    "individuals replaced": dp.change_one_distance,
}


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """A release with everything public about how it was made. All of it may be published.

    Made by :meth:`of`, written by :meth:`to_json`, read back by :meth:`from_json`, and checked by :meth:`verify`.

    :param release: the noisy values.
    :param grid: the grid of the count.
    :param participation_cap: ``I``, most steps in which one individual is counted.
    :param step_cap: ``M``, most events of one individual in one step.
    :param caps_enforced: whether the count enforced the caps, or they were assumed of a count made elsewhere.
    :param kernels: the filters between count and noise, in order.
    :param neighbours: ``"individuals added or removed"`` or ``"individuals replaced"``.
    :param individuals: how many of them the guarantee is for.
    :param measure: name of the measure of loss.
    :param failure_probability: δ′, of approximate zCDP.
    :param delta: δ, of the approximate max divergence.
    :param loss: the stated loss, as points of a curve or as one point: see :meth:`of`.
    :param versions: of the software that computed it.
    """

    release: Release
    grid: TimeGrid
    participation_cap: int
    step_cap: int
    caps_enforced: bool
    kernels: tuple[Kernel, ...]
    neighbours: str
    individuals: int
    measure: str
    failure_probability: float | None
    delta: float | None
    loss: tuple[tuple[float, float], ...]
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("participation_cap", "step_cap", "individuals"):
            object.__setattr__(self, name, check.integer(name, getattr(self, name), minimum=1))
        if self.measure not in _MEASURES or self.neighbours not in _METRICS:
            raise ValueError(f"measure ({self.measure}) and neighbours ({self.neighbours}) must be known ones")

    @classmethod
    def of(
        cls,
        release: Release,
        *,
        grid: TimeGrid,
        participation_cap: int,
        step_cap: int = 1,
        caps_enforced: bool = True,
        kernels: Sequence[Kernel] = (),
        input_metric: dp.Metric | None = None,
        individuals: int = 1,
        output_measure: dp.Measure | None = None,
        failure_probability: float | None = None,
        delta: float | None = None,
    ) -> ReleaseRecord:
        """Record a release, with the loss that the privacy map gives at its scale and sampling probability.

        The loss is ``(ρ, δ′)`` in approximate zCDP, ``(ε, δ)`` in the approximate max divergence, points
        ``(α, ε)`` of a Rényi curve, or points ``(ε, δ)`` of a privacy profile.

        :param release: what :func:`~opendp_timeseries.make_subsampled_gaussian` returned.
        :param input_metric: ``dp.symmetric_distance()`` (default) or ``dp.change_one_distance()``.
        :param output_measure: as of the measurement, whose other parameters carry the same names here.
        :raises TypeError: for a wrong metric or measure.
        :raises ValueError: if the parts do not fit together, or the release has no noise.

        >>> import opendp.prelude as dp
        >>> from opendp_timeseries import Release, TimeGrid
        >>> dp.enable_features("contrib", "honest-but-curious")
        >>> release = Release(steps=[2, 7], values=[9.0, 4.0], size=10, scale=2.0, sampling_probability=0.1)
        >>> record = ReleaseRecord.of(
        ...     release, grid=TimeGrid(size=10), participation_cap=10, failure_probability=1e-4)
        >>> ReleaseRecord.from_json(record.to_json()).verify()
        ((0.75..., 9.12...e-06),)
        """
        metric = dp.symmetric_distance() if input_metric is None else input_metric
        measure = dp.approximate(dp.zero_concentrated_divergence()) if output_measure is None else output_measure
        names = [name for name, make in _MEASURES.items() if str(make().type) == str(measure.type)]
        if not names:
            raise TypeError(f"output_measure ({measure}) is not one of {', '.join(_MEASURES)}")
        parts: dict[str, Any] = {
            "release": release,
            "grid": grid,
            "participation_cap": participation_cap,
            "step_cap": step_cap,
            "caps_enforced": bool(caps_enforced),
            "kernels": tuple(kernels),
            "neighbours": list(_METRICS)[individuals_replaced(metric)],
            "individuals": individuals,
            "measure": names[0],
            "failure_probability": failure_probability,
            "delta": delta,
            "versions": _versions(),
        }
        return cls(loss=cls(loss=(), **parts)._recomputed(), **parts)

    def verify(self) -> tuple[tuple[float, float], ...]:
        """Recompute the loss from what the record says, and return it: caps, filters, sampling and noise.

        What no record can show is that the values came from this mechanism, or that the caps were enforced.

        :raises ValueError: if the parts do not fit together, or the loss that is stated is less than the loss
            recomputed (by more than a part in 10⁹, which is rounding).
        """
        recomputed = self._recomputed()
        if len(self.loss) != len(recomputed):
            raise ValueError(f"loss ({len(self.loss)} points) must have {len(recomputed)} points in {self.measure}")
        for stated, right in zip(self.loss, recomputed, strict=True):
            # Written so that NaN is found out. Of a curve, the first number says where and is no claim.
            covered = all(s >= r * (1 - _TOLERANCE) for s, r in zip(stated, right, strict=True))
            if not covered or (len(recomputed) > 1 and stated[0] != right[0]):
                raise ValueError(f"loss ({stated}) is stated, but the record's own parameters give {right}")
        return recomputed

    def _recomputed(self) -> tuple[tuple[float, float], ...]:
        if self.grid.size != self.release.size:
            raise ValueError(f"grid ({self.grid.size} steps) must have the release's size ({self.release.size})")
        if self.release.scale == 0:
            raise ValueError("scale (0.0) is no noise: there is no guarantee to record")
        # The map of an enforced count is that of an assumed one: both follow from the caps alone.
        signal = (count_signal_domain(self.release.size), _METRICS[self.neighbours]()) >> then_assume_participation(
            participation_cap=self.participation_cap, step_cap=self.step_cap
        )
        smooth = reduce(lambda chain, kernel: chain >> then_circulant_filter(kernel), self.kernels, signal)
        chain = smooth >> then_subsampled_gaussian(
            self.release.scale,
            sampling_probability=self.release.sampling_probability,
            output_measure=_MEASURES[self.measure](),
            failure_probability=self.failure_probability,
            delta=self.delta,
        )
        loss = chain.map(self.individuals)
        if self.measure == "Rényi divergence":
            return tuple((order, loss(order)) for order in _ORDERS)
        if self.measure == "smoothed max divergence":
            return tuple((epsilon, loss.delta(epsilon)) for epsilon in _EPSILONS)
        return ((float(loss[0]), float(loss[1])),)

    def guarantee(self) -> str:
        """Say the guarantee in words."""
        first, second = self.loss[0]
        text = {
            "approximate zero-concentrated divergence": f"{up(second, 4)}-approximate {up(first)}-zCDP",
            "approximate max divergence": f"(ε = {up(first)}, δ = {up(second, 4)})-differential privacy",
            "Rényi divergence": f"Rényi divergence of order {first:g} at most {up(second)}, and a curve",
            "smoothed max divergence": f"(ε = {up(first)}, δ = {up(second)})-differential privacy, and a profile",
        }[self.measure]
        kind = "added or removed" if self.neighbours == "individuals added or removed" else "replaced"
        who = "one individual" if self.individuals == 1 else f"{self.individuals} individuals"
        assumed = "" if self.caps_enforced else f", assuming at most {self.participation_cap} steps of each"
        return f"{text} for {who} {kind}{assumed}"

    def plot(self, series: Series | None = None, **options: Any) -> Axes:
        """Draw the release, with its dates and its guarantee; see :func:`opendp_timeseries.plot` for the options."""
        drawn = interpolate(self.release) if series is None else series
        return plot(drawn, grid=self.grid, guarantee=self.guarantee(), **options)

    def to_json(self) -> str:
        """Return the whole record as one JSON document; floats are written so that they read back exactly."""
        document = {
            "format": _FORMAT,
            "guarantee": self.guarantee(),
            "loss": [list(point) for point in self.loss],
            **{name: getattr(self, name) for name in _PLAIN},
            "versions": dict(self.versions),
            "grid": self.grid.to_dict(),
            "kernels": [_write_kernel(kernel) for kernel in self.kernels],
            "release": self.release.to_dict(),
        }
        return json.dumps(document, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ReleaseRecord:
        """Read back what :meth:`to_json` wrote. The loss is read as it stands: :meth:`verify` checks it.

        :raises ValueError: if it is no such document, or its parts are wrong.
        """
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise ValueError(f"the document is not in the format {_FORMAT!r}")
        try:
            record = cls(
                release=Release.from_dict(document["release"]),
                grid=TimeGrid.from_dict(document["grid"]),
                kernels=tuple(_read_kernel(kernel) for kernel in document["kernels"]),
                loss=tuple((float(x), float(y)) for x, y in document["loss"]),
                versions=dict(document["versions"]),
                **{name: document[name] for name in _PLAIN},
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the document lacks a part, or has it in another form: {error}") from None
        if document.get("guarantee") != record.guarantee():
            raise ValueError("the guarantee that the document states in words is not that of its loss")
        unknown = set(document) - set(json.loads(record.to_json()))
        if unknown:
            raise ValueError(f"the document has parts that are not known: {', '.join(sorted(unknown))}")
        return record


_PLAIN: Final = (
    "measure",
    "failure_probability",
    "delta",
    "neighbours",
    "individuals",
    "participation_cap",
    "step_cap",
    "caps_enforced",
)


def _write_kernel(kernel: Kernel) -> dict[str, Any]:
    """Taps that are not zero, as step and numerator."""
    at = np.flatnonzero(kernel.numerators)
    taps = [[int(step), int(kernel.numerators[step])] for step in at]
    return {"name": kernel.name, "size": kernel.size, "bits": kernel.bits, "taps": taps}


def _read_kernel(fields: Mapping[str, Any]) -> Kernel:
    size = check.integer("size", fields["size"], minimum=1, maximum=2**31)
    numerators = np.zeros(size, dtype=np.int64)
    for step, numerator in fields["taps"]:
        numerators[check.integer("step of a tap", step, minimum=0, maximum=size - 1)] = numerator
    return Kernel(numerators, fields["bits"], fields["name"])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("opendp_timeseries", "opendp", "numpy", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
