"""What a command says while somebody waits: in a terminal, on standard error, and of public facts alone."""

import io
import re
import sys
import time

import pytest

from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import waiting
from opendp_timeseries.commandline.waiting import stage
from opendp_timeseries.counting import files
from opendp_timeseries.counting.progress import report

GRID = ["--start", "2024-01-01", "--size", "24", "--step", "1h", "--zone", "UTC"]
CHECK = ["--identifier", "who", "--time", "when", *GRID, "--participation-cap", "2"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Gone(Terminal):
    def write(self, text):
        raise OSError("hung up")


def terminal_of(monkeypatch, terminal=Terminal):
    monkeypatch.setattr(sys, "stderr", terminal())
    monkeypatch.setattr(waiting, "_PATIENCE", 0.0)
    monkeypatch.setattr(waiting, "_REPORT_PAUSE", 0.0)
    return sys.stderr


def test_it_says_what_is_done_and_how_far(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with stage("Reading log.csv", quiet=None):
        until = time.monotonic() + 60
        while not terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.001)
        report(1, 3)
        report(5, 0)  # of no length
    report(1, 2)  # nobody waits
    assert terminal.getvalue() == "Reading log.csv …\n  33% \r      \r"


def test_soon_and_quietly_it_says_nothing(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with stage("Reading log.csv", quiet=True):
        report(1, 3)
    monkeypatch.setattr(waiting, "_PATIENCE", 1e6)
    with stage("Reading log.csv", quiet=False):
        report(1, 3)
    monkeypatch.setattr(waiting, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with stage("Reading log.csv", quiet=False):
        report(1, 3)
    assert (terminal.getvalue(), sys.stderr.getvalue()) == ("", "")


def test_a_log_without_a_terminal_says_what_takes_long(monkeypatch):
    """Of releases alone: how long it takes to read a log is private."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(waiting, "_LOG_PAUSES", (0.0, 0.0))
    with stage("Reading log.csv", quiet=None):
        time.sleep(0.01)
    with stage("Joining the parts", quiet=True, logged=True):
        time.sleep(0.01)
    assert not sys.stderr.getvalue()
    with stage("Joining the parts", quiet=None, logged=True):
        until = time.monotonic() + 60
        while sys.stderr.getvalue().count("\n") < 2 and time.monotonic() < until:
            time.sleep(0.001)
    line = "Joining the parts … 0 s so far\n"
    assert sys.stderr.getvalue().startswith(2 * line)


@pytest.mark.parametrize("closed", [False, True])
def test_a_terminal_that_is_gone_ends_nothing(monkeypatch, closed):
    """What is read may be paid for."""
    terminal = terminal_of(monkeypatch, Gone)
    with stage("Reading log.csv", quiet=None):
        time.sleep(0.05)  # in which the first words are said
        if closed:
            terminal.close()
        report(1, 3)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_how_much_of_a_file_is_read(tmp_path, monkeypatch, kind):
    """By its length alone: another log as long says the same."""
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(files, "_BLOCK", 2**10)
    monkeypatch.setattr(files, "_PIECE", 2**6)
    said = []
    for people in (["ann", "bob"], ["eve", "eve"]):
        path, when = tmp_path / f"log.{kind}", [f"2024-01-01T{k % 24:02}:30" for k in range(1000)]
        if kind == "csv":
            path.write_text("who,when\n" + "".join(f"{people[k % 2]},{t}\n" for k, t in enumerate(when)))
        else:
            arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            times = arrow.array([f"{t}:00" for t in when]).cast(arrow.timestamp("s"))
            table = arrow.table({"who": [people[k % 2] for k in range(1000)], "when": times})
            parquet.write_table(table, path)
        assert main(["check", str(path), *CHECK]) == 0
        shares = terminal.getvalue().partition("PRIVATE")[0]
        said.append(re.findall(r"\d+%", shares))  # what is being read is said by a timer, in between
        terminal.truncate(0)
        terminal.seek(0)
    assert said[0] == said[1]
    assert "100%" in said[0][-1]
    assert len(said[0]) > 2
