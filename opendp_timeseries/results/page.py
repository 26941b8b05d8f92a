"""A page to publish: one HTML file that asks for nothing from anywhere, with figures, totals, words and the record."""

import base64
import io
import zipfile
from collections.abc import Iterable, Sequence
from html import escape as _text
from importlib import resources
from itertools import islice
from typing import Any, Final, NamedTuple

from opendp_timeseries.release.release import software
from opendp_timeseries.results.captions import step_in_words, totals_in_words
from opendp_timeseries.results.contents import Contents, ends_as_text, periods_as_text
from opendp_timeseries.results.digits import GREY, digits_for, digits_of, grouped, is_uncertain
from opendp_timeseries.results.drawing import Drawing, common_axis, drawing_of, drawing_of_profile
from opendp_timeseries.results.frames import known_interval
from opendp_timeseries.results.plot import MOST_SERIES
from opendp_timeseries.results.spreadsheet import table_of
from opendp_timeseries.results.svg import figure

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
#: Most characters of a page, and of a file on it that is not packed; and most numbers of its table and of its totals.
_MOST: Final = 10**6
_PLAIN: Final = 2**17
_NUMBERS: Final = 10**6
_TOTALS: Final = 5000
#: From so many columns on, a table may be wider than a screen.
_ACROSS: Final = 4
_SIDEWAYS: Final = "Where the table is cut off, scroll it sideways."
#: So many figures of a panel are open.
_OPEN: Final = 12


def page_of(contents: Contents) -> str:
    """Return the page."""
    first, last = ends_as_text(contents.grid)
    zone = "" if contents.grid.is_integer else f", on the clock of {contents.grid.zone or 'UTC'}"
    unit, size = contents.unit, grouped(contents.grid.size)
    about = f"{unit[:1].upper()}{unit[1:]}. {size} steps from {first} to {last}{zone}."
    version = software()["opendp_timeseries"]
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(contents.title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="opendp_timeseries {version}">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{style}</style></head>'
    )
    says = "Such a page says h" if contents.made_up else "H"
    body = [
        f'<h1>{_text(contents.title)}</h1><p>{_text(" ".join(contents.first))}</p><p class="about">{_text(about)}</p>',
        _figures(contents),
        _totals(contents),
        _before(contents),
        _usual(contents),
        _people(contents),
        _section(f"{says}ow people are protected", contents.protected),
        _section(f"{says}ow far the numbers are from the truth", [*contents.near, *contents.revised]),
        "" if contents.made_up else _section("How to cite", [contents.cite]),
    ]
    if contents.made_up:
        return f'{head}<body class="made-up">{"".join(body)}</body></html>\n'
    page = f"{head}<body>{''.join(body)}<h2>Download</h2>"
    return f"{page}{_downloads(contents, _MOST - len(page))}</body></html>\n"


def _section(title: str, sentences: Iterable[str]) -> str:
    return f"<h2>{title}</h2>" + "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences)


def _figures(contents: Contents) -> str:
    some = dict(islice(contents.series.items(), MOST_SERIES))
    drawings = {name: drawing_of(item, contents.grid, contents.level, len(some)) for name, item in some.items()}
    first, grey = next(iter(drawings.values())), {name for name, item in drawings.items() if item.is_faint}
    blocks, scaled, closed = [], False, False
    for group in contents.groups:
        drawn = {name: drawings[name] for name in group if name in drawings}
        # Of a panel, what is too uncertain to read is out of the way, unless there is nothing else.
        folded = grey & drawn.keys() if len(drawn) > 1 and len(grey) < len(drawings) else set()
        figures, is_uneven = _scaled(contents, {name: item for name, item in drawn.items() if name not in folded})
        scaled, closed = scaled or is_uneven, closed or len(figures) > _OPEN
        several = "panel" if len(drawn) > 1 else "one"
        blocks.append(f'<div class="{several}">{"".join(list(figures.values())[:_OPEN])}</div>')
        blocks += [_details(_text(name), item, "named") for name, item in list(figures.items())[_OPEN:]]
        if folded:
            figures, is_uneven = _scaled(contents, {name: drawn[name] for name in drawn if name in folded})
            scaled = scaled or is_uneven
            title = f"{len(folded)} of {len(drawn)} series, too uncertain to read in these steps"
            blocks.append(_details(title, f'<div class="panel">{"".join(figures.values())}</div>'))
    marks = {
        "line": f"means of {first.longer}" if first.longer else "estimate",
        "band": f"{contents.level:.0%} interval",
        "mark": "a single event" if any(item.events for item in drawings.values()) else "",
    }
    key = "".join(f'<span><i class="{it}"></i>{words}</span> ' for it, words in marks.items() if words)
    if any(item.ahead for item in contents.series.values()):
        key += '<span><i class="dashed"></i>forecast</span> '
    notes = [
        "Rest the pointer on a figure, or tap it, to read its numbers.",
        f"The first or the last of the {first.longer} is there in part, and not drawn." if first.partial else "",
        f"{GREY}, and figures where that is usual." if grey else "",
        "An interval that touches the edge goes on beyond it."
        if any(item.is_cut for item in drawings.values())
        else "",
        "More figures open by their names." if closed else "",
        "Axes differ, as some series are more than ten times as high as others." if scaled else "",
        f"The first {len(drawings)} of {len(contents.series)} series are drawn."
        if len(drawings) < len(contents.series)
        else "",
    ]
    faint = " faint" if len(grey) == len(drawings) else ""
    return "".join(blocks) + f'<p class="key{faint}">{key}</p><p class="note">{" ".join(filter(None, notes))}</p>'


def _details(title: str, content: str, kind: str = "folded") -> str:
    """Return what opens by its title."""
    return f"<details class={kind}><summary>{title}</summary>{content}</details>"


def _scaled(contents: Contents, drawn: dict[str, Drawing]) -> tuple[dict[str, str], bool]:
    """Return figures with equal axes, or with axes of their own, and whether it is these, as heights differ tenfold."""
    common, captioned = common_axis(drawn.values()), len(contents.series) > 1
    figures = {
        name: figure(name, item, contents.unit, contents.level, common or item.reach, captioned=captioned)
        for name, item in drawn.items()
    }
    return figures, common is None


class _Cell(NamedTuple):
    """A number with half the width of its interval, and how many decimals are worth writing."""

    value: float
    half: float
    places: int

    @property
    def is_faint(self) -> bool:
        """Return whether it is too uncertain to read."""
        return bool(is_uncertain(self.value, self.half))

    def written(self, *, signed: bool = False) -> str:
        """Return the cell of a table."""
        grey = " class=faint" if self.is_faint else ""
        within = (
            ""
            if self.half != self.half or self.value != self.value
            else f" <small>± {grouped(self.half, self.places)}</small>"
        )
        return f"<td{grey}>{'+' if signed and self.value > 0 else ''}{grouped(self.value, self.places)}{within}</td>"


def _table(across: Sequence[str], down: Sequence[str], rows: Iterable[Sequence[_Cell]], *, signed: bool = False) -> str:
    """Return a table with names across and down."""
    head = "".join(f"<th scope=col>{_text(word)}</th>" for word in ("", *across))
    lines = "".join(
        f"<tr><th scope=row>{_text(word)}</th>{''.join(cell.written(signed=signed) for cell in row)}</tr>"
        for word, row in zip(down, rows, strict=True)
    )
    hint = f'<p class="note">{_SIDEWAYS}</p>' if len(across) > _ACROSS else ""
    return f'{hint}<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'


def _totals(contents: Contents) -> str:
    if not contents.totals:
        return ""
    first = next(iter(contents.totals.values()))
    starts = periods_as_text(first.grid)
    names = list(contents.totals)[: max(_TOTALS // len(starts), 1)]
    cells = [_cells(contents.totals[name], contents.level) for name in names]
    marks = zip(starts, first.complete, first.is_forecast, strict=True)
    down = [
        f"{start}{'' if is_complete else ' (in part)'}{' (forecast)' if ahead else ''}"
        for start, is_complete, ahead in marks
    ]
    if len(down) > 1 and contents.in_all:
        down.insert(0, "in all")  # where no table is cut off
        for row, name in zip(cells, names, strict=True):
            row.insert(0, _Cell(*contents.in_all[name], row[0].places))
    across, rows = (
        names if len(names) > 1 else ["mean" if contents.over == "Means" else "total"],
        list(zip(*cells, strict=True)),
    )
    if len(names) > len(down):
        across, down, rows = down, names, list(map(tuple, cells))
    notes = [
        f"± is half the width of the {contents.level:.0%} interval.",
        *totals_in_words(first),
        f"The first {len(names)} of {len(contents.totals)} series are here."
        if len(names) < len(contents.totals)
        else "",
        f"{GREY}." if any(cell.is_faint for row in cells for cell in row) else "",
    ]
    return (
        f"<h2>{contents.over}{step_in_words(first.grid)}</h2>{_table(across, down, rows)}"
        f'<p class="note">{_text(" ".join(filter(None, [*contents.sums, *notes])))}</p>'
    )


def _cells(totals: Any, level: float) -> list[_Cell]:
    low, high = known_interval(totals, level)
    places = digits_for(high - low)
    return [_Cell(*row, places) for row in zip(totals.values, (high - low) / 2, strict=True)]


def _before(contents: Contents) -> str:
    if not contents.before:
        return ""
    return f"<h2>Against a year before</h2>{_list('more', contents.before, signed=True)}"


def _list(what: str, numbers: dict[str, tuple[float, float]], *, signed: bool = False) -> str:
    """Return a table of one column."""
    places = digits_of(numbers.values())
    return _table([what], list(numbers), [[_Cell(*row, places)] for row in numbers.values()], signed=signed)


def _usual(contents: Contents) -> str:
    figures = "".join(
        f'<div class="one">{figure(title, drawn, contents.unit, contents.level, drawn.reach, captioned=True)}</div>'
        for title, drawn in ((title, drawing_of_profile(profile)) for title, profile in contents.profiles.items())
    )
    of = f" of {_text(next(iter(contents.series)))}" if len(contents.series) > 1 else ""
    usual = f"<h2>The usual course{of}</h2>{figures}" if figures else ""
    return usual + (_section(f"Comparing numbers{of}", contents.compared) if contents.compared else "")


def _people(contents: Contents) -> str:
    if not contents.people:
        return ""
    notes = f"± is half the width of the {contents.level:.0%} interval. {' '.join(contents.of_people)}"
    table = _list("individuals", contents.people)
    return f'<h2>How many individuals there are</h2>{table}<p class="note">{_text(notes)}</p>'


def _downloads(contents: Contents, room: int) -> str:
    """Return the table and the record, in so many characters; the record goes first."""
    what = "The series with intervals, for spreadsheets (CSV)"
    if contents.records is None:
        record = "<p>No guarantee of all of it is recorded, so there is no record to verify.</p>"
    else:
        words = "The record of what was released (JSON)"
        link = _link(contents, "json", contents.records, words, room)
        record, name = f"<p>{link or _missing(contents, 'json', words)}</p>", contents.files.get("json", "")
        if link or name:
            verify = f"python -m opendp_timeseries verify {contents.downloads['json'] if link else name}"
            record += f"<p>Anybody can verify it: <code>{_text(verify)}</code></p>"
    long = contents.grid.size * (1 + 3 * len(contents.series)) > _NUMBERS  # which takes long to write, and is in vain
    table = "" if long else _link(contents, "csv", table_of(contents), what, room - len(record))
    return f"<p>{table or _missing(contents, 'csv', what)}</p>{record}"


def _link(contents: Contents, ending: str, text: str, words: str, room: int) -> str:
    """Return a link to a file that is on the page, packed if it is long; nothing if there is no room for it."""
    file, content = contents.downloads[ending], text.encode()
    kind = {"csv": "text/csv", "json": "application/json"}[ending]
    if len(content) > _PLAIN:
        content, kind, words = _packed(file, content), "application/zip", f"{words[:-1]}, packed)"
        file = f"{file.removesuffix(f'.{ending}')}-{ending}.zip"
    data = base64.b64encode(content).decode()
    link = f'<a download="{_text(file)}" href="data:{kind};base64,{data}">{words}</a>'
    return link if len(link) < room else ""


def _missing(contents: Contents, ending: str, words: str) -> str:
    """Say where a file is that has no room on the page."""
    where = (
        f"published beside it, as {contents.files[ending]}" if ending in contents.files else "ask its publisher for it"
    )
    return f"{words}: too large for this page; {_text(where)}"


def _packed(name: str, content: bytes) -> bytes:
    """Return a ZIP file, the same for the same content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return file.getvalue()
