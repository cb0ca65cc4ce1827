"""The manifests of deploy/ are applied unchanged by a real API server, and its pods are admitted."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate.chart import CHART
from deploy.generate.manifests import COMPONENTS, OVERLAYS, Object, named
from tests.cluster.controlplane import ControlPlane
from tests.deploy.kustomize import kustomize, write_kustomization
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.account import LAUNCHER_NAMESPACE
from tests.launcher_process import PROJECT

#: Group and plural of the kinds of other projects in the components.
_THIRD_PARTY_KINDS = {
    "Certificate": ("cert-manager.io", "certificates"),
    "Issuer": ("cert-manager.io", "issuers"),
    "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors"),
}
_WEBHOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/framework-launcher"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{LAUNCHER_NAMESPACE}/deployments/framework-launcher"


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the CRDs of other projects, and without the launcher."""
    with ControlPlane(tmp_path_factory.mktemp("fresh"), programs, nodes=2) as control_plane:
        crds = [
            _crd_without_schema(kind, group, plural) for kind, (group, plural) in _THIRD_PARTY_KINDS.items()
        ]
        control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(crds))
        for group, plural in _THIRD_PARTY_KINDS.values():
            control_plane.until_served(f"/apis/{group}/v1/{plural}")
        yield control_plane


@pytest.fixture
def installed(plane: ControlPlane) -> None:
    """Installs the default overlay."""
    plane.kubectl("apply", "-k", str(OVERLAYS / "default"))
    plane.until_served("/apis/launcher.microsoft.com/v1/frameworks")


@pytest.mark.parametrize("overlay", sorted(path.name for path in OVERLAYS.iterdir()))
def test_an_overlay_is_applied_completely_and_unchanged(
    plane: ControlPlane, programs: Path, overlay: str
) -> None:
    written = kustomize(programs / "kubectl", OVERLAYS / overlay)

    plane.kubectl("apply", "--validate=strict", "-k", str(OVERLAYS / overlay))

    assert plane.kubectl("diff", "-k", str(OVERLAYS / overlay)) == ""
    stored = json.loads(plane.kubectl("get", "-k", str(OVERLAYS / overlay), "-o", "json"))["items"]
    for obj in written:
        found = named(stored, obj["kind"], obj["metadata"]["name"])
        assert _differences(found, obj) == [], (obj["kind"], obj["metadata"]["name"])


@pytest.mark.parametrize("component", sorted(path.name for path in COMPONENTS.iterdir()))
def test_a_component_is_applied_with_the_base(
    plane: ControlPlane, installed: None, tmp_path: Path, component: str
) -> None:
    directory = write_kustomization(tmp_path, [component])

    plane.kubectl("apply", "--validate=strict", "--dry-run=server", "-k", str(directory))


def test_the_launchers_pods_are_admitted_and_selected_by_its_service(
    plane: ControlPlane, installed: None
) -> None:
    def is_rolled_out() -> bool | None:
        deployment = plane.admin.get(_DEPLOYMENT)
        status, counts = deployment["status"], ("replicas", "updatedReplicas", "readyReplicas")
        is_observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return (is_observed and [status.get(name) for name in counts] == [2, 2, 2]) or None

    def has_endpoints() -> bool | None:
        slices = plane.admin.get(f"/apis/discovery.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/endpointslices")
        ports = {port["port"] for item in slices["items"] for port in item["ports"] or ()}
        return ports == {8443} or None

    def allows_one_disruption() -> bool | None:
        budget = plane.admin.get(
            f"/apis/policy/v1/namespaces/{LAUNCHER_NAMESPACE}/poddisruptionbudgets/framework-launcher"
        )
        return budget["status"].get("disruptionsAllowed") == 1 or None

    until(is_rolled_out, "both replicas are ready")
    until(has_endpoints, "the Service has endpoints with their port")
    until(allows_one_disruption, "the disruption budget allows one disruption")
    path = f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/pods?labelSelector={_selector()}"
    pods = plane.admin.get(path)["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert {pod["spec"]["priority"] for pod in pods} == {1_000_000}


def test_privileged_pods_are_rejected_in_the_namespace(plane: ControlPlane, installed: None) -> None:
    pod = {
        "metadata": {"name": "greedy"},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": "busybox"}]},
    }

    response = plane.admin.request("POST", f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/pods?dryRun=All", pod)

    assert response.status == 403
    assert "violates PodSecurity" in response.body["message"]


def test_the_ca_bundle_of_the_webhooks_survives_an_upgrade(plane: ControlPlane, installed: None) -> None:
    authority = _write_authority(plane)

    plane.kubectl("apply", "-k", str(OVERLAYS / "default"))
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(OVERLAYS / "default"))

    assert plane.admin.get(_WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"] == authority


def test_uninstalling_the_launcher_keeps_frameworks(plane: ControlPlane, installed: None) -> None:
    plane.kubectl("apply", "-f", str(PROJECT / "examples" / "hello.yaml"))

    plane.kubectl("delete", "--ignore-not-found", "-k", str(OVERLAYS / "without-crd"))

    assert plane.kubectl("get", "frameworks", "-o", "name") == "framework.launcher.microsoft.com/hello\n"
    assert plane.kubectl("get", "all,clusterroles", "-A", "-l", _selector(), "-o", "name") == ""


def test_helm_installs_upgrades_and_uninstalls_the_launcher_and_keeps_frameworks(
    plane: ControlPlane, helm: Path, tmp_path: Path
) -> None:
    plane.kubectl("delete", "--ignore-not-found", "-k", str(OVERLAYS / "default"))
    environment = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    environment["HOME"] = str(tmp_path)  # the parent of its discovery cache

    def run(*arguments: str) -> None:
        done = subprocess.run(
            [helm, f"--kubeconfig={plane.kubeconfig}", "--namespace=elsewhere", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("install", "launcher", str(CHART), "--create-namespace", "--set=replicas=1")
    plane.until_served("/apis/launcher.microsoft.com/v1/frameworks")
    plane.kubectl("apply", "-f", str(PROJECT / "examples" / "hello.yaml"))
    authority = _write_authority(plane)
    run("upgrade", "launcher", str(CHART), "--set=replicas=2")
    upgraded = plane.admin.get("/apis/apps/v1/namespaces/elsewhere/deployments/framework-launcher")
    webhook = plane.admin.get(_WEBHOOK)
    run("uninstall", "launcher", "--wait", "--cascade=foreground")

    assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == authority
    assert upgraded["spec"]["replicas"] == 2
    assert plane.kubectl("get", "frameworks", "-o", "name") == "framework.launcher.microsoft.com/hello\n"
    assert plane.kubectl("get", "all,clusterroles", "-A", "-l", _selector(), "-o", "name") == ""


def _selector() -> str:
    return "app.kubernetes.io/name=framework-launcher"


def _write_authority(cluster: ControlPlane) -> str:
    """Writes a CA bundle as the launcher does, with any CA."""
    authority = base64.b64encode(cluster.ca.read_bytes()).decode()
    change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]
    cluster.kubectl(
        "patch",
        "validatingwebhookconfiguration",
        LAUNCHER_NAMESPACE,
        "--type=json",
        f"--patch={json.dumps(change)}",
    )
    return authority


def _crd_without_schema(kind: str, group: str, plural: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = "v1"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def _differences(stored: Any, written: Any, path: str = "") -> list[str]:
    """The paths at which *stored* differs from *written*; additional fields of *stored* are defaults."""
    match written:
        case dict():
            if not isinstance(stored, dict):
                return [path]
            children = [(stored.get(key), value, f"{path}.{key}") for key, value in written.items()]
        case list():
            if not isinstance(stored, list) or len(stored) != len(written):
                return [path]
            pairs = enumerate(zip(stored, written, strict=True))
            children = [(actual, expected, f"{path}[{index}]") for index, (actual, expected) in pairs]
        case _:
            return [] if stored == written else [f"{path}: {stored!r} instead of {written!r}"]
    return [difference for child in children for difference in _differences(*child)]
