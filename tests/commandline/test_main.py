"""The command line: the main job on the embedded log, and on files of the user's own."""

import csv
import errno
import io
import json
import os
import pickle
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import outputs, release
from opendp_timeseries.datasets import load_flights
from tests import make
from tests.counting.tables import rows_of_csv
from tests.refused import refusal, refuses

ARGUMENTS = {
    "--identifier": "who",
    "--time": "when",
    "--start": "2024-01-01T00:00",
    "--step": "1h",
    "--size": "48",
    "--participation-cap": "3",
    "--epsilon": "2",
    "--delta": "1e-6",
}
ROWS = [("ann", "2024-01-01T00:30"), ("bob", "2024-01-01T05:00:00Z"), ("", "2024-01-01T05:00"), ("cy", "rubbish")]
SUFFIXES = (".csv", ".json", ".png")


#: Tests that look at the figure. For the others, drawing it twice would take most of the time.
DRAWN = {
    "test_the_main_job",
    "test_days_of_a_zone",
    "test_a_figure_of_vectors",
    "test_every_figure_is_known_as_one_of_ours",
    "test_no_arguments_lose_a_file_or_end_in_a_traceback",
    "test_a_thousand_arguments_lose_no_file",
}


@pytest.fixture(autouse=True)
def quick_figures(request, monkeypatch):
    def drawn(kind, *how):
        assert kind == "png"
        return b"\x89PNG\r\n\x1a\ntEXtSoftware\0opendp_timeseries" + os.urandom(8) + b"IEND\xaeB`\x82"

    if request.function.__name__ not in DRAWN:
        monkeypatch.setattr(outputs, "_figure", drawn)


def arguments(file, output, *more, **changes):
    chosen = ARGUMENTS | {"--" + k.replace("_", "-"): v for k, v in changes.items()}
    return [str(file), *(part for pair in chosen.items() if pair[1] for part in pair), "--output", str(output), *more]


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("who", "when"), *ROWS, ("short",)])
    return path


def released(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def nothing_is_read(monkeypatch):
    monkeypatch.setattr(release, "read_log", lambda *_, **__: pytest.fail("the log was read"))


def test_one_day_of_an_individual(tmp_path, log_file, capsys):
    output = tmp_path / "days"
    assert main(arguments(log_file, output, period="1d", zone="Europe/Paris", start="2024-01-01")) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "for one individual within one day (Europe/Paris), not all that they did, added or removed." in said
    assert "It does not hold for everything that somebody did:" in said
    counts = "every step (in more than 3, for less in each: in 12, for half), once in each"
    assert f"Each individual within one day (Europe/Paris) counts in {counts}" in said
    record = ts.Release.from_json(output.with_suffix(".json").read_text())
    whole = ts.loss_over_periods(record, periods=2).epsilon(1e-6)
    assert "they take part in, the less they are protected as a whole. With the same δ, ε is" in said
    assert float(re.search(r"ε is ([0-9.]+) in 2 of them", said)[1]) == pytest.approx(whole, rel=1e-5)
    assert main(["verify", str(output.with_suffix(".json"))]) == 0
    assert "within one day (Europe/Paris), not all that they did" in " ".join(capsys.readouterr().out.split())
    assert main(["check", *arguments(log_file, output, period="1d")]) == 0
    assert "2 individuals, each within one day (UTC), are on the grid" in capsys.readouterr().err


def test_the_main_job(tmp_path, capsys, monkeypatch):
    drawn = []
    from matplotlib.figure import Figure

    real = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: drawn.append(figure) or real(figure, *a, **k))
    assert main(["--output", str(tmp_path / "flights")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(ε = 1, δ = 1e-06)-differential privacy for one individual added or removed." in said
    assert "An individual is one value of 'tailnum'. Each individual counts in every step, once in each." in said
    assert "An interval holds the counts of everybody with a probability of 90%" in said
    rows = released(tmp_path / "flights.csv")
    assert len(rows) == 2920
    assert rows[0]["step_start"] == "2013-01-01T00:00:00-05:00"
    assert rows[1000]["step_start"] == "2013-05-06T01:00:00-04:00"
    assert "take away" not in said
    assert "Warning" not in said  # the noise of one scale is no error of the series
    assert all(row["kept"] == "yes" for row in rows)
    assert "from 6 noisy series, in which those who come often weigh more or less" in said
    # In releases made for this comment, the ratio of the errors was 0.250 to 0.259, and the coverage of the 90% band
    # 0.865 to 0.899: false alarms, some 20 of their standard deviations away, are rarer than 1e-9.
    space = make.space(identifier="tailnum")
    grid = ts.TimeGrid(start="2013-01-01T05:00", step="3h", size=2920, zone="UTC")
    truth = np.array((space >> ts.then_participation_count(grid, participation_cap=2920))(load_flights()))
    series, low, high = (np.array([float(row[name]) for row in rows]) for name in ("private_count", "low", "high"))
    assert np.sqrt(np.mean((series - truth) ** 2)) < 0.5 * truth.std()
    assert 0.6 < np.mean((low <= truth) & (truth <= high)) <= 1
    assert (tmp_path / "flights.png").read_bytes()[:4] == b"\x89PNG"
    whole, enlarged = drawn[-1].axes
    assert drawn[-1].get_suptitle() == "Private series of aircraft per 3h"
    assert whole.get_title("left") == "All of it: means of 24 hours"
    assert enlarged.get_title("left") == "2013-06-25 01:00 to 2013-07-09 01:00, enlarged"
    for part in (
        "America/New_York",
        "ε = 1, δ = 1e-06",
        "Grey band: 90% intervals",
        "individual counts in every step, once in each",
    ):
        assert part in enlarged.get_xlabel()


def test_what_is_enlarged_fills_its_axis():
    from matplotlib import pyplot

    space = make.space(identifier="who", time="when")
    count = space >> ts.then_participation_count(
        ts.TimeGrid(start="2024-01-01", step="1h", size=1000, zone="UTC"), participation_cap=3
    )
    log = {"who": np.array(["ann"]), "when": np.array(["2024-01-01"], "M8[s]")}
    made = (count >> ts.then_subsampled_gaussian(5.0, sampling_probability=1.0, delta=1e-6))(log)
    values = 50 + 20 * np.sin(np.arange(1000) / 4)
    values[10] = 5000.0
    figure = outputs._single_figure(
        ts.Series(values, release=made, covariance=np.eye(1000), model="a sine"), "visits per hour"
    )
    whole, enlarged = figure.axes
    assert whole.get_title("left") == "All of it: means of days"
    assert enlarged.get_title("left") == "2024-01-15 to 2024-01-29, enlarged"
    assert whole.get_ylim()[1] > 200  # the mean of the day with the event
    # The sine is within 30 and 70, and noise within six of its standard deviations of it.
    assert -40 < enlarged.get_ylim()[0] < 28
    assert 72 < enlarged.get_ylim()[1] < 110
    pyplot.close(figure)


def test_forecasts_of_a_long_series_are_dashed_and_enlarged():
    from matplotlib import pyplot

    space = make.space(identifier="who", time="when")
    grid = ts.TimeGrid(start="2024-01-01", step="1h", size=1000, zone="UTC")
    count = space >> ts.then_participation_count(grid, participation_cap=3)
    log = {"who": np.array(["ann"]), "when": np.array(["2024-01-01"], "M8[s]")}
    made = (count >> ts.then_subsampled_gaussian(5.0, sampling_probability=1.0, delta=1e-6))(log)
    figure = outputs._single_figure(ts.smooth(made, ahead=200), "visits per hour")
    whole, enlarged = figure.axes
    first = grid.edges()[-1].astype("M8[D]")
    for line in whole.lines:
        assert line.is_dashed() == (line.get_xdata()[-1] > first), line
    assert [line.is_dashed() for line in whole.lines] == [False, True]
    assert enlarged.get_title("left") == "2024-02-04 to 2024-02-18, enlarged"
    pyplot.close(figure)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["module://of_a_notebook_that_is_not_here", "none of these"])
def test_the_backend_of_a_notebook_does_not_matter_to_the_figure(log_file, tmp_path, backend):
    done = subprocess.run(
        [sys.executable, "-m", "opendp_timeseries", *arguments(log_file, tmp_path / "out")],
        env=os.environ | {"MPLBACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_csv_file(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out.v1")) == 0
    rows = released(tmp_path / "out.v1.csv")
    assert len(rows) == 48
    assert all(row["kept"] == "yes" for row in rows)
    assert all(float(row["low"]) <= float(row["private_count"]) <= float(row["high"]) for row in rows)
    assert not capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv", *(f"out.v1{suffix}" for suffix in SUFFIXES)}


def test_days_of_a_zone(log_file, tmp_path, monkeypatch):
    drawn = []
    from matplotlib.figure import Figure

    real = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: drawn.append(figure) or real(figure, *a, **k))
    # 31 March has 23 hours: were it 24, half past midnight on 1 April would be in it.
    times = ["03-30T00:00", "03-30T23:59", "03-31T00:00", "03-31T23:30", "03-31T23:59", "04-01T00:30"]
    times += ["04-02T00:00+01:00", "04-03T00:00"]
    log_file.write_text("who,when\n" + "".join(f"{k},2024-{time}\n" for k, time in enumerate(times)))
    day = {"start": "2024-03-30", "step": "1d", "zone": "Europe/London"}
    given = {**day, "epsilon": "600", "participation_cap": "1"}
    assert main(arguments(log_file, tmp_path / "out", **given, size="4")) == 0
    rows = released(tmp_path / "out.csv")
    assert [row["step_start"] for row in rows] == [
        "2024-03-30T00:00:00+00:00",
        "2024-03-31T00:00:00+00:00",
        "2024-04-01T00:00:00+01:00",
        "2024-04-02T00:00:00+01:00",
    ]
    record = ts.Release.from_json((tmp_path / "out.json").read_text())
    assert record.grid == ts.TimeGrid(size=4, **day)
    assert np.round(record.values).tolist() == [2, 3, 1, 1]
    assert drawn[-1].get_suptitle() == "Private series of individuals per day"
    assert "time (Europe/London)" in drawn[-1].axes[0].get_xlabel()
    assert main(arguments(log_file, tmp_path / "out", "--force", **given, size=None, end="2024-04-03")) == 0
    assert ts.Release.from_json((tmp_path / "out.json").read_text()).design.signal == record.design.signal


def test_a_step_that_was_not_kept_has_a_value_and_a_wider_interval(log_file, tmp_path):
    assert main(arguments(log_file, tmp_path / "out", sampling_probability="0.3", size="400")) == 0
    record = ts.Release.from_json((tmp_path / "out.json").read_text())
    rows = released(tmp_path / "out.csv")
    assert [k for k, row in enumerate(rows) if row["kept"] == "yes"] == record.steps.tolist()
    assert {row["kept"] for row in rows} == {"yes", "no"}
    assert all(float(row["low"]) < float(row["private_count"]) < float(row["high"]) for row in rows)


# Eight or more of 40 steps are kept with probability 2e-5.
def test_without_enough_steps_there_is_no_interval_between_them(log_file, tmp_path):
    assert main(arguments(log_file, tmp_path / "out", sampling_probability="0.03", size="40")) == 0
    for row in released(tmp_path / "out.csv"):
        assert row["private_count"]
        assert (row["kept"] == "yes") == bool(row["low"]) == bool(row["high"])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_every_figure_is_known_as_one_of_ours(log_file, tmp_path, kind):
    assert main(arguments(log_file, tmp_path / "out", "--figure", kind)) == 0
    before = (tmp_path / f"out.{kind}").read_bytes()
    assert main(arguments(log_file, tmp_path / "out", "--figure", kind, "--force")) == 0
    assert (tmp_path / f"out.{kind}").read_bytes() != before


def test_a_figure_of_vectors(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out", "--figure", "svg")) == 0
    assert b"<svg" in (tmp_path / "out.svg").read_bytes()
    before = contents(tmp_path)
    capsys.readouterr()
    assert main(arguments(log_file, tmp_path / "out", "--force")) == 2
    assert f"output ({tmp_path}/out.svg)" in refusal(capsys)
    assert contents(tmp_path) == before
    assert main(arguments(log_file, tmp_path / "out", "--figure", "svg", "--force")) == 0
    assert main(arguments(log_file, tmp_path / "none", "--figure", "none")) == 0
    assert {path.name for path in tmp_path.glob("none*")} == {"none.csv", "none.json"}
    assert "No figure" not in capsys.readouterr().out


def test_a_parquet_file(tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = np.array(["2024-01-01T00:30", "2024-01-01T05:00"], dtype="datetime64[ms]")
    parquet.write_table(arrow.table({"who": [1, 2], "when": times}), tmp_path / "log.parquet")
    assert main(arguments(tmp_path / "log.parquet", tmp_path / "out")) == 0
    assert len(released(tmp_path / "out.csv")) == 48


@pytest.mark.parametrize(
    ("who", "when", "message"),
    [
        (["a"], ["2024-01-01T00:30"], "column 'when' of type string"),
        ([[1]], np.array(["2024-01-01"], "M8[s]"), "column 'who' of type list<element: int64>"),
        (["a"], [1.5], "times of type float64"),
    ],
)
def test_parquet_columns_are_refused_by_type_in_one_sentence(tmp_path, capsys, who, when, message):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"who": who, "when": when}), tmp_path / "log.parquet")
    assert main(arguments(tmp_path / "log.parquet", tmp_path / "out")) == 2
    assert message in refusal(capsys)
    assert set(contents(tmp_path)) == {"log.parquet"}


def test_what_opendp_wraps_comes_out_as_it_went_in(log_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(release, "read_log", lambda *_, **__: {"who": np.array([1]), "when": np.zeros(1, "m8[s]")})
    assert main(arguments(log_file, tmp_path / "out")) == 2
    assert refusal(capsys).startswith("error: column 'when' of type ")


# No file is lost.


def test_the_log_is_never_an_output(tmp_path, capsys, log_file, nothing_is_read):
    log = log_file.read_bytes()
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "soft.csv").symlink_to(log_file)
    os.link(log_file, tmp_path / "hard.csv")
    os.link(log_file, tmp_path / "LOG.csv")  # as on a file system that ignores case
    outputs_ = ["log", "folder/log", "../" + tmp_path.name + "/log", "soft", "hard", "LOG"]
    for output in outputs_:
        for force in ((), ("--force",)):
            for file in (log_file, tmp_path / "soft.csv", tmp_path / "folder" / "hard.csv"):
                assert main(arguments(file, f"{tmp_path}/{output}", *force)) == 2
                assert f"output ({tmp_path / output}.csv)" in refusal(capsys)
                assert log_file.read_bytes() == log


def test_the_log_is_not_the_default_output(tmp_path, capsys, log_file, monkeypatch, nothing_is_read):
    monkeypatch.chdir(tmp_path)
    log_file.rename("release.csv")
    log = contents(tmp_path)
    assert main([*arguments("release.csv", "release")[:-2], "--force"]) == 2
    assert "output (release.csv)" in refusal(capsys)
    assert contents(tmp_path) == log


def test_an_earlier_release_is_replaced_only_when_asked(log_file, tmp_path, capsys, monkeypatch):
    assert main(arguments(log_file, tmp_path / "out")) == 0
    before = contents(tmp_path)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(release, "read_log", lambda *_, **__: pytest.fail("the log was read"))
        for suffix in SUFFIXES:  # any one of them is enough
            assert main(arguments(log_file, tmp_path / "out")) == 2
            assert f"output ({tmp_path}/out{suffix})" in refusal(capsys)
            (tmp_path / f"out{suffix}").rename(tmp_path / f"was{suffix}")
    for suffix in SUFFIXES:
        (tmp_path / f"was{suffix}").rename(tmp_path / f"out{suffix}")
    assert main(arguments(log_file, tmp_path / "out", "--force", identifier="nobody")) == 2
    assert contents(tmp_path) == before
    assert main(arguments(log_file, tmp_path / "out", "--force")) == 0
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[f"out{suffix}"] != before[f"out{suffix}"] for suffix in SUFFIXES)
    assert after["log.csv"] == before["log.csv"]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".svg", ".pdf"])
def test_force_never_replaces_a_ledger(log_file, tmp_path, capsys, nothing_is_read, suffix):
    pop = tmp_path / f"pop{suffix}"
    ts.Ledger.create(pop, epsilon=1.0, delta=1e-6)
    before = contents(tmp_path)
    for more in ((), ("--ledger", str(pop))):
        assert main(arguments(log_file, tmp_path / "pop", "--force", *more)) == 2
        assert f"output ({pop})" in refusal(capsys)
    assert contents(tmp_path) == before


FORGED = {
    ".csv": [
        b"who,when\nann,2024-01-01\n",
        b"step_start,private_count,low,high,kept,opendp_timeseries\r\n1,2,3,4,5,6\r\n",
        b"step_start,private_count,low,high,kept\n",
        b"# opendp_timeseries\nstep_start,private_count,low,high,kept\r\n",
    ],
    ".json": [
        b'{"format": "opendp_timeseries release", "version": 1',
        b'{"format": "opendp_timeseries releases", "version": 1}',
        b'{"format": "opendp_timeseries programme", "version": 1}',
        b'{"format": "opendp_timeseries release", "version": 1}\n{"format": 2}',
        b'{"of": "opendp_timeseries", "format": "opendp_timeseries release"}',
        b'{"format": "opendp_timeseries release", "a": ' + b"[" * 100_000,
    ],
    ".png": [b"opendp_timeseries", b"\x89PNG\r\n\x1a\n opendp_timeseries", b"tEXtSoftware\0opendp_timeseries"],
    ".svg": [b"<?xml opendp_timeseries", b"<svg><dc:title>opendp_timeseries</dc:title>"],
    ".pdf": [b"%PDF-1.4 opendp_timeseries", b"/Creator (opendp_timeseries)"],
}


@pytest.mark.parametrize(("suffix", "content"), [(suffix, each) for suffix, all_ in FORGED.items() for each in all_])
def test_a_word_makes_no_earlier_release(log_file, tmp_path, capsys, nothing_is_read, suffix, content):
    (tmp_path / f"pop{suffix}").write_bytes(content)
    assert main(arguments(log_file, tmp_path / "pop", "--force", "--figure", "png")) == 2
    assert f"output ({tmp_path}/pop{suffix})" in refusal(capsys)
    assert (tmp_path / f"pop{suffix}").read_bytes() == content


def test_without_matplotlib_an_old_figure_does_not_stay_beside_a_new_table(log_file, tmp_path, capsys, monkeypatch):
    assert main(arguments(log_file, tmp_path / "out")) == 0
    before = contents(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    capsys.readouterr()
    assert main(arguments(log_file, tmp_path / "out", "--force")) == 2
    assert f"output ({tmp_path}/out.png)" in refusal(capsys)
    assert contents(tmp_path) == before
    assert main(arguments(log_file, tmp_path / "new")) == 0
    assert "No figure: install opendp_timeseries[plot]" in capsys.readouterr().out
    assert not (tmp_path / "new.png").exists()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_full_or_broken_disk_leaves_earlier_files(log_file, tmp_path, capsys, monkeypatch, force, call, nth):
    if force:
        assert main(arguments(log_file, tmp_path / "out")) == 0
    before, calls, real = contents(tmp_path), iter(range(100)), getattr(os, call)
    capsys.readouterr()

    def failing(*given, **options):
        if next(calls) == nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **options)

    monkeypatch.setattr(f"opendp_timeseries._files.os.{call}", failing)
    if main(arguments(log_file, tmp_path / "out", *force)) == 2:
        assert f"file ({tmp_path}/out{SUFFIXES[nth]})" in refusal(capsys)
        after = contents(tmp_path)
        assert after.keys() == before.keys()
        changed = [suffix for suffix in SUFFIXES if after.get(f"out{suffix}") != before.get(f"out{suffix}")]
        assert changed == list(SUFFIXES[:nth] if call == "replace" else ())  # renamed one by one, and whole
        assert not force or len(released(tmp_path / "out.csv")) == 48
    else:
        assert next(calls) <= nth or call == "link"  # the call that fails was not reached, or has a substitute


def test_what_cannot_be_written_is_found_out_before_the_log_is_read(
    log_file, tmp_path, capsys, monkeypatch, nothing_is_read
):
    (tmp_path / "out.json").write_text(json.dumps({"format": "opendp_timeseries release", "version": 0}))
    (tmp_path / "out.json").chmod(0o444)
    assert main(arguments(log_file, tmp_path / "out", "--force")) == 2
    assert "out.json)" in refusal(capsys)
    real = os.open

    def closed(path, flags, *mode, **options):
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *mode, **options)

    monkeypatch.setattr("opendp_timeseries._files.os.open", closed)
    assert main(arguments(log_file, tmp_path / "new")) == 2
    assert f"file ({tmp_path}/new.csv) cannot be used: Permission denied" in refusal(capsys)
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv", "out.json"}


def test_what_fails_after_the_release_leaves_nothing(log_file, tmp_path, capsys, monkeypatch):
    def failing(suffix, *_):
        if suffix == ".png":
            raise ValueError("the figure (of a release) failed; must not happen")
        return b""

    monkeypatch.setattr(release, "document", failing)
    assert main(arguments(log_file, tmp_path / "out")) == 2
    assert "the figure (of a release) failed" in refusal(capsys)
    assert set(contents(tmp_path)) == {"log.csv"}


def test_a_release_is_not_lost_for_its_smoothing(log_file, tmp_path, capsys, monkeypatch):
    def failing(*_, **__):
        raise MemoryError

    monkeypatch.setattr(outputs, "series_of", failing)
    assert main(arguments(log_file, tmp_path / "out", "--season", "24")) == 0
    captured = capsys.readouterr()
    assert "Made by linear interpolation" in " ".join(captured.out.split())
    lost = "Nothing of the release is lost."
    said = f"The smoother failed (MemoryError): the series are interpolated, with wider intervals. {lost}\n"
    assert captured.err == said
    assert len(released(tmp_path / "out.csv")) == 48


@pytest.mark.thinned(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("times", [4, pytest.param(15, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_command_leaves_whole_files(log_file, tmp_path, how, times):
    draw = random.Random(2)
    assert main(arguments(log_file, tmp_path / "out")) == 0
    log, ends = log_file.read_bytes(), set()
    for _ in range(times):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        child = os.fork()
        if child == 0:
            code = 130
            try:  # nothing of this process must reach the tests' own loop
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                code = main(arguments(log_file, tmp_path / "out", "--force"))
            finally:
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        time.sleep(draw.uniform(0, 0.2))
        os.kill(child, how)
        status = os.waitpid(child, 0)[1]
        ends.add(os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
        assert log_file.read_bytes() == log
        assert len(released(tmp_path / "out.csv")) == 48
        ts.Release.from_json((tmp_path / "out.json").read_text()).verify()
        assert (tmp_path / "out.png").read_bytes().endswith(b"IEND\xaeB`\x82")
        for path in tmp_path.iterdir():
            if path.name not in ("log.csv", "out.csv", "out.json", "out.png"):
                assert path.name.startswith(".")
                assert path.suffix in (".unfinished", ".earlier")
                path.unlink()
    assert ends <= {0, how} | ({130} if how != signal.SIGKILL else set())
    assert ends - {0}


# How a log is read.


def test_csv_times_and_identifiers(log_file):
    log = rows_of_csv(log_file, identifier="who", time="when", zone="America/New_York")
    assert log["who"].tolist() == ["ann", "bob", None, "cy", "short"]
    utc = ["2024-01-01T05:30", "2024-01-01T05:00", "2024-01-01T10:00", "NaT", "NaT"]
    assert np.array_equal(log["when"], np.array(utc, dtype="datetime64[us]"), equal_nan=True)


@pytest.mark.parametrize(
    ("texts", "format_", "unit"),
    [
        (["2024-03-01T08:15:30", "2024-03-01 08:15:30 UTC", "20240301T081530Z", "2024-03-01t08:15:30+00"], None, None),
        (["2024-03-01 09:15:30+01:00", "2024-03-01T03:15:30-0500", "2024-03-01 08:15:30GMT"], None, None),
        (["01.03.2024 08:15:30"], "%d.%m.%Y %H:%M:%S", None),
        (["3/1/2024 8:15:30 AM", "03/01/2024 08:15:30 am"], "%m/%d/%Y %I:%M:%S %p", None),
        (["3/1/24 10:15:30 +0200"], "%m/%d/%y %H:%M:%S %z", None),
        (["1709280930", "1709280930.0", "1.70928093e9", " 1709280930 ", "1709280930.9999999999"], None, "s"),
        (["1709280930000", "1709280930000.999"], None, "ms"),
        (["1709280930000000"], None, "us"),
        (["1709280930000000999"], None, "ns"),
    ],
)
def test_times_are_read_as_the_options_say(tmp_path, texts, format_, unit):
    path = tmp_path / "log.csv"
    path.write_text("who;when\n" + "".join(f"ann;{text}\n" for text in texts))
    log = rows_of_csv(
        path, identifier="who", time="when", zone="UTC", delimiter=";", time_format=format_, time_unit=unit
    )
    assert (log["when"].astype("datetime64[s]") == np.datetime64("2024-03-01T08:15:30")).all()


@pytest.mark.parametrize(
    ("texts", "format_", "unit"),
    [
        (
            ["01.03.2024 00:01", "3/1/2024 0:30", "1709280930", "2024-03-01 8:15 AM", "2024-3-1", "2024-02-30"],
            None,
            None,
        ),
        (["2024-03-01T24:00", "2024-03-01 UTC+1", "0000-01-01T00:00+23:00", "\u0662024-03-01", "", "-"], None, None),
        (["2024-03-01", "32.01.2024", "01.03.2024 x", "1.3.24"], "%d.%m.%Y", None),
        (["nan", "snan", "inf", "1e400", "1e999999999", "9" * 5000, "0x10", "2024-03-01", "", "1,5"], None, "s"),
    ],
)
def test_what_is_no_time_in_that_form_is_missing_and_raises_nothing(tmp_path, texts, format_, unit):
    path = tmp_path / "log.csv"
    path.write_text("who;when\n" + "".join(f"ann;{text}\n" for text in texts), encoding="utf-8")
    log = rows_of_csv(
        path, identifier="who", time="when", zone="UTC", delimiter=";", time_format=format_, time_unit=unit
    )
    assert np.isnat(log["when"]).all()


NEW_YORK = {"zone": "America/New_York", "step": "1d", "size": "2", "epsilon": "600", "participation_cap": "2"}


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, [3, 1]),  # on the clock of the grid
        ({"times_zone": "America/New_York"}, [3, 1]),
        ({"times_zone": "UTC"}, [3, 0]),  # dan's is on 31 December in New York
        ({"times_zone": "Asia/Tokyo"}, [2, 0]),  # and so is ann's
    ],
)
def test_the_zone_of_the_times_is_not_that_of_the_grid(log_file, tmp_path, more, counts):
    # Cy's time says its zone, and is on 1 January in New York whatever is said of the others.
    rows = ["ann,2024-01-01T13:00", "bob,2024-01-02T04:30", "cy,2024-01-02T04:30Z", "dan,2024-01-01T03:00"]
    log_file.write_text("\n".join(["who,when", *rows]))
    assert main(arguments(log_file, tmp_path / "out", start="2024-01-01", **NEW_YORK, **more)) == 0
    made = ts.Release.from_json((tmp_path / "out.json").read_text())
    assert made.grid.zone == "America/New_York"
    assert np.round(made.values).tolist() == counts


@pytest.mark.parametrize(("more", "counts"), [({}, [1, 1]), ({"times_zone": "UTC"}, [2, 0])])
@pytest.mark.parametrize("aware", [False, True])
def test_the_zone_of_times_in_parquet(tmp_path, capsys, more, counts, aware):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = np.array(["2024-01-01T13:00", "2024-01-02T04:30"], dtype="datetime64[ms]")
    column = arrow.array(times, arrow.timestamp("ms", "UTC" if aware else None))
    parquet.write_table(arrow.table({"who": ["ann", "bob"], "when": column}), tmp_path / "log.parquet")
    given = {"start": "2024-01-01", **NEW_YORK, **more}
    assert main(arguments(tmp_path / "log.parquet", tmp_path / "out", **given)) == 0
    made = ts.Release.from_json((tmp_path / "out.json").read_text())
    assert np.round(made.values).tolist() == ([2, 0] if aware else counts)
    capsys.readouterr()
    if not aware:
        assert main(arguments(tmp_path / "log.parquet", tmp_path / "o", **given | {"times_zone": "Asia/Tokyo"})) == 2
        assert "--times-zone ('Asia/Tokyo')" in refusal(capsys)


def test_a_tab_separated_file(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("who\twhen\nann, b\t2024-01-01T00:30\n")
    for delimiter in (None, "\\t", "\t"):
        assert (
            main(arguments(path, tmp_path / f"out{delimiter is None}{delimiter == chr(9)}", delimiter=delimiter)) == 0
        )


def test_nothing_of_the_rows_is_printed(log_file, tmp_path, capsys):
    main(arguments(log_file, tmp_path / "out"))
    said = "".join(capsys.readouterr())
    assert not re.search("ann|bob|rubbish|short", said)


def test_a_quote_in_one_row_takes_in_no_other(tmp_path, capsys):
    people = [f"p{k},2024-01-01T00:30" for k in range(500)]
    for at in (0, 3, 499):
        for bad in ('"mallory,2024-01-01T00:00', 'mallory,"2024', "mal\rlory,2024-01-01T00:00", '""",",', "\0,\0"):
            lines = ["who,when", *people[:at], bad, *people[at:]]
            path = tmp_path / "log.csv"
            path.write_bytes("\n".join(lines).encode())
            log = rows_of_csv(path, identifier="who", time="when", zone="UTC")
            there = set(log["who"][~np.isnat(log["when"])].tolist())
            assert {f"p{k}" for k in range(500)} <= there
            assert len(there) <= 501


def test_spaces_and_case_keep_people_apart(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('who,when\r\n ann,2024-01-01\r\nann,2024-01-01\r\n"ann, b", 2024-01-01 \r\n')
    log = rows_of_csv(path, identifier="who", time="when", zone="UTC")
    assert log["who"].tolist() == [" ann", "ann", "ann, b"]
    assert not np.isnat(log["when"]).any()


GERMAN = [("Köln", 2), ("Düsseldorf", 1), ("Ulm", 1)]


@pytest.mark.parametrize("name", ["cp1252", "latin-1", "cp850", "gb18030", "utf-8", "utf-8-sig"])
def test_a_log_in_an_encoding_that_is_said(tmp_path, capsys, name):
    path = tmp_path / "log.csv"
    rows = [f"Zoë {k},2024-01-01T00:30,{city}" for city, people in GERMAN for k in range(people)]
    path.write_bytes("\n".join(["wer,wann,größerer Ort", *rows]).encode(name))
    keys = ["--by", "größerer Ort", "--keys", *(city for city, _ in GERMAN), "--encoding", name]
    given = arguments(path, tmp_path / "out", *keys, identifier="wer", time="wann")
    assert main(["check", *given]) == 0
    said = capsys.readouterr().err
    assert "4 rows were read" in said
    assert "0 have a key that is missing or not listed" in said
    assert "2 individuals are on the grid" in said
    assert "hold bytes" not in said
    assert main(given) == 0


def test_a_release_does_not_say_that_rows_are_in_another_encoding(tmp_path, capsys):
    # It would depend on one person's row.
    path = tmp_path / "log.csv"
    rows = [f"p{k},2024-01-01T00:30,{city}" for city, people in GERMAN for k in range(people)]
    path.write_bytes("\n".join(["who,when,city", *rows]).encode("cp1252"))
    given = arguments(path, tmp_path / "out", "--by", "city", "--keys", *(city for city, _ in GERMAN))
    assert main(given) == 0
    said = "".join(capsys.readouterr())
    assert "encoding" not in said
    assert "utf-8" not in said.lower()


@pytest.mark.parametrize(
    ("said", "real", "rule", "remedy"),
    [
        ("cp1252", "utf-16-le", "must be in cp1252.*UTF-16", "^save the file as UTF-8"),
        ("utf-8", "cp1252", "is not in utf-8", "perhaps `encoding=cp1252`"),
        ("utf-8", "cp1251", "is not in utf-8", "such as cp1252 or"),
    ],
)
def test_an_encoding_is_no_more_than_guessed(tmp_path, said, real, rule, remedy):
    path = tmp_path / "log.csv"
    path.write_bytes(("wer,wann,Straße" if real != "cp1251" else "who,when,место").encode(real))
    columns = {"identifier": "wer", "time": "wann", "zone": "UTC"}
    refuses(
        r"the first line of the file \(log.csv\)", rows_of_csv, path, **columns, encoding=said, rule=rule, remedy=remedy
    )


ENCODINGS = ["utf-8", "ascii", "cp1252", "gb18030", "shift_jis", "euc_kr", "johab", "big5"]


@pytest.mark.parametrize("name", ENCODINGS)
def test_no_bytes_of_a_row_change_another_or_raise(tmp_path, name):
    draw, path = random.Random(3), tmp_path / "log.csv"
    rows = [b"p%d,2024-01-01T00:30" % k for k in range(300)]
    odd = [bytes(draw.choice([*range(11, 256), *[0x81] * 99]) for _ in range(draw.randrange(1, 9))) for _ in range(99)]
    for row in odd:
        rows.insert(draw.randrange(len(rows)), row.replace(b'"', b"'"))
    path.write_bytes(b"\n".join([b"who,when", *rows]))
    log = rows_of_csv(path, identifier="who", time="when", zone="UTC", encoding=name)
    assert len(log["who"]) == len(rows)
    there = log["who"][~np.isnat(log["when"])].tolist()
    assert sorted(there) == sorted(f"p{k}" for k in range(300))


def test_a_large_epsilon_is_said_to_be_one(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out", epsilon="800")) == 0
    assert "e^ε times as likely" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("number", ["0", "-4"])
def test_a_public_number_of_individuals_is_at_least_one(log_file, tmp_path, capsys, number):
    assert main(arguments(log_file, tmp_path / "out", individuals=number)) == 2
    assert refusal(capsys).startswith(f"error: --individuals ({number}) ")


@pytest.mark.parametrize("length", [5000, 10**6])
def test_a_long_argument_is_not_echoed_whole(log_file, tmp_path, capsys, length):
    long, ledger = "x" * length, tmp_path / "people.ledger"
    ts.Ledger.create(ledger, epsilon=1.0, delta=1e-6)
    for given in (
        arguments(log_file, tmp_path / "out", identifier=long),
        arguments(log_file, tmp_path / "out", start=long),
        arguments(log_file, tmp_path / "out", epsilon=long),
        arguments(log_file, tmp_path / long),
        arguments(log_file, tmp_path / "out", f"--{long}", long),
        arguments(log_file, tmp_path / "out", ledger=long),
        ["verify", long],
        ["ledger", str(ledger), "--add", long],
        [long],
    ):
        assert main(given) == 2
        said = refusal(capsys)
        assert len(said) < 700
        assert SAYS_WHAT_TO_DO.search(said)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_help_and_words_survive_narrow_encodings(log_file, tmp_path, monkeypatch, encoding):
    printed = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in printed.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding))
    for command in ([], ["check"], ["plan"], ["verify"], ["ledger"]):
        with pytest.raises(SystemExit) as end:
            main([*command, "--help"])
        assert end.value.code == 0
    assert main(arguments(log_file, tmp_path / "out", "--figure", "none")) == 0
    sys.stdout.flush()
    sys.stderr.flush()
    assert printed["stderr"].getvalue() == b""
    help_, said = printed["stdout"].getvalue().decode(encoding).split("A private series of counts")
    assert help_.count("usage: python -m opendp_timeseries") == 5
    assert help_.isascii()
    assert "\\" not in help_.replace("\\t", "")
    assert "(\\u03b5 = 2, " in said  # in a terminal that knows no Greek


def test_out_of_memory_names_the_log_and_a_way_out(log_file, tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")

    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr(release, "read_log", exhausted)
    assert main(arguments(log_file, tmp_path / "out")) == 2
    said = refusal(capsys)
    assert f"file ({log_file})" in said
    assert main(arguments(tmp_path / "log.parquet", tmp_path / "out")) == 2
    assert f"file ({tmp_path}/log.parquet)" in refusal(capsys)

    def wrapped(*_, **__):  # as Python does where a class is made
        try:
            exhausted()
        except MemoryError as error:
            raise RuntimeError("Error calling __set_name__") from error

    monkeypatch.setattr(release, "read_log", wrapped)
    assert main(arguments(log_file, tmp_path / "out")) == 2
    assert refusal(capsys) == said
    monkeypatch.undo()
    monkeypatch.setattr("opendp_timeseries.plugin.participation_count.engine_of", exhausted)  # OpenDP wraps it
    assert main(arguments(log_file, tmp_path / "out")) == 2
    assert refusal(capsys) == said
    assert set(contents(tmp_path)) == {"log.csv"}


def test_a_parquet_file_that_breaks_off_is_not_read_by_a_remedy_of_python(tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = np.array(["2024-01-01T00:30"] * 1000, dtype="datetime64[ms]")
    path = tmp_path / "log.parquet"
    parquet.write_table(arrow.table({"who": np.arange(1000), "when": times}), path, compression="gzip")
    broken = bytearray(path.read_bytes())
    broken[10:200] = bytes(190)
    path.write_bytes(broken)
    assert main(arguments(path, tmp_path / "out")) == 2
    said = refusal(capsys)
    assert "the log could not be read to its end; check that its files are whole, and that memory suffices" in said


def test_a_ledger_by_a_symbolic_link_is_called_what_it_is(log_file, tmp_path, capsys):
    ts.Ledger.create(tmp_path / "people.ledger", epsilon=1.0, delta=1e-6)
    (tmp_path / "linked").symlink_to(tmp_path / "people.ledger")
    for given in (["ledger", str(tmp_path / "linked")], arguments(log_file, "out", ledger=str(tmp_path / "linked"))):
        assert main(given) == 2
        assert f"file ({tmp_path}/linked) must not be a symbolic link; give the name of the file that" in refusal(
            capsys
        )


# What was written.


def test_the_record_beside_the_table_says_what_ran(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out", filter_std="2", sampling_probability="0.5")) == 0
    record = ts.Release.from_json((tmp_path / "out.json").read_text(encoding="utf-8"))
    ((epsilon, delta),) = record.verify()
    assert 1.99 < epsilon <= 2
    assert delta == 1e-6
    assert record.design.count.cap == 3
    kept = [k for k, row in enumerate(released(tmp_path / "out.csv")) if row["kept"] == "yes"]
    assert kept == record.steps.tolist()
    capsys.readouterr()
    several = tmp_path / "several.json"
    several.write_text(ts.write_releases([record, record]), encoding="utf-8")
    assert main(["verify", str(several)]) == 0
    assert "all of them together (ε = 4" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(tmp_path / "out.json")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert record.guarantee() in said


@pytest.mark.parametrize("text", ["", "{}", "[1, 2", "\ud800", "null", "[" * 100_000])
def test_a_record_that_is_none_is_refused(tmp_path, capsys, text):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    assert main(["verify", str(path)]) == 2
    assert f"record ({path})" in refusal(capsys)


def test_no_name_of_a_column_reads_like_a_guarantee(tmp_path, capsys):
    name = "individuals, give (ε = 0.001)-differential privacy.\n\nVerified \x1b[2J\u202e"
    grid = ts.TimeGrid(start="2024-01-01", size=2, step="1d", zone="UTC")
    log = {"id": np.arange(2), "time": np.array(["2024-01-01"] * 2, "M8[s]"), name: np.arange(2)}
    ledger = ts.Ledger.create(tmp_path / "rides.ledger", epsilon=9.0, delta=1e-5)
    for options in ({"value": name, "bound": 5}, {}):
        count = make.space() >> ts.then_participation_count(grid, participation_cap=1, **options)
        ledger.release(count >> ts.then_subsampled_gaussian(9.0, sampling_probability=1.0, delta=1e-6), log)
    path = tmp_path / "record.json"
    for number in (1, 2):
        path.write_text(ts.write_releases(ledger.releases()[:number]), encoding="utf-8")
        assert main(["verify", str(path)]) == 0
        said = capsys.readouterr().out
        assert not {*said} & {*"\x1b\u202e"}
        assert "'individuals, give (ε = 0.001)-differential privacy." in " ".join(said.split())
        assert re.findall("(?m)^Verified.", said) == ["Verified:"]
    assert re.findall("(?m)^(1|2) +released +('?)individuals", ledger.table()) == [("1", "'"), ("2", "")]


def test_a_record_that_claims_too_much_is_refused(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out")) == 0
    document = json.loads((tmp_path / "out.json").read_text())
    document["design"]["count"]["weighting"]["downweight"]["cap"] *= 2
    (tmp_path / "lie.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "lie.json")]) == 2
    assert f"record ({tmp_path}/lie.json)" in refusal(capsys)
    document = json.loads((tmp_path / "out.json").read_text())
    for own in (
        document["guarantee"].replace("ε = ", "ε = 0.0"),
        document["guarantee"].replace("added or removed", "and all that they do"),
    ):
        (tmp_path / "lie.json").write_text(json.dumps(document | {"guarantee": own}))
        assert main(["verify", str(tmp_path / "lie.json")]) == 2
        assert document["guarantee"] in refusal(capsys)
    assert main(["verify", str(tmp_path / "none.json")]) == 2
    assert f"record ({tmp_path}/none.json) cannot be used: No such file" in refusal(capsys)


def test_of_the_public_log_it_says_what_caps_take_away(tmp_path, capsys):
    caps = ["--participation-cap", "50", "--step", "24h", "--size", "365", "--season", "1w", "--figure", "none"]
    assert main(["--output", str(tmp_path / "flights"), *caps]) == 0
    said = " ".join(capsys.readouterr().out.split())
    share = re.search(r"so it can be said: the caps take away (\d+)\.\d% of its departures", said)
    assert 5 < int(share[1]) < 60


def test_the_summary_says_what_is_true_of_the_sampling(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "every")) == 0
    every = " ".join(capsys.readouterr().out.split())
    assert "; Gaussian noise of standard deviation" in every
    assert "from noisy values at every step, with noise of standard deviation" in every
    assert "random" not in every
    assert "kept" not in every
    blocks = {"sampling_probability": "0.25", "sampling": "stratified"}
    assert main(arguments(log_file, tmp_path / "blocks", **blocks)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "12 of 48 steps were kept at random (one of each block of 4)" in said
    assert main(["verify", str(tmp_path / "blocks.json")]) == 0
    assert main(arguments(log_file, tmp_path / "some", sampling_probability="0.5")) == 0
    some = " ".join(capsys.readouterr().out.split())
    assert "were kept at random (each with probability 0.5)" in some
    assert "Made by structural model" in some


def test_individuals_are_not_called_events(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "once")) == 0
    assert "number of individuals who have an event in it" in " ".join(capsys.readouterr().out.split())
    assert main(arguments(log_file, tmp_path / "more", step_cap="2")) == 0
    more = " ".join(capsys.readouterr().out.split())
    assert "number of events in it" in more
    counts = (
        "every step (with 2 in each: in more than 3, for less; in 12, for half; with fewer in each, in more steps),"
        " at most 2 times in each"
    )
    assert f"{counts}; totals are too low by the rest" in more
    assert main(arguments(log_file, tmp_path / "dropped", step_cap="2", excess="drop")) == 0
    assert "at most 3 steps, at most 2 times in each; totals are too low by the rest" in " ".join(
        capsys.readouterr().out.split()
    )
    for name in ("step_cap", "gap"):  # of a private series
        assert main(arguments(log_file, tmp_path / name, participation_cap=None, **{name: "2"})) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "; totals are too low by the rest" in said
        assert "An interval holds the capped counts" in said


# Before any data.

PLAN = ["plan", "--size", "672", "--epsilon", "1", "--delta", "1e-6"]
CAPS = ["--participation-cap", "20", "60"]
SIGNAL = ["--season", "24:90", "--deviation", "20", "--time-scale", "12", "--filter-std", "0"]
SERIES = ["--level", "200", *SIGNAL]


@pytest.mark.long
def test_a_plan_says_what_to_run_and_it_runs(log_file, tmp_path, capsys):
    dated = ["--start", "2024-03-01", "--step", "1h", "--zone", "Europe/Berlin", "--sampling-probability", "0.5", "1"]
    known = ["--participation-cap", "4", "--participation", "50%:3", "100%:4"]
    for number, (given, best) in enumerate([(CAPS, "private series"), (known, "participation cap 4, every step")]):
        assert main([*PLAN, *SERIES, *dated, *given]) == 0
        said = capsys.readouterr().out
        assert f"Best: {best}, then a smoother" in said
        words = shlex.split(said.splitlines()[-1])
        assert words[:3] == ["python", "-m", "opendp_timeseries"]
        filled = {"LOG.csv": str(log_file), "ID": "who", "TIME": "when"}
        output = tmp_path / f"out{number}"
        assert main([*(filled.get(word, word) for word in words[3:]), "--output", str(output)]) == 0
        assert len(released(output.with_suffix(".csv"))) == 672
    assert main([*PLAN, *CAPS, *SERIES, "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (document["epsilon"], document["delta"]) == (1.0, 1e-6)
    sampled = ["--sampling-probability", "0.5", "--sampling", "stratified"]
    assert main([*PLAN, *CAPS, *SERIES, *sampled]) == 0
    assert "\n20   p = 0.5 in blocks " in capsys.readouterr().out


def test_a_gap_is_kept_and_said(log_file, tmp_path, capsys):
    def scale(name, gap):
        assert main(arguments(log_file, tmp_path / name, gap=gap, filter_std="3")) == 0
        record = ts.Release.from_json((tmp_path / f"{name}.json").read_text())
        assert record.design.count.reading.gap == int(gap)
        return record.scale

    assert scale("apart", "8") < scale("close", "1")
    apart, _ = capsys.readouterr().out.split("A private series", 2)[1:]
    assert "once in each, at least 8 steps apart" in " ".join(apart.split())


# What is said in private.


def test_check_prints_nothing_where_standard_error_is_closed(log_file, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["check", *arguments(log_file, "out")]) == 2
    assert "rows" not in capsys.readouterr().out


# All at once.

FUZZ_VALUES = {
    "--identifier": ["who", "when", "nobody", "", "\udcff", "who,when", "$x_"],
    "--time": ["when", "who", "", "nothing"],
    "--start": [
        "2024-01-01T00:00",
        "2024-01-01",
        "yesterday",
        "",
        "9999-12-31T23:00",
        "2024-03-31T02:30",
        "2024-02-30",
    ],
    "--step": ["1h", "1d", "1mo", "90s", "1 month", "0h", "-1h", "h", "", "99999999999999999999d", "1us"],
    "--size": ["48", "700", "1", "0", "-3", "1e3", "x", "", "9" * 30, "1000001"],
    "--end": ["2024-03-01", "2024-01-01T07:30", "2023-01-01", "9999-12-31", "soon", ""],
    "--zone": ["UTC", "Europe/Berlin", "Mars/Olympus", "", "../../etc/passwd", "/etc/localtime"],
    "--participation-cap": ["3", "1", "99999999999999999999", "0", "-1", "2.5", "many"],
    "--step-cap": ["1", "7", "0", "9" * 25, "x"],
    "--gap": ["1", "6", "48", "49", "0", "-1", "2.5", "9" * 25, "x"],
    "--epsilon": ["1", "0.01", "1e-300", "800", "1e300", "0", "-1", "nan", "inf", "1e999", "x"],
    "--delta": ["1e-6", "0.5", "0.999999", "1e-300", "5e-324", "0", "1", "2", "nan", "-1e-6", "x"],
    "--sampling-probability": ["1", "0.5", "0.05", "1e-9", "0", "1.5", "-0.1", "nan", "5e-324", "x"],
    "--sampling": ["poisson", "stratified", "x", ""],
    "--filter-std": ["2", "0", "1e-9", "1e9", "-1", "nan", "inf", "x"],
    "--season": ["24", "2", "1", "0", "-24", "nan", "inf", "1e9", "x"],
    "--delimiter": [",", ";", "\\t", "", "ab", '"', "\n", " "],
    "--time-format": ["%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M", "%H", "%", "%Q", "", "(", "%Y-%m-%d %Z"],
    "--time-unit": ["s", "ms", "us", "ns", "h", ""],
    "--output": ["new", "old", "log", "folder", "link", "nowhere/new", ".", "", "new.csv", "x" * 300, "mine"],
    "--unknown": ["1"],
    "--force": [None],
}


#: A refusal names what is wrong, shows it, and says what to do.
SAYS_WHAT_TO_DO = re.compile(
    r"must|choose|give|install|convert|leave out|replace|raise|lower|check |see python -m|expected|use ",
    re.I,
)


@pytest.fixture
def fuzz_files(tmp_path):
    """Names of logs of many kinds in a folder, which has an earlier release named old, and other files."""
    tmp_path = tmp_path / "files"
    tmp_path.mkdir()
    log = tmp_path / "log.csv"
    log.write_text("who,when\n" + "".join(f"p{k % 9},2024-01-0{k % 3 + 1}T0{k % 8}:15\n" for k in range(200)))
    assert main(arguments(log, tmp_path / "old")) == 0
    (tmp_path / "semicolons.csv").write_text("who;when\nann;01.01.2024 00:30\n")
    (tmp_path / "numbers.tsv").write_text("who\twhen\nann\t1704067200\nbob\tx\n")
    (tmp_path / "header.csv").write_text("who,when\n")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "bytes.csv").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "wide.csv").write_bytes("who,when\n".encode("utf-16"))
    (tmp_path / "bytes.parquet").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "other.xlsx").write_bytes(b"PK")
    (tmp_path / "mine.csv").write_text("who,when\nsomebody else's\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(log)
    names = [*["log.csv"] * 9, *sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".png"), "none.csv"]
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        return names
    times = np.array(["2024-01-01T00:30", "2024-01-01T05:00"], dtype="datetime64[ms]")
    tables = {
        "good": {"who": [1, 2], "when": times},
        "text": {"who": ["a", None], "when": ["2024-01-01", "2024-01-01"]},
        "binary": {"who": [b"a", b"\xff"], "when": times},
        "lists": {"who": [[1], []], "when": times},
        "floats": {"who": [1.5, float("nan")], "when": times},
        "lacking": {"who": [1]},
    }
    for name, table in tables.items():
        parquet.write_table(arrow.table(table), tmp_path / f"{name}.parquet")
    return [*names, *(f"{name}.parquet" for name in tables)]


def fuzz_arguments(draw, names):
    """Arguments that would serve, with up to four changes, mostly for the worse."""
    chosen = dict(ARGUMENTS, **{"--output": draw.choice(["new", "new", "old"])})
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        flag = draw.choice(list(FUZZ_VALUES))
        chosen[flag] = draw.choice(FUZZ_VALUES[flag])
    if "--end" in chosen and draw.random() < 0.7:
        chosen.pop("--size", None)
    if draw.random() < 0.1:
        chosen.pop(draw.choice(list(chosen)))
    given = [draw.choice(names)]
    if draw.random() < 0.1:  # the log that comes with the package
        given = []
        for name in ("--identifier", "--time"):
            chosen.pop(name, None)
    for flag, value in chosen.items():
        given += [flag] if value is None else [f"{flag}={value}"]
    if draw.random() < 0.3:
        given.append("--force")
    command = draw.choice([[]] * 8 + [["check"], ["verify"]])
    return [*command, *(given[:1] if command == ["verify"] else given)]


def fuzz(times, seed, path, names, capsys, monkeypatch):
    draw, ends = random.Random(seed), []
    folder, kept = path / "files", path / "kept"
    shutil.copytree(folder, kept, symlinks=True)
    before = contents(folder)
    for _ in range(times):
        given = fuzz_arguments(draw, names)
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = main(given)
        said, after = capsys.readouterr(), contents(folder)
        ends.append(code)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if code == 0 and given[0] not in ("check", "verify"):
            (name,) = {os.path.splitext(name)[0] for name in changed}
            assert changed == {name + suffix for suffix in SUFFIXES}, given
            assert not changed & before.keys() or (name == "old" and "--force" in given), given
            ts.Release.from_json((folder / f"{name}.json").read_text(encoding="utf-8")).verify()
        else:
            assert code in (0, 2), given
            assert not changed, given
        if code == 2:
            assert said.out == "", given
            assert said.err.startswith("error: "), (given, said.err)
            assert said.err.count("\n") == 1, (given, said.err)
            assert re.search(r"\(.*\)|'.*'|--", said.err), (given, said.err)
            assert SAYS_WHAT_TO_DO.search(said.err), (given, said.err)
        if changed:
            monkeypatch.chdir(path)
            shutil.rmtree(folder)
            shutil.copytree(kept, folder, symlinks=True)
    assert min(ends.count(0), ends.count(2)) > times / 10


def test_no_arguments_lose_a_file_or_end_in_a_traceback(fuzz_files, tmp_path, capsys, monkeypatch):
    fuzz(12, 4, tmp_path, fuzz_files, capsys, monkeypatch)


@pytest.mark.long
def test_a_thousand_arguments_lose_no_file(fuzz_files, tmp_path, capsys, monkeypatch):
    fuzz(1000, 2, tmp_path, fuzz_files, capsys, monkeypatch)


def test_a_large_delta_is_said(log_file, tmp_path, capsys):  # and no warning passes
    for delta, said in (("1e-6", False), ("0.01", True)):
        assert main(arguments(log_file, tmp_path / f"out{delta}", delta=delta)) == 0
        assert ("δ = 0.01 is large" in " ".join(capsys.readouterr().out.split())) == said
    plan = ts.plan(ts.TimeGrid(size=50), participation_cap=5, epsilon=1.0, delta=0.01, time_scale=4, deviation=3)
    assert "δ = 0.01 is large" in plan.advice()
    assert main(["ledger", str(tmp_path / "people.ledger"), "--new", "--epsilon=1", "--delta=0.01"]) == 0
    assert "δ = 0.01 is large" in " ".join(capsys.readouterr().out.split())


@pytest.mark.thinned(3)
@pytest.mark.parametrize("words", [["--version"], ["log.csv", "--epsilon", "much"], ["verify", "{record}"]])
def test_no_command_waits_for_what_it_does_not_need(tmp_path, words):
    log, record = {"who": np.arange(9), "when": np.arange(9)}, tmp_path / "release.json"
    dp.enable_features("contrib", "honest-but-curious")
    space = make.space(identifier="who", time="when")
    count = space >> ts.then_participation_count(ts.TimeGrid(size=9), participation_cap=2)
    record.write_text((count >> ts.then_subsampled_gaussian(5.0, sampling_probability=1.0, delta=1e-9))(log).to_json())
    command = [sys.executable, "-X", "importtime", "-m", "opendp_timeseries"]
    done = subprocess.run(
        [*command, *(word.format(record=record) for word in words)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (2 if "much" in words else 0)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "opendp_timeseries.commandline.arguments" in imported
    assert not imported & {"scipy.stats", "scipy.sparse", "scipy.signal", "sklearn", "opendp", "polars"}


def test_every_public_name_is_there_when_it_is_asked_for():
    assert callable(ts.smooth)
    assert all(hasattr(ts, name) for name in ts.__all__)
    assert {*ts.__all__} <= {*dir(ts)}
    assert not hasattr(ts, "no")
    for name in ts.__all__:
        assert pickle.loads(pickle.dumps(getattr(ts, name))) is getattr(ts, name)


#: What may come before OpenDP's queries, which must know the constructors of this package all the same. (It would load
#: scikit-learn, for as long as all else.)
IMPORTS = [
    "import opendp_timeseries",
    "from opendp_timeseries.plugin.totals import make_totals",
    "import opendp.context",
    "import opendp_timeseries, importlib.util; importlib.util.find_spec('opendp.context')",
]


@pytest.mark.parametrize("line", [IMPORTS[0], *(pytest.param(line, marks=pytest.mark.long) for line in IMPORTS[1:])])
def test_a_query_knows_the_constructors_whatever_is_imported_first(line):
    code = f"""
import sys; sys.modules["sklearn"] = None; {line}; light = "opendp" not in sys.modules
import opendp_timeseries as ts; import opendp.prelude as dp; from opendp.context import constructors
print(light, {{name.removeprefix("make_") for name in ts.__all__ if name.startswith("make_")}} - {{*constructors}})
from opendp_timeseries import *; assert then_totals is ts.then_totals and "smooth" in globals()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{line == IMPORTS[0]} {{'composition'}}\n", "")


def test_a_query_knows_the_constructors_in_whichever_thread_they_are_imported():
    code = """
import sys, threading, importlib; sys.modules["sklearn"] = None; import opendp_timeseries as ts
start, failures = threading.Barrier(2), []
def run(use):
    start.wait()
    try: use()
    except BaseException as error: failures.append(error)
uses = [lambda: importlib.import_module("opendp.prelude"), lambda: ts.make_totals]
threads = [threading.Thread(target=run, args=[use]) for use in uses]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
from opendp.context import constructors
print(failures, "totals" in constructors)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


def test_a_forecast_is_said_to_be_one_in_the_table(log_file, tmp_path):
    assert main(arguments(log_file, tmp_path / "out", "--ahead", "1d", size="8", step="6h")) == 0
    rows = released(tmp_path / "out.csv")
    assert [row["kept"] for row in rows] == ["yes"] * 8 + ["forecast"] * 4
    assert all(row["low"] and row["high"] for row in rows)
