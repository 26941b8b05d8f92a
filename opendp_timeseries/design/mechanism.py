"""What ran, or is to run: how the signal is made, how it is sampled, and the noise. All of it is public.

The loss of a release follows from its mechanism, and from nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.sampling import sampling_name
from opendp_timeseries.accounting.subsampled import ExtremalLaw, extremal_law
from opendp_timeseries.design.provenance import Provenance, fields_of
from opendp_timeseries.grid import Period, TimeGrid

__all__ = ["Mechanism"]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A subsampled Gaussian behind the stages that make its signal.

    :param provenance: how the signal is made.
    :param sampling_probability: probability with which each step is kept.
    :param scale: standard deviation σ of the noise, positive.
    :param sampling: design of the sample, see :mod:`~opendp_timeseries.accounting.sampling`.

    >>> from opendp_timeseries import TimeGrid
    >>> count = Provenance(grid=TimeGrid(size=100), participation_cap=10)
    >>> loss = Mechanism(provenance=count, sampling_probability=0.1, scale=6.0).loss()
    >>> round(loss.epsilon(1e-6), 6)
    1.1...
    """

    provenance: Provenance
    sampling_probability: float
    scale: float
    sampling: str = "poisson"

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "sampling_probability", check.probability("sampling_probability", self.sampling_probability))
        set_field(self, "scale", check.real("scale", self.scale, above=0.0))
        set_field(self, "sampling", sampling_name(self.sampling))

    def loss(self, individuals: int = 1, *, periods: int = 1) -> PrivacyLoss:
        """Return the loss of a release for so many individuals. Mechanisms that lose alike share one law.

        :param periods: where the unit of privacy is an individual within a period: for all that each of them did, in at
            most so many periods. See :meth:`~opendp_timeseries.design.provenance.Provenance.influence`.
        """
        return self.law(individuals, periods=periods).at(self.scale)

    def law(self, individuals: int = 1, *, periods: int = 1) -> ExtremalLaw:
        """Return the worst-case law of the squared distance that sampling leaves, which does not depend on σ."""
        # The loss does not depend on when the steps are, and a year of months are to be accounted for once.
        made = self.provenance
        if periods > 1 and made.adjacency.period is not None:
            return _law(made, self.sampling_probability, self.sampling, individuals, periods)
        period = None if made.adjacency.period is None else Period(int(made.period_lengths()[0]))
        anytime = replace(made, grid=TimeGrid(size=made.grid.size), adjacency=made.adjacency._replace(period=period))
        return _law(anytime, self.sampling_probability, self.sampling, individuals, periods)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism as plain Python objects, ready for ``json.dumps``."""
        return {
            "provenance": self.provenance.to_dict(),
            "sampling_probability": self.sampling_probability,
            "sampling": self.sampling,
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Mechanism:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises ValueError: for a field that is missing, unknown, or of another type or value.
        """
        fields = fields_of(document, "mechanism", _FIELDS)
        return cls(**fields | {"provenance": Provenance.from_dict(fields["provenance"])})


_FIELDS: Final[dict[str, Any]] = {
    "provenance": dict,
    "sampling_probability": float,
    "sampling": str,
    "scale": float,
}


@lru_cache(maxsize=1024)
def _law(provenance: Provenance, probability: float, sampling: str, individuals: int, periods: int) -> ExtremalLaw:
    influence = provenance.influence(individuals, periods=periods)
    return extremal_law(influence, probability, provenance.size, sampling)
