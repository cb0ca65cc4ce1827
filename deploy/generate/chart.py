"""The content of the Helm chart, from ``deploy/kubernetes``."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.generate.chart_values import values_schema, values_text
from deploy.generate.conditional_patch import patched
from deploy.generate.helm_template import TemplateBlock, TemplateText, template
from deploy.generate.manifests import BASE, COMPONENTS, DEPLOY, Object, kustomization, read, version
from launcher.job_kinds.job_kind import JOB_KINDS

CHART = DEPLOY / "helm" / "framework-launcher"
_HEAD = "# Generated from deploy/kubernetes by: python -m deploy.generate\n"

_ARCHIVE = ".Values.logArchive.enabled"
#: The directory at which a volume for the archive is mounted.
_ARCHIVE_DIRECTORY = "/var/lib/framework-launcher/logs"
#: The value that enables a component of kustomize.
_SWITCHES = {
    "cert-manager": ".Values.certManager.enabled",
    "client-certificates": ".Values.clientCertificates.enabled",
    "service-monitor": ".Values.serviceMonitor.enabled",
    "metrics-auth": ".Values.metricsAuth.enabled",
    "log-archive": _ARCHIVE,
    **{foreign.singular: f".Values.{foreign.singular}.enabled" for foreign in JOB_KINDS},
}
#: Conditions of files of the base.
_CONDITIONS = {
    "webhook.yaml": "if .Values.webhook.enabled",
    "network.yaml": "if .Values.networkPolicy.enabled",
    "disruption.yaml": "if .Values.podDisruptionBudget.enabled",
    "rbac-certificate.yaml": "if not .Values.certManager.enabled",
}
#: Occurrences of the namespace that become the namespace of the release.
_NAMESPACES = {
    "namespace: framework-launcher\n": "namespace: {{ .Release.Namespace }}\n",
    "framework-launcher.framework-launcher.svc": "framework-launcher.{{ .Release.Namespace }}.svc",
    "framework-launcher/framework-launcher\n": "{{ .Release.Namespace }}/framework-launcher\n",
}
_NOTES = """\
The launcher runs in namespace {{ .Release.Namespace }}. Check whether it is ready:

  kubectl -n {{ .Release.Namespace }} rollout status deployment framework-launcher

Then every user who may edit a namespace can run Frameworks there:

  kubectl -n default apply -f examples/hello.yaml
  kubectl -n default get frameworks
"""


def chart_files() -> dict[str, str]:
    """The content of every file of the chart, by its path in it."""
    return {
        "Chart.yaml": _HEAD + yaml.safe_dump(_chart(), sort_keys=False),
        "values.yaml": _HEAD + values_text(),
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        **dict(_definitions()),
        **{f"templates/{name}": _HEAD + _in_release_namespace(text) for name, text in _templates()},
    }


def _chart() -> Object:
    return {
        "apiVersion": "v2",
        "name": "framework-launcher",
        "description": "Runs Frameworks: groups of task roles that start, retry and finish together.",
        "type": "application",
        "version": version(),
        "appVersion": version(),
        "kubeVersion": ">=1.30.0-0",
    }


def _definitions() -> Iterator[tuple[str, str]]:
    """The files of each CRD: not evaluated, since descriptions may hold what looks like a template."""
    found = {"crd.yaml": (BASE / "crd.yaml", ".Values.crd.enabled")}
    for component, switch in _SWITCHES.items():
        if (path := COMPONENTS / component / "crd.yaml").exists():
            found[f"{component}-crd.yaml"] = (path, switch)
    for name, (path, switch) in found.items():
        text = yaml.safe_dump_all(_crds(path), sort_keys=False, width=110, allow_unicode=True)
        yield f"files/{name}", _HEAD + text
        included = f'{{{{ .Files.Get "files/{name}" }}}}'
        yield f"templates/{name}", f"{{{{- if {switch} }}}}\n{included}\n{{{{- end }}}}\n"


def _crds(path: Path) -> list[Object]:
    """The definitions, which Helm upgrades but never deletes, since that would delete all objects of their kinds."""
    kept = {"annotations": {"helm.sh/resource-policy": "keep"}}
    return [{**crd, "metadata": {**crd["metadata"], **kept}} for crd in read(path)]


def _templates() -> Iterator[tuple[str, str]]:
    for name in kustomization(BASE)["resources"]:
        # Helm creates the namespace of the release.
        if name not in {"namespace.yaml", "crd.yaml"}:
            objects = [_with_values(_with_components(obj)) for obj in read(BASE / name)]
            yield name, template(objects, _CONDITIONS.get(name))
    for component, switch in _SWITCHES.items():
        for name in kustomization(COMPONENTS / component).get("resources", ()):
            if name != "crd.yaml":
                objects = [_with_components(obj) for obj in read(COMPONENTS / component / name)]
                yield f"{component}.yaml", template(objects, f"if {switch}")


def _with_components(obj: Object) -> Any:
    """The object with the patches of all components, each conditional on its value."""
    for component, switch in _SWITCHES.items():
        for patch in kustomization(COMPONENTS / component).get("patches", ()):
            (operations,) = read(COMPONENTS / component / patch["path"])
            # Deletions are covered by the condition of the whole file.
            if isinstance(operations, list) and _is_target(obj, patch["target"]):
                obj = patched(obj, operations, switch)
    return obj


def _is_target(obj: Object, target: Mapping[str, str]) -> bool:
    group = obj["apiVersion"].rpartition("/")[0]
    there = {"name": obj["metadata"]["name"], "kind": obj["kind"], "group": group}
    return target.items() <= there.items()


def _with_values(obj: Any) -> Any:
    match obj["kind"]:
        case "ConfigMap":
            text = (
                "|\n    policy: {{- toYaml .Values.policy | nindent 6 }}"
                "\n    pod-failure-spec: {{- toYaml .Values.podFailureSpec | nindent 6 }}"
            )
            return {**obj, "data": {"config.yaml": TemplateText(text)}}
        case "Deployment":
            return _deployment(obj)
        case "PodDisruptionBudget":
            return _budget(obj)
        case _:
            return obj


def _deployment(obj: Any) -> Any:
    template_ = obj["spec"]["template"]
    pod = template_["spec"]
    (container,) = pod["containers"]
    container["image"] = TemplateText(
        '"{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}'
        '{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"'
    )
    container["imagePullPolicy"] = TemplateText("{{ .Values.image.pullPolicy }}")
    container["resources"] = TemplateText("{{- toYaml .Values.resources | nindent 10 }}")
    _set_log_archive(pod, container)
    obj["spec"]["replicas"] = TemplateText("{{ .Values.replicas }}")
    # Read at start: a change has to restart the replicas.
    template_["metadata"]["annotations"]["checksum/config"] = TemplateText(
        '{{ include (print $.Template.BasePath "/config.yaml") . | sha256sum }}'
    )
    for name in ("imagePullSecrets", "nodeSelector", "tolerations"):
        pod[name] = TemplateBlock(f"with .Values.{name}", {name: TemplateText("{{- toYaml . | nindent 8 }}")})
    return obj


def _set_log_archive(pod: Any, container: Any) -> None:
    """Replaces the component's environment by that of the values, and adds the volume for a directory."""
    values = {name: f".Values.logArchive.{name}" for name in ("existingSecret", "url", "existingClaim")}
    conditions = {name: f"if and {_ARCHIVE} {value}" for name, value in values.items()}
    texts = {name: TemplateText(f"{{{{ {value} | quote }}}}") for name, value in values.items()}
    del container[f"envFrom if {_ARCHIVE}"]
    container["envFrom"] = TemplateBlock(
        conditions["existingSecret"], {"envFrom": [{"secretRef": {"name": texts["existingSecret"]}}]}
    )
    container["env"] = TemplateBlock(
        conditions["url"], {"env": [{"name": "LAUNCHER_LOG_ARCHIVE", "value": texts["url"]}]}
    )
    name = "log-archive"
    container["volumeMounts"].append(
        TemplateBlock(conditions["existingClaim"], [{"name": name, "mountPath": _ARCHIVE_DIRECTORY}])
    )
    claim = {"claimName": texts["existingClaim"]}
    pod["volumes"].append(
        TemplateBlock(conditions["existingClaim"], [{"name": name, "persistentVolumeClaim": claim}])
    )


def _budget(obj: Any) -> Any:
    given = ".Values.podDisruptionBudget.minAvailable"
    block = TemplateBlock(
        # 0 is a valid number.
        f'if not (kindIs "invalid" {given})',
        {"minAvailable": TemplateText(f"{{{{ {given} }}}}")},
        {"maxUnavailable": TemplateText("{{ .Values.podDisruptionBudget.maxUnavailable }}")},
    )
    others = {name: value for name, value in obj["spec"].items() if name != "maxUnavailable"}
    return {**obj, "spec": {"available": block, **others}}


def _in_release_namespace(text: str) -> str:
    for ours, theirs in _NAMESPACES.items():
        text = text.replace(ours, theirs)
    return text


def write_chart() -> None:
    """Replace the chart's directory."""
    shutil.rmtree(CHART, ignore_errors=True)
    for path, content in chart_files().items():
        (CHART / path).parent.mkdir(parents=True, exist_ok=True)
        (CHART / path).write_text(content)
