"""The build room: usable, immutable trees for commits, by the cheapest exact route."""

from bisectorch.build.exact import WheelSources
from bisectorch.build.ladder import Ladder
from bisectorch.build.source import Places, Recipe, Step
from bisectorch.build.store import Store
from bisectorch.build.wheel import BaseWheel, release_versions

__all__ = [
    "BaseWheel",
    "Ladder",
    "Places",
    "Recipe",
    "Step",
    "Store",
    "WheelSources",
    "release_versions",
]
