from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from asv.config import Config
from bisectorch.asv_plugin.settings import Settings, SourceSettings, default_store, read_size
from bisectorch.build import BaseWheel, WheelSources
from bisectorch.errors import UsageError
from bisectorch.history import PathClasses

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BISECTORCH_STORE", raising=False)


def read(section: object) -> Settings:
    """Settings from our section."""
    return Settings.from_conf(SimpleNamespace(bisectorch=section))


def test_nothing_said_is_all_defaults() -> None:
    """The section may be absent, empty or null."""
    expected = Settings(default_store(), Path("sessions"), None, PathClasses(), SourceSettings())
    for conf in (
        SimpleNamespace(),
        SimpleNamespace(bisectorch={}),
        SimpleNamespace(bisectorch=None),
    ):
        assert Settings.from_conf(conf) == expected
    assert read({"classes": {}, "base_wheel": None, "store": None}) == expected


def test_everything_said_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key, with ~ for the home directory."""
    monkeypatch.setenv("HOME", "/home/somebody")
    settings = read(
        {
            "store": "~/store",
            "store_size": "20G",
            "sessions_dir": "logs",
            "requirements": ["numpy<2"],
            "base_wheel": {
                "requirement": "torch==2.13.0",
                "with": ["numpy"],
                "index_url": "https://index.example.org/simple",
                "pip_args": ["--no-deps"],
            },
            "classes": {"python_only": ["a/**"], "irrelevant": []},
        }
    )
    assert settings == Settings(
        Path("/home/somebody/store"),
        Path("logs"),
        BaseWheel("torch==2.13.0", ("numpy",), "https://index.example.org/simple", ("--no-deps",)),
        PathClasses(("a/**",), ()),
        None,
        20 << 30,
        ("numpy<2",),
    )


def test_how_to_build_from_source_is_read() -> None:
    """Every key; and it stands beside a base wheel when it is asked for."""
    source = {
        "requirements": ["setuptools<60"],
        "pip_args": ["--no-index"],
        "root": "src/",
        "smoke": ["import torch"],
        "timeout": 7200,
        "memory": "16G",
        "jobs": 2,
    }
    expected = SourceSettings(
        ("setuptools<60",), ("--no-index",), "src", ("import torch",), 7200.0, 16 << 30, 2
    )
    assert read({"source": source}).source == expected
    assert read({"source": {}}).source == SourceSettings()
    wheel = {"requirement": "torch==2.13.0"}
    assert read({"base_wheel": wheel}).source is None
    assert read({"base_wheel": wheel, "source": {}}).source == SourceSettings()


def test_where_wheels_come_from_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key; the project's name is asv's unless another is said; by default there are none."""
    monkeypatch.setenv("HOME", "/home/somebody")
    wheels = {
        "project": "torch",
        "folders": ["~/wheels"],
        "table": "https://example.org/nightly.json",
        "releases": False,
        "tag": "release-{version}",
        "index_url": "https://index.example.org/simple",
        "pip_args": ["--pre"],
        "with": ["numpy"],
    }
    assert read({"wheels": wheels}).wheels == WheelSources(
        "torch",
        (Path("/home/somebody/wheels"),),
        "https://example.org/nightly.json",
        False,
        "release-{version}",
        "https://index.example.org/simple",
        ("--pre",),
        ("numpy",),
    )
    conf = SimpleNamespace(project="mini", bisectorch={"wheels": {}})
    assert Settings.from_conf(conf).wheels == WheelSources("mini")
    assert read({}).wheels is None


@pytest.mark.parametrize(
    ("tag", "version"),
    [("v1.10.2", "1.10.2"), ("v1.0", "1.0"), ("v1.0-rc1", None), ("1.0", None), ("xv1.0", None)],
)
def test_only_tags_of_final_releases_name_one(tag: str, version: str | None) -> None:
    """By the pattern, whole."""
    assert WheelSources("torch").version_of(tag) == version


@pytest.mark.parametrize(
    ("text", "size"), [("16G", 16 << 30), ("1.5 GiB", 3 << 29), ("500MB", 500 << 20), ("7", 7)]
)
def test_a_size_is_read(text: str, size: int) -> None:
    """In powers of two."""
    assert read_size(text) == size


def test_the_variable_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a full disk can be left without editing anything."""
    monkeypatch.setenv("BISECTORCH_STORE", "/elsewhere")
    assert read({"store": "here"}).store == Path("/elsewhere")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (
            {"stor": "x"},
            "bisectorch has no key 'stor'; it knows store, store_size, sessions_dir, requirements",
        ),
        ({"classes": {"preset": "rust"}}, "preset must be one of pytorch, python, not 'rust'"),
        ({"classes": {"native": []}}, r"bisectorch\.classes has no key 'native'; .*python_only"),
        ({"base_wheel": {"with": ["numpy"]}}, "base_wheel needs requirement"),
        ({"base_wheel": {"requirement": 2}}, r"base_wheel\.requirement must be a text, not 2"),
        ({"base_wheel": {"requirement": "a b"}}, "'a b' is not a requirement"),
        ({"base_wheel": {"requirement": "a", "with": "numpy"}}, r"with must be a list of texts"),
        (
            {"base_wheel": {"requirement": "a", "pip_args": [1]}},
            r"pip_args must be a list of texts",
        ),
        ({"base_wheel": "torch"}, r"bisectorch\.base_wheel must be an object, not 'torch'"),
        ({"store": ""}, r"bisectorch\.store must be a text, not ''"),
        ({"store": False}, r"bisectorch\.store must be a text, not False"),
        ({"classes": ["x"]}, "classes must be an object"),
        ({"classes": {"irrelevant": "docs/**"}}, "irrelevant must be a list of texts"),
        ({"source": {"memory": "lots"}}, r"source\.memory: 'lots' is not a size; write 16G"),
        ({"source": {"timeout": -1}}, r"source\.timeout must be a number above zero, not -1"),
        ({"source": {"command": "make"}}, r"bisectorch\.source has no key 'command'"),
        ({"wheels": {"tag": "v1"}}, "tag needs {version} in it, once"),
        ({"wheels": {"releases": "yes"}}, "releases must be true or false, not 'yes'"),
        (["store"], "bisectorch must be an object"),
    ],
)
def test_what_is_wrong_is_named(section: object, says: str) -> None:
    """The key, and what is allowed in its place."""
    with pytest.raises(UsageError, match=says):
        read(section)


def test_a_pure_python_project_has_classes_of_its_own() -> None:
    """What installs it is native, its tests and documents are irrelevant; globs still win."""
    classes = read({"classes": {"preset": "python"}}).classes
    paths = ["a/b.py", "setup.py", "pyproject.toml", "tests/test_b.py", "a/tests/x.py", "README.md"]
    assert [classes.classify(path).value for path in paths] == [
        *("python", "native", "native", "irrelevant", "python", "irrelevant")
    ]
    mine = read({"classes": {"preset": "python", "irrelevant": []}}).classes
    assert mine.classify("tests/test_b.py").value == "python"


def test_the_top_level_configuration_can_be_used() -> None:
    """asv and we can both read it, and it tracks PyTorch's own history, from source."""
    conf = Config.load(str(ROOT / "asv.conf.json"))
    settings = Settings.from_conf(conf)
    assert settings.classes == PathClasses()
    assert settings.source
    assert settings.base_wheel is None
    assert conf.repo == "https://github.com/pytorch/pytorch.git"
    assert conf.environment_type == "bisectorch"
    assert conf.plugins == [".bisectorch.asv_plugin"]
