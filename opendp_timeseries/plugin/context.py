"""A Context whose shares always add up, and whose queries account exactly for what they release.

OpenDP 0.16 cannot split some budgets of the form (ε, δ) or (ρ, δ): the sum of, say, 20 equal shares of (0.1, 1e-6)
rounds above one part and below the other, and pairs that are neither above nor below are an error. A query whose δ
alone exceeds its share fails only at ``.release()``, with a message about orderings. And where post-processing fails
after it has seen the noisy values, nothing is spent. Here the share is spent first.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from opendp.context import Chain, PartialChain
from opendp.extras.polars import Bound, LazyFrameQuery
from opendp.mod import LazyFrameDomain, Odometer, OdometerQueryable, UnknownTypeException

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED
from opendp_timeseries.accounting.rounding import down_fraction
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import (
    Loss,
    Losses,
    OpenQuery,
    Partial,
    as_measured,
    empty_frame,
    loss_form,
    maker_of,
    parts_of,
    registered_name,
    vector_space,
)
from opendp_timeseries.plugin.composition import least_factor_at, make_composition, measurements_on
from opendp_timeseries.plugin.lp_distance import make_lp_distance, moves_one_way
from opendp_timeseries.plugin.mechanisms import mechanism_of, noise_part, spending_first
from opendp_timeseries.plugin.spaces import (
    InfluenceSpace,
    descriptor,
    individuals_of,
    influence_space,
    keeps_individuals,
)
from opendp_timeseries.plugin.subsampled_gaussian import least_scale_at
from opendp_timeseries.release.release import Release
from opendp_timeseries.release.statement import Parent

#: Portion of a loss that several shares have together, so that sums of up to a million rounded shares stay within it.
_PORTION_OF_SHARES: Final = 1 - Fraction(1, 2**30)
#: OpenDP draws Gaussian noise for floats on the grid ``2**k``: four times as fast on this one as on its default, the
#: finest there is. Signals of ours lie on it.
_NATIVE_EXPONENT: Final = -52
#: Budgets of an odometer.
_UNBOUNDED: Final = (math.inf, (math.inf, math.inf), (math.inf, 1.0))
#: What to do where a Context has no shares.
_NO_SHARE: Final = "give one, as in context.query(epsilon=…, delta=…)"
_MEASURE_OPTIONS: Final = frozenset({"output_measure", "failure_probability", "delta"})
#: Constructors of OpenDP that take any domain, and those that take any LazyFrame.
_GENERAL: Final = frozenset({"identity", "user_measurement", "user_transformation"})
_OF_FRAMES: Final = _GENERAL | {"private_lazyframe", "stable_lazyframe"}


def _weights(name: str, weights: ArrayLike) -> list[float]:
    """Return the weights of a list, a tuple, an array or a series, which are public."""
    if np.ndim(weights) != 1:
        raise TypeRefusal(name, weights, "must be a list of weights, such as [3, 1]")
    listed = [check.real("weight", weight, above=0.0) for weight in np.asarray(weights).tolist()]
    if not listed:
        raise Refusal(name, ..., "must not be empty", "give one weight for each release")
    return listed


def split_budget(loss: Loss, weights: Sequence[float], portion: Fraction = _PORTION_OF_SHARES) -> Losses:
    """Split a privacy loss into shares whose sum is at most a portion of it; rounding may exceed a portion of 1.

    :param loss: ρ or ε, or a pair (ρ, δ) or (ε, δ).
    :param weights: of the shares, relative to their sum.
    :param portion: fraction of the loss that several shares have together: the rest is left for rounding.

    >>> [round(rho, 6) for rho, delta in split_budget((0.1, 1e-6), [0.1, 0.2, 0.7])]
    [0.01, 0.02, 0.07]
    """
    if isinstance(loss, tuple):
        return list(zip(*(split_budget(number, weights, portion) for number in loss), strict=True))
    divided = Fraction(check.real("loss", loss, minimum=0.0)) * (portion if len(weights) > 1 else 1)
    sum_of_weights = sum(map(Fraction, weights))
    return [down_fraction(divided * Fraction(weight) / sum_of_weights) + 0.0 for weight in weights]


def _pair(loss: Loss) -> tuple[float, float]:
    return loss if isinstance(loss, tuple) else (loss, 0.0)


def _is_within(losses: Any, limits: object) -> bool:
    pairs = zip(losses, limits, strict=True) if isinstance(limits, tuple) else [(losses, limits)]
    return all(part <= limit for part, limit in pairs)


def _exact_sum(spent: float, loss: float) -> Fraction | float:
    """Return a sum without rounding: OpenDP rounds it up, which exceeds a limit only where it does."""
    return Fraction(spent) + Fraction(loss) if math.isfinite(spent) and math.isfinite(loss) else math.inf


def compositor(
    data: object,
    privacy_unit: tuple[dp.Metric, float | Sequence[Bound]],
    privacy_loss: tuple[dp.Measure, Loss],
    split_evenly_over: int | None = None,
    split_by_weights: Sequence[float] | NDArray[np.floating] | None = None,
    domain: dp.Domain | None = None,
    margins: Sequence[object] | Mapping[object, Any] | None = None,
) -> Context:
    """Return a Context like ``dp.Context.compositor``'s, for any number of shares and with exact accounting.

    It takes the same arguments, in the same order, and answers in the same three ways: with equal shares of the budget;
    with unequal ones; or, without a split, with what each query says, ``context.query(epsilon=0.1, delta=1e-7)``, as
    long as the budget lasts (a filter), or without end if it is infinite (an odometer). Queries are
    :class:`~opendp_timeseries.plugin.context.Query`, whose noise spends the query's own share.

    :param data: the private data; nothing of it is read here.
    :param privacy_unit: metric and distance, such as ``(dp.symmetric_distance(), 1)``: one individual.
    :param privacy_loss: measure and loss, such as ``dp.loss_of(epsilon=1.0, delta=1e-6)``.
    :param split_evenly_over: number of equal shares; give this, ``split_by_weights`` or neither.
    :param split_by_weights: weights of unequal shares.
    :param domain: domain of the data, such as :func:`~opendp_timeseries.event_log_domain`; of a Polars LazyFrame it may
        be left out, and OpenDP takes the columns and types of the frame for public.
    :param margins: of a LazyFrame, OpenDP's descriptors of grouped data.
    :raises TypeError, ValueError: for an argument that does not fit. Queries raise ValueError, before any scale is
        told, if their failure probability or delta exceeds their share.

    >>> import opendp.prelude as dp, opendp_timeseries as ts, numpy as np
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> context = ts.compositor(
    ...     {"id": np.array([1, 2]), "step": np.array([0, 3])},
    ...     domain=ts.event_log_domain(identifier="id", time="step"),
    ...     privacy_unit=(dp.symmetric_distance(), 1),
    ...     privacy_loss=dp.loss_of(rho=0.1, delta=1e-8),
    ...     split_evenly_over=20)
    >>> query = context.query().participation_count(ts.TimeGrid(size=10), participation_cap=10)
    >>> query.subsampled_gaussian(sampling_probability=0.5, failure_probability=1e-3).param()
    Traceback (most recent call last):
    opendp_timeseries._refusal.Refusal: delta (0.000976562... at these settings, ...
    >>> query.subsampled_gaussian(sampling_probability=0.5).release()
    Release(... of 10 steps kept with probability 0.5, noise scale 31.6228)
    """
    weights = _weights_of_split(split_evenly_over, split_by_weights)
    for name, pair in (("privacy_unit", privacy_unit), ("privacy_loss", privacy_loss)):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeRefusal(name, pair, "must be a pair, as of dp.unit_of(…) and dp.loss_of(…)")
    example = "such as event_log_domain(identifier=…, time=…)"
    if domain is None:
        try:
            domain = dp.domain_of(data, infer=True)
        except (UnknownTypeException, dp.OpenDPException, TypeError):
            raise TypeRefusal(
                "domain", ..., f"must be given for data of type {type(data).__name__}, {example}"
            ) from None
    if not isinstance(domain, dp.Domain):
        raise TypeRefusal("domain", domain, f"must be a domain, {example}")
    if isinstance(margins, Mapping):
        warning = (
            'Margin dicts should be replaced with lists, with the key supplied as the "by" kwarg'  # OpenDP's words
        )
        warnings.warn(warning, DeprecationWarning, stacklevel=2)
        margins = [replace(margin, by=by) for by, margin in margins.items()]
    for margin in margins or ():
        domain = dp.with_margin(domain, margin)
    (metric, d_in), (measure, d_out) = privacy_unit, privacy_loss
    if isinstance(d_in, np.generic):
        d_in = d_in.item()  # OpenDP takes Python numbers only
    account = _account(domain, metric, d_in, measure, d_out, weights)
    context = Context(
        account.accountant,
        _queryable_of(account.accountant, data, domain),
        d_in=d_in,
        d_mids=account.shares,
        d_out=account.limit,
    )
    with contextlib.suppress(ValueError):  # no bound on the whole log: no count of this package fits
        people = individuals_of(d_in)
        context.distance = people if isinstance(people, int) and people >= 1 else 1
    context.guarantee = account.parent
    if weights is None or len(weights) > 1:
        context.parent = account.parent
    return context


def _queryable_of(accountant: dp.Measurement | Odometer, data: object, domain: dp.Domain) -> dp.Queryable:
    """Return the queryable of an accountant; where it refuses a list in a domain of single numbers, say so."""
    try:
        answer: dp.Queryable = accountant(data)
    except TypeError as error:
        with contextlib.suppress(UnknownTypeException, dp.OpenDPException, TypeError):
            if dp.vector_domain(domain) == dp.domain_of(data, infer=True):
                error.args = (f"{error}; To fix, wrap domain kwarg with dp.vector_domain()",)
        raise
    return answer


def _weights_of_split(
    share_count: int | None, weights: Sequence[float] | NDArray[np.floating] | None
) -> list[float] | None:
    """Return the weights of shares; None without a split."""
    if share_count is not None and weights is not None:
        raise Refusal("split_by_weights", weights, "must be left out beside split_evenly_over", "give one, or neither")
    if weights is not None:
        return _weights("split_by_weights", weights)
    if share_count is None:
        return None
    return [1.0] * check.integer("split_evenly_over", share_count, minimum=1, remedy="the number of releases")


class _Account(NamedTuple):
    """An accountant of OpenDP's, with its shares, or its limit; and the parent of its releases."""

    accountant: dp.Measurement | Odometer
    shares: Losses | None
    limit: Loss | None
    parent: Parent | None


def _account(
    domain: dp.Domain, metric: dp.Metric, d_in: object, measure: dp.Measure, d_out: Loss, weights: list[float] | None
) -> _Account:
    name, has_delta = loss_form(measure)
    bounded_by, bounded = None, d_out not in _UNBOUNDED
    if name and (bounded or weights is not None):
        first, delta = _pair(d_out)
        check.real(name, first, minimum=0.0)
        check.real("delta", delta, minimum=0.0, below=1.0)
    if bounded and (name == "rho" or (name and has_delta)):
        kind = CONCENTRATED if name == "rho" else APPROXIMATE
        bounded_by = Parent(
            kind="context", loss=_pair(d_out), measure=kind, parts=None if weights is None else len(weights)
        )
    if weights is not None:
        # OpenDP adds up with rounding: where that exceeds the whole, a little of it is kept back.
        for portion in (Fraction(1), _PORTION_OF_SHARES):
            shares = split_budget(d_out, weights, portion)
            composition = dp.c.make_adaptive_composition(domain, metric, measure, d_in=d_in, d_mids=shares)
            if _is_within(composition.map(d_in), d_out):
                return _Account(composition, shares, None, bounded_by)
        raise Refusal(
            "privacy_loss", Quoted(d_out), f"has no {len(weights)} shares whose sum is within it", "give fewer"
        )
    odometer = dp.c.make_fully_adaptive_composition(domain, metric, measure)
    if not bounded:
        return _Account(odometer, None, None, None)
    return _Account(dp.c.make_privacy_filter(odometer, d_in, d_out), None, d_out, bounded_by)


class Context(dp.Context):
    """An OpenDP Context whose queries account exactly for what this package releases."""

    #: What its releases are a part of; None if there is one share, or the budget is of ε alone, or infinite.
    parent: Parent | None = None
    #: What all that it releases, in nested Contexts too, guarantees.
    guarantee: Parent | None = None
    #: How many individuals, or other units of privacy, the guarantee is for.
    distance: int = 1
    #: Whether its releases are numbered: not where it is nested in another one.
    numbered: bool = True
    #: For a nested Context behind a count, the name of the count's invocation, which all of its queries share.
    invocation: str | None = None

    def __call__(self, query: dp.Measurement) -> object:
        """Answer a query: spend its share first, and post-process the noisy values only then.

        A release says for which distance its guarantee is, and of which Context it is a part.
        """
        noise, then = noise_part(query)
        self._check_left(noise)
        number = len(self.d_mids_consumed) + 1
        answer = self._with_parent(spending_first(super().__call__(noise), self.queryable), noise, number)
        return answer if then is None else then(answer)

    def _check_left(self, measurement: dp.Measurement) -> None:
        """Refuse what a filter has no room for: OpenDP would answer no later query, or say that pairs have no order."""
        limit: object = self.d_out
        if not (isinstance(self.queryable, OdometerQueryable) and isinstance(limit, float | int | tuple)):
            return
        spent, loss = self.current_privacy_loss(), measurement.map(self.d_in)
        numbers = zip(*(pair if isinstance(limit, tuple) else (pair,) for pair in (spent, loss)), strict=True)
        spent_with_query = tuple(itertools.starmap(_exact_sum, numbers))
        if not _is_within(spent_with_query, limit if isinstance(limit, tuple) else (limit,)):
            raise Refusal(
                "loss of the query",
                Quoted(loss),
                f"exceeds what is left of the Context's {self.d_out}, of which {spent} is spent",
                "ask for less",
            )

    def _with_parent(self, answer: object, measurement: dp.Measurement, number: int) -> object:
        """Return releases that say for whom they are, and what their parent is; anything else as it is."""
        if isinstance(answer, list):
            return [self._with_parent(release, measurement, number) for release in answer]
        if not isinstance(answer, Release):
            return answer
        if self.invocation is not None:
            answer = replace(answer, invocation=self.invocation)
        if (statement := answer.statement) is None:
            return answer
        distance, parent = self.distance, statement.parent
        if self.parent is not None:
            parent = replace(self.parent, number=number) if self.numbered else self.parent
        elif parent is not None and distance > 1:  # it says what is lost at a distance of 1
            mechanism = mechanism_of(measurement) if parent.kind == "composition" else None
            points = None if mechanism is None else statement.view.points(mechanism.loss(distance))
            parent = None if points is None else replace(parent, loss=points[0])
        return replace(answer, statement=replace(statement, distance=distance, parent=parent, loss=()))

    def query(self, **kwargs: object) -> Query | LazyFrameQuery:
        """Start a query on the next share; of a Polars LazyFrame, OpenDP's own, which knows no plugins."""
        query = super().query(**kwargs)
        return query if isinstance(query, LazyFrameQuery) else _exact(query)

    def log_query(self, rows: object = None, **kwargs: object) -> Query:
        """Start a query on the next share whose data are an event log: of a LazyFrame too.

        :param rows: of a LazyFrame, a Polars expression for the rows to read, such as ``pl.col("origin") == "JFK"``. It
            is public; a release says nothing of it.
        :param kwargs: as of ``query()``.
        """
        query = _exact(super().query(**kwargs))
        if rows is None:
            return query
        domain = query._space()[0]
        if not isinstance(domain, LazyFrameDomain):
            raise TypeRefusal(
                "rows", ..., f"are for a LazyFrame, not for {domain}", "leave out the others before the log is given"
            )
        of_rows = query.stable_lazyframe(empty_frame(domain).filter(rows))
        if not keeps_individuals(cast(dp.Transformation, of_rows.chain)):
            raise Refusal(
                "rows",
                ...,
                f"must be left out with {query._space()[1]}, of which 1 may be two individuals behind them, so that"
                " releases could not state their guarantee",
                "use dp.symmetric_id_distance(…), or filter before",
            )
        return of_rows


def _exact(query: dp.Query | LazyFrameQuery) -> Query:
    return Query(*parts_of(query))


def _cast(noise: str, domain: dp.Domain, metric: dp.Metric) -> dp.Transformation:
    """Return the cast of a signal to the metric that a noise needs; outside the influence metric, an identity."""
    if influence_space(metric) is None:
        return dp.t.make_identity(domain, metric)
    space = vector_space(domain)
    if noise == "noisy_max":
        one_way = moves_one_way(cast(InfluenceSpace, influence_space(metric)))
        T = "f64" if space.atom.startswith("f") else "i64"
        return make_lp_distance(domain, metric, dp.linf_distance(T=T, monotonic=one_way))
    if space.size == 1:
        return make_lp_distance(domain, metric, dp.absolute_distance(T=float if space.atom.startswith("f") else int))
    return make_lp_distance(domain, metric, dp.l1_distance(T=float) if noise == "laplace" else dp.l2_distance(T=float))


def _not_of_logs(name: str, frame: bool, problem: str) -> TypeRefusal:
    remedy = "for OpenDP's own queries make the log a Polars LazyFrame (howto/contexts in the documentation)"
    if frame:
        remedy = f"if it is OpenDP's own, query().{name}(…) on the Context asks it of the LazyFrame"
    return TypeRefusal(
        f"{name}()",
        ...,
        f"{problem} an event log: individual_count() counts people, private_series(grid) releases a count"
        " in each step of time, and participation_count(grid, participation_cap=…) counts with a cap",
        remedy,
    )


class Query(OpenQuery):
    """An OpenDP query in which a subsampled Gaussian spends the query's share, and not less."""

    def __getattr__(self, name: str) -> Callable[..., Query]:
        """Return what adds the stage of this name: of this package, or of OpenDP where it takes these data."""
        if name.startswith("_"):
            return cast(Callable[..., Query], super().__getattr__(name))  # which raises
        name = registered_name(name)
        space = self.chain if isinstance(self.chain, tuple) else getattr(self.chain, "output_space", [None])
        domain = space[0]
        frame, maker = isinstance(domain, LazyFrameDomain), maker_of(name)
        of_logs = frame or descriptor(domain, Source) is not None
        if of_logs and maker is None:
            raise AttributeError(str(_not_of_logs(name, frame, "is no stage of a query of")))
        make = cast(Callable[..., Query], super().__getattr__(name))

        def stage(*args: object, **options: object) -> Query:
            if of_logs and str(maker).startswith("opendp.") and name not in (_OF_FRAMES if frame else _GENERAL):
                raise _not_of_logs(name, frame, "is OpenDP's, and does not take")
            query = make(*args, **options)
            query.chain = self._in_budget(query.chain)
            return query

        return stage

    def _in_budget(self, chain: Chain) -> Chain:
        """Return a measurement in pure ε as one in ρ for a budget in (ρ, δ), a conversion that OpenDP leaves out."""
        if loss_form(self.output_measure) != ("rho", True):
            return chain
        if isinstance(chain, PartialChain):
            return PartialChain(lambda parameter: self._in_budget(chain(parameter)))
        if isinstance(chain, dp.Measurement) and chain.output_measure == dp.max_divergence():
            return dp.c.make_pureDP_to_zCDP(chain)
        return chain

    def laplace(self, *args: object, **options: object) -> Query:
        """Add OpenDP's Laplace noise, with the scale that spends this query's share if none is given.

        It spends no δ, and fits every kind of budget, but no count that weighs people down in ℓ2, as is the default of
        ``participation_count``: give that ``norm="l1"`` or ``excess="drop"``.
        """
        return self._native("laplace", *args, **options)

    def gaussian(self, *args: object, **options: object) -> Query:
        """Add OpenDP's Gaussian noise, with the scale that spends this query's share if none is given.

        In (ε, δ) OpenDP states its loss by way of zCDP; ``subsampled_gaussian(sampling_probability=1)`` adds the same
        noise with its exact loss, and so less of it.

        :raises ValueError: for a budget in ε alone, which Gaussian noise does not keep.
        """
        if self.output_measure == dp.max_divergence():
            raise Refusal(
                "gaussian()",
                ...,
                f"does not fit a budget in {self.output_measure}, as no scale of it has a finite ε without δ",
                "call laplace(), of a participation_count with `norm='l1'` or `excess='drop'`, or give the Context"
                " dp.loss_of(epsilon=…, delta=…)",
            )
        return self._native("gaussian", *args, **options)

    def noisy_max(self, **options: object) -> Query:
        """Say where the largest number is, by OpenDP's noisy max, with the scale that spends this query's share.

        Of counts it is at the noise of one count, whatever the number of steps that individuals are in, so that the
        cap can be so large that nobody exceeds it. The answer is a position: ``grid.edges()[answer]`` is the start of
        the busiest step. Of a panel, ``divmod(answer, grid.size)`` are the positions of its key and its step.

        :param options: ``scale=``, if the least is not to be found; ``negate=True`` for the smallest number.
        """
        in_rho = loss_form(self.output_measure).first == "rho"
        return self._native(
            "noisy_max", dp.zero_concentrated_divergence() if in_rho else dp.max_divergence(), **options
        )

    def _native(self, noise: str, *args: object, **options: object) -> Query:
        chain = self.chain
        query = self
        space = chain if isinstance(chain, tuple) else getattr(chain, "output_space", None)
        if isinstance(chain, PartialChain):
            query = self.new_with(chain=chain >> Partial(partial(_cast, noise)))
        elif space is not None and influence_space(space[1]) is not None:
            cast_to = _cast(noise, *space)
            if noise == "gaussian" and vector_space(space[0]).atom == "f64":
                options = {"k": _NATIVE_EXPONENT} | options
            query = self.new_with(chain=cast_to if isinstance(chain, tuple) else chain >> cast_to)
        return query.__getattr__(noise)(*args, **options)

    def new_with(self, *, chain: Chain, wrap_release: Callable[[dp.Queryable], object] | None = None) -> Query:
        """Return this query with another chain."""
        release = self.wrap_release if wrap_release is None else wrap_release
        return Query(chain, self.output_measure, self.d_in, self.d_out, self.context, release)

    def compositor(
        self,
        split_evenly_over: int | None = None,
        split_by_weights: Sequence[float] | NDArray[np.floating] | None = None,
        d_out: Loss | None = None,
        output_measure: dp.Measure | None = None,
        alpha: float | None = None,
    ) -> Query:
        """Nest a Context on this query's share, whose queries are answered behind the stages so far.

        :param split_evenly_over: number of equal shares, as in :func:`compositor`, like the next; or neither.
        :param split_by_weights: weights of unequal shares.
        :param d_out: what it may lose; this query's share if left out.
        :param output_measure: in which the nested Context accounts, if not in that of this query, as in OpenDP.
        :param alpha: fraction of this query's δ that is the δ of a budget in (ρ, δ), if the query's own is in (ε, δ).
        :raises ValueError: if this query has no share, or a stage lacks a parameter.
        """
        chain = self.chain
        if isinstance(chain, PartialChain):
            raise Refusal("chain", ..., "must have all parameters before the compositor", "give what a stage lacks")
        weights = _weights_of_split(split_evenly_over, split_by_weights)
        share = self.d_out if d_out is None else d_out
        if share is None:
            raise Refusal("this query", ..., "has no share to nest on", f"{_NO_SHARE}, or `d_out=`")
        outer = self.context
        by_odometer = outer is not None and isinstance(outer.queryable, OdometerQueryable)
        if by_odometer and loss_form(self.output_measure) == ("rho", True):
            raise Refusal(
                "the budget",
                ...,
                "must not be in (ρ, δ) in a filter or odometer: OpenDP cannot answer queries of a Context nested in it",
                "give the outer one shares, or a budget in (ε, δ) or ρ",
            )
        measure = self.output_measure if output_measure is None else output_measure
        if output_measure is not None:
            share = as_measured(share, self.output_measure, output_measure, alpha)
        domain, metric, d_in = self._space()
        account = _account(domain, metric, d_in, measure, share, weights)
        accountant = account.accountant if isinstance(chain, tuple) else chain >> account.accountant

        def open_context(queryable: dp.Queryable) -> Context:
            context = Context(accountant, queryable, d_in, account.shares, share, (domain, metric))
            context.parent = context.guarantee = account.parent
            if isinstance(outer, Context):
                context.distance = outer.distance
                if outer.guarantee is not None:
                    context.parent = context.guarantee = replace(outer.guarantee, parts=None)
                    context.numbered = False
            if influence_space(metric) is not None:
                context.invocation = secrets.token_hex(16)
            return context

        return self.new_with(chain=accountant, wrap_release=open_context)

    def subsampled_gaussian(self, *args: object, **options: Any) -> Query:
        """Add the subsampled Gaussian within this query's share, see :func:`.make_subsampled_gaussian`.

        If you leave out the scale, the least is found. If you leave out the view of the loss, it is that of the budget:
        (ε, δ) by the exact profile, approximate zCDP whose failure probability is the δ of the share, or zCDP.

        :raises ValueError: for a budget in ε without δ, a sample without δ, or a share that is spent.
        """
        make = self.__getattr__("subsampled_gaussian")
        budget, options = self._share_and_view(options)
        if budget is None or args or "scale" in options or isinstance(self.chain, PartialChain):
            return make(*args, **options)
        # OpenDP's own search would find the same scale, asking the map some hundred times.
        probability = options.get("sampling_probability", check.REQUIRED)
        scale = least_scale_at(*self._space(), budget, probability, options.get("sampling", "poisson"))
        if scale == 0:
            raise Refusal(
                "sampling_probability",
                probability,
                "keeps no step, or nobody is counted at all",
                "raise it, or the caps",
            )
        query = make(scale, **options)
        return query._with_param(scale)

    def private_series(self, grid: TimeGrid, **options: object) -> Query:
        """Release a series of counts within this query's share, with no cap to choose: :func:`.make_private_series`.

        :param grid: the public grid of time steps.
        :param options: as in :func:`.make_participation_count` without a cap, such as ``by`` and ``keys``.
        :raises TypeError: for a budget of its own.
        """
        if given := sorted({"epsilon", "delta"} & options.keys()):
            raise TypeRefusal(" and ".join(given), ..., "must be left out: the query takes its own share of the budget")
        if options.get("participation_cap") is not None:
            raise TypeRefusal(
                "participation_cap", ..., "must be left out: a private series has none", "or use participation_count"
            )
        count = self.__getattr__("participation_count")(grid, **options)
        return count.subsampled_gaussian(sampling_probability=1.0)

    def composition(
        self, measurements: Sequence[dp.Measurement | Partial], *, factor: float | None = None, **options: Any
    ) -> Query:
        """Make several releases as one query, within its share of the budget: see :func:`.make_composition`.

        The view of the loss is chosen as in :meth:`subsampled_gaussian`.

        :param measurements: as there, or in their ``then_`` form, on the space of this query.
        :param factor: by which all scales are multiplied. If it is left out, scales are relative, and the least factor
            is found that keeps all releases together within the share.
        :raises ValueError: for a budget in ε without δ, a sample without δ, or a share that is spent.
        """
        chain = self.chain
        if isinstance(chain, PartialChain):
            raise Refusal("chain", ..., "must have all parameters before the composition", "give what a stage lacks")
        domain, metric, d_in = self._space()
        members = measurements_on(measurements, domain, metric)
        budget, options = self._share_and_view(options)
        if budget is not None and factor is None:
            factor = least_factor_at(members, budget, d_in)
            if factor == 0:
                raise Refusal("measurements", ..., "must keep a step, and count somebody: nothing would be released")
        composition = make_composition(members, factor=1.0 if factor is None else factor, **options)
        query = self.new_with(chain=composition if isinstance(chain, tuple) else chain >> composition)
        return query._with_param(factor)

    def _with_param(self, param: float | None) -> Query:
        """Return this query, with the parameter that was searched for."""
        chain: Any = self.chain
        chain.param = param
        return self

    def _space(self) -> tuple[dp.Domain, dp.Metric, Any]:
        """Return the domain, the metric and the distance behind the stages so far."""
        chain = self.chain
        if isinstance(chain, tuple):
            return *chain, self.d_in
        assert not isinstance(chain, PartialChain)  # which is refused before
        return *chain.output_space, chain.map(self.d_in)

    def _share_and_view(self, options: dict[str, Any]) -> tuple[Budget | None, dict[str, Any]]:
        """Return this query's share, and options with the view that it is in; no share where they choose the view."""
        if _MEASURE_OPTIONS & options.keys():
            return None, options
        name, has_delta = loss_form(self.output_measure)
        if not name or (name == "epsilon" and not has_delta):
            raise Refusal(
                f"a budget in {self.output_measure}",
                ...,
                "leaves no room for Gaussian noise, which always has some δ",
                "give the Context dp.loss_of(epsilon=…, delta=…), or ρ",
            )
        share = self.d_out
        if share is None and (name, has_delta) == ("rho", False):
            return None, options | {"output_measure": dp.zero_concentrated_divergence()}
        if share is None:
            raise Refusal(
                "this query", ..., "has no share of δ", f"{_NO_SHARE}, or its own `delta=` or `failure_probability=`"
            )
        first, delta = _pair(share)
        if not first > 0 or not 0 <= delta < 1 or (name == "epsilon" and delta == 0):
            if delta >= 1:
                raise Refusal("share of the budget", share, "must have a δ below 1", "give it less")
            rule = "a ρ above 0, and a δ of at least 0" if name == "rho" else "an ε and a δ above 0"
            raise Refusal("share of the budget", Quoted(share), f"must have {rule}", "give the Context more")
        if name == "epsilon":
            return Budget(epsilon=first, delta=delta), options | {"delta": delta}
        view = {"failure_probability": delta} if delta else {"output_measure": dp.zero_concentrated_divergence()}
        return Budget(rho=first, delta=delta), options | view

    def resolve(
        self, allow_transformations: bool = False, bounds: tuple[float, float] | None = None, T: object = None
    ) -> dp.Measurement | dp.Transformation:
        """Return the measurement, after a check that its loss fits the share."""
        chain = self.chain
        if isinstance(chain, tuple):
            counts = "individual_count(), or participation_count(grid, participation_cap=…), and noise"
            raise Refusal("query", ..., "asks nothing yet", f"go on with private_series(grid), or with {counts}")
        if isinstance(chain, dp.Transformation):
            if allow_transformations:
                return chain
            noise = "laplace() or gaussian(), or, for a series, by subsampled_gaussian(sampling_probability=…)"
            raise Refusal("query", ..., "is not yet a measurement: it adds no noise", f"end it by {noise}")
        if isinstance(self.d_out, tuple):  # of others none is asked for, and what is searched for may not take 1
            self._check_share(chain(1.0) if isinstance(chain, PartialChain) else chain, delta_alone=True)
        if isinstance(chain, PartialChain):
            if self.d_out is None:
                raise Refusal(
                    "this query", ..., "has no share to find a parameter for", f"{_NO_SHARE}, or the parameter"
                )
            chain = chain.fix(self.d_in, self.d_out, self.output_measure, bounds=bounds, T=T)
        resolved = dp.Query.resolve(self.new_with(chain=chain))
        if chain is self.chain:  # nothing was searched for: the noise is given
            self._check_share(resolved, delta_alone=False)
        if hasattr(chain, "param"):  # OpenDP loses it where it converts the measure
            resolved.param = chain.param  # type: ignore[union-attr]
        return resolved

    def _check_share(self, measurement: object, *, delta_alone: bool) -> None:
        """Refuse a loss too large for the share: OpenDP would say that two pairs have no order."""
        share: object = self.d_out
        if share is None or self.d_in is None or not isinstance(measurement, dp.Measurement):
            return
        loss = measurement.map(self.d_in)
        # A δ does not depend on the scale.
        if isinstance(loss, tuple) and isinstance(share, tuple) and loss[1] > share[1]:
            raise Refusal(
                "delta",
                Quoted(f"{loss[1]!r} at these settings, whatever the scale"),
                f"exceeds this query's share ({share[1]!r})",
                "lower `failure_probability=` or `delta=` to at most that",
            )
        if not delta_alone and not _is_within(loss, share):
            numbers, limits = (x if isinstance(x, tuple) else (x,) for x in (loss, share))
            raise Refusal(
                "loss of the query",
                Quoted(", ".join(map(repr, numbers))),
                f"exceeds this query's share ({', '.join(map(repr, limits))})",
                "leave out the scale to use the least that fits, or raise it",
            )
