"""What a release and a series are, in the words of captions, pages and spreadsheets."""

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.design.count import Count
from opendp_timeseries.grid import ONE_DAY, PERIODS, TimeGrid
from opendp_timeseries.release.documents import is_at_once, joint_guarantee
from opendp_timeseries.release.release import Release
from opendp_timeseries.results.digits import grouped
from opendp_timeseries.results.frames import AnySeries, AnyTotals
from opendp_timeseries.smoothing.local_events import CLOSED, least_seen

#: What an error must cover for a band to be drawn between kept steps.
BANDED: Final = ("rate", "counts")
_LEVELLED: Final = ", at the level of a total"
_NUMBERS: Final = {2: "two", 3: "three", 4: "four"}


def made_by(series: AnySeries) -> str:
    """Return how a series was made."""
    return f"{series.model}{_LEVELLED if series.levelled else ''}"


def measured(release: Release, part: AnySeries) -> str:
    """Return what intervals are for, in words."""
    rate = "the rate of " if part.error_covers == "rate" else ""
    count = _count(release, part)
    if count is None:
        return f"{rate}the counts after caps and filters"
    what = f"{'means' if part.is_mean else 'sums'} of {count.reading.log.value!r}" if count.reading.is_sum else "counts"
    is_full, filtered = count.is_full, bool(release.design.signal.kernels) and not part.levelled
    if filtered and not part.unfiltered:
        return f"{rate}{'the filtered counts of everybody' if is_full else f'the capped, filtered {what}'}"
    end = " before the filter" if filtered else _LEVELLED if part.levelled else ""
    end += " (of the few who come most, in part)" if is_full and _lighter(part) else ""
    return f"{rate}{'the counts of everybody' if is_full else f'the capped {what}'}{end}"


def guarantee_in_words(
    release: Release, sources: Sequence[Release], guarantee: tuple[float, float] | str | None
) -> str:
    """Return the guarantee in words, of all releases behind a series; nothing if none is known."""
    if isinstance(guarantee, str):
        return guarantee
    if guarantee is None:
        with contextlib.suppress(ValueError):  # nothing is stated
            parts = "; and ".join(source.guarantee() for source in sources or [release])
            if len(sources) < 2:
                return f"Guarantee: {parts}"
            try:
                joint = joint_guarantee(sources)
            except ValueError:  # they are not for the same individuals, or not in the same measure
                return f"Guarantee of each of the {len(sources)} releases behind it, as none is stated of all: {parts}"
            at_once = ", asked for at once" if is_at_once(sources) else ""
            return f"Guarantee of all {len(sources)} releases behind it{at_once}: {joint}"
        return ""
    epsilon, delta = (printed_up(value, 4) for value in guarantee)
    count = release.design.signal.count
    who = "one individual" if count is None or count.unit.period is None else str(count.unit)
    return f"Differentially private for {who} with ε = {epsilon}, δ = {delta}"


def tiers_of(series: AnySeries) -> int:
    """Return how many tiers the release behind a series has; 0 for a count with a cap."""
    counts = [release.design.signal.count for release in series.sources]
    return max((count.tiers.series for count in counts if count is not None and count.tiers is not None), default=0)


def draws_noisy(series: AnySeries) -> bool:
    """Return whether the noisy values behind a series are in its unit, and so drawn beside it."""
    return not (series.is_mean or tiers_of(series))


def caps_in_words(series: AnySeries, count: Count, where: str) -> str:
    """Describe the caps in a sentence."""
    grids = _grids(series)
    if _is_longer(series):
        count = _count(series.release, series) or count
        where += f" of each of {len(grids)} parts" if len(grids) > 1 else ""
    reading = count.reading
    often = "once" if reading.step_cap == 1 else f"at most {reading.step_cap} times"
    if reading.is_sum:
        often = f"at most {reading.step_cap} of {reading.log.value!r}"
    spacing = "" if reading.gap == 1 else f", at least {reading.gap} steps apart"
    key_limit = "" if reading.key_cap is None else f", in at most {reading.key_cap} at a time"
    unit = "Each individual" if count.unit.period is None else f"Each individual within {count.unit.period}"
    level = "; the level is that of a total, with its own cap" if series.levelled else ""
    if reading.is_once:
        words = "every key" if count.is_full else count.words()
        at_all = "" if count.panel is None else f" at {words}" if words.startswith("every") else f" at each of {words}"
        return f"{unit} counts once{at_all}{'' if count.is_full else '; numbers are too low by the others'}"
    steps, of, lighter = count.words(), " of every series" if "series" in where else "", _lighter(series)
    if count.is_full:  # of parts, each step is in one
        lighter += ", and numbers are too low by that" if lighter else ""
        return f"{unit} counts in every step{of}, once in each{lighter}{level}"
    if count.weighting.is_full(reading) and (reading.gap, reading.key_cap, reading.is_assumed) == (1, None, False):
        steps, where = "every step", of
    caps = f"{unit} counts in {steps}{where}{key_limit}, {often} in each{spacing}{lighter}"
    if reading.is_assumed:
        return f"Assumed: {caps[0].lower()}{caps[1:]}"
    summed = "means" if series.is_mean else "totals"
    return f"{caps}{level or f'; {summed} are too low by the rest'}"


def _lighter(series: AnySeries) -> str:
    """Say who counts for less although there is no cap: who is larger than the last tier, in all or at several keys."""
    counts = [release.design.signal.count for release in series.sources]
    of_part = " of a part" if len(_grids(series)) > 1 else ""
    totals = [total for count in counts if count is not None and (total := _total_bound(count)) is not None]
    crowds = [crowd for count in counts if count is not None and (crowd := _crowd(count)) is not None]
    who = [f"has more than {grouped(min(totals))} in all{' steps' if of_part else ''}{of_part}"] if totals else []
    if crowds:
        keys, steps, much = min(crowds)
        at = f"such as {much} at each of" if much else "at"
        often = f"({at} {_NUMBERS.get(keys, keys)} in more than {steps} steps{of_part})"
        who.append(f"is often at several at once {often}")
    return f"; whoever {' or '.join(who)} {'may count' if totals else 'counts'} for less" if who else ""


def _total_bound(count: Count) -> int | None:
    """Return the most of one individual in all, if that makes the last tier smaller."""
    tiers, reading = count.tiers, count.reading
    if tiers is None or replace(tiers, total_bound=None).last(reading) == tiers.last(reading):
        return None
    return tiers.total_bound


def _crowd(count: Count) -> tuple[int, int, str] | None:
    """Return at how many keys of a group somebody can be too often, in how many steps not yet, and how much at each."""
    tiers, reading, grouping = count.tiers, count.reading, count.reading.grouping
    if tiers is None or grouping is None:
        return None
    last = tiers.last(reading) * Fraction(tiers.typical**2, reading.step_cap**2)
    numbers = range(2, 1 + max(len(members) for _, members in grouping.groups.members))
    keys = next((keys for keys in numbers if grouping.size_at(keys) * reading.max_steps > last), None)
    if keys is None:
        return None
    often = f"{reading.step_cap} times" if reading.step_cap > 1 else ""
    much = f"{reading.step_cap} of {reading.log.value!r}" if reading.is_sum else often
    return keys, math.floor(last / grouping.size_at(keys)), much


def _grids(series: AnySeries) -> set[TimeGrid | None]:
    """Return the grids on which the releases behind a series were read: several, if it is of consecutive ones."""
    return {_grid(release) for release in series.sources}


def parts_in_words(series: AnySeries) -> str:
    """Return from which parts an earlier series was made."""
    parts = len(_grids(series))
    return f"the first {_NUMBERS.get(parts, parts)} parts" if parts > 1 else "the first part"


def _is_longer(series: AnySeries) -> bool:
    """Return whether caps are those of each release behind a series, and not over all of its steps."""
    grids = _grids(series)
    return bool(grids) and _grid(series.release) not in grids


def _count(release: Release, series: AnySeries) -> Count | None:
    """Return who was counted: of releases behind a longer series, by one that leaves somebody out, if there is one."""
    counts = [source.design.signal.count for source in (series.sources if _is_longer(series) else (release,))]
    return next((count for count in counts if count is None or not count.is_full), counts[0])


def _grid(release: Release) -> TimeGrid | None:
    count = release.design.signal.count
    return None if count is None else count.reading.grid


def made_from(release: Release, part: AnySeries) -> str:
    """Return from which noisy values a series was made, and how large their noise is."""
    grids = len(_grids(part))
    adjacent = f" of {grids} parts that follow each other, smoothed together" if grids > 1 else ""
    if part.is_mean:
        return f"noisy sums and numbers{adjacent}"
    if tiers := tiers_of(part):
        return f"{tiers} noisy series{adjacent}, in which those who come often weigh more or less"
    blocks = ", one of each block" if release.sampling.stratified else ""
    sample = f"the {len(release)} of {release.size} steps that were kept{blocks}"
    where = "every step" if release.sampling_probability == 1 else sample
    scales = sorted({source.scale for source in part.sources} if adjacent else {release.scale})
    noise = " to ".join(f"{scale:.4g}" for scale in dict.fromkeys((scales[0], scales[-1])))
    return f"noisy values at {where}{adjacent}, with noise of standard deviation {noise}"


def ahead_in_words(series: AnySeries) -> str:
    """Return which steps are forecasts; nothing if none is."""
    if not series.ahead:
        return ""
    steps = "step is a forecast" if series.ahead == 1 else f"{grouped(series.ahead)} steps are forecasts"
    last = f"last {steps}, of which nothing was released: by level and patterns, and departures as they fade"
    return f"The {last}"


def events_in_words(count: Count, noise: float) -> str:
    """Return how many must come to a key for an event to be seen, or how much there must be of a value.

    :param noise: standard error of the number of those who come to it in a step, or of what there is of the value.
    """
    single, three = (grouped(least_seen(noise, steps)) for steps in (1, 3))
    reading = count.reading
    more = f"there is about {single} more of {reading.log.value!r}" if reading.is_sum else f"about {single} more come"
    return (
        f"An event at one of them, such as a fair, shows if {more} than usual in one step, or {three} more in each of"
        " three. The noise may hide a smaller one."
    )


def closure_in_words(count: Count, noise: float) -> str:
    """Return how many must usually come to a key for its closure, of a day if steps are shorter, to be seen.

    Of sums no such number is known: those who come to a place usually come often, and finer series know less of them.

    :param noise: as of events.
    """
    grid, reading = count.grid, count.reading
    if reading.is_sum:
        return (
            "One that is closed for some steps is drawn towards the others, and may show most of what is usual there."
        )
    steps = 1 if grid.is_integer else max(round(ONE_DAY / np.diff(grid.edges()).min()), 1)
    usual, time = grouped(math.ceil(CLOSED * noise * math.sqrt(steps))), "day" if steps > 1 else "step"
    return (
        f"One that is closed for a {time} mostly shows as nothing if about {usual} usually come in it. A smaller one is"
        " drawn towards the others, and may show most of what is usual there."
    )


def step_in_words(grid: TimeGrid) -> str:
    """Return by which unit of the calendar totals are; nothing for other steps."""
    return f" by {PERIODS[grid.step]}" if grid.step in PERIODS else ""


def totals_in_words(totals: AnyTotals) -> list[str]:
    """Say what is not so of all totals, or of none."""
    sentences = {
        "The first or the last total is of a period that the series covers in part.": not np.all(totals.complete),
        "A forecast is of steps that are still to come, or some of which are.": bool(np.any(totals.is_forecast)),
        "Intervals of totals are the widest that they can be, as more is not known.": totals.is_bound,
    }
    return [sentence for sentence, holds in sentences.items() if holds]


def models_of(parts: Sequence[AnySeries]) -> str:
    """Return how series were made; of several, whose fits differ in detail, without that."""
    every = [made_by(part) if len(parts) == 1 else re.sub(r" \([^)]*\)", "", made_by(part)) for part in parts]
    return " or ".join(dict.fromkeys(every))
