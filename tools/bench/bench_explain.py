"""Whether explanations, on the replay, name what really changed, and how much they explain.

    python tools/bench/bench_explain.py [DIR] [-b REGEX]

DIR is a replay (``bisectorch replay DIR``); by default one is written beside the bars. For every
truth of its expected.json the commit is compared with the nearest one before it that can be
imported, on the workloads that REGEX matches and on which the truth shows. What really changed is
written down here, function by function, from the replay's story, which no explanation reads.
Two workloads, the default, take some four minutes of an otherwise idle machine; all of them (-b .)
take half an hour.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rows import BUILD, Rows

BIN = Path(sys.executable).parent
DEFAULT = (
    "linear.Linear.time_forward(1, 10)",
    "linear.Linear.time_forward_backward(1, 10)",
)
LEAST_EXPLAINED = 0.7
FARTHEST = 5

MODULE = "torch/nn/modules/linear.py"
FUNCTION = "torch/nn/_functions/linear.py"
BLAS = "torch/nn/_functions/blas.py"
MATMUL = "torch/nn/_functions/matmul.py"
CHECKS = "torch/nn/_functions/checks.py"
REALLY_CHANGED = {
    "added twice differentiation for a bunch of ops": {
        (MODULE, "Linear.forward"),
        (FUNCTION, "Linear.forward"),
        (FUNCTION, "Linear.backward"),
    },
    "Hand on contiguous gradients in nn.Linear": {(FUNCTION, "Linear.backward")},
    'Revert "Hand on contiguous gradients in nn.Linear"': {(FUNCTION, "Linear.backward")},
    "Use torch.matmul in nn.Linear": {
        (MODULE, "Linear.forward"),
        (FUNCTION, "Linear.forward"),
        (FUNCTION, "Linear.backward"),
        (MATMUL, "matmul"),
        (MATMUL, "AddRow.forward"),
        (MATMUL, "AddRow.backward"),
    },
    "Check shapes and types in the matrix functions": {
        (BLAS, "Transpose.forward"),
        (BLAS, "Product.forward"),
        (BLAS, "Product.backward"),
        (BLAS, "RowSum.forward"),
        (MATMUL, "AddRow.backward"),
        (CHECKS, "conform"),
        (CHECKS, "like"),
        (CHECKS, "matrix"),
    },
    "Transpose, multiply and add in one function": {
        (MODULE, "Linear.forward"),
        (MATMUL, "matmul"),
        (MATMUL, "affine"),
        (MATMUL, "AddRow.forward"),
        (MATMUL, "AddRow.backward"),
        (MATMUL, "AddProduct.forward"),
        (MATMUL, "AddProduct.backward"),
    },
    "Move the functions behind nn.Linear to C++": {
        (MODULE, "Linear.forward"),
        (MATMUL, "affine"),
        (MATMUL, "AddProduct.forward"),
        (MATMUL, "AddProduct.backward"),
    },
}


def main() -> int:
    """Explain every truth, compare with what really changed, print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, nargs="?", default=BUILD / "explain")
    parser.add_argument("-b", "--bench", help="Workloads, as a regular expression.")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    if not (directory / "expected.json").exists():
        subprocess.run([BIN / "bisectorch", "replay", directory], check=True)
    expected = json.loads((directory / "expected.json").read_text())["workloads"]
    workloads = [
        name
        for name in expected
        if (re.search(arguments.bench, name) if arguments.bench else name in DEFAULT)
    ]

    rows = Rows("explain")
    right = asked = 0
    least, seconds = 1.0, []
    for commit in dict.fromkeys(truth["commit"] for name in workloads for truth in expected[name]):
        shown = [n for n in workloads if any(t["commit"] == commit for t in expected[n])]
        subject = git(directory, "log", "-1", "--format=%s", commit)
        began = time.monotonic()
        found = explain(directory, commit, shown)
        seconds.append((time.monotonic() - began) / len(shown))
        for name in shown:
            asked += 1
            explanation = found.get(name, {})
            first = (explanation.get("causes") or [{}])[0]
            is_right = (first.get("path"), first.get("name")) in REALLY_CHANGED[subject]
            right += is_right
            share = explanation.get("explained", 0.0)
            least = min(least, share)
            told = first.get("name") or explanation.get("reason", "no explanation")
            mark = "" if is_right else " (wrong)"
            rows.note(f"{subject[:38]}, {name[7:]}", f"{told}{mark}, {share:.0%}")
    rows.note("seconds an explanation", f"{max(seconds, default=0):.0f} at most")
    rows.add(f"first cause really changed, of {asked}", right, asked, at_least=True)
    rows.add("share explained, the least", least, LEAST_EXPLAINED, at_least=True)
    return rows.finish()


def explain(directory: Path, commit: str, workloads: list[str]) -> dict[str, Any]:
    """Explanations by workload, against the nearest earlier commit that can be imported."""
    pattern = "^(" + "|".join(re.escape(name) for name in workloads) + ")$"
    report: dict[str, Any] = {}
    for back in range(1, FARTHEST):
        done = subprocess.run(
            [
                *(BIN / "bisectorch", "explain", f"{commit}~{back}", commit, "-b", pattern),
                *("--format", "json", "--config", directory / "asv.conf.json"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1, 3):
            raise SystemExit(done.stderr)
        report = {each["workload"]: each for each in json.loads(done.stdout)["explanations"]}
        if not any("while importing" in each["reason"] for each in report.values()):
            break
    return report


def git(directory: Path, *arguments: str) -> str:
    """What git says of the replay's repository."""
    done = subprocess.run(
        ["git", "-C", directory / "repo", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
