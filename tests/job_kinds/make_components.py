"""
Write ``deploy/kubernetes/components/KIND`` for each kind of job that is run as Frameworks.

Run as ``python -m tests.job_kinds.make_components``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from launcher.job_kinds.job_kind import FOREIGN, JobKind
from launcher.job_kinds.schema import crd_of

COMPONENTS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "components"
_HEAD = "# Written by: python -m tests.job_kinds.make_components\n"
_NAME = "framework-launcher"
_RBAC = "rbac.authorization.k8s.io"

Json = dict[str, Any]


def component_files() -> dict[Path, str]:
    """The content of each file."""
    return {
        COMPONENTS / foreign.singular / name: text
        for foreign in FOREIGN
        for name, text in _files(foreign).items()
    }


def _files(foreign: JobKind) -> dict[str, str]:
    jobs = f"{foreign.kind.kind}s"
    return {
        "kustomization.yaml": _written(
            _kustomization(),
            f"{jobs} are run as Frameworks. Only for clusters in which no other operator runs them.",
        ),
        "crd.yaml": _written(crd_of(foreign)),
        "rbac.yaml": f"# What the launcher needs for {jobs}, and what users may do with them.\n"
        + _HEAD
        + "---\n".join(map(_spelt, _rights(foreign))),
        "webhook.yaml": _written(_rule(foreign), f"kube-apiserver asks the launcher about {jobs}, too."),
    }


def _kustomization() -> Json:
    webhook = {
        "path": "webhook.yaml",
        "target": {"group": "admissionregistration.k8s.io", "name": _NAME},
    }
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["crd.yaml", "rbac.yaml"],
        "patches": [webhook],
    }


def _rule(foreign: JobKind) -> list[Json]:
    rule = {
        "apiGroups": [foreign.kind.group],
        "apiVersions": [kind.version for kind in foreign.kinds],
        "operations": ["CREATE", "UPDATE"],
        "resources": [foreign.plural],
        "scope": "Namespaced",
    }
    return [{"op": "add", "path": "/webhooks/0/rules/-", "value": rule}]


def _rights(foreign: JobKind) -> Iterator[Json]:
    name, group, plural = f"{_NAME}-{foreign.singular}", foreign.kind.group, foreign.plural
    yield _role(
        name,
        {},
        # It follows all jobs, and deletes those whose time to live is over.
        _may(group, [plural], "list", "watch", "delete"),
        _may(group, [f"{plural}/status"], "update"),
        # Frameworks hold up the foreground deletion of their job.
        _may(group, [f"{plural}/finalizers"], "update"),
        _may("launcher.microsoft.com", ["frameworks"], "create", "update", "patch"),
        {
            **_may("apiextensions.k8s.io", ["customresourcedefinitions"], "get"),
            "resourceNames": [foreign.kind.resource],
        },
    )
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": _NAME}},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": _NAME}],
    }
    yield _role(
        f"{name}-view",
        {f"{_RBAC}/aggregate-to-view": "true"},
        _may(group, [plural], "get", "list", "watch"),
        _may(group, [f"{plural}/status", f"{plural}/scale"], "get"),
    )
    yield _role(
        f"{name}-edit",
        {f"{_RBAC}/aggregate-to-edit": "true"},
        _may(group, [plural], "create", "update", "patch", "delete", "deletecollection"),
        _may(group, [f"{plural}/scale"], "update", "patch"),
    )


def _role(name: str, labels: Json, *rules: Json) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": _NAME, **labels}},
        "rules": list(rules),
    }


def _may(group: str, resources: list[str], *verbs: str) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _written(value: Any, why: str = "") -> str:
    return (why and f"# {why}\n") + _HEAD + _spelt(value)


def _spelt(value: Any) -> str:
    return yaml.dump(value, Dumper=_Spelt, sort_keys=False, width=110, allow_unicode=True)


class _Spelt(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


if __name__ == "__main__":
    for path, text in component_files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
