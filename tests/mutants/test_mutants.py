"""Broken variants of the package's own code, each caught by tests of the ordinary suite.

A mutant is an edit of one function's source (:mod:`tests.mutants.mutate`), and the tests that must fail on it. They
are called as they are, first on the sound package, then on the broken one. docs/mutants.md holds the table, which
``python -m tests.mutants.test_mutants`` prints.
"""

import contextlib
import importlib
import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from tests.counting.tables import DuckDB
from tests.mutants.mutate import broken_code, find, mutated

# Of Ibis's own calls into DuckDB, when tables are made.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:fetch_arrow_table:DeprecationWarning", "ignore::opendp_timeseries.PeriodUnitWarning"
    ),
]

STRATIFIED = "accounting/test_stratified"
GUARANTEES = "mutants/test_guarantees"
GAUSSIAN = "plugin/test_subsampled_gaussian"
CAPPED, GAP = "counting/test_capped_count", "counting/test_gap"
CONVOLUTION = "plugin/test_circular_convolution"
INFLUENCE = "accounting/test_influence"
TOTALS, SUMS = "accounting/test_totals", "plugin/test_totals"
FILTERING, SEPARATED = "accounting/test_filtering", "accounting/test_separated"
LAWS, LOSS = "accounting/test_laws", "accounting/test_subsampled"
RENYI, PLD, JOINTLY = "accounting/test_renyi", "accounting/test_pld", "accounting/test_joint"


@dataclass(frozen=True)
class Caught:
    """A test of the ordinary suite, with the parameters it is called with."""

    file: str
    test: str
    parameters: tuple = ()

    def __call__(self) -> None:
        function = getattr(importlib.import_module("tests." + self.file.replace("/", ".")), self.test)
        names = list(inspect.signature(function).parameters)
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as files:
            fixtures: dict = {"monkeypatch": patch} if "monkeypatch" in names else {}
            if "tmp_path" in names:
                fixtures["tmp_path"] = Path(files.enter_context(tempfile.TemporaryDirectory()))
            if "backend" in names:
                fixtures["backend"] = DuckDB()
            if "log_space" in names:
                fixtures["log_space"] = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
            rest = [name for name in names if name not in fixtures]
            function(**fixtures, **dict(zip(rest, self.parameters, strict=True)))


@dataclass(frozen=True)
class Mutant:
    name: str
    target: str
    edits: tuple[tuple[str, str], ...]
    caught_by: tuple[Caught, ...]


JOINT = "accounting.joint:joint_loss"
COMPOSITION = "plugin/test_composition"
ADAPTIVE = "test_a_query_that_follows_the_noise_of_an_earlier_one_is_covered_by_the_adaptive_loss_alone"
COUNT, ENGINE = "plugin.participation_count", "counting.capped_count"
PEOPLE, INDIVIDUALS = "plugin.individual_count:make_individual_count", "plugin/test_individual_count"
PERIODS, UNIT = "counting/test_periods", "test_period_unit"
IN_MEMORY = Caught("counting/test_every_combination", "test_in_memory", (range(90),))
IN_DATABASE = Caught("counting/test_every_combination", "test_in_a_database", ((1, 27, 39, 48),))
SUBSAMPLED, MECHANISM = "accounting.subsampled", "plugin.subsampled_gaussian"
BY_ROW_ORDER = """\
    seen, first = {}, []
    for person, step in zip(identifiers.tolist(), steps.tolist()):
        mine = seen.setdefault(person, set())
        first.append(step in mine or len(mine) < caps.participation_cap)
        mine.update([step] if first[-1] else [])
    identifiers, steps = identifiers[np.array(first)], steps[np.array(first)]
"""


def mutant(name, target, *edits, by):
    return Mutant(name, target, edits, tuple(by))


MUTANTS = [
    # ---- periods
    mutant("one cap over all periods", "plugin.event_logs:event_log",
           ("period=adjacency.period", "period=None"),
           by=[Caught(GUARANTEES, "test_leaving_one_period_out_changes_only_what_was_done_in_it", (False,))]),
    mutant("one cap over all periods, in a database", "counting.database:count",
           ("_first(pairs, alone,", "_first(pairs, ['who'],"),
           by=[IN_DATABASE]),
    mutant("a gap that goes on into the next period", f"{ENGINE}:SortedRows._pairs",
           ("else _apart(pairs,", "else _apart(pairs._replace(people=pairs.people >> self.places.period_bits),"),
           by=[IN_MEMORY]),
    mutant("a gap that goes on into the next period, in a database", "counting.database:_thinned",
           ('["who", "period"]', '["who"]'),
           by=[IN_DATABASE]),
    mutant("days of UTC in place of the zone's", "grid.periods:_by_calendar",
           ("zone = parse_zone(period.zone)", "zone = parse_zone('UTC')"),
           by=[Caught(PERIODS, "test_periods_begin_where_the_clock_says", ("America/New_York",))]),
    mutant("a step in two periods", "grid.periods:_by_calendar", ("if across.any()", "if False"),
           by=[Caught(PERIODS, "test_a_step_of_seven_hours_is_in_two_days")]),
    mutant("periods in one zone, times in another", "grid.periods:_by_calendar",
           ("grid.zone != period.zone or ", ""),
           by=[Caught(PERIODS, "test_periods_are_read_on_the_clock_of_the_grid")]),
    mutant("reach of the shortest period", "grid.periods:_on_grid", ("[::-1]", ""),
           by=[Caught(UNIT, "test_the_cap_is_clamped_to_the_longest_period")]),
    mutant("a gap that leaves fewer steps in a period", "accounting.influence:_largest_change",
           ("-(-steps // gap)", "steps // gap"),
           by=[Caught(UNIT, "test_maps_are_what_the_worst_individuals_do", (5, 2, False))]),
    mutant("all periods cost what one does", "design.provenance:Provenance.influence", ("[:periods]", "[:1]"),
           by=[Caught(UNIT, "test_maps_are_what_the_worst_individuals_do", (5, 2, False))]),
    mutant("a gap between periods", "accounting.influence:count_influence", ("len(periods) <= 1", "periods"),
           by=[Caught(UNIT, "test_a_gap_does_not_hold_between_periods")]),
    mutant("periods where nobody asked for them", "plugin.spaces:adjacency_of", ("if periods", "if True"),
           by=[Caught(UNIT, "test_counts_that_do_not_know_of_periods_refuse_them")]),
    mutant("a period in the words of a person", "design.provenance:Adjacency.of",
           ("if self.period is not None", "if False"),
           by=[Caught(UNIT, "test_the_unit_is_said_wherever_the_guarantee_is")]),
    mutant("two units in one ledger", "ledger.book:check_unit",
           ("found != ledger", "found.replaced != ledger.replaced"),
           by=[Caught(UNIT, "test_a_ledger_is_of_one_unit")]),
    mutant("a long release that costs its first day alone", "ledger.book:Terms._at_once",
           ("span[0] <= at <= span[1]", "span[0] == at"),
           by=[Caught(UNIT, "test_each_day_pays_for_the_releases_that_it_is_in", (True, False))]),
    mutant("a release of its first day alone", "grid.periods:_by_calendar",
           ("int(begins[-1]) // SECOND", "int(begins[0]) // SECOND"),
           by=[Caught(PERIODS, "test_periods_begin_where_the_clock_says", ("America/New_York",)),
               Caught(UNIT, "test_each_day_pays_for_the_releases_that_it_is_in", (True, False))]),
    mutant("somebody replaced who is in one day alone", "ledger.book:Terms._at_once",
           ("self.adjacency.replaced or ", ""),
           by=[Caught(UNIT, "test_each_day_pays_for_the_releases_that_it_is_in", (True, True))]),
    # ---- counting
    mutant("no cap on steps", f"{ENGINE}:_add_pairs", ("over = lengths > caps.participation_cap", "over = lengths < 0"),
           by=[Caught(GUARANTEES, "test_the_caps_are_enforced_whatever_one_person_does"),
               Caught(CAPPED, "test_removing_anyone_leaves_everyone_else_as_they_were")]),
    mutant("no cap on events in a step", f"{ENGINE}:_add_pairs", ("np.minimum(events, caps.step_cap)", "events"),
           by=[Caught(GUARANTEES, "test_the_caps_are_enforced_whatever_one_person_does")]),
    mutant("cap by row order", f"{ENGINE}:capped_count",
           ("    return SortedRows", BY_ROW_ORDER + "    return SortedRows"),
           by=[Caught(GUARANTEES, "test_the_order_of_the_rows_does_not_matter"),
               Caught(CAPPED, "test_removing_anyone_leaves_everyone_else_as_they_were")]),
    mutant("cap per event", f"{ENGINE}:_distinct", ("firsts = _firsts(rows)", "firsts = np.arange(rows.size)"),
           by=[Caught(GUARANTEES, "test_the_caps_are_enforced_whatever_one_person_does"),
               IN_MEMORY]),
    mutant("one stream of random numbers for all people", f"{ENGINE}:_order",
           ("_mix(words(people, key) ^ first)", "_mix(np.arange(people.size, dtype=np.uint64) ^ first)"),
           by=[Caught(GUARANTEES, "test_leaving_one_out_changes_only_what_was_theirs", (False,)),
               Caught(CAPPED, "test_removing_anyone_leaves_everyone_else_as_they_were")]),
    mutant("coded identifiers decide", f"{ENGINE}:label_words",
           ("text_words(map(names.__getitem__, numbers.tolist()), key)", "numbers.view(np.uint64)"),
           by=[Caught(GUARANTEES, "test_leaving_one_out_changes_only_what_was_theirs", (True,))]),
    mutant("unkeyed hash", f"{ENGINE}:_order", ("hashlib.blake2b(key,", "hashlib.blake2b(b'',"),
           by=[Caught(GUARANTEES, "test_every_release_chooses_anew_whom_to_count_where"),
               Caught(CAPPED, "test_another_key_keeps_other_steps")]),
    mutant("key reused", f"{COUNT}:fresh_key", ("secrets.token_bytes(16)", "bytes(16)"),
           by=[Caught(GUARANTEES, "test_every_release_chooses_anew_whom_to_count_where")]),
    mutant("key from NumPy's global generator", f"{COUNT}:fresh_key",
           ("secrets.token_bytes(16)", "np.random.bytes(16)"),
           by=[Caught(GUARANTEES, "test_every_release_chooses_anew_whom_to_count_where")]),
    mutant("counts in 16 bits", f"{ENGINE}:_add_pairs",
           ("np.add.at(counts, steps, events)",
            "np.add.at(counts, steps, events)\n    counts[:] = counts.astype(np.int16)"),
           by=[Caught(GUARANTEES, "test_counts_do_not_wrap_and_people_do_not_merge")]),
    mutant("identifiers in 32 bits", f"{ENGINE}:_people",
           ("    if fits(", "    identifiers = identifiers.astype(np.int32)\n    if fits("),
           by=[Caught(GUARANTEES, "test_counts_do_not_wrap_and_people_do_not_merge")]),
    mutant("identifiers through floats", f"{ENGINE}:_people",
           ("    if fits(", "    identifiers = identifiers.astype(float).astype(np.int64)\n    if fits("),
           by=[Caught(GUARANTEES, "test_counts_do_not_wrap_and_people_do_not_merge")]),
    mutant("an individual at the limit of packed rows merges with another", f"{ENGINE}:fits",
           ("int(identifiers.max()) < limit", "int(identifiers.max()) <= limit"),
           by=[Caught(GUARANTEES, "test_people_at_the_limits_of_packed_rows_do_not_merge", (False,))]),
    mutant("a chunk cut inside an individual", f"{ENGINE}:_chunks",
           ("packed[stop - 1] | np.int64(2**bits - 1)", "packed[stop - 1]"),
           by=[Caught(GUARANTEES, "test_individuals_are_never_cut", (20,)),
               IN_MEMORY]),
    mutant("a chunk cut before an individual's last step", f"{ENGINE}:_chunks", ('side="right"', 'side="left"'),
           by=[Caught(GUARANTEES, "test_individuals_are_never_cut", (32,))]),
    mutant("individuals counted once a row", PEOPLE,
           ("participation_cap=cap, step_cap=1)", "participation_cap=cap, step_cap=9)"),
           by=[Caught(INDIVIDUALS, "test_integer_steps_and_identifiers_of_every_width")]),
    mutant("no cap on the keys of an individual", PEOPLE,
           ("(layout.size, participation_cap=cap,", "(layout.size, participation_cap=layout.size,"),
           by=[Caught(INDIVIDUALS, "test_neighbours_are_as_near_as_the_maps_say", (2,))]),
    mutant("the keys of who comes in the place of another forgotten", PEOPLE,
           ("adjacency=adjacency,", "adjacency=adjacency._replace(replaced=False),"),
           by=[Caught(INDIVIDUALS, "test_maps_are_the_worst_that_people_can_do", (True,)),
               Caught(INDIVIDUALS, "test_neighbours_are_as_near_as_the_maps_say", (2,))]),
    mutant("one individual for a halved distance", PEOPLE,
           ("adjacency=adjacency,", "adjacency=adjacency._replace(individuals=1),"),
           by=[Caught(INDIVIDUALS, "test_a_distance_between_frames")]),
    mutant("people outside of the period counted", "counting.tables:_read",
           ("np.minimum(steps, 0)", "np.zeros_like(steps)"),
           by=[Caught(INDIVIDUALS, "test_integer_steps_and_identifiers_of_every_width")]),
    mutant("a gap that ends with the grid", "counting.gap:kept_apart", ("<= cycle - gap", "< cycle"),
           by=[Caught(GAP, "test_what_is_left_of_all_sets_of_steps_is_apart_and_begins_with_the_first"),
               Caught(GAP, "test_removing_anyone_leaves_everyone_else_as_they_were")]),
    mutant("a gap from the last step seen, kept or not", "counting.gap:_kept_on_line", ("if long.any():", "if False:"),
           by=[Caught(GAP, "test_what_is_left_of_all_sets_of_steps_is_apart_and_begins_with_the_first"),
               Caught(GAP, "test_first_come_then_rest", ([0, 2, 4, 6, 8], 3, [0, 4, 8]))]),
    mutant("a gap between the series of a panel", f"{ENGINE}:_apart",
           ("_firsts(pairs.people, series)", "_firsts(pairs.people)"),
           by=[Caught(GAP, "test_every_series_has_a_gap_of_its_own")]),
    mutant("a gap between people", f"{ENGINE}:_apart", ("_firsts(pairs.people, series)", "_firsts(series)"),
           by=[Caught(GAP, "test_people_do_not_wait_for_each_other")]),
    mutant("no cap on keys", f"{ENGINE}:_in_few_series", ("ranks >= key_cap", "ranks > key_cap"),
           by=[IN_MEMORY]),
    mutant("a cap on keys over all people at a step", f"{ENGINE}:_in_few_series",
           ("moments = numbers * cycle + pairs.steps % cycle", "moments = pairs.steps % cycle"),
           by=[IN_MEMORY]),
    mutant("keys are chosen by the hash that chooses steps", "counting.layout:key_of_choice",
           ("hashlib.blake2b(key[:64], digest_size=16, person=b\"key_cap\").digest()", "key"),
           by=[IN_MEMORY]),
    mutant("no cap on keys in a database", "counting.database:_first", ("ranked.rank < cap", "ranked.rank <= cap"),
           by=[IN_DATABASE]),
    mutant("a time of a step of uneven length is in two", "counting.database:_looked_up",
           ("rows.step >= steps.low, rows.step < steps.high", "rows.step < steps.high"),
           by=[IN_DATABASE]),
    mutant("a gap that ends with the grid, in a database", "counting.database:_thinned",
           ("pairs.behind <= layout.cycle - gap", "pairs.behind >= 0"),
           by=[IN_DATABASE]),
    mutant("a gap from the last step seen, in a database", "counting.database:_thinned", (".union(found)", ""),
           by=[IN_DATABASE]),
    mutant("missing identifiers are one person", "counting.tables:read_positions",
           ("if rows.nobody is not None and rows.nobody.any():", "if False:"),
           by=[Caught(GUARANTEES, "test_a_missing_identifier_is_nobody")]),
    mutant("objects are asked for their text", "counting.identifiers:identifier_text",
           ("kind = type(value)", "kind = type(value := str(value))"),
           by=[Caught("test_robustness", "test_what_is_no_name_is_nobody_and_is_not_asked")]),
    mutant("another word for an identifier in another type", "counting.identifiers:_word",
           ("if len(text) <= 20 and", "if False and"),
           by=[Caught("counting/test_one_reading", "test_an_identifier_keeps_the_same_steps_in_every_type",
                      ("integers",))]),
    mutant("numbers among text are nobody", "counting.tables:_Names.number",
           ("-1 if other is None else numbers[other]", "-1"),
           by=[Caught("counting/test_one_reading", "test_one_text_among_a_thousand_integers", (False, "x"))]),
    mutant("whole floating-point numbers are other people", "counting.identifiers:_float",
           ("int(number) if number.is_integer() else number", "number"),
           by=[Caught("counting/test_one_reading", "test_a_whole_number_is_one_individual_however_it_is_written")]),
    mutant("names that are not UTF-8 merge", "counting.files:read_csv_log", ('"surrogateescape"', '"replace"'),
           by=[Caught("test_robustness", "test_names_that_are_not_utf8_stay_different_people")]),
    mutant("times off the grid count at its ends", f"{ENGINE}:pack",
           ("on_grid = (steps >= 0) & (steps < places.size)",
            "steps = np.clip(steps, 0, places.size - 1)\n    on_grid = steps >= 0"),
           by=[Caught(CAPPED, "test_rows_off_the_grid_are_dropped")]),
    # ---- distances
    mutant("replaced people cost as one removed", "accounting.influence:_largest_change",
           ("min(2 * cap, size) if replaced else cap", "cap"),
           by=[Caught(GUARANTEES, "test_replacing_reaches_twice_as_many_steps"),
               Caught(INFLUENCE, "test_norms_are_attained_and_never_exceeded", (3, 1, 2, True, 1))]),
    mutant("ℓ2 without its root", "accounting.influence:count_influence",
           ("up_sqrt(per_step**2 * steps)", "up_sqrt(per_step**2)"),
           by=[Caught(INFLUENCE, "test_norms_are_attained_and_never_exceeded", (4, 2, 1, False, 1))]),
    mutant("influence ordered like tuples", "accounting.influence:Influence.__le__",
           ("return (\n", "return self._key()[:4] <= other._key()[:4] or (\n"),
           by=[Caught(INFLUENCE, "test_incomparable_is_false_both_ways"),
               Caught(GUARANTEES, "test_influences_compare_in_every_part")]),
    mutant("group size ignored by the map", f"{SUBSAMPLED}:extremal_law",
           ("k = influence.individuals", "k = min(influence.individuals, 1)"),
           by=[Caught(GUARANTEES, "test_groups_pay_quadratically_at_p_1")]),
    mutant("group size lost in the filter", "accounting.filtering:filtered_influence",
           ("individuals=influence.individuals)", "individuals=1)"),
           by=[Caught(GUARANTEES, "test_groups_pay_quadratically_at_p_1"),
               Caught(FILTERING, "test_individuals_are_carried_through")]),
    mutant("block law for kernels of every shape", "accounting.filtering:_carried",
           (" and is_symmetric_decreasing(kernel.numerators)", ""),
           by=[Caught(FILTERING, "test_the_block_law_is_false_for_other_kernels", ([2, 0, 1, 0, 0, 0], 2))]),
    mutant("the envelope of taps left out", "accounting.separated:envelope",
           ("np.maximum.accumulate(inwards)", "inwards"),
           by=[Caught(SEPARATED, "test_steps_need_not_be_as_close_as_they_may")]),
    mutant("one neighbour too few", "accounting.separated:row_sum", ("np.arange(1, steps)", "np.arange(1, steps - 1)"),
           by=[Caught(SEPARATED, "test_no_set_of_steps_exceeds_the_influence", (8, 2, False)),
               Caught(SEPARATED, "test_a_full_comb_attains_all_of_it", (12, 4))]),
    mutant("one side of a step left out", "accounting.separated:comb_sums",
           (" + _combs(weights, gap, steps // 2)[opposite]", ""),
           by=[Caught(SEPARATED, "test_no_set_of_steps_exceeds_the_influence", (8, 2, False)),
               Caught(SEPARATED, "test_no_comb_and_no_random_set_exceeds_the_influence_on_long_cycles")]),
    mutant("the other side no nearer than the gap", "accounting.separated:comb_sums",
           ("np.maximum(nearest, gap - nearest)", "np.full_like(nearest, gap)"),
           by=[Caught(SEPARATED, "test_no_set_of_steps_exceeds_the_influence", (9, 4, False)),
               Caught(SEPARATED, "test_a_full_comb_attains_all_of_it", (15, 5))]),
    mutant("those replaced held apart as a whole", "accounting.influence:count_influence",
           ("replaced=replaced,\n        key_cap=key_cap if", "replaced=False,\n        key_cap=key_cap if"),
           by=[Caught(SEPARATED, "test_no_set_of_steps_exceeds_the_influence", (8, 3, True))]),
    mutant("those replaced work against each other behind any filter", "accounting.filtering:_halves",
           ("2 if", "1 if"),
           by=[Caught(SEPARATED, "test_no_set_of_steps_exceeds_the_influence", (8, 3, True)),
               Caught(SEPARATED, "test_a_signed_filter_makes_those_replaced_work_together")]),
    mutant("one series of a panel for all", "accounting.influence:_largest_change",
           ("series * min(", "1 * min("),
           by=[Caught(SEPARATED, "test_no_individual_in_a_panel_exceeds_the_influence", (4, 2, 2, False))]),
    mutant("a larger gap is a larger influence", "accounting.influence:Influence._lies_apart_as",
           ("self.gap >= other.gap", "self.gap <= other.gap"),
           by=[Caught(SEPARATED, "test_a_larger_gap_is_a_smaller_influence"),
               Caught(SEPARATED, "test_the_order_is_that_of_the_sets_of_changes")]),
    mutant("a smaller key cap is a larger influence", "accounting.influence:Influence._lies_apart_as",
           ("self.key_cap <= other.key_cap", "self.key_cap >= other.key_cap"),
           by=[Caught(TOTALS, "test_a_smaller_key_cap_is_a_smaller_influence")]),
    mutant("half of the steps of those replaced, where they left more", "accounting.influence:_largest_change",
           ("not replaced or 2 * cap <= size", "True"),
           by=[Caught(TOTALS, "test_where_half_of_the_steps_is_not_enough_nothing_is_said_of_halves")]),
    mutant("somebody is in one series of a group at a time", "accounting.totals:_of_level",
           ("level.largest if influence.key_cap is None else min(level.largest, influence.key_cap)", "1"),
           by=[Caught(TOTALS, "test_no_individual_exceeds_the_influence_on_totals", ("one total", False))]),
    mutant("a norm of nothing where the largest entry is not known", "accounting.totals:_of_level",
           ("influence.l2 == math.inf", "math.inf in (influence.l2, influence.linf)"),
           by=[Caught(TOTALS, "test_bounds_that_say_nothing_stay_such")]),
    mutant("one half of those replaced in a total", "accounting.totals:_of_level",
           ("halves = 2 if influence.replaced else 1", "halves = 1"),
           by=[Caught(TOTALS, "test_no_individual_exceeds_the_influence_on_totals", ("one total", True))]),
    mutant("one level of a tree for all", "accounting.totals:totals_influence",
           ("each = [_of_level(influence, level, steps) for level in levels]",
            "each = [_of_level(influence, level, steps) for level in levels[:1]]"),
           by=[Caught(TOTALS, "test_levels_add_up_and_individuals_stay"),
               Caught(TOTALS, "test_no_individual_exceeds_the_influence_on_totals", ("a tree", False))]),
    mutant("nested groups on one level", "design.groups:Groups._place", ("depths[up] + 1", "depths[up]"),
           by=[Caught(TOTALS, "test_no_individual_exceeds_the_influence_on_totals", ("a tree", False))]),
    mutant("groups that overlap", "design.groups:Groups._place", ("len(around) > 1", "len(around) > 9"),
           by=[Caught(SUMS, "test_groups_that_are_no_tree_of_the_panel",
                      ({"x": ["a", "b"], "y": ["b", "c", "d"]}, ValueError, "'y' overlaps 'x'"))]),
    mutant("sums that overflow", "plugin.totals:make_totals", ("2**53 //", "2**63 //"),
           by=[Caught(SUMS, "test_sums_never_overflow")]),
    mutant("NumPy's integers overflow", "_validate:integer", ("    return number", "    return value"),
           by=[Caught(GUARANTEES, "test_public_integers_become_those_of_python", (np.int32,))]),
    # ---- arithmetic
    mutant("filter summed in float32", "accounting.circulant:circulant_product",
           ("np.convolve(unrolled, arc, mode=\"valid\")",
            "np.convolve(unrolled.astype(np.float32), arc.astype(np.float32), mode='valid').astype(float)"),
           by=[Caught(CONVOLUTION, "test_the_paths_agree_to_the_byte"),
               Caught(GUARANTEES, "test_smoothed_values_are_exact_sums")]),
    mutant("FFT without rounding", "accounting.circulant:_by_fourier",
           ("total = np.zeros(size, dtype=np.int64)", "total = np.zeros(size)"),
           ("total += np.rint(part).astype(np.int64) << place * digit_bits",
            "total += part * 2.0 ** (place * digit_bits)"),
           by=[Caught(CONVOLUTION, "test_the_paths_agree_to_the_byte"),
               Caught("test_floating_point", "test_no_other_blas_or_transform_changes_a_bit", (False,))]),
    mutant("filter without its clamp", "plugin.circular_convolution:circular_convolve",
           ("np.clip(signal, -clamp, clamp)", "signal"),
           by=[Caught(GUARANTEES, "test_a_filter_is_exact_at_the_limit_of_what_it_passes")]),
    # ---- sampling
    mutant("steps kept where something was counted", f"{MECHANISM}:make_subsampled_gaussian",
           ("kept = sample.draw()", "kept = np.flatnonzero(values)"),
           by=[Caught(GAUSSIAN, "test_the_sample_does_not_depend_on_the_signal")]),
    mutant("mask fixed across releases", f"{MECHANISM}:make_subsampled_gaussian",
           ("    # Close over:\n", "    fixed = sample.draw()\n"),
           ("        kept = sample.draw()\n", "        kept = fixed\n"),
           by=[Caught(GUARANTEES, "test_every_release_samples_and_adds_noise_anew"),
               Caught(GAUSSIAN, "test_an_empty_sample_is_released_as_such")]),
    mutant("mask from NumPy's global generator", f"{MECHANISM}:_keep_steps",
           ("os.urandom(8 * size)", "np.random.bytes(8 * size)"),
           by=[Caught(GUARANTEES, "test_every_release_samples_and_adds_noise_anew")]),
    mutant("mask drawn again when empty", f"{MECHANISM}:_keep_steps",
           ("return np.flatnonzero(coins < np.uint64(threshold))",
            "kept = np.flatnonzero(coins < np.uint64(threshold))\n"
            "    return kept if len(kept) else _keep_steps(size, threshold)"),
           by=[Caught(GAUSSIAN, "test_an_empty_sample_is_released_as_such")]),
    mutant("noise on all steps, accounted on some", f"{MECHANISM}:make_subsampled_gaussian",
           ("kept = sample.draw()", "kept = np.arange(signal.size)"),
           by=[Caught(GUARANTEES, "test_a_share_p_of_the_steps_is_kept"),
               Caught(GAUSSIAN, "test_an_empty_sample_is_released_as_such")]),
    mutant("a fixed number of steps kept", f"{MECHANISM}:_keep_steps",
           ("np.flatnonzero(coins < np.uint64(threshold))",
            "np.sort(np.argsort(coins)[: round(size * threshold / 2**53)])"),
           by=[Caught(GAUSSIAN, "test_poisson_sampling_of_steps"),
               Caught(GAUSSIAN, "test_a_step_is_kept_when_its_coin_is_below_the_threshold")]),
    mutant("one coin too many", f"{MECHANISM}:_keep_steps", ("coins < np", "coins <= np"),
           by=[Caught(GAUSSIAN, "test_a_step_is_kept_when_its_coin_is_below_the_threshold")]),
    mutant("probability not rounded up for the account", f"{MECHANISM}:sampling_threshold",
           ("threshold / 2**_COIN_BITS", "probability"),
           by=[Caught(GAUSSIAN, "test_the_probability_is_rounded_up_to_the_coins_and_accounted_so")]),
    # ---- one step of each block
    mutant("some offsets more probable than others", f"{MECHANISM}:_keep_one_of_each",
           ("words[words <= np.uint64(2**64 - 1 - 2**64 % length)]", "words"),
           by=[Caught(GAUSSIAN, "test_the_offset_in_a_block_is_uniform_to_the_last_bit")]),
    mutant("one offset for all blocks", f"{MECHANISM}:_keep_one_of_each",
           ("offsets.astype(np.int64)", "offsets.astype(np.int64)[0]"),
           by=[Caught(GAUSSIAN, "test_stratified_sampling_of_steps")]),
    mutant("a step kept of the short block whatever its offset", f"{MECHANISM}:_keep_one_of_each",
           ("steps[steps < blocks.size]", "np.minimum(steps, blocks.size - 1)"),
           by=[Caught(GAUSSIAN, "test_stratified_sampling_of_steps")]),
    mutant("the law of a Poisson sample's kept steps for a stratified one", f"{SUBSAMPLED}:_kept_of_blocks",
           ("return Kept(trials, probability, least=-(-steps // blocks.length))",
            "return Kept(steps, blocks.probability)"),
           by=[Caught(STRATIFIED, "test_a_poisson_samples_exact_profile_is_no_bound"),
               Caught(STRATIFIED, "test_tails_of_increasing_functions_hold_for_every_spread")]),
    mutant("the even spread taken for the worst", f"{SUBSAMPLED}:ExtremalLaw.refined",
           ("worst = worst_spreads(*self.attained)",
            "worst, bound = None, float(np.sum(weights * function(values)))"),
           by=[Caught(STRATIFIED, "test_the_profile_is_that_of_the_worst_places", (8, 4, 4)),
               Caught(STRATIFIED, "test_no_view_is_below_the_truth_at_random")]),
    mutant("blocks with all their steps left out of the list", "accounting.stratified:spreads",
           ("range(min(steps // blocks.length, blocks.full) + 1)", "range(1)"),
           by=[Caught(STRATIFIED, "test_the_profile_is_that_of_the_worst_places", (8, 4, 5))]),
    mutant("the short block left out of the list", "accounting.stratified:spreads",
           ("for in_short in {0, blocks.short}:", "for in_short in {0}:"),
           by=[Caught(STRATIFIED, "test_the_profile_is_that_of_the_worst_places", (5, 3, 4))]),
    mutant("records of stratified samples with any steps", "accounting.sampling:Blocks.allow",
           ("return bool(", "return True or bool("),
           by=[Caught("test_record", "test_steps_that_a_design_cannot_keep_are_found_out")]),
    # ---- noise
    mutant("noise scaled by p", f"{MECHANISM}:make_subsampled_gaussian",
           ("_add_noise(exact, scale, exponent)", "_add_noise(exact, scale * sample.probability, exponent)"),
           by=[Caught(GAUSSIAN, "test_noise_has_the_stated_scale_and_no_bias", (0.25,))]),
    mutant("NumPy's noise", f"{MECHANISM}:_add_noise",
           ("noise(chunk)", "np.random.normal(chunk, scale)"),
           by=[Caught(GUARANTEES, "test_every_release_samples_and_adds_noise_anew"),
               Caught(GAUSSIAN, "test_releases_lie_on_the_grid", (2.0**20, 0)),
               Caught("test_floating_point", "test_possible_outputs_do_not_tell_a_count", (0,))]),
    mutant("one chunk's noise for all chunks", f"{MECHANISM}:_add_noise",
           ("np.concatenate(list(pool.map(noised, chunks)))",
            "values + np.resize(noised(np.zeros(_CHUNK)), len(values))"),
           by=[Caught(GAUSSIAN, "test_noise_in_chunks_is_drawn_for_every_value_and_stays_in_place", (2,))]),
    mutant("chunks in the order in which they are ready", f"{MECHANISM}:_add_noise",
           ("list(pool.map(noised, chunks))",
            "[done.result() for done in [pool.submit(noised, chunk) for chunk in chunks][::-1]]"),
           by=[Caught(GAUSSIAN, "test_noise_in_chunks_is_drawn_for_every_value_and_stays_in_place", (2,))]),
    mutant("noise of whole numbers", f"{MECHANISM}:_noise_exponent",
           ("return min(fine - _GRID_BITS, -resolution_bits)", "return -resolution_bits"),
           by=[Caught(GAUSSIAN, "test_the_noise_grid_holds_the_signal_and_is_fine_beside_the_noise", (3.0, 0))]),
    mutant("clamped after noise", f"{MECHANISM}:make_subsampled_gaussian",
           ("_add_noise(exact, scale, exponent)", "np.maximum(_add_noise(exact, scale, exponent), 0.0)"),
           by=[Caught(GAUSSIAN, "test_noise_has_the_stated_scale_and_no_bias", (1.0,))]),
    mutant("scale not deflated for discrete noise", "accounting.loss:PrivacyLoss._over_variance",
           ("self.scale * DISCRETE_NOISE", "self.scale"),
           by=[Caught(LOSS, "test_profiles_pay_for_discrete_noise")]),
    mutant("rounding to the grid not accounted", f"{MECHANISM}:_after_rounding",
           ("up(influence.l2 + up(step * up(math.sqrt(size))))", "influence.l2"),
           by=[Caught(GAUSSIAN, "test_rounding_of_arbitrary_floats_is_paid_for")]),
    mutant("distance after rounding to the grid not rounded up", f"{MECHANISM}:_after_rounding",
           ("up(influence.l2 + up(step * up(math.sqrt(size))))", "influence.l2 + up(step * up(math.sqrt(size)))"),
           by=[Caught(GAUSSIAN, "test_distances_after_rounding_to_the_grid_are_rounded_up")]),
    mutant("losses recorded a thousandth too low", "release.record:_check_covered",
           ("r * (1 - _TOLERANCE)", "r * (1 - 1e-3)"),
           by=[Caught("test_record", "test_understating_by_a_millionth_is_found_out")]),
    mutant("a ledger entry written after the release", "ledger.ledger:Ledger.release",
           ("            self._write(book)\n", ""),
           ("made = measurement(data)", "made = measurement(data); self._write(book)"),
           by=[Caught("test_ledger",
                      "test_an_entry_is_written_before_the_data_are_read_and_completed_before_they_leave")]),
    mutant("a ledger without a lock", "ledger.ledger:Ledger.release", ("with locked(self._path, _WAIT):", "if True:"),
           by=[Caught("test_ledger", "test_one_process_at_a_time")]),
    mutant("a ledger that loses its last entries unnoticed", "ledger.chain:unchained",
           ("(digest, len(entries)) != (last[1].decode(), int(last[2]))", "False"),
           by=[Caught("test_ledger", "test_an_edited_file_is_refused")]),
    mutant("parameters that are chosen accounted for as fixed", "ledger.book:Terms.standing",
           ("if self.order is None:", "if True:"),
           by=[Caught("test_ledger", "test_noise_that_is_chosen_by_what_was_kept_does_not_exceed_the_budget")]),
    mutant("planned releases not reserved", "ledger.book:Terms.standing", ("_at_once(ran | planned)", "_at_once(ran)"),
           by=[Caught("test_ledger", "test_beside_a_programme_there_is_room_by_the_bound_that_holds_for_anything")]),
    # ---- accounting
    mutant("ρ with the root missing", "accounting.loss:PrivacyLoss.zero_concentrated",
           ("Fraction(squared) /", "Fraction(squared**0.5) /"),
           by=[Caught(GAUSSIAN, "test_everything_kept_is_the_gaussian_mechanism"),
               Caught(GUARANTEES, "test_failure_probabilities_are_attained_tails")]),
    mutant("δ′ off by one", f"{SUBSAMPLED}:ExtremalLaw._quantile_of_reach",
           ("self.kept.tail(k)", "self.kept.tail(k + 1)"),
           by=[Caught(GUARANTEES, "test_failure_probabilities_are_attained_tails")]),
    mutant("δ′ dropped", f"{SUBSAMPLED}:ExtremalLaw._quantile_of_reach", (" if beyond else 0.0", " if False else 0.0"),
           by=[Caught(GUARANTEES, "test_failure_probabilities_are_attained_tails")]),
    mutant("δ dropped", "accounting.loss:PrivacyLoss.epsilon_delta", ("(delta), delta) if", "(delta), 0.0) if"),
           by=[Caught(GUARANTEES, "test_failure_probabilities_are_attained_tails")]),
    # ---- accounting, second round
    mutant("lower tail forgotten when a lattice is trimmed", "accounting.laws:trim",
           ("    mass[0] += np.sum(x.mass[:low])\n", ""),
           by=[Caught(LAWS, "test_no_mass_is_lost_where_tails_are_cut", ([1.0] * 40, 0.5))]),
    mutant("mass cut off of a summand forgotten", "accounting.laws:_sum", ("(x.cut + y.cut)", "x.cut"),
           by=[Caught(LAWS, "test_no_mass_is_lost_where_tails_are_cut", ([1.0] * 20 + [0.3] * 20, 0.5))]),
    mutant("multiples not rounded up", "accounting.laws:multiples", ("up_array(products)", "products"),
           by=[Caught(LAWS, "test_multiples_are_exact_where_they_can_be")]),
    mutant("squares of a group not rounded up", "accounting.laws:scaled", ("up_array(products)", "products"),
           by=[Caught(LAWS, "test_scaled_is_never_below_and_exact_where_it_can_be")]),
    mutant("rest dropped at the top of the vertex", "accounting.laws:vertex_sum",
           ("up_fraction(n * step + rest)", "up_fraction(n * step)"),
           by=[Caught(LAWS, "test_what_lies_beyond_the_window_is_at_the_largest_value")]),
    mutant("lattice's unit without its margin", "accounting.laws:kept_sum", (" * (1 + 2.0**-50)", ""),
           by=[Caught(LAWS, "test_the_largest_value_of_a_kept_sum_is_not_below_the_sum")]),
    mutant("hinge rounded to nearest", f"{SUBSAMPLED}:hinge", ("up(float(q) + excess)", "float(q) + excess"),
           by=[Caught(LOSS, "test_the_hinge_is_rounded_up")]),
    mutant("tangent not raised left of its point", "accounting.loss:_tangent", (" * (1 - 2e-11)", ""),
           by=[Caught(LOSS, "test_the_computed_tangent_is_above_the_tangent", (0.5, 4.0))]),
    mutant("least scale not verified", "accounting.calibrate:calibrate",
           ("return found", "return found * (1 - 1e-10)"),
           by=[Caught(LOSS, "test_least_scale_is_the_least_and_is_enough", ((0.5, 1e-4),))]),
    mutant("Rényi's quotient by its digits", "accounting.renyi:_order_cost",
           ("math.log1p(-1 / alpha)", "math.log((alpha - 1) / alpha)"),
           by=[Caught(RENYI, "test_delta_where_the_quotient_lost_its_digits")]),
    mutant("a zCDP curve not rounded up", "plugin.conversions:make_zCDP_to_renyiDP",
           ("up_fraction(Fraction(rho) * Fraction(alpha))", "float(rho * alpha)"),
           by=[Caught("plugin/test_renyi_conversions",
                      "test_a_curve_is_never_below_the_zcdp_that_it_comes_from")]),
    mutant("queryables under a converted loss", "plugin.conversions:_with_loss",
           ("        _refuse_queryables(release)\n", ""),
           by=[Caught("plugin/test_renyi_conversions",
                      "test_a_queryable_is_not_handed_out_under_a_converted_loss")]),
    mutant("loss distribution of a scale not deflated", "accounting.loss:PrivacyLoss.distribution",
           ("(self.delta,", "(PrivacyLoss(self.law, self.scale / DISCRETE_NOISE).delta,"),
           by=[Caught(PLD, "test_is_made_from_the_view_that_pays_for_discrete_noise")]),
    mutant("loss distribution's hull lowered", "accounting.pld:_lower_convex_hull",
           ("hull += 2.0**-50 * left", "hull -= 2.0**-50 * left"),
           by=[Caught(PLD, "test_the_hull_is_never_below_the_exact_hull")]),
    mutant("influences printed to the nearest digit", "accounting.influence:Influence.__repr__",
           ("{printed_up(self.l2)}", "{self.l2:.6g}"),
           by=[Caught(INFLUENCE, "test_what_is_printed_is_not_below")]),
    mutant("norm of copies rounded to nearest", "accounting.influence:repeated_influence",
           ("up(influence.l2 * up_sqrt(times))", "influence.l2 * times**0.5"),
           by=[Caught("plugin/test_repeat", "test_the_norm_of_copies_is_never_rounded_down")]),
    mutant("Fourier rounding halved", "koga2022.fourier:_DyadicBasis.rounding",
           ("return 2.0 * largest", "return largest"),
           by=[Caught("koga2022/test_fourier", "test_the_last_rounding_is_charged_and_must_be", (20, 1))]),
    mutant("the paper's ℓ∞ floored", "koga2022.algorithm1:_steps_and_factor", ("math.ceil(", "math.floor("),
           by=[Caught("koga2022/test_algorithm1", "test_a_difference_that_is_no_whole_number_counts_as_the_next")]),
    mutant("the paper's individuals not joined", "koga2022.algorithm1:_steps_and_factor",
           ("influence.individuals if joined else 1", "1"),
           by=[Caught("koga2022/test_algorithm1", "test_individuals_are_joined_without_a_filter")]),
    mutant("FFT certified to a whole unit", "accounting.circulant:_certified_digit_bits",
           ("math.floor(-2 - ", "math.floor(-"),
           by=[Caught(CONVOLUTION, "test_the_certificate_leaves_three_quarters_of_a_unit_to_rounding")]),
    # ---- joint accounting
    mutant("a release left out", JOINT, ("for loss in given for part", "for loss in given[1:] for part"),
           by=[Caught(JOINTLY, "test_no_release_is_left_out"), Caught(JOINTLY, "test_precisions_add_up")]),
    mutant("variances added instead of precisions", JOINT, ("PrivacyLoss(_joint_law(parts), 1.0)",
           "PrivacyLoss(parts[0].loss.law, math.hypot(*(loss.scale for loss, _ in parts)))"),
           by=[Caught(JOINTLY, "test_precisions_add_up"),
               Caught(JOINTLY, "test_two_unequal_releases", ("one by one",))]),
    mutant("a law of fixed queries for adaptive ones", "accounting.joint:_convex",
           ("if part.adaptive", "if False"),
           by=[Caught(JOINTLY, ADAPTIVE)]),
    mutant("adaptive queries forgotten when nested", "accounting.joint:_parts", ("adaptive or inner", "adaptive"),
           by=[Caught(JOINTLY, ADAPTIVE)]),
    mutant("the mean kept where profiles bend down", "accounting.joint:_for_profiles",
           ("np.fmin(share, 1.0)", "place"),
           by=[Caught(JOINTLY, "test_a_split_mass_never_has_a_lower_profile", (0.3,))]),
    mutant("tails split as if profiles were asked for", "accounting.joint:_upwards", ("np.ceil(place)", "place"),
           by=[Caught(JOINTLY, "test_quantiles_on_the_lattice_are_not_below")]),
    mutant("a member of a composition left out", "plugin.composition:make_composition",
           ("[one.at(d_in) for one in known]", "[one.at(d_in) for one in known[1:] or known]"),
           by=[Caught(COMPOSITION, "test_no_member_is_left_out")]),
    mutant("the stages before a member forgotten", "plugin.known_losses:known_loss",
           ("return d_in if before is None else before.map(d_in)", "return d_in"),
           by=[Caught(COMPOSITION, "test_distances_go_through_the_stages_before")]),
    mutant("how far all stages reach is not asked", "plugin.spaces:check_reach",
           ("if not influence <= (told := provenance.influence(1)):", "if False:"),
           by=[Caught("test_ledger", "test_a_stage_that_no_release_knows_of_is_not_charged_for_less_than_it_does",
                      ("in between",))]),
    mutant("the mass beyond the lattice forgotten", "accounting.joint:_law_of_sum", ("if cut > 0:", "if cut > 1:"),
           by=[Caught(JOINTLY, "test_no_mass_is_lost_on_the_lattice")]),
    # ---- end of accounting, second round
    mutant("amplified loss at p = 1", f"{MECHANISM}:_loss",
           ("extremal_law(influence, sample.probability,",
            "extremal_law(influence, sample.probability * sample.probability / 2,"),
           by=[Caught(GAUSSIAN, "test_everything_kept_is_the_gaussian_mechanism"),
               Caught("audit/test_audit", "test_releases_are_as_private_as_claimed", ("p = 1",))]),
]  # fmt: skip


ASSERTIONS = (AssertionError, pytest.fail.Exception)


def demand_caught(case: Mutant, check: Callable[[], None]) -> None:
    """Demand that a check fails on a mutant, by what it asserts: a mutant that does not run shows nothing.

    Whatever else the check raises is raised here. What it raised on the way to its assertion counts too: ``match=`` of
    :func:`pytest.raises` asserts, whatever the error that it does not match.
    """
    with mutated(case.target, *case.edits):
        try:
            check()
        except ASSERTIONS as failure:
            error: BaseException | None = failure
        else:
            raise LookupError(f"{check} does not catch: {case.name}")
    while error is not None:
        if not isinstance(error, ASSERTIONS):
            raise error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: case.name)
def test_mutants_are_caught(case):
    for check in case.caught_by:
        check()
    for check in case.caught_by:
        demand_caught(case, check)


def broken(*edits):
    """A mutant of the cap on steps, whatever its edits do, and a check of the cap through OpenDP's callbacks."""
    check = Caught(GUARANTEES, "test_the_caps_are_enforced_whatever_one_person_does")
    return Mutant("broken", f"{ENGINE}:_add_pairs", edits, (check,)), check


@pytest.mark.parametrize("name", ["nowhere", "1 / 0", "[][0]", "pairs.nowhere"])
def test_a_mutant_that_does_not_run_is_not_caught(name):
    # OpenDP wraps what a callback raises.
    with pytest.raises(dp.OpenDPException):
        demand_caught(*broken(("over = lengths > caps.participation_cap", f"over = {name}")))


def test_a_mutant_that_no_check_notices_is_not_caught():
    with pytest.raises(LookupError, match="does not catch"):
        demand_caught(*broken(("over = lengths > caps.participation_cap", "over = caps.participation_cap < lengths")))


def test_an_error_behind_an_assertion_is_not_caught():
    def check():
        with pytest.raises(ZeroDivisionError, match="other words"):
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        demand_caught(broken()[0], check)


def test_the_sound_code_is_back_after_a_mutant():
    function = find("accounting.influence:_largest_change")
    sound = function.__code__
    with mutated("accounting.influence:_largest_change", ("if replaced else cap", "if not replaced else cap")):
        assert function.__code__ is not sound
    assert function.__code__ is sound
    with pytest.raises(LookupError, match="renew the mutant"):
        broken_code(function, (("not in the source", ""),))


def table() -> str:
    lines = ["| Broken variant | Where | Caught by |", "|---|---|---|"]
    for case in MUTANTS:
        where = f"`{case.target.split(':')[0].replace('.', '/')}.py`, `{case.target.split(':')[1]}`"
        tests = "<br>".join(f"`{check.file}.py::{check.test}`" for check in case.caught_by)
        lines.append(f"| {case.name} | {where} | {tests} |")
    return "\n".join(lines)


def test_the_table_of_the_documentation_is_this_one():
    page = Path(__file__).parents[2] / "docs" / "mutants.md"
    assert table() in page.read_text(encoding="utf-8"), "run: python -m tests.mutants.test_mutants"
    assert len({case.name for case in MUTANTS}) == len(MUTANTS)


if __name__ == "__main__":
    print(table())
