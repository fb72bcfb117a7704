"""The plugin: the only room that imports asv. Named in asv.conf.json as ``.bisectorch.asv_plugin``."""

from bisectorch.asv_plugin import environment

__all__ = ["environment"]
