"""The loss of a release, and its views."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opendp_timeseries.accounting.gaussian import DISCRETE_NOISE

if TYPE_CHECKING:
    from opendp_timeseries.accounting.subsampled import ExtremalLaw

__all__ = ["PrivacyLoss"]


class PrivacyLoss(NamedTuple):
    """A law of the squared distance at a noise scale: every measure of loss is a view of it."""

    law: ExtremalLaw
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
