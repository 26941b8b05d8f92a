"""What is stated of a loss: in which view, in words, and as part of which parent."""

import json

from opendp_timeseries._json import decode, encode
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED, PROFILE, RENYI, View
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period
from opendp_timeseries.release.statement import Parent, Statement

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


UNITS = [Unit(), Unit(replaced=True), Unit(individuals=2), Unit(period=Period("1d", "UTC"))]


def test_statements_and_units_come_back_exactly():
    for unit in UNITS:
        assert decode(Unit, json.loads(json.dumps(encode(unit))), "unit") == unit
    for view in VIEWS:
        for parent in (None, PARENT, Parent(kind="ledger", loss=(1.0, 1e-6), number=1, identifier="1f", digest="d0")):
            statement = Statement(view=view, distance=3, parent=parent, loss=view.points(LOSS))
            assert decode(Statement, json.loads(json.dumps(encode(statement))), "statement") == statement
