"""Add up the series of a panel, such as those of stations to totals of districts and a city (docs/proofs/totals.md)."""

from collections.abc import Mapping

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._refusal import TypeRefusal
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.signal import tree_influence
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import signal_domain, then, vector_space
from opendp_timeseries.plugin.mechanisms import transformation
from opendp_timeseries.plugin.spaces import as_influence, influence_space, signal_metric


def make_totals(input_domain: dp.Domain, input_metric: dp.Metric, groups: Mapping[str, object]) -> dp.Transformation:
    """Add up the series of a panel in groups: one total series per group, an outer group before those in it.

    The totals are of the very counts of the panel, after its caps. So release both behind **one** count, by
    :func:`~opendp_timeseries.then_composition`: what is released of stations and of the city then adds up but for the
    noise, and :func:`~opendp_timeseries.reconcile` makes it add up exactly.

    The output has the ``steps`` totals of the first group, then those of the next. Inputs are clipped, so that sums are
    exact in float64; counts are far smaller. What is no number counts as 0.

    An individual who is in several series of a group at one step moves its total by all of them. With ``key_cap=1`` in
    the count nobody is, and the totals of groups side by side need no more noise than one series; those of ``d`` nested
    levels need ``√d`` times as much.

    :param input_domain: the counts of a panel.
    :param input_metric: the influence metric of the panel, with its keys.
    :param groups: public: names to lists of keys, as in ``{"north": ["a", "b"], "south": ["c"]}``, or nested, as in
        ``{"city": {"north": ["a", "b"], "south": ["c"]}}``. Every key of the panel is in one group, or in nested ones.
    :raises TypeError: for groups in another form, or an input that is not a panel of counts.
    :raises ValueError: for a key that is not of the panel, in no group, or in two that are not nested.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> panel = space >> ts.then_participation_count(
    ...     ts.TimeGrid(size=2), participation_cap=9, by="site", keys=["a", "b", "c"], key_cap=1)
    >>> totals = panel >> ts.then_totals({"city": {"north": ["a", "b"], "south": ["c"]}})
    >>> import numpy as np
    >>> totals({"id": np.array([1, 2, 3]), "step": np.array([0, 0, 1]), "site": np.array(["a", "b", "c"])})
    [2.0, 1.0, 2.0, 0.0, 0.0, 1.0]
    >>> panel.map(1)
    Influence(l0=2, l2=1.41422, linf=1, key_cap=1)
    >>> totals.map(1)
    Influence(l0=4, l2=2, linf=1)
    """
    input_atom = vector_space(input_domain).atom
    input_space = influence_space(input_metric)
    origin = None if input_space is None else input_space.signal
    bits = 0 if origin is None else origin.count.resolution_bits
    has_wrong_atom = input_atom.startswith("f") != (bits > 0)  # counts with a fraction are floats, others integers
    if origin is None or origin.count.panel is None or origin.stages or has_wrong_atom:
        needed = "that of a panel (`by=`, `keys=`) right after its count; filter totals afterwards"
        raise TypeRefusal("input_metric", input_metric, f"must be {needed}")
    panel, steps = origin.count.panel, origin.grid.size
    tree = Groups.of(groups, panel)
    matrix = _membership(tree, panel)
    limit = 2 ** (53 - bits) // max(len(keys) for _, keys in tree.members)

    def function(values: ArrayLike) -> NDArray[np.int64 | np.float64]:
        counts = np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64)), -limit, limit)
        sums = np.asarray(matrix @ counts.reshape(len(panel), steps)).ravel()
        return sums if bits else sums.astype(np.int64)

    def stability_map(d_in: object) -> Influence:
        return tree_influence(as_influence(d_in), tree, steps)

    domain = signal_domain("f64" if bits else "i64", steps * len(tree.names))
    metric = signal_metric(origin.after(tree))
    return transformation((input_domain, input_metric), (domain, metric), function, stability_map)


def _membership(tree: Groups, panel: tuple[str | int, ...]) -> "scipy.sparse.csr_array":
    """Return one row per group, one column per series: 1 where the series is in the group."""
    places = {key: k for k, key in enumerate(panel)}
    columns = [places[key] for _, keys in tree.members for key in keys]
    rows = np.repeat(np.arange(len(tree.members)), [len(keys) for _, keys in tree.members])
    return scipy.sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(tree.members), len(panel)))


then_totals = then(make_totals)
