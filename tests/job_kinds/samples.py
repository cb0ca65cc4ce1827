"""Jobs as the tests write them."""

from typing import Any

Json = dict[str, Any]


def replicas(count: int | None = None, restart: str | None = None, **container: Any) -> Json:
    main = {"name": "tensorflow", "image": "tf:1", **container}
    found = {"replicas": count, "restartPolicy": restart, "template": {"spec": {"containers": [main]}}}
    return {name: value for name, value in found.items() if value is not None}


def a_tfjob(
    name: str = "dist",
    *,
    version: str = "v1",
    policy: Json | None = None,
    spec: Json | None = None,
    metadata: Json | None = None,
    **types: Json,
) -> Json:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "tfReplicaSpecs": types or {"Worker": replicas(2)},
            **({"runPolicy": policy} if policy else {}),
            **(spec or {}),
        },
    }


def states(job: Json) -> list[str]:
    """``Running=False``: each condition, in its order."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return [each["type"] + ("" if each["status"] == "True" else f"={each['status']}") for each in conditions]


def counts(job: Json) -> dict[str, Json]:
    """The numbers of ``replicaStatuses``, whose selectors are all right."""
    found = {}
    for type_, each in job["status"]["replicaStatuses"].items():
        assert each["selector"] == (
            f"training.kubeflow.org/job-name={job['metadata']['name']},"
            f"training.kubeflow.org/operator-name=tfjob-controller,"
            f"training.kubeflow.org/replica-type={type_.lower()}"
        )
        found[type_] = {name: number for name, number in each.items() if name != "selector"}
    return found
