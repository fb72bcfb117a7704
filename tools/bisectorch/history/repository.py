"""A git repository as a history: GitPython underneath, one streamed log for a range."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from bisectorch.errors import BisectorchError, EnvironmentFailure, UsageError
from bisectorch.history.classes import PathClasses
from bisectorch.history.fingerprint import Fingerprint
from bisectorch.history.ranges import Between, Dated, Listed, date_in, parse
from bisectorch.history.rawlog import ABSENT, FORMAT, Entry, read_log
from bisectorch.model import Commit, CommitRange, PathClass, TreeFile

# GitPython looks for git when it is imported; a missing git must be our error, not its traceback.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import git

# What a user's own configuration could change in the output that we read.
_PLAIN = (
    *("-c", "core.quotePath=false"),
    *("-c", "log.showSignature=false"),
    *("-c", "log.showRoot=true"),
    *("-c", "log.mailmap=false"),
    *("-c", "diff.orderFile=/dev/null"),
    *("-c", "diff.relative=false"),
)
_LOG = (
    *("log", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-color", "--no-show-signature"),
    *("--no-notes", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
    *("--first-parent", "--diff-merges=first-parent", "--encoding=UTF-8", f"--format={FORMAT}"),
)
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NOW_SECONDS = 5
_SHALLOW = "this clone is shallow, try: git fetch --unshallow"


class GitHistory:
    """The commits and tracked files of one repository; safe to use from several threads.

    Args:
        repo_path: a work tree or a bare repository (asv's mirror is one).
        classes: how its files are divided.
        branch: what ``ALL`` and ``--since`` are about when they name nothing.

    Raises:
        UsageError: ``repo_path`` is not a git repository.
        EnvironmentFailure: git is not installed.
    """

    def __init__(
        self, repo_path: Path | str, classes: PathClasses, branch: str | None = None
    ) -> None:
        self.classes = classes
        self._branch = branch or "HEAD"
        try:
            self._repo = git.Repo(repo_path)
        except (git.InvalidGitRepositoryError, git.NoSuchPathError, ValueError) as error:
            raise UsageError(
                f"{repo_path} is not a git repository: point `repo` in asv.conf.json at one"
            ) from error
        except git.GitCommandNotFound as error:
            raise _no_git() from error

    def range(self, spec: str) -> CommitRange:
        """Resolve a range along first parents, FROM first.

        ``FROM..TO``: either side may be any name git knows (tag, branch, short object name) or
        ``NAME@{DATE}``, the newest commit of that name's line no later than the date; an empty
        one is HEAD. ``--since=DATE [--until=DATE] [NAME]``: FROM is the last commit before.
        ``ALL``: the branch from its first commit. ``HASHFILE:FILE``: the commits that the file
        names, on one line; what lies between two of them counts as one change.

        UsageError, one line that says what to write instead, when the range names nothing, is
        reversed, holds one commit, or does not run along first parents.
        """
        form = parse(spec)
        if isinstance(form, Listed):
            return CommitRange(spec, self._listed(form.file))
        if isinstance(form, Between):
            start, end = self._ends(spec, form)
        elif isinstance(form, Dated):
            end = self._last_before(form.name or self._branch, form.until)
            first = self._last_before(end, form.since, missing_is_root=True)
            start = self._distinct(spec, first, end)
        else:
            end = self._resolve(self._branch)
            start = self._distinct(spec, self._root(end), end)
        return CommitRange(spec, self._line(spec, start, end))

    def _line(self, spec: str, start: str, end: str) -> tuple[Commit, ...]:
        entries = self._log([f"{start}..{end}", "--reverse"])
        first = next(entries)
        if first.parents[:1] != (start,):
            held = (first.parents or (first.sha,))[0]
            better = f"{held[:10]}..{spec.partition('..')[2] or 'HEAD'}"
            raise UsageError(
                f"FROM of {spec!r} came into TO by a merge and is not on its first-parent line; "
                f"start at the newest commit of that line which FROM holds: {better}"
            )
        baseline = self._log([start, "--max-count=1"])
        return self._commits(itertools.chain(baseline, [first], entries))

    def _listed(self, file: str) -> tuple[Commit, ...]:
        """The commits that a file names, each with all that changed since the one before."""
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"HASHFILE:{file} cannot be read: {error.strerror}") from error
        wanted = {self._resolve(line.strip()) for line in text.splitlines() if line.strip()}
        if len(wanted) < 2:
            raise UsageError(f"HASHFILE:{file} must name two commits or more, one a line")
        with tempfile.TemporaryFile() as names:
            names.write("".join(f"{sha}\n" for sha in sorted(wanted)).encode("ascii"))
            names.seek(0)
            with self._stream(["rev-list", "--topo-order", "--stdin"], names) as output:
                tip = output.readline().decode("ascii").strip()
                output.read()
        missing = set(wanted)
        with self._stream(["rev-list", "--first-parent", tip]) as output:
            for raw in output:
                oldest = raw.decode("ascii").strip()
                missing.discard(oldest)
                if not missing:
                    # git must not find its output closed: that would be a fault of its own.
                    output.read()
                    break
        if missing:
            raise UsageError(
                f"HASHFILE:{file} names {min(missing)[:10]}, which is not on the first-parent "
                f"line of {tip[:10]}: the commits of a range must lie on one line"
            )
        kept: list[Commit] = []
        paths: dict[str, None] = {}
        for commit in self._line(f"{oldest}..{tip}", oldest, tip):
            paths.update(dict.fromkeys(commit.paths))
            if commit.sha in wanted:
                strongest = self.classes.strongest(paths)
                kept.append(replace(commit, paths=tuple(paths), path_class=strongest))
                paths.clear()
        return tuple(kept)

    def _last_before(self, name: str, date: str | None, *, missing_is_root: bool = False) -> str:
        """The newest commit on the name's first-parent line no later than the date."""
        tip = self._resolve(name)
        if date is None:
            return tip
        limit = self._ask("rev-parse", f"--since={date}")[1].partition("=")[2]
        if not limit.isdigit() or (
            # What git cannot read as a date it takes for the present.
            abs(time.time() - int(limit)) < _NOW_SECONDS
            and date.strip().lower() not in ("now", "today")
        ):
            raise UsageError(f"{date!r} is not a date; write 2017-05-01, or '2 weeks ago'")
        found = self._ask("rev-list", "-1", "--first-parent", f"--min-age={limit}", tip)[1]
        if found:
            return found
        if missing_is_root:
            return self._root(tip)
        raise UsageError(f"nothing was committed to {name} by {date}; its history begins later")

    def _root(self, tip: str) -> str:
        if self.is_shallow:
            raise UsageError(
                f"the first commit of {tip[:10]} is not here: {_SHALLOW}, or name a FROM that is"
            )
        with self._stream(["rev-list", "--first-parent", "--max-parents=0", tip]) as output:
            return str(output.read().decode("ascii").split()[0])

    def fork(self, name: str, branch: str) -> str | None:
        """Where a commit's own line left the branch; None where they share nothing."""
        status, found, _ = self._ask("merge-base", self._resolve(name), self._resolve(branch))
        return found if status == 0 else None

    @property
    def is_shallow(self) -> bool:
        """Whether commits were left out when the repository was cloned."""
        return self._ask("rev-parse", "--is-shallow-repository")[1] == "true"

    def _distinct(self, spec: str, start: str, end: str) -> str:
        if start == end:
            raise UsageError(f"{spec!r} holds one commit, {end[:10]}: choose a longer range")
        return start

    def commit(self, name: str) -> Commit:
        """One commit by any name git knows; UsageError when there is none."""
        [commit] = self._commits(self._log([self._resolve(name), "--max-count=1"]))
        return commit

    def tags(self) -> dict[str, tuple[str, ...]]:
        """For each tagged commit the names of its tags."""
        form = "--format=%(objectname) %(*objectname) %(refname:strip=2)"
        found: dict[str, tuple[str, ...]] = {}
        with self._stream(["for-each-ref", form, "refs/tags"]) as output:
            for raw in output:
                *names, tag = raw.decode("utf-8", "replace").rstrip("\n").split(" ")
                # An annotated tag's second name is what it stands for.
                sha = next(name for name in reversed(names) if name)
                found[sha] = (*found.get(sha, ()), tag)
        return found

    def side_branch(self, merge: Commit) -> tuple[Commit, ...]:
        """The line that ``merge`` brought in: where it forked off, then its commits, oldest first.

        It runs along first parents from the second parent back to the commit it forked from,
        which is the merge base unless the main line was merged into the side meanwhile (those
        merges are then commits of the line). Empty where the two share no history; UsageError
        when ``merge`` has one parent.
        """
        if len(merge.parents) < 2:
            raise UsageError(f"{merge.sha[:10]} is not a merge: it has no side branch")
        first, second = merge.parents[:2]
        line = list(self._log([f"{first}..{second}", "--reverse"]))
        if not line or not line[0].parents:
            return ()
        base = self._log([line[0].parents[0], "--max-count=1"])
        return self._commits([*base, *line])

    def files(self, sha: str) -> tuple[TreeFile, ...]:
        """Every tracked file of the commit, by path; a submodule is one entry of mode 160000.

        Paths hold undecodable bytes as surrogates, as ``os.fsdecode`` does.
        """
        with self._stream(["ls-tree", "-r", "-z", "--full-tree", sha]) as output:
            records = output.read().split(b"\0")[:-1]
        files = []
        for record in records:
            about, _, path = record.partition(b"\t")
            mode, _kind, blob = about.decode("ascii").split()
            files.append(TreeFile(path.decode("utf-8", "surrogateescape"), mode, blob))
        return tuple(files)

    def contents(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each blob's bytes; EnvironmentFailure when the repository lacks one."""
        # A file, not a pipe: git would stop reading names while we do not read its output.
        with tempfile.TemporaryFile() as names:
            names.write("".join(f"{blob}\n" for blob in blobs).encode("ascii"))
            names.seek(0)
            with self._stream(["cat-file", "--batch"], names) as output:
                while header := output.readline():
                    blob, *about = header.decode("utf-8", "replace").split()
                    if len(about) != 2:
                        raise EnvironmentFailure(
                            f"object {blob} is missing from {self._repo.git_dir}: "
                            "the clone is incomplete; fetch it again"
                        )
                    size = int(about[1])
                    data = output.read(size)
                    output.read(1)
                    if len(data) != size:
                        raise EnvironmentFailure(f"git stopped in the middle of object {blob}")
                    yield blob, data

    def _ends(self, spec: str, form: Between) -> tuple[str, str]:
        """The object names of FROM and TO, TO being a later commit of the same history."""
        left, right = form.left, form.right
        start, end = self._resolve(left or "HEAD"), self._resolve(right or "HEAD")
        if start == end:
            raise UsageError(
                f"{spec!r} holds one commit, {start[:10]}: name an older FROM or a newer TO"
            )
        if self._is_ancestor(end, start):
            swapped = f"{right or 'HEAD'}..{left or 'HEAD'}"
            raise UsageError(f"{spec!r} is reversed: FROM comes first, write {swapped}")
        if not self._is_ancestor(start, end):
            _, base, _ = self._ask("merge-base", start, end)
            advice = f"they part at {base[:10]}, write {base[:10]}..{right or 'HEAD'}"
            raise UsageError(
                f"FROM of {spec!r} is not an ancestor of TO: "
                + (advice if base else "the two share no history")
            )
        return start, end

    def _resolve(self, name: str) -> str:
        if name.startswith("-"):
            raise UsageError(
                f"{name!r} looks like an option, not like a commit; "
                f"a tag of that name is refs/tags/{name}"
            )
        dated = date_in(name)
        if dated:
            return self._last_before(*dated)
        status, found, error = self._ask("rev-parse", "--verify", f"{name}^{{commit}}")
        if status or not _OBJECT_NAME.fullmatch(found):
            if "is ambiguous" in error:
                hint = "more than one object starts like this: give more digits"
            elif self.is_shallow:
                hint = _SHALLOW
            else:
                hint = "try: git fetch --tags"
            raise UsageError(f"no commit is named {name!r} in {self._repo.git_dir} ({hint})")
        return found

    def _is_ancestor(self, older: str, newer: str) -> bool:
        return self._ask("merge-base", "--is-ancestor", older, newer)[0] == 0

    def _commits(self, entries: Iterable[Entry]) -> tuple[Commit, ...]:
        """Class and fingerprint of a line of commits; the tree of the first is read whole."""
        commits: list[Commit] = []
        fingerprint = Fingerprint()
        for entry in entries:
            if not commits:
                for file in self.files(entry.sha):
                    if self._is_native(file.path):
                        fingerprint.add(file.path, file.mode, file.blob)
            else:
                for change in entry.changes:
                    if self._is_native(change.path):
                        if change.old_mode != ABSENT:
                            fingerprint.remove(change.path, change.old_mode, change.old_blob)
                        if change.mode != ABSENT:
                            fingerprint.add(change.path, change.mode, change.blob)
            commits.append(
                Commit(
                    sha=entry.sha,
                    parents=entry.parents,
                    author=entry.author,
                    date_seconds=entry.date_seconds,
                    subject=entry.subject,
                    paths=tuple(_printable(change.path) for change in entry.changes),
                    path_class=self.classes.strongest(change.path for change in entry.changes),
                    fingerprint=str(fingerprint),
                )
            )
        return tuple(commits)

    def _is_native(self, path: str) -> bool:
        return self.classes.classify(path) is PathClass.NATIVE

    def _log(self, arguments: Sequence[str]) -> Iterator[Entry]:
        with self._stream([*_LOG, *arguments, "--"]) as output:
            yield from read_log(output)

    def _ask(self, *arguments: str) -> tuple[int, str, str]:
        """Status, output and errors of one short command."""
        with self._run(arguments) as process:
            output, errors = process.proc.communicate()
            return process.proc.returncode, _text(output).strip(), _text(errors)

    @contextlib.contextmanager
    def _stream(
        self, arguments: Sequence[str], stdin: IO[bytes] | None = None
    ) -> Iterator[IO[bytes]]:
        """The output of one git command; its failure is one clear line."""
        with self._run(arguments, stdin) as process:
            errors: list[bytes] = []
            drain = threading.Thread(target=lambda: errors.append(process.proc.stderr.read()))
            drain.start()
            failure: BisectorchError | None = None
            try:
                yield process.proc.stdout
            except BisectorchError as error:
                failure = error
            finally:
                process.proc.stdout.close()
                status = process.proc.wait()
                drain.join()
            said = _telling(_text(errors[0])) if status > 0 else ""
            if said:
                raise EnvironmentFailure(f"git in {self._repo.git_dir}: {said}") from failure
            if failure:
                raise failure

    @contextlib.contextmanager
    def _run(self, arguments: Sequence[str], stdin: IO[bytes] | None = None) -> Iterator[Any]:
        # The option, because a GIT_DIR in the user's environment would win over the directory.
        command = ["git", f"--git-dir={self._repo.git_dir}", *_PLAIN, *arguments]
        try:
            execute: Any = self._repo.git.execute
            process = execute(command, istream=stdin, as_process=True)
        except git.GitCommandNotFound as error:
            raise _no_git() from error
        try:
            yield process
        finally:
            for pipe in (process.proc.stdout, process.proc.stderr):
                pipe.close()


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _telling(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (telling or lines or [""])[0]


def _no_git() -> EnvironmentFailure:
    return EnvironmentFailure("git was not found: install it, or put it on the PATH")
