"""Tables of text, for terminals and notebooks."""

import html
from collections.abc import Sequence
from itertools import zip_longest


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text under a header, in columns aligned on the left."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows))
    return "\n".join(lines)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], emphasis: Sequence[bool] = ()) -> str:
    """Return an HTML table, with some rows in bold."""

    def row(cells: Sequence[str], tag: str, bold: bool | None) -> str:
        style = ' style="font-weight: bold"' if bold else ""
        return f"<tr{style}>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td", bold) for cells, bold in zip_longest(rows, emphasis))
    return f"<table><thead>{row(header, 'th', False)}</thead><tbody>{body}</tbody></table>"
