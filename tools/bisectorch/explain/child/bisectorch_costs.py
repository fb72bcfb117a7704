"""What cProfile adds to a call, measured on code with many functions.

Part of the child: Python 3.6 syntax, standard library only.
"""

import gc
import math
import operator
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import bisectorch_calls as calls_room  # type: ignore[import-not-found]

METHODS = """isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace
istitle isupper lower upper title strip lstrip rstrip casefold swapcase capitalize"""
"""Those of a string that take no argument."""

OF_ONE_NUMBER = """acos asin asinh atan atanh ceil cos cosh degrees exp expm1 fabs floor frexp
isfinite isinf isnan log log10 log1p log2 modf radians sin sinh sqrt tan tanh trunc"""
"""Those of ``math`` that are quick."""


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
    watch = calls_room.profile(timer)
    watch.enable()
    function(count)
    watch.disable()
    own = inner = 0.0
    for entry in watch.getstats():
        if entry.code is function.__code__:
            own = entry.inlinetime
        elif calls_room.spot_of(entry.code) not in calls_room.OWN:
            inner += entry.inlinetime
    return own, inner
