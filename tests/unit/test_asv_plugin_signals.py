"""A scheduler's SIGTERM is a person's Ctrl-C; asv's files are whole or not there."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from asv import util
from bisectorch.asv_plugin.signals import Terminated, stoppable
from bisectorch.asv_plugin.wholefiles import whole_files


def test_sigterm_is_raised_once_and_the_handlers_come_back() -> None:
    """A second one while things are put away does not interrupt that."""
    before = signal.getsignal(signal.SIGTERM)
    put_away = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            put_away.append(True)

    with pytest.raises(Terminated), stoppable():
        work()
    assert put_away
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_ignored_stays_ignored() -> None:
    """As by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_forked_worker_ends_as_ever() -> None:
    """asv ends its pool with SIGTERM; a worker must not raise into its parent's code."""
    code = (
        "import os, signal, time\n"
        "from bisectorch.asv_plugin.signals import stoppable\n"
        "with stoppable():\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        time.sleep(60)\n"
        "    time.sleep(0.2)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("-15", "")


def test_a_file_of_asvs_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A disk that fills up in the middle leaves the old one."""
    path = tmp_path / "results.json"
    with whole_files():
        util.write_json(str(path), {"a": 1}, 2)
    assert json.loads(path.read_text()) == {"a": 1, "version": 2}

    class Full:
        """Something that cannot be written to the end."""

        def __iter__(self):  # type: ignore[no-untyped-def]
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises((OSError, TypeError)), whole_files():
        util.write_json(str(path), {"b": Full()})
    assert json.loads(path.read_text()) == {"a": 1, "version": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]
