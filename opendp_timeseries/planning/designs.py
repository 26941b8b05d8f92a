"""Designs for one budget, side by side, with the error to expect of each, and what to do."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.sampling import blocks_of, sampling_name
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.planning.calls import Call
from opendp_timeseries.planning.errors import expected_error
from opendp_timeseries.planning.participation import Participation, fraction_left
from opendp_timeseries.planning.scales import budget, counted, least_scale, smoothing_kernel
from opendp_timeseries.planning.signal import Signal, described_signal
from opendp_timeseries.planning.tables import html_table, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Design", "Plan", "Setting", "plan", "variance_ratio"]

_PROBABILITIES: Final = (0.1, 0.2, 0.5, 1.0)
#: Below this many kept steps on average, an expected error says little of any one release.
_MIN_KEPT: Final = 8
#: Sampling, a filter or a gap is recommended, and said to help, only where the error is less by this factor with it.
_CLEARLY: Final = 0.97
#: Where the error exceeds this share of a flat line's, the noise drowns the signal.
_DROWNED: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Design:
    """A way to release the series within the budget, and the error to expect; all errors are root mean squares.

    :param name: the mechanism.
    :param sampling_probability: ``p``; 1 keeps every step.
    :param std: width of the Gaussian filter in steps, 0 for none.
    :param scale: standard deviation σ of the noise.
    :param noise: what the noise contributes to the error of the interpolated series.
    :param bias: what the cap loses, the filter removes, and the signal does between kept steps, contribute to it.
    :param smoothed: error of the best linear smoother that knows the covariance of the signal, and nothing else; with
        what the cap loses.
    :param participation_cap: ``I``, steps per individual.
    :param gap: the least distance of two steps in which one individual is counted; 1 for any.
    :param lost: fraction of counts that the cap loses; None if that is not known.
    """

    name: str
    sampling_probability: float
    std: float
    scale: float
    noise: float
    bias: float
    smoothed: float
    participation_cap: int | None = None
    gap: int = 1
    lost: float | None = None

    @property
    def interpolated(self) -> float:
        """Error of linear interpolation between kept steps."""
        return math.hypot(self.noise, self.bias)

    def __str__(self) -> str:
        return self.name + (f", filter std {self.std:g}" if self.std else "")


@dataclass(frozen=True, eq=False)
class Setting:
    """What all designs of a plan have in common.

    :param signal: what is assumed of the signal.
    :param influence: how far the count moves between adjacent logs, with the recommended cap and gap.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param title: the setting in words.
    :param gaps_included: gaps of which it is known what they lose.
    """

    signal: Signal
    influence: Influence
    epsilon: float
    delta: float
    title: str
    gaps_included: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Designs for one budget, with the errors to expect: see :func:`~opendp_timeseries.plan`.

    It prints as a table with advice and the call to run, in a notebook too.

    :param setting: what they have in common.
    :param designs: caps, gaps and filters at every step, and sampling with the best cap and gap of these.
    :param call: what to run for the recommended design.
    :param others: further mechanisms, for comparison, which reconstruct the series in their own way.
    """

    setting: Setting
    designs: tuple[Design, ...]
    call: Call
    others: tuple[Design, ...] = ()

    def beside(self, *others: Design) -> Plan:
        """Return the plan with further mechanisms beside it, to print and draw; advice is not drawn from them.

        :param others: for the same setting, such as that of
            :func:`~opendp_timeseries.koga2022.fourier_planning.fourier_design`.
        """
        return replace(self, others=self.others + others)

    @property
    def deviation(self) -> float:
        """Standard deviation of the signal around its level: the error of a flat line at the true level."""
        return self.setting.signal.deviation

    @property
    def best_interpolated(self) -> Design:
        """The design with the least error of the interpolated series."""
        return min(self.designs, key=lambda design: design.interpolated)

    @property
    def best_smoothed(self) -> Design:
        """The design with the least error of the smoothed series."""
        return min(self.designs, key=lambda design: design.smoothed)

    @property
    def recommended(self) -> Design:
        """The design to run: one that none is clearly better than; of several, without sampling, filter and gap."""
        return _recommended(self.designs)

    @property
    def is_drowned(self) -> bool:
        """Whether a flat line would be about as close as any of the designs."""
        return min(design.smoothed for design in self.designs) > _DROWNED * self.deviation

    def advice(self) -> str:
        """Say what to do, what to expect of it, what sampling would cost or gain, and what is not known."""
        return "\n".join((*self._recommendation(), *self._on_sampling(), *self._cautions()))

    def python(self) -> str:
        """Return the Python code of the recommended design, for a ``log`` with the columns ``id`` and ``time``."""
        return self.call.python()

    def command(self) -> str | None:
        """Return the recommended design's command line; None where the command line does not offer it."""
        return self.call.command()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in plain numbers and text, for JSON."""
        return {
            "setting": self.setting.title,
            "epsilon": self.setting.epsilon,
            "delta": self.setting.delta,
            "signal": {"level": self.setting.signal.mean, "deviation": self.deviation},
            "recommended": _as_dict(self.recommended),
            "designs": [_as_dict(design) for design in (*self.designs, *self.others)],
            "is_drowned": self.is_drowned,
            "advice": self.advice().splitlines(),
            "python": self.python(),
            "command": self.command(),
        }

    def _recommendation(self) -> Iterator[str]:
        best = self.recommended
        gap = f", gap {best.gap}" if best.gap > 1 else ""
        level = self.setting.signal.mean
        share = f" ({best.smoothed / level:.1%} of the level)" if level else ""
        yield (
            f"Best: participation cap {best.participation_cap}{gap}, {best}, then a smoother: expected error"
            f" {best.smoothed:.4g}{share}."
        )
        if self.is_drowned:
            yield (
                f"The noise drowns the signal: a flat line would err by {self.deviation:.4g}. Take coarser steps, a"
                " smaller cap, or a larger budget."
            )
        else:
            yield f"A flat line would err by {self.deviation:.4g}."

    def _on_sampling(self) -> Iterator[str]:
        sampled = [design for design in self.designs if design.sampling_probability < 1]
        whole = [design for design in self.designs if design.sampling_probability == 1]
        if not (sampled and whole):
            return
        best, every = (min(some, key=_error) for some in (sampled, whole))
        if self.recommended.sampling_probability < 1:
            yield f"Sampling helps: every step would err by {every.smoothed:.4g}."
            return
        change = best.smoothed / every.smoothed - 1
        more = f"{change:.0%} more" if change >= 0.005 else "about the same"
        yield f"Sampling does not help: {best} would err by {best.smoothed:.4g}, {more}."
        line, straight = (min(some, key=lambda design: design.interpolated) for some in (sampled, whole))
        if line.interpolated < _CLEARLY * straight.interpolated:
            yield (
                f"Without a smoother it does: {line} would err by {line.interpolated:.4g}, every step by"
                f" {straight.interpolated:.4g}."
            )

    def _cautions(self) -> Iterator[str]:
        unknown = {design.gap for design in self.designs} - self.setting.gaps_included
        if self.recommended.lost is None:
            what = "What the cap loses" if unknown <= {1} else "What caps and gaps lose"
            yield f"{what} is not included; participation= tells."
        elif unknown:
            yield f"What a gap of {', '.join(map(str, sorted(unknown)))} loses is not included; participation= tells."
        yield from (f"{other}: expected error {other.interpolated:.4g}." for other in self.others)

    def _rows(self) -> tuple[list[str], list[list[str]], list[bool]]:
        """Header, cells, and whether a row is recommended; columns that say the same everywhere are left out."""
        best, shown = self.recommended, [*self._shown(), *self.others]
        columns = {
            "cap": [_dash(design.participation_cap) for design in shown],
            "gap": [_dash(design.gap if design.participation_cap else None) for design in shown],
            "design": [str(design) for design in shown],
            "lost": ["–" if design.lost is None else f"{design.lost:.1%}" for design in shown],
            **{
                name: [f"{getattr(design, name):.4g}" for design in shown]
                for name in ("scale", "noise", "bias", "interpolated", "smoothed")
            },
        }
        for name, value in (("cap", best.participation_cap), ("gap", best.gap)):
            if all(cell in (str(value), "–") for cell in columns[name]):
                del columns[name]
        if all(design.lost is None for design in shown):
            del columns["lost"]
        cells = [list(row) for row in zip(*columns.values(), strict=True)]
        return list(columns), cells, [design is best for design in shown]

    def _shown(self) -> Iterable[Design]:
        """All designs with the recommended cap and gap, and the best filter of each other pair."""
        best = self.recommended
        for pair, group in itertools.groupby(self.designs, key=_pair):
            same = list(group)
            yield from same if pair == _pair(best) else [min(same, key=_error)]

    def __repr__(self) -> str:
        header, rows, _ = self._rows()
        return f"{self.setting.title}\n{text_table(header, rows)}\n{self.advice()}"

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in self.advice().splitlines())
        return (
            f"<p>{html.escape(self.setting.title)}</p>{html_table(*self._rows())}{paragraphs}"
            f"<pre>{html.escape(self.python())}</pre>"
        )

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the expected errors of the designs that are printed; the recommended one's name is bold.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        drawn = (*self._shown(), *self.others)
        axes = new_axes(height=1.2 + 0.28 * len(drawn)) if axes is None else axes
        at = np.arange(len(drawn))
        axes.barh(at, [d.interpolated for d in drawn], height=0.62, color="0.82", label="interpolated")
        axes.barh(at, [d.noise for d in drawn], height=0.3, color="0.55", label="of which noise")
        axes.plot([d.smoothed for d in drawn], at, "k|", ms=11, mew=2, label="smoothed")
        axes.axvline(self.deviation, color="black", linewidth=0.8, linestyle=":", label="a flat line")
        axes.set_yticks(at, [self._label(d) for d in drawn], fontsize="small")
        axes.get_yticklabels()[drawn.index(self.recommended)].set_fontweight("bold")
        axes.invert_yaxis()
        axes.set_xlabel(
            "expected root mean squared error, in the signal's unit\n" + self.setting.title, fontsize="small"
        )
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small")
        return axes

    def _label(self, design: Design) -> str:
        header, _, _ = self._rows()
        cap = f"cap {design.participation_cap}, " if "cap" in header and design.participation_cap else ""
        gap = f"gap {design.gap}, " if "gap" in header and design.participation_cap else ""
        return f"{cap}{gap}{design}"


def _dash(value: int | None) -> str:
    return "–" if value is None else str(value)


def _as_dict(design: Design) -> dict[str, Any]:
    return asdict(design) | {"interpolated": design.interpolated}


def _pair(design: Design) -> tuple[int, int]:
    return design.participation_cap or 0, design.gap


def _error(design: Design) -> float:
    return design.smoothed


def _recommended(designs: Sequence[Design]) -> Design:
    """Return the plainest design of those that none is clearly better than."""
    least = min(map(_error, designs))
    near = [design for design in designs if least >= _CLEARLY * design.smoothed]
    return min(near, key=lambda design: (design.sampling_probability < 1, design.std, design.gap, design.smoothed))


def variance_ratio(sampled: Design, every: Design) -> float:
    """Return ``r = σ_p² / (p σ_1²)`` of a design and its like at every step: at 1 or more, sampling cannot help.

    After the best linear smoother, that is (docs/proofs/dominance.md).

    :param sampled: a design with sampling.
    :param every: the design with the same filter that keeps every step.
    """
    return sampled.scale**2 / (sampled.sampling_probability * every.scale**2)


def plan(
    grid: TimeGrid,
    *,
    participation_caps: int | Sequence[int],
    epsilon: float,
    delta: float,
    gaps: int | Sequence[int] = 1,
    participation: Participation | Mapping[int, Participation] | None = None,
    step_cap: int = 1,
    individuals: int = 1,
    level: float | None = None,
    seasons: Mapping[float, float] | None = None,
    deviation: float | None = None,
    time_scale: float | None = None,
    proxy: ArrayLike | None = None,
    sampling_probabilities: Sequence[float] | None = None,
    sampling: str = "poisson",
    stds: Sequence[float] = (0.0, 3.0, 10.0),
    replaced: bool = False,
) -> Plan:
    """Say which design to run within a budget, and what error to expect of it, without any private data.

    Each design gets the least noise that the exact privacy profile allows at (ε, δ). All caps, gaps and filters are
    compared at every step, which is the better start for a good smoother (docs/concepts/amplification.md). Sampling is
    then compared with the best cap and gap.

    The signal is a level, plus patterns that repeat, plus departures that die away exponentially (an
    Ornstein–Uhlenbeck process), plus Poisson's variance around these if the level is given: the model of
    :func:`~opendp_timeseries.smooth`. Or it is any signal with the spectrum of a public series. The error of linear
    interpolation is then exact, on average over kept sets that are drawn with a fixed public seed. So is that of the
    best linear smoother, but for the ends of long series. A smoother that must learn the model from the release errs
    more, and the more so the fewer steps there are. All errors are against the counts.

    :param grid: the grid of the count.
    :param participation_caps: candidates for ``I``, steps per individual; or the one.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param gaps: candidates for the least distance of two steps in which one individual is counted; or the one. It
        should be one within which nobody comes twice. A filter makes use of it.
    :param participation: who takes part how often, as far as it is public: what a cap loses then enters the error. The
        cap is chosen as if nothing were corrected afterwards. What gaps lose enters too if there is one for each gap, 1
        among them, as ``{1: …, 6: …}``.
    :param step_cap: ``M``, events per individual and step.
    :param individuals: how many the guarantee is for.
    :param level: mean count of a step; if left out, that of the participation, else unknown.
    :param seasons: the amplitude of each pattern, in counts, by its period in steps, such as ``{24: 60.0}``: half the
        way from its lowest to its highest, were it a sine.
    :param deviation: standard deviation of the departures, in counts.
    :param time_scale: steps within which departures change: their correlation at this lag is 0.37.
    :param proxy: instead of these four, a **public** series of the grid's size that resembles the private one.
    :param sampling_probabilities: to compare; if left out, those of 0.1, 0.2, 0.5 and 1 that keep enough.
    :param sampling: ``"poisson"``, or ``"stratified"`` for one step of each block.
    :param stds: widths of Gaussian filters to compare, in steps, 0 for none.
    :param replaced: True if adjacent logs replace individuals, rather than add or remove them.
    :return: a :class:`~opendp_timeseries.planning.Plan`; print it.
    :raises TypeError: if the grid is not a :class:`~opendp_timeseries.TimeGrid`.
    :raises ValueError: for a parameter out of range, a probability that keeps fewer than 8 steps on average, or
        not exactly one description of the signal.

    >>> found = plan(TimeGrid(size=672), participation_caps=[20, 40], epsilon=1.0, delta=1e-6,
    ...     level=200, seasons={24: 90}, deviation=20, time_scale=30, sampling_probabilities=(0.5, 1.0), stds=(0.0,))
    >>> print(found)
    672 steps, (ε = 1, δ = 1e-06), level 200, season 24 ± 90, departures of 20 within 30 steps
    cap  design      scale  noise  bias   interpolated  smoothed
    20   p = 0.5     14.41  12.79  26.25  29.21         14.68
    20   every step  18.89  18.89  0      18.89         12.62
    40   every step  26.72  26.72  0      26.72         14.78
    Best: participation cap 20, every step, then a smoother: expected error 12.62 (6.3% of the level).
    A flat line would err by 68.19.
    Sampling does not help: p = 0.5 would err by 14.68, 16% more.
    What the cap loses is not included; participation= tells.
    """
    check_grid(grid)
    epsilon, delta = budget(epsilon, delta)
    caps, distances = _several("participation_caps", participation_caps), _several("gaps", gaps)
    by_gap = _by_gap(participation, grid.size)
    if by_gap and level is None and proxy is None and step_cap == 1:
        level = by_gap[1].total / grid.size or None
    described = described_signal(
        grid.size, level=level, seasons=seasons, deviation=deviation, time_scale=time_scale, proxy=proxy
    )
    if by_gap and described.signal.mean is None:
        raise ValueError("level must be given where step_cap is more than 1: what a cap loses is a share of it")
    if sampling_probabilities is None:
        sampling_probabilities = [p for p in _PROBABILITIES if p == 1 or p * grid.size >= _MIN_KEPT]
    probabilities = [_sampling(p, sampling, grid.size) for p in sampling_probabilities]
    widths = [check.real("stds", std, minimum=0.0) for std in stds]
    if not probabilities or not widths:
        raise ValueError(
            f"sampling_probabilities ({check.shown(sampling_probabilities)}) and stds ({check.shown(stds)}) must name"
            " at least one design"
        )
    task = _Task(
        described.signal,
        by_gap,
        epsilon,
        delta,
        sampling,
        {(cap, gap): counted(grid, cap, step_cap, individuals, replaced, gap) for cap in caps for gap in distances},
    )
    designs = task.designs(probabilities, widths)
    best = _recommended(designs)
    limits = f"at most {caps[0]} of an individual, " if len(caps) == 1 else ""
    limits += f"{distances[0]} apart, " if len(distances) == 1 and distances[0] > 1 else ""
    return Plan(
        Setting(
            signal=described.signal,
            influence=task.influences[_pair(best)],
            epsilon=epsilon,
            delta=delta,
            title=f"{grid.size} steps, {limits}(ε = {epsilon:g}, δ = {delta:g}), {described.words}",
            gaps_included=frozenset(by_gap),
        ),
        designs,
        Call(
            grid=grid,
            participation_cap=_pair(best)[0],
            gap=best.gap,
            step_cap=step_cap,
            std=best.std,
            sampling_probability=best.sampling_probability,
            epsilon=epsilon,
            delta=delta,
            individuals=individuals,
            replaced=bool(replaced),
            seasons=described.periods,
            sampling=sampling if best.sampling_probability < 1 else "poisson",
        ),
    )


def _several(name: str, value: Any) -> list[int]:
    """Return one integer or several as a list, each once, in the order given."""
    given = [value] if np.ndim(value) == 0 else list(value)
    found = list(dict.fromkeys(check.integer(name, one, minimum=1) for one in given))
    if not found:
        raise ValueError(f"{name} ({check.shown(value)}) must name at least one")
    return found


def _by_gap(participation: Any, size: int) -> dict[int, Participation]:
    if participation is None:
        return {}
    found = dict(participation) if isinstance(participation, Mapping) else {1: participation}
    if 1 not in found or not all(check.is_a(one, Participation) for one in found.values()):
        raise TypeError(
            f"participation ({type(participation).__name__}) must be a Participation, or one for each gap, such as"
            " {1: …, 6: …}"
        )
    for one in found.values():
        if one.size != size:
            raise ValueError(f"participation (size {one.size}) must be in the steps of the grid, which has {size}")
    return found


def _sampling(probability: float, sampling: str, size: int) -> float:
    p = check.probability("sampling_probabilities", probability)
    if p < 1 and p * size < _MIN_KEPT:
        raise ValueError(
            f"sampling_probabilities ({p:g}) keeps fewer than {_MIN_KEPT} of {size} steps on average; raise it"
        )
    if sampling_name(sampling) == "stratified":
        blocks_of(p, size)  # or refuse it
    return p


@dataclass(frozen=True, eq=False)
class _Task:
    """What all designs are worked out from."""

    signal: Signal
    participation: dict[int, Participation]
    epsilon: float
    delta: float
    sampling: str
    influences: dict[tuple[int, int], Influence]

    def designs(self, probabilities: Sequence[float], stds: Sequence[float]) -> tuple[Design, ...]:
        """Return all pairs of cap and gap at every step, and the rest for the best pair alone."""
        first = 1.0 if 1.0 in probabilities else max(probabilities)
        compared = {pair: [self.design(pair, first, std) for std in stds] for pair in self.influences}
        best = _pair(_recommended(list(itertools.chain.from_iterable(compared.values()))))
        compared[best] = [
            compared[best][i] if p == first else self.design(best, p, std)
            for i, std in enumerate(stds)
            for p in probabilities
        ]
        return tuple(itertools.chain.from_iterable(compared.values()))

    def design(self, pair: tuple[int, int], p: float, std: float) -> Design:
        kernel = smoothing_kernel(self.signal.size, std)
        scale = least_scale(self.influences[pair], kernel, p, self.epsilon, self.delta, self.sampling)
        left, unsure = self.left(*pair)
        error = expected_error(self.signal.scaled(left), kernel, p, scale, self.sampling)
        missing = math.hypot(1 - left, unsure) * math.sqrt((self.signal.mean or 0.0) ** 2 + self.signal.covariance[0])
        # Of the capped series, which is `left` times the whole, this much is unresolved; of the whole, more.
        unresolved = error.smoothed**2 * (2 - left) / left
        return Design(
            name="every step" if p == 1 else f"p = {p:g}" + (" in blocks" if self.sampling == "stratified" else ""),
            sampling_probability=p,
            std=std,
            scale=scale,
            noise=error.noise,
            bias=math.hypot(error.bias, missing),
            smoothed=math.sqrt(unresolved + missing**2),
            participation_cap=pair[0],
            gap=pair[1],
            lost=1 - left if self.participation else None,
        )

    def left(self, cap: int, gap: int) -> tuple[float, float]:
        """Return the fraction of counts that a cap and a gap leave, as far as it is known, and its standard error."""
        if not self.participation:
            return 1.0, 0.0
        whole = self.participation[1]
        left, unsure = fraction_left(whole, self.participation.get(gap, whole), cap)
        return max(left, 1e-9), unsure
