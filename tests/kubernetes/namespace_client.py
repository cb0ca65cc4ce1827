"""A user's view of one namespace, and the launcher's requests in it from the audit log."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from tests.builders import Json
from tests.cluster.audit import AuditedRequest
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pods import end_annotations
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.launcher import USER_AGENT

T = TypeVar("T")

GROUP = "launcher.microsoft.com"

#: The time limit for slow controllers of the cluster: the garbage collector discovers new kinds every half minute.
SLOW_CONTROLLER_SECONDS = 150.0


def frameworks_path(namespace: str, name: str = "") -> str:
    """The API path of the Frameworks of a namespace, or of one of them."""
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/frameworks" + (name and f"/{name}")


def a_task_pod(
    ends: str | None = None, *, after: str | None = None, exit_code: str | None = None, **spec: Any
) -> Json:
    """A pod template whose pods end on simulated nodes as specified, or run until annotated."""
    container = {"name": "main", "image": "busybox"}
    return {
        "metadata": {"annotations": end_annotations(ends, after=after, exit_code=exit_code)},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


class NamespaceClient:
    """A user's view of one namespace."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._mark = cluster.audit.mark()

    @property
    def frameworks(self) -> str:
        return frameworks_path(self.namespace)

    def path(self, plural: str, name: str = "") -> str:
        """Returns the path of core objects, or of one of them."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (name and f"/{name}")

    def kubectl(self, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin, ok=ok)

    def delete_without_waiting(self, kind: str, name: str, *options: str) -> None:
        """Deletes an object that the launcher recreates, without waiting for it as kubectl would."""
        self.kubectl("delete", kind, name, "--wait=false", *options)

    def submit(self, framework: Mapping[str, Any]) -> None:
        """Creates the Framework with kubectl."""
        self.kubectl("create", "-f", "-", stdin=orjson.dumps(framework).decode())

    # Objects.

    def framework(self, name: str = "mnist") -> Any:
        """Returns the current Framework, ``{}`` if it was deleted."""
        response = self.cluster.admin.request("GET", frameworks_path(self.namespace, name))
        return response.body if response.status == 200 else {}

    def task(self, index: int = 0, role: int = 0, name: str = "mnist") -> Any:
        """Returns the status of one task."""
        return self.framework(name)["status"]["attemptStatus"]["taskRoleStatuses"][role]["taskStatuses"][
            index
        ]

    def pods(self) -> dict[str, Any]:
        """Returns every pod by name."""
        return {pod["metadata"]["name"]: pod for pod in self.cluster.admin.get(self.path("pods"))["items"]}

    def events(self, reason: str) -> list[str]:
        """Returns the messages of Framework events with that reason."""
        events = self.cluster.admin.get(self.path("events"))["items"]
        return [
            e["message"]
            for e in events
            if (e["reason"], e["involvedObject"]["kind"]) == (reason, "Framework")
        ]

    # Waiting.

    def until(self, probe: Callable[[], T | None], what: str, within: float = TIMEOUT_SECONDS) -> T:
        return until(probe, f"{what} in {self.namespace}", within)

    def wait_completed(self, name: str = "mnist", within: float = TIMEOUT_SECONDS) -> Any:
        """Waits for the completion of the Framework and returns it."""

        def probe() -> Any:
            framework = self.framework(name)
            return framework if framework.get("status", {}).get("state") == "Completed" else None

        return self.until(probe, f"{name} is completed", within)

    def wait_running(self, *names: str) -> None:
        """Waits until exactly these pods exist and run."""

        def probe() -> bool | None:
            pods = {
                name: pod["status"]["phase"] for name, pod in self.pods().items() if not _is_terminating(pod)
            }
            return pods == dict.fromkeys(names, "Running") or None

        self.until(probe, f"{', '.join(names)} run")

    def wait_replaced(self, name: str, uid: str, within: float = TIMEOUT_SECONDS) -> None:
        """Waits until another pod of that name runs than the one with that uid."""

        def probe() -> bool | None:
            pod = self.pods().get(name)
            return (
                pod is not None and pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running"
            ) or None

        self.until(probe, f"another {name} runs", within)

    def end_pod(self, pod: str, ends: str, exit_code: str = "1") -> None:
        """Ends a running pod."""
        annotations = end_annotations(ends, exit_code=exit_code)
        self.cluster.admin.patch(self.path("pods", pod), {"metadata": {"annotations": annotations}})

    @property
    def is_edited_by_others(self) -> bool:
        """Whether another client has changed or deleted a Framework of this namespace."""
        return any(
            (request.namespace, request.resource) == (self.namespace, "frameworks")
            and request.verb in {"update", "patch", "delete"}
            and not request.user_agent.startswith(USER_AGENT)
            for request in self.cluster.audit.since(self._mark)
        )

    # Requests of the launcher.

    def launcher_requests(self, verb: str, resource: str, subresource: str = "") -> list[AuditedRequest]:
        """Returns such requests of the launcher in this namespace since this view was created."""
        return [
            request
            for request in self.cluster.audit.since(self._mark, user_agent=USER_AGENT)
            if (request.namespace, request.verb, request.resource, request.subresource)
            == (self.namespace, verb, resource, subresource)
        ]


def _is_terminating(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]
