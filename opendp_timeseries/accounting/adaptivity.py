"""Adaptivity: what may depend on the output of earlier releases, on which their joint loss depends."""

from __future__ import annotations

from enum import StrEnum

from opendp_timeseries import _validate as check

__all__ = ["Adaptivity"]


class Adaptivity(StrEnum):
    """The choices that may depend on the output of earlier releases: each value allows all that the one before allows.

    Proof: docs/proofs/several_releases.md.
    """

    NONE = "non-adaptive"  #: nothing: neither what is released, nor later data
    QUERIES = "adaptive"  #: what is counted, later data included; not caps, sampling, noise or the number of releases
    FULL = "fully adaptive"  #: everything, whether there is another release included

    @classmethod
    def of(cls, value: object, *choices: Adaptivity) -> Adaptivity:
        """Return the adaptivity of this name; refuse all but the choices."""
        return cls(check.choice("adaptivity", value, [str(choice) for choice in choices or cls]))
