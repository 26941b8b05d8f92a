"""The files of a release: a table, the record that a reader can verify, and a figure."""

import argparse
import codecs
import contextlib
import io
import itertools
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import opendp_timeseries as ts
from opendp_timeseries._files import status_if_replaceable, write_file
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.commandline.datapackage import data_package
from opendp_timeseries.commandline.waiting import say
from opendp_timeseries.grid import PERIODS
from opendp_timeseries.reconstruction.smooth import series_of
from opendp_timeseries.results.contents import Contents, contents_of, instants_as_text, offsets_as_text
from opendp_timeseries.results.digits import digits_for
from opendp_timeseries.results.drawing import drawing_of, drawing_of_steps
from opendp_timeseries.results.frames import known_interval
from opendp_timeseries.results.page import page_of
from opendp_timeseries.results.plot import draw, fonts_for, reach, wrapped
from opendp_timeseries.results.spreadsheet import csv_of, encoding_of, workbook_of
from opendp_timeseries.smoothing.everybody import last_tier

_COLUMNS: Final = ("step_start", "private_count", "low", "high", "kept")
_OF_MEANS: Final = ("step_start", "mean", "low", "high", "kept")
_OF_PEOPLE: Final = ("key", "individuals", "low", "high", "people_cap")


def _beginnings(*headers: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return how tables with these headers begin."""
    return tuple(
        mark + sign.join(header).encode() + b"\r\n"
        for header in headers
        for mark in (b"", codecs.BOM_UTF8)
        for sign in ",;"
    )


_RECORD: Final = b'{"format": "opendp_timeseries'
#: By suffix, how a file of a release begins, and what else it holds: never what somebody else's file or a ledger does.
_MARKS: Final[dict[str, tuple[tuple[bytes, ...], bytes]]] = {
    ".csv": (_beginnings(_COLUMNS, ("key", *_COLUMNS)), b""),
    "-people.csv": (_beginnings(_OF_PEOPLE), b""),
    "-means.csv": (_beginnings(_OF_MEANS, ("key", *_OF_MEANS)), b""),
    ".json": (
        (_RECORD + b' release", ', _RECORD + b' releases", "version": 1, "guarantee": '),
        b"",
    ),
    ".png": ((b"\x89PNG\r\n\x1a\n",), b"tEXtSoftware\0opendp_timeseries"),
    ".svg": ((b"<?xml",), b"<dc:title>opendp_timeseries</dc:title>"),
    ".pdf": ((b"%PDF-",), b"/Creator (opendp_timeseries)"),
    "-datapackage.json": ((b'{"profile": "data-package"',), b"opendp_timeseries"),
    **dict.fromkeys(
        (".html", "-means.html"), ((b"<!doctype html>",), b'<meta name="generator" content="opendp_timeseries ')
    ),
    **dict.fromkeys((".xlsx", "-means.xlsx"), ((b"PK",), b"<dc:creator>opendp_timeseries</dc:creator>")),
}
_UNDATED: Final = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
#: Steps that have a name.
STEPS: Final = {"1min": "minute", "1h": "hour"} | PERIODS
#: What the intervals in table and figure cover, at each step on its own.
CONFIDENCE: Final = 0.9
#: So many of the longer steps of a long series are enlarged.
_ENLARGED: Final = 14
#: So many series of a panel are drawn.
_MOST_SERIES: Final = 12
#: Letters in a line of the title of a figure, and inches that a line takes; and so many letters are named.
_TITLE: Final = 80
_LINE: Final = 0.25
_NAMED: Final = 10


class Results(NamedTuple):
    """Releases of a command, and the series reconstructed from them."""

    releases: tuple[ts.Release, ...]  # all of them, as they were made together
    series: ts.Series  # made from the first, which is of a series or a panel
    totals: tuple[ts.Series, ...] = ()  # of the panel, the largest first
    people: tuple[ts.Series, ...] = ()  # numbers of individuals
    means: ts.Series | None = None  # of a value; None if they were not asked for, or cannot be made

    @property
    def joint_release(self) -> ts.Release:
        """The first release, with the statement of all of them together, and of what they are part."""
        first = self.releases[0]
        if len(self.releases) == 1:
            return first
        joint = joint_loss([release.design.loss() for release in self.releases], adaptivity=Adaptivity.NONE)
        statement, parent = first.stated, first.stated.parent
        parent = None if parent is None or parent.kind == "composition" else parent
        if parent is not None and any(part.stated.parent != parent for part in self.releases):
            parent = replace(parent, number=None)  # each has its own
        return replace(first, statement=replace(statement, loss=statement.view.points(joint), parent=parent))


def places(options: argparse.Namespace) -> dict[str, Path]:
    """Return where the files go, by suffix; no figure without Matplotlib. Refuse to lose a file."""
    output, log, figure = options.output, options.file, f".{options.figure}"
    if output.name in ("", "..") or output.suffix.lower() in _MARKS:
        raise Refusal(
            "output", Quoted(output), f"must name files without their suffix, such as {Path('folder', 'release')}"
        )
    if options.spreadsheet and find_spec("openpyxl") is None:
        raise ImportError("--spreadsheet needs openpyxl; install opendp_timeseries[excel], or leave it out")
    paths = {suffix: output.with_name(output.name + suffix) for suffix in _MARKS}
    wanted = _documents(options) | {"-datapackage.json": options.datapackage}
    wanted[figure] = figure in paths and _can_draw()
    written = {suffix: place for suffix, place in paths.items() if wanted.get(suffix)}
    for suffix, place in paths.items():
        if log is not None and place.exists() and os.path.samefile(place, log):
            raise Refusal("output", Quoted(place), f"is the log ({log}) itself", "choose another `output`")
        if status_if_replaceable(place, replace=True) is None:
            continue
        if options.resume and not options.force and _is_ours(place, suffix):
            continue  # what is missing is written beside it
        if not options.force:
            raise Refusal("output", Quoted(place), "exists", "choose another `output`, or replace it by `force`")
        if not _is_ours(place, suffix):
            raise Refusal(
                "output", Quoted(place), "is not an earlier release, which `force` would replace", "choose another"
            )
        if suffix not in written:
            what, how = "file", "ask for it as before"
            if suffix in (".png", ".svg", ".pdf"):
                what, how = "figure", f"--figure {suffix[1:]} with opendp_timeseries[plot]"
            raise Refusal(
                "output",
                Quoted(place),
                f"is of an earlier release, and no new {what} replaces it",
                f"choose another `output`, or {how}",
            )
    return written


def _is_ours(place: Path, suffix: str) -> bool:
    begins, holds = _MARKS[suffix]
    with place.open("rb") as file, contextlib.suppress(ValueError, RecursionError, KeyError, zipfile.BadZipFile):
        head = file.read(2000)
        if head.startswith(begins) and suffix in (".json", "-datapackage.json", ".pdf"):  # no other file is read whole
            head += file.read()
        if head.startswith(begins) and suffix.endswith(".xlsx"):
            with zipfile.ZipFile(file) as book, book.open("docProps/core.xml") as about:
                head += about.read(2000)
        return head.startswith(begins) and holds in head and (suffix != ".json" or bool(json.loads(head)))
    return False


def _can_draw() -> bool:
    if "matplotlib" not in sys.modules:
        os.environ["MPLBACKEND"] = "agg"  # a notebook's draws on its page
    return find_spec("matplotlib") is not None


def document(suffix: str, results: Results, options: argparse.Namespace, content: Contents | None = None) -> bytes:
    """Return the content of a file.

    :param content: of a page, workbook and record; by default that of the results.
    """
    match suffix:
        case ".csv":
            return _table([*results.totals, results.series], _COLUMNS, options.decimal)
        case "-means.csv":
            means, keyed = results.means, results.series.release.keys is not None
            return _table([] if means is None else [means], _OF_MEANS, options.decimal, keyed=keyed)
        case "-people.csv":
            return _individuals(results, options.decimal)
        case ".json":
            return f"{_record(results) if content is None else content.records}\n".encode()
        case "-datapackage.json":
            content = contents_of(results.series, totals="", records="", **captions(results, options))
            return package_of(results, content, options, [end for end, wanted in _documents(options).items() if wanted])
        case ".html" | ".xlsx":
            content = content or contents_of(results.series, records=_record(results), **captions(results, options))
        case "-means.html" | "-means.xlsx":
            content = content or means_of(results, options)
    if content is not None:
        return page_of(content).encode() if suffix.endswith(".html") else workbook_of(content)
    return _figure(suffix[1:], results, captions(results, options)["unit"], options.title)


def reconstructed(
    counts: Sequence[ts.Release],
    numbers: Sequence[ts.Release],
    people: Sequence[ts.Release],
    options: argparse.Namespace,
) -> Results:
    """Make series of releases, that of a panel and its totals so that they add up.

    :param numbers: by which sums of a value are divided, for their means.
    :param people: numbers of individuals.
    """
    how: dict[str, Any] = {"seasons": options.season, "holidays": options.holidays or (), "ahead": options.ahead}
    how["progress"] = False if options.quiet else None
    try:
        series = series_of(counts, **how)
    except Exception as error:  # whatever it is, the release must not be lost for it
        _say_instead(error, "The smoother", "the series are interpolated, with wider intervals")
        series = [ts.interpolate(release) for release in counts]
        try:
            series = list(ts.reconcile(*series)) if len(series) > 1 else series
        except Exception as error:
            _say_instead(error, "Reconciliation", "series and totals do not add up")
    means = None
    try:
        means = ts.means(series[0], series_of(numbers, **how)[0]) if numbers else None
    except Exception as error:
        _say_instead(error, "The smoother of numbers", "there are no means")
    of_people = tuple(map(_series_of_individuals, people))
    return Results((*counts, *numbers, *people), series[0], tuple(series[:0:-1]), of_people, means)


def _series_of_individuals(release: ts.Release) -> ts.Series:
    """Make numbers of individuals with their errors, of those who are counted in several tiers."""
    if release.design.count.tiers is None:
        return ts.interpolate(release)
    try:
        return ts.smooth(release)
    except Exception as error:  # as above
        _say_instead(
            error, "The smoother", "numbers of individuals are those of the last tier alone, with wider intervals"
        )
        return ts.interpolate(last_tier(release))


def _say_instead(error: Exception, what: str, instead: str) -> None:
    """Say that something failed which had nothing but releases to go by, and what is written instead."""
    say(f"{what} failed ({type(error).__name__}): {instead}. Nothing of the release is lost.")


def _documents(options: argparse.Namespace) -> dict[str, bool]:
    """Return which tables, records, pages and workbooks are asked for, by the ends of their names."""
    of_people = options.people or options.people_by_key or options.people_cap is not None
    wanted = {".csv": True, ".json": True, ".html": options.page, ".xlsx": options.spreadsheet}
    mean = bool(options.mean)
    of_means = {"-means.csv": mean, "-means.html": mean and options.page, "-means.xlsx": mean and options.spreadsheet}
    return wanted | of_means | {"-people.csv": of_people}


def check_ours(place: Path, suffix: str, name: str = "output") -> None:
    """Refuse a place where there is anything but an earlier file of this kind, which is replaced."""
    if status_if_replaceable(place, replace=True) is not None and not _is_ours(place, suffix):
        raise Refusal(name, Quoted(place), "exists, and is not of an earlier run", f"choose another --{name}")


def write_preview(place: Path, page: str) -> None:
    """Write a page of made-up numbers; refuse to lose any other file."""
    if place.suffix != ".html":
        raise Refusal("preview", Quoted(place), "must end in .html, as it is a page")
    if place.exists() and b'<body class="made-up">' not in place.read_bytes():
        raise Refusal("preview", Quoted(place), "exists, and is no page of made-up numbers", "choose another name")
    write_file(place, page.encode())


def _record(results: Results) -> str:
    """Return all releases, made at one time of one log, with the guarantee of all of them, which everything states."""
    if len(results.releases) == 1:
        return results.releases[0].to_json()
    delta = results.joint_release.stated.view.delta
    return ts.write_releases(results.releases, adaptivity="non-adaptive", delta=delta)


def package_of(results: Results, content: Contents, options: argparse.Namespace, ends: Sequence[str]) -> bytes:
    """Return the data package of files, by the ends of their names, and of what they hold."""
    key = () if results.series.release.keys is None else ("key",)
    tables = {
        ".csv": ((*key, *_COLUMNS), [*results.totals, results.series]),
        "-means.csv": ((*key, *_OF_MEANS), [results.series]),
        "-people.csv": (_OF_PEOPLE, results.people),
    }
    encoded = {end: (columns, encoding_of(itertools.chain(*map(_keys, of)))) for end, (columns, of) in tables.items()}
    package = data_package(options.output.name, ends, encoded, content, options.decimal)
    return f"{json.dumps(package, ensure_ascii=False)}\n".encode()


def unit_of(release: ts.Release) -> str:
    """Return the unit of a series, by what it counts."""
    step = str(release.design.count.grid.step)
    return f"{release.design.count.quantity} per {STEPS.get(step, step)}"


def captions(results: Results, options: argparse.Namespace, guarantee: str | None = None) -> dict[str, Any]:
    """Return title, unit, guarantee and the like for page, workbook and summary."""
    unit = unit_of(results.series.release)
    return {
        "title": options.title,
        "unit": options.unit or (unit if options.file is not None else unit.replace("individuals", "aircraft")),
        "notes": options.notes or (),
        "cite": options.cite,
        "confidence_level": CONFIDENCE,
        "beside": results.totals,
        "guarantee": _guarantee(results) if guarantee is None else f"Guarantee: {guarantee}",
        "people": results.people,
        "decimal": options.decimal,
        "files": {suffix[1:]: f"{options.output.name}{suffix}" for suffix in (".csv", ".json")},
    }


def means_of(results: Results, options: argparse.Namespace, **change: Any) -> Contents:
    """Return what a page and a workbook say of means: of sums, if they cannot be made."""
    about: dict[str, Any] = captions(results, options) | {"records": _record(results)} | change
    if results.means is None:
        problem = "Means could not be made of these sums and their numbers, which are both in the record."
        return contents_of(results.series, **about | {"notes": [*about["notes"], problem]})
    about |= {"beside": (), "people": (), "unit": options.value}
    about["files"] = about["files"] | {"csv": f"{options.output.name}-means.csv"}
    about["title"] = f"{options.title or 'Private series'}: means of {options.value}"
    return contents_of(results.means, **about)


def _table(every: Sequence[ts.Series], columns: tuple[str, ...], decimal: str, *, keyed: bool | None = None) -> bytes:
    """Return series below each other, in a form for programs: one row for each step of each."""
    several = every[0].release.keys is not None if keyed is None else keyed
    header = ("key", *columns) if several else columns
    if not every:
        return csv_of(header, [], 0, decimal).encode()
    by_key = {key: part for series in every for key, part in (series.by_key() if several else {"": series}).items()}
    ends = [known_interval(series, CONFIDENCE) for series in by_key.values()]
    places = digits_for(*(high - low for low, high in ends))
    grid = every[-1].release.design.count.grid
    local = grid.instants(zone="local")
    at = list(map("".join, zip(local.astype(str), offsets_as_text(local - grid.instants()), strict=True)))
    states = [np.where(item.is_forecast, "forecast", np.where(item.kept, "yes", "no")) for item in by_key.values()]
    rows = (
        (key, *cells)
        for key, series, (low, high), state in zip(by_key, by_key.values(), ends, states, strict=True)
        for cells in zip(at, *(column.tolist() for column in (series.values, low, high, state)), strict=True)
    )
    return csv_of(header, rows if several else (row[1:] for row in rows), places, decimal).encode()


def _individuals(results: Results, decimal: str) -> bytes:
    rows = [
        (key, *numbers, "" if (count := series.release.design.count).is_full else count.cap)
        for series in results.people
        for key, *numbers in zip(_keys(series), series.values, *series.interval(CONFIDENCE), strict=True)
    ]
    return csv_of(_OF_PEOPLE, rows, digits_for(np.array([row[3] - row[2] for row in rows])), decimal).encode()


def _keys(series: ts.Series) -> tuple[str, ...]:
    return tuple(map(str, series.release.keys or ("",)))


def _lettering(results: Results, unit: str, title: str | None) -> tuple[list[str], str]:
    """Return the fonts of a figure, and the letters that none of them has."""
    keys = next(iter(results.totals), results.series).release.keys or ()
    return fonts_for([title or "", unit, *map(str, keys[:_MOST_SERIES])])


def undrawn(results: Results, options: argparse.Namespace) -> str:
    """Say which letters are boxes in the figure; nothing if none is."""
    _, lacking = _lettering(results, captions(results, options)["unit"], options.title)
    some = f"{lacking[:_NAMED]}{' and others' if len(lacking) > _NAMED else ''}"
    return f"In the figure, boxes stand for {some}: install a font that has them, such as Noto." if lacking else ""


def _figure(kind: str, results: Results, unit: str, title: str | None) -> bytes:
    """Draw a series; or the totals of a panel, or, without any, its first series."""
    import matplotlib
    from matplotlib import pyplot

    # Matplotlib's own settings, whatever somebody's are, as TeX may be missing; but for fonts, of their language.
    settings = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith(("backend", "font."))
    }
    # Long lines overflow Agg's memory.
    settings |= {"agg.path.chunksize": 10_000, "font.family": _lettering(results, unit, title)[0]}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the command says so
        figure = (
            _panel(results, unit) if results.series.parts else _single_figure(results.series, unit, _guarantee(results))
        )
        heading = wrapped(title or f"Private series of {unit}", _TITLE)
        figure.set_figheight(figure.get_figheight() + _LINE * heading.count("\n"))
        figure.suptitle(heading, x=0.01, ha="left", parse_math=False)
        image, creator = io.BytesIO(), "Software" if kind == "png" else "Creator"
        figure.savefig(image, format=kind, dpi=150, metadata={creator: "opendp_timeseries", **_UNDATED[kind]})
        pyplot.close(figure)
    return image.getvalue()


def _guarantee(results: Results) -> str:
    """Return the guarantee as figure, page and workbook say it: that of all releases together."""
    return f"Guarantee: {results.joint_release.guarantee()}"


def _panel(results: Results, unit: str) -> Any:
    series = next(iter(results.totals), results.series)
    axes = ts.plot(
        series,
        keys=list(series.by_key())[:_MOST_SERIES],
        unit=unit,
        confidence_level=CONFIDENCE,
        guarantee=_guarantee(results),
        sharey=False,  # a city is beside its districts
    )
    assert isinstance(axes, dict)  # of a panel
    return next(iter(axes.values())).figure


def _single_figure(series: ts.Series, unit: str, guarantee: str | None = None) -> Any:
    """Draw a long series by the means of longer steps, and enlarge some of it."""
    from matplotlib import pyplot

    grid = series.release.design.count.grid
    overview, steps = drawing_of(series, grid, CONFIDENCE), drawing_of_steps(series, grid, CONFIDENCE)
    is_long = bool(overview.longer)
    how: dict[str, Any] = {"squeeze": False, "layout": "constrained", "height_ratios": (2, 3)[-1 - is_long :]}
    figure, all_axes = pyplot.subplots(1 + is_long, figsize=(9.0, 6.8 if is_long else 4.2), **how)
    *above, axes = all_axes[:, 0]
    ts.plot(series, axes=axes, unit=unit, confidence_level=CONFIDENCE, guarantee=guarantee)
    for top in above:  # a line of thousands of steps would be a slab
        draw(top, overview, is_wide=True)
        top.set_title(overview.title(f"All of it: means of {overview.longer}"), loc="left", fontsize="medium")
        # The middle, or where forecasts begin.
        at, size, half = overview.grid.edges(), len(overview.values), _ENLARGED // 2
        middle = min(max(overview.ahead, half), size - half) if overview.ahead < size else size // 2
        ends = slice(middle - half, middle + half + 1, _ENLARGED)
        axes.set_xlim(*at[ends])
        part = steps.window(*np.searchsorted(grid.edges(), at[ends]))
        reach(axes, part)
        begins, ends = instants_as_text(overview.grid)[ends]
        cut = ", its widest intervals cut at the edge" if part.is_cut else ""
        axes.set_title(f"{begins} to {ends}, enlarged{cut}", loc="left", fontsize="medium")
    return figure
