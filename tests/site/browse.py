"""Open every page of the built site in a browser, from the disk, and say what is wrong with it.

    python tests/site/browse.py SITE [--search WORD] [--one-sheet PAGE] [--pictures FOLDER]

Wrong are: an error in the console; a request that fails, or that leaves the site, which must work without a network;
an image that does not show; a link to a file or a place of the site that is not there; a page that is wider than its
window, on a telephone or on a desk; and, on a desk, a table that must be scrolled. It needs Playwright (extra
``browser``) and a Chromium or Chrome of the system.
"""

from __future__ import annotations

import argparse
import faulthandler
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: A browser that talks to nobody of its own accord.
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: After so many seconds the command ends, as a page whose script never rests would hold it for ever.
LIMIT = 900
WIDTHS = {"telephone": {"width": 390, "height": 844}, "desk": {"width": 1280, "height": 800}}

#: What a page holds, once all its images are there.
READ = """async () => {
    const images = [...document.images];
    for (const image of images) image.loading = "eager";
    await Promise.allSettled(images.map(image => image.decode()));
    return {
        broken: images.filter(image => !image.naturalWidth).map(image => image.currentSrc || image.src),
        links: [...new Set([...document.querySelectorAll("a[href]")].map(link => link.href))],
        places: [...document.querySelectorAll("[id], a[name]")].flatMap(place => [place.id, place.name]),
    };
}"""

#: By how much a page is wider than its window, and the innermost elements that stick out.
OVERFLOW = """() => {
    const width = document.documentElement.clientWidth, over = document.documentElement.scrollWidth - width;
    const wide = element => element.getBoundingClientRect().right > width + 1;
    const innermost = element => wide(element) && ![...element.children].some(wide);
    const name = element => `<${element.tagName.toLowerCase()}> ${element.textContent.trim().slice(0, 40)}`;
    const all = over > 0 ? [...document.body.querySelectorAll("*")] : [];
    return [over, all.filter(innermost).slice(0, 3).map(name)];
}"""

#: Tables that must be scrolled to be read.
HIDDEN = """() => [...document.querySelectorAll(".table-wrapper")]
    .filter(box => box.scrollWidth > box.clientWidth)
    .map(box => box.textContent.trim().replace(/\\s+/g, " ").slice(0, 40))"""


def browser_here() -> str | None:
    """Return the path of a browser of this system, None if there is none."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def faults(
    site: Path,
    executable: str,
    *,
    searched: str | None = None,
    one_sheet: str | None = None,
    pictures: Path | None = None,
) -> Iterator[str]:
    """Yield what is wrong with the pages of a site, one line for each fault.

    :param site: folder of the built site.
    :param executable: path of the browser.
    :param searched: a word that the page ``search.html`` must find.
    :param one_sheet: a page that must fit on one sheet of paper.
    :param pictures: folder for a picture of every page at every width.
    """
    from playwright.sync_api import TimeoutError, sync_playwright  # here: this file can be read without

    site = site.resolve()
    links: dict[Path, list[str]] = {}
    places: dict[Path, set[str]] = {}
    with sync_playwright() as driver:
        # Pages are our own, and root has no sandbox.
        browser = driver.chromium.launch(executable_path=executable, args=[*QUIET, "--no-sandbox"])
        tab = browser.new_context(offline=True).new_page()
        heard: list[str] = []
        tab.on("console", lambda message: heard.append(f"console: {message.text}") if message.type == "error" else None)
        tab.on("pageerror", lambda error: heard.append(f"script: {error}"))
        tab.on("request", lambda asked: None if _inside(asked.url, site) else heard.append(f"leaves for {asked.url}"))
        tab.on("requestfailed", lambda request: heard.append(f"does not get {request.url}"))
        for page in sorted(site.rglob("*.html")):
            tab.set_viewport_size(WIDTHS["desk"])
            tab.goto(page.as_uri())
            held: dict[str, Any] = tab.evaluate(READ)
            heard.extend(f"does not show {image}" for image in held["broken"])
            links[page], places[page] = held["links"], set(held["places"])
            for device, window in WIDTHS.items():
                tab.set_viewport_size(window)
                over, elements = tab.evaluate(OVERFLOW)
                if over > 0:
                    heard.append(f"is {over} px wider than {window['width']} px: {'; '.join(elements)}")
                if device == "desk":
                    heard.extend(f"hides a part of the table {table}" for table in tab.evaluate(HIDDEN))
                if pictures is not None:
                    name = "-".join(page.relative_to(site).with_suffix("").parts)
                    tab.screenshot(path=pictures / f"{device}-{name}.png", full_page=True)
            yield from (f"{page.relative_to(site)} {fault}" for fault in dict.fromkeys(heard))
            heard.clear()
        if searched is not None:
            tab.goto(f"{(site / 'search.html').as_uri()}?q={searched}")
            try:
                tab.locator("#search-results li a").first.wait_for(timeout=10_000)
            except TimeoutError:
                heard.append(f"does not find {searched}")
            yield from (f"search.html {fault}" for fault in dict.fromkeys(heard))
        if one_sheet is not None:
            tab.goto((site / one_sheet).as_uri())
            sheets = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True)))
            if sheets != 1:
                yield f"{one_sheet} takes {sheets} sheets of paper"
        browser.close()
    for page, urls in links.items():
        yield from (f"{page.relative_to(site)} leads nowhere: {url}" for url in urls if _dead(url, site, places))


def _inside(url: str, site: Path) -> bool:
    """Return whether a page may ask for this: files of the site, and what stands in the page itself."""
    parts = urlsplit(url)
    return parts.scheme == "data" or (parts.scheme == "file" and Path(unquote(parts.path)).is_relative_to(site))


def _dead(url: str, site: Path, places: dict[Path, set[str]]) -> bool:
    """Return whether a link within the site leads to no file, or to no place of a page. Others are not followed."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https", "mailto"):
        return False
    target = Path(unquote(parts.path))
    if parts.scheme != "file" or not target.is_relative_to(site) or not target.is_file():
        return True
    return bool(parts.fragment) and target in places and unquote(parts.fragment) not in places[target]


def main() -> int:
    """Print the faults of a site, and return how the command ends: 0 if there are none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--search", metavar="WORD", help="a word that the page of the search must find")
    parser.add_argument("--one-sheet", metavar="PAGE", help="a page that must fit on one sheet of paper")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for all of it (%(default)s)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="for a picture of every page at every width")
    options = parser.parse_args()
    executable = browser_here()
    if executable is None:
        parser.error(f"there is no browser: none of {', '.join(BROWSERS)} is on the path")
    if not any(options.site.rglob("*.html")):
        parser.error(f"there is no page in {options.site}")
    wanted = {"searched": options.search, "one_sheet": options.one_sheet, "pictures": options.pictures}
    faulthandler.dump_traceback_later(options.limit, exit=True)
    found = 0
    for found, fault in enumerate(faults(options.site, executable, **wanted), start=1):  # noqa: B007 (their number)
        print(fault, flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{sum(1 for _ in options.site.rglob('*.html'))} pages, {found} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
