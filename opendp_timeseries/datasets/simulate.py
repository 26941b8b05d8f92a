"""Simulated event logs with a stated participation law, to try the library without data.

The generator is an ordinary one: simulated people need no protection.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._validate import integer, real
from opendp_timeseries.grid import TimeGrid


def simulate_event_log(
    grid: TimeGrid,
    individuals: int,
    participation: ArrayLike,
    *,
    rng: np.random.Generator,
    events: ArrayLike = (0.0, 1.0),
    profile: ArrayLike | None = None,
) -> dict[str, NDArray[np.generic]]:
    """Simulate an event log in which each individual takes part in a random number of steps.

    Each individual draws a number of steps from ``participation``, then that many different steps, one after
    another with probability in proportion to ``profile``, then a number of events in each step from ``events``. So
    nobody exceeds the participation cap ``len(participation) - 1`` and the step cap ``len(events) - 1``.

    :param grid: the steps; an event happens at the start of its step.
    :param individuals: number of individuals; those who draw 0 steps leave no row.
    :param participation: ``participation[k]`` is the probability of taking part in ``k`` steps.
    :param rng: source of all the randomness, for example ``numpy.random.default_rng(1)``.
    :param events: ``events[k]`` is the probability of ``k`` events in an individual's step; ``events[0]`` must be
        0. By default there is one event.
    :param profile: non-negative weight of each step, of the grid's length; by default all are equal.
    :return: ``identifier`` (int64, below ``individuals``) and ``time``, an entry per event, in the order of time. On a
        grid of integer steps, times are these; otherwise text in UTC, such as ``2024-03-04T05:00:00Z``, which is one
        instant on whatever clock the grid is.
    :raises TypeError: if ``rng`` is no generator, or a number is of another type.
    :raises ValueError: if a law is invalid, or somebody might take part in more steps than have weight.

    >>> grid = TimeGrid(size=100)
    >>> log = simulate_event_log(grid, 1000, power_law(20), rng=np.random.default_rng(1))
    >>> person, steps = np.unique(log["identifier"], return_counts=True)
    >>> len(person), bool(steps.max() <= 20)
    (1000, True)
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeRefusal("rng", rng, "must be a generator, such as `rng=numpy.random.default_rng(1)`")
    individuals = integer("individuals", individuals, minimum=0)
    steps_law, events_law = _law("participation", participation), _law("events", events)
    if events_law[0] > 0:
        raise Refusal(
            "events[0]", Quoted(f"{events_law[0]:g}"), "must be 0", "an individual has events in each of their steps"
        )
    weight = np.ones(grid.size) if profile is None else _weights("profile", profile)
    if len(weight) != grid.size:
        raise Refusal("profile", ..., f"has {len(weight)} entries and must have one for each of {grid.size} steps")
    largest, available = len(steps_law) - 1, np.count_nonzero(weight)
    if largest > available:
        raise Refusal(
            "participation",
            ...,
            f"allows {largest} steps, but only {available} have weight",
            "shorten the law or widen the profile",
        )
    numbers = rng.choice(len(steps_law), size=individuals, p=steps_law)
    person, step = _different_steps(numbers, weight / weight.sum(), rng)
    repeats = rng.choice(len(events_law), size=len(step), p=events_law)
    order = np.argsort(step, kind="stable")
    person, step = (np.repeat(part[order], repeats[order]) for part in (person, step))
    times = grid.instants()
    if not grid.is_integer:
        times = np.array(np.datetime_as_string(times, timezone="UTC").tolist())  # no longer than they must be
    return {"identifier": person, "time": times[step]}


def power_law(participation_cap: int, exponent: float = 2.0) -> NDArray[np.float64]:
    """Return the participation law with probability in proportion to ``k**-exponent`` for 1 to the cap.

    Many people appear once and a few very often, as in check-ins.

    :param participation_cap: the largest number of steps, ``I``.
    :param exponent: how fast frequent participation becomes rare; 0 makes all numbers equally likely.
    :return: float64 array of length ``participation_cap + 1``, of which the first entry is 0.
    """
    cap = integer("participation_cap", participation_cap, minimum=1)
    weight = np.arange(1, cap + 1, dtype=np.float64) ** -real("exponent", exponent, minimum=0.0)
    return np.concatenate(([0.0], weight / weight.sum()))


def daily_profile(size: int, steps_per_day: int, *, depth: float = 0.8) -> NDArray[np.float64]:
    """Return step weights that rise and fall once a day, of so many steps from the first of the grid on.

    It is lowest at the first step of each day: with a grid that starts at midnight, then.

    :param size: number of steps, ``T``.
    :param steps_per_day: length of a day in steps.
    :param depth: from 0 (flat) to 1 (nothing at the lowest point, so that some step must be elsewhere).
    :return: float64 array of length ``size``, between ``1 - depth`` and ``1 + depth``.
    """
    step = np.arange(integer("size", size, minimum=1))
    day = integer("steps_per_day", steps_per_day, minimum=1)
    return 1.0 - real("depth", depth, minimum=0.0, maximum=1.0) * np.cos(2 * np.pi * step / day)


def _weights(name: str, values: ArrayLike) -> NDArray[np.float64]:
    weights = np.asarray(values, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise Refusal(name, ..., "must be one row of finite, non-negative numbers, not all of them 0")
    return weights


def _law(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a checked law of counts, without impossible counts at its end."""
    law = _weights(name, values)
    if abs(law.sum() - 1.0) > 1e-9:
        raise Refusal(name, ..., f"adds up to {law.sum():g} and must add up to 1", "divide it by its sum")
    largest = int(np.flatnonzero(law)[-1])
    return _weights(name, law[: largest + 1] / law.sum())


def _different_steps(
    numbers: NDArray[np.int64], share: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``numbers`` different steps for each person, one after another without replacement.

    Independent draws whose repeats are dropped until enough are different have that law. People who are still short
    after a few rounds, with most of the weight taken, get the rest from NumPy, one person at a time.
    """
    size = len(share)
    edges = np.cumsum(share)
    edges[np.flatnonzero(share)[-1] :] = 1.0
    taken = np.zeros(0, dtype=np.int64)  # person · size + step, ascending
    short = numbers
    for _ in range(8):
        person = np.repeat(np.arange(len(numbers)), short)
        draws = np.searchsorted(edges, rng.random(len(person)), side="right")
        taken = np.sort(np.concatenate((taken, person * size + draws)))
        taken = taken[np.diff(taken, prepend=-1) != 0]
        short = numbers - np.bincount(taken // size, minlength=len(numbers))
    parts = [taken]
    for individual in np.flatnonzero(short):
        rows = slice(*np.searchsorted(taken, [individual * size, (individual + 1) * size]))
        weights = share.copy()
        weights[taken[rows] % size] = 0.0
        draws = rng.choice(size, size=short[individual], replace=False, p=weights / weights.sum())
        parts.append(individual * size + draws)
    taken = np.sort(np.concatenate(parts))
    return taken // size, taken % size
