"""A namespace for one test, and builders of its objects."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders import Json, a_framework, a_role
from tests.local.server import GROUP, Server


def wait_for_file(file: str) -> str:
    """Returns the beginning of a script that waits until the test creates *file*."""
    return f"until [ -e /gate/{file} ]; do sleep 0.05; done; "


@dataclass(frozen=True, slots=True)
class IsolatedNamespace:
    """A namespace on a server that is shared with other tests."""

    server: Server
    namespace: str
    #: A directory that is mounted at ``/gate`` in containers.
    gate: Path
    image: str = "none"

    @property
    def frameworks(self) -> str:
        """The path of the namespace's Frameworks."""
        return f"{GROUP}/namespaces/{self.namespace}/frameworks"

    @property
    def pods(self) -> str:
        """The path of the namespace's pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create_file(self, file: str) -> None:
        """Creates *file*, for which scripts wait."""
        (self.gate / file).touch()

    def restart_server(self) -> None:
        """Restarts the launcher, so that its watch cache is empty."""
        self.server.post(self.frameworks, self.suspended("before"))
        self.server.kill()
        self.server.start()

    def framework(self, name: str = "mnist", script: str = "true", *, tasks: int = 1, **spec: Any) -> Json:
        """Returns a Framework whose tasks run *script*."""
        return a_framework(a_role(tasks=tasks, pod={"spec": self._pod_spec(main=script)}), name=name, **spec)

    def suspended(self, name: str = "mnist", *, tasks: int = 1, **spec: Any) -> Json:
        """Returns a Framework with executionType Create, which the controller does not change."""
        return self.framework(name, tasks=tasks, executionType="Create", **spec)

    def pod(self, name: str = "alone", *, restart: str = "Never", **scripts: str) -> Json:
        """A pod with a container for each script."""
        spec = {**self._pod_spec(**scripts), "restartPolicy": restart}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def _pod_spec(self, **scripts: str) -> Json:
        containers = [
            {
                "name": name,
                "image": self.image,
                "command": ["sh", "-c", script],
                # Identifies the processes of the server at the end of the test.
                "env": [{"name": "LAUNCHER_TEST", "value": str(self.server.data)}],
                "volumeMounts": [{"name": "gate", "mountPath": "/gate"}],
            }
            for name, script in scripts.items()
        ]
        volume = {"name": "gate", "hostPath": {"path": str(self.gate), "type": "Directory"}}
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": containers,
            "volumes": [volume],
        }
