"""What commands refuse, each parameter with its value, and what they say in private, in transcripts.

``pytest --update -k transcript`` writes anew what commands say. In a transcript, ``$`` is a
command with the usual flags, of which ``--no-FLAG`` leaves one out, and ``$$`` is one as it is typed.
"""

import re
import shlex
from pathlib import Path

import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import inputs
from tests import make
from tests.refused import fields, refusal, without_prose  # noqa: F401

RELEASE = (
    "--identifier who --time when --start 2024-01-01T00:00 --step 1h --size 48 --participation-cap 3 --epsilon 2"
    " --delta 1e-6 --output out"
)
PLAN = "--size 672 --epsilon 1 --delta 1e-6 --level 200 --season 24:90 --deviation 20 --time-scale 12 --filter-std 0"
#: The usual flags of a command.
USUAL = {"release": RELEASE, "check": RELEASE, "plan": PLAN}


def lines(text, encoding="utf-8"):
    return (text.replace("|", "\n") + "\n").encode(encoding)


LOGS = {
    "log.csv": lines("who,when|ann,2024-01-01T00:30|bob,2024-01-01T05:00Z|,2024-01-01T05:00|cy,rubbish|short"),
    "cp1252.csv": lines("who,when,größe", "cp1252"),
    "cp1251.csv": lines("who,when,размер", "cp1251"),
    "utf-16.csv": lines("who,when|ann,2024-01-01", "utf-16"),
    "utf-16-be.csv": lines("who,when|ann,2024-01-01", "utf-16-be"),
    "no-header.csv": lines("alice,2024-01-01T00:10"),
    "twice.csv": lines("who,who,when"),
    "cp1252.json": lines('{"title": "Köln"}', "cp1252"),
    # 4 people; a row lacks its identifier, 2 their times, 3 are off the grid; dan is over the cap of 3.
    "mixed.csv": lines(
        f"who,when{'|ann,2024-01-01T00:30' * 2}|bob,2024-01-01 05:00:00 UTC|,2024-01-01T05:00|cy,01.03.2024|cy,"
        f"{''.join(f'|dan,2024-01-01T0{hour}:00' for hour in range(5))}{'|eve,2023-01-01' * 3}"
    ),
    "places.csv": lines(f"who,when,at{''.join(f'|ann,2024-01-01T{hour:02}:30,mitte' for hour in range(9))}|,,"),
    "cities.csv": lines(
        "who,when,city|a,2024-01-01,Köln|b,2024-01-01,Köln|a,2024-01-01,Düren|a,2024-01-01,Ulm", "cp1252"
    ),
}


def typed(line):
    """Return the words of a command of a transcript."""
    words = shlex.split(line.lstrip("$"))
    if line.startswith("$$"):
        return words
    command = words.pop(0) if words[0] in USUAL else "release"
    file = [words.pop(0)] if words and not words[0].startswith("--") else ["log.csv"] * (command != "plan")
    named = {word.partition("=")[0].replace("--no-", "--") for word in words}
    usual = [word for pair in re.findall(r"(\S+) (\S+)", USUAL[command]) if pair[0] not in named for word in pair]
    words = [*file, *usual, *(word for word in words if not word.startswith("--no-"))]
    return words if command == "release" else [command, *words]


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, written in LOGS.items():
        Path(file).write_bytes(written)
    Path("folder.csv").mkdir()
    return tmp_path


@pytest.mark.usefixtures("without_prose")
@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
@pytest.mark.parametrize("name", ["before_reading", "of_logs", "of_ledgers", "of_plans"])
def test_commands_are_refused_in_one_line_and_leave_no_file(logs, monkeypatch, capsys, snapshot, name):
    if name == "of_ledgers":
        ts.Ledger.create("people.ledger", epsilon=1.0, delta=1e-6)
        ts.Ledger.create("days.ledger", epsilon=1.0, delta=1e-6, period="1d", zone="UTC")
        count = make.space(identifier="who", time="when") >> (
            ts.then_participation_count(ts.TimeGrid(size=9), participation_cap=3)
        )
        programme = ts.Programme.plan([count], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
        Path("programme.json").write_text(programme.to_json())
    if name != "of_logs":
        for reader in ("read_csv_log", "read_parquet_log"):
            monkeypatch.setattr(inputs, reader, lambda *_, **__: pytest.fail("the log was read"))
    before = content(logs)

    def refused(line):
        capsys.readouterr()
        assert main(typed(line)) == 2, line
        said = fields(refusal(capsys))
        assert content(logs) == before
        return said.replace(str(logs), "/FOLDER")

    snapshot.transcript(f"{name}.txt", refused)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
def test_checks_say_in_private_how_rows_are_read(logs, capsys, snapshot):
    """Each paragraph stands in the transcript once."""
    before, seen = content(logs), set()

    def say(line):
        assert main(typed(line)) == 0, line
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("PRIVATE: do not publish\n")
        assert content(logs) == before
        paragraphs = [each for each in said.err.split("\n\n") if each not in seen]
        seen.update(paragraphs)
        return "\n".join(paragraphs)

    snapshot.transcript("checks.txt", say)
