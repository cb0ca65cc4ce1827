"""What the discovery hook adds to pods."""

import logging
from typing import Any

import pytest

from launcher.controller.attempt_hook import pod_overlays
from launcher.core.errors import Forbidden, LauncherError, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.pods.overlay import PodOverlay
from launcher.core.pods.pod_template import compile_templates
from launcher.core.spec import FrameworkName, RoleName
from launcher.rendezvous.container_programs import program_command
from launcher.rendezvous.discovery_hook import DiscoveryHook, LauncherEndpoint
from tests.builders import Json, a_pod_template, a_role
from tests.rendezvous.harness import PS, UID, WORKER, some_tokens, spec_of

URL = "http://127.0.0.1:8080"
ENDPOINT = LauncherEndpoint(URL)
MOUNT = {"name": "launcher-discovery", "mountPath": "/configdir"}


def a_hook(endpoint: LauncherEndpoint | LauncherError = ENDPOINT) -> DiscoveryHook:
    """A hook of a launcher with this endpoint, or with this error instead."""

    async def get_endpoint() -> LauncherEndpoint:
        if isinstance(endpoint, LauncherError):
            raise endpoint
        return endpoint

    return DiscoveryHook(some_tokens(), get_endpoint)


def framework(*roles: Json, **spec: Any) -> Framework:
    return Framework(FrameworkName("mnist"), "lab", UID, 1, spec_of(*roles, **spec))


async def created_pod(
    role: RoleName, *roles: Json, hook: DiscoveryHook | None = None, attempt: int = 2, **spec: Any
) -> Json:
    """The pod of task 1 of the role, as it is created."""
    parsed = framework(*roles, **spec)
    overlays = await pod_overlays([hook or a_hook()], parsed, attempt)
    return compile_templates(parsed, attempt, overlays)[role].pod(1, 0, 0)


async def pod_spec(role: RoleName, *roles: Json, **options: Any) -> Json:
    return (await created_pod(role, *roles, **options))["spec"]  # type: ignore[no-any-return]  # plain JSON


async def init_container(role: RoleName, *roles: Json, **options: Any) -> Json:
    return (await pod_spec(role, *roles, **options))["initContainers"][0]  # type: ignore[no-any-return]  # plain JSON


def environment(container: Json) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


async def test_every_pod_gets_the_url_and_its_token_even_without_discovery() -> None:
    spec = await pod_spec(WORKER, a_role(tasks=2))

    variables = environment(spec["containers"][0])
    url = f"{URL}/rendezvous/v1/namespaces/lab/frameworks/mnist/attempts/2"
    assert variables["LAUNCHER_RENDEZVOUS"] == url
    assert variables["LAUNCHER_TOKEN"] == await some_tokens().create_token(UID, 2)
    assert "LAUNCHER_CA" not in variables
    assert "initContainers" not in spec
    assert "volumes" not in spec


async def test_a_private_ca_is_passed_to_pods() -> None:
    hook = a_hook(LauncherEndpoint("https://framework-launcher.home.svc", "-----BEGIN…"))

    spec = await pod_spec(WORKER, a_role(tasks=2), hook=hook)

    assert environment(spec["containers"][0])["LAUNCHER_CA"] == "-----BEGIN…"


async def test_pods_on_the_host_network_may_have_another_endpoint() -> None:
    hook = a_hook(LauncherEndpoint("http://10.1.2.1", on_host_network=ENDPOINT))
    roles = (a_role("worker", 2), a_role("ps", 2, pod=a_pod_template(hostNetwork=True)))

    urls = [
        environment((await pod_spec(role, *roles, hook=hook))["containers"][0])["LAUNCHER_RENDEZVOUS"]
        for role in (WORKER, PS)
    ]

    assert [url.partition("/rendezvous")[0] for url in urls] == ["http://10.1.2.1", URL]


async def test_variables_of_the_template_override_those_of_the_launcher() -> None:
    container = {"name": "main", "env": [{"name": "LAUNCHER_TOKEN", "value": "mine"}]}

    spec = await pod_spec(WORKER, a_role(tasks=2, pod=a_pod_template(containers=[container])))

    assert environment(spec["containers"][0])["LAUNCHER_TOKEN"] == "mine"


async def test_discovery_adds_an_init_container_that_runs_first_and_mounts_its_files_everywhere() -> None:
    template = a_pod_template(initContainers=[{"name": "init", "image": "alpine"}])

    spec = await pod_spec(WORKER, a_role(tasks=2, pod=template), discovery={})

    added, init = spec["initContainers"]
    assert (added["name"], init["name"]) == ("launcher-discovery", "init")
    assert (added["image"], added["command"]) == ("busybox", list(program_command("rendezvous.sh")))
    assert spec["volumes"] == [{"name": "launcher-discovery", "emptyDir": {}}]
    assert [each["volumeMounts"] for each in (added, init, *spec["containers"])] == [[MOUNT]] * 3
    assert added["terminationMessagePolicy"] == "FallbackToLogsOnError"


async def test_the_init_container_gets_its_identity_and_the_options_of_discovery() -> None:
    roles = (a_role("ps", 2), a_role(tasks=2))
    discovery = {"ports": {"ps": 46867, "worker": "auto"}, "waitForPorts": True, "timeoutSeconds": 90}

    worker = environment(await init_container(WORKER, *roles, discovery=discovery))
    ps = environment(await init_container(PS, *roles, discovery=discovery))

    options = ("LAUNCHER_MOUNT", "LAUNCHER_TIMEOUT", "LAUNCHER_PORT", "LAUNCHER_WAIT_PORTS")
    assert [worker.get(name) for name in options] == ["/configdir", "90", "auto", "ps"]
    assert [ps.get(name) for name in options] == ["/configdir", "90", None, ""]
    assert set(PodIdentityKey) <= set(worker)
    assert worker["FC_TASK_INDEX"] == {"fieldRef": {"fieldPath": "metadata.annotations['FC_TASK_INDEX']"}}
    assert worker["FC_TASK_ATTEMPT_INSTANCE_UID"] == "$(FC_TASK_ATTEMPT_ID)_$(FC_POD_UID)"
    assert worker["LAUNCHER_TOKEN"] == await some_tokens().create_token(UID, 2)


async def test_the_annotations_of_the_pod_have_the_identity_of_the_init_container() -> None:
    pod = await created_pod(WORKER, a_role(tasks=2), discovery={})

    annotations = pod["metadata"]["annotations"]
    assert annotations[PodIdentityKey.TASK_INDEX] == "1"
    assert annotations[PodIdentityKey.TASKROLE_NAME] == "worker"
    assert set(PodIdentityKey) <= set(annotations)


async def test_discovery_image_overrides_the_image_of_the_first_container() -> None:
    container = {"name": "main", "image": "tensorflow", "imagePullPolicy": "Always"}
    role = a_role(tasks=2, pod=a_pod_template(containers=[container]))

    default = await init_container(WORKER, role, discovery={})
    configured = await init_container(WORKER, role, discovery={"image": "curl"})

    assert (default["image"], default["imagePullPolicy"]) == ("tensorflow", "Always")
    assert (configured["image"], configured.get("imagePullPolicy")) == ("curl", None)


async def test_the_init_container_copies_resources_and_user_of_the_first_container() -> None:
    """Quotas may require resources of every container, and pod security standards a restricted context."""
    container = {
        "name": "main",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"memory": "2Gi", "nvidia.com/gpu": "1"},
        },
        "securityContext": {"runAsUser": 1000, "privileged": True},
    }
    role = a_role(tasks=2, pod=a_pod_template(containers=[container]))

    added = await init_container(WORKER, role, discovery={})

    assert added["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert added["securityContext"] == {
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        pytest.param({"hostNetwork": True}, "ClusterFirstWithHostNet", id="host network"),
        pytest.param({"hostNetwork": True, "dnsPolicy": "Default"}, "Default", id="set in the template"),
        pytest.param({}, None, id="pod network"),
    ],
)
async def test_a_pod_with_host_network_can_resolve_the_launchers_service(
    fields: Json, policy: str | None
) -> None:
    spec = await pod_spec(WORKER, a_role(tasks=2, pod=a_pod_template(**fields)), discovery={})

    assert spec.get("dnsPolicy") == policy


@pytest.mark.parametrize("error", [Forbidden("Secret not readable"), NotFound("no certificate")])
async def test_an_error_that_an_admin_has_to_fix_delays_only_frameworks_with_discovery(
    error: LauncherError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    hook = a_hook(error)

    with pytest.raises(type(error)):
        await hook.prepare(framework(a_role(), discovery={}), 0)
    for _ in range(3):
        assert await pod_overlays([hook], framework(a_role()), 0) == {WORKER: PodOverlay()}
    assert [record.message for record in caplog.records] == ["rendezvous unavailable for pods"]


async def test_an_unavailable_store_delays_all_frameworks() -> None:
    with pytest.raises(Unavailable):
        await a_hook(Unavailable("away")).prepare(framework(a_role()), 0)


async def test_a_completed_framework_needs_no_cleanup() -> None:
    await a_hook().finish(framework(a_role(), discovery={}))
