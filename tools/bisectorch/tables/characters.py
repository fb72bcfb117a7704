"""B and the profile: character language models, and what their operators cost."""

from __future__ import annotations

from bisectorch.tables import account
from bisectorch.tables.bench import Bench
from bisectorch.tables.shapes import Column, Form, Job, Kind, Measured, Row, Side, Table, job, ratio

FULL_LENGTH, SHORT_LENGTH = 320, 64
STEPS = 200
TITLES = {
    "tcn": "TCN",
    "lstm": "LSTM",
    "transformer": "Transformer, 4 heads, 4 layers",
    "tcn without transposes": "TCN without its transposes",
    "tcn of half the depth": "TCN of half the depth",
}


def _size(form: Form) -> dict[str, int]:
    if form is Form.SHORT:
        return {"length": SHORT_LENGTH, "steps": 2}
    return {"length": FULL_LENGTH, "steps": 5}


def models(bench: Bench, form: Form) -> Table:
    """B: parameters, seconds for 200 steps and an epoch, and the losses."""
    size = _size(form)
    jobs = {
        name: job(Side.TORCH, "characters", model=name, device=bench.device, threads=None, **size)
        for name in TITLES
    }
    keras = job(Side.KERAS, "keras", threads=None, **size)
    found = bench.measure([*jobs.values(), keras])
    published, steps_per_epoch = account.b("models"), account.b("steps_per_epoch")
    base = found[jobs["tcn"]].value("step")
    rows = []
    for name, title in (*TITLES.items(), ("keras-tcn", "keras-tcn (TensorFlow)")):
        measured = found[keras if name == "keras-tcn" else jobs[name]]
        told = published.get(name, {})
        step = measured.value("step")
        parts = measured.facts.get("parts")
        rows.append(
            Row(
                (
                    title,
                    told.get("layers", ""),
                    told.get("parameters"),
                    sum(parts) if parts else None,
                    told.get("seconds_200_steps"),
                    None if step is None else step * STEPS,
                    told.get("seconds_epoch"),
                    None if step is None else step * steps_per_epoch,
                    ratio(told.get("seconds_200_steps"), published["tcn"]["seconds_200_steps"]),
                    ratio(step, base),
                    ", ".join(f"{loss:.4f}" for loss in told.get("loss", ())),
                    _losses(measured),
                ),
                measured.why("step"),
            )
        )
    columns = (
        Column("model", Kind.NAME),
        Column("layers, account", Kind.NAME),
        Column("parameters, account", Kind.NAME),
        Column("parameters, ours", Kind.NAME),
        Column("200 steps, account", Kind.ACCOUNT, "s", "200 steps"),
        Column("200 steps, ours", Kind.OURS, "s", "200 steps"),
        Column("epoch, account", Kind.ACCOUNT, "s", "epoch of 514 steps"),
        Column("epoch, ours", Kind.OURS, "s", "epoch of 514 steps"),
        Column("to the TCN, account", Kind.ACCOUNT_RATIO),
        Column("to the TCN, ours", Kind.OURS_RATIO),
        Column("loss after epochs 1 to 4, account", Kind.NAME),
        Column("loss, ours", Kind.NAME),
    )
    title = f"Character language models, batch 32, sequence {size['length']}, on {bench.device}"
    return Table(
        "B", title, account.source("B"), columns, tuple(rows), _notes(form, size, found, jobs)
    )


def _notes(
    form: Form, size: dict[str, int], found: dict[Job, Measured], jobs: dict[str, Job]
) -> tuple[str, ...]:
    notes = [
        f"ours: {size['steps']} steps after two that are not counted, multiplied; the account's "
        "figures are a GPU's",
        "synthetic text with English letters' frequencies: losses tell that all train, and are not "
        "to be set beside the account's, which are of the Penn Treebank",
        "parameters are counted as the account counts: a TCN's decoder shares the embedding's "
        "4,900, which are counted twice (2,221,999 distinct ones)",
    ]
    if form is Form.SHORT:
        notes.append(f"the short form's sequences are {SHORT_LENGTH} long, the account's 320")
    base = found[jobs["tcn"]].value("step")
    for name, question in (
        ("tcn without transposes", "is it the transposes? Without them a step takes {:.2f} of it"),
        ("tcn of half the depth", "is it depth? At half the depth a step takes {:.2f} of it"),
    ):
        step = ratio(found[jobs[name]].value("step"), base)
        if step is not None:
            notes.append(question.format(step))
    return tuple(notes)


def _losses(measured: Measured) -> str:
    told = measured.facts.get("loss")
    if not told:
        return ""
    return f"{told[0]:.4f} to {told[1]:.4f} in {measured.facts['steps']} steps"


def profile(bench: Bench, form: Form) -> Table:
    """The profile: each operator's own share of one step's time."""
    size = _size(form)
    jobs = {
        name: job(Side.TORCH, "profile", model=name, device=bench.device, **size)
        for name in ("tcn", "lstm")
    }
    found = bench.measure(list(jobs.values()))
    published = account.b("profile")
    rows = []
    for model, each in jobs.items():
        measured = found[each]
        own = _by_operator(measured)
        total = sum(own.values())
        calls = measured.facts.get("calls", {})
        others = [
            name for name in sorted(own, key=lambda n: -own[n]) if name not in published[model]
        ]
        for name in (*published[model], *others[:8]):
            seconds = own.get(name)
            count = sum(n for key, n in calls.items() if _operator(key) == name)
            why = measured.missing.get("", "") or (
                "" if seconds is not None else "no such operator in this step"
            )
            rows.append(
                Row(
                    (
                        TITLES[model],
                        name,
                        published[model].get(name),
                        ratio(seconds, total / 100),
                        seconds,
                        round(count) if count else None,
                    ),
                    why,
                )
            )
    columns = (
        Column("model", Kind.NAME),
        Column("operator", Kind.NAME),
        Column("account", Kind.ACCOUNT, "%", "share"),
        Column("ours", Kind.OURS, "%", "share"),
        Column("ours, a step", Kind.NAME, "s"),
        Column("calls a step, ours", Kind.NAME),
    )
    notes = (
        "self time of one training step by operator, as PyTorch's profiler tells it; the account's "
        "cudnn_convolution and _cudnn_rnn are convolution and lstm here",
        "the account's embedding_dense_backward is an effect of the GPU: the profile waits there "
        "for kernels that were queued before; it does not come back on a CPU",
    )
    title = f"Profile of a training step, sequence {size['length']}, on {bench.device}"
    return Table("profile", title, account.source("B"), columns, tuple(rows), notes)


def _by_operator(measured: Measured) -> dict[str, float]:
    own: dict[str, float] = {}
    for name in measured.figures:
        seconds = measured.value(name)
        if seconds is not None:
            own[_operator(name)] = own.get(_operator(name), 0.0) + seconds
    return own


def _operator(name: str) -> str:
    """Without the namespace, and under one name for all implementations of a convolution."""
    bare = name.split("::")[-1]
    if "evaluate_function" in bare:
        return "(the autograd engine)"
    if "convolution" in bare:
        return "convolution_backward" if "backward" in bare else "convolution"
    if bare.startswith("mkldnn_rnn") or bare in ("lstm", "mkldnn_rnn_layer"):
        return "lstm_backward" if "backward" in bare else "lstm"
    if bare in ("linalg_vector_norm", "_foreach_norm", "norm"):
        return "norm"
    return bare
