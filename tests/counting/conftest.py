"""The backends that count inside."""

import tempfile
from pathlib import Path

import pytest

from tests.counting.tables import DuckDB, Postgres, PostgresServer, Spark

LONG = pytest.mark.long


@pytest.fixture(scope="session")
def postgres_server():
    with tempfile.TemporaryDirectory(prefix="postgres", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        yield server
        server.end()


@pytest.fixture(
    scope="module", params=["duckdb", pytest.param("postgres", marks=LONG), pytest.param("spark", marks=LONG)]
)
def backend(request, tmp_path_factory):
    if request.param != "postgres":
        yield DuckDB() if request.param == "duckdb" else Spark(tmp_path_factory.mktemp("spark"))
        return
    postgres = Postgres(request.getfixturevalue("postgres_server"))
    yield postgres
    postgres.connection.disconnect()
