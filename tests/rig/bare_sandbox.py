"""
The bare sandbox, again and again, with nothing around it: a program as small as the keeper is.

Reads an order from its input, as the keeper has it on record, with "count", and with "stage" and "scratch", two empty
directories. Writes two numbers for each time to its output: the seconds from the fork to the first byte of the
program's output (or to its end, when it says nothing), and those to its end.
"""

from __future__ import annotations

import json
import os
import sys
import time

from launcher.node.shim import container_init, linux, mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run_records import Json


def main() -> None:
    """Run the sandbox as often as the order says."""
    order = json.loads(sys.stdin.read())
    print(json.dumps([_seconds(order) for _ in range(order["count"])]))


def _seconds(order: Json) -> tuple[float, float]:
    began = time.perf_counter()
    ours, theirs = os.pipe()
    pid = _forked(order)
    if not pid:
        _live(order, theirs)
    os.close(theirs)
    os.read(ours, 1)
    said = time.perf_counter()
    _, status = os.waitpid(pid, 0)
    ended = time.perf_counter()
    os.close(ours)
    assert status == 0, status
    return said - began, ended - began


def _forked(order: Json) -> int:
    if order["way"] != "unshare":
        return os.fork()
    spaces = linux.NEW_MOUNTS | linux.NEW_PIDS
    return linux.clone(spaces if order["users"] is None else spaces | linux.NEW_USERS)


def _enter(order: Json) -> None:
    if order["users"] is not None:
        container_init.map_to_itself(*order["users"])
    mounts.build(order["steps"], order["stage"], order["scratch"])


def _live(order: Json, output: int) -> NoReturn:
    code = container_init.NEVER_RAN
    try:
        os.dup2(output, 1)
        if order["way"] == "bwrap":
            words = ["bwrap", *order["arguments"], "--", *order["argv"]]
            os.execve(order["bwrap"], words, order["environment"])
        if order["way"] == "unshare":
            _enter(order)
        program = os.fork()
        if not program:
            container_init.become(order, [])
        # The first of a process namespace waits for it, as the keeper's does.
        os.close(1)
        os.close(output)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
    finally:
        os._exit(code)
