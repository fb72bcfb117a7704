"""What one call of a workload calls: every context with its count, and what each edge costs.

Part of the child: Python 3.6 syntax, standard library only. Two collectors, because no single one
gives both: ``CallTree`` counts calls in their full context but is far too slow to time with;
``Edges`` (cProfile) times caller by callee with little cost but forgets who called the caller.
A Python function is told by its code object, a compiled one by its name.
"""

import cProfile
import gc
import math
import operator
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

MOST_NODES = 20000
"""Contexts kept apart; deeper ones are counted in the last that is kept."""

DEEPEST = 150

Spot = Any
"""A code object, or the name of a compiled function."""

OWN = frozenset(["setprofile", "enable", "disable"])
"""Compiled functions that start and stop profilers."""


class Node(object):
    """One context: a function as called through this chain of callers."""

    __slots__ = ("calls", "children", "depth", "parent", "spot")

    def __init__(self, spot: Spot, parent: "Optional[Node]" = None) -> None:
        self.spot = spot
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.calls = 0
        self.children: Dict[Spot, Node] = {}


class CallTree(object):
    """Counts calls in context while it is the profiler of a thread."""

    def __init__(self) -> None:
        self.root = Node(None)
        self.nodes = 0
        self.stack = [self.root]

    def count(self, function: Callable[..., Any], params: Tuple[Any, ...]) -> None:
        """Count what one call calls, and nothing that a collection of garbage happens to call."""
        collecting = gc.isenabled()
        gc.disable()
        sys.setprofile(self.event)
        try:
            function(*params)
        finally:
            sys.setprofile(None)
            if collecting:
                gc.enable()
        del self.stack[1:]

    def event(self, frame: Any, event: str, arg: Any) -> None:
        """One event, as sys.setprofile hands it over."""
        if event == "call":
            self.enter(frame.f_code)
        elif event == "c_call":
            self.enter(arg.__name__)
        elif len(self.stack) > 1:  # return, c_return, c_exception
            self.stack.pop()

    def enter(self, spot: Spot) -> None:
        """A call of ``spot`` from where the stack stands."""
        top = self.stack[-1]
        node = top.children.get(spot)
        if node is None:
            # Recursion folds into the first call, or a tree would have no end.
            if top.spot is spot or self.nodes >= MOST_NODES or top.depth >= DEEPEST:
                node = top
            else:
                node = top.children[spot] = Node(spot, top)
                self.nodes += 1
        node.calls += 1
        self.stack.append(node)


class Edges(object):
    """What caller spends in callee itself, a sample at a time."""

    def __init__(self) -> None:
        self.samples: Dict[Tuple[Spot, Spot], List[Tuple[float, float]]] = {}
        self.labels: Dict[str, str] = {}
        self.methods: Set[str] = set()

    def add(self, profile: cProfile.Profile, count: int, root: Spot = None) -> None:
        """One sample: what cProfile gathered in ``count`` calls that ``root`` made."""
        stats = profile.getstats()
        edges: Dict[Tuple[Spot, Spot], List[float]] = {}
        called: Dict[Spot, List[float]] = {}
        totals: Dict[Spot, List[float]] = {}
        for entry in stats:
            spot = spot_of(entry.code)
            if isinstance(entry.code, str):
                self.labels.setdefault(spot, label_of(entry.code))
                if entry.code.startswith("<method "):
                    self.methods.add(spot)
            grow(totals, spot, entry.callcount, entry.inlinetime)
            for sub in entry.calls or ():
                callee = spot_of(sub.code)
                grow(edges, (spot, callee), sub.callcount, sub.inlinetime)
                grow(called, callee, sub.callcount, sub.inlinetime)
        for spot, (calls, inline) in totals.items():
            by_others = called.get(spot, (0, 0.0))
            if calls > by_others[0] and spot not in OWN:
                rest = max(0.0, inline - by_others[1])
                grow(edges, (root, spot), calls - by_others[0], rest)
        for edge, (calls, inline) in edges.items():
            self.samples.setdefault(edge, []).append((calls / count, inline / count))

    def quartiles(self) -> List[Tuple[Spot, Spot, float, float]]:
        """Caller, callee, median of calls, lower quartile of seconds: disturbances only add."""
        found = []
        for (caller, callee), seen in self.samples.items():
            seconds = sorted(inline for _, inline in seen)
            calls = middle(count for count, _ in seen)
            found.append((caller, callee, calls, seconds[(len(seconds) - 1) // 4]))
        return found


def grow(sums: Dict[Any, List[float]], key: Any, calls: float, inline: float) -> None:
    """Add to a sum of calls and seconds."""
    known = sums.setdefault(key, [0, 0.0])
    known[0] += calls
    known[1] += inline


def middle(values: Iterable[float]) -> float:
    """The median."""
    order = sorted(values)
    half = len(order) // 2
    return order[half] if len(order) % 2 else (order[half - 1] + order[half]) / 2


def spot_of(code: Any) -> Spot:
    """cProfile's key of a function as ours: ``<method 't' of 'X' objects>`` is ``t``."""
    if not isinstance(code, str):
        return code
    text = code.strip("<>")
    if "'" in text:  # method 'append' of 'list' objects
        return text.split("'")[1]
    words = text.split(" ")  # built-in method torch._C._nn.linear, or built-in function len
    name = words[2] if len(words) > 2 and words[0] == "built-in" else words[-1]
    return name.split(".")[-1]


def label_of(code: str) -> str:
    """A compiled function as people know it: ``torch._C._nn.linear``, ``TensorBase.t``."""
    text = code.strip("<>")
    if "'" in text:
        parts = text.split("'")
        owner = parts[3].split(".")[-1] if len(parts) > 3 else ""
        return owner + "." + parts[1] if owner else parts[1]
    words = text.split(" ")
    return words[2] if len(words) > 2 and words[0] == "built-in" else words[-1]


def profile(timer: Optional[Callable[[], float]]) -> cProfile.Profile:
    """A profiler that reads this clock, or its own when there is none."""
    return cProfile.Profile(timer) if timer is not None else cProfile.Profile()


def overhead(timer: Optional[Callable[[], float]] = None) -> Dict[str, List[float]]:
    """What cProfile, reading this clock, adds to a call; measured on calls that do little.

    For a Python callee, a compiled one, and a compiled method, which is bound to its object anew
    for each call that is profiled: seconds charged to the callee and to the caller. Dozens of
    different ones are called in turn, as in real code: cProfile finds one that is called over
    and over three times faster. And ``slower``: how many times longer Python code takes between
    calls while it is profiled, which on Python 3.11 is well above 1, because it then gives up its
    quickened instructions.
    """
    count, rounds = 40, 25
    sources = {
        "python": (python_functions(), "    f%d()\n"),
        "builtin": (builtin_functions(), "    f%d(0.5)\n"),
        "method": (METHODS.split(), "    text.%s()\n"),
    }
    collecting = gc.isenabled()
    gc.disable()
    try:
        found = {}
        slower = min(profiled(busy, 2000, timer)[0] for _ in range(rounds)) / min(
            timed(busy, 2000) for _ in range(rounds)
        )
        for kind, (callees, call) in sources.items():
            caller, calls = caller_of(callees, call), len(callees) * count
            real = min(timed(caller, count) for _ in range(rounds)) / calls
            own, inner = min((profiled(caller, count, timer) for _ in range(rounds)), key=sum)
            # A call's own price is shared between both ends, as neither can be told alone.
            found[kind] = [
                max(0.0, inner / calls - real / 2),
                max(0.0, own / calls - real / 2),
            ]
    finally:
        if collecting:
            gc.enable()
    found["slower"] = [max(1.0, slower)]
    return found


METHODS = """isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace
istitle isupper lower upper title strip lstrip rstrip casefold swapcase capitalize"""
"""Those of a string that take no argument."""

OF_ONE_NUMBER = """acos asin asinh atan atanh ceil cos cosh degrees exp expm1 fabs floor frexp
isfinite isinf isnan log log10 log1p log2 modf radians sin sinh sqrt tan tanh trunc"""
"""Those of ``math`` that are quick."""


class Text(str):
    """Has a dictionary, as most objects have whose methods are called."""


def python_functions() -> List[Any]:
    """Sixty-four that do nothing, each with code of its own: cProfile knows functions by that."""
    made: Dict[str, Any] = {}
    for number in range(64):
        exec("def f%d():\n    pass\n" % number, made)
    return [made["f%d" % number] for number in range(64)]


def builtin_functions() -> List[Any]:
    """Compiled functions of one number that are quick."""
    made = [getattr(math, name) for name in OF_ONE_NUMBER.split()]
    made += [operator.neg, operator.pos, operator.abs, operator.not_, operator.truth]
    return [*made, abs, callable, hash, id]


def caller_of(callees: Sequence[Any], call: str) -> Callable[[int], None]:
    """A function that calls each of these in turn, so often as it is told."""
    named = [callee if isinstance(callee, str) else number for number, callee in enumerate(callees)]
    lines = "".join(call % name for name in named)
    known = {"f%d" % number: callee for number, callee in enumerate(callees)}
    known["Text"] = Text
    exec("def caller(count):\n  text = Text('a')\n  for _ in range(count):\n" + lines, known)
    made: Callable[[int], None] = known["caller"]
    return made


def busy(count: int) -> None:
    """Python code that calls nothing."""
    total, values = 0, [1, 2]
    for index in range(count):
        if values[0] is not None and index >= 0:
            total = index + values[1]
    del total


def timed(function: Callable[[int], None], count: int) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    function(count)
    return time.perf_counter() - began


def profiled(
    function: Callable[[int], None], count: int, timer: Optional[Callable[[], float]]
) -> Tuple[float, float]:
    """Seconds of one call under cProfile: the function's own, and those of all that it calls."""
    watch = profile(timer)
    watch.enable()
    function(count)
    watch.disable()
    own = inner = 0.0
    for entry in watch.getstats():
        if entry.code is function.__code__:
            own = entry.inlinetime
        elif spot_of(entry.code) not in OWN:
            inner += entry.inlinetime
    return own, inner
