"""
TF_CONFIG of a TFJob's tasks, with placeholders for what differs from task to task.

It is the one line that the training operator writes, byte for byte, once the placeholders are filled in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from launcher.core.names import Mark
from launcher.core.tfconfig import task_of, tf_config

_INDEX = f"{{{{{Mark.TASK_INDEX}}}}}"
_NAME = f"{{{{{Mark.FRAMEWORK_NAME}}}}}"
_NAMESPACE = f"{{{{{Mark.FRAMEWORK_NAMESPACE}}}}}"
_EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class Peers:
    """The tasks of one type: how many there are, and where each listens."""

    type: str
    count: int
    port: int

    def address(self, index: int | str, domain: str) -> str:
        """``mnist-worker-0.default.svc:2222``; *domain* is the cluster's, if it is to be named."""
        return f"{_NAME}-{self.type}-{index}.{_NAMESPACE}.svc{domain and f'.{domain}'}:{self.port}"

    def addresses(self, domain: str) -> list[str]:
        return [self.address(index, domain) for index in range(self.count)]


def dense(peers: Sequence[Peers], type_: str, *, domain: str = "", evaluators: bool = True) -> str:
    """What tasks of *type_* are told: all tasks, and their own place. Old operators left *evaluators* out."""
    listed = [each for each in peers if evaluators or each.type != _EVALUATOR]
    return tf_config({each.type: each.addresses(domain) for each in listed}, type_, _INDEX)


def sparse(peers: Iterable[Peers], type_: str, *, domain: str = "") -> str:
    """The same where workers come and go: a worker knows itself and the parameter servers, those only themselves."""
    workers: dict[str, str] = {}
    servers: list[str] = []
    for each in peers:
        own = each.address(_INDEX, domain)
        if each.type == type_ == "worker":
            workers = {_INDEX: own}
        elif each.type == "ps" and type_ in ("worker", "ps"):
            servers = [own] if type_ == "ps" else each.addresses(domain)
    cluster = f'{{"worker":{_written(workers)},"ps":{_written(servers)}}}'
    return f'{{"cluster":{cluster},"task":{task_of(type_, _INDEX)}}}'


def _written(value: object) -> str:
    return orjson.dumps(value).decode()
