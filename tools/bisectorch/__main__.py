"""The command line: asv's own commands and ours, in one help."""

from __future__ import annotations

import sys

from bisectorch.asv_plugin.cli import main

if __name__ == "__main__":
    sys.exit(main())
