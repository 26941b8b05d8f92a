"""A page to publish: one HTML file that asks for nothing from anywhere, with figures, totals, words and the record."""

import base64
import html
import io
import zipfile
from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import islice
from typing import Any, Final, NamedTuple

from opendp_timeseries.reconstruction.captions import step_in_words
from opendp_timeseries.reconstruction.contents import Contents, ends_as_text, periods_as_text
from opendp_timeseries.reconstruction.digits import GREY, digits_for, digits_of, grouped, is_uncertain
from opendp_timeseries.reconstruction.frames import known_interval
from opendp_timeseries.reconstruction.plot import APART, MOST_SERIES
from opendp_timeseries.reconstruction.spreadsheet import table_of
from opendp_timeseries.reconstruction.svg import drawing, drawing_of, ends_of, figure, is_faint
from opendp_timeseries.release.release import software

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


def page_of(made: Contents) -> str:
    """Return the page."""
    first, last = ends_as_text(made.grid)
    zone = "" if made.grid.is_integer else f", on the clock of {made.grid.zone or 'UTC'}"
    about = f"{made.unit[:1].upper()}{made.unit[1:]}. {grouped(made.grid.size)} steps from {first} to {last}{zone}."
    version = software()["opendp_timeseries"]
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(made.title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="opendp_timeseries {version}">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{style}</style></head>'
    )
    a_page = "such a page says that " if made.made_up else ""
    body = [
        f'<h1>{_text(made.title)}</h1><p>{_text(" ".join(made.first))}</p><p class="about">{_text(about)}</p>',
        _figures(made),
        _totals(made),
        _before(made),
        _usual(made),
        _people(made),
        _section(f"What {a_page}is protected", made.protected),
        _section(f"How far {a_page}the numbers are from the truth", [*made.near, *made.revised]),
        "" if made.made_up else _section("How to cite", [made.cite]),
    ]
    if made.made_up:
        return f'{head}<body class="made-up">{"".join(body)}</body></html>\n'
    page = f"{head}<body>{''.join(body)}<h2>Download</h2>"
    return f"{page}{_downloads(made, _MOST - len(page))}</body></html>\n"


def _text(words: str) -> str:
    return html.escape(words)


def _section(title: str, sentences: Iterable[str]) -> str:
    return f"<h2>{title}</h2>" + "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences)


def _figures(made: Contents) -> str:
    some = dict(islice(made.series.items(), MOST_SERIES))
    shown = {name: drawing(one, made.grid, made.level, len(some)) for name, one in some.items()}
    found, scaled, longer = [], False, next(iter(shown.values())).longer
    for group in made.groups:
        drawn = {name: shown[name] for name in group if name in shown}
        ends = [ends_of(one) for one in drawn.values()]
        tops = [top for _, top in ends]
        apart = bool(tops) and max(tops) > APART * min(tops)
        scaled = scaled or apart
        all_ends = min((low for low, _ in ends), default=0.0), max(tops, default=0.0)
        figures = [
            figure(name, one, made.unit, made.level, own if apart else all_ends, captioned=len(made.series) > 1)
            for (name, one), own in zip(drawn.items(), ends, strict=True)
        ]
        closed = [
            f"<details><summary>{_text(name)}</summary>{one}</details>"
            for name, one in zip(list(drawn)[_OPEN:], figures[_OPEN:], strict=True)
        ]
        several = "panel" if len(figures) > 1 else "one"
        found.append(f'<div class="{several}">{"".join(figures[:_OPEN])}</div>{"".join(closed)}')
    marks = {
        "line": f"means of {longer}" if longer else "estimate",
        "band": f"{made.level:.0%} interval",
        "range": "lowest and highest step in each" if longer else "",
        "mark": "a single event" if any(one.events for one in shown.values()) else "",
    }
    key = "".join(f'<span><i class="{it}"></i>{words}</span> ' for it, words in marks.items() if words)
    if any(one.ahead for one in made.series.values()):
        key += '<span><i class="dashed"></i>forecast</span> '
    notes = [
        "Rest the pointer on a figure, or tap it, to read its numbers.",
        f"{GREY}, and figures where that is usual." if any(map(is_faint, shown.values())) else "",
        "Figures below the first of a panel open by their names." if len(shown) > _OPEN else "",
        "Axes differ, as some series are more than ten times as high as others." if scaled else "",
        f"The first {len(shown)} of {len(made.series)} series are drawn." if len(shown) < len(made.series) else "",
    ]
    return "".join(found) + f'<p class="key">{key}</p><p class="note">{" ".join(filter(None, notes))}</p>'


class _Cell(NamedTuple):
    """A number with half the width of its interval, and how many decimals are worth writing."""

    value: float
    half: float
    places: int

    @property
    def is_faint(self) -> bool:
        """Whether it is too uncertain to read."""
        return bool(is_uncertain(self.value, self.half))

    def written(self, *, signed: bool = False) -> str:
        """Return the cell of a table."""
        grey = " class=faint" if self.is_faint else ""
        within = "" if self.half != self.half else f" <small>± {grouped(self.half, self.places)}</small>"
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


def _totals(made: Contents) -> str:
    if not made.totals:
        return ""
    first = next(iter(made.totals.values()))
    starts = periods_as_text(first.grid)
    names = list(made.totals)[: max(_TOTALS // len(starts), 1)]
    cells = [_cells(made.totals[name], made.level) for name in names]
    marks = zip(starts, first.complete, first.is_forecast, strict=True)
    down = [f"{start}{'' if whole else ' (in part)'}{' (forecast)' if ahead else ''}" for start, whole, ahead in marks]
    if len(down) > 1 and made.in_all:
        down.append("in all")
        for row, name in zip(cells, names, strict=True):
            row.append(_Cell(*made.in_all[name], row[0].places))
    across, rows = (
        names if len(names) > 1 else ["mean" if made.over == "Means" else "total"],
        list(zip(*cells, strict=True)),
    )
    if len(names) > len(down):
        across, down, rows = down, names, list(map(tuple, cells))
    notes = [
        f"Each number stands with half the width of its {made.level:.0%} interval.",
        "Where ± is large it may be less: only the most that it can be is known." if first.is_bound else "",
        f"The first {len(names)} of {len(made.totals)} series are here." if len(names) < len(made.totals) else "",
        "A forecast is of steps that are still to come, or some of which are." if any(first.is_forecast) else "",
        f"{GREY}." if any(cell.is_faint for row in cells for cell in row) else "",
    ]
    return (
        f"<h2>{made.over}{step_in_words(first.grid)}</h2>{_table(across, down, rows)}"
        f'<p class="note">{_text(" ".join(filter(None, [*made.sums, *notes])))}</p>'
    )


def _cells(totals: Any, level: float) -> list[_Cell]:
    low, high = known_interval(totals, level)
    places = digits_for(high - low)
    return [_Cell(*row, places) for row in zip(totals.values, (high - low) / 2, strict=True)]


def _before(made: Contents) -> str:
    if not made.before:
        return ""
    places = digits_of((more, more - half, more + half) for more, half in made.before.values())
    rows = [[_Cell(*row, places)] for row in made.before.values()]
    return f"<h2>Against a year before</h2>{_table(['more'], list(made.before), rows, signed=True)}"


def _usual(made: Contents) -> str:
    figures = "".join(
        f'<div class="one">{figure(title, drawn, made.unit, made.level, ends_of(drawn), captioned=True)}</div>'
        for title, drawn in ((title, drawing_of(one)) for title, one in made.profiles.items())
    )
    of = f" of {_text(next(iter(made.series)))}" if len(made.series) > 1 else ""
    usual = f"<h2>The usual course{of}</h2>{figures}" if figures else ""
    return usual + (_section(f"What may be compared{of}", made.compared) if made.compared else "")


def _people(made: Contents) -> str:
    if not made.people:
        return ""
    places = digits_of(made.people.values())
    rows = [[_Cell(value, (high - low) / 2, places)] for value, low, high in made.people.values()]
    notes = f"Each number stands with half the width of its {made.level:.0%} interval. {' '.join(made.of_people)}"
    table = _table(["individuals"], list(made.people), rows)
    return f'<h2>How many individuals there are</h2>{table}<p class="note">{_text(notes)}</p>'


def _downloads(made: Contents, room: int) -> str:
    """Return the table and the record, in so many characters; the record goes first."""
    what = "The series with intervals, for spreadsheets (CSV)"
    if made.records is None:
        record = "<p>No guarantee of all of it is recorded, so there is no record to verify.</p>"
    else:
        words = "The record of what was released (JSON)"
        link = _link(made, "json", made.records, words, room)
        record, name = f"<p>{link or _missing(made, 'json', words)}</p>", made.files.get("json", "")
        if link or name:
            verify = f"python -m opendp_timeseries verify {f'{made.name}.json' if link else name}"
            record += f"<p>Anybody can verify it: <code>{_text(verify)}</code></p>"
    long = made.grid.size * (1 + 3 * len(made.series)) > _NUMBERS  # which takes long to write, and is in vain
    table = "" if long else _link(made, "csv", table_of(made), what, room - len(record))
    return f"<p>{table or _missing(made, 'csv', what)}</p>{record}"


def _link(made: Contents, ending: str, text: str, words: str, room: int) -> str:
    """Return a link to a file that is on the page, packed if it is long; nothing if there is no room for it."""
    file, content = f"{made.name}.{ending}", text.encode()
    kind = {"csv": "text/csv", "json": "application/json"}[ending]
    if len(content) > _PLAIN:
        content, kind, words = _packed(file, content), "application/zip", f"{words[:-1]}, packed)"
        file = f"{made.name}-{ending}.zip"
    data = base64.b64encode(content).decode()
    link = f'<a download="{file}" href="data:{kind};base64,{data}">{words}</a>'
    return link if len(link) < room else ""


def _missing(made: Contents, ending: str, words: str) -> str:
    """Say where a file is that has no room on the page."""
    where = f"published beside it, as {made.files[ending]}" if ending in made.files else "ask its publisher for it"
    return f"{words}: too large for this page; {_text(where)}"


def _packed(name: str, content: bytes) -> bytes:
    """Return a ZIP file, the same for the same content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return file.getvalue()
