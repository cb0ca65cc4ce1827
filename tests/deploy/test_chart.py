"""The Helm chart is made from what kustomize builds, and installs the same."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.job_kinds.job_kind import FOREIGN
from launcher.settings import settings_from
from tests.deploy.make_chart import CHART, chart_files
from tests.deploy.manifests import COMPONENTS, OVERLAYS, Object, built, composed
from tests.deploy.values import values
from tests.local.server import PATIENCE

#: What the chart is told to be what kustomize builds with these components.
SAME: list[Any] = [
    pytest.param([], {}, id="as it comes"),
    pytest.param(["cert-manager"], {"certManager.enabled": True}, id="cert-manager"),
    pytest.param(["service-monitor"], {"serviceMonitor.enabled": True}, id="service-monitor"),
    pytest.param(["client-certificates"], {"clientCertificates.enabled": True}, id="client-certificates"),
    pytest.param(["metrics-auth"], {"metricsAuth.enabled": True}, id="metrics-auth"),
    pytest.param(["without-crd"], {"crd.enabled": False}, id="without-crd"),
    pytest.param(["without-webhook"], {"webhook.enabled": False}, id="without-webhook"),
    *(
        pytest.param([foreign.singular], {f"{foreign.singular}.enabled": True}, id=foreign.singular)
        for foreign in FOREIGN
    ),
    pytest.param(
        ["service-monitor", "cert-manager", "client-certificates", "metrics-auth"],
        {
            "serviceMonitor.enabled": True,
            "certManager.enabled": True,
            "clientCertificates.enabled": True,
            "metricsAuth.enabled": True,
        },
        id="all together",
    ),
]


DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def rendered(
    helm: Path, values: Mapping[str, Any], *words: str, namespace: str = "framework-launcher"
) -> list[Object]:
    """What Helm makes of the chart."""
    told = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
    done = subprocess.run(
        [helm, "template", "launcher", CHART, "--namespace", namespace, *told, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if obj]


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def compared(obj: Object) -> Object:
    """The object without what only Helm needs, its config file as what it says."""
    match obj["kind"]:
        case "CustomResourceDefinition":
            obj["metadata"].pop("annotations", None)
        case "Deployment":
            obj["spec"]["template"]["metadata"]["annotations"].pop("checksum/config", None)
        case "ConfigMap":
            obj["data"] = yaml.safe_load(obj["data"]["config.yaml"])
        case _:
            pass
    return obj


def test_the_files_are_what_kustomize_is_made_of() -> None:
    there = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}

    assert there == chart_files(), "run: python -m tests.deploy.make_chart"


def test_every_component_has_a_value() -> None:
    assert {tuple(parameters.values[0]) for parameters in SAME} >= {
        (component.name,) for component in COMPONENTS.iterdir()
    }


@pytest.mark.parametrize(("components", "told"), SAME)
def test_helm_installs_what_kustomize_does(
    helm: Path, kubectl: Path, tmp_path: Path, components: list[str], told: dict[str, Any]
) -> None:
    ours = by_name(built(kubectl, composed(tmp_path, components)))
    theirs = by_name(rendered(helm, told))
    namespace = ours.pop(("Namespace", "framework-launcher"))

    assert theirs.keys() == ours.keys()
    for key, obj in theirs.items():
        assert compared(obj) == compared(ours[key]), key
    assert namespace["metadata"]["name"] == "framework-launcher"


def test_in_another_namespace_nothing_is_left_in_ours(helm: Path) -> None:
    everything = {
        "certManager.enabled": True,
        "serviceMonitor.enabled": True,
        "clientCertificates.enabled": True,
    }

    objects = by_name(rendered(helm, everything, namespace="elsewhere"))

    certificate = objects["Certificate", "framework-launcher"]
    webhook = objects["ValidatingWebhookConfiguration", "framework-launcher"]
    monitor = objects["ServiceMonitor", "framework-launcher"]
    assert {obj["metadata"].get("namespace", "elsewhere") for obj in objects.values()} == {"elsewhere"}
    assert {subject["namespace"] for obj in objects.values() for subject in obj.get("subjects", ())} == {
        "elsewhere"
    }
    assert certificate["spec"]["dnsNames"][0] == "framework-launcher.elsewhere.svc"
    assert webhook["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "elsewhere/framework-launcher"
    }
    assert {hook["clientConfig"]["service"]["namespace"] for hook in webhook["webhooks"]} == {"elsewhere"}
    assert monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == "framework-launcher.elsewhere.svc"


def test_every_value_changes_something(helm: Path) -> None:
    others = {
        "image.repository": "registry.example.com/launcher",
        "image.tag": "9.9.9",
        "image.digest": DIGEST,
        "image.pullPolicy": "Always",
        "podDisruptionBudget.maxUnavailable": 2,
        "podDisruptionBudget.minAvailable": 1,
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "resources": {"requests": {"cpu": "1"}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "policy": {"host-network": False},
    }
    usual = rendered(helm, {})

    unheard = [
        value.path
        for value in values()
        if rendered(helm, {value.path: others.get(value.path, value.default is False)}) == usual
    ]

    assert unheard == []


def test_values_reach_the_pod(helm: Path) -> None:
    objects = by_name(
        rendered(
            helm,
            {
                "image.repository": "registry.example.com/launcher",
                "imagePullSecrets": [{"name": "registry"}],
                "replicas": 3,
                "nodeSelector": {"pool": "system"},
                "tolerations": [{"key": "system", "operator": "Exists"}],
            },
        )
    )

    deployment = objects["Deployment", "framework-launcher"]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 3
    assert pod["containers"][0]["image"].startswith("registry.example.com/launcher:")
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [{"key": "system", "operator": "Exists"}]


def test_an_image_can_be_named_by_its_digest(helm: Path) -> None:
    objects = by_name(
        rendered(helm, {"image.repository": "r/launcher", "image.tag": "1", "image.digest": DIGEST})
    )

    pod = objects["Deployment", "framework-launcher"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"r/launcher@{DIGEST}"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
        ({"minAvailable": "50%", "maxUnavailable": 1}, {"minAvailable": "50%"}),
    ],
)
def test_the_disruption_budget_has_the_limit_that_was_given(
    helm: Path, told: dict[str, Any], expected: dict[str, Any]
) -> None:
    values = {f"podDisruptionBudget.{name}": value for name, value in told.items()}

    budget = by_name(rendered(helm, values))["PodDisruptionBudget", "framework-launcher"]["spec"]

    limits = ("minAvailable", "maxUnavailable")
    assert {name: budget[name] for name in limits if name in budget} == expected


def test_there_is_no_disruption_budget_where_it_is_turned_off(helm: Path) -> None:
    objects = by_name(rendered(helm, {"podDisruptionBudget.enabled": False}))

    assert ("PodDisruptionBudget", "framework-launcher") not in objects


def test_a_changed_policy_is_one_that_the_launcher_takes_and_starts_it_anew(
    helm: Path, tmp_path: Path
) -> None:
    usual = by_name(rendered(helm, {}))
    strict = by_name(
        rendered(helm, {"policy": {"host-path-prefixes": ["/srv/shared"], "host-network": False}})
    )

    config = tmp_path / "config.yaml"
    config.write_text(strict["ConfigMap", "framework-launcher"]["data"]["config.yaml"])
    policy = settings_from({"config": str(config)}, {}).policy
    key = ("Deployment", "framework-launcher")
    assert (policy.host_path_prefixes, policy.host_network, policy.max_tasks) == (
        ("/srv/shared",),
        False,
        10_000,
    )
    assert strict[key]["spec"]["template"] != usual[key]["spec"]["template"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param("replica=3", "replica", id="spelt wrong"),
        pytest.param("replicas=none", "replicas", id="no number"),
        pytest.param("image.pullPolicy=Sometimes", "pullPolicy", id="none of the choices"),
        pytest.param("image.digest=latest", "digest", id="no digest"),
        pytest.param("podDisruptionBudget.maxUnavailable=half", "maxUnavailable", id="no percentage"),
    ],
)
def test_a_value_that_means_nothing_is_refused(helm: Path, value: str, told: str) -> None:
    done = subprocess.run(
        [helm, "template", "launcher", CHART, "--set", value],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert done.returncode != 0
    assert told in done.stderr


def test_helm_finds_nothing_to_complain_of(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=PATIENCE)

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_the_definition_of_frameworks_is_upgraded_but_never_deleted(helm: Path) -> None:
    crd = by_name(rendered(helm, {}))["CustomResourceDefinition", "frameworks.launcher.microsoft.com"]

    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_every_overlay_builds(kubectl: Path) -> None:
    for overlay in OVERLAYS.iterdir():
        assert built(kubectl, overlay), overlay.name
