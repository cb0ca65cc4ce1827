"""
The parent of the test bed's processes: whatever ends it ends them, and it ends with whoever started it.

Reads orders from its input, one JSON object a line: {"argv": […], "log": FILE, "directory": DIR}. Answers each with the
process's id. A closed input ends it; so does the death of the tests, however sudden, since the kernel closes it then.

Run as a file of its own, with the standard library alone, so that it is there at once.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Start what is ordered until nobody can order any more."""
    # Nobody waits for them here, so the kernel shall not keep their remains.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    us = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line), us, libc)
        print(pid, flush=True)


def _become(order: Any, parent: int, libc: ctypes.CDLL) -> NoReturn:
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel was told what follows from that
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Ctrl-C is for the tests, which stop these in their own order.
        os.setsid()
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for ours, theirs in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(ours, theirs)
        os.chdir(order["directory"])
        os.execv(order["argv"][0], order["argv"])
    except BaseException as error:
        os.write(2, f"{order['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
