"""Simulated logs have the participation law that they were asked for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from opendp_timeseries import TimeGrid
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.datasets import daily_profile, power_law, simulate_event_log
from opendp_timeseries.design.reading import Reading, Source

STEPS = TimeGrid(size=48)
ALPHA = 1e-9  # false alarms of each random test, by a Bernstein bound; the seeds are fixed


def margin(probability: float, draws: int, tests: int) -> float:
    """Distance of a frequency from its probability that ``tests`` of them exceed with at most ALPHA."""
    log = math.log(2 * tests / ALPHA)
    return math.sqrt(2 * probability * (1 - probability) * log / draws) + log / draws


def person_steps(log: dict[str, NDArray[np.int64]]) -> dict[int, dict[int, int]]:
    counts: dict[int, dict[int, int]] = {}
    for person, step in zip(log["identifier"].tolist(), log["time"].tolist(), strict=True):
        own = counts.setdefault(person, {})
        own[step] = own.get(step, 0) + 1
    return counts


def test_participation_and_events_follow_their_laws() -> None:
    people = 20_000
    participation, events = [0.2, 0.3, 0.0, 0.4, 0.1, 0.0], [0.0, 0.5, 0.5]
    log = simulate_event_log(TimeGrid(size=7), people, participation, rng=np.random.default_rng(1), events=events)
    counts = person_steps(log)
    assert np.all(np.diff(log["time"]) >= 0)
    assert min(counts) >= 0
    assert max(counts) < people
    taken = np.array([len(own) for own in counts.values()] + [0] * (people - len(counts)))
    for k, probability in enumerate(participation):
        assert abs(np.mean(taken == k) - probability) <= margin(probability, people, len(participation))
    per_step = [number for own in counts.values() for number in own.values()]
    assert set(per_step) == {1, 2}
    assert abs(np.mean(np.array(per_step) == 1) - 0.5) <= margin(0.5, len(per_step), 1)


@pytest.mark.parametrize("wanted", [2, 3])
def test_sets_of_steps_follow_draws_without_replacement(wanted: int) -> None:
    """Against the law of successive draws, by listing every order; some people are completed one by one."""
    share, people = [0.8, 0.08, 0.0, 0.07, 0.05], 10_000
    law: dict[frozenset[int], float] = {}
    for order in itertools.permutations([0, 1, 3, 4], wanted):
        probability, left = 1.0, 1.0
        for step in order:
            probability, left = probability * share[step] / left, left - share[step]
        law[frozenset(order)] = law.get(frozenset(order), 0.0) + probability
    assert math.fsum(law.values()) == pytest.approx(1)

    participation = [0.0] * wanted + [1.0]
    log = simulate_event_log(TimeGrid(size=5), people, participation, rng=np.random.default_rng(2), profile=share)
    drawn = [frozenset(own) for own in person_steps(log).values()]
    for steps, probability in law.items():
        assert abs(drawn.count(steps) / people - probability) <= margin(probability, people, len(law))


def test_everybody_in_every_step_is_possible() -> None:
    log = simulate_event_log(
        TimeGrid(size=30), 50, [0.0] * 30 + [1.0], rng=np.random.default_rng(3), profile=2.0 ** -np.arange(30)
    )
    assert sorted(zip(log["identifier"], log["time"], strict=True)) == [(i, t) for i in range(50) for t in range(30)]


@pytest.mark.parametrize(("start", "step", "zone"), [
    ("2024-03-09T00:00", "1h", "America/New_York"),  # a skipped hour, and one that occurs twice
    ("2024-11-02T00:00", "1h", "America/New_York"), ("2024-11-02", "1d", "Asia/Tehran"),
    ("2011-12-01", "1d", "Pacific/Apia"), ("2024-01-01", "1mo", "UTC"), ("2024-03-30T05:45Z", "7ms", None),
])  # fmt: skip
def test_a_log_counts_in_the_steps_that_were_drawn(start: str, step: str, zone: str | None) -> None:
    grid = TimeGrid(size=48, start=start, step=step, zone=zone)
    log, drawn = (simulate_event_log(on, 100, power_law(5), rng=np.random.default_rng(4)) for on in (grid, STEPS))
    reading = Reading(source=Source(identifier="identifier", time="time"), grid=grid)
    assert np.array_equal(read_positions(log, reading)[1], drawn["time"])
    assert np.array_equal(log["identifier"], drawn["identifier"])


def test_laws_and_profiles() -> None:
    assert power_law(3, 1.0) == pytest.approx([0, 6 / 11, 3 / 11, 2 / 11])
    assert power_law(4, 0.0) == pytest.approx([0, 0.25, 0.25, 0.25, 0.25])
    profile = daily_profile(8, 4, depth=0.5)
    assert profile == pytest.approx([0.5, 1, 1.5, 1, 0.5, 1, 1.5, 1])


def test_nobody_gives_an_empty_log() -> None:
    for people, law in [(0, [0.0, 1.0]), (5, [1.0])]:
        log = simulate_event_log(TimeGrid(size=3), people, law, rng=np.random.default_rng(5))
        assert log["identifier"].shape == log["time"].shape == (0,)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"participation": [0.5, 0.4]}, r"^participation.*0.9"),
    ({"participation": [-0.5, 1.5]}, r"^participation"),
    ({"participation": [0.5, math.nan]}, r"^participation"),
    ({"participation": []}, r"^participation"),
    ({"participation": [0, 0, 0, 0, 1]}, r"^participation.*4.*3"),
    ({"profile": [1, 1, 0], "participation": [0, 0, 0, 1]}, r"^participation.*3.*2"),
    ({"profile": [1, 1]}, r"^profile.*2"), ({"profile": [0, 0, 0]}, r"^profile"),
    ({"events": [0.5, 0.5]}, r"^events\[0\]"), ({"individuals": -1}, "individuals"),
    ({"rng": 1}, r"^rng \(1\)"), ({"rng": np.random.RandomState(1)}, "^rng"),
])  # fmt: skip
def test_refusals(wrong: dict[str, object], message: str) -> None:
    arguments = {"individuals": 2, "participation": [0, 1], "rng": np.random.default_rng(6)} | wrong
    with pytest.raises(ValueError, match=message):
        simulate_event_log(TimeGrid(size=3), **arguments)  # type: ignore[arg-type]
