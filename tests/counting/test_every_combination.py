"""One test of all options in all engines: each drawn case is counted as the slow count counts, and none is left out.

With it are drawn totals of the series, filters, several individuals who differ, units of two, and all that somebody did
in several periods; and where the rows go, for each cause.

Case ``seed`` of an engine is ``drawn.draw(seed, engine)``. The long form takes about ten minutes.
"""

import functools

import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

from opendp_timeseries.counting import capped_count, dataset, scaling
from tests.counting import drawn
from tests.oracles import counting as oracle

LONG = pytest.mark.long


def check_in_memory(monkeypatch, cases):
    monkeypatch.setattr(dataset, "_BATCH", 7)
    monkeypatch.setattr(capped_count, "_CHUNK", 9)
    monkeypatch.setattr(scaling, "_NARROW", 40)
    hashed = functools.cache(oracle.hash_of)
    engines = list(drawn.IN_MEMORY)
    for seed in cases:
        engine = engines[seed % len(engines)]
        drawn.check(drawn.draw(seed, engine), engine, drawn.IN_MEMORY[engine], hashed)


def check_in_database(backend, cases, *, every=4):
    """Only every so many cases also without one individual, and by the other questions to an engine."""
    hashed = functools.cache(backend.hashes)
    for seed in cases:
        case = drawn.draw(seed, backend.name)
        drawn.check(
            case,
            backend.name,
            lambda case, rows: backend.table_of(drawn.in_chunks(case, rows)),
            lambda who, step, key: hashed(who, key)[step],
            all_of_it=seed % every == 0,
        )


def ranges(stop, size, *before):
    """All cases, in ranges that processes can share among each other."""
    return [pytest.param(*before, range(k, k + size), marks=LONG) for k in range(0, stop, size)]


def name_of(value):
    return f"{value.start}-{value.stop}" if isinstance(value, range) else str(value)


@pytest.mark.parametrize("cases", [range(90), *ranges(20_000, 2_500)], ids=name_of)
def test_in_memory(monkeypatch, cases):
    check_in_memory(monkeypatch, cases)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("backend", "cases"), [
    *(("duckdb", range(k, k + 12)) for k in (4, 16)),  # 3 is telling
    ("duckdb", drawn.TELLING),
    *ranges(2_000, 250, "duckdb"),
    *ranges(2_000, 250, "postgres"),
    *ranges(100, 25, "spark"),
], ids=name_of, indirect=["backend"])  # fmt: skip
def test_in_a_database(backend, cases):
    check_in_database(backend, cases)
