"""Pages and tables to publish: whole, escaped, without requests, and of nothing but the release."""

import base64
import csv
import dataclasses
import html.parser
import io
import json
import re
import types
import zipfile

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.commandline import outputs
from opendp_timeseries.results import page as pages
from opendp_timeseries.results.contents import contents_of, instants_as_text
from opendp_timeseries.results.digits import THIN, digits_for, rounded
from opendp_timeseries.results.drawing import drawing_of
from opendp_timeseries.results.svg import figure
from tests import make
from tests.reconstruction.test_joint import city, hours, released
from tests.refused import refuses
from tests.releases import panel, release_of

DAYS = ts.TimeGrid(start="2024-03-30T00:00", size=72, step="1h", zone="Europe/Berlin")  # a change of the clocks
ATTACK = "<script>alert('x')</script>&\"=1+1"


def smoothed(size=72, **change):
    release = release_of(steps=range(size), values=np.zeros(size), signal=size, scale=3.0, sampling_probability=1.0)
    values = 50 + 20 * np.sin(2 * np.pi * np.arange(size) / 24)
    return ts.Series(values, release=release, covariance=4.0 * np.eye(size), model="a sine", **change)


class Reader(html.parser.HTMLParser):
    """Tags, attributes and words of a page, and a check that tags are closed in order."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.words += [value for name, value in attrs if name == "data-is"]
        if tag not in ("meta", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag != "path" or self.open[-1] == "path":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_a_page_is_whole_and_asks_for_nothing(tmp_path):
    series = smoothed(events=[30])
    path = tmp_path / "page.html"
    page = series.to_html(path, grid=DAYS, title="Trips", unit="trips per hour", guarantee=(1.0, 1e-6))
    assert path.read_text("utf-8") == page
    assert page.startswith("<!doctype html>")
    assert "opendp_timeseries" in page[:2000]
    read = Reader(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(read.tags)
    for name, value in read.attributes:
        assert not name.startswith("on")
        if name in ("href", "src"):
            assert value.startswith("data:")
    assert not [sign for sign in ("url(", "@import", "http:", "https:") if sign in page]
    assert "2024-03-30 00:00: 50 trips per hour, 90% interval 47 to 53" in read.words
    assert "2024-03-31 07:00: 70 trips per hour, 90% interval 67 to 73; a single event" in read.words
    labels = [value for name, value in read.attributes if name == "aria-label"]
    assert labels == [
        "Trips: line of trips per hour, from 2024-03-30 00:00 to 2024-04-02 01:00; 50 on average, lowest 30, highest 70"
        " (2024-03-30 06:00)"
    ]


@pytest.mark.parametrize(
    ("step", "size", "longer", "number"),
    [
        ("1h", 24 * 60 - 1, "days", 60),
        ("3h", 8 * 100, "24 hours", 100),
        ("1min", 1440, "5 minutes", 288),
        ("1d", 800, "weeks", 115),
    ],
)
def test_a_long_series_is_drawn_by_means_of_longer_steps(step, size, longer, number):
    grid = ts.TimeGrid(start="2024-03-01T00:00", size=size, step=step, zone="Europe/Berlin")
    drawn = drawing_of(smoothed(size), grid, 0.9)
    assert (drawn.longer, len(drawn.values)) == (longer, number)
    assert len(drawn.grid.edges()) == number + 1


def test_totals_are_those_of_resample():
    series = smoothed()
    page = series.to_html(grid=DAYS, totals="1d")
    days = series.resample("1d", grid=DAYS)
    half = days.interval()[1] - days.values
    cells = re.findall(f"<td>([\\d{THIN}]+) <small>± ([\\d.]+)</small>", page)
    in_all, *found = ((float(value.replace(THIN, "")), float(error)) for value, error in cells)
    assert found == [(round(value), round(error)) for value, error in zip(days.values, half, strict=True)]
    everything = series.resample(DAYS.size, grid=DAYS)
    assert in_all == (round(everything.values[0]), round(everything.interval()[1][0] - everything.values[0]))
    assert "<th scope=row>in all</th>" in page
    assert "Totals" not in series.to_html(grid=DAYS, totals="")
    assert "Totals" not in series.to_html()


def test_records_and_tables_are_within_the_page():
    release = behind_a_count()
    page = ts.interpolate(release).to_html()
    kinds = dict(re.findall(r'<a download="[\w-]+([.]\w+)" href="data:[\w/]+;base64,([\w+/=]+)"', page))
    assert ts.Release.from_json(base64.b64decode(kinds[".json"]).decode()) == release
    assert base64.b64decode(kinds[".csv"]).decode() == ts.interpolate(release).to_csv()
    assert release.guarantee() in page
    without = smoothed().to_html()
    assert ".json" not in without
    assert "No guarantee is stated: this signal" in without


def behind_a_count(keys=None, **caps):
    dp.enable_features("contrib", "honest-but-curious")
    log = {"id": np.arange(300) % 70, "when": np.datetime64("2024-03-30T00", "h") + np.arange(300) % 70}
    by = {} if keys is None else {"by": "site", "keys": keys}
    count = make.space(time="when") >> ts.then_participation_count(DAYS, **{"participation_cap": 3} | by | caps)
    noise = ts.then_subsampled_gaussian(8.0, sampling_probability=1.0, delta=1e-6)
    if keys is None:
        return (count >> noise)(log)
    together = count >> ts.then_composition([noise, ts.then_totals({"city": keys}) >> noise])
    return together(log | {"site": np.array(keys)[np.arange(300) % len(keys)]})


def test_queries_that_may_follow_each_other_are_not_said_to_be_fixed_in_advance():
    log = {"id": np.arange(600) % 90, "step": np.arange(600) % 30}
    context = make.context(log, time="step")
    nested = context.query().participation_count(ts.TimeGrid(size=30), participation_cap=5)
    nested = nested.compositor(split_evenly_over=3).release()

    def recorded(first, second):
        page = ts.interpolate(first).to_html(beside=[ts.interpolate(second)])
        (record,) = re.findall(r"data:application/json[^,]*;base64,([^\"]*)", page)
        document = json.loads(base64.b64decode(record))
        return document["adaptivity"], document["joint_loss"][0][0]

    one_by_one = [nested.query().subsampled_gaussian(sampling_probability=p).release() for p in (1, 0.5)]
    assert recorded(*one_by_one) == ("fully adaptive", pytest.approx(2 / 3))
    at_once = nested.query().composition([ts.then_subsampled_gaussian(1.0, sampling_probability=1)] * 2).release()
    assert recorded(*at_once)[0] == "non-adaptive"


def test_a_panel_stands_below_its_total():
    sites, total = ts.reconcile(*map(ts.interpolate, behind_a_count([ATTACK, "b"])))
    page = sites.to_html(beside=[total], totals="1d", title=ATTACK, unit=ATTACK, notes=[ATTACK], cite=ATTACK)
    read = Reader(page)
    assert "script" not in read.tags
    assert read.tags.count("figure") == 3
    words = " ".join(read.words)
    assert words.index("city") < words.index("How people are protected")
    assert "linear interpolation, reconciled with totals" in words
    kinds = dict(re.findall(r'<a download="[\w-]+([.]\w+)" href="data:[\w/]+;base64,([\w+/=]+)"', page))
    releases = ts.read_releases(base64.b64decode(kinds[".json"]).decode())
    assert {each.invocation for each in releases} == {sites.release.invocation}
    assert len(releases) == 2


def test_a_page_says_which_places_are_too_small_and_what_the_noise_hides():
    counts = hours(0, keys=6)
    counts[3:] = np.random.default_rng(0).poisson(0.05, counts[3:].shape)
    stations, total = ts.smooth(released(counts, np.random.default_rng(1), groups=city(6)), seasons=24)
    near = contents_of(stations, beside=[total]).near
    assert sum("Too small" in one for one in near) == 1
    assert any("Too small to be shown in single steps: k3, k4, k5. The interval is wider" in one for one in near)
    seen = [
        k
        for k, one in enumerate(near)
        if one.startswith("An event at one of them, such as a fair, shows if about 105 more")
    ]
    assert len(seen) == 1
    assert "61 more in each of three" in near[seen[0]]
    assert near[seen[0] + 1].startswith(
        "One that is closed for a step mostly shows as nothing if about 180 usually come in it."
    )
    alone = " ".join(contents_of(ts.interpolate(stations.release), beside=[ts.interpolate(total.release)]).near)
    assert "Too small" in alone
    assert "event" not in alone
    (station,) = [part for key, part in stations.by_key().items() if key == "k4"]
    assert "Too small" not in " ".join(contents_of(station).near)


@pytest.mark.parametrize(
    ("caps", "whole"),
    [
        ({"participation_cap": 2 * DAYS.size}, True),
        ({"participation_cap": 2 * DAYS.size - 1}, False),
        ({"participation_cap": 2 * DAYS.size, "key_cap": 1}, False),
    ],
)
def test_caps_over_a_panel_are_not_taken_for_those_of_one_series(caps, whole):
    sites, total = map(ts.interpolate, behind_a_count(["a", "b"], **caps))
    of = re.findall("An interval holds (.*?) where", " ".join(contents_of(sites, beside=[total]).near))
    assert of == ["the counts of everybody" if whole else "the capped counts"]


def test_a_long_series_is_drawn_by_means_with_intervals_of_their_own():
    grid = ts.TimeGrid(start="2024-01-01", size=24 * 60, step="1h", zone="Europe/Berlin")
    series = smoothed(24 * 60, events=[30])
    drawn = drawing_of(series, grid, 0.9)
    days = series.resample("1d", grid=grid)
    sizes = np.diff(days.starts, append=grid.size)
    assert (drawn.longer, drawn.events) == ("days", (1,))
    assert np.allclose(drawn.values, days.values / sizes)
    assert np.allclose(drawn.high, days.interval()[1] / sizes)
    assert drawn.least[3] == series.values[days.starts[3] : days.starts[4]].min()
    page = series.to_html(grid=grid)
    assert "; steps from 30.0 to 70.0" in page
    partial = "The first or the last of the days is there in part, and not drawn."
    assert partial not in page
    assert partial in smoothed(24 * 60).to_html(
        grid=ts.TimeGrid(start="2024-01-01T05:00", size=24 * 60, step="1h", zone="UTC")
    )
    plain = drawing_of(smoothed(2000), ts.TimeGrid(size=2000), 0.9)
    assert plain.longer == "6 steps"
    assert len(plain.values) == 334


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
@pytest.mark.parametrize("figures", [1, 12, 30, 60])
def test_longer_steps_hold_every_day_of_the_week_alike(zone, figures):
    """Over changes of the clocks, too: a weekend that is in some of them alone looks like a change."""
    grid = ts.TimeGrid(start="2023-11-01", end="2024-05-01", step="1h", zone=zone)
    weekend = (grid.edges("local")[:-1].astype("M8[D]").astype(int) + 3) % 7 > 4
    release = release_of(
        steps=range(grid.size), values=np.zeros(grid.size), signal=grid.size, scale=1.0, sampling_probability=1.0
    )
    drawn = drawing_of(ts.Series(np.where(weekend, 40.0, 100.0), release=release), grid, 0.9, figures)
    longest = np.diff(grid.edges()).max() * 7 * 24
    if drawn.longer == "weeks":
        within = np.delete(drawn.values, drawn.partial)
        assert drawn.partial == (0, len(drawn.values) - 1)
        svg = figure("x", drawn, "x", 0.9, (0.0, 100.0), captioned=False)
        assert len(re.findall("V", re.search('class="series" d="([^"]*)"', svg)[1])) == len(within)
        assert np.abs(within - (5 * 100 + 2 * 40) / 7).max() < 0.3  # a Sunday has 23 hours
    else:
        assert (drawn.longer, len(drawn.values), set(drawn.values)) == ("days", 182, {40.0, 100.0})
    assert figures > 12 or drawn.longer == "days"
    assert np.diff(drawn.grid.edges()).max() <= longest


def test_wide_intervals_set_no_axis_and_grey_figures_are_out_of_the_way():
    keys, size = ["busy", "quiet", "small"], 24
    release = panel(keys, steps=range(3 * size), values=np.zeros(3 * size), size=3 * size, probability=1.0)
    values = np.repeat([100.0, 40.0, 2.0], size)
    errors = np.where(np.arange(3 * size) % 6 == 0, 500.0, 5.0)  # a hard hour in each six
    series = ts.Series(values, release=release, standard_error=errors)
    page = series.to_html(grid=ts.TimeGrid(start="2024-03-04", size=size, step="1h", zone="UTC"))
    readable, folded = page.split("<details")
    assert re.findall('<span style="top:0.00%">(.*?)</span>', readable) == ["150", "150"]
    assert folded.startswith(" class=folded><summary>1 of 3 series, too uncertain to read in these steps</summary>")
    assert folded.count("<figure class=faint>") == page.count("<figure class=faint>") == 1
    alone = ts.Series(
        np.full(size, 2.0),
        release=release_of(steps=range(size), values=np.zeros(size), signal=size, scale=1.0, sampling_probability=1.0),
        standard_error=5.0,
    )
    assert "<details" not in alone.to_html()  # there is nothing else


def test_a_page_of_many_series_is_short_and_opens_them_by_name():
    keys = [f"<{k}>" for k in range(100)]
    rng, size = np.random.default_rng(0), 168
    values = rng.normal(50, 20, 100 * size)
    release = panel(keys, steps=range(len(values)), values=values, size=len(values), probability=1.0)
    grid = ts.TimeGrid(start="2024-03-30T00:00", size=size, step="1h", zone="Europe/Berlin")
    page = ts.Series(values, release=release, standard_error=9.0).to_html(grid=grid, totals="3h")
    assert len(page) < 10**6
    read = Reader(page)
    assert (read.tags.count("figure"), read.tags.count("details")) == (60, 48)
    assert page.count("<summary>&lt;12&gt;</summary>") == 1
    words = " ".join(read.words)
    for said in (
        "means of 3 hours",
        "More figures open by their names. The first 60 of 100 series are drawn.",
        "The first 89 of 100 series are here.",
        "The series with intervals, for spreadsheets (CSV, packed)",
    ):
        assert said in words, said


@pytest.mark.parametrize("size", [4000, 12_000, 400_000])
def test_long_tables_are_packed_and_those_without_room_left_out(size):
    values = np.random.default_rng(0).normal(50, 20, size)
    release = release_of(steps=range(size), values=values, signal=size, scale=3.0, sampling_probability=1.0)
    series = ts.Series(values, release=release, standard_error=3.0)
    page = series.to_html(totals=size // 10)
    assert len(page) < 10**6
    packed = re.findall(r'download="series-csv.zip" href="data:application/zip;base64,([\w+/=]+)"', page)
    if size == 12_000:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed[0]))) as archive:
            assert archive.read("series.csv").decode() == series.to_csv()
        assert page == series.to_html(totals=size // 10)
    else:
        assert ('download="series.csv"' in page, len(packed)) == (size == 4000, 0)
    missing = "for spreadsheets (CSV): too large for this page; ask its publisher for it"
    assert (missing in page) == (size == 400_000)


def test_axes_are_equal_unless_heights_differ_tenfold():
    release = panel("ab", steps=range(20), values=np.zeros(20), size=20, probability=1.0)
    near = ts.Series(np.repeat([5.0, 40.0], 10), release=release)
    far = ts.Series(np.repeat([5.0, 60.0], 10), release=release)
    assert "Axes differ" not in near.to_html()
    assert near.to_html().count(">40</span>") == 2
    assert "Axes differ" in far.to_html()
    assert far.to_html().count(">60</span>") == 1


def test_a_table_opens_in_a_spreadsheet(tmp_path):
    keys = ["=1+1", "-2", 'b,"c"', "  @x", "plain"]
    release = panel(keys, steps=range(10), values=np.zeros(10), size=10, probability=1.0)
    series = ts.Series(np.arange(10.0) - 3.25, release=release, standard_error=0.5)
    grid = ts.TimeGrid(start="2024-03-31T01:00", size=2, step="1h", zone="Europe/Berlin")
    text = series.to_csv(tmp_path / "x.csv", grid=grid)
    assert (tmp_path / "x.csv").read_bytes() == text.encode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head[:6] == ["time", "'=1+1", "'-2", 'b,"c"', "'  @x", "plain"]
    assert head[6:8] == ["'=1+1, from", "'=1+1, to"]
    assert [row[0] for row in rows] == ["2024-03-31 01:00", "2024-03-31 03:00"]
    assert rows[0][1:6] == ["-3.2", "-1.2", "0.8", "2.8", "4.8"]
    assert rows[0][6:8] == ["-4.1", "-2.4"]
    unknown = ts.Series(np.arange(10.0), release=release).to_csv()
    assert unknown.splitlines()[1] == "0,0.00,2.00,4.00,6.00,8.00"


def test_a_workbook_has_series_totals_and_notes(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    sites, total = ts.reconcile(*map(ts.interpolate, behind_a_count(["=1+1\x07", "b"])))
    path = tmp_path / "x.xlsx"
    sites.to_excel(path, beside=[total], title="=Trips", unit="trips")
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Series", "Totals", "Notes"]
    sheet = book["Series"]
    assert [cell.value for cell in sheet[1]][:4] == ["time", "city", "=1+1�", "b"]
    assert all(cell.data_type == "s" for cell in sheet[1])
    assert sheet.max_row == 73
    assert str(sheet["A28"].value) == "2024-03-31 03:00:00"
    assert sheet["B2"].value == pytest.approx(total.values[0])
    days = total.resample("1d")
    assert [cell.value for cell in book["Totals"]["B"]][1:-1] == pytest.approx(days.values.tolist())
    assert book["Totals"].cell(book["Totals"].max_row, 1).value == "in all"
    assert book["Totals"].cell(book["Totals"].max_row, 2).value == pytest.approx(total.values.sum())
    low = [cell.value for cell in book["Totals"]["E"]]
    assert low[0] == "city, from"
    assert low[1:-1] == pytest.approx(days.interval()[0].tolist())
    notes = [row[0].value for row in book["Notes"].iter_rows()]
    assert notes[0] == "=Trips"
    assert any("local times of Europe/Berlin" in note for note in notes)
    assert any("covers in part" in note for note in notes)


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"before")
    refuses("step", lambda: smoothed().to_excel(path, grid=DAYS, totals="90min"))
    with pytest.raises(OSError, match="folder"):
        smoothed().to_html(tmp_path)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["x.xlsx"]
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"opendp_timeseries\[excel\]"):
        smoothed().to_excel(path)


@pytest.mark.parametrize(
    ("error", "digits"), [(0.03, 3), (0.9, 2), (1.9, 1), (2.0, 0), (40.0, 0), (np.nan, 2), (0.0, 2)]
)
def test_numbers_are_whole_unless_two_digits_of_the_error_need_decimals(error, digits):
    assert digits_for(np.array([error])) == digits


def test_nothing_but_the_release_is_read():
    release = behind_a_count()
    again = ts.Release.from_json(release.to_json())
    assert ts.interpolate(release).to_html() == ts.interpolate(again).to_html()


def test_notebooks_show_what_things_are_in_few_words():
    release = behind_a_count()
    shown = Reader(release._repr_html_())
    assert shown.tags.count("table") == 1
    words = " ".join(shown.words)
    assert "72 of 72 steps" in words
    assert release.guarantee() in words
    assert len(words) < 400
    series = smoothed(events=[3])
    words = " ".join(Reader(dataclasses.replace(series, model=ATTACK)._repr_html_()).words)
    assert ATTACK in words
    assert "±3.29, of the counts" in words
    assert "not known" in ts.Series(np.zeros(72), release=series.release)._repr_html_()
    assert "none is stated" in series.release._repr_html_()


@pytest.mark.parametrize(
    ("start", "step", "first", "form"),
    [
        ("2024-03-01", "1d", "2024-03-01 00:00:00", "yyyy-mm-dd"),
        ("2024-03-01T00:00:30", "30s", "2024-03-01 00:00:30", "yyyy-mm-dd hh:mm:ss"),
        ("1850-01-01", "1y", "1850-01-01", "yyyy-mm-dd"),
    ],
)
def test_times_in_a_workbook_are_times_where_spreadsheets_know_them(tmp_path, start, step, first, form):
    openpyxl = pytest.importorskip("openpyxl")
    grid = ts.TimeGrid(start=start, size=24, step=step, zone="UTC")
    smoothed(24).to_excel(tmp_path / "x.xlsx", grid=grid, totals="")
    cell = openpyxl.load_workbook(tmp_path / "x.xlsx")["Series"]["A2"]
    assert (str(cell.value), cell.number_format) == (first, form)


def test_every_series_has_a_name_of_its_own():
    one, two = smoothed(), smoothed()
    head = one.to_csv(beside=[two, two], title="Trips").splitlines()[0].split(",")
    assert head[1:4] == ["total", "total (2)", "Trips"]


def test_keys_have_their_own_names_whatever_others_are_called():
    keys = ["total", "total (2)", "in all"]
    sites, people = (
        ts.Series(
            np.arange(float(size)),
            release=panel(keys, steps=range(size), values=np.arange(float(size)), size=size, probability=1.0),
            standard_error=1.0,
        )
        for size in (9, 3)
    )
    made = contents_of(sites, beside=[smoothed(3)], people=[people.by_key()["total"], people])
    assert made.groups == [["total (3)"], keys]
    assert list(made.people) == ["in all (2)", *keys]
    assert made.people["in all"][0] == 2.0


@pytest.mark.parametrize(
    ("title", "name"),
    [("駅" * 90, "駅" * 33), ("a" * 50 + " " + "b" * 99, "b" * 99), ("!?", "series"), ("Trips", "trips")],
    ids=["wide", "long", "signs", "short"],
)
def test_names_of_files_fit_on_disks_and_begin_no_option(title, name):
    assert contents_of(smoothed(), title=title).downloads["csv"] == f"{name}.csv"


HOURS = ts.TimeGrid(start="2024-10-27T00:00", size=6, step="1h", zone="Europe/Berlin")  # two of them are 02:00


def written_by_the_command(series, totals=(), people=(), decimal="."):
    made = outputs.Results((series.release,), series, totals, people)
    told = types.SimpleNamespace(decimal=decimal)
    return {suffix: outputs.document(suffix, made, told).decode() for suffix in (".csv", "-people.csv")}


def test_the_tables_of_the_command_line_are_written_as_all_others():
    sites, total = ts.reconcile(*map(ts.interpolate, behind_a_count(["=Hbf Süd", "+Campus"])))
    space = make.space(time="when")
    count = space >> ts.then_individual_count(by="site", keys=["=Hbf Süd", "+Campus"], key_cap=3, grid=DAYS)
    people = (count >> ts.then_subsampled_gaussian(8.0, sampling_probability=1.0, delta=1e-6))(
        {"id": np.arange(90), "when": np.repeat(DAYS.instants()[:1], 90), "site": np.repeat("=Hbf Süd", 90)}
    )
    tables = written_by_the_command(sites, (total,), (ts.interpolate(people),))
    for text in tables.values():
        assert text.startswith("\ufeff")
        head, *rows = csv.reader(io.StringIO(text[1:], newline=""))
        assert "'=Hbf Süd" in {row[0] for row in rows}
        assert "'+Campus" in {row[0] for row in rows}
        numbers = [cell for row in rows for cell in row[1 + ("step_start" in head) :] if cell not in ("yes", "no", "3")]
        assert [cell for cell in numbers if not re.fullmatch("(-?[0-9]+)?", cell)] == []
        assert "-0" not in numbers
    assert set(head) == {"key", "individuals", "low", "high", "people_cap"}


def test_a_comma_is_the_decimal_mark_where_semicolons_separate():
    release = release_of(steps=range(6), values=np.zeros(6), signal=6, scale=3.0, sampling_probability=1.0)
    series = ts.Series([1234.5] * 6, release=release, standard_error=0.1)
    rows = list(csv.reader(io.StringIO(series.to_csv(decimal=",")), delimiter=";"))
    assert rows[1] == ["0", "1234,50", "1234,34", "1234,66"]
    assert series.to_csv().splitlines()[1] == "0,1234.50,1234.34,1234.66"


def test_the_hour_that_the_clock_repeats_has_its_offset_everywhere(tmp_path):
    twice = ["2024-10-27 02:00+02:00", "2024-10-27 02:00+01:00"]
    assert instants_as_text(HOURS).tolist() == [
        "2024-10-27 00:00",
        "2024-10-27 01:00",
        *twice,
        "2024-10-27 03:00",
        "2024-10-27 04:00",
        "2024-10-27 05:00",
    ]
    series = smoothed(6)
    page = series.to_html(grid=HOURS)
    for at in twice:
        assert f"{at}," in series.to_csv(grid=HOURS)
        assert f'data-is="{at}: ' in page
    openpyxl = pytest.importorskip("openpyxl")
    series.to_excel(tmp_path / "x.xlsx", grid=HOURS)
    column = [cell.value for cell in openpyxl.load_workbook(tmp_path / "x.xlsx")["Series"]["A"]]
    assert column[3:5] == twice
    assert str(column[5]) == "2024-10-27 03:00:00"


def test_an_axis_reaches_as_far_as_the_band():
    series = ts.Series(np.full(6, 5.0), release=smoothed(6).release, standard_error=6.0)
    drawn = drawing_of(series, HOURS, 0.9)
    low, high = drawn.reach
    assert (low, high) == (pytest.approx(-4.87, abs=0.01), pytest.approx(14.87, abs=0.01))
    band = re.search('class="band" d="([^"]+)"', figure("x", drawn, "x", 0.9, (low, high), captioned=False))[1]
    assert max(map(float, re.findall(r"M[\d.]+ ([\d.]+)H", band))) == 300.0  # its lower end, at the lower edge
    assert drawing_of(smoothed(), DAYS, 0.9).reach[0] == 0.0


def test_an_axis_of_means_does_not_reach_for_steps_that_are_not_drawn():
    grid = ts.TimeGrid(start="2024-01-01T00:00", size=1440, step="1h", zone="UTC")
    drawn = drawing_of(smoothed(1440), grid, 0.9)
    assert drawn.longer == "days"
    assert drawn.ends[1] == pytest.approx(70.0)  # of its hours
    assert drawn.reach[1] < 55.0


def test_every_printed_page_of_a_workbook_has_its_titles_and_notes_are_not_cut_off(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    release = panel(keys=["Universität", "x"], steps=range(96), values=np.zeros(96), size=96, probability=1.0)
    ts.smooth(release).to_excel(tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    series, notes = book["Series"], book["Notes"]
    assert (series.print_title_rows, series.print_title_cols) == ("$1:$1", "$A:$A")
    assert series.column_dimensions["B"].width > len("Universität")
    assert (notes.sheet_properties.pageSetUpPr.fitToPage, notes.page_setup.fitToHeight) == (True, 0)


def test_thousands_have_no_comma_on_a_page():
    release = smoothed(6).release
    page = ts.Series(np.full(6, 12_345.0), release=release, standard_error=100.0).to_html(grid=HOURS, totals="6h")
    assert f"12{THIN}345" in page
    words = re.sub('base64,[^"]*', "", page)
    assert not re.search(r"\d,\d{3}", words[words.index("<body>") :])


def test_a_page_begins_with_what_everybody_can_read(tmp_path):
    release = behind_a_count(participation_cap=2 * DAYS.size)
    series = ts.smooth(release, seasons=24)
    space = make.space(time="when")
    log = {"id": np.arange(90), "when": np.full(90, "2024-03-30T01", "M8[h]")}
    noise = ts.then_subsampled_gaussian(8.0, sampling_probability=1.0, delta=1e-6)
    people = ts.interpolate((space >> ts.then_individual_count(grid=DAYS) >> noise)(log))
    page = series.to_html(title="Trips in Köln!", unit="people per hour", people=[people])
    words = " ".join(Reader(page).words)
    first = (
        "No number here is exact: random noise was added to them, which limits what anybody can learn from them about"
        " any one individual. A grey band, or ±, says how far off a number may be: it holds the count of everybody with"
        " a probability of 90%, if the model is right."
    )
    assert words.index(first) < words.index("72 steps from")
    assert words.index("How many individuals there are") < words.index("How people are protected")
    assert f"in all</th><td>{people.values[0]:.0f} <small>± 13</small></td>" in page
    assert "In all, each individual counts once." in words
    assert set(re.findall('download="([^"]+)"', page)) == {
        f"trips-in-köln-2024-03-to-2024-04.{it}" for it in ("csv", "json")
    }
    assert "verify trips-in-köln-2024-03-to-2024-04.json" in page
    (record,) = re.findall(r"data:application/json;base64,([\w+/=]+)", page)
    assert len(ts.read_releases(base64.b64decode(record).decode())) == 2
    openpyxl = pytest.importorskip("openpyxl")
    series.to_excel(tmp_path / "x.xlsx", people=[people])
    row = [cell.value for cell in openpyxl.load_workbook(tmp_path / "x.xlsx")["Individuals"][2]]
    assert row == ["in all", *map(pytest.approx, (people.values[0], *(end[0] for end in people.interval())))]
    alone = " ".join(Reader(smoothed().to_html()).words)
    assert "No number here is exact: random noise was added to them. A grey" in alone


def test_what_is_too_uncertain_is_grey_and_said_to_be_so(tmp_path):
    keys, size = ["large", "small"], 6
    release = panel(keys, steps=range(12), values=np.zeros(12), size=12, probability=1.0)
    values = np.repeat([50.0, 2.0], size)
    page = ts.Series(values, release=release, standard_error=3.0).to_html(grid=HOURS, totals="6h")
    assert re.findall(r"<td( class=faint)?>(\d+) ", page) == [("", "300"), (" class=faint", "12")]
    assert re.findall("<figcaption>(.*?)</figcaption>", page) == ["large", "small (grey: too uncertain to read)"]
    assert page.count("<figure class=faint>") == 1
    assert page.count("Grey are numbers whose ± is larger than they are") == 2
    openpyxl = pytest.importorskip("openpyxl")
    ts.Series(values, release=release, standard_error=3.0).to_excel(tmp_path / "x.xlsx", grid=HOURS, totals="6h")
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    for sheet in ("Series", "Totals"):
        assert [cell.font.color.rgb == "FF8C8C8C" for cell in book[sheet][2][1:3]] == [False, True]
    assert "Grey are numbers whose ± is larger than they are." in {row[0].value for row in book["Notes"].iter_rows()}
    assert "Grey" not in ts.Series(values + 50, release=release, standard_error=3.0).to_html(grid=HOURS, totals="6h")


def test_a_page_of_a_year_has_profiles_and_says_what_may_be_compared(tmp_path):
    grid = ts.TimeGrid(start="2023-12-01", end="2025-02-01", step="1d", zone="Europe/Berlin")
    weekday = (grid.edges("local")[:-1].astype("M8[D]").astype(int) + 3) % 7
    values = np.where(weekday < 5, 100.0, 40.0) + np.where(np.arange(grid.size) >= 397, 10.0, 0.0)  # from January 2025
    release = release_of(steps=range(grid.size), values=values, signal=grid.size, scale=3.0, sampling_probability=1.0)
    covariance = 4.0 * np.eye(grid.size) + 1.0  # an error of each day, and one that all of them have
    series = ts.Series(values, release=release, covariance=covariance)
    made = contents_of(series, grid=grid, totals="1mo", profiles=True, unit="people per day")
    assert list(made.profiles) == ["A usual week"]
    week = made.profiles["A usual week"]
    assert (week.names[0], week.names[6]) == ("Monday", "Sunday")
    mondays = np.count_nonzero(weekday == 0)
    assert week.values[0] == pytest.approx(values[weekday == 0].mean())
    assert week.high[0] - week.values[0] == pytest.approx(1.6449 * np.sqrt(4 / mondays + 1), rel=1e-4)
    assert list(made.before) == ["2024-12", "2025-01"]
    more, half = made.before["2025-01"]
    assert half == pytest.approx(1.6449 * np.sqrt(4 * 62), rel=1e-4)  # what is common to both is in neither
    january = grid.edges("local")[:-1].astype("M8[M]")
    assert more == pytest.approx(
        values[january == np.datetime64("2025-01")].sum() - values[january == np.datetime64("2024-01")].sum()
    )
    known = rounded(1.6449 * np.sqrt(4 * grid.size + grid.size**2))
    assert f"The sum of all steps is known within ±{known} (2% of it)." in " ".join(made.compared)
    assert "Totals by month err together" in " ".join(made.compared)
    apart = contents_of(ts.Series(values, release=release, covariance=covariance - 1.0), grid=grid, totals="1mo")
    assert "err together" not in " ".join(apart.compared)
    assert 'data-is="Monday: ' in series.to_html(grid=grid, totals="1mo", profiles=True)
    openpyxl = pytest.importorskip("openpyxl")
    series.to_excel(tmp_path / "x.xlsx", grid=grid, totals="1mo", profiles=True)
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert book.sheetnames == ["Series", "Totals", "A usual week", "Against a year before", "Notes"]
    assert book["A usual week"]["A3"].value == "Tuesday"
    hours = ts.TimeGrid(
        start="2024-03-25", end="2024-04-15", step="1h", zone="Europe/Berlin"
    )  # with a change of clocks
    of_hours = contents_of(smoothed(hours.size), grid=hours, profiles=True).profiles
    assert {title: len(one.names) for title, one in of_hours.items()} == {"A usual week": 168, "A usual day": 24}
    assert contents_of(smoothed(), grid=DAYS, profiles=True).profiles == {}
    release = release_of(steps=range(12), values=np.ones(12), signal=22, scale=3.0, sampling_probability=1.0)
    ahead = ts.Series(np.ones(22), release=release, standard_error=1.0, ahead=10)  # less than two weeks are known
    days = ts.TimeGrid(start="2024-03-25", size=22, step="1d", zone="Europe/Berlin")
    made = contents_of(ahead, grid=days, profiles=True, title="Trips")
    assert made.profiles == {}
    assert made.cite.startswith("Trips, 2024-03-25 to 2024-04-05.")  # and what is a forecast is not cited
    assert made.downloads["json"] == "trips-2024-03-to-2024-04.json"


def test_single_events_are_said_with_their_times(tmp_path):
    grid = ts.TimeGrid(start="2024-03-04", step="1h", size=72, zone="UTC")
    one = dataclasses.replace(smoothed(72), events=[5, 30, 31, 32])
    assert "Single events" not in smoothed(72).to_html(grid=grid)
    words = " ".join(Reader(one.to_html(grid=grid)).words)
    times = "2024-03-04 05:00, 2024-03-05 06:00 to 2024-03-05 08:00"
    assert f"Single events, which no pattern explains: {times}." in words
    assert "explains in steps: 5, 30 to 32." in " ".join(Reader(one.to_html()).words)
    rows = list(csv.DictReader(io.StringIO(one.to_csv(grid=grid))))
    assert [row["time"] for row in rows if row["single events"] == "series"] == [
        "2024-03-04 05:00",
        *(f"2024-03-05 0{hour}:00" for hour in (6, 7, 8)),
    ]
    openpyxl = pytest.importorskip("openpyxl")
    one.to_excel(tmp_path / "x.xlsx", grid=grid)
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert any(times in str(cell.value) for cell in book["Notes"]["A"])
    assert "single events" in [cell.value for cell in book["Series"][1]]
    many = dataclasses.replace(smoothed(72), events=range(0, 72, 4))
    assert "2024-03-05 04:00 and 10 more." in many.to_html(grid=grid)


def test_a_page_names_no_file_that_is_not_there(monkeypatch):
    monkeypatch.setattr(pages, "_MOST", 10_000)
    series = ts.interpolate(behind_a_count())
    alone = pages.page_of(contents_of(series))
    assert alone.count("too large for this page; ask its publisher for it") == 2
    assert "verify" not in alone
    files = {"csv": "trips.csv", "json": "trips.json"}
    beside = pages.page_of(contents_of(series, files=files))
    for name in files.values():
        assert f"too large for this page; published beside it, as {name}" in beside
    assert "<code>python -m opendp_timeseries verify trips.json</code>" in beside
    monkeypatch.undo()
    there = pages.page_of(contents_of(series, title="Köln", files={"csv": 'a"b.csv', "json": 'a"b.json'}))
    assert html.unescape(" ".join(re.findall('download="([^"]+)"', there))) == 'a"b-columns.csv a"b.json'
