"""What CI services run, run here: the scripts, with the variables that the services set."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from bisectorch.asv_plugin import requests
from bisectorch.asv_plugin.cli import make_parser
from bisectorch.errors import UsageError
from minihistory import MiniRepo
from plainproject import call, make_project, run

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
PROGRAM = Path(sys.executable).parent / "bisectorch"


@pytest.fixture(scope="module")
def request_merged(tmp_path_factory: pytest.TempPathFactory) -> MiniRepo:
    """A project whose last commit is what GitHub checks out: a slow request, merged."""
    home = tmp_path_factory.mktemp("service")
    repo = make_project(home / "origin")
    code, said, told = run(repo.path, "init", "--yes")
    assert code == 0, said + told
    repo.commit("use bisectorch")
    repo.git("checkout", "-q", "-b", "request")
    repo.commit("slow down again", {"src/wordy/__init__.py": "def steps():\n    return 180\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("write on main", {"README.md": "and more\n"})
    repo.merge("request", "Merge request into main")
    return repo


def shallow_clone(origin: MiniRepo, folder: Path) -> Path:
    """As a service makes it: the newest commit and nothing else."""
    address = f"file://{origin.path}"
    code, _, told = call(
        ["git", "clone", "--quiet", "--depth", "1", address, str(folder)], folder.parent, {}
    )
    assert code == 0, told
    return folder


def test_the_action_compares_and_writes_its_summary(
    request_merged: MiniRepo, tmp_path: Path
) -> None:
    """From a clone of one commit; what got worse fails, unless only a report is wanted."""
    clone = shallow_clone(request_merged, tmp_path / "clone")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    variables = {
        "BISECTORCH": str(PROGRAM),
        "BISECTORCH_BENCH": "track_steps",
        "GITHUB_BASE_REF": "main",
        "GITHUB_SHA": request_merged.git("rev-parse", "main"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    script = ["bash", str(ROOT / "ci" / "pull-request.sh")]
    code, said, told = call(script, clone, variables)
    assert code == 1, said + told
    written = summary.read_text()
    assert written.startswith("before\n")
    assert "steps.track_steps" in written
    assert "+20" in written
    variables |= {"BISECTORCH_REPORT_ONLY": "true", "BISECTORCH_OPTIONS": "--format json"}
    code, said, told = call(script, clone, variables)
    assert code == 0, told
    assert json.loads(said)["got_worse"] is True


def test_the_job_of_gitlab_compares_and_keeps_its_reports(
    request_merged: MiniRepo, tmp_path: Path
) -> None:
    """The very line of the template, but for the installation."""
    clone = shallow_clone(request_merged, tmp_path / "clone")
    job = GITLAB[".bisectorch"]
    link = clone / ".bisectorch-venv" / "bin" / "bisectorch"
    link.parent.mkdir(parents=True)
    link.symlink_to(PROGRAM)
    variables = {
        **job["variables"],
        "BISECTORCH_BENCH": "track_steps",
        "CI_PROJECT_DIR": str(clone),
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": request_merged.git("rev-parse", "main^1"),
        "CI_COMMIT_SHA": request_merged.git("rev-parse", "request"),
    }
    code, said, told = call(["bash", "-c", job["script"][-1]], clone, variables)
    assert code == 1, said + told
    kept = [clone / path for path in job["artifacts"]["paths"]]
    assert "steps.track_steps" in kept[0].read_text()
    assert json.loads(kept[1].read_text())["kind"] == "versus"


def test_the_action_hands_every_input_to_the_script() -> None:
    """And the script reads nothing that the action does not set."""
    text = (ROOT / "action.yml").read_text()
    script = (ROOT / "ci" / "pull-request.sh").read_text()
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])
    handed = ACTION["runs"]["steps"][-1]["env"]
    assert set(re.findall(r"\$\{(BISECTORCH\w*)", script)) == set(handed)
    assert script.count("pull-request") >= 1


def test_no_text_of_a_request_becomes_code() -> None:
    """Expressions stand in `env` alone: in a script they would be read by the shell."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_the_hook_checks_the_configuration(tmp_path: Path) -> None:
    """It passes one that is right, and says in one line what is wrong with another."""
    program, *arguments = shlex.split(HOOK["entry"])
    assert program == "bisectorch"
    repo = make_project(tmp_path / "wordy")
    code, said, _ = run(repo.path, *arguments)
    assert code == 4
    assert "MISSING" in said
    assert run(repo.path, "init", "--yes")[0] == 0
    assert run(repo.path, *arguments)[0] == 0
    (repo.path / "benchmarks" / "odd.py").write_text("def\n")
    code, said, _ = run(repo.path, *arguments)
    assert code == 4
    assert "odd.py" in said


def test_outside_of_a_request_it_says_how_to_go_on(tmp_path: Path) -> None:
    """One line, exit code 2."""
    with pytest.raises(UsageError, match="--base and --head"):
        requests.ends({"GITHUB_SHA": "1"})
    assert requests.ends({"GITHUB_SHA": "1", "GITHUB_BASE_REF": "main"}) == ("1^1", "1")


def test_a_commit_that_the_origin_lacks_is_named(tmp_path: Path) -> None:
    """Whether there is an origin or not."""
    repo = make_project(tmp_path / "wordy")
    assert run(repo.path, "init", "--yes")[0] == 0
    code, _, told = run(repo.path, "pull-request", "--base", "f" * 40, "--head", "main")
    assert code == 4
    assert f"does not have {'f' * 40}" in told


def test_the_options_of_versus_are_taken() -> None:
    """All that judge and lay out."""
    args = make_parser().parse_args(["pull-request", "-b", "x", "--smallest-step", "5%", "--split"])
    assert args.smallest_step == 0.05
    assert args.split
