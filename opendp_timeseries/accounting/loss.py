"""The loss of a release, and its views."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from opendp_timeseries.accounting.gaussian import DISCRETE_NOISE
from opendp_timeseries.accounting.pld import privacy_loss_distribution

__all__ = ["PrivacyLoss", "SquaredDistance"]


class SquaredDistance(Protocol):
    """What the loss needs of a random squared distance: its four maps, as of :class:`~.subsampled.ExtremalLaw`."""

    def delta(self, epsilon: float, scale: float) -> float: ...  # noqa: D102

    def epsilon(self, delta: float, scale: float) -> float: ...  # noqa: D102

    def renyi(self, alpha: float, scale: float) -> float: ...  # noqa: D102

    def approximate_zcdp(self, failure_probability: float, scale: float) -> tuple[float, float]: ...  # noqa: D102


class PrivacyLoss(NamedTuple):
    """A law of the squared distance at a noise scale: every measure of loss is a view of it."""

    law: SquaredDistance
    scale: float

    def delta(self, epsilon: float) -> float:
        """Return the privacy profile at ``epsilon``, from above."""
        return self.law.delta(epsilon, self.scale * DISCRETE_NOISE)

    def epsilon_delta(self, delta: float) -> tuple[float, float]:
        """Return (ε, δ), read off the profile; (0, 0) if nothing is lost."""
        epsilon = self.law.epsilon(delta, self.scale * DISCRETE_NOISE)
        return (epsilon, delta) if self.delta(0.0) > 0 else (0.0, 0.0)

    def renyi(self, alpha: float) -> float:
        """Return the Rényi divergence of order ``alpha``, from above; it holds for the discrete noise as it stands."""
        return self.law.renyi(alpha, self.scale)

    def zero_concentrated(self, failure_probability: float) -> tuple[float, float]:
        """Return (ρ, attained δ′) of approximate zCDP."""
        return self.law.approximate_zcdp(failure_probability, self.scale)

    def distribution(self, discretization: float = 1e-3, tail: float = 1e-15) -> Any:
        """Return the privacy loss distribution for ``dp_accounting``: :func:`~.pld.privacy_loss_distribution`."""
        return privacy_loss_distribution(self.delta, discretization, tail)
