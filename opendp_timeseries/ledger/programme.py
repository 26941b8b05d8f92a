"""Programmes: releases planned together in advance, with the noise that keeps all of them within one budget."""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from os import PathLike
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike

from opendp_timeseries import _validate as check
from opendp_timeseries._json import fields_of, parse_json, read_versioned, written
from opendp_timeseries._refusal import Refusal
from opendp_timeseries._tables import html_table, text_table
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import Budget, warn_of_large_delta
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.kernels import Kernel, identity_kernel
from opendp_timeseries.design.signal import check_extent
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.planning.errors import ExpectedError, error_at_tiers, expected_error
from opendp_timeseries.planning.participation import participation_of
from opendp_timeseries.planning.signal import SignalDescription, described_signal
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.mechanisms import signal_of
from opendp_timeseries.plugin.subsampled_gaussian import check_room, make_part, sample_of
from opendp_timeseries.release.documents import population_of
from opendp_timeseries.release.statement import Parent

_FORMAT: Final = "opendp_timeseries programme"
#: A recomputed joint loss may differ in the last digits between machines.
_TOLERANCE: Final = 1 + 1e-9


@dataclass(frozen=True, kw_only=True, repr=False)
class Programme:
    """Releases that are fixed in advance, within one joint budget, as :meth:`plan` makes them.

    It prints as a table. The joint loss of all releases is smaller than the sum of their (ε, δ): twelve equal months
    need about a quarter of the noise. It is exact if the loss of each release is, and every step is kept or data do not
    react.

    :param designs: of the releases, in order.
    :param budget: of all releases together: (ε, δ), or ρ if none of them is sampled.
    :param adaptivity: ``"adaptive"``, or ``"non-adaptive"``: a promise that later data do not react to earlier
        releases. Where steps are sampled, it reduces the noise of counts that downweight people above the cap (the
        default), of filtered counts and of stratified samples. It changes nothing if every step is kept, nor for
        unfiltered counts with ``excess="drop"`` whose steps are sampled by themselves.
    :raises ValueError: if there is no release, or they are not about the same individuals, or exceed the budget.
    """

    designs: tuple[Design, ...]
    budget: Budget
    adaptivity: Adaptivity = Adaptivity.QUERIES

    def __post_init__(self) -> None:
        adaptivity = Adaptivity.of(self.adaptivity, Adaptivity.NONE, Adaptivity.QUERIES)
        object.__setattr__(self, "adaptivity", adaptivity)  # a name of it, too
        if len({population_of(design) for design in self.designs}) != 1 or self.unit.individuals != 1:
            units = sorted({design.unit.of(1) for design in self.designs})
            raise Refusal(
                "releases",
                ...,
                "must be at least one, and all for the same unit of privacy and the same columns, such as one"
                " individual added or removed",
                f"found {units}",
            )
        budget, loss = self.budget, self.loss()
        check_room(budget.view, self.designs)
        if budget.cost(loss) > budget.limit * _TOLERANCE:
            at = "" if budget.delta == 0 else f" at δ = {budget.delta:g}"
            raise Refusal(
                "the releases of the programme",
                ...,
                f"have {budget.symbol} = {printed_up(budget.spent(loss))} together{at}, which exceeds its budget of"
                f" {budget.symbol} = {budget.first:g}",
                "raise it, or the scales",
            )

    @classmethod
    def plan(
        cls,
        chains: Sequence[native.Transformation],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        sampling_probability: float | Sequence[float],
        sampling: str = "poisson",
        relative_scales: Sequence[float] | None = None,
        adaptivity: str = "adaptive",
    ) -> Programme:
        """Find the noise scales with which several releases stay within a joint budget, without any data.

        :param chains: counts, with or without filters, one for each release.
        :param epsilon: ε of all releases together.
        :param delta: δ of all releases together.
        :param rho: ρ of all releases together, in place of both, if none of them is sampled.
        :param sampling_probability: with which each step is kept: one for all releases, or one for each.
        :param sampling: ``"poisson"`` or ``"stratified"``, for all releases.
        :param relative_scales: ratios of the noise scales to each other; if left out, all are equal.
        :param adaptivity: ``"adaptive"``, or ``"non-adaptive"``: a promise, stated in the document, that later data do
            not react to earlier releases, as traffic does when a published jam makes drivers turn away. See
            :class:`Programme`.
        :raises TypeError: for a chain whose design is not known.
        :raises ValueError: for a number out of range, or if no scales suffice.

        >>> import opendp.prelude as dp, opendp_timeseries as ts
        >>> dp.enable_features("contrib", "honest-but-curious")
        >>> space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
        >>> def month(start):
        ...     grid = ts.TimeGrid(start=start, step="1h", size=720, zone="UTC")
        ...     return space >> ts.then_participation_count(grid, participation_cap=30)
        >>> quarter = ts.Programme.plan([month(f"2024-{m:02}-01") for m in (1, 2, 3)],
        ...     epsilon=1.0, delta=1e-6, sampling_probability=0.2)
        >>> quarter
        3 releases within (ε = 1, δ = 1e-06) for one individual added or removed
        release  from               steps      cap  kept  scale  alone
        1        2024-01-01T00:00Z  720 of 1h  30   0.2   21.04  ε = 0.55...
        2        2024-02-01T00:00Z  720 of 1h  30   0.2   21.04  ε = 0.55...
        3        2024-03-01T00:00Z  720 of 1h  30   0.2   21.04  ε = 0.55...
        >>> quarter.measurement(month("2024-02-01")).map(1)
        (0.55..., 1e-06)
        """
        budget = Budget.of_several(epsilon=epsilon, delta=delta, rho=rho)
        warn_of_large_delta(delta, stacklevel=2)
        signals = [signal_of(chain) for chain in chains]
        probabilities = _per_release("sampling_probability", sampling_probability, len(signals))
        relative = _per_release("relative_scales", 1.0 if relative_scales is None else relative_scales, len(signals))
        samples = [
            sample_of(p, sampling, signal.size).sampling for signal, p in zip(signals, probabilities, strict=True)
        ]
        designs = [
            Design(signal=signal, sampling=sample, scale=scale)
            for signal, sample, scale in zip(signals, samples, relative, strict=True)
        ]
        if not designs:
            raise Refusal("chains", ..., "must name at least one release")
        losses = [design.loss() for design in designs]
        factor = calibrate(
            lambda factor: joint_loss(losses, adaptivity=adaptivity, factor=factor),
            budget,
            start=1 / min(relative),
        )
        if factor == 0:
            raise Refusal("sampling_probability", ..., "must keep some step: nothing would be released")
        return cls(
            designs=tuple(replace(design, scale=design.scale * factor) for design in designs),
            budget=budget,
            adaptivity=Adaptivity(adaptivity),
        )

    @cached_property
    def identifier(self) -> str:
        """Digest of the programme."""
        return hashlib.sha256(self.to_json().encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def parent(self) -> Parent:
        """The parent of each release."""
        view, pair = self.budget.view, self.budget.pair
        return Parent(kind="programme", loss=pair, measure=view.measure, identifier=self.identifier)

    @property
    def unit(self) -> Unit:
        """The unit of privacy: the change that is a distance of 1 between two logs."""
        return self.designs[0].unit

    def __len__(self) -> int:
        """Return the number of releases."""
        return len(self.designs)

    def loss(self) -> PrivacyLoss:
        """Return the joint loss of all releases."""
        return joint_loss([design.loss() for design in self.designs], adaptivity=self.adaptivity)

    def measurement(self, chain: native.Transformation, *, number: int | None = None) -> native.Measurement:
        """Return the measurement of a release, which states its own loss and the programme it belongs to.

        :param chain: a count of the programme, with its filters.
        :param number: of the release, from 1, if the programme has several of this chain.
        :raises TypeError: for a chain whose design is not known.
        :raises ValueError: if it is not in the programme, or occurs several times and ``number`` is left out.
        """
        signal = signal_of(chain)
        numbers = [k for k, design in enumerate(self.designs, 1) if design.signal == signal and number in (None, k)]
        if len({self.designs[k - 1] for k in numbers}) != 1:
            place = "" if number is None else f" as number {number}"
            raise Refusal(
                "chain",
                ...,
                "must match one release of the programme, in columns, grid, caps and filters, not"
                f" {len(numbers)}{place}",
                f"give `number=`, one of {', '.join(map(str, numbers))}" if numbers else "",
            )
        position = numbers[0] if len(numbers) == 1 else None
        parent = replace(self.parent, number=position, parts=len(self))
        domain, metric = chain.output_space
        return chain >> make_part(domain, metric, self.designs[numbers[0] - 1], self.budget.view, parent)

    def expected_errors(
        self, *, over: int = 1, participation: Mapping[float, int] | None = None, **assumed: Unpack[SignalDescription]
    ) -> tuple[ExpectedError, ...]:
        """Return the expected errors of each release, as :func:`~opendp_timeseries.plan` does, without private data.

        They exclude what caps leave out. Totals over time and numbers of individuals err by their noise; the number of
        everybody at each key errs at most by the noise of the last tier. Sums of a value are assumed to be of typical
        ones; for a panel, errors are of each key, with those of the totals.

        :param over: how many steps in a row are added up: 24 for days of hours, and at most all steps of a release. Of
            sums, the error of ``smoothed`` and of totals is known, unless steps are sampled.
        :param participation: for private series, in how many steps of a release people come, as
            ``{0.9: 20, 1.0: 500}``: 90% in at most 20, the heaviest in 500, or in all if there are fewer. By default,
            counts are spread evenly over the octaves of that; where most come often, errors are larger, of totals by
            up to 60%.
        :param assumed: description of the series, as for :func:`~opendp_timeseries.plan`: ``level``,
            ``season_amplitudes``, ``deviation`` and ``time_scale``, or a **public** series that resembles the private
            series as ``proxy``.
        :raises ValueError: for a number out of range, not exactly one description of the series, or capped sums.
        """
        check.integer("over", over, minimum=1)

        @lru_cache
        def sampled(size: int, kernels: tuple[Kernel, ...], sampling: Sampling, scale: float) -> ExpectedError:
            kernel = reduce(Kernel.convolve, kernels) if kernels else identity_kernel(size)
            return expected_error(described_signal(size, **assumed), kernel, sampling, scale, min(over, size))

        @lru_cache
        def at_tiers(count: Count, scale: float, usual: float) -> ExpectedError:
            assert count.tiers is not None
            often = participation_of(participation or {}, count.reading.max_steps, of_longer=True)
            signal = described_signal(count.grid.size, **assumed, usual=usual)
            return error_at_tiers(signal, count, scale, often, min(over, count.grid.size))

        def error(design: Design) -> ExpectedError:
            tiers, is_sum = design.count.tiers, design.count.reading.is_sum
            if is_sum and tiers is None:
                series = f"sums of a value ({design.count.reading.log.value!r}) with a cap"
                raise Refusal(
                    "a series", ..., f"must not be described for {series}, of which no error is predicted yet"
                )
            size, kernels = design.known_signal.grid.size, design.signal.kernels
            p, scale = design.sampling.probability, design.scale
            if design.count.per is not None or size == 1:
                if tiers is not None:
                    scale *= 2**RESOLUTION_BITS / int(tiers.table(tiers.last(design.count.reading)).weights[0, -1])
                return ExpectedError(scale, *((math.nan, math.nan) if p < 1 or kernels else (0.0, scale)))
            if tiers is not None:
                count = replace(design.count, reading=replace(design.count.reading, source=None))
                return at_tiers(count, scale, tiers.typical if is_sum else 1.0)
            return sampled(size, kernels, design.sampling, scale)

        return tuple(map(error, self.designs))

    def preview(
        self,
        path: str | PathLike[str] | None = None,
        *,
        number: int = 1,
        level: float | None = None,
        season_amplitudes: Mapping[float, float] | None = None,
        deviation: float | None = None,
        time_scale: float | None = None,
        proxy: ArrayLike | None = None,
        **options: Any,
    ) -> str:
        """Return the page of a release as it would look, of made-up numbers, and write it where a path is given.

        :param path: of a file, such as ``"page.html"``.
        :param number: of the release, from 1.
        :param level: description of the series, as the four others, as for :func:`~opendp_timeseries.plan`.
        :param options: as of :meth:`.Plan.preview`, which says what the page is.
        :raises ValueError: without a level or a proxy.
        """
        from opendp_timeseries.planning.preview import preview_of  # which takes long

        remedy = "the releases are numbered from 1"
        number = check.integer("number", number, minimum=1, maximum=len(self), remedy=remedy)
        names = ("level", "season_amplitudes", "deviation", "time_scale", "proxy")
        values = (level, season_amplitudes, deviation, time_scale, proxy)
        described = dict(zip(names, values, strict=True))
        return preview_of(self.designs[number - 1], self.budget.view, self.parent, described, path, options)

    def table(self, **assumed: Unpack[SignalDescription]) -> str:
        """Return the programme as a text table, with :meth:`expected_errors` if a series is described."""
        title, header, rows = self._rows(**assumed)
        return f"{title}\n{text_table(header, rows)}"

    def _rows(self, **assumed: Unpack[SignalDescription]) -> tuple[str, list[str], list[list[str]]]:
        budget, (columns, cells) = self.budget, design_table(self.designs)
        header = ["release", *columns, "alone"]
        rows = [
            [str(k), *row, f"{budget.symbol} = {printed_up(budget.spent(design.loss()))}"]
            for k, (row, design) in enumerate(zip(cells, self.designs, strict=True), 1)
        ]
        if assumed:
            header += ["error, interpolated", "smoothed"]
            for row, error in zip(rows, self.expected_errors(**assumed), strict=True):
                row += [f"{(error.noise**2 + error.bias**2) ** 0.5:.4g}", f"{error.smoothed:.4g}"]
        title = f"{len(self)} releases within {budget:g} for {self.unit}"
        return title, header, rows

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        title, header, rows = self._rows()
        return f"<p>{html.escape(title)}</p>{html_table(header, rows)}"

    def to_dict(self) -> dict[str, object]:
        """Return the programme as plain Python objects, ready for ``json.dumps``."""
        return {
            "format": _FORMAT,
            "version": 1,
            **self.budget.to_dict(),
            "adaptivity": str(self.adaptivity),
            "releases": [design.to_dict() for design in self.designs],
        }

    def to_json(self) -> str:
        """Return the programme as one JSON document; floats are written so that they read back exactly."""
        return written(self.to_dict())

    @classmethod
    def from_dict(cls, document: object) -> Programme:
        """Read back what :meth:`to_dict` wrote, in any version so far.

        :raises ValueError: if it is no such document, or its releases exceed its budget.
        """
        return read_versioned(document, _FORMAT, {1: _read_1})

    @classmethod
    def from_json(cls, text: str) -> Programme:
        """Read back what :meth:`to_json` wrote, as :meth:`from_dict` does."""
        return cls.from_dict(parse_json(text))


def _read_1(document: dict[str, object]) -> Programme:
    fields = fields_with_budget(document, "programme", {"adaptivity": str, "releases": tuple[Design, ...]})
    check_extent(design.known_signal for design in fields["releases"])
    return Programme(designs=fields["releases"], budget=fields["budget"], adaptivity=fields["adaptivity"])


_BUDGET: Final[dict[str, object]] = dict.fromkeys(("epsilon", "delta", "rho"), float | None)


def fields_with_budget(document: dict[str, object], name: str, types: dict[str, object]) -> dict[str, Any]:
    """Return the fields of a document, with its budget in place of ε, δ and ρ."""
    fields = fields_of({"rho": None, **document}, name, _BUDGET | types)
    budget = Budget.of_several(**{part: fields.pop(part) for part in _BUDGET})
    return {"budget": budget, **fields}


def _per_release(name: str, value: float | Sequence[float], count: int) -> list[float]:
    numbers = [value] * count if np.ndim(value) == 0 else list(value)  # type: ignore[arg-type]
    if len(numbers) != count:
        raise Refusal(name, ..., f"must be one number, or one for each of {count} chains", f"found {len(numbers)}")
    return [check.real(name, number, above=0.0) for number in numbers]


def design_table(designs: Sequence[Design]) -> tuple[list[str], list[list[str]]]:
    """Return a header, and a row for each design; what is counted stands first, if that is not the same of all."""
    subjects = [design.count.subject for design in designs]
    header, rows = ["from", "steps", "cap", "kept", "scale"], [list(_row(design)) for design in designs]
    if len({*subjects}) == 1:
        return header, rows
    return ["of", *header], [[subject, *row] for subject, row in zip(subjects, rows, strict=True)]


def _row(design: Design) -> tuple[str, ...]:
    signal, count, filters = design.known_signal, design.count, len(design.signal.kernels)
    reading = count.reading
    steps = str(count.grid.size) if count.grid.step is None else f"{count.grid.size} of {count.grid.step}"
    steps += ", totals" if signal.groups is not None else ""
    steps += f", {filters} filters" if filters > 1 else ", filtered" if filters else ""
    caps = "none" if count.cap is None else f"{count.cap}"
    caps += f" x {reading.step_cap}" if reading.step_cap > 1 else ""
    caps += f", {reading.gap} apart" if reading.gap > 1 else ""
    caps += f", {reading.key_cap} at a time" if reading.key_cap is not None else ""
    sample = f"{design.sampling.probability:.4g}{design.sampling.in_blocks}"
    return count.grid.start or "", steps, caps, sample, f"{design.scale:.4g}"
