"""Shared set-up: OpenDP's features, and the spaces that most tests start from."""

import gc
import os
import sys

# Before NumPy is loaded, here or in the workers: each of them has one processor, and BLAS's threads would fight for it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Messages of argparse are compared, which Python 3.14 colours where services for tests ask for it.
os.environ["PYTHON_COLORS"] = "0"

import pytest
from hypothesis import HealthCheck, settings

from tests.snapshots import Snapshots

# Python would look for garbage in all that is imported and collected, again and again, for a sixth of that time.
gc.set_threshold(100_000, 20, 20)

# However busy the machine is. `--hypothesis-profile=long` draws 25 times as many examples.
for profile, examples in (("short", 12), ("long", 300)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("short")


def pytest_collection():
    """Enable OpenDP's features, but not in the process that only deals tests out: workers would wait for the import."""
    # OpenDP imports scikit-learn where it is installed, which takes a second in each worker and serves nothing here.
    unknown = sys.modules.setdefault("sklearn", None) is None
    import opendp.prelude as dp

    if unknown:
        del sys.modules["sklearn"]
    dp.enable_features("contrib", "honest-but-curious")


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write snapshots anew, instead of comparing with them")


@pytest.fixture
def snapshot(request):
    """What is said, in files beside the tests."""
    return Snapshots(request.path.parent / "snapshots", update=request.config.getoption("update"))


@pytest.fixture
def log_space():
    """Event logs with columns ``id`` and ``time``, individuals added or removed."""
    import opendp.prelude as dp

    import opendp_timeseries as ts

    return ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()


#: Tests that say alike for many parameters, and take long: of every so many cases one is in the ordinary suite.
THINNED = {
    "test_any_count_meets_any_noise_that_the_budget_allows": 6,
    "test_nobody_moves_a_real_count_further_than_the_map_says": 30,
    "test_a_context_a_chain_and_a_document_agree": 15,
    "test_never_below_the_exact_map": 4,
    "test_one_time_changes_no_other": 9,
    "test_extreme_parameters_give_numbers": 9,
    "test_every_end_after_the_spending_says_how_to_get_the_files": 5,
    "test_what_is_kept_is_what_is_kept_in_memory": 3,
    "test_the_step_depends_on_nothing_but_scale_and_resolution": 2,
    "test_a_disk_that_is_full_at_any_moment_loses_nothing": 5,
    "test_every_engine_agrees_with_a_slow_count": 4,
    "test_kept_sum_is_from_above_and_close": 4,
    "test_slope_and_inflection": 2,
    "test_unequal_majorants_are_rearranged": 3,
    "test_a_full_or_broken_disk_leaves_earlier_files": 3,
    "test_least_scale_is_what_opendps_own_search_finds": 3,
    "test_scales_of_the_papers_series_are_those_of_poisson_samples": 2,
    "test_equals_rational_arithmetic": 3,
    "test_scale_by_renyi_divergences": 3,
    "test_neighbours_are_as_near_as_the_maps_say": 3,
    "test_noise_is_told_from_a_tail": 3,
    "test_sums_over_individuals": 3,
    "test_each_day_pays_for_the_releases_that_it_is_in": 3,
    "test_standard_error_is_the_spread_of_repeated_noise": 2,
    "test_whatever_happens_during_a_release": 3,
    "test_a_second_signal_ends_a_command_that_hangs": 3,
    "test_the_level_is_known_as_well_as_stated_and_mostly_better_than_by_the_last_scale": 3,
    "test_one_identifier_changes_nobody_else": 3,
    "test_a_column_that_is_missing_in_every_row_counts_nobody": 3,
    "test_no_rows_raise_or_warn_or_log": 2,
    "test_split_budgets_answer_n_queries_and_refuse_the_next": 2,
    "test_times_on_a_clock_that_the_text_does_not_name": 2,
    "test_no_release_raises_or_warns": 3,
    "test_the_least_factor_is_enough_and_hardly_less_is_not": 4,
    "test_against_a_search_for_instants": 3,
    "test_nobody_exceeds_the_influence": 3,
    "test_maps_are_what_the_worst_individuals_do": 2,
    "test_scales_through_filters_are_near_the_lower_bound": 3,
    "test_no_individual_exceeds_the_influence_on_totals": 3,
    "test_profile_by_norms_is_at_most_the_bounds_of_the_literature": 3,
    "test_no_set_of_steps_exceeds_the_influence": 3,
    "test_whatever_fails_leaves_the_old_ledger_or_the_new": 2,
    "test_totals_taken_for_others_are_caught": 3,
    "test_block_law_covers_every_person_and_is_attained": 3,
    "test_the_law_of_the_family_is_below_the_law_that_is_used": 3,
    "test_least_scale_is_the_least_and_is_enough": 3,
    "test_equal_to_the_profile_at_grid_points_and_never_below": 2,
    "test_the_profile_is_that_of_the_worst_places": 3,
    "test_every_file_is_read_by_its_own_types": 3,
    "test_a_design_comes_back_from_its_document_and_from_its_call": 3,
    "test_a_killed_command_leaves_whole_files": 3,
    "test_a_killed_process_leaves_whole_files": 2,
    "test_what_a_gap_loses": 2,
    "test_the_loss_is_that_of_the_measurement_that_ran": 3,
    "test_no_command_waits_for_what_it_does_not_need": 3,
    "test_at_no_moment_is_something_spent_without_a_way_to_get_it": 2,
    "test_parts_add_up_and_nobody_is_below_zero": 2,
    "test_next_to_nobody_with_next_to_no_noise_is_fitted": 3,
    "test_times_do_not_depend_on_the_session": 3,
    "test_weights_in_a_database_are_those_in_memory_whatever_the_events": 3,
}
#: Cases of these that stay, as no other of theirs catches a certain mutant.
TELLING = {
    "test_nobody_exceeds_the_influence[totals with gap-False]",
    "test_no_individual_exceeds_the_influence_on_totals[False-a tree]",
    "test_no_individual_exceeds_the_influence_on_totals[False-two groups]",
    "test_the_profile_is_that_of_the_worst_places[8-4-5]",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is left out of the ordinary suite as long."""
    seen: dict[str, int] = {}
    for item in items:
        name = getattr(item, "originalname", None)
        if name in THINNED and item.get_closest_marker("long") is None:
            seen[name] = seen.get(name, -1) + 1
            if seen[name] % THINNED[name] and item.name not in TELLING:
                item.add_marker(pytest.mark.long)
