"""Pages of releases that are smoothed together: ``summary`` of a programme, and ``ledger --join``, at no cost."""

import argparse
from itertools import takewhile
from pathlib import Path
from typing import Any

import opendp_timeseries as ts
from opendp_timeseries._files import files_together
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.commandline.inputs import grid_of
from opendp_timeseries.commandline.outputs import (
    captions,
    check_ours,
    document,
    means_of,
    package_of,
    reconstructed,
    unit_of,
)
from opendp_timeseries.commandline.programme import parts_of, plan_in
from opendp_timeseries.commandline.request import Request
from opendp_timeseries.commandline.waiting import stage
from opendp_timeseries.commandline.words import wrapped
from opendp_timeseries.reconstruction.runs import series_by_kind
from opendp_timeseries.results.contents import contents_of, suitable_step
from opendp_timeseries.results.page import page_of


def summary(options: argparse.Namespace) -> str:
    """Write the table, record and page, and the workbook if one is asked for, of all parts that were released, joined.

    :raises ValueError: if none was released, or a file of somebody else is in the place of one.
    """
    ledger = ts.Ledger(options.ledger)
    plan, parts = plan_in(ledger, options), parts_of(options)
    states = plan.states(parts)
    if "released" not in states:
        raise Refusal("ledger", Quoted(options.ledger), "has no part that was released", "run 'release' first")
    start = states.index("released")
    chosen = [
        part
        for part, _ in takewhile(lambda pair: pair[1] == "released", zip(parts[start:], states[start:], strict=True))
    ]
    suffixes = [".csv", ".html", *([".xlsx"] if options.spreadsheet else [])]
    suffixes = [".json", *suffixes, *(f"-means{suffix}" for suffix in suffixes if options.mean)]
    suffixes += ["-datapackage.json"] if options.datapackage else []
    places = {suffix: options.output.with_name(options.output.name + suffix) for suffix in suffixes}
    for suffix, place in places.items():
        check_ours(place, suffix)
    by_design = {release.design: release for release in ledger.releases()}
    releases = [[by_design[design] for design in plan.designs(part)] for part in chosen]
    cut = chosen[0].cut(options)
    request = Request.of(cut, grid_of(cut))
    parted = [request.parted(of_part) for of_part in releases]
    series, numbers, _ = ([item for of_part in row for item in of_part] for row in zip(*parted, strict=True))
    before = [item for of_part, _, _ in parted[:-1] for item in of_part]
    with stage(f"Joining {len(chosen)} parts", quiet=options.quiet, logged=True):
        results = reconstructed(series, numbers, [], options)
        # As it was before the last part: it depends on the releases alone.
        earlier = reconstructed(before, [], [], options).series if before else None
    people: dict[str, object] = {
        part.name: ts.smooth(item)
        for part, (_, _, of_people) in zip(chosen, parted, strict=True)
        for item in of_people
        if item.keys is None
    }
    every = [item for of_part in releases for item in of_part]
    guarantee = f"{ledger.guarantee()}, of all that was released so far; {every[0].stated.parent}"
    about = captions(results, options, guarantee) | {
        "people": people,
        "totals": options.every,
        "profiles": True,
        "earlier": earlier,
    }
    record = (
        every[0].to_json() if len(every) == 1 else ts.write_releases(every, adaptivity="adaptive", delta=options.delta)
    )
    content = contents_of(results.series, records=record, **about)
    contents = dict.fromkeys(suffixes, content)
    if options.mean:
        change = {"guarantee": about["guarantee"], "totals": options.every, "records": record}
        of_means = means_of(results, options, **change)
        contents |= {suffix: of_means for suffix in suffixes if suffix.startswith("-means")}
    with files_together(places.values(), replace=True) as files:
        for suffix, place in places.items():
            if suffix == "-datapackage.json":
                files[place].write(package_of(results, content, options, suffixes[:-1]))
            else:
                files[place].write(document(suffix, results, options, contents[suffix]))
    after = [part.name for part, state in zip(parts, states, strict=True) if state == "released" and part not in chosen]
    gap = f" It ends before {after[0]}, as a part before that is not released." if after else ""
    text = [
        f"{len(chosen)} of {len(parts)} parts, {chosen[0].name} to {chosen[-1].name}, joined at no further cost.{gap}",
        f"Guarantee: {guarantee}.",
        " ".join([*content.sums, *content.of_people]),
        *content.compared,
        *content.revised,
    ]
    return "\n".join([*map(wrapped, text), f"Written: {', '.join(map(str, places.values()))}"])


def join(ledger: ts.Ledger, options: argparse.Namespace) -> list[Path]:
    """Write a page of each kind of series in a ledger, smoothed together, and return where they are.

    :raises ValueError: if there is none, grids do not follow each other, or a file of somebody else is in the place.
    """
    kinds, first = series_by_kind(ledger.releases()), options.join
    if not kinds:
        raise Refusal("ledger", Quoted(ledger.path), "has no series that was released", "run 'release' first")
    if first.suffix != ".html":
        raise Refusal("join", Quoted(first), "must end in .html, as it is a page")
    places = [first, *(first.with_stem(f"{first.stem}-{number}") for number in range(2, len(kinds) + 1))]
    for place in places:
        check_ours(place, ".html", "join")
    how: dict[str, Any] = {"seasons": options.season, "holidays": options.holidays or (), "progress": False}
    pages = []
    for releases in kinds:
        series, *totals = ts.smooth(releases, **how)
        last = max(
            (release.grid for release in releases if release.grid is not None), key=lambda grid: grid.edges()[-1]
        )
        before = [release for release in releases if release.grid != last]
        says = bool(before) and series.release.grid is not None and bool(suitable_step(series.release.grid))
        content = contents_of(
            series,
            title=options.title,
            unit=unit_of(releases[0]),
            beside=totals[::-1],
            earlier=ts.smooth(before, **how)[0] if says else None,
            guarantee=f"Guarantee: {ledger.guarantee()}",
        )
        pages.append(page_of(content).encode())
    with files_together(places, replace=True) as files:
        for place, page in zip(places, pages, strict=True):
            files[place].write(page)
    return places
