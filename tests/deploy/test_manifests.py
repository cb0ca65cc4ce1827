"""The manifests agree with each other, with the launcher's own settings, and with what the project says of them."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.commands import serve
from launcher.settings import ClusterSettings, InPod, TlsFiles, cluster_settings_from
from tests.deploy.make_chart import CHART
from tests.deploy.manifests import (
    BASE,
    COMPONENTS,
    DEPLOY,
    KUBERNETES,
    OVERLAYS,
    Object,
    base_objects,
    built,
    composed,
    kustomization,
    named,
    version,
)
from tests.deploy.values import values

NAME = "framework-launcher"
README = (DEPLOY / "README.md").read_text()
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
    """What the launcher makes of its arguments in a pod, whose mounted files are in *directory*."""
    for mount in container_of(objects)["volumeMounts"]:
        (directory / mount["mountPath"].lstrip("/")).mkdir(parents=True)
    config = named(objects, "ConfigMap", NAME)["data"]["config.yaml"]
    parser = argparse.ArgumentParser()
    serve.add(parser.add_subparsers())
    words = [re.sub(r"=(/etc/)", rf"={directory}\1", word) for word in container_of(objects)["args"]]
    given = vars(parser.parse_args(words))
    for name in ("config", "tls-cert", "tls-key", "client-ca"):
        if given.get(name):
            Path(given[name]).write_text(config)
    return cluster_settings_from(given, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})


def test_every_file_of_the_base_is_part_of_it() -> None:
    files = {path.name for path in BASE.iterdir()} - {"kustomization.yaml"}

    assert set(kustomization(BASE)["resources"]) == files


def test_everything_is_labelled_and_in_the_launchers_namespace() -> None:
    for obj in base_objects():
        assert obj["metadata"]["labels"]["app.kubernetes.io/name"] == NAME
        assert obj["metadata"].get("namespace", "") == ("" if obj["kind"] in CLUSTER_WIDE else NAME)


def test_kustomize_changes_nothing_of_the_base(kubectl: Path) -> None:
    def in_order(objects: list[Object]) -> list[Object]:
        return sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))

    assert in_order(built(kubectl, OVERLAYS / "default")) == in_order(base_objects())


def test_the_version_is_the_same_everywhere() -> None:
    assert container_of(base_objects())["image"] == f"{NAME}:{version()}"
    assert f"{NAME}:{version()}" in (DEPLOY / "Containerfile").read_text()
    assert f"{NAME}:{version()}" in README
    assert f"appVersion: {version()}" in (CHART / "Chart.yaml").read_text()


def test_the_launcher_takes_the_arguments_that_the_deployment_gives_it(tmp_path: Path) -> None:
    settings = settings_of(base_objects(), tmp_path)

    assert settings.cluster == InPod("10.96.0.1", "443")
    assert (settings.host, settings.port, settings.tls) == ("0.0.0.0", 8443, "framework-launcher-tls")
    assert settings.policy.max_tasks == 10_000


def test_the_launcher_takes_what_the_components_change(kubectl: Path, tmp_path: Path) -> None:
    components = ["cert-manager", "client-certificates", "metrics-auth"]
    all_ = built(kubectl, composed(tmp_path / "all", components))

    settings = settings_of(all_, tmp_path)

    assert isinstance(settings.tls, TlsFiles)
    assert settings.client_ca is not None
    assert settings.metrics_auth


def test_selectors_find_the_pods() -> None:
    objects = base_objects()
    labels = named(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    selectors = [
        named(objects, "Deployment", NAME)["spec"]["selector"]["matchLabels"],
        named(objects, "Service", NAME)["spec"]["selector"],
        named(objects, "PodDisruptionBudget", NAME)["spec"]["selector"]["matchLabels"],
        named(objects, "NetworkPolicy", NAME)["spec"]["podSelector"]["matchLabels"],
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)


def test_the_webhook_is_the_service_and_the_service_is_the_port_that_is_let_in() -> None:
    objects = base_objects()
    hooks = [
        hook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for hook in named(objects, kind, NAME)["webhooks"]
    ]
    (port,) = named(objects, "Service", NAME)["spec"]["ports"]
    (listening,) = container_of(objects)["ports"]
    (let_in,) = named(objects, "NetworkPolicy", NAME)["spec"]["ingress"][0]["ports"]

    assert {
        (h["clientConfig"]["service"]["name"], h["clientConfig"]["service"]["namespace"]) for h in hooks
    } == {(NAME, NAME)}
    # A webhook that names no port means this one.
    assert (port["port"], port["targetPort"]) == (443, listening["name"])
    assert let_in["port"] == listening["containerPort"]


def test_probes_ask_the_launcher_over_its_own_port() -> None:
    container = container_of(base_objects())

    asked = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: (get["path"], get["port"], get["scheme"]) for name, get in asked.items()} == {
        "startupProbe": ("/livez", "https", "HTTPS"),
        "livenessProbe": ("/livez", "https", "HTTPS"),
        "readinessProbe": ("/readyz", "https", "HTTPS"),
    }


def rules() -> Iterator[Any]:
    for obj in base_objects():
        if obj["kind"] in {"Role", "ClusterRole"}:
            yield from (pytest.param(rule, id=f"{obj['metadata']['name']} {rule}") for rule in obj["rules"])


@pytest.mark.parametrize("rule", list(rules()))
def test_no_rule_is_for_everything(rule: Object) -> None:
    assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_readme_tells_of_everything_that_one_may_choose() -> None:
    choices = [
        *(f"`overlays/{path.name}`" for path in OVERLAYS.iterdir()),
        *(f"`components/{path.name}`" for path in COMPONENTS.iterdir()),
        *(f"`{value.path}`" for value in values()),
    ]

    assert [choice for choice in choices if choice not in README] == []


def test_readme_explains_every_rule() -> None:
    lines = README.splitlines()
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


def test_what_readme_names_is_there() -> None:
    named_paths = re.findall(r"deploy/[\w./-]*\w", README)

    assert named_paths
    assert [path for path in named_paths if not (DEPLOY.parent / path).exists()] == []
    assert KUBERNETES.is_dir()
