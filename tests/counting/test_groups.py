"""Sums over groups of keys: a database adds up and weighs as tables in memory do, whoever is at many keys at once."""

import numpy as np
import pytest

from opendp_timeseries.counting import capped_count, scaling
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.tables import count_of

KEY = bytes(range(16))
KEYS = tuple("abcdef")
TREES = [{"city": KEYS}, {"city": {"north": ["f", "b"], "south": ["a", "c", "d", "e"]}}]


def counted(tree, **options):
    options = {"step_cap": 1, "tiers": Tiers(ends=(2, 9))} | options
    return count_of("id", "t", TimeGrid(size=24), "k", KEYS, grouping=Grouping.of(tree, KEYS), **options)


def log_of(random, rows=1500):
    """Many who are rarely there, a few who often are, and two who are everywhere all the time."""
    who, t, k = random.integers(0, 200, rows) ** 2 // 250, random.integers(-1, 25, rows), random.integers(0, 7, rows)
    everywhere = np.indices((2, 24, 6)).reshape(3, -1)
    who, t, k = (
        np.concatenate(both) for both in zip((who, t, k), everywhere + np.array([[500], [0], [0]]), strict=True)
    )
    return {"id": who, "t": t, "k": np.array([*KEYS, "elsewhere"])[k]}


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("options", [{"gap": 3}, {"step_cap": 10**30}, {"step_cap": 2, "period": Period(10)}], ids=str)
def test_a_database_adds_up_groups_as_tables_in_memory_do(backend, options):
    log = log_of(np.random.default_rng(3))
    table = backend.table(**log)
    for tree in TREES:
        count = counted(tree, **options)
        in_memory = engine_of(log).count(log, count, KEY)
        assert engine_of(table).count(table, count, KEY).tolist() == in_memory.tolist()
        tiers, series, _ = count.shape
        keys = in_memory.reshape(count.shape)[:, :6].sum(axis=1)
        outermost = in_memory.reshape(count.shape)[:, 6]
        assert (tiers, series) == (3, 6 + len(count.reading.grouping.groups.names))
        # The city is the sum of its keys, but for rounding, and the shares of both levels.
        shares = count.reading.grouping.shares
        np.testing.assert_allclose(outermost, keys * (shares[-1] / shares[0]) ** 0.5, rtol=1e-2)


@pytest.mark.parametrize("events", [1, 300, 80_000, 2**40])
@pytest.mark.parametrize("keys", [1, 25_000])
def test_sizes_of_groups_are_exact_whatever_the_events(keys, events):
    """Also where the squares of each key's events are small, and the square of their sum is not."""
    people = np.zeros(keys, dtype=np.int64)
    levels = [np.arange(keys), np.zeros(keys, dtype=np.int64)]
    sizes = capped_count._sizes_by_level(people, levels, np.full(keys, events), (13, 3))
    assert sizes.tolist() == [13 * keys * events**2 + 3 * (keys * events) ** 2]
    assert sizes.dtype == object or sizes.max() < scaling._NARROW
