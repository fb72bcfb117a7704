"""What cProfile adds to a call, measured on code with many functions.

Part of the child: Python 3.6 syntax, standard library only.
"""

import gc
import math
import operator
import time
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import bisectorch_calls as calls_room  # type: ignore[import-not-found]

COUNT, ROUNDS = 40, 25

OF_ONE_NUMBER = """acos asin asinh atan atanh ceil cos cosh degrees exp expm1 fabs floor frexp
isfinite isinf isnan log log10 log1p log2 modf radians sin sinh sqrt tan tanh trunc"""
"""Those of ``math`` that are quick."""

Caller = Callable[[Any, int], None]
Clock = Optional[Callable[[], float]]


def overhead(timer: Clock = None) -> Dict[str, List[float]]:
    """What cProfile, reading this clock, adds to a call; measured on calls that do little.

    For a Python callee, a compiled one, and a compiled method, which is bound to its object anew
    for each call that is profiled: seconds charged to the callee and to the caller. Dozens of
    different ones are called in turn, as in real code: cProfile finds one that is called over
    and over three times faster. And ``slower``: how many times longer Python code takes between
    calls while it is profiled, which on Python 3.11 is well above 1, because it then gives up its
    quickened instructions.
    """
    functions, builtins = python_functions(), builtin_functions()
    callers = (
        ("python", call_functions, functions, len(functions)),
        ("builtin", call_with_number, builtins, len(builtins)),
        ("method", call_methods, [Text("a")], CALLED_METHODS),
    )
    collecting = gc.isenabled()
    gc.disable()
    try:
        found = {}
        slower = least_profiled(busy, 2000, timer)[0] / least(busy, 2000)
        for kind, caller, callees, each in callers:
            calls = COUNT * each
            # A loop of itself, which is no call's: by so much each turn, plain and profiled.
            real = (least(caller, callees) - least(call_nothing, callees)) / calls
            own, inner = least_profiled(caller, callees, timer)
            own -= least_profiled(call_nothing, callees, timer)[0]
            # A call's own price is shared between both ends, as neither can be told alone.
            found[kind] = [
                max(0.0, inner / calls - max(0.0, real) / 2),
                max(0.0, own / calls - max(0.0, real) / 2),
            ]
    finally:
        if collecting:
            gc.enable()
    found["slower"] = [max(1.0, slower)]
    return found


def python_functions() -> List[Any]:
    """Sixty-four that do nothing, each with code of its own: cProfile knows functions by that."""

    def nothing() -> None:
        pass

    return [
        types.FunctionType(renamed(nothing.__code__, "nothing%d" % number), {})
        for number in range(64)
    ]


def renamed(code: Any, name: str) -> Any:
    """The same code under another name."""
    if hasattr(code, "replace"):
        return code.replace(co_name=name)
    make: Any = types.CodeType  # before Python 3.8
    return make(
        code.co_argcount,
        code.co_kwonlyargcount,
        code.co_nlocals,
        code.co_stacksize,
        code.co_flags,
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_filename,
        name,
        code.co_firstlineno,
        code.co_lnotab,
        code.co_freevars,
        code.co_cellvars,
    )


def builtin_functions() -> List[Any]:
    """Compiled functions of one number that are quick."""
    made = [getattr(math, name) for name in OF_ONE_NUMBER.split()]
    made += [operator.neg, operator.pos, operator.abs, operator.not_, operator.truth]
    return [*made, abs, callable, hash, id]


class Text(str):
    """Has a dictionary, as most objects have whose methods are called."""


def call_functions(functions: Sequence[Any], count: int) -> None:
    """Call each of them in turn."""
    for _ in range(count):
        for function in functions:
            function()


def call_with_number(functions: Sequence[Any], count: int) -> None:
    """Call each of them in turn with a number."""
    for _ in range(count):
        for function in functions:
            function(0.5)


def call_nothing(functions: Sequence[Any], count: int) -> None:
    """The loops of the others by themselves."""
    for _ in range(count):
        for _function in functions:
            pass


CALLED_METHODS = 19


def call_methods(texts: Sequence[Text], count: int) -> None:
    """Call methods of texts in turn."""
    for _ in range(count):
        for text in texts:
            text.isalnum()
            text.isalpha()
            text.isdecimal()
            text.isdigit()
            text.isidentifier()
            text.islower()
            text.isnumeric()
            text.isprintable()
            text.isspace()
            text.istitle()
            text.isupper()
            text.lower()
            text.upper()
            text.title()
            text.strip()
            text.lstrip()
            text.rstrip()
            text.casefold()
            text.swapcase()


def busy(turns: int, count: int) -> None:
    """Python code that calls nothing."""
    total, values = 0, [1, 2]
    for index in range(turns):
        if values[0] is not None and index >= count:
            total = index + values[1]
    del total


def least(caller: Caller, callees: Any) -> float:
    """The least seconds of a call."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        caller(callees, COUNT)
        found.append(time.perf_counter() - began)
    return min(found)


def least_profiled(caller: Caller, callees: Any, timer: Clock) -> Tuple[float, float]:
    """The least seconds of a call under cProfile: its own, and those of all that it calls."""
    found = []
    for _ in range(ROUNDS):
        watch = calls_room.profile(timer)
        watch.enable()
        caller(callees, COUNT)
        watch.disable()
        own = inner = 0.0
        for entry in watch.getstats():
            if entry.code is caller.__code__:
                own = entry.inlinetime
            elif calls_room.spot_of(entry.code) not in calls_room.OWN:
                inner += entry.inlinetime
        found.append((own, inner))
    return min(found, key=sum)
