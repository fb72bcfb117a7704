"""Sessions and findings as a real bisection leaves them, for the tests of reports and pages."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import replace

from bisectorch.model import (
    BuildEvent,
    Cause,
    CodeChange,
    Commit,
    CommitRange,
    Conditions,
    Cost,
    Count,
    Culprit,
    Difference,
    End,
    Event,
    Explanation,
    Findings,
    MachineState,
    Observation,
    Outcome,
    PathClass,
    Posterior,
    Purpose,
    Rebuilds,
    Route,
    Run,
    Session,
    SessionHeader,
    Side,
    SideBranch,
    SpentIn,
    TouchedFile,
    Trace,
    Verdict,
    Workload,
    WorkloadFindings,
)

HOSTILE = (
    '<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2"> \'"&amp; {{ 7*7 }} '
    "\u202egnp.exe\u202c \x1b]0;owned\x07\x1b[31mred | `code` *bold* [link](javascript:alert(1)) "
    "@everyone $\\alpha$ \U0001f9a5\U0001f468\u200d\U0001f469\u200d\U0001f467 "
    + "unbroken" * 1240
    + " end"
)
"""A subject that tries everything, 10,000 characters long."""

SUBJECTS = {
    12: "added twice differentiation for a bunch of ops (#1426)",
    24: "fix a bug in the data loader's error path",
    33: "Use torch.matmul in nn.Linear (#1935)",
    45: "Merge branch 'move-to-cpp'",
    52: "small clean-up of the functional interface",
}
FILLERS = (
    "fix typo in the documentation of Conv2d",
    "add tests for sparse embedding",
    "make the build work without MKL",
    "improve error message of DataParallel",
    "update the contributing guide",
    "expose pin_memory in the Python API",
)
STEPS = {12: 1.62, 33: 1.31, 45: 0.58}
"""The truth of the usual session: ratio by position."""

BROKEN = {
    31: (Outcome.UNIMPORTABLE, "ImportError: cannot import name 'matmul' from 'torch.functional'"),
    32: (Outcome.UNIMPORTABLE, "ImportError: cannot import name 'matmul' from 'torch.functional'"),
    40: (Outcome.UNBUILDABLE, "make: *** [csrc/autograd/engine.o] Error 1"),
}
FIRST_DATE = 1_493_640_000  # 2017-05-01
CREATED = 1_764_400_000.0


def sha(text: str) -> str:
    """A stable object name."""
    return hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()


def make_commit(index: int, subject: str | None = None, author: str = "Ada Contributor") -> Commit:
    """The commit at this position of the usual line."""
    return Commit(
        sha=sha(f"commit {index}"),
        parents=(sha(f"commit {index - 1}"),),
        author=author,
        date_seconds=FIRST_DATE + index * 86_400,
        subject=subject or SUBJECTS.get(index, FILLERS[index % len(FILLERS)]),
        paths=("torch/nn/functional.py",),
        path_class=PathClass.PYTHON,
        fingerprint="f" * 16,
    )


def make_range(size: int = 61, spec: str = "v0.1.12..master") -> CommitRange:
    """A line of this many commits."""
    return CommitRange(spec, tuple(make_commit(index) for index in range(size)))


def make_workload(name: str = "linear.Linear.time_backward", unit: str = "seconds") -> Workload:
    """The usual workload."""
    return Workload(name, ("1", "10"), 0, unit, "time", 60.0, "abc123")


def _normal(dice: random.Random) -> float:
    """A standard normal number, nearly, and the same with every Python."""
    return sum(dice.random() for _ in range(12)) - 6


def _levels(size: int, base: float, steps: dict[int, float]) -> list[float]:
    level, levels = base, []
    for index in range(size):
        level *= steps.get(index, 1.0)
        levels.append(level)
    return levels


def make_observations(
    line: tuple[Commit, ...],
    workload: Workload,
    levels: list[float],
    at: tuple[int, ...],
    runs: int,
    seed: int,
) -> tuple[Observation, ...]:
    """Runs at these positions, interleaved in blocks, and the broken commits among them."""
    dice = random.Random(seed)
    found: list[Observation] = []
    for turn in range(runs):
        for index in at:
            if index in BROKEN:
                if turn == 0:
                    outcome, reason = BROKEN[index]
                    found.append(Observation(workload.name, line[index].sha, outcome, (), reason))
                continue
            value = levels[index] * math.exp(0.012 * _normal(dice))
            run = Run(value, f"b{turn}", (value, value * 1.01), 1000, CREATED + turn, 0.5)
            purpose = Purpose.ENDS if index in (0, len(line) - 1) else Purpose.SEARCH
            found.append(
                Observation(workload.name, line[index].sha, Outcome.MEASURED, (run,), "", purpose)
            )
    return tuple(found)


def _posterior(levels: list[float], at: tuple[int, ...], steps: dict[int, float]) -> Posterior:
    size = len(levels)
    width = [0.006 if index in at else 0.012 for index in range(size)]
    change = [0.001] * size
    for index in steps:
        change[index] = 0.97
    return Posterior(
        tuple(change),
        tuple(math.log(level) for level in levels),
        tuple(math.log(level) - w for level, w in zip(levels, width, strict=True)),
        tuple(math.log(level) + w for level, w in zip(levels, width, strict=True)),
        0.012,
        float(len(steps)),
    )


def _values(observations: tuple[Observation, ...], name: str) -> tuple[float, ...]:
    return tuple(run.value for seen in observations if seen.sha == name for run in seen.runs)


def make_workload_findings(
    line: tuple[Commit, ...],
    workload: Workload,
    base: float = 8.3e-6,
    steps: dict[int, float] | None = None,
    verdict: Verdict = Verdict.CULPRITS,
    runs: int = 7,
    seed: int = 1,
) -> WorkloadFindings:
    """What a search over the line found; by default two regressions and an improvement."""
    steps = STEPS if steps is None else steps
    size = len(line)
    levels = _levels(size, base, steps)
    wanted = {0, size - 1, *range(0, size, 10), 11, 12, 30, 31, 32, 33, 34, 40, 44, 45, 46}
    at = tuple(sorted(index for index in wanted if index < size))
    seen = make_observations(line, workload, levels, at, runs, seed)
    culprits = []
    for index, ratio in sorted(steps.items(), key=lambda step: -abs(math.log(step[1]))):
        left = index - 1
        while left in BROKEN:
            left -= 1
        before, after = levels[left], levels[index]
        low, high = ratio * 0.985, ratio * 1.016
        merge = line[index] if index == 45 else None
        commit = line[index]
        if merge is not None:
            subject = "move the linear functions to C++"
            commit = replace(
                make_commit(1045, subject, "Grace Hopper"),
                parents=(line[43].sha,),
                date_seconds=line[44].date_seconds,
            )
        culprits.append(
            Culprit(
                commit=commit,
                merge=merge,
                ratio=ratio,
                ratio_interval=(low, high),
                delta=after - before,
                delta_interval=(before * (low - 1), before * (high - 1)),
                probability=0.9996 if index == 12 else 0.972,
                credible_set=tuple(
                    [line[i].sha for i in range(left + 1, index)] + [commit.sha],
                ),
                parent=Side(line[left].sha, _values(seen, line[left].sha), before),
                child=Side(line[index].sha, _values(seen, line[index].sha), after),
                command=(
                    f"bisectorch bisect {line[left].sha[:10]}..{line[index].sha[:10]} "
                    f"-b '^{workload.benchmark}\\(1, 10\\)$' --smallest-step 3%"
                ),
            )
        )
    return WorkloadFindings(
        workload,
        verdict,
        tuple(culprits),
        0.021,
        "about 40 more runs (5 min) would tell" if verdict is Verdict.INCONCLUSIVE else "",
        seen,
        _posterior(levels, at, steps),
    )


def make_findings(session: str = "2025-11-29-0642-1f3a", created: float = CREATED) -> Findings:
    """The usual session: culprits, no change and an inconclusive workload."""
    commits = make_range()
    line = commits.line
    return Findings(
        session=session,
        range=commits,
        workloads=(
            make_workload_findings(line, make_workload()),
            make_workload_findings(
                line,
                make_workload("linear.Linear.time_forward"),
                base=7.8e-6,
                steps={},
                verdict=Verdict.NO_CHANGE,
                seed=2,
            ),
            make_workload_findings(
                line,
                Workload("models.peakmem_sequence_labeler", unit="bytes", kind="peakmemory"),
                base=3.1e8,
                steps={},
                verdict=Verdict.INCONCLUSIVE,
                runs=2,
                seed=3,
            ),
        ),
        cost=Cost(builds=17, runs=301, seconds=412.4),
        smallest_step=0.03,
        confidence=0.95,
        machine={"machine": "bench-1", "cpu": "Example CPU @ 2.40 GHz", "os": "Linux 6.1"},
        environment="bisectorch-py3.11-OMP_NUM_THREADS1",
        created_seconds=created,
        finished=True,
    )


def make_hostile_findings(session: str = "2025-11-30-0900-beef") -> Findings:
    """A session whose every foreign text attacks what shows it."""
    usual = make_findings(session, CREATED + 90_000)
    line = tuple(
        replace(commit, subject=HOSTILE, author='Eve <b>"x"</b> \u202eevE')
        if index in (12, 31)
        else commit
        for index, commit in enumerate(usual.range.line)
    )
    workload = Workload("evil.<i>Bench</i>.time_x", ("'<b>\"'", "'../../etc'"), 0)
    observations = usual.workloads[0].observations
    found = make_workload_findings(line, workload)
    found = replace(
        found,
        observations=(
            *found.observations,
            Observation(workload.name, line[50].sha, Outcome.FAILED, (), HOSTILE),
        ),
    )
    assert observations
    return replace(
        usual,
        range=CommitRange("<u>old</u>..new", line),
        workloads=(found,),
        machine={"machine": "<s>box</s>"},
        environment="<em>env</em>",
    )


def make_explanation(culprit: Culprit, workload: Workload) -> Explanation:
    """Why a culprit of the usual session got slower: a node of autograd became Python code."""
    before, after = culprit.parent.level, culprit.child.level
    step = after - before
    path = "torch/nn/_functions/linear.py"
    product = Difference(
        "Product.apply",
        SpentIn.PYTHON,
        "torch/nn/_functions/blas.py",
        19,
        CodeChange.NEW,
        (0.0, 2.0),
        (0.0, 0.3 * step),
        (0.0, 0.5 * step),
    )
    own = Difference(
        "Linear.backward",
        SpentIn.PYTHON,
        path,
        16,
        CodeChange.NEW,
        (0.0, 1.0),
        (0.0, 0.25 * step),
        (0.0, 0.75 * step),
    )
    lost = Difference(
        "AddmmBackward0", SpentIn.GRADIENT, calls=(1.0, 0.0), self_seconds=(0.2 * before, 0.0)
    )
    causes = (
        Cause(
            own.name,
            own.kind,
            path,
            16,
            CodeChange.NEW,
            0.73 * step,
            0.73,
            (0.0, 1.0),
            "Python function now, in place of AddmmBackward0",
            (product, own),
        ),
        Cause(
            "Linear.forward",
            SpentIn.PYTHON,
            "torch/nn/modules/linear.py",
            51,
            CodeChange.CHANGED,
            0.15 * step,
            0.15,
            (1.0, 1.0),
            "calls Function.apply now, and linear no more",
        ),
    )
    return Explanation(
        workload=workload.name,
        parent=culprit.parent.sha,
        child=culprit.child.sha,
        level_seconds=(before, after),
        profiled_seconds=(1.9 * before, 2.2 * after),
        causes=causes,
        functions=(product, own),
        operators=(lost,),
        touched=(
            TouchedFile(path, True, ("Linear.backward", "Linear.forward")),
            TouchedFile("torch/nn/modules/linear.py", True, ("Linear.forward",), ("Bilinear",)),
            TouchedFile("docs/source/nn.rst", False),
        ),
        methods=("cProfile", "torch.profiler"),
        notes=("the profiler made a call 1.9 and 2.2 times slower; its cost is subtracted",),
    )


def make_header(findings: Findings) -> SessionHeader:
    """The header of the session that led to these findings."""
    return SessionHeader(
        session=findings.session,
        created_seconds=findings.created_seconds,
        range=findings.range,
        workloads=tuple(found.workload for found in findings.workloads),
        smallest_step=findings.smallest_step,
        confidence=findings.confidence,
        budget_seconds=None,
        machine=findings.machine,
        environment=findings.environment,
        python="3.11",
        project="pytorch",
        show_commit_url="https://example.org/commit/",
    )


def make_session(findings: Findings | None = None) -> Session:
    """The session that led to these findings, with every kind of event."""
    findings = findings or make_findings()
    line = findings.range.line
    events: list[Event] = [
        BuildEvent(line[0].sha, Route.WHEEL, 12.5),
        BuildEvent(line[40].sha, None, 31.0, "make: *** Error 1"),
    ]
    for found in findings.workloads:
        events.extend(found.observations)
    first = findings.workloads[0].workload.name
    events.append(SideBranch(line[45].sha, first, (line[43], make_commit(1045))))
    events.append(
        Trace(
            first,
            line[0].sha,
            ("torch/nn/modules/linear.py",),
            ("torch/nn/init.py",),
            ("torch/nn/functional.py",),
            ("torch/nn/utils/clip_grad.py",),
        )
    )
    for found in findings.workloads[:1]:
        events.extend(make_explanation(each, found.workload) for each in found.culprits[:1])
    events.append(Conditions({"compiler": "GCC 12.2", "blas": "libopenblas.so.0", "threads": "1"}))
    events += [
        MachineState(f"b{turn}", CREATED + turn, 0.5 + turn / 10, 2400.0 + turn, 51.0)
        for turn in range(3)
    ]
    events.append(Count(first, line[12].sha, 1.234e6, "callgrind", 20.5))
    events.append(Count(first, line[11].sha, None, "callgrind", 1.5, "killed by SIGILL"))
    events.append(Rebuilds(first, line[0].sha, (-11.7, -11.69, -11.705), 4, 0.006, 700.0))
    events.append(End(findings.cost.seconds))
    return Session(make_header(findings), tuple(events))
