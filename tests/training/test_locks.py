"""One owner at a time, where files can be locked and where they cannot."""

import contextlib
import errno
import os
import subprocess
import sys
import threading

import pytest

from agentic_grpo.training import locks


@pytest.fixture(params=["flock", "no locks", "no fcntl"])
def system(request, monkeypatch):
    if request.param == "no locks":

        def refuse(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(locks.fcntl, "flock", refuse)
    elif request.param == "no fcntl":
        monkeypatch.setattr(locks, "fcntl", None)
    return request.param


@pytest.fixture
def no_flock(monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)


def test_the_second_owner_is_refused_until_the_first_has_ended(system, tmp_path):
    for _ in range(2):
        with (
            locks.alone(tmp_path / ".lock", "somebody else does"),
            pytest.raises(ValueError, match=r"^somebody else does"),
            locks.alone(tmp_path / ".lock", "somebody else does"),
        ):
            pytest.fail("two owners got in")


def test_it_is_free_after_an_error(system, tmp_path):
    with contextlib.suppress(KeyError), locks.alone(tmp_path / ".lock", "taken"):
        raise KeyError
    with locks.alone(tmp_path / ".lock", "taken"):
        pass


def test_an_owner_elsewhere_is_named_with_the_file_to_remove(no_flock, tmp_path):
    owner = tmp_path / ".lock.owner"
    owner.write_text("process 12 on another-machine pid:[1]\n")
    with (
        pytest.raises(
            ValueError, match=r"process 12 on another-machine.*\.lock\.owner"
        ),
        locks.alone(tmp_path / ".lock", "taken"),
    ):
        pytest.fail("two owners got in")
    owner.unlink()
    with locks.alone(tmp_path / ".lock", "taken"):
        assert str(os.getpid()) in owner.read_text()
    assert not owner.exists()


def test_an_owner_that_was_killed_here_is_followed(no_flock, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owner = tmp_path / ".lock.owner"
    owner.write_text(f"process {ended.pid} on {locks._here()}\n")
    with locks.alone(tmp_path / ".lock", "taken"):
        assert str(os.getpid()) in owner.read_text()


def test_two_cannot_follow_the_same_dead_owner(no_flock, tmp_path, monkeypatch):
    # The second looks when the first has removed the old name and not written its own.
    owner = tmp_path / ".lock.owner"
    owner.write_text("process 0 on here\n")
    monkeypatch.setattr(locks, "_is_alive", lambda text: False)
    create, found = locks._create, []

    def create_slowly(path):
        if found == [] and not path.exists():
            found.append(None)
            found.append(locks._take_over(path))
        return create(path)

    monkeypatch.setattr(locks, "_create", create_slowly)
    with locks.alone(tmp_path / ".lock", "taken"):
        assert found == [None, False]


def test_a_name_that_is_just_being_written_counts(no_flock, tmp_path):
    (tmp_path / ".lock.owner").touch()
    with (
        pytest.raises(ValueError, match="it has just begun"),
        locks.alone(tmp_path / ".lock", "taken"),
    ):
        pytest.fail("two owners got in")


def test_others_wait_for_their_turn(tmp_path):
    path, order = tmp_path / "lock", []
    inside, waiting = threading.Event(), threading.Event()

    def second():
        inside.wait()

        def wait():
            waiting.set()
            return False

        with locks.in_turn(path, wait) as mine:
            order.append(("second", mine))

    thread = threading.Thread(target=second)
    thread.start()
    with locks.in_turn(path, lambda: pytest.fail("nobody is before us")):
        inside.set()
        assert waiting.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", ("second", True)]


def test_waiting_can_be_given_up(tmp_path):
    with (
        locks.in_turn(tmp_path / "lock", lambda: True),
        locks.in_turn(tmp_path / "lock", lambda: True) as mine,
    ):
        assert mine is False


def test_where_there_are_no_locks_nobody_waits(no_flock, tmp_path):
    with (
        locks.in_turn(tmp_path / "lock", lambda: True) as one,
        locks.in_turn(tmp_path / "lock", lambda: True) as other,
    ):
        assert one and other
