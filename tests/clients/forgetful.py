"""``launcher serve`` with a short memory: ``python -m tests.clients.forgetful serve …``."""

import sys

from launcher.cli.main import main
from launcher.store.embedded.watch_cache import WatchCache

#: Whoever asks for more than the last few changes has to list again.
REMEMBERED = 10

if __name__ == "__main__":
    defaults = WatchCache.__init__.__kwdefaults__
    assert defaults is not None
    defaults["most_entries"] = REMEMBERED
    sys.exit(main())
