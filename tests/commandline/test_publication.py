"""The publication file: one file of public words, from which all commands are run, and no line of Python."""

import csv
import json
import random
import sys
import tomllib

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import inputs, publication
from opendp_timeseries.commandline.words import TABLES, WORDS
from tests.refused import refusal

FLAGS = [
    "--identifier",
    "card",
    "--time",
    "time",
    "--start",
    "2024-03-01",
    "--end",
    "2024-06-01",
    "--step",
    "1d",
    "--zone",
    "Europe/London",
    "--every",
    "1mo",
    "--participation-cap",
    "6",
    "--by",
    "station",
    "--keys",
    "stations.csv",
    "--total",
    "city",
    "--groups",
    "district",
    "--key-cap",
    "1",
    "--people",
    "--people-cap",
    "3",
    "--epsilon",
    "100",
    "--delta",
    "1e-6",
    "--ledger",
    "rides.ledger",
    "--season",
    "7",
    "--figure",
    "none",
]
STATIONS = {"a": "north", "b": "north", "c": "south"}


def exported(path, month, rows, stations, cards=300):
    """Write the rides of a month, on the clock of London."""
    draw = random.Random(month)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["card", "time", "station"])
        for _ in range(rows):
            at = f"2024-{month:02}-{draw.randint(1, 30):02}T{draw.randrange(24):02}:{draw.randrange(60):02}"
            out.writerow([f"card {draw.randrange(cards)}", at, draw.choice(stations)])


@pytest.fixture
def city(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    (tmp_path / "stations.csv").write_text(
        "station,district\n" + "".join(f"{key},{group}\n" for key, group in STATIONS.items())
    )
    for month in (3, 4):
        exported(tmp_path / f"rides-2024-{month:02}.csv", month, 1500, list(STATIONS))
    assert main(["init", "publication.toml", *FLAGS]) == 0
    text = (tmp_path / "publication.toml").read_text()
    (tmp_path / "publication.toml").write_text(text.replace('#file = "rides.csv"', 'file = "rides-{part}.csv"'))
    return tmp_path


def changed(folder, before, after):
    text = (folder / "publication.toml").read_text()
    assert before in text
    (folder / "publication.toml").write_text(text.replace(before, after))


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_city_publishes_every_month(city, capsys, monkeypatch):
    drawn, plot_panel = [], ts.plot_panel
    monkeypatch.setattr(ts, "plot_panel", lambda *a, **k: drawn.append(k["guarantee"]) or plot_panel(*a, **k))
    changed(city, 'figure = "none"', 'figure = "png"')
    assert main(["programme", "publication.toml"]) == 0
    assert "Nothing is fixed yet" in capsys.readouterr().out
    assert not (city / "rides.ledger").exists()
    assert main(["release", "publication.toml"]) == 2
    assert "rides.ledger) is not there" in refusal(capsys)
    assert main(["programme", "publication.toml", "--new"]) == 0
    assert "Left: 3 of 3; next is part 1, 2024-03." in capsys.readouterr().out
    assert main(["check", "publication.toml"]) == 0
    assert "1500 rows were read" in capsys.readouterr().err
    assert main(["release", "publication.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "release 1 of 3 in the programme of a ledger with (ε = 100, δ = 1e-06) in all" in said
    assert "This is part 1 of 3 of a programme" in said
    assert "release 1 of 3 in the programme of a ledger with (ε = 100, δ = 1e-06) in all" in drawn[0]
    assert f"{drawn[0]}. Whether or not" in said
    assert (city / "release-2024-03.png").read_bytes().startswith(b"\x89PNG")
    assert main(["release", "publication.toml", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["programme", "publication.toml"]) == 0
    assert "Left: 1 of 3; next is part 3, 2024-05." in capsys.readouterr().out
    assert main(["ledger", "publication.toml"]) == 0
    assert "all of it planned in advance" in capsys.readouterr().out
    assert main(["verify", "publication.toml"]) == 0
    assert capsys.readouterr().out.count("Verified") == 2
    for name, number in (("2024-03", 1), ("2024-04", 2)):
        for release in ts.read_releases((city / f"release-{name}.json").read_text()):
            whole = release.stated.whole
            assert (whole.number, whole.parts, whole.loss) == (number, 3, (100.0, 1e-6))
    # Totals add up, whatever the noise; and the clocks change within March.
    rows = rows_of(city / "release-2024-03.csv")
    assert {row["key"] for row in rows} == {"city", "north", "south", *STATIONS}
    by_key = {
        key: np.array([float(r["private_count"]) for r in rows if r["key"] == key]) for key in {*STATIONS, "city"}
    }
    assert np.allclose(by_key["city"], sum(by_key[key] for key in STATIONS))
    assert rows[29]["step_start"] == "2024-03-30T00:00:00+00:00"
    assert rows_of(city / "release-2024-04.csv")[0]["step_start"] == "2024-04-01T00:00:00+01:00"
    people = {row["key"]: float(row["individuals"]) for row in rows_of(city / "release-2024-03-people.csv")}
    with (city / "rides-2024-03.csv").open() as file:
        log = list(csv.DictReader(file))
    for key, found in people.items():  # the noise has a standard deviation of about 3
        assert abs(found - len({row["card"] for row in log if key in ("", row["station"])})) < 40


def test_next_month_is_not_released_before_it_is_over(city, capsys):
    changed(city, 'start = "2024-03-01"', 'start = "2100-03-01"')
    changed(city, 'end = "2024-06-01"', 'end = "2100-06-01"')
    assert main(["programme", "publication.toml", "--new"]) == 0
    capsys.readouterr()
    assert main(["release", "publication.toml"]) == 2
    assert "part 1 of the programme ends at 2100-04-01T00:00, which is still to come" in refusal(capsys)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("epsilon = 100.0", 'epsilon = "one"', 'epsilon ("one") must be a number, such as 1.0'),
        ("epsilon = 100.0", "epsilon = true", "epsilon (true) must be a number"),
        ("epsilon = 100.0", "epsilonn = 1", "'epsilonn' in [budget] is not known; did you mean epsilon?"),
        ("epsilon = 100.0", "epsilon = 1\nepsilon = 2", "is no TOML: Cannot overwrite a value"),
        ("epsilon = 100.0", "epsilon = 1\nstep_cap = 2", "step_cap must stand in [count], not in [budget]; move it"),
        ("participation_cap = 6", "participation_cap = 6.5", "participation_cap (6.5) must be a whole number"),
        ("[outputs]", "[output]", "[output] is no table of a publication"),
        ('figure = "none"', 'figure = "gif"', 'figure ("gif") must be one of png, svg, pdf, none'),
        ('end = "2024-06-01"', "size = 3\nend = 2024-06-01", "must not both be given: leave one out"),
        ('end = "2024-06-01"', "end = 2024-06-02", "must be the end of a step of 1mo"),
        ("key_cap = 1", "key_cap = 0", "key_cap (0) must be at least 1"),
        ('by = "station"', "", "for several keys: give by, or leave it out"),
        ('ledger = "rides.ledger"', "", "(1mo) is for a release with ledger: give ledger"),
        ("season = [7.0]", 'season = ["x"]', "must be a number of steps"),
        ('groups = ["district"]', 'groups = ["ward"]', "must have one column 'ward'"),
        ('step = "1d"', 'step = "1d"\n"x y" = 1', "'x y' in [grid] is not known"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line_before_data_are_read(city, capsys, monkeypatch, before, after, message):
    assert main(["programme", "publication.toml", "--new"]) == 0
    for name in ("read_csv_log", "read_parquet_log"):
        monkeypatch.setattr(inputs, name, lambda *_, **__: pytest.fail("the log was read"))
    capsys.readouterr()
    changed(city, before, after)
    files = sorted(city.iterdir())
    assert main(["release", "publication.toml"]) == 2
    said = refusal(capsys)
    assert message in said
    assert "publication.toml" in said
    if before not in ('by = "station"', 'ledger = "rides.ledger"', 'groups = ["district"]'):
        assert "line" in said
    assert sorted(city.iterdir()) == files
    assert ts.Ledger("rides.ledger").entries == ()


def test_a_flag_does_not_contradict_the_file(city, capsys):
    assert main(["release", "publication.toml", "--epsilon", "2"]) == 2
    assert "epsilon is said here and by --epsilon; change it here, or leave the flag out" in refusal(capsys)


def test_a_changed_file_is_not_what_was_planned(city, capsys):
    assert main(["programme", "publication.toml", "--new"]) == 0
    capsys.readouterr()
    changed(city, "participation_cap = 6", "participation_cap = 7")
    assert main(["release", "publication.toml"]) == 2
    assert "is for a programme with another grid, other caps or keys" in refusal(capsys)


def test_init_writes_every_word_and_never_over_a_file(city, capsys):
    text = (city / "publication.toml").read_text()
    for _, words in TABLES.values():
        for name in words:
            assert f"{name} = " in text
    every = "\n".join(
        line.removeprefix("#") if " = " in line and line[1:2].isalpha() else line for line in text.split("\n")
    )
    assert {name for table in tomllib.loads(every).values() for name in table} == WORDS.keys()
    (city / "every.toml").write_text(every)
    assert publication.read_publication(city / "every.toml")[0].keys() == WORDS.keys()  # its examples can be read
    capsys.readouterr()
    assert main(["init", "publication.toml"]) == 2
    assert "exists already" in refusal(capsys)
    assert (city / "publication.toml").read_text() != ""


def test_init_asks_in_a_terminal(tmp_path, monkeypatch):
    answers = {
        "file": "log.csv", "identifier": "card", "time": "when", "zone": "Europe/Oslo", "start": "2024-01-01",
        "end": "2024-02-01", "step": "1h", "step_cap": "2", "epsilon": "one", "delta": "1e-6", "season": "24 168",
    }  # fmt: skip

    def ask(question):
        name = question.partition(":")[0]
        answer, answers["epsilon"] = answers[name], "1" if name == "epsilon" else answers["epsilon"]
        return answer

    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    options = publication.argparse.Namespace(**dict.fromkeys(WORDS), path=tmp_path / "publication.toml")
    publication.init(options, ask)
    values, lines = publication.read_publication(tmp_path / "publication.toml")
    assert (values["step_cap"], values["epsilon"], values["season"]) == (2, 1.0, [24.0, 168.0])
    assert values.keys() == answers.keys() == lines.keys()


def test_a_panel_by_flags_without_a_programme(city, capsys):
    log = ["rides-2024-03.csv", *FLAGS[:4], "--start", "2024-03-01", "--size", "28", "--step", "1d"]
    budget = ["--epsilon", "50", "--delta", "1e-6", "--figure", "none", "--individuals", "2000000"]
    assert main([*log, *budget, "--by", "station", "--keys", "a", "b", "--people", "--output", "people"]) == 0
    releases = ts.read_releases((city / "people.json").read_text())
    assert [release.size for release in releases] == [28 * 2 * releases[0].design.count.scales.series, 1]
    assert releases[0].stated.whole.loss[0] <= 50  # nobody is dropped, and the number of people is in the budget
    capsys.readouterr()
    assert main([*log, *budget, "--by", "station", "--keys", "a", "b"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "for each of 2 keys of 'station'" in said
    assert "δ = 1e-06 is more than one over the number of individuals (2000000)" in said
    assert json.loads((city / "release.json").read_text())["format"] == "opendp_timeseries release"
    assert len(rows_of(city / "release.csv")) == 56
    noisy = [*log, "--epsilon", "0.01", "--delta", "1e-6", "--figure", "none", "--output", "noisy"]
    assert main(noisy) == 0
    assert "is above the level of the series" in " ".join(capsys.readouterr().out.split())
    for more, message in (
        (["--total", "city"], "--total (city) is for several keys: give --by"),
        (["--by", "station"], "--by (station) is for public keys, which are not read from the log: give --keys"),
        (["--people", "--period", "1d"], "--people and --period (1d) must not both be given"),
        (["--number", "2"], "--number (2) is for a programme: give --every"),
    ):
        assert main([*log, *budget, "--output", "no", *more]) == 2
        assert message in refusal(capsys)


def test_rough_knowledge_tells_what_a_cap_loses(capsys):
    plan = ["plan", "--size", "672", "--participation-cap", "20", "200", "--epsilon", "1", "--delta", "1e-6"]
    series = ["--deviation", "20", "--time-scale", "12", "--filter-std", "0", "--sampling-probability", "1"]
    assert main([*plan, *series, "--level", "200", "--participation", "90%:20", "100%:500"]) == 0
    assert "lost" in capsys.readouterr().out
    assert main([*plan, *series, "--participation", "90%:20", "100%:500"]) == 2
    assert "give --level, too" in refusal(capsys)
    assert main([*plan, *series, "--level", "200", "--participation", "90%:20", "80%:500"]) == 2
    assert "must ascend in shares" in refusal(capsys)


def test_the_small_things(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"opendp_timeseries {ts.__version__}\n"
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "complete -o default -F _opendp_timeseries opendp-timeseries" in script
    assert "--participation-cap" in script
    assert "programme)" in script


@pytest.mark.long
def test_the_whole_walk(tmp_path, monkeypatch, capsys):
    """400,000 rides a month at 60 stations, through a change of the clocks, to the second month."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    stations = [f"s{k}" for k in range(60)]
    (tmp_path / "stations.csv").write_text("station,district\n" + "".join(f"s{k},d{k % 6}\n" for k in range(60)))
    for month in (3, 4):
        exported(tmp_path / f"rides-2024-{month:02}.csv", month, 400_000, stations, cards=40_000)
    flags = [*FLAGS[: FLAGS.index("--epsilon")], "--epsilon", "1", *FLAGS[FLAGS.index("--epsilon") + 2 : -2]]
    flags[flags.index("2024-06-01")] = "2025-03-01"
    assert main(["init", "publication.toml", *flags]) == 0
    changed(tmp_path, '#file = "rides.csv"', 'file = "rides-{part}.csv"')
    assert main(["programme", "publication.toml", "--new"]) == 0
    for _ in range(2):
        assert main(["release", "publication.toml"]) == 0
    assert main(["verify", "publication.toml"]) == 0
    assert ts.Ledger("rides.ledger").spent().epsilon < 1
    assert {"release-2024-03.png", "release-2024-04.png"} <= {path.name for path in tmp_path.iterdir()}
