"""
The parent of the test bed's processes: they end with it, and it ends with the tests that started it.

Reads requests from its input, one JSON object a line: {"argv": […], "log": FILE, "directory": DIR}, and prints the id
of each process. It exits when its input is closed, which the kernel does even if the tests are killed.

It imports the standard library only, so that it starts at once.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Start a process for each request until the input is closed."""
    # No process is waited for here, so the kernel must not keep zombies.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    own_pid = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _execute(json.loads(line), own_pid, libc)
        print(pid, flush=True)


def _execute(request: Any, parent: int, libc: ctypes.CDLL) -> NoReturn:
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before prctl took effect
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Ctrl-C must reach the tests only, which stop these in request.
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.chdir(request["directory"])
        os.execv(request["argv"][0], request["argv"])
    except BaseException as error:
        os.write(2, f"{request['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
