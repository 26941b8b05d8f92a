"""A log that is worked out anew whenever it is read, and differently, is read once: it is one log in all of a query.

Else, weights of one sample would meet the events of another.
"""

import itertools

import numpy as np
import pytest

from opendp_timeseries.counting import scaling
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.grid import Period, TimeGrid
from tests.counting.tables import count_of

ibis = pytest.importorskip("ibis")
sqlglot = pytest.importorskip("sqlglot")
database = pytest.importorskip("opendp_timeseries.counting.database")

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))
ROWS, SIZE = 300, 50
PANEL = {"by": "k", "keys": ["0", "1", "2"]}
OPTIONS = {
    "count": [
        {"excess": "l2", "period": Period(9)},
        {"gap": 3, "step_cap": 1},
        {"gap": 2, "excess": "l2", "key_cap": 1, **PANEL},
        {"value": "v", "step_cap": 7, "excess": "l2"},
        {
            "value": "v",
            "step_cap": 7,
            "tiers": Tiers(ends=(4,), typical=2),
            "grouping": Grouping.of({"all": PANEL["keys"]}, PANEL["keys"]),
            **PANEL,
        },
        {"gap": 2, "tiers": Tiers(ends=(4,)), "grouping": Grouping.of({"all": PANEL["keys"]}, PANEL["keys"]), **PANEL},
    ],
    "participation": [{"gap": 3, **PANEL}],
    "tally": [PANEL],
}


def asked(**options):
    by, keys = (options.pop(name, None) for name in PANEL)
    return count_of("id", "t", TimeGrid(size=SIZE), by, keys, **{"participation_cap": 5} | options)


def readings(query, name):
    """How often a query reads a table, if what it names twice is worked out twice, unless it must be materialised."""
    tree = sqlglot.parse_one(ibis.to_sql(query), read=query.get_backend().dialect)
    definitions = {part.alias: part for part in tree.find_all(sqlglot.exp.CTE)}

    def times(part):
        """How often what is named here is worked out."""
        around = part.find_ancestor(sqlglot.exp.CTE)
        if around is None:
            return 1
        return times(around) if around.args.get("materialized") else total(around.alias)

    def total(name):
        return sum(times(table) for table in tree.find_all(sqlglot.exp.Table) if table.name == name)

    assert len(definitions) == len(list(tree.find_all(sqlglot.exp.CTE)))
    return total(name)


@pytest.mark.parametrize("question", OPTIONS)
def test_every_query_reads_the_log_once(monkeypatch, backend, question):
    """By the rows that arrive, and by the words of the query, whatever this version of a backend makes of them."""
    queries, fetch, rows = [], database._fetch, np.arange(ROWS)
    monkeypatch.setattr(database, "_fetch", lambda query: queries.append(query) or fetch(query))
    table, reads = backend.table_that_counts_its_rows(id=rows % 7, t=rows * 17 % SIZE, k=rows % 3, v=1 + rows % 9)
    for options in OPTIONS[question]:
        before, counted = reads(), asked(**options)
        getattr(engine_of(table), question)(table, *((counted, KEY) if question == "count" else (counted.reading,)))
        assert reads() - before == ROWS, options
        assert readings(queries.pop(), table.get_name()) == 1, options
    assert not queries


def samples(backend, **columns):
    """Logs of which each reading has other rows: by an expression of Ibis, and by one that it does not see."""
    table = backend.table(**columns)
    viewed = backend.connection.create_view(
        "sample_of_" + "".join(columns), table.filter(ibis.random() < 0.5), overwrite=True
    )
    return [table.sample(0.5), table.filter(ibis.random() < 0.5), viewed]


@pytest.mark.parametrize("gap", [1, 3])
def test_a_weight_is_that_of_the_events_which_it_weighs(backend, gap):
    """So that whoever is there has no more than the cap, by the numbers that are counted."""
    counted = count_of("id", "t", TimeGrid(size=400), excess="l2", participation_cap=3, step_cap=1, gap=gap)
    for log in samples(backend, id=np.zeros(400, dtype=np.int64), t=np.arange(400)):
        counts = engine_of(log).count(log, counted, KEY)
        (steps,) = counts.nonzero()
        weights = scaling.weights_of(np.array([steps.size]), counted.weighting.weights(counted.reading))
        assert counts[steps].tolist() == weights.ravel().tolist() * steps.size
        assert sum(number**2 for number in counts.tolist()) <= 3 * 4**16
        assert np.diff(steps, append=steps[0] + 400).min() >= gap


@pytest.mark.long
@pytest.mark.parametrize("panel", [{}, PANEL])
def test_a_sum_of_values_is_of_the_rows_that_it_weighs(backend, panel):
    bound, cap = 5, 3
    grouping = {"grouping": Grouping.of({"all": PANEL["keys"]}, PANEL["keys"])} if panel else {}
    tiers = {"tiers": Tiers(ends=(cap,)), **grouping, **panel}
    for caps in ({"excess": "l2", "participation_cap": cap, **panel}, tiers):
        counted = count_of("id", "t", TimeGrid(size=100), value="v", step_cap=bound, **caps)
        most = float(counted.influence(1).l2)
        rows = np.arange(400)
        for log in samples(backend, id=0 * rows, t=rows % 100, k=rows % 3, v=rows % 9):
            numbers = engine_of(log).count(log, counted, KEY).astype(float) / 2**counted.resolution_bits
            assert 0 < np.sqrt((numbers**2).sum()) <= most


def test_a_gap_is_between_steps_of_one_sample(backend):
    people, size, gap = 20, 100, 4
    who, t = map(np.array, zip(*itertools.product(range(people), range(size)), strict=True))
    counted = count_of("id", "t", TimeGrid(size=size), "k", map(str, range(people)), gap=gap, step_cap=2)
    for log in samples(backend, id=who, t=t, k=who):
        for counts in engine_of(log).count(log, counted, KEY).reshape(people, size):
            (steps,) = counts.nonzero()
            assert counts.max() == 1
            assert np.diff(steps, append=steps[0] + size).min() >= gap
