"""A ledger under attack, at every moment of a release that another process makes.

Whatever happens to the folder, the file or its lock: what was handed out is in a ledger that opens, what others have
entered meanwhile stays there, and other ledgers do not change. Else it is refused.
"""

import os
import shutil
import sys
import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries import _files
from tests import make
from tests.refused import refuses

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and files that are replaced while open")

dp.enable_features("contrib", "honest-but-curious")
LOG = {"id": np.array([7, 8]), "time": np.array([0, 30])}
SPACE = make.space()
MEASUREMENT = (
    SPACE
    >> ts.then_participation_count(ts.TimeGrid(size=48), participation_cap=10)
    >> ts.then_subsampled_gaussian(50.0, sampling_probability=0.5, delta=1e-6)
)


def new(folder):
    folder.mkdir()
    return ts.Ledger.create(folder / "people.ledger", epsilon=1.0, delta=1e-6)


class Release:
    """A release by another process, which stops at one moment until it is told to go on.

    :param moment: ``"log"``, when the log is read, which is before anything is spent; else the number of a file that
        is about to be synchronised: that of the entry, its folder, that of the release.
    """

    def __init__(self, path, moment):
        (self._here, there), (stopped, self._go_on) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads run
            self._child = os.fork()
        if self._child == 0:
            try:
                self._work(ts.Ledger(path), moment, there, stopped)
            finally:
                os._exit(1)
        os.close(there), os.close(stopped)  # the child has its own
        assert os.read(self._here, 7) == b"stopped"

    def _work(self, book, moment, there, stopped):
        def stop():
            os.write(there, b"stopped")
            os.read(stopped, 1)

        def log():
            if moment == "log":
                stop()
            return LOG

        synchronise, calls = os.fsync, iter(range(100))

        def fsync(number):
            if next(calls) == moment:
                stop()
            synchronise(number)

        _files.os.fsync = fsync
        try:
            made = book.release(MEASUREMENT, log)
        except (OSError, ValueError) as refusal:
            os.write(there, f"refused {refusal}".encode())
        else:
            os.write(there, made.to_json().encode())
        os._exit(0)

    def end(self):
        """Let it end, and return what it handed out; None if it was refused."""
        os.write(self._go_on, b"!"), os.close(self._go_on)
        with open(self._here, "rb") as answers:
            answer = answers.read().decode()
        assert os.waitpid(self._child, 0)[1] == 0
        if answer.startswith("refused"):
            assert any(word in answer for word in ("deleted", "changed, moved or linked", "No such file", "not there"))
            return None
        return ts.Release.from_json(answer)


# ---- attacks: each returns where the ledger is now, and what was handed out meanwhile


def delete_the_lock(folder):
    (folder / ".people.ledger.lock").unlink()
    return folder, [ts.Ledger(folder / "people.ledger").release(MEASUREMENT, LOG)]


def move_the_folder(folder):
    return folder.rename(folder.with_name("moved")), []


def put_another_folder_in_its_place(folder):
    moved = folder.rename(folder.with_name("moved"))
    folder.with_name("other").rename(folder)
    return moved, []


def put_another_ledger_in_its_place(folder):
    folder.with_name("people.ledger").hardlink_to(folder / "people.ledger")
    (folder.with_name("other") / "people.ledger").replace(folder / "people.ledger")
    return folder.parent, []


def give_it_another_name(folder):
    (folder / "alias.ledger").hardlink_to(folder / "people.ledger")
    return folder, []


def cut_its_end(folder):
    with (folder / "people.ledger").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 40)
    return folder, []


def take_back_its_last_entry(folder):
    shutil.copyfile(folder / "earlier", folder / "people.ledger")
    return folder, []


ATTACKS = [
    delete_the_lock,
    move_the_folder,
    put_another_folder_in_its_place,
    put_another_ledger_in_its_place,
    give_it_another_name,
    cut_its_end,
    take_back_its_last_entry,
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("moment", ["log", 0, 1, 2])
@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_happens_during_a_release(tmp_path, attack, moment):
    folder = tmp_path / "here"
    book, other = new(folder), new(tmp_path / "other")
    first = book.release(MEASUREMENT, LOG)
    shutil.copyfile(book.path, folder / "earlier")
    others = other.path.read_bytes()
    release = Release(book.path, moment)
    where, handed_out = attack(folder)
    made = release.end()
    handed_out += [first, *([] if made is None else [made])]
    assert others in [path.read_bytes() for path in tmp_path.rglob("people.ledger")]
    if attack is give_it_another_name:
        assert made is None
        (folder / "alias.ledger").unlink()
    if attack is cut_its_end and made is None:
        refuses("ledger", ts.Ledger, where / "people.ledger")
        return
    found = ts.Ledger(where / "people.ledger")
    assert found.verify().within
    recorded = found.releases()
    assert all(any(release == known for known in recorded) for release in handed_out)
    assert len(found.entries) >= len(handed_out)
    found.release(MEASUREMENT, LOG)  # and it goes on


def test_processes_at_once_whose_lock_is_deleted_again_and_again(tmp_path):
    book = new(tmp_path / "here")
    folder = book.path.parent
    releases = [Release(book.path, "log")]
    (folder / ".people.ledger.lock").unlink()
    releases.append(Release(book.path, 0))
    (folder / ".people.ledger.lock").unlink()
    releases.append(Release(book.path, 2))
    (folder / ".people.ledger.lock").unlink()
    last = ts.Ledger(book.path).release(MEASUREMENT, LOG)
    handed_out = [made for made in (release.end() for release in releases) if made is not None]
    recorded = ts.Ledger(book.path).releases()
    assert handed_out == []
    assert last in recorded
