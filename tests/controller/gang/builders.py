"""Gangs to look at: small Frameworks with everything that a test does not name."""

import itertools
from typing import Any

from launcher.controller.framework_state import framework_from_json
from launcher.controller.gang.gang_request import GangRequest
from launcher.core.framework import Framework
from launcher.core.pods.pod_template import compile_templates
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, Object, Store
from tests.core.manifests import Json, a_framework, a_pod, a_role

NOW = 1_700_000_000.0


def a_store() -> MemoryStore:
    """An empty one, whose clock stands still."""
    uids = (f"00000000-0000-0000-0000-{number:012}" for number in itertools.count(1))
    return MemoryStore(lambda: NOW, lambda: next(uids))


def a_gang(*roles: Json, gang: Json | None = None, name: str = "mnist", **metadata: Any) -> Object:
    """A Framework as it is submitted."""
    obj = a_framework(*(roles or (a_role(tasks=3),)), name=name, gang={} if gang is None else gang)
    obj["metadata"] |= {"namespace": "default", **metadata}
    return obj


def read(obj: Object) -> Framework:
    """The Framework that *obj* is, stored or not."""
    meta = {"uid": "6a5b3f64-0d7f-4c7b-8a4f-0d1f7f7e0d11", "generation": 1, **obj["metadata"]}
    return framework_from_json({**obj, "metadata": meta})


def wanted(*roles: Json, gang: Json | None = None, attempt: int = 0, ended: int = 0) -> GangRequest:
    return GangRequest(read(a_gang(*roles, gang=gang)), attempt, ended)


def asking(cpu: str, **spec: Any) -> Json:
    """A pod that asks for so much."""
    pod = a_pod(**spec)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def stored(store: Store, obj: Object) -> Framework:
    return read(await store.create(FRAMEWORKS, obj))


def pods_of(framework: Framework, extras: Any, attempt: int = 0) -> list[Object]:
    """The pods as the controller would create them."""
    templates = compile_templates(framework, attempt, extras)
    return [
        templates[role.name].pod(index, 0, 0) for role in framework.spec.roles for index in range(role.tasks)
    ]
