"""What a page and a spreadsheet hold: series by name, their totals, and sentences about them. All of it is public."""

import contextlib
import datetime as dt
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.grid.longer_steps import longer_steps
from opendp_timeseries.release.documents import adaptivity_of, write_releases
from opendp_timeseries.release.release import Release, software
from opendp_timeseries.results import captions, frames
from opendp_timeseries.results.digits import digits_for, digits_of, grouped, rounded
from opendp_timeseries.results.frames import AnySeries, AnyTotals
from opendp_timeseries.results.profiles import Profile, combined, differences, profiles_of
from opendp_timeseries.smoothing.everybody import noise_of_few
from opendp_timeseries.smoothing.hierarchy import is_joint

#: Steps of totals that are chosen if none is given, and from how many days on.
_TOTALS: Final = (("1y", 1827), ("1mo", 45), ("1d", 2), ("1mo", 28))
#: So many series are named.
_NAMED: Final = 8
_MADE_UP: Final = (
    "No number here is of any data: all of it is made up from what is publicly known, to show what such a page looks"
    " like, and how wide its intervals are. The noise is as large as it will be, so a small series may come out as 0."
)
#: Errors of totals go together where that of their sum is more than this share of what it could be.
_TOGETHER: Final = 0.5
#: Bytes of a name of files.
_LONGEST: Final = 100
_METHOD: Final = (
    "The method is of Koga, Meehan & Chaudhuri (2022), Privacy Amplification by Subsampling in Time Domain (AISTATS)."
)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Contents of a publication."""

    title: str
    unit: str
    grid: TimeGrid
    level: float
    series: dict[str, AnySeries]  # by name: those beside the series, then the series itself
    groups: list[list[str]]  # names of those that belong together
    totals: dict[str, AnyTotals]  # of each series, by the same names; empty for none
    in_all: dict[str, tuple[float, float]]  # sums of all steps, without forecasts, ± so much
    sums: list[str]  # sentences on what adds up
    protected: list[str]  # sentences on what is protected
    near: list[str]  # sentences on how far the numbers are from the truth
    revised: list[str]  # sentences on what changed since an earlier publication
    cite: str
    records: str | None  # the releases as one JSON document, which a reader can verify; None if they state nothing
    decimal: str  # the decimal mark of tables in CSV
    downloads: Mapping[str, str]  # names of files on a page, by "csv" and "json"
    first: list[str]  # sentences for those who read no others
    people: dict[str, tuple[float, float]]  # numbers of individuals, ± so much
    of_people: list[str]  # sentences about them
    profiles: dict[str, Profile]  # of the first series, by their titles
    before: dict[str, tuple[float, float]]  # how much more each period has than a year before, ± so much
    compared: list[str]  # sentences on what may be compared
    made_up: bool  # whether all numbers are made up, to show what they will look like
    files: Mapping[str, str]  # names of files beside a page, by "csv" and "json", if there are any

    @property
    def over(self) -> str:
        """Return the word for values of longer steps: totals, or means."""
        return "Means" if next(iter(self.series.values())).is_mean else "Totals"


def contents_of(
    series: AnySeries,
    *,
    title: str | None = None,
    unit: str = "count per step",
    totals: str | int | None = None,
    beside: Sequence[AnySeries] = (),
    confidence_level: float = 0.9,
    earlier: AnySeries | None = None,
    grid: TimeGrid | None = None,
    guarantee: tuple[float, float] | str | None = None,
    notes: Sequence[str] = (),
    cite: str | None = None,
    records: str | None = None,
    decimal: str = ".",
    people: Sequence[AnySeries] | Mapping[str, AnySeries] = (),
    made_up: bool = False,
    profiles: bool = False,
    files: Mapping[str, str] | None = None,
) -> Contents:
    """Put together what is published; see :meth:`.Series.to_html`."""
    check.real("confidence_level", confidence_level, above=0.0, below=1.0)
    check.choice("decimal", decimal, (".", ","))
    if isinstance(notes, str):
        raise TypeRefusal("notes", notes, "must be a list of sentences")
    every = [*beside, series]
    if profiles and series.is_mean:
        raise Refusal(
            "profiles", ..., "must be left out of means, which are not added up", "give those of sums and numbers"
        )
    steps = frames.grid_of(series, grid)
    for item in beside:
        if frames.grid_of(item, grid) != steps:
            raise Refusal("beside", ..., "must hold series on the grid of this one")
    by_name: dict[str, AnySeries] = {}
    groups: list[list[str]] = []
    keys = {str(key) for item in every for key in item.release.keys or ()}
    for item in every:
        parts = item.by_key() if item.release.keys else {(title or "series") if item is series else "total": item}
        groups.append([_free(str(name), by_name, keys, is_key=bool(item.release.keys)) for name in parts])
        by_name.update(zip(groups[-1], parts.values(), strict=True))
    of_people = list(people.items()) if isinstance(people, Mapping) else [("", item) for item in people]
    behind = (
        release for item in (*every, *(item for _, item in of_people)) for release in item.sources or (item.release,)
    )
    releases = tuple(dict.fromkeys(behind))
    words = captions.guarantee_in_words(series.release, releases, guarantee)
    name, files = _file_name(title or "series", steps, series.ahead), files or {}
    downloads = {ending: f"{name}.{ending}" for ending in ("csv", "json")} | {**files}
    if "csv" in files:  # which holds the same in another form
        downloads["csv"] = f"{files['csv'].removesuffix('.csv')}-columns.csv"
    title = f"Private series of {unit}" if title is None else title
    title, cite, records = (f"Made up: {title}", _MADE_UP, None) if made_up else (title, cite, records)
    step = suitable_step(steps) if totals is None else totals
    revised = [] if earlier is None else _revised(series, earlier, step, steps, confidence_level)
    first = next(iter(by_name.values()))
    sums = {} if step == "" else {name: item.resample(step, grid=steps) for name, item in by_name.items()}
    usual = profiles_of(first, steps, confidence_level) if profiles else {}
    before = _before(first, next(iter(sums.values())), confidence_level) if profiles and sums else {}
    return Contents(
        title=title,
        unit=unit,
        grid=steps,
        level=confidence_level,
        series=by_name,
        groups=groups,
        totals=sums,
        in_all={name: _in_all(item, confidence_level) for name, item in by_name.items() if sums and not series.is_mean},
        sums=_sums(by_name, groups),
        profiles=usual,
        before=before,
        compared=_compared(first, usual, next(iter(sums.values()), None), confidence_level),
        protected=[*_protected(series, words), *notes],
        near=[
            *_near(by_name, groups, [item.release for item in every], unit, confidence_level),
            *_events(by_name, steps),
        ],
        revised=revised,
        cite=_citation(title, words, steps, series.ahead) if cite is None else cite,
        records=_records(releases) if records is None and not made_up else records,
        decimal=decimal,
        downloads=downloads,
        first=[_MADE_UP] if made_up else _first(series, words, confidence_level),
        made_up=made_up,
        files=files,
        people=_individuals(of_people, confidence_level),
        of_people=list(dict.fromkeys(_of_individuals(item, several=bool(of)) for of, item in of_people)),
    )


def _file_name(title: str, grid: TimeGrid, ahead: int) -> str:
    """Return a name for files of this publication: its title, and its month, or its first and last."""
    words = re.findall(r"\w+", title.lower())
    if not grid.is_integer:
        words.append("-to-".join(dict.fromkeys(end[:7] for end in ends_as_text(grid, ahead))))
    name = "-".join(words).encode()[-_LONGEST:]  # of bytes, as file systems limit them
    return name.decode(errors="ignore").lstrip("-") or "series"  # a hyphen would begin an option


def _first(series: AnySeries, words: str, level: float) -> list[str]:
    """Say in plain words what was done, for whom, and what that means for the numbers."""
    count = series.release.design.signal.count
    who = "any one individual" if count is None or count.unit.period is None else str(count.unit)
    limits = f", which limits what anybody can learn from them about {who}" if words else ""
    opening = f"No number here is exact: random noise was added to them{limits}."
    if series.error_covers not in captions.BANDED:
        return [opening]
    part = series.parts[0] if series.parts else series
    what = captions.measured(series.release, part).replace("counts", "count")
    holds = f"it holds {what} with a probability of {level:.0%}, if the model is right"
    return [opening, f"A grey band, or ±, says how far off a number may be: {holds}."]


def _individuals(people: Sequence[tuple[str, AnySeries]], level: float) -> dict[str, tuple[float, float]]:
    rows: dict[str, tuple[float, float]] = {}
    named = [[f"{of}, {key}" if of else str(key) for key in item.release.keys or ()] for of, item in people]
    keys = set(itertools.chain(*named))
    for (of, series), labels in zip(people, named, strict=True):
        columns = series.values.tolist(), (series.interval(level)[1] - series.values).tolist()
        for name, *row in zip(labels or [of or "in all"], *columns, strict=True):
            rows[_free(name, rows, keys, is_key=bool(labels))] = tuple(row)
    return rows


def _of_individuals(series: AnySeries, *, several: bool) -> str:
    counted = captions.caps_in_words(series, series.release.design.count, "")
    if series.release.keys is None:
        counted = f"In all, {counted[0].lower()}{counted[1:]}"
    caveat = " These numbers do not add up: whoever comes in several of these times is in each." if several else ""
    return f"{counted}.{caveat}"


def people_in_words(contents: Contents) -> list[str]:
    """Say how many individuals there are."""
    if not contents.people:
        return []
    places = digits_of(contents.people.values())
    rows = [
        f"{name} {grouped(value, places)} ± {grouped(half, places)}" for name, (value, half) in contents.people.items()
    ]
    return [
        f"Individuals, with a probability of {contents.level:.0%}: {'; '.join(rows)}. {' '.join(contents.of_people)}"
    ]


def _free(name: str, taken: Collection[str], keys: Collection[str], *, is_key: bool) -> str:
    """Return a name that is not taken, with a number where it must have one; a key's own name is for the key alone."""
    if is_key and name not in taken:
        return name
    numbered = (f"{name} ({k})" for k in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in taken and free not in keys)


def suitable_step(grid: TimeGrid) -> str:
    """Return a step of totals that suits the length of a grid; nothing for a short one, or one without a calendar."""
    days = 0 if grid.is_integer else (grid.edges()[-1] - grid.edges()[0]) / np.timedelta64(1, "D")
    for step, least in _TOTALS:
        with contextlib.suppress(ValueError):  # it divides steps of the grid, or there is no zone
            if days >= least and len(longer_steps(grid, step)[0]) < grid.size:
                return step
    return ""


def _protected(series: AnySeries, words: str) -> list[str]:
    release = series.release
    count = release.design.signal.count
    words = words.removeprefix("Guarantee: ").replace("Guarantee of", "the guarantee of")
    stated = f"No guarantee is stated{_why_not((series.sources or (release,))[0])}."
    if words:
        stated = f"It gives {words}." if words.startswith("(") else f"{words[0].upper()}{words[1:]}."
    who = "somebody" if count is None or count.unit.period is None else f"what somebody did within {count.unit.period}"
    return [
        f"Had {who} not been in the data, these numbers would have come out much the same: noise hides the difference."
        f" {stated}"
        if words
        else stated,
        "Which individuals were counted, and how often each of them, is not recorded."
        if count is None
        else f"{captions.caps_in_words(series, count, ' over all series' if release.keys else '')}.",
        "All that is shown here was computed from numbers with noise, and tells no more than they do.",
    ]


def _why_not(release: Release) -> str:
    try:
        _ = release.stated
    except ValueError as error:
        return f": {error}"
    return ""


def _near(
    series: dict[str, AnySeries], groups: list[list[str]], releases: list[Release], unit: str, level: float
) -> list[str]:
    """Say how far the numbers are from the truth, and last how they were made: once what is the same of all groups."""
    accuracy: dict[str, str] = {}
    meaning: dict[str, str] = {}
    origin: dict[str, str] = {}
    about: list[str] = []
    for group, panel in zip(groups, releases, strict=True):
        parts = [series[name] for name in group]
        remainder = f" and {len(group) - 3} more" if len(group) > 3 else ""
        name = "" if len(groups) == 1 else f"{', '.join(group[:3])}{remainder}"
        origin[name] = captions.made_from(parts[0].release, parts[0])
        ends = [frames.known_interval(part, level) for part in parts]
        low, high = (np.concatenate(rows) for rows in zip(*ends, strict=True))
        low, high = (np.where(np.concatenate([part.is_forecast for part in parts]), np.nan, end) for end in (low, high))
        half = (high - low)[np.isfinite(high)] / 2
        if not len(half):
            meaning[name] = "How far they are from the truth is not known."
            continue
        of = " or ".join(dict.fromkeys(captions.measured(panel, part) for part in parts))  # caps are of all series
        where = " where noisy values are" if parts[0].error_covers == "noise" else ""
        model = ", if the model is right" if parts[0].error_covers in captions.BANDED else ""
        meaning[name] = f"An interval holds {of}{where} with a probability of {level:.0%}, each step on its own{model}."
        mean = float(np.mean([part.values.mean() for part in parts]))
        accuracy[name] = f"±{rounded(float(np.median(half)))} (of {rounded(mean)} on average)"
        about += _hidden(panel, dict(zip(group, parts, strict=True)), level)
        if forecast := captions.ahead_in_words(parts[0]):
            about.append(
                f"{forecast}. Their intervals cover what the past lets expect, and nothing that is new."
                " Sums of all steps leave them out."
            )
    usual = f"Half of the numbers are known at least this well, in {unit}: {_by_name(accuracy, '; ', '')}."
    origins = f"Made by {captions.models_of(list(series.values()))}, from {_by_name(origin, '; ')}."
    return [*([usual] if accuracy else []), _by_name(meaning, " "), *dict.fromkeys(about), origins]


def _events(series: dict[str, AnySeries], grid: TimeGrid) -> list[str]:
    """Say when single events were, of steps in a row from the first to the last."""
    starts, times = instants_as_text(grid).tolist(), {}
    for name, item in series.items():
        if runs := frames.runs_of(item.events):
            times[name] = _list_first(
                [" to ".join(dict.fromkeys((starts[first], starts[last]))) for first, last in runs], ", "
            )
    if not times:
        return []
    rows = [f"{name}: {when}" for name, when in times.items()] if len(series) > 1 else list(times.values())
    step = " in steps" if grid.is_integer else ""
    return [f"Single events, which no pattern explains{step}: {_list_first(rows, '; ')}."]


def _list_first(texts: Sequence[str], separator: str) -> str:
    """Return the first of some texts, and how many more there are."""
    remainder = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return f"{separator.join(texts[:_NAMED])}{remainder}"


def _by_name(texts: dict[str, str], separator: str, colon: str = ":") -> str:
    """Return texts with the names that they are of, or once if they are all the same."""
    if len({*texts.values()}) == 1:
        return next(iter(texts.values()))
    return separator.join(f"{name}{colon} {text}" if name else text for name, text in texts.items())


def _hidden(panel: Release, parts: dict[str, AnySeries], level: float) -> list[str]:
    """Say of the series of a panel, or of its totals, what the noise hides."""
    sentences = []
    halves = {name: np.subtract(*frames.known_interval(part, level)[::-1]) / 2 for name, part in parts.items()}
    finite = {name: half[np.isfinite(half)] for name, half in halves.items()}
    small = [name for name, half in finite.items() if len(half) and np.median(half) > parts[name].values.mean()]
    if small and len(parts) > 1:
        which = _list_first(small, ", ") if len(small) < len(parts) else "all of them"
        sentences.append(
            f"Too small to be shown in single steps: {which}. The interval is wider than the number itself. What is"
            " seen there is mostly the course of the others. Longer steps, or sums of several series, show more."
        )
    behind = next(iter(parts.values())).sources or (panel,)
    last = behind[-1].design.signal.grid
    behind = tuple(release for release in behind if release.design.signal.grid == last)  # of several parts, one
    count = behind[0].design.signal.count
    of_keys = len(parts) > 1 and panel.design.signal.groups is None and count is not None and count.grid.size > 1
    if of_keys and count is not None and is_joint(behind) and all("jointly" in part.model for part in parts.values()):
        noise = noise_of_few(count, behind[0].scale)
        sentences += [captions.events_in_words(count, noise), captions.closure_in_words(count, noise)]
    return sentences


def _in_all(series: AnySeries, level: float) -> tuple[float, float]:
    value, half = combined(series, 1.0 - series.is_forecast[None], level)
    return float(value[0]), float(half[0])


def _sums(series: dict[str, AnySeries], groups: list[list[str]]) -> list[str]:
    """Say what adds up, of series and of steps."""
    first = next(iter(series.values()))
    if first.is_mean:
        return ["Means of all that is in these steps, and not of the means above."]
    count = first.release.design.signal.count
    of_heads = count is None or not count.reading.is_sum
    sentences = ["Somebody who comes in several steps is in a total once for each of them."] if of_heads else []
    levels = [np.sum([series[name].values for name in group], axis=0) for group in groups]
    if len(levels) > 1 and all(np.allclose(level, levels[-1]) for level in levels):
        sentences.append("Parts add up to their total, but for rounding.")
        if of_heads and not _is_at_one_key(first):
            sentences.append("Somebody at several of them in one step is in it once for each.")
    if any(item.statement and item.statement.parent for item in first.sources or (first.release,)):
        sentences.append(
            "Another page about the same people, such as by day, or of more months, may say another total: it has noise"
            " of its own, or knows more; how far each may be off, its ± says."
        )
    return sentences


def _is_at_one_key(series: AnySeries) -> bool:
    """Return whether nobody counts at several keys in one step."""
    counts = [release.design.signal.count for release in series.sources or (series.release,)]
    return all(count is not None and count.reading.key_cap == 1 for count in counts)


def _before(series: AnySeries, sums: AnyTotals, level: float) -> dict[str, tuple[float, float]]:
    """Return how much more each period has than the same one a year before, where both are complete."""
    names, begins = periods_as_text(sums.grid), sums.grid.edges("local")[:-1].astype("M8[D]")
    is_complete = sums.complete & ~sums.is_forecast
    places = {begin: k for k, begin in enumerate(begins.tolist()) if is_complete[k]}
    pairs = [
        (k, places[earlier])
        for begin, k in places.items()
        if (begin.month, begin.day) != (2, 29) and (earlier := begin.replace(year=begin.year - 1)) in places
    ]
    if not pairs:
        return {}
    rows = zip(pairs, *(row.tolist() for row in differences(series, sums.starts, pairs, level)), strict=True)
    return {names[k]: (increase, half) for (k, _), increase, half in rows}


def _percent(share: float) -> str:
    """Return a share in per cent, of which none is nothing: two digits below one per cent."""
    return f"{100 * share:.2g}%" if share < 0.01 else f"{share:.0%}"


def _compared(series: AnySeries, usual: dict[str, Profile], sums: AnyTotals | None, level: float) -> list[str]:
    """Say which differences are beyond what the noise makes."""
    if series.error_covers not in captions.BANDED or series.is_mean:
        return []
    sentences = []
    for title, profile in usual.items():
        half, mean = float(np.median(profile.high - profile.low)) / 2, float(profile.values.mean())
        accuracy = f"half of its numbers are known within ±{rounded(half)}, of {rounded(mean)} on average"
        sentences.append(f"{title} is a mean over all that is here: {accuracy}.")
    complete = np.flatnonzero(sums.complete & ~sums.is_forecast) if sums is not None and usual else np.array([], int)
    pairs = [(b, a) for a, b in itertools.pairwise(complete.tolist()) if b == a + 1]
    if sums is not None and pairs:
        half, mean = (
            float(np.max(differences(series, sums.starts, pairs, level)[1])),
            float(np.mean(sums.values[complete])),
        )
        share = f" ({_percent(half / mean)} of an average one)" if mean > 0 else ""
        sentences.append(
            f"A difference between two totals{captions.step_in_words(sums.grid)} in a row is beyond the noise from"
            f" {rounded(half)} on{share}."
        )
    total, half_of_all = _in_all(series, level)
    share = f" ({_percent(half_of_all / total)} of it)" if total > 0 else ""
    sentences.append(f"The sum of all steps is known within ±{rounded(half_of_all)}{share}.")
    if not pairs:
        least = rounded(math.sqrt(2) * half_of_all)
        sentences.append(f"A difference between the sums of two such pages is beyond the noise from {least} on.")
    return [*sentences, *_common_errors(sums, half_of_all, level)]


def _common_errors(sums: AnyTotals | None, half_of_all: float, level: float) -> list[str]:
    """Say that the errors of totals go together, if they do."""
    if sums is None or np.count_nonzero(~sums.is_forecast) < 3:
        return []
    low, high = (end[~sums.is_forecast] for end in sums.interval(level))
    if not half_of_all > _TOGETHER * float((high - low).sum()) / 2:
        return []
    return [
        f"Totals{captions.step_in_words(sums.grid)} err together, as the level of a series is uncertain as a whole:"
        " where one is too high, most are. Of some series all may lie outside of their intervals, and of most none."
    ]


def _revised(series: AnySeries, earlier: AnySeries, step: str | int, grid: TimeGrid, level: float) -> list[str]:
    """Say which totals are others than those of an earlier series, of the first steps of this one.

    That may never have been published: sentences say which it is, as pages of single parts hold other numbers.

    :raises ValueError: if that is not what it is.
    """
    before, keys = frames.grid_of(earlier, None), series.release.keys
    length = before.size - earlier.ahead
    begun = length <= grid.size and np.array_equal(before.edges()[: length + 1], grid.edges()[: length + 1])
    if not begun or earlier.release.keys != keys:
        raise Refusal("earlier", earlier, "must be of the first steps of this series, and of the same keys")
    if step == "":
        raise Refusal(
            "earlier", ..., "needs a step of totals, by which to say what was revised: `totals='1mo'`, or the like"
        )
    new, old = series.resample(step, grid=grid), earlier.resample(step)
    periods = int(np.count_nonzero((old.complete & ~old.is_forecast)[: len(old.starts)]))
    first = int(np.argmax(new.complete[: len(new.starts)]))  # of those that both hold in full
    some = slice(first, first + periods)
    is_now, was, low, high = (
        rows.reshape(-1, len(of.starts))[:, some]
        for rows, of in ((new.values, new), (old.values, old), *((end, old) for end in old.interval(level)))
    )
    places = digits_for(high - low)
    changes = np.round(is_now, places) != np.round(was, places)
    outside = int(np.count_nonzero((is_now < low) | (is_now > high)))
    names = periods_as_text(new.grid)[some]
    parts = captions.parts_in_words(earlier)
    if not changes.any():
        return [f"No total differs from a summary of {parts}."]
    if keys is None:
        rows = zip(names, was[0], is_now[0], changes[0], strict=True)
        revisions = ", ".join(
            f"{name} from {grouped(a, places)} to {grouped(b, places)}" for name, a, b, is_new in rows if is_new
        )
    else:
        revisions = ", ".join(name for name, any_of in zip(names, changes.any(axis=0), strict=True) if any_of)
        revisions += f", by at most {grouped(np.abs(is_now - was).max(), places)} in one series"
    beyond = f"{outside} of {was.size} totals are outside of" if outside else "all of it is within"
    return [
        f"Revised, compared with a summary of {parts} (not with pages of single parts): {revisions}."
        f" {beyond[0].upper()}{beyond[1:]} the intervals of that summary."
    ]


def _citation(title: str, words: str, grid: TimeGrid, ahead: int) -> str:
    when = "" if grid.is_integer else f", {' to '.join(ends_as_text(grid, ahead))}"
    stated = f" {words}." if words else ""
    return f"{title}{when}.{stated} Made with opendp_timeseries {software()['opendp_timeseries']}. {_METHOD}"


def _records(releases: Sequence[Release]) -> str | None:
    try:
        if len(releases) == 1:
            return releases[0].to_json()
        return write_releases(releases, adaptivity=adaptivity_of(releases))
    except ValueError:  # nothing is stated, or it does not add up
        return None


def instants_as_text(grid: TimeGrid) -> NDArray[np.str_]:
    """Return every edge on the grid's own clock, as people and spreadsheets read it; step numbers have no times.

    Times that stand twice on the clock, where it is set back, have their offset from UTC.
    """
    if grid.is_integer:
        return grid.edges().astype(str)
    local = grid.edges("local")
    exact: Any = next((unit for unit in ("D", "m") if np.all(local == local.astype(f"M8[{unit}]"))), None)
    texts = np.char.replace(np.datetime_as_string(local, unit=exact), "T", " ")
    twice = np.flatnonzero(repeated(grid))
    if not len(twice):
        return texts
    offsets = offsets_as_text((local - grid.edges())[twice])
    labels = texts.astype(f"U{texts.dtype.itemsize // 4 + 9}")
    labels[twice] = np.char.add(texts[twice], offsets)
    return labels


def repeated(grid: TimeGrid) -> NDArray[np.bool_]:
    """Return which edges stand twice on the grid's own clock, as it is set back between them."""
    local = grid.edges() if grid.is_integer else grid.edges("local")
    _, place, number = np.unique(local, return_inverse=True, return_counts=True)
    return np.asarray(number[place] > 1)


def offsets_as_text(offsets: NDArray[np.timedelta64]) -> list[str]:
    """Return offsets from UTC as ISO 8601 writes them."""
    seconds = offsets.astype("m8[s]").astype(np.int64).tolist()
    texts = {
        offset: dt.time(tzinfo=dt.timezone(dt.timedelta(seconds=offset))).isoformat()[8:] for offset in set(seconds)
    }
    return [texts[offset] for offset in seconds]


def ends_as_text(grid: TimeGrid, ahead: int = 0) -> tuple[str, str]:
    """Return the first and the last of a grid, without steps ahead: of whole days, the last day that is in it."""
    first, *_, last = instants_as_text(grid)[: grid.size + 1 - ahead].tolist()
    return first, str(np.datetime64(last) - np.timedelta64(1, "D")) if len(last) == 10 and not grid.is_integer else last


def periods_as_text(grid: TimeGrid) -> list[str]:
    """Return the beginnings of longer steps: of months and years without their first day."""
    step = str(grid.step)
    length = 4 if step.endswith("y") else 7 if step.endswith(("mo", "q")) else None
    return [start[:length] for start in instants_as_text(grid)[:-1].tolist()]
