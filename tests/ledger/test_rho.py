"""Ledgers and programmes with a budget in ρ: it adds up, whatever was chosen, and nothing has a δ."""

import json
import math

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.budget import Budget
from tests import make
from tests.refused import refuses
from tests.release.test_formats import check

SPACE = make.space()
LOG = {"id": np.array([7, 8]), "time": np.array(["2024-01-01T05", "2024-01-02T07"], dtype="datetime64[s]")}
ZCDP = {"output_measure": dp.zero_concentrated_divergence()}


def count(month=1, cap=8):
    grid = ts.TimeGrid(start=f"2024-{month:02}-01", step="1h", size=48, zone="UTC")
    return SPACE >> ts.then_participation_count(grid, participation_cap=cap)


def measurement(scale, month=1, **view):
    return count(month) >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, **(view or ZCDP))


def test_what_is_spent_is_the_sum_of_rho(tmp_path):
    ledger = ts.Ledger.create(tmp_path / "people.ledger", rho=0.1)
    assert ledger.budget == Budget(rho=0.1)
    release = ledger.release(measurement(10.0), LOG)  # 8/(2·100)
    assert ledger.standing().rho == pytest.approx(0.04, rel=1e-12)
    assert ledger.standing().rho >= release.stated.loss[0][0]
    assert release.guarantee().endswith("; entry 1 of a ledger with 0.1-zCDP in all")
    assert ledger.guarantee() == "0.04-zCDP for one individual added or removed"
    assert "Budget: (ρ = 0.1) for one individual" in ledger.table()
    # A release that states (ε, δ) spends its ρ.
    ledger.release(measurement(20.0, 2, delta=1e-6), LOG)
    assert ledger.standing().rho == pytest.approx(0.05, rel=1e-12)
    refuses(r"this release.*0\.1125.*.*0\.1", ledger.release, measurement(8.0, 3), LOG)
    scale = ledger.least_scale(count(3), sampling_probability=1.0)
    assert scale == pytest.approx(math.sqrt(8 / 0.1), rel=1e-9)
    ledger.release(measurement(scale, 3), LOG)
    assert 0.1 * (1 - 1e-9) < ledger.standing().rho <= 0.1
    assert ledger.verify().adaptivity == "fully adaptive"
    refuses(r"this release.*0\.102.*0\.1", ledger.check, measurement(math.sqrt(8 / 0.004), 4))
    assert ledger.to_dict()["budget"] == {"rho": 0.1}
    for line in ledger.path.read_text("utf-8").splitlines():
        check(json.loads(line), "ledger-1.json")
    assert ts.Ledger(ledger.path).standing() == ledger.standing()


def test_a_sample_is_refused_before_anything_is_spent(tmp_path):
    ledger = ts.Ledger.create(tmp_path / "people.ledger", rho=0.1)
    sampled = count() >> ts.then_subsampled_gaussian(100.0, sampling_probability=0.5, delta=1e-6)
    for ask in (
        lambda: ledger.release(sampled, lambda: pytest.fail("the log was read")),
        lambda: ledger.least_scale(count(), sampling_probability=0.5),
        lambda: ts.Programme.plan([count()], rho=0.1, sampling_probability=0.5),
    ):
        refuses(r"sampling_probability.*1", ask)
    assert ledger.entries == ()
    ledger.add(sampled(LOG))  # it was released, and its sample may have caught all
    assert ledger.standing().rho == pytest.approx(8 / (2 * 100**2), rel=1e-9)


def test_a_programme_in_rho(tmp_path):
    chains = [count(1), count(2), count(3, cap=2)]
    programme = ts.Programme.plan(chains, rho=0.3, sampling_probability=1.0, relative_scales=[2, 2, 1])
    assert sum(float(chain.map(1).l2) ** 2 / (2 * design.scale**2) for chain, design in zip(
        chains, programme.designs, strict=True)) == pytest.approx(0.3, rel=1e-9)  # fmt: skip
    assert programme.loss().zero_concentrated(0.0)[0] <= 0.3
    assert "3 releases within (ρ = 0.3) for one individual" in programme.table()
    assert "ρ = 0.1" in programme.table()
    document = programme.to_json()
    check(json.loads(document), "programme-1.json")
    assert ts.Programme.from_json(document) == programme
    with pytest.raises(ValueError, match=r"^the releases of the programme.*0\.3.*.*0\.29"):
        ts.Programme.from_json(document.replace('"rho": 0.3', '"rho": 0.29'))
    ledger = ts.Ledger.create(tmp_path / "people.ledger", programme=programme)
    for chain in chains:
        release = ledger.release(programme.measurement(chain), LOG)
        assert f"in programme {programme.identifier[:16]} with 0.3-zCDP in all" in release.guarantee()
        assert release.stated.loss[0][1] == 0.0
    standing = ledger.verify()
    assert (standing.adaptivity, standing.within) == ("adaptive", True)
    assert standing.rho == pytest.approx(0.3, rel=1e-9)
    refuses("this release", ledger.release, measurement(100.0, 5), LOG)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
def test_within_a_period_the_fullest_one_counts(tmp_path):
    metric = ts.period_distance("1d", zone="UTC")
    ledger = ts.Ledger.create(tmp_path / "days.ledger", rho=0.1, period="1d", zone="UTC")
    log_space = SPACE[0], metric

    def of_day(day, scale):
        grid = ts.TimeGrid(start=f"2024-01-{day:02}", step="1h", size=24, zone="UTC")
        counted = log_space >> ts.then_participation_count(grid, participation_cap=8)
        return counted >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, **ZCDP)

    for day, scale in ((1, 10.0), (2, 10.0), (2, 20.0), (3, 20.0)):
        ledger.release(of_day(day, scale), LOG)
    assert ledger.standing().rho == pytest.approx(0.05, rel=1e-12)
