"""What is stated of a loss: in which view, in words, and as part of which parent."""

import dataclasses
import json
import math

import pytest

from opendp_timeseries._json import decode, encode
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED, PROFILE, RENYI, View
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period
from opendp_timeseries.release.statement import Parent, Statement
from tests.refused import refuses

LOSS = extremal_law(Influence(l0=3, l2=3**0.5, linf=1.0), 0.5, 9).at(2.0)
VIEWS = [View(APPROXIMATE, delta=1e-5), View(CONCENTRATED, failure_probability=1e-5), View(PROFILE), View(RENYI)]
PARENT = Parent(kind="composition", loss=(1.0, 1e-6), number=2, parts=3)


def test_points_are_those_of_the_loss():
    pair, concentrated, profile, renyi = (view.points(LOSS) for view in VIEWS)
    assert pair == ((LOSS.epsilon(1e-5), 1e-5),)
    assert concentrated == (LOSS.zero_concentrated(1e-5),)
    assert profile[0][0] == 0.0
    assert all(delta == LOSS.delta(epsilon) for epsilon, delta in profile)
    assert all(divergence == LOSS.renyi(order) for order, divergence in renyi)
    assert [view.is_pair for view in VIEWS] == [True, True, False, False]


@pytest.mark.parametrize(
    ("view", "points", "words"),
    [
        (VIEWS[0], ((1.2345678, 1e-5),), "(ε = 1.23457, δ = 1e-05)-differential privacy"),
        (VIEWS[1], ((0.1, 9.87651e-6),), "9.877e-06-approximate 0.1-zCDP"),
        (VIEWS[1], ((0.1, 0.0),), "0.1-zCDP"),
        (View(CONCENTRATED, failure_probability=0), ((0.1234567, 0.0),), "0.123457-zCDP"),
        (VIEWS[2], ((0.0, 0.5), (1.0, 1e-7), (2.0, 1e-9)), "(ε = 1, δ = 1e-07)-differential privacy"),
        (VIEWS[2], ((0.0, 0.5), (8.0, 1e-3)), "(ε = 8, δ = 0.001)-differential privacy"),
        (VIEWS[3], ((1.5, 0.123456789), (2.0, 0.2)), "Rényi divergence of order 1.5 at most 0.123457"),
    ],
)
def test_points_are_put_into_words_and_rounded_up(view, points, words):
    assert view.words(points) == words


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"measure": "trust"}, "measure .* must be one of"),
        ({"measure": APPROXIMATE}, "needs delta"),
        ({"measure": CONCENTRATED}, "needs failure_probability"),
        ({"measure": PROFILE, "delta": 1e-6}, "does not use delta"),
        ({"measure": APPROXIMATE, "delta": 1e-6, "failure_probability": 1e-6}, "does not use failure_probability"),
        ({"measure": APPROXIMATE, "delta": 0.0}, "delta"),
        ({"measure": APPROXIMATE, "delta": 1.0}, "delta"),
        ({"measure": CONCENTRATED, "failure_probability": math.nan}, "failure_probability"),
    ],
)
def test_views_that_do_not_fit_are_refused(fields, message):
    refuses(message, View, **fields)


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        (PARENT, "release 2 of 3 in a composition with (ε = 1, δ = 1e-06) in all"),
        (Parent(kind="context", loss=(0.5, 1e-7)), "in a Context with (ε = 0.5, δ = 1e-07) in all"),
        (Parent(kind="programme", loss=(1.0, 0.0), number=1, parts=12),
         "release 1 of 12 in a programme with (ε = 1, δ = 0) in all"),
        (Parent(kind="ledger", loss=(0.25, 1e-6), measure=CONCENTRATED, number=7),
         "entry 7 of a ledger with 1e-06-approximate 0.25-zCDP in all"),
    ],
)  # fmt: skip
def test_a_parent_in_words(parent, words):
    assert str(parent) == words


@pytest.mark.parametrize(
    "change",
    [{"kind": "family"}, {"loss": (-1.0, 1e-6)}, {"loss": (1.0, 1.0)}, {"loss": (math.inf, 0.1)}, {"measure": PROFILE},
     {"number": 0}, {"parts": 0}, {"parts": 1.5}, {"programme": "\x1b[2Jε = 0.01"}, {"programme": "ab\n"},
     {"programme": ""}, {"identifier": "of ε = 0.01", "kind": "programme"}, {"digest": "\x1b[2J"}, {"number": 4}],
)  # fmt: skip
def test_wholes_that_cannot_be_are_refused(change):
    name = next(iter(change)).replace("loss", "loss of the parent|delta of the parent")
    refuses(name, dataclasses.replace, PARENT, error=(TypeError, ValueError), **change)


def test_statements_come_back_exactly():
    for view in VIEWS:
        for parent in (None, PARENT, Parent(kind="ledger", loss=(1.0, 1e-6), number=1, identifier="1f", digest="d0")):
            statement = Statement(view=view, distance=3, parent=parent, loss=view.points(LOSS))
            assert decode(Statement, json.loads(json.dumps(encode(statement))), "statement") == statement


@pytest.mark.parametrize("distance", [0, -1, 2**31 + 1, 1.5, True, None])
def test_other_distances_are_refused(distance):
    refuses("distance", Statement, error=(TypeError, ValueError), view=VIEWS[0], distance=distance)


@pytest.mark.parametrize(
    ("unit", "one", "three"),
    [
        (Unit(), "one individual added or removed", "3 individuals added or removed"),
        (Unit(replaced=True), "one individual replaced", "3 individuals replaced"),
        (Unit(individuals=2), "2 individuals added or removed", "6 individuals added or removed"),
        (
            Unit(period=Period("1d", "UTC")),
            "one individual within one day (UTC), not all that they did, added or removed",
            "3 individuals, each within one day (UTC), not all that they did, added or removed",
        ),
    ],
)
def test_units_in_words(unit, one, three):
    assert (str(unit), unit.of(1), unit.of(3)) == (one, one, three)
    assert decode(Unit, json.loads(json.dumps(encode(unit))), "unit") == unit
