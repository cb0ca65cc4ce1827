"""
Runs the sandbox alone repeatedly, in a program as small as the shim.

Reads a container config from its input, as the shim stores it, with "count", and with "stage" and "scratch", two empty
directories. Writes two numbers for each run to its output: the seconds from the fork to the first byte of the
program's output (or to its exit, without output), and those to its exit.
"""

from __future__ import annotations

import json
import os
import sys
import time

from launcher.node.shim import container_init
from launcher.node.shim.isolation import Isolation, PlainIsolation, UnshareIsolation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run_records import Json


def main() -> None:
    """Run the sandbox ``count`` times."""
    config = json.loads(sys.stdin.read())
    print(json.dumps([_seconds(config) for _ in range(config["count"])]))


def _seconds(config: Json) -> tuple[float, float]:
    start = time.perf_counter()
    read_end, write_end = os.pipe()
    pid = _isolation(config).fork(config)
    if not pid:
        _run(config, write_end)
    os.close(write_end)
    os.read(read_end, 1)
    output_at = time.perf_counter()
    _, status = os.waitpid(pid, 0)
    exited_at = time.perf_counter()
    os.close(read_end)
    assert status == 0, status
    return output_at - start, exited_at - start


def _isolation(config: Json) -> Isolation:
    return UnshareIsolation(config["users"]) if config["way"] == "unshare" else PlainIsolation()


def _run(config: Json, output: int) -> NoReturn:
    code = container_init.NEVER_RAN
    try:
        os.dup2(output, 1)
        if config["way"] == "bwrap":
            arguments = ["bwrap", *config["arguments"], "--", *config["argv"]]
            os.execve(config["bwrap"], arguments, config["environment"])
        _isolation(config).enter_sandbox(config, config["stage"], config["scratch"])
        program = os.fork()
        if not program:
            _isolation(config).execute(config, [])
        # The init process of a PID namespace waits for it, as in the shim.
        os.close(1)
        os.close(output)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
    finally:
        os._exit(code)
