"""Values that are added up: each cell is a number by itself, and no row moves a sum beyond the bound."""

import decimal
import math
import time

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.__main__ import main
from opendp_timeseries.counting import batches, capped_count, files, identifiers, scaling, sorting
from opendp_timeseries.counting.amounts import amount_of, amounts_of
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_csv_log
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.reading import MAX_BOUND, Source
from opendp_timeseries.design.tiers import Tiers, tiers_for
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin.mechanisms import stated_designs
from tests import make
from tests.counting import drawn
from tests.oracles import counting as oracle
from tests.refused import refuses

KEY = bytes(range(16))
SIZE = 6


def count_of(bound, *, size=SIZE, keys=None, **options):
    source = Source(identifier="who", time="when", value="value", by=keys and "where")
    return make.count(source=source, grid=TimeGrid(size=size), panel=keys, step_cap=bound, **options)


def counted(log, count):
    return engine_of(log).count(log, count, KEY).tolist()


@pytest.mark.parametrize("bound", [1, 3, 600, MAX_BOUND])
def test_each_cell_is_a_number_by_itself(bound):
    for kind, cells in drawn.VALUES.values():
        expected = [oracle.amount(number, bound) for _, number in cells]
        assert [amount_of(cell, bound) for cell, _ in cells] == expected
        if kind in drawn.pa_numbers():
            column = np.array([0 if cell is None else cell for cell, _ in cells], kind.to_pandas_dtype())
            present = [cell is not None for cell, _ in cells]
            assert amounts_of(column, bound)[present].tolist() == np.array(expected)[present].tolist()
    assert amounts_of(np.array([2.5 + 0j, 7 + 1j, 1j]), bound).tolist() == [min(3, bound), 0, 0]


def test_halves_are_rounded_up_wherever_floats_end():
    for whole in (0, 1, 2**19, 2**20 - 1):
        half = whole + 0.5
        near = np.array([math.nextafter(half, 0), half, math.nextafter(half, math.inf)])
        assert amounts_of(near, MAX_BOUND).tolist() == [whole, whole + 1, whole + 1]
        assert [amount_of(cell, MAX_BOUND) for cell in near.tolist()] == [whole, whole + 1, whole + 1]


def test_odd_cells_raise_nothing_and_are_of_no_value():
    class Odd(float):
        def __float__(self):
            raise ValueError("secret")

    cells = [Odd("nan"), [], object(), decimal.Decimal("sNaN"), "9" * 5000, b"\xff", {}, ...]
    assert [amount_of(cell, 9) for cell in cells] == [0] * len(cells)
    assert amount_of(10**400, 9) == amount_of(decimal.Decimal("1e400"), 9) == 9


def test_spans_of_pandas_are_no_numbers():
    pd = pytest.importorskip("pandas")
    spans = (pd.period_range("2024-01", periods=2, freq="M"), pd.interval_range(0, 2))
    for values in spans:
        log = pd.DataFrame({"who": [1, 2], "when": [0, 1], "value": values})
        with pytest.raises(TypeError, match=r"^column 'value' of type"):
            counted(log, count_of(5, participation_cap=2))


def test_what_is_of_no_value_takes_no_step_of_anybody():
    values = np.array([0.0, np.nan, -5, 3, 4])
    log = {"who": np.zeros(5, int), "when": np.arange(5), "value": values}
    count = count_of(9, participation_cap=2)
    assert counted(log, count) == [0, 0, 0, 3, 4, 0]
    assert engine_of(log).participation(log, count.reading).tolist() == [2]
    assert engine_of(log).tally(log, count.reading).no_value == 3
    assert counted(log, count_of(9, participation_cap=SIZE, gap=3)) == [0, 0, 0, 3, 0, 0]


@pytest.mark.parametrize("wide", [False, True])
def test_values_stay_beside_their_rows_whatever_the_identifiers(wide):
    random = np.random.default_rng(4)
    who, when = (
        random.integers(0, 40, 5000) * (2**57 if wide else 1) - 2**61 * wide,
        random.integers(-1, SIZE + 1, 5000),
    )
    log = {"who": who, "when": when, "value": random.integers(0, 5, 5000)}
    rows = zip(who.tolist(), when.tolist(), log["value"].tolist(), strict=True)
    for bound in (3, 40, 2**20):
        sums = {}
        for person, step, value in rows:
            if 0 <= step < SIZE:
                sums[person, step] = sums.get((person, step), 0) + min(value, bound)
        expected = [sum(min(much, bound) for (_, at), much in sums.items() if at == step) for step in range(SIZE)]
        rows = zip(who.tolist(), when.tolist(), log["value"].tolist(), strict=True)
        assert counted(log, count_of(bound, participation_cap=SIZE)) == expected


def test_rows_and_what_is_sorted_along():
    random = np.random.default_rng(0)
    for most in (2**40, 2**62):
        rows, amounts = random.integers(-most, most, 3000) // 7 * 7, random.integers(0, 2**20, 3000)
        expected = sorted(zip(rows.tolist(), amounts.tolist(), strict=True))
        sorting.sort_along(rows, amounts, 20)
        assert sorted(zip(rows.tolist(), amounts.tolist(), strict=True)) == expected
        assert np.all(np.diff(rows) >= 0)


@pytest.mark.parametrize(("mark", "other"), [".,", ",."])
def test_a_file_that_is_folded_counts_as_all_of_its_rows(tmp_path, monkeypatch, mark, other):
    random = np.random.default_rng(2)
    who, when = random.integers(0, 9, 3000), random.integers(0, 30, 3000)
    values = [(f"2{mark}5", 3), ("", 0), ("x", 0), ("7", 7), ("-3", 0), ("1e9", 20), (f"0{mark}2", 0)]
    values += [(f"7{other}0", 0), (f"1{other}234{mark}5", 0), (f"1{other}234", 0)]
    which = random.integers(0, len(values), 3000)
    where = random.integers(0, 3, 3000)
    lines = [
        f"p{p};2024-01-0{1 + t // 24}T{t % 24:02}:30;{'abc'[k]};{values[v][0]}"
        for p, t, k, v in zip(who, when, where, which, strict=True)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["who;when;where;value", *lines]))
    grid = TimeGrid(start="2024-01-01", step="1h", size=30, zone="UTC")
    numbers = np.array([number for _, number in values])[which]
    for keys in (None, ("a", "b")):
        source = Source(identifier="who", time="when", by=keys and "where", value="value")
        for bound, own in ((20, 20), (20, 8)):
            count = make.count(source=source, grid=grid, panel=keys, step_cap=own, participation_cap=5, excess="l2")
            expected = [0] * count.size
            people = {}
            for p, t, k, v in zip(who.tolist(), when.tolist(), where.tolist(), numbers.tolist(), strict=True):
                place = t if keys is None else k * 30 + t
                if v and (keys is None or k < 2):
                    own_sums = people.setdefault(p, {})
                    own_sums[place] = own_sums.get(place, 0) + min(v, bound)
            for sums in people.values():
                caps = {"participation_cap": 5, "step_cap": own, "key": KEY, "cycle": 30, "excess": "l2"}
                for place, much in oracle.kept("p", sums, **caps).items():
                    expected[place] += much
            for many, large in ((2**20, 0), (50, 2**40)):  # by PyArrow, if it is here, and without it
                monkeypatch.setattr(batches, "_MANY", many)
                monkeypatch.setattr(files, "_LARGE", large)
                reading = make.changed(count, step_cap=bound).reading
                log = read_csv_log(path, reading, zone="UTC", delimiter=";", value_decimal=mark)
                assert counted(log, count) == expected
                assert log.tally.no_value == int(np.sum((numbers == 0) & ((keys is None) | (where < 2))))


def test_a_file_of_values_has_all_of_its_people_or_none(tmp_path):
    """Also those whose rows are of no value, where people are counted; and a file without rows is as any other."""
    path, grid = tmp_path / "log.csv", TimeGrid(start="2024-01-01", step="1h", size=24, zone="UTC")
    source = Source(identifier="who", time="when", by=None, value="value")
    summed = make.count(source=source, grid=grid, step_cap=60, participation_cap=3)
    who = Source(identifier="who", time="when", by=None)
    everybody = make.count(source=who, grid=TimeGrid(size=1), once_over=grid, participation_cap=1)
    three = ["a,2024-01-01T03:00,7", "b,2024-01-01T04:00,0", "c,2024-01-01T04:00,"]
    for rows, much, people in (([], 0, 0), (three, 7, 3)):
        path.write_text("\n".join(["who,when,value", *rows]) + "\n")
        log = read_csv_log(path, summed.reading, zone="UTC")
        assert sum(counted(log, summed)) == much
        assert counted(log, everybody) == [people]


def test_no_text_takes_long_to_be_no_number():
    start = time.process_time()
    assert amount_of("9" * 400_000 + "x", 10) == 0
    assert identifiers.identifier_text("9" * 400_000 + "x") is not None
    assert time.process_time() - start < 2  # by a grammar that goes back, hours


def test_sums_do_not_wrap_and_stay_at_a_limit(monkeypatch):
    """Whoever comes: 2**28 individuals at the bound would be beyond 64 bits."""
    monkeypatch.setattr(capped_count, "MOST_SUM", 2**16 * MAX_BOUND * 3)
    monkeypatch.setattr(capped_count, "_CHUNK", 2)
    log = {"who": np.arange(9), "when": np.zeros(9, int), "value": np.full(9, 1e30)}
    count = count_of(MAX_BOUND, participation_cap=1, excess="l2")
    assert counted(log, count)[0] == 2**16 * MAX_BOUND * 3
    assert (
        2**17 + 1
    ) * 2**16 * MAX_BOUND * 256 + scaling.MOST_SUM < 2**63  # a batch of people, at many keys of a group
    totals = make.count(
        source=count.source, grid=count.grid, step_cap=9, participation_cap=6, excess="l1", per=TimeGrid(size=2)
    )
    for top in (5, 2**60, scaling.MOST_SUM):
        entries = np.array([top, 1, 2, top, top, top - 3])
        expected = [min(sum(entries[k : k + 3].tolist()), 2**61) for k in (0, 3)]
        assert totals.add_up(entries).tolist() == expected


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
def test_sums_in_a_database_do_not_wrap(backend, monkeypatch):
    from opendp_timeseries.counting import database

    who = np.arange(18) // 2  # each with two rows
    table = backend.table(who=who, when=np.zeros(18, int), value=np.full(18, 2**62))
    assert counted(table, count_of(MAX_BOUND, participation_cap=1))[0] == 9 * MAX_BOUND
    count = count_of(MAX_BOUND, participation_cap=1, excess="l2")
    assert counted(table, count)[0] == 9 * 2**16 * MAX_BOUND
    monkeypatch.setattr(database, "MOST_SUM", 2**37)
    assert counted(table, count)[0] == 2**37


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning", "ignore::FutureWarning")
def test_cells_in_a_database_are_the_numbers_that_they_are_in_memory(backend):
    import pyarrow as pa

    for name, (kind, cells) in drawn.VALUES.items():
        if kind is None or (backend.name == "spark" and name == "uint64"):
            continue
        columns = {"who": pa.array(range(len(cells))), "when": pa.array(range(len(cells)))}
        table = backend.table(**columns, value=pa.array([cell for cell, _ in cells], kind))
        count = count_of(600, size=len(cells), participation_cap=1)
        assert counted(table, count) == [oracle.amount(number, 600) for _, number in cells], name


# --- How far anybody moves sums: everything that somebody can do in a small setting, by the slow count


def vectors_of(count, levels=None):
    """What one individual adds with every value at every place, and the very counts of some of them."""
    reading, tiers = count.reading, count.tiers
    places = [k * SIZE3 + t for k in range(reading.series) for t in range(SIZE3)]
    limits = {"participation_cap": count.cap or 1, "step_cap": reading.step_cap, "gap": reading.gap, "cycle": SIZE3}
    more = {"excess": "drop" if count.weighting.norm is None else count.weighting.norm}
    if tiers is not None:
        own = {"ends": tiers.ends, "share": tiers.share, "typical": tiers.typical}
        more |= {"tiers": own | {"most": last_of(count), "size": count.size // tiers.series}, "levels": levels}
    for number, values in enumerate(np.ndindex(*[reading.step_cap + 1] * len(places))):
        sums = {place: value for place, value in zip(places, values, strict=True) if value}
        vector = np.zeros(count.size, dtype=np.int64)
        kept = oracle.kept("1", sums, key=KEY, **limits, **more)
        vector[list(kept)] = list(kept.values())
        if number % 11 == 0:
            positions, amounts = np.array([*sums], dtype=np.int64), np.array([*sums.values()], dtype=np.int64)
            who = np.ones(len(sums), dtype=np.int64)
            assert capped_count.capped_count(who, positions, count, KEY, amounts).tolist() == vector.tolist(), values
        yield vector


def last_of(count):
    bound, typical, whole = count.reading.step_cap, count.tiers.typical, count.tiers.total_bound
    squares = count.reading.max_steps * bound**2
    return -(-(squares if whole is None else min(squares, whole * bound)) // typical**2)


SIZE3 = 3
SMALL = {
    "dropped": {"bound": 5, "participation_cap": 2},
    "one clip": {"bound": 6, "participation_cap": 2, "excess": "l2"},
    "one clip of magnitudes": {"bound": 6, "participation_cap": 1, "excess": "l1"},
    "tiers": {"bound": 7, "tiers": Tiers(ends=(1, 5)), "typical": 2},
    "tiers by units": {"bound": 6, "tiers": Tiers(ends=(2, 9, 30), share=0.8), "typical": 1},
    "a bound on all of it": {"bound": 6, "tiers": Tiers(ends=(1, 4), total_bound=8), "typical": 1},
    "a first tier below the bound": {"bound": 9, "tiers": Tiers(ends=(1,)), "typical": 1},
    "a gap": {"bound": 6, "tiers": Tiers(ends=(2,)), "typical": 2, "gap": 2},
}


@pytest.mark.parametrize("name", SMALL)
def test_nobody_moves_a_sum_further_than_stated(name):
    options = dict(SMALL[name])
    bound = options.pop("bound")
    count, replaced = (count_of(bound, size=SIZE3, unit=Unit(replaced=of), **options) for of in (False, True))
    rows = np.unique(np.array([*vectors_of(count)]), axis=0)
    unit = 1 if count.resolution_bits == 0 else 2**16
    squares = (rows * rows).sum(axis=1)
    one, two = count.influence(), replaced.influence()
    most = int(squares.max())
    assert most <= one.l2_squared * unit**2
    assert rows.max() <= one.linf * unit
    assert np.count_nonzero(rows, axis=1).max() <= one.l0
    assert int(rows.sum(axis=1).max()) <= one.l1_norm() * unit
    differences = squares[:, None] + squares - 2 * rows @ rows.T
    assert int(differences.max()) <= two.l2_squared * unit**2
    assert np.abs(rows[:, None] - rows).max() <= two.linf * unit
    if "gap" not in options:
        assert most > one.l2_squared * unit**2 * 0.93  # and it is attained, but for the rounding of weights


@pytest.mark.parametrize("total_bound", [None, 3])
def test_nobody_moves_groups_of_sums_further_than_stated(total_bound):
    keys, levels = ("a", "b"), [(12, (0, 1)), (4, (2, 2))]
    grouping = Grouping.of({"city": list(keys)}, keys, (0.75, 0.25))
    tiers = Tiers(ends=(2, 5), total_bound=total_bound)
    count, replaced = (
        make.count(
            source=Source(identifier="who", time="when", by="where", value="value"), grid=TimeGrid(size=SIZE3),
            panel=keys, step_cap=2, grouping=grouping, tiers=tiers, typical=1, unit=unit,
        )
        for unit in (Unit(), Unit(replaced=True))
    )  # fmt: skip
    rows = np.array([*vectors_of(count, levels)])
    squares = (rows * rows).sum(axis=1)
    assert 0.95 * 2 < int(squares.max()) / 4**16 <= count.influence().l2_squared == 2
    assert rows.max() / 2**16 <= count.influence().linf
    assert replaced.influence().l2_squared == 4
    differences = squares[:, None] + squares - 2 * rows @ rows.T
    assert int(differences.max()) / 4**16 <= 4


# --- What is asked for


def test_the_noise_goes_by_what_is_typical_and_not_by_the_bound(log_space):
    """Of events, too: a cap on those in a step costs the levels nothing but the last tier's."""
    grid, budget = TimeGrid(size=200), {"epsilon": 1.0, "delta": 1e-6}
    series = [
        log_space >> ts.then_private_series(grid, **budget, **options)
        for options in (
            {},
            {"step_cap": 20},
            {"value": "value", "bound": 20, "typical": 1},
            {"value": "value", "bound": 600, "typical": 10},
        )
    ]
    first, *others = (stated_designs(one)[0][0].scale for one in series)
    assert others == pytest.approx([first, first, 10 * first], rel=1e-9)


def test_what_is_asked_for_is_what_runs_and_is_written_down(log_space):
    keys = {"by": "site", "keys": ["a", "b"]}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    random = np.random.default_rng(1)
    log = {
        "id": random.integers(0, 50, 400), "time": random.integers(0, 24, 400),
        "site": np.array(["a", "b"])[random.integers(0, 2, 400)], "minutes": random.integers(0, 90, 400),
    }  # fmt: skip
    for options in (
        {"typical": 5, "total_bound": 900}, keys | {"groups": {"all": ["a", "b"]}}, {"gap": 2},
        {"tiers": ts.Tiers(ends=(3, 50), typical=7, total_bound=4000)},
    ):  # fmt: skip
        measurement = log_space >> ts.then_private_series(
            TimeGrid(size=24), value="minutes", bound=60, **options, **budget
        )
        release = measurement(log)
        assert release.verify() == release.stated.loss == (measurement.map(1),)
        assert ts.Release.from_json(release.to_json()) == release
        names = {"log": log}
        exec(release.design.python(**budget), names)
        assert names["release"].design == release.design
    for excess in ({}, {"norm": "l1"}, {"excess": "drop"}, {"norm": "l1", "per": 12}):
        count = log_space >> ts.then_participation_count(
            TimeGrid(size=24), participation_cap=3, value="minutes", bound=60, **excess
        )
        release = (count >> ts.then_subsampled_gaussian(9.0, sampling_probability=1.0))(log)
        names = {"log": log}
        exec(release.design.python(), names)
        assert names["release"].design == release.design


def test_what_values_cannot_be_is_refused_by_name(log_space):
    grid = TimeGrid(size=24)

    def asked(**options):
        return log_space >> ts.then_participation_count(grid, **options)

    many = [f"{k}" for k in range(300)]
    for options, error, message in (
        ({"value": "v"}, TypeError, "bound"),
        ({"bound": 3}, ValueError, "bound"),
        ({"value": "v", "bound": 0}, ValueError, r"bound \(0\)"),
        ({"value": "v", "bound": 2**20 + 1}, ValueError, r"bound \(1048577\)"),
        ({"value": "v", "bound": 2.5}, TypeError, "bound"),
        ({"value": "v", "bound": 3, "step_cap": 2}, ValueError, "step_cap"),
        ({"value": "id", "bound": 3}, ValueError, r"value.*'id'"),
        ({"value": "time", "bound": 3}, ValueError, "value"),
        ({"value": "v", "by": "v", "keys": ["a"], "bound": 3}, ValueError, "value"),
        ({"value": 3, "bound": 3}, TypeError, "value"),
        ({"value": "v", "bound": 3, "typical": 4}, ValueError, "typical"),
        ({"value": "v", "bound": 3, "total_bound": 2}, ValueError, "total_bound"),
        ({"value": "v", "bound": 3, "participation_cap": 2, "typical": 2}, ValueError, r"typical.*.2."),
        ({"typical": 2}, ValueError, "typical"),
        ({"value": "v", "bound": 3, "tiers": ts.Tiers(ends=(2,)), "typical": 2}, ValueError, "typical"),
        ({"value": "v", "bound": 2**20, "tiers": ts.Tiers(ends=(2,))}, ValueError, "the last tier"),
        (
            {"value": "v", "bound": 2**20, "by": "k", "keys": many, "groups": {"all": many}},
            ValueError, "bound",
        ),
    ):  # fmt: skip
        refuses(message, asked, error=error, **options)
    for reading in ({"source": Source(identifier="id", value="v")}, {"once_over": TimeGrid(size=4)}):
        given = {"source": Source(identifier="id", time="t", value="v"), "grid": TimeGrid(size=1), "step_cap": 5}
        refuses(r"value.*'v'", make.count, **given | reading)


def test_errors_of_sums_are_those_of_counts_in_units_of_a_typical_value(log_space, tmp_path, capsys):
    grid, budget = TimeGrid(size=240), {"epsilon": 1.0, "delta": 1e-6}
    of_people = {"level": 200, "season_amplitudes": {24: 90}, "deviation": 20, "time_scale": 12}
    of_minutes = of_people | {"level": 3000, "season_amplitudes": {24: 1350}, "deviation": 300}
    same = {"value": "minutes", "typical": 15, "bound": 15}
    people, minutes = ts.plan(grid, **budget, **of_people), ts.plan(grid, **budget, **of_minutes, **same)
    error = minutes.recommended.smoothed / 15
    assert error == pytest.approx(people.recommended.smoothed, rel=0.1)  # but for what is thought of the level
    assert minutes.deviation == pytest.approx(15 * people.deviation)
    for bound in (60, 1800):
        generous = ts.plan(grid, **budget, **of_minutes, **same | {"bound": bound})
        assert minutes.recommended.smoothed < generous.recommended.smoothed < 1.5 * minutes.recommended.smoothed
    count = log_space >> ts.then_participation_count(grid, **same)
    programme = ts.Programme.plan([count], **budget, sampling_probability=1.0)
    assert programme.expected_errors(**of_minutes)[0].smoothed == pytest.approx(15 * error)
    assert "value='minutes', bound=15, typical=15)" in minutes.python()
    publication = tmp_path / "publication.toml"
    publication.write_text('[count]\nvalue = "minutes"\nbound = 1800\ntypical = 15\n[log]\nfile = "log.csv"\n')
    words = ["--epsilon=1", "--delta=1e-6", "--size=240", "--start=2024-01-01", "--step=1h", "--level=3000"]
    assert main(["plan", str(publication), *words, "--deviation=300", "--time-scale=12", "--season=24:1350"]) == 0
    said = capsys.readouterr().out
    assert f"expected error {generous.recommended.smoothed:.4g} " in said
    assert "--value minutes --bound 1800 --typical 15" in said
    capped = log_space >> ts.then_participation_count(grid, participation_cap=4, value="minutes", bound=15)
    programme = ts.Programme.plan([capped], **budget, sampling_probability=1.0)
    with pytest.raises(ValueError, match=r"^a series.*'minutes'"):
        programme.expected_errors(**of_minutes)
    for options, message in (
        ({"value": "v", "bound": 9}, "typical"),
        ({"value": "v", "typical": 9}, "bound"),
        ({"value": "v", "bound": 9, "typical": 10}, "typical"),
        ({"value": "v", "bound": 9, "typical": 3, "participation_cap": 4}, "participation_cap"),
        ({"typical": 3}, "typical"),
        ({"total_bound": 3}, "total_bound"),
    ):
        refuses(message, ts.plan, grid, error=(TypeError, ValueError), **budget, **of_minutes, **options)


def test_a_column_whose_type_says_that_no_cell_is_a_number_is_refused():
    for values in (np.array(["2024-01-01"], "M8[D]"), np.array([5], "m8[s]")):
        log = {"who": np.array([1]), "when": np.array([0]), "value": values}
        with pytest.raises(TypeError, match=r"^column 'value' of type"):
            counted(log, count_of(9, participation_cap=1))


def test_tiers_for_values_begin_at_some_typical_ones_and_end_where_nobody_is_beyond():
    reading = count_of(600, size=744, participation_cap=1).reading
    tiers = tiers_for(reading)
    assert (tiers.typical, tiers.ends[0], tiers.last(reading)) == (10, 10, 744 * 600**2 // 10**2)
    assert tiers_for(reading, typical=5).typical == 5
    assert tiers_for(reading, total_bound=10_000).last(reading) == -(-10_000 * 600 // 10**2)
    assert tiers_for(make.changed(make.count(source=None, grid=TimeGrid(size=744)), step_cap=20).reading).typical == 1
    for bound in (1, 600, MAX_BOUND):
        for size in (1, 2**21):
            reading = count_of(bound, size=size, participation_cap=1).reading
            tiers = tiers_for(reading)
            tiers.check_reading(reading)
            assert tiers.series <= 16
            assert tiers.table(tiers.last(reading)).weights[0, -1] > 2
            assert tiers.weights(reading).ends[-1] >= size * bound**2
