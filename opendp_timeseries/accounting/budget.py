"""Budgets of privacy: limits on a loss, in (ε, δ) or in ρ."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.accounting.loss import PrivacyLoss, View

__all__ = ["Budget", "LargeDeltaWarning", "large_delta", "warn_of_large_delta"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limit on a privacy loss: (ε, δ) by the exact privacy profile, (ρ, δ′) in approximate zCDP, or ρ in zCDP.

    :param epsilon: ε, not negative; give this or ρ.
    :param rho: ρ, not negative.
    :param delta: δ in (0, 1); with ρ, the failure probability δ′, which is 0 if left out: enough without sampling.
    :raises TypeError, ValueError: for a number out of range, or unless exactly one of ε and ρ is given.

    >>> print(Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.1, delta=1e-6), Budget(rho=0.1))
    (ε = 1, δ = 1e-06) (ρ = 0.1, δ′ = 1e-06) (ρ = 0.1)
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise Refusal("a budget", ..., "needs either epsilon and delta, or rho")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", check.real("epsilon", self.epsilon, minimum=0.0))
            object.__setattr__(self, "delta", check.real("delta", self.delta, above=0.0, below=1.0))
        else:
            object.__setattr__(self, "rho", check.real("rho", self.rho, minimum=0.0))
            object.__setattr__(self, "delta", check.real("failure_probability", self.delta, minimum=0.0, below=1.0))

    @classmethod
    def of(cls, *, epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
        """Return the budget of three parameters; None means left out."""
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if rho is None and value is None:
                raise TypeRefusal(name, ..., "must be given: the budget is `epsilon=` and `delta=`, or `rho=`")
        return cls(epsilon=epsilon, rho=rho, delta=0.0 if delta is None else delta)

    @classmethod
    def of_several(cls, *, epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
        """Return the budget of several releases: (ε, δ), or ρ alone; refuse zero."""
        if rho is not None and (epsilon, delta) != (None, None):
            raise Refusal(
                "rho", ..., "replaces epsilon and delta, for releases that keep every step", "leave those out"
            )
        for name, value in (("epsilon", epsilon), ("rho", rho)):
            if value is not None:
                check.real(name, value, above=0.0)
        return cls.of(epsilon=epsilon, delta=delta, rho=rho)

    def __str__(self) -> str:
        return self._words(_shortest_text)

    def __format__(self, spec: str) -> str:
        return self._words(lambda number: format(number, spec)) if spec else str(self)

    def _words(self, word: Callable[[float], str]) -> str:
        if self.delta == 0:
            return f"(ρ = {word(self.first)})"
        words = "(ρ = {}, δ′ = {})" if self.epsilon is None else "(ε = {}, δ = {})"
        return words.format(word(self.first), word(self.delta))

    @property
    def first(self) -> float:
        """ε, or ρ."""
        return cast("float", self.rho if self.epsilon is None else self.epsilon)

    @property
    def symbol(self) -> str:
        """The letter of :attr:`first`: ε or ρ."""
        return "ρ" if self.epsilon is None else "ε"

    @property
    def pair(self) -> tuple[float, float]:
        """(ε, δ), or (ρ, δ′)."""
        return self.first, self.delta

    @property
    def view(self) -> View:
        """The view of a loss that is compared with the budget."""
        return View.of(self.delta, concentrated=self.epsilon is None)

    @property
    def limit(self) -> float:
        """The largest :meth:`cost` that is within the budget: δ, or ρ."""
        return self.first if self.epsilon is None else self.delta

    def cost(self, loss: PrivacyLoss) -> float:
        """Return δ of a loss at the ε of the budget, or ρ."""
        return self.spent(loss) if self.epsilon is None else loss.delta(self.epsilon)

    def spent(self, loss: PrivacyLoss) -> float:
        """Return ε of a loss at the δ of the budget, or ρ."""
        ((first, _),) = self.view.points(loss)
        return first

    def to_dict(self) -> dict[str, float | None]:
        """Return the budget as fields of a document."""
        if self.epsilon is None:
            return {"epsilon": None, "delta": None, "rho": self.rho}
        return {"epsilon": self.epsilon, "delta": self.delta}

    def admits(self, loss: PrivacyLoss) -> bool:
        """Return whether a loss is within the budget, in every form in which it may be stated."""
        if self.epsilon is not None:
            return loss.delta(self.epsilon) <= self.delta and loss.epsilon(self.delta) <= self.epsilon
        return loss.zero_concentrated(self.delta)[0] <= self.first


class LargeDeltaWarning(UserWarning):
    """Warning that δ, or δ′, is above 1e-3: one individual of a thousand may be exposed outright. Depends on no log."""


def warn_of_large_delta(delta: float | None, *, stacklevel: int) -> None:
    """Issue a LargeDeltaWarning if δ is large."""
    if delta is not None and (warning := large_delta(delta)):
        warnings.warn(warning, LargeDeltaWarning, stacklevel=stacklevel + 1)


def large_delta(delta: float) -> str:
    """Return the warning about a large δ; an empty text for any other δ."""
    if delta <= 1e-3:
        return ""
    # Dwork & Roth (2014), The Algorithmic Foundations of Differential Privacy, section 2.3.
    return (
        f"δ = {delta:g} is large: it allows each individual to be exposed outright with that probability; choose far"
        " less than one over the number of individuals."
    )


def _shortest_text(number: float) -> str:
    """Return the shortest text that reads back exactly."""
    return min((text for text in (f"{number:g}", repr(number)) if float(text) == number), key=len)
