"""The Helm chart is generated from the manifests, and installs the same objects as kustomize."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate.chart import CHART, chart_files
from deploy.generate.chart_values import Value, values
from deploy.generate.manifests import COMPONENTS, OVERLAYS, Object
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.settings.local import settings_from
from tests.deploy.kustomize import kustomize, write_kustomization
from tests.eventually import TIMEOUT_SECONDS

#: Values of the chart that correspond to components of kustomize.
EQUIVALENT_VALUES: list[Any] = [
    pytest.param([], {}, id="default values"),
    pytest.param(["cert-manager"], {"certManager.enabled": True}, id="cert-manager"),
    pytest.param(["service-monitor"], {"serviceMonitor.enabled": True}, id="service-monitor"),
    pytest.param(["client-certificates"], {"clientCertificates.enabled": True}, id="client-certificates"),
    pytest.param(["metrics-auth"], {"metricsAuth.enabled": True}, id="metrics-auth"),
    pytest.param(["log-archive"], {"logArchive.enabled": True}, id="log-archive"),
    pytest.param(["without-crd"], {"crd.enabled": False}, id="without-crd"),
    pytest.param(["without-webhook"], {"webhook.enabled": False}, id="without-webhook"),
    *(
        pytest.param([foreign.singular], {f"{foreign.singular}.enabled": True}, id=foreign.singular)
        for foreign in JOB_KINDS
    ),
    pytest.param(
        ["service-monitor", "cert-manager", "client-certificates", "metrics-auth", "log-archive"],
        {
            "serviceMonitor.enabled": True,
            "certManager.enabled": True,
            "clientCertificates.enabled": True,
            "metricsAuth.enabled": True,
            "logArchive.enabled": True,
        },
        id="all components",
    ),
]


DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def render(
    helm: Path, values: Mapping[str, Any], *options: str, namespace: str = "framework-launcher"
) -> list[Object]:
    """The objects that Helm renders."""
    flags = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
    done = subprocess.run(
        [helm, "template", "launcher", CHART, "--namespace", namespace, *flags, *options],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if obj]


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def comparable(obj: Object) -> Object:
    """The object without the annotations for Helm, and with the config file parsed."""
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


def test_the_chart_files_equal_the_generated_ones() -> None:
    files = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}

    assert files == chart_files(), "run: make schema"


def test_every_component_has_a_value() -> None:
    assert {tuple(parameters.values[0]) for parameters in EQUIVALENT_VALUES} >= {
        (component.name,) for component in COMPONENTS.iterdir()
    }


@pytest.mark.parametrize(("components", "chart_values"), EQUIVALENT_VALUES)
def test_helm_renders_the_same_objects_as_kustomize(
    helm: Path, kubectl: Path, tmp_path: Path, components: list[str], chart_values: dict[str, Any]
) -> None:
    from_kustomize = by_name(kustomize(kubectl, write_kustomization(tmp_path, components)))
    from_helm = by_name(render(helm, chart_values))
    namespace = from_kustomize.pop(("Namespace", "framework-launcher"))

    assert from_helm.keys() == from_kustomize.keys()
    for key, obj in from_helm.items():
        assert comparable(obj) == comparable(from_kustomize[key]), key
    assert namespace["metadata"]["name"] == "framework-launcher"


def test_in_another_namespace_no_object_refers_to_the_default_one(helm: Path) -> None:
    chart_values = {
        "certManager.enabled": True,
        "serviceMonitor.enabled": True,
        "clientCertificates.enabled": True,
    }

    objects = by_name(render(helm, chart_values, namespace="elsewhere"))

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


def test_every_value_has_an_effect(helm: Path) -> None:
    other_values = {
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
        "podFailureSpec": [{"code": 221, "podPatterns": [{}]}],
        "logArchive.url": "s3://logs",
        "logArchive.existingSecret": "of-another-name",
        "logArchive.existingClaim": "logs",
    }

    def has_effect(value: Value) -> bool:
        required = {"logArchive.enabled": True} if value.path.startswith("logArchive.") else {}
        required.pop(value.path, None)
        other = other_values.get(value.path, value.default is False)
        return render(helm, {**required, value.path: other}) != render(helm, required)

    ineffective = [value.path for value in values() if not has_effect(value)]

    assert ineffective == []


def test_values_are_set_in_the_deployment(helm: Path) -> None:
    objects = by_name(
        render(
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


def test_the_log_archive_has_its_url_its_credentials_and_its_directory(helm: Path) -> None:
    archive = {
        "logArchive.enabled": True,
        "logArchive.url": "file:///var/lib/framework-launcher/logs",
        "logArchive.existingSecret": "",
        "logArchive.existingClaim": "logs",
    }

    objects = by_name(render(helm, archive))

    pod = objects["Deployment", "framework-launcher"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "LAUNCHER_LOG_ARCHIVE", "value": archive["logArchive.url"]}]
    assert "envFrom" not in container
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "log-archive")
    assert f"file://{mount['mountPath']}" == archive["logArchive.url"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "log-archive")
    assert volume["persistentVolumeClaim"] == {"claimName": "logs"}


def test_an_image_can_be_named_by_its_digest(helm: Path) -> None:
    objects = by_name(
        render(helm, {"image.repository": "r/launcher", "image.tag": "1", "image.digest": DIGEST})
    )

    pod = objects["Deployment", "framework-launcher"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"r/launcher@{DIGEST}"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"minAvailable": 0}, {"minAvailable": 0}),
        ({"minAvailable": "50%", "maxUnavailable": 1}, {"minAvailable": "50%"}),
    ],
)
def test_the_disruption_budget_has_the_configured_limit(
    helm: Path, limits: dict[str, Any], expected: dict[str, Any]
) -> None:
    values = {f"podDisruptionBudget.{name}": value for name, value in limits.items()}

    budget = by_name(render(helm, values))["PodDisruptionBudget", "framework-launcher"]["spec"]

    names = ("minAvailable", "maxUnavailable")
    assert {name: budget[name] for name in names if name in budget} == expected


def test_the_disruption_budget_can_be_disabled(helm: Path) -> None:
    objects = by_name(render(helm, {"podDisruptionBudget.enabled": False}))

    assert ("PodDisruptionBudget", "framework-launcher") not in objects


def test_a_changed_policy_is_valid_and_restarts_the_launcher(helm: Path, tmp_path: Path) -> None:
    default = by_name(render(helm, {}))
    changed = {
        "policy": {"host-path-prefixes": ["/srv/shared"], "host-network": False},
        "podFailureSpec": [{"code": 221, "podPatterns": [{"reasonRegex": "^Evicted$"}]}],
    }
    strict = by_name(render(helm, changed))

    config = tmp_path / "config.yaml"
    config.write_text(strict["ConfigMap", "framework-launcher"]["data"]["config.yaml"])
    settings = settings_from({"config": str(config)}, {})
    policy = settings.policy
    key = ("Deployment", "framework-launcher")
    assert (policy.host_path_prefixes, policy.host_network, policy.max_tasks) == (
        ("/srv/shared",),
        False,
        10_000,
    )
    assert [rule.code for rule in settings.failure_rules] == [221]
    assert strict[key]["spec"]["template"] != default[key]["spec"]["template"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("replica=3", "replica", id="misspelt"),
        pytest.param("replicas=none", "replicas", id="not a number"),
        pytest.param("image.pullPolicy=Sometimes", "pullPolicy", id="not a valid choice"),
        pytest.param("image.digest=latest", "digest", id="not a digest"),
        pytest.param("podDisruptionBudget.maxUnavailable=half", "maxUnavailable", id="not a percentage"),
    ],
)
def test_an_invalid_value_is_rejected(helm: Path, value: str, message: str) -> None:
    done = subprocess.run(
        [helm, "template", "launcher", CHART, "--set", value],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )

    assert done.returncode != 0
    assert message in done.stderr


def test_helm_lint_reports_nothing(helm: Path) -> None:
    done = subprocess.run(
        [helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_the_crd_is_kept_when_the_chart_is_uninstalled(helm: Path) -> None:
    crd = by_name(render(helm, {}))["CustomResourceDefinition", "frameworks.launcher.microsoft.com"]

    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_every_overlay_builds(kubectl: Path) -> None:
    for overlay in OVERLAYS.iterdir():
        assert kustomize(kubectl, overlay), overlay.name
