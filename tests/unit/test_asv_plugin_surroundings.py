"""The doctor's advice about the machine, and its floor, on machines made up for it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from bisectorch.asv_plugin.doctor import State, floor
from bisectorch.asv_plugin.doctor.floor import WORKLOAD
from bisectorch.asv_plugin.doctor.surroundings import surroundings
from bisectorch.measure.machine import Machine
from fakes import FakeMeasurer

CPU = "sys/devices/system/cpu"


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores 0 and 1 may be used, and no variable sets threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    for name in list(os.environ):
        if name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name)


def advice(root: Path, matrix: object = None) -> list[str]:
    """What is noted about this machine, instructions left out."""
    found = surroundings(SimpleNamespace(matrix=matrix or {}), Machine(root))
    return [each.text for each in found if each.state is State.NOTE and "--metric" not in each.text]


def write(root: Path, name: str, text: str) -> None:
    """One file of the machine."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_quiet_machine_is_left_in_peace(tmp_path: Path) -> None:
    """No advice where nothing is wrong, or nothing is known."""
    assert advice(tmp_path) == []
    write(tmp_path, "proc/loadavg", "0.02 0 0 1/1 1")
    write(tmp_path, f"{CPU}/cpu1/cpufreq/scaling_governor", "performance")
    write(tmp_path, f"{CPU}/intel_pstate/no_turbo", "1")
    write(tmp_path, f"{CPU}/cpu1/topology/thread_siblings_list", "1")
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "200000 100000")
    assert advice(tmp_path, {"env_nobuild": {"OMP_NUM_THREADS": ["1"]}}) == []


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"proc/loadavg": "3.10 1 1 4/99 7"}, "3.1 processes run at the moment"),
        ({f"{CPU}/cpu1/topology/thread_siblings_list": "0-1"}, "shares a physical core with 0"),
        ({f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"}, "governed by 'powersave'"),
        ({f"{CPU}/intel_pstate/no_turbo": "0"}, "turbo is on"),
        (
            {
                "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp",
                "sys/class/thermal/thermal_zone0/temp": "93000",
            },
            "the processor is at 93 °C",
        ),
        (
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000"},
            "may take the time of 0.5 cores",
        ),
        (
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "nr_throttled 12\n"},
            "was stopped 12 times",
        ),
        ({"proc/stat": "cpu 50 0 20 20 0 0 0 10 0 0\n"}, "10% of this virtual machine's time"),
    ],
)
def test_each_disturbance_is_named_alone(tmp_path: Path, files: dict[str, str], says: str) -> None:
    """One line for it, and none about what is as it should be."""
    for name, text in files.items():
        write(tmp_path, name, text)
    [line] = advice(tmp_path)
    assert says in line


@pytest.mark.parametrize(
    "matrix",
    [
        {"env_nobuild": {"OMP_NUM_THREADS": ["1", "4"]}},
        {"env": {"OMP_NUM_THREADS": "4"}},
        {"env": {"OMP_NUM_THREADS": [None, "4"]}},
    ],
)
def test_threads_on_one_core_are_advised_against(tmp_path: Path, matrix: object) -> None:
    """However asv's matrix writes them."""
    [line] = advice(tmp_path, matrix)
    assert "OMP_NUM_THREADS=4" in line
    assert "set OMP_NUM_THREADS=1" in line


@pytest.mark.parametrize("matrix", [[], {"env": []}, {"env": {"OMP_NUM_THREADS": []}}, {"req": {}}])
def test_a_matrix_without_variables_is_no_reason_for_advice(tmp_path: Path, matrix: object) -> None:
    """Nor for a traceback."""
    assert advice(tmp_path, matrix) == []


def test_a_single_core_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There nothing can be kept out of the way."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    [line] = advice(tmp_path)
    assert line.startswith("core 3 is the only one that may be used")


def clock_of(step: float) -> object:
    """A clock that moves on by ``step`` whenever it is read."""
    now = [0.0]

    def read() -> float:
        now[0] += step
        return now[0]

    return read


def test_the_floor_of_a_quiet_machine_is_its_noise() -> None:
    """A null pair at 1 % a run: no difference beyond its error, and the step that shows."""
    fake = FakeMeasurer({WORKLOAD.name: {"one": 1e-5, "other": 1e-5}}, sigma=0.01, drift=0.05)
    found = list(floor(200.0, measurer=fake, clock=clock_of(1.0)))  # type: ignore[arg-type]
    assert [each.state for each in found] == [State.OK, State.NOTE]
    text = found[0].text
    spread = float(text.split("one run spreads by ")[1].split(" %")[0])
    assert 0.8 <= spread <= 1.2
    difference, error = (
        float(word.split(" %")[0]) for word in text.split("differ by ")[1].split(" ± ")
    )
    assert abs(difference) <= 2 * error
    shown = found[1].text.split("that shows is ")[1]
    half_minute, five_minutes = (float(part.split(" %")[0]) for part in shown.split(", ")[:2])
    # (1.96 + 1.28) * 1 % * sqrt(2 / rounds), at a second a round
    assert half_minute == pytest.approx(3.24 * spread * (2 / 29) ** 0.5, rel=0.1)
    assert five_minutes == pytest.approx(3.24 * spread * (2 / 298) ** 0.5, rel=0.1)


def test_a_floor_that_cannot_be_measured_is_a_finding() -> None:
    """One line, and nothing claimed."""
    fake = FakeMeasurer({WORKLOAD.name: {"one": 1.0, "other": 1.0}}, unimportable={"one": "broken"})
    [found] = floor(1.0, measurer=fake, clock=clock_of(1.0))  # type: ignore[arg-type]
    assert found.state is State.MISSING
    assert "broken" in found.text
