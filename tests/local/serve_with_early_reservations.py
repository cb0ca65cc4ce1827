"""``launcher serve`` that reserves capacity for pods after a second: ``python -m tests.local.serve_with_early_…``."""

import sys

from launcher.cli.main import main
from launcher.node.scheduler import Scheduler

defaults = Scheduler.__init__.__kwdefaults__
assert defaults is not None
assert "reserve_after" in defaults
defaults["reserve_after"] = 1.0
sys.exit(main(sys.argv[1:]))
