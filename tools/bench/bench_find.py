"""``asv find`` and ``bisectorch bisect`` on the same replay, same machine, one after the other.

    python tools/bench/bench_find.py [DIR]

DIR is a replay (``bisectorch replay DIR``); by default one is written beside the bars. Both are
asked for one workload, nn.Linear's forward and backward; the truth is the replay's
expected.json, which neither of them reads. Needs some minutes of an otherwise idle machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from rows import BUILD, Rows

WORKLOAD = "linear.Linear.time_forward_backward(1, 10)"
PATTERN = r"linear\.Linear\.time_forward_backward\(1, 10\)"
BIN = Path(sys.executable).parent


def main() -> int:
    """Run both, compare with the truth, print the rows."""
    directory = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else BUILD / "find"
    subprocess.run([BIN / "bisectorch", "replay", directory], check=True)
    config = directory / "asv.conf.json"
    expected = json.loads((directory / "expected.json").read_text())
    truths = expected["workloads"][WORKLOAD]
    # Both start from the same store: the base wheel is installed, nothing else is.
    run(config, "bisect", expected["null_range"], "-b", PATTERN, "--budget", "60s", "--dry-run")

    seconds, find = run(config, "find", expected["range"], f"^{re.escape(WORKLOAD)}$")
    named = re.search(r"Greatest regression found: ([0-9a-f]{8})", find)
    found_by_find = named.group(1) if named else ""
    builds_by_find = len(set(re.findall(r"commit ([0-9a-f]{8})", find)))

    ours_seconds, report = run(
        config, "bisect", expected["range"], "-b", PATTERN, "--format", "json"
    )
    ours = json.loads(report)
    culprits = ours["workloads"][0]["culprits"]
    right = [t for t in truths if any(t["commit"] in c["credible_set"] for c in culprits)]
    wrong = [c for c in culprits if not any(t["commit"] in c["credible_set"] for t in truths)]

    rows = Rows("find")
    lines = {t[key][:8] for t in truths for key in ("commit", "merge") if t[key]}
    rows.note("asv find named", found_by_find or "nothing (it stopped)")
    rows.note("asv find, last line", find.strip().splitlines()[-1][:70])
    rows.note("asv find, commits measured", str(builds_by_find))
    rows.note("asv find, seconds", f"{seconds:.0f}")
    rows.note("ours, builds", str(ours["cost"]["builds"]))
    rows.note("ours, runs", str(ours["cost"]["runs"]))
    rows.note("ours, seconds", f"{ours_seconds:.0f}")
    for truth in truths:
        name = truth["commit"][:8]
        rows.note(f"{truth['kind']} {name}", "named" if truth in right else "not named")
    rows.add(f"ours: truths named, of {len(truths)}", len(right), len(truths), at_least=True)
    rows.add("ours: named without a truth", len(wrong), 0, at_least=False)
    rows.add(
        "truths named more than asv find",
        len(right) - (found_by_find in lines),
        1,
        at_least=True,
    )
    return rows.finish()


def run(config: Path, *arguments: str) -> tuple[float, str]:
    """One command: seconds, and what it printed."""
    began = time.monotonic()
    done = subprocess.run(
        [BIN / "bisectorch", *arguments, "--config", config],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    is_asv = arguments[0] == "find"
    return seconds, (done.stderr + done.stdout) if is_asv else done.stdout


if __name__ == "__main__":
    sys.exit(main())
