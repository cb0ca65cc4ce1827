"""
A fake of the nc of busybox with the options that the programs of users' containers use.

It runs as a separate program and imports nothing of the project, like ``busybox_wget``.
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


def main(args: list[str]) -> None:
    try:
        options, (host, port) = getopt.getopt(args, "w:z")
    except (getopt.GetoptError, ValueError) as error:
        sys.exit(f"nc: {error}\n{USAGE}")
    values = dict(options)
    assert "-z" in values, "without -z it would wait for data"
    try:
        socket.create_connection((host, int(port)), float(values.get("-w", "60"))).close()
    except OSError as error:
        sys.exit(f"nc: can't connect to remote host ({host}): {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
