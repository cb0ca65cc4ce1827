"""The environment and the command line of containers."""

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.node.agent.container_config import HostFiles, container_config, resource_limits
from launcher.node.container_runtime import StartFailed
from launcher.node.pods.downward_api import DownwardApiContext, UnknownField, field_value, resource_value
from launcher.node.pods.environment import (
    EnvironmentSources,
    base_environment,
    check_command,
    command_and_args,
    container_environment,
    expand,
    object_references,
)
from launcher.node.pods.pod_spec import containers_of
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object
from tests.node.harness import a_container, a_pod


def host_files() -> HostFiles:
    return HostFiles({}, Path("/logs/main"), Path("/ends/main"), "/opt/bin")


def facts(pod: Object | None = None) -> DownwardApiContext:
    pod = pod or a_pod("p", metadata={"labels": {"a/b": "x"}, "annotations": {"n": 'two\n"lines"'}})
    pod["metadata"]["uid"] = "u-1"
    return DownwardApiContext(pod, "127.0.0.2", {"cpu": "4", "memory": "8Gi"})


def values(*variables: Object, found: Any = None, **container: Any) -> dict[str, str]:
    return container_environment(
        a_container("main", env=list(variables), **container), EnvironmentSources(facts(), found or {})
    )


def ref(kind: str, name: str, key: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}


CONFIG = {
    (CONFIG_MAPS, "c"): {
        "data": {"k": "v", "l": "w"},
        "binaryData": {"b": base64.b64encode(b"\xff").decode()},
    }
}
SECRET = {(SECRETS, "s"): {"data": {"k": base64.b64encode(b"hush").decode()}}}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="references"),
        pytest.param("$(NONE)", "$(NONE)", id="an unknown variable stays"),
        pytest.param("$$(A)", "$(A)", id="an escaped reference"),
        pytest.param("$$$(A)", "$1", id="a dollar before a reference"),
        pytest.param("$$$$", "$$", id="four dollars are two"),
        pytest.param("$A ${A} $(A", "$A ${A} $(A", id="other syntax is not expanded"),
        pytest.param("$()", "$()", id="an empty reference"),
        pytest.param("cost: 5$", "cost: 5$", id="a dollar at the end"),
        pytest.param("$(A$(B))", "$(A$(B))", id="references do not nest"),
    ],
)
def test_variable_references_are_expanded_as_in_kubernetes(text: str, result: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == result


@given(st.text())
def test_escaped_dollar_signs_are_restored(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "1"}) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['a/b']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['n']", 'two\n"lines"'),
        ("metadata.annotations", 'n="two\\n\\"lines\\""'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "default"),
        ("status.hostIP", "127.0.0.2"),
        ("status.podIP", "127.0.0.2"),
        ("status.podIPs", "127.0.0.2"),
    ],
)
def test_field_refs_have_the_values_of_the_pod(path: str, value: str) -> None:
    assert field_value(facts(), path) == value


def test_an_unknown_field_is_rejected_with_the_supported_ones() -> None:
    with pytest.raises(UnknownField, match=r"use metadata\.name"):
        field_value(facts(), "spec.hostname")


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        pytest.param("limits.memory", None, str(64 * 1024 * 1024), id="bytes"),
        pytest.param("limits.memory", "1Mi", "64", id="in mebibytes"),
        pytest.param("requests.cpu", None, "1", id="part of a core is rounded up"),
        pytest.param("requests.cpu", "1m", "250", id="in thousandths of a core"),
        pytest.param("limits.cpu", None, "4", id="without a limit, all that the node has"),
        pytest.param("requests.memory", "1Mi", "64", id="the request defaults to the limit"),
        pytest.param("requests.ephemeral-storage", None, "0", id="no requests"),
        pytest.param("limits.memory", "0", str(64 * 1024 * 1024), id="a divisor of zero is none"),
    ],
)
def test_resource_field_refs_are_divided_by_their_divisor(
    resource: str, divisor: str | None, value: str
) -> None:
    container = a_container("main", resources={"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}})

    assert resource_value(facts(), container, {"resource": resource, "divisor": divisor}) == value


def test_variables_may_use_those_before_them_and_not_those_after() -> None:
    given = values(
        {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}
    )

    assert given == {"A": "1", "B": "1$(C)", "C": "3"}


def test_env_overrides_env_from() -> None:
    source = [{"configMapRef": {"name": "c"}, "prefix": "P_"}]
    found = {(CONFIG_MAPS, "c"): {"data": {"k": "v", "l": "w"}}}

    given = values({"name": "P_l", "value": "own $(P_k)"}, envFrom=source, found=found)

    assert given == {"P_k": "v", "P_l": "own v"}


def test_key_refs_read_config_maps_and_secrets() -> None:
    assert values(ref("configMapKeyRef", "c", "k"), found=CONFIG) == {"X": "v"}
    assert values(ref("secretKeyRef", "s", "k"), found=SECRET) == {"X": "hush"}


@pytest.mark.parametrize("variable", [ref("secretKeyRef", "none", "k"), ref("configMapKeyRef", "c", "none")])
def test_optional_references_may_be_missing(variable: Object) -> None:
    (source,) = variable["valueFrom"].values()
    source["optional"] = True

    assert values(variable, found=CONFIG) == {}


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (ref("secretKeyRef", "none", "k"), 'secret "none" not found'),
        (ref("configMapKeyRef", "none", "k"), 'configmap "none" not found'),
        (ref("configMapKeyRef", "c", "none"), "couldn't find key none in ConfigMap default/c"),
        (ref("configMapKeyRef", "c", "b"), "mount it as a volume"),
        ({"name": "X", "valueFrom": {"fileKeyRef": {}}}, "valueFrom.fileKeyRef is not supported"),
        ({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "no"}}}, 'env "X": unsupported fieldPath'),
        (
            {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}},
            "unsupported container resource",
        ),
    ],
)
def test_a_missing_reference_fails_the_start(variable: Object, message: str) -> None:
    with pytest.raises(StartFailed, match=message) as refused:
        values(variable, found=CONFIG)

    assert refused.value.reason == "CreateContainerConfigError"


def test_object_references_lists_all_config_maps_and_secrets() -> None:
    container = a_container(
        "main",
        env=[ref("secretKeyRef", "s", "k"), {"name": "Y", "value": "1"}],
        envFrom=[{"configMapRef": {"name": "c", "optional": True}}, {"secretRef": {"name": "t"}}],
    )

    named = [(one.kind, one.name, one.optional) for one in object_references(container)]

    assert named == [(CONFIG_MAPS, "c", True), (SECRETS, "t", False), (SECRETS, "s", False)]


def test_only_path_is_inherited_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")

    given = base_environment(facts(), "/opt/venv/bin:/usr/bin:relative:", "/home/ada")

    assert set(given) == {"PATH", "HOME", "HOSTNAME"}
    assert given["PATH"] == "/opt/venv/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
    assert given["HOME"] == "/home/ada"
    assert given["HOSTNAME"] == "p"


def test_commands_and_arguments_use_the_variables() -> None:
    container = {"name": "main", "command": ["run", "$(A)"], "args": ["--index=$(B)", "$(HOME)"]}

    assert command_and_args(container, {"A": "1", "B": "2"}) == (["run", "1"], ["--index=2", "$(HOME)"])


def test_without_a_command_the_arguments_are_run() -> None:
    whole = a_pod("p", {"name": "main", "image": "i", "args": ["python3", "$(A)"]})
    sources = EnvironmentSources(facts(whole))

    config = container_config(containers_of(whole)[0], 0, sources, host_files())

    assert config.argv == ("python3", "$(A)")


def test_a_container_without_command_and_arguments_names_the_solutions() -> None:
    with pytest.raises(StartFailed, match="no command specified") as refused:
        check_command({"name": "main", "image": "tf:2"})

    assert refused.value.reason == "CreateContainerError"
    assert "set command in its spec" in str(refused.value)
    assert "--image tf:2=DIR,entrypoint=COMMAND" in str(refused.value)
    assert "--runtime docker" in str(refused.value)


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        pytest.param({}, {}, (None, None, ()), id="the launcher's own"),
        pytest.param({"runAsUser": 65533}, {}, (65533, 0, ()), id="an unknown user has root's group"),
        pytest.param(
            {"runAsUser": 5, "runAsGroup": 6}, {"runAsUser": 7}, (7, 6, ()), id="the container's word wins"
        ),
        pytest.param(
            {"fsGroup": 9, "supplementalGroups": [8, 9]}, {}, (None, None, (8, 9)), id="further groups"
        ),
        pytest.param({"runAsUser": 5, "runAsGroup": 6, "runAsNonRoot": True}, {}, (5, 6, ()), id="not root"),
    ],
)
def test_a_container_has_the_user_and_groups_of_its_security_context(
    pod: Any, container: Any, expected: Any
) -> None:
    whole = a_pod("p", a_container("main", securityContext=container), securityContext=pod)

    order = container_config(containers_of(whole)[0], 0, EnvironmentSources(facts(whole)), host_files())

    assert (order.user, order.group, order.groups) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (False, False, False), id="none"),
        pytest.param({"stdin": True, "stdinOnce": True}, (True, True, False), id="stdin"),
        pytest.param({"stdinOnce": True, "tty": True}, (False, False, True), id="tty without stdin"),
    ],
)
def test_a_container_has_the_streams_of_its_spec(spec: Any, expected: Any) -> None:
    whole = a_pod("p", a_container("main", **spec))

    config = container_config(containers_of(whole)[0], 0, EnvironmentSources(facts(whole)), host_files())

    assert (config.stdin, config.stdin_once, config.tty) == expected


def test_run_as_non_root_rejects_root() -> None:
    whole = a_pod(
        "p", a_container("main", securityContext={"runAsUser": 0}), securityContext={"runAsNonRoot": True}
    )

    with pytest.raises(StartFailed, match="breaks non-root policy"):
        container_config(containers_of(whole)[0], 0, EnvironmentSources(facts(whole)), host_files())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"volumeDevices": [{}]}, "volumeDevices"),
        ({"volumeMounts": [{"name": "none", "mountPath": "/x"}]}, 'no volume of the pod is named "none"'),
    ],
)
def test_unsupported_container_fields_fail_the_start(more: Any, message: str) -> None:
    whole = a_pod("p", a_container("main", **more))

    with pytest.raises(StartFailed, match=message):
        container_config(containers_of(whole)[0], 0, EnvironmentSources(facts(whole)), host_files())


def test_resource_limits_are_bytes_and_cores() -> None:
    limits = resource_limits({"resources": {"limits": {"memory": "1.5Gi", "cpu": "250m"}}})

    assert (limits.memory, limits.cpu) == (1610612736, 0.25)
    assert resource_limits({"resources": {"limits": {"memory": "0"}}}).memory is None
