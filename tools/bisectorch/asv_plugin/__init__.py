"""The plugin: the only room that imports asv. Named in asv.conf.json as ``.bisectorch.asv_plugin``.

Importing it gives plain asv our environment type and our pages; our commands live in
``commands`` and are imported by our own command line, since asv builds its parser before it
loads any plugin.
"""

from bisectorch.asv_plugin import environment, publisher
from bisectorch.model import Findings, Session


def _conclude(session: Session) -> Findings:
    # asv loads this plugin with every command, and the search takes long to load.
    from bisectorch.asv_plugin.workshop import findings_of

    return findings_of(session)


publisher.Culprits.conclude = staticmethod(_conclude)

__all__ = ["environment", "publisher"]
