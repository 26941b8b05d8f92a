"""Local events: a crowd at one station for some steps, or nobody, which neither the others nor the noise explain.

Each step is held against what all others say of it. At any step, a station is as usual; or a crowd is there, one of
several kinds, by how often such people come and by how large it may be; or it is closed, and all that is seen of it is
noise. A crowd stays for some steps, and a station closed for more, so that the chances of all steps are those of a
Markov chain, forward and backward (Rabiner 1989).
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from opendp_timeseries.smoothing.matrices import Array

#: Crowds and closures thought to be in a series before any is seen: of pure noise, one series in 170 then names one.
#: Steps are left open for the fit that would have one if they were so much more frequent, with such a chance.
FREQUENCY: Final = (0.3, 0.03)
SUSPICION: Final = (3.0, 0.3)
OPENING: Final = 0.1
#: Chances from which an event counts, and from which it has a name.
LEAST: Final = 0.02
EVENT: Final = 0.5
#: An event is nearly always seen whose size is so many standard errors, of all of its steps together. Of events of one
#: step and of three, with 5, 6 and 7 of these, .53 and .72, .88 and .94, and .97 were.
SEEN: Final = 7.0
#: A closure is mostly seen at a station where so many standard errors usually come in its steps, together. Of
#: stations with 16, 11, 7 and 5 of these, that were closed for a day of hours, .9, .8, .3 and .1 were.
CLOSED: Final = 12.0
#: Chance that a crowd stays for one more step, four on average; and that a station is closed for one more.
_PERSISTENCE: Final = (0.75, 0.95)
#: What is predicted errs alike in all steps of a run: so they tell less of a closure than each by itself.
_ALIKE: Final = 0.8
#: A station that seems to be closed for a larger share of all steps is new, gone or quiet by day: that is its level and
#: its pattern, which nothing tells of steps that are left out of them.
_MOST_CLOSED: Final = 0.2
#: How large a crowd may be, in standard errors of one.
_SIZES: Final = np.array([3.0, 10.0, 30.0, 100.0])
#: Chances of kinds that are less than this change nothing.
_NEGLIGIBLE: Final = 1e-6


class Chances(NamedTuple):
    """Chances at each step of series, which add up to 1."""

    none: Array  # that it is as usual; series by steps
    crowd: Array  # of each kind and size; series by steps by kinds by sizes
    closed: Array


class Evidence(NamedTuple):
    """Evidence in residuals, by series and step: of a crowd of each kind, w'V⁻¹r and w'V⁻¹w, and of a closure."""

    pull: Array  # series by steps by kinds
    precision: Array
    closure: Array  # logarithm of the odds that all is noise

    @classmethod
    def of(cls, values: Array, residual: Array, variance: Array, crowds: Array) -> "Evidence":
        """Return that of values in units of their noise, and of their residuals (series, steps, tiers).

        :param variance: covariances of the residuals over the tiers.
        :param crowds: weights of one of each kind by series (series, kinds, tiers).
        """
        kinds = np.broadcast_to(crowds.swapaxes(1, 2)[:, None], (*variance.shape[:2], *crowds.shape[:0:-1]))
        solved = np.linalg.solve(variance, np.concatenate([kinds, residual[..., None]], axis=3))
        *pull, square = np.moveaxis(np.einsum("ntjk,ntj->ntk", solved, residual, optimize=True), 2, 0)
        return cls(
            np.stack(pull, axis=2),
            np.einsum("ntjk,nkj->ntk", solved[..., :-1], crowds, optimize=True),
            _ALIKE * (square + np.linalg.slogdet(variance)[1] - np.sum(values**2, axis=2)) / 2,
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
        return Evidence(self.pull[some], self.precision[some], self.closure[some])

    def chances(self, prior: Array, often: tuple[float, float]) -> Chances:
        """Return the chances of no event, of each kind and size of a crowd, and of a closure.

        :param prior: how likely each kind is, of a crowd.
        :param often: crowds and closures thought to be in a series.
        """
        squares = self.squares[:, None]
        pull, growth = self.pull[..., None], 1 + self.precision[..., None] * squares
        spread = np.sqrt(squares / growth)
        # By the density without an event; a crowd is above nothing, not below.
        odds = 0.5 * ((pull * spread) ** 2 - np.log(growth)) + log_ndtr(pull * spread) + math.log(2)
        states = np.concatenate([odds.reshape(*odds.shape[:2], -1), self.closure[..., None]], axis=2)
        crowds, closures = often
        begin = np.append(np.repeat(crowds * prior / len(_SIZES), len(_SIZES)), closures) / odds.shape[1]
        persistence = np.repeat(_PERSISTENCE, [len(begin) - 1, 1])
        none, some = _forward_backward(states, begin, persistence)
        long = np.flatnonzero(some[..., -1].mean(axis=1) > _MOST_CLOSED)
        if len(long):
            states[long, :, -1] = -np.inf
            none[long], some[long] = _forward_backward(states[long], begin, persistence)
        return Chances(none, some[..., :-1].reshape(odds.shape), some[..., -1])


def least_seen(noise: float, steps: int = 1) -> float:
    """Return how many must come in each of so many steps for an event to be seen, nearly always.

    :param noise: standard error of the number of those who come to it in a step.
    """
    return SEEN * noise / math.sqrt(steps)


def _forward_backward(odds: Array, begin: Array, persistence: Array) -> tuple[Array, Array]:
    """Return the chances of no event and of each state, given the logarithms of their odds by step (series, steps, …).

    :param begin: chance of each that it begins at a step.
    :param persistence: that it goes on for one more.

    Densities are by the larger of that with nothing and of all, and chances add up to 1 at each step: so nothing
    overflows, however large an event is.
    """
    top = np.maximum(odds.max(axis=2), 0.0)
    nothing, likely = np.exp(-top), np.exp(odds - top[..., None])
    none, some = np.empty(top.shape), np.empty(odds.shape)
    off, on = np.full(len(odds), 1 - begin.sum()), np.tile(begin, (len(odds), 1))
    for t in range(odds.shape[1]):
        off, on = off * nothing[:, t], on * likely[:, t]
        every = off + on.sum(axis=1)
        none[:, t], some[:, t] = off, on = off / every, on / every[:, None]
        gone = on @ (1 - persistence)
        off, on = (1 - begin.sum()) * off + gone, persistence * on + off[:, None] * begin
    back, after = np.ones(len(odds)), np.ones((len(odds), len(begin)))
    for t in range(odds.shape[1] - 1, -1, -1):
        off, on = none[:, t] * back, some[:, t] * after
        every = off + on.sum(axis=1)
        none[:, t], some[:, t] = off / every, on / every[:, None]
        back, after = back * nothing[:, t], after * likely[:, t]
        begun = after @ begin
        back, after = (1 - begin.sum()) * back + begun, (1 - persistence) * back[:, None] + persistence * after
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
