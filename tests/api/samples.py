"""What the tests of the API send again and again."""

from typing import Any

from tests import builders
from tests.api.client import MERGE, Client

GROUP = "launcher.microsoft.com"
ALL = f"/apis/{GROUP}/v1/frameworks"
#: The Frameworks of the namespace that most tests use.
B = f"/apis/{GROUP}/v1/namespaces/default/frameworks"
A = f"{B}/a"
RESOURCE = f"frameworks.{GROUP}"
#: What kubectl sends when it prints a table.
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,"
    "application/json"
)

Json = dict[str, Any]


def framework(name: str = "a", **metadata: Any) -> Json:
    """A valid Framework of one role."""
    obj = builders.a_framework(name=name)
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


async def made(api: Client, name: str = "a", namespace: str = "default", **metadata: Any) -> Json:
    """A Framework, stored."""
    response = await api.post(B.replace("default", namespace), framework(name, **metadata))
    assert response.status == 201, response.body
    stored: Json = response.json()
    return stored


async def labelled(api: Client, name: str, **labels: str | None) -> Json:
    """The Framework with these labels changed."""
    response = await api.patch(f"{B}/{name}", {"metadata": {"labels": labels}}, MERGE)
    assert response.status == 200, response.body
    stored: Json = response.json()
    return stored


def version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def with_metadata(obj: Json, **fields: Any) -> Json:
    """Returns a copy with these fields of its metadata; None removes one."""
    metadata = {name: value for name, value in (obj["metadata"] | fields).items() if value is not None}
    return {**obj, "metadata": metadata}


def with_spec(obj: Json, **fields: Any) -> Json:
    return {**obj, "spec": {**obj["spec"], **fields}}


def names(listed: Json) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def causes(status: Json) -> dict[str, str]:
    """The reason of each field that is wrong."""
    return {cause["field"]: cause["reason"] for cause in status["details"]["causes"]}
