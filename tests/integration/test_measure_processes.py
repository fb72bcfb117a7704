"""Real processes, real asv benchmarks in plain Python, real faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure
from bisectorch.measure import PairedMeasurer
from bisectorch.model import Outcome, Purpose, Workload
from measuring import Lab, eventually, gone

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """An empty lab."""
    return Lab(tmp_path)


def test_a_known_ratio_is_found(lab: Lab) -> None:
    """120 loops against 100; the paired ratio over three rounds is close to 1.2."""
    lab.benchmark(
        """
        import project

        def time_loop():
            for _ in range(project.LOOPS):
                sum(range(200))
        """
    )
    lab.build("LOOPS = 100")
    lab.build("LOOPS = 120")
    seen = lab.measure("time_loop", runs=3, samples=20, sample_seconds=0.004)
    ratios = sorted(
        new.runs[0].value / old.runs[0].value
        for old, new in zip(seen[::2], seen[1::2], strict=True)
    )
    assert 1.1 < ratios[1] < 1.3
    assert {o.runs[0].block for o in seen} == {"b.0", "b.1", "b.2"}
    for observation in seen:
        (run,) = observation.runs
        assert len(run.samples) == 20
        assert run.number >= 1
        assert run.seconds > 0
        assert 1e-6 < run.value < 1


def test_parameters_setup_and_teardown_mean_what_asv_says(lab: Lab) -> None:
    """The third choice; every timed call follows a setup of its own, and each is torn down."""
    lab.benchmark(
        """
        import sys

        class Suite:
            params = [[1, 2], ["x", "y"]]
            fresh = False

            def setup(self, n, letter):
                assert (n, letter) == (2, "x")
                assert not self.fresh
                self.fresh = True

            def time_once(self, n, letter):
                assert self.fresh is True
                self.fresh = "used"

            def teardown(self, n, letter):
                assert self.fresh == "used"
                self.fresh = False
        """
    )
    lab.build()
    (seen,) = lab.measure("Suite.time_once", param_index=2)
    assert (seen.outcome, seen.reason) == (Outcome.MEASURED, "")
    assert seen.runs[0].number > 1


def test_calls_without_setup_are_counted_together(lab: Lab) -> None:
    """Number is calibrated, so that a fast call fills a sample; no call is left untold."""
    lab.benchmark("def time_fast():\n    pass\n")
    lab.build()
    (seen,) = lab.measure("time_fast")
    assert seen.runs[0].number > 100


def test_a_number_that_the_benchmark_sets_is_kept(lab: Lab) -> None:
    """Samples are whole repetitions of it, each after a setup."""
    lab.benchmark(
        """
        class Suite:
            number = 7

            def setup_cache(self):
                pass

            def time_it(self):
                pass
        """
    )
    lab.build()
    (seen,) = lab.measure("Suite.time_it")
    assert seen.runs[0].number % 7 == 0
    (seen,) = lab.measure("Suite.time_it", attributes={"number": 11})
    assert seen.runs[0].number % 11 == 0


def test_repeat_and_sample_time_are_heard(lab: Lab) -> None:
    """At most two samples, each of a tenth of the time."""
    lab.benchmark(
        """
        import time

        def time_it():
            time.sleep(0.0005)

        time_it.repeat = 2
        time_it.sample_time = 0.005
        """
    )
    lab.build()
    (seen,) = lab.measure("time_it", samples=30, sample_seconds=1.0)
    assert len(seen.runs[0].samples) == 2
    assert 1 <= seen.runs[0].number <= 10


def test_a_benchmarks_own_timer_is_its_metric(lab: Lab) -> None:
    """A clock that runs a thousand times too fast."""
    lab.benchmark(
        """
        import time

        def timer():
            return 1000 * time.perf_counter()

        def time_it():
            time.sleep(0.001)

        time_it.timer = timer
        """
    )
    lab.build()
    (seen,) = lab.measure("time_it")
    assert seen.runs[0].value > 0.9


def test_a_slow_benchmark_is_called_few_times(lab: Lab) -> None:
    """One call a sample, two samples where a call takes more than a second."""
    lab.benchmark("import time\n\ndef time_it():\n    time.sleep(1.05)\n")
    lab.build()
    (seen,) = lab.measure("time_it", samples=40, sample_seconds=0.01)
    assert len(seen.runs[0].samples) == 2
    assert seen.runs[0].number == 1
    assert seen.runs[0].value >= 1.05


def test_timeraw_runs_in_a_process_of_its_own(lab: Lab) -> None:
    """And finds the project there."""
    lab.benchmark("def timeraw_import():\n    return 'import project'\n")
    lab.build("import time; time.sleep(0.02)")
    (seen,) = lab.measure("timeraw_import", samples=2)
    assert seen.runs[0].value >= 0.02
    assert seen.runs[0].number == 1


def test_tracked_numbers_are_taken_as_they_are(lab: Lab) -> None:
    """Plain, or with samples of their own; zero and below included; one a run."""
    lab.benchmark(
        """
        import project

        def track_it():
            return project.VALUE
        """
    )
    lab.build("VALUE = -2.5")
    lab.build("VALUE = {'samples': [1, 2, 9], 'number': 4}")
    minus, many = lab.measure("track_it")
    assert (minus.runs[0].value, minus.runs[0].samples) == (-2.5, (-2.5,))
    assert (many.runs[0].value, many.runs[0].samples, many.runs[0].number) == (2, (1, 2, 9), 4)


@linux
def test_peak_memory_is_the_childs_own(lab: Lab) -> None:
    """Not that of the tracker, which the system lets a child inherit; and the step is seen."""
    lab.benchmark(
        """
        import project

        def peakmem_it():
            return bytearray(project.MEGABYTES << 20)
        """
    )
    lab.build("MEGABYTES = 1")
    lab.build("MEGABYTES = 65")
    ballast = bytearray(os.urandom(1)) * (300 << 20)
    small, large = lab.measure("peakmem_it")
    assert small.runs[0].value < len(ballast) / 2
    assert large.runs[0].value - small.runs[0].value == pytest.approx(64 << 20, rel=0.1)


def test_the_size_of_an_object_is_measured(lab: Lab) -> None:
    """mem_ benchmarks need pympler, which asv brings."""
    pytest.importorskip("pympler")
    lab.benchmark("def mem_it():\n    return [0] * 1000\n")
    lab.build()
    (seen,) = lab.measure("mem_it")
    assert seen.runs[0].value >= 8000


def test_setup_cache_runs_once_a_build_and_reaches_every_call(lab: Lab) -> None:
    """Its files are in the working directory, as in asv."""
    lab.benchmark(
        """
        import os
        import project

        class Suite:
            def setup_cache(self):
                with open("data.txt", "w") as file:
                    file.write(project.NAME)
                with open(project.COUNT, "a") as file:
                    file.write("x")
                return {"name": project.NAME}

            def setup(self, cache):
                assert cache["name"] == project.NAME

            def track_name(self, cache):
                with open("data.txt") as file:
                    return len(file.read())
        """
    )
    counts = [lab.root / "count0", lab.root / "count1"]
    lab.build(f"NAME = 'abc'; COUNT = {str(counts[0])!r}")
    lab.build(f"NAME = 'abcdef'; COUNT = {str(counts[1])!r}")
    seen = lab.measure("Suite.track_name", runs=2)
    assert [o.runs[0].value for o in seen] == [3, 6, 3, 6]
    assert [count.read_text() for count in counts] == ["x", "x"]


FAULTS = {
    "import": (
        "import project.missing\n\ndef time_it():\n    pass\n",
        Outcome.UNIMPORTABLE,
        "ModuleNotFoundError: No module named 'project.missing'; 'project' is not a package "
        "(bench.py:1)",
    ),
    "syntax": ("def time_it(:\n", Outcome.UNIMPORTABLE, "SyntaxError: "),
    "exit while importing": (
        "import os\nos._exit(3)\n",
        Outcome.UNIMPORTABLE,
        "exited with status 3 while importing",
    ),
    "no such benchmark": (
        "def time_other():\n    pass\n",
        Outcome.FAILED,
        "Could not find benchmark 'bench.time_it'",
    ),
    "setup raises": (
        "def setup():\n    raise ValueError('two\\nlines')\n\ndef time_it():\n    pass\n",
        Outcome.FAILED,
        "setup: ValueError: two (bench.py:2)",
    ),
    "setup_cache raises": (
        "def setup_cache():\n    1 / 0\n\ndef time_it(cache):\n    pass\n",
        Outcome.FAILED,
        "setup_cache: ZeroDivisionError: division by zero (bench.py:2)",
    ),
    "teardown raises": (
        "def time_it():\n    pass\n\ncalls = []\n\ndef teardown():\n    raise OSError('full')\n",
        Outcome.FAILED,
        "OSError: full (bench.py:7)",
    ),
    "third call raises": (
        "calls = []\n\ndef time_it():\n    calls.append(1)\n    if len(calls) == 3:\n"
        "        raise RuntimeError('worn out')\n",
        Outcome.FAILED,
        "RuntimeError: worn out (bench.py:6)",
    ),
    "sys.exit": (
        "import sys\n\ndef time_it():\n    sys.exit('enough')\n",
        Outcome.FAILED,
        "SystemExit: enough (bench.py:4)",
    ),
    "os._exit": (
        "import os\n\ndef time_it():\n    os._exit(7)\n",
        Outcome.FAILED,
        "exited with status 7 in the benchmark",
    ),
    "segmentation fault": (
        "import ctypes, sys\n\ndef time_it():\n    print('going down', flush=True)\n"
        "    ctypes.string_at(0)\n",
        Outcome.FAILED,
        "killed by SIGSEGV in the benchmark: going down",
    ),
    "killed": (
        "import os, signal\n\ndef time_it():\n    os.kill(os.getpid(), signal.SIGKILL)\n",
        Outcome.FAILED,
        "killed by SIGKILL in the benchmark (out of memory?)",
    ),
    "out of memory": (
        "def time_it():\n    bytearray(1 << 60)\n",
        Outcome.FAILED,
        "out of memory: MemoryError (bench.py:2)",
    ),
    "closed connection": (
        "import os, time\n\ndef time_it():\n    os.closerange(3, 256)\n    time.sleep(60)\n",
        Outcome.FAILED,
        "closed its connection to the tracker in the benchmark",
    ),
    "writes on the connection": (
        "import os\n\ndef time_it():\n    for fd in range(3, 64):\n        try:\n"
        "            os.write(fd, b'hello\\n')\n        except OSError:\n            pass\n",
        Outcome.FAILED,
        "the benchmark wrote on the tracker's own connection",
    ),
    "skips itself": (
        "def setup():\n    raise NotImplementedError\n\ndef time_it():\n    pass\n",
        Outcome.FAILED,
        "skipped",
    ),
    "hangs": (
        "import time\n\ndef time_it():\n    time.sleep(600)\n",
        Outcome.TIMED_OUT,
        "no answer within 0.7 s in the benchmark",
    ),
    "hangs in setup, deaf to signals": (
        "import signal, time\n\ndef setup():\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    while True:\n        pass\n\ndef time_it():\n    pass\n",
        Outcome.TIMED_OUT,
        "no answer within 0.7 s in setup",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_outcome_with_its_text(lab: Lab, fault: str) -> None:
    """Never an exception, never a parent that hangs."""
    source, outcome, reason = FAULTS[fault]
    lab.benchmark(source)
    lab.build()
    timeout = 0.7 if outcome is Outcome.TIMED_OUT else 20.0
    seen, text = lab.outcome("time_it", timeout=timeout)
    assert seen is outcome, text
    assert text.startswith(reason)
    assert "\n" not in text


@pytest.mark.parametrize("value", ["None", "'text'", "float('inf')", "[1, 2]"])
def test_a_tracked_value_that_is_no_number_fails(lab: Lab, value: str) -> None:
    """With a text that says so."""
    lab.benchmark(f"def track_it():\n    return {value}\n")
    lab.build()
    outcome, reason = lab.outcome("track_it")
    assert outcome is Outcome.FAILED
    assert "Error" in reason


def test_not_a_number_means_skipped(lab: Lab) -> None:
    """As in asv."""
    lab.benchmark("def track_it():\n    return float('nan')\n")
    lab.build()
    assert lab.outcome("track_it") == (Outcome.FAILED, "skipped")


def test_an_import_that_hangs_times_out(lab: Lab) -> None:
    """At the limit for starting, not at the benchmark's."""
    lab.benchmark("import project\n\ndef time_it():\n    pass\n")
    lab.build("import time; time.sleep(600)")
    outcome, reason = lab.outcome("time_it", start_timeout_seconds=0.5)
    assert (outcome, reason) == (Outcome.TIMED_OUT, "no answer within 0.5 s while importing")


def test_the_others_are_measured_when_one_breaks(lab: Lab) -> None:
    """The middle one cannot be imported."""
    lab.benchmark("import project\n\ndef track_it():\n    return project.VALUE\n")
    lab.build("VALUE = 1")
    lab.build("raise ImportError('symbol not found')")
    lab.build("VALUE = 3")
    one, broken, three = lab.measure("track_it")
    assert (one.runs[0].value, three.runs[0].value) == (1, 3)
    assert broken.outcome is Outcome.UNIMPORTABLE
    assert broken.reason == "ImportError: symbol not found (project.py:1)"


def test_a_flood_of_output_is_bounded_and_disturbs_nothing(lab: Lab) -> None:
    """Megabytes on both streams, and lines that look like answers."""
    lab.benchmark(
        """
        import os, sys

        def setup():
            for _ in range(200):
                print("o" * 20000)
                sys.stderr.write("e" * 20000)
            os.write(1, b'{"ok": 1}\\n')

        def track_it():
            print('{"ok": 2}', flush=True)
            return 3
        """
    )
    lab.build()
    (seen,) = lab.measure("track_it")
    assert seen.runs[0].value == 3


def test_input_is_closed(lab: Lab) -> None:
    """A benchmark that reads standard input sees its end."""
    lab.benchmark("import sys\n\ndef track_it():\n    return len(sys.stdin.read())\n")
    lab.build()
    assert lab.measure("track_it")[0].runs[0].value == 0


def test_modules_beside_the_worker_do_not_shadow_the_projects(lab: Lab) -> None:
    """The project may have a module of its own called schedule, noise or worker."""
    lab.benchmark("import schedule\n\ndef track_it():\n    return schedule.VALUE\n")
    build = lab.build()
    (Path(build.tree) / "schedule.py").write_text("VALUE = 5")
    assert lab.measure("track_it")[0].runs[0].value == 5


def test_the_tracker_is_not_importable_from_its_path(lab: Lab) -> None:
    """No entry of the child's path was put there by us but the tree."""
    lab.benchmark(
        """
        import os, sys

        def track_it():
            assert not any(entry.endswith("measure") for entry in sys.path)
            return sys.path.index(os.environ["PYTHONPATH"])
        """
    )
    lab.build()
    assert lab.measure("track_it")[0].runs[0].value == 0


@linux
def test_samples_are_taken_on_one_core(lab: Lab) -> None:
    """Threads that were started before are moved as well."""
    lab.benchmark(
        """
        import os, threading

        release = threading.Event()
        thread = threading.Thread(target=release.wait, daemon=True)
        thread.start()

        def track_it():
            cores = set()
            for task in os.listdir("/proc/self/task"):
                cores |= os.sched_getaffinity(int(task))
            assert len(os.listdir("/proc/self/task")) > 1
            (core,) = cores
            return core
        """
    )
    lab.build()
    core = min(os.sched_getaffinity(0))
    (seen,) = lab.measure("track_it", core=core)
    assert seen.runs[0].value == core


def test_an_interpreter_without_asv_runner_is_an_environment_failure(lab: Lab) -> None:
    """One line that says what to install."""
    python = lab.root / "python"
    python.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    lab.benchmark("def time_it():\n    pass\n")
    lab.build(python=str(python))
    with pytest.raises(EnvironmentFailure, match="install asv_runner into that environment"):
        lab.measure("time_it")


def test_a_missing_interpreter_is_an_environment_failure(lab: Lab) -> None:
    """With its path."""
    lab.benchmark("def time_it():\n    pass\n")
    lab.build(python=str(lab.root / "no-python"))
    with pytest.raises(EnvironmentFailure, match=r"cannot start .*no-python"):
        lab.measure("time_it")


@pytest.fixture
def pids(lab: Lab) -> Iterator[Path]:
    """Where the benchmark of ``BUSY`` notes its processes; they are killed in the end."""
    path = lab.root / "pids"
    path.touch()
    yield path
    for pid in map(int, path.read_text().split()):
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


BUSY = """
    import os, subprocess, sys, time

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def time_it():
        with open({pids!r}, "a") as file:
            file.write("%d %d " % (os.getpid(), child.pid))
        while {forever}:
            pass
"""


@linux
def test_a_timeout_kills_what_the_benchmark_started(lab: Lab, pids: Path) -> None:
    """The worker and its own child process."""
    lab.benchmark(BUSY.format(pids=str(pids), forever=True))
    lab.build()
    assert lab.outcome("time_it", timeout=1.0)[0] is Outcome.TIMED_OUT
    assert len(pids.read_text().split()) == 2
    assert eventually(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))


@linux
def test_closing_the_generator_kills_every_process(lab: Lab, pids: Path) -> None:
    """Also those of the next round, when rounds overlap."""
    lab.benchmark(BUSY.format(pids=str(pids), forever=False))
    lab.build()
    workload = Workload("bench.time_it")
    with PairedMeasurer(lab.benchmarks, samples=2, overlap=True, cache_dir=lab.root) as measurer:
        rounds = measurer.measure(lab.builds, workload, 5, "b", Purpose.SEARCH)
        next(rounds)
        rounds.close()  # type: ignore[attr-defined]
    assert eventually(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))


@linux
def test_workers_die_with_a_tracker_that_is_killed(lab: Lab, pids: Path) -> None:
    """kill -9 of the tracker while the worker is in an endless loop."""
    lab.benchmark(BUSY.format(pids=str(pids), forever=True))
    build = lab.build()
    script = f"""
from pathlib import Path
from bisectorch.measure import PairedMeasurer
from bisectorch.model import Build, Purpose, Route, Workload
build = Build("a", Route.CACHED, {build.tree!r}, {sys.executable!r})
measurer = PairedMeasurer(Path({str(lab.benchmarks)!r}), cache_dir=Path({str(lab.root)!r}))
list(measurer.measure([build], Workload("bench.time_it"), 1, "b", Purpose.SEARCH))
"""
    tracker = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert eventually(lambda: len(pids.read_text().split()) == 2)
        worker = int(pids.read_text().split()[0])
        assert not gone(worker)
    finally:
        tracker.kill()
        tracker.wait()
    assert eventually(lambda: gone(worker))


@linux
def test_an_interrupt_kills_every_process(lab: Lab, pids: Path) -> None:
    """Ctrl-C reaches the tracker alone, which takes its workers with it."""
    lab.benchmark(BUSY.format(pids=str(pids), forever=True))
    lab.build()

    raised: list[int] = []

    def interrupt(*_: object) -> None:
        if pids.read_text() and not raised:
            raised.append(1)
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            lab.measure("time_it", timeout=60.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert eventually(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))
