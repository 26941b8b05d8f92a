"""Repeat a signal, so that a release of it is the exact joint release of equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import repeated_influence
from opendp_timeseries.design.provenance import Repeat
from opendp_timeseries.plugin._opendp import signal_domain, then, vector_space
from opendp_timeseries.plugin.spaces import InfluenceSpace, as_influence, influence_metric, influence_space

__all__ = ["make_repeat", "then_repeat"]


def make_repeat(input_domain: dp.Domain, input_metric: dp.Metric, times: int) -> dp.Transformation:
    """Repeat a signal ``times`` times, one after the other: a release of it is that many releases of the signal.

    The subsampled Gaussian after it samples each copy by itself, and its map is the exact joint loss: of ``n``
    releases of a count without filter, ``Bin(nI, p)`` in place of ``Bin(I, p)``. Adding up the ``ε`` of ``n``
    releases costs more. Take them apart by :meth:`.Release.by_key`.

    :param input_domain: integers or floats of a fixed size.
    :param input_metric: ``influence_distance()``.
    :param times: number of copies, ``n``.
    :raises TypeError: for a wrong domain or metric.
    :raises ValueError: for less than one copy.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> count.map(1), (count >> ts.then_repeat(4)).map(1)
    (Influence(l0=10, l2=3.16228, linf=1), Influence(l0=40, l2=6.32456, linf=1))
    """
    space = vector_space(input_domain)
    signal = influence_space(input_metric)
    if signal is None:
        raise TypeError(f"input_metric ({input_metric}) must be influence_distance(), which knows how to repeat")
    copies = check.integer("times", times, minimum=1)
    output = InfluenceSpace(
        resolution_bits=signal.resolution_bits,
        panel_size=signal.panel_size * copies,
        provenance=signal.provenance and signal.provenance.after(Repeat(copies)),
    )
    atom = "f64" if space.atom.startswith("f") else "i64"

    def function(values: Any) -> NDArray[Any]:
        return np.tile(np.asarray(values), copies)

    return dp.t.make_user_transformation(
        input_domain,
        input_metric,
        signal_domain(atom, space.size * copies),
        influence_metric(output),
        function,
        lambda d_in: repeated_influence(as_influence(d_in), copies),
    )


then_repeat = then(make_repeat)
