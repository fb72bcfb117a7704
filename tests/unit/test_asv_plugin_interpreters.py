from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bisectorch.asv_plugin.interpreters import find_python


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Empty places to look for interpreters in, and no others."""
    places = {name: tmp_path / name for name in ("path", "pyenv", "uv")}
    monkeypatch.setenv("PATH", f"{places['path']}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(places["pyenv"]))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(places["uv"]))
    return places


def fake(path: Path, version: str | None) -> Path:
    """A script that says it is Python ``version``, or that it is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
    path.chmod(0o755)
    return path


def test_the_path_comes_first(places: dict[str, Path]) -> None:
    """Then nobody else is asked."""
    wanted = fake(places["path"] / "python9.7", "9.7.1")
    fake(places["pyenv"] / "versions" / "9.7.2" / "bin" / "python3", "9.7.2")
    assert find_python("9.7") == wanted


def test_a_stand_in_with_nothing_behind_it_is_passed_over(places: dict[str, Path]) -> None:
    """Version managers put a name on the PATH for what is not active."""
    fake(places["path"] / "python9.7", None)
    wanted = fake(places["pyenv"] / "versions" / "9.7.2" / "bin" / "python3", "9.7.2")
    assert find_python("9.7") == wanted


def test_the_newest_patch_is_taken(places: dict[str, Path]) -> None:
    """By number, not by letter; 9.71 is not 9.7."""
    for version in ("9.7.2", "9.7.15", "9.7.9", "9.71.99"):
        fake(places["pyenv"] / "versions" / version / "bin" / "python3", version)
    found = find_python("9.7")
    assert found
    assert found.parts[-3] == "9.7.15"
    exact = find_python("9.7.9")
    assert exact
    assert exact.parts[-3] == "9.7.9"


def test_uv_keeps_some_too(places: dict[str, Path]) -> None:
    """In folders that name the platform as well."""
    folder = places["uv"] / "cpython-9.7.3-linux-x86_64-gnu"
    wanted = fake(folder / "bin" / "python3", "9.7.3")
    assert find_python("9.7") == wanted


def test_the_running_interpreter_is_the_last_resort() -> None:
    """Whatever it is called."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
    assert find_python(version) == Path(sys.executable)


def test_none_is_none() -> None:
    """Nothing else is offered in its place."""
    assert find_python("9.7") is None
