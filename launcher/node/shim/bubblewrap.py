"""
Isolation by bubblewrap, for machines on which only known programs may create namespaces.

bwrap reports its processes and the exit code as JSON lines in the run's end file, but not when it executes the
program: that is polled. It runs as two processes: the outer one, a child of the shim, which ends when the program does,
and the first process of the PID namespace.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress

from launcher.node.shim import container_init, linux, run_records
from launcher.node.shim.isolation import Isolation, enter_namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run import ShimRun
    from launcher.node.shim.run_records import Json

#: After this time a process named bwrap counts as the container's program.
_MAX_SETUP_SECONDS = 2.0


class BubblewrapIsolation(Isolation):
    """Namespaces created by the program bwrap."""

    name = "bwrap"

    def has_started(self, run: ShimRun) -> bool:
        first = first_process(run.directory)
        if first is None:
            return False
        if run.kill != first:
            run.group = run.kill = first
            with suppress(OSError):  # the disk is full: the earlier record stays
                run.record()
            if run.killed:
                run.signal(signal.SIGKILL)
        return _has_executed(first, run.started)

    def start_failure(self, run: ShimRun) -> Json | None:
        if run_records.read_end(run.directory, "exit-code") is not None:
            return None
        return start_error(run.unread_output().decode(errors="replace").strip().removeprefix("bwrap: "))

    def kill_remaining(self, run: ShimRun) -> int | None:
        if run.kill == run.pid:
            return None
        try:
            if os.waitpid(run.kill, os.WNOHANG) != (0, 0):
                return None
        except ChildProcessError:
            return None
        os.kill(run.kill, signal.SIGKILL)
        return run.kill

    def recover(self, run: ShimRun) -> None:
        if (first := first_process(run.directory)) is not None:
            run.group = run.kill = first

    def kill_orphans(self, run: ShimRun) -> None:
        if _is_first_process(run.directory, run.kill):
            run.signal(signal.SIGKILL)

    def run_first_process(self, config: Json, descriptors: list[int], stage: str, scratch: str) -> NoReturn:  # noqa: ARG002  # bwrap mounts by itself
        """Executes bwrap, whose status lines are appended to the run's end file."""
        try:
            container_init.become_session_leader(descriptors)
            container_init.wait_for_release()
            for path in config["cgroups"]:
                group = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                os.write(group, b"0")
            arguments = os.memfd_create("arguments", 0)
            os.write(arguments, b"".join(os.fsencode(argument) + b"\0" for argument in config["arguments"]))
            os.lseek(arguments, 0, os.SEEK_SET)
            os.set_inheritable(container_init.END, True)
            container_init.restore_defaults()
            options = ["--args", str(arguments), "--json-status-fd", str(container_init.END)]
            argv = ["bwrap", *options, "--chdir", config["directory"], "--", *config["argv"]]
            os.execve(config["bwrap"], argv, config["environment"])  # noqa: S606  # the configured command
        except Exception as error:
            container_init.send_refusal("CreateContainerError", str(error))
        finally:
            os._exit(container_init.NEVER_RAN)

    def enter_namespaces(self, pid: int) -> None:
        enter_namespaces(pid)

    def confine(self, config: Json) -> None:  # noqa: ARG002  # bwrap does the same for every container
        linux.forbid_new_privileges()


def first_process(directory: str) -> int | None:
    """The pid, outside, of the first process in the run's PID namespace; None before it exists."""
    line = run_records.read_end(directory, "child-pid")
    return int(line["child-pid"]) if line is not None else None


def start_error(output: str) -> Json:
    """The reason and message of a failed start, from bubblewrap's error *output*."""
    if (match := re.match(r"execvp (.*): (.*)", output)) is not None:
        name, error = match[1], match[2].lower()
        message = "executable file not found in $PATH" if "/" not in name and "no such" in error else error
        return {"reason": "StartError", "message": f'exec: "{name}": {message}'}
    if (match := re.match(r"Can't chdir to (.*): (.*)", output)) is not None:
        return {
            "reason": "CreateContainerError",
            "message": f'chdir to cwd ("{match[1]}") failed: {match[2].lower()}',
        }
    return {"reason": "CreateContainerError", "message": f"bubblewrap: {output}"}


def _is_first_process(directory: str, pid: int) -> bool:
    """Whether *pid* is still the first process of the run's PID namespace."""
    line = run_records.read_end(directory, "pid-namespace")
    try:
        return line is not None and os.readlink(f"/proc/{pid}/ns/pid") == f"pid:[{line['pid-namespace']}]"
    except OSError:
        return False


def _has_executed(first: int, started: float) -> bool:
    """Whether the child of *first* has replaced bwrap by the container's program."""
    for pid in linux.children(first):
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                return file.read() != b"bwrap\n" or time.time() - started > _MAX_SETUP_SECONDS
        except OSError:
            continue
    return False
