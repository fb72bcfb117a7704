"""What one call of a workload calls: every context with its count, and what each edge costs.

Part of the child: Python 3.6 syntax, standard library only. Two collectors, because no single one
gives both: ``CallTree`` counts calls in their full context but is far too slow to time with;
``Edges`` (cProfile) times caller by callee with little cost but forgets who called the caller.
A Python function is told by its code object, a compiled one by its name.
"""

import cProfile
import gc
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

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
