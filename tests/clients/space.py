"""A namespace that one test has to itself, and what a test puts there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.core.manifests import Json, a_framework, a_role
from tests.local.server import GROUP, Server


def once(file: str) -> str:
    """The beginning of a script that goes on when the test opens *file*."""
    return f"until [ -e /gate/{file} ]; do sleep 0.05; done; "


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace on a server that other tests use too."""

    server: Server
    namespace: str
    #: A directory that containers see as ``/gate``.
    gate: Path

    @property
    def frameworks(self) -> str:
        """Where the namespace's Frameworks stand in the API."""
        return f"{GROUP}/namespaces/{self.namespace}/frameworks"

    @property
    def pods(self) -> str:
        """Where the namespace's pods stand in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def open(self, file: str) -> None:
        """Let those who wait for *file* go on."""
        (self.gate / file).touch()

    def forget(self) -> None:
        """Start the launcher anew: it knows all there is, and no longer how that came about."""
        self.server.post(self.frameworks, self.held("before"))
        self.server.kill()
        self.server.start()

    def framework(self, name: str = "mnist", script: str = "true", *, tasks: int = 1, **spec: Any) -> Json:
        """A Framework whose tasks run *script*."""
        return a_framework(a_role(tasks=tasks, pod={"spec": self._pod_spec(main=script)}), name=name, **spec)

    def held(self, name: str = "mnist", *, tasks: int = 1, **spec: Any) -> Json:
        """A Framework that is not to start yet, so that nobody but the test changes it."""
        return self.framework(name, tasks=tasks, executionType="Create", **spec)

    def pod(self, name: str = "alone", *, restart: str = "Never", **scripts: str) -> Json:
        """A pod with a container for each script."""
        spec = {**self._pod_spec(**scripts), "restartPolicy": restart}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def _pod_spec(self, **scripts: str) -> Json:
        containers = [
            {
                "name": name,
                "image": "none",
                "command": ["sh", "-c", script],
                # By this the server's processes are found when the test is over.
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
