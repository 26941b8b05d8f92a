"""The ledger on the command line: ``--ledger FILE`` with a release, and the command ``ledger``."""

import json
import sys

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import release
from opendp_timeseries.plugin import participation_count

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


def make(output, *more, start="2024-01-01T00:00", epsilon="0.5"):
    budget = ["--epsilon", epsilon, "--delta", "1e-6"] if epsilon else []
    return main(
        ["log.csv", "--identifier", "who", "--time", "when", "--start", start, "--step", "1h", "--size", "24",
         "--participation-cap", "3", *budget, "--output", output, "--ledger", "people.ledger", *more]
    )  # fmt: skip


def new(*options):
    return main(["ledger", "people.ledger", "--new", *(options or ("--epsilon", "1", "--delta", "1e-6"))])


def refusal(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


def test_releases_until_the_budget_is_spent(in_folder, capsys, monkeypatch):
    assert new() == 0
    assert "nothing has been released" in capsys.readouterr().out
    for k in range(2):
        assert make(f"release{k}") == 0
    assert "In people.ledger, all releases so far: (ε = 0." in capsys.readouterr().out
    records = ts.Ledger("people.ledger").releases()
    assert [ts.Release.from_json((in_folder / f"release{k}.json").read_text()) for k in (0, 1)] == list(records)
    with monkeypatch.context() as patch:
        patch.setattr(release, "read_log", lambda options: pytest.fail("the log was read"))
        assert make("release2", epsilon="0.9") == 2
    assert "would exceed the budget of people.ledger" in refusal(capsys)
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
    assert found["epsilon"] == ts.Ledger("people.ledger").spent().epsilon
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
        ((), "2024-01-09T00:00", "must be of one release of the programme"),
        (("--sampling-probability", "0.25"), starts[0], "sampling_probability (0.25) must be left out"),
        ((), starts[1], "would exceed the budget"),
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
        assert ("already" if again != "log.csv" else "record (log.csv) is refused") in refusal(capsys)
    assert (in_folder / "people.ledger").read_bytes() == before


def test_what_failed_is_resumed(in_folder, capsys, monkeypatch):
    assert new() == 0
    with monkeypatch.context() as patch:
        patch.setattr(participation_count, "engine_of", lambda table: (_ for _ in ()).throw(OSError("no disk")))
        patch.setattr(release, "_rehearsal", lambda options, plan: {".csv": b"", ".json": b""})
        assert make("day", "--force") == 2
    capsys.readouterr()
    assert main(["ledger", "people.ledger"]) == 0
    assert "spent, nothing released" in capsys.readouterr().out
    assert make("day", "--resume") == 0
    assert [entry.released is not None for entry in ts.Ledger("people.ledger").entries] == [True]
    capsys.readouterr()
    assert make("again", "--resume") == 2
    assert "has no open entry for this measurement" in refusal(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger", "people.ledger"], "ledger (people.ledger) is not there; check the name"),
        (["ledger", "log.csv"], "ledger (log.csv) is refused: it is in another format"),
        (["ledger", "people.ledger", "--new"], "--new takes the budget of all releases together"),
        (["ledger", "people.ledger", "--new", "--epsilon", "1"], "--epsilon and --delta, or --programme"),
        (["ledger", "people.ledger", "--delta", "1"], "--delta is fixed when a ledger is made: give --new"),
        (["ledger", "people.ledger", "--parameters-fixed"], "--parameters-fixed is fixed when a ledger is made"),
        (["ledger", "people.ledger", "--new", "--epsilon", "-1", "--delta", "1e-6"], "epsilon (-1.0) must be greater"),
        (["ledger", "log.csv", "--new", "--epsilon", "1", "--delta", "1e-6"], "ledger (log.csv) is there already"),
        (["ledger", "none/a", "--new", "--epsilon", "1", "--delta", "1e-6"], "folder that is not there"),
        (["ledger", "a", "--new", "--programme", "log.csv"], "programme (log.csv) is refused"),
        (
            ["ledger", "a", "--new", "--programme", "log.csv", "--parameters-fixed"],
            "--parameters-fixed is for a ledger",
        ),
        (["ledger", "a", "--new", "--programme", "log.csv", "--delta", "1"], "or --programme"),
        (["--resume", "--output", "a"], "--resume is for a release with --ledger"),
        (["--ledger", "people.ledger", "--output", "a"], "is not there"),
    ],
)
def test_refusals(in_folder, capsys, arguments, message):
    before = sorted(path.name for path in in_folder.iterdir())
    assert main(arguments) == 2
    assert message in refusal(capsys)
    assert [path.name for path in sorted(in_folder.iterdir()) if path.suffix != ".lock"] == before


def test_without_a_programme_a_release_says_its_budget(in_folder, capsys):
    assert new() == 0
    capsys.readouterr()
    assert make("day", epsilon=None) == 2
    assert "has no programme: give --epsilon and --delta of this release" in refusal(capsys)


def test_a_ledger_of_days_takes_nothing_else(in_folder, capsys):
    assert new("--epsilon", "1", "--delta", "1e-6", "--period", "1d") == 0
    assert "within one day (UTC), not all that they did" in capsys.readouterr().out
    before = (in_folder / "people.ledger").read_bytes()
    assert make("other") == 2
    assert "what the two lose does not add up" in refusal(capsys)
    assert (in_folder / "people.ledger").read_bytes() == before
    assert make("days", "--period", "1d") == 0
    assert "all releases so far" in (said := capsys.readouterr().out)
    assert "within one day (UTC), not all that they did, added or removed." in said


def test_what_does_not_go_with_a_period_is_refused(in_folder, capsys):
    assert new("--epsilon", "1", "--delta", "1e-6", "--zone", "UTC") == 2
    assert "--zone (UTC) is of --period" in refusal(capsys)
    assert new("--programme", "year.json", "--period", "1d") == 2
    assert "--period is for a ledger without --programme" in refusal(capsys)
    assert main(["ledger", "people.ledger", "--period", "1d"]) == 2
    assert "--period is fixed when a ledger is made" in refusal(capsys)
