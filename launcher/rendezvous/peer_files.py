"""
What the tasks of an attempt are told, as files that shells and programs read.

Each is made once, whoever asks. Where askers differ, most of a file is still the same for all: it comes in pieces, and
only the last few bytes are anybody's own.
"""

import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from launcher.rendezvous.peer_tracker import Peer, PeerList

#: Names no file, no time and no system, as nobody needs to know them.
_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: A last block with nothing in it.
_END = b"\x03\x00"
#: Bytes from which on a piece is one that many share.
_SHARED = 1024


class Packer:
    """
    Packs answers that are made of pieces; a piece that many share is packed once.

    Each piece is packed for itself, to a whole number of bytes and without a word about the others, so that packed
    pieces can stand one behind the other.
    """

    def __init__(self) -> None:
        self._packed: dict[bytes, bytes] = {}
        #: The checksum after a piece, by the one before; kept only for what every answer begins with.
        self._sums: dict[tuple[int, bytes], int] = {}

    def gzip(self, pieces: Sequence[bytes]) -> list[bytes]:
        """The pieces as one gzip file, again in pieces."""
        packed, checksum, at_beginning = [_HEAD], 0, True
        for piece in pieces:
            if len(piece) < _SHARED:
                at_beginning = False
                packed.append(_deflated(piece, zlib.Z_BEST_SPEED))
            else:
                packed.append(self._once(piece))
            checksum = self._sum(checksum, piece) if at_beginning else zlib.crc32(piece, checksum)
        size = sum(map(len, pieces)) % 2**32
        return [*packed, _END + checksum.to_bytes(4, "little") + size.to_bytes(4, "little")]

    def _once(self, piece: bytes) -> bytes:
        if piece not in self._packed:
            self._packed[piece] = _deflated(piece, zlib.Z_DEFAULT_COMPRESSION)
        return self._packed[piece]

    def _sum(self, before: int, piece: bytes) -> int:
        if (before, piece) not in self._sums:
            self._sums[before, piece] = zlib.crc32(piece, before)
        return self._sums[before, piece]


def _deflated(piece: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)


Pieces = tuple[bytes, ...]

CONFIG_FILE = "configfile"
HOSTS_ENV = "hosts.env"
HOSTS_JSON = "hosts.json"
HOST_FILE = "hostfile"
TF_CONFIG = "tf_config.json"
INJECTOR = "injector.sh"
FRAMEWORK = "framework.json"
#: What ``all`` stands for: a Framework of many tasks is large, and who needs it can ask for it.
ALL = (CONFIG_FILE, HOSTS_JSON, HOST_FILE, TF_CONFIG, HOSTS_ENV)
NAMES = (*ALL, INJECTOR, FRAMEWORK)

#: Characters of the longest variable that programs can be started with; the kernel takes 131,071.
_LONGEST = 100_000
#: The first and the last line of ``configfile``, where there are such roles.
_FIRST_LINE, _LAST_LINE = RoleName("worker"), RoleName("ps")
#: Starts the others of an MPI job, and is none of them.
_LAUNCHER = "launcher"
#: Stands for the index of whoever asks.
_GAP = "\0"


@dataclass(frozen=True, slots=True)
class TaskId:
    """The task that asks."""

    role: RoleName
    index: int


class Files:
    """The files about one roster."""

    def __init__(self, roster: PeerList, spec: FrameworkSpec) -> None:
        self.roster = roster
        self._spec = spec
        self._tf_configs: dict[RoleName, Pieces] = {}
        self._headed: dict[tuple[str, bytes], bytes] = {}
        self.packer = Packer()
        self._makers: Mapping[str, Callable[[TaskId | None], Pieces]] = {
            CONFIG_FILE: lambda _: (self._config_file,),
            HOSTS_JSON: lambda _: (self._hosts_json,),
            HOST_FILE: lambda _: (self._host_file,),
            INJECTOR: lambda _: (self._injector,),
            HOSTS_ENV: self._hosts_env,
            TF_CONFIG: self._tf_config,
        }

    def pieces(self, name: str, asker: TaskId | None) -> Pieces:
        """The file of that name for *asker*; none where there is nothing to tell him."""
        return self._makers[name](asker)

    def together(self, files: Iterable[tuple[str, Pieces]]) -> Iterator[bytes]:
        """Several files in one text, each below a line with its name; those of which there is nothing are left out."""
        for name, pieces in files:
            if pieces:
                # One piece, and the same one each time.
                key = (name, pieces[0])
                if key not in self._headed:
                    self._headed[key] = f"==> {name} <==\n".encode() + pieces[0]
                yield self._headed[key]
                yield from pieces[1:]

    @cached_property
    def _peers(self) -> list[RolePeers]:
        """As others write them: an IPv6 address in brackets."""
        return [
            RolePeers(role, [_bracketed(peer) for peer in peers], [peer.port for peer in peers])
            for role, peers in self.roster.roles.items()
        ]

    @cached_property
    def _ranked(self) -> list[tuple[RoleName, Sequence[Peer]]]:
        """The roles that are counted through, in that order."""
        ranks = first_ranks(self._spec)
        found = [(role, peers) for role, peers in self.roster.roles.items() if role in ranks]
        return sorted(found, key=lambda pair: ranks[pair[0]])

    @cached_property
    def _hosts_json(self) -> bytes:
        roster = self.roster
        return _line(
            {
                "generation": roster.generation,
                "namespace": roster.namespace,
                "framework": roster.framework,
                "attempt": roster.attempt,
                "roles": {role: [_told(peer) for peer in peers] for role, peers in roster.roles.items()},
                **({"later": list(roster.later)} if roster.later else {}),
            }
        )

    @cached_property
    def _config_file(self) -> bytes:
        place = {_FIRST_LINE: 0, _LAST_LINE: 2}
        lines = sorted(self._peers, key=lambda each: place.get(each.role, 1))
        return "".join(f"{','.join(each.addresses())}\n" for each in lines).encode()

    @cached_property
    def _host_file(self) -> bytes:
        hosts = [peer.ip for role, peers in self._ranked if role != _LAUNCHER for peer in peers]
        return "".join(f"{host} slots=1\n" for host in hosts).encode()

    @cached_property
    def _injector(self) -> bytes:
        lines = ["#!/bin/bash"]
        for role, peers in self.roster.roles.items():
            name, hosts = f"FB_{role.upper()}", [_bracketed(peer) for peer in peers]
            addresses = ",".join(f"{host}:${{{name}_PORT}}" for host in hosts)
            for variable, value in (
                (f"{name}_IPS", ",".join(peer.ip for peer in peers)),
                (f"{name}_ADDRESSES", addresses),
            ):
                lines += [_set(variable, f'"{value}"'), f'echo "{variable}=${variable}"']
        return "".join(f"{line}\n" for line in lines).encode()

    def _hosts_env(self, asker: TaskId | None) -> Pieces:
        return (self._env_of_all,) if asker is None else (self._env_of_all, self._env_of(asker))

    @cached_property
    def _env_of_all(self) -> bytes:
        lines = [f"export LAUNCHER_GENERATION={self.roster.generation}"]
        for name, value in host_variables(self._peers):
            # As the manual has it, and as other systems do.
            lines += [_set(name.lower(), shlex.quote(value)), _set(name, f'"${name.lower()}"', len(value))]
        lines += [_set(name, shlex.quote(value)) for name, value in self._master()]
        return "".join(f"{line}\n" for line in lines).encode()

    def _master(self) -> Iterator[tuple[str, str]]:
        ranks = first_ranks(self._spec)
        first = min(ranks, key=lambda role: ranks[role], default=None)
        if first in self.roster.roles:
            plain = (
                RolePeers(role, [p.ip for p in peers], [p.port for p in peers])
                for role, peers in self._ranked
            )
            yield from master_variables(plain)

    def _env_of(self, asker: TaskId) -> bytes:
        ranks, size = first_ranks(self._spec), world_size(self._spec)
        lines = []
        if asker.role in ranks:
            own = rank_variables(str(ranks[asker.role] + asker.index), size)
            lines += [_set(name, str(value)) for name, value in own]
        port = self._peer(asker).port
        if port is not None:
            lines.append(_set("LAUNCHER_PORT", str(port)))
        if (discovery := self._spec.discovery) is not None and (config := self._tf_config(asker)):
            file = shlex.quote(f"{discovery.mount_path.rstrip('/')}/{TF_CONFIG}")
            if sum(map(len, config)) <= _LONGEST:
                lines.append(f'if [ -r {file} ]; then TF_CONFIG="$(cat {file})"; export TF_CONFIG; fi')
        return "".join(f"{line}\n" for line in lines).encode()

    def _peer(self, asker: TaskId) -> Peer:
        peers = self.roster.roles.get(asker.role, ())
        if asker.index >= len(peers):
            raise BadRequest(f"task: there is no task {asker.role}/{asker.index} in this Framework")
        return peers[asker.index]

    def _tf_config(self, asker: TaskId | None) -> Pieces:
        if asker is None:
            return ()
        if asker.role not in self._tf_configs:
            text = tf_config_of(self._peers, asker.role, _GAP)
            self._tf_configs[asker.role] = tuple(text.encode().split(_GAP.encode())) if text else ()
        pieces = self._tf_configs[asker.role]
        return (pieces[0], str(asker.index).encode() + pieces[1] + b"\n") if pieces else ()


def framework_file(framework: Mapping[str, Any], roster: PeerList) -> bytes:
    """The Framework as FrameworkController's barrier leaves it: every listed task has its address."""
    status = framework.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    roles = [_addressed(role, roster) for role in attempt.get("taskRoleStatuses") or ()]
    if not roles:
        return _line(framework)
    return _line({**framework, "status": {**status, "attemptStatus": {**attempt, "taskRoleStatuses": roles}}})


def _addressed(role: Mapping[str, Any], roster: PeerList) -> Mapping[str, Any]:
    # The status is saved a moment after an address is known.
    peers = {peer.index: peer for peer in roster.roles.get(role.get("name") or RoleName(""), ())}
    tasks = role.get("taskStatuses")
    if not tasks:
        return role
    return {**role, "taskStatuses": [_with_address(task, peers.get(task.get("index"))) for task in tasks]}


def _with_address(task: Mapping[str, Any], peer: Peer | None) -> Mapping[str, Any]:
    if peer is None:
        return task
    attempt = task.get("attemptStatus") or {}
    return {**task, "attemptStatus": {**attempt, "podIP": peer.ip, "podHostIP": peer.host_ip}}


def _told(peer: Peer) -> dict[str, Any]:
    told = {"index": peer.index, "ip": peer.ip, "hostIP": peer.host_ip, "host": peer.pod}
    return told if peer.port is None else {**told, "port": peer.port}


def _bracketed(peer: Peer) -> str:
    return f"[{peer.ip}]" if ":" in peer.ip else peer.ip


def _set(name: str, value: str, length: int | None = None) -> str:
    """A line that sets the variable, for programs too if they can still be started with it."""
    return f"{'export ' if (length or len(value)) <= _LONGEST else ''}{name}={value}"


def _line(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
