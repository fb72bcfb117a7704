"""Our commands, as asv commands: importing this module adds them to asv's parser."""

from bisectorch.asv_plugin.commands.bisect import Bisect
from bisectorch.asv_plugin.commands.doctor import Doctor
from bisectorch.asv_plugin.commands.explain import Explain
from bisectorch.asv_plugin.commands.init import Init
from bisectorch.asv_plugin.commands.plan import PlanCommand
from bisectorch.asv_plugin.commands.preview import Preview
from bisectorch.asv_plugin.commands.publish import Publish
from bisectorch.asv_plugin.commands.pull_request import PullRequest
from bisectorch.asv_plugin.commands.replay import Demo, Replay
from bisectorch.asv_plugin.commands.sessions import Log, Report, Resume
from bisectorch.asv_plugin.commands.store import StoreCommand
from bisectorch.asv_plugin.commands.tables import Tables
from bisectorch.asv_plugin.commands.versus import VersusCommand
from bisectorch.asv_plugin.commands.watch import WatchCommand

__all__ = [
    "Bisect",
    "Demo",
    "Doctor",
    "Explain",
    "Init",
    "Log",
    "PlanCommand",
    "Preview",
    "Publish",
    "PullRequest",
    "Replay",
    "Report",
    "Resume",
    "StoreCommand",
    "Tables",
    "VersusCommand",
    "WatchCommand",
]
