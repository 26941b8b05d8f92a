"""Means of a value on the command line: files of their own, beside those of the sums, in one record."""

import csv
import html
import json

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from tests.commandline.trips import check_names_on_pages, export_trips

FLAGS = (
    "--identifier card --time started --start 2024-03-01 --step 1d --zone Europe/London --epsilon 2 --delta 1e-6"
    " --value minutes --bound 60 --mean --page --figure none"
)


def export(path, month):
    """Trips with the minutes that they take."""
    export_trips(path, month, 3000, {"a": "north", "b": "south"}, cards=300)
    minutes = np.random.default_rng(month).gamma(4, 5, 3000)
    header, *lines = path.read_text().splitlines()
    lines = [f"{line},{spent:.1f}" for line, spent in zip(lines, minutes.tolist(), strict=True)]
    path.write_text("\n".join([f"{header},minutes", *lines]))


def rows(path):
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


@pytest.mark.parametrize("keyed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_release_says_means_in_files_of_their_own(tmp_path, monkeypatch, capsys, keyed):
    monkeypatch.chdir(tmp_path)
    export(tmp_path / "trips.csv", 3)
    panel = ["--by", "station", "--keys", "a", "b", "--total", "city", "--people"] if keyed else []
    words = ["--unit", "minutes on a day", "--notes", "One & all.", "Two.", "--cite", "Ann, 2024"]
    command = ["trips.csv", *FLAGS.split(), "--end", "2024-03-15", *panel, *words, "--output", "rides", "--datapackage"]
    assert main(command) == 0
    assert "rides-means.csv, " in " ".join(capsys.readouterr().out.split())
    releases = ts.read_releases((tmp_path / "rides.json").read_text())
    assert [one.design.count.reading.step_cap for one in releases[:2]] == [60, 1]
    assert releases[0].stated.parent.loss[0] == pytest.approx(2.0)
    kinds = [one.design.count.reading.grouping is not None for one in releases[:2]]
    series = [ts.smooth([one])[0] if grouped else ts.smooth(one) for one, grouped in zip(releases, kinds, strict=False)]
    means = ts.means(*series)
    found = rows(tmp_path / "rides-means.csv")
    assert list(found[0]) == [*(["key"] if keyed else []), "step_start", "mean", "low", "high", "kept"]
    assert np.allclose([float(row["mean"]) for row in found], means.values, atol=0.51)
    page = html.unescape((tmp_path / "rides-means.html").read_text())
    assert "it holds the capped means of 'minutes'" in page
    assert "Minutes on a day. " in (tmp_path / "rides.html").read_text()
    for published in (page, html.unescape((tmp_path / "rides.html").read_text())):
        assert "<p>One & all.</p><p>Two.</p>" in published
        assert "<h2>How to cite</h2><p>Ann, 2024</p>" in published
    assert "(ε = 2, δ = 1e-06)-differential privacy" in page
    described = json.loads((tmp_path / "rides-datapackage.json").read_text())
    assert {"means", "page-of-means"} < {one["name"] for one in described["resources"]}
    assert main(command) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["check", *(word for word in command[:-3] if word not in ("--value", "minutes", "--bound", "60"))]) == 2
    assert "--mean" in capsys.readouterr().err


@pytest.mark.long
def test_a_year_that_grows_has_its_means(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for month in (3, 4):
        export(tmp_path / f"trips-2024-{month:02}.csv", month)
    year = ["--end", "2024-05-01", "--every", "1mo", "--ledger", "year.ledger", "--file", "trips-{part}.csv"]
    assert main(["init", "year.toml", *FLAGS.split(), *year, "--people", "--output", "year", "--quiet"]) == 0
    assert main(["programme", "year.toml", "--new"]) == 0
    assert "noise of numbers" in capsys.readouterr().out
    assert main(["programme", "year.toml", "--level", "100", "--season", "1w:10"]) == 0
    assert "Everybody is taken to have the typical value" in " ".join(capsys.readouterr().out.split())
    for _ in range(2):
        assert main(["release", "year.toml", "--quiet"]) == 0
        assert main(["summary", "year.toml", "--quiet"]) == 0
    assert check_names_on_pages(tmp_path, "year*.html") == 6  # of two parts and of both, and of means
    page = html.unescape((tmp_path / "year-means.html").read_text())
    assert "<h2>Means by month</h2>" in page
    assert ts.Ledger("year.ledger").guarantee() in page
    assert "<th scope=row>2024-04</th>" in (tmp_path / "year.html").read_text()
