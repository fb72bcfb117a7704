"""A6 and A7: what autograd adds to a call, and what that says about nn.Linear."""

from __future__ import annotations

from bisectorch.tables import account
from bisectorch.tables.bench import Bench
from bisectorch.tables.linear import Levels
from bisectorch.tables.shapes import Column, Form, Job, Kind, Measured, Row, Side, Table, job, ratio

PYTHON = "add variables (Python function)"
CPP = "add variables (C++ function)"
BUILT_IN = "add variables"


def calls(form: Form) -> Job:
    """The job that A6 and A7 share: five turns of so many calls."""
    return job(Side.TORCH, "overhead", calls=2000 if form is Form.SHORT else 100000)


def overheads(measured: Measured) -> dict[str, float | None]:
    """Variant -> seconds more than on plain tensors, for 100,000 calls."""
    found: dict[str, float | None] = {}
    for variant in (*account.a("A6"), BUILT_IN):
        plain = measured.value(f"{variant.split()[0]} tensors")
        own = measured.value(variant)
        found[variant] = None if plain is None or own is None else own - plain
    return found


def variables(bench: Bench, form: Form) -> Table:
    """A6: 100,000 calls, on tensors and with their gradients asked for."""
    asked = calls(form)
    measured = bench.measure([asked])[asked]
    published = account.a("A6")
    ours = overheads(measured)
    rows = []
    for variant in (*published, BUILT_IN):
        told = published.get(variant, {})
        plain = f"{variant.split()[0]} tensors"
        time = measured.value(variant)
        rows.append(
            Row(
                (
                    variant
                    if variant != BUILT_IN
                    else f"{BUILT_IN} (built in, not in the account)",
                    told.get("time"),
                    time,
                    told.get("overhead"),
                    ours[variant],
                    ratio(told.get("time"), published[plain]["time"]),
                    ratio(time, measured.value(plain)),
                ),
                measured.why(variant),
            )
        )
    columns = (
        Column("run", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
        Column("overhead, account", Kind.ACCOUNT, "s", "overhead"),
        Column("overhead, ours", Kind.OURS, "s", "overhead"),
        Column("to tensors, account", Kind.ACCOUNT_RATIO),
        Column("to tensors, ours", Kind.OURS_RATIO),
    )
    notes = (
        "100,000 calls on rows of 52; the short form makes 2,000 and multiplies",
        "a Variable of 2017 is a tensor that asks for its gradient today",
    )
    title = "The overhead of autograd (Variables), 100,000 calls"
    return Table("A6", title, account.source("A"), columns, tuple(rows), notes)


def projection(bench: Bench, form: Form, levels: Levels | None) -> Table:
    """A7: what nn.Linear would cost with Functions in C++, from A6's factor and A4's levels."""
    asked = calls(form)
    measured = bench.measure([asked])[asked]
    ours = overheads(measured)
    python, cpp = ours[PYTHON], ours[CPP]
    factor = ratio(python, cpp) if cpp is not None and cpp > 0 else None
    factor_why = measured.why(PYTHON) or measured.why(CPP)
    if not factor_why and factor is None:
        factor_why = "the C++ function's overhead is lost in the noise: measure in the full form"
    levels_why = levels.why if levels else Levels.ADVICE
    before, slow, last = (levels.first, levels.slowest, levels.last) if levels else (None,) * 3
    projected = None
    if before is not None and slow is not None and factor:
        projected = before + (slow - before) / factor
    a4, a6, a7 = account.a("A4"), account.a("A6"), account.a("A7")
    master = "master (2017-11-28)"
    told = a4["v0.1.12"] + (a4[master] - a4["v0.1.12"]) / a7["factor"]
    both = "; ".join(dict.fromkeys(filter(None, [factor_why, levels_why])))
    rows = (
        Row(
            ("O_py: overhead of the Python function (A6)", a6[PYTHON]["overhead"], python),
            measured.why(PYTHON),
        ),
        Row(
            ("O_cpp: overhead of the C++ function (A6)", a6[CPP]["overhead"], cpp),
            measured.why(CPP),
        ),
        Row(("f = O_py / O_cpp", a7["factor"], factor), factor_why),
        Row(("B: nn.Linear before the regressions (A4)", a4["v0.1.12"], before), levels_why),
        Row(("S: nn.Linear after them (A4)", a4[master], slow), levels_why),
        Row(("projected: B + (S - B) / f", a7["projection"], projected), both),
        Row(
            ("measured, master (2017-11-28)", a7[master], None), "the account's own machine and day"
        ),
        Row(
            ("measured later: master (2018-01-03), TO here", a7["master (2018-01-03)"], last),
            levels_why,
        ),
    )
    columns = (
        Column("what", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
    )
    notes = (
        f"formula: B + (S - B) / f; on the account's own figures {a4['v0.1.12']:.2f} + "
        f"({a4[master]:.2f} - {a4['v0.1.12']:.2f}) / {a7['factor']} = {told:.2f}",
    )
    title = "The projection: Functions in C++ instead of Python"
    return Table("A7", title, account.source("A"), columns, rows, notes)
