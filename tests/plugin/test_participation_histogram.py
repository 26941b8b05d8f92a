"""The private basis for choosing the cap: individuals by number of steps."""

from collections import defaultdict

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from tests.refused import refuses

GRID = ts.TimeGrid(size=40)
EDGES = [1, 5, 10]


def histogram(space, **kwargs):
    return space >> ts.then_participation_histogram(GRID, **({"edges": EDGES} | kwargs))


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    people = rng.zipf(1.4, 3000) % 300
    return {"id": people, "time": rng.integers(-5, 50, 3000), "venue": rng.choice(["a", "b"], 3000)}


def steps_of(log, by=None):
    steps = defaultdict(set)
    for k, (who, when) in enumerate(zip(log["id"].tolist(), log["time"].tolist(), strict=True)):
        if 0 <= when < 40:
            steps[who].add((when, by and log[by][k]))
    return steps


def slowly(log, by=None):
    counts = [0] * (len(EDGES) + 1)
    for some in steps_of(log, by).values():
        counts[sum(len(some) > cap for cap in EDGES)] += 1
    return counts


def test_agrees_with_a_slow_count(log_space, log):
    assert list(histogram(log_space)(log)) == slowly(log)
    panel = histogram(log_space, by="venue", keys=["a", "b"])
    assert list(panel(log)) == slowly(log, "venue")
    assert slowly(log) != slowly(log, "venue")


@pytest.mark.parametrize("gap", [2, 7])
def test_steps_a_gap_apart(log_space, log, gap):
    def apart(steps):
        kept = []
        for step in sorted(steps):
            if not kept or step >= kept[-1] + gap:
                kept.append(step)
        return kept[:-1] if len(kept) > 1 and kept[-1] > kept[0] + 40 - gap else kept

    counts = [0] * (len(EDGES) + 1)
    for steps in steps_of(log).values():
        counts[sum(len(apart(step for step, _ in steps)) > cap for cap in EDGES)] += 1
    assert list(histogram(log_space, gap=gap)(log)) == counts != slowly(log)
    refuses("gap", histogram, log_space, gap=41)


def test_one_individual_is_in_one_entry(log_space, log):
    chain = histogram(log_space, gap=3)
    whole = np.array(chain(log))
    for person in np.unique(log["id"])[:60]:
        others = log["id"] != person
        change = whole - np.array(chain({name: column[others] for name, column in log.items()}))
        assert np.abs(change).sum() <= 1


def test_what_a_cap_loses_from_a_shared_budget(log_space, log):
    context = ts.compositor(
        log,
        domain=log_space[0],
        privacy_unit=(log_space[1], 1),
        privacy_loss=dp.loss_of(epsilon=100.0, delta=1e-6),
        split_by_weights=[1, 9],
    )
    released = context.query().participation_histogram(GRID, edges=EDGES).laplace(0.11).release()
    # Laplace noise of scale 0.11 on four entries: each is within 3 with a false alarm below 1e-12.
    noisy = ts.Participation(released, size=40, standard_error=0.11 * 2**0.5, edges=EDGES)
    exact = ts.Participation(slowly(log), size=40, standard_error=0, edges=EDGES)
    for cap in EDGES:
        assert noisy.fraction_above(cap) == pytest.approx(exact.fraction_above(cap), abs=0.05)
        assert noisy.fraction_lost(cap) == pytest.approx(exact.fraction_lost(cap), abs=0.05)


def test_entries_by_default_are_two_to_an_octave(log_space, log):
    chain = log_space >> ts.then_participation_histogram(GRID)
    entries = list(chain(log))
    assert len(entries) == 11  # 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, and more
    assert sum(entries) == sum(slowly(log))
    assert ts.Participation(entries, size=40, standard_error=0).edges == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    panel = log_space >> ts.then_participation_histogram(GRID, by="venue", keys=["a", "b"])
    assert len(panel(log)) == 13


@pytest.mark.parametrize("edges", [[], [0], [3, 2], [2, 2], [1.5], [True]])
def test_caps_must_ascend(log_space, edges):
    refuses("edges", ts.make_participation_histogram, *log_space, GRID, error=(TypeError, ValueError), edges=edges)


def test_other_refusals(log_space):
    refuses("TimeGrid", ts.make_participation_histogram, *log_space, 40, error=TypeError, edges=EDGES)
