"""Pages of made-up numbers: as they will look, with intervals as wide as they will be, and marked everywhere."""

import re

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.planning import preview
from opendp_timeseries.planning.preview import made_up_rates, made_up_releases
from tests import make
from tests.refused import refusal, refuses

WEEKS = ts.TimeGrid(start="2024-03-04", size=56, step="1d", zone="Europe/Berlin")
MORE = ts.TimeGrid(start="2024-04-29", size=56, step="1d", zone="Europe/Berlin")
MARK = "No number here is of any data: all of it is made up from what is publicly known"


def plan_of(**described):
    return ts.plan(WEEKS, epsilon=1.0, delta=1e-6, **described)


def test_a_preview_is_the_page_and_says_that_it_is_made_up(tmp_path):
    dp.enable_features("contrib", "honest-but-curious")
    plan = plan_of(level=300.0, season_amplitudes={7: 80.0})
    page = plan.preview(tmp_path / "page.html", title="Visitors", unit="visitors per day")
    assert (
        (tmp_path / "page.html").read_text("utf-8") == page == plan.preview(title="Visitors", unit="visitors per day")
    )
    assert "<title>Made up: Visitors</title>" in page
    assert page.index(MARK) < page.index("<figure")
    assert '<body class="made-up">' in page
    assert '.made-up .plot::after, .made-up .wide::after {\n  content: "made up"' in page
    assert not re.search("base64|download|How to cite", page)
    assert "Totals by month" in page
    assert "(ε = 1, δ = 1e-06)-differential privacy" in page
    space = make.space()
    chains = [space >> ts.then_participation_count(grid) for grid in (WEEKS, MORE)]
    programme = ts.Programme.plan(chains, epsilon=1.0, delta=1e-6, sampling_probability=1.0)
    page = programme.preview(number=2, level=300.0, season_amplitudes={7: 80.0}, title="Visitors")
    assert "<title>Made up: Visitors</title>" in page
    assert f"; in programme {programme.identifier[:16]} with (ε = 1, δ = 1e-06) in all." in page
    assert "56 steps from 2024-04-29" in page
    refuses("number", programme.preview, number=3, level=300.0)
    refuses("level", lambda: plan_of(deviation=20.0, time_scale=3.0).preview())


def test_made_up_numbers_are_as_described():
    rates = made_up_rates(WEEKS, level=300.0, season_amplitudes={7: 80.0})
    assert np.ptp(rates) == pytest.approx(160.0)
    assert rates.mean() == pytest.approx(300.0)
    assert set(np.flatnonzero(rates < 200) % 7) == {5, 6}  # weekends
    hours = made_up_rates(
        ts.TimeGrid(start="2024-03-04", size=48, step="1h", zone="UTC"), level=50.0, season_amplitudes={24: 20.0}
    )
    assert np.flatnonzero(hours == hours.min()).tolist() == [4, 28]
    assert made_up_rates(WEEKS, proxy=np.arange(56.0)).tolist() == np.arange(56.0).tolist()
    noisy = made_up_rates(WEEKS, level=300.0, deviation=20.0, time_scale=3.0)
    assert 5 < noisy.std() < 50


@pytest.mark.parametrize("individuals", [300, 2000, 9000])
def test_made_up_people_are_as_many_as_is_publicly_known(individuals):
    """From next to nobody who comes twice to people who come on most days."""
    often = preview._activities(56 * 200, 56, individuals, np.random.default_rng(0))
    assert often.sum() == 56 * 200
    assert np.count_nonzero(often) == pytest.approx(individuals, rel=0.05)
    assert often.max() < 1.5 * 56


@pytest.mark.long
def test_intervals_of_a_preview_are_as_wide_as_those_of_a_release():
    dp.enable_features("contrib", "honest-but-curious")
    described = {"level": 300.0, "season_amplitudes": {7: 80.0}}
    (made_up,) = made_up_releases([plan_of(**described).design], made_up_rates(WEEKS, **described))
    rng, weekday = np.random.default_rng(3), np.arange(56) % 7
    often = np.where(weekday < 5, 345.0, 185.0)
    days = WEEKS.edges("local")[:-1][rng.choice(56, 56 * 300, p=often / often.sum())]
    log = {"id": rng.integers(0, 3000, days.size), "time": days}
    space = make.space()
    real = (space >> ts.then_private_series(WEEKS, epsilon=1.0, delta=1e-6))(log)
    assert made_up.scale == pytest.approx(real.scale, rel=1e-6)
    shown, published = (ts.smooth(one, seasons=7) for one in (made_up, real))
    assert np.median(shown.standard_error) == pytest.approx(np.median(published.standard_error), rel=0.35)
    assert shown.values.mean() == pytest.approx(300.0, rel=0.1)


@pytest.mark.long
def test_a_programme_is_drawn_before_it_is_fixed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stations.csv").write_text("station,district\na,north\nb,north\nc,south\n")
    words = """--file trips.csv --identifier card --time started --start 2024-03-01 --end 2024-06-01 --step 1d
    --zone Europe/London --every 1mo --ledger city.ledger --epsilon 2 --delta 1e-6 --by station --keys stations.csv
    --total city --groups district --people --people-by-key --level 80 --season 1w:20 --title Riders"""
    assert main(["init", "publication.toml", *words.split()]) == 0
    command = ["programme", "publication.toml", "--preview"]
    for _ in range(2):
        assert main([*command, "page.html", "--number", "2"]) == 0
        page = (tmp_path / "page.html").read_text()
    assert page.index(MARK) < page.index("<figure")
    assert re.search(r"It gives \(ε = [\d.]+, δ = 1e-06\).*; in programme \w+ with \(ε = 2, δ = 1e-06\) in all\.", page)
    assert "30 steps from 2024-04-01 to 2024-04-30" in page
    assert [name for name in ("city", "north", "south", "a", "b", "c") if f"<figcaption>{name}" not in page] == []
    assert "How many individuals there are" in page
    assert not (tmp_path / "city.ledger").exists()
    assert main(["init", "capped.toml", *words.split(), "--participation-cap", "6", "--key-cap", "1"]) == 0
    assert main(["programme", "capped.toml", "--preview", "capped.html"]) == 0
    page = (tmp_path / "capped.html").read_text()
    assert page.count("structural model of all series jointly") == 1  # as its release is, stations and city
    capsys.readouterr()
    for number in ("0", "4"):
        assert main([*command, "page.html", "--number", number]) == 2
        assert f"number ({number})" in refusal(capsys)
    (tmp_path / "own.html").write_text("somebody's")
    assert main([*command, "own.html"]) == 2
    assert "own.html)" in refusal(capsys)
    assert main([*command, "page.csv"]) == 2
    assert "preview (page.csv)" in refusal(capsys)
    plan = "plan --start 2024-03-01 --size 60 --step 1d --zone UTC --epsilon 1 --delta 1e-6 --level 300 --season 7:60"
    assert main([*plan.split(), "--preview", "plan.html"]) == 0
    assert MARK in (tmp_path / "plan.html").read_text()
