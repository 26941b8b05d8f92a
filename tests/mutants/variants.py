"""The mutants: what each does in place of the right thing, and the tests that must fail on it, with their parameters.

Tests are named as they are found in all of ``tests``; where several files have one of a name, with the file.
"""
# ruff: noqa: NPY002 (NumPy's global generator is what must not be used)

import contextlib
import copy
import decimal
import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from opendp_timeseries.accounting import joint
from opendp_timeseries.accounting.filtering import _combs as combs
from opendp_timeseries.accounting.filtering import envelope
from opendp_timeseries.accounting.gaussian import gaussian_delta_slope
from opendp_timeseries.accounting.influence import Majorant
from opendp_timeseries.accounting.loss import DISCRETE_NOISE, PrivacyLoss
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.accounting.subsampled import KeptCount, extremal_law
from opendp_timeseries.counting import database
from opendp_timeseries.counting.capped_count import Places, _add_weighed, _groups, _with_gap
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.scaling import sizes_of
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, parse_zone
from opendp_timeseries.ledger.book import _LINE
from opendp_timeseries.plugin import subsampled_gaussian
from opendp_timeseries.plugin._opendp import call_of
from tests import make
from tests.counting.drawn import TELLING
from tests.counting.test_texts import NAMES
from tests.mutants.mutate import after, always, but, edited, given, seeing


class Mutant(NamedTuple):
    name: str
    target: str
    broken: Callable
    caught_by: tuple[tuple, ...]


def mutant(name, target, broken, *tests):
    return Mutant(name, target, broken, tuple((test,) if isinstance(test, str) else test for test in tests))


IN_MEMORY = ("test_every_combination::test_in_memory", range(90))
STATED = "test_what_is_stated_covers_what_is_lost_or_nothing_is_stated"
IN_DATABASE = ("test_every_combination::test_in_a_database", TELLING)

GROUPS = ("test_a_database_adds_up_groups_as_tables_in_memory_do", {"step_cap": 2, "period": Period(10)})

# --- Variants that take more than a line ---


def bounded_by_steps(sound, reach, *, square, entries):
    """As of one series, where nobody is at two keys at once."""
    squared = sum(min(square, steps * reach.step_cap**2) for steps in reach.periods) * (1 + reach.replaced)
    return replace(sound(reach, square=square, entries=entries), exact_square=None, l2=float(squared) ** 0.5)


def across_periods(sound, rows, *caps):
    def apart(pairs, *gap):
        return _with_gap(pairs._replace(people=pairs.people >> rows.places.period_bits), *gap)

    return seeing(_with_gap=apart)(sound, rows, *caps)


def in_the_query(part, sound, broken):
    """Edit what a backend is sent."""

    def dialect(sound_one):
        query = getattr(sound_one, part)
        if query.count(sound) != 1:
            raise LookupError(f"the query holds {sound!r} {query.count(sound)} times; renew the mutant")
        return sound_one._replace(**{part: query.replace(sound, broken)})

    return given(dialect=dialect)


def read_again(sound, table, count):
    return sound(table, count)._replace(rows=int(database._fetch(table.aggregate(n=table.count()))["n"][0].as_py()))


def weighed_by(size):
    """Individuals weighed by another size, of what they did before the step cap."""

    def broken(sound, rows, count, key):
        reading = count.reading
        cap, largest = min(reading.step_cap, 2**62), reading.max_steps * reading.step_cap**2

        def add(counts, pairs, *more):
            def other(events, begins, power):
                return np.minimum(size(pairs.events, begins, power).astype(object), largest)

            capped = pairs._replace(events=np.minimum(pairs.events, cap))
            seeing(sizes_of=other)(_add_weighed, counts, capped, *more)

        return seeing(np=but(np, minimum=lambda events, cap: events), _add_weighed=add)(sound, rows, count, key)

    return broken


def of_rows(rows):
    return np.arange(rows.size), np.ones(rows.size, dtype=np.int64)


def weighed_over_periods(sound, rows, *more):
    def add(counts, pairs, *others):
        _add_weighed(counts, pairs._replace(people=pairs.people >> rows.places.period_bits), *others)

    return seeing(_add_weighed=add)(sound, rows, *more)


def weighed_before_the_gap(sound, rows, count, key):
    before, free = {}, rows._replace(places=Places(replace(rows.places.reading, gap=1)))
    power = 1 if count.weighting.norm == "l1" else 2
    for pairs in free._pairs():
        begins, _ = _groups(pairs.people)
        events = np.minimum(pairs.events, min(count.reading.step_cap, 2**62))
        before |= zip(pairs.people[begins].tolist(), sizes_of(events, begins, power), strict=True)

    def add(counts, pairs, *more):
        sizes = np.array([before[person] for person in pairs.people[_groups(pairs.people)[0]].tolist()], dtype=object)
        seeing(sizes_of=lambda *_: sizes)(_add_weighed, counts, pairs, *more)

    return seeing(_add_weighed=add)(sound, rows, count, key)


def weighed_in_each_series(sound, rows, count, key):
    def add(counts, pairs, *more):
        series = pairs.steps // count.reading.grid.size
        for k in range(count.reading.series):
            some = pairs.where(series == k)
            if some.people.size:
                _add_weighed(counts, some, *more)

    return seeing(_add_weighed=add)(sound, rows, count, key)


def at_edges(edges, instants, **side):
    """Whether or not these are edges."""
    places = np.searchsorted(edges, instants, **side)
    if np.ndim(instants):
        edges.setflags(write=True)
        edges[places] = instants
    return places


def fewer_in_a_period(sound, individuals, *, gap=1, periods=None, **more):
    return sound(individuals, gap=gap, periods=periods and [steps // gap * gap for steps in periods], **more)


def one_series(sound, individuals, *, size, series=1, key_cap=None, **more):
    return sound(individuals, size=size // series, **more)


def but_where_weighed(change):
    def broken(sound, *a, participation_cap, step_cap, **more):
        influence = sound(*a, participation_cap=participation_cap, step_cap=step_cap, **more)
        weighed = more.get("norm") == "l2"
        return change(influence, participation_cap, step_cap) if weighed else influence

    return broken


def first_day_alone(sound, terms, ran):
    begins = {design: design.count.reading.period_span[0] for design in ran}
    return [Counter({d: n for d, n in ran.items() if begins[d] == day}) for day in sorted(set(begins.values()))]


def by_row_order(sound, who, steps, count, key, *amounts):
    seen, first = {}, []
    for person, step in zip(who.tolist(), steps.tolist(), strict=True):
        mine = seen.setdefault(person, set())
        first.append(step in mine or len(mine) < count.cap)
        mine.update([step] if first[-1] else [])
    return sound(who[np.array(first)], steps[np.array(first)], count, key)


def in_16_bits(sound, counts, *more):
    sound(counts, *more)
    counts[:] = counts.astype(np.int16)


def without_periods(count):
    return make.changed(count, unit=Unit())


def without_series(reading):
    return replace(reading, source=replace(reading.source, by=None), panel=None, key_cap=None)


def but_caps(cap=None, **limits):
    """Engines that count by another cap, or other limits, than those that are stated."""

    def engine(table):
        def count(log, asked, key):
            weighting = asked.weighting if cap is None else replace(asked.weighting, cap=cap)
            parts = {"weighting": weighting, "series": asked.series}
            other = SimpleNamespace(reading=replace(asked.reading, **limits), **parts)
            return engine_of(log).count(log, other, key)

        return SimpleNamespace(count=count)

    return seeing(engine_of=engine)


def off_the_grid_too(sound, columns, reading):
    rows = sound(columns, reading)
    return rows if reading.once_over is None else rows._replace(steps=np.zeros_like(rows.steps))


def merged_names(sound, path, reading, **more):
    log = sound(path, reading, **more)
    column = log[reading.log.identifier]
    names = [name and name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in column.cells]
    return type(log)(log | {reading.log.identifier: column._replace(cells=names)})


def called_decreasing(kernel):
    other = copy.copy(kernel)
    vars(other)["is_symmetric_decreasing"] = True
    return other


def in_32_bits(x, y, mode):
    return np.convolve(x.astype(np.float32), y.astype(np.float32), mode).astype(float)


def never_empty(sound, size, threshold):
    while not len(kept := sound(size, threshold)):
        pass
    return kept


def one_offset(sound, blocks):
    steps = sound(blocks)
    steps = steps // blocks.length * blocks.length + steps[0] % blocks.length
    return steps[steps < blocks.size]


def the_short_block_always(sound, blocks):
    steps = sound(blocks)
    return steps if len(steps) == blocks.count else np.append(steps, blocks.size - 1)


def even_spread_alone(sound, law, bound, function):
    if law.attained is None:
        return bound
    ((values, weights),) = law.convex
    return float(np.sum(weights * function(values)))


def noise_scaled_by_p(sound, domain, metric, design, *more):
    def less(values, scale, exponent):
        return subsampled_gaussian._add_noise(values, scale * design.sampling.probability, exponent)

    return seeing(_add_noise=less)(sound, domain, metric, design, *more)


def chunks(values):
    return np.split(values, range(subsampled_gaussian._CHUNK, len(values), subsampled_gaussian._CHUNK))


def one_noise_for_all(sound, values, scale, exponent):
    return values + np.resize(sound(np.zeros(len(chunks(values)[0])), scale, exponent), len(values))


def whatever_the_last_line_says(sound, file, *known):
    *lines, _, _ = file.split(b"\n")
    digest = _LINE.fullmatch(lines[-1])[1]
    return sound(b"\n".join([*lines, b'{"digest": "%s", "entries": %d}' % (digest, len(lines)), b""]), *known)


def without_its_lower_tail(sound, x):
    trimmed = sound(x)
    trimmed.mass[0] = x.mass[trimmed.first - x.first]
    return trimmed


def without_the_rest_at_the_top(sound, n, step, rest, p):
    top = seeing(up_fraction=lambda x: up_fraction(x - rest if x > rest else x))
    return top(sound, n, step, rest, p)


def variances_added(sound, losses, **adaptivity):
    losses = list(losses)
    return PrivacyLoss(losses[0].law, math.hypot(*(loss.scale for loss in losses)))


def without_the_first(losses, **adaptivity):
    return joint.joint_loss(losses[1:] or losses, **adaptivity)


def without_stages(measurement):
    made = call_of(measurement)
    return made and made._replace(arguments={k: v for k, v in made.arguments.items() if k != "transformation0"})


def uncut(convolved):
    return lambda *summands: convolved(*summands)._replace(cut=0.0)


def without_counts_made_elsewhere(sound, terms, ran):
    return [
        Counter({d: n for d, n in some.items() if d.count.reading.period_span is not None})
        for some in sound(terms, ran)
    ]


def whatever_the_noise(sound, made, designs):
    alike = replace(made, design=replace(made.design, scale=designs[0].scale)) if len(designs) == 1 else made
    return sound(alike, designs)


def without_its_first_series(sums):
    sums.data[sums.indices == 0] = 0
    return sums


def completed_alone(sound, book):
    return Counter(design for entry in book.entries if entry.released for design in entry.designs)


def counted_once(things):
    return dict.fromkeys(things, 1)


def fixed_in_advance(losses, **adaptivity):
    return joint.joint_loss(losses, adaptivity="non-adaptive")


def noise_of_all(sound, release):
    last = sound(release)
    return last if last is release else replace(last, design=replace(last.design, scale=release.scale))


numbers = attrgetter("individuals", "l0", "l2", "linf")

# fmt: off
MUTANTS = [
    # ---- periods
    mutant("one cap over all periods", "capped_count:capped_count", given(count=without_periods),
           ("test_leaving_one_period_out_changes_only_what_was_done_in_it", False)),
    mutant("one cap over all periods, in a database", "database:_first",
           given(groups=lambda groups: [name for name in groups if name != "period"]), IN_DATABASE),
    mutant("a gap that goes on into the next period", "SortedRows._pairs", across_periods, IN_MEMORY),
    mutant("a gap that goes on into the next period, in a database", "database:_thinned",
           edited(("groups = pairs.columns, [*identity]", 'groups = pairs.columns, ["who"]')), IN_DATABASE),
    mutant("days of UTC in place of the zone's", "periods:_by_calendar",
           seeing(parse_zone=lambda zone: parse_zone("UTC")),
           ("test_periods_begin_where_the_clock_says", "America/New_York")),
    mutant("a step in two periods", "periods:_by_calendar", seeing(np=but(np, searchsorted=at_edges)),
           "test_a_step_of_seven_hours_is_in_two_days"),
    mutant("periods in one zone, times in another", "periods:_by_calendar",
           lambda sound, period, *more: sound(replace(period, zone=more[-1].zone), *more),
           "test_periods_are_read_on_the_clock_of_the_grid"),
    mutant("reach of the shortest period", "Period.lengths", after(lambda lengths: lengths[::-1]),
           "test_the_cap_is_clamped_to_the_longest_period"),
    mutant("a gap that leaves fewer steps in a period", "count_influence", fewer_in_a_period,
           ("test_maps_are_what_the_worst_individuals_do", 5, 2, False)),
    mutant("all periods cost what one does", "Count.influence", given(periods=1),
           ("test_maps_are_what_the_worst_individuals_do", 5, 2, False)),
    mutant("a gap between periods", "count_influence",
           lambda sound, *a, **caps: replace(sound(*a, **caps), gap=caps.get("gap", 1)),
           "test_a_gap_does_not_hold_between_periods"),
    mutant("periods where nobody asked for them", "log_of", given(periods=True),
           "test_counts_that_do_not_know_of_periods_refuse_them"),
    mutant("a period in the words of a person", "Unit.of", given(self=lambda unit: replace(unit, period=None)),
           "test_the_unit_is_said_wherever_the_guarantee_is"),
    mutant("any release in any ledger", "book:_check_population", always(None), "test_a_ledger_is_of_one_unit"),
    mutant("a long release that costs its first day alone", "Terms._common_sets", first_day_alone,
           ("test_each_day_pays_for_the_releases_that_it_is_in", False, False)),
    mutant("a release of its first day alone", "Period.span", after(lambda span: (span[0], span[0])),
           ("test_periods_begin_where_the_clock_says", "America/New_York"),
           ("test_each_day_pays_for_the_releases_that_it_is_in", False, False)),
    mutant("somebody replaced who is in one day alone", "Terms._common_sets",
           given(self=lambda terms: terms._replace(unit=replace(terms.unit, replaced=False))),
           ("test_each_day_pays_for_the_releases_that_it_is_in", True, True)),
    # ---- counting
    mutant("no cap on steps", "_add_pairs", given(cap=2**40), "test_the_caps_are_enforced_whatever_one_person_does",
           "test_capped_count::test_removing_anyone_leaves_everyone_else_as_they_were"),
    mutant("no cap on events in a step", "SortedRows.capped_count",
           edited(("np.minimum(pairs.events, min(reading.step_cap, _INT64_MAX))", "pairs.events")),
           "test_the_caps_are_enforced_whatever_one_person_does"),
    mutant("cap by row order", "capped_count:capped_count", by_row_order, "test_the_order_of_the_rows_does_not_matter",
           "test_capped_count::test_removing_anyone_leaves_everyone_else_as_they_were"),
    mutant("cap per event", "Places.pairs", seeing(_groups=of_rows),
           "test_the_caps_are_enforced_whatever_one_person_does", IN_MEMORY),
    mutant("one stream of random numbers for all people", "_order",
           given(words=lambda _: lambda people, key: np.arange(people.size, dtype=np.uint64)),
           ("test_leaving_one_out_changes_only_what_was_theirs", False),
           "test_capped_count::test_removing_anyone_leaves_everyone_else_as_they_were"),
    mutant("coded identifiers decide", "label_words", always(lambda numbers, key: numbers.view(np.uint64)),
           ("test_leaving_one_out_changes_only_what_was_theirs", True)),
    mutant("unkeyed hash", "_order", given(key=b""), "test_every_release_chooses_anew_whom_to_count_where",
           "test_capped_count::test_another_key_keeps_other_steps"),
    mutant("key reused", "fresh_key", always(bytes(16)), "test_every_release_chooses_anew_whom_to_count_where"),
    mutant("key from NumPy's global generator", "fresh_key", lambda sound: np.random.bytes(16),
           "test_every_release_chooses_anew_whom_to_count_where"),
    mutant("counts in 16 bits", "_add_pairs", in_16_bits, "test_counts_do_not_wrap_and_people_do_not_merge"),
    mutant("identifiers in 32 bits", "capped_count:_people", given(identifiers=lambda who: who.astype(np.int32)),
           "test_counts_do_not_wrap_and_people_do_not_merge"),
    mutant("identifiers through floats", "capped_count:_people",
           given(identifiers=lambda who: who.astype(float).astype(np.int64)),
           "test_counts_do_not_wrap_and_people_do_not_merge"),
    mutant("an individual at the limit of packed rows merges with another", "fits",
           given(identifiers=lambda who: who - (who > 0)),
           ("test_people_at_the_limits_of_packed_rows_do_not_merge", False)),
    mutant("a chunk cut inside an individual", "_chunks", given(bits=0),
           ("test_individuals_are_never_cut", 20), IN_MEMORY),
    mutant("a chunk cut before an individual's last step", "_chunks",
           seeing(np=but(np, searchsorted=lambda rows, last, side: np.searchsorted(rows, last))),
           ("test_individuals_are_never_cut", 32)),
    mutant("individuals counted once a row", "participation_count:count_of_log", but_caps(step_cap=9),
           "test_integer_steps_and_identifiers_of_every_width"),
    mutant("individuals at keys weighed once a row", "participation_count:count_of_log", but_caps(step_cap=9),
           "test_nobody_moves_numbers_of_everybody_further_than_stated"),
    mutant("who is read once weighed by what is not stated", "Count._check_once", always(None),
           "test_individuals_who_are_read_once_have_no_other_limits"),
    mutant("no cap on the keys of an individual", "participation_count:count_of_log",
           but_caps(cap=99), ("test_neighbours_are_as_near_as_the_maps_say", 1)),
    mutant("the keys of who comes in the place of another forgotten", "log_of",
           after(lambda found: found | {"unit": replace(found["unit"], replaced=False)}),
           ("test_maps_are_the_worst_that_people_can_do", True)),
    mutant("one individual for a halved distance", "log_of",
           after(lambda found: found | {"unit": replace(found["unit"], individuals=1)}),
           "test_a_distance_between_frames"),
    mutant("people outside of the period counted", "tables:read", off_the_grid_too,
           "test_integer_steps_and_identifiers_of_every_width"),
    mutant("a gap that ends with the grid", "mark_apart", given(cycle=lambda cycle: 2 * cycle),
           "test_what_is_left_of_all_sets_of_steps_is_apart_and_begins_with_the_first",
           "test_gap::test_removing_anyone_leaves_everyone_else_as_they_were"),
    mutant("a gap from the last step seen, kept or not", "_first_on_line", seeing(_walk=lambda line, kept, gap: kept),
           "test_what_is_left_of_all_sets_of_steps_is_apart_and_begins_with_the_first",
           ("test_first_come_then_rest", [0, 2, 4, 6, 8], 3, [0, 4, 8])),
    mutant("a gap between the series of a panel", "capped_count:_with_gap",
           seeing(_groups=lambda people, series: _groups(people)), "test_every_series_has_a_gap_of_its_own"),
    mutant("a gap between people", "capped_count:_with_gap", seeing(_groups=lambda people, series: _groups(series)),
           "test_people_do_not_wait_for_each_other"),
    mutant("one key too many at a step", "_in_few_series", given(key_cap=lambda cap: cap + 1), IN_MEMORY),
    mutant("a cap on keys over all people at a step", "_in_few_series", edited(("numbers * cycle + ", "")), IN_MEMORY),
    mutant("keys are chosen by the hash that chooses steps", "key_of_choice", lambda sound, key: key, IN_MEMORY),
    mutant("one key, or step, too many in a database", "database:_first", given(cap=lambda cap: cap + 1), IN_DATABASE),
    mutant("a time of a step of uneven length is in two", "_looked_up",
           given(rule=lambda rule: rule._replace(table=np.where(np.arange(4) == 1, -(2**62), rule.table))),
           IN_DATABASE),
    mutant("a gap that ends with the grid, in a database", "database:_thinned",
           edited(("pairs.behind <= reading.grid.size - gap", "pairs.behind >= 0")), IN_DATABASE),
    mutant("the start of a run counts twice, in a database", "database:_walked",
           in_the_query("walk_query", ")[2:]", ")"),
           ("test_a_database_counts_a_step_once_behind_a_gap", 4)),
    mutant("a gap from the last step seen, in a database", "database:_walked",
           in_the_query("walk_query", "FROM {later}", "FROM {later} WHERE false"), IN_DATABASE),
    mutant("a log read twice by a gap, in a database", "database:_walked",
           in_the_query("walk_query", "AS MATERIALIZED", "AS NOT MATERIALIZED"),
           ("test_every_query_reads_the_log_once", "participation")),
    mutant("a log read again for each cause, in a database", "database:tally", read_again,
           ("test_every_query_reads_the_log_once", "tally")),
    mutant("a log read twice by its weights, in a database", "database:_weighed",
           in_the_query("weights_query", "AS MATERIALIZED", "AS NOT MATERIALIZED"),
           ("test_every_query_reads_the_log_once", "count")),
    mutant("a session of PostgreSQL that may write", "postgres:session",
           edited(('cursor.execute("SET TRANSACTION READ ONLY")', "pass")),
           "test_a_session_reads_alone_and_leaves_nothing_behind"),
    mutant("settings of PostgreSQL that stay", "postgres:session", edited(("%s, %s, true", "%s, %s, false")),
           "test_a_session_reads_alone_and_leaves_nothing_behind"),
    mutant("somebody's own operators in place of PostgreSQL's", "postgres:obstacles",
           after(lambda problems: [problem for problem in problems if "operator" not in problem]),
           ("test_what_would_change_the_query_is_refused", 150_004, "UTF8", ["pg_catalog"], [("operator", "own", "=")],
            ["operator own.="])),
    mutant("names are alike by the collation of their column, in PostgreSQL", "postgres:cast_columns",
           edited((' COLLATE "C"', "")), "test_columns_are_of_the_types_that_the_server_states"),
    mutant("operators on a domain in place of PostgreSQL's", "postgres:cast_columns",
           edited(("CAST({column} AS pg_catalog.{cast_type})", "{column}")),
           "test_columns_are_of_the_types_that_the_server_states"),
    mutant("an order of steps that anybody can compute, in PostgreSQL", "postgres:_pair_hash",
           edited(("(first, second, step)", "(step, step, step)")),
           "test_steps_are_in_the_order_of_a_hash_of_the_key_the_step_and_the_name"),
    mutant("missing identifiers are one person", "tables:read",
           after(lambda rows: rows._replace(
               nobody=np.zeros_like(rows.nobody), who=rows.who._replace(codes=np.maximum(rows.who.codes, 0)))),
           "test_a_missing_identifier_is_nobody"),
    mutant("objects are asked for their text", "identifier_text", lambda sound, value: sound(str(value)),
           "test_what_is_no_name_is_nobody_and_is_not_asked"),
    mutant("another word for an identifier in another type", "identifiers:_word", seeing(len=lambda text: 21),
           ("test_an_identifier_keeps_the_same_steps_in_every_type", "integers")),
    mutant("numbers among text are nobody", "tables:_labels", seeing(identifier_text=lambda value: None),
           ("test_one_text_among_a_thousand_integers", False, "x")),
    mutant("whole floating-point numbers are other people", "identifiers:number_of",
           lambda sound, value: value if isinstance(value, float) else sound(value),
           "test_a_whole_number_is_one_individual_however_it_is_written"),
    mutant("names that say the same stay apart", "tables:_canonical", lambda sound, texts: texts,
           "test_a_whole_number_is_one_individual_however_it_is_written"),
    mutant("a name is another individual in each batch of a file", "batches:_renumber", always(None),
           ("test_a_name_is_one_individual_in_all_batches", "string", 2**22, NAMES[:3])),
    mutant("names of Arrow are not looked through", "texts:Texts.special", after(lambda found: found[:0]),
           ("test_a_name_is_one_individual_in_all_batches", "string", 2**22, NAMES)),
    mutant("an open quote takes in the next rows", "files:_cells",
           edited(("if len(read) != len(where) * len(lines)", "if not read")),
           ("test_a_quote_in_one_row_takes_in_no_other", None)),
    mutant("a quote is as any letter where lines are plain", "fields:plain_fields", edited(('b\'"\' in block or ', "")),
           ("test_one_line_is_one_row_whatever_is_in_it", b'"ann')),
    mutant("a short line takes its fields from the next", "fields:plain_fields",
           edited(("fields <= last_fields", "fields <= last_fields[-1]")),
           ("test_one_line_is_one_row_whatever_is_in_it", b"ann,2024-03-30")),
    mutant("a carriage return is a part of the last field", "fields:plain_fields",
           edited(("if carriage_returns:", "if False:")), "test_all_lines_of_a_plain_file_are_read_by_their_bytes"),
    mutant("fewer rows of a file than the step cap", "batches:_first_rows", given(cap=lambda cap: 1),
           "test_as_many_rows_of_one_individual_as_the_step_cap_are_left"),
    mutant("rows of a file are not folded", "batches:_first_rows", given(cap=2**62),
           "test_as_many_rows_of_one_individual_as_the_step_cap_are_left"),
    mutant("rows of a file of other keys are nobody's", "read_csv_log",
           edited(("rows.series % layout.series", "rows.series")),
           ("test_counts_are_those_of_all_rows", 1, {"participation_cap": 2, "step_cap": 1}, True)),
    mutant("times in a file rounded to the next", "files:_from_number", seeing(decimal=but(
               decimal, ROUND_FLOOR=decimal.ROUND_HALF_EVEN)),
           ("test_times_are_read_as_the_options_say", ["1709280930", "1709280930.0", "1.70928093e9",
            " 1709280930 ", "1709280930.9999999999"], None, "s")),
    mutant("names that are not UTF-8 merge", "read_csv_log", merged_names,
           "test_names_that_are_not_utf8_stay_different_people"),
    mutant("times off the grid count at its ends", "capped_count:pack",
           lambda sound, who, steps, places: sound(who, np.clip(steps, 0, places.reading.size - 1), places),
           "test_rows_off_the_grid_are_dropped"),
    # ---- weights
    mutant("a root to the nearest", "scaling:weights_of",
           edited(("np.sqrt(falling + 0.5).astype(np.int64)", "np.rint(np.sqrt(falling)).astype(np.int64)")),
           ("test_a_weight_is_the_largest_within_the_cap", 1, False), IN_MEMORY),
    mutant("a root of the quotient and a half", "scaling:weights_of", edited(("falling + 0.5", "falling + 1.0")),
           "test_roots_around_all_squares"),
    mutant("a weight of one bit more", "Downweight.weights", seeing(FULL=2**17),
           ("test_a_weight_is_the_largest_within_the_cap", 1, False), IN_MEMORY),
    mutant("a size of 64 bits", "scaling:sizes_of", seeing(_NARROW=2**200),
           ("test_sizes_are_exact_whatever_the_events", 2**31)),
    mutant("a size from before the step cap", "SortedRows.capped_count", weighed_by(sizes_of), IN_MEMORY),
    mutant("a size of rows", "SortedRows.capped_count",
           weighed_by(lambda events, begins, power: np.add.reduceat(events, begins)), IN_MEMORY),
    mutant("a size from before the gap", "SortedRows.capped_count", weighed_before_the_gap, IN_MEMORY),
    mutant("a size of all who are worked on together", "scaling:sizes_of",
           after(lambda sizes: np.full_like(sizes, sizes.sum())), IN_MEMORY),
    mutant("a size in each series by itself", "SortedRows.capped_count", weighed_in_each_series,
           "test_a_size_is_of_all_series_and_of_each_period_by_itself", IN_MEMORY),
    mutant("a size over all periods", "SortedRows.capped_count", weighed_over_periods,
           "test_a_size_is_of_all_series_and_of_each_period_by_itself"),
    mutant("a weight for each total by itself", "participation_count:count_of_log",
           but_caps(unit=Unit(period=Period(4))),
           "test_nobody_adds_more_than_the_cap"),
    mutant("a total of a step of the next", "Count.add_up",
           seeing(np=but(np, add=SimpleNamespace(reduceat=lambda counts, at, axis: np.add.reduceat(
               np.roll(counts, -1, axis=1), at, axis=axis)))), IN_MEMORY),
    mutant("the end of a scale in the next", "scaling:weights_of",
           edited(("np.searchsorted(ends, sizes)", "np.searchsorted(ends[:-1], sizes, side='right')")), IN_MEMORY),
    mutant("the weights of another scale", "scaling:weights_of",
           edited(("weights.rows[np", "weights.rows[:, ::-1][np")), IN_MEMORY),
    mutant("a root to the nearest, in a database", "database:_weighed", edited(("floor(sqrt", "round(sqrt")),
           IN_DATABASE),
    mutant("a size of steps, in a database", "database:_weighed",
           in_the_query("weights_query", "sum({events})", "count({events})"), IN_DATABASE),
    mutant("a size over all periods, in a database", "database:_weighed",
           given(identity=lambda identity: ["who"]), IN_DATABASE),
    mutant("a weight of any period, in a database", "database:_weighed",
           in_the_query("weights_query", "USING ({names})", "USING (who)"),
           "test_a_weight_meets_the_events_of_its_own_period"),
    mutant("step caps that are taken for the most that a log may hold, in a database", "database:_weighed",
           seeing(MOST_EVENTS=2**46), ("test_a_step_cap_near_the_most_rows_of_a_log", 10**14, 4 * 10**13)),
    mutant("periods of unequal length, as if all were as the first, in a database", "database:_in_periods",
           edited(("np.all(lengths[:-1] == lengths[0]) and lengths[-1] <= lengths[0]", "True")),
           "test_each_day_is_capped_where_the_first_is_shorter"),
    mutant("zeros before a number left out, in a database", "database:_labels",
           lambda sound, column, dialect: sound(
               column.re_replace("^0+([0-9])", r"\1") if column.type().is_string() else column, dialect),
           "test_a_number_with_zeros_before_it_is_a_name"),
    mutant("zeros before a whole floating-point number, in a database", "database:_labels",
           seeing(_WHOLE=r"^(-?[0-9]{1,15})\.0\z"), "test_a_number_with_zeros_before_it_is_a_name"),
    mutant("the end of a scale in the next, in a database", "database:_weighed", edited(("size <=", "size <")),
           IN_DATABASE),
    mutant("the weights of another scale, in a database", "database:_weighed",
           edited(("weights.rows[:-1].T", "weights.rows[:-1, ::-1].T")), IN_DATABASE),
    # ---- sums of a value
    mutant("a negative value takes from a sum", "amounts:amounts_of", edited(("np.clip(finite, 0, bound)",
           "np.minimum(finite, bound)")), ("test_each_cell_is_a_number_by_itself", 600)),
    mutant("a negative value takes from a sum, among cells", "amounts:amount_of",
           edited(("max(0, min(int(number), bound))", "min(int(number), bound)")),
           ("test_each_cell_is_a_number_by_itself", 600)),
    mutant("a value beyond the bound", "amounts:amounts_of", given(bound=2**40),
           ("test_each_cell_is_a_number_by_itself", 3)),
    mutant("halves rounded down", "amounts:amounts_of", edited((">= 0.5", "> 0.5")),
           "test_halves_are_rounded_up_wherever_floats_end"),
    mutant("a row of no value takes a step", "Rows.positions", edited(("self.amounts > 0", "self.amounts >= 0")),
           "test_what_is_of_no_value_takes_no_step_of_anybody"),
    mutant("no bound on what one has in a step", "SortedRows.capped_count",
           edited(("events=np.minimum(pairs.events, min(reading.step_cap, _INT64_MAX))", "events=pairs.events")),
           ("test_values_stay_beside_their_rows_whatever_the_identifiers", False), IN_MEMORY),
    mutant("amounts of rows off the grid", "capped_count:on_grid",
           edited(("amounts[(positions", "amounts[: np.count_nonzero((positions"),
                  ("reading.size)]", "reading.size))]")),
           ("test_values_stay_beside_their_rows_whatever_the_identifiers", False)),
    mutant("amounts in the order of the file", "sort_along", edited(("values[order]", "values")),
           ("test_values_stay_beside_their_rows_whatever_the_identifiers", True), "test_rows_and_what_is_sorted_along"),
    mutant("one of the rows that are folded", "batches:_sums",
           edited(("np.add.reduceat(amounts, firsts)", "amounts[firsts]")),
           ("test_a_file_that_is_folded_counts_as_all_of_its_rows", ".", ",")),
    mutant("a point between thousands is a decimal mark", "files:_with_points",
           edited(("text.translate(_COMMAS_AS_POINTS)", 'text.replace(",", ".")')),
           ("test_a_file_that_is_folded_counts_as_all_of_its_rows", ",", ".")),
    mutant("sums that wrap", "SortedRows.capped_count", edited(("counts[:] = np.minimum(counts, MOST_SUM)", "pass")),
           "test_sums_do_not_wrap_and_stay_at_a_limit"),
    mutant("totals that wrap", "Count.add_up", edited(("high < 2**31", "high < 2**99")),
           "test_sums_do_not_wrap_and_stay_at_a_limit"),
    mutant("groups of so many keys that sums wrap", "Reading._check_grouping", edited(("if self.is_sum:", "if False:")),
           "test_what_values_cannot_be_is_refused_by_name"),
    mutant("tiers of the bound, and noise of what is typical", "Tiers.weights",
           edited(("self.typical**2", "reading.step_cap**2")),
           ("test_nobody_moves_a_sum_further_than_stated", "tiers"), IN_MEMORY),
    mutant("noise of less than what is typical", "Tiers.influence",
           edited(("self.typical**2", "(self.typical - 1)**2")),
           ("test_nobody_moves_a_sum_further_than_stated", "tiers"), IN_MEMORY),
    mutant("entries of less than the norm", "tiers_influence", edited(("min(up_sqrt(square), linf", "min(0.5, linf")),
           ("test_nobody_moves_a_sum_further_than_stated", "tiers by units")),
    mutant("no bound on what one has in a step, in a database", "database:count",
           edited(("ibis.least(_sum(rows.amount), reading.step_cap)", "_sum(rows.amount)")),
           "test_sums_in_a_database_do_not_wrap"),
    mutant("what is missing has the bound, in a database", "database:_amount",
           edited(("_clamp(ibis.coalesce(column, 0), 0, bound)", "_clamp(column, 0, bound)")),
           "test_cells_in_a_database_are_the_numbers_that_they_are_in_memory"),
    mutant("sums that wrap, in a database", "database:_sum", given(is_large=False),
           "test_sums_in_a_database_do_not_wrap"),
    # ---- groups of keys
    mutant("a share of the norm forgotten", "Grouping.weights", edited(("share // SHARES", "SHARES // SHARES")),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "a city"), IN_MEMORY),
    mutant("weights of levels rounded up", "Grouping.weights", after(lambda weights: weights + 1),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "districts"), IN_MEMORY),
    mutant("weights of levels in another order", "Grouping.weights", after(lambda weights: weights[:, ::-1]),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "districts"), IN_MEMORY),
    mutant("a size of keys alone", "_sizes_by_level", given(levels=lambda levels: levels[:1] * len(levels)),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "mostly of the city"), IN_MEMORY),
    mutant("squares before the sums of groups", "_sizes_by_level", edited(
           ("sizes_of(sums, begins, 2, SHARES)", "sizes_of(events, _groups(people)[0], 2, SHARES)")),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "one tier"), IN_MEMORY),
    mutant("a size of groups of 64 bits", "_sizes_by_level", seeing(SHARES=1),
           ("test_sizes_of_groups_are_exact_whatever_the_events", 25_000, 80_000)),
    mutant("a group counted twice", "_add_weighed",
           edited(("events * np.repeat", "(1 + (level > 0)) * events * np.repeat")),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "districts"), IN_MEMORY),
    mutant("keys of no group", "Grouping.__post_init__", edited(("if missing :=", "if False and (missing :="),
           ("values()))):", "values())))):")), "test_what_groups_cannot_be_is_refused_by_name"),
    mutant("ends of tiers for a norm of one", "Tiers.weights", seeing(SHARES=1),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "gap"), IN_MEMORY),
    mutant("keys left out before groups are added up", "Reading._check_grouping", always(None),
           "test_what_groups_cannot_be_is_refused_by_name"),
    mutant("groups of a count with a cap", "_Capped.check_reading", always(None),
           "test_what_groups_cannot_be_is_refused_by_name"),
    mutant("who is replaced at groups moves as far as one who is removed", "grouped_influence",
           given(reach=lambda reach: reach._replace(replaced=False)),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "a city")),
    mutant("groups in a short period bounded by its steps", "grouped_influence", bounded_by_steps,
           ("test_nobody_moves_keys_and_groups_further_than_stated", "periods")),
    mutant("groups in one period of several", "grouped_influence",
           given(reach=lambda reach: reach._replace(periods=reach.periods[:1])),
           ("test_nobody_moves_keys_and_groups_further_than_stated", "periods")),
    mutant("a size of keys alone, in a database", "database:_by_level",
           edited(("(number, level, share, group)", "(number, level, share if level == 0 else 0, group)")), GROUPS),
    mutant("a share of the norm forgotten, in a database", "database:_by_level",
           edited(("(number, level, share, group)", "(number, level, 1, group)")), GROUPS),
    mutant("squares before the sums of groups, in a database", "database:_by_level",
           edited(('"step", "level", "share"]', '"step", "level", "share", sums.number.name("key")]')), GROUPS),
    mutant("the weight of another level, in a database", "database:_weighed",
           edited(("weighed.level == k", "weighed.level == levels - 1 - k")), GROUPS),
    # ---- distances
    mutant("replaced people cost as one removed", "count_influence", given(replaced=False),
           "test_replacing_reaches_twice_as_many_steps",
           ("test_norms_are_attained_and_never_exceeded", 3, 1, 2, True, 1)),
    mutant("ℓ2 without its root", "count_influence", after(lambda influence: replace(influence, l2=influence.linf)),
           ("test_norms_are_attained_and_never_exceeded", 4, 2, 1, False, 1)),
    mutant("influence ordered like tuples", "Influence.__le__",
           lambda sound, d, e: numbers(d) <= numbers(e) or sound(d, e),
           "test_incomparable_is_false_both_ways", "test_influences_compare_in_every_part"),
    mutant("group size ignored by the map", "subsampled:extremal_law",
           given(influence=lambda influence: replace(influence, individuals=min(influence.individuals, 1))),
           "test_groups_pay_quadratically_at_p_1"),
    mutant("group size lost in the filter", "filtered_influence",
           after(lambda influence: replace(influence, individuals=1)),
           "test_groups_pay_quadratically_at_p_1", "test_individuals_are_carried_through"),
    mutant("block law for kernels of every shape", "filtering:is_symmetric_decreasing", always(True),
           ("test_the_block_law_is_false_for_other_kernels", [2, 0, 1, 0, 0, 0], 2)),
    mutant("the envelope of taps left out", "filtering:envelope",
           lambda sound, taps: np.maximum(taps, np.roll(taps[::-1], 1))[: len(taps) // 2 + 1],
           "test_steps_need_not_be_as_close_as_they_may"),
    mutant("one neighbour too few", "filtering:row_sum", given(steps=lambda steps: steps - 1),
           ("test_no_set_of_steps_exceeds_the_influence", 8, 2, False), ("test_a_full_comb_attains_all_of_it", 12, 4)),
    mutant("one side of a step left out", "comb_sums",
           lambda sound, taps, gap, steps: combs(envelope(taps), gap, steps - steps // 2),
           ("test_no_set_of_steps_exceeds_the_influence", 8, 2, False),
           "test_no_comb_and_no_random_set_exceeds_the_influence_on_long_cycles"),
    mutant("the other side no nearer than the gap", "comb_sums",
           seeing(np=but(np, maximum=lambda nearest, rest: nearest + rest)),
           ("test_no_set_of_steps_exceeds_the_influence", 9, 4, False), ("test_a_full_comb_attains_all_of_it", 15, 5)),
    mutant("those replaced held apart as a whole", "count_influence",
           after(lambda influence: replace(influence, replaced=False)),
           ("test_no_set_of_steps_exceeds_the_influence", 8, 3, True)),
    mutant("those replaced work against each other behind any filter", "filtering:_halves", always(1),
           ("test_no_set_of_steps_exceeds_the_influence", 8, 3, True),
           "test_a_signed_filter_makes_those_replaced_work_together"),
    mutant("one series of a panel for all", "count_influence", one_series,
           ("test_separated::test_no_individual_in_a_panel_exceeds_the_influence", 4, 2, 2, False)),
    mutant("a larger gap is a larger influence", "Influence._is_separated_like",
           lambda sound, d, e: sound(replace(d, gap=e.gap), replace(e, gap=d.gap)),
           "test_a_larger_gap_is_a_smaller_influence", "test_the_order_is_that_of_the_sets_of_changes"),
    mutant("a smaller key cap is a larger influence", "Influence._is_separated_like",
           lambda sound, d, e: sound(replace(d, key_cap=e.key_cap), replace(e, key_cap=d.key_cap)),
           "test_a_smaller_key_cap_is_a_smaller_influence"),
    mutant("half of the steps of those replaced, where they left more", "count_influence",
           lambda sound, *a, **caps: replace(sound(*a, **caps), key_cap=caps.get("key_cap")),
           "test_where_half_of_the_steps_is_not_enough_nothing_is_said_of_halves"),
    # ---- scaling
    mutant("as many steps as the cap where all are kept", "count_influence", but_where_weighed(
        lambda influence, cap, step_cap: replace(influence, l0=cap)),
           ("test_nobody_exceeds_the_influence", "one series", False)),
    mutant("the majorant of the cap where all steps are kept", "count_influence", but_where_weighed(
        lambda influence, cap, step_cap: replace(influence, majorant=Majorant(np.full(cap, float(step_cap))))),
           ("test_nobody_exceeds_the_influence", "several events", True)),
    mutant("the sum of the cap where squares are scaled", "count_influence", but_where_weighed(
        lambda influence, cap, step_cap: replace(influence, l1=float(cap * step_cap))),
           ("test_nobody_exceeds_the_influence", "panel", False),
           "test_all_steps_count_and_weigh_as_those_of_the_cap"),
    mutant("who is replaced and scaled moves as far as one who is removed", "count_influence",
           edited(("step_cap**2 * l0_in_full)", "step_cap**2 * l0_in_full, halves)")),
           ("test_nobody_exceeds_the_influence", "several events", True)),
    mutant("who is replaced and scaled moves twice as far", "count_influence",
           edited(("step_cap**2 * l0_in_full)", "step_cap**2 * l0_in_full * halves)")),
           ("test_nobody_exceeds_the_influence", "several events", True)),
    mutant("the square of a rounded root", "count_influence",
           after(lambda influence: replace(influence, exact_square=None)),
           "test_all_steps_count_and_weigh_as_those_of_the_cap"),
    mutant("one period's squares for those of all", "Count.influence", given(periods=1),
           ("test_nobody_exceeds_the_influence", "uneven periods", False),
           ("test_nobody_exceeds_the_influence", "scales in periods", False)),
    mutant("a step too few in each total", "pooled_influence",
           edited(("-(-longest // reach.gap)", "longest // reach.gap")),
           ("test_nobody_exceeds_the_influence", "totals with gap", False)),
    mutant("who is replaced moves totals as far as one who is removed", "pooled_influence",
           edited(("2 if reach.replaced else 1", "1")),
           ("test_nobody_exceeds_the_influence", "totals of events", True)),
    mutant("one period's totals for those of all", "pooled_influence",
           given(reach=lambda reach: reach._replace(periods=reach.periods[:1]), totals=lambda numbers: numbers[:1]),
           ("test_nobody_exceeds_the_influence", "totals within periods", False)),
    mutant("as many totals as the cap", "pooled_influence",
           lambda sound, *a, **caps: replace(sound(*a, **caps), l0=caps["participation_cap"]),
           ("test_one_individual_moves_all_numbers_by_the_cap_at_most", {"participation_cap": 1, "per": 4},
            (3, 1, 1, 1)), ("test_nobody_exceeds_the_influence", "totals of a panel", False)),
    mutant("the level of another total", "total_by_step", edited(("periods).ravel()", "periods[::-1]).ravel()")),
           ("test_a_total_sets_the_level_of_its_part", "one", None, 4)),
    mutant("a level without the error of its total", "Series.with_total",
           edited(("ratios, values * shared", "ratios, 0 * shared")),
           ("test_a_total_sets_the_level_of_its_part", "panel", None, 4)),
    mutant("one scale alone", "tiers_influence", given(series=1),
           ("test_nobody_exceeds_the_influence", "two scales", False)),
    mutant("a weight too small", "tiers_influence", given(largest=lambda weight: weight / 2),
           ("test_nobody_exceeds_the_influence", "mostly fine", True)),
    mutant("a scale takes what others have", "tiers:_table",
           edited(("for later in range(len(steps) - 1, k, -1):", "for later in range(len(steps) - 1, k + 1, -1):")),
           ("test_weights_on_all_scales_keep_the_norm_together", 0.3, (4, 9), 90)),
    mutant("weights of scales to the nearest", "tiers:_table",
           edited(("math.isqrt(math.floor(unit * square))", "round(math.sqrt(unit * square))")),
           ("test_weights_on_all_scales_keep_the_norm_together", 0.3, (4, 9), 90)),
    mutant("the weights of a row's first number of steps", "tiers:_table",
           edited(("for end in ends]", "for end in [ends[0], *ends[:-1]]]")),
           ("test_weights_on_all_scales_keep_the_norm_together", 0.8, (20, 100, 101), 5000)),
    mutant("weights of those above a scale as of those at it", "tiers:_table",
           edited(("remainder(k, max(n, steps[k]))", "remainder(k, steps[k])")),
           ("test_weights_on_all_scales_keep_the_norm_together", 0.8, (4, 9), 90)),
    mutant("the sum of magnitudes passes as it is", "filtering:_single_influence",
           edited(("influence.l1_norm(), gain(kernel)", "influence.l1_norm(), Fraction(1)")),
           "test_behind_any_filter_the_sum_of_magnitudes_is_known"),
    mutant("a list of steps that lie apart that is cut short", "filtering:_separated_bound",
           given(total=lambda total: total / 2), ("test_a_full_comb_attains_all_of_it", 12, 4)),
    mutant("a smaller sum of magnitudes is a larger influence", "Influence.__le__",
           lambda sound, d, e: sound(replace(d, l1=e.l1), replace(e, l1=d.l1)),
           "test_a_smaller_sum_of_magnitudes_is_a_smaller_influence"),
    # ---- totals
    mutant("somebody is in one series of a group at a time", "influence:_level_influence",
           given(influence=lambda influence: replace(influence, key_cap=1)),
           ("test_no_individual_exceeds_the_influence_on_totals", "one total", False)),
    mutant("a norm of nothing where the largest entry is not known", "influence:_level_influence",
           given(influence=lambda i: replace(i, l2=math.inf) if i.linf == math.inf else i),
           "test_bounds_that_say_nothing_stay_such"),
    mutant("one half of those replaced in a total", "influence:_level_influence",
           seeing(np=but(np, repeat=lambda sums, halves: sums)),
           ("test_no_individual_exceeds_the_influence_on_totals", "one total", True)),
    mutant("one level of a tree for all", "totals_influence", given(levels=lambda levels: levels[:1]),
           "test_levels_add_up_and_individuals_stay",
           ("test_no_individual_exceeds_the_influence_on_totals", "a tree", False)),
    mutant("nested groups on one level", "Groups._place",
           after(lambda placed: placed | {"depths": (0,) * len(placed["depths"])}),
           ("test_no_individual_exceeds_the_influence_on_totals", "a tree", False)),
    mutant("groups that overlap", "Groups._place", seeing(len=lambda around: 1),
           ("test_groups_that_are_no_tree_of_the_panel", {"x": ["a", "b"], "y": ["b", "c", "d"]},
            ValueError, r"groups.*'y'.*'x'")),
    mutant("sums that are not exact", "make_totals",
           seeing(np=but(np, clip=lambda counts, low, high: np.clip(counts, 2 * low, 2 * high))),
           "test_sums_never_overflow"),
    mutant("NumPy's integers overflow", "_validate:integer",
           lambda sound, name, value, **limits: sound(name, value, **limits) and value,
           ("test_public_integers_become_those_of_python", np.int32)),
    # ---- arithmetic
    mutant("filter summed in float32", "circulant_product", seeing(np=but(np, convolve=in_32_bits)),
           "test_the_paths_agree_to_the_byte", "test_smoothed_values_are_exact_sums"),
    mutant("FFT without rounding", "_convolve_by_fourier", seeing(np=but(np, rint=lambda values: values)),
           "test_the_paths_agree_to_the_byte", ("test_no_other_blas_or_transform_changes_a_bit", False)),
    mutant("filter without its clamp", "circular_convolve", seeing(np=but(np, clip=lambda signal, low, high: signal)),
           "test_a_filter_is_exact_at_the_limit_of_what_it_passes"),
    # ---- sampling
    mutant("steps kept where something was counted", "make_part",
           edited(("steps = sample.draw()", "steps = np.flatnonzero(values)")),
           "test_the_sample_does_not_depend_on_the_signal"),
    mutant("mask fixed across releases", "sample_of",
           after(lambda sample: sample._replace(draw=functools.cache(sample.draw))),
           "test_every_release_samples_and_adds_noise_anew", "test_an_empty_sample_is_released_as_such"),
    mutant("mask from NumPy's global generator", "_keep_steps", seeing(os=SimpleNamespace(urandom=np.random.bytes)),
           "test_every_release_samples_and_adds_noise_anew"),
    mutant("mask drawn again when empty", "_keep_steps", never_empty, "test_an_empty_sample_is_released_as_such"),
    mutant("noise on all steps, accounted on some", "sample_of",
           lambda sound, p, name, size: sound(p, name, size)._replace(draw=lambda: np.arange(size)),
           "test_a_share_p_of_the_steps_is_kept", "test_an_empty_sample_is_released_as_such"),
    mutant("a fixed number of steps kept", "_keep_steps",
           lambda sound, size, below: np.sort(np.random.permutation(size)[: round(size * below / 2**53)]),
           "test_poisson_sampling_of_steps", "test_a_step_is_kept_when_its_coin_is_below_the_threshold"),
    mutant("one coin too many", "_keep_steps", given(threshold=lambda threshold: threshold + 1),
           "test_a_step_is_kept_when_its_coin_is_below_the_threshold"),
    mutant("probability not rounded up for the account", "Sampling.__post_init__",
           edited(("math.ceil(p * 2**COIN_BITS) / 2**COIN_BITS", "p")),
           "test_the_probability_is_rounded_up_to_the_coins_and_accounted_so",
           "test_a_programme_written_by_hand_states_the_probability_that_runs"),
    # ---- one step of each block
    mutant("some offsets more probable than others", "_keep_one_of_each",
           edited(("words[words <= np.uint64(2**64 - 1 - 2**64 % length)]", "words")),
           "test_the_offset_in_a_block_is_uniform_to_the_last_bit"),
    mutant("one offset for all blocks", "_keep_one_of_each", one_offset, "test_stratified_sampling_of_steps"),
    mutant("a step kept of the short block whatever its offset", "_keep_one_of_each", the_short_block_always,
           "test_stratified_sampling_of_steps"),
    mutant("the law of a Poisson sample's kept steps for a stratified one", "_kept_count_of_blocks",
           lambda sound, steps, blocks: KeptCount(steps, blocks.probability),
           "test_a_poisson_samples_exact_profile_is_no_bound",
           "test_tails_of_increasing_functions_hold_for_every_spread"),
    mutant("the even spread taken for the worst", "ExtremalLaw.refined", even_spread_alone,
           ("test_the_profile_is_that_of_the_worst_places", 8, 4, 4), "test_no_view_is_below_the_truth_at_random"),
    mutant("blocks with all their steps left out of the list", "sampling:spreads", seeing(min=lambda *_: 0),
           ("test_the_profile_is_that_of_the_worst_places", 8, 4, 5)),
    mutant("the short block left out of the list", "sampling:spreads", edited(("{0, blocks.short}", "{0}")),
           ("test_the_profile_is_that_of_the_worst_places", 5, 4, 4)),
    mutant("records of stratified samples with any steps", "Blocks.allow", always(True),
           "test_steps_that_blocks_cannot_keep_are_found_out"),
    # ---- noise
    mutant("noise scaled by p", "make_part", noise_scaled_by_p, ("test_noise_has_the_stated_scale_and_no_bias", 0.25)),
    mutant("NumPy's noise", "_add_noise", lambda sound, values, scale, exponent: np.random.normal(values, scale),
           "test_every_release_samples_and_adds_noise_anew", ("test_releases_lie_on_the_grid", 2.0 ** 20, 0),
           ("test_possible_outputs_do_not_tell_a_count", 0)),
    mutant("one chunk's noise for all chunks", "_add_noise", one_noise_for_all,
           ("test_noise_in_chunks_is_drawn_for_every_value_and_stays_in_place", 2)),
    mutant("chunks in the order in which they are ready", "_add_noise",
           after(lambda values: np.concatenate(chunks(values)[::-1])),
           ("test_noise_in_chunks_is_drawn_for_every_value_and_stays_in_place", 2)),
    mutant("noise of whole numbers", "design:noise_exponent", lambda sound, scale, bits: -bits,
           ("test_the_noise_grid_holds_the_signal_and_is_fine_beside_the_noise", 3.0, 0)),
    mutant("clamped after noise", "_add_noise", after(lambda values: np.maximum(values, 0.0)),
           ("test_noise_has_the_stated_scale_and_no_bias", 1.0)),
    mutant("scale not deflated for discrete noise", "PrivacyLoss._over_variance", seeing(DISCRETE_NOISE=1.0),
           "test_subsampled::test_profiles_pay_for_discrete_noise"),
    mutant("rounding to the grid not accounted", "_after_rounding", given(step=0.0),
           "test_rounding_of_arbitrary_floats_is_paid_for"),
    mutant("distance after rounding to the grid not rounded up", "_after_rounding", seeing(up=float),
           "test_distances_after_rounding_to_the_grid_are_rounded_up"),
    mutant("losses stated a thousandth too low", "check_covered", seeing(_TOLERANCE=1e-3),
           ("test_each_understatement_is_found_out", "a loss by a millionth")),
    mutant("a ledger entry written with the release, not before it", "Ledger._write", always(None),
           "test_an_entry_is_written_before_the_data_are_read_and_completed_before_they_leave"),
    mutant("a ledger without a lock", "Ledger.release", seeing(locked=lambda *_: contextlib.nullcontext(lambda: None)),
           "test_one_process_at_a_time"),
    mutant("a ledger that loses its last entries unnoticed", "read_chain", whatever_the_last_line_says,
           "test_an_edited_file_is_refused"),
    mutant("parameters that are chosen accounted for as fixed", "Terms.admits",
           given(self=lambda terms: terms._replace(order=None)),
           "test_noise_that_is_chosen_by_what_was_kept_does_not_exceed_the_budget"),
    mutant("planned releases not reserved", "Terms._with_reserved", lambda sound, terms, ran: ran,
           "test_beside_a_programme_there_is_room_by_the_bound_that_holds_for_anything"),
    # ---- accounting
    mutant("the root of ρ", "PrivacyLoss.zero_concentrated", after(lambda loss: (loss[0] ** 0.5, loss[1])),
           "test_everything_kept_is_the_gaussian_mechanism", "test_failure_probabilities_are_attained_tails"),
    mutant("δ′ off by one", "KeptCount.tail", given(k=lambda k: k + 1),
           "test_failure_probabilities_are_attained_tails"),
    mutant("δ′ dropped", "ExtremalLaw.quantile", after(lambda quantile: (quantile[0], 0.0)),
           "test_failure_probabilities_are_attained_tails"),
    mutant("δ dropped", "PrivacyLoss.epsilon_delta", after(lambda loss: (loss[0], 0.0)),
           "test_failure_probabilities_are_attained_tails"),
    # ---- accounting, second round
    mutant("lower tail forgotten when a lattice is trimmed", "laws:trim", without_its_lower_tail,
           ("test_no_mass_is_lost_where_tails_are_cut", [1.0] * 40, 0.5)),
    mutant("mass cut off of a summand forgotten", "laws:_sum", given(y=lambda y: y._replace(cut=0.0)),
           ("test_no_mass_is_lost_where_tails_are_cut", [1.0] * 20 + [0.3] * 20, 0.5)),
    mutant("multiples not rounded up", "multiples", seeing(up_array=lambda values: values),
           "test_multiples_are_exact_where_they_can_be"),
    mutant("squares of a group not rounded up", "laws:scaled", seeing(up_array=lambda values: values),
           "test_scaled_is_never_below_and_exact_where_it_can_be"),
    mutant("rest dropped at the top of the vertex", "vertex_sum", without_the_rest_at_the_top,
           "test_what_lies_beyond_the_window_is_at_the_largest_value"),
    mutant("lattice's unit without its margin", "kept_sum",
           after(lambda law: law._replace(values=law.values * (1 - 2.0**-50))),
           "test_the_largest_value_of_a_kept_sum_is_not_below_the_sum"),
    mutant("hinge rounded to nearest", "hinge", seeing(up=float), "test_the_hinge_is_rounded_up"),
    mutant("tangent not raised left of its point", "loss:_tangent",
           lambda sound, e, t, u: sound(e, t, u) - gaussian_delta_slope(e, t) * t * 2e-11,
           ("test_the_computed_tangent_is_above_the_tangent", 0.5, 4.0)),
    mutant("least scale not verified", "calibrate:calibrate", after(lambda factor: factor * (1 - 1e-10)),
           ("test_least_scale_is_the_least_and_is_enough", (0.5, 0.0001))),
    mutant("Rényi's quotient by its digits", "order_cost",
           lambda sound, alpha: (alpha - 1) * math.log((alpha - 1) / alpha) - math.log(alpha),
           "test_delta_where_the_quotient_lost_its_digits"),
    mutant("a zCDP curve not rounded up", "make_zCDP_to_renyiDP", seeing(up_fraction=float),
           "test_a_curve_is_never_below_the_zcdp_that_it_comes_from"),
    mutant("queryables under a converted loss", "_refuse_queryables", always(None),
           "test_a_queryable_is_not_handed_out_under_a_converted_loss"),
    mutant("loss distribution of a scale not deflated", "PrivacyLoss.distribution",
           given(self=lambda loss: replace(loss, scale=loss.scale / DISCRETE_NOISE)),
           "test_is_made_from_the_view_that_pays_for_discrete_noise"),
    mutant("loss distribution's hull lowered", "_lower_convex_hull", after(lambda hull: hull * (1 - 2.0**-50)),
           ("test_the_hull_is_never_below_the_exact_hull", 5)),
    mutant("influences printed to the nearest digit", "Influence.__repr__", seeing(printed_up="{:.6g}".format),
           "test_what_is_printed_is_not_below"),
    mutant("Fourier rounding halved", "_DyadicBasis.rounding", after(lambda rounding: rounding / 2),
           ("test_the_last_rounding_is_charged_and_must_be", 20, 1)),
    mutant("the paper's ℓ∞ floored", "_steps_and_factor", seeing(math=but(math, ceil=math.floor)),
           "test_a_difference_that_is_no_whole_number_counts_as_the_next"),
    mutant("the paper's individuals not joined", "_steps_and_factor", given(joined=False),
           "test_individuals_are_joined_without_a_filter"),
    mutant("FFT certified to a whole unit", "_certified_digit_bits", after(lambda bits: bits + 2),
           "test_the_certificate_leaves_three_quarters_of_a_unit_to_rounding"),
    # ---- joint accounting
    mutant("a release left out", "joint:joint_loss", given(losses=lambda losses: list(losses)[1:]),
           "test_no_release_is_left_out", "test_precisions_add_up"),
    mutant("variances added instead of precisions", "joint:joint_loss", variances_added,
           "test_precisions_add_up", ("test_two_unequal_releases", "one by one")),
    mutant("a law of fixed queries for adaptive ones", "joint:_convex",
           given(part=lambda part: part._replace(adaptive=False)),
           "test_a_query_that_follows_the_noise_of_an_earlier_one_is_covered_by_the_adaptive_loss_alone"),
    mutant("adaptive queries forgotten when nested", "joint:_parts",
           lambda sound, loss, adaptive, *factor: tuple(
               part._replace(adaptive=adaptive) for part in sound(loss, adaptive, *factor)),
           "test_a_query_that_follows_the_noise_of_an_earlier_one_is_covered_by_the_adaptive_loss_alone"),
    mutant("the mean kept where profiles bend down", "_split_for_profiles",
           lambda sound, below, place, step: np.maximum(place, 0.0),
           ("test_a_split_mass_never_has_a_lower_profile", 0.3)),
    mutant("tails split as if profiles were asked for", "_split_up", lambda sound, below, place, step: place,
           "test_quantiles_on_the_lattice_are_not_below"),
    mutant("a member of a composition left out", "_composition",
           seeing(joint=but(joint, joint_loss=without_the_first)), "test_no_member_is_left_out"),
    mutant("the stages before a member forgotten", "mechanism_of", seeing(call_of=without_stages),
           "test_distances_go_through_the_stages_before"),
    mutant("a stage of another maker that nobody mentions", "foreign_stage", always(None),
           ("test_a_stage_that_no_release_knows_of_is_not_charged_for_less_than_it_does", "in between")),
    mutant("a stage of another maker before the count", "foreign_stage",
           edited(('foreign_stage(stages[0], rows=rows) or ', "")), STATED),
    mutant("a stage of another maker between count and noise", "foreign_stage",
           edited((' or foreign_stage(stages[1], rows=rows)', "")), STATED),
    mutant("several individuals who all move one way", "make_lp_distance",
           edited(("influence.individuals > 1", "False")),
           ("test_the_map_is_the_largest_entry_of_all_individuals_together", 2)),
    mutant("those replaced move one way", "moves_one_way", always(True),
           "test_numbers_that_may_move_both_ways_are_not_monotonic"),
    mutant("the largest entry of one individual for that of all", "linf_of", edited(("influence.individuals * ", "")),
           ("test_the_map_is_the_largest_entry_of_all_individuals_together", 2)),
    mutant("a filter of rows that replaces people for one that keeps them", "keeps_individuals", always(True),
           "test_nothing_is_stated_where_one_replaced_may_be_two"),
    mutant("a bound on some group for one on the whole log", "individuals_of",
           edited(("len(bound.by) == 0 and ", "")), "test_the_bound_on_the_whole_log_counts"),
    mutant("a stage of another maker before a composition", "invocations", after(lambda found: found[:1]), STATED),
    mutant("a stage of another maker inside a composition", "_composition",
           edited(("mechanism.foreign is not None), None)", "False), None)")), STATED),
    mutant("a stage of another maker before a nested Context", "_invocations_of",
           edited((', *_invocations_of(getattr(queryable, "parent", None))', "")), STATED),
    mutant("a guarantee where nothing says what is invoked", "statement_of",
           edited((" or [None]", "")), "test_where_nobody_says_what_is_invoked_nothing_is_stated"),
    mutant("a δ′ that nobody mentions", "in_words", edited(("(second > 0)", "0")),
           "test_rho_with_a_sample_keeps_its_delta"),
    mutant("ρ alone of sampled steps", "check_room", always(None), "test_a_sample_needs_some_delta"),
    mutant("post-processing before the share is spent", "noise_part", lambda sound, measurement: (measurement, None),
           "test_members_of_a_query_are_processed_after_the_share_is_spent"),
    mutant("a queryable that processes before it spends", "spending_first", lambda sound, answer, parent: answer,
           "test_an_accountant_that_is_given_to_a_context_spends_first"),
    mutant("a nested Context for one individual of several", "Query.compositor",
           edited(("context.distance = outer.distance", "pass")), "test_nested_releases_name_the_whole_of_all"),
    mutant("a share of a nested Context for the whole", "Query.compositor",
           edited(("replace(outer.guarantee, parts=None)", "account.parent")),
           "test_nested_releases_name_the_whole_of_all"),
    mutant("queries of one count taken for fixed in advance", "documents:is_at_once",
           edited(("release.composition", "release.invocation")),
           "test_queries_of_which_one_follows_the_other_are_not_fixed_in_advance"),
    mutant("the mass beyond the lattice forgotten", "joint:_law_of_sum",
           seeing(_power=uncut(joint._power), _convolve=uncut(joint._convolve)),
           "test_no_mass_is_lost_on_the_lattice"),
    mutant("equal releases add no divergence", "JointLaw.log_moment", seeing(Counter=counted_once),
           "test_equal_releases_are_one_with_as_many_times_the_cap"),
    mutant("equal releases add nothing to a privacy filter", "FilteredLoss.of", seeing(Counter=counted_once),
           "test_divergences_add_up_from_above"),
    mutant("nothing kept of what has no bound", "JointLaw._sum",
           edited(("min(1.0, math.fsum(masses) * _MARGIN)", "0.0")), "test_what_is_never_enough_is_refused"),
    mutant("a scale where a bound was not seen to hold", "calibrate:_first_admitted",
           lambda sound, admits, factor: factor, "test_a_number_is_met_from_above_to_twelve_digits"),
    mutant("amplified loss at p = 1", "subsampled_gaussian:_loss",
           seeing(extremal_law=lambda influence, p, *more: extremal_law(influence, p * p / 2, *more)),
           "test_everything_kept_is_the_gaussian_mechanism", ("test_releases_are_as_private_as_claimed", "p = 1")),
    # ---- periods, panels, totals and ledgers, as they are now
    mutant("a last period that is longer, taken for two", "_in_periods", edited((" and lengths[-1] <= lengths[0]", "")),
           IN_DATABASE),
    mutant("a gap between the series of a panel, in a database", "database:_thinned",
           given(reading=without_series), IN_DATABASE),
    mutant("rows of other keys in the first series", "tables:_series", after(lambda series: np.maximum(series, 0)),
           "test_integer_keys"),
    mutant("the cap on steps in each series by itself", "count_influence",
           given(participation_cap=lambda cap: cap // 2),
           ("test_maps_of_panels_are_what_the_worst_individuals_do", None, False)),
    mutant("one series of groups for a count of one series", "Signal.single_series",
           edited(("(reading.is_once or reading.grouping is not None)", "reading.is_once")),
           "test_a_series_of_a_panel_with_groups_states_no_loss_of_its_own"),
    mutant("days with groups accounted for as steps of no calendar", "Design.law",
           edited(("tiers.last(reading) == tiers.last(count.reading)", "True")),
           ("test_of_days_with_groups_the_statement_is_that_of_the_map_which_the_busiest_do_not_exceed", 5)),
    mutant("periods of what somebody did in all, taken for one", "Design.law", given(periods=1),
           "test_the_loss_over_periods_is_less_than_that_of_as_many_individuals"),
    mutant("counts made elsewhere cost no day", "Terms._common_sets", without_counts_made_elsewhere,
           "test_a_count_made_elsewhere_is_in_every_period"),
    mutant("the smallest group of a level for all", "tree_influence", seeing(max=min),
           ("test_no_individual_exceeds_the_influence_on_totals", "two groups", False)),
    mutant("a series left out of its total", "totals:_membership", after(without_its_first_series),
           "test_totals_are_sums_of_the_very_counts"),
    mutant("what runs beside its plan counted once", "Terms._with_reserved",
           lambda sound, terms, ran: sound(terms, ran - Counter(terms.programme.designs)),
           "test_a_planned_release_that_is_made_again_counts_again"),
    mutant("a release with other noise than was entered", "ledger:_check_releases", whatever_the_noise,
           "test_a_release_with_other_noise_than_was_entered_is_withheld"),
    mutant("a release added unverified", "Ledger.add", edited(("    release.verify()\n", "")),
           "test_a_release_that_states_less_than_it_loses_is_not_added"),
    mutant("entries that are not chained", "book:_digest", given(previous=""),
           "test_an_entry_with_a_right_digest_of_its_own_is_refused"),
    mutant("other identifiers in one ledger", "book:_check_population", seeing(population_of=attrgetter("unit")),
           "test_other_identifiers_and_other_days_are_other_individuals"),
    mutant("days by other columns in one ledger", "documents:population_of", after(lambda found: found[:2]),
           "test_other_identifiers_and_other_days_are_other_individuals"),
    mutant("entries that cost nothing while they are open", "Book.ran", completed_alone,
           "test_a_measurement_that_fails_has_spent_and_can_be_resumed"),
    mutant("a thousandth above the budget", "Terms.admits", given(slack=1.001),
           ("test_what_would_exceed_the_budget_is_refused_before_data_are_read", True)),
    mutant("a least scale a thousandth above the budget", "Terms.cost_at",
           after(lambda delta: lambda scale: delta(scale) / 1.001),
           "test_the_least_scale_of_the_first_release_is_that_of_the_whole_budget"),
    mutant("a ρ that is not added up", "book:_rho", given(losses=lambda losses: losses[-1:]),
           "test_what_is_spent_is_the_sum_of_rho"),
    mutant("a programme of two for one", "Programme.__post_init__", edited((" or self.unit.individuals != 1", "")),
           "test_a_programme_is_of_one_individual_not_of_two"),
    mutant("a programme a thousandth above its budget", "Programme.__post_init__", seeing(_TOLERANCE=1.001),
           "test_a_budget_is_exceeded_by_a_ten_thousandth"),
    mutant("a programme that trusts data not to react", "Programme.loss", seeing(joint_loss=fixed_in_advance),
           "test_behind_filters_the_law_is_that_of_reacting_data_unless_promised"),
    mutant("documents that trust data not to react", "documents:_joint_points", seeing(joint_loss=fixed_in_advance),
           "test_behind_filters_the_joint_loss_holds_only_where_data_do_not_react"),
    # ---- private series, several who differ, totals and chains of entries, as they are now
    mutant("the noise of all scales for that of the last in counts", "last_tier", noise_of_all,
           ("test_interpolation_takes_the_last_scale_in_counts", {})),
    mutant("a level known three times as well", "levels:fit_level",
           after(lambda found: found._replace(variance=found.variance / 9)),
           ("test_the_level_is_known_as_well_as_stated_and_mostly_better_than_by_the_last_scale",
            lambda rng: np.append(np.full(20, 1344), rng.integers(1, 60, 3600)), 1344, 1.8)),
    mutant("a level that is never negative", "levels:fit_level",
           after(lambda found: found._replace(value=max(found.value, 0.0))),
           ("test_noise_of_either_sign_does_the_same_where_nobody_comes_often", 31, 0.0)),
    mutant("errors of keys whose levels do not add up", "PanelLevels.coupling", always(0.0),
           ("test_levels_of_a_panel_are_those_of_the_oracle", 31)),
    mutant("single events within the noise", "structural:_deviates", after(lambda found: 9 + np.abs(found)),
           ("test_there_are_no_single_events_in_noise", 2.0, 30.0)),
    mutant("the last tier of one series for that of a panel", "Reading.max_steps",
           lambda sound, reading: min(sound(reading), reading.period_length),
           ("test_the_last_tier_is_of_the_steps_that_gap_and_key_cap_leave", {}, 18_600, 607.6)),
    mutant("the last tier of a panel whatever gap and key cap leave", "Reading.max_steps",
           lambda sound, reading: reading.places,
           ("test_the_last_tier_is_of_the_steps_that_gap_and_key_cap_leave", {"key_cap": 1}, 744, 121.5)),
    mutant("bits for the steps that gap and key cap leave", "Places.own_bits",
           edited(("self.reading.places", "self.reading.max_steps")),
           "test_nobody_is_in_several_places_of_the_packed_rows"),
    mutant("a unit of two for one", "Reading.reach",
           edited(("distance * self.unit.individuals", "distance")), IN_MEMORY),
    mutant("the shortest of several periods", "Reading.reach",
           edited(("[:periods]", "[-periods:]")), ("test_nobody_exceeds_the_influence", "uneven periods", False)),
    mutant("several who move totals for one", "totals_influence",
           after(lambda influence: replace(influence, individuals=1)), IN_MEMORY),
    mutant("a key cap that draws nothing", "Count.is_drawn", edited(("self.reading.is_drawn or ", "")),
           "test_counts_that_draw_nothing_may_be_made_one_after_the_other"),
    mutant("values without noise", "Release._check_values", seeing(MIN_SCALE=math.inf),
           ("test_values_without_noise_are_refused", 3.0, np.arange(48.0))),
    mutant("a chain known by its length", "book:read_chain",
           edited(("not file.startswith(lines)", "len(file) < len(lines)")),
           "test_what_was_read_of_a_ledger_stays_in_it"),
    mutant("a chain of any number of entries", "book:read_chain",
           edited(("(digest, length) != (last[1].decode(), int(last[2]))", "digest != last[1].decode()")),
           "test_a_last_line_of_other_entries_is_refused"),
    # ---- what a ledger and a budget do, and what readers are told
    mutant("a ledger of fixed parameters that trusts data not to react", "book:_joint_loss_of",
           seeing(joint_loss=fixed_in_advance), "test_data_may_react_where_parameters_alone_are_fixed"),
    mutant("a ledger written without its lock", "Ledger._guard", edited(("check_lock()", "pass")),
           "test_nothing_is_written_without_the_lock"),
    mutant("the last entry, whether or not it is open", "ledger:_paying_entry",
           edited(("[entry for entry in paid if entry.released is None] or paid", "paid")),
           "test_an_open_entry_is_resumed_before_a_later_one_that_is_released"),
    mutant("a budget kept by its ε alone", "Budget.admits",
           edited(("loss.delta(self.epsilon) <= self.delta and ", "")),
           "test_a_budget_is_kept_in_both_forms_in_which_a_loss_is_stated"),
    mutant("a whole that is believed", "check_parent", always(None),
           ("test_a_whole_is_not_below_its_part", {"delta": 1e-6})),
    mutant("a whole of which each part is looked at alone", "documents:_verify",
           seeing(joint_loss=lambda losses, adaptivity: losses[0]),
           ("test_a_whole_is_not_below_its_part", {"delta": 1e-6})),
    mutant("a sentence that is believed", "documents:_reworded_sentences", always(()),
           "test_the_sentence_of_a_document_has_its_numbers"),
    mutant("a ledger of which anything is believed", "Ledger._check_parents", always(None),
           ("test_what_a_release_says_of_its_ledger_is_verified", True)),
    # ---- wholes by all of their parts, and weights of the largest, as they are now
    mutant("parts that say otherwise of their whole are of another", "documents:_names_of_parent",
           lambda sound, release: [replace(release.stated.parent, number=None)],
           ("test_parts_that_say_otherwise_of_their_whole_are_of_it", {}, {"loss": 1.001})),
    mutant("parts that two ledgers paid for are of two programmes", "documents:_names_of_parent",
           edited((", *planned]", "]")), "test_parts_that_several_ledgers_paid_for_are_of_one_programme"),
    mutant("a share of a Context is of one release", "documents:_has_one_parent",
           edited(("member.composition or id(member)", "id(member)")),
           "test_shares_of_a_context_are_of_it_whatever_they_are_spent_on"),
    mutant("equal Contexts are one", "documents:_has_one_parent", always(True),
           "test_shares_of_a_context_are_of_it_whatever_they_are_spent_on"),
    mutant("a number for parts of a programme that are of several releases", "ledger:_parent_of_entry",
           after(lambda whole: replace(whole, number=1)),
           ("test_parts_of_a_programme_name_it_in_the_same_words", 3)),
    mutant("who is beyond the last tier weighs as in it", "scaling:weights_of",
           edited(("np.flatnonzero(sizes > ends[-1])", "np.flatnonzero(sizes < 0)")), IN_MEMORY),
    mutant("a root rounded up beyond the last tier", "scaling:weights_of",
           edited(("np.sqrt(falling + 0.5)", "np.ceil(np.sqrt(falling))")), IN_MEMORY),
    mutant("the largest entry at groups of one unit", "influence:grouped_influence",
           edited(("linf=up_sqrt(square)", "linf=1.0")), IN_MEMORY),
    mutant("one entry of all keys and groups", "influence:grouped_influence", edited(("l0=entries", "l0=1")),
           IN_MEMORY),
    mutant("a norm of typical units for that of their squares", "Tiers.influence",
           edited(("self.first(last) * self.typical**2", "self.first(last) * self.typical")), IN_MEMORY),
    mutant("tiers of half of the last", "Tiers.table", given(last=lambda last: max(1, last // 2)), IN_MEMORY),
]
