"""Jobs of Kubeflow's, and what becomes of them."""

from collections.abc import Mapping
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.registry import convert_to_framework
from launcher.core.manifest import framework_of, validate_framework
from launcher.core.rendered_pods import rendered_pods

Json = dict[str, Any]

_SHAPES: Mapping[str, tuple[str, str]] = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "MPIJob": ("mpiReplicaSpecs", "mpi"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}


def a_job(kind: str, types: Mapping[str, int], **spec: Any) -> Json:
    """A job named dist of that kind, with so many replicas of each type."""
    field, _ = _SHAPES[kind]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "dist", "namespace": "ns1"},
        "spec": {field: {name: replicas(kind, count) for name, count in types.items()}, **spec},
    }


def replicas(kind: str, count: int, **container: Any) -> Json:
    """So many pods with one container of that kind."""
    main = {"name": _SHAPES[kind][1], "image": "x:1", **container}
    return {"replicas": count, "template": {"spec": {"containers": [main]}}}


def types_of(job: Json) -> Json:
    """The replicas, to be changed by a test."""
    types: Json = job["spec"][_SHAPES[job["kind"]][0]]
    return types


def container_of(job: Json, type_: str) -> Json:
    """The container of such a replica, to be changed by a test."""
    container: Json = types_of(job)[type_]["template"]["spec"]["containers"][0]
    return container


def mapped(job: Json) -> Conversion:
    """The Framework, which breaks no rule and has no field that is unknown."""
    found = convert_to_framework(job)
    validate_framework(found.framework, strict=True)
    return found


def roles_of(job: Json) -> dict[str, Json]:
    return {role["name"]: role for role in mapped(job).framework["spec"]["taskRoles"]}


def pods_of(job: Json) -> dict[str, Json]:
    framework = validate_framework(mapped(job).framework).object
    return {pod["metadata"]["name"]: pod for pod in rendered_pods(framework_of(framework))}


def variables_of(job: Json, pod: str, container: int = 0) -> dict[str, str]:
    """The variables of a container that the conversion adds, in order."""
    env = pods_of(job)[pod]["spec"]["containers"][container]["env"]
    ours = [each for each in env if not each["name"].startswith("FC_")]
    after = next(at for at, each in enumerate(ours) if each["name"] == "taskrole") + 1
    named = {each["name"]: each.get("value", "") for each in ours[after:]}
    return {name: value for name, value in named.items() if not name.endswith("_tasknum")}
