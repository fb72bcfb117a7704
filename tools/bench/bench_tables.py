"""Hold the tables against what the published accounts and the design say of them.

    python tools/bench/bench_tables.py [A1 A5 B ...] --interpreter TORCH --comparators DYNET

TORCH is an interpreter with torch, by default the one that the tests share; DYNET one with DyNet,
by default a virtual environment that is made once under build/bench. Needs an idle machine: A1
takes half a minute, A5 three, B four. Bars: the labeler's ratio to DyNet between 3 and 8; with
50,000 labels PyTorch on one thread is ahead of DyNet; parameter counts match to the unit; no row
without a figure lacks its reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from bisectorch.tables import NAMES, Bench, Subject, make, save, write  # noqa: E402
from bisectorch.tables.bench import cores_and_threads, default_core  # noqa: E402
from bisectorch.tables.shapes import Form, Kind, Side, Table  # noqa: E402
from rows import BUILD, Rows  # noqa: E402
from torch_env import installation  # noqa: E402

COUNTS = {
    "TCN": 2226899,
    "LSTM": 2284849,
    "Transformer, 4 heads, 4 layers": 575449,
    "keras-tcn (TensorFlow)": 2224899,
}


def dynet() -> str:
    """An interpreter with DyNet, installed once."""
    home = BUILD / "comparators"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, clear=True, with_pip=True)
        wanted = ["dyNET38==2.2", "numpy"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        (home / "complete").touch()
    return str(python)


def cells(table: Table, place: int) -> dict[str, object]:
    """Row -> one of its cells."""
    return {str(row.cells[0]): row.cells[place] for row in table.rows}


def check(table: Table, rows: Rows) -> None:
    """The bars of one table."""
    ours = [place for place, column in enumerate(table.columns) if column.kind is Kind.OURS]
    silent = [row for row in table.rows if any(row.cells[p] is None for p in ours) and not row.why]
    rows.add(f"{table.name}: rows without figure and reason", len(silent), 0, at_least=False)
    if table.name == "A1":
        ratio = cells(table, 4)["PyTorch, OMP_NUM_THREADS=1"] or 0.0
        rows.add("A1: PyTorch on one thread / DyNet", float(str(ratio)), 3, at_least=True)
        rows.add("A1: PyTorch on one thread / DyNet", float(str(ratio)), 8, at_least=False)
        rows.note("A1: PyTorch with all cores / DyNet", str(cells(table, 4)["PyTorch"]))
    elif table.name == "A5":
        ratio = cells(table, 4)["PyTorch, OMP_NUM_THREADS=1"] or float("inf")
        rows.add("A5: 50,000 labels, one thread / DyNet", float(str(ratio)), 1, at_least=False)
    elif table.name == "B":
        for model, count in cells(table, 3).items():
            if model in COUNTS and count is not None:
                difference = abs(int(str(count)) - COUNTS[model])
                rows.add(f"B: parameters of {model}, off by", difference, 0, at_least=False)


def main() -> int:
    """Make the tables, print them to standard error, and hold them to their bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["A1", "A5"])
    parser.add_argument("--interpreter")
    parser.add_argument("--comparators", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    torch = Subject(arguments.interpreter or installation().python)
    comparators = [Subject(path) for path in arguments.comparators or [dynet()]]
    bench = Bench(
        {Side.TORCH: [torch], Side.DYNET: comparators, Side.KERAS: comparators},
        ROOT / "benchmarks",
        rounds=arguments.rounds,
        core=default_core(),
        cores=cores_and_threads({})[0],
        extensions=BUILD / "extensions",
        say=lambda line: print(line, file=sys.stderr),  # noqa: T201
    )
    rows = Rows("tables")
    form = Form.SHORT if arguments.short else Form.FULL
    for name in arguments.names:
        table = make(name, bench, form, None, torch.python)
        write([table], "text", sys.stderr)
        save(table, BUILD / "tables")
        check(table, rows)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
