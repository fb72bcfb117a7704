from __future__ import annotations

from pathlib import Path

import pytest
from bisectorch.measure.machine import Machine, threads_variables

CPU = "sys/devices/system/cpu"


def machine(root: Path, **files: str) -> Machine:
    """A machine whose files hold these texts; ``__`` in a name stands for a slash."""
    for name, text in files.items():
        write(root, name.replace("__", "/"), text)
    return Machine(root)


def write(root: Path, name: str, text: str) -> None:
    """One file of the machine."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_machine_that_tells_nothing_is_told_as_nothing(tmp_path: Path) -> None:
    """No guess, no fault."""
    mute = Machine(tmp_path)
    state = mute.state("b", 3)
    assert (state.load, state.mhz, state.celsius) == (None, None, None)
    assert mute.governor(0) is mute.turbo() is mute.quota_cores() is mute.throttled() is None
    assert mute.siblings(0) == ()
    assert mute.stolen() is None
    assert not mute.is_virtual()


@pytest.mark.parametrize("text", ["", "x", "\x00\xff", "nan nan", "1e400"])
def test_files_that_hold_no_numbers_do_no_harm(tmp_path: Path, text: str) -> None:
    """Whatever the kernel of tomorrow writes."""
    odd = machine(
        tmp_path,
        proc__loadavg=text,
        proc__cpuinfo=text,
        proc__stat=f"cpu {text}",
        proc__self__cgroup=f"0::/{text[:1].strip() or 'a'}",
    )
    write(tmp_path, f"{CPU}/cpu0/cpufreq/scaling_cur_freq", text)
    write(tmp_path, f"{CPU}/cpu0/topology/thread_siblings_list", text)
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp")
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", text)
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    odd.state("b", 0)
    assert odd.quota_cores() is None
    assert odd.celsius() is None
    assert odd.siblings(0) == ()


def test_load_clock_and_temperature_are_read(tmp_path: Path) -> None:
    """The clock of the core that measures, the hottest sensor of the processor."""
    here = machine(tmp_path, proc__loadavg="0.42 0.5 0.6 1/200 4711\n")
    write(tmp_path, f"{CPU}/cpu1/cpufreq/scaling_cur_freq", "2400000\n")
    zones = {"0": ("acpitz", 99000), "1": ("x86_pkg_temp", 51000)}
    for number, (kind, temperature) in zones.items():
        write(tmp_path, f"sys/class/thermal/thermal_zone{number}/type", kind)
        write(tmp_path, f"sys/class/thermal/thermal_zone{number}/temp", f"{temperature}\n")
    write(tmp_path, "sys/class/hwmon/hwmon0/name", "k10temp\n")
    write(tmp_path, "sys/class/hwmon/hwmon0/temp1_input", "53500")
    write(tmp_path, "sys/class/hwmon/hwmon0/temp2_input", "-273000")
    state = here.state("7.0", 1)
    assert (state.block, state.load, state.mhz, state.celsius) == ("7.0", 0.42, 2400.0, 53.5)


def test_without_cpufreq_the_clock_is_that_of_cpuinfo(tmp_path: Path) -> None:
    """As on virtual machines, which say that they are."""
    text = "processor\t: 0\ncpu MHz\t\t: 2000.5\n\nprocessor\t: 1\ncpu MHz\t\t: 2596.1\n"
    here = machine(tmp_path, proc__cpuinfo=f"{text}flags\t\t: fpu hypervisor sse\n")
    assert here.mhz(1) == 2596.1
    assert here.mhz(2) is None
    assert here.is_virtual()


@pytest.mark.parametrize(
    ("name", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("intel_pstate/no_turbo", "1", False),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
        ("cpufreq/boost", "?", None),
    ],
)
def test_turbo_is_told_by_either_driver(
    tmp_path: Path, name: str, text: str, turbo: bool | None
) -> None:
    """Intel's file says the opposite of everyone else's."""
    write(tmp_path, f"{CPU}/{name}", text)
    assert Machine(tmp_path).turbo() is turbo


def test_siblings_share_a_physical_core(tmp_path: Path) -> None:
    """Without the core itself."""
    write(tmp_path, f"{CPU}/cpu2/topology/thread_siblings_list", "0-2,5\n")
    assert Machine(tmp_path).siblings(2) == (0, 1, 5)


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
        ("0::/a/b\n", {"cpu.max": "max 100000"}, None),
        (
            "4:cpuset:/x\n1:cpu,cpuacct:/y\n",
            {
                "cpu,cpuacct/y/cpu.cfs_quota_us": "25000",
                "cpu,cpuacct/y/cpu.cfs_period_us": "100000",
            },
            0.25,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "5", "cpu/cpu.cfs_period_us": "0"}, None),
        ("0::/../..\n", {}, None),
    ],
)
def test_a_containers_limit_is_found_in_either_kind_of_group(
    tmp_path: Path, membership: str, files: dict[str, str], cores: float | None
) -> None:
    """The innermost group that has one; a path out of the groups is not followed."""
    for name, text in files.items():
        write(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert machine(tmp_path, proc__self__cgroup=membership).quota_cores() == cores


def test_time_that_was_taken_away_is_told(tmp_path: Path) -> None:
    """By the hypervisor, and by the container's limit."""
    here = machine(
        tmp_path, proc__stat="cpu  50 0 20 20 0 0 0 10 0 0\n", proc__self__cgroup="0::/\n"
    )
    write(tmp_path, "sys/fs/cgroup/cpu.stat", "nr_periods 9\nnr_throttled 4\n")
    assert here.stolen() == 0.1
    assert here.throttled() == 4


def test_facts_hold_what_the_machine_tells(tmp_path: Path) -> None:
    """And nothing that it does not."""
    write(tmp_path, f"{CPU}/cpu0/cpufreq/scaling_governor", "performance\n")
    assert set(Machine(tmp_path).facts(0)) == {"kernel", "governor"}


def test_variables_that_set_threads_are_those_that_are_set() -> None:
    """Empty ones set nothing."""
    given = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "", "PATH": "/bin"}
    assert threads_variables(given) == {"OMP_NUM_THREADS": "1"}
