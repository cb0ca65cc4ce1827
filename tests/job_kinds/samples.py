"""Builders of jobs, and readers of their status."""

from typing import Any

Json = dict[str, Any]


def replicas(count: int | None = None, restart: str | None = None, **container: Any) -> Json:
    main = {"name": "tensorflow", "image": "tf:1", **container}
    spec = {"replicas": count, "restartPolicy": restart, "template": {"spec": {"containers": [main]}}}
    return {name: value for name, value in spec.items() if value is not None}


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
    """Returns the types of the conditions in order; ``Running=False`` for one that is not True."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return [c["type"] + ("" if c["status"] == "True" else f"={c['status']}") for c in conditions]


def counts(job: Json) -> dict[str, Json]:
    """Returns the counts of ``replicaStatuses``, and checks their selectors."""
    counts = {}
    for type_, status in job["status"]["replicaStatuses"].items():
        assert status["selector"] == (
            f"training.kubeflow.org/job-name={job['metadata']['name']},"
            f"training.kubeflow.org/operator-name=tfjob-controller,"
            f"training.kubeflow.org/replica-type={type_.lower()}"
        )
        counts[type_] = {name: number for name, number in status.items() if name != "selector"}
    return counts
