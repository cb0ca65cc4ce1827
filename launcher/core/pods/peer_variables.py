"""What a task is told of its peers by plain variables, whether these are known by names or by addresses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from launcher.core.spec import FrameworkSpec, RoleName

#: The types of tasks that TensorFlow knows.
TYPES = ("chief", "master", "worker", "ps", "evaluator")
#: Where a task listens if nothing else is said.
TF_PORT = 2222


def tf_config(cluster: Mapping[str, Sequence[str]], type_: str, index: int | str) -> str:
    """
    What task *index* of *type_* is told: every task's ``host:port`` by type, and its own place.

    An index that is a text, such as a placeholder, stands there without quotes.
    """
    sorted_cluster = {each: list(cluster[each]) for each in sorted(cluster)}
    written = orjson.dumps(sorted_cluster).decode()
    return f'{{"cluster":{written},"task":{task_of(type_, index)},"environment":"cloud"}}'


def task_of(type_: str, index: int | str) -> str:
    """The part that says who reads it."""
    return f'{{"type":"{type_}","index":{index}}}'


#: Tasks of these roles come first when tasks are counted through, so theirs is rank 0.
FIRST = ("master", "chief")
#: Where rank 0 waits for the others if nothing else is said, as PyTorch's users know it.
MASTER_PORT = 23456


@dataclass(frozen=True, slots=True)
class RolePeers:
    """The tasks of one role, as others find them."""

    role: RoleName
    #: Of each task, by its index.
    hosts: Sequence[str]
    #: Of each task; one that is None has none that is known.
    ports: Sequence[int | None]

    def addresses(self, default: int | None = None) -> list[str]:
        """``host:port`` of each task, or its host where there is no port."""
        pairs = zip(self.hosts, self.ports, strict=True)
        return [f"{host}:{port or default}" if port or default else host for host, port in pairs]


def first_ranks(spec: FrameworkSpec) -> dict[RoleName, int]:
    """The rank of each role's first task; roles in the background are not counted."""
    ranks, rank = {}, 0
    roles = [role for role in spec.roles if not role.background]
    for role in sorted(roles, key=lambda role: role.name not in FIRST):
        ranks[role.name] = rank
        rank += role.tasks
    return ranks


def world_size(spec: FrameworkSpec) -> int:
    """How many tasks are counted."""
    return sum(role.tasks for role in spec.roles if not role.background)


def rank_variables(rank: object, size: int) -> Iterator[tuple[str, object]]:
    """Which of how many a task is; *rank* is a text or what stands for one."""
    yield "WORLD_SIZE", str(size)
    yield "RANK", rank
    yield "PET_NNODES", str(size)
    yield "PET_NODE_RANK", rank


def master_variables(peers: Iterable[RolePeers]) -> Iterator[tuple[str, str]]:
    """Where rank 0 is, the first task of the first of these *peers* that has one."""
    for each in peers:
        if each.hosts:
            port = str(each.ports[0] or MASTER_PORT)
            yield from (("MASTER_ADDR", each.hosts[0]), ("MASTER_PORT", port))
            yield from (("PET_MASTER_ADDR", each.hosts[0]), ("PET_MASTER_PORT", port))
            return


def host_variables(peers: Iterable[RolePeers]) -> Iterator[tuple[str, str]]:
    """``WORKER_HOSTS`` and the like: every task of a role, with its port if that is known."""
    for each in peers:
        # A variable may not begin with a digit; older clusters would turn the whole pod down.
        if each.hosts and not each.role[0].isdigit():
            yield f"{each.role.upper()}_HOSTS", ",".join(each.addresses())


def tf_config_of(peers: Iterable[RolePeers], role: RoleName, index: int | str) -> str | None:
    """TF_CONFIG of one task; None where TensorFlow does not know the role, or there is nobody else to find."""
    known: Mapping[str, list[str]] = {
        each.role: each.addresses(TF_PORT) for each in peers if each.role in TYPES and each.hosts
    }
    if role not in known or sum(map(len, known.values())) == 1:
        return None
    return tf_config(known, role, index)
