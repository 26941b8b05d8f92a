"""The ledger: nothing is released unrecorded, nothing is spent twice, and no crash loses what was spent."""

import contextlib
import copy
import dataclasses
import errno
import json
import os
import random
import signal
import sys
import time
import warnings
from functools import reduce
from pathlib import Path
from unittest.mock import ANY

import ibis
import numpy as np
import opendp.prelude as dp
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

import opendp_timeseries as ts
from opendp_timeseries import _files
from opendp_timeseries._process import locked
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.joint import FilteredLoss, filter_order, joint_loss
from opendp_timeseries.ledger import ledger
from opendp_timeseries.ledger.book import Chain, _digest
from opendp_timeseries.plugin.mechanisms import PackageMap, mechanism_of
from opendp_timeseries.release.documents import joint_guarantee
from tests import make
from tests.limits import within
from tests.refused import refuses

dp.enable_features("contrib", "honest-but-curious")
SPACE = make.space()
LOG = {"id": np.array([7, 8]), "time": np.array(["2024-01-01T05", "2024-01-02T07"], dtype="datetime64[s]")}
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and POSIX signals")


def count(month=1, cap=10, size=48):
    grid = ts.TimeGrid(start=f"2024-{month:02}-01", step="1h", size=size, zone="UTC")
    return SPACE >> ts.then_participation_count(grid, participation_cap=cap, excess="drop")


def measurement(scale=20.0, month=1, p=0.5):
    return count(month) >> ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=1e-6)


def new(folder, **options):
    folder.mkdir(exist_ok=True)
    budget = {} if "programme" in options else {"epsilon": 1.0, "delta": 1e-6}
    return ts.Ledger.create(Path(folder, "people.ledger"), **budget, **options)


def nothing_is_read():
    pytest.fail("the log was read")


def entries_of(book):
    return [json.loads(line)["entry"] for line in book.path.read_text().splitlines()[:-1]]


def rewrite(book, entries):
    """Write a ledger of these entries, with digests that are right."""
    texts = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    book.path.write_bytes(reduce(Chain.then, texts, Chain()).file())


def states(book):
    return ["released" if entry.released else "spent" for entry in book.entries]


# ---- what is spent, and what it costs


def test_the_first_release_and_its_record(tmp_path):
    book = new(tmp_path)
    assert book.guarantee() == "nothing has been released about one individual added or removed"
    release = book.release(measurement(), LOG)
    assert states(book) == ["released"]
    assert book.releases() == (release,)
    whole = release.statement.parent
    assert (whole.kind, whole.number, whole.loss, whole.digest) == ("ledger", 1, (1.0, 1e-6), ANY)
    assert "entry 1 of a ledger with (ε = 1, δ = 1e-06) in all" in release.guarantee()
    assert book.verify() == book.standing()
    assert ts.Ledger(book.path).guarantee() == book.guarantee()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".people.ledger.lock", "people.ledger"]


def _stage(space, stability):
    return dp.t.make_user_transformation(*space, *space, lambda whole: whole, stability)


def _further(influence):
    return dataclasses.replace(influence, l2=3 * influence.l2, linf=3 * influence.linf, majorant=None)


def _with_a_foreign_stage(where, noise):
    if where == "before":
        return _stage(SPACE, lambda d_in: 3 * d_in) >> (count() >> noise)
    within = count() >> _stage(count().output_space, _further) >> noise
    return within if where == "in between" else ts.make_composition([count() >> noise, within])


@pytest.mark.parametrize("where", ["before", "in between", "in a composition"])
def test_a_stage_that_no_release_knows_of_is_not_charged_for_less_than_it_does(tmp_path, where):
    book, noise = new(tmp_path), ts.then_subsampled_gaussian(60.0, sampling_probability=0.5, delta=1e-6)
    refuses("measurement", lambda: book.release(_with_a_foreign_stage(where, noise), nothing_is_read))
    assert book.entries == ()


def test_no_noise_is_sought_for_a_chain_that_reaches_further_than_its_releases_know(tmp_path):
    chain = count() >> _stage(count().output_space, _further)
    refuses("chain", new(tmp_path).least_scale, chain, sampling_probability=0.5)
    refuses("chain", lambda: ts.Programme.plan([count(), chain], epsilon=1.0, delta=1e-6, sampling_probability=0.5))
    refuses(
        "chain",
        ts.Programme.plan([count()], epsilon=1.0, delta=1e-6, sampling_probability=0.5).measurement,
        chain,
    )


@pytest.mark.parametrize("fixed", [True, False])
def test_what_is_spent_covers_the_joint_loss_of_what_ran(tmp_path, fixed):
    book = new(tmp_path, adaptivity="adaptive" if fixed else "fully adaptive")
    scales = [24.0, 30.0, 24.0]
    for month, scale in enumerate(scales, 1):
        book.release(measurement(scale, month), LOG)
    exact = joint_loss([release.design.loss() for release in book.releases()]).epsilon(1e-6)
    adaptivity, epsilon, within, _ = book.standing()
    assert (adaptivity, within) == (("adaptive", True) if fixed else ("fully adaptive", True))
    assert exact <= epsilon <= exact * (1 + (1e-12 if fixed else 0.15))
    assert f"(ε = {epsilon:.4g}"[:9] in book.guarantee()


def test_data_may_react_where_parameters_alone_are_fixed(tmp_path):
    book = new(tmp_path, adaptivity="adaptive")
    smooth = ts.then_circulant_filter(ts.gaussian_kernel(48, std=3))
    for month in (1, 2, 3):
        noise = ts.then_subsampled_gaussian(20.0, sampling_probability=0.5, delta=1e-6)
        book.release(count(month) >> smooth >> noise, LOG)
    losses = [release.design.loss() for release in book.releases()]
    reacting, fixed = (
        joint_loss(losses, adaptivity=adaptivity).epsilon(1e-6) for adaptivity in ("adaptive", "non-adaptive")
    )
    assert book.standing().epsilon == pytest.approx(reacting, rel=1e-9)
    assert reacting > 1.01 * fixed


def test_an_open_entry_is_resumed_before_a_later_one_that_is_released(tmp_path):
    book, failing = new(tmp_path), measurement(60.0)
    book._write(book._read().with_spent(ledger._designs(failing)))
    book.release(failing, LOG)
    assert states(book) == ["spent", "released"]
    assert book.entry_for(failing).number == 1
    book.release(failing, LOG, resume=True)
    assert states(book) == ["released", "released"]


def test_nothing_is_written_without_the_lock(tmp_path):
    book = new(tmp_path)

    def without_the_lock():
        (tmp_path / ".people.ledger.lock").unlink()
        return LOG

    refuses("was deleted while it was in use", book.release, measurement(), without_the_lock, error=OSError)
    assert book.entries == ()


@pytest.mark.parametrize("fixed", [True, False])
def test_what_would_exceed_the_budget_is_refused_before_data_are_read(tmp_path, fixed):
    book = new(tmp_path, adaptivity="adaptive" if fixed else "fully adaptive")
    least = book.least_scale(count(), sampling_probability=0.5)
    for scale in (least * (1 - 1e-9), 1.0):
        before = book.path.read_bytes()
        refuses("this release", book.release, measurement(scale), nothing_is_read)
        assert book.path.read_bytes() == before
    book.release(measurement(least), lambda: LOG)
    refuses("this release", book.release, measurement(1000.0), nothing_is_read)
    assert book.least_scale(count(), sampling_probability=0.5) > 1000 * least


def test_the_least_scale_of_the_first_release_is_that_of_the_whole_budget(tmp_path):
    book = new(tmp_path, adaptivity="adaptive")
    alone = ts.least_scale(count(), epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    assert book.least_scale(count(), sampling_probability=0.5) == pytest.approx(alone, rel=1e-9)


def test_a_record_of_a_release_made_elsewhere_is_spent_too(tmp_path):
    book = new(tmp_path)
    release = measurement(4.0)(LOG)
    book.add(release)
    assert states(book) == ["released"]
    refuses("release", book.add, release.at_distance(2))
    book.add(measurement(4.0)(LOG))
    assert not book.standing().within  # it happened, and so it is entered
    assert "exceeds the budget" in repr(book)
    assert not book.verify().within
    refuses("this release", book.release, measurement(1e6), nothing_is_read)
    refuses("ledger", book.least_scale, count(), sampling_probability=0.5)


def test_a_composition_is_one_entry(tmp_path):
    both = ts.make_composition([measurement(40.0), measurement(50.0, month=2)], delta=1e-6)
    book = new(tmp_path)
    made = book.release(both, LOG)
    assert [len(entry.designs) for entry in book.entries] == [2]
    assert list(book.releases()) == made
    assert [release.scale for release in book.releases()] == [40.0, 50.0]


def test_noise_that_is_chosen_by_what_was_kept_does_not_exceed_the_budget(tmp_path):
    def one_step(p, square):
        chain = SPACE >> ts.then_participation_count(ts.TimeGrid(size=1), participation_cap=1, excess="drop")
        return chain >> ts.then_subsampled_gaussian(square**-0.5, sampling_probability=p, delta=1e-3)

    nobody = {"id": np.array([], dtype=int), "time": np.array([], dtype=int)}
    for adaptivity, fixed in (("fully adaptive", False), ("adaptive", True)):
        book = ts.Ledger.create(tmp_path / adaptivity, epsilon=1.0, delta=1e-3, adaptivity=adaptivity)
        book.release(one_step(0.5, 0.09), nobody)
        refused = 0
        for p, square in ((1.0, 0.0863), (9.7e-4, 1e4)):  # after a step that was kept, and after one that was not
            try:
                book.check(one_step(p, square))
            except ValueError:
                refused += 1
        # Who may choose between both has δ = 1.46e-3: tests/accounting/test_fully_adaptive.py.
        assert refused > 0 or fixed


# ---- what is written when


def test_an_entry_is_written_before_the_data_are_read_and_completed_before_they_leave(tmp_path, monkeypatch):
    from opendp_timeseries.plugin import participation_count

    book, seen = new(tmp_path), []
    real = participation_count.engine_of

    def reading(table):
        on_disk = ts.Ledger(book.path)
        seen.append((states(on_disk), on_disk.standing().epsilon > 0))
        return real(table)

    monkeypatch.setattr(participation_count, "engine_of", reading)
    with contextlib.suppress(OSError):  # a ledger that lost its entry says so itself, but too late
        book.release(measurement(), LOG)
    assert seen == [(["spent"], True)]
    assert states(ts.Ledger(book.path)) == ["released"]


def test_a_measurement_that_fails_has_spent_and_can_be_resumed(tmp_path, monkeypatch):
    from opendp_timeseries.plugin import participation_count

    book = new(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(participation_count, "engine_of", lambda table: 1 / 0)
        with pytest.raises(dp.OpenDPException):
            book.release(measurement(), LOG)
    assert states(book) == ["spent"]
    spent = book.standing()
    assert spent.epsilon > 0
    assert book.entry_for(measurement(21.0)) is None
    refuses("resume", book.release, measurement(21.0), nothing_is_read, resume=True)
    assert book.entry_for(measurement()) == book.entries[0]
    release = book.release(measurement(), LOG, resume=True)
    assert (states(book), book.standing()) == (["released"], spent)
    assert book.release(measurement(), nothing_is_read, resume=True) == release == book.releases()[0]
    assert states(book) == ["released"]


def test_an_open_entry_is_resumed_before_one_that_is_complete(tmp_path):
    book = new(tmp_path)
    pair = ts.make_composition([measurement(30.0), measurement(31.0)])
    first = book.release(pair, LOG)
    assert book.release(pair, nothing_is_read, resume=True) == first
    alone = ts.make_composition([measurement(32.0)])
    assert book.release(alone, LOG) == book.release(alone, nothing_is_read, resume=True) == [book.releases()[-1]]
    with pytest.raises(ZeroDivisionError):
        book.release(measurement(), lambda: 1 / 0)  # nothing is spent yet
    assert book.entry_for(measurement()) is None
    again = book.release(measurement(), LOG), book.release(measurement(), LOG)
    assert book.release(measurement(), nothing_is_read, resume=True) == again[1] != again[0]
    with book._path.open("rb") as file:
        content = ledger.Book.read(file.read()).with_spent([again[0].design])
    book._write(content)
    assert (book.entry_for(measurement()).number, book.entries[-1].released) == (5, None)
    last = book.release(measurement(), LOG, resume=True)
    assert last not in again
    assert book.releases()[-1] == last


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 1.0), "measurement"),
        (lambda: count(), "measurement"),
        (lambda: count() >> ts.then_subsampled_gaussian(0.0, sampling_probability=0.5, delta=1e-6), "measurement"),
        (
            lambda: (ts.event_log_domain(identifier="id", time="time"), dp.change_one_distance())
            >> ts.then_participation_count(ts.TimeGrid(size=9), participation_cap=1, excess="drop")
            >> ts.then_subsampled_gaussian(50.0, sampling_probability=0.5, delta=1e-6),
            "the unit of privacy of the ledger",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_accounted_for_is_refused_before_anything_is_spent(tmp_path, wrong, message):
    book = new(tmp_path)
    refuses(message, book.release, wrong(), nothing_is_read, error=(TypeError, ValueError))
    assert book.entries == ()


def test_a_log_that_does_not_fit_is_refused_before_anything_is_spent(tmp_path):
    book = new(tmp_path)
    for wrong in ({"id": LOG["id"]}, {"id": LOG["id"], "time": LOG["time"][:1]}, None):
        with pytest.raises((TypeError, ValueError)):
            book.release(measurement(), wrong)
    assert book.entries == ()


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("wrong", ["value", "by"])
def test_columns_of_values_and_keys_are_refused_before_anything_is_spent(tmp_path, wrong):
    book = new(tmp_path)
    grid = ts.TimeGrid(start="2024-01-01", step="1h", size=48, zone="UTC")
    options = {"value": "sum", "bound": 9} if wrong == "value" else {"by": "place", "keys": ["a"]}
    made = SPACE >> ts.then_participation_count(grid, participation_cap=5, excess="drop", **options)
    made = made >> ts.then_subsampled_gaussian(200.0, sampling_probability=0.5, delta=1e-6)
    table = pa.table({**LOG, "sum": LOG["time"], "place": pa.array([[1], [2]])})
    files = pa.dataset.dataset(table)
    connection = ibis.duckdb.connect()
    connection.con.register("events", table)
    database = connection.table("events")
    pandas = pd.DataFrame(LOG).assign(sum=pd.Series(LOG["time"]).dt.to_period("D"), place=pd.arrays.SparseArray([1, 2]))
    for log in (LOG, table, files, database, pandas, pandas[["id", "time"]], table.select(["id", "time"])):
        refuses(r"column '(sum|place)'", book.release, made, log, error=(TypeError, ValueError))
    assert book.entries == ()


def test_what_is_no_release_is_refused(tmp_path):
    book = new(tmp_path)
    for wrong in (
        measurement() >> ts.interpolate,
        dp.c.make_composition([measurement(), measurement()]),
        ts.make_composition([measurement(), measurement() >> ts.interpolate]),
        SPACE
        >> ts.then_participation_histogram(ts.TimeGrid(size=9), edges=[1])
        >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.5, delta=1e-6),
    ):
        refuses("measurement", book.release, wrong, nothing_is_read)
    assert book.entries == ()


# ---- whom it is about


def test_a_release_with_other_noise_than_was_entered_is_withheld(tmp_path):
    inner = measurement(60.0)

    def louder(log):
        release = inner(log)
        return dataclasses.replace(release, design=dataclasses.replace(release.design, scale=30.0))

    privacy_map = PackageMap(inner.map, mechanism_of(inner))
    other = dp.m.make_user_measurement(*inner.input_space, inner.output_measure, louder, privacy_map)
    book = new(tmp_path)
    refuses("withheld", book.release, other, LOG, error=TypeError)
    assert states(book) == ["spent"]


def test_a_release_that_states_less_than_it_loses_is_not_added(tmp_path):
    book, release = new(tmp_path), measurement()(LOG)
    refuses(
        "loss",
        lambda: book.add(
            dataclasses.replace(release, statement=dataclasses.replace(release.stated, loss=((0.01, 1e-6),)))
        ),
    )
    assert book.entries == ()


def of_columns(identifier="id", time="time", month=1, metric=None, scale=60.0):
    grid = ts.TimeGrid(start=f"2024-{month:02}-01", step="1h", size=48, zone="UTC")
    space = ts.event_log_domain(identifier=identifier, time=time), metric or dp.symmetric_distance()
    count = space >> ts.then_participation_count(grid, participation_cap=10, excess="drop")
    return count, count >> ts.then_subsampled_gaussian(scale, sampling_probability=0.5, delta=1e-6)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
def test_other_identifiers_and_other_days_are_other_individuals(tmp_path):
    log = {name: LOG["id" if name.endswith("er") else "time"] for name in ("buyer", "seller", "entered", "left")}
    day = ts.period_distance("1d", zone="UTC")
    persons = new(tmp_path)
    persons.release(of_columns("buyer", "entered")[1], log)
    persons.release(of_columns("buyer", "left")[1], log)  # all that a buyer did, whenever
    (tmp_path / "days").mkdir()
    days = new(tmp_path / "days", period="1d", zone="UTC")
    days.release(of_columns("buyer", "entered", metric=day)[1], log)
    days.release(of_columns("buyer", "entered", month=2, metric=day)[1], log)
    for book, columns in ((persons, ("seller", "entered")), (days, ("seller", "entered")), (days, ("buyer", "left"))):
        metric, before = (None if book is persons else day), book.path.read_bytes()
        chain, made = of_columns(*columns, metric=metric)
        refuses("the ledger", book.release, made, nothing_is_read, rule="about individuals by the columns .buyer")
        refuses("the ledger", book.least_scale, chain, sampling_probability=0.5)
        refuses("the ledger", book.add, made(log))
        assert book.path.read_bytes() == before
        releases = [book.releases()[0].at_distance(1), made(log)]
        refuses("releases", ts.write_releases, releases)
        refuses(
            "releases",
            lambda: ts.Programme.plan(
                [of_columns("buyer", "entered", metric=metric)[0], chain],  # noqa: B023
                epsilon=1.0,
                delta=1e-6,
                sampling_probability=0.5,
            ),
        )


def test_what_is_planned_is_the_whole_query(tmp_path):
    programme = ts.Programme.plan([of_columns("buyer")[0]], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    book = new(tmp_path, programme=programme)
    for other in (of_columns("seller")[0], of_columns("buyer", "left")[0], of_columns("buyer", month=2)[0]):
        refuses("chain", programme.measurement, other)
    log = {"buyer": LOG["id"], "time": LOG["time"], "left": LOG["time"]}
    scale = programme.designs[0].scale
    with pytest.raises(ValueError, match=r"^this release"):  # equal caps are not enough
        book.release(of_columns("buyer", "left", scale=scale)[1], nothing_is_read)
    release = book.release(programme.measurement(of_columns("buyer")[0]), log)
    assert book.standing().adaptivity == "adaptive"
    assert release.statement.parent.kind == "ledger"


def test_behind_filters_the_law_is_that_of_reacting_data_unless_promised(tmp_path):
    def filtered(month):
        return count(month) >> ts.then_circulant_filter(ts.gaussian_kernel(48, std=3))

    def planned(chain, **promise):
        months = [chain(month) for month in (1, 2, 3)]
        return ts.Programme.plan(months, epsilon=1.0, delta=1e-6, sampling_probability=0.5, **promise)

    plain, promised = planned(filtered), planned(filtered, adaptivity="non-adaptive")
    assert plain.designs[0].scale > 1.001 * promised.designs[0].scale
    for programme in (plain, promised):  # the document holds the promise
        assert ts.Programme.from_json(programme.to_json()) == programme
    assert planned(count).designs == planned(count, adaptivity="non-adaptive").designs
    # Nor are both laws equal for what else has a law for convex functions alone.
    blocks, fixed = (
        planned(count, sampling="stratified", adaptivity=kind).designs[0] for kind in ("adaptive", "non-adaptive")
    )
    assert blocks.scale > 1.001 * fixed.scale
    losses = [design.loss() for design in promised.designs]
    assert joint_loss(losses, adaptivity="adaptive").epsilon(1e-6) > 1.0
    refuses(
        "the releases of the programme", dataclasses.replace, promised, adaptivity="adaptive"
    )  # without the promise
    for programme in (plain, promised):
        book = new(tmp_path / programme.adaptivity, programme=programme)
        for month in (1, 2, 3):
            book.release(programme.measurement(filtered(month)), LOG)
        assert 0.999 < book.verify().epsilon <= 1.0
        promise = ", if no data reacted to what earlier releases showed"
        assert book.guarantee().endswith(promise if programme is promised else "removed")
    made = [promised.measurement(filtered(month))(LOG) for month in (1, 2, 3)]
    texts = [ts.write_releases(made, adaptivity=kind) for kind in ("non-adaptive", "adaptive")]
    epsilons = [json.loads(text)["joint_loss"][0][0] for text in texts]
    assert epsilons[0] < epsilons[1]
    document = json.loads(texts[0]) | {"adaptivity": "adaptive"}
    refuses("joint_loss", ts.read_releases, json.dumps(document))


# ---- programmes


def test_a_programme_is_reserved_and_runs_in_any_order(tmp_path):
    months = [count(month) for month in range(1, 5)]
    programme = ts.Programme.plan(months, epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    book = new(tmp_path, programme=programme)
    assert book.programme == programme
    refuses("this release", book.release, measurement(1000.0, month=7), nothing_is_read)
    for month in (2, 1, 4):
        book.release(programme.measurement(months[month - 1]), LOG)
        assert book.standing()[0] == "adaptive"
        assert book.standing().within
    assert repr(book).count("    planned   ") == 1
    assert book._repr_html_().count("<td>planned</td>") == 1
    assert book._repr_html_().startswith("<p>Budget: (ε = ")
    refuses("this release", book.release, programme.measurement(months[0]), nothing_is_read)  # each runs once
    book.release(programme.measurement(months[2]), LOG)
    assert 0.999 < book.verify().epsilon <= 1.0


def test_beside_a_programme_there_is_room_by_the_bound_that_holds_for_anything(tmp_path):
    programme = ts.Programme.plan([count()], epsilon=0.5, delta=1e-7, sampling_probability=0.5)
    loose = ts.Programme(designs=programme.designs, budget=Budget(epsilon=1.0, delta=1e-6))
    book = new(tmp_path, programme=loose)
    scale = book.least_scale(count(2), sampling_probability=0.5)
    book.release(measurement(scale, month=2), LOG)
    assert book.standing().adaptivity == "fully adaptive"  # with what is planned, of which nothing ran
    assert 0.999 < book.standing().epsilon <= 1.0
    losses = [design.loss() for design in (*loose.designs, *book.entries[0].designs)]
    assert FilteredLoss.of(losses, filter_order(1.0, 1e-6)).delta(1.0) <= 1e-6
    book.release(loose.measurement(count()), LOG)
    assert book.verify().within


def test_beside_a_programme_what_is_found_to_be_enough_is_admitted_to_the_last_digit(tmp_path):
    options = {"epsilon": 0.8, "delta": 1e-6, "sampling_probability": 0.5}
    programme = ts.Programme.plan([count(1), count(2)], relative_scales=[1, 1.5], **options)
    designs = tuple(dataclasses.replace(design, scale=2 * design.scale) for design in programme.designs)
    book = new(tmp_path, programme=dataclasses.replace(programme, designs=designs))
    for month, cap in ((7, 10), (8, 7)):  # the second is made of what rounding leaves
        chain = count(month, cap)
        scale = book.least_scale(chain, sampling_probability=0.5)
        book.release(chain >> ts.then_subsampled_gaussian(scale, sampling_probability=0.5, delta=1e-6), LOG)


def test_a_planned_release_that_is_made_again_counts_again(tmp_path):
    programme = ts.Programme.plan([count()], epsilon=0.4, delta=1e-7, sampling_probability=0.5)
    loose = ts.Programme(designs=programme.designs, budget=Budget(epsilon=1.0, delta=1e-6))
    book = new(tmp_path, programme=loose)
    for _ in range(2):
        book.release(loose.measurement(count()), LOG)
    twice = FilteredLoss.of([loose.designs[0].loss()] * 2, filter_order(1.0, 1e-6)).epsilon(1e-6)
    assert book.standing().epsilon == pytest.approx(twice, rel=1e-8)


# ---- the file


def test_a_ledger_is_a_file_whatever_the_current_folder_is(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    new(here), new(there)
    monkeypatch.chdir(here)
    book = ts.Ledger("people.ledger")
    monkeypatch.chdir(there)
    book.release(measurement(), LOG)
    assert [len(ts.Ledger(folder / "people.ledger").entries) for folder in (here, there)] == [1, 0]


def test_a_ledger_of_two_names_is_refused(tmp_path):
    book = new(tmp_path)
    (tmp_path / "another.ledger").hardlink_to(book.path)
    for path in (book.path, tmp_path / "another.ledger"):
        refuses("ledger", ts.Ledger, path)
    refuses("ledger", book.release, measurement(), nothing_is_read)
    (tmp_path / "another.ledger").unlink()
    book.release(measurement(), LOG)


def test_the_digest_in_a_release_tells_of_an_entry_that_was_taken_back(tmp_path):
    book = new(tmp_path)
    book.release(measurement(), LOG)
    earlier = book.path.read_bytes()
    second = book.release(measurement(), LOG)
    book.path.write_bytes(earlier)  # an older copy is a sound ledger by itself
    assert len(ts.Ledger(book.path).entries) == 1
    assert (second.statement.parent.number, second.statement.parent.identifier) == (2, ts.Ledger(book.path).identifier)


def test_a_torn_file_is_refused_wherever_it_ends(tmp_path):
    book = new(tmp_path)
    book.release(measurement(), LOG)
    whole = book.path.read_bytes()
    ends = {0, 1, len(whole) - 1} | {k + d for k in range(len(whole)) if whole[k] == 10 for d in (0, 1)}
    ends |= set(random.Random(1).sample(range(len(whole)), 50))
    for end in ends - {len(whole)}:
        book.path.write_bytes(whole[:end])
        refuses("ledger", ts.Ledger, book.path)
    book.path.write_bytes(whole)
    assert ts.Ledger(book.path).verify() == book.standing()


def test_an_edited_file_is_refused(tmp_path):
    book = new(tmp_path)
    for month in (1, 2):
        book.release(measurement(50.0, month), LOG)
    whole = book.path.read_bytes()
    draw = random.Random(2)
    for place in [0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(60))]:
        book.path.write_bytes(whole[:place] + bytes([whole[place] ^ draw.randrange(1, 256)]) + whole[place + 1 :])
        refuses("ledger", ts.Ledger, book.path)
    lines = whole.splitlines(keepends=True)
    for order in ([0, 3, 4, 1, 2, 5], [0, 1, 2, 5], [0, 1, 2, 3, 4], [0, 1, 2, 3, 3, 4, 5]):
        book.path.write_bytes(b"".join(lines[k] for k in order))
        refuses("ledger", ts.Ledger, book.path)


def test_what_was_read_of_a_ledger_stays_in_it(tmp_path):
    book, other = new(tmp_path), ts.Ledger.create(tmp_path / "other.ledger", epsilon=9.0, delta=1e-6)
    book.release(measurement(50.0), LOG)
    earlier = book.path.read_bytes()
    book.release(measurement(50.0, 2), LOG)
    for month in (1, 2, 3):
        other.release(measurement(20.0, month), LOG)
    whole, last = book.path.read_bytes(), book.entries
    draw = random.Random(4)
    flipped = [whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :] for k in draw.sample(range(len(earlier)), 20)]
    for content in (*flipped, earlier, other.path.read_bytes(), b""):
        book.path.write_bytes(content)
        for use in (book.standing, lambda: book.release(measurement(50.0, 3), nothing_is_read)):
            refuses("ledger", use)
    book.path.write_bytes(whole)
    assert book.entries == last
    another = ts.Ledger(book.path)
    another.release(measurement(50.0, 3), LOG)
    assert (len(another.entries), another.entries) == (3, book.entries)


def test_a_last_line_of_other_entries_is_refused(tmp_path):
    book = new(tmp_path)
    book.release(measurement(50.0), LOG)
    *lines, last = book.path.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["entries"] == len(lines) == 3
    for number in (0, 2, 4, 999):
        book.path.write_bytes(b"".join([*lines, last.replace(b'"entries": 3', b'"entries": %d' % number)]))
        refuses(f"ledger.*{number}.*3", ts.Ledger, book.path)


def test_an_entry_with_a_right_digest_of_its_own_is_refused(tmp_path):
    book = new(tmp_path)
    for month in (1, 2):
        book.release(measurement(50.0, month), LOG)
    lines = book.path.read_bytes().split(b"\n")
    before, line = (json.loads(lines[k]) for k in (0, 1))
    entry = json.dumps(line["entry"] | {"at": "2001-01-01T00:00:00Z"}).encode()
    lines[1] = b'{"digest": "%s", "entry": %s}' % (_digest(before["digest"], entry).encode(), entry)
    book.path.write_bytes(b"\n".join(lines))
    refuses(r"ledger.*3", ts.Ledger, book.path)


@pytest.mark.parametrize("foreign", [b"", b"{}", b"when,who\n1,2\n", b"\x00" * 500, "record"])
def test_another_file_is_refused(tmp_path, foreign):
    path = tmp_path / "people.ledger"
    path.write_bytes(measurement()(LOG).to_json().encode() + b"\n" if foreign == "record" else foreign)
    refuses("ledger", ts.Ledger, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[1].update(spent=2), "entry 1"),
        (lambda lines: lines[1].update(designs=[]), "entry 1"),
        (lambda lines: lines[1].update(more=1), "'more'"),
        (lambda lines: lines[1]["designs"][0].update(scale="much"), "scale of design"),
        (lambda lines: lines[1]["designs"][0].update(scale=0), "scale"),
        (lambda lines: lines[1]["designs"][0]["count"]["reading"]["unit"].update(replaced=True), "unit of privacy"),
        (lambda lines: lines[2].update(released=3), "entry 3"),
        (lambda lines: lines.append(lines[2]), "entry 1"),
        (lambda lines: lines[0].update(epsilon=-1.0), "epsilon"),
        (lambda lines: lines[0].update(format="another"), "format"),
        (lambda lines: lines[0].pop("order"), "'order'"),
    ],
)
def test_a_file_with_right_digests_and_wrong_content_is_refused(tmp_path, change, message):
    book = new(tmp_path)
    book.release(measurement(), LOG)
    lines = entries_of(book)
    change(lines)
    rewrite(book, lines)
    refuses(rf"ledger.*{message}", ts.Ledger, book.path)


def test_a_record_of_something_else_is_found_by_verification(tmp_path):
    book = new(tmp_path)
    book.release(measurement(), LOG)
    lines = entries_of(book)
    lines[1]["designs"][0]["scale"] = 40.0  # as if less had been spent
    rewrite(book, lines)
    refuses(r"ledger.*1", ts.Ledger(book.path).verify)


@pytest.mark.parametrize("planned", [False, True])
def test_what_a_release_says_of_its_ledger_is_verified(tmp_path, planned):
    programme = ts.Programme.plan([count(1), count(2)], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    book = new(tmp_path, **({"programme": programme} if planned else {}))
    book.release(programme.measurement(count(1)) if planned else measurement(), LOG)
    right = entries_of(book)
    for change in (
        {"loss": [0.9, 1e-6]}, {"number": 2}, {"parts": 3}, {"digest": "00"}, {"digest": None}, {"programme": "aa"},
    ):  # fmt: skip
        lines = copy.deepcopy(right)
        lines[2]["releases"][0]["statement"]["parent"] |= change
        rewrite(book, lines)
        refuses(r"ledger.*1", ts.Ledger(book.path).verify)
    rewrite(book, right)
    assert ts.Ledger(book.path).verify().within


@pytest.mark.parametrize("planned", [3, 4])
def test_parts_of_a_programme_name_it_in_the_same_words(tmp_path, planned):
    """No number, which readers would take for that of a month: parts may be of several releases each, and uneven."""
    counts = [count(cap) for cap in range(1, planned + 1)]
    programme = ts.Programme.plan(counts, epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    book, parts = new(tmp_path, programme=programme), [programme.measurement(each) for each in counts]
    releases = [book.release(parts[0], LOG), *book.release(ts.make_composition(parts[-2:], delta=1e-6), LOG)]
    wholes = [release.stated.parent for release in releases]
    assert {(whole.number, whole.parts, whole.programme) for whole in wholes} == {(None, None, programme.identifier)}
    named = f"programme {programme.identifier[:16]} with (ε = 1, δ = 1e-06) in all"
    assert all(one.guarantee().endswith(f"; in {named}") for one in releases)
    assert joint_guarantee(releases).endswith(f"; all part of {named}")  # as a page of all of them says
    assert book.verify().within
    lines = entries_of(book)
    lines[2]["releases"][0]["statement"]["parent"]["number"] = 1
    rewrite(book, lines)
    refuses(r"ledger.*1.*1", ts.Ledger(book.path).verify)


def test_parts_that_several_ledgers_paid_for_are_of_one_programme(tmp_path):
    """All say that they are in this programme with ε = 1 in all."""
    programme = ts.Programme.plan([count(1)] * 2, epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    part = programme.measurement(count(1))
    parts = [new(tmp_path / name, programme=programme).release(part, LOG) for name in ("first", "second")]
    assert len(ts.read_releases(ts.write_releases(parts))) == 2
    for third in (new(tmp_path / "third", programme=programme).release(part, LOG), part(LOG)):
        refuses("loss of the parent", ts.write_releases, [*parts, third])


def test_a_ledger_has_the_budget_of_its_programme(tmp_path):
    programme = ts.Programme.plan([count(1)], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    book = new(tmp_path, programme=programme)
    first = entries_of(book)[0]
    for change in ({"epsilon": 0.1}, {"delta": 1e-9}, {"unit": first["unit"] | {"replaced": True}}):
        rewrite(book, [first | change])
        refuses("ledger", ts.Ledger, book.path)


def test_a_ledger_is_made_where_none_is_and_opened_where_one_is(tmp_path):
    refuses(r"check the name, or create it first", ts.Ledger, tmp_path / "people.ledger", error=FileNotFoundError)
    book = new(tmp_path)
    book.release(measurement(), LOG)
    before = book.path.read_bytes()
    with pytest.raises(FileExistsError):
        new(tmp_path)
    assert book.path.read_bytes() == before
    refuses(
        r"cannot be locked.*No such file",
        ts.Ledger.create,
        tmp_path / "none" / "people.ledger",
        error=FileNotFoundError,
        epsilon=1.0,
        delta=1e-6,
    )
    shown = repr(book), book._repr_html_()
    book.path.rename(tmp_path / "away")
    assert "does not exist" in repr(book)
    assert "does not exist" in book._repr_html_()
    (tmp_path / "away").rename(book.path)
    assert (repr(book), book._repr_html_()) == shown
    (tmp_path / "linked").symlink_to(book.path)
    refuses("must not be a symbolic link", ts.Ledger, tmp_path / "linked", error=OSError)


# ---- two processes, crashes, disks


def in_a_child(work):
    """Run in a fork, which is cheap: the package is imported already."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forks where threads run, which these children do not use
        child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


@posix
def test_one_process_at_a_time(tmp_path, monkeypatch):
    book = new(tmp_path)
    reading, writing = os.pipe()

    def hold():
        with locked(book.path, 0.0):
            os.write(writing, b"held")
            time.sleep(60)

    child = in_a_child(hold)
    try:
        assert os.read(reading, 4) == b"held"
        monkeypatch.setattr(ledger, "_WAIT", 0.1)
        refuses(r"is in use by another process", book.release, measurement(), nothing_is_read, error=BlockingIOError)
        assert ts.Ledger(book.path).entries == ()  # which needs no lock
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    book.release(measurement(), LOG)  # the lock has ended with the process
    os.close(reading)
    os.close(writing)


@posix
def test_processes_at_once_never_exceed_the_budget_together(tmp_path):
    book = new(tmp_path)
    scale = book.least_scale(count(), sampling_probability=0.5)

    def race():
        try:
            ts.Ledger(book.path).release(measurement(scale), LOG)
        except ValueError:
            return

    children = [in_a_child(race) for _ in range(4)]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert states(ts.Ledger(book.path)) == ["released"]
    assert book.verify().within


def kill_at_random(folder, times, seed):
    """Kill children that release and publish without end, and check after each what has been left."""
    book = ts.Ledger.create(folder / "people.ledger", epsilon=1e6, delta=1e-6)
    published = folder / "published"
    published.touch()
    draw, open_entries = random.Random(seed), 0
    reading, writing = os.pipe()

    def work():
        mine = ts.Ledger(book.path)
        with published.open("ab", buffering=0) as file:
            while True:
                release = mine.release(measurement(), LOG)
                file.write(release.to_json().encode() + b"\n")
                os.write(writing, b"x")

    for k in range(times):
        child = in_a_child(work)
        if k % 2:  # else it may be killed before its first release
            os.read(reading, 1)
        time.sleep(draw.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        now = ts.Ledger(book.path)
        now.verify()
        recorded = {release.to_json() for release in now.releases()}
        handed_out = [line.decode() for line in published.read_bytes().split(b"\n")[:-1]]
        assert set(handed_out) <= recorded  # nothing released unrecorded
        assert len(set(handed_out)) == len(handed_out)
        assert len(now.entries) >= len(recorded) >= len(handed_out) >= k // 2  # and nothing forgotten
        for leftover in folder.glob(".*.unfinished"):
            leftover.unlink()
        for leftover in folder.glob(".*.earlier"):
            leftover.unlink()
        open_entries = states(now).count("spent")
        before = len(now.entries)
        now.release(measurement(), LOG)  # no lock is stale
        assert len(now.entries) == before + 1
    os.close(reading)
    os.close(writing)
    return open_entries


@posix
@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.long)])
def test_a_killed_process_leaves_a_sound_ledger(tmp_path, times):
    kill_at_random(tmp_path, times, seed=times)


@posix
@pytest.mark.long
def test_some_are_killed_between_the_entry_and_the_release(tmp_path):
    interrupted = 0
    for part in range(8):
        folder = tmp_path / str(part)
        folder.mkdir()
        interrupted += kill_at_random(folder, 25, seed=part)
    assert interrupted > 0  # of 200; some 40, on the disk of the machine on which it was written


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("call", "calls_made"), [("fsync", 6), ("replace", 2), ("link", 2)])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_whatever_fails_leaves_the_old_ledger_or_the_new(tmp_path, monkeypatch, call, calls_made, error):
    book = new(tmp_path)
    book.release(measurement(50.0), LOG)
    real = getattr(os, call)
    for nth in range(calls_made + 1):
        before, calls, made = ts.Ledger(book.path).entries, iter(range(100)), None

        def failing(*arguments, nth=nth, calls=calls, **options):
            if next(calls) == nth:
                raise error
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(_files.os, call, failing)
            try:
                made = book.release(measurement(1000.0), LOG)
            except (OSError, KeyboardInterrupt):
                assert nth < calls_made
        after = ts.Ledger(book.path)
        assert after.entries[: len(before)] == before
        assert len(after.entries) - len(before) <= 1
        if made is not None:
            assert after.releases()[-1] == made
    after.verify()
    assert len(after.entries) > 2


@posix
def test_a_full_disk_leaves_an_entry_to_resume(tmp_path):
    resource = pytest.importorskip("resource")
    book = new(tmp_path)
    big = count(size=10_000) >> ts.then_subsampled_gaussian(50.0, sampling_probability=0.5, delta=1e-6)

    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            book.release(big, LOG)
        except OSError:
            os._exit(7)

    assert os.waitstatus_to_exitcode(os.waitpid(in_a_child(full), 0)[1]) == 7
    assert states(ts.Ledger(book.path)) == ["spent"]
    assert not list(tmp_path.glob("*.unfinished"))
    book.release(big, LOG, resume=True)
    assert states(ts.Ledger(book.path)) == ["released"]


@posix
@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_folder_that_cannot_lock_is_refused(tmp_path, monkeypatch, error):
    import fcntl

    book = new(tmp_path)

    def unable(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", unable)
    with pytest.raises(OSError, match=r"lock files .*move it to a disk of this machine"):
        book.release(measurement(), nothing_is_read)
    assert ts.Ledger(book.path).entries == ()


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    book = new(tmp_path)
    real = os.open

    def read_only(path, flags, *rest):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    refuses(r"locked.*Read-only file system.*put it", book.release, measurement(), nothing_is_read, error=OSError)
    assert ts.Ledger(book.path).entries == ()  # reading it is possible


@pytest.mark.long
def test_a_thousand_releases_are_opened_in_a_second_and_verified_in_ten(tmp_path):
    book = ts.Ledger.create(tmp_path / "people.ledger", epsilon=100.0, delta=1e-6)
    content = book._read()
    for k in range(1000):
        made = [measurement(20.0 + k % 3, month=k % 12 + 1)(LOG)]
        content = content.with_spent([made[0].design]).with_released(k + 1, made)
    book._write(content)
    with within(1):
        opened = ts.Ledger(book.path)
        assert opened.standing().within
    with within(1):
        opened.release(measurement(30.0), LOG)
    with within(10):
        opened.verify()
