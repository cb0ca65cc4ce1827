"""
The bridge of a normal user: the calls of ``Bridge``, executed by a worker in the namespaces of the holder.

All methods block. Those of the bridge run in one thread; sockets are opened from any thread.
"""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import launcher
from launcher.node.network import namespaces
from launcher.node.network.pod_network import Endpoint, ListenAddress, PodNetworkUnavailable
from launcher.node.network.rootless import holder, worker

_ROOT = Path(launcher.__file__).parent.parent
_PROGRAM = "import sys; sys.path.append({root!r}); from {module} import main; main(*sys.argv[1:])"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_CALL_SECONDS = 60.0


class RootlessBridge:
    """The bridge of one launcher whose user is not root."""

    def __init__(self, network_id: str, directory: Path) -> None:
        """*directory* is that of the network, in the data directory."""
        self.network_id, self._directory = network_id, directory
        self._outside_subnet = ""
        #: That of the holder; empty if there is none.
        self._state: dict[str, Any] = {}
        self._lock = -1
        #: Sockets are opened from several threads, and the worker is replaced by one of them.
        self._starting = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._calls: _WorkerConnection | None = None
        self._sockets: _WorkerConnection | None = None

    @property
    def holder(self) -> int | None:
        """The pid of the holder; None before the network is opened and after it was removed."""
        return self._state.get("pid")

    def lock(self) -> None:
        """Locks the network until ``close``: its holder continues, also without pods."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._directory / holder.LAUNCHER_LOCK
        self._lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # A holder that is about to end has it until then.
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def open(self, outside: IPv4Network) -> None:
        """
        Connects to the holder, which is started if there is none.

        *outside* is a subnet that this machine does not use. Raises PodNetworkUnavailable.
        """
        self._outside_subnet = str(outside.network_address).rpartition(".")[0]
        self._state = holder.read_state(self._directory) or self._start_holder(0)
        self._start_worker()

    def restore(self) -> None:
        """Starts another holder for the namespaces of the last one, which ended. Raises PodNetworkUnavailable."""
        assert self._worker is not None
        joined = self._worker.pid if self._worker.poll() is None else 0
        self._state = holder.read_state(self._directory) or self._start_holder(joined)
        if not joined:
            self._start_worker()

    def _start_holder(self, join: int) -> dict[str, Any]:
        program = _PROGRAM.format(root=str(_ROOT), module=holder.__name__)
        options = json.dumps({"join": join, "outside": self._outside_subnet})
        result = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", program, str(self._directory), options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            timeout=_START_SECONDS,
            check=False,
        )
        try:
            state: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            state = {"error": result.stderr.decode(errors="replace").strip().rpartition("\n")[2]}
        if "error" in state:
            raise PodNetworkUnavailable(
                f"this user cannot create user and network namespaces: {state['error']}; start the launcher as root, "
                "or allow user namespaces (sysctl user.max_user_namespaces)"
            )
        return state

    def _start_worker(self) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in ("calls", "sockets")]
        files = [theirs.fileno() for _, theirs in pairs]
        program = _PROGRAM.format(root=str(_ROOT), module=worker.__name__)
        pods = str(self._directory / holder.PODS)
        arguments = (str(self._state["init"]), self.network_id, pods, ",".join(map(str, files)))
        self._worker = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-P", "-X", "utf8", "-c", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=files,
            start_new_session=True,
        )
        for _, theirs in pairs:
            theirs.close()
        self._calls, self._sockets = (_WorkerConnection(ours) for ours, _ in pairs)

    def create(self, subnet: IPv4Network) -> None:
        """Creates the bridge, unless it exists. Raises OSError."""
        self._call("create", str(subnet))

    def connect_outside(self, subnet: IPv4Network) -> str:
        """Lets pods reach what the machine reaches. Returns why that is not possible, or an empty string."""
        reason: str = self._state["outside"] or self._call("connect_outside", str(subnet))
        return reason

    def open_services(self, subnet: IPv4Network) -> str:
        """Lets the kernel forward the ports of Services. Returns why that is not possible, or an empty string."""
        reason: str = self._call("open_services", str(subnet))
        return reason

    def service_ports(self) -> Sequence[ListenAddress]:
        """The ports that the kernel forwards, also those of an earlier launcher. Raises OSError."""
        return [ListenAddress(*each) for each in self._call("service_ports")]

    def replace_services(
        self, ports: Mapping[ListenAddress, Sequence[Endpoint]], deleted: Sequence[ListenAddress]
    ) -> None:
        """Forwards these ports, and those of *deleted* no longer. Others stay as they are. Raises OSError."""
        self._call("replace_services", list(ports.items()), deleted)

    def close_services(self) -> None:
        """Ends the forwarding of all ports of Services."""
        self._call("close_services")

    def attach(self, uid: str, address: IPv4Address, subnet: IPv4Network, process: int | None = None) -> None:
        """Creates the pod's namespace and connects it, unless that is done."""
        if process is not None:
            raise OSError(
                "a normal user cannot isolate pods of a container engine: start the launcher as root"
            )
        self._call("attach", uid, str(address), str(subnet))

    def namespace(self, uid: str) -> Path | None:
        """The file on which the pod's namespace is mounted; None if there is none."""
        file = Path(f"/proc/{self._state.get('init')}/root{self._directory / holder.PODS / uid}")
        return file if namespaces.is_namespace(file) else None

    def detach(self, uid: str) -> None:
        """Removes the pod's namespace and its interface, if they exist."""
        self._call("detach", uid)

    def open_socket(self, uid: str, family: int, kind: int) -> socket.socket:
        """A socket in the network of the pod, or without *uid* in that of the bridge."""
        with self._starting:
            assert self._sockets is not None
            _, files = self._sockets.call("open_socket", uid, int(family), int(kind))
        return socket.socket(family, kind, fileno=files[0])

    def _call(self, name: str, *arguments: object) -> Any:
        with self._starting:
            assert self._worker is not None
            if self._worker.poll() is not None:
                self._start_worker()
            assert self._calls is not None
        return self._calls.call(name, *arguments)[0]

    def remove(self) -> None:
        """Ends the holder, and so removes everything."""
        self._state = {}
        if (state := holder.read_state(self._directory)) is None:
            return
        ended = os.pidfd_open(state["pid"])
        try:
            signal.pidfd_send_signal(ended, signal.SIGTERM)
            select.select([ended], [], [], _STOP_SECONDS)
        finally:
            os.close(ended)
        (self._directory / holder.STATE).unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the worker. The holder continues if containers use the network."""
        for connection in (self._calls, self._sockets):
            if connection is not None:
                connection.close()
        if self._worker is not None:
            self._worker.wait(_STOP_SECONDS)
        if self._lock >= 0:
            os.close(self._lock)


class _WorkerConnection:
    """A connection to the worker, for one call at a time."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(_CALL_SECONDS)
        self._connection = connection

    def call(self, name: str, *arguments: object) -> tuple[Any, list[int]]:
        """The result of the call, and the descriptors that were sent with it. Raises OSError."""
        self._connection.send(json.dumps({"call": name, "arguments": arguments}).encode())
        packet, files, _, _ = socket.recv_fds(self._connection, worker.MAX_PACKET_BYTES, 1)
        if not packet:
            raise ConnectionResetError("the worker of the pod network has ended")
        response = json.loads(packet)
        if "error" in response:
            raise OSError(response["error"])
        return response["result"], files

    def close(self) -> None:
        self._connection.close()
