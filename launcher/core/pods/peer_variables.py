"""Environment variables with the addresses of a task's peers, either DNS names or IP addresses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from launcher.core.spec import FrameworkSpec, RoleName

#: Task types of TensorFlow.
TF_TASK_TYPES = ("chief", "master", "worker", "ps", "evaluator")
#: The default port of a TensorFlow task.
TF_PORT = 2222


def tf_config(cluster: Mapping[str, Sequence[str]], type_: str, index: int | str) -> str:
    """
    TF_CONFIG of task *index* of *type_*: every task's ``host:port`` by type, and its own type and index.

    An index that is a string, such as a placeholder, is written without quotes.
    """
    sorted_cluster = {type_name: list(cluster[type_name]) for type_name in sorted(cluster)}
    cluster_json = orjson.dumps(sorted_cluster).decode()
    return f'{{"cluster":{cluster_json},"task":{tf_task(type_, index)},"environment":"cloud"}}'


def tf_task(type_: str, index: int | str) -> str:
    """The ``task`` part of TF_CONFIG."""
    return f'{{"type":"{type_}","index":{index}}}'


#: Roles whose tasks have the lowest ranks.
FIRST_ROLES = ("master", "chief")
#: The default port of rank 0, as in PyTorch.
MASTER_PORT = 23456


@dataclass(frozen=True, slots=True)
class RolePeers:
    """The addresses of the tasks of one role."""

    role: RoleName
    #: By task index.
    hosts: Sequence[str]
    #: By task index; None if unknown.
    ports: Sequence[int | None]

    def addresses(self, default: int | None = None) -> list[str]:
        """``host:port`` of each task, or only its host if it has no port."""
        pairs = zip(self.hosts, self.ports, strict=True)
        return [f"{host}:{port or default}" if port or default else host for host, port in pairs]


def first_ranks(spec: FrameworkSpec) -> dict[RoleName, int]:
    """The rank of each role's first task; background roles are skipped."""
    ranks, rank = {}, 0
    roles = [role for role in spec.roles if not role.background]
    for role in sorted(roles, key=lambda role: role.name not in FIRST_ROLES):
        ranks[role.name] = rank
        rank += role.tasks
    return ranks


def world_size(spec: FrameworkSpec) -> int:
    """The number of tasks, without those of background roles."""
    return sum(role.tasks for role in spec.roles if not role.background)


def rank_variables(rank: object, size: int) -> Iterator[tuple[str, object]]:
    """The rank of a task and the number of ranks; *rank* is a string or a JSON fragment."""
    yield "WORLD_SIZE", str(size)
    yield "RANK", rank
    yield "PET_NNODES", str(size)
    yield "PET_NODE_RANK", rank


def master_variables(peers: Iterable[RolePeers]) -> Iterator[tuple[str, str]]:
    """The address of rank 0: the first task of the first of *peers* that has any."""
    for role_peers in peers:
        if role_peers.hosts:
            port = str(role_peers.ports[0] or MASTER_PORT)
            yield from (("MASTER_ADDR", role_peers.hosts[0]), ("MASTER_PORT", port))
            yield from (("PET_MASTER_ADDR", role_peers.hosts[0]), ("PET_MASTER_PORT", port))
            return


def host_variables(peers: Iterable[RolePeers]) -> Iterator[tuple[str, str]]:
    """``WORKER_HOSTS`` and so on: the addresses of all tasks of a role."""
    for role_peers in peers:
        # A variable name may not start with a digit; older clusters would reject the pod.
        if role_peers.hosts and not role_peers.role[0].isdigit():
            yield f"{role_peers.role.upper()}_HOSTS", ",".join(role_peers.addresses())


def tf_config_of(peers: Iterable[RolePeers], role: RoleName, index: int | str) -> str | None:
    """TF_CONFIG of one task; None if the role is not a task type of TensorFlow, or there are no peers."""
    cluster: Mapping[str, list[str]] = {
        role_peers.role: role_peers.addresses(TF_PORT)
        for role_peers in peers
        if role_peers.role in TF_TASK_TYPES and role_peers.hosts
    }
    if role not in cluster or sum(map(len, cluster.values())) == 1:
        return None
    return tf_config(cluster, role, index)
