"""Probing: what the searches of a bisection ask for is built, measured and recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bisectorch.errors import Unbuildable
from bisectorch.knowledge import Knowledge, Search
from bisectorch.model import (
    Block,
    Build,
    BuildEvent,
    Commit,
    Event,
    Evidence,
    Observation,
    Outcome,
    Probe,
    Purpose,
    Workload,
)
from bisectorch.seams import (
    BlockMeasurer,
    Executor,
    Gauge,
    Measurer,
    Provider,
    Rebuilder,
    Reporter,
)
from bisectorch.sharing import shared_starts


@dataclass(frozen=True)
class Asked:
    """What a search wants to be measured, and the evidence on which it asked."""

    search: Search
    probes: Sequence[Probe]
    evidence: Evidence

    @property
    def seconds(self) -> float:
        """About what it will take, without the ends that tie its blocks to the others."""
        runs = sum(len(probe.positions) * probe.runs for probe in self.probes)
        positions = {x for probe in self.probes for x in probe.positions}
        builds = sum(self.evidence.build_seconds[x] for x in positions)
        return builds + runs * self.evidence.run_seconds


def build_event(commit: Commit, result: Build | Exception, reporter: Reporter) -> BuildEvent:
    """What became of a build, for the log; that it cannot be made is said, too.

    Raises what is no fault of the commit.
    """
    if isinstance(result, Build):
        return BuildEvent(commit.sha, result.route, result.seconds)
    if not isinstance(result, Unbuildable):
        raise result
    reporter.found(f"{commit.sha[:10]} cannot be built: {result.reason}")
    return BuildEvent(commit.sha, None, 0.0, result.reason)


def _least(block: Block) -> int:
    """How many builds the block needs to say anything."""
    return 2 if block.purpose is Purpose.CONFIRM else 1


class Prober:
    """Makes the builds and the blocks; everything goes through ``record``."""

    def __init__(
        self,
        record: Callable[[Event], None],
        knowledge: Knowledge,
        *,
        provider: Provider,
        executor: Executor,
        measurer: Measurer,
        reporter: Reporter,
        gauge: Gauge | None,
        rebuilder: Rebuilder | None,
        sharer: BlockMeasurer | None,
        anchored: bool,
    ) -> None:
        """Take the seams; see ``bisection.bisect`` for what they are.

        ``record`` keeps an event and brings ``knowledge`` up to date.
        """
        self._record = record
        self._knowledge = knowledge
        self._provider = provider
        self._executor = executor
        self._measurer = measurer
        self._reporter = reporter
        self._gauge = gauge
        self._rebuilder = rebuilder
        self._sharer = sharer
        self._anchored = anchored
        self._rebuilt: dict[tuple[str, int], Build] = {}
        self.builds: dict[str, Build] = {}

    def build_seconds(self, search: Search, evidence: Evidence) -> tuple[float, ...]:
        """What a build of each position would cost; 0 where there is none to be made."""
        known = set(evidence.values) | evidence.failed
        return tuple(
            0.0
            if index in known or commit.sha in self.builds
            else self._provider.quote(commit).seconds
            for index, commit in enumerate(search.line)
        )

    def rebuild_seconds(self, search: Search, evidence: Evidence) -> tuple[float, ...]:
        """The quote of one more build of each measured position; empty where there are none.

        Commits that share one native build would get the same layout once more, all of them.
        """
        if self._rebuilder is None or evidence.one_build:
            return ()
        return tuple(
            self._rebuilder.rebuild_quote(
                commit, self._knowledge.next_salt(search.workload, commit.sha)
            ).seconds
            if index in evidence.values and commit.sha not in self._knowledge.not_rebuildable
            else math.inf
            for index, commit in enumerate(search.line)
        )

    def probe(self, asked: Sequence[Asked]) -> None:
        """Build and measure what the searches asked for."""
        salts = [[self._salts(each, probe) for probe in each.probes] for each in asked]
        # All at once, so that they can be made side by side.
        self._obtain(
            [
                each.search.line[index]
                for each, own in zip(asked, salts, strict=True)
                for one in own
                for index, salt in one.items()
                if not salt
            ]
        )
        queues = [
            [
                ready
                for probe, which in zip(each.probes, own, strict=True)
                if (ready := self._ready(each.search, probe, which)) is not None
            ]
            for each, own in zip(asked, salts, strict=True)
        ]
        if self._sharer is None or len(asked) == 1:
            for blocks in queues:
                for block, runs in blocks:
                    self._measure(block, runs)
            return
        rounds = [[block for block, runs in blocks for _ in range(runs)] for blocks in queues]
        for group in shared_starts(rounds):
            self._measure_together(group)

    def _ready(
        self, search: Search, probe: Probe, salts: Mapping[int, int]
    ) -> tuple[Block, int] | None:
        """The probe's block, its builds made, and how many rounds of it; None when too few are."""
        more = [self._rebuild(search.line[x], salt) for x, salt in salts.items() if salt]
        builds = [build for build in more if build is not None]
        if probe.purpose is Purpose.REBUILD and not builds:
            return None
        usual = [index for index, salt in salts.items() if not salt]
        usual += self._anchors(search, probe, usual)
        builds += self._obtain([search.line[index] for index in usual])
        block = Block(search.workload, tuple(builds), "", probe.purpose)
        return (block, probe.runs) if len(builds) >= _least(block) else None

    def _measure(self, block: Block, runs: int) -> None:
        """Rounds of one block, each in fresh processes."""
        builds = self._able(block)
        if len(builds) < _least(block):
            return
        self._look_around(builds[0], block.workload)
        name = str(self._knowledge.events)
        self._note(self._measurer.measure(builds, block.workload, runs, name, block.purpose))

    def _measure_together(self, blocks: Sequence[Block]) -> None:
        """One round of each block, the starts of their builds shared."""
        assert self._sharer is not None
        named = [
            replace(block, builds=self._able(block), name=f"{self._knowledge.events}-{place}")
            for place, block in enumerate(blocks)
        ]
        ready = [block for block in named if len(block.builds) >= _least(block)]
        if len(ready) == 1:
            self._measure(ready[0], 1)
        elif ready:
            self._look_around(ready[0].builds[0], ready[0].workload)
            self._note(self._sharer.measure_in_turn(ready))

    def _able(self, block: Block) -> tuple[Build, ...]:
        """Those builds that did not fail since the block was asked for."""
        failed = [b for b in block.builds if self._knowledge.failure(block.workload, b.sha)]
        return tuple(build for build in block.builds if build not in failed)

    def _look_around(self, build: Build, workload: Workload) -> None:
        """Keep the conditions of the session, once."""
        if self._gauge is not None and not self._knowledge.conditions:
            self._record(self._gauge.conditions(build, workload))

    def _note(self, observations: Iterable[Observation]) -> None:
        """Record what was measured, with the machine's state at each block."""
        name = ""
        for observation in observations:
            self._record(observation)
            blocks = [run.block for run in observation.runs]
            if self._gauge is not None and blocks and blocks != [name]:
                [name] = blocks
                self._record(self._gauge.state(name))
            if observation.outcome is not Outcome.MEASURED:
                self._reporter.found(
                    f"{observation.sha[:10]} {observation.outcome.value}: {observation.reason}"
                )

    def _salts(self, asked: Asked, probe: Probe) -> dict[int, int]:
        """Which build of each of the probe's positions is to be measured."""
        salts = {}
        for index in probe.positions:
            commit = asked.search.line[index]
            if probe.purpose is Purpose.REBUILD:
                salts[index] = self._knowledge.next_salt(asked.search.workload, commit.sha)
            elif self._rebuilder is None or commit.sha in self._knowledge.not_rebuildable:
                salts[index] = 0
            else:
                salts[index] = asked.evidence.build_to_run(index)
        return salts

    def _anchors(self, search: Search, probe: Probe, usual: Sequence[int]) -> list[int]:
        """Both ends of the line, but for those asked for, to tie the block to the others."""
        if not self._anchored or probe.purpose is Purpose.CONFIRM:
            return []
        return [
            end
            for end in (0, len(search.line) - 1)
            if end not in usual and self._knowledge.salts(search.workload, search.line[end].sha)
        ]

    def _obtain(self, commits: Sequence[Commit]) -> list[Build]:
        wanted = {commit.sha: commit for commit in commits}
        missing = [
            commit
            for sha, commit in wanted.items()
            if sha not in self.builds and sha not in self._knowledge.unbuildable
        ]
        if missing:
            quoted = sum(self._provider.quote(commit).seconds for commit in missing)
            self._reporter.progress(f"obtaining {len(missing)} builds (about {quoted:.0f} s)")
        for commit, result in self._executor.build(missing):
            if isinstance(result, Build):
                self.builds[commit.sha] = result
            self._record(build_event(commit, result, self._reporter))
        return [self.builds[commit.sha] for commit in commits if commit.sha in self.builds]

    def _rebuild(self, commit: Commit, salt: int) -> Build | None:
        """The commit's build in this salt's layout; None, and said, where it cannot be made."""
        assert self._rebuilder is not None
        if (commit.sha, salt) not in self._rebuilt:
            quoted = self._rebuilder.rebuild_quote(commit, salt).seconds
            self._reporter.progress(f"building {commit.sha[:10]} again (about {quoted:.0f} s)")
            try:
                build = self._rebuilder.rebuild(commit, salt)
            except Unbuildable as error:
                self._record(BuildEvent(commit.sha, None, 0.0, error.reason, salt))
                self._reporter.found(f"{commit.sha[:10]} cannot be built again: {error.reason}")
                return None
            self._rebuilt[commit.sha, salt] = build
            self._record(BuildEvent(commit.sha, build.route, build.seconds, "", salt))
        return self._rebuilt[commit.sha, salt]
