"""A series as a data frame: local times, what is known of each step, and nothing else."""

import datetime as dt
import sys
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from opendp_timeseries import TimeGrid, interpolate
from tests.releases import panel, release_of
from tests.results.test_series import series

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RELEASE = release_of(steps=[0, 2], values=[9.0, 4.0], signal=3, scale=2.0, sampling_probability=0.7)
DAYS = TimeGrid(start="2024-03-30", size=3, step="1d", zone="Europe/London")
LIBRARIES = ("pandas", "polars")


def starts(frame):
    """The start of every step as Python's datetimes."""
    if isinstance(frame, pl.DataFrame):
        return frame["step_start"].to_list()
    return frame.index.to_pydatetime().tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns(library):
    made = interpolate(RELEASE)
    frame = made.to_frame(library=library, grid=DAYS, confidence_level=0.5)
    low, high = made.interval(0.5)
    assert frame["value"].to_list() == made.values.tolist()
    assert frame["kept"].to_list() == [True, False, True]
    assert frame["low"].to_numpy()[[0, 2]].tolist() == low[[0, 2]].tolist()
    assert frame["high"].to_numpy()[[0, 2]].tolist() == high[[0, 2]].tolist()
    missing = frame["low"].is_null() if library == "polars" else frame["low"].isna()
    assert missing.to_list() == [False, True, False]  # the errors cover the noise alone


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors_that_cover_the_signal_are_known_everywhere(library):
    made = series(error_covers="counts")
    frame = made.to_frame(library=library)
    assert frame["high"].to_list() == made.interval(0.9)[1].tolist()
    steps = frame["step"].to_list() if library == "polars" else frame.index.to_list()
    assert steps == list(range(10))


@pytest.mark.parametrize("library", LIBRARIES)
def test_local_times_carry_their_offset(library):
    made = interpolate(RELEASE)
    local = starts(made.to_frame(library=library, grid=DAYS))
    assert [str(start) for start in local] == [
        "2024-03-30 00:00:00+00:00",
        "2024-03-31 00:00:00+00:00",
        "2024-04-01 00:00:00+01:00",
    ]
    assert str(local[0].tzinfo) == "Europe/London"
    in_utc = made.to_frame(library=library, grid=DAYS, zone="UTC")
    assert [str(start)[-6:] for start in starts(in_utc)] == ["+00:00"] * 3
    nepal = starts(made.to_frame(library=library, grid=DAYS, zone="Asia/Kathmandu"))
    assert nepal == local
    assert nepal[0].utcoffset() == dt.timedelta(hours=5, minutes=45)
    fine = TimeGrid(start="2024-03-30T00:00:00.000000001Z", size=3, step="1h")
    frame = made.to_frame(library=library, grid=fine)
    dtype = frame.reset_index()["step_start"].dtype if library == "pandas" else frame["step_start"].dtype
    assert str(dtype).endswith("UTC]" if library == "pandas" else "time_zone='UTC')")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("start", "step"), [("1969-10-01", "1mo"), ("2090-06-30T23:00", "500ms"), ("2044-07-01", "1d")]
)
def test_the_instants_are_those_of_the_grid(library, start, step):
    grid = TimeGrid(start=start, size=3, step=step, zone="America/New_York")
    found = starts(interpolate(RELEASE).to_frame(library=library, grid=grid))
    expected = [
        instant.replace(tzinfo=dt.UTC).astimezone(ZoneInfo("America/New_York"))
        for instant in grid.instants().astype("M8[us]").tolist()
    ]
    assert found == expected
    assert [start.utcoffset() for start in found] == [start.utcoffset() for start in expected]


def test_a_panel_has_its_series_below_each_other():
    made = interpolate(panel(["x", "y"], steps=[0, 1, 2, 5], values=[1.0, 2.0, 3.0, 4.0], size=6))
    for library in LIBRARIES:
        frame = made.to_frame(library=library, grid=DAYS)
        assert frame["key"].to_list() == ["x", "x", "x", "y", "y", "y"]
        assert starts(frame)[:3] == starts(frame)[3:]
        assert frame["value"].to_list() == made.values.tolist()
        for key, part in made.by_key().items():
            alone = part.to_frame(library=library, grid=DAYS)["value"].to_list()
            assert (
                frame.filter(pl.col("key") == key)["value"].to_list() == alone
                if library == "polars"
                else (frame[frame["key"] == key]["value"].to_list() == alone)
            )


def test_the_grid_is_that_of_the_release_unless_another_is_given():
    made = interpolate(panel(["x"], steps=[0, 2], values=[1.0, 2.0], size=3))
    assert made.to_frame().index.name == "step"
    assert made.to_frame(grid=DAYS).index.name == "step_start"


@pytest.mark.parametrize(("library", "extra"), [("pandas", "tables"), ("polars", "polars")])
def test_without_its_library_the_extra_is_named(library, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"install opendp_timeseries\[{extra}\]"):
        interpolate(RELEASE).to_frame(library=library)


def test_values_are_copies():
    made = interpolate(RELEASE)
    made.to_frame()["value"].to_numpy(copy=True)[:] = 0
    frame = made.to_frame()
    frame.loc[0, "value"] = 7.0
    assert np.all(made.values == interpolate(RELEASE).values)
