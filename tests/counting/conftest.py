"""The backends that count inside."""

import pytest

from tests.counting.tables import DuckDB, Spark


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def backend(request, tmp_path_factory):
    return DuckDB() if request.param == "duckdb" else Spark(tmp_path_factory.mktemp("spark"))
