"""Which step is the busiest, by OpenDP's noisy max behind the cast to an ℓ∞ distance."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from tests.refused import refuses

SIZE = 24
GRID = ts.TimeGrid(size=SIZE)
#: 40 people, of whom everybody is there in hour 7, and otherwise at hours of their own.
HOURS = np.stack([np.full(40, 7), np.arange(40) % 24, np.arange(40) % 5])
LOG = {"id": np.repeat(np.arange(40), 3), "time": HOURS.T.ravel()}
WHOLE, FLOAT = dp.linf_distance(T="i64"), dp.linf_distance(T=float)
ONE_WAY = dp.linf_distance(T=float, monotonic=True)


def count(log_space, **options):
    return log_space >> ts.then_participation_count(GRID, **({"participation_cap": SIZE} | options))


@pytest.mark.parametrize("distance", [1, 2, 5])
def test_the_map_is_the_largest_entry_of_all_individuals_together(log_space, distance):
    dropping = {"excess": "drop", "step_cap": 3}
    assert (count(log_space, **dropping) >> ts.then_lp_distance(WHOLE)).map(distance) == 3 * distance
    for cap in (1, 5, SIZE):
        assert (count(log_space, participation_cap=cap) >> ts.then_lp_distance(FLOAT)).map(distance) == float(distance)
    one_way = (count(log_space) >> ts.then_lp_distance(ONE_WAY)).map(distance)
    assert one_way == (1.0 if distance == 1 else np.inf)


def test_one_individual_moves_all_counts_one_way_and_no_further(log_space):
    generator = np.random.default_rng(1)
    chain = count(log_space, participation_cap=2, step_cap=2) >> ts.then_lp_distance(ONE_WAY)
    for _ in range(40):
        log = {"id": generator.integers(6, size=60), "time": generator.integers(SIZE, size=60)}
        fewer = {name: column[log["id"] != 0] for name, column in log.items()}
        moved = np.array(chain(log)) - np.array(chain(fewer))
        assert np.all(moved >= 0)
        assert moved.max() <= chain.map(1)


def test_numbers_that_may_move_both_ways_are_not_monotonic(log_space):
    replaced = log_space[0], dp.change_one_distance()
    taps = ts.Kernel.from_taps([1.0, -1.0], centre=0, size=SIZE)
    filtered = count(log_space, excess="drop") >> ts.then_circulant_filter(taps)
    assumed = (ts.count_signal_domain(SIZE), log_space[1]) >> ts.then_assume_participation(participation_cap=2)
    for chain in (count(replaced), filtered, assumed):
        monotonic = dp.linf_distance(T="i64" if chain is assumed else float, monotonic=True)
        refuses("output_metric", lambda: chain >> ts.then_lp_distance(monotonic))  # noqa: B023
    assert (count(replaced) >> ts.then_lp_distance(FLOAT)).map(1) == 1.0
    with pytest.raises(TypeError, match=r"^output_metric.*'f64'"):
        count(log_space) >> ts.then_lp_distance(WHOLE)


BUDGETS = {
    "ε": (dp.loss_of(epsilon=1.0), 1.0),
    "ε, δ": (dp.loss_of(epsilon=1.0, delta=1e-6), 1.0),
    "ρ": (dp.loss_of(rho=0.5), 0.5),
    "ρ, δ": ((dp.approximate(dp.zero_concentrated_divergence()), (0.5, 1e-6)), 0.5),
}


@pytest.mark.parametrize("loss", BUDGETS.values(), ids=BUDGETS)
def test_the_busiest_step_costs_the_same_whatever_the_participation(log_space, loss):
    scales = []
    for cap in (1, SIZE):
        context = ts.compositor(LOG, (log_space[1], 1), loss[0], split_evenly_over=1, domain=log_space[0])
        query = context.query().participation_count(GRID, participation_cap=cap).noisy_max()
        scales.append(query.param())
        spent = query.resolve().map(1)
        assert loss[1] * (1 - 1e-9) < (spent[0] if isinstance(spent, tuple) else spent) <= loss[1]
        assert query.release() in range(SIZE)
    assert scales[0] == pytest.approx(scales[1])
    assert scales[0] == pytest.approx(1.0 if "Max" in str(loss[0][0]) else 0.5, rel=1e-6)  # 1/ε; 1/√(8ρ)


def test_the_busiest_step_is_found(log_space):
    context = ts.compositor(LOG, (log_space[1], 1), dp.loss_of(epsilon=20.0), split_evenly_over=2, domain=log_space[0])
    query = context.query().participation_count(GRID, participation_cap=SIZE)
    # 40 people against 9: beyond this noise once in 10^100.
    assert query.noisy_max().release() == 7
    assert query.noisy_max(negate=True).release() != 7


def test_the_position_in_a_panel_is_that_of_a_key_and_of_a_step(log_space):
    log, loss = LOG | {"site": np.repeat("b", len(LOG["id"]))}, dp.loss_of(epsilon=20.0)
    context = ts.compositor(log, (log_space[1], 1), loss, split_evenly_over=1, domain=log_space[0])
    panel = context.query().participation_count(GRID, participation_cap=SIZE, by="site", keys=["a", "b"])
    assert divmod(panel.noisy_max().release(), GRID.size) == (1, 7)
