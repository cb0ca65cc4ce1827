"""
The addresses of the tasks of an attempt, as files for shells and programs.

A file is a sequence of segments. All segments but the last few bytes are the same for all tasks, and are generated and
compressed once.
"""

import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from launcher.core.errors import BadRequest
from launcher.core.pods.peer_variables import (
    RolePeers,
    first_ranks,
    host_variables,
    master_variables,
    rank_variables,
    tf_config_of,
    world_size,
)
from launcher.core.spec import FrameworkSpec, RoleName
from launcher.rendezvous.peer_tracker import Peer, PeerList, TaskId

Segments = tuple[bytes, ...]

CONFIG_FILE = "configfile"
HOSTS_ENV = "hosts.env"
HOSTS_JSON = "hosts.json"
HOST_FILE = "hostfile"
TF_CONFIG = "tf_config.json"
INJECTOR = "injector.sh"
FRAMEWORK = "framework.json"
#: The files of ``format=all``. A Framework of many tasks is large, so it is sent only on request.
DISCOVERY_FILES = (CONFIG_FILE, HOSTS_JSON, HOST_FILE, TF_CONFIG, HOSTS_ENV)
FILE_NAMES = (*DISCOVERY_FILES, INJECTOR, FRAMEWORK)

#: Longer variables are not exported; the kernel accepts 131,071 characters.
_MAX_EXPORTED_CHARACTERS = 100_000
#: The roles on the first and on the last line of ``configfile``.
_FIRST_LINE, _LAST_LINE = RoleName("worker"), RoleName("ps")
#: The role that starts the processes of an MPI job; it is not one of the hosts.
_MPI_LAUNCHER = "launcher"
#: Replaced by the index of the task.
_INDEX_PLACEHOLDER = "\0"

#: Without file name, time and system.
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: An empty final block.
_GZIP_FINAL_BLOCK = b"\x03\x00"
#: Smaller segments are not cached.
_MIN_CACHED_BYTES = 1024


class PeerFiles:
    """The files for one peer list."""

    def __init__(self, peer_list: PeerList, spec: FrameworkSpec) -> None:
        self.peer_list = peer_list
        self.gzip_cache = GzipCache()
        self._spec = spec
        self._tf_configs: dict[RoleName, Segments] = {}
        self._first_segments: dict[tuple[str, bytes], bytes] = {}
        self._generators: Mapping[str, Callable[[TaskId | None], Segments]] = {
            CONFIG_FILE: lambda _: (self._config_file,),
            HOSTS_JSON: lambda _: (self._hosts_json,),
            HOST_FILE: lambda _: (self._host_file,),
            INJECTOR: lambda _: (self._injector,),
            HOSTS_ENV: self._hosts_env,
            TF_CONFIG: self._tf_config,
        }

    def segments(self, name: str, task: TaskId | None) -> Segments:
        """Returns a file for *task*; no segments if the file does not apply to it. Raises BadRequest."""
        return self._generators[name](task)

    def concatenated(self, files: Iterable[tuple[str, Segments]]) -> Iterator[bytes]:
        """Yields several files as one text, each after a line with its name; files without segments are left out."""
        for name, segments in files:
            if segments:
                # The same object each time, so that it is compressed once.
                key = (name, segments[0])
                if key not in self._first_segments:
                    self._first_segments[key] = f"==> {name} <==\n".encode() + segments[0]
                yield self._first_segments[key]
                yield from segments[1:]

    @cached_property
    def _role_peers(self) -> list[RolePeers]:
        """The peers of each role, with IPv6 addresses in brackets."""
        return [
            RolePeers(role, [_url_host(peer) for peer in peers], [peer.port for peer in peers])
            for role, peers in self.peer_list.roles.items()
        ]

    @cached_property
    def _ranked_roles(self) -> list[tuple[RoleName, Sequence[Peer]]]:
        """The roles whose tasks have ranks, in the order of the ranks."""
        ranks = first_ranks(self._spec)
        ranked = [(role, peers) for role, peers in self.peer_list.roles.items() if role in ranks]
        return sorted(ranked, key=lambda pair: ranks[pair[0]])

    @cached_property
    def _hosts_json(self) -> bytes:
        peer_list = self.peer_list
        return _json_line(
            {
                "generation": peer_list.generation,
                "namespace": peer_list.namespace,
                "framework": peer_list.framework,
                "attempt": peer_list.attempt,
                "roles": {
                    role: [_peer_json(peer) for peer in peers] for role, peers in peer_list.roles.items()
                },
                **({"later": list(peer_list.dependent_roles)} if peer_list.dependent_roles else {}),
            }
        )

    @cached_property
    def _config_file(self) -> bytes:
        order = {_FIRST_LINE: 0, _LAST_LINE: 2}
        roles = sorted(self._role_peers, key=lambda each: order.get(each.role, 1))
        return "".join(f"{','.join(each.addresses())}\n" for each in roles).encode()

    @cached_property
    def _host_file(self) -> bytes:
        hosts = [peer.ip for role, peers in self._ranked_roles if role != _MPI_LAUNCHER for peer in peers]
        return "".join(f"{host} slots=1\n" for host in hosts).encode()

    @cached_property
    def _injector(self) -> bytes:
        lines = ["#!/bin/bash"]
        for role, peers in self.peer_list.roles.items():
            prefix, hosts = f"FB_{role.upper()}", [_url_host(peer) for peer in peers]
            addresses = ",".join(f"{host}:${{{prefix}_PORT}}" for host in hosts)
            for variable, value in (
                (f"{prefix}_IPS", ",".join(peer.ip for peer in peers)),
                (f"{prefix}_ADDRESSES", addresses),
            ):
                lines += [_assignment(variable, f'"{value}"'), f'echo "{variable}=${variable}"']
        return _text(lines)

    def _hosts_env(self, task: TaskId | None) -> Segments:
        return (
            (self._shared_variables,) if task is None else (self._shared_variables, self._variables_of(task))
        )

    @cached_property
    def _shared_variables(self) -> bytes:
        lines = [f"export LAUNCHER_GENERATION={self.peer_list.generation}"]
        for name, value in host_variables(self._role_peers):
            # The manual uses lower case, other systems upper case.
            lines += [
                _assignment(name.lower(), shlex.quote(value)),
                _assignment(name, f'"${name.lower()}"', len(value)),
            ]
        lines += [_assignment(name, shlex.quote(value)) for name, value in self._master_variables()]
        return _text(lines)

    def _master_variables(self) -> Iterator[tuple[str, str]]:
        ranks = first_ranks(self._spec)
        first = min(ranks, key=lambda role: ranks[role], default=None)
        if first in self.peer_list.roles:
            yield from master_variables(
                RolePeers(role, [peer.ip for peer in peers], [peer.port for peer in peers])
                for role, peers in self._ranked_roles
            )

    def _variables_of(self, task: TaskId) -> bytes:
        ranks, size = first_ranks(self._spec), world_size(self._spec)
        lines = []
        if task.role in ranks:
            variables = rank_variables(str(ranks[task.role] + task.index), size)
            lines += [_assignment(name, str(value)) for name, value in variables]
        port = self._peer(task).port
        if port is not None:
            lines.append(_assignment("LAUNCHER_PORT", str(port)))
        if (discovery := self._spec.discovery) is not None and (config := self._tf_config(task)):
            file = shlex.quote(f"{discovery.mount_path.rstrip('/')}/{TF_CONFIG}")
            if sum(map(len, config)) <= _MAX_EXPORTED_CHARACTERS:
                lines.append(f'if [ -r {file} ]; then TF_CONFIG="$(cat {file})"; export TF_CONFIG; fi')
        return _text(lines)

    def _peer(self, task: TaskId) -> Peer:
        peers = self.peer_list.roles.get(task.role, ())
        if task.index >= len(peers):
            raise BadRequest(f"task: {task.role}/{task.index} does not exist in this Framework")
        return peers[task.index]

    def _tf_config(self, task: TaskId | None) -> Segments:
        if task is None:
            return ()
        if task.role not in self._tf_configs:
            text = tf_config_of(self._role_peers, task.role, _INDEX_PLACEHOLDER)
            self._tf_configs[task.role] = (
                tuple(text.encode().split(_INDEX_PLACEHOLDER.encode())) if text else ()
            )
        segments = self._tf_configs[task.role]
        return (segments[0], str(task.index).encode() + segments[1] + b"\n") if segments else ()


def framework_json(framework: Mapping[str, Any], peer_list: PeerList) -> bytes:
    """Returns the Framework as FrameworkController's barrier writes it: its status has the address of every task."""
    status = framework.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    roles = [_with_addresses(role, peer_list) for role in attempt.get("taskRoleStatuses") or ()]
    if not roles:
        return _json_line(framework)
    return _json_line(
        {**framework, "status": {**status, "attemptStatus": {**attempt, "taskRoleStatuses": roles}}}
    )


def _with_addresses(role: Mapping[str, Any], peer_list: PeerList) -> Mapping[str, Any]:
    # An address is known shortly before it is written to the status.
    peers = {peer.index: peer for peer in peer_list.roles.get(role.get("name") or RoleName(""), ())}
    tasks = role.get("taskStatuses")
    if not tasks:
        return role
    return {**role, "taskStatuses": [_with_address(task, peers.get(task.get("index"))) for task in tasks]}


def _with_address(task: Mapping[str, Any], peer: Peer | None) -> Mapping[str, Any]:
    if peer is None:
        return task
    attempt = task.get("attemptStatus") or {}
    return {**task, "attemptStatus": {**attempt, "podIP": peer.ip, "podHostIP": peer.host_ip}}


def _peer_json(peer: Peer) -> dict[str, Any]:
    fields = {"index": peer.index, "ip": peer.ip, "hostIP": peer.host_ip, "host": peer.pod}
    return fields if peer.port is None else {**fields, "port": peer.port}


def _url_host(peer: Peer) -> str:
    return f"[{peer.ip}]" if ":" in peer.ip else peer.ip


def _assignment(name: str, value: str, length: int | None = None) -> str:
    """Returns a line that sets the variable, and exports it unless a process could not be started with it."""
    return f"{'export ' if (length or len(value)) <= _MAX_EXPORTED_CHARACTERS else ''}{name}={value}"


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json_line(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


class GzipCache:
    """
    Compresses texts that consist of segments; a large segment is compressed once.

    Each segment is compressed independently and to a whole number of bytes, so compressed segments can be concatenated.
    """

    def __init__(self) -> None:
        self._compressed: dict[bytes, bytes] = {}
        #: The checksum after a segment, by the checksum before it; only for the segments with which all texts begin.
        self._checksums: dict[tuple[int, bytes], int] = {}

    def compress(self, segments: Sequence[bytes]) -> list[bytes]:
        """Returns the segments of one gzip file."""
        compressed, checksum, all_cached = [_GZIP_HEADER], 0, True
        for segment in segments:
            if len(segment) < _MIN_CACHED_BYTES:
                all_cached = False
                compressed.append(_deflate(segment, zlib.Z_BEST_SPEED))
            else:
                compressed.append(self._cached(segment))
            checksum = self._checksum(checksum, segment) if all_cached else zlib.crc32(segment, checksum)
        size = sum(map(len, segments)) % 2**32
        trailer = checksum.to_bytes(4, "little") + size.to_bytes(4, "little")
        return [*compressed, _GZIP_FINAL_BLOCK + trailer]

    def _cached(self, segment: bytes) -> bytes:
        if segment not in self._compressed:
            self._compressed[segment] = _deflate(segment, zlib.Z_DEFAULT_COMPRESSION)
        return self._compressed[segment]

    def _checksum(self, previous: int, segment: bytes) -> int:
        if (previous, segment) not in self._checksums:
            self._checksums[previous, segment] = zlib.crc32(segment, previous)
        return self._checksums[previous, segment]


def _deflate(segment: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(segment) + compressor.flush(zlib.Z_FULL_FLUSH)
