"""An asv project that never heard of us: what its asv.conf.json needs, and how it gets in."""

from bisectorch.asv_plugin.init.proposal import Proposal, propose, with_proposal
from bisectorch.asv_plugin.init.tip import Tip

__all__ = ["Proposal", "Tip", "propose", "with_proposal"]
