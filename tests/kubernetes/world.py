"""One namespace of a cluster, as its user works in it, and what the launcher asked the API server for there."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from tests.cluster.audit import Request
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json
from tests.kubernetes.launcher import USER_AGENT
from tests.local.server import PATIENCE, until

T = TypeVar("T")

#: Seconds for what controllers of the cluster do only now and then: the garbage collector looks every half minute
#: whether there is a new kind of object.
NOW_AND_THEN = 150.0


def a_task_pod(
    ends: str | None = None, *, after: str | None = None, exit_code: str | None = None, **spec: Any
) -> Json:
    """A pod template whose pods end on simulated nodes as it says, or run until somebody annotates them."""
    said = {"ends": ends, "after": after, "exit-code": exit_code}
    annotations = {f"launcher.test/{word}": value for word, value in said.items() if value is not None}
    container = {"name": "main", "image": "busybox"}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


class World:
    """A user's view of one namespace."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._mark = cluster.audit.mark()

    @property
    def frameworks(self) -> str:
        return f"/apis/launcher.microsoft.com/v1/namespaces/{self.namespace}/frameworks"

    def path(self, plural: str, name: str = "") -> str:
        """Where core objects are, or one of them."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (name and f"/{name}")

    def kubectl(self, *words: str, stdin: str | None = None, ok: bool = True) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin, ok=ok)

    def take_away(self, kind: str, name: str, *how: str) -> None:
        """Delete what the launcher will make anew: kubectl would wait until the one of that name is gone, too."""
        self.kubectl("delete", kind, name, "--wait=false", *how)

    def submit(self, framework: Mapping[str, Any]) -> None:
        """As users do it."""
        self.kubectl("create", "-f", "-", stdin=orjson.dumps(framework).decode())

    # What there is.

    def framework(self, name: str = "mnist") -> Any:
        """The Framework as it is now, ``{}`` when it is gone."""
        answer = self.cluster.admin.ask("GET", f"{self.frameworks}/{name}")
        return answer.body if answer.status == 200 else {}

    def task(self, index: int = 0, role: int = 0, name: str = "mnist") -> Any:
        """The status of one task."""
        return self.framework(name)["status"]["attemptStatus"]["taskRoleStatuses"][role]["taskStatuses"][
            index
        ]

    def pods(self) -> dict[str, Any]:
        """Every pod by its name."""
        return {pod["metadata"]["name"]: pod for pod in self.cluster.admin.get(self.path("pods"))["items"]}

    def events(self, reason: str) -> list[str]:
        """What the events of Frameworks with that reason say."""
        found = self.cluster.admin.get(self.path("events"))["items"]
        return [
            e["message"] for e in found if (e["reason"], e["involvedObject"]["kind"]) == (reason, "Framework")
        ]

    # What becomes of it.

    def until(self, look: Callable[[], T | None], what: str, within: float = PATIENCE) -> T:
        return until(look, f"{what} in {self.namespace}", within)

    def completed(self, name: str = "mnist", within: float = PATIENCE) -> Any:
        """The Framework, once it is over."""

        def look() -> Any:
            framework = self.framework(name)
            return framework if framework.get("status", {}).get("state") == "Completed" else None

        return self.until(look, f"{name} is completed", within)

    def running(self, *names: str) -> None:
        """Return when just these pods are there, and all of them run."""

        def look() -> bool | None:
            pods = {name: pod["status"]["phase"] for name, pod in self.pods().items() if not _is_going(pod)}
            return pods == dict.fromkeys(names, "Running") or None

        self.until(look, f"{', '.join(names)} run")

    def replaced(self, name: str, uid: str, within: float = PATIENCE) -> None:
        """Return when another pod of that name runs than the one with that uid."""

        def look() -> bool | None:
            pod = self.pods().get(name)
            return (
                pod is not None and pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running"
            ) or None

        self.until(look, f"another {name} runs", within)

    def end(self, pod: str, ends: str, exit_code: str = "1") -> None:
        """Let a pod that runs end so."""
        said = {"launcher.test/ends": ends, "launcher.test/exit-code": exit_code}
        self.cluster.admin.patch(self.path("pods", pod), {"metadata": {"annotations": said}})

    @property
    def is_edited_by_others(self) -> bool:
        """Whether anybody but the launcher has changed or deleted a Framework of this namespace."""
        return any(
            (request.namespace, request.resource) == (self.namespace, "frameworks")
            and request.verb in {"update", "patch", "delete"}
            and not request.user_agent.startswith(USER_AGENT)
            for request in self.cluster.audit.since(self._mark)
        )

    # What the launcher asked for.

    def asked(self, verb: str, resource: str, subresource: str = "") -> list[Request]:
        """Every such request that the launcher made in this namespace since this view of it began."""
        return [
            request
            for request in self.cluster.audit.since(self._mark, user_agent=USER_AGENT)
            if (request.namespace, request.verb, request.resource, request.subresource)
            == (self.namespace, verb, resource, subresource)
        ]


def _is_going(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]
