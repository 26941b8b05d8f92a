"""Tables that spreadsheets open as they are: CSV, and workbooks of Excel or LibreOffice (extra ``excel``).

Every table in CSV that this package publishes is written by :func:`csv_of`.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.results.captions import totals_in_words
from opendp_timeseries.results.contents import Contents, instants_as_text, repeated
from opendp_timeseries.results.digits import GREY, digits_for, digits_of, is_uncertain, plain
from opendp_timeseries.results.frames import known_interval

#: Rows and columns of a sheet.
_ROWS, _COLUMNS = 2**20, 2**14
#: How times are shown, by the length of their text; and the first day that every spreadsheet counts rightly.
_FORMS: Final = {10: "yyyy-mm-dd", 16: "yyyy-mm-dd hh:mm"}
_FIRST: Final = np.datetime64("1900-03-01")
#: A text that begins so is a formula to a spreadsheet.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MARKED: Final = "utf-8-sig"
#: Letters in a line of a cell, of notes and of a column of numbers, and points that a line is high.
_WIDE, _NARROW, _LINE = 110, 8, 15
#: How large tables are printed, in per cent.
_SMALLER = 70
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def table_of(contents: Contents) -> str:
    """Return the series as CSV: a column for each, and then the ends of their intervals."""
    head, columns, places = _columns(contents.grid, contents.series, contents.level)
    return csv_of(head, zip(instants_as_text(contents.grid)[:-1], *columns, strict=True), places, contents.decimal)


def csv_of(header: Sequence[str], rows: Iterable[Iterable[object]], places: int, decimal: str = ".") -> str:
    """Return a table as CSV that spreadsheets open as it is: its texts are no formulas, and stay what they are.

    :param rows: of texts and whole numbers, which are written as they are, and of floats, NaN for nothing.
    :param places: decimals of floats.
    :param decimal: a comma is the mark where a semicolon separates fields.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";" if decimal == "," else ",")

    def cell(value: object) -> Any:
        if isinstance(value, str):
            return _harmless(value)
        return plain(value, places).replace(".", decimal) if isinstance(value, float) else value

    writer.writerow(map(cell, header))
    writer.writerows(map(cell, row) for row in rows)
    table = text.getvalue()
    return f"\ufeff{table}" if encoding_of([table]) == _MARKED else table


def encoding_of(texts: Iterable[str]) -> str:
    """Return the encoding of a table with these texts: letters beyond ASCII have a mark, by which Excel knows UTF-8."""
    return "utf-8" if all(map(str.isascii, texts)) else _MARKED


def _columns(grid: TimeGrid, series: dict[str, Any], level: float) -> tuple[list[str], list[Any], int]:
    """Return the header, columns of values and ends of intervals, and how many decimals are worth writing."""
    ends = {name: known_interval(item, level) for name, item in series.items()}
    head, columns = ["step" if grid.is_integer else "time", *series], [item.values for item in series.values()]
    for name, (low, high) in ends.items():
        if np.any(np.isfinite(low)):
            head += [f"{name}, from", f"{name}, to"]
            columns += [low, high]
    written = [column.tolist() for column in columns]
    if any(ahead := np.any([item.is_forecast for item in series.values()], axis=0)):
        head.append("forecast")
        written.append(np.where(ahead, "forecast", "").tolist())
    events = {name: {*getattr(item, "events", ())} for name, item in series.items()}  # totals have none
    if any(events.values()):
        head.append("single events")
        written.append([", ".join(name for name, steps in events.items() if k in steps) for k in range(grid.size)])
    return head, written, digits_for(*(high - low for low, high in ends.values()))


def _harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


def workbook_of(contents: Contents) -> bytes:
    """Return the series, their totals and the sentences about them as a workbook."""
    openpyxl = check.installed("openpyxl", "workbooks need openpyxl", "excel")
    if contents.grid.size >= _ROWS or 3 * len(contents.series) >= _COLUMNS:
        raise Refusal(
            f"{contents.grid.size} steps of {len(contents.series)} series",
            ...,
            f"do not fit on a sheet of {_ROWS} rows and {_COLUMNS} columns",
            "choose some of by_key(), or longer steps",
        )
    book = openpyxl.Workbook()
    book.properties.title, book.properties.creator = _plain(contents.title), "opendp_timeseries"
    _sheet(book.active, "Series", contents.grid, contents.series, contents.level)
    if contents.totals:
        first = next(iter(contents.totals.values()))
        _sheet(book.create_sheet(), contents.over, first.grid, contents.totals, contents.level)
        if contents.in_all and len(first) > 1:
            _in_all(book[contents.over], contents.in_all)
    for title, profile in contents.profiles.items():
        columns = profile.values.tolist(), (profile.high - profile.values).tolist()
        numbers = dict(zip(profile.names, zip(*columns, strict=True), strict=True))
        _numbers(book.create_sheet(title), contents.unit, numbers)
    if contents.before:
        _numbers(book.create_sheet("Against a year before"), "more", contents.before)
    if contents.people:
        _numbers(book.create_sheet("Individuals"), "individuals", contents.people)
    notes = book.create_sheet("Notes")
    for row, text in enumerate([contents.title, *_notes(contents)], 1):
        _write(notes.cell(row, 1), text)
        _wrap(notes, row, _WIDE)
    notes.column_dimensions["A"].width = _WIDE
    for sheet in book:
        _paginate(sheet)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _paginate(sheet: Any) -> None:
    """Let every printed page have the titles of its rows and columns, and notes fit between the margins."""
    sheet.page_setup.orientation, sheet.page_setup.paperSize = "landscape", sheet.PAPERSIZE_A4
    if sheet.freeze_panes:
        sheet.print_title_rows, sheet.print_title_cols = "1:1", "A:A"
        sheet.page_setup.scale = _SMALLER
    else:
        sheet.sheet_properties.pageSetUpPr.fitToPage = True
        sheet.page_setup.fitToHeight = 0


def _numbers(sheet: Any, what: str, numbers: dict[str, tuple[float, float]]) -> None:
    """Write named numbers with the ends of their intervals."""
    places, rows = (
        digits_of(numbers.values()),
        [(name, at, at - half, at + half) for name, (at, half) in numbers.items()],
    )
    for row, cells in enumerate([("", what, "from", "to"), *rows], 1):
        for column, cell in enumerate(cells, 1):
            if isinstance(cell, str):
                _write(sheet.cell(row, column), cell)
            else:
                _number(sheet.cell(row, column, cell), places)
    _grey(sheet, 2, is_uncertain(*np.transpose(list(numbers.values()))))
    sheet.freeze_panes = "B2"
    for letter in "BCD":
        sheet.column_dimensions[letter].width = 12
    sheet.column_dimensions["A"].width = 18


def _grey(sheet: Any, column: int, faint: Any) -> None:
    """Let numbers that are too uncertain to read be grey, from the second row on."""
    styles = check.installed("openpyxl.styles", "workbooks need openpyxl", "excel")
    for row in np.flatnonzero(faint).tolist():
        sheet.cell(row + 2, column).font = styles.Font(color="FF8C8C8C")


def _wrap(sheet: Any, row: int, letters: int) -> None:
    """Let the texts of a row stand in lines of about so many letters, and the row be as high as they are."""
    styles = check.installed("openpyxl.styles", "workbooks need openpyxl", "excel")
    for cell in sheet[row]:
        cell.alignment = styles.Alignment(wrap_text=True, vertical="top")
    lines = max(-(-len(str(cell.value)) // letters) for cell in sheet[row])
    sheet.row_dimensions[row].height = _LINE * lines  # or LibreOffice draws them over each other


def _number(cell: Any, places: int) -> None:
    cell.number_format = "#,##0" + ("." + "0" * places if places else "")


def _notes(contents: Contents) -> list[str]:
    times = f" Times are local times of {contents.grid.zone or 'UTC'}, at which each step begins."
    return [
        *contents.first,
        GREY + ".",
        f"Unit: {contents.unit}. Intervals: {contents.level:.0%}.{'' if contents.grid.is_integer else times}",
        *(sentence for first in list(contents.totals.values())[:1] for sentence in totals_in_words(first)),
        *contents.sums,
        *contents.of_people,
        *contents.protected,
        *contents.near,
        *contents.revised,
        *contents.compared,
        f"How to cite: {contents.cite}",
    ]


def _sheet(sheet: Any, title: str, grid: TimeGrid, series: dict[str, Any], level: float) -> None:
    head, columns, places = _columns(grid, series, level)
    sheet.title = title
    for column, word in enumerate(head, 1):
        _write(sheet.cell(1, column), word)
    _wrap(sheet, 1, _NARROW)
    starts, times = grid.edges("local")[:-1], instants_as_text(grid)[:-1].tolist()
    form = _FORMS.get(min(map(len, times)), "yyyy-mm-dd hh:mm:ss")
    if grid.is_integer:
        times, form = starts.tolist(), "0"
    elif starts[0] >= _FIRST:  # what stands twice on the clock stays a text, with its offset
        moments = zip(times, starts.astype("M8[us]").tolist(), repeated(grid)[:-1].tolist(), strict=True)
        times = [text if twice else at for text, at, twice in moments]
    for row, cells in enumerate(zip(times, *columns, strict=True), 2):
        for column, cell in enumerate(cells, 1):
            if isinstance(cell, str) and column > 1:
                _write(sheet.cell(row, column), cell)
            elif cell == cell:
                there = sheet.cell(row, column, cell)
                if column == 1:
                    there.number_format = form
                else:
                    _number(there, places)
    for column, item in enumerate(series.values(), 2):
        low, high = known_interval(item, level)
        _grey(sheet, column, is_uncertain(item.values, (high - low) / 2))
    sheet.freeze_panes = "B2"
    for column in sheet.iter_cols(max_row=1):  # wide enough for the longest word of the header
        longest = max(map(len, str(column[0].value).split()), default=0)
        sheet.column_dimensions[column[0].column_letter].width = min(max(longest + 2, 9), 24)
    sheet.column_dimensions["A"].width = 18


def _in_all(sheet: Any, sums: dict[str, tuple[float, float]]) -> None:
    """Write sums of all rows below them, with the ends of their intervals where there are any."""
    columns, last = {cell.value: cell.column for cell in sheet[1]}, sheet.max_row
    _write(sheet.cell(last + 1, 1), "in all")
    for name, (value, half) in sums.items():
        for text, number in ((name, value), (f"{name}, from", value - half), (f"{name}, to", value + half)):
            if number == number and (column := columns.get(_plain(text))):
                sheet.cell(last + 1, column, number).number_format = sheet.cell(last, column).number_format


def _write(cell: Any, text: str) -> None:
    """Write a text that stays one, whatever it begins with."""
    cell.value = _plain(text)
    cell.data_type = "s"
    cell.quotePrefix = text.startswith(_FORMULA)


def _plain(text: str) -> str:
    return _CONTROL.sub("�", text)
