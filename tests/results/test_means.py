"""Means of a value: quotients of sums and numbers, with intervals that a scan of all means finds, too."""

import re
from dataclasses import replace

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import norm

import opendp_timeseries as ts
from opendp_timeseries.design.reading import Source
from tests import make
from tests.refused import refuses
from tests.releases import release_of, signal_of

dp.enable_features("contrib", "honest-but-curious")
BOUND = 60
HOURS = ts.TimeGrid(start="2024-06-03", size=48, step="1h", zone="UTC")
SPACE = make.space()


def of_value(values, error, bound=BOUND, **change):
    """Sums with these errors, of a capped count that is known."""
    source = Source(identifier="id", time="time", value="minutes")
    signal = signal_of(size=48, source=source, grid=HOURS, step_cap=bound, **change)
    release = release_of(steps=range(48), values=np.zeros(48), signal=signal, sampling_probability=1.0)
    return ts.Series(values, release=release, standard_error=error)


def drawn():
    rng = np.random.default_rng(1)
    return of_value(rng.uniform(0, 1500, 48), 90.0), of_value(rng.uniform(0, 90, 48), 6.0, bound=1)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_intervals_hold_all_means_for_which_the_sum_is_as_if_of_so_many(level):
    sums, numbers = drawn()
    means = ts.means(sums, numbers)
    low, high = means.interval(level)
    scanned = np.linspace(0, BOUND, 60001)
    unknown = 0
    for k, (total, number) in enumerate(zip(sums, numbers, strict=True)):
        off = np.abs(total - scanned * number) / np.hypot(90.0, scanned * 6.0)
        inside = scanned[off <= norm.ppf((1 + level) / 2)]
        if number < 18 or number <= norm.ppf((1 + level) / 2) * 6:
            assert (low[k], high[k]) == (0, BOUND)
            unknown += 1
        else:
            assert (low[k], high[k]) == (pytest.approx(inside[0], abs=2e-3), pytest.approx(inside[-1], abs=2e-3))
    assert 5 < unknown < 20


def test_where_the_number_may_be_nothing_the_mean_is_that_of_all_and_this_is_said():
    sums, numbers = drawn()
    means = ts.means(sums, numbers)
    unclear = numbers.values < 18
    assert np.allclose(means[unclear], sums.values.sum() / numbers.values.sum())
    assert np.allclose(means[~unclear], np.minimum(sums[~unclear] / numbers[~unclear], BOUND))
    assert np.array_equal(np.isnan(means.standard_error), unclear)
    assert f"{unclear.sum()} of 48 numbers may be nothing" in means.model


@pytest.mark.parametrize("number", [-1.0, 0.5])  # of which the sum is nothing, or may be: its errors may all be alike
def test_where_even_the_number_of_all_may_be_nothing_nothing_is_shown(number, tmp_path):
    means = ts.means(drawn()[0], of_value(np.full(48, number), 6.0, bound=1))
    days = means.resample("1d")
    for item in (means, days):
        assert np.all(np.isnan(item.values))
        assert np.all(np.array(item.interval()).T == (0, BOUND))
        assert np.all(np.isnan(item.to_frame()["value"]))
        assert item.to_frame(library="polars")["value"].null_count() == len(item)
        item.plot()
    assert "48 of 48 numbers may be nothing, where no mean is known" in means.model
    assert means.to_csv().splitlines()[1] == "2024-06-03 00:00,,0,60"
    page = means.to_html(totals="1d")
    assert page.count("<td class=faint>too uncertain</td>") == 2
    assert not re.search(r"\bnan\b|\d\.\d count per step", page)
    assert 'd="M' not in page.partition('class="series"')[2][:20]
    openpyxl = pytest.importorskip("openpyxl")
    means.to_excel(tmp_path / "means.xlsx", totals="1d")
    sheets = openpyxl.load_workbook(tmp_path / "means.xlsx")
    for name in ("Series", "Means"):
        assert [cell.value for cell in sheets[name][2][1:]] == [None, 0, BOUND]


def test_means_over_longer_steps_are_of_all_that_is_in_them():
    sums, numbers = drawn()
    days = ts.means(sums, numbers).resample("1d")
    of_sums, of_numbers = sums.resample("1d"), numbers.resample("1d")
    assert np.allclose(days.values, of_sums.values / of_numbers.values)
    assert repr(days) == "Means(2, over 1d; standard error at most)"
    low, high = days.interval(0.9)
    off = np.abs(of_sums.values - low * of_numbers.values) / np.hypot(
        of_sums.standard_error, low * of_numbers.standard_error
    )
    assert np.allclose(off, norm.ppf(0.95))
    assert np.all((low < days.values) & (days.values < high))


def released(keys=None):
    """Sums and numbers of one composition, smoothed."""
    rng = np.random.default_rng(2)
    log = {"id": np.arange(20_000) % 4000, "time": HOURS.instants()[rng.integers(0, 48, 20_000)]}
    log["minutes"] = rng.gamma(4, 5, 20_000)
    panel = {} if keys is None else {"by": "place", "keys": keys}
    if keys is not None:
        log["place"] = rng.choice(keys, 20_000)
    counts = [SPACE >> ts.then_participation_count(HOURS, value="minutes", bound=b, **panel) for b in (BOUND, 1)]
    members = [count >> ts.then_subsampled_gaussian(count.map(1).l2, sampling_probability=1) for count in counts]
    factor = ts.least_factor(members, epsilon=1.0, delta=1e-6)
    both = ts.make_composition(members, factor=factor, delta=1e-6)
    return log, factor, [ts.smooth(one, seasons=24) for one in both(log)]


def test_sums_and_numbers_that_are_released_together_share_one_norm():
    log, factor, (sums, numbers) = released()
    alone = SPACE >> ts.then_participation_count(HOURS, value="minutes", bound=1)
    of_one = ts.least_scale(alone, sampling_probability=1.0, epsilon=1.0, delta=1e-6) / alone.map(1).l2
    assert factor == pytest.approx(2**0.5 * of_one, rel=1e-9)  # as in one norm, with half of it for each
    means = ts.means(sums, numbers)
    low, high = means.interval()
    steps = HOURS.steps(log["time"])
    truth = np.bincount(steps, np.floor(log["minutes"] + 0.5)) / np.bincount(steps)
    assert np.abs(means - truth).mean() < 8  # 1.1 usually, and beyond 2 in one of a hundred releases
    assert np.mean((low <= truth) & (truth <= high)) > 0.2  # their errors share those of the levels
    assert means.sources == (*sums.sources, *numbers.sources)


def test_pages_tables_figures_and_workbooks_say_that_they_are_of_means(tmp_path):
    means = ts.means(*drawn())
    page = means.to_html(totals="1d", unit="minutes per ride")
    assert "<h2>Means by day</h2>" in page
    assert "Means of all that is in these steps" in page
    assert "means of &#x27;minutes&#x27;" in page
    assert "noisy sums and numbers" in page
    assert "sum of all steps" not in page
    frame = means.to_frame()
    assert np.array_equal(frame[["low", "high"]].to_numpy().T, means.interval())
    assert np.array_equal(frame["value"], means.values)
    axes = means.plot()
    assert "noisy values" not in {text.get_text() for text in axes.texts}
    assert "they are not drawn" in " ".join(axes.get_xlabel().split())
    assert "means by day" in means.resample("1d").plot().get_xlabel()
    openpyxl = pytest.importorskip("openpyxl")
    means.to_excel(tmp_path / "means.xlsx", totals="1d")
    assert "Means" in openpyxl.load_workbook(tmp_path / "means.xlsx").sheetnames


@pytest.mark.long
def test_means_of_a_panel_are_those_of_its_keys():
    _, _, (sums, numbers) = released(keys=["a", "b"])
    wider = numbers.standard_error.copy()
    wider[:9] = 100.0  # and the number of all is clear
    means = ts.means(sums, replace(numbers, standard_error=wider, covariance=None, parts=()))
    assert np.allclose(means[:9], sums[:48].sum() / numbers[:48].sum())
    means = ts.means(sums, numbers)
    b = ts.means(sums.by_key()["b"], numbers.by_key()["b"])
    assert np.array_equal(means.by_key()["b"].values, b.values)
    assert np.array_equal(means.by_key()["b"].interval(), b.interval())
    days = means.resample("1d")
    assert np.array_equal(days.by_key()["b"].interval(), np.reshape(days.interval(), (2, 2, 2))[:, 1])
    both = means.resample("1d", groups={"both": ["a", "b"]})
    of_both = (np.reshape(one.values, (2, 2, 24)).sum(axis=(0, 2)) for one in (sums, numbers))
    assert np.allclose(both.values, np.divide(*of_both))


def test_what_has_no_means_is_refused():
    sums, numbers = drawn()
    means = ts.means(sums, numbers)
    refuses("numbers", ts.means, sums, [1.0], error=TypeError)
    refuses("sums", ts.means, means, numbers)
    refuses("numbers", ts.means, sums, of_value(np.ones(48), None, bound=1))
    refuses("sums", ts.means, _counts(), numbers)
    refuses("numbers", ts.means, sums, of_value(np.ones(48), 1.0, bound=1, gap=2))
    for above in (sums, numbers):  # twice the same, or the other way round
        refuses(r"numbers.*1.*60", ts.means, above, sums)
    refuses("means", means.with_total, 5.0)
    refuses("profiles", means.to_html, profiles=True)


def _counts():
    release = release_of(
        steps=range(48), values=np.zeros(48), signal=signal_of(size=48, grid=HOURS), sampling_probability=1.0
    )
    return ts.Series(np.ones(48), release=release, standard_error=1.0)
