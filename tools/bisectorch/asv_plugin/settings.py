"""Our own section of asv.conf.json, ``bisectorch``, checked key by key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from bisectorch.build import BaseWheel
from bisectorch.errors import UsageError
from bisectorch.history import PathClasses

STORE_VARIABLE = "BISECTORCH_STORE"


def default_store() -> Path:
    """Where builds live when nothing else is said: the user's cache directory."""
    return platformdirs.user_cache_path("bisectorch") / "store"


@dataclass(frozen=True)
class Settings:
    """What asv.conf.json says to us; relative paths are relative to that file's directory.

    Attributes:
        store: where builds live; the variable ``BISECTORCH_STORE`` wins over the file.
        sessions_dir: where session logs live, beside asv's results, never inside them.
        base_wheel: the native build of every commit without native files, or None.
        classes: how the project's files are divided.
    """

    store: Path = field(default_factory=default_store)
    sessions_dir: Path = Path("sessions")
    base_wheel: BaseWheel | None = None
    classes: PathClasses = field(default_factory=PathClasses)

    @classmethod
    def from_conf(cls, conf: object) -> Settings:
        """Read the attribute ``bisectorch`` of asv's configuration; it may be absent.

        Raises:
            UsageError: an unknown key or a value of the wrong type, by name.
        """
        section = _Section("bisectorch", getattr(conf, "bisectorch", None) or {})
        section.allow("store", "sessions_dir", "base_wheel", "classes")
        defaults = PathClasses()
        classes = section.inner("classes")
        classes.allow("python_only", "irrelevant")
        store = os.environ.get(STORE_VARIABLE) or section.text("store")
        return cls(
            store=Path(store).expanduser() if store else default_store(),
            sessions_dir=Path(section.text("sessions_dir") or "sessions").expanduser(),
            base_wheel=_base_wheel(section.inner("base_wheel")),
            classes=PathClasses(
                python_only=classes.texts("python_only", defaults.python_only),
                irrelevant=classes.texts("irrelevant", defaults.irrelevant),
            ),
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
