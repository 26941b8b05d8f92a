"""What to run for a design: the call in Python and on the command line, ready to paste."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from opendp_timeseries.grid import TimeGrid

__all__ = ["Call"]


class Call(NamedTuple):
    """A release, in public parameters."""

    grid: TimeGrid
    participation_cap: int
    gap: int
    step_cap: int
    std: float
    sampling_probability: float
    epsilon: float
    delta: float
    individuals: int
    replaced: bool
    seasons: tuple[float, ...]
    sampling: str

    def python(self) -> str:
        """Return Python code from a ``log`` with the columns ``id`` and ``time`` to a ``series``."""
        metric = "dp.change_one_distance()" if self.replaced else "dp.symmetric_distance()"
        caps = f"participation_cap={self.participation_cap}"
        caps += f", gap={self.gap}" if self.gap > 1 else ""
        caps += f", step_cap={self.step_cap}" if self.step_cap > 1 else ""
        sample = f"sampling_probability={self.sampling_probability!r}"
        sample += f', sampling="{self.sampling}"' if self.sampling != "poisson" else ""
        group = f", d_in={self.individuals}" if self.individuals > 1 else ""
        seasons = ", ".join(map(_exact, self.seasons))
        seasons = f", seasons=({seasons})" if len(self.seasons) > 1 else f", seasons={seasons}" if seasons else ""
        kernel = f"ts.gaussian_kernel({self.grid.size}, {self.std!r})"
        lines = [
            "import opendp.prelude as dp, opendp_timeseries as ts",
            'dp.enable_features("contrib", "honest-but-curious")',
            f"grid = ts.{_grid(self.grid)}",
            f'space = ts.event_log_domain(identifier="id", time="time"), {metric}',
            f"count = space >> ts.then_participation_count(grid, {caps})",
            *([f"count = count >> ts.then_circulant_filter({kernel})"] if self.std else []),
            f"scale = ts.least_scale(count, epsilon={self.epsilon!r}, delta={self.delta!r}, {sample}{group})",
            f"measurement = count >> ts.then_subsampled_gaussian(scale, {sample}, delta={self.delta!r})",
            "release = measurement(log)",
            f"series = ts.smooth(release{seasons})",
        ]
        return "\n".join(lines)

    def command(self) -> str | None:
        """Return the command line, with the file and its columns left to fill in; None for what it does not offer."""
        if self.grid.step is None or self.individuals > 1 or self.replaced:
            return None
        public = {
            "start": self.grid.start,
            "step": self.grid.step,
            "size": self.grid.size,
            "zone": self.grid.zone,
            "participation-cap": self.participation_cap,
            "gap": self.gap if self.gap > 1 else None,
            "step-cap": self.step_cap if self.step_cap > 1 else None,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sampling-probability": self.sampling_probability if self.sampling_probability < 1 else None,
            "sampling": self.sampling if self.sampling != "poisson" else None,
            "filter-std": _exact(self.std) if self.std else None,
        }
        words = ["python", "-m", "opendp_timeseries", "LOG.csv", "--identifier", "ID", "--time", "TIME"]
        for name, value in public.items():
            words += [] if value is None else [f"--{name}", str(value)]
        words += ["--season", *map(_exact, self.seasons)] if self.seasons else []
        return shlex.join(words)


def _grid(grid: TimeGrid) -> str:
    if grid.is_integer:
        return f"TimeGrid(size={grid.size})"
    return repr(grid) if grid.step else f"TimeGrid.from_edges(edges, zone={grid.zone!r})"


def _exact(number: float) -> str:
    """A number that reads back as the same float."""
    return str(int(number)) if number.is_integer() else repr(number)
