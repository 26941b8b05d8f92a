"""A record can be read back and verified: a loss that is stated too low is found out."""

import dataclasses
import json

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.record import ReleaseRecord

GRID = ts.TimeGrid(start="2013-01-01", step="1h", size=48, zone="UTC")
KERNEL = ts.gaussian_kernel(48, std=2)
COARSE = ts.boxcar_kernel(48, 3, bits=10)
RELEASE = ts.Release(steps=[2, 17, 40], values=[0.1, 1 / 3, -1e-7], size=48, scale=3.0, sampling_probability=0.1)
MEASURES = [
    (lambda: None, {"failure_probability": 1e-6}),
    (lambda: dp.approximate(dp.max_divergence()), {"delta": 1e-6}),
    (dp.renyi_divergence, {}),
    (dp.smoothed_max_divergence, {}),
]


def record_of(*, measure=lambda: dp.approximate(dp.max_divergence()), **change):
    parts = {"grid": GRID, "participation_cap": 5, "step_cap": 2, "kernels": [KERNEL], "delta": 1e-6}
    return ReleaseRecord.of(RELEASE, output_measure=measure(), **parts | change)


@pytest.mark.parametrize(("measure", "parameters"), MEASURES)
@pytest.mark.parametrize(
    "kernels", [[], [KERNEL], [ts.gaussian_kernel(48, 2, bits=12), ts.boxcar_kernel(48, 3, bits=10)]]
)
def test_round_trip_and_verification(measure, parameters, kernels):
    record = record_of(measure=measure, kernels=kernels, **{"delta": None} | parameters)
    again = ReleaseRecord.from_json(record.to_json())
    assert again == record
    assert again.verify() == record.loss


@pytest.mark.parametrize("metric", [dp.symmetric_distance, dp.change_one_distance])
@pytest.mark.parametrize(("measure", "parameters"), MEASURES[:2])
def test_the_loss_is_that_of_the_chain_that_made_the_release(metric, measure, parameters):
    space = ts.event_log_domain(identifier="id", time="time"), metric()
    chain = (
        space
        >> ts.then_participation_count(GRID, participation_cap=5, step_cap=2)
        >> ts.then_circulant_filter(KERNEL)
        >> ts.then_subsampled_gaussian(3.0, sampling_probability=0.1, output_measure=measure(), **parameters)
    )
    release = chain({"id": np.array([1, 2]), "time": np.array(["2013-01-01T00:30"] * 2, dtype="datetime64[m]")})
    record = ReleaseRecord.of(
        release,
        grid=GRID,
        participation_cap=5,
        step_cap=2,
        kernels=[KERNEL],
        input_metric=metric(),
        individuals=3,
        output_measure=measure(),
        **parameters,
    )
    assert record.loss == (tuple(chain.map(3)),)


@pytest.mark.parametrize(
    "lie",
    [
        {"loss": ((0.01, 1e-6),)},
        {"participation_cap": 6},
        {"step_cap": 3},
        {"individuals": 2},
        {"neighbours": "individuals replaced"},
        {"kernels": ()},
        {"release": dataclasses.replace(RELEASE, scale=2.9)},
        {"release": dataclasses.replace(RELEASE, sampling_probability=0.2)},
        {"delta": 1e-7},
        {"loss": ((float("nan"), 1e-6),)},
        {"loss": ((10.0, float("nan")),)},
        {"loss": ((10.0, 1e-6), (10.0, 1e-6))},
    ],
)
def test_each_understatement_is_found_out(lie):
    record = dataclasses.replace(record_of(), **lie)
    with pytest.raises(ValueError, match="loss"):
        record.verify()


def test_points_of_a_curve_cannot_be_shifted():
    record = record_of(measure=dp.renyi_divergence, delta=None)
    shifted = tuple((order * 2, divergence) for order, divergence in record.loss)
    with pytest.raises(ValueError, match="loss"):
        dataclasses.replace(record, loss=shifted).verify()


def test_overstating_is_allowed():
    record = record_of()
    ((epsilon, delta),) = record.loss
    assert dataclasses.replace(record, loss=((epsilon * 2, delta),)).verify() == record.loss


def test_the_document_says_everything():
    document = json.loads(record_of(caps_enforced=False).to_json())
    assert document["guarantee"].endswith("for one individual added or removed, assuming at most 5 steps of each")
    assert document["versions"].keys() == {"python", "opendp_timeseries", "opendp", "numpy", "scipy"}
    assert document["release"]["values"] == [0.1, 1 / 3, -1e-7]
    assert document["grid"]["start"] == "2013-01-01T00:00Z"


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "another"}'])
def test_other_documents_are_refused(text):
    with pytest.raises(ValueError, match="format"):
        ReleaseRecord.from_json(text)


@pytest.mark.parametrize("part", ["release", "grid", "kernels", "loss", "versions", "measure", "individuals"])
def test_a_missing_part_is_named(part):
    document = json.loads(record_of().to_json())
    del document[part]
    with pytest.raises(ValueError, match=part):
        ReleaseRecord.from_json(json.dumps(document))


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="no noise"):
        ReleaseRecord.of(
            dataclasses.replace(RELEASE, scale=0.0), grid=GRID, participation_cap=1, failure_probability=0.1
        )
    with pytest.raises(ValueError, match=r"grid \(9 steps\)"):
        record_of(grid=ts.TimeGrid(size=9))
    with pytest.raises(TypeError, match="output_measure"):
        record_of(measure=dp.max_divergence)
    with pytest.raises(ValueError, match="measure"):
        dataclasses.replace(record_of(), measure="trust")
    with pytest.raises(ValueError, match=r"individuals \(0\)"):
        dataclasses.replace(record_of(), individuals=0)


def test_figure_with_the_guarantee():
    figure = pytest.importorskip("matplotlib.figure")
    axes = record_of().plot(interpolate(RELEASE), axes=figure.Figure().subplots())
    assert "differential privacy for one individual" in axes.get_xlabel()
    assert axes.get_xlabel().startswith("time (UTC)")


def test_the_sentence_must_be_that_of_the_loss():
    document = json.loads(record_of().to_json())
    for change, message in (
        ({"guarantee": "(ε = 0.01, δ = 0)-differential privacy"}, "states in words"),
        ({"note": "trust me"}, "not known: note"),
    ):
        with pytest.raises(ValueError, match=message):
            ReleaseRecord.from_json(json.dumps(document | change))


def test_what_is_printed_is_not_below_what_is_claimed():
    record = record_of()
    printed = record.guarantee().split("ε = ")[1].split(",")[0]
    assert float(printed) >= record.loss[0][0]
