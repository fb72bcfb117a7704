"""Hold the build ladder against its bars: overlays, compilations, ccache, long histories.

    python tools/bench/bench_ladder.py [--only overlay,run,ccache,history]

Everything is made on the spot: a wheel of 14,000 files, a native history of 60 commits with 20
native fingerprints, histories of 17,000 and 100,000 commits. Figures are wall time where they
say seconds, so run it on an idle machine; ratios are of work done in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from bisectorch.build import Ladder, Places, Recipe, Step, Store, overlay  # noqa: E402
from bisectorch.build.unpack import unpack  # noqa: E402
from bisectorch.history import GitHistory  # noqa: E402
from bisectorch.model import TreeFile  # noqa: E402
from minihistory import MiniRepo, make_wheel  # noqa: E402
from nativehistory import (  # noqa: E402
    NativeHistory,
    header,
    ops,
    path_classes,
    start,
    write_native_project,
)
from rows import Rows  # noqa: E402

FILES, MODULES, LAID = 14_000, 3_000, 20
"""A torch-sized wheel, how many of its files are Python, and how many of them a commit changes."""

COMMITS, FINGERPRINTS = 60, 20
UNITS = 20


def bench_overlay(rows: Rows, scratch: Path) -> None:
    """Lay a commit over a torch-sized tree, against asv's uninstall and install of the wheel."""
    note(f"a wheel of {FILES} files")
    wheel = make_wheel(scratch, "sized", "1.0", sized_files())
    base = scratch / "base"
    base.mkdir()
    unpack(wheel, base)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", base], check=True)
    chosen = random.Random(4).sample([f for f in sized_files() if f.endswith(".py")], LAID)
    files = [TreeFile(path, "100644", path) for path in chosen]
    contents = dict.fromkeys(chosen, b"CHANGED = 1\n")
    times = []
    for index in range(7):
        tree = scratch / f"overlay-{index}"
        tree.mkdir()
        started = time.perf_counter()
        overlay.lay(base, tree, files, contents, python=sys.executable, date_seconds=0)
        times.append(time.perf_counter() - started)
    laid = statistics.median(times)
    rows.add(f"seconds to overlay {LAID} files on {FILES}", laid, 0.3, at_least=False)

    note("asv's uninstall and install of the same wheel")
    subprocess.run([sys.executable, "-m", "venv", scratch / "env"], check=True)
    pip = [str(scratch / "env" / "bin" / "python"), "-m", "pip"]
    install = [*pip, "install", "-q", "--force-reinstall", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    again = []
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run([*pip, "uninstall", "-q", "-y", "sized"], check=True)
        subprocess.run(install, check=True)
        again.append(time.perf_counter() - started)
    rows.add("times faster than asv's uninstall + install", min(again) / laid, 50, at_least=True)


def sized_files() -> dict[str, str]:
    """As torch: hundreds of directories of modules, very many headers; none larger than there.

    torch 2.13's modules hold some 20 KB on the average, its headers some 4 KB; what it compiled,
    which an installation has to copy and an overlay has not, is left out.
    """
    files = {"sized/__init__.py": ""}
    for index in range(MODULES - 1):
        folder = f"sized/part{index % 15}/sub{index % 300}"
        files[f"{folder}/module{index}.py"] = "def function(x):\n    return x + 1\n\n\n" * 150
    for index in range(FILES - MODULES):
        files[f"sized/include/part{index % 40}/header{index}.h"] = "int declared(int);\n" * 200
    return files


def unit(index: int, version: int) -> dict[str, str]:
    """One C file, with enough in it to compile."""
    body = "".join(
        f"double f{index}_{n}(double *x, int n) {{ double s = {version}; for (int i = 0; i < n;"
        f" i++) s += x[i] * {n} + s / (x[i] + {n + 1}); return s; }}\n"
        for n in range(30)
    )
    return {f"csrc/unit{index}.c": body}


def long_story(root: Path) -> NativeHistory:
    """60 commits of 20 native fingerprints: each is followed by two that are Python only."""
    story = NativeHistory(MiniRepo(root / "repo"))
    first = start(UNITS)
    first["setup.py"] = first["setup.py"].replace('"-O1"', '"-O2"')
    first["csrc/tally.h"] = "#define TALLY 0\n"
    for index in range(UNITS):
        first.update(unit(index, 0))
    story.add("0", 100, first)
    for index in range(1, COMMITS):
        if index % 3 == 0:
            changed = {**unit(index % UNITS, index), **header(100 + index)}
        else:
            changed = ops(index)
        story.add(str(index), None, changed)
    return story


def bench_run(rows: Rows, scratch: Path) -> None:
    """``asv run`` over the native history, with our environment and with asv's own."""
    story = long_story(scratch)
    classes = path_classes()
    line = GitHistory(story.repo.path, classes).range(story.range).line
    assert len({commit.fingerprint for commit in line}) == FINGERPRINTS
    first, *_, last = (commit.sha for commit in line)
    seconds, results = {}, {}
    for kind in ("bisectorch", "virtualenv"):
        folder = scratch / kind
        config = write_native_project(folder, story, scratch / "store", environment_type=kind)
        # Making the environment is no part of a range; its first commit's build is left out too.
        asv(folder, config, "setup")
        note(f"asv run over {COMMITS} commits with environment_type {kind}")
        started = time.perf_counter()
        asv(folder, config, "run", f"{first}..{last}", "-m", "m", "--launch-method", "spawn")
        seconds[kind] = time.perf_counter() - started
        results[kind] = stored(folder)
    made = len(list((scratch / "store" / "trees").glob("*/*/manifest.json")))
    rows.add(f"compilations for {COMMITS} commits", made, FINGERPRINTS, at_least=False)
    ratio = seconds["virtualenv"] / seconds["bisectorch"]
    rows.add("asv run, times faster than stock asv", ratio, 3, at_least=True)
    same = sum(
        results["bisectorch"].get(sha) == value for sha, value in results["virtualenv"].items()
    )
    rows.add("commits with the same result as stock asv", same, COMMITS - 1, at_least=True)


def asv(folder: Path, config: Path, *arguments: str) -> None:
    """Plain asv, as a person of its own."""
    machine = {"machine": "m", "os": "", "arch": "", "cpu": ""}
    (folder / ".asv-machine.json").write_text(json.dumps({"version": 1, "m": machine}))
    environment = {**os.environ, "HOME": str(folder), "BISECTORCH_STORE": ""}
    environment.setdefault("PYENV_ROOT", str(Path.home() / ".pyenv"))
    done = subprocess.run(
        [sys.executable, "-m", "asv", *arguments, "--config", str(config)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # `asv setup` ends with a list in the place of a status.
    if done.returncode and arguments[0] != "setup":
        raise SystemExit(f"asv {arguments[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def stored(folder: Path) -> dict[str, object]:
    """What asv stored: commit to value."""
    found = {}
    for path in (folder / "results" / "m").glob("*-*.json"):
        content = json.loads(path.read_text())
        [result] = (each[0] for each in content["results"].values())
        found[content["commit_hash"]] = result[0] if result else None
    return found


def bench_ccache(rows: Rows, scratch: Path) -> None:
    """A second native build after a change of one file of many."""
    if not shutil.which("ccache"):
        note("ccache is not installed: its row is left out")
        return
    story = long_story(scratch)
    history = GitHistory(story.repo.path, path_classes())
    store = Store(scratch / "store")

    def steps(places: Places) -> list[Step]:
        wheels = str(places.build_cache_dir)
        return [Step(("python", "setup.py", "-q", "bdist_wheel", "-d", wheels))]

    recipe = Recipe(story.repo.path, Path(sys.executable), steps, ("setup.py",))
    ladder = Ladder(
        history, store, sys.executable, {}, None, history.classes.is_python, note, recipe=recipe
    )
    environment = {**os.environ, "CCACHE_DIR": str(store.root / "builders" / "ccache")}
    os.environ.pop("CCACHE_DIR", None)
    note("two native builds, one C file between them")
    ladder.provide(history.commit("main"))
    subprocess.run(["ccache", "-z"], env=environment, check=True, stdout=subprocess.DEVNULL)
    (changed,) = [story.repo.commit("one file", unit(3, 99))]
    ladder.provide(history.commit(changed))
    told = subprocess.run(
        ["ccache", "--print-stats"], env=environment, check=True, capture_output=True, text=True
    ).stdout
    counts = dict(line.split("\t")[:2] for line in told.splitlines())
    hits = int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])
    share = 100 * hits / (hits + int(counts["cache_miss"]))
    rows.add("ccache hits after a one-file change, %", share, 90, at_least=True)


READ = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
from bisectorch.history import GitHistory, PathClasses
started = time.perf_counter()
line = GitHistory(sys.argv[2], PathClasses(), "main").range("ALL").line
seconds = time.perf_counter() - started
children, own = (resource.getrusage(who).ru_maxrss
                 for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
print(len(line), seconds, own / 1024, children / 1024)
"""


def bench_history(rows: Rows, scratch: Path) -> None:
    """Class and fingerprint every commit of a long history."""
    for commits, most_seconds in ((17_000, 4), (100_000, 20)):
        note(f"a history of {commits} commits")
        path = scratch / f"history-{commits}"
        import_history(path, commits)
        reads = []
        for _ in range(3):
            command = [sys.executable, "-c", READ, str(ROOT / "tools"), str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            reads.append([float(word) for word in done.stdout.split()])
        assert all(read[0] == commits for read in reads)
        what = f"seconds to class and fingerprint {commits} commits"
        rows.add(what, min(read[1] for read in reads), most_seconds, at_least=False)
        if commits == 100_000:
            megabytes = max(read[2] for read in reads)
            rows.add("... MiB of the tracker's memory", megabytes, 500, at_least=False)
            git = max(read[3] for read in reads)
            rows.add("... MiB of git's memory beside it", git, 500, at_least=False)


def import_history(path: Path, commits: int) -> None:
    """Write a linear history over 8,100 files like PyTorch's, the same on every machine."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
    kinds = {
        "torch/nn/modules": "py", "torch/csrc/autograd": "cpp", "aten/src/ATen/native": "cpp",
        "docs/source": "rst", "test": "py", "torch/utils": "py", "c10/core": "h",
        "torch/distributed": "py", "aten/src/ATen/native/cuda": "cu",
    }  # fmt: skip
    files = [f"{d}/sub{i % 20}/file{i}.{end}" for d, end in kinds.items() for i in range(900)]
    choose = random.Random(1)
    command = ["git", "-C", str(path), "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for index in range(commits):
            few = 1 + min(20, int(choose.expovariate(0.3)))
            text = f"Change {index}\n\nWith a body.\n"
            who = f"A B <a@b> {1_500_000_000 + 60 * index} +0000"
            lines = [
                f"commit refs/heads/main\nmark :{index + 1}\nauthor {who}\ncommitter {who}\n",
                f"data {len(text)}\n{text}",
                f"from :{index}\n" if index else "",
            ]
            for name in choose.sample(files, few) if index else files:
                data = f"{index} {name}\n"
                lines.append(f"M 100644 inline {name}\ndata {len(data)}\n{data}")
            process.stdin.write("".join(lines).encode())
    if process.returncode:
        raise SystemExit("git fast-import failed")


def note(text: str) -> None:
    """Say on standard error what is being done."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


PARTS: dict[str, Callable[[Rows, Path], None]] = {
    "overlay": bench_overlay,
    "run": bench_run,
    "ccache": bench_ccache,
    "history": bench_history,
}


def main() -> int:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS))
    wanted = parser.parse_args().only.split(",")
    rows = Rows("ladder")
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix=f"ladder-{name}-") as scratch:
            PARTS[name](rows, Path(scratch))
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
