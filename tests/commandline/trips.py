"""Bike trips of a city, as its operator would export them: one row for each trip, on the clock of the city."""

import base64
import csv
import html
import io
import re
import zipfile

import numpy as np

#: The only change of the clocks in these months: by an hour, at 01:00 UTC.
CHANGE = np.datetime64("2024-03-31T01:00")


def stations(number):
    """Names of stations, and the districts that they are in."""
    return {f"station {k}": ("north", "south", "docks")[k % 3] for k in range(number)}


def export_trips(path, month, rows, places, *, cards):
    """Write the trips of a month of 2024 in London, and return the hour, the card and the station of each.

    Commuters come in the morning and in the evening of working days, others in the afternoon; some stations are much
    busier than others, and a few cards are used many times.
    """
    draw = np.random.default_rng(month)
    first, last = (np.datetime64(f"2024-{m:02}", "h") for m in (month, month + 1))
    utc = np.arange(first - np.timedelta64(int(first >= CHANGE), "h"), last - np.timedelta64(int(last >= CHANGE), "h"))
    local = utc + (utc >= CHANGE).astype("m8[h]")
    hour, weekday = local.astype(int) % 24, (local.astype("M8[D]").astype(int) + 3) % 7
    commuting = np.exp(-((hour - 8) ** 2) / 3) + np.exp(-((hour - 17.5) ** 2) / 5)
    activity = np.where(weekday < 5, commuting, 0) + 0.6 * np.exp(-((hour - 15) ** 2) / 20) + 0.02
    at = draw.choice(len(local), rows, p=activity / activity.sum())
    popular = 1 / (1 + np.arange(len(places)))
    where = draw.choice(len(places), rows, p=popular / popular.sum())
    card = (cards * draw.random(rows) ** 1.5).astype(int)
    minutes = draw.integers(0, 60, rows)
    texts, names = np.datetime_as_string(local, unit="h"), list(places)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["trip", "card", "started", "station"])
        for k, (a, w, c, m) in enumerate(zip(*(x.tolist() for x in (at, where, card, minutes)), strict=True)):
            out.writerow([k, f"card {c}", f"{texts[a]}:{m:02}", names[w]])
    return local[at], card, where


def check_names_on_pages(folder, pages):
    """Check that files which pages name, or bring, are beside them, with what stands there; return how many pages."""
    found = sorted(folder.glob(pages))
    for path in found:
        page = html.unescape(path.read_text("utf-8"))
        named = re.findall(r"published beside it, as ([^<]+)<|timeseries verify ([^<]+)<", page)
        brought = re.findall(r'download="([^"]+)" href="[^,]+,([^"]+)"', page)
        for name in filter(None, (name for pair in named for name in pair)):
            assert (folder / name).exists(), (path, name)
        for name, data in brought:
            content = base64.b64decode(data)
            if name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    (name,) = archive.namelist()
                    content = archive.read(name)
            is_own = name.endswith("-columns.csv")  # a form that only the page has
            assert (folder / name).exists() != is_own, (path, name)
            assert is_own or (folder / name).read_bytes().strip() == content.strip(), (path, name)
    return len(found)
