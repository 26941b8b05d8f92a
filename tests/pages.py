"""What a page says, without its figures' lines and without its style."""

import html.parser
import re

import opendp_timeseries as ts

#: Elements that begin a line.
LINES = {"h1", "h2", "h3", "p", "li", "tr", "figcaption", "section", "table", "div", "figure", "summary"}


class _Text(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.text, self.hidden = "", False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.hidden = tag in ("style", "title")
        self.text += "\n" if tag in LINES else " | " if tag in ("td", "th", "span") else ""

    def handle_endtag(self, tag):
        self.hidden = False

    def handle_data(self, data):
        self.text += "" if self.hidden else data


def text_of(page):
    """Return the text of a page, in one line for each paragraph and each row of a table."""
    lines = (" ".join(line.split()).strip(" |") for line in _Text(page).text.splitlines())
    return re.sub(rf"(opendp_timeseries) {re.escape(ts.__version__)}", r"\1 VERSION", "\n".join(filter(None, lines)))
