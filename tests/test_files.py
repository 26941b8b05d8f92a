"""Files are written whole and together, or not at all."""

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from opendp_timeseries import _files
from opendp_timeseries._files import UNFINISHED, files_together
from opendp_timeseries._process import LOCK, locked
from tests.refused import refuses

NAMES = ("a.csv", "a.png", "a.json")


@pytest.fixture
def places(tmp_path):
    return [tmp_path / name for name in NAMES]


def fill(places, text, replace=True):
    with files_together(places, replace=replace) as files:
        for file in files.values():
            file.write(text)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_appear_together_and_nothing_else_stays(places, tmp_path):
    with files_together(places) as files:
        for file in files.values():
            file.write(b"new")
        assert not any(place.exists() for place in places)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"new")
    fill(places, b"newer")
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"newer")


def test_earlier_files_are_replaced_only_when_asked(places, tmp_path):
    places[1].write_bytes(b"earlier")
    refuses(r"a\.png", fill, places, b"new", error=FileExistsError, replace=False)
    assert contents(tmp_path) == {"a.png": b"earlier"}


@pytest.mark.parametrize("at", range(3))
def test_a_file_that_appears_meanwhile_is_not_replaced(places, tmp_path, at):
    def meanwhile():
        with files_together(places):
            places[at].write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        meanwhile()
    assert contents(tmp_path) == {NAMES[at]: b"theirs"}


def test_what_is_no_ordinary_file_is_never_replaced(places, tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"private")
    for make in (lambda: places[0].symlink_to(log), places[0].mkdir, lambda: os.mkfifo(places[0])):
        make()
        refuses(r"must not be a (folder or a device|symbolic link)", fill, places, b"new", error=OSError)
        assert log.read_bytes() == b"private"
        (places[0].rmdir if places[0].is_dir() else places[0].unlink)()


@pytest.mark.parametrize("earlier", [(), NAMES])
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_whatever_fails_leaves_whole_files(tmp_path, places, monkeypatch, earlier, call, nth, error):
    for name in earlier:
        (tmp_path / name).write_bytes(b"earlier")
    calls, real = iter(range(100)), getattr(os, call)

    def failing(*arguments, **options):
        if next(calls) == nth:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(_files.os, call, failing)
    everything, found, named = dict.fromkeys(NAMES, b"new"), None, None
    try:
        fill(places, b"new")
    except type(error) as failure:
        found, named = contents(tmp_path), getattr(failure, "filename", None)
    assert named == (str(places[nth]) if found is not None and isinstance(error, OSError) else None)
    if found is None or (call, nth) == ("fsync", 3):  # of the folder, once all is in place
        assert contents(tmp_path) == everything
    elif call == "replace":  # one by one
        assert list(found.values()).count(b"new") == nth
        assert set(found.values()) <= {b"earlier", b"new"}
        assert found.keys() == everything.keys()
    else:
        assert found == dict.fromkeys(earlier, b"earlier")


def test_new_files_appear_all_or_none_beside_replaced_ones(places, tmp_path, monkeypatch):
    places[0].write_bytes(b"earlier")

    def theirs():
        places[1].write_bytes(b"theirs")

    def fail_late(*_):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(FileExistsError), files_together(places, replace=True, before_publishing=theirs):
        pass
    assert contents(tmp_path) == {"a.csv": b"earlier", "a.png": b"theirs"}
    places[1].unlink()
    monkeypatch.setattr(_files.os, "replace", fail_late)
    refuses(r"a\.csv", fill, places, b"new", error=OSError)
    assert contents(tmp_path) == {"a.csv": b"earlier"}


def test_an_error_of_the_last_check_names_its_own_file(places, tmp_path):
    def fail():
        raise OSError(errno.EIO, "Input/output error", "ledger")

    with pytest.raises(OSError, match="ledger") as failure, files_together(places, before_publishing=fail):
        pass
    assert failure.value.filename == "ledger"
    assert contents(tmp_path) == {}


def test_a_draft_that_stays_is_no_error(places, tmp_path, monkeypatch):
    monkeypatch.setattr(_files.Path, "unlink", deny)
    fill(places, b"new", replace=False)
    assert {name: text for name, text in contents(tmp_path).items() if name in NAMES} == dict.fromkeys(NAMES, b"new")


def test_a_place_is_given_once(places, tmp_path):
    refuses(r"a\.csv\) is given twice", fill, [places[0], *places], b"new", error=OSError)
    assert contents(tmp_path) == {}


def test_what_cannot_be_written_is_refused_before_the_block_runs(places, tmp_path, monkeypatch):
    def block(*refused, replace=True):
        with files_together([places[0], *refused], replace=replace):
            pytest.fail("the block ran")

    with pytest.raises(FileNotFoundError) as failure:
        block(tmp_path / "none" / "file")
    assert failure.value.filename == str(tmp_path / "none" / "file")
    with pytest.raises(OSError, match="name too long") as failure:
        block(tmp_path / ("x" * 300))
    assert failure.value.filename.endswith("/" + "x" * 300)
    places[1].write_bytes(b"earlier")
    places[1].chmod(0o444)
    refuses(r"a\.png\) is read-only; make it writable", block, places[1], error=PermissionError)
    places[1].chmod(0o644)
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a file of somebody else
    refuses(r"a\.png\) is read-only; make it writable", block, places[1], error=PermissionError)
    assert contents(tmp_path) == {"a.png": b"earlier"}


@pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755, 0o200])
def test_a_replaced_file_passes_on_its_mode_and_its_owner(places, mode, monkeypatch):
    places[0].write_bytes(b"earlier")
    places[0].chmod(mode)
    if os.geteuid() == 0:
        os.chown(places[0], 12345, 23456)
    before = places[0].stat()
    with files_together(places, replace=True) as files:
        (draft,) = places[0].parent.glob(f".{places[0].name}.*{UNFINISHED}")
        assert draft.stat().st_mode & 0o777 == mode  # from the beginning: what is written is never more open
        files[places[0]].write(b"new")
    after = places[0].stat()
    assert places[0].read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert places[1].stat().st_mode & 0o777 == 0o666 & ~current_umask()


def deny(*_, **__):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")
def test_an_owner_that_cannot_be_passed_on_is_refused(places, monkeypatch):
    places[0].write_bytes(b"theirs")
    real = os.stat_result(places[0].stat())

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted", "the temporary file")

    monkeypatch.setattr(_files.shutil, "chown", refuse)
    elsewhere = os.stat_result((*real[:4], real.st_uid + 1, *real[5:]))
    monkeypatch.setattr(_files, "status_if_replaceable", lambda place, **_: elsewhere)
    with pytest.raises(PermissionError) as failure:
        fill(places[:1], b"new")
    assert failure.value.filename == str(places[0])
    assert places[0].read_bytes() == b"theirs"


def test_a_full_disk_is_named_and_leaves_nothing(places, tmp_path):
    script = f"""
        import pathlib, resource, runpy, signal
        files_together = runpy.run_path({_files.__file__!r})["files_together"]
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        small, big = pathlib.Path({str(places[0])!r}), pathlib.Path({str(places[1])!r})
        with files_together([small, big]) as files:
            files[small].write(bytes(10))
            files[big].write(bytes(5000))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"File too large: {str(places[1])!r}" in done.stderr
    assert contents(tmp_path) == {}


def test_without_second_names_files_are_copied(places, tmp_path, monkeypatch):
    monkeypatch.setattr(_files.os, "link", deny)
    fill(places, b"new", replace=False)
    fill(places, b"newer", replace=True)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"newer")
    with pytest.raises(FileExistsError), files_together([places[0].with_name("b")]):
        places[0].with_name("b").write_bytes(b"theirs")
    assert places[0].with_name("b").read_bytes() == b"theirs"


KILLED = """
    import pathlib, runpy, signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored behind an `&` of a shell
    module, *places = map(pathlib.Path, sys.argv[1:])
    files_together = runpy.run_path(str(module))["files_together"]  # without the package, which takes long to import
    print("ready", flush=True)
    for k in range(10**9):
        with files_together(places, replace=True) as files:
            for file in files.values():
                file.write(b"%06d" % k * 1000)
"""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("times", [5, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_leaves_whole_files(places, tmp_path, how, times):
    draw = random.Random(times)
    fill(places, b"000000" * 1000)
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), _files.__file__, *map(str, places)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        process.stdout.readline()
        time.sleep(draw.uniform(0, 0.03))
        process.send_signal(how)
        process.wait()
        process.stdout.close()
        for name, content in contents(tmp_path).items():
            if name in NAMES:
                assert len(content) == 6000
                assert content == content[:6] * 1000
            else:
                assert name.startswith(".")
                assert name.endswith(UNFINISHED)
        assert set(NAMES) <= set(contents(tmp_path))
        for path in tmp_path.glob(".*"):
            path.unlink()


# ---- one process at a time


def test_a_lock_that_is_deleted_is_noticed(tmp_path):
    place = tmp_path / "ledger"
    with locked(place, 0.0) as check:
        check()
        with pytest.raises(BlockingIOError, match="ledger is in use by another process"), locked(place, 0.0):
            pytest.fail("the lock was given twice")
        (tmp_path / f".ledger{LOCK}").unlink()
        refuses(r"\.ledger\.lock was deleted while it was in use; leave it there", check, error=OSError)
        with locked(place, 0.0) as theirs:  # as another process may
            theirs()
            refuses("was deleted", check, error=OSError)


def test_a_lock_that_is_deleted_before_it_is_had_is_asked_for_again(tmp_path, monkeypatch):
    import fcntl

    place, real, calls = tmp_path / "ledger", fcntl.flock, []

    def late(number, how):
        calls.append(number)
        if len(calls) == 1:
            (tmp_path / f".ledger{LOCK}").unlink()
        return real(number, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(place, 5.0) as check:
        check()
    assert len(calls) == 2
