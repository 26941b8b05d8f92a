"""The gap between an individual's counted steps: first come, then rest, around the cycle, in every series by itself."""

import itertools

import numpy as np
import pytest

from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.gap import mark_apart
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TimeGrid
from tests import make
from tests.counting.tables import count_of_series
from tests.oracles import counting as oracle

# Of Ibis's own calls into DuckDB, and of PySpark's into pandas, when tables are made.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))


def count(rows, size, *, gap, participation_cap=10**9, step_cap=1, cycle=None):
    """Counts of ``(identifier, step)`` rows."""
    who, steps = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    caps = {"participation_cap": participation_cap, "step_cap": step_cap, "gap": gap}
    return capped_count(who, steps, count_of_series(size, size // (cycle or size), **caps), KEY).tolist()


def left(steps, *, gap, cycle):
    """What a gap leaves of the steps of one individual."""
    counts = count([(7, step) for step in steps], cycle, gap=gap)
    assert set(counts) <= {0, 1}
    return np.flatnonzero(counts).tolist()


@pytest.mark.parametrize(("steps", "gap", "expected"), [
    ([5], 20, [5]),  # one step is not too near to itself
    ([0, 1, 2, 3, 4, 5, 6], 3, [0, 3, 6]),
    ([0, 2, 3, 5], 3, [0, 3]),  # 5 is two after 3, which is kept; 3 is one after 2, which is not
    ([0, 2, 4, 6, 8], 3, [0, 4, 8]),
    ([3, 10, 17], 6, [3, 10, 17]),  # 17 and 3 are six apart around the end
    ([3, 10, 17], 7, [3, 10]),
    ([2, 10, 19], 4, [2, 10]),  # 19 and 2 are three apart around the end
    ([2, 10, 15, 16, 19], 4, [2, 10, 15]),  # one dropped is enough, and 16 does not come back
    ([0, 19], 2, [0]),
    ([0, 19], 1, [0, 19]),
    ([0, 10], 10, [0, 10]),
    ([0, 10], 11, [0]),
    ([1, 12], 10, [1]),
    (range(20), 20, [0]),
    (range(20), 1, list(range(20))),
    (range(20), 6, [0, 6, 12]),
])  # fmt: skip
def test_first_come_then_rest(steps, gap, expected):
    assert left(steps, gap=gap, cycle=20) == expected == oracle.rested(steps, gap, 20)


def test_what_is_left_of_all_sets_of_steps_is_apart_and_begins_with_the_first():
    for cycle in (1, 2, 5, 9):
        sets = [[step for step in range(cycle) if mask >> step & 1] for mask in range(1, 2**cycle)]
        steps = np.concatenate(sets)
        begins = np.cumsum([0, *map(len, sets)])[:-1]
        for gap in range(1, cycle + 1):
            marks = np.split(mark_apart(steps, begins, gap=gap, cycle=cycle), begins[1:])
            for own, kept in zip(sets, marks, strict=True):
                remaining = np.array(own)[kept].tolist()
                assert remaining == oracle.rested(own, gap, cycle)
                assert remaining[0] == own[0]
                assert oracle.apart(remaining, gap, cycle)


def test_every_series_has_a_gap_of_its_own():
    rows = [(1, step) for step in (0, 9, 10, 12, 29)]  # of three series of ten steps
    expected = [0, 10, 29]  # 9 is next to 0 around the end, 12 two after 10
    assert np.flatnonzero(count(rows, 30, gap=3, cycle=10)).tolist() == expected
    assert np.flatnonzero(count(rows, 30, gap=3)).tolist() == [0, 9, 12]


def test_people_do_not_wait_for_each_other():
    assert count([(person, person) for person in range(20)], 20, gap=7) == [1] * 20


def test_long_walks():
    """Runs of thousands of steps, many at once, beside short ones."""
    random = np.random.default_rng(4)
    size = 5000
    own = [
        np.arange(size),
        np.arange(1, size, 2),
        *(np.unique(random.integers(0, size, k)) for k in (4000, 900, 50, 2)),
    ]
    rows = [(person, step) for person, steps in enumerate(own) for step in steps.tolist()]
    for gap in (2, 3, 64, size // 2, size):
        expected = oracle.capped_counts(rows, size=size, participation_cap=size, step_cap=1, key=KEY, gap=gap)
        assert count(rows, size, gap=gap) == expected


def crowd(people=80, size=60, seed=3):
    """A log in bursts: most steps of an individual are too near to another one of theirs."""
    random = np.random.default_rng(seed)
    who = random.integers(0, people, people * 20)
    return who * 2**40 + 5, (random.integers(0, 6, who.size) * 10 + random.geometric(0.3, who.size)) % size


COUNT = count_of_series(60, 2, participation_cap=3, step_cap=2, gap=4)


def engine(who, steps):
    return capped_count(who, steps, COUNT, KEY)


def forgetful(who, steps):
    """Broken on purpose: counts the gap from the last row that was read, whoever it is of."""
    kept = np.append(True, np.abs(np.diff(steps)) >= COUNT.reading.gap)
    return capped_count(who[kept], steps[kept], make.changed(COUNT, gap=1), KEY)


def sound(counter):
    """Whether removing any one individual changes what their own rows give, apart and within the caps, and no more."""
    who, steps = crowd()
    whole = counter(who, steps)
    shuffled = np.random.default_rng(8).permutation(who.size)
    if (counter(who[shuffled], steps[shuffled]) != whole).any():
        return False
    for person in np.unique(who):
        mine = who == person
        change = whole - counter(who[~mine], steps[~mine])
        if (change != counter(who[mine], steps[mine])).any() or np.count_nonzero(change) > 3 or change.max() > 2:
            return False
        if not all(oracle.apart(np.flatnonzero(series), COUNT.reading.gap, 30) for series in change.reshape(2, 30)):
            return False
    return True


def test_removing_anyone_leaves_everyone_else_as_they_were():
    assert sound(engine)
    assert not sound(forgetful)


def test_one_individual_reaches_all_that_is_apart_and_nothing_else():
    size, reached = 5, set()
    for events in itertools.product(range(3), repeat=size):
        rows = [(0, step) for step, many in enumerate(events) for _ in range(many)]
        reached.add(tuple(count(rows, size, gap=2, step_cap=2, participation_cap=2)))
    assert reached == set(oracle.contributions(size, 2, 2, gap=2))


# --- The engines


@pytest.mark.parametrize("gap", [2, 4, 11])
def test_a_database_counts_a_step_once_behind_a_gap(backend, gap):
    """Most rows have a like one, of the start, the second or a later step of a run."""
    who, steps = crowd(people=15, size=60)
    asked = make.changed(COUNT, participation_cap=60, step_cap=1, gap=gap)
    asked = make.changed(asked, panel=None, grid=TimeGrid(size=60), source=Source(identifier="id", time="step"))
    found = engine_of(table := backend.table(id=who, step=steps)).count(table, asked, KEY)
    np.testing.assert_array_equal(found, capped_count(who, steps, asked, KEY))
