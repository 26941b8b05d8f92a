"""Short tests of guarantees of the whole pipeline, on real releases: what the mutants of this folder would break.

Each is run on its own as well. False alarms, where a test is random, are below 1e-9.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import opendp.prelude as dp
import pyarrow
import pyarrow.dataset
import pytest

import opendp_timeseries as ts
from opendp_timeseries._validate import integer
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.counting import capped_count as engine
from opendp_timeseries.design.kernels import identity_kernel
from opendp_timeseries.plugin import participation_count as count_module
from opendp_timeseries.plugin.spaces import influence_distance

GRID = ts.TimeGrid(size=20)


def counter(cap, *, step_cap=1, grid=GRID, unit=None):
    space = ts.event_log_domain(identifier="id", time="time"), unit or dp.symmetric_distance()
    return space >> ts.then_participation_count(grid, participation_cap=cap, step_cap=step_cap, excess="drop")


def log(rows):
    who, when = zip(*rows, strict=True)
    text = isinstance(who[0], str)
    return {"id": np.array(who, dtype=object if text else np.int64), "time": np.array(when, dtype=np.int64)}


def crowd(people, *, text=False):
    """Ten people, all over the cap of three, their rows interleaved."""
    rows = [(who, (7 * who + 3 * k) % GRID.size) for k in range(12) for who in range(people)]
    return [(f"person {who}", step) for who, step in rows] if text else rows


def test_the_caps_are_enforced_whatever_one_person_does():
    rows = [(5, step) for step in range(20) for _ in range(7)]
    for cap, step_cap in ((1, 1), (3, 2), (20, 7)):
        counts = np.array(counter(cap, step_cap=step_cap)(log(rows)))
        assert np.count_nonzero(counts) == cap
        assert set(counts[counts > 0].tolist()) == {step_cap}


@pytest.mark.parametrize("text", [False, True])
def test_leaving_one_out_changes_only_what_was_theirs(monkeypatch, text):
    monkeypatch.setattr(count_module, "fresh_key", lambda: bytes(range(16)))
    count, rows = counter(3, step_cap=2), crowd(10, text=text)
    whole = np.array(count(log(rows)))
    for person in {who for who, _ in rows}:
        change = whole - count(log([row for row in rows if row[0] != person]))
        assert np.count_nonzero(change) <= 3
        assert change.min() >= 0
        assert change.max() <= 2


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
@pytest.mark.parametrize("text", [False, True])
def test_leaving_one_period_out_changes_only_what_was_done_in_it(monkeypatch, text):
    monkeypatch.setattr(count_module, "fresh_key", lambda: bytes(range(16)))
    count, rows = counter(2, step_cap=2, unit=ts.period_distance(6)), crowd(10, text=text)
    whole = np.array(count(log(rows)))
    for person, period in {(who, step // 6) for who, step in rows}:
        change = whole - count(log([row for row in rows if (row[0], row[1] // 6) != (person, period)]))
        assert np.count_nonzero(np.delete(change, np.arange(6 * period, min(6 * period + 6, GRID.size)))) == 0
        assert 1 <= np.count_nonzero(change) <= 2
        assert change.min() >= 0
        assert change.max() <= 2


def test_the_order_of_the_rows_does_not_matter(monkeypatch):
    monkeypatch.setattr(count_module, "fresh_key", lambda: bytes(range(16)))
    rows = crowd(10)
    assert list(counter(3)(log(rows))) == list(counter(3)(log(rows[::-1])))


def test_every_release_chooses_anew_whom_to_count_where():
    # 40 releases that choose one of 20 steps agree with probability 20**-39; the state of NumPy plays no part.
    chosen = set()
    for _ in range(40):
        np.random.seed(0)  # noqa: NPY002
        chosen.add(int(np.argmax(counter(1)(log([(1, step) for step in range(20)])))))
    assert len(chosen) > 1


def test_counts_do_not_wrap_and_people_do_not_merge():
    rows = [(who, 3) for who in range(70_000)]
    assert counter(1)(log(rows))[3] == 70_000
    assert counter(1)(log([(0, 3), (2**32, 3), (2**53, 3), (2**53 + 1, 3)]))[3] == 4


@pytest.mark.parametrize("as_file", [False, True])
def test_people_at_the_limits_of_packed_rows_do_not_merge(as_file):
    # Of 63 bits, 5 are of a step: 2**58 is the first identifier that does not fit, and would become -2**58.
    limit = 2**58
    table = log([(who, 3) for who in (-limit - 1, -limit, 1 - limit, 0, limit - 1, limit, limit + 1)])
    for people in ([1, 5], [1, 4], [0, 6], range(7)):
        some = {name: column[list(people)] for name, column in table.items()}
        some = pyarrow.dataset.dataset(pyarrow.table(some)) if as_file else some
        assert counter(1)(some)[3] == len(people)


@pytest.mark.parametrize("size", [20, 32])
def test_individuals_are_never_cut(monkeypatch, size):
    # Rows are worked on in chunks. With 32 steps, the last step's bits are all ones.
    grid = ts.TimeGrid(size=size)
    table = log([(who, step) for who in range(12) for step in (0, 7, size - 2, size - 1, size - 1)])
    for rows in range(1, 8):
        monkeypatch.setattr(engine, "_CHUNK", rows)
        assert sum(counter(1, grid=grid)(table)) == 12
        assert sum(counter(4, grid=grid)(table)) == 48


def test_a_missing_identifier_is_nobody():
    # The code of a missing category is -1, which must never become an individual or an index.
    who = np.array(["ann", None, "bob", None], dtype=object)
    assert list(counter(3)({"id": who, "time": np.array([1, 2, 3, 19])})) == [0, 1, 0, 1] + [0] * 16


def test_times_off_the_grid_count_nowhere():
    assert sum(counter(5)(log([(1, -1), (1, 20), (2, 2**62), (2, -(2**62))]))) == 0


# -------------------------------------------------------------------------------------------- sample and noise


def mechanism(size, scale, p, **accounting):
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=size), influence_distance()
    return ts.make_subsampled_gaussian(
        *space, scale, sampling_probability=p, **(accounting or {"failure_probability": 1e-9})
    )


def test_every_release_samples_and_adds_noise_anew():
    # 64 coins agree with probability 2**-64. NumPy's generators are seeded alike before each.
    release = mechanism(64, 1.0, 0.5)
    found = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        found.append(release(np.zeros(64, dtype=int)))
    assert found[0].steps.tolist() != found[1].steps.tolist()
    assert not set(found[0].values.tolist()) & set(found[1].values.tolist())


def test_a_share_p_of_the_steps_is_kept():
    # A binomial of 10,000 at 1/10 is within 6.4 standard deviations, of 30, but for 2e-10.
    assert abs(len(mechanism(10_000, 1.0, 0.1)(np.zeros(10_000, dtype=int))) - 1000) < 192


def test_groups_pay_quadratically_at_p_1():
    person = counter(3).map(1)
    pair = counter(3).map(2)
    assert mechanism(20, 1.0, 1.0).map(pair)[0] == 4 * mechanism(20, 1.0, 1.0).map(person)[0] == 6.0
    smooth = counter(3) >> ts.then_circulant_filter(identity_kernel(20))
    assert replace(smooth.map(2), l1=math.inf) == pair  # which it says by its other numbers


def test_replacing_reaches_twice_as_many_steps():
    assert counter(3, unit=dp.change_one_distance()).map(1).l0 == 6


@pytest.mark.filterwarnings("ignore::opendp_timeseries.LargeDeltaWarning")
def test_failure_probabilities_are_attained_tails():
    # P(Bin(10, 1/10) > 4) = 0.00163..., P(… > 3) = 0.0128...; K of 4 gives ρ = 4/2, and less than all gives a δ′.
    person = Influence(l0=10, l2=np.sqrt(10), linf=1.0)
    rho, attained = mechanism(10, 1.0, 0.1, failure_probability=0.005).map(person)
    assert rho == 2.0
    assert attained == pytest.approx(0.0016349374, rel=1e-8)
    epsilon, delta = mechanism(10, 1.0, 0.1, output_measure=dp.approximate(dp.max_divergence()), delta=1e-3).map(person)
    assert epsilon > 0
    assert delta == 1e-3


def test_a_filter_is_exact_at_the_limit_of_what_it_passes():
    # Beyond it, the input saturates before it is summed: an average of equal values is that value.
    kernel = ts.boxcar_kernel(20, 5)
    count = counter(3)
    smooth = ts.make_circulant_filter(count.output_domain, count.output_metric, kernel)
    limit = 2**27 - 1
    for value in (limit, 2**40, 2**62):
        assert list(smooth([value] * 20)) == [float(limit)] * 20


def test_smoothed_values_are_exact_sums():
    taps = [0.5, 0.25, 2.0**-26] + [0.0] * 16 + [0.25]
    kernel = ts.Kernel.from_taps(taps)
    count = counter(3)
    smooth = ts.make_circulant_filter(count.output_domain, count.output_metric, kernel)
    signal = [10**7 + k for k in range(20)]
    expected = [sum(h * signal[(t - k) % 20] for k, h in enumerate(taps)) for t in range(20)]
    assert list(smooth(signal)) == expected  # products and sums of so few bits are exact


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64])
def test_public_integers_become_those_of_python(kind):
    # Squares of narrow integers would wrap: 65536**2 is 0 in 32 bits.
    assert type(integer("step_cap", kind(5))) is int


def test_influences_compare_in_every_part():
    fields = {"l0": 3, "l2": 2.0, "linf": 1.0, "individuals": 1}
    for name, other in itertools.permutations(fields, 2):
        more, less = dict(fields, **{name: fields[name] + 1}), dict(fields, **{other: fields[other] + 1})
        assert not Influence(**more) <= Influence(**less)
        assert Influence(**fields) <= Influence(**more)
