"""A1, A2, A3 and A5: the sequence labeler, PyTorch beside DyNet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bisectorch.tables import account
from bisectorch.tables.bench import Bench
from bisectorch.tables.shapes import Column, Form, Job, Kind, Measured, Row, Side, Table, job, ratio

STAGES = tuple(account.a("A2")["DyNet"])
RUNS = ("DyNet", "PyTorch", "PyTorch, OMP_NUM_THREADS=1")
LARGER = 50000
PARAMETERS = {"PyTorch": 43351, "DyNet": 43045}


def whole_run(bench: Bench, form: Form) -> Table:
    """A1: ten epochs."""
    arguments: dict[str, Any] = {"stages": ("total",), "epochs": 1 if form is Form.SHORT else 10}
    notes = ["ten epochs; the short form makes one and multiplies"]
    return _runs(bench, "A1", "The sequence labeler, whole run", arguments, notes)


def larger(bench: Bench, form: Form) -> Table:
    """A5: the same with 50,000 labels, where the operations are large and the calls few."""
    arguments: dict[str, Any] = {
        "stages": ("total",),
        "epochs": 1,
        "labels": LARGER,
        "rate": 0.001,
        "minibatches": 1 if form is Form.SHORT else None,
    }
    notes = [
        "one epoch times ten; the short form makes one minibatch and scales by its tokens",
    ]
    table = _runs(bench, "A5", f"A larger model: n_labels = {LARGER}", arguments, notes)
    dynet, _, torch = (row.cells[2] for row in table.rows)
    if isinstance(dynet, float) and isinstance(torch, float):
        told = "is there" if torch < dynet else "is not there"
        note = f"the account's crossover, PyTorch ahead on one thread here, {told}"
        table = replace(table, notes=(*table.notes, note))
    return table


def _runs(
    bench: Bench, name: str, title: str, arguments: dict[str, Any], notes: list[str]
) -> Table:
    jobs = [
        job(Side.DYNET, "dynet", **arguments),
        job(Side.TORCH, "labeler", threads=None, **arguments),
        job(Side.TORCH, "labeler", **arguments),
    ]
    found = bench.measure(jobs)
    published = account.a(name)
    base = found[jobs[0]].value("total")
    rows = []
    for run, each in zip(RUNS, jobs, strict=True):
        ours = found[each].value("total")
        rows.append(
            Row(
                (
                    run,
                    published[run],
                    ours,
                    ratio(published[run], published["DyNet"]),
                    ratio(ours, base),
                    losses(found[each]),
                ),
                found[each].why("total"),
            )
        )
    columns = (
        Column("run", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
        Column("account/DyNet", Kind.ACCOUNT_RATIO),
        Column("ours/DyNet", Kind.OURS_RATIO),
        Column("loss of the last epoch, first and last minibatch", Kind.NAME),
    )
    sizes = [
        f"{side.value}: {found[each].facts['parameters']:,} parameters"
        for side, each in ((Side.TORCH, jobs[2]), (Side.DYNET, jobs[0]))
        if "parameters" in found[each].facts
    ]
    return Table(
        name,
        title,
        account.source("A"),
        columns,
        tuple(rows),
        (*notes, *filter(None, ["; ".join(sizes)])),
    )


def losses(measured: Measured) -> str:
    """The first and the last loss, so that speed is seen not to be bought with another model."""
    told = measured.facts.get("loss")
    return f"{told[0]:.4g} to {told[1]:.4g}" if told else ""


def stages(bench: Bench, form: Form) -> Table:
    """A2: forward, cumulative by stage; ``total`` adds backward and the optimizer."""
    arguments: dict[str, Any] = {"stages": STAGES, "epochs": 1 if form is Form.SHORT else 10}
    torch, dynet = job(Side.TORCH, "labeler", **arguments), job(Side.DYNET, "dynet", **arguments)
    found = bench.measure([torch, dynet])
    published = account.a("A2")
    rows = []
    for stage in STAGES:
        ours = {name: found[each].value(stage) for name, each in (("D", dynet), ("P", torch))}
        theirs = published["DyNet"][stage], published["PyTorch"][stage]
        rows.append(
            Row(
                (
                    stage,
                    theirs[0],
                    ours["D"],
                    theirs[1],
                    ours["P"],
                    ratio(theirs[1], theirs[0]),
                    ratio(ours["P"], ours["D"]),
                ),
                reasons(found, (torch, dynet), stage),
            )
        )
    columns = (
        Column("stage", Kind.NAME),
        Column("DyNet, account", Kind.ACCOUNT, "s", "DyNet"),
        Column("DyNet, ours", Kind.OURS, "s", "DyNet"),
        Column("PyTorch, account", Kind.ACCOUNT, "s", "PyTorch"),
        Column("PyTorch, ours", Kind.OURS, "s", "PyTorch"),
        Column("PyTorch/DyNet, account", Kind.ACCOUNT_RATIO),
        Column("PyTorch/DyNet, ours", Kind.OURS_RATIO),
    )
    notes = (
        "ten epochs, each column goes on after the stage named; DyNet is lazy, so the last stage "
        "forces the value",
        "both at OMP_NUM_THREADS=1",
    )
    title = "The sequence labeler: cumulative time by stage"
    return Table("A2", title, account.source("A"), columns, tuple(rows), notes)


def reasons(found: dict[Job, Measured], jobs: tuple[Job, ...], name: str) -> str:
    """Why figures of that name are missing, by side."""
    told = {f"{each.side.value}: {found[each].why(name)}" for each in jobs if found[each].why(name)}
    return "; ".join(sorted(told))


def functions(bench: Bench, form: Form) -> Table:
    """A3: the backward pass by function, each side as its own profiler tells it."""
    epochs = 1 if form is Form.SHORT else 10
    jobs = {
        "PyTorch": job(Side.TORCH, "functions", epochs=epochs),
        "DyNet": job(Side.DYNET, "dynet_functions", epochs=epochs),
    }
    found = bench.measure(list(jobs.values()))
    published = account.a("A3")
    rows = []
    for side in ("DyNet", "PyTorch"):
        measured = found[jobs[side]]
        ours_total = sum(measured.value(name) or 0.0 for name in measured.figures)
        account_total = sum(published[side].values())
        others = sorted(
            set(measured.figures) - set(published[side]), key=lambda n: -(measured.value(n) or 0)
        )
        for name in (*published[side], *others):
            ours = measured.value(name)
            why = measured.missing.get("", "") or (
                "" if name in measured.figures else f"this {side} calls no such function"
            )
            rows.append(
                Row(
                    (
                        side,
                        name,
                        published[side].get(name),
                        ours,
                        ratio(published[side].get(name), account_total / 100),
                        ratio(ours, ours_total / 100),
                        measured.facts.get("names", {}).get(name, ""),
                    ),
                    why,
                )
            )
    columns = (
        Column("run", Kind.NAME),
        Column("function", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
        Column("account, % of all", Kind.ACCOUNT_RATIO),
        Column("ours, % of all", Kind.OURS_RATIO),
        Column("called here", Kind.NAME),
    )
    notes = (
        "ten epochs under the profilers, which slow down what they watch: compare the shares",
        "functions that the account does not name follow below its own, largest first",
    )
    title = "The sequence labeler: backward by function"
    return Table("A3", title, account.source("A"), columns, tuple(rows), notes)
