"""The core types: what every room hands to the next one.

Frozen dataclasses only; no behaviour beyond what follows from their own fields, no I/O, and
no import of ours. Units are in the names. Positions are indices into ``CommitRange.line``:
0 is the baseline FROM, ``len(line) - 1`` is TO.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

NO_NATIVE_FILES = "0" * 64
"""The native fingerprint of a tree that holds no native file."""


class PathClass(enum.Enum):
    """What a commit's changed files can do to a build."""

    NATIVE = "native"
    PYTHON = "python"
    IRRELEVANT = "irrelevant"


class Route(enum.Enum):
    """How a build was obtained."""

    CACHED = "cached"
    OVERLAY = "overlay"
    WHEEL = "wheel"
    SOURCE = "source"


class Outcome(enum.Enum):
    """What came of one probe of one commit."""

    MEASURED = "measured"
    UNBUILDABLE = "unbuildable"
    UNIMPORTABLE = "unimportable"
    FAILED = "failed"
    TIMED_OUT = "timed out"


class Verdict(enum.Enum):
    """The answer for one workload."""

    CULPRITS = "culprits"
    NO_CHANGE = "no change"
    INCONCLUSIVE = "inconclusive"


class Purpose(enum.Enum):
    """Why a probe was made."""

    ENDS = "ends"
    GRID = "grid"
    SEARCH = "search"
    REPEAT = "repeat"
    REBUILD = "rebuild"
    CONFIRM = "confirm"
    COMPARE = "compare"


class Judgement(enum.Enum):
    """Whether one side of a comparison differs from the other, for one workload."""

    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Commit:
    """One commit of the history.

    Attributes:
        sha: the full hexadecimal object name.
        parents: full object names, first parent first.
        author: the author's name.
        date_seconds: the committer date, seconds since the epoch.
        subject: the first line of the message.
        paths: the files it changes against its first parent.
        path_class: what those files can do to a build.
        fingerprint: the native fingerprint of its tree.
        prior: how plausible the user says it is that it changes a workload, 0 < p <= 1.
    """

    sha: str
    parents: tuple[str, ...]
    author: str
    date_seconds: int
    subject: str
    paths: tuple[str, ...] = ()
    path_class: PathClass = PathClass.NATIVE
    fingerprint: str = ""
    prior: float = 1.0


@dataclass(frozen=True)
class CommitRange:
    """FROM..TO along first parents; FROM is the trusted baseline and is measured.

    Attributes:
        spec: the range as the user wrote it.
        line: the baseline first, then every commit of the range, oldest first.
    """

    spec: str
    line: tuple[Commit, ...]

    @property
    def baseline(self) -> Commit:
        """FROM."""
        return self.line[0]

    @property
    def tip(self) -> Commit:
        """TO."""
        return self.line[-1]


@dataclass(frozen=True)
class TreeFile:
    """One tracked file of one commit: its path, git mode (octal digits) and blob name."""

    path: str
    mode: str
    blob: str


@dataclass(frozen=True)
class Workload:
    """One asv benchmark with one choice of parameters.

    Attributes:
        benchmark: asv's name of the benchmark, for example ``linear.Linear.time_forward``.
        params: the representation of each chosen parameter value, as asv writes them.
        param_index: the position of this choice in asv's product of parameters, or None.
        unit: the metric's unit, ``seconds`` for ``time_`` benchmarks.
        kind: asv's benchmark type: ``time``, ``track``, ``peakmemory``, ``memory``...
        timeout_seconds: how long one run may take.
        version: asv's hash of the benchmark's code.
    """

    benchmark: str
    params: tuple[str, ...] = ()
    param_index: int | None = None
    unit: str = "seconds"
    kind: str = "time"
    timeout_seconds: float = 60.0
    version: str = ""

    @property
    def name(self) -> str:
        """The name with its parameters, as ``asv run -b`` matches it."""
        return f"{self.benchmark}({', '.join(self.params)})" if self.params else self.benchmark


@dataclass(frozen=True)
class Quote:
    """A route to a build of one commit, and its expected cost before doing it."""

    sha: str
    route: Route
    seconds: float


@dataclass(frozen=True)
class Build:
    """A usable, immutable installed tree for one commit.

    Attributes:
        sha: the commit it is a build of.
        route: how it was obtained.
        tree: the directory to put on the path.
        python: the interpreter that runs it.
        environment: variables to set when it runs (the matrix's ``env`` and ``env_nobuild``).
        key: the store's content key.
        seconds: what it cost to obtain, zero when cached.
        salt: which build of its commit it is: 0 the usual one, else that in this salt's layout.
    """

    sha: str
    route: Route
    tree: str
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    seconds: float = 0.0
    salt: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Builds to be run side by side on one workload, once each.

    Attributes:
        workload: what they run.
        builds: what is compared.
        name: its runs are of the block ``f"{name}.0"``.
        purpose: what the runs are for.
    """

    workload: Workload
    builds: tuple[Build, ...]
    name: str
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Run:
    """One fresh process measuring one build on one workload.

    Attributes:
        value: the run's metric, in the workload's unit; inside a block, values are adjusted
            for the block's drift so that their ratios are the paired ratios.
        block: the block it was interleaved in; runs of one block share the machine's state.
        samples: the numbers the process yielded, in the workload's unit, in order.
        number: how many calls one sample averages over.
        started_seconds: when it began, seconds since the epoch.
        seconds: the wall time it cost, start of the process included.
    """

    value: float
    block: str = ""
    samples: tuple[float, ...] = ()
    number: int = 1
    started_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of probing one commit on one workload: runs, or the reason there are none.

    ``salt`` says which build of the commit was measured, as in ``Build``.
    """

    workload: str
    sha: str
    outcome: Outcome
    runs: tuple[Run, ...] = ()
    reason: str = ""
    purpose: Purpose = Purpose.SEARCH
    salt: int = 0


@dataclass(frozen=True)
class Probe:
    """What the search wants next: so many runs of each of these positions, in one block.

    For ``Purpose.CONFIRM`` there are two positions, parent and child (or the nearest measured
    commits on either side where those cannot be measured). ``Purpose.REBUILD`` asks for one more
    build of each position; any other measures the build that ``Evidence.build_to_run`` names.
    """

    positions: tuple[int, ...]
    runs: int
    purpose: Purpose


@dataclass(frozen=True)
class Evidence:
    """All that one search knows, over positions 0..size-1; position 0 is the baseline.

    Attributes:
        size: the number of positions.
        weights: for each position, how plausible it is that this commit changes the workload,
            0 < w <= 1 (the baseline's is not used).
        values: for each measured position the natural logarithms of its runs, already freed
            of block effects.
        failed: positions that cannot be built, imported or run.
        pairs: fresh parent-child confirmations: (left, right) to paired log ratios, one a
            round of the two builds.
        one_build: the positions differ in Python files only and share one native build, so
            nothing but what they compute can differ between builds of them.
        builds: for each position of which several builds were measured, which of them each of
            its values comes from: 0 the usual build, 1 and on for the others.
        build_seconds: for each position the quote for making it measurable; 0 when it is.
        rebuild_seconds: for each position the quote for building it once more, infinite where
            it cannot be; empty where nothing can.
        run_seconds: the expected cost of one run.
        spent_seconds: the cost so far; with ``budget_seconds`` the search can stop in time.
        budget_seconds: None for no limit.
        build_sigma: the standard deviation between builds of one commit, in logarithms, as
            rebuilds measured it; None where none were made.
    """

    size: int
    weights: tuple[float, ...]
    values: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    failed: frozenset[int] = frozenset()
    pairs: Mapping[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    one_build: bool = False
    build_seconds: tuple[float, ...] = ()
    run_seconds: float = 1.0
    spent_seconds: float = 0.0
    budget_seconds: float | None = None
    build_sigma: float | None = None
    builds: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rebuild_seconds: tuple[float, ...] = ()

    def build_to_run(self, position: int) -> int:
        """Which build of a position further runs tell most of: that with the fewest so far."""
        owners = self.builds.get(position, ())
        return min(sorted(set(owners)), key=owners.count, default=0)


@dataclass(frozen=True)
class Step:
    """A level shift that the search stands for.

    Attributes:
        position: the most probable change point (the first commit at the new level).
        left, right: the measured positions on either side of the credible set.
        credible: positions among which the change point lies with ``confidence``.
        log_ratio, log_low, log_high: the effect, new level over old, and its interval.
        probability: that a relevant step lies in ``credible``.
        confirmed: a fresh parent-child comparison agreed.
    """

    position: int
    left: int
    right: int
    credible: tuple[int, ...]
    log_ratio: float
    log_low: float
    log_high: float
    probability: float
    confirmed: bool


@dataclass(frozen=True)
class Posterior:
    """Beliefs about one workload's levels along the range.

    Attributes:
        change: for each position the probability that a relevant step begins there.
        level: for each position the expected log level (NaN where nothing informs it).
        level_low, level_high: the interval of each level.
        sigma: the expected spread of one run's logarithm.
        expected_steps: the expected number of relevant steps.
    """

    change: tuple[float, ...]
    level: tuple[float, ...]
    level_low: tuple[float, ...]
    level_high: tuple[float, ...]
    sigma: float
    expected_steps: float


@dataclass(frozen=True)
class Decision:
    """The search's answer to "what next?": probes, or a verdict when there are none.

    Attributes:
        probes: what to measure next; empty when the search has ended.
        steps: what it stands for now, largest effect first.
        verdict: None while the search goes on.
        limit: the smallest relative step that would have been seen (0.03 for 3 %), where
            "no change" is (or would be) said.
        needed: what an inconclusive verdict would take, one line.
        posterior: the beliefs behind it.
    """

    probes: tuple[Probe, ...]
    steps: tuple[Step, ...]
    verdict: Verdict | None
    limit: float
    posterior: Posterior
    needed: str = ""


@dataclass(frozen=True)
class Side:
    """One side of a culprit's comparison: the commit measured, its runs and level in the unit.

    The values are freed of block effects, so the two sides' can be compared.
    """

    sha: str
    values: tuple[float, ...]
    level: float


class CodeChange(enum.Enum):
    """What became of a function's source between two builds."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    COMPILED = "compiled"
    """There is no Python source to compare."""


class SpentIn(enum.Enum):
    """What kind of thing the time was spent in."""

    PYTHON = "python"
    BUILTIN = "builtin"
    """A compiled function that Python calls."""
    OPERATOR = "operator"
    GRADIENT = "gradient"
    """A node of autograd's graph."""


@dataclass(frozen=True)
class Difference:
    """One function or operator in two builds; pairs are (parent, child), for one call.

    One call is one call of the benchmark's body, as the workload's own value counts it. Seconds
    are freed of the profiler's cost, by the rule in docs/explain.md.

    Attributes:
        name: ``Linear.forward``, ``run_backward``, ``aten::addmm``.
        kind: what it is.
        path: the source file, relative to the build's tree; empty where there is none.
        line: where it begins, in the child's file (the parent's when it is gone); 0 if unknown.
        change: what became of its source.
        calls: how often it was called.
        self_seconds: spent in itself.
        total_seconds: spent in itself and all that it called.
        instructions: executed in itself, by callgrind; None where they were not counted.
    """

    name: str
    kind: SpentIn
    path: str = ""
    line: int = 0
    change: CodeChange = CodeChange.COMPILED
    calls: tuple[float, float] = (0.0, 0.0)
    self_seconds: tuple[float, float] = (0.0, 0.0)
    total_seconds: tuple[float, float] = (0.0, 0.0)
    instructions: tuple[float, float] | None = None

    @property
    def grew_seconds(self) -> float:
        """By how much its own time grew."""
        return self.self_seconds[1] - self.self_seconds[0]


@dataclass(frozen=True)
class Cause:
    """One reason why a workload got slower or faster; causes never count the same time twice.

    Attributes:
        name: the function or operator that changed.
        kind: what it is.
        path: its source file, relative to the build's tree; empty where there is none.
        line: where it begins in the child's file (the parent's when it is gone); 0 if unknown.
        change: what became of its source.
        seconds: what it adds to one call of the workload; negative where it saves.
        share: ``seconds`` over the step; 0.7 for 70 %, negative where it works against it.
        calls: how often it was called, (parent, child).
        why: what happened, in words, for example "Python function now, in place of
            AddmmBackward0".
        parts: what inside it grew or shrank, largest first; of the same time.
    """

    name: str
    kind: SpentIn
    path: str
    line: int
    change: CodeChange
    seconds: float
    share: float
    calls: tuple[float, float]
    why: str = ""
    parts: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class TouchedFile:
    """A file of the commit's diff, and what the workload has to do with it.

    Attributes:
        path: as the repository names it.
        executed: the workload runs code of this file, in the parent's build or the child's.
        functions: changed functions of it that the workload runs.
        idle: changed functions of it that the workload does not run.
    """

    path: str
    executed: bool
    functions: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """Why a workload differs between two builds; pairs are (parent, child), for one call.

    Attributes:
        workload: its name.
        parent, child: the commits compared.
        level_seconds: what a call takes with no profiler.
        profiled_seconds: what it takes under the function profiler.
        causes: the largest share of the step first; those that work against it come last.
        functions: Python functions and the compiled ones they call, by growth of own time.
        operators: operators and gradients, by growth of own time; empty without torch.
        touched: the files of the commit's diff, those executed first.
        methods: how it was found out, for example ``cProfile``, ``torch.profiler``.
        notes: what to know when reading it, one line each.
        reason: why there are no causes; empty when there are.
    """

    workload: str
    parent: str
    child: str
    level_seconds: tuple[float, float] = (0.0, 0.0)
    profiled_seconds: tuple[float, float] = (0.0, 0.0)
    causes: tuple[Cause, ...] = ()
    functions: tuple[Difference, ...] = ()
    operators: tuple[Difference, ...] = ()
    touched: tuple[TouchedFile, ...] = ()
    methods: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def step_seconds(self) -> float:
        """The unprofiled step: what the causes have to add up to."""
        return self.level_seconds[1] - self.level_seconds[0]

    @property
    def explained_seconds(self) -> float:
        """What the causes add up to."""
        return sum(cause.seconds for cause in self.causes)

    @property
    def explained(self) -> float:
        """The share of the step that the causes make up, 0 to 1.

        Causes that add up to more than the step explain it no better than as much less.
        """
        if not self.step_seconds:
            return 0.0
        return max(0.0, 1.0 - abs(1.0 - self.explained_seconds / self.step_seconds))

    @property
    def unexplained_seconds(self) -> float:
        """What is left of the step."""
        return self.step_seconds - self.explained_seconds


@dataclass(frozen=True)
class Trace:
    """Which Python files of a build one workload reaches.

    Files that the range changes are named as the repository names them, others relative to the
    build's tree.

    Attributes:
        workload: its name.
        sha: the commit of the build.
        executed: files with code that runs in what is measured.
        prepared: files with code that runs only before or after, in setup and its like.
        imported: files that are only imported.
        present: files that the range changes and this build has, but that are not even imported.
    """

    workload: str
    sha: str
    executed: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class Noise:
    """The spread of one run's level, in logarithms (0.01 is about 1 %).

    Attributes:
        within: standard deviation from the finite number of samples in one process.
        between: standard deviation from one process to the next of the same build, beyond that.
        build: standard deviation from one build of a commit to the next, beyond both; None where
            it was not measured beforehand (``Rebuilds``).
    """

    within: float
    between: float
    build: float | None = None

    @property
    def run(self) -> float:
        """Standard deviation of one run."""
        return math.hypot(self.within, self.between)


@dataclass(frozen=True)
class Culprit:
    """A change point with a probability and an effect.

    Attributes:
        commit: the change point; where it came in by a merge, the side branch's commit.
        merge: the merge on the first-parent line that brought it in, or None.
        ratio, ratio_interval: new level over old level.
        delta, delta_interval: new level minus old level, in the workload's unit.
        probability: that a relevant step lies in the credible set.
        credible_set: object names, oldest first; more than one where neighbours failed.
        parent, child: the two sides compared.
        command: the command that reproduces the comparison.
        explanation: why it changed the workload; None until that was looked into.
        instructions: of one call in the parent's build and in the child's, where they were
            counted to corroborate the effect.
    """

    commit: Commit
    merge: Commit | None
    ratio: float
    ratio_interval: tuple[float, float]
    delta: float
    delta_interval: tuple[float, float]
    probability: float
    credible_set: tuple[str, ...]
    parent: Side
    child: Side
    command: str
    explanation: Explanation | None = None
    instructions: tuple[float, float] | None = None

    @property
    def is_regression(self) -> bool:
        """The metric grew: slower, or more memory."""
        return self.ratio > 1.0


@dataclass(frozen=True)
class WorkloadFindings:
    """The verdict for one workload, with everything a report shows.

    Attributes:
        workload: what was measured.
        verdict: the answer.
        culprits: largest effect first.
        limit: the smallest relative step that would have been seen.
        needed: what an inconclusive verdict would take.
        observations: in the order they were made, values freed of block effects.
        posterior: over ``Findings.range.line``; None when nothing could be measured.
        noise: what the runs say of it; None where too few were repeated.
    """

    workload: Workload
    verdict: Verdict
    culprits: tuple[Culprit, ...]
    limit: float
    needed: str
    observations: tuple[Observation, ...]
    posterior: Posterior | None
    noise: Noise | None = None


@dataclass(frozen=True)
class Cost:
    """What a session spent: builds made (not cached), runs measured, wall seconds."""

    builds: int
    runs: int
    seconds: float


@dataclass(frozen=True)
class Findings:
    """What one session found; everything a report or a page is made from.

    ``conditions`` and ``states`` are empty for logs of before they were recorded.
    """

    session: str
    range: CommitRange
    workloads: tuple[WorkloadFindings, ...]
    cost: Cost
    smallest_step: float
    confidence: float
    machine: Mapping[str, str]
    environment: str
    created_seconds: float
    finished: bool
    conditions: Mapping[str, str] = field(default_factory=dict)
    states: tuple[MachineState, ...] = ()


@dataclass(frozen=True)
class SessionHeader:
    """What a session set out to do: enough to resume it on the same range and workloads.

    Attributes:
        session: its identifier, also the stem of the log's file name.
        created_seconds: seconds since the epoch.
        range: the commits, so that a report needs no repository.
        workloads: what is measured.
        smallest_step: relative, 0.03 for 3 %.
        confidence: 0.95 for 95 %.
        budget_seconds: None for no limit.
        machine: asv's machine parameters, as text.
        environment: asv's name of the environment.
        python: the interpreter version of the environment, for example ``3.11``.
        project: the project's name in asv.conf.json.
        show_commit_url: asv's setting, for links.
        options: any further options, as text, for the record.
    """

    session: str
    created_seconds: float
    range: CommitRange
    workloads: tuple[Workload, ...]
    smallest_step: float
    confidence: float
    budget_seconds: float | None
    machine: Mapping[str, str]
    environment: str
    python: str
    project: str
    show_commit_url: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildEvent:
    """A build was obtained, or could not be (``reason`` is then not empty).

    ``salt`` says which build of the commit, as in ``Build``.
    """

    sha: str
    route: Route | None
    seconds: float
    reason: str = ""
    salt: int = 0


@dataclass(frozen=True)
class SideBranch:
    """A culprit merge was descended into: the line searched inside it, merge base first."""

    merge: str
    workload: str
    line: tuple[Commit, ...]


@dataclass(frozen=True)
class End:
    """The session reached its verdicts; a log without it was cut short."""

    seconds: float


@dataclass(frozen=True)
class Conditions:
    """What a session measures with: told once, before its first block.

    Attributes:
        facts: by name, as text: versions of interpreter, compiler and libraries, numbers of
            threads, the processor's governor; only what the machine tells.
    """

    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineState:
    """How the machine was as one block ended; None for what it does not tell.

    Attributes:
        block: the block.
        seconds: when, since the epoch.
        load: processes running or waiting to run, averaged over the last minute.
        mhz: the clock of the core that measures.
        celsius: the temperature of the processor.
    """

    block: str
    seconds: float
    load: float | None = None
    mhz: float | None = None
    celsius: float | None = None


@dataclass(frozen=True)
class Count:
    """The instructions of one call of a workload in one build, beside its times.

    Attributes:
        workload: its name.
        sha: the commit of the build.
        instructions: how many; None when they could not be counted.
        tool: what counted, ``perf events`` or ``callgrind``.
        seconds: what it cost.
        reason: why there is no count.
    """

    workload: str
    sha: str
    instructions: float | None
    tool: str = ""
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Rebuilds:
    """One commit built several times over in salted layouts, all measured side by side.

    Attributes:
        workload: its name.
        sha: the commit.
        levels: each build's mean log value, freed of blocks; the commit's usual build first.
        runs: how many runs each was measured by.
        sigma: the standard deviation between builds in logarithms, what runs alone make of it
            taken off; 0 where nothing is left.
        seconds: what it cost.
    """

    workload: str
    sha: str
    levels: tuple[float, ...]
    runs: int
    sigma: float
    seconds: float = 0.0


Event = (
    BuildEvent
    | Observation
    | SideBranch
    | Trace
    | Explanation
    | Conditions
    | MachineState
    | Count
    | Rebuilds
    | End
)


@dataclass(frozen=True)
class Session:
    """One bisection as its log holds it: everything else is derived from it."""

    header: SessionHeader
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Judged:
    """What the paired log ratios of one workload amount to.

    Attributes:
        judgement: the answer so far; DIFFERENT and SAME are final.
        log_ratio, log_low, log_high: the mean log ratio, new over old, and its interval; NaN and
            infinite where too little is known.
        p_value: against "no difference", valid at whatever moment one looks or stops.
    """

    judgement: Judgement
    log_ratio: float
    log_low: float
    log_high: float
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """Two builds compared on one workload.

    Attributes:
        workload: what was measured.
        judgement: the answer.
        ratio, ratio_interval: new over old; NaN where a side has no runs.
        p_value: see ``Judged``.
        before, after: the runs and level of each side.
        is_relevant: DIFFERENT by at least the smallest step, or broken on the new side alone.
        reason: why a side has no runs, or why nothing had to be measured.
    """

    workload: Workload
    judgement: Judgement
    ratio: float
    ratio_interval: tuple[float, float]
    p_value: float
    before: Side
    after: Side
    is_relevant: bool
    reason: str = ""

    @property
    def is_worse(self) -> bool:
        """Relevant, and slower, larger, or broken."""
        return self.is_relevant and not self.ratio < 1.0


@dataclass(frozen=True)
class Versus:
    """Everything that one comparison of two commits found.

    Attributes:
        session: the name of its log.
        old, new: the sides; for a working tree the commit that stands for it.
        names: how the user named them.
        comparisons: one a workload, in the order they were asked for.
        mean_ratio, mean_interval: the geometric mean of the ratios of all workloads measured on
            both sides, and its interval; NaN when there are none.
        smallest_step, confidence: what SAME and the intervals hold with.
        false_rate: the expected share of wrong ones among what is called DIFFERENT.
        cost, machine, environment, created_seconds, finished: as for ``Findings``.
    """

    session: str
    old: Commit
    new: Commit
    names: tuple[str, str]
    comparisons: tuple[Comparison, ...]
    mean_ratio: float
    mean_interval: tuple[float, float]
    smallest_step: float
    confidence: float
    false_rate: float
    cost: Cost
    machine: Mapping[str, str]
    environment: str
    created_seconds: float
    finished: bool

    @property
    def got_worse(self) -> bool:
        """Whether anything relevant got worse."""
        return any(comparison.is_worse for comparison in self.comparisons)
