"""Local events: a crowd at one station for some steps, which neither the others nor the noise explain.

Each step is held against what all others say of it. At any step, nobody or a crowd is there: one of several kinds, by
how often such people come and by how large it may be. A crowd stays for some steps, so that the chances of all steps
are those of a Markov chain, forward and backward (Rabiner 1989).
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from opendp_timeseries.smoothing.matrices import Array

#: Events thought to be in a series before any is seen: of pure noise, one series in 170 then names one. Steps are left
#: open for the fit that would have one if events were so much more frequent, with such a chance.
FREQUENCY: Final = 0.3
SUSPICION: Final = 10.0
OPENING: Final = 0.1
#: Chances from which an event counts, and from which it has a name.
LEAST: Final = 0.02
EVENT: Final = 0.5
#: An event is nearly always seen whose size is so many standard errors, of all of its steps together. Of events of one
#: step and of three, with 5, 6 and 7 of these, .53 and .72, .88 and .94, and .97 were.
SEEN: Final = 7.0
#: Chance that an event goes on for one more step: four steps on average.
_PERSISTENCE: Final = 0.75
#: How large a crowd may be, in standard errors of one.
_SIZES: Final = np.array([3.0, 10.0, 30.0, 100.0])
#: Chances of kinds that are less than this change nothing.
_NEGLIGIBLE: Final = 1e-6


class Evidence(NamedTuple):
    """Evidence of a crowd of each kind in residuals, by series and step: w'V⁻¹r and w'V⁻¹w."""

    pull: Array  # series by steps by kinds
    precision: Array

    @classmethod
    def of(cls, residual: Array, variance: Array, crowds: Array) -> "Evidence":
        """Return that of residuals (series, steps, tiers) of such covariances.

        :param crowds: weights of one of each kind by series (series, kinds, tiers).
        """
        sides = np.broadcast_to(crowds.swapaxes(1, 2)[:, None], (*variance.shape[:2], *crowds.shape[:0:-1]))
        solved = np.linalg.solve(variance, sides)
        return cls(
            np.einsum("ntjk,ntj->ntk", solved, residual, optimize=True),
            np.einsum("ntjk,nkj->ntk", solved, crowds, optimize=True),
        )

    @property
    def squares(self) -> Array:
        """Squares of sizes thought of, by series, kind and size."""
        usual = np.median(self.precision, axis=1)
        squares: Array = _SIZES**2 / np.maximum(usual, 1e-300)[..., None]
        return squares

    def sizes(self) -> Array:
        """Return the size expected of each crowd (series, steps, kinds, sizes)."""
        squares = self.squares[:, None]
        expected: Array = np.maximum(self.pull[..., None] * squares / (1 + self.precision[..., None] * squares), 0.0)
        return expected

    def of_series(self, some: NDArray[np.intp]) -> "Evidence":
        """Return that of some series."""
        return Evidence(self.pull[some], self.precision[some])

    def chances(self, prior: Array, often: float) -> tuple[Array, Array]:
        """Return the chance of no event (series, steps), and of each kind and size (series, steps, kinds, sizes).

        :param prior: how likely each kind is, of an event.
        :param often: events thought to be in a series.
        """
        squares = self.squares[:, None]
        pull, growth = self.pull[..., None], 1 + self.precision[..., None] * squares
        spread = np.sqrt(squares / growth)
        # By the density without an event; a crowd is above nothing, not below.
        odds = 0.5 * ((pull * spread) ** 2 - np.log(growth)) + log_ndtr(pull * spread) + math.log(2)
        weights = np.repeat(prior / len(_SIZES), len(_SIZES))
        none, some = _forward_backward(odds.reshape(*odds.shape[:2], -1), weights, often / odds.shape[1])
        return none, some.reshape(odds.shape)


def least_seen(noise: float, steps: int = 1) -> float:
    """Return how many must come in each of so many steps for an event to be seen, nearly always.

    :param noise: standard error of the number of those who come to it in a step.
    """
    return SEEN * noise / math.sqrt(steps)


def _forward_backward(odds: Array, prior: Array, begin: float) -> tuple[Array, Array]:
    """Return the chances of no event and of each state, given the logarithms of their odds by step (series, steps, …).

    Densities are by the larger of that with nothing and of all, and chances add up to 1 at each step: so nothing
    overflows, however large an event is.
    """
    top = np.maximum(odds.max(axis=2), 0.0)
    nothing, likely = np.exp(-top), np.exp(odds - top[..., None])
    none, some = np.empty(top.shape), np.empty(odds.shape)
    off, on = np.full(len(odds), 1 - begin), np.tile(begin * prior, (len(odds), 1))
    for t in range(odds.shape[1]):
        off, on = off * nothing[:, t], on * likely[:, t]
        every = off + on.sum(axis=1)
        none[:, t], some[:, t] = off, on = off / every, on / every[:, None]
        gone = (1 - _PERSISTENCE) * on.sum(axis=1)
        off, on = (1 - begin) * off + gone, _PERSISTENCE * on + (begin * off)[:, None] * prior
    back, after = np.ones(len(odds)), np.ones((len(odds), len(prior)))
    for t in range(odds.shape[1] - 1, -1, -1):
        off, on = none[:, t] * back, some[:, t] * after
        every = off + on.sum(axis=1)
        none[:, t], some[:, t] = off / every, on / every[:, None]
        back, after = back * nothing[:, t], after * likely[:, t]
        begun = begin * (after @ prior)
        back, after = (1 - begin) * back + begun, (1 - _PERSISTENCE) * back[:, None] + _PERSISTENCE * after
        largest = np.maximum(back, after.max(axis=1))
        back, after = back / largest, after / largest[:, None]
    return none, some


class Count(NamedTuple):
    """Mean and variance of what is above the others' prediction, in the last tier."""

    mean: Array
    variance: Array


def counts(residual: Array, prior: Array, variance: Array, crowds: Array, squares: Array, chances: Array) -> Count:
    """Return the count at steps of one series where a crowd may be: a mixture over its kinds, and nobody.

    :param residual: by step and tier.
    :param prior: covariance of what the counts are beside the prediction, by step, without a crowd.
    :param variance: that of residuals, which is larger by the noise.
    :param crowds: weights by kind and tier.
    :param squares: squares of sizes by kind and size.
    :param chances: by step, of nobody first, then of each kind and size.
    """
    kinds = np.repeat(crowds, squares.shape[1], axis=0)
    square = np.concatenate([[0.0], squares.ravel()])
    kinds = np.concatenate([kinds[:1], kinds])
    some = np.flatnonzero(chances.max(axis=0) > _NEGLIGIBLE)
    kinds, square, chances = kinds[some], square[some], chances[:, some]
    chances = chances / chances.sum(axis=1, keepdims=True)
    added = square[:, None, None] * kinds[:, :, None] * kinds[:, None, :]
    across = prior[:, None, :, -1] + added[:, :, -1]
    sides = np.stack([np.broadcast_to(residual[:, None], across.shape), across], axis=-1)
    solved = np.linalg.solve(variance[:, None] + added, sides)
    means, gain = np.moveaxis(np.einsum("tkj,tkjs->tks", across, solved), -1, 0)
    variances = prior[:, None, -1, -1] + added[:, -1, -1] - gain
    mean = (chances * means).sum(axis=1)
    return Count(mean, (chances * (variances + (means - mean[:, None]) ** 2)).sum(axis=1))
