"""A design: what runs. A signal, how its steps are sampled, and the noise. All of it is public.

The loss of a release follows from its design, and from nothing else. Two designs are equal exactly if they are the same
query with the same noise.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self

from opendp_timeseries import _validate as check
from opendp_timeseries._json import encode, fields_of
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.accounting.subsampled import MIN_SCALE, ExtremalLaw, extremal_law
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal, UnknownSignal, check_extent
from opendp_timeseries.design.tiers import Tiers, tiers_for
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid

#: Entries of a signal are clamped to this magnitude, up to which float64 holds every whole number.
LARGEST_ENTRY: Final = 2.0**53
#: σ/γ is at least 2**24, as :data:`~opendp_timeseries.accounting.loss.DISCRETE_NOISE` needs.
_GRID_BITS: Final = 24
#: Signals off any known grid are rounded to one so fine that the step is invisible beside σ.
_ROUNDING_BITS: Final = 50


@dataclass(frozen=True, kw_only=True)
class Design:
    """A subsampled Gaussian behind the stages that make its signal.

    :param signal: what is released, before sampling and noise.
    :param sampling: how its steps are sampled (:mod:`~opendp_timeseries.accounting.sampling`).
    :param scale: standard deviation σ of the noise, not negative; without noise there is no finite loss.
    :raises TypeError, ValueError: for a number out of range, or samples of a count without a cap.
    """

    signal: Signal | UnknownSignal
    sampling: Sampling
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check.real("scale", self.scale, minimum=0.0))
        if self.signal.count is not None and self.signal.count.tiers is not None and self.sampling.probability < 1:
            raise Refusal(
                "sampling_probability",
                Quoted(f"{self.sampling.probability:g}"),
                "must be 1 for a count without a `participation_cap`: with fewer steps the noise falls by less than"
                " they do",
                "or give it one",
            )

    def __hash__(self) -> int:
        # Of a few fields alone, as a ledger looks up each of its many designs again and again.
        grid = None if self.signal.count is None else self.signal.count.grid
        return hash((self.scale, self.sampling, grid and (grid.size, grid.start)))

    @property
    def known_signal(self) -> Signal:
        """The signal; ValueError if it is not known how it is made."""
        if isinstance(self.signal, UnknownSignal):
            unnamed = "it is no series of counts, such as a histogram, or a stage before the noise"
            cause = unnamed if self.signal.stage is None else f"a stage ({self.signal.stage})"
            raise Refusal(
                "this signal",
                ...,
                f"is not known: {cause} is not of this package, so there is no statement, no record and no ledger"
                " entry",
                "use a count and stages of this package",
            )
        return self.signal

    @property
    def count(self) -> Count:
        """The count; ValueError if it is not known."""
        return self.known_signal.count

    @property
    def unit(self) -> Unit:
        """The unit of privacy; ValueError if it is not known."""
        return self.count.unit

    def loss(self, distance: int = 1, *, periods: int = 1) -> PrivacyLoss:
        """Return the loss of a release at a distance between logs. Designs with the same loss share one law.

        For the parameters, see :meth:`.Count.influence`.

        :raises ValueError: if it is not known how the signal is made.
        """
        return self.law(distance, periods=periods).at(self.scale)

    def law(self, distance: int = 1, *, periods: int = 1) -> ExtremalLaw:
        """Return the worst-case law of the squared distance that sampling leaves, which does not depend on σ."""
        # Nor does it depend on which columns are read, or when: a year of months is accounted for once.
        signal, count = self.known_signal, self.count
        if count.per is None and (periods == 1 or count.unit.period is None):
            period = None if count.unit.period is None else Period(count.reading.period_length)
            unit, grid = replace(count.unit, period=period), TimeGrid(size=count.grid.size)
            reading, tiers = replace(count.reading, source=None, once_over=None, grid=grid, unit=unit), count.tiers
            # The last tier of a panel with groups goes by the calendar, too.
            if tiers is None or tiers.last(reading) == tiers.last(count.reading):
                count = replace(count, reading=reading)
        return _law(replace(signal, count=count), self.sampling, distance, periods)

    def python(self, *, log: str = "log", epsilon: float | None = None, delta: float | None = None) -> str:
        """Return the call that makes this release, ready to paste.

        :param log: the name of the log's variable.
        :param epsilon: ε of a private series whose noise is the least for (ε, δ); if left out, its scale is written.
        :param delta: δ at which the measurement is to state its loss; the whole profile if left out.
        :raises ValueError: if it is not known how the signal is made, or the count was made elsewhere.
        """
        count, signal, source = self.count, self.known_signal, self.count.source
        if source is None or source.exact:
            raise Refusal(
                "the call",
                ...,
                "is written for a count of an event log by event_log_domain(…) only",
                "write it by hand",
            )
        time = source.time or ("time" if source.identifier != "time" else "step")  # not used where no times are read
        sampling = self.sampling.arguments() | ({} if self.sampling.stratified else {"sampling": None})
        is_private_series = count.tiers is not None and not count.reading.is_once
        finds_scale = is_private_series and None not in (epsilon, delta)
        budget = {"epsilon": epsilon, "delta": delta} if finds_scale else {}
        stages = [_call_of_count(count, source, **budget)]
        if signal.groups is not None:
            stages.append(_call("then_totals", repr(signal.groups.tree)))
        stages += [_call("then_circulant_filter", f"ts.{kernel.python()}") for kernel in signal.kernels]
        noise = _call("then_subsampled_gaussian", repr(self.scale), **sampling, delta=delta)
        measurement = [f"count = {'count' if k else 'space'} >> {stage}" for k, stage in enumerate(stages)]
        measurement.append(f"measurement = count >> {noise}")
        if finds_scale:
            measurement = [f"measurement = space >> {stages[0]}"]
        lines = [
            "import opendp.prelude as dp, opendp_timeseries as ts",
            'dp.enable_features("contrib", "honest-but-curious")',
            *([] if source.time is None else [f"grid = {_call_of_grid(count.reading.row_grid)}"]),
            f"space = {_call('event_log_domain', identifier=source.identifier, time=time)}, {count.unit.python()}",
            *measurement,
            f"release = measurement({log})",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return the design as plain Python objects, ready for ``json.dumps``."""
        return self.known_signal.to_dict() | {"sampling": encode(self.sampling), "scale": self.scale}

    @classmethod
    def from_dict(cls, document: object) -> Self:
        """Read back what :meth:`to_dict` wrote; TypeError or ValueError for anything else."""
        fields = fields_of(document, "design", {"count": dict, "stages": list, "sampling": Sampling, "scale": float})
        check.real("scale", fields["scale"], above=0.0)
        signal = Signal.from_dict({name: fields.pop(name) for name in ("count", "stages")})
        check_extent([signal])
        return cls(signal=signal, **fields)


@lru_cache(maxsize=1024)
def _law(signal: Signal, sampling: Sampling, distance: int, periods: int) -> ExtremalLaw:
    influence = signal.influence(distance, periods=periods)
    return extremal_law(influence, sampling.probability, signal.size, sampling.name)


def noise_exponent(scale: float, resolution_bits: int | None) -> int:
    """Return the exponent ``k`` of the noise's grid ``2**k``: from σ and the signal's grid alone, before any data.

    :param scale: σ.
    :param resolution_bits: entries of the signal are multiples of ``2**-resolution_bits``; None if they are arbitrary.
    """
    if scale < MIN_SCALE:
        return -(resolution_bits or 0)
    fine = math.frexp(scale)[1] - 1
    if resolution_bits is None:
        return min(fine - _ROUNDING_BITS, 0)
    return min(fine - _GRID_BITS, -resolution_bits)


def _call(name: str, *arguments: str, **options: object) -> str:
    """Write a call of this package, without options that are None."""
    keywords = (f"{option}={value!r}" for option, value in options.items() if value is not None)
    return f"ts.{name}({', '.join([*arguments, *keywords])})"


def _call_of_grid(grid: TimeGrid) -> str:
    fields = grid.to_dict()
    return _call("TimeGrid.from_edges" if "edges" in fields else "TimeGrid", **fields)


def _call_of_count(count: Count, source: Source, **budget: float | None) -> str:
    """Write the call of a count; of a private series within a budget, with its noise."""
    reading, weighting = count.reading, count.weighting
    panel = {} if reading.panel is None else {"by": source.by, "keys": list(reading.panel)}
    tiers, sizes = _arguments_of_tiers(count)
    if reading.is_once:
        grid = [] if source.time is None else ["grid=grid"]
        return _call("then_individual_count", *grid, *tiers, **panel, key_cap=count.cap if panel else None)
    options: dict[str, object] = {"participation_cap": count.cap}
    options |= {name: getattr(reading, name) for name in ("step_cap", "gap") if getattr(reading, name) > 1}
    if reading.is_sum:
        options |= {"step_cap": None, "value": source.value, "bound": reading.step_cap}
    options |= {**sizes, "key_cap": reading.key_cap, **panel}
    if isinstance(weighting, Tiers):
        if reading.grouping is not None:
            options |= {"groups": reading.grouping.groups.tree, "shares": reading.grouping.fractions()}
        name = "then_private_series" if budget else "then_participation_count"
        return _call(name, "grid", *tiers, **budget, **options)
    per = [] if count.per is None else [f"per={_call_of_grid(count.per)}"]
    return _call("then_participation_count", "grid", *per, **options, **weighting.arguments())


def _arguments_of_tiers(count: Count) -> tuple[list[str], dict[str, int | None]]:
    """Return how a call gives the tiers of a count: as they are, or by the sizes from which they follow, if need be."""
    tiers, reading = count.tiers, count.reading
    if tiers is None or tiers == tiers_for(reading):
        return [], {}
    sizes = {} if reading.is_once else {"typical": tiers.typical, "total_bound": tiers.total_bound}
    return ([], sizes) if tiers == tiers_for(reading, **sizes) else ([f"tiers=ts.{tiers}"], {})
