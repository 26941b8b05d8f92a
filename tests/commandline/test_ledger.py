"""The ledger on the command line: ``--ledger FILE`` with a release, and the command ``ledger``."""

import collections
import errno
import html
import importlib
import itertools
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import outputs, release
from opendp_timeseries.ledger import book
from opendp_timeseries.plugin import participation_count
from tests.refused import refusal

LIBC = platform.libc_ver()[0]
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and POSIX signals")
SPACE = ts.event_log_domain(identifier="who", time="when"), dp.symmetric_distance()


def count(start):
    grid = ts.TimeGrid(start=start, step="1h", size=24, zone="UTC")
    return SPACE >> ts.then_participation_count(grid, participation_cap=3)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures take long
    (tmp_path / "log.csv").write_text("who,when\nann,2024-01-01T00:30\nbob,2024-01-02T05:00\n")
    return tmp_path


RELEASE = [
    "log.csv", "--identifier", "who", "--time", "when", "--step", "1h", "--size", "24",
    "--participation-cap", "3", "--ledger", "people.ledger",
]  # fmt: skip
START = ["--start", "2024-01-01T00:00"]


def make(output, *more, start="2024-01-01T00:00", epsilon="0.5"):
    budget = ["--epsilon", epsilon, "--delta", "1e-6"] if epsilon else []
    return main([*RELEASE, *budget, "--start", start, "--output", output, *more])


def new(*options):
    return main(["ledger", "people.ledger", "--new", *(options or ("--epsilon", "1", "--delta", "1e-6"))])


def test_releases_until_the_budget_is_spent(in_folder, capsys, monkeypatch):
    assert new() == 0
    assert "nothing has been released" in capsys.readouterr().out
    for k in range(2):
        assert make(f"release{k}") == 0
    assert "In people.ledger, all releases so far: (ε = 0." in capsys.readouterr().out
    records = ts.Ledger("people.ledger").releases()
    assert [ts.Release.from_json((in_folder / f"release{k}.json").read_text()) for k in (0, 1)] == list(records)
    with monkeypatch.context() as patch:
        patch.setattr(release, "read_log", lambda *_, **__: pytest.fail("the log was read"))
        assert make("release2", epsilon="0.9") == 2
    assert "people.ledger" in refusal(capsys)
    assert not list(in_folder.glob("release2*"))
    assert len(ts.Ledger("people.ledger").entries) == 2

    assert main(["ledger", "people.ledger"]) == 0
    text = capsys.readouterr().out
    assert text.count("released  2024-01-01T00:00Z  24 of 1h") == 2
    assert ts.Ledger("people.ledger").guarantee() in text
    assert ts.Ledger("people.ledger").digest[:16] in text
    assert main(["ledger", "people.ledger", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["budget"], found["within"]) == ({"epsilon": 1.0, "delta": 1e-6}, True)
    assert found["epsilon"] == ts.Ledger("people.ledger").standing().epsilon
    assert [entry["number"] for entry in found["entries"]] == [1, 2]
    assert "values" not in json.dumps(found)


def test_a_programme_says_the_noise(in_folder, capsys):
    starts = [f"2024-01-0{day}T00:00" for day in (1, 2, 3)]
    programme = ts.Programme.plan([count(s) for s in starts], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    (in_folder / "days.json").write_text(programme.to_json())
    assert new("--programme", "days.json") == 0
    assert capsys.readouterr().out.count("planned") == 3
    for start in starts[1:]:
        assert make(start[:10], start=start, epsilon=None) == 0
    assert [release.design for release in ts.Ledger("people.ledger").releases()] == list(programme.designs[1:])
    said = " ".join(capsys.readouterr().out.split())
    assert "non-adaptive" not in said  # in words
    assert f"(ε = {programme.measurement(count(starts[0])).map(1)[0]:.5g}" in said
    for more, start, message in [
        ((), "2024-01-09T00:00", "chain"),
        (("--sampling-probability", "0.25"), starts[0], "--sampling-probability (0.25)"),
        ((), starts[1], "people.ledger"),
    ]:
        assert make("other", *more, start=start, epsilon=None) == 2
        assert message in refusal(capsys)
    assert main(["ledger", "people.ledger", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["planned"]) == 1


def test_records_of_earlier_releases_are_entered(in_folder, capsys):
    assert new() == 0
    assert make("known") == 0
    log = {"who": ["ann"], "when": ["2024-01-01T00:30"]}
    measurement = count("2024-01-01T00:00") >> ts.then_subsampled_gaussian(9.0, sampling_probability=1.0, delta=1e-6)
    earlier = [measurement({name: np.array(column) for name, column in log.items()}) for _ in range(3)]
    (in_folder / "one.json").write_text(earlier[0].to_json())
    (in_folder / "two.json").write_text(ts.write_releases(earlier[1:]))
    capsys.readouterr()
    assert main(["ledger", "people.ledger", "--add", "one.json", "two.json"]) == 0
    assert "That exceeds the budget: nothing can be released any more." in capsys.readouterr().out
    assert list(ts.Ledger("people.ledger").releases()[1:]) == earlier
    before = (in_folder / "people.ledger").read_bytes()
    for again in ("known.json", "one.json", "log.csv"):
        assert main(["ledger", "people.ledger", "--add", again]) == 2
        assert ("record (log.csv)" if again == "log.csv" else "release") in refusal(capsys)
    assert (in_folder / "people.ledger").read_bytes() == before


# ---- whatever ends a command after the spending, its files are not lost


def test_series_on_grids_that_follow_each_other_are_joined_on_a_page(in_folder, capsys):
    ledger = ts.Ledger.create("people.ledger", rho=2.0)
    grids = [ts.TimeGrid(start=f"2024-01-0{day}", step="1h", size=48, zone="UTC") for day in (1, 3)]
    rng = np.random.default_rng(1)
    log = {
        "who": np.arange(4000) % 900,
        "when": grids[0].instants()[0] + rng.integers(0, 96, 4000) * np.timedelta64(3600, "s"),
    }
    join = ["ledger", "people.ledger", "--join", "joined.html", "--season", "1d", "--title", "People"]
    assert main(join) == 2
    assert "ledger (" in refusal(capsys)
    everybody = [SPACE >> ts.then_private_series(grid, rho=0.5) for grid in grids]
    number = (
        SPACE >> ts.then_individual_count(grid=grids[0]) >> ts.then_subsampled_gaussian(9.0, sampling_probability=1)
    )
    for measurement in (everybody[1], everybody[0], number):
        ledger.release(measurement, log)
    assert main(join) == 0
    assert "Written: joined.html" in capsys.readouterr().out
    page = html.unescape(Path("joined.html").read_text())
    assert "96 steps from 2024-01-01 00:00 to 2024-01-05 00:00" in page
    assert "Revised, compared with a summary of the first part (not with pages of single parts): 2024-01-01" in page
    assert ledger.guarantee() in page
    assert "individuals per hour" in page
    assert main([*join[:2], "--season", "12:5"]) == 2
    assert "--season" in refusal(capsys)
    Path("joined.html").write_text("somebody's")
    capsys.readouterr()
    assert main(join) == 2
    assert "join (" in refusal(capsys)
    Path("joined.html").unlink()
    assert main([*join, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ledger.to_dict()
    assert html.unescape(Path("joined.html").read_text()) == page
    assert main([*join[:3], "joined.txt"]) == 2
    assert "join (" in refusal(capsys)


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


#: What fails, and whether the record is in the ledger by then.
MOMENTS = {
    "count": (participation_count, "engine_of", False),
    "record": (book.Book, "with_released", False),
    "smoothing": (outputs, "series_of", True),
    "drawing": (release, "document", True),
}
SPENT = "people.ledger is spent: run the same command with --resume for its files"


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("moment", "error"),
    [
        *itertools.product(MOMENTS, [MemoryError(), OSError("no disk"), ZeroDivisionError("a bug")]),
        *(("smoothing", KeyboardInterrupt()), ("drawing", KeyboardInterrupt())),  # before, signals are held back
    ],
)
def test_every_end_after_the_spending_says_how_to_get_the_files(in_folder, capsys, monkeypatch, moment, error):
    assert new() == 0
    capsys.readouterr()
    place, name, recorded = MOMENTS[moment]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, raising(error))
        if isinstance(error, ZeroDivisionError) and moment in ("record", "drawing"):  # Python prints the note
            with pytest.raises(ZeroDivisionError) as bug:
                make("day")
            said = "".join(traceback.format_exception(bug.value))
        elif moment == "smoothing" and isinstance(error, Exception):  # of which no release is lost
            assert make("day") == 0
            assert f"The smoother failed ({type(error).__name__})" in capsys.readouterr().err
            return
        else:
            assert make("day") == (130 if isinstance(error, KeyboardInterrupt) else 2)
            said = capsys.readouterr().err
    assert f"entry 1 of {in_folder}/{SPENT}" in said
    assert not list(in_folder.glob("day*"))
    assert not list(in_folder.glob(".*unfinished"))
    (entry,) = ts.Ledger("people.ledger").entries
    assert (entry.released is not None) == recorded
    assert main(["ledger", "people.ledger"]) == 0
    assert ("spent, nothing released" in capsys.readouterr().out) != recorded
    if not recorded:  # whoever does not read messages, does not pay twice
        assert make("day") == 2
        assert "entry 1" in refusal(capsys)
    get_again(in_folder)


def get_again(folder):
    """Resume twice: the files are those of the one entry, from which the second time not even a log is read."""
    log = (folder / "log.csv").read_bytes()
    assert make("day", "--resume") == 0
    (folder / "log.csv").write_text("nothing,that\ncan,be read\n")
    assert make("again", "--resume") == 0
    (folder / "log.csv").write_bytes(log)
    (record,) = ts.Ledger("people.ledger").releases()
    for name in ("day", "again"):
        assert ts.Release.from_json((folder / f"{name}.json").read_text()) == record
    assert (folder / "day.csv").read_bytes() == (folder / "again.csv").read_bytes()
    ts.Ledger("people.ledger").verify()


@pytest.mark.thinned(5)
@pytest.mark.parametrize("nth", range(9))
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_disk_that_is_full_at_any_moment_loses_nothing(in_folder, capsys, monkeypatch, call, nth):
    assert new() == 0
    capsys.readouterr()
    calls, real = iter(range(100)), getattr(os, call)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, lambda *given: full() if next(calls) == nth else real(*given))
        code = make("day")
    said, entries = capsys.readouterr().err, ts.Ledger("people.ledger").entries
    if code == 0:
        return
    assert re.search(
        r"(ledger \(/.*/people\.ledger\) cannot be used: No space left on device; free some space there(; entry|$)"
        r"|file \(day\.(csv|json)\) cannot be used: No space left on device; free some space there, or choose another"
        " --output)",
        said.splitlines()[-1],
    )
    assert (SPENT in said) == bool(entries)
    assert entries or "pays for this release" not in said
    if entries:
        get_again(in_folder)


@pytest.mark.parametrize(
    "text", ["half \ud83d", "bell \x07", "\x00", "not \uffff", "\udcff", "\ufeffmark", "\x9b2J", "over \u202e"]
)
def test_what_no_file_can_hold_is_refused_before_it_is_paid_for(in_folder, capsys, text):
    assert new() == 0
    (in_folder / "keys.csv").write_text(f"when,district\na,{text}\n", errors="surrogatepass")
    panel = ["--by", "station", "--keys", "a"]
    for more, name in (
        (["--title", text, "--page"], "--title"),
        (["--unit", text, "--notes", "none"], "--unit"),
        (["--by", "station", "--keys", "a", text], "--keys"),
        ([*panel, "--total", text], "--total"),
        (["--by", text, "--keys", "a"], "--by"),
        (["--by", "when", "--keys", "keys.csv", "--groups", "district"], "district of keys"),
    ):
        capsys.readouterr()
        assert make("day", *more) == 2
        said = refusal(capsys)
        assert name in said or "UTF-8" in said  # a file that is no text at all
        assert said.isprintable() or said.rstrip("\n").isprintable()
    assert ts.Ledger("people.ledger").entries == ()
    assert sorted(path.name for path in in_folder.glob("day*")) == []


def test_letters_of_any_kind_are_paid_for_and_written(in_folder):
    assert new() == 0
    assert make("day", "--title", "Fahrgäste, 乘客 🚲 $x_1$ <b>&amp;\u200f\ttab", "--page") == 0
    assert len(ts.Ledger("people.ledger").entries) == 1


def test_a_spent_entry_is_resumed_and_no_other(in_folder, capsys):
    assert new() == 0
    capsys.readouterr()
    assert make("day", "--resume") == 2
    assert "--resume" in refusal(capsys)
    assert make("day") == 0
    assert make("more") == 0  # whoever finished one may pay for another
    capsys.readouterr()
    assert make("other", "--resume", epsilon="0.25") == 2
    assert "--resume" in refusal(capsys)
    assert make("latest", "--resume") == 0
    capsys.readouterr()
    assert (in_folder / "latest.json").read_bytes() == (in_folder / "more.json").read_bytes()
    assert make("day", "--resume") == 2
    assert "day.csv)" in refusal(capsys)
    assert len(ts.Ledger("people.ledger").entries) == 2


STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if sys.platform != "win32" else []


def in_a_child(command=lambda: make("day")):
    """Run a release in a fork, in which the package is imported already; what it says goes to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads run, which this does not use
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        child = os.fork()
    if child == 0:
        try:
            said = os.open("said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(said, 2)
            sys.stderr = os.fdopen(2, "w", buffering=1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)  # from here on, it is a command
            os._exit(command())
        finally:
            os._exit(77)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    return child


def has_said(folder, words):
    said = folder / "said"
    return said.exists() and words in said.read_text()


def has_spent(folder):
    return has_said(folder, "pays for this release") and b'{"spent": ' in (folder / "people.ledger").read_bytes()


def slowed(function):
    def slow(*given, **more):
        time.sleep(0.05)
        return function(*given, **more)

    return slow


@pytest.mark.thinned(2)
@posix
@pytest.mark.parametrize(
    "how", [*STOPS[:1], *(pytest.param(how, marks=pytest.mark.long) for how in STOPS[1:]), "SIGKILL"]
)
@pytest.mark.parametrize("times", [3, pytest.param(60, marks=pytest.mark.long)])
def test_at_no_moment_is_something_spent_without_a_way_to_get_it(in_folder, capsys, monkeypatch, how, times):
    for place, name in ((participation_count, "engine_of"), (book.Book, "with_released"), (release, "document")):
        monkeypatch.setattr(place, name, slowed(getattr(place, name)))
    how = signal.SIGKILL if how == "SIGKILL" else how
    draw, spent, told = random.Random(3), 0, 0
    for k in range(times):
        new()
        child, until = in_a_child(), time.monotonic() + 30
        if k % 2:  # else it may be killed before it spends anything
            while not has_spent(in_folder) and time.monotonic() < until:
                time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.15))
        os.kill(child, how)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = (in_folder / "said").read_text() if (in_folder / "said").exists() else ""
        (in_folder / "said").unlink(missing_ok=True)
        assert code in ((0, 130, -how) if said else (-how, 77)), said  # before, it was no command
        if ts.Ledger("people.ledger").entries:
            remedy = "pays for this release. If its files do not appear, run the same command with --resume"
            assert remedy in said or how == signal.SIGKILL  # between entry and word, of which the next run tells
            if code != 0:
                spent += 1
                told += how == signal.SIGKILL or SPENT in said
                for name in in_folder.glob("day*"):  # some may be there, and are whole
                    name.unlink()
                get_again(in_folder)
            for pattern in ("day*", "again*"):
                for name in in_folder.glob(pattern):
                    name.unlink()
        for name in (".people.ledger.*unfinished", ".day*unfinished", "people.ledger"):
            for path in in_folder.glob(name):
                path.unlink()
        capsys.readouterr()
    assert spent or times < 9  # on a machine that is busy, each of a few may end before it is killed
    # The last word says it too, unless a signal comes between the blocks that know it.
    assert told >= 0.8 * spent - 1


def sleeping(writing):
    os.write(writing, b"x")
    while True:
        time.sleep(0.01)


def spinning(writing):
    os.write(writing, b"x")
    collections.deque(itertools.repeat(0), maxlen=0)  # in C for ever, as BLAS where memory ends: no handler runs


@pytest.mark.thinned(3)
@posix
@pytest.mark.parametrize("place", [(participation_count, "engine_of"), (outputs, "series_of")])
@pytest.mark.parametrize(
    ("hang", "signals"),
    [
        *((sleeping, pair) for pair in (["SIGTERM"] * 2, ["SIGINT"] * 2, ["SIGINT", "SIGTERM"], ["SIGTERM", "SIGHUP"])),
        *(
            pytest.param(spinning, [name] * 2, marks=pytest.mark.skipif(LIBC != "glibc", reason="needs sysv_signal"))
            for name in ("SIGTERM", "SIGINT")
        ),
    ],
)
def test_a_second_signal_ends_a_command_that_hangs(in_folder, monkeypatch, place, hang, signals):
    new()
    first, second = (getattr(signal, name) for name in signals)
    reading, writing = os.pipe()
    with monkeypatch.context() as patch:
        patch.setattr(*place, lambda *_, **__: hang(writing))
        child = in_a_child()
    os.close(writing)
    assert os.read(reading, 1), "the command ended without it"
    if hang is spinning:
        time.sleep(0.1)  # it has said so a moment before it spins
    os.kill(child, first)
    until = time.monotonic() + (0.3 if hang is spinning else 30)
    ended, status = 0, 0
    while not (ended or has_said(in_folder, "interrupt again to end at once")) and time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if ended:  # what is not held back ends at the first, if Python runs at all
        assert (place[1], os.waitstatus_to_exitcode(status)) == ("series_of", 130)  # even one about to spin
    else:
        os.kill(child, second)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -second
    assert has_said(in_folder, "Entry 1 of")
    assert has_said(in_folder, "run the same command with --resume")
    get_again(in_folder)
    os.close(reading)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the size of the process from /proc")


def test_without_memory_for_linear_algebra_nothing_is_spent(in_folder, capsys, monkeypatch):
    """OpenBLAS would look for its buffers for ever, behind an entry."""
    assert new() == 0
    before = Path("people.ledger").read_bytes()

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", no_memory)
        with pytest.raises(MemoryError):
            release.take_buffers()
    monkeypatch.setattr(release, "take_buffers", no_memory)
    capsys.readouterr()
    assert make("day") == 2
    assert "file (" in refusal(capsys)
    assert Path("people.ledger").read_bytes() == before


LIMITED = """
import os, resource, sys
import opendp.prelude
import opendp_timeseries.commandline.release  # all libraries: to load them needs memory, too
try:
    import pyarrow.dataset
except ImportError:
    pass
from opendp_timeseries.__main__ import main

with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
sys.exit(main(sys.argv[2:]))
"""


def wait_while_it_works(child):
    """Wait for the end of a process, or until it has slept for half a minute or spun for one, whatever others do."""
    spent, idle = -1, 0
    while child.poll() is None:
        time.sleep(0.25)
        state, *numbers = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        before, spent = spent, int(numbers[10]) + int(numbers[11])
        idle = idle + 1 if state == "S" and spent == before else 0
        if idle > 120 or spent > 60 * os.sysconf("SC_CLK_TCK"):
            child.kill()
            raise subprocess.TimeoutExpired(child.args, idle / 4)


def end_of_limited(log, *more, megabytes):
    """Run a command where memory may end, in a process that has none in reserve; return its exit status.

    The machine decides where memory ends, and whether code in C or Rust ends the process there. Wherever it is, the
    command ends, and says what was spent.
    """
    ledger = ts.Ledger.create(f"{megabytes}.ledger", epsilon=1, delta=1e-6)
    command = [log, *RELEASE[1:-2], *START, *more, "--epsilon", "0.5", "--delta", "1e-6"]
    command += ["--ledger", str(ledger.path), "--output", str(megabytes)]
    code = [sys.executable, "-c", LIMITED, str(megabytes), *command]
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # others have a gigabyte in reserve
    with subprocess.Popen(code, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as child:
        wait_while_it_works(child)
        said = child.stderr.read().decode()
    (*entries,) = ledger.entries
    assert not entries or "run the same command with --resume" in said
    assert child.returncode != 2 or not entries or f"; entry 1 of {ledger.path.resolve()} is spent" in said
    if entries:
        assert main([*command, "--resume"]) == 0
        (entry,) = ts.Ledger(ledger.path).entries
        assert entry.released
    return child.returncode


def a_large_count():
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    size, when = 2**24, np.datetime64("2024-01-01T00:30", "ms")  # kilobytes in the file, 128 MB when counted
    station = arrow.DictionaryArray.from_arrays(np.zeros(size, np.int8), ["north"])
    rows = {"who": np.zeros(size, np.int64), "when": np.full(size, when), "station": station}
    parquet.write_table(arrow.table(rows), "log.parquet", store_schema=False)
    return ("log.parquet",)


def a_total_of_keys():
    panel = ["--by", "station", "--keys", "north", "south", "--key-cap", "1", "--total", "all"]
    return *a_large_count(), *panel


def a_text():
    rows = (f"p{k % 30_000},2024-01-01T{k % 24:02}:{k % 60:02}\n" for k in range(400_000))
    Path("log.csv").write_text("who,when\n" + "".join(rows))
    return ("log.csv",)


def many_people():
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = np.arange(400_000)
    when = np.datetime64("2024-01-01", "ms") + rows * np.timedelta64(211, "ms")
    parquet.write_table(arrow.table({"who": [f"p{k % 30_000}" for k in rows.tolist()], "when": when}), "log.parquet")
    return ("log.parquet",)


@pytest.mark.xfail(
    strict=False, raises=subprocess.TimeoutExpired, reason="libraries of other versions may hang where memory ends"
)
@pytest.mark.long
@linux
@pytest.mark.parametrize(
    ("log", "limits"),
    [
        (a_large_count, [32, 64, 96]),
        (a_total_of_keys, [64, 128]),
        (a_text, [15, 90, 120, 140, 165, 800]),
        (many_people, [*range(4, 204, 20), 800]),
    ],
)
def test_where_memory_ends_commands_end(in_folder, capsys, log, limits):
    command = log()
    with ThreadPoolExecutor(2) as pool:
        ends = [*pool.map(lambda megabytes: end_of_limited(*command, megabytes=megabytes), limits)]
    assert limits[-1] < 800 or ends[-1] == 0
    assert any(ends)


def test_a_ledger_of_days_takes_nothing_else(in_folder, capsys):
    assert new("--epsilon", "1", "--delta", "1e-6", "--period", "1d") == 0
    assert "within one day (UTC), not all that they did" in capsys.readouterr().out
    before = (in_folder / "people.ledger").read_bytes()
    assert make("other") == 2
    assert "the unit of privacy of the ledger" in refusal(capsys)
    assert (in_folder / "people.ledger").read_bytes() == before
    assert make("days", "--period", "1d") == 0
    assert "all releases so far" in (said := capsys.readouterr().out)
    assert "within one day (UTC), not all that they did, added or removed." in said


@pytest.mark.parametrize("name", ["when", "absent", "date"])
def test_a_column_of_values_that_cannot_serve_costs_nothing(in_folder, name, capsys):
    pa = pytest.importorskip("pyarrow")
    when = np.array(["2024-01-01T00:30"], "M8[ms]")
    table = pa.table({"who": [1], "when": pa.array(when, pa.timestamp("ms", "UTC")), "date": when})
    importlib.import_module("pyarrow.parquet").write_table(table, "log.parquet")
    new()
    options = ["log.parquet", *RELEASE[1:], *START, "--epsilon", "0.5", "--delta", "1e-6", "--output", "a"]
    assert main(["log.parquet", *options[1:], "--value", name, "--bound", "9"]) == 2
    assert name in capsys.readouterr().err
    assert ts.Ledger("people.ledger").entries == ()
