"""Releases planned together: one budget, exact scales, and the measurements that come of them."""

import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.plugin.mechanisms import signal_of
from tests import make
from tests.refused import refuses

dp.enable_features("contrib", "honest-but-curious")
SPACE = make.space()

GRID = ts.TimeGrid(size=48)


def month(start="2024-01-01", cap=30, std=0.0, size=720):
    grid = ts.TimeGrid(start=start, step="1h", size=size, zone="UTC")
    signal = SPACE >> ts.then_participation_count(grid, participation_cap=cap, excess="drop")
    return signal >> ts.then_circulant_filter(ts.gaussian_kernel(size, std)) if std else signal


def year(n=12, **options):
    return [month(str(np.datetime64("2024-01-01") + np.timedelta64(31 * k, "D")), **options) for k in range(n)]


def plan(chains, **options):
    return ts.Programme.plan(chains, **{"epsilon": 1.0, "delta": 1e-6, "sampling_probability": 0.2} | options)


@pytest.mark.parametrize(
    ("releases", "cap", "p", "scale"),
    # The least σ with E g(1; K/σ²) ≤ 1e-6, where K ~ Bin(releases·cap, p).
    [(1, 30, 0.2, 12.186717), (4, 30, 0.2, 21.921271), (12, 30, 0.2, 36.632567), (52, 30, 0.2, 75.018873),
     (12, 40, 1.0, 92.558077)],
)  # fmt: skip
def test_equal_releases_need_the_noise_of_one_that_has_all_their_steps(releases, cap, p, scale):
    programme = plan(year(releases, cap=cap), sampling_probability=p)
    for mechanism in programme.designs:
        assert mechanism.scale == pytest.approx(scale, abs=6e-7)
    assert programme.loss().epsilon(1e-6) <= 1.0


def test_unequal_releases_keep_their_relation():
    chains = [month(), month("2024-02-01", cap=5), month("2024-03-01", std=2.0)]
    programme = plan(chains, sampling_probability=[0.2, 0.5, 1.0], relative_scales=[1, 2, 4])
    scales = [mechanism.scale for mechanism in programme.designs]
    assert scales == pytest.approx([scales[0], 2 * scales[0], 4 * scales[0]], rel=1e-15)
    assert 1 - 1e-4 < programme.loss().epsilon(1e-6) <= 1.0
    losses = [mechanism.loss() for mechanism in programme.designs]
    assert joint_loss(losses, adaptivity="non-adaptive").epsilon(1e-6) == programme.loss().epsilon(1e-6)


def test_each_release_has_its_measurement():
    chains = year(3)
    programme = plan(chains)
    for chain, mechanism in zip(chains, programme.designs, strict=True):
        measurement = programme.measurement(chain)
        assert measurement.map(1) == mechanism.loss().epsilon_delta(1e-6)
        release = measurement({"id": np.array([1]), "time": np.array(["2024-01-01"], dtype="datetime64[s]")})
        assert release.design == mechanism
    refuses("chain", programme.measurement, month("2025-01-01"), rule="not 0$")
    refuses("chain", programme.measurement, programme.measurement(chains[0]), error=TypeError)


def test_one_signal_may_be_released_in_two_ways():
    programme = plan([month(), month()], sampling_probability=[0.2, 1.0])
    refuses("chain", programme.measurement, month(), rule="not 2$", remedy="one of 1, 2$")
    assert programme.measurement(month(), number=1).map(1) < programme.measurement(month(), number=2).map(1)
    refuses("chain", programme.measurement, month(), number=3, rule="not 0 as number 3$")


def test_a_promise_that_data_do_not_react_lowers_the_loss_only_where_the_docs_say_so():
    less = set()
    for excess, sampling, p, std, gap in itertools.product(
        ("downweight", "drop"), ("poisson", "stratified"), (0.25, 1.0), (0, 2), (1, 4)
    ):
        signal = SPACE >> ts.then_participation_count(GRID, participation_cap=6, excess=excess, gap=gap)
        with warnings.catch_warnings(action="ignore", category=ts.FilterWithoutGapWarning):
            signal = signal >> ts.then_circulant_filter(ts.gaussian_kernel(48, std=std)) if std else signal
        design = Design(signal=signal_of(signal), sampling=Sampling.of(p, sampling), scale=20.0)
        programmes = [
            ts.Programme(designs=(design,) * 3, budget=Budget(epsilon=9.0, delta=1e-6), adaptivity=kind)
            for kind in ("non-adaptive", "adaptive")
        ]
        promised, plain = (programme.loss().epsilon(1e-6) for programme in programmes)
        assert promised <= plain
        if promised < plain * (1 - 1e-9):
            less.add((excess, sampling, p, bool(std)))
    assert {p for _, _, p, _ in less} == {0.25}
    assert ("drop", "poisson", 0.25, False) not in less
    named = {("downweight", "poisson", 0.25, std) for std in (False, True)} | {
        ("downweight", "stratified", 0.25, False)
    }
    named |= {("drop", "poisson", 0.25, True), ("drop", "stratified", 0.25, False)}
    assert named <= less


def test_a_promise_by_its_name_is_that_of_the_document():
    promised = plan(year(2), adaptivity="non-adaptive")
    named = replace(promised, adaptivity="non-adaptive")
    assert named.to_json() == promised.to_json()
    assert ts.Programme.from_json(named.to_json()) == named == promised


def test_one_step_of_each_block_needs_the_same_noise_and_errs_less_between_steps():
    blocks = plan(year(2), sampling="stratified", adaptivity="non-adaptive")
    assert ts.Programme.from_json(blocks.to_json()) == blocks
    assert all(design.sampling.stratified for design in blocks.designs)
    assert blocks.designs[0].scale == pytest.approx(plan(year(2)).designs[0].scale, rel=1e-6)
    assert "0.2 in blocks" in repr(blocks)
    release = blocks.measurement(year(2)[0])({"id": np.array([1]), "time": np.array(["2024-01-01"], "datetime64[s]")})
    assert (release.steps // 5).tolist() == list(range(144))
    found = [p.expected_errors(time_scale=24, deviation=300)[0] for p in (blocks, plan(year(2)))]
    assert found[0].bias < 0.9 * found[1].bias


def test_a_budget_is_exceeded_by_a_ten_thousandth(tmp_path):
    programme = plan([month()])
    refuses(
        "the releases of the programme",
        lambda: replace(
            programme, designs=(replace(programme.designs[0], scale=programme.designs[0].scale * (1 - 1e-5)),)
        ),
    )


def test_a_programme_is_of_one_individual_not_of_two():
    # As of OpenDP's change_one_id_distance, which is half of what differs.
    (design,) = plan([month()]).designs
    signal = replace(design.signal, count=make.changed(design.count, unit=Unit(individuals=2)))
    refuses(
        "releases",
        lambda: ts.Programme(
            designs=(replace(design, signal=signal, scale=1e3),), budget=Budget(epsilon=1.0, delta=1e-6)
        ),
    )


def test_a_programme_written_by_hand_states_the_probability_that_runs():
    # 53 random bits keep a step with 2**-53 at least, which is more than 1e-16, and than this δ.
    document = plan([month(size=48)], delta=1.02e-16).to_dict()
    document["releases"][0] |= {"sampling": {"probability": 1e-16, "stratified": False}, "scale": 1e9}
    programme = ts.Programme.from_json(json.dumps(document))
    measurement = programme.measurement(month(size=48))
    release = measurement({"id": np.array([1]), "time": np.array(["2024-01-01"], "M8[s]")})
    assert release.design in programme.designs
    assert release.sampling_probability == 2.0**-53
    assert release.stated.loss == (measurement.map(1),)
    document["releases"][0]["scale"] = 1e-3  # without noise to speak of, δ is the probability
    refuses("the releases of the programme", ts.Programme.from_json, json.dumps(document))


def test_errors_to_expect_are_those_of_the_plan():
    programme = plan([month(), month("2024-02-01", std=3.0)])
    errors = programme.expected_errors(time_scale=24, deviation=30)
    for std, mechanism, error in zip((0.0, 3.0), programme.designs, errors, strict=True):
        epsilon = mechanism.loss().epsilon(1e-6)
        found = ts.plan(
            ts.TimeGrid(size=720), participation_cap=30, epsilon=epsilon, delta=1e-6, time_scale=24, deviation=30,
            sampling_probability=(0.2,), std=(std,),
        ).candidates  # fmt: skip
        (design,) = (one for one in found if one.sampling_probability == 0.2)  # beside a private series
        assert mechanism.scale == pytest.approx(design.scale, rel=1e-9)
        assert (error.noise, error.bias) == pytest.approx((design.noise, design.bias), rel=1e-9)
        assert error.smoothed == pytest.approx(design.smoothed, rel=1e-9)
    assert f"{errors[1].smoothed:.4g}" in programme.table(time_scale=24, deviation=30)
    # Of private series, as the plan of one, with the noise of two.
    grids = [ts.TimeGrid(start=f"2024-0{k}-01", step="1h", size=720, zone="UTC") for k in (1, 2)]
    series = plan([SPACE >> ts.then_participation_count(grid) for grid in grids], sampling_probability=1.0)
    known = {"level": 80, "season_amplitudes": {24: 30}}
    errors = series.expected_errors(**known)
    alone = series.designs[0].loss().epsilon(1e-6)
    expected = ts.plan(grids[0], epsilon=alone, delta=1e-6, **known).recommended
    assert [error.smoothed for error in errors] == pytest.approx([expected.smoothed] * 2, rel=1e-6)
    often = ts.plan(grids[0], epsilon=alone, delta=1e-6, **known, participation={0.9: 300, 1.0: 720}).recommended
    assert often.smoothed > 1.2 * expected.smoothed
    for shares in ({0.9: 300, 1.0: 9999}, {0.9: 300, 0.95: 800, 0.99: 900}):  # of parts of any length
        errors = series.expected_errors(**known, participation=shares)
        assert errors[0].smoothed == pytest.approx(often.smoothed, rel=1e-6)
    for wrong in (3, {0.9: "20", 1.0: 3}):
        refuses("participation", series.expected_errors, **known, participation=wrong, error=TypeError)
    # Of totals and numbers of individuals, their noise.
    numbers = [SPACE >> make.then_total(grids[0], participation_cap=200, per=by) for by in ("all", "1w")]
    chains = [
        numbers[0],
        SPACE >> ts.then_participation_count(grids[0]),
        numbers[1],
        SPACE >> ts.then_individual_count(),
    ]
    beside = plan(chains, sampling_probability=1.0)
    errors = beside.expected_errors(**known)
    first = errors[0]
    assert [errors[k][:3] for k in (0, 2, 3)] == [(first.noise, 0.0, first.noise)] * 3
    assert first.noise == beside.designs[0].scale
    assert f"{first.noise:.4g}" in beside.table(**known)
    # Of stations and their city, as the plan of one; of people at each station, at most as the last tier.
    panel = {"by": "station", "keys": ["a", "b", "c"]}
    city = {"groups": {"city": panel["keys"]}}
    series = SPACE >> ts.then_participation_count(grids[0], **panel, **city)
    together = plan(
        [series, SPACE >> ts.then_individual_count(**panel, tiers=ts.Tiers(ends=(1,)))], sampling_probability=1
    )
    found, people = together.expected_errors(**known)
    alone = together.designs[0].loss().epsilon(1e-6)
    expected = ts.plan(grids[0], epsilon=alone, delta=1e-6, keys=panel["keys"], **city, **known).recommended
    assert found.smoothed == pytest.approx(expected.smoothed, rel=1e-6)
    assert dict(found.totals) == pytest.approx(dict(expected.totals), rel=1e-6)
    assert people.smoothed == pytest.approx(together.designs[1].scale * (3 / 0.9) ** 0.5, rel=1e-4)
    with pytest.warns(ts.FilterWithoutGapWarning):
        behind = numbers[1] >> ts.then_circulant_filter(ts.boxcar_kernel(5, width=3))
    assert np.isnan(plan([behind], sampling_probability=1.0).expected_errors(**known)[0].smoothed)
    assert repr(programme) == programme.table()
    assert programme._repr_html_().count("<tr") == 1 + len(programme)
