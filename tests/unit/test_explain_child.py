"""The child's own modules, in this process: what they count, time and read."""

from __future__ import annotations

import ast
import cProfile
import gc
import importlib.util
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

CHILD = Path(__file__).resolve().parents[2] / "tools" / "bisectorch" / "explain" / "child"


def load(name: str) -> ModuleType:
    """A module of the child, which is no part of any package."""
    spec = importlib.util.spec_from_file_location(name, CHILD / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for those that import it
    spec.loader.exec_module(module)
    return module


calls = load("bisectorch_calls")
costs = load("bisectorch_costs")
operators = load("bisectorch_operators")
sources = load("bisectorch_sources")


@pytest.mark.parametrize("path", sorted(CHILD.glob("*.py")), ids=lambda path: path.name)
def test_the_child_keeps_to_python_3_6(path: Path) -> None:
    """Its grammar, its names and its imports: the standard library, asv_runner and itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).split(".")[0])
        assert not isinstance(node, ast.NamedExpr)
    own = {each.stem for each in CHILD.glob("*.py")}
    assert imported <= {*sys.stdlib_module_names, "asv_runner", *own}
    assert "torch" not in imported


def leaf() -> int:
    """Called by others."""
    return len("abc")


def middle() -> int:
    """Calls the leaf twice."""
    return leaf() + leaf()


def top(count: int) -> int:
    """Calls the middle, and the leaf itself."""
    return sum([middle() for _ in range(count)]) + leaf()


def contexts(root: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Every context by names; comprehensions, which newer interpreters inline, left out."""
    found = {}
    for spot, node in root.children.items():
        name = spot if isinstance(spot, str) else spot.co_name
        here = path if name == "<listcomp>" else (*path, name)
        if name != "<listcomp>" and name != "setprofile":
            found[here] = node.calls
        found.update(contexts(node, here))
    return found


def test_calls_are_counted_in_their_contexts() -> None:
    """The leaf under the middle is not the leaf under the top."""
    tree = calls.CallTree()
    tree.count(top, (3,))
    found = contexts(tree.root)
    assert found["top",] == 1
    assert found["top", "middle"] == 3
    assert found["top", "middle", "leaf"] == 6
    assert found["top", "middle", "leaf", "len"] == 6
    assert found["top", "leaf"] == 1
    assert tree.stack == [tree.root]


def test_a_workload_that_raises_leaves_no_profiler_behind() -> None:
    """Counting ends with it."""
    tree = calls.CallTree()
    with pytest.raises(ZeroDivisionError):
        tree.count(lambda: 1 / 0, ())
    assert sys.getprofile() is None


def test_collections_of_garbage_are_not_counted() -> None:
    """What they call depends on when they come, which is no property of the workload."""
    collected: list[str] = []
    gc.callbacks.append(lambda phase, info: collected.append(phase))

    def litter() -> list[list[int]]:
        return [[index] for index in range(10 * gc.get_threshold()[0])]

    tree = calls.CallTree()
    try:
        tree.count(litter, ())
        assert not collected
        assert gc.isenabled()
        litter()
    finally:
        gc.callbacks.pop()
    assert collected, "the workload is too small to set off a collection"


def test_recursion_folds() -> None:
    """Hundreds of levels are one context."""

    def down(left: int) -> int:
        return down(left - 1) if left else 0

    tree = calls.CallTree()
    tree.count(down, (500,))
    (node,) = (n for spot, n in tree.root.children.items() if not isinstance(spot, str))
    assert node.calls == 501
    assert tree.nodes <= 3


def test_edges_know_caller_and_callee() -> None:
    """Calls a call of the workload; what nobody in the profile called has the root as caller."""
    edges = calls.Edges()
    for _ in range(3):
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(4):
            top(2)
        profile.disable()
        edges.add(profile, 4)
    found = {
        (
            getattr(caller, "co_name", caller),
            getattr(callee, "co_name", callee),
        ): count
        for caller, callee, count, _ in edges.quartiles()
    }
    assert found[None, "top"] == 1
    assert found["middle", "leaf"] == 4
    assert found["leaf", "len"] == 5
    assert not any(callee == "disable" for _, callee in found)


@pytest.mark.parametrize(
    ("code", "spot", "label"),
    [
        ("<method 't' of 'torch._C.TensorBase' objects>", "t", "TensorBase.t"),
        ("<built-in method torch._C._nn.linear>", "linear", "torch._C._nn.linear"),
        ("<built-in method builtins.len>", "len", "builtins.len"),
        ("<len>", "len", "len"),
        ("<mod.function>", "function", "mod.function"),
    ],
)
def test_compiled_functions_are_named_as_python_counts_them(
    code: str, spot: str, label: str
) -> None:
    """CProfile's text and sys.setprofile's function mean the same."""
    assert calls.spot_of(code) == spot
    assert calls.label_of(code) == label


def test_the_overhead_is_positive_and_small() -> None:
    """Some nanoseconds to microseconds a call, and Python code not faster than without."""
    cost = costs.overhead()
    assert all(
        0 <= value < 1e-4 for kind in ("python", "builtin", "method") for value in cost[kind]
    )
    assert cost["slower"][0] >= 1


def test_the_overhead_is_that_of_code_with_many_functions() -> None:
    """The profiler looks each up among all others: one called over and over is found at once."""
    functions = costs.python_functions()
    assert len({function.__code__ for function in functions}) == len(functions) > 50
    assert len({function.__name__ for function in costs.builtin_functions()}) > 30
    for caller, callees, wanted in (
        (costs.call_functions, functions, len(functions)),
        (costs.call_with_number, costs.builtin_functions(), len(costs.builtin_functions())),
        (costs.call_methods, [costs.Text("a")], costs.CALLED_METHODS),
    ):
        seen = cProfile.Profile()
        seen.runcall(caller, callees, 2)
        counts = [
            entry.callcount
            for entry in seen.getstats()
            if entry.code is not caller.__code__ and calls.spot_of(entry.code) not in calls.OWN
        ]
        assert counts == [2] * wanted


FILE = '''
"""A module."""
FACTOR = {factor}


class Layer:
    """A class."""

    def forward(self, x):
        """{doc}"""
        # {comment}
        return [y * {scale} for y in x]

    @staticmethod
    def make():
        def inner():
            return 1
        return inner
'''


def digests(tmp_path: Path, **values: object) -> dict[str, str]:
    """What a file of this text defines."""
    path = tmp_path / "file.py"
    defaults = {"factor": 1, "doc": "Words.", "comment": "why", "scale": 2}
    path.write_text(FILE.format(**{**defaults, **values}))
    return {name: digest for name, _, _, digest in sources.definitions(str(path))}


def test_words_change_no_digest(tmp_path: Path) -> None:
    """Documentation and comments are not what runs."""
    assert digests(tmp_path) == digests(tmp_path, doc="Other words.", comment="because")


def test_code_changes_its_own_digest_alone(tmp_path: Path) -> None:
    """A function's, or the file's own code's."""
    before, inside, outside = (
        digests(tmp_path),
        digests(tmp_path, scale=3),
        digests(tmp_path, factor=2),
    )
    assert {name for name in before if before[name] != inside[name]} == {"Layer.forward"}
    assert {name for name in before if before[name] != outside[name]} == {"<module>"}
    assert "Layer.make.<locals>.inner" in before


def test_what_cannot_be_read_defines_nothing(tmp_path: Path) -> None:
    """Missing, no Python, or no text."""
    (tmp_path / "bad.py").write_text("def f(:\n")
    (tmp_path / "nul.py").write_bytes(b"\0\1")
    for name in ("bad.py", "nul.py", "missing.py"):
        assert sources.definitions(str(tmp_path / name)) is None


def test_decorated_and_nested_functions_get_their_names(tmp_path: Path) -> None:
    """By the line where their code begins."""
    path = tmp_path / "file.py"
    digests(tmp_path)
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    names = sources.Names()
    assert names.of(space["Layer"].forward.__code__) == "Layer.forward"
    assert names.of(space["Layer"].make.__code__) == "Layer.make"
    assert names.of(space["Layer"].make().__code__) == "Layer.make.<locals>.inner"


def average(key: str, count: int, total: float, own: float | None = None) -> SimpleNamespace:
    """A row of a profiler's averages, in microseconds; old ones have no own time."""
    row = SimpleNamespace(key=key, count=count, cpu_time_total=total)
    if own is not None:
        row.self_cpu_time_total = own
    return row


class OldProfile:
    """What torch.autograd.profiler.profile is."""

    def __enter__(self) -> OldProfile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def key_averages(self) -> list[SimpleNamespace]:
        """Two calls' worth."""
        engine = "autograd::engine::evaluate_function: AddmmBackward"
        return [
            average("aten::addmm", 4, 40.0, 30.0),
            average(engine, 2, 30.0, 10.0),
            average("AddmmBackward", 2, 20.0, 6.0),
            average("torch::autograd::AccumulateGrad", 2, 8.0),
        ]


def test_the_engines_work_around_a_node_is_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And an old profiler without own times yields times in all."""
    torch = SimpleNamespace(autograd=SimpleNamespace(profiler=SimpleNamespace(profile=OldProfile)))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    method, rows = operators.operators(lambda: 2)
    assert method == "torch.autograd.profiler"
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["aten::addmm"] == ["operator", 2, pytest.approx(15e-6), pytest.approx(20e-6)]
    assert by_name["AddmmBackward"] == ["gradient", 1, pytest.approx(8e-6), pytest.approx(15e-6)]
    assert by_name["AccumulateGrad"] == ["gradient", 1, pytest.approx(4e-6), pytest.approx(4e-6)]


def test_a_build_without_a_profiler_is_timed_by_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch 0.1.12: its functions' own Python code, each restored afterwards."""

    class Function:
        """The base of autograd's functions."""

    class Linear(Function):
        """One of them."""

        @staticmethod
        def forward(x: int) -> int:
            time.sleep(0.001)
            return x

        def backward(self, x: int) -> int:
            return Linear.forward(x)

    torch = SimpleNamespace(autograd=SimpleNamespace(Function=Function))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    own = dict(vars(Linear))

    def run() -> int:
        Linear.forward(1)
        Linear().backward(1)
        return 1

    method, rows = operators.operators(run)
    assert method == "timed hooks"
    by_name = {row[0]: row for row in rows}
    assert by_name["Linear"][2] == 2
    assert by_name["LinearBackward"][1:3] == ["gradient", 1]
    assert by_name["LinearBackward"][3] < by_name["Linear"][3]
    assert by_name["LinearBackward"][4] >= 0.001
    assert dict(vars(Linear)) == own


def test_no_torch_has_no_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any project but PyTorch."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert operators.operators(lambda: 1) == ("", [])
    assert not operators.in_engine_thread(lambda: None)


class Variable:
    """A variable whose backward runs hooks in the engine's own thread, or in the caller's."""

    apart = True

    def __init__(self, data: object, requires_grad: bool = False) -> None:
        self.hooks: list[Any] = []

    def __mul__(self, other: object) -> Variable:
        return self

    def register_hook(self, hook: Any) -> None:
        """Kept."""
        self.hooks.append(hook)

    def backward(self, gradient: object) -> None:
        """Run the hooks."""
        for hook in self.hooks:
            if self.apart:
                thread = threading.Thread(target=hook, args=(gradient,))
                thread.start()
                thread.join()
            else:
                hook(gradient)


@pytest.mark.parametrize("apart", [True, False])
def test_the_engines_thread_is_reached_where_it_is_another(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """Before 1.6 backward runs elsewhere, where this thread's profiler sees nothing."""
    monkeypatch.setattr(Variable, "apart", apart)
    torch = SimpleNamespace(autograd=SimpleNamespace(Variable=Variable), ones=lambda size: size)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    where: list[int] = []
    assert operators.in_engine_thread(lambda: where.append(threading.get_ident())) is apart
    assert (where != [] and where[0] != threading.get_ident()) is apart
