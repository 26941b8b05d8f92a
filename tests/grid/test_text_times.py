"""Times that are text: one grammar, the same in every kind of table, under every version of Python."""

import contextlib
import datetime as dt
import random
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_timeseries.__main__ import main
from opendp_timeseries.counting import tables
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.files import read_csv_log, read_parquet_log
from opendp_timeseries.design.reading import Source
from opendp_timeseries.grid import TextTimes, TimeGrid, read_text_times
from tests.counting.tables import count_of, rows_of_csv
from tests.oracles import text_times as oracle
from tests.refused import refuses

NAT = np.iinfo(np.int64).min
US = dt.timedelta(microseconds=1)
HELD = 2**63 - 3 * 86400 * 10**9  # further from 1970, a time is off every grid, and no more is promised

#: What is a time, nanoseconds from midnight on 1 July 2024 (UTC, or a clock that is not named).
READ = {
    "2024-07-01": (0, False),
    "20240701": (0, False),
    "2024-07-01Z": (0, True),
    "2024-07-01T05": (5 * 3600, False),
    "2024-07-01 05:30": (19800, False),
    "20240701T0530": (19800, False),
    "20240701T053007": (19807, False),
    "2024-07-01t05:30:07z": (19807, True),
    "2024-07-01 05:30 UTC": (19800, True),
    "2024-07-01 05:30UTC": (19800, True),
    "2024-07-01 05:30 GMT": (19800, True),
    "2024-07-01 05:30+02": (12600, True),
    "2024-07-01 05:30 +0200": (12600, True),
    "2024-07-01T05:30-00:30": (21600, True),
    "20240701T0530+02:00": (12600, True),
    "  2024-07-01 05:30\t": (19800, False),
    "2024-07-01T00:00:00.5": (0.5, False),
    "2024-07-01T00:00:00,25Z": (0.25, True),
}
#: And what is not.
UNREAD = [
    "", " ", "x", "2024", "2024-07", "2024-7-1", "2024-0701", "202407-01", "2024-07-01T", "2024-07-01_05:30",
    "2024-07-01T5:30", "2024-07-01T0530:07", "2024-07-01T05:3007", "2024-07-01T05:30.5", "2024-07-01T05:30:07.",
    "2024-07-01T05:30:07.1234567890", "2024-07-01T24:00", "2024-07-01T23:60", "2024-07-01T23:59:60", "2023-02-29",
    "2024-00-01", "2024-13-01", "2024-07-00", "2024-06-31", "0000-01-01", "2024-07-01T05:30+24",
    "2024-07-01T05:30+02:60", "2024-07-01T05:30+2", "2024-07-01T05:30+02:", "2024-07-01T05:30 EST",
    "2024-07-01T05:30 utc", "2024-07-01T05:30ZZ", "2024-07-01T05:30  UTC", "2024-07-01T05:30Z+02", "2024-W27-1",
    "2024W271", "2024-183", "2024183", "1719792000", "٢٠٢٤-07-01", "2024-07-01\0", "2024\0-07-01",
    "2024-07-01T05:30:00.123456789 +00:00x", "2024-07-01 05:30" + "0" * 99, "\ud8002024-07-01", "2024−07−01",
    "+2024-07-01", "07/01/2024", "NaT", "nan",
]  # fmt: skip


def test_what_is_a_time_and_what_is_not():
    times, aware = read_text_times([*READ, *UNREAD])
    first = np.datetime64("2024-07-01", "ns")
    assert times[: len(READ)].tolist() == [
        (first + np.timedelta64(int(s * 10**9), "ns")).item() for s, _ in READ.values()
    ]
    assert aware.tolist() == [known for _, known in READ.values()] + [False] * len(UNREAD)
    assert np.isnat(times[len(READ) :]).all()
    assert read_text_times([]).times.tolist() == []


def check(texts):
    times, aware = read_text_times(texts)
    for text, time, known in zip(texts, times.astype(np.int64).tolist(), aware.tolist(), strict=True):
        expected = oracle.read(text)
        if expected is None:
            assert (time, known) == (NAT, False), text
        elif abs(expected[0]) < HELD:
            assert (time, known) == expected, text
        else:
            assert (abs(time) >= HELD, time > 0, known) == (True, expected[0] > 0, expected[1]), text


def drawn_text(rng):
    """A text of the grammar, often with one number too large or one place spoilt."""

    def number(digits, most):
        return f"{rng.randint(0, most) if rng.random() < 0.97 else most + 1:0{digits}}"

    dash, colon, size = rng.choice(["-", ""]), rng.choice([":", ""]), rng.randint(0, 3)
    text = dash.join([number(4, 9999), number(2, 12), number(2, 31)])
    if size:
        text += rng.choice("Tt ") + colon.join([number(2, 23), number(2, 59), number(2, 59)][:size])
    if size == 3 and rng.random() < 0.5:
        text += rng.choice(".,") + "".join(rng.choices("0123456789", k=rng.randint(0, 10)))
    text += rng.choice(["", "", " "])
    zones = [
        "",
        rng.choice(["Z", "z", "UTC", "GMT"]),
        rng.choice("+-") + number(2, 23) + rng.choice(["", ":", ":00", "30", ":60"]),
    ]
    text += rng.choice(zones)
    if rng.random() < 0.3:
        at, odd = rng.randint(0, len(text)), rng.choice(["", *"09-: TZU.+\0٣é"])
        text = text[:at] + odd + text[at + rng.randint(0, 1) :]
    return text


@pytest.mark.long
def test_drawn_texts():
    rng = random.Random(3)
    some = [drawn_text(rng) for _ in range(30_000)]
    check(some)
    assert 5000 < sum(oracle.read(text) is not None for text in some) < 25_000


def test_the_first_and_the_last_times():
    check(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59", "0001-01-01", "9999-12-31T23:59:59.999999999Z"])
    check(["1677-12-31T00:00:00.000000001Z", "2262-01-01T23:47:16.854775807Z", "1969-12-31T23:59:59.999999999"])
    check([f"{year}-02-29" for year in (1600, 1700, 1900, 2000, 2023, 2024, 2100, 2400)])


@given(st.lists(st.text("0123456789-:.,+TZtz UTCGM\0٣é\ud800", max_size=40)))
def test_texts_of_any_kind(drawn):
    check(drawn)


def test_each_text_is_read_by_itself():
    rng = random.Random(7)
    some = [*READ, *UNREAD] * 700  # more than are read at a time
    rng.shuffle(some)
    times, aware = read_text_times(some)
    alone = {text: read_text_times([text]) for text in {*some}}
    assert times.astype(np.int64).tolist() == [alone[text].times.astype(np.int64)[0] for text in some]
    assert aware.tolist() == [alone[text].aware[0] for text in some]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
def test_times_on_a_clock_that_the_text_does_not_name(zone):
    clock = zoneinfo.ZoneInfo(zone)
    clocks = [dt.datetime(2011, 1, 1) + k * dt.timedelta(minutes=1237) for k in range(900)]
    clocks += [dt.datetime(2013, 11, 3, 0, 30) + k * dt.timedelta(minutes=10) for k in range(12)]  # twice in New York
    clocks += [dt.datetime(2013, 3, 10, 1, 30) + k * dt.timedelta(minutes=10) for k in range(12)]  # skipped
    expected = [np.datetime64(c.replace(tzinfo=clock).astimezone(dt.UTC).replace(tzinfo=None), "ns") for c in clocks]
    naive = [c.isoformat() for c in clocks]
    read = read_text_times([*naive, *(text + "+01:00" for text in naive), "x", "0001-01-01", "9999-12-31"])
    utc = read.in_utc(dt.UTC if zone == "UTC" else clock)
    assert utc[: len(clocks)].tolist() == [e.item() for e in np.array(expected)]
    offset = np.array(naive, "M8[ns]") - np.timedelta64(1, "h")
    assert utc[len(clocks) : 2 * len(clocks)].tolist() == offset.tolist()
    assert np.isnat(utc[-3])
    grid = TimeGrid(start="1680-01-01", end="1969-01-01", step="289y", zone="UTC")
    assert grid.steps(utc[-2:]).tolist() == [-1, -1]
    assert TextTimes(*read).times is read.times


class TestEveryTable:
    """The same texts in the same steps, in tables of all kinds and in CSV files."""

    TEXTS = (*READ, *UNREAD, "2024-07-01T05:30:00 +05:45", "2024-06-30T23:00-01")
    ZONE = "Asia/Kathmandu"
    GRID = TimeGrid(start="2024-06-30", size=96 * 3600, step="1s", zone=ZONE)

    def expected(self):
        start = int(np.datetime64("2024-06-29T18:15", "s").astype(np.int64))  # midnight of Nepal
        counts = [0] * self.GRID.size
        for found in map(oracle.read, self.TEXTS):
            if found is not None:
                step = found[0] // 10**9 - (0 if found[1] else 20700) - start
                counts[step] += 1
        return counts

    def counted(self, log):
        return engine_of(log).count(log, count_of(grid=self.GRID), bytes(16)).tolist()

    def test_in_memory(self):
        pa, pd, pl = map(pytest.importorskip, ("pyarrow", "pandas", "polars"))
        from pyarrow import dataset

        texts = [text for text in self.TEXTS if not set(text) & {"\0", "\ud800"}]  # which NumPy and Arrow hold
        assert len(texts) > len(self.TEXTS) - 5
        who, expected = list(range(len(texts))), self.expected()
        assert sum(expected) == len(READ) + 2
        frame = pd.DataFrame({"id": who, "time": texts})
        arrow = pa.table({"id": who, "time": texts})
        mixed = pd.DataFrame({"id": [*who, 10**6], "time": [*texts, 5]})
        for log in (
            {"id": np.array(who), "time": np.array(texts)},
            {"id": np.array(who), "time": np.array(texts, dtype=object)},
            frame, frame.astype({"time": "category"}), frame.astype({"time": "string"}), mixed, arrow,
            pl.DataFrame({"id": who, "time": texts}), pl.LazyFrame({"id": who, "time": texts}), dataset.dataset(arrow),
        ):  # fmt: skip
            assert self.counted(log) == expected

    def test_in_a_csv_file(self, tmp_path):
        path = tmp_path / "log.csv"
        path.write_text(
            "id;time\n" + "".join(f"p{k};{text}\n" for k, text in enumerate(self.TEXTS) if "\ud800" not in text),
            "utf-8",
        )
        log = read_csv_log(path, count_of(grid=self.GRID).reading, zone=self.ZONE, delimiter=";")
        assert self.counted(log) == self.expected()

    @pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
    def test_in_a_database_text_is_refused_by_its_type(self):
        ibis = pytest.importorskip("ibis")
        pytest.importorskip("duckdb")
        table = ibis.duckdb.connect().create_table("log", schema=ibis.schema({"id": "int64", "time": "string"}))
        count = count_of(grid=self.GRID)
        with pytest.raises(TypeError, match=r"^column 'time' of type string"):
            engine_of(table).count(table, count, bytes(16))


class TestFormats:
    """``--time-format`` with what says the clock is UTC's."""

    def read(self, tmp_path, format_, *texts, zone="America/New_York"):
        path = tmp_path / "log.csv"
        path.write_text("id,time\n" + "".join(f"ann,{text}\n" for text in texts))
        read = rows_of_csv(path, identifier="id", time="time", zone=zone, time_format=format_)
        return read["time"].tolist()

    @pytest.mark.parametrize(
        "said", ["Z", "z", " UTC", "GMT", " utc", " Zulu", " (UTC)", "Z[UTC]", "+00:00", " +0000", "-00", ".000Z"]
    )
    def test_a_literal_z_is_utc(self, tmp_path, said):
        read = self.read(tmp_path, f"%Y-%m-%dT%H:%M:%S{said}", f"2024-07-01T05:30:00{said}", "2024-07-01T05:30:00")
        assert read == np.array(["2024-07-01T05:30", "NaT"], "M8[ns]").tolist()

    @pytest.mark.parametrize(
        "format_",
        [
            "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S%f", "%Y-%m-%d %H:%M:%S%z", "%H.%M.%S,%f %Y/%m/%d",
            "%Y%m%d %H%%%M", "%Y-%m-%dT%H:%M:%SZ", "%d %b %y", "%Y0%m%d",
        ],
    )  # fmt: skip
    def test_each_text_is_what_python_reads(self, tmp_path, format_):
        """Also those that are read together by their form: as they should be, and with a slip."""
        draw, texts = np.random.default_rng(7), []
        for year, slips in zip(draw.choice([1, 1970, 2024, 9999], 400).tolist(), [0, 0, 1, 2] * 100, strict=True):
            parts = [draw.integers(*ends) for ends in ((1, 13), (1, 29), (0, 24), (0, 60), (0, 60), (0, 10**6))]
            offset = dt.timezone(dt.timedelta(minutes=int(draw.choice([0, 60, -330, 839]))))
            text = dt.datetime(year, *map(int, parts), tzinfo=offset).strftime(format_).rjust(10, "0")
            for _ in range(slips):
                at, other = int(draw.integers(len(text))), str(draw.choice([*"0123456789 .:/-+ZAPMpm?é²٣→"]))
                text = [text[:at] + other + text[at + 1 :], text[:at] + text[at + 1 :], text.replace("0", "", 1)][
                    at % 3
                ]
            texts.append(text.replace(",", "") if "," not in format_ else f'"{text}"')
        for text, ticks in zip(texts, self.read(tmp_path, format_, *texts, zone="UTC"), strict=True):
            with contextlib.suppress(ValueError):
                when = dt.datetime.strptime(text.strip('"').strip(), format_)
                since = (
                    when.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - (when.utcoffset() or dt.timedelta())
                ) // US
                far = abs(since) > 9.2e15
                assert ticks // 1000 == since or (far and abs(ticks) > 9.2e18 and (ticks > 0) == (since > 0)), text
                continue
            assert ticks is None, text

    def test_an_offset_is_read(self, tmp_path):
        read = self.read(tmp_path, "%d.%m.%Y %H:%M %z", "01.07.2024 05:30 +0200", "01.07.2024 05:30 Z")
        assert read == np.array(["2024-07-01T03:30", "2024-07-01T05:30"], "M8[ns]").tolist()

    @pytest.mark.parametrize("said", ["+02:00", " -0500", "+01", "-5", " UTC+2", "GMT-05:00", "\N{MINUS SIGN}05:00"])
    def test_another_offset_is_read_and_never_taken_for_mere_letters(self, tmp_path, said):
        refuses(
            "time_format",
            self.read,
            tmp_path,
            f"%Y-%m-%dT%H:%M:%S{said}",
            f"2024-07-01T05:30:00{said}",
        )

    @pytest.mark.parametrize(
        "format_",
        ["%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M EST", "Zeit %d.%m.%Y %H:%M", "%d.%m.%Y-%H:%M", "%d.%m.%Y %H:%M %%z"],
    )
    def test_other_letters_leave_the_clock_of_the_zone(self, tmp_path, format_):
        text = dt.datetime(2024, 7, 1, 5, 30).strftime(format_)
        assert self.read(tmp_path, format_, text) == np.array(["2024-07-01T09:30"], "M8[ns]").tolist()

    def test_numbers_since_1970_are_on_no_clock(self, tmp_path, capsys):
        path = tmp_path / "log.csv"
        path.write_text("id,time\nann,0\n")
        given = "--identifier id --time time --start 1970-01-01 --step 1h --size 2 --time-unit s --times-zone UTC"
        assert main(["check", str(path), *given.split()]) == 2
        assert (
            "--time-unit (s) and --times-zone (UTC) must not both be given, as numbers are in UTC"
            in capsys.readouterr().err
        )

    @pytest.mark.long
    def test_far_times_are_off_the_grid_and_not_missing(self, tmp_path):
        texts = ("0001-01-01", "9999-12-31")
        grid = TimeGrid(start="1970-01-01", size=3, step="1d", zone="UTC")
        for format_ in (None, "%Y-%m-%d"):
            self.read(tmp_path, format_, *texts)
            count = count_of(grid=grid)
            log = read_csv_log(tmp_path / "log.csv", count.reading, zone="Asia/Tokyo", time_format=format_)
            tally = tables.tally(log, count.reading)
            assert (tally.rows, tally.off_grid, tally.counted) == (2, 2, 0)
            engine_of(log).check_schema(log, identifier="id", time="time")


class TestParquet:
    """Times in files of Parquet that are on the clock of UTC, where the grid is on another one."""

    GRID = TimeGrid(start="2024-07-01", size=24, step="1h", zone="America/New_York")
    NOON = dt.datetime(2024, 7, 1, 16)  # in New York

    def log(self, folder, *kinds):
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        cells = {
            "naive": pa.array([self.NOON], pa.timestamp("us")),
            "in ms": pa.array([self.NOON], pa.timestamp("ms")),
            "aware": pa.array([self.NOON], pa.timestamp("us", "UTC")),
            "tokyo": pa.array([self.NOON], pa.timestamp("ms", "Asia/Tokyo")),
            "date": pa.array([self.NOON.date()]),
            "text": pa.array([self.NOON.isoformat()]),
            "number": pa.array([1]),
            "null": pa.nulls(1),
        }
        for number, kind in enumerate(kinds):
            parquet.write_table(pa.table({"id": [number], "time": cells[kind]}), folder / f"{number}.parquet")
        return read_parquet_log(folder, Source(identifier="id", time="time"), zone="UTC")

    @pytest.mark.parametrize("kinds", [["naive"], ["naive", "naive"], ["aware", "tokyo"], ["tokyo", "aware"]])
    def test_are_read_as_such(self, tmp_path, kinds):
        log = self.log(tmp_path, *kinds)
        counts = engine_of(log).count(log, count_of(grid=self.GRID), bytes(16))
        assert counts.tolist() == [0] * 12 + [len(kinds)] + [0] * 11

    @pytest.mark.parametrize("first", ["naive", "in ms", "aware", "date", "null"])
    @pytest.mark.parametrize("second", ["naive", "in ms", "aware", "date", "number", "null"])
    def test_or_refused_by_the_types_of_all_files(self, tmp_path, first, second):
        if first == second and first in ("naive", "in ms", "aware"):
            self.test_are_read_as_such(tmp_path, [first, second])
            return
        refuses(r"times_zone.*'time'", self.log, tmp_path, first, second)

    @pytest.mark.parametrize("kinds", [["text"], ["naive", "text"], ["text", "aware"], ["aware", "text"]])
    def test_text_is_refused_in_any_file(self, tmp_path, kinds):
        refuses("column 'time' of type string", self.log, tmp_path, *kinds, error=TypeError)
