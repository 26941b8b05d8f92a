"""The publication file: one file of public words, from which all commands are run, and no line of Python."""

import base64
import csv
import html
import json
import random
import re
import shlex
import shutil
import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.commandline import inputs, outputs, publication, release, waiting
from opendp_timeseries.commandline.arguments import parse
from opendp_timeseries.commandline.words import TABLES, WORDS
from opendp_timeseries.smoothing.everybody import last_tier
from tests import make
from tests.commandline.trips import check_names_on_pages, export_trips, stations
from tests.refused import fields, refusal, without_prose  # noqa: F401

#: What a city says that publishes every month.
FLAGS = shlex.split(
    "--file trips-{part}.csv --identifier card --time started --start 2024-03-01 --end 2024-06-01 --step 1d"
    " --zone Europe/London --every 1mo --participation-cap 6 --by station --keys stations.csv --total city"
    " --groups district --key-cap 1 --people --people-cap 3 --epsilon 100 --delta 1e-6 --ledger trips.ledger"
    " --season 7 --figure none"
)


def export(folder, rows, places, *, cards):
    """Write what a city has: its stations, and the trips of two months."""
    lines = ["station,district", *(f"{name},{district}" for name, district in places.items())]
    (folder / "stations.csv").write_text("\n".join(lines) + "\n")
    return {m: export_trips(folder / f"trips-2024-{m:02}.csv", m, rows, places, cards=cards) for m in (3, 4)}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The folder of a city that has planned its programme."""
    folder = tmp_path_factory.mktemp("city")
    export(folder, 1500, stations(3), cards=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", None)
        assert main(["init", "publication.toml", *FLAGS]) == 0
        assert main(["programme", "publication.toml", "--new"]) == 0
    return folder


@pytest.fixture
def city(planned, tmp_path, monkeypatch):
    folder = tmp_path / "city"
    shutil.copytree(planned, folder)
    monkeypatch.chdir(folder)
    return folder


def changed(folder, before, after):
    text = (folder / "publication.toml").read_text()
    assert before in text
    (folder / "publication.toml").write_text(text.replace(before, after))


def line_of(folder, beginning, file="publication.toml"):
    lines = (folder / file).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.startswith(beginning))


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


CAPS = "--key-cap 1 --participation-cap 30 --people-cap 3"
#: A city's year, as it is typed: no line of Python, and the second command of each month is the first of the next.
WALK = """
init publication.toml --file trips-{part}.csv --identifier card --time started --start 2024-03-01 --end 2025-03-01\
 --step STEP --zone Europe/London --every 1mo --ledger trips.ledger --by station --keys stations.csv\
 --total city --groups district CAPS --people --epsilon 1 --delta 1e-6\
 --season SEASON --holidays 2024-03-29 2024-04-01 --individuals CARDS --figure FIGURE --title 'Bike riders'\
 --page --spreadsheet
programme publication.toml --new
check publication.toml
release publication.toml
release publication.toml
programme publication.toml
verify publication.toml
ledger publication.toml
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("caps", "rows", "number", "cards", "step", "season", "figure"),
    [
        ("--people-by-key", 20_000, 6, 4000, "1d", "1w", "none"),
        (CAPS, 20_000, 6, 4000, "1d", "1w", "none"),
        (CAPS, 400_000, 60, 40_000, "1h", "1d 1w", "png"),
    ],
)
def test_a_city_publishes_every_month(tmp_path, capsys, monkeypatch, caps, rows, number, cards, step, season, figure):
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    trips, said = export(tmp_path, rows, stations(number), cards=cards), []
    chosen = {"STEP": [step], "SEASON": season.split(), "CARDS": [str(cards)], "FIGURE": [figure], "CAPS": caps.split()}
    for command in WALK.strip().splitlines():
        command = [word for each in shlex.split(command) for word in chosen.get(each, [each])]
        assert main(command) == 0
        said.append(" ".join("".join(capsys.readouterr()).split()))
    _, new, check, first, second, after, verified, ledger = said
    of_totals = " noise of totals" if caps == CAPS else ""  # else they are in the norm of the series
    assert f"part from state noise of series{of_totals} noise of people noise of people by key alone" in new
    assert "Left: 12 of 12; next is part 1, 2024-03." in new
    alone = re.search(r"2024-03[0-9a-z -]* planned [0-9. ]+ ε = ([0-9.]+)", new)[1]
    assert f"Guarantee: (ε = {alone}, δ = 1e-06)" in first
    assert f"Part 1 of 12, 2024-03, in trips-2024-03.csv PRIVATE: do not publish {rows} rows were read" in check
    programme = re.search(r"It is programme ([0-9a-f]{16}): every part names it.", new)[1]
    of_all = f"in programme {programme} with (ε = 1, δ = 1e-06) in all"
    assert of_all in first
    assert "This is part 2 of 12 of a programme" in second
    assert "Left: 10 of 12; next is part 3, 2024-05." in after
    assert "Verified: the parameters in release-2024-03.json, release-2024-04.json, each of " in verified
    # With the δ of the ledger, as on the page; of the programme, once.
    end = f"all of them together (ε = {alone}, δ = 1e-06)-differential privacy for one individual added or removed;"
    assert f"{end} {of_all}. Alone, they give: individuals at {number} keys of 'station' (ε = " in verified
    assert verified.count("No record can show") == verified.count("in programme") == 1  # for all of them
    assert "all of it planned in advance" in ledger
    assert ts.Ledger("trips.ledger").verify().epsilon < 1
    assert check_names_on_pages(tmp_path, "release*.html") == len(trips)
    for month, (local, card, station) in trips.items():
        name = f"release-2024-{month:02}"
        assert (tmp_path / f"{name}.png").exists() == (figure == "png")
        page = (tmp_path / f"{name}.html").read_text()
        assert of_all in page
        assert "<h1>Bike riders</h1>" in page
        in_all, *at_keys = rows_of(tmp_path / f"{name}-people.csv")
        assert len(at_keys) == number
        assert {row["people_cap"] for row in at_keys} == {"3" if caps == CAPS else ""}
        assert in_all["people_cap"] == ""
        assert ("numbers are too low by the others" in page) == (caps == CAPS)
        for name_of_row, row in [("in all", in_all), *((row["key"], row) for row in at_keys)]:
            shown = f"{float(row['individuals']):,.0f}".replace(",", "\u202f")
            assert re.search(f"<th scope=row>{name_of_row}</th><td[^>]*>{shown} ", page)
        assert f"from 2024-{month:02}-01" + {"1d": "", "1h": " 00:00"}[step] in page
        if step == "1d":
            assert f"from 2024-{month:02}-01 to 2024-{month:02}-{34 - month}, on the clock" in page
            assert "<h2>Totals by month</h2>" in page
        records = re.findall(r"data:application/json[^,]*;base64,([^\"]*)", page)
        assert len(records) == (step == "1d")  # of hours it is too long for a page as it is
        for record in records:
            assert base64.b64decode(record).decode() + "\n" == (tmp_path / f"{name}.json").read_text()
            assert f"(ε = {alone}, δ = 1e-06)" in json.loads(base64.b64decode(record))["guarantee"]
        book = openpyxl.load_workbook(tmp_path / f"{name}.xlsx")
        assert [cell.value for cell in book["Series"][1]][:4] == ["time", "city", "north", "south"]
        for made in ts.read_releases((tmp_path / f"{name}.json").read_text()):
            whole = made.stated.parent
            assert (whole.number, whole.parts, whole.loss) == (None, None, (1.0, 1e-6))
        table = rows_of(tmp_path / f"{name}.csv")
        keys = list(dict.fromkeys(row["key"] for row in table))
        assert keys[0] == "city"
        assert {*keys[1:4], *keys[4:]} == {"north", "south", "docks", *stations(number)}
        columns = ("private_count", "low", "high")
        found = {
            key: np.array([[float(row[c]) for c in columns] for row in table if row["key"] == key]) for key in keys
        }
        stations_sum = sum(found[key][:, 0] for key in stations(number))
        assert np.allclose(found["city"][:, 0], stations_sum, rtol=0, atol=(number + 1) / 2)  # each is rounded
        starts = np.array([row["step_start"][:19] for row in table if row["key"] == "city"], "M8[s]")
        offsets = [row["step_start"][19:] for row in table if row["key"] == "city"]
        in_winter = {("1d", 3): (31, 31), ("1h", 3): (743, 721), ("1d", 4): (30, 0), ("1h", 4): (720, 0)}
        assert (len(starts), offsets.count("+00:00")) == in_winter[step, month]
        # One card counts once at a station in a step; with the caps, once in the city, and next to nobody exceeds them.
        truth = np.zeros(len(starts))
        where = np.zeros(len(card), dtype=np.int64) if caps == CAPS else station
        counted = np.stack([np.searchsorted(starts, local.astype("M8[s]"), "right") - 1, card, where])
        np.add.at(truth, np.unique(counted, axis=1)[0], 1)
        panel, totals, *_ = ts.read_releases((tmp_path / f"{name}.json").read_text())
        totals = totals if caps == CAPS else last_tier(panel, 2)
        noise = (ts.interpolate(totals).by_key()["city"].values - truth) / totals.scale
        low, high = scipy.stats.chi2.ppf([5e-10, 1 - 5e-10], len(truth))
        assert low < noise @ noise < high
        # In ten releases of days made for this comment, the error was 0.2 to 0.6 of the noise.
        assert np.sqrt(np.mean((found["city"][:, 0] - truth) ** 2)) < totals.scale
        assert np.all(found["city"][:, 1] < found["city"][:, 2])
        people = {row["key"]: row for row in rows_of(tmp_path / f"{name}-people.csv")}
        assert people.keys() == {"", *stations(number)}
        within = float(people[""]["high"]) - float(people[""]["low"])
        assert abs(float(people[""]["individuals"]) - len(np.unique(card))) < 4 * within


@pytest.mark.long
def test_a_programme_of_the_flights(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    year = ["--every", "1q", "--end", "2014-01-01T00:00", "--step", "1d", "--ledger", "flights.ledger"]
    assert main(["programme", *year, "--new"]) == 0
    assert main([*year, "--figure", "none", "--season", "7"]) == 0
    assert "This is part 1 of 4 of a programme" in capsys.readouterr().out
    assert len(rows_of(tmp_path / "release-2013-01.csv")) == 90


def test_the_ledger_is_there_before_a_release(city, capsys):
    (city / "trips.ledger").unlink()
    assert main(["release", "publication.toml"]) == 2
    assert "trips.ledger)" in refusal(capsys)
    assert main(["programme", "publication.toml"]) == 0
    assert "Nothing is fixed yet: --new makes trips.ledger" in capsys.readouterr().out
    assert not (city / "trips.ledger").exists()


def test_force_replaces_pages_and_workbooks_of_releases_alone(city, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    how = ["--identifier", "card", "--time", "started", "--start", "2024-03-01", "--size", "7", "--step", "1d"]
    how = [
        "trips-2024-03.csv",
        *how,
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--figure",
        "none",
        "--page",
        "--spreadsheet",
    ]
    assert main(how) == 0
    before = {suffix: (city / f"release{suffix}").read_bytes() for suffix in (".html", ".xlsx")}
    assert main([*how, "--force"]) == 0
    capsys.readouterr()
    assert all((city / f"release{suffix}").read_bytes() != content for suffix, content in before.items())
    assert main([*how[:-2], "--force"]) == 2
    assert "release.html)" in refusal(capsys)
    book = openpyxl.Workbook()
    book.properties.title = "<dc:creator>opendp_timeseries</dc:creator>"
    book.save(city / "mine.xlsx")
    (city / "page.html").write_text("<!doctype html>\n<title>opendp_timeseries</title>")
    (city / "zip.xlsx").write_bytes(b"PK<dc:creator>opendp_timeseries</dc:creator>")
    for name in ("mine.xlsx", "page.html", "zip.xlsx"):
        content = (city / name).read_bytes()
        assert main([*how, "--force", "--output", name.partition(".")[0]]) == 2
        assert f"output ({name})" in refusal(capsys)
        assert (city / name).read_bytes() == content


def test_a_release_is_not_lost_for_its_smoothing(city, capsys, monkeypatch):
    def failing(*_, **__):
        raise MemoryError

    monkeypatch.setattr(outputs, "series_of", failing)
    monkeypatch.setattr(ts, "reconcile", failing)
    changed(city, "#page = true", "page = false")
    assert main(["release", "publication.toml"]) == 0
    captured = capsys.readouterr()
    said = " ".join(captured.out.split())
    assert "The smoother failed (MemoryError): the series are interpolated" in captured.err
    assert "Reconciliation failed (MemoryError): series and totals do not add up" in captured.err
    assert re.search("Made by linear interpolation, from .*noisy values at every step", said)
    assert "reconciled" not in said
    assert {row["key"] for row in rows_of(city / "release-2024-03.csv")} >= {"city", "station 0"}
    assert not (city / "release-2024-03.html").exists()


def test_numbers_of_individuals_are_not_lost_for_the_smoother(capsys, monkeypatch):
    space = make.space(time="step")
    count = space >> ts.then_individual_count(by="site", keys=[0, 1, 2, 3])
    made = count >> ts.then_subsampled_gaussian(9.0, sampling_probability=1.0, delta=1e-6)
    release = made({name: np.arange(9) % 4 for name in ("id", "step", "site")})
    monkeypatch.setattr(ts, "smooth", lambda release: 1 / 0)
    assert np.array_equal(outputs._series_of_individuals(release).values, ts.interpolate(last_tier(release)).values)
    said = "The smoother failed (ZeroDivisionError): numbers of individuals are those of the last tier alone"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.long
def test_the_figure_of_a_panel_says_both_guarantees(city, capsys, monkeypatch):
    drawn, plot = [], ts.plot
    monkeypatch.setattr(ts, "plot", lambda *a, **k: drawn.append(k["guarantee"]) or plot(*a, **k))
    changed(city, 'figure = "none"', 'figure = "png"')
    assert main(["release", "publication.toml"]) == 0
    assert f"{drawn[0]}. Whether or not" in " ".join(capsys.readouterr().out.split())
    programme = ts.Ledger("trips.ledger").programme.identifier[:16]
    assert f"in programme {programme} with (ε = 100, δ = 1e-06) in all" in drawn[0]
    assert (city / "release-2024-03.png").read_bytes().startswith(b"\x89PNG")


def test_a_quiet_release_says_what_its_ledger_pays_for(city, capsys):
    assert main(["release", "publication.toml", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Entry 1 of ")
    assert said.err.count("\n") == 1


def test_next_month_is_not_released_before_it_is_over(city, capsys):
    (city / "trips.ledger").unlink()
    changed(city, 'start = "2024-03-01"', 'start = "2100-03-01"')
    changed(city, 'end = "2024-06-01"', 'end = "2100-06-01"')
    assert main(["programme", "publication.toml", "--new"]) == 0
    capsys.readouterr()
    assert main(["release", "publication.toml"]) == 2
    assert "part 1 of the programme" in refusal(capsys)


@pytest.mark.usefixtures("without_prose")
def test_what_is_wrong_in_a_publication_is_refused_with_its_line_in_a_transcript(city, capsys, monkeypatch, snapshot):
    """In the transcript, ``$`` is a command, or several that say the same, and what is changed in the file."""
    for reader in ("read_csv_log", "read_parquet_log"):
        monkeypatch.setattr(inputs, reader, lambda *_, **__: pytest.fail("the log was read"))
    right, files = (city / "publication.toml").read_text(), sorted(city.iterdir())
    capsys.readouterr()

    def refused(line):
        commands, _, change = line.removeprefix("$ ").partition(" | ")
        before, after = (part.replace("\\n", "\n") for part in change.split(" -> "))
        assert before in right
        (city / "publication.toml").write_text(right.replace(before, after))
        lines = ["", *right.replace(before, after).splitlines()]
        words, *flags = re.split(" (?=--)", commands)
        for command in words.split():
            assert main([command, "publication.toml", *" ".join(flags).split()]) == 2, line
            said = fields(refusal(capsys))
            assert "publication.toml" in said
            assert sorted(city.iterdir()) == files
        return re.sub(r"\bline (\d+)", lambda number: f"line of {lines[int(number[1])].partition(' = ')[0]}", said)

    snapshot.transcript("of_publications.txt", refused)
    assert ts.Ledger("trips.ledger").entries == ()


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("publication.toml", "cp1252", "line 2 .* 0xF6 .* 4.* cp1252"),
        ("publication.toml", "cp850", "line 2 .* 0x94 .* 4.* cp850"),
        ("publication.toml", "cp1251", "line 2 .* 0xCC .* 3"),
        ("publication.toml", "utf-16", "line 1 .* 0xFF .* 1.* UTF-16"),
        ("publication.toml", "utf-16-le", "line 1 .* 0x00 .* 2.* UTF-16"),
        ("stations.csv", "cp1252", "line 2 .* 0xF6 .* 4.* cp1252"),
        ("stations.csv", "utf-16", "line 1 .* 0xFF .* 1.* UTF-16"),
    ],
)
@pytest.mark.parametrize("command", ["check", "release"])
def test_public_files_are_in_utf8_or_refused(city, capsys, monkeypatch, command, file, name, message):
    for reader in ("read_csv_log", "read_parquet_log"):
        monkeypatch.setattr(inputs, reader, lambda *_, **__: pytest.fail("the log was read"))
    first, *lines = (city / file).read_text().splitlines()
    second = "# Москва" if name == "cp1251" else "# Köln"
    (city / file).write_bytes("\n".join([first, second, *lines]).encode(name))
    assert main([command, "publication.toml"]) == 2
    what = "the file" if file == "publication.toml" else f"keys ({file})"
    assert re.search(f"{re.escape(what)} .*{message}", refusal(capsys))
    assert ts.Ledger("trips.ledger").entries == ()


def test_public_files_may_begin_with_a_mark(city, capsys):
    for file in ("publication.toml", "stations.csv"):
        (city / file).write_bytes((city / file).read_text().encode("utf-8-sig"))
    assert main(["check", "publication.toml"]) == 0
    assert "0 have a key that is missing or not listed" in capsys.readouterr().err


def test_a_file_of_keys_that_is_no_csv_is_refused_by_its_name(city, capsys):
    (city / "stations.csv").write_bytes(b"station,district\nx\ry,north\n")
    assert main(["check", "publication.toml"]) == 2
    assert "keys (stations.csv)" in refusal(capsys)


VALUES = [
    *("1", "0", "-1", "1.5", "true", "false", '""', '"x"', "[]", "[1]", '["a", "b"]', '"2024-03-01"', "2024-03-01"),
    *("07:32:00", "nan", "inf", "9" * 20, "{a = 1}", '"Mars/X"', '"1d"', '"1mo"', '["stations.csv"]', '"\\u0000"'),
    *('"a\\nb"', "[[1]]", "[true]", '"90%:20"', '"24:90"', '["24:x"]', "1\n[x]", "1\n= 3", "1\n[[log]]", "1\n[log.y]"),
]


@pytest.mark.parametrize("times", [25, pytest.param(1000, marks=pytest.mark.long)])
def test_no_file_ends_in_a_traceback(city, capsys, times):
    draw, lines = random.Random(5), (city / "publication.toml").read_text().splitlines()
    places = [k for k, line in enumerate(lines) if re.match(r"#?\w+ = ", line)]
    before = {path: path.read_bytes() for path in city.iterdir()}
    for _ in range(times):
        changed = dict(enumerate(lines))
        for k in draw.sample(places, draw.choice([1, 1, 2])):
            name = lines[k].lstrip("#").partition(" = ")[0]
            changed[k] = draw.choice([f"{name} = {draw.choice(VALUES)}"] * 6 + [f"#{name}", name.replace("_", "-")])
        (city / "publication.toml").write_text("\n".join(changed.values()))
        command = draw.choice([["check"], ["programme"], ["ledger"], ["verify"], ["plan"], ["release"]])
        code, said = main([*command, "publication.toml"]), capsys.readouterr()
        assert code in (0, 2), changed
        if code == 2:
            assert said.out == "", changed
            assert re.fullmatch("error: .*publication.toml.*\n", said.err), (changed, said.err)
            assert set(city.iterdir()) == before.keys(), changed
        for path in set(city.iterdir()) - before.keys():
            path.unlink()
        (city / "trips.ledger").write_bytes(before[city / "trips.ledger"])


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
    assert publication.read_publication(city / "every.toml", {}).keys() == WORDS.keys()  # its examples can be read
    capsys.readouterr()
    assert main(["init", "publication.toml"]) == 2
    assert "path (publication.toml)" in refusal(capsys)
    assert main(["init", "publication.txt"]) == 2
    assert refusal(capsys).startswith("error: path (publication.txt) ")
    assert (city / "publication.toml").read_text() != ""


def test_init_asks_in_a_terminal(tmp_path, capsys, monkeypatch):
    answers = {
        "file": "log.csv", "identifier": "card", "time": "when", "zone": "Europe/Oslo", "start": "2024-01-01",
        "end": "2024-02-01", "step": "1 day", "step_cap": "2", "epsilon": "one", "delta": "", "season": "24 168",
    }  # fmt: skip
    better = {"step": "1h", "epsilon": "1", "delta": "1e-6"}

    asked = []

    def ask(question):
        asked.append(question)
        name = question.partition(":")[0]
        answer, answers[name] = answers[name], better.get(name, answers[name])
        return answer

    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    options = publication.argparse.Namespace(**dict.fromkeys([*WORDS, "quiet"]), path=tmp_path / "publication.toml")
    publication.init(options, ask)
    values = publication.read_publication(tmp_path / "publication.toml", lines := {})
    assert (values["step_cap"], values["epsilon"], values["season"]) == (2, 1.0, [24.0, 168.0])
    assert values.keys() == answers.keys() == lines.keys()
    said = capsys.readouterr().err
    for problem in ("step: must be a whole number and a unit", "epsilon: could not convert", "delta: it must be given"):
        assert f"  That cannot be read as {problem}" in said
    # Examples stand as they are typed.
    assert asked[0].endswith("  such as rides.csv: ")
    assert asked[-1].endswith("  such as 1d:90 1w:30; Enter for none: ")


def test_init_asks_how_far_a_season_moves(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "level.toml", "--season", "1d", "24", "--level", "3"]) == 2
    remedy = "give --season 1d:60 24:60, in counts, or --deviation and --time-scale"
    assert f"--level (3.0) must go with how the series moves around it; {remedy}" in refusal(capsys)
    assert not (tmp_path / "level.toml").exists()
    for seasons, says in ((["1d", "1w"], True), (["1d:3", "1w"], False)):
        assert main(["init", f"{says}.toml", "--every", "1mo", "--season", *seasons]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("say how far seasons move, in counts: --season 1d:60 1w:60." in said) == says
    (tmp_path / "True.toml").write_text((tmp_path / "True.toml").read_text().replace("#ledger", "ledger"))
    assert main(["ledger", "True.toml"]) == 2
    line = line_of(tmp_path, "ledger =", "True.toml")
    assert f"True.toml, line {line}: ledger ({tmp_path / 'rides.ledger'}) does not exist; check" in refusal(capsys)
    assert main(["init", "True.toml"]) == 2
    assert "path (True.toml) exists already; choose another name, or edit it" in refusal(capsys)


def test_the_loss_over_periods_is_of_totals_too(city, capsys):
    log = ["trips-2024-03.csv", *FLAGS[2:6], "--start", "2024-03-01", "--size", "14", "--step", "1d", "--period", "1d"]
    panel = [
        "--by",
        "station",
        "--keys",
        "stations.csv",
        "--key-cap",
        "1",
        "--total",
        "city",
        "--participation-cap",
        "1",
    ]
    assert main([*log, *panel, "--epsilon", "1", "--delta", "1e-6", "--figure", "none"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    scales = [release.scale for release in ts.read_releases((city / "release.json").read_text())]
    found = re.findall(r"([0-9.]+) in (\d+)", said.partition("δ, ε is ")[2])
    assert [periods for _, periods in found] == ["2", "7", "14"]

    def delta(epsilon, periods):
        """A day of a card is in one step of one station, and of the city: of Gaussian mechanisms, μ² adds up."""
        mu = np.sqrt(int(periods) * sum(1 / scale**2 for scale in scales))
        above, below = scipy.stats.norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return above - np.exp(epsilon) * below

    for epsilon, periods in found:
        assert delta(float(epsilon), periods) <= 1e-6 < delta(0.999 * float(epsilon), periods)


@pytest.mark.long
def test_a_panel_by_flags_without_a_programme(city, capsys):
    log = ["trips-2024-03.csv", *FLAGS[2:6], "--start", "2024-03-01", "--size", "28", "--step", "1d"]
    budget = ["--epsilon", "50", "--delta", "1e-6", "--figure", "none", "--individuals", "2000000"]
    assert (
        main([*log, *budget, "--by", "station", "--keys", "station 0", "station 1", "--people", "--output", "people"])
        == 0
    )
    releases = ts.read_releases((city / "people.json").read_text())
    assert [release.size for release in releases] == [28 * 2 * releases[0].design.count.tiers.series, 1]
    assert releases[0].stated.parent.loss[0] <= 50  # nobody is dropped, and the number of people is in the budget
    capsys.readouterr()
    assert main([*log, *budget, "--by", "station", "--keys", "station 0", "station 1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "for each of 2 keys of 'station'" in said
    assert "δ = 1e-06 is more than one over the number of individuals (2000000)" in said
    assert json.loads((city / "release.json").read_text())["format"] == "opendp_timeseries release"
    assert len(rows_of(city / "release.csv")) == 56
    places = [
        *log,
        *budget,
        "--by",
        "station",
        "--keys",
        *stations(3),
        "--people-by-key",
        "--page",
        "--output",
        "places",
    ]
    assert main(places) == 0
    _, of_people = ts.read_releases((city / "places.json").read_text())
    numbers, series = rows_of(city / "places-people.csv"), ts.smooth(of_people)
    assert [row["key"] for row in numbers] == [*stations(3)]
    assert [float(row["individuals"]) for row in numbers] == series.values.round().tolist()
    assert [float(row["high"]) for row in numbers] == series.interval()[1].round().tolist()
    assert {row["people_cap"] for row in numbers} == {""}
    table = (
        (city / "places.html")
        .read_text()
        .partition("<h2>How many individuals there are</h2>")[2]
        .partition("</table>")[0]
    )
    assert table.count("± ") == 3
    noisy = [*log, "--participation-cap", "28", "--epsilon", "0.01", "--delta", "1e-6", "--figure", "none"]
    noisy += ["--output", "noisy"]
    assert main(noisy) == 0
    assert "is above the level of the series" in " ".join(capsys.readouterr().out.split())
    assert (
        main([*log, *budget, "--by", "station", "--keys", *map(str, range(2501)), "--spreadsheet", "--output", "x"])
        == 2
    )
    assert "spreadsheet" in refusal(capsys)


def test_a_plan_needs_no_cap_and_says_what_rough_knowledge_tells(city, capsys):
    plan = ["plan", "--size", "672", "--epsilon", "1", "--delta", "1e-6"]
    places = ["--by", "station", "--keys", "stations.csv", "--total", "city", "--groups", "district"]
    assert main([*plan, *places, "--level", "20", "--season", "24:9", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["recommended"]["totals"]
    assert [*totals] == ["city", "north", "south", "docks"]
    series = ["--deviation", "20", "--time-scale", "12", "--filter-std", "0", "--sampling-probability", "1"]
    assert main([*plan, *series, "--level", "200"]) == 0
    said = capsys.readouterr().out
    assert "Best: private series" in said
    assert "Say it by --participation 0.9:20 1:500: 90% come at most 20 times, the heaviest 500." in said
    assert "=" not in said.partition("Best")[2].partition("Run,")[0]
    caps, known = ["--participation-cap", "20", "200"], ["--participation", "90%:20", "100%:500"]
    assert main([*plan, *series, "--level", "200", *caps, *known]) == 0
    said = capsys.readouterr().out
    assert "lost" in said
    assert "Say it by" not in said
    assert main(["plan", "publication.toml", "--level", "200", *series]) == 2
    said = refusal(capsys)
    assert re.search(r"line \d+: every .*; see .* plan --help", said)


def test_a_plan_of_a_publication(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    flags = "--start 2024-03-01 --end 2024-04-01 --step 1h --zone Europe/London --epsilon 1 --delta 1e-6 --level 200"
    flags += " --season 24:90 168 --participation 90%:20 100%:500 --participation-cap 50 --filter-std 3"
    assert main(["init", "publication.toml", *flags.split()]) == 0
    capsys.readouterr()
    assert main(["plan", "publication.toml"]) == 2
    assert f"line {line_of(tmp_path, 'season =')}: season (168)" in refusal(capsys)
    changed(tmp_path, '["24:90", 168.0]', '["24:90", "168:30"]')
    # In place of the file's.
    compared = ["--participation-cap", "20", "60", "--filter-std", "0", "--sampling-probability", "1"]
    assert main(["plan", "publication.toml", *compared]) == 0
    said = capsys.readouterr().out
    assert {line.split()[0] for line in said.splitlines()[2:4]} <= {"20", "60"}
    assert "--season 24" in said.splitlines()[-1]


def test_a_part_that_is_released_is_not_released_again(city, capsys):
    assert main(["release", "publication.toml"]) == 0
    before = {path.name: path.read_bytes() for path in city.iterdir()}
    for more in ([], ["--force"]):
        capsys.readouterr()
        assert main(["release", "publication.toml", "--number", "1", *more]) == 2
        assert "number (1)" in refusal(capsys)
    assert {path.name: path.read_bytes() for path in city.iterdir()} == before
    assert main(["release", "publication.toml", "--number", "1", "--resume", "--force"]) == 0
    assert (city / "release-2024-03.json").read_bytes() == before["release-2024-03.json"]


@pytest.mark.long
def test_what_is_missing_alone_is_written_from_the_record(city, capsys, monkeypatch):
    changed(city, "#page = true", "page = true")
    assert main(["release", "publication.toml"]) == 0
    names = [f"release-2024-03{suffix}" for suffix in (".csv", "-people.csv", ".json", ".html")]
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in city.iterdir()}
    monkeypatch.setattr(release, "read_log", lambda *_, **__: pytest.fail("the log was read"))
    resume = ["release", "publication.toml", "--number", "1", "--resume"]
    for missing in (names[:1], names[1:], names[3:], names[:2] + names[3:], []):
        for name in missing:
            (city / name).unlink()
        capsys.readouterr()
        assert main(resume) == 0
        said = capsys.readouterr().out
        assert f"Written: {', '.join(missing) or 'nothing'}\n" in said
        left = ", ".join(name for name in names if name not in missing)
        assert (f"There already: {left}\n" in said) == bool(left)
        after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in city.iterdir()}
        assert {name for name in after if after[name] != before[name]} == {*missing}
        assert {name: content for name, (content, _) in after.items()} == {
            name: each for name, (each, _) in before.items()
        }
        before = after
    # Nothing stands beside files of another release, or of none.
    for name in names[1:2] + names[3:]:
        (city / name).unlink()
    other = (city / names[2]).read_text().replace('"steps": "all"', '"steps": "all" ')
    for content in (other, "{}"):
        (city / names[2]).write_text(content)
        assert main(resume) == 2
        assert f"output ({names[0 if content is other else 2]})" in refusal(capsys)
    (city / names[2]).unlink()
    (city / names[0]).rename(city / "moved.csv")
    (city / names[3]).write_bytes(before[names[3]][0])
    assert main(resume) == 2
    assert f"output ({names[3]})" in refusal(capsys)


@pytest.mark.long
def test_an_unfinished_release_is_not_written_beside_files(city, capsys, monkeypatch):
    def fail(options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(ts.ledger.ledger, "_check_releases", lambda *_: fail(None))
        assert main(["release", "publication.toml"]) == 2
    (city / "release-2024-03.csv").write_bytes(b"key,step_start,private_count,low,high,kept\r\n")
    capsys.readouterr()
    assert main(["release", "publication.toml", "--resume"]) == 2
    assert "output (release-2024-03.csv)" in refusal(capsys)
    (city / "release-2024-03.csv").unlink()
    assert main(["release", "publication.toml", "--resume"]) == 0
    assert len(ts.Ledger("trips.ledger").entries) == 1


def test_a_programme_says_how_well_numbers_will_be_known(city, capsys):
    def said(*more):
        capsys.readouterr()
        assert main(["programme", "publication.toml", *more]) == 0
        return capsys.readouterr().out

    new = said()
    assert "known to" not in new
    assert "For the error to expect of each part, say roughly what the series is like: --level, and" in new
    assert re.search(r"1 to 3 +2024-03 to 2024-05  planned  ", new)
    known = {"level": 200, "deviation": 20, "time_scale": 4, "season_amplitudes": {7.0: 90.0}}
    flags = ["--level", "200", "--deviation", "20", "--time-scale", "4"]
    changed(city, "season = [7.0]", 'season = ["1w:90"]')
    new = said(*flags)
    programme, half = ts.Ledger("trips.ledger").programme, scipy.stats.norm.isf(0.05)
    for name, over in (("day", 1), ("month", 31)):
        widest = half * max(error.smoothed for error in programme.expected_errors(over=over, **known)[::4])
        assert dict(zip(*columns_of(new, "known to", "series"), strict=True))[name] == f"±{widest:.3g}"
    assert "of the level" not in new
    assert "Keys are taken to be alike: " in new
    assert re.search(
        r"Those of series are up to \d+% of the level: longer steps, fewer", " ".join(said("--level", "1").split())
    )
    assert main(["release", "publication.toml"]) == 0
    new = said(*flags)
    assert re.search(r"\n1 +2024-03 +released  ", new)
    assert re.search(r"\n2 to 3 +2024-04 to 2024-05  planned  ", new)
    (city / "trips.ledger").unlink()
    for line in ("participation_cap = 6", "key_cap = 1", "people_cap = 3"):
        text = (city / "publication.toml").read_text()
        (city / "publication.toml").write_text(re.sub(f"(?m)^{line}.*$", "", text))
    new = said(*flags)
    assert re.search("noise of series +noise of people +alone", new)
    assert [row.split()[0] for row in new.partition("known to")[2].split("\n\n")[0].splitlines()[1:]] == [
        "series",
        "city",
        "district",
        "individuals",
    ]
    often = said(*flags, "--participation", "90%:20", "100%:31")  # in all, where a month has fewer days
    assert "say it by --participation" in " ".join(new.split())
    assert "--participation" not in often
    assert main(["programme", "publication.toml", "--new", "--deviation", "20"]) == 2
    assert not (city / "trips.ledger").exists()
    assert "deviation needs time_scale, too" in refusal(capsys)


def test_a_programme_says_without_a_terminal_what_takes_long(city, capsys, monkeypatch):
    monkeypatch.setattr(waiting, "_LOG_PAUSES", (0.0, 60.0))
    command = ["programme", "publication.toml", "--level", "200", "--deviation", "20", "--time-scale", "4"]
    command += ["--preview", "page.html"]
    for more, is_said in ((["--quiet"], False), ([], True)):
        capsys.readouterr()
        assert main([*command, *more]) == 0
        said = capsys.readouterr().err
        for doing in ("Planning the programme", "Drawing the page"):
            assert (f"{doing} … 0 s so far\n" in said) == is_said


def test_a_programme_speaks_of_days_that_steps_fill(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = {"7h": "7h week", "14h": "14h week", "12h": "12h day week", "1d": "day week"}
    flags = "--file log.csv --identifier id --time time --start 2024-01-01 --end 2024-01-15 --every 1w --epsilon 1"
    flags += " --delta 1e-6 --ledger a.ledger --level 50 --deviation 10 --time-scale 5"
    for step, columns in steps.items():
        assert main(["init", f"{step}.toml", "--step", step, *flags.split()]) == 0
        assert main(["programme", f"{step}.toml"]) == 0
        said = capsys.readouterr().out
        assert re.search("(?m)^known to +(.*)$", said)[1].split() == columns.split()


@pytest.mark.long
def test_a_page_knows_its_numbers_as_well_as_the_programme_said(city, capsys):
    (city / "trips.ledger").unlink()
    text = (city / "publication.toml").read_text()
    for line in ("participation_cap = 6", "key_cap = 1", "people_cap = 3"):
        text = re.sub(f"(?m)^{line}.*$", "", text)
    changes = {"epsilon = 100": "epsilon = 1", "season = [7.0]": 'season = ["1w:90"]'}
    for old, new in changes.items():
        text = text.replace(old, new)
    (city / "publication.toml").write_text(text)
    capsys.readouterr()
    flags = ["--level", "200", "--deviation", "20", "--time-scale", "4", "--preview", "page.html"]
    assert main(["programme", "publication.toml", *flags]) == 0
    said, page = capsys.readouterr().out, (city / "page.html").read_text()
    for name in ("city", "station 0"):
        row = re.search(f">{name}</th>(.*?)</tr>", page.partition("<h2>Totals by")[2])[1]
        stated = [int(half.replace("\u202f", "")) for half in re.findall("± ([\\d\u202f]+)<", row)]
        month = columns_of(said, "known to", {"station 0": "series"}.get(name, name))[1][-1]
        assert max(stated) == pytest.approx(float(month[1:].replace("\u202f", "")), rel=0.3)


def columns_of(said, head, row):
    """Return the header, and a row of a table that is printed, without their first words."""
    lines = said.splitlines()
    found = [next(line for line in lines if line.startswith(f"{word}  ")) for word in (head, row)]
    return [re.split("  +", line)[1:] for line in found]


def test_verify_takes_a_publication_that_names_no_zone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = '[grid]\nstart = "2024-01-01"\nend = "2024-01-03"\nstep = "1h"\nevery = "1d"\n'
    (tmp_path / "days.toml").write_text(f'{grid}[outputs]\noutput = "days"\n')
    assert main(["verify", "days.toml"]) == 2
    assert "days-2024-01-01.json" in refusal(capsys)  # which is sought, and is not there


def test_verify_names_the_records_that_it_does_not_find(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("opendp_timeseries.commandline.verify._verified", lambda record, _: ("give ε = 1.", ()))
    grid = '[grid]\nstart = "2024-01-01"\nend = "2024-01-07"\nstep = "1h"\nevery = "1d"\n'
    (tmp_path / "days.toml").write_text(f'{grid}[outputs]\noutput = "days"\n')
    for name in ("days-2024-01-01", "days-2024-01-03", "days"):
        (tmp_path / f"{name}.json").touch()
    assert main(["verify", "days.toml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    missing = "days-2024-01-02.json, days-2024-01-04.json to days-2024-01-06.json"
    assert f" Not found, and so not verified, whether released or not: {missing}." in said


@pytest.mark.long
def test_a_record_is_of_a_programme_that_was_published(city, capsys):
    capsys.readouterr()
    assert main(["programme", "publication.toml", "--json"]) == 0
    (city / "published.json").write_text(capsys.readouterr().out)
    assert main(["release", "publication.toml"]) == 0
    assert main(["verify", "release-2024-03.json", "--programme", "published.json"]) == 0
    programme = ts.Ledger("trips.ledger").programme
    said = " ".join(capsys.readouterr().out.split())
    assert f"; in programme {programme.identifier[:16]} with (ε = 100, δ = 1e-06) in all" in said
    assert "They were planned in published.json." in said
    records = ts.read_releases((city / "release-2024-03.json").read_text())
    assert {record.stated.parent.programme for record in records} == {programme.identifier}
    document = json.loads((city / "published.json").read_text())
    for change in ({"delta": 2e-6}, {"releases": document["releases"][4:]}):
        (city / "other.json").write_text(json.dumps(document | change))
        assert main(["verify", "release-2024-03.json", "--programme", "other.json"]) == 2
        assert "record (release-2024-03.json)" in refusal(capsys)
    record = (city / "release-2024-03.json").read_text()
    false = json.loads(record)
    for change in ({"loss": [99.0, 1e-6]}, {"number": 2}, {"number": 1, "parts": 12}, {"parts": 3}):
        for one in false["releases"]:
            one["statement"]["parent"] |= change
            one["guarantee"] = ts.Release.from_dict(one).guarantee()
        (city / "false.json").write_text(json.dumps(false))
        assert main(["verify", "false.json", "--programme", "published.json"]) == 2
        assert "record (" in refusal(capsys)
        false = json.loads(record)
    first, statement = records[0], records[0].stated
    again = replace(first, statement=replace(statement, parent=replace(statement.parent, digest="ab")))
    for two in (first, again):
        (city / "false.json").write_text(ts.write_releases([first, two]))
        assert main(["verify", "false.json", "--programme", "published.json"]) == 2
        assert "published.json" in refusal(capsys)
    (city / "other.json").write_text("{}")
    assert main(["verify", "release-2024-03.json", "--programme", "other.json"]) == 2
    assert "programme (other.json)" in refusal(capsys)


def test_a_ledger_sums_up_what_is_planned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export(tmp_path, 100, stations(3), cards=30)
    assert main(["init", "publication.toml", *(word.replace("2024-06-01", "2024-09-01") for word in FLAGS)]) == 0
    assert main(["programme", "publication.toml", "--new"]) == 0
    capsys.readouterr()
    assert main(["ledger", "publication.toml"]) == 0
    said = capsys.readouterr().out
    assert "Planned: 24 more such lines, from 2024-03-01T00:00+00:00 on." in said
    assert "       planned" not in said
    assert main(["ledger", "publication.toml", "--planned"]) == 0
    said = capsys.readouterr().out
    assert said.count("\n       planned  ") == 24
    assert "Planned:" not in said


def test_a_column_that_is_missing_is_said_by_its_word(city, capsys):
    changed(city, 'time = "started"', 'time = "begun"')
    (city / "trips.ledger").unlink()  # or it is not what was planned
    capsys.readouterr()
    assert main(["check", "publication.toml"]) == 2
    assert f"time (line {line_of(city, 'time = ')})" in refusal(capsys)


def test_the_small_things(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"opendp_timeseries {ts.__version__}\n"


def test_a_city_and_its_stations_need_no_cap(tmp_path, monkeypatch, capsys):
    """In a programme, too: a part is one release, whose keys and groups add up in its table."""
    monkeypatch.chdir(tmp_path)
    places = stations(3)
    export(tmp_path, 1500, places, cards=300)
    flags = [flag for flag in FLAGS if flag not in ("--participation-cap", "6", "--key-cap", "1")]
    assert main(["init", "publication.toml", *flags]) == 0
    assert main(["programme", "publication.toml", "--new"]) == 0
    assert "noise of series noise of people noise of people by key alone" in " ".join(capsys.readouterr().out.split())
    assert main(["release", "publication.toml", "--quiet"]) == 0
    table = tmp_path / "release-2024-03.csv"
    release = ts.read_releases(table.with_suffix(".json").read_text())[0]
    assert release.design.count.reading.grouping.groups.names[0] == "city"
    found = {}
    for row in rows_of(table):
        found.setdefault(row["key"], []).append(float(row["private_count"]))
    assert list(found) == ["city", *dict.fromkeys(places.values()), *places]
    for name in ("city", *places.values()):
        own = [found[place] for place, district in places.items() if name in ("city", district)]
        rounding = 0.5 * (len(own) + 1)  # to whole numbers
        np.testing.assert_allclose(found[name], np.sum(own, axis=0), rtol=0, atol=rounding)


SHARED = """--file trips-{part}.csv --identifier card --time started --start 2024-03-01 --end 2024-06-01
--zone Europe/London --every 1mo --ledger city.ledger --epsilon 2 --delta 1e-6 --figure none"""


def renumbered(release, number):
    """A release that says that it has another number."""
    whole = replace(release.stated.parent, number=number)
    return replace(release, statement=replace(release.stated, parent=whole))


def scales_of_series(planned):
    """The noise of the series of each publication, by their steps."""
    designs = ts.Programme.from_json(planned).designs
    return {design.count.grid.step: design.scale for design in designs if design.count.grid.size > 1}


def test_several_publications_share_one_budget(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    export(tmp_path, 300, stations(3), cards=100)
    hours = ["init", "hours.toml", *SHARED.split(), "--step", "1h", "--output", "hours"]
    days = ["init", "days.toml", *SHARED.split(), "--step", "1d", "--output", "days", "--people"]
    days += ["--by", "station", "--keys", "stations.csv", "--total", "city"]
    assert main(hours) == main(days) == 0
    other = (tmp_path / "days.toml").read_text()
    (tmp_path / "dear.toml").write_text(other.replace("epsilon = 2.0", "epsilon = 3.0"))
    (tmp_path / "sampled.toml").write_text(other.replace('#sampling = "stratified"', 'sampling = "stratified"'))
    (tmp_path / "same.toml").write_text(other.replace('output = "days"', 'output = "hours"'))
    both = ["programme", "hours.toml", "--beside"]
    capsys.readouterr()
    for file, said in {
        "same.toml": "output (hours) in same.toml",
        "dear.toml": "epsilon (3.0) in dear.toml",
        "sampled.toml": "sampling (stratified) in sampled.toml",
        "hours.toml": "ledger",
    }.items():
        assert main([*both, file, "--new"]) == 2
        assert said in refusal(capsys)
    (tmp_path / "heavy.toml").write_text(other.replace("#weight = 2.0", "weight = 4"))
    assert main(["programme", "heavy.toml"]) == 2
    assert "weight (4.0) is relative to other publications in the budget, and there are none" in refusal(capsys)
    assert main([*both, "heavy.toml", "--json"]) == 0
    heavy = scales_of_series(capsys.readouterr().out)
    assert not (tmp_path / "city.ledger").exists()
    assert main([*both, "days.toml", "--json"]) == 0
    planned = capsys.readouterr().out
    assert main(["programme", "days.toml", "--beside", "hours.toml", "--json"]) == 0
    assert capsys.readouterr().out == planned  # of one identifier, in whichever order
    equal = scales_of_series(planned)  # four times the budget, half the noise
    assert (heavy["1h"] / heavy["1d"]) / (equal["1h"] / equal["1d"]) == pytest.approx(2.0)
    (tmp_path / "planned.json").write_text(planned)
    programme = ts.Programme.from_json(planned)
    assert (len(programme), programme.budget.epsilon) == (9, 2.0)  # of three months: hours; days, and people
    assert programme.budget.spent(programme.loss()) == pytest.approx(2.0, rel=1e-6)
    assert main([*both, "days.toml", "--new"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "Within (ε = 2, δ = 1e-06) for one individual added or removed, all of it together: 3 parts of hours.toml"
        in said
    )
    assert "3 parts of days.toml" in said
    assert main([*both, "heavy.toml"]) == 2
    assert "weight (1, 4)" in refusal(capsys)
    assert main(["programme", "days.toml"]) == 0
    assert "The programme holds other publications, too" in " ".join(capsys.readouterr().out.split())
    assert main(["release", "days.toml", "--quiet"]) == main(["release", "hours.toml", "--quiet"]) == 0
    wholes = set()
    for name in ("hours", "days"):  # in the same words, whatever it consists of
        assert main(["verify", f"{name}-2024-03.json", "--programme", "planned.json"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.count(f"; in programme {programme.identifier[:16]} with (ε = 2, δ = 1e-06) in all") == 1
        assert not re.search("release [0-9]| cap", said)
        records = ts.read_releases((tmp_path / f"{name}-2024-03.json").read_text())
        wholes |= {(one.stated.parent.loss, one.stated.parent.planned) for one in records}
        for one in records:  # each may be published alone
            (tmp_path / "alone.json").write_text(one.to_json())
            assert main(["verify", "alone.json", "--programme", "planned.json"]) == 0
            assert f"; in programme {programme.identifier[:16]}" in " ".join(capsys.readouterr().out.split())
            (tmp_path / "alone.json").write_text(renumbered(one, 1).to_json())
            assert main(["verify", "alone.json", "--programme", "planned.json"]) == 2
            assert "record (" in refusal(capsys)
    assert wholes == {((2.0, 1e-6), programme.identifier)}
    assert main(["programme", *both[1:], "days.toml"]) == 0
    assert " ".join(capsys.readouterr().out.split()).count("Left: 2 of 3; next is part 2, 2024-04.") == 2
    capsys.readouterr()
    assert main(["ledger", "days.toml"]) == 0
    said = capsys.readouterr().out  # which says of each line what is counted
    assert re.search(r"\n1 +released +individuals at 3 keys of 'station' +2024-03-01T00:00\S+ +31 of 1d ", said)
    assert re.search(r"\n1 +released +individuals, once each +2024-03-01", said)
    assert re.search(r"\n2 +released +individuals +2024-03-01T00:00\S+ +743 of 1h ", said)
    (tmp_path / "days.toml").write_text(other.replace('step = "1d"', 'step = "1h"'))
    for command in ("programme", "check", "release"):
        assert main([command, "days.toml"]) == 2
        assert "ledger" in refusal(capsys)


@pytest.mark.long
def test_a_page_grows_with_the_parts(tmp_path, monkeypatch, capsys):
    pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    export(tmp_path, 3000, stations(3), cards=600)
    days = ["init", "days.toml", *SHARED.split(), "--step", "1d", "--people", "--season", "1w", "--output", "days"]
    assert (
        main([*days, "--by", "station", "--keys", "stations.csv", "--total", "city", "--spreadsheet", "--datapackage"])
        == 0
    )
    assert main(["programme", "days.toml", "--new", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["summary", "days.toml"]) == 2
    assert "ledger" in refusal(capsys)
    for number, name in enumerate(("2024-03", "2024-04"), 1):
        assert main(["release", "days.toml", "--quiet"]) == 0
        assert main(["summary", "days.toml"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"{number} of 3 parts, 2024-03 to {name}, joined at no further cost." in said
        page = (tmp_path / "days.html").read_text()
        assert f"<th scope=col>{name}</th>" in page
        assert f"<th scope=row>{name}</th>" in page  # of individuals
        assert (
            "Revised, compared with a summary of the first part (not with pages of single parts): 2024-03" in page
        ) == (number > 1)
        assert "<h2>The usual course of city</h2>" in page
        assert "One that is closed for a step mostly shows as nothing" in page
        whole = ts.Ledger("city.ledger").programme.identifier[:16]
        stated = f"{ts.Ledger('city.ledger').guarantee()}, of all that was released so far; in programme {whole} with"
        assert f"{stated} (ε = 2, δ = 1e-06) in all" in html.unescape(page)
        assert f"Guarantee: {stated} (ε = 2" in said
        assert "Parts add up to their total, but for rounding." in said
        assert "These numbers do not add up" in said
        assert "days.csv, days.html" in said
        described = json.loads((tmp_path / "days-datapackage.json").read_text("utf-8"))["resources"]
        assert [item["path"] for item in described] == ["days.csv", "days.json", "days.html", "days.xlsx"]
        assert check_names_on_pages(tmp_path, "days*.html") == 1
        assert main(["verify", "days.json"]) == 0
        capsys.readouterr()
        assert main(["verify", "days.toml"]) == 0
        said = capsys.readouterr().out  # of the parts, and of all together
        assert len(re.findall(r"days(?:-2024-0\d)?\.json", said.partition("Not found")[0])) == number + 1
        (record,) = re.findall(r"data:application/json;base64,([\w+/=]+)", page)
        (tmp_path / "all.json").write_bytes(base64.b64decode(record))
        assert main(["verify", "all.json"]) == 0
        assert len(ts.read_releases((tmp_path / "all.json").read_text())) == 2 * number
        capsys.readouterr()
    before = (tmp_path / "city.ledger").read_bytes()
    (tmp_path / "days.xlsx").write_text("somebody's")
    assert main(["summary", "days.toml"]) == 2
    assert "days.xlsx)" in refusal(capsys)
    assert (tmp_path / "city.ledger").read_bytes() == before


@pytest.mark.parametrize(
    "line",
    ["ann@x.org,2024-01-01T10:00,bond", "ann,,bond", "ann,bond,bond", "ann,\x1b[2J", "", "ann,March 3 2024 10:00,bond"],
)
def test_init_shows_no_row_of_a_log_without_a_header(tmp_path, capsys, line):
    (tmp_path / "log.csv").write_text(f"{line}\nbob,2024-01-02,3\n")
    publication._look({"file": str(tmp_path / "log.csv")})
    said = capsys.readouterr().err
    assert "must name the columns, and is not shown" in said
    assert not any(field in said for field in line.split(",") if field)
    (tmp_path / "log.csv").write_text("who,when_2,PM2.5\nbob,2024-01-02,3\n")
    publication._look({"file": str(tmp_path / "log.csv")})
    assert "names the columns who, when_2, PM2.5" in capsys.readouterr().err
    (tmp_path / "log.csv").write_text('"who, card";"when, local";"a ""stop"", a";"a,b"\nbob;2024-01-02;3;4\n')
    given = {"file": str(tmp_path / "log.csv")}
    publication._look(given)
    assert 'names the columns who, card, when, local, a "stop", a, a,b; delimiter is ";".' in capsys.readouterr().err
    assert given["delimiter"] == ";"
    publication._look(given | {"value": "a"})
    assert "values may have decimal commas: give --value-decimal ',' if so" in capsys.readouterr().err


def test_init_names_files_from_the_folder_of_the_publication(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "log.csv").write_text("card,when,at\nann,2024-03-01,a\n")
    (tmp_path / "stations.csv").write_text("at\na\n")
    flags = "--file log.csv --identifier card --time when --by at --start 2024-03-01 --size 9 --step 1d --epsilon 1"
    for keys in ("stations.csv", str(tmp_path / "stations.csv")):
        publication_file = tmp_path / "sub" / "days.toml"
        assert main(["init", "sub/days.toml", *flags.split(), "--delta", "1e-6", "--keys", keys]) == 0
        assert main(["check", "sub/days.toml"]) == 0
        assert "1 individuals are on the grid" in capsys.readouterr().err
        assert '\nfile = "../log.csv"\n' in publication_file.read_text()
        publication_file.unlink()


@pytest.mark.parametrize("encoding", ["cp1251", "utf-16", "gb18030"])
def test_init_guesses_no_encoding_that_the_first_line_does_not_show(tmp_path, capsys, encoding):
    """In a wrong one, no listed key is that of a row."""
    name = "\u5730\u70b9" if encoding == "gb18030" else "\u043c\u0435\u0441\u0442\u043e"
    (tmp_path / "log.csv").write_bytes(f"who,when,{name}\nann,2024-01-01,1\n".encode(encoding))
    given = {"file": str(tmp_path / "log.csv")}
    publication._look(given)
    assert "encoding" not in given
    assert "is not in UTF-8: give --encoding" in capsys.readouterr().err
    if encoding != "utf-16":
        given["encoding"] = encoding
        publication._look(given)
        assert f"names the columns who, when, {name}; encoding is" in capsys.readouterr().err


def test_init_reads_the_first_line_of_a_log_and_knows_zones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(publication.zoneinfo, "available_timezones", lambda: {"Europe/Berlin", "Asia/Tokyo"})
    (tmp_path / "fahrten-2024-01.csv").write_bytes("Karte;Zeit;Straße\nprivate;rows;here\n".encode("cp1252"))
    answers = {"identifier": ["Karte"], "time": ["Zeit"], "zone": ["Berlin", "Europe/Berlin"], "start": ["2024-01-01"]}
    answers |= {"end": ["2025-01-01"], "step": ["1d"], "epsilon": ["1"], "delta": ["1e-6"]}
    flags = ["--file", "fahrten-{part}.csv", "--every", "1mo", "--ledger", "x.ledger"]
    options = parse(["init", "publication.toml", *flags])
    publication.init(
        options,
        ask=lambda text: next(iter(answers.get(text.split(":")[0], [""])), "") and answers[text.split(":")[0]].pop(0),
    )
    said = capsys.readouterr().err
    columns = 'names the columns Karte, Zeit, Straße; delimiter is ";"; encoding is perhaps "cp1252".'
    assert f"The first line of fahrten-2024-01.csv {columns}" in said
    assert "private" not in said
    assert "did you mean Europe/Berlin?" in said
    written = tomllib.loads((tmp_path / "publication.toml").read_text())
    assert (written["log"]["delimiter"], written["log"]["encoding"]) == (";", "cp1252")
    assert written["grid"]["zone"] == "Europe/Berlin"
    # Without a terminal, it asks for nothing, and knows as much.
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["init", "unasked.toml", *flags]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert columns in said
    assert "Fill in what must be given: identifier, time, start, end, step, epsilon, delta. It names no zone" in said
    written = tomllib.loads((tmp_path / "unasked.toml").read_text())["log"]
    assert (written["delimiter"], written["encoding"]) == (";", "cp1252")


@pytest.mark.parametrize(
    ("when", "form"),
    [
        ("24.04.2024 08:30", "time_format '%d.%m.%Y %H:%M'"),
        ("04/24/2024 08:30:00 AM", "time_format '%m/%d/%Y %I:%M:%S %p'"),
        ("1713940200", "time_unit s"),
        ("1713940200000", "time_unit ms"),
        ("nobody knows", ""),
    ],
)
def test_check_names_the_form_of_a_file(tmp_path, capsys, monkeypatch, when, form):
    """Two months in two encodings, of which one has a mark that says so; and the words that are missing or wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    for month, encoding in (("2024-03", "cp1252"), ("2024-04", "utf-8-sig")):
        rows = "".join(f"{card};{when};Köln\n" for card in range(9))
        (tmp_path / f"trips-{month}.csv").write_bytes(f"Karte;Zeit;Straße\n{rows}".encode(encoding))
    flags = "--file trips-{part}.csv --identifier Karte --time Zeit --by Straße --keys Köln --start 2024-03-01"
    flags += " --end 2024-05-01 --step 1d --every 1mo --ledger trips.ledger --zone Europe/Berlin"
    assert main(["init", "trips.toml", *flags.split()]) == 0
    check = ["check", "trips.toml", "--number", "2"]
    changed_text = (tmp_path / "trips.toml").read_text()
    (tmp_path / "trips.toml").write_text(changed_text.replace('\ndelimiter = ";"', ""))
    capsys.readouterr()
    assert main(check) == 2
    assert re.search(r"delimiter \(','\) .*trips-2024-04.csv.*';'", refusal(capsys))
    (tmp_path / "trips.toml").write_text(changed_text)
    assert main(check) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "9 of 9 rows do not count. The likely cause: times are not written as ISO 8601" in said
    assert (f"give {form}, in which most seem to be" if form else "give time_format as they are") in said
    if form.startswith("time_format"):
        named = form.replace(" ", " = ", 1)
        (tmp_path / "trips.toml").write_text(changed_text.replace("[grid]", f"{named}\n[grid]"))
        assert main(check) == 0
        said = capsys.readouterr().err
        assert "9 rows were read" in said
        assert "\n9 individuals are on the grid" in said
        assert "hold bytes" not in said


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("others", [9, 3, 0])
def test_check_names_values_with_another_decimal_mark(tmp_path, capsys, monkeypatch, mark, others):
    monkeypatch.chdir(tmp_path)
    other = {".": ",", ",": "."}[mark]
    values = [f"12{other}5"] * others + [f"12{mark}5"] * (9 - others)
    lines = "".join(f"{card};2024-03-01;{value}\n" for card, value in enumerate(values))
    (tmp_path / "log.csv").write_text(f"card;when;minutes\n{lines}")
    flags = "--identifier card --time when --value minutes --bound 60 --start 2024-03-01 --size 9 --step 1d"
    check = ["check", "log.csv", "--delimiter", ";", *flags.split(), "--value-decimal"]
    assert main([*check, mark]) == 0
    said = " ".join(capsys.readouterr().err.split())
    advice = f"{others} of the first 9 values have another decimal mark: give --value-decimal '{other}'."
    assert (f"{others} of 9 rows have no value. {advice}" in said) == bool(others)
    assert "The likely cause: values are not written as numbers" not in said
    assert ("Nothing would be counted, with any caps" in said) == (others == 9)
    if others == 9:
        assert main([*check, other]) == 0
        assert "0 have no value" in capsys.readouterr().err
