"""`bisectorch tables` as a person meets it: on a real torch, and asked for what is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import fakeworkloads
import pytest
from bisectorch.asv_plugin.cli import main
from bisectorch.asv_plugin.interpreters import find_python
from bisectorch.replay import write_replay
from bisectorch.tables.bench import Bench, Subject
from bisectorch.tables.catalogue import NAMES
from bisectorch.tables.shapes import Side, job

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(tmp_path):
    """A function: arguments -> exit code, output, errors; in an empty directory."""

    def start(*arguments, **variables):
        environment = {
            **os.environ,
            "BISECTORCH_STORE": str(tmp_path / "store"),
            "HOME": str(tmp_path),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        for name in ("PYTHONPATH", "BISECTORCH_COMPARATORS"):
            if name not in variables:
                environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "bisectorch", "tables", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return start


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["A9"], "there is no table 'A9'; there are: A1"),
        (["A1", "--rounds", "0"], "--rounds must be 1 or more"),
        (["A1", "--core", "4096"], "there is no core 4096 to use here"),
        (["A4", "--session", "none"], "no session 'none'"),
        (["A4", "--commit", "main"], "No `asv.conf` file found"),
        (["A4", "--session", "a", "--bisect", "b..c"], "No `asv.conf` file found"),
    ],
)
def test_requests_that_cannot_be_served(arguments, told, tmp_path, monkeypatch, capsys):
    """One line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert main(["tables", *arguments]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert told in errors


def test_an_interpreter_that_is_not_there(tmp_path, monkeypatch, capsys):
    """One line and exit code 4."""
    monkeypatch.chdir(tmp_path)
    assert main(["tables", "A4", "--short", "--interpreter", str(tmp_path / "python9")]) == 4
    output, errors = capsys.readouterr()
    assert output == ""
    assert "cannot start" in errors


def test_an_interpreter_without_torch(run):
    """All tables are there, and every row says why it has no figure of ours."""
    code, output, errors = run(
        "--short", "--format", "json", "--interpreter", sys.executable, OMP_NUM_THREADS="999"
    )
    assert code == 0
    tables = json.loads(output)["tables"]
    assert [table["name"] for table in tables] == list(NAMES)
    for table in tables:
        ours = [n for n, column in enumerate(table["columns"]) if column["kind"] == "ours"]
        for row in table["rows"]:
            assert all(row["cells"][place] is None for place in ours)
            assert row["why"]
    assert "PyTorch is not installed" in tables[0]["rows"][1]["why"]
    assert "OMP_NUM_THREADS=999 is above the" in errors


@pytest.mark.torch
def test_tables_of_a_real_torch(run, torch_python, tmp_path):
    """Rows, parameter counts, stages, conditions and files; not the times."""
    code, output, _ = run(
        *("A2", "A4", "--short", "--format", "json", "--output", "made"),
        *("--interpreter", torch_python),
    )
    assert code == 0
    a2, a4 = json.loads(output)["tables"]
    assert "torch 2.13.0" in a2["conditions"]["versions"]
    stages = [row["cells"][4] for row in a2["rows"]]
    assert len(stages) == 9
    assert all(seconds > 0 for seconds in stages)
    assert a4["rows"][-1]["cells"][0] == "the torch at hand"
    assert a4["rows"][-1]["cells"][2] > 0
    assert len(list((tmp_path / "made").iterdir())) == 10


@pytest.mark.torch
@pytest.mark.slow
def test_every_table_of_a_real_torch(run, torch_python):
    """All of them, in the short form."""
    code, output, _ = run("--short", "--format", "json", "--interpreter", torch_python)
    assert code == 0
    tables = {table["name"]: table for table in json.loads(output)["tables"]}
    assert list(tables) == list(NAMES)
    runs = {row["cells"][0]: row["cells"][2] for row in tables["A1"]["rows"]}
    assert list(runs) == ["DyNet", "PyTorch", "PyTorch, OMP_NUM_THREADS=1"]
    assert runs["PyTorch"] > 0
    assert runs["PyTorch, OMP_NUM_THREADS=1"] > 0
    assert "43,351 parameters" in tables["A1"]["notes"][1]
    counts = {row["cells"][0]: row["cells"][3] for row in tables["B"]["rows"]}
    assert counts["TCN"] == 2226899
    assert counts["LSTM"] == 2284849
    assert counts["Transformer, 4 heads, 4 layers"] == 575449
    named = {row["cells"][1] for row in tables["A3"]["rows"] if row["cells"][3]}
    assert {"AddmmBackward", "ConcatBackward", "MSELossBackward", "AccumulateGrad"} <= named
    variants = {row["cells"][0]: row["cells"][2] for row in tables["A6"]["rows"]}
    assert variants["add variables (Python function)"] > 0
    assert any("crossover" in note for note in tables["A5"]["notes"]) or (
        tables["A5"]["rows"][0]["cells"][2] is None
    )
    calls = {tuple(row["cells"][:2]): row["cells"][5] for row in tables["profile"]["rows"]}
    assert calls["TCN", "convolution_backward"] == 8


@pytest.mark.torch
@pytest.mark.slow
def test_a_commit_of_a_history_and_its_session(run, tmp_path):
    """Built by the ladder; A4 reads the session that was made just before."""
    write_replay(tmp_path / "replay", requirement="torch==2.13.0")
    told = json.loads((tmp_path / "replay" / "expected.json").read_text())
    twice = told["workloads"]["linear.Chain.time_backward"][0]["commit"]
    config = ("--config", str(tmp_path / "replay" / "asv.conf.json"), "--format", "json")
    code, output, _ = run("A4", "--short", *config, "--bisect", f"{twice}~2..{twice}")
    assert code == 0
    [a4] = json.loads(output)["tables"]
    [row] = [row for row in a4["rows"] if str(row["cells"][0]).startswith("added twice")]
    assert twice[:10] in row["cells"][0]
    assert row["cells"][1] == 3.94
    assert row["cells"][4] > 1.3
    code, output, _ = run("A4", "--short", *config, "--commit", twice)
    assert code == 0
    [again] = json.loads(output)["tables"]
    assert twice[:10] in again["conditions"]["torch at hand"]
    assert again["rows"][:-1] == a4["rows"][:-1]


OLD = os.environ.get("BISECTORCH_TEST_OLD_TORCH", "")


@pytest.mark.slow
@pytest.mark.skipif(
    not OLD,
    reason="BISECTORCH_TEST_OLD_TORCH names no directory with a torch of Python 3.6",
)
def test_every_workload_under_python_3_6():
    """A real old torch: each workload runs and passes its own checks."""
    python = find_python("3.6")
    assert python is not None
    bench = Bench({Side.TORCH: [Subject(str(python), tree=OLD)]}, ROOT / "benchmarks")
    names = ("tcn", "lstm", "transformer", "tcn without transposes", "tcn of half the depth")
    jobs = [
        job(Side.TORCH, "labeler", stages=("preprocess", "total"), epochs=1),
        job(Side.TORCH, "functions", epochs=1),
        job(Side.TORCH, "chain", count=2),
        job(Side.TORCH, "overhead", calls=100),
        job(Side.TORCH, "profile", model="tcn", length=16, steps=1, device="cpu"),
        *(
            job(Side.TORCH, "characters", model=name, length=16, steps=1, device="cpu")
            for name in names
        ),
    ]
    for asked, found in bench.measure(jobs).items():
        assert found.figures, (asked, found.missing)
        assert set(found.missing) <= {"add variables (C++ function)"}
    print(dict(bench.versions))


def test_the_benchmarks_of_this_project_are_found(tmp_path):
    """The tables measure the project's own workloads, wherever the command is run."""
    made = fakeworkloads.write(tmp_path)
    for path in (made / "workloads").iterdir():
        assert (ROOT / "benchmarks" / "workloads" / path.name).exists()
