"""Views of a loss: what a measurement states of it, as numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import printed_up as up

__all__ = ["APPROXIMATE", "CONCENTRATED", "PROFILE", "RENYI", "Points", "View"]

#: One point (ε, δ), one point (ρ, δ′), and the curves δ(ε) and α ↦ Rényi divergence.
APPROXIMATE: Final = "approximate max divergence"
CONCENTRATED: Final = "approximate zero-concentrated divergence"
PROFILE: Final = "smoothed max divergence"
RENYI: Final = "Rényi divergence"

#: The parameter of each measure.
_PARAMETERS: Final = {APPROXIMATE: "delta", CONCENTRATED: "failure_probability", PROFILE: None, RENYI: None}
#: A profile is put into words at the first point with at most this δ.
_SMALL_DELTA: Final = 1e-5
#: Where curves are written down.
_ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_EPSILONS: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class View:
    """Which view of its loss a measurement states.

    :param measure: the measure of privacy.
    :param failure_probability: δ′, of approximate zCDP alone.
    :param delta: δ, of (ε, δ) alone.
    :raises ValueError: for an unknown measure, or one without its parameter or with another's.
    """

    measure: str
    failure_probability: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check.choice("measure", self.measure, _PARAMETERS)
        for name in ("failure_probability", "delta"):
            value = getattr(self, name)
            if (value is None) == (_PARAMETERS[self.measure] == name):
                raise ValueError(f"measure ({self.measure}) {'needs' if value is None else 'does not use'} {name}")
            if value is not None:
                object.__setattr__(self, name, check.real(name, value, above=0.0, below=1.0))

    @classmethod
    def of(cls, parameter: float, *, concentrated: bool) -> View:
        """Return the view as (ε, δ), or as (ρ, δ′), at a δ."""
        return cls(CONCENTRATED, failure_probability=parameter) if concentrated else cls(APPROXIMATE, delta=parameter)

    @property
    def is_pair(self) -> bool:
        """Whether the loss is stated as one pair, (ε, δ) or (ρ, δ′), rather than as a curve."""
        return _PARAMETERS[self.measure] is not None

    @lru_cache(maxsize=1024)  # noqa: B019
    def points(self, loss: PrivacyLoss) -> Points:
        """Return the loss as points: one ``(ρ, δ′)`` or ``(ε, δ)``, or several ``(α, ε)`` or ``(ε, δ)`` of a curve."""
        if self.failure_probability is not None:
            return (loss.zero_concentrated(self.failure_probability),)
        if self.delta is not None:
            return (loss.epsilon_delta(self.delta),)
        if self.measure == RENYI:
            return tuple((order, loss.renyi(order)) for order in _ORDERS)
        return tuple((epsilon, loss.delta(epsilon)) for epsilon in _EPSILONS)

    def words(self, points: Points) -> str:
        """Put points into words, rounded up."""
        first, second = points[0]
        if self.measure == PROFILE:
            first, second = next((point for point in points if point[1] <= _SMALL_DELTA), points[-1])
        if self.measure == CONCENTRATED:
            return f"{up(second, 4)}-approximate {up(first)}-zCDP"
        if self.measure == RENYI:
            return f"Rényi divergence of order {first:g} at most {up(second)}"
        return f"(ε = {up(first)}, δ = {up(second, 4)})-differential privacy"
