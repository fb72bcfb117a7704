"""Explanations from real processes: plain Python projects, a real torch, and real faults."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import asv_runner
import pytest
from bisectorch.errors import EnvironmentFailure
from bisectorch.explain import ProfilingExplainer
from bisectorch.explain.process import Blind, Looker
from bisectorch.model import Build, CodeChange, Explanation, Route, SpentIn, Workload

LAYER = """
    from project import inner

    def forward(count):
        total = 0
        for index in range(count):
            total += {step}
        return total

    def unused():
        return {unused}
"""
INNER = """
    def square(value):
        return value * value

    def checked(value):
        if not isinstance(value, int):
            raise TypeError(value)
        if value < 0:
            raise ValueError(value)
        return square(value)
"""
BENCH = """
    from project import layer

    def time_forward():
        layer.forward(200)
"""


class Lab:
    """A benchmark directory and trees of a package of two modules."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.benchmarks = root / "benchmarks"
        self.benchmarks.mkdir()
        (self.benchmarks / "__init__.py").touch()
        self.benchmark(BENCH)
        self.builds = 0

    def benchmark(self, source: str) -> None:
        """Write benchmarks/bench.py."""
        (self.benchmarks / "bench.py").write_text(textwrap.dedent(source))

    def build(self, step: str, unused: int = 1, python: str = sys.executable, **more: str) -> Build:
        """A build whose layer adds up this expression."""
        self.builds += 1
        tree = self.root / f"tree{self.builds}"
        files = {"layer": LAYER.format(step=step, unused=unused), "inner": INNER, **more}
        (tree / "project").mkdir(parents=True)
        (tree / "project" / "__init__.py").touch()
        for name, source in files.items():
            (tree / "project" / f"{name}.py").write_text(textwrap.dedent(source))
        return Build(f"{self.builds}" * 40, Route.CACHED, str(tree), python)

    def explain(
        self, before: Build, after: Build, name: str = "time_forward", **more: Any
    ) -> Explanation:
        """With one pair of processes, if not otherwise asked."""
        kinds = {"kind": "time"} | {k: more.pop(k) for k in ("kind", "unit") if k in more}
        workload = Workload(f"bench.{name}", (), more.pop("param_index", None), **kinds)
        explainer = ProfilingExplainer(self.benchmarks, pairs=more.pop("pairs", 1), seconds=0.3)
        return explainer.explain(before, after, workload, **more)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """An empty lab."""
    return Lab(tmp_path)


def test_a_python_project_is_explained(lab: Lab) -> None:
    """No torch anywhere: the changed function is named, and most of the step is its doing."""
    before = lab.build("inner.square(index)")
    after = lab.build("inner.checked(index)", unused=2)
    paths = ("project/layer.py", "docs/a.rst")
    found = lab.explain(before, after, paths=paths, compiled_differs=False)
    first = found.causes[0]
    assert (first.name, first.path) == ("forward", "project/layer.py")
    assert first.kind is SpentIn.PYTHON
    assert first.change is CodeChange.CHANGED
    assert first.line == 4
    assert "checked" in first.why
    assert first.calls == (1, 1)
    assert found.explained > 0.7
    assert found.step_seconds > 0
    assert found.methods == ("cProfile",)
    assert found.operators == ()
    assert found.profiled_seconds[0] > found.level_seconds[0]
    layer, docs = found.touched
    assert (layer.functions, layer.idle) == (("forward",), ("unused",))
    assert not docs.executed
    rows = {row.name: row for row in found.functions}
    assert rows["checked"].calls == (0, 200)
    assert rows["square"].calls == (200, 200)


def test_an_improvement_is_explained_by_the_same_function(lab: Lab) -> None:
    """The other way round; shares stay positive."""
    before, after = lab.build("inner.checked(index)"), lab.build("inner.square(index)")
    found = lab.explain(before, after, compiled_differs=False)
    assert found.step_seconds < 0
    assert found.causes[0].name == "forward"
    assert found.causes[0].share > 0.7


def test_fresh_state_is_made_for_each_call(lab: Lab) -> None:
    """A benchmark whose body uses its state up is set up again, outside of what is watched."""
    lab.benchmark(
        """
        from project import layer

        class Once:
            params = ([100, 200],)

            def setup(self, count):
                sum(range(20000))
                self.left = [count]

            def time_once(self, count):
                layer.forward(self.left.pop())
        """
    )
    before, after = lab.build("inner.square(index)"), lab.build("inner.checked(index)")
    found = lab.explain(before, after, "Once.time_once", param_index=1, compiled_differs=False)
    assert found.causes[0].name == "forward"
    rows = {row.name: row for row in found.functions}
    assert rows["square"].calls == (200, 200)
    assert not any(row.name == "Once.setup" for row in found.functions)


def test_a_setup_cache_is_filled_and_handed_over(lab: Lab) -> None:
    """As asv hands it to the body."""
    lab.benchmark(
        """
        from project import layer

        class Cached:
            def setup_cache(self):
                return 150

            def time_cached(self, count):
                layer.forward(count)
        """
    )
    before, after = lab.build("inner.square(index)"), lab.build("inner.checked(index)")
    found = lab.explain(before, after, "Cached.time_cached", compiled_differs=False)
    assert {row.name: row for row in found.functions}["square"].calls == (150, 150)


def test_another_metric_is_listed(lab: Lab) -> None:
    """What a track_ benchmark runs differently is told, without causes."""
    lab.benchmark("from project import layer\n\ndef track_it():\n    return layer.forward(50)\n")
    found = lab.explain(
        lab.build("index"), lab.build("inner.square(index)"), "track_it", kind="track", unit="unit"
    )
    assert found.causes == ()
    assert "not time" in found.reason
    assert any(row.name == "square" for row in found.functions)


def reason(lab: Lab, name: str = "time_forward", after: str = "inner.square(index)") -> str:
    """Why there is no explanation."""
    found = lab.explain(lab.build("index"), lab.build(after), name)
    assert found.causes == ()
    assert "\n" not in found.reason
    return found.reason


def test_no_such_benchmark(lab: Lab) -> None:
    """Says so, and where."""
    assert "while importing" in reason(lab, "time_nothing")


def test_a_benchmark_that_fails(lab: Lab) -> None:
    """The exception of the build that fails, which is named."""
    text = reason(lab, after="[][index]")
    assert text.startswith("2222222222 under the profiler")
    assert "IndexError" in text


def test_a_build_that_cannot_be_imported(lab: Lab) -> None:
    """Its own words."""
    text = reason(lab, after="no such syntax")
    assert "while importing" in text
    assert "SyntaxError" in text


def test_a_benchmark_that_fails_only_under_a_profiler(lab: Lab) -> None:
    """It forbids profilers: there is nothing to see, and that is said."""
    lab.benchmark(
        """
        import sys
        from project import layer

        def time_shy():
            if sys.getprofile() is not None:
                raise RuntimeError("no profilers here")
            layer.forward(10)
        """
    )
    text = reason(lab, "time_shy")
    assert text.startswith("1111111111 under the profiler: RuntimeError: no profilers here")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os; print('last words', flush=True); os._exit(3)", "status 3: last words"),
    ],
)
def test_a_benchmark_that_takes_its_process_along(lab: Lab, body: str, words: str) -> None:
    """A signal by its name, an exit by its status and last words."""
    lab.benchmark(f"def time_die():\n    {body}\n")
    assert words in reason(lab, "time_die")


def test_a_setup_that_skips_or_fails(lab: Lab) -> None:
    """Neither is an answer."""
    lab.benchmark(
        """
        class Skipped:
            def setup(self):
                raise NotImplementedError

            def time_it(self):
                pass

        class Failing:
            def setup(self):
                raise KeyError("gone")

            def time_it(self):
                pass

        def timeraw_import():
            return "pass"
        """
    )
    assert "in setup: skipped" in reason(lab, "Skipped.time_it")
    assert "in setup: KeyError" in reason(lab, "Failing.time_it")
    assert "times other processes" in reason(lab, "timeraw_import")


def test_a_workload_that_hangs_is_given_up(lab: Lab) -> None:
    """After the time limit of the command."""
    lab.benchmark("import time\n\ndef time_long():\n    time.sleep(60)\n")
    with Looker(lab.build("index"), None) as looker, pytest.raises(Blind, match="no answer within"):
        looker.ask(
            "load",
            1.0,
            benchmark_dir=str(lab.benchmarks),
            name="bench.time_long",
            attributes={},
            tree=looker.build.tree,
        )


def test_equal_builds_have_nothing_to_explain(lab: Lab) -> None:
    """One tree, or two that do the same."""
    one, two = lab.build("index"), lab.build("index")
    assert "same files" in lab.explain(one, one).reason
    found = lab.explain(one, two, levels=(1e-5, 1e-5), compiled_differs=False)
    assert found.causes == ()
    assert "nothing to explain" in found.reason


def test_an_interpreter_that_is_gone(lab: Lab) -> None:
    """Is the user's to mend: one line, no explanation."""
    gone = lab.build("index", python=str(lab.root / "nowhere" / "python"))
    with pytest.raises(EnvironmentFailure, match="cannot start"):
        lab.explain(gone, lab.build("inner.square(index)"))


def test_an_interpreter_without_a_runner(lab: Lab) -> None:
    """Is told from a benchmark that cannot be imported."""
    bare = lab.root / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    build = lab.build("index", python=str(bare))
    with pytest.raises(EnvironmentFailure, match="asv_runner"):
        lab.explain(build, lab.build("inner.square(index)"))


def test_no_process_stays_behind(lab: Lab) -> None:
    """Whatever came of the explanation."""
    lab.explain(lab.build("index"), lab.build("[][index]"))
    mine = {path.name for path in Path("/proc").glob("[0-9]*") if _parent(path) == os.getpid()}
    commands = [(Path("/proc") / pid / "cmdline").read_bytes() for pid in mine]
    assert not any(b"worker.py" in command for command in commands)


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_trace_tells_what_runs_from_what_is_only_there(lab: Lab) -> None:
    """Executed, prepared, imported, present; the benchmark's own files are none of them."""
    lab.benchmark(
        """
        from project import layer, helper

        class Suite:
            def setup(self):
                helper.prepare()

            def time_it(self):
                layer.forward(3)
        """
    )
    build = lab.build("index", helper="def prepare():\n    pass\n", idle="X = 1\n", more="X = 1\n")
    explainer = ProfilingExplainer(lab.benchmarks)
    paths = ["project/inner.py", "project/idle.py", "project/gone.py", "project/layer.py"]
    trace = explainer.trace(build, Workload("bench.Suite.time_it"), paths)
    assert trace is not None
    assert trace.executed == ("project/layer.py",)
    assert trace.prepared == ("project/helper.py",)
    assert trace.imported == ("project/inner.py",)
    assert trace.present == ("project/idle.py",)
    assert explainer.trace(build, Workload("bench.Suite.time_nothing"), paths) is None


TORCH_LAYER = """
    import torch
    from torch import nn
    from torch.autograd import Function
    from torch.nn import functional

    class Times(Function):
        @staticmethod
        def forward(ctx, data, weight):
            ctx.save_for_backward(data, weight)
            return data.mm(weight.t())

        @staticmethod
        def backward(ctx, grad):
            data, weight = ctx.saved_tensors
            for _ in range(5):
                grad = grad + 0
            return grad.mm(weight), grad.t().mm(data)

    def layer(data, weight):
        return {call}
"""
TORCH_BENCH = """
    import torch
    from project import layer

    class Suite:
        def setup(self):
            torch.set_num_threads(1)
            self.data = torch.ones(1, 10, requires_grad=True)
            self.weight = torch.ones(10, 10, requires_grad=True)

        def time_both(self):
            for _ in range(20):
                layer.layer(self.data, self.weight).sum().backward()
"""


@pytest.mark.torch
def test_a_real_torch_is_explained(lab: Lab, torch_tree: Path, torch_python: str) -> None:
    """A compiled gradient becomes Python: the function, the node it replaces, the operators."""
    lab.benchmark(TORCH_BENCH)
    builds = []
    for call in ("functional.linear(data, weight)", "Times.apply(data, weight)"):
        build = lab.build("0", python=torch_python)
        tree = Path(build.tree)
        (tree / "project" / "layer.py").write_text(textwrap.dedent(TORCH_LAYER.format(call=call)))
        for source in (*torch_tree.iterdir(), Path(asv_runner.__file__).parent):
            if not (tree / source.name).exists():
                (tree / source.name).symlink_to(source)
        builds.append(build)
    found = lab.explain(*builds, "Suite.time_both", compiled_differs=False, pairs=3)
    assert found.methods == ("cProfile", "torch.profiler")
    assert found.step_seconds > 0
    assert {"Times.backward", "layer"} <= {cause.name for cause in found.causes}
    assert found.explained > 0.5
    backward = next(cause for cause in found.causes if cause.name == "Times.backward")
    assert backward.why.startswith("Python function now, in place of ")
    assert "Backward0" in backward.why
    operators = {row.name: row for row in found.operators}
    assert operators["TimesBackward"].calls == (0, 20)
    assert operators["TimesBackward"].kind is SpentIn.GRADIENT
    assert operators["AccumulateGrad"].calls == (40, 40)
