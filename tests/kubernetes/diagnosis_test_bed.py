"""Frameworks with one problem each on a cluster, whose diagnosis is read with a user's rights."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.core.causes import CAUSES
from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.nodes import node
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import GROUP, NamespaceClient, frameworks_path
from tests.launcher_process import PROJECT

#: Some findings need ten seconds of waiting, and the machine may be busy.
PATIENCE_SECONDS = 90.0
#: What a user needs for a complete diagnosis.
_NAMESPACE_RULES = [
    {"apiGroups": [GROUP], "resources": ["frameworks"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods", "events", "resourcequotas"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]
_NODE_RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]


def framework_name(cause: str) -> str:
    """``pend04`` for FL-PEND-04."""
    return cause.removeprefix("FL-").replace("-", "").lower()


@dataclass
class DiagnosisTestBed:
    """A launcher in front of a cluster, and the namespace of each situation."""

    plane: ControlPlane
    launcher: KubeLauncher
    directory: Path
    _namespaces: dict[str, NamespaceClient] = field(default_factory=dict)

    def __post_init__(self) -> None:
        #: Reads Frameworks, pods, events, quotas and nodes.
        self.reader = self._new_reader(*_NODE_RULES)
        #: The same without nodes.
        self.namespace_reader = self._new_reader()

    def _new_reader(self, *rules: dict[str, list[str]]) -> User:
        user = self.plane.new_user()
        self.plane.grant(user, [*_NAMESPACE_RULES, *rules])
        return user

    # Situations.

    def namespace(self, cause: str) -> NamespaceClient:
        """The namespace of that situation, with one Framework."""
        if cause not in self._namespaces:
            self._namespaces[cause] = NamespaceClient(self.plane, self.plane.new_namespace())
        return self._namespaces[cause]

    def create(self, cause: str, *roles: Json, metadata: Json | None = None, **spec: Any) -> NamespaceClient:
        """Creates the Framework of that situation, without the launcher's proxy."""
        ns = self.namespace(cause)
        framework = a_framework(*roles, name=framework_name(cause), metadata=metadata, **spec)
        self.plane.admin.post(ns.frameworks, framework)
        return ns

    def one(self, cause: str, pod: Json, tasks: int = 1, **framework: Any) -> NamespaceClient:
        """Creates a Framework with one role, whose pods wait even if they can never start."""
        return self.create(cause, a_role(tasks=tasks, task={"failFast": False, "pod": pod}), **framework)

    def pod_name(self, cause: str, index: int = 0) -> str:
        return f"{framework_name(cause)}-worker-{index}"

    def add_node(
        self, name: str, *, annotations: Json | None = None, labels: Json | None = None, **spec: Any
    ) -> None:
        """Adds a simulated node with the label ``purpose=NAME``."""
        template = node(200 + len(self.plane.admin.get("/api/v1/nodes")["items"]))
        all_labels = {"kubernetes.io/hostname": name, "purpose": name, **(labels or {})}
        metadata = {"name": name, "labels": all_labels, "annotations": annotations or {}}
        self.plane.admin.post("/api/v1/nodes", {**template, "metadata": metadata, "spec": spec})

    def make_unready(self, name: str, message: str) -> None:
        """Makes the node not ready, and waits until no pods are scheduled to it."""
        path = f"/api/v1/nodes/{name}"

        def is_tainted() -> bool:
            taints = self.plane.admin.get(path)["spec"].get("taints", ())
            return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)

        until(lambda: not is_tainted(), f"{name} is ready")
        annotations = {"launcher.test/unready": "true"}
        self.plane.admin.patch(path, {"metadata": {"annotations": annotations}})
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message}
        self.plane.admin.patch(f"{path}/status", {"status": {"conditions": [condition]}})
        until(is_tainted, f"{name} has the taint not-ready")

    def delete_all(self) -> None:
        """Deletes the namespaces of all situations, without waiting."""
        for ns in self._namespaces.values():
            self.plane.admin.request("DELETE", f"/api/v1/namespaces/{ns.namespace}")

    # Diagnosis.

    def diagnosis(self, cause: str, user: User | None = None) -> Any:
        """The diagnosis of that situation, requested by the user from the launcher's proxy."""
        path = frameworks_path(self.namespace(cause).namespace, framework_name(cause))
        token = (user or self.reader).token
        return self.launcher.get(f"{path}/diagnosis", "-H", f"Authorization: Bearer {token}")

    def finding(self, situation: str, cause: str = "", user: User | None = None) -> Json:
        """Waits until that cause, or else the one of the situation's name, is found in the situation."""
        seen: Any = None

        def probe() -> Json | None:
            nonlocal seen
            seen = self.diagnosis(situation, user)
            return next(
                (each for each in seen.get("findings", ()) if each["id"] == (cause or situation)), None
            )

        try:
            return until(probe, f"{cause or situation} is found", PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from error

    def expect(self, cause: str, words: str, evidence: tuple[str, str, str], step: str) -> Json:
        """
        Waits for the finding of the situation, checks and returns it.

        *words* are in its summary, *step* in its next step, and those of *evidence* in object, field and value of one
        of its evidences.
        """
        finding = self.finding(cause)
        obj, field_name, value = evidence
        assert words in finding["summary"]
        assert (finding["severity"], finding["waiting"]) == (CAUSES[cause].severity, CAUSES[cause].waiting)
        assert any(
            obj in each["object"] and field_name in each["field"] and value in each["value"]
            for each in finding["evidence"]
        ), finding["evidence"]
        assert step in finding["nextStep"]
        return finding

    def why(self, cause: str, *words: str) -> str:
        """The output of ``launcher why`` with the rights of the reader."""
        token = self.directory / "token"
        token.write_text(self.reader.token)
        options = (
            "-n",
            self.namespace(cause).namespace,
            "--server",
            self.launcher.url,
            "--token-file",
            str(token),
        )
        done = subprocess.run(
            [sys.executable, "-m", "launcher", "why", framework_name(cause), *words, *options],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            cwd=PROJECT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
