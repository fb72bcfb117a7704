"""A pull or merge request, as the variables of GitHub Actions and GitLab CI tell it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bisectorch.asv_plugin.doctor.finding import output, run
from bisectorch.errors import EnvironmentFailure, UsageError

FETCH_SECONDS = 1800.0


def ends(variables: Mapping[str, str]) -> tuple[str, str]:
    """The commits that a request starts from and ends in.

    GitHub checks out a merge of both branches: its first parent is the base as it would be
    merged into, whatever the request was opened on.

    Raises:
        UsageError: this is no request of a service that we know.
    """
    if variables.get("GITHUB_BASE_REF") and variables.get("GITHUB_SHA"):
        return f"{variables['GITHUB_SHA']}^1", variables["GITHUB_SHA"]
    if variables.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") and variables.get("CI_COMMIT_SHA"):
        return variables["CI_MERGE_REQUEST_DIFF_BASE_SHA"], variables["CI_COMMIT_SHA"]
    raise UsageError(
        "this is no pull request of GitHub Actions and no merge request of GitLab CI: "
        "say which commits with --base and --head"
    )


def fetch(repository: Path, *commits: str) -> None:
    """Get the whole history where the clone is shallow, and those commits where they are missing.

    Raises:
        EnvironmentFailure: the origin does not have them, or does not answer.
    """
    git = ["git", "-C", str(repository)]
    if output([*git, "rev-parse", "--is-shallow-repository"]) == "true" and run(
        [*git, "fetch", "--quiet", "--unshallow", "--tags"], timeout=FETCH_SECONDS
    ):
        raise EnvironmentFailure(
            "this clone is shallow, and its origin does not give the rest: fetch it first "
            "(fetch-depth: 0)"
        )
    for commit in commits:
        name = commit.removesuffix("^1")
        if run([*git, "cat-file", "-e", f"{name}^{{commit}}"]) and run(
            [*git, "fetch", "--quiet", "origin", name], timeout=FETCH_SECONDS
        ):
            raise EnvironmentFailure(f"the origin of {repository} does not have {name}")
