"""What a cap loses, from a histogram: against sums over every individual; and the cap that is chosen by it."""

import math
from functools import cache

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.design.weighting import limit_steps
from opendp_timeseries.planning.participation import participation_of, remaining_fraction, spaced_edges
from tests.refused import refuses

SIZE = 1008
CAPS = [20, 50, 100, 200, 300, 400, 600, 800]


def power_law(rng, people):
    """Most take part in a step or two, some in hundreds: a sixth of all counts is above 400."""
    steps = np.arange(1, 801)
    return rng.choice(steps, size=people, p=steps**-1.6 / np.sum(steps**-1.6))


def two_crowds(rng, people):
    """Passers-by, and residents of whom some come nearly always."""
    residents = np.clip(np.rint(np.exp(rng.normal(4.5, 0.9, people))), 1, 900).astype(int)
    return np.where(rng.random(people) < 0.2, residents, rng.geometric(0.3, people))


def even(rng, people):
    """Nobody takes part in more than about a hundred steps."""
    return rng.geometric(0.05, people)


KINDS = [power_law, two_crowds, even]


def histogram(steps, edges=None):
    edges = spaced_edges(SIZE) if edges is None else edges
    return np.bincount(np.searchsorted(edges, steps), minlength=len(edges) + 1)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_individuals(kind):
    steps = kind(np.random.default_rng(1), 3000)
    # With every number of steps in an entry of its own, all is exact.
    every = list(range(1, SIZE))
    fine = ts.Participation(histogram(steps, every), size=SIZE, standard_error=0, edges=every)
    coarse = ts.Participation(histogram(steps), size=SIZE, standard_error=0)
    assert fine.total == pytest.approx(steps.sum(), rel=1e-12)
    assert coarse.total == pytest.approx(steps.sum(), rel=0.05)
    for cap in (1, 7, 64, 300):
        lost = np.maximum(steps - cap, 0).sum() / steps.sum()
        assert fine.fraction_lost(cap, excess="drop") == pytest.approx(lost, abs=1e-12)
        assert coarse.fraction_lost(cap, excess="drop") == pytest.approx(lost, abs=0.03)
        assert fine.fraction_above(cap) == pytest.approx(np.mean(steps > cap), abs=1e-12)
        ratio, error = coarse.level_correction(cap, excess="drop")
        assert abs(ratio - 1 / (1 - lost)) <= 3 * error + 1e-12
        exact = pytest.approx(1 / (1 - lost), rel=1e-12), pytest.approx(0, abs=1e-12)
        assert fine.level_correction(cap, excess="drop") == exact
        scaled = 1 - np.minimum(steps, np.sqrt(steps * cap)).sum() / steps.sum()
        assert fine.fraction_lost(cap) == pytest.approx(scaled, abs=1e-12)
        assert coarse.fraction_lost(cap) == pytest.approx(scaled, abs=0.03)
        assert fine.level_correction(cap) == (pytest.approx(1 / (1 - scaled), rel=1e-12), pytest.approx(0, abs=1e-12))
    often = np.array([1, 7, 64, SIZE])
    by_often = [steps[(steps > low) & (steps <= high)].sum() for low, high in zip([0, *often], often, strict=False)]
    assert fine.counts_by_activity(often) == pytest.approx(by_often, rel=1e-12)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_told_from_a_tail(kind):
    # 8 noisy histograms. Errors of the ratio are within 4 standard errors (false alarm below 1% by the normal tail and
    # fixed by the seed), and as a whole nearer than the noisy entries as they are.
    near, raw = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        steps = kind(rng, 4000)
        noisy = histogram(steps) + rng.normal(scale=20, size=len(spaced_edges(SIZE)) + 1)
        truth = steps.sum() / np.minimum(steps, 100).sum()
        ratio, error = ts.Participation(noisy, size=SIZE, standard_error=20).level_correction(100, excess="drop")
        assert abs(ratio - truth) < 4 * error
        near.append(abs(ratio - truth))
        raw.append(
            abs(ts.Participation(noisy, size=SIZE, standard_error=0).level_correction(100, excess="drop").ratio - truth)
        )
    assert np.mean(near) < (0.5 if kind is even else 1) * np.mean(raw)


def test_it_is_total_over_what_noise_can_make():
    rng = np.random.default_rng(3)
    for scale in (1e-3, 1.0, 1e6):
        for entries in (np.zeros(8), -np.ones(8) * scale, rng.normal(size=8) * scale, np.eye(8)[7] * scale):
            found = ts.Participation(entries, size=100, standard_error=scale, edges=[1, 2, 4, 8, 16, 32, 64])
            assert np.all(found.individuals >= 0)
            for cap in (1, 5, 100):
                assert 0 <= found.fraction_lost(cap) <= 1
                assert 0 <= found.fraction_above(cap) <= 1
                ratio, error = found.level_correction(cap)
                assert ratio >= 1
                assert error >= 0
    nobody = ts.Participation([0, 0], size=9, standard_error=0, edges=[3])
    assert nobody.fraction_lost(2) == nobody.fraction_above(2) == 0
    assert nobody.level_correction(2) == (1.0, math.inf)


@pytest.mark.parametrize("size", [1, 2, 47, SIZE])
def test_shares_of_people(size):
    # Nothing known: as many counts in each octave.
    found = participation_of({}, size)
    assert found.individuals.sum() == pytest.approx(1, rel=1e-12)
    ends = np.array([n for n in (1, 3, 7, 15, 31, 63, 127, 255, 511) if n < size] + [size])
    expected = np.array([np.sum(1 / np.arange(low + 1, high + 1)) for low, high in zip([0, *ends], ends, strict=False)])
    assert found.counts_by_activity(ends) / found.total == pytest.approx(expected / expected.sum(), rel=0.1)


def test_shares_of_people_are_those_that_were_told():
    found = participation_of({0.5: 3, 0.9: 20, 1.0: 500}, SIZE)
    assert [found.fraction_above(n) for n in (3, 20)] == pytest.approx([0.5, 0.1], rel=1e-9)
    assert found.fraction_above(500) < 0.001  # but for the width of an entry
    # Between them the share above falls as a power: at 3 and 20, and at 8, midway of n + 1 by its logarithm.
    assert found.fraction_above(8) == pytest.approx((0.5 * 0.1) ** 0.5, rel=0.03)
    # What is not told has the whole grid as its end.
    assert participation_of({0.9: 20}, SIZE).total == pytest.approx(participation_of({0.9: 20, 1: SIZE}, SIZE).total)
    assert participation_of({0.9: 20}, SIZE).total > found.total
    alone = participation_of({1.0: 5}, SIZE)
    assert (alone.fraction_above(5), alone.fraction_lost(5)) == pytest.approx((0, 0), abs=1e-12)


def test_the_same_entries_give_the_same_answer():
    entries = histogram(power_law(np.random.default_rng(2), 500)) + 3.0
    first, second = (ts.Participation(entries, size=SIZE, standard_error=9.0) for _ in range(2))
    assert first.level_correction(30) == second.level_correction(30)


# --- The choice of the cap ---


def design(caps, participation=None, epsilon=0.95, level=None):
    return ts.plan(
        ts.TimeGrid(size=SIZE), participation_cap=caps, epsilon=epsilon, delta=1e-6, season_amplitudes={24: 20.0},
        level=level, std=(0.0,), sampling_probability=(1.0,), participation=participation,
    )  # fmt: skip


@cache
def errors_by_cap(kind, alike, corrected=False):
    """The steps of individuals, and the error of each cap within the whole budget, measured against all counts.

    Those beyond the cap are scaled down. By a linear smoother that knows the season. If not ``alike``, those who take
    part often come at other hours. If ``corrected``, the series is multiplied by the true ratio of all counts to those
    within the cap.
    """
    rng = np.random.default_rng(11)
    steps = kind(rng, 3000)
    hours = np.arange(SIZE)
    light = 1 - 0.8 * np.cos(2 * np.pi * hours / 24)
    heavy = light if alike else (1 + 0.6 * np.cos(2 * np.pi * hours / 24)) * (0.5 + hours / SIZE)
    taken = [np.argsort(rng.exponential(size=SIZE) / (light if n < 60 else heavy))[:n] for n in np.minimum(steps, SIZE)]
    whole = np.bincount(np.concatenate(taken), minlength=SIZE)
    found, noise = {}, rng.normal(size=(200, SIZE))
    plan = design(CAPS, epsilon=1.0, level=float(whole.mean()))
    power = plan.signal.spectrum()
    for each in plan.candidates[:-1]:  # the last is the private series
        weights = [np.full(len(t), min(1.0, each.participation_cap / len(t)) ** 0.5) for t in taken]
        capped = np.bincount(np.concatenate(taken), np.concatenate(weights), SIZE)
        seen = capped + noise * each.scale  # the same for all caps: their order matters
        gain = power / (power + each.scale**2)
        gain[0] = 1
        rate = np.fft.irfft(np.fft.rfft(seen) * gain, n=SIZE)
        if corrected:
            rate *= whole.sum() / capped.sum()
        found[each.participation_cap] = math.sqrt(np.mean((rate - whole) ** 2))
    return np.minimum(steps, SIZE), found


def excesses(kind, alike, runs):
    """By how much the errors of privately chosen caps exceed the error of the best cap, chosen with the truth."""
    steps, found = errors_by_cap(kind, alike)
    chosen = []
    for seed in range(runs):
        noise = np.random.default_rng(seed).normal(scale=20, size=len(spaced_edges(SIZE)) + 1)  # 5% of the budget
        participation = ts.Participation(histogram(steps) + noise, size=SIZE, standard_error=20)
        *candidates, _ = design(CAPS, participation).candidates
        best = min(candidates, key=lambda each: each.smoothed).participation_cap
        chosen.append(found[best] / min(found.values()))
    return np.array(chosen)


@pytest.mark.long
def test_a_private_choice_is_nearly_the_best():
    # About one in seven exceeds a tenth, so that most of 9 do once in 300 seeds; the seed is fixed.
    assert np.median(excesses(power_law, True, 9)) <= 1.10
    # By the rule "95% of people are below", half of all counts are lost (docs/howto/plan.md).
    steps, found = errors_by_cap(power_law, True)
    usual = min(cap for cap in CAPS if np.mean(steps > cap) <= 0.05)
    assert np.maximum(steps - usual, 0).sum() / steps.sum() == pytest.approx(0.5, abs=0.05)
    assert found[usual] > 1.8 * min(found.values())


@pytest.mark.long
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_private_choice_is_nearly_the_best_on_average(kind, alike):
    # Over 60 choices with fixed seeds; measured 1.02 to 1.05, each with a deviation of 0.07, the mean of 0.01.
    assert np.mean(excesses(kind, alike, 60)) <= 1.10


@pytest.mark.long
def test_a_correction_of_the_level_helps_only_where_all_behave_alike():
    _, plain = errors_by_cap(power_law, True)
    _, alike = errors_by_cap(power_law, True, corrected=True)
    assert alike[20] < min(plain.values()) < 0.5 * plain[20]
    # Where they do not, it is no reason for a small cap.
    _, plain = errors_by_cap(power_law, False)
    _, other = errors_by_cap(power_law, False, corrected=True)
    assert other[20] > 1.2 * min(plain.values())


def test_the_level_and_its_correction_come_from_the_release():
    steps = power_law(np.random.default_rng(0), 3000)
    public = ts.Participation(histogram(steps), size=SIZE, standard_error=0)
    found = design([50, 400], public)
    assert found.signal.mean == pytest.approx(public.total / SIZE)
    lost = [public.fraction_lost(50), public.fraction_lost(400), 0]
    assert [each.lost for each in found.candidates] == pytest.approx(lost, rel=1e-9)
    assert "lost" in repr(found).splitlines()[1].split()
    assert "not included" not in found.advice()
    # The whole of it: what is lost of the level, and what of the rest cannot be told.
    bias = public.fraction_lost(50) * math.hypot(found.signal.mean, found.deviation)
    assert found.candidates[0].bias == pytest.approx(bias, rel=0.05)
    refuses(
        "level",
        lambda: ts.plan(
            ts.TimeGrid(size=SIZE),
            participation_cap=9,
            epsilon=1.0,
            delta=1e-6,
            step_cap=2,
            season_amplitudes={24: 20.0},
            participation=public,
        ),
    )


@pytest.mark.thinned(2)
def test_what_a_gap_loses():
    steps = power_law(np.random.default_rng(0), 3000)
    whole = ts.Participation(histogram(steps), size=SIZE, standard_error=0)
    apart = ts.Participation(histogram(np.ceil(steps * 0.8)), size=SIZE, standard_error=0)
    arguments = {
        "participation_cap": 400, "epsilon": 1.0, "delta": 1e-6, "gap": [1, 6], "season_amplitudes": {168: 20.0},
        "std": (0.0, 3.0), "sampling_probability": (1.0,),
    }  # fmt: skip
    found = ts.plan(ts.TimeGrid(size=SIZE), **arguments, participation={1: whole, 6: apart})
    by_gap = {each.gap: each for each in found.candidates if each.std == 3}
    # Behind a filter those beyond the cap are dropped, unless a gap makes the filter worth it.
    apart_steps = np.ceil(steps * 0.8)
    kept = np.minimum(apart_steps, np.sqrt(400 * apart_steps)).sum() / steps.sum()
    assert (by_gap[1].excess, by_gap[6].excess) == ("drop", "downweight")
    assert by_gap[6].lost == pytest.approx(1 - kept, abs=0.03)
    assert by_gap[1].lost == pytest.approx(whole.fraction_lost(400, excess="drop"), abs=1e-9)
    assert by_gap[6].scale < 0.8 * by_gap[1].scale
    assert "not included" not in found.advice()
    unknown = ts.plan(ts.TimeGrid(size=SIZE), **arguments, participation=whole)
    assert "What a gap of 6 loses is not included" in unknown.advice()
    lost = {(each.gap, each.std): each.lost for each in unknown.candidates[:-1]}
    assert (lost[6, 0], lost[6, 3]) == (None, None)
    assert [lost[1, 0], lost[1, 3]] == pytest.approx([whole.fraction_lost(400), by_gap[1].lost])
    neither = ts.plan(ts.TimeGrid(size=SIZE), **arguments)
    assert "What caps and gaps lose is not included" in neither.advice()
    refuses("participation", ts.plan, ts.TimeGrid(size=SIZE), error=TypeError, **arguments, participation={6: apart})


def test_what_leaves_nothing_loses_everything():
    usual, nobody = (
        ts.Participation(counts, size=100, standard_error=0, edges=[1, 10]) for counts in ([6, 3, 1], [0] * 3)
    )
    cap = limit_steps(100, excess="drop")
    assert remaining_fraction(usual, nobody, cap)[0] == 0
    assert remaining_fraction(nobody, nobody, cap) == remaining_fraction(
        nobody, ts.Participation([0, 0], 9, 0, [1]), cap
    )


def test_numbers_of_steps_that_nobody_can_take_part_in_are_refused():
    refuses("edges", ts.Participation, [1, 1, 1], size=100, standard_error=0, edges=[1, 200])
    public = ts.Participation([6, 3, 1], size=100, standard_error=0, edges=[1, 10])
    refuses("cap", public.fraction_above, "x", error=TypeError)
    refuses("cap", public.fraction_above, -3)
    refuses("share below 1", participation_of, {0.9: 672}, 672)


def test_a_histogram_of_a_panel_is_for_a_plan_of_it():
    grid, keys = ts.TimeGrid(size=48), ["a", "b"]
    public = ts.Participation([60, 30, 10], size=96, standard_error=0, edges=[1, 60])
    known = {"epsilon": 1.0, "delta": 1e-6, "deviation": 3.0, "time_scale": 4.0}
    assert ts.plan(grid, keys=keys, participation=public, **known).signal.mean == pytest.approx(public.total / 96)
    assert ts.plan(grid, keys=keys, participation={0.9: 3, 1.0: 96}, level=5, **known).recommended.smoothed > 0
    refuses("participation", ts.plan, grid, participation=public, **known)


def test_a_filter_is_for_a_cap():
    known = {"epsilon": 1.0, "delta": 1e-6, "deviation": 3.0, "time_scale": 4.0}
    refuses("std", ts.plan, ts.TimeGrid(size=48), std=3.0, **known)
    assert len(ts.plan(ts.TimeGrid(size=48), std=0.0, **known).candidates) == 1


def test_a_gap_of_unknown_loss_is_never_recommended():
    known = {
        "epsilon": 1.0, "delta": 1e-6, "level": 200, "deviation": 20, "time_scale": 300, "std": [0, 10],
        "participation_cap": 4, "participation": {0.9: 3, 1.0: 4},
    }  # fmt: skip
    alone = ts.plan(ts.TimeGrid(size=672), **known, gap=48, sampling_probability=1)
    *unknown, private = alone.candidates
    assert {each.lost for each in unknown} == {None}
    assert min(each.smoothed for each in unknown) < private.smoothed
    assert alone.recommended is private
    # Beside a gap whose loss is known, it is not the one with which sampling is compared.
    beside = ts.plan(ts.TimeGrid(size=672), **known, gap=[48, 1], sampling_probability=[0.5, 1])
    assert {each.gap for each in beside.candidates if each.sampling_probability < 1} == {1}
    assert beside.recommended.gap == 1
    # If nothing is at every step but the private series, what is said of sampling is of known losses.
    sampled = ts.plan(ts.TimeGrid(size=672), **known, gap=[48, 1], sampling_probability=0.5)
    best = min(each.smoothed for each in sampled.candidates if each.gap == 1 and each.participation_cap)
    assert f"would err by {best:.4g}" in sampled.advice()


@pytest.mark.long
def test_a_cap_beyond_what_anybody_does_loses_next_to_nothing():
    # Nobody takes part in more than eleven steps, and nothing public says so: noise far out must not look like people.
    rng = np.random.default_rng(5)
    edges = spaced_edges(1800)
    totals, lost = [], []
    for _ in range(20):
        steps = rng.integers(1, 12, 4000)
        noisy = histogram(steps, edges) + rng.normal(0, 10, len(edges) + 1)
        found = ts.Participation(noisy, size=1800, standard_error=10.0)
        totals.append(found.total / steps.sum())
        lost.append(found.fraction_lost(20))
    assert np.median(totals) == pytest.approx(1, abs=0.05)
    assert np.quantile(lost, 0.9) < 0.05
