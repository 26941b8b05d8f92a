"""The command line: the main job on the embedded log, and on files of the user's own."""

import csv
import re
import subprocess
import sys

import numpy as np
import pytest

from opendp_timeseries.__main__ import main
from opendp_timeseries.counting.files import read_csv_log

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


def arguments(file, output, **changes):
    chosen = ARGUMENTS | {"--" + k.replace("_", "-"): v for k, v in changes.items()}
    return [str(file), *(part for pair in chosen.items() if pair[1] for part in pair), "--output", str(output)]


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("who", "when"), *ROWS, ("short",)])
    return path


def released(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_main_job(tmp_path, capsys):
    assert main(["--output", str(tmp_path / "flights")]) == 0
    said = capsys.readouterr().out
    assert "(ε = 1, δ = 1e-06)-differential privacy for one individual (one value of 'tailnum')" in said
    assert "at most 100 steps" in said
    rows = released(tmp_path / "flights.csv")
    assert len(rows) == 1460
    assert rows[0]["step_start_utc"] == "2013-01-01T05:00:00"
    kept = sum(int(row["sampled"]) for row in rows)
    assert f"{kept} of 1460 steps" in said
    # Means of the noise vanish; the capped count has about 155 per step.
    assert 130 < np.mean([float(row["private_count"]) for row in rows]) < 180
    assert (tmp_path / "flights.png").read_bytes()[:4] == b"\x89PNG"


def test_a_csv_file(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out.v1", sampling_probability="1")) == 0
    rows = released(tmp_path / "out.v1.csv")
    assert len(rows) == 48
    assert all(row["sampled"] == "1" for row in rows)
    assert not capsys.readouterr().err


def test_a_parquet_file(tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = np.array(["2024-01-01T00:30", "2024-01-01T05:00"], dtype="datetime64[ms]")
    parquet.write_table(arrow.table({"who": [1, 2], "when": times}), tmp_path / "log.parquet")
    assert main(arguments(tmp_path / "log.parquet", tmp_path / "out")) == 0
    assert len(released(tmp_path / "out.csv")) == 48


def test_csv_times_and_identifiers(log_file):
    log = read_csv_log(log_file, identifier="who", time="when", zone="America/New_York")
    assert log["who"].tolist() == ["ann", "bob", None, "cy", "short"]
    utc = ["2024-01-01T05:30", "2024-01-01T05:00", "2024-01-01T10:00", "NaT", "NaT"]
    assert np.array_equal(log["when"], np.array(utc, dtype="datetime64[us]"), equal_nan=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"identifier": "nobody"}, "column 'nobody' is not in the first line of log.csv"),
        ({"epsilon": "0"}, "epsilon (0.0) must be greater than 0"),
        ({"epsilon": "nan"}, "epsilon (nan) must be finite"),
        ({"delta": "1e-320"}, "no noise meets epsilon"),
        ({"sampling_probability": "0"}, "keeps no step"),
        ({"delta": "2"}, "delta (2.0) must be less than 1"),
        ({"participation_cap": "0"}, "participation_cap (0) must be at least 1"),
        ({"step": "1 month"}, "step"),
        ({"zone": "Mars/Olympus"}, "zone ('Mars/Olympus')"),
        ({"sampling_probability": "1.5"}, "sampling_probability (1.5) must be at most 1"),
        ({"filter_std": "-1"}, "std (-1.0)"),
    ],
)
def test_errors_are_one_line_and_say_what_to_change(log_file, tmp_path, capsys, changes, message):
    assert main(arguments(log_file, tmp_path / "out", **changes)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


def test_a_missing_file(tmp_path, capsys):
    assert main(arguments(tmp_path / "none.csv", tmp_path / "out")) == 2
    assert "none.csv" in capsys.readouterr().err


def test_public_parameters_are_never_read_from_a_file(log_file, tmp_path, capsys):
    for left_out in ARGUMENTS:
        with pytest.raises(SystemExit):
            main(arguments(log_file, tmp_path / "out", **{left_out.removeprefix("--").replace("-", "_"): None}))
        assert left_out in capsys.readouterr().err


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
            log = read_csv_log(path, identifier="who", time="when", zone="UTC")
            there = set(log["who"][~np.isnat(log["when"])].tolist())
            assert {f"p{k}" for k in range(500)} <= there
            assert len(there) <= 501


def test_spaces_and_case_keep_people_apart(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('who,when\r\n ann,2024-01-01\r\nann,2024-01-01\r\n"ann, b", 2024-01-01 \r\n')
    log = read_csv_log(path, identifier="who", time="when", zone="UTC")
    assert log["who"].tolist() == [" ann", "ann", "ann, b"]
    assert not np.isnat(log["when"]).any()


def test_a_file_without_a_header_is_refused_without_showing_it(tmp_path, capsys):
    path = tmp_path / "nohead.csv"
    path.write_text("alice,2024-01-01T00:10\n")
    assert main(arguments(path, tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert "the first line of nohead.csv" in said
    assert "alice" not in said
    path.write_text("who,who,when\n")
    assert main(arguments(path, tmp_path / "out")) == 2
    assert "more than once" in capsys.readouterr().err


def test_what_can_fail_fails_before_the_release(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "nowhere" / "out")) == 2
    assert "No such file or directory" in capsys.readouterr().err
    (tmp_path / "folder.csv").mkdir()
    for output in (tmp_path / "folder", ".", "/", tmp_path / "..", tmp_path / ("x" * 300)):
        assert main(arguments(log_file, output)) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(arguments(log_file, tmp_path / "out", epsilon="800")) == 0
    assert "e^ε times as likely" in " ".join(capsys.readouterr().out.split())


def test_printed_guarantees_are_never_below_the_stated_ones(log_file, tmp_path, capsys):
    assert main(arguments(log_file, tmp_path / "out", epsilon="0.12345671")) == 0
    assert "ε = 0.123457," in capsys.readouterr().out


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "opendp_timeseries", "--help"], capture_output=True, text=True, check=True
    )
    assert "python -m opendp_timeseries" in done.stdout
