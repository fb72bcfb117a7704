"""What PyTorch's own profilers see of a workload, whichever of them this build has.

Part of the child: Python 3.6 syntax, standard library only; torch is taken from ``sys.modules``,
where the workload has put it, and never imported. From 1.8.1 on ``torch.profiler``, from 0.2 on
``torch.autograd.profiler``; before that modules' and functions' own Python code is timed by hooks.
"""

import functools
import gc
import re
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

ENGINE = "autograd::engine::evaluate_function: "
"""What the engine calls its own work around a node of the graph."""

GRADIENT = re.compile(r"(Backward\d*|AccumulateGrad)$")

Row = List[Any]
"""Name, kind, calls, own seconds, seconds in all; for one call of the workload."""


def torch_here() -> Any:
    """torch, if the workload imported it."""
    return sys.modules.get("torch")


def operators(run: Callable[[], int]) -> Tuple[str, List[Row]]:
    """What profiler there was, and its rows; ``run`` calls the workload and says how often."""
    torch = torch_here()
    if torch is None:
        return "", []
    faults = []
    for name, collect in (
        ("torch.profiler", _kineto),
        ("torch.autograd.profiler", _autograd),
        ("timed hooks", _hooked),
    ):
        try:
            return name, collect(torch, run)
        except Exception as error:
            faults.append("%s: %s: %s" % (name, type(error).__name__, str(error)[:200]))
    raise RuntimeError("; ".join(faults))


def _kineto(torch: Any, run: Callable[[], int]) -> List[Row]:
    profiler = getattr(torch, "profiler", None)
    if profiler is None:
        raise AttributeError("torch has no profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as found:
        calls = run()
    return _rows(found.key_averages(), calls)


def _autograd(torch: Any, run: Callable[[], int]) -> List[Row]:
    module = getattr(torch.autograd, "profiler", None)
    if module is None:
        raise AttributeError("torch.autograd has no profiler")
    with module.profile() as found:
        calls = run()
    return _rows(found.key_averages(), calls)


def _rows(averages: Any, calls: int) -> List[Row]:
    """A row an operator; the engine's work around a node counts as the node's own."""
    rows: Dict[str, Row] = {}
    for average in averages:
        name = str(average.key)
        total = float(average.cpu_time_total) * 1e-6
        own = getattr(average, "self_cpu_time_total", None)  # from 1.0 on
        own = total if own is None else float(own) * 1e-6
        inside = not name.startswith(ENGINE)
        if not inside:
            name = name[len(ENGINE) :]
        name = name.split("::")[-1] if GRADIENT.search(name) else name
        kind = "gradient" if GRADIENT.search(name) else "operator"
        row = rows.setdefault(name, [name, kind, 0.0, 0.0, 0.0])
        if inside:
            row[2] += float(average.count) / calls
        row[3] += own / calls
        row[4] = max(row[4], total / calls)
    return list(rows.values())


def _hooked(torch: Any, run: Callable[[], int]) -> List[Row]:
    """Time ``forward`` and ``backward`` of every class of autograd functions and of modules."""
    clock = _Clock()
    patched = []
    try:
        for kind in _function_classes(torch):
            for method in ("forward", "backward"):
                own = vars(kind).get(method)
                if own is None:
                    continue
                name = kind.__name__ + ("Backward" if method == "backward" else "")
                setattr(kind, method, clock.around(name, own))
                patched.append((kind, method, own))
        calls = run()
    finally:
        for kind, method, own in reversed(patched):
            setattr(kind, method, own)
    if not clock.rows:
        raise AttributeError("nothing to hook")
    return [
        [name, "gradient" if GRADIENT.search(name) else "operator", n / calls, s / calls, t / calls]
        for name, (n, s, t) in clock.rows.items()
    ]


def _function_classes(torch: Any) -> List[Any]:
    """Every Python class of autograd functions, and every class of modules."""
    found = []
    waiting = [torch.autograd.Function]
    module = getattr(getattr(torch, "nn", None), "Module", None)
    if module is not None:
        waiting.append(module)
    while waiting:
        kind = waiting.pop()
        children = kind.__subclasses__()
        waiting.extend(children)
        found.extend(children)
    return list(dict.fromkeys(found))


class _Clock(object):
    """Own time and time in all of functions that call each other, in every thread."""

    def __init__(self) -> None:
        self.rows: Dict[str, List[float]] = {}
        self.local = threading.local()

    def around(self, name: str, method: Any) -> Any:
        """The method, timed; it stays static if it was."""
        static = isinstance(method, (staticmethod, classmethod))
        function = method.__func__ if static else method

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            inner = getattr(self.local, "inner", 0.0)
            self.local.inner = 0.0
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - began
                row = self.rows.setdefault(name, [0, 0.0, 0.0])
                row[0] += 1
                row[1] += spent - self.local.inner
                row[2] += spent
                self.local.inner = inner + spent

        return type(method)(timed) if static else timed


def in_engine_thread(action: Callable[[], None]) -> bool:
    """Do something in the thread where autograd runs backward; False when it is this one.

    Before 1.6 the engine has threads of its own, and Python's profilers see one thread each.
    """
    torch = torch_here()
    if torch is None:
        return False
    here = threading.get_ident()
    elsewhere = []

    def hook(gradient: Any) -> None:
        if threading.get_ident() != here:
            elsewhere.append(True)
            action()

    try:
        leaf = torch.autograd.Variable(torch.ones(1), requires_grad=True)
        output = leaf * 1
        output.register_hook(hook)
        collecting = gc.isenabled()
        output.backward(torch.ones(1))
        if collecting:
            gc.enable()
    except Exception:
        return False
    return bool(elsewhere)
