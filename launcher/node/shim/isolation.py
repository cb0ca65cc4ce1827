"""
The isolation modes of containers: how a run's processes are separated from those of the machine.

Between the fork and the container's program there are two processes: the init, which is the first process of the
container's PID namespace, prepares its root, reaps orphans and records the exit code; and the main process, which
becomes the program. The kernel ignores a SIGTERM without a handler that is sent to the first process of a PID
namespace, so the program is the second.

``UnshareIsolation`` creates the namespaces itself, ``BubblewrapIsolation`` lets the program bwrap create them, and
``PlainIsolation`` does without. The supervisor chooses one by the ``way`` of the container config.
"""

from __future__ import annotations

import json
import os
import signal

from launcher.node.shim import confinement, container_init, linux, mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run import ShimRun
    from launcher.node.shim.run_records import Json

#: A user namespace is entered first: it grants the right to enter the others.
_NAMESPACES = ("user", "net", "mnt", "uts", "pid")


class Isolation:
    """What differs between the isolation modes. The defaults are those of a mode without namespaces."""

    #: The mode in container configs and run records.
    name = ""
    #: Whether the init reports the main process, which then receives the run's signals in the init's place.
    reports_main_process = False

    # In the shim

    def fork(self, config: Json) -> int:  # noqa: ARG002  # for the modes that create namespaces here
        """Like ``os.fork``: returns the pid of the run's first process, and 0 in that process."""
        return os.fork()

    def has_started(self, run: ShimRun) -> bool:  # noqa: ARG002
        """Whether the program is running, now that the first process has closed its socket to the shim."""
        return True

    def start_failure(self, run: ShimRun) -> Json | None:  # noqa: ARG002
        """The reason and message of a first process that ended before ``has_started``; None if the program ran."""
        return None

    def kill_remaining(self, run: ShimRun) -> int | None:  # noqa: ARG002
        """Kills a child that outlives the run's first process. Returns its pid, whose end is the run's, or None."""
        return None

    def recover(self, run: ShimRun) -> None:
        """Completes the process ids of a run that an earlier shim recorded."""

    def kill_orphans(self, run: ShimRun) -> None:
        """Kills what is left of a run whose first process ended and was not a child of this shim."""

    # In the processes of the run

    def run_first_process(self, config: Json, descriptors: list[int], stage: str, scratch: str) -> NoReturn:
        """
        Runs as the init of the container: enters the sandbox, starts the program and waits for its end.

        *descriptors*: input, output, errors, the socket to the shim, the end file, and the file that a shim locks as
        long as it runs.
        """
        code = container_init.NEVER_RAN
        try:
            container_init.become_session_leader(descriptors)
            cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in config["cgroups"]]
            self.enter_sandbox(config, stage, scratch)
            main = os.fork()
            if not main:
                self._run_main(config, cgroups)
            code = self.wait_for(main)
            container_init.record_exit(code)
        except container_init.StartRefused as error:
            container_init.send_refusal(error.reason, str(error))
        except Exception as error:  # without a message the shim would take the closed socket for a start
            container_init.send_refusal("CreateContainerError", str(error))
        finally:
            os._exit(code)

    def _run_main(self, config: Json, cgroups: list[int]) -> NoReturn:
        try:
            self.prepare_main()
            if config.get("tty"):
                container_init.control_terminal()
            container_init.wait_for_release()
            self.execute(config, cgroups)
        except container_init.StartRefused as error:
            container_init.send_refusal(error.reason, str(error))
        except Exception as error:  # without a message the shim would take the closed socket for a start
            container_init.send_refusal("CreateContainerError", str(error))
        finally:
            os._exit(container_init.NEVER_RAN)

    def execute(self, config: Json, cgroups: list[int]) -> NoReturn:
        """Replaces this process by the program of *config*, in the *cgroups* of its run. Raises StartRefused."""
        container_init.enter_cgroups(config, cgroups)
        self.confine(config)
        container_init.execute(config)

    def enter_sandbox(self, config: Json, stage: str, scratch: str) -> None:
        """Replaces the root directory of this process, the init. Raises StartRefused."""

    def prepare_main(self) -> None:
        """Prepares the main process before it waits for its release."""

    def wait_for(self, main: int) -> int:
        """Returns the exit code of the main process, as the init of the run."""
        container_init.close_socket()
        return container_init.wait_for(main)

    def confine(self, config: Json) -> None:
        """Applies the securityContext to this process. Raises StartRefused."""

    def enter_namespaces(self, pid: int) -> None:
        """Moves this process into the namespaces of *pid*."""

    def kill_left_processes(self) -> None:
        """Kills processes that an executed command has left and that would outlive the container."""


class PlainIsolation(Isolation):
    """No namespaces: the container shares the machine's files and processes."""

    name = "plain"
    reports_main_process = True

    def prepare_main(self) -> None:
        # The run's signals are sent to this process group.
        os.setsid()

    def wait_for(self, main: int) -> int:
        linux.adopt_orphans()
        container_init.send({"main": main})
        container_init.close_socket()
        code = container_init.wait_for(main)
        _kill_descendants()
        return code

    def enter_namespaces(self, pid: int) -> None:  # noqa: ARG002  # it has none
        linux.adopt_orphans()

    def kill_left_processes(self) -> None:
        _kill_descendants()


class UnshareIsolation(Isolation):
    """New mount, PID and, where needed, UTS and user namespaces, created by the shim itself."""

    name = "unshare"

    def __init__(self, users: tuple[int, int] | None) -> None:
        """*users*, the shim's user and group, are mapped to themselves in a user namespace; None without one."""
        self._users = users

    def fork(self, config: Json) -> int:
        flags = linux.NEW_MOUNTS | linux.NEW_PIDS
        if config["hostname"]:
            flags |= linux.NEW_UTS
        if self._users is None:
            return linux.clone(flags)
        if config["network"]:
            return _clone_in_network(config["network"], flags)
        return linux.clone(flags | linux.NEW_USERS)

    def enter_sandbox(self, config: Json, stage: str, scratch: str) -> None:
        if self._users is not None and not config["network"]:
            linux.map_to_itself(*self._users)
        if config["hostname"]:
            linux.set_hostname(config["hostname"])
        if self._users is None and config["network"]:
            _enter_network(config["network"])
        try:
            mounts.build(config["steps"], stage, scratch)
        except OSError as error:
            message = str(error).replace(stage, "")
            raise container_init.StartRefused(
                "CreateContainerError", f"cannot prepare the container's files: {message}"
            ) from error

    def confine(self, config: Json) -> None:
        try:
            confinement.confine(config)
        except OSError as error:
            raise container_init.StartRefused(
                "CreateContainerError", f"securityContext cannot be applied: {error}"
            ) from error

    def enter_namespaces(self, pid: int) -> None:
        enter_namespaces(pid)


def _enter_network(path: str) -> None:
    """Moves this process into the network namespace of its pod. Raises StartRefused."""
    try:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        linux.enter(namespace)
        os.close(namespace)
    except OSError as error:
        raise container_init.StartRefused(
            "CreateContainerError", f"cannot enter the network of the pod: {error}"
        ) from error


def _clone_in_network(path: str, flags: int) -> int:
    """
    Like ``linux.clone``, but the child is in the network namespace of its pod and in the user namespace that owns it.

    A process that has entered a user namespace cannot leave it. So it is entered by another process, which creates a
    child of this one, and ends. Raises OSError.
    """
    reading, writing = os.pipe()
    helper = os.fork()
    if not helper:
        child = _enter_and_clone(path, flags, writing)
        if child:
            os._exit(0)
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    with open(reading, "rb") as file:
        result = json.loads(file.read() or b"{}")
    os.waitpid(helper, 0)
    if "pid" not in result:
        raise OSError(f"cannot enter the network of the pod: {result.get('error', 'the process was killed')}")
    pid: int = result["pid"]
    return pid


def _enter_and_clone(path: str, flags: int, result: int) -> int:
    """Like ``linux.clone``; the pid, or an error, is written to *result*."""
    try:
        network = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        for namespace in (linux.owner(network), network):
            linux.enter(namespace)
            os.close(namespace)
        pid = linux.clone(flags | linux.SAME_PARENT)
    except Exception as error:
        os.write(result, json.dumps({"error": str(error)}).encode())
        return -1
    if pid:
        os.write(result, json.dumps({"pid": pid}).encode())
    return pid


def enter_namespaces(pid: int) -> None:
    """Moves this process into those namespaces of *pid* that are not its own."""
    namespaces = [
        os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        for name in _NAMESPACES
        if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    ]
    for namespace in namespaces:
        linux.enter(namespace)


def _kill_descendants() -> None:
    """Kills all processes that the run started; without a PID namespace the kernel does not do it."""
    try:
        while True:
            for pid in linux.children(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
    except ChildProcessError:
        return
