"""What pods get so that they find each other."""

import logging
from typing import Any

import pytest

from launcher.controller.attempt_hook import AttemptHook, pod_overlays
from launcher.core.errors import Forbidden, LauncherError, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.pods.overlay import PodOverlay
from launcher.core.pods.pod_template import compile_templates
from launcher.core.spec import FrameworkName, RoleName
from launcher.rendezvous.discovery_hook import DiscoveryHook, LauncherEndpoint
from launcher.rendezvous.programs import command
from tests.core.manifests import Json, a_pod, a_role
from tests.rendezvous.world import PS, UID, WORKER, some_tokens, spec_of

URL = "http://127.0.0.1:8080"
HERE = LauncherEndpoint(URL)
MOUNT = {"name": "launcher-discovery", "mountPath": "/configdir"}


def an_introducer(where: LauncherEndpoint | LauncherError = HERE) -> DiscoveryHook:
    async def told() -> LauncherEndpoint:
        if isinstance(where, LauncherError):
            raise where
        return where

    return DiscoveryHook(some_tokens(), told)


def framework(*roles: Json, **spec: Any) -> Framework:
    return Framework(FrameworkName("mnist"), "lab", UID, 1, spec_of(*roles, **spec))


async def a_pod_of(role: RoleName, *roles: Json, attendant: AttemptHook | None = None, **spec: Any) -> Json:
    """The pod of task 1 of that role, as it is created."""
    whole = framework(*roles, **spec)
    extras = await pod_overlays([attendant or an_introducer()], whole, 2)
    return compile_templates(whole, 2, extras)[role].pod(1, 0, 0)["spec"]  # type: ignore[no-any-return]  # plain JSON


def environment(container: Json) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


async def test_every_pod_can_ask_whether_discovery_is_wanted_or_not() -> None:
    pod = await a_pod_of(WORKER, a_role(tasks=2))

    given = environment(pod["containers"][0])
    assert given["LAUNCHER_RENDEZVOUS"] == f"{URL}/rendezvous/v1/namespaces/lab/frameworks/mnist/attempts/2"
    assert given["LAUNCHER_TOKEN"] == await some_tokens().token(UID, 2)
    assert "LAUNCHER_CA" not in given
    assert "initContainers" not in pod
    assert "volumes" not in pod


async def test_a_private_authority_is_told_to_them() -> None:
    attendant = an_introducer(LauncherEndpoint("https://framework-launcher.home.svc", "-----BEGIN…"))

    pod = await a_pod_of(WORKER, a_role(tasks=2), attendant=attendant)

    assert environment(pod["containers"][0])["LAUNCHER_CA"] == "-----BEGIN…"


async def test_what_the_user_says_himself_counts() -> None:
    container = {"name": "main", "env": [{"name": "LAUNCHER_TOKEN", "value": "mine"}]}

    pod = await a_pod_of(WORKER, a_role(tasks=2, pod=a_pod(containers=[container])))

    assert environment(pod["containers"][0])["LAUNCHER_TOKEN"] == "mine"


async def test_with_discovery_an_init_container_of_ours_runs_first_and_all_see_its_files() -> None:
    theirs = a_pod(initContainers=[{"name": "init", "image": "alpine"}])

    pod = await a_pod_of(WORKER, a_role(tasks=2, pod=theirs), discovery={})

    ours, init = pod["initContainers"]
    assert (ours["name"], init["name"]) == ("launcher-discovery", "init")
    assert (ours["image"], ours["command"]) == ("busybox", list(command("rendezvous.sh")))
    assert pod["volumes"] == [{"name": "launcher-discovery", "emptyDir": {}}]
    assert [each["volumeMounts"] for each in (ours, init, *pod["containers"])] == [[MOUNT]] * 3
    assert ours["terminationMessagePolicy"] == "FallbackToLogsOnError"


async def test_it_knows_whose_it_is_and_what_to_do() -> None:
    roles = (a_role("ps", 2), a_role(tasks=2))
    discovery = {"ports": {"ps": 46867, "worker": "auto"}, "waitForPorts": True, "timeoutSeconds": 90}

    worker, ps = [
        environment((await a_pod_of(role, *roles, discovery=discovery))["initContainers"][0])
        for role in (WORKER, PS)
    ]

    orders = ("LAUNCHER_MOUNT", "LAUNCHER_TIMEOUT", "LAUNCHER_PORT", "LAUNCHER_WAIT_PORTS")
    assert [worker.get(name) for name in orders] == ["/configdir", "90", "auto", "ps"]
    assert [ps.get(name) for name in orders] == ["/configdir", "90", None, ""]
    assert set(PodIdentityKey) <= set(worker)
    assert worker["FC_TASK_INDEX"] == {"fieldRef": {"fieldPath": "metadata.annotations['FC_TASK_INDEX']"}}
    assert worker["FC_TASK_ATTEMPT_INSTANCE_UID"] == "$(FC_TASK_ATTEMPT_ID)_$(FC_POD_UID)"
    assert worker["LAUNCHER_TOKEN"] == await some_tokens().token(UID, 2)


async def test_what_it_is_told_of_itself_stands_in_the_pod() -> None:
    whole = framework(a_role(tasks=2), discovery={})
    extras = await pod_overlays([an_introducer()], whole, 0)

    annotations = compile_templates(whole, 0, extras)[WORKER].pod(1, 0, 0)["metadata"]["annotations"]

    assert {
        mark: annotations.get(mark) for mark in (PodIdentityKey.TASK_INDEX, PodIdentityKey.TASKROLE_NAME)
    } == {
        PodIdentityKey.TASK_INDEX: "1",
        PodIdentityKey.TASKROLE_NAME: "worker",
    }
    assert set(PodIdentityKey) <= set(annotations)


async def test_another_image_can_be_named() -> None:
    container = {"name": "main", "image": "tensorflow", "imagePullPolicy": "Always"}
    roles = (a_role(tasks=2, pod=a_pod(containers=[container])),)

    theirs = (await a_pod_of(WORKER, *roles, discovery={}))["initContainers"][0]
    named = (await a_pod_of(WORKER, *roles, discovery={"image": "curl"}))["initContainers"][0]

    assert (theirs["image"], theirs["imagePullPolicy"]) == ("tensorflow", "Always")
    assert (named["image"], named.get("imagePullPolicy")) == ("curl", None)


async def test_it_fits_where_the_users_container_fits() -> None:
    """Quotas ask every container for its share, and strict clusters for its rights."""
    container = {
        "name": "main",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"memory": "2Gi", "nvidia.com/gpu": "1"},
        },
        "securityContext": {"runAsUser": 1000, "privileged": True},
    }

    pod = await a_pod_of(WORKER, a_role(tasks=2, pod=a_pod(containers=[container])), discovery={})

    ours = pod["initContainers"][0]
    assert ours["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert ours["securityContext"] == {
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        pytest.param({"hostNetwork": True}, "ClusterFirstWithHostNet", id="in the node's network"),
        pytest.param({"hostNetwork": True, "dnsPolicy": "Default"}, "Default", id="unless the user says how"),
        pytest.param({}, None, id="elsewhere it can anyway"),
    ],
)
async def test_it_can_look_up_where_the_launcher_is(fields: Json, policy: str | None) -> None:
    pod = await a_pod_of(WORKER, a_role(tasks=2, pod=a_pod(**fields)), discovery={})

    assert pod.get("dnsPolicy") == policy


@pytest.mark.parametrize("error", [Forbidden("no right to the Secret"), NotFound("no certificate")])
async def test_an_admin_who_has_something_to_do_holds_up_only_those_who_need_it(
    error: LauncherError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    attendant = an_introducer(error)

    with pytest.raises(type(error)):
        await attendant.prepare(framework(a_role(), discovery={}), 0)
    for _ in range(3):
        assert await pod_overlays([attendant], framework(a_role()), 0) == {WORKER: PodOverlay()}
    assert [record.message for record in caplog.records] == ["pods cannot ask for their peers"]


async def test_a_store_that_is_away_holds_up_everybody_for_a_while() -> None:
    with pytest.raises(Unavailable):
        await an_introducer(Unavailable("away")).prepare(framework(a_role()), 0)


async def test_nothing_is_left_behind() -> None:
    await an_introducer().finish(framework(a_role(), discovery={}))
