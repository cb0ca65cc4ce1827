"""``launcher serve`` with a small watch cache: ``python -m tests.clients.short_watch_cache serve …``."""

import sys

from launcher.cli.main import main
from launcher.store.embedded.watch_cache import WatchCache

#: The number of changes in the watch cache; a watch from an older version has expired.
MAX_ENTRIES = 10

if __name__ == "__main__":
    defaults = WatchCache.__init__.__kwdefaults__
    assert defaults is not None
    defaults["max_entries"] = MAX_ENTRIES
    sys.exit(main())
