"""
The nc of busybox, as far as the programs for users' containers use it: whether something listens on a port.

It stands in for the real one, as ``busybox_wget`` does. Nothing of the project is imported.
"""

import getopt
import socket
import sys

USAGE = """\
BusyBox v1.36.1 () multi-call binary.

Usage: nc [OPTIONS] HOST PORT  - connect

\t-w SEC\tTimeout for connects and final net reads
\t-z\tZero-I/O mode (scanning)
"""


def main(words: list[str]) -> None:
    try:
        options, (host, port) = getopt.getopt(words, "w:z")
    except (getopt.GetoptError, ValueError) as error:
        sys.exit(f"nc: {error}\n{USAGE}")
    given = dict(options)
    assert "-z" in given, "nothing is sent or received"
    try:
        socket.create_connection((host, int(port)), float(given.get("-w", "60"))).close()
    except OSError as error:
        sys.exit(f"nc: can't connect to remote host ({host}): {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
