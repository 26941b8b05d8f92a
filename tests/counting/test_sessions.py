"""Whatever a session of a database is set to, it counts what the slow count does, or is refused by name."""

import functools
import itertools

import numpy as np
import pytest

from opendp_timeseries.counting import database as engine
from opendp_timeseries.grid import Period, TimeGrid
from tests import make
from tests.counting.tables import Spark, count_of
from tests.oracles import counting as oracle
from tests.refused import refuses

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")

KEY = bytes(range(16))
CAPS = [
    {"participation_cap": 4, "step_cap": 2, "gap": 3, "key_cap": 1},
    {"participation_cap": 99, "step_cap": 10**9, "gap": 5, "key_cap": None},
]

#: All that may change what a query means, with every value, or with those that differ the most.
VALUES = {
    "Calendar": ["japanese", "buddhist", "chinese", "hebrew", "indian", "islamic", "coptic", "ethiopic"],
    "TimeZone": ["America/Los_Angeles", "Asia/Kathmandu", "Pacific/Apia"],
    "default_collation": ["nocase", "noaccent", "nocase.noaccent", "de"],
    "default_null_order": ["nulls_first", "nulls_last", "sqlite", "postgres"],
    "default_order": ["desc", "asc"], "dialect_compatibility_mode": ["spark", "none"],
    "disabled_optimizers": ["filter_pushdown", "expression_rewriter,statistics_propagation,join_order"],
    "lambda_syntax": ["enable_single_arrow", "disable_single_arrow"],
    "nested_loop_join_threshold": ["0", "1000000"], "merge_join_threshold": ["0", "1000000"],
    "ordered_aggregate_threshold": ["1"], "perfect_ht_threshold": ["0"],
    "preserve_identifier_case": ["uppercase", "lowercase"], "threads": ["1", "5"],
}  # fmt: skip
#: Truth values that are not settings of a query, or close the session.
NOT_OF_QUERIES = {"enable_external_access", "enable_progress_bar", "lock_configuration", "warnings_as_errors"}


def settings():
    """Sessions in which each setting has each of its values once, and all truth values are turned round."""
    connection = duckdb.connect()
    flipped = {
        name: "false" if value == "true" else "true"
        for name, value, kind in connection.execute("SELECT name, value, input_type FROM duckdb_settings()").fetchall()
        if kind == "BOOLEAN" and name not in NOT_OF_QUERIES
    }
    yield flipped
    for k in range(max(map(len, VALUES.values()))):
        yield {name: values[k % len(values)] for name, values in VALUES.items()}


def crowd(rows=300, people=4):
    random = np.random.default_rng(1)
    grid = TimeGrid(start="2024-02-28", end="2024-03-25", step="1d", zone="America/New_York")  # a day of 23 hours
    edges = grid.edges().astype("M8[us]").astype(np.int64)
    ticks = random.integers(edges[0] - 10**11, edges[-1] + 10**11, rows)
    who, step = random.integers(0, people, rows), random.integers(-1, 27, rows)
    log = {
        "number": pa.array(who),
        "text": pa.array([["Ann", "ann", "ANN", "Änn"][k] for k in who]),
        "half": pa.array(who / 2),
        "decimal": pa.array(who.tolist(), pa.decimal128(20, 0)),
        "day": pa.array(who, pa.int32()).cast(pa.date32()),
        "instant": pa.array(ticks, pa.timestamp("us", "UTC")),
        "step": pa.array(step),
        "floating": pa.array(step * 1.0),
        "written": pa.array(step.astype(str)),
        "venue": pa.array(random.choice(["a", "A", "b"], rows)),
    }  # fmt: skip
    return grid, edges, pa.table(log)


def queries():
    """Counts, and the rows of each as the slow count takes them."""
    grid, edges, log = crowd()
    days, plain = Period("1w", "America/New_York"), TimeGrid(size=26)
    keys = ["A", "b"]
    for name, time in itertools.zip_longest(
        ["text", "number", "half", "decimal", "day"], ["instant", "step", "floating", "written"], fillvalue="instant"
    ):
        instants = time == "instant"
        period = days if instants else Period(13)
        count = count_of(name, time, grid if instants else plain, "venue", keys, period=period)
        steps = log["instant"].cast("int64").to_numpy() if instants else log["step"].to_numpy()
        steps = np.searchsorted(edges, steps, side="right") - 1 if instants else steps
        names = [str(value) for value in log[name].to_pylist()]
        names = [text.removesuffix(".0") for text in names]
        rows = [
            (who, keys.index(venue) * 26 + int(step))
            for who, step, venue in zip(names, steps, log["venue"].to_pylist(), strict=True)
            if 0 <= step < 26 and venue in keys
        ]
        yield log, count, rows


def hashes(connection):
    """DuckDB's hash, in a session that nothing is set in."""
    known = {}

    def hashed(who, step, key):
        first, second = np.frombuffer(key, "<i8").tolist()
        if (who, step, key) not in known:
            query = f"SELECT hash(hash({first}, {second}, ?, {step}::BIGINT))"
            [known[who, step, key]] = connection.execute(query, [who]).fetchone()
        return known[who, step, key]

    return hashed


def session_of(log, values):
    connection = ibis.duckdb.connect()
    connection.con.register("arrived", log)
    connection.raw_sql("CREATE TABLE log AS SELECT * FROM arrived")
    for name, value in values.items():
        try:
            connection.raw_sql(f"SET {name} = '{value}'")
        except duckdb.Error as refusal:  # what only a new database takes, or another version knows
            words = ("running", "nrecognized", "to BOOL")
            assert any(word in str(refusal) for word in words), name  # noqa: PT017
    return connection


def expected_counts(count, rows, caps, hashed):
    starts = count.reading.period_starts
    expected = oracle.capped_counts(
        rows, size=count.size, cycle=26, key=KEY, hashed=hashed,
        period_of=lambda step: int(np.searchsorted(starts, step, side="right")), **caps,
    )  # fmt: skip
    assert sum(expected) > 0
    return expected


@pytest.mark.long
@pytest.mark.parametrize("turn", [0, 1])
def test_no_setting_changes_a_count(turn):
    """Each session counts with one of the caps, and at the second turn with the other."""
    hashed, cases = hashes(duckdb.connect()), list(queries())
    for k, values in enumerate(settings()):
        log, count, rows = cases[k % len(cases)]
        table, caps = session_of(log, values).table("log"), CAPS[(k + turn) % 2]
        counts = engine.count(table, make.changed(count, **caps), KEY).tolist()
        assert counts == expected_counts(count, rows, caps, hashed), values


def test_a_setting_that_refuses_the_query_is_named():
    log, count, _ = next(queries())
    table = session_of(log, {"max_expression_depth": 20}).table("log")
    refuses("the session", engine.participation, table, count.reading)


# --- Spark

#: Settings that are no truth values, and may change what a query means, or how it is worked out.
SPARK_VALUES = {
    "spark.sql.adaptive.autoBroadcastJoinThreshold": ["-1", "1GB"],
    "spark.sql.adaptive.optimizer.excludedRules": ["org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"],
    "spark.sql.autoBroadcastJoinThreshold": ["-1", "1GB"],
    "spark.sql.binaryOutputStyle": ["BASE64", "HEX", "UTF-8"],
    "spark.sql.codegen.factoryMode": ["NO_CODEGEN", "CODEGEN_ONLY", "FALLBACK"],
    "spark.sql.codegen.maxFields": ["0", "1"],
    "spark.sql.codegen.methodSplitThreshold": ["1"],
    "spark.sql.execution.arrow.pyspark.enabled": ["false", "true"],
    "spark.sql.execution.arrow.maxRecordsPerBatch": ["1", "7"],
    "spark.sql.execution.pandas.structHandlingMode": ["row", "dict"],
    "spark.sql.functionResolution.sessionOrder": ["first", "last"],
    "spark.sql.inMemoryColumnarStorage.batchSize": ["1"],
    "spark.sql.legacy.ctePrecedencePolicy": ["LEGACY", "EXCEPTION"],
    "spark.sql.legacy.timeParserPolicy": ["LEGACY", "EXCEPTION"],
    "spark.sql.mapKeyDedupPolicy": ["LAST_WIN", "EXCEPTION"],
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": ["1"],
    "spark.sql.optimizer.excludedRules": [
        "org.apache.spark.sql.catalyst.optimizer." + rule
        for rule in ("ConstantFolding", "PushDownPredicates", "ColumnPruning", "SimplifyCasts", "CollapseProject")
    ],
    "spark.sql.optimizer.inSetConversionThreshold": ["0"],
    "spark.sql.optimizer.windowGroupLimitThreshold": ["-1", "1", "100000"],
    "spark.sql.parquet.columnarReaderBatchSize": ["1", "7"],
    "spark.sql.parquet.datetimeRebaseModeInRead": ["LEGACY", "EXCEPTION"],
    "spark.sql.parquet.int96RebaseModeInRead": ["LEGACY", "EXCEPTION"],
    "spark.sql.session.timeZone": ["America/Los_Angeles", "Asia/Kathmandu", "Pacific/Apia", "-08:00"],
    "spark.sql.shuffle.partitions": ["1", "7"],
    "spark.sql.sources.useV1SourceList": ["", "parquet"],
    "spark.sql.storeAssignmentPolicy": ["LEGACY", "STRICT"],
    "spark.sql.timestampType": ["TIMESTAMP_NTZ", "TIMESTAMP_LTZ"],
    "spark.sql.windowExec.buffer.in.memory.threshold": ["1"],
    "spark.sql.windowExec.buffer.spill.threshold": ["1", "3"],
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    return Spark(tmp_path_factory.mktemp("spark"))


def flags_of(session):
    """All truth values that a session can set, turned round, but for those that are refused."""
    conf = session._jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    turned = {"true": "false", "false": "true"}
    names = sorted(entry.key() for entry in conf.getConfigEntries().toArray() if entry.defaultValueString() in turned)
    names = [name for name in names if session.conf.isModifiable(name) and name not in engine._SPARK_SETTINGS]
    return {name: turned[session.conf.get(name)] for name in names}


@pytest.mark.long
def test_no_setting_of_spark_changes_a_count(spark):
    random, flags, cases = np.random.default_rng(2), flags_of(spark.session), list(queries())
    assert len(flags) > 300  # 334 of Spark 4.0, 484 of 4.3
    others = [(name, value) for name, options in SPARK_VALUES.items() for value in options]
    known = functools.cache(spark.hashes)
    for k in range(2 * len(cases)):
        if k % 2 == 0:  # a half of all, and then the others, for each query
            half = set(random.permutation(list(flags))[::2].tolist())
        values = {name: flags[name] for name in flags if (name in half) == (k % 2 == 0)}
        values |= dict(others[k :: 2 * len(cases)])
        log, count, rows = cases[k // 2]
        session = Spark(spark.folder, spark.session.newSession())
        table = session.table_of(log)
        for name, value in values.items():
            session.session.conf.set(name, value)
        for caps in CAPS:
            counts = engine.count(table, make.changed(count, **caps), KEY).tolist()
            assert counts == expected_counts(count, rows, caps, lambda who, step, key: known(who, key)[step]), values


@pytest.mark.long
@pytest.mark.parametrize("name", engine._SPARK_SETTINGS)
def test_a_setting_of_spark_without_which_nothing_counts_is_refused_by_name_before_rows_are_read(spark, name):
    session = Spark(spark.folder, spark.session.newSession())
    query = "SELECT CAST(raise_error('read') AS BIGINT) AS who, 1L AS step"
    session.session.sql(query).createOrReplaceTempView("unreadable")
    table = session.connection.table("unreadable")
    count = count_of(identifier="who", time="step", grid=TimeGrid(size=3), participation_cap=1)
    refuses("could not count", engine.count, table, count, KEY, error=RuntimeError)
    session.session.conf.set(name, {"true": "false", "false": "true"}[engine._SPARK_SETTINGS[name]])
    refuses(rf"setting {name}\b.*another connection", engine.count, table, count, KEY)
