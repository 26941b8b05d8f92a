"""Figures: dates on the axis, bands, the guarantee in the caption, and nothing that is not in the release."""

import sys

import pytest

from opendp_timeseries import Release, TimeGrid, interpolated
from opendp_timeseries.reconstruction.interpolate import interpolated_series
from opendp_timeseries.reconstruction.plot import plot_release

figure = pytest.importorskip("matplotlib.figure")
GRID = TimeGrid(start="2013-01-01", step="1h", size=48, zone="UTC")
RELEASE = Release(steps=[2, 17, 40], values=[4.0, 9.0, -1.0], size=48, scale=3.0, sampling_probability=0.1)


@pytest.fixture
def axes():
    return figure.Figure(layout="constrained").subplots()


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_release_alone(axes):
    assert RELEASE.plot(axes=axes, grid=GRID, guarantee=(1.0, 1e-6)) is axes
    caption = axes.get_xlabel()
    assert caption.startswith("time (UTC)\ndifferentially private for one individual with ε = 1, δ = 1e-06\n")
    assert "3 of 48 steps kept, noise of standard deviation 3" in caption
    assert legend(axes) == ["90% band (noise only)", "noisy values", "reconstruction"]


def test_a_series_draws_its_own_bands(axes):
    series = interpolated_series(RELEASE)
    series.plot(axes=axes, confidence=0.5, unit="cars")
    assert legend(axes)[0] == "50% band (noise only)"
    assert axes.get_ylabel() == "cars"
    assert axes.get_xlabel().startswith("step\n")
    low, high = series.interval(0.5)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(low.min())
    assert band.max() == pytest.approx(high.max())


def test_an_array_has_the_noise_of_the_kept_values_instead(axes):
    plot_release(RELEASE, interpolated(RELEASE), axes=axes, guarantee="0.1-zCDP for one individual")
    assert legend(axes)[0] == "two standard deviations of the noise"
    assert "\n0.1-zCDP for one individual\n3 of 48" in axes.get_xlabel()


def test_an_empty_release_is_drawn(axes):
    Release(steps=[], values=[], size=5, scale=1.0, sampling_probability=0.1).plot(axes=axes)


def test_sizes_must_agree(axes):
    with pytest.raises(ValueError, match=r"grid \(3\) and series \(48\) must have the release's size \(48\)"):
        plot_release(RELEASE, grid=TimeGrid(size=3), axes=axes)


def test_a_new_figure_without_axes():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    pyplot.close(RELEASE.plot().figure)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"opendp_timeseries\[plot\]"):
        RELEASE.plot()
