"""The child: looks into one workload on one build, and says what it saw.

Started as a script, ``python -s worker.py COMMAND_FD REPLY_FD PARENT_PID``, by the interpreter of
the build; so it imports the standard library and asv_runner only, keeps to Python 3.6 syntax, and
never imports the tracker. It reads one JSON object a line, ``{"do": NAME, "with": {...}}``, and
answers each with one line, ``{"ok": RESULT}`` or ``{"error": TEXT, "stage": NAME}``. Samples are
taken when they are asked for, so that those of two builds can alternate.
"""

import gc
import json
import os
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

SIBLINGS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, SIBLINGS)
import bisectorch_calls as calls_room  # type: ignore[import-not-found]  # noqa: E402
import bisectorch_costs as costs_room  # type: ignore[import-not-found]  # noqa: E402
import bisectorch_operators as operators_room  # type: ignore[import-not-found]  # noqa: E402
import bisectorch_sources as sources_room  # type: ignore[import-not-found]  # noqa: E402

# Names in this directory must not shadow the project's.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != SIBLINGS]

SAMPLE_SECONDS = 0.008
"""How long one timed or profiled sample takes, when calls are shorter: few are interrupted."""

BUSY_SHARE = 0.02
"""Where others take more of the core's time, the profiler reads the processor's clock."""

UNWATCHED_FACTOR = 4.0
"""A sample may spend this many times its watched seconds, on setups."""

OPERATOR_SECONDS = 0.005
"""How much of the workload PyTorch's profiler is given: it is slow to sum up many events."""

LONG_CALL_SECONDS = 2.0
"""A call that takes longer is not repeated where once will do."""

TEXT_LIMIT = 300


Watch = Callable[[Callable[..., Any], Tuple[Any, ...]], float]
"""Calls a function with parameters and returns a number: mostly the seconds that it took."""


class Stopped(Exception):
    """Why nothing can be seen; ``stage`` says when."""

    def __init__(self, stage: str, text: str) -> None:
        Exception.__init__(self, text)
        self.stage = stage


class Workload(object):
    """The benchmark's body, called as asv calls it: on fresh state where it has a setup."""

    def __init__(self, job: Dict[str, Any]) -> None:
        try:
            from asv_runner.discovery import get_benchmark_from_name
        except ImportError as error:
            raise Stopped("runner", str(error)) from error
        try:
            self.benchmark = get_benchmark_from_name(
                job["benchmark_dir"], job["name"], extra_params=job["attributes"]
            )
        except BaseException as error:
            raise Stopped("import", describe(error)) from error
        if type(self.benchmark).__name__ == "TimerawBenchmark":
            raise Stopped("setup", "a timeraw_ benchmark times other processes than this one")
        self.prepared: Dict[Any, bool] = {}
        try:
            self._set_up()
        except Stopped:
            raise
        except BaseException as error:
            raise Stopped("setup", describe(error)) from error
        number = int(getattr(self.benchmark, "number", 0) or 0)
        fresh = getattr(self.benchmark, "_setup_isolates_timed_calls", True)
        self.fresh = bool(self.benchmark._setups) and (number <= 1 or fresh)

    def _set_up(self) -> None:
        sys.setprofile(self._note)
        try:
            benchmark = self.benchmark
            cache = benchmark.do_setup_cache() if benchmark.setup_cache_key else None
            if cache is not None and hasattr(benchmark, "set_cache"):
                benchmark.set_cache(cache)
            elif cache is not None:
                benchmark.insert_param(cache)
            skipped = benchmark.do_setup()
        finally:
            sys.setprofile(None)
        if skipped:
            raise Stopped("setup", "skipped")

    def _note(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            self.prepared[frame.f_code] = True

    @property
    def params(self) -> Tuple[Any, ...]:
        """What the body is called with."""
        build = getattr(self.benchmark, "_build_params", None)  # asv_runner >= 0.3
        return tuple(build() if build else self.benchmark._current_params)

    def call(
        self, watch: Callable[[Callable[..., Any], Tuple[Any, ...]], float], count: int
    ) -> Tuple[float, float]:
        """The sum of what ``watch`` returns for each call, and the seconds that others took of it.

        The setups between the calls are not watched.
        """
        function = self.benchmark.func
        if not self.fresh:
            before = waited()
            total = sum(watch(function, self.params) for _ in range(count))
            return total, waited() - before
        total = lost = 0.0
        for _ in range(count):
            self.benchmark.redo_setup()
            before = waited()
            total += watch(function, self.params)
            lost += waited() - before
        return total, lost


def plain(function: Callable[..., Any], params: Tuple[Any, ...]) -> float:
    """Seconds of a call."""
    began = time.perf_counter()
    function(*params)
    return time.perf_counter() - began


def waited() -> float:
    """Seconds that this thread was ready to run while its core ran others; 0 if untold (Linux)."""
    try:
        with open("/proc/self/schedstat") as file:
            return 1e-9 * int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0


def profiled_by(profile: Any) -> Callable[..., float]:
    """A call under cProfile, and its seconds."""

    def watch(function: Callable[..., Any], params: Tuple[Any, ...]) -> float:
        began = time.perf_counter()
        profile.enable()
        function(*params)
        profile.disable()
        return time.perf_counter() - began

    return watch


class Session(object):
    """What is known of the workload so far; the public methods are the commands, in order."""

    def __init__(self) -> None:
        self.job: Dict[str, Any] = {}
        self.workload: Any = None
        self.main = calls_room.CallTree()
        self.engine = calls_room.CallTree()
        self.apart = False
        self.count = 1
        self.timer: Optional[Callable[[], float]] = None
        self.plain: List[float] = []
        self.profiled: List[float] = []
        self.edges = calls_room.Edges()

    def load(self, **job: Any) -> Dict[str, Any]:
        """Import, set up, call once to warm up, and count the calls of a second one."""
        self.job = job
        self.workload = workload = Workload(job)
        workload.call(plain, 1)
        self.apart = operators_room.in_engine_thread(lambda: sys.setprofile(self.engine.event))
        workload.call(lambda function, params: self.main.count(function, params) or 0.0, 1)
        if self.apart:
            operators_room.in_engine_thread(lambda: sys.setprofile(None))
            del self.engine.stack[1:]
        began = time.perf_counter()
        seconds, _ = workload.call(plain, 1)
        wall = time.perf_counter() - began  # a costly setup must not stretch the sample
        calls = SAMPLE_SECONDS / max(seconds, wall / UNWATCHED_FACTOR, 1e-7)
        self.count = max(1, min(100000, int(calls)))
        seconds, lost = workload.call(plain, self.count)
        if lost > BUSY_SHARE * seconds:
            # Nobody can say which function an interruption hit, but this clock stands still then.
            self.timer = getattr(time, "thread_time", time.process_time)
        return {"seconds": seconds / self.count, "count": self.count}

    def sample(self) -> None:
        """Time some calls, then the same under cProfile.

        What the core did for others meanwhile is taken off.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            seconds, lost = self.workload.call(plain, self.count)
            self.plain.append(max(1e-9, seconds - lost) / self.count)
            main, engine = calls_room.profile(self.timer), calls_room.profile(self.timer)
            if self.apart:
                operators_room.in_engine_thread(engine.enable)
            seconds, lost = self.workload.call(profiled_by(main), self.count)
            if self.apart:
                operators_room.in_engine_thread(engine.disable)
        finally:
            if collecting:
                gc.enable()
        self.profiled.append(max(1e-9, seconds - lost) / self.count)
        self.edges.add(main, self.count)
        if self.apart:
            self.edges.add(engine, self.count, "run_backward")

    def operators(self) -> Dict[str, Any]:
        """PyTorch's own profiler: its name, its rows, and what it adds to an event."""
        workload, seconds = self.workload, calls_room.middle(self.plain or [SAMPLE_SECONDS])
        count = 1 if workload.fresh else int(OPERATOR_SECONDS / max(seconds, 1e-7))
        count = max(1, min(1000, count))
        spent = []

        def run() -> int:
            began = time.perf_counter()
            for _ in range(count):
                workload.benchmark.func(*workload.params)
            spent.append(time.perf_counter() - began)
            return count

        found = []
        for _ in range(2 if seconds < LONG_CALL_SECONDS else 1):
            if workload.fresh:
                workload.benchmark.redo_setup()
            # The first time pays for the profiler's own start, so the quicker one is kept.
            method, rows = operators_room.operators(run)
            if not method:
                break
            found.append((spent[-1] / count, method, rows))
        if not found:
            return {"method": "", "rows": [], "overhead": 0.0}
        slower, method, rows = min(found, key=lambda each: each[0])
        events = sum(row[2] for row in rows)
        overhead = max(0.0, slower - seconds) / events if events else 0.0
        return {"method": method, "rows": rows, "overhead": overhead}

    def finish(self) -> Dict[str, Any]:
        """All but the operators."""
        writer = Writer(self.job)
        return {
            "plain": self.plain,
            "profiled": self.profiled,
            "overhead": costs_room.overhead(self.timer),
            "busy": self.timer is not None,
            "interpreter": sys.version,
            "tree": writer.tree(self.main.root, self.engine.root if self.apart else None),
            "edges": [
                [writer.key(caller), writer.key(callee), calls, seconds]
                for caller, callee, calls, seconds in self.edges.quartiles()
            ],
            "keys": writer.keys,
            "labels": self.edges.labels,
            "methods": sorted(self.edges.methods),
            "apart": self.apart,
            "prepared": writer.places(self.workload.prepared),
            "imported": writer.imported(),
        }

    def describe(self, tree: str, paths: List[str]) -> Dict[str, Any]:
        """What Python files define; None for one that is missing or cannot be parsed."""
        return {path: sources_room.definitions(os.path.join(tree, path)) for path in paths}


class Writer(object):
    """Turns code objects into keys that mean the same in another build's process."""

    def __init__(self, job: Dict[str, Any]) -> None:
        self.names = sources_room.Names()
        self.keys: List[List[Any]] = []
        self.known: Dict[Any, int] = {}
        self.tree_root = real(job["tree"]) if job["tree"] else ""
        self.roots = [
            (self.tree_root, ""),
            (real(os.path.dirname(job["benchmark_dir"])), ""),
        ] + [(real(entry), "") for entry in sys.path if entry]
        self.paths: Dict[str, Tuple[str, bool]] = {}

    def key(self, spot: Any) -> int:
        """The position of this spot's key in ``keys``; -1 for nobody."""
        if spot is None:
            return -1
        if isinstance(spot, str):
            made: Tuple[Any, ...] = ("builtin", "", spot, 0, False)
        else:
            path, own = self.path(spot.co_filename)
            made = ("python", path, self.names.of(spot), spot.co_firstlineno, own)
        known = made[:3]
        if known not in self.known:
            self.known[known] = len(self.keys)
            self.keys.append(list(made))
        return self.known[known]

    def path(self, filename: str) -> Tuple[str, bool]:
        """A file relative to the tree or to wherever it was found, and whether the tree has it."""
        if filename not in self.paths:
            if filename.startswith("<"):
                self.paths[filename] = (filename, False)
            else:
                full = real(filename)
                roots = [root for root, _ in self.roots if root and inside(full, root)]
                root = self.tree_root if self.tree_root in roots else max(roots or [""], key=len)
                short = full[len(root) :].lstrip(os.sep) if root else full
                own = bool(self.tree_root) and root == self.tree_root
                self.paths[filename] = (short.replace(os.sep, "/"), own)
        return self.paths[filename]

    def places(self, codes: Iterable[Any]) -> List[str]:
        """The files of these code objects that are the tree's."""
        found = (self.path(code.co_filename) for code in codes)
        return sorted({path for path, own in found if own})

    def tree(self, root: Any, engine: Any) -> List[Any]:
        """The contexts as a list of [key, calls, position of the caller in the list]."""
        rows: List[List[Any]] = []
        waiting = [(child, -1) for child in root.children.values()]
        hosts = []
        while waiting:
            node, parent = waiting.pop()
            if node.spot in calls_room.OWN:
                continue
            if node.spot == "run_backward":
                hosts.append(len(rows))
            rows.append([self.key(node.spot), node.calls, parent])
            waiting.extend((child, len(rows) - 1) for child in node.children.values())
            if not waiting and engine is not None:
                host = hosts[0] if hosts else -1
                waiting = [(child, host) for child in engine.children.values()]
                engine = None
        return rows

    def imported(self) -> List[str]:
        """The tree's Python files that are imported."""
        found = set()
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.endswith(".py"):
                path, own = self.path(file)
                if own:
                    found.add(path)
        return sorted(found)


def real(path: str) -> str:
    """The absolute path; links are kept, since a tree is made of them."""
    return os.path.abspath(path)


def inside(path: str, root: str) -> bool:
    """Whether a path lies in a directory."""
    return path.startswith(root.rstrip(os.sep) + os.sep)


def describe(error: BaseException) -> str:
    """One line: the exception and the first line of its message."""
    lines = str(error).strip().splitlines()
    return (type(error).__name__ + (": " + lines[0] if lines else ""))[:TEXT_LIMIT]


def die_with(parent: int) -> None:
    """Be killed when the parent dies (Linux), so that nothing is left behind."""
    if sys.platform.startswith("linux"):
        try:
            import ctypes
            import signal

            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
        except (ImportError, OSError, AttributeError):
            pass
    # A sandbox may stand between, which dies with the parent, too.
    if parent not in (os.getppid(), parent_of(os.getppid())):
        os._exit(1)


def parent_of(pid: int) -> int:
    """The parent of another process; 0 where that cannot be told."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def answer(session: Session, command: Dict[str, Any]) -> Dict[str, Any]:
    """Carry out one command; whatever goes wrong becomes part of the answer."""
    stage = command["do"]
    try:
        return {"ok": getattr(session, stage)(**command["with"])}
    except Stopped as stopped:
        return {"error": str(stopped), "stage": stopped.stage}
    except BaseException as error:
        return {"error": describe(error), "stage": stage}


def main(argv: List[str]) -> None:
    """Answer commands until the other end closes."""
    command_fd, reply_fd, parent = (int(word) for word in argv)
    die_with(parent)
    os.set_inheritable(command_fd, False)
    os.set_inheritable(reply_fd, False)
    commands = os.fdopen(command_fd, "r", encoding="utf-8")
    replies = os.fdopen(reply_fd, "w", encoding="utf-8")
    session = Session()
    for line in iter(commands.readline, ""):
        replies.write(json.dumps(answer(session, json.loads(line))) + "\n")
        replies.flush()
    os._exit(0)  # the interpreter's own ending takes long under a large library


if __name__ == "__main__":
    main(sys.argv[1:])
