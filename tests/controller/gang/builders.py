"""Builders of gangs: small Frameworks with defaults for everything that a test does not set."""

import itertools
from typing import Any

from launcher.controller.gang.gang_request import GangRequest
from launcher.core.framework import Framework
from launcher.core.pods.pod_template import compile_templates
from launcher.core.serialization.framework_json import framework_from_json
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, Object, Store
from tests.builders import Json, a_framework, a_pod_template, a_role

NOW = 1_700_000_000.0


def a_store() -> MemoryStore:
    """An empty store with a fixed clock."""
    uids = (f"00000000-0000-0000-0000-{number:012}" for number in itertools.count(1))
    return MemoryStore(lambda: NOW, lambda: next(uids))


def a_gang(*roles: Json, gang: Json | None = None, name: str = "mnist", **metadata: Any) -> Object:
    """A submitted Framework with a gang."""
    obj = a_framework(*(roles or (a_role(tasks=3),)), name=name, gang={} if gang is None else gang)
    obj["metadata"] |= {"namespace": "default", **metadata}
    return obj


def parse_framework(obj: Object) -> Framework:
    """The parsed Framework, with a uid if it was not stored."""
    meta = {"uid": "6a5b3f64-0d7f-4c7b-8a4f-0d1f7f7e0d11", "generation": 1, **obj["metadata"]}
    return framework_from_json({**obj, "metadata": meta})


def a_gang_request(
    *roles: Json, gang: Json | None = None, attempt: int = 0, completed_tasks: int = 0
) -> GangRequest:
    return GangRequest(parse_framework(a_gang(*roles, gang=gang)), attempt, completed_tasks)


def a_pod_requesting(cpu: str, **spec: Any) -> Json:
    """A pod template that requests *cpu*."""
    pod = a_pod_template(**spec)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def create_framework(store: Store, obj: Object) -> Framework:
    """Stores the Framework."""
    return parse_framework(await store.create(FRAMEWORKS, obj))


def pods_of(framework: Framework, overlays: Any, attempt: int = 0) -> list[Object]:
    """The pods that the controller creates with these overlays."""
    templates = compile_templates(framework, attempt, overlays)
    return [
        templates[role.name].pod(index, 0, 0) for role in framework.spec.roles for index in range(role.tasks)
    ]
