"""The build room: usable, immutable trees for commits, by the cheapest exact route."""

from bisectorch.build.exact import WheelSources
from bisectorch.build.ladder import MOST_BUILDERS, Ladder
from bisectorch.build.process import ending_all
from bisectorch.build.source import Places, Recipe, Step
from bisectorch.build.store import Store
from bisectorch.build.wheel import BaseWheel, release_versions

__all__ = [
    "MOST_BUILDERS",
    "BaseWheel",
    "Ladder",
    "Places",
    "Recipe",
    "Step",
    "Store",
    "WheelSources",
    "ending_all",
    "release_versions",
]
