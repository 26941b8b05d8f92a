"""Whatever the rows, a release is made in silence; and it is made from any thread, process, or scope, for ever.

The fuzzed logs have public schemas that are in order and rows that are not. The long forms run with ``-m long``.
"""

import gc
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.files import read_csv_log
from opendp_timeseries.counting.tables import log_in_utc
from tests import make
from tests.counting.tables import count_of
from tests.refused import refuses

INTEGER = ts.TimeGrid(size=12)
HOURS = ts.TimeGrid(start="2020-03-28T20:00", step="1h", size=12, zone="Europe/Paris")  # the clock changes
INT64 = np.iinfo(np.int64)
NAT = INT64.min


def count(grid=INTEGER, cap=3):
    space = make.space()
    return space >> ts.then_participation_count(grid, participation_cap=cap, step_cap=2, excess="drop")


def pipeline(grid=INTEGER, scale=1.0, p=0.5):
    return (
        count(grid)
        >> ts.then_circulant_filter(ts.gaussian_kernel(grid.size, 1.0))
        >> ts.then_subsampled_gaussian(scale, sampling_probability=p, failure_probability=1e-6)
    )


# ------------------------------------------------------------------------------------------------ fuzzed logs


class Hostile:
    """A value that must not be looked at: it raises, with a secret in the message, whatever it is asked."""

    def refuse(self, *_):
        raise RuntimeError("a secret")

    __repr__ = __str__ = __eq__ = __hash__ = __len__ = __bool__ = __lt__ = refuse


ODD_NAMES = ["", "\0", "\ud800", "a secret", "é", "é", "x" * 5000, "a\0", "nan", "None"]
ODD_OBJECTS = [None, np.nan, pd.NA, pd.NaT, 7, 7.5, b"bytes", (1, 2), np.str_("a secret"), Hostile()]
ODD_NUMBERS = [0, 1, -1, 5, 11, 12, 2**31, -(2**31), 2**53, 2**53 + 1, 2**62, INT64.max, INT64.min]


def integers(rng, n, dtype):
    info = np.iinfo(dtype)
    pool = [v for v in ODD_NUMBERS if info.min <= v <= info.max] + [info.min, info.max]
    odd = np.array([pool[k] for k in rng.integers(len(pool), size=n)], dtype=dtype)
    return np.where(rng.random(n) < 0.7, rng.integers(0, 12, n).astype(dtype), odd)


def names(rng, n):
    return [ODD_NAMES[rng.integers(len(ODD_NAMES))] if rng.random() < 0.3 else f"p{rng.integers(9)}" for _ in range(n)]


def numpy_identifiers(rng, n):
    kind = rng.integers(5)
    if kind < 3:
        dtype = rng.choice(["i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i8", ">u2"])
        values = integers(rng, n, dtype)
        return np.ma.array(values, mask=rng.random(n) < 0.2) if kind == 0 else values
    if kind == 3:
        mixed = names(rng, n) + ODD_OBJECTS
        values = np.empty(n, dtype=object)
        for k in range(n):
            values[k] = mixed[rng.integers(len(mixed))]
        return values
    clean = [name.encode("utf-8", "surrogatepass") if rng.random() < 0.5 else b"\xff\xfe" for name in names(rng, n)]
    return np.array(clean, dtype="S8")


def ticks(rng, n, unit):
    near = np.datetime64("2020-03-28T19:00", unit).astype(np.int64)
    scale = max(np.timedelta64(15, "h") // np.timedelta64(1, unit), 1)
    values = near + rng.integers(0, scale, n)
    odd = np.array([NAT, NAT + 1, INT64.max, -1, 0, 253402300799])
    return np.where(rng.random(n) < 0.7, values, odd[rng.integers(len(odd), size=n)])


def numpy_times(rng, n, grid):
    if grid.is_integer:
        return integers(rng, n, rng.choice(["i1", "u2", "i4", "i8", "u8", ">i4"]))
    unit = rng.choice(["h", "m", "s", "ms", "us", "ns"])
    return ticks(rng, n, unit).view(f"datetime64[{unit}]")


def a_mapping(rng, n, grid):
    return {"id": numpy_identifiers(rng, n), "time": numpy_times(rng, n, grid), "other": object()}


def an_arrow_table(rng, n, grid):
    missing = rng.random((2, n)) < 0.2
    if rng.random() < 0.5:
        text = [name.replace("\ud800", "?") for name in names(rng, n)]
        who = pa.array(text, pa.string(), mask=missing[0])
        who = who.dictionary_encode() if rng.random() < 0.5 else who
    else:
        who = pa.array(integers(rng, n, "i8"), mask=missing[0])
    if grid.is_integer:
        when = pa.array(integers(rng, n, "i4"), mask=missing[1])
    else:
        unit = rng.choice(["s", "ms", "us", "ns"])
        zone = "America/New_York" if rng.random() < 0.5 else None
        when = pa.array(ticks(rng, n, unit), pa.timestamp(unit, tz=zone), mask=missing[1])
    return pa.table({"id": who, "time": when})


def a_polars_frame(rng, n, grid):
    table = an_arrow_table(rng, n, grid)
    if not grid.is_integer and table["time"].type.unit == "s":
        table = table.set_column(1, "time", table["time"].cast(pa.int64()).cast(pa.timestamp("us")))
    frame = pl.from_arrow(table)
    return frame.lazy() if rng.random() < 0.5 else frame


def a_pandas_frame(rng, n, grid):
    who = numpy_identifiers(rng, n)
    if isinstance(who, np.ma.MaskedArray):
        native = who.astype(who.dtype.newbyteorder("="))
        who = pd.array(native.data, dtype=native.dtype.name.replace("i", "I").replace("uI", "UI"))
        who[np.ma.getmaskarray(native)] = pd.NA
    elif who.dtype.kind == "S":
        who = pd.Categorical([str(name) for name in who.tolist()])
    # The schema is public: pandas is not left to make one of the rows.
    frame = pd.DataFrame({"id": pd.Series(who, dtype=object) if who.dtype == object else who})
    unit = rng.choice(["s", "ms", "us", "ns"])  # the units of pandas
    frame["time"] = integers(rng, n, "i8") if grid.is_integer else ticks(rng, n, unit).view(f"datetime64[{unit}]")
    if rng.random() < 0.5:
        frame.index = np.zeros(n, dtype=int)
    return frame


TABLES = [a_mapping, an_arrow_table, a_polars_frame, a_pandas_frame]
SIZES = [0, 1, 2, 30, 300]


def pipelines(grid):
    """What drops, what weighs, and what is in tiers of activity, also within periods."""
    space = ts.event_log_domain(identifier="id", time="time")
    period = ts.period_distance(5 if grid.is_integer else "1d", zone=grid.zone)
    noise = ts.then_subsampled_gaussian(3.0, sampling_probability=1.0, delta=1e-6)
    yield pipeline(grid)
    for metric in (dp.symmetric_distance(), period):
        yield (space, metric) >> ts.then_participation_count(grid, participation_cap=2, step_cap=2**40, gap=3) >> noise
        yield (
            (space, metric)
            >> ts.then_participation_count(grid, step_cap=10**30, tiers=ts.Tiers(ends=(1, 3), typical=10**30))
            >> noise
        )


def release_fuzzed(logs, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        chains = {grid: [*pipelines(grid)] for grid in (INTEGER, HOURS)}
    rng = np.random.default_rng(seed)
    for _ in range(logs):
        grid = (INTEGER, HOURS)[rng.integers(2)]
        table = TABLES[rng.integers(len(TABLES))](rng, int(rng.choice(SIZES)), grid)
        release = chains[grid][rng.integers(5)](table)
        assert isinstance(release, ts.Release)
        assert np.all(np.isfinite(release.values))
        assert release.size == grid.size * len(release.keys or (0,))


def in_silence(run, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    run()
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
    assert caplog.records == []


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(4))
def test_no_rows_raise_or_warn_or_log(seed, capfd, caplog):
    in_silence(lambda: release_fuzzed(60, seed), capfd, caplog)  # warnings are errors


@pytest.mark.long
def test_ten_thousand_fuzzed_logs(capfd, caplog):
    in_silence(lambda: release_fuzzed(10_000, 100), capfd, caplog)


@pytest.mark.long
def test_one_person_with_a_million_events(capfd, caplog):
    grid = ts.TimeGrid(size=100_000)
    log = {"id": np.zeros(10**6, dtype=int), "time": np.random.default_rng(0).integers(0, grid.size, 10**6)}
    in_silence(lambda: pipeline(grid)(log), capfd, caplog)
    assert sum(count(grid)(log)) <= 6


def test_what_is_no_name_is_nobody_and_is_not_asked():
    asked = []

    class Watched:
        def __str__(self):
            asked.append(self)
            return "a secret"

    odd = [*ODD_OBJECTS[:-1], Watched()]
    who = np.empty(len(odd), dtype=object)
    who[:] = odd
    assert sum(count()({"id": who, "time": np.zeros(len(who), dtype=int)})) == 4  # two numbers, the bytes and the text
    assert asked == []


def test_a_log_of_no_rows_releases_every_step():
    # An empty step is a step, and gets its own noise.
    empty = {"id": np.empty(0, dtype=int), "time": np.empty(0, dtype=int)}
    release = pipeline(p=1.0)(empty)
    assert release.steps.tolist() == list(range(12))
    assert len(set(release.values.tolist())) == 12


def test_signals_of_any_size_are_released():
    space = ts.count_signal_domain(4), dp.symmetric_distance()
    chain = (
        space
        >> ts.then_assume_participation(participation_cap=2)
        >> ts.then_circulant_filter(ts.boxcar_kernel(4, 3))
        >> ts.then_subsampled_gaussian(1.0, sampling_probability=1.0, failure_probability=1e-6)
    )
    for signal in ([INT64.max] * 4, [INT64.min] * 4, [INT64.max, INT64.min] * 2, [0, -5, 5, 0]):
        assert np.all(np.isfinite(chain(np.array(signal)).values))
    assert np.all(np.isfinite(chain(np.full(4, 2**64 - 1, dtype=np.uint64)).values))


def test_refusals_of_a_schema_quote_names_and_types_only():
    secret = "a secret"
    bad = [
        {"id": np.zeros(1, "V8"), "time": np.array([3])},
        {"id": np.array([secret]), "time": np.array([1, 2])},
        {"id": [secret], "time": [1]},
        pd.DataFrame({"id": [secret], "time": pd.to_timedelta([1], unit="s")}),
        pl.DataFrame({"id": [secret], "time": [[secret]]}),
        pa.table({"id": [secret], "time": pa.array([[secret]])}),
        [{"id": secret, "time": 1}],
        secret,
    ]
    for table in bad:
        with pytest.raises((dp.OpenDPException, TypeError, ValueError)) as refused:
            pipeline()(table)
        assert secret not in str(refused.value), type(table)
        cause = refused.value.__cause__ or refused.value.__context__
        assert secret not in repr(cause)


ROWS = pd.DataFrame({"id": [f"a secret {k % 39}" for k in range(40)], "time": pd.Timestamp("2024-03-04")})
PANDAS = make.space()


def budget(**given):
    given = {"domain": PANDAS[0], "privacy_unit": (PANDAS[1], 1), "split_evenly_over": 1} | given
    return ts.compositor(ROWS, **({"privacy_loss": dp.loss_of(epsilon=1.0, delta=1e-6)} | given))


SLIPS = {
    "identifier": lambda it: ts.event_log_domain(identifier=it, time="time"),
    "time": lambda it: ts.event_log_domain(identifier="id", time=it),
    "start": lambda it: ts.TimeGrid(start=it, step="1h", size=2, zone="UTC"),
    "step": lambda it: ts.TimeGrid(start="2024-03-04", step=it, size=2, zone="UTC"),
    "size": lambda it: ts.TimeGrid(size=it),
    "zone": lambda it: ts.TimeGrid(start="2024-03-04", step="1h", size=2, zone=it),
    "grid": lambda it: PANDAS >> ts.then_participation_count(it, participation_cap=1, excess="drop"),
    "participation_cap": lambda it: PANDAS >> ts.then_participation_count(HOURS, participation_cap=it, excess="drop"),
    "by": lambda it: PANDAS >> ts.then_individual_count(by=it, keys=["a"], key_cap=1),
    "keys": lambda it: PANDAS >> ts.then_individual_count(by="site", keys=it, key_cap=1),
    "key_cap": lambda it: PANDAS >> ts.then_individual_count(by="site", keys=["a"], key_cap=it),
    "kernel": lambda it: count() >> ts.then_circulant_filter(it),
    "scale": lambda it: count() >> ts.then_subsampled_gaussian(it, sampling_probability=1),
    "sampling": lambda it: count() >> ts.then_subsampled_gaussian(1.0, sampling_probability=1, sampling=it),
    "domain": lambda it: budget(domain=it),
    "privacy_unit": lambda it: budget(privacy_unit=it),
    "privacy_loss": lambda it: budget(privacy_loss=it),
    "split_evenly_over": lambda it: budget(split_evenly_over=it),
    "proxy": lambda it: ts.plan(HOURS, participation_cap=[1], epsilon=1.0, delta=1e-6, proxy=it),
    "season_amplitudes": lambda it: ts.plan(
        HOURS, participation_cap=[1], epsilon=1.0, delta=1e-6, season_amplitudes=it
    ),
    "counts": lambda it: ts.Participation(it, size=12, standard_error=1.0),
    "release": lambda it: ts.smooth(it),
    "release, of haar": lambda it: ts.smooth(it, "haar"),
    "release, of lines": lambda it: ts.interpolate(it),
    "series": lambda it: ts.plot(it),
    "library": lambda it: ts.interpolate(pipeline()({"id": np.array([1]), "time": np.array([3])})).to_frame(library=it),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("rows", [ROWS, ROWS["id"], ROWS["id"].to_numpy(), ROWS["id"].to_list(), pa.table(ROWS)])
def test_rows_in_place_of_a_parameter_are_not_quoted(slip, rows):
    with pytest.raises((TypeError, ValueError)) as refused:
        SLIPS[slip](rows)
    assert slip.split(",")[0] in str(refused.value)
    assert "a secret" not in str(refused.value)


@pytest.mark.parametrize(
    "facts",
    [
        log_in_utc({"id": np.array(["a secret"], object), "time": np.array([3])}),
        ts.check_log(
            {"id": np.arange(9), "time": np.arange(9)},
            identifier="id",
            time="time",
            grid=ts.TimeGrid(size=12),
            participation_cap=None,
        ),
    ],
)
def test_private_facts_in_place_of_a_parameter_are_not_quoted(facts):
    with pytest.raises(TypeError, match=rf"^release \(of type {type(facts).__name__}\)"):
        ts.smooth(facts)


@pytest.mark.parametrize("digits", [200, 5000])
def test_numbers_of_many_digits_are_refused_and_not_written_out(digits):
    space = make.space()
    for name, call in {
        "participation_cap": lambda many: count(cap=-many),
        "step_cap": lambda many: space >> ts.then_participation_count(INTEGER, participation_cap=1, step_cap=many),
        "scale": lambda many: count() >> ts.then_subsampled_gaussian(10**200 * many, sampling_probability=1.0),
        "size": lambda many: ts.TimeGrid(size=many),
    }.items():
        with pytest.raises(ValueError, match=rf"{name}.* \(of \d+ bits\)") as refusal:
            call(10**digits)
        assert len(str(refusal.value)) < 300


def test_an_index_and_a_column_by_itself_are_refused_with_what_to_do():
    for name in ("id", "time"):
        with pytest.raises(dp.OpenDPException, match=r"Refusal: column .*reset_index\(\)"):
            count(HOURS)(ROWS.set_index(name))
    for column in (ROWS["id"], pl.Series(ROWS["id"]), pa.chunked_array([ROWS["id"]])):
        refuses("Refusal: a table of type", count(HOURS), column, error=dp.OpenDPException)


def test_names_that_are_not_utf8_stay_different_people(tmp_path):
    # Decoded with replacement characters, Müller and Möller of a Latin-1 file would be one person, and one of them
    # left out would change twice as many steps as the cap allows.
    path = tmp_path / "log.csv"
    path.write_bytes(b"id,time\n" + b"M\xfcller,2020-03-28T23:00\nM\xf6ller,2020-03-28T23:00\n" * 2)
    grid = ts.TimeGrid(start="2020-03-28T20:00", step="1h", size=12, zone="UTC")
    log = read_csv_log(path, count_of(grid=grid, step_cap=2).reading, zone="UTC")
    assert sum(count(grid)(log)) == 4


def test_what_is_made_on_the_way_shows_no_rows():
    log = {"id": np.array([123456789]), "time": np.array([7])}
    context = make.context(log)
    query = context.query().participation_count(INTEGER, participation_cap=3, excess="drop")
    shown = [repr(thing) + str(thing) for thing in (context, query, pipeline(), pipeline()(log), count())]
    assert not any("123456789" in text for text in shown)


# ------------------------------------------------------------------------------- threads, processes and scopes

LOG = {"id": np.arange(300) % 50, "time": np.arange(300) * 7 % 12}


def test_eight_threads_release_at_once():
    exact = count(cap=12)  # nobody is over this cap, so the count is the same every time
    expected = list(exact(LOG))
    noisy, start = pipeline(), threading.Barrier(8)

    def work(_):
        start.wait()
        counts = [list(exact(LOG)) for _ in range(10)]
        losses = {noisy.map(1) for _ in range(5)}
        return counts, losses, [noisy(LOG) for _ in range(10)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all(counts == [expected] * 10 for counts, _, _ in results)
    assert set().union(*(losses for _, losses, _ in results)) == {noisy.map(1)}
    values = [value for _, _, releases in results for release in releases for value in release.values.tolist()]
    # Two of about 500 values coincide on their grid of 2**-26 with probability below 1e-3; were a generator shared
    # without care, whole releases would.
    assert len(values) - len(set(values)) <= 3


def in_a_process_of_its_own(script, *arguments):
    """Run a script, and return what it prints as JSON."""
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(ts.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "PYTHONWARNINGS": "ignore"},
    )
    return json.loads(run.stdout)


MEMORY = """
import ctypes, gc, json, os, sys
import numpy as np, opendp.prelude as dp
import opendp_timeseries as ts
dp.enable_features("contrib", "honest-but-curious")
accounting, leaked = sys.argv[1], [] if "leak" in sys.argv else None
measure = {
    "zCDP": {"failure_probability": 1e-6},
    "profile": {"output_measure": dp.smoothed_max_divergence()},
    "Renyi": {"output_measure": dp.renyi_divergence()},
}[accounting]
space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
mechanism = (space >> ts.then_participation_count(ts.TimeGrid(size=12), participation_cap=3, excess="drop")
             >> ts.then_subsampled_gaussian(1.0, sampling_probability=0.5, **measure))
log = {"id": np.arange(300) % 50, "time": np.arange(300) * 7 % 12}

def work():
    for _ in range(600):
        loss = mechanism.map(1)
        if accounting == "profile":
            loss.delta(1.0)
        if accounting == "Renyi":
            loss(2.0)
        if leaked is not None:
            leaked.append([bytes(10_000)])
    for _ in range(75):
        mechanism(log)

found = []
for _ in range(6):
    work()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    found.append([resident, len(gc.get_objects())])
print(json.dumps(found))
"""


def least_growth(*arguments):
    """By how many bytes and objects the process grows in the round in which it grows least.

    Caches fill and allocators keep pages in some rounds; what is lost in every call grows in all of them.
    """
    return np.diff(in_a_process_of_its_own(MEMORY, *arguments), axis=0).min(axis=0)


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident size from /proc")
@pytest.mark.parametrize("accounting", ["profile", "zCDP", "Renyi"])
def test_memory_stays_flat(accounting):
    size, objects = least_growth(accounting)  # of 600 maps and 75 releases
    assert size < 150_000  # a quarter of a kilobyte for each map, two for each release
    assert objects < 60


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident size from /proc")
def test_ten_kilobytes_lost_in_each_map_are_noticed():
    size, objects = least_growth("zCDP", "leak")
    assert size > 1_500_000  # of 6 million, as pages of 2 MiB may be given at once
    assert objects > 60


@pytest.mark.long
def test_objects_outlive_the_scope_that_built_them():
    def build():
        grid, kernel = ts.TimeGrid(size=12), ts.gaussian_kernel(12, 1.0)
        space = make.space()
        signal = (
            space
            >> ts.then_participation_count(grid, participation_cap=3, excess="drop")
            >> ts.then_circulant_filter(kernel)
        )
        one = signal >> ts.then_subsampled_gaussian(1.0, sampling_probability=1.0, failure_probability=1e-6)
        curve = (
            signal
            >> ts.then_subsampled_gaussian(1.0, sampling_probability=0.5, output_measure=dp.smoothed_max_divergence())
        ).map(1)
        composed = dp.c.make_composition([one, one])
        return one >> ts.interpolate, composed, curve, one.map(1)

    chained, composed, curve, loss = build()
    for _ in range(2):
        gc.collect()
        rubbish = [np.random.default_rng(0).bytes(10_000) for _ in range(50)]
        assert len(chained(LOG)) == 12
        assert chained.map(1) == loss
        assert len(composed(LOG)) == 2
        assert 0 < curve.delta(1.0) < curve.delta(0.5) < 1
        del rubbish


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forks_share_no_randomness():
    chain = count() >> ts.then_subsampled_gaussian(1.0, sampling_probability=0.5, failure_probability=1e-6)
    releases = [chain(LOG)]
    for _ in range(3):
        out, into = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads run, which children do not use
            child = os.fork()
        if child == 0:
            try:
                os.write(into, json.dumps([chain(LOG).to_dict() for _ in range(3)]).encode())
            finally:
                os._exit(0)
        os.close(into)
        with os.fdopen(out) as said:
            releases += map(ts.Release.from_dict, json.load(said))
        assert os.waitpid(child, 0)[1] == 0
    releases += [chain(LOG) for _ in range(2)]
    # A generator that forked with its state would repeat itself: 12 releases repeat neither steps (of 12 coins,
    # all alike in twelve with probability 2**-132) nor a single value (about 72 on a grid of 2**-24: 1e-4).
    assert len(releases) == 12
    assert len({release.steps.tobytes() for release in releases}) > 1
    values = [value for release in releases for value in release.values.tolist()]
    assert len(values) - len(set(values)) <= 2
