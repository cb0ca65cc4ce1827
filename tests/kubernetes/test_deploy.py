"""What deploy/ holds is taken by a real API server as it is written, and its pods are let in."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import ControlPlane
from tests.deploy.conftest import helm
from tests.deploy.make_chart import CHART
from tests.deploy.manifests import COMPONENTS, OVERLAYS, Object, built, composed, named
from tests.kubernetes.account import HOME
from tests.local.server import PATIENCE, PROJECT, until

__all__ = ["helm"]

#: Kinds of other projects that components speak of, as far as the API server has to know them.
_FOREIGN = {
    "Certificate": ("cert-manager.io", "certificates"),
    "Issuer": ("cert-manager.io", "issuers"),
    "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors"),
}
_WEBHOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/framework-launcher"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{HOME}/deployments/framework-launcher"


@pytest.fixture(scope="module")
def fresh(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster in which nothing is installed but the kinds of other projects."""
    with ControlPlane(tmp_path_factory.mktemp("fresh"), programs, nodes=2) as plane:
        crds = [_open_crd(kind, group, plural) for kind, (group, plural) in _FOREIGN.items()]
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(crds))
        for group, plural in _FOREIGN.values():
            plane.until_served(f"/apis/{group}/v1/{plural}")
        yield plane


@pytest.fixture
def installed(fresh: ControlPlane) -> None:
    """The launcher is there as it comes, whatever earlier tests have left."""
    fresh.kubectl("apply", "-k", str(OVERLAYS / "default"))
    fresh.until_served("/apis/launcher.microsoft.com/v1/frameworks")


@pytest.mark.parametrize("overlay", sorted(path.name for path in OVERLAYS.iterdir()))
def test_an_overlay_is_applied_whole_and_comes_back_as_it_is_written(
    fresh: ControlPlane, programs: Path, overlay: str
) -> None:
    written = built(programs / "kubectl", OVERLAYS / overlay)

    fresh.kubectl("apply", "--validate=strict", "-k", str(OVERLAYS / overlay))

    assert fresh.kubectl("diff", "-k", str(OVERLAYS / overlay)) == ""
    stored = json.loads(fresh.kubectl("get", "-k", str(OVERLAYS / overlay), "-o", "json"))["items"]
    for obj in written:
        there = named(stored, obj["kind"], obj["metadata"]["name"])
        assert _missing_from(there, obj) == [], (obj["kind"], obj["metadata"]["name"])


@pytest.mark.parametrize("component", sorted(path.name for path in COMPONENTS.iterdir()))
def test_a_component_is_taken_with_the_base(
    fresh: ControlPlane, installed: None, tmp_path: Path, component: str
) -> None:
    directory = composed(tmp_path, [component])

    fresh.kubectl("apply", "--validate=strict", "--dry-run=server", "-k", str(directory))


def test_its_pods_are_let_into_its_namespace_and_found_by_its_service(
    fresh: ControlPlane, installed: None
) -> None:
    def is_rolled_out() -> bool | None:
        deployment = fresh.admin.get(_DEPLOYMENT)
        status, counts = deployment["status"], ("replicas", "updatedReplicas", "readyReplicas")
        is_seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return (is_seen and [status.get(name) for name in counts] == [2, 2, 2]) or None

    def is_found() -> bool | None:
        slices = fresh.admin.get(f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices")["items"]
        return {port["port"] for one in slices for port in one["ports"] or ()} == {8443} or None

    def is_spared() -> bool | None:
        budget = fresh.admin.get(f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets/framework-launcher")
        return budget["status"].get("disruptionsAllowed") == 1 or None

    until(is_rolled_out, "both replicas are ready")
    until(is_found, "the Service leads to their port")
    until(is_spared, "one of them may go")
    pods = fresh.admin.get(f"/api/v1/namespaces/{HOME}/pods?labelSelector={_ours()}")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert {pod["spec"]["priority"] for pod in pods} == {1_000_000}


def test_nobody_who_wants_rights_over_its_node_gets_into_the_namespace(
    fresh: ControlPlane, installed: None
) -> None:
    pod = {
        "metadata": {"name": "greedy"},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": "busybox"}]},
    }

    answer = fresh.admin.ask("POST", f"/api/v1/namespaces/{HOME}/pods?dryRun=All", pod)

    assert answer.status == 403
    assert "violates PodSecurity" in answer.body["message"]


def test_the_authority_that_the_launcher_has_written_into_its_webhooks_stays(
    fresh: ControlPlane, installed: None
) -> None:
    authority = _write_authority(fresh)

    fresh.kubectl("apply", "-k", str(OVERLAYS / "default"))
    fresh.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(OVERLAYS / "default"))

    assert fresh.admin.get(_WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"] == authority


def test_the_launcher_goes_and_frameworks_stay(fresh: ControlPlane, installed: None) -> None:
    fresh.kubectl("apply", "-f", str(PROJECT / "examples" / "hello.yaml"))

    fresh.kubectl("delete", "--ignore-not-found", "-k", str(OVERLAYS / "without-crd"))

    assert fresh.kubectl("get", "frameworks", "-o", "name") == "framework.launcher.microsoft.com/hello\n"
    assert fresh.kubectl("get", "all,clusterroles", "-A", "-l", _ours(), "-o", "name") == ""


def test_helm_installs_it_upgrades_it_and_leaves_frameworks_behind(
    fresh: ControlPlane, helm: Path, tmp_path: Path
) -> None:
    fresh.kubectl("delete", "--ignore-not-found", "-k", str(OVERLAYS / "default"))
    environment = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    environment["HOME"] = str(tmp_path)  # where it keeps what it learns of the cluster

    def run(*words: str) -> None:
        done = subprocess.run(
            [helm, f"--kubeconfig={fresh.kubeconfig}", "--namespace=elsewhere", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("install", "launcher", str(CHART), "--create-namespace", "--set=replicas=1")
    fresh.until_served("/apis/launcher.microsoft.com/v1/frameworks")
    fresh.kubectl("apply", "-f", str(PROJECT / "examples" / "hello.yaml"))
    authority = _write_authority(fresh)
    run("upgrade", "launcher", str(CHART), "--set=replicas=2")
    upgraded = fresh.admin.get("/apis/apps/v1/namespaces/elsewhere/deployments/framework-launcher")
    webhook = fresh.admin.get(_WEBHOOK)
    run("uninstall", "launcher", "--wait", "--cascade=foreground")

    assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == authority
    assert upgraded["spec"]["replicas"] == 2
    assert fresh.kubectl("get", "frameworks", "-o", "name") == "framework.launcher.microsoft.com/hello\n"
    assert fresh.kubectl("get", "all,clusterroles", "-A", "-l", _ours(), "-o", "name") == ""


def _ours() -> str:
    return "app.kubernetes.io/name=framework-launcher"


def _write_authority(cluster: ControlPlane) -> str:
    """As the launcher does; the authority may be anybody's."""
    authority = base64.b64encode(cluster.ca.read_bytes()).decode()
    change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]
    cluster.kubectl(
        "patch", "validatingwebhookconfiguration", HOME, "--type=json", f"--patch={json.dumps(change)}"
    )
    return authority


def _open_crd(kind: str, group: str, plural: str) -> Object:
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


def _missing_from(stored: Any, written: Any, path: str = "") -> list[str]:
    """Every path at which *stored* does not say what is *written*; it may say more, by default."""
    match written:
        case dict():
            if not isinstance(stored, dict):
                return [path]
            return [
                wrong
                for key, value in written.items()
                for wrong in _missing_from(stored.get(key), value, f"{path}.{key}")
            ]
        case list():
            if not isinstance(stored, list) or len(stored) != len(written):
                return [path]
            pairs = enumerate(zip(stored, written, strict=True))
            return [wrong for i, (had, want) in pairs for wrong in _missing_from(had, want, f"{path}[{i}]")]
        case _:
            return [] if stored == written else [f"{path}: {stored!r} and not {written!r}"]
