"""Our own section of asv.conf.json, ``bisectorch``, checked key by key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from bisectorch.build import BaseWheel, WheelSources
from bisectorch.build.source import DEFAULT_REQUIREMENTS
from bisectorch.errors import UsageError
from bisectorch.history import PRESETS, PathClasses

STORE_VARIABLE = "BISECTORCH_STORE"


DEFAULT_MOST_BYTES = 100 << 30
"""Some hundred native builds of PyTorch for a CPU."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def read_size(text: str) -> int:
    """``16G``, ``500M`` or a plain number as bytes; ValueError for what is no size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a size; write 16G or 500M")
    return int(float(match[1]) * 2 ** _UNITS[match[2].upper()])


def default_store() -> Path:
    """Where builds live when nothing else is said: the user's cache directory."""
    return platformdirs.user_cache_path("bisectorch") / "store"


@dataclass(frozen=True)
class SourceSettings:
    """How commits are built from source, beside asv's own ``build_command``.

    Attributes:
        requirements: what the environment that builds holds.
        pip_args: handed to ``pip install`` for them.
        root: the directory of the repository that packages lie in, ``""`` or like ``src``.
        smoke: lines of Python that must run on every build; none imports its packages.
        timeout_seconds: how long one build may take.
        memory_bytes: how much memory its processes may hold together, None for any.
        jobs: compilations at the same time, None for as many as there are cores.
    """

    requirements: tuple[str, ...] = DEFAULT_REQUIREMENTS
    pip_args: tuple[str, ...] = ()
    root: str = ""
    smoke: tuple[str, ...] = ()
    timeout_seconds: float = 4 * 3600.0
    memory_bytes: int | None = None
    jobs: int | None = None


@dataclass(frozen=True)
class Settings:
    """What asv.conf.json says to us; relative paths are relative to that file's directory.

    Attributes:
        store: where builds live; the variable ``BISECTORCH_STORE`` wins over the file.
        requirements: what pip puts into every environment beside asv's matrix, and into the one
            that builds; markers may tell interpreters apart.
        wheels: where wheels of single commits come from, or None when they are not looked for.
        most_bytes: how large its trees may grow before the least recently used are evicted.
        sessions_dir: where session logs live, beside asv's results, never inside them.
        base_wheel: the native build of every commit without native files, or None.
        classes: how the project's files are divided.
        source: how commits are built from source, or None when they are not; by default they
            are, unless there is a base wheel.
        site_address: where the published site will be served, for its feeds; empty if unknown.
    """

    store: Path = field(default_factory=default_store)
    sessions_dir: Path = Path("sessions")
    base_wheel: BaseWheel | None = None
    classes: PathClasses = field(default_factory=PathClasses)
    source: SourceSettings | None = field(default_factory=lambda: SourceSettings())
    most_bytes: int = DEFAULT_MOST_BYTES
    requirements: tuple[str, ...] = ()
    wheels: WheelSources | None = None
    site_address: str = ""

    @classmethod
    def from_conf(cls, conf: object) -> Settings:
        """Read the attribute ``bisectorch`` of asv's configuration; it may be absent.

        Raises:
            UsageError: an unknown key or a value of the wrong type, by name.
        """
        section = _Section("bisectorch", getattr(conf, "bisectorch", None) or {})
        section.allow(
            "store",
            "store_size",
            "sessions_dir",
            "requirements",
            "base_wheel",
            "classes",
            "wheels",
            "source",
            "site_address",
        )
        classes = section.inner("classes")
        classes.allow("preset", "python_only", "irrelevant")
        preset = classes.text("preset") or "pytorch"
        if preset not in PRESETS:
            raise UsageError(
                f"asv.conf.json: {classes.name}.preset must be one of {', '.join(PRESETS)}, "
                f"not {preset!r}"
            )
        python_only, irrelevant = PRESETS[preset]
        store = os.environ.get(STORE_VARIABLE) or section.text("store")
        base_wheel = _base_wheel(section.inner("base_wheel"))
        return cls(
            store=Path(store).expanduser() if store else default_store(),
            sessions_dir=Path(section.text("sessions_dir") or "sessions").expanduser(),
            base_wheel=base_wheel,
            classes=PathClasses(
                python_only=classes.texts("python_only", python_only),
                irrelevant=classes.texts("irrelevant", irrelevant),
            ),
            source=(
                _source(section.inner("source"))
                if base_wheel is None or section.has("source")
                else None
            ),
            most_bytes=section.size("store_size") or DEFAULT_MOST_BYTES,
            requirements=section.texts("requirements", ()),
            wheels=(_wheels(section.inner("wheels"), conf) if section.has("wheels") else None),
            site_address=_address(section.text("site_address") or ""),
        )


def _address(text: str) -> str:
    if text and not text.startswith(("https://", "http://")):
        raise UsageError(
            "asv.conf.json: bisectorch.site_address must begin with https:// or http://, "
            f"not {text!r}"
        )
    return text


def _wheels(section: _Section, conf: object) -> WheelSources:
    section.allow("project", "folders", "table", "releases", "tag", "index_url", "pip_args", "with")
    tag = section.text("tag") or "v{version}"
    if tag.count("{version}") != 1:
        raise UsageError(f"asv.conf.json: {section.name}.tag needs {{version}} in it, once")
    return WheelSources(
        project=section.text("project") or str(getattr(conf, "project", "")),
        folders=tuple(Path(each).expanduser() for each in section.texts("folders", ())),
        table=section.text("table"),
        releases=section.flag("releases", True),
        tag=tag,
        index_url=section.text("index_url"),
        pip_args=section.texts("pip_args", ()),
        companions=section.texts("with", ()),
    )


def _source(section: _Section) -> SourceSettings:
    section.allow("requirements", "pip_args", "root", "smoke", "timeout", "memory", "jobs")
    return SourceSettings(
        requirements=section.texts("requirements", DEFAULT_REQUIREMENTS),
        pip_args=section.texts("pip_args", ()),
        root=(section.text("root") or "").strip("/"),
        smoke=section.texts("smoke", ()),
        timeout_seconds=section.number("timeout") or 4 * 3600.0,
        memory_bytes=section.size("memory"),
        jobs=int(section.number("jobs") or 0) or None,
    )


def _base_wheel(section: _Section) -> BaseWheel | None:
    section.allow("requirement", "with", "index_url", "pip_args")
    requirement = section.text("requirement")
    if requirement is None:
        if section.is_empty:
            return None
        raise UsageError(f"asv.conf.json: {section.name} needs requirement, like torch==2.13.0")
    return BaseWheel(
        requirement=requirement,
        companions=section.texts("with", ()),
        index_url=section.text("index_url"),
        pip_args=section.texts("pip_args", ()),
    )


class _Section:
    """One JSON object of the configuration, read by key and type."""

    def __init__(self, name: str, values: object) -> None:
        self.name = name
        if not isinstance(values, Mapping):
            raise UsageError(f"asv.conf.json: {name} must be an object, not {values!r}")
        self._values: Mapping[str, Any] = values

    @property
    def is_empty(self) -> bool:
        return not self._values

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None

    def allow(self, *keys: str) -> None:
        for key in self._values:
            if key not in keys:
                raise UsageError(
                    f"asv.conf.json: {self.name} has no key {key!r}; it knows {', '.join(keys)}"
                )

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise UsageError(f"asv.conf.json: {self.name}.{key} must be a text, not {value!r}")

    def number(self, key: str) -> float | None:
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UsageError(
                f"asv.conf.json: {self.name}.{key} must be a number above zero, not {value!r}"
            )
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise UsageError(
                f"asv.conf.json: {self.name}.{key} must be true or false, not {value!r}"
            )
        return value

    def size(self, key: str) -> int | None:
        text = self.text(key)
        if text is None:
            return None
        try:
            return read_size(text)
        except ValueError as error:
            raise UsageError(f"asv.conf.json: {self.name}.{key}: {error}") from error

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self._values.get(key)
        if value is None:
            return default
        good = isinstance(value, Sequence) and not isinstance(value, str)
        if good and all(isinstance(each, str) and each for each in value):
            return tuple(value)
        raise UsageError(f"asv.conf.json: {self.name}.{key} must be a list of texts, not {value!r}")

    def inner(self, key: str) -> _Section:
        value = self._values.get(key)
        return _Section(f"{self.name}.{key}", {} if value is None else value)
