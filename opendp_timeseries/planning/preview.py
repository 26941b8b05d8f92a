"""What a page will look like: the same page, of made-up numbers, before any data are touched.

The numbers come from the public description of a plan. They are counted, get noise and are smoothed as the log will be,
so intervals are as wide as they will be, if the description is right.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._files import write_file
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.loss import View
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.tables import Log, log_in_utc
from opendp_timeseries.design.design import Design, noise_exponent
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.planning.errors import draw_steps
from opendp_timeseries.reconstruction.smooth import series_of
from opendp_timeseries.release.release import Release
from opendp_timeseries.release.statement import Parent, Statement
from opendp_timeseries.results.contents import contents_of
from opendp_timeseries.results.page import page_of
from opendp_timeseries.results.profiles import weekdays

#: Fixed, so that one plan always has the same numbers.
_SEED: Final = 20240229
_HOUR, _WEEK = np.timedelta64(1, "h"), np.timedelta64(7, "D")
#: The hour at which a pattern of a day is lowest, and the days of a week on which one is.
_LOWEST: Final = 4.0
_WEEKEND: Final = (5, 6)


def made_up_rates(
    grid: TimeGrid,
    *,
    level: float | None = None,
    season_amplitudes: Mapping[float, float] | None = None,
    deviation: float | None = None,
    time_scale: float | None = None,
    proxy: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return a made-up rate of each step: of a day lowest at night, of a week at the weekend.

    :raises ValueError: without a level.
    """
    if proxy is not None:
        return np.asarray(np.maximum(check.reals("proxy", proxy), 0.0))
    if level is None:
        raise Refusal(
            "level", ..., "must be given for a preview: the mean count of a step, roughly, as is publicly known"
        )
    steps, rng = np.arange(grid.size), np.random.default_rng(_SEED)
    rates = np.full(grid.size, check.real("level", level, above=0.0))
    for period, amplitude in (season_amplitudes or {}).items():
        turns = steps / period
        if not grid.is_integer:
            local = grid.edges("local")[:-1]
            length = period * np.median(np.diff(grid.edges())) / _HOUR
            if round(length) == round(_WEEK / _HOUR):
                rates += 2 * amplitude * (len(_WEEKEND) / 7 - np.isin(weekdays(local), _WEEKEND))
                continue
            if round(length) == 24:
                turns = ((local - local.astype("M8[D]")) / _HOUR - _LOWEST) / 24
        rates -= amplitude * np.cos(2 * np.pi * turns)
    if deviation is not None and time_scale is not None:
        decay = math.exp(-1 / time_scale)
        noise = rng.normal(0.0, deviation * math.sqrt(1 - decay**2), grid.size)
        rates += scipy.signal.lfilter([1.0], [1.0, -decay], noise)
    return np.asarray(np.maximum(rates, 0.0))


def _activities(events: int, steps: int, individuals: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how often each person comes, from once to in all steps: as many events in each octave of that.

    :param individuals: about how many there are; the octaves are those that give so many.
    """
    low, high = 1.0, steps + 1.0
    shares = rng.random(events + 1 if individuals is None else min(individuals, events))
    if individuals is not None:
        usual = max(events / max(individuals, 1), 1.0)
        octaves = np.geomspace(1.0, high, 200)[1:]
        means = np.log(octaves) * octaves / (octaves - 1)  # of as many events in each octave from 1 on
        if usual < means[-1]:
            high = float(octaves[np.searchsorted(means, usual)])
        else:
            lowest = high / octaves
            low = float(lowest[np.argmin(np.abs(lowest * means - usual))])
    sizes = low / (1 - shares * (1 - low / high))
    if individuals is None:
        integers: NDArray[np.int64] = sizes.astype(np.int64)
        return integers[: np.searchsorted(np.cumsum(integers), events) + 1]
    ends = np.rint(np.cumsum(sizes) * (events / max(sizes.sum(), 1.0))).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


def made_up_log(
    design: Design, rates: NDArray[np.float64], rng: np.random.Generator, individuals: int | None = None
) -> Log:
    """Return a made-up log with these rates at each key, of about so many individuals if that is known."""
    reading = design.count.reading
    source = reading.source or Source(identifier="identifier", time="time")
    keys = list(reading.panel or ("",))
    usual_value = max(math.isqrt(reading.step_cap), 1) if reading.is_sum else 1
    counts = rng.poisson(np.tile(rates[:, None] / usual_value, len(keys)))
    step, key = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), len(keys))
    sizes = _activities(len(step), len(rates), individuals, rng)
    people, first_events = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = (np.arange(len(people)) - first_events + np.repeat(rng.random(len(sizes)), sizes)) / sizes[people]
    people = people[np.argsort(places)][: len(step)]  # somebody's events lie apart
    grid = reading.row_grid
    log = {source.identifier: people, source.time or "time": grid.instants()[step] if not grid.is_integer else step}
    if source.by is not None:
        log[source.by] = np.array(keys)[key]
    if source.value is not None:
        log[source.value] = rng.exponential(usual_value, len(step))
    return log_in_utc(log)


def made_up_releases(
    designs: Sequence[Design],
    rates: NDArray[np.float64],
    view: View | None = None,
    parent: Parent | None = None,
    individuals: int | None = None,
) -> list[Release]:
    """Return the releases of designs of one made-up log, with their statements in a view if one is given.

    :param individuals: about how many there are.
    """
    rng = np.random.default_rng(_SEED)
    log = made_up_log(designs[0], rates, rng, individuals)
    keys = {count: rng.bytes(16) for count in dict.fromkeys(design.count for design in designs)}
    releases = [_release(design, log, keys[design.count], rng) for design in designs]
    return (
        releases
        if view is None
        else [replace(release, statement=Statement(view=view, parent=parent)) for release in releases]
    )


def _release(design: Design, log: object, key: bytes, rng: np.random.Generator) -> Release:
    """Return a made-up release; those of one count are of one invocation of it, which has this key."""
    count = design.count
    counts = count.add_up(engine_of(log).count(log, count, key))
    values = np.ldexp(counts.astype(np.float64), -count.resolution_bits)
    for stage in design.known_signal.stages:
        rows = values.reshape(-1, count.grid.size)
        if isinstance(stage, Groups):
            places = {key: k for k, key in enumerate(count.panel or ())}
            values = np.concatenate([rows[[places[key] for key in keys]].sum(axis=0) for _, keys in stage.members])
        else:
            taps = np.fft.rfft(stage.taps)
            values = np.concatenate([np.fft.irfft(np.fft.rfft(row) * taps, n=count.grid.size) for row in rows])
    steps = draw_steps(rng, design.signal.size, design.sampling) if design.sampling.probability < 1 else None
    steps = np.arange(design.signal.size) if steps is None else steps
    values = values[steps] + rng.normal(0.0, design.scale, len(steps))
    exponent = noise_exponent(design.scale, design.known_signal.resolution_bits)  # of the grid on which noise is
    values = np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent)
    return Release(steps=steps, values=values, design=design, invocation=key.hex())


def preview_of(
    design: Design,
    view: View,
    parent: Parent | None,
    description: Mapping[str, Any],
    path: str | PathLike[str] | None,
    options: Mapping[str, Any],
) -> str:
    """Return the page of a design, of made-up numbers; see :meth:`.Plan.preview`."""
    releases = made_up_releases([design], made_up_rates(design.count.grid, **description), view, parent)
    seasons = list(description.get("season_amplitudes") or ()) or None
    first, *totals = series_of(releases, seasons=seasons)
    page = page_of(contents_of(first, beside=totals[::-1], made_up=True, **options))
    write_file(path, page.encode())
    return page
