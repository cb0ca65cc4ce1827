"""The manifests agree with each other, with the launcher's settings, and with the documentation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.generate.chart import CHART
from deploy.generate.chart_values import values
from deploy.generate.manifests import (
    BASE,
    COMPONENTS,
    DEPLOY,
    OVERLAYS,
    Object,
    base_objects,
    kustomization,
    named,
    version,
)
from launcher.cli.main import parse_arguments
from launcher.settings.cluster import ClusterSettings, InPod, cluster_settings_from
from launcher.settings.sources import TlsFiles
from tests.deploy.kustomize import kustomize, write_kustomization

NAME = "framework-launcher"
PAGE = (DEPLOY.parent / "docs/install-kubernetes.md").read_text()
CLUSTER_WIDE = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


def container_of(objects: list[Object]) -> Any:
    (container,) = named(objects, "Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    return container


def settings_of(objects: list[Object], directory: Path) -> ClusterSettings:
    """The launcher's settings in a pod, whose mounted files are written to *directory*."""
    for mount in container_of(objects)["volumeMounts"]:
        (directory / mount["mountPath"].lstrip("/")).mkdir(parents=True)
    config = named(objects, "ConfigMap", NAME)["data"]["config.yaml"]
    arguments = [
        re.sub(r"=(/etc/)", rf"={directory}\1", argument) for argument in container_of(objects)["args"]
    ]
    flags = vars(parse_arguments(arguments))
    for name in ("config", "tls-cert", "tls-key", "client-ca"):
        if flags.get(name):
            Path(flags[name]).write_text(config)
    return cluster_settings_from(flags, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})


def test_every_file_of_the_base_is_in_its_kustomization() -> None:
    files = {path.name for path in BASE.iterdir()} - {"kustomization.yaml"}

    assert set(kustomization(BASE)["resources"]) == files


def test_every_object_is_labelled_and_in_the_launchers_namespace() -> None:
    for obj in base_objects():
        assert obj["metadata"]["labels"]["app.kubernetes.io/name"] == NAME
        assert obj["metadata"].get("namespace", "") == ("" if obj["kind"] in CLUSTER_WIDE else NAME)


def test_the_default_overlay_equals_the_base(kubectl: Path) -> None:
    def by_name(objects: list[Object]) -> list[Object]:
        return sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))

    assert by_name(kustomize(kubectl, OVERLAYS / "default")) == by_name(base_objects())


def test_the_version_is_the_same_everywhere() -> None:
    assert container_of(base_objects())["image"] == f"{NAME}:{version()}"
    assert f"{NAME}:{version()}" in (DEPLOY / "Containerfile").read_text()
    assert f"{NAME}:{version()}" in PAGE
    assert f"appVersion: {version()}" in (CHART / "Chart.yaml").read_text()


def test_the_launcher_accepts_the_arguments_of_the_deployment(tmp_path: Path) -> None:
    settings = settings_of(base_objects(), tmp_path)

    assert settings.cluster == InPod("10.96.0.1", "443")
    assert (settings.host, settings.port, settings.tls) == ("0.0.0.0", 8443, "framework-launcher-tls")
    assert settings.policy.max_tasks == 10_000


def test_the_launcher_accepts_the_arguments_of_the_components(kubectl: Path, tmp_path: Path) -> None:
    components = ["cert-manager", "client-certificates", "metrics-auth"]
    all_ = kustomize(kubectl, write_kustomization(tmp_path / "all", components))

    settings = settings_of(all_, tmp_path)

    assert isinstance(settings.tls, TlsFiles)
    assert settings.client_ca is not None
    assert settings.metrics_auth


def test_every_selector_matches_the_pods() -> None:
    objects = base_objects()
    labels = named(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    selectors = [
        named(objects, "Deployment", NAME)["spec"]["selector"]["matchLabels"],
        named(objects, "Service", NAME)["spec"]["selector"],
        named(objects, "PodDisruptionBudget", NAME)["spec"]["selector"]["matchLabels"],
        named(objects, "NetworkPolicy", NAME)["spec"]["podSelector"]["matchLabels"],
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)


def test_webhook_service_and_network_policy_refer_to_the_same_port() -> None:
    objects = base_objects()
    hooks = [
        hook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for hook in named(objects, kind, NAME)["webhooks"]
    ]
    (port,) = named(objects, "Service", NAME)["spec"]["ports"]
    (container_port,) = container_of(objects)["ports"]
    (allowed,) = named(objects, "NetworkPolicy", NAME)["spec"]["ingress"][0]["ports"]

    assert {
        (hook["clientConfig"]["service"]["name"], hook["clientConfig"]["service"]["namespace"])
        for hook in hooks
    } == {(NAME, NAME)}
    # The default port of webhooks.
    assert (port["port"], port["targetPort"]) == (443, container_port["name"])
    assert allowed["port"] == container_port["containerPort"]


def test_probes_use_the_launchers_port() -> None:
    container = container_of(base_objects())

    requests = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: (get["path"], get["port"], get["scheme"]) for name, get in requests.items()} == {
        "startupProbe": ("/livez", "https", "HTTPS"),
        "livenessProbe": ("/livez", "https", "HTTPS"),
        "readinessProbe": ("/readyz", "https", "HTTPS"),
    }


def rules() -> Iterator[Any]:
    for obj in base_objects():
        if obj["kind"] in {"Role", "ClusterRole"}:
            yield from (pytest.param(rule, id=f"{obj['metadata']['name']} {rule}") for rule in obj["rules"])


@pytest.mark.parametrize("rule", list(rules()))
def test_no_rule_has_a_wildcard(rule: Object) -> None:
    assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_the_documentation_lists_every_overlay_component_and_value() -> None:
    choices = [
        *(f"`overlays/{path.name}`" for path in OVERLAYS.iterdir()),
        *(f"`components/{path.name}`" for path in COMPONENTS.iterdir()),
        *(f"`{value.path}`" for value in values()),
    ]

    assert [choice for choice in choices if choice not in PAGE] == []


def test_the_documentation_explains_every_rule() -> None:
    lines = PAGE.splitlines()
    granted = {
        (resource, verb)
        for obj in base_objects()
        if obj["kind"] in {"Role", "ClusterRole"} and obj["metadata"]["name"] in {NAME, f"{NAME}-certificate"}
        for rule in obj["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    explained = {
        (resource, verb)
        for line in lines
        if line.startswith("| `") and line.count("|") >= 4
        for resource in re.findall(r"`([a-z/]+)`", line.split("|")[1])
        for verb in re.findall(r"[a-z]+", line.split("|")[2])
    }

    assert granted <= explained
