"""``python -m launcher``."""

import sys

from launcher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
